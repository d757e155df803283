"""Divergent loops, which lanes leave one by one: the mask of those that still run, and what lanes left with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxwarp.codegen.cpu.analysis.uniformity import Strides
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.loops import LoopHeader
from jaxwarp.codegen.cpu.llvm.vectors import FRAME_ALIGN
from jaxwarp.ir.nodes import Block, Call, Const, For, Value, While
from jaxwarp.types import Scalar, bool_

_BOTH = ("logical_and", "bit_and")
# After 2 to this power iterations, counts of 32 bits are added to those of 64. A lane that took part in all of them has
# counted as many, so that 2**32 would be 0.
COUNTED_BITS = 31


class RunningLanes:
    """The mask of a divergent loop.

    Machines without mask registers compare into integers as wide as what they compare, and choose by them. LLVM has
    masks of bits: what it carries from block to block it packs into bytes and unpacks again, half the instructions of a
    small loop. So there the mask is carried as integers, and `llvm.arithmetic.fence`, which is no instruction, keeps
    LLVM from seeing that they are bits.

    Args:
        lanes: whose mask holds on entry.
        bits: width of the values that the loop computes, mostly.
    """

    def __init__(self, lanes: Lanes, bits: int):
        self.lanes = lanes
        self.inst = lanes.function.inst
        self.is_wide = not lanes.frame.machine.has_mask_registers
        self.bits = bits
        self.type = lanes.many.wide(f"i{bits}") if self.is_wide else lanes.many.mask_type
        self.first = lanes.mask_operand()
        if self.is_wide:
            self.first = self.widen(self.first) if lanes.mask is not None else f"splat (i{bits} -1)"
        self.carried = self.next = ""

    def enter(self, loop: LoopHeader) -> str:
        """At the head of the loop: the mask of the lanes that test whether they go on."""
        self.carried = loop.phi(self.type, self.first)
        return self.carried

    def on(self) -> str:
        """The carried mask, after the last phi."""
        return self.narrow(self.carried)

    def test(self, conditions: Sequence[str]) -> str:
        """Lanes stay on where all conditions hold. Returns whether any lane does."""
        self.keep(conditions)
        return self.lanes.many.any_sign(self.next, self.bits) if self.is_wide else self.lanes.any(self.next)

    def keep(self, conditions: Sequence[str]) -> None:
        """Lanes stay on where all conditions hold."""
        mask = self.carried
        for condition in conditions:
            if self.is_wide:
                # Frozen, because an `and` lets garbage of a lane that is off through.
                safe = self.inst(f"freeze {self.lanes.many.mask_type} {condition}")
                mask = self.inst(f"and {self.type} {mask}, {self.widen(safe)}")
            else:
                mask = self.lanes.both(mask, condition)
        self.next = self.hide(mask) if self.is_wide else mask

    def hide(self, mask: str) -> str:
        """A mask of integers, whose making LLVM will not see."""
        real, suffix = ("double", "f64") if self.bits == 64 else ("float", "f32")
        name = f"llvm.arithmetic.fence.v{self.lanes.width}{suffix}"
        vector = self.lanes.many.wide(real)
        self.lanes.function.declare(f"declare {vector} @{name}({vector})")
        hidden = self.inst(f"call {vector} @{name}({vector} {self.inst(f'bitcast {self.type} {mask} to {vector}')})")
        return self.inst(f"bitcast {vector} {hidden} to {self.type}")

    def live(self) -> str:
        """Return the mask of the lanes that run the loop's body. Call it in the body."""
        return self.narrow(self.next)

    def can_count(self, dtype: Scalar) -> bool:
        """Return whether counting iterations in the mask's integers is cheaper than a select on values of `dtype`."""
        return self.is_wide and dtype.is_int

    def count(self, iterations: str) -> str:
        """Return the number of iterations that each lane has begun. Call it in the loop's body.

        A lane that is on has the mask -1.
        """
        return self.inst(f"sub {self.type} {iterations}, {self.next}")

    def after(self, iterations: tuple[str, int], dtype: Scalar, start: str, step: str, is_down: bool) -> str:
        """start + iterations * step, or start - iterations * step, of vectors of `dtype`, which wraps as the sums did.

        `iterations` and their bits, at least as many as those of `dtype`.
        """
        many, (count, bits) = self.lanes.many, iterations
        vector = many.type(dtype)
        if dtype.bits < bits:
            count = self.inst(f"trunc {many.wide(f'i{bits}')} {count} to {vector}")
        way = self.inst(f"mul {vector} {count}, {step}")
        return self.inst(f"{'sub' if is_down else 'add'} {vector} {start}, {way}")

    def widen(self, mask: str) -> str:
        return self.inst(f"sext {self.lanes.many.mask_type} {mask} to {self.type}")

    def narrow(self, mask: str) -> str:
        return self.inst(f"icmp slt {self.type} {mask}, zeroinitializer") if self.is_wide else mask


