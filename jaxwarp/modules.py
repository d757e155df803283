"""Modules of kernels: names for options that several kernels share. A kernel belongs to the Python module it is in."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from typing import Any, ClassVar

from jaxwarp import config
from jaxwarp.boundary import boundary, guarded
from jaxwarp.config import require

# Those with a meaning here, and the setting that holds where a module says nothing.
MEANT = {"mode": "mode", "max_unroll": "max_unroll"}
# Those of Warp's that are accepted; those about CUDA code are read by `Kernel.cuda_options`.
IDLE = {
    "block_dim": 256, "enable_backward": True, "fast_math": False, "lineinfo": False, "cuda_output": None,
    "enable_mathdx_gemm": None, "enable_mathdx_solver": None, "enable_mathdx_fft": None, "optimization_level": None,
    "cpu_compiler_flags": None, "deterministic": config.DeterministicMode.NOT_GUARANTEED,
    "deterministic_max_records": 0, "compile_time_trace": False, "strip_hash": False,
    "extra_build_options": None, "default_grid_stride": None, "fuse_fp": True,
}  # fmt: skip
# Of these, what promises something has the values of the setting of its name.
_PROMISED = ("deterministic",)
# What programs have set, by the name of a module.
MODULE_OPTIONS: dict[str, dict[str, Any]] = {}


@guarded
class Module:
    """A name for the options of kernels: `@kernel(module=Module("mine"))`. Nothing is compiled or loaded by modules.

    Attributes:
        name: of a Python module, or another one.
    """

    _SETTABLE = ("name",)
    _HINTS: ClassVar[dict[str, str]] = {"options": 'set one: module.options["mode"] = "debug"'}

    def __init__(self, name: str, loader: Any = None):
        """A module of this name: those of one name are one. `loader` is accepted, no effect."""
        del loader
        self.name = name

    @property
    def options(self) -> MutableMapping[str, Any]:
        """The options of its kernels; those that are set hold for kernels specialised afterwards."""
        settings = {option: getattr(config, setting) for option, setting in MEANT.items()}
        return ChainMap(MODULE_OPTIONS.setdefault(self.name, {}), {**settings, **IDLE})

    def load(self, device: Any = None, block_dim: Any = None) -> None:
        """Does nothing: a kernel is compiled when it is first launched."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Module) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<jaxwarp module {self.name}>"


def require_option(option: str, value: Any) -> None:
    """Checks an option of a module, or of `@kernel(module_options={...})`.

    Raises:
        KernelTypeError, KernelValueError: it does not accept the value.
    """
    if option in MEANT:
        require(MEANT[option], value)
    elif option in _PROMISED:
        require(option, value)


@boundary
def get_module(name: str) -> Module:
    """The module of a name."""
    return Module(name)
