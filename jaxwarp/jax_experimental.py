"""Where Warp had its JAX functions; the names are those of `jaxwarp`."""

from jaxwarp.ffi.callbacks.callback import register_ffi_callback
from jaxwarp.ffi.launch.calls.jax_kernel import jax_kernel
from jaxwarp.ffi.programs.jax_callable import GraphMode, jax_callable

__all__ = ["GraphMode", "jax_callable", "jax_kernel", "register_ffi_callback"]
