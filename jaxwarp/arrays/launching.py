"""A launch, from the call to machine code: this module has its steps in order.

1. `launch` (`launch.py`) completes the arguments, and calls `run_launch`.
2. `run_launch` and `_run_given` see where it is: in a traced function, a capture or a callback, or outside of all.
   `asked` (`recent.py`) looks for a launch on these very arrays. If there was one, `Recent.run` runs it again, by
   `Repeated.run_ready`, and nothing is looked at for each array.
3. `launch_at_once` finds the memory that it happens in, and the tape that records it.
4. `prepared_launch` looks for an earlier launch like it, by `_signature`: a `Repeated` (`repeated.py`).
5. If there is none, `check` (`eager.py`) makes a `LaunchPlan` from types and shapes, and `_remember` a `Repeated`.
   `code_of` (`launches/code.py`) makes its code, which is loaded by `launches/on_memory.py`.
6. `Repeated.operands` finds the addresses of the arguments, and whether arrays overlap.
7. `Repeated.run` calls the code: `NativeCode.run` (`launches/native_launch.py`) on the CPU, in one call of
   `jaxwarp_outside_alone` (`native/outside.cc`), which divides large launches among cores; `CudaLaunch.run` on GPUs.

Where arguments are not simple, or debug mode is on, nothing is kept. Then step 4 gives a `Once`, and
`run_checked` (`eager.py`) copies to dense memory, launches there, and copies back.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.core
import numpy as np

from jaxwarp import compat
from jaxwarp.arrays.eager import CheckedLaunch, check, launch_now, run_checked
from jaxwarp.arrays.held import Held, flat, parts_of, token_of
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.ids.late_launch import launch_late, looks_up, tables_in
from jaxwarp.arrays.ids.tables import as_numbers, have_numbers, objects_in, tables_at, tables_type
from jaxwarp.arrays.recent import asked
from jaxwarp.arrays.repeated import Repeated, RepeatedOnGpu
from jaxwarp.arrays.tapes.recorded import Launched
from jaxwarp.errors import (
    DifferentiationError,
    IdError,
    KernelError,
    KernelTypeError,
    KernelValueError,
    OutOfRangeError,
)
from jaxwarp.ffi.programs.tracing import launch_traced, program_now
from jaxwarp.frontend.found import KernelFacts
from jaxwarp.frontend.ids import TABLES
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.leaves import spread
from jaxwarp.launches.modes import debug_now, mode_of
from jaxwarp.launches.spec import IN_OUT
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.dlpack import is_on_gpu
from jaxwarp.memory.gpu.ordering import Queue
from jaxwarp.memory.gpu.scope import GpuScope, gpu_scope, place_of_device, region_of_tensor
from jaxwarp.memory.gpu.streams import Stream
from jaxwarp.memory.host_scope import HOST, Outside, Recorder, capturing, recording
from jaxwarp.memory.libraries import library_of
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.memory.scope import Scope
from jaxwarp.quaternions import HostValue
from jaxwarp.structs.indexed import indexed_of
from jaxwarp.types import SCALAR_BY_DTYPE, Array, handled, meant, struct_in, struct_of
from jaxwarp.types.given import is_open

_MAX_KNOWN = 512
_PLAIN = frozenset((HostArray, HostValue, Held, np.ndarray, int, float, bool))

_INTEGERS = frozenset((int,))
_TOKENED = frozenset((HostArray, Held))
_BLOCKS = frozenset((int, str, type(None)))


class Target(NamedTuple):
    """The place of a launch outside of JAX, and the queue of its stream. Without a place, the arrays decide; without a
    queue, the current stream is used."""

    place: Outside | None
    queue: Queue | None


NOWHERE = Target(None, None)


def run_launch(
    kernel: Kernel, dim: Any, params: list[Any], block_dim: int | str | None, is_recorded: bool, target: Target
) -> None:
    """A launch, wherever it is asked for: with objects in place of their ids if the kernel allows it."""
    given = kernel.given(params) if kernel.takes_structs else kernel
    if scope_now() is None:
        _run_traced(kernel, given, dim, params, block_dim)
        return
    if kernel.takes_structs:
        _require_no_copies(given, params)
    if given.found.looks_up is False:
        _run_given(given, dim, params, block_dim, is_recorded, target)
        return
    if given.found.looks_up is None:
        try:
            _run_given(given, dim, params, block_dim, is_recorded, target)
        except KernelTypeError as error:
            is_taped = is_recorded and recording.get() is not None  # which takes objects alone
            if not isinstance(error, IdError) and (is_taped or not objects_in(kernel, params)):
                raise
            if not have_numbers(kernel, params):
                raise
            given.found.looks_up_at = error.loc
        else:
            given.found.looks_up = False
            return
    if is_recorded and recording.get() is not None:
        raise DifferentiationError(
            f"kernel {kernel.name} finds meshes, trees or grids by numbers, and a tape cannot record it",
            given.found.looks_up_at,
            hint="pass each as an argument of its own, or write record_tape=False",
        )
    _run_by_number(kernel, dim, params, block_dim, is_recorded, target)
    given.found.looks_up = True


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


def _run_given(
    kernel: Kernel, dim: Any, params: list[Any], block_dim: int | str | None, is_recorded: bool, target: Target
) -> None:
    """A launch with these arguments as they are: outside of JAX, in a capture, or in a callback."""
    scope = scope_now()
    if scope is HOST and has_no_threads(dim):
        tape = recording.get() if is_recorded else None
        if tape is not None:
            tape.launched_on_none(*spread(kernel, params))
        return
    if scope is HOST and capturing.get() is None:
        recent = None
        if recording.get() is None and target.queue is None and debug_now(mode_of(kernel)) is None:
            recent = None if compat.is_tracing() else asked(kernel, dim, params, block_dim, target.place)
            if recent is not None and recent.run():
                return
        made = launch_at_once(kernel, dim, parts_of(kernel, params), block_dim, is_recorded, target)
        if recent is not None and isinstance(made, Again):
            recent.keep(kernel, made.known, made.views, made.operands)
    elif scope is HOST:
        _capture(kernel, dim, params, block_dim, is_recorded, target)
    else:
        assert scope is not None, "a traced launch"
        _run_in_call(scope, kernel, dim, spread(kernel, params), block_dim)


def _run_in_call(scope: Scope, kernel: Kernel, dim: Any, given: Sequence[Any], block_dim: int | str | None) -> None:
    """A launch in a call of XLA's. On the CPU, one like it in an earlier call is not looked at again."""
    key = None
    if type(scope) is Scope and block_dim is None and scope.is_here() and debug_now(mode_of(kernel)) is None:
        key = _signature(dim, given, scope)
    if key is None:
        launch_now(scope, kernel, dim, given, block_dim)
        return
    known = kernel.found.launches.get(key)
    operands = None if known is None else known.operands(given)
    if known is not None and operands is not None:
        known.run(given, operands)
        return
    checked = check(scope, kernel, dim, given, block_dim)
    if not checked.plan.endless:
        _remember(kernel, key, checked)
    run_checked(scope, checked)


