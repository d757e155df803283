"""Each test draws the same numbers, whichever ran before it."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def same_numbers(request: pytest.FixtureRequest):
    rng = getattr(request.module, "RNG", None)
    if rng is not None:
        rng.bit_generator.state = np.random.default_rng(7).bit_generator.state
