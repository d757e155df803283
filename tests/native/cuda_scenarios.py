"""What the CUDA handler asks of the driver: one function per scenario, each with its own copy of the native library.

Run as `cuda_scenarios.py driver|none NATIVE_LIBRARY FOLDER_FOR_COPIES`, with the fake driver found as libcuda.so.1.
Prints the traceback of every scenario as JSON, empty for those that hold.
"""

import ctypes
import json
import sys
import traceback
from pathlib import Path

from native import graph_scenarios
from native.frames import EXECUTE, INITIALIZE, INSTANTIATE, STREAM, Refused, Runtime

from jaxwarp.launches.image import CPU, CUBIN, CUDA, PTX, Entry, pack_cuda_payload, pack_image

ENTRIES = [
    Entry(PTX, 80, b"ptx80"),
    Entry(CUBIN, 80, b"cubin80\0"),
    Entry(CUBIN, 86, b"cubin86\0"),
    Entry(CUBIN, 90, b"cubin90\0"),
    Entry(PTX, 90, b"ptx90"),
]


def image(entries=ENTRIES):
    return pack_image(CUDA, pack_cuda_payload(entries))


def attributes(**changes):
    """A kernel over a 2-D grid: one operand, one result of the same shape, which is cleared first."""
    values = {
        "name": b"saxpy",
        "symbol": b"saxpy_1",
        "image": image(),
        "buffers": [1, 0],
        "ranks": [2, 1],
        "grid": [-1, 50],
        "grid_from": [1, 0, -1, -1],
        "geometry": [-1, 0, 1, 0, 0, 1],
        "zero": [0],
        "block": 256,
        "blocks": 2**31 - 1,
        "index_bits": 32,
    }
    return values | changes


class Cuda(Runtime):
    """The runtime together with the fake driver's log."""

    def __init__(self, library, copy):
        super().__init__(library, copy)
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.driver.fake_log.restype = ctypes.c_char_p
        self.driver.fake_reset()
        self.metadata("cuda_instantiate")

    def log(self):
        """The calls since the last look, context handling left out."""
        text = self.driver.fake_log().decode()
        self.driver.fake_forget()
        return [line for line in text.splitlines() if not line.startswith(("retain", "release"))]

    def instantiate(self, context=1, **changes):
        self.call("cuda_instantiate", INSTANTIATE, context, attributes(**changes))

    def initialize(self, context=1, device=0):
        self.device = device
        self.call("cuda_initialize", INITIALIZE, context)

    def execute(self, context=1, operand=(7,), result=(30, 50), signature="pp4444"):
        self.driver.fake_signature(signature.encode())
        self.call("cuda_execute", EXECUTE, context, {}, [("float32", operand, 0x1000)], [("float32", result, 0x2000)])

    def refusal(self, action, *args, **kwargs):
        try:
            action(*args, **kwargs)
        except Refused as refused:
            return str(refused)
        raise AssertionError("not refused")


def launch(cuda):
    cuda.instantiate()
    cuda.initialize()
    assert cuda.log() == [
        "load cubin90",
        "kernel saxpy_1 of library 1",
        "function of kernel 1001 in context 100",
    ]
    cuda.initialize()
    assert cuda.log() == []
    cuda.execute()
    # 1500 threads: pointers in parameter order, then the geometry (30, 7, 50), then n.
    assert cuda.log() == [
        f"memset 2000 0 6000 stream {STREAM:x}",
        f"launch 1001 grid 6 1 1 block 256 1 1 stream {STREAM:x}: 2000 1000 30 7 50 1500",
    ]
    assert cuda.counter("executions") == 1


def launch_64_bit(cuda):
    cuda.instantiate(index_bits=64, zero=[], block=128)
    cuda.execute(operand=(2**33,), signature="pp8888")  # without initialize: the kernel is loaded late
    assert cuda.log()[-1] == (f"launch 1001 grid 12 1 1 block 128 1 1 stream {STREAM:x}: 2000 1000 30 {2**33} 50 1500")


