"""Loops and branches in graphs of the driver: nodes that look at a number on the device. See docs/design/0078."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from jaxwarp.memory.driver import CudaError
from jaxwarp.memory.gpu.graphs import NotInGraphError
from jaxwarp.memory.gpu.ordering import ContextDriver
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.region import Region

_SINCE = 12040  # CUDA 12.4 has nodes with conditions,
_TWO_BODIES_SINCE = 12080  # CUDA 12.8 those with a body for each answer
_COUNTER = np.dtype(np.uint64)

# Sets a condition: 1 if `(*flag != 0) == wanted`, else 0. With `rounds`, also the number of times that a loop has run:
# `*rounds = *rounds * step + step`, where `step` is 0 before the loop and 1 behind its body, and the condition is 0
# from `most` rounds on. The driver assembles it, and knows the function that it calls.
TEXT = b"""
.version 6.0
.target sm_50
.address_size 64

.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);

.visible .entry jaxwarp_set_condition (
    .param .u64 condition, .param .u64 flag, .param .u64 rounds, .param .u64 most, .param .u32 wanted, .param .u32 step)
{
    .reg .pred %p<4>;
    .reg .b32 %r<5>;
    .reg .b64 %d<8>;
    .param .b64 handle;
    .param .b32 value;

    ld.param.u64 %d1, [flag];
    cvta.to.global.u64 %d1, %d1;
    ld.global.u32 %r1, [%d1];
    ld.param.u32 %r2, [wanted];
    setp.ne.u32 %p1, %r1, 0;
    selp.u32 %r1, 1, 0, %p1;
    setp.eq.u32 %p1, %r1, %r2;
    ld.param.u64 %d2, [rounds];
    setp.eq.u64 %p2, %d2, 0;
    @%p2 bra SET;
    cvta.to.global.u64 %d2, %d2;
    ld.param.u32 %r3, [step];
    cvt.u64.u32 %d3, %r3;
    ld.global.u64 %d4, [%d2];
    mad.lo.u64 %d4, %d4, %d3, %d3;
    st.global.u64 [%d2], %d4;
    ld.param.u64 %d5, [most];
    setp.lt.and.u64 %p1, %d4, %d5, %p1;
SET:
    selp.u32 %r4, 1, 0, %p1;
    ld.param.u64 %d6, [condition];
    st.param.b64 [handle], %d6;
    st.param.b32 [value], %r4;
    call.uni cudaGraphSetConditional, (handle, value);
    ret;
}
\0"""


def has_conditions(scope: GpuScope) -> bool:
    """Return whether graphs of the driver can have loops and branches."""
    made = scope.ready()
    return hasattr(made.types, "cuGraphConditionalHandleCreate") and made.call("DriverGetVersion") >= _SINCE


def record_while(scope: GpuScope, flag: Region, body: Callable[[], object], most: int | None) -> None:
    """Adds a loop to the graph that is being recorded: `body` queues its work. `most` is the largest number of rounds.

    Raises:
        NotInGraphError: some of its work cannot be part of a graph.
    """
    rounds = None if most is None else scope.new(_COUNTER, (1,))
    node = _Conditions(scope)
    condition = node.new(flag, rounds=rounds, most=most)

    def work() -> None:
        body()
        node.set(condition, flag, rounds=rounds, most=most, step=1)

    node.add(node.types.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE, condition, [work])


def record_if(
    scope: GpuScope,
    flag: Region,
    on_true: Callable[[], object] | None,
    on_false: Callable[[], object] | None,
) -> None:
    """Adds a branch to the graph that is being recorded. Arguments and errors are those of `record_while`."""
    node = _Conditions(scope)
    kind = node.types.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF
    if on_true is not None and on_false is not None and node.has_two_bodies():
        node.add(kind, node.new(flag), [on_true, on_false])
        return
    given = [(wanted, body) for wanted, body in ((1, on_true), (0, on_false)) if body is not None]
    # Both conditions are set before either body runs, which may change the flag.
    for condition, body in [(node.new(flag, wanted), body) for wanted, body in given]:
        node.add(kind, condition, [body])


class _Conditions:
    """Nodes with conditions on the stream that is being recorded."""

    def __init__(self, scope: GpuScope):
        self._scope = scope
        self._made: ContextDriver = scope.ready()
        self.types = self._made.types

    def has_two_bodies(self) -> bool:
        return self._made.call("DriverGetVersion") >= _TWO_BODIES_SINCE

    def new(self, flag: Region, wanted: int = 1, rounds: Region | None = None, most: int | None = None) -> Any:
        """A condition of the graph, set by a launch that comes before its node."""
        graph, _ = self._recorded()
        condition = self._made.call("GraphConditionalHandleCreate", graph, self._scope.context, 0, 0)
        self.set(condition, flag, wanted, rounds, most)
        return condition

    def set(
        self,
        condition: Any,
        flag: Region,
        wanted: int = 1,
        rounds: Region | None = None,
        most: int | None = None,
        step: int = 0,
    ) -> None:
        """Queue the launch that sets a condition."""
        self._scope.uses([flag], [] if rounds is None else [rounds])
        config = self.types.CUlaunchConfig()
        config.gridDimX = config.gridDimY = config.gridDimZ = 1
        config.blockDimX = config.blockDimY = config.blockDimZ = 1
        config.hStream = self._scope.stream
        place = 0 if rounds is None else rounds.address
        values = (int(condition), flag.address, place, min(most or 0, 2**63), wanted, step)
        numbers = (*[ctypes.c_uint64] * 4, ctypes.c_uint32, ctypes.c_uint32)
        self._made.call("LaunchKernelEx", config, _kernel(self._made), (values, numbers), 0, what=" of a condition")

    def add(self, kind: Any, condition: Any, bodies: list[Callable[[], object]]) -> None:
        """Add a node behind what is queued, and what comes next behind the node; then fill its bodies."""
        types, stream = self.types, self._scope.stream
        graph, before = self._recorded()
        described = types.CUgraphNodeParams()
        described.type = types.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        described.conditional.handle = condition
        described.conditional.type = kind
        described.conditional.size = len(bodies)
        described.conditional.ctx = self._scope.context
        node = self._made.call(self._newest("GraphAddNode"), graph, before, None, len(before), described)
        replaced = int(types.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        update = self._newest("StreamUpdateCaptureDependencies")
        self._made.call(update, stream, [node], None, 1, replaced)
        for inside, body in zip(list(described.conditional.phGraph_out), bodies, strict=True):
            self._fill(types.CUgraph(int(inside)), body)

    def _fill(self, graph: Any, body: Callable[[], object]) -> None:
        """Record the work of a body in its graph, on a stream of its own."""
        scope, queue = self._scope, self._scope.new_queue(is_apart=True)
        relaxed = self.types.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._made.call("StreamBeginCaptureToGraph", queue.handle, graph, None, None, 0, relaxed)
        try:
            with scope.on_queue(queue):
                body()
        except BaseException:
            with suppress(CudaError):
                self._made.call("StreamEndCapture", queue.handle)
            raise
        try:
            self._made.call("StreamEndCapture", queue.handle)
        except CudaError as error:  # something in it was no part of a graph
            raise NotInGraphError(str(error)) from None

    def _recorded(self) -> tuple[Any, list[Any]]:
        """Return the graph that the stream is recorded in, and what the next work on the stream waits for."""
        _, _, graph, before, *_ = self._made.answer("StreamGetCaptureInfo", self._scope.stream)
        return graph, list(before or [])

    def _newest(self, name: str) -> str:
        """Return the name of a function that takes data about edges: in bindings of CUDA 12 its second version does."""
        return f"{name}_v2" if hasattr(self.types, f"cu{name}_v2") else name


_kernels: list[int] = []  # one, for all devices, for the life of the process
_lock = threading.Lock()


def _kernel(made: ContextDriver) -> int:
    with _lock:
        if not _kernels:
            library = made.call("LibraryLoadData", TEXT, [], [], 0, [], [], 0)
            _kernels.append(int(made.call("LibraryGetKernel", library, b"jaxwarp_set_condition")))
        return _kernels[0]
