"""What a program under `GraphMode.WARP` asks of the driver: captures, replays, updates, evictions, and what goes wrong.

One function per scenario, run by cuda_scenarios.py.
"""

import contextlib
import ctypes
import threading

from native.frames import EXECUTE, INITIALIZE, INSTANTIATE, STREAM, Refused

KERNEL = {
    "name": b"saxpy",
    "symbol": b"saxpy_1",
    "image": 0,
    "buffers": [1, 0],
    "ranks": [1, 1],
    "grid": [-1],
    "grid_from": [0, 0],
    "geometry": [0, 0],
    "zero": [],
    "block": 256,
    "blocks": 2**31 - 1,
    "index_bits": 32,
    "shared_bytes": 0,
}
# Views: the operand; the result; the scratch buffer; 4 elements of the result from the second on.
VIEWS = [0, 0, -1, 1, 0, -1, 2, 0, -1, 1, 4, 1, 4]
LAUNCH, COPY, FILL = 0, 1, 2
# scratch = 0; saxpy(operand) -> scratch; result = scratch; part of the result = 1.0; part of the result = 3 in pairs
OPS = [FILL, 1, 0, 2, LAUNCH, 0, 2, 0, 2, COPY, 1, 2, FILL, 4, 0x3F800000, 3, FILL, 2, 3, 3]
OTHER_STREAM = 0xABC8


def attributes(code, /, **changes):
    kernel = KERNEL | {n: v for n, v in changes.items() if n in KERNEL}
    program = {
        "name": b"steps",
        "kernels": 1,
        "graph_cache_max": 2,
        "views": VIEWS,
        "ops": OPS,
        "image0": code,
    }
    program |= {n: v for n, v in changes.items() if n not in KERNEL}
    return program | {f"kernel0_{name}": value for name, value in kernel.items()}


class Graphs:
    """A program on the fake driver."""

    def __init__(self, cuda, image):
        self.cuda, self.image = cuda, image
        cuda.metadata("cuda_program_instantiate")
        cuda.driver.fake_signature(b"pp44")

    def make(self, context=1, **changes):
        self.cuda.call("cuda_program_instantiate", INSTANTIATE, context, attributes(self.image, **changes))

    def initialize(self, context=1):
        self.cuda.call("cuda_program_initialize", INITIALIZE, context)

    def run(self, context=1, at=0x1000, n=100):
        operands, results = [("float32", (n,), at)], [("float32", (n,), 0x20000), ("float32", (n,), 0x30000)]
        self.cuda.call("cuda_program_execute", EXECUTE, context, {}, operands, results)

    def ran(self, context=1, at=0x1000, n=100):
        """The log of one execution."""
        self.run(context, at, n)
        return self.cuda.log()

    def live(self):
        counts = (ctypes.c_int * 4)()
        self.cuda.driver.fake_live(counts)
        return dict(zip(("streams", "graphs", "executables", "contexts"), counts, strict=True))

    def numbers(self):
        return {
            name: self.cuda.counter(name) for name in ("captures", "graph_updates", "graph_launches", "live_graphs")
        }


def body(at=0x1000, n=100):
    """The operations on given buffers, as a graph or a stream has them."""
    return [
        f"memset 30000 0 {4 * n}",
        f"launch 1001 grid {-(-n // 256)} 1 1 block 256 1 1: 30000 {at:x} {n} {n}",
        f"copy 20000 30000 {4 * n}",
        "memset32 20004 3f800000 4",
        "memset16 20004 3 8",
    ]


def replay(number, *args):
    return [f"graph {number} stream {STREAM:x}", *body(*args)]


def captured_once_and_replayed(graphs):
    graphs.make()
    graphs.initialize()
    assert graphs.cuda.log() == [
        "load cubin90",
        "kernel saxpy_1 of library 1",
        "function of kernel 1001 in context 100",
    ]
    assert graphs.ran() == ["instantiate 1", *replay(1)]
    for _ in range(3):
        assert graphs.ran() == replay(1)
    assert graphs.numbers() == {"captures": 1, "graph_updates": 0, "graph_launches": 4, "live_graphs": 1}
    assert graphs.live() == {"streams": 0, "graphs": 0, "executables": 1, "contexts": 1}
    graphs.cuda.destroy(1)
    assert graphs.cuda.log() == ["destroy 1"]
    assert not any(graphs.live().values())
    assert graphs.numbers()["live_graphs"] == 0


def graphs_have_the_shared_memory_of_their_launches(graphs):
    graphs.make(shared_bytes=90_000)
    graphs.initialize()
    assert graphs.cuda.log()[-1] == "shared 90000 of kernel 1001 on 100"
    for found in (graphs.ran()[1:], graphs.ran()):
        assert found[2].startswith("launch 1001 grid 1 1 1 block 256 1 1 shared 90000: ")
        assert not any(line.startswith("shared") for line in found)


def code_is_loaded_before_the_capture(graphs):
    graphs.make()
    assert graphs.ran()[:4] == [
        "load cubin90", "kernel saxpy_1 of library 1", "function of kernel 1001 in context 100", "instantiate 1",
    ]  # fmt: skip


