"""The lookup of samples by position: the cell of a position, or the closest point of the cells."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.fem.geometry.reference import Element, coords_function
from jaxwarp.fem.types import matrix, sample_type, vector
from jaxwarp.types import float64


def _room(scalar: Any) -> float:
    """Return how far outside of a cell, in its coordinates, a point still counts as inside.

    Rounding can leave a point on a side that cells share outside of both cells. A sample that is moved to the side has
    no derivative across it.
    """
    return 1e-12 if scalar is float64 else 1e-6


@wp.func
def within(x: Any, low: Any, high: Any, room: Any):
    """Return `clamp(x, low, high)`, but x itself, with its derivative, at the ends and up to `room` beyond them."""
    above = low if x < low - room else x
    return high if above > high + room else above


@functools.cache
def grid_lookup(dimension: int, scalar: Any) -> Any:
    """Make the lookup in an environment of a grid."""
    made, sample = vector(3, scalar), sample_type(scalar)

    @wp.func
    def lookup(geometry: Any, position: Any, environment: int):
        coords = made()
        cell = environment
        for d in range(dimension):
            u = (position[d] - geometry.origin[d]) / geometry.cell_size[d]
            u = wp.clamp(u, scalar(0.0), scalar(geometry.res[d]))
            k = wp.min(int(u), geometry.res[d] - 1)
            coords[d] = u - scalar(k)
            cell = cell * geometry.res[d] + k
        for d in range(dimension):
            if wp.isnan(position[d]):
                cell = -1
        if environment < 0 or environment >= geometry.environments:
            cell = -1
        return sample(cell, coords)

    return lookup


@functools.cache
def grid_lookup_in(dimension: int, scalar: Any, lookup: Any, place: Any) -> Any:
    """Make the lookup in some cells of a grid: the cell of a position, or the closest point of the cells nearby.

    Nearby is up to `max_dist`, and at least half of the smallest edge.
    """
    made, sample = vector(3, scalar), sample_type(scalar)

    @wp.func
    def lookup_in(geometry: Any, elements: wp.array[int], position: Any, max_dist: scalar, environment: int):
        found = lookup(geometry, position, environment)
        if found.element_index < 0 or number_among(elements, found.element_index) >= 0:
            return found
        best_distance = wp.max(max_dist, wp.min(geometry.cell_size) * scalar(0.5))
        u = wp.cw_div(position - geometry.origin, geometry.cell_size)
        first = place(geometry, 0)
        width = place(geometry, 0)
        count = 1
        for d in range(dimension):
            reach = best_distance / geometry.cell_size[d]
            last = scalar(geometry.res[d] - 1)
            first[d] = int(wp.clamp(wp.floor(u[d] - reach), scalar(0.0), last))
            width[d] = int(wp.clamp(wp.floor(u[d] + reach), scalar(0.0), last)) - first[d] + 1
            count *= width[d]
        best = -1
        best_coords = made()
        for n in range(count):
            rest = n
            cell = environment
            x = made()
            beyond = position - position
            for d in range(dimension):
                k = first[d] + rest % width[d]
                rest = rest // width[d]
                cell = cell * geometry.res[d] + k
                x[d] = wp.clamp(u[d] - scalar(k), scalar(0.0), scalar(1.0))
                beyond[d] = (u[d] - scalar(k) - x[d]) * geometry.cell_size[d]
            distance = wp.length(beyond)
            if distance <= best_distance and number_among(elements, cell) >= 0:
                best_distance = distance
                best = cell
                best_coords = x
        return sample(best, best_coords)

    return lookup_in


@wp.func
def number_among(elements: wp.array[int], element: int):
    """Return the place of an element in a row of ascending ones, or -1."""
    at = wp.lower_bound(elements, element)
    found = -1
    if at < elements.shape[0] and elements[at] == element:
        found = at
    return found


@functools.cache
def mesh_lookup(element: Element, dimension: int, scalar: Any, position: Any, jacobian: Any) -> Any:
    """Searches boxes about the position, each larger than the one before, until one has a point that is not farther
    away than its border.

    Of cells that are equally far, it is one whose closest point moves in the most directions: beside the corner of one
    cell, the side of the next.
    """
    sample, coords_of = sample_type(scalar), coords_function(element, scalar)
    closest = _closest_point(element, scalar, position, jacobian)
    one, room = vector(element.dimension, scalar), _room(scalar)

    @wp.func
    def lookup(geometry: Any, point: Any):
        center = wp.vec3()
        for d in range(dimension):
            center[d] = float(point[d])
        best = -1
        best_x = one()
        most_free = 0
        best_distance = scalar(1.0e30)
        radius = float(geometry.extent) * 1.0e-4
        while best < 0 and radius < 1.0e30 and radius > 0.0:
            for cell in wp.bvh_query_aabb(geometry.bvh, center - wp.vec3(radius), center + wp.vec3(radius)):
                x, free = closest(geometry, cell, point)
                distance = wp.length(position(geometry, cell, x) - point)
                is_as_close = distance <= best_distance * scalar(1.0 + room) and free > most_free
                if distance < best_distance * scalar(1.0 - room) or is_as_close:
                    best_distance = distance
                    best = cell
                    best_x = x
                    most_free = free
            if best < 0:
                radius *= 4.0
            elif float(best_distance) > radius:  # a cell beside the box may be closer
                best = -1
                radius = float(best_distance) * 1.01
                best_distance = scalar(1.0e30)
        return sample(best, coords_of(best_x))

    return lookup


def _closest_point(element: Element, scalar: Any, position: Any, jacobian: Any) -> Any:
    """The coordinates of a cell's point that is closest to a position, and in how many directions it can move."""
    if element.value.is_simplex:
        return _closest_of_simplex(element, scalar, position, jacobian)
    dimension = element.dimension
    one, room = vector(dimension, scalar), _room(scalar)

    @wp.func
    def into(x: Any):
        for d in range(dimension):
            x[d] = within(x[d], scalar(0.0), scalar(1.0), scalar(room))
        return x

    @wp.func
    def closest(geometry: Any, cell: int, point: Any):
        x = one(scalar(0.5))
        for _ in range(8):  # Newton's method
            j = jacobian(geometry, cell, x)
            jt = wp.transpose(j)
            x = x + wp.inverse(jt * j) * (jt * (point - position(geometry, cell, x)))
        inside = into(x)
        free = dimension
        # Outside, descent along the cell: the metric of the cell is not that of its coordinates.
        if wp.length(inside - x) > scalar(room):
            j = jacobian(geometry, cell, inside)
            step = scalar(1.0) / wp.trace(wp.transpose(j) * j)
            for _ in range(64):
                r = point - position(geometry, cell, inside)
                inside = into(inside + wp.transpose(jacobian(geometry, cell, inside)) * r * step)
            free = 0
            for d in range(dimension):
                free += 1 if inside[d] > scalar(0.0) and inside[d] < scalar(1.0) else 0
        return inside, free

    return closest


