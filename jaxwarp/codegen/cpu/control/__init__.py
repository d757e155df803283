"""Blocks, branches, loops, and the function that they are in."""
