"""Blocks of statements, `if`, and what early exits make of the statements after them.

`break`, `continue` and `return` set a flag (a variable like any other). Statements after one that may have set a flag
run under the condition that it did not:

    if c:                       if c:
        return          ->          $return = True
    rest                        else:
                                    rest
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.lowering.frame import EXITS, LEFT, RESULT, RETURN, SHOWN, Frame, statement
from jaxwarp.frontend.lowering.merge import (
    Merged,
    MismatchError,
    nothing_like,
    type_hint,
    type_text,
    unify,
    zeros_like,
)
from jaxwarp.frontend.lowering.references import advanced
from jaxwarp.frontend.lowering.tiles.storage import joined
from jaxwarp.frontend.lowering.values import Undefined, type_of
from jaxwarp.frontend.text.liveness import always_exits, assigned
from jaxwarp.ir import nodes as ir
from jaxwarp.types import bool_


def execute(frame: Frame, statements: Sequence[ast.stmt], live: frozenset[str]) -> None:
    """Lowers statements in order; `live` are the names read after them."""
    live |= frame.exit_live
    after = frame.liveness.after_each(statements, live)
    for end, node in enumerate(statements, 1):
        if isinstance(node, ast.If):
            with frame.at(node):
                if _conditional(frame, node, statements[end:], live, after[end] | frame.exit_live):
                    return
        else:
            frame.perform(node, after[end] | frame.exit_live)
        if end == len(statements):
            return
        exited = exit_condition(frame)
        if exited is True:
            return
        if exited is not False:
            with frame.at(node):
                split(frame, exited, [], statements[end:], live, cleared=True)
            return


def exit_condition(frame: Frame) -> bool | ir.Value:
    """Return whether the statements here have been left: False or True if that is known, else a condition."""
    if _is_left(frame.variables):
        return True
    flags = [flag for name in EXITS if (flag := frame.variables.get(name, False)) is not False]
    result: bool | ir.Value = False
    for flag in flags:
        result = flag if result is False else frame.ops.call("logical_or", result, flag)
    return result


def _is_left(variables: dict[str, Any]) -> bool:
    """Return whether statements with these variables after them are known to be left."""
    return any(variables.get(name) is True for name in (*EXITS, LEFT))


def _conditional(
    frame: Frame, node: ast.If, rest: Sequence[ast.stmt], live: frozenset[str], after: frozenset[str]
) -> bool:
    """Lowers an `if`. True: and the statements after it, in the branch that goes on.

    `live` are the names read after `rest`, `after` those read from its start on.
    """
    test = frame.test(node.test)
    if isinstance(test, bool):
        execute(frame, node.body if test else node.orelse, after)
        return False
    then_ends, else_ends = always_exits(node.body), always_exits(node.orelse)
    if not rest or not (then_ends or else_ends):
        split(frame, test, node.body, node.orelse, after)
        if frame.context.joined is not None:
            written = [*assigned([node]), *advanced(frame.source, [node], frame.variables)]
            types = {name: type_of(frame.variables.get(name)) for name in written}
            frame.context.joined[frame.loc(node)] = {name: found for name, found in types.items() if found is not None}
        return False
    then = node.body if then_ends else [*node.body, *rest]
    orelse = node.orelse if else_ends else [*node.orelse, *rest]
    split(frame, test, then, orelse, live)
    return True


def split(
    frame: Frame,
    test: ir.Value,
    then: Sequence[ast.stmt],
    orelse: Sequence[ast.stmt],
    live: frozenset[str],
    cleared: bool = False,
) -> None:
    """Lowers both sides of a run-time condition and joins their variables.

    Args:
        cleared: the test is that of the exit flags, so on the other side they are known to be down.
    """
    before, sides, blocks = frame.variables, [], []
    for holds, statements in ((True, then), (False, orelse)):
        frame.variables = dict(before)
        if cleared:
            frame.variables.update(_flags(before, holds))
        with frame.assuming(test, holds), frame.builder.block() as ops:
            execute(frame, statements, live)
        sides.append(frame.variables)
        blocks.append(ops)
    frame.variables = dict(before)
    join = _Join(frame, test, sides[0], sides[1], left_exited=cleared)
    names = [n for n in dict.fromkeys([*sides[0], *sides[1]]) if n != LEFT and not _unchanged(n, before, sides)]
    for name in names:
        if name.startswith("$") or name in live:
            join.complete(name, blocks)
            sides[0][name], sides[1][name] = joined(frame, [side.get(name) for side in sides], blocks)
            join.variable(name)
        else:
            frame.variables[name] = Undefined("it is not read after the condition")
    frame.builder.append(join.operation(blocks))
    join.publish()


def _flags(before: dict[str, Any], exited: bool) -> dict[str, bool]:
    """Return what is known about the exit flags if one of them is set (`exited`), or if none is."""
    up = [name for name in EXITS if before.get(name, False) is not False]
    if exited:
        return {up[0]: True} if len(up) == 1 else {}
    return dict.fromkeys(up, False)


def _unchanged(name: str, before: dict[str, Any], sides: list[dict[str, Any]]) -> bool:
    return name in before and all(side.get(name) is before[name] for side in sides)


def _may_be_set(value: Any) -> bool:
    """Return whether a loop may have set a variable without the launch knowing whether it has."""
    if not isinstance(value, Undefined) or value.loop is not None:
        return False
    return value.conditional if value.value is None else not value.is_checked


class _Join:
    """Collects the results of an `If`, variable by variable."""

    def __init__(self, frame: Frame, test: ir.Value, left: dict[str, Any], right: dict[str, Any], left_exited: bool):
        self.frame = frame
        self.test = test
        self.sides = (left, right)
        self.exited = left_exited or _is_left(left), _is_left(right)
        self.left: list[ir.Value] = []
        self.right: list[ir.Value] = []
        self.results: list[ir.Value] = []
        self.pending: list[tuple[str, Merged, int]] = []
        self.conditional: dict[str, Undefined] = {}

    def variable(self, name: str) -> None:
        frame = self.frame
        a, b = (side.get(name) for side in self.sides)
        if name in EXITS and isinstance(a or False, bool) and isinstance(b or False, bool):
            frame.variables[name] = self._flag(bool(a), bool(b))
            return
        if name in EXITS:
            a, b = a or False, b or False
        a, b = (None if isinstance(v, Undefined) else v for v in (a, b))
        if a is None and b is None:
            frame.variables[name] = self._undefined(name)
            return
        try:
            merged = unify(frame, a, b)
        except MismatchError as error:
            merged = self._mismatch(name, a, b, error)
        self.pending.append((name, merged, len(self.left)))
        self.left += merged.left
        self.right += merged.right
        hint = SHOWN.get(name, name)
        self.results += [ir.Value(v.type, hint) for v in merged.left]

    def _flag(self, a: bool, b: bool) -> bool | ir.Value:
        if a == b:
            return a
        return self.test if a else self.frame.ops.call("logical_not", self.test)

    def complete(self, name: str, blocks: list[list[ir.Op]]) -> None:
        """Gives some value to a variable that a side may not have set, and notes when it has its own."""
        found = [side.get(name) for side in self.sides]
        known = [
            self._is_gone(name, k) or not (v is None or isinstance(v, Undefined)) for k, v in enumerate(found)
        ]
        given = [v.value if isinstance(v, Undefined) else v for v in found]
        if name in EXITS or not any(isinstance(v, Undefined) or v is None for v in found):
            return
        if None not in given and not self._fit(given):
            given = [None if isinstance(v, Undefined) else x for v, x in zip(found, given, strict=True)]
        present = next((v for v in given if v is not None), None)
        if present is None:
            return
        for k, v in enumerate(found):
            if given[k] is None and not known[k] and isinstance(v, Undefined) and v.loop and v.loop.may_adopt(name):
                adopted = v.loop.adopt(name, present)
                found[k], given[k] = adopted, adopted.value
        for side, v in zip(self.sides, given, strict=True):
            filler = nothing_like if name == RESULT else zeros_like
            side[name] = filler(self.frame, present) if v is None else v
        if name != RESULT and not all(known):
            has = [True if k else v is not None for k, v in zip(known, given, strict=True)]
            self.conditional[name] = self._conditional(found, known, has, blocks)

    def _is_gone(self, name: str, k: int) -> bool:
        """Return whether nobody reads a variable after a side that has been left."""
        return self.exited[k] and (self.sides[k].get(RETURN) is True or name not in self.frame.exit_live)

    def _fit(self, values: list[Any]) -> bool:
        with self.frame.builder.block():
            try:
                unify(self.frame, *values)
            except MismatchError:
                return False
        return True

    def _conditional(
        self, found: list[Any], known: list[bool], has: list[bool], blocks: list[list[ir.Op]]
    ) -> Undefined:
        """Return what is known about a variable that only some path sets; it is checked where it is read."""
        frame = self.frame
        missing = 0 if not known[0] else 1
        line = frame.builder.loc.line if frame.builder.loc else 0
        reason = f"it is assigned only if the condition in line {line} is {'true' if missing == 1 else 'false'}"
        old = found[missing]
        reason = old.reason if isinstance(old, Undefined) and old.conditional else reason
        is_checked = not any(_may_be_set(v) for v, k in zip(found, known, strict=True) if not k)
        if known[1 - missing] and not has[missing]:
            return Undefined(reason, True, self.test, missing == 1, is_checked=is_checked)
        flags: list[ir.Value] = []
        for k, block in enumerate(blocks):
            with frame.builder.block() as ops:
                is_maybe = has[k] and not known[k]
                flags.append(frame.is_set(found[k]) if is_maybe else frame.builder.const(has[k], bool_))
            block.extend(ops)
        self.left.append(flags[0])
        self.right.append(flags[1])
        self.results.append(ir.Value(bool_))
        return Undefined(reason, True, self.results[-1], True, is_checked=is_checked)

    def _undefined(self, name: str) -> Undefined:
        """Return the state of a variable that neither side defines, or that each defines only in some case."""
        found = next(v for side in self.sides if isinstance(v := side.get(name), Undefined))
        return Undefined(found.reason, found.conditional)

    def _mismatch(self, name: str, a: Any, b: Any, error: MismatchError) -> Merged:
        frame = self.frame
        for side, other in enumerate((b, a) if name != RESULT and name not in frame.kept else ()):
            # After `return` nothing reads the variable, so its type on that path does not matter.
            if self.sides[side].get(RETURN) is True or (side == 0 and self.exited[0] and not frame.exit_live):
                filler = zeros_like(frame, other)
                return unify(frame, filler, other) if side == 0 else unify(frame, other, filler)
        what = ("the result" if name == RESULT else name) + error.fields
        a, b = error.pair or (a, b)
        raise KernelTypeError(
            f"{what} is {type_text(a)} if the condition is true, and {type_text(b)} if it is false",
            hint=type_hint(a, b, "both must have one type: convert one of them, or use two names"),
        )

    def operation(self, blocks: list[list[ir.Op]]) -> ir.If:
        then, orelse = (
            ir.Block((), tuple(ops), tuple(values)) for ops, values in zip(blocks, (self.left, self.right), strict=True)
        )
        return ir.If(tuple(self.results), self.test, then, orelse, loc=self.frame.builder.loc)

    def publish(self) -> None:
        """Gives the variables their values after the condition."""
        if all(self.exited):
            self.frame.variables[LEFT] = True
        for name, merged, start in self.pending:
            value = merged.rebuild(self.results[start : start + len(merged.left)])
            only = self.conditional.get(name)
            self.frame.variables[name] = value if only is None else replace(only, value=value)


@statement(ast.Break)
def _break(frame: Frame, _node: ast.Break) -> None:
    frame.variables["$break"] = True


@statement(ast.Continue)
def _continue(frame: Frame, _node: ast.Continue) -> None:
    frame.variables["$continue"] = True
