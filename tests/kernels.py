"""Kernels that tests, goldens and benchmarks share: each with a launch and sample inputs.

`KERNELS` maps names to samples. A sample's buffers are fresh and the same every time; outputs start poisoned, so that
an element a kernel forgets is seen.
"""

# Kernels are written as users of Warp write them: float(0.0) makes a variable, not a constant.
# ruff: noqa: UP018, RUF046, RUF021, RET505

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import jaxwarp as wp
from jaxwarp.ir.kernel import Kernel
from jaxwarp.types import Array

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Sample:
    """A kernel and a launch of it.

    Attributes:
        exact: every operation is exactly defined; else elementary functions are within some units in the last place.
        types: argument types of a generic kernel.
    """

    kernel: Any
    grid: tuple[int, ...]
    make_buffers: Callable[[np.random.Generator], Sequence[np.ndarray]]
    exact: bool = True
    types: tuple[Any, ...] | None = None

    @property
    def ir(self) -> Kernel:
        return self.kernel.specialize(self.types)

    def buffers(self, seed: int = 0) -> list[np.ndarray]:
        return [np.array(b, order="C") for b in self.make_buffers(np.random.default_rng(seed))]


KERNELS: dict[str, Sample] = {}


def sample(
    grid: tuple[int, ...], buffers: Callable, exact: bool = True, types: tuple[Any, ...] | None = None
) -> Callable:
    """Registers the kernel that it decorates."""

    def register(kernel: Any) -> Any:
        KERNELS[kernel.name] = Sample(kernel, grid, buffers, exact, types)
        return kernel

    return register


