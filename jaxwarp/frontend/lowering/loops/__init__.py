"""Loops: what all kinds share, what they go over, and their statements."""
