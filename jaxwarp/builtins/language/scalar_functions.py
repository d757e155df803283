"""Functions of numbers; those that make sense per component take vectors and matrices too."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxwarp.builtins.language.function import Function, FunctionTable, Interval, require_vec
from jaxwarp.builtins.language.ops import Ops
from jaxwarp.builtins.language.values import LITERALS, Bundle, Operand, describe
from jaxwarp.builtins.scalar_ops import ELEMENTARY, ROWS, row_of_atomic
from jaxwarp.errors import KernelTypeError, type_text
from jaxwarp.ir.nodes import Value
from jaxwarp.quaternions import HostValue
from jaxwarp.types import SCALAR_BY_DTYPE, Scalar, as_dtype, uint32

# Rows that are functions of the language as they stand, on scalars. Operands' names are for the page.
_SCALAR_ROWS = {
    "Rounding": {"floor": "x", "ceil": "x", "trunc": "x", "round": "x", "rint": "x"},
    "Elementary functions": {
        **{row.name: ("x", "x, y")[len(row.domain) - 1] for row in ELEMENTARY},
        "atan2": "y, x",
        "pow": "x, y",
    },
    "Arithmetic": {"fma": "a, b, c", "copysign": "x, y"},
    "Bits": {"popcount": "x", "clz": "x", "ctz": "x"},
}


# How many operands each of them takes.
ROW_FUNCTIONS = {name: len(p.split(", ")) for names in _SCALAR_ROWS.values() for name, p in names.items()}


def _row_function(group: str, name: str, parameters: str) -> Function:
    builtin = ROWS[name]
    kind = "Int" if group == "Bits" else "Float"
    names = parameters.split(", ")
    signature = f"{name}({', '.join(f'{p}: {kind}' for p in names)}) -> {kind}"

    expected = f"{len(names)} argument" + "s" * (len(names) > 1)

    def body(ops: Ops, *args: Operand) -> Value:
        if len(args) != len(names):
            raise KernelTypeError(f"{name}: expected {expected}, got {len(args)}", hint=f"the signature is {signature}")
        return ops.call(name, *args)

    def ref(*args: Any) -> Any:
        if len(args) != len(names):  # NumPy would take one more as where to write
            raise TypeError(f"expected {expected}, got {len(args)}")
        if wrong := [a for a in args if np.asarray(a).dtype not in SCALAR_BY_DTYPE]:
            raise TypeError(f"expected numbers, got {type_text(wrong[0])}")
        return builtin.ref(*args)

    domain: Interval = builtin.domain[0] if builtin.domain else (-100.0, 100.0)
    ulp = max(builtin.ulp.values(), default=0.0)
    return Function(name, group, signature, builtin.doc, body, ref, domain, ulp)


_arithmetic = FunctionTable("Arithmetic")
_bits = FunctionTable("Bits")
_choices = FunctionTable("Choosing and interpolating")


def _mul_ref(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if isinstance(a, HostValue) or isinstance(b, HostValue):
        return a * b
    return np.matmul(a, b) if np.ndim(a) and np.ndim(b) else ROWS["mul"].ref(a, b)


def _of_values(operation: Callable[..., Any], ref: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that knows the types of values; `ref` is that of what has none."""
    return lambda *args: (operation if any(isinstance(a, HostValue) for a in args) else ref)(*args)


def _operator(table: FunctionTable, name: str, row: str, symbol: str, kind: str) -> None:
    doc, ref = f"The operator `a {symbol} b`. {ROWS[row].doc}", ROWS[row].ref
    ref = _of_values(getattr(operator, row), ref) if row in ("add", "sub") else ref
    signature = f"{name}(a: {kind}, b: {kind}) -> {kind}"
    if row == "mul":
        doc += " The accuracy is that of products of matrices; others are exact."
    accuracy: Any = {"ref": _mul_ref, "domain": (0.1, 2.0), "ulp": 4} if row == "mul" else {"ref": ref}

    @table.add(signature, doc=doc, **accuracy)
    def body(ops: Ops, a: Operand, b: Operand) -> Operand:
        return ops.binary(row, a, b)


for _name, _symbol in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"), ("floordiv", "//"), ("mod", "%")):
    _operator(_arithmetic, _name, _name, _symbol, "Any")


