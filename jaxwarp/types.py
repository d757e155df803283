"""The types of the kernel language: scalars, vectors, matrices, quaternions, transforms, arrays, structs. Immutable,
compared by structure but for structs, each of which is a type of its own."""

from __future__ import annotations

import builtins
import math
import typing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError
from jaxwarp.quaternions import IDENTITY_ROTATION, HostValue, quat_product, transform_product


@dataclass(frozen=True)
class Scalar:
    """A scalar type. Calling it makes a NumPy scalar on the host; inside a kernel it is a cast."""

    name: str
    kind: str  # "bool", "int", "uint", "float"
    bits: int
    short: str
    numpy: np.dtype = field(compare=False)

    @boundary
    def __call__(self, value: Any = 0) -> Any:
        return self.numpy.type(value)

    def __repr__(self) -> str:
        return self.name

    @property
    def __name__(self) -> str:
        """As types of Python have one."""
        return self.name

    @property
    def is_float(self) -> builtins.bool:
        return self.kind == "float"

    @property
    def is_int(self) -> builtins.bool:
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> builtins.bool:
        return self.kind in ("int", "float")

    @property
    def is_half(self) -> builtins.bool:
        """float16 and bfloat16: stored in 16 bits, computed in float32 and rounded after each operation."""
        return self.is_float and self.bits == 16

    @property
    def bytes(self) -> builtins.int:
        return self.numpy.itemsize


def _scalar(name: str, kind: str, bits: int, short: str, numpy: Any = None) -> Scalar:
    return Scalar(name, kind, bits, short, np.dtype(numpy or name))


bool_ = _scalar("bool", "bool", 1, "bool")
int8, int16, int32, int64 = (_scalar(f"int{b}", "int", b, f"i{b}") for b in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_scalar(f"uint{b}", "uint", b, f"u{b}") for b in (8, 16, 32, 64))
float16 = _scalar("float16", "float", 16, "f16")
bfloat16 = _scalar("bfloat16", "float", 16, "bf16", ml_dtypes.bfloat16)
float32 = _scalar("float32", "float", 32, "f32")
float64 = _scalar("float64", "float", 64, "f64")

SCALARS = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64)
SCALAR_BY_DTYPE = {s.numpy: s for s in SCALARS}
# Warp's classes of types, for annotations. Unlike other type variables, one may mean several types in a signature.
Int: Any = typing.TypeVar("Int", *(s for s in SCALARS if s.is_int))  # type: ignore[misc]
Float: Any = typing.TypeVar("Float", *(s for s in SCALARS if s.is_float))  # type: ignore[misc]
Number: Any = typing.TypeVar("Scalar", *(s for s in SCALARS if s is not bool_))  # type: ignore[misc]
CLASSES = (Int, Float, Number)
_PYTHON_TYPES = {builtins.bool: bool_, builtins.int: int32, builtins.float: float32}


