"""Grids of NanoVDB in memory, read. Nothing in them is trusted: what does not fit is an error.

A tree is read downwards, as lookups walk it: the place of a leaf follows from the slots that lead to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxwarp.errors import FormatError
from jaxwarp.geometry.volumes.bricks import VOXELS
from jaxwarp.geometry.volumes.layout import (
    ACTIVE_ONLY,
    BLIND,
    BREADTH_FIRST,
    GRID,
    GRID_MAGICS,
    INDEX_TYPES,
    LOWER_SLOTS,
    MAJOR,
    NODES,
    TREE,
    TREE_HEADER,
    TYPE_NAMES,
    UPPER_SLOTS,
    VALUE_TYPES,
    GridLayout,
    layout_of,
)

_MOST_TILES = 1 << 24
_DAMAGED = "the file is damaged, or not by NanoVDB; load it in another program and write it again"


class Feature(NamedTuple):
    """An array that comes with a grid."""

    name: str
    type_str: str
    value_size: int
    data: np.ndarray


class Grid(NamedTuple):
    """The contents of a grid.

    Attributes:
        layout: of its type.
        header: a record of GRID.
        name: of the grid.
        leaves: (b, 3) places of leaves, in bricks.
        values: (512 b[, c]), or None of an index grid.
        active: (b, 512) which voxels are.
        background: its bytes as a value, or None.
        tiles: (t, 3) places of bricks that have one value, in bricks, and (t[, c]) those.
        numbers: (512 b) numbers of the voxels, or None if they are in order.
        voxel_count: how many numbers there are.
        features: arrays that come with it.
    """

    layout: GridLayout
    header: Any
    name: str
    leaves: np.ndarray
    values: np.ndarray | None
    active: np.ndarray
    background: np.ndarray | None
    tiles: tuple[np.ndarray, np.ndarray]
    numbers: np.ndarray | None
    voxel_count: int
    features: tuple[Feature, ...]


class _Nodes(NamedTuple):
    """The nodes of a level: where they begin, and their bytes, (n, size)."""

    start: int
    data: np.ndarray


def refused(what: str, hint: str = _DAMAGED) -> FormatError:
    return FormatError(f"Volume: the grid of NanoVDB {what}", hint=hint)


def read_grid(data: np.ndarray) -> Grid:
    """The first grid in a buffer of bytes.

    Raises:
        FormatError: it is none, it is damaged, or it has what is not there yet.
    """
    header, layout = _header(data)
    data = data[: int(header["size"])]
    tree = data[TREE:NODES].view(TREE_HEADER)[0]
    sizes = (layout.leaf, layout.node(LOWER_SLOTS), layout.node(UPPER_SLOTS))
    pairs = zip(tree["offsets"], tree["counts"], sizes, strict=False)
    leaves, lower, upper = (_nodes(data, int(o), int(n), size) for o, n, size in pairs)
    root = _nodes(data, int(tree["offsets"][3]), 1, layout.root)
    background = root.data[0, layout.background : layout.background + layout.size]
    upper_places = _roots(data, layout, root, upper, background)
    lower_places, large, large_values = _children(layout, UPPER_SLOTS, upper, upper_places, lower, background)
    places, small, small_values = _children(layout, LOWER_SLOTS, lower, lower_places, leaves, background)
    active = np.unpackbits(leaves.data[:, 16:80], axis=1, bitorder="little").astype(bool)
    index, count = _numbers(layout, leaves.data, active, int(tree["voxels"]))
    name, features = _text(header["name"]), tuple(_features(data, header))
    if layout.number in INDEX_TYPES:
        none = np.zeros((0, 3), np.int32), np.zeros(0)
        return Grid(layout, header, name, places, None, active, None, none, index, count, features)
    values = _values(layout, leaves.data[:, layout.values : layout.values + VOXELS * layout.size])
    cells = _expanded(large), np.repeat(large_values, LOWER_SLOTS, axis=0)
    tiles = np.concatenate([small, cells[0]]), _values(layout, np.concatenate([small_values, cells[1]]))
    held = _values(layout, background)[0]
    return Grid(layout, header, name, places, values, active, held, tiles, index, count, features)


def _header(data: np.ndarray) -> tuple[Any, GridLayout]:
    if len(data) < NODES:
        raise refused(f"ends early: it has {len(data)} bytes, and its header alone {NODES}")
    header = data[:TREE].view(GRID)[0]
    if int(header["magic"]) not in GRID_MAGICS:
        raise refused("does not begin as one does")
    if int(header["version"]) >> 21 != MAJOR:
        raise refused(f"has version {int(header['version']) >> 21}, expected {MAJOR}")
    if not NODES <= int(header["size"]) <= len(data):
        raise refused(f"ends early: expected {int(header['size'])} bytes, got {len(data)}")
    number = int(header["type"])
    if number not in VALUE_TYPES and number not in INDEX_TYPES:
        name = TYPE_NAMES[number] if number < len(TYPE_NAMES) else number
        raise refused(f"has values of type {name}, which is not there yet", "convert it to float, int32 or Vec3f")
    if not int(header["flags"]) & BREADTH_FIRST:
        raise refused("has its nodes in another order than breadth first", "write it again with NanoVDB's own tools")
    return header, layout_of(number)


def _nodes(data: np.ndarray, offset: int, count: int, size: int) -> _Nodes:
    """The nodes of a level; offsets are from the tree."""
    if count == 0:
        return _Nodes(0, np.zeros((0, size), np.uint8))
    start = TREE + offset
    if start < NODES or start % 8 or start + count * size > len(data):
        raise refused("has nodes outside of it")
    return _Nodes(start, data[start : start + count * size].reshape(count, size))


def _roots(data: np.ndarray, layout: GridLayout, root: _Nodes, upper: _Nodes, background: np.ndarray) -> np.ndarray:
    """The places of the upper nodes, in their own widths."""
    count = int(root.data[0, 24:28].view("<u4")[0])
    start = root.start + layout.root
    if start + count * layout.tile > len(data):
        raise refused("has tiles of the root outside of it")
    tiles = data[start : start + count * layout.tile].reshape(count, layout.tile)
    keys, children = (np.ascontiguousarray(tiles[:, k : k + 8]).view(t)[:, 0] for k, t in ((0, "<u8"), (8, "<i8")))
    if len(np.unique(keys)) != count:
        raise refused("has two tiles of the root at one place")
    values = tiles[children == 0, layout.tile_value : layout.tile_value + layout.size]
    if layout.number in VALUE_TYPES and (values != background).any():
        raise refused("has one value in 4096 voxels along each axis, which is not there yet", "write smaller tiles")
    raw = np.stack([keys >> np.uint64(shift) & np.uint64(0xFFFFF) for shift in (42, 21, 0)], axis=1).astype(np.int32)
    numbers = _targets(root.start + children[children != 0], children[children != 0], upper)
    found = np.zeros((len(upper.data), 3), np.int32)
    found[numbers] = ((raw ^ 0x80000) - 0x80000)[children != 0]
    return found


def _targets(at: np.ndarray, relative: np.ndarray, children: _Nodes) -> np.ndarray:
    """The numbers of the nodes that are referred to: each of a level, once."""
    size = children.data.shape[1]
    if not (np.abs(relative.astype(np.float64)) < 2.0**62).all():
        raise refused("refers to nodes outside of it")
    numbers, rest = np.divmod(at - children.start, size)
    count = len(children.data)
    if rest.any() or not np.array_equal(np.sort(numbers), np.arange(count)):
        raise refused("refers to nodes where there are none, or to one twice")
    return numbers


def _children(
    layout: GridLayout, slots: int, parents: _Nodes, places: np.ndarray, children: _Nodes, background: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places of the children of a level, in their own widths; of the slots that have another value than the
    background, the places and those values."""
    mask_end = 32 + 2 * slots // 8
    is_child = np.unpackbits(parents.data[:, mask_end - slots // 8 : mask_end], axis=1, bitorder="little").astype(bool)
    start = layout.table[slots]
    table = parents.data[:, start:].reshape(len(parents.data), slots, layout.stride)
    node, slot = np.nonzero(is_child)
    relative = np.ascontiguousarray(table[node, slot, :8]).view("<i8")[:, 0]
    numbers = _targets(parents.start + node * parents.data.shape[1] + relative, relative, children)
    found = np.zeros((len(children.data), 3), np.int32)
    found[numbers] = _within(places, slots, node, slot)
    if layout.number in INDEX_TYPES:
        return found, np.zeros((0, 3), np.int32), np.zeros((0, 0), np.uint8)
    differs = (table[:, :, : layout.size] != background).any(2) & ~is_child
    node, slot = np.nonzero(differs)
    return found, _within(places, slots, node, slot), table[node, slot, : layout.size]


def _within(places: np.ndarray, slots: int, node: np.ndarray, slot: np.ndarray) -> np.ndarray:
    bits = {UPPER_SLOTS: 5, LOWER_SLOTS: 4}[slots]
    steps = np.stack([slot >> 2 * bits, slot >> bits, slot], axis=1) & (1 << bits) - 1
    return (places[node].astype(np.int64) * (1 << bits) + steps).astype(np.int32)


def _expanded(places: np.ndarray) -> np.ndarray:
    """The places of bricks in places of lower nodes."""
    if len(places) * LOWER_SLOTS > _MOST_TILES:
        raise refused(
            f"has one value in {len(places)} parts of 128 voxels along each axis", "write it with less inside"
        )
    slot = np.arange(LOWER_SLOTS)
    node = np.repeat(np.arange(len(places)), LOWER_SLOTS)
    return _within(places, LOWER_SLOTS, node, np.tile(slot, len(places)))


def _values(layout: GridLayout, data: np.ndarray) -> np.ndarray:
    """Bytes as values, (n[, c])."""
    found = np.ascontiguousarray(data).reshape(-1).view(layout.scalar)
    return found.reshape(-1, layout.components) if layout.components > 1 else found


def _numbers(layout: GridLayout, leaves: np.ndarray, active: np.ndarray, voxels: int) -> tuple[np.ndarray | None, int]:
    """The numbers of the voxels, -1 of those that have none, and how many there are."""
    plain = len(leaves) * VOXELS
    if layout.number not in INDEX_TYPES:
        return None, plain
    first = np.ascontiguousarray(leaves[:, 80:88]).view("<u8")
    if (first > np.uint64(2**31 - 2 * VOXELS)).any():
        raise refused("has numbers of voxels beyond 2^31")
    first = first.astype(np.int64) - 1
    steps = np.cumsum(active, axis=1) - active if layout.number in ACTIVE_ONLY else np.arange(VOXELS)
    index = np.where(active | (layout.number not in ACTIVE_ONLY), first + steps, -1).reshape(-1).astype(np.int32)
    if layout.number not in ACTIVE_ONLY:
        count = max(plain, int(index.max(initial=-1)) + 1)
    else:
        count = voxels
        if not int(index.max(initial=-1)) < count < 2**31:
            raise refused(f"has {count} voxels, and numbers up to {int(index.max(initial=-1))}")
    return (None if count == plain and np.array_equal(index, np.arange(plain)) else index), count


def _text(data: Any) -> str:
    """A name, which ends with a 0."""
    found, end, _ = data.tobytes().partition(b"\0")
    if not end and len(found) == 256:
        raise refused("has a name that does not end")
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        raise refused("has a name that is no text") from None


def _features(data: np.ndarray, header: Any) -> Any:
    """The arrays that come with a grid."""
    start, count = int(header["blind_offset"]), int(header["blind_count"])
    if count and not 0 <= start <= start + count * BLIND.itemsize <= len(data):
        raise refused("has metadata outside of it")
    for k in range(count):
        at = start + k * BLIND.itemsize
        entry = data[at : at + BLIND.itemsize].view(BLIND)[0]
        size, first = int(entry["count"]) * int(entry["size"]), at + int(entry["offset"])
        if not 0 <= first <= first + size <= len(data):
            raise refused("has an array outside of it")
        number = int(entry["type"])
        kind = TYPE_NAMES[number] if number < len(TYPE_NAMES) else "unknown"
        yield Feature(_text(entry["name"]), kind, int(entry["size"]), data[first : first + size])
