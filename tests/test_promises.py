"""docs/promises.md has every promise of the front page that says always, never, exact or all, with its tests."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STRONG = re.compile(r"\b(always|never|exact|exactly|all)\b", re.IGNORECASE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    .*$", re.MULTILINE)
# A paragraph, a row of a table or an item of a list; in it, sentences.
PARTS = re.compile(r"\n\s*\n|\n(?=[|#-])")
ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\[*(])")
QUOTED = re.compile(r"((?:^>[^\n]*\n)+)(.*?)(?=^>|\Z)", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`(tests/\S+\.py)::(\w+)`")


def sentences(text: str) -> list[str]:
    """Those of a page outside of code: a row of a table is one."""
    text = INDENTED.sub("", FENCED.sub("", text))
    return [s for part in PARTS.split(text) for s in ENDS.split(" ".join(part.split())) if s]


def promises() -> dict[str, list[tuple[str, str]]]:
    """The quoted sentences of the page, and the tests under each."""
    found = {}
    for quote, below in QUOTED.findall((ROOT / "docs/promises.md").read_text()):
        found[" ".join(line.removeprefix(">").strip() for line in quote.splitlines())] = TEST.findall(below)
    return found


@cache
def named_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_"))


def test_every_strong_sentence_is_listed():
    strong = {s for s in sentences((ROOT / "README.md").read_text()) if STRONG.search(s)}
    assert strong == set(promises())


def test_what_counts_as_a_sentence():
    text = (
        "All is well. Not here.\nIt is\nnever so.\n\n| exact | x |\n| - | - |\n\n    all code\n\n```\nall\n```\nalways"
    )
    strong = [s for s in sentences(text) if STRONG.search(s)]
    assert strong == ["All is well.", "It is never so.", "| exact | x |", "always"]


@pytest.mark.parametrize("promise", promises())
def test_each_has_tests_that_exist(promise):
    named = promises()[promise]
    assert named
    assert [f"{file}::{test}" for file, test in named if test not in named_in(file)] == []
