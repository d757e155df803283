"""The public names of this folder, as the package exports them."""

from __future__ import annotations

from typing import Any

from jaxwarp import errors
from jaxwarp.host import autotune, capture, events, idle, options, transforms

# By module, for the type stub.
EXPORTS: dict[Any, tuple[str, ...]] = {
    autotune: ("Tuned", "autotune"),
    capture: ("Graph", "ScopedCapture", "capture_begin", "capture_end", "capture_if", "capture_launch", "capture_while",
              "is_conditional_graph_supported"),
    events: ("Event", "ScopedTimer", "get_event_elapsed_time", "record_event", "synchronize_event", "wait_event"),
    idle: ("can_access",),
    options: ("get_module_options", "set_module_options"),
    transforms: ("transform_expand",),
}  # fmt: skip

NAMES: dict[str, Any] = {name: getattr(module, name) for module, names in EXPORTS.items() for name in names}
NAMES |= idle.IDLE | idle.LEVELS
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
