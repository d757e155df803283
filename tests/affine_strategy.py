"""Random kernels as numerical programs have them: sums over neighbours, rows, columns and components.

Indices are sums of the thread's indices, loop variables and constants, with factors, in range by how large arrays are
made; they may also be a thread's number taken apart, or flattened. CPU code has ways of its own for most of them:
vectors of elements side by side, components that are interleaved, rows that are reused, sums in registers.

    inputs    read at such places
    outputs   each thread stores to elements of its own, all components of one after the other, some by later loads
    sums      integer arrays that all threads add to, at places that depend on one of their indices or on none
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernels_strategy import Case, Pick

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.nodes import Param, Value
from jaxwarp.ir.verify import verify
from jaxwarp.types import Scalar, float16, float32, float64, int8, int32, int64, uint16

TYPES = (float32, float32, float32, float64, int32, float16, int8, uint16, int64)
EXTENTS = (8, 3, 1, 5, 16, 17, 33, 64, 70, 130)
MOST_THREADS = 700
MARGIN = 14  # what is added to a thread's index is at most this
FACTOR = 2
LOOPS = 4  # the largest loop variable


class Maker:
    def __init__(self, pick: Pick):
        self.pick = pick
        self.build = Builder()
        self.dtype = pick.of(TYPES)
        self.budget = pick.integer(3, 9)
        self.params: list[Param] = []
        self.shapes: list[tuple[int, ...]] = []
        self.loops: list[Value] = []
        self.pools: list[list[Value]] = [[]]

    def case(self) -> Case:
        pick = self.pick
        self.grid = self.make_grid()
        self.tids = [self.build.tid(axis, f"t{axis}") for axis in range(len(self.grid))]
        self.inputs = [self.make_input() for _ in range(pick.integer(1, 3))]
        self.outputs = [self.make_output() for _ in range(pick.integer(1, 2))]
        self.sums = [self.make_sum() for _ in range(pick.integer(0, 1))]
        self.load()
        while self.budget > 0:
            self.statement(0)
        for param in self.outputs:
            self.store(param)
        kernel = verify(self.build.finish("affine", len(self.grid), self.params))
        return Case(kernel, self.grid, tuple(self.shapes), pick.integer(0, 2**16))

    # The launch

    def make_grid(self) -> tuple[int, ...]:
        grid: list[int] = []
        for _ in range(self.pick.of((1, 1, 2, 2, 3))):
            extent = self.pick.of(EXTENTS)
            if math.prod(grid) * extent <= MOST_THREADS:
                grid.append(extent)
        return tuple(grid)

    def make_param(self, dtype: Scalar, shape: Sequence[int], static: Sequence[int] = ()) -> Param:
        known = tuple(n if axis in static or self.pick.chance(30) else None for axis, n in enumerate(shape))
        self.params.append(Param(f"p{len(self.params)}", dtype, known))
        self.shapes.append(tuple(shape))
        return self.params[-1]

    def make_input(self) -> Param:
        """Of rank 1 also one for a launch's threads in a row."""
        if self.pick.chance(15):
            return self.make_param(self.dtype, (math.prod(self.grid) + MARGIN,))
        shape = [FACTOR * max(self.grid) + FACTOR * LOOPS + MARGIN for _ in range(self.pick.of((1, 1, 2, 2, 3)))]
        if len(shape) == 3:
            shape[0] = LOOPS + 1  # else it is large
        components = self.pick.of((0, 0, 2, 3, 4))
        if components and len(shape) < 3:
            return self.make_param(self.dtype, (*shape, components), (len(shape),))
        return self.make_param(self.dtype, shape)

    def make_output(self) -> Param:
        axes = self.pick.of((self.grid, self.grid, self.grid[::-1]))
        components = self.pick.of((0, 0, 2, 3, 4))
        return self.make_param(self.dtype, (*axes, components) if components else axes, (len(axes),))

    def make_sum(self) -> Param:
        return self.make_param(self.pick.of((int32, int64)), (max(self.grid),))

    # Values

    def call(self, name: str, *args: Value) -> Value:
        return self.build.call(ROWS[name], *args)

    def int(self, value: int) -> Value:
        return self.build.const(value, int32)

    def value(self) -> Value:
        known = [v for pool in self.pools for v in pool]
        if self.pick.chance(10):
            return self.build.const(self.pick.of((0, 1, 2, 3)), self.dtype)
        return self.pick.of(known[::-1][:6])

    def computed(self) -> Value:
        a, b = self.value(), self.value()
        match self.pick.integer(0, 7):
            case 0 | 1:
                return self.call("add", a, b)
            case 2:
                return self.call("sub", a, b)
            case 3 | 4:
                return self.call("add", self.call("mul", a, b), self.value())
            case 5:
                return self.call(self.pick.of(("min", "max")), a, b)
            case 6:
                return self.call("select", self.condition(), a, b)
            case _:
                return self.call("mul", a, b)

    def condition(self) -> Value:
        """Borders, every second thread, or what the numbers are."""
        tid = self.pick.of(self.tids)
        match self.pick.integer(0, 3):
            case 0:
                return self.call("lt", tid, self.int(self.pick.integer(1, max(self.grid))))
            case 1:
                return self.call("gt", tid, self.int(self.pick.integer(0, 3)))
            case 2:
                return self.call("eq", self.call("mod", tid, self.int(2)), self.int(0))
            case _:
                return self.call("lt", self.value(), self.value())

    def index(self, extent: int) -> Value:
        if extent <= LOOPS + 1:  # components, and the first axis of three
            loops = [k for k in self.loops if self.pick.chance(70)]
            if loops and extent == LOOPS + 1:
                return loops[-1]
            if loops and self.pick.chance(50):
                return self.call("mod", loops[-1], self.int(extent))
            return self.int(self.pick.integer(0, extent - 1))
        total, shift = self.start(), self.pick.integer(0, 3)
        for k in self.loops[::-1][: self.pick.of((0, 1, 1, 2))]:
            total = self.call("add", total, self.call("mul", k, self.int(self.pick.of((1, 1, 1, 2)))))
            shift += LOOPS if self.pick.chance(20) else 0
        if self.pick.chance(15):
            # The index mirrored: from the end of the array.
            last = self.int(extent - 1)
            return self.call("sub", last, total)
        return self.call("add", total, self.int(min(shift, MARGIN - FACTOR * LOOPS))) if shift else total

    def start(self) -> Value:
        tid = self.pick.of(self.tids)
        match self.pick.integer(0, 9):
            case 0:
                return self.call("mul", tid, self.int(FACTOR))
            case 1:
                return self.call("div", tid, self.int(self.pick.of((2, 3, 4, 8))))
            case 2:
                return self.call("mod", tid, self.int(self.pick.of((2, 3, 4, 8))))
            case 3:
                return self.int(self.pick.integer(0, 3))
            case 4 | 5:
                return self.tids[-1]
            case _:
                return tid

    def load(self) -> None:
        param = self.pick.of(self.inputs)
        shape = self.shapes[self.params.index(param)]
        if len(shape) == 1 and shape[0] == math.prod(self.grid) + MARGIN:
            flat = self.tids[0]
            for tid, extent in zip(self.tids[1:], self.grid[1:], strict=True):
                flat = self.call("add", self.call("mul", flat, self.int(extent)), tid)
            shift = self.int(self.pick.integer(0, MARGIN))
            self.pools[-1].append(self.build.load(param, [self.call("add", flat, shift)]))
            return
        self.pools[-1].append(self.build.load(param, [self.index(n) for n in shape]))

    # Statements

    def statement(self, depth: int) -> None:
        self.budget -= 1
        choice = self.pick.integer(0, 99)
        if choice < 35:
            for _ in range(self.pick.integer(1, 3)):
                self.load()
        elif choice < 55:
            self.pools[-1].append(self.computed())
        elif choice < 62:
            self.store(self.pick.of(self.outputs))
        elif choice < 68 and self.sums:
            self.add_up()
        elif choice < 78 and depth < 2:
            self.branch(depth)
        elif depth < 2:
            self.loop(depth)

    def own(self, param: Param) -> list[Value]:
        extents = self.shapes[self.params.index(param)][: len(self.grid)]
        return self.tids if extents == self.grid else self.tids[::-1]

    def store(self, param: Param) -> None:
        """All components, in an order of their own; perhaps read again."""
        own, rest = self.own(param), self.shapes[self.params.index(param)][len(self.grid) :]
        places = [[*own, self.int(c)] for c in range(rest[0])] if rest else [own]
        for place in places[::-1] if self.pick.chance(20) else places:
            self.build.store(param, place, self.value() if self.pick.chance(60) else self.computed())
        if self.pick.chance(30):
            self.pools[-1].append(self.build.load(param, self.pick.of(places)))

    def add_up(self) -> None:
        (param,) = self.sums
        place = self.pick.of((self.int(0), self.pick.of(self.tids)))
        number = self.call("add", self.pick.of(self.tids), self.int(self.pick.integer(0, 3)))
        number = number if param.dtype is int32 else self.build.call(ROWS["cast"], number, dtype=int64)
        self.build.atomic("add", param, [place], number)

    def region(self, depth: int, values: Sequence[Value], count: int) -> list[Value]:
        self.pools.append(list(values))
        for _ in range(self.pick.integer(1, 3)):
            self.statement(depth + 1)
        results = [self.computed() for _ in range(count)]
        self.pools.pop()
        return results

    def branch(self, depth: int) -> None:
        count = self.pick.integer(0, 2)

        def side() -> list[Value]:
            return self.region(depth, (), count)

        self.pools[-1] += self.build.if_(self.condition(), side, side)

    def loop(self, depth: int) -> None:
        """Over 0 to at most LOOPS; the end is a constant, or a number that the launch brings."""
        end = self.int(self.pick.integer(1, LOOPS + 1))
        three = [p for p in self.inputs if self.shapes[self.params.index(p)][0] == LOOPS + 1]
        if three and self.pick.chance(50):
            end = self.build.size(self.pick.of(three), 0)
        backwards = self.pick.chance(15)
        last = self.call("sub", end, self.int(1))
        bounds = (
            (last, self.int(-1), self.int(-1))
            if backwards
            else (self.int(0), end, self.int(self.pick.of((1, 1, 1, 2))))
        )

        def body(k: Value, *carried: Value) -> list[Value]:
            self.loops.append(k)
            self.pools.append([])
            self.load()
            results = self.region(depth, carried, len(carried))
            self.pools.pop()
            self.loops.pop()
            return results

        inits = [self.value() for _ in range(self.pick.integer(1, 3))]
        self.pools[-1] += self.build.for_(*bounds, inits, body)
