"""Accesses that walk the components of arrays of vectors and matrices, see interleaved.py."""

from __future__ import annotations

import math

from jaxwarp.codegen.cpu.analysis.uniformity import Strides
from jaxwarp.ir.nodes import Load, Store

# Components of a group. Beyond, all of them together are too many registers.
MAX_GROUP = 16


def is_component(strides: Strides, op: Load | Store) -> bool:
    """Do consecutive lanes access one component of consecutive small groups, as far as extents and strides say?"""
    steps = [strides.of[i] for i in op.indices]
    if steps.count(0) != len(steps) - 1 or 1 not in steps:
        return False
    inner = op.param.shape[steps.index(1) + 1 :]
    return all(inner) and 1 < math.prod(n or 0 for n in inner) <= MAX_GROUP
