"""A ray, or a point, and a triangle: three corners, the rows of a matrix."""

# ruff: noqa: A002

from __future__ import annotations

from typing import Any

import jaxwarp as wp

_DISTANT = 2.0**-30
_STEPS = (2.0**64, 2.0**32, 2.0**16, 2.0**8, 2.0**4)


@wp.func
def _step(x: float, factor: float, most: float) -> float:
    return factor if x * most < 1.0 and x > 0.0 else (1.0 / factor if x > most else 1.0)


@wp.func
def unit_of(x: wp.vec3) -> float:
    """The power of two that makes the largest component about 1; 1 of nothing.

    So products of four or five lengths, and the derivatives of quotients, are numbers whatever the unit of length is.
    It is exact, and has no derivative.
    """
    most = wp.max(wp.max(wp.abs(x[0]), wp.abs(x[1])), wp.abs(x[2]))
    unit = _step(most, _STEPS[0], _STEPS[1])
    unit = unit * _step(most * unit, _STEPS[1], _STEPS[2])
    unit = unit * _step(most * unit, _STEPS[2], _STEPS[3])
    return unit * _step(most * unit, _STEPS[3], _STEPS[4])


@wp.func
def _unit_near(corners: wp.mat33, point: wp.vec3) -> float:
    """Return the unit of a triangle's edges, or that of a point's distance if the triangle is a speck beside it."""
    ab = wp.abs(corners[1] - corners[0])
    ac = wp.abs(corners[2] - corners[0])
    return unit_of(wp.max(wp.max(ab, ac), _DISTANT * wp.abs(point - corners[0])))


@wp.func
def face_normal(corners: wp.mat33) -> wp.vec3:
    """Return the normal of length 1 that the corners go round counterclockwise; 0 for a triangle without an area."""
    ab = corners[1] - corners[0]
    ac = corners[2] - corners[0]
    unit = unit_of(wp.max(wp.abs(ab), wp.abs(ac)))
    return wp.normalize(wp.cross(unit * ab, unit * ac))


@wp.func
def face_area(corners: wp.mat33) -> float:
    """Return the area, in units of length squared. Beyond the range of a float32, it is 0 or infinite."""
    ab = corners[1] - corners[0]
    ac = corners[2] - corners[0]
    unit = unit_of(wp.max(wp.abs(ab), wp.abs(ac)))
    return 0.5 * wp.length(wp.cross(unit * ab, unit * ac)) / unit / unit


@wp.func
def ray_frame(dir: wp.vec3) -> wp.mat33:
    """A map under which a ray goes along the third axis, by one in a length of `dir`: rows are the new coordinates.

    The longest component of `dir` is divided by, so the map is far from singular. A direction of 0 has none: NaN.
    """
    x = wp.abs(dir[0])
    y = wp.abs(dir[1])
    z = wp.abs(dir[2])
    is_x = x > y and x > z
    is_y = not is_x and y > z
    is_z = not is_x and not is_y
    inverse = 1.0 / (dir[0] if is_x else (dir[1] if is_y else dir[2]))
    along = wp.vec3(inverse if is_x else 0.0, inverse if is_y else 0.0, inverse if is_z else 0.0)
    first = wp.vec3(0.0, 0.0, 1.0) if is_y else wp.vec3(0.0 if is_x else 1.0, 1.0 if is_x else 0.0, 0.0)
    second = wp.vec3(1.0, 0.0, 0.0) if is_y else wp.vec3(0.0, 0.0 if is_x else 1.0, 1.0 if is_x else 0.0)
    first = first - wp.dot(first, dir) * along
    second = second - wp.dot(second, dir) * along
    return wp.mat33(
        first[0], first[1], first[2], second[0], second[1], second[2], along[0], along[1], along[2]
    )  # fmt: skip


