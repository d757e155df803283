"""Spaces whose nodes are the points of a quadrature, and whose functions depend on the distance from them."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.fem.domain import GeometryDomain
from jaxwarp.fem.geometry.kinds import make_kind
from jaxwarp.fem.geometry.reference import Element
from jaxwarp.fem.quadrature import Quadrature
from jaxwarp.fem.space.spaces import BasisSpace
from jaxwarp.fem.space.topology import SpaceTopology
from jaxwarp.fem.types import ElementKind, require_integer, vector
from jaxwarp.fem.values import struct_of_values
from jaxwarp.frontend.text.functions import Func


class _PointBasis(enum.Enum):
    REFERENCE = "Point"
    WORLD = "WorldPoint"


@dataclass(frozen=True)
class PointFunctions:
    """The functions of nodes that are points of a quadrature."""

    element: Element
    function: Func
    gradient: Func | None
    names: tuple[str, ...]
    """The names of the values that both functions take."""
    distance: Any
    """The type of the squared distance."""
    is_world: bool
    points: Any
    """The struct of the points."""
    values: Any
    """The struct of the values."""

    degree = 0
    is_vector = False

    @property
    def basis(self) -> _PointBasis:
        return _PointBasis.WORLD if self.is_world else _PointBasis.REFERENCE

    @property
    def kind(self) -> Any:
        """The struct of all that the functions need."""
        return _coefficients_kind(self.points, self.values)


@functools.cache
def _coefficients_kind(points: Any, values: Any) -> Any:
    """`places` has the place in the quadrature's domain of each cell, or 0 for cells outside of it."""
    return make_kind(f"Points_{points.__name__}", {"points": points, "values": values, "places": wp.array[int]}, {})


@wp.func
def _is_near(squared_distance: float, point: int, squared_radius: float):
    return wp.where(squared_distance < squared_radius, 1.0, 0.0)


@functools.cache
def _gather_kernel(points: Any, scalar: Any) -> Any:
    point_at = points.FUNCTIONS["point_at"]

    @wp.kernel
    def gather(given: points, cells: wp.array[int], places: wp.array[int], nodes: wp.array2d[int],
               coords: wp.array2d[vector(3, scalar)], weights: wp.array2d[scalar]):  # fmt: skip
        e, k = wp.tid()
        cell = cells[e]
        if nodes[cell, k] >= 0:
            at, weight, _ = point_at(given, cell, places[cell], k)
            coords[e, k] = at
            weights[e, k] = weight

    return gather


