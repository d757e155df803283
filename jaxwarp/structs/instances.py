"""Instances of structs: made, assigned to, compared, shown."""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.conversions import as_numbers, converted, limits_of
from jaxwarp.errors import KernelTypeError, KernelValueError, did_you_mean, type_text
from jaxwarp.quaternions import HostValue
from jaxwarp.structs.records import as_record, record_dtype
from jaxwarp.types import (  # fmt: skip
    HANDLE,
    STRUCT,
    Aggregate,
    Array,
    Mat,
    Scalar,
    Struct,
    StructField,
    Vec,
    bool_,
    element_scalar,
    element_shape,
    handled,
    holds_numbers,
    struct_in,
    struct_of,
    uint32,
    uint64,
)


def _init(self: Any, *values: Any, **named: Any) -> None:
    kind = type(self)
    fields = _struct(kind).fields
    names = [f.name for f in fields]
    if len(values) > len(names):
        raise KernelTypeError(
            f"struct {kind.__name__}: expected at most {len(names)} value{'s' * (len(names) != 1)}, got {len(values)}",
            hint=f"its fields are {', '.join(names) or 'none'}",
        )
    given = dict(zip(names, values, strict=False))
    for name, value in named.items():
        if name not in names or name in given:
            twice = f"struct {kind.__name__}: the field {name} is given twice"
            raise _no_field(kind, name) if name not in names else KernelTypeError(twice, hint="leave one of them out")
        given[name] = value
    for field in fields:
        if field.name in given:
            value = checked(kind, field, given[field.name], is_strict=False)
        else:
            value = initial(kind, field)
        self.__dict__[field.name] = value


def _setattr(self: object, name: str, value: object) -> None:
    kind = type(self)
    field = _struct(kind).by_name.get(name)
    if field is None:
        raise _no_field(kind, name)
    self.__dict__[name] = checked(kind, field, value, is_strict=True)


def _eq(self: object, other: object) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    return all(_are_equal(value, vars(other).get(name)) for name, value in vars(self).items())


def _are_equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if hasattr(a, "shape") and hasattr(b, "shape"):
        a, b = (v.numpy() if hasattr(v, "numpy") else v for v in (a, b))
        a, b = (jax.random.key_data(v) if _is_key(v.dtype) else v for v in (a, b))
        return bool(np.array_equal(np.asarray(a), np.asarray(b)))
    return bool(np.all(a == b))


def _is_key(dtype: Any) -> bool:
    """Return whether an array of this type holds keys of JAX; a PRNGKey consists of the two words of a key."""
    return jnp.issubdtype(dtype, jax.dtypes.prng_key)


_MOST_SHOWN = 16  # elements


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in vars(self).items())
    return f"{type(self).__name__}({shown})"


def _shown(value: Any) -> str:
    """A value, or of a large array of NumPy or JAX its type and shape: `float32[1000,3]`."""
    is_array = isinstance(value, (np.ndarray, jax.Array)) and not isinstance(value, jax.core.Tracer)
    return f"{value.dtype}[{','.join(map(str, value.shape))}]" if is_array and value.size > _MOST_SHOWN else repr(value)


def _numpy_dtype(kind: type) -> np.dtype:
    """NumPy's type of the struct in memory: that of `jaxwarp.array(values, dtype=S).numpy()`.

    Raises:
        KernelTypeError: a field is an array.
    """
    return record_dtype(_struct(kind))


def _numpy_value(self: Any) -> Any:
    """The instance as a value of `numpy_dtype()`."""
    return as_record(_struct(type(self)), self, f"struct {type(self).__name__}")[()]


def _assign(self: Any, value: object) -> None:
    """Sets every field to that of another instance of the struct.

    Raises:
        KernelTypeError: it is of another type.
    """
    if type(value) is not type(self):
        name = type(self).__name__
        raise KernelTypeError(
            f"struct {name}: assign: expected a {name}, got {type_text(value)}", hint=f"make one: {name}(...)"
        )
    for field, part in vars(copied(value)).items():
        setattr(self, field, part)


METHODS: dict[str, Any] = {
    "__init__": boundary(_init),
    "__setattr__": boundary(_setattr),
    "__eq__": _eq,
    "__repr__": _repr,
    "__hash__": None,
    "assign": boundary(_assign),
    "numpy_dtype": classmethod(boundary(_numpy_dtype)),
    "numpy_value": boundary(_numpy_value),
}
"""Of a class that is a struct."""


