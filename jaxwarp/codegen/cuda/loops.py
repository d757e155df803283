"""Loops of the threads of a launch over its grid: one element each, in strides of the grid, or along rows.

In kernels that sum, a thread has many elements; in kernels that load little, it has a few. Several elements at a time
are independent, so that their loads overlap; the text for an element is a function of its number. Along rows (`Rows`),
a block has a piece of a row at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from jaxwarp.codegen.cuda.expression import Expr, binary, literal
from jaxwarp.codegen.cuda.layout import ParameterLayout
from jaxwarp.codegen.cuda.names import Names
from jaxwarp.codegen.cuda.statements import TextLine
from jaxwarp.codegen.cuda.sums.reductions import LONG_ROW, MOST_BLOCKS, ReductionPlan, Reductions
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, For, Load, While, walk
from jaxwarp.types import int32, uint32

AT_ONCE = 4
# More operations than that hide what a load takes by themselves, and would crowd out the registers.
_MOST_OPERATIONS = 48
ANY_NUMBER = (1 << 31) - 1  # of blocks
_FEW_OPERATIONS = 12  # of which there is room for twice as many
# What each thread of a full device has to have under way, for the memory to be busy: 4.2 TB/s for 650 ns are 10 bytes.
_LITTLE = 32
_MANY_THREADS = 1 << 21  # that leave a device full when there are fewer by AT_ONCE


class GridLoop:
    """One thread for each element, or strides over the grid.

    Attributes:
        depth: of the statements of a thread.
        most_blocks: that a launch needs; None: as many as there are threads for.
    """

    depth = 2
    most_blocks: int | None = None

    def __init__(self, layout: ParameterLayout, is_once: bool):
        self.layout = layout
        self.is_once = is_once

    def before(self) -> list[TextLine]:
        header = self.layout.thread_header() if self.is_once else self.layout.loop_header()
        return _lines(1, header)

    def after(self) -> list[TextLine]:
        return _lines(1, ["}"])

    def index(self, axis: int) -> Expr:
        """Return a thread's index along an axis."""
        return self.layout.thread_index(axis)


class Together(GridLoop):
    """Strides over the grid, some at a time."""

    def __init__(self, layout: ParameterLayout, names: Names, at_once: int, most_blocks: int | None = None):
        super().__init__(layout, False)
        self._together = _Together(layout.thread, names, at_once)
        self._stride = names.fresh("stride")
        self.most_blocks = most_blocks

    def before(self) -> list[TextLine]:
        return _lines(1, [self._together.opening])

    def after(self) -> list[TextLine]:
        stride = f"const unsigned int {self._stride} = gridDim.x * blockDim.x;"
        first, end = "blockIdx.x * blockDim.x + threadIdx.x", f"(unsigned int){self.layout.total}"
        return _lines(1, ["};", stride, *self._together.loops(first, end, self._stride)])


