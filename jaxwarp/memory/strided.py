"""Fills and copies of regions on a GPU, taken apart into what the driver does: runs, and runs at equal distances."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jaxwarp.memory.region import Region

_WORD = 4  # the widest unit that the driver fills with


class Fill(NamedTuple):
    """`height` runs of `width` units of `unit` bytes, `pitch` bytes apart, each unit set to `value`."""

    address: int
    unit: int
    value: int
    width: int
    height: int
    pitch: int


class Copy(NamedTuple):
    """`height` runs of `width` bytes, `target_pitch` and `source_pitch` bytes apart."""

    target: int
    source: int
    width: int
    height: int
    target_pitch: int
    source_pitch: int


@dataclass
class _Axis:
    extent: int
    strides: tuple[int, ...]


def fills(region: Region, value: np.ndarray) -> Iterator[Fill]:
    """Yield the fills that set the elements of `region` to `value`, whose axes are the last ones of `region`."""
    if region.size == 0:
        return
    value = np.ascontiguousarray(value, region.dtype)
    scalars = {s.tobytes() for s in value.reshape(-1)}
    if len(scalars) == 1:
        yield from _uniform_fills(region, scalars.pop())
        return
    lead = len(region.shape) - value.ndim
    for index in np.ndindex(*value.shape):
        yield from _uniform_fills(region.part((*[slice(None)] * lead, *index)), value[index].tobytes())


def _uniform_fills(region: Region, pattern: bytes) -> Iterator[Fill]:
    """Every scalar of the region becomes `pattern`."""
    axes = [_Axis(n, (s,)) for n, s in zip(region.shape, region.strides, strict=True)]
    if len(set(pattern)) == 1 and region.is_dense:
        yield Fill(region.address, 1, pattern[0], region.nbytes, 1, 0)
        return
    unit = min(len(pattern), _WORD)
    words = [pattern[at : at + unit] for at in range(0, len(pattern), unit)]
    if len(set(words)) == 1:
        axes.append(_Axis(len(words), (unit,)))
        words = words[:1]
    for number, word in enumerate(words):
        (start,), merged = _normalise((region.address + number * unit,), axes)
        width = merged.pop().extent if merged and merged[-1].strides == (unit,) else 1
        rows = merged.pop() if merged else _Axis(1, (0,))
        for offsets in _outer(merged):
            yield Fill(start + offsets[0], unit, int.from_bytes(word, "little"), width, rows.extent, rows.strides[0])


def copies(target: Region, source: Region) -> Iterator[Copy]:
    """Yield the copies from `source` to `target`, which have the same shape and dtype and do not overlap."""
    if target.size == 0:
        return
    item = target.dtype.itemsize
    pairs = zip(target.strides, source.strides, strict=True)
    axes = [_Axis(n, pair) for n, pair in zip(target.shape, pairs, strict=True)]
    starts, merged = _normalise((target.address, source.address), axes)
    width = merged.pop().extent * item if merged and merged[-1].strides == (item, item) else item
    # The driver wants runs that lie apart, in rising order, on both sides.
    is_pitched = bool(merged) and min(merged[-1].strides) >= width
    rows = merged.pop() if is_pitched else _Axis(1, (0, 0))
    for offsets in _outer(merged, 2):
        yield Copy(starts[0] + offsets[0], starts[1] + offsets[1], width, rows.extent, *rows.strides)


def _normalise(starts: tuple[int, ...], axes: list[_Axis]) -> tuple[tuple[int, ...], list[_Axis]]:
    """The same places with fewer axes, the first side rising, its longest stride first."""
    kept = []
    for axis in axes:
        if axis.extent == 1 or not any(axis.strides):
            continue
        if axis.strides[0] >= 0:
            kept.append(axis)
            continue
        last = axis.extent - 1
        starts = tuple(at + last * s for at, s in zip(starts, axis.strides, strict=True))
        kept.append(_Axis(axis.extent, tuple(-s for s in axis.strides)))
    kept.sort(key=lambda axis: -axis.strides[0])
    merged: list[_Axis] = []
    for axis in kept:
        if merged and merged[-1].strides == tuple(axis.extent * s for s in axis.strides):
            merged[-1] = _Axis(merged[-1].extent * axis.extent, axis.strides)
        else:
            merged.append(axis)
    return starts, merged


def _outer(axes: list[_Axis], sides: int = 1) -> Iterator[tuple[int, ...]]:
    """The offset on each side of every place along `axes`."""
    for index in itertools.product(*(range(axis.extent) for axis in axes)):
        yield tuple(sum(i * axis.strides[side] for i, axis in zip(index, axes, strict=True)) for side in range(sides))
