"""CUDA streams by their names in Warp: of work outside of JAX, and in functions that XLA calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jaxwarp.boundary import boundaries, boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.cuda_scope import CudaScope
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.devices import Device, get_device, require_device
from jaxwarp.memory.gpu.events import Event
from jaxwarp.memory.gpu.ordering import Queue
from jaxwarp.memory.gpu.scope import GpuScope, device_of, gpu_scope, gpu_scopes
from jaxwarp.memory.scope import Scope


@boundaries
class Stream:
    """A CUDA stream.

    Args:
        device: where it is: a `Device`, or its alias; None: the one that is chosen, or the first.
        priority: of a new one: -1 for what is urgent.
        cuda_stream: the address of one that somebody else has made, as in `ctx.stream` of a callback, or an object of
            another library that has one and says so by CUDA's stream protocol, `__cuda_stream__()`, as streams of
            `cuda.core` and PyTorch do. Without it a new stream is made.

    Raises:
        KernelTypeError, KernelValueError: there is no such device, or no address.
    """

    def __init__(self, device: Any = None, priority: int = 0, cuda_stream: Any = None, **_: Any):
        self.device = Device(device) if isinstance(device, str) else device
        if not isinstance(priority, (int, np.integer)):
            hint = "write 0, or -1 for what is urgent"
            raise KernelTypeError(f"Stream: priority: expected an integer, got {priority!r}", hint=hint)
        self.priority = int(priority)
        self._address = _address(cuda_stream)
        self._queue: Queue | None = None
        if cuda_stream is None:
            place = _place("Stream", device)
            self.device, self._queue = device_of(place), place.new_queue(self.priority)
        elif self._address is None:
            raise KernelTypeError(
                f"Stream: cuda_stream: expected the address of a CUDA stream, got {cuda_stream!r}",
                hint="pass ctx.stream of a callback on CUDA, or leave it out: a new stream is made",
            )

    @property
    def queue(self) -> Queue:
        """The queue that lets other streams wait for this one."""
        if self._queue is None:
            assert self._address is not None
            self._queue = _place("Stream", self.device).foreign_queue(self._address)
        return self._queue

    @property
    def cuda_stream(self) -> int:
        """The address."""
        return self.queue.handle if self._address is None else self._address

    @property
    def is_complete(self) -> bool:
        """True if all queued work is done."""
        return self.queue.is_done()

    @property
    def is_capturing(self) -> bool:
        """False: captures here keep launches, and no stream records them."""
        return False

    def wait_stream(self, other_stream: Any, event: Any = None, external: bool = False) -> None:
        """Make work that is queued from now on wait for all work on another stream. `event` and `external` have no
        effect."""
        del event, external
        self.queue.waits_for(_require_stream("wait_stream", other_stream).queue)

    def record_event(self, event: Event | None = None, external: bool = False) -> Event:
        """Sets an event, or a new one, to when all that is queued is done. `external`: no effect."""
        del external
        made = require_event("record_event", Event(self.device) if event is None else event)
        made.record(self.queue)
        return made

    def wait_event(self, event: Event, external: bool = False) -> None:
        """Make work that is queued from now on wait for an event. `external` has no effect."""
        del external
        require_event("wait_event", event).precede(self.queue)

    def __cuda_stream__(self) -> tuple[int, int]:
        """The version of the protocol, and the address."""
        return 0, self.cuda_stream

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same stream of the driver."""
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device, self.cuda_stream) == (other.device, other.cuda_stream)

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"Stream({self.device}, cuda_stream={self.cuda_stream:#x})"


