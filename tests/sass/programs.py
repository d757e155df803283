"""Kernels that users have, as they would write them. `twins.py` has each by hand."""

from __future__ import annotations

import jaxwarp as wp

CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
W9 = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
C19 = (
    *((0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1), (1, 1, 0), (-1, -1, 0)),
    *((1, 0, 1), (-1, 0, -1), (0, 1, 1), (0, -1, -1), (1, -1, 0), (-1, 1, 0), (1, 0, -1), (-1, 0, 1)),
    *((0, 1, -1), (0, -1, 1)),
)
W19 = (1 / 3,) + (1 / 18,) * 6 + (1 / 36,) * 12
vec9 = wp.types.vector(length=9, dtype=float)
vec19 = wp.types.vector(length=19, dtype=float)


@wp.kernel
def saxpy(a: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a * x[i] + y[i]


@wp.kernel
def vec3(x: wp.array[wp.vec3], y: wp.array[wp.vec3], out: wp.array[wp.vec3]):
    i = wp.tid()
    out[i] = wp.cross(wp.normalize(x[i]), y[i])


@wp.kernel
def vec4(x: wp.array[wp.vec4], y: wp.array[wp.vec4], out: wp.array[wp.vec4]):
    i = wp.tid()
    out[i] = x[i] * 2.0 + y[i]


@wp.kernel
def gather(table: wp.array[float], index: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = table[index[i]]


@wp.kernel
def lbm2(f: wp.array3d[float], omega: float, g: wp.array3d[float]):
    y, x = wp.tid()
    v = vec9()
    rho = 0.0
    ux = 0.0
    uy = 0.0
    for q in range(9):
        from_y = (y - wp.static(CY[q]) + f.shape[1]) % f.shape[1]
        from_x = (x - wp.static(CX[q]) + f.shape[2]) % f.shape[2]
        v[q] = f[q, from_y, from_x]
        rho += v[q]
        ux += wp.static(float(CX[q])) * v[q]
        uy += wp.static(float(CY[q])) * v[q]
    ux /= rho
    uy /= rho
    rest = 1.0 - 1.5 * (ux * ux + uy * uy)
    for q in range(9):
        cu = wp.static(float(CX[q])) * ux + wp.static(float(CY[q])) * uy
        g[q, y, x] = v[q] + omega * (wp.static(W9[q]) * rho * (rest + 3.0 * cu + 4.5 * cu * cu) - v[q])


@wp.kernel(module_options={"max_unroll": 32})
def lbm3(f: wp.array4d[float], omega: float, g: wp.array4d[float]):
    z, y, x = wp.tid()
    v = vec19()
    rho = 0.0
    ux = 0.0
    uy = 0.0
    uz = 0.0
    for q in range(19):
        from_z = (z - wp.static(C19[q][2]) + f.shape[1]) % f.shape[1]
        from_y = (y - wp.static(C19[q][1]) + f.shape[2]) % f.shape[2]
        from_x = (x - wp.static(C19[q][0]) + f.shape[3]) % f.shape[3]
        v[q] = f[q, from_z, from_y, from_x]
        rho += v[q]
        ux += wp.static(float(C19[q][0])) * v[q]
        uy += wp.static(float(C19[q][1])) * v[q]
        uz += wp.static(float(C19[q][2])) * v[q]
    ux /= rho
    uy /= rho
    uz /= rho
    rest = 1.0 - 1.5 * (ux * ux + uy * uy + uz * uz)
    for q in range(19):
        cu = wp.static(float(C19[q][0])) * ux + wp.static(float(C19[q][1])) * uy + wp.static(float(C19[q][2])) * uz
        g[q, z, y, x] = v[q] + omega * (wp.static(W19[q]) * rho * (rest + 3.0 * cu + 4.5 * cu * cu) - v[q])


@wp.kernel
def stencil(u: wp.array3d[float], c: float, out: wp.array3d[float]):
    i, j, k = wp.tid()
    if i > 0 and j > 0 and k > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1 and k < u.shape[2] - 1:
        around = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
        out[i, j, k] = u[i, j, k] + c * (around - 6.0 * u[i, j, k])


@wp.kernel
def nbody(pos: wp.array[wp.vec3], mass: wp.array[float], eps: float, acc: wp.array[wp.vec3]):
    i = wp.tid()
    p = pos[i]
    a = wp.vec3(0.0, 0.0, 0.0)
    for j in range(pos.shape[0]):
        d = pos[j] - p
        inv = 1.0 / wp.sqrt(wp.dot(d, d) + eps)
        a += d * (mass[j] * inv * inv * inv)
    acc[i] = a


@wp.kernel
def matmul(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    s = wp.float32(0.0)  # a call, as Warp asks for of what a loop changes
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@wp.kernel
def total(x: wp.array[float], s: wp.array[float]):
    wp.atomic_add(s, 0, x[wp.tid()])


@wp.kernel
def rowsum(x: wp.array2d[float], s: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(s, i, x[i, j])


@wp.kernel
def polar(a: wp.array[wp.mat33], out: wp.array[wp.mat33]):
    u, _sigma, v = wp.svd3(a[wp.tid()])
    out[wp.tid()] = u * wp.transpose(v)
