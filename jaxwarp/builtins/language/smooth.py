"""Functions of an angle's square that are smooth where the angle is 0.

sin(x) / x and the like are even in x: smooth functions of y = x x. Written with x they divide by it, and x = |v| has a
corner at v = 0, so derivatives there are lost. Near 0 they are the first terms of their series in y, beyond it the
closed form; either side is given a harmless argument where it is not taken, so that it has finite derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxwarp.builtins.language import algebra
from jaxwarp.builtins.language.ops import Ops
from jaxwarp.builtins.scalar_ops.rules import ATTACH, DETACH
from jaxwarp.ir.nodes import Value

_TERMS = 10  # of the series: 1 / 20! is below the precision of float64
_SINC = [(-1) ** k / math.factorial(2 * k + 1) for k in range(_TERMS)]
_COS = [(-1) ** k / math.factorial(2 * k) for k in range(_TERMS)]
_ATAN = [(-1) ** k / (2 * k + 1) for k in range(12)]
_NEAR = 0.04  # of the squared tangent: 0.04^12 / 25 is below the precision of float64


def polynomial(ops: Ops, coefficients: Sequence[float], x: Value) -> Value:
    """The sum of coefficients[k] x^k."""
    result = ops.const(coefficients[-1], x)
    for c in reversed(coefficients[:-1]):
        result = ops.add(ops.mul(result, x), c)
    return result


def sinc_and_cos(ops: Ops, square: Value) -> tuple[Value, Value]:
    """sin(x) / x and cos(x) of x x."""
    near = ops.lt(square, 1.0)
    y = ops.call("select", near, square, 0.0)
    x = ops.sqrt(ops.call("select", near, 1.0, square))
    sinc = ops.call("select", near, polynomial(ops, _SINC, y), ops.div(ops.sin(x), x))
    return sinc, ops.call("select", near, polynomial(ops, _COS, y), ops.cos(x))


def angle_ratio(ops: Ops, square: Value, w: Value) -> Value:
    """atan2(s, w) / s of s s and w >= 0; 1 where both are 0."""
    near = ops.le(square, ops.mul(_NEAR, ops.mul(w, w)))
    usable = ops.call("logical_and", near, ops.gt(w, 0.0))
    divisor = ops.call("select", usable, w, 1.0)
    tangent = ops.div(ops.call("select", usable, square, 0.0), ops.mul(divisor, divisor))
    s = ops.sqrt(ops.call("select", near, 1.0, square))
    series = ops.div(polynomial(ops, _ATAN, tangent), divisor)
    return ops.call("select", near, series, ops.div(ops.atan2(s, w), s))


def norm(ops: Ops, *values: Value) -> Value:
    """The root of the sum of squares. Where all are 0 its derivative is 0, one of its subgradients."""
    return root(ops, algebra.dot(ops, values, values))


def root(ops: Ops, square: Value) -> Value:
    """The square root, with the derivative 0 at 0, where that of the root is infinite.

    Machine code is that of the root: what is attached is there for derivatives only.
    """
    fixed = ops.builder.call(DETACH, ops.sqrt(square))
    proper = ops.ne(square, 0.0)
    slope = ops.div(0.5, ops.sqrt(ops.call("select", proper, square, 0.5)))
    return ops.builder.call(ATTACH, fixed, square, ops.call("select", proper, slope, 0.0))
