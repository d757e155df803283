"""Races: two threads of a launch that touch one element, one of which stores, not both by atomics.

    store y[%i], %v     ->     atomic_max marks[%i, 0], TOP - mark;  atomic_max marks[%i, 1], mark + 1
                               store y[%i], %v                          mark = thread * PLACES + place in the kernel

Each access marks its element: the least and the greatest mark of those that store, of those that read, and of those
that update by atomics. The marks do not depend on the order of threads. After the launch another one looks at the marks
of every element, finds pairs of threads, and writes the first by thread order to a record of its own (race_scan.py). Of
what is stored the least and the greatest bits are kept, to tell stores of one value apart. Arrays of which no two
threads share an element for certain have no marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxwarp.analysis.affine import Forms
from jaxwarp.analysis.effects import tell_apart
from jaxwarp.analysis.thread_values import Shapes
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.errors import Loc
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Op, Param, Store, Tid, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.checks.reports import thread_number
from jaxwarp.types import Scalar, int32, int64, uint16, uint32, uint64
from jaxwarp.unlocked import cached_property

PLACES = 1 << 10
TOP = 1 << 62
KINDS = ("store", "load", "atomic")
_Access = Store | Atomic


@dataclass(frozen=True)
class AccessPlace:
    """The place of accesses of one kind."""

    kind: str
    loc: Loc | None


@dataclass(frozen=True)
class Marked:
    """An array with marks.

    Attributes:
        param: the array.
        places: the accesses to it.
        items: its axes that are those of batches.
    """

    param: Param
    places: tuple[AccessPlace, ...]
    items: frozenset[int]

    @cached_property
    def marks(self) -> Param:
        """int64, with one axis more."""
        return Param(f"marks_{self.param.name}", int64, (*self.param.shape, self.fields))

    @property
    def kinds(self) -> list[str]:
        return [k for k in KINDS if any(p.kind == k for p in self.places)]

    def field(self, kind: str) -> int:
        """The first of the two fields of a kind."""
        return 2 * self.kinds.index(kind)

    @property
    def value_field(self) -> int:
        return 2 * len(self.kinds)

    @property
    def fields(self) -> int:
        return self.value_field + 2 * halves(self.param.dtype)


def halves(dtype: Scalar) -> int:
    """Return how many numbers of at most 32 bits a value consists of."""
    return 2 if dtype.bits == 64 else 1


def shared_arrays(
    kernel: Kernel, batched: int, grid: Sequence[Any], shapes: Shapes, reads: Mapping[Param, Param]
) -> list[Marked]:
    """The arrays of which threads may share elements, so that there may be races.

    Args:
        kernel: the kernel, with notes of its loads.
        batched: so many leading axes of the launch are those of batches.
        grid, shapes: what is known of the extents.
        reads: for the arrays that the kernel reads and writes, what notes of loads are stored to.
    """
    found: dict[Param, list[_Access]] = {}
    accesses_of = _accesses(kernel.params, reads)
    for op in walk(kernel.body):
        if (param := accesses_of(op)) is not None:
            assert isinstance(op, Store | Atomic)
            found.setdefault(param, []).append(op)
    batches = {op.result for op in walk(kernel.body) if isinstance(op, Tid) and op.axis < batched}
    forms = Forms(kernel, grid, shapes)
    arrays: list[Marked] = []
    for param, accesses in found.items():
        kinds = {_kind(op, param) for op in accesses}
        if not param.rank or not ("store" in kinds or kinds == {"atomic", "load"}) or _are_apart(accesses, forms):
            continue
        places = tuple(dict.fromkeys(AccessPlace(_kind(op, param), op.loc) for op in accesses))
        items = frozenset(a for a in range(param.rank) if all(op.indices[a] in batches for op in accesses))
        arrays.append(Marked(param, places[:PLACES], items))
    return arrays


def mark_accesses(
    kernel: Kernel, arrays: Sequence[Marked], grid: Sequence[int], reads: Mapping[Param, Param]
) -> Kernel:
    """The kernel with marks of what its threads touch, which are parameters at its end."""
    return _Mark({a.param: a for a in arrays}, grid, reads).kernel(kernel)


def _accesses(params: Iterable[Param], reads: Mapping[Param, Param]) -> Callable[[Op], Param | None]:
    """Return the array that an operation touches. Loads are where they are noted, also those that are gone."""
    touched = {p: p for p in params} | {note: p for p, note in reads.items()}
    return lambda op: touched.get(op.param) if isinstance(op, Store | Atomic) else None


def _kind(op: _Access, param: Param) -> str:
    return "atomic" if isinstance(op, Atomic) else "store" if op.param is param else "load"


def _are_apart(accesses: Sequence[_Access], forms: Forms) -> bool:
    """Do threads have elements for themselves: by indices that are the same at every access?"""
    first = accesses[0].indices
    same = [v for axis, v in enumerate(first) if all(op.indices[axis] is v for op in accesses)]
    known = [f for v in same if (f := forms[v]) is not None and all(it.axis is not None for it in f.terms)]
    return tell_apart(forms, [(f.terms, 0) for f in known])


class _Mark(Rewriter):
    def __init__(self, arrays: dict[Param, Marked], grid: Sequence[int], reads: Mapping[Param, Param]):
        super().__init__()
        self.b = Builder(self.scopes)
        self.arrays, self.grid = arrays, grid
        self.touched = _accesses(arrays, {p: note for p, note in reads.items() if p in arrays})

    def kernel(self, kernel: Kernel) -> Kernel:
        made = super().kernel(kernel)
        marks = tuple(a.marks for a in self.arrays.values())
        return Kernel(made.name, made.grid_rank, (*made.params, *marks), made.body, made.locals)

    def op(self, op: Op) -> None:
        param = self.touched(op)
        if param is not None:
            assert isinstance(op, Store | Atomic)
            self.b.loc = op.loc
            self.mark(op, self.arrays[param])
        self.copy(op)

    def mark(self, op: _Access, array: Marked) -> None:
        b, kind = self.b, _kind(op, array.param)
        place = next((n for n, p in enumerate(array.places) if p == AccessPlace(kind, op.loc)), len(array.places) - 1)
        shifted = b.call(ROWS["mul"], thread_number(b, self.grid), b.const(PLACES, int64))
        number = b.call(ROWS["add"], shifted, b.const(place, int64))
        self.keep(array, op, array.field(kind), number)
        if isinstance(op, Store) and kind == "store":
            for half, bits in enumerate(_bits(b, op.value)):
                self.keep(array, op, array.value_field + 2 * half, bits)

    def keep(self, array: Marked, op: _Access, field: int, number: Value) -> None:
        """The least and the greatest number; 0 means that there is none."""
        b = self.b
        ends = b.call(ROWS["sub"], b.const(TOP, int64), number), b.call(ROWS["add"], number, b.const(1, int64))
        for i, end in enumerate(ends):
            b.atomic("max", array.marks, (*op.indices, b.const(field + i, int32)), end)


def _bits(b: Builder, value: Value) -> list[Value]:
    """The bits of a value, as numbers that are not negative and below 2^32."""
    dtype = value.type
    if dtype.name == "bool" or dtype.bits < 32:
        wide = value if dtype.is_int or not dtype.is_float else b.call(ROWS["bitcast"], value, dtype=uint16)
        number = b.call(ROWS["cast"], wide, dtype=int64)
        return [b.call(ROWS["bit_and"], number, b.const((1 << 32) - 1, int64))]
    unsigned = uint32 if dtype.bits == 32 else uint64
    raw = value if dtype == unsigned else b.call(ROWS["bitcast"], value, dtype=unsigned)
    if unsigned is uint32:
        return [b.call(ROWS["cast"], raw, dtype=int64)]
    low = b.call(ROWS["bit_and"], raw, b.const((1 << 32) - 1, uint64))
    high = b.call(ROWS["shr"], raw, b.const(32, uint64))
    return [b.call(ROWS["cast"], half, dtype=int64) for half in (low, high)]
