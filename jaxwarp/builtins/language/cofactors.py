"""Determinants and adjugates of matrices of 1 to 4 rows, by cofactors.

In what a determinant is made of, every product is rounded by itself, so that equal ones cancel: docs/design/0058.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxwarp.builtins.language.algebra import minor
from jaxwarp.ir.nodes import Value

if TYPE_CHECKING:
    from jaxwarp.builtins.language.ops import Ops

Rows = tuple[tuple[Value, ...], ...]


def _alternating(
    ops: Ops, values: tuple[Value, ...], factors: tuple[Value, ...], *, fixed_rounding: bool = True
) -> Value:
    """values[0] factors[0] - values[1] factors[1] + values[2] factors[2] - ..."""
    result = ops.call("mul", values[0], factors[0])
    for i in range(1, len(values)):
        term = ops.call("mul", values[i], factors[i])
        result = ops.call("sub" if i % 2 else "add", result, term, fixed_rounding=fixed_rounding)
    return result


def _without(rows: Rows, row: int, column: int) -> Rows:
    return tuple(r[:column] + r[column + 1 :] for i, r in enumerate(rows) if i != row)


def determinant(ops: Ops, rows: Rows) -> Value:
    """Expanded along the first row; of 4 rows, by the minors of the upper and lower halves."""
    match len(rows):
        case 1:
            return rows[0][0]
        case 2:
            return minor(ops, *rows[0], *rows[1])
        case 4:
            upper, lower = _pairs(ops, rows[0], rows[1]), _pairs(ops, rows[2], rows[3])
            return _from_halves(ops, upper, lower)
        case _:
            minors = tuple(determinant(ops, _without(rows, 0, j)) for j in range(len(rows)))
            return _alternating(ops, rows[0], minors)


def _pairs(ops: Ops, a: tuple[Value, ...], b: tuple[Value, ...]) -> dict[tuple[int, int], Value]:
    """The 2 x 2 minors of two rows of four, by their columns."""
    return {(i, j): minor(ops, a[i], a[j], b[i], b[j]) for i in range(4) for j in range(i + 1, 4)}


def _from_halves(ops: Ops, upper: dict[tuple[int, int], Value], lower: dict[tuple[int, int], Value]) -> Value:
    """Laplace's expansion along the first two rows: signs are + - + + - + over the column pairs in order."""
    result = None
    for (i, j), factor in upper.items():
        k, m = (c for c in range(4) if c not in (i, j))
        term = ops.call("mul", factor, lower[k, m])
        positive = (i + j) % 2 == 1
        result = term if result is None else ops.call("add" if positive else "sub", result, term, fixed_rounding=True)
    assert result is not None
    return result


def adjugate(ops: Ops, rows: Rows) -> tuple[list[Value], Value]:
    """The transposed cofactors, row by row, and the determinant, from shared minors."""
    size = len(rows)
    if size == 1:
        return [ops.const(1.0, rows[0][0])], rows[0][0]
    if size == 4:
        return _adjugate4(ops, rows)
    cofactor = [[determinant(ops, _without(rows, i, j)) for j in range(size)] for i in range(size)]
    value = _alternating(ops, rows[0], tuple(cofactor[0]))
    places = [(i, j) for j in range(size) for i in range(size)]
    signed = [cofactor[i][j] if (i + j) % 2 == 0 else ops.call("neg", cofactor[i][j]) for i, j in places]
    return signed, value


def _adjugate4(ops: Ops, rows: Rows) -> tuple[list[Value], Value]:
    upper, lower = _pairs(ops, rows[0], rows[1]), _pairs(ops, rows[2], rows[3])
    result = []
    for j in range(4):
        for i in range(4):
            # The cofactor of (i, j): the other row of its half against the other half's minors, column j left out.
            partner, minors = rows[i ^ 1], lower if i < 2 else upper
            columns = [c for c in range(4) if c != j]
            values = tuple(partner[c] for c in columns)
            factors = tuple(minors[tuple(c for c in columns if c != k)] for k in columns)  # pyright: ignore[reportArgumentType]
            cofactor = _alternating(ops, values, factors, fixed_rounding=False)
            result.append(cofactor if (i + j) % 2 == 0 else ops.call("neg", cofactor))
    return result, _from_halves(ops, upper, lower)
