"""Atomic operations: CUDA's own where it has one for the type, else a loop around its compare-and-swap.

Each gives the old value. Types of 16 bits have a compare-and-swap of their own (from sm_70); those of 8 bits go through
the aligned 32-bit word around them, whose other bytes are written back as they were: XLA's buffers are aligned to and
padded to more than that. `cas` compares representations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxwarp.codegen.cuda.expression import CPP_TYPES
from jaxwarp.errors import InternalError
from jaxwarp.types import Scalar, bool_

_NATIVE = {
    "add": ("i32", "u32", "u64", "f32", "f64"),
    "min": ("i32", "u32", "i64", "u64"),
    "max": ("i32", "u32", "i64", "u64"),
    "exch": ("i32", "u32", "u64", "f32"),
    "cas": ("i32", "u32", "u64"),
    "and": ("i32", "u32", "u64"),
    "or": ("i32", "u32", "u64"),
    "xor": ("i32", "u32", "u64"),
}
_CUDA_NAMES = {kind: f"atomic{'CAS' if kind == 'cas' else kind.capitalize()}" for kind in _NATIVE}
# Operations that two's complement does alike for both signs.
_SIGNLESS = ("add", "exch", "cas", "and", "or", "xor")

# The word that a compare-and-swap works on, and the conversions of its bits.
_WORDS = {2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_HALF_NAMES = {"f16": "float16", "bf16": "bfloat16"}


class AtomicHelpers:
    """The helpers that a kernel needs, collected as it is printed."""

    def __init__(self) -> None:
        self._used: dict[str, str] = {}

    def call(self, kind: str, dtype: Scalar, address: str, args: Sequence[str]) -> str:
        """The expression that does the operation and gives the old value."""
        if dtype.short in _NATIVE[kind]:
            return f"{_CUDA_NAMES[kind]}({', '.join([address, *args])})"
        if dtype.short == "i64" and kind in _SIGNLESS:
            values = ", ".join(f"(unsigned long long)({a})" for a in args)
            return f"(long long){_CUDA_NAMES[kind]}((unsigned long long *){address}, {values})"
        name = f"atomic_{kind}_{dtype.short}"
        self._used.setdefault(name, _helper(name, kind, dtype))
        return f"{name}({', '.join([address, *args])})"

    def private_call(self, kind: str, dtype: Scalar, address: str, args: Sequence[str]) -> str:
        """The same on an array of the thread's own, where CUDA's atomics are not defined and none is needed."""
        name = f"private_{kind}_{dtype.short}"
        t = CPP_TYPES[dtype.short]
        give_up = "    if (old != expected) return old;\n"
        if dtype.is_float and not dtype.is_half:
            word = _WORDS[dtype.bytes]
            give_up = f"    if (bit_cast<{word}>(old) != bit_cast<{word}>(expected)) return old;\n"
        body = f"    const {t} old = *address;\n{give_up if kind == 'cas' else ''}"
        body += f"    *address = {_update(kind, dtype)};\n    return old;\n"
        self._used.setdefault(name, _function(name, kind, dtype, body))
        return f"{name}({', '.join([address, *args])})"

    def define(self, name: str, text: str) -> str:
        """Adds a function, after those it calls; returns its name."""
        self._used.setdefault(name, text)
        return name

    def text(self) -> str:
        return "\n".join(self._used.values())


def _helper(name: str, kind: str, dtype: Scalar) -> str:
    body = _byte_body(kind, dtype) if dtype.bytes == 1 else _word_body(kind, dtype)
    return _function(name, kind, dtype, body)


def _function(name: str, kind: str, dtype: Scalar, body: str) -> str:
    t = CPP_TYPES[dtype.short]
    parameters = f"{t} *address, {t} expected, {t} value" if kind == "cas" else f"{t} *address, {t} value"
    return f"__device__ inline {t} {name}({parameters})\n{{\n{body}}}\n"


def _word_body(kind: str, dtype: Scalar) -> str:
    """Return the body for types that fill a word. The bits of a float are read through the address of its word."""
    word = _WORDS[dtype.bytes]
    from_word, to_word = _conversions(dtype)
    give_up = f"        if (seen != {to_word('expected')}) return {from_word('seen')};\n" if kind == "cas" else ""
    # Most values are no new extremes, and a look (at memory, not at an older copy) is cheaper than an exchange.
    is_extreme = kind in ("min", "max")
    leave = "        if (next == seen) return old;\n" if is_extreme else ""
    look = f"(volatile {word} *)word" if is_extreme else "word"
    return f"""\
    {word} *word = ({word} *)address;
    {word} seen = *{look};
    while (true) {{
{give_up}        const {CPP_TYPES[dtype.short]} old = {from_word("seen")};
        const {word} next = {to_word(_update(kind, dtype))};
{leave}        const {word} found = atomicCAS(word, seen, next);
        if (found == seen) return old;
        seen = found;
    }}
"""


def _byte_body(kind: str, dtype: Scalar) -> str:
    t = CPP_TYPES[dtype.short]
    give_up = "        if (old != expected) return old;\n" if kind == "cas" else ""
    return f"""\
    unsigned int *word = (unsigned int *)((unsigned long long)address & ~3ull);
    const unsigned int shift = 8 * (unsigned int)((unsigned long long)address & 3ull);
    unsigned int seen = *word;
    while (true) {{
        const {t} old = ({t})(seen >> shift & 0xffu);
{give_up}        const unsigned int value_bits = (unsigned int)(unsigned char)({_update(kind, dtype)}) << shift;
        const unsigned int found = atomicCAS(word, seen, (seen & ~(0xffu << shift)) | value_bits);
        if (found == seen) return old;
        seen = found;
    }}
"""


def _conversions(dtype: Scalar) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """Return the conversion from the bits in a word to the value, and the one back."""
    if dtype.is_float and not dtype.is_half:
        t, word = CPP_TYPES[dtype.short], _WORDS[dtype.bytes]
        return (lambda bits: f"bit_cast<{t}>({bits})"), (lambda value: f"bit_cast<{word}>({value})")
    # Half types are kept as their bits.
    word = _WORDS[dtype.bytes]
    t = CPP_TYPES[dtype.short]
    if t == word:
        return (lambda bits: bits), (lambda value: value)
    return (lambda bits: f"({t}){bits}"), (lambda value: f"({word})({value})")


def _update(kind: str, dtype: Scalar) -> str:
    """The new value from `old` and `value`."""
    wide = (lambda x: f"{_HALF_NAMES[dtype.short]}_to_float({x})") if dtype.is_half else (lambda x: x)
    narrow = (lambda x: f"float_to_{_HALF_NAMES[dtype.short]}({x})") if dtype.is_half else (lambda x: x)
    match kind:
        case "exch" | "cas":
            return "value"
        case "add" if dtype is bool_:
            return "old || value"
        case "add" if dtype.is_half:
            return narrow(f"{wide('old')} + {wide('value')}")
        case "add":
            t = CPP_TYPES[dtype.short]
            return f"({t})(old + value)" if dtype.bits < 32 else "old + value"
        case "min" | "max" if dtype.is_float:
            return narrow(f"f{kind}{'' if dtype.bits == 64 else 'f'}({wide('old')}, {wide('value')})")
        case "min" | "max":
            return f"old {'<' if kind == 'min' else '>'} value ? old : value"
        case "and" | "or" | "xor":
            t = CPP_TYPES[dtype.short]
            return f"({t})(old {dict(zip(('and', 'or', 'xor'), '&|^', strict=True))[kind]} value)"
        case _:
            raise InternalError(f"the CUDA printer does not know atomic {kind!r}")
