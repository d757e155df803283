"""Machine code beside an expert's: how many instructions a thread executes, what it loads, what it never does.

The bounds are those of docs/design/0030-cuda-code.md. A kernel that gets better gets a tighter one.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from sass import disassembly
from sass.launches import CASES, LARGE, SCALAR, array_of, gradient, gradient_twin, ours, ours_large, twin
from sass.machine import LOCAL, bits_float, counts, most_loads_in_flight

pytestmark = pytest.mark.skipif(
    not disassembly.available(), reason="needs NVRTC and nvdisasm (pip install nvidia-cuda-nvdisasm)"
)
# Executed instructions of our code, at most so many times those of the twin.
RATIO = {
    "saxpy": 1.1,
    "vec3": 1.3,
    "vec4": 1.1,
    "gather": 1.1,
    "lbm2": 1.1,
    "lbm3": 1.1,
    "lbm3_large": 1.1,
    "stencil": 1.1,
    "nbody": 1.3,
    "matmul": 1.1,
}
# Of gradients, likewise.
GRADIENT_RATIO = {"stencil": 0.9, "lbm2": 1.1}
# Of sums: instructions for each element, at most.
PER_ELEMENT = {"total": 8.0, "rowsum": 8.0}


@pytest.mark.parametrize("name", RATIO)
def test_executed_instructions_beside_those_of_the_twin(name: str):
    _, mine = ours(name)
    assert mine.per_element <= RATIO[name] * twin(name).per_element


@pytest.mark.parametrize("name", PER_ELEMENT)
def test_executed_instructions_for_each_element_of_a_sum(name: str):
    _, mine = ours(name)
    assert mine.per_element <= PER_ELEMENT[name]
    assert most_loads_in_flight(mine.thread) >= 4


@pytest.mark.parametrize("name", LARGE)
def test_large_arrays_take_little_more(name: str):
    code, mine = ours_large(name)
    assert code.index_bits == 64
    assert mine.per_element <= 1.2 * ours(name)[1].per_element


@pytest.mark.parametrize("name", ["lbm2", "lbm3"])
def test_gradients_of_lattices_need_no_atomics(name: str):
    """And twice the instructions of the lattice at most."""
    _, forward = ours(name)
    ((code, backward),) = gradient(name)
    assert not {"RED", "REDG", "ATOM", "ATOMG", "LDL", "STL"} & set(counts(backward.thread))
    assert backward.per_element <= 1.9 * forward.per_element
    assert code.geometry == ()


@pytest.mark.parametrize("name", GRADIENT_RATIO)
def test_executed_instructions_of_gradients_beside_those_of_the_twin(name: str):
    ((_, mine),) = gradient(name)
    assert mine.per_element <= GRADIENT_RATIO[name] * gradient_twin(name).per_element


def test_the_gradient_of_a_stencil_is_gathered():
    """It has a load for each neighbour, which are under way together, and one store."""
    ((code, backward),) = gradient("stencil")
    executed = counts(backward.thread)
    assert not {"RED", "REDG", "ATOM", "ATOMG", "LDL", "STL"} & set(executed)
    assert executed["STG"] == 1
    assert most_loads_in_flight(backward.thread) >= 7
    assert code.grid == CASES["stencil"].grid


# The twin of n-body reads what other threads have put in shared memory, and there are none.
@pytest.mark.parametrize("name", sorted(RATIO.keys() - {"nbody"}))
def test_both_store_the_same(name: str):
    """Which shows that the machine does what a GPU does, and that the twin is one."""
    (_, ran), of_twin = ours(name), twin(name)
    mine, theirs = (
        {at: float(bits_float(bits)) for at, bits in one.thread.memory.items() if at < LOCAL} for one in (ran, of_twin)
    )
    assert len(mine) * of_twin.elements == len(theirs) * ran.elements > 0
    assert {at: mine[at] for at in theirs} == pytest.approx(theirs, rel=2e-5)


def test_rows_of_four_words_are_one_access():
    _, mine = ours("vec4")
    assert [access.size for access in mine.thread.accesses] == [16, 16, 16]


def test_bodies_store_what_numpy_finds():
    _, mine = ours("nbody")
    positions, masses = array_of("nbody", "pos"), array_of("nbody", "mass")
    d = positions - positions[CASES["nbody"].at[0]]
    expected = (d * (masses / (np.sum(d * d, 1) + SCALAR) ** 1.5)[:, None]).sum(0)
    np.testing.assert_allclose([bits_float(b) for b in mine.thread.memory.values()], expected, rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_spilled_and_nothing_divided(name: str):
    code, mine = ours(name)
    executed = counts(mine.thread)
    assert not {"LDL", "STL", "I2F", "F2I"} & set(executed)
    # Extents and strides are constants.
    assert not re.search(r"_size\d|_stride\d|grid_size", code.source)
