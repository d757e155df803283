"""The place of a launch, a copy or a new array: a running call, a traced program, or neither."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager

from jaxwarp.errors import KernelTypeError
from jaxwarp.memory.fork_guard import in_callback
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.scope import Scope

# A scope while a function runs on real memory; a program (ffi/programs/tracing.py) while one is traced; None outside.
current: contextvars.ContextVar[object | None] = contextvars.ContextVar("jaxwarp_current", default=None)


@contextmanager
def executing(scope: Scope) -> Iterator[None]:
    """Return a context in which operations run at once, in the memory of a running call."""
    token, waiting = current.set(scope), in_callback.set(True)
    try:
        yield
    finally:
        in_callback.reset(waiting)
        current.reset(token)


def scope_now() -> Scope | None:
    """Return the scope in which operations run at once. This is the call whose function runs on real memory, or the
    process outside of all calls. Return None in a traced function of a `jax_callable`."""
    found = current.get()
    if found is None:
        return HOST
    return found if isinstance(found, Scope) else None


def require_scope(name: str) -> Scope:
    """The call whose function is running on real memory.

    Raises:
        KernelTypeError: none is.
    """
    scope = current.get()
    if not isinstance(scope, Scope):
        raise KernelTypeError(
            f"{name} works inside a callback, or a function under jax_callable with GraphMode.NONE",
            hint="call it in the function that you register or pass to jax_callable",
        )
    return scope


def require_outside(what: str) -> None:
    """Refuses to make memory of the process where it has no place.

    Raises:
        KernelTypeError: in a function of a `jax_callable`, or a callback on a GPU.
    """
    scope = scope_now()
    if scope is None:
        raise KernelTypeError(
            f"{what} is for arrays outside of JAX, and this function is traced",
            hint="pass data as an argument of the jax_callable, or make arrays with zeros and full",
        )
    if scope.platform != "cpu":
        raise KernelTypeError(f"{what} makes memory of the host, and the call runs on a GPU", hint="use zeros and copy")
