"""`Mesh`: triangles and the tree over them, as a value of JAX and an argument of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.held import are_held_alone, keep, kept
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.ids.living import id_of
from jaxwarp.arrays.ids.tables import give_ids
from jaxwarp.boundary import boundary, called, guarded
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry.bvh import (
    Bvh,
    corners,
    give_own_memory,
    group_numbers,
    require_constructor,
    require_place,
    set_boxes_on_gpu,
    tree_of,
    with_boxes,
)
from jaxwarp.geometry.kernels.arrays import is_on_gpu, place_of, sent, with_own_memory
from jaxwarp.geometry.kernels.boxes import bad_face_on_gpu, corners_on_gpu, faces_in_jax, faces_on_gpu, set_faces
from jaxwarp.geometry.moments import Moments, moments_of
from jaxwarp.geometry.operations import detached, is_on_host, like, operation
from jaxwarp.launches.arguments.dims import require_known
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.native import trees
from jaxwarp.types import ABSENT_HINTS, HANDLE, Named, set_fields
from jaxwarp.unlocked import address_of


@wp.struct
class Mesh:
    """A triangle mesh with a search tree, for hits of rays, closest points and faces in a region.

    It is a pytree of JAX, and an argument of kernels, annotated `wp.Mesh`, or `wp.uint64` as in Warp. You can make one
    under `jit`, `vmap` and `scan`. It is differentiable with respect to `points` and `velocities`.

    Args:
        points: vertices, (n, 3) of float32; or an array of `vec3` outside of JAX, whose contents may change before
            `refit()`. A face with a vertex that is NaN or infinite is hit by nothing.
        indices: three vertices for each face: (3 m,) or (m, 3), int32.
        velocities: of the vertices, as `points`.
        support_winding_number: whether it has what `mesh_query_point_sign_winding_number` and
            `geometry.winding_number` sum.
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
    winding_balls: wp.array[wp.vec4]  # around the faces below each node, and what is summed over them; or None
    winding_moments: wp.array[Moments]  # pyright: ignore[reportInvalidTypeForm]

    if TYPE_CHECKING:  # checkers would make it of the fields

        def __init__(
            self,
            points: Any,
            indices: Any,
            velocities: Any = None,
            support_winding_number: bool = False,
            bvh_constructor: Any = None,
            bvh_leaf_size: Any = None,
            groups: Any = None,
        ) -> None: ...

    @property
    def id(self) -> Any:
        """A number that names the mesh, for kernels that take `uint64`; 0 is none. In JAX, the mesh itself."""
        return id_of(self)

    @property
    def device(self) -> Any:
        """The device of the mesh's arrays if they are outside of JAX; otherwise the CPU."""
        return self.points.device if isinstance(self.points, HostArray) else wp.get_device("cpu")

    @property
    def groups(self) -> Any:
        """The group of each face, or None."""
        return self.bvh.groups

    @property
    def support_winding_number(self) -> bool:
        """True if the mesh has the moments that winding numbers are summed from."""
        return self.winding_balls is not None

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
            if not HOST.defers("Mesh.refit", self.refit, place_of(self.points), [self]):
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
_OPTIONAL = ("velocities", "bvh.groups", "bvh.names", "bvh.roots", "winding_balls", "winding_moments")
give_ids(Mesh, Named(frozenset(_OPTIONAL), {"bvh.first": 2}))
_SUMS = "make the mesh with sums for winding numbers: Mesh(points, indices, support_winding_number=True)"
setattr(Mesh, ABSENT_HINTS, {"winding_balls": _SUMS, "winding_moments": _SUMS})


@boundary
@called("Mesh")
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
    places = corners("Mesh: points", points)
    faces = _faces(indices, place_of(places))
    _require_vertices(faces, len(places))
    group_numbers("Mesh", groups, len(faces), "face")
    triangles, lowers, uppers = faces_in_order(places, faces)
    bvh = tree_of(lowers, uppers, groups)
    own = _flat(indices) if isinstance(indices, LiveArray) else faces.reshape(-1)
    set_fields(self, points=points, indices=own, velocities=None, bvh=bvh, corners=in_order(triangles, bvh.order))
    set_fields(self, winding_balls=None, winding_moments=None)
    if support_winding_number:
        _set_moments(self, places, faces.reshape(-1))
    if velocities is not None:
        self.velocities = velocities


@boundary
def _setattr(self: Mesh, name: str, value: Any) -> None:
    """`mesh.points = p` refits."""
    if name == "points":
        _refit(self, "Mesh: points", value)
    elif name == "velocities":
        if value is not None and corners("Mesh: velocities", value).shape != corners("Mesh", self.points).shape:
            raise KernelValueError(
                f"Mesh: velocities: expected {len(self.points)}, one for each point, got {len(value)}",
                hint="pass an array of the shape of points",
            )
        set_fields(self, {name: value})
    else:
        raise KernelTypeError(f"Mesh: {name} cannot be set", hint="set points or velocities, or make another Mesh")


