"""C++ expressions: text with its precedence, so that parentheses appear where they are needed and nowhere else."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from jaxwarp.errors import InternalError
from jaxwarp.ir.nodes import Param
from jaxwarp.types import Scalar, bool_

# Half precision is stored as its bits and computed in float (passes/widen_half).
CPP_TYPES = {
    "bool": "bool",
    "i8": "signed char",
    "i16": "short",
    "i32": "int",
    "i64": "long long",
    "u8": "unsigned char",
    "u16": "unsigned short",
    "u32": "unsigned int",
    "u64": "unsigned long long",
    "f16": "unsigned short",
    "bf16": "unsigned short",
    "f32": "float",
    "f64": "double",
}

TERNARY, OR, AND, SUM, UNARY, PRIMARY = 1, 2, 3, 10, 12, 13
_BINARY = {
    "||": OR, "&&": AND, "|": 4, "^": 5, "&": 6, "==": 7, "!=": 7, "<": 8, ">": 8, "<=": 8, ">=": 8,
    "<<": 9, ">>": 9, "+": SUM, "-": SUM, "*": 11, "/": 11, "%": 11,
}  # fmt: skip
# Readers do not remember how these rank among the others: their operands are always set off.
_OBSCURE = ("|", "^", "&", "<<", ">>")
_ASSOCIATIVE = ("||", "&&", "|", "^", "&")


@dataclass(frozen=True)
class Expr:
    """A C++ expression.

    Attributes:
        text: without outer parentheses.
        precedence: of its outermost operator; PRIMARY binds tightest.
        reads: local variables in it.
        loads: arrays it reads from.
    """

    text: str
    precedence: int = PRIMARY
    reads: frozenset[str] = frozenset()
    loads: frozenset[Param] = frozenset()

    def at_least(self, precedence: int) -> str:
        """The text as an operand of an operator that needs this precedence."""
        return self.text if self.precedence >= precedence else f"({self.text})"


def combine(text: str, precedence: int, parts: Sequence[Expr]) -> Expr:
    """An expression made of others: it reads what they read."""
    reads = frozenset().union(*(p.reads for p in parts))
    return Expr(text, precedence, reads, frozenset().union(*(p.loads for p in parts)))


def binary(operator: str, a: Expr, b: Expr) -> Expr:
    precedence = _BINARY[operator]
    if operator in _ASSOCIATIVE:
        # "||" next to "&&" is one of the ranks that readers do not remember.
        needed = UNARY if operator in _OBSCURE else AND + 1
        left, right = (e.text if e.precedence == precedence else e.at_least(needed) for e in (a, b))
    elif operator in _OBSCURE:
        left, right = a.at_least(UNARY), b.at_least(UNARY)
    else:
        left, right = a.at_least(precedence), b.at_least(precedence + 1)
    return combine(f"{left} {operator} {right}", precedence, (a, b))


def unary(operator: str, a: Expr) -> Expr:
    text = a.at_least(UNARY)
    return combine(f"{operator}({text})" if text[0] in "+-" else operator + text, UNARY, (a,))


def negate(a: Expr) -> Expr:
    """The logical negation, simplified where the text allows it."""
    if a.precedence == UNARY and a.text.startswith("!"):
        inner = a.text[1:]
        bracketed = inner.startswith("(") and _closing(inner, 0) == len(inner) - 1
        return combine(inner[1:-1], 0, (a,)) if bracketed else combine(inner, UNARY, (a,))
    return unary("!", a)


def cast(cpp_type: str, a: Expr) -> Expr:
    return combine(f"({cpp_type}){a.at_least(UNARY)}", UNARY, (a,))


def conditional(condition: Expr, then: Expr, orelse: Expr) -> Expr:
    text = f"{condition.at_least(OR)} ? {then.at_least(OR)} : {orelse.at_least(TERNARY)}"
    return combine(text, TERNARY, (condition, then, orelse))


def literal(value: bool | int | float, dtype: Scalar) -> Expr:
    """A constant, exactly: `bits` of half precision, shortest round trip of the others."""
    if dtype is bool_:
        return Expr("true" if value else "false")
    if dtype.is_half:
        bits = int(np.array(value, dtype.numpy).view(np.uint16))
        return Expr(f"(unsigned short)0x{bits:04x}", UNARY)
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    return _int_literal(int(value), dtype)


def _int_literal(value: int, dtype: Scalar) -> Expr:
    suffix = {"i64": "LL", "u32": "u", "u64": "ull"}.get(dtype.short, "")
    if dtype.bits >= 32 and dtype.is_signed and value == -(1 << (dtype.bits - 1)):
        # C++ has no literal for the smallest integer: it negates one that does not fit.
        return Expr(f"{value + 1}{suffix} - 1", SUM)
    plain = Expr(f"{value}{suffix}", PRIMARY if value >= 0 else UNARY)
    return plain if dtype.bits >= 32 else cast(CPP_TYPES[dtype.short], plain)


def _float_literal(value: float, dtype: Scalar) -> Expr:
    single = dtype.bits == 32
    if not math.isfinite(value):
        negative = math.copysign(1.0, value) < 0 and not math.isnan(value)
        if single:
            bits = "0x7fc00000" if math.isnan(value) else "0x7f800000"
            text = f"__int_as_float({bits})"
        else:
            bits = "0x7ff8000000000000LL" if math.isnan(value) else "0x7ff0000000000000LL"
            text = f"__longlong_as_double({bits})"
        return Expr("-" + text, UNARY) if negative else Expr(text)
    text = str(np.float32(value)) if single else repr(value)
    if "." not in text and "e" not in text:
        text += ".0"
    return Expr(text + ("f" if single else ""), UNARY if text.startswith("-") else PRIMARY)


@dataclass(frozen=True)
class _Template:
    """A builtin's C++ text, taken apart once: an operator we know, or pieces around placeholders."""

    operator: str  # "" where it is none that we know
    pieces: tuple[str, ...]  # text before each placeholder and after the last
    slots: tuple[int, ...]
    precedence: int


