"""Random kernels: every pass keeps their meaning, and every backend has the interpreter's answer, to the last bit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import hostcuda
import numpy as np
import pytest
from cpukit import SHAPES, WIDTHS
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_strategy import Case, assert_same, kernels, random_case

from jaxwarp.analysis.effects import analyze
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param
from jaxwarp.ir.verify import verify
from jaxwarp.passes.contract_fma import contract_fma
from jaxwarp.passes.launches.batch import batch
from jaxwarp.passes.pipeline import prepare
from jaxwarp.passes.simplify import simplify
from jaxwarp.passes.widen_half import widen_half

MAX_STEPS = 100_000

# Compiling for four widths takes about a second; the passes take milliseconds.
few = settings(max_examples=12, deadline=None)
many = settings(max_examples=60, deadline=None)


def interpreted(case: Case, kernel: Kernel | None = None) -> list[np.ndarray]:
    buffers = case.buffers()
    interpret(kernel or case.kernel, case.grid, buffers, max_steps=MAX_STEPS)
    return buffers


# Passes


@many
@given(kernels())
def test_passes_keep_the_meaning(case):
    expected = interpreted(case)
    for change in (simplify, widen_half, lambda k: prepare(k, fma=False)):
        assert_same(case, expected, interpreted(case, verify(change(case.kernel))), "after the pass")


@many
@given(kernels())
def test_contraction_gives_well_formed_kernels_and_then_nothing_changes(case):
    contracted = verify(contract_fma(widen_half(case.kernel)))
    assert_same(case, interpreted(case, contracted), interpreted(case, verify(simplify(contracted))), "simplify")
    assert_same(case, interpreted(case, contracted), interpreted(case, verify(contract_fma(contracted))), "again")


@many
@given(kernels())
def test_simplify_comes_to_rest(case):
    kernel = case.kernel
    for _ in range(6):
        before, kernel = kernel.digest, verify(simplify(kernel))
        if kernel.digest == before:
            return
    raise AssertionError(f"simplify goes on changing\n{case}")


@many
@given(kernels(), st.data())
def test_batch_is_a_loop_over_items(case, data):
    count = data.draw(st.integers(1, 3), label="items")
    check_batch(case, count, lambda param: data.draw(st.integers(-1, param.rank), label=f"batch axis of {param.name}"))


def check_batch(case: Case, count: int, choose: Callable[[Param], int]) -> None:
    """`choose`: along which axis the items of a parameter are; -1: all have the same."""
    written = {p for p, access in analyze(case.kernel).access.items() if access.modifies}
    axes: list[int | None] = []
    for param in case.kernel.params:
        axis = choose(param)
        axes.append(max(axis, 0) if param in written else None if axis < 0 else axis)
    items = [Case(case.kernel, case.grid, case.shapes, case.seed + k) for k in range(count)]
    shared = items[0].buffers()
    inputs = [[s if a is None else b for s, b, a in zip(shared, i.buffers(), axes, strict=True)] for i in items]
    buffers = _stacked(inputs, axes)
    interpret(verify(batch(case.kernel, axes)), (count, *case.grid), buffers, max_steps=MAX_STEPS)
    for arrays in inputs:
        interpret(case.kernel, case.grid, arrays, max_steps=MAX_STEPS)
    assert_same(case, _stacked(inputs, axes), buffers, f"batched along {axes}")


def _stacked(items: Sequence[Sequence[np.ndarray]], axes: Sequence[int | None]) -> list[np.ndarray]:
    columns = zip(*items, strict=True)
    return [c[0].copy() if a is None else np.stack(c, a) for c, a in zip(columns, axes, strict=True)]


@many
@given(kernels())
def test_what_is_covered_does_not_depend_on_what_was_there(case):
    effects = analyze(case.kernel)
    first, second = case.buffers(), case.buffers()
    for param, a in zip(case.kernel.params, second, strict=True):
        if effects.covers(param, case.grid, a.shape):
            a[...] = np.zeros((), a.dtype)
    for buffers in (first, second):
        interpret(case.kernel, case.grid, buffers, max_steps=MAX_STEPS)
    assert_same(case, first, second, "from other contents")


# Backends


@few
@given(kernels(budget=14), st.booleans())
def test_cpu_code_has_the_interpreters_answer(case, fma):
    case = case.with_kernel(prepare(case.kernel, fma=fma))
    expected = interpreted(case)
    for width in WIDTHS:
        buffers = case.buffers()
        run_cpu(case.kernel, case.grid, buffers, width, machine=SHAPES[width])
        assert_same(case, expected, buffers, f"width {width}")


@pytest.mark.parametrize("seed", range(16))
def test_cpu_code_of_larger_kernels(seed):
    """Hypothesis likes small kernels, and variations of one; these are all different."""
    case = random_case(seed, budget=24)
    case = case.with_kernel(prepare(case.kernel))
    expected = interpreted(case)
    for width in WIDTHS:
        buffers = case.buffers()
        run_cpu(case.kernel, case.grid, buffers, width, machine=SHAPES[width])
        assert_same(case, expected, buffers, f"width {width}")


@few
@given(kernels(budget=10), st.integers(0, 3), st.integers(0, 3))
def test_cpu_code_may_be_run_in_any_tiles(case, rows_at, columns_at):
    case = case.with_kernel(prepare(case.kernel))
    buffers = case.buffers()
    rows, columns = int(np.prod(case.grid[:-1])), case.grid[-1]
    row, column = min(rows_at, rows), min(64 * columns_at, columns)
    tiles = [(a, b, c, d) for a, b in ((row, rows), (0, row)) for c, d in ((column, columns), (0, column))]
    run_cpu(case.kernel, case.grid, buffers, 8, tiles)
    assert_same(case, interpreted(case), buffers, f"tiles {tiles}")


def test_cuda_text_has_the_interpreters_answer():
    """One compilation for all of these kernels, so their seeds are fixed."""
    cases = [random_case(seed, budget=14) for seed in range(40)]
    cases = [c.with_kernel(prepare(c.kernel, fma=bool(i % 2))) for i, c in enumerate(cases)]
    hostcuda.prepare_host([c.kernel for c in cases])
    for case in cases:
        expected = interpreted(case)
        for bits in (32, 64):
            buffers = case.buffers()
            hostcuda.run_host(case.kernel, case.grid, buffers, bits)
            assert_same(case, expected, buffers, f"CUDA text with {bits}-bit indices")


# Identity


@many
@given(kernels())
def test_equal_kernels_have_equal_digests(case):
    assert len({case.kernel.digest, verify(case.kernel).digest, prepare(case.kernel).digest}) <= 2
    assert prepare(case.kernel).digest == prepare(case.kernel).digest


def test_digests_are_the_same_in_every_process():
    code = (
        "from kernels_strategy import random_case\n"
        "from jaxwarp.passes.pipeline import prepare\n"
        "for seed in range(10):\n"
        "    kernel = random_case(seed).kernel\n"
        "    print(kernel.digest, prepare(kernel).digest)\n"
    )
    here = [(random_case(s).kernel.digest, prepare(random_case(s).kernel).digest) for s in range(10)]
    for hash_seed in ("0", "1"):
        ran = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": ":".join(p for p in sys.path if p), "PYTHONHASHSEED": hash_seed, "PATH": ""},
            cwd=Path(__file__).parent,
        )
        assert [tuple(line.split()) for line in ran.stdout.splitlines()] == here


@pytest.mark.parametrize("seed", range(5))
def test_the_generator_reaches_every_construct(seed):
    """Guards the tests above: a generator that stopped making loops would let everything pass."""
    text = "".join(str(random_case(100 * seed + n).kernel) for n in range(100))
    for needed in (
        " if ",
        " for ",
        " while ",
        "load @",
        "store @",
        "atomic_add @",
        "cast ",
        "local @",
        "size @",
        "bf16",
    ):
        assert needed in text
