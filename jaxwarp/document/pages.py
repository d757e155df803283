"""The pages of settings and modules, the tables for those who come from Warp, the grammar of the IR."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any

from jaxwarp import config
from jaxwarp.document.tables import DOCS, PACKAGE, cells
from jaxwarp.frontend.text.host_names import HOST_NAMES
from jaxwarp.frontend.text.refused import FAMILIES as MISSING_FAMILIES
from jaxwarp.frontend.text.refused import UNAVAILABLE
from jaxwarp.host import idle
from jaxwarp.ir import nodes
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Op, Param, Value

IR_PAGE = DOCS / "design" / "0001-ir.md"
FROM_WARP = DOCS / "from_warp.md"

_SETTINGS_PREFACE = """\
# Settings and environment variables

Use this page to change how jaxwarp compiles, checks, logs and stores code. Settings hold for the whole process. Assign
to them: `wp.config.max_unroll = 8`. Misspelt names, and values that a setting does not accept, are errors.

| setting | values | default | meaning |
| --- | --- | --- | --- |
"""

_ENVIRONMENT = """\
## Environment variables

Set these before you start Python. A setting that you assign overrides the environment variable.

| variable | meaning |
| --- | --- |
"""

_SETTINGS_OF_WARP = """\
## Settings of Warp without an effect

Programs written for Warp may assign to these. jaxwarp checks the value. It warns if you ask for something that it does
not do.

| setting | values | default | reason | warns |
| --- | --- | --- | --- | --- |
"""

_LOGGING = """\
## Log what is compiled

`JAXWARP_LOG=compile`, or `wp.config.log_level = wp.LOG_DEBUG`, writes a line to standard error for each piece of code:
which kernel, for what, how long it took, and whether it came from the [code cache](deploying.md).

    jaxwarp: compiled smooth to LLVM bitcode in 0.021 s
    jaxwarp: loaded jaxwarp_smooth for the CPU from the cache in 0.001 s
"""


_MAP_PREFACE = """\
# Modules

What each module holds, in its own words; [0018](design/0018-rooms.md) says how the folders depend on each other. This
page is made from the docstrings; `python -m jaxwarp.document --modules` prints it.
"""


def settings() -> str:
    """The page of settings."""
    rows = [
        cells(f"`{name}`", row.expected, f"`{row.default!r}`", row.doc) for name, row in config.SETTINGS.items()
    ]
    variables = [cells(f"`{name}`", doc) for name, doc in config.ENVIRONMENT.items()]
    idle = [
        cells(f"`{name}`", row.expected, f"`{row.default!r}`", row.doc, "yes" if row.is_idle else "")
        for name, row in config.OF_WARP.items()
    ]
    tables = ((_SETTINGS_PREFACE, rows), (_ENVIRONMENT, variables), (_LOGGING, []), (_SETTINGS_OF_WARP, idle))
    return "\n".join(preface + "".join(row + "\n" for row in listed) for preface, listed in tables)


_TABLE_START, _TABLE_END = "<!-- {}: made by python -m jaxwarp.document -->\n", "<!-- end -->"


def from_warp() -> str:
    """The page for those who come from Warp, with the tables of names that do nothing and of names that are missing."""
    text = FROM_WARP.read_text()
    for title, made in (("idle", idle_table()), ("missing", missing_table())):
        start = _TABLE_START.format(title)
        before, rest = text.split(start)
        text = before + start + made + rest[rest.index(_TABLE_END) :]
    return text


def idle_table() -> str:
    """Names that do nothing, with one reason together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, row in idle.ROWS.items():
        reasons.setdefault((row.why, _shown(row.gives)), []).append(f"`{name}`")
    rows = [cells(", ".join(names), f"`{gives}`", why) for (why, gives), names in reasons.items()]
    return "\n".join(["| name | gives | because |", "| --- | --- | --- |", *rows, ""])


def _shown(gives: Any) -> str:
    return repr(list(gives) if isinstance(gives, tuple) else gives)


def missing_table() -> str:
    """Names of Warp that are missing, those with one alternative together; families of names end in `*`."""
    import jaxwarp

    importlib.import_module("jaxwarp.fem")  # otherwise it is missing until somebody imports it

    known = {**UNAVAILABLE, **{f"{start}*": hint for start, hint in MISSING_FAMILIES.items()}, **HOST_NAMES}
    alternatives: dict[str, list[str]] = {}
    for name, hint in known.items():
        if not any(there == name or (name[-1] == "*" and there.startswith(name[:-1])) for there in dir(jaxwarp)):
            alternatives.setdefault(hint, []).append(f"`{name}`")
    rows = [cells(", ".join(sorted(names)), hint) for hint, names in alternatives.items()]
    return "\n".join(["| name | what to do instead |", "| --- | --- |", *sorted(rows), ""])


_FENCE = "```"


def ir_page() -> str:
    """The page of the IR, with the grammar that its classes have now between the first fences."""
    before, _, after = IR_PAGE.read_text().split(_FENCE, 2)
    return f"{before}{_FENCE}\n{grammar()}{_FENCE}{after}"


def grammar() -> str:
    """The IR's classes: their fields and what their docstrings say first. `X*` are any number, `X?` may be missing."""
    classes = [c for c in vars(nodes).values() if isinstance(c, type) and issubclass(c, Op)]
    made = [c for c in classes if c is not Op and not c.__name__.startswith("_")]
    rows = [_production(c, c.__name__.lower() + " = ") for c in (Kernel, Param, Block, Value)]
    rows += [_production(c, "op = " if c is made[0] else "   | ") for c in made]
    return "\n".join(rows) + "\n"


def _production(cls: type, start: str) -> str:
    hidden = ("loc", "sizes", "tiles", "lanes")  # what is no part of what a kernel computes
    listed = ", ".join(f"{f.name}: {_of_grammar(str(f.type))}" for f in fields(cls) if f.name not in hidden)
    said = " ".join((cls.__doc__ or "").split("\n\n")[0].split())
    return f"{start}{cls.__name__}({listed})\n" + textwrap.indent(textwrap.fill(said, 108), " " * 8)


def _of_grammar(annotation: str) -> str:
    many = re.sub(r"tuple\[([^,\]]*), \.\.\.\]", r"\1*", annotation)
    return re.sub(r"^(\w+) \| None$", r"\1?", many).replace("int | None*", "int?*")


def module_map() -> str:
    """A table of the modules of each folder, with the first sentences of their docstrings."""
    lines = [_MAP_PREFACE]
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")}):
        said = _first_sentence(folder / "__init__.py")
        rows = [
            cells(f"`{path.name}`", _first_sentence(path))
            for path in sorted(folder.glob("*.py"))
            if path.name != "__init__.py"
        ]
        if rows:
            name = folder.relative_to(PACKAGE.parent).as_posix()
            lines += [f"## {name}", "", said, "", "| module | holds |", "| --- | --- |", *rows, ""]
    return "\n".join(lines)


def _first_sentence(path: Path) -> str:
    said = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[\w)`]\.) (?=[A-Z`])", said, maxsplit=1)[0] if len(said) > 130 else said
