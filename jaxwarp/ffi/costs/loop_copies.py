"""A warning where a loop copies its state each iteration, because a launch makes a new array of the one carried.

XLA keeps each carried value of a loop in one buffer. Where a launch reads the value, and its result is the value of the
next iteration, the result cannot be written there, so XLA copies it. Nothing in a launch tells; the loop does, once the
program around it is whole. JAX tells its monitors then, while the user's call is still under way.

Only what is certain is warned of. A result that anything but a reshape changes on its way needs no copy of its own: XLA
writes the change to where the value belongs. A loop of one iteration is none.
"""

from __future__ import annotations

import functools
import math
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import jax
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from jaxwarp.errors import PerformanceWarning
from jaxwarp.launches.spec import LaunchSpec, is_static

FROM_BYTES = 1 << 20
"""Of the state. A copy of less takes about as long as starting the launch."""

_WHOLE = "/jax/core/compile/jaxpr_to_mlir_module_duration"  # the event when a program has been lowered
_SAME = ("stablehlo.reshape", "stablehlo.optimization_barrier")
_LINE = re.compile(r'\("((?:[^"\\]|\\.)+)":(\d+):\d+')


class _Lowering(threading.local):
    """The program that this thread makes, where a launch in it could be the step of a loop."""

    module: Any = None


_lowering = _Lowering()
_warned: dict[Any, Any] = {}  # as Python has in every module: what was said of which line


def watch(ctx: mlir.LoweringRuleContext, launch: LaunchSpec, operands: Sequence[Any]) -> None:
    """Has the program that is being lowered looked at when it is whole, if a launch makes a large array like another.

    Args:
        ctx: of the lowering.
        launch: the launch.
        operands: the types of its operands.
    """
    _listen()
    updated = launch.aliases.values()
    for number, (index, shape) in enumerate(zip(launch.result_params, launch.results, strict=True)):
        dtype = launch.kernel.params[index].dtype
        is_like = any(a.shape == shape and a.dtype == dtype.numpy for a in operands)
        if number not in updated and is_like and _bytes(shape, dtype.bytes) >= FROM_BYTES:
            _lowering.module = ctx.module_context.module
            return


def _bytes(shape: Sequence[Any], size: int) -> int:
    return math.prod(map(int, shape)) * size if all(map(is_static, shape)) else 0


@functools.cache
def _listen() -> None:
    jax.monitoring.register_event_duration_secs_listener(_told)


def _told(event: str, duration_secs: float, **_: Any) -> None:
    del duration_secs
    if event != _WHOLE or _lowering.module is None:
        return
    module, _lowering.module = _lowering.module, None
    for place, times in {_place(call): times for call, times in copying_launches(module)}.items():
        _warn(*place, times)


def copying_launches(module: ir.Module) -> Iterator[tuple[Any, int]]:
    """The launches in a module whose result a loop copies to where the launch found its operand.

    With each how many times as many steps an iteration need no copy, since buffers are then where they were: two, and
    one more for each value that only moves from place to place, as the last state but one does in a leapfrog scheme.
    """
    program = _Program(module)
    for loop in program.loops:
        if _is_once(loop):
            continue
        body = loop.regions[1].blocks[0]
        pairs = [(c, *program.origin(v, ())) for c, v in zip(body.arguments, _last(body).operands, strict=True)]
        for carried, made, calls in pairs:
            if _is_new(made) and any(program.origin(x, calls) == (carried, ()) for x in made.owner.operands):
                moved = [c for c, v, _ in pairs if v != c and v in body.arguments and v.type == carried.type]
                yield made.owner, min(2 + len(moved), max(_TIMES))


# The calls that lead to where a value is, from the outermost on.
_Calls = tuple[Any, ...]


