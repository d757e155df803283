"""CPU code: every way in which lanes can access memory, at several vector widths, against the interpreter."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from cpukit import WIDTHS, Make, check, floats

from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.ir.nodes import Param
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import SCALARS, Scalar, bool_, float32, int8, int16, int32, int64, uint8, uint32

SIZES = (1, 5, 16, 37, 100)


@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_copy_of_every_type(dtype):
    """Loads and stores keep every bit pattern, adjacent and gathered, in full and partial vectors."""
    m = Make()
    source, order, out = m.array(None, dtype=dtype), m.array(None, dtype=int32), m.array(None, dtype=dtype)
    i = m.tid(0)
    m.store(out, [m.load(order, [i])], m.load(source, [i]))
    rng = np.random.default_rng(0)
    for n in SIZES:
        if dtype is bool_:
            data = rng.integers(0, 2, n).astype(bool)
        else:
            data = rng.integers(0, 256, n * dtype.bytes).astype(np.uint8).view(dtype.numpy)
        check(m.kernel(), (n,), [data, rng.permutation(n).astype(np.int32), np.zeros(n, dtype.numpy)], (1, 8, 32))


@pytest.mark.parametrize(("stride", "offset"), [(1, 0), (1, 3), (2, 1), (3, 0), (5, 2), (-1, 0), (-2, 0), (-3, 4)])
@pytest.mark.parametrize("dtype", [int32, int64], ids=str)
def test_linear_indices(stride, offset, dtype):
    """a[stride * tid + offset] both read and written, forwards and backwards."""
    n = 37
    m = Make()
    source, out = m.array(None), m.array(None)
    i = m.tid(0)
    if dtype is int64:
        i = m.cast(i, int64)
    start = offset if stride > 0 else (n - 1) * -stride + offset
    index = m.op("add", m.op("mul", i, m.i(stride, dtype)), m.i(start, dtype))
    m.store(out, [index], m.op("add", m.load(source, [index]), m.f(1.0)))
    extent = (n - 1) * abs(stride) + offset + 1
    check(m.kernel(), (n,), [floats(extent), np.zeros(extent, np.float32)])


def test_linear_indices_by_other_operations():
    """A thread index minus, negated, shifted, widened: still exact."""
    n = 45
    m = Make()
    source, out = m.array(None), m.array(None, 6)
    i, last = m.tid(0), m.op("sub", m.size(source, 0), m.i(1))
    wide = m.cast(i, int64)
    forms = [
        m.op("sub", i, m.i(0)),
        m.op("sub", last, i),
        m.op("add", m.op("neg", i), last),
        m.op("shr", m.op("shl", i, m.i(1)), m.i(1)),
        m.op("mul", wide, m.i(1, int64)),
        m.cast(m.op("sub", m.cast(last, int64), wide), int32),
    ]
    for component, index in enumerate(forms):
        m.store(out, [i, m.i(component)], m.load(source, [index]))
    check(m.kernel(), (n,), [floats(n), np.zeros((n, 6), np.float32)])


def test_narrow_thread_index_wraps_within_a_vector():
    """uint8(tid) starts again at 256 and int8(tid) at 128: neither is linear."""
    n = 300
    m = Make()
    source, out = m.array(256), m.array(None, 2)
    i = m.tid(0)
    small = m.cast(m.cast(m.op("add", i, m.i(250)), uint8), int32)
    signed = m.op("add", m.cast(m.cast(m.op("add", i, m.i(120)), int8), int32), m.i(128))
    m.store(out, [i, m.i(0)], m.load(source, [small]))
    m.store(out, [i, m.i(1)], m.load(source, [signed]))
    check(m.kernel(), (n,), [floats(256), np.zeros((n, 2), np.float32)])


def test_index_that_wraps_in_32_bits_and_is_widened():
    """int64(int32 that wraps) + 2**32 is a valid index again, and the lanes do not step evenly."""
    n, wrap_at = 40, 17
    m = Make()
    source, out = m.array(None), m.array(None)
    i = m.tid(0)
    wrapped = m.cast(m.op("add", i, m.i(2**31 - wrap_at)), int64)
    negative = m.op("lt", wrapped, m.i(0, int64))
    back = m.op("select", negative, m.op("add", wrapped, m.i(2**32, int64)), wrapped)
    m.store(out, [i], m.load(source, [m.op("sub", back, m.i(2**31 - wrap_at, int64))]))
    check(m.kernel(), (n,), [floats(n), np.zeros(n, np.float32)])


def test_linear_values_are_exact_where_they_wrap():
    """As numbers, not indices, linear values wrap like any others."""
    n = 70
    m = Make()
    out = m.array(None, 3, dtype=int32)
    i = m.tid(0)
    for component, value in enumerate(
        [
            m.op("add", i, m.i(2**31 - 9)),
            m.op("mul", i, m.i(1 << 27)),
            m.op("sub", m.i(-(2**31) + 20), m.op("mul", i, m.i(3))),
        ]
    ):
        m.store(out, [i, m.i(component)], value)
    check(m.kernel(), (n,), [np.zeros((n, 3), np.int32)])


def test_uniform_accesses():
    """Scalars, constants and indices that all lanes share, read and written; every thread writes the same."""
    m = Make()
    scalar, table, which, out = m.array(), m.array(None, 3), m.array(dtype=int32), m.array(2)
    i, row = m.tid(0), m.load(which, [])
    total = m.op("add", m.load(scalar, []), m.load(table, [row, m.i(2)]))
    m.store(out, [m.i(1)], total)
    m.store(table, [i, m.i(0)], total)
    for n in SIZES:
        table_data = floats(max(n, 4), 3)
        check(m.kernel(), (n,), [np.full((), 2.5, np.float32), table_data, np.full((), 3, np.int32), np.zeros(2, "f")])


def test_varying_value_stored_at_one_element():
    """The last thread that stores stays: the interpreter's order, and one of those allowed."""
    m = Make()
    keep, out = m.array(None, dtype=bool_), m.array(1, dtype=int32)
    i = m.tid(0)
    m.if_(m.load(keep, [i]), lambda: (m.store(out, [m.i(0)], i), ())[1])
    for n in (1, 9, 40, 41):
        flags = np.random.default_rng(n).integers(0, 2, n).astype(bool)
        flags[0] = True
        check(m.kernel(), (n,), [flags, np.zeros(1, np.int32)])


