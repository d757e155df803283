"""What `for` goes over besides ranges, and variables that a loop sets first and that are read after it."""

# ruff: noqa: B905, F841, RUF046, UP018  (kernels are written for their own sake)

from __future__ import annotations

import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import define, outputs

import jaxwarp as wp
from jaxwarp.errors import KernelError, KernelSyntaxError, KernelTypeError
from jaxwarp.ir.nodes import For, While, walk

LEAST, MOST = -(2**31), 2**31 - 1


def loops(kernel: wp.Kernel) -> list[str]:
    return [type(op).__name__ for op in walk(kernel.specialize().body) if isinstance(op, (For, While))]


@wp.kernel
def backwards(start: wp.array[int], stop: wp.array[int], step: wp.array[int], out: wp.array2d[int]):
    t = wp.tid()
    count = int(0)
    for i in reversed(range(start[t], stop[t], step[t])):
        if count < 31:
            out[t, count] = i
        count += 1
    out[t, 31] = count


def test_reversed_range_is_pythons():
    cases = [(a, b, s) for a in range(-4, 5) for b in range(-4, 5) for s in (-3, -2, -1, 1, 2, 3)]
    cases += [(MOST - 2, MOST, 1), (LEAST, LEAST + 3, 1), (LEAST + 2, LEAST, -1), (MOST, LEAST, -(2**30))]
    got = outputs(backwards, len(cases), *zip(*cases), np.zeros((len(cases), 32)))
    for row, case in zip(got, cases, strict=True):
        expected = list(reversed(range(*case)))
        assert row[31] == len(expected), case
        assert row[: len(expected)].tolist() == expected, case


@wp.kernel
def backwards_with_steps_of_one(n: int, last: int, out: wp.array[int]):
    count = int(0)
    for i in reversed(range(n)):
        out[count] = i
        count += 1
    for i in reversed(range(2, n)):
        if i == last:
            break
        out[count] = i
        count += 1
    for i in reversed(range(3)):
        out[count] = wp.static(i * 10)
        count += 1
    for i in reversed(reversed(range(2))):
        out[count] = i
        count += 1


@pytest.mark.parametrize(("n", "last"), [(6, 3), (0, 0), (LEAST, 0), (3, 2)])
def test_reversed_steps_of_one(n, last):
    expected = list(reversed(range(n)))
    for i in reversed(range(2, n)):
        if i == last:
            break
        expected.append(i)
    expected += [20, 10, 0, 0, 1]
    got = outputs(backwards_with_steps_of_one, 1, n, last, np.zeros(20))
    assert got[: len(expected)].tolist() == expected
    assert loops(backwards_with_steps_of_one) == ["For", "While"]


def test_of_unsigned_integers():
    @wp.kernel
    def k(n: wp.uint8, out: wp.array[wp.uint8]):
        count = int(0)
        for i in reversed(range(n)):
            out[count] = i
            count += 1

    assert outputs(k, 1, 3, [9] * 4).tolist() == [2, 1, 0, 9]
    assert outputs(k, 1, 0, [9] * 4).tolist() == [9] * 4


