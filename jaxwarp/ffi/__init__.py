"""Launches from JAX: the primitive and its rules, `jax_kernel`, and the native handlers they reach."""

from jaxwarp.ffi.call import JaxKernel as JaxKernel
from jaxwarp.ffi.call import ModulePreloadMode as ModulePreloadMode
from jaxwarp.ffi.call import jax_kernel as jax_kernel
from jaxwarp.ffi.callable import GraphMode as GraphMode
from jaxwarp.ffi.callable import jax_callable as jax_callable
from jaxwarp.ffi.callback import register_ffi_callback as register_ffi_callback
from jaxwarp.ffi.checkify import kernel_checks as kernel_checks
from jaxwarp.ffi.export import export_checks as export_checks
from jaxwarp.ffi.native import library as _library


def _load_bitcode(payload: bytes, digest: str, symbol: str) -> int:
    # LLVM is imported when the first program is loaded, not with the package.
    from jaxwarp.codegen.cpu import load_bitcode

    return load_bitcode(payload, digest, symbol)


def _unload(address: int) -> None:
    from jaxwarp.codegen.cpu import unload

    unload(address)


# Registered on import, so that a process that runs an exported program needs `import jaxwarp` and nothing else. This
# starts no backend of JAX.
_library.register(_load_bitcode, _unload)