def has_no_threads(dim: Any) -> bool:
    """Return whether nothing is to be done for a launch over these extents."""
    return 0 in dim if type(dim) is tuple else type(dim) is int and dim == 0


def launch_at_once(
    kernel: Kernel, dim: Any, parts: Sequence[Any], block_dim: int | str | None, is_recorded: bool, target: Target
) -> Once | Again:
    """A launch on arrays outside of JAX, at once. An active tape records it, or, unless `is_recorded`, its results.
    Returns what was launched.

    Args:
        parts: the arguments, of structs their leaves, or what is known of them; see `held.parts_of`.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
    """
    place, queue = place_of(target, parts), target.queue
    if queue is not None and isinstance(place, GpuScope) and not place.is_recorded:  # a graph is on one stream
        with place.on_queue(queue):
            return launch_at_once(kernel, dim, parts, block_dim, is_recorded, Target(place, None))
    made, tape = prepared_launch(place, kernel, dim, parts, block_dim), recording.get()
    if tape is None:
        made.run()
        return made
    if any(type(value) not in _PLAIN and indexed_of(value) is not None for value in parts):
        # What is read of an indexed array is a copy, through which the tape has to find back.
        parts = [value if indexed_of(value) is None else value.contiguous() for value in parts]
        made = prepared_launch(place, kernel, dim, parts, block_dim)
    _record(tape, made, is_recorded)
    return made


