"""The cases of irregular_cases.py in Numba, as loops over threads, and in NVIDIA Warp, which compiles
irregular_kernels.py."""

from __future__ import annotations

import importlib.util
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from irregular_cases import Case

Run = Callable[[], np.ndarray]


def numba_runs(case: Case, out: np.ndarray) -> Run:
    """The case through Numba, with its fastmath off: distances may be infinite. ImportError where it is not
    installed."""
    import numba

    scope: dict[str, Any] = {"prange": numba.prange, "njit": numba.njit, "math": math, "np": np, "real": np.float32}
    exec(compile(HELPERS + LOOPS[case.kernel_name], "<numba>", "exec"), scope)
    function = numba.njit(parallel=True, error_model="numpy")(scope["run"])
    scalars = [np.float32(s) if isinstance(s, float) else s for s in case.scalars]

    def run() -> np.ndarray:
        function(*case.arrays, *scalars, out)
        return out

    return run


def warp_runs(case: Case, buffer: np.ndarray) -> Run:
    """The case through Warp. Raises ImportError where it is not installed."""
    import warp

    warp.config.quiet = True
    module = _warp_module()
    types = {"boxes": module.boxes, "vec3": warp.vec3, "mat33": warp.mat33}
    inputs = [
        warp.array(a, dtype=types.get(name) or warp.dtype_from_numpy(a.dtype), device="cpu", copy=False)
        for a, name in zip(case.arrays, case.elements, strict=True)
    ]
    output = warp.array(buffer, dtype=warp.float32, device="cpu", copy=False)
    kernel = module.KERNELS[case.kernel_name]

    def run() -> np.ndarray:
        warp.launch(kernel, dim=case.threads, inputs=[*inputs, *case.scalars], outputs=[output], device="cpu")
        return buffer

    return run


def _warp_module() -> Any:
    name = "warp_irregular_kernels"
    if name not in sys.modules:
        text = (Path(__file__).parent / "irregular_kernels.py").read_text().replace("jaxwarp as wp", "warp as wp")
        path = Path(tempfile.gettempdir()) / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(name)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


HELPERS = """
compiled = njit(error_model="numpy")

@compiled
def dot(a, b, c, x, y, z):
    return a * x + b * y + c * z

@compiled
def cross(a, b, c, x, y, z):
    return b * z - c * y, c * x - a * z, a * y - b * x

@compiled
def triple(a, b, c, d, e, f, x, y, z):
    u, v, w = cross(a, b, c, d, e, f)
    return dot(u, v, w, x, y, z)

@compiled
def enters(b, m, ox, oy, oz, ix, iy, iz, far):
    ax, bx = (b[m] - ox) * ix, (b[m + 3] - ox) * ix
    ay, by = (b[m + 1] - oy) * iy, (b[m + 4] - oy) * iy
    az, bz = (b[m + 2] - oz) * iz, (b[m + 5] - oz) * iz
    near = max(max(min(ax, bx), min(ay, by)), max(min(az, bz), real(0)))
    last = min(min(max(ax, bx), max(ay, by)), min(max(az, bz), far))
    return near if near <= last * real(1.0000004) else far

@compiled
def hits(t, ox, oy, oz, dx, dy, dz, far):
    ax, ay, az = t[0, 0] - ox, t[0, 1] - oy, t[0, 2] - oz
    bx, by, bz = t[1, 0] - ox, t[1, 1] - oy, t[1, 2] - oz
    cx, cy, cz = t[2, 0] - ox, t[2, 1] - oy, t[2, 2] - oz
    u = triple(cx - bx, cy - by, cz - bz, cx + bx, cy + by, cz + bz, dx, dy, dz)
    v = triple(ax - cx, ay - cy, az - cz, ax + cx, ay + cy, az + cz, dx, dy, dz)
    w = triple(bx - ax, by - ay, bz - az, bx + ax, by + ay, bz + az, dx, dy, dz)
    nx, ny, nz = cross(cx - ax, cy - ay, cz - az, ax - bx, ay - by, az - bz)
    slope = dot(nx, ny, nz, dx, dy, dz)
    at = dot(nx, ny, nz, ax, ay, az) / slope
    inside = min(u, min(v, w)) >= 0 or max(u, max(v, w)) <= 0
    return at if inside and slope != 0 and at >= 0 else far

@compiled
def square_to_box(b, m, px, py, pz):
    x = max(max(b[m] - px, px - b[m + 3]), real(0))
    y = max(max(b[m + 1] - py, py - b[m + 4]), real(0))
    z = max(max(b[m + 2] - pz, pz - b[m + 5]), real(0))
    return x * x + y * y + z * z

@compiled
def square_to_edge(px, py, pz, ex, ey, ez):
    s = min(max(dot(px, py, pz, ex, ey, ez) / dot(ex, ey, ez, ex, ey, ez), real(0)), real(1))
    x, y, z = px - ex * s, py - ey * s, pz - ez * s
    return x * x + y * y + z * z

@compiled
def square_to_triangle(t, px, py, pz):
    ax, ay, az = px - t[0, 0], py - t[0, 1], pz - t[0, 2]
    bx, by, bz = px - t[1, 0], py - t[1, 1], pz - t[1, 2]
    cx, cy, cz = px - t[2, 0], py - t[2, 1], pz - t[2, 2]
    ux, uy, uz = t[1, 0] - t[0, 0], t[1, 1] - t[0, 1], t[1, 2] - t[0, 2]
    vx, vy, vz = t[2, 0] - t[1, 0], t[2, 1] - t[1, 1], t[2, 2] - t[1, 2]
    wx, wy, wz = t[0, 0] - t[2, 0], t[0, 1] - t[2, 1], t[0, 2] - t[2, 2]
    nx, ny, nz = cross(ux, uy, uz, wx, wy, wz)
    u = triple(ux, uy, uz, nx, ny, nz, ax, ay, az)
    v = triple(vx, vy, vz, nx, ny, nz, bx, by, bz)
    w = triple(wx, wy, wz, nx, ny, nz, cx, cy, cz)
    if min(u, min(v, w)) >= 0 or max(u, max(v, w)) <= 0:
        height = dot(nx, ny, nz, ax, ay, az)
        return height * height / dot(nx, ny, nz, nx, ny, nz)
    ab, bc = square_to_edge(ax, ay, az, ux, uy, uz), square_to_edge(bx, by, bz, vx, vy, vz)
    return min(ab, min(bc, square_to_edge(cx, cy, cz, wx, wy, wz)))
"""

