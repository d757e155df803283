"""Grids of NanoVDB, written: all nodes of a level, one after the other, from the root to the leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxwarp.geometry.volumes.bricks import VOXELS, keys
from jaxwarp.geometry.volumes.build import Transforms
from jaxwarp.geometry.volumes.layout import (
    ACTIVE_ONLY,
    BLIND,
    BREADTH_FIRST,
    GRID,
    GRID_MAGICS,
    HAS_BOX,
    INDEX_CLASS,
    LOWER_SLOTS,
    NO_CHECKSUM,
    NODES,
    TREE,
    TREE_HEADER,
    TYPE_NAMES,
    UPPER_SLOTS,
    VERSION,
    GridLayout,
    layout_of,
)
from jaxwarp.geometry.volumes.read import Feature


class Written(NamedTuple):
    """The contents of a grid to write: see `read.Grid`; `cells` are places of bricks that have one of `constants`."""

    number: int
    leaves: np.ndarray
    active: np.ndarray
    values: np.ndarray | None
    background: np.ndarray | None
    cells: np.ndarray
    constants: np.ndarray | None
    numbers: np.ndarray | None
    voxel_count: int
    frames: Transforms
    name: str
    header: Any
    features: tuple[Feature, ...]


class _Level(NamedTuple):
    """The nodes of a level that have others or values in their slots: their places, and the slots of those below."""

    places: np.ndarray
    node: np.ndarray
    slot: np.ndarray


def grid_bytes(grid: Written, index: int, count: int) -> bytes:
    """A grid, number `index` of `count`."""
    layout = layout_of(grid.number)
    below = np.concatenate([grid.leaves, grid.cells])
    lower = _level(below, 4)
    upper = _level(lower.places, 5)
    roots = _level(upper.places, 0)
    counts = len(grid.leaves), len(lower.places), len(upper.places)
    sizes = layout.leaf, layout.node(LOWER_SLOTS), layout.node(UPPER_SLOTS)
    root_size = layout.root + len(roots.places) * layout.tile
    starts = np.cumsum([NODES, root_size, counts[2] * sizes[2], counts[1] * sizes[1], counts[0] * sizes[0]])
    at_root, at_upper, at_lower, at_leaves, end = (int(s) for s in starts)
    parts = [
        _root(layout, grid, roots, at_upper - at_root, sizes[2]),
        _nodes(layout, UPPER_SLOTS, upper, grid.background, at_upper, at_lower, sizes[1], counts[1]),
        _nodes(layout, LOWER_SLOTS, lower, grid.background, at_lower, at_leaves, sizes[0], counts[0], grid.constants),
        _leaves(layout, grid),
    ]
    blind = _features(grid.features)
    header = _header(grid, end, len(blind), index, count)
    tree = np.zeros((), TREE_HEADER)
    tree["offsets"] = [at_leaves - TREE, at_lower - TREE, at_upper - TREE, at_root - TREE]
    tree["counts"] = counts
    tree["tiles"][0] = len(grid.cells)
    is_index = grid.values is None
    tree["voxels"] = grid.voxel_count if is_index else np.count_nonzero(grid.active)
    return b"".join([header.tobytes(), tree.tobytes(), *(p.tobytes() for p in parts), blind])


def _level(below: np.ndarray, bits: int) -> _Level:
    """The nodes that have what is at these places, in the order of NanoVDB."""
    parents = below >> bits
    if not len(below):
        return _Level(below, np.zeros(0, np.int64), np.zeros(0, np.int64))
    places, node = np.unique(parents, axis=0, return_inverse=True)
    # Words of bricks at the place: nodes have the order of what is in them.
    order = np.lexsort(keys(places << {4: 4, 5: 9, 0: 9}[bits])[::-1])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    inside = (below & (1 << bits) - 1).astype(np.int64)
    slot = (inside[:, 0] << 2 * bits) | (inside[:, 1] << bits) | inside[:, 2]
    return _Level(places[order], rank[node.reshape(-1)], slot)


def _set(target: np.ndarray, start: int, values: np.ndarray, size: int) -> None:
    """Writes values, (n, ...), into rows of bytes."""
    rows = np.ascontiguousarray(values).reshape(len(target), size // values.itemsize)
    target[:, start : start + size] = rows.view(np.uint8)


def _root(layout: GridLayout, grid: Written, roots: _Level, to_upper: int, size: int) -> np.ndarray:
    head = np.zeros((1, layout.root), np.uint8)
    _set(head, 0, _box(grid)[None].astype("<i4"), 24)
    _set(head, 24, np.array([[len(roots.places)]], "<u4"), 4)
    if grid.background is not None:
        _set(head, layout.background, np.asarray(grid.background, layout.scalar).reshape(1, -1), layout.size)
    tiles = np.zeros((len(roots.places), layout.tile), np.uint8)
    raw = (roots.places & 0xFFFFF).astype(np.uint64)
    _set(tiles, 0, (raw[:, 0] << np.uint64(42) | raw[:, 1] << np.uint64(21) | raw[:, 2])[:, None].astype("<u8"), 8)
    _set(tiles, 8, (to_upper + np.arange(len(tiles)) * size)[:, None].astype("<i8"), 8)
    return np.concatenate([head.reshape(-1), tiles.reshape(-1)])


def _nodes(  # noqa: PLR0913
    layout: GridLayout, slots: int, level: _Level, background: Any, at: int, below: int, size: int, count: int,
    constants: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """The nodes of a level, whose children are `count` nodes of a size from `below` on, and then constants."""
    start, own = layout.table[slots], layout.node(slots)
    nodes = np.zeros((len(level.places), own), np.uint8)
    table = nodes[:, start:].reshape(len(nodes), slots, layout.stride)
    if background is not None:
        table[:, :, : layout.size] = np.asarray(background, layout.scalar).reshape(-1).view(np.uint8)
    node, slot = level.node[:count], level.slot[:count]
    children = below + np.arange(count) * size - (at + node * own)
    table[node, slot] = 0
    table[node, slot, :8] = children.astype("<i8")[:, None].view(np.uint8)
    if constants is not None and len(constants):
        flat = np.ascontiguousarray(constants, layout.scalar).reshape(len(constants), -1).view(np.uint8)
        table[level.node[count:], level.slot[count:], : layout.size] = flat
    is_child = np.zeros((len(nodes), slots), bool)
    is_child[node, slot] = True
    nodes[:, 32 + slots // 8 : 32 + slots // 4] = np.packbits(is_child, axis=1, bitorder="little")
    low = level.places << {UPPER_SLOTS: 12, LOWER_SLOTS: 7}[slots]
    width = {UPPER_SLOTS: 4096, LOWER_SLOTS: 128}[slots]
    _set(nodes, 0, np.concatenate([low, low + (width - 1)], axis=1).astype("<i4"), 24)
    return nodes


def _leaves(layout: GridLayout, grid: Written) -> np.ndarray:
    leaves = np.zeros((len(grid.leaves), layout.leaf), np.uint8)
    _set(leaves, 0, (grid.leaves << 3).astype("<i4"), 12)
    leaves[:, 12:16] = (7, 7, 7, HAS_BOX)
    mask = np.packbits(grid.active, axis=1, bitorder="little")
    leaves[:, 16:80] = mask
    if grid.values is not None:
        _set(leaves, layout.values, np.asarray(grid.values, layout.scalar), VOXELS * layout.size)
        return leaves
    if layout.number > 20:
        leaves[:, 96:160] = mask
    index = np.arange(grid.active.size) if grid.numbers is None else grid.numbers
    index = index.reshape(-1, VOXELS)
    if layout.number not in ACTIVE_ONLY:
        _set(leaves, 80, (index[:, :1] + 1).astype("<u8"), 8)
        return leaves
    first = np.where(index < 0, np.iinfo(np.int32).max, index).min(1, initial=np.iinfo(np.int32).max)
    _set(leaves, 80, np.where(first == np.iinfo(np.int32).max, 0, first + 1)[:, None].astype("<u8"), 8)
    sums = np.cumsum(grid.active.reshape(-1, 8, 64).sum(2), axis=1)[:, :7].astype(np.uint64)
    prefix = np.bitwise_or.reduce(sums << (np.arange(7, dtype=np.uint64) * np.uint64(9)), axis=1)
    _set(leaves, 88, prefix[:, None].astype("<u8"), 8)
    return leaves


def _box(grid: Written) -> np.ndarray:
    """The lowest and the highest voxel."""
    if not len(grid.leaves):
        return np.array([2**31 - 1] * 3 + [-(2**31)] * 3, np.int64)
    return np.concatenate([grid.leaves.min(0) * 8, grid.leaves.max(0) * 8 + 7]).astype(np.int64)


def _header(grid: Written, end: int, blind: int, index: int, count: int) -> np.ndarray:
    header = np.zeros((), GRID) if grid.header is None else np.array(grid.header)
    matrix, inverse, moved = (np.asarray(f, np.float32) for f in grid.frames)
    if grid.header is None or not np.array_equal(header["matf"], matrix.reshape(-1)):
        header["matd"], header["invmatd"] = matrix.reshape(-1), inverse.reshape(-1)
    if grid.header is None or not np.array_equal(header["vecf"], moved):
        header["vecd"] = moved
    header["matf"], header["invmatf"], header["vecf"] = matrix.reshape(-1), inverse.reshape(-1), moved
    header["taperf"] = header["taperd"] = 1.0
    header["magic"], header["checksum"], header["version"] = GRID_MAGICS[0], NO_CHECKSUM, VERSION
    header["flags"] = BREADTH_FIRST | HAS_BOX
    header["index"], header["count"], header["size"] = index, count, end + blind
    header["name"] = np.void(grid.name.encode()[:255].ljust(256, b"\0"))
    header["type"] = grid.number
    header["class"] = INDEX_CLASS if grid.values is None else header["class"]
    header["blind_offset"], header["blind_count"] = end, len(grid.features)
    header["voxel_size"] = matrix.astype(np.float64).sum(1) if grid.header is None else header["voxel_size"]
    low, high = _box(grid)[:3], _box(grid)[3:] + 1
    corners = np.stack(np.meshgrid(*zip(low, high, strict=True), indexing="ij"), -1).reshape(-1, 3)
    world = corners @ matrix.astype(np.float64).T + moved
    header["world_box"] = np.concatenate([world.min(0), world.max(0)])
    return header


def _features(features: tuple[Feature, ...]) -> bytes:
    """Return the bytes of the arrays that come with a grid: entries, and the data behind them."""
    entries = np.zeros(len(features), BLIND)
    parts, at = [], len(features) * BLIND.itemsize
    for k, (entry, feature) in enumerate(zip(entries, features, strict=True)):
        data = feature.data.tobytes()
        entry["offset"], entry["size"] = at - k * BLIND.itemsize, feature.value_size
        entry["count"] = len(data) // max(1, feature.value_size)
        known = feature.type_str in TYPE_NAMES
        entry["type"] = TYPE_NAMES.index(feature.type_str) if known else 0
        entry["name"] = np.void(feature.name.encode()[:255].ljust(256, b"\0"))
        parts.append(data.ljust(-(-len(data) // 32) * 32, b"\0"))
        at += len(parts[-1])
    return entries.tobytes() + b"".join(parts)
