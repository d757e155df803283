"""Proofs about a kernel: its integers, its addresses, and which threads access the same element. Changes nothing."""
