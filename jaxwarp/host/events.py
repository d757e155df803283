"""Events, and timers of parts of a program.

Launches outside of JAX have ended when they return, so that the clock of the host measures them.
"""

from __future__ import annotations

import cProfile
import threading
import time
from typing import Any, ClassVar

from jaxwarp.boundary import boundaries, boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.devices import Device, require_cpu
from jaxwarp.memory.host_scope import HOST


@boundaries
class Event:
    """A moment of the program, of work outside of JAX: `record_event(event)` sets it.

    Args:
        device: the CPU.
        enable_timing: whether `get_event_elapsed_time` may be asked about it.

    Raises:
        KernelTypeError, KernelValueError: another device, or an event that somebody else has made.
    """

    def __init__(self, device: Any = None, cuda_event: Any = None, enable_timing: bool = False, **_: Any):
        if cuda_event is not None:
            raise KernelValueError(
                f"Event: cuda_event: events outside of JAX are of the CPU, got {cuda_event!r}",
                hint="leave cuda_event out; on CUDA XLA orders the work",
            )
        self.device: Device = require_cpu(device, "Event")
        self.enable_timing = enable_timing
        self._time: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all work before it has ended: it has."""
        return True

    def record(self) -> None:
        """Sets it to now."""
        self._time = time.perf_counter_ns()

    @property
    def time(self) -> int:
        """When it was, in nanoseconds of the clock of the process."""
        if not self.enable_timing:
            raise KernelValueError("the event keeps no time", hint="make it with Event(enable_timing=True)")
        if self._time is None:
            raise KernelValueError("the event has not been recorded", hint="call record_event(event) first")
        return self._time


def _require_host(what: str) -> None:
    if scope_now() is not HOST:
        raise KernelTypeError(
            f"{what} is for work outside of JAX", hint="in programs XLA orders the work; jax.profiler.trace measures it"
        )


def _require_event(what: str, event: Any) -> Event:
    if not isinstance(event, Event):
        raise KernelTypeError(f"{what}: expected an Event, got {event!r}", hint="make one with Event()")
    return event


@boundary
def record_event(event: Event | None = None, external: bool = False) -> Event:
    """Sets an event, or a new one, to now.

    Raises:
        KernelTypeError: it is no event, or this is a function that XLA calls or JAX traces.
    """
    del external
    _require_host("record_event")
    found = Event() if event is None else _require_event("record_event", event)
    found.record()
    return found


@boundary
def wait_event(event: Event, external: bool = False) -> None:
    """Lets later work wait for an event: what came before it has ended.

    Raises:
        KernelTypeError: it is no event, or this is a function that XLA calls or JAX traces.
    """
    del external
    _require_host("wait_event")
    _require_event("wait_event", event)


@boundary
def synchronize_event(event: Event) -> None:
    """Waits for an event: what came before it has ended.

    Raises:
        KernelTypeError: it is no event.
    """
    _require_event("synchronize_event", event)


@boundary
def get_event_elapsed_time(start_event: Event, end_event: Event, synchronize: bool = True) -> float:
    """Milliseconds from one event to another.

    Raises:
        KernelTypeError, KernelValueError: one is no event, keeps no time, or has not been recorded.
    """
    del synchronize
    start, end = (_require_event("get_event_elapsed_time", e) for e in (start_event, end_event))
    return (end.time - start.time) / 1e6


class _Depth(threading.local):
    """How many timers that print are running in this thread."""

    value = 0


class ScopedTimer:
    """`with ScopedTimer("step"):` prints how long the `with` took, in milliseconds.

    Args:
        name: of the timer.
        active: False: nothing is measured.
        print: whether the time is printed.
        detailed: whether Python's profile of the `with` is printed.
        dict: lists of times by name: the time is added to the timer's.
        synchronize: work outside of JAX has ended when it returns, so there is nothing to wait for.
        options: of Warp's that have no effect: `use_nvtx`, `color`, `cuda_filter`, `report_func`, `skip_tape`.

    Attributes:
        elapsed: milliseconds that the last `with` took.
        extra_msg: text to be printed behind the time.
        enabled: of the class: False turns all timers off.
    """

    enabled: ClassVar[bool] = True
    _depth: ClassVar[_Depth] = _Depth()
    _OPTIONS: ClassVar[tuple[str, ...]] = ("use_nvtx", "color", "cuda_filter", "report_func", "skip_tape")

    def __init__(
        self,
        name: str,
        active: bool = True,
        print: bool = True,  # noqa: A002 - the name users know from Warp
        detailed: bool = False,
        dict: dict[str, list[float]] | None = None,  # noqa: A002 - likewise
        synchronize: bool = False,
        **options: Any,
    ):
        del synchronize
        unknown = [option for option in options if option not in self._OPTIONS]
        if unknown:
            raise KernelTypeError(
                f"ScopedTimer has no option {', '.join(unknown)}",
                hint="its options are active, print, detailed, dict, synchronize",
            )
        self.name, self.active, self.print, self.detailed, self.dict = (
            name,
            active and self.enabled,
            print,
            detailed,
            dict,
        )
        self.elapsed, self.extra_msg = 0.0, ""
        self.timing_results: list[Any] = []
        if dict is not None:
            dict.setdefault(name, [])

    def __enter__(self) -> ScopedTimer:
        if self.active:
            self._depth.value += self.print
            self._profile = cProfile.Profile() if self.detailed else None
            self._start = time.perf_counter_ns()
            if self._profile is not None:
                self._profile.enable()
        return self

    def __exit__(self, *_: Any) -> None:
        if not self.active:
            return
        self.elapsed = (time.perf_counter_ns() - self._start) / 1e6
        if self._profile is not None:
            self._profile.disable()
            self._profile.print_stats(sort="tottime")
        if self.dict is not None:
            self.dict[self.name].append(self.elapsed)
        if self.print:
            self._depth.value -= 1
            self._report("    " * self._depth.value)

    def _report(self, indent: str) -> None:
        extra = f" {self.extra_msg}" if self.extra_msg else ""
        print(f"{indent}{self.name} took {self.elapsed:.2f} ms{extra}")
