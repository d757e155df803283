"""Tapes: what launches and copies outside of JAX are recorded as, and the way back through them."""
