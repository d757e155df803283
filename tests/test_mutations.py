"""Mutants of what comes from outside: refused or harmless. `make fuzz` runs more of them."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("kind", ["launch", "program", "image", "cache", "export"])
def test_mutants_are_refused_or_harmless(kind, tmp_path):
    script = Path(__file__).parent / "fuzz" / "mutations.py"
    command = [sys.executable, script, "--count", "500", "--seed", "1", "--keep", tmp_path, "--kinds", kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, "\n".join([done.stderr, *(p.read_text() for p in tmp_path.glob("*.json"))])
