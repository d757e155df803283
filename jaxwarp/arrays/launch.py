"""`launch`: at once on memory, or as an operation of the program that is traced. `launching.py` has its steps."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from jaxwarp.arrays.eager import CheckedLaunch, check
from jaxwarp.arrays.launching import (
    NOWHERE,
    Target,
    all_as_now,
    as_now,
    has_no_threads,
    leaves_as_now,
    place_of,
    run_launch,
    target_of,
)
from jaxwarp.arrays.tapes.adjoint import reverse_launch
from jaxwarp.boundary import boundaries, located_call
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.dims import normalize_dims
from jaxwarp.launches.arguments.leaves import spread
from jaxwarp.launches.lanes import warn_of_lanes
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.devices import Device
from jaxwarp.memory.gpu.scope import device_of
from jaxwarp.memory.host_scope import HOST, capturing


@located_call
def launch(  # noqa: PLR0913 - the signature users know from Warp
    kernel: Kernel,
    dim: Any,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Any = None,
    stream: Any = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | str | None = None,
) -> Launch | None:
    """Launch a kernel.

    Outside of JAX, in a callback, and under `GraphMode.NONE` it runs at once and writes to the arrays of jaxwarp and
    NumPy. In a `jax_callable`, the launch becomes part of the program that JAX traces.

    Args:
        kernel: made by `@kernel`.
        dim: threads along each axis: an integer, or a tuple or list.
        inputs: the kernel's first arguments: arrays and numbers.
        outputs: its other arguments. You may leave out the last ones if they have default values. The kernel's code
            decides which arguments it writes, not the list that an argument is in.
        adj_inputs: with `adjoint`, outside of JAX: arrays to which the derivatives by the inputs are added, or None.
        adj_outputs: with `adjoint`: the derivatives by the outputs.
        device: outside of JAX, the device, "cpu" or "cuda:0". None: that of the arrays, or the current one. No effect
            in a `jax_callable`: JAX places the program.
        stream: outside of JAX, the CUDA stream. No effect in a `jax_callable`.
        adjoint: run the adjoint of the kernel, not the kernel.
        record_tape: whether an active `Tape` records the launch.
        record_cmd: launch nothing, and return a `Launch` that you can launch often, also with other arguments.
        max_blocks: accepted, no effect.
        block_dim: CUDA threads per block; "auto": as `wp.autotune` has measured.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
        DifferentiationError: with `adjoint`, the kernel has no derivative.
    """
    del max_blocks
    if not isinstance(kernel, Kernel):
        of_jax = isinstance(getattr(kernel, "kernel", None), Kernel)
        hint = "pass its attribute kernel" if of_jax else "decorate it with @jaxwarp.kernel"
        raise KernelTypeError(f"launch: expected a kernel, got {kernel!r}", hint=hint)
    ins, outs = _as_list(inputs), _as_list(outputs)
    given = [*ins, *outs]
    dim = tuple(dim) if isinstance(dim, list) else dim  # which may change before a launch that is kept
    if len(given) < len(kernel.arguments):
        given += [kernel.defaults[a.name] for a in kernel.arguments[len(given) :] if a.name in kernel.defaults]
    if len(given) != len(kernel.arguments):
        count, listed = len(kernel.arguments), ", ".join(a.name for a in kernel.arguments)
        raise KernelTypeError(
            f"kernel {kernel.name}: expected {count} arguments ({listed}), got {len(given)}",
            hint="launch takes all of them, the arrays that are written too: inputs=[...], outputs=[...]",
        )
    adjoints = None
    if adjoint or adj_inputs or adj_outputs:
        _require_host("launch with adjoint")
        adjoints = _adjoints(kernel, len(ins), adj_inputs, adj_outputs) if adjoint else None
    is_open = device is None and stream is None  # the arrays decide
    target = NOWHERE if is_open or scope_now() is not HOST else target_of(device, stream)
    if record_cmd:
        command = Launch(kernel, dim, given, adjoints, block_dim, record_tape, target)
        command.set_dim(dim)
        return command
    if adjoints is None:
        run_launch(kernel, dim, given, block_dim, record_tape, target)
    else:
        _run_adjoint(kernel, dim, given, adjoints)
    return None


@located_call
def launch_tiled(kernel: Kernel, dim: Any, *args: Any, block_dim: Any = None, **options: Any) -> Launch | None:
    """Launch a kernel that works on tiles, as `launch` does with one more axis for the threads of a block.

    A block has one thread, as on Warp's CPU: `i, j, lane = tid()` gives lane 0, and `block_dim()` is 1.

    Args:
        dim: blocks along each axis.
        block_dim: what Warp takes for its GPUs; has no effect. There is a warning if the kernel names the threads of
            a block, and this is not 1.
    """
    known = block_dim is None or (isinstance(block_dim, numbers.Integral) and not isinstance(block_dim, bool))
    if not known or (block_dim is not None and block_dim < 1):
        raise KernelValueError(
            f"launch_tiled: block_dim must be a positive integer, got {block_dim!r}", hint="leave it out"
        )
    blocks = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    made = launch.__wrapped__(kernel, (*blocks, 1), *args, **options)  # pyright: ignore[reportFunctionMemberAccess]
    if block_dim is not None:
        for known in (kernel.found, *(other.found for other in kernel.found.given.values())):
            for specialized in known.specialized.values():
                warn_of_lanes(specialized, int(block_dim), len(blocks))
    return made


class Bounds(NamedTuple):
    """The threads of a launch: along each axis."""

    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of threads."""
        return math.prod(self.shape)


