"""Multiply, then add, in one rounding: the only place where fma comes from (no backend contracts on its own).

    a * b + c    -> fma(a, b, c)             c + a * b    -> fma(a, b, c)
    a * b - c    -> fma(a, b, -c)            c - a * b    -> fma(-a, b, c)
    -(a * b) + c -> fma(-a, b, c)            and so on through negations

for float32 and float64, where the product has no other use. If both sides are products the left one is taken. A
negation costs nothing: both backends fold it into the operation. -(a * b) is (-a) * b to the last bit.

Whether a product has another use is not the same in a kernel and in its derivatives, which compute part of it again and
branch as it has branched. So derivatives are made of the contracted kernel, and what it leaves as it is has a fixed
rounding: the sums that are left are not contracted later, and functions that machine code only approximates are not
folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from jaxwarp.builtins.scalar_ops import ROWS, ulp
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import INSIDE, Call, Op, Param, Store, Tell, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.eliminate import eliminate
from jaxwarp.types import float32, float64


def contract_fma(kernel: Kernel, *, fma: bool = True, beside: Collection[Param] = ()) -> Kernel:
    """The kernel with every rounding fixed and, if `fma`, products that feed one sum contracted into it.

    Args:
        kernel: the kernel.
        fma: whether there are fused operations.
        beside: what is only stored to these parameters, or tested in debug mode, is no use of a product.
    """
    used = eliminate(_Without(beside).kernel(kernel)) if beside else kernel
    return eliminate(_Contract(kernel, used, fma).kernel(kernel))


class _Without(Rewriter):
    """Leaves out what checks have put in."""

    def __init__(self, beside: Collection[Param]):
        super().__init__()
        self.beside = beside

    def op(self, op: Op) -> None:
        is_note = isinstance(op, Store) and op.param in self.beside
        if not is_note and not (isinstance(op, Tell) and op.kind == INSIDE):
            self.copy(op)


class _Contract(Rewriter):
    def __init__(self, kernel: Kernel, used: Kernel, fma: bool):
        super().__init__()
        self.fma = fma
        self.uses: Counter[Value] = Counter()
        for op in walk(used.body):
            self.uses.update(op.operands)
            for block in op.blocks:
                self.uses.update(block.results)
        self.definition = {op.result: op for op in walk(kernel.body) if isinstance(op, Call)}

    def op(self, op: Op) -> None:
        match op:
            case Call(builtin=row, args=(a, b)) if not op.fixed_rounding and _is_sum(op):
                self.sum(op, a, b, row.name == "sub")
            case Call() if not op.fixed_rounding and ulp(op.builtin, op.result.type):
                self.fix(op)
            case _:
                self.copy(op)

    def sum(self, op: Call, a: Value, b: Value, subtract: bool) -> None:
        for product, other, negate_product, negate_other in ((a, b, False, subtract), (b, a, subtract, False)):
            factors = self.factors(product) if self.fma else None
            if factors is None:
                continue
            x, y, negative = factors
            x = self.negated(x, op) if negative != negate_product else x
            z = self.negated(other, op) if negate_other else other
            self.emit(Call(op.result, ROWS["fma"], (x, y, z), loc=op.loc))
            return
        self.fix(op)

    def fix(self, op: Call) -> None:
        self.emit(Call(op.result, op.builtin, self.all(op.args), fixed_rounding=True, loc=op.loc))

    def factors(self, value: Value) -> tuple[Value, Value, bool] | None:
        """(x, y, negative) if the value is x * y or its negation and nothing else uses it."""
        negative = False
        while self.uses[value] == 1 and (call := self.definition.get(value)) is not None:
            match call.builtin.name, call.args:
                case "neg", (value,):
                    negative = not negative
                case "mul", (x, y):
                    return x, y, negative
                case _:
                    return None
        return None

    def negated(self, value: Value, op: Call) -> Value:
        inner = self.definition.get(value)
        if inner is not None and inner.builtin.name == "neg":
            return inner.args[0]
        return self.call(ROWS["neg"], value, loc=op.loc)


def _is_sum(op: Call) -> bool:
    return op.builtin.name in ("add", "sub") and op.result.type in (float32, float64)
