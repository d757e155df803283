"""Functions that need more than the values of their arguments: `tid`, `static`, atomics, `len`, `type`."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from typing import Any

from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.builtins.language.short_names import AGGREGATES
from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelNameError, KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.adjoints import add_to_adjoint, names_adjoint
from jaxwarp.frontend.lowering.calls import call, evaluate_arguments
from jaxwarp.frontend.lowering.expressions import absent_at
from jaxwarp.frontend.lowering.frame import Frame, lowers
from jaxwarp.frontend.lowering.memory import element_type
from jaxwarp.frontend.lowering.structs import outline
from jaxwarp.frontend.lowering.targets import atomic, stored_value
from jaxwarp.frontend.lowering.values import (  # fmt: skip
    BARE_NAMES,
    PYTHON_OBJECTS,
    Chosen,
    ElementValue,
    Host,
    Intrinsic,
    NoArray,
    NoValue,
    Prototype,
    Shape,
    StructValue,
    StructView,
    Tile,
    View,
    describe,
    is_dynamic,
    known_text,
    type_of,
)
from jaxwarp.frontend.lowering.views import extent, index_view, shape_of
from jaxwarp.frontend.text.annotations import is_generic
from jaxwarp.frontend.text.constants import STATIC, evaluate_host, static_key
from jaxwarp.frontend.text.functions import Func
from jaxwarp.frontend.text.host_values import Missing, frozen
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Aggregate, Array, Scalar, bool_, element_scalar, matrix, quaternion, transformation, vector

INTRINSICS: dict[str, Intrinsic] = {}


def provide(name: str, signature: str, doc: str, host: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Makes a function of the language of what lowers its calls: a decorator. `host` is it outside of kernels."""
    INTRINSICS[name] = BARE_NAMES[name] = Intrinsic(name, doc, signature, host)
    return lowers(INTRINSICS[name])


# Threads


@provide("tid", "tid() -> int | tuple[int, ...]", "The index of this thread. `i = tid()` is one int; `i, j = tid()` "
"are two.")
def lower_tid(frame: Frame, node: ast.Call, count: int = 1) -> Any:
    """`tid()`, asked for `count` indices."""
    if node.args or node.keywords:
        raise KernelTypeError(
            f"tid: expected no arguments, got {len(node.args) + len(node.keywords)}",
            hint="for several indices write i, j = tid()",
        )
    if not frame.is_kernel:
        raise KernelNameError("tid() can be called in kernels only", hint="pass the thread index as an argument")
    first = frame.context.tid
    if first is not None and first[0] != count:
        raise KernelTypeError(
            f"tid() gives {_indices(count)} here, but {_indices(first[0])} in line {first[1].line}",
            hint="a kernel has one launch grid: take all its indices in one place",
        )
    if first is None:
        frame.context.tid = (count, frame.loc(node))
    values = tuple(frame.builder.tid(axis) for axis in range(count))
    return values[0] if count == 1 else values


def _indices(count: int) -> str:
    return f"{count} ind{'ex' if count == 1 else 'ices'}"


def _arguments(node: ast.Call) -> str:
    named = [k.arg for k in node.keywords if k.arg]
    return f"the keyword argument '{named[0]}'" if named else str(len(node.args) + len(node.keywords))


# Compile time


@provide(
    "static",
    "static(expression) -> constant",
    "Evaluate an expression in Python while the kernel is compiled. It may use variables of unrolled loops.",
    host=lambda value: value,
)
def _static(frame: Frame, node: ast.Call) -> Any:
    if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
        raise KernelTypeError(
            f"static: expected 1 argument, got {_arguments(node)}", hint="write static(expression)"
        )
    return _evaluate_static(frame, node.args[0], "static")


