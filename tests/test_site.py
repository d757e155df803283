"""The documentation as a site: every page has its place, paragraphs are short, and MkDocs builds it strictly."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
GENERATED = {"builtins.md"}  # of which most is tables
MOST_WORDS = 100
DESIGN = sorted((ROOT / "docs/design").glob("*.md"))
MOST_WORDS_OF_A_DESIGN, MOST_IN_ITS_PARAGRAPHS = 1500, 120
QUOTED_FILE = re.compile(r"`((?!xla/)\w[\w./]*(?:\.py|\.cc|\.c|\.h|/))`")
QUOTED_TEST = re.compile(r"`(test_\w+)`")


def paragraphs(text: str) -> list[str]:
    """Paragraphs and items of lists, but no tables and no code."""
    parts = [part.strip("\n") for part in re.split(r"\n\s*\n", CODE.sub("", text))]
    prose = [part for part in parts if not part.startswith(("|", "<!--", "    "))]
    return [item for part in prose for item in re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", part)]


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in GENERATED], ids=lambda p: p.name)
def test_paragraphs_are_short(page):
    assert [p for p in paragraphs(page.read_text()) if len(p.split()) > MOST_WORDS] == []


@pytest.mark.parametrize("page", DESIGN, ids=lambda p: p.name)
def test_pages_of_the_design_are_short_and_say_what_and_what_not(page):
    text = page.read_text()
    assert len(text.split()) <= MOST_WORDS_OF_A_DESIGN
    assert [p for p in paragraphs(text) if len(p.split()) > MOST_IN_ITS_PARAGRAPHS] == []
    first = paragraphs(text)[1]
    assert first.startswith("**What.**"), "say first what it is"
    assert re.search(r"^(## Invariants$|\*\*Invariants\.\*\*$)", text, re.MULTILINE), "say what other code relies on"
    assert re.search(r"^\| module .*\|$", text, re.MULTILINE), "say which modules there are, and what each gains"
    assert "Rejected" in text, "say what was rejected, and why"


def test_pages_for_contributors_name_files_and_tests_that_exist():
    folders = [ROOT / name for name in ("jaxwarp", "tests", "tools", "examples", "benchmarks", "docs")]
    files = [path for folder in folders for path in folder.rglob("*")]
    places = {f"/{p.relative_to(ROOT).as_posix()}{'/' * p.is_dir()}" for p in (*folders, *files)}
    tests = {name for path in files if path.suffix == ".py" for name in re.findall(r"def (test_\w+)", path.read_text())}
    ends = {place[n:] for place in places for n, letter in enumerate(place) if letter == "/"}
    for page in (*DESIGN, ROOT / "CONTRIBUTING.md"):
        text = page.read_text()
        assert [f for f in QUOTED_FILE.findall(text) if f"/{f}" not in ends] == [], page.name
        assert [t for t in QUOTED_TEST.findall(text) if t not in tests] == [], page.name


def test_what_counts_as_a_paragraph():
    text = "one two\nthree\n\n| a | b |\n\n- an item\n- another\n\n```\ncode\n```\n\n    code\n"
    assert [p for p in paragraphs(text) if p] == ["one two\nthree", "- an item", "- another"]


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"^ +- (\w+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    by_the_hook = {"gallery.md"}
    assert listed | by_the_hook == {page.name for page in PAGES}


@pytest.mark.skipif(importlib.util.find_spec("mkdocstrings_handlers") is None, reason="needs pip install .[docs]")
def test_it_builds_without_a_warning(tmp_path):
    """`strict` is in mkdocs.yml: links and anchors that lead nowhere, and names without a page, are errors."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "api/kernels.html").is_file()
    assert "def step(" in re.sub("<[^>]*>", "", (tmp_path / "examples/waves.html").read_text())