@wp.func
def _side(b: wp.vec3, c: wp.vec3) -> float:
    """Return on which side of an edge the ray passes: c[0] b[1] - c[1] b[0], 0 exactly where it meets the edge's line.

    The sign is that of exact arithmetic, in spite of rounding: this is Kahan's difference of products, which Jeannerod,
    Louvet and Muller 2013 show to be within two roundings. So all triangles at an edge or a vertex agree on the side.
    """
    product = c[1] * b[0]
    return wp.fma(c[0], b[1], -product) + wp.fma(-c[1], b[0], product)


@wp.func
def _projected(corners: wp.mat33, start: wp.vec3, frame: wp.mat33) -> Any:
    """The corners in coordinates in which the ray is the third axis.

    So triangles that share a vertex, or an edge, see it at one place: Woop, Benthin and Wald 2013.
    """
    return frame * (corners[0] - start), frame * (corners[1] - start), frame * (corners[2] - start)


@wp.func
def ray_distance(corners: wp.mat33, start: wp.vec3, frame: wp.mat33) -> float:
    """Return how far a ray goes to a triangle, in lengths of its direction; infinity if it misses. Borders are hits."""
    a, b, c = _projected(corners, start, frame)
    at_a = _side(b, c)
    at_b = _side(c, a)
    at_c = _side(a, b)
    total = at_a + at_b + at_c
    share = 1.0 / total
    distance = at_a * share * a[2] + at_b * share * b[2] + at_c * share * c[2]
    least = wp.min(at_a, wp.min(at_b, at_c))
    most = wp.max(at_a, wp.max(at_b, at_c))
    is_hit = (least >= 0.0 or most <= 0.0) and total != 0.0 and distance >= 0.0
    return distance if is_hit else wp.inf


@wp.func
def _strict(side: float, b: wp.vec3, c: wp.vec3) -> float:
    """`side` of the edge from b to c, where 0 is decided by a ray that is moved infinitely little.

    It is moved along the first two axes of its frame, much less along the second one, towards higher coordinates:
    simulation of simplicity, Edelsbrunner and Muecke 1990.
    """
    aside = c[1] - b[1]
    return side if side != 0.0 else (aside if aside != 0.0 else b[0] - c[0])


@wp.func
def crossing_of(corners: wp.mat33, start: wp.vec3, frame: wp.mat33) -> Any:
    """`distance, turn`: as `ray_distance`, but a ray through an edge or a vertex goes through one triangle there.

    So every crossing of a surface is that of one triangle; a ray that touches the outline of a closed surface crosses
    it twice, or not at all. `turn` is 1 or -1 by the way in which the corners go round the ray.
    """
    a, b, c = _projected(corners, start, frame)
    at_a = _side(b, c)
    at_b = _side(c, a)
    at_c = _side(a, b)
    share = 1.0 / (at_a + at_b + at_c)
    distance = at_a * share * a[2] + at_b * share * b[2] + at_c * share * c[2]
    strict_a = _strict(at_a, b, c)
    strict_b = _strict(at_b, c, a)
    strict_c = _strict(at_c, a, b)
    least = wp.min(strict_a, wp.min(strict_b, strict_c))
    most = wp.max(strict_a, wp.max(strict_b, strict_c))
    is_hit = (least > 0.0 or most < 0.0) and distance >= 0.0
    return distance if is_hit else wp.inf, 1 if least > 0.0 else -1


@wp.func
def ray_at(corners: wp.mat33, start: wp.vec3, dir: wp.vec3) -> Any:
    """`t, u, v` of a ray that hits a triangle: u and v are the weights of its first two corners."""
    along = unit_of(dir)
    unit = _unit_near(corners, start)
    frame = ray_frame(along * dir)
    a = frame * (unit * (corners[0] - start))
    b = frame * (unit * (corners[1] - start))
    c = frame * (unit * (corners[2] - start))
    at_a = _side(b, c)
    at_b = _side(c, a)
    at_c = _side(a, b)
    share = 1.0 / (at_a + at_b + at_c)
    u = at_a * share
    v = at_b * share
    return (u * a[2] + v * b[2] + at_c * share * c[2]) / unit * along, u, v


