"""Values of the kernel language: literals, scalars, vectors, matrices, tuples, constants, casts, builtin functions."""

# ruff: noqa: B002  (kernels are written for their own sake)

from __future__ import annotations

import enum
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import define, outputs, run

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError
from jaxwarp.types import SCALARS, Array

N = 3
SCALE = 0.5
OFFSETS = (1, -1, 2)
DIRECTIONS = ((1, 0), (0, 1))
AXIS = wp.vec3(1.0, 2.0, 3.0)
HALF = np.float64(0.5)
vec5 = wp.types.vector(length=5, dtype=wp.float32)
mat23 = wp.types.matrix(shape=(2, 3), dtype=float)


class Kind(enum.IntEnum):
    SOLID = 1
    FLUID = 7


class settings:
    dt = 0.25
    gravity = wp.vec3(0.0, -9.0, 0.0)


@wp.kernel
def literals(out: wp.array[float], ints: wp.array[int]):
    x = 1
    y = 2.5
    out[0] = x + y
    out[1] = 7 / 2
    out[2] = 7.0 / 2
    ints[0] = 7 // 2 - 1
    ints[1] = -7 % 3
    ints[2] = 1 << 4 | 3
    ints[3] = -7 // 3
    out[3] = 2.0**3.0
    out[4] = -(-x)


def test_literals_take_the_type_of_what_they_meet():
    out, ints = run(literals, 1, np.zeros(5), np.zeros(4))
    np.testing.assert_array_equal(out, [3.5, 3.0, 3.5, 8.0, 1.0])
    np.testing.assert_array_equal(ints, [2, -1, 19, -3])  # the remainder as in C, the quotient as in Python


@wp.kernel
def integer_operators(a: wp.array[int], b: wp.array[int], out: wp.array2d[int]):
    i = wp.tid()
    x = a[i]
    y = b[i]
    out[i, 0] = x // y
    out[i, 1] = x % y
    out[i, 2] = x / y
    out[i, 3] = x & y
    out[i, 4] = x | y
    out[i, 5] = x ^ y
    out[i, 6] = ~x
    out[i, 7] = x << 3
    out[i, 8] = x >> 1
    out[i, 9] = wp.abs(x) + abs(y)
    out[i, 10] = max(x, y) * 1000 + min(x, y)


def test_integer_operators():
    a, b = np.array([7, -7, 7, -7, 0], np.int32), np.array([2, 2, -2, -3, 5], np.int32)
    out = outputs(integer_operators, 5, a, b, np.zeros((5, 11)))
    quotient = np.trunc(a / b)
    expected = [np.floor_divide(a, b), a - quotient * b, quotient, a & b, a | b, a ^ b, ~a, a << 3, a >> 1]
    expected.append(abs(a) + abs(b))
    expected.append(np.maximum(a, b) * 1000 + np.minimum(a, b))
    np.testing.assert_array_equal(out, np.stack(expected, -1))


DIVISORS = (1, 2, 4, 64, 3, 7, -1, -2, -3, -8)


