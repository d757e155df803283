"""Vectors, matrices, quaternions and transforms outside of kernels: NumPy arrays of their components, with the parts
and operators that they have in kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jaxwarp.boundary import boundaries, raise_for_user
from jaxwarp.conversions import require_whole
from jaxwarp.errors import KernelAttributeError, KernelTypeError, OutOfRangeError

_OF_PYTHON = (np.float32, np.int32, np.bool_)
IDENTITY_ROTATION = (0.0, 0.0, 0.0, 1.0)


def number(value: Any) -> Any:
    """A number as programs of Python have it: of 32 bits a float or an int, to which no precision sticks in JAX and
    NumPy; of other types one of NumPy's, which keeps its type."""
    return value.item() if type(value) in _OF_PYTHON else value


def _called(value: HostValue) -> str:
    """Return what errors call the type of a value, as Python calls classes."""
    return f"'{value.type.short_name}'" if value.type is not None else "an array"


@boundaries
class HostValue(np.ndarray):
    """A vector, matrix, quaternion or transform on the host: an array of its components whose operators are those of
    kernels. With arrays of NumPy, vectors and matrices compute as these do.

    `type` is that of the language; None for arrays that NumPy made of it and that are none any more.
    """

    type: Any
    _CALLED = "a vector or matrix"
    _HINT = "assign to its components, v[0] = 1.0, or make another one"

    @classmethod
    def of(cls, t: Any, components: Any) -> HostValue:
        return cls.view_of(t, np.array(components, t.dtype.numpy))

    @classmethod
    def view_of(cls, t: Any, components: np.ndarray) -> HostValue:
        """A value whose components are those of an array of the type's own dtype and shape, which it shares."""
        made = components.view(cls)
        made.__dict__["type"] = t
        return made

    def __array_finalize__(self, other: Any) -> None:
        t = other.type if isinstance(other, HostValue) else None
        self.__dict__["type"] = t if t is not None and self.shape == t.shape and self.dtype == t.dtype.numpy else None

    def __reduce__(self) -> Any:
        return (HostValue.of, (self.type, np.asarray(self))) if self.type else np.asarray(self).__reduce__()

    def __str__(self) -> str:
        """Return the text that a kernel prints: components with commas between."""
        return _text(np.asarray(self)) if self.type is not None else str(np.asarray(self))

    def __repr__(self) -> str:
        return f"{self.type.short_name}({self.tolist()})" if self.type is not None else repr(np.asarray(self))

    def __getitem__(self, key: Any) -> Any:
        try:
            part = np.asarray(self)[key]
        except IndexError as error:
            raise OutOfRangeError(f"{self.type or 'an array'}: {error}", hint=f"its shape is {self.shape}") from None
        if self.type is None:
            return part
        if not part.ndim:
            return number(part)
        t = self.type.section(part.shape)
        if t is None:
            return part
        typed = part.view(HostValue)
        typed.__dict__["type"] = t
        return typed

    def __setitem__(self, key: Any, value: Any) -> None:
        """Integers of Python wrap, as in kernels."""
        if isinstance(value, (str, bytes)):  # NumPy would read a number in it
            raise KernelTypeError(f"{self.type}: expected numbers, got {value!r}", hint="convert it: float(text)")
        scalar = None if self.type is None else self.type.dtype
        if scalar is not None and scalar.is_int:
            value = _wrapped(scalar, value)
            require_whole(value, scalar, str(self.type))
        np.asarray(self)[key] = value

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        if name in _OF_TYPES and self.type is not None:
            return getattr(self.type, name)
        part = None if name.startswith("_") or self.type is None else self.type.parts.get(name)
        if part is None:
            raise_for_user(AttributeError(f"{_called(self)} object has no attribute '{name}'"))
        values = np.asarray(self)[part.start : part.start + part.size]
        return part.dtype(values) if part.size > 1 else number(values[0])

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a part, or an attribute that a program keeps on a value: its name says more than components' letters."""
        part = None if self.type is None else self.type.parts.get(name)
        if part is None:
            if self.type is not None and _is_own(type(self), name):
                self.__dict__[name] = value
                return
            parts = ", ".join({} if self.type is None else self.type.parts)
            raise KernelAttributeError(
                f"{_called(self)} object has no attribute '{name}'",
                hint=f"its parts are {parts}" if parts else "assign to its components, m[0, 0] = 1.0",
            )
        self[part.start : part.start + part.size] = value

    def __eq__(self, other: Any) -> Any:
        """One bool with other vectors, matrices and so on, tuples, lists, None and text; with numbers and arrays, each
        component's."""
        is_value = isinstance(other, HostValue) and other.type is not None
        if self.type is None or not (is_value or other is None or isinstance(other, (tuple, list, str))):
            return np.asarray(self) == np.asarray(other)
        return bool(np.array_equal(np.asarray(self), np.asarray(other)))

    def __ne__(self, other: Any) -> Any:
        equal = self == other
        return not equal if isinstance(equal, bool) else ~equal

    __hash__ = None

    def __bool__(self) -> bool:
        """True, as of a tuple: it has components."""
        return True if self.type is not None else bool(np.asarray(self))

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

    def __mod__(self, other: Any) -> Any:
        return _sum(_remainder if isinstance(other, HostValue) else np.remainder, "%", self, other)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **named: Any) -> Any:
        """Apply NumPy's function to the components. `number / v` with a NumPy number ends here too, as an exception."""
        if ufunc is np.divide and isinstance(inputs[0], np.generic) and not (out or named):
            return _scaled(ufunc, "/", *inputs)
        into = {"out": tuple(map(_components, out))} if out else {}
        made = getattr(ufunc, method)(*map(_components, inputs), **into, **named)
        return out[0] if len(out) == 1 else out or self._like(made)

    def _like(self, made: np.ndarray) -> Any:
        """An array of NumPy as a value of this one's type, if it can be one."""
        if isinstance(made, tuple):
            return tuple(map(self._like, made))
        is_one = self.type is not None and np.shape(made) == self.type.shape and made.dtype == self.type.dtype.numpy
        return HostValue.of(self.type, made) if is_one else made

    # What they give may be of another shape: a matrix times a vector.
    __imul__ = __mul__
    __itruediv__ = __truediv__

    def get_row(self, r: int) -> Any:
        """Return a row of a matrix."""
        return self._matrix()[r]

    def get_col(self, c: int) -> Any:
        """Return a column of a matrix."""
        return self._matrix()[:, c]

    def set_row(self, r: int, v: Any) -> None:
        """Set a row of a matrix, or all components of the row to a number."""
        self._matrix()[r] = v

    def set_col(self, c: int, v: Any) -> None:
        """Set a column of a matrix, or all components of the column to a number."""
        self._matrix()[:, c] = v

    def _matrix(self) -> HostValue:
        if self.ndim != 2:
            raise AttributeError(f"{self.type or 'an array'} has no rows and columns")
        return self


