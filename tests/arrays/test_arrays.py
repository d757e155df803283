"""Arrays outside of JAX: made, shared, filled, copied, and launched on in place. NumPy says what is right."""

from __future__ import annotations

import copy
import gc
import itertools
import signal
import threading
import time
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from counting import calls_of

import jaxwarp as wp
from jaxwarp.arrays import launching
from jaxwarp.errors import KernelError, KernelTypeError, KernelValueError
from jaxwarp.launches import native_launch, on_memory
from jaxwarp.native.library import load_library

X = np.arange(6, dtype=np.float32)


@wp.kernel
def scale(a: wp.array[float], s: float, out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i] * s


@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def turn(v: wp.array[wp.vec2], by: wp.mat22, out: wp.array[wp.vec2]):
    i = wp.tid()
    out[i] = by * v[i]


@wp.kernel
def traces(m: wp.array[wp.mat33], out: wp.array[float]):
    i = wp.tid()
    out[i] = m[i][0, 0] + m[i][1, 1] + m[i][2, 2]


@wp.kernel
def add4(a: wp.array4d[float], b: wp.array4d[float]):
    i, j, k, m = wp.tid()
    b[i, j, k, m] = b[i, j, k, m] + 2.0 * a[i, j, k, m]


@wp.kernel
def total(a: wp.array[float], out: wp.array[float]):
    wp.atomic_add(out, 0, a[wp.tid()])


@wp.kernel
def double(a: wp.array(dtype=wp.float64), b: wp.array(dtype=wp.int64)):
    i = wp.tid()
    a[i] = a[i] * wp.float64(2.0)
    b[i] = b[i] + wp.int64(1)


@wp.kernel
def counts(n: wp.array[int]):
    i = wp.tid()
    n[i] = n[i] + 1


# Making arrays


SCALARS = [wp.bool, wp.int8, wp.int16, wp.int32, wp.int64, wp.uint8, wp.uint16, wp.uint32, wp.uint64]
SCALARS += [wp.float16, wp.bfloat16, wp.float32, wp.float64]


@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_every_type_goes_to_numpy_and_back(dtype):
    host = np.array([0, 1, 3, 7]).astype(wp.dtype_to_numpy(dtype))
    made = wp.array(host)
    assert made.dtype == dtype == wp.dtype_from_numpy(host.dtype) == wp.dtype_from_jax(wp.dtype_to_jax(dtype))
    assert made.numpy().dtype == host.dtype
    np.testing.assert_array_equal(made.numpy(), host)
    np.testing.assert_array_equal(np.array(made), host)
    np.testing.assert_array_equal(wp.clone(made)[1:3].numpy(), host[1:3])
    assert wp.zeros(3, dtype=dtype).numpy().tolist() == [0, 0, 0]
    assert wp.full((2, 2), 1, dtype=dtype).list() == [1, 1, 1, 1]


def test_data_takes_the_type_that_is_asked_for():
    assert wp.array([1.0, 2.0]).dtype == wp.float64  # as NumPy says
    assert wp.array([1, 2]).dtype == wp.int64
    made = wp.array([1.0, 2.5], dtype=float)
    assert (made.dtype, made.shape, made.ndim, made.size) == (wp.float32, (2,), 1, 2)
    assert wp.array(np.array([1.0, 2.0]), dtype=wp.float16).numpy().dtype == np.float16
    assert wp.array([[1, 2], [3, 4]], dtype=int).shape == (2, 2)
    assert wp.array(X, float, (2, 3)).numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert wp.array(np.float32(3.0).reshape(()), dtype=float).shape == (1,)
    assert wp.array(shape=(2, 3), dtype=wp.vec2).numpy().shape == (2, 3, 2)
    assert wp.array([], dtype=float).shape == (0,)
    assert wp.array(wp.array([wp.vec2(1.0, 2.0)], dtype=wp.vec2)).dtype == wp.vec2


def test_vectors_and_matrices():
    v = wp.array([wp.vec3(1.0, 2.0, 3.0), (4, 5, 6)], dtype=wp.vec3)
    assert (v.shape, v.dtype, v.numpy().shape) == ((2,), wp.vec3, (2, 3))
    assert wp.array(np.arange(12.0).reshape(2, 6), dtype=wp.vec3).shape == (2, 2)  # a last axis of whole vectors
    assert wp.array(np.arange(8.0).reshape(2, 4), dtype=wp.mat22).shape == (2,)
    assert wp.array([1.0, 2.0, 3.0], dtype=wp.vec3).shape == (1,)
    assert wp.from_numpy(np.ones((4, 3), np.float32)).dtype == wp.vec3  # as Warp has it
    assert wp.from_numpy(np.ones((4, 2, 3), np.float32)).dtype == wp.mat(shape=(2, 3), dtype=float)
    assert wp.from_numpy(np.ones((4, 3), np.float32), dtype=float).shape == (4, 3)
    m = wp.full(2, wp.mat22(1.0, 2.0, 3.0, 4.0))
    assert (m.dtype, m.list()) == (wp.mat22, [[[1, 2], [3, 4]]] * 2)
    assert wp.full(2, 7).dtype == wp.int32
    assert wp.full(2, 7.0).dtype == wp.float32
    with pytest.raises(KernelValueError, match=r"expected a last axis of 3 components for vec3\[float32\], got shape"):
        wp.array(np.ones((2, 4)), dtype=wp.vec3)
    with pytest.raises(KernelValueError, match=r"expected 8 numbers, got shape \(6,\)"):
        wp.array(X, shape=(2, 4), dtype=float)


def test_an_array_is_a_copy_of_its_data_and_numpy_a_view_of_it():
    host = X.copy()
    made = wp.array(host)
    host[0] = 9.0
    assert made.numpy()[0] == 0.0
    made.numpy()[1] = 5.0
    assert made.numpy()[1] == 5.0
    assert np.asarray(made).ctypes.data == made.ptr
    shared = wp.array(host, copy=False)
    shared.fill_(2.0)
    assert host.tolist() == [2.0] * 6
    with pytest.raises(KernelTypeError, match="copy=False: expected data of float64, got float32"):
        wp.array(host, dtype=wp.float64, copy=False)
    fixed = X.copy()
    fixed.flags.writeable = False
    with pytest.raises(KernelTypeError, match="is read-only, and cannot be written"):
        wp.array(fixed, copy=False).zero_()


def test_memory_lives_as_long_as_anybody_sees_it():
    host = X.copy()
    gone = weakref.ref(host)
    view = wp.array(host, copy=False)[2:4].numpy()
    del host
    gc.collect()
    assert view.tolist() == [2.0, 3.0]
    assert gone() is not None
    del view
    gc.collect()
    assert gone() is None
    part = wp.array(np.arange(100000.0, dtype=np.float32))[5:]
    for _ in range(20):
        wp.zeros(100000).fill_(3.0)
    np.testing.assert_array_equal(part.numpy(), np.arange(5, 100000))


