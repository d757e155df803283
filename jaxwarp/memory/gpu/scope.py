"""The memory of a GPU, outside of all calls: a scope that never ends. See docs/design/0034."""

from __future__ import annotations

import contextvars
import dataclasses
import itertools
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import jax
import jax.core
import numpy as np

from jaxwarp.errors import KernelTypeError
from jaxwarp.memory.cuda_scope import CudaScope, padded
from jaxwarp.memory.devices import CPU, Device, require_device
from jaxwarp.memory.dlpack import import_tensor, is_on_gpu
from jaxwarp.memory.driver import CudaError, Driver, driver
from jaxwarp.memory.gpu.graphs import DriverGraph, GraphRecorder, NotInGraphError
from jaxwarp.memory.gpu.ordering import PendingWork, Queue, Quiet, expose, is_zero, note, note_contents, quiet, share
from jaxwarp.memory.gpu.pool import keep_freed
from jaxwarp.memory.host_scope import HOST, Outside, require_unrecorded, scope_of, untraced
from jaxwarp.memory.libraries import library_of
from jaxwarp.memory.region import Region, dense_region, leaves_of
from jaxwarp.memory.scope import Scope, view_of
from jaxwarp.memory.tensor_owner import Owner, TensorLibrary, fresh

_BYTE = np.dtype(np.uint8)
# The default stream, as DLPack names it: ours wait for it.
_ORDERED = (None, 1)
_MOST_VALUES = 256  # that launches have got by value, and that stay in memory


class _Here(threading.local):
    """The contexts that this thread has entered, the last one within those before, and the record that it makes."""

    recorder: GraphRecorder | None = None

    def __init__(self) -> None:
        self.contexts: list[Any] = [None]


_here = _Here()


class _Inside:
    """The driver, each call in the context of a device: others (JAX, PyTorch) have theirs current before and after.

    Calls in a `with` of it find the context current.
    """

    def __init__(self, made: Driver, context: Any):
        self._made, self._context, self.types = made, context, made.types

    def __enter__(self) -> None:
        contexts = _here.contexts
        if contexts[-1] is not self._context:
            self._made.call("CtxPushCurrent", self._context)
        contexts.append(self._context)

    def __exit__(self, *_: object) -> None:
        contexts = _here.contexts
        contexts.pop()
        if contexts[-1] is not self._context:
            self._made.call("CtxPopCurrent")

    def call(self, name: str, *arguments: Any, what: str = "") -> Any:
        """See `Driver.call`."""
        if _here.recorder is not None:
            _here.recorder.require(name)
        if _here.contexts[-1] is self._context:
            return self._made.call(name, *arguments, what=what)
        with self:
            return self._made.call(name, *arguments, what=what)

    def answer(self, name: str, *arguments: Any) -> Sequence[Any]:
        """See `Driver.answer`."""
        if _here.recorder is not None:
            _here.recorder.require(name)
        with self:
            return self._made.answer(name, *arguments)

    def asks(self, name: str, *arguments: Any) -> bool:
        """See `Driver.asks`."""
        if _here.recorder is not None:
            _here.recorder.require(name)
        with self:
            return self._made.asks(name, *arguments)


class _Memory:
    """Memory of the driver's, given back when nobody has it any more, after all that was queued on it."""

    def __init__(self, scope: GpuScope, address: int, work: PendingWork):
        self._scope, self._address, self._work = scope, address, work

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():  # then the driver may be gone, and the process gives all back
            self._scope.give_back(self._address, self._work)


# By the number of a device: the stream of `with ScopedStream(...)`.
queues: contextvars.ContextVar[dict[int, Queue]] = contextvars.ContextVar("jaxwarp_streams")


