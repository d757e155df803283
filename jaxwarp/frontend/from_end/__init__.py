"""Indices that count from the end of an array where they are negative."""
