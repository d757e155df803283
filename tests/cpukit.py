"""Hand-built kernels for the tests of CPU code, and the comparison with the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from kernels_strategy import same_values

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param, Value
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import Scalar, bool_, float32, int32

WIDTHS = (1, 8, 16, 32)
# Whatever machine this is, code is shaped for one with mask registers at some widths and without at others, with no
# cache at some and much at others.
SHAPES = {
    width: Machine("", "", "+avx512f" if width in (4, 16) else "+avx2", cache_bytes=0 if width >= 16 else 1 << 40)
    for width in (1, 2, 4, 8, 16, 32, 64)
}


class Make(Builder):
    """A builder that spells operations briefly."""

    def __init__(self) -> None:
        super().__init__()
        self.params: list[Param] = []

    def array(self, *shape: int | None, dtype: Scalar = float32) -> Param:
        param = Param(f"p{len(self.params)}", dtype, shape)
        self.params.append(param)
        return param

    def i(self, value: int, dtype: Scalar = int32) -> Value:
        return self.const(value, dtype)

    def f(self, value: float, dtype: Scalar = float32) -> Value:
        return self.const(value, dtype)

    def true(self) -> Value:
        return self.const(True, bool_)

    def op(self, name: str, *args: Value) -> Value:
        return self.call(ROWS[name], *args)

    def cast(self, value: Value, dtype: Scalar) -> Value:
        return self.call(ROWS["cast"], value, dtype=dtype)

    def kernel(self, grid_rank: int = 1) -> Kernel:
        return verify(self.finish("test", grid_rank, self.params))


def check(
    kernel: Kernel,
    grid: Sequence[int],
    buffers: Sequence[np.ndarray],
    widths: Sequence[int] = WIDTHS,
    tiles: Sequence[tuple[int, int, int, int]] | None = None,
) -> list[np.ndarray]:
    """CPU code at all widths leaves the buffers as the interpreter does, bit for bit. Returns these buffers."""
    prepared = prepare(kernel)
    expected = [np.array(b) for b in buffers]
    interpret(prepared, grid, expected)
    for width in widths:
        got = [np.array(b) for b in buffers]
        run_cpu(prepared, grid, got, width, tiles, SHAPES[width])
        for param, right, ours in zip(kernel.params, expected, got, strict=True):
            if not same_values(right, ours):
                where = np.argwhere(right != ours)[:5].tolist()
                raise AssertionError(
                    f"width {width}, grid {tuple(grid)}: {param.name} differs at {where}\n{right}\n{ours}\n{prepared}"
                )
    return expected


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Small numbers of which sums are exact."""
    return np.random.default_rng(seed).integers(-64, 64, shape).astype(np.float32) / 8
