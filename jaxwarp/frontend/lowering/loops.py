"""`for` over `range`, and `while`.

    constant trip count, small, not left early      unrolled; the variable is a constant in each copy
    not left by break or return                     For
    else                                            While, on the index and the flags

Names that the body assigns, that had a value before, and that are read later (or in the next iteration) are carried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jaxwarp.errors import InternalError, KernelSyntaxError, KernelTypeError
from jaxwarp.frontend.lowering.branches import execute
from jaxwarp.frontend.lowering.frame import (
    ATTACHED,
    BREAK,
    CONTINUE,
    RESULT,
    RETURN,
    SHOWN,
    Frame,
    start_hint,
    statement,
)
from jaxwarp.frontend.lowering.merge import Carried, MismatchError, type_hint, type_text, zeros_like
from jaxwarp.frontend.lowering.ranges import index_type, range_bounds, trip_count
from jaxwarp.frontend.lowering.references import advanced
from jaxwarp.frontend.lowering.short_circuit import joined_condition
from jaxwarp.frontend.lowering.values import Undefined, is_literal, type_of
from jaxwarp.frontend.text.liveness import Exits, assigned, exits
from jaxwarp.ir import nodes as ir
from jaxwarp.types import int32

# How often a statement may be there because loops inside each other are unrolled. Of 4096 products LLVM takes a minute.
_MOST_UNROLLED = 1024


@dataclass(eq=False)
class _Loop:
    """What the kinds of loops share."""

    frame: Frame
    node: ast.For | ast.While
    live: frozenset[str]
    exits: Exits

    def __post_init__(self) -> None:
        frame, node = self.frame, self.node
        test = frame.liveness.uses(node.test) if isinstance(node, ast.While) else frozenset[str]()
        self.live_in = self.live | test
        self.live_in |= frame.liveness.before(node.body, self.live_in)
        if self.exits.breaks or self.exits.continues:
            # A path to the end of the body may skip an assignment: uses after it count as well.
            self.live_in |= frozenset(n for s in node.body for n in frame.liveness.uses(s))
        # The roots of targets that are no variables are modules: `wp.adjoint[x] += ...`.
        written = [*assigned(node.body), *advanced(frame.source, node.body, frame.variables)]
        names = [n for n in dict.fromkeys(written) if n in frame.variables or n in frame.source.locals]
        if isinstance(node, ast.For):
            targets = assigned([node.target])
            names = [*names, *(n for n in targets if n not in names)]
            self.live_in -= frozenset(targets) - self.live  # each iteration sets the loop's variable
        # What a derivative rule attaches to has no name in the text.
        hidden = frozenset([ATTACHED]) & frame.variables.keys()
        self.live_in |= hidden
        self.assigned = [*names, *hidden]
        self.before = dict(frame.variables)
        self.carried: list[Carried] = []

    def carry(self) -> list[ir.Value]:
        """Decides what is carried; the leaves of its values on entry."""
        frame = self.frame
        for name in self.assigned:
            value = self.before.get(name)
            if value is not None and not isinstance(value, Undefined) and name in self.live_in:
                self.carried.append(Carried.of(frame, name, value))
        if self.exits.breaks:
            self.carried.append(Carried.of(frame, BREAK, False))
        if self.exits.returns:
            self.carried.append(Carried.of(frame, RETURN, False))
            result = self.before.get(RESULT)
            if result is None:
                result = self._result_of_trial()
            if result is not None:
                self.carried.append(Carried.of(frame, RESULT, result))
        if frame.context.joined is not None:
            frame.context.joined[frame.loc(self.node)] = {c.name: type_of(c.entry) for c in self.carried}
        return [leaf for c in self.carried for leaf in c.leaves]

    def _result_of_trial(self) -> Any:
        """A value of the type that the body returns: found by lowering it once and throwing that away."""
        if self.frame.is_kernel:
            return None
        frame = self.frame
        self.enter([], [])
        with frame.builder.block():
            if self.index_name:
                frame.variables[self.index_name] = frame.builder.const(0, int32)
            with self.exit_live():
                execute(frame, self.node.body, self.live_in)
            result = frame.typed(frame.variables.get(RESULT))
        frame.variables = dict(self.before)
        return None if result is None else zeros_like(frame, result)

    @property
    def index_name(self) -> str:
        return index_name(self.node) if isinstance(self.node, ast.For) else ""

    @property
    def names(self) -> list[str]:
        """Names of the leaves, for printers."""
        return [SHOWN.get(c.name, c.name) for c in self.carried for _ in c.leaves]

    def enter(self, carried: Sequence[Carried], leaves: Sequence[ir.Value]) -> None:
        """Sets the variables to what they are at the start of an iteration."""
        frame = self.frame
        frame.variables = dict(self.before)
        line = frame.loc(self.node).line
        for name in self.assigned:
            frame.variables[name] = Undefined(
                f"the loop in line {line} assigns it, but it has no value before the loop"
            )
        if not carried:
            frame.variables.update({n: self.before[n] for n in self.assigned if n in self.before})
        remaining = iter(leaves)
        for c in carried:
            frame.variables[c.name] = c.rebuild([next(remaining) for _ in c.leaves])
        for flag in (BREAK, CONTINUE, RETURN):
            frame.variables[flag] = False

    @contextmanager
    def exit_live(self) -> Iterator[None]:
        frame, outer = self.frame, self.frame.exit_live
        frame.exit_live = frame.kept | (self.live_in if self.exits.breaks or self.exits.continues else frozenset())
        try:
            yield
        finally:
            frame.exit_live = outer

    def iteration(self, leaves: Sequence[ir.Value], index: ir.Value | None = None) -> list[ir.Value]:
        """Lowers the body once; returns the leaves it hands to the next iteration."""
        frame = self.frame
        self.enter(self.carried, leaves)
        if index is not None:
            frame.variables[self.index_name] = index
        outer = frame.literal_starts
        starts = {c.name: self.before.get(c.name) for c in self.carried}
        frame.literal_starts = outer | {name: value for name, value in starts.items() if is_literal(value)}
        with self.exit_live():
            execute(frame, self.node.body, self.live_in)
        frame.literal_starts = outer
        self._require_carried()
        return [leaf for c in self.carried for leaf in self._collect(c)]

    def _require_carried(self) -> None:
        """What a function has advanced is known to be assigned, unless nobody could tell which function is called."""
        known = {*self.assigned, self.index_name}
        for name in self.before.keys() - known:
            if self.frame.variables[name] is not self.before[name] and not name.startswith("$"):
                raise KernelTypeError(
                    f"{name} is advanced in this loop by a function that has no fixed name",
                    hint="call the function by its own name, not by that of a variable set in the loop",
                )

    def _collect(self, carried: Carried) -> tuple[ir.Value, ...]:
        frame, name = self.frame, carried.name
        value = frame.variables.get(name)
        if isinstance(value, Undefined):
            # Only paths that have returned drop a variable that is read later: they may hand on anything.
            if frame.variables.get(RETURN, False) is False:
                raise InternalError(f"{name} has no value at the end of the loop in line {frame.loc(self.node).line}")
            return carried.leaves
        try:
            return carried.collect(frame, value)
        except MismatchError:
            what = "the result" if name == RESULT else name
            raise KernelTypeError(
                f"{what} changes its type in the loop: from {type_text(carried.entry)} to {type_text(value)}",
                hint=self._type_hint(carried, value),
            ) from None

    def _type_hint(self, carried: Carried, value: Any) -> str:
        hint = start_hint(carried.name, self.before.get(carried.name), value)
        repair = "a variable keeps one type in a loop: convert the new value, or use another name"
        return hint or type_hint(carried.entry, value, repair)

    def leave(self, leaves: Sequence[ir.Value]) -> None:
        """Sets the variables to what they are after the loop."""
        frame, line = self.frame, self.frame.loc(self.node).line
        frame.variables = dict(self.before)
        for name in self.assigned:
            frame.variables[name] = Undefined(
                f"it is assigned only inside of the loop in line {line}", conditional=True
            )
        remaining = iter(leaves)
        for c in self.carried:
            value = c.rebuild([next(remaining) for _ in c.leaves])
            if c.name != BREAK:
                frame.variables[c.name] = value

    def stopped(self, leaves: Sequence[ir.Value]) -> ir.Value | None:
        """Whether break or return has ended the loop; None if it has neither."""
        frame = self.frame
        self.enter(self.carried, leaves)
        remaining = iter(leaves)
        flags = [c.rebuild([next(remaining) for _ in c.leaves]) for c in self.carried]
        flags = [f for f, c in zip(flags, self.carried, strict=True) if c.name in (BREAK, RETURN)]
        if not flags:
            return None
        return flags[0] if len(flags) == 1 else frame.ops.call("logical_or", *flags)


def index_name(node: ast.For) -> str:
    if not isinstance(node.target, ast.Name):
        raise KernelSyntaxError(
            "a for loop over range(...) has one variable", hint="for i in range(n):, and compute the other one from i"
        )
    return node.target.id


@statement(ast.While)
def _while(frame: Frame, node: ast.While) -> None:
    if node.orelse:
        raise KernelSyntaxError("else of a loop is not part of the kernel language", hint="set a flag before break")
    if isinstance(node.test, ast.Constant) and not node.test.value:
        return
    if advanced(frame.source, [node.test], frame.variables):
        node = _tested_inside(node)
    loop = _Loop(frame, node, frame.live, exits(node.body))
    if isinstance(node.test, ast.Constant) and not (loop.exits.breaks or loop.exits.returns):
        raise KernelSyntaxError("this loop never ends", hint="leave it with break or return")
    inits = loop.carry()

    def evaluate_test() -> bool | ir.Value:
        return frame.test(node.test)

    def condition(*leaves: ir.Value) -> ir.Value:
        stopped = loop.stopped(leaves)
        going = None if stopped is None else frame.ops.call("logical_not", stopped)
        test = joined_condition(frame, True if going is None else going, evaluate_test, "and")
        return frame.typed(test)

    def body(*leaves: ir.Value) -> Sequence[ir.Value]:
        return loop.iteration(leaves)

    loop.leave(frame.builder.while_(inits, condition, body, loop.names))


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
    index_name(node)
    bounds = range_bounds(frame, node)
    constants = [frame.known(b) for b in bounds]
    leaving = exits(node.body)
    if all(isinstance(c, int) for c in constants):
        iterations = range(*(int(c) for c in constants if c is not None)) if constants[-1] != 0 else range(0)
        if _is_unrolled(frame, node, iterations) and leaving == Exits(False, False, False):
            _unroll(frame, node, iterations, bounds)
            return
    loop = _Loop(frame, node, frame.live, leaving)
    dtype = index_type(bounds)
    start, stop, step = (frame.typed(b, dtype) for b in bounds)
    inits = loop.carry()
    if leaving.breaks or leaving.returns:
        _for_as_while(loop, start, stop, step, inits)
        return

    def body(index: ir.Value, *leaves: ir.Value) -> Sequence[ir.Value]:
        return loop.iteration(leaves, index)

    names = [loop.index_name, *loop.names]
    loop.leave(frame.builder.for_(start, stop, step, inits, body, names))


def _is_unrolled(frame: Frame, node: ast.For, iterations: range) -> bool:
    """A loop of few iterations, if those of all loops around do not make many; or whose index has to be a constant."""
    context = frame.context
    if iterations[context.max_unroll :]:  # len() of a range counts no further than an int64
        return False
    return len(iterations) * context.unrolled <= max(_MOST_UNROLLED, context.max_unroll) or any(
        isinstance(inner, ast.Call) and getattr(inner.func, "attr", getattr(inner.func, "id", "")) == "static"
        for inner in ast.walk(node)
    )


def _unroll(frame: Frame, node: ast.For, iterations: range, bounds: Sequence[Any]) -> None:
    dtype, name, context = index_type(bounds), index_name(node), frame.context
    live_in = frame.live | frame.liveness.before(node.body, frame.live)
    around, context.unrolled = context.unrolled, context.unrolled * max(len(iterations), 1)
    for index in iterations:
        frame.variables[name] = frame.typed(index, dtype)
        execute(frame, node.body, live_in)
    context.unrolled = around


def _for_as_while(loop: _Loop, start: ir.Value, stop: ir.Value, step: ir.Value, inits: list[ir.Value]) -> None:
    """A `for` that may be left: carries a counter, and tests it and the flags."""
    frame, call = loop.frame, loop.frame.ops.call
    direction = frame.known(step)
    by_one = direction in (1, -1)
    # With steps of one the index itself counts: it never passes `stop`, so it cannot overflow.
    count = None if by_one else trip_count(frame, start, stop, step)
    first = start if count is None else frame.builder.const(0, count.type)

    def condition(counter: ir.Value, *leaves: ir.Value) -> ir.Value:
        bound, comparison = (stop, "lt" if direction == 1 else "gt") if count is None else (count, "lt")
        more = call(comparison, counter, bound)
        stopped = loop.stopped(leaves)
        return more if stopped is None else call("logical_and", more, call("logical_not", stopped))

    def body(counter: ir.Value, *leaves: ir.Value) -> Sequence[ir.Value]:
        index = counter
        if count is not None:
            iteration = frame.ops.cast_scalar(start.type, counter)
            index = call("add", start, call("mul", iteration, step))
        results = loop.iteration(leaves, index)
        return [call("add", counter, step if by_one else 1), *results]

    results = frame.builder.while_([first, *inits], condition, body, [loop.index_name, *loop.names])
    loop.leave(results[1:])
