"""Reads and writes of array elements: the loads and stores of their components."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.builtins.scalar_ops import ROWS, row_of_atomic
from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.lowering.values import Chosen, ElementValue, StructValue, View
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.builder import Builder
from jaxwarp.types import Aggregate, Mat, Scalar, Vec, element_scalar, element_shape, int32, int64


def element_type(element: ElementValue) -> Scalar | Aggregate:
    """The type of an element, or of the component or row of it that `element` names."""
    dtype, depth = element.view.dtype, len(element.component)
    if element.part and depth == 0:
        return element.part.dtype
    if depth == 0:
        return dtype
    if isinstance(dtype, Mat) and depth == 1:
        return Vec(dtype.columns, dtype.dtype)
    return element_scalar(dtype)


def addresses(builder: Builder, element: ElementValue) -> Iterator[tuple[ir.Value, ...]]:
    """The indices of each scalar of an element, in row-major order."""
    assert isinstance(element.view, View)
    fixed = (*(a.index for a in element.view.axes if a.index is not None), *element.component)
    if element.view.within is not None:
        yield from _in_memory(builder, element, fixed)
        return
    extents = [n or 0 for n in element.view.param.shape[len(fixed) :]]
    if element.part and not element.component:
        part = element.part
        yield from ((*fixed, builder.const(k, int32)) for k in range(part.start, part.start + part.size))
        return
    for component in itertools.product(*(range(n) for n in extents)):
        yield (*fixed, *(builder.const(k, int32) for k in component))


def _in_memory(builder: Builder, element: ElementValue, fixed: Sequence[ir.Value]) -> Iterator[tuple[ir.Value, ...]]:
    """The same where the array is part of memory: `start + within(i, count) * stride + k`, one index.

    With two axes, `start + within(i, count) * stride + within(j, stride) + k`: rows are side by side.
    """
    assert isinstance(element.view, View)
    assert element.view.within is not None
    place, shape = element.view.within, element_shape(element.view.dtype)
    index, *components = (v if v.type is int64 else builder.call(ROWS["cast"], v, dtype=int64) for v in fixed)
    inside = builder.call(ROWS["within"], index, place.count)
    first = builder.call(ROWS["add"], place.start, builder.call(ROWS["mul"], inside, place.stride))
    if len(element.view.axes) > 1:
        inner, *components = components
        first = builder.call(ROWS["add"], first, builder.call(ROWS["within"], inner, place.stride))
    for axis, component in enumerate(components):
        size = builder.const(math.prod(shape[axis + 1 :]), int64)
        extent = builder.const(shape[axis], int64)
        known = builder.call(ROWS["within"], component, extent)
        first = builder.call(ROWS["add"], first, builder.call(ROWS["mul"], known, size))
    rest = range(math.prod(shape[len(components) :]))
    if element.part and not element.component:
        rest = range(element.part.start, element.part.start + element.part.size)
    for k in rest:
        yield (builder.call(ROWS["add"], first, builder.const(k, int64)),)


def require_own_place(element: ElementValue) -> None:
    """Refuses writes to what an id names."""
    if any(view.within is not None for view in element.views):
        raise KernelTypeError(
            f"{element.view.name} is read through an id, and cannot be written that way",
            hint="pass the array to the kernel, or the object itself",
        )


def load_element(builder: Builder, element: ElementValue) -> ir.Value | Bundle:
    dtype = element_type(element)
    count = 1 if isinstance(dtype, Scalar) else dtype.size

    def load(one: ElementValue, view: View) -> tuple[ir.Value, ...]:
        return tuple(builder.load(view.param, indices) for indices in addresses(builder, one))

    values = at_chosen(builder, element, load, (element_scalar(dtype),) * count)
    return values[0] if isinstance(dtype, Scalar) else Bundle(dtype, values)


def at_chosen(
    builder: Builder,
    element: ElementValue,
    use: Callable[[ElementValue, View], tuple[ir.Value, ...]],
    types: Sequence[Scalar] = (),
) -> tuple[ir.Value, ...]:
    """Use the element of the array that the launch chooses, and return what `use` returns, of these types.

    Of None there is none: no thread goes on to here.
    """
    if not isinstance(element.view, Chosen):
        return use(element, element.view)
    chosen = element.view

    def from_number(k: int) -> tuple[ir.Value, ...]:
        view = chosen.views[k]
        at_this = lambda: use(replace(element, view=view), view)  # noqa: E731
        if k == len(chosen.views) - 1:
            return at_this()
        is_this = builder.call(ROWS["eq"], chosen.which, builder.const(chosen.numbers[k], int32))
        return builder.if_(is_this, at_this, lambda: from_number(k + 1))

    return from_number(0) if chosen.views else tuple(builder.const(0, t) for t in types)


def loaded(builder: Builder, place: Any) -> Any:
    """A value for what was not loaded yet; other values as they are."""
    match place:
        case ElementValue():
            return load_element(builder, place)
        case StructValue():
            values = tuple(loaded(builder, v) for v in place.values)
            is_there = all(a is b for a, b in zip(values, place.values, strict=True))
            return place if is_there else StructValue(place.type, values)
        case _:
            return place


def store_element(builder: Builder, element: ElementValue, value: ir.Value | Bundle) -> None:
    """Stores a value of the element's type."""
    require_own_place(element)
    values = value.values if isinstance(value, Bundle) else (value,)

    def store(one: ElementValue, view: View) -> tuple[ir.Value, ...]:
        for indices, component in zip(addresses(builder, one), values, strict=True):
            builder.store(view.param, indices, component)
        return ()

    at_chosen(builder, element, store)


def update(
    builder: Builder, kind: str, param: ir.Param, indices: Sequence[ir.Value], args: Sequence[ir.Value]
) -> ir.Value:
    """Do what an atomic does, on an array that no other thread sees, and return the old element."""
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