@pytest.mark.parametrize("components", [(2,), (3,), (4,), (2, 2), (3, 3), (7,)], ids=str)
@pytest.mark.parametrize("partial", [False, True])
def test_component_axes(components, partial):
    """Vector and matrix elements, all of them or some, in order and out of order, in place."""
    m = Make()
    source, out = m.array(None, *components), m.array(None, *components)
    i = m.tid(0)
    every = list(itertools.product(*(range(n) for n in components)))
    values = [m.load(source, [i, *(m.i(c) for c in at)]) for at in every]
    total = values[0]
    for value in values[1:]:
        total = m.op("add", total, value)
    kept = every[1:] if partial else every
    for at, value in zip(kept, values[::-1], strict=False):
        m.store(out, [i, *(m.i(c) for c in at)], m.op("sub", total, value))
    for at, value in zip(every, values, strict=True):
        m.store(source, [i, *(m.i(c) for c in at)], m.op("neg", value))
    for n in (1, 16, 37, 64):
        check(m.kernel(), (n,), [floats(n, *components), np.zeros((n, *components), np.float32)])


def test_vector_array_at_shifted_rows_of_a_plane():
    """a[i, j + 1, c] and a[i, n - 1 - j, c]."""
    m = Make()
    source, out = m.array(None, None, 3), m.array(None, None, 3)
    i, j = m.tid(0), m.tid(1)
    mirrored = m.op("sub", m.size(out, 1), m.op("add", j, m.i(1)))
    parts = []
    for c in range(3):
        ahead = m.load(source, [i, m.op("add", j, m.i(1)), m.i(c)])
        parts.append(m.op("sub", ahead, m.load(source, [i, mirrored, m.i(c)])))
    for c in range(3):
        m.store(out, [i, j, m.i(c)], parts[c])
    check(m.kernel(2), (3, 21), [floats(3, 22, 3), np.zeros((3, 21, 3), np.float32)])


