"""Spatial queries: acceleration structures as values of JAX, and what searches them.

What is here are functions of JAX's arrays; classes and the functions of kernels are names of `jaxwarp` itself.
"""

from __future__ import annotations

import sys
from typing import Any

from jaxwarp.boundary import boundary, raise_for_user, read_later
from jaxwarp.errors import no_attribute

_MODULES = {
    "Neighbors": "neighbor_lists",
    "neighbors": "neighbor_lists",
    "any_hit": "cast",
    "cast_rays": "cast",
    "closest_points": "cast",
    "signed_distance": "cast",
    "winding_number": "winding",
    "RayHits": "cast",
    "ClosestPoints": "cast",
    "SampledPoints": "sampling",
    "sample_points": "sampling",
    "Surface": "surfaces.surface",
    "marching_cubes": "surfaces.marching_cubes",
    "surface_nets": "surfaces.surface_nets",
    "IsoSurfaceBase": "surfaces.iso_surface",
    "IsoSurfaceMarchingCubes": "surfaces.iso_surface",
    "IsoSurfaceNets": "surfaces.iso_surface",
    "lipschitz_octree": "surfaces.sparse",
    "sparse_marching_cubes": "surfaces.sparse",
    "sparse_marching_cubes_from_cells": "surfaces.sparse",
    "SweptVolumeSignMode": "surfaces.swept",
    "swept_volume_bounds": "surfaces.swept",
    "swept_volume_field": "surfaces.swept",
    "swept_volume_mesh": "surfaces.swept",
    "swept_volume_sdf": "surfaces.swept",
    "delaunay_edge_flip": "triangulations.delaunay",
    "find_triangle_neighbor_edge_index": "triangulations.adjacency",
    "tri_tri_adjacency": "triangulations.adjacency",
}
_MODULE_OF = {name: f"{__name__}.{module}" for name, module in _MODULES.items()}


@boundary
def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise_for_user(no_attribute(sys.modules[__name__], name))
    return read_later(__name__, name, _MODULE_OF)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
