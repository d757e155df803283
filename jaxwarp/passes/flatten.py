"""Short rows: the last two axes of a launch as one.

    o[i, j] = f(x[i, j], j)  over (n, 3)          o[k] = f(x[k], k % 3)  over 3 n

Lanes of CPU code run along the last axis, so rows of three fill three lanes. With k the number of the thread in the two
axes, i is k // 3 and j is k % 3, and what is linear in 3 i + j is linear in k. Arrays whose second extent there is that
of the launch have the two axes merged, too: x[i, j] is x[k], and x[i + 1, j] is x[k + 3].

Threads keep their order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, Const, Load, Op, Param, Size, Store, Tid, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.simplify import simplify
from jaxwarp.types import int32

# Rows of more threads fill vectors well enough.
_LONGEST = 63
# The same where a place in memory depends on a thread's row or column, which is one of each lane then. Measured on
# AVX2, by weights w[j] and s[i]: with two columns as fast as row by row, with three 0.6 times.
_LONGEST_GATHERED = 1
_INDEX_LIMIT = 1 << 31


@dataclass(frozen=True)
class Flat:
    """A launch over fewer axes.

    Attributes:
        kernel: what runs.
        grid: its launch extents.
        axes: of each of its parameters, for each axis: the first axis of the launch's array that it is made of, and how
            many.
    """

    kernel: Kernel
    grid: tuple[int, ...]
    axes: tuple[tuple[tuple[int, int], ...], ...]

    def shapes(self, shapes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Return the shapes of the arrays, with axes merged."""
        return [
            tuple(math.prod(shape[first : first + count]) for first, count in axes)
            for shape, axes in zip(shapes, self.axes, strict=True)
        ]


def flatten(kernel: Kernel, grid: Sequence[Any], shapes: Sequence[Sequence[Any]]) -> Flat:
    """The launch over as few axes as are good for vectors, given its extents and those of its arrays.

    Threads may run in any order, and all extents are numbers.
    """
    flat = Flat(kernel, tuple(grid), tuple(tuple((axis, 1) for axis in range(p.rank)) for p in kernel.params))
    while (shorter := _shortened(flat, [tuple(s) for s in shapes])) is not None:
        flat = shorter
    return flat


def _shortened(flat: Flat, given: Sequence[tuple[int, ...]]) -> Flat | None:
    """Return the launch with one axis less; None if that is impossible or no gain."""
    if len(flat.grid) < 2:
        return None
    *outer, rows, columns = flat.grid
    threads = math.prod(flat.grid)
    shapes = flat.shapes(given)
    if not 1 <= columns <= _LONGEST or rows < 2 or not 0 < threads < _INDEX_LIMIT:
        return None
    if any(math.prod(shape) >= _INDEX_LIMIT for shape in shapes):
        return None
    # An array may be merged where its extents are free, and the second one is that of the launch.
    free = tuple(
        tuple(a for a in range(p.rank - 1) if p.shape[a : a + 2] == (None, None) and shape[a + 1] == columns)
        for p, shape in zip(flat.kernel.params, shapes, strict=True)
    )
    merged = _merged(flat.kernel, columns, free)
    if merged is None or columns > merged.longest:
        return None
    axes = tuple(
        old if at is None else (*old[:at], (old[at][0], old[at][1] + old[at + 1][1]), *old[at + 2 :])
        for old, at in zip(flat.axes, merged.places, strict=True)
    )
    return Flat(merged.kernel, (*outer, rows * columns), axes)


class _Merged(NamedTuple):
    """A kernel over one axis less: `places` are the axes merged with their next, `longest` the rows that gain by it."""

    kernel: Kernel
    places: tuple[int | None, ...]
    longest: int