@_arithmetic.add("div_approx(a: Any, b: Any) -> Any", ROWS["div"].ref)
def _div_approx(ops: Ops, a: Operand, b: Operand) -> Operand:
    """The quotient `a / b` of floats. In spite of its name it is not approximate: it is the same on every device."""
    made = ops.binary("div", *(float(v) if isinstance(v, int) else v for v in (a, b)))
    like = made.dtype if isinstance(made, Bundle) else ops.scalar(made).type
    if not like.is_float:
        raise KernelTypeError(f"div_approx: the operands must be floats, got {like}", hint="write a // b")
    return made


for _name, _row, _symbol in (
    ("bit_and", "bit_and", "&"), ("bit_or", "bit_or", "|"), ("bit_xor", "bit_xor", "^"), ("lshift", "shl", "<<"),
    ("rshift", "shr", ">>"),
):  # fmt: skip
    _operator(_bits, _name, _row, _symbol, "Int")


@_bits.add("invert(a: Int) -> Int", ROWS["bit_not"].ref)
def _invert(ops: Ops, a: Operand) -> Operand:
    """The operator `~x`."""
    return ops.unary("bit_not", a)


@_bits.add("cast(a: Scalar, dtype: type) -> Scalar", lambda x, dtype: x.view(as_dtype(dtype).numpy))
def _cast(ops: Ops, a: Operand, dtype: Any) -> Value:
    """The bits of a, read as another type of the same size. To convert the value, call the type: `float64(x)`."""
    target = as_dtype(dtype)
    if not isinstance(target, Scalar):
        raise KernelTypeError(f"cast: expected a scalar type, got {target}")
    return ops.bitcast(target, a)


@_arithmetic.add("neg(x: Any) -> Any", _of_values(operator.neg, ROWS["neg"].ref))
def _neg(ops: Ops, x: Operand) -> Operand:
    """The operator `-x`."""
    return ops.unary("neg", x)


@_arithmetic.add("pos(x: Any) -> Any", lambda x: x)
def _pos(ops: Ops, x: Operand) -> Operand:
    """The operator `+x`, which is x itself."""
    return ops.unary("pos", x)


@_arithmetic.add("abs(x: Any) -> Any", ROWS["abs"].ref)
def _abs(ops: Ops, x: Operand) -> Operand:
    """The absolute value, per component. The derivative at 0 is 1."""
    return ops.componentwise("abs", x)


@_arithmetic.add("sign(x: Any) -> Any", ROWS["sign"].ref)
def _sign(ops: Ops, x: Operand) -> Operand:
    """-1 if x < 0, else 1, per component."""
    return ops.componentwise("sign", x)


def _nonzero_ref(x: np.ndarray) -> np.ndarray:
    return (x != 0).astype(x.dtype)


@_arithmetic.add("nonzero(x: Scalar) -> Scalar", _nonzero_ref)
def _nonzero(ops: Ops, x: Operand) -> Operand:
    """1 if x is not zero, else 0."""
    return ops.call("select", ops.call("ne", x, 0), *_one_and_zero(ops, x))


def _one_and_zero(ops: Ops, x: Operand) -> tuple[Operand, Operand]:
    """1 and 0 of the type of x."""
    dtype = ops.scalar(x).type
    return ops.const(1, dtype), ops.const(0, dtype)


@_arithmetic.add("step(x: Scalar) -> Scalar", lambda x: (x < 0).astype(x.dtype))
def _step(ops: Ops, x: Operand) -> Operand:
    """1 if x < 0, else 0 (as in Warp)."""
    return ops.call("select", ops.call("lt", x, 0), *_one_and_zero(ops, x))


@_arithmetic.add("frac(x: Float) -> Float", lambda x: x - np.trunc(x))
def _frac(ops: Ops, x: Operand) -> Operand:
    """The fraction x - trunc(x). It has the sign of x."""
    return ops.call("sub", x, ops.call("trunc", x))


@_arithmetic.add("degrees(x: Float) -> Float", lambda x: np.degrees(x.astype(np.float64)).astype(x.dtype), ulp=2)
def _degrees(ops: Ops, x: Operand) -> Operand:
    """Convert radians to degrees."""
    return ops.call("mul", ops.scalar(x) if isinstance(x, Value) else float(_number("degrees", x)), 180.0 / np.pi)