def text_of(frame: Frame, node: ast.expr) -> str | None:
    """A literal text, a name of one outside of the kernel, or `static(...)` of one; None if it is something else."""
    if isinstance(node, ast.Constant):
        return known_text(node.value)
    is_name = isinstance(node, ast.Name | ast.Attribute)
    if is_name or (isinstance(node, ast.Call) and _calls_static(frame, node)):
        return known_text(frame.evaluate(node))
    return None


def _calls_static(frame: Frame, node: ast.Call) -> bool:
    is_named = isinstance(node.func, ast.Name | ast.Attribute)
    return is_named and frame.evaluate(node.func) is INTRINSICS["static"]


def _evaluate_static(frame: Frame, argument: ast.expr, what: str) -> Any:
    names = [n for n in ast.walk(argument) if isinstance(n, ast.Name)]
    own = {n.id for n in names if isinstance(n.ctx, ast.Store)}  # of comprehensions
    constants: dict[str, Any] = {}
    for name in sorted({n.id for n in names if n.id in frame.variables} - own):
        value = frame.lookup(name)
        known = frame.known(value)
        if known is not None:
            constants[name] = known
        elif isinstance(value, (Scalar, Aggregate, Func)):
            constants[name] = value
        elif isinstance(value, Prototype):
            constants[name] = value.type
        elif isinstance(value, tuple):
            constants[name] = tuple(_Unknown(name) if (k := frame.known(v)) is None else k for v in value)
        elif isinstance(value, Host):
            constants[name] = value.value
        elif isinstance(value, Tile):
            constants[name] = (_Unknown(name),) * value.shape[0]
        elif isinstance(value, Bundle):
            constants[name] = (_Unknown(name),) * value.type.shape[0]  # how long it is, is known
        else:
            raise KernelValueError(
                f"{what}: {name} is not known before the kernel runs",
                hint="static(...) can use names from outside the kernel, and variables of unrolled loops",
            )
    found = frame.adopt(_static_value(frame, argument, constants))
    if isinstance(found, Host) and not callable(found.value) and known_text(found) is None:
        raise KernelTypeError(
            f"{what}: the expression gives {describe(found)}",
            frame.loc(argument),
            hint="it must give a number, a vector or matrix, a tuple of those, a text, a type or a function",
        )
    return found


class _Unknown:
    """An element of a tuple that is known only when the kernel runs: the tuple's length is known before."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"<run-time value in {self.name}>"


def _static_value(frame: Frame, argument: ast.expr, constants: dict[str, Any]) -> Any:
    """Return the value of a static expression: the kernel definition's, or the first one for these local values."""
    known, key = frame.source.statics, static_key(argument, constants)
    try:
        value = known.get(key, Missing)
    except TypeError:  # something in it has no hash
        frame.context.seen.is_open = True
        return evaluate_host(frame.source, argument, constants, frame.loc(argument))
    if value is Missing or constants:
        frame.context.seen.is_open = True
    if value is Missing:
        value = known.setdefault(key, frozen(evaluate_host(frame.source, argument, constants, frame.loc(argument))))
    return value


def _type_maker(name: str) -> Intrinsic:
    """`types.vector(length=5, dtype=float)` in a kernel gives zeros of the type, which can be called as the type is;
    with components, `types.vector(1.0, 2.0)`, it is the function of that name."""

    def lower(frame: Frame, node: ast.Call) -> Any:
        keywords = {k.arg for k in node.keywords}
        python = (len(node.args) == 2 and not keywords) or (len(node.args) == 1 and keywords == {"dtype"})
        python = python and _is_static(frame, node.args[0])
        if node.args and not python:
            return call(frame, node, Host(FUNCTIONS[name]), *evaluate_arguments(frame, node))
        dtype = _evaluate_static(frame, node, name)
        if not isinstance(dtype, Aggregate) or is_generic(dtype):
            return dtype
        return Prototype(dtype, frame.ops.construct(dtype, ()).values)

    made = Intrinsic(name)
    lowers(made)(lower)
    return made


