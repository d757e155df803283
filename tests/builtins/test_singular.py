"""Singular is singular: equal products cancel in cross products, determinants and twists (docs/design/0058)."""

from __future__ import annotations

import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import prepare

N = 400


@wp.kernel
def products(
    a: wp.array[wp.vec3], b: wp.array[wp.vec3], m: wp.array[wp.mat22], n: wp.array[wp.mat33], k: wp.array[wp.mat44],
    c: wp.array[wp.vec3], d2: wp.array[float], d3: wp.array[float], d4: wp.array[float], i2: wp.array[wp.mat22],
    i3: wp.array[wp.mat33], i4: wp.array[wp.mat44], s: wp.array[wp.spatial_vector], angle: wp.array[float],
):  # fmt: skip
    i = wp.tid()
    c[i] = wp.cross(a[i], b[i])
    d2[i] = wp.determinant(m[i])
    d3[i] = wp.determinant(n[i])
    d4[i] = wp.determinant(k[i])
    i2[i] = wp.inverse(m[i])
    i3[i] = wp.inverse(n[i])
    i4[i] = wp.inverse(k[i])
    twist = wp.spatial_vector(a[i], b[i])
    s[i] = wp.spatial_cross(twist, twist)
    # Perpendicular, whatever the lengths are: x y - y x.
    x = a[i][0]
    y = a[i][1]
    angle[i] = wp.quat_twist_angle(wp.vec3(x, y, 0.0), wp.quat(-y, x, 0.0, 0.0))


def outputs() -> list[np.ndarray]:
    shapes = [(N, 3), (N,), (N,), (N,), (N, 2, 2), (N, 3, 3), (N, 4, 4), (N, 6), (N,)]
    return [np.zeros(s, np.float32) for s in shapes]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(N, *shape)) * 2.0 ** rng.integers(-9, 9, (N, *shape))).astype(np.float32)


def run(a, b, m, n, k) -> list[np.ndarray]:
    return [np.asarray(x) for x in wp.jax_kernel(products, num_outputs=9, launch_dims=N, output_dims=N)(a, b, m, n, k)]


def regular() -> list[np.ndarray]:
    return [numbers(3), numbers(3, seed=1), numbers(2, 2), numbers(3, 3), numbers(4, 4)]


def singular(which: int) -> list[np.ndarray]:
    """Matrices with two equal rows or columns, of those that docs/builtins.md names."""
    a, _, m, n, k = regular()
    b = a * np.float32((1.0, -1.0, 0.25, 2.0)[which])
    rows, columns = m.copy(), m.copy()
    rows[:, 1], columns[:, :, 1] = np.float32(2.0) * m[:, 0], -m[:, :, 0]
    m = rows if which % 2 else columns
    i, j = ((0, 1), (0, 2), (1, 2), (1, 2))[which]
    if which == 3:
        n[:, 2] = n[:, 1]
    else:
        n[:, :, j] = n[:, :, i]
    i, j = ((0, 1), (2, 3), (0, 1), (2, 3))[which]
    k[:, j] = k[:, i]
    return [a, b, m, n, k]


@pytest.mark.parametrize("which", range(4))
def test_equal_products_cancel(which):
    for found in run(*singular(which)):
        assert not found.any()


def test_values_are_those_of_separate_roundings():
    """To the bit, as NumPy has them, in float32."""
    a, b, m, n, k = regular()

    def minor(p, q, r, s):
        return p * s - q * r

    found = run(a, b, m, n, k)
    cross = [minor(a[:, i], a[:, j], b[:, i], b[:, j]) for i, j in ((1, 2), (2, 0), (0, 1))]
    np.testing.assert_array_equal(found[0], np.stack(cross, 1))
    np.testing.assert_array_equal(found[1], minor(m[:, 0, 0], m[:, 0, 1], m[:, 1, 0], m[:, 1, 1]))
    x, y, z = (minor(n[:, 1, i], n[:, 1, j], n[:, 2, i], n[:, 2, j]) for i, j in ((1, 2), (0, 2), (0, 1)))
    np.testing.assert_array_equal(found[2], n[:, 0, 0] * x - n[:, 0, 1] * y + n[:, 0, 2] * z)
    np.testing.assert_array_equal(run(b, a, m, n, k)[0], -found[0])
    for inverse, matrix in zip(found[4:7], (m, n, k), strict=True):
        exact = np.linalg.inv(matrix.astype(np.float64))
        error = np.abs(inverse - exact).max((1, 2)) / np.abs(exact).max((1, 2))
        assert np.median(error) < 1e-6


