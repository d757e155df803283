"""Additions to neighbouring elements that are made together: which these are, and results."""

import itertools

import numpy as np
import pytest
from cpukit import Make, check, floats
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxwarp.codegen.cpu import compile_cpu, launch
from jaxwarp.codegen.cpu.control.function import emit_function
from jaxwarp.codegen.cpu.plan.target import host
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import bfloat16, float32, float64, int32, int64

WIDTHS = (2, 8, 32)


def count_groups(kernel, width=8):
    text = emit_function(prepare(kernel), width, host()).text
    return sum(line.startswith("together") for line in text.splitlines())


def adds(m, target, row, column, offsets, value):
    for number, offset in enumerate(offsets):
        index = [*row, m.op("add", column, m.i(offset))]
        m.atomic("add", target, index, m.op("mul", value, m.const(number + 1, target.dtype)))


def shifted(offsets, dtype=float32, rank=1, after=None):
    """Each thread adds its number, times 1, 2, 3, ..., to elements of its row at `offsets`."""
    m = Make()
    x, target = m.array(*[None] * rank, dtype=dtype), m.array(*[None] * rank, dtype=dtype)
    tids = [m.tid(axis) for axis in range(rank)]
    adds(m, target, tids[:-1], tids[-1], offsets, m.load(x, tids))
    if after:
        after(m, x, target, tids)
    return m.kernel(rank)


def buffers(grid, reach, dtype=float32):
    target = (*grid[:-1], grid[-1] + reach)
    return [(floats(*shape, seed=n) * 8).astype(dtype.numpy) for n, shape in enumerate((grid, target))]


def tiles_of(grid, rows, columns):
    """Rectangles that begin at the given rows and columns."""
    ends = (np.prod(grid[:-1], dtype=int), *grid[-1:])
    cut = [[0, *sorted({a for a in at if 0 < a < end}), end] for at, end in zip((rows, columns), ends, strict=True)]
    rows, columns = ([(a, b) for a, b in itertools.pairwise(c) if a < b] for c in cut)
    return [(*r, *c) for r in rows for c in columns]


@pytest.mark.parametrize("dtype", [float32, float64, int32], ids=str)
@pytest.mark.parametrize("offsets", [(0, 1), (2, 1, 0), (0, 5, 1, 1), (0, 7, 8, 20), tuple(range(16))], ids=str)
def test_rows_of_any_length(offsets, dtype):
    for columns in (1, 8, 17, 75):
        values = buffers((columns,), max(offsets), dtype)
        check(shifted(offsets, dtype), (columns,), values, WIDTHS)
        check(shifted(offsets, dtype), (columns,), values, WIDTHS, tiles_of((columns,), (), (24, 40)))


@pytest.mark.parametrize("grid", [(0, 40), (1, 40), (5, 32), (5, 33), (3, 4, 50)], ids=str)
def test_rows_after_each_other(grid):
    """What waits at the end of a row is of that row, also where the next one begins right after it."""
    kernel = shifted((0, 1, 2), rank=len(grid))
    for tiles in (None, tiles_of(grid, (1, 3), (16, 32)), tiles_of(grid, (2,), ())):
        check(kernel, grid, buffers(grid, 2), WIDTHS, tiles)


def clamped():
    """The adjoint of a nine-point stencil."""
    m, dtype = Make(), float64
    x, target = m.array(None, None, dtype=dtype), m.array(None, None, dtype=dtype)
    tids = m.tid(0), m.tid(1)
    value = m.load(x, tids)
    near = [
        (
            m.op("max", m.op("sub", t, m.i(1)), m.i(0)),
            t,
            m.op("min", m.op("add", t, m.i(1)), m.op("sub", m.size(x, axis), m.i(1))),
        )
        for axis, t in enumerate(tids)
    ]
    for number, index in enumerate((row, column) for row in near[0] for column in near[1]):
        m.atomic("add", target, index, m.op("mul", value, m.const(number + 1, dtype)))
    return m.kernel(2)


