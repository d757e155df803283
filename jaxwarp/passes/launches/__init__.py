"""Kernels of other launches, which a program or JAX asks for: of a batch, of records, of threads that say nothing."""
