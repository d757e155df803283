"""Numbers of every type as Python computes with them: the arithmetic that docs/language.md gives kernels.

`run` is Python's run of a program that number_programs.py has written.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxwarp.types import SCALARS, Scalar, bool_, int32


class Number:
    """A number of a type: a Python integer, or a NumPy float that computes as the type does before it is rounded."""

    def __init__(self, dtype: Scalar, value: Any):
        self.dtype = dtype
        self.value = wrapped(dtype, int(value)) if dtype.is_int else rounded(dtype, value)

    def met(self, other: Any) -> Any:
        if isinstance(other, Number):
            assert other.dtype is self.dtype
            return other.value
        return Number(self.dtype, other).value

    def made(self, value: Any) -> Number:
        return Number(self.dtype, value)

    def __add__(self, other: Any) -> Number:
        return self.made(self.value + self.met(other))

    def __sub__(self, other: Any) -> Number:
        return self.made(self.value - self.met(other))

    def __mul__(self, other: Any) -> Number:
        return self.made(self.value * self.met(other))

    def __truediv__(self, other: Any) -> Number:
        a, b = self.value, self.met(other)
        if self.dtype.is_float:
            return self.made(a / b)
        return self.made(0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))

    def __floordiv__(self, other: Any) -> Number:
        a, b = self.value, self.met(other)
        if self.dtype.is_float:
            return self.made(np.floor(a / b))
        return self.made(0 if b == 0 else a // b)

    def __mod__(self, other: Any) -> Number:
        a, b = self.value, self.met(other)
        if self.dtype.is_float:
            return self.made(np.fmod(a, b))
        return self.made(0 if b == 0 else (abs(a) % abs(b)) * (-1 if a < 0 else 1))

    def __lshift__(self, other: Any) -> Number:
        by = self.met(other) % 2**self.dtype.bits
        return self.made(self.value << by if by < self.dtype.bits else 0)

    def __rshift__(self, other: Any) -> Number:
        by = self.met(other) % 2**self.dtype.bits
        return self.made(self.value >> min(by, self.dtype.bits))

    def __and__(self, other: Any) -> Number:
        return self.made(self.value & self.met(other))

    def __or__(self, other: Any) -> Number:
        return self.made(self.value | self.met(other))

    def __xor__(self, other: Any) -> Number:
        return self.made(self.value ^ self.met(other))

    def __neg__(self) -> Number:
        return self.made(-self.value)

    def __invert__(self) -> Number:
        return self.made(~self.value)

    def __abs__(self) -> Number:
        return self.made(abs(self.value))

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < self.met(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= self.met(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > self.met(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= self.met(other))

    def __eq__(self, other: object) -> bool:
        return bool(self.value == self.met(other))

    def __ne__(self, other: object) -> bool:
        return bool(self.value != self.met(other))

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.value != 0)

    def __index__(self) -> int:
        return self.value


def wrapped(dtype: Scalar, value: int) -> int:
    value %= 2**dtype.bits
    return value - 2**dtype.bits if dtype.is_signed and value >= 2 ** (dtype.bits - 1) else value


def rounded(dtype: Scalar, value: Any) -> Any:
    found = np.asarray(value).astype(dtype.numpy)[()]
    return np.float32(found) if dtype.is_half else found


def cast(dtype: Scalar, value: Any) -> Number | bool:
    given = plain(value)
    if dtype is bool_:
        return bool(given != 0)
    if dtype.is_int and isinstance(given, float | np.floating):
        limits = np.iinfo(dtype.numpy)
        whole = 0 if math.isnan(given) else given if math.isinf(given) else math.trunc(float(given))
        return Number(dtype, int(min(max(whole, int(limits.min)), int(limits.max))))
    return Number(dtype, given)


class NumberVector:
    """Components are numbers, kept in NumPy's memory, which may be that of an array."""

    def __init__(self, parts: np.ndarray, dtype: Scalar):
        self.parts = parts
        self.dtype = dtype

    @classmethod
    def of(cls, dtype: Scalar, given: Sequence[Number]) -> NumberVector:
        return cls(np.array([plain(n) for n in given], dtype.numpy), dtype)

    def numbers(self) -> list[Number]:
        return [element(self.dtype, part) for part in self.parts]

    def with_each(self, operation: Callable[..., Number], *others: Any) -> NumberVector:
        columns = [o.numbers() if isinstance(o, NumberVector) else [o] * len(self.parts) for o in others]
        return self.of(self.dtype, [operation(*row) for row in zip(self.numbers(), *columns, strict=True)])

    def __getitem__(self, index: Any) -> Number:
        return element(self.dtype, self.parts[at(index)])

    def __setitem__(self, index: Any, value: Number) -> None:
        self.parts[at(index)] = plain(value)

    x = property(lambda v: v[0], lambda v, value: v.__setitem__(0, value))
    y = property(lambda v: v[1], lambda v, value: v.__setitem__(1, value))

    def __add__(self, other: NumberVector) -> NumberVector:
        return self.with_each(operator.add, other)

    def __sub__(self, other: NumberVector) -> NumberVector:
        return self.with_each(operator.sub, other)

    def __mul__(self, other: Number) -> NumberVector:
        return self.with_each(operator.mul, other)

    def __truediv__(self, other: Number) -> NumberVector:
        return self.with_each(operator.truediv, other)

    def __neg__(self) -> NumberVector:
        return self.with_each(Number.__neg__)

    def __abs__(self) -> NumberVector:
        return self.with_each(Number.__abs__)


