"""Values of a kernel that may differ from thread to thread."""

from __future__ import annotations

from collections.abc import Sequence

from jaxwarp.ir.nodes import Atomic, Block, For, If, Load, Param, Store, Tid, Value, While


class ThreadDependence:
    """The values that a thread's index, or the order of threads, takes part in.

    What is loaded from an array of the launch depends on the thread as far as its indices do.
    """

    def __init__(self, body: Block):
        self.values: set[Value] = set()
        self._arrays: set[Param] = set()  # of a thread's own
        before = -1
        while before != (before := len(self.values) + len(self._arrays)):
            self._block(body, False)

    def _block(self, block: Block, guarded: bool) -> None:
        """`guarded`: some threads do not get here."""
        for op in block.ops:
            match op:
                case If():
                    found = self._any(op.condition)
                    self._join(op.results, [block.results for block in op.blocks], found)
                case For():
                    found = self._any(op.start, op.stop, op.step)
                    if found:
                        self.values.add(op.body.params[0])
                    self._join(op.results, [op.inits, op.body.results], found, op.body.params[1:])
                case While():
                    found = self._any(*op.condition.results)
                    self._join(op.results, [op.inits, op.body.results], found, op.condition.params, op.body.params)
                case _:
                    found = isinstance(op, Tid | Atomic) or self._any(*op.operands)
                    found = found or (isinstance(op, Load) and op.param in self._arrays)
                    if found:
                        self.values.update(op.defined)
                    if isinstance(op, Store) and (found or guarded):
                        self._arrays.add(op.param)
            for inner in op.blocks:
                self._block(inner, guarded or found)

    def _any(self, *values: Value) -> bool:
        return not self.values.isdisjoint(values)

    def _join(
        self, results: Sequence[Value], sources: Sequence[Sequence[Value]], all_do: bool, *carried: Sequence[Value]
    ) -> None:
        """A result, and what loops carry on for it, may be any of its sources."""
        for k, result in enumerate(results):
            if all_do or self._any(*(source[k] for source in sources)):
                self.values.update((result, *(values[k] for values in carried)))