def test_transposed_and_permuted_axes():
    """The lane's axis anywhere in the array, extents static or not."""
    for known in itertools.product([True, False], repeat=3):
        extents = (5, 3, 19)
        m = Make()
        shapes = [(19, 3, 5), (3, 19, 5), (5, 19, 3)]
        arrays = [m.array(*(n if k else None for n, k in zip(s, known, strict=True))) for s in shapes]
        out = m.array(None, None, None)
        i, j, k = m.tid(0), m.tid(1), m.tid(2)
        total = m.load(arrays[0], [k, j, i])
        total = m.op("add", total, m.load(arrays[1], [j, k, i]))
        total = m.op("add", total, m.load(arrays[2], [i, k, j]))
        m.store(out, [i, j, k], total)
        check(m.kernel(3), extents, [*(floats(*s) for s in shapes), np.zeros(extents, np.float32)], (1, 8, 32))


def test_two_varying_indices():
    """a[u[i], v[i]] with extents known and not, indices of both widths."""
    for extents, dtype in itertools.product([(7, 9), (None, 9), (None, None)], [int32, int64]):
        m = Make()
        table = m.array(*extents)
        u, v, out = m.array(None, dtype=dtype), m.array(None, dtype=dtype), m.array(None)
        i = m.tid(0)
        m.store(out, [i], m.load(table, [m.load(u, [i]), m.load(v, [i])]))
        rng = np.random.default_rng(1)
        chosen = [rng.integers(0, n, 41).astype(dtype.numpy) for n in (7, 9)]
        check(m.kernel(), (41,), [floats(7, 9), *chosen, np.zeros(41, np.float32)])


def test_varying_row_and_linear_column():
    """a[u[i], i] and a[i, u[i]]: one index varies, the other steps."""
    m = Make()
    table, u, out = m.array(None, None), m.array(None, dtype=int32), m.array(None)
    i = m.tid(0)
    first = m.load(table, [m.load(u, [i]), i])
    m.store(out, [i], m.op("sub", first, m.load(table, [i, m.load(u, [i])])))
    check(m.kernel(), (40,), [floats(40, 40), np.random.default_rng(0).integers(0, 40, 40).astype("i"), floats(40)])


def test_in_place_updates_see_their_own_stores():
    """Reads after writes of one thread, through different forms of index."""
    m = Make()
    a, order = m.array(None), m.array(None, dtype=int32)
    i = m.tid(0)
    element = m.load(order, [i])
    m.store(a, [element], m.op("add", m.load(a, [element]), m.f(1.0)))
    m.store(a, [element], m.op("mul", m.load(a, [element]), m.f(2.0)))
    for n in SIZES:
        check(m.kernel(), (n,), [floats(n), np.random.default_rng(n).permutation(n).astype(np.int32)])


@pytest.mark.parametrize("grid", [(7,), (3, 5), (2, 3, 17), (2, 2, 3, 9), (4, 1, 1), (1, 64), (2, 0), (0, 4)], ids=str)
def test_thread_indices_of_grids(grid):
    m = Make()
    out = m.array(*([None] * len(grid)), len(grid), dtype=int32)
    tids = [m.tid(axis) for axis in range(len(grid))]
    for axis, tid in enumerate(tids):
        m.store(out, [*tids, m.i(axis)], tid)
    got = check(m.kernel(len(grid)), grid, [np.full((*grid, len(grid)), -1, np.int32)])
    assert np.array_equal(got[0], np.moveaxis(np.indices(grid), 0, -1))


def test_a_launch_may_be_split_into_any_rectangles():
    grid = (2, 3, 130)
    m = Make()
    source, out = m.array(None, None, None), m.array(None, None, None)
    tids = [m.tid(axis) for axis in range(3)]
    m.store(out, tids, m.op("add", m.load(source, tids), m.cast(tids[1], float32)))
    tiles = [(4, 6, 64, 130), (0, 1, 0, 130), (1, 4, 64, 130), (1, 6, 0, 64)]
    check(m.kernel(3), grid, [floats(*grid), np.zeros(grid, np.float32)], WIDTHS, tiles)


