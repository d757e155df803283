"""Ids: numbers by which kernels find meshes, trees, grids and volumes."""