def other_buffers_and_extents_have_graphs_of_their_own(graphs):
    graphs.make(graph_cache_max=3)
    graphs.run()
    graphs.cuda.log()
    assert graphs.ran(at=0x1100) == ["instantiate 2", *replay(2, 0x1100)]
    assert graphs.ran(n=101) == ["instantiate 3", *replay(3, 0x1000, 101)]
    assert graphs.ran() == replay(1)
    assert graphs.ran(at=0x1100) == replay(2, 0x1100)
    assert graphs.ran(n=101) == replay(3, 0x1000, 101)


def the_stream_is_no_part_of_the_key(graphs):
    graphs.make()
    graphs.run()
    graphs.cuda.log()
    graphs.cuda.stream = OTHER_STREAM
    assert graphs.ran() == [f"graph 1 stream {OTHER_STREAM:x}", *body()]


def a_full_cache_updates_the_graph_used_least(graphs):
    graphs.make()
    for at in (0x1000, 0x1100, 0x1000):  # 0x1100 was used first
        graphs.run(at=at)
    graphs.cuda.log()
    assert graphs.ran(at=0x1200) == ["update 2", *replay(2, 0x1200)]
    assert graphs.ran(at=0x1000) == replay(1)
    assert graphs.ran(at=0x1200) == replay(2, 0x1200)
    assert graphs.ran(at=0x1100) == ["update 1", *replay(1, 0x1100)]
    assert graphs.numbers() == {"captures": 4, "graph_updates": 2, "graph_launches": 7, "live_graphs": 2}
    assert graphs.live()["executables"] == 2


def what_cannot_be_updated_is_destroyed(graphs):
    graphs.make(graph_cache_max=1)
    graphs.run()
    graphs.cuda.log()
    graphs.cuda.driver.fake_fail(b"cuGraphExecUpdate")
    assert graphs.ran(at=0x1100) == ["update 1 fails", "destroy 1", "instantiate 2", *replay(2, 0x1100)]
    assert graphs.live() == {"streams": 0, "graphs": 0, "executables": 1, "contexts": 1}


def another_shape_of_graph_is_made_anew(graphs):
    graphs.make(graph_cache_max=1, views=[0, 0, -1, 1, 0, -1, 2, 0, -1], ops=[*OPS[:4], *OPS[4:12]])
    graphs.run()
    graphs.cuda.log()
    assert graphs.ran(n=0) == ["update 1 fails", "destroy 1", "instantiate 2", f"graph 2 stream {STREAM:x}"]
    assert graphs.ran()[:3] == ["update 2 fails", "destroy 2", "instantiate 3"]


def each_device_has_its_graphs(graphs):
    graphs.make(graph_cache_max=1)
    graphs.run()
    graphs.cuda.log()
    graphs.cuda.device = 1
    assert graphs.ran()[-7:-5] == ["instantiate 2", f"graph 2 stream {STREAM:x}"]
    graphs.cuda.device = 0
    assert graphs.ran() == replay(1)
    assert graphs.live()["contexts"] == 2
    graphs.cuda.destroy(1)
    assert not any(graphs.live().values())


def each_program_has_its_graphs(graphs):
    graphs.make(context=1)
    graphs.make(context=2)
    graphs.run(context=1)
    graphs.run(context=2)
    graphs.cuda.log()
    assert graphs.ran(context=2) == replay(2)
    graphs.cuda.destroy(2)
    assert graphs.cuda.log() == ["destroy 2"]
    assert graphs.ran(context=1) == replay(1)


def while_xla_captures_the_operations_go_onto_its_stream(graphs):
    graphs.make()
    graphs.initialize()
    graphs.cuda.log()
    graphs.cuda.driver.fake_capture(ctypes.c_uint64(STREAM))

    def onto_the_stream(line):
        head, colon, tail = line.partition(":")
        return f"{head} stream {STREAM:x}{colon}{tail}"

    assert graphs.ran() == [onto_the_stream(line) for line in body()]
    assert graphs.numbers() == {"captures": 0, "graph_updates": 0, "graph_launches": 0, "live_graphs": 0}
    assert graphs.cuda.metadata("cuda_program_execute").traits == 0


def threads_take_turns_at_a_graph(graphs):
    graphs.make()
    graphs.initialize()
    graphs.cuda.driver.fake_pause(1000)
    failures = []

    def work(k):
        try:
            for i in range(8):
                graphs.run(at=0x1000 + 0x100 * ((i + k) % 3))  # three sets of buffers, two graphs
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = graphs.cuda.log()
    assert not failures, failures
    assert "RACE" not in log
    assert "DESTROYED BEFORE" not in log
    # What runs is what was asked for: a graph's launch shows the operands it has at that moment.
    started = [line.split()[-3] for line in log if line.startswith("launch")]
    assert len(started) == 32
    assert {address: started.count(address) for address in started} == {"1000": 11, "1100": 11, "1200": 10}
    assert graphs.live() == {"streams": 0, "graphs": 0, "executables": 2, "contexts": 1}


