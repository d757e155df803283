"""Inverses of the error functions. Generic in the float type.

A closed form (Winitzki 2008), or near 0 the series, is right to 0.2 %. Halley's method triples the digits: with
u = f / f' and f'' = -2 z f', as erf has it, a step is z - u / (1 + z u). Half types are computed in float32.
Derivatives of higher orders go through the steps: what they start with is smooth.
"""

# Overloads of one name, and functions without annotations of their results.
# pyright: reportRedeclaration=false, reportReturnType=false, reportCallIssue=false, reportArgumentType=false
# ruff: noqa: F811

from __future__ import annotations

import math
from typing import Any

import jaxwarp as wp

_SLOPE = wp.constant(2.0 / math.sqrt(math.pi))  # of erf at 0
_A = wp.constant(0.147)
_B = wp.constant(2.0 / (math.pi * 0.147))
_FIRST = wp.constant(math.sqrt(math.pi) / 2.0)
_THIRD = wp.constant(math.pi**1.5 / 24.0)
_FIFTH = wp.constant(7.0 * math.pi**2.5 / 960.0)


@wp.func
def _first_guess(logarithm: Any):
    """Return a first guess of the value z >= 0 for which `logarithm` is log(1 - erf(z)**2)."""
    half = type(logarithm)(0.5) * logarithm + type(logarithm)(_B)
    scaled = -logarithm / type(logarithm)(_A)
    root = wp.sqrt(half * half + scaled)
    # sqrt(half**2 + scaled) - half, where nothing cancels.
    return wp.sqrt(wp.where(half > type(half)(0.0), scaled / (root + half), root - half))


@wp.func
def _upper_inverse(y: Any):
    """z with erfc(z) = y, for 0 < y < 0.5."""
    one, two = type(y)(1.0), type(y)(2.0)
    z = _first_guess(wp.log(y * (two - y)))
    for _ in range(3):
        u = (y - wp.erfc(z)) / (type(y)(_SLOPE) * wp.exp(-z * z))
        z -= u / (one + z * u)
    return z


@wp.func
def _lower_inverse(x: Any):
    """z with erf(z) = x, for -0.5 <= x <= 0.5."""
    one, square = type(x)(1.0), x * x
    # The first terms of the series at 0.
    z = x * (type(x)(_FIRST) + square * (type(x)(_THIRD) + square * type(x)(_FIFTH)))
    for _ in range(2):
        u = (wp.erf(z) - x) / (type(x)(_SLOPE) * wp.exp(-z * z))
        z -= u / (one + z * u)
    return z


@wp.func
def _erfinv(x: Any):
    half, one = type(x)(0.5), type(x)(1.0)
    if wp.abs(x) <= half:
        return _lower_inverse(x)
    rest = one - wp.abs(x)
    if rest <= type(x)(0.0) or wp.isnan(x):
        return x / wp.where(rest == type(x)(0.0), rest, type(x)(wp.NAN))
    return wp.sign(x) * _upper_inverse(rest)


@wp.func_grad(_erfinv)
def _adj_erfinv(x: Any, adj_ret: Any):
    z = _erfinv(x)
    wp.adjoint[x] += adj_ret * wp.exp(z * z) / type(x)(_SLOPE)


@wp.func
def _erfcinv(x: Any):
    half, one = type(x)(0.5), type(x)(1.0)
    if x < half and x > type(x)(0.0):
        return _upper_inverse(x)
    if x < type(x)(0.0):
        return type(x)(wp.NAN)  # 1 - x may be 1
    return _erfinv(one - x)


@wp.func_grad(_erfcinv)
def _adj_erfcinv(x: Any, adj_ret: Any):
    z = _erfcinv(x)
    wp.adjoint[x] -= adj_ret * wp.exp(z * z) / type(x)(_SLOPE)


@wp.func
def erfinv(x: wp.float16) -> wp.float16:
    """Return the value whose error function is x, computed in float32."""
    return wp.float16(_erfinv(wp.float32(x)))


@wp.func
def erfinv(x: wp.bfloat16) -> wp.bfloat16:
    """Return the value whose error function is x, computed in float32."""
    return wp.bfloat16(_erfinv(wp.float32(x)))


@wp.func
def erfinv(x: wp.float32) -> wp.float32:
    """The inverse of the error function: z with erf(z) = x. It is infinite at -1 and 1, and NaN beyond."""
    return _erfinv(x)


@wp.func
def erfinv(x: wp.float64) -> wp.float64:
    """The inverse of the error function: z with erf(z) = x. It is infinite at -1 and 1, and NaN beyond."""
    return _erfinv(x)


@wp.func
def erfcinv(x: wp.float16) -> wp.float16:
    """Return the value whose complementary error function is x, computed in float32."""
    return wp.float16(_erfcinv(wp.float32(x)))


@wp.func
def erfcinv(x: wp.bfloat16) -> wp.bfloat16:
    """Return the value whose complementary error function is x, computed in float32."""
    return wp.bfloat16(_erfcinv(wp.float32(x)))


@wp.func
def erfcinv(x: wp.float32) -> wp.float32:
    """The inverse of erfc: z with 1 - erf(z) = x, accurate for small x. It is infinite at 0 and 2, and NaN beyond."""
    return _erfcinv(x)


@wp.func
def erfcinv(x: wp.float64) -> wp.float64:
    """The inverse of erfc: z with 1 - erf(z) = x, accurate for small x. It is infinite at 0 and 2, and NaN beyond."""
    return _erfcinv(x)
