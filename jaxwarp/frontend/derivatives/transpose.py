"""A derivative rule, evaluated once for all results of its function.

The rule maps cotangents of results to what it adds to adjoints, and is linear: a(c) = J^T c. How the results move with
the arguments is the transposed map, dy = J dx, made by going through the rule's operations backwards (the rules are
those of any reverse sweep; here they act on the linear operations alone). Each step is an `attach` to the number 0, so
the value is 0, the derivative is the map, and a derivative of that one reads the factors' derivatives:

    s = f * c, a_x += s       ->      m_s = attach(0, x, 1);  m_c = attach(0, m_s, f);  y = attach(y, m_c, 1)

Loops and local arrays that hold values which depend on cotangents are not transposed: `rules.py` evaluates their rules
once for each result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from jaxwarp.builtins.language.ops import Ops
from jaxwarp.builtins.scalar_ops.rules import ATTACH, is_rule
from jaxwarp.errors import InternalError
from jaxwarp.frontend.derivatives.linear import LINEAR, ZERO, Linearity
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import Scalar, bool_


def can_be_transposed(ops: Sequence[ir.Op], linearity: Linearity, sinks: Collection[ir.Value]) -> bool:
    """Return whether no loop, no array and no call of a function with a rule stands between cotangents and adjoints."""

    def is_simple(op: ir.Op) -> bool:
        is_linear = any(linearity[v] == LINEAR for v in (*op.defined, *op.operands))
        match op:
            case ir.Call():
                return not is_linear or op.result in sinks or not is_rule(op.builtin)
            case ir.If():
                return all(is_simple(inner) for block in op.blocks for inner in block.ops)
            case ir.For() | ir.While():
                inside = [v for block in op.blocks for o in block.all_ops for v in o.defined]
                return not any(v in sinks or linearity[v] == LINEAR for v in inside) and not is_linear
            case _:
                return not is_linear

    return all(map(is_simple, ops))


def transposed(
    builder: Builder,
    ops: Sequence[ir.Op],
    linearity: Linearity,
    sinks: Collection[ir.Value],
    seeds: Sequence[ir.Value],
) -> list[ir.Value | None]:
    """Appends the rule's factors and the transposed of what it adds to adjoints.

    Returns:
        for each cotangent a number that is 0 and moves as the result that it belongs to; None: that does not move.
    """
    for seed in seeds:
        if not seed.type.is_float:
            builder.append(ir.Const(seed, False if seed.type is bool_ else 0))
    return _Transposing(builder, linearity, sinks).run(ops, {}, seeds)


class _Factors(Rewriter):
    """The operations of a block that do not depend on cotangents."""

    def __init__(self, linearity: Linearity, sinks: Collection[ir.Value], fresh: bool):
        super().__init__(fresh)
        self.linearity = linearity
        self.sinks = sinks

    def run(self, ops: Sequence[ir.Op]) -> list[ir.Op]:
        self.scopes.append([])
        for op in ops:
            self.op(op)
        return self.scopes.pop()

    def op(self, op: ir.Op) -> None:
        match op:
            case ir.Call() if op.builtin is ATTACH and op.result in self.sinks:
                self.values[op.result] = self.value(op.args[0])
            case ir.Call() if self.linearity[op.result] == ZERO:
                (result,) = self.define((op.result,))
                self.emit(ir.Const(result, 0.0, loc=op.loc))
            case ir.Call() if self.linearity[op.result] == LINEAR:
                pass
            case ir.If() if any(self.linearity[v] == LINEAR for v in op.results):
                kept = [k for k, v in enumerate(op.results) if self.linearity[v] != LINEAR]
                self.copy(_with_results(op, kept))
            case _:
                self.copy(op)


def _with_results(op: ir.If, kept: Sequence[int]) -> ir.If:
    blocks = [ir.Block((), b.ops, tuple(b.results[k] for k in kept)) for b in op.blocks]
    return ir.If(tuple(op.results[k] for k in kept), op.condition, *blocks, loc=op.loc)


class _Transposing:
    """A block, gone through backwards; `outer` are the factors outside of it, None if there is no outside."""

    def __init__(
        self,
        builder: Builder,
        linearity: Linearity,
        sinks: Collection[ir.Value],
        outer: Mapping[ir.Value, ir.Value] | None = None,
    ):
        self.builder = builder
        self.ops = Ops(builder)
        self.linearity = linearity
        self.sinks = sinks
        self.factors = _Factors(linearity, sinks, fresh=outer is not None)
        self.factors.values.update(outer or {})
        self.moves: dict[ir.Value, ir.Value] = {}

    def run(
        self, ops: Sequence[ir.Op], moves: dict[ir.Value, ir.Value], wanted: Sequence[ir.Value]
    ) -> list[ir.Value | None]:
        """`moves`: how values of the block move; returns how `wanted` ones do."""
        for op in self.factors.run(ops):
            self.builder.append(op)
        self.moves = moves
        for op in reversed(ops):
            self.builder.loc = op.loc or self.builder.loc
            if isinstance(op, ir.If):
                self.branch(op)
            elif isinstance(op, ir.Call):
                self.call(op)
        return [self.moves.get(v) for v in wanted]

    def add(self, value: ir.Value, move: ir.Value) -> None:
        if self.linearity[value] == LINEAR:
            known = self.moves.get(value)
            self.moves[value] = move if known is None else self.ops.add(known, move)

    def zero(self, dtype: Scalar) -> ir.Value:
        return self.builder.const(0.0, dtype)

    def scaled(self, move: ir.Value, factor: ir.Value) -> ir.Value:
        return self.builder.call(ATTACH, self.zero(move.type), move, factor)

    def call(self, op: ir.Call) -> None:
        if op.result in self.sinks:
            _, active, amount = op.args
            self.add(amount, self.scaled(self.factors.value(active), self.builder.const(1.0, active.type)))
            return
        move = self.moves.pop(op.result, None)
        if move is None:
            return
        args = [self.factors.value(a) for a in op.args]
        match op.builtin.name:
            case "neg":
                self.add(op.args[0], self.ops.neg(move))
            case "cast":
                self.add(op.args[0], self.ops.cast_scalar(op.args[0].type, move))
            case "add":
                self.add(op.args[0], move)
                self.add(op.args[1], move)
            case "sub":
                self.add(op.args[0], move)
                if self.linearity[op.args[1]] == LINEAR:
                    self.add(op.args[1], self.ops.neg(move))
            case "mul" | "fma":
                for k in (0, 1):
                    if self.linearity[op.args[k]] == LINEAR:
                        self.add(op.args[k], self.scaled(move, args[1 - k]))
                for summand in op.args[2:]:
                    self.add(summand, move)
            case "div":
                self.add(op.args[0], self.scaled(move, self.ops.div(1.0, args[1])))
            case "select":
                zero = self.zero(move.type)
                self.add(op.args[1], self.ops.select(args[0], move, zero))  # pyright: ignore
                self.add(op.args[2], self.ops.select(args[0], zero, move))  # pyright: ignore
            case _:
                raise InternalError(f"the transposed of {op.builtin.name}, which is not linear")

    def branch(self, op: ir.If) -> None:
        """`if c: r = f(u)` adds to what moves u on the side that is taken."""
        moves = [self.moves.pop(v, None) for v in op.results]
        has_sinks = any(v in self.sinks for block in op.blocks for o in block.all_ops for v in o.defined)
        if not has_sinks and not any(m is not None for m in moves):
            return
        sides = [self.side(block, moves) for block in op.blocks]
        touched = list(dict.fromkeys(v for _, moved in sides for v in moved))
        if not touched:
            return
        blocks = []
        for ops, moved in sides:
            with self.builder.block() as more:
                results = [moved[v] if v in moved else self.zero(v.type) for v in touched]
            blocks.append(ir.Block((), (*ops, *more), tuple(results)))
        results = tuple(ir.Value(v.type) for v in touched)
        condition = self.factors.value(op.condition)
        self.builder.append(ir.If(results, condition, *blocks, loc=op.loc))
        for value, result in zip(touched, results, strict=True):
            self.add(value, result)

    def side(self, block: ir.Block, moves: Sequence[ir.Value | None]) -> tuple[list[ir.Op], dict[ir.Value, ir.Value]]:
        """One side of a branch, its factors computed again: the operations, and how values outside of it move."""
        inside = {v for op in block.all_ops for v in op.defined}
        inner = _Transposing(self.builder, self.linearity, self.sinks, self.factors.values)
        with self.builder.block() as ops:
            for value, move in zip(block.results, moves, strict=True):
                if move is not None:
                    inner.add(value, move)
            inner.run(block.ops, inner.moves, ())
        return ops, {v: m for v, m in inner.moves.items() if v not in inside}
