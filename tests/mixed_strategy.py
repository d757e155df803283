"""Random kernels like those of `own_array_strategy`, which also overwrite rows, have tiles, and count from the end.

Rows `a` and `b` are read and overwritten at any time, beside the arrays that were made of them. Tiles are matrices of
the thread's own: filled from an array or a row, multiplied in place, and stored or summed. Of many places the index is
less by some number, so that it is negative for some iterations, all or none, and counts from the end there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import own_array_strategy
from derivativekit import Case
from hypothesis import strategies as st
from kernels_strategy import DrawnPick, Pick, RandomPick
from recurrence_strategy import BASE, COLUMNS

from jaxwarp.ir.nodes import Param, Value
from jaxwarp.types import float64

SIDE = 3


class Maker(own_array_strategy.Maker):
    def __init__(self, pick: Pick):
        super().__init__(pick)
        # Few accesses: where there are many, one that is right hides the derivative that another one lost.
        self.budget = pick.integer(2, 8)
        self.tiles: list[Param] = []

    def places_of(self, array: Param) -> list[Value]:
        """A place in an array or in the thread's row of an argument."""
        (index,) = own_array_strategy.Maker.place(self)
        if self.pick.chance(60):
            less = self.pick.of((BASE, BASE, BASE, BASE + 1, BASE - 1, COLUMNS - 3, 0))
            extent = self.build.size(array, array.rank - 1)
            index = self.call("from_end", self.call("sub", index, self.int(less)), extent)
        return [self.tid, index] if array in self.rows else [index]

    def any_array(self) -> Param:
        return self.pick.of((*self.rows, self.array()))

    def value(self) -> Value:
        if self.pick.chance(60):
            array = self.any_array()
            self.floats[-1].append(self.build.load(array, self.places_of(array)))
        return super().value()

    def accumulate(self) -> None:
        choice = self.pick.integer(0, 99)
        if choice < 40:
            self.tile()
        elif choice < 70:
            array = self.any_array()
            place = self.places_of(array)
            self.build.store(array, place, self.call("add", self.build.load(array, place), self.value()))
        else:
            super().accumulate()

    def statements(self, depth: int) -> None:
        if self.pick.chance(50):
            array = self.any_array()
            self.build.store(array, self.places_of(array), self.value())
        super().statements(depth)

    # Tiles

    def over(self, count: int, body: Callable[[Value], object]) -> None:
        def one(k: Value) -> list[Value]:
            body(k)
            return []

        self.build.for_(self.int(0), self.int(count), self.int(1), [], one)

    def over_tile(self, body: Callable[[Value, Value], object]) -> None:
        self.over(SIDE, lambda i: self.over(SIDE, lambda j: body(i, j)))

    def tile(self) -> None:
        """One that is filled here, perhaps multiplied with itself, and summed or stored."""
        source, made = self.any_array(), Param(f"tile{len(self.tiles)}", float64, (SIDE, SIDE))
        self.tiles.append(made)
        self.locals.append(made)
        first = self.pick.integer(0, 8)

        def at(i: Value, j: Value) -> list[Value]:
            column = self.call("add", self.call("mul", i, self.int(SIDE)), self.call("add", j, self.int(first)))
            return [self.tid, column] if source in self.rows else [column]

        self.over_tile(lambda i, j: self.build.store(made, [i, j], self.build.load(source, at(i, j))))
        if self.pick.chance(60):
            made = self.product(made)
        if self.pick.chance(40):
            self.over_tile(lambda i, j: self.build.store(source, at(i, j), self.call("tanh", self.load(made, i, j))))
        else:
            i, j = (self.int(self.pick.integer(0, SIDE - 1)) for _ in range(2))
            self.floats[-1].append(self.load(made, i, j))

    def load(self, tile: Param, i: Value, j: Value) -> Value:
        return self.build.load(tile, [i, j])

    def product(self, tile: Param) -> Param:
        """tanh of its square, as `tile_matmul` and `tile_map` would make it, in another tile."""
        made = Param(f"tile{len(self.tiles)}", float64, (SIDE, SIDE))
        self.tiles.append(made)
        self.locals.append(made)

        def entry(i: Value, j: Value) -> None:
            def step(k: Value, total: Value) -> list[Value]:
                return [self.call("add", total, self.call("mul", self.load(tile, i, k), self.load(tile, k, j)))]

            zero = self.build.const(0.0, float64)
            (total,) = self.build.for_(self.int(0), self.int(SIDE), self.int(1), [zero], step)
            self.build.store(made, [i, j], self.call("tanh", total))

        self.over_tile(entry)
        return made


def random_case(seed: int) -> Case:
    return Maker(RandomPick(seed)).case()


@st.composite
def cases(draw: Any) -> Case:
    return Maker(DrawnPick(draw)).case()
