"""Reference elements: their vertices and sides, and the coordinates that samples have in them."""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.fem.types import vector


@dataclass(frozen=True)
class ReferenceElement:
    """An element of measure `measure`. Samples in triangles have three barycentric coordinates, in others those of the
    axes."""

    vertices: tuple[tuple[int, ...], ...]
    sides: tuple[tuple[int, ...], ...] = ()
    side_name: str = ""

    @property
    def dimension(self) -> int:
        return len(self.vertices[0])

    @property
    def is_simplex(self) -> bool:
        return len(self.vertices) == self.dimension + 1 and self.dimension > 1

    @property
    def measure(self) -> float:
        return 1.0 / math.factorial(self.dimension) if self.is_simplex else 1.0

    @functools.cached_property
    def side_normals(self) -> np.ndarray:
        """The outer unit normal of each side."""
        points = np.array(self.vertices, float)
        center = points.mean(0)
        found = []
        for side in self.sides:
            corners = points[list(side)]
            normal = np.linalg.svd(corners - corners.mean(0))[2][-1]
            found.append(normal * np.sign(normal @ (corners.mean(0) - center)))
        return np.array(found)


class Element(enum.Enum):
    """The shapes of cells and sides."""

    LINE_SEGMENT = ReferenceElement(((0,), (1,)))
    TRIANGLE = ReferenceElement(((0, 0), (1, 0), (0, 1)), ((0, 1), (1, 2), (2, 0)), "LINE_SEGMENT")
    SQUARE = ReferenceElement(((0, 0), (1, 0), (1, 1), (0, 1)), ((0, 1), (1, 2), (2, 3), (3, 0)), "LINE_SEGMENT")
    TETRAHEDRON = ReferenceElement(
        ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)), ((0, 2, 1), (1, 2, 3), (0, 1, 3), (0, 3, 2)), "TRIANGLE"
    )
    CUBE = ReferenceElement(
        ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)),
        ((0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7)),
        "SQUARE",
    )

    @property
    def side(self) -> Element:
        """The element that each side is."""
        return Element[self.value.side_name]

    @property
    def dimension(self) -> int:
        return self.value.dimension


def vertex_weights(element: Element, points: np.ndarray) -> np.ndarray:
    """Return the weight of each vertex at points of an element, of shape (points, vertices)."""
    vertices = np.array(element.value.vertices)
    if element.value.is_simplex:
        return np.concatenate([1.0 - points.sum(1, keepdims=True), points], axis=1)
    x = points[:, None, :]
    return np.where(vertices, x, 1.0 - x).prod(-1)


def to_sample(element: Element, points: np.ndarray) -> np.ndarray:
    """The coordinates that samples have: of shape (..., 3)."""
    if element is Element.TRIANGLE:
        points = np.concatenate([1.0 - points.sum(-1, keepdims=True), points], axis=-1)
    return np.concatenate([points, np.zeros((*points.shape[:-1], 3 - points.shape[-1]))], axis=-1)


@functools.cache
def local_function(element: Element, scalar: Any) -> Any:
    """Make the function that turns the coordinates of samples into those along the axes."""
    dimension = element.dimension
    made = vector(dimension, scalar)
    if element is Element.TRIANGLE:

        @wp.func
        def barycentric_to_local(coords: Any):
            return made(coords[1], coords[2])

        return barycentric_to_local

    @wp.func
    def to_local(coords: Any):
        x = made()
        for d in range(dimension):
            x[d] = coords[d]
        return x

    return to_local


@functools.cache
def coords_function(element: Element, scalar: Any) -> Any:
    """Make the function that turns the coordinates along the axes into those of samples."""
    dimension = element.dimension
    made = vector(3, scalar)
    if element is Element.TRIANGLE:

        @wp.func
        def local_to_barycentric(x: Any):
            return made(scalar(1.0) - x[0] - x[1], x[0], x[1])

        return local_to_barycentric

    @wp.func
    def to_coords(x: Any):
        coords = made()
        for d in range(dimension):
            coords[d] = x[d]
        return coords

    return to_coords


@functools.cache
def vertex_weight_function(element: Element, scalar: Any) -> Any:
    """`weight(x, k)` of a vertex, whose number is a constant where loops are unrolled."""
    vertices, dimension = element.value.vertices, element.dimension
    if element.value.is_simplex:

        @wp.func
        def barycentric(x: Any, k: int):
            weight = scalar(1.0)
            if k > 0:
                weight = x[k - 1]
            else:
                for d in range(dimension):
                    weight -= x[d]
            return weight

        return barycentric
    codes = tuple(sum(bit << d for d, bit in enumerate(v)) for v in vertices)
    code = sum(c << (4 * k) for k, c in enumerate(codes))

    @wp.func
    def multilinear(x: Any, k: int):
        bits = int(wp.int64(code) >> wp.int64(4 * k))
        weight = scalar(1.0)
        for d in range(dimension):
            weight *= wp.where((bits >> d) & 1 == 1, x[d], scalar(1.0) - x[d])
        return weight

    return multilinear


@functools.cache
def vertex_gradient_function(element: Element, scalar: Any) -> Any:
    """The derivatives of `weight(x, k)` by x."""
    vertices, dimension = element.value.vertices, element.dimension
    made = vector(dimension, scalar)
    if element.value.is_simplex:

        @wp.func
        def barycentric_gradient(x: Any, k: int):
            gradient = made(scalar(wp.where(k == 0, -1.0, 0.0)))
            for d in range(dimension):
                if k == d + 1:
                    gradient[d] = scalar(1.0)
            return gradient

        return barycentric_gradient
    codes = tuple(sum(bit << d for d, bit in enumerate(v)) for v in vertices)
    code = sum(c << (4 * k) for k, c in enumerate(codes))

    @wp.func
    def multilinear_gradient(x: Any, k: int):
        bits = int(wp.int64(code) >> wp.int64(4 * k))
        gradient = made(scalar(1.0))
        for d in range(dimension):
            is_high = (bits >> d) & 1 == 1
            for e in range(dimension):
                if e == d:
                    gradient[e] *= wp.where(is_high, scalar(1.0), scalar(-1.0))
                else:
                    gradient[e] *= wp.where(is_high, x[d], scalar(1.0) - x[d])
        return gradient

    return multilinear_gradient
