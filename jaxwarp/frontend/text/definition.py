"""The text of a Python function: found where its code says, and proved to be its text.

What a program finds under a function's file and line is what stands there *now*: an editor, `git checkout` or `pip` may
have changed it since the function was compiled. So the definition found is compiled, and its bytecode compared.
"""

from __future__ import annotations
import __future__

import ast
import gc
import inspect
import linecache
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from itertools import pairwise, product

from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import KernelValueError, Loc

# Those of a function's flags that say how its text is compiled.
_FUTURES = reduce(int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
# What code consists of that decides what it does: not its place, nor the names of what encloses it.
_PARTS = (
    "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_posonlyargcount",
    "co_kwonlyargcount", "co_exceptiontable",
)  # fmt: skip
_KINDS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR
# Fields of modules and statements that hold statements, or what holds such.
_STATEMENTS = frozenset(("body", "handlers", "orelse", "finalbody", "cases"))
# As Python was started, then as files may have been compiled before.
_LEVELS = (-1, *(level for level in (0, 1, 2) if level != sys.flags.optimize))


def find_definition(function: types.FunctionType) -> tuple[ast.FunctionDef, tuple[str, ...]]:
    """The definition of a function, positions as in its file, and the lines of the file.

    Raises:
        KernelValueError: there is no text, or it is not the function's any more.
    """
    code, found = function.__code__, None
    for lines in _texts(function):
        file = _read(code.co_filename, lines)
        tree = file.definition(function)
        if tree is not None and (file.is_of(code) or is_text_of(tree, function, file.imports)):
            return tree, file.lines
        found = tree or found
    hint = "the file has changed since it was imported: reload it (importlib.reload(module)), or start Python again"
    if found is None:
        where = f"{code.co_filename}:{code.co_firstlineno}"
        raise KernelValueError(f"the source of {function.__name__} was not found at {where}", hint=hint)
    raise KernelValueError(
        f"{function.__name__} is not what its file says now",
        Loc(code.co_filename, found.lineno, found.col_offset, found.lineno, found.col_offset + len("def")),
        hint=hint,
    )


def _texts(function: types.FunctionType) -> Iterator[list[str]]:
    """The file as it was when it was last looked at; then, if it has changed, as it is."""
    file = function.__code__.co_filename
    before = linecache.getlines(file, function.__globals__)
    yield from [before] if before else []
    linecache.checkcache(file)
    now = linecache.getlines(file, function.__globals__)
    if now and now != before:
        yield now
    if not now and not before:
        raise KernelValueError(
            f"the source of {function.__name__} is not available ({file})",
            hint="define it in a file or a notebook cell; for source made by a program, register the text before exec: "
            "linecache.cache[name] = (len(text), None, text.splitlines(True), name), compiled under that name",
        )


class _File:
    """The contents of a file.

    Attributes:
        given: its lines, as `linecache` has them.
        lines: these.
        imports: the names that it imports, if it is Python.
    """

    def __init__(self, lines: list[str]):
        self.given, self.lines = lines, tuple(lines)
        text = "".join(lines)
        self._definitions: dict[tuple[str, int], ast.FunctionDef] | None = None
        self._codes: dict[tuple[str, int], types.CodeType] = {}
        self.imports = frozenset[str]()
        try:
            module = ast.parse(text)
        except SyntaxError:
            return
        self._definitions = {(n.name, min([n.lineno, *(d.lineno for d in n.decorator_list)])): n for n in _defs(module)}
        self.imports = frozenset(_imports(module))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they came when it was imported
                whole = compile(module, "<text>", "exec", 0, True)
        except (SyntaxError, ValueError, RecursionError):  # cells may await or return, and be deep
            return
        self._codes = {(c.co_name, c.co_firstlineno): c for c in _codes(whole)}

    def definition(self, function: types.FunctionType) -> ast.FunctionDef | None:
        """The one whose first line, of the decorators, if any, is that of the function's code."""
        line, name = function.__code__.co_firstlineno, function.__code__.co_name
        if self._definitions is None:  # a notebook cell may hold lines that are not Python (magics)
            return _find_in_block(self.given, line, name)
        return self._definitions.get((name, line))

    def is_of(self, code: types.CodeType) -> bool:
        """Return whether the text, compiled as a whole, contains this code, to the column."""
        made = self._codes.get((code.co_name, code.co_firstlineno))
        return made is not None and _same(made, code) and made.co_linetable == code.co_linetable


_files: dict[str, _File] = {}
_MOST_FILES = 256


def _read(name: str, lines: list[str]) -> _File:
    """Return the contents of a file, from the cache unless `linecache` has other lines since."""
    known = _files.get(name)
    if known is None or known.given is not lines:
        if len(_files) >= _MOST_FILES:
            _files.clear()
        with uncollected():
            known = _files[name] = _File(lines)
    return known


@contextmanager
def uncollected() -> Iterator[None]:
    """Suspend garbage collection: objects made meanwhile are kept, and each collection would search them and JAX."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _defs(module: ast.Module) -> Iterator[ast.FunctionDef]:
    """The definitions of functions."""
    pending: list[ast.AST] = [module]
    for node in pending:
        if isinstance(node, ast.FunctionDef):
            yield node
        for name in _STATEMENTS.intersection(node._fields):
            pending += getattr(node, name, ())


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the codes of functions inside of a code."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            if inner.co_flags & inspect.CO_NEWLOCALS:
                yield inner
            yield from _codes(inner)


def _imports(node: ast.AST) -> Iterator[str]:
    """The names that statements outside of functions and classes import."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.split(".")[0] for alias in inner.names)
        elif not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            yield from _imports(inner)


def _find_in_block(lines: list[str], first_line: int, name: str) -> ast.FunctionDef | None:
    """A definition that can be read on its own."""
    block = inspect.getblock(lines[first_line - 1 :])
    indented = bool(block) and block[0][:1].isspace()
    # "if 1:" makes an indented definition a module of its own without touching its columns.
    try:
        module = ast.parse("if 1:\n" + "".join(block) if indented else "".join(block))
    except SyntaxError:
        return None
    ast.increment_lineno(module, first_line - 1 - (1 if indented else 0))
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    return None


def is_text_of(tree: ast.FunctionDef, function: types.FunctionType, imports: frozenset[str] = frozenset()) -> bool:
    """Return whether a definition compiles to the function's bytecode.

    Functions whose assertions pytest has rewritten are accepted as they are. Bytecode has no annotations of variables:
    a change of one shows in the columns of the code behind it.
    """
    nodes = [node for statement in tree.body for node in ast.walk(statement)]
    kinds = {type(node) for node in nodes}
    if ast.Assert in kinds and any(name.startswith("@py") for name in function.__code__.co_names):
        return True
    used = frozenset(node.id for node in nodes if isinstance(node, ast.Name))
    # Calls of attributes of imported names are compiled in another way, and notebooks compile each statement alone.
    for level, names in product(_LEVELS, dict.fromkeys((imports & used, frozenset[str](), used))):
        code = _compiled(tree, function, names, level)
        if code is not None and _same(code, function.__code__):
            return ast.AnnAssign not in kinds or _same_places(code, function.__code__)
    return False


@with_deep_stack
def _compiled(
    tree: ast.FunctionDef, function: types.FunctionType, imports: frozenset[str], level: int
) -> types.CodeType | None:
    """The code of a definition on its own: its free names are those of a function around it.

    Private names (`__x`) take the name of the nearest class around it.
    """
    code = function.__code__
    known, around = code.co_freevars, ast.parse(f"def around({', '.join(code.co_freevars)}): pass").body
    body = [tree] if tree.name in known else [ast.Global([tree.name], lineno=tree.lineno, col_offset=0), tree]
    around[0].body = body  # pyright: ignore[reportAttributeAccessIssue]
    owner = _class_around(function.__qualname__)
    if owner is not None:
        within = ast.parse(f"class {owner}: pass").body
        within[0].body = around  # pyright: ignore[reportAttributeAccessIssue]
        around = within
    before = ast.parse(f"import {', '.join(sorted(imports))}").body if imports else []
    module = ast.Module([*before, *around], [])
    try:
        made = compile(module, code.co_filename, "exec", code.co_flags & _FUTURES, True, level)
    except (SyntaxError, ValueError):
        return None
    return _code_at(made, tree.name, code.co_firstlineno)


def _class_around(qualified: str) -> str | None:
    """Return the class around a function: C for "C.method.<locals>.k" and for "C.k"."""
    *parts, _ = qualified.split(".")
    classes = [name for name, inside in pairwise([*parts, ""]) if "<locals>" not in (name, inside)]
    return classes[-1] if classes else None


def _code_at(code: types.CodeType, name: str, line: int) -> types.CodeType | None:
    return next((c for c in _codes(code) if (c.co_name, c.co_firstlineno) == (name, line)), None)


def _same(a: types.CodeType, b: types.CodeType) -> bool:
    """Return whether two codes do the same."""
    return (
        all(getattr(a, part) == getattr(b, part) for part in _PARTS)
        and (a.co_flags ^ b.co_flags) & _KINDS == 0
        and len(a.co_consts) == len(b.co_consts)
        and all(map(_same_constant, a.co_consts, b.co_consts))
    )


def _same_constant(a: object, b: object) -> bool:
    """Return whether constants have one type and value, to the last bit: 1 is not 1.0 or True, 0.0 is not -0.0."""
    if isinstance(a, types.CodeType) and isinstance(b, types.CodeType):
        return _same(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same_constant, a, b))
    if isinstance(a, frozenset):
        return a == b
    return type(a) is type(b) and repr(a) == repr(b)


def _same_places(a: types.CodeType, b: types.CodeType) -> bool:
    """Return whether instructions have the same places in the text; the same lines, if Python keeps no columns."""
    pairs = zip(a.co_positions(), b.co_positions(), strict=True)
    return all(None in (x, y) or x == y for p, q in pairs for x, y in zip(p, q, strict=True))
