"""Functions of the library called from Python: compiled for the types that are given, and run by the interpreter.

Run by Python, what they do with types, overflow and references would be Python's, and not the kernel language's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelError, KernelTypeError, type_text
from jaxwarp.frontend.lowering.frame import Context, Frame
from jaxwarp.frontend.lowering.memory import load_element
from jaxwarp.frontend.lowering.structs import parameters
from jaxwarp.frontend.lowering.values import ElementValue, NoValue, capture, host_constant
from jaxwarp.frontend.lowering.views import whole
from jaxwarp.frontend.text.functions import Func
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.verify import verify
from jaxwarp.quaternions import HostValue, number
from jaxwarp.types import Aggregate, Scalar, int32

_MOST_KNOWN = 256


@dataclass(frozen=True)
class _Constant:
    """An argument that the compiled function knows: a number of Python, or a type."""

    type: type
    value: Any


@dataclass(frozen=True)
class _Compiled:
    """`results`: the types of what the kernel stores, after its inputs; `pack` makes of those what the call gives."""

    kernel: Kernel
    results: tuple[Any, ...]
    pack: Callable[[Iterator[Any]], Any]


def evaluate(func: Func, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of a call, as numbers and values of the language. Arguments that it advances are not changed.

    Raises:
        KernelTypeError: no overload takes the arguments, or it only assigns to some of them.
    """
    given = [_argument(func.name, v) for v in (*args, *kwargs.values())]
    inputs = [value for _, value in given if value is not None]
    # By their texts: zeros of both signs are equal.
    key = func, len(args), tuple(kwargs), tuple((kind, repr(kind)) for kind, _ in given)
    compiled = _known.get(key)
    if compiled is None:
        try:
            compiled = _compile(func, len(args), tuple(kwargs), [kind for kind, _ in given])
        except KernelError as error:
            raise type(error)(error.message, hint=error.hint) from None
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = compiled
    buffers = [np.zeros((1, *getattr(t, "shape", ())), _scalar(t).numpy) for t in compiled.results]
    interpret(compiled.kernel, (1,), [*inputs, *buffers])
    return compiled.pack(iter(buffers))


_known: dict[Any, _Compiled] = {}


def _argument(name: str, value: Any) -> tuple[Any, np.ndarray | None]:
    """The type of an argument, and its value; a constant has none."""
    if isinstance(value, (bool, int, float, Scalar, Aggregate, type)) and not isinstance(value, np.generic):
        return _Constant(type(value), value), None
    found = host_constant(np.asarray(value)) if isinstance(value, (list, tuple)) else host_constant(value)
    if found is None:
        raise KernelTypeError(
            f"{name}: outside of kernels it takes numbers, vectors and matrices, got {type_text(value)}",
            hint="call it in a kernel",
        )
    return found[0], np.array(found[1])


def _compile(func: Func, count: int, names: tuple[str, ...], kinds: Sequence[Any]) -> _Compiled:
    context = Context()
    frame, builder = Frame(context, func.overloads[0].source, {"$f": func}), context.builder
    builder.loc = frame.source.signature_loc
    arguments = [(f"${k}", kind) for k, kind in enumerate(kinds)]
    typed = [(name, kind) for name, kind in arguments if not isinstance(kind, _Constant)]
    params = parameters(typed, [kind for _, kind in typed])
    for param, (name, kind) in zip(params, typed, strict=True):
        frame.variables[name] = load_element(builder, ElementValue(whole(param, kind, 0)))
    for name, kind in arguments:
        if isinstance(kind, _Constant):
            frame.variables[name] = capture(kind.value)
    result = frame.evaluate(_call([name for name, _ in arguments], count, names, frame.source.tree))
    if isinstance(result, type) and issubclass(result, NoValue):
        raise KernelTypeError(
            f"{func.name} assigns to its arguments, which a call outside of kernels cannot do",
            hint=f"take what it returns: {'; '.join(o.signature() for o in func.overloads)}",
        )
    results: list[Any] = []
    outputs: list[ir.Param] = []
    pack = _packing(frame, result, results, outputs)
    kernel = builder.finish(func.name, 1, (*params, *outputs))
    return _Compiled(verify(replace(kernel, locals=tuple(context.locals))), tuple(results), pack)


def _call(arguments: Sequence[str], count: int, names: Sequence[str], place: ast.FunctionDef) -> ast.Call:
    """`$f($0, $1, name=$2)`, where the function is defined."""
    nodes: list[ast.expr] = [ast.Name(name, ast.Load()) for name in arguments]
    keywords = [ast.keyword(name, node) for name, node in zip(names, nodes[count:], strict=True)]
    made = ast.Call(ast.Name("$f", ast.Load()), nodes[:count], keywords)
    for node in (made, made.func, *nodes):
        ast.copy_location(node, place)
    return made


def _packing(
    frame: Frame, value: Any, results: list[Any], outputs: list[ir.Param]
) -> Callable[[Iterator[np.ndarray]], Any]:
    """Stores a value in outputs, and says how to make it of them."""
    if isinstance(value, tuple):
        parts = [_packing(frame, v, results, outputs) for v in value]
        return lambda found: tuple(part(found) for part in parts)
    value = frame.typed(value)
    dtype, builder = value.type, frame.builder
    param = ir.Param(f"out{len(outputs)}", _scalar(dtype), (None, *getattr(dtype, "shape", ())))
    results.append(dtype)
    outputs.append(param)
    zero = builder.const(0, int32)
    components = value.values if isinstance(value, Bundle) else (value,)
    for place, component in zip(np.ndindex(*getattr(dtype, "shape", ())), components, strict=True):
        builder.store(param, (zero, *(builder.const(k, int32) for k in place)), component)
    if isinstance(dtype, Scalar):
        return lambda found: number(next(found)[0])
    return lambda found: HostValue.of(dtype, next(found)[0])


def _scalar(dtype: Any) -> Scalar:
    return dtype if isinstance(dtype, Scalar) else dtype.dtype
