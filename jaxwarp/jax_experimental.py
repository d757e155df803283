"""Where Warp had its JAX functions; the names are those of `jaxwarp`."""

from jaxwarp.ffi import jax_kernel

__all__ = ["jax_kernel"]