Mesh.__init__ = _init
Mesh.__setattr__ = _setattr
setattr(Mesh, "_SETTABLE", ("points", "velocities"))  # noqa: B010 - no type knows it
guarded(Mesh)


def _copied(mesh: Mesh) -> Mesh:
    made = object.__new__(Mesh)
    set_fields(made, mesh.__dict__)
    _give_own_memory(made)
    return made


def _give_own_memory(mesh: Mesh) -> None:
    """Give a mesh on a GPU arrays that no copy of it has: a refit writes to them."""
    if is_on_gpu(mesh.corners):
        bvh = object.__new__(Bvh)
        set_fields(bvh, mesh.bvh.__dict__)
        give_own_memory(bvh, ("lowers", "uppers", "nodes", "grid"))
        set_fields(mesh, bvh=bvh)
        with_own_memory(mesh, ("corners", "winding_balls", "winding_moments"))


def _refit(mesh: Mesh, where: str, points: Any) -> None:
    if points is mesh.points and mesh.winding_balls is None and not is_on_gpu(points) and _move_again(mesh):
        return
    places = corners(where, points)
    require_place(where, places, place_of(mesh.corners), "the mesh is")
    expected = places.shape if points is mesh.points else corners("Mesh", mesh.points).shape
    if places.shape != expected:
        raise KernelValueError(
            f"{where}: expected {expected[0]} points, as the mesh has, got {len(places)}", hint="make another Mesh"
        )
    is_read = isinstance(mesh.indices, LiveArray) and not is_on_gpu(mesh.indices)
    faces: Any = mesh.indices.numpy() if is_read else mesh.indices
    if is_on_gpu(places):
        if points is not mesh.points:
            _give_own_memory(mesh)
        tree = mesh.bvh
        if vars(mesh).get("_faces") is None or vars(mesh)["_faces"].ptr != faces.ptr:
            set_fields(mesh, _faces=faces.reshape(-1, 3))
        set_faces(places, vars(mesh)["_faces"], tree.order, (mesh.corners, tree.lowers, tree.uppers))
        set_boxes_on_gpu(tree, tree.lowers, tree.uppers)
    elif _are_of_numpy(places, faces, mesh.bvh.order, mesh.corners) and places.size and faces.size:
        _move(mesh, places, faces)
    else:
        triangles, lowers, uppers = faces_in_order(places, faces.reshape(-1, 3), mesh.bvh.order)
        set_fields(mesh, bvh=tree_of(lowers, uppers, ordered=mesh.bvh), corners=triangles)
    set_fields(mesh, points=points)
    if mesh.winding_balls is not None:
        _set_moments(mesh, places, faces.reshape(-1))


def _are_of_numpy(*values: Any) -> bool:
    return all(isinstance(value, np.ndarray) for value in values)


_MOVE = object()  # what is kept of a mesh by it: the call that has moved it


def _move(mesh: Mesh, places: np.ndarray, faces: np.ndarray) -> None:
    """The mesh with its vertices at other places, in the memory that its tree has, or in other memory, if somebody else
    has that, too: a copy of the mesh, or a program of JAX."""
    tree = vars(mesh.bvh)
    arrays = places, faces, tree["order"], tree["first"]
    if _are_dense(*arrays) and are_held_alone(mesh, [mesh.bvh], _own(mesh)):
        move = trees.refit_in_place(*arrays, _own(mesh))
        move.run()
        if _are_read_in_place(mesh, places, faces):
            keep(mesh, _MOVE, move)
    else:
        triangles, *boxes = trees.refit_faces(*arrays)
        set_fields(mesh, corners=triangles, bvh=with_boxes(mesh.bvh, *boxes))


def _move_again(mesh: Mesh) -> bool:
    """The mesh after its vertices have moved as in the last `_move`: nothing of it has changed but where they are."""
    move = kept(mesh, _MOVE)
    if move is None or not are_held_alone(mesh, [mesh.bvh], _own(mesh)):
        return False
    move.run()
    return True


def _own(mesh: Mesh) -> list[np.ndarray]:
    """Return the arrays of a mesh that change when its vertices move."""
    tree = vars(mesh.bvh)
    return [mesh.corners, tree["lowers"], tree["uppers"], tree["nodes"], tree["grid"]]


def _are_dense(*arrays: np.ndarray) -> bool:
    return all(array.flags.c_contiguous for array in arrays)


