"""Graphs of the driver: work of one GPU that was queued once for a record, and is launched as one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from jaxwarp.memory.driver import CudaError
from jaxwarp.memory.gpu.ordering import ContextDriver, Queue, note
from jaxwarp.memory.region import Region

# What may be asked of the driver meanwhile: kernels, copies and fills on the GPU, nodes with conditions, and what puts
# no work on a stream.
_RECORDED = frozenset((
    "LaunchKernelEx", "MemcpyDtoDAsync", "Memcpy2DAsync", "MemsetD8Async", "MemsetD16Async", "MemsetD32Async",
    "MemsetD2D8Async", "MemsetD2D16Async", "MemsetD2D32Async", "EventDestroy", "StreamDestroy", "GraphExecDestroy",
    "LibraryLoadData", "LibraryGetKernel", "DriverGetVersion", "StreamCreateWithPriority", "StreamGetCaptureInfo",
    "GraphConditionalHandleCreate", "GraphAddNode", "GraphAddNode_v2", "StreamUpdateCaptureDependencies",
    "StreamUpdateCaptureDependencies_v2", "StreamBeginCaptureToGraph", "StreamEndCapture",
))  # fmt: skip


class NotInGraphError(Exception):
    """The host has a part in it."""


class GraphRecorder:
    """The work that is queued while a stream is being recorded.

    Attributes:
        reads, writes: the memory that the work reads and writes.
        later: functions that give resources back, called once the recording has ended.
    """

    def __init__(self) -> None:
        self.reads: list[Region] = []
        self.writes: list[Region] = []
        self.later: list[Callable[[], None]] = []

    def require(self, name: str) -> None:
        """Refuse a driver function that cannot be part of a graph.

        Raises:
            NotInGraphError: the function cannot.
        """
        if name not in _RECORDED:
            raise NotInGraphError(name)

    def note(self, reads: Sequence[Region], writes: Sequence[Region]) -> None:
        """Something that reads and writes regions; all of it is on one stream."""
        self.reads += reads
        self.writes += writes


class DriverGraph:
    """A graph. It keeps the memory that its work is about.

    Args:
        driver: of its device.
        handle: of what the driver has made of the record.
        recorder: what was recorded.
    """

    def __init__(self, driver: ContextDriver, handle: Any, recorder: GraphRecorder):
        self._driver, self._handle = driver, handle
        self.writes = list({id(r.owner): r for r in recorder.writes}.values())
        written = {id(r.owner) for r in self.writes}
        self._reads = list({id(r.owner): r for r in recorder.reads if id(r.owner) not in written}.values())

    def launch(self, queue: Queue) -> None:
        """Queues it."""
        note(queue, self._reads, self.writes)
        self._driver.call("GraphLaunch", self._handle, queue.handle)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():  # then the driver may be gone
            with contextlib.suppress(CudaError):
                self._driver.call("GraphExecDestroy", self._handle)
