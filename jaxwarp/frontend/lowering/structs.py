"""Structs in kernels: made, read, changed; and arrays of structs.

The IR has none. A struct is a value for each of its fields, and an array of structs an array for each of them, so a
kernel with structs is the kernel written with separate variables and arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelNameError, KernelTypeError, KernelValueError, did_you_mean
from jaxwarp.frontend.lowering.binding import converted
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.memory import element_type, load_element, store_element
from jaxwarp.frontend.lowering.merge import Paths
from jaxwarp.frontend.lowering.values import (
    Axis,
    ElementValue,
    NoArray,
    Slice,
    StructValue,
    StructView,
    Tile,
    View,
    describe,
)
from jaxwarp.frontend.lowering.views import index_view, whole
from jaxwarp.ir import nodes as ir
from jaxwarp.types import (
    ABSENT_HINTS,
    Absent,
    Array,
    Indexed,
    Scalar,
    Struct,
    StructField,
    element_scalar,
    element_shape,
    field_type,
    int32,
    leaves_of,
    struct_in,
)


def parameters(arguments: Sequence[tuple[str, Any]], types: Sequence[Any]) -> tuple[ir.Param, ...]:
    """The buffers of arguments: those of structs have one for each field, `s.x`.

    Args:
        arguments: names and annotations.
        types: of the leaves.
    """
    names = [name for argument in arguments for name, _ in leaves_of(*argument)]
    return tuple(_parameter(name, dtype) for name, dtype in zip(names, types, strict=True))


def _parameter(name: str, dtype: Any) -> ir.Param:
    """The buffer of a leaf: array axes, then component axes."""
    dtype = dtype.array if isinstance(dtype, Absent) else dtype
    if isinstance(dtype, Array):
        shape: tuple[int | None, ...] = (None,) * dtype.ndim
        return ir.Param(name, element_scalar(dtype.dtype), shape + element_shape(dtype.dtype))
    return ir.Param(name, element_scalar(dtype), element_shape(dtype))


def argument_values(
    frame: Frame, arguments: Sequence[tuple[str, Any]], types: Sequence[Any], params: Sequence[ir.Param]
) -> dict[str, Any]:
    """The variables that a kernel's function sees; by-value arguments are read once, at the start."""
    leaves = list(zip(params, types, strict=True))[::-1]
    return {name: _argument_value(frame, annotation, leaves) for name, annotation in arguments}


def _argument_value(frame: Frame, annotation: Any, leaves: list[tuple[ir.Param, Any]], hint: str = "") -> Any:
    struct = struct_in(annotation)
    if struct is not None:
        hints = getattr(struct.kind, ABSENT_HINTS, {})
        parts = tuple(
            _argument_value(frame, field_type(annotation, f), leaves, hints.get(f.name, "")) for f in struct.fields
        )
        is_array = isinstance(annotation, Array)
        if isinstance(struct, Indexed) and not is_array:
            return _through(parts[0], parts[1:])
        return StructView(struct, annotation.ndim, parts) if is_array else StructValue(struct, parts)
    param, dtype = leaves.pop()
    if isinstance(dtype, Absent):
        return NoArray(dtype.array, param.name, hint)
    if isinstance(dtype, Array):
        return whole(param, dtype.dtype, dtype.ndim)
    return load_element(frame.builder, ElementValue(whole(param, dtype, 0)))


def _through(data: Any, indices: Sequence[Any]) -> Any:
    """An array at indices: arrays of numbers of elements, or None, for its leading axes."""
    if isinstance(data, StructView):
        return StructView(data.dtype, data.ndim, tuple(_through(v, indices) for v in data.views))
    if not isinstance(data, View):
        return data
    found = [Axis(through=i) if isinstance(i, View) else axis for i, axis in zip(indices, data.axes, strict=False)]
    return replace(data, axes=(*found, *data.axes[len(found) :]))


def construct_struct(frame: Frame, struct: Struct, args: Sequence[Any], keywords: dict[str, Any]) -> StructValue:
    """`S()`, `S(a, b)`, `S(a=..., b=...)`: fields that are left out have their default, or are zero."""
    names = [f.name for f in struct.fields]
    if len(args) > len(names):
        raise KernelTypeError(
            f"{struct!r}: expected at most {len(names)} value{'s' * (len(names) != 1)}, got {len(args)}",
            hint=f"its fields are {_listed(struct)}",
        )
    given = dict(zip(names, args, strict=False))
    for name, value in keywords.items():
        if name not in names:
            raise KernelTypeError(f"{struct!r} has no field {name}", hint=_field_hint(struct, name))
        if name in given:
            raise KernelTypeError(f"{struct!r}: the field {name} is given twice", hint="leave one of them out")
        given[name] = value
    return StructValue(struct, tuple(_initial(frame, struct, f, given) for f in struct.fields))


def _initial(frame: Frame, struct: Struct, field: StructField, given: dict[str, Any]) -> Any:
    if field.name in given:
        return fitted(frame, struct, field, given[field.name])
    if field.default is not None:
        return fitted(frame, struct, field, frame.adopt(field.default()))
    match field.type:
        case Struct():
            return construct_struct(frame, field.type, (), {})
        case Array():
            return NoArray(field.type, f"{struct!r}.{field.name}")
        case Scalar():
            return frame.constant(0, field.type)
        case _:
            return frame.ops.construct(field.type, [])


def fitted(frame: Frame, struct: Struct, field: StructField, value: Any) -> Any:
    """A value as a field has it: literals get its type.

    Raises:
        KernelTypeError: the value has another type.
    """
    return converted(frame, value, field.type, f"the field {field.name} of {struct!r} is")


