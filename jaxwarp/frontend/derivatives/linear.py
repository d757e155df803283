"""The linearity of code in some of its values; for derivative rules written by hand, in the cotangents they get.

A rule has a derivative of its own, and a tangent, only if what it adds to the adjoints is a sum of products of one
cotangent and something that does not depend on any. Each value is one of

    ZERO        zero, whatever the cotangents are
    FREE        does not depend on them
    LINEAR      a sum of such products
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from jaxwarp.builtins.scalar_ops.rules import ATTACH, is_rule
from jaxwarp.errors import Loc
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.rewrite import Rewriter, rebuild

ZERO, FREE, LINEAR = "zero", "free", "linear"


class NotLinearError(Exception):
    """`reason` completes "the rule is not linear in its cotangent: "."""

    def __init__(self, reason: str, loc: Loc | None):
        super().__init__(reason)
        self.reason = reason
        self.loc = loc


def classify(ops: Sequence[ir.Op], seeds: Mapping[ir.Value, str], sinks: Collection[ir.Value]) -> Linearity:
    """The classes of the values of a block.

    Args:
        ops: they store in arrays of the thread's own only.
        seeds: the classes of the cotangents. Other values from outside are FREE.
        sinks: results of `attach` calls whose factors are what the rule adds to an adjoint.

    Raises:
        NotLinearError: a factor is not LINEAR, or a value depends on a cotangent in another way.
    """
    linearity = Linearity(seeds, sinks)
    linearity.ops(ops)
    return linearity


class Linearity:
    def __init__(self, seeds: Mapping[ir.Value, str], sinks: Collection[ir.Value]):
        self.kinds: dict[ir.Value, str] = dict(seeds)
        self.memory: dict[ir.Param, str] = {}
        self.sinks = sinks

    def __getitem__(self, value: ir.Value) -> str:
        return self.kinds.get(value, FREE)

    def ops(self, ops: Sequence[ir.Op]) -> None:
        for op in ops:
            self.op(op)

    def join(self, a: str, b: str, loc: Loc | None) -> str:
        """The class of what is the one or the other."""
        if ZERO in (a, b) or a == b:
            return b if a == ZERO else a
        raise NotLinearError("one path gives a value that does not depend on it, another one that does", loc)

    def op(self, op: ir.Op) -> None:
        match op:
            case ir.Const() if op.result.type.is_float and op.value == 0.0:
                self.kinds[op.result] = ZERO
            case ir.Call():
                self.kinds[op.result] = self.call(op)
            case ir.Load():
                self.free(op.indices, "an index depends on it", op.loc)
                self.kinds[op.result] = self.memory.get(op.param, FREE)
            case ir.Store():
                self.free(op.indices, "an index depends on it", op.loc)
                self.memory[op.param] = self.join(self.memory.get(op.param, ZERO), self[op.value], op.loc)
            case ir.If():
                self.if_(op)
            case ir.For() | ir.While():
                self.loop(op)
            case _:
                self.free(op.operands, "an atomic depends on it", op.loc)

    def free(self, values: Sequence[ir.Value], reason: str, loc: Loc | None) -> None:
        if any(self[v] == LINEAR for v in values):
            raise NotLinearError(reason, loc)

    def call(self, op: ir.Call) -> str:
        name, kinds = op.builtin.name, [self[a] for a in op.args]
        if op.builtin is ATTACH and op.result in self.sinks:
            return self.sink(op, kinds)
        if is_rule(op.builtin):
            return kinds[0]
        if name in ("neg", "cast") and op.result.type.is_float and op.args[0].type.is_float:
            return kinds[0]
        if name == "mul" and ZERO in kinds:
            return ZERO
        if name == "div" and kinds[0] == ZERO and kinds[1] == FREE:
            return ZERO
        if name == "fma":
            return self.sum(op, self.product(op, *kinds[:2]), kinds[2])
        if name == "select" and kinds[0] == FREE:
            return self.join(kinds[1], kinds[2], op.loc)
        if name in ("add", "sub") and set(kinds) <= {LINEAR, ZERO}:
            return LINEAR if LINEAR in kinds else ZERO
        if LINEAR not in kinds:
            return FREE
        if (name == "mul" and FREE in kinds) or (name == "div" and kinds[1] == FREE):
            return LINEAR
        if name in ("add", "sub"):
            raise NotLinearError("a value that does not depend on it is added", op.loc)
        what = "a product of two values that depend on it" if name == "mul" else f"{name} of it"
        raise NotLinearError(what, op.loc)

    def product(self, op: ir.Call, a: str, b: str) -> str:
        if ZERO in (a, b):
            return ZERO
        if a == b == LINEAR:
            raise NotLinearError("a product of two values that depend on it", op.loc)
        return LINEAR if LINEAR in (a, b) else FREE

    def sum(self, op: ir.Call, a: str, b: str) -> str:
        if {a, b} == {FREE, LINEAR}:
            raise NotLinearError("a value that does not depend on it is added", op.loc)
        return LINEAR if LINEAR in (a, b) else ZERO if a == b == ZERO else FREE

    def sink(self, op: ir.Call, kinds: list[str]) -> str:
        if kinds[1] == LINEAR:
            raise NotLinearError("the adjoint of a value that depends on it", op.loc)
        if kinds[2] == FREE:
            raise NotLinearError("what is added to the adjoint does not depend on it", op.loc)
        return FREE

    def if_(self, op: ir.If) -> None:
        self.free((op.condition,), "a condition depends on it", op.loc)
        before = dict(self.memory)
        after: list[dict[ir.Param, str]] = []
        for block in op.blocks:
            self.memory = dict(before)
            self.ops(block.ops)
            after.append(self.memory)
        self.memory = self.joined(after[0], after[1], op.loc)
        for result, a, b in zip(op.results, op.then.results, op.orelse.results, strict=True):
            self.kinds[result] = self.join(self[a], self[b], op.loc)

    def joined(self, a: dict[ir.Param, str], b: dict[ir.Param, str], loc: Loc | None) -> dict[ir.Param, str]:
        return {p: self.join(a.get(p, ZERO), b.get(p, ZERO), loc) for p in {**a, **b}}

    def loop(self, op: ir.For | ir.While) -> None:
        if isinstance(op, ir.For):
            self.free((op.start, op.stop, op.step), "the bounds of a loop depend on it", op.loc)
            params = [op.body.params[1:]]
        else:
            params = [op.condition.params, op.body.params]
        carried = [self[v] for v in op.inits]
        while True:
            before = list(carried), dict(self.memory)
            for values in params:
                self.kinds.update(zip(values, carried, strict=True))
            if isinstance(op, ir.While):
                self.ops(op.condition.ops)
                self.free(op.condition.results, "a condition depends on it", op.loc)
            self.ops(op.body.ops)
            carried = [self.join(a, self[v], op.loc) for a, v in zip(carried, op.body.results, strict=True)]
            self.memory = self.joined(before[1], self.memory, op.loc)
            if (carried, self.memory) == before:
                break
        self.kinds.update(zip(op.results, carried, strict=True))


class Coefficients(Rewriter):
    """A block with cotangents set to numbers: what is ZERO is zero then, even times infinity."""

    def __init__(self, linearity: Linearity, cotangents: Mapping[ir.Value, float]):
        super().__init__()
        self.linearity = linearity
        self.cotangents = cotangents

    def run(self, ops: Sequence[ir.Op]) -> list[ir.Op]:
        self.scopes.append([ir.Const(v, x) for v, x in self.cotangents.items()])
        for op in ops:
            self.op(op)
        return self.scopes.pop()

    def op(self, op: ir.Op) -> None:
        if isinstance(op, ir.Call):
            if op.builtin is ATTACH and self.linearity[op.args[2]] == ZERO:
                self.values[op.result] = self.value(op.args[0])
                return
            if self.linearity[op.result] == ZERO:
                self.emit(ir.Const(op.result, 0.0, loc=op.loc))
                return
            if op.builtin.name == "fma" and ZERO in (self.linearity[op.args[0]], self.linearity[op.args[1]]):
                self.values[op.result] = self.value(op.args[2])
                return
        self.copy(op)


def detached_loads(ops: Sequence[ir.Op], detach: ir.Builtin, own: Collection[ir.Param]) -> list[ir.Op]:
    """The operations, with every float that they load from arrays of the launch (not `own`) detached."""
    rewriter = _Detach(detach, own)
    rewriter.scopes.append([])
    for op in ops:
        rewriter.op(op)
    return rewriter.scopes.pop()


class _Detach(Rewriter):
    def __init__(self, detach: ir.Builtin, own: Collection[ir.Param]):
        super().__init__()
        self.detach = detach
        self.own = own

    def op(self, op: ir.Op) -> None:
        if isinstance(op, ir.Load) and op.result.type.is_float and op.param not in self.own:
            active = ir.Value(op.result.type)
            self.emit(rebuild(op, (active,), op.operands))
            self.emit(ir.Call(op.result, self.detach, (active,), loc=op.loc))
            return
        self.copy(op)
