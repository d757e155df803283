"""The volume that moving meshes pass through: the distance to them at all times, and its surface."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry.cast import corners_of, detached, require_mesh
from jaxwarp.geometry.mesh import Mesh
from jaxwarp.geometry.mesh_queries import (
    MeshQueryPoint,
    mesh_query_point_no_sign,
    mesh_query_point_sign_normal,
    mesh_query_point_sign_parity,
)
from jaxwarp.geometry.mesh_values import face_corners, mesh_eval_position
from jaxwarp.geometry.surfaces.given import integer, number, place
from jaxwarp.geometry.surfaces.iso_surface import IsoSurfaceMarchingCubes
from jaxwarp.geometry.surfaces.marching_cubes import marching_cubes
from jaxwarp.geometry.triangles import closest_at, signed_distance_at
from jaxwarp.geometry.winding import mesh_query_point_sign_winding_number


class SweptVolumeSignMode(enum.IntEnum):
    """The query that decides whether a point is inside of a mesh."""

    NORMAL = 0
    """`mesh_query_point_sign_normal`: for closed meshes."""
    WINDING_NUMBER = 1
    """`mesh_query_point_sign_winding_number`, of meshes with `support_winding_number=True`."""
    PARITY = 2
    """`mesh_query_point_sign_parity`: for closed meshes."""
    NO_SIGN = 3
    """Distances are positive inside too, for shells that are open."""


_NORMAL, _WINDING, _PARITY = 0, 1, 2
_MOST_NODES = 1 << 30
_LENGTH_ERROR = 1e-3  # of a quaternion: distances are wrong by as much
_CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)


@wp.func
def _by_winding(mesh: Mesh, point: wp.vec3, max_dist: float) -> MeshQueryPoint:
    """Query the closest point, signed by winding number. The sign is NaN for a mesh not made for winding numbers."""
    if mesh.winding_balls:
        return mesh_query_point_sign_winding_number(mesh, point, max_dist)
    found = mesh_query_point_no_sign(mesh, point, max_dist)
    found.sign = wp.nan
    return found


@wp.func
def _unsigned(mesh: Mesh, point: wp.vec3, max_dist: float) -> MeshQueryPoint:
    found = mesh_query_point_no_sign(mesh, point, max_dist)
    found.sign = 1.0
    return found


@wp.func
def _local(point: wp.vec3, pose: wp.transform) -> wp.vec3:
    return wp.transform_point(wp.transform_inverse(pose), point)


@wp.func
def swept_volume_sdf(
    point: wp.vec3, mesh: Mesh, transforms: wp.array[wp.transform], max_dist: float, sign_mode: int
) -> float:
    """The least signed distance of a point to a mesh in several poses; `max_dist` if that is less. In kernels.

    Args:
        point: where.
        mesh: in its pose at rest.
        transforms: the poses, from rest to the world, with quaternions of length 1.
        max_dist: how far it looks.
        sign_mode: a `SweptVolumeSignMode`, as a number. By winding numbers it is NaN if the mesh has none.

    Differentiability:
        By the point, the poses and the mesh's points: those of the pose that is nearest.
    """
    best = max_dist
    for k in range(transforms.shape[0]):
        local = _local(point, transforms[k])
        found = MeshQueryPoint(False, 0.0, -1, 0.0, 0.0)
        if sign_mode == _WINDING:
            found = _by_winding(mesh, local, max_dist)
        elif sign_mode == _NORMAL:
            found = mesh_query_point_sign_normal(mesh, local, max_dist)
        elif sign_mode == _PARITY:
            found = mesh_query_point_sign_parity(mesh, local, max_dist)
        else:
            found = _unsigned(mesh, local, max_dist)
        if found.result:
            away = mesh_eval_position(mesh, found.face, found.u, found.v) - local
            distance = wp.length(away)
            if sign_mode <= _PARITY:
                distance = signed_distance_at(face_corners(mesh, found.face), local, found.sign)
            best = distance if not distance >= best else best  # NaN stays
    return best


@wp.func
def _node(i: int, j: int, k: int, dims: wp.vec3i, lower: wp.vec3, upper: wp.vec3) -> wp.vec3:
    share = wp.vec3(float(i) / float(dims[0] - 1), float(j) / float(dims[1] - 1), float(k) / float(dims[2] - 1))
    return lower + wp.cw_mul(share, upper - lower)


class _Nearest(NamedTuple):
    """A kernel that finds the nearest pose at each node, its face, and the sign: on values without a derivative."""

    kernel: wp.Kernel
    call: Any


@cache
def _nearest(mode: int) -> _Nearest:
    query = {_WINDING: _by_winding, _NORMAL: mesh_query_point_sign_normal, _PARITY: mesh_query_point_sign_parity}.get(
        mode, _unsigned
    )

    @wp.kernel
    def find(
        mesh: Mesh, transforms: wp.array[wp.transform], dims: wp.vec3i, lower: wp.vec3, upper: wp.vec3,
        found: wp.array3d[wp.vec3i],
    ) -> None:  # fmt: skip
        i, j, k = wp.tid()
        point = _node(i, j, k, dims, lower, upper)
        best = float(wp.inf)
        nearest = wp.vec3i(-1, -1, 1)
        for n in range(transforms.shape[0]):
            local = _local(point, transforms[n])
            hit = query(mesh, local, wp.inf)
            if hit.result:
                distance = hit.sign * wp.length(mesh_eval_position(mesh, hit.face, hit.u, hit.v) - local)
                if distance < best:
                    best = distance
                    nearest = wp.vec3i(n, hit.face, -1 if hit.sign < 0.0 else 1)
        found[i, j, k] = nearest

    return _Nearest(find, wp.jax_kernel(find))


@wp.kernel
def _measure(  # noqa: PLR0913
    points: wp.array[wp.vec3], indices: wp.array[int], transforms: wp.array[wp.transform], dims: wp.vec3i,
    lower: wp.vec3, upper: wp.vec3, is_signed: bool, nearest: wp.array3d[wp.vec3i],
    before: wp.array3d[float], field: wp.array3d[float],
) -> None:  # fmt: skip
    """The distance to the nearest pose, where that is less than what was before."""
    i, j, k = wp.tid()
    pose = nearest[i, j, k][0]
    value = before[i, j, k]
    if pose >= 0:
        local = _local(_node(i, j, k, dims, lower, upper), transforms[pose])
        corners = corners_of(points, indices, nearest[i, j, k][1])
        distance = float(nearest[i, j, k][2])
        if is_signed:
            distance = signed_distance_at(corners, local, distance)
        else:
            v, w, _square = closest_at(corners, local)
            distance *= wp.length((1.0 - v - w) * corners[0] + v * corners[1] + w * corners[2] - local)
        value = wp.min(distance, value)
    field[i, j, k] = value


_measured = wp.jax_kernel(_measure)


# Where


def _poses(where: str, meshes: Sequence[Mesh], transforms: Any) -> Any:
    """The poses of each mesh, (meshes, poses, 7), of NumPy or JAX.

    Raises:
        KernelTypeError, KernelValueError: there are no meshes, or the poses are of another type or shape.
    """
    if not isinstance(meshes, Sequence) or len(meshes) == 0:
        raise KernelValueError(f"{where}: meshes: expected a list of at least one mesh, got {meshes!r}")
    for mesh in meshes:
        require_mesh(where, mesh)
    found = transforms.numpy() if isinstance(transforms, HostArray) else transforms
    found = found if isinstance(found, jax.Array) else np.asarray(found)
    if found.dtype.kind not in "iuf":
        raise KernelTypeError(
            f"{where}: transforms: expected numbers, got {found.dtype}", hint="(meshes, poses, 7) of float32"
        )
    if found.ndim != 3 or found.shape[0] != len(meshes) or found.shape[1] == 0 or found.shape[2] != 7:
        raise KernelValueError(
            f"{where}: transforms: expected ({len(meshes)}, poses, 7), at least one pose, got {found.shape}",
            hint="a place and a quaternion, x, y, z, w, for each mesh and pose",
        )
    found = found.astype(np.float32)
    if not isinstance(found, jax.core.Tracer):
        lengths = np.linalg.norm(np.asarray(found)[..., 3:], axis=-1)
        if not (np.isfinite(np.asarray(found)).all() and (abs(lengths - 1) <= _LENGTH_ERROR).all()):
            raise KernelValueError(
                f"{where}: transforms: expected finite places and quaternions of length 1, got {np.asarray(found)}",
                hint="a place and a quaternion, x, y, z, w: wp.transform(p, wp.normalize(q))",
            )
    return found


def _bounds(meshes: Sequence[Mesh], poses: Any) -> tuple[Any, Any]:
    """The corners of a box around all meshes in all poses: the boxes of meshes, turned."""
    is_traced = any(isinstance(x, jax.Array) for x in (poses, *(m.points for m in meshes)))
    xp: Any = jnp if is_traced else np
    found = []
    for mesh, pose in zip(meshes, poses, strict=True):
        points = mesh.points.numpy() if isinstance(mesh.points, HostArray) else mesh.points
        if points.shape[0] == 0:
            continue
        low, high = points.min(0), points.max(0)
        corners = low + _CORNERS * (high - low)
        axis, w = pose[:, None, 3:6], pose[:, None, 6:]
        turned = corners + 2 * xp.cross(axis, xp.cross(axis, corners) + w * corners)
        found.append((turned + pose[:, None, :3]).reshape(-1, 3))
    if not found:
        raise KernelValueError("swept_volume: meshes: none of them has a point", hint="pass meshes with faces")
    every = xp.concatenate(found)
    return every.min(0), every.max(0)


@boundary
def swept_volume_bounds(meshes: Sequence[Mesh], transforms: Any, padding: float = 0.0, device: Any = None) -> Any:
    """The lower and the upper corner of a box around all meshes in all poses, wider by `padding` on each side.

    Args:
        meshes, transforms: as of `swept_volume_field`.
        padding: a length.
        device: accepted, no effect.

    Raises:
        KernelTypeError, KernelValueError: an argument is of another type or shape.
    """
    del device
    poses = _poses("swept_volume_bounds", meshes, transforms)
    padding = padding if isinstance(padding, jax.Array) else number("swept_volume_bounds", "padding", padding)
    low, high = _bounds(meshes, poses)
    found = low - padding, high + padding
    return found if isinstance(low, jax.Array) else tuple(wp.vec3(*(float(x) for x in c)) for c in found)


def _grid(
    where: str, meshes: Sequence[Mesh], poses: Any, voxel_size: Any, resolution: Any, lower: Any, upper: Any,
    more: float,
) -> tuple[tuple[int, ...], Any, Any]:  # fmt: skip
    """Numbers of nodes and the corners: those that are given, or around all poses, two cells and `more` wider."""
    if (voxel_size is None) == (resolution is None) or (lower is None) != (upper is None):
        raise KernelValueError(
            f"{where}: expected voxel_size or resolution, and both of lower and upper or none",
            hint="voxel_size=0.05; or resolution=(32, 32, 32), lower=..., upper=...",
        )
    if resolution is not None:
        if not isinstance(resolution, (Sequence, np.ndarray)) or len(resolution) != 3:
            raise KernelValueError(
                f"{where}: resolution: expected three numbers from 2 on, got {resolution}", hint="write (32, 32, 32)"
            )
        dims = tuple(integer(where, "resolution", n, 2, _MOST_NODES) for n in resolution)
        if lower is not None:
            return dims, lower, upper
        low, high = _bounds(meshes, poses)
        wider = more + 2 * (high - low) / (np.array(dims, np.float32) - 1)
        return dims, low - wider, high + wider
    if lower is not None:
        raise KernelValueError(
            f"{where}: voxel_size: expected no corners beside it, got {lower} and {upper}",
            hint="with corners, pass resolution",
        )
    voxel_size = number(where, "voxel_size", voxel_size, 0.0)
    low, high = _bounds(meshes, poses)
    if isinstance(low, jax.core.Tracer):
        raise KernelTypeError(
            f"{where}: under jit, the number of nodes cannot depend on values", hint="pass resolution=(32, 32, 32)"
        )
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    counts = np.ceil((high - low + 2 * more) / voxel_size) + 5
    if not counts.prod() <= _MOST_NODES:
        raise KernelValueError(
            f"{where}: voxel_size: {voxel_size} makes {counts.prod():.3g} nodes, more than {_MOST_NODES}",
            hint="pass a greater one",
        )
    dims = counts.astype(int)
    around = ((dims - 1) * voxel_size - (high - low)) / 2
    return tuple(int(n) for n in dims), low - around, high + around


# The field, and its surface


@boundary
def swept_volume_field(
    meshes: Sequence[Mesh],
    transforms: Any,
    voxel_size: Any = None,
    *,
    resolution: Any = None,
    lower: Any = None,
    upper: Any = None,
    sign_mode: SweptVolumeSignMode = SweptVolumeSignMode.WINDING_NUMBER,
    device: Any = None,
) -> tuple[Any, Any, Any]:
    """The least signed distance to meshes in all poses, at the nodes of a grid: negative in what they pass through.

    What is between two poses is not looked at: there have to be enough. Inside of several poses, it is the distance to
    the surface of one. With arrays of JAX it works under `jit`, `vmap` and `scan`, where `resolution` is needed.

    Args:
        meshes: a list of `Mesh`, at rest.
        transforms: (meshes, poses, 7): places and quaternions, x, y, z, w, of length 1, from rest to the world; or an
            array of `transform` outside of JAX.
        voxel_size: how far nodes are from each other: the grid is around all poses, and two cells wider.
        resolution: or, numbers of nodes, (nx, ny, nz).
        lower, upper: where the first and the last node are. By default around all poses.
        sign_mode: how it is known what is inside of a mesh.
        device: accepted, no effect: the field is where the meshes are.

    Returns:
        `field, lower, upper`: arrays of JAX if a mesh or the poses have some; else an array outside of it, and `vec3`.

    Raises:
        KernelTypeError, KernelValueError: an argument is of another type or shape; a mesh has no winding numbers and
            they are asked for.

    Differentiability:
        In JAX by poses and the meshes' points: those of the nearest pose.
    """
    del device
    where = "swept_volume_field"
    poses = _poses(where, meshes, transforms)
    return _field(
        where, meshes, poses, _grid(where, meshes, poses, voxel_size, resolution, lower, upper, 0.0), sign_mode
    )


def _field(where: str, meshes: Sequence[Mesh], poses: Any, grid: Any, sign_mode: int) -> tuple[Any, Any, Any]:
    dims, lower, upper = grid
    if sign_mode == SweptVolumeSignMode.WINDING_NUMBER and any(m.winding_balls is None for m in meshes):
        raise KernelValueError(
            f"{where}: meshes: one has no sums for winding numbers",
            hint="make it with support_winding_number=True, or pass sign_mode=SweptVolumeSignMode.NORMAL",
        )
    nearest, size = _nearest(integer(where, "sign_mode", sign_mode, 0, 3)), wp.vec3i(*dims)
    is_signed = sign_mode != SweptVolumeSignMode.NO_SIGN
    if any(isinstance(x, jax.Array) for x in (poses, lower, upper, *(m.points for m in meshes))):
        low, high = (jnp.asarray(c).astype(jnp.float32) for c in (lower, upper))
        if low.shape != (3,) or high.shape != (3,):
            raise KernelValueError(f"{where}: lower, upper: expected three coordinates, got {low.shape}, {high.shape}")
        made: Any = jnp.full(dims, jnp.inf, jnp.float32)
        shapes = {"launch_dims": dims, "output_dims": dims}
        for mesh, pose in zip(meshes, jnp.asarray(poses), strict=True):
            (found,) = nearest.call(*detached((mesh, pose)), size, *detached((low, high)), **shapes)
            (made,) = _measured(mesh.points, mesh.indices, pose, size, low, high, is_signed, found, made, **shapes)
        return made, low, high
    low, high = (wp.vec3(*place(where, name, c)) for name, c in (("lower", lower), ("upper", upper)))
    if any(not low[k] < high[k] for k in range(3)):
        raise KernelValueError(f"{where}: upper: expected more than lower, {low}, got {high}")
    at = meshes[0].device
    made = wp.full(dims, math.inf, dtype=float, device=at)
    for mesh, pose in zip(meshes, poses, strict=True):
        before, made = made, wp.empty(dims, dtype=float, device=at)
        found, held = wp.empty(dims, dtype=wp.vec3i, device=at), wp.array(pose, dtype=wp.transform, device=at)
        wp.launch(nearest.kernel, dims, [mesh, held, size, low, high], [found], record_tape=False)
        given = [mesh.points, mesh.indices, held, size, low, high, is_signed, found, before]
        wp.launch(_measure, dims, given, [made], record_tape=False)
    return made, low, high


@boundary
def swept_volume_mesh(  # noqa: PLR0913 - as Warp has it
    meshes: Sequence[Mesh],
    transforms: Any,
    voxel_size: Any = None,
    *,
    resolution: Any = None,
    threshold: float = 0.0,
    lower: Any = None,
    upper: Any = None,
    sign_mode: SweptVolumeSignMode = SweptVolumeSignMode.WINDING_NUMBER,
    device: Any = None,
    size: Any = None,
) -> Any:
    """The surface of what meshes pass through, by marching cubes of `swept_volume_field`.

    Args:
        meshes, transforms, voxel_size, resolution, lower, upper, sign_mode, device: as of `swept_volume_field`.
        threshold: how far the surface is from the meshes. It has all poses inside if that is more than half the
            diagonal of a cell.
        size: in a program, room for how many vertices and faces, as of `marching_cubes`.

    Returns:
        With arrays of JAX a `Surface`; else `vertices, indices`, arrays outside of it.

    Raises:
        KernelTypeError, KernelValueError: as `swept_volume_field`; without a sign, `threshold` is not positive.
    """
    del device
    where = "swept_volume_mesh"
    threshold = number(where, "threshold", threshold)
    if sign_mode == SweptVolumeSignMode.NO_SIGN and threshold <= 0:
        raise KernelValueError(
            f"{where}: threshold: expected a positive number, got {threshold}",
            hint="distances without a sign are nowhere negative: they have no surface at 0",
        )
    poses = _poses(where, meshes, transforms)
    grid = _grid(where, meshes, poses, voxel_size, resolution, lower, upper, max(threshold, 0.0))
    field, low, high = _field(where, meshes, poses, grid, sign_mode)
    if isinstance(field, jax.Array):
        return marching_cubes(field, threshold, size=size, lower=low, upper=high)
    return IsoSurfaceMarchingCubes.extract(field, threshold, lower=low, upper=high)
