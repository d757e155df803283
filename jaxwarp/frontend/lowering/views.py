"""Array views: indexing, slicing, extents."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.components import test_inside
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.loops.progression import trip_count
from jaxwarp.frontend.lowering.memory import load_element
from jaxwarp.frontend.lowering.values import (
    Axis,
    Chosen,
    ElementAddress,
    ElementValue,
    Prototype,
    Slice,
    View,
    describe,
    is_literal,
)
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Aggregate, Scalar, element_scalar, element_shape, int32

_MOST = 2**31 - 1


def whole(param: ir.Param, dtype: Scalar | Aggregate, ndim: int) -> View:
    """An array parameter as a view of itself."""
    return View(param, dtype, tuple(Axis() for _ in range(ndim)))


def extent(frame: Frame, view: View, axis: int) -> ir.Value:
    """The extent of a parameter's axis in the view."""
    if view.given is not None:
        there = extent(frame, replace(view, given=None), axis)
        return frame.ops.call("select", view.given, there, frame.constant(0, int32))
    found, through = view.axes[axis].extent, view.axes[axis].through
    if through is not None:
        return extent(frame, through, through.free[0])
    if found is not None:
        return found
    size = view.param.shape[axis]
    return frame.builder.size(view.param, axis) if size is None else frame.constant(size, int32)


def shape_of(frame: Frame, view: View | Chosen) -> tuple[ir.Value, ...]:
    return tuple(_extent_of(frame, view, k) for k in range(view.ndim))


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


def _extent_of(frame: Frame, view: View | Chosen, number: int) -> ir.Value:
    """The extent of an axis of a view by its number among those that are not fixed."""
    if isinstance(view, View):
        return extent(frame, view, view.free[number])
    return chosen_number(frame, view, lambda one: _extent_of(frame, one, number))


def chosen_number(frame: Frame, array: Chosen, number: Callable[[View], ir.Value]) -> ir.Value:
    """A number of the array that the launch chooses, 0 if it is None there."""
    *others, last = (number(view) for view in array.views)
    for k, value in reversed(list(enumerate(others))):
        last = frame.ops.call("select", frame.ops.call("eq", array.which, array.numbers[k]), value, last)
    return last if array.given is None else frame.ops.call("select", array.given, last, frame.constant(0, int32))


def shape_item(frame: Frame, view: View | Chosen, index: Any) -> ir.Value:
    """`a.shape[index]`."""
    known = frame.known(index)
    if not isinstance(known, int) or isinstance(known, bool):
        raise KernelTypeError(
            f"the index of a shape must be a constant integer, got {describe(index)}",
            hint="write the number: a.shape[0], a.shape[1]",
        )
    if not -view.ndim <= known < view.ndim:
        raise KernelValueError(
            f"the array has {_count(view.ndim, 'axis', 'axes')}, there is no shape[{known}]",
            hint=f"the axes are 0 to {view.ndim - 1}",
        )
    return _extent_of(frame, view, range(view.ndim)[known])


def index_view(frame: Frame, view: View | Chosen, indices: Sequence[Any]) -> View | Chosen | ElementValue:
    """`a[i, j]`: an element if all axes are indexed, else a view of the rest."""
    if len(indices) > view.ndim:
        raise KernelTypeError(
            f"Incorrect number of indices specified for array indexing: {view.name} has"
            f" {_count(view.ndim, 'axis', 'axes')}, got {_count(len(indices), 'index', 'indices')}",
            hint=f"leave indices out, or annotate the argument with more axes: array(dtype=..., ndim={len(indices)})",
        )
    if isinstance(view, Chosen):
        return _index_chosen(frame, view, indices)
    axes = list(view.axes)
    for number, (axis, index) in enumerate(zip(view.free, indices, strict=False)):
        if isinstance(index, Slice):
            axes[axis] = _sliced(frame, view, axis, index)
        else:
            _require_inside(frame, view, axis, index)
            position = _position(frame, view, axis, index)
            test = None
            # Of a slice: the access itself is tested by the whole array. What an id found has tests of its own.
            if axes[axis].extent is not None and view.within is None:
                test = position, extent(frame, view, axis), f"axis {number} of a slice of {view.name}"
            axes[axis] = Axis(index=_offset(frame, axes[axis], position), test=test)
    result = replace(view, axes=tuple(axes))
    if result.ndim:
        return result
    for position, size, what in (axis.test for axis in axes if axis.test is not None):
        test_inside(frame, position, _as(frame, position.type, size), what)
    return _element(frame, result)


