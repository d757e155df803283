"""The kernels of `integrate`, one for each integrand and type of result; they are generic in domains and fields."""

# pyright: reportInvalidTypeForm=false, reportRedeclaration=false

from __future__ import annotations

import functools
from typing import Any

import jaxwarp as wp
from jaxwarp.fem import operators
from jaxwarp.fem.calls import Integrand, applied, operator
from jaxwarp.fem.types import Sample, Sample_f64, matrix, vector
from jaxwarp.types import Scalar, element_shape

measure = operators.measure


@wp.func
def sample_at(element: int, coords: wp.vec3, qp: int, weight: float, test: wp.vec2i, trial: wp.vec2i):
    return Sample(element, coords, qp, weight, test, trial)


@wp.func
def sample_at(element: int, coords: wp.vec3d, qp: int, weight: wp.float64, test: wp.vec2i, trial: wp.vec2i):
    return Sample_f64(element, coords, qp, weight, test, trial)


point_count = operator("point_count", "How many points a quadrature has in an element of a domain.")
_point_at = operator("point_at", "The coordinates of a point in its element, its weight, and its number.")


@wp.func
def quadrature_sample(domain: Any, points: Any, e: int, q: int, test: wp.vec2i, trial: wp.vec2i):
    """The sample of a domain's element at a point of a quadrature."""
    cell = domain.index.elements[e]
    coords, weight, qp = _point_at(points, cell, e, q)
    return sample_at(cell, coords, qp, weight, test, trial)


@functools.cache
def functional_kernel(integrand: Integrand, result_type: Any) -> Any:
    evaluate = applied(integrand)

    @wp.kernel
    def functional(domain: Any, points: Any, fields: Any, values: Any, result: wp.array[result_type]):
        e, q = wp.tid()
        if q < point_count(points, domain.index.elements[e]):
            s = quadrature_sample(domain, points, e, q, wp.vec2i(-1, -1), wp.vec2i(-1, -1))
            value = evaluate(s, domain, fields, values)
            wp.atomic_add(result, 0, result_type(value * (s.qp_weight * measure(domain, s))))

    return functional


@functools.cache
def add_kernel(result_type: Any) -> Any:
    """Adds a sum to a result of another type."""

    @wp.kernel
    def add_sum(total: wp.array[Any], result: wp.array[result_type]):
        i = wp.tid()
        result[i] = result[i] + result_type(total[i])

    return add_sum


def _summed(accumulate: Any, shape: tuple[int, ...]) -> Any:
    return accumulate if not shape else vector(*shape, accumulate) if len(shape) == 1 else matrix(*shape, accumulate)


@functools.cache
def linear_kernel(integrand: Integrand, accumulate: Any, result_type: Any, count: int, is_nodal: bool) -> Any:
    evaluate = applied(integrand, is_number=True)
    is_number = isinstance(result_type, Scalar)
    sums = vector(count, accumulate)

    @wp.func
    def assembled(total: Any):
        if wp.static(is_number):
            return result_type(total[0])
        else:
            found = result_type()
            for c in range(count):
                if wp.static(len(element_shape(result_type)) == 2):
                    width = wp.static((*element_shape(result_type), 1)[1])
                    found[c // width, c % width] = found.dtype(total[c])
                else:
                    found[c] = found.dtype(total[c])
            return found

    @wp.kernel
    def linear(
        domain: Any, points: Any, fields: Any, values: Any, nodes: wp.array2d[int], result: wp.array[result_type]
    ):
        e, i = wp.tid()
        node = nodes[e, i]
        if node >= 0:
            total = sums()
            first = wp.where(wp.static(is_nodal), i, 0)
            last = wp.where(wp.static(is_nodal), i + 1, point_count(points, domain.index.elements[e]))
            for q in range(first, last):
                for c in range(wp.where(node >= 0, count, 0)):  # not unrolled
                    s = quadrature_sample(domain, points, e, q, wp.vec2i(i, c), wp.vec2i(-1, -1))
                    value = evaluate(s, domain, fields, values)
                    total[c] += accumulate(value * (s.qp_weight * measure(domain, s)))
            wp.atomic_add(result, node, assembled(total))

    return linear


@functools.cache
def bilinear_kernel(integrand: Integrand, accumulate: Any, block: Any, rows: int, columns: int, is_nodal: bool) -> Any:
    evaluate = applied(integrand, is_number=True)
    is_number = isinstance(block, Scalar)
    sums = matrix(rows, columns, accumulate)

    @wp.kernel
    def bilinear(domain: Any, points: Any, fields: Any, values: Any, places: wp.array3d[int], blocks: wp.array[block]):
        e, i, k = wp.tid()
        place = places[e, i, k]
        if place >= 0:
            j = wp.where(wp.static(is_nodal), i, k)
            total = sums()
            first = wp.where(wp.static(is_nodal), i, 0)
            last = wp.where(wp.static(is_nodal), i + 1, point_count(points, domain.index.elements[e]))
            for q in range(first, last):
                for c in range(wp.where(place >= 0, rows, 0)):  # not unrolled: integrands may be long
                    for d in range(columns):
                        s = quadrature_sample(domain, points, e, q, wp.vec2i(i, c), wp.vec2i(j, d))
                        value = evaluate(s, domain, fields, values)
                        total[c, d] += accumulate(value * (s.qp_weight * measure(domain, s)))
            if wp.static(is_number):
                blocks[place] = block(total[0, 0])
            else:
                blocks[place] = block(total)

    return bilinear
