"""`Bvh`: a tree over boxes, as a value of JAX and an argument of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.ids.living import id_of
from jaxwarp.arrays.ids.tables import give_ids
from jaxwarp.boundary import boundary, called, guarded
from jaxwarp.conversions import require_unmasked
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.geometry.kernels.arrays import is_on_gpu, new, place_of, sent, with_own_memory
from jaxwarp.geometry.kernels.boxes import Levels, set_boxes
from jaxwarp.geometry.operations import detached
from jaxwarp.geometry.steps import Node
from jaxwarp.geometry.tree import Order, boxes_of, order_of
from jaxwarp.launches.arguments.dims import require_known
from jaxwarp.memory.gpu.scope import device_of
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.types import HANDLE, Named, Scalar, Vec, element_shape, set_fields

CONSTRUCTORS = (None, "auto", "sah", "median", "lbvh", "cubql")


@guarded
@wp.struct
class Bvh:
    """A tree over boxes that finds those which overlap a box, a ray, a sphere or a capsule.

    It is a struct: a pytree of JAX, an argument of kernels, annotated `wp.Bvh`, or `wp.uint64` as in programs of Warp.
    The value itself is the argument, or its `id`. Making one is a pure function, also under `jit`,
    `vmap` and `scan`; its shapes follow from the number of boxes. It has no derivative.

    Outside of JAX, the tree of boxes on a GPU is made and refitted there, in the memory that it has.

    Args:
        lowers, uppers: corners of the boxes, (n, 3) of float32; or arrays of `vec3` outside of JAX, whose contents may
            change before `refit()`. Boxes that are NaN, infinite or the wrong way round are found by no query.
            Coordinates may be as large as floats are; queries further away than 1e25 find nothing.
        constructor: accepted, no effect: there is one kind of tree, halved at medians.
        groups: (n,) of int32, a group for each box: `bvh_get_group_root` gives queries the root of one.
        leaf_size: accepted, no effect.

    Raises:
        KernelTypeError, KernelValueError: the corners have another type or shape.
    """

    lowers: wp.array[wp.vec3]
    uppers: wp.array[wp.vec3]
    order: wp.array[int]
    first: wp.array[int]
    nodes: wp.array[Node]  # pyright: ignore[reportInvalidTypeForm]
    grid: wp.array[wp.vec3]  # of the nodes: its origin, its steps
    groups: wp.array[int]  # of the boxes, or None, as are these: the groups in ascending order, the root of each
    names: wp.array[int]
    roots: wp.array[int]

    if TYPE_CHECKING:  # checkers would make it of the fields

        def __init__(
            self,
            lowers: Any,
            uppers: Any,
            constructor: Any = None,
            groups: Any = None,
            leaf_size: Any = None,
        ) -> None: ...

    @property
    def id(self) -> Any:
        """A number that names the tree, for kernels that take `uint64`; 0 is none. In JAX, the tree itself."""
        return id_of(self)

    @property
    def device(self) -> Any:
        """The device of the tree's arrays if they are outside of JAX; otherwise the CPU."""
        return self.lowers.device if isinstance(self.lowers, HostArray) else wp.get_device("cpu")

    @boundary
    def refit(self, lowers: Any = None, uppers: Any = None) -> Bvh:
        """The tree for boxes that have moved, in the order it has.

        Given boxes, it is another tree. Without, this one reads its arrays again, written outside of JAX.

        Raises:
            KernelTypeError, KernelValueError: the number of boxes is another one; or arrays of JAX, which never change.
        """
        return _remade(self, lowers, uppers, is_ordered=True)

    @boundary
    def rebuild(self, lowers: Any = None, uppers: Any = None, constructor: Any = None) -> Bvh:
        """Build the tree for boxes that have moved, as `refit` does, with a new order. This pays after large moves."""
        require_constructor("Bvh.rebuild", constructor)
        return _remade(self, lowers, uppers, is_ordered=False)


setattr(Bvh, HANDLE, True)
give_ids(Bvh, Named(frozenset(("groups", "names", "roots")), {"first": 2}))
setattr(Bvh, "_HINT", "bvh.refit(lowers, uppers) is the tree over other boxes")  # noqa: B010 - no type knows it


