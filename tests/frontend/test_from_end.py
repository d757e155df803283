"""Indices that are negative at run time count from the end, as in Python; those that never are cost nothing."""

from __future__ import annotations

from typing import Any

import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from language import define, outputs, run

import jaxwarp as wp
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ir.nodes import Call, walk
from jaxwarp.passes.pipeline import prepare

X = np.arange(1.0, 8.0, dtype=np.float32)
J = np.array([-1, -7, 3, 0, -4, 6], np.int32)


@wp.kernel
def gather(x: wp.array[float], j: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = x[j[i]]


@wp.kernel
def rows(a: wp.array2d[float], j: wp.array[int], out: wp.array2d[float]):
    i = wp.tid()
    row = a[j[i]]
    out[i, 0] = row[j[i] % 2] + a[j[i], -1]
    out[i, j[i]] = 9.0


@wp.kernel
def scatter(x: wp.array[float], j: wp.array[int], out: wp.array[float], count: wp.array[int]):
    i = wp.tid()
    out[j[i]] = x[i]
    count[j[i]] += 1


@wp.kernel
def periodic(x: wp.array[float], shift: int, out: wp.array[float]):
    i = wp.tid()
    out[i] = x[i - 1] + 10.0 * x[i - shift] + 100.0 * x[(i - 3) % x.shape[0]]


def test_loads():
    np.testing.assert_array_equal(outputs(gather, 6, X, J, np.zeros(6)), X[J])


def test_rows_of_a_matrix():
    a, out = np.arange(14.0, dtype=np.float32).reshape(7, 2), np.zeros((6, 2), np.float32)
    expected = out.copy()
    found = run(rows, 6, a, np.clip(J, -2, 1), out)[-1]
    clipped = np.clip(J, -2, 1)
    for i, j in enumerate(clipped):
        expected[i, 0] = a[j, int(np.fmod(j, 2))] + a[j, -1]
        expected[i, j] = 9.0
    np.testing.assert_array_equal(found, expected)


def test_stores_and_atomics():
    *_, out, count = run(scatter, 6, X[:6], J, np.zeros(7), np.zeros(7, np.int32))
    expected = np.zeros(7, np.float32)
    expected[J] = X[:6]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(count, np.bincount(J % 7, minlength=7))


@pytest.mark.parametrize("shift", [-2, 0, 2, 7])
def test_neighbours_of_a_periodic_array(shift):
    """On CPUs chunks inside of the array have code of their own, and a long row has many of them."""
    for n in (9, 200):
        x = np.random.default_rng(n).integers(0, 9, n).astype(np.float32)
        threads = n + min(shift, 0)
        expected = (np.roll(x, 1) + 10 * np.roll(x, shift) + 100 * np.roll(x, 3))[:threads]
        np.testing.assert_array_equal(outputs(periodic, threads, x, shift, np.zeros(threads)), expected)


@wp.kernel
def wide(x: wp.array[float], j: wp.array[wp.int64], k: wp.array[wp.int8], u: wp.array[wp.uint8], out: wp.array[float]):
    i = wp.tid()
    out[i] = x[j[i]] + 10.0 * x[k[i]] + 100.0 * x[u[i]]


def test_types_of_indices():
    j, k, u = np.array([-1, 0, -7]), np.array([-7, 6, -2]), np.array([0, 6, 1])
    expected = X[j] + 10 * X[k] + 100 * X[u]
    np.testing.assert_array_equal(outputs(wide, 3, X, j, k, u, np.zeros(3)), expected)


@wp.kernel
def parts(x: wp.array[float], j: wp.array[int], first: int, out: wp.array[float]):
    i = wp.tid()
    part = x[first:-1]
    turned = x[::-1]
    own = wp.zeros(shape=3, dtype=float)
    own[j[i]] = 5.0
    v = wp.vec3(1.0, 2.0, 3.0)
    m = wp.mat22(1.0, 2.0, 3.0, 4.0)
    v[j[i]] += 10.0
    out[i] = 1000.0 * part[j[i]] + 100.0 * turned[j[i]] + own[-1] + v[j[i]] + v[0] + m[wp.max(j[i], -2), j[i] / 2]


def test_views_local_arrays_and_components():
    for j in (-3, -2, -1, 0, 1):
        own, v, m = np.zeros(3), np.array([1.0, 2.0, 3.0]), np.array([[1.0, 2.0], [3.0, 4.0]])
        own[j] = 5.0
        v[j] += 10.0
        expected = 1000 * X[2:-1][j] + 100 * X[::-1][j] + own[-1] + v[j] + v[0] + m[max(j, -2), int(j / 2)]
        assert outputs(parts, 1, X, [j], 2, np.zeros(1))[0] == expected


@wp.kernel
def indirect(x: wp.indexedarray[float], j: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = x[j[i]]


def test_indexed_arrays_outside_of_jax():
    base, j, out = wp.array(X), wp.array(np.array([-1, -3, 1], np.int32)), wp.zeros(3, dtype=float)
    picked = wp.indexedarray(base, [wp.array(np.array([4, 0, 6], np.int32))])
    wp.launch(indirect, dim=3, inputs=[picked, j], outputs=[out])
    np.testing.assert_array_equal(out.numpy(), X[[4, 0, 6]][[-1, -3, 1]])


def test_under_transformations_of_jax():
    call = wp.jax_kernel(gather, launch_dims=6, output_dims=6)
    np.testing.assert_array_equal(jax.jit(call)(X, J)[0], X[J])
    many = jnp.stack([X, 2 * X])
    np.testing.assert_array_equal(jax.vmap(lambda x: call(x, J)[0])(many), many[:, J])
    found = jax.grad(lambda x: (call(x, J)[0] ** 2).sum())(X)
    np.testing.assert_allclose(found, jax.grad(lambda x: (x[J] ** 2).sum())(X))
    _, tangent = jax.jvp(lambda x: call(x, J)[0], (X,), (X + 1,))
    np.testing.assert_allclose(tangent, (X + 1)[J])


def test_gradient_of_a_periodic_stencil():
    x = np.random.default_rng(3).standard_normal(50).astype(np.float32)
    call = wp.jax_kernel(periodic, launch_dims=50, output_dims=50)
    found = jax.grad(lambda x: (call(x, 2)[0] ** 2).sum())(x)
    rolled = lambda x: jnp.roll(x, 1) + 10 * jnp.roll(x, 2) + 100 * jnp.roll(x, 3)  # noqa: E731
    np.testing.assert_allclose(found, jax.grad(lambda x: (rolled(x) ** 2).sum())(x), rtol=1e-4)


def test_stores_of_threads_that_meet_by_both_names_of_an_element():
    """The last thread wins, in values and derivatives, also where one names the element from the end."""
    j = np.array([0, 3, -7, -4], np.int32)
    call = wp.jax_kernel(scatter, num_outputs=2, launch_dims=4, output_dims={"out": 7, "count": 7})
    out, count = call(X[:4], j)
    np.testing.assert_array_equal(out[jnp.array([0, 3])], X[2:4])
    np.testing.assert_array_equal(count, [2, 0, 0, 2, 0, 0, 0])
    found = jax.grad(lambda x: (call(x, j)[0] ** 2).sum())(X[:4])
    np.testing.assert_allclose(found, [0, 0, 2 * X[2], 2 * X[3]])


@wp.kernel
def flat(x: wp.array2d[float], width: int, shift: int, y: wp.array[float]):
    i, j = wp.tid()
    y[i * width + j + shift] = x[i, j]


@pytest.mark.parametrize("shift", [0, -3, -18])
def test_stores_whose_threads_meet_only_where_indices_are_negative(shift):
    """Asked when the launch runs: 5 * i + j tells threads apart, but not from the end of the array."""
    x, expected = np.arange(20, dtype=np.float32).reshape(4, 5), np.zeros(20 if shift == 0 else 18, np.float32)
    for i, j in np.ndindex(4, 5):
        expected[5 * i + j + shift] = x[i, j]
    for _ in range(3):
        found = wp.zeros(len(expected), dtype=float)
        wp.launch(flat, dim=(4, 5), inputs=[wp.array(x), 5, shift], outputs=[found])
        np.testing.assert_array_equal(found.numpy(), expected)


# What is outside of the array stays outside.


@pytest.mark.parametrize("index", [7, -8, -100, 2**31 - 1, -(2**31)])
def test_debug_mode_tells_the_index_as_it_was_written(index):
    call = wp.jax_kernel(gather, launch_dims=1, output_dims=1, mode="debug")
    with pytest.raises(Exception, match=f"index {index} of axis 0 of array x is out of range; its extent is 7"):
        jax.block_until_ready(call(X, np.array([index], np.int32)))


def test_debug_mode_takes_negative_indices():
    call = wp.jax_kernel(gather, launch_dims=6, output_dims=6, mode="debug")
    np.testing.assert_array_equal(call(X, J)[0], X[J])


def test_what_is_certain_before_a_launch():
    x, out = wp.array(X), wp.zeros(9, dtype=float)
    wp.launch(periodic, dim=7, inputs=[x, 7], outputs=[out])
    with pytest.raises(IndexError, match="index 7 of axis 0 of array x is out of range; its extent is 7"):
        wp.launch(periodic, dim=9, inputs=[x, 0], outputs=[out])


# Kernels that show that their indices are not negative have them as they are written.

NATURAL = {
    "thread": "out[i] = x[i]",
    "next": "if i + 1 < x.shape[0]:\n        out[i] = x[i + 1]",
    "multiple": "out[i] = x[2 * i + 1] + x[i * j[0] * 0]",
    "greater": "if i > 0:\n        out[i] = x[i - 1]",
    "not first": "if i != 0:\n        out[i] = x[i - 1]",
    "returns": "if i == 0:\n        return\n    out[i] = x[i - 1]",
    "inside": "if i >= 2 and i < 5:\n        out[i] = x[i - 2]",
    "either": "if i < 2 or i > 5:\n        return\n    out[i] = x[i - 2]",
    "chained": "if 2 <= i < 5:\n        out[i] = x[i - 2]",
    "tested": "k = j[i]\n    if k >= 0:\n        out[i] = x[k]",
    "tested and": "k = j[i]\n    if k >= 0 and x[k] > 1.0:\n        out[i] = x[k]",
    "not negative": "k = j[i]\n    if not k < 0:\n        out[i] = x[k]",
    "order of two": "k = j[0]\n    if i >= k:\n        out[i] = x[i - k]",
    "clamped": "out[i] = x[wp.clamp(j[i], 0, x.shape[0] - 1)] + x[wp.max(i - 1, 0)] + x[wp.min(i + 1, x.shape[0] - 1)]",
    "chosen": "out[i] = x[i - 1 if i > 0 else x.shape[0] - 1] + x[wp.where(i > 0, i - 1, 0)]",
    "remainder": "out[i] = x[(i + 1) % x.shape[0]] + x[(i - 1 + x.shape[0]) % x.shape[0]] + x[(i + 1) % 7]",
    "products": "out[i] = x[(i * x.shape[0] + 3) * 2] + x[wp.uint32(i * 7919) % wp.uint32(x.shape[0])]",
    "quotient": "out[i] = x[i // 2] + x[i / 2] + x[i >> 1] + x[j[i] & 3]",
    "unsigned": "out[i] = x[wp.uint32(j[i])] + x[wp.uint8(3)]",
    "loop": "for k in range(i, 3):\n        out[i] += x[k]",
    "loop down": "for k in range(x.shape[0] - 1, -1, -1):\n        out[i] += x[k]",
    "from one": "for k in range(1, x.shape[0]):\n        out[i] += x[k - 1]",
    "counted": "k = int(0)\n    while k < j[0]:\n        out[i] += x[k]\n        k += 2",
    "counted down": "k = int(5)\n    while k > 0:\n        k -= 1\n        out[i] += x[k]",
    "together": "k = int(0)\n    m = int(1)\n    while k < 5:\n        k += m\n        m = k + 1\n"
    "        out[i] += x[k - 1] if k > 0 else x[m]",
    "component": "v = wp.vec3(1.0, 2.0, 3.0)\n    for k in range(j[0]):\n        if k < 3:\n            out[i] += v[k]",
}
COUNTED = {
    "data": "out[i] = x[j[i]]",
    "before": "out[i] = x[i - 1]",
    "parameter": "out[i] = x[i * n + 1]",
    "remainder": "out[i] = x[(i - 1) % x.shape[0]]",
    "hash": "out[i] = x[(i * 1103515245 + 12345) % 7]",
    "hash of a loop": "h = int(1)\n    for k in range(3):\n        h = h * 1103515245 + i\n        out[i] += x[h % 7]",
    "hash that is compared": "k = j[i]\n    if k >= i * 1103515245:\n        out[i] = x[k % 7]",
    "hash that is shifted": "out[i] = x[(i * 1103515245) >> 29]",
    "narrower": "out[i] = x[wp.int32(wp.int64(i) * wp.int64(1103515245)) % 7]",
    "extent of another": "out[i] = x[wp.min(i, j.shape[0] - 1)]",
    "wrong side": "if i > 0:\n        out[i] = 1.0\n    else:\n        out[i] = x[i - 1]",
    "one of two": "if i > 0 or n > 0:\n        out[i] = x[i - 1]",
    "tested after": "k = j[i]\n    out[i] = x[k]\n    if k >= 0:\n        out[i] += 1.0",
    "loop": "for k in range(j[i], 3):\n        out[i] += x[k]",
    "loop down": "for k in range(3, j[i], -1):\n        out[i] += x[k]",
    "falls": "k = int(3)\n    while x[k] > 0.0:\n        k -= 1\n    out[i] = x[k]",
    "falls with another": "k = int(9)\n    m = int(1)\n    while m < 6:\n        k = k - m\n        m = m + 1\n"
    "        out[i] += x[k]",
    "tested before it changed": "k = int(9)\n    while k > 3:\n        k -= 5\n        out[i] += x[k]",
    "component": "v = wp.vec3(1.0, 2.0, 3.0)\n    out[i] = v[j[i]]",
}
TEXT = (
    "@wp.kernel\ndef k(x: wp.array[float], j: wp.array[int], n: int, out: wp.array[float]):\n    i = wp.tid()\n    {}\n"
)


def counted(body: str) -> tuple[Any, int]:
    """A kernel of this text, and how many of its indices count from the end."""
    kernel = define(TEXT.format(body))["k"]
    ops = walk(kernel.specialize(None).body)
    return kernel, sum(isinstance(op, Call) and op.builtin.name == "from_end" for op in ops)


@pytest.mark.parametrize("name", NATURAL)
def test_indices_that_are_never_negative(name):
    assert counted(NATURAL[name])[1] == 0


@pytest.mark.parametrize("name", COUNTED)
def test_indices_that_may_be_negative(name):
    assert counted(COUNTED[name])[1] > 0


# Random indices.


@st.composite
def expressions(draw: Any, depth: int = 3) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(["i", "n", "k", "j[i]", "x.shape[0]", "1", "2", "3"]))
    a, b = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    return draw(
        st.sampled_from(
            [f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"wp.min({a}, {b})", f"wp.max({a}, {b})", f"({a} % 5)",
             f"wp.abs({a})", f"wp.where({a} > {b}, {a} - {b}, {b})", f"({a} // 3)", f"({a} / 3)", f"({a} & {b})",
             f"(({a} + i) * 1103515245 + {b})"]
        )
    )  # fmt: skip


@given(index=expressions(), test=expressions(), other=expressions())
def test_random_indices(index: str, test: str, other: str):
    """Reduced to the array's range by `%`, whose results are of both signs; the conditions around tell of some."""
    body = (
        f"for k in range(n, n + 4):\n        e = {index}\n        if {test} >= {other}:\n"
        f"            e = e - ({test})\n        if e >= {other} and ({other}) > -3:\n"
        f"            out[i] += x[e % 7] * 2.0\n        else:\n            out[i] += x[e % 7]"
    )
    kernel, _ = counted(body)
    for n in (-2, 1):
        outputs(kernel, 5, X, np.array([-3, -1, 0, 2, 5]), n, np.zeros(5))


# Machine code.


@wp.kernel
def row_sums(start: wp.array[int], columns: wp.array[int], values: wp.array[float], x: wp.array[float],
             out: wp.array[float]):  # fmt: skip
    i = wp.tid()
    total, weight = 0.0, 1.0
    for k in range(start[i], start[i + 1]):
        total += weight * values[k] * x[columns[k]] + x[columns[k - 1]]
        weight += 1.0  # all lanes that are on agree about it, and nobody reads it afterwards
    out[i] = total


@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_loops_that_begin_below_zero_in_some_lanes(width):
    """Lanes of one loop run two versions of it."""
    rng = np.random.default_rng(width)
    values, columns = rng.integers(0, 9, 40).astype(np.float32), rng.integers(-30, 30, 40).astype(np.int32)
    x = rng.integers(0, 9, 30).astype(np.float32)
    for low in (-20, 1):
        start = np.sort(rng.integers(low, 20, 34)).astype(np.int32)
        expected = np.zeros(33, np.float32)
        for i in range(33):
            for n, k in enumerate(range(start[i], start[i + 1])):
                expected[i] += (n + 1) * values[k] * x[columns[k]] + x[columns[k - 1]]
        buffers = [start, columns, values, x, np.zeros(33, np.float32)]
        run_cpu(prepare(row_sums.specialize(None), fma=False), (33,), buffers, width=width)
        np.testing.assert_array_equal(buffers[-1], expected)


@pytest.mark.parametrize("index_bits", [32, 64])
def test_cuda_text(index_bits):
    x = np.random.default_rng(0).integers(0, 9, 30).astype(np.float32)
    ir = prepare(periodic.specialize(None))
    buffers = [x, np.array(2, np.int32), np.zeros(30, np.float32)]
    hostcuda.run_host(ir, (30,), buffers, index_bits)
    np.testing.assert_array_equal(buffers[-1], np.roll(x, 1) + 10 * np.roll(x, 2) + 100 * np.roll(x, 3))


# Derivatives of what is read and written.


@wp.kernel
def recurrence(x: wp.array[wp.float64], offsets: wp.array[int], y: wp.array[wp.float64]):
    i = wp.tid()
    s = offsets[i]
    y[s] = x[s]
    for k in range(offsets[i + 1] - s - 1):
        y[s + k + 1] = wp.sin(y[s + k]) * x[s + k + 1]


def test_gradients_through_negative_indices_of_what_is_read_and_written_fail():
    """The loop has as many iterations as data say: no record of all that it reads. See vjp/aliases.py."""
    with jax.enable_x64(True):
        x = np.linspace(0.3, 1.0, 6)
        call = wp.jax_kernel(recurrence, launch_dims=2, output_dims=6)
        gradient = jax.grad(lambda x, offsets: call(x, offsets)[0].sum())
        good = gradient(x, np.array([0, 3, 6], np.int32))
        assert np.isfinite(good).all()
        values = call(x, np.array([-3, 0, 3], np.int32))[0]
        np.testing.assert_array_equal(values, np.roll(call(np.roll(x, 3), np.array([0, 3, 6], np.int32))[0], 3))
        errors = (ValueError, jax.errors.JaxRuntimeError)
        for f in (gradient, jax.jit(gradient)):
            with pytest.raises(errors, match="y is read and written, and its index -3 counts from") as error:
                jax.block_until_ready(f(x, np.array([-3, 0, 3], np.int32)))
            assert "in recurrence: thread (0,)" in str(error.value)
            assert "y[s] = x[s]" in str(error.value)


def _differentiated(kernel, index, width=3):
    """The sum of the last result: its gradient, and what its derivatives by x add up to, by differences and forward."""
    with jax.enable_x64(True):
        x = np.linspace(0.3, 1.2, 4)
        index, eps = np.array(index, np.int32), 1e-6
        call = wp.jax_kernel(kernel, num_outputs=2, output_dims={"a": (4, width), "out": 4})
        last = lambda x: call(x, index)[1]  # noqa: E731
        expected = (last(x + eps) - last(x - eps)) / (2 * eps)
        forward = jax.jvp(last, (x,), (np.ones(4),))[1]
        np.testing.assert_allclose(forward, expected, rtol=1e-8)
        return np.array(jax.grad(lambda x: last(x).sum())(x)), np.array(expected)


@wp.kernel
def product_in_row(x: wp.array[wp.float64], j: wp.array[int], a: wp.array2d[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    a[i, j[i]] = x[i] * x[i]
    out[i] = a[i, j[i] - 3] * x[i]


@wp.kernel
def product_in_slice(x: wp.array[wp.float64], j: wp.array[int], a: wp.array2d[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    row = a[i, 0:]
    row[j[i]] = x[i] * x[i]
    out[i] = row[j[i] - 3] * x[i]


@wp.kernel
def row_decides(x: wp.array[wp.float64], j: wp.array[int], a: wp.array2d[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    a[i, j[i]] = wp.float64(7.0)
    out[i] = x[i]
    if a[i, j[i] - 3] > wp.float64(5.0):
        out[i] = x[i] * x[i]


@pytest.mark.parametrize("kernel", [product_in_row, product_in_slice, row_decides])
def test_derivatives_where_a_written_element_is_read_from_the_end(kernel):
    """It is one element by two names in the first launch, and two elements in the second one."""
    for index, width in (([1, 2, 0, 1], 3), ([3, 4, 3, 5], 6)):
        gradient, expected = _differentiated(kernel, index, width)
        np.testing.assert_allclose(gradient, expected, rtol=1e-8)


@wp.kernel
def counted_in_row(x: wp.array[wp.float64], j: wp.array[int], a: wp.array2d[int], out: wp.array[wp.float64]):
    i = wp.tid()
    a[i, j[i]] = 1
    y = x[a[i, j[i] - 3]] * x[i]
    a[i, j[i]] = 3
    out[i] = wp.float64(a[i, j[i] - 3]) * y * y


@wp.kernel
def counted_in_loop(x: wp.array[wp.float64], j: wp.array[int], a: wp.array2d[int], out: wp.array[wp.float64]):
    i = wp.tid()
    total = wp.float64(0.0)
    for k in range(20):
        at = j[i] + k % 3
        a[i, at - 3] = a[i, at - 3] + k
        total += x[a[i, at] % 4] * wp.sin(x[i])
        a[i, at] = 1
    out[i] = total


@pytest.mark.parametrize("kernel", [counted_in_row, counted_in_loop])
def test_gradients_where_written_integers_are_read_from_the_end(kernel):
    """They may be indices, so the sweep has to know them."""
    gradient, expected = _differentiated(kernel, [0, 0, 0, 0])
    np.testing.assert_allclose(gradient.sum(), expected.sum(), rtol=1e-8)


@wp.kernel
def counted_by_row(x: wp.array[wp.float64], j: wp.array[int], a: wp.array2d[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    y = x[i]
    while a[i, j[i] - 3] < wp.float64(5.0):
        a[i, j[i]] += wp.float64(1.0)
        y *= x[i]
    out[i] = y


def test_sweeps_end_where_a_written_element_that_is_read_from_the_end_counts_iterations():
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="read here is written later by the same thread"):
        _differentiated(counted_by_row, [1, 2, 0, 1])