@boundaries
class Launch:
    """A launch that you can repeat, as `launch(..., record_cmd=True)` returns it.

    It keeps the numbers, vectors and structs that were passed, as in Warp.

    Attributes:
        kernel: what is launched.
        dim: threads along each axis.
        params: the arguments, in order.
    """

    _HINTS: ClassVar[dict[str, str]] = {"dim": "call set_dim(dim)", "params": "call set_param_at_index(0, value)"}

    def __init__(
        self,
        kernel: Kernel,
        dim: Any,
        params: list[Any],
        adjoints: list[Any] | None,
        block_dim: Any,
        is_recorded: bool,
        target: Target = NOWHERE,
    ):
        self.kernel, self.dim = kernel, dim
        self.params = all_as_now(kernel, params)
        self._adjoints, self._block_dim, self._is_recorded, self._target = adjoints, block_dim, is_recorded, target

    def __repr__(self) -> str:
        return f"Launch({self.kernel.name}, dim={self.dim})"

    @property
    def bounds(self) -> Bounds:
        """Its threads.

        Raises:
            KernelTypeError, KernelValueError: `dim` is no extents.
        """
        return Bounds(normalize_dims(self.dim, f"kernel {self.kernel.name}: dim"))

    @property
    def device(self) -> Device:
        """The device on which the launch runs."""
        return device_of(place_of(self._target, spread(self.kernel.given(self.params), self.params)))

    def checked(self) -> CheckedLaunch:
        """Check the launch and return it with its place, without running it."""
        kernel = self.kernel.given(self.params)
        given = spread(kernel, self.params)
        return check(place_of(self._target, given), kernel, self.dim, given, self._block_dim)

    def run(self) -> None:
        """The launch itself."""
        if self._adjoints is None:
            run_launch(self.kernel, self.dim, self.params, self._block_dim, self._is_recorded, self._target)
        else:
            _run_adjoint(self.kernel, self.dim, self.params, self._adjoints)

    def launch(self, stream: Any = None) -> None:
        """Launches it, on `stream`, or where it was made for.

        Raises:
            KernelTypeError, KernelValueError: the arguments do not fit the kernel.
        """
        if stream is None or scope_now() is not HOST:
            self.run()
            return
        before, self._target = self._target, target_of(None, stream)
        try:
            self.run()
        finally:
            self._target = before

    def set_dim(self, dim: Any) -> None:
        """Sets the threads along each axis.

        Raises:
            KernelTypeError, KernelValueError: `dim` is no extents.
        """
        normalize_dims(dim, f"kernel {self.kernel.name}: dim")
        self.dim = tuple(dim) if isinstance(dim, list) else dim

    def set_param_at_index(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Sets an argument by its number, from 0; with `adjoint` what holds its derivative.

        Raises:
            KernelValueError: there is no such argument, or the launch is of no adjoint.
        """
        if not isinstance(index, int) or not 0 <= index < len(self.params):
            raise KernelValueError(
                f"{self!r}: there is no argument {index!r}", hint=f"write a number from 0 to {len(self.params) - 1}"
            )
        if adjoint and self._adjoints is None:
            raise KernelValueError(f"{self!r} is of no adjoint", hint="make it by launch(..., adjoint=True)")
        if adjoint and self._adjoints is not None:
            self._adjoints[index] = value
        else:
            self.params[index] = as_now(value, self.kernel.arguments[index].annotation)

    def set_param_by_name(self, name: str, value: Any, adjoint: bool = False) -> None:
        """Sets an argument by its name; as `set_param_at_index`.

        Raises:
            KernelValueError: there is no such argument, or the launch is of no adjoint.
        """
        names = [argument.name for argument in self.kernel.arguments]
        if name not in names:
            raise KernelValueError(f"{self!r}: there is no argument {name!r}", hint=f"there are {', '.join(names)}")
        self.set_param_at_index(names.index(name), value, adjoint)

    def set_params(self, values: Sequence[Any]) -> None:
        """Sets all arguments.

        Raises:
            KernelValueError: there are more or fewer.
        """
        if len(values) != len(self.params):
            raise KernelValueError(
                f"{self!r}: expected {len(self.params)} arguments, got {len(values)}",
                hint=f"pass {', '.join(argument.name for argument in self.kernel.arguments)}",
            )
        self.params = all_as_now(self.kernel, values)


def _run_adjoint(kernel: Kernel, dim: Any, params: list[Any], adjoints: list[Any]) -> None:
    """The adjoint of a launch, at once or in a capture."""
    _require_host("launch with adjoint")
    kernel = kernel.given(params) if kernel.takes_structs else kernel
    if has_no_threads(dim):
        return
    given = spread(kernel, params) if capturing.get() is None else leaves_as_now(kernel, params)
    of_given = spread(kernel, adjoints)
    if not HOST.defers(f"adjoint of {kernel.name}", lambda: reverse_launch(kernel, dim, given, of_given)):
        reverse_launch(kernel, dim, given, of_given)


def _adjoints(kernel: Kernel, count: int, adj_inputs: Any, adj_outputs: Any) -> list[Any]:
    """One for each argument, or None. The first `count` are inputs."""
    ins, outs = _as_list(adj_inputs), _as_list(adj_outputs)
    for name, found, most in (("adj_inputs", ins, count), ("adj_outputs", outs, len(kernel.arguments) - count)):
        if len(found) > most:
            raise KernelTypeError(
                f"kernel {kernel.name}: {name}: expected at most {most} arrays, got {len(found)}",
                hint="pass one for each input or output, or None",
            )
    missing = [None] * (len(kernel.arguments) - count - len(outs))
    return [*ins, *[None] * (count - len(ins)), *outs, *missing]


def _require_host(what: str) -> None:
    if scope_now() is not HOST:
        raise KernelTypeError(f"{what} is for arrays outside of JAX", hint="use jax.grad, or jax.vjp, of the program")


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]
