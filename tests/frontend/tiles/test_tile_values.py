"""Functions on tiles against NumPy: element types, shapes of one to four axes, maps, reductions, scans, views."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from tilekit import FLOATS, NUMBERS, body_kernel, close, each_with, everywhere

RNG = np.random.default_rng(11)
SHAPES = [(5,), (3, 4), (2, 3, 4), (2, 1, 3, 2)]


def numbers(dtype: str, *shape: int) -> np.ndarray:
    """Small integers: sums of products of them are exact in every type."""
    low = 0 if "uint" in dtype else -2
    return RNG.integers(low, 3, shape).astype(NUMBERS[dtype])


def arrays_of(dtype: str, ndim: int, *names: str) -> str:
    return ", ".join(f"{n}: wp.array(dtype={dtype}, ndim={ndim})" for n in names)


@pytest.mark.parametrize(("dtype", "shape"), each_with(NUMBERS, [(2, 1, 3, 2)], "float", SHAPES))
def test_arithmetic_of_every_type_and_shape(dtype, shape):
    k = body_kernel(
        arrays_of(dtype, len(shape), "a", "b", "out", "more"),
        f"""
t = wp.tile_load(a, shape={shape})
u = wp.tile_load(b, shape={shape})
s = t * u + t
s += u
s -= t * {dtype}(2)
wp.tile_store(out, s)
z = wp.tile_zeros(shape={shape}, dtype={dtype}) + wp.tile_ones(shape={shape}, dtype={dtype})
wp.tile_store(more, z + wp.tile_full(shape={shape}, value=3, dtype={dtype}) * u)
""",
    )
    a, b = numbers(dtype, *shape), numbers(dtype, *shape)
    blank = np.zeros(shape, a.dtype)
    *_, out, more = everywhere(k, a, b, blank, blank, on_host=len(shape) == 4)
    x, y = (v.astype(np.int64) for v in (a, b))
    as_type = np.float64 if dtype in FLOATS else a.dtype
    close(out, (x * y + x + y - 2 * x).astype(as_type), dtype)
    close(more, (1 + 3 * y).astype(as_type), dtype)


@pytest.mark.parametrize(("dtype", "shape"), each_with([*FLOATS, "int", "wp.uint64"], [(2, 3, 4)], "float", SHAPES))
def test_reductions_of_every_shape(dtype, shape):
    k = body_kernel(
        f"{arrays_of(dtype, len(shape), 'a', 'scans')}, {arrays_of(dtype, 1, 'out')}, where: wp.array[int]",
        f"""
t = wp.tile_load(a, shape={shape})
wp.tile_store(out, wp.tile_sum(t))
wp.tile_store(out, wp.tile_min(t), offset=1)
wp.tile_store(out, wp.tile_max(t), offset=2)
wp.tile_store(out, wp.tile_reduce(wp.add, t), offset=3)
wp.tile_store(out, wp.tile_dot(t, t), offset=4)
wp.tile_store(where, wp.tile_argmin(t))
wp.tile_store(where, wp.tile_argmax(t), offset=1)
wp.tile_store(scans, wp.tile_scan_inclusive(t))
""",
    )
    a = numbers(dtype, *shape)
    _, scans, out, where = everywhere(k, a, np.zeros(shape), np.zeros(5), np.zeros(2), on_host=len(shape) == 3)
    x = a.astype(np.float64)
    close(out, [x.sum(), x.min(), x.max(), x.sum(), (x * x).sum()], dtype)
    assert where.tolist() == [x.argmin(), x.argmax()]
    close(scans, x.cumsum().reshape(shape), dtype)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_reductions_along_an_axis(axis):
    rest = np.delete([2, 3, 4], axis)
    k = body_kernel(
        f"{arrays_of('float', 3, 'a')}, {arrays_of('float', 2, 'sums', 'largest', 'folded')}",
        f"""
t = wp.tile_load(a, shape=(2, 3, 4))
wp.tile_store(sums, wp.tile_sum(t, axis={axis}))
wp.tile_store(largest, wp.tile_reduce(wp.max, t, axis={axis}))
wp.tile_store(folded, wp.tile_reduce(wp.sub, wp.tile_map(wp.abs, t), axis={axis}))
""",
    )
    a = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    _, sums, largest, folded = everywhere(k, a, *np.zeros((3, *rest)))
    np.testing.assert_allclose(sums, a.sum(axis), rtol=1e-5)
    np.testing.assert_array_equal(largest, a.max(axis))
    first, *others = np.moveaxis(np.abs(a), axis, 0)
    np.testing.assert_allclose(folded, first - np.sum(others, axis=0), rtol=1e-5, atol=1e-6)


def test_scans():
    k = body_kernel(
        arrays_of("float", 2, "a", "b", "c", "d"),
        """
