"""Keys of updates of arrays: the indices by which rectangles of a launch can be told apart, see exclusive.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jaxwarp.analysis.effects import analyze
from jaxwarp.codegen.cpu.analysis.index_bounds import IndexBounds, Rotation, Terms, Wrapped, extreme
from jaxwarp.codegen.cpu.plan.copies import arrays_to_copy
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Param, Value, walk
from jaxwarp.types import bool_

# Two selections each, for each rectangle.
_MOST_WRAPPED = 8


@dataclass(frozen=True, eq=False)
class Key:
    """An index that tells rectangles apart.

    Attributes:
        axis: the grid axis that it follows.
        position: which index of the array it is.
        lower, upper: bounds of it in all updates.
        scale, values, wrapped, rotations: as in `Bounds`.
    """

    axis: int
    position: int
    lower: Terms
    upper: Terms
    scale: int
    values: frozenset[Value]
    wrapped: Wrapped
    rotations: frozenset[Rotation]


@dataclass(frozen=True)
class ExclusiveKeys:
    """The keys of the updates of an array: by rows, by columns, by both, or by neither."""

    rows: Key | None
    columns: Key | None


@dataclass(frozen=True)
class Exclusive:
    """The arrays with atomics that need not be atomic where a rectangle has the elements to itself.

    Attributes:
        bounds: of the kernel's indices.
        keys: what is known of these arrays.
        contended: the atomics whose elements are no rectangle's own where a launch is cut: by rows, if it has any.
        summed: those of them that are atomic only where their arrays have many elements, see element_sums.py.
        copied: the arrays of the contended ones, if copies of all of these would do.
        is_divided: whether there are atomics that a rectangle can do without but for the rows at its borders.
    """

    bounds: IndexBounds
    keys: Mapping[Param, ExclusiveKeys]
    contended: frozenset[Atomic]
    summed: frozenset[Atomic]
    copied: frozenset[Param]
    is_divided: bool


def find_exclusive(
    kernel: Kernel, gathered: Collection[Atomic], summed: Collection[Atomic], used: Collection[Value]
) -> Exclusive | None:
    """Return the atomics that need not be atomic in some rectangles, or None if there are none.

    Args:
        kernel: the kernel.
        gathered: those that are summed over rows anyway.
        summed: those whose sums for elements are in the function's frame.
        used: the values that something reads.
    """
    atomics = [op for op in walk(kernel.body) if isinstance(op, Atomic)]
    bounds = IndexBounds(kernel) if atomics else None
    keys = find_keys(kernel, bounds, gathered) if bounds is not None else {}
    if bounds is None or not keys:
        return None
    known = {op: t for op in atomics if op not in gathered and (t := keys.get(op.param)) is not None}
    is_cut_by_rows = kernel.grid_rank > 1
    contended = frozenset(op for op, t in known.items() if (t.rows if is_cut_by_rows else t.columns) is None)
    is_divided = any(t.rows is not None for op, t in known.items() if op not in summed)
    copied = arrays_to_copy(kernel, contended, used)
    return Exclusive(bounds, keys, contended, contended.intersection(summed), copied, is_divided)


def find_keys(kernel: Kernel, bounds: IndexBounds, gathered: Collection[Atomic]) -> dict[Param, ExclusiveKeys]:
    """Return the keys of each array with atomics that may not need to be atomic. `gathered` ones do not count."""
    effects, found = analyze(kernel), {}
    for param in kernel.params:
        access = effects[param]
        if (
            param.dtype is bool_
            or param.dtype.is_half
            or not any(op.kind != "cas" and op not in gathered for op in access.atomics)
        ):
            continue
        rows = columns = None
        if not access.stores:
            rows = _row_key(kernel, access.atomics, bounds)
            columns = _key(access.atomics, kernel.grid_rank - 1, bounds)
        found[param] = ExclusiveKeys(rows, columns)
    return found


def _row_key(kernel: Kernel, ops: Sequence[Atomic], bounds: IndexBounds) -> Key | None:
    """Return the key of the last axis that has one. All axes before it must tell the updates apart."""
    found = None
    for axis in range(kernel.grid_rank - 1):
        key = _key(ops, axis, bounds)
        if key is None:
            break
        found = key
        if not any(_is_thread(ops, position, axis, bounds) for position in range(ops[0].param.rank)):
            break
    return found


def _is_thread(ops: Sequence[Atomic], position: int, axis: int, bounds: IndexBounds) -> bool:
    found = [bounds.of(op.indices[position], axis) for op in ops]
    return all(b is not None and b.is_thread for b in found)


def _key(ops: Sequence[Atomic], axis: int, bounds: IndexBounds) -> Key | None:
    for position in range(ops[0].param.rank):
        found = [b for op in ops if (b := bounds.of(op.indices[position], axis)) is not None]
        if len(found) == len(ops) and any(b.scale for b in found):
            # An index that is the same for the whole launch is where all threads wrap to, if others follow theirs.
            near = [b for b in found if b.as_wrapped is None]
            fixed = [ends for b in found if near and (ends := b.as_wrapped) is not None]
            near = near or found
            wrapped = tuple(dict.fromkeys((*fixed, *(ends for b in near for ends in b.wrapped))))
            if len(wrapped) > _MOST_WRAPPED:
                continue
            return Key(
                axis,
                position,
                extreme((t for b in near for t in b.lower), min),
                extreme((t for b in near for t in b.upper), max),
                max(b.scale for b in found),
                frozenset[Value]().union(*(b.values for b in found)),
                wrapped,
                frozenset[Rotation]().union(*(b.rotations for b in found)),
            )
    return None
