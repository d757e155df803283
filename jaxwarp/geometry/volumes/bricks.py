"""The order of a volume's bricks, and the table that finds the brick at a place.

A brick is 8 by 8 by 8 voxels. Bricks are in the order of NanoVDB's leaves, so that voxels have the same numbers as in
NanoVDB. The table is one of two kinds, of one type:

- over the box of all bricks and a border of one: a cell has the number of its brick. It needs no search.
- hashed, where the box would be too large, or where the bricks are known only when a program runs: a cell has its first
  entry, and an entry is the place of a brick, its number, and whether it is the last one of the cell.

Both are made by NumPy and by JAX. The hash: Teschner et al. 2003.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy

from jaxwarp.geometry.sorting import sort_order, taken

EDGE = 8
VOXELS = EDGE**3
MOST_CELLS = 1 << 22
"""Of a table over a box, if it has not 64 cells for each brick: 1024 voxels along each axis, and more."""
PRIMES = (73856093, 19349663, 83492791)
STEPS = numpy.stack(numpy.meshgrid(*[numpy.arange(EDGE, dtype=numpy.int32)] * 3, indexing="ij"), -1).reshape(VOXELS, 3)
"""The places of voxels in a brick, in the order of values."""
NOWHERE = 1 << 30
"""Where a brick is that is none: farther away than any."""


class BrickTable(NamedTuple):
    """The table that finds the brick at a place.

    Attributes:
        table: (cells,) numbers of bricks, or of first entries, -1 where there are none.
        entries: (bricks, 4) x, y, z and twice the number, and 1 of the last one of a cell; None: over a box.
        low, dims: the first cell and the numbers of cells of the box.
    """

    table: Any
    entries: Any
    low: Any
    dims: Any


def keys(places: Any) -> tuple[Any, Any, Any]:
    """Three words, the first one highest, in the order of NanoVDB's leaves: by tiles of the root, then by children.

    Args:
        places: (n, 3) of int32, in bricks.
    """
    x, y, z = (places[:, k].astype("uint32") for k in range(3))
    roots = [(c >> 9) & 0xFFFFF for c in (x, y, z)]
    upper = ((x >> 4 & 31) << 10) | ((y >> 4 & 31) << 5) | (z >> 4 & 31)
    lower = ((x & 15) << 8) | ((y & 15) << 4) | (z & 15)
    first = (roots[0] << 12) | (roots[1] >> 8)
    second = ((roots[1] & 255) << 24) | (roots[2] << 4) | (upper >> 11)
    return first, second, ((upper & 0x7FF) << 12) | lower


def ordered_by_numpy(places: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The bricks, each once and in order, (b, 3), and the number of the brick of each place."""
    words = keys(places)
    order = numpy.lexsort(words[::-1])
    there = places[order]
    is_first = numpy.ones(len(places), bool)
    is_first[1:] = (there[1:] != there[:-1]).any(1)
    number = numpy.empty(len(places), numpy.int32)
    number[order] = numpy.cumsum(is_first) - 1
    return there[is_first], number


def ordered_by_jax(places: Any, is_there: Any, capacity: int) -> tuple[Any, Any, Any]:
    """`ordered_by_numpy` inside of a program.

    Returns:
        The bricks, (capacity, 3), those that are none at `NOWHERE`; the number of the brick of each place, `capacity`
        or more where there is none; how many bricks there are, which may be more than there is room for.
    """
    words = (*keys(places), (~is_there).astype(jnp.uint32))
    order = jnp.arange(len(places), dtype=jnp.int32)
    for word in (words[2], words[1], words[0], words[3]):
        order = taken(order, sort_order(taken(word, order))[1])
    there, used = taken(places, order), taken(is_there, order)
    is_first = jnp.ones(len(places), bool).at[1:].set((there[1:] != there[:-1]).any(1)) & used
    number = jnp.where(used, jnp.cumsum(is_first, dtype=jnp.int32) - 1, len(places) + capacity)
    bricks = jnp.full((capacity, 3), NOWHERE, jnp.int32).at[number].set(there, mode="drop")
    back = jnp.zeros(len(places), jnp.int32).at[order].set(number, unique_indices=True)
    return bricks, back, jnp.sum(is_first, dtype=jnp.int32)


def table_of(bricks: numpy.ndarray, numbers: numpy.ndarray, missing: int) -> BrickTable:
    """The table for bricks that are known.

    Args:
        bricks: (n, 3) of int32, each once.
        numbers: (n,) their numbers.
        missing: the number that is found where there is no brick.
    """
    if len(bricks) == 0:
        return BrickTable(
            numpy.full(1, missing, numpy.int32), None, numpy.zeros(3, numpy.int32), numpy.ones(3, numpy.int32)
        )
    low = bricks.min(0).astype(numpy.int64) - 1
    dims = bricks.max(0) + 2 - low
    if math.prod(dims.tolist()) > max(MOST_CELLS, 64 * len(bricks)):
        return hashed(bricks, numbers, numpy)
    table = numpy.full(dims, missing, numpy.int32)
    table[tuple((bricks - low).T)] = numbers
    return BrickTable(table.reshape(-1), None, low.astype(numpy.int32), dims.astype(numpy.int32))


def hashed(bricks: Any, numbers: Any, np: Any = jnp) -> BrickTable:
    """The table for bricks of which those at `NOWHERE` are none."""
    cells = 1 << max(4, (4 * len(bricks) - 1).bit_length())
    x, y, z = (bricks[:, k].astype(np.uint32) * np.uint32(PRIMES[k]) for k in range(3))
    mixed = x ^ y ^ z
    cell = (mixed ^ (mixed >> np.uint32(15))) & np.uint32(cells - 1)
    cell = np.where(bricks[:, 0] == NOWHERE, np.uint32(cells), cell)
    order = sort_order(cell)[1] if np is jnp else numpy.argsort(cell, kind="stable")
    cell = cell[order].astype(np.int32)
    is_new = np.concatenate([np.ones(1, bool), cell[1:] != cell[:-1]])
    is_last = np.concatenate([is_new[1:], np.ones(1, bool)])
    places = np.arange(len(bricks), dtype=np.int32)
    numbers = 2 * np.asarray(numbers)[order] + is_last.astype(np.int32)
    entries = np.concatenate([bricks[order], numbers[:, None]], axis=1).astype(np.int32)
    if np is jnp:
        table = jnp.full(cells, -1, jnp.int32).at[jnp.where(is_new, cell, cells)].set(places, mode="drop")
    else:
        table = numpy.full(cells + 1, -1, numpy.int32)
        table[cell[is_new]] = places[is_new]
        table = table[:-1]
    return BrickTable(table, entries, numpy.zeros(3, numpy.int32), numpy.ones(3, numpy.int32))
