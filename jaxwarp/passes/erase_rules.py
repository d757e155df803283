"""What rules written by hand say about derivatives, taken out: machine code is made of the rest.

%b = attach %a, %x, %g                       -> %a
if replaying { replay } else { function }    -> function
"""

from __future__ import annotations

from jaxwarp.builtins.rows.rules import is_replay, is_rule
from jaxwarp.ir.nodes import Call, If, Kernel, Op, Value, walk
from jaxwarp.passes.rewrite import Rewriter


def erase_rules(kernel: Kernel) -> Kernel:
    """The kernel without operations that only derivatives look at."""
    ruled = any(isinstance(op, Call) and (is_rule(op.builtin) or is_replay(op.builtin)) for op in walk(kernel.body))
    return _Erase().kernel(kernel) if ruled else kernel


class _Erase(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.replaying: set[Value] = set()

    def op(self, op: Op) -> None:
        match op:
            case Call() if is_rule(op.builtin):
                self.values[op.result] = self.value(op.args[0])
            case Call() if is_replay(op.builtin):
                self.replaying.add(op.result)
            case If() if op.condition in self.replaying:
                for inner in op.orelse.ops:
                    self.op(inner)
                self.values.update(zip(op.results, self.all(op.orelse.results), strict=True))
            case _:
                self.copy(op)