@boundary
@called("Bvh")
def _init(
    self: Bvh, lowers: Any, uppers: Any, constructor: Any = None, groups: Any = None, leaf_size: Any = None
) -> None:
    del leaf_size
    require_constructor("Bvh", constructor)
    low, high = corners("Bvh: lowers", lowers), corners("Bvh: uppers", uppers)
    _require_alike(low, high, "lowers")
    found = order_of(low, high, group_numbers("Bvh", groups, len(low), "box"))
    _set_order(self, found, groups)
    _set_boxes(self, lowers, uppers, low, high)


Bvh.__init__ = _init


def require_constructor(where: str, constructor: Any) -> None:
    """One of Warp's names of constructors."""
    name = getattr(constructor, "value", constructor)
    if name not in CONSTRUCTORS and not isinstance(name, int):
        raise KernelValueError(
            f"{where}: expected a constructor of {', '.join(map(repr, CONSTRUCTORS[1:]))}, got {constructor!r}",
            hint="leave it out: there is one kind of tree",
        )


def require_place(what: str, value: Any, place: Any, of: str) -> None:
    """Require that an array is on the GPU that others are on, or, if they are on none, on none.

    Raises:
        KernelTypeError: it is elsewhere.
    """
    if place_of(value) is not place:
        here, there = (f"on {device_of(p)}" if p else "in memory of the host" for p in (place_of(value), place))
        raise KernelTypeError(f"{what}: expected an array {there}, where {of}, got one {here}")


def _require_alike(low: Any, high: Any, what: str) -> None:
    require_place("Bvh: uppers", high, place_of(low), f"{what} are")
    if low.shape != high.shape:
        raise KernelValueError(
            f"Bvh: expected as many uppers as {what}, {len(low)}, got {len(high)}", hint="pass two corners for each box"
        )


def corners(where: str, value: Any) -> Any:
    """Points as (n, 3) of float32, of NumPy or JAX, read where they are; on a GPU outside of JAX, as (n,) of `vec3`.

    Raises:
        KernelTypeError, KernelValueError: they are none.
    """
    require_unmasked(value)
    if isinstance(value, LiveArray):
        shape, dtype = (*value.shape, *element_shape(value.dtype)), value.dtype
        is_single = isinstance(dtype, Vec) and dtype.dtype == wp.float32
        if is_single:
            value = _read(where, value)
    else:
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        is_single = dtype == np.float32
    if shape is None or dtype is None:
        raise KernelTypeError(
            f"{where}: expected an array of points, got {type_text(value)}",
            hint="pass (n, 3) of float32: jnp.asarray(points, jnp.float32), or an array of vec3",
        )
    if isinstance(dtype, Scalar) and dtype == wp.float32:
        raise KernelTypeError(
            f"{where}: expected an array of vec3, got one of float32, of shape {tuple(shape)}",
            hint="make it with dtype=vec3: array(points, dtype=vec3)",
        )
    if not is_single and isinstance(dtype, Vec) and not isinstance(value, LiveArray):  # one of a traced program
        raise KernelTypeError(f"{where}: expected an array of NumPy or JAX, got {value!r}", hint="pass array.value")
    if not is_single:
        raise KernelTypeError(f"{where}: expected float32, got {dtype}", hint="convert it: points.astype('float32')")
    if len(shape) != 2 or shape[1] != 3:
        raise KernelValueError(
            f"{where}: expected the shape (n, 3), got {tuple(shape)}", hint="pass a row for each point"
        )
    require_known(shape, where)
    return value


def _read(where: str, value: Any) -> Any:
    """The contents of an array outside of JAX: itself where it is on a GPU."""
    if not is_on_gpu(value):
        return value.numpy()
    value.scope.require_settled(where)
    return value


def group_numbers(where: str, groups: Any, count: int, of: str) -> Any:
    """Groups as (count,) of int32, of NumPy or JAX; or None.

    Raises:
        KernelTypeError, KernelValueError: they are none.
    """
    value = groups.numpy() if isinstance(groups, LiveArray) else groups
    if value is None:
        return None
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None or dtype != np.int32:
        got = type(value).__name__ if dtype is None else dtype
        raise KernelTypeError(f"{where}: groups: expected an array of int32, got {got}", hint="groups.astype('int32')")
    if tuple(shape) != (count,):
        raise KernelValueError(
            f"{where}: groups: expected {count}, one for each {of}, got the shape {tuple(shape)}",
            hint=f"pass the number of a group for each {of}",
        )
    return value


def _set_order(bvh: Bvh, found: Order, groups: Any) -> None:
    if is_on_gpu(found.order) and groups is not None and not isinstance(groups, LiveArray):
        groups = sent(found.order.scope, wp.int32, groups)
    set_fields(bvh, order=found.order, first=found.first, groups=groups, names=found.groups, roots=found.roots)


