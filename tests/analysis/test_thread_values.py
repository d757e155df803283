"""What indices are for each thread, and whose elements are whose: by the interpreter, for every thread of a launch."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from cpukit import Make

from jaxwarp.analysis import own_elements, thread_values
from jaxwarp.analysis.addresses import Ownership
from jaxwarp.analysis.effects import analyze
from jaxwarp.analysis.own_elements import ThreadIndices
from jaxwarp.analysis.thread_values import extents_in_indices
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Const, Param, Size, Value
from jaxwarp.ir.verify import verify
from jaxwarp.types import int8, int32, int64

NUMBERS = (0, 1, 1, 2, 3, 5, 7, -1, 1 << 30, (1 << 31) - 1)
BINARY = ("add", "add", "sub", "mul", "mod", "div", "min", "max", "bit_xor", "bit_and")


class Random:
    """A kernel of a few accesses to `x` at random indices, which it also stores to `seen`."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.m = Make()
        self.grid = [int(self.rng.choice([1, 2, 3, 4, 6])) for _ in range(self.rng.integers(1, 4))]
        self.rank = int(self.rng.integers(1, 4))
        self.x = self.m.array(*[None] * self.rank, dtype=int32)
        self.data = self.m.array(None, dtype=int32)
        self.seen = self.m.array(None, None, *[None] * len(self.grid), dtype=int64)
        self.shape = tuple(int(self.rng.choice([*self.grid, 5])) for _ in range(self.rank))
        self.tids = [self.m.tid(axis) for axis in range(len(self.grid))]
        # Index computations are shared, as those of a stencil are.
        self.pool = [self.index(2) for _ in range(4)]
        self.accesses = int(self.rng.integers(1, 5))
        rows = [self.row() for _ in range(self.accesses)]
        for row in rows:
            self.m.load(self.x, row)
        for a, row in enumerate(rows):
            for axis, value in enumerate(row):
                place = [self.m.i(a), self.m.i(axis), *self.tids]
                self.m.store(self.seen, place, self.m.cast(value, int64))
        self.kernel: Kernel = verify(self.m.finish("random", len(self.grid), self.m.params))

    def row(self) -> list[Value]:
        if self.rng.random() < 0.7:  # one axis of the grid for each of the array, or a number
            axes = self.rng.permutation(max(self.rank, len(self.grid)))[: self.rank]
            return [
                self.moved(int(axis)) if axis < len(self.grid) else self.m.i(int(self.rng.integers(3))) for axis in axes
            ]
        return [self.pool[self.rng.integers(4)] for _ in range(self.rank)]

    def moved(self, axis: int) -> Value:
        """A thread index, wrapped, reversed, clamped, spread or shifted."""
        t, n = self.tids[axis], self.m.i(self.grid[axis])
        by = self.m.i(int(self.rng.choice([-1, 1, 2])))
        match self.rng.integers(6):
            case 0:
                return self.m.op("mod", self.m.op("add", t, self.m.i(int(self.rng.integers(1, 3)))), n)
            case 1:
                edge = self.m.op("eq", t, self.m.i(0))
                return self.m.op("select", edge, self.m.op("sub", n, self.m.i(1)), self.m.op("sub", t, self.m.i(1)))
            case 2:
                return self.m.op("sub", self.m.op("sub", n, self.m.i(1)), t)
            case 3:
                return self.m.op("min", self.m.op("add", t, self.m.i(1)), self.m.op("sub", n, self.m.i(1)))
            case 4:
                return self.m.op("add", t, by)
            case _:
                return self.m.op("mul", t, by)

    def index(self, depth: int) -> Value:
        choice = self.rng.random()
        if not depth or choice < 0.25:
            match self.rng.integers(6):
                case 0:
                    return self.m.i(int(self.rng.choice(NUMBERS)))
                case 1:
                    return self.m.size(self.x, int(self.rng.integers(self.rank)))
                case 2 if self.rng.random() < 0.3:
                    return self.m.load(self.data, [self.m.i(0)])
                case _:
                    return self.tids[self.rng.integers(len(self.tids))]
        a, b = self.index(depth - 1), self.index(depth - 1)
        if choice < 0.35:
            test = self.m.op(str(self.rng.choice(["lt", "eq", "ge"])), a, self.index(depth - 1))
            return self.m.op("select", test, b, a)
        if choice < 0.4:
            return self.m.cast(self.m.cast(a, int8), int32)  # wraps
        return self.m.op(str(self.rng.choice(BINARY)), a, b)

    def addresses(self) -> list[dict[tuple[int, ...], tuple[int, ...]]]:
        """Of each access, by thread."""
        seen = np.zeros((self.accesses, self.rank, *self.grid), np.int64)
        # The loads themselves may be outside of the array.
        loads = self.loads_of_x()
        body = Block((), tuple(op for op in self.kernel.body.ops if op not in loads), ())
        buffers = [np.zeros(self.shape, np.int32), np.array([2], np.int32), seen]
        interpret(Kernel("seen", len(self.grid), self.kernel.params, body), self.grid, buffers)
        return [
            {t: tuple(map(int, seen[(a, slice(None), *t)])) for t in itertools.product(*map(range, self.grid))}
            for a in range(self.accesses)
        ]

    def loads_of_x(self):
        return Ownership(self.kernel).accesses[self.x]


