"""Sums and inner products of arrays outside of JAX, by NumPy, or by kernels on GPUs; casts, by a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxwarp.arrays.create import copy, zeros
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.indexed import IndexedArray
from jaxwarp.arrays.launch import launch
from jaxwarp.arrays.struct_array import new_array
from jaxwarp.boundary import boundary
from jaxwarp.decorators import kernel
from jaxwarp.errors import ArrayError, KernelValueError, OutOfRangeError
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS
from jaxwarp.frontend.text.annotations import array
from jaxwarp.host.checks import (
    require_array,
    require_count,
    require_same_type,
    require_scalars,
    short,
)
from jaxwarp.memory.host_scope import HOST, require_settled
from jaxwarp.memory.scope import view_of
from jaxwarp.types import element_scalar, element_shape, float32, float64

_SUMMED = (float32, float64)
_MOST = 2**31 - 1
_tid, _atomic_add = INTRINSICS["tid"], INTRINSICS["atomic_add"]


@boundary
def array_sum(values: Any, out: Any = None, value_count: int | None = None, axis: int | None = None) -> Any:
    """The sum of the elements of an array, or those along an axis.

    Args:
        values: float32 or float64, or vectors of them.
        out: where the sum goes: one element of that type, or with `axis` those of the shape of `values` with extent 1
            there; None: a new array, or without `axis` the number itself.
        value_count: how many elements are summed, in order, or along the axis; None: all.
        axis: the axis, from the end if it is negative; None: all elements.

    Returns:
        `out`, the new array, or the number.

    Raises:
        ArrayError: another type, or `out` is of another type or shape.
        OutOfRangeError: there is no such axis.
        KernelTypeError, KernelValueError: there are not so many elements, or a tape records.
    """
    what = "array_sum"
    given = require_array(what, "values", values)
    require_scalars(what, given, _SUMMED)
    return _reduced(what, (given,), given.dtype, out, value_count, axis, lambda x: x)


@boundary
def array_inner(a: Any, b: Any, out: Any = None, count: int | None = None, axis: int | None = None) -> Any:
    """The inner product of two arrays: the sum of the products of their elements, of vectors of all components.

    Args:
        a: float32 or float64, or vectors of them.
        b: an array of its shape and type.
        out: where it goes, of scalars; as `array_sum`.
        count: how many elements there are, in order, or along the axis; None: all.
        axis: as in `array_sum`.

    Returns:
        `out`, the new array, or the number.

    Raises:
        KernelValueError: the shapes differ.
        ArrayError: another type, or `out` is of another type or shape.
        OutOfRangeError: there is no such axis.
        KernelTypeError: there are not so many elements, or a tape records.
    """
    what = "array_inner"
    one, other = require_array(what, "a", a), require_array(what, "b", b)
    if one.shape != other.shape:
        raise KernelValueError(f"{what}() arguments must have the same shape, got {one.shape} and {other.shape}")
    require_same_type(what, "A and b array", one, other)
    require_scalars(what, one, _SUMMED)
    components = tuple(range(-len(one.components), 0))

    def products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (x * y).sum(components) if components else x * y

    return _reduced(what, (one, other), element_scalar(one.dtype), out, count, axis, products)


def _reduced(
    what: str, given: tuple[HostArray, ...], element: Any, out: Any, count: Any, axis: Any, terms: Callable[..., Any]
) -> Any:
    first = given[0]
    place = None if axis is None else _axis(what, axis, first.ndim)
    available = first.size if place is None else first.shape[place]
    number = available if count is None else require_count(what, "count", count)
    if number > available:
        raise KernelValueError(f"{what}: count is {number}, but there are {available} elements")
    shape = (1,) if place is None else (*first.shape[:place], 1, *first.shape[place + 1 :])
    if out is None:
        require_settled(what)
        target = zeros(shape, dtype=element, device=first.device)
    else:
        target = require_array(what, "out", out, is_written=True)
        if target.dtype != element:
            raise ArrayError(f"{what}: out array should have type {short(element)}")
        if target.shape != shape:
            raise ArrayError(f"{what}: out array should have shape {shape}")

    if any(not a.device.is_cpu for a in (*given, target)):
        _reduce_on_gpu(what, given, target, place, number)
        return target.numpy()[0] if out is None and place is None else target

    def reduce() -> None:
        parts = [_part(a, place, number) for a in given]
        with np.errstate(all="ignore"):  # infinities, NaN, sums that overflow: what floats do
            found = np.sum(terms(*parts), axis=place or 0, keepdims=True)
        view_of(target.region)[...] = found

    HOST.change(what, reduce, [a.region for a in given], [target.region])
    return target.numpy()[0] if out is None and place is None else target


@kernel
def _add_up(x: array[Any], whole: int, width: int, out: array[Any]):  # pyright: ignore[reportInvalidTypeForm]
    i, j, k = _tid()
    _atomic_add(out, i * width + j, x[(i * whole + k) * width + j])


@kernel
def _add_up_products(
    x: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    y: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    whole: int,
    width: int,
    components: int,
    out: array[Any],  # pyright: ignore[reportInvalidTypeForm]
):
    i, j, k, c = _tid()
    at = ((i * whole + k) * width + j) * components + c
    _atomic_add(out, i * width + j, x[at] * y[at])


def _reduce_on_gpu(what: str, given: Sequence[HostArray], target: HostArray, axis: int | None, count: int) -> None:
    """Reduce by launches, in any order. A tape records these launches, and a capture keeps them."""
    first, components = given[0], math.prod(given[0].components)
    if first.size * components > _MOST:
        raise KernelValueError(f"{what}: on GPUs arrays have at most {_MOST} numbers", hint="sum parts of it")
    rest = first.shape if axis is None else first.shape[axis:]
    whole = first.size if axis is None else rest[0]
    width = 1 if axis is None else math.prod(rest[1:])
    outer = 1 if axis is None else math.prod(first.shape[:axis])
    rows = [_scalars(what, a.contiguous()) for a in given]
    dense = target if target.is_contiguous else zeros(target.shape, dtype=target.dtype, device=target.device)
    dense.zero_()
    sums = _scalars(what, dense)
    if len(rows) == 1:
        width *= components
        launch(_add_up, (outer, width, count), [*rows, whole, width], [sums])
    else:
        launch(_add_up_products, (outer, width, count, components), [*rows, whole, width, components], [sums])
    if dense is not target:
        target.assign(dense)


def _part(array_: HostArray, axis: int | None, count: int) -> np.ndarray:
    """The first elements in order, or along an axis."""
    view = view_of(array_.region)
    if axis is None:
        return view.reshape(array_.size, *element_shape(array_.dtype))[:count]
    return view[(slice(None),) * axis + (slice(count),)]


def _axis(what: str, axis: Any, ndim: int) -> int:
    if not isinstance(axis, int) or not -ndim <= axis < ndim:
        raise OutOfRangeError(f"{what}() axis {axis} is out of bounds: the array has {ndim} axes")
    return axis % ndim


@kernel
def _cast(source: array[Any], target: array[Any]):  # pyright: ignore[reportInvalidTypeForm]
    i = _tid()
    target[i] = target.dtype(source[i])


@boundary
def array_cast(in_array: Any, out_array: Any, count: int | None = None) -> None:
    """Converts the elements of an array to the type of another one. A tape records it.

    Args:
        in_array: of scalars, vectors or matrices; it may be an indexed array, and so may the other.
        out_array: of as many axes and components, or else the scalars of both are taken in order.
        count: how many elements are converted, of arrays with one axis; None: all of `in_array`.

    Raises:
        ArrayError: the shapes differ, or there are not so many elements.
        KernelTypeError, KernelValueError: one is no array outside of JAX, or `count` no number of elements.
    """
    what = "array_cast"
    if isinstance(in_array, IndexedArray):
        in_array = in_array.contiguous()
    if isinstance(out_array, IndexedArray):
        dense = out_array.contiguous()
        array_cast(in_array, dense, count)
        out_array.assign(dense)
        return
    source, target = require_array(what, "in_array", in_array), require_array(what, "out_array", out_array, True)
    number = source.size if count is None else require_count(what, "count", count)
    if source.ndim != target.ndim or source.components != target.components:
        number *= int(np.prod(source.components))
        source, target = _scalars(what, source), _scalars(what, target)
    elif source.ndim > 1 and number < source.size:
        raise ArrayError(f"{what}: Partial cast is not supported for arrays with more than one dimension")
    elif source.ndim > 1 and source.shape != target.shape:
        raise ArrayError(f"{what}: Array shapes do not match ({source.shape} vs {target.shape})")
    if number > source.size or number > target.size:
        raise ArrayError(
            f"{what}: Cast count ({number}) exceeds the input size ({source.size}) or output size ({target.size})"
        )
    if source.dtype == target.dtype:
        copy(target, source, count=number)
        return
    if source.ndim == 1:
        source, target = source[:number], target[:number]
    dense = target if target.is_contiguous else new_array(what, target.dtype, target.shape)
    flat, into = _scalars(what, source.contiguous()), _scalars(what, dense)
    launch(_cast, flat.size, [flat], [into])
    if dense is not target:
        target.assign(dense)


def _scalars(what: str, given: HostArray) -> HostArray:
    """The same memory as scalars with one axis."""
    if not given.is_contiguous:
        raise ArrayError(f"{what}: arrays of {given.shape} with gaps cannot be taken in order: pass array.contiguous()")
    return given.view(element_scalar(given.dtype)).flatten()