def launch_unrecorded(place: Outside, kernel: Kernel, dim: Any, *given: Any) -> None:
    """A launch of the package's own on arrays outside of JAX, at once. No tape or capture is told of it."""
    if not has_no_threads(dim):
        prepared_launch(place, kernel, dim, given, None).run()


def place_of(target: Target, parts: Sequence[Any]) -> Outside:
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


def prepared_launch(
    place: Outside, kernel: Kernel, dim: Any, parts: Sequence[Any], block_dim: int | str | None
) -> Once | Again:
    """A launch that can be run.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
    """
    seen = parts
    if not _PLAIN.issuperset(map(type, parts)):
        seen = [value if type(value) in _PLAIN else _as_array(value) for value in parts]
    is_plain = type(block_dim) in _BLOCKS and debug_now(mode_of(kernel)) is None
    key = _signature(dim, seen) if is_plain else None
    key = key if (block_dim is None and place is HOST) or key is None else (block_dim, place, *key)
    known = None if key is None or compat.is_tracing() else kernel.found.launches.get(key)
    operands = None if known is None else known.operands(seen)
    checked = None
    if operands is None:
        checked = check(place, kernel, dim, flat(parts), block_dim)
        known = _remember(kernel, key, checked)
        operands = None if known is None else known.operands(seen)
    if known is not None and operands is not None:
        return Again(known, parts, flat(seen) if kernel.has_structs else seen, operands)
    assert checked is not None
    return Once(checked)


class Once(NamedTuple):
    """A launch whose arguments fit, and of which nothing is known from before."""

    checked: CheckedLaunch

    def run(self) -> None:
        run_checked(self.checked.scope, self.checked)

    def launched(self) -> Launched:
        return Launched.of(self.checked)


class Again(NamedTuple):
    """A launch that is like one before.

    Attributes:
        known: what is known of it.
        given: its arguments.
        views: these, where tensors of other libraries are arrays.
        operands: of `known`.
    """

    known: Repeated
    given: Sequence[Any]
    views: Sequence[Any]
    operands: Any

    def run(self) -> None:
        self.known.run(self.views, self.operands)

    def launched(self) -> Launched:
        return self.known.launched(flat(self.given), self.views, self.operands)


def _signature(dim: Any, seen: Sequence[Any], call: Scope | None = None) -> Any:
    """Return all that decides a launch of a kernel but for the values; None where it is not that simple.

    `call`: the call of XLA's in which it is launched, if it is. Its arrays are no others' then.
    """
    if type(dim) is not int and not (type(dim) is tuple and _INTEGERS.issuperset(map(type, dim))):
        return None
    tokens = [value.token if type(value) in _TOKENED else token_of(value) for value in seen]
    places: list[int] = []
    for value in seen:
        if type(value) is HostArray:
            places.append(value._region.address)
        elif type(value) is LiveArray:
            if value.scope is not call:
                return None
            places.append(value.region.address)
        elif type(value) is Held:
            places += value.places
    if call is not None:
        tokens.append(Scope)
    if len(set(places)) < len(places):  # an array may be given twice, see same_memory.py
        tokens.append(tuple(map(places.index, places)))
    return None if None in tokens else (dim, *tokens)


def _as_array(value: Any) -> Any:
    """A tensor of another library as an array; any other value as it is."""
    library = library_of(value)
    if library is None or library.is_recording(value):
        return value
    try:
        region = region_of_tensor(library, value)
    except KernelError:
        return value  # the checks say what is wrong
    type_ = Array(SCALAR_BY_DTYPE[region.dtype], len(region.shape))
    return HostArray("", type_, region, is_writable=True) if region.shape else value