def failures_of_the_driver_are_told_and_leave_nothing(graphs):
    graphs.make()
    graphs.initialize()
    why = "failed: CUDA_ERROR_UNKNOWN (unknown error)"
    for function, who in [
        ("cuDevicePrimaryCtxRetain", ""),
        ("cuStreamIsCapturing", ""),
        ("cuStreamCreate", ""),
        ("cuStreamBeginCapture", ""),
        ("cuLaunchKernelEx", " kernel 'saxpy':"),
        ("cuMemcpyDtoDAsync", ""),
        ("cuMemsetD8Async", ""),
        ("cuMemsetD16Async", ""),
        ("cuMemsetD32Async", ""),
        ("cuStreamEndCapture", ""),
        ("cuGraphInstantiateWithFlags", ""),
        ("cuGraphLaunch", ""),
    ]:
        graphs.cuda.driver.fake_fail(function.encode())
        text = graphs.cuda.refusal(graphs.run)
        assert text == f"jaxwarp: callable 'steps':{who} {function} {why}", text
        live = graphs.live()
        assert (live["streams"], live["graphs"], live["executables"]) == (0, 0, 0), (function, live)
    graphs.cuda.driver.fake_fail(b"")
    graphs.cuda.log()
    assert graphs.ran() == ["instantiate 2", *replay(2)]  # the first was made before its launch failed
    assert graphs.live() == {"streams": 0, "graphs": 0, "executables": 1, "contexts": 1}


def malformed_programs_are_refused(graphs):
    for changes, reason in [
        ({"views": [0, 0, 2, 5]}, "attribute 'views' ends where an extent is expected"),
        ({"views": [0, -1, -1]}, "attribute 'views': an offset is out of range: -1"),
        ({"ops": [7]}, "attribute 'ops': an operation is out of range: 7"),
        ({"ops": [LAUNCH, 1, 0]}, "attribute 'ops': a kernel is out of range: 1"),
        ({"ops": [COPY, 1]}, "attribute 'ops' ends where a view is expected"),
        ({"ops": [COPY, 1, 4]}, "attribute 'ops': a view is out of range: 4"),
        ({"ops": [FILL, 3, 0, 0]}, "no pattern has 3 bytes"),
        ({"graph_cache_max": 0}, "attribute 'graph_cache_max' is out of range: 0"),
        ({"kernels": 2}, "attribute 'kernel1_image' is missing"),
        ({"image": 1}, "kernel 'saxpy': attribute 'image1' is missing"),
        ({"block": 0}, "kernel 'saxpy': attribute 'kernel0_block' is out of range: 0"),
        ({"image0": b"x"}, "kernel 'saxpy': the code image is damaged"),
    ]:
        text = graphs.cuda.refusal(graphs.make, **changes)
        assert text.startswith("jaxwarp: callable 'steps': "), text
        assert reason in text, (text, reason)
    assert graphs.cuda.counter("live_states") == 0


def buffers_that_do_not_fit_are_refused(graphs):
    graphs.make(context=1)
    assert "view 3 reaches beyond buffer 1" in graphs.cuda.refusal(graphs.run, n=4)
    graphs.make(context=2, views=[0, 0, -1, 1, 0, 1, 3], ops=[COPY, 1, 0])
    assert "a copy of 400 bytes to 12" in graphs.cuda.refusal(graphs.run, context=2)
    graphs.make(context=3, views=[7, 0, -1], ops=[FILL, 1, 0, 0])
    assert "buffer 7 does not exist: the call has 3 buffers" in graphs.cuda.refusal(graphs.run, context=3)
    graphs.make(context=4, ranks=[2, 1])
    refused = graphs.cuda.refusal(graphs.run, context=4)
    assert "callable 'steps': kernel 'saxpy': parameter 0 has rank 1, the kernel was compiled for rank 2" in refused
    live = graphs.live()
    assert (live["streams"], live["graphs"], live["executables"]) == (0, 0, 0)


def a_driver_that_recovers(graphs):
    """After a launch that failed, the next one starts from a new capture."""
    graphs.make()
    graphs.run()
    graphs.cuda.log()
    graphs.cuda.driver.fake_fail(b"cuGraphLaunch")
    with contextlib.suppress(Refused):
        graphs.run()
    graphs.cuda.driver.fake_fail(b"")
    graphs.cuda.log()
    assert graphs.ran() == ["instantiate 2", *replay(2)]


SCENARIOS = [
    captured_once_and_replayed,
    graphs_have_the_shared_memory_of_their_launches,
    code_is_loaded_before_the_capture,
    other_buffers_and_extents_have_graphs_of_their_own,
    the_stream_is_no_part_of_the_key,
    a_full_cache_updates_the_graph_used_least,
    what_cannot_be_updated_is_destroyed,
    another_shape_of_graph_is_made_anew,
    each_device_has_its_graphs,
    each_program_has_its_graphs,
    while_xla_captures_the_operations_go_onto_its_stream,
    threads_take_turns_at_a_graph,
    failures_of_the_driver_are_told_and_leave_nothing,
    malformed_programs_are_refused,
    buffers_that_do_not_fit_are_refused,
    a_driver_that_recovers,
]