def _struct(kind: type) -> Struct:
    found = getattr(kind, STRUCT, None)
    assert found is not None
    if found.kind is not kind:
        raise KernelTypeError(
            f"{kind.__name__} inherits from struct {found.kind.__name__}, and is none", hint="decorate it with @struct"
        )
    return found


def _no_field(kind: type, name: str) -> KernelTypeError:
    names = [f.name for f in _struct(kind).fields]
    return KernelTypeError(
        f"struct {kind.__name__} has no field {name}",
        hint=did_you_mean(name, names) or f"its fields are {', '.join(names) or 'none'}",
    )


def initial(kind: type, field: StructField) -> Any:
    """The value of a field that is not given."""
    if field.default is not None:
        return checked(kind, field, field.default(), is_strict=True)
    match field.type:
        case Struct():  # a mesh, say, is set later, as an array is
            return None if hasattr(field.type.kind, HANDLE) else field.type()
        case Array():
            return None
        case Scalar():
            return _number(field.type, 0)
        case _:
            return HostValue.of(field.type, np.zeros(field.type.shape))


def _number(dtype: Scalar, value: Any) -> Any:
    """Zero as JAX reads a field of this type: Python's number where that is it."""
    plain = {"bool": bool, "int32": int, "float32": float}.get(dtype.name, dtype.numpy.type)
    return plain(value)


# Checks


def checked(kind: type, field: StructField, value: object, is_strict: bool) -> Any:
    """A value as a field holds it: sequences become arrays of NumPy, structs and vectors of NumPy are copied.

    Args:
        is_strict: the value is one of the field. Else it may be what JAX puts in its place: an axis, a sharding, None.

    Raises:
        KernelTypeError, KernelValueError: it does not fit the field.
    """
    dtype = field.type
    if type(value) is HostValue and value.type == dtype:
        return value.copy()
    if isinstance(dtype, Array) and getattr(value, "type", None) == dtype:
        return value  # an array of jaxwarp
    where = f"struct {kind.__name__}: field {field.name}"
    if isinstance(dtype, Struct):
        return _checked_struct(where, dtype, value, is_strict)
    if (element := struct_in(dtype)) is not None and struct_of(type(value)) == element:
        return copied(value)  # of JAX: its leaves have the axes
    if dtype == uint64 and handled(value) is not None:
        return value
    if isinstance(dtype, Aggregate) and value is None and is_strict:
        return HostValue.of(dtype, np.zeros(dtype.shape))
    if isinstance(value, (list, tuple)) and isinstance(dtype, Aggregate):
        return HostValue.of(dtype, _from_sequence(where, dtype, value))
    if isinstance(value, np.ndarray) and isinstance(dtype, Mat) and value.shape == (dtype.size,):
        value = value.reshape(dtype.shape)  # row after row, as in a sequence
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and not isinstance(dtype, (Array, Scalar)):
        # Integers are numbers of a vector of floats, as they are of one that is made of them.
        value = value.astype(dtype.dtype.numpy) if dtype.dtype.is_float else value
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        _require_array(where, dtype, value)
        if isinstance(dtype, Scalar) and dtype.is_int and isinstance(value, np.generic):
            _checked_number(where, dtype, value.item())
        return _own(dtype, value) if isinstance(value, np.ndarray) and not isinstance(dtype, Array) else value
    if isinstance(value, (bool, int, float)) and isinstance(dtype, Scalar):
        return bool(value) if dtype is bool_ else _checked_number(where, dtype, value)
    is_none = value is None and isinstance(dtype, Array)
    is_data = isinstance(value, (list, tuple, float, str, dict)) or struct_of(type(value)) is not None
    if is_none or not (is_strict or is_data):
        return value
    raise KernelTypeError(f"{where}: expected {_text(dtype)}, got {type_text(value)}", hint=_hint(dtype))


def _own(dtype: object, value: np.ndarray) -> np.ndarray:
    """A copy of a field's value; of one vector or matrix with its parts and operators."""
    is_one = isinstance(dtype, Aggregate) and value.shape == dtype.shape and value.dtype == dtype.dtype.numpy
    return HostValue.of(dtype, value) if is_one else np.array(value)


def _text(dtype: Any) -> str:
    return f"an {dtype!r}" if isinstance(dtype, Array) else repr(dtype)


