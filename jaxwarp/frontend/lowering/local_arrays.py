"""`zeros(shape, dtype)` in a kernel or function: an array that each thread has for itself.

It is a `Kernel.locals` of the IR behind a view like any other, so indexing, slices, and passing it to functions are
those of arguments. Each place in the program that makes one, in each iteration of an unrolled loop and each inlined
call, has an array of its own; where it runs again, the array is filled with zeros again.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Sequence
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.calls import evaluate_arguments
from jaxwarp.frontend.lowering.frame import Frame, lowers
from jaxwarp.frontend.lowering.values import Intrinsic, NoArray, Prototype, StructView, View, describe, is_literal
from jaxwarp.frontend.lowering.views import whole
from jaxwarp.ir import nodes as ir
from jaxwarp.types import (
    Aggregate,
    Array,
    Indexed,
    Scalar,
    Struct,
    element_scalar,
    element_shape,
    field_type,
    float32,
    int32,
)

# Of all arrays of a kernel together, as the program makes them: they lie on the stack of a thread, and on the CPU one
# thread runs up to 64 of the launch.
MAX_BYTES = 16 * 1024
# Up to so many numbers are cleared one by one, more in loops.
_UNROLLED = 256


def _zeros(frame: Frame, node: ast.Call) -> View | StructView:
    args, keywords = evaluate_arguments(frame, node)
    names = ("shape", "dtype")
    given: dict[str, Any] = dict(zip(names, args, strict=False))
    unknown = [k for k in keywords if k not in names or k in given]
    if len(args) > len(names) or unknown or not (args or "shape" in keywords):
        raise KernelTypeError(
            "zeros: expected a shape and a type", hint="write zeros(shape=(4, 3), dtype=float), or zeros(8, float)"
        )
    given |= keywords
    dtype = given.get("dtype", float32)
    dtype = dtype.type if isinstance(dtype, Prototype) else dtype
    if not isinstance(dtype, Scalar | Aggregate | Struct):
        raise KernelTypeError(
            f"zeros: dtype must be a scalar, vector, matrix or struct type, got {describe(dtype)}",
            hint="write zeros(shape=8, dtype=float)",
        )
    return _made(frame, _name(frame), dtype, _extents(frame, given["shape"]))


def _made(frame: Frame, name: str, dtype: Any, extents: tuple[int, ...]) -> View | StructView:
    """An array of zeros; of structs, one for each field. Fields that are arrays are not there."""
    if isinstance(dtype, Struct):
        ndim, whole_type = len(extents), Array(dtype, len(extents))
        views = tuple(
            NoArray(field_type(whole_type, f), f"{name}.{f.name}")
            if isinstance(f.type, (Array, Indexed))
            else _made(frame, f"{name}.{f.name}", f.type, extents)
            for f in dtype.fields
        )
        return StructView(dtype, ndim, views)
    param = ir.Param(name, element_scalar(dtype), (*extents, *element_shape(dtype)))
    _require_room(frame, param)
    frame.context.locals.append(param)
    _clear(frame, param)
    return whole(param, dtype, len(extents))


def _extents(frame: Frame, shape: Any) -> tuple[int, ...]:
    """The shape, which must be known."""
    values = shape if isinstance(shape, tuple) else (shape,)
    known = [frame.known(v) if isinstance(v, ir.Value) or is_literal(v) else None for v in values]
    for value, extent in zip(values, known, strict=True):
        if extent is None and isinstance(value, ir.Value) and value.type.is_int:
            raise KernelValueError(
                "zeros: the shape of an array made in a kernel must be known before it runs",
                hint="use constants, or static(...); an array whose size the caller decides is an argument",
            )
        if not isinstance(extent, int) or isinstance(extent, bool):
            raise KernelTypeError(
                f"zeros: an extent must be an integer, got {describe(value)}",
                hint="it must be known before the kernel runs: write a number, or the name of a constant",
            )
        if extent < 1:
            raise KernelValueError(
                f"zeros: an extent must be positive, got {extent}", hint="write zeros(shape=8, dtype=float)"
            )
    if not known:
        raise KernelValueError("zeros: the shape has no extent", hint="a single number is a variable: x = float(0.0)")
    return tuple(int(n) for n in known if n is not None)


def _name(frame: Frame) -> str:
    """After the variable that it is assigned to, if it can be told."""
    context = frame.context
    base = context.assigned or "array"
    # Of structs the parts before the first dot, too: theirs have names like `pairs.x`.
    taken = {part for p in (*context.params, *context.locals) for part in (p.name, p.name.split(".")[0])}
    return next(n for n in itertools.chain([base], (f"{base}_{k}" for k in itertools.count(2))) if n not in taken)


def _require_room(frame: Frame, param: ir.Param) -> None:
    size = sum(_count(p) * p.dtype.bytes for p in (*frame.context.locals, param))
    if size > MAX_BYTES:
        raise KernelValueError(
            f"zeros: the arrays that a thread makes take {size} bytes with this one; at most {MAX_BYTES} are allowed",
            hint="pass a larger array as an argument",
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


ZEROS = Intrinsic(
    "zeros",
    "An array of zeros that each thread has for itself; its shape is known before the kernel runs.",
    "zeros(shape: int | tuple[int, ...], dtype: type) -> Array",
)
lowers(ZEROS)(_zeros)
