"""Runs a little of `make fuzz`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])}


def run(keep: Path, *options: Any, seed: int = 1) -> str:
    """What it prints. It must find nothing."""
    command = [sys.executable, TESTS / "fuzz" / "run.py", "--seed", str(seed), "--keep", keep, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *(p.read_text() for p in keep.glob("*.txt"))])
    return done.stdout