def test_parts_are_views_of_the_same_memory():
    host = np.arange(24, dtype=np.float32).reshape(4, 6)
    a = wp.array(host)
    a[1:3][:, ::2][1].fill_(-1.0)  # a view of a view of a view
    host[1:3][:, ::2][1] = -1.0
    np.testing.assert_array_equal(a.numpy(), host)
    a[::-1, 0].assign(np.array([1, 2, 3, 4], np.float32))
    host[::-1, 0] = [1, 2, 3, 4]
    np.testing.assert_array_equal(a.numpy(), host)
    np.testing.assert_array_equal(a.transpose()[2].numpy(), host.T[2])
    np.testing.assert_array_equal(a.transpose(np.array([1, 0]))[2].numpy(), host.T[2])
    np.testing.assert_array_equal(a.reshape(2, -1)[1].numpy(), host.reshape(2, -1)[1])
    a.flatten()[3:5].zero_()
    host.reshape(-1)[3:5] = 0
    np.testing.assert_array_equal(a.numpy(), host)
    assert not a[:, 1].is_contiguous
    assert a[:, 1].contiguous().is_contiguous
    assert float(a[2, 3]) == host[2, 3]
    a[2, 3] = 8.0
    assert a.numpy()[2, 3] == 8.0
    with pytest.raises(KernelValueError, match="has gaps between its elements"):
        a[:, 1:].flatten()
    with pytest.raises(IndexError, match="index 4 is out of range"):
        a[4]


def test_the_same_memory_as_another_type():
    host = np.arange(24, dtype=np.float32).reshape(8, 3)
    a = wp.array(host, requires_grad=True)
    v = a.view(wp.vec3)
    assert (v.shape, v.dtype, v.grad.dtype, v.grad.ptr) == ((8,), wp.vec3, wp.vec3, a.grad.ptr)
    v[1].fill_(7.0)
    assert a.numpy()[1].tolist() == [7, 7, 7]
    assert v.view(float).shape == (8, 3)
    assert wp.zeros(4, dtype=wp.types.matrix(shape=(1, 1), dtype=float)).view(float).shape == (4,)
    np.testing.assert_array_equal(a.view(wp.int32).numpy(), a.numpy().view(np.int32))
    assert a.view(wp.int32).grad is None
    assert a[:, ::2].view(wp.vec2).numpy().tolist() == a.numpy()[:, ::2].tolist()
    for dtype in (wp.vec2, wp.float64, wp.mat33):
        with pytest.raises(KernelTypeError, match=r"its memory, of shape \(8, 3\), is none of"):
            a.view(dtype)
    assert a.to("cpu") is a
    assert not a.to("cpu", requires_grad=False).requires_grad
    with pytest.raises(KernelValueError, match="to: cuda:99 cannot be used"):
        a.to("cuda:99")


def test_isinstance_and_text():
    a = wp.zeros((2, 3))
    assert isinstance(a, wp.array)
    assert isinstance(a, wp.array2d)
    assert not isinstance(a, wp.array1d)
    assert not isinstance(X, wp.array)
    assert repr(a) == "array(shape=(2, 3), dtype=float32, device=cpu)"
    assert a.device == "cpu"
    assert len(a) == 2


# Launches


def test_launches_write_in_place():
    x, y = X.copy(), np.ones(6, np.float32)
    for _ in range(3):  # the first finds out what the others know
        wp.launch(saxpy, dim=6, inputs=[x, y, 2.0], device="cpu")
    np.testing.assert_array_equal(y, 1 + 6 * X)
    a, b = wp.array(x), wp.ones(6)
    for _ in range(3):
        wp.launch(saxpy, 6, [a], [b, 2.0])
    np.testing.assert_array_equal(b.numpy(), 1 + 6 * X)
    wp.launch(saxpy, (6,), inputs=[a, y, wp.float32(1.0)])
    np.testing.assert_array_equal(y, 1 + 7 * X)


def test_strided_memory_is_taken_as_it_is():
    host = np.arange(24, dtype=np.float32).reshape(4, 6)
    a, out = wp.array(host), wp.zeros((6, 4))
    for _ in range(2):
        wp.launch(scale, 4, [a[:, 3], 2.0], [out[1]])
        wp.launch(scale, 3, [a[0, ::-2], 10.0], [out[::2, 0]])
    expected = np.zeros((6, 4), np.float32)
    expected[1] = 2 * host[:, 3]
    expected[::2, 0] = 10 * host[0, ::-2]
    np.testing.assert_array_equal(out.numpy(), expected)
    misaligned = np.frombuffer(bytearray(25), np.uint8)[1:].view(np.float32)
    wp.launch(scale, 6, [X, 3.0], [misaligned])
    np.testing.assert_array_equal(misaligned, 3 * X)


def test_types_of_elements_and_ranks():
    v = wp.array(np.arange(8.0).reshape(4, 2), dtype=wp.vec2)
    out = wp.zeros_like(v)
    wp.launch(turn, dim=v.shape, inputs=[v, wp.mat22(0.0, -1.0, 1.0, 0.0)], outputs=[out])
    np.testing.assert_array_equal(out.numpy(), v.numpy() @ np.array([[0, 1], [-1, 0]]))
    found = wp.zeros(3)
    wp.launch(traces, 3, [np.arange(27, dtype=np.float32).reshape(3, 3, 3)], [found])
    assert found.list() == [12.0, 39.0, 66.0]
    host = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    b = wp.array(host)
    wp.launch(add4, host.shape, [host], [b])
    np.testing.assert_allclose(b.numpy(), 3 * host, rtol=1e-6)
    d, n = wp.array([1.0, 2.0]), wp.array([2**40, 1])  # 64 bits, whatever JAX holds
    wp.launch(double, 2, [d, n])
    assert (d.list(), n.list()) == ([2.0, 4.0], [2**40 + 1, 2])


def test_nothing_to_do():
    empty = wp.zeros(0)
    for _ in range(2):
        wp.launch(scale, 0, [empty, 1.0], [empty])
        wp.launch(scale, 0, [X, 1.0], [wp.zeros(6)])
    assert empty.numpy().shape == (0,)
    assert wp.zeros((0, 3)).fill_(1.0).list() == []
    wp.copy(empty, wp.zeros(0))


def test_large_launches_use_every_thread_and_lose_nothing():
    n = 3_000_017
    host = np.ones(n, np.float32)
    out = wp.zeros(1)
    wp.launch(total, n, [host], [out])
    assert out.list() == [n]
    image = wp.zeros((1003, 1009))

    @wp.kernel
    def mark(a: wp.array2d[float]):
        i, j = wp.tid()
        x = float(i)
        for _ in range(30):
            x = wp.sin(x) + 1.0
        a[i, j] = a[i, j] + 1.0 + 0.0 * x

    wp.launch(mark, image.shape, [image])
    assert (image.numpy() == 1.0).all()


