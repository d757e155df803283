"""Random kernels: their derivatives are right or refused, and seldom refused."""

from __future__ import annotations

import derivative_strategy
import derivativekit as kit
import mixed_reference
import mixed_strategy
import pytest
import sweepkit
from derivativekit import Case
from hypothesis import given, settings

from jaxwarp.errors import DifferentiationError
from jaxwarp.vjp.reverse import checkpoints
from jaxwarp.vjp.reverse.checkpoint_slots import SlotLayout

EXAMPLES = 25
CHECKS = {
    "tangent": kit.check_tangent,
    "adjoint": kit.check_adjoint,
    "adjoint-of-tangent": kit.check_adjoint_of_tangent,
    "tangent-of-adjoint": kit.check_tangent_of_adjoint,
}
DIFFERENCES = ("tangent", "tangent-of-adjoint")


def check(name: str, case: Case) -> bool:
    """Whether the derivative was given; it is right if so."""
    try:
        CHECKS[name](case)
    except DifferentiationError:
        assert name != "tangent", "forward mode needs nothing that these kernels do not have"
        return False
    except AssertionError:
        if name not in DIFFERENCES:
            raise
        # A branch may be taken differently a little way off; then a smaller step is right.
        CHECKS[name](case, 3e-8)
    return True


@pytest.mark.parametrize("name", CHECKS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(case=derivative_strategy.cases(budget=16))
def test_derivatives_of_random_kernels(name, case):
    check(name, case)


@pytest.mark.parametrize("layout", [SlotLayout(0, 1, 0, 0), SlotLayout(1, 1, 1, 1), SlotLayout(1, 2, 0, 2)], ids=str)
def test_few_checkpoints(layout, monkeypatch):
    """Short loops do what otherwise only those of many iterations do."""
    monkeypatch.setattr(checkpoints, "LAYOUTS", {None: layout})
    first = 1000 * (layout.fine + layout.coarse)
    for seed in range(first, first + 30):
        check("adjoint", derivative_strategy.random_case(seed))


def test_most_random_kernels_have_gradients():
    given_ = [check("adjoint", derivative_strategy.random_case(seed)) for seed in range(60)]
    assert sum(given_) > 36


def test_random_sweeps_over_own_arrays_and_tiles_by_indices_from_the_end():
    """`make fuzz` tries more of them."""
    found = [mixed_strategy.random_case(seed) for seed in range(5)]
    assert any("from_end" in str(case.kernel) for case in found)
    for case in found:
        mixed_reference.check(case)
        sweepkit.check_gradient(case)
        sweepkit.check_second_order(case)
        sweepkit.check_batch(case)
