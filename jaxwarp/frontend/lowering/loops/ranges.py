"""The iterables of `for` loops.

They are `range(...)`, with its bounds and number of iterations; tuples, vectors and matrices; and structs that say how
they advance.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelSyntaxError, KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.components import extract
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.merge import same, unify
from jaxwarp.frontend.lowering.values import Host, Shape, StructValue, View, describe
from jaxwarp.frontend.lowering.views import shape_of
from jaxwarp.frontend.text.functions import Func
from jaxwarp.ir import nodes as ir
from jaxwarp.types import NEXT, RUNS, Scalar, int32

# What enumerate and zip make of a range is unrolled.
_MOST_ELEMENTS = 64


@dataclass(frozen=True)
class Range:
    """`range(start, stop, step)`, or the same numbers backwards."""

    start: Any
    stop: Any
    step: Any
    is_reversed: bool = False

    @property
    def bounds(self) -> tuple[Any, Any, Any]:
        return self.start, self.stop, self.step

    def known(self, frame: Frame) -> range | None:
        """The numbers, if they are known before the kernel runs."""
        constants = [frame.known(b) for b in self.bounds]
        if not all(isinstance(c, int) for c in constants):
            return None
        numbers = range(*(int(c) for c in constants if c is not None)) if constants[-1] != 0 else range(0)
        return numbers[::-1] if self.is_reversed else numbers


@dataclass(frozen=True)
class Elements:
    """Values whose number is known: of a tuple, a vector, a shape; rows of a matrix; tuples of them."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Advancing:
    """A struct and the function that advances it (see `func_next`): nobody knows how often."""

    state: StructValue
    function: Func
    runs: tuple[Func, Func] | None = None


def iterated(frame: Frame, loop: ast.For, node: ast.expr) -> Range | Elements | Advancing:
    """Return what a `for` loop goes over.

    Raises:
        KernelSyntaxError: nothing that the language can go over.
    """
    callee = frame.evaluate(node.func) if isinstance(node, ast.Call) else None
    python = callee.value if isinstance(callee, Host) else None
    with frame.at(node):
        if isinstance(node, ast.Call) and python is range:
            return _range(frame, node)
        if isinstance(node, ast.Call) and python in (reversed, enumerate, zip):
            return _PYTHONS[python](frame, loop, node)
        value = frame.evaluate(node)
        function = _advance(value)
        if function is not None:
            return Advancing(value, function, vars(value.type.kind).get(RUNS))
        found = _elements(frame, value)
        if found is None:
            raise KernelSyntaxError(
                f"a for loop goes over range(...), a tuple, a vector or a matrix, got {describe(value)}",
                hint=_range_hint(node, value),
            )
        return Elements(found)


def _advance(value: Any) -> Func | None:
    return vars(value.type.kind).get(NEXT) if isinstance(value, StructValue) else None


def _elements(frame: Frame, value: Any) -> tuple[Any, ...] | None:
    match value:
        case tuple():
            return value
        case Shape():
            return shape_of(frame, value.view)
        case Bundle():
            return tuple(extract(frame, value, [k]) for k in range(value.type.shape[0]))
        case _:
            return None


def _reversed(frame: Frame, loop: ast.For, call: ast.Call) -> Range | Elements:
    (argument,) = _arguments(call, "reversed", 1)
    found = iterated(frame, loop, argument)
    if isinstance(found, Advancing):
        raise KernelTypeError(
            f"reversed: {describe(found.state)} goes forward only", hint="go over it, and keep what is needed last"
        )
    if isinstance(found, Range):
        return replace(found, is_reversed=not found.is_reversed)
    return Elements(found.values[::-1])


def _enumerate(frame: Frame, loop: ast.For, call: ast.Call) -> Elements:
    (argument,) = _arguments(call, "enumerate", 1)
    return Elements(tuple(enumerate(_finite(frame, loop, argument, "enumerate"))))


def _zip(frame: Frame, loop: ast.For, call: ast.Call) -> Elements:
    parts = [_finite(frame, loop, a, "zip") for a in _arguments(call, "zip", len(call.args))]
    return Elements(tuple(zip(*parts, strict=False)))