def test_threads_of_python():
    arrays = [wp.zeros(1000, dtype=int) for _ in range(8)]

    def work(array):
        for _ in range(50):
            wp.launch(counts, 1000, [array])

    threads = [threading.Thread(target=work, args=(a,)) for a in arrays]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert all((a.numpy() == 50).all() for a in arrays)


@wp.kernel
def tally(where: wp.array[int], counts: wp.array[int]):
    i = wp.tid()
    counts[where[i]] += 1


def in_threads(*calls):
    threads = [threading.Thread(target=lambda call=call: [call() for _ in range(100)]) for call in calls]
    [t.start() for t in threads]
    [t.join() for t in threads]


def test_threads_of_python_that_update_one_array():
    where = wp.array(np.arange(20_000, dtype=np.int32) % 3)
    counts = wp.zeros(3, dtype=int)
    wp.launch(tally, where.size, [where, counts])
    in_threads(*[lambda: wp.launch(tally, where.size, [where, counts])] * 4)
    assert (counts.numpy() == 401 * np.bincount(where.numpy())).all()


@wp.kernel
def tally_both(where: wp.array[int], counts: wp.array[int], others: wp.array[int]):
    i = wp.tid()
    counts[where[i]] += 1
    others[where[i]] += 1


def test_threads_of_python_that_update_parts_with_gaps():
    """Of one array, all of it, and two arrays the one way and the other, for which nobody waits for ever."""
    where = wp.array(np.arange(20_000, dtype=np.int32) % 3)
    one, other = wp.zeros(6, dtype=int), wp.zeros(6, dtype=int)

    def both(counts, others):
        return lambda: wp.launch(tally_both, where.size, [where, counts, others])

    in_threads(both(one[::2], other), both(other[::2], one), lambda: wp.launch(tally, where.size, [where, one[::2]]))
    counts = 100 * np.bincount(where.numpy())
    expected = np.zeros(6, int)
    expected[::2] += counts
    expected[:3] += counts
    assert (other.numpy() == expected).all()
    expected[::2] += counts
    assert (one.numpy() == expected).all()


def test_arguments_that_do_not_fit():
    a, b = wp.array(X), wp.zeros(6)

    def fails(*args, error=KernelTypeError, **options):
        for _ in range(2):
            with pytest.raises(error) as caught:
                wp.launch(*args, **options)
        return str(caught.value)

    assert "kernel scale: expected 3 arguments (a, s, out), got 2" in fails(scale, 6, [a, 1.0])
    text = fails(scale, 6, [wp.zeros(6, dtype=int), 1.0], [b])
    assert "kernel scale: argument 'a': expected float32 of shape (?,), got int32 of shape (6,)" in text
    assert "test_arrays.py" in text
    assert "argument 'a': expected float32 of shape (?,), got float32 of shape (2, 3)" in fails(
        scale, 6, [a.reshape(2, 3), 1.0], [b]
    )
    assert "argument 'a': expected float32 of shape (?,), got list" in fails(scale, 6, [[1.0], 1.0], [b])
    assert "argument 's'" in fails(scale, 6, [a, "x"], [b])
    wp.launch(scale, 5, [a[1:], 0.0], [b[:5]])  # known: the quick way looks, too
    assert "is written by the kernel, and shares memory with argument 'a'" in fails(scale, 5, [b[1:], 1.0], [b[:5]])
    fixed = X.copy()
    fixed.flags.writeable = False
    assert "argument 'out' is written by the kernel, but it is a read-only array" in fails(scale, 6, [a, 1.0], [fixed])
    text = fails(scale, 6, [a, 1.0], [jnp.zeros(6)])
    assert "argument 'out' is written by the kernel, but it is a JAX array, which never changes" in text
    assert "Extents must be non-negative" in fails(scale, -1, [a, 1.0], [b], error=KernelValueError)
    assert "dim" in fails(scale, True, [a, 1.0], [b])
    assert "launch: cuda:99 cannot be used: " in fails(
        scale, 6, [a, 1.0], [b], device="cuda:99", error=KernelValueError
    )
    assert "launch: expected a kernel" in fails(np.sin, 6, [a])
    assert b.list() == [0.0] * 6


# Copies and fills


def test_copy():
    a, b = wp.array(X), wp.zeros(10)
    wp.copy(b, a)  # a larger destination
    assert b.list() == [*X, 0, 0, 0, 0]
    wp.copy(b, a, dest_offset=7, src_offset=1, count=2)
    assert b.list() == [*X, 0, 1, 2, 0]
    m = wp.zeros((2, 3))
    wp.copy(m, a)  # in their order in memory
    assert m.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    wp.copy(m[0], m[1])
    assert m.numpy().tolist() == [[3, 4, 5], [3, 4, 5]]
    wp.copy(m[:, 0], wp.array([7.0, 8.0], dtype=float))
    assert m.numpy()[:, 0].tolist() == [7, 8]
    host = np.zeros(6, np.float32)
    wp.copy(host, a)
    np.testing.assert_array_equal(host, X)
    wp.copy(b[1:5], b[0:4])  # overlapping
    assert b.list()[:6] == [0, 0, 1, 2, 3, 5]
    v = wp.zeros(2, dtype=wp.vec3)
    wp.copy(v, np.arange(6, dtype=np.float32).reshape(2, 3))
    assert v.list() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(KernelTypeError, match="expected a source of float32, as the destination is, got int32"):
        wp.copy(a, wp.zeros(6, dtype=int))
    with pytest.raises(KernelTypeError, match="10 elements from 0 of 10 do not fit 0 of 6"):
        wp.copy(a, b)
    with pytest.raises(KernelTypeError, match="offset: expected an integer from 0, got -1"):
        wp.copy(a, b, -1, 0, 2)
    with pytest.raises(KernelTypeError, match="within the arrays, got 99 in a source of 10 elements and 0 in"):
        wp.copy(a, b, src_offset=99)


def test_fill_and_assign():
    a = wp.zeros((2, 2), dtype=wp.vec2)
    a.fill_((1.0, 2.0))
    assert a.list() == [[1, 2]] * 4
    a[0].fill_(3.0)
    assert a.numpy()[0].tolist() == [[3, 3], [3, 3]]
    a.assign([[(1, 2), (3, 4)], [(5, 6), (7, 8)]])
    assert a.numpy().reshape(-1).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    a.assign(wp.zeros_like(a))
    assert not a.numpy().any()
    with pytest.raises(KernelTypeError, match=r"array of vec2\[float32\] of shape \(2, 2\): expected float32 of shape"):
        a.assign(np.zeros(3, np.float32))
    with pytest.raises(KernelTypeError, match="expected a number or an array of shape"):
        a.fill_((1.0, 2.0, 3.0))
    n = wp.zeros(2, dtype=wp.int8)
    with pytest.raises(KernelValueError, match="expected values of int8, from -128 to 127"):
        n.fill_(200)


