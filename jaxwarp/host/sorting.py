"""Sums along an array, sorts, and runs of equal values.

Outside of JAX they are made by NumPy and in native code, or on a GPU by kernels; in a traced function by JAX.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.errors import ArrayError, KernelTypeError, KernelValueError
from jaxwarp.ffi.programs.traced_array import ArrayHandle
from jaxwarp.host import traced_sorting
from jaxwarp.host.checks import (
    are_apart,
    are_on_gpu,
    elements,
    put,
    require_count,
    require_here,
    require_row,
    require_same_type,
    require_scalars,
    short,
)
from jaxwarp.memory.host_scope import HOST, require_settled, scope_of
from jaxwarp.native.library import sort_order
from jaxwarp.types import element_scalar, element_shape, float32, float64, int32, int64, uint32, uint64

_SCANNED = (int32, int64, float32, float64)
_KEYS = (int32, uint32, float32, int64, uint64, float64)
_MOST = 2**31 - 1
_LONG = 2**18  # elements, which NumPy sums up in a millisecond, and a thread of ours in a quarter of that


@boundary
def array_scan(in_array: Any, out_array: Any, inclusive: bool = True) -> None:
    """Writes to each element of `out_array` the sum of the elements of `in_array` up to it.

    Args:
        in_array: n elements of int32, int64, float32 or float64, or vectors of them.
        out_array: n elements of that type; it may be `in_array`.
        inclusive: whether the element itself is part of its sum.

    Raises:
        ArrayError: the arrays differ in size or type, are of another type, or have several axes and gaps.
        KernelTypeError: one is no array, or a tape records floats.
    """
    what = "array_scan"
    source, target = require_here(what, "in_array", in_array), require_here(what, "out_array", out_array, True)
    is_on_gpu = are_on_gpu(what, {"in_array": source, "out_array": target})
    if source.size != target.size:
        raise ArrayError(f"{what}: In and out array storage sizes do not match ({source.size} vs {target.size})")
    require_same_type(what, "In and out array", source, target)
    require_scalars(what, source, _SCANNED)
    require_row(what, "in", source)
    require_row(what, "out", target)
    if isinstance(source, ArrayHandle):
        traced_sorting.scan(source, target, inclusive)
        return

    def scan() -> None:
        from jaxwarp.host import gpu_sorting  # its kernels are made when they are first used

        if is_on_gpu:
            gpu_sorting.scan(source, target, inclusive)
            return
        values, sums = elements(source), elements(target)
        is_in_place = source.region.address == target.region.address
        is_apart = is_in_place or not np.may_share_memory(values, sums)
        if is_apart and values.size >= _LONG and values.flags.c_contiguous and target.is_contiguous and sums.ndim == 1:
            gpu_sorting.scan_alone(source, target, inclusive)
            return
        with np.errstate(all="ignore"):  # infinities, NaN, sums that overflow: what floats do
            sums = np.cumsum(values, axis=0, dtype=values.dtype)
        put(target, sums if inclusive else np.concatenate([np.zeros_like(sums[:1]), sums[:-1]]))

    HOST.change(what, scan, [source.region], [target.region], scope_of(target.region))


def _ordered(keys: np.ndarray) -> np.ndarray:
    """Unsigned numbers in the order of the keys: of integers the sign bit is turned, of negative floats all bits are.

    Source: M. Herf, "Radix Tricks", 2001.
    """
    unsigned = np.dtype(f"u{keys.dtype.itemsize}")
    bits, sign = keys.view(unsigned), unsigned.type(1 << (8 * keys.dtype.itemsize - 1))
    match keys.dtype.kind:
        case "f":
            return np.where(bits & sign, ~bits, bits | sign)
        case "i":
            return bits ^ sign
        case _:
            return bits


def _order(keys: np.ndarray) -> np.ndarray:
    """The stable order of unsigned keys. NumPy's is faster where there are few."""
    few, most = 256, 2**31
    return sort_order(keys)[1] if few < keys.size < most else np.argsort(keys, kind="stable")


