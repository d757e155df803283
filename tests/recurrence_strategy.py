"""Random kernels whose threads read and write rows of their own at places that move with loops, in float64.

a, b    in-out: rows of the threads; indices are sums of loop variables and constants, so elements are met again
x       input
count   integers 0 to 3, from which loops take bounds that no analysis knows, or only that they are 0 to 3
"""

from __future__ import annotations

import numpy as np
from derivativekit import Case
from kernels_strategy import Pick, RandomPick

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.nodes import Param, Value
from jaxwarp.ir.verify import verify
from jaxwarp.types import float64, int32

COLUMNS, BASE, THREADS = 32, 14, 2


class Maker:
    def __init__(self, pick: Pick):
        self.pick = pick
        self.build = Builder()
        self.rows = [Param(name, float64, (None, COLUMNS)) for name in ("a", "b")]
        self.x = Param("x", float64, (None,))
        self.count = Param("count", int32, (None,))
        # Loop variables in scope with what they may be.
        self.variables: list[tuple[Value, int, int]] = []
        self.floats: list[list[Value]] = [[]]
        self.budget = pick.integer(4, 9)

    def case(self) -> Case:
        build, pick = self.build, self.pick
        self.tid = build.tid(0)
        self.counts = [build.load(self.count, [self.int(k)]) for k in range(2)]
        self.floats[0] = [build.load(self.x, [self.int(k)]) for k in range(2)]
        while self.budget > 0:
            self.loop(0)
        kernel = verify(build.finish("recurrence", 1, (*self.rows, self.x, self.count)))
        rng = np.random.default_rng(pick.integer(0, 2**16))
        buffers = [rng.uniform(-1.5, 1.5, (THREADS, COLUMNS)) for _ in self.rows]
        buffers += [rng.uniform(-1.5, 1.5, 2), rng.integers(0, 4, 2, dtype=np.int32)]
        return Case("recurrence", kernel, (THREADS,), buffers, (0, 1, 2), (0, 1))

    def int(self, value: int) -> Value:
        return self.build.const(value, int32)

    def call(self, name: str, *args: Value) -> Value:
        return self.build.call(ROWS[name], *args)

    def float(self) -> Value:
        return self.pick.of([v for pool in self.floats for v in pool][::-1][:5])

    def place(self) -> list[Value]:
        """A column: mostly a loop variable and a small constant."""
        total, low, high = self.int(BASE), BASE, BASE
        for value, least, most in self.variables[::-1][: self.pick.of((1, 1, 2))]:
            factor = self.pick.of((1, 1, 1, 1, -1, 2, 0))
            low, high = low + min(factor * least, factor * most), high + max(factor * least, factor * most)
            if factor:
                term = value if factor == 1 else self.call("mul", value, self.int(factor))
                total = self.call("add", total, term)
        shift = self.pick.of((0, 0, 1, -1, 2, -2))
        assert low + shift >= 0
        assert high + shift < COLUMNS
        return [self.tid, self.call("add", total, self.int(shift))]

    def statements(self, depth: int) -> None:
        for _ in range(self.pick.integer(2, 4)):
            self.budget -= 1
            choice = self.pick.integer(0, 99)
            if choice < 40:
                self.floats[-1].append(self.build.load(self.array(), self.place()))
            elif choice < 75:
                self.build.store(self.array(), self.place(), self.value())
            elif choice < 80:
                self.accumulate()
            elif choice < 88:
                self.branch(depth)
            elif depth < 2:
                self.loop(depth)

    def array(self) -> Param:
        return self.pick.of((self.rows[0], *self.rows))

    def accumulate(self) -> None:
        self.build.atomic("add", self.pick.of(self.rows), self.place(), self.value())

    def value(self) -> Value:
        a, b = self.float(), self.float()
        if self.pick.chance(25):
            return self.call("add", self.call("mul", a, self.build.const(0.5, float64)), b)
        return self.call("sin", self.call("mul", a, b)) if self.pick.chance(60) else self.call("tanh", a)

    def branch(self, depth: int) -> None:
        def side() -> list[Value]:
            self.floats.append([])
            self.statements(depth)
            self.floats.pop()
            return []

        condition = self.call("lt", self.float(), self.build.const(0.3, float64))
        self.build.if_(condition, side, side if self.pick.chance(40) else list)

    def region(self, depth: int, variable: Value, low: int, high: int, carried: Value) -> Value:
        self.variables.append((variable, low, high))
        self.floats.append([carried])
        self.statements(depth + 1)
        result = self.value() if self.pick.chance(60) else carried
        self.floats.pop()
        self.variables.pop()
        return result

    def bound(self) -> tuple[Value, int, int]:
        """An end of a loop: a constant, a number read from memory, or a variable further out."""
        choice = self.pick.integer(0, 2)
        if choice == 0:
            number = self.pick.integer(0, 3)
            return self.int(number), number, number
        if choice == 1 or not self.variables or self.variables[-1][2] - self.variables[-1][1] > 4:
            count = self.pick.of(self.counts)
            if self.pick.chance(60):
                count = self.call("max", self.call("min", count, self.int(3)), self.int(0))
            return count, 0, 3
        value, low, high = self.variables[-1]
        shift = self.pick.of((0, 0, 1, -1))
        return self.call("add", value, self.int(shift)), low + shift, high + shift

    def loop(self, depth: int) -> None:
        self.budget -= 1
        (one, *first), (two, *second) = self.bound(), self.bound()
        low, high = min(*first, *second), max(*first, *second)
        step = self.pick.of((1, 1, 1, -1, -1, 2, -2))
        if self.pick.chance(70):
            bounds = (one, two) if self.pick.chance(70) else (two, one)
            self.floats[-1] += self.build.for_(
                *bounds, self.int(step), [self.float()], lambda k, c: [self.region(depth, k, low, high, c)]
            )
            return

        def test(k: Value, c: Value) -> Value:
            going = self.call("lt" if step > 0 else "gt", k, two)
            return self.call("logical_and", going, self.call("lt", c, self.build.const(1.4, float64)))

        def body(k: Value, c: Value) -> list[Value]:
            result = self.region(depth, k, low, high, c)
            return [self.call("add", k, self.int(step)), result]

        _, last = self.build.while_([one, self.float()], test, body)
        self.floats[-1].append(last)


def random_case(seed: int) -> Case:
    return Maker(RandomPick(seed)).case()