_VISIT = """
    leaves = len(first) - 1
    for i in prange(len({threads})):
        {before}
        stack = np.empty(32, np.int32)
        top = 0
        node = 1
        while node > 0:
            if node < leaves:
                b = nodes[node]
                t0, t1 = {boxes}
                near = 2 * node + (1 if t1 < t0 else 0)
                if min(t0, t1) < best:
                    if max(t0, t1) < best:
                        stack[top] = near ^ 1
                        top += 1
                    node = near
                    continue
            else:
                for k in range(first[node - leaves], first[node - leaves + 1]):
                    best = min(best, {leaf})
            top -= 1
            node = stack[top] if top >= 0 else 0
        out[i] = {result}
"""

LOOPS = {
    "rays": "\ndef run(nodes, first, triangles, origins, directions, far, out):" + _VISIT.format(
        threads="origins",
        before="ox, oy, oz = origins[i]; dx, dy, dz = directions[i]; one = real(1); best = far\n"
               "        ix, iy, iz = one / dx, one / dy, one / dz",
        boxes="enters(b, 0, ox, oy, oz, ix, iy, iz, best), enters(b, 6, ox, oy, oz, ix, iy, iz, best)",
        leaf="hits(triangles[k], ox, oy, oz, dx, dy, dz, best)",
        result="best"),
    "closest": "\ndef run(nodes, first, triangles, points, far, out):" + _VISIT.format(
        threads="points",
        before="px, py, pz = points[i]; best = far * far",
        boxes="square_to_box(b, 0, px, py, pz), square_to_box(b, 6, px, py, pz)",
        leaf="square_to_triangle(triangles[k], px, py, pz)",
        result="math.sqrt(best)"),
    "neighbours": """
def run(start, points, radius, cells, out):
    for i in prange(len(points)):
        px, py, pz = points[i]
        x = min(max(int(px / radius), 0), cells - 1)
        y = min(max(int(py / radius), 0), cells - 1)
        z = min(max(int(pz / radius), 0), cells - 1)
        total = real(0)
        for k in range(max(z - 1, 0), min(z + 2, cells)):
            for j in range(max(y - 1, 0), min(y + 2, cells)):
                row = (k * cells + j) * cells
                for n in range(start[row + max(x - 1, 0)], start[row + min(x + 2, cells)]):
                    a, b, c = points[n, 0] - px, points[n, 1] - py, points[n, 2] - pz
                    distance = math.sqrt(a * a + b * b + c * c)
                    if distance < radius:
                        total += real(1) - distance / radius
        out[i] = total
""",
    "sparse_rows": """
def run(start, columns, values, x, out):
    for i in prange(len(out)):
        total = real(0)
        for k in range(start[i], start[i + 1]):
            total += values[k] * x[columns[k]]
        out[i] = total
""",
    "trilinear": """
def run(field, points, background, out):
    for i in prange(len(points)):
        px, py, pz = points[i]
        x, y, z = int(math.floor(px)), int(math.floor(py)), int(math.floor(pz))
        a, b, c = px - real(x), py - real(y), pz - real(z)
        found = background
        if (x >= 0 and y >= 0 and z >= 0 and x + 1 < field.shape[0] and y + 1 < field.shape[1]
                and z + 1 < field.shape[2]):
            v00 = field[x, y, z] + (field[x, y, z + 1] - field[x, y, z]) * c
            v01 = field[x, y + 1, z] + (field[x, y + 1, z + 1] - field[x, y + 1, z]) * c
            v10 = field[x + 1, y, z] + (field[x + 1, y, z + 1] - field[x + 1, y, z]) * c
            v11 = field[x + 1, y + 1, z] + (field[x + 1, y + 1, z + 1] - field[x + 1, y + 1, z]) * c
            v0, v1 = v00 + (v01 - v00) * b, v10 + (v11 - v10) * b
            found = v0 + (v1 - v0) * a
        out[i] = found
""",
}  # fmt: skip
