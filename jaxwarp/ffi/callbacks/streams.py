"""Devices and CUDA streams by their names in Warp, for functions that XLA calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.cuda_scope import CudaScope
from jaxwarp.memory.current import require_scope
from jaxwarp.memory.devices import Device


class Stream:
    """A CUDA stream that somebody else has made.

    Args:
        device: where it is: a `Device`, or its alias.
        cuda_stream: its address, as in `ctx.stream` of a callback.

    Raises:
        KernelTypeError: there is no address; jaxwarp makes no streams of its own.
    """

    def __init__(self, device: Device | str | None = None, *, cuda_stream: int | None = None, **_: Any):
        if not isinstance(cuda_stream, int) or isinstance(cuda_stream, bool):
            raise KernelTypeError(
                f"Stream: cuda_stream: expected the address of a CUDA stream, got {cuda_stream!r}",
                hint="jaxwarp makes no streams; pass ctx.stream of a callback on CUDA (the CPU has none)",
            )
        self.device = Device(device) if isinstance(device, str) else device
        self.cuda_stream = cuda_stream

    def __repr__(self) -> str:
        return f"Stream({self.device}, cuda_stream={self.cuda_stream:#x})"


@contextmanager
def ScopedStream(stream: Stream | None) -> Iterator[Stream | None]:  # noqa: N802 - the name users know from Warp
    """In a function that XLA calls: launches, copies and fills in the `with` go to `stream`.

    If that is not the stream of the call, each waits for the work of the other. With None nothing changes, anywhere.

    Raises:
        KernelTypeError, KernelValueError: no function is being called, or the stream is of another device.
    """
    if stream is None:
        yield None
        return
    scope = require_scope("ScopedStream")
    if not isinstance(stream, Stream):
        raise KernelTypeError(f"ScopedStream: expected a Stream, got {stream!r}", hint="write Stream(device), or None")
    if not isinstance(scope, CudaScope):
        raise KernelValueError(
            f"ScopedStream: the call runs on the CPU, which has no streams; got {stream!r}",
            hint="write ScopedStream(None)",
        )
    if stream.device is not None and stream.device.alias != f"cuda:{scope.device_ordinal}":
        raise KernelValueError(
            f"ScopedStream: {stream!r} is of another device than the call, which runs on cuda:{scope.device_ordinal}",
            hint="use the stream of the call: ctx.stream",
        )
    with scope.on_stream(stream.cuda_stream):
        yield stream
