"""The exact text of every error of the kernel language: message, line, caret, hint.

`errors.txt` holds a wrong program and its text, one after the other; `pytest --update-golden` writes the texts anew.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from language import define

import jaxwarp as wp
from jaxwarp.errors import KernelError, KernelSyntaxError
from jaxwarp.frontend.text.refused import REFUSED, UNAVAILABLE

FILE = Path(__file__).parents[1] / "errors.txt"


def read_cases() -> dict[str, tuple[str, str]]:
    blocks = re.split(r"^===== (.*)\n", FILE.read_text(), flags=re.MULTILINE)[1:]
    names, bodies = blocks[::2], blocks[1::2]
    return {name: tuple(body.split("-----\n")) for name, body in zip(names, bodies, strict=True)}


CASES = read_cases()


def error_of(source: str) -> str:
    """What defining and specialising the kernels of a program says."""

    def lower_all() -> None:
        for value in define(source).values():
            if isinstance(value, wp.Kernel):
                value.specialize()

    with pytest.raises(KernelError) as caught:
        lower_all()
    error = caught.value
    assert type(error) is not KernelError, "an error has a class of its own"
    text = re.sub(r"<test source \d+>", "tracing.py", str(error))
    return f"{type(error).__name__}: {text}\n"


@pytest.mark.parametrize("name", CASES)
def test_text_of_error(name, update_golden):
    source, expected = CASES[name]
    got = error_of(source)
    if update_golden:
        CASES[name] = (source, got)
        FILE.write_text("".join(f"===== {n}\n{s}-----\n{t}" for n, (s, t) in CASES.items()))
        return
    assert got == expected


# A statement or expression of every kind of Python's syntax that is refused, as the body of a kernel.
REFUSED_SOURCES = {
    "FunctionDef": "def f(): pass",
    "AsyncFunctionDef": "async def f(): pass",
    "ClassDef": "class C: pass",
    "Lambda": "x = lambda: 1",
    "Delete": "del n",
    "With": "with n: pass",
    "AsyncWith": None,  # these are no Python outside of async def
    "AsyncFor": None,
    "Await": None,
    "Match": "match n:\n        case 1: pass",
    "Raise": "raise n",
    "Try": "try: pass\n    finally: pass",
    "TryStar": "try: pass\n    except* ValueError: pass",
    "Import": "import math",
    "ImportFrom": "from math import pi",
    "Global": "global g",
    "Nonlocal": None,
    "TypeAlias": None,  # newer than the oldest Python supported
    "NamedExpr": "x = (y := n) + 1",
    "Dict": "x = {1: n}",
    "Set": "x = {n}",
    "List": "x = [n]",
    "ListComp": "x = [i for i in range(n)]",
    "SetComp": "x = {i for i in range(n)}",
    "DictComp": "x = {i: i for i in range(n)}",
    "GeneratorExp": "x = wp.max(i for i in range(n))",
    "Yield": "x = yield n",
    "YieldFrom": "yield from n",
    "FormattedValue": None,  # part of an f-string
    "JoinedStr": 'x = f"{n}"',
    "TemplateStr": None,
    "Interpolation": None,
    "Starred": "x = (*n, 1)",
    "Slice": None,  # in an index only, where it is handled or refused
}


def test_every_refused_construct_has_a_case():
    assert set(REFUSED_SOURCES) == set(REFUSED)


@pytest.mark.parametrize("kind", [k for k, source in REFUSED_SOURCES.items() if source is not None])
def test_refused_construct(kind):
    source = f"@wp.kernel\ndef k(n: int):\n    {REFUSED_SOURCES[kind]}\n"
    with pytest.raises(KernelSyntaxError) as caught:
        define(source)["k"].specialize()
    name, hint = REFUSED[kind]
    assert caught.value.message == f"{name} is not part of the kernel language"
    assert caught.value.hint == hint
    node = next(n for n in ast.walk(ast.parse(source).body[0].body[0]) if type(n).__name__ == kind)
    loc = caught.value.loc
    assert (loc.line, loc.column, loc.end_line, loc.end_column) == (
        node.lineno, node.col_offset, node.end_lineno, node.end_col_offset,
    )  # fmt: skip


def test_every_kind_of_syntax_is_lowered_or_refused():
    from jaxwarp.frontend.lowering import frame

    known = {t.__name__ for t in (*frame._EXPRESSIONS, *frame._STATEMENTS)} | set(REFUSED) | {"If"}
    kinds = {c.__name__ for base in (ast.expr, ast.stmt) for c in base.__subclasses__()}
    # Classes that Python keeps for old programs only.
    kinds -= {"Num", "Str", "Bytes", "NameConstant", "Ellipsis", "AugStore"}
    assert kinds <= known


@pytest.mark.parametrize("name", sorted(UNAVAILABLE))
def test_functions_of_warp_that_are_not_here(name):
    with pytest.raises(KernelError) as caught:
        define(f"@wp.kernel\ndef k(n: int):\n    wp.{name}(n)\n")["k"].specialize()
    assert caught.value.message == f"{name} is not available in jaxwarp kernels"
    assert caught.value.hint == UNAVAILABLE[name]


def test_after_an_error_the_kernel_and_others_still_work():
    from typing import Any

    scope = define(
        "@wp.kernel\ndef k(x: Any, a: wp.array[float]):\n    a[0] = x * 2.0\n"
        "@wp.kernel\ndef other(a: wp.array[float]):\n    a[0] = 1.0\n",
        Any=Any,
    )
    for _ in range(2):
        with pytest.raises(KernelError, match=r"mul: the constant 2\.0 cannot be used as int32"):
            scope["k"].specialize([wp.int32, wp.array[float]])
    assert "mul" in str(scope["k"].specialize([wp.float32, wp.array[float]]))
    assert "store" in str(scope["other"].specialize())
