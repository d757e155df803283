"""A guard that refuses JAX calls where JAX would wait forever: after a fork, and inside callbacks."""

from __future__ import annotations

import contextvars
import os

from jaxwarp import compat
from jaxwarp.errors import KernelError


class _State:
    is_forked = False


_state = _State()

# Set while XLA waits for a Python function of ours.
in_callback: contextvars.ContextVar[bool] = contextvars.ContextVar("jaxwarp_in_callback", default=False)


def _after_fork() -> None:
    # A process that is forked before JAX has started a backend starts its own.
    _state.is_forked = _state.is_forked or compat.has_started()


os.register_at_fork(after_in_child=_after_fork)


def require_jax(what: str, is_traced: bool = False) -> None:
    """Refuses calls that JAX may never finish.

    Raises:
        KernelError: the process was forked from one that had used JAX; or the call is not traced, and made in a
            callback, which a program is waiting for.
    """
    if _state.is_forked:
        raise KernelError(
            f"{what}: this process was forked from one that had used JAX, whose threads do not exist here: compiling or"
            " running a program could wait for ever",
            hint='start processes with multiprocessing.get_context("spawn"), or fork before JAX is used',
        )
    if not is_traced and in_callback.get():
        raise KernelError(
            f"{what}: it is called in a function that a program is waiting for, and JAX may wait for that program",
            hint="launch kernels with jaxwarp.launch there, and call functions of JAX before or after the program",
        )
