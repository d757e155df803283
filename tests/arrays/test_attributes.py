"""What arrays outside of JAX have of Warp's attributes, and memory by its address."""

from __future__ import annotations

import copy
import gc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.arrays.host_array import REFUSED
from jaxwarp.arrays.tapes import tape
from jaxwarp.errors import KernelError, KernelTypeError, KernelValueError
from jaxwarp.memory import devices


@wp.kernel
def twice(a: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = a[i, j] * 2.0


def test_every_public_attribute_of_warp_is_there_or_refused():
    warp: Any = pytest.importorskip("warp", reason="the comparison needs warp-lang")
    theirs = warp.array([1.0, 2.0], dtype=float, device="cpu")
    ours: Any = wp.array([1.0, 2.0], dtype=float)
    public = {name for name in {*dir(theirs), *vars(theirs)} if not name.startswith("_")}
    assert {name for name in public if not hasattr(ours, name)} == set(REFUSED)
    for name, reason in REFUSED.items():
        with pytest.raises(AttributeError) as error:
            getattr(ours, name)
        assert reason in str(error.value)
    for name in (
        "shape",
        "strides",
        "size",
        "ndim",
        "capacity",
        "pinned",
        "retain_grad",
        "requires_grad",
        "is_contiguous",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    for mark in ("mark_init", "mark_read", "mark_write"):
        assert getattr(ours, mark)() is None
    special = {
        "__len__",
        "__iter__",
        "__getitem__",
        "__array__",
        "__array_interface__",
        "__dlpack__",
        "__dlpack_device__",
    }
    assert all(hasattr(ours, name) for name in special)


@pytest.mark.parametrize(
    ("value", "refused"), [(wp.Tape(), tape.REFUSED), (wp.get_device("cpu"), devices.REFUSED)], ids=["tape", "device"]
)
def test_attributes_of_warp_that_are_not_there_say_what_to_do(value, refused):
    for name, reason in refused.items():
        with pytest.raises(AttributeError, match=f"^{name} of .* is not there; {re.escape(reason)}$"):
            getattr(value, name)
    with pytest.raises(AttributeError, match="object has no attribute 'colour'"):
        value.colour  # noqa: B018
    assert copy.copy(value) is not None


def test_devices_have_what_warps_have():
    warp: Any = pytest.importorskip("warp", reason="the comparison needs warp-lang")
    theirs, ours = warp.get_device("cpu"), wp.get_device("cpu")
    private = {"memory_pool", "runtime", "get_cuda_compile_arch", "get_cuda_output_format"}
    public = {name for name in {*dir(type(theirs)), *vars(theirs)} if not name.startswith("_")} - private
    missing = {name for name in public if not hasattr(type(ours), name) and name not in vars(ours)}
    assert missing == set(devices.REFUSED)
    for name in public - missing - {"free_memory", "total_memory", "stream"}:
        value = getattr(theirs, name)
        assert callable(value) or getattr(ours, name) == value, name
    with pytest.raises(KernelTypeError, match="the CPU has no streams"):
        ours.stream  # noqa: B018


def test_what_the_host_tells_of_the_cpu():
    cpu = wp.get_device("cpu")
    kilobytes = dict(re.findall(r"^(\w+): +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE))
    assert cpu.total_memory == 1024 * int(kilobytes["MemTotal"])
    assert 0 < cpu.free_memory < cpu.total_memory
    assert cpu.can_access("cpu")
    assert not cpu.is_capturing
    with wp.ScopedCapture():
        assert cpu.is_capturing
    assert not wp.is_mempool_supported("cpu")
    assert not wp.is_mempool_enabled("cpu")
    wp.set_mempool_enabled("cpu", False)
    with pytest.raises(KernelValueError, match=r"set_mempool_enabled: arrays .* cpu are made without a pool"):
        wp.set_mempool_enabled("cpu", True)
    for asks in (
        wp.get_mempool_release_threshold,
        wp.get_mempool_used_mem_current,
        wp.get_mempool_used_mem_high,
        lambda device: wp.set_mempool_release_threshold(device, 0.5),
    ):
        with pytest.raises(KernelValueError, match=r"mem.*: cpu has no pool of memory"):
            asks("cpu")
    wrong: Any
    for wrong in (-1, float("nan"), "1 GiB", True):
        with pytest.raises(KernelTypeError, match="threshold: expected a number of bytes, got"):
            wp.set_mempool_release_threshold("cpu", wrong)


def test_which_cuda_there_is():
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    if wp.get_cuda_toolkit_version() is None:
        pytest.skip("there is no NVRTC")
    assert wp.get_cuda_toolkit_version() == nvrtc.nvrtcVersion()[1:]
    assert wp.get_cuda_supported_archs() == sorted(nvrtc.nvrtcGetSupportedArchs()[1])
    if not wp.is_cuda_available():
        assert wp.get_cuda_driver_version() is None


def test_memory_by_its_address():
    memory = np.arange(12, dtype=np.float32)
    array: Any = wp.array(ptr=memory.ctypes.data, shape=(3, 2), strides=(16, 4), dtype=float, capacity=memory.nbytes)
    np.testing.assert_array_equal(array.numpy(), memory.reshape(3, 4)[:, :2])
    assert (array.strides, array.is_contiguous, array.ptr) == ((16, 4), False, memory.ctypes.data)
    out = wp.zeros((3, 2))
    wp.launch(twice, (3, 2), [array], [out])
    np.testing.assert_array_equal(out.numpy(), memory.reshape(3, 4)[:, :2] * 2)
    wp.launch(twice, (3, 2), [out], [array])
    np.testing.assert_array_equal(memory.reshape(3, 4), [[0, 4, 2, 3], [16, 20, 6, 7], [32, 36, 10, 11]])
    vectors: Any = wp.array(ptr=memory.ctypes.data, shape=4, dtype=wp.vec3)
    np.testing.assert_array_equal(vectors.numpy(), memory.reshape(4, 3))


def test_a_deleter_is_called_when_nobody_has_the_memory():
    memory, deleted = np.zeros(6, np.float32), []
    array: Any = wp.array(ptr=memory.ctypes.data, shape=6, dtype=float, deleter=lambda *given: deleted.append(given))
    assert wp.zeros(3).deleter is None
    assert array[2:4].deleter(0, 0) is None
    assert deleted == [(0, 0)]
    deleted.clear()
    part = array[2:4].numpy()
    del array
    gc.collect()
    assert not deleted
    part[:] = 1.0
    del part
    gc.collect()
    assert deleted == [(memory.ctypes.data, 24)]
    assert memory.tolist() == [0, 0, 1, 1, 0, 0]


def test_strides_of_new_arrays():
    array: Any = wp.array(shape=(2, 3), strides=(24, 8), dtype=float)
    assert (array.strides, array.capacity) == ((24, 8), 44)
    array.assign(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert array.list() == [0, 1, 2, 3, 4, 5]
    vectors = wp.array([[[1, 2, 3]], [[4, 5, 6]]], dtype=wp.vec3).list()
    assert vectors == [wp.vec3(1, 2, 3), wp.vec3(4, 5, 6)]
    assert vectors[0] + vectors[1] == wp.vec3(5, 7, 9)
    assert wp.array([[[1, 2], [3, 4]]], dtype=wp.mat22).item() @ wp.vec2(1, 1) == wp.vec2(3, 7)
    assert wp.zeros(0, dtype=wp.vec2).list() == []
    assert array.contiguous().strides == (12, 4)


def test_views_of_the_same_size():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    array: Any = wp.array(values, dtype=wp.vec4)
    for dtype, shape in (
        (wp.quat, (3, 4)),
        (wp.mat22, (3, 2, 2)),
        (wp.vec4i, (3, 4)),
        (float, (3, 4)),
        (wp.vec2d, (3, 2)),
    ):
        view: Any = array.view(dtype)
        assert view.numpy().shape == shape
        assert view.ptr == array.ptr
        assert view.numpy().tobytes() == values.tobytes()
    colours: Any = wp.array(np.arange(8, dtype=np.uint8).reshape(2, 4), dtype=wp.vec4ub)
    assert colours.view(wp.uint32).list() == [0x03020100, 0x07060504]
    assert wp.zeros((2, 2), dtype=wp.mat22).transpose().view(wp.vec4).shape == (2, 2)
    rows = wp.zeros(5, dtype=wp.types.matrix(shape=(1, 3), dtype=float)).view(wp.vec3)
    assert (rows.shape, rows.dtype) == ((5,), wp.vec3)
    tracked: Any = wp.zeros(3, dtype=wp.vec4, requires_grad=True)
    tracked.view(wp.mat22).grad.fill_(1.0)
    assert tracked.grad.numpy().tolist() == [[1.0] * 4] * 3
    assert tracked.view(wp.vec4i).grad is None
    for wrong in (wp.vec3, wp.float64, wp.mat33):
        with pytest.raises(KernelTypeError, match="is none of"):
            array.view(wrong)


def test_other_shapes():
    array: Any = wp.array(np.arange(6), dtype=int)
    for same in (array.reshape((2, 3)), array.reshape(2, 3), array.reshape(shape=[2, -1]), array.reshape(shape=(2, 3))):
        assert same.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
        assert same.ptr == array.ptr
    assert same.reshape(shape=6).shape == same.reshape(-1).shape == (6,)
    with pytest.raises(KernelTypeError, match="shape is given twice"):
        array.reshape(2, shape=(2, 3))


def test_arrays_of_nothing():
    for dtype in (float, wp.vec2, wp.mat22):
        for data in ([], ()):
            assert wp.array(data, dtype=dtype).shape == (0,)
    empty: Any = wp.zeros((0, 3))
    assert empty.ptr is None
    assert np.asarray(empty).shape == (0, 3)
    assert empty.__array_interface__["shape"] == (0, 3)
    assert wp.zeros(np.array([2, 3])).shape == (2, 3)


def test_refusals():
    memory = np.zeros(8, np.float32)
    where = memory.ctypes.data
    for refused, text in (
        (lambda: wp.array([1.0], ptr=where), "ptr, strides, capacity and deleter are for arrays without data"),
        (lambda: wp.array(ptr=where, shape=4, strides=(8,), capacity=16), "reaches from 0 to 28 bytes, beyond 16"),
        (lambda: wp.array(ptr=where, shape=4, strides=(-4,), capacity=16), "reaches from -12 to 4 bytes, beyond 16"),
        (lambda: wp.array(ptr=where, shape=(2, 2), strides=(4,)), "strides: expected 2 numbers of bytes"),
        (lambda: wp.array(ptr="x", shape=3), "ptr: expected an address, got 'x'"),
        (lambda: wp.array(ptr=0, shape=3), "ptr: expected an address, got 0"),
        (lambda: wp.array(shape=3, strides=(-4,)), "a new array has none below 0"),
        (lambda: wp.array(shape=3, deleter=print), "deleter and capacity are for arrays at an address"),
        (lambda: wp.zeros(3)[::0], "slice step cannot be zero"),
    ):
        with pytest.raises(KernelError, match=text):
            refused()
    with pytest.raises(KernelValueError, match=r"retain_grad: array of float32 .* has no gradient to keep"):
        wp.zeros(3).retain_grad = True
    for unknown, hint in (("requires_grads", "did you mean requires_grad"), ("colour", "its options are device")):
        with pytest.raises(KernelTypeError, match=f"zeros: there is no argument '{unknown}'") as error:
            wp.zeros(3, **{unknown: 1})
        assert hint in error.value.hint
    with pytest.raises(KernelTypeError, match="zeros: shape and n say the same"):
        wp.zeros(3, n=3)
    with pytest.raises(KernelTypeError, match="full: the shape is missing"):
        wp.full(value=3.0)


def test_n_is_the_extent_of_one_axis():
    for make, value in ((wp.zeros, 0.0), (wp.ones, 1.0), (wp.empty, 0.0)):
        assert make(n=3).numpy().tolist() == [value] * 3
    assert wp.full(n=2, value=4).numpy().tolist() == [4, 4]


def test_attributes_of_launches_and_functions(monkeypatch):
    @wp.kernel
    def k(a: wp.array[float]):
        a[wp.tid()] = 1.0

    @wp.func
    def f(x: float, by: float = 2.0):
        return x * by

    command = wp.launch(k, dim=(2, 3), inputs=[wp.zeros(6, dtype=float)], record_cmd=True)
    for change in (command.set_dim, lambda dim: wp.launch(k, dim=dim, inputs=[wp.zeros(6)], record_cmd=True)):
        with pytest.raises(KernelValueError, match=r"kernel .*: dim: Extents must be non-negative, got -1"):
            change(-1)
    assert command.dim == (2, 3)
    assert (command.bounds.shape, command.bounds.ndim, command.bounds.size) == ((2, 3), 2, 6)
    command.set_dim(4)
    assert command.bounds.shape == (4,)
    assert f.defaults == {"by": 2.0}
    monkeypatch.setattr(wp.config, "launch_array_access_mode", wp.config.LaunchArrayAccessMode.STRICT)
    wp.config.launch_array_access_mode = 0
