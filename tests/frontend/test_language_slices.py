"""Slices of vectors, matrices and tuples: how long they are is part of the type."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import define, outputs, run

import jaxwarp as wp
from jaxwarp.errors import KernelError
from jaxwarp.ir.nodes import Atomic, Load, Store, walk

V = np.arange(8, dtype=np.float32).reshape(2, 4)
M = np.arange(18, dtype=np.float32).reshape(2, 3, 3)


@wp.kernel
def read(v: wp.array[wp.vec4], m: wp.array[wp.mat33], out: wp.array2d[float]):
    i = wp.tid()
    u, a = v[i], m[i]
    out[i, 0] = wp.dot(u, u[::-1])
    out[i, 1] = wp.length(v[i][1:])
    out[i, 2] = u[-3:-1][1]
    out[i, 3] = wp.determinant(a[0:2, 1:])
    out[i, 4] = wp.dot(a[i, :2], a[1:, i])
    out[i, 5] = wp.trace(a[::2, ::2]) + a[1:][0, 2]
    out[i, 6] = wp.dot(a[:, 1], m[i][2])
    tail = (1.0, u[0], 3.0, u[1])[1::2]
    out[i, 7] = tail[0] + tail[1]


def reference(v, m, i, np=np):
    return [
        v @ v[::-1],
        np.sqrt((v[1:] ** 2).sum()),
        v[-3:-1][1],
        np.linalg.det(m[0:2, 1:]),
        m[i, :2] @ m[1:, i],
        np.trace(m[::2, ::2]) + m[1, 2],
        m[:, 1] @ m[2],
        v[0] + v[1],
    ]


def test_reading():
    got = outputs(read, 2, V, M, np.zeros((2, 8)))
    for i in range(2):
        np.testing.assert_allclose(got[i], reference(V[i], M[i], i), rtol=1e-5, atol=1e-5)


def test_derivatives():
    call = wp.jax_kernel(read, output_dims=(2, 8))
    v, m = jnp.asarray(V + 1.0), jnp.asarray(np.cos(M))
    ours = lambda v, m: (call(v, m)[0] ** 2).sum()  # noqa: E731
    plain = jax.jit(lambda v, m: sum(x**2 for i in range(2) for x in reference(v[i], m[i], i, jnp)))
    for got, expected in zip(jax.grad(ours, (0, 1))(v, m), jax.grad(plain, (0, 1))(v, m), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-4)
    tangents = (jnp.sin(v), jnp.sin(m))
    np.testing.assert_allclose(
        jax.jvp(jax.grad(ours), (v, m), tangents)[1], jax.jvp(jax.grad(plain), (v, m), tangents)[1], rtol=1e-4
    )


@wp.kernel
def write(x: wp.array[float], v: wp.array[wp.vec4], m: wp.array[wp.mat33], out: wp.array[wp.vec4]):
    i = wp.tid()
    u = v[i]
    u[0:2] = u[1:3]
    u[2:] = x[i]
    u[::2] += wp.vec2(1.0, 2.0)
    out[i] = u
    a = m[i]
    a[1:, 0] = wp.vec2(x[i], 8.0)
    a[i, :2] = a[:2, i]
    a[:2, 1:] *= 2.0
    m[i] = a
    v[i][1:3] = wp.vec2(x[i], -1.0)
    m[i][2, :] = wp.vec3(x[i])


def written(x, v, m, i, np=np):
    u, a, v = v.copy(), m.copy(), v.copy()
    u[0:2] = u[1:3].copy()
    u[2:] = x
    u[::2] += [1.0, 2.0]
    a[1:, 0] = [x, 8.0]
    a[i, :2] = a[:2, i].copy()
    a[:2, 1:] *= 2.0
    v[1:3] = [x, -1.0]
    a[2] = x
    return u, v, a


def test_writing():
    _, v, m, out = run(write, 2, [1.5, 2.5], V, M, np.zeros((2, 4)))
    for i, x in enumerate([1.5, 2.5]):
        for got, expected in zip((out[i], v[i], m[i]), written(x, V[i], M[i], i), strict=True):
            assert got.tolist() == expected.tolist()


def test_derivatives_of_what_is_written():
    call = wp.jax_kernel(write, num_outputs=3, launch_dims=2, in_out_argnames=["v", "m"])
    weights = [jnp.cos(jnp.arange(n)) for n in (8, 18, 8)]

    def total(x, v, m):
        parts = call(x, v, m)
        order = [next(p for p in parts if p.shape == s) for s in ((2, 4), (2, 3, 3))]
        return sum((w * p.reshape(-1)).sum() for w, p in zip(weights, [*order, parts[-1]], strict=True))

    x, v, m = jnp.array([1.5, 2.5]), jnp.asarray(V), jnp.asarray(M)
    for k, args in enumerate(((x, v, m),) * 3):
        grad = jax.grad(total, k)(*args)
        direction = jnp.sin(jnp.arange(grad.size, dtype=jnp.float32) + 1.0).reshape(grad.shape)
        step = lambda t, k=k, d=direction: total(*(a + t * d if n == k else a for n, a in enumerate(args)))  # noqa: B023, E731
        # Everything is linear, so that differences are derivatives.
        np.testing.assert_allclose((grad * direction).sum(), step(1.0) - step(0.0), rtol=1e-3)


def test_only_the_components_of_the_slice_are_stored_and_added():
    @wp.kernel
    def k(x: wp.array[wp.vec2], v: wp.array[wp.vec4], sums: wp.array[wp.vec4]):
        i = wp.tid()
        v[i][1:3] = x[i]
        sums[0][::3] += x[i]
        sums[0][1:2] -= 1.0

    ops = list(walk(k.specialize().body))
    assert sum(isinstance(op, Store) for op in ops) == 2
    assert sum(isinstance(op, Atomic) for op in ops) == 3
    assert not any(isinstance(op, Load) and op.param.name == "v" for op in ops)
    got = outputs(k, 3, [[1, 2], [3, 4], [5, 6]], np.zeros((3, 4)), np.zeros((1, 4)))
    assert got.tolist() == [[9.0, -3.0, 0.0, 12.0]]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("u = v[n:]", "the bounds of a slice of vec3.* must be constant integers, got int32"),
        ("u = v[1:1] + v[1:1]", "vec0.* has no components"),
        ("u = v[::0]", "Slice step cannot be zero"),
        ("u = v[0:2, 1]", "vec3.* has 1 axis, got 2 indices"),
        ("v[0:2] = wp.vec3()", "the slice has the type vec2.*, got vec3"),
        ("v[0:2] = wp.vec2d()", "the slice has the type vec2.*, got vec2.float64"),
        ("v[0:2] = 1", None),
        ("v[0:2] = n", "a row of|a component of"),
        ("v[0:2][0:1] = 1.0", "a slice of a slice cannot be assigned to"),
        ("u = x[::0]", "Slice step cannot be zero"),
        ("u = x[::1.0]", "the step of a slice of x must be an integer, got the constant 1.0"),
        ("u = x[::1]", None),
        ("u = (1, 2)[n:]", "the bounds of a slice of a tuple must be constant"),
        ("u = n[1:]", "int32 has no slices"),
    ],
)
def test_refused(line, text):
    k = define(f"@wp.kernel\ndef k(n: int, x: wp.array[float]):\n    v = wp.vec3(x[0])\n    {line}\n")["k"]
    if text is None:
        k.specialize()
        return
    with pytest.raises(KernelError, match=text):
        k.specialize()


@wp.kernel
def rows_of(x: wp.array2d[int], start: int, stop: int, step: int, out: wp.array[int], count: wp.array[int]):
    part = x[start:stop:step, 1]
    count[0] = part.shape[0]
    for k in range(len(part)):
        out[k] = part[k]


BOUNDS = (-9, -3, -1, 0, 2, 5, 6, 9)
STEPS = (-(2**31), -7, -2, -1, 1, 2, 3, 2**31 - 1)


@pytest.mark.parametrize("step", STEPS)
def test_slices_of_arrays_known_at_run_time(step):
    x = np.arange(18, dtype=np.int32).reshape(6, 3)
    for start, stop in itertools.product(BOUNDS, BOUNDS):
        out, count = wp.zeros(6, dtype=int), wp.zeros(1, dtype=int)
        wp.launch(rows_of, 1, [wp.array(x), start, stop, step, out, count])
        expected = x[start:stop:step, 1]
        assert count.numpy()[0] == len(expected)
        np.testing.assert_array_equal(out.numpy()[: len(expected)], expected)


def test_a_step_of_zero_at_run_time_selects_nothing():
    out, count = wp.zeros(6, dtype=int), wp.full(1, 9, dtype=int)
    wp.launch(rows_of, 1, [wp.zeros((6, 3), dtype=int), 0, 6, 0, out, count])
    assert count.numpy()[0] == 0


@wp.kernel
def stepped(x: wp.array2d[float], y: wp.array[float]):
    i = wp.tid()
    row = x[i, ::-2]
    total = row[1:][0]
    for k in range(len(row)):
        total += float(k + 1) * row[k] * row[k]  # a square: its derivative takes no partials of the product
        total += row[k] * x[i, k] + row[k] * wp.sin(row[-1])
    y[i] = total + x[::4][:, ::-3][1, 1]


def test_steps_in_steps_and_their_derivatives():
    x = jnp.arange(32.0).reshape(8, 4)
    call = wp.jax_kernel(stepped, launch_dims=8, output_dims=8)

    @jax.jit
    def expected(x):
        row = x[:, ::-2]
        products = row * row * jnp.array([1.0, 2.0]) + row * x[:, :2] + row * jnp.sin(row[:, 1:])
        return row[:, 1] + products.sum(1) + x[::4][:, ::-3][1, 1]

    np.testing.assert_allclose(call(x)[0], expected(x), rtol=1e-6)
    ours, right = (jax.grad(lambda x, f=f: (f(x) ** 2).sum())(x) for f in (lambda x: call(x)[0], expected))
    np.testing.assert_allclose(ours, right, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(lambda x: call(x)[0])(x[None] * 2)[0], expected(x * 2), rtol=1e-6)


def test_what_a_step_selects_can_be_written():
    @wp.kernel
    def backwards(x: wp.array[float]):
        part = x[::-2]
        part[0] = 7.0
        part[1] += 2.0
        part[2:][0] = -1.0

    x = wp.array([0.0, 1.0, 2.0, 3.0, 4.0], dtype=float)
    wp.launch(backwards, 1, [x])
    assert x.list() == [-1.0, 1.0, 4.0, 3.0, 7.0]
