"""Loops over a struct that says how it advances (`func_next`).

    for x in s:             $state = s;  $item = 0
        body                while next($state, $item):
                                x = $item
                                body

Where it advances by runs of items too, and the loop is not left by `break`, the body is inside of two loops:

                        while next_run($state, $run):
                            for $k in range($run[0], $run[1]):
                                x = item($state, $k)
                                body

The variables have names that no text can have, and are there for the loop only: the state is a value like any other, so
loops inside each other do not know of one another.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.loops.ranges import Advancing
from jaxwarp.frontend.lowering.values import Host
from jaxwarp.types import Aggregate, Scalar, Vec, int32

_PAIR = Vec(2, int32)


def _names(loop: ast.For) -> tuple[str, str, str]:
    """Return the names of the function, the state and the item."""
    place = f"{loop.lineno}_{loop.col_offset}"
    return f"$next_{place}", f"$state_{place}", f"$item_{place}"


@contextmanager
def entered(frame: Frame, loop: ast.For, found: Advancing) -> Iterator[None]:
    """The variables of a loop are there."""
    names = _names(loop)
    frame.variables.update(zip(names, (found.function, found.state, _no_item(frame, found)), strict=True))
    names = *names, *_enter_runs(frame, loop, found)
    yield
    for name in names:
        frame.variables.pop(name, None)


def _run_names(loop: ast.For) -> tuple[str, str, str, str, str]:
    """Return the names of the functions that find runs and items, of the run, of the place in it, and of `range`."""
    place = f"{loop.lineno}_{loop.col_offset}"
    return f"$next_run_{place}", f"$item_at_{place}", f"$run_{place}", f"$k_{place}", f"$range_{place}"


def _enter_runs(frame: Frame, loop: ast.For, found: Advancing) -> tuple[str, ...]:
    if found.runs is None:
        return ()
    names = _run_names(loop)
    no_run = frame.ops.construct(_PAIR, [])
    frame.variables.update(zip(names, (*found.runs, no_run, frame.constant(0, int32), Host(range)), strict=True))
    return names


def while_runs(loop: ast.For) -> ast.While:
    """The loop as a `while` over runs, with a `for` over the places of each."""
    state = _names(loop)[1]
    next_run, item_at, run, place, python = _run_names(loop)

    def name(text: str) -> Any:
        return _at(loop.iter, ast.Name(text, ast.Load()))

    def call(function: str, *arguments: str) -> Any:
        return _at(loop.iter, ast.Call(name(function), [name(a) for a in arguments], []))

    ends = [_at(loop.iter, ast.Subscript(name(run), _at(loop.iter, ast.Constant(k)), ast.Load())) for k in (0, 1)]
    first = _at(loop.target, ast.Assign([loop.target], call(item_at, state, place)))
    over = _at(loop.iter, ast.Call(name(python), ends, []))
    target = _at(loop.iter, ast.Name(place, ast.Store()))
    inside = ast.copy_location(ast.For(target, over, [first, *loop.body], []), loop)
    return ast.copy_location(ast.While(call(next_run, state, run), [inside], []), loop)


def _no_item(frame: Frame, found: Advancing) -> Any:
    """Return the item before the first one: zeros of its type."""
    fitting = [o for o in found.function.overloads if o.parameters[0].pattern == found.state.type]
    dtype: Scalar | Aggregate = fitting[0].parameters[1].pattern
    return frame.constant(0, dtype) if isinstance(dtype, Scalar) else frame.ops.construct(dtype, [])


def next_call(loop: ast.For) -> ast.expr:
    """`next($state, $item)`, at the place of what the loop goes over."""
    function, state, item = (_at(loop.iter, ast.Name(name, ast.Load())) for name in _names(loop))
    return _at(loop.iter, ast.Call(function, [state, item], []))


def item_of(loop: ast.For) -> ast.expr:
    return _at(loop.target, ast.Name(_names(loop)[2], ast.Load()))


def while_next(loop: ast.For) -> ast.While:
    """The loop as a `while`."""
    first = ast.copy_location(ast.Assign([loop.target], item_of(loop)), loop.target)
    return ast.copy_location(ast.While(next_call(loop), [first, *loop.body], []), loop)


def _at(place: ast.expr, made: Any) -> Any:
    return ast.copy_location(made, place)
