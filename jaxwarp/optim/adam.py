"""Adam: steps scaled by running means of the gradient and its square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launch import launch
from jaxwarp.boundary import boundaries
from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.decorators import kernel
from jaxwarp.errors import KernelTypeError, KernelValueError
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

_tid, _sqrt = INTRINSICS["tid"], FUNCTIONS["sqrt"]


@kernel(enable_backward=False)
def _step(  # noqa: PLR0913 - what a kernel reads
    g: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    m: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    v: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    rate: Any,
    beta1: Any,
    beta2: Any,
    bias1: Any,
    bias2: Any,
    eps: Any,
    params: array[Any],  # pyright: ignore[reportInvalidTypeForm]
):
    i = _tid()
    one = m.dtype(1.0)
    gradient = m.dtype(g[i])
    mean = beta1 * m[i] + (one - beta1) * gradient
    square = beta2 * v[i] + (one - beta2) * gradient * gradient
    m[i] = mean
    v[i] = square
    change = rate * (mean / bias1) / (_sqrt(square / bias2) + eps)
    params[i] = params.dtype(m.dtype(params[i]) - change)


@boundaries
class Adam:
    """The optimiser Adam, for arrays outside of JAX. In JAX, use optax.

    Attributes:
        params: the list of parameters.
        m, v: running means of the gradient and of its square: lists with an array for each parameter, of float32, or of
            float64 for parameters of float64.
        t: the number of steps so far.

    Source:
        D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1.

    Examples:
        >>> x = jaxwarp.array([1.0, 2.0], dtype=float)
        >>> optimizer = jaxwarp.optim.Adam([x], lr=0.1)
        >>> optimizer.step([jaxwarp.array([1.0, -1.0], dtype=float)])
        >>> print(x.numpy().round(3))
        [0.9 2.1]
    """

    _SETTABLE: ClassVar[tuple[str, ...]] = ("lr", "eps", "beta1", "beta2", "t",)
    _HINTS: ClassVar[dict[str, str]] = {"params": "call set_params([array])"}

    def __init__(
        self, params: Any = None, lr: float = 0.001, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ):
        """Make an optimiser.

        Args:
            params: a list of arrays outside of JAX, of floats or of vectors or matrices of floats. Steps update them in
                place. None: pass them to `set_params` later.
            lr: the learning rate.
            betas: the decay factors of the running means of the gradient and of its square, in each step.
            eps: added to the square root of the mean square, so that no division by 0 occurs.

        Raises:
            KernelTypeError, KernelValueError: an argument has another type or shape.
        """
        if not isinstance(betas, list | tuple) or len(betas) != 2:
            raise KernelTypeError(f"Adam: betas must be two numbers, got {betas!r}")
        self.lr, self.eps = require_number("Adam", "lr", lr), require_number("Adam", "eps", eps)
        self.beta1, self.beta2 = (require_number("Adam", "betas", beta) for beta in betas)
        self.m: list[HostArray] = []
        self.v: list[HostArray] = []
        self.t = 0
        self._start()
        self._take(params)

    def set_params(self, params: Any) -> None:
        """Set the parameters. Running means stay if they fit the new parameters.

        Raises:
            KernelTypeError, KernelValueError: an array cannot be a parameter, or a capture is being made.
        """
        require_uncaptured("Adam.set_params", "call it before, or make an optimiser for each list of parameters")
        self._take(params)

    def _take(self, params: Any) -> None:
        self.params = None if params is None else require_parameters("Adam", params)
        self.m, self.v = (states_for(self.params or (), states) for states in (self.m, self.v))

    def reset_internal_state(self) -> None:
        """Set the state to zero, as before the first step."""
        for state in (*self.m, *self.v):
            state.zero_()
        self._start()

    def _start(self) -> None:
        if not HOST.defers("Adam.start", self._start):
            self.t = 0

    def step(self, grad: Any) -> None:
        """Update the parameters once.

        Args:
            grad: a list of gradients, each of the type and shape of its parameter.

        Raises:
            KernelTypeError, KernelValueError: the gradients do not fit the parameters, or there are no parameters.
        """
        if self.params is None:
            raise KernelValueError("Adam: step: there are no parameters", hint="call set_params([array])")
        if len(grad) != len(self.params):
            raise KernelValueError(f"Adam: step: expected {len(self.params)} gradients, got {len(grad)}")
        work = list(zip(grad, self.m, self.v, self.params, strict=True))
        if not HOST.defers("Adam.step", lambda: self._make(work)):
            self._make(work)

    def _make(self, work: Sequence[tuple[Any, HostArray, HostArray, HostArray]]) -> None:
        for gradient, m, v, array_ in work:
            self.step_detail(gradient, m, v, self.lr, self.beta1, self.beta2, self.t, self.eps, array_)
        self.t += 1

    @staticmethod
    def step_detail(  # noqa: PLR0913 - the signature users know from Warp
        g: Any,
        m: HostArray,
        v: HostArray,
        lr: float,
        beta1: float,
        beta2: float,
        t: int,
        eps: float,
        params: Any,
    ) -> None:
        """Make step number `t` for one array `params`, with the gradient `g` and the running means `m` and `v`.

        Raises:
            KernelTypeError, KernelValueError: `g` does not fit `params`.
        """
        (given,) = require_parameters("Adam", [params])
        row, number = scalars(given), accurate(given)
        gradient = scalars(require_gradient("Adam", g, given))
        values = (lr, beta1, beta2, 1.0 - beta1 ** (t + 1), 1.0 - beta2 ** (t + 1), eps)
        numbers = [number.numpy.type(value) for value in values]
        launch(_step, row.shape[0], [gradient, scalars(m), scalars(v), *numbers, row])
