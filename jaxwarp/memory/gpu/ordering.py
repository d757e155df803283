"""Streams that work on the same memory: who waits for whom, so that what is read has been written."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from jaxwarp.memory.driver import CudaError
from jaxwarp.memory.region import Region
from jaxwarp.memory.tensor_owner import Owner

_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING


class ContextDriver(Protocol):
    """A driver whose calls are made in the context of a device."""

    types: Any

    def call(self, name: str, *arguments: Any, what: str = "") -> Any:
        """See `Driver.call`."""
        ...

    def answer(self, name: str, *arguments: Any) -> Sequence[Any]:
        """See `Driver.answer`."""
        ...

    def asks(self, name: str, *arguments: Any) -> bool:
        """See `Driver.asks`."""
        ...


class Queue:
    """A stream, and how others wait for it.

    Args:
        driver: of its device.
        handle: its address.
        is_owned: it ends when nobody has it any more. Others may end a foreign one at any time after its use: then an
            event is recorded, and only that is asked for later.
    """

    def __init__(self, driver: ContextDriver, handle: int, is_owned: bool):
        self._driver, self.handle, self.is_owned = driver, handle, is_owned
        self._users = 0
        self._event: Any = None

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():
            return  # the driver may be gone
        with contextlib.suppress(CudaError):
            if self._event is not None:
                self._driver.call("EventDestroy", self._event)
            if self.is_owned:
                self._driver.call("StreamDestroy", self.handle)  # which happens when its work is done

    def waits_for(self, other: Queue) -> None:
        """Make all work that is queued from now on wait for all work that is queued on `other`."""
        if other.handle == self.handle and other._driver is self._driver:
            return
        # Who waits for an event waits for what it was then: it may be recorded again.
        if other._event is None or other._users or other.is_owned:
            other._record()
        self._driver.call("StreamWaitEvent", self.handle, other._event, 0)

    def _record(self) -> None:
        if self._event is None:
            self._event = self._driver.call("EventCreate", _NO_TIMING)
        self._driver.call("EventRecord", self._event, self.handle)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Return a context in which work is queued on the stream."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self.is_owned:
                self._record()

    def stays_used(self) -> None:
        """Treat the stream as in use from now on: work may be queued at any time, so the stream must not end."""
        self._users += 1

    def is_done(self) -> bool:
        """Return whether all queued work is done."""
        return self._driver.asks("StreamQuery", self.handle)

    def synchronize(self) -> None:
        """Waits until all that is queued is done."""
        self._driver.call("StreamSynchronize", self.handle)


class Contents(NamedTuple):
    """Knowledge of what a piece of memory holds, without asking the device.

    Attributes:
        writes: how often the memory had been written when this was found.
        span: the addresses between which it is known.
        is_zero: whether all numbers are zero, or else at least one is not.
    """

    writes: int
    span: tuple[int, int]
    is_zero: bool


class PendingWork:
    """The streams that may still work on a piece of memory: that which wrote it last, and those that read it since.

    Attributes:
        readers: these wait for all that `writer` had queued when they first read it since.
        is_shared: another library has the address, and may have queued work at any time, on whatever stream.
        is_fixed: a graph reads what it holds, at any time.
        is_exposed: somebody else has the address, and may write to it without a word.
        writes: how often something was queued that writes to it.
        contents: what it held after one of these.
    """

    __slots__ = ("contents", "is_exposed", "is_fixed", "is_shared", "readers", "writer", "writes")

    def __init__(self, writer: Queue):
        self.writer = writer
        self.readers: tuple[Queue, ...] = ()
        self.is_shared = self.is_fixed = self.is_exposed = False
        self.writes = 0
        self.contents: Contents | None = None


class StreamChanges:
    """A count of how often memory has become that of another stream or library: what was quiet may not be any more."""

    count = 0


class Quiet(NamedTuple):
    """Work on a stream that waits for nothing, as long as nothing changes.

    Attributes:
        queue: the stream.
        changes: `StreamChanges.count` when this was found.
        written: what it writes to.
    """

    queue: Queue
    changes: int
    written: list[PendingWork]

    def holds(self, queue: Queue) -> bool:
        """Note the work once more, if it still waits for nothing. Return whether it does."""
        if queue is not self.queue or StreamChanges.count != self.changes:
            return False
        for work in self.written:
            work.writes += 1
        return True


def quiet(queue: Queue, reads: Sequence[Region], writes: Sequence[Region]) -> Quiet | None:
    """Return what is known of work on regions that waits for nobody; None if it may have to wait, or to be noted."""
    changes = StreamChanges.count
    read, written = ([work for r in regions if (work := _work_on(r)) is not None] for regions in (reads, writes))
    is_quiet = all(w.writer is queue or (queue in w.readers and not w.is_shared) for w in read)
    is_quiet = is_quiet and all(w.writer is queue and not w.readers for w in written)
    return Quiet(queue, changes, written) if is_quiet else None


def note(queue: Queue, reads: Sequence[Region], writes: Sequence[Region]) -> None:
    """Something on `queue` is about to read and write regions: what others do with these comes first."""
    waited: list[Queue] = []
    read = [work for region in reads if (work := _work_on(region)) is not None and work.writer is not queue]
    for work in read:
        if work.is_shared or queue not in work.readers:
            waited.append(work.writer)
    written = [work for region in writes if (work := _work_on(region)) is not None]
    for work in written:
        work.writes += 1
        if work.readers or work.writer is not queue:
            waited += [work.writer, *work.readers]
    if not waited:
        return
    StreamChanges.count += 1
    for other in dict.fromkeys(waited):
        queue.waits_for(other)
    for work in read:  # now that nothing has failed
        if queue not in work.readers:
            work.readers = (*work.readers, queue)
    for work in written:
        work.writer, work.readers = queue, ()
    StreamChanges.count += 1


def share(region: Region) -> None:
    """Another library gets the address, and may use it on streams that nobody here knows."""
    expose(region)
    work = _work_on(region)
    if work is not None:
        work.is_shared = True
        StreamChanges.count += 1


def expose(region: Region) -> None:
    """Somebody gets the address, and may write to it at any time."""
    work = _work_on(region)
    if work is not None:
        work.is_exposed = True


def writes_to(region: Region) -> int | None:
    """Return a number that is another one when the memory of a region has been written. Return None if that is not
    known."""
    work = _work_on(region)
    return None if work is None or work.is_exposed or work.is_shared else work.writes


def note_contents(region: Region, is_zero: bool | None) -> None:
    """Note what was written to a region: zeros, or numbers of which one is not zero; None: that is not known."""
    work = _work_on(region)
    if work is None or is_zero is None:
        return
    before, (low, high) = work.contents, region.span
    if is_zero and before is not None and before.is_zero and before.writes == work.writes - 1:
        first, last = before.span
        if first <= low and high <= last:  # zeros that were zero
            work.contents = Contents(work.writes, before.span, True)
            return
    if region.is_dense:
        work.contents = Contents(work.writes, region.span, is_zero)


def is_zero(region: Region) -> bool | None:
    """Return whether all numbers of a region are zero. Return None if only the device knows."""
    work = _work_on(region)
    found = None if work is None else work.contents
    if found is None or found.writes != writes_to(region):
        return None
    (low, high), (first, last) = region.span, found.span
    if found.is_zero:
        return True if first <= low and high <= last else None
    return False if (low, high) == (first, last) and region.is_dense else None


def _work_on(region: Region) -> PendingWork | None:
    return region.owner.work if isinstance(region.owner, Owner) else None
