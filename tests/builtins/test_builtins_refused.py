"""What the typing rules refuse, with the exact text."""

from __future__ import annotations

import pytest

import jaxwarp as wp
from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.builtins.language.ops import Ops
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ir.builder import Builder
from jaxwarp.types import Mat, Vec, float16, float32, float64, int32, int64, uint8


class Operands:
    """One of each kind, for refused programs."""

    def __init__(self) -> None:
        self.ops = Ops(Builder())
        self.i = self.ops.builder.tid(0)
        self.f = self.ops.cast(float32, self.i)
        self.d = self.ops.cast(float64, self.i)
        self.b = self.ops.compare("lt", self.i, 3)
        self.v = self.ops.construct(Vec(3, float32), (self.f,))
        self.w = self.ops.construct(Vec(3, float64), (self.d,))
        self.m = self.ops.construct(Mat(3, 3, float32), (self.f,))


def call(name, *args, **options):
    return lambda o: FUNCTIONS[name].expand(
        o.ops, *(getattr(o, a) if isinstance(a, str) else a for a in args), **options
    )


REFUSED = {
    "int32 + float32": (
        lambda o: o.ops.binary("add", o.i, o.f), KernelTypeError,
        "add: the operands have types int32 and float32\n  hint: convert with int32(...) or float32(...)"),
    "float64 < int64": (
        lambda o: o.ops.compare("lt", o.d, o.ops.cast(int64, o.i)), KernelTypeError,
        "lt: the operands have types float64 and int64\n  hint: convert with float64(...) or int64(...)"),
    "int32 + 2.5": (
        lambda o: o.ops.binary("add", o.i, 2.5), KernelTypeError,
        "add: the constant 2.5 cannot be used as int32\n"
        "  hint: convert the int32 operand with float32(...) or float64(...)"),
    "int32 + 2**40": (
        lambda o: o.ops.binary("add", o.i, 2**40), KernelValueError,
        "add: the constant 1099511627776 does not fit in int32\n  hint: write int64(1099511627776)"),
    "uint8 - 1": (
        lambda o: o.ops.binary("add", o.ops.cast(uint8, o.i), -1), KernelValueError,
        "add: the constant -1 does not fit in uint8\n"
        "  hint: uint8 has no negative values: convert the other side with a signed type, such as int32(...)"),
    "where of two scalar types": (
        call("where", "b", "f", "d"), KernelTypeError,
        "where: the operands have types float32 and float64\n  hint: convert with float32(...) or float64(...)"),
    "float32 * 1e40": (
        lambda o: o.ops.binary("mul", o.f, 1e40), KernelValueError, "mul: the constant 1e+40 does not fit in float32"),
    "float16 + 70000": (
        lambda o: o.ops.binary("add", o.ops.cast(float16, o.i), 70000), KernelValueError,
        "add: the constant 70000 does not fit in float16"),
    "float64 + a googolplex": (
        lambda o: o.ops.binary("add", o.d, 10**400), KernelValueError,
        f"add: the constant {10**400} does not fit in float64"),
    "2**31 alone": (
        lambda o: o.ops.materialize(2**31), KernelValueError,
        "the constant 2147483648 does not fit in int32\n  hint: write uint32(2147483648)"),
    "2**70 alone": (
        lambda o: o.ops.materialize(2**70), KernelValueError, f"the constant {2**70} does not fit in int32"),
    "bool + bool": (
        lambda o: o.ops.binary("add", o.b, o.b), KernelTypeError,
        "add: operand 1 must be a number, got bool\n  hint: convert the bool with int(...) or float(...)"),
    "True + int32": (
        lambda o: o.ops.binary("add", True, o.i), KernelTypeError,
        "add: the constant True cannot be used as int32\n  hint: convert with int32(True)"),
    "1 + True": (
        lambda o: o.ops.binary("add", 1, True), KernelTypeError, "add: the operands must be numbers, got 1 and True"),
    "float32 & float32": (
        lambda o: o.ops.binary("bit_and", o.f, o.f), KernelTypeError,
        "bit_and: operand 1 must be an integer, got float32"),
    "int32 ** 2": (
        lambda o: o.ops.binary("pow", o.i, 2), KernelTypeError,
        "pow: integers have no power, got int32 ** the constant 2\n  hint: multiply, or convert with float(...)"),
    "2 ** -1": (
        lambda o: o.ops.binary("pow", 2, -1), KernelTypeError,
        "pow: integers have no negative power, got 2 ** -1\n  hint: write 2.0 ** -1"),
    "1 << 100": (
        lambda o: o.ops.binary("shl", 1, 100), KernelValueError, "a constant shift must be by 0 to 63, got 100"),
    "vec3 * vec3": (
        lambda o: o.ops.binary("mul", o.v, o.v), KernelTypeError,
        "mul: vec3[float32] * vec3[float32] is not defined\n"
        "  hint: use dot(a, b), cross(a, b), outer(a, b) or cw_mul(a, b)"),
    "vec3 / vec3": (
        lambda o: o.ops.binary("div", o.v, o.v), KernelTypeError,
        "div: vec3[float32] / vec3[float32] is not defined\n  hint: use cw_div(a, b)"),
    "vec3 + 1": (
        lambda o: o.ops.binary("add", o.v, 1), KernelTypeError,
        "add: vec3[float32] + the constant 1 is not defined\n"
        "  hint: make a vector of the scalar first, like vec3(s)"),
    "vec3 + vec3 of doubles": (
        lambda o: o.ops.binary("add", o.v, o.w), KernelTypeError,
        "add: vec3[float32] + vec3[float64] is not defined\n"
        "  hint: convert one with vec3[float32](...) or vec3[float64](...)"),
    "vec3 * float64": (
        lambda o: o.ops.binary("mul", o.v, o.d), KernelTypeError,
        "mul: the operands have types float32 and float64\n  hint: convert with float32(...) or float64(...)"),
    "float32 @ float32": (
        lambda o: o.ops.binary("matmul", o.f, o.f), KernelTypeError,
        "matmul: expected matrices or vectors, got float32 and float32"),
    "vec3 < vec3": (
        lambda o: o.ops.compare("lt", o.v, o.v), KernelTypeError,
        "lt: vectors and matrices have no order, got vec3[float32] and vec3[float32]"),
    "vec3 == 1": (
        lambda o: o.ops.compare("eq", o.v, 1), KernelTypeError,
        "eq: the operands have types vec3[float32] and the constant 1"),
    "if vec3": (
        lambda o: o.ops.condition(o.v), KernelTypeError, "a condition must be a bool or a number, got vec3[float32]"),
    "sin(int32)": (
        call("sin", "i"), KernelTypeError,
        "sin: the operand must be a float, got int32\n  hint: convert with float(...) or float64(...)"),
    "sin(vec3)": (call("sin", "v"), KernelTypeError, "sin: expected a scalar, got vec3[float32]"),
    "sin(x, y)": (
        call("sin", "f", "f"), KernelTypeError,
        "sin: expected 1 argument, got 2\n  hint: the signature is sin(x: Float) -> Float"),
    "dot(vec3, float)": (
        call("dot", "v", "f"), KernelTypeError, "dot: expected vectors of one type, got vec3[float32] and float32"),
    "dot(vec3)": (
        call("dot", "v"), KernelTypeError,
        "dot: missing a required argument: 'b'\n  hint: the signature is dot(a: Vec, b: Vec) -> Scalar"),
    "cross of mat33": (
        call("cross", "m", "m"), KernelTypeError,
        "cross: expected vectors of one type, got mat3x3[float32] and mat3x3[float32]"),
    "clamp of two types": (
        call("clamp", "f", "d", 1.0), KernelTypeError,
        "clamp: the operands have types float64 and float32\n  hint: convert with float64(...) or float32(...)"),
    "where of two types": (
        call("where", "b", "v", "f"), KernelTypeError,
        "where: expected values of one type, got vec3[float32] and float32"),
    "inverse of a vector": (
        call("inverse", "v"), KernelTypeError, "inverse: expected a matrix, got vec3[float32]"),
    "vec3 of an int32": (
        lambda o: o.ops.construct(Vec(3, float32), (o.i,)), KernelTypeError,
        "vec3[float32]: components are float32, got int32\n  hint: convert with float32(...)"),
    "vec3 of two": (
        lambda o: o.ops.construct(Vec(3, float32), (o.f, o.f)), KernelTypeError,
        "vec3[float32]: expected 0, 1 or 3 components, got 2"),
    "ivec of a float": (
        lambda o: o.ops.construct(Vec(2, int32), (1, 2.0)), KernelTypeError,
        "vec2[int32]: the constant 2.0 cannot be used as int32\n"
        "  hint: convert the int32 operand with float32(...) or float64(...)"),
    "mat33 of vectors": (
        lambda o: o.ops.construct(Mat(3, 3, float32), (o.v, o.v, o.v)), KernelTypeError,
        "mat3x3[float32]: a matrix cannot be made of vectors this way: it is not clear whether they are rows or "
        "columns\n  hint: use matrix_from_rows(...) or matrix_from_cols(...)"),
    "vec2 of vec3": (
        lambda o: o.ops.construct(Vec(2, float32), (o.v,)), KernelTypeError,
        "vec2[float32]: expected a value of its shape, got vec3[float32]"),
    "float32 of vec3": (
        lambda o: o.ops.cast(float32, o.v), KernelTypeError, "float32: expected a scalar, got vec3[float32]"),
    "bits of another size": (
        call("cast", "f", int64), KernelTypeError,
        "cast: the bits of float32 cannot be read as int64: the sizes differ"),
    "vector of nothing": (call("vector"), KernelTypeError, "vector: expected components or length="),
    "identity of a run-time size": (
        call("identity", "i", float32), KernelValueError,
        "identity: n must be a positive integer known before the kernel runs"),
    "a value of another type": (
        lambda o: o.ops.materialize(o.f, float64), KernelTypeError,
        "expected float64, got float32\n  hint: convert with float64(...)"),
    "norm of integers": (
        lambda o: FUNCTIONS["length"].expand(o.ops, o.ops.construct(Vec(2, int32), (1, 2))), KernelTypeError,
        "length: components must be floats, got int32"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    attempt, kind, message = REFUSED[case]
    with pytest.raises(kind) as caught:
        attempt(Operands())
    text, _, hint = message.partition("\n  hint: ")
    assert caught.value.message == text
    assert not hint or caught.value.hint == hint


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: wp.sin(y=3.0), "sin: got an unexpected keyword argument 'y'"),
        (lambda: wp.clamp(1.0, 0.0, max=2.0), "clamp: got an unexpected keyword argument 'max'"),
        (lambda: wp.sin(1.0, y=3.0), "sin: got an unexpected keyword argument 'y'"),
        (lambda: wp.clamp(1.0, high=2.0), "clamp: missing a required argument: 'low'"),
        (lambda: wp.transform_point(point=wp.vec3(), m=wp.mat44()), "transform_point: got an unexpected keyword"),
        (lambda: wp.quat_rotate(wp.quat(), wp.vec3(), 1.0), "quat_rotate: too many positional arguments"),
    ],
)
def test_calls_from_python_name_arguments_as_the_signature_does(call, text):
    with pytest.raises(KernelTypeError) as caught:
        call()
    assert caught.value.message.startswith(text)
    assert "signature is" in caught.value.hint
