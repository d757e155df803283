"""Reverse derivatives through large arrays of a thread's own, against JAX and finite differences."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import derivativekit as kit
import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import own_array_strategy
import pytest
from derivativekit import Case
from hypothesis import given, settings
from language import define
from test_derivative_fuzz import CHECKS, check

import jaxwarp as wp
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.nodes import Param, Value
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import float64, int32
from jaxwarp.vjp import own_arrays
from jaxwarp.vjp.reverse import checkpoints
from jaxwarp.vjp.reverse.adjoint import adjoint
from jaxwarp.vjp.reverse.checkpoint_slots import SlotLayout

D = wp.float64
RNG = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def random(*shape: int) -> np.ndarray:
    return RNG.uniform(0.4, 1.4, shape)


# Kernels, and the same in JAX: of one thread, what it stores to its row of `out`.


@wp.kernel
def maps(x: wp.array[D], out: wp.array2d[D]):
    """A chain of arrays, each a function of the ones before."""
    i = wp.tid()
    a = wp.zeros(100, D)
    b = wp.zeros((10, 10), D)
    c = wp.zeros(100, D)
    for j in range(100):
        a[j] = wp.sin(x[i] * D(float(j)))
    for j in range(10):
        for k in range(10):
            b[j, k] = a[10 * j + k] * a[10 * k + j]
    for j in range(100):
        c[j] = b[j // 10, j % 10] * x[i] + a[99 - j]
    for j in range(100):
        out[i, j % 4] += c[j] * c[j] * b[j % 10, 3]


def maps_of(i: int, x: Any) -> Any:
    a = jnp.sin(x[i] * jnp.arange(100.0))
    b = a.reshape(10, 10) * a.reshape(10, 10).T
    c = b.reshape(-1) * x[i] + a[::-1]
    return (c * c * jnp.tile(b[:, 3], 10)).reshape(25, 4).sum(0)


@wp.kernel
def product(x: wp.array2d[D], y: wp.array2d[D], out: wp.array2d[D]):
    """A tile of a product, over as many tiles as there are; the squares make its values count."""
    i = wp.tid()
    total = wp.zeros((9, 9), D)
    for tile in range(x.shape[0] // 9):
        a = wp.zeros((9, 9), D)
        b = wp.zeros((9, 9), D)
        for j in range(9):
            for k in range(9):
                a[j, k] = wp.exp(x[9 * tile + j, k] * D(float(i + 1)))
                b[j, k] = y[9 * tile + j, k] * y[9 * tile + j, k]
        for j in range(9):
            for k in range(9):
                for m in range(9):
                    total[j, k] += a[j, m] * b[m, k]
    for j in range(9):
        for k in range(9):
            out[i, k] += total[j, k] * total[j, k]


def product_of(i: int, x: Any, y: Any) -> Any:
    a, b = jnp.exp(x * (i + 1.0)).reshape(-1, 9, 9), (y * y).reshape(-1, 9, 9)
    return ((a @ b).sum(0) ** 2).sum(0)


@wp.kernel
def softmax(x: wp.array[D], out: wp.array2d[D]):
    i = wp.tid()
    a = wp.zeros(80, D)
    e = wp.zeros(80, D)
    for j in range(80):
        a[j] = x[i] * wp.sin(D(float(j)))
    most = a[0]
    for j in range(1, 80):
        most = wp.max(most, a[j])
    total = D(0.0)
    for j in range(80):
        e[j] = wp.exp(a[j] - most)
        total += e[j]
    for j in range(80):
        out[i, j % 5] += e[j] / total * D(float(j)) * a[j]


def softmax_of(i: int, x: Any) -> Any:
    a = x[i] * jnp.sin(jnp.arange(80.0))
    return (jax.nn.softmax(a) * jnp.arange(80.0) * a).reshape(16, 5).sum(0)


@wp.kernel
def softmax_in_place(x: wp.array[D], out: wp.array2d[D]):
    """Each step overwrites what the step before needs."""
    i = wp.tid()
    a = wp.zeros(80, D)
    for j in range(80):
        a[j] = x[i] * wp.sin(D(float(j)))
    most = a[0]
    for j in range(1, 80):
        most = wp.max(most, a[j])
    total = D(0.0)
    for j in range(80):
        a[j] = wp.exp(a[j] - most)
        total += a[j]
    for j in range(80):
        a[j] /= total
    for j in range(80):
        out[i, j % 5] += a[j] * a[j] * D(float(j))


def softmax_in_place_of(i: int, x: Any) -> Any:
    a = jax.nn.softmax(x[i] * jnp.sin(jnp.arange(80.0)))
    return (a * a * jnp.arange(80.0)).reshape(16, 5).sum(0)


@wp.func
def factorized(a: wp.array2d[D], low: wp.array2d[D]):
    for j in range(12):
        s = a[j, j]
        for k in range(j):
            s -= low[j, k] * low[j, k]
        low[j, j] = wp.sqrt(s)
        for i in range(j + 1, 12):
            s = a[i, j]
            for k in range(j):
                s -= low[i, k] * low[j, k]
            low[i, j] = s / low[j, j]


@wp.kernel
def cholesky(x: wp.array[D], out: wp.array2d[D]):
    """Factors, and a system solved with them."""
    t = wp.tid()
    a = wp.zeros((12, 12), D)
    low = wp.zeros((12, 12), D)
    for i in range(12):
        for j in range(12):
            a[i, j] = x[t] / D(float(i + j + 1))
        a[i, i] += D(1.0) + x[t] * D(float(i))
    factorized(a, low)
    y = wp.zeros(70, D)
    for i in range(12):
        s = D(float(i)) - x[t]
        for k in range(i):
            s -= low[i, k] * y[k]
        y[i] = s / low[i, i]
    for k in range(12):
        i = 11 - k
        s = y[i]
        for j in range(i + 1, 12):
            s -= low[j, i] * y[j + 20]
        y[i + 20] = s / low[i, i]
    for i in range(12):
        out[t, i] = y[i + 20]


def cholesky_of(t: int, x: Any) -> Any:
    i = jnp.arange(12.0)
    a = x[t] / (i[:, None] + i + 1) + jnp.diag(1.0 + x[t] * i)
    return jnp.linalg.solve(a, i - x[t])


@wp.kernel
def cholesky_in_place(x: wp.array[D], out: wp.array2d[D]):
    t = wp.tid()
    a = wp.zeros((9, 9), D)
    for i in range(9):
        for j in range(9):
            a[i, j] = x[t] / D(float(i + j + 1))
        a[i, i] += D(1.0) + x[t] * D(float(i))
    for j in range(9):
        for k in range(j):
            a[j, j] -= a[j, k] * a[j, k]
        a[j, j] = wp.sqrt(a[j, j])
        for i in range(j + 1, 9):
            for k in range(j):
                a[i, j] -= a[i, k] * a[j, k]
            a[i, j] /= a[j, j]
    for i in range(9):
        out[t, i] = a[8, i] * a[i, 0]


def cholesky_in_place_of(t: int, x: Any) -> Any:
    i = jnp.arange(9.0)
    low = jnp.linalg.cholesky(x[t] / (i[:, None] + i + 1) + jnp.diag(1.0 + x[t] * i))
    return low[8] * low[:, 0]


@wp.kernel
def branches(x: wp.array[D], out: wp.array2d[D]):
    """Filled one of two ways; arrays made in a branch, and filled in another one inside it."""
    i = wp.tid()
    a = wp.zeros(70, D)
    if x[i] > D(0.9):
        for j in range(70):
            a[j] = x[i] * x[i] * D(float(j))
    else:
        b = wp.zeros(70, D)
        if x[i] > D(0.5):
            for j in range(70):
                b[j] = wp.sin(x[i] * D(float(j)))
        s = x[i]
        for j in range(70):
            s = s * b[j] + x[i]
            a[j] = wp.cos(b[69 - j]) * s
    for j in range(70):
        out[i, 0] += a[j] * a[j]
        if j % 3 == 0:
            out[i, 1] += wp.sin(a[j])


def branches_of(i: int, x: Any) -> Any:
    j = jnp.arange(70.0)
    b = jnp.where(x[i] > 0.5, jnp.sin(x[i] * j), 0.0)
    _, s = jax.lax.scan(lambda s, b: (s * b + x[i],) * 2, x[i], b)
    a = jnp.where(x[i] > 0.9, x[i] * x[i] * j, jnp.cos(b[::-1]) * s)
    return jnp.array([(a * a).sum(), jnp.sin(a[::3]).sum()])


@wp.kernel
def inner_branches(x: wp.array[D], out: wp.array2d[D]):
    """What a branch only returns, of elements that are overwritten after it."""
    i = wp.tid()
    v = x[i]
    if x[i] > D(0.4):
        b = wp.zeros(70, D)
        for j in range(70):
            b[j] = x[i] * D(float(j))
        if x[i] > D(0.8):
            v = D(0.0)
            for j in range(70):
                v += wp.sin(b[j])
        for j in range(70):
            b[j] = wp.cos(b[j])
        for j in range(70):
            out[i, 1] += b[j] * b[j]
    out[i, 0] = v


def inner_branches_of(i: int, x: Any) -> Any:
    b = x[i] * jnp.arange(70.0)
    v = jnp.where(x[i] > 0.8, jnp.sin(b).sum(), x[i])
    return jnp.stack([v, jnp.where(x[i] > 0.4, (jnp.cos(b) ** 2).sum(), 0.0)])


@wp.func
def polynomial(x: D, scale: D):
    """An array of a function that is inlined twice."""
    c = wp.zeros(66, D)
    for j in range(66):
        c[j] = wp.sin(scale * D(0.05) * D(float(j)))
    result = D(0.0)
    for j in range(66):
        result = result * x + c[j] * c[j]
    return result


@wp.kernel
def loops(x: wp.array[D], n: wp.array[int], out: wp.array2d[D]):
    """What loops carry goes through arrays that are made in each iteration, also of a `while`."""
    i = wp.tid()
    u = x[i]
    v = x[i] * x[i]
    for _t in range(n[i]):
        a = wp.zeros(66, D)
        for j in range(66):
            a[j] = u * D(float(j % 5)) + wp.sin(v)
        s = D(0.0)
        for j in range(66):
            s += a[j] * a[(7 * j) % 66]
        u = v
        v = wp.sin(s * D(0.02))
    k = 0
    while k < n[i] and v < D(2.0):
        v = wp.sin(polynomial(v * D(0.3), u)) + polynomial(D(0.2), v * v)
        k += 1
    out[i, 0] = u
    out[i, 1] = v


def loops_of(i: int, x: Any, n: Any) -> Any:
    j = np.arange(66)
    f = j.astype(float)

    def polynomial_of(x: Any, scale: Any) -> Any:
        c = jnp.sin(scale * f * 0.05) ** 2
        return jax.lax.scan(lambda r, c: (r * x + c, None), jnp.zeros(()), c)[0]

    u, v = x[i], x[i] * x[i]
    for _ in range(int(n[i])):
        a = u * (f % 5) + jnp.sin(v)
        u, v = v, jnp.sin((a * a[(7 * j) % 66]).sum() * 0.02)
    for _ in range(int(n[i])):
        v = jnp.where(v < 2.0, jnp.sin(polynomial_of(v * 0.3, u)) + polynomial_of(0.2, v * v), v)
    return jnp.array([u, v])


@wp.kernel
def attention(q: wp.array2d[D], k: wp.array2d[D], v: wp.array2d[D], out: wp.array2d[D]):
    """In one pass over the keys, as many as there are: what has been summed is scaled again and again."""
    i = wp.tid()
    total = wp.zeros(70, D)
    weight = D(0.0)
    most = D(-1000.0)
    for tile in range(k.shape[0] // 5):
        scores = wp.zeros(70, D)
        highest = most
        for j in range(5):
            for d in range(k.shape[1]):
                scores[j] += q[i, d] * k[5 * tile + j, d]
            highest = wp.max(highest, scores[j])
        scale = wp.exp(most - highest)
        weight *= scale
        for d in range(70):
            total[d] *= scale
        for j in range(5):
            p = wp.exp(scores[j] - highest)
            weight += p
            for d in range(70):
                total[d] += p * v[5 * tile + j, d]
        most = highest
    for d in range(70):
        out[i, d % 7] += wp.sin(total[d] / weight)


def attention_of(i: int, q: Any, k: Any, v: Any) -> Any:
    return jnp.sin(jax.nn.softmax(k @ q[i]) @ v).reshape(10, 7).sum(0)


@wp.kernel
def feeding(x: wp.array[D], n: wp.array[int], out: wp.array2d[D]):
    """What an iteration needs of the one before depends on `w`, only through an array."""
    i = wp.tid()
    v = x[i]
    w = x[i] * D(0.5)
    for t in range(n[i]):
        out[i, t % 2] += wp.sin(v)
        b = wp.zeros(66, D)
        for j in range(66):
            b[j] = w * D(float(j))
        v = x[i]
        for j in range(0, 66, 13):
            v += b[j] * D(0.01)
        w = w * D(0.9) + x[i]


def feeding_of(i: int, x: Any, n: Any) -> Any:
    out, v, w = [jnp.zeros(()), jnp.zeros(())], x[i], x[i] * 0.5
    for t in range(int(n[i])):
        out[t % 2] += jnp.sin(v)
        v, w = x[i] + w * (13 + 26 + 39 + 52 + 65) * 0.01, w * 0.9 + x[i]
    return jnp.stack(out)


@wp.kernel
def indices(x: wp.array[D], at: wp.array2d[int], out: wp.array2d[D]):
    """Elements that are found in data, also counted from the end; indices in an array of integers."""
    i = wp.tid()
    bins = wp.zeros(100, D)
    places = wp.zeros(100, int)
    for t in range(at.shape[1]):
        bins[at[i, t]] += x[t] * x[i]
        places[(t * 7) % 100] = at[i, t] % 50 + 50
    for t in range(at.shape[1]):
        j = at[i, t]
        out[i, 0] += wp.sin(bins[j - 100 * (t % 2)]) * bins[places[(t * 7) % 100]]
        out[i, 1] += bins[-1 - j] * bins[-1 - j]


def indices_of(i: int, x: Any, at: Any) -> Any:
    j = at[i]
    bins = jnp.zeros(100).at[j].add(x[: len(j)] * x[i])
    return jnp.array([(jnp.sin(bins[j]) * bins[j % 50 + 50]).sum(), (bins[99 - j] ** 2).sum()])


@wp.kernel
def vectors(x: wp.array[D], out: wp.array2d[D]):
    """Overwritten in place, sweep after sweep."""
    i = wp.tid()
    v = wp.zeros(30, wp.vec3d)
    for j in range(30):
        v[j] = wp.vec3d(x[i], x[i] * x[i], D(float(j)) * D(0.01))
    for _t in range(3):
        for j in range(1, 30):
            v[j] = wp.normalize(wp.cross(v[j - 1], v[j]) + wp.vec3d(x[i], D(1.0), D(0.5)))
    for j in range(30):
        out[i, 0] += v[j].x * v[29 - j].y
    out[i, 1] = wp.length(v[29])


def vectors_of(i: int, x: Any) -> Any:
    v = [jnp.array([x[i], x[i] ** 2, 0.01 * j]) for j in range(30)]
    for _ in range(3):
        for j in range(1, 30):
            w = jnp.cross(v[j - 1], v[j]) + jnp.array([x[i], 1.0, 0.5])
            v[j] = w / jnp.linalg.norm(w)
    u = jnp.stack(v)
    return jnp.array([(u[:, 0] * u[::-1, 1]).sum(), jnp.linalg.norm(u[29])])


@dataclass(frozen=True)
class Example:
    kernel: Any
    reference: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]
    width: int
    threads: int = 2
    wanted: tuple[int, ...] = (0,)

    def case(self) -> Case:
        buffers = [*self.inputs, np.zeros((self.threads, self.width))]
        last = len(self.inputs)
        return Case("own", self.kernel.specialize(), (self.threads,), buffers, self.wanted, (last,))

    def ours(self, *floats: Any) -> Any:
        call = wp.jax_kernel(self.kernel, launch_dims=self.threads, output_dims=(self.threads, self.width))
        return call(*self._given(floats))[0]

    def theirs(self, *floats: Any) -> Any:
        return jnp.stack([self.reference(i, *self._given(floats)) for i in range(self.threads)])

    def _given(self, floats: Any) -> list[Any]:
        found = dict(zip(self.wanted, floats, strict=True))
        return [found.get(i, x) for i, x in enumerate(self.inputs)]

    @property
    def floats(self) -> list[Any]:
        return [jnp.asarray(self.inputs[i]) for i in self.wanted]


PLACES = RNG.integers(0, 100, (2, 13), dtype=np.int32)
COUNTS = np.array([2, 0, 3], np.int32)
EXAMPLES = {
    "maps": Example(maps, maps_of, (random(2),), 4),
    "product": Example(product, product_of, (random(18, 9) * 0.3, random(18, 9)), 9, wanted=(0, 1)),
    "softmax": Example(softmax, softmax_of, (random(2),), 5),
    "softmax in place": Example(softmax_in_place, softmax_in_place_of, (random(2),), 5),
    "cholesky": Example(cholesky, cholesky_of, (random(2),), 12),
    "cholesky in place": Example(cholesky_in_place, cholesky_in_place_of, (random(2),), 9),
    "branches": Example(branches, branches_of, (np.array([1.1, 0.7, 0.3]),), 2, 3),
    "inner branches": Example(inner_branches, inner_branches_of, (np.array([1.1, 0.7, 0.3]),), 2, 3),
    "loops": Example(loops, loops_of, (random(3), COUNTS), 2, 3),
    "attention": Example(attention, attention_of, (random(2, 3), random(10, 3), random(10, 70)), 7, wanted=(0, 1, 2)),
    "feeding": Example(feeding, feeding_of, (random(2), COUNTS + 200), 2),
    "indices": Example(indices, indices_of, (random(13), PLACES), 2),
    "vectors": Example(vectors, vectors_of, (random(2),), 2),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_gradients_against_jax(name):
    example = EXAMPLES[name]
    numbers = tuple(range(len(example.wanted)))

    def total(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *x: jnp.sin(f(*x)).sum()

    np.testing.assert_allclose(example.ours(*example.floats), example.theirs(*example.floats), rtol=1e-10)
    ours = jax.grad(total(example.ours), numbers)
    theirs = jax.grad(total(example.theirs), numbers)
    for got, expected in zip(ours(*example.floats), theirs(*example.floats), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9)
    along = [jnp.asarray(random(*np.shape(x))) for x in example.floats]
    moved = [jax.jvp(f, example.floats, along)[1] for f in (ours, theirs)]
    for got, expected in zip(*moved, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["softmax in place", "vectors"])
def test_orders_and_batches(name):
    example = EXAMPLES[name]
    (x,) = example.floats

    def f(x):
        return jnp.sin(example.ours(x)).sum()

    along = jnp.asarray(random(*x.shape))
    expected = jax.jvp(jax.grad(f), (x,), (along,))[1]
    for second in (jax.grad(lambda x: (jax.grad(f)(x) * along).sum()), lambda x: jax.jacrev(jax.jacfwd(f))(x) @ along):
        np.testing.assert_allclose(second(x), expected, rtol=1e-8, atol=1e-9)
    batch = jnp.stack([x, 0.9 * x])
    np.testing.assert_allclose(jax.vmap(jax.grad(f))(batch), [jax.grad(f)(b) for b in batch], rtol=1e-12)


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - {"attention"}))  # whose record depends on an extent
def test_by_the_interpreter(name, monkeypatch):
    case = EXAMPLES[name].case()
    if name == "feeding":  # fewer iterations, in as many segments, which are shorter
        monkeypatch.setattr(checkpoints, "LAYOUTS", {None: SlotLayout(2, 2, 1, 4)})
        case.buffers[1] = case.buffers[1] - 188
    kit.check_adjoint(case)
    kit.check_adjoint_of_tangent(case)


@pytest.mark.parametrize("name", ["maps", "cholesky", "branches", "indices"])
def test_cuda_code_run_on_the_host(name):
    case = EXAMPLES[name].case()
    derived = adjoint(prepare(case.kernel, fma=False), case.wanted, case.grid)
    cotangents = {len(case.buffers) - 1: random(*case.buffers[-1].shape)}
    buffers = kit.feed(derived, case.buffers, cotangents)
    expected = [b.copy() for b in buffers]
    interpret(derived.kernel, case.grid, expected)
    hostcuda.run_host(prepare(derived.kernel, fma=False), case.grid, buffers)
    for got, want in zip(buffers, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)


def one_output(body: str) -> Any:
    """What threads of this body make of `x[i]`, stored in `out[i]`, together."""
    head = "@wp.kernel\ndef k(x: wp.array[D], n: wp.array[int], out: wp.array[D]):\n    i = wp.tid()\n"
    kernel = define(head + textwrap.indent(body, "    "), D=D)["k"]
    return lambda x: wp.jax_kernel(kernel)(x, jnp.array([3, 3], jnp.int32))[0].sum()


@pytest.mark.parametrize("dtype", [wp.float16, wp.bfloat16, wp.float32])
def test_other_kinds_of_floats(dtype):
    @wp.kernel
    def k(x: wp.array[Any], out: wp.array[Any]):
        i = wp.tid()
        a = wp.zeros(70, dtype)
        for j in range(70):
            a[j] = x[i] * dtype(j % 3)
        s = dtype(0.0)
        for j in range(70):
            s += a[j] * a[j]
        out[i] = s

    x = jnp.array([0.5, 0.25], dtype.numpy)
    got = jax.grad(lambda x: wp.jax_kernel(k)(x)[0].sum())(x)
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got.astype(float), 2 * x.astype(float) * (23 * 1 + 23 * 4), rtol=1e-2)


OVERWRITTEN = """
a = wp.zeros(70, D)
for j in range(70):
    a[j] = x[i] * D(float(j))