def _closest_of_simplex(element: Element, scalar: Any, position: Any, jacobian: Any) -> Any:
    """The closest of the points that are closest on the planes of the faces, those that are in their face: on the cell
    itself, its faces, its edges and its vertices.

    A face that has its point hides its own edges and vertices, which may have the same: the derivative is the face's.
    """
    corners = range(element.dimension + 1)
    sets = [set(f) for n in reversed(corners) for f in itertools.combinations(corners, n + 1)]
    faces = tuple(_on_face(element, scalar, tuple(sorted(f))) for f in sets)
    parts = tuple(sum(1 << k for k, part in enumerate(sets) if part < f) for f in sets)
    one = vector(element.dimension, scalar)

    @wp.func
    def closest(geometry: Any, cell: int, point: Any):
        origin = one()
        j = jacobian(geometry, cell, origin)
        r = point - position(geometry, cell, origin)
        best = one()
        free = 0
        least = scalar(1.0e30)
        hidden = 0
        for n in range(wp.static(len(faces))):
            x, is_inside = faces[n](j, r)
            distance = wp.length_sq(r - j * x)
            if is_inside and ((hidden >> n) & 1) == 0:
                hidden |= wp.static(parts[n])
                if distance < least:
                    least = distance
                    best = x
                    free = wp.static(len(sets[n]) - 1)
        return best, free

    return closest


def _on_face(element: Element, scalar: Any, face: tuple[int, ...]) -> Any:
    """Make a function that finds the point of a face's plane that is closest to `r`.

    `r` is relative to the cell's first vertex. The function returns the point's coordinates, and whether they are in
    the face.
    """
    vertices = np.array(element.value.vertices, float)[list(face)]
    one = vector(element.dimension, scalar)
    start, size = one(*map(float, vertices[0])), len(face) - 1
    if size == 0:

        @wp.func
        def vertex(j: Any, r: Any):
            return start, True

        return vertex
    room = _room(scalar)
    axes = matrix(element.dimension, size, scalar)(*map(float, (vertices[1:] - vertices[0]).T.reshape(-1)))

    @wp.func
    def on_face(j: Any, r: Any):
        across = j * axes
        turned = wp.transpose(across)
        slope = turned * (r - j * start)
        gram = turned * across
        weights = slope / gram[0, 0] if wp.static(size == 1) else wp.inverse(gram) * slope
        total = scalar(0.0)
        is_inside = wp.bool(True)
        for d in range(size):
            total += weights[d]
            is_inside = is_inside and weights[d] >= -scalar(room)
        return start + axes * weights, is_inside and total <= scalar(1.0 + room)

    return on_face
