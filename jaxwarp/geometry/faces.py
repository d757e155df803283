"""The corners of a mesh's faces, in the order of its tree, and their boxes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxwarp.geometry.operations import detached, is_on_host, like, operation
from jaxwarp.native import trees


def faces_by_jax(points: Any, faces: Any, order: Any) -> tuple[Any, Any, Any]:
    """The corners of faces (m, 3) in an order, (m, 3, 3), and their bounds, (m, 3), by number.

    Of a face that names no vertex all is NaN; of one with a vertex that is NaN, its bounds are.
    """
    there = ((faces >= 0) & (faces < len(points))).all(1)[:, None, None]
    triangles = jnp.where(there, points[jnp.clip(faces, 0, len(points) - 1)], jnp.nan)
    return triangles[order], triangles.min(1), triangles.max(1)


def _results(_points: Any, faces: Any, order: Any) -> Any:
    batch = order.shape[:-1]
    return [((*batch, *shape), np.float32) for shape in ((faces.shape[-2], 3, 3), faces.shape[-2:], faces.shape[-2:])]


_faces = operation(
    "jaxwarp_mesh_faces", _results, jnp.vectorize(faces_by_jax, signature="(v,k),(m,j),(m)->(m,j,k),(m,k),(m,k)")
)


def faces_in_order(points: Any, faces: Any, order: Any = None) -> tuple[Any, Any, Any]:
    """As `faces_by_jax`, without a derivative; in the order that they have if none is given."""
    points = detached(points)
    order = np.arange(len(faces), dtype=np.int32) if order is None else order
    if len(points) == 0 or len(faces) == 0:
        none = np.full((len(faces), 3, 3), np.nan, np.float32)
        found = none, none[:, 0], none[:, 0]
    elif is_on_host(points, faces, order):
        found = trees.place_faces(np.asarray(points), np.asarray(faces), np.asarray(order))
    else:
        return tuple(_faces(points, faces, order))
    return like(points, found[0]), like(points, found[1]), like(points, found[2])


def in_order(triangles: Any, order: Any) -> Any:
    """Corners that have been found, in the order of the tree."""
    if is_on_host(triangles, order):
        return like(triangles, np.asarray(triangles)[np.asarray(order)])
    return jnp.asarray(triangles).at[order].get(mode="promise_in_bounds", unique_indices=True)
