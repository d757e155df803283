"""`launch`: at once on memory, or as an operation of the program that is traced."""

from __future__ import annotations

import contextlib
import copy
import math
import numbers
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np

from jaxwarp.arrays.eager import Checked, check, launch_now
from jaxwarp.arrays.held import Held, parts_of
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.ids.late_launch import launch_late, looks_up, tables_in
from jaxwarp.arrays.ids.tables import as_numbers, have_numbers, objects_in, tables_at, tables_type
from jaxwarp.arrays.launch_cache import launch_outside
from jaxwarp.arrays.tapes.pullback import reverse_launch
from jaxwarp.boundary import boundaries, located_call
from jaxwarp.errors import (
    DifferentiationError,
    IdError,
    InternalError,
    KernelTypeError,
    KernelValueError,
    OutOfRangeError,
)
from jaxwarp.ffi.launch.calls.dims import normalize_dims
from jaxwarp.ffi.launch.calls.leaves import spread
from jaxwarp.ffi.programs.tracing import launch_traced, program_now
from jaxwarp.frontend.ids import TABLES
from jaxwarp.kernel import Kernel
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.devices import Device
from jaxwarp.memory.dlpack import is_on_gpu
from jaxwarp.memory.gpu.ordering import Queue
from jaxwarp.memory.gpu.scope import GpuScope, device_of, gpu_scope, place_of_device
from jaxwarp.memory.gpu.streams import Stream
from jaxwarp.memory.host_scope import HOST, Outside, capturing, recording
from jaxwarp.quaternions import HostValue
from jaxwarp.types import Array, handled, struct_in, struct_of


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
    """Launches a kernel.

    Outside of JAX, in a callback, and under `GraphMode.NONE` it runs at once, on arrays of jaxwarp and NumPy, in place.
    In a traced function of a `jax_callable`, the arrays it writes stand for their new contents afterwards.

    Args:
        kernel: made by `@kernel`.
        dim: threads along each axis: an integer, or a tuple or list.
        inputs: the kernel's first arguments: arrays, Python numbers; of the program, in a `jax_callable`.
        outputs: its other arguments; last ones that have default values may be left out. Which arguments a kernel
            writes is found in the kernel, not here.
        adj_inputs: with `adjoint`, outside of JAX: arrays to which the derivatives by the inputs are added, or None.
        adj_outputs: with `adjoint`: the derivatives by the outputs.
        device: outside of JAX, the device, "cpu" or "cuda:0"; None: that of the arrays, or the one that is chosen;
            elsewhere accepted, no effect: JAX places the program.
        stream: outside of JAX, the stream of a GPU that it is queued on; elsewhere no effect.
        adjoint: run the adjoint of the kernel, not the kernel.
        record_tape: whether an active `Tape` records the launch.
        record_cmd: nothing is launched: gives a `Launch`, which can be launched often, also with other arguments.
        max_blocks: accepted, no effect.
        block_dim: CUDA threads per block; "auto": as `wp.autotune` has measured.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
        DifferentiationError: with `adjoint`, the derivative cannot be had.
    """
    del max_blocks
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(f"launch: expected a kernel, got {kernel!r}", hint="decorate it with @jaxwarp.kernel")
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
    target = NOWHERE if is_open or scope_now() is not HOST else _target(device, stream)
    if not record_cmd:
        _run(kernel, dim, given, adjoints, block_dim, record_tape, target)
        return None
    command = Launch(kernel, dim, given, adjoints, block_dim, record_tape, target)
    command.set_dim(dim)
    return command


@located_call
def launch_tiled(kernel: Kernel, dim: Any, *args: Any, block_dim: Any = None, **options: Any) -> Launch | None:
    """Launches a kernel that works on tiles: as `launch`, with an axis more, of the threads of a block.

    A block is one thread, which does the work on a tile alone, as on Warp's CPU: `i, j, lane = tid()` gives lane 0, and
    `block_dim()` is 1.

    Args:
        dim: blocks along each axis.
        block_dim: what Warp takes for its GPUs; has no effect.
    """
    known = block_dim is None or (isinstance(block_dim, numbers.Integral) and not isinstance(block_dim, bool))
    if not known or (block_dim is not None and block_dim < 1):
        raise KernelValueError(
            f"launch_tiled: block_dim must be a positive integer, got {block_dim!r}", hint="leave it out"
        )
    blocks = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    return launch.__wrapped__(kernel, (*blocks, 1), *args, **options)  # pyright: ignore[reportFunctionMemberAccess]


class Target(NamedTuple):
    """The place of a launch outside of JAX, and the queue of its stream. Without a place, the arrays decide; without a
    queue, the current stream is used."""

    place: Outside | None
    queue: Queue | None


NOWHERE = Target(None, None)


