"""The options that decide a call besides its arguments, shared by `jax_kernel` and `jax_callable`."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from jaxwarp.errors import KernelValueError, did_you_mean
from jaxwarp.launches.arguments.dims import (
    is_static_dims,
)
from jaxwarp.unlocked import cached_property

VmapMethod: TypeAlias = Literal[
    "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"
]
VMAP_METHODS = (None, *get_args(VmapMethod))
Mode: TypeAlias = Literal["release", "debug"]


class ModulePreloadMode(enum.IntEnum):
    """The time at which Warp loads a module. It has no effect here: a kernel's code is part of its caller's program."""

    NONE = 0
    CURRENT_DEVICE = 1
    ALL_DEVICES = 2


def require_preload_mode(where: str, mode: object) -> None:
    """One of the modes, or its number.

    Raises:
        KernelValueError: it is something else.
    """
    try:
        ModulePreloadMode(mode)
    except ValueError:
        listed = ", ".join(f"ModulePreloadMode.{m.name}" for m in ModulePreloadMode)
        raise KernelValueError(
            f"{where}: module_preload_mode: expected one of {listed}, got {mode!r}",
            hint="leave it out: it has no effect",
        ) from None


@dataclass(frozen=True)
class CallOptions:
    """The options that decide a launch apart from the arguments. `None` means the default."""

    launch_dims: Any = None
    output_dims: Any = None
    vmap_method: str | None = None

    def over(self, defaults: CallOptions) -> CallOptions:
        """These options, filled up from `defaults`."""
        pairs = zip(
            (self.launch_dims, self.output_dims, self.vmap_method),
            (defaults.launch_dims, defaults.output_dims, defaults.vmap_method),
            strict=True,
        )
        return CallOptions(*(default if own is None else own for own, default in pairs))

    @cached_property
    def is_hashable(self) -> bool:
        """Symbolic dimensions of two programs cannot be compared."""
        return is_static_dims(self.launch_dims) and is_static_dims(self.output_dims)


def require_vmap_method(where: str, method: Any) -> None:
    """One of the ways in which `vmap` maps a call.

    Raises:
        KernelValueError: it is something else.
    """
    if method not in VMAP_METHODS:
        raise KernelValueError(
            f"{where}: vmap_method: expected one of {', '.join(map(repr, VMAP_METHODS))}; got {method!r}",
            hint=did_you_mean(method, VMAP_METHODS) or "leave it out: None is one launch for the whole batch",
        )
