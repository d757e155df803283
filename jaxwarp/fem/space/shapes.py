"""Shape functions of elements: polynomials that are one at a node and zero at the others."""

from __future__ import annotations

import enum
import functools
import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import jaxwarp as wp
from jaxwarp.errors import KernelValueError
from jaxwarp.fem.geometry.reference import Element
from jaxwarp.fem.space.polynomial import Polynomial, element_quadrature, quadrature_1d
from jaxwarp.fem.types import require_integer, vector


class ElementBasis(enum.Enum):
    """Kinds of shape functions."""

    LAGRANGE = "P"
    SERENDIPITY = "S"
    NONCONFORMING_POLYNOMIAL = "dP"
    NEDELEC_FIRST_KIND = "N1"
    RAVIART_THOMAS = "RT"
    BSPLINE = "B"


MAX_DEGREE = 3


def _regular_simplex(dimension: int) -> np.ndarray:
    """The edges at a corner of the simplex with equal edges that is in a square or cube, about its center."""
    height = 0.75 if dimension == 2 else 2.0 / 3.0
    if dimension == 2:
        edge = 2.0 / np.sqrt(3.0) * height
        return np.array([[edge, 0.0], [edge / 2, height]])
    edge = np.sqrt(1.5) * height
    across = np.sqrt(3.0) / 2 * edge
    return np.array([[edge, 0.0, 0.0], [edge / 2, across, 0.0], [edge / 2, across / 3, height]])


