"""Two edges, and two triangles: the closest points of the ones, and whether the others meet. Generic in the float type.

Closest points are those of the lines, cut to the edges (Ericson, Real-Time Collision Detection, 5.1.9); determinants of
dot products are written as products of cross products (Lagrange), which loses less where edges are nearly parallel. The
distance has the derivatives of its least value: where s and t are held, its square is a quadratic function, whose least
value is what Newton's step finds. So no error of s or t is divided by what nearly vanishes.

Triangles meet where an edge of one goes through the other. On which side of an edge another passes decides it for both
triangles: nine signs of tetrahedra, and six of corners over planes (Guigue and Devillers 2003). Triangles of one plane
overlap if no edge parts them.
"""

# Overloads of one name, and functions without annotations of their results.
# pyright: reportRedeclaration=false, reportArgumentType=false, reportReturnType=false
# ruff: noqa: ARG001

from __future__ import annotations

from typing import Any

import jaxwarp as wp


@wp.func
def _rounding(x: wp.float16):
    return wp.float16(4e-3)


@wp.func
def _rounding(x: wp.float32):
    return wp.float32(5e-7)


@wp.func
def _rounding(x: wp.float64):
    return wp.float64(1e-15)


@wp.func
def _held(x: Any):
    """The value, which does not move."""
    return x


@wp.func_grad(_held)
def _adj_held(x: Any, adj_ret: Any):
    pass


@wp.func
def closest_point_edge_edge(p1: Any, q1: Any, p2: Any, q2: Any, epsilon: Any) -> Any:
    """The closest points of two edges, p1 + s (q1 - p1) and p2 + t (q2 - p2), and their distance d, as `vec3(s, t, d)`.

    An edge whose squared length is at most `epsilon` is treated as its first point. For parallel edges s is 0, unless t
    is at an end. There is a derivative unless d is 0, or a closest point has just reached an end.
    """
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    a, b, e = wp.dot(d1, d1), wp.dot(d1, d2), wp.dot(d2, d2)
    zero, one = type(a)(0.0), type(a)(1.0)
    is_long1, is_long2 = a > type(a)(epsilon), e > type(a)(epsilon)
    per_a = one / a if is_long1 else zero
    per_e = one / e if is_long2 else zero
    n = wp.cross(d1, d2)
    nn = wp.dot(n, n)
    is_angle = is_long1 and is_long2 and nn > _rounding(a) * _rounding(a) * a * e
    per_nn = one / nn if is_angle else zero
    s = wp.clamp(wp.dot(n, wp.cross(d2, r)) * per_nn, zero, one)
    t = (b * s + wp.dot(d2, r)) * per_e
    c = wp.dot(d1, r)
    s = wp.clamp(-c * per_a, zero, one) if t < zero or not is_long2 else s
    s = wp.clamp((b - c) * per_a, zero, one) if t > one else s
    t = wp.clamp(t, zero, one)
    gap = r + _held(s) * d1 - _held(t) * d2
    along1, along2 = wp.dot(d1, gap), -wp.dot(d2, gap)
    along1, along2 = along1 - _held(along1), along2 - _held(along2)
    is_free1, is_free2 = s > zero and s < one, t > zero and t < one
    step = along1 * along1 * per_a if is_free1 else along2 * along2 * per_e
    both = (e * along1 * along1 + (b + b) * along1 * along2 + a * along2 * along2) * per_nn
    step = both if is_free1 and is_free2 and is_angle else (step if is_free1 or is_free2 else zero)
    square = wp.dot(gap, gap) - step
    return type(p1)(s, t, wp.sqrt(square) if square > zero else zero)


@wp.func
def _passes(p: Any, q: Any, a: Any, b: Any):
    """Return six times the signed volume of the tetrahedron p, q, a, b.

    Its sign tells on which side of the line from p to q the line from a to b passes.
    """
    return wp.dot(q - p, wp.cross(a - p, b - p))


@wp.func
def _height(n: Any, a: Any, size: Any, x: Any):
    """Return x's height over the plane through a with the normal n, times n's length; 0 if that is only rounding."""
    way = x - a
    height = wp.dot(n, way)
    return height if wp.abs(height) > _rounding(height) * size * wp.length(way) else type(height)(0.0)