_PYTHONS: dict[Any, Callable[[Frame, ast.For, ast.Call], Range | Elements]] = {
    reversed: _reversed, enumerate: _enumerate, zip: _zip,
}  # fmt: skip


def _finite(frame: Frame, loop: ast.For, node: ast.expr, what: str) -> tuple[Any, ...]:
    found = iterated(frame, loop, node)
    if isinstance(found, Elements):
        return found.values
    numbers = found.known(frame) if isinstance(found, Range) else None
    if numbers is None or numbers[_MOST_ELEMENTS:]:
        with frame.at(node):
            raise KernelTypeError(
                f"{what} goes over what has a length known before the kernel runs, at most {_MOST_ELEMENTS}",
                hint="write for i in range(n):, and compute the other variables from i",
            )
    return tuple(numbers)


def _arguments(call: ast.Call, name: str, count: int) -> list[ast.expr]:
    if call.keywords or len(call.args) != count or any(isinstance(a, ast.Starred) for a in call.args):
        raise KernelTypeError(
            f"{name}: expected {count} argument{'' if count == 1 else 's'}, got {len(call.args) + len(call.keywords)}",
            hint=f"write {name}({'a, b' if count > 1 else 'a'})",
        )
    return call.args


def _range(frame: Frame, call: ast.Call) -> Range:
    if call.keywords or not 1 <= len(call.args) <= 3 or any(isinstance(a, ast.Starred) for a in call.args):
        raise KernelTypeError(
            f"range: expected 1 to 3 arguments, got {len(call.args) + len(call.keywords)}",
            hint="write range(stop), range(start, stop) or range(start, stop, step)",
        )
    values = [frame.value(a, "range") for a in call.args]
    for value, argument in zip(values, call.args, strict=True):
        with frame.at(argument):
            integer = isinstance(value, int) or (isinstance(value, ir.Value) and value.type.is_int)
            if not integer or isinstance(value, bool):
                raise KernelTypeError(f"range: expected integers, got {describe(value)}", hint="convert with int(...)")
    if len(values) == 3 and frame.known(values[2]) == 0:
        with frame.at(call.args[2]):
            raise KernelValueError(
                "range: the step must not be zero", hint="write a step of 1 or more, or of -1 or less to count down"
            )
    match values:
        case [stop]:
            return Range(0, stop, 1)
        case [start, stop]:
            return Range(start, stop, 1)
        case _:
            return Range(values[0], values[1], values[2])


def _range_hint(node: ast.expr, value: Any) -> str:
    """Return a hint at what to write instead of a loop over something else."""
    text = ast.unparse(node)
    if isinstance(value, StructValue):
        return f"say how it advances: @func_next({value.type!r}) above a @func"
    if isinstance(value, View):
        return f"for i in range(len({text})):, and read {text}[i] in the loop"
    return f"for i in range({text}):" if isinstance(value, (int, ir.Value)) else "for i in range(n):"


def pick(frame: Frame, values: Sequence[Any], index: ir.Value) -> Any:
    """`values[index]`, for an index that is computed at run time; the values have one type.

    Raises:
        MismatchError: they have several.
    """
    first = values[0]
    if all(same(first, v) for v in values):
        return first
    if all(isinstance(v, tuple) and len(v) == len(first) for v in values):
        return tuple(pick(frame, column, index) for column in zip(*values, strict=True))
    result = values[-1]
    for k in range(len(values) - 2, -1, -1):
        test = frame.ops.compare("eq", index, k)
        merged = unify(frame, values[k], result)
        pairs = zip(merged.left, merged.right, strict=True)
        result = merged.rebuild([frame.ops.call("select", test, x, y) for x, y in pairs])
    return result


def index_type(bounds: Sequence[Any]) -> Scalar:
    types = list(dict.fromkeys(b.type for b in bounds if isinstance(b, ir.Value)))
    if len(types) > 1:
        raise KernelTypeError(
            f"range: the arguments have types {' and '.join(map(repr, types))}", hint="convert them to one type"
        )
    return types[0] if types else int32
