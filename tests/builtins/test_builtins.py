"""Every row of the table, at every type, on every backend, against its reference within its stated accuracy."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from builtin_cases import Case, check, make_cases, make_kernel, signatures

from jaxwarp.builtins.scalar_ops import ROWS, NoGradient, cuda_template
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.codegen.cuda import compile_cuda, nvrtc, print_cuda
from jaxwarp.errors import InternalError
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import SCALARS, Scalar, float16, float32, int32

TYPES = pytest.mark.parametrize("dtype", SCALARS, ids=lambda t: t.short)


@cache
def table(dtype: Scalar) -> tuple[list[Case], Kernel]:
    cases = make_cases(dtype)
    return cases, make_kernel(dtype, cases)[0]


def run(dtype: Scalar, backend: str, launch) -> None:
    cases, _ = table(dtype)
    kernel, buffers, targets = make_kernel(dtype, cases)
    verify(kernel)
    launch(kernel, (buffers[0].shape[-1],), buffers)
    results = buffers[-len(targets) :]
    complaints = [c for rows, got in zip(targets.values(), results, strict=True) for c in check(rows, got, backend)]
    assert not complaints, "\n".join(complaints)


@TYPES
def test_interpreter(dtype):
    run(dtype, "interpreter", interpret)


@TYPES
@pytest.mark.parametrize("width", [1, 16])
def test_cpu(dtype, width):
    run(dtype, f"cpu at width {width}", lambda k, grid, buffers: run_cpu(prepare(k), grid, buffers, width=width))


@pytest.fixture(scope="module")
def host_texts():
    """All tables' CUDA texts in one library: one compilation instead of thirteen."""
    hostcuda = pytest.importorskip("hostcuda")
    hostcuda.prepare_host([prepare(table(t)[1]) for t in SCALARS], index_bits=(32,))
    return hostcuda


@TYPES
def test_cuda_text_on_the_host(dtype, host_texts):
    run(dtype, "cuda text", lambda k, grid, buffers: host_texts.run_host(prepare(k), grid, buffers, 32))


@TYPES
def test_nvrtc_accepts_every_row(dtype):
    if not nvrtc.available():
        pytest.skip("NVRTC is not installed")
    assert compile_cuda(print_cuda(prepare(table(dtype)[1])), archs=(90,))


def test_every_row_meets_some_type():
    seen = {row.name for dtype in SCALARS for row, _, _ in signatures(dtype)}
    assert seen == set(ROWS)


def test_rows_are_complete():
    for row in ROWS.values():
        assert row.doc, row.name
        assert row.ulp, row.name
        assert row.partials is not None, row.name
        if isinstance(row.partials, NoGradient):
            assert row.partials.reason, row.name


def test_half_types_have_no_text_of_their_own():
    with pytest.raises(InternalError, match="half types are widened before printing"):
        cuda_template(ROWS["sin"], float16, [float16])


def test_references_are_silent():
    with np.errstate(all="raise"):
        big = np.full(3, 3e38, np.float32)
        assert np.isinf(ROWS["add"].ref(big, big)).all()
        assert ROWS["mul"].ref(np.int32(2**30), np.int32(4)) == 0
        assert ROWS["cast"].ref(big, dtype=int32.numpy)[0] == 2**31 - 1
        assert np.isinf(ROWS["cast"].ref(big, dtype=float16.numpy)).all()


def test_a_wrong_row_is_noticed():
    """The comparison itself: one neighbour too far, a lost sign, a NaN."""
    cases = [c for c in make_cases(float32) if c.row.name in ("sin", "neg")]
    for case in cases:
        exact = case.row.name == "neg"
        assert not check([case], [case.expected], "same")
        off = case.expected.copy()
        for _ in range(1 if exact else 3):
            off[0] = np.nextafter(off[0], np.float32(np.inf))
        assert check([case], [off], "off")
        off = case.expected.copy()
        off[np.isfinite(off).argmax()] = np.nan
        assert check([case], [off], "nan")
    zero = np.where(cases[0].expected == 0, -cases[0].expected, cases[0].expected)
    neg = next(c for c in cases if c.row.name == "neg")
    assert check([neg], [np.where(neg.expected == 0, -neg.expected, neg.expected)], "sign")
    assert zero.shape == neg.expected.shape
