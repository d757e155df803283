"""The removal of what rules written by hand say about derivatives: machine code is made of the rest.

%b = attach %a, %x, %g                       -> %a
%p = guarded %c, %f                          -> 0 where %c is 0, else %c * %f
if replaying { replay } else { function }    -> function
"""

from __future__ import annotations

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.builtins.scalar_ops.rules import GUARDED, is_replay, is_rule
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Call, Const, If, Op, Value, walk
from jaxwarp.ir.rewrite import Rewriter


def erase_rules(kernel: Kernel) -> Kernel:
    """The kernel without operations that only derivatives look at."""
    ruled = any(isinstance(op, Call) and _is_erased(op) for op in walk(kernel.body))
    return _Erase().kernel(kernel) if ruled else kernel


def _is_erased(op: Call) -> bool:
    return is_rule(op.builtin) or is_replay(op.builtin) or op.builtin is GUARDED


class _Erase(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.replaying: set[Value] = set()

    def op(self, op: Op) -> None:
        match op:
            case Call() if is_rule(op.builtin):
                self.values[op.result] = self.value(op.args[0])
            case Call() if op.builtin is GUARDED:
                self.values[op.result] = self.guarded(op)
            case Call() if is_replay(op.builtin):
                self.replaying.add(op.result)
            case If() if op.condition in self.replaying:
                for inner in op.orelse.ops:
                    self.op(inner)
                self.values.update(zip(op.results, self.all(op.orelse.results), strict=True))
            case _:
                self.copy(op)

    def guarded(self, op: Call) -> Value:
        incoming, factor = self.all(op.args)
        zero = Value(incoming.type)
        self.emit(Const(zero, 0.0, loc=op.loc))
        is_zero = self.call(ROWS["eq"], incoming, zero, loc=op.loc)
        product = self.call(ROWS["mul"], factor, incoming, loc=op.loc)
        return self.call(ROWS["select"], is_zero, zero, product, loc=op.loc)
