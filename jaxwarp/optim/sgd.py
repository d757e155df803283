"""Gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launch import launch
from jaxwarp.boundary import boundaries
from jaxwarp.decorators import kernel
from jaxwarp.errors import KernelValueError
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS
from jaxwarp.frontend.text.annotations import array
from jaxwarp.memory.host_scope import HOST, require_uncaptured
from jaxwarp.optim.parameters import (
    accurate,
    require_gradient,
    require_number,
    require_parameters,
    scalars,
    states_for,
)

_tid = INTRINSICS["tid"]


@kernel(enable_backward=False)
def _step(  # noqa: PLR0913 - what a kernel reads
    g: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    b: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    rate: Any,
    momentum: Any,
    dampening: Any,
    decay: Any,
    is_nesterov: bool,
    is_first: bool,
    params: array[Any],  # pyright: ignore[reportInvalidTypeForm]
):
    i = _tid()
    p = b.dtype(params[i])
    direction = b.dtype(g[i]) + decay * p
    if momentum != b.dtype(0.0):
        past = direction
        if not is_first:
            past = momentum * b[i] + (b.dtype(1.0) - dampening) * direction
        b[i] = past
        direction = direction + momentum * past if is_nesterov else past
    params[i] = params.dtype(p - rate * direction)


@boundaries
class SGD:
    """Gradient descent with momentum, for arrays outside of JAX. In JAX, use optax.

    The momentum is that of PyTorch's `torch.optim.SGD`.

    Attributes:
        params: the list of parameters.
        b: the momentum: a list with an array for each parameter, of float32, or of float64 for parameters of float64.
        t: the number of steps so far.

    Source:
        I. Sutskever, J. Martens, G. Dahl, G. Hinton, "On the importance of initialization and momentum in deep
        learning", ICML 2013.

    Examples:
        >>> x = jaxwarp.array([1.0, 2.0], dtype=float)
        >>> optimizer = jaxwarp.optim.SGD([x], lr=0.5)
        >>> optimizer.step([jaxwarp.array([1.0, -1.0], dtype=float)])
        >>> print(x.numpy().round(3))
        [0.5 2.5]
    """

    _SETTABLE: ClassVar[tuple[str, ...]] = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "t",)
    _HINTS: ClassVar[dict[str, str]] = {"params": "call set_params([array])"}

    def __init__(
        self,
        params: Any = None,
        lr: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ):
        """Make an optimiser.

        Args:
            params: a list of arrays outside of JAX, of floats or of vectors or matrices of floats. Steps update them in
                place. None: pass them to `set_params` later.
            lr: the learning rate.
            momentum: the factor of the momentum of the step before.
            dampening: the gradient enters the momentum with the factor `1 - dampening`, from the second step on.
            weight_decay: `weight_decay` times the parameter is added to its gradient.
            nesterov: use Nesterov's momentum.

        Raises:
            KernelTypeError, KernelValueError: an argument has another type or shape.
        """
        numbers = (("lr", lr), ("momentum", momentum), ("dampening", dampening), ("weight_decay", weight_decay))
        self.lr, self.momentum, self.dampening, self.weight_decay = (require_number("SGD", n, v) for n, v in numbers)
        self.nesterov = bool(nesterov)
        self.b: list[HostArray] = []
        self.t = 0
        self._start()
        self._take(params)

    def set_params(self, params: Any) -> None:
        """Set the parameters. The momentum stays if it fits the new parameters.

        Raises:
            KernelTypeError, KernelValueError: an array cannot be a parameter, or a capture is being made.
        """
        require_uncaptured("SGD.set_params", "call it before, or make an optimiser for each list of parameters")
        self._take(params)

    def _take(self, params: Any) -> None:
        self.params = None if params is None else require_parameters("SGD", params)
        self.b = states_for(self.params or (), self.b)

    def reset_internal_state(self) -> None:
        """Set the state to zero, as before the first step."""
        for state in self.b:
            state.zero_()
        self._start()

    def _start(self) -> None:
        if not HOST.defers("SGD.start", self._start):
            self.t = 0

    def step(self, grad: Any) -> None:
        """Update the parameters once.

        Args:
            grad: a list of gradients, each of the type and shape of its parameter.

        Raises:
            KernelTypeError, KernelValueError: the gradients do not fit the parameters, or there are no parameters.
        """
        if self.params is None:
            raise KernelValueError("SGD: step: there are no parameters", hint="call set_params([array])")
        if len(grad) != len(self.params):
            raise KernelValueError(f"SGD: step: expected {len(self.params)} gradients, got {len(grad)}")
        work = list(zip(grad, self.b, self.params, strict=True))
        if not HOST.defers("SGD.step", lambda: self._make(work)):
            self._make(work)

    def _make(self, work: Sequence[tuple[Any, HostArray, HostArray]]) -> None:
        options = self.lr, self.momentum, self.dampening, self.weight_decay, self.nesterov, self.t
        for gradient, state, array_ in work:
            self.step_detail(gradient, state, *options, array_)
        self.t += 1

    @staticmethod
    def step_detail(  # noqa: PLR0913 - the signature users know from Warp
        g: Any,
        b: HostArray,
        lr: float,
        momentum: float,
        dampening: float,
        weight_decay: float,
        nesterov: bool,
        t: int,
        params: Any,
    ) -> None:
        """Make step number `t` for one array `params`, with the gradient `g` and the momentum `b`.

        Raises:
            KernelTypeError, KernelValueError: `g` does not fit `params`.
        """
        (given,) = require_parameters("SGD", [params])
        row, number = scalars(given), accurate(given)
        gradient = scalars(require_gradient("SGD", g, given))
        numbers = [number.numpy.type(value) for value in (lr, momentum, dampening, weight_decay)]
        launch(_step, row.shape[0], [gradient, scalars(b), *numbers, bool(nesterov), t == 0, row])