@dataclass(frozen=True)
class ShapeFunctions:
    """The shape functions of an element.

    They are products of polynomials in one variable (`is_product`), whose coefficients are (node of the axis, power);
    or sums of monomials with given exponents, whose coefficients are (node, monomial). Variables are centered, 2 x - 1,
    so that coefficients are small.
    """

    element: Element
    degree: int
    basis: ElementBasis
    family: Polynomial

    is_vector: ClassVar[bool] = False
    """Whether the functions are vectors; see space/vectors.py."""

    pieces: ClassVar[int] = 1
    """In how many equal parts of an axis a product's factors are polynomials; the parts' coefficients follow."""

    @property
    def is_product(self) -> bool:
        return self.basis is ElementBasis.LAGRANGE and not self.element.value.is_simplex and self.degree > 0

    @functools.cached_property
    def nodes(self) -> np.ndarray:
        """The coordinates of the nodes along the axes."""
        dimension = self.element.dimension
        if self.degree == 0:
            return np.array(self.element.value.vertices, float).mean(0, keepdims=True)
        if self.is_product:
            return np.array(list(itertools.product(self._axis, repeat=dimension)))
        if self.basis is ElementBasis.SERENDIPITY and not self.element.value.is_simplex:
            grid = np.array(list(itertools.product(self._axis, repeat=dimension)))
            return grid[(np.minimum(grid, 1.0 - grid) > 1e-9).sum(1) <= 1]
        lattice = np.array([p for p in itertools.product(range(self.degree + 1), repeat=dimension)
                            if sum(p) <= self.degree], float) / self.degree  # fmt: skip
        if self.element.value.is_simplex:
            corners = np.array(self.element.value.vertices, float)
            return np.concatenate([corners, lattice[~(lattice == lattice.round()).all(1)]])
        # A simplex with equal edges about the center: its functions are all polynomials of the degree.
        return 0.5 + (lattice - 1.0 / (dimension + 1)) @ _regular_simplex(dimension)

    @functools.cached_property
    def _axis(self) -> np.ndarray:
        return quadrature_1d(self.degree + 1, self.family)[0]

    @functools.cached_property
    def exponents(self) -> tuple[tuple[int, ...], ...]:
        """The exponents of the monomials that span the functions, if the functions are not products."""
        dimension = self.element.dimension
        powers = itertools.product(range(self.degree + 1), repeat=dimension)
        if self.basis is ElementBasis.SERENDIPITY and not self.element.value.is_simplex:
            # Arnold and Awanou, Found. Comput. Math. 11, 2011: the superlinear degree, without factors of degree 1.
            return tuple(p for p in powers if sum(e for e in p if e > 1) <= self.degree)
        return tuple(p for p in powers if sum(p) <= self.degree)

    @functools.cached_property
    def coefficients(self) -> np.ndarray:
        if self.is_product:
            return np.linalg.inv(np.vander(2 * self._axis - 1, self.degree + 1, increasing=True)).T
        return np.linalg.inv(self._monomials(self.nodes)).T

    def _monomials(self, points: np.ndarray) -> np.ndarray:
        return np.stack([np.prod((2 * points - 1) ** np.array(e), axis=-1) for e in self.exponents], axis=-1)

    def values(self, points: np.ndarray) -> np.ndarray:
        """The functions at points: of shape (points, nodes)."""
        if not self.is_product:
            return self._monomials(points) @ self.coefficients.T
        axes = [self._along(points[:, d]) for d in range(points.shape[1])]
        made = axes[0]
        for other in axes[1:]:
            made = (made[:, :, None] * other[:, None, :]).reshape(len(points), -1)
        return made

    def _along(self, x: np.ndarray) -> np.ndarray:
        """The factors of products at coordinates of an axis: of shape (coordinates, nodes of the axis)."""
        powers = np.vander(2 * x - 1, self.degree + 1, increasing=True)
        pieces = self.coefficients.reshape(self.pieces, -1, self.degree + 1)
        which = np.clip(np.floor(x * self.pieces).astype(int), 0, self.pieces - 1)
        return np.einsum("xp,xip->xi", powers, pieces[which])

    def node_weights(self, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Weights of a quadrature at the nodes: the integrals of the functions, of sum 1.

        Where one would not be positive, those of the squares: Hinton, Rock and Zienkiewicz, Earthquake Eng. Struct.
        Dyn. 4, 1976.
        """
        values = self.values(points)
        found = weights @ values
        found = np.where(abs(found) < 1e-9, 0.0, found)
        used = (values**2).T @ weights > 1e-12
        if (found[used] <= 0.0).any():
            found = weights @ values**2
        return np.where(used, found, 0.0) / found[used].sum()

    def cell_weights(self) -> np.ndarray:
        return self.node_weights(*element_quadrature(self.element, 2 * self.degree, None))


class SplineFunctions(ShapeFunctions):
    """Uniform B-splines about the vertices of a grid, and of cells around it.

    Those of even degree are polynomials in each half of a cell.
    """

    @property
    def pieces(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 1 + (self.degree + 1) % 2

    @property
    def is_product(self) -> bool:
        return True

    @property
    def nodes(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.array(list(itertools.product(self._axis, repeat=self.element.dimension)))

    @property
    def _axis(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.arange(-(self.degree // 2), self.degree // 2 + 2, dtype=float)

    @functools.cached_property
    def coefficients(self) -> np.ndarray:
        made = []
        for piece in range(self.pieces):
            x = (piece + np.linspace(0.0, 1.0, self.degree + 1)) / self.pieces
            powers = np.vander(2 * x - 1, self.degree + 1, increasing=True)
            made.append(np.linalg.solve(powers, _spline(x[:, None] - self._axis, self.degree)).T)
        return np.concatenate(made)

    def cell_weights(self) -> np.ndarray:
        return np.full(len(self.nodes), 1.0 / len(self.nodes))


def _spline(x: np.ndarray, degree: int) -> np.ndarray:
    """The B-spline of a degree about 0, by the recursion of de Boor."""
    if degree == 0:
        return np.where((x >= -0.5) & (x < 0.5), 1.0, 0.0)
    half = (degree + 1) / 2
    return ((x + half) * _spline(x + 0.5, degree - 1) + (half - x) * _spline(x - 0.5, degree - 1)) / degree


@functools.cache
def make_shape(element: Element, degree: int, basis: ElementBasis | None, family: Polynomial | None) -> ShapeFunctions:
    """The shape functions of a degree.

    Raises:
        KernelValueError: there are none.
    """
    what = "make_polynomial_basis_space"
    degree = require_integer(f"{what}: degree", degree)
    if not 0 <= degree <= MAX_DEGREE:
        raise KernelValueError(f"{what}: degree: expected 0 to {MAX_DEGREE}, got {degree}", hint="use more cells")
    basis = basis or ElementBasis.LAGRANGE
    if basis is ElementBasis.BSPLINE:
        if element.value.is_simplex or degree == 0:
            raise KernelValueError(
                f"{what}: element_basis: BSPLINE has degrees 1 to {MAX_DEGREE} on grids, got {degree} on"
                f" {element.name.lower()}s",
                hint="use LAGRANGE, SERENDIPITY or NONCONFORMING_POLYNOMIAL",
            )
        return SplineFunctions(element, degree, basis, Polynomial.EQUISPACED_CLOSED)
    if basis is ElementBasis.SERENDIPITY and element.value.is_simplex and degree > 2:
        raise KernelValueError(f"{what}: degree: serendipity elements of simplices have at most degree 2, got {degree}")
    if degree == 1 and basis is ElementBasis.SERENDIPITY:
        basis = ElementBasis.LAGRANGE
    return ShapeFunctions(element, degree, basis, family or Polynomial.LOBATTO_GAUSS_LEGENDRE)


@functools.cache
def shape_functions(shape: ShapeFunctions, scalar: Any) -> tuple[Any, Any]:
    """`weight(coefficients, x, k)` and `weight_gradient(coefficients, x, k)`, by x."""
    return _products(shape, scalar) if shape.is_product else _sums(shape, scalar)


def _products(shape: ShapeFunctions, scalar: Any) -> tuple[Any, Any]:
    count, dimension = round(len(shape.nodes) ** (1.0 / shape.element.dimension)), shape.element.dimension
    along, slope = _factors(shape.degree + 1, count, shape.pieces, scalar)
    made = vector(dimension, scalar)

    @wp.func
    def axis_node(k: int, d: int):
        for _ in range(dimension - 1 - d):
            k = k // count
        return k % count

    @wp.func
    def weight(coefficients: Any, x: Any, k: int):
        value = scalar(1.0)
        for d in range(dimension):
            value *= along(coefficients, x[d], axis_node(k, d))
        return value

    @wp.func
    def weight_gradient(coefficients: Any, x: Any, k: int):
        values = made()
        for d in range(dimension):
            values[d] = along(coefficients, x[d], axis_node(k, d))
        gradient = made()
        for d in range(dimension):
            part = slope(coefficients, x[d], axis_node(k, d))
            for e in range(dimension):
                if e != d:
                    part *= values[e]
            gradient[d] = part
        return gradient

    return weight, weight_gradient


def _factors(terms: int, count: int, pieces: int, scalar: Any) -> tuple[Any, Any]:
    """Make the factors of products along an axis, of `count` nodes, and their derivatives."""

    @wp.func
    def row(x: Any, i: int):
        if wp.static(pieces == 1):
            return i
        else:
            return i + count * wp.clamp(int(wp.floor(x * scalar(pieces))), 0, pieces - 1)

    @wp.func
    def along(coefficients: Any, x: Any, i: int):
        t = scalar(2.0) * x - scalar(1.0)
        at = row(x, i)
        value = coefficients[at, terms - 1]
        for p in range(terms - 1):
            value = value * t + coefficients[at, terms - 2 - p]
        return value

    @wp.func
    def slope(coefficients: Any, x: Any, i: int):
        t = scalar(2.0) * x - scalar(1.0)
        at = row(x, i)
        value = coefficients[at, terms - 1] * scalar(2.0 * (terms - 1))
        for p in range(terms - 2):
            value = value * t + coefficients[at, terms - 2 - p] * scalar(
                2.0 * wp.static(float(terms - 2)) - 2.0 * float(p)
            )
        return value

    return along, slope


def _sums(shape: ShapeFunctions, scalar: Any) -> tuple[Any, Any]:
    exponents, dimension = shape.exponents, shape.element.dimension
    made = vector(dimension, scalar)

    @wp.func
    def weight(coefficients: Any, x: Any, k: int):
        value = scalar(0.0)
        for m in range(wp.static(len(exponents))):
            part = coefficients[k, m]
            for d in range(dimension):
                for _ in range(wp.static(exponents[m][d])):
                    part *= scalar(2.0) * x[d] - scalar(1.0)
            value += part
        return value

    @wp.func
    def weight_gradient(coefficients: Any, x: Any, k: int):
        gradient = made()
        for m in range(wp.static(len(exponents))):
            for along in range(dimension):
                part = coefficients[k, m] * scalar(wp.static(2.0 * exponents[m][along]))
                for d in range(dimension):
                    for _ in range(wp.static(max(exponents[m][d] - (1 if d == along else 0), 0))):
                        part *= scalar(2.0) * x[d] - scalar(1.0)
                gradient[along] += part
        return gradient

    return weight, weight_gradient
