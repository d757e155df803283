"""Short rows: the last two axes of a launch as one, where they only ever say which element of arrays is meant.

    o[i, j] = f(x[i, j])  over (n, 3)          o[k] = f(x[k])  over 3 n

Lanes run along the last axis, so rows of three fill three lanes. Where every use of the last two thread indices is as
neighbouring indices of arrays whose second extent there is that of the launch, the element is the same one,
i * extent + j, if both are one index and the arrays are seen with these axes merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Load, Op, Param, Size, Store, Tid, Value, walk
from jaxwarp.ir.rewrite import Rewriter


@with_deep_stack
def merged_axes(kernel: Kernel) -> dict[Param, int] | None:
    """The arrays that are indexed by the last two thread indices, each with the axis that the first of them is for.

    None where an index serves for anything else, so that the axes cannot be merged.
    """
    if kernel.grid_rank < 2:
        return None
    uses = _Uses(kernel)
    found: dict[Param, int] = {}
    for op in walk(kernel.body):
        if any(uses.has(block.results) for block in op.blocks):
            return None
        if isinstance(op, (Load, Store, Atomic)):
            axis = uses.place(op)
            others = op.operands[len(op.indices) :]
            if uses.has(others) or (axis is None and uses.has(op.indices)):
                return None
            if found.setdefault(op.param, -1 if axis is None else axis) != (-1 if axis is None else axis):
                return None
        elif uses.has(op.operands):
            return None
    found = {param: axis for param, axis in found.items() if axis >= 0}
    sized = {op.param for op in walk(kernel.body) if isinstance(op, Size)}
    if not found or sized & set(found) or set(kernel.locals) & set(found) or uses.has(kernel.body.results):
        return None
    return found


class _Uses:
    def __init__(self, kernel: Kernel):
        tids = [op for op in walk(kernel.body) if isinstance(op, Tid)]
        self.first = {op.result for op in tids if op.axis == kernel.grid_rank - 2}
        self.second = {op.result for op in tids if op.axis == kernel.grid_rank - 1}

    def has(self, values: Sequence[Value]) -> bool:
        return any(v in self.first or v in self.second for v in values)

    def place(self, op: Load | Store | Atomic) -> int | None:
        """The axis p where the indices are [..., i, j, ...], if they are nowhere else and both extents are free."""
        for axis, (a, b) in enumerate(zip(op.indices, op.indices[1:], strict=False)):
            if a in self.first and b in self.second:
                rest = (*op.indices[:axis], *op.indices[axis + 2 :])
                return None if self.has(rest) or op.param.shape[axis : axis + 2] != (None, None) else axis
        return None


@with_deep_stack
def merge_axes(kernel: Kernel, axes: Mapping[Param, int]) -> Kernel:
    """The kernel over one axis less, given `merged_axes`; merged arrays have one axis less, too."""
    return _Merge(kernel, axes).made()


class _Merge(Rewriter):
    def __init__(self, kernel: Kernel, axes: Mapping[Param, int]):
        super().__init__()
        self.old, self.axes = kernel, axes
        for param, axis in axes.items():
            shape = (*param.shape[:axis], *param.shape[axis + 1 :])
            self.params[param] = Param(param.name, param.dtype, shape)

    def made(self) -> Kernel:
        made = self.kernel(self.old)
        return Kernel(made.name, made.grid_rank - 1, made.params, made.body, made.locals)

    def op(self, op: Op) -> None:
        if isinstance(op, Tid) and op.axis == self.old.grid_rank - 1:
            return
        if not isinstance(op, (Load, Store, Atomic)) or op.param not in self.axes:
            self.copy(op)
            return
        axis, param = self.axes[op.param], self.param(op.param)
        indices = self.all((*op.indices[: axis + 1], *op.indices[axis + 2 :]))
        match op:
            case Load():
                self.emit(Load(op.result, param, indices, loc=op.loc))
            case Store():
                self.emit(Store(param, indices, self.value(op.value), loc=op.loc))
            case Atomic():
                self.emit(Atomic(op.result, op.kind, param, indices, self.all(op.args), loc=op.loc))
