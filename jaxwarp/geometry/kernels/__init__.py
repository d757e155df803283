"""Trees by kernels: on GPUs, in programs of JAX and outside of JAX."""
