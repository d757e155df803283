"""Names of Warp that have no meaning here: they exist, and do nothing. docs/from_warp.md lists them.

A function takes whatever it is called with and gives what its row says; a class of the name `Scoped...` is a context
manager whose `with` changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxwarp.boundary import boundary
from jaxwarp.memory.devices import get_device


class Idle(NamedTuple):
    """A name that does nothing.

    Attributes:
        why: why there is nothing to do.
        gives: what a call of it gives.
    """

    why: str
    gives: Any = None


_COMPILED = "kernels are compiled when they are first launched, and found again by their text and types"
_POOL = "outside of JAX memory is NumPy's, or of the CUDA driver's own pool, and in programs XLA's"
_PEER = "the arrays of a launch are on one GPU, and copies between GPUs are the driver's"
_LOG = "the log is lines on standard error: `config.log_level`"

# What does nothing at all. Those that check their arguments are functions below.
ROWS: dict[str, Idle] = {
    "load_module": Idle(_COMPILED),
    "force_load": Idle(_COMPILED),
    "clear_kernel_cache": Idle(_COMPILED),
    "clear_lto_cache": Idle(_COMPILED),
    "clear_jax_callable_graph_cache": Idle("XLA keeps the graphs of its programs"),
    "ScopedMempool": Idle(_POOL),
    "is_mempool_access_supported": Idle(_PEER, False),
    "is_mempool_access_enabled": Idle(_PEER, False),
    "set_mempool_access_enabled": Idle(_PEER),
    "ScopedMempoolAccess": Idle(_PEER),
    "is_peer_access_supported": Idle(_PEER, False),
    "is_peer_access_enabled": Idle(_PEER, False),
    "set_peer_access_enabled": Idle(_PEER),
    "ScopedPeerAccess": Idle(_PEER),
    "cuda_profiler_start": Idle("`jax.profiler.trace` profiles programs"),
    "cuda_profiler_stop": Idle("`jax.profiler.trace` profiles programs"),
    "ScopedCudaProfiler": Idle("`jax.profiler.trace` profiles programs"),
    "get_logger": Idle(_LOG),
    "set_logger": Idle(_LOG),
    "Logger": Idle(_LOG),
    "ScopedLogger": Idle(_LOG),
    "ScopedLogLevel": Idle(_LOG),
    "is_cubql_available": Idle("there is one kind of tree", False),
}

# The levels of Warp's log, for `config.log_level`.
LEVELS = {"LOG_DEBUG": 10, "LOG_INFO": 20, "LOG_WARNING": 30, "LOG_ERROR": 40}


# What the timers of Warp measure, for `ScopedTimer(cuda_filter=...)`.
FILTERS = {
    "TIMING_KERNEL": 1, "TIMING_KERNEL_BUILTIN": 2, "TIMING_MEMCPY": 4, "TIMING_MEMSET": 8, "TIMING_GRAPH": 16,
    "TIMING_ALL": 2**32 - 1,
}  # fmt: skip


class CaptureMode(enum.IntEnum):
    """Modes of a capture, which say what other threads may do meanwhile, for `ScopedCapture(capture_mode=...)`.

    They have no effect: a capture contains the launches of one thread.
    """

    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


class _Nothing:
    """A context manager that changes nothing."""

    def __init__(self, *_: Any, **__: Any):
        pass

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


@boundary
def can_access(device: Any, resource: Any) -> bool:
    """Return whether kernels on a device can use an array outside of JAX, or arrays on another device.

    Kernels can use only arrays on their own device.

    Raises:
        KernelTypeError, KernelValueError: there is no such device.
    """
    return get_device(getattr(resource, "device", resource)) == get_device(device)


def _made(name: str, row: Idle) -> Any:
    doc = f"Does nothing: {row.why}."
    if name[0].isupper():
        return type(name, (_Nothing,), {"__doc__": doc, "__module__": __name__})

    def idle(*_: Any, **__: Any) -> Any:
        return list(row.gives) if isinstance(row.gives, tuple) else row.gives

    idle.__name__ = idle.__qualname__ = name
    idle.__doc__ = doc
    return idle


IDLE: dict[str, Callable[..., Any]] = {name: _made(name, row) for name, row in ROWS.items()}
