"""Python functions as functions of the kernel language."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from jaxwarp.arrays.mapping import as_function
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.text.functions import Func
from jaxwarp.modules import Module, get_module


@boundary
def create_warp_function(func: Callable[..., Any]) -> tuple[Func, Module]:
    """Make a function that kernels can call of a Python function or a lambda: `f, _ = create_warp_function(fn)`.

    Args:
        func: a function of Python, in the kernel language. Arguments without an annotation take values of all types.

    Returns:
        The function, and the module that it belongs to.

    Raises:
        KernelTypeError: `func` is no function of Python.
        KernelError: it is not in the kernel language.
    """
    made = as_function(func) if isinstance(func, types.FunctionType) else None
    if not isinstance(made, Func):
        raise KernelTypeError(
            f"create_warp_function: expected a function of Python, got {func!r}", hint="pass a def or a lambda"
        )
    return made, get_module(made.module)