def many_buffers(cuda):
    count = 40
    cuda.instantiate(
        buffers=list(range(count)), ranks=[1] * count, grid=[5], grid_from=[-1, -1], zero=[39],
        geometry=[entry for i in range(count) for entry in (i, 0)],
    )  # fmt: skip
    operands = [("int8", (i + 1,), 0x100 + i) for i in range(count)]
    cuda.driver.fake_signature(b"p" * count + b"4" * (count + 1))
    cuda.call("cuda_execute", EXECUTE, 1, {}, operands[:30], operands[30:])
    *_, memset, line = cuda.log()
    assert memset == f"memset 127 0 40 stream {STREAM:x}"
    values = line.split(":")[1].split()
    assert [int(value, 16) for value in values[:count]] == [0x100 + i for i in range(count)]
    assert [int(value) for value in values[count:]] == [*range(1, count + 1), 5]


def libraries_are_shared(cuda):
    cuda.instantiate(context=1)
    cuda.instantiate(context=2, symbol=b"saxpy_2", name=b"other")
    cuda.initialize(context=1)
    cuda.initialize(context=2)
    assert [line for line in cuda.log() if line.startswith(("load", "kernel"))] == [
        "load cubin90", "kernel saxpy_1 of library 1", "kernel saxpy_2 of library 1",
    ]  # fmt: skip
    assert cuda.counter("images_loaded") == 1
    assert cuda.counter("live_states") == 2
    cuda.destroy(1)
    assert cuda.counter("live_states") == 1
    cuda.instantiate(context=3)
    cuda.initialize(context=3)
    assert not [line for line in cuda.log() if line.startswith("load")]


def each_device_gets_its_form(cuda):
    cuda.instantiate()
    for device, expected in enumerate(["cubin90", "cubin86", "ptx90"]):
        cuda.initialize(device=device)
        assert cuda.log()[0] == f"load {expected}", device
        cuda.execute()
        assert cuda.log()[-1].startswith(f"launch {1001 + device} "), device
    assert cuda.refusal(cuda.initialize, device=3) == (
        "jaxwarp: kernel 'saxpy': the code image has nothing for this GPU (sm_75); it has PTX for compute_80, cubin "
        "for sm_80, cubin for sm_86, cubin for sm_90, PTX for compute_90; lower the program again with this "
        "architecture among the targets"
    )


def the_best_cubin_is_taken(cuda):
    cuda.instantiate(image=image(ENTRIES[:2]))
    cuda.initialize(device=1)  # sm_86: the cubin for sm_80 runs there, and is preferred to PTX
    assert cuda.log()[0] == "load cubin80"
    cuda.initialize(device=0)  # sm_90: another major version
    assert cuda.log()[0] == "load ptx80"


def execution_is_capturable(cuda):
    assert cuda.metadata("cuda_execute").traits == 1
    assert cuda.metadata("cuda_instantiate").traits == 0
    assert cuda.metadata("cuda_initialize").state_type == 0
    assert cuda.metadata("cuda_instantiate").state_type == cuda.type_ids["jaxwarp_cuda_launch"]
    assert cuda.metadata("cuda_execute").version.major == 0


def empty_launches_clear_only(cuda):
    cuda.instantiate(grid=[-1, 0])
    cuda.initialize()
    cuda.log()
    cuda.execute()
    assert cuda.log() == [f"memset 2000 0 6000 stream {STREAM:x}"]
    cuda.execute(result=(0, 50))
    assert cuda.log() == []


