"""Derivatives of functions on tiles: against finite differences, each mode against another one, and against JAX."""

from __future__ import annotations

import derivativekit as kit
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivativekit import Case
from tilekit import body_kernel

import jaxwarp as wp

RNG = np.random.default_rng(41)
FUNCTIONS = """
@wp.func
def bent(x: wp.float64, y: wp.float64):
    return wp.sin(x) * y + x * x

@wp.func
def grown(t: Any, n: int):
    for q in range(n):
        if q == 2:
            return t * wp.float64(3.0)
        t = t * t + wp.tile_transpose(t)
    return t

@wp.func
def changed(t: Any, x: wp.float64):
    t[0, 1] *= x
    t += wp.tile_transpose(t)
"""
# Statements on t and u, tiles of 4 by 4 of `a` and `b`, and one, of ones; `out` gets r.
BODIES = {
    "operators": "r = t * u / (u + wp.float64(2.0)) - -t",
    "a map": "r = wp.tile_map(bent, t, u)",
    "a map with a number of an array": "r = wp.tile_map(bent, t, a[0, 1])",
    "a chain of products": "r = wp.tile_matmul(wp.tile_matmul(t, u), wp.tile_transpose(t))",
    "products that are added": "r = t * u\nfor q in range(i + 2):\n"
    "    wp.tile_matmul(t, u, r, wp.float64(0.3), wp.float64(0.5))",
    "a product in place": "r = u\nwp.tile_matmul(r, t, r)",
    "cholesky": "s = wp.tile_matmul(t, wp.tile_transpose(t)) + i4\nr = wp.tile_cholesky(s)",
    "cholesky, upper, in place": "r = wp.tile_matmul(t, wp.tile_transpose(t)) + i4\n"
    "wp.tile_cholesky_inplace(r, fill_mode='upper')",
    "a system": "s = wp.tile_matmul(t, wp.tile_transpose(t)) + i4\nr = wp.tile_cholesky_solve(wp.tile_cholesky(s), u)",
    "triangular systems": "r = wp.tile_lower_solve(t + i4, u)\nwp.tile_upper_solve_inplace(u + i4, r)",
    "a diagonal": "r = wp.tile_diag_add(t, u[1]) * t",
    "sums": "r = wp.tile_broadcast(wp.tile_sum(t * t), shape=(4, 4)) * u",
    "sums along an axis": "r = wp.tile_broadcast(wp.tile_sum(t * u, axis=0), shape=(4, 4)) * t",
    "a dot product": "r = wp.tile_broadcast(wp.tile_dot(t, u), shape=(4, 4)) * t\nwp.tile_axpy(a[1, 1], t, r)",
    "extrema": "r = wp.tile_broadcast(wp.tile_min(t) * wp.tile_max(u), shape=(4, 4)) * t",
    "a reduction": "r = wp.tile_broadcast(wp.tile_reduce(wp.mul, t, axis=1), shape=(4, 4)) + u",
    "scans": "r = wp.tile_scan_inclusive(t * t) * wp.tile_scan_exclusive(u)",
    "a scan of extrema": "r = wp.tile_scan_max_inclusive(t) * u",
    "views": "v = wp.tile_transpose(t)\nv += u\n"
    "r = t * wp.tile_reshape(wp.tile_reshape(u, shape=(2, 8)), shape=(4, 4))",
    "in place": "changed(t, u[2, 2])\nr = t\nr[1] = u[2]\nr -= u * t\nr *= u",
    "parts": "wp.tile_assign(t, wp.tile_view(u * t, offset=(1, 1), shape=(2, 3)), offset=(i, 0))\nr = t * u",
    "slices": "r = t * u\nr[::2, 1:] += t[1:3, :3] * u[2, 0]\nr[3] = r[::-1, 2] * t[:, i]",
    "a choice": "r = (t * u if i == 0 else u) + wp.where(t[0, 0] > u[0, 0], t, u) * t",
    "scatters": "r = t * u\nwp.tile_scatter_add(r, 1, i, u[0, 0] * t[2, 2], i == 0)\n"
    "wp.tile_scatter_masked(r, 2, 2, t[0, 1], True)",
    "gathers": "r = t[order] * u[:, order]",
    "loads outside": "r = wp.tile_load(a, shape=(4, 4), offset=(2, -1)) * u + wp.tile_load(b, shape=(4, 4), "
    "offset=(9, 0))",
    "indexed loads": "r = wp.tile_load_indexed(a, order, shape=(4, 4), offset=(i, 0)) * u",
    "casts": "r = wp.tile_astype(wp.tile_astype(t, wp.float64) * u, wp.float64)",
    "a branch": "r = t\nif t[0, 0] > u[0, 0]:\n    r = t * u\nelse:\n    r = wp.tile_transpose(u)\nr += t",
    "a loop": "r = t\np = u\nfor q in range(i + 3):\n    r, p = p, r * wp.float64(0.5) + p\nr = r * p",
    "a function of several paths": "r = grown(t, i + 1) + grown(u * wp.float64(0.3), 3)",
    "values of the thread": "v = wp.tile(wp.vec4d(t[0, 0], t[1, 1], u[0, 1], u[2, 2]))\n"
    "r = wp.tile_broadcast(v * v, shape=(4, 4)) * t",
    "sorted keys": "keys = wp.tile_reshape(t * u, shape=(16,))\nwp.tile_sort(keys, wp.tile_arange(16, dtype=int))\n"
    "r = wp.tile_reshape(keys, shape=(4, 4)) * t",
}  # fmt: skip


