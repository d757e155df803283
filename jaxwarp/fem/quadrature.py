"""Quadratures: points of a domain's elements, and their weights."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.fem.domain import GeometryDomain
from jaxwarp.fem.geometry.kinds import make_kind
from jaxwarp.fem.geometry.reference import to_sample
from jaxwarp.fem.space.polynomial import Polynomial, element_quadrature
from jaxwarp.fem.types import vector


@functools.cache
def quadrature_kind(scalar: Any) -> Any:
    """Points and weights, a row for all elements or one for each (`stride` 0 or 1)."""
    fields = {"points": wp.array2d[vector(3, scalar)], "weights": wp.array2d[scalar], "stride": int}
    return make_kind(f"Quadrature_{scalar}", fields, {})


class Quadrature:
    """Points in the elements of a domain. The weights of an element have the sum 1."""

    def __init__(self, domain: GeometryDomain) -> None:
        if not isinstance(domain, GeometryDomain):
            raise KernelTypeError(f"{type(self).__name__}: domain: expected a domain, got {type(domain).__name__}")
        self.domain = domain

    @property
    def points(self) -> Any:
        """Of shape (elements or 1, points)."""
        raise NotImplementedError

    @property
    def weights(self) -> Any:
        raise NotImplementedError

    def max_points_per_element(self) -> int:
        return self.points.shape[1]

    def total_point_count(self) -> int:
        return self.domain.element_count() * self.max_points_per_element()

    def evaluation_point_count(self) -> int:
        return self.total_point_count()

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


class RegularQuadrature(_Given):
    """The same formula in all elements.

    Args:
        domain: where.
        order: the degree of polynomials for which it is exact.
        family: which points; None: Gauss's.
    """

    def __init__(self, domain: GeometryDomain, order: int, family: Polynomial | None = None) -> None:
        if not isinstance(domain, GeometryDomain):
            raise KernelTypeError(f"RegularQuadrature: domain: expected a domain, got {type(domain).__name__}")
        self.order, self.family = order, family
        element = domain.reference_element()
        points, weights = element_quadrature(element, order, family)
        super().__init__(domain, to_sample(element, points)[None], weights[None])


class NodalQuadrature(_Given):
    """The nodes of a space in the elements, whose weights are the integrals of the shape functions."""

    def __init__(self, domain: GeometryDomain, space: Any) -> None:
        points, weights, _ = space.topology.nodal_points(domain)
        super().__init__(domain, points, weights)


class ExplicitQuadrature(Quadrature):
    """Points and weights of each element.

    Args:
        domain: where.
        points: coordinates in the elements, of shape (elements, points).
        weights: of the same shape, with the sum 1 in each element.
    """

    def __init__(self, domain: GeometryDomain, points: Any, weights: Any) -> None:
        super().__init__(domain)
        scalar = domain.geometry.scalar_type
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

    @property
    def points(self) -> Any:
        return self._points

    @property
    def weights(self) -> Any:
        return self._weights
