"""Rotations by what they do. Generic in the float type."""

# pyright: reportArgumentType=false, reportReturnType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import jaxwarp as wp


@wp.func
def _across(a: Any):
    """A vector perpendicular to a unit vector, of a length from 0.8 to 1: by the axis that it is farthest from."""
    zero, one = type(a[0])(0.0), type(a[0])(1.0)
    x, y, z = wp.abs(a[0]), wp.abs(a[1]), wp.abs(a[2])
    if x <= y and x <= z:
        return wp.cross(a, type(a)(one, zero, zero))
    if y <= z:
        return wp.cross(a, type(a)(zero, one, zero))
    return wp.cross(a, type(a)(zero, zero, one))


@wp.func
def quat_between_vectors(a: Any, b: Any) -> Any:
    """The rotation by the smallest angle that turns the direction of `a` into that of `b`.

    For equal directions, or a vector of length 0, it is the identity. For opposite directions it is half a turn about
    some axis perpendicular to them; Warp's result is undefined there.
    """
    a, b = wp.normalize(a), wp.normalize(b)
    one, half = type(a[0])(1.0), type(a[0])(0.5)
    normal, cosine = wp.cross(a, b), wp.dot(a, b)
    if cosine > -half:
        return wp.normalize(wp.quaternion(normal, one + cosine))
    # The angle is large, where 1 + cosine cancels: half a turn about an axis perpendicular to `a`, which takes it to
    # -a, and from there to `b`. The axis is the normal, so that the two are one rotation, unless that is rounding.
    axis = wp.normalize(normal)
    axis = axis - wp.dot(axis, a) * a
    axis = axis if wp.dot(axis, axis) > half else _across(a)
    half_turn = wp.quaternion(wp.normalize(axis), one - one)
    return wp.normalize(wp.quaternion(wp.cross(b, a), one - cosine)) * half_turn
