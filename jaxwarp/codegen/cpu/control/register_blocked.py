"""Divergent loops, emitted register-blocked: the body for one register of lanes after that for another.

Vectors of several registers hide latency only if what they compute fits the machine's registers, and LLVM emits each
operation for all registers of a vector before the next operation: all have their intermediate results alive at once. In
parts these are alive one part after the other, while a processor that looks ahead runs the parts side by side.

The parts lie in one block, at the end of which is asked whether any lane goes on. There are two ways to it:

    early   test, test, ... any lane?    body, test; body, test; ... any lane?
    late                                 test, body; test, body; ... any lane?

Late, the last iteration is of no lane. That is for loops whose test computes what the body computes again (the squares
of an escape time): early they would be computed twice. In both a body runs for parts whose lanes are off: nobody may
notice, see `speculation.is_speculatable`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from jaxwarp.codegen.cpu.analysis.speculation import is_speculatable, shares_work
from jaxwarp.codegen.cpu.control.divergent import RunningLanes, conjuncts, constant_step, kept_values, leave
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.loops import LoopHeader
from jaxwarp.codegen.cpu.llvm.vectors import scalar_type
from jaxwarp.ir.nodes import Block, Op, Value, While, walk
from jaxwarp.types import bool_

_LEAST_PARTS = 4


def blocked_width(loop: While, lanes: Lanes) -> int:
    """Return the number of lanes in a part of a loop, as many as fill a register; 0 if it is not register-blocked.

    With only two registers of lanes, LLVM's order is as good. Machines with mask registers have twice as many
    registers; nothing was measured on them.
    """
    machine = lanes.frame.machine
    width = machine.vector_bits // lanes.strides.mask_bits(loop.condition.params)
    few = machine.has_mask_registers or lanes.width < _LEAST_PARTS * width
    return 0 if few or not is_speculatable(loop, lanes.strides) else width


@dataclass
class _Part:
    """Some of the lanes.

    Attributes:
        first: the number of the first.
        emit: writes an operation for them.
        values: what is carried from iteration to iteration.
        kept: addresses of what lanes left with of values that all running lanes share, by position.
        iterations: address of how many iterations its lanes began, if that is counted.
    """

    first: int
    lanes: Lanes
    emit: Callable[[Op], None]
    running: RunningLanes
    values: list[str] = field(default_factory=list[str])
    kept: dict[int, str] = field(default_factory=dict[int, str])
    iterations: str = ""


# A block that a loop is left from, and the parts' values there.
_Exit = tuple[str, list[list[str]]]


class RegisterBlockedLoop:
    """A register-blocked loop under construction, in parts of `width` lanes.

    Args:
        lanes: all of them.
        op: the loop.
        width: lanes of a part.
        within: makes what writes operations for some of the lanes.
        done: operations whose results are bound already.
    """

    def __init__(
        self,
        lanes: Lanes,
        op: While,
        width: int,
        within: Callable[[Lanes], Callable[[Op], None]],
        done: Collection[Op],
    ):
        self.lanes, self.op, self.width, self.done = lanes, op, width, done
        self.function = lanes.function
        self.strides = lanes.strides
        self.params = op.condition.params
        bits = self.strides.mask_bits(self.params)
        self.whole = RunningLanes(lanes, bits)
        self.parts: list[_Part] = []
        for first, mask in zip(range(0, lanes.width, width), self.pieces(f"i{bits}", self.whole.first), strict=True):
            inner = Lanes(lanes.frame, lanes.streaming, lanes.strides, None, width)
            running = RunningLanes(inner, bits)
            running.carried = running.next = mask
            self.parts.append(_Part(first, inner, within(inner), running))

    def emit(self) -> None:
        op = self.op
        keeps = kept_values(self.lanes, op.results, self.params, op.inits)
        can_count = self.whole.can_count
        steps = {i: step for i in keeps if can_count(self.params[i].type) and (step := constant_step(op, i))}
        steps = {i: step for i, step in steps.items() if self.params[i].type.bits <= self.whole.bits}
        starts = {i: keeps.pop(i) for i in steps}
        self.read()
        inits = [self.held(init, param) for init, param in zip(op.inits, self.params, strict=True)]
        kept = {i: self.pieces(scalar_type(self.params[i].type), vector) for i, vector in keeps.items()}
        for k, part in enumerate(self.parts):
            part.values = [values[k] for values in inits]
            part.kept = {i: self.cell(self.type(i), pieces[k]) for i, pieces in kept.items()}
            part.iterations = self.cell(part.running.type, "zeroinitializer") if steps else ""
        exits = self.late() if shares_work(op, self.strides) else self.early()
        self.bind_results(exits)
        self.bind_counted(steps, starts)

    def read(self) -> None:
        """Gives the parts what the loop reads from outside."""
        blocks = [inner for block in self.op.blocks for inner in (block, *_below(block))]
        inside = {v for block in blocks for v in block.params}
        inside.update(v for block in blocks for op in block.ops if op not in self.done for v in op.defined)
        read = dict.fromkeys(v for block in blocks for op in block.ops for v in op.operands)
        for value in read | dict.fromkeys(v for block in blocks for v in block.results):
            if value not in inside:
                self.bind(value, self.held(value, value))

    def held(self, value: Value, target: Value) -> list[str]:
        """A value from outside by parts, in the form of `target`."""
        stride, dtype = self.strides.of[target], target.type
        if stride is None:
            return self.pieces(scalar_type(dtype), self.lanes.vector(value))
        base, one = self.lanes.scalar(value), self.lanes.one
        away = [stride * part.first % (1 << dtype.bits) for part in self.parts]
        return [one.inst(f"add {one.type(dtype)} {base}, {far}") if far else base for far in away]

    def pieces(self, llvm_type: str, vector: str) -> list[str]:
        """A vector of all lanes by parts."""
        firsts = range(0, self.lanes.width, self.width)
        if not vector.startswith("%"):
            return [vector for _ in firsts]  # a literal, the same in all lanes
        return [self.lanes.many.piece(llvm_type, vector, first, self.width) for first in firsts]

    def bind(self, value: Value, operands: Sequence[str]) -> None:
        for part, operand in zip(self.parts, operands, strict=True):
            part.lanes.bind(value, operand)

    # The loop

    def late(self) -> list[_Exit]:
        header, after = (self.function.new_label(h) for h in ("while", "done"))
        close = self.begin(header)
        exits = self.leave_alike(after)
        self.shared(self.op.body)
        for part in self.parts:
            self.test(part)
            self.iterate(part)
        close(self.any(), after)
        return [*exits, self.exit(after)]

    def early(self) -> list[_Exit]:
        function, op = self.function, self.op
        enter, header, after = (function.new_label(h) for h in ("enter", "while", "done"))
        with ExitStack() as regions:
            for part in self.parts:
                regions.enter_context(part.lanes.region(None))
                part.lanes.bind_all(self.params, part.values)
            self.shared(op.condition)
            for part in self.parts:
                self.test(part)
            function.line(f"br i1 {self.any()}, label %{enter}, label %{after}")
        exits = [self.exit(enter)]
        close = self.begin(header)
        exits += self.leave_alike(after)
        self.shared(op.body)
        with ExitStack() as regions:
            for part in self.parts:
                regions.enter_context(part.lanes.region(None))
            for param, result in zip(self.params, op.body.results, strict=True):
                if self.strides.is_uniform(param):
                    self.bind(param, [part.lanes.scalar(result) for part in self.parts])
            self.shared(op.condition)
            for part in self.parts:
                self.iterate(part)
                part.lanes.bind_all(self.params, part.values)
                self.test(part)
        close(self.any(), after)
        return [*exits, self.exit(after)]

    def leave_alike(self, after: str) -> list[_Exit]:
        """At the head of the loop: the tests that all lanes decide alike, of numbers."""
        function, op = self.function, self.op
        for part in self.parts:
            part.lanes.bind_all(self.params, part.values)
            part.lanes.bind_all(op.body.params, part.values)
        self.shared(op.condition)
        alike, _ = conjuncts(op.condition, self.strides)
        if not alike:
            return []
        body, goes_on = function.new_label("body"), ""
        for value in alike:
            scalar = self.parts[0].lanes.scalar(value)
            goes_on = function.inst(f"and i1 {goes_on}, {scalar}") if goes_on else scalar
        function.line(f"br i1 {goes_on}, label %{body}, label %{after}")
        return [self.exit(body)]

    def begin(self, header: str) -> Callable[[str, str], None]:
        """Opens the loop's block. Returns what ends it, given whether to go on and the label of the block after it.

        Bools of each lane go from iteration to iteration as integers, as masks do: LLVM packs them.
        """
        inits = [
            [p.running.widen(x) if self.is_mask(v) else x for x, v in zip(p.values, self.params, strict=True)]
            for p in self.parts
        ]
        loop, shared = LoopHeader(self.function, header), dict[int, str]()
        for part, values in zip(self.parts, inits, strict=True):
            running, part.values = part.running, []
            running.carried = running.next = loop.phi(running.type, running.next)
            for i, (param, init) in enumerate(zip(self.params, values, strict=True)):
                type_ = running.type if self.is_mask(param) else part.lanes.held_type(param)
                part.values.append(shared.get(i) or loop.phi(type_, init))
                if self.strides.is_uniform(param):
                    shared[i] = part.values[i]
        for part in self.parts:
            part.values = [
                part.running.narrow(x) if self.is_mask(p) else x for x, p in zip(part.values, self.params, strict=True)
            ]

        def close(goes_on: str, after: str) -> None:
            loop.close(self.nexts(), branch=f"{goes_on}, label %{after}")

        return close

    def nexts(self) -> list[str]:
        """Return the values that go to the next iteration, in the order of the phis."""
        nexts: list[str] = []
        for part in self.parts:
            running = part.running
            nexts.append(running.next)
            for value, param in zip(part.values, self.params, strict=True):
                if self.is_mask(param):
                    nexts.append(running.hide(running.widen(value)))
                elif part is self.parts[0] or not self.strides.is_uniform(param):
                    nexts.append(value)
        return nexts

    def is_mask(self, value: Value) -> bool:
        return value.type is bool_ and not self.strides.is_scalar(value)

    def shared(self, block: Block) -> None:
        """Emits the operations of a block that are the same in all parts."""
        first = self.parts[0]
        for op in block.ops:
            if self.is_shared(op) and op not in self.done:
                first.emit(op)
                for value in op.defined:
                    self.bind(value, [first.lanes.scalar(value)] * len(self.parts))

    def is_shared(self, op: Op) -> bool:
        return not op.blocks and self.strides.is_uniform(*op.defined)

    def own(self, part: _Part, block: Block) -> None:
        """Emits the others, for one part."""
        for op in block.ops:
            if not self.is_shared(op):
                part.emit(op)

    def test(self, part: _Part) -> None:
        self.own(part, self.op.condition)
        _, varying = conjuncts(self.op.condition, self.strides)
        part.running.keep([part.lanes.vector(v) for v in varying])
        part.running.carried = part.running.next

    def iterate(self, part: _Part) -> None:
        """The body of a part, for the lanes that passed the test.

        What it only leaves with is in memory: of registers there are few, and where LLVM spills what goes from turn to
        iteration, an iteration takes that longer.
        """
        live = part.running.live()
        self.own(part, self.op.body)
        kept = {i: self.fetch(self.type(i), address) for i, address in part.kept.items()}
        part.values, nexts = leave(part.lanes, self.op, self.params, part.values, kept, live)
        for i, value in zip(kept, nexts, strict=True):
            self.put(self.type(i), value, part.kept[i])
        if part.iterations:
            iterations = self.fetch(part.running.type, part.iterations)
            self.put(part.running.type, part.running.count(iterations), part.iterations)

    def any(self) -> str:
        """Return an i1: whether a lane of any part goes on."""
        first, *others = (part.running for part in self.parts)
        mask = first.next
        for running in others:
            mask = self.function.inst(f"or {first.type} {mask}, {running.next}")
        return first.lanes.many.any_sign(mask, first.bits)

    def exit(self, following: str) -> _Exit:
        """Return the label of the open block, which may leave the loop, and the parts' values. Open the next block."""
        label = self.function.label
        self.function.open(following)
        return label, [part.values for part in self.parts]

    # Memory that LLVM does not take for registers

    def cell(self, type_: str, init: str) -> str:
        address = self.function.name()
        self.function.allocas.append(f"  {address} = alloca {type_}, align 64")
        self.put(type_, init, address)
        return address

    def put(self, type_: str, value: str, address: str) -> None:
        self.function.line(f"store volatile {type_} {value}, ptr {address}, align 64")

    def fetch(self, type_: str, address: str) -> str:
        return self.function.inst(f"load volatile {type_}, ptr {address}, align 64")

    def type(self, at: int) -> str:
        """Return the type that a carried vector has in one part."""
        return self.parts[0].lanes.many.type(self.params[at].type)

    # After the loop

    def bind_results(self, exits: Sequence[_Exit]) -> None:
        """Joins what the parts left with, from whichever block."""
        kept, many = self.parts[0].kept, self.lanes.many
        results = [(i, r) for i, r in enumerate(self.op.results) if r in self.strides.used]
        found: dict[int, list[str]] = {}
        for i, _ in results:
            if not self.strides.is_scalar(self.params[i]):
                arms = [
                    ", ".join(f"[ {values[k][i]}, %{label} ]" for label, values in exits)
                    for k in range(len(self.parts))
                ]
                found[i] = [self.function.inst(f"phi {self.type(i)} {text}") for text in arms]
        found |= {i: [self.fetch(self.type(i), part.kept[i]) for part in self.parts] for i in kept}
        for i, result in results:
            if i in found:
                self.lanes.bind(result, many.joined(scalar_type(result.type), found[i]))

    def bind_counted(self, steps: Mapping[int, tuple[Value, bool]], starts: Mapping[int, str]) -> None:
        """Bind the results that changed by the same step in every iteration, computed from the number of iterations."""
        if not steps:
            return
        pieces = [self.fetch(part.running.type, part.iterations) for part in self.parts]
        iterations = self.lanes.many.joined(f"i{self.whole.bits}", pieces)
        for i, (step, is_down) in steps.items():
            dtype = self.params[i].type
            by = self.lanes.spread(dtype, self.parts[0].lanes.scalar(step))
            counted = iterations, self.whole.bits
            self.lanes.bind(self.op.results[i], self.whole.after(counted, dtype, starts[i], by, is_down))


def _below(block: Block) -> Iterator[Block]:
    for op in walk(block):
        yield from op.blocks
