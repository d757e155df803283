"""vmap of a kernel: one more grid axis, and one more axis on each array that is batched.

    kernel k[1](@x: f32[?], @w: f32[], @y: f32[?])      kernel k[2](@x: f32[?, ?], @w: f32[], @y: f32[?, ?])
      %i = tid 0                                          %item = tid 0
      %a = load @x[%i]                             ->     %i = tid 1
      %b = load @w[]                                      %a = load @x[%item, %i]
      store @y[%i], ...                                   %b = load @w[]
                                                          store @y[%item, %i], ...
                                                              (axes = (0, None, 0))

An array without a batch axis is read by every item as it is: nothing is copied or broadcast. That is right for what
the kernel only reads; the caller gives every array that the kernel writes an axis.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import InternalError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Load, Op, Param, Size, Store, Tid, Value
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import int32


@with_deep_stack
def batch(kernel: Kernel, axes: Sequence[int | None], size: int | None = None) -> Kernel:
    """The kernel that does the work of `size` launches in one; grid axis 0 counts them.

    Args:
        kernel: what one item runs.
        axes: per parameter, the position of its batch axis (0 to its rank), or None where all items share it.
        size: the number of items, if it is to be part of the parameters' shapes.
    """
    if len(axes) != len(kernel.params):
        raise InternalError(f"batch of {kernel.name}: {len(axes)} axes for {len(kernel.params)} parameters")
    return _Batch(kernel, axes, size).kernel(kernel)


class _Batch(Rewriter):
    def __init__(self, kernel: Kernel, axes: Sequence[int | None], size: int | None):
        super().__init__()
        self.item = Value(int32, "item")
        self.axis: dict[Param, int] = {}
        for param, axis in zip(kernel.params, axes, strict=True):
            if axis is None:
                continue
            if not 0 <= axis <= param.rank:
                raise InternalError(f"batch of {kernel.name}: axis {axis} of {param.name}, which has rank {param.rank}")
            self.axis[param] = axis
            self.params[param] = Param(param.name, param.dtype, (*param.shape[:axis], size, *param.shape[axis:]))

    def kernel(self, kernel: Kernel) -> Kernel:
        batched = super().kernel(kernel)
        body = Block((), (Tid(self.item, 0), *batched.body.ops), ())
        return Kernel(batched.name, kernel.grid_rank + 1, batched.params, body, kernel.locals)

    def op(self, op: Op) -> None:
        match op:
            case Tid():
                self.emit(Tid(op.result, op.axis + 1, loc=op.loc))
            case Size() if op.param in self.axis:
                axis = op.axis + (op.axis >= self.axis[op.param])
                self.emit(Size(op.result, self.params[op.param], axis, loc=op.loc))
            case Load() if op.param in self.axis:
                indices = self.element(op.param, op.indices)
                self.emit(Load(op.result, self.params[op.param], indices, loc=op.loc))
            case Store() if op.param in self.axis:
                indices = self.element(op.param, op.indices)
                self.emit(Store(self.params[op.param], indices, op.value, loc=op.loc))
            case Atomic() if op.param in self.axis:
                indices = self.element(op.param, op.indices)
                self.emit(Atomic(op.result, op.kind, self.params[op.param], indices, op.args, op.takes, loc=op.loc))
            case _:
                self.copy(op)

    def element(self, param: Param, indices: tuple[Value, ...]) -> tuple[Value, ...]:
        axis = self.axis[param]
        return (*indices[:axis], self.item, *indices[axis:])