@pytest.mark.parametrize("dtype", [t for t in SCALARS if t.is_int], ids=repr)
def test_integer_floor_division_is_pythons(dtype):
    """By what data holds, and by constants: powers of two and others, of both signs, at the limits of the type."""
    divisors = [b for b in DIVISORS if dtype.is_signed or b > 0]
    lines = [f"    out[i, {k}] = a[i] // dtype({b})" for k, b in enumerate(divisors)]
    head = "@wp.kernel\ndef divide(a: wp.array[dtype], b: wp.array[dtype], out: wp.array2d[dtype]):\n    i = wp.tid()"
    source = "\n".join([head, *lines, f"    out[i, {len(lines)}] = a[i] // b[i]"])
    kernel = define(source, dtype=dtype)["divide"]
    limits = np.iinfo(dtype.numpy)
    near = [*range(max(limits.min, -9), 10), limits.min, limits.min + 1, limits.max - 1, limits.max]
    pairs = [(x, y) for x in near for y in (*divisors, 0, limits.max, limits.min)]
    expected = [[x // b for b in divisors] + [x // y if y else 0] for x, y in pairs]
    wrapped = [[limits.min if q > limits.max else q for q in row] for row in expected]
    a, b = (np.array(column, dtype.numpy) for column in zip(*pairs, strict=True))
    got = outputs(kernel, len(pairs), a, b, np.zeros((len(pairs), len(lines) + 1), dtype.numpy))
    np.testing.assert_array_equal(got, np.array(wrapped, dtype.numpy))


@wp.kernel
def captured(out: wp.array[float], ints: wp.array[int], wide: wp.array[wp.float64]):
    i = wp.tid()
    out[0] = SCALE * AXIS[1] + AXIS.z
    out[1] = settings.dt + settings.gravity.y
    out[2] = math.pi
    out[3] = wp.PI + float(OFFSETS[2])
    wide[0] = HALF + 1.0
    ints[0] = Kind.FLUID + Kind.SOLID
    ints[1] = OFFSETS[-1] * N + DIRECTIONS[1][1]
    for d in range(len(OFFSETS)):
        ints[2 + d] = OFFSETS[d] + i


def test_captured_constants():
    out, ints, wide = run(captured, 1, np.zeros(4), np.zeros(5), np.zeros(1))
    np.testing.assert_allclose(out, [4.0, -8.75, math.pi, math.pi + 2], rtol=1e-6)
    np.testing.assert_array_equal(ints, [8, 7, 1, -1, 2])
    assert wide[0] == 1.5


@pytest.mark.parametrize("dtype", SCALARS, ids=repr)
def test_every_scalar_type_casts_and_copies(dtype):
    source = """
@wp.kernel
def convert(a: wp.array[dtype], out: wp.array[dtype], floats: wp.array[float], ints: wp.array[wp.int64]):
    i = wp.tid()
    x = a[i]
    out[i] = dtype(float(x))
    floats[i] = wp.float32(x)
    ints[i] = wp.int64(x)
"""
    kernel = define(source, dtype=dtype)["convert"]
    a = np.array([0, 1, 1, 0] if dtype is wp.bool else [0, 1, 100, 7]).astype(dtype.numpy)
    out, floats, ints = run(kernel, 4, a, np.zeros(4), np.zeros(4), np.zeros(4))[1:]
    np.testing.assert_array_equal(out, a)
    np.testing.assert_array_equal(floats, a.astype(np.float32))
    np.testing.assert_array_equal(ints, a.astype(np.int64))


@wp.kernel
def vectors(a: wp.array[wp.vec3], m: wp.array[wp.mat33], s: float, out: wp.array2d[float], v: wp.array[wp.vec3]):
    i = wp.tid()
    x = a[i]
    y = wp.vec3(1.0, 2.0, s)
    out[i, 0] = wp.dot(x, y)
    out[i, 1] = wp.length(x)
    out[i, 2] = x[0] + x.y * x[-1]
    out[i, 3] = m[i][1, 2] + m[i][2][0]
    out[i, 4] = wp.determinant(m[i])
    out[i, 5] = (wp.transpose(m[i]) @ x)[2]
    v[i] = m[i] * x + wp.cross(x, y) * 2.0 - y / s + wp.vec3(1.0)


def test_vectors_and_matrices():
    rng = np.random.default_rng(0)
    a, m = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(4, 3, 3)).astype(np.float32)
    s, y = 3.0, np.array([1.0, 2.0, 3.0], np.float32)
    out, v = run(vectors, 4, a, m, s, np.zeros((4, 6)), np.zeros((4, 3)))[3:]
    expected = [a @ y, np.linalg.norm(a, axis=1), a[:, 0] + a[:, 1] * a[:, 2], m[:, 1, 2] + m[:, 2, 0]]
    expected += [np.linalg.det(m), np.einsum("nij,ni->nj", m, a)[:, 2]]
    np.testing.assert_allclose(out, np.stack(expected, -1), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(v, np.einsum("nij,nj->ni", m, a) + 2 * np.cross(a, y) - y / s + 1, rtol=2e-5, atol=1e-5)


@wp.kernel
def components(n: int, out: wp.array[wp.vec4], rows: wp.array[wp.mat33]):
    i = wp.tid()
    v = wp.vec4(0.0)
    v.x = 1.0
    v[1] = 2.0
    v[-1] += 4.0
    v[i] += 10.0
    v[i % 2] *= 2.0
    for k in range(n):
        v[k] -= 1.0
    out[i] = v
    m = wp.mat33(0.0)
    m[0, 1] = 5.0
    m[i] = wp.vec3(1.0, 2.0, 3.0)
    m[i, i] += 100.0
    m[2][0] = 7.0
    m[1, i] *= -1.0
    rows[i] = m


def test_components_are_written_by_constant_and_run_time_index():
    out, rows = run(components, 3, 2, np.zeros((3, 4)), np.zeros((3, 3, 3)))[1:]
    for i in range(3):
        v = np.array([1.0, 2.0, 0.0, 4.0])
        v[i] += 10
        v[i % 2] *= 2
        v[:2] -= 1
        np.testing.assert_array_equal(out[i], v)
        m = np.zeros((3, 3))
        m[0, 1] = 5
        m[i] = [1, 2, 3]
        m[i, i] += 100
        m[2, 0] = 7
        m[1, i] *= -1
        np.testing.assert_array_equal(rows[i], m)


@wp.kernel
def constructors(a: wp.array[vec5], b: wp.array[mat23], c: wp.array[wp.vec2d], d: wp.array[wp.mat22]):
    a[0] = vec5(1.0, 2.0, 3.0, 4.0, 5.0)
    a[1] = wp.vector(1.0, 2.0, 3.0, 4.0, 5.0) * 2.0
    a[2] = wp.types.vector(length=5, dtype=float)(3.0)
    b[0] = mat23(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    b[1] = wp.matrix(2.0, shape=(2, 3))
    c[0] = wp.vec2d(wp.vec2(0.5, 1.5))
    c[1] = wp.vec2d(wp.float64(0.1), 0.2)
    d[0] = wp.identity(n=2, dtype=float)
    d[1] = wp.matrix_from_rows(wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0))


def test_constructors():
    a, b, c, d = run(constructors, 1, np.ones((3, 5)), np.ones((2, 2, 3)), np.ones((2, 2)), np.ones((2, 2, 2)))
    np.testing.assert_array_equal(a, [[1, 2, 3, 4, 5], [2, 4, 6, 8, 10], [3] * 5])
    np.testing.assert_array_equal(b, [[[1, 2, 3], [4, 5, 6]], [[2] * 3] * 2])
    np.testing.assert_array_equal(c, [[0.5, 1.5], [0.1, 0.2]])
    np.testing.assert_array_equal(d, [np.eye(2), [[1, 2], [3, 4]]])


@wp.kernel
def by_value(x: float, k: wp.uint8, v: wp.vec2, m: wp.mat22, flag: bool, out: wp.array[float]):
    out[0] = x
    out[1] = float(k)
    out[2] = v.x - v[1]
    out[3] = m[1, 0]
    if flag:
        out[4] = 1.0
    x = x + 1.0
    v.x = x
    out[5] = v.x


def test_scalars_vectors_and_matrices_by_value():
    out = outputs(by_value, 1, 1.5, 200, [3.0, 1.0], [[1.0, 2.0], [3.0, 4.0]], True, np.zeros(6))
    np.testing.assert_array_equal(out, [1.5, 200.0, 2.0, 3.0, 1.0, 2.5])


@wp.kernel
def tuples(out: wp.array[int]):
    a, (b, c) = 1, (2, 3)
    a, b = b, a
    d = e = (a, b, c)
    out[0] = d[0] * 100 + d[1] * 10 + e[-1]
    x, y = out[0], len(d)
    out[1] = x + y


def test_tuples():
    np.testing.assert_array_equal(outputs(tuples, 1, np.zeros(2)), [213, 216])


@wp.kernel
def functions(x: wp.array[float], out: wp.array2d[float]):
    i = wp.tid()
    a = x[i]
    out[i, 0] = wp.sin(a) + wp.exp(-a * a)
    out[i, 1] = wp.clamp(a, -0.5, 0.5) + wp.lerp(0.0, 2.0, a)
    out[i, 2] = wp.where(a > 0.0, 1.0, -1.0) + wp.sign(a)
    out[i, 3] = wp.floor(a) + wp.ceil(a) + round(a)
    out[i, 4] = wp.min(a, 0.0) + wp.max(wp.vec3(a, 1.0, -1.0))


def test_builtin_functions():
    x = np.array([-1.3, -0.2, 0.4, 2.7], np.float32)
    out = outputs(functions, 4, x, np.zeros((4, 5)))
    expected = np.stack(
        [
            np.sin(x) + np.exp(-x * x),
            np.clip(x, -0.5, 0.5) + 2 * x,
            2 * np.where(x > 0, 1, -1),
            np.floor(x) + np.ceil(x) + np.round(x),
            np.minimum(x, 0) + np.maximum(x, 1),
        ],
        -1,
    )
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


def test_builtin_functions_can_be_called_on_the_host():
    assert wp.sin(0.0) == 0.0
    np.testing.assert_array_equal(wp.cross(wp.vec3(1.0, 0.0, 0.0), wp.vec3(0.0, 1.0, 0.0)), [0, 0, 1])
    assert wp.static(3) == 3


@wp.kernel
def of_type(a: wp.array[wp.float64], v: wp.array[wp.vec2d]):
    i = wp.tid()
    x = a[i]
    a[i] = type(x)(2.0) * x + a.dtype(1.0)
    w = v[i]
    v[i] = type(w)(w.dtype(3.0), x) + v.dtype(w)


def test_types_of_values():
    a, v = run(of_type, 2, [1.0, 2.0], [[1.0, 1.0], [2.0, 2.0]])
    np.testing.assert_array_equal(a, [3.0, 5.0])
    np.testing.assert_array_equal(v, [[4.0, 2.0], [5.0, 4.0]])


@wp.kernel
def annotated(out: wp.array[wp.float64]):
    x: wp.float64 = 0.1
    n: int = 3
    for _ in range(n):
        x = x + 1.0
    out[0] = x


def test_an_annotated_variable_has_that_type():
    assert outputs(annotated, 1, [0.0])[0] == 0.1 + 1.0 + 1.0 + 1.0


def test_generic_kernels_are_specialised_by_types():
    from typing import Any, TypeVar

    T = TypeVar("T")
    source = """
@wp.kernel
def axpy(a: Any, x: wp.array[T], y: wp.array(dtype=T)):
    i = wp.tid()
    y[i] += x.dtype(a) * x[i]
"""
    kernel = define(source, Any=Any, T=T)["axpy"]
    assert kernel.is_generic
    for dtype in (wp.float32, wp.float64, wp.int32):
        kinds = (wp.int32, Array(dtype), Array(dtype))
        np.testing.assert_array_equal(outputs(kernel, 2, 3, [1, 2], [10, 20], kinds=kinds), [13, 26])
    assert kernel.specialize(kinds) is kernel.specialize(kinds)
    with pytest.raises(wp.KernelError, match="y: expected array\\[float32, 1\\], got array\\[float64, 1\\]"):
        kernel.specialize((wp.int32, Array(wp.float32), Array(wp.float64)))
    with pytest.raises(wp.KernelError, match="axpy is generic in a, x, y: the types of its arguments are needed"):
        kernel.specialize()


LIMIT = wp.constant(7)
AXIS = wp.constant(wp.vec3(1.0, 2.0, 3.0))


def test_constants_in_warps_spelling():
    @wp.kernel
    def kernel(out: wp.array[float]):
        out[0] = AXIS[1] * float(LIMIT)

    assert outputs(kernel, 1, [0.0])[0] == 14.0
    with pytest.raises(KernelTypeError, match="constant: expected a number, a vector, a matrix or a text, got list"):
        wp.constant([7])


@wp.func
def is_true(x: float):
    return 1 if x else 0


@wp.kernel
def small_constants(out: wp.array[int]):
    out[0], out[1], out[2] = is_true(1e-50), is_true(1e-40), is_true(-0.0)


def test_a_constant_that_is_zero_in_its_type_is_false():
    np.testing.assert_array_equal(outputs(small_constants, 1, np.ones(3, np.int32)), [0, 1, 0])


@wp.struct
class Chosen:
    rate: float
    axis: wp.vec3


@wp.kernel
def chooses(x: wp.array[float], p: Chosen, q: Chosen, out: wp.array[float]):
    i = wp.tid()
    s = wp.where(x[i] > 0.5, p, q)
    part = wp.where(value_if_true=x[0:2], value_if_false=x[2:4], cond=x[i] > 0.25)
    numbers, more = wp.where(x[i] > 0.75, (x[0], (2.0, x[1])), (x[3], (x[2], 5.0)))
    out[i] = s.rate * x[i] + s.axis[1] * x[i] * x[i] + part[1] + numbers * more[0] * more[1]


def test_where_of_structs_parts_of_arrays_and_tuples():
    @jax.jit
    def plain(x, p, q):
        def one(y):
            rate, axis = (jnp.where(y > 0.5, a, b) for a, b in ((p.rate, q.rate), (p.axis, q.axis)))
            product = jnp.where(y > 0.75, x[0] * 2.0 * x[1], x[3] * x[2] * 5.0)
            return rate * y + axis[1] * y * y + jnp.where(y > 0.25, x[1], x[3]) + product

        return jnp.sum(jax.vmap(one)(x) * jnp.arange(1.0, 5.0))

    call = wp.jax_kernel(chooses)
    x = jnp.array([0.1, 0.4, 0.6, 0.9], jnp.float32)
    p, q = Chosen(2.0, jnp.array([1.0, 2.0, 3.0])), Chosen(3.0, jnp.array([4.0, 5.0, 6.0]))
    found = lambda x, p, q: jnp.sum(call(x, p, q)[0] * jnp.arange(1.0, 5.0))  # noqa: E731
    for make in (lambda f: f, lambda f: jax.grad(f, (0, 1, 2)), jax.hessian):
        got, expected = (jax.tree.leaves(make(f)(x, p, q)) for f in (found, plain))
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    several = jax.vmap(lambda x: call(x, p, q)[0])(jnp.stack([x, x[::-1]]))
    np.testing.assert_array_equal(several, [call(x, p, q)[0], call(x[::-1], p, q)[0]])
    head = "@wp.kernel\ndef k(x: wp.array[float], p: Chosen, out: wp.array[float]):\n"
    with pytest.raises(KernelTypeError, match="the values are Chosen and float32"):
        define(f"{head}    y = wp.where(x[0] > 0.5, p, 1.0)\n", Chosen=Chosen)["k"].specialize()
