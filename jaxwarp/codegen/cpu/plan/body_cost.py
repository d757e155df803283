"""The cost of a body of code for a thread. It determines the body's lanes (width.py) and rows (coarsening.py).

A body does `registers` of lanes of `rows` rows at once. For each innermost loop, or the whole body if there is none,

    cycles of a thread = (max(work, latency) + begin + spilled) / (registers * rows) + rest * registers

Work keeps a core's units busy. Values that differ between lanes count once for each register, values that differ
between rows once for each row, and shared values once. Latency is the time that values take from one iteration to the
next; iterations wait for it unless registers or rows fill the time. Where lanes have different numbers of iterations,
all wait for the last. Half a register takes as long as a whole one except for its gathers. The rest is priced in
prices.py.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jaxwarp.codegen.cpu.analysis.families import families, pieces
from jaxwarp.codegen.cpu.analysis.pressure import busy_blocks, pressure
from jaxwarp.codegen.cpu.analysis.speculation import numbered
from jaxwarp.codegen.cpu.analysis.uniformity import Strides
from jaxwarp.codegen.cpu.plan import prices
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, For, If, Load, Op, Param, Store, Value, While, walk
from jaxwarp.ir.rows import adds_once, is_apart

_ITERATIONS = 8  # looked at to find how long one takes


@dataclass(frozen=True)
class _Part:
    """A block that counts: an innermost loop, or the whole kernel.

    Attributes:
        ops: what is done in an iteration; what is computed twice is there once.
        held: values that are alive at one time.
        latency: cycles from an iteration to the next.
        begin: cycles for each iteration, or for each chunk.
        rest: cycles that each register more costs.
        divergence: by which part each register more makes an iteration longer.
    """

    ops: Sequence[Op]
    held: int
    latency: float
    begin: float
    rest: float
    divergence: float


class BodyCost:
    """The costs of bodies of a kernel.

    Args:
        kernel: the kernel.
        strides: of its values.
        machine: what code is shaped for.
        differing: its values that differ between rows of threads, where bodies do several.
    """

    def __init__(self, kernel: Kernel, strides: Strides, machine: Machine, differing: frozenset[Value] = frozenset()):
        self.kernel = kernel
        self.strides = strides
        self.differing = differing
        apart = (block for op in walk(kernel.body) if is_apart(op, differing) for block in op.blocks)
        self.apart = frozenset(op for block in apart for op in walk(block))
        self.from_data = _from_data(kernel)
        self.room = machine.vector_registers
        self.has_masked_gathers = machine.has_mask_registers
        self.gathered = _gathered(kernel, strides) if self.has_masked_gathers else set()
        blocks = busy_blocks(kernel)
        self.has_loops = blocks != [kernel.body]
        # Of a register: most of the values decide.
        self.lanes = machine.vector_bits // strides.mask_bits([v for block in blocks for v in _results(block)])
        self.parts = [self._loop(block) if self.has_loops else self._whole() for block in blocks]

    def of(self, registers: float, rows: int = 1) -> float:
        """Cycles of a thread where a body does so many registers of lanes of so many rows. Several rows are to fit."""

        def cycles(part: _Part) -> float:
            work = sum(self._price(op, registers, rows) for op in part.ops)
            is_waiting = part.latency >= prices.GATHER_LATENCY  # for one gather before the next
            if part.divergence and not self.has_masked_gathers and not is_waiting:
                gathered = sum(self._price(op, registers, rows) for op in part.ops if self._is_gather(op))
                work += prices.IDLE * math.log2(registers * self.lanes) * gathered
            spilled = prices.SPILL * max(0, part.held * registers - self.room) if rows == 1 else 0
            waited = 1 + part.divergence * registers
            if registers < 1 and part.divergence and not is_waiting:
                waited *= prices.HALF
            longest = (max(work, part.latency) + part.begin + spilled) * waited
            return longest / (registers * rows) + part.rest * registers

        return sum(map(cycles, self.parts))

    def _whole(self) -> _Part:
        """All of a kernel without loops. What is the same for all lanes is computed before, for a row or a launch."""
        body, strides = self.kernel.body, self.strides
        ops = [op for op in walk(body) if isinstance(op, Atomic | Store) or not strides.is_uniform(*op.defined)]
        held = max(pressure(body, strides), sum(map(_components, self.kernel.params)))
        is_summed = any(isinstance(op, Atomic) and strides.is_uniform(*op.indices) for op in ops)
        latency = prices.LATENCIES["add"] if is_summed else 0  # of the sums of a row
        return _Part(ops, held, latency, prices.CHUNK, prices.REST + self._size(body), 0)

    def _loop(self, block: Block) -> _Part:
        """The one loop of a block. What it computes twice, to ask whether it goes on, is there once."""
        (loop,) = block.ops
        assert isinstance(loop, For | While)
        numbers = numbered(loop)
        once = {number: op for op, number in numbers.items()}
        ops = [op for op in walk(block) if not isinstance(op, Call) or once[numbers[op]] is op]
        divergence = 0 if self.strides.has_uniform_trips(loop) else prices.DIVERGENCE
        latency = _latency(loop, self.strides)
        return _Part(ops, pressure(block, self.strides), latency, prices.ITERATION, self._size(block), divergence)

    def _size(self, block: Block) -> float:
        return prices.SIZE * sum(not self.strides.is_scalar(v) for v in _results(block))

    def _price(self, op: Op, registers: float, rows: int) -> float:
        """Cycles of an operation for all registers and rows."""
        is_own = op in self.apart or isinstance(op, Store) or any(v in self.differing for v in op.defined)
        if isinstance(op, Atomic):
            return self._price_of_sum(op, registers, rows)
        return self._price_for_row(op, registers) * (rows if is_own else 1)

    def _price_for_row(self, op: Op, registers: float) -> float:
        strides = self.strides
        match op:
            case Load() | Store() if op.param in self.kernel.locals:
                return registers * prices.LOAD
            case Load() | Store():
                if strides.is_uniform(*op.indices):
                    return prices.BROADCAST
                if is_adjacent(op, strides):
                    return max(1, registers) * prices.LOAD
                words = 1 / 2 if op in self.gathered else 1
                return registers * self.lanes * prices.GATHERED_LANE * words
            case Call() if strides.of[op.result] is None:
                return max(1, registers) * prices.CYCLES.get(op.builtin.name, prices.OPERATION)
            case Call():
                return prices.BROADCAST if op.result.type.is_float else 0
            case If() | For() | While():  # what lanes choose, and the mask of those that go on
                masks = 0 if isinstance(op, If) or strides.has_uniform_trips(op) else 2
                return max(1, registers) * prices.OPERATION * (masks + sum(strides.of[v] is None for v in op.defined))
            case _:
                return 0

    def _is_gather(self, op: Op) -> bool:
        if not isinstance(op, Load) or op.param in self.kernel.locals:
            return False
        return not is_adjacent(op, self.strides) and not self.strides.is_uniform(*op.indices)

    def _price_of_sum(self, op: Atomic, registers: float, rows: int) -> float:
        """Cycles of an addition: of the vectors of rows to each other, and of what they make to memory."""
        is_once = op not in self.apart and adds_once(op, self.differing, self.strides.used)
        if self.strides.is_uniform(*op.indices):
            # In no loop, they are gathered in a register until a row ends.
            last = prices.SUMMED * (1 if is_once else max(1, rows / 2)) if self.has_loops else 0
        else:
            may_meet = not self.from_data.isdisjoint(op.indices)
            waiting = prices.WAITING * registers * self.lanes if may_meet else 0
            apart = self.lanes * prices.SCATTERED_LANE * (1 + waiting)
            last = registers * (prices.ADDED if is_adjacent(op, self.strides) else apart) * (1 if is_once else rows)
        return rows * registers * prices.OPERATION + last


def _from_data(kernel: Kernel) -> set[Value]:
    """The values that depend on what is in memory: lanes may have the same one, whatever their indices."""
    found: set[Value] = set()
    size = -1
    while size != len(found):  # a loop carries values to its start
        size = len(found)
        for op in walk(kernel.body):
            read = (*op.operands, *(v for block in op.blocks for v in block.results))
            if isinstance(op, Load | Atomic) or not found.isdisjoint(read):
                found.update(op.defined, *(block.params for block in op.blocks))
    return found


def _gathered(kernel: Kernel, strides: Strides) -> set[Op]:
    """The loads that are gathered together with a word that lies beside theirs."""
    found: set[Op] = set()
    for block in (kernel.body, *(block for op in walk(kernel.body) for block in op.blocks)):
        for family in set(families(block.ops, strides).values()):
            rows: dict[Sequence[int], dict[Load, int]] = defaultdict(dict)
            for op, (*row, column) in family.of.items():
                if op.result.type.bits == 32:
                    rows[tuple(row)][op] = column
            for row in rows.values():
                together = pieces(sorted(set(row.values())), 2)
                found.update(op for op, column in row.items() if column in together)
    return found


def is_adjacent(op: Load | Store | Atomic, strides: Strides) -> bool:
    """Do lanes access elements that lie side by side?"""
    *outer, last = (strides.of[i] for i in op.indices)
    return last in (1, -1) and all(stride == 0 for stride in outer)


def _results(block: Block) -> list[Value]:
    return [op.result for op in walk(block) if isinstance(op, Call | Load)]


def _components(param: Param) -> int:
    """Elements per entry of an array of vectors or matrices, which are held at once: the static extents at the end."""
    static = list(itertools.takewhile(lambda n: n is not None, reversed(param.shape)))
    return math.prod(n or 0 for n in static) if static and None in param.shape else 0


def _latency(loop: For | While, strides: Strides) -> float:
    """Cycles from iteration to iteration, where operations begin as soon as their operands are there."""
    carried = loop.body.params[1:] if isinstance(loop, For) else loop.body.params
    is_divergent = not strides.has_uniform_trips(loop)
    there = [0.0] * len(carried)
    mask, before = 0.0, 0.0
    for iteration in range(_ITERATIONS):
        if iteration == _ITERATIONS // 2:
            before = max(there, default=0.0)
        ready: dict[Value, float] = {}
        if isinstance(loop, While):
            ready = dict(zip(loop.condition.params, there, strict=True))
            _arrive(loop.condition, ready, strides)
            mask = max(mask, *(ready.get(v, 0.0) for v in loop.condition.results)) + 1
        ready |= dict(zip(carried, there, strict=True))
        _arrive(loop.body, ready, strides)
        coming = [ready.get(v, 0.0) for v in loop.body.results]  # what is from outside or a number is there
        chosen = [is_divergent and result in strides.used for result in loop.results]
        there = [
            0.0 if strides.is_scalar(param) else max(came, mask) + 1 if is_chosen else came
            for param, came, is_chosen in zip(carried, coming, chosen, strict=True)
        ]
    return (max(there, default=0.0) - before) / (_ITERATIONS - _ITERATIONS // 2)


def _arrive(block: Block, ready: dict[Value, float], strides: Strides) -> None:
    """Notes when the results of a block's operations are there."""
    for op in block.ops:
        if isinstance(op, Call):
            is_known = op.result.type.is_float or op.builtin.name == "mul"
            ready[op.result] = _last(op.args, ready) + (prices.LATENCIES.get(op.builtin.name, 1) if is_known else 1)
        elif isinstance(op, Load):
            is_gather = any(strides.of[i] is None for i in op.indices)
            ready[op.result] = _last(op.indices, ready) + (prices.GATHER_LATENCY if is_gather else prices.LOAD_LATENCY)
        elif isinstance(op, If):
            for inner in op.blocks:
                _arrive(inner, ready, strides)
            for result, *values in zip(op.results, *(b.results for b in op.blocks), strict=True):
                ready[result] = 1 + _last((op.condition, *values), ready)


def _last(values: Iterable[Value], ready: dict[Value, float]) -> float:
    return max((ready.get(v, 0.0) for v in values), default=0.0)
