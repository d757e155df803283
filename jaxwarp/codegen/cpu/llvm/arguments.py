"""The launch function's arguments as its body sees them: buffer pointers, extents, strides, grid extents.

Arrays of a thread's own are laid out element by element: the lanes of one element are adjacent.

Whatever a body asks for is read or computed once, at the start of the function; nothing else is.
"""

from __future__ import annotations

import math

from jaxwarp.codegen.abi import GRID, OWN_COPIES, Geometry
from jaxwarp.codegen.cpu.llvm.own_memory import LaneMemory
from jaxwarp.codegen.cpu.llvm.vectors import memory_type
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.errors import InternalError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Param, Store, walk


class FunctionFrame:
    """Names what a launch function gets. `lines` is its prologue, `geometry` the run-time integers it reads,
    `own` the memory of its threads.

    `machine` is what the code is shaped for.
    """

    def __init__(self, kernel: Kernel, width: int, machine: Machine, geometry: Geometry = ()):
        self.kernel = kernel
        self.width = width
        self.machine = machine
        self.lines: list[str] = []
        self.own = LaneMemory(kernel, width)
        self._entries = list(geometry)
        self._is_complete = False
        self._geometry: dict[tuple[int, int], str] = {}
        self._pointers: dict[Param, str] = {}
        self._strides: dict[tuple[Param, int], int | str] = {}
        self._numbers = {p: i for i, p in enumerate((*kernel.params, *kernel.locals))}
        self._locals = frozenset(kernel.locals)
        self._written = {op.param for op in walk(kernel.body) if isinstance(op, (Store, Atomic))}
        self._scalars: set[str] = set()
        self._whole_row = self._last_chunk = self._own_copies = ""

    @property
    def geometry(self) -> Geometry:
        """The run-time integers that the function reads. The function asks for no other one after this."""
        self._is_complete = True
        return tuple(self._entries)

    def pointer(self, param: Param) -> str:
        """The parameter's first element."""
        name = self._pointers.get(param)
        if name is None:
            number = self._numbers[param]
            name = self._pointers[param] = f"%p{number}"
            if self.is_local(param):
                self.lines.append(self.own.place(name, param.dtype, self.element_count(param) or 0))
            else:
                self._read(name, "ptr", "%buffers", number)
        return name

    def is_local(self, param: Param) -> bool:
        """Return whether every thread has its own copy of the array."""
        return param in self._locals

    def lane_step(self, param: Param) -> int:
        """Elements from one lane's array to the next one's: 0 for what all threads share."""
        return 1 if self.is_local(param) and self.width > 1 else 0

    def scalar(self, param: Param) -> str | None:
        """The operand of an argument by value that nothing writes to, as memory holds it; None for all else.

        Read once: LLVM, which knows nothing of aliasing, would read it anew after every store.
        """
        if param.rank or param in self._written or self.is_local(param):
            return None
        name = f"%a{self._numbers[param]}"
        if name not in self._scalars:
            self._scalars.add(name)
            pointer, type_ = self.pointer(param), memory_type(param.dtype)
            self.lines.append(f"  {name} = load {type_}, ptr {pointer}, align {param.dtype.bytes}")
        return name

    def extent(self, param: Param, axis: int) -> int | str:
        """An extent: a Python integer where it is static, else an i64 operand."""
        known = param.shape[axis]
        return self._entry(self._numbers[param], axis) if known is None else known

    def grid_extent(self, axis: int) -> str:
        """An i64 operand."""
        return self._entry(GRID, axis)

    def stride(self, param: Param, axis: int) -> int | str:
        """Elements from one index of an axis to the next: the product of the extents after it."""
        known = self._strides.get((param, axis))
        if known is None:
            known = self._strides[param, axis] = self._stride(param, axis)
        return known

    def element_count(self, param: Param) -> int | None:
        """Return the number of elements of a parameter, or None if it is not static."""
        static = [n for n in param.shape if n is not None]
        return math.prod(static) if len(static) == param.rank else None

    def _stride(self, param: Param, axis: int) -> int | str:
        if axis == param.rank - 1:
            return self.width if self.is_local(param) else 1
        inner, extent = self.stride(param, axis + 1), self.extent(param, axis + 1)
        if isinstance(inner, int) and isinstance(extent, int):
            return inner * extent
        if inner == 1:
            return extent
        name = f"%s{self._numbers[param]}.{axis}"
        self.lines.append(f"  {name} = mul i64 {inner}, {extent}")
        return name

    @property
    def has_own_copies(self) -> str:
        """An i1 operand: are the arrays that a launch may have copies of this call's alone?"""
        if not self._own_copies:
            self._own_copies, flag = "%own", self._entry(OWN_COPIES, 0)
            self.lines.append(f"  %own = icmp ne i64 {flag}, 0")
        return self._own_copies

    @property
    def is_whole_row(self) -> str:
        """An i1 operand: does this call of the function run whole rows of threads?"""
        if not self._whole_row:
            self._whole_row, extent = "%whole", self.grid_extent(self.kernel.grid_rank - 1)
            self.lines += [
                "  %whole.first = icmp eq i64 %col_begin, 0",
                f"  %whole.last = icmp eq i64 %col_end, {extent}",
                "  %whole = and i1 %whole.first, %whole.last",
            ]
        return self._whole_row

    @property
    def last_chunk(self) -> str:
        """The last column that a whole chunk may begin at, i64."""
        if not self._last_chunk:
            self._last_chunk = "%last_chunk"
            self.lines.append(f"  %last_chunk = sub i64 %col_end, {self.width}")
        return self._last_chunk

    def _entry(self, source: int, axis: int) -> str:
        name = self._geometry.get((source, axis))
        if name is None:
            if (source, axis) not in self._entries:
                if self._is_complete:  # the function would read what lies behind the launch's integers
                    raise InternalError(f"kernel {self.kernel.name}: extent {(source, axis)} is asked for too late")
                self._entries.append((source, axis))
            number = self._entries.index((source, axis))
            name = self._geometry[source, axis] = f"%g{number}"
            self._read(name, "i64", "%geometry", number)
        return name

    def _read(self, name: str, type_: str, array: str, at: int) -> None:
        self.lines.append(f"  {name}.at = getelementptr {type_}, ptr {array}, i64 {at}")
        # The arguments of a launch do not change while it runs, whatever its buffers alias.
        self.lines.append(f"  {name} = load {type_}, ptr {name}.at, align 8, !invariant.load !0")
