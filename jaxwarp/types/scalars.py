"""Scalar types, and what each has of another's values."""

from __future__ import annotations

import builtins
import typing
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from jaxwarp.boundary import boundary, guarded, raise_for_user
from jaxwarp.errors import KernelTypeError
from jaxwarp.types.ids import Id

# True of a struct whose values stand where Warp has a number that names them, `mesh.id`: annotated uint64, or made one.
HANDLE = "__jaxwarp_handle__"


@typing.dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value_type(cls: type) -> type:
    """Make a frozen dataclass that does not say that it is one: `is_dataclass` of a type in an annotation is how
    programs find the dataclasses among their arguments."""
    made = dataclass(frozen=True)(cls)
    del made.__dataclass_fields__
    return made


@guarded
@value_type
class Scalar:
    """A scalar type. Calling it makes a NumPy scalar on the host; inside a kernel it is a cast."""

    name: str
    kind: str  # "bool", "int", "uint", "float"
    bits: int
    short: str
    numpy: np.dtype = field(compare=False)

    @boundary
    def __call__(self, value: Any = 0) -> Any:
        if self.name == "uint64" and (type(value) is Id or getattr(type(value), HANDLE, False)):
            return value  # it stands for the object, which a tape goes back to
        if self.is_int and type(value) is int:
            value = self.wrapped(value)
        # Of None NumPy makes NaN, and of text bfloat16 a crash.
        if value is None or isinstance(value, str | bytes):
            hint = f"write {self.name}(0)" if value is None else f"convert it: {self.name}(float(...))"
            raise KernelTypeError(f"{self.name}: expected a number, got {value!r}", hint=hint)
        try:
            return self.numpy.type(float(value) if self.is_float and type(value) is int else value)
        except OverflowError as error:
            raise_for_user(error)
        except (TypeError, ValueError) as error:
            raise KernelTypeError(f"{self.name}: {error}", hint=f"write {self.name}(0)") from None

    def __reduce__(self) -> str:
        """Return the name of the type in this module, where pickle finds the one instance of it."""
        return "bool_" if self.kind == "bool" else self.name

    def wrapped(self, value: int) -> int:
        """Wrap an integer that may not fit to this integer type: keep its lowest bits, as in kernels."""
        low = value & ((1 << self.bits) - 1)
        return low - (1 << self.bits) if self.is_signed and low >> (self.bits - 1) else low

    def __or__(self, other: Any) -> Any:
        """`vec2 | None`, in annotations of functions of Python."""
        return typing.Union[self, other]  # noqa: UP007 - it is made here

    def __ror__(self, other: Any) -> Any:
        return typing.Union[other, self]  # noqa: UP007

    def __instancecheck__(self, value: Any) -> builtins.bool:
        """`isinstance(x, float32)`: of a number of NumPy."""
        return isinstance(value, np.generic) and value.dtype == self.numpy

    def __subclasscheck__(self, cls: Any) -> builtins.bool:
        """`issubclass(t, float32 | float64)`: whether the type `t` is one of these. No type here has subclasses."""
        return cls == self

    @property
    def dtype(self) -> np.dtype:
        """The type as NumPy and JAX take it: `numpy.zeros(3, dtype=wp.float32)`."""
        return self.numpy

    # Names that generic programs for Warp ask types for.

    @property
    def _type_(self) -> Any:
        """The type of a value in memory, for `ctypes`. Half types are their bits."""
        return np.ctypeslib.as_ctypes_type(np.uint16 if self.is_half else self.numpy)

    @property
    def _length_(self) -> int:
        return 1

    def __repr__(self) -> str:
        return self.name

    @property
    def __name__(self) -> str:
        """The name, as Python types have one."""
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
        return self.bits == 16 and self.kind == "float"

    @property
    def bytes(self) -> builtins.int:
        return self.numpy.itemsize


def _scalar(name: str, kind: str, bits: int, short: str, numpy: type[np.generic] | None = None) -> Scalar:
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
Int: Any = typing.TypeVar("Int", *(s for s in SCALARS if s.is_int))  # pyright: ignore
Float: Any = typing.TypeVar("Float", *(s for s in SCALARS if s.is_float))  # pyright: ignore
Number: Any = typing.TypeVar("Scalar", *(s for s in SCALARS if s is not bool_))  # pyright: ignore
CLASSES = (Int, Float, Number)
PYTHON_TYPES = {builtins.bool: bool_, builtins.int: int32, builtins.float: float32}


_LETTERS = {"float16": "h", "bfloat16": "bf", "float32": "f", "float64": "d", "int8": "b", "int16": "s", "int32": "i",
            "int64": "l", "uint8": "ub", "uint16": "us", "uint32": "ui", "uint64": "ul"}  # fmt: skip


def letter(t: Any) -> str:
    """Return the letter that ends Warp's names of vectors: the f of `vec3f`. Empty if no name ends with this type."""
    return _LETTERS.get(t.name, "") if isinstance(t, Scalar) else ""


def type_name(t: object) -> str:
    """A type, or what stands for one in a generic signature, in a message."""
    return "Any" if t is Any else t.__name__ if isinstance(t, typing.TypeVar) else repr(t)


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
