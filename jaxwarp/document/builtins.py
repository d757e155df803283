"""The page of all that kernels can call: `docs/builtins.md`."""

from __future__ import annotations

from jaxwarp.builtins.language.constants import CONSTANTS
from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.builtins.scalar_ops import FAMILIES, ROWS, NoGradient, ulp
from jaxwarp.document.tables import cells, summary
from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS
from jaxwarp.ir.nodes import Builtin
from jaxwarp.library.names import LIBRARY, signatures
from jaxwarp.types import SCALARS, Scalar, bool_, float32, float64

_ORDER = ("Threads, arrays and compile time", "Arithmetic", "Comparison and logic", "Choosing and interpolating",
          "Rounding", "Elementary functions", "Bits", "Constructors", "Vectors", "Matrices",
          "Quaternions", "Transforms", "Spatial vectors")  # fmt: skip

_PREFACE = """\
# Builtin functions

Use this page to look up a function that kernels can call: its arguments, its result, and its accuracy.

Names in signatures stand for these types:

| name | values |
| --- | --- |
| `Float`, `Int`, `Scalar` | numbers of a float type, of an integer type, of either |
| `Vec`, `Mat` | vectors and matrices |
| `Vec3`, `Mat44`, ... | vectors and matrices of floats, of that size |
| `Quat`, `Transform` | quaternions and transforms |
| `Any` | any of these |

All operands of a call have the same scalar type. jaxwarp converts nothing, except that a literal takes the type of the
other operand. float16 and bfloat16 are computed in float32 and rounded after every operation.

**Accuracy** is the largest error that the tests allow, in units in the last place of float32 and float64, measured
against a reference in higher precision. For vectors and matrices it is relative to the largest component. Results of
functions marked "exact" are the same on every backend, to the bit. If such a function consists of several operations,
a product and a sum may be contracted into a fused multiply-add. In half types, functions that are not exact are off by
at most 1 unit.

`python -m jaxwarp.document` writes this page from the tables in `jaxwarp/builtins`.
"""

_OPERATORS = """\
## Operators

| operator | on | meaning |
| --- | --- | --- |
| `a + b`, `a - b` | numbers; vectors, matrices, quaternions or transforms of one type | integers wrap |
| `a * b` | numbers; a number and one of the others | per component |
| `a * b` | quaternions; transforms | the product, which moves by b and then by a |
| `a * b`, `a @ b` | matrices; a matrix and a vector | the matrix product; a vector on the left is a row |
| `a / b` | numbers; one of the others and a number | integers are rounded toward zero and give 0 if b is 0 |
| `a // b` | numbers | floor(a / b); integers give 0 if b is 0 |
| `a % b` | numbers; vectors of one type | the remainder, with the sign of a; integers give 0 if b is 0 |
| `a ** b` | floats | a to the power b; constant exponents 2, 3 and 4 become products |
| `-a`, `+a` | numbers and the others | integers wrap |
| `a < b`, `<=`, `>`, `>=` | numbers | false if either is NaN |
| `a == b`, `!=` | numbers, bools; others of one type | all components are compared; the result is one bool |
| `a & b`, `\\|`, `^`, `~a` | integers, bools | bit by bit |
| `a << n`, `a >> n` | integers of one type | 0 if n is the width or more (`>>` of a negative: -1) |
| `a and b`, `or`, `not a` | bools, numbers | `and` and `or` evaluate the right side only if needed |
"""


def reference() -> str:
    """The reference page."""
    sections = [_PREFACE, _OPERATORS]
    for group in _ORDER:
        rows = _intrinsic_lines() if group == _ORDER[0] else _function_lines(group)
        sections.append(
            f"## {group}\n\n| function | gives | accuracy |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"
        )
    sections += [_library_section(module) for module in LIBRARY]
    sections.append(_constant_section())
    sections.append(_row_section())
    return "\n".join(sections)


def _intrinsic_lines() -> list[str]:
    return [cells(f"`{i.signature or i.name}`", i.doc, "") for i in INTRINSICS.values()]


def _function_lines(group: str) -> list[str]:
    lines = []
    for function in FUNCTIONS.values():
        if function.group == group:
            row = ROWS.get(function.name)
            accuracy = _accuracy(row) if row is not None and row.domain else _ulps(function.ulp, function.ulp)
            lines.append(cells(f"`{function.signature}`", function.doc, accuracy))
    return lines


_SECTIONS = {
    "decompositions": (
        "Decompositions",
        "Elements are of any float type. Pass variables for the results to assign to these.",
    ),
    "dense": (
        "Dense matrices",
        "Matrices of any size, row by row in arrays of one axis. One thread does all the work. Derivatives exist if "
        "the sizes are constants of the kernel.",
    ),
    "random": (
        "Random numbers",
        "[Random numbers](random.md) explains these. A `State` is a variable of type uint32 (from a seed) or vec4ui "
        "(from a key of JAX). Each call advances it.",
    ),
    "rotations": ("Rotations", "Vectors are of any float type."),
    "special": ("Inverses of the error functions", "All float types, with an error of a few units in the last place."),
    "search": ("Searches", "Searches in sorted arrays, and counts of bits."),
    "proximity": ("Edges and triangles", "Points are vectors of 3 components of any float type."),
    "noise": (
        "Noise",
        "Smooth random functions ([random numbers](random.md#noise)). The state chooses one, and does not advance.",
    ),
}


def _library_section(module: str) -> str:
    title, said = _SECTIONS[module]
    rows = [cells("<br>".join(f"`{s}`" for s in signatures(n)), summary(n)) for n in LIBRARY[module]]
    return f"## {title}\n\n{said}\n\n| function | gives |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def _ulps(single: float, double: float) -> str:
    if single == double == 0:
        return "exact"
    return f"{single:g}" if single == double else f"{single:g}, {double:g}"


def _accuracy(row: Builtin) -> str:
    return _ulps(ulp(row, float32), ulp(row, float64))


def _constant_section() -> str:
    lines = [cells(f"`{n}`, `{n.upper()}`", repr(v)) for n, v in CONSTANTS.items() if n.islower()]
    return "## Constants\n\n| name | value |\n| --- | --- |\n" + "\n".join(lines) + "\n"


def _row_section() -> str:
    parts = [
        "## Core operations\n\nOperators and functions become these operations on scalars. You see them if you print a"
        " kernel (`kernel.source()`).\n\n| operation | types | meaning | accuracy | derivative |\n"
        "| --- | --- | --- | --- | --- |"
    ]
    for family in FAMILIES.values():
        for row in family:
            derivative = f"none: {row.partials.reason}" if isinstance(row.partials, NoGradient) else "yes"
            parts.append(cells(f"`{row.name}`", accepted_types(row), row.doc, _accuracy(row), derivative))
    return "\n".join(parts) + "\n"


def accepted_types(row: Builtin) -> str:
    """The types that a row takes, in words."""
    if row.typed:
        return "any to any" if row.name == "cast" else "of equal size"
    accepted = [t for t in SCALARS if _accepts(row, t)]
    words = []
    if float32 in accepted:
        words.append("floats")
    if any(t.is_int for t in accepted):
        words.append("integers")
    if bool_ in accepted:
        words.append("bool")
    return ", ".join(words)


def _accepts(row: Builtin, dtype: Scalar) -> bool:
    for types in ((dtype,), (dtype,) * 2, (dtype,) * 3, (bool_, dtype, dtype)):
        try:
            row.infer(types)
        except KernelTypeError:
            continue
        return True
    return False
