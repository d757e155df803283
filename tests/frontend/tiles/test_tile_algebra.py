"""Linear algebra, Fourier transforms and sorting of tiles against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from tilekit import NUMBERS, body_kernel, close, each_with, everywhere

RNG = np.random.default_rng(23)
ROUND = {"wp.float16": 2e-2, "wp.bfloat16": 2e-1, "float": 2e-5, "wp.float64": 1e-12}


def spread(dtype: str, *shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(NUMBERS[dtype])


def positive(dtype: str, n: int) -> np.ndarray:
    a = RNG.uniform(-1, 1, (n, n))
    return (a @ a.T + np.eye(n)).astype(NUMBERS[dtype])


def near(got: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=ROUND[dtype], atol=ROUND[dtype])


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *each_with(ROUND, [(4, 3, 5)], "float", [(1, 1, 1), (8, 16, 8), (1, 7, 2)]),
        pytest.param("wp.float16", (8, 16, 8), id="wp.float16-8x16x8"),  # large tiles of half floats are held wide
    ],
)
def test_products(dtype, shape):
    m, k, n = shape
    kernel = body_kernel(
        ", ".join(f"{name}: wp.array2d[{dtype}]" for name in ("a", "b", "c", "new", "added", "scaled", "only")),
        f"""
t = wp.tile_load(a, shape=({m}, {k}))
u = wp.tile_transpose(wp.tile_load(b, shape=({n}, {k})))
wp.tile_store(new, wp.tile_matmul(t, u))
z = wp.tile_load(c, shape=({m}, {n}))
wp.tile_matmul(t, u, z)
wp.tile_store(added, z)
wp.tile_matmul(t, u, z, alpha=0.5, beta=-2.0)
wp.tile_store(scaled, z)
y = wp.tile_full(shape=({m}, {n}), value=wp.nan, dtype={dtype})
wp.tile_matmul(t, u, y, 2.0, 0.0)
wp.tile_store(only, y)
""",
    )
    a, b, c = spread(dtype, m, k), spread(dtype, n, k), spread(dtype, m, n)
    rtol = 1e-5 if dtype == "float" else 1e-2
    blank = [np.zeros((m, n))] * 4
    found = everywhere(kernel, a, b, c, *blank, rtol=rtol, atol=rtol, on_host=shape == (4, 3, 5))
    *_, new, added, scaled, only = found
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    product = x @ y.T
    near(new, product, dtype)
    near(added, z + product, dtype)
    near(scaled, product / 2 - 2 * (z + product), dtype)
    near(only, 2 * product, dtype)


def test_sums_of_half_floats_are_in_float32():
    kernel = body_kernel(
        "a: wp.array2d[wp.float16], out: wp.array2d[wp.float16]",
        "t = wp.tile_load(a, shape=(1, 64))\nwp.tile_store(out, wp.tile_matmul(t, wp.tile_transpose(t)))",
    )
    a = np.full((1, 64), np.float16(1 / 3))
    a[0, 0] = 32
    expected = np.float16((a.astype(np.float64) ** 2).sum())
    assert everywhere(kernel, a, np.zeros((1, 1)))[1][0, 0] == expected
    assert expected > 1030


def test_products_of_other_types_and_of_complex_numbers():
    kernel = body_kernel(
        "a: wp.array2d[wp.vec2], b: wp.array2d[wp.vec2], out: wp.array3d[wp.vec2], h: wp.array2d[wp.float16],"
        " wide: wp.array2d[float]",
        """
t, u = wp.tile_load(a, shape=(2, 3)), wp.tile_load(b, shape=(3, 2))
z = wp.tile_matmul(t, u)
wp.tile_store(out[0], z)
wp.tile_matmul(t, u, z, alpha=0.5, beta=2.0)
wp.tile_store(out[1], z)
x = wp.tile_load(h, shape=(2, 2))
y = wp.tile_zeros(shape=(2, 2), dtype=float)
wp.tile_matmul(x, x, y)
wp.tile_store(wide, y)
""",
    )
    a, b = spread("float", 2, 3, 2), spread("float", 3, 2, 2)
    h = spread("wp.float16", 2, 2)
    _, _, out, _, wide = everywhere(kernel, a, b, np.zeros((2, 2, 2, 2)), h, np.zeros((2, 2)), rtol=1e-5)
    product = (a @ [1, 1j]) @ (b @ [1, 1j])
    np.testing.assert_allclose(out @ [1, 1j], [product, 2.5 * product], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(wide, h.astype(np.float32) @ h.astype(np.float32), rtol=1e-6)


@pytest.mark.parametrize(("dtype", "n"), each_with(["wp.float64"], [5], "float", [1, 2, 5, 12]))
def test_systems(dtype, n):
    kernel = body_kernel(
        ", ".join(f"{name}: wp.array2d[{dtype}]" for name in ("a", "b", "lower", "upper"))
        + f", out: wp.array3d[{dtype}], one: wp.array2d[{dtype}]",
        f"""
