"""Kernels that are timed: each with a twin in handwritten.py."""

from __future__ import annotations

import jaxwarp as wp

Q = 9
CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHT = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)


@wp.kernel
def increment(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + 1.0


@wp.kernel
def saxpy(a: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a * x[i] + y[i]


@wp.kernel
def lbm(f: wp.array3d[float], omega: float, g: wp.array3d[float]):
    """One step of the D2Q9 lattice in a box whose opposite sides are joined: 72 bytes to move per cell."""
    y, x = wp.tid()
    v = wp.types.vector(length=9, dtype=float)()
    rho = 0.0
    ux = 0.0
    uy = 0.0
    for q in range(wp.static(Q)):
        from_y = (y - wp.static(CY[q]) + f.shape[1]) % f.shape[1]
        from_x = (x - wp.static(CX[q]) + f.shape[2]) % f.shape[2]
        v[q] = f[q, from_y, from_x]
        rho += v[q]
        ux += wp.static(float(CX[q])) * v[q]
        uy += wp.static(float(CY[q])) * v[q]
    ux /= rho
    uy /= rho
    rest = 1.0 - 1.5 * (ux * ux + uy * uy)
    for q in range(wp.static(Q)):
        cu = wp.static(float(CX[q])) * ux + wp.static(float(CY[q])) * uy
        g[q, y, x] = v[q] + omega * (wp.static(WEIGHT[q]) * rho * (rest + 3.0 * cu + 4.5 * cu * cu) - v[q])