def is_own(found):
    owner: dict[tuple[int, ...], tuple[int, ...]] = {}
    return all(owner.setdefault(place, t) == t for access in found for t, place in access.items())


def shapes_of(case: Random) -> dict[Param, tuple[int, ...]]:
    return {case.x: case.shape}


def test_whose_elements_are_whose():
    """Exactly, where everything is known; never too much, where some of it is found in data."""
    counts = {True: 0, False: 0}
    for seed in range(500):
        case = Random(seed)
        found, loads = case.addresses(), case.loads_of_x()
        indices = ThreadIndices(case.kernel, case.grid, shapes_of(case))
        known = all(indices.values.of(v) is not None for op in loads for v in op.indices)
        told, expected = indices.tell_apart(loads), is_own(found)
        assert told == expected if known else told <= expected, f"{seed}: {case.kernel}"
        assert Ownership(case.kernel, case.grid, shapes_of(case)).is_private(case.x) <= expected, seed
        assert Ownership(case.kernel).is_private(case.x) <= expected, seed
        counts[expected] += known and math.prod(case.grid) > 1
        for (a, first), (b, second) in itertools.combinations(enumerate(loads), 2):
            apart = all(found[a][t] != found[b][t] for t in found[a])
            never = indices.never_meet(first, second)
            assert never == apart if known else never <= apart, f"{seed}, {a} and {b}: {case.kernel}"
    assert min(counts.values()) > 60


def test_axes_that_are_told_in_another_way():
    """The batch, of an extent that is not known; the other axes by their values."""
    m = Make()
    x = m.array(None, None, None, dtype=int32)
    item, i, j = (m.tid(axis) for axis in range(3))
    west = m.op("mod", m.op("add", j, m.i(3)), m.size(x, 2))
    m.load(x, [item, m.op("sub", m.op("sub", m.size(x, 1), m.i(1)), i), west])
    kernel = m.kernel(3)
    for extent, rows, expected in (
        (4, 5, True),
        (3, 5, False),  # the fourth thread of a row of three wraps to where the first is
        (None, 5, False),
    ):
        grid, shapes = (None, 5, 4), {x: (None, rows, extent)}
        assert Ownership(kernel, grid, shapes).is_private(x) is expected
    assert not Ownership(kernel, (None, None, 4), {x: (None, 5, 4)}).is_private(x)
    assert not Ownership(kernel, (2, 5, 4)).is_private(x)
    assert not Ownership(kernel, (2, 5, 4), {x: (2, None, 4)}).is_private(x)


def wrapped(m: Make, array: Param, axis: int, by: int) -> Value:
    return m.op("mod", m.op("add", m.tid(axis), m.i(by)), m.size(array, axis))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_small_extents(n):
    """West and east are one element of two, and of one."""
    m = Make()
    x = m.array(None, dtype=int32)
    for by in (n - 1, 1):
        m.load(x, [wrapped(m, x, 0, by)])
    ownership = Ownership(m.kernel(), (n,), {x: (n,)})
    west, east = ownership.accesses[x]
    assert ownership.is_private(x) is (n < 3)
    assert ownership.never_meet(west, east) is (n == 3)


def test_no_threads_and_no_accesses():
    m = Make()
    x, y = m.array(None, dtype=int32), m.array(None, dtype=int32)
    m.load(x, [wrapped(m, x, 0, 1)])
    kernel = m.kernel()
    assert not ThreadIndices(kernel, (0,), {x: (0,)}).tell_apart(Ownership(kernel).accesses[x])
    assert not Ownership(kernel, (2,), {x: (2,)}).is_private(y)


def test_how_much_is_computed(monkeypatch):
    """Too many threads are not told apart; many are, where each axis can be looked at by itself."""
    m = Make()
    x = m.array(None, None, dtype=int32)
    m.load(x, [wrapped(m, x, 0, 1), wrapped(m, x, 1, 1)])
    kernel, access = m.kernel(2), {x: (3000, 3000)}
    indices = ThreadIndices(kernel, (3000, 3000), access)
    assert indices.tell_apart(Ownership(kernel).accesses[x])
    assert indices.values._work > thread_values._MOST_WORK - 20_000
    monkeypatch.setattr(thread_values, "_MOST_THREADS", 2999)
    assert not ThreadIndices(kernel, (3000, 3000), access).tell_apart(Ownership(kernel).accesses[x])
    monkeypatch.undo()
    monkeypatch.setattr(own_elements, "_MOST_NUMBERS", 2999)
    assert not ThreadIndices(kernel, (3000, 3000), access).tell_apart(Ownership(kernel).accesses[x])
    monkeypatch.undo()
    monkeypatch.setattr(thread_values, "_MOST_WORK", 10_000)
    assert not ThreadIndices(kernel, (3000, 3000), access).tell_apart(Ownership(kernel).accesses[x])


