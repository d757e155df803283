"""Geometries: cells, sides, and positions, on the host and in kernels."""
