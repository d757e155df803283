"""CUDA C++ written by hand, launched through the same native handler as code made from kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cuda import CudaCode, compile_cuda
from jaxwarp.ffi.launch.image import CUDA, CudaEntry, pack_cuda_payload, pack_image, sealed
from jaxwarp.ffi.launch.lowering import TARGET

SAXPY = """
extern "C" __global__ void __launch_bounds__(256) saxpy_by_hand(
    const float* __restrict__ a, const float* __restrict__ x, const float* __restrict__ y,
    float* __restrict__ out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fmaf(*a, x[i], y[i]);
}
"""

# The same arithmetic as tests/kernels.py, in the same order. One thread a cell, neighbours wrap around.
LBM = """
extern "C" __global__ void __launch_bounds__(256) lbm_by_hand(
    const float* __restrict__ f, const float* __restrict__ omega, float* __restrict__ g, int ny, int nx, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int y = i / nx, x = i - y * nx;
    const int west = x == 0 ? nx - 1 : x - 1, east = x == nx - 1 ? 0 : x + 1;
    const int up = (y == 0 ? ny - 1 : y - 1) * nx, here = y * nx, down = (y == ny - 1 ? 0 : y + 1) * nx;
    const float v0 = f[here + x];
    const float v1 = f[n + here + west], v2 = f[2 * n + up + x];
    const float v3 = f[3 * n + here + east], v4 = f[4 * n + down + x];
    const float v5 = f[5 * n + up + west], v6 = f[6 * n + up + east];
    const float v7 = f[7 * n + down + east], v8 = f[8 * n + down + west];
    const float rho = v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 + v8;
    const float ux = (v1 - v3 + v5 - v6 - v7 + v8) / rho;
    const float uy = (v2 - v4 + v5 + v6 - v7 - v8) / rho;
    const float rest = 1.0f - 1.5f * (ux * ux + uy * uy), w = *omega;
#define RELAX(q, weight, cu) \\
    { const float c = (cu); \\
      g[q * n + i] = v##q + w * (weight * rho * (rest + 3.0f * c + 4.5f * c * c) - v##q); }
    RELAX(0, 4.0f / 9.0f, 0.0f)
    RELAX(1, 1.0f / 9.0f, ux)
    RELAX(2, 1.0f / 9.0f, uy)
    RELAX(3, 1.0f / 9.0f, -ux)
    RELAX(4, 1.0f / 9.0f, -uy)
    RELAX(5, 1.0f / 36.0f, ux + uy)
    RELAX(6, 1.0f / 36.0f, -ux + uy)
    RELAX(7, 1.0f / 36.0f, -ux - uy)
    RELAX(8, 1.0f / 36.0f, ux - uy)
#undef RELAX
}
"""

INCREMENT = """
extern "C" __global__ void increment_by_hand(const float* __restrict__ x, float* __restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1.0f;
}
"""


@dataclass(frozen=True)
class ByHand:
    """A CUDA function and what the handler must know of it (docs/design/0002-launch-abi.md).

    Attributes:
        symbol: the function's name.
        source: CUDA C++ without includes.
        ranks: of each buffer, in the order of its arguments; the last is the output.
        geometry: (buffer, axis) of each extent it takes after the pointers; (-1, axis) for those of the launch.
    """

    symbol: str
    source: str
    ranks: tuple[int, ...]
    geometry: tuple[tuple[int, int], ...] = ()
    block: int = 256

    @property
    def code(self) -> CudaCode:
        return CudaCode(self.symbol, self.source, self.geometry, 32, CudaOptions(self.block), ())

    def call(self, grid: Sequence[int], output: jax.ShapeDtypeStruct, arch: int) -> Callable[..., Any]:
        """A function of JAX arrays that launches it, for devices of architecture `arch` (90 for sm_90)."""
        payload = pack_cuda_payload([CudaEntry(*entry) for entry in compile_cuda(self.code, (arch,))])
        attributes = {
            "name": self.symbol,
            "symbol": self.symbol,
            "image": pack_image(CUDA, payload),
            "buffers": np.arange(len(self.ranks), dtype=np.int64),
            "ranks": np.array(self.ranks, np.int64),
            "grid": np.array(grid, np.int64),
            "grid_from": np.full(2 * len(grid), -1, np.int64),
            "geometry": np.array(self.geometry, np.int64).reshape(-1),
            "zero": np.zeros(0, np.int64),
            "grain": np.int64(0),
            "block": np.int64(self.block),
            "blocks": np.int64(2**31 - 1),
            "index_bits": np.int64(32),
        }
        return lambda *operands: jax.ffi.ffi_call(TARGET, output)(*operands, **sealed(attributes))


saxpy = ByHand("saxpy_by_hand", SAXPY, (0, 1, 1, 1))
lbm = ByHand("lbm_by_hand", LBM, (3, 0, 3), ((-1, 0), (-1, 1)))
increment = ByHand("increment_by_hand", INCREMENT, (1, 1))
