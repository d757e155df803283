"""Reads and writes of array elements: the loads and stores of their components."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.builtins.scalar_ops import row_of_atomic
from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.lowering.values import Element, StructValue
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.builder import Builder
from jaxwarp.types import Aggregate, Mat, Scalar, Vec, element_scalar, int32


def element_type(element: Element) -> Scalar | Aggregate:
    """The type of an element, or of the component or row of it that `element` names."""
    dtype, depth = element.view.dtype, len(element.component)
    if element.part and depth == 0:
        return element.part.dtype
    if depth == 0:
        return dtype
    if isinstance(dtype, Mat) and depth == 1:
        return Vec(dtype.columns, dtype.dtype)
    return element_scalar(dtype)


def addresses(builder: Builder, element: Element) -> Iterator[tuple[ir.Value, ...]]:
    """The indices of each scalar of an element, in row-major order."""
    fixed = (*(a.index for a in element.view.axes if a.index is not None), *element.component)
    extents = [n or 0 for n in element.view.param.shape[len(fixed) :]]
    if element.part and not element.component:
        part = element.part
        yield from ((*fixed, builder.const(k, int32)) for k in range(part.start, part.start + part.size))
        return
    for component in itertools.product(*(range(n) for n in extents)):
        yield (*fixed, *(builder.const(k, int32) for k in component))


def load_element(builder: Builder, element: Element) -> ir.Value | Bundle:
    param, dtype = element.view.param, element_type(element)
    values = tuple(builder.load(param, indices) for indices in addresses(builder, element))
    return values[0] if isinstance(dtype, Scalar) else Bundle(dtype, values)


def loaded(builder: Builder, place: Any) -> Any:
    """A value for what was not loaded yet; other values as they are."""
    match place:
        case Element():
            return load_element(builder, place)
        case StructValue():
            values = tuple(loaded(builder, v) for v in place.values)
            is_there = all(a is b for a, b in zip(values, place.values, strict=True))
            return place if is_there else StructValue(place.type, values)
        case _:
            return place


def store_element(builder: Builder, element: Element, value: ir.Value | Bundle) -> None:
    """Stores a value of the element's type."""
    values = value.values if isinstance(value, Bundle) else (value,)
    for indices, component in zip(addresses(builder, element), values, strict=True):
        builder.store(element.view.param, indices, component)


def update(
    builder: Builder, kind: str, param: ir.Param, indices: Sequence[ir.Value], args: Sequence[ir.Value]
) -> ir.Value:
    """What an atomic does, on an array that no other thread sees."""
    old = builder.load(param, indices)
    if kind == "exch":
        new = args[0]
    elif kind == "cas":
        raise KernelTypeError(
            f"atomic_cas: {param.name} is an array of this thread alone", hint="compare and assign: nobody interferes"
        )
    else:
        new = builder.call(row_of_atomic(kind, param.dtype), old, args[0])
    builder.store(param, indices, new)
    return old
