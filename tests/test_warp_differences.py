"""docs/warp_differences.md: what it says of us holds; where Warp is installed, it is what the comparison gives."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "compare_with_warp.py"


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("compare_with_warp", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


def rows(tool: Any) -> list[list[str]]:
    """Expression, type, arguments and our result, of both tables."""
    found = []
    for line in tool.PAGE.read_text().splitlines():
        cells = [cell.strip().replace("\0", "|") for cell in line.replace("\\|", "\0").strip("|").split("|")]
        if line.startswith("| `"):
            found.append([*cells[:3], cells[4 if len(cells) == 7 else 3]])
    return found


def test_our_side_of_each_row(tool):
    spelled = {tool._code(c.expression): c.expression for c in tool.cases()}
    spelled |= {tool._code(e): e for u in tool.UNDEFINED for e in u.expressions}
    found = rows(tool)
    assert len(found) > 20
    for shown, dtype, arguments, expected in found:
        value = tool.result(spelled[shown], dtype, arguments.split(", "))
        assert tool.text(value) == expected, (shown, arguments)


def test_differences_are_told_from_rounding(tool):
    float32 = tool.np.float32
    assert tool.differ(float32(0.0), float32(-0.0))
    assert tool.differ(float32("nan"), float32(1.0))
    assert tool.differ(float32("inf"), float32(1.0))
    assert tool.differ(float32(1.0), float32(1.001))
    assert not tool.differ(float32(1.0), float32(1.000001))
    assert not tool.differ(float32("nan"), float32("nan"))
    assert tool.differ(tool.np.int8(1), tool.np.int8(2))


def test_the_page_is_what_the_comparison_gives(tool):
    pytest.importorskip("warp", reason="the comparison needs warp-lang")
    if not importlib.metadata.version("warp-lang").startswith("1.19."):
        pytest.skip("the page is of Warp 1.19")
    found = tool.differences()
    assert tool.page(found) == tool.PAGE.read_text(), "run python tools/compare_with_warp.py"
    used = {(d.case.expression, tool.about(d.case, d.arguments, d.warp, d.ours)) for d in found}
    assert used == set(tool.REASONS), "reasons that nothing needs"


def test_reasons_of_failing_cases(tool, tmp_path, capsys):
    listed = tool.warp_cases
    names = [name for row in listed.reasons() for name in row["cases"]]
    assert len(names) == len(set(names))
    assert all(f"`{name}`" in tool.PAGE.read_text() for name in names)
    passed = {f"TestOf::test_{name}_cpu": "passed" for name in ("view", "unheard_of", "right", "private")}
    (tmp_path / "baseline.json").write_text(json.dumps({"tests": {"test_a.py": passed}}))
    (tmp_path / "internal_cases.json").write_text('{"test_a.py": {"TestOf::test_private_cpu": ["ptr"]}}')
    tests = {case: {"status": "passed" if "right" in case else "error"} for case in passed}
    (tmp_path / "results.json").write_text(json.dumps({"files": [{"file": "test_a.py", "tests": tests}]}))
    assert listed.main([str(tmp_path), str(tmp_path / "results.json")]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "no reason: test_unheard_of"
    assert len(printed) == len(names) + 1  # test_view is fitted by one name
    assert printed[-1] == "2 failing, 1 of them without a reason"