def _address(stream: Any) -> int | None:
    """The address that a number is, or that an object has by version 0 of the protocol."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(type(stream), "__cuda_stream__", None)
    if protocol is None:
        return None
    found = protocol(stream)
    is_known = isinstance(found, tuple) and len(found) == 2 and found[0] == 0
    return int(found[1]) if is_known else None


def _place(where: str, device: Any) -> GpuScope:
    """The memory of a GPU; None: of the device that is chosen, if it is one, or of the first one.

    Raises:
        KernelTypeError, KernelValueError: there is no such GPU.
    """
    if device is None and get_device().is_cpu:
        device = "cuda:0"
    found = require_device(device, where)
    if found.is_cpu:
        raise KernelTypeError(f"{where}: the CPU has no streams", hint='write "cuda:0", or leave the stream out')
    return gpu_scope(found.ordinal)


def _require_stream(where: str, stream: Any) -> Stream:
    if not isinstance(stream, Stream) and hasattr(type(stream), "__cuda_stream__"):
        return Stream(cuda_stream=stream)
    if not isinstance(stream, Stream):
        raise KernelTypeError(f"{where}: expected a Stream, got {stream!r}", hint="write Stream(device), or None")
    return stream


def require_event(where: str, event: Any) -> Event:
    """An event.

    Raises:
        KernelTypeError: it is none.
    """
    if not isinstance(event, Event):
        raise KernelTypeError(f"{where}: expected an Event, got {event!r}", hint="make one with Event()")
    return event


@contextmanager
def ScopedStream(  # noqa: N802 - the name users know from Warp
    stream: Any, sync_enter: bool = True, sync_exit: bool = False
) -> Iterator[Stream | None]:
    """Launches, copies and fills in the `with` go to `stream`, a `Stream` or an object with `__cuda_stream__()`.

    Outside of JAX what uses the same memory waits for what used it before, whatever the streams. In a function that XLA
    calls each stream waits for the other. With None nothing changes, anywhere.

    Args:
        stream: the stream.
        sync_enter: outside of JAX, whether it waits for the stream that was chosen before.
        sync_exit: whether that one waits for it at the end.

    Raises:
        KernelTypeError, KernelValueError: the function is traced, or the stream is of another device.
    """
    if stream is None:
        yield None
        return
    scope = scope_now()
    if scope is None:
        raise KernelTypeError(
            "ScopedStream works inside a callback, a function under jax_callable with GraphMode.NONE, and outside of"
            " JAX",
            hint="leave it out: XLA chooses the streams of programs",
        )
    found = _require_stream("ScopedStream", stream)
    if scope.is_outside:
        place, queue = _place("ScopedStream", found.device), found.queue
        before = place.queue
        if sync_enter:
            queue.waits_for(before)
        with place.on_queue(queue):
            yield found
        if sync_exit:
            before.waits_for(queue)
        return
    with _of_call(scope, found).on_stream(found.cuda_stream):
        yield found


def _of_call(scope: Scope, stream: Stream) -> CudaScope:
    """The call, if a stream is of its device."""
    if not isinstance(scope, CudaScope):
        raise KernelValueError(
            f"ScopedStream: the call runs on the CPU, which has no streams; got {stream!r}",
            hint="write ScopedStream(None)",
        )
    if stream.device is not None and stream.device != f"cuda:{scope.device_ordinal}":
        raise KernelValueError(
            f"ScopedStream: {stream!r} is of another device than the call, which runs on cuda:{scope.device_ordinal}",
            hint="use the stream of the call: ctx.stream",
        )
    return scope


@boundary
def get_stream(device: Any = None) -> Stream:
    """The stream of a GPU that work outside of JAX is queued on.

    Raises:
        KernelTypeError, KernelValueError: there is no such GPU.
    """
    return _seen(_place("get_stream", device))


def _seen(place: GpuScope) -> Stream:
    made = Stream(device_of(place), cuda_stream=place.queue.handle)
    made._queue = place.queue
    return made


@boundary
def set_stream(stream: Any, device: Any = None, sync: bool = True) -> None:
    """Makes a stream the one that work outside of JAX is queued on.

    Args:
        stream: a `Stream`, or an object with `__cuda_stream__()`.
        device: of a stream that knows none.
        sync: whether it waits for the one before first; what uses the same memory does so anyway.

    Raises:
        KernelTypeError, KernelValueError: it is no stream, or of another device.
    """
    found = _require_stream("set_stream", stream)
    place = _place("set_stream", device if found.device is None else found.device)
    if sync:
        found.queue.waits_for(place.chosen)
    found.queue.stays_used()
    place.chosen = found.queue


@boundary
def wait_stream(other_stream: Any, event: Any = None, external: bool = False) -> None:
    """The stream that is chosen waits for another one. `event`, `external`: no effect.

    Raises:
        KernelTypeError, KernelValueError: it is no stream.
    """
    del event, external
    other = _require_stream("wait_stream", other_stream)
    _place("wait_stream", other.device).queue.waits_for(other.queue)


@boundary
def synchronize() -> None:
    """Waits until all work on arrays outside of JAX is done, on every GPU that was used; on the CPU it is, when a
    launch or copy returns."""
    for place in gpu_scopes():
        place.synchronize_all()


@boundary
def synchronize_device(device: Any = None) -> None:
    """Waits until the work on a device is done; None: on the one that is chosen.

    Raises:
        KernelTypeError, KernelValueError: there is no such device.
    """
    found = require_device(device, "synchronize_device")
    if found.is_cuda:
        gpu_scope(found.ordinal).synchronize_all()


@boundary
def synchronize_stream(stream_or_device: Any = None) -> None:
    """Waits until the work of a stream is done; of a device, or None, that of the stream that is chosen there.

    Raises:
        KernelTypeError, KernelValueError: there is no such stream or device.
    """
    if isinstance(stream_or_device, Stream) or hasattr(type(stream_or_device), "__cuda_stream__"):
        _require_stream("synchronize_stream", stream_or_device).queue.synchronize()
        return
    found = require_device(stream_or_device, "synchronize_stream")
    if found.is_cuda:
        gpu_scope(found.ordinal).synchronize()