def _set_boxes(bvh: Bvh, lowers: Any, uppers: Any, low: Any, high: Any) -> None:
    """Gives a Bvh with an order its boxes, and what is in them as NumPy or JAX read it."""
    if is_on_gpu(low):
        set_fields(bvh, lowers=lowers, uppers=uppers)
        set_boxes_on_gpu(bvh, low, high)
        return
    nodes, grid = boxes_of(low, high, bvh.order, bvh.first)
    set_fields(bvh, lowers=detached(lowers), uppers=detached(uppers), nodes=nodes, grid=grid)


def set_boxes_on_gpu(bvh: Bvh, lowers: HostArray, uppers: HostArray) -> None:
    """Gives a Bvh the nodes over boxes, in the memory that it has, if it has some on this GPU."""
    place, held, leaves = lowers.scope, vars(bvh), len(bvh.first) - 1
    if place_of(held.get("nodes")) is not place:
        nodes, grid = new(place, Node, leaves), new(place, wp.vec3, 2)
        set_fields(bvh, nodes=nodes, grid=grid)
    if held.get("_levels") is None or held["_levels"].place is not place:
        set_fields(bvh, _levels=Levels(place, leaves))
    set_boxes(lowers, uppers, bvh.order, bvh.first, (held["nodes"], held["grid"]), held["_levels"])


def with_boxes(bvh: Bvh, lowers: Any, uppers: Any, nodes: Any, grid: Any) -> Bvh:
    """A Bvh of another one's order, with boxes that have been found."""
    made = object.__new__(Bvh)
    set_fields(made, bvh.__dict__, lowers=lowers, uppers=uppers, nodes=nodes, grid=grid)
    return made


def tree_of(lowers: Any, uppers: Any, groups: Any = None, ordered: Bvh | None = None) -> Bvh:
    """A Bvh of its own order, or of another one's."""
    made = object.__new__(Bvh)
    if ordered is not None:
        set_fields(made, ordered.__dict__)
    else:
        given = group_numbers("Bvh", groups, len(lowers), "box")
        _set_order(made, order_of(lowers, uppers, given), groups)
    _set_boxes(made, lowers, uppers, lowers, uppers)
    return made


def give_own_memory(bvh: Bvh, names: Sequence[str]) -> None:
    """Give a tree on a GPU arrays that no copy of it has: a refit writes to them."""
    with_own_memory(bvh, names)
    set_fields(bvh, _levels=None)


def _remade(bvh: Bvh, lowers: Any, uppers: Any, is_ordered: bool) -> Bvh:
    what = "refit" if is_ordered else "rebuild"
    is_new = lowers is not None or uppers is not None
    if is_new and (lowers is None or uppers is None):
        raise KernelTypeError(f"Bvh.{what}: expected lowers and uppers, got one of them", hint="pass both, or none")
    if not is_new and isinstance(bvh.lowers, jax.Array):
        raise KernelTypeError(
            f"Bvh.{what}: the boxes are arrays of JAX, which never change", hint=f"bvh = bvh.{what}(lowers, uppers)"
        )
    place = place_of(bvh.lowers) if is_ordered else None
    if not is_new and HOST.defers(f"Bvh.{what}", lambda: _remade(bvh, None, None, is_ordered), place, [bvh]):
        return bvh
    lowers, uppers = (lowers, uppers) if is_new else (bvh.lowers, bvh.uppers)
    low, high = corners(f"Bvh.{what}: lowers", lowers), corners(f"Bvh.{what}: uppers", uppers)
    _require_alike(low, high, "lowers")
    require_place(f"Bvh.{what}: lowers", low, place_of(bvh.nodes), "the tree is")
    if low.shape != tuple(corners("Bvh", bvh.lowers).shape):
        raise KernelValueError(
            f"Bvh.{what}: expected {len(bvh.lowers)} boxes, as the tree has, got {len(low)}", hint="make another Bvh"
        )
    made = bvh
    if is_new:
        made = object.__new__(Bvh)
        set_fields(made, bvh.__dict__)
        give_own_memory(made, ("nodes", "grid"))
    if not is_ordered:
        given = group_numbers("Bvh", bvh.groups, len(low), "box")
        _set_order(made, order_of(low, high, given), bvh.groups)
    _set_boxes(made, lowers, uppers, low, high)
    return made


__all__ = ["Bvh"]
