"""Array views: indexing, slicing, extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxwarp.errors import KernelSyntaxError, KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.memory import load_element
from jaxwarp.frontend.lowering.values import Axis, Element, Slice, View, describe
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Aggregate, Scalar, int32


def whole(param: ir.Param, dtype: Scalar | Aggregate, ndim: int) -> View:
    """An array parameter as a view of itself."""
    return View(param, dtype, tuple(Axis() for _ in range(ndim)))


def extent(frame: Frame, view: View, axis: int) -> ir.Value:
    """The extent of a parameter's axis in the view."""
    found, size, through = view.axes[axis].extent, view.param.shape[axis], view.axes[axis].through
    if through is not None:
        return extent(frame, through, through.free[0])
    if found is not None:
        return found
    return frame.builder.size(view.param, axis) if size is None else frame.constant(size, int32)


def shape_of(frame: Frame, view: View) -> tuple[ir.Value, ...]:
    return tuple(extent(frame, view, axis) for axis in view.free)


def shape_item(frame: Frame, view: View, index: Any) -> ir.Value:
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
    return extent(frame, view, view.free[known])


def index_view(frame: Frame, view: View, indices: Sequence[Any]) -> View | Element:
    """`a[i, j]`: an element if all axes are indexed, else a view of the rest."""
    if len(indices) > view.ndim:
        raise KernelTypeError(
            f"{view.param.name} has {_count(view.ndim, 'axis', 'axes')},"
            f" got {_count(len(indices), 'index', 'indices')}",
            hint=f"leave indices out, or annotate the argument with more axes: array(dtype=..., ndim={len(indices)})",
        )
    axes = list(view.axes)
    for axis, index in zip(view.free, indices, strict=False):
        if isinstance(index, Slice):
            axes[axis] = _sliced(frame, view, axis, index)
        else:
            _require_inside(frame, view, axis, index)
            axes[axis] = Axis(index=_offset(frame, axes[axis], _position(frame, view, axis, index)))
    result = View(view.param, view.dtype, tuple(axes))
    return result if result.ndim else Element(result)


def _require_inside(frame: Frame, view: View, axis: int, index: Any) -> None:
    """Where extent and index are both known, an index outside is an error."""
    known, size = frame.known(index), view.param.shape[axis]
    is_whole = view.axes[axis].extent is None and view.axes[axis].through is None
    if isinstance(known, int) and size is not None and is_whole and not -size <= known < size:
        raise KernelValueError(
            f"index {known} is out of range: this axis of {view.param.name} has the extent {size}",
            hint=f"indices go from 0 to {size - 1}",
        )


def _position(frame: Frame, view: View, axis: int, index: Any) -> ir.Value:
    """An index along the axis of the view; constants count from the end if negative."""
    known = frame.known(index)
    if isinstance(known, int) and not isinstance(known, bool) and known < 0:
        return frame.ops.call("sub", extent(frame, view, axis), -known)
    return frame.index(index, f"an index of {view.param.name}")


def _offset(frame: Frame, axis: Axis, position: ir.Value) -> ir.Value:
    if axis.through is not None:
        element = index_view(frame, axis.through, [position])
        assert isinstance(element, Element)
        found = load_element(frame.builder, element)
        assert isinstance(found, ir.Value)
        return found
    if axis.offset is None:
        return position
    offset = axis.offset
    if position.type != offset.type:
        offset = frame.ops.cast_scalar(position.type, offset)
    return frame.ops.call("add", offset, position)


def _sliced(frame: Frame, view: View, axis: int, index: Slice) -> Axis:
    """`start:stop` along an axis, clamped to it as in Python; a run-time bound below 0 is taken as 0."""
    if index.step is not None and frame.known(index.step) != 1:
        raise KernelSyntaxError("slices of arrays have no step", hint="multiply the index by the step")
    if index.start is None and index.stop is None:
        return view.axes[axis]
    through = view.axes[axis].through
    if through is not None:
        part = index_view(frame, through, [index])
        assert isinstance(part, View)
        return Axis(through=part)
    size = extent(frame, view, axis)
    start = _bound(frame, view, axis, index.start, size) if index.start is not None else None
    stop = _bound(frame, view, axis, index.stop, size) if index.stop is not None else size
    if start is None:
        return Axis(offset=view.axes[axis].offset, extent=stop)
    length = frame.ops.call("max", frame.ops.call("sub", stop, start), 0)
    return Axis(offset=_offset(frame, view.axes[axis], start), extent=length)


def _bound(frame: Frame, view: View, axis: int, bound: Any, size: ir.Value) -> ir.Value:
    position = _position(frame, view, axis, bound)
    limit = frame.ops.cast_scalar(position.type, size)
    clamped = frame.ops.call("min", frame.ops.call("max", position, 0), limit)
    return frame.ops.cast_scalar(int32, clamped)


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"
