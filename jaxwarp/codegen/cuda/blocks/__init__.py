"""Kernels on tiles by a block of CUDA threads for each thread of the launch: docs/design/0074-tiles-by-blocks.md."""