def element_at(frame: Frame, view: View, positions: Sequence[ir.Value]) -> ElementValue:
    """`a[i, j]` by positions along the axes of the view that are known to be in it: none counts from the end."""
    axes = list(view.axes)
    for axis, position in zip(view.free, positions, strict=True):
        axes[axis] = Axis(index=_offset(frame, axes[axis], position))
    return _element(frame, replace(view, axes=tuple(axes)))


def _index_chosen(frame: Frame, array: Chosen, indices: Sequence[Any]) -> Chosen | ElementValue:
    """The same part of each array."""
    parts = [index_view(frame, view, indices) for view in array.views]
    views = tuple(view for part in parts for view in (part.views if isinstance(part, ElementValue) else (part,)))
    result = replace(array, views=views, ndim=views[0].ndim)
    return result if result.ndim else _element(frame, result)


def _element(frame: Frame, view: View | Chosen) -> ElementValue:
    """Return the element, with all axes of an array indexed; a thread fails if the array is None in the launch."""
    if view.given is not None and frame.assumed.get(view.given) is not True:
        Frame.require(frame, view.given, "the array is None here: it has no elements")
    return ElementValue(view)


def _require_inside(frame: Frame, view: View, axis: int, index: Any) -> None:
    """Refuse an index outside of its axis, if the extent and the index are both known."""
    is_whole = view.axes[axis].extent is None and view.axes[axis].through is None
    known, size = frame.known(index), view.param.shape[axis] if is_whole else None
    if isinstance(known, int) and size is not None and not -size <= known < size:
        raise KernelValueError(
            f"index {known} is out of range: this axis of {view.param.name} has the extent {size}",
            hint=f"indices go from 0 to {size - 1}, or from -{size} to -1",
        )


def _position(frame: Frame, view: View, axis: int, index: Any) -> ir.Value:
    """An index along the axis of the view; it counts from the end if it is negative."""
    known = frame.known(index)
    if isinstance(known, int) and not isinstance(known, bool) and known < 0:
        return frame.ops.call("sub", extent(frame, view, axis), -known)
    position = frame.index(index, f"an index of {view.param.name}")
    return frame.from_end(index, position, lambda: extent(frame, view, axis), view.param)


def _offset(frame: Frame, axis: Axis, position: ir.Value) -> ir.Value:
    if axis.through is not None:
        element = index_view(frame, axis.through, [position])
        assert isinstance(element, ElementValue)
        found = load_element(frame.builder, element)
        assert isinstance(found, ir.Value)
        return found
    if axis.step is not None:
        position = frame.ops.call("mul", position, _as(frame, position.type, axis.step))
    if axis.offset is None:
        return position
    return frame.ops.call("add", _as(frame, position.type, axis.offset), position)


def _as(frame: Frame, dtype: Scalar, value: ir.Value) -> ir.Value:
    return value if value.type == dtype else frame.ops.cast_scalar(dtype, value)


def _sliced(frame: Frame, view: View, axis: int, index: Slice) -> Axis:
    """`start:stop:step` along an axis, as in Python: bounds below 0 count from the end, all are clamped to the axis."""
    step = 1 if index.step is None else frame.known(index.step)
    has_step = type(step) is not int or step != 1
    if type(step) is int and step == 0:
        raise KernelValueError("Slice step cannot be zero", hint="leave it out")
    if index.start is None and index.stop is None and not has_step:
        return view.axes[axis]
    through = view.axes[axis].through
    if through is not None:
        part = index_view(frame, through, [index])
        assert isinstance(part, View)
        return Axis(through=part)
    size = extent(frame, view, axis)
    if not has_step:
        start = _bound(frame, view, index.start, (0, size), size) if index.start is not None else None
        stop = _bound(frame, view, index.stop, (0, size), size) if index.stop is not None else size
        if start is None:
            return replace(view.axes[axis], extent=stop)
        length = frame.ops.call("max", frame.ops.call("sub", stop, start), 0)
        return replace(view.axes[axis], offset=_offset(frame, view.axes[axis], start), extent=length)
    return _stepped(frame, view, axis, index, size)


