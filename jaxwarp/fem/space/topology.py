"""The nodes of cells, and which of them are shared."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelValueError
from jaxwarp.fem.domain import GeometryDomain
from jaxwarp.fem.geometry.geometries import Geometry
from jaxwarp.fem.geometry.reference import to_sample, vertex_weights
from jaxwarp.fem.space.polynomial import element_quadrature
from jaxwarp.fem.space.shapes import ElementBasis, ShapeFunctions
from jaxwarp.fem.space.vectors import VectorShapeFunctions
from jaxwarp.fem.types import ElementKind, vector


@boundaries
class SpaceTopology:
    """The nodes of cells, and which of them are shared."""

    def __init__(self, geometry: Geometry, shape: ShapeFunctions, discontinuous: bool) -> None:
        self.geometry, self.shape = geometry, shape
        self.is_discontinuous = discontinuous or shape.degree == 0
        self._array: Any = None
        self._signs: Any = None

    @property
    def _numbered(self) -> tuple[np.ndarray, int]:
        cells, found = self._made
        if cells is not self.geometry.cells and not self.is_discontinuous:
            raise KernelValueError(
                "the indices of a mesh have changed since nodes of a space were numbered by them",
                hint="make the space anew, and its fields",
            )
        return found

    @functools.cached_property
    def _made(self) -> tuple[Any, tuple[np.ndarray, int]]:
        """The cells, and the nodes of each."""
        return self.geometry.cells, self._numbers()

    def _numbers(self) -> tuple[np.ndarray, int]:
        count, per_cell = self.geometry.cell_count(), len(self.shape.nodes)
        if self.shape.basis is ElementBasis.BSPLINE:
            return self.geometry.number_lattice(self.shape.nodes.astype(int))
        if self.is_discontinuous:
            return np.arange(count * per_cell, dtype=np.int32).reshape(count, per_cell), count * per_cell
        return self.geometry.number_nodes(self.shape.nodes)

    @property
    def table(self) -> np.ndarray:
        """The number of each node of each cell."""
        return self._numbered[0]

    def node_count(self) -> int:
        return self._numbered[1]

    @property
    def MAX_NODES_PER_ELEMENT(self) -> int:
        """The number of nodes of a cell."""
        return len(self.shape.nodes)

    @property
    def array(self) -> Any:
        """The table, for kernels."""
        table = self.table  # which is refused where it is out of date
        if self._array is None:
            self._array = self.geometry.integers(table)
        return self._array

    @property
    def orientation(self) -> dict[str, Any]:
        """The signs of the nodes of each cell, for kinds of vector elements, which have them."""
        shape, geometry, table = self.shape, self.geometry, self.table
        if not isinstance(shape, VectorShapeFunctions):
            return {}
        if self._signs is None:
            found = shape.signs(geometry.cells, table)
            self._signs = wp.array(found, dtype=geometry.scalar_type, device=geometry.device)
        return {"signs": self._signs}

    @functools.cached_property
    def coefficients(self) -> Any:
        return wp.array(self.shape.coefficients, dtype=self.geometry.scalar_type, device=self.geometry.device)

    def rebuild(self, device: Any = None, temporary_store: Any = None) -> None:
        """Numbers the nodes anew where the cells of the geometry have changed. Fields have to be made anew, then."""
        del device, temporary_store
        self.__dict__.pop("_made", None)
        self._array = self._signs = None

    def element_nodes(self, domain: GeometryDomain) -> np.ndarray:
        """The nodes of each element of a domain; on sides those of the inner cell, then those of the outer one.

        At the boundary, where there is no outer cell, -1.
        """
        if domain.element_kind is ElementKind.CELL:
            return self.table[domain.elements]
        inner, outer = self.geometry.sides.cells[domain.elements].T
        return np.concatenate([self.table[inner], np.where((inner == outer)[:, None], -1, self.table[outer])], 1)

    def nodal_arrays(self, domain: GeometryDomain) -> tuple[Any, Any, np.ndarray]:
        """The coordinates of nodes in the elements of a domain, weights there, and which of them there are.

        All are of shape (elements or 1, points).
        """
        points, weights, _ = self.nodal_points(domain)
        scalar, device = self.geometry.scalar_type, self.geometry.device
        return (wp.array(points, dtype=vector(3, scalar), device=device),
                wp.array(weights, dtype=scalar, device=device), weights > 0.0)  # fmt: skip

    def nodal_points(self, domain: GeometryDomain) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The coordinates of nodes in the elements of a domain, weights there, and the nodes' numbers in elements.

        All are of shape (elements or 1, points). Those of weight 0 are not in a side, and have no coordinates.
        """
        shape = self.shape
        if domain.element_kind is ElementKind.CELL:
            points = to_sample(shape.element, shape.nodes)[None]
            return points, shape.cell_weights()[None], np.arange(len(shape.nodes))[None]
        sides = self.geometry.sides
        width = sides.corners.shape[1] // 2
        kinds, which = np.unique(sides.corners[domain.elements, :width], axis=0, return_inverse=True)
        made = [self._side_points(corners) for corners in kinds]
        if not made:
            empty = np.zeros((0, len(shape.nodes)))
            return np.zeros((*empty.shape, 3)), empty, np.zeros(empty.shape, int)
        points, weights = (np.stack([m[k] for m in made])[which.reshape(-1)] for k in range(2))
        return points, weights, np.broadcast_to(np.arange(len(shape.nodes)), weights.shape)

    def _side_points(self, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the points and weights of the side that has these corners of the inner cell."""
        shape, side = self.shape, self.shape.element.side
        if shape.basis is ElementBasis.BSPLINE:
            raise KernelValueError(
                "the nodes of B-splines are not those of sides",
                hint="integrate with a RegularQuadrature, or interpolate at cells",
            )
        vertices = np.array(shape.element.value.vertices, float)[corners]
        along, weights = element_quadrature(side, 2 * shape.degree, None)
        if shape.degree == 0:
            center = np.array(side.value.vertices, float).mean(0, keepdims=True)
            return to_sample(side, center), np.ones(1)
        axes = np.stack([vertices[list(side.value.vertices).index(tuple(int(i == d) for i in range(side.dimension)))]
                         - vertices[0] for d in range(side.dimension)])  # fmt: skip
        local = (shape.nodes - vertices[0]) @ np.linalg.pinv(axes)
        is_inside = np.abs(local @ axes + vertices[0] - shape.nodes).max(1) < 1e-9
        if shape.basis is ElementBasis.NONCONFORMING_POLYNOMIAL and not shape.element.value.is_simplex:
            is_inside[:] = False  # a corner of its simplex touches a side
        if shape.is_vector:
            found = np.full(len(is_inside), 1.0 / is_inside.sum())
        else:
            found = shape.node_weights(vertex_weights(side, along) @ vertices, weights)
        return to_sample(side, np.where(is_inside[:, None], local, 0.0)), np.where(is_inside, found, 0.0)
