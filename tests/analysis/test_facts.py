"""Facts about integers, against the values that the interpreter sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import affine_strategy
import kernels_strategy
import numpy as np
import pytest
from cpukit import Make
from kernels_strategy import Case, RandomPick

from jaxwarp.analysis.integers.facts import Facts
from jaxwarp.analysis.integers.ranges import range_of
from jaxwarp.analysis.integers.trips import Trips
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, For, Op, Value, While
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import int8, int32, uint8


class Watching(interpret._Machine):
    """An interpreter that compares all that it computes with what is known of it."""

    def __init__(self, kernel: Kernel, grid: Sequence[int], buffers: Sequence[np.ndarray], *known: Any):
        super().__init__(kernel, tuple(grid), buffers, 10**6)
        self.facts, self.trips = Facts(kernel, *known), Trips(kernel, *known)
        self.runs: Counter[Block] = Counter()
        self.seen = 0

    def see(self, value: Value, numbers: np.ndarray, op: Op | None = None) -> None:
        if value.type.is_int and len(numbers):
            least, most = self.facts[value] if op is None else self.facts.at(value, op)
            inside = least <= numbers.min() and numbers.max() <= most
            assert inside, f"{value} is not in {least} ... {most}"
            self.seen += 1

    def op(self, op: Op, frame: Any) -> None:
        for value in op.operands:
            self.see(value, frame[value], op)
        super().op(op, frame)
        for value in op.defined:
            self.see(value, frame[value], op)
            self.see(value, frame[value])

    def block(self, block: Block, frame: Any) -> list[np.ndarray]:
        self.runs[block] += 1
        for value in block.params:
            self.see(value, frame[value])
        return super().block(block, frame)

    def for_(self, op: For, frame: Any) -> None:
        self.looped(op, super().for_, frame)

    def while_(self, op: While, frame: Any) -> None:
        self.looped(op, super().while_, frame)

    def looped(self, op: Any, run: Any, frame: Any) -> None:
        outer, self.runs[op.body] = self.runs[op.body], 0
        run(op, frame)
        assert self.runs[op.body] <= self.trips.most.get(op, np.inf)
        self.runs[op.body] = outer


def watch(case: Case) -> int:
    """Interpret a case, with extents known and not, as written and prepared; return how many values were compared."""
    seen = 0
    for kernel in (case.kernel, prepare(case.kernel)):
        shapes = dict(zip(kernel.params, case.shapes, strict=True))
        for known in ((), (case.grid, shapes)):
            machine = Watching(kernel, case.grid, case.buffers(), *known)
            with np.errstate(all="ignore"):
                machine.run(False)
            seen += machine.seen
    return seen


@pytest.mark.parametrize("seed", range(24))
def test_values_are_in_their_ranges(seed: int):
    integers = {"types": kernels_strategy.INTEGERS} if seed % 2 else {}
    case = kernels_strategy.random_case(seed, **integers)
    assert watch(case) > 20 or 0 in case.grid
    if seed < 8:
        watch(affine_strategy.Maker(RandomPick(seed)).case())


def steering(seed: int) -> Case:
    """A kernel in which conditions and loops bound what small integers are, next to the limits of their types."""
    pick, make = RandomPick(seed), Make()
    dtype = pick.of((int8, uint8, int8, int32))
    x = make.array(None, dtype=dtype)
    info, pool = np.iinfo(dtype.numpy), [make.load(x, [make.tid(0)])]
    numbers = [0, 1, 2, 3, 7, int(info.max), int(info.max) - 1, int(info.min), int(info.min) + 1]

    def value() -> Value:
        return pool[-1 - pick.integer(0, min(len(pool) - 1, 4))] if pick.chance(60) else make.i(pick.of(numbers), dtype)

    def test() -> Value:
        found = make.op(pick.of(("lt", "le", "gt", "ge", "eq", "ne")), value(), value())
        if pick.chance(30):
            found = make.op(pick.of(("logical_and", "logical_or")), found, test())
        return make.op("logical_not", found) if pick.chance(20) else found

    def statements(depth: int) -> Value:
        for _ in range(pick.integer(1, 4)):
            short = () if dtype is int32 else ("for",)
            kind = pick.of(("op", "op", "op", "if", "select", "while", *short) if depth else ("op",))
            if kind == "op":
                pool.append(make.op(pick.of(OPERATIONS), value(), value()))
            elif kind == "select":
                pool.append(make.op("select", test(), value(), value()))
            elif kind == "if":
                pool.append(make.if_(test(), lambda: inside(depth), lambda: inside(depth))[0])
            elif kind == "for":
                step = make.i(pick.of((19, 50, 100)), dtype)
                pool.append(make.for_(value(), value(), step, [value()], lambda i, k: inside(depth, i, k))[0])
            else:
                loop(depth)
        return value()

    def inside(depth: int, *carried: Value) -> list[Value]:
        before = len(pool)
        pool.extend(carried)
        result = statements(depth - 1)
        del pool[before:]
        return [result]

    def loop(depth: int) -> None:
        name, by = pick.of((("add", 1), ("add", 3), ("sub", 1), ("sub", 2)))
        bound, relation = value(), pick.of(("lt", "le", "ne") if name == "add" else ("gt", "ge", "ne"))

        def condition(count: Value, k: Value, left: Value) -> Value:
            more = make.op(relation, count, bound)
            return make.op("logical_and", more, make.op("lt", left, make.i(12)))

        def body(count: Value, k: Value, left: Value) -> list[Value]:
            inner = inside(depth, count, k)
            return [make.op(name, count, make.i(by, dtype)), *inner, make.op("add", left, make.i(1))]

        pool.extend(make.while_([value(), value(), make.i(0)], condition, body)[:2])

    make.store(x, [make.tid(0)], statements(2))
    return Case(make.kernel(), (64,), ((64,),), seed)


OPERATIONS = ("add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "bit_and", "bit_or", "shr")


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_conditions_and_loops_bound_integers_that_may_wrap(first: int):
    assert sum(watch(steering(seed)) for seed in range(first, first + 20)) > 1000


UNARY = ("neg", "abs", "popcount", "clz", "ctz")


@pytest.mark.parametrize("name", [*OPERATIONS, "bit_xor", "from_end", *UNARY])
def test_operations_on_ranges(name: str):
    """Of small numbers, for which nothing wraps, against the table's own meaning."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        (a, b), (c, d) = (sorted(map(int, rng.integers(-9, 10, 2))) for _ in range(2))
        c, d = (abs(c), abs(c) + abs(d)) if name == "from_end" else (c, d)
        grid = np.meshgrid(np.arange(a, b + 1, dtype=np.int32), np.arange(c, d + 1, dtype=np.int32))
        found = range_of(name, [(a, b)] if name in UNARY else [(a, b), (c, d)])
        results = ROWS[name].ref(*(x.ravel() for x in grid[: 1 if name in UNARY else 2]))
        assert found is None or (found[0] <= results.min() and results.max() <= found[1]), (a, b, c, d, found)


