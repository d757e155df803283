"""Launches and programs as operations of JAX. Importing it registers the native handlers with XLA."""

from jaxwarp.codegen.provided import PRINT, PROVIDED
from jaxwarp.native import library


def _load_bitcode(payload: bytes, digest: str, symbol: str) -> int:
    # LLVM is imported when the first program is loaded, not with the package.
    from jaxwarp.codegen.cpu import load_bitcode

    return load_bitcode(payload, digest, symbol)


def _unload(address: int) -> None:
    from jaxwarp.codegen.cpu import unload

    unload(address)


# Registered on import, so that a process that runs an exported program needs `import jaxwarp` and nothing else. This
# starts no backend of JAX.
library.register(_load_bitcode, _unload)
PROVIDED[PRINT] = library.function_address(PRINT)