@pytest.mark.parametrize("grid", [(1, 1), (1, 64), (2, 9), (6, 70), (40, 33)], ids=str)
def test_clamped_neighbours(grid):
    """Each row of three is a group where nothing is clamped."""
    kernel = clamped()
    assert count_groups(kernel) == 3
    values = [(floats(*grid, seed=n) * 8).astype(np.float64) for n in range(2)]
    for tiles in (None, tiles_of(grid, (3, 5, 20), (16, 40))):
        check(kernel, grid, values, WIDTHS, tiles)


def test_chosen_neighbours():
    """A neighbour that wraps around by a choice."""
    m = Make()
    x, target = m.array(None), m.array(None)
    i, size = m.tid(0), m.size(target, 0)
    value, last = m.load(x, [i]), m.op("sub", m.size(target, 0), m.i(1))
    left = m.op("select", m.op("eq", i, m.i(0)), last, m.op("sub", i, m.i(1)))
    right = m.op("select", m.op("lt", m.op("add", i, m.i(1)), size), m.op("add", i, m.i(1)), m.i(0))
    for index in (left, i, right):
        m.atomic("add", target, [index], value)
    kernel = m.kernel()
    assert count_groups(kernel) == 1
    for columns in (1, 2, 8, 40, 75):
        check(kernel, (columns,), buffers((columns,), 0), WIDTHS)


def _apart():
    """What comes in between or after, or keeps additions from being made together."""

    def load(m, x, target, tids):
        m.store(x, tids, m.op("mul", m.load(target, tids), m.f(2.0)))

    def store(m, x, target, tids):
        m.store(x, tids, m.f(1.0))

    def maximum(m, x, target, tids):
        m.atomic("max", x, tids, m.f(1.0))

    def branch(m, x, target, tids):
        m.if_(m.op("lt", tids[0], m.i(9)), lambda: (m.store(x, tids, m.f(1.0)), ())[1], lambda: ())

    return [load, store, maximum, branch]


@pytest.mark.parametrize("after", _apart(), ids=lambda f: f.__name__)
def test_nothing_comes_after(after):
    kernel = shifted((0, 1, 2), after=after)
    assert count_groups(kernel) == 0
    assert count_groups(shifted((0, 1, 2))) == 1
    check(kernel, (50,), buffers((50,), 2), WIDTHS, [(0, 1, 0, 50)])


def test_others_that_do_not_go_together():
    def count(offsets, dtype=float32):
        return count_groups(shifted(offsets, dtype))

    assert count((3,)) == 0
    assert count((3, 3)) == 0  # one place
    assert count((0, 8)) == 0  # a vector apart
    assert count((0, 1, 8, 9)) == 2
    assert count((0, 1), bfloat16) == 0
    m = Make()  # old values that are read
    x, target = m.array(None), m.array(None)
    i = m.tid(0)
    old = [m.atomic("add", target, [m.op("add", i, m.i(k))], m.f(1.0)) for k in range(2)]
    m.store(x, [i], m.op("add", *old))
    assert count_groups(m.kernel()) == 0


def test_zeros_keep_their_sign():
    """Nothing is added where no thread adds: -0.0 stays, and gets -0.0 only."""
    kernel = prepare(shifted((0, 1, 2)))
    for columns in (8, 24, 27):
        values = [np.full(columns, -0.0, np.float32), np.full(columns + 20, -0.0, np.float32)]
        launch(compile_cpu(kernel, 8), kernel, (columns,), values)
        assert np.signbit(values[1]).all()


@settings(max_examples=40)
@given(st.data())
def test_any_offsets_in_any_rectangles(data):
    offsets = data.draw(st.lists(st.integers(0, 20), min_size=2, max_size=6))
    grid = data.draw(st.sampled_from([(90,), (4, 70), (2, 3, 41)]))
    cuts = st.lists(st.integers(1, 89), max_size=4)
    tiles = tiles_of(grid, data.draw(cuts), data.draw(cuts))
    dtype = data.draw(st.sampled_from([float32, int64]))
    check(shifted(offsets, dtype, len(grid)), grid, buffers(grid, max(offsets), dtype), (4, 16), tiles)
