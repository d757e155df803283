"""Functions on events, and timers for parts of a program.

Launches outside of JAX on the CPU have ended when they return, so the clock of the host measures them.
"""

from __future__ import annotations

import cProfile
import threading
import time
from typing import Any, ClassVar

import numpy as np

from jaxwarp.boundary import boundary, guarded
from jaxwarp.errors import KernelTypeError
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.gpu.events import Event
from jaxwarp.memory.gpu.streams import require_event
from jaxwarp.memory.gpu.streams import synchronize as synchronize_all
from jaxwarp.memory.host_scope import HOST, recording


def _require_host(what: str) -> None:
    if scope_now() is not HOST:
        raise KernelTypeError(
            f"{what} is for work outside of JAX", hint="in programs XLA orders the work; jax.profiler.trace measures it"
        )


@boundary
def record_event(event: Event | None = None, external: bool = False) -> Event:
    """Record in an event, or in a new one, the end of the work that is queued now. On the CPU that is the present.

    Raises:
        KernelTypeError: it is no event, or this is a function that XLA calls or JAX traces.
    """
    del external
    _require_host("record_event")
    found = Event() if event is None else require_event("record_event", event)
    found.record()
    return found


@boundary
def wait_event(event: Event, external: bool = False) -> None:
    """Lets later work wait for an event.

    Raises:
        KernelTypeError: it is no event, or this is a function that XLA calls or JAX traces.
    """
    del external
    _require_host("wait_event")
    require_event("wait_event", event).precede()


@boundary
def synchronize_event(event: Event) -> None:
    """Waits for an event.

    Raises:
        KernelTypeError: it is no event.
    """
    require_event("synchronize_event", event).synchronize()


@boundary
def get_event_elapsed_time(start_event: Event, end_event: Event, synchronize: bool = True) -> float:
    """Milliseconds from one event to another; `synchronize`: first wait for the later one.

    Raises:
        KernelTypeError, KernelValueError: one is no event, keeps no time, or has not been recorded.
    """
    start, end = (require_event("get_event_elapsed_time", e) for e in (start_event, end_event))
    if synchronize:
        end.synchronize()
    return start.milliseconds_to(end)


class _Depth(threading.local):
    """The number of timers that print and are running in this thread."""

    value = 0


@guarded
class ScopedTimer:
    """`with ScopedTimer("step"):` prints how long the `with` took, in milliseconds.

    Args:
        name: of the timer.
        active: False: nothing is measured.
        print: whether the time is printed.
        detailed: whether Python's profile of the `with` is printed.
        dict: lists of times by name: the time is added to the timer's.
        synchronize: whether work on GPUs is waited for, before and after.
        skip_tape: else what a `Tape` records in the `with` is a scope of its pictures, active or not.
        options: of Warp's that have no effect: `use_nvtx`, `color`, `cuda_filter`, `report_func`.

    Attributes:
        elapsed: milliseconds that the last `with` took.
        extra_msg: text to be printed behind the time.
        enabled: of the class: False turns all timers off.
    """

    enabled: ClassVar[bool] = True
    _SETTABLE: ClassVar[tuple[str, ...]] = ("name", "active", "print", "detailed", "dict", "skip_tape", "extra_msg")
    _depth: ClassVar[_Depth] = _Depth()
    _OPTIONS: ClassVar[tuple[str, ...]] = ("use_nvtx", "color", "cuda_filter", "report_func")

    @boundary
    def __init__(
        self,
        name: str,
        active: bool = True,
        print: bool = True,  # noqa: A002 - the name users know from Warp
        detailed: bool = False,
        dict: dict[str, list[float]] | None = None,  # noqa: A002 - likewise
        synchronize: bool = False,
        skip_tape: bool = False,
        **options: Any,
    ):
        unknown = [option for option in options if option not in self._OPTIONS]
        if unknown:
            raise KernelTypeError(
                f"ScopedTimer has no option {', '.join(unknown)}",
                hint="its options are active, print, detailed, dict, synchronize, skip_tape",
            )
        if type(active) is not bool and np.ndim(active):  # which takes long of a bool
            raise KernelTypeError(f"ScopedTimer: active: expected a bool, got {active!r}", hint="write True or False")
        self.name, self.active, self.print, self.detailed, self.dict = (
            name,
            active and self.enabled,
            print,
            detailed,
            dict,
        )
        self.elapsed, self.extra_msg, self._synchronizes = 0.0, "", synchronize
        self.timing_results: list[Any] = []
        self.skip_tape, self._tape = skip_tape, None
        if dict is not None:
            dict.setdefault(name, [])

    def __enter__(self) -> ScopedTimer:
        if self.active:
            self._depth.value += self.print
            self._profile = cProfile.Profile() if self.detailed else None
            if self._synchronizes:
                synchronize_all()
            self._start = time.perf_counter_ns()
            if self._profile is not None:
                self._profile.enable()
        self._tape = None if self.skip_tape else recording.get()
        if self._tape is not None:
            self._tape.record_scope_begin(self.name)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._tape is not None and self._tape is recording.get():
            self._tape.record_scope_end()
        if not self.active:
            return
        if self._synchronizes:
            synchronize_all()
        self.elapsed = (time.perf_counter_ns() - self._start) / 1e6
        if self._profile is not None:
            self._profile.disable()
            self._profile.print_stats(sort="tottime")
        if self.dict is not None:
            self.dict.setdefault(self.name, []).append(self.elapsed)
        if self.print:
            self._depth.value -= 1
            self._report("    " * self._depth.value)

    def _report(self, indent: str) -> None:
        extra = f" {self.extra_msg}" if self.extra_msg else ""
        print(f"{indent}{self.name} took {self.elapsed:.2f} ms{extra}")
