"""Loads that every iteration of a loop does alike are done before it, once: then they take their cotangent once, too.

    for k in range(n): s += f(x[i], w[k])       ->      xi = x[i] if 0 < n else 0
                                                        for k in range(n): s += f(xi, w[k])

In reverse each iteration of the first loop adds to x*[i] in memory, beside what it adds to w*[k]; of the second one, a
sum is carried. The load runs if the loop has an iteration, as before: i may be an index of no element where it has
none. Only arrays that the kernel does not write to are looked at, and loads that each iteration reaches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Param, Size, Store, Tid, Value, walk
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.types import bool_


def hoist_loads(kernel: Kernel, params: Collection[Param]) -> Kernel:
    """The kernel with such loads from `params` before their loops."""
    written = {op.param for op in walk(kernel.body) if isinstance(op, (Store, Atomic))}
    return _Hoist(frozenset(params) - written).kernel(kernel)


class _Hoist(Rewriter):
    def __init__(self, params: frozenset[Param]):
        super().__init__()
        self.hoisted_from = params
        self.guards: set[Op] = set()  # branches made here: what is in them may go further up

    def op(self, op: Op) -> None:
        if not isinstance(op, For):
            self.copy(op)
            return
        operands, body = self.all(op.operands), self.block(op.body)
        needed, loads = self.movable(body)
        if loads:
            moved = {*needed, *loads}
            body = Block(body.params, tuple(o for o in body.ops if o not in moved), body.results)
            for pure in needed:
                self.emit(pure)
            self.guard(operands, loads)
        self.emit(rebuild(op, op.defined, operands, (body,)))

    def movable(self, body: Block) -> tuple[list[Op], list[Op]]:
        """Loads that are the same in every iteration, and the arithmetic that finds them, in program order."""
        varies, makers, loads = set(body.params), dict[Value, Op](), list[Op]()
        for op in body.ops:
            is_same = not any(v in varies for v in op.operands)
            if is_same and isinstance(op, (Const, Size, Tid, Call)):
                makers[op.result] = op
                continue
            is_load = isinstance(op, Load) and op.param in self.hoisted_from and op.result.type.is_float
            if is_same and (is_load or (op in self.guards and self.is_closed(op, varies))):
                loads.append(op)
            varies.update(op.defined)
        needed = set[Op]()
        waiting = [v for op in loads for v in _read(op)]
        while waiting:
            maker = makers.get(waiting.pop())
            if maker is not None and maker not in needed:
                needed.add(maker)
                waiting.extend(maker.operands)
        return [op for op in body.ops if op in needed], loads

    @staticmethod
    def is_closed(guard: Op, varies: set[Value]) -> bool:
        return not any(v in varies for v in _read(guard))

    def guard(self, operands: Sequence[Value], loads: Sequence[Op]) -> None:
        """Emits the loads, where a loop of these operands has an iteration."""
        start, stop, step, *_ = operands
        zero = Value(step.type)
        self.emit(Const(zero, 0))
        upwards = self.call(ROWS["logical_and"], self.less(zero, step), self.less(start, stop), dtype=bool_)
        downwards = self.call(ROWS["logical_and"], self.less(step, zero), self.less(stop, start), dtype=bool_)
        condition = self.call(ROWS["logical_or"], upwards, downwards, dtype=bool_)
        results = tuple(v for op in loads for v in op.defined)
        fresh = tuple(Value(v.type, v.name) for v in results)
        new = dict(zip(results, fresh, strict=True))
        then = tuple(rebuild(op, [new[v] for v in op.defined], op.operands, op.blocks) for op in loads)
        zeros = tuple(Const(Value(v.type), 0.0) for v in results)
        otherwise = Block((), zeros, tuple(zero.result for zero in zeros))
        made = If(results, condition, Block((), then, fresh), otherwise, loc=loads[0].loc)
        self.guards.add(made)
        self.emit(made)

    def less(self, a: Value, b: Value) -> Value:
        return self.call(ROWS["lt"], a, b, dtype=bool_)


def _read(op: Op) -> list[Value]:
    """Return the values from outside that an operation and those inside it read."""
    inside = {v for block in op.blocks for o in walk(block) for v in o.defined}
    every = [*op.operands, *(v for block in op.blocks for o in walk(block) for v in o.operands)]
    return [v for v in every if v not in inside]