class LongCounts:
    """Counts of iterations in 64 bits, for masks of 32: those of 32 are added to them before they wrap, which is
    seldom.

    They are in the function's frame, by volatile accesses: LLVM would carry them along.

    Args:
        runnings: masks of the parts of a loop.
    """

    def __init__(self, runnings: Sequence[RunningLanes]):
        self.runnings = runnings
        self.function = runnings[0].lanes.function
        self.cells = [self.function.alloca(self.type(r)) for r in runnings]
        for running, cell in zip(runnings, self.cells, strict=True):
            self.function.line(f"store volatile {self.type(running)} zeroinitializer, ptr {cell}, align {FRAME_ALIGN}")

    def type(self, running: RunningLanes) -> str:
        return running.lanes.many.wide("i64")

    def enter(self, loop: LoopHeader) -> None:
        """At the head of the loop."""
        self.begun = loop.phi("i32", "0")

    def iteration(self, iterations: Sequence[str]) -> tuple[str, list[str]]:
        """At the end of an iteration, of which `iterations` are the counts of 32 bits: what goes to the next
        iteration."""
        function, inst = self.function, self.function.inst
        begun = inst(f"add i32 {self.begun}, 1")
        low = inst(f"and i32 {begun}, {(1 << COUNTED_BITS) - 1}")
        before, full, after = function.label, function.new_label("full"), function.new_label("counted")
        function.line(f"br i1 {inst(f'icmp eq i32 {low}, 0')}, label %{full}, label %{after}, !prof !3")
        function.open(full)
        for running, cell, count in zip(self.runnings, self.cells, iterations, strict=True):
            total = self.total(running, cell, count)
            function.line(f"store volatile {self.type(running)} {total}, ptr {cell}, align {FRAME_ALIGN}")
        function.line(f"br label %{after}")
        function.open(after)
        arms = f"[ zeroinitializer, %{full} ]"
        return begun, [
            inst(f"phi {running.type} [ {count}, %{before} ], {arms}")
            for running, count in zip(self.runnings, iterations, strict=True)
        ]

    def totals(self, iterations: Sequence[str]) -> list[str]:
        """After the loop, which left these counts of 32 bits."""
        return [
            self.total(r, cell, count) for r, cell, count in zip(self.runnings, self.cells, iterations, strict=True)
        ]

    def total(self, running: RunningLanes, cell: str, count: str) -> str:
        inst, wide = self.function.inst, self.type(running)
        more = inst(f"zext {running.type} {count} to {wide}")
        return inst(f"add {wide} {inst(f'load volatile {wide}, ptr {cell}, align {FRAME_ALIGN}')}, {more}")


def constant_step(loop: While, at: int) -> tuple[Value, bool] | None:
    """Return the value that every iteration adds to a carried value, or subtracts from it (True).

    The result is None if that is not the same value in all iterations.
    """
    before = (loop.body.params[at], loop.condition.params[at])
    makers = {value: op for block in loop.blocks for op in block.ops for value in op.defined}
    op = makers.get(loop.body.results[at])
    if not isinstance(op, Call) or op.builtin.name not in ("add", "sub"):
        return None
    left, right = op.args
    if op.builtin.name == "add" and right in before:
        left, right = right, left
    changes = {*makers, *loop.body.params, *loop.condition.params}
    if left not in before or (right in changes and not isinstance(makers.get(right), Const)):
        return None
    return right, op.builtin.name == "sub"


def conjuncts(condition: Block, strides: Strides) -> tuple[list[Value], list[Value]]:
    """The parts of a loop's condition that must all hold: those that running lanes test alike, and the others."""
    makers = {op.result: op for op in condition.ops if isinstance(op, Call)}
    waiting, alike, varying = list(condition.results), list[Value](), list[Value]()
    while waiting:
        value = waiting.pop()
        maker = makers.get(value)
        if strides.is_uniform(value):
            alike.append(value)
        elif maker is not None and maker.builtin.name in _BOTH and value.type is bool_:
            waiting.extend(maker.args)
        else:
            varying.append(value)
    return alike, varying


def kept_values(
    lanes: Lanes, results: Sequence[Value], params: Sequence[Value], inits: Sequence[Value]
) -> dict[int, str]:
    """Return the carried values that are scalars in a divergent loop, but whose results are read.

    Active lanes agree on such a value, but lanes that left the loop do not. So vectors beside the scalars keep the
    value with which each lane left. The result has the initial vectors, by position.
    """
    return {
        i: lanes.vector(init)
        for i, (result, param, init) in enumerate(zip(results, params, inits, strict=True))
        if result in lanes.strides.used and lanes.strides.is_scalar(param)
    }


def leave(
    lanes: Lanes, op: For | While, params: Sequence[Value], carried: Sequence[str], kept: Mapping[int, str], live: str
) -> tuple[list[str], list[str]]:
    """The next carried values of a divergent loop, and the next kept ones."""
    many = lanes.many
    nexts = lanes.held_as(op.body.results, params)
    for i, (param, result) in enumerate(zip(params, op.results, strict=True)):
        if not lanes.strides.is_scalar(param) and result in lanes.strides.used:
            nexts[i] = many.select(live, many.type(param.type), nexts[i], carried[i])
    next_kept = [
        many.select(live, many.type(params[i].type), lanes.vector(op.body.results[i]), old) for i, old in kept.items()
    ]
    return nexts, next_kept


def bind_results(lanes: Lanes, results: Sequence[Value], carried: Sequence[str], kept: Mapping[int, str]) -> None:
    for i, result in enumerate(results):
        if result in lanes.strides.used:
            lanes.bind(result, kept.get(i, carried[i]))