class GpuScope(Outside, CudaScope):
    """The memory of a GPU, outside of every call.

    Each operation is queued on the stream that is chosen, in the device's primary context, which JAX uses too. It waits
    for those of other streams on the same memory.

    Attributes:
        chosen: the stream where no other one is chosen by a `with`.
    """

    def __init__(self, device_ordinal: int):
        Scope.__init__(self, "process", device_ordinal)
        made = driver()
        self._device = made.call("DeviceGet", device_ordinal)
        self.architecture = made.architecture(self._device)
        self._entry = _Inside(made, made.call("DevicePrimaryCtxRetain", self._device))
        # It waits for the default stream, and that for it: where other libraries work if nothing else is said.
        self.main = self.chosen = self.new_queue()
        self._known_values: dict[Any, Region] = {}
        keep_freed(self._entry, self._device)

    def new_queue(self, priority: int = 0, is_apart: bool = False) -> Queue:
        """A new stream; `is_apart`: one that does not wait for the default stream, nor that for it."""
        handle = int(self._entry.call("StreamCreateWithPriority", int(is_apart), priority))
        return Queue(self._entry, handle, is_owned=True)

    def foreign_queue(self, handle: int) -> Queue:
        """A stream of somebody else's."""
        return Queue(self._entry, handle, is_owned=False)

    @property
    def queue(self) -> Queue:
        """The stream that is chosen."""
        return queues.get({}).get(self.device_ordinal, self.chosen)

    @property
    def stream(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.queue.handle

    @contextmanager
    def on_queue(self, queue: Queue) -> Iterator[None]:
        """Return a context in which work is queued on `queue`."""
        token = queues.set({**queues.get({}), self.device_ordinal: queue})
        try:
            with queue.used():
                yield
        finally:
            queues.reset(token)

    def entered(self) -> Any:
        """Return a context in which the device's context is current."""
        return self._entry

    def ready(self) -> Any:
        return self._entry

    def _is_capturing(self) -> bool:
        return False

    @property
    def is_recorded(self) -> bool:
        """True if the work that this thread queues becomes part of a graph."""
        return _here.recorder is not None

    @property
    def context(self) -> Any:
        """The device's primary context."""
        return self._entry._context

    @contextmanager
    def beside_record(self) -> Iterator[None]:
        """Return a context in which work happens now, and is no part of the graph that is being recorded."""
        recorder, _here.recorder = _here.recorder, None
        try:
            with self.on_queue(self.main):
                yield
        finally:
            _here.recorder = recorder

    def uses(self, reads: Sequence[Region], writes: Sequence[Region]) -> None:
        if _here.recorder is not None:
            _here.recorder.note(reads, writes)
        else:
            note(self.queue, reads, writes)

    def quiet(self, reads: Sequence[Region], writes: Sequence[Region]) -> Quiet | None:
        """Return what is known of work that waits for nobody, for `uses_as_before`. Return None if it may wait."""
        return None if _here.recorder is not None else quiet(self.queue, reads, writes)

    def uses_as_before(self, known: Quiet | None) -> bool:
        """Do what `uses` does, if the work still waits for nobody. Return whether it does."""
        return known is not None and _here.recorder is None and known.holds(self.queue)

    def recorded(self, run: Callable[[], object]) -> DriverGraph | None:
        """Record the work that `run` queues as a graph, without running it. Return None if some of it is not work of
        this GPU alone.

        Memory that it makes is kept by the graph."""
        # While another one is recorded, nobody may use the default stream.
        entry, queue, recorder = self._entry, self.new_queue(is_apart=True), GraphRecorder()
        entry.call("StreamBeginCapture", queue.handle, entry.types.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        graph = handle = None
        try:
            try:
                _here.recorder = recorder
                with self.on_queue(queue):
                    run()
            finally:
                _here.recorder = None
                graph = self._ended(queue)
                for give_back in recorder.later:
                    give_back()
            if graph is not None:
                handle = entry.call("GraphInstantiate", graph, 0)
        except NotInGraphError:
            pass
        finally:
            if graph is not None:
                entry.call("GraphDestroy", graph)
        return None if handle is None else DriverGraph(entry, handle, recorder)

    def _ended(self, queue: Queue) -> Any:
        try:
            return self._entry.call("StreamEndCapture", queue.handle)
        except CudaError:  # something in it was no part of a graph
            return None

    def new(self, dtype: np.dtype, shape: Sequence[int]) -> Region:
        nbytes = math.prod(shape) * dtype.itemsize
        if not nbytes:
            return dense_region(0, dtype, shape, Owner(None, self))
        if self.is_recorded:  # the bodies of loops may not make memory; the graph keeps what its work uses
            with self.beside_record():
                return self.new(dtype, shape)
        size, queue = padded(nbytes), self.queue
        address = int(self._entry.call("MemAllocAsync", size, queue.handle, what=f" of {size} bytes"))
        work = PendingWork(queue)
        return dense_region(address, dtype, shape, Owner(_Memory(self, address, work), self, work))

    def taken(self, owner: Any) -> Owner:
        work = PendingWork(self.queue)
        work.is_shared = True
        return Owner(owner, self, work)

    def give_back(self, address: int, work: PendingWork) -> None:
        """Frees memory after all that may still use it. Called by finalizers."""
        if _here.recorder is not None:
            _here.recorder.later.append(lambda: self.give_back(address, work))
            return
        queue = work.writer if work.writer.is_owned else self.main
        with suppress(CudaError):  # which the next call tells, too; then the memory is kept
            if (
                work.is_shared
            ):  # the streams of others may not wait for the default one, and cannot be asked once they ended
                self.synchronize_all()
            for other in (work.writer, *work.readers):
                queue.waits_for(other)
            self._entry.call("MemFreeAsync", address, queue.handle)

    def make(self, dtype: np.dtype, shape: Sequence[int]) -> Region:
        region = self.new(dtype, shape)
        self.set(dense_region(region.address, _BYTE, (region.nbytes,), region.owner), np.zeros((), _BYTE))
        return fresh(region)

    def set(self, target: Region, value: np.ndarray) -> None:
        for leaf, number in zip(target.leaves, leaves_of(value), strict=True):
            super().set(leaf, number)
            self._note_contents(leaf, not number.any())
        if target.dtype.names and not value.tobytes().strip(b"\0"):  # leaves have gaps, in which the others are
            self._note_contents(target, True)

    def duplicate(self, target: Region, source: Region) -> None:
        contents = is_zero(source)
        super().duplicate(target, source)
        self._note_contents(target, contents)

    def _note_contents(self, target: Region, contents: bool | None) -> None:
        if not self.is_recorded:  # else it is written later, and each time that the graph is launched
            note_contents(target, contents)

    def wrote(self, region: Region) -> bool:
        """Return whether what was written to a region last was queued on the current stream."""
        return region.owner.work.writer is self.queue

    def has_alone(self, region: Region) -> bool:
        """Return whether all work that may still use a region is on the current stream."""
        work = region.owner.work
        return work.writer is self.queue and not (work.readers or work.is_fixed)

    def addresses(self, operands: Sequence[Any]) -> tuple[list[int], Any]:
        values = [np.asarray(o) for o in operands if not isinstance(o, Region)]
        if not values:
            return [o.address for o in operands], None
        memory = self._constants(values)
        self.uses([memory], [])
        places = _one_behind_the_other(memory.address, values)
        return [o.address if isinstance(o, Region) else next(places) for o in operands], memory

    def _constants(self, values: Sequence[np.ndarray]) -> Region:
        """Memory that holds values, one behind the other; those of late launches are kept."""
        key = tuple((value.dtype.str, value.tobytes()) for value in values)
        found = self._known_values.get(key)
        if found is not None:
            return found
        with self.beside_record() if self.is_recorded else nullcontext():
            made = self.new(_BYTE, (sum(padded(value.nbytes) for value in values),))
            self.uses([], [made])
            for at, value in zip(_one_behind_the_other(made.address, values), values, strict=False):
                self.set_bytes(at, value.tobytes())
        if len(self._known_values) >= _MOST_VALUES:
            self._known_values.clear()
        self._known_values[key] = made
        return made

    def constant(self, value: np.ndarray) -> Region:
        """Memory that holds a value, for those who read it; that of late ones is kept."""
        memory = self._constants([value])
        return dense_region(memory.address, value.dtype, value.shape, memory.owner)

    def uploaded(self, values: np.ndarray) -> Region:
        """New memory that holds what an array of the host does."""
        made = self.new(values.dtype, values.shape)
        self.put(made, values)
        return made

    def numpy(self, name: str, region: Region, is_writable: bool) -> np.ndarray:
        self.require_settled(name)
        return super().numpy(name, region, is_writable)

    def lease(self, name: str, region: Region) -> Any:
        del name
        return region.owner

    def settled_on(self, region: Region) -> int:
        note(self.queue, [], [region])
        share(region)
        return self.stream

    def exposed(self, region: Region) -> None:
        expose(region)

    def write_kept(self, target: Region, values: np.ndarray) -> None:
        if not self.is_recorded:
            self.write(target, values)
            return
        with self.beside_record():
            source = self.uploaded(np.ascontiguousarray(values))
        self.duplicate(target, source)

    def duplicated(self, region: Region) -> Region:
        """A copy in new memory."""
        made = self.new(region.dtype, region.shape)
        self.duplicate(made, region)
        return made

    def hand_over(self, stream: Any, region: Region) -> None:
        """Another library uses memory on `stream`, as DLPack counts streams: what is queued on it comes first."""
        expose(region)
        if stream not in _ORDERED and stream != self.stream:
            share(region)
        if stream == -1:
            return
        reader = self.queue if stream == self.stream else self.foreign_queue(1 if stream is None else int(stream))
        with reader.used():
            note(reader, [], [region])

    def find(self, value: Any) -> tuple[Region, bool] | None:
        """An array of another library, by CUDA's array interface or DLPack's; what it has queued on it comes first."""
        if isinstance(value, jax.core.Tracer):
            raise untraced(value)
        is_described = not isinstance(value, jax.Array) and library_of(value) is None
        interface = getattr(value, "__cuda_array_interface__", None) if is_described else None
        if interface is not None:
            return self._described(value, interface)
        if isinstance(value, (np.ndarray, np.generic)) or not is_on_gpu(value):
            return None
        if (library := library_of(value)) is not None:
            require_unrecorded(library, value)
            return self.region_of(library, value), True
        region, is_writable = import_tensor(value, self._require_own)
        return region, is_writable and not isinstance(value, jax.Array)

    def region_of(self, library: TensorLibrary, tensor: Any) -> Region:
        """The memory of a tensor of another library; what its library has queued on it comes first.

        Raises:
            KernelTypeError: it has none of its own, or is on another GPU.
        """
        plain = library.alias(tensor)
        try:
            region, _ = import_tensor(plain, self._require_own)
        except (BufferError, RuntimeError) as error:
            raise KernelTypeError(
                f"the memory of the tensor cannot be shared: {str(error).splitlines()[0]}",
                hint="pass a copy, tensor.clone()",
            ) from None
        region.owner.add_tensor(library, region, plain)
        return region

    def _require_own(self, ordinal: int) -> GpuScope:
        if ordinal != self.device_ordinal:
            raise KernelTypeError(
                f"the array is on cuda:{ordinal}, and is used on {device_of(self)}", hint="move it, or launch there"
            )
        return self

    def _described(self, value: Any, interface: Mapping[str, Any]) -> tuple[Region, bool]:
        """The memory that CUDA's array interface describes."""
        dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
        address, is_read_only = interface["data"]
        if math.prod(shape):
            attribute = self._entry.types.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
            self._require_own(int(self._entry.call("PointerGetAttribute", attribute, address)))
        producer = interface.get("stream")
        if producer is not None:
            self.queue.waits_for(self.foreign_queue(int(producer)))
        region = dense_region(int(address or 0), dtype, shape, self.taken(value))
        if interface.get("strides") is not None:
            region = dataclasses.replace(region, strides=tuple(interface["strides"]))
        return region, not is_read_only

    def bring(self, target: Region, source: Region) -> None:
        place = scope_of(source)
        if place is self:
            self.duplicate(target, source)
        elif isinstance(place, GpuScope):
            self._from_peer(target, place, source)
        else:
            values = view_of(source)
            CudaScope.write(self, target, values)
            self._note_contents(target, None if values.dtype.names else not values.any())

    def _from_peer(self, target: Region, place: GpuScope, source: Region) -> None:
        """A copy from another GPU."""
        if not target.size:
            return
        given, made = place.dense(source), target if target.is_dense else self.new(target.dtype, target.shape)
        self.uses([given], [made])
        contexts = self._entry._context, place._entry._context
        self._entry.call(
            "MemcpyPeerAsync", made.address, contexts[0], given.address, contexts[1], made.nbytes, self.stream
        )
        if made is not target:
            self.duplicate(target, made)

    def synchronize(self) -> None:
        """Waits for the stream that is chosen."""
        self.queue.synchronize()

    def synchronize_all(self) -> None:
        """Waits for all that is queued on the device."""
        self._entry.call("CtxSynchronize")


def _one_behind_the_other(address: int, values: Sequence[np.ndarray]) -> Iterator[int]:
    """Return the address of each value when they are stored one after the other from an address."""
    return itertools.accumulate((padded(value.nbytes) for value in values), initial=address)


_lock = threading.Lock()
_scopes: dict[int, GpuScope] = {}
_places: dict[object, Outside] = {}  # by names of devices


def gpu_scope(ordinal: int) -> GpuScope:
    """The memory of a GPU.

    Raises:
        CudaError: there is no such device.
    """
    found = _scopes.get(ordinal)
    if found is None:
        with _lock:
            found = _scopes.get(ordinal) or _scopes.setdefault(ordinal, GpuScope(ordinal))
    return found


def gpu_of(value: Any) -> GpuScope:
    """The memory that an array with CUDA's array interface is in."""
    entry = gpu_scope(0).ready()
    attribute = entry.types.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    address = value.__cuda_array_interface__["data"][0]
    return gpu_scope(int(entry.call("PointerGetAttribute", attribute, address)) if address else 0)


def region_of_tensor(library: TensorLibrary, tensor: Any) -> Region:
    """The memory of a tensor of another library, wherever it is.

    Raises:
        KernelTypeError, KernelValueError: it has none of its own.
    """
    if not is_on_gpu(tensor):
        return library.region(tensor)
    return gpu_scope(int(tensor.__dlpack_device__()[1])).region_of(library, tensor)


def gpu_scopes() -> list[GpuScope]:
    """Return the GPU scopes that are in use."""
    return list(_scopes.values())


def place_of_device(device: object, where: str) -> Outside:
    """The memory of the process on a device; None: on the one that is chosen.

    Raises:
        KernelTypeError, KernelValueError: there is no such device.
    """
    is_named = type(device) is str or type(device) is Device
    place = _places.get(device) if is_named else None
    if place is None:
        found = require_device(device, where)
        place = HOST if found.is_cpu else gpu_scope(found.ordinal)
        if is_named:
            _places[device] = place
    return place


def device_of(scope: Scope) -> Device:
    """The device of a scope."""
    return CPU if scope.platform == "cpu" else Device(f"cuda:{scope.device_ordinal}")
