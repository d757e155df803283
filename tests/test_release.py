"""What `tools/release.py` says of this checkout, and the workflow that runs it."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(release, tmp_path):
    """A checkout that may be released as its version."""
    for name in ("pyproject.toml", "CITATION.cff", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    own = release.version()
    parts = f"## {own} (2026-01-02)\n\nNew.\n\n## 0.0.1 (2025-01-02)\n\nOld.\n"
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{parts}")
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "README.md").write_text("how")
    return tmp_path


def test_a_checkout_that_may_be_released(release, checkout):
    assert release.problems(f"refs/tags/v{release.version()}", checkout) == []
    assert release.problems("refs/heads/main") == [], "this checkout"
    assert release.notes(checkout) == "New.\n"


def test_what_keeps_one_from_it(release, checkout):
    tag = f"refs/tags/v{release.version()}"
    (found,) = release.problems("refs/tags/v9.9", checkout)
    assert "its tag is v" in found
    (checkout / "changes" / "thing.fixed.md").write_text("Mended.")
    (checkout / "CITATION.cff").write_text("version: 9.9\n")
    text = (checkout / "CHANGELOG.md").read_text()
    (checkout / "CHANGELOG.md").write_text(text.replace("2026-01-02", "unreleased"))
    assert [p.split()[0] for p in release.problems(tag, checkout)] == ["CITATION.cff", "CHANGELOG.md", "changes/"]
    (checkout / "CHANGELOG.md").write_text("# Changelog\n")
    with pytest.raises(SystemExit, match="0 parts about"):
        release.notes(checkout)


def test_the_program_of_the_readme_checks_itself(release):
    program = release.readme()
    assert program.count("assert str(") == 2
    compile(program, "readme", "exec")


def test_the_workflow_calls_what_there_is():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"run: make ([a-z-]+)", text)) <= targets
    for path in re.findall(r"(?:tools|tests)/[\w/.]+", text):
        assert (ROOT / path).exists(), path
    commands = set(re.findall(r"tools/release\.py (\w+)", text))
    assert commands == {"check", "notes", "readme"}
