"""`zeros(shape, dtype)` in a kernel or function: an array that each thread has for itself.

It is a view like any other, so indexing, slices, and passing it to functions are those of arguments. Where the line
runs again, the array is filled with zeros again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.calls import evaluate_arguments
from jaxwarp.frontend.lowering.frame import Frame, lowers
from jaxwarp.frontend.lowering.tiles.own_arrays import own_array, own_name
from jaxwarp.frontend.lowering.values import Intrinsic, Prototype, StructView, View, describe, is_literal
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Aggregate, Scalar, Struct, float32


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
    return own_array(frame, own_name(frame), dtype, known_extents(frame, given["shape"], "zeros"))


def known_extents(
    frame: Frame,
    shape: Any,
    what: str,
    example: str = "zeros(shape=8, dtype=float)",
    is_extent: Callable[[int], bool] = lambda n: n > 0,
) -> tuple[int, ...]:
    """A shape, which must be known before the kernel runs.

    Raises:
        KernelTypeError, KernelValueError: it is not, or has an extent that is no positive integer.
    """
    values = shape if isinstance(shape, tuple) else (shape,)
    known = [frame.known(v) if isinstance(v, ir.Value) or is_literal(v) else None for v in values]
    for value, extent in zip(values, known, strict=True):
        if extent is None and isinstance(value, ir.Value) and value.type.is_int:
            raise KernelValueError(
                f"{what}: the shape of an array made in a kernel must be known before it runs",
                hint="use constants, or static(...); an array whose size the caller decides is an argument",
            )
        if not isinstance(extent, int) or isinstance(extent, bool):
            raise KernelTypeError(
                f"{what}: an extent must be an integer, got {describe(value)}",
                hint="it must be known before the kernel runs: write a number, or the name of a constant",
            )
        if not is_extent(extent):
            raise KernelValueError(f"{what}: an extent must be positive, got {extent}", hint=f"write {example}")
    if not known:
        raise KernelValueError(f"{what}: the shape has no extent", hint="a single number is a variable: x = float(0.0)")
    return tuple(int(n) for n in known if n is not None)


ZEROS = Intrinsic(
    "zeros",
    "An array of zeros that each thread has for itself; its shape is known before the kernel runs.",
    "zeros(shape: int | tuple[int, ...], dtype: type) -> Array",
)
lowers(ZEROS)(_zeros)
