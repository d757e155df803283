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
    """Gradient descent with momentum: I. Sutskever, J. Martens, G. Dahl, G. Hinton, "On the importance of
    initialization and momentum in deep learning", ICML 2013, in the form of PyTorch's `torch.optim.SGD`.

    Attributes:
        params: the parameters.
        b: what is remembered of past gradients, a float32 (float64) array for each.
        t: how many steps were made.
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
        """An optimiser.

        Args:
            params: a list of arrays outside of JAX, of floats, or vectors or matrices of them: updated in place. None:
                `set_params` says which.
            lr: the learning rate.
            momentum: how much of the last step is kept.
            dampening: how much less of the gradient goes into it.
            weight_decay: times the parameters is added to the gradient.
            nesterov: look ahead along the momentum.

        Raises:
            KernelTypeError, KernelValueError: the arguments are not that.
        """
        numbers = (("lr", lr), ("momentum", momentum), ("dampening", dampening), ("weight_decay", weight_decay))
        self.lr, self.momentum, self.dampening, self.weight_decay = (require_number("SGD", n, v) for n, v in numbers)
        self.nesterov = bool(nesterov)
        self.b: list[HostArray] = []
        self.t = 0
        self._start()
        self._take(params)

    def set_params(self, params: Any) -> None:
        """Says what is optimised; what is remembered is kept where it fits.

        Raises:
            KernelTypeError, KernelValueError: these are no parameters; a capture is being made.
        """
        require_uncaptured("SGD.set_params", "call it before, or make an optimiser for each list of parameters")
        self._take(params)

    def _take(self, params: Any) -> None:
        self.params = None if params is None else require_parameters("SGD", params)
        self.b = states_for(self.params or (), self.b)

    def reset_internal_state(self) -> None:
        """Forgets the steps that were made."""
        for state in self.b:
            state.zero_()
        self._start()

    def _start(self) -> None:
        if not HOST.defers("SGD.start", self._start):
            self.t = 0

    def step(self, grad: Any) -> None:
        """Makes a step.

        Args:
            grad: a list of arrays like the parameters.

        Raises:
            KernelTypeError, KernelValueError: these are no gradients of the parameters, or there are no parameters.
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
        """One step, number `t`, of one array: gradient `g`, memory `b`.

        Raises:
            KernelTypeError, KernelValueError: `g` is no gradient of `params`.
        """
        (given,) = require_parameters("SGD", [params])
        row, number = scalars(given), accurate(given)
        gradient = scalars(require_gradient("SGD", g, given))
        numbers = [number.numpy.type(value) for value in (lr, momentum, dampening, weight_decay)]
        launch(_step, row.shape[0], [gradient, scalars(b), *numbers, bool(nesterov), t == 0, row])
