"""The place where Warp had its JAX functions; the names are those of `jaxwarp`."""

from jaxwarp.boundary import missing_in as _missing_in
from jaxwarp.ffi.callbacks.callback import register_ffi_callback
from jaxwarp.ffi.jax_kernel import jax_kernel
from jaxwarp.ffi.programs.jax_callable import GraphMode, jax_callable

__all__ = ["GraphMode", "jax_callable", "jax_kernel", "register_ffi_callback"]

globals()["__getattr__"] = _missing_in(__name__)
