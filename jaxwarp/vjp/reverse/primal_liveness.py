"""The values of a first run that its reverse sweep reads, found from last to first while the sweep is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jaxwarp.ir.nodes import Atomic, Op, Store, Value, walk


class PrimalLiveness:
    """The liveness in a block being built: `ops` holds the first run, and the reverse sweep is appended to it.

    Ask about an operation when everything after it has been reversed. Each operation is looked at once.
    """

    def __init__(self, ops: list[Op]):
        self.ops = ops
        self._values: set[Value] = set()  # that are read
        self._at = self._end = len(ops)  # the first run from `_at` on has been looked at, the sweep up to `_end`

    def reaches(self, op: Op) -> bool:
        """Return whether a result of `op`, which belongs to the first run, is read."""
        self._read(self.ops[self._end :])
        self._end = len(self.ops)
        while self.ops[self._at - 1] is not op:
            self._at -= 1
            later = self.ops[self._at]
            if any(v in self._values for v in later.defined) or _has_effect(later):
                self._read([later])
        return any(v in self._values for v in op.defined)

    def replace(self, op: Op, new: Sequence[Op]) -> None:
        """Puts operations in the place of the one that was asked for last."""
        self._at -= 1
        assert self.ops[self._at] is op
        self.ops[self._at : self._at + 1] = new
        self._end += len(new) - 1
        self._read(new)

    def _read(self, ops: Iterable[Op]) -> None:
        for op in ops:
            self._values.update(op.operands)
            for block in op.blocks:
                self._values.update(block.results)
                self._read(block.ops)


def _has_effect(op: Op) -> bool:
    return isinstance(op, Store) or any(isinstance(x, Store | Atomic) for block in op.blocks for x in walk(block))
