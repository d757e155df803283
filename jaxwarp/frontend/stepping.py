"""A kernel's Python function run by Python, statement by statement, thread by thread.

    for k in range(n):          for k in __jaxwarp__.iterations(3):
        v.x = x[k] * 2.0            v = __jaxwarp__.run(4)

Control flow is Python's, on the user's lines, so debuggers step through it, and calls that the language does not have
(`print`, `breakpoint`) happen. All else is done by the frontend itself, on a builder whose operations the interpreter
executes as they come: types, literals and arithmetic are those of the kernel. A variable's Python value is a NumPy
scalar or array, for the user to look at; what the kernel goes on with is in the frame of the frontend.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import CellType
from typing import Any, TypeVar

import numpy as np

from jaxwarp.builtins.language.function import Function
from jaxwarp.builtins.language.values import Bundle
from jaxwarp.frontend.lower import lower
from jaxwarp.frontend.lowering.frame import Context, Frame
from jaxwarp.frontend.lowering.loops.advance import entered, item_of, next_call
from jaxwarp.frontend.lowering.loops.ranges import Advancing, Elements, index_type, iterated, pick
from jaxwarp.frontend.lowering.loops.statements import range_variable
from jaxwarp.frontend.lowering.merge import MismatchError, typed, zeros_like
from jaxwarp.frontend.lowering.references import advanced
from jaxwarp.frontend.lowering.statements import assign
from jaxwarp.frontend.lowering.structs import argument_values, parameters
from jaxwarp.frontend.lowering.tiles.storage import copied
from jaxwarp.frontend.lowering.values import (
    Host,
    NoArray,
    StructValue,
    StructView,
    Tile,
    Undefined,
    View,
    capture,
    is_literal,
)
from jaxwarp.frontend.text.functions import Func
from jaxwarp.frontend.text.liveness import NameLiveness, assigned, rebound
from jaxwarp.frontend.text.source import Definition, Missing, Source
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import LaneMachine
from jaxwarp.types import Struct, bool_, int32

_NAME = "__jaxwarp__"


class SteppedKernel:
    """A kernel for arguments of some types, ready to be run by Python.

    Attributes:
        kernel: the IR, without the calls that only happen here.
    """

    def __init__(self, source: Source, arguments: Sequence[tuple[str, Any]], types: Sequence[Any], max_unroll: int):
        writer = _Writer(source)
        definition = writer.function()
        self.nodes = writer.nodes
        rewritten = Definition(writer.tree, source.lines)
        self.source = replace(source, definition=rewritten, liveness=NameLiveness(), _spans={})
        self.types = types
        self.joined: dict[Any, dict[str, Any]] = {}
        self.kernel = lower(self.source, arguments, types, max_unroll, self.joined)
        self.arguments = arguments
        self.params = parameters(arguments, types)
        self.live = frozenset(n.id for n in ast.walk(self.source.tree) if isinstance(n, ast.Name))
        self._scope: dict[str, Any] = {**source.captured, **_around(source.function), _NAME: None}
        exec(compile(ast.Module([definition], []), source.file, "exec"), self._scope)
        self.function = self._scope[source.tree.name]

    def run(self, grid: tuple[int, ...], buffers: Sequence[np.ndarray], threads: Sequence[int]) -> None:
        """Runs threads, given by their numbers, one after the other."""
        memory = dict(zip(self.params, buffers, strict=True))
        for number in threads:
            thread = self._scope[_NAME] = _Thread(self, grid, memory, number)
            self.function(*(thread.shown(thread.frame.variables[name]) for name, _ in self.arguments))


class _Executing(Builder):
    """A builder whose operations happen at once, but in a block that is not finished."""

    def __init__(self, machine: LaneMachine):
        super().__init__()
        self.machine = machine

    def append(self, op: ir.Op) -> None:
        if len(self._open) > 1:
            super().append(op)
        else:
            self.machine.execute(op)


class _Thread:
    """One thread: what the statements of the function call."""

    def __init__(self, steps: SteppedKernel, grid: tuple[int, ...], memory: dict[ir.Param, np.ndarray], number: int):
        self.steps = steps
        self.machine = LaneMachine(steps.kernel, grid, memory, number)
        context = Context(builder=_Executing(self.machine))
        context.params = steps.params
        self.frame = Frame(context, steps.source, {})
        context.builder.loc = steps.source.signature_loc
        # Read on a side of an expression that Python would not evaluate, or the thread fails.
        no, reason = context.builder.const(False, bool_), "nothing has set it"
        for name, value in steps.joined.get(steps.source.signature_loc, {}).items():
            zero = zeros_like(self.frame, value)
            self.frame.variables[name] = Undefined(reason, True, no, True, zero, is_checked=True)
        self.frame.variables.update(argument_values(self.frame, steps.arguments, steps.types, steps.params))

    # What the function calls

    def run(self, number: int) -> Any:
        """A simple statement; what its variables are afterwards."""
        node = self.steps.nodes[number]
        self.frame.perform(node, self.steps.live)
        variables = self.frame.variables
        shown = tuple(self.shown(variables[name]) for name in _stored(node, self.steps.source) if name in variables)
        return shown[0] if len(shown) == 1 else shown

    def test(self, number: int) -> bool:
        """The condition of an `if` or `while`."""
        node = self.steps.nodes[number]
        if isinstance(node, ast.While):
            self.join(number)
        with self.frame.at(node):
            return self._holds(node.test)

    def iterations(self, number: int) -> Iterator[Any]:
        """The numbers that a `for` goes through."""
        frame, node = self.frame, self.steps.nodes[number]
        self.join(number)
        with frame.at(node):
            found = iterated(frame, node, node.iter)
        if isinstance(found, Advancing):
            yield from self._advanced(node, number, found)
            return
        if isinstance(found, Elements):
            yield from self._elements(node, number, found.values)
            return
        with frame.at(node):
            dtype, name = index_type(found.bounds), range_variable(node)
            start, stop, step = (int(self.machine.value(frame.typed(b, dtype))) for b in found.bounds)
        is_unrolled = frame.loc(node) not in self.steps.joined
        numbers = range(start, stop, step) if step else range(0)
        for iteration in numbers[::-1] if found.is_reversed else numbers:
            self.join(number)
            with frame.at(node):
                index = frame.typed(iteration, dtype) if is_unrolled else frame.builder.const(iteration, dtype)
            frame.variables[name] = index
            yield self.shown(index)

    def _elements(self, node: ast.For, number: int, values: Sequence[Any]) -> Iterator[Any]:
        frame = self.frame
        is_unrolled = frame.loc(node) not in self.steps.joined
        for k, element in enumerate(values):
            self.join(number)
            with frame.at(node):
                value = element if is_unrolled else pick(frame, values, frame.builder.const(k, int32))
                assign(frame, node.target, value)
            yield self.shown(value)

    def _advanced(self, node: ast.For, number: int, found: Advancing) -> Iterator[Any]:
        frame, test = self.frame, next_call(node)
        with entered(frame, node, found):
            while self._holds(test):
                self.join(number)
                with frame.at(node):
                    assign(frame, node.target, frame.evaluate(item_of(node)))
                yield self.shown(frame.evaluate(item_of(node)))

    def _holds(self, node: ast.expr) -> bool:
        test = self.frame.test(node)
        return test if isinstance(test, bool) else bool(self.machine.value(test))

    def join(self, number: int) -> None:
        """Join paths that meet: literals take the type that the variable has there, and other tiles become copies."""
        node, variables = self.steps.nodes[number], self.frame.variables
        for name, dtype in self.steps.joined.get(self.frame.loc(node), {}).items():
            value = variables.get(name)
            with self.frame.at(node):
                if is_literal(value):
                    variables[name] = _adopted(self.frame, value, dtype)
                elif isinstance(value, Tile) and name in rebound([node]):
                    variables[name] = copied(self.frame, value)

    # What users see

    def shown(self, value: Any) -> Any:
        """A value of the frontend as Python and NumPy have it."""
        match value:
            case ir.Value():
                return self.machine.value(value)
            case Bundle():
                return np.array([self.machine.value(v) for v in value.values]).reshape(value.type.shape)
            case View():
                return self._part(value)
            case tuple():
                return tuple(map(self.shown, value))
            case StructValue():
                return self._struct(value.type.kind, value.type, value.values)
            case StructView():
                return self._struct(value.dtype.kind, value.dtype, value.views)
            case Host():
                return value.value
            case NoArray():
                return None
            case _:
                return value

    def _struct(self, kind: type, struct: Struct, values: Sequence[Any]) -> Any:
        """An instance of the struct's class."""
        made = object.__new__(kind)
        made.__dict__.update({f.name: self.shown(v) for f, v in zip(struct.fields, values, strict=True)})
        return made

    def _part(self, view: View) -> Any:
        """An array, or the part of it that a view is; None if that is not inside of it."""
        number = lambda value: int(self.machine.value(value))  # noqa: E731
        key: list[Any] = []
        free = [axis for axis in view.axes if axis.index is None]
        through = [(at, axis.through) for at, axis in enumerate(free) if axis.through is not None]
        for axis in view.axes:
            if axis.index is not None:
                key.append(number(axis.index))
            elif axis.extent is not None:
                first = 0 if axis.offset is None else number(axis.offset)
                step = 1 if axis.step is None else number(axis.step)
                stop = first + step * number(axis.extent)
                key.append(slice(first, None if stop < 0 else stop, step) if stop != first else slice(0))
            else:
                key.append(slice(None))
        try:
            found = self.machine.array(view.param)[tuple(key)]
            for at, indices in through:
                found = np.take(found, self._part(indices), at)
            return found
        except IndexError:
            return None


