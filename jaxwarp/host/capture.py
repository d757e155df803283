"""Captures: launches, copies and fills of arrays outside of JAX that are kept, and happen whenever that is asked for.

While a capture is made nothing happens. What cannot be kept is refused: reading contents in Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries, located_call
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.programs.traced_array import ArrayHandle
from jaxwarp.ffi.programs.tracing import program_now
from jaxwarp.host.captured_work import CapturedBranch, CapturedLoop, Graph, rounds
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.devices import require_device
from jaxwarp.memory.gpu.scope import GpuScope, device_of, place_of_device
from jaxwarp.memory.gpu.streams import ScopedStream
from jaxwarp.memory.host_scope import HOST, capturing, recording
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.types import int32


def _require_outside(what: str) -> None:
    if scope_now() is not HOST:
        raise KernelTypeError(
            f"{what} is for launches outside of JAX", hint="in programs XLA captures what can be: write a jax_callable"
        )
    HOST.require_untraced("a capture", "used")


def _graph(what: str, graph: Any) -> Graph:
    if not isinstance(graph, Graph):
        raise KernelTypeError(
            f"{what}: expected a graph, got {graph!r}", hint="capture one: with ScopedCapture() as capture: ..."
        )
    return graph


_OPTIONS = ("stream", "force_module_load", "external", "apic", "capture_mode")


def _require_options(what: str, options: dict[str, Any]) -> None:
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise KernelTypeError(
            f"{what} has no option {', '.join(unknown)}", hint=f"its options are {', '.join(_OPTIONS)}"
        )
    if options.get("external"):
        raise KernelValueError(f"{what}: external captures are CUDA's", hint="leave external out")


@located_call
def capture_begin(device: Any = None, **options: Any) -> None:
    """Begins a capture: until `capture_end()` launches, copies and fills are kept, and do not happen.

    Args:
        device: where it will be launched: arrays and launches have their own.
        options: of Warp's, without effect: `stream`, `force_module_load`, `apic`, `capture_mode`.

    Raises:
        KernelTypeError, KernelValueError: another capture is being made, or a tape records; another device.
    """
    _require_outside("capture_begin")
    require_device(device, "capture_begin")
    _require_options("capture_begin", options)
    if capturing.get() is not None:
        raise KernelValueError("capture_begin: another capture is being made", hint="end it first: capture_end()")
    if recording.get() is not None:
        raise KernelValueError(
            "capture_begin: a tape is recording, and nothing that is captured has happened",
            hint="capture first, and launch the capture in the with of the tape",
        )
    Graph(None if device is None else place_of_device(device, "capture_begin")).begin()


@located_call
def capture_end(device: Any = None, stream: Any = None) -> Graph:
    """Ends the capture, and gives what it has kept.

    Raises:
        KernelTypeError, KernelValueError: no capture is being made; another device.
    """
    del stream
    require_device(device, "capture_end")
    graph = capturing.get()
    if not isinstance(graph, Graph):
        raise KernelValueError("capture_end: no capture is being made", hint="begin one: capture_begin()")
    if graph.is_part:
        raise KernelValueError(
            "capture_end: the capture was begun outside of the with of a tape, or of a body, that has not ended",
            hint="end it where it was begun",
        )
    graph.end()
    return graph


@located_call
def capture_launch(graph: Graph, stream: Any = None) -> None:
    """Does what a capture has kept, in order, with the arrays as they are now; on `stream`, if that is one of a GPU. A
    tape records it.

    Raises:
        KernelTypeError: it is no graph, or no stream.
    """
    _require_outside("capture_launch")
    with ScopedStream(stream, sync_enter=False):
        _graph("capture_launch", graph).run()


Body = Callable[..., Any] | Graph


def _captured(what: str, capture: Graph, body: Body | None, arguments: dict[str, Any]) -> Graph | None:
    """A body as a graph, while a capture is made."""
    if body is None or isinstance(body, Graph):
        return body
    if not callable(body):
        raise KernelTypeError(f"{what}: expected a function or a graph, got {body!r}", hint="pass a function")
    made = capture.part()
    made.begin()
    try:
        body(**arguments)
    finally:
        made.end()
    return made


def _require_there(what: str, flag: HostArray, capture: Graph, bodies: Sequence[Graph | None]) -> None:
    """
    Raises:
        KernelTypeError: a condition is on another device than the capture, or the work that it decides about.
    """
    where, place = "the capture", capture.place
    if place is None:
        where = "the work of the body"
        gpus = {p for body in bodies if body is not None for p in body.places() if isinstance(p, GpuScope)}
        place = gpus.pop() if len(gpus) == 1 else flag.scope
    if flag.scope is not place:
        raise KernelTypeError(
            f"{what}: condition: expected an array on {device_of(place)}, where {where} is, got one on {flag.device}",
            hint=f"make it there: zeros(1, dtype=int, device={str(device_of(place))!r})",
        )


def _run(what: str, body: Body, arguments: dict[str, Any]) -> None:
    if isinstance(body, Graph):
        body.run()
    elif callable(body):
        body(**arguments)
    else:
        raise KernelTypeError(f"{what}: expected a function or a graph, got {body!r}", hint="pass a function")


def _condition(what: str, condition: Any, kind: type = HostArray) -> Any:
    if not isinstance(condition, kind) or condition.dtype is not int32 or condition.size != 1:
        raise KernelTypeError(
            f"{what}: condition: expected an array of one int32, got {condition!r}",
            hint="make it with zeros(1, dtype=int)",
        )
    return condition


def _holds(what: str, condition: Any) -> bool:
    """Return what a condition in the memory of a call says now."""
    return bool(_condition(what, condition, LiveArray).numpy().reshape(-1)[0])


def _traced_body(what: str, body: Body | None, arguments: dict[str, Any]) -> Callable[[], object]:
    """A body of a loop or branch in a traced function."""
    if isinstance(body, Graph):
        raise KernelTypeError(
            f"{what}: a graph is of launches outside of JAX, and the function is traced", hint="pass a function"
        )
    return (lambda: None) if body is None else lambda: _run(what, body, arguments)


def _most_iterations(body: Any, arguments: dict[str, Any]) -> int | None:
    """Take the largest number of iterations out of the arguments of a body that does not take it itself."""
    if "max_iterations" not in arguments or _takes_max_iterations(body):
        return None
    most = arguments.pop("max_iterations")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
        raise KernelValueError(
            f"capture_while: max_iterations: expected a number of iterations, got {most!r}", hint="pass an integer"
        )
    return most


def _takes_max_iterations(body: Any) -> bool:
    if isinstance(body, Graph) or not callable(body):
        return False
    parameters = inspect.signature(body).parameters.values()
    return any(p.name == "max_iterations" or p.kind == p.VAR_KEYWORD for p in parameters)


@located_call
def capture_if(
    condition: HostArray,
    on_true: Body | None = None,
    on_false: Body | None = None,
    stream: Any = None,
    **arguments: Any,
) -> None:
    """Calls one of two functions, or launches one of two graphs; in a capture it is decided when that is launched.

    Args:
        condition: an array of one int32.
        on_true: what to do where it is not zero.
        on_false: what to do where it is.
        stream: no effect.
        arguments: of the functions.

    Raises:
        KernelTypeError: the condition is no such array, or a body neither a function nor a graph.
    """
    del stream
    scope = scope_now()
    if scope is None:
        handle = _condition("capture_if", condition, ArrayHandle)
        bodies = [_traced_body("capture_if", body, arguments) for body in (on_true, on_false)]
        program_now().choose(handle, *bodies)
        return
    if scope is not HOST:
        body = on_true if _holds("capture_if", condition) else on_false
        if body is not None:
            _run("capture_if", body, arguments)
        return
    HOST.require_untraced("a capture", "used")
    flag = _condition("capture_if", condition)
    capture = capturing.get()
    if capture is None:
        body = on_true if flag.list()[0] else on_false
        if body is not None:
            _run("capture_if", body, arguments)
        return
    assert isinstance(capture, Graph)
    bodies = [_captured("capture_if", capture, body, arguments) for body in (on_true, on_false)]
    _require_there("capture_if", flag, capture, bodies)
    CapturedBranch(flag, *bodies).keep("if")


@located_call
def capture_while(condition: HostArray, while_body: Body, stream: Any = None, **arguments: Any) -> None:
    """Calls a function, or launches a graph, as long as a condition holds; in a capture, when that is launched.

    In a traced function of a `jax_callable` it is a loop of JAX, and the body is traced once.

    Args:
        condition: an array of one int32, which the body sets to zero in the end.
        while_body: the function or graph.
        stream: no effect.
        arguments: of the function. `max_iterations`, unless the function itself takes it, is when the loop ends even if
            the condition holds. Reverse derivatives need it.

    Raises:
        KernelTypeError: the condition is no such array, or the body neither a function nor a graph.
        KernelValueError: `max_iterations` is no number of iterations.
    """
    del stream
    most = _most_iterations(while_body, arguments)
    scope = scope_now()
    if scope is None:
        handle = _condition("capture_while", condition, ArrayHandle)
        program_now().repeat(handle, _traced_body("capture_while", while_body, arguments), most)
        return
    if scope is not HOST:
        for _ in rounds(most):
            if not _holds("capture_while", condition):
                break
            _run("capture_while", while_body, arguments)
        return
    HOST.require_untraced("a capture", "used")
    flag = _condition("capture_while", condition)
    capture = capturing.get()
    if capture is None:
        for _ in rounds(most):
            if not flag.list()[0]:
                break
            _run("capture_while", while_body, arguments)
        return
    assert isinstance(capture, Graph)
    body = _captured("capture_while", capture, while_body, arguments)
    if body is None:
        raise KernelTypeError("capture_while: expected a function or a graph, got None", hint="pass a function")
    _require_there("capture_while", flag, capture, [body])
    CapturedLoop(flag, body, most).keep("while")


def is_conditional_graph_supported() -> bool:
    """Return whether `capture_if` and `capture_while` can be captured: they can."""
    return True


@boundaries
class ScopedCapture:
    """`with ScopedCapture() as capture:` captures what is launched in the `with`; then `capture_launch(capture.graph)`.

    Args and errors are those of `capture_begin`.

    Attributes:
        graph: what was captured, after the `with`.
    """

    def __init__(self, device: Any = None, stream: Any = None, **options: Any):
        self._device, self._options = device, {"stream": stream, **options}
        self.active = False
        self.graph: Graph | None = None

    def __enter__(self) -> ScopedCapture:
        capture_begin(self._device, **self._options)
        self.active = True
        return self

    def __exit__(self, *_: Any) -> None:
        self.active = False
        self.graph = capture_end(self._device)
