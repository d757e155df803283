"""Geometries: grids, meshes of triangles, quadrilaterals, tetrahedra and hexahedra, and fields of positions."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries, guarded
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.fem.geometry.kinds import cell_of_grid, deformed_kind, grid_kind, mesh_kind
from jaxwarp.fem.geometry.reference import Element
from jaxwarp.fem.geometry.topology import by_position, find_sides, shared_nodes
from jaxwarp.fem.types import require_integer, vector
from jaxwarp.types import SCALAR_BY_DTYPE, as_dtype, element_scalar, element_shape


@guarded
class Geometry:
    """Cells and their sides."""

    element: Element
    dimension: int
    scalar_type: Any
    device: Any
    cells: Any
    """The vertices of each cell."""
    arguments: Any
    """The struct that kernels are given."""

    @property
    def base(self) -> Geometry:
        return self

    @property
    def cell_dimension(self) -> int:
        return self.element.dimension

    def reference_cell(self) -> Element:
        return self.element

    def reference_side(self) -> Element:
        return self.element.side

    @property
    def sides(self) -> Any:
        """A `SideTable`."""
        return self._sides

    @functools.cached_property
    def _sides(self) -> Any:
        return find_sides(self.element, self.cells)

    def cell_count(self) -> int:
        return len(self.cells)

    def side_count(self) -> int:
        return len(self.sides.cells)

    def boundary_side_count(self) -> int:
        return len(self.sides.boundary)

    def vertex_count(self) -> int:
        raise NotImplementedError

    def environment_count(self) -> int:
        """Return how many environments there are: parts at the same positions that share no nodes."""
        return 1

    def cell_environments(self) -> np.ndarray:
        """Return the environment of each cell."""
        return np.arange(self.cell_count()) // max(self.cell_count() // self.environment_count(), 1)

    def number_nodes(self, nodes: np.ndarray) -> tuple[np.ndarray, int]:
        """The numbers of nodes that cells share."""
        return shared_nodes(self.element, nodes, self.cells, self.vertex_count())

    def number_lattice(self, nodes: np.ndarray) -> tuple[np.ndarray, int]:
        """The numbers of nodes at whole coordinates of cells, also outside of a cell.

        Raises:
            KernelValueError: the cells are not those of a grid.
        """
        del nodes
        raise KernelValueError(
            f"make_polynomial_basis_space: element_basis: BSPLINE needs a grid, got {type_text(self)}",
            hint="use LAGRANGE",
        )

    @property
    def side_arguments(self) -> dict[str, Any]:
        """The arguments about sides that are passed to kernels."""
        return self._side_arguments

    @functools.cached_property
    def _side_arguments(self) -> dict[str, Any]:
        scalar, sides = self.scalar_type, self.sides
        reference = self.element.value
        one = vector(self.element.dimension, scalar)
        return {
            "side_cells": self.integers(sides.cells),
            "side_corners": self.integers(sides.corners),
            "side_local": self.integers(sides.local),
            "normals": wp.array(reference.side_normals, dtype=one, device=self.device),
            "vertices": wp.array(np.array(reference.vertices, float), dtype=one, device=self.device),
        }

    def integers(self, values: np.ndarray) -> Any:
        return wp.array(np.ascontiguousarray(values, np.int32), dtype=int, device=self.device)


def require_scalar(what: str, scalar: Any) -> Any:
    scalar = as_dtype(scalar)
    if scalar not in (wp.float32, wp.float64):
        raise KernelTypeError(f"{what}: scalar_type: expected float32 or float64, got {scalar}")
    return scalar


@boundaries
class _Grid(Geometry):
    """Equal boxes. Cells and vertices are numbered with the last axis fastest."""

    def __init__(self, what: str, dimension: int, res: Any, lo: Any, hi: Any, scalar_type: Any, env_count: int) -> None:
        self._environments = require_integer(f"{what}: env_count", env_count)
        if self._environments < 1:
            raise KernelValueError(f"{what}: env_count: expected at least 1, got {env_count}")
        self.dimension = dimension
        self.element = Element.SQUARE if dimension == 2 else Element.CUBE
        self.scalar_type = require_scalar(what, scalar_type)
        self.device = wp.get_device()
        self.res = res
        if not hasattr(res, "__iter__"):
            raise KernelTypeError(f"{what}: res: expected {dimension} integers, got {res!r}")
        self._res = tuple(require_integer(f"{what}: res", n) for n in res)
        if len(self._res) != dimension or min(self._res) < 1:
            raise KernelValueError(f"{what}: res: expected {dimension} numbers of cells above 0, got {self._res}")
        one = vector(dimension, self.scalar_type)
        self.bounds_lo = one(*(float(x) for x in lo)) if lo is not None else one(0.0)
        self.bounds_hi = one(*(float(x) for x in hi)) if hi is not None else one(1.0)
        self.origin = self.bounds_lo
        sizes = [(float(b) - float(a)) / n for a, b, n in zip(self.bounds_lo, self.bounds_hi, self._res, strict=True)]
        self.cell_size = one(*sizes)

    @property
    def extents(self) -> Any:
        return self.bounds_hi - self.bounds_lo

    def vertex_count(self) -> int:
        return self._environments * int(np.prod([n + 1 for n in self._res]))

    def environment_count(self) -> int:
        return self._environments

    @functools.cached_property
    def _places(self) -> np.ndarray:
        """The environment of each cell, and its place along each axis."""
        extents = (self._environments, *self._res)
        return np.stack(np.meshgrid(*map(np.arange, extents), indexing="ij"), -1).reshape(-1, len(extents))

    def _beside(self, points: np.ndarray) -> np.ndarray:
        """Return the environment of each cell, and the places of points that all cells have."""
        return self._places[:, None, :] + np.pad(points, ((0, 0), (1, 0)))

    @functools.cached_property
    def cells(self) -> Any:
        corners = self._beside(np.array(self.element.value.vertices))
        return np.ravel_multi_index(
            tuple(np.moveaxis(corners, -1, 0)), [self._environments, *(n + 1 for n in self._res)]
        )

    def number_nodes(self, nodes: np.ndarray) -> tuple[np.ndarray, int]:
        table, count = super().number_nodes(nodes)
        return by_position(table, count, np.round(self._beside(nodes) * 2**20).astype(np.int64)), count

    def number_lattice(self, nodes: np.ndarray) -> tuple[np.ndarray, int]:
        low, high = nodes.min(), nodes.max()
        extents = (self._environments, *(n - 1 + high - low + 1 for n in self._res))
        places = np.moveaxis(self._beside(nodes - low), -1, 0)
        return np.asarray(np.ravel_multi_index(tuple(places), extents), np.int32), int(np.prod(extents))

    @functools.cached_property
    def arguments(self) -> Any:
        kind = grid_kind(self.element, self.scalar_type, self._environments > 1)
        return kind(origin=self.bounds_lo, cell_size=self.cell_size, res=vector(self.dimension, wp.int32)(*self._res),
                    environments=self._environments, **self.side_arguments)  # fmt: skip


@boundaries
class Grid2D(_Grid):
    """A grid of squares.

    Args:
        res: how many cells along each axis.
        bounds_lo, bounds_hi: its corners.
        scalar_type: float32 or float64.
        env_count: how many environments there are: grids at the same positions that share no cells and no nodes. Their
            cells and nodes come one environment after the other.
    """

    get_cell = cell_of_grid(2)
    """The function `(res, cell)`: the place of a cell along each axis."""

    def __init__(
        self, res: Any, bounds_lo: Any = None, bounds_hi: Any = None, scalar_type: Any = wp.float32, env_count: int = 1
    ) -> None:
        super().__init__("Grid2D", 2, res, bounds_lo, bounds_hi, scalar_type, env_count)


@boundaries
class Grid3D(_Grid):
    """A grid of cubes; arguments as of `Grid2D`."""

    get_cell = cell_of_grid(3)
    """The function `(res, cell)`: the place of a cell along each axis."""

    def __init__(
        self, res: Any, bounds_lo: Any = None, bounds_hi: Any = None, scalar_type: Any = wp.float32, env_count: int = 1
    ) -> None:
        super().__init__("Grid3D", 3, res, bounds_lo, bounds_hi, scalar_type, env_count)


@boundaries
class VertexMesh(Geometry):
    """Cells between given vertices."""

    def __init__(
        self, what: str, element: Element, dimension: int, indices: Any, positions: Any, build_bvh: bool
    ) -> None:
        is_of_jax = isinstance(positions, jax.Array)
        if not isinstance(positions, (HostArray, jax.Array)) or not isinstance(indices, HostArray):
            raise KernelTypeError(
                f"{what}: expected an array of indices outside of JAX and one of positions, got"
                f" {type_text(indices)} and {type_text(positions)}",
                hint="make them with wp.array",
            )
        if is_of_jax and build_bvh:
            raise KernelValueError(f"{what}: build_bvh: expected positions outside of JAX", hint="pass wp.from_jax(x)")
        self.element, self.dimension = element, dimension
        found = SCALAR_BY_DTYPE[positions.dtype] if is_of_jax else element_scalar(positions.dtype)
        self.scalar_type = require_scalar(what, found)
        width = len(element.value.vertices)
        wanted = positions.shape[1:] == (dimension,) if is_of_jax else positions.dtype == vector(dimension, found)
        if not wanted or positions.ndim != 1 + is_of_jax:
            raise KernelTypeError(
                f"{what}: positions: expected an array of vectors of {dimension}, got {positions.dtype} of shape"
                f" {positions.shape}"
            )
        _require_indices(what, indices, width)
        self._positions = positions
        self._indices = indices
        self._cells = np.empty((0, width), np.int64)
        self._name = what
        self.device = indices.device
        self._bvh: Any = None
        _ = self.cells
        if build_bvh:
            self.build_bvh()

    @property
    def positions(self) -> Any:
        """The positions of the vertices. You may set another array of the same type and shape.

        Then call `update_bvh`, if there is a tree.
        """
        return self._positions

    @positions.setter
    def positions(self, positions: Any) -> None:
        old, is_of_jax = self._positions, isinstance(positions, jax.Array)
        found = getattr(positions, "dtype", None), getattr(positions, "shape", None)
        if is_of_jax != isinstance(old, jax.Array) or found != (old.dtype, old.shape):
            raise KernelTypeError(
                f"{self._name}: positions: expected {type_text(old)} of {old.dtype} of shape {old.shape}, got"
                f" {type_text(positions)} of {found[0]} of shape {found[1]}",
                hint="make another mesh",
            )
        self._positions = positions
        self.__dict__.pop("_made", None)

    @property
    def cells(self) -> Any:
        """The cells that the array of indices has now. If a program flips edges in it, make new spaces."""
        found = self._indices.numpy().reshape(-1, self._cells.shape[1])  # of a shape that __init__ has seen
        if not np.array_equal(found, self._cells):
            if not 0 <= found.min() <= found.max() < self.positions.shape[0]:
                raise KernelValueError(
                    f"{self._name}: expected vertices from 0 to {self.positions.shape[0] - 1}, got {found.min()} to"
                    f" {found.max()}"
                )
            self._cells = found.astype(np.int64)
            for name in ("_sides", "_side_arguments", "_made"):
                self.__dict__.pop(name, None)
        return self._cells

    @property
    def sides(self) -> Any:
        _ = self.cells
        return self._sides

    @property
    def side_arguments(self) -> dict[str, Any]:
        _ = self.cells
        return self._side_arguments

    def vertex_count(self) -> int:
        return self.positions.shape[0]

    def build_bvh(self, device: Any = None) -> None:
        """Builds what `lookup` searches; `update_bvh` after vertices have moved."""
        del device
        exact = np.asarray(self.positions.numpy(), float)[self.cells]
        corners = exact.astype(np.float32)
        if corners.shape[-1] == 2:
            corners = np.concatenate([corners, np.zeros_like(corners[..., :1])], -1)
        lower, upper = corners.min(1), corners.max(1)
        pad = 1e-5 * max(float((upper - lower).max(initial=0.0)), 1e-30)
        self._bvh = wp.Bvh(
            wp.array(lower - pad, dtype=wp.vec3, device=self.device),
            wp.array(upper + pad, dtype=wp.vec3, device=self.device),
        )
        # Of floats it would be zero far from the origin.
        used = exact.reshape(-1, self.dimension)
        self._extent = float(np.linalg.norm(used.max(0) - used.min(0))) if len(used) else 0.0
        self.__dict__.pop("_made", None)

    def update_bvh(self, device: Any = None) -> None:
        """Builds it anew."""
        self.build_bvh(device)

    def supports_cell_lookup(self, device: Any = None) -> bool:
        del device
        return self._bvh is not None

    @property
    def arguments(self) -> Any:
        _ = self.cells
        return self._made

    @functools.cached_property
    def _made(self) -> Any:
        kind = mesh_kind(self.element, self.dimension, self.scalar_type, self._bvh is not None)
        search = {} if self._bvh is None else {"bvh": self._bvh.id, "extent": self._extent}
        return kind(positions=self.positions, cells=self.integers(self.cells), **search, **self.side_arguments)


def _require_indices(what: str, indices: HostArray, width: int) -> None:
    shape = tuple(indices.shape) + element_shape(indices.dtype)
    is_right = shape[-1] == width if len(shape) == 2 else len(shape) == 1 and shape[0] % width == 0
    if element_scalar(indices.dtype) not in (wp.int32, wp.uint32, wp.int64, wp.uint64) or not is_right:
        raise KernelTypeError(
            f"{what}: indices: expected integers of shape (cells, {width}), got {indices.dtype} of shape"
            f" {tuple(indices.shape)}"
        )


@boundaries
class Trimesh2D(VertexMesh):
    """Triangles in the plane.

    Args:
        tri_vertex_indices: the three vertices of each.
        positions: of the vertices.
        build_bvh: whether `lookup` is possible.
        temporary_store: accepted, no effect.
    """

    def __init__(
        self, tri_vertex_indices: Any, positions: Any, build_bvh: bool = False, temporary_store: Any = None
    ) -> None:
        del temporary_store
        super().__init__("Trimesh2D", Element.TRIANGLE, 2, tri_vertex_indices, positions, build_bvh)


@boundaries
class Trimesh3D(VertexMesh):
    """Triangles in space; arguments as of `Trimesh2D`."""

    def __init__(
        self, tri_vertex_indices: Any, positions: Any, build_bvh: bool = False, temporary_store: Any = None
    ) -> None:
        del temporary_store
        super().__init__("Trimesh3D", Element.TRIANGLE, 3, tri_vertex_indices, positions, build_bvh)


@boundaries
class Quadmesh2D(VertexMesh):
    """Quadrilaterals in the plane, whose vertices go around; arguments as of `Trimesh2D`."""

    def __init__(
        self, quad_vertex_indices: Any, positions: Any, build_bvh: bool = False, temporary_store: Any = None
    ) -> None:
        del temporary_store
        super().__init__("Quadmesh2D", Element.SQUARE, 2, quad_vertex_indices, positions, build_bvh)


@boundaries
class Quadmesh3D(VertexMesh):
    """Quadrilaterals in space; arguments as of `Trimesh2D`."""

    def __init__(
        self, quad_vertex_indices: Any, positions: Any, build_bvh: bool = False, temporary_store: Any = None
    ) -> None:
        del temporary_store
        super().__init__("Quadmesh3D", Element.SQUARE, 3, quad_vertex_indices, positions, build_bvh)


@boundaries
class Tetmesh(VertexMesh):
    """Tetrahedra; arguments as of `Trimesh2D`."""

    def __init__(
        self, tet_vertex_indices: Any, positions: Any, build_bvh: bool = False, temporary_store: Any = None
    ) -> None:
        del temporary_store
        super().__init__("Tetmesh", Element.TETRAHEDRON, 3, tet_vertex_indices, positions, build_bvh)


@boundaries
class Hexmesh(VertexMesh):
    """Hexahedra: four vertices around below, then those above them; arguments as of `Trimesh2D`."""

    def __init__(
        self, hex_vertex_indices: Any, positions: Any, build_bvh: bool = False, temporary_store: Any = None,
        assume_parallelepiped_cells: bool = False,
    ) -> None:  # fmt: skip
        del temporary_store, assume_parallelepiped_cells
        super().__init__("Hexmesh", Element.CUBE, 3, hex_vertex_indices, positions, build_bvh)


@boundaries
class DeformedGeometry(Geometry):
    """The cells of a geometry where a field of vectors says, or displaced by it (`relative`)."""

    def __init__(self, field: Any, relative: bool = True, build_bvh: bool = False) -> None:
        base = field.geometry
        # What a function returns is found when a kernel calls it.
        if getattr(field, "dtype", None) not in (None, vector(base.dimension, base.scalar_type)):
            raise KernelTypeError(
                f"DeformedGeometry: field: expected vectors of {base.dimension}, got {field.dtype}",
                hint="its values are positions",
            )
        space = getattr(field, "space", None)
        if space is not None and space.shape.is_vector:
            raise KernelValueError(
                f"DeformedGeometry: field: expected positions that are continuous, got {space.shape.basis.name}",
                hint="interpolate it into a field of LAGRANGE",
            )
        if build_bvh:
            raise KernelValueError("DeformedGeometry: build_bvh: lookup is not available", hint="look up in the base")
        self.field, self._base, self._relative = field, base, relative
        self.element, self.dimension, self.scalar_type = base.element, base.dimension, base.scalar_type
        self.device = base.device

    @property
    def base(self) -> Geometry:
        return self._base.base

    @property
    def cells(self) -> np.ndarray:
        return self._base.cells

    @property
    def sides(self) -> Any:
        return self._base.sides

    @property
    def side_arguments(self) -> dict[str, Any]:
        return self._base.side_arguments

    def vertex_count(self) -> int:
        return self._base.vertex_count()

    def environment_count(self) -> int:
        return self._base.environment_count()

    def number_nodes(self, nodes: np.ndarray) -> tuple[np.ndarray, int]:
        return self._base.number_nodes(nodes)

    def number_lattice(self, nodes: np.ndarray) -> tuple[np.ndarray, int]:
        return self._base.number_lattice(nodes)

    @property
    def arguments(self) -> Any:
        field = self.field.arguments
        kind = deformed_kind(type(field), self._relative)
        return kind(field=field, **self.side_arguments)