def _around(function: Callable[..., Any]) -> dict[str, Any]:
    """Return what the names of a function stand for now: Python's calls are made on the objects themselves."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    filled = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    return {**function.__globals__, **filled}


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _adopted(frame: Frame, value: Any, dtype: Any) -> Any:
    try:
        return typed(frame, value, dtype)
    except MismatchError:
        return value


def _stored(node: ast.stmt, source: Source) -> list[str]:
    """Variables that a simple statement sets or advances, wholly or in part."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", ast.Pass())]
    return list(dict.fromkeys((*assigned(targets), *advanced(source, [node]))))


_Node = TypeVar("_Node", bound=ast.stmt | ast.expr)


def _on_line(made: _Node, line: int) -> _Node:
    """All of it on one line: where a call spans several, Python stops on its last one."""
    for node in ast.walk(made):
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = 0
    return made


class _Writer:
    """Writes the function that Python runs; in `tree`, the frontend's, calls of Python's functions are left out."""

    def __init__(self, source: Source):
        self.source = source
        self.tree: ast.FunctionDef = copy.deepcopy(source.tree)
        self.nodes: list[Any] = []
        self.loops: list[int] = []
        names = {a.arg for a in (*self.tree.args.args, *self.tree.args.posonlyargs, *self.tree.args.kwonlyargs)}
        self.own_names = names | source.locals

    def function(self) -> ast.FunctionDef:
        args = [ast.arg(a.arg) for a in self.tree.args.args]
        arguments = ast.arguments(posonlyargs=[], args=args, kwonlyargs=[], kw_defaults=[], defaults=[])
        body = self.block(self.tree.body)
        made = ast.FunctionDef(self.tree.name, arguments, body, [], returns=None)
        return ast.fix_missing_locations(ast.copy_location(made, self.tree))

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The statements for Python. Those that the language does not have leave the list."""
        made: list[ast.stmt] = []
        kept: list[ast.stmt] = []
        for node in statements:
            if self.is_pythons(node):
                made.append(copy.deepcopy(node))
            else:
                kept.append(node)
                made += self.statement(node)
        statements[:] = kept or [ast.copy_location(ast.Pass(), statements[0])]
        return made

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        match node:
            case ast.If():
                return self.conditional(node)
            case ast.While() | ast.For():
                return self.loop(node)
            case ast.Break():
                return [self.step("join", self.loops[-1], node), node] if self.loops else [node]
            case ast.Continue() | ast.Pass() | ast.Return(value=None):
                return [node]
            case _:
                return [self.simple(node)]

    def simple(self, node: ast.stmt) -> ast.stmt:
        number = self.number(node)
        stored = _stored(node, self.source)
        names: list[ast.expr] = [ast.Name(n, ast.Store()) for n in stored if n in self.own_names]
        if not names or len(names) != len(stored):
            return _on_line(ast.Expr(self.call("run", number)), node.lineno)
        target = names[0] if len(names) == 1 else ast.Tuple(names, ast.Store())
        return _on_line(ast.Assign([target], self.call("run", number)), node.lineno)

    def conditional(self, node: ast.If) -> list[ast.stmt]:
        number = self.number(node)
        body = [*self.block(node.body), self.step("join", number, node.body[-1])]
        orelse = self.block(node.orelse) if node.orelse else []
        orelse.append(self.step("join", number, node.orelse[-1] if node.orelse else node))
        return [ast.copy_location(ast.If(_on_line(self.call("test", number), node.lineno), body, orelse), node)]

    def loop(self, node: ast.While | ast.For) -> list[ast.stmt]:
        number = self.number(node)
        self.loops.append(number)
        body = self.block(node.body)
        self.loops.pop()
        made: ast.stmt
        if isinstance(node, ast.While):
            made = ast.While(_on_line(self.call("test", number), node.lineno), body, [])
        else:
            iterations = _on_line(self.call("iterations", number), node.lineno)
            made = ast.For(copy.deepcopy(node.target), iterations, body, [])
        return [ast.copy_location(made, node), self.step("join", number, node)]

    def number(self, node: ast.stmt) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def call(self, method: str, number: int) -> ast.expr:
        function = ast.Attribute(ast.Name(_NAME, ast.Load()), method, ast.Load())
        return ast.Call(function, [ast.Constant(number)], [])

    def step(self, method: str, number: int, like: ast.stmt) -> ast.stmt:
        """A call on the line of a statement: its last one, if it is simple and has several."""
        line = like.lineno if isinstance(like, ast.If | ast.While | ast.For) else like.end_lineno or like.lineno
        return _on_line(ast.Expr(self.call(method, number)), line)

    def is_pythons(self, node: ast.stmt) -> bool:
        """A call for its effect of a function that is Python's, like `print(...)`."""
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            return False
        found = self._object(node.value.func)
        value = capture(found) if found is not Missing else None
        return isinstance(value, Host) and callable(value.value) and not isinstance(value.value, (Function, Func))

    def _object(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name) and node.id not in self.own_names:
            found = self.source.lookup(node.id)
            return getattr(builtins, node.id, Missing) if found is Missing else found
        if isinstance(node, ast.Attribute):
            owner = self._object(node.value)
            return Missing if owner is Missing else getattr(owner, node.attr, Missing)
        return Missing
