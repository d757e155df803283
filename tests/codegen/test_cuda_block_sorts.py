"""Sorts of tiles by a block of CUDA threads, on the host: each thread merges a part of two runs."""

from __future__ import annotations

from dataclasses import replace

import hostcuda
import numpy as np
import pytest
from kernels_strategy import same_values
from tilekit import body_kernel

from jaxwarp.codegen.cuda import compile_cuda, print_cuda
from jaxwarp.codegen.cuda.blocks import plan as planning
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import fix_rounding, prepare
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import adjoint


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of many threads also for tiles that are too small to be worth them."""
    for name, value in (("LEAST_ELEMENTS", 1), ("WORTH", 0), ("EACH", 2)):
        monkeypatch.setattr(planning, name, value)


def made(n: int, dtype: str = "float", way: str = "") -> Kernel:
    kernel = body_kernel(
        f"x: wp.array[{dtype}], v: wp.array[float], y: wp.array[{dtype}], w: wp.array[float]",
        f"t, u = wp.tile_load(x, shape={n}), wp.tile_load(v, shape={n})\nwp.tile_sort(t, u)\n"
        "wp.tile_store(y, t)\nwp.tile_store(w, u)",
    ).specialize()
    if way:
        kernel = {"reverse": adjoint, "forward": tangent}[way](fix_rounding(kernel, fma=False), range(4), (2, 3)).kernel
    return replace(prepare(kernel, fma=False), name=f"sort_{n}_{dtype.replace('.', '_')}_{way}")


def given(kernel: Kernel) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    arrays = [rng.integers(0, 20, 80).astype(p.dtype.numpy) for p in kernel.params]
    keys = arrays[0]
    if kernel.params[0].dtype.is_float:
        keys[:] = np.where(keys == 0, np.copysign(0.0, rng.standard_normal(80)), keys - 9)
        keys[[0, 3, 11, 32]] = np.nan, np.inf, np.nan, -np.inf
    return arrays


def test_sorts_and_their_derivatives_have_the_values_of_one_thread() -> None:
    """To the bit: of all lengths and types, with equal keys, NaNs and zeros of both signs."""
    cases = [(n, "float", "") for n in (3, 17, 32, 37, 65)]
    cases += [(37, f"wp.{t}", "") for t in ("float16", "bfloat16", "float64", "int64", "uint8")]
    cases += [(37, "float", "forward"), (37, "float", "reverse")]
    kernels = [made(*case) for case in cases]
    codes = [print_cuda(kernel) for kernel in kernels]
    assert all(code.threads >= 32 for code in codes)
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for (n, _, way), kernel, code in zip(cases, kernels, codes, strict=True):
        got, expected = given(kernel), given(kernel)
        keys, values = (a[:n] for a in given(kernel)[:2])
        interpret(kernel, (1,), expected)
        hostcuda.run_code(kernel, code, (1,), got)
        assert all(map(same_values, got, expected)), kernel.name
        if not way:
            order = np.argsort(keys.astype(np.float64), kind="stable")
            assert same_values(got[2][:n], keys[order]), kernel.name
            assert same_values(got[3][:n], values[order]), kernel.name


def test_sorts_of_many_elements_have_a_block_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for n, way in ((256, ""), (256, "forward"), (1024, "reverse")):
        assert print_cuda(made(n, way=way)).threads >= 32


def test_no_barrier_of_a_sort_can_be_left_out() -> None:
    kernel = made(65)
    code = print_cuda(kernel)
    pieces = code.source.split("__syncthreads();")
    assert len(pieces) > 6
    halves = [(pieces[:k], pieces[k:]) for k in range(1, len(pieces))]
    faulty = [replace(code, source=" ".join(map("__syncthreads();".join, pair))) for pair in halves]
    hostcuda.compile_host([(kernel, one) for one in (code, *faulty)], "-O0")
    for one in faulty:
        with pytest.raises(AssertionError, match="a race in shared memory"):
            hostcuda.run_code(kernel, one, (2,), given(kernel), threads=one.threads)


def test_sorts_compile() -> None:
    assert compile_cuda(print_cuda(made(65)), (90,))
