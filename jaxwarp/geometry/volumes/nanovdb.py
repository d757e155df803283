"""Volumes of grids of NanoVDB, and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jaxwarp.errors import ArrayError, FormatError, KernelTypeError, type_text
from jaxwarp.geometry.volumes.allocate import of_bricks
from jaxwarp.geometry.volumes.bricks import EDGE, VOXELS, table_of
from jaxwarp.geometry.volumes.build import Fields, Transforms, kind_of, type_name
from jaxwarp.geometry.volumes.files import packed, unpacked
from jaxwarp.geometry.volumes.layout import TYPE_NAMES, VALUE_TYPES
from jaxwarp.geometry.volumes.read import Grid, read_grid
from jaxwarp.geometry.volumes.write import Written, grid_bytes
from jaxwarp.memory.devices import CPU, Device
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.types import set_fields

Make = Callable[[Fields], Any]
"""Makes a volume of its fields."""


def volume_of(make: Make, data: np.ndarray, index: int = 0) -> Any:
    """The volume of the first grid in a buffer, number `index` of its file, that knows what follows."""
    grid = read_grid(data)
    rest = data[int(grid.header["size"]) :]
    made = make(_fields(grid))
    set_fields(made, _grid=grid._replace(values=None), _rest=rest if len(rest) else None, _number=index)
    return made


def _fields(grid: Grid) -> Fields:
    where = "Volume.load_from_nvdb"
    header = grid.header
    matrix, inverse = (np.array(header[k], np.float32).reshape(3, 3) for k in ("matf", "invmatf"))
    frames = Transforms(matrix, inverse, np.array(header["vecf"], np.float32))
    name = VALUE_TYPES.get(grid.layout.number)
    made = of_bricks(where, grid.leaves, frames, name, grid.background)
    made |= {"index": grid.numbers, "voxel_count": grid.voxel_count}
    if name is None:
        return made
    places, values = grid.tiles
    held = made[kind_of(name)]
    values = np.asarray(values, held.dtype)
    raw = np.ascontiguousarray(values).reshape(len(values), grid.layout.components).view(np.uint8)  # -0.0 is not 0.0
    _, first, which = np.unique(raw, axis=0, return_index=True, return_inverse=True)
    parts = grid.values, held[len(grid.leaves) * VOXELS :], np.repeat(values[first], VOXELS, axis=0)
    made[kind_of(name)] = np.concatenate([np.asarray(p, held.dtype) for p in parts])
    if len(places):
        count = len(grid.leaves)
        numbers = np.concatenate([np.arange(count), count + 1 + which.reshape(-1)]).astype(np.int32)
        made |= table_of(np.concatenate([grid.leaves, places]), numbers, count)._asdict()
    return made


def load(make: Make, given: Any) -> Any:
    """The volume of a file that is open, of its bytes, or of its name.

    Raises:
        KernelTypeError: it is none of these.
        FormatError: the file is not one of NanoVDB, is damaged, or has what is not there yet.
    """
    data = given.read() if hasattr(given, "read") else given
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise KernelTypeError(
            f"Volume.load_from_nvdb: expected bytes or an open file, got {type_text(data)}",
            hint="open it to read bytes: open(path, 'rb')",
        )
    grids = unpacked(bytes(data))
    if not len(grids):
        raise FormatError("Volume.load_from_nvdb: the file has no grids", hint="write one with a grid")
    rest = grids
    while len(rest):  # faults of all are told now
        rest = rest[int(read_grid(rest).header["size"]) :]
    return volume_of(make, grids)


def from_memory(make: Make, data: Any) -> Any:
    """The volume of a grid in an array of bytes."""
    try:
        found = data.numpy() if isinstance(data, LiveArray) else np.frombuffer(data, np.uint8)
    except TypeError:
        hint = "pass a file's bytes, or an array of them; Volume.allocate(...) makes a new volume"
        raise KernelTypeError(f"Volume: data: expected bytes, got {type_text(data)}", hint=hint) from None
    return volume_of(make, np.ascontiguousarray(found).reshape(-1).view(np.uint8).copy())


def next_of(volume: Any, device: Device = CPU) -> Any:
    """The volume of the grid that follows in its file, or None."""
    rest = volume.__dict__.get("_rest")
    if rest is None:
        return None
    return volume_of(partial(type(volume)._of, device=device), rest, volume.__dict__["_number"] + 1)


def bytes_of(volume: Any, index: int = 0, count: int = 1) -> bytes:
    """A volume as a grid of NanoVDB."""
    grid = volume.__dict__.get("_grid")
    values = None if volume.is_index else np.asarray(volume.values)
    leaves = np.asarray(volume.tiles)[: int(volume.tile_count)] // EDGE
    cells, numbers = _constant_cells(volume)
    written = Written(
        number=_number(volume, grid), leaves=leaves, active=_active(volume, grid, len(leaves)),
        values=None if values is None else values[: len(leaves) * VOXELS],
        background=None if values is None else values[len(volume.tiles) * VOXELS],
        cells=cells, constants=None if values is None else values[numbers * VOXELS],
        numbers=None if volume.index is None else np.asarray(volume.index)[: len(leaves) * VOXELS],
        voxel_count=int(volume.voxel_count),
        frames=Transforms(*(np.asarray(f) for f in (volume.matrix, volume.inverse, volume.translation))),
        name="" if grid is None else grid.name, header=None if grid is None else grid.header,
        features=() if grid is None else grid.features,
    )  # fmt: skip
    return grid_bytes(written, index, count)


def _number(volume: Any, grid: Grid | None) -> int:
    """Return the number of the type. An index grid is one of active voxels, unless it was read as another."""
    name = type_name(volume)
    if name is not None:
        return next(n for n, held in VALUE_TYPES.items() if held == name)
    return TYPE_NAMES.index("OnIndex") if grid is None else grid.layout.number


def _active(volume: Any, grid: Grid | None, count: int) -> np.ndarray:
    if grid is not None and len(grid.active) == count:
        return grid.active
    index = volume.index
    return (
        np.ones((count, VOXELS), bool)
        if index is None
        else np.asarray(index)[: count * VOXELS].reshape(-1, VOXELS) >= 0
    )


def _constant_cells(volume: Any) -> tuple[np.ndarray, np.ndarray]:
    """The bricks that have one value and are no bricks of their own: where they are, and their numbers."""
    last, table = len(volume.tiles), np.asarray(volume.table)
    if volume.entries is not None:
        entries = np.asarray(volume.entries)
        is_constant = entries[:, 3] >> 1 > last
        return entries[is_constant, :3], entries[is_constant, 3] >> 1
    cells = np.flatnonzero(table > last)
    places = np.stack(np.unravel_index(cells, np.asarray(volume.dims)), axis=1) + np.asarray(volume.low)
    return places.astype(np.int32), table[cells]


def following(volume: Any) -> list[tuple[Any, int, int]]:
    """A volume and those that follow in its file, each with its number and how many there are in the file."""
    found = [volume]
    while (after := next_of(found[-1])) is not None:
        found.append(after)
    first = volume.__dict__.get("_number", 0)
    return [(v, first + k, first + len(found)) for k, v in enumerate(found)]


def file_of(volume: Any, codec: str) -> bytes:
    """A file of a volume and those that follow.

    Raises:
        ArrayError: it is one that follows another.
    """
    chain = following(volume)
    if chain[0][1]:
        raise ArrayError("Volume.save_to_nvdb: this is not the first volume of its file", hint="save the first one")
    return packed([bytes_of(*one) for one in chain], codec)
