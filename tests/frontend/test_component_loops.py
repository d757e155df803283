"""Loops over the components of vectors and matrices are unrolled, also those of more than 16 iterations."""

from __future__ import annotations

import numpy as np
import pytest
from language import define, run

import jaxwarp as wp
from jaxwarp.ir.nodes import For, walk

SUM = """
@wp.kernel
def k(x: wp.array[V], out: wp.array[float]):
    i = wp.tid()
    v = x[i]
    total = float(0.0)
    for j in range({count}):
        total += v[j] * float(j)
        {more}
    out[i] = total
"""


def loops(length: int, count: int, **options: int) -> int:
    """Run the kernel, and return its loops."""
    text = SUM.format(count=count, more="pass")
    if options:
        text = text.replace("@wp.kernel", f"@wp.kernel(module_options={options})")
    kernel = define(text, V=wp.types.vector(length=length, dtype=wp.float32))["k"]
    x = np.arange(3 * length, dtype=np.float32).reshape(3, length)
    found = run(kernel, 3, x, np.zeros(3, np.float32))
    np.testing.assert_allclose(found[1], (x * np.arange(length))[:, :count].sum(1))
    return sum(isinstance(op, For) for op in walk(kernel.specialize().body))


def test_loops_over_components_are_unrolled():
    assert loops(27, 27) == 0
    assert loops(27, 20) == 0


@pytest.mark.parametrize(
    ("count", "options"),
    [
        (65, {}),  # too many
        (20, {"max_unroll": 8}),  # fewer copies are wanted
    ],
)
def test_others_are_not(count: int, options: dict[str, int]):
    assert loops(count, count, **options) == 1


def test_loops_in_unrolled_loops_make_no_more_copies():
    text = SUM.format(count=5, more="for m in range(20):\n            total += v[m]")
    kernel = define(text, V=wp.types.vector(length=20, dtype=wp.float32))["k"]
    assert sum(isinstance(op, For) for op in walk(kernel.specialize().body)) == 5