def kernel_of(body: str, n: int = 4) -> wp.Kernel:
    text = f"""
t = wp.tile_load(a, shape=({n}, {n}))
u = wp.tile_load(b, shape=({n}, {n}))
i4 = wp.tile_diag_add(wp.tile_zeros(shape=({n}, {n}), dtype=wp.float64), wp.tile_ones(shape={n}, dtype=wp.float64))
order = wp.tile_arange({n - 1}, -1, -1, dtype=int)
{body}
wp.tile_store(out[i], r)
"""
    types = "a: wp.array2d[wp.float64], b: wp.array2d[wp.float64], out: wp.array3d[wp.float64]"
    return body_kernel(types, text, FUNCTIONS)


def case_of(name: str) -> Case:
    buffers = [RNG.uniform(0.4, 1.4, (4, 4)), RNG.uniform(0.4, 1.4, (4, 4)), np.zeros((2, 4, 4))]
    return Case(name, kernel_of(BODIES[name]).specialize(), (2,), buffers, (0, 1), (2,))


@pytest.mark.parametrize("name", BODIES)
def test_first_derivatives(name):
    case = case_of(name)
    kit.check_tangent(case)
    kit.check_adjoint(case)


@pytest.mark.parametrize("name", ["operators", "a chain of products", "cholesky", "in place", "a branch"])
def test_second_derivatives(name):
    case = case_of(name)
    kit.check_adjoint_of_tangent(case)
    kit.check_tangent_of_adjoint(case)


def test_fourier_transforms():
    for count in (5, 8):
        k = body_kernel(
            "a: wp.array[wp.vec2d], out: wp.array[wp.vec2d]",
            f"""
t = wp.tile_load(a, shape={count})
wp.tile_fft(t)
s = wp.tile_map(wp.cw_mul, t, t)
wp.tile_ifft(s)
wp.tile_store(out, s)
""",
        )
        case = Case("fft", k.specialize(), (1,), [RNG.random((count, 2)), np.zeros((count, 2))], (0,), (1,))
        kit.check_tangent(case)
        kit.check_adjoint(case)


AGAINST_JAX = {
    "a chain of products": lambda t, u: t @ u @ t.T,
    "cholesky": lambda t, u: jnp.linalg.cholesky(t @ t.T + jnp.eye(len(t))),
    "a system": lambda t, u: jnp.linalg.solve(t @ t.T + jnp.eye(len(t)), u),
    "scans": lambda t, u: jnp.cumsum(t * t).reshape(t.shape) * (jnp.cumsum(u) - u.ravel()).reshape(t.shape),
    "operators": lambda t, u: t * u / (u + 2) + t,
}


@pytest.mark.parametrize("n", [4, 12])
@pytest.mark.parametrize("name", AGAINST_JAX)
def test_gradients_against_jax(name, n):
    """In jit, and in vmap of grad; larger tiles stay in memory in reverse."""
    call = wp.jax_kernel(kernel_of(BODIES[name], n), launch_dims=(2, 1), output_dims=(2, n, n))
    a, b, weights = RNG.uniform(0.4, 1.4, (3, 3, n, n))

    def ours(a, b, w):
        return (call(a, b)[0] * w).sum()

    def theirs(a, b, w):
        return 2 * (AGAINST_JAX[name](a, b) * w).sum()

    with jax.enable_x64(True):
        got = jax.jit(jax.vmap(jax.grad(ours, (0, 1))))(a, b, weights)
        expected = jax.jit(jax.vmap(jax.grad(theirs, (0, 1))))(a, b, weights)
        pushed = jax.jvp(lambda a: call(a, b[0])[0], (jnp.asarray(a[0]),), (jnp.asarray(b[0]),))[1]
        wanted = jax.jit(lambda a, t: jax.jvp(lambda a: AGAINST_JAX[name](a, b[0]), (a,), (t,))[1])(a[0], b[0])
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(pushed, [wanted, wanted], rtol=1e-8, atol=1e-8)
