"""The winding number of a mesh around a point, summed by a tree of moments.

The winding number of q is the sum over faces of the solid angle that q sees them at, over 4 pi. For a closed mesh it is
1 inside and 0 outside; for others it is something between. Faces that are far away are summed as one node of the tree:
with p in the middle of its faces, R = p - q, and the sums over them N of n dA, B of n (x - p) dA and S of
n (x - p) (x - p) dA, made symmetric,

    angle = N.R / r^3 - 3 B(R, R) / r^5 + 15/2 S(R, R, R) / r^7 + ...

The traces of B and S cancel, so both are stored without them: 3 + 5 + 7 numbers. Lengths are in units of the node's
radius, so that no mesh is too small or too large.

Source: Barill, Dickson, Schmidt, Levin and Jacobson, "Fast winding numbers for soups and clouds", 2018; angles of
single faces: van Oosterom and Strackee, 1983.
"""

# ruff: noqa: A002, F811, PLR0913, UP018
# pyright: reportRedeclaration=false, reportUnusedVariable=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import jax

import jaxwarp as wp
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError
from jaxwarp.geometry.cast import along_curve, as_points, require_mesh
from jaxwarp.geometry.mesh import Mesh
from jaxwarp.geometry.mesh_queries import MeshQueryPoint, hand_over, on_face
from jaxwarp.geometry.mesh_search import find_closest
from jaxwarp.geometry.mesh_values import face_corners
from jaxwarp.geometry.moments import Moments
from jaxwarp.geometry.operations import as_number
from jaxwarp.geometry.steps import next_node

# How many radii a node has to be away for accuracy 1: so the error at accuracy 2 is at most about 1e-3.
_REACH = 1.4
# What is no more than rounding: of sums of cosines.
_ON_EDGE = 1.0e-6


@wp.func
def _far_angle(m: Moments, u: wp.vec3, s: float) -> float:
    """The angle of a node in the direction u, 1 / s times its radius away."""
    x = u[0]
    y = u[1]
    z = u[2]
    one = m[0] * x + m[1] * y + m[2] * z
    two = m[3] * (x * x - z * z) + m[4] * (y * y - z * z) + 2.0 * (m[5] * x * y + m[6] * x * z + m[7] * y * z)
    three = (
        m[8] * (3.0 * x * x - y * y) * y
        + m[9] * (3.0 * x * x - z * z) * z
        + m[10] * (3.0 * y * y - x * x) * x
        + m[11] * (3.0 * y * y - z * z) * z
        + m[12] * (3.0 * z * z - x * x) * x
        + m[13] * (3.0 * z * z - y * y) * y
        + 6.0 * m[14] * x * y * z
    )
    return s * s * (one + s * (s * 7.5 * three - 3.0 * two))


@wp.func
def _angle(corners: wp.mat33, point: wp.vec3) -> float:
    """The angle that a triangle is seen at, negative from its front."""
    a = wp.normalize(corners[0] - point)
    b = wp.normalize(corners[1] - point)
    c = wp.normalize(corners[2] - point)
    across = wp.dot(a, wp.cross(b, c))
    along = 1.0 + wp.dot(a, b) + wp.dot(b, c) + wp.dot(c, a)
    half = wp.atan2(across, along)
    if across == 0.0 and along < _ON_EDGE:
        # On the triangle the angle is half a turn from both sides, so 0 between them, with the slope of both. On its
        # edges it has no slope.
        half = wp.atan(across / along) if along < 0.0 - _ON_EDGE else 0.0
    return 2.0 * half


