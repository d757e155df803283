"""Memory, streams and events of GPUs, outside of JAX."""
