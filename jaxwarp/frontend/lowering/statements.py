"""Assignments, `return`, and the other simple statements. Blocks and `if`: branches.py; loops: loops.py."""

from __future__ import annotations

import ast
import types
from collections.abc import Sequence
from typing import Any

from jaxwarp.errors import KernelSyntaxError, KernelTypeError
from jaxwarp.frontend.lowering.adjoints import add_to_adjoint, names_adjoint
from jaxwarp.frontend.lowering.binding import converted
from jaxwarp.frontend.lowering.expressions import parts_of_value
from jaxwarp.frontend.lowering.frame import RESULT, RETURN, RETURN_HINT, Frame, called_name, start_hint, statement
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS, lower_tid
from jaxwarp.frontend.lowering.operators import OPERATORS, operand, or_function, symbol
from jaxwarp.frontend.lowering.targets import Name, Place, Section, accumulate, is_atomic, target
from jaxwarp.frontend.lowering.tiles.arithmetic import tile_operator, update_tile
from jaxwarp.frontend.lowering.tiles.storage import copied, is_given, is_shared
from jaxwarp.frontend.lowering.values import NoValue, StructValue, Tile, describe
from jaxwarp.frontend.text import annotations
from jaxwarp.frontend.text.constants import evaluate_host
from jaxwarp.frontend.text.host_values import Missing
from jaxwarp.frontend.text.liveness import IN_PLACE


@statement(ast.Assign)
def _assign(frame: Frame, node: ast.Assign) -> None:
    (first, *_others) = node.targets
    frame.context.assigned = first.id if isinstance(first, ast.Name) else ""
    counted = _call_with_count(frame, node)
    value = counted if counted is not None else frame.evaluate(node.value)
    if isinstance(value, type) and issubclass(value, NoValue):
        with frame.at(node.value):
            raise KernelTypeError(
                f"{called_name(node.value)} returns no value that could be assigned", hint=RETURN_HINT
            )
    for number, where in enumerate(node.targets):
        is_another = isinstance(node.value, ast.Name) or number > 0
        assign(frame, where, copied(frame, value) if isinstance(value, Tile) and is_another else value)


def _call_with_count(frame: Frame, node: ast.Assign) -> Any:
    """`i, j = tid()`: the only function whose result depends on how many names take it."""
    (where, *others) = node.targets
    if others or not isinstance(where, ast.Tuple) or not isinstance(node.value, ast.Call):
        return None
    with frame.at(node.value):
        callee = frame.evaluate(node.value.func)
        if callee is not INTRINSICS["tid"]:
            return None
        return lower_tid(frame, node.value, len(where.elts))


def assign(frame: Frame, where: ast.expr, value: Any) -> None:
    """`where = value`, taking tuples apart."""
    with frame.at(where):
        if isinstance(where, (ast.Tuple, ast.List)):
            _unpack(frame, where, value)
            return
        target(frame, where).set(frame, value)


def _unpack(frame: Frame, where: ast.Tuple | ast.List, value: Any) -> None:
    value = parts_of_value(frame, value)
    if not isinstance(value, tuple):
        raise KernelTypeError(
            f"cannot unpack {describe(value)} into {len(where.elts)} names",
            hint="assign it to one name; tuples, shapes, vectors and rows of matrices can be unpacked",
        )
    for element in where.elts:
        if isinstance(element, ast.Starred):
            with frame.at(element):
                raise KernelSyntaxError(
                    "* in an assignment is not part of the kernel language", hint="name the elements one by one"
                )
    if len(value) != len(where.elts):
        raise KernelTypeError(
            f"cannot unpack {_counted(value, 'value')} into {_counted(where.elts, 'name')}",
            hint=f"write {_counted(value, 'name')}, one for each value",
        )
    for element, part in zip(where.elts, value, strict=True):
        assign(frame, element, part)


def _counted(items: Sequence[Any], noun: str) -> str:
    return f"{len(items)} {noun}{'s' * (len(items) != 1)}"


@statement(ast.AnnAssign)
def _annotated(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is None:
        raise KernelSyntaxError("a variable needs a value", hint="assign one where it is annotated")
    with frame.at(node.annotation):
        pattern = annotations.resolve(evaluate_host(frame.source, node.annotation, {}, frame.loc(node.annotation)))
    value = frame.evaluate(node.value)
    with frame.at(node.value):
        value = converted(frame, value, pattern, "the variable is annotated")
    is_another = isinstance(value, Tile) and isinstance(node.value, ast.Name)
    assign(frame, node.target, copied(frame, value) if is_another else value)


@statement(ast.AugAssign)
def _augmented(frame: Frame, node: ast.AugAssign) -> None:
    operator, shown = OPERATORS[type(node.op)], f"{symbol(node.op)}="
    if names_adjoint(frame, node.target):
        add_to_adjoint(frame, node.target, operator, frame.value(node.value, shown))
        return
    with frame.at(node.target):
        where = target(frame, node.target)
    is_element = isinstance(where, Place) and not isinstance(where.place, StructValue | Tile)
    if isinstance(where, Place) and is_element and is_atomic(frame, where.element(), operator):
        accumulate(frame, where.element(), operator, operand(frame, node.value, shown))
        return
    if isinstance(where, Section) and where.is_atomic(frame, operator):
        where.accumulate(frame, operator, operand(frame, node.value, shown))
        return
    # Before a function in the value may change it, as in Python.
    old = where.peek(frame) if isinstance(where, Place) and isinstance(where.place, Tile) else where.get(frame)
    value = operand(frame, node.value, shown)
    if isinstance(old, Tile):
        in_place = isinstance(node.op, IN_PLACE)
        if isinstance(where, Name) and not in_place and is_shared(frame, where.name, old):
            where.set(frame, tile_operator(frame, operator, [old, value]))
        else:
            update_tile(frame, old, operator, value)
        return
    try:
        result = or_function(frame, node, node.op, [old, value], lambda: frame.ops.binary(operator, old, value))
    except KernelTypeError as error:
        if isinstance(where, Name):
            error.hint = start_hint(where.name, frame.literal_starts.get(where.name), value) or error.hint
        raise
    where.set(frame, result)


@statement(ast.Return)
def _return(frame: Frame, node: ast.Return) -> None:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        if frame.is_kernel:
            raise KernelSyntaxError("a kernel returns nothing", hint="write results to an output array")
        value = frame.evaluate(node.value)
        if frame.returns is not Missing:
            with frame.at(node.value):
                value = converted(frame, value, frame.returns, f"{frame.source.name} is annotated to return")
        # What a function returns by the name of an argument is a tile of its own, as in Warp.
        is_argument = isinstance(value, Tile) and isinstance(node.value, ast.Name) and is_given(frame, value)
        frame.variables[RESULT] = copied(frame, value) if is_argument else value
    frame.variables[RETURN] = True


@statement(ast.Expr)
def _expression(frame: Frame, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str | types.EllipsisType):
        return  # a docstring, or a comment written as one; `...` for nothing
    frame.place(node.value)


@statement(ast.Pass)
def _pass(_frame: Frame, _node: ast.Pass) -> None:
    pass