@functools.lru_cache(maxsize=512)
@with_deep_stack
def _merged(kernel: Kernel, columns: int, free: tuple[tuple[int, ...], ...]) -> _Merged | None:
    forms = _Forms(kernel, columns)
    axes: dict[Param, int] = {}
    for op in walk(kernel.body):
        if isinstance(op, (Load, Store, Atomic)) and op.param not in kernel.locals and op.param not in axes:
            places = free[kernel.params.index(op.param)]
            axes.update((op.param, at) for at in places if forms.is_thread(op.indices[at], op.indices[at + 1]))
    atomics = [op for op in walk(kernel.body) if isinstance(op, Atomic)]
    if columns > 1 and not all(_is_whole(op, forms, axes) for op in atomics):
        return None
    made = simplify(_Merge(kernel, columns, axes, forms).made())
    longest = _LONGEST_GATHERED if _gathers(made, columns) else _LONGEST
    return _Merged(made, tuple(axes.get(param) for param in kernel.params), longest)


def _is_whole(op: Atomic, forms: _Forms, axes: Mapping[Param, int]) -> bool:
    """Tell whether an atomic is to a thread's own element, or to one that has nothing to do with the two axes.

    To anything else, sums of a row, say, lanes of several rows would add by turns.
    """
    at = axes.get(op.param)
    rest = op.indices if at is None else (*op.indices[:at], *op.indices[at + 2 :])
    is_own = at is None or forms.is_thread(op.indices[at], op.indices[at + 1])
    return is_own and not any(forms.depends(index) for index in rest)


def _gathers(kernel: Kernel, columns: int) -> bool:
    """Tell whether a kernel over one axis less finds places in memory by the row of a thread, or its column."""
    ops = list(walk(kernel.body))
    thread = {op.result for op in ops if isinstance(op, Tid) and op.axis == kernel.grid_rank - 1}
    width = {op.result for op in ops if isinstance(op, Const) and op.value == columns}
    found: set[Value] = set()
    for op in ops:
        if isinstance(op, Call) and op.builtin.name in ("div", "mod") and op.args[0] in thread and op.args[1] in width:
            found.add(op.result)
        elif isinstance(op, (Load, Store, Atomic)):
            if any(index in found for index in op.indices):
                return True
        elif any(v in found for v in (*op.operands, *(v for block in op.blocks for v in block.results))):
            found.update(op.defined, *(block.params for block in op.blocks))
    return False


class _Form(NamedTuple):
    """row * first + column * second + constant."""

    first: int
    second: int
    constant: int


class _Forms:
    """The integers of a kernel that are sums of multiples of the last two thread indices, modulo 2^32."""

    def __init__(self, kernel: Kernel, columns: int):
        self.columns = columns
        self._of: dict[Value, _Form] = {}
        self._depends: set[Value] = set()
        for op in walk(kernel.body):
            form = self._form(op, kernel.grid_rank - 2)
            if form is not None:
                self._of[op.defined[0]] = form
            is_index = isinstance(op, Tid) and op.axis >= kernel.grid_rank - 2
            blocks = [value for block in op.blocks for value in (*block.results, *block.params)]
            if is_index or any(value in self._depends for value in (*op.operands, *blocks)):
                self._depends.update(op.defined, *(block.params for block in op.blocks))

    def _form(self, op: Op, row: int) -> _Form | None:
        match op:
            case Const() if op.result.type is int32:
                return _Form(0, 0, int(op.value))
            case Tid():
                return _Form(int(op.axis == row), int(op.axis == row + 1), 0) if op.axis >= row else None
            case Call(args=(x, y)) if op.result.type is int32 and x in self._of and y in self._of:
                return _combined(op.builtin.name, self._of[x], self._of[y])
            case _:
                return None

    def depends(self, value: Value) -> bool:
        """Tell whether a value may differ among the threads of the two axes."""
        return value in self._depends

    def element(self, first: Value, second: Value) -> tuple[int, int] | None:
        """The index of an element of merged axes as a multiple of the thread's number and a constant."""
        if first not in self._of or second not in self._of:
            return None
        a, b = self._of[first], self._of[second]
        return self._of_thread(_Form(*(self.columns * x + y for x, y in zip(a, b, strict=True))))

    def number(self, value: Value) -> tuple[int, int] | None:
        """A value as a multiple of the thread's number, which is not 0, and a constant."""
        found = self._of_thread(self._of[value]) if value in self._of else None
        return found if found is not None and found[0] else None

    def is_thread(self, first: Value, second: Value) -> bool:
        """Tell whether neighbouring indices are of an element that is a thread's own, or at a fixed place from it."""
        found = self.element(first, second)
        return found is not None and found[0] == 1

    def _of_thread(self, form: _Form) -> tuple[int, int] | None:
        return (form.second, form.constant) if form.first == self.columns * form.second else None


