"""Targets of XLA's foreign functions that are Python functions: from XLA's call to a scope, and back with an error."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import traceback
from collections.abc import Callable
from typing import Any

import jax

from jaxwarp import compat
from jaxwarp.boundary import PACKAGE
from jaxwarp.errors import CheckError, KernelValueError
from jaxwarp.ffi.callbacks import call_frame as xla
from jaxwarp.ffi.debug import FAILED
from jaxwarp.memory.cuda_scope import CudaScope
from jaxwarp.memory.current import executing
from jaxwarp.memory.driver import CudaError
from jaxwarp.memory.scope import Scope
from jaxwarp.native.ieee import ieee_arithmetic
from jaxwarp.native.library import load_library

Run = Callable[[xla.CallFrame, Scope], None]
"""What a call does. It names itself in `scope.title`."""


class CallbackTarget:
    """A name that XLA calls. Its handlers live as long as the process: programs that are compiled hold their addresses.

    Args:
        name: the name.
        what: "callback" or "callable", for messages.
        run: what a call does.
        is_graph_compatible: whether XLA may capture it into a CUDA graph.
    """

    def __init__(self, name: str, what: str, run: Run, is_graph_compatible: bool):
        self.name, self.what, self.run, self.is_graph_compatible = name, what, run, is_graph_compatible
        traits = xla.COMMAND_BUFFER_COMPATIBLE if is_graph_compatible else 0
        self.handlers = {"cpu": self._handler("cpu", 0), "CUDA": self._handler("cuda", traits)}

    def _handler(self, platform: str, traits: int) -> Any:
        def handle(pointer: Any) -> int | None:
            frame = pointer.contents
            if xla.answer_metadata(frame, traits):
                return None
            scope = None
            try:
                if frame.stage == xla.EXECUTE:
                    scope = _open(frame, platform, self.what)
                    with ieee_arithmetic():
                        self._execute(frame, scope)
            except BaseException as error:  # nothing may escape into C++
                title = scope.title if scope and scope.title else f"{self.what} {self.name}"
                text = f"{FAILED}{error}" if isinstance(error, CheckError) else f"{title}: {_text(error)}"
                return xla.make_error(frame, text)
            return None

        return xla.HANDLER(handle)

    def _execute(self, frame: xla.CallFrame, scope: Scope) -> None:
        try:
            with executing(scope):
                self.run(frame, scope)
            scope.require_no_views()
        except BaseException:
            with contextlib.suppress(CudaError):  # the first error is the one to tell
                scope.close()
            raise
        scope.close()

    def register(self) -> None:
        """Makes the name known to XLA, for good.

        Raises:
            KernelValueError: somebody else has the name.
        """
        _kept.append(self)
        try:
            for platform, handler in self.handlers.items():
                jax.ffi.register_ffi_target(self.name, jax.ffi.pycapsule(_entrance(handler)), platform=platform)
        except jax.errors.JaxRuntimeError as error:
            raise KernelValueError(
                f"register_ffi_callback {self.name}: XLA refuses the name: {error}",
                hint="register the function under another name",
            ) from error


def _entrance(handler: Any) -> Any:
    """Return what XLA gets as a handler: native code that enters Python while Python runs, see native/python.h."""
    from jaxwarp.codegen.cpu import bind_pointer  # LLVM is slow to import

    _finish_at_exit()
    call = ctypes.cast(load_library().jaxwarp_call_python, ctypes.c_void_p).value or 0
    return xla.HANDLER(bind_pointer(call, ctypes.cast(handler, ctypes.c_void_p).value or 0))


@functools.cache
def _finish_at_exit() -> None:
    load_library()  # its exit hook runs after this one
    atexit.register(_finish)


def _finish() -> None:
    """Wait for all live arrays, and for the calls of Python that compute them, before such calls are refused."""
    for array in jax.live_arrays() if compat.has_started() else ():
        with contextlib.suppress(Exception):  # of the computation; who asks for the array gets it
            array.block_until_ready()


_kept: list[CallbackTarget] = []  # XLA has addresses of their handlers, also where a registration failed half-way


def _open(frame: xla.CallFrame, platform: str, what: str) -> Scope:
    if platform == "cpu":
        return Scope(what, xla.device_ordinal(frame))
    return CudaScope(what, xla.device_ordinal(frame), xla.stream(frame))


def _text(error: BaseException) -> str:
    """Type and text of an exception, and the line that raised it."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # its __str__ raises
        text = type(error).__name__
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(PACKAGE)]
    return f"{text}\n  {frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}" if frames else text
