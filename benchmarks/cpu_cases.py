"""What cpu.py times: data, the kernel as users call it, plain jax.numpy, the arguments of the C++ function.

Every case computes float32 (or int32) of one size. Results are compared with those of the hand-written C++, which is
itself compared with jax.numpy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cpu_kernels as kernels
import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp

RNG = np.random.default_rng(7)
OMEGA, LIMIT = 1.2, 256
WEIGHTS = (0.1, 0.2, 0.3, 0.4)
CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)


@dataclass(frozen=True)
class Case:
    """Something to time.

    Attributes:
        name: of the kernel, the C++ function, and the functions of the peers.
        arrays: the data, NumPy.
        shape, dtype: of the result.
        scalars: what the C++ function takes first.
        arguments: of the kernel, without outputs, given the arrays.
        dims: of the launch.
        plain: the same in jax.numpy.
        tolerance: ||result - reference|| / ||reference||.
    """

    name: str
    arrays: tuple[np.ndarray, ...]
    shape: tuple[int, ...]
    scalars: tuple[Any, ...]
    plain: Callable[..., Any]
    dims: tuple[int, ...]
    arguments: Callable[..., Sequence[Any]] = lambda *arrays: arrays
    dtype: Any = np.float32
    tolerance: float = 1e-5

    def kernel(self) -> Any:
        return getattr(kernels, self.name)

    def ours(self, *arrays: Any) -> Any:
        call = wp.jax_kernel(self.kernel(), launch_dims=self.dims, output_dims=self.shape)
        return call(*self.arguments(*arrays))[0]


def floats(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 1.0, shape).astype(np.float32)


def c_int(n: int) -> Any:
    return ctypes.c_int64(n)


def make_cases() -> list[Case]:
    return [*_streaming(), *_loops(), *_awkward()]


def _streaming() -> list[Case]:
    n, m, side, cells = 4_000_000, 65_536, 768, 1_000_000
    lattice = (9, side, side)
    return [
        Case("saxpy", (floats(n), floats(n)), (n,), (c_int(n), ctypes.c_float(1.7)), lambda x, y: 1.7 * x + y, (n,),
             lambda x, y: (1.7, x, y)),
        Case("vec3", (floats(cells, 3), floats(cells, 3)), (cells, 3), (c_int(cells),), _vec3, (cells,)),
        Case("lbm", (floats(*lattice),), lattice, (c_int(side), c_int(side), ctypes.c_float(OMEGA)), _lbm, (side, side),
             lambda f: (f, OMEGA)),
        Case("gather", (floats(n), floats(m)), (n,), (c_int(n), c_int(m)), _gather, (n,)),
        Case("row_sum", (floats(4096, 1024),), (4096,), (c_int(4096), c_int(1024)), lambda a: a.sum(1), (4096, 1024)),
    ]  # fmt: skip


def _loops() -> list[Case]:
    bodies, picture, size, n = 4096, 768, 384, 2_000_000
    return [
        Case("nbody", (floats(bodies, 3), floats(bodies)), (bodies, 3), (c_int(bodies),), _nbody, (bodies,),
             tolerance=1e-4),
        # Fused and unfused products differ for points at the edge of the set.
        Case("mandelbrot", (), (picture, picture), (c_int(picture), ctypes.c_int(LIMIT)), lambda: _mandelbrot(picture),
             (picture, picture), lambda: (float(picture), LIMIT), np.int32, 0.02),
        Case("matmul", (floats(size, size), floats(size, size)), (size, size), (c_int(size),), jnp.matmul,
             (size, size)),
        Case("elementary", (floats(n), floats(n)), (n,), (c_int(n),),
             lambda x, y: jnp.sin(x) * jnp.exp(-y) + x**y + jnp.sqrt(x), (n,)),
    ]  # fmt: skip


def _awkward() -> list[Case]:
    starts, n, matrices = 1 << 18, 1_000_000, 400_000
    return [
        Case("collatz", (RNG.integers(1, 100_000, starts).astype(np.int32),), (starts,), (c_int(starts),), _collatz,
             (starts,), dtype=np.int32, tolerance=0.0),
        Case("many", tuple(floats(n) for _ in range(8)), (n,), (c_int(n),),
             lambda *a: sum(w * x * y for w, x, y in zip(WEIGHTS, a[::2], a[1::2], strict=True)), (n,),
             lambda *a: (*a, *WEIGHTS)),
        Case("mat33", (floats(matrices, 3, 3), floats(matrices, 3, 3)), (matrices, 3, 3), (c_int(matrices),),
             lambda a, b: a @ b + a.swapaxes(1, 2), (matrices,)),
    ]  # fmt: skip


def _vec3(a: Any, b: Any) -> Any:
    return jnp.cross(a / jnp.sqrt((a * a).sum(1, keepdims=True)), b)


def _lbm(f: Any) -> Any:
    v = jnp.stack([jnp.roll(f[q], (CY[q], CX[q]), (0, 1)) for q in range(9)])
    cx, cy = (jnp.array(c, jnp.float32)[:, None, None] for c in (CX, CY))
    weight = jnp.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, jnp.float32)[:, None, None]
    rho = v.sum(0)
    ux, uy = (v * cx).sum(0) / rho, (v * cy).sum(0) / rho
    along = cx * ux + cy * uy
    equilibrium = weight * rho * (1 + 3 * along + 4.5 * along**2 - 1.5 * (ux**2 + uy**2))
    return v + jnp.float32(OMEGA) * (equilibrium - v)


def _gather(x: Any, table: Any) -> Any:
    t = x * (table.shape[0] - 1)
    k = t.astype(jnp.int32)
    s = t - k
    return table[k] * (1 - s) + table[k + 1] * s


def _nbody(pos: Any, mass: Any) -> Any:
    d = pos[None] - pos[:, None]
    r2 = (d * d).sum(2) + 1e-3
    return (d * (mass / (r2 * jnp.sqrt(r2)))[..., None]).sum(1)


def _mandelbrot(size: int) -> Any:
    step = np.float32(3 / size)
    cr, ci = (-2 + jnp.arange(size) * step)[None, :], (-1.5 + jnp.arange(size) * step)[:, None]

    def iterate(_: Any, state: Any) -> Any:
        zr, zi, count = state
        live = zr * zr + zi * zi <= 4
        return zr * zr - zi * zi + cr, 2 * zr * zi + ci, count + live

    zero = jnp.zeros((size, size), jnp.float32)
    return jax.lax.fori_loop(0, LIMIT, iterate, (zero, zero, zero.astype(jnp.int32)))[2]


def _collatz(x: Any) -> Any:
    def step(state: Any) -> Any:
        n, count = state
        live = n != 1
        return jnp.where(live, jnp.where(n & 1 == 0, n >> 1, 3 * n + 1), n), count + live

    return jax.lax.while_loop(lambda s: (s[0] != 1).any(), step, (x, jnp.zeros_like(x)))[1]
