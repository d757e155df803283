"""The moments of the faces below each node of a mesh's tree, from which winding.py sums the winding number.

A node has a ball: the middle of its faces, weighted by area, and the radius around it. Its moments are in units of that
radius: N (3), B (xx, yy, xy, xz, yz), S (xxy, xxz, yyx, yyz, zzx, zzy, xyz), and the area. The radius of a node without
faces is 0.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launching import launch_unrecorded
from jaxwarp.geometry.kernels.arrays import is_on_gpu, new, set_zero
from jaxwarp.geometry.operations import is_on_host

Moments = wp.types.vector(length=16, dtype=wp.float32)
_Third = wp.types.vector(length=7, dtype=wp.float32)


@wp.func
def _third(n: wp.vec3, q: wp.mat33) -> Any:
    """n q, of a symmetric q, made symmetric, without its trace."""
    third = 1.0 / 3.0
    xxy = (2.0 * n[0] * q[0, 1] + n[1] * q[0, 0]) * third
    xxz = (2.0 * n[0] * q[0, 2] + n[2] * q[0, 0]) * third
    yyx = (2.0 * n[1] * q[0, 1] + n[0] * q[1, 1]) * third
    yyz = (2.0 * n[1] * q[1, 2] + n[2] * q[1, 1]) * third
    zzx = (2.0 * n[2] * q[0, 2] + n[0] * q[2, 2]) * third
    zzy = (2.0 * n[2] * q[1, 2] + n[1] * q[2, 2]) * third
    xyz = (n[0] * q[1, 2] + n[1] * q[0, 2] + n[2] * q[0, 1]) * third
    x = 0.2 * (n[0] * q[0, 0] + yyx + zzx)
    y = 0.2 * (n[1] * q[1, 1] + xxy + zzy)
    z = 0.2 * (n[2] * q[2, 2] + xxz + yyz)
    return _Third(xxy - y, xxz - z, yyx - x, yyz - z, zzx - x, zzy - y, xyz)


@wp.func
def _second(n: wp.vec3, s: wp.vec3) -> wp.mat33:
    """n s, made symmetric, without its trace."""
    outer = wp.outer(n, s)
    both = 0.5 * (outer + wp.transpose(outer))
    return both - wp.dot(n, s) / 3.0 * wp.identity(3, float)


@wp.func
def _packed(n: wp.vec3, b: wp.mat33, s: _Third, area: float) -> Moments:
    return Moments(
        n[0], n[1], n[2], b[0, 0], b[1, 1], b[0, 1], b[0, 2], b[1, 2],
        s[0], s[1], s[2], s[3], s[4], s[5], s[6], area,
    )  # fmt: skip


@wp.func
def _largest(v: wp.vec3) -> float:
    return wp.max(wp.abs(v[0]), wp.max(wp.abs(v[1]), wp.abs(v[2])))


@wp.func
def _face(points: wp.array[wp.vec3], indices: wp.array[int], face: int) -> wp.mat33:
    a = points[indices[3 * face]]
    b = points[indices[3 * face + 1]]
    c = points[indices[3 * face + 2]]
    return wp.mat33(a[0], a[1], a[2], b[0], b[1], b[2], c[0], c[1], c[2])


@wp.kernel
def _of_leaves(
    points: wp.array[wp.vec3], indices: wp.array[int], order: wp.array[int], first: wp.array[int],
    lowers: wp.array[wp.vec3], uppers: wp.array[wp.vec3], balls: wp.array[wp.vec4], moments: wp.array[Moments],
) -> None:  # fmt: skip
    """Compute the ball and the moments of a leaf. A face whose box is NaN or infinite does not count."""
    i = wp.tid()
    low = wp.vec3(wp.inf, wp.inf, wp.inf)
    high = wp.vec3(-wp.inf, -wp.inf, -wp.inf)
    for k in range(first[i], first[i + 1]):
        face = order[k]
        if wp.isfinite(lowers[face]) and wp.isfinite(uppers[face]):
            low = wp.min(low, lowers[face])
            high = wp.max(high, uppers[face])
    size = _largest(high - low)
    if size > 0.0 and size < wp.inf:
        middle = 0.5 * low + 0.5 * high
        total = 0.0
        centre = wp.vec3()
        for k in range(first[i], first[i + 1]):
            face = order[k]
            if wp.isfinite(lowers[face]) and wp.isfinite(uppers[face]):
                corners = _face(points, indices, face)
                a = (corners[0] - middle) / size
                b = (corners[1] - middle) / size
                c = (corners[2] - middle) / size
                area = _largest(wp.cross(b - a, c - a))
                total += area
                centre += area / 3.0 * (a + b + c)
        # Faces without an area have a slope by their vertices: the middle of their box does as well.
        if total > 0.0:
            centre = centre / total
        radius = 0.0
        for k in range(first[i], first[i + 1]):
            face = order[k]
            if wp.isfinite(lowers[face]) and wp.isfinite(uppers[face]):
                corners = _face(points, indices, face)
                for j in range(3):
                    radius = wp.max(radius, wp.length((corners[j] - middle) / size - centre))
        if radius > 0.0:
            n = wp.vec3()
            second = wp.mat33()
            third = _Third()
            for k in range(first[i], first[i + 1]):
                face = order[k]
                if wp.isfinite(lowers[face]) and wp.isfinite(uppers[face]):
                    corners = _face(points, indices, face)
                    a = ((corners[0] - middle) / size - centre) / radius
                    b = ((corners[1] - middle) / size - centre) / radius
                    c = ((corners[2] - middle) / size - centre) / radius
                    g = a + b + c
                    normal = 0.5 * wp.cross(b - a, c - a)
                    n += normal
                    second += _second(normal, g / 3.0)
                    squares = wp.outer(a, a) + wp.outer(b, b) + wp.outer(c, c) + wp.outer(g, g)
                    third += _third(normal, squares / 12.0)
            centre = middle + size * centre
            balls[i] = wp.vec4(centre[0], centre[1], centre[2], radius * size)
            moments[i] = _packed(n, second, third, total / (radius * radius))


@wp.func
def _unpacked(m: Moments) -> Any:
    n = wp.vec3(m[0], m[1], m[2])
    b = wp.mat33(m[3], m[5], m[6], m[5], m[4], m[7], m[6], m[7], 0.0 - m[3] - m[4])
    return n, b, _Third(m[8], m[9], m[10], m[11], m[12], m[13], m[14])


@wp.kernel
def _of_inner(
    below: wp.array[wp.vec4], below_moments: wp.array[Moments], balls: wp.array[wp.vec4], moments: wp.array[Moments]
) -> None:
    """Compute the ball and the moments of a node from those of its two children."""
    i = wp.tid()
    one = below[2 * i]
    two = below[2 * i + 1]
    if one[3] <= 0.0:
        balls[i] = two
        moments[i] = below_moments[2 * i + 1]
    elif two[3] <= 0.0:
        balls[i] = one
        moments[i] = below_moments[2 * i]
    else:
        larger = wp.max(one[3], two[3])
        area0 = below_moments[2 * i][15] * (one[3] / larger) * (one[3] / larger)
        area1 = below_moments[2 * i + 1][15] * (two[3] / larger) * (two[3] / larger)
        share = 0.5
        if area0 + area1 > 0.0:
            share = area1 / (area0 + area1)
        from0 = wp.vec3(two[0] - one[0], two[1] - one[1], two[2] - one[2])
        centre = wp.vec3(one[0], one[1], one[2]) + share * from0
        to0 = -share * from0
        to1 = (1.0 - share) * from0
        radius = wp.max(wp.length(to0) + one[3], wp.length(to1) + two[3])
        n = wp.vec3()
        second = wp.mat33()
        third = _Third()
        for k in range(2):
            child = below[2 * i + k]
            ratio = child[3] / radius
            cn, cb, cs = _unpacked(below_moments[2 * i + k])
            s = (to0 if k == 0 else to1) / radius
            cn = ratio * ratio * cn
            cb = ratio * ratio * ratio * cb
            n += cn
            second += cb + _second(cn, s)
            third += ratio * ratio * ratio * ratio * cs + 2.0 * _third(s, cb) + _third(cn, wp.outer(s, s))
        area = (area0 + area1) * (larger / radius) * (larger / radius)
        balls[i] = wp.vec4(centre[0], centre[1], centre[2], radius)
        moments[i] = _packed(n, second, third, area)


_leaves = wp.jax_kernel(_of_leaves, num_outputs=2)
_inner = wp.jax_kernel(_of_inner, num_outputs=2)


@jax.jit
def _moments_of(points: Any, indices: Any, order: Any, first: Any, lowers: Any, uppers: Any) -> tuple[Any, Any]:
    count = len(first) - 1
    levels = [_leaves(points, indices, order, first, lowers, uppers, launch_dims=count, output_dims=count)]
    while count > 1:
        count //= 2
        levels.append(_inner(*levels[-1], launch_dims=count, output_dims=count))
    balls, moments = zip(*levels[::-1], strict=True)
    none = jnp.zeros((1, 4), jnp.float32), jnp.zeros((1, 16), jnp.float32)
    return jnp.concatenate([none[0], *balls]), jnp.concatenate([none[1], *moments])


def _moments_on_gpu(points: HostArray, indices: HostArray, bvh: Any, held: Any) -> tuple[HostArray, HostArray]:
    """The same of arrays outside of JAX, in the memory of those that the mesh has, if there are some."""
    place, count = points.scope, len(bvh.first) - 1
    balls, moments = held if held[0] is not None else (new(place, wp.vec4, 2 * count), new(place, Moments, 2 * count))
    set_zero(balls)
    set_zero(moments)
    given = points, indices, bvh.order, bvh.first, bvh.lowers, bvh.uppers
    launch_unrecorded(place, _of_leaves, count, *given, balls[count:], moments[count:])
    while count > 1:
        below, count = slice(count, 2 * count), count // 2
        here = slice(count, 2 * count)
        launch_unrecorded(place, _of_inner, count, balls[below], moments[below], balls[here], moments[here])
    return balls, moments


def moments_of(points: Any, indices: Any, bvh: Any, held: Any = (None, None)) -> tuple[Any, Any]:
    """Balls, (2 leaves, 4), and moments, (2 leaves, 16), of the nodes of a tree; differentiable by the points.

    `held` are those that the mesh has: on a GPU outside of JAX, their memory gets the new ones.
    """
    if is_on_gpu(points):
        return _moments_on_gpu(points, indices, bvh, held)
    found = _moments_of(points, indices, bvh.order, bvh.first, bvh.lowers, bvh.uppers)
    if isinstance(points, np.ndarray) and is_on_host(*found):
        return np.asarray(found[0]), np.asarray(found[1])
    return found
