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
        cuda_stream: its address, as in `ctx.stream` of a callback, or an object of another library that has one and
            says so by CUDA's stream protocol, `__cuda_stream__()`, as streams of `cuda.core` and PyTorch do.

    Raises:
        KernelTypeError: there is no address; jaxwarp makes no streams of its own.
    """

    def __init__(self, device: Device | str | None = None, *, cuda_stream: Any = None, **_: Any):
        address = _address(cuda_stream)
        if address is None:
            raise KernelTypeError(
                f"Stream: cuda_stream: expected the address of a CUDA stream, got {cuda_stream!r}",
                hint="jaxwarp makes no streams; pass ctx.stream of a callback on CUDA (the CPU has none)",
            )
        self.device = Device(device) if isinstance(device, str) else device
        self.cuda_stream = address

    def __cuda_stream__(self) -> tuple[int, int]:
        """The version of the protocol, and the address."""
        return 0, self.cuda_stream

    def __repr__(self) -> str:
        return f"Stream({self.device}, cuda_stream={self.cuda_stream:#x})"


def _address(stream: Any) -> int | None:
    """The address that a number is, or that an object has by version 0 of the protocol."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(type(stream), "__cuda_stream__", None)
    if protocol is None:
        return None
    found = protocol(stream)
    is_known = isinstance(found, tuple) and len(found) == 2 and found[0] == 0
    return int(found[1]) if is_known else None


@contextmanager
def ScopedStream(stream: Any) -> Iterator[Stream | None]:  # noqa: N802 - the name users know from Warp
    """In a function that XLA calls: launches, copies and fills in the `with` go to `stream`, a `Stream` or an object
    with `__cuda_stream__()`.

    If that is not the stream of the call, each waits for the work of the other. With None nothing changes, anywhere.

    Raises:
        KernelTypeError, KernelValueError: no function is being called, or the stream is of another device.
    """
    if stream is None:
        yield None
        return
    scope = require_scope("ScopedStream")
    if not isinstance(stream, Stream) and hasattr(type(stream), "__cuda_stream__"):
        stream = Stream(cuda_stream=stream)
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