def _stepped(frame: Frame, view: View, axis: int, index: Slice, size: ir.Value) -> Axis:
    """A slice with a step; one of 0 that is computed at run time selects nothing."""
    call, around, known = frame.ops.call, view.axes[axis], frame.known(index.step)
    step = frame.index(index.step, f"the step of a slice of {view.param.name}")
    # Axes are shorter than the steps that an int32 does not hold.
    step = _as(frame, int32, call("max", call("min", step, _MOST), -_MOST))
    last, before, zero = call("sub", size, 1), frame.constant(-1, int32), frame.constant(0, int32)

    def either(up: ir.Value, down: ir.Value) -> ir.Value:
        if isinstance(known, int):
            return up if known > 0 else down
        return call("select", call("gt", step, 0), up, down)

    limits = either(zero, before), either(size, last)
    start, stop = either(zero, last), either(size, before)
    start = start if index.start is None else _bound(frame, view, index.start, limits, size)
    stop = stop if index.stop is None else _bound(frame, view, index.stop, limits, size)
    length = _as(frame, int32, trip_count(frame, start, stop, step))
    whole = step if around.step is None else call("mul", around.step, step)
    return Axis(offset=_offset(frame, around, start), extent=length, step=whole)


def _bound(frame: Frame, view: View, bound: Any, limits: tuple[Any, ir.Value], size: ir.Value) -> ir.Value:
    known = frame.known(bound)
    position = frame.index(bound, f"a bound of a slice of {view.param.name}")
    call, limit = frame.ops.call, _as(frame, position.type, size)
    if isinstance(known, int):
        position = call("add", position, limit) if known < 0 else position
    elif position.type.is_signed:
        position = call("select", call("lt", position, 0), call("add", position, limit), position)
    low, high = (v if isinstance(v, int) else _as(frame, position.type, v) for v in limits)
    return _as(frame, int32, call("min", call("max", position, low), high))


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


# `array(ptr=a.ptr + 40, shape=5, dtype=vec2)`: a part of an array that the thread made, under another name

_PART_HINT = "write array(ptr=a.ptr, shape=5, dtype=float), where a is a zeros(shape=..., dtype=float) of the kernel"


def moved(frame: Frame, operator: str, operands: Sequence[Any]) -> ElementAddress:
    """`a.ptr + n`.

    Raises:
        KernelTypeError: it is another operator, or n is not known before the kernel runs.
    """
    address, number = sorted(operands, key=lambda v: not isinstance(v, ElementAddress))
    by = frame.known(number) if isinstance(number, ir.Value) or is_literal(number) else None
    if operator != "add" or not isinstance(by, int) or isinstance(by, bool):
        raise KernelTypeError(
            f"an address has no arithmetic but + a constant number of bytes, got {describe(number)}", hint=_PART_HINT
        )
    return ElementAddress(address.view, address.offset + by)


def array_at(frame: Frame, args: Sequence[Any], keywords: dict[str, Any]) -> View:
    """Return the view that `array(ptr=..., shape=..., dtype=...)` is.

    Raises:
        KernelTypeError: `ptr` is no address of an array that the thread made, or `dtype` is not its type.
        KernelValueError: the elements are not all in that array.
    """
    address, dtype = keywords.get("ptr"), keywords.get("dtype")
    dtype = dtype.type if isinstance(dtype, Prototype) else dtype
    if args or keywords.keys() != {"ptr", "shape", "dtype"} or not isinstance(address, ElementAddress):
        raise KernelTypeError("array: in a kernel it is a part of an array that the kernel made", hint=_PART_HINT)
    view, shape = address.view, known_extents(frame, keywords["shape"], "array")
    if view.param not in frame.context.locals or len(view.axes) != 1 or view.axes[0].step or view.axes[0].through:
        raise KernelTypeError(
            f"array: ptr: expected the address of an array of one axis that the kernel made, got that of {view.name}",
            hint="pass the array itself, or a slice of it: a[2:7]",
        )
    if dtype != view.dtype or len(shape) != 1:
        raise KernelTypeError(
            f"array: expected one axis of {view.dtype!r}, as {view.name} is, got {len(shape)} of {describe(dtype)}",
            hint=_PART_HINT,
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
