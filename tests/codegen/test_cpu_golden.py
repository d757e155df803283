"""LLVM text that the CPU generator makes of the shared kernels and of their adjoints, against the goldens.

Made for machines that are written out here, so it is the same wherever it is made. The text of small kernels is kept
whole, to be read. Of all there is a line in digests.txt (how many lines, and their digest): texts of four machines
would be megabytes, which would change with every detail of the generator, and nobody would read them.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import pytest
from cpushapes import MACHINES, entries_read
from kernels import KERNELS

from jaxwarp.codegen.cpu import CpuCode, compile_cpu
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import prepare
from jaxwarp.vjp.reverse.adjoint import adjoint

GOLDEN = Path(__file__).parents[1] / "golden" / "llvm"
DIGESTS = GOLDEN / "digests.txt"
# Kept whole for the machine that has the same shape as most.
WHOLE, MOST_LINES = "v3", 210
# Adjoints add: to elements of a thread's own, of a row's, of few, of neighbours, wrapped, of a product, anywhere.
ADJOINTS = ("early_return", "gather", "heat_3d", "lbm_d2q9", "mat33_algebra", "matmul", "nbody", "saxpy")
NAMES = [*KERNELS, *(f"{name}.adjoint" for name in ADJOINTS)]


@functools.cache
def prepared(name: str) -> Kernel:
    kernel, _, is_adjoint = name.partition(".")
    ir = KERNELS[kernel].ir
    if is_adjoint:
        ir = adjoint(ir, [i for i, param in enumerate(ir.params) if param.dtype.is_float]).kernel
    return prepare(ir)


@functools.cache
def code(name: str, level: str) -> CpuCode:
    return compile_cpu(prepared(name), machine=MACHINES[level])


def text(name: str, level: str) -> str:
    return code(name, level).text


def digest(name: str, level: str) -> str:
    made = text(name, level)
    return f"{name} {level} {made.count(chr(10))} {hashlib.sha256(made.encode()).hexdigest()[:16]}"


def is_whole(name: str) -> bool:
    return text(name, WHOLE).count("\n") <= MOST_LINES


@pytest.fixture(autouse=True)
def _suitable_width(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAXWARP_CPU_WIDTH", raising=False)


@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, update_golden: bool):
    path = GOLDEN / f"{name}.ll"
    if not is_whole(name):
        if update_golden:
            path.unlink(missing_ok=True)
        return
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text(name, WHOLE))
    assert path.exists(), f"{path.name} is missing: run pytest --update-golden and look at what changed"
    assert text(name, WHOLE) == path.read_text(), (
        f"{path.name} differs: run pytest --update-golden and look at what changed"
    )


def test_digests(update_golden: bool):
    found = [digest(name, level) for name in NAMES for level in MACHINES]
    if update_golden:
        DIGESTS.write_text("\n".join(found) + "\n")
    differing = set(found) ^ set(DIGESTS.read_text().splitlines())
    assert not differing, f"other text than before, or none: {sorted({line.rsplit(' ', 2)[0] for line in differing})}"


@pytest.mark.parametrize("level", MACHINES)
@pytest.mark.parametrize("name", NAMES)
def test_code_reads_exactly_its_geometry(name: str, level: str):
    """Entry i of the array is what `geometry[i]` names. An entry behind its end is whatever memory holds there."""
    made = code(name, level)
    assert entries_read(made.text) == set(range(len(made.geometry)))


def test_no_golden_is_left_over():
    kept = {f"{name}.ll" for name in NAMES if is_whole(name)}
    assert {path.name for path in GOLDEN.iterdir()} == {*kept, DIGESTS.name}