def field_of(base: StructValue | StructView, name: str) -> Any:
    """A field of a struct; of an array of structs, the array of that field.

    Raises:
        KernelNameError: there is none of that name.
    """
    struct = base.type if isinstance(base, StructValue) else base.dtype
    index = struct.index(name)
    if index is None:
        raise KernelNameError(f"{struct!r} has no field {name}", hint=_field_hint(struct, name))
    return base.values[index] if isinstance(base, StructValue) else base.views[index]


def _field_hint(struct: Struct, name: str) -> str:
    if name in struct.members:
        return f"{name} belongs to the class, and is a constant: make it a field"
    near = did_you_mean(name, [*(f.name for f in struct.fields), *struct.members])
    return near or f"its fields are {_listed(struct)}"


def _listed(struct: Struct) -> str:
    return ", ".join(f.name for f in struct.fields) or "none"


def changed_fields(value: StructValue, name: str, statements: Sequence[ast.AST]) -> Paths | None:
    """The parts of a struct variable that statements may change; None: all of it.

    `s.a[i] = x` changes an array that `s` names, not `s`.
    """
    paths: set[tuple[str, ...]] = set()
    for node in (n for s in statements for n in ast.walk(s)):
        if isinstance(node, (ast.Name, ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            path = _changed(value, node, name)
            paths |= set() if path is None else {path}
    return None if () in paths else frozenset(paths)


def _changed(value: StructValue, node: ast.expr, name: str) -> tuple[str, ...] | None:
    """The fields that lead to a target; None where it is no part of the variable, or in an array that it names."""
    path: list[str] = []
    indexed = False
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        if isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
        else:
            path, indexed = [], True
        node = node.value
    if not (isinstance(node, ast.Name) and node.id == name):
        return None
    reached: Any = value
    for k, field in enumerate(path):
        base, reached = reached, None
        if isinstance(base, StructValue) and (index := base.type.index(field)) is not None:
            reached = base.values[index]
        if isinstance(reached, (View, StructView)) and (indexed or k < len(path) - 1):
            return None
    return tuple(path)


def index_struct(frame: Frame, view: StructView, indices: Sequence[Any]) -> StructView | StructValue:
    """`a[i, j]`: a struct that is not loaded yet if all axes are indexed, else a part of the array."""
    if len(indices) > view.ndim:
        axes, given = ("1 axis" if view.ndim == 1 else f"{view.ndim} axes"), len(indices)
        raise KernelTypeError(
            f"{view.name} has {axes}, got {given} ind{'ex' if given == 1 else 'ices'}",
            hint="leave out indices; a field comes after the brackets: a[i].x",
        )
    left = view.ndim - sum(not isinstance(i, Slice) for i in indices)
    parts = tuple(_indexed(frame, v, indices) for v in view.views)
    return StructView(view.dtype, left, parts) if left else StructValue(view.dtype, parts)


def _indexed(frame: Frame, view: View | StructView | NoArray, indices: Sequence[Any]) -> Any:
    match view:
        case StructView():
            return index_struct(frame, view, indices)
        case NoArray():
            return view
        case _:
            return index_view(frame, view, indices)


def outline(frame: Frame, view: StructView) -> View:
    """An array that has the shape of an array of structs: nothing is read of it but its extents."""
    there = [v for v in view.views if not isinstance(v, NoArray)]
    if not there:
        raise KernelTypeError(f"{view.name} has no fields that are there", hint="pass arrays for its fields")
    first: Any = min(there, key=lambda v: v.ndim)
    if isinstance(first, StructView):
        first = outline(frame, first)
    zero = frame.constant(0, int32) if first.ndim > view.ndim else None
    axes = list(first.axes)
    for axis in first.free[view.ndim :]:
        axes[axis] = Axis(index=zero)
    return replace(first, axes=tuple(axes))


def store_struct(frame: Frame, place: StructValue, value: StructValue) -> None:
    """Stores a struct in an array: each of its fields.

    Raises:
        KernelTypeError: it is no struct of that type, or a field would be another array.
    """
    if not isinstance(value, StructValue) or value.type != place.type:
        raise KernelTypeError(
            f"the array holds {place.type!r}, got {describe(value)}", hint=f"make one: {place.type!r}(...)"
        )
    for field, there, new in zip(place.type.fields, place.values, value.values, strict=True):
        if isinstance(there, StructValue):
            store_struct(frame, there, new)
        elif isinstance(there, ElementValue):
            store_element(frame.builder, there, stored_value(frame, there, new))
        else:
            raise KernelTypeError(
                f"the field {field.name} of {place.type!r} is a part of an array: it cannot be stored",
                hint="store the elements of its arrays, and its other fields, one by one",
            )


def stored_value(frame: Frame, element: ElementValue, value: Any) -> Any:
    """The value as the array holds it.

    Raises:
        KernelTypeError: it has another type.
    """
    dtype, name = element_type(element), element.view.name
    try:
        return frame.typed(value, dtype)
    except (KernelTypeError, KernelValueError) as error:
        is_part = element.component or element.part
        what = f"{name}: Composite slot assignment expects value of type" if is_part else f"{name} holds"
        is_component = isinstance(dtype, Scalar) and isinstance(value, Bundle)
        hint = "store one of its components" if is_component else error.hint
        if isinstance(value, StructValue) and isinstance(dtype, Scalar):
            hint = f"store one of its fields: {_listed(value.type)}"
        if isinstance(value, Tile):
            hint = f"store it with tile_store({name}, t, offset=...)"
        if isinstance(value, View):
            hint = f"store one of its elements: it has {value.ndim} more ax{'i' if value.ndim == 1 else 'e'}s to index"
        raise KernelTypeError(f"{what} {dtype!r}, got {describe(value)}", hint=hint) from None
