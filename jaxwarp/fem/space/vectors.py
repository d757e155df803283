"""Shape functions that are vectors: those of Raviart and Thomas at sides, and of Nedelec's first kind at edges.

Both have the lowest degree, which is 1 in Warp: Raviart and Thomas, Lecture Notes in Mathematics 606, 1977; Nedelec,
Numer. Math. 35, 1980. A degree of freedom is the flux through a side, or the circulation along an edge. They are found
from the span of the functions, as polynomials that have one at their own side, or edge, and zero at the others: their
normal part is constant on sides, and the tangential part on edges, so that the value at the center says it.

Vectors of the element become those of a cell by Piola's maps, which keep fluxes, or circulations: J u / |det J|, and
J^-T u, where J is the derivative of the position (Boffi, Brezzi and Fortin, Mixed Finite Element Methods, 2013, 2.1).
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

from jaxwarp.errors import KernelValueError
from jaxwarp.fem.geometry.reference import Element
from jaxwarp.fem.space.polynomial import Polynomial
from jaxwarp.fem.space.shapes import ElementBasis, ShapeFunctions
from jaxwarp.fem.types import require_integer

VECTOR_BASES = (ElementBasis.RAVIART_THOMAS, ElementBasis.NEDELEC_FIRST_KIND)


@functools.cache
def edges(element: Element) -> np.ndarray:
    """The two vertices of each edge."""
    vertices = np.array(element.value.vertices)
    pairs = itertools.combinations(range(len(vertices)), 2)
    is_simplex = element.value.is_simplex
    return np.array([p for p in pairs if is_simplex or abs(vertices[p[0]] - vertices[p[1]]).sum() == 1])


class VectorShapeFunctions(ShapeFunctions):
    """The vector shape functions of an element.

    Coefficients are those of monomials, with a row for each component of each function.
    """

    is_vector = True

    @property
    def is_product(self) -> bool:
        return False

    @property
    def is_flux(self) -> bool:
        """Return whether degrees of freedom are fluxes through sides; else they are circulations along edges."""
        return self.basis is ElementBasis.RAVIART_THOMAS

    @functools.cached_property
    def _supports(self) -> np.ndarray:
        return np.array(self.element.value.sides) if self.is_flux else edges(self.element)

    @functools.cached_property
    def nodes(self) -> np.ndarray:
        """The centers of sides, or of edges."""
        return np.array(self.element.value.vertices, float)[self._supports].mean(1)

    @functools.cached_property
    def axes(self) -> np.ndarray:
        """The outer normal of each side, whose length is its measure, or the vector along each edge."""
        corners = np.array(self.element.value.vertices, float)[self._supports]
        along = corners[:, 1] - corners[:, 0]
        if not self.is_flux:
            return along
        side = self.element.side.value
        measure = side.measure
        if self.element.dimension == 3:
            measure = measure * np.linalg.norm(np.cross(along, corners[:, -1] - corners[:, 0]), axis=1)
        else:
            measure = measure * np.linalg.norm(along, axis=1)
        return self.element.value.side_normals * measure[:, None]

    @functools.cached_property
    def exponents(self) -> tuple[tuple[int, ...], ...]:
        powers = itertools.product(range(2), repeat=self.element.dimension)
        is_linear = self.is_flux or self.element.value.is_simplex
        return tuple(p for p in powers if not is_linear or sum(p) <= 1)

    @functools.cached_property
    def coefficients(self) -> np.ndarray:
        dimension, exponents = self.element.dimension, self.exponents
        constant, linear = (0,) * dimension, [tuple(int(i == d) for i in range(dimension)) for d in range(dimension)]
        span = []
        for c in range(dimension):
            for m, e in enumerate(exponents):
                if self.element.value.is_simplex:
                    is_in = e == constant
                else:
                    is_in = e in (constant, linear[c]) if self.is_flux else e[c] == 0
                if is_in:
                    one = np.zeros((dimension, len(exponents)))
                    one[c, m] = 1.0
                    span.append(one)
        if self.element.value.is_simplex:
            at = [exponents.index(e) for e in linear]  # monomials are of 2 x - 1, which spans the same with constants
            if self.is_flux:
                one = np.zeros((dimension, len(exponents)))
                one[range(dimension), at] = 1.0
                span.append(one)
            else:
                for a, b in itertools.combinations(range(dimension), 2):
                    one = np.zeros((dimension, len(exponents)))
                    one[a, at[b]], one[b, at[a]] = 1.0, -1.0
                    span.append(one)
        found = np.array(span)
        functionals = np.einsum("fcm,km,kc->fk", found, self._monomials(self.nodes), self.axes)
        made = np.einsum("kf,fcm->kcm", np.linalg.inv(functionals), found)
        return made.reshape(-1, len(exponents))

    def cell_weights(self) -> np.ndarray:
        return np.full(len(self.nodes), 1.0 / len(self.nodes))

    def signs(self, cells: np.ndarray, table: np.ndarray) -> np.ndarray:
        """The orientation in each cell of its sides, or edges: 1, or -1.

        A flux goes out of the first cell at a side, as `fem.normal` does; a circulation from the lower vertex.
        """
        if not self.is_flux:
            ends = cells[:, self._supports]
            return np.where(ends[:, :, 0] < ends[:, :, 1], 1.0, -1.0)
        found = np.full(table.size, -1.0)
        found[np.unique(table, return_index=True)[1]] = 1.0
        return found.reshape(table.shape)


@functools.cache
def make_vector_shape(
    element: Element, degree: int, basis: ElementBasis, family: Polynomial | None
) -> VectorShapeFunctions:
    """The vector shape functions of an element; `family` has no effect.

    Raises:
        KernelValueError: the degree is not 1.
    """
    what = "make_polynomial_basis_space: degree"
    if require_integer(what, degree) != 1:
        raise KernelValueError(f"{what}: expected 1 for {basis.name}, got {degree}", hint="use more cells")
    return VectorShapeFunctions(element, 1, basis, family or Polynomial.LOBATTO_GAUSS_LEGENDRE)
