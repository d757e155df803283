"""Arrays of a thread's own of half precision are held in float32: what is loaded often is converted once.

    local @t: f16[64]                      local @t: f32[64]
    store @t[%i], %h                  ->   %w: f32 = cast %h;  store @t[%i], %w
    %x: f16 = load @t[%j]                  %y: f32 = load @t[%j]
    %y: f32 = cast %x

Exact: every half is a float32, and what is loaded is what was rounded when it was stored.
"""

from __future__ import annotations

from dataclasses import replace

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, Load, Op, Param, Store, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import float32


def hold_wide(kernel: Kernel) -> Kernel:
    """The kernel with its own arrays of half precision in float32, but for those with atomics."""
    updated = {op.param for op in walk(kernel.body) if isinstance(op, Atomic)}
    wide = {p: Param(p.name, float32, p.shape) for p in kernel.locals if p.dtype.is_half and p not in updated}
    if not wide:
        return kernel
    made = _HoldWide(wide).kernel(kernel)
    return replace(made, locals=tuple(wide.get(p, p) for p in kernel.locals))


class _HoldWide(Rewriter):
    def __init__(self, wide: dict[Param, Param]):
        super().__init__()
        self.wide = wide
        self.params.update(wide)
        self.loaded: dict[Value, Value] = {}  # halves, as float32

    def op(self, op: Op) -> None:
        match op:
            case Load() if op.param in self.wide:
                wide = self.loaded[op.result] = Value(float32, op.result.name)
                self.emit(Load(wide, self.wide[op.param], self.all(op.indices), loc=op.loc))
                self.emit(Call(op.result, ROWS["cast"], (wide,), loc=op.loc))
            case Store() if op.param in self.wide:
                known = self.loaded.get(op.value)
                value = known or self.call(ROWS["cast"], self.value(op.value), dtype=float32, loc=op.loc)
                self.emit(Store(self.wide[op.param], self.all(op.indices), value, loc=op.loc))
            case Call() if op.builtin.name == "cast" and op.result.type is float32 and op.args[0] in self.loaded:
                self.values[op.result] = self.loaded[op.args[0]]
            case _:
                self.copy(op)
