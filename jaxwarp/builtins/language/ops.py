"""The typing rules of the language, and its operators, as operations appended to a builder.

Operands are `ir.Value` (a scalar), `Bundle` (a vector, matrix, quaternion or transform), and Python's bool, int and
float (literals). Nothing is converted between types that a program wrote down; literals are weak: an int takes any
number type that holds it, a float any float type. Alone they are int32, float32 and bool. Errors carry no location: the
frontend adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxwarp.builtins.language import algebra
from jaxwarp.builtins.language.folding import fold
from jaxwarp.builtins.language.values import LITERALS, Bundle, Literal, Operand, describe
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.builtins.scalar_ops.registry import require_equal
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ir.builder import MOST_PLAIN, Builder
from jaxwarp.ir.nodes import Builtin, Value
from jaxwarp.quaternions import IDENTITY_ROTATION
from jaxwarp.types import Aggregate, Mat, Scalar, Vec, bool_, exact_type, float32, float64, int32, int64, uint32, uint64


def _takes_only_floats(builtin: Builtin) -> bool:
    def accepts(dtype: Scalar, count: int) -> bool:
        try:
            builtin.infer((dtype,) * count)
        except KernelTypeError:
            return False
        return True

    return not builtin.typed and any(accepts(float32, n) and not accepts(int32, n) for n in (1, 2, 3))


_FLOAT_ROWS = frozenset(name for name, builtin in ROWS.items() if _takes_only_floats(builtin))
_BOOL_FORMS = {"bit_and": "logical_and", "bit_or": "logical_or", "bit_xor": "ne", "bit_not": "logical_not"}


# The order of bools: False before True.
_BOOL_ORDER: dict[str, Callable[[Ops, Any, Any], Value]] = {
    "lt": lambda ops, a, b: ops.call("logical_and", ops.call("logical_not", a), b),
    "le": lambda ops, a, b: ops.call("logical_or", ops.call("logical_not", a), b),
    "gt": lambda ops, a, b: ops.call("logical_and", a, ops.call("logical_not", b)),
    "ge": lambda ops, a, b: ops.call("logical_or", a, ops.call("logical_not", b)),
}


class Ops:
    """Appends operations of the language to a builder.

    Every row of the table is also a method on scalars: `ops.mul(a, 2.0)` is `ops.call("mul", a, 2.0)`; the partials of
    rows are written so.
    """

    def __init__(self, builder: Builder):
        self.builder = builder

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name not in ROWS:
            raise AttributeError(name)
        return lambda *args: self.call(name, *args)

    # Literals and types

    def const(self, value: Literal, like: Value | Scalar) -> Value:
        """A constant of a type, or of the type of a value."""
        return self._constant(value, like if isinstance(like, Scalar) else like.type)

    def _constant(self, value: Literal, dtype: Scalar) -> Value:
        return self.builder.const(value, dtype)

    def adopt(self, value: Literal, dtype: Scalar) -> Value:
        """A literal that meets an operand of type `dtype`.

        Raises:
            KernelTypeError: the type cannot hold literals of that kind.
            KernelValueError: it does not hold this one.
        """
        kind = bool_ if isinstance(value, bool) else int32 if isinstance(value, int) else float32
        if (kind is bool_) != (dtype is bool_) or (kind is float32 and not dtype.is_float):
            raise KernelTypeError(
                f"the constant {value} cannot be used as {dtype}",
                hint=f"convert with {dtype}({value})" if dtype is not bool_ else "write True or False, or a comparison",
            )
        if dtype.is_int:
            limits = np.iinfo(dtype.numpy)
            if not limits.min <= value <= limits.max:
                raise KernelValueError(
                    f"the constant {value} does not fit in {dtype}", hint=_wider_hint(int(value), dtype)
                )
        if dtype.is_float and _overflows(value, dtype):
            raise KernelValueError(
                f"the constant {value} does not fit in {dtype}",
                hint=f"no float of this type holds it: write {dtype}(...) of a smaller number, or use float64",
            )
        return self._constant(value, dtype)

    def materialize(self, a: Operand, dtype: Scalar | Aggregate | None = None) -> Value | Bundle:
        """The value of a literal, of `dtype` or of its own type; a value must have that type already."""
        if isinstance(a, (Value, Bundle)):
            if dtype is not None and a.type != dtype:
                raise KernelTypeError(f"expected {dtype}, got {a.type}", hint=_conversion_hint(dtype))
            return a
        self._require_operands("value", a)
        if isinstance(dtype, Aggregate):
            raise KernelTypeError(f"expected {dtype}, got the constant {a}", hint=f"write {dtype}({a})")
        return self.adopt(a, dtype or literal_type(a))

    def scalar(self, a: Operand, dtype: Scalar | None = None) -> Value:
        """`materialize` of what must be a scalar."""
        value = self.materialize(a, dtype)
        if isinstance(value, Bundle):
            raise KernelTypeError(f"expected a scalar, got {value.type}", hint="take a component: v[0]")
        return value

    def cast(self, dtype: Scalar | Aggregate, a: Operand) -> Value | Bundle:
        """`dtype(a)` in a kernel: an explicit conversion."""
        if isinstance(dtype, Aggregate):
            return self.construct(dtype, (a,))
        return self.cast_scalar(dtype, a)

    def cast_scalar(self, dtype: Scalar, a: Operand) -> Value:
        """A scalar or literal, converted to `dtype`."""
        if isinstance(a, LITERALS):
            return self._cast_literal(dtype, a)
        if not isinstance(a, Value):
            raise KernelTypeError(
                f"{dtype}: expected a scalar, got {describe(a)}",
                hint="convert its components one by one; vectors convert with a type of their own, such as vec3d(v)",
            )
        return a if a.type == dtype else self.builder.call(ROWS["cast"], a, dtype=dtype)

    def _cast_literal(self, dtype: Scalar, a: Literal) -> Value:
        if isinstance(a, int):
            if dtype.is_float and _overflows(a, float64):
                raise KernelValueError(f"the constant {a} does not fit in {dtype}", hint="write a smaller number")
            return self._constant(a, dtype)
        return self._constant(ROWS["cast"].ref(np.float64(a), dtype=dtype.numpy).item(), dtype)

    def bitcast(self, dtype: Scalar, a: Operand) -> Value:
        """The bits of `a` as another type of the same size."""
        value = self.materialize(a)
        if not isinstance(value, Value) or bool_ in (dtype, value.type) or value.type.bits != dtype.bits:
            raise KernelTypeError(
                f"cast: the bits of {describe(value)} cannot be read as {dtype}: the sizes differ",
                hint="the sizes must be equal: float32 and int32, float64 and int64",
            )
        return value if value.type == dtype else self.builder.call(ROWS["bitcast"], value, dtype=dtype)

    def _require_operands(self, name: str, *args: Any) -> None:
        for a in args:
            if not isinstance(a, (Value, Bundle)) and not isinstance(a, LITERALS):
                raise KernelTypeError(f"{name}: expected a scalar, vector or matrix, got {describe(a)}")
            if isinstance(a, Bundle) and not a.values:
                raise KernelTypeError(f"{name}: {a.type} has no components", hint="it can only be compared")

    # Scalars

    def scalars(self, name: str, *args: Operand) -> list[Value]:
        """Scalar operands with literals in the type of the others.

        Raises:
            KernelTypeError: an operand is no scalar, or types differ.
        """
        operands: list[Value | Literal] = []
        for a in args:
            if not isinstance(a, (Value, *LITERALS)):
                raise KernelTypeError(f"{name}: expected a scalar, got {describe(a)}")
            operands.append(a)
        values = [a for a in operands if isinstance(a, Value)]
        if values:
            require_equal(name, [v.type for v in values])
        dtype = values[0].type if values else _common_type(name, operands)
        return [a if isinstance(a, Value) else self._adopt_for(name, a, dtype) for a in operands]

    def _adopt_for(self, name: str, a: Literal, dtype: Scalar) -> Value:
        try:
            return self.adopt(a, dtype)
        except (KernelTypeError, KernelValueError) as error:
            mixed = isinstance(a, float) and dtype.is_int
            hint = f"convert the {dtype} operand with float32(...) or float64(...)" if mixed else error.hint
            raise type(error)(f"{name}: {error.message}", hint=hint) from None

    def call(self, name: str, *args: Operand, fixed_rounding: bool = False) -> Value:
        """A row of the table applied to scalars and literals. With `fixed_rounding` a sum takes no product into it."""
        builtin = ROWS[name]
        if name == "select":
            condition, *branches = args
            operands = [self.condition(condition), *self.scalars(name, *branches)]
        else:
            operands = self.scalars(name, *args)
        is_rounded = fixed_rounding and operands[0].type.is_float
        return self.builder.call(builtin, *operands, fixed_rounding=is_rounded)

    def condition(self, a: Operand) -> Value:
        """Return the bool that `if` and `while` test. A number is true if it is not zero."""
        self._require_operands("condition", a)
        if isinstance(a, Bundle):
            raise KernelTypeError(
                f"a condition must be a bool or a number, got {a.type}",
                hint="compare a component, or length(v), with a number",
            )
        if isinstance(a, LITERALS):
            return self._constant(bool(a), bool_)
        return a if a.type is bool_ else self.call("ne", a, 0)

    # Vectors and matrices

    def construct(self, dtype: Aggregate, args: Sequence[Operand]) -> Bundle:
        """`vec3(x, y, z)`, `mat22(s)` and the like."""
        if not isinstance(dtype.dtype, Scalar) or not all(isinstance(n, int) for n in dtype.shape):
            raise KernelTypeError(
                f"{dtype} is generic and has no values; use a type with a dtype, like vec3 or mat33",
                hint="write types.vector(length=3, dtype=float), say",
            )
        self._require_operands(repr(dtype), *args)
        if any(isinstance(a, Bundle) for a in args):
            return self._from_parts(dtype, args)
        if len(args) not in (0, 1, dtype.size):
            counts = "0 or 1 components" if dtype.size == 1 else f"0, 1 or {dtype.size} components"
            raise KernelTypeError(
                f"{dtype}: expected {counts}, got {len(args)}",
                hint=f"pass one value for all components, or {dtype.size} values",
            )
        values = [self._component(dtype, a) for a in args or (0,) if not isinstance(a, Bundle)]
        return Bundle(dtype, tuple(values * dtype.size if len(values) == 1 else values))

    def _component(self, dtype: Aggregate, a: Value | Literal) -> Value:
        if isinstance(a, Value):
            if a.type != dtype.dtype:
                raise KernelTypeError(
                    f"{dtype}: components are {dtype.dtype}, got {a.type}", hint=f"convert with {dtype.dtype}(...)"
                )
            return a
        if dtype.dtype is bool_ and isinstance(a, int):
            return self._constant(bool(a), bool_)
        return self._adopt_for(repr(dtype), a, dtype.dtype)

    def _from_parts(self, dtype: Aggregate, args: Sequence[Operand]) -> Bundle:
        """A conversion of one value, or the parts that the type is made of: a quaternion of a vector and a number."""
        first = args[0]
        if len(args) == 1 and isinstance(first, Bundle) and first.type.with_dtype(dtype.dtype) == dtype:
            return self.map(lambda v: self.cast_scalar(dtype.dtype, v), first)
        for form in dtype.forms:
            if len(form) == len(args) and all(map(_fits, args, form)):
                return self._joined(dtype, args)
        raise _misfit(dtype, args)

    def _joined(self, dtype: Aggregate, parts: Sequence[Operand]) -> Bundle:
        values: list[Operand] = [v for p in parts for v in (p.values if isinstance(p, Bundle) else (p,))]
        values += IDENTITY_ROTATION[: dtype.size - len(values)]  # a transform of a translation alone
        return Bundle(dtype, tuple(self._component(dtype, v) for v in values if not isinstance(v, Bundle)))

    def bundle(self, dtype: Aggregate, values: Sequence[Operand]) -> Bundle:
        """A bundle of components computed by this class."""
        return Bundle(dtype, tuple(self.scalar(v, dtype.dtype) for v in values))

    def map(self, fn: Callable[..., Any], *args: Bundle) -> Bundle:
        """`fn` of corresponding components; the type of the results may differ from that of the operands."""
        values = tuple(fn(*components) for components in zip(*(a.values for a in args), strict=True))
        dtype = values[0].type
        return Bundle(args[0].type.with_dtype(dtype), values)

    def componentwise(self, name: str, *args: Operand) -> Value | Bundle:
        """A row applied to scalars, or to the components of vectors or matrices of one type."""
        self._require_operands(name, *args)
        bundles = [a for a in args if isinstance(a, Bundle)]
        if not bundles:
            return self.call(name, *args)
        if len(bundles) != len(args) or any(b.type != bundles[0].type for b in bundles):
            listed = ", ".join(describe(a) for a in args)
            raise KernelTypeError(f"{name}: expected operands of one type, got {listed}", hint="convert one of them")
        if not isinstance(bundles[0].type, Vec | Mat):
            raise KernelTypeError(
                f"{name}: expected numbers, vectors or matrices, got {bundles[0].type}",
                hint="take components: those of a quaternion are q.x, q.y, q.z, q.w",
            )
        return self.map(lambda *values: self.call(name, *values), *bundles)

    def select(self, condition: Operand, a: Operand, b: Operand, name: str = "select") -> Value | Bundle:
        """a if the condition holds, else b; both are evaluated. `name` is for messages."""
        self._require_operands(name, a, b)
        if not isinstance(a, Bundle) and not isinstance(b, Bundle):
            return self.call("select", condition, *self.scalars(name, a, b))
        if not (isinstance(a, Bundle) and isinstance(b, Bundle) and a.type == b.type):
            raise KernelTypeError(
                f"{name}: expected values of one type, got {describe(a)} and {describe(b)}", hint="convert one of them"
            )
        test = self.condition(condition)
        return self.map(lambda x, y: self.call("select", test, x, y), a, b)

    # Operators

    def binary(self, name: str, a: Operand, b: Operand) -> Operand:
        """An operator: add sub mul matmul div floordiv mod pow bit_and bit_or bit_xor shl shr."""
        self._require_operands(name, a, b)
        if isinstance(a, LITERALS) and isinstance(b, LITERALS):
            return fold(name, a, b)
        if isinstance(a, Bundle) or isinstance(b, Bundle):
            return algebra.binary(self, name, a, b)
        if name == "matmul":
            raise KernelTypeError(
                f"matmul: expected matrices or vectors, got {describe(a)} and {describe(b)}",
                hint="multiply numbers with *",
            )
        if name == "pow":
            _require_float_power(a, b)
            if isinstance(b, (int, float)) and b in (2, 3, 4):
                return self._small_power(a, int(b))
        if _is_bool(a) and _is_bool(b):
            name = _BOOL_FORMS.get(name, name)
        return self.call(name, a, b)

    def _small_power(self, a: Operand, exponent: int) -> Value:
        """a ** 2, 3 or 4 as products: exact for 2, and not a call."""
        square = self.call("mul", a, a)
        return square if exponent == 2 else self.call("mul", square, a if exponent == 3 else square)

    def unary(self, name: str, a: Operand) -> Operand:
        """An operator: neg, pos, bit_not, logical_not."""
        self._require_operands(name, a)
        if name == "logical_not":
            return (not a) if isinstance(a, LITERALS) else self.call(name, self.condition(a))
        if isinstance(a, LITERALS):
            return fold(name, a)
        if name == "pos":
            return a
        if isinstance(a, Bundle):
            return self.map(lambda v: self.call(name, v), a)
        return self.call(_BOOL_FORMS.get(name, name) if _is_bool(a) else name, a)

    def _comparable(self, a: Operand, b: Operand) -> tuple[Operand, Operand]:
        """Scalars in one type, if one has all values of both; else as they are."""
        left, right = _compared_type(a), _compared_type(b)
        if left is None or right is None or bool_ in (left, right) or left is right:
            return a, b
        if left.is_float and right.is_float and not (isinstance(a, Value) and isinstance(b, Value)):
            return a, b  # a literal is of the type that it meets
        common = exact_type(left, right)
        return (a, b) if common is None else (self.cast_scalar(common, a), self.cast_scalar(common, b))

    def compare(self, name: str, a: Operand, b: Operand) -> Value | bool:
        """A comparison: lt le gt ge eq ne. Vectors and matrices have eq and ne, of all components.

        Numbers of different types are compared exactly, in a type that has all values of both.
        """
        if isinstance(a, Bundle) and isinstance(b, Bundle) and not a.values and a.type == b.type:
            return name == "eq"
        self._require_operands(name, a, b)
        if isinstance(a, bool) and isinstance(b, bool) and name in _BOOL_ORDER:
            return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[name]
        if isinstance(a, LITERALS) and isinstance(b, LITERALS):
            return bool(fold(name, a, b))
        if _is_bool(a) and _is_bool(b) and name in _BOOL_ORDER:
            return _BOOL_ORDER[name](self, a, b)
        if not isinstance(a, Bundle) and not isinstance(b, Bundle):
            return self.call(name, *self._comparable(a, b))
        if name not in ("eq", "ne"):
            raise KernelTypeError(
                f"{name}: vectors and matrices have no order, got {describe(a)} and {describe(b)}",
                hint="compare components, or their lengths: length(a) < length(b)",
            )
        if not (isinstance(a, Bundle) and isinstance(b, Bundle) and a.type == b.type):
            raise KernelTypeError(
                f"{name}: the operands have types {describe(a)} and {describe(b)}",
                hint="convert one of them, or compare components",
            )
        result, *rest = (self.call(name, x, y) for x, y in zip(a.values, b.values, strict=True))
        for other in rest:
            result = self.call("logical_and" if name == "eq" else "logical_or", result, other)
        return result


def _compared_type(a: Operand) -> Scalar | None:
    """The type that a number brings to a comparison; None for a literal that takes that of the other side."""
    return a.type if isinstance(a, Value) else float64 if isinstance(a, float) else None


def literal_type(a: Literal) -> Scalar:
    """The type of a literal that meets no other operand."""
    return bool_ if isinstance(a, bool) else int32 if isinstance(a, int) else float32


def _common_type(name: str, literals: Sequence[object]) -> Scalar:
    """The type of literals that meet only each other."""
    if name in _FLOAT_ROWS or any(isinstance(a, float) for a in literals):
        return float32
    return bool_ if all(isinstance(a, bool) for a in literals) else int32


def _is_bool(a: Operand) -> bool:
    return isinstance(a, bool) or (isinstance(a, Value) and a.type is bool_)


def _overflows(value: Literal, dtype: Scalar) -> bool:
    """Return whether a finite literal would become infinite."""
    if abs(value) < MOST_PLAIN:
        return False
    try:
        wide = np.float64(value)
    except OverflowError:
        return True
    with np.errstate(all="ignore"):
        return bool(np.isfinite(wide) and not np.isfinite(wide.astype(dtype.numpy)))


def _wider_hint(value: int, dtype: Scalar) -> str:
    """Return what to write for an integer constant that its type cannot hold."""
    if value < 0 and not dtype.is_signed:
        return f"{dtype} has no negative values: convert the other side with a signed type, such as int32(...)"
    fitting = [t for t in (uint32, int64, uint64) if np.iinfo(t.numpy).min <= value <= np.iinfo(t.numpy).max]
    return f"write {fitting[0]}({value})" if fitting else "no integer type holds it: choose a smaller number"


def _conversion_hint(dtype: Scalar | Aggregate) -> str:
    return f"convert with {dtype}(...)" if isinstance(dtype, Scalar) else f"use a value of type {dtype}"


def _require_float_power(a: Operand, b: Operand) -> None:
    for operand in (a, b):
        if isinstance(operand, Value) and not operand.type.is_float:
            raise KernelTypeError(
                f"pow: integers have no power, got {describe(a)} ** {describe(b)}",
                hint="multiply, or convert with float(...)",
            )


def _fits(a: Operand, dtype: Any) -> bool:
    if isinstance(a, LITERALS):
        return isinstance(dtype, Scalar)
    return a.type == dtype


def _misfit(dtype: Aggregate, args: Sequence[Operand]) -> KernelTypeError:
    """The error for values, with vectors or others among them, that `dtype` cannot be made of."""
    given = " and ".join(describe(a) for a in args)
    if isinstance(dtype, Mat) and all(isinstance(a, Bundle) and isinstance(a.type, Vec) for a in args):
        return _bundle_of_bundles(dtype)
    if dtype.forms:
        listed = " or ".join(" and ".join(repr(part) for part in form) for form in dtype.forms)
        return KernelTypeError(f"{dtype}: cannot be made of {given}", hint=f"pass its components, or {listed}")
    if len(args) == 1:
        return KernelTypeError(
            f"{dtype}: expected a value of its shape, got {given}", hint="pass the components one by one"
        )
    return KernelTypeError(f"{dtype}: components must be scalars")


def _bundle_of_bundles(dtype: Aggregate) -> KernelTypeError:
    return KernelTypeError(
        f"{dtype}: a matrix cannot be made of vectors this way: it is not clear whether they are rows or columns",
        hint="use matrix_from_rows(...) or matrix_from_cols(...)",
    )
