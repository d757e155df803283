"""Random kernels on tiles, by blocks of CUDA threads on the host, against the interpreter."""

from __future__ import annotations

import random
from dataclasses import replace

import hostcuda
import numpy as np
import pytest
from tilekit import body_kernel

from jaxwarp.codegen.cuda import print_cuda
from jaxwarp.codegen.cuda.blocks import plan as planning
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import prepare

EXTENTS = (1, 2, 3, 5, 7, 8, 13, 16, 17, 23, 31, 32, 33, 47, 64, 65)
# Each makes t, of the same shape, of t; u is another tile, k an index of a row.
STEPS = (
    "t = wp.tile_map(wp.sin, t) - u",
    "t = t * wp.tile_broadcast(wp.tile_sum(t) / float({n} * {c}), shape=({n}, {c}))",
    "t = wp.tile_map(wp.cos, t - wp.tile_broadcast(wp.tile_max(t), shape=({n}, {c})))",
    "u = wp.tile_transpose(wp.tile_map(wp.sin, wp.tile_transpose(t)))",
    "t = t + wp.tile_broadcast(wp.tile_reshape(wp.tile_sum(u, axis=1), ({n}, 1)), shape=({n}, {c}))",
    "t += wp.tile_view(u, offset=(0, 0), shape=({n}, {c}))",
    "t[{k}] = u[{n} - 1 - {k}]",
    "wp.tile_assign(t, wp.tile_view(u, offset=({k}, 0), shape=({n} - {k}, {c})), offset=(0, 0))",
    "for r in range(1, {n}):\n    for q in range({c}):\n        t[r, q] = 0.5 * (t[r, q] + t[r - 1, q])",
    "for r in range({n}):\n    for q in range(r + 1, {c}):\n        u[r, q] = u[r, q] - 0.25 * t[r, q]",
    "for q in range({c}):\n    for r in range(q + 1, {n}):\n        t[r, q] = t[r, q] + 0.1 * u[q % {n}, q]",
    "for s in range(3):\n    t = wp.tile_map(wp.sin, t + u)\n    if t[0, 0] > 0.0:\n        u[{k}, 0] += 1.0",
    "g = wp.tile_matmul(u, wp.tile_transpose(u))\nt = t + wp.tile_matmul(wp.tile_map(wp.sin, g), t)",
    "g = wp.tile_matmul(u, wp.tile_transpose(u))\n"
    "g = wp.tile_diag_add(g, wp.tile_full(shape={n}, value=float({n}), dtype=float))\n"
    "t = wp.tile_cholesky_solve(wp.tile_cholesky(g), t)",
    "g = wp.tile_diag_add(wp.tile_map(wp.sin, wp.tile_matmul(u, wp.tile_transpose(u))),"
    " wp.tile_full(shape={n}, value=2.0 * float({n}), dtype=float))\nwp.tile_lower_solve_inplace(g, t)",
)


def random_kernel(seed: int) -> Kernel:
    rng = random.Random(seed)
    n, c = rng.choice(EXTENTS), rng.choice(EXTENTS)
    n, c = min(n, 400 // c + 1), min(c, 400 // n + 1)
    number = {"n": n, "c": c, "k": rng.randrange(n)}
    load = "wp.tile_load({}, shape=({n}, {c}), offset=(i * {a}, {b}))"
    lines = [f"{name} = " + load.format("x", n=n, c=c, a=n, b=rng.randrange(3)) for name in "tu"]
    cubic = n**3 < 8000
    steps = STEPS if cubic else STEPS[:-3]
    lines += [rng.choice(steps).format(**number) for _ in range(rng.randint(2, 6))]
    lines += [f"wp.tile_store(y, t, offset=(i * {n}, 0))", f"wp.tile_store(y, u, offset=(i * {n}, {c}))"]
    kernel = body_kernel("x: wp.array2d[float], y: wp.array2d[float]", "\n".join(lines))
    return replace(prepare(kernel.specialize(), fma=False), name=f"random_{seed}")


def check(seeds: range) -> int:
    """Compare kernels with the interpreter; how many of them blocks work on."""
    kernels = [random_kernel(seed) for seed in seeds]
    codes = [print_cuda(kernel) for kernel in kernels]
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for kernel, code in zip(kernels, codes, strict=True):
        rng = np.random.default_rng(3)
        x = rng.standard_normal((70, 66)).astype(np.float32)
        expected, got = [x, np.zeros((90, 90), np.float32)], [x.copy(), np.zeros((90, 90), np.float32)]
        interpret(kernel, (1,), expected)
        hostcuda.run_code(kernel, code, (1,), got)
        scale = max(1.0, float(np.abs(expected[1]).max()))
        np.testing.assert_allclose(got[1], expected[1], rtol=1e-4, atol=1e-5 * scale, err_msg=code.source)
    return sum(code.threads > 1 for code in codes)


def test_random_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(planning, "WORTH", 0)
    monkeypatch.setattr(planning, "LEAST_OF_REST", 1)
    assert check(range(8)) >= 6
