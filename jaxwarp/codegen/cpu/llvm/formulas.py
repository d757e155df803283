"""Formulas of builtins that become functions of the module: those of kernels that write out too many of them.

A sine is 70 instructions for all lanes, and LLVM takes as long for each copy. A call costs the registers that are in
use around it, some percent of a sine, so kernels of few formulas have them in place.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple

from jaxwarp.codegen.cpu.llvm.vectors import VectorBuilder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Builtin, Call, walk
from jaxwarp.types import Scalar

# Instructions of a formula that is worth a call, and of all such formulas of a body that are left in place. These take
# LLVM about 0.3 s.
LONG = 24
MOST = 2400


class Formula(NamedTuple):
    """A builtin for operands of these types."""

    builtin: Builtin
    result: Scalar
    types: tuple[Scalar, ...]


def emit_builtin(ops: VectorBuilder, call: Call, operands: Sequence[str]) -> str:
    """The value of an operation: its formula in place, or the call of the function that the formula is."""
    formula = _formula_of(call)
    if formula in ops.function.shared:
        return ops.shared(call.builtin.name, formula.result, formula.types, operands, call.builtin.llvm)
    return call.builtin.llvm(ops, formula.result, formula.types, operands)


def _formula_of(call: Call) -> Formula:
    """The formula that an operation is."""
    return Formula(call.builtin, call.result.type, tuple(a.type for a in call.args))


def shared_formulas(kernel: Kernel, width: int) -> Set[Formula]:
    """The formulas that are functions, in code of `width` lanes."""
    uses = Counter(_formula_of(op) for op in walk(kernel.body) if isinstance(op, Call))
    long = {formula: length for formula in uses if (length := _length(formula, width)) >= LONG}
    if sum(uses[formula] * length for formula, length in long.items()) <= MOST:
        return frozenset()
    return frozenset(formula for formula in long if uses[formula] > 1)


@functools.cache
def _length(formula: Formula, width: int) -> int:
    """Return the number of instructions of a formula."""
    scratch = VectorBuilder(width)
    operands = [f"%x{i}" for i in range(len(formula.types))]
    formula.builtin.llvm(scratch, formula.result, formula.types, operands)
    return len(scratch.function.lines)