def _is_static(frame: Frame, node: ast.expr) -> bool:
    """A literal, or a name from outside of the kernel: what the type itself is made of."""
    local = [frame.variables[n.id] for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in frame.variables]
    return not any(isinstance(value, (ir.Value, Bundle, View, StructValue, StructView)) for value in local) and not any(
        isinstance(n, ast.Constant) and isinstance(n.value, float) for n in ast.walk(node)
    )


@provide("len", "len(x: Array | Vec | Mat | tuple) -> int", "The extent of the first axis.")
def _len(frame: Frame, node: ast.Call) -> Any:
    if len(node.args) != 1 or node.keywords:
        raise KernelTypeError(
            f"len: expected 1 argument, got {_arguments(node)}", hint="write len(a)"
        )
    value = frame.evaluate(node.args[0])
    match value:
        case View() | Chosen():
            return shape_of(frame, value)[0]
        case Tile():
            return value.shape[0]
        case NoArray(type=Array()):
            return 0
        case StructView():
            view = outline(frame, value)
            return extent(frame, view, view.free[0])
        case Shape():
            return value.view.ndim
        case tuple():
            return len(value)
        case Bundle():
            return value.type.shape[0]
        case Aggregate():
            return value.shape[0]
        case _:
            raise KernelTypeError(
                f"len: expected an array, vector, matrix or tuple, got {describe(value)}",
                hint="a number has no length: pass the array",
            )


@provide("type", "type(x: Scalar | Vec | Mat) -> type", "The type of `x`. You can call it: `type(x)(1)` is 1 in that "
"type.")
def _type(frame: Frame, node: ast.Call) -> Any:
    if len(node.args) != 1 or node.keywords:
        raise KernelTypeError(
            f"type: expected 1 argument, got {_arguments(node)}", hint="write type(x)"
        )
    value = frame.place(node.args[0])
    if isinstance(value, ElementValue):  # which is not loaded: a kernel may ask for the type of what it overwrites
        return element_type(value)
    if not (is_dynamic(value) or isinstance(value, StructValue)):
        raise KernelTypeError(
            f"type: expected a scalar, vector, matrix or struct, got {describe(value)}",
            hint="for the elements of an array write a.dtype",
        )
    return type_of(value)


# Atomics


def _atomic(name: str, kind: str, doc: str) -> None:
    operands = ("compare", "value") if kind == "cas" else ("value",)
    signature = f"atomic_{name}(arr: Array, i: Int, ..., {', '.join(f'{o}: Any' for o in operands)}) -> Any"

    def lower(frame: Frame, node: ast.Call) -> Any:
        if node.args and names_adjoint(frame, node.args[0]):
            return _adjoint_atomic(frame, node, name)
        element, values = _atomic_arguments(frame, node, f"atomic_{name}", operands)
        _require_atomic_type(element, name)
        stored = []
        for what, value in zip(operands, values, strict=True):
            if not is_dynamic(value):
                raise KernelTypeError(
                    f"atomic_{name}: {what} is {describe(value)}",
                    hint=f"the signature is {_signature(f'atomic_{name}')}",
                )
            stored.append(stored_value(frame, element, value))
        if name == "sub":
            stored = [frame.ops.unary("neg", stored[0])]
        return atomic(frame, kind, element, *stored)

    provide(f"atomic_{name}", signature, f"{doc}, atomically. Returns the old value.")(lower)


def _adjoint_atomic(frame: Frame, node: ast.Call, name: str) -> type[NoValue]:
    """`atomic_add(adjoint[a], i, x)` is `adjoint[a][i] += x`, which is atomic where it has to be."""
    if name not in ("add", "sub") or node.keywords or len(node.args) < 3:
        raise KernelTypeError(
            f"atomic_{name}: an adjoint can only be added to", hint="write wp.adjoint[a][i] += x, a being an argument"
        )
    array, *indices, value = node.args
    add_to_adjoint(frame, array, name, frame.value(value, f"atomic_{name}"), indices)
    return NoValue


