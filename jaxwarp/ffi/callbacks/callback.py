"""`register_ffi_callback`: a Python function that XLA calls when a program runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxwarp.boundary import boundary, guarded
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.ffi.callbacks import call_frame as xla
from jaxwarp.ffi.callbacks.buffers import Buffer
from jaxwarp.ffi.callbacks.handler import CallbackTarget
from jaxwarp.ffi.lowering import TARGET
from jaxwarp.memory.live_array import MemoryArray
from jaxwarp.memory.scope import Scope

Callback = Callable[[list[Buffer], list[Buffer], dict[str, Any], "ExecutionContext"], None]


@guarded
@dataclass(frozen=True)
class ExecutionContext:
    """The device and the stream that a callback runs on.

    Attributes:
        platform: "cpu" or "cuda".
        device_ordinal: the number of the device in this process.
        stream: address of the CUDA stream that the callback's work belongs on; None on the CPU.
    """

    platform: str
    device_ordinal: int
    stream: int | None


class _Entry:
    """A registered name and its function, which can be replaced."""

    def __init__(self, name: str, func: Callback, is_graph_compatible: bool):
        self.func = func
        self.target = CallbackTarget(name, "callback", self._run, is_graph_compatible)

    def _run(self, frame: xla.CallFrame, scope: Scope) -> None:
        inputs, outputs = (
            [
                Buffer(scope, f"{kind} {i}", dtype, shape, address, kind == "input")
                for i, (dtype, shape, address) in enumerate(xla.buffers(items, kind))
            ]
            for kind, items in (("input", frame.args), ("output", frame.rets))
        )
        context = ExecutionContext(scope.platform, scope.device_ordinal, scope.stream)
        returned = self.func(inputs, outputs, xla.attributes(frame.attrs), context)
        # `fill_` and `assign` return their array, so a lambda of them does.
        if returned is not None and not isinstance(returned, MemoryArray):
            raise KernelTypeError(
                f"expected a function that returns nothing, it returned {type_text(returned)}",
                hint="write to the outputs",
            )


_lock = threading.Lock()
_entries: dict[str, _Entry] = {}


@boundary
def register_ffi_callback(name: str, func: Callback, graph_compatible: bool = True) -> None:
    """Makes a Python function a target of `jax.ffi.ffi_call(name, ...)`, on the CPU and on CUDA.

    XLA calls `func(inputs, outputs, attrs, ctx)` whenever the program runs, possibly from several threads:
    lists of buffers, a dictionary of attributes, and the execution context. It fills the outputs and returns nothing.
    Inside it `launch`, `copy`, `zeros` and the like happen at once, on its buffers. What it raises becomes an error of
    JAX.

    Args:
        name: the target. Registering a name again replaces its function, also in programs that are compiled already.
        func: the function.
        graph_compatible: on CUDA, whether XLA may capture the call into a CUDA graph; the function then runs at
            capture only.

    Raises:
        KernelTypeError, KernelValueError: the name or the function cannot be registered; somebody else has the name.
    """
    if not isinstance(name, str):
        raise KernelTypeError(
            f"register_ffi_callback: name: expected a string, got {name!r}",
            hint='register_ffi_callback("name", function)',
        )
    if not name or name == TARGET:
        raise KernelValueError(
            f"register_ffi_callback: name: {name!r} cannot be used; choose another one",
            hint='register_ffi_callback("my_name", function)',
        )
    if not callable(func):
        raise KernelTypeError(
            f"register_ffi_callback {name}: expected a Python function, got {func!r}",
            hint="pass a function of (inputs, outputs, attrs, ctx)",
        )
    with _lock:
        entry = _entries.get(name)
        if entry is None:
            entry = _Entry(name, func, bool(graph_compatible))
            entry.target.register()
            _entries[name] = entry
        elif entry.target.is_graph_compatible != bool(graph_compatible):
            raise KernelValueError(
                f"register_ffi_callback {name}: graph_compatible: the name is registered with"
                f" {entry.target.is_graph_compatible}, which cannot be changed",
                hint="register the function under another name",
            )
        entry.func = func
