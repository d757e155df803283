"""The surface in a cell of a grid, for each of the 256 ways that the cell's corners can be above and below.

The tables are made by a rule. On each side of the cell, the points where the surface passes its edges are joined in
pairs. Where there are four, each corner above is cut off by itself. That depends only on what two cells share, so
surfaces are closed. The pairs make loops around what is above; each loop is a patch of the surface. Diagonals cut a
loop into triangles. Diagonals in a side of the cell are excluded, because the next cell could have them too. Of the
other ways to cut the loop, the one with the shortest diagonals is taken (Lorensen and Cline 1987; Nielson and Hamann
1991 on ambiguous sides).

Corner n is bit n of a case. Edges go from the lower corner to the higher one. Both are numbered as is usual.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

CORNERS = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))
EDGES = (
    *((0, 1), (1, 2), (3, 2), (0, 3)),
    *((4, 5), (5, 6), (7, 6), (4, 7)),
    *((0, 4), (1, 5), (2, 6), (3, 7)),
)
_EDGE_OF = {frozenset(ends): number for number, ends in enumerate(EDGES)}


def axis_of(edge: int) -> int:
    """Along which axis an edge goes."""
    low, high = (CORNERS[corner] for corner in EDGES[edge])
    return next(axis for axis in range(3) if low[axis] != high[axis])


@cache
def _sides() -> tuple[tuple[int, ...], ...]:
    """The corners of each side, counterclockwise as seen from outside."""
    found = []
    for axis, at in product(range(3), range(2)):
        first, second = ((axis + 1) % 3, (axis + 2) % 3) if at else ((axis + 2) % 3, (axis + 1) % 3)
        corners = []
        for a, b in ((0, 0), (1, 0), (1, 1), (0, 1)):
            place = [0, 0, 0]
            place[axis], place[first], place[second] = at, a, b
            corners.append(CORNERS.index(tuple(place)))
        found.append(tuple(corners))
    return tuple(found)


def _steps(case: int) -> Iterator[tuple[int, int]]:
    """Yield the edges from which and to which the surface crosses each side.

    Seen from outside of the cell, what is above is on the left.
    """
    for corners in _sides():
        above = [bool(case >> corner & 1) for corner in corners]
        edges = [_EDGE_OF[frozenset((corners[k], corners[(k + 1) % 4]))] for k in range(4)]
        for k in range(4):
            if above[k] and not above[k - 1]:  # enters what is above; leaves it at the next edge where that ends
                ends = next(n for n in range(k, k + 4) if not above[(n + 1) % 4])
                yield edges[ends % 4], edges[k - 1]


@cache
def loops(case: int) -> tuple[tuple[int, ...], ...]:
    """The patches of a case: edges in the order in which the surface's border passes them.

    It is counterclockwise as seen from above, where the normal points.
    """
    following = dict(_steps(case))
    found = []
    while following:
        loop = [min(following)]
        while loop[0] != (edge := following.pop(loop[-1])):
            loop.append(edge)
        found.append(tuple(loop))
    return tuple(found)


@cache
def _diagonal(first: int, second: int) -> tuple[int, int]:
    """Return whether a line between two edges' middles is in a side of the cell, and 4 times its length squared."""
    a, b = ({*EDGES[first]}, {*EDGES[second]})
    is_in_side = any(a <= {*side} and b <= {*side} for side in _sides())
    middles = [[CORNERS[low][k] + CORNERS[high][k] for k in range(3)] for low, high in (EDGES[first], EDGES[second])]
    return int(is_in_side), sum((x - y) ** 2 for x, y in zip(*middles, strict=True))


def _cuts(loop: tuple[int, ...]) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """All ways to cut a polygon into triangles: by the corner of the triangle at its first edge."""
    if len(loop) < 3:
        yield ()
        return
    for k in range(1, len(loop) - 1):
        for left, right in product(_cuts(loop[: k + 1]), _cuts(loop[k:])):
            yield (*left, (loop[0], loop[k], loop[-1]), *right)


def _cost(loop: tuple[int, ...], cut: tuple[tuple[int, int, int], ...]) -> tuple[int, int]:
    """Return how many diagonals are in a side of the cell, and 4 times the sum of the squares of all their lengths."""
    border = {frozenset((loop[k - 1], loop[k])) for k in range(len(loop))}
    diagonals = {frozenset(pair) for a, b, c in cut for pair in ((a, b), (b, c), (c, a))} - border
    found = [_diagonal(*sorted(pair)) for pair in diagonals]
    return sum(is_in_side for is_in_side, _ in found), sum(length for _, length in found)


@cache
def triangles(case: int) -> tuple[tuple[int, int, int], ...]:
    """The triangles of a case, each by the edges that its corners are on."""
    return tuple(t for loop in loops(case) for t in min(_cuts(loop), key=lambda cut: _cost(loop, cut)))


@cache
def triangle_table() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return where the corners of each case's triangles begin and end, (257), and the edges that the corners are on."""
    starts, corners = [0], []
    for case in range(256):
        corners += [edge for triangle in triangles(case) for edge in triangle]
        starts.append(len(corners))
    return tuple(starts), tuple(corners)


@cache
def patch_table() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return how many patches each case has, (256), and which patch passes each edge, (256 * 12), -1 for none."""
    counts = tuple(len(loops(case)) for case in range(256))
    patches = [next((n for n, loop in enumerate(loops(c)) if e in loop), -1) for c in range(256) for e in range(12)]
    return counts, tuple(patches)