def _require_atomic_type(element: ElementValue, name: str) -> None:
    scalar = element_scalar(element_type(element))
    bits = name in ("and", "or", "xor")
    if (bits and not scalar.is_int) or (scalar is bool_ and name not in ("exch", "cas")):
        expected = "integers" if bits else "numbers"
        raise KernelTypeError(
            f"atomic_{name}: {element.view.name} must hold {expected}, it holds {scalar}",
            hint=f"annotate the array with a type of {expected}",
        )


def _atomic_arguments(
    frame: Frame, node: ast.Call, name: str, operands: tuple[str, ...]
) -> tuple[ElementValue, list[Any]]:
    names = ("arr", "i", "j", "k", "l")
    keywords = {k.arg: k.value for k in node.keywords}
    for key in keywords:
        if key not in (*names, *operands):
            raise KernelTypeError(f"{name}: there is no argument {key}", hint=f"the signature is {_signature(name)}")
    positional = list(node.args)
    tail = [keywords[o] for o in operands if o in keywords]
    head = [keywords[n] for n in names if n in keywords]
    nodes = [*positional, *head, *tail] if not positional or head or tail else positional
    if len(nodes) < 2 + len(operands):
        raise KernelTypeError(
            f"{name}: expected an array, an index for each axis, and {' and '.join(operands)}, got "
            f"{len(nodes)} argument{'' if len(nodes) == 1 else 's'}",
            hint=f"the signature is {_signature(name)}",
        )
    array = frame.place(nodes[0])
    if not isinstance(array, View | Chosen | NoArray):
        with frame.at(nodes[0]):
            raise KernelTypeError(
                f"{name}: expected an array, got {describe(array)}", hint=f"the signature is {_signature(name)}"
            )
    indices: list[Any] = []
    for n in nodes[1 : len(nodes) - len(operands)]:
        value = frame.evaluate(n)
        indices.extend(value if isinstance(value, tuple) else [value])
    is_absent = isinstance(array, NoArray)
    element = absent_at(frame, array, indices) if is_absent else index_view(frame, array, indices)
    if not isinstance(element, ElementValue):
        ndim = array.type.ndim if array.type is not None else 0
        raise KernelTypeError(
            f"{name}: {array.name} has {ndim} axes, got {_indices(len(indices))}",
            hint=f"the signature is {_signature(name)}",
        )
    return element, [frame.evaluate(n) for n in nodes[len(nodes) - len(operands) :]]


def _signature(name: str) -> str:
    return INTRINSICS[name].signature


_atomic("add", "add", "Add `value` to an element")
_atomic("sub", "add", "Subtract `value` from an element")
_atomic("min", "min", "Replace an element by the smaller of it and `value`, or by the number if one is NaN")
_atomic("max", "max", "Replace an element by the larger of it and `value`, or by the number if one is NaN")
_atomic("exch", "exch", "Replace an element by `value`")
_atomic("cas", "cas", "Replace an element by `value` if it equals `compare`")
_atomic("and", "and", "Replace an element by its bitwise and with `value`")
_atomic("or", "or", "Replace an element by its bitwise or with `value`")
_atomic("xor", "xor", "Replace an element by its bitwise exclusive or with `value`")

# Python's own functions that have a meaning in kernels, and those of `math` that are called as ours.
PYTHON_OBJECTS.update({getattr(math, name): FUNCTIONS[name] for name in dir(math) if name in FUNCTIONS})
PYTHON_OBJECTS.update(
    {getattr(builtins, name): FUNCTIONS[name] for name in ("min", "max", "abs", "round", "pow") if name in FUNCTIONS}
)
BARE_NAMES.update(FUNCTIONS | AGGREGATES)
STATIC.append(INTRINSICS["static"])
PYTHON_OBJECTS.update({len: INTRINSICS["len"], type: INTRINSICS["type"]})
PYTHON_OBJECTS.update({make: _type_maker(make.__name__) for make in (vector, matrix, quaternion, transformation)})