def test_one_extent_of_data_is_found_from_its_size():
    assert wp.array(np.arange(6.0), dtype=float, shape=(1, -1)).shape == (1, 6)
    assert wp.array(np.arange(6.0), dtype=wp.vec3, shape=-1).shape == (2,)
    assert wp.array(wp.zeros((2, 3)), shape=[-1, 2]).shape == (3, 2)
    assert wp.array([], dtype=float, shape=(-1, 2)).shape == (0, 2)
    for refused in (
        lambda: wp.array(np.arange(6.0), dtype=float, shape=(4, -1)),
        lambda: wp.array(np.arange(6.0), dtype=float, shape=(0, -1)),
        lambda: wp.array(np.arange(6.0), dtype=float, shape=(-1, -1)),
        lambda: wp.array(np.arange(6.0), dtype=float, shape=(-2, 3)),
        lambda: wp.array(dtype=float, shape=(1, -1)),
    ):
        with pytest.raises(KernelValueError):
            refused()


def test_numbers_of_whole_elements_in_one_axis_are_assigned():
    numbers = np.arange(12, dtype=np.float32)
    for source in (numbers, numbers.astype(np.float64), numbers.tolist(), numbers.reshape(2, 6)):
        assert np.array_equal(wp.zeros(2, dtype=wp.spatial_vector).assign(source).numpy(), numbers.reshape(2, 6))
    a = wp.zeros((3, 2), dtype=wp.mat22).assign(np.arange(24.0).reshape(3, 8))
    assert np.array_equal(a.numpy(), wp.array(np.arange(24.0).reshape(3, 8), dtype=wp.mat22).numpy())
    assert wp.zeros(3, dtype=wp.vec2).assign([1.0, 2.0, 3.0, 4.0]).list() == [[1, 2], [3, 4], [0, 0]]
    assert wp.zeros(0, dtype=wp.vec3).assign([]).shape == (0,)
    assert wp.zeros((2, 0), dtype=wp.mat22).assign(np.zeros((2, 0))).shape == (2, 0)
    for source in (numbers[:7], np.tile(numbers, 2), numbers.reshape(3, 4)):
        with pytest.raises(KernelTypeError, match=r"expected float32 of shape \(2, 6\)"):
            wp.zeros(2, dtype=wp.spatial_vector).assign(source)


def test_fewer_elements_are_assigned_to_the_first_ones():
    for source in ([[1.0, 2.0, 3.0]], wp.array([1.0, 2.0, 3.0], dtype=float)):
        assert wp.full((2, 4), 7.0).assign(source).numpy().tolist() == [[1, 2, 3, 7], [7, 7, 7, 7]]
    assert wp.zeros((2, 2), dtype=wp.vec2).assign([(1.0, 2.0)]).list() == [[1, 2], [0, 0], [0, 0], [0, 0]]
    x = wp.zeros(4)
    for refused in (
        lambda: x.assign(np.ones(5, np.float32)),
        lambda: wp.zeros((4, 2))[:, 0].assign(wp.ones(2)),
        lambda: x.assign(wp.ones((2, 2))[:, 0]),
        lambda: x.__setitem__(slice(0, 3), wp.ones(2)),
    ):
        with pytest.raises(KernelTypeError, match="expected float32 of shape"):
            refused()
    assert not x.numpy().any()


def test_numbers_and_arrays_of_numpy_take_the_type_of_the_array():
    x, n = wp.zeros(4), wp.zeros(4, dtype=int)
    x[0], x[1:3], x[3] = 5, 1.5, np.int64(7)
    n[:2], n[3] = 4, np.uint8(9)
    assert (x.list(), n.list()) == ([5.0, 1.5, 1.5, 7.0], [4, 4, 0, 9])
    column = wp.zeros((1, 1), dtype=wp.vec3)
    for shape in ((1, 3), (3,), (3, 1), (1, 1, 1, 3)):
        assert column.assign(np.arange(3, dtype=np.float32).reshape(shape)).numpy().tolist() == [[[0, 1, 2]]]
        column.zero_()
    assert x.assign(np.arange(4)).list() == [0.0, 1.0, 2.0, 3.0]
    assert n.assign(range(4)).list() == n.assign(np.arange(4, dtype=np.uint8)).list() == [0, 1, 2, 3]
    assert wp.zeros(2, dtype=wp.vec2).assign(np.eye(2, dtype=bool)).numpy().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    for lossy in (lambda: n.assign(np.ones(4, np.float32)), lambda: n.__setitem__(0, 1.5)):
        with pytest.raises(KernelTypeError, match=r"expected int32 of shape .*, got float"):
            lossy()
    with pytest.raises(KernelValueError, match="expected values of int32"):
        n.assign(np.full(4, 2**40))
    for dtype, power in ((wp.int64, 63), (wp.uint64, 64)):  # 2**63 - 1 is 2**63 as a float
        with pytest.raises(KernelValueError, match=f"expected values of {dtype}"):
            wp.array([2.0**power], dtype=dtype)
        assert wp.array([2.0 ** (power - 1)], dtype=dtype).list() == [2 ** (power - 1)]
    with pytest.raises(IndexError, match="index 4 is out of range, the extent is 4"):
        x[4] = 1.0


def test_a_copy_by_python_has_memory_of_its_own():
    a = wp.array(np.arange(4.0), dtype=float, requires_grad=True)
    a.grad.fill_(2.0)
    shallow, deep = copy.copy(a), copy.deepcopy({"a": a, "again": [a]})
    a.fill_(7.0)
    a.grad.zero_()
    assert shallow.ptr == a.ptr
    del a
    assert deep["a"] is deep["again"][0]
    assert deep["a"].list() == [0, 1, 2, 3]
    assert deep["a"].grad.list() == [2, 2, 2, 2]
    assert shallow.list() == [7, 7, 7, 7]


def test_what_became_read_only_is_not_written_by_a_launch_like_one_before():
    a, b = wp.ones(4), wp.zeros(4)
    wp.launch(scale, 4, [a, 2.0], [b])
    b.is_writable = False
    with pytest.raises(KernelTypeError, match="argument 'out' is written by the kernel, but it is read-only"):
        wp.launch(scale, 4, [a, 3.0], [b])
    b.is_writable = True
    wp.launch(scale, 4, [a, 4.0], [b])
    assert b.list() == [4, 4, 4, 4]


def test_like():
    a = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    assert a.grad is not None
    assert a.grad.list() == [0, 0]
    assert wp.zeros_like(a).requires_grad
    assert not wp.zeros_like(a, requires_grad=False).requires_grad
    assert wp.clone(a).requires_grad
    assert wp.ones_like(a).list() == [1, 1]
    assert wp.full_like(a, 4.0).list() == [4, 4]
    a[1:].grad.fill_(5.0)  # a part has that part of the gradient
    assert a.grad.list() == [0, 5]
    a.requires_grad = False
    assert a.grad is None
    assert wp.zeros(3, dtype=int, requires_grad=True).grad.list() == [0, 0, 0]
    with pytest.raises(KernelTypeError, match=r"grad: expected an array of float32 of shape \(2,\)"):
        a.grad = wp.zeros(3)