@boundary
def radix_sort_pairs(keys: Any, values: Any, count: int, begin_bit: int = 0, end_bit: int | None = None) -> None:
    """Sorts the first `count` keys, and moves the values with them. Values of equal keys keep their order.

    Args:
        keys: int32, uint32, float32, int64, uint64 or float64, contiguous. Negative zero comes before zero.
        values: of 4 or 8 bytes, contiguous.
        count: how many pairs there are. Warp needs arrays of twice as many elements; here there may be fewer.
        begin_bit: the lowest bit of the keys that matters.
        end_bit: the bit above the highest one that matters; None: all above `begin_bit` do.

    Raises:
        ArrayError: the arrays are too small, of another type, or have gaps; the bits are not the key's.
        KernelTypeError, KernelValueError: `count` is no number of elements, or a tape records floats.
    """
    what = "radix_sort_pairs"
    key_array, value_array = require_here(what, "keys", keys, True), require_here(what, "values", values, True)
    is_on_gpu = are_on_gpu(what, {"keys": key_array, "values": value_array})
    number = require_count(what, "count", count)
    if number == 0:
        return
    _require_room(what, key_array, value_array, number)
    types = f"{short(key_array.dtype)}, {short(value_array.dtype)}"
    size = element_scalar(value_array.dtype).bytes * math.prod(element_shape(value_array.dtype))
    if key_array.dtype not in _KEYS or size not in (4, 8):
        raise ArrayError(f"{what}: Unsupported keys and values data types: {types}")
    for name, array in (("keys", key_array), ("values", value_array)):
        if not array.is_contiguous:
            raise ArrayError(
                f"{what}() requires a contiguous {name} array, got non-contiguous {name} with data types: {types}"
            )
    width = key_array.dtype.bits
    end = width if end_bit is None else end_bit
    if not (isinstance(begin_bit, int) and isinstance(end, int) and 0 <= begin_bit <= end <= width):
        raise ArrayError(f"{what}: Invalid radix sort bit range [{begin_bit}, {end}) for {width}-bit keys")
    if isinstance(key_array, ArrayHandle):
        traced_sorting.sort_pairs(key_array, value_array, number, begin_bit, end)
        return

    def sort() -> None:
        if is_on_gpu:
            from jaxwarp.host import gpu_sorting  # its kernels are made when they are first used

            gpu_sorting.sort_pairs(key_array, value_array, number, begin_bit, end)
            return
        found = elements(key_array)[:number].copy()
        ordered = _ordered(found)
        mask = ordered.dtype.type(((1 << end) - 1) >> begin_bit << begin_bit)
        order = _order(ordered & mask)
        put(value_array, elements(value_array)[:number][order])
        put(key_array, found[order])

    regions = [key_array.region, value_array.region]
    HOST.change(what, sort, regions, regions, scope_of(key_array.region))


def _require_room(what: str, keys: Any, values: Any, count: int) -> None:
    if keys.size < count or values.size < count:
        raise ArrayError(f"{what}: {count} pairs, but keys have {keys.size} elements and values {values.size}")
    if not are_apart(keys, values):
        raise ArrayError(f"{what}: keys and values share memory", hint="pass a copy of one: jaxwarp.clone(values)")


@boundary
def segmented_sort_pairs(
    keys: Any, values: Any, count: int, segment_start_indices: Any, segment_end_indices: Any = None
) -> None:
    """Sorts keys within each segment, and moves the values with them. Values of equal keys keep their order.

    Args:
        keys: int32 or float32, contiguous.
        values: int32, contiguous.
        count: how many pairs there are.
        segment_start_indices: n integers, where each segment starts; without ends, n - 1 segments end where the next
            starts.
        segment_end_indices: n integers, where each ends. Segments must not overlap.

    In a traced function, segments are not checked.

    Raises:
        ArrayError: the arrays are too small, of another type or shape, or have gaps.
        KernelTypeError, KernelValueError: `count` is no number of elements, a segment is not within them or overlaps
            another, or a tape records floats.
    """
    what = "segmented_sort_pairs"
    key_array, value_array = require_here(what, "keys", keys, True), require_here(what, "values", values, True)
    number = require_count(what, "count", count)
    if number > _MOST:
        raise KernelValueError(f"{what}: count must not exceed {_MOST}, got {number}")
    starts = require_here(what, "segment_start_indices", segment_start_indices)
    ends = None if segment_end_indices is None else require_here(what, "segment_end_indices", segment_end_indices)
    named = {"keys": key_array, "values": value_array, "segment_start_indices": starts, "segment_end_indices": ends}
    is_on_gpu = are_on_gpu(what, named)
    if number == 0:
        return
    _require_segments(what, named)
    _require_room(what, key_array, value_array, number)
    if isinstance(key_array, ArrayHandle):
        traced_sorting.sort_segments(key_array, value_array, number, starts, ends)
        return

    def sort() -> None:
        ranges = _ranges(what, starts.numpy(), None if ends is None else ends.numpy(), number)
        if is_on_gpu:
            from jaxwarp.host import gpu_sorting  # its kernels are made when they are first used

            gpu_sorting.sort_segments(key_array, value_array, number, ranges)
            return
        for start, end in ranges:
            found = elements(key_array)[start:end]
            order = _order(_ordered(found))
            found[:] = found[order]
            moved = elements(value_array)[start:end]
            moved[:] = moved[order]

    regions = [key_array.region, value_array.region]
    HOST.change(what, sort, [*regions, starts.region], regions)


