"""`adjoint[x] += ...` in a function decorated with `func_grad`.

`adjoint[v][0]`, `adjoint[v].x`, `adjoint[a][i]` stand for the adjoint of what the same expression without `adjoint`
stands for: that is evaluated, and attached.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from jaxwarp.boundary import boundaries
from jaxwarp.builtins.language.values import Bundle
from jaxwarp.builtins.scalar_ops.rules import ATTACH
from jaxwarp.errors import KernelNameError, KernelSyntaxError, KernelTypeError
from jaxwarp.frontend.lowering.frame import ATTACHED, Frame
from jaxwarp.frontend.lowering.merge import same
from jaxwarp.frontend.lowering.values import StructValue, StructView, View, describe, type_of
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Scalar

_INSIDE = "adjoint[x] is for functions decorated with func_grad"
_HINT = "write adjoint[x] += ..., where x is an argument"


@boundaries
class ArgumentAdjoints:
    """`jaxwarp.adjoint`: in a function decorated with `func_grad`, `adjoint[x]` is the derivative by its argument x."""

    def __getitem__(self, _: Any) -> Any:
        raise KernelTypeError(_INSIDE, hint=_HINT)

    def __setitem__(self, _: Any, _value: Any) -> None:
        raise KernelTypeError(_INSIDE, hint=_HINT)

    def __repr__(self) -> str:
        return "<jaxwarp adjoint>"


adjoint = ArgumentAdjoints()


def names_adjoint(frame: Frame, node: ast.AST) -> bool:
    """Return whether a target or argument is `adjoint[...]`, or an element or attribute of one."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        if isinstance(node, ast.Subscript) and _is_adjoint(frame, node.value):
            return True
        node = node.value
    return False


def _is_adjoint(frame: Frame, node: ast.expr) -> bool:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id in frame.variables or node.id in frame.source.locals:
        return False
    value = frame.source.lookup(node.id)
    for name in reversed(attributes):
        value = getattr(value, name, None)
    return value is adjoint


def add_to_adjoint(frame: Frame, node: ast.expr, operator: str, value: Any, indices: Sequence[ast.expr] = ()) -> None:
    """`node += value` (`operator` is "add") or `-=`; with `indices`, to the element of an array that they name.

    Raises:
        KernelError: not in a `func_grad`; the target is not an argument, or has no adjoint; the value has another type.
    """
    with frame.at(node):
        if frame.rule is None:
            raise KernelNameError(_INSIDE, hint="write the derivative as a function under @func_grad(f)")
        if operator not in ("add", "sub"):
            raise refused_adjoint()
        expression = _Primal(frame).visit(copy.deepcopy(node))
        if indices:
            index = ast.Tuple(list(indices), ast.Load()) if len(indices) > 1 else indices[0]
            expression = ast.copy_location(ast.Subscript(expression, index, ast.Load()), node)
            ast.fix_missing_locations(expression)
        target = frame.evaluate(expression)
        if isinstance(target, (View, StructView)):
            raise KernelTypeError(f"the adjoint of {target.name} is an array", hint="add to its elements")
        if isinstance(target, StructValue):
            raise KernelTypeError(f"the adjoint of a {target.type!r} is a struct", hint="add to its fields")
        leaves = target.values if isinstance(target, Bundle) else (target,)
        if not all(isinstance(v, ir.Value) and v.type.is_float for v in leaves):
            raise KernelTypeError(
                f"{describe(target)} has no adjoint: its derivative is zero", hint="leave it out: only floats have one"
            )
        dtype = type_of(target)
        if isinstance(value, (bool, int, float)) and isinstance(dtype, Scalar):
            value = frame.typed(value, dtype)
        if type_of(value) != dtype:
            raise KernelTypeError(
                f"the adjoint is {dtype!r}, like its argument; what is added is {describe(value)}",
                hint=f"convert with {dtype!r}(...)",
            )
        if operator == "sub":
            value = frame.ops.unary("neg", value)
        attached = frame.variables[ATTACHED]
        cast = frame.ops.cast_scalar
        for active, factor in zip(leaves, value.values if isinstance(value, Bundle) else (value,), strict=True):
            attached = frame.builder.call(ATTACH, attached, cast(attached.type, active), cast(attached.type, factor))
            frame.rule.sinks.add(attached)
        frame.variables[ATTACHED] = attached


class _Primal(ast.NodeTransformer):
    """Takes `adjoint[...]` off a target: what is in the brackets stays."""

    def __init__(self, frame: Frame):
        self.frame = frame

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if not _is_adjoint(self.frame, node.value):
            node.value = self.visit(node.value)
            node.ctx = ast.Load()
            return node
        root = node.slice
        while isinstance(root, ast.Subscript | ast.Attribute):
            root = root.value
        arguments, variables = self.frame.rule.arguments, self.frame.variables
        if not isinstance(root, ast.Name) or root.id not in arguments:
            what = f"{root.id} is none of them" if isinstance(root, ast.Name) else "this is an expression"
            known = ", ".join(arguments)
            raise KernelNameError(f"adjoint[x]: x must be an argument of {self.frame.rule.function}; {what}",
                                  hint=f"they are {known} here")  # fmt: skip
        if not same(arguments[root.id], variables[root.id]):
            raise KernelTypeError(
                f"adjoint[{root.id}]: {root.id} has been assigned since the rule was entered, and is not the argument",
                hint="use another name for the new value",
            )
        return node.slice

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        node.value = self.visit(node.value)
        node.ctx = ast.Load()
        return node


def refused_adjoint() -> KernelSyntaxError:
    """The error where `adjoint[x]` is read or assigned."""
    return KernelSyntaxError(
        "adjoint[x] can only be added to, not read or assigned: other uses of x add to it, too", hint=_HINT
    )
