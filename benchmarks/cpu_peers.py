"""The cases of cpu_cases.py in Numba, as loops over threads, and in NVIDIA Warp, which compiles cpu_kernels.py."""

from __future__ import annotations

import functools
import importlib.util
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cpu_cases import LIMIT, OMEGA, WEIGHTS, Case

Run = Callable[[], np.ndarray]


def numba_runs(case: Case, out: np.ndarray, fastmath: bool) -> Run:
    """The case through Numba. Raises ImportError where it is not installed."""
    import numba

    scope = {"prange": numba.prange, "math": math, "np": np, "real": case.real}
    function = numba.njit(parallel=True, fastmath=fastmath, error_model="numpy")(
        _in_scope(LOOPS[case.kernel_name], scope)
    )
    extra = {"saxpy": (case.real(1.7),), "lbm": (case.real(OMEGA),), "many": tuple(map(case.real, WEIGHTS)),
             "mandelbrot": (LIMIT,)}.get(case.kernel_name, ())  # fmt: skip

    def run() -> np.ndarray:
        function(*extra, *case.arrays, out)
        return out

    return run


@functools.cache
def numba_times(name: str, parallel: bool) -> Callable[..., None]:
    """A kernel of sizes.py through Numba: f(times, a, x, y, out), so many times. Raises ImportError as above."""
    import numba

    scope = {"prange": numba.prange, "math": math, "real": np.float32}
    compiler = numba.njit(parallel=parallel, fastmath=True, error_model="numpy")
    scope["once"] = compiler(_in_scope(SIZED[name], scope))
    return numba.njit(_in_scope(TIMES, scope))


def _in_scope(text: str, scope: dict[str, Any]) -> Any:
    made = dict(scope)
    exec(compile(text, "<numba>", "exec"), made)
    return made["run"]


def warp_runs(case: Case, buffer: np.ndarray) -> Run:
    """The case through Warp. Raises ImportError where it is not installed."""
    import warp

    warp.config.quiet = True
    suffix = "d" if case.real is np.float64 else "f"
    vec, mat = getattr(warp, f"vec3{suffix}"), getattr(warp, f"mat33{suffix}")
    kernel = _warp_module().KERNELS[case.kernel_name](warp.dtype_from_numpy(case.real), vec, mat)
    composite = {"vec3": vec, "nbody": vec, "mat33": mat}.get(case.kernel_name)

    def array(a: np.ndarray) -> Any:
        element = composite if a.ndim > 1 else None
        return warp.array(a, dtype=element or warp.dtype_from_numpy(a.dtype), device="cpu", copy=False)

    inputs = [array(a) if isinstance(a, np.ndarray) and a.ndim else a for a in case.arguments(*case.arrays)]
    output = array(buffer)

    def run() -> np.ndarray:
        if case.kernel_name == "row_sum":
            buffer[:] = 0
        warp.launch(kernel, dim=case.dims, inputs=inputs, outputs=[output], device="cpu")
        return buffer

    return run


def _warp_module() -> Any:
    name = "warp_cpu_kernels"
    if name not in sys.modules:
        text = (Path(__file__).parent / "cpu_kernels.py").read_text().replace("jaxwarp as wp", "warp as wp")
        path = Path(tempfile.gettempdir()) / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(name)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