t, u = wp.tile_load(a, shape=({n}, {n})), wp.tile_load(b, shape=({n}, 3))
l = wp.tile_cholesky(t)
r = wp.tile_cholesky(t, fill_mode="upper")
wp.tile_store(lower, l)
wp.tile_store(upper, r)
wp.tile_store(out[0], wp.tile_cholesky_solve(l, u))
wp.tile_store(out[1], wp.tile_cholesky_solve(r, u, fill_mode="upper"))
wp.tile_store(out[2], wp.tile_lower_solve(l, u))
wp.tile_store(out[3], wp.tile_upper_solve(r, u))
y = wp.tile_squeeze(wp.tile_view(u, offset=(0, 1), shape=({n}, 1)))
wp.tile_store(one[0], wp.tile_cholesky_solve(l, y))
wp.tile_store(one[1], wp.tile_lower_solve(l, y))
wp.tile_store(one[2], wp.tile_upper_solve(wp.tile_transpose(l), y))
""",
    )
    a, b = positive(dtype, n), spread(dtype, n, 3)
    blank = np.zeros((n, n))
    rtol = 1e-4 if dtype == "float" else 1e-10
    results = blank, blank, np.zeros((4, n, 3)), np.zeros((3, n))
    *_, lower, upper, out, one = everywhere(kernel, a, b, *results, rtol=rtol, atol=rtol, on_host=n == 5)
    x, y = a.astype(np.float64), b.astype(np.float64)
    expected = np.linalg.cholesky(x)
    near(lower, expected, dtype)
    near(upper, expected.T, dtype)
    forward = scipy.linalg.solve_triangular(expected, y, lower=True)
    near(out[0], np.linalg.solve(x, y), dtype)
    near(out[1], np.linalg.solve(x, y), dtype)
    near(out[2], forward, dtype)
    near(out[3], scipy.linalg.solve_triangular(expected.T, y), dtype)
    near(one[0], np.linalg.solve(x, y[:, 1]), dtype)
    near(one[1], forward[:, 1], dtype)
    near(one[2], scipy.linalg.solve_triangular(expected.T, y[:, 1]), dtype)


def test_systems_in_place_and_through_views():
    kernel = body_kernel(
        "a: wp.array2d[wp.float64], b: wp.array2d[wp.float64], out: wp.array3d[wp.float64]",
        """
whole = wp.tile_load(a, shape=(6, 6))
t = wp.tile_view(whole, offset=(1, 1), shape=(4, 4))
y = wp.tile_load(b, shape=(4, 2))
wp.tile_cholesky_inplace(t)
wp.tile_store(out[0], whole)
wp.tile_cholesky_solve_inplace(t, y)
wp.tile_store(out[1], y)
wp.tile_lower_solve_inplace(t, y)
wp.tile_store(out[2], y)
column = wp.tile_squeeze(wp.tile_view(y, offset=(0, 1), shape=(4, 1)))
wp.tile_upper_solve_inplace(wp.tile_transpose(t), column)
wp.tile_store(out[3], y)
s = wp.tile_diag_add(t, wp.tile_arange(4, dtype=wp.float64))
wp.tile_store(out[4], s)
""",
    )
    a, b = positive("wp.float64", 6), spread("wp.float64", 4, 2)
    out = everywhere(kernel, a, b, np.zeros((5, 6, 6)), rtol=1e-12)[2]
    inner = np.linalg.cholesky(a[1:5, 1:5])
    expected = a.copy()
    expected[1:5, 1:5] = inner
    np.testing.assert_allclose(out[0], expected, rtol=1e-12)
    y = np.linalg.solve(a[1:5, 1:5], b)
    np.testing.assert_allclose(out[1, :4, :2], y, rtol=1e-12)
    y = np.linalg.solve(inner, y)
    np.testing.assert_allclose(out[2, :4, :2], y, rtol=1e-12)
    y[:, 1] = np.linalg.solve(inner.T, y[:, 1])
    np.testing.assert_allclose(out[3, :4, :2], y, rtol=1e-11)
    np.testing.assert_allclose(out[4, :4, :4], inner + np.diag(np.arange(4)), rtol=1e-12)


def test_a_matrix_that_is_not_positive_definite_has_no_numbers():
    kernel = body_kernel(
        "a: wp.array2d[float], out: wp.array2d[float]",
        "wp.tile_store(out, wp.tile_cholesky(wp.tile_load(a, shape=(2, 2))))",
    )
    out = everywhere(kernel, np.array([[1, 2], [2, 1]], np.float32), np.zeros((2, 2)))[1]
    assert np.isnan(out[1, 1])
    assert out[0].tolist() == [1, 0]


@pytest.mark.parametrize(("dtype", "count"), each_with(["wp.vec2d"], [6, 8], "wp.vec2", [1, 2, 5, 6, 8, 16]))
def test_fourier_transforms(dtype, count):
    kernel = body_kernel(
        f"a: wp.array2d[{dtype}], out: wp.array3d[{dtype}], one: wp.array[{dtype}]",
        f"""
