"""Functions of the user's as operators of structs, and where the language has none for the operands."""

# ruff: noqa: F811
# pyright: reportRedeclaration=false, reportOperatorIssue=false

from __future__ import annotations

import numpy as np
import pytest
from language import define, run

import jaxwarp as wp
from jaxwarp.errors import KernelError


@wp.struct
class Complex:
    re: float
    im: float


@wp.func
def add(a: Complex, b: Complex):
    return Complex(a.re + b.re, a.im + b.im)


@wp.func
def add(a: Complex, b: float):
    return Complex(a.re + b, a.im)


@wp.func
def add(a: wp.vec3, b: float):
    return a + wp.vec3(b)


@wp.func
def mul(a: Complex, b: Complex):
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@wp.func
def neg(a: Complex):
    return Complex(-a.re, -a.im)


@wp.func
def sub(a: float, b: float):
    """No operator: the language has that of floats."""
    return a + b


@wp.kernel
def horner(z: wp.array[Complex], out: wp.array[Complex], n: int):
    i = wp.tid()
    x = z[i]
    y = Complex(1.0, 0.0)
    for _ in range(n):
        y = y * x + 1.0
    y += -x
    out[i] = y
    out[i] += x
    if y.re > 0.0:
        out[i] *= Complex(0.0, 1.0)


def test_structs():
    z = np.array([0.5 + 0.25j, -1.0 + 2.0j, 0.0])
    y = 1 + 0j
    for _ in range(3):
        y = y * z + 1
    expected = np.where((y - z).real > 0, y * 1j, y)
    zeros = np.zeros(3, np.float32)
    got = run(horner, 3, z.real, z.imag, zeros, zeros, 3)
    np.testing.assert_allclose(got[2], expected.real, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got[3], expected.imag, rtol=1e-6, atol=1e-6)


@wp.kernel
def mixed(v: wp.array[wp.vec3], x: wp.array[float]):
    i = wp.tid()
    v[i] = v[i] + 1.0
    w = v[i]
    w += x[i]
    v[i] = w
    x[i] = x[i] - 1.0


def test_what_the_language_has_no_operator_for():
    v, x = run(mixed, 2, np.ones((2, 3)), [2.0, 3.0])
    np.testing.assert_array_equal(v, [[4, 4, 4], [5, 5, 5]])
    np.testing.assert_array_equal(x, [1.0, 2.0])


def made_here():
    @wp.struct
    class Length:
        metres: float

    @wp.func
    def floordiv(a: Length, b: Length):
        return a.metres / b.metres

    @wp.kernel
    def ratio(out: wp.array[float]):
        out[0] = Length(6.0) // Length(4.0)

    return ratio


def test_functions_of_the_scope_where_a_kernel_is_made():
    np.testing.assert_array_equal(run(made_here(), 1, [0.0])[0], [1.5])


PROGRAM = """
@wp.struct
class S:
    x: float
{function}
@wp.kernel
def k(a: wp.array[float]):
    s = S(a[0])
    {statement}
    a[0] = s.x
"""


@pytest.mark.parametrize(
    ("function", "statement", "message"),
    [
        ("", "s = s ** 2.0", r"S has no operator \*\*.*def pow\(a: S, b: float32\)"),
        ("", "s = 2 - s", r"S has no operator -.*def sub\(a: int32, b: S\)"),
        ("", "s = ~s", r"S has no operator ~.*def invert\(a: S\)"),
        ("@wp.func\ndef add(a: S, b: float): return a\n", "s = s + s", "add: argument b is S, expected float32"),
        ("@wp.func\ndef add(a: wp.ref[S], b: S): a.x = 1.0\n", "s = s + s", "add takes references.*call it"),
        ("@wp.func\ndef add(a: S, b: S): return a + b\n", "s = s + s", "add calls itself"),
    ],
)
def test_refused(function, statement, message):
    kernel = define(PROGRAM.format(function=function, statement=statement))["k"]
    with pytest.raises(KernelError, match=f"(?s){message}"):
        kernel.specialize()
