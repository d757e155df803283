"""`for`, and `while`.

    constant trip count, small, not left early      unrolled; the variable is a constant in each copy
    not left by break or return                     For
    else                                            While, on the index and the flags

A loop over the elements of a tuple or vector is unrolled, or goes over their indices if it may be left. One over a
struct that says how it advances is a `while`: advance.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelSyntaxError, KernelTypeError
from jaxwarp.frontend.lowering.branches import execute
from jaxwarp.frontend.lowering.frame import CONTINUE, LEFT, RETURN, Context, Frame, statement
from jaxwarp.frontend.lowering.loops.advance import entered, while_next, while_runs
from jaxwarp.frontend.lowering.loops.loop import Loop
from jaxwarp.frontend.lowering.loops.progression import trip_count
from jaxwarp.frontend.lowering.loops.ranges import Advancing, Elements, Range, index_type, iterated, pick
from jaxwarp.frontend.lowering.merge import MismatchError
from jaxwarp.frontend.lowering.references import advanced
from jaxwarp.frontend.lowering.short_circuit import append, aside, joined_condition
from jaxwarp.frontend.lowering.statements import assign
from jaxwarp.frontend.text.liveness import Exits, exits
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.interpret import evaluate

# How often a statement may be there because loops inside each other are unrolled. Of 4096 products LLVM takes a minute.
_MOST_UNROLLED = 1024
# The same of loops over the components of vectors and matrices.
_MOST_COMPONENTS = 64


@statement(ast.While)
def _while(frame: Frame, node: ast.While) -> None:
    if node.orelse:
        raise KernelSyntaxError("else of a loop is not part of the kernel language", hint="set a flag before break")
    if isinstance(node.test, ast.Constant) and not node.test.value:
        return
    if advanced(frame.source, [node.test], frame.variables):
        node = _tested_inside(node)
    loop = Loop(frame, node, frame.live, exits(node.body), runs=_surely_begins(frame, node))
    if isinstance(node.test, ast.Constant) and not (loop.exits.breaks or loop.exits.returns):
        raise KernelSyntaxError("this loop never ends", hint="leave it with break or return")
    inits = loop.carry()

    def evaluate_test() -> bool | ir.Value:
        test = frame.test(node.test)
        if test is True and not (loop.exits.breaks or loop.exits.returns):
            with frame.at(node.test):
                raise KernelSyntaxError(
                    "this loop never ends: its condition is always true",
                    hint="test what changes in the loop, or leave it with break or return",
                )
        return test

    def condition(*leaves: ir.Value) -> ir.Value:
        stopped = loop.stopped(leaves)
        going = None if stopped is None else frame.ops.call("logical_not", stopped)
        test = joined_condition(frame, True if going is None else going, evaluate_test, "and")
        return frame.typed(test)

    def body(*leaves: ir.Value) -> Sequence[ir.Value]:
        return loop.iteration(leaves)

    with _at_hand(frame):
        loop.leave(frame.builder.while_(inits, condition, body, loop.names))
    if isinstance(node.test, ast.Constant) and not loop.exits.breaks:
        frame.variables[RETURN] = True  # nothing else ends it


def _surely_begins(frame: Frame, node: ast.While) -> bool:
    """Return whether the condition holds at first, whatever the data are."""
    if isinstance(node.test, ast.Constant):
        return True
    parts = list(ast.walk(node.test))
    given = [a for n in parts if isinstance(n, ast.Call) for a in n.args]
    if any(isinstance(n, ast.Subscript) for n in parts) or not all(isinstance(a, ast.Constant) for a in given):
        return False  # a condition is lowered once more for this, which calls of functions could make long
    side = aside(frame, lambda: frame.test(node.test))
    return _known_result(frame, side.ops, side.value) is True


def _known_result(frame: Frame, ops: Sequence[ir.Op], value: Any) -> Any:
    """A value that operations make of constants alone; None: of others, too, or of floats that are computed, which
    machine code may round otherwise."""
    found: dict[ir.Value, Any] = {}
    for op in ops:
        match op:
            case ir.Const():
                found[op.result] = op.value
            case ir.Call() if not op.result.type.is_float or op.builtin.typed:
                args = [found.get(a, frame.known(a)) for a in op.args]
                if not any(a is None for a in args):
                    found[op.result] = evaluate(op, args)
            case ir.Call():
                pass
            case _:
                return None
    return found.get(value) if isinstance(value, ir.Value) else value


@contextmanager
def _at_hand(frame: Frame) -> Iterator[None]:
    """The operations of a loop are appended when it is finished: nothing executes them before (stepping.py)."""
    with frame.builder.block() as ops:
        yield
    append(frame, ops)


def _tested_inside(node: ast.While) -> ast.While:
    """`while True: if not test: break; ...`: what the test does to variables lasts."""
    test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
    leave = ast.copy_location(ast.If(test, [ast.copy_location(ast.Break(), node.test)], []), node.test)
    always = ast.copy_location(ast.Constant(True), node.test)
    return ast.copy_location(ast.While(always, [leave, *node.body], []), node)


@statement(ast.For)
def _for(frame: Frame, node: ast.For) -> None:
    if node.orelse:
        raise KernelSyntaxError("else of a loop is not part of the kernel language", hint="set a flag before break")
    found = iterated(frame, node, node.iter)
    if isinstance(found, Advancing):
        with entered(frame, node, found):
            in_runs = found.runs is not None and not exits(node.body).breaks
            _while(frame, while_runs(node) if in_runs else while_next(node))
        return
    leaving = exits(node.body)
    is_left = leaving.breaks or leaving.returns
    if isinstance(found, Elements):
        if not (is_left and found.values):
            _unroll(frame, node, found.values, leaving)
            return
        loop = Loop(frame, node, frame.live, leaving, _element_setter(frame, node, found.values), runs=True)
        bounds = Range(0, len(found.values), 1)
    else:
        name = range_variable(node)
        numbers, dtype = found.known(frame), index_type(found.bounds)
        if numbers is not None and _is_unrolled(frame, node, numbers) and not is_left:
            _unroll(frame, node, [frame.typed(n, dtype) for n in numbers], leaving)
            return
        set_index: Callable[[ir.Value], None] = lambda index: frame.variables.update({name: index})  # noqa: E731
        loop = Loop(frame, node, frame.live, leaving, set_index, runs=bool(numbers), index_type=dtype)
        bounds = found
    with _at_hand(frame):
        _loop_over(loop, bounds, is_left)


def range_variable(node: ast.For) -> str:
    if not isinstance(node.target, ast.Name):
        raise KernelSyntaxError(
            "a for loop over range(...) has one variable", hint="for i in range(n):, and compute the other one from i"
        )
    return node.target.id


def _element_setter(frame: Frame, node: ast.For, values: Sequence[Any]) -> Callable[[ir.Value], None]:
    def set_element(index: ir.Value) -> None:
        try:
            value = pick(frame, values, index)
        except MismatchError:
            raise KernelTypeError(
                "a loop that is left early goes over values of one type",
                frame.loc(node.iter),
                hint="convert them to one type, or leave out break and return",
            ) from None
        assign(frame, node.target, value)

    return set_element


def _loop_over(loop: Loop, found: Range, is_left: bool) -> None:
    """A `for` that is not unrolled."""
    frame = loop.frame
    dtype = index_type(found.bounds)
    start, stop, step = (frame.typed(b, dtype) for b in found.bounds)
    inits = loop.carry()
    if found.is_reversed and frame.known(step) == 1 and _has_number_before(frame, start):
        start, stop, step = _backwards(frame, start, stop)
    elif found.is_reversed or (is_left and frame.known(step) not in (1, -1)):
        _counted(loop, (start, stop, step), inits, found.is_reversed, is_left)
        return
    if is_left:
        _for_as_while(loop, start, stop, step, inits)
        return

    def body(index: ir.Value, *leaves: ir.Value) -> Sequence[ir.Value]:
        return loop.iteration(leaves, index)

    names = [loop.index_name, *loop.names]
    loop.leave(frame.builder.for_(start, stop, step, inits, body, names))


def _has_number_before(frame: Frame, start: ir.Value) -> bool:
    known = frame.known(start)
    return start.type.is_signed and isinstance(known, int) and known > np.iinfo(start.type.numpy).min


def _backwards(frame: Frame, start: ir.Value, stop: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """`reversed(range(start, stop))` as a range: nothing overflows where `start` is not the least number."""
    call, dtype = frame.ops.call, start.type
    last = frame.typed(frame.ops.binary("sub", call("max", start, stop), 1))
    return last, frame.constant(int(frame.known(start) or 0) - 1, dtype), frame.constant(-1, dtype)


def _is_unrolled(frame: Frame, node: ast.For, iterations: range) -> bool:
    """A loop of few iterations, if those of all loops around do not make many; or whose index has to be a constant."""
    context = frame.context
    statics = [n for n in ast.walk(node) if isinstance(n, ast.Call) and _called_name(n) == "static"]
    if iterations[context.max_unroll :]:  # len() of a range counts no further than an int64
        name = range_variable(node)
        used = {n.id for call in statics for n in ast.walk(call) if isinstance(n, ast.Name)}
        if name in used:
            return not iterations[_MOST_UNROLLED:]
        count = len(iterations[: _MOST_COMPONENTS + 1])
        return count * context.unrolled <= _MOST_COMPONENTS and count <= _components(frame, node, name)
    return len(iterations) * context.unrolled <= max(_MOST_UNROLLED, context.max_unroll) or bool(statics)


def _components(frame: Frame, node: ast.For, name: str | None) -> int:
    """Return the components of the largest vector or matrix that a loop indexes with its variable.

    Where such a loop is not unrolled, each access chooses among all components. An entropic collision of 27 populations
    takes 0.08 of the time unrolled (AVX2). None, if the user wants fewer copies than there are by default.
    """
    if frame.context.max_unroll < Context.max_unroll:
        return 0
    found = 0
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name):
            value = frame.variables.get(part.value.id)
            indices = {n.id for n in ast.walk(part.slice) if isinstance(n, ast.Name)}
            if isinstance(value, Bundle) and name in indices:
                found = max(found, len(value.values))
    return found


def _called_name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _unroll(frame: Frame, node: ast.For, values: Sequence[Any], leaving: Exits) -> None:
    """One copy of the body for each value of the variable; `continue` skips the rest of a copy."""
    context = frame.context
    live_in = frame.live | frame.liveness.uses(node.target) | frame.liveness.before(node.body, frame.live)
    if leaving.continues:
        live_in |= frozenset(n for s in node.body for n in frame.liveness.uses(s))
    around, context.unrolled = context.unrolled, context.unrolled * max(len(values), 1)
    outer, frame.exit_live = frame.exit_live, live_in if leaving.continues else frozenset()
    for value in values:
        assign(frame, node.target, value)
        with context.growth.writing_out(frame.source):
            execute(frame, node.body, live_in)
        if leaving.continues:
            # What a path that goes on has not set was noted where it left.
            frame.variables[CONTINUE] = False
            frame.variables.pop(LEFT, None)
    frame.exit_live = outer
    context.unrolled = around


def _counted(
    loop: Loop, bounds: tuple[ir.Value, ir.Value, ir.Value], inits: list[ir.Value], is_reversed: bool, is_left: bool
) -> None:
    """A loop over the number of the iteration, of which the index is computed: nothing in it can overflow."""
    frame, call = loop.frame, loop.frame.ops.call
    start, stop, step = bounds
    count = trip_count(frame, start, stop, step)
    zero = frame.builder.const(0, count.type)
    last = call("sub", count, 1) if is_reversed else None

    def iteration(counter: ir.Value, leaves: Sequence[ir.Value]) -> list[ir.Value]:
        iteration = frame.ops.cast_scalar(start.type, counter if last is None else call("sub", last, counter))
        return loop.iteration(leaves, call("add", start, call("mul", iteration, step)))

    names = ["", *loop.names]
    if not is_left:
        one = frame.builder.const(1, count.type)
        loop.leave(frame.builder.for_(zero, count, one, inits, lambda k, *leaves: iteration(k, leaves), names))
        return

    def body(counter: ir.Value, *leaves: ir.Value) -> Sequence[ir.Value]:
        results = iteration(counter, leaves)
        return [call("add", counter, 1), *results]

    going = lambda counter: call("lt", counter, count)  # noqa: E731
    results = frame.builder.while_([zero, *inits], _unless_left(loop, going), body, [loop.index_name, *loop.names])
    loop.leave(results[1:])


def _for_as_while(loop: Loop, start: ir.Value, stop: ir.Value, step: ir.Value, inits: list[ir.Value]) -> None:
    """A `for` in steps of one that may be left: the index itself counts, which never passes `stop`."""
    frame, call = loop.frame, loop.frame.ops.call
    comparison = "lt" if frame.known(step) == 1 else "gt"

    def body(index: ir.Value, *leaves: ir.Value) -> Sequence[ir.Value]:
        results = loop.iteration(leaves, index)
        return [call("add", index, step), *results]

    going = lambda index: call(comparison, index, stop)  # noqa: E731
    results = frame.builder.while_([start, *inits], _unless_left(loop, going), body, [loop.index_name, *loop.names])
    loop.leave(results[1:])


def _unless_left(loop: Loop, going: Callable[[ir.Value], ir.Value]) -> Callable[..., ir.Value]:
    """The condition of a loop that counts, and may be left."""
    call = loop.frame.ops.call

    def condition(counter: ir.Value, *leaves: ir.Value) -> ir.Value:
        more, stopped = going(counter), loop.stopped(leaves)
        return more if stopped is None else call("logical_and", more, call("logical_not", stopped))

    return condition