class Aggregate:
    """What is made of components of one scalar type: a vector, a matrix, a quaternion, a transform.

    Calling it makes a NumPy array on the host.
    """

    dtype: Any  # Scalar, or typing.Any in a generic signature

    @property
    def __name__(self) -> str:
        """As types of Python have one."""
        return repr(self)

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def parameters(self) -> tuple[Any, ...]:
        """What makes it of its kind: each may be `typing.Any` in a generic signature."""
        raise NotImplementedError

    def with_dtype(self, dtype: Any) -> Aggregate:
        """The same of another scalar type."""
        return replace(self, dtype=dtype)  # type: ignore[type-var]

    @property
    def parts(self) -> dict[str, Part]:
        """What has a name: `v.x`, `t.p`."""
        return {}

    @property
    def forms(self) -> tuple[tuple[Any, ...], ...]:
        """What it can be made of but components: the types of the arguments."""
        return ()

    @property
    def keywords(self) -> tuple[tuple[str, ...], ...]:
        """The names of the arguments of its constructors."""
        return ()

    def arguments(self, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of a constructor, by position.

        Raises:
            KernelTypeError: a name is unknown, given twice, or missing.
        """
        if not named:
            return values
        for names in self.keywords:
            rest = names[len(values) :]
            missing = [n for n in rest if n not in named]
            if set(named) <= set(rest) and missing == list(rest[len(rest) - len(missing) :]):
                return (*values, *(named[n] for n in rest if n in named))
        raise KernelTypeError(
            f"{self}: cannot be made of {len(values)} values and {', '.join(named)}",
            hint=" or ".join(f"write {self}({', '.join(f'{n}=...' for n in names)})" for names in self.keywords)
            or "pass the values by position",
        )

    @boundary
    def __call__(self, *values: Any, **named: Any) -> np.ndarray:
        return _host_value(self, self.arguments(values, named))


class Part(NamedTuple):
    """A part of an aggregate that has a name: its type and its first component."""

    dtype: Any
    start: int

    @property
    def size(self) -> int:
        return 1 if isinstance(self.dtype, Scalar) else self.dtype.size


_AXES = ("x", "y", "z", "w")


@dataclass(frozen=True)
class Vec(Aggregate):
    """A vector of `length` components."""

    length: int
    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def parameters(self) -> tuple[Any, ...]:
        return (self.length, self.dtype)

    @property
    def parts(self) -> dict[str, Part]:
        return {name: Part(self.dtype, k) for k, name in enumerate(_AXES[: self.length])}

    @property
    def forms(self) -> tuple[tuple[Any, ...], ...]:
        return ((Vec(3, self.dtype),) * 2,) if self.length == 6 else ()

    def __repr__(self) -> str:
        return f"vec{_name(self.length)}[{_name(self.dtype)}]"


@dataclass(frozen=True)
class Mat(Aggregate):
    """A row-major matrix."""

    rows: int
    columns: int
    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, self.columns)

    @property
    def parameters(self) -> tuple[Any, ...]:
        return (self.rows, self.columns, self.dtype)

    def __repr__(self) -> str:
        return f"mat{_name(self.rows)}x{_name(self.columns)}[{_name(self.dtype)}]"


@dataclass(frozen=True)
class Quat(Aggregate):
    """A quaternion x i + y j + z k + w; its components in this order."""

    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return (4,)

    @property
    def parameters(self) -> tuple[Any, ...]:
        return (self.dtype,)

    @property
    def parts(self) -> dict[str, Part]:
        return {name: Part(self.dtype, k) for k, name in enumerate(_AXES)}

    @property
    def forms(self) -> tuple[tuple[Any, ...], ...]:
        return ((Vec(3, self.dtype), self.dtype),)

    @property
    def keywords(self) -> tuple[tuple[str, ...], ...]:
        return (_AXES, ("ijk", "real"))

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return quat_product(a, b)

    def __repr__(self) -> str:
        return f"quat[{_name(self.dtype)}]"


@dataclass(frozen=True)
class Transform(Aggregate):
    """A rigid motion: a translation `p` and after it in memory a unit quaternion `q`."""

    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return (7,)

    @property
    def parameters(self) -> tuple[Any, ...]:
        return (self.dtype,)

    @property
    def parts(self) -> dict[str, Part]:
        return {"p": Part(Vec(3, self.dtype), 0), "q": Part(Quat(self.dtype), 3)}

    @property
    def forms(self) -> tuple[tuple[Any, ...], ...]:
        return ((Vec(3, self.dtype), Quat(self.dtype)), (Vec(3, self.dtype),))

    @property
    def keywords(self) -> tuple[tuple[str, ...], ...]:
        return (("p", "q"),)

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return transform_product(a, b)

    def __repr__(self) -> str:
        return f"transform[{_name(self.dtype)}]"


Element = Scalar | Aggregate


@dataclass(frozen=True)
class Array:
    """The annotation of an array parameter: element type and rank. `dtype` may be `typing.Any`."""

    dtype: Any
    ndim: int = 1

    def __repr__(self) -> str:
        return f"array[{_name(self.dtype)}, {self.ndim}]"

    def __or__(self, other: Any) -> Array:
        """`array[float] | None`: None may be given for any array."""
        return self if other is None else NotImplemented

    __ror__ = __or__


@dataclass(frozen=True)
class Absent:
    """What an array argument has in place of a type where None is given for it. The operand is an empty array."""

    array: Array

    def __repr__(self) -> str:
        return "None"


@dataclass(frozen=True)
class Field:
    """A field of a struct. `default` makes its default value; None: it has none, and is zero, or no array."""

    name: str
    type: Any  # Scalar, Vec, Mat, Array, Struct
    default: Any = None
    is_static: builtins.bool = False


@dataclass(frozen=True, eq=False)
class Struct:
    """A struct: named fields in order. `kind` is the class that `@struct` decorates, whose instances are its values."""

    kind: type
    fields: tuple[Field, ...]

    def __eq__(self, other: object) -> builtins.bool:
        return self is other or other is self.kind

    def __hash__(self) -> int:
        return hash(self.kind)

    @property
    def name(self) -> str:
        return self.kind.__name__

    def index(self, name: str) -> int | None:
        """The position of a field; None if there is none of that name."""
        return next((k for k, field in enumerate(self.fields) if field.name == name), None)

    @boundary
    def __call__(self, *values: Any, **named: Any) -> Any:
        return self.kind(*values, **named)

    def __repr__(self) -> str:
        return self.name


# The attribute of a class that holds its `Struct`.
STRUCT = "__jaxwarp_struct__"
# And of one that kernels can go over, the function that says how: see `func_next`.
NEXT = "__jaxwarp_next__"


def struct_of(kind: Any) -> Struct | None:
    """The struct that a class is; None if it is none."""
    return vars(kind).get(STRUCT) if isinstance(kind, type) else None


def struct_in(t: Any) -> Struct | None:
    """The struct that a type, or the elements of an array type, are; None if they are none."""
    element = t.dtype if isinstance(t, Array) else t
    return element if isinstance(element, Struct) else None


def field_type(t: Any, field: Field) -> Any:
    """What a field is in a type made of structs: of an array of structs it is an array with the same leading axes."""
    if not isinstance(t, Array):
        return field.type
    inner = field.type
    return Array(inner.dtype, t.ndim + inner.ndim) if isinstance(inner, Array) else Array(inner, t.ndim)


def leaves_of(name: str, t: Any) -> list[tuple[str, Any]]:
    """What a type consists of, by name: `s.x`, `s.inner.v`. A type without structs is one leaf, itself."""
    found = struct_in(t)
    if found is None:
        return [(name, t)]
    return [leaf for f in found.fields for leaf in leaves_of(f"{name}.{f.name}", field_type(t, f))]


def _name(t: Any) -> str:
    return "Any" if t is Any else t.__name__ if isinstance(t, typing.TypeVar) else repr(t)


def _host_value(t: Aggregate, values: tuple[Any, ...]) -> np.ndarray:
    if not isinstance(t.dtype, Scalar):
        raise KernelTypeError(
            f"{t} is generic and has no values; use a type with a dtype, like vec3 or mat33",
            hint="write vec3(...), or types.vector(length=3, dtype=float)(...)",
        )
    made = np.empty(t.shape, t.dtype.numpy)
    made[...] = _host_components(t, values).reshape(t.shape)
    return made if isinstance(t, (Vec, Mat)) else HostValue.of(t, made)


def _host_components(t: Aggregate, values: tuple[Any, ...]) -> np.ndarray:
    if len(values) == 0:
        return np.array((0.0, 0.0, 0.0, *IDENTITY_ROTATION) if isinstance(t, Transform) else (0,) * t.size)
    if len(values) == 1 and np.ndim(values[0]) == 0:
        return np.full(t.size, values[0])
    flat = np.concatenate([np.ravel(np.asarray(v, t.dtype.numpy)) for v in values])
    if isinstance(t, Transform) and len(values) == 1 and flat.size == 3:
        flat = np.append(flat, IDENTITY_ROTATION)
    if flat.size != t.size:
        raise KernelTypeError(
            f"{t}: expected 0, 1 or {t.size} components, got {flat.size}",
            hint=f"pass one value for all components, or {t.size} values",
        )
    return flat


def as_dtype(t: Any) -> Any:
    """The element type that an annotation means: `float` is float32, `int` int32, a class its struct; `Any` stays.

    Raises:
        KernelTypeError: `t` is not a scalar, vector, matrix or struct type.
    """
    if t is Any or isinstance(t, (Scalar, Aggregate, Struct)):
        return t
    found = struct_of(t)
    if found is not None:
        return found
    if isinstance(t, type) and t in _PYTHON_TYPES:
        return _PYTHON_TYPES[t]
    if isinstance(t, typing.TypeVar):
        return Any
    try:
        return SCALAR_BY_DTYPE[np.dtype(t)]
    except (TypeError, ValueError, KeyError):
        raise KernelTypeError(
            f"{t!r} is not a type of the kernel language",
            hint="write float, int, bool, vec3, float64 or another type of jaxwarp",
        ) from None


@boundary
def vector(length: int, dtype: Any) -> Vec:
    """The type of vectors of `length` components of scalar type `dtype`."""
    return Vec(_extent("length", length), _component(dtype))


@boundary
def matrix(shape: tuple[int, int], dtype: Any) -> Mat:
    """The type of matrices of `shape` (rows, columns) of scalar type `dtype`."""
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise KernelTypeError(
            f"shape must be (rows, columns), got {shape!r}", hint="write types.matrix(shape=(3, 3), dtype=float)"
        )
    rows, columns = shape
    return Mat(_extent("rows", rows), _extent("columns", columns), _component(dtype))


@boundary
def quaternion(dtype: Any) -> Quat:
    """The type of quaternions of float type `dtype`."""
    return Quat(_float_component("quaternion", dtype))


@boundary
def transformation(dtype: Any) -> Transform:
    """The type of transforms, a translation and a rotation, of float type `dtype`."""
    return Transform(_float_component("transformation", dtype))


def _float_component(name: str, dtype: Any) -> Any:
    scalar = _component(dtype)
    if isinstance(scalar, Scalar) and not scalar.is_float:
        raise KernelTypeError(f"{name}: components must be floats, got {scalar}", hint="write float, or float64")
    return scalar


def _extent(name: str, value: Any) -> Any:
    if value is Any:
        return value
    if not isinstance(value, (int, np.integer)) or isinstance(value, builtins.bool) or value < 1:
        raise KernelTypeError(f"{name} must be a positive integer, got {value!r}", hint="write a number of 1 or more")
    return int(value)


def _component(dtype: Any) -> Any:
    scalar = dtype if isinstance(dtype, typing.TypeVar) else as_dtype(dtype)
    if isinstance(scalar, (Aggregate, Struct)):
        raise KernelTypeError(
            f"components must be scalars, got {scalar}", hint="write float, int or another scalar type"
        )
    return scalar


def opened(t: Any) -> Any:
    """An element type of an annotation, with `Any` for its type variable."""
    match t:
        case typing.TypeVar():
            return Any
        case Aggregate(dtype=typing.TypeVar()):
            return t.with_dtype(Any)
        case _:
            return t


def type_variable(t: Any) -> typing.TypeVar | None:
    """That of an element type: of `T`, and of a vector or matrix of `T`."""
    inner = t.dtype if isinstance(t, Aggregate) else t
    return inner if isinstance(inner, typing.TypeVar) else None


def exact_type(a: Scalar, b: Scalar) -> Scalar | None:
    """The smallest scalar type that has every value of two others, if there is one."""
    wider = (int16, int32, int64, float32, float64)
    return next((t for t in (a, b, *wider) if _has_all_of(t, a) and _has_all_of(t, b)), None)


# Integers up to 2 to this power, and their negatives, are values of a float type.
_EXACT_BITS = {float16: 11, bfloat16: 8, float32: 24, float64: 53}


def _has_all_of(t: Scalar, other: Scalar) -> builtins.bool:
    if t is other:
        return True
    if other.is_float:
        return t.is_float and t.bits > other.bits
    bits = other.bits - (other.kind == "int")
    if t.is_float:
        return bits <= _EXACT_BITS[t]
    return bits <= t.bits - (t.kind == "int") and (t.is_signed or not other.is_signed)


def element_scalar(t: Element | Struct) -> Scalar:
    """The type of an element's components.

    Raises:
        KernelTypeError: it is a struct, of which there are no arrays in memory.
    """
    if isinstance(t, Struct):
        arrays = ", ".join(f"{f.name}=..." for f in t.fields)
        raise KernelTypeError(
            f"an array of struct {t!r} is not there yet outside of kernels",
            hint=f"make a struct of arrays, {t!r}({arrays}): calls take it for an array[{t!r}]",
        )
    return t if isinstance(t, Scalar) else t.dtype


def element_shape(t: Element) -> tuple[int, ...]:
    """Component axes of an element type: () for scalars, (n,) for vectors, (r, c) for matrices."""
    if isinstance(t, Struct):
        element_scalar(t)
    return () if isinstance(t, Scalar) else t.shape


@boundary
def type_size(t: Any) -> int:
    """How many components a value of an element type has: 1 for scalars.

    Raises:
        KernelTypeError: `t` is no element type, or a generic one.
    """
    shape = () if isinstance(found := as_dtype(t), Scalar) else getattr(found, "shape", None)
    if shape is None or not all(isinstance(n, int) for n in shape):
        raise KernelTypeError(f"type_size: expected a type of known components, got {t!r}", hint="write vec3 or float")
    return math.prod(shape)


@boundary
def type_size_in_bytes(t: Any) -> int:
    """How many bytes an element of a type takes in an array.

    Raises:
        KernelTypeError: `t` is no element type, or a generic one.
    """
    size, scalar = type_size(t), element_scalar(as_dtype(t))
    if not isinstance(scalar, Scalar):
        raise KernelTypeError(f"type_size_in_bytes: expected a type that is not generic, got {t!r}", hint="write vec3h")
    return size * scalar.bytes
