"""Options of all kernels of a Python module."""

from __future__ import annotations

import sys
import types
from typing import Any

from jaxwarp import config
from jaxwarp.boundary import boundary, caller
from jaxwarp.errors import KernelTypeError
from jaxwarp.modules import IDLE, MEANT, MODULE_OPTIONS, Module, require_option


@boundary
def set_module_options(options: dict[str, Any], module: Any = None) -> None:
    """Sets options of the kernels of a module.

    `max_unroll` and `mode` are those of `jaxwarp.config`, for these kernels; `block_dim` is that of `launch`, and
    `fuse_fp=False` keeps products and sums from being contracted in kernels that are made afterwards. `fast_math`,
    `lineinfo`, `optimization_level` and `default_grid_stride` are about CUDA code (docs/language.md). Warp's other
    options have no effect. An option of a kernel itself, `@kernel(module_options={...})`, goes before these.

    Args:
        options: values by name.
        module: a module or its name; None: the one that calls.

    Raises:
        KernelTypeError: there is no such option, or the module is none.
        KernelValueError: an option does not accept the value.
    """
    name = _name_of(module)
    if not isinstance(options, dict):
        raise KernelTypeError(f"set_module_options: expected a dict, got {options!r}", hint='write {"max_unroll": 8}')
    for option, value in options.items():
        if option not in MEANT and option not in IDLE:
            raise KernelTypeError(
                f"set_module_options: there is no option {option!r}",
                hint=f"the options are {', '.join([*MEANT, *IDLE])}",
            )
        require_option(option, value)
    MODULE_OPTIONS.setdefault(name, {}).update(options)


@boundary
def get_module_options(module: Any = None) -> dict[str, Any]:
    """The options of the kernels of a module: a copy.

    Args:
        module: a module or its name; None: the one that calls.

    Raises:
        KernelTypeError: the module is none.
    """
    name = _name_of(module)
    settings = {option: getattr(config, setting) for option, setting in MEANT.items()}
    return {**settings, **IDLE, **MODULE_OPTIONS.get(name, {})}


def _name_of(module: Any) -> str:
    if module is None:
        return str(caller(2).f_globals.get("__name__"))
    if isinstance(module, types.ModuleType):
        return module.__name__
    if isinstance(module, Module):
        return module.name
    if isinstance(module, str) and (module in sys.modules or module in MODULE_OPTIONS):
        return module
    raise KernelTypeError(
        f"module options: expected a module or the name of one that is imported, got {module!r}",
        hint="leave it out for the module that calls",
    )