def _require_segments(what: str, named: dict[str, Any]) -> None:
    keys, values = named["keys"], named["values"]
    if keys.dtype not in (int32, float32) or values.dtype != int32:
        raise ArrayError(f"{what}: Unsupported data type: {short(keys.dtype)}")
    for name, array in named.items():
        if array is None:
            continue
        if not array.is_contiguous:
            raise ArrayError(f"{what}() requires a contiguous {name} array")
        if name.startswith("segment"):
            if array.dtype != int32:
                raise ArrayError(f"{what}: {name} array must be of type int32")
            if array.ndim != 1:
                raise ArrayError(f"{what}: {name} must be one-dimensional")
            if not (are_apart(array, keys) and are_apart(array, values)):
                raise ArrayError(f"{what}: {name} shares memory with keys or values")
    starts, ends = named["segment_start_indices"], named["segment_end_indices"]
    if ends is not None and starts.size != ends.size:
        raise ArrayError(
            f"{what}: segment_start_indices and segment_end_indices must have the same size"
            f" ({starts.size} vs {ends.size})"
        )


def _ranges(what: str, starts: np.ndarray, ends: np.ndarray | None, count: int) -> list[tuple[int, int]]:
    """The segments, all of them within the elements and apart."""
    if ends is None:
        starts, ends = starts[:-1], starts[1:]
    wrong = np.flatnonzero((starts < 0) | (ends < starts) | (ends > count))
    if wrong.size:
        i = int(wrong[0])
        raise KernelValueError(
            f"{what}: Invalid segment range at index {i}: from {starts[i]} to {ends[i]}, of {count} elements"
        )
    ranges = sorted((int(s), int(e)) for s, e in zip(starts, ends, strict=True) if s < e)
    for (_, end), (start, _) in itertools.pairwise(ranges):
        if start < end:
            raise KernelValueError(f"{what}: segments overlap: one ends at {end}, another starts at {start}")
    return ranges


@boundary
def runlength_encode(
    values: Any, run_values: Any, run_lengths: Any, run_count: Any = None, value_count: int | None = None
) -> Any:
    """Finds runs of equal values: writes the value of each and how many there are.

    Args:
        values: n elements of int32, int64, uint32 or uint64.
        run_values: at least `value_count` elements of that type.
        run_lengths: at least as many int32.
        run_count: an array of one int32 for the number of runs; None: it is returned.
        value_count: how many values there are; None: all.

    Returns:
        The number of runs, or `run_count`.

    Raises:
        ArrayError: the arrays are too small or of another type.
        KernelTypeError, KernelValueError: `value_count` is no number of elements; without `run_count` in a capture or
            a traced function.
    """
    what = "runlength_encode"
    source, found = require_here(what, "values", values), require_here(what, "run_values", run_values, True)
    lengths = require_here(what, "run_lengths", run_lengths, True)
    number = None if run_count is None else require_here(what, "run_count", run_count, True)
    named = {"values": source, "run_values": found, "run_lengths": lengths, "run_count": number}
    is_on_gpu = are_on_gpu(what, named)
    if isinstance(value_count, int) and value_count < 0:
        raise ArrayError(f"{what}: value_count must be non-negative, got {value_count}")
    count = source.size if value_count is None else require_count(what, "value_count", value_count)
    if count > source.size:
        raise ArrayError(f"{what}: value_count is {count}, but there are {source.size} values")
    if found.size < count or lengths.size < count:
        raise ArrayError(f"{what}: Output array storage sizes must be at least equal to value_count ({count})")
    require_same_type(what, "values and run_values", source, found)
    for name, array in (("run_lengths", lengths), ("run_count", number)):
        if array is not None and array.dtype != int32:
            raise ArrayError(f"{what}: {name} array must be of type int32")
    if source.dtype not in (int32, int64, uint32, uint64):
        raise ArrayError(f"{what}: Unsupported data type: {short(source.dtype)}")
    if number is not None and number.size < 1:
        raise KernelTypeError(f"{what}: run_count: expected an array of one int32, got one without elements")
    for name, array in (("values", source), ("run_values", found), ("run_lengths", lengths)):
        require_row(what, name, array)
    if isinstance(source, ArrayHandle):
        return traced_sorting.encode_runs(what, source, count, found, lengths, number)
    if number is None:
        require_settled(f"{what}: the number of runs")
    runs: int | None = 0

    def encode() -> None:
        nonlocal runs
        if is_on_gpu:
            from jaxwarp.host import gpu_sorting  # its kernels are made when they are first used

            runs = gpu_sorting.encode_runs(source, count, found, lengths, number)
            return
        given = elements(source)[:count].copy()
        starts = np.flatnonzero(np.concatenate([np.ones(min(count, 1), bool), given[1:] != given[:-1]]))
        runs = len(starts)
        put(found, given[starts])
        put(lengths, np.diff(starts, append=count).astype(np.int32))
        if number is not None:
            put(number, np.array([runs], np.int32))

    written = [a.region for a in (found, lengths, number) if a is not None]
    HOST.change(what, encode, [source.region], written, scope_of(source.region))
    return runs if number is None else number
