"""Arrays outside of JAX on GPUs that are not there: what they ask of the driver, and what comes out.

The driver of fake_memory.c does what is put on a stream as late as it may, so that what forgets to wait is wrong; it
runs the CUDA text of kernels on the host. Run as `outside_scenarios.py NAMES`; prints the traceback of every scenario
of these names as JSON, empty for those that hold.
"""

import cProfile
import ctypes
import functools
import gc
import json
import linecache
import sys
import tempfile
import threading
import traceback
import types
from pathlib import Path

import jax
import numpy as np
import pytest
from native import conditional_scenarios, structure_scenarios, tree_scenarios
from native.pretended import Gpus

import jaxwarp as wp
from jaxwarp.arrays import launching
from jaxwarp.codegen import tuned
from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.launches import on_memory
from jaxwarp.memory import devices as known_devices
from jaxwarp.memory.driver import CudaError
from jaxwarp.memory.gpu import by_value
from jaxwarp.memory.gpu.scope import GpuScope, gpu_scope, gpu_scopes
from jaxwarp.memory.gpu.scope import _places as named_places
from jaxwarp.memory.live_array import MemoryArray
from jaxwarp.memory.region import Region
from jaxwarp.memory.tensor_owner import TensorLibrary

MAIN = "5000"  # the stream of the first device


@wp.struct
class Particle:
    x: wp.vec3
    mass: float
    tag: wp.int8


