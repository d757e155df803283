"""Paths of the package and its pages, cells of tables, and summaries from docstrings."""

from __future__ import annotations

from pathlib import Path

from jaxwarp.library.names import find

PACKAGE = Path(__file__).parents[1]
DOCS = PACKAGE.parent / "docs"


def cells(*texts: str) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def summary(name: str) -> str:
    return " ".join(find(name).doc.split())
