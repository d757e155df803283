"""From positions to samples: the cell of a position, or the closest point of the cells."""

from __future__ import annotations

import functools
from typing import Any

import jaxwarp as wp
from jaxwarp.fem.geometry.reference import Element, coords_function
from jaxwarp.fem.types import sample_type, vector


@functools.cache
def grid_lookup(dimension: int, scalar: Any) -> Any:
    made, sample = vector(3, scalar), sample_type(scalar)

    @wp.func
    def lookup(geometry: Any, position: Any):
        coords = made()
        cell = 0
        for d in range(dimension):
            u = (position[d] - geometry.origin[d]) / geometry.cell_size[d]
            u = wp.clamp(u, scalar(0.0), scalar(geometry.res[d]))
            k = wp.min(int(u), geometry.res[d] - 1)
            coords[d] = u - scalar(k)
            cell = cell * geometry.res[d] + k
        return sample(cell, coords)

    return lookup


@functools.cache
def mesh_lookup(element: Element, dimension: int, scalar: Any, position: Any, jacobian: Any) -> Any:
    """Searches boxes about the position, each twice as large as the one before, until one has a point that is not
    farther away than its border."""
    sample, coords_of = sample_type(scalar), coords_function(element, scalar)
    closest = _closest_point(element, scalar, position, jacobian)
    one = vector(element.dimension, scalar)

    @wp.func
    def lookup(geometry: Any, point: Any):
        center = wp.vec3()
        for d in range(dimension):
            center[d] = float(point[d])
        best = -1
        best_x = one()
        best_distance = scalar(1.0e30)
        radius = float(geometry.extent) * 1.0e-4
        while best < 0 and radius < 1.0e30 and radius > 0.0:
            for cell in wp.bvh_query_aabb(geometry.bvh, center - wp.vec3(radius), center + wp.vec3(radius)):
                x = closest(geometry, cell, point)
                distance = wp.length(position(geometry, cell, x) - point)
                if distance < best_distance:
                    best_distance = distance
                    best = cell
                    best_x = x
            if (
                best_distance > scalar(radius)
                and best_distance < scalar(1.0e29)
                and float(best_distance) > radius * 1.5
            ):
                best = -1
                radius = float(best_distance) * 1.01
                best_distance = scalar(1.0e30)
            elif best < 0:
                radius *= 4.0
        return sample(best, coords_of(best_x))

    return lookup


@functools.cache
def _closest_point(element: Element, scalar: Any, position: Any, jacobian: Any) -> Any:
    """The coordinates of a cell's point that is closest to a position, by projected steps of Newton's method."""
    dimension, is_simplex = element.dimension, element.value.is_simplex
    one = vector(dimension, scalar)

    @wp.func
    def into(x: Any):
        if wp.static(is_simplex):
            # Onto the face of what is negative, and of what is too much in sum.
            for _ in range(wp.static(dimension + 1)):
                total = scalar(0.0)
                count = 0
                for d in range(dimension):
                    x[d] = wp.max(x[d], scalar(0.0))
                    total += x[d]
                    count += wp.where(x[d] > scalar(0.0), 1, 0)
                if total > scalar(1.0):
                    for d in range(dimension):
                        if x[d] > scalar(0.0):
                            x[d] = x[d] - (total - scalar(1.0)) / scalar(count)
        else:
            for d in range(dimension):
                x[d] = wp.clamp(x[d], scalar(0.0), scalar(1.0))
        return x

    @wp.func
    def closest(geometry: Any, cell: int, point: Any):
        x = one(scalar(wp.static(1.0 / (dimension + 1) if is_simplex else 0.5)))
        for _ in range(wp.static(1 if is_simplex else 8)):
            j = jacobian(geometry, cell, x)
            r = point - position(geometry, cell, x)
            jt = wp.transpose(j)
            x = x + wp.inverse(jt * j) * (jt * r)
        inside = into(x)
        # Outside, descent along the cell: the metric of the cell is not that of its coordinates.
        if wp.length(inside - x) > scalar(1.0e-6):
            j = jacobian(geometry, cell, inside)
            metric = wp.transpose(j) * j
            step = scalar(1.0) / wp.trace(metric)
            for _ in range(64):
                r = point - position(geometry, cell, inside)
                inside = into(inside + wp.transpose(jacobian(geometry, cell, inside)) * r * step)
        return inside

    return closest
