"""Triangles by their vertices: which are beside which, and better ones of the same points."""
