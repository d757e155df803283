"""Updates at indices that wrap: what a rectangle takes to be its own, no other touches, and sums are right."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cpukit import Make, check
from test_cpu_owned import columns_cut, in_threads, mark_updates, own_and_touched, require_apart, rows_cut

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import int32, int64


@pytest.fixture
def marked():
    with pytest.MonkeyPatch.context() as patch:
        mark_updates(patch)
        yield


class Random:
    """A kernel that adds at random indices, most of which wrap, to an array that is large enough."""

    def __init__(self, seed: int):
        rng = self.rng = np.random.default_rng(seed)
        m = self.m = Make()
        self.grid = [(300,), (12, 40), (3, 5, 24)][rng.integers(3)]
        rank = len(self.grid)
        self.numbers = [int(rng.choice([*self.grid, self.grid[0] + 3, 4, 1, 0, -2])) for _ in range(3)]
        self.scalars = [m.array(dtype=int32) for _ in self.numbers]
        self.target = m.array(*[None] * rank, dtype=int32)
        self.seen = m.array(None, None, *[None] * rank, dtype=int64)
        self.tids = [m.tid(axis) for axis in range(rank)]
        self.loaded = [m.load(p, []) for p in self.scalars]
        count = int(rng.integers(1, 4))
        rows = [
            [self.index(axis) if rng.random() < 0.8 else self.tids[axis] for axis in range(rank)] for _ in range(count)
        ]
        stores = [([m.i(a), m.i(axis), *self.tids], v) for a, row in enumerate(rows) for axis, v in enumerate(row)]
        for place, value in stores:
            m.store(self.seen, place, m.cast(value, int64))
        kernel = m.kernel(rank)
        seen = np.zeros((count, rank, *self.grid), np.int64)
        scalars = [np.array(n, np.int32) for n in self.numbers]
        one = np.zeros([1] * rank, np.int32)
        interpret(kernel, self.grid, [*scalars, one, seen])
        least, most = (f(seen, axis=(0, *range(2, rank + 2))) for f in (np.min, np.max))
        # Without the stores, and with room for all indices.
        ops = tuple(op for op in kernel.body.ops if type(op).__name__ != "Store")
        final = Make()
        final.params = m.params[:-1]
        with final.block() as updates:
            for k, row in enumerate(rows):
                at = [final.op("sub", v, final.i(int(low))) for v, low in zip(row, least, strict=True)]
                final.atomic("add", self.target, at, final.i(1 << k))
        self.kernel = Kernel("wrapped", rank, tuple(final.params), Block((), (*ops, *updates), ()))
        self.buffers = [*scalars, np.zeros(most - least + 1, np.int32)]

    def number(self):
        """The same for all threads."""
        if self.rng.random() < 0.5:
            return self.m.i(int(self.rng.choice([*self.grid, 0, 1, 7])))
        number = self.loaded[self.rng.integers(3)]
        return number if self.rng.random() < 0.7 else self.m.op("sub", number, self.m.i(1))

    def near(self, axis):
        t = self.tids[axis]
        match self.rng.integers(4):
            case 0:
                return self.m.op("max", self.m.op("sub", t, self.m.i(1)), self.m.i(0))
            case 1:
                return self.m.op("mul", t, self.m.i(2))
            case _:
                return self.m.op("add", t, self.m.i(int(self.rng.integers(-2, 3))))

    def index(self, axis):
        m, rng, t = self.m, self.rng, self.tids[axis]
        match rng.integers(8):
            case 0 | 1:
                by = self.number() if rng.random() < 0.5 else m.i(int(rng.integers(0, 4)))
                n = m.i(self.grid[axis]) if rng.random() < 0.6 else self.number()
                return m.op("mod", m.op("add", t, by), n)
            case 2:
                n = m.i(self.grid[axis]) if rng.random() < 0.6 else self.number()
                return m.op("mod", m.op("sub", m.op("add", t, n), m.i(1)), n)
            case 3 | 4:
                test = m.op(str(rng.choice(["eq", "lt", "ge"])), t, self.number())
                sides = [self.number(), self.near(axis)]
                if rng.random() < 0.3:
                    sides.reverse()
                if rng.random() < 0.5:
                    return m.op("select", test, *sides)
                return m.if_(test, lambda: (sides[0],), lambda: (sides[1],))[0]
            case 5:
                return m.op(str(rng.choice(["add", "sub", "min", "max"])), self.index(axis), self.number())
            case 6:
                test = m.op("eq", t, m.i(self.grid[axis] - 1))
                return m.op("select", test, self.number(), self.index(axis))
            case _:
                return self.number() if rng.random() < 0.5 else self.near(axis)

    def cuts(self):
        *outer, columns = self.grid
        rows = math.prod(outer)
        if rows == 1:
            yield from (columns_cut(1, columns, *at) for at in ((64,), (8, 16, 264), (104, 200)))
        else:
            yield from (rows_cut(rows, columns, *at) for at in ((rows // 2,), (1, 2, rows - 1), (5, 10)))
            half = rows // 3
            yield [(a, b, c, d) for a, b in ((0, half), (half, rows)) for c, d in ((0, 16), (16, columns))]


def test_what_a_rectangle_owns_no_other_touches(marked):
    own_elements = 0
    for seed in range(50):
        case = Random(seed)
        cuts = list(case.cuts())
        found = iter(
            own_and_touched(case.kernel, case.grid, case.buffers, 3, [tile for tiles in cuts for tile in tiles])
        )
        for tiles in cuts:
            of_cut = list(itertools.islice(found, len(tiles)))
            require_apart(of_cut)
            own_elements += sum(int(own.sum()) for own, _ in of_cut)
    assert own_elements > 10_000


def test_sums():
    for seed in range(100, 120):
        case = Random(seed)
        check(case.kernel, case.grid, case.buffers, (8,), next(iter(case.cuts())))


def periodic(m, target, by_remainder, dtype=int32):
    """A stencil of two neighbours along each axis."""
    rank = target.rank
    tids, number = [m.tid(axis) for axis in range(rank)], itertools.count(1)
    for axis in range(rank):
        t, n = tids[axis], m.size(target, axis)
        last = m.op("sub", n, m.i(1))
        if by_remainder:
            sides = [m.op("mod", m.op("add", t, by), n) for by in (last, m.i(1))]
        else:
            west = m.op("select", m.op("eq", t, m.i(0)), last, m.op("sub", t, m.i(1)))
            sides = [west, m.op("select", m.op("eq", t, last), m.i(0), m.op("add", t, m.i(1)))]
        for side in (t, *sides):
            at = [side if a == axis else tids[a] for a in range(rank)]
            m.atomic("add", target, at, m.const(next(number), dtype))
    return m.kernel(rank)


@pytest.mark.parametrize("by_remainder", [True, False])
@pytest.mark.parametrize("grid", [(700,), (40, 70), (6, 9, 30)], ids=str)
def test_a_periodic_stencil(marked, grid, by_remainder):
    """Elements that a rectangle's neighbours reach are not its own, nor those at the ends; the others are."""
    m = Make()
    target = m.array(*[None] * len(grid), dtype=int32)
    kernel = periodic(m, target, by_remainder)
    rows, columns = math.prod(grid[:-1]), grid[-1]
    tiles = columns_cut(1, columns, 128, 320, 600) if rows == 1 else rows_cut(rows, columns, rows // 3, rows // 2)
    found = own_and_touched(kernel, grid, [np.zeros(grid, np.int32)], 0, tiles)
    require_apart(found)
    if len(grid) < 3:
        assert all(own.sum() > 0.5 * touched.sum() for own, touched in found)
    (own, touched), *_ = own_and_touched(kernel, grid, [np.zeros(grid, np.int32)], 0, [(0, rows, 0, columns)])
    assert np.array_equal(own, touched)  # alone


@pytest.mark.parametrize("grid", [(3, 12, 20), (1, 12, 20)], ids=str)
def test_items_of_a_batch(marked, grid):
    """Threads of other items wrap to elements of their own item."""
    m = Make()
    target = m.array(None, None, None, dtype=int32)
    b, i, j = m.tid(0), m.tid(1), m.tid(2)
    n = m.size(target, 1)
    for row in (i, m.op("mod", m.op("add", i, m.i(1)), n), m.op("mod", m.op("add", i, m.op("sub", n, m.i(1))), n)):
        m.atomic("add", target, [b, row, j], m.i(1))
    for ends in ((12, 24), (5, 18, 30), (1, 35), (13, 14), (3, 6, 9)):
        cuts = [c for c in ends if c < 12 * grid[0]]
        found = own_and_touched(m.kernel(3), grid, [np.zeros(grid, np.int32)], 0, rows_cut(12 * grid[0], 20, *cuts))
        require_apart(found)
        if cuts == [12, 24]:
            assert all(np.array_equal(own, touched) for own, touched in found)
        if cuts == [5, 18, 30]:
            assert all(own.any() for own, _ in found)


@pytest.mark.parametrize("extent", [40, 39, 41, 60, 1, 0, -40])
@pytest.mark.parametrize("shift", [1, 0, 39, 60, -1, -41, -60, "last", "around", "value"])
def test_numbers_that_may_be_anything(marked, extent, shift):
    """A remainder by what is no extent: too small, so that threads go around twice, or of what is below zero."""
    m = Make()
    extent_, shift_, target = m.array(dtype=int32), m.array(dtype=int32), m.array(None, None, dtype=int32)
    i, j, n, s = m.tid(0), m.tid(1), m.load(extent_, []), m.load(shift_, [])
    by = {"last": m.op("sub", n, m.i(1)), "around": m.op("add", n, m.i(2)), "value": s}.get(shift) or m.i(shift)
    for at in (m.op("mod", m.op("add", i, by), n), i):
        m.atomic("add", target, [m.op("add", at, m.i(80)), j], m.i(1))
    buffers = [np.array(extent, np.int32), np.array(1, np.int32), np.zeros((160, 24), np.int32)]
    for cuts in ((10, 30), (20,), (38, 39)):
        found = own_and_touched(m.kernel(2), (40, 24), buffers, 2, rows_cut(40, 24, *cuts))
        require_apart(found)
        if extent < 40 or shift in ("value", -41, -60):
            assert not any(own.any() for own, _ in found)
        elif cuts == (10, 30) and shift in (0, 1, "last", "around"):
            assert any(own.any() for own, _ in found)


@pytest.mark.parametrize("grid", [(1 << 14,), (64, 256)], ids=str)
def test_rectangles_at_the_same_time(grid):
    m = Make()
    target = m.array(*[None] * len(grid), dtype=int32)
    kernel = prepare(periodic(m, target, True))
    once = [np.zeros(grid, np.int32)]
    interpret(kernel, grid, once)
    rows, columns = math.prod(grid[:-1]), grid[-1]
    tiles = (
        columns_cut(1, columns, *range(128, columns, 128)) if rows == 1 else rows_cut(rows, columns, *range(3, 64, 3))
    )
    code, got = compile_cpu(kernel), [np.zeros(grid, np.int32)]
    for _ in range(50):
        in_threads(code, kernel, grid, got, tiles)
    assert np.array_equal(got[0], 50 * once[0])


@wp.kernel
def ring(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    ny, nx = x.shape[0], x.shape[1]
    left = j - 1
    if j == 0:
        left = nx - 1
    right = j + 1
    if j == nx - 1:
        right = 0
    c = x[i, j]
    y[i, j] = c * (x[(i + ny - 1) % ny, j] + 2.0 * x[(i + 1) % ny, j] + 3.0 * x[i, left] + 4.0 * x[i, right])


@pytest.mark.parametrize("shape", [(600, 700), (1, 1), (2, 2), (1, 90_000), (5000, 3)], ids=str)
def test_gradients_in_jax(shape):
    """Launches that the pool cuts and that it does not."""
    rng = np.random.default_rng(5)
    x, ct = (jnp.asarray(rng.standard_normal(shape), jnp.float32) for _ in range(2))

    @jax.jit
    def by_jax(x):
        near = ((1, 0), (-1, 0), (1, 1), (-1, 1))
        return x * sum(jnp.float32(k + 1) * jnp.roll(x, by, axis) for k, (by, axis) in enumerate(near))

    found, expected = (jax.vjp(f, x)[1](ct)[0] for f in (lambda x: wp.jax_kernel(ring)(x)[0], by_jax))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
