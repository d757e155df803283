"""The notebooks in examples/notebooks are the scripts, and were run: `make notebooks` makes them anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import notebooks  # noqa: E402


@pytest.mark.parametrize("name", notebooks.ARGUMENTS)
def test_cells_are_those_of_the_script(name):
    made = json.loads((notebooks.OUT / f"{name}.ipynb").read_text())["cells"]
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in made] == notebooks.cells(name)


@pytest.mark.parametrize("name", notebooks.ARGUMENTS)
def test_every_cell_ran_and_the_last_one_shows_a_picture(name):
    made = json.loads((notebooks.OUT / f"{name}.ipynb").read_text())["cells"]
    code = [cell for cell in made if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not [o for cell in code for o in cell["outputs"] if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert "image/png" in code[-1]["outputs"][-1]["data"]


def test_each_notebook_is_made():
    assert {path.stem for path in notebooks.OUT.glob("*")} == set(notebooks.ARGUMENTS)


def test_the_parts_are_the_whole_script():
    for name in notebooks.ARGUMENTS:
        text = (ROOT / "examples" / f"{name}.py").read_text()
        code = [part for kind, part in notebooks.cells(name) if kind == "code"][:-1]
        after = text[text.index("from __future__") : text.index("if __name__")]
        assert "".join("".join(code).split()) == "".join(after.split())