class _Program:
    """The loops and functions of a module."""

    def __init__(self, module: ir.Module):
        self.loops: list[Any] = []
        self.functions: dict[str, Any] = {}
        module.operation.walk(self._see)

    def _see(self, op: ir.Operation) -> Any:
        match _kind(op):
            case "stablehlo.while":
                self.loops.append(op)
            case "func.func":
                self.functions[ir.StringAttr(op.attributes["sym_name"]).value] = op
            case _:
                pass
        return ir.WalkResult.ADVANCE

    def origin(self, value: Any, calls: _Calls) -> tuple[Any, _Calls]:
        """Return the value that a value is an unchanged copy of, and the calls that lead to it.

        The returned value is a result of an operation, or an argument of a loop or of the program.
        """
        while True:
            op = value.owner
            if isinstance(op, ir.Block):
                if not calls or _kind(op.owner) != "func.func":
                    return value, calls
                value, calls = calls[-1].operands[_number(op.arguments, value)], calls[:-1]
            elif _kind(op) in _SAME:
                value = op.operands[_number(op.results, value)]
            elif _kind(op) == "func.call":
                function = self.functions[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
                returned = _last(function.regions[0].blocks[0]).operands
                value, calls = returned[_number(op.results, value)], (*calls, op)
            else:
                return value, calls


def _kind(op: ir.OpView | ir.Operation) -> str:
    return op.operation.name  # a function's own name is that of the function


def _number(values: Any, value: Any) -> int:
    return next(n for n, v in enumerate(values) if v == value)


def _last(block: ir.Block) -> Any:
    return list(block.operations)[-1]


def _is_new(value: Any) -> bool:
    """Return whether a launch has made a value, in memory of its own."""
    op = value.owner
    if isinstance(op, ir.Block) or _kind(op) != "stablehlo.custom_call":
        return False
    is_launch = ir.StringAttr(op.attributes["call_target_name"]).value == "jaxwarp_launch"
    return is_launch and not _is_updated(op, _number(op.results, value))


def _is_updated(op: Any, result: int) -> bool:
    """Return whether a result is in the memory of an operand."""
    if "output_operand_aliases" not in op.attributes:
        return False
    many = len(op.results) > 1
    updated = re.findall(r"output_tuple_indices = \[(\d*)\]", str(op.attributes["output_operand_aliases"]))
    return (str(result) if many else "") in updated


def _is_once(loop: Any) -> bool:
    """Return whether a loop is known to have at most one iteration: XLA does not keep it as a loop."""
    (condition,) = _last(loop.regions[0].blocks[0]).operands
    compare = condition.owner
    if isinstance(compare, ir.Block) or _kind(compare) != "stablehlo.compare":
        return False
    if "LT" not in str(compare.attributes["comparison_direction"]):
        return False
    counter, stop = compare.operands
    if not isinstance(counter.owner, ir.Block):
        return False
    start = loop.operands[_number(counter.owner.arguments, counter)]
    first, last = _integer(start), _integer(stop)
    return first is not None and last is not None and last - first <= 1


def _integer(value: Any) -> int | None:
    op = value.owner
    if isinstance(op, ir.Block) or _kind(op) != "stablehlo.constant":
        return None
    found = re.match(r"dense<(-?\d+)> : tensor<u?i\d+>$", str(op.attributes["value"]))
    return int(found.group(1)) if found else None


def _warn(name: str, file: str, line: int, times: int) -> None:
    warnings.warn_explicit(
        f"kernel {name}: a loop copies its state in every iteration. The launch reads the last state while it writes"
        f" the next, so XLA has it write elsewhere, and copies. Cure: {_TIMES[times]} as many steps an iteration"
        f" (`unroll={times}` of jax.lax.scan), which go round between buffers; or `in_out_argnames`, where no thread"
        " reads an element that another writes. See docs/performance.md",
        PerformanceWarning,
        file,
        line,
        registry=_warned,
    )


_TIMES = {2: "twice", 3: "three times", 4: "four times"}


def _place(call: Any) -> tuple[str, str, int]:
    """The name of a launch's kernel, and the user's line.

    Beside the line a place has those of the functions around it, and what JAX calls the operation.
    """
    name = ir.StringAttr(ir.DictAttr(call.attributes["mhlo.backend_config"])["name"]).value
    place = _LINE.search(str(call.location))
    return (name, place.group(1), int(place.group(2))) if place else (name, "<unknown>", 1)