def _remember(kernel: Kernel, key: Any, checked: CheckedLaunch) -> Repeated | None:
    """Store and return the checks of a launch for later launches like it. Return None if those launches need more than
    these checks."""
    if key is None or 0 in checked.launch.grid:
        return None
    if checked.launch.debug is not None and not _tells_alone(checked):
        return None
    if any(checked.values[i].in_records is not None for i in checked.plan.added_to):
        return None
    is_on_gpu = isinstance(checked.scope, GpuScope)
    values = zip(checked.plan.arguments, checked.values, strict=True)
    if is_on_gpu and any(a.is_array and v.region is None and v.value is not None for a, v in values):
        return None  # it is copied for each launch
    made = RepeatedOnGpu(checked) if is_on_gpu else Repeated(checked)
    with _launched_lock:
        kernel.found.launches[key] = made
        _launched.add(kernel.found)
        entry = weakref.ref(kernel.found), key
        _known.pop(entry, None)
        _known[entry] = None
        if len(_known) > _MAX_KNOWN:
            _drop_oldest()
    return made


def _tells_alone(checked: CheckedLaunch) -> bool:
    """Tell whether a launch that may fail needs nothing but a record for that: not on a GPU, nor in a call of XLA's,
    and not with arrays in records, which would be copied."""
    return checked.scope is HOST and all(value.in_records is None for value in checked.values)


def _drop_oldest() -> None:
    """Drop what was found of one launch. Where many sizes are launched once, those of other kernels stay known."""
    entry = next(iter(_known))
    del _known[entry]
    found = entry[0]()
    if found is not None:
        found.launches.pop(entry[1], None)
        for key in list(found.plans)[: max(0, len(found.plans) - len(found.launches))]:
            found.plans.pop(key, None)


def forget() -> None:
    """The next launches are looked at again: their code may be another one."""
    with _launched_lock:
        for found in _launched:
            found.launches.clear()
            found.recent.clear()
            found.plans.clear()
            found.fits.clear()
        _launched.clear()
        _known.clear()


_launched_lock = threading.RLock()
_launched: weakref.WeakSet[KernelFacts] = weakref.WeakSet()
_known: dict[tuple[weakref.ref[KernelFacts], Any], None] = {}  # launches, the oldest first


def _record(tape: Recorder, made: Once | Again, is_recorded: bool) -> None:
    """The launch on a tape, or what it writes."""
    done = made.launched()
    if is_recorded:
        tape.record_launch(done)
        made.run()
        return
    tape.see(*(done.given[i] for i in done.plan.written))
    for region in done.writes:
        tape.record_write(region)
    made.run()
    roles = done.plan.launch.roles
    for i, region in zip(done.plan.written, done.writes, strict=True):
        tape.record_result(region, roles[i] == IN_OUT)


def launch_again(checked: CheckedLaunch) -> None:
    """A launch that was checked, once more. An active tape records it."""
    tape = recording.get()
    if tape is None:
        run_checked(checked.scope, checked)
    else:
        _record(tape, Once(checked), True)


def _capture(
    kernel: Kernel, dim: Any, params: list[Any], block_dim: int | str | None, is_recorded: bool, target: Target
) -> None:
    """Gives a launch to the capture: with numbers as they are now, with grids and meshes as they are then."""
    given = spread(kernel, params)
    if (tape := recording.get()) is not None:
        tape.see(*given)
    with contextlib.suppress(OutOfRangeError):  # they may be empty still
        check(place_of(target, given), kernel, dim, given, block_dim)
    if any(map(handled, params)):
        play = partial(run_launch, kernel, dim, all_as_now(kernel, params), block_dim, is_recorded, target)
    else:
        kept = leaves_as_now(kernel, params)
        play = partial(launch_at_once, kernel, dim, kept, block_dim, is_recorded, target)
    objects = [meant(value) for value in params if handled(value)]
    HOST.defers(f"launch of {kernel.name}", play, _only_place(target, given), objects)


