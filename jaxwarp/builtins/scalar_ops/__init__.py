"""The table of core rows: pure operations on scalars, each with its meaning and every backend's spelling.

CONTRIBUTING.md says what to touch for one more.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxwarp.builtins.scalar_ops.arith import ARITH
from jaxwarp.builtins.scalar_ops.bits import BITS
from jaxwarp.builtins.scalar_ops.casts import CASTS
from jaxwarp.builtins.scalar_ops.compare import COMPARE
from jaxwarp.builtins.scalar_ops.elementary import ELEMENTARY
from jaxwarp.builtins.scalar_ops.registry import NoGradient as NoGradient
from jaxwarp.builtins.scalar_ops.rounding import ROUNDING
from jaxwarp.errors import InternalError
from jaxwarp.ir.nodes import Builtin
from jaxwarp.types import Scalar

FAMILIES: dict[str, tuple[Builtin, ...]] = {
    "Arithmetic": ARITH,
    "Comparison and logic": COMPARE,
    "Bits": BITS,
    "Rounding": ROUNDING,
    "Elementary functions": ELEMENTARY,
    "Conversion": CASTS,
}

ROWS: dict[str, Builtin] = {builtin.name: builtin for family in FAMILIES.values() for builtin in family}


_BITWISE = {"and": "bit_and", "or": "bit_or", "xor": "bit_xor"}


def row_of_atomic(kind: str, dtype: Scalar) -> Builtin:
    """Return the row that computes what an atomic leaves, of the old value and its operand."""
    is_extreme = dtype.is_float and kind in ("min", "max")
    return ROWS[f"{kind}_number" if is_extreme else _BITWISE.get(kind, kind)]


def cuda_template(builtin: Builtin, result: Scalar, args: Sequence[Scalar]) -> str:
    """The C++ expression of a call, with {0}, {1}, ... for its arguments.

    It has no outer parentheses; arguments must be names, literals that are not negative, or parenthesised, and
    have exactly the types of the IR (helpers of the prelude deduce them). Fill it with
    `template.format(*arguments, type=T)`, where T is the C++ name of the result's type: casts mention it.
    The expression has exactly the result's type.
    Texts are kept by "source->target" (casts) or by the type of the last argument.
    """
    if isinstance(builtin.cuda, str):
        return builtin.cuda
    key = f"{args[-1].short}->{result.short}" if builtin.typed else args[-1].short
    if key not in builtin.cuda:
        raise InternalError(f"{builtin.name}: no CUDA text for {key}; half types are widened before printing")
    return builtin.cuda[key]


def ulp(builtin: Builtin, result: Scalar) -> float:
    """The stated accuracy of a row against its reference, in units in the last place of the result's type."""
    return builtin.ulp.get(result.short, builtin.ulp.get("*", 0.0))