LOOPS = {
    "saxpy": """
def run(a, x, y, out):
    for i in prange(len(x)):
        out[i] = a * x[i] + y[i]
""",
    "vec3": """
def run(a, b, out):
    for i in prange(len(a)):
        x, y, z = a[i, 0], a[i, 1], a[i, 2]
        l = math.sqrt(x * x + y * y + z * z)
        x /= l
        y /= l
        z /= l
        u, v, w = b[i, 0], b[i, 1], b[i, 2]
        out[i, 0] = y * w - z * v
        out[i, 1] = z * u - x * w
        out[i, 2] = x * v - y * u
""",
    "lbm": """
def run(omega, f, g):
    ny, nx = f.shape[1], f.shape[2]
    one, three, half3, half9 = real(1), real(3), real(1.5), real(4.5)
    k0, k1, k2 = real(4 / 9), real(1 / 9), real(1 / 36)
    for y in prange(ny):
        up = y - 1 if y > 0 else ny - 1
        down = y + 1 if y < ny - 1 else 0
        for x in range(nx):
            west = x - 1 if x > 0 else nx - 1
            east = x + 1 if x < nx - 1 else 0
            f0, f1, f2 = f[0, y, x], f[1, y, west], f[2, up, x]
            f3, f4, f5 = f[3, y, east], f[4, down, x], f[5, up, west]
            f6, f7, f8 = f[6, up, east], f[7, down, east], f[8, down, west]
            rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
            ux = (f1 - f3 + f5 - f6 - f7 + f8) / rho
            uy = (f2 - f4 + f5 + f6 - f7 - f8) / rho
            rest = one - half3 * (ux * ux + uy * uy)
            w0, w1, w2, keep, p, m = omega * rho * k0, omega * rho * k1, omega * rho * k2, one - omega, ux + uy, uy - ux
            g[0, y, x] = keep * f0 + w0 * rest
            g[1, y, x] = keep * f1 + w1 * (rest + three * ux + half9 * ux * ux)
            g[2, y, x] = keep * f2 + w1 * (rest + three * uy + half9 * uy * uy)
            g[3, y, x] = keep * f3 + w1 * (rest - three * ux + half9 * ux * ux)
            g[4, y, x] = keep * f4 + w1 * (rest - three * uy + half9 * uy * uy)
            g[5, y, x] = keep * f5 + w2 * (rest + three * p + half9 * p * p)
            g[6, y, x] = keep * f6 + w2 * (rest + three * m + half9 * m * m)
            g[7, y, x] = keep * f7 + w2 * (rest - three * p + half9 * p * p)
            g[8, y, x] = keep * f8 + w2 * (rest - three * m + half9 * m * m)
""",
    "gather": """
def run(x, table, out):
    last = real(len(table) - 1)
    for i in prange(len(x)):
        t = x[i] * last
        k = np.int32(t)
        s = t - real(k)
        out[i] = table[k] * (real(1) - s) + table[k + 1] * s
""",
    "row_sum": """
def run(a, out):
    for i in prange(a.shape[0]):
        s = real(0)
        for j in range(a.shape[1]):
            s += a[i, j]
        out[i] = s
""",
    "nbody": """
def run(pos, mass, acc):
    n = len(pos)
    for i in prange(n):
        ax = ay = az = real(0)
        for j in range(n):
            x, y, z = pos[j, 0] - pos[i, 0], pos[j, 1] - pos[i, 1], pos[j, 2] - pos[i, 2]
            r2 = x * x + y * y + z * z + real(1e-3)
            w = mass[j] / (r2 * math.sqrt(r2))
            ax += x * w
            ay += y * w
            az += z * w
        acc[i, 0], acc[i, 1], acc[i, 2] = ax, ay, az
""",
    "mandelbrot": """
def run(limit, out):
    size = out.shape[0]
    step = real(3) / real(size)
    for y in prange(size):
        ci = real(-1.5) + real(y) * step
        for x in range(size):
            cr = real(-2) + real(x) * step
            zr = zi = real(0)
            n = 0
            while zr * zr + zi * zi <= real(4) and n < limit:
                t = zr * zr - zi * zi + cr
                zi = real(2) * zr * zi + ci
                zr = t
                n += 1
            out[y, x] = n
""",
    "matmul": """
def run(a, b, c):
    for i in prange(a.shape[0]):
        for j in range(b.shape[1]):
            s = real(0)
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s
""",
    "elementary": """
def run(x, y, out):
    for i in prange(len(x)):
        out[i] = math.sin(x[i]) * math.exp(-y[i]) + x[i] ** y[i] + math.sqrt(x[i])
""",
    "collatz": """
def run(x, out):
    for i in prange(len(x)):
        n = np.int64(x[i])
        steps = 0
        while n != 1:
            n = n >> 1 if n & 1 == 0 else 3 * n + 1
            steps += 1
        out[i] = steps
""",
    "many": """
def run(p, q, r, s, a, b, c, d, e, f, g, h, out):
    for i in prange(len(a)):
        out[i] = p * a[i] * b[i] + q * c[i] * d[i] + r * e[i] * f[i] + s * g[i] * h[i]
""",
    "mat33": """
def run(a, b, out):
    for i in prange(len(a)):
        for r in range(3):
            for c in range(3):
                out[i, r, c] = a[i, r, 0] * b[i, 0, c] + a[i, r, 1] * b[i, 1, c] + a[i, r, 2] * b[i, 2, c] + a[i, c, r]
""",
}

# Of sizes.py.
SIZED = {
    "scale": LOOPS["saxpy"],
    "elementary": """
def run(a, x, y, out):
    for i in prange(len(x)):
        out[i] = math.sin(a * x[i]) * math.exp(-y[i]) + x[i] ** y[i] + math.sqrt(x[i])
""",
    "attract": """
def run(a, x, points, out):
    for i in prange(len(x)):
        s = real(0)
        for j in range(len(points)):
            d = points[j] - x[i]
            r2 = d * d + a
            s += d / (r2 * math.sqrt(r2))
        out[i] = s
""",
}
TIMES = """
def run(times, a, x, y, out):
    for _ in range(times):
        once(a, x, y, out)
"""
