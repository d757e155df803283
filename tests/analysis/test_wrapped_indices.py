"""Gradients through indices that wrap, turn around or are clamped: by differences, JAX, and what code there is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.test_util import check_grads

import jaxwarp as wp
from jaxwarp.ffi.derivatives import rules
from jaxwarp.ir.nodes import Atomic, Load, Store, walk
from jaxwarp.types import float64 as F

Array = wp.array[F]
Table = wp.array2d[F]


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def sweeps(monkeypatch):
    """What each reverse sweep that is made does to cotangents of inputs: added atomically, added, stored."""
    made, adjoint = [], rules.adjoint

    def noting(*args, **more):
        derived = adjoint(*args, **more)
        out = {p for p, s in zip(derived.kernel.params, derived.slots, strict=True) if s.kind == "cotangent"}
        ops = [op for op in walk(derived.kernel.body) if isinstance(op, Atomic | Load | Store) and op.param in out]
        touched = {op.param for op in ops if isinstance(op, Store | Atomic) and op.param.rank}
        atomic = {op.param for op in ops if isinstance(op, Atomic)}
        read = {op.param for op in ops if isinstance(op, Load)}
        made.append({"atomic" if p in atomic else "added" if p in read else "stored" for p in touched})
        return derived

    rules._adjoint.cache_clear()
    monkeypatch.setattr(rules, "adjoint", noting)
    yield made
    rules._adjoint.cache_clear()


@wp.func
def before(i: int, n: int):
    west = i - 1
    if i == 0:
        west = n - 1
    return west


@wp.func
def after(i: int, n: int):
    east = i + 1
    if i == n - 1:
        east = 0
    return east


@wp.kernel
def pulled(f: wp.array3d[F], omega: F, g: wp.array3d[F]):
    y, x = wp.tid()
    west, east = before(x, f.shape[2]), after(x, f.shape[2])
    up, down = before(y, f.shape[1]), after(y, f.shape[1])
    a, b, c, d = f[0, y, x], f[1, up, west], f[2, down, x], f[3, y, east]
    s = omega * wp.sin(a + F(2.0) * b) * (c - d)
    g[0, y, x] = a - s
    g[1, y, x] = b * b + s
    g[2, y, x] = c * s
    g[3, y, x] = d - s * s


@wp.kernel
def pushed(f: wp.array3d[F], omega: F, g: wp.array3d[F]):
    y, x = wp.tid()
    west, east = before(x, f.shape[2]), after(x, f.shape[2])
    up, down = before(y, f.shape[1]), after(y, f.shape[1])
    a, b, c, d = f[0, y, x], f[1, y, x], f[2, y, x], f[3, y, x]
    s = omega * wp.sin(a + F(2.0) * b) * (c - d)
    g[0, y, x] = a - s
    g[1, down, east] = b * b + s
    g[2, up, x] = c * s
    g[3, y, west] = d - s * s


def collided(a, b, c, d, omega):
    s = omega * jnp.sin(a + 2.0 * b) * (c - d)
    return [a - s, b * b + s, c * s, d - s * s]


MOVES = [(0, 0), (1, 1), (-1, 0), (0, -1)]


def pulled_by_jax(f, omega):
    return jnp.stack(collided(*(jnp.roll(p, by, (0, 1)) for p, by in zip(f, MOVES, strict=True)), omega))


def pushed_by_jax(f, omega):
    return jnp.stack([jnp.roll(p, by, (0, 1)) for p, by in zip(collided(*f, omega), MOVES, strict=True)])


STREAMS = {"pulled": (pulled, pulled_by_jax), "pushed": (pushed, pushed_by_jax)}


def stream(kernel):
    def call(f, omega):
        return wp.jax_kernel(kernel, launch_dims=f.shape[1:])(f, omega, output_dims=f.shape)[0]

    return call


def some(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).uniform(0.3, 1.2, shape))


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (60, 77)], ids=str)
def test_lattice_boltzmann(sweeps, name, shape):
    """Each element is moved once, also where it comes from itself: no atomics, nothing is added or cleared."""
    kernel, by_jax = STREAMS[name]
    f, ct = some(4, *shape), some(4, *shape, seed=1)
    found, expected = (jax.jit(lambda f, ct, g=g: jax.vjp(g, f, 0.7)[1](ct))(f, ct) for g in (stream(kernel), by_jax))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    assert sweeps == [{"stored"}]
    text = jax.jit(lambda f, ct: jax.vjp(lambda f: stream(kernel)(f, 0.7), f)[1](ct)[0]).lower(f, ct).as_text()
    assert "zero = dense<> : tensor<0xi64>" in text  # every element is stored
    assert "output_operand_aliases" not in text or "output_operand_aliases = []" in text


@pytest.mark.parametrize("name", STREAMS)
def test_transformations(name):
    """Batches of either, of both or of cotangents; second derivatives in all orders."""
    kernel, by_jax = STREAMS[name]
    f, many, ct = some(4, 3, 2), some(3, 4, 3, 2, seed=2), some(4, 3, 2, seed=3)
    omegas = jnp.array([0.3, 0.7, 1.1])

    def pairs(make):
        ours, theirs = (jax.jit(lambda g=g: make(g))() for g in (stream(kernel), by_jax))
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)

    loss = lambda g: lambda f, o: (g(f, o) * ct).sum()  # noqa: E731
    grad = lambda g: jax.grad(loss(g), (0, 1))  # noqa: E731
    for axes in ((0, None), (None, 0)):
        args = (many if axes[0] == 0 else f, omegas if axes[1] == 0 else 0.7)
        pairs(lambda g, axes=axes, args=args: jax.vmap(grad(g), axes)(*args))
        summed = lambda g, axes=axes: lambda f, o: jax.vmap(loss(g), axes)(f, o).sum()  # noqa: E731
        pairs(lambda g, args=args, summed=summed: jax.grad(summed(g), (0, 1))(*args))
    pairs(lambda g: jax.vmap(jax.vjp(lambda f: g(f, 0.7), f)[1])(many))
    pairs(lambda g: jax.jacrev(grad(g))(f, 0.7))
    pairs(lambda g: jax.grad(lambda f: sum((x**2).sum() for x in jax.jvp(g, (f, 0.7), (f, 0.1))))(f))
    pairs(lambda g: jax.vmap(lambda f, o: jax.jvp(grad(g), (f, o), (f, o)), (None, 0))(f, omegas))


@wp.kernel
def remainder(x: Array, y: Array):
    i = wp.tid()
    y[i] = wp.sin(x[(i + 3) % x.shape[0]])


@wp.kernel
def turned(x: Table, y: Table):
    i, j = wp.tid()
    y[i, j] = wp.sin(x[(j + 1) % x.shape[0], x.shape[1] - 1 - i])


@wp.kernel
def vectors(x: wp.array2d[wp.vec3d], y: Table):
    i, j = wp.tid()
    v = x[before(i, x.shape[0]), after(j, x.shape[1])]
    y[i, j] = wp.dot(v, v) * v[1]


@wp.kernel
def rows(x: Table, y: Array):
    i = wp.tid()
    total = F(0.0)
    for k in range(x.shape[0]):
        total += wp.sin(x[k, before(i, x.shape[1])]) * F(k + 1)
    y[i] = total


@wp.kernel
def flat(x: Array, n: int, y: Array):
    """One thread index for both axes."""
    t = wp.tid()
    m = y.shape[0] // 3
    i, j = t // m, t % m
    y[t] = wp.sin(x[before(i, 3) * m + after(j, m)]) * x[3 * m + before(j, m) + after(i, 3) * m]


@wp.kernel
def clamped(x: Array, y: Array):
    i = wp.tid()
    y[i] = wp.sin(x[wp.min(i + 1, x.shape[0] - 1)])


@wp.kernel
def halves(x: Array, y: Array):
    i = wp.tid()
    y[i] = wp.sin(x[i // 2])


@wp.kernel
def both_sides(x: Array, y: Array):
    i = wp.tid()
    y[i] = x[before(i, x.shape[0])] * wp.sin(x[after(i, x.shape[0])])


@wp.kernel
def shifted_by_value(x: Array, by: int, y: Array):
    i = wp.tid()
    y[i] = wp.sin(x[(i + by) % x.shape[0]])


@wp.kernel
def guarded(x: Array, y: Array):
    """A launch of more threads than elements: those that do nothing have indices of others."""
    i = wp.tid()
    n = x.shape[0]
    if i < n:
        y[i] = wp.sin(x[n - 1 - before(i, n)])


@wp.kernel
def wraps_in_32_bits(x: Array, y: Array):
    i = wp.tid()
    y[i] = wp.sin(x[((i << 31) >> 31) + 1])


def calling(kernel, launch, dims, *more):
    return lambda x: wp.jax_kernel(kernel, launch_dims=launch)(x, *more, output_dims=dims)[0]


# The kernel, the launch, the shapes of input and output, and what becomes of the input's cotangent.
CASES = {
    "remainder": (calling(remainder, 6, 6), (6,), "stored"),
    "remainder, a smaller launch": (calling(remainder, 4, 4), (6,), "stored"),
    "remainder, a larger launch": (calling(remainder, 7, 7), (6,), "atomic"),
    "remainder, one element": (calling(remainder, 1, 1), (1,), "stored"),
    "turned": (calling(turned, (4, 3), (4, 3)), (3, 4), "stored"),
    "turned, a part": (calling(turned, (4, 2), (4, 2)), (3, 5), "stored"),
    "turned, twice around": (calling(turned, (4, 4), (4, 4)), (3, 4), "atomic"),
    "vectors": (calling(vectors, (3, 4), (3, 4)), (3, 4, 3), "stored"),
    "rows": (calling(rows, 5, 5), (3, 5), "stored"),
    "flat": (calling(flat, 12, 12, 4), (24,), "stored"),
    "clamped": (calling(clamped, 5, 5), (5,), "atomic"),
    "clamped, but far away": (calling(clamped, 4, 4), (5,), "stored"),
    "halves": (calling(halves, 5, 5), (5,), "atomic"),
    "halves, one thread": (calling(halves, 1, 1), (5,), "stored"),
    "both sides": (calling(both_sides, 5, 5), (5,), "atomic"),
    "both sides, of two": (calling(both_sides, 2, 2), (2,), "added"),
    "both sides, of one": (calling(both_sides, 1, 1), (1,), "added"),
    "shifted by a value": (calling(shifted_by_value, 5, 5, 2), (5,), "atomic"),
    "guarded": (calling(guarded, 6, 5), (5,), "atomic"),
    "guarded, each has one": (calling(guarded, 5, 5), (5,), "stored"),
    "wraps in 32 bits": (calling(wraps_in_32_bits, 3, 3), (3,), "atomic"),
    "wraps in 32 bits, two": (calling(wraps_in_32_bits, 2, 2), (3,), "stored"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of_cotangents(sweeps, name):
    f, shape, expected = CASES[name]
    check_grads(f, (some(*shape),), order=1, modes=["fwd", "rev"], rtol=1e-5)
    assert sweeps
    assert all(found == {expected} for found in sweeps)


def test_one_kernel_at_many_shapes(sweeps):
    """What is proved at one does not hold at another: neither may take the other's derivative."""

    def weighted(f):
        return jax.grad(lambda x: (f(x) * jnp.arange(1.0, len(x) + 1)).sum())

    seen = []
    for n in (3, 2, 1, 2, 3):
        x = some(n)
        expected = weighted(lambda x: jnp.roll(x, 1) * jnp.sin(jnp.roll(x, -1)))(x)
        np.testing.assert_allclose(weighted(calling(both_sides, n, n))(x), expected, rtol=1e-12)
        seen.append(len(sweeps))
    assert sweeps == [{"atomic"}, {"added"}, {"added"}]
    assert seen == [1, 2, 3, 3, 3]
    # The same launch of other arrays: of 7 elements 6 threads read one each, of 5 elements two read one.
    sweeps.clear()
    for n in (7, 5, 7, 5):
        check_grads(calling(remainder, 6, 6), (some(n),), order=1, modes=["rev"], rtol=1e-5)
    assert sweeps == [{"stored"}, {"atomic"}]


