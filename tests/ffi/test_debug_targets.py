"""Checked kernels on every target: interpreter, CPU code at two widths and in any order, CUDA text on the host, PTX."""

import hostcuda
import numpy as np
import pytest
import test_debug_checks as checks
import test_debug_mode as modes
import test_debug_written as written

from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.codegen.cuda import nvrtc, ptx
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.verify import verify
from jaxwarp.passes.checks.checked import Debug, checked
from jaxwarp.passes.checks.reports import first_row, number_of
from jaxwarp.passes.pipeline import prepare

ALL = ("bounds", "equal_stores", "integers", "nan", "races", "steps")
N = 40


def _index(*wrong):
    index = np.arange(N, dtype=np.int32)
    for at, value in wrong:
        index[at] = value
    return index


F = np.linspace(1.0, 2.0, N, dtype=np.float32)
CASES = {
    "bounds": (modes.advance, [F, _index((33, 90), (17, -99)), np.zeros(N, np.float32)], "17: index -99 of axis 0"),
    "integers": (checks.k_div, [_index(), 1 + _index((21, -1), (30, -1)), _index()], "21: division by zero: 21 / 0"),
    "nan": (checks.root, [np.where(F > 1.5, -F, F), np.zeros(N, np.float32)], "20: a NaN that this thread"),
    "steps": (checks.counted, [_index((25, -2), (26, -2)), np.zeros(N, np.int32)], "25: a loop of more than 1000"),
    "races": (
        checks.scattered, [_index((3, 30), (7, 12)), F, np.zeros(N, np.float32)],
        "3: race: it stores to element (30,) of array y, which thread (30,) stores to",
    ),
    "a component": (written.store, [_index((33, 3), *((k, 1) for k in range(33)), *((k, -3) for k in range(34, N))),
        np.zeros(N, np.float32)], "33: index 3 of axis 0 of a vec3"),
    "forwarded": (written.forwarded, [_index((21, -4), *((k, 2) for k in range(21)), *((k, 9) for k in range(22, N))),
        np.zeros(N, np.float32)], "21: index -4 of axis 0 of array b"),
    "a lost read": (written.raced_through, [_index((7, 12), (12, 12)), F.copy(), np.zeros(N, np.float32)],
        "7: race: it reads element (12,) of array x, which thread (12,) stores to"),
    "nothing": (modes.advance, [F, _index(), np.zeros(N, np.float32)], None),
}  # fmt: skip

ENGINES = {
    "interpreter": interpret,
    "one lane": lambda kernel, grid, buffers: run_cpu(kernel, grid, buffers, width=1),
    "backwards": lambda kernel, grid, buffers: run_cpu(
        kernel, grid, buffers, width=8, tiles=[(0, 1, at, min(at + 8, grid[-1])) for at in range(0, grid[-1], 8)][::-1]
    ),
    "CUDA text": hostcuda.run_host,
}


def made(name):
    kernel, buffers, expected = CASES[name]
    ir = kernel.specialize()
    found = checked(ir, Debug(ALL, max_steps=1000), (N,), [b.shape for b in buffers])
    assert found is not None
    return verify(found.kernel), found, [b.copy() for b in buffers], expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CASES)
def test_every_target_finds_the_same_failure(name, engine):
    kernel, found, buffers, expected = made(name)
    records = [np.zeros(found.layout.size, np.int64) for _ in range(1 + len(found.scans))]
    marks = [np.zeros((*buffers[scan.array].shape, scan.fields), np.int64) for scan in found.scans]
    run = ENGINES[engine]
    run(prepare(kernel), (N,), [*buffers, *marks, records[0]])
    for scan, marked, record in zip(found.scans, marks, records[1:], strict=True):
        run(prepare(scan.kernel), marked.shape[:-1], [marked, record])
    rows = [first_row(record.tolist(), found.layout.row) for record in records]
    row = next((row for row in rows if row is not None), None)
    if expected is None:
        assert row is None
        return
    report = found.reports[number_of(row)]
    text = report.text
    for i, word in enumerate(row[3:]):
        text = text.replace(f"{{{i}}}", str(word))
    assert f"{row[2]}: {text}".startswith(expected)


@pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
def test_nvrtc_compiles_checked_kernels():
    for name in ("bounds", "races", "nan", "steps"):
        kernel, found, _, _ = made(name)
        for each in (kernel, *(scan.kernel for scan in found.scans)):
            assert ".entry" in ptx(prepare(each), 80)
