"""Noise: Warp's values, and derivatives beside an oracle in float64 that sums over the corners of a cell.

`noise_values.json` holds what NVIDIA Warp 1.19 gave on its CPU.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import run

import jaxwarp as wp
from jaxwarp.passes.pipeline import prepare
from library.noise_kernels import COLUMNS, SEED, make, points, values

REFERENCE = np.array(json.loads((Path(__file__).parent / "noise_values.json").read_text()), np.float32)
# Terms are of size 1, those of curls of several gradients up to 8.
TOLERANCE = np.where(np.arange(COLUMNS) < 8, 1e-6, 6e-6)


def require_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert (np.abs(found - expected) <= TOLERANCE[: found.shape[1]]).all()


def test_values_of_warp():
    require_close(values(wp, len(REFERENCE)), REFERENCE)


def test_values_beside_an_installed_warp():
    warp = pytest.importorskip("warp", reason="the comparison needs warp-lang")
    warp.config.quiet = True
    require_close(values(wp, 2000), values(warp, 2000))


def test_interpreter_widths_and_cuda():
    plain, n = make(wp)[0], 6
    out = run(plain, n, SEED, points(n), np.zeros((n, 8), np.float32))[-1]
    require_close(out, REFERENCE[:n, :8])
    buffers = [np.array(SEED, np.int32), points(n), np.zeros((n, 8), np.float32)]
    hostcuda.run_host(prepare(plain.specialize()), (n,), buffers)
    require_close(buffers[-1], REFERENCE[:n, :8])


# The oracle

PRIMES = (73856093, 19349663, 53471161, 10000019)
M = 2**32


def hashed(x: int) -> int:
    x = (x * 747796405 + 2891336453) % M
    x = (((x >> ((x >> 28) + 4)) ^ x) * 277803737) % M
    return (x >> 22) ^ x


def direction(seed: int, dimensions: int) -> np.ndarray:
    drawn = []
    for _ in range(dimensions):
        seed = hashed(seed)
        drawn.append((seed >> 8) / 2**24)
    if dimensions == 1:
        return np.array([2 * drawn[0] - 1])
    g = np.array(drawn) - 0.5
    return g / np.linalg.norm(g)


def corner_seed(state: int, corner: np.ndarray) -> int:
    words = [int(c) * p % M for c, p in zip(corner, PRIMES, strict=False)]
    words[-1] = (words[-1] + state) % M
    return int(np.bitwise_xor.reduce(words))


def oracle(state: int, p: np.ndarray) -> float:
    """The noise at a point, as a sum over corners of weights times linear functions."""
    p = np.asarray(p, np.float64)
    least = np.floor(p)
    s = lambda t: t**3 * (t * (t * 6 - 15) + 10)  # noqa: E731
    total = 0.0
    for sides in itertools.product((0, 1), repeat=len(p)):
        corner = least + sides
        weight = np.prod([s(t) if side else 1 - s(t) for t, side in zip(p - least, sides, strict=True)])
        total += weight * np.dot(p - corner, direction(corner_seed(state, corner), len(p)))
    return total


def differences(f, p: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    steps = eps * np.eye(len(p))
    return np.stack([(f(p + e) - f(p - e)) / (2 * eps) for e in steps], -1)


@wp.kernel
def noise1(p: wp.array[float], out: wp.array[float]):
    out[wp.tid()] = wp.noise(wp.uint32(77), p[wp.tid()])


@wp.kernel
def noise2(p: wp.array[wp.vec2], out: wp.array[float]):
    out[wp.tid()] = wp.noise(wp.uint32(77), p[wp.tid()])


@wp.kernel
def noise3(p: wp.array[wp.vec3], out: wp.array[float]):
    out[wp.tid()] = wp.noise(wp.uint32(77), p[wp.tid()])


@wp.kernel
def noise4(p: wp.array[wp.vec4], out: wp.array[float]):
    out[wp.tid()] = wp.noise(wp.uint32(77), p[wp.tid()])


@pytest.mark.parametrize("kernel", [noise1, noise2, noise3, noise4], ids=lambda k: k.name)
def test_gradients_and_second_derivatives(kernel):
    n = int(kernel.name[-1])
    p = points(4)[1:, :n]
    given = jnp.asarray(p[:, 0] if n == 1 else p)
    f = lambda p: wp.jax_kernel(kernel)(p)[0]  # noqa: E731
    gradient = jax.grad(lambda p: f(p).sum())
    reference = lambda q: oracle(77, q)  # noqa: E731

    @jax.jit
    def found(given, tangent):
        second = jax.jvp(gradient, (given,), (tangent,))[1], jax.grad(lambda p: gradient(p).sum())(given)
        return f(given), gradient(given), jax.jvp(f, (given,), (tangent,))[1], second

    value, by_place, along, second = found(given, jnp.ones_like(given))
    np.testing.assert_allclose(value, [reference(q) for q in p], atol=2e-6)
    expected = np.stack([differences(reference, q) for q in p])
    np.testing.assert_allclose(by_place.reshape(p.shape), expected, atol=3e-5)
    np.testing.assert_allclose(along, expected.sum(1), atol=6e-5)
    hessian = np.stack([differences(lambda x: differences(reference, x, 1e-4), q, 1e-4) for q in p])
    for mode in second:
        np.testing.assert_allclose(mode.reshape(p.shape), hessian.sum(-1), atol=2e-3)


@wp.kernel
def curl(p: wp.array[wp.vec2], lacunarity: float, gain: float, out: wp.array[wp.vec2]):
    i = wp.tid()
    out[i] = wp.curlnoise(wp.uint32(77), p[i], wp.uint32(2), lacunarity, gain)


def test_curlnoise_and_its_derivatives():
    def reference(p: np.ndarray, lacunarity: float = 1.7, gain: float = 0.6) -> np.ndarray:
        first, second = (differences(lambda q: oracle(77, q), q) for q in (p, lacunarity * p))
        g = first + gain * second
        return np.array([-g[1], g[0]])

    p = points(4)[1:, :2]
    f = lambda p, lacunarity, gain: wp.jax_kernel(curl)(p, lacunarity, gain)[0]  # noqa: E731
    given = (jnp.asarray(p), jnp.float32(1.7), jnp.float32(0.6))
    np.testing.assert_allclose(f(*given), [reference(q) for q in p], atol=2e-5)
    jacobian = np.stack([differences(reference, q, 1e-4) for q in p])
    found = jax.jit(jax.vmap(jax.jacrev(lambda q: f(q[None], *given[1:])[0])))(given[0])
    np.testing.assert_allclose(found, jacobian, atol=2e-3)
    # Without sources: the divergence is 0. By its factors, which have no derivatives in Warp.
    np.testing.assert_allclose(np.trace(found, axis1=1, axis2=2), 0, atol=1e-4)
    factors = np.array([1.7, 0.6])
    expected = np.stack([differences(lambda x, q=q: reference(q, *x), factors, 1e-4) for q in p])
    for mode in (jax.jacfwd, jax.jacrev):
        by_factors = jax.jit(mode(lambda *factors: f(given[0], *factors), (0, 1)))(*given[1:])
        np.testing.assert_allclose(np.stack(by_factors, -1), expected, atol=2e-3, rtol=1e-4)


def test_a_period():
    @wp.kernel
    def periodic(p: wp.array[wp.vec2], out: wp.array[float]):
        out[wp.tid()] = wp.pnoise(wp.uint32(3), p[wp.tid()], 4, 3)

    p = np.abs(points(50))[:, :2].astype(np.float32)
    p = np.round(p * 64) / 64  # sums with whole numbers are exact
    f = wp.jax_kernel(periodic)
    np.testing.assert_array_equal(f(p)[0], f(p + np.float32([4, 3]))[0])
    assert np.abs(f(p)[0] - f(p + np.float32([3, 3]))[0]).max() > 0.1