# JAX


def test_memory_of_jax_is_shared_and_never_written():
    x = jnp.arange(6.0).reshape(2, 3)
    a = wp.from_jax(x)
    assert a.ptr == x.unsafe_buffer_pointer()
    assert wp.to_jax(a) is x
    v = wp.from_jax(x, dtype=wp.vec3)
    assert (v.shape, v.dtype, v.numpy().flags.writeable) == ((2,), wp.vec3, False)
    out = wp.zeros(3)
    wp.launch(scale, 3, [a[1], 2.0], [out])
    assert out.list() == [6.0, 8.0, 10.0]
    with pytest.raises(KernelTypeError, match="is the memory of a JAX array, which never changes, and cannot be"):
        a.fill_(1.0)
    for _ in range(2):
        with pytest.raises(KernelTypeError, match="'y' is written by the kernel, but it is the memory of a JAX array"):
            wp.launch(saxpy, 3, [out, a[0], 1.0])
    copy = wp.clone(a)
    copy.fill_(1.0)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(KernelTypeError, match=r"from_jax: expected float32 of shape \(..., 2\)"):
        wp.from_jax(x, dtype=wp.vec2)
    with pytest.raises(KernelTypeError, match="from_jax: expected a JAX array, got ndarray"):
        wp.from_jax(X)
    for make, name in ((wp.from_jax, "from_jax"), (wp.array, r"array\(...\): data")):
        with pytest.raises(KernelTypeError, match=f"^{name}: expected an array with numbers in it, got the traced"):
            jax.jit(make)(jnp.ones(2))


def test_parts_of_memory_of_jax_that_have_its_shape():
    x = jnp.arange(9.0).reshape(3, 3)
    a = wp.from_jax(x)
    for part, expected in ((a.transpose(), x.T), (a[::-1], x[::-1]), (a[:, ::-1], x[:, ::-1])):
        np.testing.assert_array_equal(wp.to_jax(part), expected)
        np.testing.assert_array_equal(jax.jit(lambda x: x)(part), expected)
    assert wp.to_jax(a[:].reshape(9).reshape(3, 3)) is x


def test_memory_of_jax_outlives_the_jax_array():
    x = jnp.arange(1000.0) + 1.0
    a = wp.from_jax(x)
    expected = np.array(x)
    x.delete()
    for _ in range(5):
        jnp.full(1000, 7.0).block_until_ready()
    np.testing.assert_array_equal(a.numpy(), expected)
    y = jnp.arange(1000.0) + 2.0
    b = wp.from_jax(y)
    expected = np.array(b.numpy())
    jax.jit(lambda y: y * 3.0, donate_argnums=0)(y).block_until_ready()
    np.testing.assert_array_equal(b.numpy(), expected)


def test_values_that_jax_takes_do_not_change_later():
    a = wp.array(np.arange(4096, dtype=np.float32))
    taken = [wp.to_jax(a), jax.dlpack.from_dlpack(a), jnp.asarray(a), wp.jax_kernel(scale)(a, 1.0)[0]]
    expected = [np.array(t) for t in taken]
    a.fill_(-1.0)
    for found, before in zip(taken, expected, strict=True):
        np.testing.assert_array_equal(found, before)
    with pytest.raises(KernelTypeError, match="64-bit types are not enabled"):
        wp.to_jax(wp.zeros(2, dtype=wp.float64))
    assert wp.to_jax(wp.full(2, wp.vec3(1.0, 2.0, 3.0))).shape == (2, 3)


@wp.kernel
def copied(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]


def copying(x: wp.array[float], y: wp.array[float]):
    wp.launch(copied, x.shape, [x, y])


TAKING = {
    "to_jax": lambda a: wp.to_jax(a if isinstance(a, wp.array) else wp.array(a, copy=False)),
    "asarray": lambda a: jnp.asarray(a if isinstance(a, wp.array) else wp.array(a, copy=False)),
    "kernel": lambda a: wp.jax_kernel(copied)(a)[0],
    **{
        mode.name: lambda a, mode=mode: wp.jax_callable(copying, graph_mode=mode)(a)[0]
        for mode in wp.GraphMode
        if mode < 3
    },
}