for t in range({times}):
    for j in range(70):
        a[j] = wp.sin(a[j]) + x[i]
s = D(0.0)
for j in range(70):
    s += a[j]
out[i] = s
"""


def test_what_is_overwritten_is_recorded_or_refused():
    x = jnp.asarray(random(2))

    def theirs(x):
        a = x[:, None] * jnp.arange(70.0)
        for _ in range(3):
            a = jnp.sin(a) + x[:, None]
        return a.sum()

    for times in ("3", "wp.min(n[i], 5)"):
        ours = one_output(OVERWRITTEN.format(times=times))
        np.testing.assert_allclose(jax.grad(ours)(x), jax.grad(theirs)(x), rtol=1e-10)
    for times in ("n[i]", "1000"):
        ours = one_output(OVERWRITTEN.format(times=times))
        with pytest.raises(DifferentiationError, match="a, an array of the thread's own, is read here") as caught:
            jax.grad(ours)(x)
        assert "a[j] = wp.sin(a[j]) + x[i]" in str(caught.value)
        assert "write the result to another array" in str(caught.value)
        assert np.isfinite(jax.jvp(ours, (x,), (jnp.ones(2),))[1])


def test_the_condition_of_a_while_writes():
    scope = define("""
@wp.func
def small(a: wp.array[D], x: D):
    for j in range(70):
        a[j] = x * D(float(j))
    return a[69] < D(40.0)