@wp.func
def _fraction(x: float, of: float) -> float:
    """x / of, between 0 and 1; 0 of nothing."""
    return wp.clamp(x / (of if of > 0.0 else 1.0), 0.0, 1.0)


@wp.func
def closest_on(corners: wp.mat33, point: wp.vec3) -> Any:
    """`v, w, d`: the weights of the second and third corner of the closest point, and the square of its distance.

    The closest point of the plane, if it is in the triangle, and those of the three edges: the least of the distances.
    A triangle without an area is its edges.
    """
    ab = corners[1] - corners[0]
    ac = corners[2] - corners[0]
    ap = point - corners[0]
    on_b = wp.dot(ab, ap)
    on_c = wp.dot(ac, ap)
    bb = wp.dot(ab, ab)
    cc = wp.dot(ac, ac)
    bc = wp.dot(ab, ac)
    s = _fraction(on_b, bb)
    r = _fraction(on_c, cc)
    m = _fraction(on_c - on_b + bb - bc, cc - 2.0 * bc + bb)
    to_ab = ap - s * ab
    to_ac = ap - r * ac
    to_bc = ap - ab - m * (ac - ab)
    # Without products of four lengths: the square of the height over the first edge, and the weights by that.
    share = bc / (bb if bb > 0.0 else 1.0)
    height = cc - share * bc
    has_area = height > 1.0e-12 * cc
    w = (on_c - share * on_b) / (height if has_area else 1.0)
    v = (on_b - bc * w) / (bb if bb > 0.0 else 1.0)
    inside = has_area and v >= 0.0 and w >= 0.0 and v + w <= 1.0
    to_face = ap - v * ab - w * ac
    best = wp.dot(to_face, to_face) if inside else wp.inf
    near = wp.dot(to_ab, to_ab) < best
    best = wp.dot(to_ab, to_ab) if near else best
    v = s if near else v
    w = 0.0 if near else w
    near = wp.dot(to_ac, to_ac) < best
    best = wp.dot(to_ac, to_ac) if near else best
    v = 0.0 if near else v
    w = r if near else w
    near = wp.dot(to_bc, to_bc) < best
    best = wp.dot(to_bc, to_bc) if near else best
    v = 1.0 - m if near else v
    w = m if near else w
    return v, w, best


@wp.func
def closest_at(corners: wp.mat33, point: wp.vec3) -> Any:
    """`closest_on` for derivatives, which have higher powers of lengths: the square is in units of its own."""
    unit = _unit_near(corners, point)
    ab = unit * (corners[1] - corners[0])
    ac = unit * (corners[2] - corners[0])
    return closest_on(
        wp.mat33(0.0, 0.0, 0.0, ab[0], ab[1], ab[2], ac[0], ac[1], ac[2]), unit * (point - corners[0])
    )  # fmt: skip


# What a point on a triangle may be away from it, by rounding, beside the largest coordinate.
_ROUNDING = 4.0e-7


@wp.func
def signed_distance_at(corners: wp.mat33, point: wp.vec3, sign: float) -> float:
    """`sign` times the distance; on the triangle, as high above it, so that the slope there is that of both sides."""
    v, w, _square = closest_at(corners, point)
    away = point - ((1.0 - v - w) * corners[0] + v * corners[1] + w * corners[2])
    size = wp.max(wp.max(wp.abs(corners[0]), wp.abs(corners[1])), wp.abs(corners[2]))
    unit = unit_of(away)
    scaled = unit * away
    near = _ROUNDING * wp.max(wp.max(size[0], size[1]), size[2])
    height = sign * sign * wp.dot(face_normal(corners), away)  # NaN of an unknown sign
    return sign * (wp.length(scaled) / unit) if wp.length(scaled) > unit * near else height
