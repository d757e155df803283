"""The code on the pages runs, and prints what the comments beside it say; what the pages point to is there."""

from __future__ import annotations

import importlib.util
import linecache
import re
from pathlib import Path

import jax
import pytest

from jaxwarp import config

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    "README.md",
    "docs/index.md",
    "docs/from_jax.md",
    "docs/calls.md",
    "docs/performance.md",
    "docs/costs.md",
    "docs/gpus.md",
    "docs/language.md",
    "docs/structs.md",
    "docs/jax_kernel.md",
    "docs/derivatives.md",
    "docs/jax_callable.md",
    "docs/callbacks.md",
    "docs/arrays.md",
    "docs/random.md",
    "docs/geometry.md",
    "docs/meshes.md",
    "docs/volumes.md",
    "docs/textures.md",
    "docs/surfaces.md",
    "docs/linear_solvers.md",
    "docs/fem.md",
    "docs/sharding.md",
    "docs/debugging.md",
    "docs/errors.md",
    "docs/from_warp.md",
    "docs/choose.md",
    "docs/beside.md",
    "docs/tutorial_first_kernel.md",
    "docs/tutorial_simulation.md",
    "docs/tutorial_neighbors.md",
    "docs/tutorial_from_warp.md",
    "docs/tutorial_stencil.md",
    "docs/wrong_result.md",
    "docs/tiles.md",
    "docs/sparse.md",
    "docs/export.md",
    "docs/deploying.md",
]
LINKED = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^\s*print\(.*\)  # (.*)$")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")


def blocks(page: str) -> list[tuple[int, str]]:
    """Line number (from 0) and text of each Python block of a page."""
    text = (ROOT / page).read_text()
    return [(text[: m.start(1)].count("\n"), m.group(1)) for m in BLOCK.finditer(text)]


@pytest.fixture
def settings_as_before():
    """Set what a page has set back: other tests come after it."""
    before = {name: getattr(config, name) for name in config.SETTINGS}
    yield
    for name, value in before.items():
        if getattr(config, name) != value:
            setattr(config, name, value)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("settings_as_before")
def test_code_on_the_page(page, capsys):
    scope = {"__name__": f"page_{page}"}
    found = blocks(page)
    assert found
    for line, text in found:
        if "import torch\n" in text and importlib.util.find_spec("torch") is None:
            continue
        expected = [m.group(1) for m in map(PRINTED.match, text.splitlines()) if m]
        name = f"<{page}:{line + 1}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        with jax.numpy_dtype_promotion("standard"):  # as readers have it; optax needs it
            exec(compile(text, name, "exec"), scope)
        assert capsys.readouterr().out.splitlines() == expected, f"{page}, block at line {line + 1}"


@pytest.mark.parametrize("page", [str(p.relative_to(ROOT)) for p in sorted(LINKED)])
def test_links(page):
    for target in LINK.findall(CODE.sub("", (ROOT / page).read_text())):
        assert ((ROOT / page).parent / target).exists(), f"{page} points to {target}, which is not there"


def test_every_page_with_code_is_run():
    pages = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
    assert sorted(page for page in pages if blocks(page)) == sorted(PAGES)


def test_the_front_page_has_what_the_demo_prints():
    """All but the speed, which is that of a machine."""
    source = (ROOT / "examples" / "wind_tunnel.py").read_text()
    front = (ROOT / "README.md").read_text()
    for text in (
        "(mean of the second half)",
        "cells long in a tunnel of ",
    ):
        assert text in source
        assert text in front
    for name in ("width", "height", "steps"):
        default = re.search(rf'"--{name}", type=int, default=(\d+)', source).group(1)
        assert default in front
    assert (ROOT / "docs/images/wind_tunnel.webp").stat().st_size < 300_000