# What generic programs for Warp ask of a value or its type.
_OF_TYPES = ("_wp_scalar_type_", "_shape_", "_length_")

_COMPONENTS = frozenset("xyzwrgbapq")


def _is_own(kind: type, name: str) -> bool:
    """Return True for the name of an attribute that only a program can mean: no part of any value, none of ours."""
    return not (_COMPONENTS.issuperset(name) or name == "type" or name in _OF_TYPES or hasattr(kind, name))


def _components(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, HostValue) else value


def _wrapped(scalar: Any, value: Any) -> Any:
    if type(value) in (tuple, list):
        return [_wrapped(scalar, v) for v in value]
    return scalar.wrapped(value) if type(value) is int else value


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a / b` as in kernels: that of integers goes toward zero, and is 0 where b is."""
    if not all(v.dtype.kind in "iu" for v in (a, b)):
        return np.divide(a, b)
    with np.errstate(all="ignore"):
        down = np.floor_divide(a, b)
        # Where it is not exact and negative, the next one up.
        return down + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0))).astype(down.dtype)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a % b` as in kernels: with the sign of a, and 0 where b is an integer that is."""
    with np.errstate(all="ignore"):
        return np.fmod(a, b)


def _text(values: np.ndarray) -> str:
    if values.ndim > 1:
        return f"[{f',{chr(10)} '.join(_text(row) for row in values)}]"
    return f"[{', '.join(str(x) for x in values)}]"


def _sum(operator: Callable[..., np.ndarray], symbol: str, a: HostValue, b: Any) -> Any:
    if a.type is not None and getattr(b, "type", None) != a.type and (isinstance(b, HostValue) or not a.type.is_open):
        raise _undefined(symbol, a, b)
    return a._like(operator(_components(a), _components(b)))


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
    made = (_quotient if is_scaled and operator is np.divide else operator)(np.asarray(a), np.asarray(b))
    return HostValue.of(types[0], made) if types and is_scaled else made


def _undefined(symbol: str, a: Any, b: Any) -> KernelTypeError:
    names = [repr(getattr(v, "type", None) or type(v).__name__) for v in (a, b)]
    hint = "use quat_rotate(q, v) or transform_point(t, v), or numpy.asarray(q) for its components"
    if all(t is None or t.is_open for t in (getattr(a, "type", None), getattr(b, "type", None))):
        hint = "use dot(a, b), cross(a, b), cw_mul(a, b) or cw_div(a, b)"
    return KernelTypeError(f"{names[0]} {symbol} {names[1]} is not defined", hint=hint)


def cross_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of two vectors of three components; `numpy.cross` takes ten times as long for one pair."""
    (ax, ay, az), (bx, by, bz) = np.asarray(a), np.asarray(b)
    return np.array((ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx))


def quat_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton's product of components x, y, z, w."""
    u, v = a[:3], b[:3]
    return np.append(a[3] * v + b[3] * u + cross_product(u, v), a[3] * b[3] - u @ v).astype(a.dtype)


def quat_rotated(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The vector turned by a unit quaternion: (2 w w - 1) v + 2 (u . v) u + 2 w (u x v)."""
    u, w = q[:3], q[3]
    return ((2 * w * w - 1) * v + 2 * (u @ v) * u + 2 * w * cross_product(u, v)).astype(q.dtype)


def transform_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The motion b, and then a."""
    return np.append(a[:3] + quat_rotated(a[3:], b[:3]), quat_product(a[3:], b[3:])).astype(a.dtype)