def scalar(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.full((), value, dtype)


def normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.normal(size=shape).astype(dtype)


def poison(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.full(shape, 77, dtype)


@sample((1000,), lambda r: [scalar(2.5), normal(r, 1000), normal(r, 1000), poison(1000)])
@wp.kernel
def saxpy(a: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a * x[i] + y[i]


@sample((77,), lambda r: [normal(r, 77, 3), normal(r, 77, 3), poison(77, 3), poison(77)])
@wp.kernel
def vec3_frame(
    a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), normal_: wp.array(dtype=wp.vec3), angle: wp.array[float]
):
    i = wp.tid()
    u = wp.normalize(a[i])
    v = b[i]
    n = wp.cross(u, v)
    if wp.length(n) > 1.0e-6:
        n = wp.normalize(n)
    normal_[i] = n
    angle[i] = wp.dot(u, v) / wp.length(v)


@sample((24, 40), lambda r: [0.1 + 0.01 * r.random((9, 24, 40)).astype(np.float32), poison(9, 24, 40), scalar(1.7)])
@wp.kernel
def lbm_d2q9(f: wp.array3d[float], out: wp.array3d[float], omega: float):
    """One lattice Boltzmann step, BGK, periodic: pull, collide, write."""
    y, x = wp.tid()
    ny = f.shape[1]
    nx = f.shape[2]
    xm = (x - 1 + nx) % nx
    xp = (x + 1) % nx
    ym = (y - 1 + ny) % ny
    yp = (y + 1) % ny
    f0 = f[0, y, x]
    f1 = f[1, y, xm]
    f2 = f[2, ym, x]
    f3 = f[3, y, xp]
    f4 = f[4, yp, x]
    f5 = f[5, ym, xm]
    f6 = f[6, ym, xp]
    f7 = f[7, yp, xp]
    f8 = f[8, yp, xm]
    rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
    ux = (f1 + f5 + f8 - f3 - f6 - f7) / rho
    uy = (f2 + f5 + f6 - f4 - f7 - f8) / rho
    usq = 1.5 * (ux * ux + uy * uy)
    d = ux + uy
    e = ux - uy
    w1 = rho / 9.0
    w2 = rho / 36.0
    out[0, y, x] = f0 + omega * (4.0 * w1 * (1.0 - usq) - f0)
    out[1, y, x] = f1 + omega * (w1 * (1.0 + 3.0 * ux + 4.5 * ux * ux - usq) - f1)
    out[2, y, x] = f2 + omega * (w1 * (1.0 + 3.0 * uy + 4.5 * uy * uy - usq) - f2)
    out[3, y, x] = f3 + omega * (w1 * (1.0 - 3.0 * ux + 4.5 * ux * ux - usq) - f3)
    out[4, y, x] = f4 + omega * (w1 * (1.0 - 3.0 * uy + 4.5 * uy * uy - usq) - f4)
    out[5, y, x] = f5 + omega * (w2 * (1.0 + 3.0 * d + 4.5 * d * d - usq) - f5)
    out[6, y, x] = f6 + omega * (w2 * (1.0 - 3.0 * e + 4.5 * e * e - usq) - f6)
    out[7, y, x] = f7 + omega * (w2 * (1.0 - 3.0 * d + 4.5 * d * d - usq) - f7)
    out[8, y, x] = f8 + omega * (w2 * (1.0 + 3.0 * e + 4.5 * e * e - usq) - f8)


@sample((65,), lambda r: [normal(r, 65, 3), r.random(65).astype(np.float32), poison(65, 3), scalar(1e-2)])
@wp.kernel
def nbody(
    position: wp.array(dtype=wp.vec3), mass: wp.array[float], acceleration: wp.array(dtype=wp.vec3), softening: float
):
    i = wp.tid()
    p = position[i]
    a = wp.vec3(0.0, 0.0, 0.0)
    for j in range(len(position)):
        d = position[j] - p
        r2 = wp.dot(d, d) + softening
        a += d * (mass[j] / (r2 * wp.sqrt(r2)))
    acceleration[i] = a


@sample((21, 35), lambda r: [poison(21, 35, dtype=np.int32), scalar(60, np.int32)])
@wp.kernel
def mandelbrot(count: wp.array2d[int], limit: int):
    i, j = wp.tid()
    cr = -2.0 + 2.8 * float(j) / float(count.shape[1])
    ci = -1.2 + 2.4 * float(i) / float(count.shape[0])
    zr = float(0.0)
    zi = float(0.0)
    n = int(0)
    while n < limit and zr * zr + zi * zi <= 4.0:
        t = zr * zr - zi * zi + cr
        zi = 2.0 * zr * zi + ci
        zr = t
        n += 1
    count[i, j] = n


@sample((90,), lambda r: [normal(r, 50, 2), r.integers(-50, 50, 90).astype(np.int32), poison(90)])
@wp.kernel
def gather(x: wp.array2d[float], index: wp.array[int], out: wp.array[float]):
    """Indices may be negative, as in Python."""
    i = wp.tid()
    k = index[i]
    if k < 0:
        k += x.shape[0]
    out[i] = x[k, 0] - x[k, x.shape[1] - 1]


@sample(
    (12, 30), lambda r: [r.integers(-9, 9, (12, 30)).astype(np.int32), np.zeros(12, np.int32), np.zeros(12, np.int32)]
)
@wp.kernel
def rowsum(x: wp.array2d[int], total: wp.array[int], largest: wp.array[int]):
    i, j = wp.tid()
    wp.atomic_add(total, i, x[i, j])
    wp.atomic_max(largest, i, x[i, j])


@sample((9, 11), lambda r: [normal(r, 9, 7), normal(r, 7, 11), poison(9, 11)])
@wp.kernel
def matmul(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    s = float(0.0)
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@sample((200,), lambda r: [r.uniform(0.1, 3.0, 200).astype(np.float32), poison(200)], exact=False)
@wp.kernel
def elementary(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    v = x[i]
    a = wp.sin(v) * wp.cos(v) + wp.tan(0.2 * v)
    b = wp.exp(-v) * wp.log(1.0 + v) + wp.sqrt(v)
    c = wp.atan2(v, 2.0) + wp.tanh(v) + wp.pow(v, 1.5)
    out[i] = wp.max(wp.min(a, b), wp.clamp(c, 0.0, 2.0)) + wp.floor(v) - wp.abs(wp.sinh(0.5 * v))


@sample((33,), lambda r: [normal(r, 33, 3, 3), normal(r, 33, 3), poison(33, 3, 3), poison(33, 3), poison(33)])
@wp.kernel
def mat33_algebra(
    m: wp.array(dtype=wp.mat33),
    v: wp.array(dtype=wp.vec3),
    square: wp.array(dtype=wp.mat33),
    image: wp.array(dtype=wp.vec3),
    volume: wp.array[float],
):
    i = wp.tid()
    a = m[i]
    square[i] = a * a + wp.transpose(a) - wp.outer(v[i], v[i])
    image[i] = a * v[i]
    volume[i] = wp.determinant(a) + wp.trace(a)


@sample((500,), lambda r: [r.random(500).astype(np.float32), np.zeros(16, np.int32), scalar(16, np.int32)])
@wp.kernel
def histogram(x: wp.array[float], count: wp.array[int], bins: int):
    i = wp.tid()
    b = wp.min(int(x[i] * float(bins)), bins - 1)
    wp.atomic_add(count, b, 1)


@sample((120,), lambda r: [normal(r, 120), np.zeros(120, np.float32)])
@wp.kernel
def early_return(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    v = x[i]
    if v < -1.0:
        out[i] = -1.0
        return
    if v > 1.0:
        out[i] = 1.0
        return
    elif v > 0.5:
        v = v * v
    else:
        v = v + 3.0
    out[i] = v


@sample(
    (60,), lambda r: [r.integers(1, 400, 60).astype(np.int32), poison(60, dtype=np.int32), poison(60, dtype=np.int32)]
)
@wp.kernel
def collatz(start: wp.array[int], steps: wp.array[int], peak: wp.array[int]):
    """`while` with `break` and `continue`."""
    i = wp.tid()
    n = start[i]
    count = int(0)
    top = n
    while True:
        if n == 1:
            break
        count += 1
        if n % 2 == 0:
            n = n // 2
            continue
        n = 3 * n + 1
        top = wp.max(top, n)
        if count > 100:
            break
    steps[i] = count
    peak[i] = top


@sample((6, 7, 8), lambda r: [normal(r, 6, 7, 8), poison(6, 7, 8), scalar(0.1)])
@wp.kernel
def heat_3d(u: wp.array3d[float], out: wp.array3d[float], k: float):
    i, j, m = wp.tid()
    c = u[i, j, m]
    if i == 0 or j == 0 or m == 0 or i == u.shape[0] - 1 or j == u.shape[1] - 1 or m == u.shape[2] - 1:
        out[i, j, m] = c
    else:
        s = u[i - 1, j, m] + u[i + 1, j, m] + u[i, j - 1, m] + u[i, j + 1, m] + u[i, j, m - 1] + u[i, j, m + 1]
        out[i, j, m] = c + k * (s - 6.0 * c)


@sample(
    (40,),
    lambda r: [
        r.integers(-128, 128, 40).astype(np.int8),
        r.integers(0, 256, 40).astype(np.uint8),
        r.integers(0, 2, 40).astype(bool),
        poison(40, dtype=np.int8),
        poison(40, dtype=np.uint8),
        np.ones(40, bool),
    ],
)
@wp.kernel
def small_integers(
    a: wp.array[wp.int8],
    b: wp.array[wp.uint8],
    mask: wp.array[wp.bool],
    c: wp.array[wp.int8],
    d: wp.array[wp.uint8],
    flag: wp.array[wp.bool],
):
    i = wp.tid()
    c[i] = a[i] * a[i] + wp.int8(b[i])
    d[i] = (b[i] >> wp.uint8(2)) ^ wp.uint8(a[i])
    flag[i] = mask[i] and a[i] > wp.int8(0) or not mask[i] and b[i] < wp.uint8(9)


@sample(
    (70,),
    lambda r: [
        normal(r, 70, dtype=np.float16),
        normal(r, 70, dtype=BFLOAT16),
        poison(70, dtype=np.float16),
        poison(70, dtype=BFLOAT16),
    ],
)
@wp.kernel
def halves(a: wp.array[wp.float16], b: wp.array[wp.bfloat16], c: wp.array[wp.float16], d: wp.array[wp.bfloat16]):
    i = wp.tid()
    c[i] = a[i] * a[i] + wp.float16(b[i])
    d[i] = wp.bfloat16(float(a[i]) * 3.0) - b[i]


@sample(
    (30,),
    lambda r: [
        normal(r, 30, dtype=np.float64),
        r.integers(-(2**60), 2**60, 30),
        poison(30, dtype=np.float64),
        poison(30, dtype=np.int64),
    ],
)
@wp.kernel
def wide(x: wp.array[wp.float64], n: wp.array[wp.int64], y: wp.array[wp.float64], m: wp.array[wp.int64]):
    i = wp.tid()
    y[i] = wp.sqrt(wp.abs(x[i])) + wp.float64(n[i] % wp.int64(1000)) * wp.float64(0.25)
    m[i] = (n[i] << wp.int64(3)) // wp.int64(7) + wp.int64(x[i])


@sample(
    (50,),
    lambda r: [normal(r, 50, dtype=np.float64), scalar(3.0, np.float64), poison(50, dtype=np.float64)],
    types=(Array(wp.float64), wp.float64, Array(wp.float64)),
)
@wp.kernel
def generic_scale(x: wp.array(dtype=Any), factor: Any, out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = x[i] * factor + x[i]


@wp.func
def _limited(x: float, low: float = -1.0, high: float = 1.0):
    if x < low:
        return low
    if x > high:
        return high
    return x


@wp.func
def _split(x: float):
    whole = wp.floor(x)
    return whole, x - whole


@sample((64,), lambda r: [3 * normal(r, 64), poison(64), poison(64)])
@wp.kernel
def functions(x: wp.array[float], a: wp.array[float], b: wp.array[float]):
    i = wp.tid()
    whole, part = _split(x[i])
    a[i] = _limited(whole, high=2.0)
    b[i] = _limited(part * 4.0 - 2.0) + (1.0 if i % 3 == 0 else -1.0)


@sample(
    (45,),
    lambda r: [
        r.integers(0, 20, 45).astype(np.int32),
        scalar(-3, np.int32),
        poison(45, dtype=np.int32),
        poison(45, 4, dtype=np.int32),
    ],
)
@wp.kernel
def ranges(n: wp.array[int], step: int, total: wp.array[int], parts: wp.array2d[int]):
    """Ranges up and down, with a step known at run time only, nested, with a swap carried around."""
    i = wp.tid()
    s = int(0)
    for k in range(n[i], -5, step):
        s += k * k
    a = int(1)
    b = int(2)
    for j in range(0, n[i], 2):
        for _ in range(j, j + 3):
            a, b = b, a + j
    total[i] = s
    parts[i, 0] = a
    parts[i, 1] = b
    for k in range(3, 1, -1):
        parts[i, k] = k + s


@sample((48,), lambda r: [normal(r, 48, 4), r.integers(0, 4, 48).astype(np.int32), poison(48, 4)])
@wp.kernel
def component_by_index(x: wp.array(dtype=wp.vec4), which: wp.array[int], out: wp.array(dtype=wp.vec4)):
    i = wp.tid()
    v = x[i]
    k = which[i]
    v[k] = v[k] * 2.0 + v[0]
    v[3] += 1.0
    out[i] = v


def total_threads(one: Sample) -> int:
    return math.prod(one.grid)