@_arithmetic.add("radians(x: Float) -> Float", lambda x: np.radians(x.astype(np.float64)).astype(x.dtype), ulp=2)
def _radians(ops: Ops, x: Operand) -> Operand:
    """Convert degrees to radians."""
    return ops.call("mul", x if isinstance(x, Value) else float(_number("radians", x)), np.pi / 180.0)


def _number(name: str, x: Operand) -> bool | int | float:
    if not isinstance(x, LITERALS):
        raise KernelTypeError(f"{name}: expected a scalar, got {describe(x)}")
    return x


def _extremum(name: str, ops: Ops, args: tuple[Operand, ...]) -> Operand:
    if len(args) == 1:
        (vector,) = require_vec(name, *args)
        row = row_of_atomic(name, vector.values[0].type).name
        return functools.reduce(functools.partial(ops.call, row), vector.values)
    result, *rest = args
    for other in rest:
        result = ops.componentwise(name, result, other)
    return result


@_choices.add("min(a: Any, b: Any, ...) -> Any", lambda *args: _extremum_ref("min", args))
def _min(ops: Ops, a: Operand, *more: Operand) -> Operand:
    """`a if a < b else b` for numbers, and per component for vectors. With more arguments, from left to right. `min(v)`
    of one vector is its smallest component; NaNs are ignored there."""
    return _extremum("min", ops, (a, *more))


@_choices.add("max(a: Any, b: Any, ...) -> Any", lambda *args: _extremum_ref("max", args))
def _max(ops: Ops, a: Operand, *more: Operand) -> Operand:
    """`a if a > b else b` for numbers, and per component for vectors. With more arguments, from left to right. `max(v)`
    of one vector is its largest component; NaNs are ignored there."""
    return _extremum("max", ops, (a, *more))


def _extremum_ref(name: str, args: tuple[np.ndarray, ...]) -> np.ndarray:
    first, *others = args
    if others:
        return functools.reduce(ROWS[name].ref, args)
    components = np.asarray(first)
    return functools.reduce(row_of_atomic(name, SCALAR_BY_DTYPE[components.dtype]).ref, components)


def _is_better(ops: Ops, row: str, value: Value, best: Value) -> Value:
    """A NaN takes no place, and leaves its own."""
    better = ops.call(row, value, best)
    if not value.type.is_float:
        return better
    is_first_number = ops.call("logical_and", ops.call("isnan", best), ops.call("eq", value, value))
    return ops.call("logical_or", better, is_first_number)


def _arg_extremum(name: str, row: str, ops: Ops, v: Operand) -> Value:
    (vector,) = require_vec(name, v)
    best, index = vector.values[0], ops.const(0, uint32)
    for i, value in enumerate(vector.values[1:], 1):
        better = _is_better(ops, row, value, best)
        index = ops.call("select", better, ops.const(i, uint32), index)
        best = ops.call("select", better, value, best)
    return index


def _arg_extremum_ref(fn: Callable[[np.ndarray], Any], v: np.ndarray) -> np.uint32:
    components = np.asarray(v)
    numbers = np.flatnonzero(components == components)
    return np.uint32(numbers[fn(components[numbers])] if numbers.size else 0)


@_choices.add("argmin(a: Vec) -> uint32", lambda v: _arg_extremum_ref(np.argmin, v))
def _argmin(ops: Ops, a: Operand) -> Value:
    """The index of the smallest component, and the first of equal ones. A NaN is ignored. If all are NaN, the index is
    0."""
    return _arg_extremum("argmin", "lt", ops, a)


@_choices.add("argmax(a: Vec) -> uint32", lambda v: _arg_extremum_ref(np.argmax, v))
def _argmax(ops: Ops, a: Operand) -> Value:
    """The index of the largest component, and the first of equal ones. A NaN is ignored. If all are NaN, the index is
    0."""
    return _arg_extremum("argmax", "gt", ops, a)


