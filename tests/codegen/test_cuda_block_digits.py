"""Loops over elements whose index has those of the loops as digits, by a block of CUDA threads on the host."""

from __future__ import annotations

from dataclasses import replace

import hostcuda
import numpy as np
import pytest
from tilekit import body_kernel

from jaxwarp.analysis.loops.nests import Nests
from jaxwarp.codegen.cuda import print_cuda
from jaxwarp.codegen.cuda.blocks import plan as planning
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import fix_rounding, prepare
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import adjoint

BODIES = {
    "fourier": """
t = wp.tile_reshape(wp.tile_load(z, shape=({n} * 16,)), ({n}, 16))
wp.tile_fft(t)
wp.tile_store(z, wp.tile_reshape(t, ({n} * 16,)))
""",
    "inverse": """
t = wp.tile_load(z, shape=({n} * 8,))
wp.tile_ifft(t)
wp.tile_store(z, t)
""",
    "reshaped": """
a = wp.tile_load(m, shape=({n}, 6))
b = wp.tile_load(m, shape=(6, {n}), offset=(1, 1))
wp.tile_store(m, a * wp.tile_reshape(b, ({n}, 6)) + wp.tile_transpose(b))
""",
}
WAYS = {"plain": None, "reverse": adjoint, "forward": tangent}


def made(name: str, n: int, way: str) -> Kernel:
    body = BODIES[name].replace("{n}", str(n))
    kernel = body_kernel("m: wp.array2d[float], z: wp.array[wp.vec2]", body).specialize()
    derive = WAYS[way]
    if derive is not None:
        kernel = derive(fix_rounding(kernel, fma=False), range(2), (1,)).kernel
    return replace(prepare(kernel, fma=False), name=f"{name}_{n}_{way}")


@pytest.mark.parametrize("way", WAYS)
def test_fourier_transforms_and_reshaped_tiles(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LEAST_ELEMENTS", 1), ("WORTH", 1), ("EACH", 1)):
        monkeypatch.setattr(planning, name, value)
    kernels = [made(name, n, way) for name in BODIES for n in (4, 8)]
    codes = [print_cuda(kernel) for kernel in kernels]
    assert all(code.threads > 1 for code in codes)
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for kernel, code in zip(kernels, codes, strict=True):
        rng = np.random.default_rng(6)
        shapes = {"m": (12, 13), "z": (150, 2)}
        expected = [rng.standard_normal(shapes[p.name[0]]).astype(np.float32) for p in kernel.params]
        got = [a.copy() for a in expected]
        interpret(kernel, (1,), expected)
        hostcuda.run_code(kernel, code, (1,), got)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-5, err_msg=f"{kernel.name}\n{code.source}")


@pytest.mark.parametrize(
    ("stores", "count"),
    [
        ("x[2 * k] = 1.0\n    x[2 * k + 1] = 2.0", 1),
        ("x[3 * k + 5] = x[3 * k + 4] + x[3 * k + 6]\n    x[3 * k + 4] = 1.0", 1),
        ("x[3 * k + 5] = x[3 * k + 4] + x[3 * k + 7]\n    x[3 * k + 4] = 1.0", 0),
        ("x[5 * k] = x[5 * k + 2]\n    x[5 * k + 2] = 1.0\n    x[5 * k + 4] = 1.0", 1),
        ("x[k] = 1.0\n    x[k + 1] = 2.0", 0),
        ("x[2 * k] = 1.0\n    x[2 * k + 3] = 2.0", 0),
        ("for j in range(50):\n        x[k * 50 + j] = 1.0", 2),
        ("for j in range(60):\n        x[k * 50 + j] = 1.0", 1),
        ("for j in range(50):\n        x[k * 50 + j] = x[k * 50 + j] + x[k * 50 + 49 - j]", 0),
        ("for j in range(50):\n        m[(k * 50 + j) // 3, (k * 50 + j) % 3] = 1.0", 2),
        ("for j in range(50):\n        m[(k * 50 + j) // 3, (k * 50 + j) % 4] = 1.0", 0),
        ("for j in range(50):\n        m[(k * 40 + j) // 3, (k * 40 + j) % 3] = 1.0", 1),
        ("m[(k - 3) // 2, (k - 3) % 2] = 1.0", 0),
    ],
)
def test_which_loops_threads_may_share(stores: str, count: int) -> None:
    """The loops of the nest; 0: two iterations may be at one element, or who knows."""
    body = f"for k in range(70):\n    {stores}"
    kernel = prepare(body_kernel("x: wp.array[float], m: wp.array2d[float]", body).specialize())
    assert max((len(nest.loops) for nest in Nests(kernel).found.values()), default=0) == count
