"""Rows that say how code is to be differentiated. To everything else they are their first argument, or a product.

    detach(y)          value y;  derivative 0
    attach(y, x, g)    value y;  derivatives 1 by y, g by x, 0 by g
    refused(y, ...)    value y;  no derivative, for a reason of its own
    guarded(c, f)      value c * f, 0 where c is 0 whatever f is; derivatives guarded by both
    replaying(false)   false: the condition that chooses between a function and its replay. Derivatives are made from
                       the side where it holds, machine code from the other.

Reverse sweeps make `guarded` of cotangents that are zero where a side was not taken: a `select` by c == 0 in its place
would not move with a c that happens to be zero. The frontend makes the others of rules written by hand.
`passes/erase_rules.py` removes them all before code is generated. They are no functions of the language, so the table
of rows does not list them.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from jaxwarp.builtins.scalar_ops.registry import NoGradient, row
from jaxwarp.ir.nodes import Builtin, Value
from jaxwarp.types import Scalar


def _first(types: tuple[Scalar, ...]) -> Scalar:
    return types[0]


def _rule(name: str, partials: Any, doc: str) -> Builtin:
    return row(
        name, _first, ref=lambda y, *_: y, cuda="{0}", llvm=lambda _ops, _result, _types, args: args[0],
        partials=partials, doc=doc,
    )  # fmt: skip


DETACH = _rule("detach", lambda _o, _out, _y: (None,), "The value, a constant to derivatives.")
ATTACH = _rule("attach", lambda _o, _out, _y, _x, g: (1.0, g, None), "The first value, with g times the tangent of x.")
GUARDED = row(
    "guarded", _first, ref=lambda c, f: np.where(c == 0, np.zeros_like(c), c * f), cuda="{0} == 0 ? {0} : {0} * {1}",
    llvm=lambda _ops, _result, _types, args: args[0],
    partials=NoGradient("both modes know it"), doc="A product that is zero where the first factor is.",
)  # fmt: skip
REPLAYING = _rule("replaying", NoGradient("its result is a bool"), "Whether the code is run again for a derivative.")
# The same where a rule written by hand gives the derivatives of what the function returns.
REPLAYING_RULED = _rule("replaying_ruled", NoGradient("its result is a bool"), REPLAYING.doc)

_REFUSED = "func_grad#"


def refused(reason: str, where: str) -> Builtin:
    """A row without a derivative, for a rule that has none.

    Kernels that print alike are one: what the error will say is in the name, which ends at "#" in messages.
    """
    mark = hashlib.sha256(f"{reason} {where}".encode()).hexdigest()[:16]
    return _rule(_REFUSED + mark, NoGradient(reason), "The first value, which depends on others in an unknown way.")


def is_rule(builtin: Builtin) -> bool:
    """Return whether a call of the row equals its first argument to everything but derivatives."""
    return builtin in (DETACH, ATTACH) or builtin.name.startswith(_REFUSED)


def is_replay(builtin: Builtin) -> bool:
    """Return whether the row is the condition that chooses between a replay and the function itself."""
    return builtin in (REPLAYING, REPLAYING_RULED)


def replays(definition: Any) -> Value | None:
    """The value of a replay's condition, if an operation is one."""
    builtin = getattr(definition, "builtin", None)
    return definition.result if builtin is not None and is_replay(builtin) else None