def _are_read_in_place(mesh: Mesh, places: np.ndarray, faces: np.ndarray) -> bool:
    """Return whether vertices and faces of a mesh on the host were read where they are, without a copy."""
    return all(
        array is read if isinstance(array, np.ndarray) else array._region.address == address_of(read)
        for array, read in ((mesh.points, places), (mesh.indices, faces))
    )


def _set_moments(mesh: Mesh, points: Any, indices: Any) -> None:
    held = vars(mesh)
    balls, moments = moments_of(points, indices, mesh.bvh, (held["winding_balls"], held["winding_moments"]))
    set_fields(mesh, winding_balls=balls, winding_moments=moments)


def _faces(indices: Any, place: Any) -> Any:
    """(m, 3) of int32; on a GPU, if `place` is one.

    Raises:
        KernelTypeError, KernelValueError: there are none.
    """
    value = indices
    if isinstance(indices, LiveArray) and place is None:
        value = indices.numpy()
    elif isinstance(indices, HostArray):
        require_place("Mesh: indices", indices, place, "the points are")
        value = indices.contiguous()
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    is_int = dtype == (wp.int32 if isinstance(value, HostArray) else np.int32)
    if shape is None or dtype is None or not is_int:
        got = type(value).__name__ if dtype is None else dtype
        raise KernelTypeError(f"Mesh: indices: expected an array of int32, got {got}", hint="indices.astype('int32')")
    require_known(shape, "Mesh: indices")
    is_flat = len(shape) == 1 and shape[0] % 3 == 0
    if not is_flat and not (len(shape) == 2 and shape[1] == 3):
        raise KernelValueError(
            f"Mesh: indices: expected the shape (3 * m,) or (m, 3), got {tuple(shape)}",
            hint="pass three vertices for each face: quads have to be cut",
        )
    if place is not None and not isinstance(value, HostArray):
        return sent(place, wp.int32, np.asarray(value).reshape(-1, 3))
    return value.reshape(-1, 3)


def _flat(indices: Any) -> Any:
    return indices if indices.ndim == 1 else indices.contiguous().flatten()


def _require_vertices(faces: Any, count: int) -> None:
    if isinstance(faces, jax.core.Tracer) or not faces.size:
        return
    first = _bad_face(faces, count)
    if first < len(faces):
        given = faces[first : first + 1]
        vertices = (given.numpy() if is_on_gpu(given) else np.asarray(given))[0].tolist()
        raise KernelValueError(
            f"Mesh: indices: face {first} has the vertices {vertices}, but there are {count} points",
            hint=f"vertices are numbered from 0 to {count - 1}" if count else "pass the points",
        )


def _bad_face(faces: Any, count: int) -> int:
    """The first face that names no vertex, or the number of faces."""
    if is_on_gpu(faces):
        return bad_face_on_gpu(faces, count)
    known = np.asarray(faces)
    outside = ((known < 0) | (known >= count)).any(1)
    return int(outside.argmax()) if outside.any() else len(known)


# Corners in the order of the tree


def _place_results(_points: object, faces: jax.core.ShapedArray, order: jax.core.ShapedArray) -> Any:
    batch = order.shape[:-1]
    return [((*batch, *shape), np.float32) for shape in ((faces.shape[-2], 3, 3), faces.shape[-2:], faces.shape[-2:])]


_place = operation(
    "jaxwarp_mesh_faces", _place_results, jnp.vectorize(faces_in_jax, signature="(v,k),(m,j),(m)->(m,j,k),(m,k),(m,k)")
)


def faces_in_order(points: Any, faces: Any, order: Any = None) -> tuple[Any, Any, Any]:
    """Return what `faces_in_jax` returns, without a derivative. Without `order`, faces keep the order they have."""
    if is_on_gpu(points):
        return faces_on_gpu(points, faces, order)
    points = detached(points)
    order = np.arange(len(faces), dtype=np.int32) if order is None else order
    if len(points) == 0 or len(faces) == 0:
        none = np.full((len(faces), 3, 3), np.nan, np.float32)
        found = none, none[:, 0], none[:, 0]
    elif is_on_host(points, faces, order):
        found = trees.place_faces(np.asarray(points), np.asarray(faces), np.asarray(order))
    else:
        return tuple(_place(points, faces, order))
    return like(points, found[0]), like(points, found[1]), like(points, found[2])


def in_order(triangles: Any, order: Any) -> Any:
    """Corners that have been found, in the order of the tree."""
    if is_on_gpu(triangles):
        return corners_on_gpu(triangles, order)
    if is_on_host(triangles, order):
        return like(triangles, np.asarray(triangles)[np.asarray(order)].view())
    return jnp.asarray(triangles).at[order].get(mode="promise_in_bounds", unique_indices=True)
