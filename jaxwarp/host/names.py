"""The public names of this folder, as the package exports them."""

from __future__ import annotations

from typing import Any

from jaxwarp import config, errors
from jaxwarp.host import as_warp, autotune, block_sizes, capture, device_attributes, events, idle, options, transforms
from jaxwarp.memory.gpu import pool

# By module, for the type stub.
EXPORTS: dict[Any, tuple[str, ...]] = {
    config: ("DeterministicMode",),
    as_warp: ("install_as_warp",),
    autotune: ("Tuned", "autotune"),
    block_sizes: ("get_suggested_block_size",),
    capture: ("Graph", "ScopedCapture", "capture_begin", "capture_end", "capture_if", "capture_launch", "capture_while",
              "is_conditional_graph_supported"),
    device_attributes: ("get_cuda_driver_version", "get_cuda_supported_archs", "get_cuda_toolkit_version"),
    events: ("Event", "ScopedTimer", "get_event_elapsed_time", "record_event", "synchronize_event", "wait_event"),
    idle: ("CaptureMode", "can_access"),
    options: ("get_module_options", "set_module_options"),
    pool: ("get_mempool_release_threshold", "get_mempool_used_mem_current", "get_mempool_used_mem_high",
           "is_mempool_enabled", "is_mempool_supported", "set_mempool_enabled", "set_mempool_release_threshold"),
    transforms: ("transform_expand",),
}  # fmt: skip

NAMES: dict[str, Any] = {name: getattr(module, name) for module, names in EXPORTS.items() for name in names}
NAMES |= idle.IDLE | idle.LEVELS | idle.FILTERS
# Errors of kernels by their names in Warp.
ERRORS = {
    "WarpCodegenError": errors.KernelError,
    "WarpCodegenTypeError": errors.KernelTypeError,
    "WarpCodegenValueError": errors.KernelValueError,
    "WarpCodegenAttributeError": errors.KernelNameError,
    "WarpCodegenKeyError": errors.KernelNameError,
    "WarpCodegenIndexError": errors.OutOfRangeError,
}
NAMES |= ERRORS
