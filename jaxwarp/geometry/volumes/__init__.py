"""Sparse volumes: bricks of 8 by 8 by 8 voxels, and a table that says where they are."""
