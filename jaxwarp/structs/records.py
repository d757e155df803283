"""Structs in memory: NumPy's structured types, laid out as C does, and records of such a type from instances."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxwarp.conversions import as_numbers, converted
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.types import (
    Array,
    Element,
    Scalar,
    Struct,
    StructField,
    element_scalar,
    element_shape,
    holds_numbers,
    struct_of,
)


@functools.cache
def record_dtype(struct: Struct, is_none: bool = False) -> np.dtype:
    """NumPy's type of a struct: its fields in order, each where C's rules of alignment put it.

    Args:
        is_none: there are no elements, so a field may be an array, of which nobody says what it holds.

    Raises:
        KernelTypeError: a field is an array, which is no part of a record, or there are no fields.
    """
    if not struct.fields:
        raise KernelTypeError(
            f"struct {struct!r} has no fields, and so no place in memory", hint="give it one, or leave the array out"
        )
    return np.dtype([_described(struct, f.name, f.type, is_none) for f in struct.fields], align=True)


def _described(struct: Struct, name: str, t: Any, is_none: bool) -> tuple[Any, ...]:
    if isinstance(t, Array):
        if is_none:
            return name, np.dtype("V8")
        raise KernelTypeError(
            f"an array of struct {struct!r} cannot be in memory: its field {name} is an array, and every element would"
            " have one of its own",
            hint=f"make a struct of arrays, {struct!r}({name}=...), with an axis more: calls take it for an array",
        )
    if isinstance(t, (Struct, Scalar)):
        return name, memory_dtype(t, is_none)
    return name, t.dtype.numpy, t.shape


def memory_dtype(element: Element | Struct, is_none: bool = False) -> np.dtype:
    """NumPy's type of what arrays of an element type consist of; `is_none`: of arrays without elements."""
    return record_dtype(element, is_none) if isinstance(element, Struct) else element_scalar(element).numpy


def dtype_text(dtype: np.dtype) -> str:
    """A type of NumPy's in a message."""
    return str(dtype) if dtype.names is None else f"records of {', '.join(dtype.names)}"


def memory_axes(element: Element | Struct) -> tuple[int, ...]:
    """The axes that an element has in memory: the components of a vector or matrix."""
    return () if isinstance(element, Struct) else element_shape(element)


def has_floats(element: Element | Struct) -> bool:
    """Return whether an element has derivatives."""
    if isinstance(element, Struct):
        return any(has_floats(f.type) for f in element.fields if not isinstance(f.type, Array))
    return element_scalar(element).is_float


# Records and instances.


def as_record(struct: Struct, value: object, where: str) -> np.ndarray:
    """One value of a struct as a record without axes: an instance, a mapping or tuple with its fields, a record of
    NumPy, or 0.

    Raises:
        KernelTypeError, KernelValueError: it is none.
    """
    dtype = record_dtype(struct)
    if isinstance(value, (np.void, np.ndarray)) and value.dtype == dtype and value.shape == ():
        return np.array(value)
    if isinstance(value, (int, float)) and value == 0:
        return np.zeros((), dtype)
    found = np.zeros((), dtype)
    _fill(found, struct, value, where)
    return found


def as_records(struct: Struct, values: object, where: str) -> np.ndarray:
    """Several values of a struct, in a sequence or a structured array of NumPy, as records.

    Raises:
        KernelTypeError, KernelValueError: they are none.
    """
    dtype = record_dtype(struct, isinstance(values, Sequence) and not len(values))
    if isinstance(values, np.ndarray) and values.dtype != object:
        if values.dtype != dtype:
            raise KernelTypeError(
                f"{where}: expected an array of {struct!r}.numpy_dtype(), got one of {dtype_text(values.dtype)}",
                hint=f"make it with dtype={struct!r}.numpy_dtype()",
            )
        return values
    if struct_of(type(values)) == struct:
        return _of_arrays(struct, values, where)
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, str):
        raise KernelTypeError(
            f"{where}: expected values of struct {struct!r}, got {type_text(values)}",
            hint=f"pass a list of {struct!r}(...), or a NumPy array of {struct!r}.numpy_dtype()",
        )
    rows = [as_records(struct, v, where) if _is_row(v) else as_record(struct, v, where) for v in values]
    if not rows:
        return np.zeros(0, dtype)
    if len({row.shape for row in rows}) > 1:
        raise KernelValueError(f"{where}: expected equal rows of structs", hint="make all rows of one length")
    return np.stack(rows)


def _is_row(value: object) -> bool:
    """Return whether a value is several elements of a struct; a tuple is one element."""
    return isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.names is None)


def _of_arrays(struct: Struct, value: Any, where: str) -> np.ndarray:
    """The records of a struct of arrays: those of its leading axes."""
    parts = {f.name: _leading(f.type, getattr(value, f.name), where) for f in struct.fields}
    shapes = {name: part[1] for name, part in parts.items()}
    shape = next(iter(shapes.values()))
    for name, found in shapes.items():
        if found != shape:
            raise KernelValueError(
                f"{where}: the fields of an array of structs have one shape, but {next(iter(shapes))} has {shape},"
                f" {name} {found}",
                hint="pass arrays with the same leading axes",
            )
    made = np.zeros(shape, record_dtype(struct))
    for name, (part, _) in parts.items():
        dtype = made.dtype[name].base
        made[name] = part if dtype.names else converted(part, dtype, f"{where}: field {name}")
    return made


def _leading(t: Any, value: Any, where: str) -> tuple[Any, tuple[int, ...]]:
    if isinstance(t, Struct):
        found = _of_arrays(t, value, where)
        return found, found.shape
    values = np.asarray(value)
    return values, values.shape[: values.ndim - len(memory_axes(t))]


def _fill(record: np.ndarray, struct: Struct, value: object, where: str) -> None:
    """Sets the fields of a record to those of a value."""
    names = [f.name for f in struct.fields]
    if isinstance(value, tuple) and len(value) == len(names):
        found = dict(zip(names, value, strict=True))
    elif isinstance(value, Mapping):
        found = value
    else:
        found = {name: getattr(value, name) for name in names if hasattr(value, name)}
    if isinstance(value, (str, bytes)) or set(found) != set(names):
        given = f"a tuple of {len(value)}" if isinstance(value, tuple) else type(value).__name__
        raise KernelTypeError(
            f"{where}: expected a value of struct {struct!r}, got {given}",
            hint=f"pass {struct!r}(...), or a tuple of {', '.join(names)}",
        )
    for f in struct.fields:
        if isinstance(f.type, Struct):
            part = as_record(f.type, found[f.name], f"{where}: {f.name}")
        else:
            part = _component(f, found[f.name], where)
        record[f.name] = part


def _component(field: StructField, value: object, where: str) -> np.ndarray:
    dtype = field.type
    label = f"{where}: field {field.name}"
    values = converted(as_numbers(value), memory_dtype(dtype), label) if holds_numbers(value) else None
    if values is None or values.shape != memory_axes(dtype):
        given = type(value).__name__ if values is None else f"an array of shape {values.shape}"
        raise KernelTypeError(f"{label}: expected {dtype!r}, got {given}", hint="pass one value")
    return values


def instance_of(struct: Struct, record: np.void) -> Any:
    """The instance that a record holds."""
    values = {}
    for f in struct.fields:
        part = record[f.name]
        if isinstance(f.type, Struct):
            values[f.name] = instance_of(f.type, part)
        elif isinstance(f.type, Scalar):
            values[f.name] = part.item() if part.dtype.isbuiltin == 1 else part
        else:
            values[f.name] = f.type(*np.asarray(part).ravel())
    return struct(**values)
