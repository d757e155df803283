"""`get_suggested_block_size`: the block size with which a GPU holds most threads of a kernel."""

from __future__ import annotations

from typing import Any

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError
from jaxwarp.kernel import Kernel
from jaxwarp.memory.devices import require_device


@boundary
def get_suggested_block_size(kernel: Kernel, device: Any = None) -> tuple[int, int]:
    """Threads per block with which a GPU holds most threads of a kernel, and how many such blocks fill it: for kernels
    whose threads go over what there is to do in strides. On a CPU 1 and 1.

    Args:
        kernel: what is launched; of generic types, `wp.overload(kernel, types)`.
        device: where; None: the current one.

    Raises:
        KernelTypeError, KernelValueError: it is no kernel, its types are open, or there is no such device.
    """
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(f"get_suggested_block_size: expected a kernel, got {kernel!r}", hint="pass a @kernel")
    found = require_device(device, "get_suggested_block_size")
    if not found.is_cuda:
        return 1, 1
    from jaxwarp.codegen.cuda.occupancy import fullest_block  # not read by programs that make no CUDA code

    block, blocks = fullest_block(kernel.resources(found.arch).registers, found.arch)
    return block, blocks * found.sm_count
