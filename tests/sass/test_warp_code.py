"""The machine code by Warp that `make gpu-report` launches: in the machine of `machine.py` it stores what ours does."""

from __future__ import annotations

import ctypes
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from sass import disassembly
from sass.launches import CASES, SCALAR, address_of, kernel_of, ours, run_code
from sass.machine import LOCAL, Place, bits_float, counts

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from gpu_report import warp_code

pytestmark = pytest.mark.skipif(not disassembly.available(), reason="needs NVRTC and nvdisasm")
BLOCK = 256


@pytest.fixture(scope="module", autouse=True)
def made(tmp_path_factory):
    pytest.importorskip("warp", reason="the comparison needs warp-lang")
    folder, before = tmp_path_factory.mktemp("warp"), warp_code.FOLDER
    warp_code.make(folder)
    warp_code.FOLDER = folder
    yield
    warp_code.FOLDER = before


def ran(name):
    """A thread of a case that has run Warp's code."""
    case = CASES[name]
    values = {n: address_of(k) if shape else SCALAR for k, (n, shape) in enumerate(case.shapes.items())}
    packed = b""
    for value in warp_code.parameters(kernel_of(case, name), case.grid, case.shapes, values):
        packed += b"\0" * (-len(packed) % ctypes.alignment(type(value))) + bytes(value)
    at = int(np.ravel_multi_index(case.at, case.grid))
    blocks = -(-math.prod(case.grid) // BLOCK)
    place = Place((BLOCK, 1, 1), (at % BLOCK, 0, 0), (at // BLOCK, 0, 0), (blocks, 1, 1))
    code = disassembly.code_of(warp_code.code_of(name, 90).code)
    return run_code(code, packed, place, list(case.shapes), case.shapes)


@pytest.mark.parametrize("name", sorted(set(warp_code.NAMES) - set(warp_code.ADDING)))
def test_both_store_the_same(name):
    theirs, mine = (
        {at: float(bits_float(bits)) for at, bits in thread.memory.items() if at < LOCAL}
        for thread in (ran(name), ours(name)[1].thread)
    )
    assert theirs
    assert {at: mine[at] for at in theirs} == pytest.approx(theirs, rel=2e-5)


def test_singular_vectors_take_no_more_instructions():
    assert len(ours("polar")[1].thread.executed) <= len(ran("polar").executed)


@pytest.mark.parametrize("name", warp_code.ADDING)
def test_sums_add(name):
    assert {"RED", "REDG", "ATOM", "ATOMG"} & set(counts(ran(name)))


def test_other_gpus_have_none():
    assert warp_code.code_of("saxpy", 80) is None
    assert warp_code.code_of("lbm2 gradient", 90) is None
