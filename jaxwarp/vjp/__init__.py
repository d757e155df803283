"""Derivatives of kernels, from IR to IR. Knows nothing of JAX."""