def test_what_bounds_an_integer():
    """Facts are found at all: by conditions, and of what loops carry."""
    make = Make()
    x, y = make.array(None), make.array(None, dtype=int32)
    i, n, one = make.tid(0), make.size(x, 0), make.i(1)
    near = [make.op("sub", i, one), make.op("add", i, one)]

    def then() -> list[Value]:
        make.store(y, [i], make.op("add", *near))
        return []

    inner = make.op("logical_and", make.op("lt", make.i(0), i), make.op("lt", i, make.op("sub", n, one)))
    make.if_(inner, then)
    count, more = make.while_(
        [make.i(0), make.i(5)],
        lambda k, m: make.op("lt", k, make.i(10)),
        lambda k, m: [make.op("add", k, make.i(3)), make.op("min", m, k)],
    )
    make.store(y, [make.i(0)], make.op("add", count, more))
    kernel = make.kernel()
    facts = Facts(kernel, (8,), {x: (8,)})
    (store,) = [op for op in kernel.body.all_ops if getattr(op, "indices", None) == (i,)]
    assert [facts.at(v, store) for v in (i, *near)] == [(1, 6), (0, 5), (2, 7)]
    assert (facts[i], facts[count], facts[more][1]) == ((0, 7), (0, 12), 5)
    (loop,) = [op for op in kernel.body.all_ops if isinstance(op, While)]
    assert Trips(kernel).most[loop] == 4


@pytest.mark.parametrize("name", ["add", "sub"])
def test_a_comparison_with_a_sum_that_wraps_says_nothing_of_its_operands(name: str):
    make = Make()
    x, y = make.array(None, dtype=int8), make.array(None, dtype=int8)
    i = make.tid(0)
    value = make.load(x, [i])
    moved = make.op(name, value, make.i(100 if name == "add" else -100, int8))

    def then() -> list[Value]:
        make.store(y, [i], make.op("abs", value))
        return []

    make.if_(make.op("lt", moved, make.i(0, int8)), then)
    machine = Watching(make.kernel(), (256,), [np.arange(-128, 128, dtype=np.int8), np.zeros(256, np.int8)])
    machine.run(False)
    assert machine.seen > 10


def test_a_question_looks_only_at_what_it_is_made_of():
    """Of a thousand values that are chosen one from the other, a question about another value looks at none."""
    make = Make()
    y = make.array(None, dtype=int32)
    i = make.tid(0)
    asked = make.op("add", i, make.i(1))
    value = i
    for k in range(1000):
        value = make.op("select", make.op("lt", value, make.i(k)), make.op("add", value, make.i(k)), i)
    make.store(y, [asked], value)
    facts = Facts(make.kernel(), (8,))
    assert facts[asked] == (1, 8)
    assert len(facts._settled) < 5
