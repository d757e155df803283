"""Delaunay triangulations by flips: edges whose circle has the other point in it are turned, until none has.

A flip of an edge makes it the other diagonal of the two triangles around it. Lawson 1977: each brings the
triangulation nearer to Delaunay's, so they come to an end. In a pass those are done that have no triangle in common:
of edges that want the same triangle, the one with the largest number, by a hash, so that few passes are needed.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry.operations import is_on_host
from jaxwarp.geometry.surfaces.given import integer, number
from jaxwarp.geometry.triangulations.adjacency import beside, require_triangles
from jaxwarp.memory.host_scope import HOST

# Of the sum of the determinant's terms' sizes, more than float32 can lose: what is within is on the circle.
_ROUNDING = 1e-6


def _turn(a: jax.Array, b: jax.Array) -> jax.Array:
    """The cross product of vectors of the plane, (..., 2)."""
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _is_in_circle(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> jax.Array:
    """Return whether d is inside of the circle through a, b and c, counterclockwise, by more than rounding."""
    a, b, c = a - d, b - d, c - d
    # By a power of two, which rounds nothing, lengths are about 1: their fourth powers are numbers.
    _, exponent = jnp.frexp(jnp.max(abs(jnp.stack([a, b, c])), (0, -1)))
    a, b, c = (jnp.ldexp(p, -exponent[..., None]) for p in (a, b, c))
    pairs = ((a, b, c), (b, c, a), (c, a, b))
    value = sum((p**2).sum(-1) * _turn(q, r) for p, q, r in pairs)
    size = sum((p**2).sum(-1) * (abs(q[..., 0] * r[..., 1]) + abs(q[..., 1] * r[..., 0])) for p, q, r in pairs)
    return jnp.asarray(value > _ROUNDING * size)


def _priority(numbers: jax.Array) -> jax.Array:
    """A number for each, all different and above 0, in no order: the finaliser of MurmurHash3, which is one to one."""
    x = numbers.astype(jnp.uint32) + jnp.uint32(1)
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def _pass(triangles: jax.Array, points: jax.Array, reference: Any, least: Any, least_reference: Any) -> Any:
    """The triangles after one pass, and how many edges it has flipped."""
    count = len(triangles)
    other, edge = beside(triangles)
    t = jnp.broadcast_to(jnp.arange(count)[:, None], (count, 3))
    a, b, c = (triangles[:, jnp.array([(k + j) % 3 for k in range(3)])] for j in range(3))
    d = triangles[other, edge]

    def fits(places: jax.Array, bound: Any) -> jax.Array:
        """Return whether both triangles that a flip makes are counterclockwise, and large enough."""
        p, q, r, s = (places[x] for x in (a, b, c, d))
        return (0.5 * _turn(q - p, s - p) > bound) & (0.5 * _turn(s - p, r - p) > bound)

    wanted = (other > t) & (a != d) & fits(points, least)
    wanted &= _is_in_circle(*(points[x] for x in (a, b, c, d)))
    if reference is not None:
        wanted &= fits(reference, least_reference)
    mark = jnp.where(wanted, _priority(3 * t + jnp.arange(3)), 0)
    claims = jnp.zeros(count, jnp.uint32).at[t].max(mark).at[jnp.where(wanted, other, count)].max(mark, mode="drop")
    wins = wanted & (claims[t] == mark) & (claims[other] == mark)
    one, two = jnp.stack([a, b, d], -1), jnp.stack([a, d, c], -1)
    made = triangles.at[jnp.where(wins, t, count)].set(one, mode="drop")
    made = made.at[jnp.where(wins, other, count)].set(two, mode="drop")
    return made, wins.sum(dtype=jnp.int32)


@jax.jit
def _flipped(
    points: jax.Array, triangles: jax.Array, reference: Any, passes: Any, least: Any, least_reference: Any
) -> tuple[jax.Array, jax.Array]:
    def step(state: Any) -> Any:
        triangles, total, _, k = state
        triangles, flips = _pass(triangles, points, reference, least, least_reference)
        return triangles, total + flips, flips, k + 1

    start = triangles, jnp.int32(0), jnp.int32(1), jnp.int32(0)
    found = jax.lax.while_loop(lambda state: (state[2] > 0) & (state[3] < passes), step, start)
    return found[0], found[1]


@boundary
def delaunay_edge_flip(
    positions: Any,
    indices: Any,
    ref_positions: Any = None,
    max_passes: int = 1000,
    area_epsilon: float = 0.0,
    ref_area_epsilon: float = 1.0e-10,
) -> Any:
    """Flips edges of a triangulation in the plane until it is Delaunay's: no circle through the corners of a triangle
    has the corner of a neighbour in it. Works under `jit`, `vmap` and `scan`.

    Edges of one triangle stay, and so do those of more than two. Four points on a circle are as good either way, and so
    they are within rounding.

    Args:
        positions: (n, 2) of float32, or an array of `vec2` outside of JAX.
        indices: (m, 3) vertices of triangles, int32, counterclockwise; an array outside of JAX is written.
        ref_positions: as `positions`: where the points were; flips that would make a triangle there without an area
            are left out.
        max_passes: how often edges are looked at.
        area_epsilon, ref_area_epsilon: what the area of a triangle that a flip makes has to be above, in both places.

    Returns:
        `indices, flips` of arrays of JAX or NumPy; of arrays outside of JAX, an array of one int32: how many edges were
        flipped.

    Raises:
        KernelTypeError, KernelValueError: an argument is of another type or shape, or out of range.

    Source: Lawson, Software for C1 surface interpolation, 1977.
    """
    where = "delaunay_edge_flip"
    require_triangles(where, indices)
    max_passes = integer(where, "max_passes", max_passes, 1, 2**31 - 1)
    for name, given in (("area_epsilon", area_epsilon), ("ref_area_epsilon", ref_area_epsilon)):
        if not isinstance(given, jax.Array) and number(where, name, given) < 0:
            raise KernelValueError(
                f"{where}: {name}: expected a finite number, 0 or more, got {given}", hint="0.0 for any area"
            )
    is_host = isinstance(indices, HostArray)
    points = _plane(where, "positions", positions, is_host)
    reference = None if ref_positions is None else _plane(where, "ref_positions", ref_positions, is_host)
    if reference is not None and tuple(reference.shape) != tuple(points.shape):
        raise KernelValueError(
            f"{where}: ref_positions: expected the shape of positions, {tuple(points.shape)}, got"
            f" {tuple(reference.shape)}",
            hint="pass where the same points were",
        )
    limits = jnp.int32(max_passes), jnp.float32(area_epsilon), jnp.float32(ref_area_epsilon)
    if is_host:
        return _on_host(indices, points, reference, limits)
    if indices.shape[0] == 0:
        return jnp.asarray(indices), jnp.int32(0)
    if is_on_host(indices):
        _require_points(indices, len(points))
    return _flipped(jnp.asarray(points), jnp.asarray(indices), reference, *limits)


def _on_host(indices: HostArray, points: Any, reference: Any, limits: tuple[Any, ...]) -> Any:
    """Writes `indices`, and gives how many edges were flipped."""
    indices.require_writable("written by delaunay_edge_flip")
    count: Any = wp.zeros(1, dtype=int, device=indices.device)

    def run() -> None:
        count.zero_()
        if indices.shape[0]:
            held = indices.numpy()
            _require_points(held, len(points))
            found, flips = _flipped(points.numpy(), held, None if reference is None else reference.numpy(), *limits)
            indices.assign(np.asarray(found))
            count.fill_(int(flips))

    reads = [a.region for a in (points, indices, reference) if a is not None]
    HOST.change("delaunay_edge_flip", run, reads, [indices.region, count.region])
    return count


def _require_points(triangles: Any, count: int) -> None:
    low, high = int(np.min(triangles)), int(np.max(triangles))
    if not 0 <= low <= high < count:
        raise KernelValueError(
            f"delaunay_edge_flip: indices: expected points 0 to {count - 1}, got {low} to {high}",
            hint="pass the positions that the indices are of",
        )


def _plane(where: str, name: str, given: Any, is_host: bool) -> Any:
    """Points of a plane, (n, 2) of float32, outside of JAX if they have to be."""
    if isinstance(given, HostArray):
        if is_host and given.dtype == wp.vec2 and given.ndim == 1:
            return given
    elif not is_host and getattr(given, "dtype", None) == np.float32 and len(given.shape) == 2 and given.shape[1] == 2:
        return given
    kind = f"{given.dtype} of {tuple(given.shape)}" if hasattr(given, "shape") else type(given).__name__
    wanted = "an array of vec2, as indices are outside of JAX" if is_host else "(n, 2) of float32"
    raise KernelTypeError(f"{where}: {name}: expected {wanted}, got {kind}", hint="points are in a plane")
