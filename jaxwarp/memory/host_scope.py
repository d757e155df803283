"""The memory of the process, outside of all calls: a scope that never ends. See docs/design/0013."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.core
import numpy as np

from jaxwarp import compat
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.dlpack import import_tensor
from jaxwarp.memory.libraries import library_of
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.memory.region import Region, array_region, dense_region, leaves_of
from jaxwarp.memory.scope import Scope, view_of
from jaxwarp.memory.tensor_owner import Owner, TensorLibrary, fresh, is_of_trace, note_written
from jaxwarp.types import SCALAR_BY_DTYPE
from jaxwarp.unlocked import address_of

_PLAIN = (np.ndarray, np.generic, int, float, list, tuple, LiveArray, type(None))


class Recorder(Protocol):
    """Who writes down what happens to arrays: an active `Tape`. It is told before it happens."""

    def see(self, *arrays: Any) -> None:
        """Arrays that a copy or new contents are about to touch: derivatives are added to their gradients."""
        ...

    def launched_on_none(self, *arrays: Any) -> None:
        """Arrays of a launch without threads."""
        ...

    def record_launch(self, op: Any) -> None:
        """A launch whose arguments fit."""
        ...

    def record_write(self, target: Region) -> None:
        """A launch that is not to be recorded is about to write to `target`."""
        ...

    def record_result(self, target: Region, is_update: bool = False) -> None:
        """Record the contents of `target` after a launch that is not recorded. `is_update`: the launch may have read
        `target`."""
        ...

    def record_copy(self, target: Region, source: Region) -> None:
        """Contents of `source` are copied to `target`."""
        ...

    def record_constant(self, target: Region, values: np.ndarray) -> None:
        """`target` gets values that depend on no array. They fit its shape, or its last axes."""
        ...

    def record_scope_begin(self, scope_name: str) -> None:
        """Begin a scope: pictures show what follows in a scope of its own."""
        ...

    def record_scope_end(self) -> None:
        """The scope that was begun last ends."""
        ...


recording: contextvars.ContextVar[Recorder | None] = contextvars.ContextVar("jaxwarp_tape", default=None)


class Capturer(Protocol):
    """Who keeps what is asked for, to be done whenever the capture is launched: it does not happen now."""

    def add(self, what: str, run: Callable[[], object], place: Outside | None, objects: Sequence[Any] = ()) -> None:
        """`run` does it; `what` names it, or is empty where it belongs to what follows; all of it is in `place`, and on
        the arrays that `objects` have then."""
        ...

    def part(self) -> Capturer:
        """Another one for some of what is asked for, which is kept as one."""
        ...

    def begin(self) -> None:
        """Start to keep the operations that are requested."""
        ...

    def end(self) -> None:
        """Stop keeping operations, and restore the previous capturer."""
        ...

    def run(self) -> None:
        """Does what it has kept."""
        ...


capturing: contextvars.ContextVar[Capturer | None] = contextvars.ContextVar("jaxwarp_capture", default=None)


def require_settled(what: str) -> None:
    """Refuse to read arrays during a capture: the read would happen in Python, only once.

    Raises:
        KernelValueError: a capture is being made.
    """
    if capturing.get() is not None:
        raise KernelValueError(
            f"{what}: contents cannot be read while a capture is made: nothing that it records has happened yet",
            hint="read them after capture_launch(graph), outside of the with",
        )


def require_uncaptured(what: str, hint: str) -> None:
    """Refuse Python work during a capture: it would happen once, not at each launch of the capture.

    Raises:
        KernelValueError: a capture is being made.
    """
    if capturing.get() is not None:
        raise KernelValueError(f"{what}: a capture is being made, which would not do it again", hint=hint)


class Outside(Scope):
    """The process, outside of every call: in the memory of the host, or of a GPU (`gpu/scope.py`). Tapes and captures
    are told what happens there."""

    is_outside = True

    def require_open(self, name: str) -> None:
        """Accept every use: this scope never ends."""

    def require_untraced(self, label: str, what: str, region: Region | None = None) -> None:
        """Refuse to write while JAX traces: the write would happen once, during the trace, however often the program
        runs. Memory that the traced function has made itself may be written."""
        if compat.is_tracing() and not is_of_trace(region):
            raise KernelTypeError(
                f"{label} cannot be {what} in a function that JAX traces: that runs once, when it is traced",
                hint="launch with jax_kernel or jax_callable there; they take and return JAX arrays",
            )

    def require_settled(self, what: str) -> None:
        require_settled(what)

    def defers(
        self, what: str, run: Callable[[], object], place: Outside | None = None, objects: Sequence[Any] = ()
    ) -> bool:
        """Return whether a capture has taken `run`, to run it at each launch. `place`: the memory in which all of its
        work is. `objects`: meshes, trees and grids, of whose arrays it uses those that they have then."""
        capture = capturing.get()
        if capture is None:
            return False
        capture.add(what, run, place, objects)
        return True

    def see(self, *arrays: Any) -> None:
        """Arrays that are about to be written or copied, for a tape; called before it happens."""
        self.defers("", lambda: self.see(*arrays))
        if (tape := recording.get()) is not None:
            tape.see(*arrays)

    def change(
        self,
        what: str,
        run: Callable[[], object],
        reads: Sequence[Region],
        writes: Sequence[Region],
        place: Outside | None = None,
    ) -> None:
        """Changes `writes` by a function of the host that looks at `reads`, and has no derivative.

        `place` is the memory in which all of its work is, if that is known.

        Raises:
            KernelTypeError: a tape would have to have one.
        """
        if self.defers(what, lambda: self.change(what, run, reads, writes), place):
            return
        tape = recording.get()
        if tape is not None:
            if all(any(SCALAR_BY_DTYPE[r.dtype].is_float for r in regions) for regions in (reads, writes)):
                raise KernelTypeError(
                    f"{what}: a tape is recording, and it has no derivative",
                    hint="call it outside of the tape, or write it as a kernel",
                )
            for region in writes:
                tape.record_write(region)
        run()
        note_written(writes)
        if tape is not None:
            for region in writes:
                tape.record_result(region)

    def fill(self, target: Region, value: np.ndarray) -> None:
        kept = value.copy() if capturing.get() is not None else value
        if self.defers("fill", lambda: self.fill(target, kept), self):
            return
        tape = recording.get()
        if tape is not None:
            for leaf, number in zip(target.leaves, leaves_of(value.copy()), strict=True):
                tape.record_constant(leaf, number)
        super().fill(target, value)
        note_written([target])

    def write(self, target: Region, values: np.ndarray) -> None:
        kept = values.copy() if capturing.get() is not None else values
        if self.defers("assign", lambda: self.write_kept(target, kept), self):
            return
        tape = recording.get()
        if tape is not None:
            for leaf, numbers in zip(target.leaves, leaves_of(values.copy()), strict=True):
                tape.record_constant(leaf, numbers)
        self.move(target, array_region(values))

    def write_kept(self, target: Region, values: np.ndarray) -> None:
        """Do what a capture has kept: the values never change."""
        self.write(target, values)

    def copy(self, target: Region, source: Region) -> None:
        if self.defers("copy", lambda: self.copy(target, source), self if scope_of(source) is self else None):
            return
        tape = recording.get()
        if tape is not None:
            for leaf, given in zip(target.leaves, source.leaves, strict=True):
                tape.record_copy(leaf, given)
        self.move(target, source)

    def move(self, target: Region, source: Region) -> None:
        self.bring(target, source)
        note_written([target])

    def put(self, target: Region, values: np.ndarray) -> None:
        self.move(target, array_region(values))

    def taken(self, owner: Any) -> Any:
        """Who keeps memory of this scope that somebody else made: an `Owner`, where more is to be known of it."""
        return owner

    def bring(self, target: Region, source: Region) -> None:
        """A copy to memory of this scope, from memory of the process wherever it is."""
        raise NotImplementedError


def scope_of(region: Region) -> Any:
    """The scope outside of all calls that memory is of."""
    return getattr(region.owner, "scope", None) or HOST


def contents_of(region: Region) -> np.ndarray:
    """A copy of what memory of the process holds, wherever it is."""
    return scope_of(region).read(region)


def copy_of(region: Region) -> Region:
    """A copy of what memory of the process holds, in new memory beside it."""
    place = scope_of(region)
    return array_region(contents_of(region)) if place is HOST else place.duplicated(region)


def set_contents(region: Region, values: np.ndarray) -> None:
    """Sets memory of the process, wherever it is; no tape is told."""
    place = scope_of(region)
    if place is HOST:
        view_of(region)[...] = values
    else:
        place.put(region, values)


class HostScope(Outside):
    """The memory of the host, outside of every call."""

    def __init__(self) -> None:
        super().__init__("process", 0)

    def make(self, dtype: np.dtype, shape: Sequence[int]) -> Region:
        array = np.zeros(tuple(shape), dtype)
        return fresh(dense_region(address_of(array), array.dtype, array.shape, Owner(array)))

    def find(self, value: Any) -> tuple[Region, bool] | None:
        """Arrays of NumPy and JAX, and of what has NumPy's or DLPack's interface to the memory of the host."""
        found = super().find(value)
        if found is not None or isinstance(value, _PLAIN):
            return found
        if isinstance(value, jax.Array):
            return (array_region(_values_of(value)), False) if value.ndim else None
        library = library_of(value)
        if library is not None:
            require_unrecorded(library, value)
            return library.region(value), True
        if hasattr(value, "__array_interface__"):
            array = np.asarray(value)
            return array_region(array), bool(array.flags.writeable)
        if hasattr(value, "__dlpack__"):
            return import_tensor(value)
        # What `__array__` makes may be a copy, and what is written to it lost.
        return (array_region(np.asarray(value)), False) if hasattr(value, "__array__") else None

    def bring(self, target: Region, source: Region) -> None:
        place = scope_of(source)
        if place is self:
            Scope.copy(self, target, source)
        else:
            view_of(target)[...] = place.read(source)


def require_unrecorded(library: TensorLibrary, tensor: Any) -> None:
    """Launches on a tensor are unknown to its library, which would not differentiate them.

    Raises:
        KernelTypeError: the library records what is done with the tensor.
    """
    if library.is_recording(tensor):
        raise KernelTypeError(
            f"the tensor requires a gradient, and {library.name} knows nothing of launches and copies",
            hint=f"pass jaxwarp.from_{library.module}(tensor), for a Tape, or tensor.detach()",
        )


def untraced(value: Any, where: str = "") -> KernelTypeError:
    """Return the error for a value that JAX traces; `where` is what took it."""
    return KernelTypeError(
        f"{where}{': ' * bool(where)}expected an array with numbers in it, got the traced value {value}",
        hint="launch with jax_kernel or jax_callable in functions that JAX traces",
    )


def _values_of(value: jax.Array) -> np.ndarray:
    """The contents of a JAX array: its memory, where there is one piece of it on the CPU."""
    if isinstance(value, jax.core.Tracer):
        raise untraced(value)
    return np.asarray(value)


HOST = HostScope()
