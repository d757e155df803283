"""Vectors, matrices, quaternions and transforms outside of kernels: NumPy arrays of their components, with the parts
and operators that they have in kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxwarp.errors import KernelTypeError

IDENTITY_ROTATION = (0.0, 0.0, 0.0, 1.0)


class HostValue(np.ndarray):
    """A vector, matrix, quaternion or transform on the host: an array of its components whose operators are those of
    kernels. With arrays of NumPy, vectors and matrices compute as these do.

    `type` is that of the language; None for arrays that NumPy made of it and that are none any more.
    """

    type: Any

    @classmethod
    def of(cls, t: Any, components: Any) -> HostValue:
        made = np.array(components, t.dtype.numpy).view(cls)
        made.type = t
        return made

    def __array_finalize__(self, other: Any) -> None:
        t = getattr(other, "type", None)
        self.type = t if t is not None and self.shape == t.shape and self.dtype == t.dtype.numpy else None

    def __reduce__(self) -> Any:
        return (HostValue.of, (self.type, np.asarray(self))) if self.type else np.asarray(self).__reduce__()

    def __str__(self) -> str:
        """As a kernel prints it: components with commas between."""
        return _text(np.asarray(self)) if self.type is not None else str(np.asarray(self))

    def __repr__(self) -> str:
        return f"{self.type.short_name}({self.tolist()})" if self.type is not None else repr(np.asarray(self))

    def __getitem__(self, key: Any) -> Any:
        part = np.asarray(self)[key]
        t = self.type.section(part.shape) if self.type is not None and part.ndim else None
        if t is None:
            return part
        typed = part.view(HostValue)
        typed.type = t
        return typed

    def __setitem__(self, key: Any, value: Any) -> None:
        """Integers of Python wrap, as in kernels."""
        scalar = None if self.type is None else self.type.dtype
        if scalar is not None and scalar.is_int and type(value) is int:
            value = scalar.wrapped(value)
        np.asarray(self)[key] = value

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        if name in _OF_TYPES and self.type is not None:
            return getattr(self.type, name)
        part = None if name.startswith("_") or self.type is None else self.type.parts.get(name)
        if part is None:
            raise AttributeError(f"{self.type or 'an array'} has no attribute {name}")
        values = np.asarray(self)[part.start : part.start + part.size]
        return part.dtype(values if part.size > 1 else values[0])

    def __setattr__(self, name: str, value: Any) -> None:
        part = self.type.parts.get(name) if name != "type" and self.type is not None else None
        if part is None:
            return super().__setattr__(name, value)
        np.asarray(self)[part.start : part.start + part.size] = value
        return None

    def __eq__(self, other: Any) -> Any:
        """One bool for values of one type, as in kernels, and with tuples and lists; with others, each component's."""
        is_one = isinstance(other, (tuple, list)) or getattr(other, "type", None) == self.type
        if self.type is None or not is_one:
            return np.asarray(self) == np.asarray(other)
        return bool(np.array_equal(np.asarray(self), np.asarray(other)))

    def __ne__(self, other: Any) -> Any:
        equal = self == other
        return not equal if isinstance(equal, bool) else ~equal

    __hash__ = None

    def __add__(self, other: Any) -> Any:
        return _sum(np.add, "+", self, other)

    def __sub__(self, other: Any) -> Any:
        return _sum(np.subtract, "-", self, other)

    def __mul__(self, other: Any) -> Any:
        return _product(self, other)

    def __rmul__(self, other: Any) -> Any:
        return _scaled(np.multiply, "*", other, self)

    def __matmul__(self, other: Any) -> Any:
        return _product(self, other) if isinstance(other, HostValue) else np.asarray(self) @ np.asarray(other)

    def __truediv__(self, other: Any) -> Any:
        return _scaled(np.divide, "/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _scaled(np.divide, "/", other, self)

    # What they give may be of another shape: a matrix times a vector.
    __imul__ = __mul__
    __itruediv__ = __truediv__


# What generic programs for Warp ask of a value or its type.
_OF_TYPES = ("_wp_scalar_type_", "_shape_", "_length_")


def _text(values: np.ndarray) -> str:
    if values.ndim > 1:
        return f"[{f',{chr(10)} '.join(_text(row) for row in values)}]"
    return f"[{', '.join(str(x) for x in values)}]"


def _sum(operator: Any, symbol: str, a: HostValue, b: Any) -> Any:
    if a.type is not None and getattr(b, "type", None) != a.type and (isinstance(b, HostValue) or not a.type.is_open):
        raise _undefined(symbol, a, b)
    return operator(a, b)


def _product(a: HostValue, b: Any) -> Any:
    if a.type is None or getattr(b, "type", None) is None:
        return _scaled(np.multiply, "*", a, b)
    made = a.type.product(np.asarray(a), b.type, np.asarray(b))
    if made is None:
        raise _undefined("*", a, b)
    t, components = made
    return HostValue.of(t, components)


def _scaled(operator: Any, symbol: str, a: Any, b: Any) -> Any:
    types = [t for t in (getattr(a, "type", None), getattr(b, "type", None)) if t is not None]
    is_scaled = np.ndim(a) == 0 or np.ndim(b) == 0
    if not is_scaled and (len(types) == 2 or not all(t.is_open for t in types)):
        raise _undefined(symbol, a, b)
    made = operator(np.asarray(a), np.asarray(b))
    return HostValue.of(types[0], made) if types and is_scaled else made


def _undefined(symbol: str, a: Any, b: Any) -> KernelTypeError:
    names = [repr(getattr(v, "type", None) or type(v).__name__) for v in (a, b)]
    hint = "use quat_rotate(q, v) or transform_point(t, v), or numpy.asarray(q) for its components"
    if all(t is None or t.is_open for t in (getattr(a, "type", None), getattr(b, "type", None))):
        hint = "use dot(a, b), cross(a, b), cw_mul(a, b) or cw_div(a, b)"
    return KernelTypeError(f"{names[0]} {symbol} {names[1]} is not defined", hint=hint)


def quat_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton's product of components x, y, z, w."""
    u, v = a[:3], b[:3]
    return np.append(a[3] * v + b[3] * u + np.cross(u, v), a[3] * b[3] - u @ v).astype(a.dtype)


def quat_rotated(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The vector turned by a unit quaternion: (2 w w - 1) v + 2 (u . v) u + 2 w (u x v)."""
    u, w = q[:3], q[3]
    return ((2 * w * w - 1) * v + 2 * (u @ v) * u + 2 * w * np.cross(u, v)).astype(q.dtype)


def transform_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The motion b, and then a."""
    return np.append(a[:3] + quat_rotated(a[3:], b[:3]), quat_product(a[3:], b[3:])).astype(a.dtype)
