"""Sums along an array, sorts, and runs of equal values, of arrays on a GPU, and sums of long ones on a CPU: by kernels.

Each thread has a piece of the elements, and goes over it twice: it counts or sums, and when it is known where its
results go, it writes them. What pieces have is summed the same way. A pass of a sort, over four bits of the keys, is
four launches for up to four million keys, and memory is taken once for all passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launching import launch_unrecorded
from jaxwarp.decorators import kernel
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS
from jaxwarp.frontend.text.annotations import array
from jaxwarp.kernel import Kernel
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.host_scope import scope_of
from jaxwarp.memory.region import Region, dense_region
from jaxwarp.types import SCALAR_BY_DTYPE, Array, uint64

_tid = INTRINSICS["tid"]
_PIECE = 64  # elements of a thread
_LONG_PIECE = 256  # of one that sums what many pieces have
_FEW = 1024  # pieces, that a thread sums itself
_DIGIT = 4  # bits of a key that a pass sorts by
_UNSIGNED, _SIGNED, _FLOAT = range(3)
_KINDS = {"u": _UNSIGNED, "i": _SIGNED, "f": _FLOAT}
_INT, _WORD = np.dtype(np.int32), np.dtype(np.uint32)


@kernel
def _sum_pieces(x: array[Any], width: int, size: int, piece: int, sums: array[Any]):  # pyright: ignore[reportInvalidTypeForm]
    number, j = _tid()
    total = x.dtype(0)
    for i in range(number * piece, min(number * piece + piece, size)):
        total += x[i * width + j]
    sums[number * width + j] = total


@kernel
def _sum_along(
    x: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    totals: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    are_summed: int,
    width: int,
    size: int,
    piece: int,
    inclusive: int,
    sums: array[Any],  # pyright: ignore[reportInvalidTypeForm]
):
    number, j = _tid()
    total = x.dtype(0)
    if are_summed != 0:
        total = totals[number * width + j]
    else:
        for i in range(number):  # of pieces before
            total += totals[i * width + j]
    for i in range(number * piece, min(number * piece + piece, size)):
        value = x[i * width + j]
        sums[i * width + j] = total + value if inclusive != 0 else total
        total += value


@kernel
def _order_keys(bits: array[Any], kind: int, count: int, keys: array[Any]):  # pyright: ignore[reportInvalidTypeForm]
    i = _tid()
    # As `_ordered` in sorting.py.
    one = bits.dtype(1)
    sign = one << bits.dtype(count - 1)
    word = bits[i]
    if kind == _SIGNED:
        word = word ^ sign
    if kind == _FLOAT:
        word = ~word if (word & sign) != bits.dtype(0) else word | sign
    keys[i] = word


@kernel
def _count_digits(
    keys: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    shift: int,
    mask: int,
    pieces: int,
    counts: array[int],  # pyright: ignore[reportInvalidTypeForm]
):
    piece = _tid()
    # Eight bits a digit, which hold as many as a piece has.
    low = uint64(0)
    high = uint64(0)
    for i in range(piece * _PIECE, min(piece * _PIECE + _PIECE, keys.shape[0])):
        digit = int(keys[i] >> keys.dtype(shift)) & mask
        one = uint64(1) << uint64(8 * (digit & 7))
        low += one if digit < 8 else uint64(0)
        high += uint64(0) if digit < 8 else one
    for digit in range(mask + 1):
        word = low if digit < 8 else high
        counts[digit * pieces + piece] = int((word >> uint64(8 * (digit & 7))) & uint64(255))


@kernel
def _move_by_digit(
    keys: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    order: array[int],  # pyright: ignore[reportInvalidTypeForm]
    shift: int,
    mask: int,
    pieces: int,
    starts: array[int],  # pyright: ignore[reportInvalidTypeForm]
    moved_keys: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    moved_order: array[int],  # pyright: ignore[reportInvalidTypeForm]
):
    piece = _tid()
    low = uint64(0)  # how many of each digit have been before
    high = uint64(0)
    for i in range(piece * _PIECE, min(piece * _PIECE + _PIECE, keys.shape[0])):
        digit = int(keys[i] >> keys.dtype(shift)) & mask
        place = uint64(8 * (digit & 7))
        word = low if digit < 8 else high
        at = starts[digit * pieces + piece] + int((word >> place) & uint64(255))
        low += uint64(1) << place if digit < 8 else uint64(0)
        high += uint64(0) if digit < 8 else uint64(1) << place
        moved_keys[at] = keys[i]
        moved_order[at] = order[i]


@kernel
def _number(order: array[int]):  # pyright: ignore[reportInvalidTypeForm]
    i = _tid()
    order[i] = i


@kernel
def _gather(x: array[Any], order: array[int], width: int, found: array[Any]):  # pyright: ignore[reportInvalidTypeForm]
    i, j = _tid()
    found[i * width + j] = x[order[i] * width + j]


@kernel
def _find_segments(
    starts: array[int],  # pyright: ignore[reportInvalidTypeForm]
    ends: array[int],  # pyright: ignore[reportInvalidTypeForm]
    count: int,
    keys: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    segments: array[Any],  # pyright: ignore[reportInvalidTypeForm]
):
    i = _tid()
    low = 0  # so many segments start at or before the element
    high = count
    while low < high:
        middle = (low + high) // 2
        if starts[middle] <= i:
            low = middle + 1
        else:
            high = middle
    number = 2 * low
    if low > 0 and i < ends[low - 1]:
        number -= 1
    else:
        keys[i] = keys.dtype(0)  # between segments elements stay in order
    segments[i] = segments.dtype(number)


@kernel
def _find_heads(values: array[Any], heads: array[int]):  # pyright: ignore[reportInvalidTypeForm]
    i = _tid()
    heads[i] = 1
    if i > 0 and values[i] == values[i - 1]:
        heads[i] = 0


@kernel
def _write_runs(
    values: array[Any],  # pyright: ignore[reportInvalidTypeForm]
    numbers: array[int],  # pyright: ignore[reportInvalidTypeForm]
    starts: array[int],  # pyright: ignore[reportInvalidTypeForm]
    found: array[Any],  # pyright: ignore[reportInvalidTypeForm]
):
    i = _tid()
    before = 0
    if i > 0:
        before = numbers[i - 1]
    if numbers[i] > before:
        starts[before] = i
        found[before] = values[i]


@kernel
def _write_lengths(
    starts: array[int],  # pyright: ignore[reportInvalidTypeForm]
    numbers: array[int],  # pyright: ignore[reportInvalidTypeForm]
    size: int,
    lengths: array[int],  # pyright: ignore[reportInvalidTypeForm]
):
    j = _tid()
    runs = numbers[size - 1]
    if j < runs:
        end = size
        if j + 1 < runs:
            end = starts[j + 1]
        lengths[j] = end - starts[j]


class Work:
    """Arrays and launches on a GPU that no tape is told of.

    Args:
        scope: the GPU.
        rooms: the memory of earlier work on arrays of the same sizes, by name; new memory is added to it.
    """

    def __init__(self, scope: GpuScope, rooms: dict[str, HostArray] | None = None):
        self._scope, self._rooms = scope, {} if rooms is None else rooms

    def made(self, size: int, dtype: np.dtype = _INT) -> HostArray:
        """New zeros."""
        return row(self._scope.make(dtype, (size,)))

    def room(self, name: str, size: int, dtype: np.dtype = _INT) -> HostArray:
        """Memory for numbers that are still to be written, the same whenever that name is asked for."""
        found = self._rooms.get(name)
        if found is None or (found.size, found.region.dtype) != (size, dtype):
            found = self._rooms[name] = row(self._scope.new(dtype, (size,)))
        return found

    def sent(self, values: np.ndarray) -> HostArray:
        """An array of the host."""
        return row(self._scope.uploaded(values))

    def copied(self, given: HostArray) -> HostArray:
        return row(self._scope.duplicated(given.region))

    def run(self, kernel_: Kernel, dim: Any, *given: Any) -> None:
        launch_unrecorded(self._scope, kernel_, dim, *given)

    def sums_along(self, x: HostArray, width: int, is_inclusive: bool, sums: HostArray, name: str = "") -> None:
        """Sums of rows of `width` numbers up to each."""
        size = x.size // width
        piece = _PIECE if size <= _PIECE * _FEW else _LONG_PIECE
        pieces = -(-size // piece)
        totals = before = self.room(f"totals {name}", pieces * width, x.region.dtype)
        are_summed = pieces > _FEW
        self.run(_sum_pieces, (pieces, width), x, width, size, piece, totals)
        if are_summed:
            before = self.room(f"before {name}", pieces * width, x.region.dtype)
            self.sums_along(totals, width, False, before, f"of {name}")
        self.run(_sum_along, (pieces, width), x, before, int(are_summed), width, size, piece, int(is_inclusive), sums)

    def sorted(
        self, keys: HostArray, order: HostArray, begin: int, end: int, name: str = ""
    ) -> tuple[HostArray, HostArray]:
        """Unsigned keys, and the `order` of each beside it, after a stable sort by some of their bits."""
        size = keys.size
        pieces = -(-size // _PIECE)
        for number, shift in enumerate(range(begin, end, _DIGIT)):
            mask = (1 << min(_DIGIT, end - shift)) - 1
            counts, starts = (self.room(f"{of} {mask}", (mask + 1) * pieces) for of in ("counts", "starts"))
            self.run(_count_digits, pieces, keys, shift, mask, pieces, counts)
            self.sums_along(counts, 1, False, starts, f"digits {mask}")
            moved = self.room(f"keys {number % 2} {name}", size, keys.region.dtype)
            moved_order = self.room(f"order {number % 2} {name}", size)
            self.run(_move_by_digit, pieces, keys, order, shift, mask, pieces, starts, moved, moved_order)
            keys, order = moved, moved_order
        return keys, order

    def ordered(self, keys: HostArray) -> HostArray:
        """Unsigned numbers in the order of the keys."""
        dtype = keys.region.dtype
        unsigned = np.dtype(f"u{dtype.itemsize}")
        made = self.room("ordered", keys.size, unsigned)
        bits = row(dense_region(keys.region.address, unsigned, (keys.size,), keys.owner))
        self.run(_order_keys, keys.size, bits, _KINDS[dtype.kind], 8 * dtype.itemsize, made)
        return made

    def numbered(self, size: int) -> HostArray:
        made = self.room("numbers", size)
        self.run(_number, size, made)
        return made

    def gathered(self, given: HostArray, order: HostArray) -> None:
        """Brings elements of 4 or 8 bytes into an order."""
        words = given.region.nbytes // _WORD.itemsize
        width = words // order.size
        target = row(dense_region(given.region.address, _WORD, (words,), given.owner))
        given_now = self.room(f"given {words}", words, _WORD)
        self._scope.bring(given_now.region, target.region)
        self.run(_gather, (order.size, width), given_now, order, width, target)


def row(region: Region) -> HostArray:
    """Numbers with one axis."""
    return HostArray("", Array(SCALAR_BY_DTYPE[region.dtype], 1), region, is_writable=True)


def _flat(given: HostArray, count: int) -> HostArray:
    """The first numbers of an array that is contiguous."""
    region = given.region
    return row(dense_region(region.address, region.dtype, (count,), region.owner))


def _on(given: HostArray) -> Work:
    return Work(scope_of(given.region))


def scan(source: HostArray, target: HostArray, is_inclusive: bool) -> None:
    """See `array_scan`."""
    work, width = _on(source), int(np.prod(source.components))
    if source.size == 0:
        return
    dense = source.contiguous()
    x = _flat(dense, dense.size * width)
    sums = work.made(x.size, x.region.dtype)
    work.sums_along(x, width, is_inclusive, sums)
    made, region = sums.region, target.region
    scope_of(region).bring(region, dense_region(made.address, made.dtype, region.shape, made.owner))


def scan_alone(source: HostArray, target: HostArray, is_inclusive: bool) -> None:
    """Sums of contiguous numbers on the CPU, by one thread."""
    x, sums, size = _flat(source, source.size), _flat(target, source.size), source.size
    launch_unrecorded(scope_of(source.region), _sum_along, (1, 1), x, x, 0, 1, size, size, int(is_inclusive), sums)


def sort_pairs(keys: HostArray, values: HostArray, count: int, begin: int, end: int) -> None:
    """See `radix_sort_pairs`."""
    work = _on(keys)
    first = _flat(keys, count)
    _, order = work.sorted(work.ordered(first), work.numbered(count), begin, end)
    work.gathered(first, order)
    work.gathered(_flat(values, count * int(np.prod(values.components))), order)


def sort_cells(
    cells: HostArray,
    groups: HostArray | None,
    bits: int,
    order: HostArray,
    by_cell: HostArray | None,
    rooms: dict[str, HostArray],
) -> None:
    """Sorts unsigned numbers of some `bits`, equal ones by group; sets their order, and the groups in it."""
    if cells.size == 0:
        return
    work = Work(scope_of(cells.region), rooms)
    keys, found = cells, work.numbered(cells.size)
    if groups is not None:
        _, found = work.sorted(work.ordered(groups.contiguous()), found, 0, 32, "groups")
        keys = work.room("by group", cells.size, cells.region.dtype)
        work.run(_gather, (cells.size, 1), cells, found, 1, keys)
    keys, found = work.sorted(keys, found, 0, bits)
    place = order.scope
    place.bring(order.region, found.region)
    place.bring(cells.region, keys.region)
    if groups is not None and by_cell is not None:
        work.run(_gather, (cells.size, 1), groups, found, 1, by_cell)


def sort_segments(keys: HostArray, values: HostArray, count: int, ranges: Sequence[tuple[int, int]]) -> None:
    """See `segmented_sort_pairs`; the segments are in order, and apart."""
    if not ranges:
        return
    work = _on(keys)
    first = _flat(keys, count)
    starts, ends = (work.sent(np.array(column, np.int32)) for column in zip(*ranges, strict=True))
    ordered, segments = work.ordered(first), work.made(count, _WORD)
    work.run(_find_segments, count, starts, ends, len(ranges), ordered, segments)
    _, order = work.sorted(ordered, work.numbered(count), 0, 32)
    moved = work.made(count, _WORD)
    work.run(_gather, (count, 1), segments, order, 1, moved)
    _, order = work.sorted(moved, order, 0, (2 * len(ranges)).bit_length(), "segments")
    work.gathered(first, order)
    work.gathered(_flat(values, count), order)


def encode_runs(
    values: HostArray, count: int, found: HostArray, lengths: HostArray, number: HostArray | None
) -> int | None:
    """See `runlength_encode`: the number of runs, unless `number` is there, which gets it."""
    work = _on(values)
    if count == 0:
        if number is not None:
            number.scope.bring(number.region.part((slice(0, 1),)), work.made(1).region)
        return 0
    given = work.copied(values[:count]) if values.ndim == 1 else work.copied(_flat(values, count))
    heads, numbers, starts = (work.made(count) for _ in range(3))
    work.run(_find_heads, count, given, heads)
    work.sums_along(heads, 1, True, numbers)
    work.run(_write_runs, count, given, numbers, starts, found if found.ndim == 1 else _flat(found, count))
    work.run(_write_lengths, count, starts, numbers, count, lengths if lengths.ndim == 1 else _flat(lengths, count))
    last = numbers.region.part((slice(count - 1, count),))
    if number is None:
        return int(scope_of(last).read(last)[0])
    scope_of(last).bring(number.flatten().region.part((slice(0, 1),)), last)
    return None
