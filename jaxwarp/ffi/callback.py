"""`register_ffi_callback`: a Python function that XLA calls when a program runs."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi import frame as xla
from jaxwarp.ffi.buffers import Buffer
from jaxwarp.ffi.lowering import TARGET
from jaxwarp.ffi.program import executing

Callback = Callable[[list[Buffer], list[Buffer], dict[str, Any], "ExecutionContext"], None]


@dataclass(frozen=True)
class ExecutionContext:
    """Where a callback runs.

    Attributes:
        platform: "cpu" or "cuda".
        device_ordinal: the number of the device in this process.
        stream: address of the CUDA stream that the callback's work belongs on; None on the CPU.
    """

    platform: str
    device_ordinal: int
    stream: int | None


class _Entry:
    """A registered name. Its handlers live as long as the process: programs that are compiled hold their addresses."""

    def __init__(self, name: str, func: Callback, is_graph_compatible: bool):
        self.name, self.func, self.is_graph_compatible = name, func, is_graph_compatible
        traits = xla.COMMAND_BUFFER_COMPATIBLE if is_graph_compatible else 0
        self.handlers = {"cpu": self._handler("cpu", 0), "CUDA": self._handler("cuda", traits)}

    def _handler(self, platform: str, traits: int) -> Any:
        def handle(pointer: Any) -> int | None:
            frame = pointer.contents
            if xla.answer_metadata(frame, traits):
                return None
            try:
                if frame.stage == xla.EXECUTE:
                    _call(self.func, frame, platform)
            except BaseException as error:  # nothing may escape into C++
                return xla.make_error(frame, f"callback {self.name}: {_text(error)}")
            return None

        return xla.HANDLER(handle)


_lock = threading.Lock()
_entries: dict[str, _Entry] = {}
_kept: list[_Entry] = []  # XLA has addresses of their handlers, also where a registration failed half-way


def register_ffi_callback(name: str, func: Callback, graph_compatible: bool = True) -> None:
    """Makes a Python function a target of `jax.ffi.ffi_call(name, ...)`, on the CPU and on CUDA.

    XLA calls `func(inputs, outputs, attrs, ctx)` whenever the program runs, possibly from several threads:
    lists of buffers, a dictionary of attributes, and the execution context. It fills the outputs and returns nothing.
    Inside it `launch` runs kernels at once on buffers of the CPU. What it raises becomes an error of JAX.

    Args:
        name: the target. Registering a name again replaces its function, also in programs that are compiled already.
        func: the function.
        graph_compatible: on CUDA, whether XLA may capture the call into a CUDA graph; the function then runs at
            capture only.

    Raises:
        KernelTypeError, KernelValueError: the name or the function cannot be registered; somebody else has the name.
    """
    if not isinstance(name, str):
        raise KernelTypeError(f"register_ffi_callback: name: expected a string, got {name!r}")
    if not name or name == TARGET:
        raise KernelValueError(f"register_ffi_callback: name: {name!r} cannot be used; choose another one")
    if not callable(func):
        raise KernelTypeError(f"register_ffi_callback {name}: expected a Python function, got {func!r}")
    with _lock:
        entry = _entries.get(name)
        if entry is None:
            entry = _entries[name] = _register(_Entry(name, func, bool(graph_compatible)))
        elif entry.is_graph_compatible != bool(graph_compatible):
            raise KernelValueError(
                f"register_ffi_callback {name}: graph_compatible: the name is registered with"
                f" {entry.is_graph_compatible}, which cannot be changed",
                hint="register the function under another name",
            )
        entry.func = func


def _register(entry: _Entry) -> _Entry:
    _kept.append(entry)
    try:
        for platform, handler in entry.handlers.items():
            jax.ffi.register_ffi_target(entry.name, jax.ffi.pycapsule(handler), platform=platform)
    except jax.errors.JaxRuntimeError as error:
        raise KernelValueError(f"register_ffi_callback {entry.name}: XLA refuses the name: {error}") from error
    return entry


def _call(func: Callback, frame: xla.CallFrame, platform: str) -> None:
    made: list[Buffer] = []
    try:
        for kind, items in (("input", frame.args), ("output", frame.rets)):
            for i, (dtype, shape, address) in enumerate(xla.buffers(items, kind)):
                made.append(Buffer(f"{kind} {i}", dtype, shape, address, platform, kind == "input"))
        inputs, outputs = made[: frame.args.size], made[frame.args.size :]
        stream = xla.stream(frame) if platform == "cuda" else None
        context = ExecutionContext(platform, xla.device_ordinal(frame), stream)
        with executing():
            func(inputs, outputs, xla.attributes(frame.attrs), context)
    finally:
        for buffer in made:
            buffer.invalidate()


def _text(error: BaseException) -> str:
    """Type and text of an exception, and the line that raised it."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # its __str__ raises
        text = type(error).__name__
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(package)]
    return f"{text}\n  {frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}" if frames else text
