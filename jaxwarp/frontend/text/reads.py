"""The values around a function that its text reads: found once for all functions that are made of one code.

A factory makes a function in each step. What its names hold may differ from one to the next, which names there are does
not.
"""

from __future__ import annotations

import ast
import functools
import types
from dataclasses import dataclass, field

from jaxwarp.frontend.text.source import Definition
from jaxwarp.frontend.text.tree import children, walk

# What users call functions that stand for operators, as in Warp.
OPERATOR_FUNCTIONS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.MatMult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "bit_and",
    ast.BitOr: "bit_or", ast.BitXor: "bit_xor", ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert",
}  # fmt: skip

_NAMED = (ast.Name, ast.Attribute)
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, eq=False)
class Chain:
    """An attribute of a name, or of such an attribute: `settings.solver.dt` is one, `settings.solver` another one.

    Attributes:
        text: as it is written.
        base: that of what has the attribute.
        name: of the attribute.
        node: an expression that is the chain.
    """

    text: str
    base: str
    name: str
    node: ast.Attribute


@dataclass(frozen=True, eq=False)
class StaticExpression:
    """A static expression.

    Attributes:
        names: that it reads, and does not bind itself.
        inside: what it reads, if it has no value when the function is defined.
        is_flat: whether nothing in it has names of its own.
    """

    argument: ast.expr
    names: frozenset[str]
    inside: Reads
    is_flat: bool

    def code(self, file: str) -> types.CodeType:
        return compile(ast.Expression(self.argument), file, "eval")


@dataclass(frozen=True, eq=False)
class Reads:
    """Everything that a part of a text reads.

    Attributes:
        names: in order.
        chains: each after the one that it is an attribute of.
        operators: the names of the functions that may stand for its operators.
        statics: its static expressions; what is inside of them is left out here.
        bare: names and chains that are more than what others are attributes of.
        evaluated: names in annotations of variables, which Python evaluates when the function is lowered.
    """

    names: dict[str, None] = field(default_factory=dict)
    chains: dict[str, Chain] = field(default_factory=dict)
    operators: dict[str, None] = field(default_factory=dict)
    statics: list[StaticExpression] = field(default_factory=list)
    bare: set[str] = field(default_factory=set)
    evaluated: set[str] = field(default_factory=set)


def callees(definition: Definition) -> tuple[tuple[str, ast.expr], ...]:
    """Return the names and chains that are called with one argument, each once: one of them may be `static`."""
    found = definition.kept.get(callees)
    if found is None:
        calls = (n for n in definition.by_kind.get(ast.Call, ()) if len(n.args) == 1)
        texts = {text: call.func for call in calls if (text := text_of(call.func)) is not None}
        found = definition.kept[callees] = tuple(texts.items())
    return found


def reads_of(definition: Definition, static: frozenset[str]) -> Reads:
    """Return what a function reads; `static` are the callees that are `static`."""
    found = definition.kept.get((reads_of, static))
    if found is None:
        found = definition.kept[reads_of, static] = _read([definition.tree], static)
    return found


def body_reads(definition: Definition, static: frozenset[str]) -> Reads:
    """Return what the statements of a function read: not its decorators, annotations and defaults."""
    found = definition.kept.get((body_reads, static))
    if found is None:
        found = definition.kept[body_reads, static] = _read([*definition.tree.body], static)
    return found


def has_calls_in_annotations(definition: Definition) -> bool:
    """Return whether an annotation of a variable calls something."""
    found = definition.kept.get(has_calls_in_annotations)
    if found is None:
        nodes = (n.annotation for n in definition.by_kind.get(ast.AnnAssign, ()))
        found = any(isinstance(n, ast.Call) for annotation in nodes for n in ast.walk(annotation))
        definition.kept[has_calls_in_annotations] = found
    return found


@functools.lru_cache(maxsize=1024)  # most kernels have the same few annotations
def parsed(text: str) -> ast.expr:
    """Return the expression that an annotation is, if that is a text; nobody changes it."""
    return ast.parse(text, mode="eval").body


@functools.lru_cache(maxsize=1024)
def reads_of_text(text: str) -> Reads | None:
    """Return what an annotation that is a text reads; None if it could be more than names and their attributes."""
    try:
        tree = parsed(text)
    except SyntaxError:
        return None
    is_plain = not any(isinstance(node, (ast.Call, ast.NamedExpr, *_SCOPES)) for node in walk(tree))
    return _read([tree], frozenset()) if is_plain else None


def text_of(node: ast.AST) -> str | None:
    """Return a name or an attribute of one as it is written; None of any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := text_of(node.value)) is not None:
        return f"{base}.{node.attr}"
    return None


def _read(nodes: list[ast.AST], static: frozenset[str]) -> Reads:
    found = Reads()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        kind = type(node)
        if kind is ast.Constant:
            continue
        text = text_of(node) if kind in _NAMED else None
        if text is not None:
            found.bare.add(text)
            _add(found, node, text)
            continue
        if isinstance(node, ast.operator | ast.unaryop):
            found.operators[OPERATOR_FUNCTIONS.get(kind, "not")] = None
            continue
        if isinstance(node, ast.AnnAssign):
            found.evaluated.update(n.id for n in ast.walk(node.annotation) if isinstance(n, ast.Name))
        if static and isinstance(node, ast.Call) and len(node.args) == 1 and text_of(node.func) in static:
            found.statics.append(_static(node.args[0], static))
            pending.append(node.func)
        else:
            pending += children(node)
    return found


def _add(found: Reads, node: ast.AST, text: str) -> None:
    """Adds a name, or a chain after what it is an attribute of."""
    if isinstance(node, ast.Name):
        found.names[text] = None
        return
    assert isinstance(node, ast.Attribute)
    base = text[: -len(node.attr) - 1]
    _add(found, node.value, base)
    if text not in found.chains:
        found.chains[text] = Chain(text, base, node.attr, node)


def _static(argument: ast.expr, static: frozenset[str]) -> StaticExpression:
    nodes = list(ast.walk(argument))
    own = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # of comprehensions
    names = frozenset(n.id for n in nodes if isinstance(n, ast.Name)) - own
    return StaticExpression(argument, names, _read([argument], static), not any(isinstance(n, _SCOPES) for n in nodes))
