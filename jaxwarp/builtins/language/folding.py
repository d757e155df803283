"""Operators on two literals, computed when the kernel is lowered.

Integers are exact here and must fit when they meet a type; floats are computed in double precision. Otherwise the rules
of the language hold: `/` and `%` of integers go toward zero, `//` goes down, and dividing by zero gives 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxwarp.builtins.language.values import Literal
from jaxwarp.errors import KernelTypeError, KernelValueError


def fold(name: str, *args: Literal) -> Literal:
    """The literal that an operator gives.

    Raises:
        KernelTypeError: the operator is not defined on literals of these kinds.
    """
    listed = " and ".join(str(a) for a in args)
    if all(isinstance(a, bool) for a in args) and name in _BOOLS:
        return bool(_BOOLS[name](*args))
    if any(isinstance(a, bool) for a in args):
        raise KernelTypeError(
            f"{name}: the operands must be numbers, got {listed}", hint="write numbers, not bools: int(x)"
        )
    if all(isinstance(a, int) for a in args):
        if name in _INTEGERS:
            return _INTEGERS[name](*args)
    elif name in _FLOATS:
        with np.errstate(all="ignore"):
            result = _FLOATS[name](*(np.float64(a) for a in args))
        return bool(result) if isinstance(result, (bool, np.bool_)) else float(result)
    raise KernelTypeError(f"{name}: not defined on {listed}", hint="convert the operands to integers with int(...)")


def _divide(a: int, b: int) -> int:
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _floor_divide(a: int, b: int) -> int:
    return a // b if b else 0


def _remainder(a: int, b: int) -> int:
    return a - b * _divide(a, b) if b else 0


def _power(a: int, b: int) -> int:
    if b < 0:
        raise KernelTypeError(f"pow: integers have no negative power, got {a} ** {b}", hint=f"write {a}.0 ** {b}")
    if b > 64 and abs(a) > 1:
        raise KernelValueError(
            f"pow: {a} ** {b} does not fit in an integer type", hint="write it with floats: 2.0 ** 100.0"
        )
    return a**b


def _shift(shift: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def checked(a: int, count: int) -> int:
        if not 0 <= count < 64:
            raise KernelValueError(f"a constant shift must be by 0 to 63, got {count}", hint="shift by 0 to 63")
        return shift(a, count)

    return checked


_COMPARISONS: dict[str, Any] = {n: getattr(operator, n) for n in ("lt", "le", "gt", "ge", "eq", "ne")}
_COMMON = {**_COMPARISONS, "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg,
           "pos": operator.pos}  # fmt: skip
_BOOLS: dict[str, Any] = {
    "eq": operator.eq, "ne": operator.ne, "bit_and": operator.and_, "bit_or": operator.or_, "bit_xor": operator.xor,
    "bit_not": operator.not_,
}  # fmt: skip
_INTEGERS: dict[str, Any] = {
    **_COMMON, "div": _divide, "floordiv": _floor_divide, "mod": _remainder, "pow": _power, "bit_and": operator.and_,
    "bit_or": operator.or_, "bit_xor": operator.xor, "bit_not": operator.invert, "shl": _shift(operator.lshift),
    "shr": _shift(operator.rshift),
}  # fmt: skip
_FLOATS: dict[str, Any] = {
    **_COMMON, "div": operator.truediv, "floordiv": lambda a, b: np.floor(a / b), "mod": np.fmod, "pow": np.power,
}  # fmt: skip