def element(dtype: Scalar, value: Any) -> Any:
    return bool(value) if dtype is bool_ else Number(dtype, int(value) if dtype.is_int else value)


def plain(value: Any) -> Any:
    return value.value if isinstance(value, Number) else value


class NumberArray:
    """Elements are numbers or, of so many components, vectors; rows are arrays."""

    def __init__(self, array: np.ndarray, dtype: Scalar, components: int = 0):
        self.array = array
        self.dtype = dtype
        self.components = components

    def __getitem__(self, index: Any) -> Any:
        found = self.array[at(index)]
        if np.ndim(found) > bool(self.components):
            return NumberArray(found, self.dtype, self.components)
        return NumberVector(found, self.dtype) if self.components else element(self.dtype, found)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[at(index)] = value.parts if isinstance(value, NumberVector) else plain(value)


def at(index: Any) -> tuple[int, ...]:
    found = tuple(int(i) for i in index) if isinstance(index, tuple) else (int(index),)
    assert all(i >= 0 for i in found)
    return found


class StandIn:
    """What the programs use of `wp`."""

    def __init__(self) -> None:
        self.index: tuple[int, ...] = ()
        for dtype in SCALARS:
            setattr(self, dtype.name, lambda x=0, dtype=dtype: cast(dtype, x))
        one = lambda f: lambda x: x.made(f(x.value))  # noqa: E731
        self.floor, self.ceil, self.trunc, self.rint = one(np.floor), one(np.ceil), one(np.trunc), one(np.rint)
        self.sign = lambda x: x.made(-1 if x.value < 0 else 1)
        self.abs = abs
        self.min = lambda a, b: per_component(lambda p, q: p if p < q else q, a, b)
        self.max = lambda a, b: per_component(lambda p, q: p if p > q else q, a, b)
        self.popcount = lambda x: x.made((x.value % 2**x.dtype.bits).bit_count())

    def tid(self) -> Any:
        found = tuple(Number(int32, i) for i in self.index)
        return found if len(found) > 1 else next(iter(found))

    def clamp(self, x: Any, low: Any, high: Any) -> Any:
        return self.min(self.max(low, x), high)

    def where(self, condition: bool, a: Any, b: Any) -> Any:
        return a if condition else b

    def zeros(self, extent: int, dtype: Any) -> NumberArray:
        made = dtype(0)
        return NumberArray(np.zeros(extent, made.dtype.numpy), made.dtype)

    def atomic_add(self, array: NumberArray, *given: Any) -> Any:
        return updated(array, given, lambda a, b: a + b)

    def atomic_min(self, array: NumberArray, *given: Any) -> Any:
        return updated(array, given, self.min)

    def atomic_max(self, array: NumberArray, *given: Any) -> Any:
        return updated(array, given, self.max)

    def atomic_exch(self, array: NumberArray, *given: Any) -> Any:
        return updated(array, given, lambda _, b: b)

    def atomic_xor(self, array: NumberArray, *given: Any) -> Any:
        return updated(array, given, lambda a, b: a ^ b)


def per_component(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    return a.with_each(operation, b) if isinstance(a, NumberVector) else operation(a, b)


def updated(array: NumberArray, given: Sequence[Any], operation: Callable[[Any, Any], Any]) -> Any:
    *index, value = given
    old = array[tuple(index)]
    array[tuple(index)] = operation(old, value)
    return old


def counted(*bounds: Any) -> Iterator[Number]:
    """`range`, of numbers of the type of its ends."""
    dtype = next((b.dtype for b in bounds if isinstance(b, Number)), int32)
    return (Number(dtype, k) for k in range(*(int(b) for b in bounds)))


def run(
    scope: dict[str, Any],
    functions: Sequence[str],
    grid: tuple[int, ...],
    arrays: Sequence[np.ndarray],
    dtypes: Sequence[tuple[Scalar, int]],
    vector: Scalar,
) -> None:
    """Runs the functions behind `program` and those that it calls, thread by thread.

    Args:
        dtypes: of elements, with the number of components; 0: numbers.
        vector: what `Vec` is made of.
    """
    stand_in = StandIn()
    names: dict[str, Any] = {"wp": stand_in, "range": counted, "Pair": types.SimpleNamespace}
    names["Vec"] = lambda *given: NumberVector.of(vector, given)
    for name in functions:
        names[name] = types.FunctionType(scope[name].overloads[-1].source.function.__code__, names)
    program = types.FunctionType(scope["program"].func.__code__, names)
    given = [NumberArray(a, *t) for a, t in zip(arrays, dtypes, strict=True)]
    with np.errstate(all="ignore"):
        for stand_in.index in np.ndindex(*grid):
            program(*given)