@wp.kernel
def k(x: wp.array[D], out: wp.array[D]):
    i = wp.tid()
    a = wp.zeros(70, D)
    v = x[i]
    while small(a, v):
        v = v * D(1.5)
    out[i] = v * a[3]
""", D=D)
    with pytest.raises(DifferentiationError, match="the condition of a while loop writes to a"):
        jax.grad(lambda x: wp.jax_kernel(scope["k"])(x)[0].sum())(jnp.asarray(random(2)))


def test_elements_that_nothing_reads_add_nothing():
    """However infinite the slope is of what was stored there."""
    body = """
a = wp.zeros(70, D)
for j in range(70):
    a[j] = wp.sqrt(x[i] * D(float(j)))
s = D(0.0)
for j in range(1, 70):
    s += a[j] * a[j]
out[i] = s
"""
    got = jax.grad(one_output(body))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(got, [69 * 35] * 2)


def test_contents_that_go_from_iteration_to_iteration():
    """Of IR in which nothing fills an array outside of the loop that uses it: the loop does, in its first iteration."""
    build = Builder()
    x, out, a = Param("x", float64, (None,)), Param("out", float64, (None,)), Param("a", float64, (70,))
    at = Param("at", int32, (1,))  # zero, which nobody sees
    tid, zero, one = build.tid(0), build.const(0, int32), build.const(1, int32)
    given = build.load(x, [tid])

    def iteration(k: Value) -> list[Value]:
        def fill() -> list[Value]:
            build.store(a, [zero], given)
            return []

        build.if_(build.call(ROWS["eq"], k, zero), fill, list)
        before = build.load(a, [build.load(at, [zero])])
        after = build.call(ROWS["mul"], before, before)
        build.store(a, [zero], after)
        build.store(out, [tid], build.call(ROWS["sin"], after))
        return []

    build.for_(zero, build.const(3, int32), one, [], iteration)
    kernel = verify(replace(build.finish("carries", 1, (x, out, at)), locals=(a,)))
    case = Case("carries", kernel, (2,), [random(2), np.zeros(2), np.zeros(1, np.int32)], (0,), (1,))
    kit.check_adjoint(case)
    kit.check_adjoint_of_tangent(case)


def test_grad_in_a_kernel_goes_through_small_arrays():
    scope = define("""