@boundaries
class PointTopology(SpaceTopology):
    """The nodes of cells that are points of a quadrature."""

    shape: Any

    def __init__(self, quadrature: Quadrature, shape: PointFunctions, limit: int, by_evaluation: bool) -> None:
        made: Any = shape
        super().__init__(quadrature.domain.geometry, made, not quadrature.has_repeated_points or by_evaluation)
        self._quadrature, self._domain, self.values = quadrature, quadrature.domain, None
        self._limit, self._by_evaluation = limit, by_evaluation

    @property
    def _numbered(self) -> tuple[np.ndarray, int]:
        cells, found = self._made
        if self._quadrature.domain is not self._domain or cells is not self.geometry.cells:
            raise KernelValueError(
                "the domain of a quadrature has changed since its points became the nodes of a space",
                hint="make the space anew, and its fields",
            )
        return found

    def _numbers(self) -> tuple[np.ndarray, int]:
        quadrature = self._quadrature
        numbers = quadrature.point_numbers(self._by_evaluation)
        numbers = numbers if self._limit < 0 else numbers[:, : self._limit]
        table = np.full((self.geometry.cell_count(), max(numbers.shape[1], 1)), -1, np.int32)
        table[self._domain.elements, : numbers.shape[1]] = numbers
        count = quadrature.evaluation_point_count() if self._by_evaluation else quadrature.total_point_count()
        return table, count

    @property
    def MAX_NODES_PER_ELEMENT(self) -> int:
        """The most nodes that a cell has."""
        return self.table.shape[1]

    @functools.cached_property
    def _places(self) -> Any:
        places = np.zeros(self.geometry.cell_count(), np.int32)
        places[self._domain.elements] = np.arange(self._domain.element_count())
        return self.geometry.integers(places)

    @property
    def coefficients(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.shape.kind(points=self._quadrature.arguments, values=self.values, places=self._places)

    def nodal_arrays(self, domain: GeometryDomain) -> tuple[Any, Any, np.ndarray]:
        if domain.element_kind is ElementKind.SIDE:
            raise KernelValueError("the nodes of a PointBasisSpace are in cells, not on sides", hint="pass cells")
        geometry, points = self.geometry, self._quadrature.arguments
        is_used = self.table[domain.elements] >= 0
        scalar = geometry.scalar_type
        needs = any(a.requires_grad for a in vars(points).values() if isinstance(a, HostArray))
        made = [wp.zeros(is_used.shape, dtype=dtype, device=geometry.device, requires_grad=needs)
                for dtype in (vector(3, scalar), scalar)]  # fmt: skip
        wp.launch(_gather_kernel(type(points), scalar), is_used.shape,
                  [points, domain.element_array, self._places, self.array], made, device=geometry.device)  # fmt: skip
        return made[0], made[1], is_used


@boundaries
class PointBasisSpace(BasisSpace):
    """A basis whose nodes are the points of a quadrature: a node's function depends on the distance from its point.

    A function is zero outside of the cells that its point is in.

    Args:
        quadrature: the points, in all cells of a geometry or of a part of one.
        kernel_func: a `@wp.func` of the squared distance, the index of the point, and values by their names. None: one
            at the point, within 0.001, and zero elsewhere.
        kernel_grad_func: the derivative of `kernel_func` by the squared distance, of the same arguments; None: zero.
        kernel_values: the values.
        distance_space: "reference": the distance is that of coordinates in the element; "world": that of positions.
        max_nodes_per_element: how many points of a cell have a function; -1: all.
        use_evaluation_point_index: whether nodes are numbered in the order of cells, and a point that is in several
            cells is a node in each; else the number of a node is that of its point.

    Raises:
        KernelTypeError, KernelValueError: the arguments are not that.
    """

    def __init__(
        self, quadrature: Quadrature, kernel_func: Any = None, kernel_grad_func: Any = None,
        kernel_values: Mapping[str, Any] | None = None, distance_space: str = "reference",
        max_nodes_per_element: int = -1, use_evaluation_point_index: bool = False,
    ) -> None:  # fmt: skip
        what = "PointBasisSpace"
        if not isinstance(quadrature, Quadrature):
            raise KernelTypeError(f"{what}: quadrature: expected a quadrature, got {type_text(quadrature)}")
        domain = quadrature.domain
        is_all = domain.element_kind is ElementKind.CELL and np.array_equal(
            domain.elements, domain.geometry_partition.cells
        )
        if not is_all:
            raise KernelValueError(
                f"{what}: quadrature: expected points in all cells of a geometry, or of a part of one",
                hint="make the quadrature with fem.Cells(geometry)",
            )
        if distance_space not in ("reference", "world"):
            raise KernelValueError(f"{what}: distance_space: expected 'reference' or 'world', got {distance_space!r}")
        limit = require_integer(f"{what}: max_nodes_per_element", max_nodes_per_element)
        for name, given in (("kernel_func", kernel_func), ("kernel_grad_func", kernel_grad_func)):
            if not (given is None or isinstance(given, Func)):
                raise KernelTypeError(f"{what}: {name}: expected a @wp.func, got {type_text(given)}")
        if kernel_func is None:
            if kernel_grad_func is not None or kernel_values:
                raise KernelValueError(f"{what}: kernel_func: expected a function, as its gradient or values are given")
            kernel_func, kernel_values = _is_near, {"squared_radius": 1e-6}
        parameters = kernel_func.overloads[-1].parameters
        if len(parameters) < 2 or parameters[1].pattern not in (Any, wp.int32):
            raise KernelTypeError(
                f"{what}: kernel_func: expected a function of the squared distance and of the index of a point"
            )
        self._declared = {p.name: p.pattern for p in parameters}
        values = struct_of_values(what, self._declared, dict(kernel_values or {}))
        first, scalar = parameters[0].pattern, domain.geometry.scalar_type
        shape = PointFunctions(
            domain.reference_element(), kernel_func, kernel_grad_func, tuple(kernel_values or {}),
            first if first in (wp.float32, wp.float64) else scalar, distance_space == "world",
            type(quadrature.arguments), type(values),
        )  # fmt: skip
        topology = PointTopology(quadrature, shape, limit, use_evaluation_point_index)
        topology.values = values
        self.geometry, self.shape, self.topology = domain.geometry, shape, topology
        self._values = dict(kernel_values or {})

    @property
    def kernel_values(self) -> dict[str, Any]:
        """The values that the functions take. You may set others of the same names and types."""
        return self._values

    @kernel_values.setter
    def kernel_values(self, values: Mapping[str, Any]) -> None:
        made = struct_of_values("PointBasisSpace: kernel_values", self._declared, dict(values))
        if type(made) is not self.shape.values:
            raise KernelTypeError(
                f"PointBasisSpace: kernel_values: expected {', '.join(self.shape.names) or 'none'} of the same types",
                hint="make another space",
            )
        self._values, self.topology.values = dict(values), made
