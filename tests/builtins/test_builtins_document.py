"""The reference pages and the type stub are generated, complete and up to date."""

from __future__ import annotations

import ast
import re
import types
from pathlib import Path

import pytest

import jaxwarp
from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.document import __main__ as document
from jaxwarp.document.builtins import accepted_types, reference
from jaxwarp.document.stub import INTERNAL, stub


@pytest.mark.parametrize(("path", "text"), document.GENERATED.items(), ids=lambda value: getattr(value, "name", ""))
def test_committed_files_are_up_to_date(path, text):
    assert path.read_text() == text(), "run python -m jaxwarp.document"


def test_the_page_has_every_function_and_row():
    page = reference()
    for function in FUNCTIONS.values():
        signature = function.signature.replace("|", "\\|")
        assert f"| `{signature}` |" in page
    for row in ROWS.values():
        assert f"| `{row.name}` | {accepted_types(row)} |" in page
    widths = {}
    for line in page.splitlines():
        if line.startswith("|"):
            widths.setdefault(line.replace("\\|", "").count("|"), line)
    assert set(widths) == {3, 4, 6}, "a cell has an unescaped bar"


def test_the_stub_has_every_public_name():
    tree = ast.parse(stub())
    named = {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    named |= {a.asname for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names if a.asname}
    named |= {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    named |= {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    public = {n for n, v in vars(jaxwarp).items() if not n.startswith("_") and not isinstance(v, types.ModuleType)}
    assert public <= named, sorted(public - named)
    for name in named:
        assert name.startswith("_") or hasattr(jaxwarp, name), name


def test_the_stub_and_the_page_have_all_that_arrays_have():
    """Without a line for each: what is not for users is in `INTERNAL` of document/stub.py."""
    array = next(n for n in ast.parse(stub()).body if isinstance(n, ast.ClassDef) and n.name == "array")
    methods = {n.name for n in array.body if isinstance(n, ast.FunctionDef)}
    attributes = {n.target.id for n in array.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    assert methods >= {"reshape", "fill_", "to"}
    assert attributes >= {"shape", "grad", "device"}
    public = {n for n in dir(jaxwarp.zeros(1, dtype=float)) if not n.startswith("_")} - INTERNAL
    assert public == {name for name in methods | attributes if not name.startswith("_")}
    page = (document.DOCS / "arrays.md").read_text()
    assert [name for name in sorted(public) if not re.search(rf"[`.]{name}\b", page)] == [], "name it in docs/arrays.md"


def test_stub_parameters():
    functions = {n.name: n for n in ast.parse(stub()).body if isinstance(n, ast.FunctionDef)}
    assert ast.unparse(functions["matrix"].args) == "*components: float, shape: Any, dtype: Any=..."
    assert ast.unparse(functions["norm_huber"].args) == "v: _VecT, delta: float=..."
    assert ast.unparse(functions["min"].args) == "a: _Value"
    assert "largest component" in ast.get_docstring(functions["max"])


def test_check_reports_and_write_repairs(tmp_path, monkeypatch, capsys):
    moved = {tmp_path / "docs" / path.name: make for path, make in document.GENERATED.items()}
    monkeypatch.setattr(document, "GENERATED", moved)
    assert document.main(["--check"]) == 1
    assert "is out of date: run python -m jaxwarp.document" in capsys.readouterr().out
    assert document.main([]) == 0
    assert document.main(["--check"]) == 0
    (tmp_path / "docs" / "__init__.pyi").write_text("changed")
    assert document.main(["--check"]) == 1


def test_the_map_has_every_module(capsys):
    assert document.main(["--modules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    modules = [path for path in Path(document.__file__).parents[1].rglob("*.py") if path.name != "__init__.py"]
    assert sum(line.startswith("| `") for line in lines) == len(modules)
