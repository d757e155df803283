"""Operators: on numbers, vectors and matrices those of the language, else functions of the user's.

    @func                                        a + b   ->   add(a, b)
    def add(a: Complex, b: Complex): ...         a += b  ->   a = add(a, b)

A function stands for an operator by its name, as in Warp, where the language itself has none for operands of their
types: `a + b` of floats is the sum, whatever `add` is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.lowering.calls import fits, inline
from jaxwarp.frontend.lowering.expressions import folded
from jaxwarp.frontend.lowering.frame import Frame, expression
from jaxwarp.frontend.lowering.tiles.arithmetic import tile_operator
from jaxwarp.frontend.lowering.values import ElementAddress, StructValue, Tile, describe, type_of
from jaxwarp.frontend.lowering.views import moved
from jaxwarp.frontend.text.functions import Func
from jaxwarp.frontend.text.reads import OPERATOR_FUNCTIONS

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.MatMult: "matmul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "bit_and", ast.BitOr: "bit_or",
    ast.BitXor: "bit_xor",
}  # fmt: skip
_SYMBOLS: dict[type[ast.AST], str] = dict(
    zip(OPERATORS, ("+", "-", "*", "@", "/", "//", "%", "**", "<<", ">>", "&", "|", "^"), strict=True)
)
_UNARY: dict[type[ast.unaryop], str] = {
    ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "bit_not",
}  # fmt: skip
_SYMBOLS |= {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}


def symbol(op: ast.operator | ast.unaryop) -> str:
    return _SYMBOLS[type(op)]


@expression(ast.BinOp)
def _binary(frame: Frame, node: ast.BinOp) -> Any:
    what, operator = f"the operand of {symbol(node.op)}", OPERATORS[type(node.op)]
    operands = [operand(frame, n, what) for n in (node.left, node.right)]
    if any(isinstance(v, Tile) for v in operands):
        return tile_operator(frame, operator, operands)
    if any(isinstance(v, ElementAddress) for v in operands):
        return moved(frame, operator, operands)

    def apply() -> Any:
        return folded(frame, operator, operands, lambda a, b: frame.ops.binary(operator, a, b))

    return or_function(frame, node, node.op, operands, apply)


@expression(ast.UnaryOp)
def _unary(frame: Frame, node: ast.UnaryOp) -> Any:
    if isinstance(node.op, ast.Not):
        test = frame.test(node.operand)
        return (not test) if isinstance(test, bool) else frame.ops.unary("logical_not", test)
    value, operator = operand(frame, node.operand, "the operand of an operator"), _UNARY[type(node.op)]
    if isinstance(value, Tile):
        return tile_operator(frame, operator, [value])

    def apply() -> Any:
        return folded(frame, operator, [value], lambda a: frame.ops.unary(operator, a))

    return or_function(frame, node, node.op, [value], apply)


def operand(frame: Frame, node: ast.expr, what: str) -> Any:
    """A scalar, vector, matrix, literal, struct, tile or address."""
    value = frame.evaluate(node)
    return value if isinstance(value, StructValue | Tile | ElementAddress) else frame.as_value(value, node, what)


def or_function(
    frame: Frame, node: ast.AST, op: ast.operator | ast.unaryop, operands: list[Any], apply: Callable[[], Any]
) -> Any:
    """Apply an operator of the language; if the language has none for the operands, call the user's function for it."""
    name = OPERATOR_FUNCTIONS[type(op)]
    found = frame.source.lookup(name)
    function = found if isinstance(found, Func) else None
    struct = next((v for v in operands if isinstance(v, StructValue)), None)
    if struct is None:
        try:
            return apply()
        except KernelTypeError:
            if function is None or not fits(frame, function, operands):
                raise
    if function is None:
        listed = ", ".join(f"{x}: {type_of(v)!r}" for x, v in zip("ab", operands, strict=False))
        raise KernelTypeError(
            f"{describe(struct)} has no operator {symbol(op)}",
            hint=f"write a function that is one: @func def {name}({listed}): ...",
        )
    if any(overload.references for overload in function.overloads):
        raise KernelTypeError(
            f"{name} takes references, and cannot be the operator {symbol(op)}", hint=f"call it: {name}(...)"
        )
    return inline(frame, node, function, operands, {})
