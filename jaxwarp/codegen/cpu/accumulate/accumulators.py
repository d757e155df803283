"""Accumulators: they sum up the atomics of a row of threads, or of a whole call, before memory gets the sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jaxwarp.codegen.cpu.accumulate.exclusive import Rectangle
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.ir.nodes import Atomic


class Updates(Protocol):
    """The code of single atomics on memory, which accumulators fall back on."""

    def pointer(self, op: Atomic) -> str:
        """The address of what lane 0 updates."""
        ...

    def is_own(self, op: Atomic) -> str:
        """An i1: does no other rectangle touch what the lanes that are on update?"""
        ...

    def at_once(self, ops: Sequence[Atomic]) -> None:
        """Emit additions in which all lanes share an element: sum over the lanes, then add once to each element."""
        ...

    def by_lane(self, op: Atomic) -> None:
        """The atomic of each lane, in order."""
        ...


class Accumulator(Protocol):
    """Sums of one atomic or of several."""

    def takes(self, lanes: Lanes, op: Atomic) -> bool:
        """Return whether the accumulator serves this body of code. If not, the atomic updates memory directly."""
        ...

    def clear(self) -> None:
        """At the start of the row, or of the function."""
        ...

    def add(self, lanes: Lanes, op: Atomic, updates: Updates) -> None:
        """Emit the code that replaces the atomic."""
        ...

    def finish(self) -> None:
        """At the end of the row, or of the function: memory gets the sums."""
        ...


@dataclass(frozen=True)
class Accumulators:
    """The accumulators of a launch function.

    Attributes:
        of: where atomics add, those of all bodies.
        of_rows: those that are cleared and finished for each row.
        of_calls: those that are cleared and finished once.
        rectangle: knows which other atomics need not be atomic.
    """

    of: Mapping[Atomic, Accumulator] = field(default_factory=dict[Atomic, Accumulator])
    of_rows: Sequence[Accumulator] = ()
    of_calls: Sequence[Accumulator] = ()
    rectangle: Rectangle | None = None