class Rows(GridLoop):
    """Along the last axis: a block has a piece of a row at a time, and what is summed over rows is, after each."""

    depth = 3

    def __init__(self, layout: ParameterLayout, reductions: Reductions, block: int, at_once: int):
        super().__init__(layout, False)
        self._extents = [n or 0 for n in layout.grid]
        self._reductions = reductions
        self._axes: dict[int, Expr] = {}
        *outer, columns = self._extents
        rows, names = math.prod(outer), layout.names
        # As few pieces as fill a device, of several elements for each thread.
        pieces = max(1, min(MOST_BLOCKS // max(1, rows), columns // max(LONG_ROW, at_once * block)))
        self._length = -(-columns // pieces)
        self._pieces = -(-columns // self._length)
        # What is summed over the whole launch is added once for each block.
        most = reductions.plan.most_blocks if reductions.variables or reductions.copies else ANY_NUMBER
        self.most_blocks = max(1, min(most, rows * self._pieces))
        self._rows = rows
        self._piece, self._row, self._end = (names.fresh(n) for n in ("piece", "row", "row_end"))
        self._together = _Together(layout.thread, names, at_once)

    def before(self) -> list[TextLine]:
        piece, count = self._piece, self._rows * self._pieces
        row = f"{piece} / {self._pieces}u" if self._pieces > 1 else piece
        lines = [f"const unsigned int {self._row} = {row};"]
        for axis in range(len(self._extents) - 1):
            name = self.layout.names.fresh(f"row{axis}")
            self._axes[axis] = Expr(name)
            lines.append(f"const int {name} = {self._outer_index(axis).text};")
        lines += [*self._reductions.before_row(), self._together.opening]
        loop = f"for (unsigned int {piece} = blockIdx.x; {piece} < {count}u; {piece} += gridDim.x) {{"
        return [*_lines(1, [loop]), *_lines(2, lines)]

    def after(self) -> list[TextLine]:
        columns, length = self._extents[-1], self._length
        begin = f"{self._piece} % {self._pieces}u * {length}u" if self._pieces > 1 else "0u"
        full = f"{begin} + {length}u" if self._pieces > 1 else f"{columns}u"
        end = f"{full} < {columns}u ? {full} : {columns}u" if columns % length else full
        lines = ["};", f"const unsigned int {self._end} = {end};"]
        first = "threadIdx.x" if begin == "0u" else f"{begin} + threadIdx.x"
        lines += self._together.loops(first, self._end, "blockDim.x")
        return [*_lines(2, [*lines, *self._reductions.after_row(self._axes)]), *_lines(1, ["}"])]

    def index(self, axis: int) -> Expr:
        return Expr(self.layout.thread) if axis == len(self._extents) - 1 else self._axes[axis]

    def _outer_index(self, axis: int) -> Expr:
        index = Expr(self._row)
        for faster in range(len(self._extents) - 2, axis, -1):
            index = binary("/", index, literal(self._extents[faster], uint32))
        return binary("%", index, literal(self._extents[axis], uint32)) if axis > 0 else index


class _Together:
    """A function for one element, and the loops that call it."""

    def __init__(self, element: str, names: Names, at_once: int):
        self._at_once = at_once
        self._each, self._first, self._turn = (names.fresh(n) for n in ("each", "first", "turn"))
        self.opening = f"const auto {self._each} = [&](unsigned int {element}) {{"

    def loops(self, begin: str, end: str, stride: str) -> list[str]:
        each, first, turn, some = self._each, self._first, self._turn, self._at_once
        together = [
            f"for (; {first} + {some - 1}u * {stride} < {end}; {first} += {some}u * {stride}) {{",
            "#pragma unroll",
            f"    for (unsigned int {turn} = 0; {turn} < {some}u; ++{turn}) {each}({first} + {turn} * {stride});",
            "}",
        ]
        return [
            f"unsigned int {first} = {begin};",
            *(together if some > 1 else ()),
            f"for (; {first} < {end}; {first} += {stride}) {each}({first});",
        ]


def loop_for(
    kernel: Kernel, plan: ReductionPlan, layout: ParameterLayout, reductions: Reductions, block: int, is_once: bool
) -> GridLoop:
    """Return the loop of a kernel's threads over the grid. `is_once`: each has one element, if it sums nothing."""
    at_once = _at_once(kernel, plan)
    if plan.rows:
        return Rows(layout, reductions, block, at_once)
    if (plan.variables or plan.scattered) and layout.counter is int32 and at_once > 1:
        return Together(layout, layout.names, at_once)
    if plan.is_empty and at_once > 1 and _loads_little(kernel, layout):
        threads = math.prod(n or 0 for n in layout.grid)
        return Together(layout, layout.names, AT_ONCE, -(-threads // (AT_ONCE * block)))
    return GridLoop(layout, is_once)


def _loads_little(kernel: Kernel, layout: ParameterLayout) -> bool:
    """Return whether many threads load so little each that, with one element each, they would leave the memory idle."""
    threads = math.prod(n or 0 for n in layout.grid)
    loaded = sum(op.param.dtype.bytes for op in walk(kernel.body) if isinstance(op, Load) and op.param in kernel.params)
    return _MANY_THREADS <= threads < ANY_NUMBER and 0 < loaded <= _LITTLE


def _at_once(kernel: Kernel, plan: ReductionPlan) -> int:
    """Return the number of elements that a thread should do together: several if the code is short and has no loops."""
    ops = list(walk(kernel.body))
    if len(ops) > _MOST_OPERATIONS or any(
        isinstance(op, (For, While)) or (isinstance(op, Atomic) and op in plan.warps) for op in ops
    ):
        return 1
    return 2 * AT_ONCE if len(ops) <= _FEW_OPERATIONS else AT_ONCE


def _lines(depth: int, texts: Iterable[str]) -> list[TextLine]:
    return [TextLine(depth, text, None) for text in texts]