@wp.func
def polynomial(x: float, coefficients: tuple[float, float, float]):
    total = float(0.0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


@wp.kernel
def over_elements(v: wp.array[wp.vec3], m: wp.array[wp.mat22], out: wp.array[float]):
    i = wp.tid()
    total = polynomial(v[i][0], (1.0, 2.0, 3.0))
    for c in v[i]:
        total += c * c
    for row in m[i]:
        for c in row:
            total += c
    for k, (a, b) in enumerate(((1.0, 2.0), (3.0, 4.0))):
        total += float(k) * a * b
    for a, b in zip(v[i], (1.0, 10.0, 100.0)):
        total += a * b
    for k, a in zip(range(1, 4), v[i]):
        total += float(k) * a
    for n in v.shape:
        total += float(n)
    out[i] = total


def test_elements_of_tuples_vectors_matrices_and_shapes():
    v, m = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    x = v[:, 0]
    expected = 1 + 2 * x + 3 * x * x + (v * v).sum(1) + m.sum((1, 2)) + 12 + v @ [1, 10, 100] + v @ [1, 2, 3] + 2
    assert outputs(over_elements, 2, v, m, np.zeros(2)).tolist() == expected.tolist()
    assert loops(over_elements) == []


def test_a_loop_over_elements_is_differentiated():
    call = wp.jax_kernel(over_elements)
    v, m = jnp.array([[1.0, 2.0, 3.0]]), jnp.ones((1, 2, 2))
    grad = jax.grad(lambda v: call(v, m)[0].sum())(v)
    assert grad.tolist() == [[2.0 + 6.0 + 2.0 + 1.0 + 1.0, 4.0 + 10.0 + 2.0, 6.0 + 100.0 + 3.0]]
    tangent = jax.jvp(lambda v: call(v, m)[0], (v,), (jnp.array([[0.0, 1.0, 0.0]]),))[1]
    assert tangent.tolist() == [16.0]


@wp.kernel
def left_early(n: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = -1.0
    for k, v in enumerate((n[i], 5, 7)):
        if v > 5:
            out[i] = float(10 * k + v)
            break
    for v in wp.vec2(1.0, 2.0):
        if v == float(n[i]):
            out[i] += 0.5
            return
        if n[i] == 7:
            continue
        out[i] += 0.25


def test_elements_of_a_loop_that_is_left_early():
    assert outputs(left_early, 4, [6, 1, 2, 7], np.zeros(4)).tolist() == [6.5, 27.5, 27.75, 7.0]


def test_a_loop_left_early_needs_values_of_one_type():
    with pytest.raises(KernelTypeError, match="goes over values of one type"):
        define(
            """
@wp.kernel
def k(n: int, out: wp.array[float]):
    for v in (wp.vec2(1.0), 2.0):
        if n == 1:
            break
"""
        )["k"].specialize()


# What a loop sets first


@wp.kernel
def set_inside(x: wp.array[float], n: int, out: wp.array2d[float]):
    i = wp.tid()
    for j in range(20):
        y = x[j]
        if y > x[19] - float(i):
            z = y * y
            break
        z = -y
    k = int(0)
    while True:
        turn = wp.sin(y) + float(k)
        k += 1
        if k > n:
            break
    for j in range(30):
        if j == n:
            last, square = j, wp.vec2(x[j] * x[j])
            continue
        last, square = j + 100, wp.vec2(x[0], float(j))
    out[i, 0] = y
    out[i, 1] = z
    out[i, 2] = turn
    out[i, 3] = float(j)
    out[i, 4] = float(last)
    out[i, 5] = square[1]


def test_what_every_path_of_a_loop_sets_is_read_after_it():
    x = np.linspace(0.0, 3.0, 32, dtype=np.float32)
    got = outputs(set_inside, 3, x, 3, np.zeros((3, 6)))
    for i, row in enumerate(got):
        j = next((j for j in range(20) if x[j] > x[19] - i), 19)
        z = x[j] * x[j] if x[j] > x[19] - i else -x[j]
        np.testing.assert_allclose(row, [x[j], z, np.sin(x[j]) + 3, 29, 129, 29], rtol=1e-6)


def test_what_a_loop_sets_first_is_differentiated():
    call = wp.jax_kernel(set_inside, launch_dims=1, output_dims=(1, 6))
    x = jnp.linspace(0.0, 3.0, 32)

    @jax.jit
    def plain(x):
        j = 19  # x[19] > x[19] - 0 never holds
        return -x[j] + jnp.sin(x[j]) + x[j]

    total = lambda x: call(x, 3)[0][0, :3].sum()  # noqa: E731
    np.testing.assert_allclose(jax.grad(total)(x), jax.grad(plain)(x), rtol=1e-6)
    np.testing.assert_allclose(jax.hessian(total)(x), jax.hessian(plain)(x), rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(total, (x,), (x,))[1], jax.jvp(plain, (x,), (x,))[1], rtol=1e-6)


@wp.kernel
def holds_at_first(x: wp.array[float], out: wp.array2d[float]):
    i = wp.tid()
    size = float(0.0)
    n = 10
    tile = wp.tile_zeros(shape=2, dtype=float)
    while size < wp.float32(2.5) and n > 3:
        found = x[i] * float(n)
        tile = wp.tile_load(x, shape=2, offset=i)
        part = tile * 2.0
        size += x[i + 1]
        n -= 1
    q = wp.uint8(255)
    while not q < wp.uint8(255):
        last = found + float(q)
        q += wp.uint8(1)
    out[i, 0] = found
    out[i, 1] = last
    out[i, 2] = part[1]


def test_a_loop_whose_condition_holds_at_first():
    x = np.array([0.3, 0.5, 1.7, 0.25, 3.0, 4.0], np.float32)
    got = outputs(holds_at_first, 4, x, np.zeros((4, 3)))
    for i, row in enumerate(got):
        n = next((n for n in range(10, 3, -1) if x[i + 1] * (11 - n) >= 2.5), 4)
        np.testing.assert_allclose(row, [x[i] * n, x[i] * n + 255, 2 * x[i + 1]], rtol=1e-6)
    call = wp.jax_kernel(holds_at_first, launch_dims=4, output_dims=(4, 3))
    weights = jnp.arange(1.0, 13.0).reshape(4, 3)
    slope = jax.grad(lambda x: (call(x)[0] * weights).sum())(jnp.asarray(x))
    factors = np.array([next((n for n in range(10, 3, -1) if x[i + 1] * (11 - n) >= 2.5), 4) for i in range(4)])
    expected = np.zeros(6)
    expected[:4] += factors * np.asarray(weights[:, 0] + weights[:, 1])
    expected[1:5] += 2 * np.asarray(weights[:, 2])
    np.testing.assert_allclose(slope, expected, rtol=1e-6)
    tangent = jax.jvp(lambda x: (call(x)[0] * weights).sum(), (jnp.asarray(x),), (jnp.ones(6),))[1]
    np.testing.assert_allclose(tangent, expected.sum(), rtol=1e-6)


UNSET = {
    "a while whose condition fails at first": "m = 5\n    while m < 3:\n        y = 1.0\n        m += 1",
    "a while by what an array holds": "m = out[0]\n    while m < 3.0:\n        y = 1.0\n        m = y + 9.0",
    "a while by floats that are computed": "m = float(1.0) + 1.0\n    while m < 3.0:\n        y = 1.0\n        m += y",
    "a while by equal numbers": "m = float(0.1)\n    while m > 0.1:\n        y = 1.0\n        m -= y",
    "a loop that may make no iteration": "for j in range(n):\n        y = 1.0",
    "a while that may make no iteration": "while n > 3:\n        y = 1.0\n        n -= 1",
    "a path that leaves the loop before": "for j in range(20):\n        if n == j:\n            break\n        y = 1.0",
    "a path that goes on before": "for j in range(20):\n        if n == j:\n            continue\n        y = 1.0",
    "the same, unrolled": "for j in range(2):\n        if n == j:\n            continue\n        y = 1.0",
    "a break before it in an endless loop": "while True:\n        if n == 3:\n            break\n        y = 1.0",
}


@pytest.mark.parametrize("body", UNSET.values(), ids=UNSET)
def test_what_some_path_does_not_set_has_no_value(body):
    kernel = define(f"@wp.kernel\ndef k(n: int, out: wp.array[float]):\n    {body}\n    out[0] = y\n")["k"]
    for n in (0, 1, 3, 4, 19, 30):
        out, names = wp.zeros(1), {"n": n, "out": [0.0]}
        if body.startswith("while True") and n != 3:
            continue  # it never ends
        exec(textwrap.dedent("    " + body), names)
        if "y" in names:
            wp.launch(kernel, 1, [n, out])
            assert out.list() == [1.0]
        else:
            with pytest.raises(wp.CheckError, match=r"thread \(0,\): y is not defined here"):
                wp.launch(kernel, 1, [n, out])


def test_continue_in_an_unrolled_loop():
    @wp.kernel
    def k(n: int, out: wp.array[int]):
        total = int(0)
        for j in range(4):
            if j == n:
                continue
            if j == 2:
                continue
            total += wp.static(10**j)
            step = j
        out[0] = total
        out[1] = j

    assert [outputs(k, 1, n, [0, 0]).tolist() for n in (0, 1, 2, 9)] == [[1010, 3], [1001, 3], [1011, 3], [1011, 3]]
    assert loops(k) == []


@wp.kernel
def leaves_loops_over_one_element(out: wp.array2d[int]):
    i = wp.tid()
    for k in range(2 + i):
        for v in (k,):
            if v == 1:
                break
            out[i, 0] += 1
        out[i, 1] += 1
    for w in (i,):
        if w == 3:
            break
        if w == 4:
            return
        out[i, 2] = 1
    out[i, 3] = 1


def test_a_loop_over_one_element_is_left_alone():
    """Not the loop around it, nor the statements after it."""
    expected = [[1 + i, 2 + i, i < 3 or i == 5, i != 4] for i in range(6)]
    np.testing.assert_array_equal(outputs(leaves_loops_over_one_element, 6, np.zeros((6, 4), np.int32)), expected)


@wp.struct
class Running:
    last: float
    total: float


@wp.kernel
def loops_over_parts(out: wp.array2d[float]):
    i = wp.tid()
    s = Running()
    for s.last in (1.0, 2.0, 4.0):
        s.total += s.last
        if s.total > float(i):
            break
    out[i, 0] = s.total
    v, place = wp.vec3(0.0), i & 1
    for v[place] in (1.0, 2.0):
        if v[place] > 1.0:
            place = 2
    out[i, 1], out[i, 2], out[i, 3] = v[0], v[1], s.last


def test_the_variable_of_a_loop_is_a_part_of_a_value():
    expected = [[1, 2, 0, 1], [3, 0, 2, 2], [3, 2, 0, 2], [7, 0, 2, 4], [7, 2, 0, 4]]
    np.testing.assert_array_equal(outputs(loops_over_parts, 5, np.zeros((5, 4), np.float32)), expected)


@pytest.mark.parametrize(
    ("iterable", "text"),
    [
        ("n", "a for loop goes over range.*got int32"),
        ("enumerate(range(n))", "enumerate goes over what has a length known"),
        ("zip(range(100), (1, 2))", "zip goes over what has a length known"),
        ("enumerate((1, 2), 1)", "enumerate: expected 1 argument, got 2"),
        ("reversed(out)", "a for loop goes over range"),
    ],
)
def test_refused(iterable, text):
    source = f"@wp.kernel\ndef k(n: int, out: wp.array[float]):\n    for x in {iterable}:\n        pass\n"
    with pytest.raises((KernelSyntaxError, KernelTypeError), match=text):
        define(source)["k"].specialize()


def test_elements_are_taken_apart():
    with pytest.raises(KernelError, match="cannot unpack"):
        define("@wp.kernel\ndef k(n: int):\n    for a, b in (1, 2):\n        pass\n")["k"].specialize()
