"""float16 and bfloat16 are stored in 16 bits and computed in float32.

    %c: f16 = mul %a, %b    ->    %x: f32 = cast %a
                                  %y: f32 = cast %b
                                  %z: f32 = mul %x, %y
                                  %c: f16 = cast %z

Every operation rounds, so that the result does not depend on what the operation is fused with. Afterwards half values
occur only in loads, stores, atomics, constants, casts and as what If, For and While hand on.
"""

from __future__ import annotations

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Call, Op, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import float32


def widen_half(kernel: Kernel) -> Kernel:
    """The kernel with arithmetic on half precision done in float32."""
    # Half precision comes from arrays, constants and casts: without those there is none.
    halves = any(v.type.is_half for op in walk(kernel.body) for v in op.defined)
    return _Widen().kernel(kernel) if halves else kernel


class _Widen(Rewriter):
    def op(self, op: Op) -> None:
        match op:
            case Call() if not op.builtin.typed and any(v.type.is_half for v in (op.result, *op.args)):
                self.widen(op)
            case _:
                self.copy(op)

    def widen(self, op: Call) -> None:
        cast = ROWS["cast"]
        args = [self.call(cast, a, dtype=float32, loc=op.loc) if a.type.is_half else a for a in op.args]
        if not op.result.type.is_half:
            self.emit(Call(op.result, op.builtin, tuple(args), op.fixed_rounding, loc=op.loc))
            return
        wide = Value(float32, op.result.name)
        self.emit(Call(wide, op.builtin, tuple(args), op.fixed_rounding, loc=op.loc))
        self.emit(Call(op.result, cast, (wide,), loc=op.loc))
