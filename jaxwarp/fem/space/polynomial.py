"""Quadrature formulas on an interval, and those of elements that are products of intervals or simplices."""

from __future__ import annotations

import enum
import functools
import itertools

import numpy as np

from jaxwarp.errors import KernelValueError
from jaxwarp.fem.geometry.reference import Element


class Polynomial(enum.Enum):
    """Families of points on the interval from 0 to 1."""

    GAUSS_LEGENDRE = 0
    LOBATTO_GAUSS_LEGENDRE = 1
    EQUISPACED_CLOSED = 2
    EQUISPACED_OPEN = 3


def is_closed(family: Polynomial) -> bool:
    """Return whether the ends of the interval are among the points."""
    return family in (Polynomial.LOBATTO_GAUSS_LEGENDRE, Polynomial.EQUISPACED_CLOSED)


@functools.cache
def quadrature_1d(point_count: int, family: Polynomial) -> tuple[np.ndarray, np.ndarray]:
    """Points from 0 to 1, and weights of sum 1, that are exact for polynomials of degree below `point_count`.

    Args:
        point_count: how many points.
        family: where they are.

    Raises:
        KernelValueError: there is no formula of so few points.
    """
    legendre = np.polynomial.legendre
    if point_count < (2 if is_closed(family) else 1):
        raise KernelValueError(f"quadrature_1d: point_count: expected more points for {family}, got {point_count}")
    match family:
        case Polynomial.GAUSS_LEGENDRE:
            points, weights = legendre.leggauss(point_count)
            return (points + 1) / 2, weights / 2
        case Polynomial.LOBATTO_GAUSS_LEGENDRE:  # the ends, and where the derivative of Legendre's polynomial is zero
            inner = legendre.Legendre.basis(point_count - 1).deriv().roots() if point_count > 2 else []
            points = (np.concatenate([[-1.0], np.sort(np.real(inner)), [1.0]]) + 1) / 2
        case Polynomial.EQUISPACED_CLOSED:
            points = np.linspace(0.0, 1.0, point_count)
        case Polynomial.EQUISPACED_OPEN:
            points = np.arange(1, point_count + 1) / (point_count + 1)
    # Weights that are exact for Legendre's polynomials, of which all but the first have the integral zero.
    exact = np.zeros(point_count)
    exact[0] = 1.0
    return points, np.linalg.solve(legendre.legvander(2 * points - 1, point_count - 1).T, exact)


def _point_count(order: int, family: Polynomial) -> int:
    """Return how many points integrate polynomials of degree `order` exactly."""
    if family is Polynomial.GAUSS_LEGENDRE:
        return max(1, order // 2 + 1)
    if family is Polynomial.LOBATTO_GAUSS_LEGENDRE:
        return max(2, order // 2 + 2)
    return max(2, 2 * (order // 2) + 1) if family is Polynomial.EQUISPACED_CLOSED else 2 * (order // 2) + 1


@functools.cache
def _jacobi(count: int, power: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss's formula from 0 to 1 with the weight (1 - x)^power, of sum 1: Golub and Welsch, Math. Comp. 23, 1969."""
    n, a = np.arange(count), float(power)
    diagonal = -a * a / ((2 * n + a) * (2 * n + a + 2)) if power else np.zeros(count)
    m = n[1:]
    beside = 4 * m**2 * (m + a) ** 2 / ((2 * m + a) ** 2 * ((2 * m + a) ** 2 - 1))
    found, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(np.sqrt(beside), 1) + np.diag(np.sqrt(beside), -1))
    return (found + 1) / 2, vectors[0] ** 2


@functools.cache
def element_quadrature(element: Element, order: int, family: Polynomial | None) -> tuple[np.ndarray, np.ndarray]:
    """Points along the axes of an element, and weights of sum 1, that are exact for polynomials of a degree.

    On simplices without a family: products of Gauss's formulas in the coordinates of a cube that is collapsed (Stroud,
    Approximate Calculation of Multiple Integrals, 1971, 2.5).
    """
    dimension = element.dimension
    if not element.value.is_simplex:
        points, weights = quadrature_1d(_point_count(order, family or Polynomial.GAUSS_LEGENDRE),
                                        family or Polynomial.GAUSS_LEGENDRE)  # fmt: skip
        return _product([points] * dimension), _product([weights] * dimension).prod(1)
    if order <= 1 and family is None:
        return np.full((1, dimension), 1.0 / (dimension + 1)), np.ones(1)
    if family is None:
        rules = [_jacobi(order // 2 + 1, dimension - 1 - d) for d in range(dimension)]
        cube, weights = _product([r[0] for r in rules]), _product([r[1] for r in rules]).prod(1)
    else:
        points, along = quadrature_1d(_point_count(order + dimension - 1, family), family)
        cube, weights = _product([points] * dimension), _product([along] * dimension).prod(1)
        weights = (
            weights
            / element.value.measure
            * np.prod([(1.0 - cube[:, d]) ** (dimension - 1 - d) for d in range(dimension)], axis=0)
        )
    collapsed, left = cube.copy(), np.ones(len(cube))
    for d in range(dimension):
        collapsed[:, d] = cube[:, d] * left
        left = left * (1.0 - cube[:, d])
    return collapsed, weights


def _product(parts: list[np.ndarray]) -> np.ndarray:
    return np.array(list(itertools.product(*parts)))
