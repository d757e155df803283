"""How docstrings and commit titles begin and end, as CONTRIBUTING.md has it."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# A docstring begins with a verb or a noun phrase. These begin half a question, or an answer to one.
OPENINGS = set(
    "And Are As By For From How If In Is It Not Of On Outside That There Those To What When Where Whether Which With "
    "Without".split()
)
FOLDERS = sorted(p for p in (ROOT / "jaxwarp").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists())
# Titles are held to a length from here on.
FIRST = "6c08bc1"
LONGEST_TITLE = 60


def docstrings(path):
    """Yield the line and the text of each docstring of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_docstrings_begin_with_a_verb_or_a_noun(folder):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in ([folder] if folder.is_file() else sorted(folder.rglob("*.py")))
        for line, text in docstrings(path)
        if text.split()[0].rstrip(",.:;") in OPENINGS
    ]
    assert not found, "\n".join(found)


def test_commit_titles_are_short():
    log = ["git", "-C", str(ROOT), "log", "--no-merges", "--format=%s", f"{FIRST}..HEAD"]
    told = subprocess.run(log, capture_output=True, text=True, check=False)
    if told.returncode:
        pytest.skip("needs the history of git")
    long = [title for title in told.stdout.splitlines() if len(title) > LONGEST_TITLE]
    assert not long