@pytest.mark.parametrize("way", TAKING)
@pytest.mark.parametrize("kind", ["numpy", "array"])
def test_what_jax_takes_while_it_is_busy_does_not_change_later(way, kind):
    """JAX reads memory when it gets to it, and memory that begins at a multiple of 64 without a copy."""
    count = 1 << 18
    memory = np.ones(count + 16, np.float32)
    values = memory[-memory.ctypes.data // 4 % 16 :][:count]
    given = values if kind == "numpy" else wp.array(values, copy=False)
    busy, x = jax.jit(lambda x: jax.lax.fori_loop(0, 30, lambda _, x: jnp.sin(x) + x, x)), jnp.ones(count)
    TAKING[way](given).block_until_ready()  # compiled
    busy(x).block_until_ready()
    for _ in range(3):
        busy(x)
        found = TAKING[way](given)
        values[:] = 2.0
        assert np.asarray(found).max() == 1.0
        values[:] = 1.0


def test_devices_and_types_by_their_names():
    device = wp.device_from_jax(jax.local_devices(backend="cpu")[0])
    assert device == "cpu" == wp.get_device() == wp.get_device("cpu")
    assert wp.device_to_jax(device) == jax.local_devices(backend="cpu")[0]
    assert str(wp.get_devices()[0]) == "cpu"
    assert wp.is_cpu_available()
    with wp.ScopedDevice("cpu"):
        wp.synchronize()
    with pytest.raises(KernelValueError, match="zeros: cuda:99 cannot be used: "):
        wp.zeros(3, device="cuda:99")
    with pytest.raises(KernelValueError, match='expected the device "cpu", or "cuda:0" and so on, got \'tpu\''):
        wp.zeros(3, device="tpu")
    assert wp.dtype_to_jax(wp.bool) == jnp.bool_
    assert wp.dtype_from_numpy(float) == wp.float64  # NumPy's meaning of Python's types
    with pytest.raises(KernelTypeError, match="dtype_from_numpy: expected a type of the kernel language"):
        wp.dtype_from_numpy(np.complex64)
    with pytest.raises(KernelTypeError, match="dtype_to_jax: expected a scalar type"):
        wp.dtype_to_jax(wp.vec3)


# DLPack


def test_dlpack_shares_memory():
    a = wp.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    b = np.from_dlpack(a)
    b[1, 2] = 9.0
    assert float(a[1, 2]) == 9.0
    host = X.copy()
    c = wp.from_dlpack(host)
    c.fill_(4.0)
    assert host.tolist() == [4.0] * 6
    strided = wp.from_dlpack(np.arange(10, dtype=np.int16)[::3])
    assert (strided.dtype, strided.list()) == (wp.int16, [0, 3, 6, 9])
    v = wp.from_dlpack(np.ones((4, 3), np.float32), dtype=wp.vec3)
    assert (v.shape, v.dtype) == ((4,), wp.vec3)
    again = wp.from_dlpack(wp.to_dlpack(a))
    again[0].fill_(2.0)
    assert a.numpy()[0].tolist() == [2, 2, 2]
    half = wp.from_dlpack(wp.array(np.ones(3, ml_dtypes.bfloat16)))
    assert half.dtype == wp.bfloat16
    assert wp.from_dlpack(np.array([True, False])).dtype == wp.bool


@pytest.mark.parametrize(
    ("given", "seen"),
    [(wp.int64, wp.uint64), (wp.uint32, wp.int32), (wp.int16, wp.uint16), (wp.uint8, wp.int8), (wp.bool, wp.uint8)],
)
def test_integers_are_seen_with_a_sign_or_without(given, seen):
    source = wp.array([0, 1, 1], dtype=given)
    shared = wp.from_dlpack(source, dtype=seen)
    assert (shared.dtype, shared.ptr, shared.list()) == (seen, source.ptr, [0, 1, 1])
    rows = wp.from_dlpack(wp.zeros((2, 3), dtype=given), dtype=wp.types.vector(3, seen))
    assert (rows.dtype, rows.shape) == (wp.types.vector(3, seen), (2,))
    shared.fill_(1)
    assert source.list() == [1, 1, 1]


def test_what_is_not_seen_as_another_type():
    for given, seen in ((wp.uint8, wp.bool), (wp.float32, wp.int32), (wp.int32, wp.float32), (wp.int32, wp.uint64)):
        with pytest.raises(KernelTypeError, match=f"from_dlpack: expected {seen.numpy}, got {given.numpy}"):
            wp.from_dlpack(wp.zeros(2, dtype=given), dtype=seen)
    words = wp.from_jax(jnp.array([-1, 2], jnp.int32), dtype=wp.uint32)
    assert words.list() == [2**32 - 1, 2]
    with pytest.raises(KernelTypeError, match="the memory of a JAX array, which never changes"):
        words.fill_(0)


def test_dlpack_memory_lives():
    host = X.copy()
    gone = weakref.ref(host)
    part = wp.from_dlpack(host)[1:]
    del host
    gc.collect()
    assert part.list() == [1, 2, 3, 4, 5]
    del part
    gc.collect()
    assert gone() is None
    taken = np.from_dlpack(wp.array(X))
    gc.collect()
    np.testing.assert_array_equal(taken, X)


def test_dlpack_of_jax_can_only_be_read():
    x = jnp.arange(6.0)
    for made in (wp.from_dlpack(x), wp.from_dlpack(x.__dlpack__())):
        assert made.ptr == x.unsafe_buffer_pointer()
        with pytest.raises(KernelTypeError, match="cannot be written"):
            made.fill_(1.0)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_dlpack_refuses():
    capsule = wp.to_dlpack(wp.array(X))
    wp.from_dlpack(capsule)
    with pytest.raises(KernelValueError, match="the capsule has been used already"):
        wp.from_dlpack(capsule)
    with pytest.raises(KernelTypeError, match="Expected a valid DLPack capsule, got list"):
        wp.from_dlpack([1.0])
    with pytest.raises(KernelTypeError, match="expected elements of a type of the kernel language, got type code 5"):
        wp.from_dlpack(np.zeros(2, np.complex64))


# Where an array outside of JAX has no place


def test_a_function_that_jax_traces_has_no_part_in_it():
    a, b = wp.array(X), wp.zeros(6)

    @jax.jit
    def launches(x):
        wp.launch(scale, 6, [a, 1.0], [b])
        return x

    @jax.jit
    def fills(x):
        b.fill_(1.0)
        return x

    @jax.jit
    def reads(x):
        return x + jnp.asarray(a)

    @jax.jit
    def passes(x):
        wp.launch(scale, 6, [x, 1.0], [b])
        return x

    wp.launch(scale, 6, [a, 0.0], [b])  # known: the quick way must not be taken in a trace
    for f in (launches, fills, reads, passes):
        with pytest.raises(KernelError, match="trace"):
            f(X)
    assert b.list() == [0.0] * 6


def test_a_traced_callable_refuses_them():
    a = wp.array(X)

    def launches(x: wp.array[float], out: wp.array[float]):
        wp.launch(scale, 6, [a, 1.0], [out])

    def makes(x: wp.array[float], out: wp.array[float]):
        wp.array([1.0, 2.0], dtype=float)

    def copies(x: wp.array[float], out: wp.array[float]):
        wp.copy(out, a)

    def assigns(x: wp.array[float], out: wp.array[float]):
        out.assign(a)

    for mode in (wp.GraphMode.JAX, wp.GraphMode.WARP):
        for function in (launches, makes, copies, assigns):
            with pytest.raises(KernelTypeError, match=r"outside of JAX|traces"):
                wp.jax_callable(function, graph_mode=mode)(X)


def test_a_callback_takes_them_as_memory():
    factors, kept = wp.array(X), wp.zeros(6)

    def function(x: wp.array[float], out: wp.array[float]):
        wp.launch(scale, 6, [factors, 2.0], [out])
        wp.launch(scale, 6, [x, 3.0], [kept])
        made = wp.array([5.0], dtype=float)
        wp.copy(out[:1], made)

    (out,) = wp.jax_callable(function, graph_mode=wp.GraphMode.NONE)(X)
    assert out.tolist() == [5, 2, 4, 6, 8, 10]
    np.testing.assert_array_equal(kept.numpy(), 3 * X)


# Arrays whose elements an annotation leaves open, and functions of JAX


@wp.kernel
def add_any(a: wp.array(dtype=Any), b: wp.array(dtype=Any)):
    i = wp.tid()
    b[i] = a[i] + a[i]


@wp.kernel
def size_any(a: wp.array2d(dtype=Any), out: wp.array[int]):
    _i, _j = wp.tid()
    wp.atomic_add(out, 0, 1)


@pytest.mark.parametrize("dtype", [wp.vec3, wp.mat22, float, wp.vec(length=3, dtype=wp.float64)], ids=str)
def test_any_element_of_an_array(dtype):
    a, b = wp.full(4, 1.5, dtype=dtype), wp.zeros(4, dtype=dtype)
    for turn in (1, 2):  # the second is like the first
        wp.launch(add_any, 4, [a, b])
        assert (b.numpy() == 3.0).all(), turn
    wp.launch(add_any, 2, [a[::2], b[::2]])


def test_launches_of_any_element_are_told_apart():
    """Arrays of one shape of numbers: elements are vectors, or scalars."""
    vectors, scalars = wp.ones(3, dtype=wp.vec3), wp.ones((3, 3), dtype=float)
    wp.launch(add_any, 3, [vectors, wp.zeros(3, dtype=wp.vec3)])
    for given in (scalars, scalars.numpy()):
        with pytest.raises(
            KernelTypeError, match=r"'a': expected float32 of shape \(\?,\), got float32 of shape"
        ) as caught:
            wp.launch(add_any, 3, [given, wp.zeros(3, dtype=wp.vec3)])
        assert "array(dtype=vec(length=Any, dtype=Any))" in caught.value.hint
    with pytest.raises(KernelTypeError):
        wp.launch(add_any, 3, [vectors, wp.zeros(3)])
    out = wp.zeros(1, dtype=int)
    wp.launch(size_any, (3, 3), [scalars, out])
    wp.launch(size_any, (3, 3), [vectors.numpy(), out])
    assert out.list() == [18]


def test_any_element_in_a_program():
    values = jnp.arange(9.0).reshape(3, 3)

    @jax.jit
    def program(x):
        return wp.jax_callable(twice_of, num_outputs=1)(x)[0]

    def twice_of(x: wp.array[wp.vec3], y: wp.array[wp.vec3]):
        wp.launch(add_any, 3, [x, y])

    np.testing.assert_array_equal(program(values), 2.0 * values)


def test_functions_of_jax_take_the_contents():
    array = wp.array([1.0, 2.0, 3.0], dtype=float)
    square = jax.jit(lambda x: x**2)
    first = square(array)
    sine = jnp.sin(array)
    kept = jax.device_put(array)
    array.fill_(5.0)
    assert isinstance(first, jax.Array)
    assert first.tolist() == [1, 4, 9]
    assert kept.tolist() == [1, 2, 3]
    np.testing.assert_allclose(sine, np.sin([1.0, 2.0, 3.0]), rtol=1e-6)
    assert square(array).tolist() == [25, 25, 25]  # what it holds now
    assert jax.grad(lambda x: (x**2).sum())(array).tolist() == [10, 10, 10]
    assert jax.vmap(lambda v: v.sum())(wp.ones(2, dtype=wp.vec3)).tolist() == [3, 3]
    assert wp.jax_kernel(add_any)(array)[0].tolist() == [10, 10, 10]
    with pytest.raises(KernelTypeError, match="cannot be used as a JAX array in a function that JAX traces"):
        jax.jit(lambda x: x + jnp.sin(array))(1.0)
    with pytest.raises(KernelTypeError, match="64-bit types are not enabled in JAX"):
        square(wp.zeros(2, dtype=wp.float64))
    with pytest.raises(KernelTypeError, match=r"argument '\w+': to_jax: array of float64 .*: 64-bit types are not"):
        wp.jax_kernel(add_any)(wp.zeros(2, dtype=wp.float64))
    assert jax.tree.leaves(wp.from_jax(first))[0] is first  # contents that never change are not copied


@pytest.fixture
def interrupts():
    """Tests that a shell runs in the background are started with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def pieces(monkeypatch):
    """How many pieces each launch was cut into that is divided among cores, of which there are three."""
    found, real = [], native_launch.NativeCode._share

    def share(self, pointers):
        found.append(load_library().jaxwarp_outside_pieces(self._launch))
        real(self, pointers)

    on_memory._kept.cache_clear()
    on_memory._loaded.clear()
    launching.forget()
    monkeypatch.setattr(native_launch, "pool_size", lambda: 3)
    monkeypatch.setattr(native_launch.NativeCode, "_share", share)
    yield found
    on_memory._kept.cache_clear()
    on_memory._loaded.clear()
    launching.forget()


@wp.kernel
def turning(turns: int, x: wp.array[float], done: wp.array[int]):
    i = wp.tid()
    value = x[i]
    for _ in range(turns):
        value = wp.sin(value) + 0.5
    x[i] = value
    done[i] = 1


@pytest.mark.release_mode("in debug mode loops of so many turns are failures")
@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_ends_a_launch_between_its_pieces(pieces):
    """No piece is begun after it, and none runs when it is raised, since the arrays may be gone then."""
    n = 64 * 60
    x, done = wp.zeros(n), wp.zeros(n, dtype=int)
    wp.launch(turning, n, [1, x, done])
    done.zero_()
    timer = threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        wp.launch(turning, n, [2_000_000, x, done])  # a second for each piece
    assert pieces[-1] > 3
    found = done.numpy().copy()
    assert found.sum() < n
    time.sleep(0.2)
    np.testing.assert_array_equal(done.numpy(), found)


@pytest.mark.parametrize("how", ["dense", "strided", "on a tape", "debug"])
def test_large_launches_use_all_cores(pieces, how, monkeypatch):
    n = 500_000
    wide = np.arange(2 * n, dtype=np.float32).reshape(n, 2) % 1000
    x, out = wp.array(wide[:, 1], dtype=float), wp.zeros(n)
    if how == "strided":
        x = wp.array(wide, dtype=float)[:, 1]
        assert not x.is_contiguous
    if how == "debug":
        monkeypatch.setattr(wp.config, "mode", "debug")
    if how == "on a tape":
        with wp.Tape():
            wp.launch(scale, n, [x, 3.0, out])
    else:
        wp.launch(scale, n, [x, 3.0, out])
    assert pieces
    assert pieces[0] > 3
    np.testing.assert_array_equal(out.numpy(), wide[:, 1] * np.float32(3.0))


def test_a_launch_in_a_call_of_xla_stays_in_its_thread(pieces):
    def tripled(a: wp.array[float], out: wp.array[float]):
        wp.launch(scale, a.shape, [a, 3.0, out])

    x = jnp.arange(500_000, dtype=jnp.float32)
    (got,) = wp.jax_callable(tripled, graph_mode=wp.GraphMode.NONE)(x)
    np.testing.assert_array_equal(got, np.asarray(x) * np.float32(3.0))
    assert not pieces


@pytest.mark.release_mode("in debug mode every launch is looked at")
def test_a_launch_like_one_before_is_cheap():
    """54 calls of functions, and 80 where a tape records: what the checks found is kept."""
    a, b = (wp.zeros(4, dtype=float, requires_grad=True) for _ in range(2))

    def launch():
        wp.launch(scale, dim=4, inputs=[a, 2.0], outputs=[b])

    launch()
    assert calls_of(launch) < 70
    with wp.Tape():
        launch()
        assert calls_of(launch) < 110


@pytest.mark.release_mode("in debug mode reverses are programs of XLA's")
def test_the_reverse_of_a_launch_like_one_before_is_cheap():
    """190 calls of functions by itself, and 164 on a tape: how it is done is kept."""
    arrays = [wp.zeros(4, dtype=float, requires_grad=True) for _ in range(41)]

    def reversed_alone():
        adjoints = {"adj_inputs": [None, None], "adj_outputs": [None]}
        wp.launch(scale, dim=4, inputs=[arrays[0], 2.0], outputs=[arrays[1]], adjoint=True, **adjoints)

    def on_tape(count):
        with wp.Tape() as tape:
            for one, other in itertools.pairwise(arrays[: count + 1]):
                wp.launch(scale, dim=4, inputs=[one, 2.0], outputs=[other])

        def reversed_all():
            arrays[count].grad.fill_(1.0)
            tape.backward()

        reversed_all()
        return calls_of(reversed_all)

    arrays[1].grad.fill_(1.0)
    reversed_alone()
    assert calls_of(reversed_alone) < 210
    assert on_tape(40) - on_tape(10) < 30 * 180


def test_components_by_value_from_numpy_of_any_type():
    @wp.kernel
    def k(v: wp.vec3, m: wp.mat22, out: wp.array[float]):
        out[0] = v.x + v.z
        out[1] = m[1, 0]

    out = wp.zeros(2, dtype=float)
    for dtype in (np.int8, np.int64, np.float16, np.float64):
        for _ in range(2):  # the second launch is one like before
            wp.launch(k, dim=1, inputs=[np.array([1, 2, 3], dtype), np.array([[1, 2], [5, 4]], dtype)], outputs=[out])
            assert out.list() == [4.0, 5.0]
            out.zero_()
    with pytest.raises(wp.KernelError, match=r"'v': expected float32 of shape \(3,\), got float64 of shape \(4,\)"):
        wp.launch(k, dim=1, inputs=[np.zeros(4), np.zeros((2, 2)), out])
    with pytest.raises(wp.KernelError, match=r"argument 'v': expected float32 .* got float64"):
        wp.launch(k, dim=1, inputs=[wp.vec3d(), np.zeros((2, 2)), out])


def test_numbers_of_numpy_leave_operators_to_the_array():
    a = wp.array([1.0, 2.0], dtype=float)
    for made in (np.float32(5.0) - a, np.float32(2.0) * a, np.float32(7.0) % a):
        assert isinstance(made, type(a))
    assert (np.float32(5.0) - a).list() == [4.0, 3.0]
    assert isinstance(np.ones(2) + a, np.ndarray)


def test_matrices_are_filled_with_their_components_in_a_row():
    assert wp.full(1, (1.0, 2.0, 3.0, 4.0), dtype=wp.mat22).numpy().tolist() == [[[1.0, 2.0], [3.0, 4.0]]]


def test_a_launch_like_one_with_an_array_of_numpy_for_components_takes_no_array_of_another_type():
    @wp.kernel
    def spread(v: wp.vec3d, out: wp.array[wp.float64]):
        i = wp.tid()
        out[i] = v[i]

    out = np.zeros(3)
    for _ in range(2):
        wp.launch(spread, dim=3, inputs=[np.array([1, 2, 3], np.float32), out])  # which is converted
        assert out.tolist() == [1.0, 2.0, 3.0]
        with pytest.raises(KernelTypeError, match=r"'v': expected float64 of shape \(3,\), got float32"):
            wp.launch(spread, dim=3, inputs=[wp.array([1.0, 2.0, 3.0], dtype=float), out])


def test_components_in_the_memory_that_is_written_are_refused_in_every_launch():
    @wp.kernel
    def turn_round(v: wp.vec3, out: wp.array[float]):
        i = wp.tid()
        out[i] = v[(i + 1) % 3]

    v, out = wp.array([1.0, 2.0, 3.0], dtype=float), wp.zeros(3, dtype=float)
    for _ in range(2):
        wp.launch(turn_round, 3, [v, out])
        assert out.list() == [2.0, 3.0, 1.0]
        with pytest.raises(KernelTypeError, match=r"'out' is written by .* shares memory with argument 'v'"):
            wp.launch(turn_round, 3, [v, v])


class OnBoth:
    """Memory that the host and CUDA have."""

    def __init__(self, values):
        self.__array_interface__ = self.__cuda_array_interface__ = values.__array_interface__


@pytest.mark.parametrize("device", [None, "cpu"])
def test_memory_that_the_host_has_too_is_taken_there(device):
    values = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(wp.array(OnBoth(values), dtype=float, device=device).numpy(), values)
    found = wp.array(OnBoth(values), dtype=wp.vec3, copy=False, device=device)
    assert found.shape == (2,)
    assert found.ptr == values.ctypes.data


@pytest.mark.parametrize("use", [
    wp.array, wp.from_numpy, lambda masked: wp.zeros(3).assign(masked), lambda masked: wp.copy(wp.zeros(3), masked),
    lambda masked: wp.launch(scale, 3, [masked, 2.0], [wp.zeros(3)]),
])  # fmt: skip
def test_masks_of_numpy_are_not_lost(use):
    with pytest.raises(KernelTypeError, match="a masked array of NumPy, of shape"):
        use(np.ma.array(np.ones(3, np.float32), mask=[False, True, False]))


def test_integers_of_numpy_wrap_where_a_type_is_asked_for():
    wide = np.array([2**40 + 5, -1, 7])
    for dtype in (wp.int32, wp.uint8, wp.uint64):
        assert wp.array(wide, dtype=dtype).list() == wide.astype(str(dtype)).tolist()
    with pytest.raises(KernelValueError, match="expected values of int32"):
        wp.array([2**40 + 5], dtype=int)
    with pytest.raises(KernelValueError, match="expected values of int32"):
        wp.array(np.array([1e20]), dtype=int)


def test_data_without_elements_get_the_axes_that_are_asked_for():
    assert wp.array(np.array([]), dtype=wp.int32, ndim=2).shape == (0, 0)
    assert wp.array([], dtype=wp.vec3, ndim=2).shape == (0, 0)
    assert wp.array(np.zeros((3, 0)), dtype=float, ndim=3).shape == (3, 0, 0)
    with pytest.raises(KernelValueError, match="expected data with 2 axes"):
        wp.array([1, 2], dtype=int, ndim=2)


def test_flags_of_a_mask_are_true():
    """An integer given for a bool is true unless it is zero, as in Python."""

    @wp.kernel
    def k(flag: bool, y: wp.array[float]):
        if flag:
            y[wp.tid()] += 1.0

    for given, expected in ((32, 1.0), (0, 0.0), (-3, 1.0), (np.int64(2**40), 1.0), (np.bool_(False), 0.0), (1, 1.0)):
        y = wp.zeros(2)
        wp.launch(k, 2, [given, y])
        assert y.list() == [expected] * 2, given
    with pytest.raises(KernelValueError, match=r"expected a value of bool, got 0\.5"):
        wp.launch(k, 2, [0.5, wp.zeros(2)])


def test_integers_that_only_fit_into_uint64_are_not_rounded():
    """NumPy makes floats of a list that has small and such large integers."""
    numbers = [0, (1 << 63) + 1, (1 << 64) - 1]
    assert wp.array(numbers, dtype=wp.uint64).list() == numbers
    with pytest.raises(KernelValueError, match="expected values of uint64"):
        wp.array([-1, (1 << 63) + 1], dtype=wp.uint64)
