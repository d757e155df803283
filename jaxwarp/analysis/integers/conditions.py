"""Conditions taken apart: the comparisons that hold where a condition is true, or false."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jaxwarp.ir.nodes import Call, Const, If, Op, Value

SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
"""Comparisons, with their operands the other way round."""

OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
"""Comparisons, where they do not hold."""

Comparison = tuple[str, Value, Value]


def conjuncts(condition: Value, truth: bool, made: Mapping[Value, Op]) -> Iterator[tuple[Value, bool]]:
    """Yield values and what each of them is, where and only where a condition is `truth`.

    Args:
        condition: a bool.
        truth: what it is.
        made: the operations that define values.
    """
    match made.get(condition):
        case Call(builtin=row, args=(a,)) if row.name == "logical_not":
            yield from conjuncts(a, not truth, made)
        case Call(builtin=row, args=(a, b)) if row.name == ("logical_and" if truth else "logical_or"):
            yield from conjuncts(a, truth, made)
            yield from conjuncts(b, truth, made)
        case If() as choice:
            # `a and b` is b where a, else False; `a or b` is True where a, else b: one side is never `truth`.
            place = choice.results.index(condition)
            sides = ((choice.then.results[place], True), (choice.orelse.results[place], False))
            taken = [side for side in sides if _constant(side[0], made) is not (not truth)]
            if len(taken) == 1:
                ((value, side),) = taken
                yield from conjuncts(choice.condition, side, made)
                yield from conjuncts(value, truth, made)
            else:
                yield condition, truth
        case _:
            yield condition, truth


def comparison(condition: Value, truth: bool, made: Mapping[Value, Op]) -> Comparison | None:
    """Return the comparison of integers that holds where a condition is `truth`, if it is one."""
    match made.get(condition):
        case Call(builtin=row, args=(a, b)) if row.name in SWAPPED and a.type.is_int:
            return row.name if truth else OPPOSITE[row.name], a, b
        case _:
            return None


def _constant(value: Value, made: Mapping[Value, Op]) -> bool | None:
    found = made.get(value)
    return bool(found.value) if isinstance(found, Const) else None