@pytest.mark.parametrize("values", [regular, lambda: singular(2)], ids=["regular", "singular"])
def test_the_interpreter_and_cuda_have_the_same_bits(values):
    kernel = prepare(products.specialize())
    given = values()
    expected = run(*given)[:8]  # elementary functions of the two are not the same
    for execute in (interpret, hostcuda.run_host):
        buffers = [*(x.copy() for x in given), *outputs()]
        execute(kernel, (N,), buffers)
        for found, one in zip(buffers[5:], expected, strict=False):
            np.testing.assert_array_equal(found, one)


def test_without_contraction_nothing_changes():
    plain, contracted = (prepare(products.specialize(), fma=fma) for fma in (False, True))
    for given in (regular(), singular(0)):
        left, right = ([*(x.copy() for x in given), *outputs()] for _ in range(2))
        interpret(plain, (N,), left)
        interpret(contracted, (N,), right)
        for place in (5, 6, 7):
            np.testing.assert_array_equal(left[place], right[place])


def test_derivatives():
    """At singular ones, too: of a determinant the cofactors, of a cross product the other factor."""
    call = wp.jax_kernel(products, num_outputs=9, launch_dims=N, output_dims=N)
    for given in (regular(), singular(0), singular(3)):
        *values, last = (jnp.asarray(x) for x in given)

        def ours(a, b, m, n, last=last):
            found = call(a, b, m, n, last)
            return found[0].sum() + found[1].sum() + found[2].sum()

        def plain(a, b, m, n):
            rows = n[:, 0], n[:, 1], n[:, 2]
            three = (rows[0] * jnp.cross(rows[1], rows[2])).sum()
            return jnp.cross(a, b).sum() + (m[:, 0, 0] * m[:, 1, 1] - m[:, 0, 1] * m[:, 1, 0]).sum() + three

        tangents = [jnp.cos(x) for x in values]
        expected = jax.grad(plain, (0, 1, 2, 3))(*values)
        for found, one in zip(jax.grad(ours, (0, 1, 2, 3))(*values), expected, strict=True):
            np.testing.assert_allclose(found, one, rtol=1e-4, atol=1e-4 * float(jnp.abs(one).max()))
        forward = jax.jvp(ours, values, tangents)[1]
        terms = [g * t for g, t in zip(expected, tangents, strict=True)]
        size = sum(float(jnp.abs(x).sum()) for x in terms)
        np.testing.assert_allclose(forward, sum(x.sum() for x in terms), atol=1e-5 * size)


def test_matrices_outside_of_kernels_are_singular_where_they_are_in_kernels():
    tiny = np.eye(4, dtype=np.float32) * np.float32(1e-16)
    for t in (wp.mat22, wp.mat33, wp.mat44):
        n = t.shape[0]
        same = t(*np.ones(n * n))
        for m in (t(), same, t(*tiny[:n, :n].ravel())):
            expected = np.zeros((n, n))
            if n == 2 and m[0, 0] == tiny[0, 0]:  # 1e-32 is no zero yet
                expected = np.linalg.inv(tiny[:2, :2].astype(np.float64))
            np.testing.assert_allclose(wp.inverse(m), expected, rtol=1e-6)
            np.testing.assert_allclose(wp.inverse_approx(m), expected, rtol=1e-6)
    for m in regular()[2:]:
        found = [wp.inverse(wp.types.matrix(x.shape, float)(*x.ravel())) for x in m[:20]]
        for x, y in zip(m, found, strict=False):
            np.testing.assert_allclose(y, np.linalg.inv(x.astype(np.float64)), rtol=1e-5)
    assert wp.inverse(wp.mat33d(*(np.eye(3) * 1e-16).ravel()))[0, 0] == pytest.approx(1e16)