@wp.kernel
def two_arrays(a: Array, b: Array, y: Array):
    i = wp.tid()
    n = a.shape[0]
    y[i] = a[before(i, n)] * wp.sin(b[after(i, n)])


def test_one_array_for_two_inputs():
    x = some(5)
    f = lambda x: wp.jax_kernel(two_arrays)(x, x)[0]  # noqa: E731
    check_grads(f, (x,), order=2, modes=["fwd", "rev"], rtol=1e-4)


@wp.kernel
def in_place(x: Array, a: Array):
    """Elements that are read and written, and are the thread's own: they can be differentiated now."""
    i = wp.tid()
    j = a.shape[0] - 1 - before(i, a.shape[0])
    a[j] = wp.sin(a[j]) * x[i]
    a[j] = a[j] * a[j] + x[i]


@wp.kernel
def in_place_but_shared(x: Array, a: Array):
    i = wp.tid()
    a[before(i, a.shape[0])] = wp.sin(a[after(i, a.shape[0])]) * x[i]


def test_arrays_in_place():
    x, a = some(6), some(6, seed=1)
    call = wp.jax_kernel(in_place, in_out_argnames=["a"])

    def by_jax(x, a):
        j = 5 - (jnp.arange(6) - 1) % 6
        b = jnp.sin(a[j]) * x
        return jnp.zeros(6).at[j].set(b * b + x)

    np.testing.assert_allclose(call(x, a)[0], by_jax(x, a), rtol=1e-12)
    check_grads(lambda x, a: call(x, a)[0], (x, a), order=1, modes=["fwd", "rev"], rtol=1e-5)
    shared = wp.jax_kernel(in_place_but_shared, in_out_argnames=["a"])
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="two threads have met at an element of a"):
        jax.grad(lambda a: shared(x, a)[0].sum())(a)