def _require_no_copies(kernel: Kernel, params: Sequence[Any]) -> None:
    """Refuse arrays of other libraries where an annotation leaves open what they are.

    Raises:
        KernelTypeError: the kernel would read one as a vector, and write to a copy.
    """
    for k in kernel.takes_structs:
        argument, value = kernel.arguments[k], params[k] if k < len(params) else None
        is_other = is_open(argument.annotation) and not isinstance(value, (HostValue, jax.core.Tracer))
        if is_other and getattr(value, "shape", ()):
            name = argument.name
            raise KernelTypeError(
                f"kernel {kernel.name}: argument '{name}' has no type of its own, and {type(value).__name__} may stand"
                " for an array or a vector",
                hint=f"annotate it, {name}: array[float]; or pass jaxwarp.array({name}) or vec3(*{name})",
            )


def _only_place(target: Target, given: Sequence[Any]) -> Outside | None:
    """Return the place of a launch if all its arrays are jaxwarp arrays in that place. Return None otherwise."""
    arrays = [value for value in given if isinstance(value, HostArray)]
    is_plain = all(
        isinstance(v, (HostArray, HostValue, int, float, np.generic, type(None))) or _is_fixed(v) for v in given
    )
    place = place_of(target, given)
    return place if is_plain and all(a.scope is place for a in arrays) else None


def _is_fixed(value: Any) -> bool:
    """Return whether a value is an array of NumPy that does not change: numbers by value of a grid."""
    return isinstance(value, np.ndarray) and not value.flags.writeable and value.flags.owndata


def _run_by_number(
    kernel: Kernel, dim: Any, params: list[Any], block_dim: int | str | None, is_recorded: bool, target: Target
) -> None:
    """A launch of a kernel that looks objects up by their ids."""
    scope, numbers = scope_now(), as_numbers(kernel, params)
    numbered = kernel.given(numbers)
    place = place_of(target, spread(numbered, numbers)) if scope is HOST else HOST
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
            play = partial(run_launch, kernel, dim, all_as_now(kernel, params), block_dim, is_recorded, target)
            HOST.defers(f"launch of {kernel.name}", play)
            return
        if isinstance(place, GpuScope):  # what others write to the objects comes first
            with place.on_queue(target.queue or place.queue):
                place.uses(tables.regions, ())
        launch_at_once(found, dim, parts_of(found, given), block_dim, is_recorded, target)


def target_of(device: Any, stream: Any) -> Target:
    """Return the place and the stream that a launch requests."""
    if isinstance(stream, Stream):
        found = gpu_scope(stream.device.ordinal)
        if device is not None and place_of_device(device, "launch") is not found:
            raise KernelValueError(
                f"launch: {stream!r} is no stream of {device}", hint="leave device out: the stream has one"
            )
        return Target(found, stream.queue)
    return NOWHERE if device is None else Target(place_of_device(device, "launch"), None)


def all_as_now(kernel: Kernel, values: Sequence[Any]) -> list[Any]:
    return [as_now(value, argument.annotation) for argument, value in zip(kernel.arguments, values, strict=True)]


def leaves_as_now(kernel: Kernel, params: list[Any]) -> list[Any]:
    return [as_now(value, leaf.annotation) for leaf, value in zip(kernel.leaves, spread(kernel, params), strict=True)]


def as_now(value: Any, annotation: Any) -> Any:
    """Return the form in which a stored launch keeps an argument. It copies values now, and uses arrays, grids and
    meshes as they are when it runs."""
    if isinstance(value, np.ndarray):
        return value if isinstance(annotation, Array) else value.copy()
    if handled(value) is None and (struct := struct_of(type(value))) is not None:
        made = copy.copy(value)
        made.__dict__.update((f.name, as_now(vars(value)[f.name], f.type)) for f in struct.fields)
        return made
    return copy.deepcopy(value) if isinstance(value, (list, dict)) and not struct_in(annotation) else value