def _clamp_ref(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return ROWS["min"].ref(ROWS["max"].ref(low, x), high)


@_choices.add("clamp(x: Any, low: Any, high: Any) -> Any", _clamp_ref)
def _clamp(ops: Ops, x: Operand, low: Operand, high: Operand) -> Operand:
    """x limited to the range from low to high: min(max(low, x), high). Vectors are limited per component. If x equals
    low, the derivative goes to x. If it equals high, it goes to high, as in Warp."""
    if isinstance(x, Bundle) or isinstance(low, Bundle) or isinstance(high, Bundle):
        return ops.componentwise("min", ops.componentwise("max", low, x), high)
    low, x, high = ops.scalars("clamp", low, x, high)
    return ops.call("min", ops.call("max", low, x), high)


@_choices.add("where(cond: bool, value_if_true: Any, value_if_false: Any) -> Any", np.where, also={"arr": "cond"})
def _where(ops: Ops, cond: Operand, value_if_true: Operand, value_if_false: Operand) -> Operand:
    """One of two values. They can be numbers, vectors, structs, tiles (copied), parts of one array, or tuples of these.
    Both are evaluated; `a if cond else b` evaluates only the one that it needs."""
    return ops.select(cond, value_if_true, value_if_false, "where")


@_choices.add(
    "select(cond: bool, value_if_false: Any, value_if_true: Any) -> Any",
    lambda condition, a, b: np.where(condition, b, a),
)
def _select(ops: Ops, cond: Operand, value_if_false: Operand, value_if_true: Operand) -> Operand:
    """An older form of `where`, as in Warp. The two values are in the other order."""
    return ops.select(cond, value_if_true, value_if_false)


@_choices.add("lerp(a: Any, b: Any, t: Float) -> Any", lambda a, b, t: a * (1 - t) + b * t, domain=(0.1, 1.0), ulp=4)
def _lerp(ops: Ops, a: Operand, b: Operand, t: Operand) -> Operand:
    """a * (1 - t) + b * t."""
    if isinstance(t, Bundle):
        raise KernelTypeError(f"lerp: t must be a scalar, got {t.type}")
    if not isinstance(a, Bundle) and not isinstance(b, Bundle):
        a, b, t = ops.scalars("lerp", a, b, t)
    like = a.dtype if isinstance(a, Bundle) else t.type if isinstance(t, Value) else ops.scalar(t).type
    if not like.is_float:
        raise KernelTypeError(f"lerp: the operands must be floats, got {like}", hint="convert with float(...)")
    left = ops.binary("mul", a, ops.call("sub", ops.const(1.0, like), t))
    return ops.binary("add", left, ops.binary("mul", b, t))


def _smoothstep_ref(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    t = _clamp_ref((x - a) / (b - a), x.dtype.type(0), x.dtype.type(1))
    return t * t * (x.dtype.type(3) - x.dtype.type(2) * t)


@_choices.add("smoothstep(a: Float, b: Float, x: Float) -> Float", _smoothstep_ref, ulp=8)
def _smoothstep(ops: Ops, a: Operand, b: Operand, x: Operand) -> Operand:
    """0 for x below a, 1 for x above b, and t * t * (3 - 2 * t) between, where t = (x - a) / (b - a)."""
    low, high, value = ops.scalars("smoothstep", *(float(v) if isinstance(v, int) else v for v in (a, b, x)))
    fraction = ops.call("div", ops.call("sub", value, low), ops.call("sub", high, low))
    t = ops.call("min", ops.call("max", 0.0, fraction), 1.0)
    return ops.call("mul", ops.call("mul", t, t), ops.call("sub", 3.0, ops.call("mul", 2.0, t)))


_tests = FunctionTable("Comparison and logic")


def _float_test(name: str, every: bool) -> None:
    reduce = np.all if every else np.any
    which = "all components are" if every else "any component is"
    doc = f"{ROWS[name].doc} For vectors and matrices: if {which}."

    @_tests.add(f"{name}(a: Any) -> bool", lambda x: reduce(ROWS[name].ref(x)), doc=doc)
    def body(ops: Ops, a: Operand) -> Value:
        if not isinstance(a, Bundle):
            return ops.call(name, a)
        result, *rest = (ops.call(name, v) for v in a.values)
        for value in rest:
            result = ops.call("logical_and" if every else "logical_or", result, value)
        return result


_float_test("isnan", False)
_float_test("isinf", False)
_float_test("isfinite", True)

SCALAR_FUNCTIONS: tuple[Function, ...] = (
    *_arithmetic.functions,
    *_choices.functions,
    *_tests.functions,
    *_bits.functions,
    *(_row_function(group, name, p) for group, names in _SCALAR_ROWS.items() for name, p in names.items()),
)
