"""Quadratures: points of a domain's elements, and their weights."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.fem.domain import GeometryDomain, same_sides
from jaxwarp.fem.geometry.kinds import make_kind
from jaxwarp.fem.geometry.reference import to_sample
from jaxwarp.fem.space.polynomial import Polynomial, element_quadrature
from jaxwarp.fem.space.spaces import FunctionSpace
from jaxwarp.fem.types import ElementKind, require_integer, vector


@functools.cache
def quadrature_kind(scalar: Any) -> Any:
    """Points and weights, a row for all elements or one for each (`stride` 0 or 1)."""

    @wp.func
    def point_count(points: Any, element: int):
        return points.weights.shape[1]

    @wp.func
    def point_at(points: Any, element: int, e: int, q: int):
        row = e * points.stride
        return points.points[row, q], points.weights[row, q], e * points.weights.shape[1] + q

    fields = {"points": wp.array2d[vector(3, scalar)], "weights": wp.array2d[scalar], "stride": int}
    return make_kind(f"Quadrature_{scalar}", fields, {"point_count": point_count, "point_at": point_at})


def require_domain(what: str, domain: Any) -> GeometryDomain:
    if not isinstance(domain, GeometryDomain):
        raise KernelTypeError(f"{what}: domain: expected a domain, got {type_text(domain)}")
    return domain


@boundaries
class Quadrature:
    """Points and weights in the elements of a domain. The weights of each element have the sum 1."""

    has_repeated_points = False
    """Whether a point may be in several elements."""

    def __init__(self, domain: GeometryDomain) -> None:
        self.domain = require_domain(type(self).__name__, domain)

    @property
    def points(self) -> Any:
        """The points, of shape (elements or 1, points)."""
        raise NotImplementedError

    @property
    def weights(self) -> Any:
        raise NotImplementedError

    def max_points_per_element(self) -> int:
        return self.points.shape[1]

    def total_point_count(self) -> int:
        """Return the number of points. `s.qp_index` is below it."""
        return self.domain.element_count() * self.max_points_per_element()

    def evaluation_point_count(self) -> int:
        """Return how many points the elements have. A point that is in several of them counts in each."""
        return self.total_point_count()

    def point_numbers(self, by_evaluation: bool = False) -> np.ndarray:
        """Return the numbers of the points of each element; -1 where an element has fewer than others.

        Args:
            by_evaluation: whether they are counted in the order of the elements, so that a point that is in several of
                them has several numbers.
        """
        del by_evaluation
        return np.arange(self.total_point_count(), dtype=np.int32).reshape(-1, self.max_points_per_element())

    @property
    def arguments(self) -> Any:
        kind = quadrature_kind(self.domain.geometry.scalar_type)
        return kind(points=self.points, weights=self.weights, stride=int(self.points.shape[0] != 1))


class _Given(Quadrature):
    """Points and weights that are computed on the host, of shape (elements or 1, points)."""

    def __init__(self, domain: GeometryDomain, coords: np.ndarray, weights: np.ndarray) -> None:
        super().__init__(domain)
        scalar, device = domain.geometry.scalar_type, domain.geometry.device
        self._points = wp.array(coords, dtype=vector(3, scalar), device=device)
        self._weights = wp.array(weights, dtype=scalar, device=device)

    @property
    def points(self) -> Any:
        return self._points

    @property
    def weights(self) -> Any:
        return self._weights


@boundaries
class RegularQuadrature(_Given):
    """A quadrature with the same points and weights in all elements.

    Args:
        domain: the domain.
        order: the degree of polynomials for which the quadrature is exact.
        family: the family of points. None: Gauss's.
    """

    def __init__(self, domain: GeometryDomain, order: int, family: Polynomial | None = None) -> None:
        element = require_domain("RegularQuadrature", domain).reference_element()
        order = require_integer("RegularQuadrature: order", order)
        if order < 0:
            raise KernelValueError(f"RegularQuadrature: order: expected a degree of polynomials, got {order}")
        self.order, self.family = order, family
        points, weights = element_quadrature(element, order, family)
        super().__init__(domain, to_sample(element, points)[None], weights[None])


@boundaries
class NodalQuadrature(Quadrature):
    """A quadrature at the nodes of a space. The weights are the integrals of the shape functions."""

    def __init__(self, domain: GeometryDomain, space: Any) -> None:
        super().__init__(domain)
        if not isinstance(space, FunctionSpace) or space.geometry.base is not domain.geometry.base:
            raise KernelTypeError("NodalQuadrature: space: expected a function space of the domain's geometry")
        self._space = space
        self._made: tuple[Any, Any, Any] | None = None

    def _arrays(self) -> tuple[Any, Any, Any]:
        """The elements that they are of, points and weights."""
        domain = self.domain
        elements = domain.elements
        if self._made is None or self._made[0] is not elements:
            self._made = (elements, *self._space.topology.nodal_arrays(domain)[:2])
        return self._made

    @property
    def points(self) -> Any:
        return self._arrays()[1]

    @property
    def weights(self) -> Any:
        return self._arrays()[2]


@boundaries
class ExplicitQuadrature(Quadrature):
    """Points and weights of each element.

    Args:
        domain: the domain.
        points: coordinates in the elements, of shape (elements, points).
        weights: of the same shape, with the sum 1 in each element.
    """

    def __init__(self, domain: GeometryDomain, points: Any, weights: Any) -> None:
        super().__init__(domain)
        scalar = domain.geometry.scalar_type
        for name, given in (("points", points), ("weights", weights)):
            if not isinstance(given, HostArray):
                raise KernelTypeError(
                    f"ExplicitQuadrature: {name}: expected an array outside of JAX, got {type_text(given)}",
                    hint="make it with wp.array",
                )
        expected = (domain.element_count(), points.shape[1] if points.ndim == 2 else 0)
        if points.shape != expected or weights.shape != expected:
            raise KernelValueError(
                f"ExplicitQuadrature: expected points and weights of shape (elements, points), got {points.shape} and"
                f" {weights.shape} for {expected[0]} elements"
            )
        if points.dtype != vector(3, scalar) or weights.dtype != scalar:
            raise KernelTypeError(
                f"ExplicitQuadrature: expected points of {vector(3, scalar)} and weights of {scalar}, got"
                f" {points.dtype} and {weights.dtype}"
            )
        self._points, self._weights = points, weights
        self._elements = domain.elements
        self._sides = None if domain.element_kind is ElementKind.CELL else domain.geometry.sides

    @property
    def points(self) -> Any:
        now = None if self._sides is None else self.domain.geometry.sides
        if now is not self._sides:
            elements = self.domain.elements
            if not np.array_equal(elements, self._elements) or not same_sides(self._sides, now, elements):
                raise KernelValueError(
                    "ExplicitQuadrature: the indices of the mesh have changed since points were given for its sides",
                    hint="make the quadrature anew",
                )
            self._sides = now
        return self._points

    @property
    def weights(self) -> Any:
        return self._weights