@wp.func
def winding_of(mesh: Mesh, point: wp.vec3, accuracy: float) -> float:
    """Return how often a mesh winds around a point. Nodes further than `accuracy` times their size count as one."""
    first = mesh.bvh.first
    leaves = len(first) - 1
    least = _REACH * wp.max(accuracy, 1.0)
    angle = float(0.0)
    node = 1
    if not wp.isfinite(point):
        node = 0
        angle = wp.nan
    while node != 0:
        ball = mesh.winding_balls[node]
        way = wp.vec3(ball[0], ball[1], ball[2]) - point
        square = wp.dot(way, way)
        reach = least * ball[3]
        if ball[3] <= 0.0:
            node = next_node(node)
        elif square > reach * reach:
            length = wp.sqrt(square)
            if mesh.winding_moments:  # where they are not there, a thread has failed at the balls
                angle += _far_angle(mesh.winding_moments[node], way / length, ball[3] / length)
            node = next_node(node)
        elif node >= leaves:
            for k in range(first[node - leaves], first[node - leaves + 1]):
                corners = face_corners(mesh, mesh.bvh.order[k])
                seen = _angle(corners, point)
                # A face with a vertex that is NaN or infinite is none.
                angle += seen if wp.isfinite(seen) else 0.0
            node = next_node(node)
        else:
            node = 2 * node
    return angle / (4.0 * wp.pi)


@wp.func
def mesh_query_point_sign_winding_number(
    id: Mesh, point: wp.vec3, max_dist: float, accuracy: float = 2.0, threshold: float = 0.5
) -> MeshQueryPoint:
    """The closest point of a mesh, if it is closer than `max_dist`, and on which side of the mesh the point is.

    It is inside if the mesh winds around it more than `threshold` times, which holes and faces that cut each other
    change little. The mesh has to be made with `support_winding_number=True`. `accuracy`: from how many times their
    size on faces are summed together.
    """
    face = find_closest(id, point, max_dist)
    sign = float(0.0)
    if face >= 0:
        sign = -1.0 if winding_of(id, point, accuracy) > threshold else 1.0
    return on_face(id, face, point, sign)


@wp.func
def mesh_query_point_sign_winding_number(
    id: Mesh,
    point: wp.vec3,
    max_dist: float,
    inside: wp.ref[float],
    face: wp.ref[int],
    bary_u: wp.ref[float],
    bary_v: wp.ref[float],
    accuracy: float = 2.0,
    threshold: float = 0.5,
) -> bool:
    """The same, for variables: they are set where a point is found."""
    found = mesh_query_point_sign_winding_number(id, point, max_dist, accuracy, threshold)
    return hand_over(found, inside, face, bary_u, bary_v)


@wp.kernel
def _winding(mesh: Mesh, points: wp.array[wp.vec3], accuracy: float, numbers: wp.array[float]) -> None:
    i = wp.tid()
    numbers[i] = winding_of(mesh, points[i], accuracy)


_wind = wp.jax_kernel(_winding)


@boundary
def winding_number(mesh: Mesh, points: Any, accuracy: Any = 2.0) -> jax.Array:
    """Return how often a mesh winds around each point.

    For a closed mesh whose faces front outwards, the number is 1 inside and 0 outside. For a mesh with holes, it is
    something between, and smooth outside of its faces. On a face it is the mean of both sides, with their slope. On
    edges and vertices of faces, its derivative is 0. The number is differentiable in both modes, also twice, by
    `points` and, where the mesh is made of traced points, by those. Works under `jit`, `vmap`, `scan` and the other
    transformations of JAX.

    Args:
        mesh: a `Mesh`, made with `support_winding_number=True`.
        points: (..., 3), float32. Of one that is NaN or infinite the number is NaN.
        accuracy: from how many times their size on faces are summed together, at least 1: at 2 the error is about 1e-3
            at most, of very flat meshes 3e-3; at 3 a quarter of that.

    Raises:
        KernelTypeError, KernelValueError: the arguments have other types or shapes; the mesh has no such sums.

    Source: Barill, Dickson, Schmidt, Levin and Jacobson, "Fast winding numbers for soups and clouds", 2018.
    """
    require_mesh("winding_number", mesh)
    if mesh.winding_balls is None:
        raise KernelTypeError(
            "winding_number: mesh: it has no sums for winding numbers",
            hint="make it so: Mesh(points, indices, support_winding_number=True)",
        )
    p = as_points("winding_number: points", points)
    count = p.size // 3
    number = as_number("winding_number: accuracy", accuracy)
    (found,) = along_curve(_wind, mesh, p.reshape(count, 3), number)
    return found.reshape(p.shape[:-1])
