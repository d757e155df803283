"""Gradients of kernels with known answers: right or refused, never wrong."""

from __future__ import annotations

import pytest
from conformance import run

CASES = run.load("jaxwarp")


def test_there_are_enough():
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    assert run.verdict(run.jaxwarp_gradient, CASES[name]) == "right"


def test_a_wrong_gradient_is_noticed():
    case = CASES["reciprocal"]
    assert run.verdict(lambda case: -case.expected, case) == "WRONG"
    assert run.verdict(lambda case: case.expected[:2], case) == "WRONG"
    assert run.verdict(lambda case: case.expected, case) == "right"
