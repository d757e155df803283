"""A Python function as the frontend sees it: its syntax tree, the values of its names, its lines."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from jaxwarp.errors import KernelError, KernelNameError, KernelSyntaxError, KernelTypeError, KernelValueError, Loc
from jaxwarp.frontend.liveness import Liveness


class Missing:
    """Marks a name that has no value (yet): `None` is a value a user may capture."""


@dataclass(frozen=True, eq=False)
class Source:
    """A function, read once when it is decorated.

    Attributes:
        name: what messages call it.
        file: what `linecache` knows its text by.
        tree: the function's definition, positions as in the file.
        function: the Python function itself.
        captured: values its free names had at decoration; names without one then are looked up when needed.
    """

    name: str
    file: str
    tree: ast.FunctionDef
    function: Any  # a types.FunctionType, which checkers would take for a method
    lines: tuple[str, ...]
    captured: dict[str, Any] = field(default_factory=dict)
    liveness: Liveness = field(default_factory=Liveness)
    _spans: dict[ast.AST, Loc] = field(default_factory=dict)

    @cached_property
    def locals(self) -> frozenset[str]:
        """Names that the function assigns to."""
        names = (n for n in ast.walk(self.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        return frozenset(n.id for n in names)

    def loc(self, node: ast.AST, inlined_at: Loc | None = None) -> Loc:
        """The span of a node, in characters (Python counts bytes)."""
        span = self._spans.get(node)
        if span is None:
            span = self._spans[node] = self._span(node)
        return span if inlined_at is None else replace(span, inlined_at=inlined_at)

    def _span(self, node: ast.AST) -> Loc:
        line: int = getattr(node, "lineno", self.tree.lineno)
        end_line: int = getattr(node, "end_lineno", line)
        column = self._column(line, getattr(node, "col_offset", 0))
        end_column = self._column(end_line, getattr(node, "end_col_offset", 0))
        return Loc(self.file, line, column, end_line, end_column, self.name)

    def _column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))

    @property
    def signature_loc(self) -> Loc:
        """The line of `def`, under its name."""
        tree = self.tree
        start = self._column(tree.lineno, tree.col_offset)
        text = self.lines[tree.lineno - 1]
        found = text.find(tree.name, start + len("def"))
        column = found if found >= 0 else start
        return Loc(self.file, tree.lineno, column, tree.lineno, column + len(tree.name), self.name)

    def lookup(self, name: str) -> Any:
        """The value of a free name: closure, then globals, then Python's own; `Missing` if there is none."""
        if name in self.captured:
            return self.captured[name]
        return _find(self.function, name)

    def free_names(self) -> list[str]:
        """Names that can be read here besides local ones, for suggestions."""
        return [*self.function.__code__.co_freevars, *self.function.__globals__]


def read_source(function: Any, decorator: str, scope: Mapping[str, Any]) -> Source:
    """Finds the text of a function.

    Args:
        scope: the local names where it is defined: annotations may use them.

    Raises:
        KernelTypeError: not a plain Python function.
        KernelSyntaxError: a lambda or another kind of function that has no body of statements.
        KernelValueError: its source is not available.
    """
    if not isinstance(function, types.FunctionType):
        raise KernelTypeError(f"@{decorator} expects a Python function, got {type(function).__name__}")
    if function.__name__ == "<lambda>":
        raise KernelSyntaxError(
            f"@{decorator} cannot be applied to a lambda", hint="write it as a function with def and a name"
        )
    code = function.__code__
    lines = _lines(function)
    tree = _find_tree("".join(lines), code.co_firstlineno, function.__name__)
    if isinstance(tree, ast.AsyncFunctionDef):
        raise KernelSyntaxError(f"{function.__name__}: @{decorator} cannot be applied to async def", hint="use def")
    if tree is None:
        raise KernelValueError(
            f"the source of {function.__name__} was not found at {code.co_filename}:{code.co_firstlineno}",
            hint="the file may have changed since it was imported; reload it",
        )
    source = Source(function.__name__, code.co_filename, tree, function, tuple(lines))
    source.captured.update(_capture(source, scope))
    return source


def _lines(function: types.FunctionType) -> list[str]:
    file = function.__code__.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file, function.__globals__)
    if not lines:
        raise KernelValueError(
            f"the source of {function.__name__} is not available ({file})",
            hint="define it in a file or a notebook cell; for source made by a program, register the text before exec: "
            "linecache.cache[name] = (len(text), None, text.splitlines(True), name), compiled under that name",
        )
    return lines


@lru_cache(maxsize=256)
def _parse(text: str) -> ast.Module:
    return ast.parse(text)


def _find_tree(text: str, first_line: int, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The definition whose first line (of its decorators, if any) is the code object's."""
    try:
        module = _parse(text)
    except SyntaxError:
        # A notebook cell may hold lines that are not Python (magics): its function can be read on its own.
        return _find_in_block(text, first_line, name)
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == first_line:
                return node
    return None


def _find_in_block(text: str, first_line: int, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    lines = text.splitlines(keepends=True)
    block = inspect.getblock(lines[first_line - 1 :])
    indented = block[0][:1].isspace()
    # "if 1:" makes an indented definition a module of its own without touching its columns.
    try:
        module = ast.parse("if 1:\n" + "".join(block) if indented else "".join(block))
    except SyntaxError:
        return None
    ast.increment_lineno(module, first_line - 1 - (1 if indented else 0))
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return node
    return None


def _find(function: types.FunctionType, name: str) -> Any:
    code = function.__code__
    if name in code.co_freevars and function.__closure__ is not None:
        try:
            return function.__closure__[code.co_freevars.index(name)].cell_contents
        except ValueError:  # an empty cell: the name is bound later
            return Missing
    if name in function.__globals__:
        return function.__globals__[name]
    return getattr(builtins, name, Missing)


def _capture(source: Source, scope: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the names that the function reads, as they are now.

    A kernel defined in a loop keeps the values of its iteration. Its own name is left out: it may
    still get further overloads.
    """
    captured: dict[str, Any] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id not in captured and node.id != source.name:
            value = _find(source.function, node.id)
            if value is not Missing:
                captured[node.id] = value
    # With `from __future__ import annotations` a name that only annotations use is in no closure.
    arguments = source.tree.args
    annotations = [a.annotation for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    for annotation in [*annotations, source.tree.returns]:
        for node in ast.walk(annotation) if annotation is not None else ():
            if isinstance(node, ast.Name) and node.id in scope:
                captured[node.id] = scope[node.id]
    return captured


def evaluate_host(source: Source, node: ast.expr, variables: dict[str, Any], loc: Loc) -> Any:
    """Evaluates an expression of the kernel's text in Python: annotations, `static(...)`.

    Args:
        variables: local names that have a constant value (variables of unrolled loops).
    """
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    found = {name: source.lookup(name) for name in names}
    scope = {name: value for name, value in found.items() if value is not Missing} | variables
    code = compile(ast.Expression(node), source.file, "eval")
    try:
        return eval(code, source.function.__globals__ | scope)
    except KernelError as error:
        error.loc = error.loc or loc
        raise
    except NameError as error:
        raise KernelNameError(str(error), loc) from error
    except Exception as error:
        raise KernelValueError(f"the expression raised {type(error).__name__}: {error}", loc) from error
