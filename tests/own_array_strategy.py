"""Random kernels like those of `recurrence_strategy`, on arrays of the thread's own.

Two are filled from the rows `a` and `b` and stored there in the end; others are made and filled anywhere, also in loops
and branches. Of a few, elements are found in data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import recurrence_strategy
from derivativekit import Case
from hypothesis import strategies as st
from kernels_strategy import DrawnPick, Pick, RandomPick
from recurrence_strategy import BASE, COLUMNS, THREADS

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.nodes import Param, Value
from jaxwarp.ir.verify import verify
from jaxwarp.types import float64


class Maker(recurrence_strategy.Maker):
    def __init__(self, pick: Pick):
        super().__init__(pick)
        self.locals: list[Param] = []
        self.arrays: list[list[Param]] = [[]]  # in scope, with those made last at the end
        self.budget = pick.integer(6, 24)

    def case(self) -> Case:
        build, pick = self.build, self.pick
        self.tid = build.tid(0)
        self.counts = [build.load(self.count, [self.int(k)]) for k in range(2)]
        if pick.chance(85):
            self.counts = [self.call("max", self.call("min", n, self.int(3)), self.int(0)) for n in self.counts]
        self.floats[0] = [build.load(self.x, [self.int(k)]) for k in range(2)]
        for row in self.rows:
            self.make(lambda k, row=row: build.load(row, [self.tid, k]))
        first = tuple(self.arrays[0])
        while self.budget > 0:
            self.loop(0)
        for own, row in zip(first, self.rows, strict=True):
            self.each(lambda k, own=own, row=row: build.store(row, [self.tid, k], build.load(own, [k])))
        made = build.finish("own", 1, (*self.rows, self.x, self.count))
        kernel = verify(replace(made, locals=tuple(self.locals)))
        rng = np.random.default_rng(pick.integer(0, 2**16))
        buffers = [rng.uniform(-1.5, 1.5, (THREADS, COLUMNS)) for _ in self.rows]
        buffers += [rng.uniform(-1.5, 1.5, 2), rng.integers(0, 4, 2, dtype=np.int32)]
        return Case("own", kernel, (THREADS,), buffers, (0, 1, 2), (0, 1))

    def each(self, body: Callable[[Value], object]) -> None:
        def one(k: Value) -> list[Value]:
            body(k)
            return []

        self.build.for_(self.int(0), self.int(COLUMNS), self.int(1), [], one)

    def make(self, value: Callable[[Value], Value]) -> None:
        """An array, filled where it is made."""
        array = Param(f"own{len(self.locals)}", float64, (COLUMNS,))
        self.locals.append(array)
        self.each(lambda k: self.build.store(array, [k], value(k)))
        self.arrays[-1].append(array)

    def array(self) -> Param:
        return self.pick.of([array for pool in self.arrays for array in pool][::-1][:3])

    def place(self) -> list[Value]:
        choice = self.pick.integer(0, 99)
        if choice >= 90:
            return [self.call("add", self.pick.of(self.counts), self.int(BASE))]
        if choice >= 60 and self.variables:
            return [self.call("add", self.variables[-1][0], self.int(BASE))]
        return super().place()[1:]

    def value(self) -> Value:
        """Mostly of what is in the arrays."""
        if self.pick.chance(70):
            self.floats[-1].append(self.build.load(self.array(), self.place()))
        return super().value()

    def accumulate(self) -> None:
        """An update in place, or a new array."""
        if self.pick.chance(60):
            self.make_of_others()
            return
        array, place = self.array(), self.place()
        self.build.store(array, place, self.call("add", self.build.load(array, place), self.value()))

    def make_of_others(self) -> None:
        array, number = self.array(), self.float()
        if self.pick.chance(50):
            self.make(lambda k: self.call("sin", self.call("mul", number, self.build.load(array, [k]))))
        else:
            self.make(lambda k: self.call("mul", number, self.build.call(ROWS["cast"], k, dtype=float64)))

    def branch(self, depth: int) -> None:
        """With a result, of what its sides compute."""

        def side() -> list[Value]:
            self.floats.append([outer])
            self.statements(depth)
            result = self.value()
            self.floats.pop()
            return [result]

        outer = self.float()
        condition = self.call("lt", self.float(), self.build.const(0.3, float64))
        if self.pick.chance(30):
            condition = self.call("lt", self.pick.of(self.counts), self.int(2))
        self.floats[-1] += self.build.if_(condition, side, side if self.pick.chance(50) else lambda: [outer])

    def statements(self, depth: int) -> None:
        self.arrays.append([])
        if self.pick.chance(25):
            self.make_of_others()
        for _ in range(self.pick.integer(1, 2)):
            super().statements(depth)
        self.arrays.pop()


def random_case(seed: int) -> Case:
    return Maker(RandomPick(seed)).case()


@st.composite
def cases(draw: Any) -> Case:
    return Maker(DrawnPick(draw)).case()
