"""`jax_callable`: Python functions that launch several kernels, as one operation of JAX."""