t = wp.tile_load(a, shape=(3, 4))
wp.tile_store(b, wp.tile_scan_exclusive(t))
wp.tile_store(c, wp.tile_scan_min_inclusive(t))
wp.tile_store(d, wp.tile_scan_max_inclusive(wp.tile_transpose(t)))
""",
    )
    a = RNG.standard_normal((3, 4)).astype(np.float32)
    _, sums, least, most = everywhere(k, a, np.zeros((3, 4)), np.zeros((3, 4)), np.zeros((4, 3)))
    np.testing.assert_allclose(sums.ravel(), np.append(0, a.cumsum())[:-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(least.ravel(), np.minimum.accumulate(a.ravel()))
    np.testing.assert_array_equal(most.ravel(), np.maximum.accumulate(a.T.ravel()))


@pytest.mark.parametrize("at", [(0,), (4,), (0, 4), (0, 1, 4), (0, 1, 2, 3, 4)])
def test_extrema_leave_out_what_is_no_number(at):
    k = body_kernel(
        "a: wp.array[float], out: wp.array[float], where: wp.array[int], scans: wp.array2d[float]",
        """
t = wp.tile_load(a, shape=5)
wp.tile_store(out, wp.tile_min(t))
wp.tile_store(out, wp.tile_max(t), offset=1)
wp.tile_store(where, wp.tile_argmin(t))
wp.tile_store(where, wp.tile_argmax(t), offset=1)
wp.tile_store(scans[0], wp.tile_scan_min_inclusive(t))
wp.tile_store(scans[1], wp.tile_scan_max_inclusive(t))
""",
    )
    a = np.array([3, -1, 4, 1, 5], np.float32)
    a[list(at)] = np.nan
    _, out, where, scans = everywhere(k, a, np.zeros(2), np.zeros(2), np.zeros((2, 5)))
    np.testing.assert_array_equal(out, [np.fmin.reduce(a), np.fmax.reduce(a)])
    np.testing.assert_array_equal(scans, [np.fmin.accumulate(a), np.fmax.accumulate(a)])
    if len(at) < 5:
        assert where.tolist() == [np.nanargmin(a), np.nanargmax(a)]


def test_the_first_of_equal_elements_is_found():
    k = body_kernel(
        "a: wp.array2d[int], where: wp.array[int]",
        """
t = wp.tile_load(a, shape=(2, 3))
wp.tile_store(where, wp.tile_argmin(t))
wp.tile_store(where, wp.tile_argmax(t), offset=1)
""",
    )
    assert everywhere(k, np.array([[2, 1, 7], [1, 7, 1]]), np.zeros(2))[1].tolist() == [1, 2]


MAPS: dict[str, tuple[str, Callable]] = {
    "a function of one": ("wp.tile_map(wp.sin, t)", lambda t, u: np.sin(t)),
    "a function of two": ("wp.tile_map(wp.atan2, t, u)", np.arctan2),
    "a function of the user": ("wp.tile_map(blend, t, u, 0.25)", lambda t, u: t + 0.25 * (u - t)),
    "another type": ("wp.tile_map(count, t, u)", lambda t, u: (t > u) * 3),
    "a quotient": ("t / u", lambda t, u: t / u),
    "a number before": ("1.0 - 2.0 / t", lambda t, u: 1 - 2 / t),
    "a power": ("wp.tile_map(wp.abs, t) ** 1.5", lambda t, u: np.abs(t) ** 1.5),
    "a remainder": ("t % u", np.fmod),
    "signs": ("-t + +u", lambda t, u: u - t),
    "casts": ("wp.tile_astype(wp.tile_astype(t * 10.0, wp.int8), float)", lambda t, u: np.trunc(t * 10)),
    "a chain": ("wp.tile_map(wp.max, t * t, u) - t", lambda t, u: np.maximum(t * t, u) - t),
}
USERS = """
@wp.func
def blend(x: float, y: float, rate: float):
    return x + rate * (y - x)

@wp.func
def count(x: float, y: float):
    if x > y:
        return 3
    return 0
