"""The most iterations that each loop of a kernel makes in one launch, and the values that count those of a `while`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jaxwarp.analysis.integers.conditions import comparison, conjuncts
from jaxwarp.analysis.integers.facts import Facts
from jaxwarp.analysis.integers.ranges import all_of, is_inside
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Call, Const, For, While, walk


@dataclass(frozen=True)
class Counter:
    """A carried integer of a `while` that grows by a constant in each iteration."""

    position: int
    step: int


class Trips:
    """The loops of a kernel.

    Args:
        kernel: the kernel.
        grid, shapes: what is known of the extents, as for `Facts`.

    Attributes:
        most: the most iterations of a loop, where that is known.
        counters: of a `while`; those that the condition compares come first, then the widest.
    """

    def __init__(self, kernel: Kernel, *known: Any):
        self.facts = Facts(kernel, *known)
        self.most: dict[For | While, int] = {}
        self.counters: dict[While, list[Counter]] = {}
        self._bounded: set[tuple[While, Counter]] = set()  # by the condition
        for op in walk(kernel.body):
            if isinstance(op, For):
                self._for(op)
            elif isinstance(op, While):
                self._while(op)

    def _for(self, op: For) -> None:
        start, stop, (step, same) = (self.facts[v] for v in (op.start, op.stop, op.step))
        if step == same and step:
            span = stop[1] - start[0] if step > 0 else start[1] - stop[0]
            self.most[op] = max(-(-span // abs(step)), 0)

    def _while(self, op: While) -> None:
        facts, made = self.facts, self.facts.made
        tests = [comparison(value, truth, made) for value, truth in conjuncts(op.condition.results[0], True, made)]
        compared = {facts.name(v) for test in tests if test is not None for v in test[1:]}
        self.counters[op] = list(self._counters(op))
        self.counters[op].sort(key=lambda c: ((op, c.position) not in compared, -op.inits[c.position].type.bits))
        for counter in self.counters[op]:
            grown = made[op.body.results[counter.position]]
            after = facts.result(grown, facts.inside[op]) if isinstance(grown, Call) else None
            if after is not None and is_inside(after, all_of(grown.defined[0].type)):
                # After each iteration it is as many steps from where it started.
                start = facts[op.inits[counter.position]]
                count = max((after[1] - start[0] if counter.step > 0 else start[1] - after[0]) // abs(counter.step), 0)
                self.most[op] = min(count, self.most.get(op, count))
                self._bounded.add((op, counter))

    def _counters(self, op: While) -> Iterator[Counter]:
        made = self.facts.made
        for position, (carried, result) in enumerate(zip(op.body.params, op.body.results, strict=True)):
            match made.get(result):
                case Call(builtin=row, args=(a, b)) if row.name in ("add", "sub") and carried.type.is_int:
                    if b is carried and row.name == "add":
                        a, b = b, a
                    by = made.get(b)
                    if a is carried and isinstance(by, Const) and by.value:
                        yield Counter(position, int(by.value) if row.name == "add" else -int(by.value))
                case _:
                    pass

    def may_wrap(self, loop: While, counter: Counter) -> bool:
        """Might a counter leave its type in as many iterations as the loop makes? Then it does not tell them apart."""
        most = self.most.get(loop)
        if most is None or (loop, counter) in self._bounded:
            return most is None
        start = self.facts[loop.inits[counter.position]]
        after = start[0] + min(counter.step, 0) * most, start[1] + max(counter.step, 0) * most
        return not is_inside(after, all_of(loop.inits[counter.position].type))
