"""Atomics at addresses that many threads share: combined within the block first, so that memory sees one per block.

Where an array is only ever updated by atomics of one kind whose old values nobody reads, nothing depends on when, or in
which parts, the updates arrive. Four forms, by what is known about the address:

* An element known to exist, the same in the whole launch (a scalar, a component of a by-value vector): each thread
  combines its values in a variable of its own, through the whole loop over the grid; after it, where all threads of the
  block are, the block combines those (shuffles, then shared memory) and does one atomic.
* An element of the row that a thread is in (`s[i]` of threads i, j), where extents say that it exists, and rows are
  long: blocks go along rows, each thread combines what it meets of a row in a variable, and each warp does one atomic
  for a piece of a row (`loops.py`).
* An index that does not depend on the last thread index (`w[k]` in a loop over k): where all 32 threads of a warp are
  at the operation together and mean one address, which is looked at as it happens, one of them does it for all; else
  each does its own. If the array has at most SHARED_ELEMENTS elements, these atomics go to a copy in shared memory,
  which the block adds to the array at its end.
* Any other index of an array whose extents say that it fits into shared memory (a histogram), if there are far more
  threads than elements: each thread does its own atomics, on such a copy.

Sums of floats are then added in another order. Half precision is left alone (every partial sum would be rounded), and
so are bools.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jaxwarp.codegen.cuda.atomics import AtomicHelpers
from jaxwarp.codegen.cuda.expression import CPP_TYPES, Expr, literal
from jaxwarp.codegen.cuda.layout import ParameterLayout
from jaxwarp.codegen.cuda.names import Names
from jaxwarp.codegen.cuda.sums.combine import (
    block_function,
    identity,
    is_changed,
    pair_function,
    row_function,
    warp_function,
)
from jaxwarp.codegen.cuda.sums.varying import varying_values
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Const, Load, Param, Store, Tid, Value, walk
from jaxwarp.types import Scalar, bool_, int32

SHARED_ELEMENTS = 256
# Of the 48 KiB that every block may have; the rest is for sums over blocks.
_SHARED_BYTES = 40 * 1024
# A block makes this many updates for each element of a copy that it adds to the array; so many blocks fill a device.
_UPDATES = 2
_LEAST_BLOCKS = 256
# Variables for whole-launch sums; more would crowd out the registers.
_MOST_VARIABLES = 16
# Blocks launched for a kernel that reduces: enough to fill a device, so few that what each does at its end is little.
MOST_BLOCKS = 2048
# Threads in a row from which on blocks go along it.
LONG_ROW = 1024

_KINDS = ("add", "min", "max", "and", "or", "xor")


RowTarget = tuple[Param, tuple[tuple[bool, int], ...]]


@dataclass
class ReductionPlan:
    """The form of reduction that each atomic gets.

    Attributes:
        variables: atomics on elements (array, offset) that exist and are the same for all threads.
        rows: atomics on elements that exist for every row of threads and are the same for all of it; the indices are
            axes of the grid, as (True, axis), and constants, as (False, value).
        warps: atomics that a warp does together where it can.
        scattered: atomics at any places of an array that has a copy in shared memory.
        most_blocks: of a launch that reduces.
    """

    rows: dict[Atomic, RowTarget] = field(default_factory=dict)
    variables: dict[Atomic, tuple[Param, int]] = field(default_factory=dict)
    warps: dict[Atomic, None] = field(default_factory=dict)  # in order
    scattered: dict[Atomic, None] = field(default_factory=dict)
    most_blocks: int = MOST_BLOCKS

    @property
    def shared(self) -> dict[Param, int]:
        """The arrays that get a copy in shared memory, as many as there is room for, and elements of the copies.

        Where extents are not known, an array uses its copy if it has no more elements.
        """
        scattered = {op.param: math.prod(n or 0 for n in op.param.shape) for op in self.scattered}
        found = {op.param: SHARED_ELEMENTS for op in self.warps if not _is_large(op.param)} | scattered
        room = itertools.accumulate(count * param.dtype.bytes for param, count in found.items())
        return {param: found[param] for param, used in zip(found, room, strict=True) if used <= _SHARED_BYTES}

    @property
    def is_empty(self) -> bool:
        return not self.variables and not self.warps and not self.rows and not self.scattered


def plan_reductions(kernel: Kernel, used: Iterable[Value], grid: Sequence[int | None] = ()) -> ReductionPlan:
    """Chooses the form for each atomic of a kernel. `used`: the values that something reads; `grid`: known extents."""
    plan, read = ReductionPlan(), set(used)
    varying = varying_values(kernel)
    ops = [op for op in walk(kernel.body) if isinstance(op, Const)]
    constants = {op.result: int(op.value) for op in ops if op.result.type.is_int}
    axes = {op.result: op.axis for op in walk(kernel.body) if isinstance(op, Tid)} if _has_long_rows(grid) else {}
    for param, atomics in _only_updated(kernel, read).items():
        for op in atomics:
            offset = _known_offset(op, constants)
            target = (param, offset or 0)
            has_room = target in plan.variables.values() or len(set(plan.variables.values())) < _MOST_VARIABLES
            if offset is not None and has_room:
                plan.variables[op] = target
            elif (row := _row_target(op, constants, axes, grid)) is not None:
                plan.rows[op] = row
            elif not any(i in varying for i in op.indices):
                plan.warps[op] = None
            elif _blocks_for(param, grid) >= _LEAST_BLOCKS:
                plan.scattered[op] = None
    shared = plan.shared
    plan.scattered = {op: None for op in plan.scattered if op.param in shared}
    plan.most_blocks = min([MOST_BLOCKS, *(_blocks_for(op.param, grid) for op in plan.scattered)])
    return plan


def _blocks_for(param: Param, grid: Sequence[int | None]) -> int:
    """Return how many blocks have enough updates to be worth copies of an array; 0 if extents are unknown."""
    if None in grid or None in param.shape:
        return 0
    threads, elements = (math.prod(n or 0 for n in extents) for extents in (grid, param.shape))
    return threads // (_UPDATES * max(1, elements)) if grid else 0


def _only_updated(kernel: Kernel, read: set[Value]) -> dict[Param, list[Atomic]]:
    """The arrays that are only updated, by atomics of one kind that can be combined."""
    found: dict[Param, list[Atomic]] = defaultdict(list)
    refused = set(kernel.locals)
    for op in walk(kernel.body):
        if isinstance(op, (Load, Store)):
            refused.add(op.param)
        elif isinstance(op, Atomic):
            found[op.param].append(op)
            if op.result in read or not _combines(op.kind, op.param.dtype) or op.kind != found[op.param][0].kind:
                refused.add(op.param)
    return {param: ops for param, ops in found.items() if param not in refused}


def _combines(kind: str, dtype: Scalar) -> bool:
    return dtype is not bool_ and not dtype.is_half and kind in _KINDS


def _known_offset(op: Atomic, constants: dict[Value, int]) -> int | None:
    """The place of an element that certainly exists, None if it may not."""
    offset = 0
    for index, extent in zip(op.indices, op.param.shape, strict=True):
        at = constants.get(index)
        if at is None or extent is None or not 0 <= at < extent:
            return None
        offset = offset * extent + at
    return offset


def _has_long_rows(grid: Sequence[int | None]) -> bool:
    """Return whether rows are long enough for several elements per thread. Rows and columns must fit in 32 bits."""
    known = [n for n in grid if n is not None]
    return 1 < len(grid) == len(known) and LONG_ROW <= known[-1] < 2**30 and math.prod(known[:-1]) < 2**31


def _row_target(
    op: Atomic, constants: Mapping[Value, int], axes: Mapping[Value, int], grid: Sequence[int | None]
) -> RowTarget | None:
    """The element, if it exists for every row of threads."""
    found = []
    for index, extent in zip(op.indices, op.param.shape, strict=True):
        axis, at = axes.get(index), constants.get(index)
        is_axis = axis is not None
        most = grid[axis] if axis is not None else None if at is None else at + 1
        if not axes or extent is None or most is None or most > extent or axis == len(grid) - 1 or (at or 0) < 0:
            return None
        found.append((is_axis, axis if axis is not None else at or 0))
    return op.param, tuple(found)


def _is_large(param: Param) -> bool:
    return math.prod(n for n in param.shape if n is not None) > SHARED_ELEMENTS


class Reductions:
    """The text of a kernel's reductions: what stands before, in and after the loop over threads."""

    def __init__(self, plan: ReductionPlan, layout: ParameterLayout, names: Names, helpers: AtomicHelpers):
        self.plan = plan
        self.layout = layout
        self.helpers = helpers
        self.element = names.fresh("element") if plan.shared else ""
        self.variables: dict[tuple[Param, int], tuple[str, str]] = {}  # -> its name, the kind
        for op, target in plan.variables.items():
            if target not in self.variables:
                self.variables[target] = names.fresh(f"{target[0].name}_part"), op.kind
        self.rows: dict[RowTarget, tuple[str, str]] = {}
        for op, row in plan.rows.items():
            if row not in self.rows:
                self.rows[row] = names.fresh(f"{row[0].name}_part"), op.kind
        self.copies = {p: (names.fresh(f"{p.name}_part"), names.fresh(f"{p.name}_is_small")) for p in plan.shared}
        self.kinds = {op.param: op.kind for op in (*plan.warps, *plan.scattered)}

    def statement(self, op: Atomic, offset: str, value: str) -> str | None:
        """Return the statement that replaces an atomic, or None if it stays an atomic."""
        dtype = op.param.dtype
        if op in self.plan.variables or op in self.plan.rows:
            rows, variables = self.plan.rows, self.plan.variables
            name, _ = self.rows[rows[op]] if op in rows else self.variables[variables[op]]
            if dtype.is_float and op.kind == "add":
                return f"{name} += {value};"
            return f"{name} = {pair_function(self.helpers, op.kind, dtype)}({name}, {value});"
        if op not in self.plan.warps and op not in self.plan.scattered:
            return None
        array = self.layout.params[op.param]
        if op.param in self.copies:
            part, is_small = self.copies[op.param]
            array = f"({is_small} ? {part} : {array})"
        if op in self.plan.scattered:
            return f"{self.helpers.call(op.kind, dtype, f'&{array}[{offset}]', [value])};"
        return f"{warp_function(self.helpers, op.kind, dtype)}(&{array}[{offset}], {value});"

    def before(self) -> list[str]:
        lines = []
        for (param, _), (name, kind) in self.variables.items():
            lines.append(f"{CPP_TYPES[param.dtype.short]} {name} = {identity(kind, param.dtype)};")
        for param, (part, is_small) in self.copies.items():
            count, most = self.layout.element_count(param).text, self.plan.shared[param]
            lines.append(f"__shared__ {CPP_TYPES[param.dtype.short]} {part}[{most}];")
            lines.append(f"const bool {is_small} = {count} <= {most};")
            lines += self._each_element(param, f"{part}[{self.element}] = {identity(self.kinds[param], param.dtype)};")
        return [*lines, "__syncthreads();"] if self.copies else lines

    def before_row(self) -> list[str]:
        return [
            f"{CPP_TYPES[param.dtype.short]} {name} = {identity(kind, param.dtype)};"
            for (param, _), (name, kind) in self.rows.items()
        ]

    def after_row(self, axes: Mapping[int, Expr]) -> list[str]:
        """Given the indices of the row."""
        lines = []
        for (param, indices), (name, kind) in self.rows.items():
            places = [axes[n] if is_axis else literal(n, int32) for is_axis, n in indices]
            call = row_function(self.helpers, kind, param.dtype)
            lines.append(f"{call}(&{self.layout.params[param]}[{self.layout.offset(param, places).text}], {name});")
        return lines

    def after(self) -> list[str]:
        lines = []
        for (param, offset), (name, kind) in self.variables.items():
            call = block_function(self.helpers, kind, param.dtype)
            lines.append(f"{call}(&{self.layout.params[param]}[{offset}], {name});")
        if self.copies:
            lines.append("__syncthreads();")
        for param, (part, _) in self.copies.items():
            kind, at = self.kinds[param], self.element
            call = self.helpers.call(kind, param.dtype, f"&{self.layout.params[param]}[{at}]", [f"{part}[{at}]"])
            condition = is_changed(kind, param.dtype, f"{part}[{at}]")
            lines += self._each_element(param, f"if ({condition}) {call};")
        return lines

    def _each_element(self, param: Param, statement: str) -> list[str]:
        """The threads of the block share the elements of a copy between them."""
        at, count = self.element, self.layout.element_count(param).text
        return [
            f"if ({self.copies[param][1]})",
            f"    for (unsigned int {at} = threadIdx.x; {at} < {count}; {at} += blockDim.x)",
            f"        {statement}",
        ]
