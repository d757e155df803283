"""Modes: which launches are checked, by the mode of a call, of a kernel, and of the process."""

from __future__ import annotations

from typing import Any

from jaxwarp import compat, config
from jaxwarp.config import when_changed
from jaxwarp.errors import KernelValueError
from jaxwarp.ir.kernel import Kernel as KernelIR
from jaxwarp.kernel import Kernel
from jaxwarp.passes.checks.checked import Debug
from jaxwarp.passes.launches.tells import may_fail

MODES = ("release", "debug")


def _tell_jax() -> None:
    """A function compiled in one mode is not the one to run in another."""
    debug = debug_now()
    compat.set_traced_under(None if debug is None else (debug.checks, debug.max_steps))


def debug_now(mode: str | None = None) -> Debug | None:
    """Return what is checked in launches made at this point; None: nothing, in release mode.

    Args:
        mode: that of a kernel or call; None: that of the process.
    """
    if (config.mode if mode is None else mode) != "debug":
        return None
    return Debug(tuple(sorted(config.checks)), config.max_steps)


def debug_for(kernel: KernelIR, mode: str | None = None) -> Debug | None:
    """Return what is checked in a launch made at this point: assertions, in debug mode more; None: nothing."""
    return debug_now(mode) or (Debug((), config.max_steps) if may_fail(kernel) else None)


when_changed(_tell_jax)


def require_mode(where: str, mode: Any) -> Any:
    """A mode, or None.

    Raises:
        KernelValueError: it is something else.
    """
    if mode is not None and mode not in MODES:
        raise KernelValueError(
            f"{where}: mode: expected {' or '.join(map(repr, MODES))}, got {mode!r}",
            hint="leave it out: jaxwarp.config.mode decides",
        )
    return mode


def mode_of(kernel: Kernel) -> str | None:
    """The mode of a kernel: of `@kernel(module_options={"mode": "debug"})`, or of its module."""
    return kernel.module_option("mode")
