"""The names that a piece of syntax assigns, reads and needs, which decide what branches and loops hand on."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from jaxwarp.frontend.text.tree import children, walk

_LOOPS = (ast.For, ast.While)


@dataclass(eq=False)
class NameLiveness:
    """Answers about the nodes of one function, remembered."""

    _uses: dict[ast.AST, frozenset[str]] = field(default_factory=dict)

    def uses(self, node: ast.AST) -> frozenset[str]:
        """Names read anywhere in a node."""
        found = self._uses.get(node)
        if found is None:
            found = self._uses[node] = self._read(node)
        return found

    def _read(self, node: ast.AST) -> frozenset[str]:
        # By way of the children, whose answers are kept: branches in branches are asked about at every level.
        if isinstance(node, ast.Name):
            return frozenset((node.id,)) if isinstance(node.ctx, ast.Load) else frozenset()
        read = frozenset[str]().union(*map(self.uses, children(node)))
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            read |= {node.target.id}
        return read

    def before(self, statements: Sequence[ast.stmt], live: frozenset[str]) -> frozenset[str]:
        """Names that may be read from the start of `statements` on, if `live` are those read after them."""
        return self.after_each(statements, live)[0]

    def after_each(self, statements: Sequence[ast.stmt], live: frozenset[str]) -> list[frozenset[str]]:
        """Names that may be read from each statement on; in the end `live`, those read after all of them."""
        found = [live]
        for node in reversed(statements):
            live = (live - _overwritten(node)) | self.uses(node)
            found.append(live)
        return found[::-1]


def _overwritten(node: ast.stmt) -> frozenset[str]:
    """Names whose old value is gone after a statement, whatever path it takes."""
    if isinstance(node, ast.Assign):
        return frozenset(name for target in node.targets for name in plain_names(target))
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return frozenset(plain_names(node.target))
    return frozenset()


# What changes a tile in place, as in Warp; `t *= u` is `t = t * u`.
IN_PLACE = (ast.Add, ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)


def rebound(statements: Sequence[ast.AST]) -> frozenset[str]:
    """Names that statements give another object: `x = ...`, but not `x += ...`, which may change the object itself."""
    nodes = [n for s in statements for n in walk(s)]
    updated = {id(n.target) for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.op, IN_PLACE)}
    stored = (n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return frozenset(n.id for n in stored if id(n) not in updated)


def plain_names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for element in target.elts for name in plain_names(element)]
    return []


def assigned(statements: Sequence[ast.AST]) -> list[str]:
    """Local names that the statements assign to, wholly or in part (`v[0] = x`), in order."""
    names: dict[str, None] = {}
    for statement in statements:
        for node in walk(statement):
            if isinstance(node, (ast.Name, ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                root: ast.AST = node
                while isinstance(root, (ast.Subscript, ast.Attribute)):
                    root = root.value
                if isinstance(root, ast.Name):
                    names[root.id] = None
    return list(names)


def always_exits(statements: Sequence[ast.stmt]) -> bool:
    """Every path through the statements ends in return, break or continue."""
    for node in statements:
        if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
            return True
        if isinstance(node, ast.If) and always_exits(node.body) and always_exits(node.orelse):
            return True
    return False


@dataclass(frozen=True)
class Exits:
    """The ways to leave the body of a loop early."""

    breaks: bool
    continues: bool
    returns: bool


def exits(statements: Sequence[ast.stmt]) -> Exits:
    """`break` and `continue` of the loop whose body this is; `return` at any depth."""
    breaks = continues = returns = False
    pending: list[ast.AST] = list(statements)
    while pending:
        node = pending.pop()
        breaks |= isinstance(node, ast.Break)
        continues |= isinstance(node, ast.Continue)
        returns |= isinstance(node, ast.Return)
        if isinstance(node, _LOOPS):
            returns |= any(isinstance(n, ast.Return) for n in walk(node))
        else:
            pending += children(node)
    return Exits(breaks, continues, returns)


Names = frozenset[str] | None
"""Names that have been set wherever a place is reached; None where it never is."""


@dataclass(frozen=True)
class SurelySet:
    """Names that have a value at the end of a block, at each `break` of its loop, and at each `continue`."""

    end: Names
    breaks: Names
    continues: Names


def surely_set(statements: Sequence[ast.stmt], before: Names = frozenset()) -> SurelySet:
    """Return what a block sets on every path. A loop in it that may make no iteration sets nothing."""
    end, breaks, continues = before, None, None
    for node in statements:
        if end is None:
            break
        match node:
            case ast.Break():
                end, breaks = None, _both(breaks, end)
            case ast.Continue():
                end, continues = None, _both(continues, end)
            case ast.Return():
                end = None
            case ast.If():
                sides = surely_set(node.body, end), surely_set(node.orelse, end)
                end = _both(sides[0].end, sides[1].end)
                breaks = _both(breaks, _both(sides[0].breaks, sides[1].breaks))
                continues = _both(continues, _both(sides[0].continues, sides[1].continues))
            case ast.While(test=ast.Constant(value=value)) if value:
                end = surely_set(node.body, end).breaks
            case _:
                end |= _overwritten(node)
    return SurelySet(end, breaks, continues)


def _both(a: Names, b: Names) -> Names:
    return b if a is None else a if b is None else a & b
