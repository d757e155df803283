"""Events: moments of work outside of JAX, on the CPU and on streams of GPUs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Any

from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelValueError
from jaxwarp.memory.devices import Device, require_device
from jaxwarp.memory.driver import CudaError
from jaxwarp.memory.gpu.ordering import ContextDriver, Queue
from jaxwarp.memory.gpu.scope import GpuScope, gpu_scope

_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING


class _Handle:
    """An event of the driver's."""

    def __init__(self, entry: ContextDriver, enable_timing: bool):
        self.entry = entry
        self.address = entry.call("EventCreate", 0 if enable_timing else _NO_TIMING)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if hasattr(self, "address") and not is_finalizing():
            with contextlib.suppress(CudaError):
                self.entry.call("EventDestroy", self.address)


@boundaries
class Event:
    """A moment of the program, of work outside of JAX: `record_event(event)` sets it.

    Args:
        device: of the work; None: the one that is chosen.
        enable_timing: whether `get_event_elapsed_time` may be asked about it.

    Raises:
        KernelTypeError, KernelValueError: there is no such device, or somebody else has made the event.
    """

    def __init__(self, device: Any = None, cuda_event: Any = None, enable_timing: bool = False, **_: Any):
        if cuda_event is not None:
            raise KernelValueError(
                f"Event: cuda_event: events of other libraries are not taken, got {cuda_event!r}",
                hint="leave cuda_event out, and let streams wait: Stream(cuda_stream=...)",
            )
        self.device: Device = require_device(device, "Event")
        self.enable_timing = enable_timing
        self._time: int | None = None
        self._handle: _Handle | None = None
        self._is_recorded = False

    @property
    def is_complete(self) -> bool:
        """True if all work before the event has ended: always on the CPU."""
        return not self._is_recorded or self._handle is None or self._handle.entry.asks("EventQuery", self.cuda_event)

    @property
    def cuda_event(self) -> int:
        """The driver's event.

        Raises:
            KernelValueError: it is of the CPU.
        """
        if self.device.is_cpu:
            raise KernelValueError("the event is of the CPU, and CUDA has none", hint='write Event("cuda:0")')
        if self._handle is None:
            self._handle = _Handle(gpu_scope(self.device.ordinal).ready(), self.enable_timing)
        return int(self._handle.address)

    def record(self, queue: Queue | None = None) -> None:
        """Sets it to when what is queued is done, on the stream that is chosen if none is given; on the CPU to now."""
        self._is_recorded = True
        if self.device.is_cpu:
            self._time = time.perf_counter_ns()
            return
        place = gpu_scope(self.device.ordinal)
        place.ready().call("EventRecord", self.cuda_event, (queue or place.queue).handle)

    def precede(self, queue: Queue | None = None) -> None:
        """Lets what is queued from now on happen after it."""
        if self.device.is_cuda and self._is_recorded:
            place = gpu_scope(self.device.ordinal)
            place.ready().call("StreamWaitEvent", (queue or place.queue).handle, self.cuda_event, 0)

    def synchronize(self) -> None:
        """Waits for it."""
        if self.device.is_cuda and self._is_recorded:
            gpu_scope(self.device.ordinal).ready().call("EventSynchronize", self.cuda_event)

    @property
    def time(self) -> int:
        """The time of the event, in nanoseconds of the process's clock.

        Raises:
            KernelValueError: it keeps no time, or has not been recorded; or it is of a GPU, which has another clock.
        """
        self._require_time()
        if self._time is None:
            raise KernelValueError("the event is of a GPU", hint="ask for get_event_elapsed_time(start, end)")
        return self._time

    def _require_time(self) -> None:
        if not self.enable_timing:
            raise KernelValueError("the event keeps no time", hint="make it with Event(enable_timing=True)")
        if not self._is_recorded:
            raise KernelValueError("the event has not been recorded", hint="call record_event(event) first")

    def milliseconds_to(self, end: Event) -> float:
        """Return the milliseconds from this event to another one on the same device.

        Raises:
            KernelValueError: one keeps no time, has not been recorded, or is of another device.
        """
        self._require_time()
        end._require_time()
        if self.device != end.device:
            raise KernelValueError(
                f"the events are of {self.device} and of {end.device}, whose clocks differ", hint="use one device"
            )
        if self.device.is_cpu:
            return (end.time - self.time) / 1e6
        place: GpuScope = gpu_scope(self.device.ordinal)
        return float(place.ready().call("EventElapsedTime", self.cuda_event, end.cuda_event))
