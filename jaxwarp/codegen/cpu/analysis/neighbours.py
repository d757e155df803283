"""Updates of one row of an array, at columns that differ by constants: those of the adjoint of a stencil."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jaxwarp.codegen.cpu.analysis.uniformity import Strides
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, Const, Param, Size, Tid


@dataclass(frozen=True)
class Neighbours:
    """Additions that are made together.

    Attributes:
        columns: of each, in elements from the first one's, in the order of the kernel.
    """

    columns: dict[Atomic, int]

    @property
    def ends(self) -> tuple[Atomic, Atomic]:
        """One at the first column and one at the last."""
        return min(self.columns, key=self.columns.__getitem__), max(self.columns, key=self.columns.__getitem__)

    @property
    def span(self) -> int:
        return max(self.columns.values())


def find_neighbours(kernel: Kernel, strides: Strides, width: int, arrays: Collection[Param]) -> list[Neighbours]:
    """The additions to `arrays` that are made together in a body of so many lanes, all of them on."""
    places: dict[object, list[tuple[int, Atomic]]] = defaultdict(list)
    for op in _last_additions(kernel, strides):
        if op.param not in arrays or not op.indices or strides.of[op.indices[-1]] != 1:
            continue
        if all(strides.of[i] == 0 for i in op.indices[:-1]):
            *rows, (column, constant) = (strides.shifts.get(i, (i, 0)) for i in op.indices)
            places[op.param, *rows, column].append((constant, op))
    return [found for ops in places.values() for found in _near(ops, width)]


def _last_additions(kernel: Kernel, strides: Strides) -> Sequence[Atomic]:
    """Additions whose old value nobody reads, that no other effect or branch comes after."""
    found: list[Atomic] = []
    for op in reversed(kernel.body.ops):
        if isinstance(op, Atomic) and op.kind == "add" and op.result not in strides.used:
            found.append(op)
        elif not isinstance(op, (Call, Const, Size, Tid)):
            break
    return found[::-1]


def _near(ops: Sequence[tuple[int, Atomic]], width: int) -> list[Neighbours]:
    """Groups of several columns that are less than a vector apart."""
    groups: list[list[tuple[int, Atomic]]] = []
    for constant, op in sorted(ops, key=lambda pair: pair[0]):
        if not groups or constant - groups[-1][0][0] >= width:
            groups.append([])
        groups[-1].append((constant, op))
    order = {op: number for number, (_, op) in enumerate(ops)}
    found = []
    for group in groups:
        first, last = group[0][0], group[-1][0]
        if first < last:
            in_order = sorted(group, key=lambda pair: order[pair[1]])
            found.append(Neighbours({op: constant - first for constant, op in in_order}))
    return found
