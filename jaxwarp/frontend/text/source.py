"""A Python function as the frontend sees it: its syntax tree, the values of its names, its lines."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from jaxwarp.errors import Loc
from jaxwarp.frontend.text.host_values import Missing, find, frozen
from jaxwarp.frontend.text.liveness import NameLiveness
from jaxwarp.frontend.text.tree import walk
from jaxwarp.unlocked import cached_property


@dataclass(frozen=True, eq=False)
class Definition:
    """The text of a function: one object for all functions that are made of one code.

    Attributes:
        tree: the function's definition, positions as in the file.
        lines: those of the file.
        kept: what is found out about the text, by what asked for it.
    """

    tree: ast.FunctionDef
    lines: tuple[str, ...]
    kept: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree but contexts."""
        return tuple(walk(self.tree))

    @cached_property
    def by_kind(self) -> dict[type[ast.AST], list[Any]]:
        """The nodes by their class, in order."""
        found: dict[type[ast.AST], list[Any]] = {}
        for node in self.nodes:
            found.setdefault(type(node), []).append(node)
        return found

    @cached_property
    def locals(self) -> frozenset[str]:
        """Names that the function assigns to."""
        names = self.by_kind.get(ast.Name, ())
        return frozenset(n.id for n in names if isinstance(n.ctx, ast.Store))

    @cached_property
    def bound(self) -> frozenset[str]:
        """Names that something in the function binds: these, its arguments, those of lambdas in static expressions."""
        return self.locals.union(n.arg for n in self.by_kind.get(ast.arg, ()))


@dataclass(frozen=True, eq=False)
class Source:
    """A function, read once when it is decorated.

    Attributes:
        name: what messages call it.
        file: what `linecache` knows its text by.
        definition: its text.
        function: the Python function itself.
        captured: the values of its free names, see constants.py.
        attributes: likewise those of their attributes, with the objects that have them, by its identity and the name.
        statics: likewise those of static expressions.
        compared: names and attributes whose values were asked for again when the function was first lowered.
        late: names that were looked up after the definition, with what was found, or `Missing`.
        before: of the definition: how many `attributes` had a value then, and what it calls that is `static`.
    """

    name: str
    file: str
    definition: Definition
    function: Any  # a types.FunctionType, which checkers would take for a method
    captured: dict[str, Any] = field(default_factory=dict)
    attributes: dict[tuple[int, str], tuple[Any, Any]] = field(default_factory=dict)
    statics: dict[Any, Any] = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)
    late: dict[str, Any] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    liveness: NameLiveness = field(default_factory=NameLiveness)
    _spans: dict[ast.AST, Loc] = field(default_factory=dict)

    @property
    def tree(self) -> ast.FunctionDef:
        return self.definition.tree

    @property
    def lines(self) -> tuple[str, ...]:
        return self.definition.lines

    @property
    def locals(self) -> frozenset[str]:
        """Names that the function assigns to."""
        return self.definition.locals

    @property
    def bound(self) -> frozenset[str]:
        """Names that something in the function binds."""
        return self.definition.bound

    def loc(self, node: ast.AST, inlined_at: Loc | None = None) -> Loc:
        """The span of a node, in characters (Python counts bytes)."""
        span = self._spans.get(node)
        if span is None:
            span = self._spans[node] = self._span(node)
        if inlined_at is None:
            return span
        return Loc(span.file, span.line, span.column, span.end_line, span.end_column, span.function, inlined_at)

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
        """The value of a free name, `Missing` if there is none. It is kept, but that of the function's own name."""
        if name in self.captured:
            return self.captured[name]
        value = find(self.function, name)
        if value is Missing or name == self.name:
            if "attributes" in self.before:
                self.late[name] = value
            return value
        kept = self.captured.setdefault(name, frozen(value))
        if "attributes" in self.before:
            self.late[name] = kept
        return kept

    def attribute(self, host: object, name: str) -> Any:
        """The value of an attribute. It is kept.

        Raises:
            AttributeError: there is none.
        """
        key = id(host), name
        if key not in self.attributes:
            self.attributes.setdefault(key, (host, frozen(getattr(host, name))))
        return self.attributes[key][1]

    def free_names(self) -> list[str]:
        """Names that can be read here besides local ones, for suggestions."""
        return [*self.function.__code__.co_freevars, *self.function.__globals__]
