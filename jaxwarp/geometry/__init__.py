"""Spatial queries: acceleration structures as values of JAX, and what searches them.

What is here are functions of JAX's arrays; classes and the functions of kernels are names of `jaxwarp` itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jaxwarp.boundary import boundary, raise_for_user, read_later
from jaxwarp.errors import no_attribute

if TYPE_CHECKING:
    from jaxwarp.geometry.cast import ClosestPoints as ClosestPoints
    from jaxwarp.geometry.cast import RayHits as RayHits
    from jaxwarp.geometry.cast import any_hit as any_hit
    from jaxwarp.geometry.cast import cast_rays as cast_rays
    from jaxwarp.geometry.cast import closest_points as closest_points
    from jaxwarp.geometry.cast import signed_distance as signed_distance
    from jaxwarp.geometry.neighbor_lists import Neighbors as Neighbors
    from jaxwarp.geometry.neighbor_lists import neighbors as neighbors
    from jaxwarp.geometry.sampling import SampledPoints as SampledPoints
    from jaxwarp.geometry.sampling import sample_points as sample_points
    from jaxwarp.geometry.surfaces.iso_surface import IsoSurfaceBase as IsoSurfaceBase
    from jaxwarp.geometry.surfaces.iso_surface import IsoSurfaceMarchingCubes as IsoSurfaceMarchingCubes
    from jaxwarp.geometry.surfaces.iso_surface import IsoSurfaceNets as IsoSurfaceNets
    from jaxwarp.geometry.surfaces.marching_cubes import marching_cubes as marching_cubes
    from jaxwarp.geometry.surfaces.sparse import lipschitz_octree as lipschitz_octree
    from jaxwarp.geometry.surfaces.sparse import sparse_marching_cubes as sparse_marching_cubes
    from jaxwarp.geometry.surfaces.sparse import sparse_marching_cubes_from_cells as sparse_marching_cubes_from_cells
    from jaxwarp.geometry.surfaces.surface import Surface as Surface
    from jaxwarp.geometry.surfaces.surface_nets import surface_nets as surface_nets
    from jaxwarp.geometry.surfaces.swept import SweptVolumeSignMode as SweptVolumeSignMode
    from jaxwarp.geometry.surfaces.swept import swept_volume_bounds as swept_volume_bounds
    from jaxwarp.geometry.surfaces.swept import swept_volume_field as swept_volume_field
    from jaxwarp.geometry.surfaces.swept import swept_volume_mesh as swept_volume_mesh
    from jaxwarp.geometry.surfaces.swept import swept_volume_sdf as swept_volume_sdf
    from jaxwarp.geometry.triangulations.adjacency import (
        find_triangle_neighbor_edge_index as find_triangle_neighbor_edge_index,
    )
    from jaxwarp.geometry.triangulations.adjacency import tri_tri_adjacency as tri_tri_adjacency
    from jaxwarp.geometry.triangulations.delaunay import delaunay_edge_flip as delaunay_edge_flip
    from jaxwarp.geometry.winding import winding_number as winding_number

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


if not TYPE_CHECKING:

    @boundary
    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise_for_user(no_attribute(sys.modules[__name__], name))
        return read_later(__name__, name, _MODULE_OF)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