def _target(device: Any, stream: Any) -> Target:
    """Return the place and the stream that a launch requests."""
    if isinstance(stream, Stream):
        found = gpu_scope(stream.device.ordinal)
        if device is not None and place_of_device(device, "launch") is not found:
            raise KernelValueError(
                f"launch: {stream!r} is no stream of {device}", hint="leave device out: the stream has one"
            )
        return Target(found, stream.queue)
    return NOWHERE if device is None else Target(place_of_device(device, "launch"), None)


def _place(target: Target, parts: Sequence[Any]) -> Outside:
    """Return the place of a launch: the requested one, or else that of its arrays."""
    if target.place is not None:
        return target.place
    for value in parts:
        if isinstance(value, (HostArray, Held)) and value.scope is not None:
            return value.scope
    for value in parts:  # tensors of other libraries on GPUs
        if not isinstance(value, (np.ndarray, np.generic, int, float, jax.Array)) and is_on_gpu(value):
            return gpu_scope(int(value.__dlpack_device__()[1]))
    return place_of_device(None, "launch")


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
    """A launch that is kept, to be made often: `launch(..., record_cmd=True)` gives it.

    Numbers, vectors and structs are kept as they are when they are given, as in Warp.

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
        self.params = _all_as_now(kernel, params)
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
        return device_of(_place(self._target, spread(self.kernel.given(self.params), self.params)))

    def checked(self) -> Checked:
        """Check the launch and return it with its place, without running it."""
        kernel = self.kernel.given(self.params)
        given = spread(kernel, self.params)
        return check(_place(self._target, given), kernel, self.dim, given, self._block_dim)

    def run(self) -> None:
        """The launch itself."""
        _run(self.kernel, self.dim, self.params, self._adjoints, self._block_dim, self._is_recorded, self._target)

    def launch(self, stream: Any = None) -> None:
        """Launches it, on `stream`, or where it was made for.

        Raises:
            KernelTypeError, KernelValueError: the arguments do not fit the kernel.
        """
        if stream is None or scope_now() is not HOST:
            self.run()
            return
        before, self._target = self._target, _target(None, stream)
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
            self.params[index] = _as_now(value, self.kernel.arguments[index].annotation)

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
        self.params = _all_as_now(self.kernel, values)


def _run(
    kernel: Kernel,
    dim: Any,
    params: list[Any],
    adjoints: list[Any] | None,
    block_dim: int | str | None,
    is_recorded: bool,
    target: Target,
) -> None:
    """A launch, wherever it is asked for: with objects in place of their ids if the kernel allows it."""
    given = kernel.given(params) if kernel.takes_structs else kernel
    if scope_now() is None:
        _run_traced(kernel, given, dim, params, block_dim)
        return
    if given.looks_up is False or adjoints is not None:
        _run_given(given, dim, params, adjoints, block_dim, is_recorded, target)
        return
    if given.looks_up is None:
        try:
            _run_given(given, dim, params, adjoints, block_dim, is_recorded, target)
        except KernelTypeError as error:
            is_taped = is_recorded and recording.get() is not None  # which takes objects alone
            if not isinstance(error, IdError) and (is_taped or not objects_in(kernel, params)):
                raise
            if not have_numbers(kernel, params):
                raise
            given.looks_up_at = error.loc
        else:
            given.looks_up = False
            return
    if is_recorded and recording.get() is not None:
        raise DifferentiationError(
            f"kernel {kernel.name} finds meshes, trees or grids by numbers, and a tape cannot record it",
            given.looks_up_at,
            hint="pass each as an argument of its own, or write record_tape=False",
        )
    _run_by_number(kernel, dim, params, block_dim, is_recorded, target)
    given.looks_up = True


def _run_traced(kernel: Kernel, given: Kernel, dim: Any, params: list[Any], block_dim: int | str | None) -> None:
    """A launch in a traced function: an operation of its program, or, with ids, a launch when the program runs."""
    program = program_now()
    try:
        launch_traced(program, given, dim, spread(given, params), block_dim)
    except KernelTypeError as error:
        takes_ids = isinstance(error, IdError) or objects_in(kernel, params) or looks_up(given, params)
        if not takes_ids or not have_numbers(kernel, params):
            raise
        launch_late(program, kernel, dim, params, block_dim, error)


def _run_by_number(
    kernel: Kernel, dim: Any, params: list[Any], block_dim: int | str | None, is_recorded: bool, target: Target
) -> None:
    """A launch of a kernel that looks objects up by their ids."""
    scope, numbers = scope_now(), as_numbers(kernel, params)
    numbered = kernel.given(numbers)
    place = _place(target, spread(numbered, numbers)) if scope is HOST else HOST
    found = numbered.with_argument(TABLES, tables_type())
    if scope is not HOST:
        assert scope is not None
        with tables_in(scope) as in_call:
            launch_now(scope, found, dim, [*spread(numbered, numbers), *in_call], block_dim)
        return
    tables = tables_at(place)
    with tables.used() as value:
        given = [*numbers, value]
        if capturing.get() is not None:
            check(place, found, dim, spread(found, given), block_dim)
            again = Launch(kernel, dim, _all_as_now(kernel, params), None, block_dim, is_recorded, target)
            HOST.defers(f"launch of {kernel.name}", again.run)
            return
        if isinstance(place, GpuScope):  # what others write to the objects comes first
            with place.on_queue(target.queue or place.queue):
                place.uses(tables.regions, ())
        _run_outside(found, dim, parts_of(found, given), block_dim, is_recorded, target)


def _run_given(
    kernel: Kernel,
    dim: Any,
    params: list[Any],
    adjoints: list[Any] | None,
    block_dim: int | str | None,
    is_recorded: bool,
    target: Target,
) -> None:
    """A launch with these arguments as they are."""
    scope = scope_now()
    if scope is HOST and (0 in dim if type(dim) is tuple else type(dim) is int and dim == 0):
        return  # no thread needs what the kernel does
    if adjoints is not None:
        given = spread(kernel, params) if capturing.get() is None else _leaves_as_now(kernel, params)
        of_given = spread(kernel, adjoints)
        if not HOST.defers(f"adjoint of {kernel.name}", lambda: reverse_launch(kernel, dim, given, of_given)):
            reverse_launch(kernel, dim, given, of_given)
    elif scope is HOST and capturing.get() is None:
        _run_outside(kernel, dim, parts_of(kernel, params), block_dim, is_recorded, target)
    elif scope is HOST:
        _defer(kernel, dim, params, block_dim, is_recorded, target)
    elif scope is not None:
        launch_now(scope, kernel, dim, spread(kernel, params), block_dim)
    else:
        raise InternalError(f"a launch of {kernel.name} in a traced function")


def _run_outside(
    kernel: Kernel, dim: Any, parts: Sequence[Any], block_dim: int | str | None, is_recorded: bool, target: Target
) -> None:
    place, queue = _place(target, parts), target.queue
    if queue is None or not isinstance(place, GpuScope):
        launch_outside(place, kernel, dim, parts, block_dim, is_recorded)
        return
    with place.on_queue(queue):
        launch_outside(place, kernel, dim, parts, block_dim, is_recorded)


def _defer(
    kernel: Kernel, dim: Any, params: list[Any], block_dim: int | str | None, is_recorded: bool, target: Target
) -> None:
    """Gives a launch to the capture: with numbers as they are now, with grids and meshes as they are then."""
    given = spread(kernel, params)
    if (tape := recording.get()) is not None:
        tape.see(*given)
    with contextlib.suppress(OutOfRangeError):  # they may be empty still
        check(_place(target, given), kernel, dim, given, block_dim)
    if any(map(handled, params)):
        play = Launch(kernel, dim, params, None, block_dim, is_recorded, target).run
    else:
        kept = _leaves_as_now(kernel, params)
        play = partial(_run_outside, kernel, dim, kept, block_dim, is_recorded, target)
    HOST.defers(f"launch of {kernel.name}", play, _only_place(target, given))


def _only_place(target: Target, given: Sequence[Any]) -> Outside | None:
    """Return the place of a launch if all its arrays are jaxwarp arrays in that place. Return None otherwise, or if a
    stream was requested."""
    arrays = [value for value in given if isinstance(value, HostArray)]
    is_plain = all(isinstance(v, (HostArray, HostValue, int, float, np.generic, type(None))) for v in given)
    place = _place(target, given)
    is_alone = target.queue is None and all(a.scope is place for a in arrays)
    return place if is_plain and is_alone else None


def _all_as_now(kernel: Kernel, values: Sequence[Any]) -> list[Any]:
    return [_as_now(value, argument.annotation) for argument, value in zip(kernel.arguments, values, strict=True)]


def _leaves_as_now(kernel: Kernel, params: list[Any]) -> list[Any]:
    return [_as_now(value, leaf.annotation) for leaf, value in zip(kernel.leaves, spread(kernel, params), strict=True)]


def _as_now(value: Any, annotation: Any) -> Any:
    """Return the form in which a stored launch keeps an argument. It copies values now, and uses arrays, grids and
    meshes as they are when it runs."""
    if isinstance(value, np.ndarray):
        return value if isinstance(annotation, Array) else value.copy()
    if handled(value) is None and (struct := struct_of(type(value))) is not None:
        made = copy.copy(value)
        made.__dict__.update((f.name, _as_now(vars(value)[f.name], f.type)) for f in struct.fields)
        return made
    return copy.deepcopy(value) if isinstance(value, (list, dict)) and not struct_in(annotation) else value


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
