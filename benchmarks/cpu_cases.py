"""What cpu.py times: data, the kernel as users call it, plain jax.numpy, the arguments of the C++ function.

Most cases come in float32 and in float64, the latter with half the elements where it is memory that counts. Results of
all contenders are compared with those of jax.numpy.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cpu_kernels
import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp

OMEGA, LIMIT = 1.2, 256
WEIGHTS = (0.1, 0.2, 0.3, 0.4)
CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
TYPES = {np.float32: (wp.float32, wp.vec3, wp.mat33), np.float64: (wp.float64, wp.vec3d, wp.mat33d)}
TOLERANCES = {np.float32: 1e-5, np.float64: 1e-13}


@dataclass(frozen=True)
class Case:
    """Something to time.

    Attributes:
        kernel_name: of the kernel, the C++ function, and the functions of the peers.
        real: the type of its floats, of NumPy.
        arrays: the data, NumPy.
        shape: of the result.
        scalars: what the C++ function takes first.
        plain: the same in jax.numpy.
        dims: of the launch.
        arguments: of the kernel, without outputs, given the arrays.
        dtype: of the result; None for `real`.
        looseness: ||result - jax.numpy's|| / ||jax.numpy's|| that is allowed, times what is for one rounding or two.
    """

    kernel_name: str
    real: Any
    arrays: tuple[np.ndarray, ...]
    shape: tuple[int, ...]
    scalars: tuple[Any, ...]
    plain: Callable[..., Any]
    dims: tuple[int, ...]
    arguments: Callable[..., Sequence[Any]] = lambda *arrays: arrays
    dtype: Any = None
    looseness: float = 1.0

    @property
    def name(self) -> str:
        return self.kernel_name + (" f64" if self.real is np.float64 else "")

    @property
    def result_dtype(self) -> Any:
        return self.dtype or self.real

    @property
    def tolerance(self) -> float:
        return self.looseness * TOLERANCES[self.real]

    def ours(self, *arrays: Any) -> Any:
        call = wp.jax_kernel(_kernel(self.kernel_name, self.real), launch_dims=self.dims, output_dims=self.shape)
        return call(*self.arguments(*arrays))[0]


@functools.cache
def _kernel(name: str, real: Any) -> Any:
    return cpu_kernels.KERNELS[name](*TYPES[real])


class _Maker:
    """Sizes, random data and C arguments for one type of floats."""

    def __init__(self, real: Any, small: bool):
        self.real = real
        self.small = small
        self.random = np.random.default_rng(7)

    def bulk(self, n: int) -> int:
        """Elements of a case that memory bounds: about the same number of bytes in both types."""
        return n // 256 if self.small else n * 4 // np.dtype(self.real).itemsize

    def floats(self, *shape: int) -> np.ndarray:
        return self.random.uniform(0.1, 1.0, shape).astype(self.real)

    def c(self, x: float) -> Any:
        return (ctypes.c_float if self.real is np.float32 else ctypes.c_double)(x)


def c_int(n: int) -> Any:
    return ctypes.c_int64(n)


def make_cases(small: bool = False) -> Iterator[Case]:
    """The cases, one after the other; `small` ones are for tests."""
    single, double = _Maker(np.float32, small), _Maker(np.float64, small)
    yield from (*_streaming(single), *_loops(single), *_awkward(single), *_streaming(double), *_loops(double))


def _streaming(make: _Maker) -> Iterator[Case]:
    real, floats, c = make.real, make.floats, make.c
    n = make.bulk(10_000_000)
    yield Case("saxpy", real, (floats(n), floats(n)), (n,), (c_int(n), c(1.7)), lambda x, y: real(1.7) * x + y, (n,),
               lambda x, y: (real(1.7), x, y))  # fmt: skip
    n, m, cells = make.bulk(4_000_000), make.bulk(65_536), make.bulk(1_000_000)
    yield Case("vec3", real, (floats(cells, 3), floats(cells, 3)), (cells, 3), (c_int(cells),), _vec3, (cells,))
    ny = nx = 46 if make.small else 768
    ny = ny if make.small else make.bulk(ny)
    yield Case("lbm", real, (floats(9, ny, nx),), (9, ny, nx), (c_int(ny), c_int(nx), c(OMEGA)), _lbm, (ny, nx),
               lambda f: (f, real(OMEGA)))  # fmt: skip
    # The fraction of x (m - 1) has lost as many digits as its whole part takes.
    yield Case("gather", real, (floats(n), floats(m)), (n,), (c_int(n), c_int(m)), _gather, (n,), looseness=500)
    rows, columns = make.bulk(4096), 1024
    yield Case("row_sum", real, (floats(rows, columns),), (rows,), (c_int(rows), c_int(columns)), lambda a: a.sum(1),
               (rows, columns))  # fmt: skip


def _loops(make: _Maker) -> Iterator[Case]:
    real, floats = make.real, make.floats
    # Multiples of what the C++ takes at a time.
    bodies, picture, size = (64, 192, 96) if make.small else (4096, 768, 384)
    n = make.bulk(2_000_000)
    yield Case("nbody", real, (floats(bodies, 3), floats(bodies)), (bodies, 3), (c_int(bodies),), _nbody, (bodies,),
               looseness=10)  # fmt: skip
    # Fused and unfused products differ for points at the edge of the set.
    yield Case("mandelbrot", real, (), (picture, picture), (c_int(picture), ctypes.c_int(LIMIT)),
               lambda: _mandelbrot(picture, real), (picture, picture), lambda: (real(picture), LIMIT), np.int32,
               0.02 / TOLERANCES[real])  # fmt: skip
    yield Case("matmul", real, (floats(size, size), floats(size, size)), (size, size), (c_int(size),), jnp.matmul,
               (size, size))  # fmt: skip
    yield Case("elementary", real, (floats(n), floats(n)), (n,), (c_int(n),),
               lambda x, y: jnp.sin(x) * jnp.exp(-y) + x**y + jnp.sqrt(x), (n,))  # fmt: skip


def _awkward(make: _Maker) -> Iterator[Case]:
    real, floats = make.real, make.floats
    starts, n, matrices = make.bulk(1 << 18), make.bulk(1_000_000), make.bulk(400_000)
    yield Case("collatz", real, (make.random.integers(1, 100_000, starts).astype(np.int32),), (starts,),
               (c_int(starts),), _collatz, (starts,), dtype=np.int32, looseness=0)  # fmt: skip
    yield Case("many", real, tuple(floats(n) for _ in range(8)), (n,), (c_int(n),),
               lambda *a: sum(real(w) * x * y for w, x, y in zip(WEIGHTS, a[::2], a[1::2], strict=True)), (n,),
               lambda *a: (*a, *map(real, WEIGHTS)))  # fmt: skip
    yield Case("mat33", real, (floats(matrices, 3, 3), floats(matrices, 3, 3)), (matrices, 3, 3), (c_int(matrices),),
               lambda a, b: a @ b + a.swapaxes(1, 2), (matrices,))  # fmt: skip


def _vec3(a: Any, b: Any) -> Any:
    return jnp.cross(a / jnp.sqrt((a * a).sum(1, keepdims=True)), b)


def _lbm(f: Any) -> Any:
    v = jnp.stack([jnp.roll(f[q], (CY[q], CX[q]), (0, 1)) for q in range(9)])
    cx, cy = (jnp.array(c, f.dtype)[:, None, None] for c in (CX, CY))
    weight = jnp.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, f.dtype)[:, None, None]
    rho = v.sum(0)
    ux, uy = (v * cx).sum(0) / rho, (v * cy).sum(0) / rho
    along = cx * ux + cy * uy
    equilibrium = weight * rho * (1 + 3 * along + 4.5 * along**2 - 1.5 * (ux**2 + uy**2))
    return v + f.dtype.type(OMEGA) * (equilibrium - v)


def _gather(x: Any, table: Any) -> Any:
    t = x * (table.shape[0] - 1)
    k = t.astype(jnp.int32)
    s = t - k.astype(t.dtype)
    return table[k] * (1 - s) + table[k + 1] * s


def _nbody(pos: Any, mass: Any) -> Any:
    d = pos[None] - pos[:, None]
    r2 = (d * d).sum(2) + 1e-3
    return (d * (mass / (r2 * jnp.sqrt(r2)))[..., None]).sum(1)


def _mandelbrot(size: int, real: Any) -> Any:
    step = real(3 / size)
    across = jnp.arange(size).astype(real) * step
    cr, ci = (-2 + across)[None, :], (-1.5 + across)[:, None]

    def iterate(_: Any, state: Any) -> Any:
        zr, zi, count = state
        live = zr * zr + zi * zi <= 4
        return zr * zr - zi * zi + cr, 2 * zr * zi + ci, count + live

    zero = jnp.zeros((size, size), real)
    return jax.lax.fori_loop(0, LIMIT, iterate, (zero, zero, zero.astype(jnp.int32)))[2]


def _collatz(x: Any) -> Any:
    def step(state: Any) -> Any:
        n, count = state
        live = n != 1
        return jnp.where(live, jnp.where(n & 1 == 0, n >> 1, 3 * n + 1), n), count + live

    return jax.lax.while_loop(lambda s: (s[0] != 1).any(), step, (x, jnp.zeros_like(x)))[1]