@wp.func
def _heights(a: Any, b: Any, c: Any, x: Any, y: Any, z: Any):
    """Return the heights of x, y and z over the plane of a triangle."""
    n = wp.cross(b - a, c - a)
    size = wp.length(b - a) * wp.length(c - a)
    return _height(n, a, size, x), _height(n, a, size, y), _height(n, a, size, z)


@wp.func
def _goes_through(d0: Any, d1: Any, e0: Any, e1: Any, e2: Any) -> bool:
    """Return whether an edge meets a triangle. Its ends are at the heights d0, d1; e0, e1, e2 are its `_passes`.

    The result is False for an edge in the plane. The edges that meet it there decide instead.
    """
    zero = type(d0)(0.0)
    is_across = wp.min(d0, d1) <= zero and wp.max(d0, d1) >= zero and (d0 != zero or d1 != zero)
    return is_across and (wp.min(e0, wp.min(e1, e2)) >= zero or wp.max(e0, wp.max(e1, e2)) <= zero)


@wp.func
def _parts(n: Any, p: Any, q: Any, r: Any, x: Any, y: Any, z: Any) -> bool:
    """Return whether the line of the edge p, q separates r from x, y and z, in the plane with the normal n."""
    side = wp.cross(n, q - p)
    zero = type(n[0])(0.0)
    own, a, b, c = wp.dot(side, r - p), wp.dot(side, x - p), wp.dot(side, y - p), wp.dot(side, z - p)
    is_below = own >= zero and wp.max(a, wp.max(b, c)) < zero
    return is_below or (own <= zero and wp.min(a, wp.min(b, c)) > zero)


@wp.func
def _overlap(v0: Any, v1: Any, v2: Any, u0: Any, u1: Any, u2: Any) -> bool:
    """Return whether triangles in one plane have a point in common: no edge separates them."""
    n, m = wp.cross(v1 - v0, v2 - v0), wp.cross(u1 - u0, u2 - u0)
    n = n if wp.dot(n, n) >= wp.dot(m, m) else m
    is_apart = _parts(n, v0, v1, v2, u0, u1, u2) or _parts(n, v1, v2, v0, u0, u1, u2)
    is_apart = is_apart or _parts(n, v2, v0, v1, u0, u1, u2) or _parts(n, u0, u1, u2, v0, v1, v2)
    is_apart = is_apart or _parts(n, u1, u2, u0, v0, v1, v2) or _parts(n, u2, u0, u1, v0, v1, v2)
    return not is_apart and wp.dot(n, n) > type(n[0])(0.0)


@wp.func
def intersect_tri_tri(v0: Any, v1: Any, v2: Any, u0: Any, u1: Any, u2: Any) -> int:
    """1 if two triangles have a point in common, else 0.

    Touching borders count, as exactly as rounding allows. Triangles in one plane intersect if they overlap. A triangle
    without area is treated as an edge; two such triangles give 0.
    """
    u_0, u_1, u_2 = _heights(v0, v1, v2, u0, u1, u2)
    v_0, v_1, v_2 = _heights(u0, u1, u2, v0, v1, v2)
    is_flat = wp.max(wp.abs(u_0), wp.max(wp.abs(u_1), wp.abs(u_2))) == type(u_0)(0.0)
    if is_flat and wp.max(wp.abs(v_0), wp.max(wp.abs(v_1), wp.abs(v_2))) == type(u_0)(0.0):
        return 1 if _overlap(v0, v1, v2, u0, u1, u2) else 0
    a0, a1, a2 = _passes(v0, v1, u0, u1), _passes(v0, v1, u1, u2), _passes(v0, v1, u2, u0)
    b0, b1, b2 = _passes(v1, v2, u0, u1), _passes(v1, v2, u1, u2), _passes(v1, v2, u2, u0)
    c0, c1, c2 = _passes(v2, v0, u0, u1), _passes(v2, v0, u1, u2), _passes(v2, v0, u2, u0)
    meets = _goes_through(v_0, v_1, a0, a1, a2) or _goes_through(v_1, v_2, b0, b1, b2)
    meets = meets or _goes_through(v_2, v_0, c0, c1, c2) or _goes_through(u_0, u_1, a0, b0, c0)
    meets = meets or _goes_through(u_1, u_2, a1, b1, c1) or _goes_through(u_2, u_0, a2, b2, c2)
    return 1 if meets else 0
