"""Quaternions and transforms outside of kernels: NumPy arrays of their components, with the operators of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxwarp.errors import KernelTypeError

IDENTITY_ROTATION = (0.0, 0.0, 0.0, 1.0)


class HostValue(np.ndarray):
    """A quaternion or transform on the host: an array of its components whose operators are those of kernels.

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

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def __getattr__(self, name: str) -> Any:
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

    def __add__(self, other: Any) -> Any:
        return _host_sum(np.add, "+", self, other)

    def __sub__(self, other: Any) -> Any:
        return _host_sum(np.subtract, "-", self, other)

    def __mul__(self, other: Any) -> Any:
        if self.type is not None and getattr(other, "type", None) == self.type:
            return HostValue.of(self.type, self.type.product(np.asarray(self), np.asarray(other)))
        return _host_scaled(np.multiply, "*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _host_scaled(np.multiply, "*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _host_scaled(np.divide, "/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _host_scaled(np.divide, "/", other, self)


def _host_sum(operator: Any, symbol: str, a: HostValue, b: Any) -> Any:
    if a.type is not None and getattr(b, "type", None) != a.type:
        raise _host_undefined(symbol, a, b)
    return operator(a, b)


def _host_scaled(operator: Any, symbol: str, a: Any, b: Any) -> Any:
    t = getattr(a, "type", None) or getattr(b, "type", None)
    if t is None:
        return operator(np.asarray(a), np.asarray(b))
    if np.ndim(a) and np.ndim(b):
        raise _host_undefined(symbol, a, b)
    return HostValue.of(t, operator(np.asarray(a), np.asarray(b)))


def _host_undefined(symbol: str, a: Any, b: Any) -> KernelTypeError:
    names = [repr(getattr(v, "type", None) or type(v).__name__) for v in (a, b)]
    return KernelTypeError(
        f"{names[0]} {symbol} {names[1]} is not defined",
        hint="use quat_rotate(q, v) or transform_point(t, v), or numpy.asarray(q) for its components",
    )


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
