"""Formulas for rows, written as formulas: `x * y + 1.0` appends LLVM instructions for all lanes.

Only IEEE operations, in the order written: nothing is contracted or reordered, so results are the same at every width
and on every machine. `fma` is always fused; processors without the instruction compute it in software.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxwarp.builtins.scalar_ops.protocols import TextOps
from jaxwarp.errors import InternalError
from jaxwarp.types import Scalar, bool_, float32, float64, int32, int64

MANTISSA = {"f32": 23, "f64": 52}
BIAS = {"f32": 127, "f64": 1023}


class Num:
    """A value of a row under construction: an LLVM operand and its type."""

    __slots__ = ("ops", "text", "type")

    def __init__(self, ops: TextOps, type_: Scalar, text: str):
        self.ops = ops
        self.type = type_
        self.text = text

    @property
    def kind(self) -> str:
        """ "f32" or "f64": the key of the tables of coefficients."""
        return self.type.short

    def like(self, value: Num | float) -> Num:
        """A number as a constant of this type."""
        return value if isinstance(value, Num) else Num(self.ops, self.type, self.ops.const(self.type, value))

    def stored(self, value: Num | float) -> Num:
        """Return a constant as `like` does, for a number that no other formula uses with equal operands.

        LLVM does not share the instructions made from it.
        """
        return value if isinstance(value, Num) else Num(self.ops, self.type, self.ops.stored(self.type, value))

    def op(self, name: str, other: Num | float) -> Num:
        operand = self.like(other).text
        return Num(self.ops, self.type, self.ops.inst(f"{name} {self.ops.type(self.type)} {self.text}, {operand}"))

    def _arithmetic(self, name: str, other: Num | float) -> Num:
        return self.op("f" + name if self.type.is_float else name, other)

    def __add__(self, other: Num | float) -> Num:
        return self._arithmetic("add", other)

    def __sub__(self, other: Num | float) -> Num:
        return self._arithmetic("sub", other)

    def __mul__(self, other: Num | float) -> Num:
        return self._arithmetic("mul", other)

    def __truediv__(self, other: Num) -> Num:
        return self._arithmetic("div", other)

    def __radd__(self, other: float) -> Num:
        return self.like(other) + self

    def __rsub__(self, other: float) -> Num:
        return self.like(other) - self

    def __rmul__(self, other: float) -> Num:
        return self.like(other) * self

    def __rtruediv__(self, other: float) -> Num:
        return self.like(other) / self

    def __neg__(self) -> Num:
        return Num(self.ops, self.type, self.ops.inst(f"fneg {self.ops.type(self.type)} {self.text}"))

    def __and__(self, other: Num | int) -> Num:
        return self.op("and", other)

    def __or__(self, other: Num | int) -> Num:
        return self.op("or", other)

    def __xor__(self, other: Num | int) -> Num:
        return self.op("xor", other)

    def __lshift__(self, bits: int) -> Num:
        return self.op("shl", bits)

    def __rshift__(self, bits: int) -> Num:
        return self.op("ashr", bits)

    def _compare(self, floating: str, integer: str, other: Num | float) -> Num:
        predicate = f"fcmp {floating}" if self.type.is_float else f"icmp {integer}"
        return Num(self.ops, bool_, self.op(predicate, other).text)

    def __lt__(self, other: Num | float) -> Num:
        return self._compare("olt", "slt", other)

    def __le__(self, other: Num | float) -> Num:
        return self._compare("ole", "sle", other)

    def __gt__(self, other: Num | float) -> Num:
        return self._compare("ogt", "sgt", other)

    def __ge__(self, other: Num | float) -> Num:
        return self._compare("oge", "sge", other)

    def equals(self, other: Num | float) -> Num:
        return self._compare("oeq", "eq", other)

    def differs(self, other: Num | float) -> Num:
        """Also where either is NaN."""
        return self._compare("une", "ne", other)

    def intrinsic(self, name: str, *others: Num) -> Num:
        return Num(
            self.ops, self.type, self.ops.intrinsic(name, self.type, [(n.type, n.text) for n in (self, *others)])
        )

    def __abs__(self) -> Num:
        return self.intrinsic("fabs")

    def copysign(self, sign: Num) -> Num:
        return self.intrinsic("copysign", sign)

    def sqrt(self) -> Num:
        return self.intrinsic("sqrt")

    def bits(self) -> Num:
        """The bits of a float as an integer."""
        return self.convert("bitcast", int32 if self.type is float32 else int64)

    def floats(self) -> Num:
        """The float of these bits."""
        return self.convert("bitcast", float32 if self.type is int32 else float64)

    def convert(self, opcode: str, target: Scalar) -> Num:
        text = self.ops.inst(f"{opcode} {self.ops.type(self.type)} {self.text} to {self.ops.type(target)}")
        return Num(self.ops, target, text)


def emit_formula(formula: Callable[..., Num]) -> Callable[..., str]:
    """A row that is a formula of its operands."""

    def llvm(ops: TextOps, result: Scalar, types: Sequence[Scalar], args: Sequence[str]) -> str:
        if result.bits == 16:
            raise InternalError(f"{result} reached the code generator; passes.widen_half comes first")
        return formula(*(Num(ops, t, a) for t, a in zip(types, args, strict=True))).text

    return llvm


def where(condition: Num, yes: Num | float, no: Num | float) -> Num:
    """`yes` in the lanes where the condition holds, else `no`."""
    sample = yes if isinstance(yes, Num) else no
    if not isinstance(sample, Num):
        raise TypeError("one of the two must be a Num")
    a, b, type_ = sample.like(yes), sample.like(no), sample.ops.type(sample.type)
    text = f"select {sample.ops.type(bool_)} {condition.text}, {type_} {a.text}, {type_} {b.text}"
    return Num(sample.ops, sample.type, sample.ops.inst(text))


def cold(condition: Num, name: str, formula: Callable[..., Num], operands: Sequence[Num], other: Num) -> Num:
    """`formula` of the operands in the lanes where the condition holds, by a cold branch, else `other`.

    The name says which formula it is.
    """

    def emit(ops: TextOps, texts: Sequence[str]) -> str:
        return formula(*(Num(ops, x.type, text) for x, text in zip(operands, texts, strict=True))).text

    ops = other.ops
    text = ops.cold(condition.text, other.type, name, [x.text for x in operands], emit, other.text)
    return Num(ops, other.type, text)


def fma(a: Num, b: Num | float, c: Num | float) -> Num:
    """a * b + c, rounded once."""
    return a.intrinsic("fma", a.like(b), a.like(c))


def clamp(x: Num, low: float, high: float) -> Num:
    """x between the bounds; NaN stays."""
    x = where(x < low, low, x)
    return where(x > high, high, x)


def polynomial(coefficients: Sequence[float], x: Num, is_stored: bool = False) -> Num:
    """sum of c[i] * x**i by Estrin's scheme: few steps that wait for one another. `is_stored`: see `Num.stored`."""
    constant = x.stored if is_stored else x.like
    terms: list[Num | float] = [*coefficients]
    while len(terms) > 1:
        last = terms[2 * (len(terms) // 2) :]
        pairs = zip(terms[::2], terms[1::2], strict=False)
        terms = [fma(constant(odd), x, constant(even)) for even, odd in pairs] + last
        x = x * x
    return x.like(terms[0])


def nearest(product: Num, factor: Num | float = 1.0) -> tuple[Num, Num]:
    """`product * factor` rounded to a whole number: as a float, and as the integer that is its last bits.

    Adding 1.5 * 2**(mantissa bits) rounds, and puts the integer at the end of the mantissa; no float is converted to an
    integer, which is undefined for NaN. The product must be below 2**(mantissa bits - 2).
    """
    magic = product.like(1.5 * 2.0 ** MANTISSA[product.kind])
    shifted = fma(product, factor, magic) if factor != 1.0 else product + magic
    return shifted - magic, shifted.bits() - magic.bits()


def whole(n: Num, kind: Scalar, bias: int = 0) -> Num:
    """n - bias, a small integer of the float type's size, as a float."""
    magic = 1.5 * 2.0 ** MANTISSA[kind.short]
    shifted = n + Num(n.ops, kind, n.ops.const(kind, magic)).bits()
    return shifted.floats() - (magic + bias)


def power_of_two(n: Num, kind: str) -> Num:
    """2**n for n in the range of exponents of normal numbers."""
    return ((n + BIAS[kind]) << MANTISSA[kind]).floats()


def nearest_power(product: Num, factor: float = 1.0) -> tuple[Num, tuple[Num, Num]]:
    """`product * factor` rounded to a whole number n, and 2**n as a product of two normal numbers, the smaller first.

    As `nearest`, but it is n + 2 * bias that comes to lie at the end of the mantissa, below 2**(exponent bits + 1): its
    halves are exponents, and what is left of the mantissa above them is shifted out.
    """
    mantissa = MANTISSA[product.kind]
    magic = product.like(1.5 * 2.0**mantissa + 2 * BIAS[product.kind])
    shifted = fma(product, factor, magic) if factor != 1.0 else product + magic
    total = shifted.bits()
    half = total.op("lshr", 1)
    return shifted - magic, ((half << mantissa).floats(), ((total - half) << mantissa).floats())


def scale(x: Num, powers: tuple[Num, Num]) -> Num:
    """x times both powers of 2, in two steps of which only the second rounds; x is about 1."""
    return x * powers[0] * powers[1]
