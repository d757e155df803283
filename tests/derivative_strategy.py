"""Random float64 kernels that have derivatives: smooth, except at branches on floats, and fully determined.

    x       read anywhere
    index   indices into x and out, read anywhere; perm: a permutation of the threads
    rows    in-out: each thread loads, stores and adds to elements of its own row, at constant and moving columns
    count   in-out, integers: likewise; loop bounds come from it
    out     atomic adds from all threads
    spread  stores at perm[i]: no two threads meet, which no analysis can see
    same    every thread stores one value, made of what all threads share
    none    a zero: bounds of loops of any integer type, near its ends, may be known at run time only
    own     two arrays of the thread's own, one of floats, one of integers: stored and loaded at any index; and those
            that are made and filled in the middle, also in loops. Some are too large for values.

What a kernel computed last is stored in `kept`, so that nothing is without effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from derivativekit import Case
from hypothesis import strategies as st
from kernels_strategy import DrawnPick, Pick, RandomPick

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.builtins.scalar_ops.rules import ATTACH, DETACH
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.nodes import Param, Value
from jaxwarp.ir.verify import verify
from jaxwarp.types import float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

INTEGERS = (int64, uint64, int32, uint32, int8, uint8, int16, uint16)
COLUMNS, SIZE, KEPT, OWN = 4, 5, 3, 3
LARGE = 66  # of its elements only the first OWN are accessed again


class Maker:
    """Of its statements, `own_share` in a hundred are about arrays of the thread's own."""

    def __init__(self, pick: Pick, budget: int = 22, own_share: int = 10):
        self.pick = pick
        self.build = Builder()
        self.budget = budget
        self.own_share = own_share
        self.threads = pick.of((3, 1, 4))
        self.x = Param("x", float64, (None,))
        self.index = Param("index", int32, (None,))
        self.perm = Param("perm", int32, (None,))
        self.rows = Param("rows", float64, (None, COLUMNS))
        self.count = Param("count", int32, (None, 2))
        self.out = Param("out", float64, (None,))
        self.spread = Param("spread", float64, (None,))
        self.same = Param("same", float64, (1,))
        self.kept = Param("kept", float64, (None, KEPT))
        self.none = Param("none", int32, (1,))
        self.own = Param("own", float64, (pick.of((OWN, LARGE)),))
        self.counters = Param("counters", int32, (2, pick.of((OWN, LARGE))))
        self.locals = [self.own, self.counters]
        self.made: list[list[Param]] = [[self.own]]
        self.floats: list[list[Value]] = [[]]
        self.ints: list[list[Value]] = [[]]

    def case(self) -> Case:
        pick, build = self.pick, self.build
        self.tid = build.tid(0)
        self.ints[0] += [self.tid]
        self.floats[0] += [build.load(self.x, [build.call(ROWS["mod"], self.tid, self.int(SIZE))])]
        both = [build.load(self.x, [self.int(k)]) for k in range(2)]
        self.floats[0] += both
        self.shared = build.call(ROWS["mul"], *both)
        for k in range(OWN):
            build.store(self.own, [self.int(k)], build.const(0.5 * k, float64))
            for row in range(2):
                build.store(self.counters, [self.int(row), self.int(k)], self.int(k))
        self.statements(0)
        for k in range(KEPT):
            last = build.load(self.own, [self.integer(OWN)]) if pick.chance(30) else self.float()
            build.store(self.kept, [self.tid, self.int(k)], last)
        inputs, results = (self.x, self.index, self.perm), (self.out, self.spread, self.same, self.kept)
        params = (*inputs, self.rows, self.count, *results, self.none)
        kernel = verify(replace(build.finish("random", 1, params), locals=tuple(self.locals)))
        rng = np.random.default_rng(pick.integer(0, 2**16))
        n = self.threads
        buffers = [
            rng.uniform(-1.5, 1.5, SIZE),
            rng.integers(0, SIZE, SIZE, dtype=np.int32),
            rng.permutation(n).astype(np.int32),
            rng.uniform(-1.5, 1.5, (n, COLUMNS)),
            rng.integers(0, 4, (n, 2), dtype=np.int32),
            rng.uniform(-1.5, 1.5, SIZE),
            rng.uniform(-1.5, 1.5, n),
            rng.uniform(-1.5, 1.5, 1),
            rng.uniform(-1.5, 1.5, (n, KEPT)),
            np.zeros(1, np.int32),
        ]
        wanted = (0, 3, 5, 6, 7) if pick.chance(70) else (0,) if pick.chance(50) else (3,)
        return Case("random", kernel, (n,), buffers, wanted, (3, 5, 6, 7, 8))

    # Values

    def int(self, value: int) -> Value:
        return self.build.const(value, int32)

    def float(self) -> Value:
        pools = [v for pool in self.floats for v in pool]
        if self.pick.chance(10):
            return self.build.const(self.pick.of((1.0, 0.5, -0.7, 1.3)), float64)
        return self.pick.of(pools[::-1][:8])

    def integer(self, limit: int) -> Value:
        """Some integer in [0, limit)."""
        choice = self.pick.integer(0, 3)
        if choice == 0:
            return self.int(self.pick.integer(0, limit - 1))
        if choice == 1:
            value = self.build.load(self.index, [self.int(self.pick.integer(0, SIZE - 1))])
        else:
            value = self.pick.of([v for pool in self.ints for v in pool][::-1])
        rest = self.build.call(ROWS["mod"], value, self.int(limit))
        return self.build.call(ROWS["abs"], rest)

    def smooth(self) -> Value:
        call, a = (lambda name, *args: self.build.call(ROWS[name], *args)), self.float()
        two = self.build.const(2.0, float64)
        match self.pick.integer(0, 9):
            case 9:
                # A rule by hand, which is the true derivative.
                value = self.build.call(DETACH, call("sin", self.build.call(DETACH, a)))
                return self.build.call(ATTACH, value, a, call("cos", a))
            case 0:
                return call("mul", a, self.float())
            case 1:
                return call("add", a, self.float())
            case 2:
                return call("sin", call("mul", a, self.float()))
            case 3:
                return call("tanh", call("add", a, self.float()))
            case 4:
                return call("sub", a, call("cos", self.float()))
            case 5:
                return call("div", a, call("add", two, call("sin", self.float())))
            case 6:
                return call("sqrt", call("add", two, call("mul", a, a)))
            case 7:
                return call("select", self.condition(), call("exp", call("sin", a)), self.float())
            case _:
                return call(self.pick.of(("min", "max")), a, self.float())

    def bounded(self) -> Value:
        return self.build.call(ROWS["sin"], self.float())

    def condition(self) -> Value:
        if self.pick.chance(50):
            limit = self.build.const(self.pick.of((0.1, -0.3, 0.6)), float64)
            return self.build.call(ROWS["lt"], self.float(), limit)
        return self.build.call(ROWS["eq"], self.integer(2), self.int(0))

    def column(self) -> Value:
        if self.pick.chance(85):
            return self.int(self.pick.integer(0, COLUMNS - 1))
        return self.integer(COLUMNS)

    # Statements

    def statements(self, depth: int) -> None:
        for _ in range(self.pick.integer(2, 5) if depth else self.pick.integer(4, 12)):
            if self.budget <= 0:
                return
            self.budget -= 1
            self.statement(depth)

    def statement(self, depth: int) -> None:
        if self.pick.chance(self.own_share):
            (self.make if self.pick.chance(20) else self.private)()
            return
        build, choice = self.build, self.pick.integer(0, 99)
        if choice < 22:
            self.floats[-1].append(self.smooth())
        elif choice < 38:
            self.floats[-1].append(build.load(self.x, [self.integer(SIZE)]))
        elif choice < 50:
            self.floats[-1].append(build.load(self.rows, [self.tid, self.column()]))
        elif choice < 62:
            build.store(self.rows, [self.tid, self.column()], self.bounded())
        elif choice < 66:
            build.atomic("add", self.rows, [self.tid, self.column()], self.float())
        elif choice < 71:
            build.atomic("add", self.out, [self.integer(SIZE)], self.float())
        elif choice < 74:
            build.store(self.spread, [build.load(self.perm, [self.tid])], self.float())
        elif choice < 76:
            build.store(self.same, [self.int(0)], self.shared)
        elif choice < 80:
            self.counting()
        elif depth < 3:
            (self.if_, self.for_, self.while_)[self.pick.integer(0, 2)](depth)

    def private(self) -> None:
        """What the thread has for itself, read or overwritten."""
        build, place = self.build, [self.integer(OWN)]
        array = self.pick.of([param for pool in self.made for param in pool][::-1])
        match self.pick.integer(0, 4):
            case 0 | 1:
                self.floats[-1].append(build.load(array, place))
            case 2 | 3:
                build.store(array, place, self.bounded())
            case _:
                where = [self.integer(2), *place]
                self.ints[-1].append(build.load(self.counters, where))
                build.store(self.counters, where, self.integer(3))

    def make(self) -> None:
        """An array that is filled where it is made, and can be used from there on."""
        array = Param(f"made{len(self.locals)}", float64, (self.pick.of((OWN, LARGE)),))
        self.locals.append(array)
        value = self.bounded()

        def store(k: Value) -> list[Value]:
            factor = self.build.call(ROWS["cast"], k, dtype=float64) if self.pick.chance(50) else value
            self.build.store(array, [k], self.build.call(ROWS["mul"], value, factor))
            return []

        self.build.for_(self.int(0), self.int(array.shape[0] or 0), self.int(1), [], store)
        self.made[-1].append(array)

    def counting(self) -> None:
        """Integers in memory, read and written."""
        place = [self.tid, self.int(self.pick.integer(0, 1))]
        if self.pick.chance(50):
            self.ints[-1].append(self.build.load(self.count, place))
        else:
            self.build.store(self.count, place, self.integer(4))

    def region(self, depth: int, ints: Sequence[Value], floats: Sequence[Value], results: int) -> list[Value]:
        self.floats.append(list(floats))
        self.ints.append(list(ints))
        self.made.append([])
        self.statements(depth + 1)
        yielded = [self.bounded() if self.pick.chance(60) else self.float() for _ in range(results)]
        self.floats.pop()
        self.ints.pop()
        self.made.pop()
        return yielded

    def if_(self, depth: int) -> None:
        results = self.pick.integer(0, 2)
        branch: Callable[[], list[Value]] = lambda: self.region(depth, (), (), results)  # noqa: E731
        self.floats[-1] += self.build.if_(self.condition(), branch, branch)

    def for_(self, depth: int) -> None:
        """Carries floats, and an integer that they may depend on."""
        inits = [self.float() for _ in range(self.pick.integer(0, 2))]
        start, stop, step = self.pick.of(((0, 3, 1), (3, 0, -1), (0, 2, 1), (1, 6, 2), (0, 5, 1)))
        bounds = [self.int(start), self.int(stop), self.int(step)]
        if self.pick.chance(25):
            bounds = self.far_bounds()
        elif self.pick.chance(50):
            bounds[0 if step < 0 else 1] = self.integer(4)

        def body(k: Value, m: Value, *carried: Value) -> list[Value]:
            k = k if k.type == int32 else self.build.call(ROWS["cast"], k, dtype=int32)
            results = self.region(depth, [k, m], carried, len(inits))
            return [self.build.call(ROWS["add"], m, self.pick.of((k, m, self.tid))), *results]

        m, *rest = self.build.for_(*bounds, [self.integer(3), *inits], body)
        self.ints[-1].append(m)
        self.floats[-1] += rest

    def far_bounds(self) -> list[Value]:
        """Of any integer type, at its ends, for a few iterations; the step may be known at run time only."""
        dtype = self.pick.of(INTEGERS)
        limits = np.iinfo(dtype.numpy)
        low, high = int(limits.min), int(limits.max)
        ranges = [(low, high, high), (low, high, high // 2 + 1), (0, high, high // 2 - 1), (high - 3, high, 1),
                  (low, low + 5, 2), (high // 2, high, high // 3), (low, high, 0)]  # fmt: skip
        if dtype.is_signed:
            ranges += [(high, low, low), (high, low, low // 2), (low + 3, low, -1), (-1, low, low // 2)]
        bounds = [self.build.const(n, dtype) for n in self.pick.of(ranges)]
        for n in range(3):
            if self.pick.chance(30):  # a zero that the compiler does not see
                zero = self.build.call(ROWS["cast"], self.build.load(self.none, [self.int(0)]), dtype=dtype)
                bounds[n] = self.build.call(ROWS["add"], bounds[n], zero)
        return bounds

    def while_(self, depth: int) -> None:
        build = self.build
        inits = [self.float() for _ in range(self.pick.integer(1, 2))]
        limit = self.integer(4)
        reads = self.pick.chance(30)

        def condition(n: Value, *carried: Value) -> Value:
            small = build.call(ROWS["lt"], carried[0], build.const(0.8, float64))
            if reads:
                own = build.load(self.rows, [self.tid, self.int(1)])
                small = build.call(ROWS["lt"], own, build.const(0.5, float64))
            return build.call(ROWS["logical_and"], build.call(ROWS["lt"], n, limit), small)

        def body(n: Value, *carried: Value) -> list[Value]:
            results = self.region(depth, [n], carried, len(inits))
            return [build.call(ROWS["add"], n, self.int(1)), *results]

        n, *rest = build.while_([self.int(0), *inits], condition, body)
        self.ints[-1].append(n)
        self.floats[-1] += rest


def random_case(seed: int, budget: int = 22, own_share: int = 10) -> Case:
    """The same generator on Python's random numbers, for volume."""
    return Maker(RandomPick(seed), budget, own_share).case()


@st.composite
def cases(draw: Any, budget: int = 22, own_share: int = 10) -> Case:
    return Maker(DrawnPick(draw), budget, own_share).case()
