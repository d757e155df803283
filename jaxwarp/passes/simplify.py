"""Fewer operations, the same meaning to the last bit.

One walk over the kernel folds constants, applies the identities of `identities.py`, shares equal computations and
moves what does not change in a loop out of it; `eliminate.py` then drops what is left unused.

    constants, tid, size    once, at the top of the kernel
    %c = add 1, 2           -> 3                                    (through the row's `ref`; never to a NaN, whose
                                                                     payload a constant would lose)
    %b = mul %x, %y         -> %a where %a = mul %x, %y above
    %b = load @p[%i]        -> the value last loaded from or stored to @p[%i], if nothing wrote to @p in between
    for ... { mul %x, %y }  -> mul %x, %y; for ... { }              (%x, %y from outside; loads stay)
    if true { A } else { B} -> A; and inside `if %c`, %c is true
    for carry(%p = %a) { yield %p }  -> %a
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

from jaxwarp.builtins.scalar_ops import ROWS, ulp
from jaxwarp.builtins.scalar_ops.rules import is_replay
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import InternalError
from jaxwarp.ir.interpret import evaluate, trip_counts
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import (
    Atomic,
    Block,
    Call,
    Const,
    For,
    If,
    Load,
    Op,
    Param,
    Size,
    Store,
    Tell,
    Tid,
    Value,
    While,
    walk,
)
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.passes.eliminate import eliminate
from jaxwarp.passes.identities import Constant, Instead, Literal, Outcome, identity
from jaxwarp.types import Scalar, bool_


@with_deep_stack
def simplify(kernel: Kernel) -> Kernel:
    """The kernel with fewer operations."""
    return eliminate(_Simplify(kernel).kernel(kernel))


@dataclass
class _Scope:
    """A region being built: the operations so far, and the keys of what is known from it on, until it ends."""

    ops: list[Op]
    is_loop: bool
    keys: list[Hashable] = field(default_factory=list)


class _Simplify(Rewriter):
    def __init__(self, kernel: Kernel):
        super().__init__()
        self.written = _written_params(kernel)
        self.regions: list[_Scope] = []
        self.known: dict[Hashable, Value] = {}  # in the regions that are open
        self.depth: dict[Value, int] = {}
        self.definition: dict[Value, Op] = {}
        # A load is known under the version of its array: each write in between makes a new one.
        self.version: dict[Param, int] = {}
        self.writes = 0

    def kernel(self, kernel: Kernel) -> Kernel:
        entry = self.open(is_loop=False)
        for op in kernel.body.ops:
            self.op(op)
        self.regions.pop()
        return Kernel(kernel.name, kernel.grid_rank, kernel.params, Block((), tuple(entry.ops), ()), kernel.locals)

    def open(self, is_loop: bool) -> _Scope:
        self.regions.append(_Scope([], is_loop))
        return self.regions[-1]

    def region(self, block: Block, is_loop: bool, assume: tuple[Value, bool] | None = None) -> Block:
        scope = self.open(is_loop)
        self.depth.update((v, len(self.regions) - 1) for v in block.params)
        saved: list[tuple[Value, Value]] = []
        if assume is not None:
            self.assume(*assume, saved)
        for op in block.ops:
            self.op(op)
        results = self.all(block.results)
        for value, before in reversed(saved):  # a condition may be there twice
            self.values[value] = before
        self.regions.pop()
        for key in scope.keys:
            del self.known[key]
        return Block(block.params, tuple(scope.ops), results)

    def value(self, value: Value) -> Value:
        """Follows chains: what stands for a value may since be known to be a constant."""
        while (found := self.values.get(value)) is not None and found is not value:
            value = found
        return value

    def assume(self, condition: Value, truth: bool, saved: list[tuple[Value, Value]]) -> None:
        """Make the condition of a branch a constant, and so the operands of its `not`, `and` or `or` that follow."""
        saved.append((condition, self.values.get(condition, condition)))
        self.values[condition] = self.const(truth, bool_)
        match self.definition.get(condition):
            case Call(builtin=row, args=(a,)) if row.name == "logical_not":
                self.assume(a, not truth, saved)
            case Call(builtin=row, args=(a, b)) if row.name == ("logical_and" if truth else "logical_or"):
                self.assume(a, truth, saved)
                if b is not a:
                    self.assume(b, truth, saved)
            case _:
                pass

    # What is pure: found again, moved out of loops, or emitted.

    def place(self, op: Op, key: Hashable, level: int) -> Value:
        """The value of a pure operation: the one known under `key`, or a new one in region `level`."""
        (result,) = op.defined
        found = self.known.get(key)
        if found is not None:
            return found
        self.regions[level].ops.append(op)
        self.know(key, result, level)
        self.depth[result] = level
        self.definition[result] = op
        return result

    def place_fixed(self, call: Call, key: Hashable, level: int) -> Value:
        """One of fixed rounding can stand for one without, but not the other way round."""
        result = self.place(call, ("fixed rounding", key), level)
        if result is call.result and key not in self.known:
            self.know(key, result, level)
        return result

    def know(self, key: Hashable, value: Value, level: int) -> None:
        self.known[key] = value
        self.regions[level].keys.append(key)

    def home(self, operands: Iterable[Value]) -> int:
        """The outermost region where a pure operation on these can be: out of loops, not out of branches."""
        level = len(self.regions) - 1
        lowest = max((self.depth[v] for v in operands), default=0)
        while level > lowest and self.regions[level].is_loop:
            level -= 1
        return level

    def const(self, value: Literal, dtype: Scalar, template: Const | None = None) -> Value:
        op = template or Const(Value(dtype), value)
        return self.place(op, ("const", dtype.name, value.hex() if isinstance(value, float) else value), 0)

    def call_value(self, call: Call) -> Value:
        """The simplest value equal to a call of new values."""
        folded = self.fold(call)
        if folded is not None:
            return self.const(folded, call.result.type)
        outcome: Outcome = identity(call, call.args, self.definition.get)
        match outcome:
            case Value():
                return outcome
            case Constant():
                return self.const(outcome.value, call.result.type)
            case Instead():
                args = tuple(a if isinstance(a, Value) else self.const(a, call.args[0].type) for a in outcome.args)
                instead = ROWS[outcome.builtin]
                return self.call_value(Call(call.result, instead, args, call.fixed_rounding, loc=call.loc))
            case None:
                names = sorted(map(id, call.args)) if call.builtin.commutative else map(id, call.args)
                key = (call.builtin.name, call.result.type.name, *names)
                place = self.place_fixed if call.fixed_rounding else self.place
                return place(call, key, self.home(call.args))

    def fold(self, call: Call) -> Literal | None:
        definitions = [self.definition.get(a) for a in call.args]
        constants = [d.value for d in definitions if isinstance(d, Const)]
        if len(constants) < len(call.args) or is_replay(call.builtin):
            return None
        if call.fixed_rounding and ulp(call.builtin, call.result.type):
            return None
        result = evaluate(call, constants)
        return None if isinstance(result, float) and math.isnan(result) else result

    # Operations, in program order.

    def op(self, op: Op) -> None:
        match op:
            case Const():
                self.values[op.result] = self.const(op.value, op.result.type, op)
            case Tid():
                self.values[op.result] = self.place(op, ("tid", op.axis), 0)
            case Size():
                self.values[op.result] = self.place(op, ("size", op.param, op.axis), 0)
            case Call():
                new = rebuild(op, op.defined, self.all(op.args))
                assert isinstance(new, Call)
                self.values[op.result] = self.call_value(new)
            case Load():
                self.load(op)
            case Store() | Atomic():
                self.write(op)
            case Tell():
                self.emit(rebuild(op, (), self.all(op.operands)))
            case If():
                self.if_(op)
            case For():
                self.for_(op)
            case While():
                self.while_(op)
            case _:
                raise InternalError(f"simplify does not know {type(op).__name__}")

    def emit(self, op: Op) -> None:
        self.regions[-1].ops.append(op)
        for value in op.defined:
            self.depth[value] = len(self.regions) - 1
            self.definition[value] = op

    def element(self, param: Param, indices: Iterable[Value]) -> Hashable:
        return ("load", param, self.version.get(param, 0), *map(id, indices))

    def load(self, op: Load) -> None:
        new = rebuild(op, op.defined, self.all(op.indices))
        self.values[op.result] = self.place(new, self.element(op.param, new.operands), len(self.regions) - 1)

    def write(self, op: Store | Atomic) -> None:
        new = rebuild(op, op.defined, self.all(op.operands))
        self.emit(new)
        self.outdate([op.param])
        if isinstance(new, Store):
            self.know(self.element(new.param, new.indices), new.value, len(self.regions) - 1)

    def outdate(self, params: Iterable[Param]) -> None:
        for param in params:
            self.writes += 1
            self.version[param] = self.writes

    def if_(self, op: If) -> None:
        condition = self.value(op.condition)
        known = self.definition.get(condition)
        if isinstance(known, Const):
            taken = op.then if known.value else op.orelse
            for inner in taken.ops:
                self.op(inner)
            self.values.update(zip(op.results, self.all(taken.results), strict=True))
            return
        before = dict(self.version)
        then = self.region(op.then, False, (condition, True))
        self.version = dict(before)
        orelse = self.region(op.orelse, False, (condition, False))
        self.version = before
        self.outdate(self.written[op])
        kept = []
        for i, (result, a, b) in enumerate(zip(op.results, then.results, orelse.results, strict=True)):
            if a is b:
                self.values[result] = a
            else:
                kept.append(i)
        blocks = [Block((), b.ops, tuple(b.results[i] for i in kept)) for b in (then, orelse)]
        self.emit(rebuild(op, [op.results[i] for i in kept], (condition,), blocks))

    def for_(self, op: For) -> None:
        bounds = self.all((op.start, op.stop, op.step))
        if self.trips(bounds) == 0:
            self.values.update(zip(op.results, self.all(op.inits), strict=True))
            return
        kept = self.carried(op, [op.body.params[1:]])
        index, *params = op.body.params
        self.outdate(self.written[op])
        body = Block((index, *(params[i] for i in kept)), op.body.ops, tuple(op.body.results[i] for i in kept))
        inits = [self.value(op.inits[i]) for i in kept]
        body = self.region(body, True)
        self.outdate(self.written[op])
        self.emit(rebuild(op, [op.results[i] for i in kept], (*bounds, *inits), (body,)))

    def trips(self, bounds: tuple[Value, ...]) -> int | None:
        definitions = [self.definition.get(v) for v in bounds]
        constants = [np.full(1, d.value, d.result.type.numpy) for d in definitions if isinstance(d, Const)]
        return int(trip_counts(*constants)[0]) if len(constants) == 3 else None

    def while_(self, op: While) -> None:
        kept = self.carried(op, [op.condition.params, op.body.params])
        self.outdate(self.written[op])
        condition, body = (Block(tuple(b.params[i] for i in kept), b.ops, b.results) for b in op.blocks)
        inits = [self.value(op.inits[i]) for i in kept]
        condition = self.region(condition, True)
        known = self.definition.get(condition.results[0])
        pure = not any(isinstance(inner, Store | Atomic | Tell) for inner in walk(condition))
        if pure and isinstance(known, Const) and not known.value:
            self.values.update((op.results[i], init) for i, init in zip(kept, inits, strict=True))
            return
        body = Block(body.params, body.ops, tuple(body.results[i] for i in kept))
        self.outdate(self.written[op])
        body = self.region(body, True)
        self.outdate(self.written[op])
        self.emit(rebuild(op, [op.results[i] for i in kept], inits, (condition, body)))

    def carried(self, op: For | While, params: list[tuple[Value, ...]]) -> list[int]:
        """Positions of the carried values that change; the others become what they start as."""
        kept = []
        for i, (result, init, after) in enumerate(zip(op.results, op.inits, op.body.results, strict=True)):
            if after is params[-1][i] or self.value(after) is self.value(init):
                self.values.update((v, self.value(init)) for v in (result, *(p[i] for p in params)))
            else:
                kept.append(i)
        return kept


def _written_params(kernel: Kernel) -> dict[Op, frozenset[Param]]:
    """Return the parameters that the regions of each If, For and While write to."""
    written: dict[Op, frozenset[Param]] = {}

    def scan(block: Block) -> set[Param]:
        found: set[Param] = set()
        for op in block.ops:
            if isinstance(op, Store | Atomic):
                found.add(op.param)
            if op.blocks:
                inside = set[Param]().union(*(scan(b) for b in op.blocks))
                written[op] = frozenset(inside)
                found |= inside
        return found

    scan(kernel.body)
    return written
