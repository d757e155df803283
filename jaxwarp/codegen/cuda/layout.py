"""The function's frame: parameters, geometry, strides and offsets, after docs/design/0002-launch-abi.md."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from jaxwarp.codegen.abi import GRID
from jaxwarp.codegen.cuda.expression import CPP_TYPES, PRIMARY, SUM, Expr, binary, cast, combine, literal
from jaxwarp.codegen.cuda.names import Names
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Load, Param, Size, Store, Tid, walk
from jaxwarp.types import Scalar, int32, int64, uint32

Grid = Sequence[int | None]
"""Extents of a launch; None: known at run time only."""

# The counter of threads has no sign, and steps past the last one, by as many; where it makes one step, by no block.
_MOST_THREADS = 2**31 - 1024
_MOST_THREADS_ONCE = 2**32 - 1024
_MOST_ELEMENTS = 2**31


class ParameterLayout:
    """Names and geometry of a kernel's parameters.

    Attributes:
        geometry: the run-time integers that the function takes after the pointers.
        thread: the name of the loop variable over threads, `total` that of their number.
        index: the width of the run-time integers.
        is_aligned: whether arrays begin where the widest accesses may.
        counter: that of the number of threads, which is less where the extents of the grid say so, and more threads
            can be counted where each has one element (`is_once`).
    """

    def __init__(
        self,
        kernel: Kernel,
        names: Names,
        index_bits: int,
        counted: Collection[Param] = (),
        grid: Grid | None = None,
        is_aligned: bool = False,
        is_once: bool = False,
    ):
        self.kernel = kernel
        self.names = names
        self.is_aligned = is_aligned
        self.index = int32 if index_bits == 32 else int64
        self.grid = grid or (None,) * kernel.grid_rank
        self.counter = self._width(self.grid, _MOST_THREADS_ONCE if is_once else _MOST_THREADS)
        ops = list(walk(kernel.body))
        self._written = {op.param for op in ops if isinstance(op, (Store, Atomic))}
        self.params = {p: names.fresh(p.name) for p in (*kernel.params, *kernel.locals)}
        self._sizes = self._name_sizes(ops, counted)
        self._grid = self._name_grid(ops)
        self.total = names.fresh("thread_count")
        self.thread = names.fresh("thread")
        self.geometry = (*self._sizes, *((GRID, axis) for axis in self._grid))
        self._strides: dict[tuple[Param, int], Expr] = {}
        self.hoisted: list[str] = []
        indexed = {op.param for op in ops if isinstance(op, (Load, Store, Atomic))}
        for param in self.params:
            if param in indexed:
                self._hoist_strides(param)

    def _name_sizes(self, ops: Sequence[object], counted: Collection[Param]) -> dict[tuple[int, int], str]:
        """Extents known at run time only that strides or the program need, or the elements `counted`."""
        wanted = {(p, axis) for p in counted for axis in range(p.rank) if p.shape[axis] is None}
        for op in ops:
            if isinstance(op, Size):
                wanted.add((op.param, op.axis))
            elif isinstance(op, (Load, Store, Atomic)):
                wanted.update((op.param, axis) for axis in range(1, op.param.rank) if op.param.shape[axis] is None)
        return {
            (number, axis): self.names.fresh(f"{self.params[param]}_size{axis}")
            for number, param in enumerate(self.kernel.params)
            for axis in range(param.rank)
            if (param, axis) in wanted
        }

    def _name_grid(self, ops: Sequence[object]) -> dict[int, str]:
        """Grid extents that thread indices are split by; the first axis' never is."""
        axes = {op.axis for op in ops if isinstance(op, Tid)}
        needed = range(max(1, min(axes, default=0)), self.kernel.grid_rank) if axes else ()
        return {axis: self.names.fresh(f"grid_size{axis}") for axis in needed if self.grid[axis] is None}

    def _width(self, extents: Grid, limit: int) -> Scalar:
        """32 bits where they are enough for the product of some extents to stay below a limit."""
        known = [n for n in extents if n is not None]
        is_small = len(known) == len(extents) and math.prod(known) < limit
        return int32 if is_small else self.index

    def size(self, param: Param, axis: int) -> Expr:
        """An extent, in the width of indices."""
        known = param.shape[axis]
        if known is not None:
            return literal(known, self.index)
        return Expr(self._sizes[self.kernel.params.index(param), axis])

    def element_count(self, param: Param) -> Expr:
        """The elements of one of the arrays that are `counted`."""
        count = literal(1, self.index)
        for axis in range(param.rank):
            count = self._product(self.size(param, axis), count)
        return count

    def set_strides(self, param: Param, inner: Sequence[int | None]) -> None:
        """Let the elements of an array of a thread's own lie as if these were the extents of all axes but the first."""
        for axis in range(param.rank):
            self._strides[param, axis] = literal(math.prod(n or 0 for n in inner[axis:]), int32)

    def _hoist_strides(self, param: Param) -> None:
        stride = literal(1, int32)
        for axis in range(param.rank - 1, -1, -1):
            # Offsets within the inner axes need no more bits than these have elements.
            width = self._width(param.shape[axis:], _MOST_ELEMENTS)
            known = _constant(stride)
            self._strides[param, axis] = stride if known is None else literal(known, width)
            if axis == 0:
                break
            stride = self._product(self.size(param, axis), stride)
            if stride.precedence != PRIMARY:
                name = self.names.fresh(f"{self.params[param]}_stride{axis - 1}")
                self.hoisted.append(f"const {CPP_TYPES[self.index.short]} {name} = {stride.text};")
                stride = Expr(name)

    def _product(self, a: Expr, b: Expr) -> Expr:
        """a * b with constants multiplied out."""
        factors = [_constant(e) for e in (a, b)]
        if factors[0] is not None and factors[1] is not None:
            product = factors[0] * factors[1]
            return literal(product, int32 if product < _MOST_ELEMENTS else int64)
        if factors[0] == 1:
            return b
        if factors[1] == 1:
            return a
        return binary("*", a, b)

    def offset(self, param: Param, indices: Sequence[Expr]) -> Expr:
        """The flat, row-major offset of an element, constants folded."""
        terms: list[Expr] = []
        constant = 0
        for axis, index in enumerate(indices):
            stride = self._strides[param, axis]
            number, step = _constant(index), _constant(stride)
            if number is not None and step is not None:
                constant += number * step
            elif number != 0:
                terms.append(self._product(index, stride))
        if not terms:
            return Expr(str(constant))
        if constant:
            terms.append(literal(constant, self._width(param.shape, _MOST_ELEMENTS)))
        if self.index is int64:
            terms.sort(key=lambda t: "LL" in t.text)  # what 32 bits are enough for is added first
        # Sums are left unbracketed: an offset in range is the same in any order.
        return combine(
            " + ".join(t.at_least(SUM) for t in terms), SUM if len(terms) > 1 else terms[0].precedence, terms
        )

    def signature(self) -> str:
        """The parameter list. Buffers never overlap: an in-out argument is one pointer."""
        pointers = []
        for param in self.kernel.params:
            name = self.params[param]
            const = "" if param in self._written else "const "
            pointers.append(f"{const}{CPP_TYPES[param.dtype.short]} *__restrict__ {name}")
        width = CPP_TYPES[self.index.short]
        extents = [*self._sizes.values(), *self._grid.values(), self.total]
        return ", ".join([*pointers, *(f"{width} {name}" for name in extents)])

    def private_arrays(self) -> list[str]:
        """Declarations of the arrays that each thread has for itself."""
        return [
            f"{CPP_TYPES[p.dtype.short]} {self.params[p]}[{max(1, math.prod(n or 0 for n in p.shape))}];"
            for p in self.kernel.locals
        ]

    def loop_header(self) -> tuple[str, str]:
        """The grid-stride loop over all threads of the launch, on two lines."""
        thread = self.thread
        if self.counter is int32:
            # Unsigned: the last step may pass 2**31.
            first = f"for (unsigned int {thread} = blockIdx.x * blockDim.x + threadIdx.x; "
            return (
                f"{first}{thread} < (unsigned int){self.total};",
                f"     {thread} += gridDim.x * blockDim.x) {{",
            )
        return (
            f"for (long long {thread} = (long long)blockIdx.x * blockDim.x + threadIdx.x; {thread} < {self.total};",
            f"     {thread} += (long long)gridDim.x * blockDim.x) {{",
        )

    def thread_header(self) -> tuple[str, str]:
        """The thread of a launch that has one for each of the grid, on two lines."""
        if self.counter is int32:
            first = f"const unsigned int {self.thread} = blockIdx.x * blockDim.x + threadIdx.x;"
            return first, f"if ({self.thread} < (unsigned int){self.total}) {{"
        first = f"const long long {self.thread} = (long long)blockIdx.x * blockDim.x + threadIdx.x;"
        return first, f"if ({self.thread} < {self.total}) {{"

    def thread_index(self, axis: int) -> Expr:
        """The launch index along an axis, from the flat thread number: the last axis runs fastest."""
        index = Expr(self.thread)
        for faster in range(self.kernel.grid_rank - 1, axis, -1):
            index = binary("/", index, self._grid_size(faster))
        if axis > 0:
            index = binary("%", index, self._grid_size(axis))
        return index if self.counter is int32 else cast("int", index)

    def _grid_size(self, axis: int) -> Expr:
        known = self.grid[axis]
        return Expr(self._grid[axis]) if known is None else literal(known, uint32 if self.counter is int32 else int64)


def _constant(e: Expr) -> int | None:
    """The value of an integer literal."""
    digits = e.text.removesuffix("LL").removesuffix("u")
    return int(digits) if digits.removeprefix("-").isdigit() else None