@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def doubled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def total(x: wp.array2d(dtype=float), s: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(s, 0, x[i, j])


@wp.kernel
def spread(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(-1, 2):
        wp.atomic_add(y, i + 1 + k, x[i])


@wp.kernel
def push(p: wp.array(dtype=Particle), by: wp.vec3, m: wp.mat22):
    i = wp.tid()
    p[i].x = p[i].x + by * (p[i].mass + m[1, 0])


@wp.kernel
def guarded(x: wp.array(dtype=float)):
    i = wp.tid()
    assert x[i] >= 0.0
    x[i] = x[i + 1]


def forget_values():
    """What launches have got by value goes, as it does when there were many others since."""
    for place in gpu_scopes():
        place._known_values.clear()
    launching.forget()


def devices(gpus):
    assert [str(d) for d in wp.get_devices()] == ["cpu", "cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert wp.is_cuda_available()
    assert wp.get_cuda_device_count() == 4
    assert wp.get_device("cuda") == wp.get_preferred_device() == wp.get_cuda_device() == "cuda:0"
    assert wp.is_device_available("cuda:3")
    assert not wp.is_device_available("cuda:4")
    assert wp.get_device() == "cpu"
    with wp.ScopedDevice("cuda:1") as device:
        assert wp.get_device() == device == wp.zeros(3).device == "cuda:1"
        with wp.ScopedDevice("cpu"):
            assert wp.array([1.0]).device == "cpu"
        assert wp.array([1.0]).device == "cuda:1"
        assert wp.zeros(3, device="cpu").device == "cpu"
    wp.set_device("cuda:2")
    assert wp.full(3, 1.0).device == "cuda:2"
    wp.set_device("cpu")
    with pytest.raises(wp.KernelError, match="zeros: cuda:4 cannot be used: there are 4 CUDA devices"):
        wp.zeros(3, device="cuda:4")
    with pytest.raises(wp.KernelError, match='expected the device "cpu", or "cuda:0" and so on, got \'gpu\''):
        wp.zeros(3, device="gpu")


def facts(gpus):
    """What the driver tells of a GPU, as Warp's devices have it."""
    gpu = wp.get_device("cuda:1")
    assert (gpu.name, gpu.alias, gpu.ordinal, gpu.arch, gpu.sm_count) == ("Pretended 100", "cuda:1", 1, 90, 132)
    assert gpu.max_shared_memory_per_block == 232448
    assert (gpu.uuid, gpu.pci_bus_id) == ("GPU-01112131-4151-6171-8191-a1b1c1d1e1f1", "0000000A:3B:1C")
    assert gpu.is_uva
    assert gpu.is_mempool_supported
    assert gpu.is_mempool_enabled
    assert gpu.is_managed_memory_supported
    assert gpu.is_cpu_memory_access_from_gpu_supported
    assert not gpu.is_gpu_memory_access_from_cpu_supported
    assert not gpu.is_cpu_gpu_atomic_supported
    assert not gpu.is_concurrent_managed_access_supported
    assert gpu.is_cubin_supported
    assert gpu.can_access("cuda:1")
    assert not gpu.can_access("cpu")
    before = gpus.driver.fake_held()
    assert (gpu.free_memory, gpu.total_memory) == (1101, 2**36), "in the context of this GPU"
    assert gpus.driver.fake_held() == before
    assert wp.get_cuda_driver_version() == (13, 0)
    assert wp.is_mempool_supported("cuda:0")
    assert wp.is_mempool_enabled(gpu)
    wp.set_mempool_enabled(gpu, True)
    with pytest.raises(wp.KernelError, match="on cuda:1 are made from the driver's pool"):
        wp.set_mempool_enabled(gpu, False)
    assert (wp.get_mempool_used_mem_current(gpu), wp.get_mempool_used_mem_high(gpu)) == (1024, 4096)
    wp.set_mempool_release_threshold(gpu, 1000)
    assert wp.get_mempool_release_threshold(gpu) == 1000
    wp.set_mempool_release_threshold("cuda:1", 0.25)
    assert wp.get_mempool_release_threshold("cuda:1") == 2**34
    wp.set_mempool_release_threshold("cuda:1", 2**30)
    main, made = gpu.stream, wp.Stream(gpu)
    assert gpu.has_stream
    gpu.set_stream(made)
    assert gpu.stream.cuda_stream == made.cuda_stream == wp.get_stream("cuda:1").cuda_stream
    gpus.log()
    gpu.set_stream(wp.Stream(gpu), sync=False)
    assert not [line for line in gpus.log() if line.startswith(("record", "wait"))], "it does not wait"
    gpu.set_stream(made, sync=True)
    assert [line for line in gpus.log() if line.startswith("wait")]
    gpu.set_stream(main)
    gpus.fail("cuDeviceGetAttribute")
    with pytest.raises(CudaError, match="cuDeviceGetAttribute failed"):
        gpu.sm_count  # noqa: B018
    gpus.fail()


@wp.struct
class Inner:
    x: wp.array(dtype=float)
    by: wp.vec3


@wp.struct
class Outer:
    inner: Inner
    y: wp.array(dtype=float)


@wp.struct
class Scene:
    mesh: wp.uint64
    outer: Outer


@wp.kernel
def outer_doubled(s: Outer):
    i = wp.tid()
    s.y[i] = 2.0 * s.inner.x[i] + s.inner.by[2]


def structs(gpus):
    """They go from a device to another with their arrays."""
    s = Outer(Inner(wp.array([1.0, 2.0], dtype=float), wp.vec3(0.0, 0.0, 1.0)), wp.zeros(2, dtype=float))
    moved = s.to("cuda:1")
    assert (moved.inner.x.device, moved.y.device, s.inner.x.device) == ("cuda:1", "cuda:1", "cpu")
    again = moved.to("cuda:1")
    assert again.inner is not moved.inner
    assert again.inner.x is moved.inner.x
    wp.launch(outer_doubled, 2, [moved])
    assert moved.to("cpu").y.numpy().tolist() == [3.0, 5.0]
    assert s.y.numpy().tolist() == [0.0, 0.0]
    mesh = wp.Mesh(wp.array(np.eye(3), dtype=wp.vec3), wp.array([0, 1, 2], dtype=int))
    scene = Scene(mesh.id, s).to("cuda:1")
    assert scene.mesh == mesh.id
    assert scene.outer.inner.x.device == "cuda:1"
    with pytest.raises(wp.KernelError, match="struct Mesh: to: it stays where it was made"):
        mesh.to("cuda:1")
    s.inner.x = np.ones(2, np.float32)
    with pytest.raises(wp.KernelError, match="struct Outer: to: field inner: field x: an array of NumPy is in the mem"):
        s.to("cuda:0")
    assert s.to("cpu").inner.x is s.inner.x


def memory(gpus):
    """What is made, how it is filled, and when it goes."""
    gpus.log()
    a = wp.array([1.0, 2.0, 3.0], dtype=float, device="cuda:0")
    assert gpus.log()[-4:] == [f"alloc 16 stream {MAIN}", f"set8 0 x 12 stream {MAIN}", f"HtoD 12 stream {MAIN}",
                               f"synchronize {MAIN}"]  # fmt: skip
    b = wp.full((2, 3), 7, dtype=wp.int16, device="cuda:0")
    assert gpus.log() == [f"alloc 16 stream {MAIN}", f"set8 0 x 12 stream {MAIN}", f"set16 7 x 6 stream {MAIN}"]
    assert (a.device, a.shape, b.dtype, a.ptr % 256, len(b)) == ("cuda:0", (3,), wp.int16, 0, 2)
    assert a.list() == [1.0, 2.0, 3.0]
    assert b.numpy().tolist() == [[7, 7, 7], [7, 7, 7]]
    assert str(a) == "[1. 2. 3.]"
    assert "device=cuda:0" in repr(a)
    assert float(a[1:2].item()) == 2.0
    values = a.numpy()
    assert not values.flags.writeable, "what would be written to a copy would be lost"
    gc.collect()
    gpus.log()
    part = b[1:, ::2]
    del b
    gc.collect()
    assert gpus.log() == [], "a part keeps the memory"
    part.fill_(9)
    assert part.numpy().tolist() == [[9, 9]]
    del part
    assert gpus.log()[-1] == f"free stream {MAIN}"
    empty = wp.zeros((0, 3), dtype=wp.vec3, device="cuda:0")
    assert gpus.log() == []
    assert empty.numpy().shape == (0, 3, 3)
    assert empty.ptr is None
    assert not hasattr(a, "__array_interface__")
    assert np.asarray(a).tolist() == [1.0, 2.0, 3.0]


def copies(gpus):
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    a = wp.array(host, dtype=float, device="cuda:0")
    for index in (slice(1, 3), (slice(None), 2), (slice(None, None, -1), slice(None, None, 2))):
        np.testing.assert_array_equal(a[index].numpy(), host[index])
        b = wp.zeros_like(a)
        assert b.device == "cuda:0"
        b[index].assign(a[index])
        expected = np.zeros_like(host)
        expected[index] = host[index]
        np.testing.assert_array_equal(b.numpy(), expected)
        b[index].assign(host[index] + 1)
        expected[index] += 1
        np.testing.assert_array_equal(b.numpy(), expected)
    on_cpu = wp.zeros((3, 4), dtype=float)
    wp.copy(on_cpu, a)
    np.testing.assert_array_equal(on_cpu.numpy(), host)
    on_cpu[1:, ::2].assign(a[:2, 1::2])
    np.testing.assert_array_equal(on_cpu.numpy()[1:, ::2], host[:2, 1::2])
    wp.copy(a, on_cpu[::-1])
    np.testing.assert_array_equal(a.numpy(), on_cpu.numpy()[::-1])
    wp.copy(a, on_cpu, dest_offset=4, src_offset=0, count=4)
    np.testing.assert_array_equal(a.numpy()[1], on_cpu.numpy()[0])
    gpus.log()
    c = a.to("cuda:1")
    assert [line for line in gpus.log() if line.startswith(("peer", "wait"))] == [
        "wait stream 5001 for 5000", "peer 48 from 100 to 101 stream 5001",
    ]  # fmt: skip
    assert c.device == "cuda:1"
    assert c.to("cuda:1") is c
    np.testing.assert_array_equal(c.numpy(), a.numpy())
    c[:, 1].assign(a[:, 3])
    np.testing.assert_array_equal(c.numpy()[:, 1], a.numpy()[:, 3])
    assert wp.clone(c).device == "cuda:1"
    assert wp.clone(c, device="cpu").device == "cpu"
    assert wp.array(c).device == "cuda:1"
    assert wp.array(c, device="cuda:0", dtype=float).device == "cuda:0"
    assert wp.array(c, dtype=wp.float64).numpy().dtype == np.float64
    assert wp.array(c, copy=False).ptr == c.ptr
    assert c.flatten().reshape((4, 3)).transpose().contiguous().device == "cuda:1"
    np.testing.assert_array_equal(c.transpose().contiguous().numpy(), c.numpy().T)
    a[1:, :].assign(a[:-1, :])  # they overlap
    with pytest.raises(wp.KernelError, match="copy=False: the data is on another device"):
        wp.array(host, dtype=float, device="cuda:0", copy=False)


def records(gpus):
    p = wp.zeros(4, dtype=Particle, device="cuda:0")
    p[1].assign((wp.vec3(1.0, 2.0, 3.0), 4.0, 5))
    p[2:].fill_((wp.vec3(1.0, 1.0, 1.0), 0.5, -1))
    p.field("mass").assign(np.array([1, 4, 2, 3], np.float32))
    wp.launch(push, 4, [p, wp.vec3(1.0, 0.0, -1.0), np.array([[0, 0], [10, 0]], np.float32)])
    found = p.numpy()
    assert found["x"].tolist() == [[11, 0, -11], [15, 2, -11], [13, 1, -11], [14, 1, -12]]
    assert found["tag"].tolist() == [0, 5, -1, -1]
    assert p.to("cpu").list()[1].mass == 4.0


@wp.kernel
def mixed(
    y: wp.array2d(dtype=float), a: wp.int8, by: wp.vec3, m: wp.mat22, none: wp.array(dtype=float), big: wp.float64
):
    i, j = wp.tid()
    y[i, j] = y[i, j] + float(a) + by[2] + m[1, 0] + float(big)


def launches_that_are_alike(gpus):
    """What does not change from one to the next is not done again; what changes is seen."""
    y = wp.zeros((2, 3), dtype=float, device="cuda:0")
    by, m = wp.vec3(0.0, 0.0, 10.0), np.array([[0, 0], [100, 0]], np.float32)

    def launch(a, big=1000.0):
        gpus.log()
        wp.launch(mixed, (2, 3), [y, a, by, m, None, big])
        return [line.split()[0] for line in gpus.log()]

    assert launch(1)[0] == "alloc"
    assert launch(1) == ["launch"]
    assert launch(-2)[0] == "alloc"
    assert launch(1) == launch(-2) == ["launch"]
    expected = 3 * 1 - 2 * 2 + 5 * (10 + 100 + 1000)
    assert y.numpy().tolist() == [[expected] * 3] * 2
    by[2], m[1, 0] = 20.0, 200.0  # in place
    assert launch(1)[0] == "alloc"
    expected += 1 + 20 + 200 + 1000
    # When there were many, what is used longest ago is overwritten, where it differs.
    lines = [launch(1, float(k)) for k in range(1001, 1300)]
    assert lines[0][0] == "alloc"
    assert lines[-1][-1] == "launch"
    assert set(lines[-1][:-1]) == {"set32"}
    assert len(lines[-1]) <= 3
    expected += sum(1 + 20 + 200 + k for k in range(1001, 1300))
    # Not what another stream may still read.
    one = wp.Stream("cuda:0")
    gpus.log()
    wp.launch(mixed, (2, 3), [y, 1, by, m, None, 5.0], stream=one)
    assert gpus.log()[0].startswith("alloc")
    expected += 1 + 20 + 200 + 5
    np.testing.assert_allclose(y.numpy(), np.full((2, 3), expected))

    held, tokens = types.SimpleNamespace(count=0), TensorLibrary.__abstractmethods__
    library = type("Told", (TensorLibrary,), dict.fromkeys(tokens, lambda *_: None))()
    library.name = "told"
    type(library).written = lambda *_: setattr(held, "count", held.count + 1)
    y._region.owner.add_tensor(library, y._region, object())
    for _ in range(3):
        launch(1)
    assert held.count == 3, "tensors in the same memory are told of each"


def launches_of_threads(gpus):
    """Several threads launch one kernel at a time, each with its own arrays and values."""
    arrays = [wp.zeros(4, dtype=float, device="cuda:0") for _ in range(4)]
    ones = wp.ones(4, dtype=float, device="cuda:0")
    streams = [wp.Stream("cuda:0"), wp.Stream("cuda:0"), None, None]
    failed = []

    def work(n):
        try:
            for k in range(200):
                wp.launch(saxpy, 4, [ones, arrays[n], float((k + n) % 5)], stream=streams[n], device="cuda:0")
        except BaseException:
            failed.append(traceback.format_exc())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    most, by_value._MOST = by_value._MOST, 3  # so that one overwrites what another one has just used
    wp.synchronize()
    gpus.lazy(False)  # the driver keeps one list of work for all
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        by_value._MOST = most
        gpus.lazy(True)
    assert not failed, failed[0]
    gpus.log()
    found = [a.numpy().tolist() for a in arrays]
    assert found == [[float(sum((k + n) % 5 for k in range(200)))] * 4 for n in range(4)], found


def values_of_graphs(gpus):
    """They stay, though later launches get others."""
    x, y = wp.ones(4, dtype=float, device="cuda:0"), wp.zeros(4, dtype=float, device="cuda:0")
    with wp.ScopedCapture("cuda:0") as capture:
        wp.launch(saxpy, 4, [x, y, 2.0])
    for _ in range(3):
        wp.capture_launch(capture.graph)
    assert gpus.log()[-1] == f"graph stream {MAIN}"
    for k in range(2 * by_value._MOST):
        wp.launch(saxpy, 4, [x, y, float(k + 3)])
    y.fill_(0.0)
    wp.capture_launch(capture.graph)
    assert y.list() == [2.0] * 4


def reading_waits_once(gpus):
    """A stream waits once for what it reads, until that is written again, or another library has the address."""
    x, y = wp.ones(4, dtype=float, device="cuda:0"), wp.zeros(4, dtype=float, device="cuda:0")
    one = wp.Stream("cuda:0")

    def waits():
        gpus.log()
        wp.launch(doubled, 4, [x, y], stream=one)
        return sum(line.startswith("wait") for line in gpus.log())

    assert waits() == 1
    assert waits() == 0
    x.fill_(2.0)
    gpus.fail("cuStreamWaitEvent")
    with pytest.raises(CudaError, match="cuStreamWaitEvent failed"):
        waits()
    gpus.fail()
    assert waits() == 1, "it has not waited yet"
    assert y.list() == [4.0] * 4
    waits()
    assert waits() == 0
    assert x.__cuda_array_interface__["stream"]
    assert [waits(), waits()] == [1, 1]


def launches(gpus):
    x = wp.array(np.arange(6.0), dtype=float, device="cuda:0")
    y = wp.ones(6, dtype=float, device="cuda:0")
    wp.launch(saxpy, 6, [x, y, 2.0])
    wp.launch(saxpy, 6, [x, y, 1.0], block_dim=64)
    gpus.log()
    wp.launch(saxpy, 6, [x, y, 1.0], block_dim=64)
    lines = gpus.log()
    assert len(lines) == 1, lines
    assert lines[0].startswith("launch")
    assert lines[0].endswith(f"grid 1 block 64 stream {MAIN}")
    np.testing.assert_array_equal(y.numpy(), 1 + 4 * np.arange(6))
    # One like before, in fewer than 250 calls of functions (131, and those of the driver that pretends).
    wp.launch(saxpy, 6, [x, y, 0.0])
    profile = cProfile.Profile()
    profile.runcall(wp.launch, saxpy, 6, [x, y, 0.0])
    assert sum(row.callcount for row in profile.getstats()) < 250
    for shifted in (x[1:], x[:5]):  # code for aligned arrays is not for others
        wp.launch(saxpy, 5, [shifted, y[1:], 0.0])
    big = wp.array(np.arange(600.0).reshape(20, 30), dtype=float, device="cuda:0")
    s = wp.zeros(1, dtype=float, device="cuda:0")
    wp.launch(total, (20, 30), [big], [s])
    wp.launch(total, (4, 30), [big[::5]], [s])  # with gaps: copied for the launch
    assert s.list() == [float(np.arange(600).sum() + np.arange(600).reshape(20, 30)[::5].sum())]
    # Threads gather what neighbours add: one for each element that gets something.
    wide, around = wp.array(np.arange(256.0), dtype=float, device="cuda:0"), wp.ones(258, dtype=float, device="cuda:0")
    gpus.log()
    wp.launch(spread, 256, [wide, around])
    assert gpus.log()[-1].endswith(f"grid 2 block 256 stream {MAIN}")
    np.testing.assert_array_equal(around.numpy(), 1 + np.convolve(np.arange(256), [1, 1, 1]))
    # Of code with 96 registers a multiprocessor holds more threads in smaller blocks.
    gpus.registers = 96
    for n, block_dim, expected in ((300, None, "grid 3 block 128"), (301, 256, "grid 2 block 256")):
        both = [wp.ones(n, dtype=float, device="cuda:0") for _ in range(2)]
        gpus.log()
        wp.launch(saxpy, n, [*both, 2.0], **({"block_dim": block_dim} if block_dim else {}))
        assert gpus.log()[-1].endswith(f"{expected} stream {MAIN}")
        np.testing.assert_array_equal(both[1].numpy(), np.full(n, 3))
    gpus.registers = 32
    part = y[::2]
    wp.launch(saxpy, 3, [x[3:], part, 1.0])
    np.testing.assert_array_equal(y.numpy()[::2], 1 + 4 * np.arange(6)[::2] + np.arange(3, 6))
    host = np.full(6, 10, np.float32)
    wp.launch(saxpy, 6, [host, y, 1.0])  # NumPy's are copied
    wp.launch(saxpy, 0, [x, y, 1.0])
    command = wp.launch(saxpy, 6, [x, y, 1.0], record_cmd=True)
    before = y.numpy()
    command.set_param_by_name("a", -1.0)
    command.launch()
    np.testing.assert_array_equal(y.numpy(), before - np.arange(6))
    with pytest.raises(wp.KernelError, match=r"argument 'x': array .* is on cpu, and is used on"):
        wp.launch(saxpy, 6, [x.to("cpu"), y, 1.0], device="cuda:0")
    with pytest.raises(wp.KernelError, match="is on cuda:0, and is used on cpu"):
        wp.launch(saxpy, 6, [x, y, 1.0], device="cpu")
    with pytest.raises(wp.KernelError, match=r"argument 'y': .* is on cuda:0, and is used on cuda:1"):
        wp.launch(saxpy, 6, [x.to("cuda:1"), y, 1.0])
    with pytest.raises(wp.KernelError, match=r"argument 'y' is written .* in the memory of cuda:0, got ndarray"):
        wp.launch(saxpy, 6, [x, host, 1.0])
    with pytest.raises(wp.KernelError, match="shares memory with argument 'x'"):
        wp.launch(saxpy, 5, [y[1:], y[:5], 1.0])


def launches_on_the_same_arrays(gpus):
    def of(count):
        arrays = ", ".join(f"a{k}: wp.array(dtype=float)" for k in range(count))
        total = " + ".join([*(f"a{k}[i]" for k in range(1, count)), "s + v[1]"])
        text = f"@wp.kernel\ndef k({arrays}, s: float, v: wp.vec3):\n    i = wp.tid()\n    a0[i] = {total}\n"
        file = f"<{count} arrays on a GPU>"
        linecache.cache[file] = (1, None, text.splitlines(True), file)
        scope = {"wp": wp, "__name__": __name__}
        exec(compile(text, file, "exec"), scope)
        return scope["k"], [wp.ones(4, dtype=float, device="cuda:0") for _ in range(count)]

    def calls(run):
        profile = cProfile.Profile()
        profile.runcall(run)
        # The driver that pretends reads each parameter by a cast.
        is_cast = "cast", "POINTER"
        rows = ((getattr(row.code, "co_name", str(row.code)), row.callcount) for row in profile.getstats())
        return sum(count for name, count in rows if not any(word in name for word in is_cast))

    counts, v = [], wp.vec3(0.0, 2.0, 0.0)
    for count in (2, 10, 30):
        kernel, arrays = of(count)
        run = functools.partial(wp.launch, kernel, 4, [*arrays, 1.0, v])
        for _ in range(3):
            run()
        gpus.log()
        counts.append(calls(run))
        (line,) = gpus.log()
        assert line.startswith("launch")
        assert arrays[0].list() == [count + 2.0] * 4
    assert counts[0] == counts[1] == counts[2] < 130, counts
    kernel, arrays = of(2)
    for number, expected in ((1.0, 4.0), (1.0, 4.0), (5.0, 8.0), (5, 8.0), (1.0, 4.0)):
        wp.launch(kernel, 4, [*arrays, number, v])
        assert arrays[0].list() == [expected] * 4
    v[1] = 20.0
    wp.launch(kernel, 4, [*arrays, 1.0, v])
    assert arrays[0].list() == [22.0] * 4
    # Who reads on another stream waits, and who writes then waits for that.
    other = wp.Stream("cuda:0")
    with wp.ScopedStream(other, sync_enter=False):
        wp.launch(saxpy, 4, [arrays[0], arrays[1], 1.0])
    gpus.log()
    wp.launch(kernel, 4, [*arrays, 1.0, v])
    assert any(line.startswith("wait") for line in gpus.log())
    assert arrays[0].list() == [44.0] * 4
    bodies, out = wp.zeros(4, dtype=Particle, device="cuda:0"), wp.zeros(4, dtype=float, device="cuda:0")
    for _ in range(2):
        wp.launch(step, 4, [bodies, out])
    gpus.log()
    wp.launch(step, 4, [bodies, out])
    assert [line.split()[0] for line in gpus.log()] == ["launch"]  # nothing is copied


class Stopwatch:
    """A clock that says of each launch what it is told to say of its block size."""

    def __init__(self, gpus, times):
        self._gpus, self._times, self.asked = gpus, times, []

    def __call__(self, run):
        self._gpus.log()
        run()
        (line,) = [line for line in self._gpus.log() if line.startswith("launch")]
        self.asked.append(int(line.split(" block ")[1].split()[0]))
        return self._times[self.asked[-1]]


def block_of(gpus, run):
    """The block size of the one launch."""
    gpus.log()
    run()
    (line,) = [line for line in gpus.log() if line.startswith("launch")]
    return int(line.split(" block ")[1].split()[0])


def tuning(gpus):
    """Block sizes that are measured, by a clock of the test's own."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXWARP_CACHE_DIR", folder)
        _tune(gpus)
    tuned._known.clear()


def _tune(gpus):
    x = wp.array(np.arange(6.0), dtype=float, device="cuda:0")
    y = wp.ones(6, dtype=float, device="cuda:0")
    other = wp.ones(6, dtype=float, device="cuda:1")
    assert block_of(gpus, lambda: wp.launch(saxpy, 6, [x, y, 0.0], block_dim="auto")) == 256
    times = {64: 3.0, 128: 1.0, 256: 2.0, 512: 2.5, 1024: 4.0}
    clock = Stopwatch(gpus, times)
    found = wp.autotune(saxpy, 6, [x, y, 1.0], timer=clock)
    assert (found.block_dim, found.times) == (128, times)
    assert clock.asked == [*times] * 7, "each has its turn"
    assert y.list() == [1.0] * 6, "arguments are as they were"
    assert block_of(gpus, lambda: wp.launch(saxpy, 6, [x, y, 1.0], block_dim="auto")) == 128
    assert block_of(gpus, lambda: wp.launch(saxpy, 6, [x, y, 1.0])) == 256, "off by default"
    np.testing.assert_array_equal(y.numpy(), 1 + 2 * np.arange(6))
    assert block_of(gpus, lambda: wp.launch(saxpy, 5, [x[:5], y[:5], 1.0], block_dim="auto")) == 256
    with wp.ScopedDevice("cuda:1"):  # of the same model
        assert block_of(gpus, lambda: wp.launch(saxpy, 6, [x.to("cuda:1"), other, 1.0], block_dim="auto")) == 128
    # What was measured is not measured again, also by the next process, which has the disk.
    clock = Stopwatch(gpus, {64: 1.0, 256: 1.0})
    assert wp.autotune(saxpy, 6, [x, y, 1.0], timer=clock) == (128, times)
    tuned._known.clear()
    assert wp.autotune(saxpy, 6, [x, y, 1.0], timer=clock) == (128, times)
    assert clock.asked == []
    found = wp.autotune(saxpy, 6, [x, y, 1.0], block_dims=(64, 256), timer=clock, refresh=True)
    assert found == (256, {64: 1.0, 256: 1.0}), "the default, if another one is not faster"
    assert block_of(gpus, lambda: wp.launch(saxpy, 6, [x, y, 1.0], block_dim="auto")) == 256
    # Arrays with gaps, fields of structs, numbers by value.
    p = wp.zeros(4, dtype=Particle, device="cuda:0")
    p.field("mass").fill_(2.0)
    before = p.numpy()
    given = [p, wp.vec3(1.0, 0.0, -1.0), np.array([[0, 0], [10, 0]], np.float32)]
    assert wp.autotune(push, 4, given, block_dims=(32, 64), timer=Stopwatch(gpus, {32: 1.0, 64: 2.0})).block_dim == 32
    np.testing.assert_array_equal(p.numpy(), before)
    assert block_of(gpus, lambda: wp.launch(push, 4, given, block_dim="auto")) == 32
    # As a call under JAX: the same launch, on copies.
    clock = Stopwatch(gpus, {64: 1.0, 256: 2.0})
    call = wp.jax_kernel(doubled, block_dim="auto")
    data = np.arange(6, dtype=np.float32)
    assert wp.autotune(call, inputs=[data], device="cuda:0", block_dims=(64, 256), timer=clock).block_dim == 64
    assert wp.autotune(call, inputs=[data], block_dims=(64, 256)) == (256, {}), "the CPU has no blocks"
    z = wp.empty_like(x)
    assert block_of(gpus, lambda: wp.launch(doubled, 6, [x], [z], block_dim="auto")) == 64
    updated = wp.jax_kernel(saxpy, in_out_argnames=["y"], block_dim="auto")
    found = wp.autotune(
        updated, inputs=[data, data, 1.0], device="cuda:0", block_dims=(96,), timer=Stopwatch(gpus, {96: 1.0})
    )
    assert found.block_dim == 96
    assert data.tolist() == [0, 1, 2, 3, 4, 5]
    # The clock of the package: events, each launch behind work that empties the caches.
    gpus.log()
    found = wp.autotune(doubled, 6, [x], [z], block_dims=(128, 512), refresh=True)
    lines = gpus.log()
    assert found.times.keys() == {128, 512}
    flushes = [i for i, line in enumerate(lines) if line.startswith(f"set8 0 x {2**27}")]
    assert len(flushes) == 15
    assert [line.split()[0] for line in lines[flushes[-1] :][:4]] == ["set8", "record", "launch", "record"]
    # What is measured has the size that is said, also where the default would be another one.
    gpus.registers = 96
    given = [wp.ones(300, dtype=float, device="cuda:0") for _ in range(2)]
    assert block_of(gpus, lambda: wp.launch(doubled, 300, given, block_dim="auto")) == 128
    clock = Stopwatch(gpus, {128: 2.0, 256: 1.0})
    assert wp.autotune(doubled, 300, given[:1], given[1:], block_dims=(128, 256), timer=clock).block_dim == 256
    assert clock.asked == [128, 256] * 7
    assert block_of(gpus, lambda: wp.launch(doubled, 300, given, block_dim="auto")) == 256
    gpus.registers = 32
    # What fails leaves the arguments as they were.
    y.fill_(5.0)

    def stopped(run):
        run()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wp.autotune(saxpy, 6, [x, y, 1.0], timer=stopped, refresh=True)
    assert y.list() == [5.0] * 6
    with wp.ScopedCapture("cuda:0"), pytest.raises(wp.KernelError, match="autotune measures launches"):
        wp.autotune(saxpy, 6, [x, y, 1.0])
    with wp.Tape() as tape:
        wp.autotune(saxpy, 6, [x, y, 1.0], timer=Stopwatch(gpus, times), refresh=True)
    assert tape.launches == []


@wp.kernel
def negated(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = -x[i]


def older_drivers(gpus):
    """Code of a newer CUDA than the driver's: NVRTC 12 is taken where it is there, and what fails says why."""
    x = wp.ones(3, dtype=float, device="cuda:0")
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(nvrtc, "version", lambda: (13, 5))
        assert nvrtc.driver_version() == (13, 0)
        gpus.fail("cuLibraryLoadData")
        with pytest.raises(CudaError, match=r"^cuLibraryLoadData failed: CUDA_ERROR_UNKNOWN \(unknown error\)$"):
            wp.launch(negated, 3, [x])
        gpus.driver.fake_version(12090)
        with pytest.raises(CudaError, match=r"NVRTC 13.5, and the driver is of CUDA 12.9: install jaxwarp\[cuda12\]"):
            wp.launch(negated, 3, [x])
        gpus.fail()
        wp.launch(negated, 3, [x])
        assert x.list() == [-1.0] * 3
        library = Path(folder) / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
        library.parent.mkdir(parents=True)
        library.touch()
        there = {"nvidia": types.SimpleNamespace(submodule_search_locations=[folder])}
        patch.setattr(nvrtc.importlib.util, "find_spec", there.get)
        loaded = []
        patch.setattr(nvrtc.ctypes, "CDLL", loaded.append)
        nvrtc._prefer_older()
        assert loaded == [str(library)]
        gpus.driver.fake_version(13000)
        nvrtc._prefer_older()
        assert loaded == [str(library)]
        there["jax_cuda12_plugin"] = True
        nvrtc._prefer_older()
        assert loaded == [str(library)] * 2


def maps_and_parts(gpus):
    """What is written with launches and copies: operators, maps, parts by indices, captures, grids of commands."""
    x = wp.array([1.0, 2.0, 3.0, 4.0], dtype=float, device="cuda:1")
    y = x * 2.0 + x
    assert y.device == "cuda:1"
    assert y.list() == [3.0, 6.0, 9.0, 12.0]
    assert wp.map(wp.min, x, 2.5).list() == [1.0, 2.0, 2.5, 2.5]
    y += 1.0
    assert y.list() == [4.0, 7.0, 10.0, 13.0]
    part = x[wp.array([3, 0], dtype=int, device="cuda:1")]
    assert part.list() == [4.0, 1.0]
    assert part.contiguous().device == "cuda:1"
    part.fill_(7.0)
    assert x.list() == [7.0, 2.0, 3.0, 7.0]
    part.assign([8.0, 9.0])
    assert x.list() == [9.0, 2.0, 3.0, 8.0]
    assert part.to("cpu").device == "cpu"
    assert part.to("cpu").list() == [8.0, 9.0]
    host = wp.zeros(4, dtype=float)
    with wp.ScopedCapture("cuda:1") as capture:
        wp.launch(saxpy, 4, [x, y, 1.0])
        wp.copy(host, y)
        x.zero_()
    assert host.list() == [0.0] * 4
    for _ in range(2):
        wp.capture_launch(capture.graph)
    assert host.list() == y.list() == [13.0, 9.0, 13.0, 21.0]
    assert x.list() == [0.0] * 4
    one = wp.Stream("cuda:1")
    gpus.log()
    wp.capture_launch(capture.graph, stream=one)
    # The copy to the host parts two graphs.
    assert [line.split()[-1] for line in gpus.log() if line.startswith("graph")] == [f"{one.cuda_stream:x}"] * 2
    assert host.list() == [13.0, 9.0, 13.0, 21.0]


@wp.kernel
def symmetric(a: wp.array2d(dtype=float)):
    i = wp.tid()
    t = wp.tile_load(a, shape=(120, 120), offset=(i * 120, 0))
    wp.tile_store(a, t + wp.tile_transpose(t), offset=(i * 120, 0))


def large_tiles(gpus):
    """Each device is asked once for what the tiles of a kernel need; graphs have it too."""
    given = np.random.default_rng(1).standard_normal((240, 120)).astype(np.float32)
    expected = given + given.reshape(2, 120, 120).swapaxes(1, 2).reshape(240, 120)
    needed = 120 * 121 * 4
    for device in ("cuda:0", "cuda:1"):
        a = wp.array(given, dtype=float, device=device)
        gpus.log()
        for _ in range(3):
            a.assign(given)
            wp.launch_tiled(symmetric, dim=2, inputs=[a], device=device)
        np.testing.assert_array_equal(a.numpy(), expected)
        with wp.ScopedCapture(device) as capture:
            for _ in range(2):
                wp.launch_tiled(symmetric, dim=2, inputs=[a], device=device)
        for _ in range(3):
            a.assign(given)
            wp.capture_launch(capture.graph)
            np.testing.assert_array_equal(a.numpy(), 2.0 * expected)
        found = gpus.log()
        assert len([line for line in found if line.startswith("shared")]) == 1, found
        launches = [line for line in found if line.startswith("launch")]
        assert launches, found
        assert all(f" block 512 shared {needed} stream " in line for line in launches), found


def graphs(gpus):
    """Captures of work on one GPU are graphs of the driver, from the second launch on."""
    x = wp.array(np.arange(6.0), dtype=float, device="cuda:0")
    y, z = wp.zeros(6, dtype=float, device="cuda:0"), wp.zeros(6, dtype=float, device="cuda:0")
    with wp.ScopedCapture("cuda:0") as capture:
        for _ in range(3):
            wp.launch(saxpy, 6, [x, y, 2.0])
        wp.copy(z, y)
        y[:2].fill_(1.0)
    expected, graphs_before = y.numpy(), gpus.driver.fake_graphs()

    def step():
        nonlocal expected
        expected = expected + 6.0 * np.arange(6)
        copied, expected[:2] = expected.copy(), 1.0
        return copied

    def lines():
        return [line.split()[0] for line in gpus.log()]

    gpus.log()
    wp.capture_launch(capture.graph)
    assert [line for line in lines() if line in ("launch", "DtoD", "graph")] == ["launch"] * 3 + ["DtoD"]
    np.testing.assert_array_equal(z.numpy(), step())
    gpus.log()
    wp.capture_launch(capture.graph)
    found = gpus.log()
    assert [f for f in found if f.startswith("graph")] == ["graph of 5", f"graph stream {MAIN}"], found
    np.testing.assert_array_equal(z.numpy(), step())
    np.testing.assert_array_equal(y.numpy(), expected)
    gpus.log()
    for _ in range(3):
        wp.capture_launch(capture.graph)
    assert lines() == ["graph"] * 3
    for _ in range(3):
        copied = step()
    np.testing.assert_array_equal(z.numpy(), copied)
    # On another stream it waits for what came before, and others wait for it.
    one = wp.Stream("cuda:0")
    x.fill_(0.0)
    wp.capture_launch(capture.graph, stream=one)
    found = gpus.log()
    assert found[-1] == f"graph stream {one.cuda_stream:x}"
    assert f"wait stream {one.cuda_stream:x} for {MAIN}" in found
    expected[:2] = 1.0
    y.fill_(3.0)
    assert f"wait stream {MAIN} for {one.cuda_stream:x}" in gpus.log()
    # Values are what they were, though other launches had many since.
    for k in range(300):
        wp.launch(saxpy, 6, [x, z, float(k)])
    x.fill_(1.0)
    y.fill_(0.0)
    wp.capture_launch(capture.graph)
    assert z.list() == [6.0] * 6
    # It keeps its memory, and gives it back.
    gc.collect()
    held = gpus.held()[0]
    del x, y, z
    gc.collect()
    assert gpus.held()[0] == held
    wp.capture_launch(capture.graph)
    del capture
    gc.collect()
    wp.synchronize()
    assert gpus.held()[0] < held
    assert gpus.driver.fake_graphs() == graphs_before


def captures_that_are_no_graphs(gpus):
    """What the host has a part in, or several devices, is done one by one between the graphs of the rest."""
    x = wp.array(np.arange(6.0), dtype=float, device="cuda:0")
    y, on_cpu = wp.zeros(6, dtype=float, device="cuda:0"), wp.zeros(6, dtype=float)
    other = wp.zeros(6, dtype=float, device="cuda:1")
    condition = wp.ones(1, dtype=int, device="cuda:0")
    before = gpus.driver.fake_graphs()

    def launched(*work):
        y.zero_()
        with wp.ScopedCapture("cuda:0") as capture:
            wp.launch(saxpy, 6, [x, y, 1.0])
            for one in work:
                one()
        for _ in range(3):
            wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(y.numpy(), 3 * np.arange(6))
        found = [line for line in gpus.log() if line.startswith("graph stream")]
        return len(found)

    assert launched() == 2
    assert launched(lambda: wp.copy(on_cpu, y)) == 2
    np.testing.assert_array_equal(on_cpu.numpy(), y.numpy())
    assert launched(lambda: wp.copy(other, y)) == 2
    np.testing.assert_array_equal(other.numpy(), y.numpy())
    assert launched(lambda: wp.launch(saxpy, 6, [np.zeros(6, np.float32), y, 1.0])) == 2
    assert launched(lambda: wp.launch(saxpy, 6, [x.to("cpu"), on_cpu, 1.0], device="cpu")) == 2
    assert launched(lambda: wp.launch(saxpy, 3, [x[:3], other.to("cuda:0")[::2], 1.0])) == 4
    assert launched(lambda: wp.capture_if(condition, lambda: None)) == 2
    assert launched(lambda: wp.launch(saxpy, 6, [x, y, 0.0], stream=wp.get_stream("cuda:0"))) == 2
    gpus.fail("cuStreamEndCapture")
    assert launched() == 0
    gpus.fail()
    y.zero_()
    with wp.ScopedCapture("cuda:0") as capture:
        wp.launch(saxpy, 6, [x, y, 1.0])
    wp.capture_launch(capture.graph)
    with wp.Tape() as tape:
        wp.capture_launch(capture.graph)
    assert len(tape.launches) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wp.config, "mode", "debug")
        wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(y.numpy(), 3 * np.arange(6))
    del capture, tape
    gc.collect()
    assert gpus.driver.fake_graphs() == before + 1, "the one whose end failed is the driver's"


def checks(gpus):
    """Assertions, and debug mode."""
    x = wp.array([1.0, -2.0, 3.0, 4.0], dtype=float, device="cuda:0")
    with pytest.raises(wp.errors.CheckError, match=r"thread \(1,\)"):
        wp.launch(guarded, 3, [x])
    x.fill_(1.0)
    wp.config.mode = "debug"
    try:
        with pytest.raises(wp.errors.CheckError, match=r"thread \(3,\)"):
            wp.launch(guarded, 4, [x])
    finally:
        wp.config.mode = "release"


def streams(gpus):
    """What uses the same memory waits for what used it before, on whatever stream."""
    forget_values()  # which streams of before wrote
    x = wp.array(np.arange(6.0), dtype=float, device="cuda:0")
    y = wp.ones(6, dtype=float, device="cuda:0")
    one, other = wp.Stream("cuda:0"), wp.Stream("cuda:0", priority=-1)
    assert one.device == "cuda:0"
    assert one.cuda_stream != other.cuda_stream
    gpus.log()
    wp.launch(saxpy, 6, [x, y, 1.0], stream=one)
    assert not one.is_complete
    wp.launch(saxpy, 6, [x, y, 1.0], stream=other)
    np.testing.assert_array_equal(y.numpy(), 1 + 2 * np.arange(6))
    names = {f"{s.cuda_stream:x}": n for s, n in ((one, "one"), (other, "other"))} | {MAIN: "main"}
    waits = [line.split() for line in gpus.log() if line.startswith("wait")]
    found = list(dict.fromkeys((names[w[2]], names[w[4]]) for w in waits))
    assert found == [("one", "main"), ("other", "main"), ("other", "one"), ("main", "other")], found
    assert one.is_complete
    assert other.is_complete
    with wp.ScopedStream(one, sync_enter=False) as within:
        assert within is one
        assert wp.get_stream("cuda:0") == one
        assert hash(wp.get_stream("cuda:0")) == hash(one)
        z = wp.full(6, 3.0, device="cuda:0")
        wp.copy(z, y)
    wp.copy(z, y, stream=other)
    assert gpus.log()[-1].endswith(f"stream {other.cuda_stream:x}")
    with wp.ScopedStream(other, sync_enter=False):
        z.fill_(2.0)  # after the copy
    assert z.list() == [2.0] * 6
    wp.launch(saxpy, 6, [x, z, 1.0], stream=one)
    del z  # after the launch
    gc.collect()
    assert gpus.log()[-1].startswith("free")
    wp.set_stream(one)
    try:
        y.fill_(5.0)
        assert gpus.log()[-1] == f"set32 40a00000 x 6 stream {one.cuda_stream:x}"
    finally:
        wp.set_stream(other)
    wp.wait_stream(one)
    other.wait_stream(one)
    wp.synchronize_stream(other)
    assert y.list() == [5.0] * 6
    place = gpu_scope(0)
    place.chosen = place.main
    with pytest.raises(wp.KernelError, match="the CPU has no streams"):
        wp.Stream("cpu")
    with pytest.raises(wp.KernelError, match="is no stream of cuda:1"):
        wp.launch(saxpy, 6, [x, y, 1.0], stream=one, device="cuda:1")
    del one, other, within
    y.fill_(0.0)


def streams_of_others(gpus):
    """They may end when they are no longer used: then an event stands for them."""
    x = wp.zeros(6, dtype=float, device="cuda:0")
    gpus.log()
    with wp.ScopedStream(wp.Stream("cuda:0", cuda_stream=0x77)):
        x.fill_(1.0)
    begin = [f"record stream {MAIN}", f"wait stream 77 for {MAIN}"]
    assert gpus.log() == [*begin, *begin, "set32 3f800000 x 6 stream 77", "record stream 77"]
    assert x.list() == [1.0] * 6
    assert gpus.log() == [f"wait stream {MAIN} for 77", f"DtoH 24 stream {MAIN}", f"synchronize {MAIN}"]

    class Theirs:
        def __cuda_stream__(self):
            return 0, 0x78

    with wp.ScopedStream(Theirs()):
        x.fill_(2.0)
    del x
    gc.collect()
    lines = gpus.log()
    assert lines[lines.index(f"wait stream {MAIN} for 78") + 1] == f"free stream {MAIN}", lines


def events(gpus):
    x = wp.zeros(6, dtype=float, device="cuda:0")
    one, other = wp.Stream("cuda:0"), wp.Stream("cuda:0")
    start, end = wp.Event("cuda:0", enable_timing=True), wp.Event("cuda:0", enable_timing=True)
    assert start.is_complete
    one.record_event(start)
    wp.launch(saxpy, 6, [x, wp.ones(6, device="cuda:0"), 1.0], stream=one)
    one.record_event(end)
    assert not end.is_complete
    other.wait_event(end)
    wp.synchronize_stream(other)
    assert end.is_complete
    assert wp.get_event_elapsed_time(start, end) >= 1
    with wp.ScopedDevice("cuda:0"):
        made = wp.record_event()
    wp.wait_event(made)
    wp.synchronize_event(made)
    assert made.is_complete
    with pytest.raises(wp.KernelError, match="keeps no time"):
        wp.get_event_elapsed_time(made, end)
    with pytest.raises(wp.KernelError, match="whose clocks differ"):
        wp.get_event_elapsed_time(start, wp.record_event(wp.Event("cpu", enable_timing=True)))
    with wp.ScopedTimer("x", print=False, synchronize=True) as timer:
        wp.launch(saxpy, 6, [x, wp.ones(6, device="cuda:0"), 1.0])
    assert gpus.log()[-1] == "synchronize all"
    assert timer is None or timer.elapsed > 0
    del start, end, made, one, other
    gc.collect()


@wp.kernel
def misfit(x: wp.array(dtype=float), y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - y[i]) ** 2.0)


@wp.kernel
def step(p: wp.array(dtype=Particle), out: wp.array(dtype=float)):
    i = wp.tid()
    p[i].x = p[i].x * p[i].mass
    out[i] = wp.dot(p[i].x, p[i].x)


def gradients(device):
    """A program with copies, fills, records, updates in place and parts, and its gradients."""
    x = wp.array(np.arange(1.0, 7.0), dtype=float, device=device, requires_grad=True)
    y = wp.full(6, 0.5, dtype=float, device=device, requires_grad=True)
    p = wp.zeros(2, dtype=Particle, device=device, requires_grad=True)
    p.field("x").assign(np.arange(6, dtype=np.float32).reshape(2, 3))
    p.field("mass").fill_(2.0)
    moved = wp.zeros(6, dtype=float, device="cpu", requires_grad=True)
    back, squares = (wp.zeros(n, dtype=float, device=device, requires_grad=True) for n in (6, 2))
    loss = wp.zeros(1, dtype=float, device=device, requires_grad=True, retain_grad=True)
    assert x.grad.device == loss.grad.device == device
    tape = wp.Tape()
    with tape:
        wp.launch(saxpy, 6, [x, y, 2.0])
        wp.launch(saxpy, 3, [y[:3], y[3:], 3.0])
        y[1:2].fill_(0.25)
        wp.copy(moved, y)
        wp.copy(back, moved)
        wp.launch(step, 2, [p, squares])
        wp.launch(misfit, 2, [back[::3], squares, loss])
        wp.launch(misfit, 6, [x, back, loss])
    tape.backward(loss)
    first = [a.grad.numpy().copy() for a in (x, y, p.field("x"), p.field("mass"), loss)]
    x.fill_(2.0)  # what is only read is taken as it is
    tape.zero()
    tape.backward(loss)
    return [*first, x.grad.numpy().copy(), loss.numpy().copy()]


def tapes(gpus):
    for got, expected in zip(gradients("cuda:1"), gradients("cpu"), strict=True):
        np.testing.assert_array_equal(got, expected)
        assert expected.any()
    for device in ("cpu", "cuda:0"):
        x = wp.array([1.0, 2.0], dtype=float, device=device, requires_grad=True)
        loss = wp.zeros(1, dtype=float, device=device, requires_grad=True)
        given = wp.ones(1, dtype=float, device=device)
        adjoint = wp.ones_like(x)
        wp.launch(misfit, 2, [x, wp.zeros_like(x)], [loss], adj_inputs=[adjoint], adj_outputs=[given], adjoint=True)
        assert adjoint.list() == [3.0, 5.0]
    y = wp.ones_like(x)
    expected = [[2.0, 0.0], [0.0, 2.0]]
    for f in (wp.autograd.jacobian, wp.autograd.jacobian_fd):
        np.testing.assert_allclose(f(saxpy, 2, [x], [y, 2.0])[0, 0].numpy(), expected, rtol=1e-3, atol=1e-3)
    with wp.Tape() as tape:
        wp.launch(saxpy, 2, [x, y, 2.0])
    assert wp.autograd.gradcheck_tape(tape, show_summary=False, eps=1e-2)
    assert (x.list(), y.list(), x.grad.list()) == ([1.0, 2.0], [3.0, 5.0], [0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(saxpy, 2, [x, x.new_like(), 1.0], record_tape=False)
    tape.reset()
    x.fill_(1.0)
    assert x.grad.list() == [0.0, 0.0]


@wp.kernel
def powers(x: wp.array2d(dtype=float), k: int, scale: wp.vec3, y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    for j in range(k):
        y[i] += scale * wp.sin(x[i, j]) * x[i, 0]


@wp.kernel
def halved(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.float16)):
    i = wp.tid()
    wp.atomic_add(y, i // 2, x[i] * x[i])


def on_one_device(device, gpus=None):
    """As `gradients`, with all of it on one device: its gradients, and what the way back asks of the driver."""
    x = wp.array(np.linspace(0.0, 1.0, 12).reshape(4, 3), dtype=float, device=device, requires_grad=True)
    y = wp.zeros(4, dtype=wp.vec3, device=device, requires_grad=True, retain_grad=True)
    given = wp.array([1.0, 0.5, 0.25], dtype=float, device=device)
    p = wp.zeros(2, dtype=Particle, device=device, requires_grad=True)
    p.field("x").assign(np.arange(6, dtype=np.float32).reshape(2, 3))
    p.field("mass").fill_(2.0)
    h = wp.array([1.0, 2.0, 3.0, 4.0], dtype=wp.float16, device=device, requires_grad=True)
    g = wp.zeros(2, dtype=wp.float16, device=device, requires_grad=True)
    squares, flat = (wp.zeros(n, dtype=float, device=device, requires_grad=True) for n in (2, 12))
    loss = wp.zeros(1, dtype=float, device=device, requires_grad=True)
    if gpus is not None:
        gpus.log()
    tape = wp.Tape()
    with tape:
        wp.launch(powers, 4, [x, 3, wp.vec3(1.0, 2.0, 3.0)], [y])
        y[1:2].fill_(wp.vec3(0.5, 0.25, 0.125))
        wp.copy(flat, y.view(float).flatten())
        wp.launch(saxpy, 6, [flat[6:], flat[:6], 3.0])
        wp.launch(saxpy, 4, [flat[::3], x[:, 1], 3.0])
        wp.launch(step, 2, [p, squares])
        wp.launch(misfit, 3, [flat[4:7], given, loss])
        wp.launch(misfit, 2, [squares, x[2, :2], loss])
        wp.launch(halved, 4, [h], [g])
    if gpus is not None:
        assert not [line for line in gpus.log() if line.startswith(("DtoH", "synchronize"))], "nothing waits"
    g.grad.fill_(0.5)
    tape.backward(loss)
    assert {str(grad.device) for grad in tape.gradients.values()} == {device}
    first = [a.grad.numpy().copy() for a in (x, y, flat, p.field("x"), p.field("mass"), loss, h, g)]
    return first, tape, loss


def tapes_on_a_gpu(gpus):
    """The way back is made there: nothing but whether gradients are zero comes to the host."""
    expected, *_ = on_one_device("cpu")
    got, tape, loss = on_one_device("cuda:0", gpus)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert all(other.any() for other in (*expected[:2], *expected[3:]))
    tape.zero()
    wp.synchronize()
    gpus.log()
    tape.backward(loss)
    lines = gpus.log()
    found = [line.rsplit(" ", 2)[0] for line in lines if line.startswith(("DtoH", "HtoD"))]
    assert found == [], "what is zero is known, and that nothing has been written since to what the tape has read"
    # In order on one stream: the launches again, the reverses and sums, and at last the gradients.
    assert all(line.endswith(f"stream {MAIN}") or line.startswith("synchronize") for line in lines), lines
    kinds = [line.split()[0] for line in lines if not line.startswith(("alloc", "free"))]
    assert kinds[-1] in ("DtoD", "2D"), kinds
    assert 8 < kinds.count("launch") < 20, kinds


@wp.kernel
def pulled(x: wp.array(dtype=wp.vec3), ends: wp.array2d(dtype=int), k: float, f: wp.array(dtype=wp.vec3)):
    t = wp.tid()
    d = x[ends[t, 0]] - x[ends[t, 1]]
    force = d * (k * (wp.length(d) - 1.0) / wp.length(d))
    wp.atomic_sub(f, ends[t, 0], force)
    wp.atomic_add(f, ends[t, 1], force)


@wp.kernel
def reacted(
    u: wp.array2d(dtype=float), v: wp.array2d(dtype=float), a: wp.array2d(dtype=float), b: wp.array2d(dtype=float)
):
    i, j = wp.tid()
    n = u.shape[0]
    along = u[(i + n - 1) % n, j] + u[(i + 1) % n, j] - 2.0 * u[i, j]
    a[i, j] = u[i, j] + 0.1 * along - u[i, j] * v[i, j] * v[i, j]
    b[i, j] = v[i, j] + u[i, j] * v[i, j] * v[i, j]


def kinds_of(lines):
    return [line.split()[0] for line in lines]


def gradient_of_one_launch(gpus):
    """It is one launch, behind it fills of what is used up: nothing is made, copied, or asked of the device."""
    ends = np.array([[0, 1], [1, 2], [2, 0], [0, 3]], np.int32)
    points = np.array([[0, 0, 0], [2, 0, 0], [0, 3, 0], [1, 1, 4]], np.float32)
    fields = np.random.default_rng(0).uniform(0.0, 1.0, (2, 8, 8)).astype(np.float32)

    def springs(device):
        x = wp.array(points, dtype=wp.vec3, device=device, requires_grad=True)
        f = wp.zeros(4, dtype=wp.vec3, device=device, requires_grad=True)
        return pulled, 4, [x, wp.array(ends, dtype=int, device=device), 3.0], [f]

    def reaction(device):
        u, v = (wp.array(field, dtype=float, device=device, requires_grad=True) for field in fields)
        return reacted, (8, 8), [u, v], [wp.zeros_like(u, requires_grad=True) for _ in range(2)]

    for program, fills in ((springs, 0), (reaction, 2)):
        found = []
        for device in ("cpu", "cuda:0"):
            kernel, dim, inputs, outputs = program(device)
            variables = [x for x in inputs if isinstance(x, wp.array) and x.requires_grad]
            given = [wp.array(np.cos(np.arange(y.numpy().size)).reshape(y.numpy().shape), dtype=y.dtype, device=device)
                     for y in outputs]  # fmt: skip
            with wp.Tape() as tape:
                wp.launch(kernel, dim, inputs, outputs)
            for k in range(3):
                tape.zero()
                for y, g in zip(outputs, given, strict=True):
                    y.grad.assign(g)
                gpus.log()
                tape.backward()
                if device != "cpu" and k:
                    assert kinds_of(gpus.log()) == ["launch", *["set8"] * fills], program.__name__
            found.append([x.grad.numpy().copy() for x in variables])
            for x in variables:
                x.grad.zero_()
            for y, g in zip(outputs, given, strict=True):
                y.grad.assign(g)
            for k in range(2):
                gpus.log()
                wp.launch(kernel, dim, inputs, outputs, adjoint=True)
                if device != "cpu" and k:
                    assert kinds_of(gpus.log()) == ["launch"], program.__name__
            found.append([x.grad.numpy() / 2 for x in variables])
        for got in found[1:]:
            for one, other in zip(got, found[0], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
                assert other.any()


def contents_that_are_known(gpus):
    """Whether gradients are zero is known of what this process has filled; else the device is asked."""
    x = wp.array([0.0, 0.0, 1.0, 4.0], dtype=float, device="cuda:0", requires_grad=True)
    y, other = (wp.zeros(4, dtype=float, device="cuda:0", requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(checked_roots, 4, [x], [y])
        wp.launch(doubled, 4, [x], [other])

    def is_asked(before):
        """The slope of the root is infinite where x is zero: what is zero must have no part in it."""
        tape.zero()
        before()
        other.grad.fill_(1.0)
        gpus.log()
        tape.backward()
        lines = gpus.log()
        np.testing.assert_array_equal(x.grad.numpy(), np.full(4, 2.0, np.float32))
        return any(line.startswith("DtoH") for line in lines)

    ones, zeros = (wp.full(4, value, dtype=float, device="cuda:0") for value in (1.0, 0.0))
    assert not is_asked(lambda: None)
    assert not is_asked(lambda: y.grad.assign(zeros))
    assert not is_asked(lambda: y.grad.assign(np.zeros(4, np.float32)))
    assert is_asked(lambda: wp.launch(saxpy, 4, [zeros, y.grad, 1.0]))
    wp.launch(doubled, 4, [ones], [y.grad])
    with wp.ScopedCapture("cuda:0") as capture:
        y.grad.zero_()
        wp.launch(doubled, 4, [zeros], [y.grad])
    for _ in range(3):
        assert is_asked(lambda: wp.capture_launch(capture.graph))
    y.grad.zero_()
    assert y.grad.ptr  # somebody may write there from now on
    assert is_asked(lambda: None)

    # What the tape has read and overwritten is compared where it was written since.
    a, b = (wp.array([1.0, 2.0], dtype=float, device="cuda:0", requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(saxpy, 2, [a, b, 2.0])
        wp.launch(saxpy, 2, [b, a, 2.0])
    for again, is_compared in ((False, False), (True, True)):
        if again:
            a.assign(a.numpy())
        tape.zero()
        b.grad.fill_(1.0)
        gpus.log()
        tape.backward()
        assert any(line.startswith("DtoH") for line in gpus.log()) is is_compared
    a.fill_(5.0)
    with pytest.raises(wp.KernelError, match="which the tape reads and overwrites, has changed since it was recorded"):
        tape.backward()


@wp.kernel
def checked_roots(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    assert x[i] >= 0.0, "below zero"
    y[i] = wp.sqrt(x[i]) * x[i]


def adjoints_on_a_gpu(gpus):
    """`launch(adjoint=True)`: on arrays with gaps, of numbers by value, of arrays of the host."""
    values = np.linspace(1.0, 2.0, 12, dtype=np.float32).reshape(4, 3)
    found = []
    for device in ("cpu", "cuda:0"):
        x, given = (wp.array(values, dtype=float, device=device) for _ in range(2))
        y, adjoint = (wp.zeros((4, 2), dtype=wp.vec3, device=device) for _ in range(2))
        adjoint.assign(np.arange(24, dtype=np.float32).reshape(4, 2, 3))
        for _ in range(2):
            gpus.log()
            wp.launch(powers, 4, [x, 3, wp.vec3(1.0, 2.0, 3.0)], [y[:, 1]], adj_inputs=[given],
                      adj_outputs=[adjoint[:, 1]], adjoint=True)  # fmt: skip
        lines = gpus.log()
        reads = [line for line in lines if line.startswith(("DtoH", "HtoD"))]
        assert reads == [], "the host waits for nothing"
        gone = wp.zeros(4, dtype=float, device=device)  # where the partial is infinite: 0 times it would be NaN
        wp.launch(checked_roots, 4, [gone], [wp.zeros_like(gone)], adj_inputs=[given[:, 0]],
                  adj_outputs=[wp.zeros_like(gone)], adjoint=True)  # fmt: skip
        loss, one = wp.zeros(1, dtype=float, device=device), wp.ones(1, dtype=float, device=device)
        wp.launch(misfit, 4, [x[:, 0], values[:, 1]], [loss], adj_inputs=[given[::-1, 2]], adj_outputs=[one],
                  adjoint=True)  # fmt: skip
        wp.launch(checked_roots, 4, [x[:, 0]], [y.view(float)[:, 0, 0]], adj_inputs=[given[:, 1]],
                  adj_outputs=[adjoint.view(float)[:, 0, 1]], adjoint=True)  # fmt: skip
        on_cpu = wp.zeros(4, dtype=float)  # adjoints elsewhere
        wp.launch(doubled, 4, [x[:, 0]], [wp.ones_like(x[:, 0])], adj_inputs=[on_cpu],
                  adj_outputs=[wp.ones(4, dtype=float)], adjoint=True)  # fmt: skip
        assert on_cpu.list() == [2.0] * 4
        found.append(given.numpy())
    np.testing.assert_allclose(*found, rtol=1e-6)
    assert (found[0] != values).all()


def tapes_that_fail(gpus):
    """What a tape overwrites and reads is checked; assertions hold on the way back; errors are told, nothing leaks."""
    x, y = (wp.ones(6, dtype=float, device="cuda:0", requires_grad=True) for _ in range(2))
    z, loss = (wp.zeros(n, dtype=float, device="cuda:0", requires_grad=True) for n in (6, 1))
    with wp.Tape() as tape:
        wp.launch(checked_roots, 6, [x, z])
        wp.launch(saxpy, 6, [z, y, 2.0])
        wp.launch(misfit, 6, [y, x, loss])
        y.fill_(7.0)
    tape.backward(loss)
    # y + 2 x^1.5 - x is 2.
    np.testing.assert_allclose(x.grad.numpy(), np.full(6, 2 * 2 * (2 * 1.5 - 1)), rtol=1e-6)
    np.testing.assert_allclose(y.grad.numpy(), np.full(6, 4.0), rtol=1e-6)
    expected = x.grad.numpy()
    tape.zero()
    forget_values()
    gc.collect()
    held = gpus.held()
    for function in ("cuMemAllocAsync", "cuMemsetD8Async", "cuMemcpyDtoDAsync", "cuMemcpyDtoHAsync",
                     "cuLaunchKernelEx"):  # fmt: skip
        gpus.fail(function)
        with pytest.raises(CudaError, match=f"{function}.* failed: CUDA_ERROR_UNKNOWN") as caught:
            tape.backward(loss)
        gpus.fail()
        del caught
        forget_values()
        gc.collect()
        assert held == gpus.held(), function
        assert not x.grad.numpy().any()
        assert not y.grad.numpy().any()
    tape.backward(loss)
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    y.fill_(8.0)
    with pytest.raises(wp.KernelError, match="which the tape reads and overwrites, has changed since it was recorded"):
        tape.backward(loss)
    y.fill_(7.0)
    tape.backward(loss)
    x.fill_(-1.0)
    with pytest.raises(wp.errors.CheckError, match="below zero"):
        tape.backward(loss)


def waiting(gpus):
    x = wp.zeros(6, dtype=float, device="cuda:0")
    gpus.log()
    x.fill_(1.0)
    assert not wp.get_stream("cuda:0").is_complete
    wp.synchronize_device("cuda:0")
    assert gpus.log()[-1] == "synchronize all"
    assert wp.get_stream("cuda:0").is_complete
    wp.synchronize()
    wp.synchronize_stream("cuda:0")
    wp.synchronize_device("cpu")
    assert gpus.log()[-1] == f"synchronize {MAIN}"


def pinned(gpus):
    gpus.log()
    a = wp.zeros(6, dtype=float, device="cpu", pinned=True)
    assert a.pinned
    assert a.device == "cpu"
    assert gpus.log() == ["pinned 24"]
    a.numpy()[:] = 3.0
    b = wp.array([1.0, 2.0], dtype=float, pinned=True)
    assert b.pinned
    assert b.list() == [1.0, 2.0]
    for like in (wp.zeros_like(b), wp.clone(b), wp.full_like(b, 2.0)):
        assert like.pinned
    assert not wp.zeros_like(b, pinned=False).pinned
    assert not wp.zeros(3).pinned
    assert not wp.zeros(3, device="cuda:0", pinned=True).pinned
    c = wp.zeros(6, dtype=float, device="cuda:0")
    wp.copy(c, a)
    a.fill_(0.0)
    assert c.list() == [3.0] * 6
    wp.launch(saxpy, 6, [a, a.to("cpu").contiguous().new_like(), 1.0])
    wp.copy(a, c)
    assert a.list() == [3.0] * 6
    view = a.numpy()
    gc.collect()
    gpus.log()
    del a
    gc.collect()
    assert gpus.log() == []
    assert view.tolist() == [3.0] * 6, view
    del view
    gc.collect()
    assert gpus.log() == ["unpin"]


def memory_of_others(gpus):
    """Memory at an address, and what has CUDA's array interface."""
    from jaxwarp.memory.gpu.scope import gpu_scope as scope

    address = scope(0).make(np.dtype(np.float32), (6,))
    freed = []
    a = wp.array(ptr=address.address, shape=3, strides=(8,), capacity=24, dtype=float, device="cuda:0",
                 deleter=lambda *given: freed.append(given))  # fmt: skip
    a.fill_(2.0)
    assert scope(0).read(address).tolist() == [2, 0, 2, 0, 2, 0]
    interface = a.__cuda_array_interface__
    assert interface["data"] == (address.address, False)
    assert interface["strides"] == (8,)
    assert interface["stream"] == 0x5000
    del a
    gc.collect()
    assert freed == [(address.address, 24)]


class Foreign:
    """An array of another library on the first device, by CUDA's array interface."""

    def __init__(self, array, stream=None, is_read_only=False):
        self.array = array  # one of ours
        region = array.region
        self.__cuda_array_interface__ = {
            "shape": region.shape, "typestr": region.dtype.str, "data": (region.address, is_read_only), "version": 3,
            "strides": region.strides, "stream": stream,
        }  # fmt: skip


class Exchanged:
    """An array of another library, by DLPack."""

    def __init__(self, array):
        self.array, self.streams = array, []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, max_version=max_version)


def cuda_array_interface(gpus):
    """Theirs, in launches, copies and arrays: what their stream does comes first."""
    x = wp.array(np.arange(6.0), dtype=float, device="cuda:0")
    y = wp.ones(6, dtype=float, device="cuda:0")
    gpus.log()
    wp.launch(saxpy, 6, [Foreign(x, 0x99), y, 2.0])
    lines = gpus.log()
    assert [line for line in lines if "99" in line] == ["record stream 99", f"wait stream {MAIN} for 99"], lines
    wp.launch(saxpy, 3, [Foreign(x[::2]), Foreign(y), 1.0], device="cuda:0")
    np.testing.assert_array_equal(y.numpy(), [1, 5, 9, 7, 9, 11])
    wp.copy(y, Foreign(x))
    np.testing.assert_array_equal(y.numpy(), np.arange(6))
    shared = wp.array(Foreign(x.reshape((2, 3))), dtype=wp.vec3, copy=False)
    assert (shared.ptr, shared.shape, shared.device, shared.dtype) == (x.ptr, (2,), "cuda:0", wp.vec3)
    shared.fill_(wp.vec3(1.0, 2.0, 3.0))
    assert x.list() == [1.0, 2.0, 3.0] * 2
    assert wp.array(Foreign(x), dtype=float).ptr != x.ptr
    assert wp.array(Foreign(x), dtype=float, device="cpu").list() == [1.0, 2.0, 3.0] * 2
    with pytest.raises(wp.KernelError, match="it is a read-only array"):
        wp.launch(saxpy, 6, [x, Foreign(y, is_read_only=True), 2.0], device="cuda:0")
    gpus.driver.fake_pointers(1)
    with pytest.raises(wp.KernelError, match="argument 'x': the array is on cuda:1, and is used on cuda:0"):
        wp.launch(saxpy, 6, [Foreign(x), y, 2.0])
    assert wp.array(Foreign(x), dtype=float, copy=False).device == "cuda:1"
    gpus.driver.fake_pointers(0)
    one = wp.Stream("cuda:0")
    wp.launch(saxpy, 6, [y, x, 1.0], stream=one)
    gpus.log()
    interface = x.__cuda_array_interface__
    assert interface["stream"] == int(MAIN, 16)
    assert gpus.log()[-1] == f"wait stream {MAIN} for {one.cuda_stream:x}"


def dlpack(gpus):
    x = wp.array(np.arange(6.0), dtype=float, device="cuda:0")
    theirs = Exchanged(x)
    a = wp.from_dlpack(theirs)
    assert (a.ptr, a.device, a.shape, theirs.streams) == (x.ptr, "cuda:0", (6,), [int(MAIN, 16)])
    assert wp.from_dlpack(Exchanged(x.reshape((2, 3))), dtype=wp.vec3).shape == (2,)
    assert wp.from_dlpack(wp.to_dlpack(x)).ptr == x.ptr
    y = wp.ones(6, dtype=float, device="cuda:1")
    wp.launch(saxpy, 6, [Exchanged(y), y.new_like(), 1.0])
    wp.launch(saxpy, 6, [Exchanged(y.to("cuda:0")), Exchanged(x), 1.0])  # where they are
    np.testing.assert_array_equal(x.numpy(), 1 + np.arange(6))
    with pytest.raises(wp.KernelError, match="the array is on cuda:1, and is used on cuda:0"):
        wp.launch(saxpy, 6, [Exchanged(y), x, 1.0])
    x.fill_(3.0)
    gpus.log()
    x.__dlpack__(stream=0x88, max_version=(1, 0))
    assert gpus.log() == [f"record stream {MAIN}", f"wait stream 88 for {MAIN}", "record stream 88"]
    x.__dlpack__(stream=-1)
    assert gpus.log() == []
    x.__dlpack__()
    lines = gpus.log()
    assert "wait stream 1 for 88" in lines, lines
    assert wp.from_dlpack(Exchanged(x)).list() == [3.0] * 6
    pointer = x.ptr
    capsule = x.__dlpack__(stream=-1, copy=True)
    del x, a, theirs
    gc.collect()
    b = wp.from_dlpack(capsule)
    assert b.ptr != pointer
    assert b.list() == [3.0] * 6
    del capsule
    gc.collect()
    gpus.log()
    del b
    gc.collect()
    assert gpus.log()[-1].startswith("free")


def tensor_class(torch):
    """Tensors of PyTorch on a GPU that is not there: theirs is the memory of the host, too."""

    class OnGpu(torch.Tensor):
        device = property(lambda self: torch.device("cuda:0"))

        def numpy(self):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")

        def __dlpack_device__(self):
            return 2, 0

        def __dlpack__(self, *, stream=None, max_version=None):
            assert not self.requires_grad
            place, strides = gpu_scope(0), tuple(4 * s for s in self.stride())
            region = Region(self.data_ptr(), np.dtype(np.float32), tuple(self.shape), strides, place.taken(self))
            return MemoryArray(place, "theirs", region, True).__dlpack__(stream=stream, max_version=max_version)

    def from_dlpack(array):
        capsule = array.__dlpack__(stream=1, max_version=(1, 0))
        low, high = array.region.span
        memory = (ctypes.c_char * (high - low)).from_address(low)
        memory.kept = array, capsule
        return torch.from_numpy(array.region.view(memory)).as_subclass(OnGpu)

    return OnGpu, from_dlpack


def torch_tensors(gpus):
    """Memory and gradients are shared; PyTorch is told what is written."""
    torch = pytest.importorskip("torch")
    kind, from_dlpack = tensor_class(torch)
    x = torch.arange(1.0, 7.0).as_subclass(kind).requires_grad_()
    a = wp.from_torch(x)
    assert (a.device, a.ptr, a.grad.ptr, a.grad.device) == ("cuda:0", x.data_ptr(), x.grad.data_ptr(), "cuda:0")
    y = wp.zeros(6, dtype=float, device="cuda:0", requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(saxpy, 6, [a, y, 2.0])
        wp.launch(saxpy, 2, [a[4:], y[:2], 3.0])
    y.grad.fill_(1.0)
    tape.backward()
    wp.synchronize()
    assert x.grad.tolist() == [2.0] * 4 + [5.0] * 2
    x.grad = None  # as optimisers do
    assert a.grad.list() == [0.0] * 6
    assert x.grad.data_ptr() == a.grad.ptr
    part = torch.zeros(4, 6).as_subclass(kind)[::2, 1]
    before = part._version
    wp.launch(doubled, 2, [a, part])
    wp.synchronize()
    assert part.tolist() == [2.0, 4.0]
    assert part._version > before
    with pytest.raises(wp.KernelError, match=r"argument 'x': the tensor requires a gradient, and PyTorch"):
        wp.launch(saxpy, 6, [x, y, 1.0])
    with pytest.raises(wp.KernelError, match="expected a tensor on the CPU, as the other arrays are, got one on cuda"):
        wp.launch(saxpy, 6, [part, wp.zeros(6), 1.0], device="cpu")
    assert wp.from_dlpack(part).ptr == wp.array(part, copy=False).ptr == part.data_ptr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "from_dlpack", from_dlpack)
        made = wp.to_torch(y)
    assert (made.data_ptr(), made.grad.data_ptr(), made.requires_grad) == (y.ptr, y.grad.ptr, True)
    assert isinstance(made.grad, kind)
    version = made._version
    y.fill_(3.0)
    wp.synchronize()
    assert made.tolist() == [3.0] * 6
    assert made._version > version
    made.grad = None
    assert y.grad.list() == [0.0] * 6
    del tape, a
    gc.collect()
    held = gpus.held()[0]
    del y, made
    gc.collect()
    assert gpus.held()[0] == held - 2, "the array, and its gradient"


def shared_memory(gpus):
    """What another library may still use, on a stream of its own, is freed when all is done."""

    def freed(use):
        x = wp.array([1.0, 2.0], dtype=float, device="cuda:0")
        use(x)
        gc.collect()
        gpus.log()
        del x
        gc.collect()
        return [line.split()[0] for line in gpus.log() if line.startswith(("free", "synchronize"))]

    assert freed(lambda x: None) == ["free"]
    assert freed(lambda x: x.__dlpack__(stream=1)) == ["free"]
    assert freed(lambda x: x.__dlpack__(stream=int(MAIN, 16))) == ["free"]
    assert freed(lambda x: x.__dlpack__(stream=0x88)) == ["synchronize", "free"]
    assert freed(lambda x: x.__dlpack__(stream=-1)) == ["synchronize", "free"]
    assert freed(lambda x: x.__cuda_array_interface__) == ["synchronize", "free"]
    held = gpus.held()[0]
    gpus.fail("cuCtxSynchronize")
    assert freed(lambda x: x.__dlpack__(stream=0x88)) == [], "kept, where nobody can say that it is not used"
    gpus.fail()
    assert gpus.held()[0] == held + 1
    gpus.driver.fake_threshold.restype = ctypes.c_uint64
    assert gpus.driver.fake_threshold() == 2**30


def sums(gpus):
    """By kernels, on the device of the arrays."""
    generator = np.random.default_rng(0)
    for dtype, shape in ((float, (3, 5, 4)), (wp.vec3, (3, 5, 4)), (wp.float64, (7,))):
        host = generator.standard_normal((*shape, *([3] if dtype is wp.vec3 else [])))
        on_cpu, on_gpu = (wp.array(host, dtype=dtype, device=device) for device in ("cpu", "cuda:0"))
        for axis in (None, *range(len(shape))):
            for count in (None, 2):
                found, expected = (wp.utils.array_sum(a, value_count=count, axis=axis) for a in (on_gpu, on_cpu))
                if axis is not None:
                    assert found.device == "cuda:0"
                    found, expected = found.numpy(), expected.numpy()
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
                found, expected = (wp.utils.array_inner(a, a, count=count, axis=axis) for a in (on_gpu, on_cpu))
                if axis is not None:
                    found, expected = found.numpy(), expected.numpy()
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    x = wp.array(np.arange(6.0), dtype=float, device="cuda:0")
    out = wp.full(2, 7.0, dtype=float, device="cuda:0")
    assert wp.utils.array_sum(x[::2], out=out[1:]).list() == [6.0]
    assert out.list() == [7.0, 6.0]
    assert wp.utils.array_sum(wp.zeros(0, dtype=float, device="cuda:0")) == 0.0
    with pytest.raises(wp.KernelError, match=r"is on cpu, and is used on cuda:0|is on cuda:0, and is used on cpu"):
        wp.utils.array_inner(x, x.to("cpu"))
    with wp.ScopedCapture("cuda:0") as capture:
        wp.utils.array_sum(x, out=out[:1])
    x.fill_(2.0)
    wp.capture_launch(capture.graph)
    assert out.list() == [12.0, 6.0]


def scans(gpus):
    """On the GPU, with the results that the host has."""
    generator = np.random.default_rng(0)
    for dtype, shape in ((int, (5000,)), (wp.vec3, (5, 40)), (wp.float64, (3,)), (wp.int64, (0,))):
        values = generator.integers(-50, 50, (*shape, *([3] if dtype is wp.vec3 else [])))
        for inclusive in (True, False):
            found = []
            for device in ("cpu", "cuda:0"):
                x = wp.array(values, dtype=dtype, device=device)
                y = wp.zeros_like(x)
                wp.utils.array_scan(x, y, inclusive)
                wp.utils.array_scan(x, x, inclusive)
                found += [x.numpy(), y.numpy()]
            for other in found[1:]:
                np.testing.assert_array_equal(found[0], other)
    base = wp.full(8, -1, dtype=int, device="cuda:0")
    wp.utils.array_scan(wp.array([1, 0, 2, 0, 3, 0], dtype=int, device="cuda:0")[::2], base[1:7:2])
    assert base.list() == [-1, 1, -1, 3, -1, 6, -1, -1]
    x = wp.zeros(3, dtype=float, device="cuda:0")
    with wp.Tape(), pytest.raises(wp.KernelError, match="array_scan: a tape is recording, and it has no derivative"):
        wp.utils.array_scan(x, x)


def _numbers(dtype, size):
    generator = np.random.default_rng(3)
    if dtype.is_float:
        return np.where(np.arange(size) % 7 == 3, [0.0, -0.0, np.inf, -np.inf][size % 4], generator.normal(size=size))
    return generator.integers(-40 if dtype.numpy.kind == "i" else 0, 40, size)


def sorts(gpus):
    for dtype, value_type, size, bits in (
        (wp.int32, wp.int64, 300, {}),
        (wp.uint32, wp.vec2, 301, {"begin_bit": 1, "end_bit": 6}),
        (wp.float32, wp.int32, 302, {}),
        (wp.float64, wp.int32, 303, {}),
        (wp.int64, wp.float32, 70, {}),
        (wp.uint64, wp.uint64, 70, {"end_bit": 5}),
    ):
        found = []
        for device in ("cpu", "cuda:0"):
            keys = wp.array(_numbers(dtype, size), dtype=dtype, device=device)
            values = wp.array(np.arange(size * (2 if value_type is wp.vec2 else 1)).reshape(size, -1).squeeze(),
                              dtype=value_type, device=device)  # fmt: skip
            gpus.log()
            wp.utils.radix_sort_pairs(keys, values, size - 5, **bits)
            assert not [line for line in gpus.log() if line.startswith(("DtoH", "HtoD"))]
            found.append((keys.numpy(), values.numpy()))
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)
        assert (np.diff(found[0][1].reshape(size, -1)[:, 0].astype(float)) != 1).any()
    host = np.arange(20)[::-1] % 7
    for dtype in (wp.int32, wp.float32):
        for given in (([2, 5, 5, 8],), ([9, 0, 15], [12, 6, 20]), ([3],)):
            found = []
            for device in ("cpu", "cuda:0"):
                keys = wp.array(host, dtype=dtype, device=device)
                values = wp.array(np.arange(20), dtype=int, device=device)
                wp.utils.segmented_sort_pairs(keys, values, 20, *(wp.array(g, dtype=int, device=device) for g in given))
                found.append((keys.list(), values.list()))
            assert found[0] == found[1]
            assert found[0][1] != list(range(20)) or given == ([3],)


def runs(gpus):
    found = []
    for device in ("cpu", "cuda:0"):
        values = wp.array([1, 1, 2, 3, 3, 3, 1, 9] * 20, dtype=int, device=device)
        into, lengths, count = (wp.full(n, -1, dtype=int, device=device) for n in (160, 160, 1))
        assert wp.utils.runlength_encode(values, into, lengths) == 100
        assert wp.utils.runlength_encode(values, into, lengths, value_count=7) == 4
        first = into.list(), lengths.list()
        assert wp.utils.runlength_encode(values[::2], into[::2], lengths, run_count=count) is count
        assert wp.utils.runlength_encode(values[:0], into, lengths) == 0
        second = into.list(), lengths.list(), count.list()
        assert wp.utils.runlength_encode(values[:0], into, lengths, run_count=count).list() == [0]
        wide = wp.array([[5, 5], [6, 5]], dtype=wp.uint64, device=device)
        assert wp.utils.runlength_encode(wide, wide.new_like(), lengths) == 3
        found.append((first, second))
    assert found[0] == found[1]


@wp.kernel
def nearest(mesh: wp.Mesh, at: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    found = wp.mesh_query_point(mesh, at[i], 10.0)
    out[i] = wp.mesh_eval_position(mesh, found.face, found.u, found.v)


@wp.kernel
def touched(bvh: wp.Bvh, at: wp.array(dtype=wp.vec3), out: wp.array(dtype=int)):
    i = wp.tid()
    query = wp.bvh_query_aabb(bvh, at[i] - wp.vec3(0.5), at[i] + wp.vec3(0.5))
    n = 0
    while wp.bvh_query_next(query, n):
        out[i] += 1 + n


@wp.kernel
def neighbours(grid: wp.HashGrid, at: wp.array(dtype=wp.vec3), out: wp.array(dtype=int)):
    i = wp.tid()
    query = wp.hash_grid_query(grid, at[i], 0.6)
    n = 0
    while wp.hash_grid_query_next(query, n):
        if wp.length(at[n] - at[i]) < 0.6:
            out[i] += 1 + n


def spatial_queries(gpus):
    """Meshes, trees and grids of arrays on GPUs are searched there; where they are elsewhere that is said."""
    places = np.random.default_rng(1).random((20, 3)).astype(np.float32)
    faces = np.arange(18, dtype=np.int32)
    found = []
    for device in ("cuda:1", "cpu"):
        points = wp.array(places, dtype=wp.vec3, device=device)
        mesh = wp.Mesh(points[:18], wp.array(faces, dtype=int, device=device))
        near, count, around = wp.zeros_like(points), *(wp.zeros(20, dtype=int, device=device) for _ in range(2))
        wp.launch(nearest, 20, [mesh, points], [near])
        bvh = wp.Bvh(points, points)
        assert mesh.device == bvh.device == device
        assert wp.launch(nearest, 20, [mesh, points], [near], record_cmd=True).device == device
        wp.launch(touched, 20, [bvh, points], [count])
        grid = wp.HashGrid(4, 4, 4, device=device)
        assert grid.device == device
        grid.build(points, 0.6)
        wp.launch(neighbours, 20, [grid, points], [around])
        twice = wp.array(np.repeat(np.arange(20) % 3 - 1, 2), dtype=int, device=device)
        gpus.log()
        grid.build(points, 0.6, groups=twice[::2])
        assert device == "cpu" or not [line for line in gpus.log() if line.startswith(("DtoH", "HtoD"))]
        found.append([a.numpy() for a in (near, count, around, grid.start, grid.ids, grid.groups)])
    for got, expected in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
        assert got.any()
    on_gpu = wp.array(places, dtype=wp.vec3, device="cuda:1")
    with pytest.raises(wp.KernelError, match="expected an array on cpu, where the grid is, got one on cuda:1"):
        grid.build(on_gpu, 0.6)
    for given in (mesh, mesh.id):
        with pytest.raises(wp.KernelError, match=r"is on cuda:1, and is used on cpu|is on cpu, and is used on cuda:1"):
            wp.launch(nearest, 20, [given, on_gpu], [wp.zeros_like(on_gpu)])


def structures(gpus):
    """Volumes, textures and surfaces on a GPU."""
    for scenario in structure_scenarios.BY_DEVICE:
        structure_scenarios.as_on_the_cpu(scenario, "cuda:1")
    with wp.ScopedDevice("cuda:1"):
        assert wp.Volume.allocate((0, 0, 0), (7, 7, 7), 1.0).device == "cuda:1"
        texture = wp.Texture1D(np.ones(4, np.float32))
        assert jax.jit(lambda v: wp.Texture1D(np.ones(4, np.float32)).data * v)(1.0).shape == (4, 1)
    points = wp.zeros(1, dtype=wp.vec3i, device="cuda:1")
    assert wp.Volume.allocate_by_tiles(points, 1.0).device == "cuda:1"
    assert wp.Volume.allocate_by_voxels(points, 1.0).device == "cuda:1"
    assert wp.Volume.allocate_by_tiles(points, 1.0, device="cpu").device == "cpu"
    image = wp.ones(4, dtype=float, device="cuda:1")
    assert wp.Texture1D(image).device == "cuda:1"
    assert wp.Texture1D(image, device="cpu").device == "cpu"
    gpus.log()
    with wp.ScopedCapture("cuda:1") as capture:
        texture.copy_from(image)
        texture.copy_to(image)
    for _ in range(3):
        wp.capture_launch(capture.graph)
    assert not [line for line in gpus.log() if line.startswith(("DtoH", "HtoD"))]
    for name in ("cuda_array", "cuda_texture", "cuda_surface"):
        with pytest.raises(wp.KernelError, match=f"{name} is only supported for CUDA textures"):
            getattr(texture, name)


def optimisers(gpus):
    """Their states are where the parameters are, and go with them."""
    here, there = wp.ones(3, dtype=float, device="cpu"), wp.zeros(3, dtype=float, device="cuda:1")
    moved = wp.optim.Adam([here])
    moved.m[0].fill_(2.0)
    moved.set_params([there])
    assert moved.m[0].device == "cuda:1"
    np.testing.assert_array_equal(moved.m[0].numpy(), [2.0, 2.0, 2.0])
    for make in (wp.optim.Adam, wp.optim.SGD):
        found = []
        for device in ("cuda:1", "cpu"):
            x = wp.array([1.0, -2.0, 3.0], dtype=float, device=device)
            optimiser = make([x], lr=0.1)
            for k in (1.0, 2.0):
                optimiser.step([wp.full_like(x, k)])
            found.append(x.numpy())
        np.testing.assert_allclose(*found, rtol=1e-6)
        assert abs(found[0] - [1.0, -2.0, 3.0]).min() > 0.1


def jax_arrays(gpus):
    """JAX has no GPU here: what it gets is on the host."""
    import jax
    import jax.numpy as jnp

    x = wp.array(np.arange(6.0), dtype=float, device="cuda:0")
    value = wp.to_jax(x)
    x.fill_(0.0)
    np.testing.assert_array_equal(value, np.arange(6.0))
    np.testing.assert_array_equal(jax.jit(jnp.sin)(x), np.zeros(6))
    wp.launch(saxpy, 6, [value, x, 2.0])
    np.testing.assert_array_equal(x.numpy(), 2 * np.arange(6))
    assert wp.array(value, device="cuda:0", dtype=float).list() == list(range(6))
    with pytest.raises(wp.KernelError, match=r"argument 'y' is written .* got ndarray"):
        wp.launch(saxpy, 6, [x, value, 2.0], device="cuda:0")


def the_host_does_not_read_gpus(gpus):
    """What works on memory of the host says so, and does not take the address for one of its own."""
    x = wp.ones(6, dtype=float, device="cuda:0")
    on_host = wp.zeros_like(x, device="cpu")
    for use, names in (
        (lambda: wp.utils.array_scan(x, on_host), ("out_array", "cuda:0", "in_array", "cpu")),
        (lambda: wp.utils.array_scan(on_host, x), ("out_array", "cpu", "in_array", "cuda:0")),
        (lambda: wp.utils.radix_sort_pairs(x, on_host, 3), ("values", "cuda:0", "keys", "cpu")),
        (lambda: wp.utils.segmented_sort_pairs(x, x, 3, on_host),
         ("segment_start_indices", "cuda:0", "keys", "cpu")),
        (lambda: wp.utils.runlength_encode(x, x, on_host), ("run_lengths", "cuda:0", "values", "cpu")),
    ):  # fmt: skip
        (name, expected, first, given) = names
        with pytest.raises(
            wp.KernelError, match=f"{name}: expected an array on {expected}, where {first} is, got one on {given}"
        ):
            use()
    for use in (
        lambda: memoryview(x),
        lambda: x.region.view(wp.zeros(1).scope.lease("", x.region)),
    ):
        with pytest.raises((wp.KernelError, TypeError), match=r"in the memory of cuda:0|bytes-like"):
            use()


def every_failure_is_told_and_leaks_nothing(gpus):
    x = wp.ones(6, dtype=float, device="cuda:0")

    def program():
        y = wp.full((2, 6), 2.0, device="cuda:0")
        wp.launch(saxpy, 6, [x, y[0], 3.0])
        wp.full(4, 258, wp.int16, device="cuda:0").fill_(1)
        y[:, 1].fill_(1.0)
        wp.copy(y[:, 2], x[:2])
        y[1].assign(y[0])
        y.to("cuda:1")
        y.assign(np.ones((2, 6), np.float32))
        made = wp.Stream("cuda:0")
        with wp.ScopedStream(made):
            y.fill_(3.0)
        event = made.record_event()
        wp.wait_event(event)
        wp.synchronize_event(event)
        assert event.is_complete
        assert made.is_complete
        timed = [wp.Event("cuda:0", enable_timing=True) for _ in range(2)]
        for t in timed:
            made.record_event(t)
        wp.get_event_elapsed_time(*timed)
        wp.zeros(3, pinned=True)
        wp.synchronize()
        return y.numpy()

    program()
    forget_values()
    gc.collect()
    held = gpus.held()
    for function in (
        "cuCtxPushCurrent", "cuMemAllocAsync", "cuMemsetD8Async", "cuMemsetD32Async", "cuMemsetD16Async",
        "cuMemsetD2D32Async", "cuMemcpy2DAsync", "cuMemcpyDtoDAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
        "cuMemcpyPeerAsync", "cuLaunchKernelEx", "cuLibraryLoadData", "cuLibraryGetKernel", "cuStreamSynchronize",
        "cuStreamCreateWithPriority", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventSynchronize",
        "cuEventQuery", "cuStreamQuery", "cuEventElapsedTime", "cuMemHostAlloc", "cuCtxSynchronize",
    ):  # fmt: skip
        if function.startswith("cuLibrary"):
            on_memory._kernels.clear()
            on_memory._kept.cache_clear()
            on_memory._loaded.clear()
            launching.forget()
        forget_values()
        gpus.fail(function)
        with pytest.raises(CudaError, match=f"{function}.* failed: CUDA_ERROR_UNKNOWN") as caught:
            program()
        gpus.fail()
        if function == "cuLaunchKernelEx":
            assert "of 'saxpy'" in str(caught.value)
        del caught
        gc.collect()
        program()
        forget_values()
        gc.collect()
        found = gpus.held()
        program()
        gc.collect()
        forget_values()
        gc.collect()
        assert found == gpus.held(), function
        assert found[1:] == held[1:], function
    for function in ("cuMemFreeAsync", "cuStreamDestroy", "cuEventDestroy", "cuMemFreeHost"):
        gpus.fail(function)  # of finalizers, which raise nothing
        if function != "cuEventDestroy":
            program()
        gc.collect()
        gpus.fail()
    gpus.log()


def failures_of_graphs(gpus):
    """They are told, leave nothing, and the work can be done again."""
    x = wp.ones(6, dtype=float, device="cuda:0")
    for function in ("cuStreamBeginCapture", "cuGraphInstantiate", "cuGraphDestroy", "cuGraphLaunch"):
        y = wp.zeros(6, dtype=float, device="cuda:0")
        with wp.ScopedCapture("cuda:0") as capture:
            wp.launch(saxpy, 6, [x, y, 1.0])
        wp.capture_launch(capture.graph)
        gc.collect()
        held, graphs_before = gpus.held(), gpus.driver.fake_graphs()
        gpus.fail(function)
        with pytest.raises(CudaError, match=f"{function} failed: CUDA_ERROR_UNKNOWN"):
            wp.capture_launch(capture.graph)
        gpus.fail()
        for _ in range(2):
            wp.capture_launch(capture.graph)
        assert y.list() == [3.0] * 6
        gpus.fail("cuGraphExecDestroy")  # of a finalizer, which raises nothing
        del capture
        gc.collect()
        gpus.fail()
        wp.synchronize()
        is_lost = function == "cuGraphDestroy"  # what was made of the record
        assert (gpus.held(), gpus.driver.fake_graphs()) == (held, graphs_before + is_lost), function


def failures_of_devices(gpus):
    """What asks about devices, their memory and addresses."""
    x, y = wp.ones(6, dtype=float, device="cuda:0"), wp.zeros(6, dtype=float, device="cuda:0")
    gpus.fail("cuPointerGetAttribute")
    with pytest.raises(CudaError, match="cuPointerGetAttribute failed"):
        wp.launch(saxpy, 6, [Foreign(x), y, 1.0])
    gpus.fail("cuDeviceGetName")
    with pytest.raises(CudaError, match="cuDeviceGetName failed"):
        wp.autotune(saxpy, 6, [x, y, 1.0], timer=Stopwatch(gpus, {}))
    for function in ("cuDeviceGetDefaultMemPool", "cuMemPoolGetAttribute", "cuMemPoolSetAttribute"):
        gpus.fail(function)  # it is only slower
        made = GpuScope(3)
        assert made.read(made.make(np.dtype(np.float32), (2,))).tolist() == [0.0, 0.0]
        del made
        gc.collect()
    gpus.fail("cuDeviceGetCount")
    known_devices._gpus.cache_clear(), named_places.clear()
    try:
        assert not wp.is_cuda_available()
        with pytest.raises(wp.KernelError, match="zeros: cuda:0 cannot be used: cuDeviceGetCount failed"):
            wp.zeros(3, device="cuda:0")
    finally:
        gpus.fail()
        known_devices._gpus.cache_clear()
    wp.launch(saxpy, 6, [Foreign(x), y, 1.0])
    assert y.list() == [1.0] * 6


def nothing_is_left(gpus):
    """When all arrays, streams and events are gone, so is their memory."""
    forget_values()
    gc.collect()
    wp.synchronize()
    before = gpus.held()
    for _ in range(3):
        memory(gpus), copies(gpus), launches(gpus), streams(gpus), streams_of_others(gpus), events(gpus), pinned(gpus)
    forget_values()
    gc.collect()
    wp.synchronize()
    assert gpus.held() == before, (before, gpus.held())


SCENARIOS = [
    devices,
    facts,
    structs,
    memory,
    copies,
    records,
    launches,
    launches_that_are_alike,
    launches_of_threads,
    launches_on_the_same_arrays,
    values_of_graphs,
    reading_waits_once,
    tuning,
    older_drivers,
    large_tiles,
    graphs,
    captures_that_are_no_graphs,
    maps_and_parts,
    checks,
    streams,
    streams_of_others,
    events,
    tapes,
    tapes_on_a_gpu,
    adjoints_on_a_gpu,
    gradient_of_one_launch,
    contents_that_are_known,
    tapes_that_fail,
    waiting,
    pinned,
    memory_of_others,
    cuda_array_interface,
    dlpack,
    torch_tensors,
    shared_memory,
    sums,
    scans,
    sorts,
    runs,
    spatial_queries,
    *tree_scenarios.SCENARIOS,
    *conditional_scenarios.SCENARIOS,
    structures,
    optimisers,
    jax_arrays,
    the_host_does_not_read_gpus,
    failures_of_graphs,
    failures_of_devices,
    nothing_is_left,
    every_failure_is_told_and_leaks_nothing,
]


SKIPPED = "skipped: "


def outcome(scenario, gpus):
    """The traceback of a scenario that fails, why one is skipped, or nothing."""
    gpus.fail()
    gc.collect()
    gc.freeze()  # what is left of others: a scenario collects its own garbage, up to a hundred times
    gpus.log()
    try:
        scenario(gpus)
        gpus.log()
    except pytest.skip.Exception as skipped:
        return f"{SKIPPED}{skipped}"
    except BaseException:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    made = Gpus(is_lazy=True)
    gc.disable()  # what is freed is freed when they say so, without a look at what was imported
    gpu_scope(0), gpu_scope(1)  # whose streams have known names
    print(json.dumps({s.__name__: outcome(s, made) for s in SCENARIOS if s.__name__ in sys.argv}))
