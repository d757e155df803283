"""Mutants of what comes from outside: refused or harmless. `make fuzz` runs more of them."""

import fuzzed
import pytest


@pytest.mark.parametrize("kind", ["launch", "program", "image", "cache", "export"])
def test_mutants_are_refused_or_harmless(kind, tmp_path):
    fuzzed.run(tmp_path, "--mutants", 500, "--kinds", kind)