@pytest.mark.parametrize("spread", [0, 2])
def test_indices_that_spread(monkeypatch, spread):
    """Few threads, and elements far from each other: by sorting, if they are few enough."""
    monkeypatch.setattr(own_elements, "_SPREAD", spread)
    m = Make()
    x = m.array(None, None, dtype=int32)
    far = m.op("bit_xor", m.op("mul", m.tid(0), m.i(1 << 20)), m.i(1))
    m.load(x, [far, m.op("bit_xor", m.tid(1), m.i(1 << 30))])
    m.load(x, [m.op("add", far, m.i(1)), m.op("bit_xor", m.tid(1), m.i(2))])
    kernel = m.kernel(2)
    accesses = Ownership(kernel).accesses[x]
    assert ThreadIndices(kernel, (500, 400)).tell_apart(accesses)
    assert not ThreadIndices(kernel, (5000, 400)).tell_apart(accesses)  # 4096 << 20 wraps to 0
    monkeypatch.setattr(own_elements, "_MOST_SORTED", 10)
    assert not ThreadIndices(kernel, (500, 400)).tell_apart(accesses)


def test_which_extents_matter():
    """Those that indices are made of; not those that only end loops, or are stored."""
    m = Make()
    x, y = m.array(None, None, dtype=int32), m.array(None, dtype=int32)
    m.store(y, [wrapped(m, x, 1, 1)], m.size(y, 0))
    m.store(y, [m.op("select", m.op("lt", m.tid(0), m.size(x, 0)), m.i(0), m.i(1))], m.i(0))
    assert extents_in_indices(m.kernel(2)) == {(0, 0), (0, 1)}


def test_stores_that_reach_every_element():
    """As the interpreter finds it: never said where it is not so, and said where each axis is swept by one index."""
    said = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        grid = [int(n) for n in rng.choice([1, 2, 3, 5], rng.integers(1, 3))]
        shape = [2, *(int(n if rng.random() < 0.8 else rng.choice([1, 2, 4])) for n in grid)]
        m = Make()
        y = m.array(*[None] * len(shape), dtype=int32)
        for k in range(2):
            row = [m.i(k)]
            for axis, n in enumerate(shape[1:]):
                # Seldom one thread index for both axes: a diagonal.
                t, size = m.tid(axis if rng.random() < 0.9 else 0), m.size(y, axis + 1)
                at_end = m.op("ge", t, m.op("sub", size, m.i(1)))
                row.append(
                    [
                        m.op("select", at_end, m.i(0), m.op("add", t, m.i(1))),
                        m.op("mod", m.op("add", t, m.i(n)), size),
                        m.op("bit_xor", t, m.i(0)),
                        m.op("min", m.op("add", t, m.i(1)), m.op("sub", size, m.i(1))),
                    ][rng.choice(4, p=[0.35, 0.35, 0.2, 0.1])]
                )
            if rng.random() < 0.7:
                m.store(y, row, m.i(1))
            else:
                test = m.op("lt", m.tid(0), m.i(int(rng.integers(1, 6))))
                m.if_(test, functools.partial(store_one, m, y, row))
        kernel = m.kernel(len(grid))
        written = np.zeros(shape, np.int32)
        interpret_inside(kernel, grid, written)
        covers = analyze(kernel).covers(y, grid, shape)
        assert covers <= bool(written.all()), f"{seed}: {grid} {shape} {kernel}"
        said += covers and math.prod(grid) > 1
    assert said > 40


def store_one(m: Make, array: Param, row: list[Value]) -> tuple[Value, ...]:
    m.store(array, row, m.i(1))
    return ()


def interpret_inside(kernel: Kernel, grid: list[int], target: np.ndarray) -> None:
    """What a launch stores inside of the array."""
    large = np.zeros([n + 8 for n in target.shape], np.int32)
    interpret(kernel_with_extents(kernel, target.shape), grid, [large])
    target[...] = large[tuple(slice(0, n) for n in target.shape)]


def kernel_with_extents(kernel: Kernel, shape: tuple[int, ...]) -> Kernel:
    """With numbers in place of the extents of its array."""
    ops = tuple(Const(op.result, shape[op.axis]) if isinstance(op, Size) else op for op in kernel.body.ops)
    return Kernel(kernel.name, kernel.grid_rank, kernel.params, Block((), ops, ()))
