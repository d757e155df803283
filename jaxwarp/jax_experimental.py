"""Where Warp had its JAX functions; the names are those of `jaxwarp`."""

from jaxwarp.ffi import GraphMode, jax_callable, jax_kernel, register_ffi_callback

__all__ = ["GraphMode", "jax_callable", "jax_kernel", "register_ffi_callback"]