@wp.func
def f(x: D):
    a = wp.zeros(65, D)
    for j in range(65):
        a[j] = x
    return a[3]


@wp.kernel
def k(x: wp.array[D], out: wp.array[D]):
    out[wp.tid()] = wp.grad(f)(x[0])
""", D=D)
    with pytest.raises(DifferentiationError, match="an array of 65 numbers of a thread; grad in a kernel"):
        scope["k"].specialize()


# Random kernels


@pytest.mark.parametrize("name", CHECKS)
@settings(max_examples=10, deadline=None)
@given(case=own_array_strategy.cases())
def test_derivatives_of_random_kernels(name, case):
    check(name, case)


def test_most_random_kernels_have_gradients(monkeypatch):
    """Though their arrays may not become values."""
    monkeypatch.setattr(own_arrays, "LIMIT", 0)
    given_ = [check("adjoint", own_array_strategy.random_case(seed)) for seed in range(60)]
    assert sum(given_) > 40


def test_an_array_that_is_small_enough_is_values_where_memory_does_not_do(monkeypatch):
    body = OVERWRITTEN.replace("70", "20").format(times="n[i]")
    x = jnp.asarray(random(2))
    np.testing.assert_allclose(jax.grad(one_output(body))(x), jax.jacfwd(one_output(body))(x), rtol=1e-10)
    monkeypatch.setattr(own_arrays, "LIMIT", 0)
    with pytest.raises(DifferentiationError, match="a, an array of the thread's own, is read here"):
        jax.grad(one_output(body))(x)
