"""`grad(f)(x, ...)`: the gradient of a function of the language, inside a kernel.

The function is inlined into a block that is set aside, with placeholders for its arguments. For each component of the
arguments the tangent of that block is appended where the call is. So what a kernel with gradients in it consists of is
ordinary code, which can be differentiated again, in both modes, and needs nothing of the passes and backends.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from jaxwarp.builtins.language.function import Function
from jaxwarp.builtins.language.values import Bundle
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.errors import InternalError, KernelTypeError
from jaxwarp.frontend.lowering.calls import bind, call, evaluate_arguments, execute_body
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.intrinsics import provide
from jaxwarp.frontend.lowering.values import (  # fmt: skip
    Differentiable,
    Gradient,
    Host,
    Intrinsic,
    NoArray,
    StructValue,
    StructView,
    View,
    describe,
    is_literal,
)
from jaxwarp.frontend.text.functions import Func
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.launches.tells import silent
from jaxwarp.types import Aggregate, Scalar
from jaxwarp.vjp.forward.tangent import directional
from jaxwarp.vjp.own_arrays import arrays_as_values


def _grad(frame: Frame, node: ast.Call) -> Gradient:
    args, keywords = evaluate_arguments(frame, node)
    if len(args) != 1 or keywords:
        raise KernelTypeError(
            f"grad: expected 1 function, got {len(args) + len(keywords)} arguments", hint="write grad(f)(x, y)"
        )
    (function,) = args
    if not (isinstance(function, Func | Gradient) or (isinstance(function, Host) and _is_builtin(function))):
        raise KernelTypeError(f"grad: expected a function, got {describe(function)}", hint="write grad(f)(x, y)")
    return Gradient(function, _apply)


def _is_builtin(host: Host) -> bool:
    return isinstance(host.value, Function)


def _name(function: Differentiable) -> str:
    match function:
        case Func():
            return function.name
        case Gradient():
            return f"grad({_name(function.function)})"
        case Host(value=Function() as builtin):
            return builtin.name
        case _:
            raise InternalError(f"a gradient of {function!r}")


def _apply(frame: Frame, node: ast.Call, gradient: Gradient, args: list[Any], keywords: dict[str, Any]) -> Any:
    """The gradients by the arguments in the order of the call; that of a single one is no tuple."""
    function, name = gradient.function, _name(gradient.function)
    first_local = len(frame.context.locals)
    if not (args or keywords):
        raise KernelTypeError(
            f"grad({name}): expected the arguments of {name}, got none",
            hint=f"write grad({name})(x), x being its arguments",
        )
    if isinstance(function, Func):
        _require_no_reference(function)
        # Literals take the types of the parameters before they become what is differentiated by.
        overload, variables = bind(frame, function, args, keywords)
        names = [*[p.name for p in overload.parameters][: len(args)], *keywords]
        stand_ins = variables | {n: _stand_in(name, frame.typed(variables[n])) for n in names}
        with frame.builder.block() as ops:
            result = execute_body(frame, node, function, overload, stand_ins)
        pairs = [(variables[n], stand_ins[n]) for n in names if stand_ins[n] is not variables[n]]
    else:
        given = [frame.typed(v) for v in (*args, *keywords.values())]
        inner = [_stand_in(name, v) for v in given]
        named = dict(zip(keywords, inner[len(args) :], strict=True))
        with frame.builder.block() as ops:
            result = call(frame, node, function, inner[: len(args)], named)
        pairs = [(v, s) for v, s in zip(given, inner, strict=True) if v is not s]
    own = tuple(frame.context.locals[first_local:])
    _require_no_effect(name, ops, own)
    gradients = _gradients(frame, name, tuple(ops), result, [(frame.typed(v), s) for v, s in pairs], own)
    return gradients[0] if len(gradients) == 1 else gradients


def _require_no_reference(function: Func) -> None:
    for parameter in (p for overload in function.overloads for p in overload.references):
        raise KernelTypeError(
            f"grad({function.name}): {function.name} advances its argument {parameter.name}",
            hint="call it without grad, and give the number it makes to a function that has a gradient",
        )


def _stand_in(name: str, value: Any) -> Any:
    """New values that nothing defines, in place of an argument's."""
    if isinstance(value, ir.Value):
        return ir.Value(value.type, value.name)
    if isinstance(value, Bundle):
        return Bundle(value.type, tuple(ir.Value(v.type, v.name) for v in value.values))
    if isinstance(value, StructValue):
        return StructValue(value.type, tuple(v if _is_array(v) else _stand_in(name, v) for v in value.values))
    if isinstance(value, (Func, Intrinsic, Scalar, Aggregate)) or (
        isinstance(value, Host) and isinstance(value.value, Function)
    ):
        return value  # a function or type has no gradient
    raise KernelTypeError(
        f"grad({name}): an argument is {describe(value)}; gradients are by scalars, vectors, matrices and structs",
        hint="read what the function needs of it first, and pass that",
    )


