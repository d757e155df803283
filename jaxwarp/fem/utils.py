"""Meshes of the cells of grids: `fem.utils`. Vertices are numbered with the last axis fastest."""

from __future__ import annotations

import numpy as np

from jaxwarp.fem.geometry.reference import Element


def _corners(cells: tuple[int, ...], corners: np.ndarray) -> np.ndarray:
    """The vertices at corners of each cell of a grid."""
    places = np.stack(np.meshgrid(*map(np.arange, cells), indexing="ij"), -1).reshape(-1, 1, len(cells))
    at = np.moveaxis(places + corners, -1, 0)
    return np.asarray(np.ravel_multi_index(tuple(at), [n + 1 for n in cells]))


def grid_to_tris(Nx: int, Ny: int) -> np.ndarray:
    """Make two triangles, counterclockwise, for each square of a grid.

    Args:
        Nx, Ny: the numbers of squares along the axes.
    """
    # Those of a row of squares, then of the next one.
    corners = np.array([[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]]]).reshape(-1, 2)
    found = _corners((Nx, Ny), corners).reshape(Nx, Ny, 2, 3)
    return found.transpose(1, 0, 2, 3).reshape(-1, 3)


def grid_to_quads(Nx: int, Ny: int) -> np.ndarray:
    """Make the squares of a grid, counterclockwise. The arguments are those of `grid_to_tris`."""
    return _corners((Nx, Ny), np.array(Element.SQUARE.value.vertices))


def grid_to_hexes(Nx: int, Ny: int, Nz: int) -> np.ndarray:
    """Make the cubes of a grid, each with the four lower vertices first. The arguments are as in `grid_to_tris`."""
    return _corners((Nx, Ny, Nz), np.array(Element.CUBE.value.vertices))


def grid_to_tets(Nx: int, Ny: int, Nz: int) -> np.ndarray:
    """Make five tetrahedra of positive volume for each cube of a grid. The arguments are as in `grid_to_tris`.

    Beside each other, cubes are cut as mirror images, so that the tetrahedra meet in whole faces.
    """
    four = np.array([[0, 1, 2, 4], [3, 1, 7, 2], [5, 1, 4, 7], [6, 2, 7, 4], [1, 2, 4, 7]])
    bits = np.stack([four & 1, four >> 1 & 1, four >> 2 & 1], -1)
    even = bits.reshape(-1, 3)
    odd = even * [-1, 1, 1] + [1, 0, 0]
    cut = [_positive(c.reshape(5, 4, 3)).reshape(-1, 3) for c in (even, odd)]
    is_odd = np.indices((Nx, Ny, Nz)).sum(0).reshape(-1) % 2 == 1
    found = np.where(is_odd[:, None], _corners((Nx, Ny, Nz), cut[1]), _corners((Nx, Ny, Nz), cut[0]))
    return found.reshape(-1, 4)


def _positive(tets: np.ndarray) -> np.ndarray:
    """Return the tetrahedra with the last two vertices swapped where the volume is negative."""
    volumes = np.linalg.det((tets[:, 1:] - tets[:, :1]).astype(float))
    return np.where((volumes < 0)[:, None, None], tets[:, [0, 1, 3, 2]], tets)
