"""Queries by all threads of a block together: a block is one thread, so they find one box at a time.

Names and results are Warp's: a tile of an index for each thread, -1 of those that have found none.
"""

# ruff: noqa: A002, ANN201, F811, UP018
# pyright: reportRedeclaration=false, reportAttributeAccessIssue=false

from __future__ import annotations

import jaxwarp as wp
from jaxwarp.geometry.bvh import Bvh
from jaxwarp.geometry.bvh_queries import BvhQuery, bvh_query_aabb, bvh_query_next, bvh_query_ray
from jaxwarp.geometry.mesh import Mesh
from jaxwarp.geometry.mesh_queries import MeshQuery, mesh_query_aabb, mesh_query_next


@wp.func
def tile_bvh_query_aabb(id: Bvh, low: wp.vec3, high: wp.vec3) -> BvhQuery:
    """A query for the boxes that overlap one, whose borders count."""
    return bvh_query_aabb(id, low, high)


@wp.func
def tile_bvh_query_ray(id: Bvh, start: wp.vec3, dir: wp.vec3) -> BvhQuery:
    """A query for the boxes that a ray goes through."""
    return bvh_query_ray(id, start, dir)


@wp.func
def tile_mesh_query_aabb(id: Mesh, low: wp.vec3, high: wp.vec3) -> MeshQuery:
    """A query for the faces whose boxes overlap a box."""
    return mesh_query_aabb(id, low, high)


@wp.func
def tile_query_valid(query: BvhQuery) -> bool:
    return query.place < query.stop or query.node != 0


@wp.func
def tile_query_valid(query: MeshQuery) -> bool:
    """Whether a query may find more; the next result may still be -1."""
    return tile_query_valid(query.boxes)


@wp.func
def tile_bvh_query_next(query: wp.ref[BvhQuery]):
    """A tile of one int: the next box that a query finds, -1 if there is none."""
    index = int(-1)
    bvh_query_next(query, index)
    return wp.tile(index)


@wp.func
def tile_mesh_query_aabb_next(query: wp.ref[MeshQuery]):
    """A tile of one int: the next face that a query finds, -1 if there is none."""
    index = int(-1)
    mesh_query_next(query, index)
    return wp.tile(index)


# Warp's earlier names.
bvh_query_aabb_tiled, bvh_query_ray_tiled, bvh_query_next_tiled = (
    tile_bvh_query_aabb,
    tile_bvh_query_ray,
    tile_bvh_query_next,
)
mesh_query_aabb_tiled, mesh_query_aabb_next_tiled = tile_mesh_query_aabb, tile_mesh_query_aabb_next
