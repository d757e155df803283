"""Indexed arrays: parts of arrays by arrays of indices. NumPy's indexing says what is right."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import CheckError, KernelError


@wp.struct
class Pair:
    x: float
    v: wp.vec3


@wp.struct
class Table:
    rows: wp.indexedarray2d[float]
    factor: float


@wp.kernel
def add_one(a: wp.array[float]):
    i = wp.tid()
    a[i] = a[i] + 1.0


@wp.kernel
def twice(a: wp.indexedarray[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i] * 2.0


@wp.kernel
def change4(a: wp.indexedarray4d[int], s: int):
    i, j, k, m = wp.tid()
    a[i, j, k, m] = a[i, j, k, m] * s + a.shape[2]


@wp.kernel
def change3(a: wp.indexedarray(dtype=wp.vec2, ndim=3), s: float):  # pyright: ignore[reportInvalidTypeForm]
    i, j, k = wp.tid()
    a[i, j, k] = a[i, j, k] * s
    a[i, j, k][1] += 1.0


@wp.kernel
def change2(a: wp.indexedarray[float, Literal[2]]):  # pyright: ignore[reportInvalidTypeArguments]
    i, j = wp.tid()
    wp.atomic_add(a, i, 0, float(j))


@wp.func
def of_indexed(a: wp.indexedarray[float], i: int):
    return a[i]


@wp.func
def of_array(a: wp.array[float], i: int):
    return a[i]


@wp.kernel
def parts(a: wp.indexedarray2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    row = a[i]
    rest = a[1:, j]
    x = of_indexed(row, j) * 10.0 + float(rest.shape[0])
    if i > 0:
        row = a[0]
        x += of_array(rest, i - 1)
    for n in range(i):
        row = a[n]
    out[i, j] = x + 100.0 * row[j] + float(a.shape[0] * a.shape[1])


@wp.kernel
def of_pairs(a: wp.indexedarray[Pair], out: wp.array[float]):
    i = wp.tid()
    s = a[i]
    out[i] = s.x + s.v[1]
    a[i].x = -1.0


@wp.kernel
def of_table(t: Table, out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = t.rows[i, j] * t.factor


def ints(*values: int) -> Any:
    return wp.array(values, dtype=int)


def grid(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_what_they_are():
    data: Any = wp.array(grid(10), dtype=float)
    part = wp.indexedarray(data, [ints(1, 3, 3, 9)])
    assert (part.shape, part.size, part.ndim, part.dtype, len(part)) == ((4,), 4, 1, wp.float32, 4)
    assert (part.data, part.is_contiguous, part.requires_grad) == (data, False, False)
    assert isinstance(part, wp.indexedarray)
    assert isinstance(part, wp.indexedarray1d)
    assert not isinstance(part, wp.indexedarray2d)
    assert not isinstance(data, wp.indexedarray)
    assert part.list() == [1, 3, 3, 9]
    assert np.asarray(part).tolist() == [1, 3, 3, 9]
    assert wp.indexedarray(data, ints(2)).list() == [2]
    assert wp.indexedarray(data).list() == data.list()


@pytest.mark.parametrize("which", range(8))
def test_each_axis_may_have_indices(which):
    values = grid(3, 4, 5)
    data: Any = wp.array(values, dtype=float)
    found = [ints(2, 0, 1, 1), ints(3), ints(0, 4)]
    indices = [index if which >> axis & 1 else None for axis, index in enumerate(found)]
    part = wp.indexedarray3d(data, indices)
    places = np.ix_(*(np.arange(n) if i is None else i.numpy() for i, n in zip(indices, values.shape, strict=True)))
    np.testing.assert_array_equal(part.numpy(), values[places])
    made = part.contiguous()
    assert made.is_contiguous
    np.testing.assert_array_equal(made.numpy(), values[places])
    part.fill_(-1.0)
    values[places] = -1
    np.testing.assert_array_equal(data.numpy(), values)
    given = np.random.default_rng(which).random(part.shape, np.float32)
    if which & 1:  # an element that is there twice keeps either
        given[3] = given[2]
    part.assign(given)
    values[places] = given
    np.testing.assert_array_equal(data.numpy(), values)
    part.zero_()
    assert not part.numpy().any()


def test_arrays_are_indexed_by_arrays():
    values = grid(3, 4)
    data: Any = wp.array(values, dtype=float)
    np.testing.assert_array_equal(data[ints(2, 0)].numpy(), values[[2, 0]])
    np.testing.assert_array_equal(data[:, ints(2, 0)].numpy(), values[:, [2, 0]])
    np.testing.assert_array_equal(data[ints(2, 0), 1:3].numpy(), values[[2, 0], 1:3])
    np.testing.assert_array_equal(data[1, ints(3, 3)].numpy(), values[1, [3, 3]])
    np.testing.assert_array_equal(data[ints(0, 2), ints(1, 3)].numpy(), values[np.ix_([0, 2], [1, 3])])
    np.testing.assert_array_equal(data.transpose()[ints(3)].numpy(), values.T[[3]])


def test_kernels_read_and_write():
    data: Any = wp.array(grid(10), dtype=float)
    out: Any = wp.zeros(3)
    wp.launch(twice, 3, [data[ints(9, 0, 4)]], [out])
    assert out.list() == [18, 0, 8]
    values = np.arange(3 * 4 * 5 * 2, dtype=np.int32).reshape(3, 4, 5, 2)
    four: Any = wp.array(values, dtype=int)
    wp.launch(change4, (2, 4, 1, 2), [wp.indexedarray(four, [ints(2, 0), None, ints(3), None]), 3])
    values[[2, 0], :, 3] = values[[2, 0], :, 3] * 3 + 1
    np.testing.assert_array_equal(four.numpy(), values)
    vectors = grid(2, 3, 4, 2)
    three: Any = wp.array(vectors, dtype=wp.vec2)
    wp.launch(change3, (2, 1, 4), [three[:, ints(1)], 3.0])
    vectors[:, 1] *= 3
    vectors[:, 1, :, 1] += 1
    np.testing.assert_array_equal(three.numpy(), vectors)
    two: Any = wp.zeros((2, 3))
    wp.launch(change2, (3, 5), [wp.indexedarray(two, [ints(1, 1, 0), ints(2)])])
    assert two.list() == [0, 0, 10, 0, 0, 20]


def test_parts_of_them_in_kernels():
    values = grid(4, 5)
    part = wp.array(values, dtype=float)[ints(3, 1, 2), ints(4, 0)]
    out: Any = wp.zeros((3, 2))
    wp.launch(parts, (3, 2), [part], [out])
    a = values[np.ix_([3, 1, 2], [4, 0])]
    expected = a * 10 + 2 + 6
    expected[1:] += a[1:]
    expected += 100 * a[[0, 0, 1]]
    np.testing.assert_array_equal(out.numpy(), expected)


def test_arrays_of_structs_and_structs_of_them():
    pairs: Any = wp.array([Pair(float(i), (0.0, 10.0 * i, 0.0)) for i in range(5)], dtype=Pair)
    part = pairs[ints(4, 2)]
    out: Any = wp.zeros(2)
    wp.launch(of_pairs, 2, [part], [out])
    assert out.list() == [44, 22]
    assert pairs.numpy()["x"].tolist() == [0, 1, -1, 3, -1]
    part.fill_(Pair(7.0, (1.0, 1.0, 1.0)))
    assert part.list() == [Pair(7.0, (1.0, 1.0, 1.0))] * 2
    assert pairs.numpy()["x"].tolist() == [0, 1, 7, 3, 7]
    table = Table(wp.array(grid(3, 4), dtype=float)[ints(2, 0)], 10.0)
    scaled: Any = wp.zeros((2, 4))
    wp.launch(of_table, (2, 4), [table], [scaled])
    np.testing.assert_array_equal(scaled.numpy(), grid(3, 4)[[2, 0]] * 10)


def test_copies():
    data: Any = wp.array(grid(6), dtype=float)
    part = data[ints(5, 1)]
    assert wp.clone(part).list() == [5, 1]
    assert wp.zeros_like(part).shape == (2,)
    assert wp.full_like(part, 3.0).list() == [3, 3]
    target: Any = wp.zeros(2)
    wp.copy(target, part)
    assert target.list() == [5, 1]
    wp.copy(part, wp.array([8.0, 9.0], dtype=float))
    assert data.list() == [0, 9, 2, 3, 4, 8]
    wp.copy(part, data[ints(0, 2)])
    assert data.list() == [0, 2, 2, 3, 4, 0]


def test_tapes():
    data: Any = wp.array(grid(6), dtype=float, requires_grad=True)
    part = data[ints(5, 1, 1)]
    out: Any = wp.zeros(3, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(twice, 3, [part], [out])
    tape.backward(grads={out: wp.array([1.0, 10.0, 100.0], dtype=float)})
    assert data.grad.list() == [0, 220, 0, 0, 0, 2]
    assert part.grad.list() == [2, 220, 220]
    tape.zero()
    tape = wp.Tape()
    with tape:
        work: Any = wp.clone(data)
        work[ints(0, 2)].assign(data[ints(3, 4)].contiguous())
    tape.backward(grads={work: wp.array(grid(6) + 1, dtype=float)})
    assert data.grad.list() == [0, 2, 0, 4 + 1, 5 + 3, 6]


def test_in_jax():
    values, index = jnp.arange(5.0, dtype=jnp.float32), jnp.array([4, 0, 0], dtype=jnp.int32)
    run = wp.jax_kernel(twice)

    def total(part: Any) -> Any:
        return (run(part, launch_dims=3, output_dims=3)[0] * jnp.array([1.0, 2.0, 3.0], dtype=jnp.float32)).sum()

    part = wp.indexedarray(values, index)
    assert jax.jit(total)(part) == 8.0
    gradient = jax.grad(total, allow_int=True)(part)
    assert gradient.data.tolist() == [10, 0, 0, 0, 2]
    mapped = jax.vmap(lambda i: run(wp.indexedarray(values, i), launch_dims=3, output_dims=3)[0])
    np.testing.assert_array_equal(mapped(jnp.stack([index, index + 0 * 1])), [[8, 0, 0]] * 2)
    vectors = wp.indexedarray(jnp.zeros((4, 3), dtype=jnp.float32), index, dtype=wp.vec3)
    assert (vectors.shape, vectors.dtype) == ((3,), wp.vec3)


@wp.kernel(module_options={"mode": "debug"})
def checked(a: wp.indexedarray[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i]


def test_indices_out_of_range():
    data: Any = wp.zeros(3)
    wrong = data[ints(0, 7)]
    with pytest.raises(CheckError, match=r"index 7 of axis 0 of array a\.data is out of range"):
        wp.launch(checked, 2, [wrong], [wp.zeros(2)])
    for use in (wrong.numpy, wrong.contiguous, wrong.zero_, data[ints(-1)].list):
        with pytest.raises(KernelError, match="and the axis has 3 elements"):
            use()


def test_maps_and_operators_take_indexed_arrays():
    host = np.arange(5.0, dtype=np.float32)
    data: Any = wp.array(host, requires_grad=True)
    part = data[ints(4, 0, 2)]
    x = host[[4, 0, 2]]
    for got, expected in (
        (wp.map(lambda a, b: a * b + 1.0, part, data[:3]), x * host[:3] + 1),
        (part + 1.0, x + 1),
        (2.0 - part, 2 - x),
        (-part, -x),
        (part * part, x * x),
        (data[:3] / (part + 1.0), host[:3] / (x + 1)),
    ):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)
    with wp.Tape() as tape:
        squares = part * part
    tape.backward(grads={squares: wp.ones_like(squares)})
    np.testing.assert_allclose(data.grad.numpy(), [0, 0, 4, 0, 8])
    whole: Any = wp.zeros(3)
    whole += part
    part += 10.0
    assert (whole.list(), data.list()) == ([4.0, 0.0, 2.0], [10.0, 1.0, 12.0, 3.0, 14.0])
    with pytest.raises(TypeError, match="unsupported operand"):
        part + "text"
    with pytest.raises(KernelError, match="is one of JAX's arrays"):
        wp.indexedarray(jnp.arange(3.0), jnp.array([1])) + 1.0  # pyright: ignore[reportOperatorIssue]


def test_refusals():
    data: Any = wp.zeros((3, 3))
    part = data[ints(0)]
    for refused, text in (
        (
            lambda: wp.indexedarray(data, [data]),
            r"indices\[0\]: expected an array of int32 with 1 axis, got one",
        ),
        (
            lambda: wp.indexedarray(data, [None, [1, 2]]),
            r"indices\[1\]: expected an array of int32",
        ),
        (lambda: wp.indexedarray(data, [None] * 3), "expected at most 2, one for each axis, got 3"),
        (lambda: wp.indexedarray1d(data), "expected data with 1 axes, got 2"),
        (lambda: wp.indexedarray(data, dtype=int), "the data are of float32"),
        (lambda: wp.indexedarray(3), "data: expected an array, got int"),
        (wp.indexedarray, "expected data, or dtype="),
        (lambda: wp.indexedarray(dtype=float, ndim=5), "expected a number from 1 to 4"),
        (lambda: wp.launch(twice, 3, [wp.zeros(3), wp.zeros(3)]), r"'a': expected an indexedarray\[float32, 1\]"),
        (lambda: wp.launch(twice, 3, [part, wp.zeros(3)]), "'a.data': expected float32 of shape"),
        (lambda: wp.launch(twice, 3, [data[0][ints(1)], data[0][ints(1)]]), "'out' is written by the kernel"),
        (lambda: wp.launch(add_one, 3, [data[0][ints(1)]]), "'a' is written by the kernel, but it is an indexed array"),
        (lambda: part.assign(wp.zeros(3)), "expected an array of float32 of shape"),
        (lambda: wp.copy(part, data, count=1), "which no indexed array has"),
    ):
        with pytest.raises(KernelError, match=text):
            refused()


@wp.kernel
def squares_of_plain(a: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = a[i] * a[i]


def test_tapes_find_back_through_what_is_read_of_a_part():
    """Where the argument is a plain array, it is given a copy of the elements."""
    data: Any = wp.array([1.0, 2.0, 3.0, 4.0], dtype=float, requires_grad=True)
    part: Any = data[wp.array([2, 0, 2], dtype=int)]
    out: Any = wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squares_of_plain, dim=3, inputs=[part], outputs=[out])
        with pytest.raises(wp.KernelError, match="argument 'out' is written by the kernel, but it is an indexed array"):
            wp.launch(squares_of_plain, dim=3, inputs=[out], outputs=[part])
    tape.backward(grads={out: wp.array([1.0, 10.0, 100.0], dtype=float)})
    assert data.grad.list() == [20, 0, 606, 0]