def placeholder_counts(template: str) -> dict[int, int]:
    """Count how often a template reads each of its arguments."""
    slots = _parse_template(template).slots
    return {s: slots.count(s) for s in slots}


def apply_template(template: str, args: Sequence[Expr]) -> Expr:
    """Fills a builtin's C++ text with arguments, parenthesised as their places need."""
    parsed = _parse_template(template)
    if parsed.operator == "same":
        return args[0]
    if parsed.operator == "?:":
        return conditional(*(args[s] for s in parsed.slots))
    if parsed.operator:
        operands = [args[s] for s in parsed.slots]
        if len(operands) == 2:
            return binary(parsed.operator, *operands)
        return cast(parsed.operator, *operands) if parsed.operator[0].isalpha() else unary(parsed.operator, *operands)
    text = parsed.pieces[0]
    for slot, after in zip(parsed.slots, parsed.pieces[1:], strict=True):
        enclosed = text.endswith(("(", ", ")) and after.startswith((")", ","))
        spaced = text.endswith((" ", "(")) and after.startswith((" ", ")"))
        text += args[slot].at_least(TERNARY if enclosed else UNARY if spaced else PRIMARY) + after
    return combine(text, parsed.precedence, [args[s] for s in parsed.slots])


@cache
def _parse_template(template: str) -> _Template:
    text = template.strip()
    while text.startswith("(") and _closing(text, 0) == len(text) - 1:
        text = text[1:-1].strip()
    pieces = re.split(r"\{(\d+)\}", text)
    fixed, slots = tuple(pieces[0::2]), tuple(int(s) for s in pieces[1::2])
    operator = ""
    if len(slots) == 2 and fixed[0] == fixed[2] == "" and fixed[1].strip() in _BINARY:
        operator = fixed[1].strip()
    elif len(slots) == 3 and fixed == ("", " ? ", " : ", ""):
        operator = "?:"
    elif len(slots) == 1 and fixed[1] == "" and fixed[0] in ("", "-", "!", "~"):
        operator = fixed[0] or "same"
    elif len(slots) == 1 and fixed[1] == "" and fixed[0][1:-1] in CPP_TYPES.values() and fixed[0].startswith("("):
        operator = fixed[0][1:-1]
    return _Template(operator, fixed, slots, _outer_precedence(text))


def _outer_precedence(text: str) -> int:
    """Return the precedence of a template whose placeholders are names or in parentheses."""
    while (inner := re.search(r"\([^()]+\)", text)) is not None:
        text = text[: inner.start()] + "()" + text[inner.end() :]
        if text.startswith("()") and inner.start() == 0:
            text = "-" + text[2:]  # a cast ranks as a sign does
    words = text.split(" ")
    if "?" in words:
        return TERNARY
    operators = [_BINARY[w] for w in words if w in _BINARY]
    if operators:
        return min(operators)
    return UNARY if text[0] in "+-!~" else PRIMARY


def _closing(text: str, start: int) -> int:
    """Position of the parenthesis that closes the one at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise InternalError(f"unbalanced parentheses in a builtin's C++ text: {text!r}")
