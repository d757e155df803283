"""Arrays of a thread's own: what `zeros` makes in a kernel, and what tiles lie in.

Each is a `Kernel.locals` of the IR behind a view like any other. Each place in the program that makes one, in each
iteration of an unrolled loop and each inlined call, has an array of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from jaxwarp.errors import KernelValueError
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.values import NoArray, StructView, View
from jaxwarp.frontend.lowering.views import whole
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Array, Indexed, Struct, element_scalar, element_shape, field_type, int32

# Of all arrays of a kernel together, as the program makes them: on the CPU one thread
# runs up to 64 of the launch, fewer where their arrays are large.
MAX_BYTES = 256 * 1024
# Up to so many numbers are cleared one by one, more in loops.
_UNROLLED = 256


def own_array(frame: Frame, name: str, dtype: Any, extents: tuple[int, ...], cleared: bool = True) -> View | StructView:
    """An array that no other thread sees; of structs, one for each field. Fields that are arrays are not there.

    Args:
        cleared: filled with zeros where the program comes by; else elements have no value before they are stored.

    Raises:
        KernelValueError: the kernel's arrays would take more than `MAX_BYTES`.
    """
    if isinstance(dtype, Struct):
        ndim, whole_type = len(extents), Array(dtype, len(extents))
        views = tuple(
            NoArray(field_type(whole_type, f), f"{name}.{f.name}")
            if isinstance(f.type, (Array, Indexed))
            else own_array(frame, f"{name}.{f.name}", f.type, extents, cleared)
            for f in dtype.fields
        )
        return StructView(dtype, ndim, views)
    param = ir.Param(name, element_scalar(dtype), (*extents, *element_shape(dtype)))
    _require_room(frame, param)
    frame.context.locals.append(param)
    if cleared:
        _clear(frame, param)
    return whole(param, dtype, len(extents))


def own_name(frame: Frame, otherwise: str = "array") -> str:
    """A name for a new array: after the variable that it is assigned to, if it can be told."""
    context = frame.context
    base = context.assigned or otherwise
    # Of structs the parts before the first dot, too: theirs have names like `pairs.x`.
    taken = {part for p in (*context.params, *context.locals) for part in (p.name, p.name.split(".")[0])}
    return next(n for n in itertools.chain([base], (f"{base}_{k}" for k in itertools.count(2))) if n not in taken)


def _require_room(frame: Frame, param: ir.Param) -> None:
    size = sum(_count(p) * p.dtype.bytes for p in (*frame.context.locals, param))
    if size > MAX_BYTES:
        raise KernelValueError(
            f"the arrays and tiles that a thread makes take {size} bytes with this one; at most {MAX_BYTES} are"
            " allowed",
            hint="pass a larger array as an argument; make tiles smaller, and loop over more of them",
        )


def _count(param: ir.Param) -> int:
    return math.prod(n or 0 for n in param.shape)


def _clear(frame: Frame, param: ir.Param) -> None:
    builder = frame.builder
    shape = [n or 0 for n in param.shape]
    zero = builder.const(0, param.dtype)
    if _count(param) <= _UNROLLED:
        for indices in itertools.product(*(range(n) for n in shape)):
            builder.store(param, [builder.const(i, int32) for i in indices], zero)
        return
    first, one = builder.const(0, int32), builder.const(1, int32)

    def sweep(outer: Sequence[ir.Value]) -> None:
        if len(outer) == len(shape):
            builder.store(param, outer, zero)
            return

        def body(index: ir.Value) -> tuple[ir.Value, ...]:
            sweep([*outer, index])
            return ()

        builder.for_(first, builder.const(shape[len(outer)], int32), one, (), body)

    sweep([])
