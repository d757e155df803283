"""Calls: of types, builtin functions, intrinsics, and `@func`s, which are inlined."""

from __future__ import annotations

import ast
import types
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from jaxwarp.builtins.language.function import Function
from jaxwarp.builtins.language.shown import parsed
from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelNameError, KernelSyntaxError, KernelTypeError
from jaxwarp.frontend.lowering.binding import cost, typed_as
from jaxwarp.frontend.lowering.branches import execute
from jaxwarp.frontend.lowering.components import known_slice
from jaxwarp.frontend.lowering.expressions import chosen, indices_of, parts_of_value
from jaxwarp.frontend.lowering.frame import (
    RESULT,
    RETURN,
    RETURN_HINT,
    Frame,
    called_name,
    expression,
    value_hint,
    wrapped,
)
from jaxwarp.frontend.lowering.memory import loaded
from jaxwarp.frontend.lowering.merge import holds_array
from jaxwarp.frontend.lowering.references import (
    assign_results,
    give_back,
    passed,
    reference_keys,
    require_distinct,
    value_of,
)
from jaxwarp.frontend.lowering.short_circuit import Side
from jaxwarp.frontend.lowering.structs import construct_struct
from jaxwarp.frontend.lowering.values import (
    BARE_NAMES,
    Chosen,
    Expanded,
    Gradient,
    Host,
    Intrinsic,
    NoValue,
    Prototype,
    Slice,
    StructValue,
    Tile,
    View,
    describe,
    is_dynamic,
    is_literal,
    type_of,
)
from jaxwarp.frontend.lowering.views import array_at, index_view
from jaxwarp.frontend.text.annotations import ArrayAnnotation, pattern_text
from jaxwarp.frontend.text.functions import Func, NativeFunc, Overload, Parameter
from jaxwarp.frontend.text.host_values import Missing
from jaxwarp.frontend.text.refused import OF_PYTHON, UNAVAILABLE, by_numpy
from jaxwarp.ir import nodes as ir
from jaxwarp.types import SCALARS, Aggregate, Scalar, Struct, element_scalar

# Keyword arguments of builtin functions that decide the type of the result: they must be constants.
_STATIC_KEYWORDS = ("n", "length", "shape")


@expression(ast.Call)
def _call(frame: Frame, node: ast.Call) -> Any:
    callee = frame.evaluate(node.func)
    if isinstance(callee, Intrinsic):
        return frame.apply(callee, node)
    args, keywords = evaluate_arguments(frame, node, reference_keys(callee))
    return call(frame, node, callee, args, keywords)


