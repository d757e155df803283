"""Tiles: arrays of fixed shape that a kernel loads, computes with and stores as a whole."""
