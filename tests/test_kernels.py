"""Every shared kernel on every target against the interpreter, and its IR and CUDA text against the goldens."""

from __future__ import annotations

import math
from pathlib import Path

import hostcuda
import numpy as np
import pytest
from devicecuda import run_device
from kernels import KERNELS, Sample
from kernels_strategy import same_values

from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.codegen.cuda import code_for, compile_cuda, loops, nvrtc, print_cuda, resources
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare, watching

GOLDEN = Path(__file__).parent / "golden"
ARCHITECTURES = (80, 90, 100, 120)
# Of kernels with elementary functions: a few units in the last place of each, through some arithmetic.
RELATIVE = {2: 1e-2, 4: 2e-5, 8: 1e-12}

every_kernel = pytest.mark.parametrize("name", KERNELS)
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")


@pytest.fixture(scope="module")
def prepared() -> dict[str, Kernel]:
    kernels = {name: verify(prepare(verify(one.ir))) for name, one in KERNELS.items()}
    hostcuda.prepare_host(kernels.values())
    return kernels


def interpreted(kernel: Kernel, one: Sample) -> list[np.ndarray]:
    buffers = one.buffers()
    interpret(kernel, one.grid, buffers)
    return buffers


def check(one: Sample, kernel: Kernel, got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for param, a, b in zip(kernel.params, got, expected, strict=True):
        if one.exact:
            assert same_values(a, b), f"{param.name}: got {a}, expected {b}"
        else:
            np.testing.assert_allclose(a, b, rtol=RELATIVE[a.dtype.itemsize], err_msg=param.name)


@every_kernel
def test_writes_every_element_of_its_outputs(name: str, prepared: dict[str, Kernel]):
    one = KERNELS[name]
    for before, after in zip(one.buffers(), interpreted(prepared[name], one), strict=True):
        poisoned = before.size > 1 and np.all(before == 77)
        assert not (poisoned and np.any(after == 77))


@every_kernel
def test_passes_keep_the_meaning(name: str):
    one = KERNELS[name]
    as_written = interpreted(one.ir, one)
    with watching() as ran:
        prepare(one.ir, fma=False)
    for step in ran:
        if step.after is not step.before:
            found = interpreted(verify(step.after), one)
            assert all(map(same_values, as_written, found)), f"{step.function.__name__} changes what {name} writes"


@every_kernel
@pytest.mark.parametrize("width", [1, 8, 16, 32])
def test_cpu(name: str, width: int, prepared: dict[str, Kernel]):
    one, kernel = KERNELS[name], prepared[name]
    buffers = one.buffers()
    run_cpu(kernel, one.grid, buffers, width=width)
    check(one, kernel, buffers, interpreted(kernel, one))


@pytest.fixture
def of_many_threads(monkeypatch):
    """Launches count as those of many threads."""
    monkeypatch.setattr(loops, "_MANY_THREADS", 1)


STREAMS = ("saxpy", "gather", "heat_3d", "halves", "small_integers")


@pytest.mark.parametrize("name", STREAMS)
def test_cuda_text_of_several_elements_a_thread(name: str, prepared: dict[str, Kernel], of_many_threads: None):
    one, kernel = KERNELS[name], prepared[name]
    buffers = one.buffers()
    code = code_for(kernel, one.grid, [b.shape for b in buffers], 32, CudaOptions(8))
    assert "for (unsigned int turn = 0; turn < 4u; ++turn)" in code.source
    assert code.most_blocks == -(-math.prod(one.grid) // (loops.AT_ONCE * 8)) > 1
    for threads in (4, None):  # each has some, each has one
        buffers = one.buffers()
        hostcuda.run_code(kernel, code, one.grid, buffers, threads, block=4)
        check(one, kernel, buffers, interpreted(kernel, one))


@every_kernel
@pytest.mark.parametrize("index_bits", [32, 64])
def test_cuda_text_on_the_host(name: str, index_bits: int, prepared: dict[str, Kernel]):
    one, kernel = KERNELS[name], prepared[name]
    expected = interpreted(kernel, one)
    # One thread per element, and few threads that stride over the grid.
    for threads in (None, 8):
        buffers = one.buffers()
        hostcuda.run_host(kernel, one.grid, buffers, index_bits, threads)
        check(one, kernel, buffers, expected)


@needs_nvrtc
@every_kernel
def test_nvrtc(name: str, prepared: dict[str, Kernel]):
    code = print_cuda(prepared[name], comments=True)
    entries = compile_cuda(code, ARCHITECTURES)
    assert [(e.kind, e.arch) for e in entries] == [(1, a) for a in ARCHITECTURES]
    assert all(e.code.startswith(b"\x7fELF") for e in entries)


@pytest.mark.gpu
@every_kernel
@pytest.mark.parametrize("index_bits", [32, 64])
def test_on_the_device(name: str, index_bits: int, prepared: dict[str, Kernel]):
    one, kernel = KERNELS[name], prepared[name]
    buffers = one.buffers()
    run_device(kernel, one.grid, buffers, index_bits)
    check(one, kernel, buffers, interpreted(kernel, one))


@needs_nvrtc
@pytest.mark.parametrize("name", ["lbm_d2q9", "matmul", "nbody"])
def test_nothing_is_spilled(name: str, prepared: dict[str, Kernel]):
    used = resources(prepared[name], "sm_90")
    assert 0 < used.registers <= 64
    assert (used.spill_stores, used.spill_loads, used.stack, used.shared) == (0, 0, 0, 0)


@every_kernel
@pytest.mark.parametrize("form", ["ir", "cu"])
def test_golden(name: str, form: str, prepared: dict[str, Kernel], update_golden: bool):
    kernel = prepared[name]
    text = str(kernel) if form == "ir" else print_cuda(kernel, comments=True).source
    path = GOLDEN / f"{name}.{form}"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path.name} is missing: run pytest --update-golden and look at what changed"
    assert text == path.read_text(), f"{path.name} differs: run pytest --update-golden and look at what changed"


def test_no_golden_is_left_over():
    assert {p.stem for p in GOLDEN.iterdir() if p.is_file()} == set(KERNELS)
