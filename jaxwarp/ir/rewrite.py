"""Copying IR with changes: what every pass is built on.

A pass is a `Rewriter` whose `op` handles the operations it changes and hands the rest to `copy`. Operations and
values that do not change are shared with the old kernel; they are immutable. A rewriter made with `fresh=True` gives
every value a new identity, for code that is to appear twice in one kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

from jaxwarp.errors import InternalError, Loc
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import (
    Atomic,
    Block,
    Builtin,
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
)
from jaxwarp.types import Scalar


class Rewriter:
    """Rebuilds a kernel, operation by operation, in program order."""

    def __init__(self, fresh: bool = False):
        self.fresh = fresh
        self.values: dict[Value, Value] = {}
        self.params: dict[Param, Param] = {}
        self.scopes: list[list[Op]] = []

    def kernel(self, kernel: Kernel) -> Kernel:
        body = self.block(kernel.body)
        params = tuple(self.param(p) for p in kernel.params)
        return Kernel(kernel.name, kernel.grid_rank, params, body, kernel.locals)

    def value(self, value: Value) -> Value:
        """Return the value that now replaces an old one."""
        return self.values.get(value, value)

    def all(self, values: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(map(self.value, values))

    def param(self, param: Param) -> Param:
        return self.params.get(param, param)

    def define(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """The values that new operations define where the old ones defined `values`."""
        if not self.fresh:
            return tuple(values)
        new = tuple(Value(v.type, v.name) for v in values)
        self.values.update(zip(values, new, strict=True))
        return new

    def emit(self, op: Op) -> None:
        self.scopes[-1].append(op)

    def call(self, builtin: Builtin, *args: Value, dtype: Scalar | None = None, loc: Loc | None = None) -> Value:
        """Emits a call of new values and returns its result."""
        result = Value(dtype or builtin.infer(tuple(a.type for a in args)))
        self.emit(Call(result, builtin, args, loc=loc))
        return result

    def block(self, block: Block) -> Block:
        params = self.define(block.params)
        self.scopes.append([])
        for op in block.ops:
            self.op(op)
        results = self.all(block.results)
        ops = tuple(self.scopes.pop())
        if _same(params, block.params) and _same(ops, block.ops) and _same(results, block.results):
            return block
        return Block(params, ops, results)

    def op(self, op: Op) -> None:
        self.copy(op)

    def copy(self, op: Op) -> None:
        blocks = op.blocks
        if not (blocks or self.fresh or self.params) and self.values.keys().isdisjoint(op.operands):
            self.emit(op)  # as it is: so are most operations in most passes
            return
        operands = self.all(op.operands)
        blocks = tuple(self.block(b) for b in blocks)
        self.emit(rebuild(op, self.define(op.defined), operands, blocks, self.params))


def rebuild(
    op: Op,
    defined: Sequence[Value],
    operands: Sequence[Value],
    blocks: Sequence[Block] = (),
    params: dict[Param, Param] | None = None,
) -> Op:
    """`op` with other values and blocks, in the order of `op.defined`, `op.operands` and `op.blocks`.

    `params` says which parameters stand for which. Carried values of loops may be fewer than before.
    """
    unchanged = _same(defined, op.defined) and _same(operands, op.operands) and _same(blocks, op.blocks)
    if unchanged and not params:
        return op
    params = params or {}
    loc = op.loc
    match op:
        case Const():
            return Const(defined[0], op.value, loc=loc)
        case Tid():
            return Tid(defined[0], op.axis, loc=loc)
        case Size():
            return Size(defined[0], params.get(op.param, op.param), op.axis, loc=loc)
        case Call():
            return Call(defined[0], op.builtin, tuple(operands), op.fixed_rounding, loc=loc)
        case Load():
            return Load(defined[0], params.get(op.param, op.param), tuple(operands), loc=loc)
        case Store():
            return Store(params.get(op.param, op.param), tuple(operands[:-1]), operands[-1], loc=loc)
        case Atomic():
            rank = len(op.indices)
            indices, args = tuple(operands[:rank]), tuple(operands[rank:])
            return Atomic(defined[0], op.kind, params.get(op.param, op.param), indices, args, op.takes, loc=loc)
        case Tell():
            return Tell(op.kind, op.texts, op.formats, tuple(operands), loc=loc)
        case If():
            return If(tuple(defined), operands[0], *blocks, loc=loc)
        case For():
            start, stop, step, *inits = operands
            return For(tuple(defined), start, stop, step, tuple(inits), *blocks, over_tile=op.over_tile, loc=loc)
        case While():
            return While(tuple(defined), tuple(operands), *blocks, loc=loc)
        case _:
            raise InternalError(f"rewriting does not know {type(op).__name__}")


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    return new is old or (len(new) == len(old) and all(map(operator.is_, new, old)))