def indices_stay_below_32_bits(cuda):
    cuda.instantiate(zero=[], geometry=[], ranks=[1, 1], grid=[-1], grid_from=[0, 0])
    cuda.initialize()

    def blocks(n):
        cuda.execute(operand=(n,), result=(1,), signature="pp4")
        line = cuda.log()[-1]
        assert line.endswith(f" {n}")
        return int(line.split()[3])

    assert blocks(2**30) == 2**22
    # Threads are counted without a sign: no launch has fewer blocks for being large.
    for n in (2**31 - 2**20, 2**31 - 1024):
        assert blocks(n) == -(-n // 256)
    too_wide = "does not fit the 32-bit indices this kernel was compiled with; lower it with 64-bit indices"
    n = 2**31 - 100
    text = cuda.refusal(cuda.execute, operand=(n,), result=(1,))
    assert text == f"jaxwarp: kernel 'saxpy': the number of threads ({n}) {too_wide}"
    text = cuda.refusal(cuda.execute, operand=(1,), result=(2**31,))
    assert text == f"jaxwarp: kernel 'saxpy': the size of parameter 0 ({2**31}) {too_wide}"
    cuda.instantiate(context=2, zero=[], geometry=[-1, 1], grid=[1, 2**31], grid_from=[-1] * 4)
    assert f"an extent ({2**31}) {too_wide}" in cuda.refusal(cuda.execute, context=2)
    cuda.instantiate(context=3, grid=[2**40, 2**40], grid_from=[-1] * 4)
    assert "more than 2^63 - 1 threads" in cuda.refusal(cuda.execute, context=3)


def huge_launches_use_the_largest_grid(cuda):
    cuda.instantiate(index_bits=64, zero=[], block=1, grid=[2**40], grid_from=[-1, -1], geometry=[])
    cuda.execute(signature="pp8")
    assert cuda.log()[-1].endswith(f"grid {2**31 - 1} 1 1 block 1 1 1 stream {STREAM:x}: 2000 1000 {2**40}")


def no_more_blocks_than_the_kernel_wants(cuda):
    cuda.instantiate(zero=[], block=32, blocks=5, grid=[1000], grid_from=[-1, -1], geometry=[])
    cuda.execute(signature="pp4")
    assert cuda.log()[-1].endswith(f"grid 5 1 1 block 32 1 1 stream {STREAM:x}: 2000 1000 1000")
    cuda.instantiate(context=2, zero=[], block=32, blocks=5, grid=[100], grid_from=[-1, -1], geometry=[])
    cuda.execute(context=2, signature="pp4")
    assert "grid 4 1 1 block 32 1 1" in cuda.log()[-1]


def blocks_may_have_more_shared_memory(cuda):
    cuda.instantiate(zero=[], shared_bytes=100_000)
    cuda.initialize()
    assert cuda.log()[-1] == "shared 100000 of kernel 1001 on 100"
    for _ in range(2):
        cuda.initialize()
        cuda.execute()
        (line,) = cuda.log()
        assert line.startswith("launch 1001 grid 6 1 1 block 256 1 1 shared 100000 stream "), line
    cuda.initialize(device=1)
    assert cuda.log()[-1] == "shared 100000 of kernel 1002 on 101"
    cuda.instantiate(context=2, shared_bytes=100_000)
    cuda.driver.fake_fail(b"cuKernelSetAttribute")
    what = "cuKernelSetAttribute of 100000 bytes of shared memory"
    assert f"jaxwarp: kernel 'saxpy': {what} failed" in cuda.refusal(cuda.initialize, context=2)
    cuda.driver.fake_fail(b"")
    assert "attribute 'shared_bytes'" in cuda.refusal(cuda.instantiate, context=3, shared_bytes=-1)


def driver_errors_name_the_kernel(cuda):
    why = "failed: CUDA_ERROR_UNKNOWN (unknown error)"
    cuda.instantiate(context=1)
    for function, what in [
        ("cuInit", ""),
        ("cuLibraryLoadData", " of the cubin for sm_90"),
        ("cuLibraryGetKernel", " of 'saxpy_1'"),
        ("cuKernelGetFunction", ""),
    ]:
        cuda.driver.fake_fail(function.encode())
        assert cuda.refusal(cuda.initialize) == f"jaxwarp: kernel 'saxpy': {function}{what} {why}"
    cuda.driver.fake_fail(b"")
    cuda.initialize()
    for function in ("cuMemsetD8Async", "cuLaunchKernelEx"):
        cuda.driver.fake_fail(function.encode())
        assert cuda.refusal(cuda.execute) == f"jaxwarp: kernel 'saxpy': {function} {why}"
    cuda.driver.fake_fail(b"ptx")
    cuda.instantiate(context=2, image=image(ENTRIES[:1]))
    assert "of the PTX for compute_80: ptxas: line 7 is wrong failed" in cuda.refusal(cuda.initialize, context=2)


def damaged_images_are_refused(cuda):
    good = image()
    payload = pack_cuda_payload(ENTRIES)
    for bad, reason in [
        (good[:-1] + b"x", "(digest mismatch)"),
        (good + b"x", "(length mismatch)"),
        (good[:20], "(shorter than its header)"),
        (b"", "(shorter than its header)"),
        (b"JAXWARQ" + good[7:], "does not start with the mark"),
        (good[:8] + b"\2" + good[9:], "has format 2"),
        (pack_image(CPU, b"bitcode"), "is of kind 1, this platform needs kind 2"),
        (pack_image(CUDA, b""), "a malformed table"),
        (pack_image(CUDA, b"\0" * 8), "a malformed table"),
        (pack_image(CUDA, b"\xff\xff\xff\xff" + payload[4:]), "a malformed table"),
        (pack_image(CUDA, payload[:-1]), "an entry that lies outside it"),
        (pack_image(CUDA, payload[:8] + b"\7" + payload[9:]), "an entry of an unknown kind"),
    ]:
        text = cuda.refusal(cuda.instantiate, image=bad)
        assert text.startswith("jaxwarp: kernel 'saxpy': the "), text
        assert reason in text, text
    assert cuda.log() == []


def launch_sizes_are_checked(cuda):
    for changes, reason in [
        ({"block": 0}, "attribute 'block' is out of range: 0"),
        ({"block": 1025}, "attribute 'block' is out of range: 1025"),
        ({"blocks": 0}, "attribute 'blocks' is out of range: 0"),
        ({"index_bits": 48}, "attribute 'index_bits' is neither 32 nor 64"),
    ]:
        assert reason in cuda.refusal(cuda.instantiate, **changes)


def no_driver(runtime):
    """Run without the fake driver, on a machine whose own driver is hidden too."""
    runtime.metadata("cuda_instantiate")
    runtime.call("cuda_instantiate", INSTANTIATE, 1, attributes())  # as JAX does to compile for a device elsewhere
    text = Cuda.refusal(runtime, runtime.call, "cuda_initialize", INITIALIZE, 1)
    assert text.startswith("jaxwarp: kernel 'saxpy': there is no CUDA driver on this machine ("), text


SCENARIOS = [
    launch,
    launch_64_bit,
    many_buffers,
    libraries_are_shared,
    each_device_gets_its_form,
    the_best_cubin_is_taken,
    execution_is_capturable,
    empty_launches_clear_only,
    indices_stay_below_32_bits,
    huge_launches_use_the_largest_grid,
    no_more_blocks_than_the_kernel_wants,
    blocks_may_have_more_shared_memory,
    driver_errors_name_the_kernel,
    damaged_images_are_refused,
    launch_sizes_are_checked,
]


def outcome(scenario, runtime):
    """The traceback of a scenario that fails, or nothing."""
    try:
        scenario(runtime)
    except Exception:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    with_driver, library, folder = sys.argv[1] == "driver", sys.argv[2], Path(sys.argv[3])
    scenarios, runtime = (SCENARIOS, Cuda) if with_driver else ([no_driver], Runtime)
    outcomes = {s.__name__: outcome(s, runtime(library, folder / f"{s.__name__}.so")) for s in scenarios}
    if with_driver:
        for s in graph_scenarios.SCENARIOS:
            program = graph_scenarios.Graphs(Cuda(library, folder / f"{s.__name__}.so"), image())
            outcomes[s.__name__] = outcome(s, program)
    print(json.dumps(outcomes))
