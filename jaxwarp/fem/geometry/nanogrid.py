"""Sparse grids: the voxels of a volume as cells."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import boundaries
from jaxwarp.errors import ArrayError, KernelTypeError, KernelValueError, type_text
from jaxwarp.fem.geometry.geometries import Geometry, require_scalar
from jaxwarp.fem.geometry.kinds import attributes, make_kind, side_fields, side_functions
from jaxwarp.fem.geometry.lookup import number_among
from jaxwarp.fem.geometry.reference import Element
from jaxwarp.fem.geometry.topology import by_position
from jaxwarp.fem.types import NULL_ELEMENT_INDEX, matrix, sample_type, vector


def _nearest(scalar: Any, cell_at: Any) -> Any:
    """Make the search for the cell of a point, or for the closest point of the cells nearby that `cell_at` gives."""
    one, sample = vector(3, scalar), sample_type(scalar)

    @wp.func
    def nearest(geometry: Any, elements: Any, point: Any, max_dist: scalar):
        """Searches boxes about the point, each larger than the one before."""
        u = geometry.inverse * (point - geometry.origin)
        i, j, k = int(wp.floor(u[0])), int(wp.floor(u[1])), int(wp.floor(u[2]))
        best = cell_at(geometry, elements, i, j, k)
        coords = u - one(scalar(i), scalar(j), scalar(k))
        least = wp.min(geometry.sizes)
        reach = least * scalar(0.5)
        while best == NULL_ELEMENT_INDEX and reach >= scalar(0.0):
            room = wp.cw_div(one(reach), geometry.sizes)
            closest = reach
            for a in range(int(wp.floor(u[0] - room[0])), int(wp.floor(u[0] + room[0])) + 1):
                for b in range(int(wp.floor(u[1] - room[1])), int(wp.floor(u[1] + room[1])) + 1):
                    for c in range(int(wp.floor(u[2] - room[2])), int(wp.floor(u[2] + room[2])) + 1):
                        cell = cell_at(geometry, elements, a, b, c)
                        if cell != NULL_ELEMENT_INDEX:
                            x = u - one(scalar(a), scalar(b), scalar(c))
                            inside = wp.max(wp.min(x, one(scalar(1.0))), one(scalar(0.0)))
                            distance = wp.length(geometry.across * (inside - x))
                            if distance <= closest:
                                closest = distance
                                best = cell
                                coords = inside
            reach = wp.where(reach < max_dist, wp.min(reach * scalar(3.0), max_dist), scalar(-1.0))
        return sample(best, coords)

    return nearest


@functools.cache
def nanogrid_kind(scalar: Any) -> Any:
    """Equal parallelepipeds at whole places. `origin` is the corner of the cell at place 0."""
    one, square, sample = vector(3, scalar), matrix(3, 3, scalar), sample_type(scalar)

    @wp.func
    def position(geometry: Any, cell: int, x: Any):
        return geometry.origin + geometry.across * (one(geometry.places[cell]) + x)

    @wp.func
    def jacobian(geometry: Any, cell: int, x: Any):
        return geometry.across

    @wp.func
    def coordinates(geometry: Any, cell: int, point: Any):
        return geometry.inverse * (point - geometry.origin) - one(geometry.places[cell])

    @wp.func
    def cell_at(geometry: Any, _elements: Any, i: int, j: int, k: int):
        return wp.volume_lookup_index(geometry.volume, i, j, k)

    @wp.func
    def cell_of_part_at(geometry: Any, elements: wp.array[int], i: int, j: int, k: int):
        cell = wp.volume_lookup_index(geometry.volume, i, j, k)
        return wp.where(cell != NULL_ELEMENT_INDEX and number_among(elements, cell) >= 0, cell, NULL_ELEMENT_INDEX)

    nearest, nearest_of_part = _nearest(scalar, cell_at), _nearest(scalar, cell_of_part_at)

    @wp.func
    def lookup_near(geometry: Any, point: Any, max_dist: scalar):
        return nearest(geometry, 0, point, max_dist)

    @wp.func
    def lookup(geometry: Any, point: Any):
        return nearest(geometry, 0, point, scalar(0.0))

    @wp.func
    def lookup_in(geometry: Any, elements: wp.array[int], point: Any, max_dist: scalar, environment: int):
        found = sample(NULL_ELEMENT_INDEX, one())
        if environment == 0:
            found = nearest_of_part(geometry, elements, point, max_dist)
        return found

    fields = {"origin": one, "across": square, "inverse": square, "sizes": one, "places": wp.array[wp.vec3i],
              "volume": wp.Volume, **side_fields(Element.CUBE, scalar)}  # fmt: skip
    functions = {"position": position, "jacobian": jacobian, "coordinates": coordinates, "lookup": lookup,
                 "lookup_near": lookup_near, "lookup_in": lookup_in,
                 **side_functions(Element.CUBE, scalar)}  # fmt: skip
    return make_kind(f"Nanogrid_{scalar}", fields, functions, **attributes(Element.CUBE, 3, scalar, True))


@boundaries
class Nanogrid(Geometry):
    """A grid of some cubes of space: the voxels of a volume.

    `lookup` finds the closest point of cells that are no farther than half a cell, or than `max_dist`; for positions
    farther away, `element_index` is `NULL_ELEMENT_INDEX`.

    Args:
        grid: the volume, outside of JAX.
        temporary_store: accepted, no effect.
        scalar_type: float32 or float64.
        cell_env, env_offsets: None; a geometry has one environment.
        rebuildable: whether `rebuild` may be called. The volume must be rebuildable then.

    Raises:
        KernelTypeError, KernelValueError: the arguments are not that, or the volume has no voxels.
    """

    element, dimension = Element.CUBE, 3

    def __init__(self, grid: Any, temporary_store: Any = None, scalar_type: Any = wp.float32, cell_env: Any = None,
                 env_offsets: Any = None, rebuildable: bool = False) -> None:  # fmt: skip
        del temporary_store
        if not isinstance(grid, wp.Volume):
            raise KernelTypeError(f"Nanogrid: grid: expected a Volume, got {type_text(grid)}")
        if cell_env is not None or env_offsets is not None:
            raise KernelValueError("Nanogrid: cell_env, env_offsets: expected None: a geometry has one environment")
        if rebuildable and not grid.is_rebuildable:
            raise ArrayError("Nanogrid: rebuildable: the volume is not", hint="make it with rebuildable=True")
        self.scalar_type = require_scalar("Nanogrid", scalar_type)
        self.device, self._rebuildable, self.cell_grid = grid.device, rebuildable, grid
        self.rebuild_topology_from_cells()

    @property
    def is_rebuildable(self) -> bool:
        """True if `rebuild` may be called."""
        return self._rebuildable

    @property
    def transform(self) -> Any:
        """The matrix from places to positions."""
        return self.cell_grid.get_grid_info().transform_matrix

    @property
    def cell_env(self) -> Any:
        """The environment of each cell: 0, since a geometry has one environment."""
        return wp.zeros(len(self._places), dtype=int)

    @property
    def env_offsets(self) -> Any:
        """The vector added to the places of each environment: zero for the only one."""
        return wp.zeros(1, dtype=wp.vec3i)

    @property
    def _cell_ijk(self) -> Any:
        """The places of the cells, under Warp's private name: programs colour cells by them."""
        return self.arguments.places

    @property
    def cells(self) -> np.ndarray:
        return self._cells

    def vertex_count(self) -> int:
        return self._vertex_count

    def supports_cell_lookup(self, device: Any = None) -> bool:
        del device
        return True

    def rebuild(self, points: Any, point_envs: Any = None, *, status: Any = None, point_mask: Any = None) -> Any:
        """Make the voxels of points the cells. Topologies of spaces are to be rebuilt after it, and fields made anew.

        Args:
            points: as `Volume.rebuild` takes them.
            point_envs: None; a geometry has one environment.
            status, point_mask: as `Volume.rebuild` takes them.

        Returns:
            `status`.
        """
        if not self._rebuildable:
            raise ArrayError("Nanogrid.rebuild: the grid is not rebuildable", hint="make it with rebuildable=True")
        if point_envs is not None:
            raise KernelValueError("Nanogrid.rebuild: point_envs: expected None: a geometry has one environment")
        found = self.cell_grid.rebuild(points, status=status, point_mask=point_mask)
        self.rebuild_topology_from_cells()
        return found

    def rebuild_topology_from_cells(self) -> None:
        """Make the voxels that the volume has now the cells."""
        grid = self.cell_grid
        places = grid.get_voxels().numpy().astype(np.int64).reshape(-1, 3)[: grid.get_active_stats().voxel_count]
        if not len(places):
            raise KernelValueError("Nanogrid: grid: expected a volume with voxels, got one without")
        self._places = places
        corners = places[:, None, :] + np.array(self.element.value.vertices)
        vertices, numbers = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
        self._vertex_count = len(vertices)
        self._cells = numbers.reshape(-1, 8)
        for name in ("_sides", "_side_arguments", "_made"):
            self.__dict__.pop(name, None)

    def number_nodes(self, nodes: np.ndarray) -> tuple[np.ndarray, int]:
        table, count = super().number_nodes(nodes)
        scaled = np.round((self._places[:, None, :] + nodes) * 2**20).astype(np.int64)
        return by_position(table, count, scaled), count

    def number_lattice(self, nodes: np.ndarray) -> tuple[np.ndarray, int]:
        places = self._places[:, None, :] + nodes
        found, numbers = np.unique(places.reshape(-1, 3), axis=0, return_inverse=True)
        return numbers.reshape(places.shape[:2]).astype(np.int32), len(found)

    @property
    def arguments(self) -> Any:
        return self._made

    @functools.cached_property
    def _made(self) -> Any:
        info, scalar = self.cell_grid.get_grid_info(), self.scalar_type
        across = np.asarray(info.transform_matrix, np.float64).reshape(3, 3)
        origin = np.asarray(info.translation, np.float64) - across @ np.full(3, 0.5)
        one, square = vector(3, scalar), matrix(3, 3, scalar)
        return nanogrid_kind(scalar)(
            origin=one(*origin.tolist()), across=square(*across.reshape(-1).tolist()),
            inverse=square(*np.linalg.inv(across).reshape(-1).tolist()),
            sizes=one(*np.linalg.norm(across, axis=0).tolist()),
            places=wp.array(self._places.astype(np.int32), dtype=wp.vec3i, device=self.device),
            volume=self.cell_grid.id, **self.side_arguments,
        )  # fmt: skip