"""


@pytest.mark.parametrize("name", MAPS)
def test_maps(name):
    text, reference = MAPS[name]
    out = "int" if name == "another type" else "float"
    k = body_kernel(
        f"{arrays_of('float', 2, 'a', 'b')}, {arrays_of(out, 2, 'out')}",
        f"t = wp.tile_load(a, shape=(3, 4))\nu = wp.tile_load(b, shape=(3, 4))\nwp.tile_store(out, {text})",
        USERS,
    )
    a, b = RNG.uniform(0.3, 2.0, (2, 3, 4)).astype(np.float32) * RNG.choice([-1, 1], (2, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(everywhere(k, a, b, np.zeros((3, 4)))[2], reference(a, b), rtol=3e-6, atol=1e-6)


def test_operators_of_integers():
    k = body_kernel(
        "a: wp.array2d[int], b: wp.array2d[int], out: wp.array3d[int]",
        """
t = wp.tile_load(a, shape=(2, 3))
u = wp.tile_load(b, shape=(2, 3))
wp.tile_store(out[0], t & u)
wp.tile_store(out[1], t | u)
wp.tile_store(out[2], t ^ u)
wp.tile_store(out[3], t // u)
wp.tile_store(out[4], ~t)
wp.tile_store(out[5], t << 2)
v = wp.tile_view(t, offset=(0, 0), shape=(2, 3))
v &= u
v |= u * 4
v ^= u
wp.tile_store(out[6], t)
""",
    )
    a, b = RNG.integers(1, 100, (2, 2, 3), dtype=np.int32)
    out = everywhere(k, a, b, np.zeros((7, 2, 3)))[2]
    np.testing.assert_array_equal(out, [a & b, a | b, a ^ b, a // b, ~a, a << 2, ((a & b) | b * 4) ^ b])


def test_axpy_adds_in_place():
    k = body_kernel(
        "a: wp.array2d[float], out: wp.array2d[float]",
        """
t = wp.tile_load(a, shape=(3, 3))
part = wp.tile_transpose(t)
wp.tile_axpy(2.0, t, part)
wp.tile_store(out, t)
""",
    )
    a = RNG.random((3, 3)).astype(np.float32)
    np.testing.assert_allclose(everywhere(k, a, np.zeros((3, 3)))[1], a + 2 * a.T, rtol=1e-6)


# Vectors, matrices, structs


def test_tiles_of_vectors_and_matrices():
    k = body_kernel(
        "a: wp.array2d[wp.vec3], m: wp.array[wp.mat33], out: wp.array2d[wp.vec3], products: wp.array[wp.mat33],"
        " dots: wp.array[float]",
        """
t = wp.tile_load(a, shape=(2, 3))
t[0, 1][2] = 9.0
t[1, 0].x += 4.0
wp.tile_store(out, t * 2.0)
wp.tile_store(dots, wp.tile_dot(t, t))
q = wp.tile_load(m, shape=2)
wp.tile_store(products, wp.tile_map(wp.mul, q, wp.tile_map(wp.transpose, q)))
wp.tile_store(products, wp.tile_sum(q), offset=2)
wp.tile_store(dots, wp.tile_dot(q, q), offset=1)
dots[2] = wp.tile_extract(t, 1, 2, 0) + wp.tile_extract(q, 1, 2, 0)
""",
    )
    a, m = RNG.random((2, 3, 3)).astype(np.float32), RNG.random((2, 3, 3)).astype(np.float32)
    _, _, out, products, dots = everywhere(k, a, m, np.zeros((2, 3, 3)), np.zeros((3, 3, 3)), np.zeros(3), rtol=1e-5)
    t = a.copy()
    t[0, 1, 2] = 9
    t[1, 0, 0] += 4
    np.testing.assert_allclose(out, t * 2, rtol=1e-6)
    np.testing.assert_allclose(products, [m[0] @ m[0].T, m[1] @ m[1].T, m.sum(0)], rtol=1e-5)
    np.testing.assert_allclose(dots, [(t * t).sum(), (m * m).sum(), t[1, 2, 0] + m[1, 2, 0]], rtol=1e-5)


STRUCTS = """
@wp.struct
class Part:
    mass: float
    place: wp.vec3

@wp.func
def moved(p: Part, by: float):
    p.place = p.place + wp.vec3(by, 0.0, 0.0)
    p.mass = p.mass * 2.0
    return p
"""


def test_tiles_of_structs():
    k = body_kernel(
        "a: wp.array[float], out: wp.array[float]",
        """
p = Part()
p.mass = a[0]
p.place = wp.vec3(a[1], a[2], a[3])
t = wp.tile_full(shape=(2, 2), value=p, dtype=Part)
t[1, 0].mass = 7.0
t[0, 1].place[1] = 8.0
kept = t[1, 0]
u = wp.tile_map(moved, t, 3.0)
v = wp.tile_transpose(t)
v[0, 1] = u[0, 0]
e, z = t[1, 0], wp.tile_zeros(shape=2, dtype=Part)
out[0] = e.mass + e.place[0]
out[1] = kept.mass
out[2] = u[0, 1].place[1] + u[0, 1].mass
out[3] = z[1].mass + z[0].place[2]
""",
        STRUCTS,
    )
    a = np.array([1, 2, 3, 4], np.float32)
    assert everywhere(k, a, np.ones(4))[1].tolist() == [2 + 5, 7, 8 + 2, 0]


# Views and what is made of nothing


def test_broadcast_reshaped_squeezed_and_parts():
    k = body_kernel(
        "a: wp.array3d[float], out: wp.array3d[float]",
        """
t = wp.tile_load(a, shape=(2, 3, 4))
row = wp.tile_view(t, offset=(1, 2, 0), shape=(1, 1, 4))
wp.tile_store(out, wp.tile_broadcast(wp.tile_squeeze(row), shape=(2, 3, 4)))
column = wp.tile_view(t, offset=(0, 1, 0), shape=(2, 1, 1))
wp.tile_store(out, wp.tile_broadcast(column, shape=(2, 3, 4)), offset=(2, 0, 0))
wp.tile_store(out, wp.tile_reshape(t, shape=(2, -1, 4)), offset=(4, 0, 0))
flat = wp.tile_reshape(wp.tile_transpose(t[1]), shape=(12,))
wp.tile_store(out[6], wp.tile_reshape(flat, shape=(3, 4)))
wp.tile_store(out[7], wp.tile_view(t, offset=(1,)))
wp.tile_store(out[8, 0], wp.tile_view(t, offset=(i, -1 - i)))
wp.tile_store(out[8], wp.tile_view(t[-1], offset=(i + 1, i + 1), shape=(2, 3)), offset=(1, 0))
wp.tile_store(out[9], wp.tile_squeeze(wp.tile_reshape(t[0], shape=(3, 1, 4)), axis=1))
""",
    )
    a = RNG.random((2, 3, 4)).astype(np.float32)
    out = everywhere(k, a, np.zeros((10, 3, 4)))[1]
    np.testing.assert_array_equal(out[:2], np.broadcast_to(a[1, 2], (2, 3, 4)))
    np.testing.assert_array_equal(out[2:4], np.broadcast_to(a[:, 1:2, :1], (2, 3, 4)))
    np.testing.assert_array_equal(out[4:6], a)
    np.testing.assert_array_equal(out[6], a[1].T.reshape(3, 4))
    np.testing.assert_array_equal(out[7], a[1])
    np.testing.assert_array_equal(out[8, 0], a[0, 2])
    np.testing.assert_array_equal(out[8, 1:, :3], a[1, 1:3, 1:4])
    np.testing.assert_array_equal(out[9], a[0])


def test_elements_that_a_tile_of_indices_names():
    k = body_kernel(
        "a: wp.array2d[float], at: wp.array[int], out: wp.array3d[float]",
        """
t = wp.tile_load(a, shape=(3, 4))
rows = wp.tile_load(at, shape=2)
wp.tile_store(out[0], t[rows])
wp.tile_store(out[1], t[rows, :])
wp.tile_store(out[2], t[:, rows])
wp.tile_store(out[3], wp.tile_slice_indexed(t, (rows,)))
got = t[rows]
got[0, 0] = 5.0
wp.tile_store(out[4], t)
""",
    )
    a, at = RNG.random((3, 4)).astype(np.float32), np.array([2, -3], np.int32)
    out = everywhere(k, a, at, np.zeros((5, 3, 4)))[2]
    for got, expected in zip(out, [a[at], a[at], a[:, at], a[at], a], strict=True):
        np.testing.assert_array_equal(got[: expected.shape[0], : expected.shape[1]], expected)


def test_assignments_and_scatters():
    k = body_kernel(
        "a: wp.array2d[float], out: wp.array2d[float]",
        """
t = wp.tile_load(a, shape=(4, 4))
wp.tile_assign(t, wp.tile_view(t, offset=(0, 0), shape=(3, 3)), offset=(1, 1))
for c in range(2):
    wp.tile_scatter_add(t, 0, c, 2.5, c == i)
    wp.tile_scatter_masked(t, 3, c, 7.0, c != i)
t[0] = t[1] * 2.0
wp.tile_store(out, t)
""",
    )
    a = RNG.random((4, 4)).astype(np.float32)
    expected = a.copy()
    expected[1:, 1:] = a[:3, :3]
    expected[0, 0] += 2.5
    expected[3, 1] = 7
    expected[0] = expected[1] * 2
    np.testing.assert_allclose(everywhere(k, a, np.zeros((4, 4)))[1], expected, rtol=1e-6)


WHOLE = [(5,), (2, 7), (7, 1, -2), (-3, 9, 4)]
STEPS = [(0.5, 2.0, 0.25), (0.0, 0.3, 0.1), (3.0, 0.0, -0.7)]
RANGES = [*itertools.product(WHOLE, ["int", "wp.int64", "float"]), *itertools.product(STEPS, ["float", "wp.float64"])]


@pytest.mark.parametrize(("bounds", "dtype"), RANGES)
def test_ranges(bounds, dtype):
    expected = np.arange(*bounds) if dtype == "wp.float64" else np.arange(*bounds, dtype=NUMBERS[dtype])
    text = ", ".join(map(str, bounds))
    k = body_kernel(
        f"out: wp.array(dtype={dtype}), n: wp.array[int]",
        f"t = wp.tile_arange({text}, dtype={dtype})\nwp.tile_store(out, t)\nn[0] = len(t)",
    )
    out, n = everywhere(k, np.zeros(len(expected)), np.zeros(1))
    assert n[0] == len(expected)
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)


def test_values_of_the_thread():
    k = body_kernel(
        "out: wp.array2d[float]",
        """
v = wp.vec3(1.0, float(i) + 2.0, 3.0)
wp.tile_store(out, wp.tile(v))
wp.tile_store(out[:, 1], wp.tile(float(i) * 5.0))
whole = wp.tile(v, preserve_type=True)
back = wp.untile(wp.tile(v) * 2.0)
out[1, 1] = whole[0][1] + back[2]
m = wp.untile(wp.tile(wp.mat22(1.0, 2.0, 3.0, 4.0)))
out[2, 1] = m[1, 0] + wp.untile(wp.tile_from_thread(shape=1, value=float(i) + 0.5, thread_idx=wp.block_dim() - 1))
""",
    )
    out = everywhere(k, np.zeros((3, 2)))[0]
    assert out.tolist() == [[1, 0], [2, 2 + 6], [3, 3.5]]


def test_random_tiles_are_those_of_the_generator():
    k = body_kernel(
        "whole: wp.array2d[int], some: wp.array2d[int], real: wp.array2d[float], between: wp.array2d[float]",
        """
state = wp.rand_init(42, i)
wp.tile_store(whole, wp.tile_randi(shape=(4, 8), rng=state))
wp.tile_store(some, wp.tile_randi(shape=(4, 8), rng=state, min=-3, max=10))
wp.tile_store(real, wp.tile_randf(shape=(4, 8), rng=state))
wp.tile_store(between, wp.tile_randf(shape=(4, 8), rng=state, min=-2.0, max=-1.0))
""",
    )
    draw = body_kernel(
        "whole: wp.array[int]",
        "state = wp.rand_init(42, i)\nwp.randi(state)\nfor n in range(32):\n    whole[n] = wp.randi(state)",
    )
    whole, some, real, between = everywhere(k, *np.zeros((4, 4, 8)))
    np.testing.assert_array_equal(whole.ravel(), everywhere(draw, np.zeros(32))[0])
    assert len(np.unique(real)) == 32
    assert -3 <= some.min() < some.max() <= 9
    assert 0 <= real.min() < real.max() < 1
    assert -2 <= between.min() < between.max() <= -1


def test_stacks():
    k = body_kernel(
        "a: wp.array[float], out: wp.array[float]",
        """
s = wp.tile_stack(3, float)
for n in range(5):
    where = wp.tile_stack_push(s, a[n], n != 1)
    out[n] = float(where)
out[5] = float(wp.tile_stack_count(s))
for n in range(4):
    value, where = wp.tile_stack_pop(s)
    out[6 + n] = value + 100.0 * float(where)
wp.tile_stack_push(s, 1.0, True)
wp.tile_stack_clear(s)
out[10] = float(wp.tile_stack_count(s))
""",
    )
    a = np.arange(1, 6, dtype=np.float32)
    expected = [0, -1, 1, 2, -1, 3, 4 + 200, 3 + 100, 1, -100, 0]
    assert everywhere(k, a, np.zeros(11))[1].tolist() == expected
