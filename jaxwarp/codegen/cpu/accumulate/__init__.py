"""Atomics, and the sums that stand for several of them."""