def _combined(name: str, x: _Form, y: _Form) -> _Form | None:
    match name:
        case "add":
            return _Form(*(a + b for a, b in zip(x, y, strict=True)))
        case "sub":
            return _Form(*(a - b for a, b in zip(x, y, strict=True)))
        case "mul" if not any(x[:2]) or not any(y[:2]):
            form, factor = (y, x.constant) if not any(x[:2]) else (x, y.constant)
            return _Form(*(a * factor for a in form))
        case _:
            return None


class _Merge(Rewriter):
    def __init__(self, kernel: Kernel, columns: int, axes: Mapping[Param, int], forms: _Forms):
        super().__init__()
        self.old, self.columns, self.axes, self.forms = kernel, columns, axes, forms
        for param, axis in axes.items():
            shape = (*param.shape[:axis], *param.shape[axis + 1 :])
            self.params[param] = Param(param.name, param.dtype, shape)

    def made(self) -> Kernel:
        made = self.kernel(self.old)
        return Kernel(made.name, made.grid_rank - 1, made.params, made.body, made.locals)

    def op(self, op: Op) -> None:
        match op:
            case Tid() if op.axis == self.old.grid_rank - 1:
                self.emit(Call(op.result, ROWS["mod"], (self.thread(), self.number(self.columns)), loc=op.loc))
            case Tid() if op.axis == self.old.grid_rank - 2:
                self.emit(Call(op.result, ROWS["div"], (self.thread(), self.number(self.columns)), loc=op.loc))
            case Call() if (found := self.forms.number(op.result)) is not None:
                self.values[op.result] = self.sum(*found)
            case Size() if op.param in self.axes:
                self.size(op, self.axes[op.param])
            case Load() | Store() | Atomic() if op.param in self.axes:
                self.access(op, self.axes[op.param])
            case _:
                self.copy(op)

    def thread(self) -> Value:
        """The number of the thread in the two axes."""
        result = Value(int32)
        self.emit(Tid(result, self.old.grid_rank - 2))
        return result

    def number(self, value: int) -> Value:
        result = Value(int32)
        wrapped = (value + _INDEX_LIMIT) % (2 * _INDEX_LIMIT) - _INDEX_LIMIT
        self.emit(Const(result, wrapped))
        return result

    def sum(self, factor: int, constant: int) -> Value:
        """A multiple of the thread's number and a constant; `simplify` drops what is 1 or 0."""
        product = self.call(ROWS["mul"], self.thread(), self.number(factor))
        return self.call(ROWS["add"], product, self.number(constant))

    def size(self, op: Size, axis: int) -> None:
        param = self.param(op.param)
        if op.axis == axis + 1:
            self.emit(Const(op.result, self.columns))
        elif op.axis == axis:
            extent = Value(int32)
            self.emit(Size(extent, param, axis, loc=op.loc))
            self.emit(Call(op.result, ROWS["div"], (extent, self.number(self.columns)), loc=op.loc))
        else:
            self.emit(Size(op.result, param, op.axis - (op.axis > axis), loc=op.loc))

    def access(self, op: Load | Store | Atomic, axis: int) -> None:
        first, second = op.indices[axis : axis + 2]
        found = self.forms.element(first, second)
        if found is not None:
            index = self.sum(*found)
        else:
            row = self.call(ROWS["mul"], self.value(first), self.number(self.columns))
            index = self.call(ROWS["add"], row, self.value(second))
        param = self.param(op.param)
        indices = (*self.all(op.indices[:axis]), index, *self.all(op.indices[axis + 2 :]))
        match op:
            case Load():
                self.emit(Load(op.result, param, indices, loc=op.loc))
            case Store():
                self.emit(Store(param, indices, self.value(op.value), loc=op.loc))
            case Atomic():
                self.emit(Atomic(op.result, op.kind, param, indices, self.all(op.args), op.takes, loc=op.loc))
