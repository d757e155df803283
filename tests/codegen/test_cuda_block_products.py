"""Derivatives of products of tiles by a block of CUDA threads, on the host: sums over nests of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hostcuda
import numpy as np
import pytest
from tilekit import body_kernel

from jaxwarp.codegen.cuda import CudaCode, print_cuda
from jaxwarp.codegen.cuda.blocks import plan as planning
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import fix_rounding, prepare
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import adjoint

ARGUMENTS = "a: wp.array2d[{T}], b: wp.array2d[{T}], c: wp.array2d[{S}]"
BODIES = {
    "plain": """
wp.tile_store(c, wp.tile_astype(wp.tile_matmul(wp.tile_load(a, shape=({n}, {d})), wp.tile_load(b, shape=({d}, {m}))),
    {S}))
""",
    # Over the ends of the arrays, sums that go on.
    "loop": """
total = wp.tile_ones(shape=({n}, {m}), dtype={S})
for k in range((a.shape[1] + {d} - 1) // {d}):
    left = wp.tile_load(a, shape=({n}, {d}), offset=(1, k * {d}))
    right = wp.tile_load(b, shape=({d}, {m}), offset=(k * {d}, 2))
    wp.tile_matmul(left, right, total)
wp.tile_store(c, total, offset=(0, 1))
""",
    "scaled": """
left, right = wp.tile_load(a, shape=({n}, {d})), wp.tile_load(b, shape=({m}, {d}))
total = wp.tile_load(c, shape=({n}, {m}))
wp.tile_matmul(left, wp.tile_transpose(right), total, alpha=2.0, beta=0.5)
wp.tile_store(c, total * total)
""",
    "square": """
t = wp.tile_load(a, shape=({n}, {d}))
total = wp.tile_zeros(shape=({n}, {n}), dtype={S})
wp.tile_matmul(t, wp.tile_transpose(t), total)
wp.tile_store(c, total)
""",
    "views": """
t = wp.tile_load(a, shape=({n} + 2, {d} + 1))
total = wp.tile_zeros(shape=({n}, {m}), dtype={S})
wp.tile_matmul(wp.tile_view(t, offset=(1, 1), shape=({n}, {d})), wp.tile_load(b, shape=({d}, {m})), total)
wp.tile_store(c, wp.tile_broadcast(wp.tile_view(total, offset=(0, 0), shape=(1, {m})), shape=({n}, {m})) * total)
""",
}  # fmt: skip
DERIVE = {"reverse": adjoint, "forward": tangent}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks also for tiles that are too small to be worth them."""
    monkeypatch.setattr(planning, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(planning, "WORTH", 0)


def made(name: str, way: str, shape: Sequence[int], types: tuple[str, str] = ("float", "float")) -> Kernel:
    body, arguments = BODIES[name], ARGUMENTS
    for letter, value in zip("nmdTS", (*shape, *types), strict=True):
        body, arguments = body.replace(f"{{{letter}}}", str(value)), arguments.replace(f"{{{letter}}}", str(value))
    kernel = fix_rounding(body_kernel(arguments, body).specialize(), fma=False)
    derived = DERIVE[way](kernel, range(3), (1,)).kernel
    size = "_".join(map(str, shape))
    return replace(prepare(derived, fma=False), name=f"{name}_{way}_{size}_{types[0].replace('.', '_')}")


def arrays(kernel: Kernel, seed: int = 3) -> list[np.ndarray]:
    """Numbers, among them zeros."""
    rng = np.random.default_rng(seed)
    found: list[Any] = []
    for param in kernel.params:
        shape = {"a": (20, 21), "b": (22, 23), "c": (19, 24)}[param.name.split("_")[0]]
        numbers = np.round(rng.standard_normal(shape), 1)
        found.append(np.where(np.abs(numbers) < 0.4, 0.0, numbers).astype(param.dtype.numpy))
    return found


def compare(kernel: Kernel, code: CudaCode, given: Sequence[np.ndarray], tolerance: float) -> None:
    expected, got = [x.copy() for x in given], [x.copy() for x in given]
    interpret(kernel, (1,), expected)
    hostcuda.run_code(kernel, code, (1,), got)
    for param, *both in zip(kernel.params, got, expected, strict=True):
        x, y = (v.astype(np.float64) for v in both)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=f"{param.name}\n{code.source}")


@pytest.mark.parametrize("way", DERIVE)
def test_products_of_all_extents(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operand's cotangent is a product of its own. One warp or two, whole tiles and ragged ones."""
    monkeypatch.setattr(planning, "EACH_OF_PRODUCT", 4)
    shapes = ((1, 1, 1), (2, 3, 5), (16, 8, 4), (17, 9, 13))
    kernels = [made(name, way, shape) for name in BODIES for shape in shapes]
    codes = [print_cuda(kernel) for kernel in kernels]
    assert {code.threads for code in codes[3::4]} <= {64, 128}
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for kernel, code in zip(kernels, codes, strict=True):
        compare(kernel, code, arrays(kernel), 2e-5)


def test_cotangents_of_zero_beside_numbers_that_are_not_finite() -> None:
    """Nothing is moved by an element whose cotangent is 0; a product is made once more where its sums are NaN."""
    kernels = [made("loop", "reverse", (8, 9, 8), (name, name)) for name in ("float", "wp.float64")]
    codes = [print_cuda(kernel) for kernel in kernels]
    assert all(code.source.count("if (is_any_nan<") == 2 for code in codes)
    assert "add_double_product" in codes[1].source
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for kernel, code in zip(kernels, codes, strict=True):
        for number, bad in ((0, np.inf), (1, np.nan)):
            given = arrays(kernel)
            given[number][4, 5] = bad
            before = [x.copy() for x in given]
            interpret(kernel, (1,), before)
            assert all(np.isnan(x).sum() < 20 for x in before)
            compare(kernel, code, given, 2e-5)


def test_products_of_half_precision() -> None:
    """Cotangents of half tiles are float32 and stay so."""
    types = [("wp.float16", "float"), ("wp.bfloat16", "float"), ("wp.float16", "wp.float16")]
    kernels = [made("loop", way, (9, 17, 16), pair) for pair in types for way in DERIVE]
    codes = [print_cuda(replace(kernel, name=f"of_{n}")) for n, kernel in enumerate(kernels)]
    assert all(code.threads > 1 for code in codes)
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for kernel, code in zip(kernels, codes, strict=True):
        compare(kernel, code, arrays(kernel), 1e-5 if kernel.params[2].dtype.bits == 32 else 1e-2)
