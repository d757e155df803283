"""Elements that can be proved to be others: those of a column before the one that is stored to, and the like.

An index is between two ends, each a value and a number: `k` of `for k in range(j)` is between 0 and j - 1, so it is
not j.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from jaxwarp.ir.nodes import Atomic, Call, For, Load, Op, Store, Value

_FAR = 1 << 24  # what may be added to an index: no sum with an extent of an array of a thread's own overflows


class _End(NamedTuple):
    """`value + offset`; without a value a number."""

    value: Value | None
    offset: int


class IndexEnds:
    """Proofs that two accesses of a kernel are of different elements."""

    def __init__(self, ops: Iterable[Op], constants: Mapping[Value, bool | int | float]):
        self._constants = constants
        self._sums: dict[Value, Call] = {}
        self._loops: dict[Value, For] = {}
        for op in ops:
            if isinstance(op, Call) and op.builtin.name in ("add", "sub"):
                if op.result.type.is_int and op.result.type.bits >= 32:
                    self._sums[op.result] = op
            elif isinstance(op, For):
                self._loops[op.body.params[0]] = op

    def are_apart(self, a: Load | Store | Atomic, b: Load | Store | Atomic, inside: Collection[Value] = ()) -> bool:
        """Return whether two accesses of an array are never at one element.

        Args:
            a, b: the accesses.
            inside: values that may differ between the two times; those of loops around both do not.
        """
        return any(
            self._less(x, y, inside) or self._less(y, x, inside) for x, y in zip(a.indices, b.indices, strict=True)
        )

    def _less(self, a: Value, b: Value, inside: Collection[Value]) -> bool:
        last, first = self._ends(a, inside)[1], self._ends(b, inside)[0]
        return last is not None and first is not None and last.value is first.value and last.offset < first.offset

    def _ends(self, value: Value, inside: Collection[Value]) -> tuple[_End | None, _End | None]:
        """Return the least and the greatest that a value may be; None: not known."""
        base, offset = self._taken_apart(value)
        if base is None or base not in inside:
            return _End(base, offset), _End(base, offset)
        loop = self._loops.get(base)
        if loop is None:
            return None, None
        step = self._constants.get(loop.step, 0)
        if not step:
            return None, None
        first, past = self._end(loop.start, offset, inside), self._end(loop.stop, offset, inside)
        if step > 0:
            return first, past and past._replace(offset=past.offset - 1)
        return past and past._replace(offset=past.offset + 1), first

    def _end(self, value: Value, offset: int, inside: Collection[Value]) -> _End | None:
        base, more = self._taken_apart(value)
        return _End(base, more + offset) if base is None or base not in inside else None

    def _taken_apart(self, value: Value) -> _End:
        offset = 0
        while (known := self._constants.get(value)) is None:
            op = self._sums.get(value)
            if op is None:
                return _End(value, offset)
            sign = 1 if op.builtin.name == "add" else -1
            number, base = self._constants.get(op.args[1]), op.args[0]
            if number is None and sign > 0:
                number, base = self._constants.get(op.args[0]), op.args[1]
            if number is None or abs(number) > _FAR:
                return _End(value, offset)
            offset, value = offset + sign * int(number), base
        return _End(None, offset + int(known))
