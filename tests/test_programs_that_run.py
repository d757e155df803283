"""The programs of docs/programs.md: their models, where they are installed, and the script that runs them.

`make programs` installs each in an environment of its own. A leg of CI that has them installed runs these, too.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# What a model imports beside Warp. Without it the test is skipped, with its name.
NEEDED = {
    "mujoco_warp_pendulum.py": "mujoco_warp",
    "mjx_pendulum.py": "mujoco.mjx",
    "mjx_cloth.py": "mujoco.mjx",
    "newton_falling.py": "newton",
    "nvalchemi_pairs.py": "nvalchemiops",
    "fem_diffusion.py": "jaxwarp",
}


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("programs_tool", ROOT / "tools" / "programs.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


TOOL = tool()
PROGRAMS = {program["model"]: program for program in TOOL.programs()}


def has(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def test_each_program_has_a_model():
    assert set(PROGRAMS) == set(NEEDED)
    assert all((TOOL.MODELS / model).exists() for model in PROGRAMS)
    for program in PROGRAMS.values():
        assert set(program) <= {"name", "packages", "model", "what", "steps", "within", "tests"}


@pytest.mark.parametrize("model", PROGRAMS)
def test_a_model_runs(model, tmp_path):
    """It imports, compiles and steps, and its state is made of numbers."""
    if not has(NEEDED[model]):
        pytest.skip(f"{NEEDED[model]} is not installed: pip install {' '.join(PROGRAMS[model]['packages'])}")
    out = tmp_path / "seen.json"
    path = os.pathsep.join([str(ROOT), str(TOOL.MODELS)])
    command = [sys.executable, str(TOOL.MODELS / "measure.py"), "jaxwarp", model, "2", str(out)]
    known = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=known, cwd=tmp_path, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(out.read_text())
    assert 0.0 < seen["step"] < seen["first"]
    assert len(seen["state"]) > 1
    assert all(abs(x) < 1e6 for x in seen["state"])


ROW = {"versions": "a 1.0", "warp": {"first": 2.0, "step": 0.01}, "jaxwarp": {"first": 1.0, "step": 0.0025},
       "difference": 2e-7, "tests": {"warp": 10, "both": 9}}  # fmt: skip


def test_a_row_says_what_was_seen():
    program = TOOL.programs()[0]
    lines = TOOL.table({program["name"]: ROW}).split("\n")
    assert len(lines) == 3
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells == [program["name"], "a 1.0", program["what"], "within 2e-07", "9 of 10", "1.0 s, 2.0 s",
                     "2.5 ms, 10 ms"]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"difference": 0.5}, "**differs by 5e-01**"),
        ({"difference": 0.0}, "the same"),
        ({"jaxwarp": {"failed": "ValueError: x"}}, "fails"),
    ],
)
def test_what_is_wrong_is_seen_in_the_table(changed, says):
    program = TOOL.programs()[0]
    row = {name: value for name, value in ROW.items() if name != "difference" or "jaxwarp" not in changed}
    assert f"| {says} |" in TOOL.table({program["name"]: {**row, **changed}})


def test_the_page_has_the_table_of_the_results():
    rows = json.loads(TOOL.RESULTS.read_text())
    page = TOOL.PAGE.read_text()
    assert TOOL.written(page, rows) == page
    assert rows


def test_states_are_compared_by_their_largest_number():
    a, b = {"shape": [2], "state": [1.0, -10.0]}, {"shape": [2], "state": [1.5, -10.0]}
    assert TOOL.difference(a, b) == 0.05
    assert TOOL.difference(a, a) == 0.0
    assert TOOL.difference(a, {"shape": [1], "state": [1.0]}) == float("inf")