t = wp.tile_load(a, shape=(3, {count}))
first = wp.tile_view(t, offset=(0,)) * 1.0
wp.tile_fft(t)
wp.tile_store(out[0], t)
wp.tile_ifft(t)
wp.tile_store(out[1], t)
wp.tile_fft(first)
wp.tile_store(one, first)
""".replace("1.0", "wp.float64(1.0)" if dtype == "wp.vec2d" else "1.0"),
    )
    kind = np.float64 if dtype == "wp.vec2d" else np.float32
    a = RNG.uniform(-1, 1, (3, count, 2)).astype(kind)
    tolerance = 1e-12 if dtype == "wp.vec2d" else 2e-5
    blank, on_host = (np.zeros((2, 3, count, 2)), np.zeros((count, 2))), count in (5, 8)
    _, out, one = everywhere(kernel, a, *blank, rtol=tolerance, atol=tolerance, on_host=on_host)
    expected = np.fft.fft(a @ [1, 1j])
    np.testing.assert_allclose(out[0] @ [1, 1j], expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(out[1], count * a, rtol=tolerance, atol=count * tolerance)
    np.testing.assert_allclose(one @ [1, 1j], expected[0], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    each_with(
        ["wp.float16", "float", "wp.float64", "wp.int8", "int", "wp.uint64"],
        [(13,)],
        "float",
        [(1,), (2,), (16,), (3, 5)],
    ),
)
def test_sorting_is_stable(dtype, shape):
    kernel = body_kernel(
        f"a: wp.array(dtype={dtype}, ndim={len(shape)}), at: wp.array(dtype=int, ndim={len(shape)}),"
        f" keys: wp.array(dtype={dtype}, ndim={len(shape)}), values: wp.array(dtype=int, ndim={len(shape)})",
        f"""
t, u = wp.tile_load(a, shape={shape}), wp.tile_load(at, shape={shape})
wp.tile_sort(t, u)
wp.tile_store(keys, t)
wp.tile_store(values, u)
""",
    )
    a = RNG.integers(0, 6, shape).astype(NUMBERS[dtype])
    at = np.arange(a.size, dtype=np.int32).reshape(shape)
    blank = np.zeros(shape)
    *_, keys, values = everywhere(kernel, a, at, blank, blank, on_host=shape == (13,))
    order = np.argsort(a.ravel(), kind="stable")
    close(keys.ravel(), a.ravel()[order].astype(np.float64), dtype)
    assert values.ravel().tolist() == order.tolist()


def test_sorting_puts_what_is_no_number_last():
    kernel = body_kernel(
        "a: wp.array[float], v: wp.array[wp.vec2], keys: wp.array[float], values: wp.array[wp.vec2]",
        """
t, u = wp.tile_load(a, shape=9), wp.tile_load(v, shape=9)
wp.tile_sort(t, u)
wp.tile_store(keys, t)
wp.tile_store(values, u)
""",
    )
    a = np.array([3, np.nan, -1, np.inf, np.nan, -np.inf, 0.0, -0.0, 2], np.float32)
    v = RNG.random((9, 2)).astype(np.float32)
    _, _, keys, values = everywhere(kernel, a, v, np.zeros(9), np.zeros((9, 2)))
    order = np.argsort(a, kind="stable")
    np.testing.assert_array_equal(keys, a[order])
    np.testing.assert_array_equal(values, v[order])