def call(frame: Frame, node: ast.Call, callee: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
    """Calls what is no intrinsic with evaluated arguments."""
    match callee:
        case Prototype():
            return construct(frame, callee.type, args, keywords)
        case Scalar() | Aggregate():
            return construct(frame, callee, args, keywords)
        case Struct():
            return construct_struct(frame, callee, args, keywords)
        case Func():
            return inline(frame, node, callee, args, keywords)
        case Gradient():
            return callee.apply(frame, node, callee, args, keywords)
        case Host(value=Function() as function):
            return _builtin(frame, function, args, keywords)
        case Host(value=Expanded() as function):
            given = [value_of(frame, a) for a in args]
            return function.expand(lambda f, a, k: call(frame, node, frame.adopt(f), list(a), k), given, keywords)
        case StructValue() if callable(called := vars(callee.type.kind).get("__call__")):
            frame.context.seen.is_open = True
            return call(frame, node, frame.adopt(called), [callee, *args], keywords)
        case Host(value=ArrayAnnotation()):
            return array_at(frame, args, keywords)
        case Host(value=value):
            raise _not_callable(value)
        case _:
            is_array = isinstance(callee, View | Chosen)
            hint = "call a @func, a function of jaxwarp or a type; to multiply, write *"
            raise KernelTypeError(f"{describe(callee)} cannot be called", hint=value_hint(callee) if is_array else hint)


def evaluate_arguments(
    frame: Frame, node: ast.Call, references: Collection[int | str] = ()
) -> tuple[list[Any], dict[str, Any]]:
    """The values of a call's arguments; a `Passed` for those in `references`, which are positions and keywords."""
    args: list[Any] = []
    for argument in node.args:
        if not isinstance(argument, ast.Starred):
            evaluate = passed if len(args) in references else _argument
            args.append(evaluate(frame, argument))
            continue
        args.extend(_spread(frame, argument))
    keywords: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            with frame.at(keyword.value):
                raise KernelSyntaxError("** is not part of the kernel language", hint="name the arguments one by one")
        evaluate = passed if keyword.arg in references else _argument
        keywords[keyword.arg] = evaluate(frame, keyword.value)
    return args, keywords


def _spread(frame: Frame, argument: ast.Starred) -> tuple[Any, ...]:
    """`*t`: the values of a tuple, the components of a vector, the rows of a matrix, elements of `a[2:5]`."""
    value = parts_of_value(frame, frame.evaluate(argument.value))
    with frame.at(argument):
        sliced = argument.value.slice if isinstance(argument.value, ast.Subscript) else None
        if isinstance(sliced, ast.Slice) and isinstance(value, View | Chosen):
            return _spread_elements(frame, value, indices_of(frame, sliced)[0])
        if isinstance(value, tuple):
            return value
        raise KernelTypeError(
            f"* expects a tuple, a vector, a matrix or a slice of an array, got {describe(value)}",
            hint="name the arguments one by one",
        )


def _spread_elements(frame: Frame, array: View | Chosen, part: Slice) -> tuple[Any, ...]:
    """The elements of `array`, a slice; its bounds say how many they are."""
    bounds = known_slice(frame, part, "an array after *", "how many arguments a call has is part of its text")
    start, stop, step = bounds.start or 0, bounds.stop, bounds.step or 1
    if array.ndim != 1 or stop is None or min(start, stop, step) < 0:
        raise KernelTypeError(
            f"* of a slice of {array.name}: expected one axis, a stop, and no number below 0", hint="write *a[0:3]"
        )
    elements = [index_view(frame, array, [k]) for k in range(len(range(start, stop, step)))]
    return tuple(loaded(frame.builder, element) for element in elements)


def _argument(frame: Frame, node: ast.expr) -> Any:
    value = frame.evaluate(node)
    if isinstance(value, type) and issubclass(value, NoValue):
        with frame.at(node):
            raise KernelTypeError(f"{called_name(node)} returns no value that could be passed on", hint=RETURN_HINT)
    return value


def construct(frame: Frame, dtype: Scalar | Aggregate, args: list[Any], keywords: dict[str, Any]) -> Any:
    """`float32(x)`, `vec3(x, y, z)`."""
    if keywords and isinstance(dtype, Scalar):
        raise KernelTypeError(
            f"{dtype!r}: takes no keyword arguments, got {', '.join(keywords)}", hint="pass the values by position"
        )
    if not isinstance(dtype, Scalar):
        args = list(dtype.arguments(tuple(args), keywords))
    for value in args:
        if not is_dynamic(value):
            raise KernelTypeError(
                f"{dtype!r}: expected scalars, got {describe(value)}",
                hint="pass numbers: elements of an array, say a[i]",
            )
    if not isinstance(dtype, Scalar):
        return frame.ops.construct(dtype, args)
    if len(args) > 1:
        raise KernelTypeError(f"{dtype!r}: expected 1 argument, got {len(args)}", hint=f"write {dtype!r}(x)")
    value = args[0] if args else 0
    result = frame.ops.cast(dtype, value)
    known = frame.known(value)
    if isinstance(known, int) and isinstance(result, ir.Value) and dtype.is_int:
        frame.context.known[result] = wrapped(known, dtype)
    elif is_literal(value) and isinstance(result, ir.Value) and dtype.is_float:
        frame.context.known[result] = value
    return result


def _builtin(frame: Frame, function: Function, args: list[Any], keywords: dict[str, Any]) -> Any:
    placed, unplaced = function.by_place(tuple(args), keywords) if function.writes else (args, keywords)
    if function.assigns(len(placed)) and not unplaced:
        assign_results(frame, function, placed)
        return NoValue
    args = [value_of(frame, a) for a in args]
    keywords = {name: value_of(frame, v) for name, v in function.renamed(keywords).items()}
    if function.name == "where" and not all(map(is_dynamic, (*args, *keywords.values()))):
        return _where(frame, function, args, keywords)
    named = [(f"argument {k + 1}", a) for k, a in enumerate(args)] + [(f"{k}", v) for k, v in keywords.items()]
    for what, value in named:
        if not (is_dynamic(value) or isinstance(value, (Scalar, Aggregate, tuple))):
            hint = f"the signature is {function.signature}"
            if isinstance(value, Tile):
                hint = f"tile_map({function.name}, t) calls it for each element"
            raise KernelTypeError(f"{function.name}: {what} is {describe(value)}", hint=hint)
    for name in _STATIC_KEYWORDS:
        if name in keywords:
            keywords[name] = _known(frame, keywords[name])
    return function.expand(frame.ops, *args, **keywords)


def _where(frame: Frame, function: Function, args: list[Any], keywords: dict[str, Any]) -> Any:
    """`where` of structs, tiles, parts of an array, and tuples: what a conditional expression makes of them."""
    try:
        cond, if_true, if_false = parsed(function.signature).bind(*args, **keywords).args
    except TypeError as error:
        raise KernelTypeError(f"where: {error}", hint=f"the signature is {function.signature}") from None
    sides = Side(if_true, [], {}), Side(if_false, [], {})
    return chosen(frame, "where: the values", frame.condition(cond), *sides)


def _known(frame: Frame, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_known(frame, v) for v in value)
    known = frame.known(value)
    return value if known is None else known


_LANGUAGE_ONLY = "kernels can call functions of the language only"
_MAKERS = ("ones", "full", "empty", "zeros_like", "ones_like", "full_like", "empty_like", "clone")


def _not_callable(value: Any) -> Exception:
    name = getattr(value, "__name__", type(value).__name__)
    plain = isinstance(value, types.BuiltinFunctionType | type)
    if plain and name in UNAVAILABLE:
        return KernelNameError(f"{name} is not available in kernels", hint=UNAVAILABLE[name])
    if type(value).__name__ in ("Kernel", "JaxKernel"):
        return KernelTypeError(
            f"{getattr(value, 'kernel', value).name} is a kernel; kernels cannot call kernels",
            hint="make the code a @func and call it",
        )
    if isinstance(value, types.FunctionType):
        if (value.__module__ or "").partition(".")[0] == "jaxwarp":
            own = "a thread makes an array of its own with zeros(shape=..., dtype=...); " if name in _MAKERS else ""
            return KernelTypeError(
                f"{name} is a function of the host; {_LANGUAGE_ONLY}",
                hint=f"{own}call {name} outside of the kernel, and pass what the kernel needs of it",
            )
        return KernelTypeError(
            f"{name} is a Python function; {_LANGUAGE_ONLY}",
            hint=f"decorate {name} with @func",
        )
    if plain or callable(value):
        module = getattr(value, "__module__", None)
        full = f"{module}.{name}" if module and module != "builtins" else name
        ours = name if module == "builtins" else by_numpy(name)
        is_ours = ours in BARE_NAMES or any(ours == scalar.name for scalar in SCALARS)
        if module == "builtins" and name in OF_PYTHON:
            return KernelTypeError(f"{name} is a Python function; {_LANGUAGE_ONLY}", hint=OF_PYTHON[name])
        instead = f"use jaxwarp.{ours}" if is_ours else "write it as a @func"
        return KernelTypeError(
            f"{full} is a Python function; {_LANGUAGE_ONLY}",
            hint=f"{instead}, or static(...) for a value known before the kernel runs",
        )
    if isinstance(value, NativeFunc):
        return KernelTypeError(
            f"{value.__name__} is C++ (func_native), which means nothing to vector code and derivatives:"
            f" {value.reason}",
            hint="write it in the kernel language as a @func",
        )
    return KernelTypeError(
        f"{describe(Host(value))} cannot be called", hint="call a @func, a function of jaxwarp or a type"
    )


# Inlining


def inline(frame: Frame, node: ast.AST, func: Func, args: list[Any], keywords: dict[str, Any]) -> Any:
    """The body of the overload that fits, in place of the call."""
    overload, variables = bind(
        frame, func, [value_of(frame, a) for a in args], {k: value_of(frame, v) for k, v in keywords.items()}
    )
    if not overload.references:
        return execute_body(frame, node, func, overload, variables)
    given = dict(zip((p.name for p in overload.parameters), args, strict=False)) | keywords
    require_distinct(frame, overload, given)
    before = dict(variables)
    result = execute_body(frame, node, func, overload, variables)
    give_back(frame, overload, given, before, variables)
    return result


def bind(frame: Frame, func: Func, args: list[Any], keywords: dict[str, Any]) -> tuple[Overload, dict[str, Any]]:
    """The overload that fits, and its parameters' values."""
    overload, bound = _choose(frame, func, args, keywords)
    return overload, {p.name: typed_as(frame, bound[p.name], p.pattern) for p in overload.parameters}


def execute_body(frame: Frame, node: ast.AST, func: Func, overload: Overload, variables: dict[str, Any]) -> Any:
    """Appends the code of an overload, with its derivative rules; `variables` are its parameters' values.

    Those of references are in the end what the function leaves there.
    """
    rules = overload.rules
    rules.is_used = True
    frame.context.seen.used[overload] = None
    # In its own rule, a function is its code.
    if rules.apply is None or overload in frame.context.ruled:
        return plain_body(frame, node, func, overload, variables)
    return rules.apply(frame, node, func, overload, variables)


def plain_body(frame: Frame, node: ast.AST, func: Func, overload: Overload, variables: dict[str, Any]) -> Any:
    """Appends the code of an overload as it stands."""
    stack = frame.context.stack
    if overload in stack:
        chain = [o.source.name for o in stack[stack.index(overload) :]] + [func.name]
        raise KernelTypeError(
            f"{func.name} calls itself ({' -> '.join(chain)}); functions are inlined and cannot recurse",
            hint="write it as a loop",
        )
    inner = Frame(frame.context, overload.source, variables, frame.loc(node), overload.returns)
    inner.kept = inner.exit_live = frozenset(p.name for p in overload.references)
    inner.assumed = frame.assumed
    stack.append(overload)
    entered = frame.context.is_entered_nested
    if entered is None and (func.module or "").startswith("jaxwarp."):
        frame.context.is_entered_nested = frame.builder.is_nested
    try:
        with frame.context.growth.writing_out(frame.source, overload):
            execute(inner, overload.source.tree.body, frozenset())
    finally:
        stack.pop()
        frame.context.is_entered_nested = entered
    variables.update({name: inner.variables[name] for name in inner.kept})
    return _result(inner, func)


def _result(inner: Frame, func: Func) -> Any:
    """Return what the call is; a path that returns nothing gives zero of the type of the others, as in Warp."""
    result = inner.variables.get(RESULT, NoValue)
    if inner.variables.get(RETURN, False) is not True and (holds_array(result) or isinstance(result, Tile)):
        raise KernelTypeError(
            f"{func.name} returns an array on some paths only",
            replace(inner.source.signature_loc, inlined_at=inner.inlined_at),
            hint="end the function with a return of the same type",
        )
    return result


def fits(frame: Frame, func: Func, args: list[Any]) -> bool:
    """Return whether an overload of a function takes the arguments."""
    try:
        _choose(frame, func, args, {})
    except KernelTypeError:
        return False
    return True


def _choose(frame: Frame, func: Func, args: list[Any], keywords: dict[str, Any]) -> tuple[Overload, dict[str, Any]]:
    fitting: list[tuple[tuple[int, int], Overload, dict[str, Any]]] = []
    errors: list[KernelTypeError] = []
    for overload in func.overloads:
        try:
            bound = _bind(frame, overload, args, keywords)
            total = _total_cost(overload, bound)
        except KernelTypeError as error:
            errors.append(error)
            continue
        # Between two that fit alike, the one that fills in fewer defaults.
        fitting.append(((total, len(overload.parameters)), overload, bound))
    if not fitting and len(errors) == 1:
        raise errors[0]
    lowest = min((distance for distance, _, _ in fitting), default=None)
    closest = [(overload, bound) for distance, overload, bound in fitting if distance == lowest]
    if len(closest) == 1:
        return closest[0]
    given = ", ".join([*map(_type_of, args), *(f"{k}={_type_of(v)}" for k, v in keywords.items())])
    if closest:
        raise KernelTypeError(
            f"several overloads of {func.name} take ({given}) equally well",
            hint=f"convert an argument; they are {'; '.join(o.signature() for o, _ in closest)}",
        )
    raise KernelTypeError(
        f"no overload of {func.name} takes ({given})", hint="; ".join(o.signature() for o in func.overloads)
    )


def _type_of(value: Any) -> str:
    dtype = type_of(value)
    return repr(dtype) if dtype is not None else describe(value)


def _bind(frame: Frame, overload: Overload, args: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    positional = [p for p in overload.parameters if not p.keyword_only]
    if len(args) > len(positional):
        raise _argument_error(overload, f"takes {_count(len(positional))}, got {len(args)}")
    bound = dict(zip((p.name for p in positional), args, strict=False))
    known = {p.name for p in overload.parameters}
    for keyword, value in keywords.items():
        if keyword not in known:
            raise _argument_error(overload, f"has no argument {keyword}")
        if keyword in bound:
            raise _argument_error(overload, f"got the argument {keyword} twice")
        bound[keyword] = value
    for parameter in overload.parameters:
        if parameter.name not in bound:
            if parameter.default is Missing:
                raise _argument_error(overload, f"is called without its argument {parameter.name}")
            bound[parameter.name] = frame.adopt(parameter.default)
    return bound


def _argument_error(overload: Overload, what: str) -> KernelTypeError:
    return KernelTypeError(f"{overload.source.name} {what}", hint=f"its signature is {overload.signature()}")


def _count(n: int) -> str:
    return f"{n} argument{'' if n == 1 else 's'}"


def _total_cost(overload: Overload, bound: dict[str, Any]) -> int:
    total = 0
    types_bound: dict[Any, Any] = {}
    for parameter in overload.parameters:
        value = bound[parameter.name]
        found = cost(parameter.pattern, value, types_bound)
        if found is None:
            raise _misfit(overload, parameter, value)
        total += found
    return total


def _misfit(overload: Overload, parameter: Parameter, value: Any) -> KernelTypeError:
    expected = pattern_text(parameter.pattern)
    scalar = isinstance(parameter.pattern, Scalar) and (isinstance(value, ir.Value) or is_literal(value))
    hint = f"convert with {expected}(...)" if scalar else None
    if isinstance(parameter.pattern, Struct):
        hint = f"make one: {expected}(...)"
    if isinstance(parameter.pattern, Aggregate) and isinstance(value, Bundle):
        same_shape = value.type.shape == parameter.pattern.shape and parameter.pattern.dtype is not Any
        hint = f"its components are {element_scalar(value.type)!r}" if same_shape else None
    return KernelTypeError(
        f"{overload.source.name}: argument {parameter.name} is {describe(value)}, expected {expected}", hint=hint
    )
