"""Sums over the lanes of vectors: of one, and of several at once.

The sums of four vectors of four lanes are four additions of halves each, or, transposed on the way, three:

    a0 b0 a1 b1 + a2 b2 a3 b3 = a02 b02 a13 b13        c and d likewise
    a02 b02 c02 d02 + a13 b13 c13 d13 = a b c d

Shuffles stay within quarters of 128 bits, which are added last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxwarp.codegen.cpu.llvm.vectors import VectorBuilder
from jaxwarp.types import Scalar

_QUARTER_BITS = 128


def sum_of_lanes(
    many: VectorBuilder,
    dtype: Scalar,
    vector: str,
    combine: Callable[[VectorBuilder, str, str], str],
    last: int = 1,
) -> str:
    """Halves of a vector are combined until `last` lanes are left, in an order of our own. One lane is a scalar."""
    function, width = many.function, many.width
    while width > last:
        whole, width = VectorBuilder(width, function).type(dtype), width // 2
        halves = [
            function.inst(
                f"shufflevector {whole} {vector}, {whole} poison, <{width} x i32> "
                f"<{', '.join(f'i32 {i}' for i in range(start, start + width))}>"
            )
            for start in (0, width)
        ]
        if width == 1:
            single = f"<1 x {VectorBuilder(1, function).type(dtype)}>"
            halves = [function.inst(f"extractelement {single} {half}, i32 0") for half in halves]
        vector = combine(VectorBuilder(width, function), *halves)
    return vector


def sums_of_lanes(many: VectorBuilder, dtype: Scalar, vectors: Sequence[str], bits: int) -> list[str]:
    """The sums of vectors of floats.

    Each is made in an order that depends on nothing but the width, how many there are, and `bits` of a register, to
    which vectors of several registers are added up first.
    """
    each = _QUARTER_BITS // dtype.bits
    if len(vectors) == 1 or many.width < each:
        return [sum_of_lanes(many, dtype, vector, _add(dtype)) for vector in vectors]
    register = max(each, bits // dtype.bits)
    vectors = [sum_of_lanes(many, dtype, vector, _add(dtype), register) for vector in vectors]
    many = VectorBuilder(min(many.width, register), many.function)
    found: list[str] = []
    for start in range(0, len(vectors), each):
        group = vectors[start : start + each]
        quarter = sum_of_lanes(many, dtype, _transposed(many, dtype, group), _add(dtype), each)
        quarter_type = VectorBuilder(each, many.function).type(dtype)
        found += [many.inst(f"extractelement {quarter_type} {quarter}, i32 {i}") for i in range(len(group))]
    return found


def _add(dtype: Scalar) -> Callable[[VectorBuilder, str, str], str]:
    return lambda ops, a, b: ops.inst(f"fadd {ops.type(dtype)} {a}, {b}")


def _transposed(many: VectorBuilder, dtype: Scalar, vectors: Sequence[str]) -> str:
    """A vector in each of whose quarters lane i is the sum of that quarter of vector i."""
    each, held, run, add = _QUARTER_BITS // dtype.bits, list(vectors), 1, _add(dtype)
    while run < each:
        pairs = [(held[i], held[min(i + 1, len(held) - 1)]) for i in range(0, len(held), 2)]
        held = [add(many, *(_runs(many, dtype, pair, run, half) for half in (0, 1))) for pair in pairs]
        run *= 2
    return held[0]


def _runs(many: VectorBuilder, dtype: Scalar, pair: tuple[str, str], run: int, half: int) -> str:
    """Interleave runs of `run` lanes from two vectors, taking one half (`half`: 0 or 1) of each quarter of both."""
    each, wide = _QUARTER_BITS // dtype.bits, many.type(dtype)
    lanes = [
        which * many.width + quarter + start + lane
        for quarter in range(0, many.width, each)
        for start in range(half * each // 2, (half + 1) * each // 2, run)
        for which in (0, 1)
        for lane in range(run)
    ]
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return many.inst(f"shufflevector {wide} {pair[0]}, {wide} {pair[1]}, <{many.width} x i32> <{mask}>")
