"""`Mesh`: triangles and the tree over them, as a value of JAX and an argument of kernels."""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry.bvh import Bvh, corners, group_numbers, require_constructor, tree_of
from jaxwarp.geometry.faces import faces_in_order, in_order
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.types import HANDLE


@wp.struct
class Mesh:
    """Triangles that kernels and functions of `jaxwarp.geometry` ask for hits of rays, closest points and neighbours.

    It is a struct: a pytree of JAX, an argument of kernels, annotated `wp.Mesh`, or `wp.uint64` as in programs of Warp.
    Making one is a pure function, also under `jit`, `vmap` and `scan`; its shapes follow from those of its arguments.
    Derivatives are those by `points` and `velocities`; the tree has none.

    Args:
        points: vertices, (n, 3) of float32; or an array of `vec3` outside of JAX, whose contents may change before
            `refit()`. A face with a vertex that is NaN or infinite is hit by nothing.
        indices: three vertices for each face: (3 m,) or (m, 3), int32.
        velocities: of the vertices, as `points`.
        support_winding_number: not there yet: refused.
        groups: (m,) of int32, a group for each face: `mesh_get_group_root` gives queries the root of one.
        bvh_constructor, bvh_leaf_size: accepted, no effect: there is one kind of tree, halved at medians.

    Raises:
        KernelTypeError, KernelValueError: the arguments have other types or shapes.
        KernelValueError: an index is of no vertex, where indices are known. Traced, its face is hit by nothing.
    """

    points: wp.array[wp.vec3]
    indices: wp.array[int]
    velocities: wp.array[wp.vec3]
    bvh: Bvh
    corners: wp.array[wp.mat33]  # of the faces, in the order of the tree

    @property
    def id(self) -> Mesh:
        """Itself: what programs of Warp pass to kernels."""
        return self

    @boundary
    def refit(self, points: Any = None) -> Mesh:
        """The mesh after its vertices have moved, with the tree's order as it is.

        Given points, it is another mesh. Without, this one reads its array again, written outside of JAX.

        Raises:
            KernelTypeError, KernelValueError: the number of points is another one; or an array of JAX, which never
                changes.
        """
        if points is None and isinstance(self.points, jax.Array):
            raise KernelTypeError(
                "Mesh.refit: the points are an array of JAX, which never changes", hint="mesh = mesh.refit(points)"
            )
        if points is None:
            if not HOST.defers("Mesh.refit", self.refit):
                _refit(self, "Mesh.refit: points", self.points)
            return self
        made = _copied(self)
        _refit(made, "Mesh.refit: points", points)
        return made

    @boundary
    def replace(self, **changes: Any) -> Mesh:
        """Another mesh, with other `points` or `velocities`; other points refit it."""
        made = _copied(self)
        for name, value in changes.items():
            setattr(made, name, value)
        return made


setattr(Mesh, HANDLE, True)


@boundary
def _init(
    self: Mesh,
    points: Any,
    indices: Any,
    velocities: Any = None,
    support_winding_number: bool = False,
    bvh_constructor: Any = None,
    bvh_leaf_size: Any = None,
    groups: Any = None,
) -> None:
    del bvh_leaf_size
    require_constructor("Mesh", bvh_constructor)
    if support_winding_number:
        raise KernelTypeError(
            "Mesh: support_winding_number is not there yet",
            hint="leave it out, and ask for signs with mesh_query_point or mesh_query_point_sign_normal",
        )
    places, faces = corners("Mesh: points", points), _faces(indices)
    _require_vertices(faces, len(places))
    group_numbers("Mesh", groups, len(faces), "face")
    triangles, lowers, uppers = faces_in_order(places, faces)
    bvh = tree_of(lowers, uppers, groups)
    own = indices if isinstance(indices, LiveArray) else faces.reshape(-1)
    self.__dict__.update(points=points, indices=own, velocities=None, bvh=bvh, corners=in_order(triangles, bvh.order))
    if velocities is not None:
        self.velocities = velocities


@boundary
def _setattr(self: Mesh, name: str, value: Any) -> None:
    """`mesh.points = p` refits; the tree cannot be set."""
    if name == "points":
        _refit(self, "Mesh: points", value)
    elif name == "velocities":
        if value is not None and corners("Mesh: velocities", value).shape != corners("Mesh", self.points).shape:
            raise KernelValueError(
                f"Mesh: velocities: expected {len(self.points)}, one for each point, got {len(value)}",
                hint="pass an array of the shape of points",
            )
        self.__dict__[name] = value
    else:
        raise KernelTypeError(f"Mesh: {name} cannot be set", hint="set points or velocities, or make another Mesh")


Mesh.__init__ = _init
Mesh.__setattr__ = _setattr


def _copied(mesh: Mesh) -> Mesh:
    made = object.__new__(Mesh)
    made.__dict__.update(mesh.__dict__)
    return made


def _refit(mesh: Mesh, where: str, points: Any) -> None:
    places = corners(where, points)
    expected = corners("Mesh", mesh.points).shape
    if places.shape != expected:
        raise KernelValueError(
            f"{where}: expected {expected[0]} points, as the mesh has, got {len(places)}", hint="make another Mesh"
        )
    faces = mesh.indices.numpy() if isinstance(mesh.indices, LiveArray) else mesh.indices
    triangles, lowers, uppers = faces_in_order(places, faces.reshape(-1, 3), mesh.bvh.order)
    mesh.__dict__.update(points=points, bvh=tree_of(lowers, uppers, ordered=mesh.bvh), corners=triangles)


def _faces(indices: Any) -> Any:
    """(m, 3) of int32.

    Raises:
        KernelTypeError, KernelValueError: there are none.
    """
    value = indices.numpy() if isinstance(indices, LiveArray) else indices
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None or dtype != np.int32:
        got = type(value).__name__ if dtype is None else dtype
        raise KernelTypeError(f"Mesh: indices: expected an array of int32, got {got}", hint="indices.astype('int32')")
    is_flat = len(shape) == 1 and shape[0] % 3 == 0
    if not is_flat and not (len(shape) == 2 and shape[1] == 3):
        raise KernelValueError(
            f"Mesh: indices: expected the shape (3 * m,) or (m, 3), got {tuple(shape)}",
            hint="pass three vertices for each face: quads have to be cut",
        )
    return value.reshape(-1, 3)


def _require_vertices(faces: Any, count: int) -> None:
    if isinstance(faces, jax.core.Tracer) or not faces.size:
        return
    known = np.asarray(faces)
    outside = ((known < 0) | (known >= count)).any(1)
    if outside.any():
        first = int(outside.argmax())
        raise KernelValueError(
            f"Mesh: indices: face {first} has the vertices {known[first].tolist()}, but there are {count} points",
            hint=f"vertices are numbered from 0 to {count - 1}" if count else "pass the points",
        )
