"""`array(ptr=a.ptr + 40, shape=5, dtype=vec2)`: a part of an array that the thread made, under another name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.values import Address, Axis, Prototype, View, describe, is_literal
from jaxwarp.frontend.lowering.views import known_extents
from jaxwarp.ir import nodes as ir
from jaxwarp.types import element_scalar, element_shape, int32

_HINT = "write array(ptr=a.ptr, shape=5, dtype=float), where a is a zeros(shape=..., dtype=float) of the kernel"


def moved(frame: Frame, operator: str, operands: Sequence[Any]) -> Address:
    """`a.ptr + n`.

    Raises:
        KernelTypeError: it is another operator, or n is not known before the kernel runs.
    """
    address, number = sorted(operands, key=lambda v: not isinstance(v, Address))
    by = frame.known(number) if isinstance(number, ir.Value) or is_literal(number) else None
    if operator != "add" or not isinstance(by, int) or isinstance(by, bool):
        raise KernelTypeError(
            f"an address has no arithmetic but + a constant number of bytes, got {describe(number)}", hint=_HINT
        )
    return Address(address.view, address.offset + by)


def array_at(frame: Frame, args: Sequence[Any], keywords: dict[str, Any]) -> View:
    """Return the view that `array(ptr=..., shape=..., dtype=...)` is.

    Raises:
        KernelTypeError: `ptr` is no address of an array that the thread made, or `dtype` is not its type.
        KernelValueError: the elements are not all in that array.
    """
    address, dtype = keywords.get("ptr"), keywords.get("dtype")
    dtype = dtype.type if isinstance(dtype, Prototype) else dtype
    if args or keywords.keys() != {"ptr", "shape", "dtype"} or not isinstance(address, Address):
        raise KernelTypeError("array: in a kernel it is a part of an array that the kernel made", hint=_HINT)
    view, shape = address.view, known_extents(frame, keywords["shape"], "array")
    if view.param not in frame.context.locals or len(view.axes) != 1 or view.axes[0].step or view.axes[0].through:
        raise KernelTypeError(
            f"array: ptr: expected the address of an array of one axis that the kernel made, got that of {view.name}",
            hint="pass the array itself, or a slice of it: a[2:7]",
        )
    if dtype != view.dtype or len(shape) != 1:
        raise KernelTypeError(
            f"array: expected one axis of {view.dtype!r}, as {view.name} is, got {len(shape)} of {describe(dtype)}",
            hint=_HINT,
        )
    size = element_scalar(view.dtype).bytes * math.prod(element_shape(view.dtype))
    before = view.axes[0].offset
    first = 0 if before is None else frame.known(before)
    extent = view.param.shape[0]
    assert extent is not None
    if not isinstance(first, int) or address.offset % size:
        raise KernelValueError(
            f"array: ptr: expected the address of an element of {view.name}, whose elements take {size} bytes,"
            f" got {address.offset} bytes behind its first one",
            hint=f"add a multiple of {size}, to the address of an array that is no slice",
        )
    begin = first + address.offset // size
    if begin < 0 or begin + shape[0] > extent:
        raise KernelValueError(
            f"array: elements {begin} to {begin + shape[0] - 1} of {view.name} were expected to be in it, which has"
            f" {extent}",
            hint="make the array larger, or the part of it smaller",
        )
    return View(view.param, view.dtype, (Axis(offset=_number(frame, begin), extent=_number(frame, shape[0])),))


def _number(frame: Frame, value: int) -> ir.Value:
    return frame.constant(value, int32)