def _hint(dtype: Any) -> str:
    match dtype:
        case Array():
            return "pass an array of JAX, of NumPy or of jaxwarp"
        case Scalar():
            return "pass a number, or a scalar of JAX"
        case Struct():
            return f"make one: {dtype!r}(...)"
        case _:
            return f"pass {dtype.size} numbers, or an array of shape {dtype.shape}"


def _checked_struct(where: str, dtype: Struct, value: object, is_strict: bool) -> Any:
    if struct_of(type(value)) == dtype:
        return copied(value)
    if is_strict or isinstance(value, (bool, float, list, str)) or struct_of(type(value)) is not None:
        raise KernelTypeError(f"{where}: expected {dtype!r}, got {type_text(value)}", hint=_hint(dtype))
    return value


def copied(value: object) -> Any:
    """A struct is a value: to change one later does not change what was made with it."""
    made = object.__new__(type(value))
    for field in _struct(type(value)).fields:
        part = vars(value)[field.name]
        if struct_of(type(part)) is not None and field.type != uint64:  # of an id, what it is of
            part = copied(part)
        elif isinstance(part, np.ndarray) and not isinstance(field.type, Array):
            part = part.copy()
        made.__dict__[field.name] = part
    return made


def _from_sequence(where: str, dtype: Any, value: Any) -> Any:
    made = converted(as_numbers(value), dtype.dtype.numpy, where) if holds_numbers(value) else None
    if made is not None and made.shape == (dtype.size,):  # of a matrix, row after row
        made = made.reshape(dtype.shape)
    if made is None or made.shape != dtype.shape:
        raise KernelTypeError(f"{where}: expected {dtype!r}, got {value!r}", hint=_hint(dtype))
    return made


def _require_array(where: str, dtype: Any, value: Any) -> None:
    """Leading axes are allowed: those of an array of structs, and what JAX maps over."""
    element, ndim = (dtype.dtype, dtype.ndim) if isinstance(dtype, Array) else (dtype, 0)
    if isinstance(element, Struct) or is_open(element):
        return
    shape, given = tuple(value.shape), value.dtype
    scalar, components = element_scalar(element), element_shape(element)
    if isinstance(given, (Scalar, Aggregate)):  # of an array of jaxwarp, whose shape is without components
        shape, given = (*shape, *element_shape(given)), element_scalar(given).numpy
    elif _is_key(given) and element == Vec(2, uint32):
        shape, given = (*shape, 2), uint32.numpy
    fits = len(shape) >= ndim + len(components) and shape[len(shape) - len(components) :] == components
    if not fits or not _may_hold(scalar, given) or _is_key(given):
        raise KernelTypeError(
            f"{where}: expected {_text(dtype)}, got {given} of shape {shape}",
            hint=f"the last axes are the components: {components}"
            if components and not fits
            else f"convert it: astype({scalar.name!r})"
            if fits and not _is_key(given)
            else _hint(dtype),
        )


def is_open(dtype: Any) -> bool:
    """Return whether a type leaves something open."""
    if isinstance(dtype, Array):
        return is_open(dtype.dtype)
    if isinstance(dtype, (Scalar, Struct)):
        return False
    return dtype is Any or not isinstance(dtype.dtype, Scalar) or Any in dtype.shape


def _may_hold(scalar: Scalar, given: object) -> bool:
    """Return whether an array of this dtype has the scalar type, or what JAX puts in its place.

    JAX puts there the tangent of an integer, or a number of another precision that a kernel refuses or converts.
    """
    if not isinstance(given, np.dtype):
        return True
    kinds = {"bool": "b", "int": "iu", "uint": "iu"}.get(scalar.kind, "f")
    return given == scalar.numpy or given == jax.dtypes.float0 or given.kind in kinds


def _checked_number(where: str, dtype: Scalar, value: Any) -> Any:
    if not dtype.is_float and isinstance(value, float) and not value.is_integer():
        raise KernelTypeError(f"{where}: expected {dtype!r}, got {value!r}", hint=_hint(dtype))
    if not dtype.is_int:
        return value
    least, most = limits_of(dtype.numpy)
    if not least <= value <= most:
        raise KernelValueError(f"{where}: expected a value of {dtype!r}, got {value!r}", hint="pass one that fits")
    # JAX reads integers of Python as int32.
    return value if -(2**31) <= value < 2**31 else dtype.numpy.type(value)