def test_extents_are_those_of_the_launch():
    m = Make()
    a, out = m.array(None, 4, None), m.array(3, dtype=int32)
    for axis in range(3):
        m.store(out, [m.i(axis)], m.size(a, axis))
    got = check(m.kernel(), (5,), [floats(2, 4, 9), np.zeros(3, np.int32)])
    assert got[1].tolist() == [2, 4, 9]


@pytest.mark.parametrize("shape", [(3, 3), (7,), (2, 4)], ids=str)
def test_matrices_walked_in_order_need_no_gathers(shape):
    m = Make()
    a, out, i = m.array(None, *shape), m.array(None, *shape), m.tid(0)
    places = [[i, *map(m.i, at)] for at in np.ndindex(*shape)]
    values = [m.op("mul", m.load(a, at), m.load(a, places[0])) for at in places]
    for at, value in zip(places, values, strict=True):
        m.store(out, at, value)
    kernel = m.kernel()
    text = compile_cpu(prepare(kernel), 8).text
    unmasked = text[: text.index("partial")]
    assert "gather" not in unmasked.split("define void", 1)[1]
    assert "scatter" not in unmasked.split("define void", 1)[1]
    data = np.random.default_rng(1).random((41, *shape)).astype(np.float32)
    check(kernel, (41,), [data, np.zeros_like(data)])


@pytest.mark.parametrize("dtype", [int8, uint8, int16, int32, uint32], ids=str)
def test_integer_division_in_vectors_is_exact(dtype):
    """Also of the largest numbers, by 0 and by -1, and where the quotient is next to a whole number."""
    m = Make()
    a, b = m.array(None, dtype=dtype), m.array(None, dtype=dtype)
    quotient, rest, i = m.array(None, dtype=dtype), m.array(None, dtype=dtype), m.tid(0)
    x, y = m.load(a, [i]), m.load(b, [i])
    m.store(quotient, [i], m.op("div", x, y))
    m.store(rest, [i], m.op("mod", x, y))
    kernel = m.kernel()
    rng, limits = np.random.default_rng(2), np.iinfo(dtype.numpy)
    divisors = rng.integers(1, limits.max, 500, endpoint=True)
    multiples = divisors * rng.integers(1, np.maximum(limits.max // divisors, 1), endpoint=True)
    near = np.clip(multiples + rng.integers(-1, 2, 500), limits.min, limits.max)
    edges = [limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max, *([-1] if limits.min else [])]
    left, right = (g.ravel() for g in np.meshgrid(edges, edges))
    x, y = (np.concatenate(p).astype(dtype.numpy) for p in ((near, left), (divisors, right)))
    check(kernel, (len(x),), [x, y, np.zeros_like(x), np.zeros_like(x)])
    assert "sdiv <" not in compile_cpu(prepare(kernel), 16).text


@pytest.mark.parametrize("dtype", [int32, int64], ids=str)
@pytest.mark.parametrize("distance", [1, 1 << 28, 10**9, (1 << 31) - 90])
def test_indices_in_data_that_only_a_large_constant_makes_valid(distance, dtype):
    """Without the constant, offsets in arrays of known extents do not fit 32 bits: what was read was anywhere."""
    check_distant_indices(distance, dtype)


def test_indices_in_data_that_only_a_constant_of_64_bits_makes_valid():
    check_distant_indices(1 << 62, int64)


def check_distant_indices(distance: int, dtype: Scalar) -> None:
    m = Make()
    index, table, out = m.array(None, dtype=dtype), m.array(9, 4), m.array(None)
    own = Param("own", float32, (9,))
    i = m.tid(0)
    place = m.op("add", m.load(index, [i]), m.i(distance, dtype))
    for k in range(9):
        m.store(own, [m.i(k)], m.load(table, [m.i(k), m.i(1)]))
    m.store(out, [i], m.op("sub", m.load(table, [place, m.i(2)]), m.load(own, [place])))
    kernel = verify(replace(m.finish("test", 1, m.params), locals=(own,)))
    n = 70
    data = (np.random.default_rng(0).integers(0, 9, n) - distance).astype(dtype.numpy)
    check(kernel, (n,), [data, floats(9, 4), np.zeros(n, np.float32)])