def _gradients(
    frame: Frame,
    name: str,
    ops: tuple[ir.Op, ...],
    result: Any,
    pairs: list[tuple[Any, Any]],
    own: tuple[ir.Param, ...],
) -> tuple[Any, ...]:
    """`own` are the arrays that the function makes for itself."""
    if not ((isinstance(result, ir.Value) and result.type.is_float) or (is_literal(result) and type(result) is float)):
        raise KernelTypeError(
            f"grad({name}): {name} must return a float scalar, it returns {describe(result)}",
            hint=f"write a @func that returns one number, say a component of what {name} computes",
        )
    outer = {s: v for value, stand_in in pairs for v, s in zip(_scalars(value), _scalars(stand_in), strict=True)}
    _tell(frame, ops, outer)
    if isinstance(result, ir.Value):
        ops, result = _without_arrays(ops, result, own)
    gradients = []
    for value, stand_in in pairs:
        gradients.append(_made_of(value, iter([_partial(frame, ops, result, outer, s) for s in _scalars(stand_in)])))
    return tuple(gradients)


def _is_array(value: Any) -> bool:
    return isinstance(value, (View, StructView, NoArray))


def _scalars(value: Any) -> tuple[ir.Value, ...]:
    """The numbers of an argument: of a struct those of its fields that are no arrays."""
    match value:
        case Bundle():
            return value.values
        case StructValue():
            return tuple(s for v in value.values if not _is_array(v) for s in _scalars(v))
        case _:
            return (value,)


def _made_of(value: Any, parts: Iterator[ir.Value]) -> Any:
    """A gradient by an argument, of its numbers. That by a struct is one, without arrays."""
    match value:
        case Bundle():
            return Bundle(value.type, tuple(next(parts) for _ in value.values))
        case StructValue():
            fields = zip(value.type.fields, value.values, strict=True)
            return StructValue(
                value.type,
                tuple(
                    NoArray(f.type, f"the gradient's {f.name}") if _is_array(v) else _made_of(v, parts)
                    for f, v in fields
                ),
            )
        case _:
            return next(parts)


def _partial(
    frame: Frame, ops: tuple[ir.Op, ...], result: Any, outer: dict[ir.Value, ir.Value], by: ir.Value
) -> ir.Value:
    """Appends the derivative of `result` by one stand-in, and the code that it needs, with values of its own."""
    if not (by.type.is_float and isinstance(result, ir.Value)):
        return frame.builder.const(0, by.type)
    copy = Rewriter(fresh=True)
    copy.values.update(outer)
    # Distinct from the argument itself, which other arguments may be too.
    seed = frame.builder.call(ROWS["cast"], outer[by], dtype=by.type)
    copy.values[by] = seed
    block = copy.block(ir.Block((), ops, (result,)))
    moved = directional(frame.builder, block, seed)
    if moved is None:
        return frame.builder.const(0, by.type)
    return moved if moved.type == by.type else frame.builder.call(ROWS["cast"], moved, dtype=by.type)


def _tell(frame: Frame, ops: tuple[ir.Op, ...], outer: dict[ir.Value, ir.Value]) -> None:
    """Appends the function itself where it prints or asserts: its derivatives say nothing."""
    if not any(isinstance(op, ir.Tell) for op in ir.walk(ir.Block((), ops, ()))):
        return
    copy = Rewriter(fresh=True)
    copy.values.update(outer)
    for op in copy.block(ir.Block((), ops, ())).ops:
        frame.builder.append(op)


def _require_no_effect(name: str, ops: Iterable[ir.Op], own: Collection[ir.Param]) -> None:
    """The function is run once for each component of its arguments, or not at all."""
    for op in ir.walk(ir.Block((), tuple(ops), ())):
        if isinstance(op, ir.Store | ir.Atomic) and op.param not in own:
            raise KernelTypeError(
                f"grad({name}): {name} writes to {op.param.name}",
                op.loc,
                hint="return the value, and store it in the kernel",
            )


def _without_arrays(
    ops: tuple[ir.Op, ...], result: ir.Value, own: tuple[ir.Param, ...]
) -> tuple[tuple[ir.Op, ...], ir.Value]:
    """The operations with the arrays that the function makes for itself as values."""
    body = arrays_as_values(silent(Kernel("grad", 1, (), ir.Block((), ops, (result,)), own))).body
    return body.ops, body.results[0]


provide(
    "grad",
    "grad(f: Function) -> Function",
    "The gradient of a `@func` that returns a float. `grad(f)(x, y)` is a tuple of the derivatives with respect to `x` "
    "and to `y`. With one argument it is the derivative itself. The derivative with respect to an integer is 0.",
)(_grad)
