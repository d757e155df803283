"""The modules of the public names that `jaxwarp` has not read yet. Importing jaxwarp imports none of them."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from jaxwarp.boundary import boundary, read_later
from jaxwarp.frontend.lowering.tiles.arguments import TileLibrary
from jaxwarp.frontend.text.refused import missing
from jaxwarp.types import float32, int32

LIBRARY = {
    "decompositions": ("svd2", "svd3", "qr3", "eig3"),
    "dense": ("dense_gemm", "dense_chol", "dense_subs", "dense_solve"),
    "random": (
        *("rand_init", "randi", "randu", "randf", "randn", "poisson", "sample_cdf", "sample_triangle"),
        *("sample_unit_ring", "sample_unit_disk", "sample_unit_sphere_surface", "sample_unit_sphere"),
        *("sample_unit_hemisphere_surface", "sample_unit_hemisphere", "sample_unit_square", "sample_unit_cube"),
    ),
    "rotations": ("quat_between_vectors",),
    "special": ("erfinv", "erfcinv"),
    "search": ("lower_bound", "bit_count"),
    "proximity": ("closest_point_edge_edge", "intersect_tri_tri"),
    "noise": ("noise", "pnoise", "curlnoise"),
}
# Of `geometry/`: classes, what is called outside of kernels, and what is called in them.
GEOMETRY = {
    "sorting": ("sort_pairs",),
    "hash_grid": ("HashGrid",),
    "grid_queries": (
        *("HashGridQuery", "hash_grid_query", "hash_grid_query_next", "hash_grid_point_id", "hash_grid_offset"),
    ),
    "bvh": ("Bvh",),
    "steps": ("bvh_ascend", "bvh_descend"),
    "bvh_queries": (
        *("BvhQuery", "bvh_query_aabb", "bvh_query_ray", "bvh_query_capsule", "bvh_query_sphere", "bvh_query_next"),
        *("BvhQueryTiled", "bvh_get_group_root"),
        *("tile_bvh_query_aabb", "tile_bvh_query_ray", "tile_bvh_query_next", "tile_query_valid"),
        *("bvh_query_aabb_tiled", "bvh_query_ray_tiled", "bvh_query_next_tiled"),
    ),
    "mesh": ("Mesh",),
    "mesh_queries": (
        *("MeshQuery", "MeshQueryAABB", "MeshQueryAABBTiled", "MeshQuerySphere", "MeshQueryPoint", "MeshQueryRay"),
        *("mesh_query_ray", "mesh_query_ray_anyhit", "mesh_query_ray_count_intersections"),
        *("MeshQueryRayAll", "mesh_query_ray_all", "mesh_query_ray_next", "mesh_eval_ray"),
        *("mesh_query_point", "mesh_query_point_no_sign", "mesh_query_point_sign_parity"),
        "mesh_query_point_sign_normal",
        *("mesh_query_furthest_point_no_sign", "mesh_query_aabb", "mesh_query_sphere"),
        *("mesh_query_next", "mesh_query_aabb_next"),
        *("tile_mesh_query_aabb", "tile_mesh_query_aabb_next", "mesh_query_aabb_tiled", "mesh_query_aabb_next_tiled"),
    ),
    "surfaces.iso_surface": ("MarchingCubes",),
    "winding": ("mesh_query_point_sign_winding_number",),
    "mesh_values": (
        *("mesh_get", "mesh_get_bvh", "mesh_get_index", "mesh_get_point", "mesh_get_velocity"),
        "mesh_get_group_root",
        *("mesh_eval_position", "mesh_eval_velocity", "mesh_eval_face_normal"),
    ),
    "volumes.volume": ("Volume",),
    "volumes.sampling": (
        *("volume_sample", "volume_sample_f", "volume_sample_v", "volume_sample_i"),
        *("volume_sample_grad", "volume_sample_grad_f", "volume_sample_index", "volume_sample_grad_index"),
        *("volume_lookup", "volume_lookup_f", "volume_lookup_v", "volume_lookup_i", "volume_lookup_index"),
        *("volume_store", "volume_store_f", "volume_store_v", "volume_store_i", "volume_voxel_count"),
        *("volume_index_to_world", "volume_index_to_world_dir", "volume_world_to_index", "volume_world_to_index_dir"),
    ),
}
# Of `textures/`.
TEXTURES = {
    "modes": ("TextureFilterMode", "TextureAddressMode"),
    "texture": ("Texture", "Texture1D", "Texture2D", "Texture3D"),
    "sampling": ("texture_sample",),
}
# Of `commands/`.
COMMANDS = {"info": ("print_diagnostics",)}
PACKAGES = ("autograd", "geometry", "optim", "sparse")
# Private names of Warp's that programs use.
_PRIVATE = {"_src": "jaxwarp._src", "context": "jaxwarp._src.context"}
# What programs for Warp write in kernels, and what would hide Python's own if it were imported with *.
_OF_PYTHON = {"float": float32, "int": int32}
_MODULE_OF = {
    name: f"jaxwarp.{folder}.{module}"
    for folder, table in (("library", LIBRARY), ("geometry", GEOMETRY), ("textures", TEXTURES), ("commands", COMMANDS))
    for module, names in table.items()
    for name in names
}


TileLibrary.find = staticmethod(lambda name: getattr(importlib.import_module("jaxwarp.library.tiles"), name))


@boundary
def find(name: str) -> Any:
    """`jaxwarp.name`, where the package has no such name yet: a function of the library.

    Raises:
        AttributeError: there is none, with what to do instead if Warp has one.
    """
    if name in PACKAGES:
        return importlib.import_module(f"jaxwarp.{name}")
    if name in _PRIVATE:
        importlib.import_module("jaxwarp._src")
        return sys.modules[_PRIVATE[name]]
    if name in _OF_PYTHON:
        return _OF_PYTHON[name]
    if name not in _MODULE_OF:
        return missing(name)
    return read_later("jaxwarp", name, _MODULE_OF)


def listed() -> list[str]:
    """`dir(jaxwarp)`: with the functions that have not been read yet."""
    return sorted({*vars(sys.modules["jaxwarp"]), *_MODULE_OF, *PACKAGES})


def signatures(name: str) -> list[str]:
    """Return the signatures of a library function as they are written, one for each overload."""
    return [overload.written for overload in find(name).overloads]
