"""Trees over boxes and the faces of meshes, made by native code of arrays of NumPy, on this thread. See tree.h."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.native.library import load_library
from jaxwarp.unlocked import address_of

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int64
WORDS = 8


def _struct(name: str, *fields: tuple[str, Any]) -> Any:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


_TreeOrder = _struct(
    "TreeOrder", ("lowers", _POINTER), ("uppers", _POINTER), ("groups", _POINTER), ("size", _INT), ("order", _POINTER),
    ("first", _POINTER), ("names", _POINTER), ("roots", _POINTER),
)  # fmt: skip
_TreeBoxes = _struct(
    "TreeBoxes", ("lowers", _POINTER), ("uppers", _POINTER), ("order", _POINTER), ("first", _POINTER), ("size", _INT),
    ("leaves", _INT), ("nodes", _POINTER), ("grid", _POINTER),
)  # fmt: skip
_FACES = (
    *(("points", _POINTER), ("indices", _POINTER), ("order", _POINTER), ("vertices", _INT), ("size", _INT)),
    *(("corners", _POINTER), ("lowers", _POINTER), ("uppers", _POINTER)),
)
_Faces = _struct("Faces", *_FACES)
_MovedFaces = _struct(
    "MovedFaces", *_FACES, ("first", _POINTER), ("leaves", _INT), ("nodes", _POINTER), ("grid", _POINTER)
)


class NativeCall:
    """A function of the library, and the struct that it is given. It knows where arrays are, and keeps none.

    Args:
        is_alone: no other thread of Python goes on meanwhile.
    """

    __slots__ = ("_function", "_given", "_name")

    def __init__(
        self, name: str, kind: type[ctypes.Structure], *values: np.ndarray | int | None, is_alone: bool = False
    ):
        fields = [address_of(v) if isinstance(v, np.ndarray) else v for v in values]
        self._name, self._given = name, ctypes.byref(kind(*fields))
        self._function = _function(name, is_alone)

    def run(self) -> None:
        if not self._function(self._given):
            raise MemoryError(f"no memory for {self._name}")


def _call(function: str, kind: type[ctypes.Structure], *values: np.ndarray | int | None) -> None:
    NativeCall(function, kind, *values).run()


@functools.cache
def _function(name: str, is_alone: bool) -> Any:
    kind = ctypes.PYFUNCTYPE if is_alone else ctypes.CFUNCTYPE
    return kind(ctypes.c_bool, _POINTER)((name, load_library()))


def _floats(*arrays: np.ndarray) -> list[np.ndarray]:
    return [np.ascontiguousarray(a, np.float32) for a in arrays]


def _ints(*arrays: np.ndarray) -> list[np.ndarray]:
    return [np.ascontiguousarray(a, np.int32) for a in arrays]


def _views(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arrays as views, which cannot be resized: launches need not ask again where they are."""
    return tuple(array.view() for array in arrays)


def order_items(lowers: np.ndarray, uppers: np.ndarray, groups: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    """The order of boxes (n, 3), n > 0; of boxes in groups (n,) also where leaves start, groups and their roots."""
    lowers, uppers = _floats(lowers, uppers)
    count = len(lowers)
    order = np.empty(count, np.int32)
    if groups is None:
        _call("jaxwarp_tree_order", _TreeOrder, lowers, uppers, None, count, order, None, None, None)
        return _views(order)
    leaves = 1 << (count - 1).bit_length()
    first, names, roots = (np.empty(n, np.int32) for n in (leaves + 1, count, count))
    _call("jaxwarp_tree_order", _TreeOrder, lowers, uppers, *_ints(groups), count, order, first, names, roots)
    return _views(order, first, names, roots)


def box_items(lowers: np.ndarray, uppers: np.ndarray, order: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, ...]:
    """Nodes (leaves, 8), and the origin and the steps of their grid, (2, 3), of boxes (n, 3), n > 0."""
    lowers, uppers = _floats(lowers, uppers)
    order, first = _ints(order, first)
    leaves = len(first) - 1
    made = np.empty((leaves, WORDS), np.uint32), np.empty((2, 3), np.float32)
    _call("jaxwarp_tree_boxes", _TreeBoxes, lowers, uppers, order, first, len(lowers), leaves, *made)
    return _views(*made)


def place_faces(points: np.ndarray, indices: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, ...]:
    """Corners (m, 3, 3) of faces in an order, and lower and upper corners of their boxes, (m, 3), by number."""
    (points,) = _floats(points)
    indices, order = _ints(indices, order)
    count = len(order)
    made = np.empty((count, 3, 3), np.float32), np.empty((count, 3), np.float32), np.empty((count, 3), np.float32)
    _call("jaxwarp_mesh_faces", _Faces, points, indices, order, len(points), count, *made)
    return _views(*made)


def refit_faces(points: np.ndarray, indices: np.ndarray, order: np.ndarray, first: np.ndarray) -> Sequence[np.ndarray]:
    """Return the results of `place_faces` and then `box_items` for faces in an order: corners, lowers, uppers, nodes,
    grid."""
    count, leaves = len(order), len(first) - 1
    made = _views(
        *(np.empty((count, *shape), np.float32) for shape in ((3, 3), (3,), (3,))),
        np.empty((leaves, WORDS), np.uint32), np.empty((2, 3), np.float32),
    )  # fmt: skip
    (points,) = _floats(points)
    indices, order, first = _ints(indices, order, first)
    refit_in_place(points, indices, order, first, made, is_alone=False).run()
    return made


def refit_in_place(
    points: np.ndarray,
    indices: np.ndarray,
    order: np.ndarray,
    first: np.ndarray,
    own: Sequence[np.ndarray],
    is_alone: bool = True,
) -> NativeCall:
    """Return a call that, whenever it runs, refits faces as `refit_faces` does, into the arrays of such a result. All
    arrays must be dense."""
    count, leaves = len(order), len(first) - 1
    values = points, indices, order, len(points), count, *own[:3], first, leaves, *own[3:]
    return NativeCall("jaxwarp_mesh_refit", _MovedFaces, *values, is_alone=is_alone)
