"""Extents, and integers given by value, that a launch knows, as constants.

    %n = size @x, 0          -> 512             where x has 512 rows
    %n = load @n[]           -> 512             where the program holds the number as a constant
    @x: f32[?, ?]            -> @x: f32[512, 64]

What a kernel computes stays, to the last bit: how it rounds is decided before (`passes/pipeline.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import InternalError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Const, Load, Op, Param, Size
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.simplify import simplify

Shape = tuple[int | None, ...]


@with_deep_stack
def with_extents(kernel: Kernel, shapes: Sequence[Shape], numbers: Mapping[int, int] | None = None) -> Kernel:
    """A prepared kernel for arrays of these shapes, one for each parameter; None: known at run time only.

    Args:
        kernel: the kernel.
        shapes: of its parameters.
        numbers: the values of some parameters without axes, which it does not write.
    """
    return simplify(_Extents(kernel, shapes, numbers or {}).kernel(kernel))


class _Extents(Rewriter):
    def __init__(self, kernel: Kernel, shapes: Sequence[Shape], numbers: Mapping[int, int]):
        super().__init__()
        self.numbers = {kernel.params[i]: number for i, number in numbers.items()}
        for param, shape in zip(kernel.params, shapes, strict=True):
            known = tuple(map(_known, param.shape, shape))
            if known != param.shape:
                self.params[param] = Param(param.name, param.dtype, known)

    def op(self, op: Op) -> None:
        if isinstance(op, Size):
            extent = self.param(op.param).shape[op.axis]
            if extent is not None:
                self.emit(Const(op.result, extent, loc=op.loc))
                return
        if isinstance(op, Load) and op.param in self.numbers:
            self.emit(Const(op.result, self.numbers[op.param], loc=op.loc))
            return
        self.copy(op)


def _known(declared: int | None, given: int | None) -> int | None:
    if declared is not None and given is not None and declared != given:
        raise InternalError(f"an extent that is {declared} in the kernel is {given} in its launch")
    return given if declared is None else declared