@wp.kernel
def half(x: wp.array[wp.float16], y: wp.array[wp.float16]):
    i = wp.tid()
    y[i] = x[before(i, x.shape[0])] * x[before(i, x.shape[0])]


def test_half_precision(sweeps):
    x = jnp.asarray(np.linspace(0.5, 1.5, 9), jnp.float16)
    found = jax.grad(lambda x: wp.jax_kernel(half)(x)[0].astype(jnp.float32).sum())(x)
    np.testing.assert_allclose(found, 2 * x, rtol=1e-3)
    assert sweeps == [{"stored"}] or sweeps == [{"added"}]


def test_symbolic_extents():
    """Nothing is known of them: sums, and by atomics, as ever."""
    f = lambda x: wp.jax_kernel(remainder)(x)[0]  # noqa: E731
    grad = jax.jit(jax.grad(lambda x: (f(x) * x).sum()))
    n = export.symbolic_shape("n")
    exported = export.export(grad, disabled_checks=wp.export_checks())(jax.ShapeDtypeStruct(n, np.float64))
    for size in (2, 3, 5, 40):
        x = some(size)
        expected = jax.grad(lambda x: (jnp.sin(jnp.roll(x, -3)) * x).sum())(x)
        np.testing.assert_allclose(exported.call(x), expected, rtol=1e-12)
