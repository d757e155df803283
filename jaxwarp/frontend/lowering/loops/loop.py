"""The base of all loops: which variables they carry, and what these are in an iteration and afterwards.

Names that the body assigns, that had a value before, and that are read later (or in the next iteration) are carried. So
are those without a value before that are read after the loop, if it makes an iteration and every path sets them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from jaxwarp.errors import InternalError, KernelTypeError
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
)
from jaxwarp.frontend.lowering.merge import (
    Carried,
    MismatchError,
    holds_array,
    nothing_like,
    structure,
    type_hint,
    type_text,
    unify,
)
from jaxwarp.frontend.lowering.references import advanced, arrays_in
from jaxwarp.frontend.lowering.structs import changed_fields, field_of
from jaxwarp.frontend.lowering.tiles.elements import overlap
from jaxwarp.frontend.lowering.tiles.storage import allocate, assign_tile, copied
from jaxwarp.frontend.lowering.values import StructValue, Tile, Undefined, is_literal, type_of
from jaxwarp.frontend.text.liveness import Exits, assigned, plain_names, rebound, surely_set
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Scalar, bool_, int32

_NONE = Undefined("")
_RAN = "$ran"


@dataclass(eq=False)
class _Adopted:
    """A variable that an iteration may have from an earlier one: its value, and whether it has one."""

    carried: Carried
    is_set: ir.Value
    before: Undefined | None
    ends: tuple[ir.Value, ...] = ()
    results: tuple[ir.Value, ...] = ()

    @classmethod
    def of(cls, frame: Frame, name: str, present: Any, before: Any) -> _Adopted:
        typed = Carried.of(frame, name, present)
        entry = typed.rebuild([ir.Value(v.type, name) for v in typed.leaves])
        has_value = isinstance(before, Undefined) and before.value is not None and before.is_checked
        return cls(Carried.of(frame, name, entry), ir.Value(bool_), before if has_value else None)

    @property
    def params(self) -> tuple[ir.Value, ...]:
        return (*self.carried.leaves, self.is_set)

    def inits(self, frame: Frame) -> tuple[ir.Value, ...]:
        """The leaves before the first iteration; a tile is copied."""
        if self.before is None:
            return tuple(frame.builder.const(0, v.type) for v in self.params)
        value = self.before.value
        if isinstance(self.carried.entry, Tile) and isinstance(value, Tile):
            assign_tile(frame, self.carried.entry, value)
            value = self.carried.entry
        return (*self.carried.collect(frame, value), frame.is_set(self.before))

    def end(self, loop: Loop) -> None:
        """Notes what it is at the end of an iteration."""
        frame, name = loop.frame, self.carried.name
        value, is_set = frame.variables.get(name), frame.builder.const(True, bool_)
        if isinstance(value, Undefined):
            if value.value is None or not value.is_checked:  # an inner loop may have set it
                self.ends = (*self.carried.leaves, frame.builder.const(False, bool_))
                return
            value, is_set = value.value, frame.is_set(value)
        if isinstance(self.carried.entry, Tile) and isinstance(value, Tile) and value.type == self.carried.entry.type:
            assign_tile(frame, self.carried.entry, value)
            value = self.carried.entry
        try:
            self.ends = (*self.carried.collect(frame, value), is_set)
        except MismatchError:
            raise KernelTypeError(
                f"{name} changes its type in the loop: from {type_text(self.carried.entry)} to {type_text(value)}",
                hint="a variable keeps one type in a loop: convert the new value, or use another name",
            ) from None

    def after(self, reason: str) -> Undefined:
        """Return the state of the variable after the loop."""
        *leaves, is_set = self.results
        return Undefined(reason, True, is_set, True, self.carried.rebuild(leaves), is_checked=True)


def _at_path(value: Any, path: Sequence[str]) -> Any:
    """The part of a struct that names of fields lead to, as far as structs go."""
    for name in path:
        if isinstance(value, StructValue):
            value = field_of(value, name)
    return value


@dataclass(eq=False)
class Loop:
    """The base of all kinds of loops."""

    frame: Frame
    node: ast.For | ast.While
    live: frozenset[str]
    exits: Exits
    # Sets the variables of a `for` from the index of an iteration.
    bind: Callable[[ir.Value], None] | None = None
    # It makes an iteration, whatever the data are.
    runs: bool = False
    index_type: Scalar = int32

    def __post_init__(self) -> None:
        frame, node = self.frame, self.node
        test = frame.liveness.uses(node.test) if isinstance(node, ast.While) else frozenset[str]()
        self.live_in = self.live | test
        self.live_in |= frame.liveness.before(node.body, self.live_in)
        if self.exits.breaks or self.exits.continues:
            # A path to the end of the body may skip an assignment: uses after it count as well.
            self.live_in |= frozenset(n for s in node.body for n in frame.liveness.uses(s))
        # The roots of targets that are no variables are modules: `wp.adjoint[x] += ...`.
        # A reference to a field shows in no target.
        self.passed = advanced(frame.source, node.body, frame.variables)
        written = [*assigned(node.body), *self.passed]
        names = [n for n in dict.fromkeys(written) if n in frame.variables or n in frame.source.locals]
        self.targets = assigned([node.target]) if isinstance(node, ast.For) else []
        if isinstance(node, ast.For):
            names = [*names, *(n for n in self.targets if n not in names)]
            # Each iteration sets the loop's variable.
            self.live_in -= frozenset(plain_names(node.target)) - self.live
            self.live_in |= frame.liveness.uses(node.target)
        # What a derivative rule attaches to has no name in the text.
        hidden = frozenset([ATTACHED]) & frame.variables.keys()
        self.live_in |= hidden
        self.assigned = [*names, *hidden]
        self.before = dict(frame.variables)
        self.carried: list[Carried] = []
        # What the last iteration sets first: the values at its end.
        self.set_inside: list[Carried] = []
        # What an earlier iteration may have set, and the values at the end of one.
        self.adopted: dict[str, _Adopted] = {}

    def carry(self) -> list[ir.Value]:
        """Decides what is carried; the leaves of its values on entry."""
        frame, node = self.frame, self.node
        statements = [*([node.target] if isinstance(node, ast.For) else []), *node.body]
        replaced = rebound(statements)
        for name in self.assigned:
            value: Any = self.before.get(name)
            if isinstance(value, Tile) and name in self.live_in and name in replaced:
                self.before[name] = copied(frame, value)
        self._widen([n for n in self.assigned if n in self.live_in and self._changes_array(n, statements, replaced)])
        for name in self.assigned:
            value = self.before.get(name)
            if value is not None and not isinstance(value, Undefined) and name in self.live_in:
                is_partial = isinstance(value, StructValue) and name not in self.passed
                paths = changed_fields(self.before[name], name, statements) if is_partial else None
                self.carried.append(Carried.of(frame, name, value, paths))
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
        with self._trial(self.carried):
            result = frame.typed(frame.variables.get(RESULT))
        if isinstance(result, Tile):
            return allocate(frame, result.dtype, result.shape)
        return None if result is None else nothing_like(frame, result)

    @contextmanager
    def _trial(self, carried: Sequence[Carried]) -> Iterator[None]:
        """The variables are as at the end of an iteration, whose operations are thrown away."""
        frame, context = self.frame, self.frame.context
        noted = (context.locals, context.sizes, context.windows)
        before = [len(found) for found in noted]
        # Of no value that is known, lest a branch that is taken later be left out.
        self.enter(carried, [ir.Value(leaf.type) for c in carried for leaf in c.leaves])
        with frame.builder.block():
            if self.bind is not None:
                self.bind(ir.Value(self.index_type))
            with self.exit_live():
                execute(frame, self.node.body, self.live_in)
            yield
        frame.variables = dict(self.before)
        self.adopted.clear()
        for found, count in zip(noted, before, strict=True):
            del found[count:]

    def _changes_array(self, name: str, statements: Sequence[ast.AST], replaced: frozenset[str]) -> bool:
        """Return whether statements may put another array in place of one that a variable is, or has in it."""
        value: Any = self.before.get(name)
        if name in replaced or not isinstance(value, StructValue):
            return name in replaced and holds_array(value)
        paths = changed_fields(value, name, statements)
        return holds_array(value) if paths is None else any(holds_array(_at_path(value, p)) for p in paths)

    def _widen(self, names: Sequence[str]) -> None:
        """Gives variables that are arrays before the loop all those that an iteration may put in their place."""
        frame = self.frame
        is_wider = bool(names)
        # An array that an iteration makes is another one in each.
        lasting = frozenset((*frame.context.params, *frame.context.locals))
        while is_wider:
            is_wider = False
            others = [n for n in self.assigned if n in self.live_in and n not in names]
            known = [n for n in others if not isinstance(self.before.get(n, _NONE), Undefined)]
            with self._trial([Carried.of(frame, n, self.before[n]) for n in (*known, *names)]):
                ends = [self._either(n, frame.variables.get(n), lasting) for n in names]
            for name, end in zip(names, ends, strict=True):
                if end is None:
                    continue
                before, merged = self.before[name], unify(frame, end, self.before[name])
                found = merged.rebuild(merged.right)
                if structure(found) != structure(before):
                    self.before[name], is_wider = found, True

    def _either(self, name: str, end: Any, lasting: frozenset[ir.Param]) -> Any:
        """Return what a variable is that has its value from before the loop or from an iteration; None: not both."""
        if not arrays_in(end) <= lasting:
            return None
        try:
            found = unify(self.frame, self.before[name], end)
        except MismatchError:
            return None
        return found.rebuild([ir.Value(v.type, v.name) for v in found.left])

    @property
    def index_name(self) -> str:
        """The name of the index, for printers."""
        return getattr(self.node.target, "id", "") if isinstance(self.node, ast.For) else ""

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
                f"the loop in line {line} assigns it, but it has no value before the loop", loop=self
            )
            before = self.before.get(name, _NONE)
            is_maybe = isinstance(before, Undefined) and before.value is not None and before.is_checked
            if is_maybe and name in self.live_in and name not in self.targets:
                frame.variables[name] = self.adopt(name, before.value)
        if not carried:
            kept = [n for n in self.assigned if n in self.before and n not in self.adopted]
            frame.variables.update({n: self.before[n] for n in kept})
        remaining = iter(leaves)
        for c in carried:
            frame.variables[c.name] = c.rebuild([next(remaining) for _ in c.leaves])
        for flag in (BREAK, CONTINUE, RETURN):
            frame.variables[flag] = False

    def may_adopt(self, name: str) -> bool:
        """Return whether an iteration's end shows if a variable has a value: somebody reads it after that."""
        return name in self.live_in

    def adopt(self, name: str, present: Any) -> Undefined:
        """A variable without a value before the loop, as an earlier iteration may have left it: of the type of a value
        that this one may set."""
        frame = self.frame
        line = frame.loc(self.node).line
        if name not in self.adopted:
            before = self.before.get(name)
            if isinstance(before, Undefined) and before.value is None and before.loop is not None:
                before = before.loop.adopt(name, present)
            if isinstance(present, Tile):
                present = allocate(frame, present.dtype, present.shape)
            self.adopted[name] = _Adopted.of(frame, name, present, before)
        found = self.adopted[name]
        reason = f"no iteration of the loop in line {line} has assigned it yet"
        return Undefined(reason, True, found.is_set, True, found.carried.entry, is_checked=True)

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
        if index is not None and self.bind is not None:
            self.bind(index)
        outer = frame.literal_starts
        starts = {c.name: self.before.get(c.name) for c in self.carried}
        frame.literal_starts = outer | {name: value for name, value in starts.items() if is_literal(value)}
        with self.exit_live():
            execute(frame, self.node.body, self.live_in)
        frame.literal_starts = outer
        self._keep_tiles()
        self._require_carried()
        for name in self._first_set():
            if not self.runs and name not in self.targets:
                self.adopt(name, frame.variables[name])
                continue
            self.set_inside.append(Carried.of(frame, name, frame.variables[name]))
        if self.set_inside and not self.runs:
            self.set_inside.append(Carried.of(frame, _RAN, True))
        for found in self.adopted.values():
            found.end(self)
        return [leaf for c in self.carried for leaf in self._collect(c)]

    def _keep_tiles(self) -> None:
        """Copies tiles that the iteration has put in place of those it began with into these."""
        values = self.frame.variables
        pairs = [(c.entry, values.get(c.name), c.name) for c in self.carried if isinstance(c.entry, Tile)]
        moved = [(old, new, n) for old, new, n in pairs if isinstance(new, Tile) and new is not old]
        moved = [(old, new, n) for old, new, n in moved if new.type == old.type]
        olds = [old for old, _, _ in moved]
        # All are read before one of them is written: a, b = b, a.
        read = [copied(self.frame, new) if any(overlap(new, o) for o in olds) else new for _, new, _ in moved]
        for (old, _, name), new in zip(moved, read, strict=True):
            assign_tile(self.frame, old, new)
            values[name] = old

    def _first_set(self) -> list[str]:
        """Names without a value before the loop that every iteration sets, and that are read after it."""
        node, start = self.node, self.targets
        new = [n for n in self.assigned if n in self.live and isinstance(self.before.get(n, _NONE), Undefined)]
        if not new:
            return []
        found = surely_set(node.body, frozenset(start))
        ways = [found.breaks]
        if not isinstance(node.test if isinstance(node, ast.While) else None, ast.Constant):
            ways += [found.end, found.continues]
        values = self.frame.variables
        return [
            n for n in new if all(w is None or n in w for w in ways) and not isinstance(values.get(n, _NONE), Undefined)
        ]

    def _require_carried(self) -> None:
        """Check that the loop carries the result, and refuse advances by functions that have no fixed name."""
        if self.exits.returns and RESULT in self.frame.variables and all(c.name != RESULT for c in self.carried):
            raise InternalError(f"the loop in line {self.frame.loc(self.node).line} returns what it does not carry")
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
        except MismatchError as error:
            what = ("the result" if name == RESULT else name) + error.fields
            entry, value = error.pair or (carried.entry, value)
            raise KernelTypeError(
                f"{what} changes its type in the loop: from {type_text(entry)} to {type_text(value)}",
                hint=self._type_hint(carried, entry, value),
            ) from None

    def _type_hint(self, carried: Carried, entry: Any, value: Any) -> str:
        hint = start_hint(carried.name, self.before.get(carried.name), value)
        repair = "a variable keeps one type in a loop: convert the new value, or use another name"
        return hint or type_hint(entry, value, repair)

    def leave(self, leaves: Sequence[ir.Value]) -> None:
        """Sets the variables to what they are after the loop, whose operation was the last one."""
        frame, line = self.frame, self.frame.loc(self.node).line
        inside = self._hand_on()
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
        remaining = iter(inside)
        found = {c.name: c.rebuild([next(remaining) for _ in c.leaves]) for c in self.set_inside}
        ran = found.pop(_RAN, None)
        if ran is not None:
            reason = f"the loop in line {line} has made no iteration"
            found = {n: Undefined(reason, True, ran, True, value, is_checked=True) for n, value in found.items()}
        for name, adopted in self.adopted.items():
            if isinstance(frame.variables.get(name), Undefined):
                reason = f"no iteration of the loop in line {line} has assigned it"
                frame.variables[name] = adopted.after(reason)
        frame.variables.update(found)
        if frame.context.joined is not None:
            frame.context.joined[frame.loc(self.node)] |= {c.name: type_of(c.entry) for c in self.set_inside}

    def _hand_on(self) -> tuple[ir.Value, ...]:
        """Makes the loop carry what the last iteration sets first, and what an earlier one may have set; the values of
        the first after the loop."""
        values = tuple(leaf for c in self.set_inside for leaf in c.leaves)
        adopted = tuple(self.adopted.values())
        if not (values or adopted):
            return ()
        builder = self.frame.builder
        op = builder.here.pop()
        names = [c.name for c in self.set_inside for _ in c.leaves]
        fresh = lambda: tuple(ir.Value(v.type, n) for v, n in zip(values, names, strict=True))  # noqa: E731
        more = lambda: tuple(ir.Value(v.type, v.name) for a in adopted for v in a.params)  # noqa: E731
        inits = (*self._left_before([v.type for v in values]), *(v for a in adopted for v in a.inits(self.frame)))
        results, last = fresh(), more()
        remaining = iter(last)
        for a in adopted:
            a.results = tuple(next(remaining) for _ in a.params)
        assert isinstance(op, ir.For | ir.While)
        params = (*op.body.params, *fresh(), *(v for a in adopted for v in a.params))
        ends = (*op.body.results, *values, *(v for a in adopted for v in a.ends))
        body = ir.Block(params, op.body.ops, ends)
        changes: dict[str, Any] = {
            "body": body, "inits": (*op.inits, *inits), "results": (*op.results, *results, *last)
        }  # fmt: skip
        if isinstance(op, ir.While):
            test = op.condition
            changes["condition"] = ir.Block((*test.params, *fresh(), *more()), test.ops, test.results)
        builder.append(replace(op, **changes))
        return results

    def _left_before(self, types: Sequence[Scalar]) -> tuple[ir.Value, ...]:
        """Return the start values of `_hand_on`.

        They are what an earlier loop of the same variable has left, and whether that loop ran; else zeros.
        """
        frame = self.frame
        old = self.before.get(self.set_inside[0].name) if self.set_inside and not self.runs else None
        if isinstance(old, Undefined) and old.is_checked and old.test is not None:
            found = (*Carried.of(frame, "", old.value).leaves, frame.is_set(old))
            if [v.type for v in found] == types:
                return found
        return tuple(frame.builder.const(0, t) for t in types)

    def stopped(self, leaves: Sequence[ir.Value]) -> ir.Value | None:
        """Return the condition that break or return has ended the loop; None if the loop has neither."""
        frame = self.frame
        self.enter(self.carried, leaves)
        remaining = iter(leaves)
        flags = [c.rebuild([next(remaining) for _ in c.leaves]) for c in self.carried]
        flags = [f for f, c in zip(flags, self.carried, strict=True) if c.name in (BREAK, RETURN)]
        if not flags:
            return None
        return flags[0] if len(flags) == 1 else frame.ops.call("logical_or", *flags)
