"""`zeros(shape, dtype)` in a kernel or function: an array that each thread has for itself.

It is a view like any other, so indexing, slices, and passing it to functions are those of arguments. Where the line
runs again, the array is filled with zeros again.
"""

from __future__ import annotations

import ast
from typing import Any

from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.lowering.calls import evaluate_arguments
from jaxwarp.frontend.lowering.frame import Frame, lowers
from jaxwarp.frontend.lowering.tiles.own_arrays import own_array, own_name
from jaxwarp.frontend.lowering.values import Intrinsic, Prototype, StructView, View, describe
from jaxwarp.frontend.lowering.views import known_extents
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


ZEROS = Intrinsic(
    "zeros",
    "An array of zeros that each thread has for itself; its shape is known before the kernel runs.",
    "zeros(shape: int | tuple[int, ...], dtype: type) -> Array",
)
lowers(ZEROS)(_zeros)
