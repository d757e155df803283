"""Mutants of what comes from outside: refused or harmless. `make fuzz` runs more of them."""

import fuzzed
import pytest

COUNTS = {"launch": 200, "program": 150, "image": 75, "cache": 70, "export": 5, "file": 5}


@pytest.mark.parametrize("kind", COUNTS)
def test_mutants_are_refused_or_harmless(kind, tmp_path):
    fuzzed.run(tmp_path, "--mutants", COUNTS[kind], "--kinds", kind)
