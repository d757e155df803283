"""Sums in elements around a thread: who adds to an element."""
