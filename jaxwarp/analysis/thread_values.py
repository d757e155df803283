"""The integers of a kernel that depend on the thread's index alone, thread by thread.

    west = x - 1 if x > 0 else nx - 1        nx - 1, 0, 1, ..., nx - 2 along the grid axis of x

A value is an array with an axis for each axis of the grid, of extent 1 where it does not depend on that thread index:
in a launch of 4096 by 4096 a neighbour's column is 4096 numbers. The values are computed as the kernel computes them,
in arithmetic that wraps. A value is not known if it depends on loops, on data or on unknown extents, or if there are
very many threads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxwarp.ir.interpret import apply_builtin
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Call, Const, For, If, Op, Param, Size, Store, Tid, Value, While, walk

# Values for more threads are not looked at, nor those made by longer chains of operations.
_MOST_THREADS = 1 << 20
_MOST_STEPS = 64
# Numbers computed for one kernel and launch: 1 to 3 ns each.
_MOST_WORK = 1 << 25

Shapes = Mapping[Param, Sequence[Any]]


class ThreadValues:
    """The integers and bools of a kernel on one launch.

    Args:
        kernel: the kernel.
        grid: launch extents; an entry that is no integer is an unknown extent.
        shapes: extents of parameters, likewise, where known; the static ones are known anyway.
    """

    def __init__(self, kernel: Kernel, grid: Sequence[Any], shapes: Shapes | None = None):
        self.grid = [int(n) if isinstance(n, (int, np.integer)) else None for n in grid]
        self.shapes = shapes or {}
        kinds = Const | Tid | Size | Call | If
        self._definitions = {v: op for op in walk(kernel.body) if isinstance(op, kinds) for v in op.defined}
        self._found: dict[Value, np.ndarray | None] = {}
        self._work = _MOST_WORK

    def of(self, value: Value, steps: int = _MOST_STEPS) -> np.ndarray | None:
        """The value for all threads, None if it is not known."""
        if value not in self._found:
            op = self._definitions.get(value)
            self._found[value] = self._computed(value, op, steps) if op is not None and steps else None
        return self._found[value]

    def _computed(self, value: Value, op: Op, steps: int) -> np.ndarray | None:
        if value.type.is_float:
            return None
        match op:
            case Const():
                return self._number(op.value, value)
            case Tid():
                return self._index(op.axis)
            case Size():
                extent = self.shapes.get(op.param, op.param.shape)[op.axis]
                return self._number(extent, value) if isinstance(extent, (int, np.integer)) else None
            case Call(builtin=row, args=(index, extent)) if row.name == "from_end" and self.of(extent, steps) is None:
                # Of no extent as long as no thread's index is negative.
                found = self.of(index, steps)
                return found if found is not None and np.all(found >= 0) else None
            case Call() if not any(v.type.is_float for v in op.args):
                args = self._all(op.args, steps)
                if args is None:
                    return None
                with np.errstate(all="ignore"):
                    return apply_builtin(op, args)
            case If():
                at = op.results.index(value)
                sides = self._all((op.condition, op.then.results[at], op.orelse.results[at]), steps)
                return None if sides is None else np.where(*sides)
            case _:
                return None

    def _all(self, values: Sequence[Value], steps: int) -> list[np.ndarray] | None:
        """The operands of an operation, of equal shape, if they are known and it is worth computing."""
        found: list[np.ndarray] = []
        for value in values:
            array = self.of(value, steps - 1)
            if array is None:
                return None
            found.append(array)
        shape = np.broadcast_shapes(*(a.shape for a in found))
        self._work -= math.prod(shape)
        if math.prod(shape) > _MOST_THREADS or self._work < 0:
            return None
        return [a if a.shape == shape else np.array(np.broadcast_to(a, shape)) for a in found]

    def _number(self, number: Any, value: Value) -> np.ndarray:
        return np.full([1] * len(self.grid), number, value.type.numpy)

    def _index(self, axis: int) -> np.ndarray | None:
        extent = self.grid[axis]
        if extent is None or extent > _MOST_THREADS:
            return None
        return np.arange(extent, dtype=np.int32).reshape([extent if a == axis else 1 for a in range(len(self.grid))])


def extents_in_indices(kernel: Kernel) -> frozenset[tuple[int, int]]:
    """The extents, as (position of the parameter, axis), that indices of arrays are computed from by arithmetic.

    And how often loops run that store to arrays of the thread's own: reverse sweeps record what these hold in between.
    """
    makers = {v: op for op in walk(kernel.body) if isinstance(op, Size | Call | If) for v in op.defined}
    waiting = [index for op in walk(kernel.body) for index in getattr(op, "indices", ())]
    for op in walk(kernel.body):
        inside = [x for block in op.blocks for x in walk(block)] if isinstance(op, For | While) else []
        if any(isinstance(x, Store) and x.param in kernel.locals for x in inside):
            waiting += [*op.operands, *(v for block in op.blocks for v in block.results)]
    seen: set[Value] = set()
    found: set[tuple[int, int]] = set()
    while waiting:
        value = waiting.pop()
        op = makers.get(value)
        if op is None or value in seen:
            continue
        seen.add(value)
        if isinstance(op, Size) and op.param in kernel.params:
            found.add((kernel.params.index(op.param), op.axis))
        waiting.extend(op.operands)
        waiting.extend(result for block in op.blocks for result in block.results)
    return frozenset(found)
