"""Kernels timed on the CPU by cpu.py. Warp compiles this same file, with its own module in place of jaxwarp."""

# ruff: noqa: UP018, RUF046, SIM108, PLR0913  (Warp wants variables of loops declared so)

import jaxwarp as wp


@wp.kernel
def saxpy(a: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a * x[i] + y[i]


@wp.kernel
def vec3(a: wp.array[wp.vec3], b: wp.array[wp.vec3], out: wp.array[wp.vec3]):
    i = wp.tid()
    out[i] = wp.cross(wp.normalize(a[i]), b[i])


@wp.kernel
def lbm(f: wp.array3d[float], omega: float, g: wp.array3d[float]):
    y, x = wp.tid()
    ny = f.shape[1]
    nx = f.shape[2]
    west = x - 1
    if x == 0:
        west = nx - 1
    east = x + 1
    if x == nx - 1:
        east = 0
    up = y - 1
    if y == 0:
        up = ny - 1
    down = y + 1
    if y == ny - 1:
        down = 0
    f0 = f[0, y, x]
    f1 = f[1, y, west]
    f2 = f[2, up, x]
    f3 = f[3, y, east]
    f4 = f[4, down, x]
    f5 = f[5, up, west]
    f6 = f[6, up, east]
    f7 = f[7, down, east]
    f8 = f[8, down, west]
    rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
    ux = (f1 - f3 + f5 - f6 - f7 + f8) / rho
    uy = (f2 - f4 + f5 + f6 - f7 - f8) / rho
    rest = 1.0 - 1.5 * (ux * ux + uy * uy)
    w0 = omega * rho * 0.4444444444
    w1 = omega * rho * 0.1111111111
    w2 = omega * rho * 0.0277777778
    keep = 1.0 - omega
    p = ux + uy
    m = uy - ux
    g[0, y, x] = keep * f0 + w0 * rest
    g[1, y, x] = keep * f1 + w1 * (rest + 3.0 * ux + 4.5 * ux * ux)
    g[2, y, x] = keep * f2 + w1 * (rest + 3.0 * uy + 4.5 * uy * uy)
    g[3, y, x] = keep * f3 + w1 * (rest - 3.0 * ux + 4.5 * ux * ux)
    g[4, y, x] = keep * f4 + w1 * (rest - 3.0 * uy + 4.5 * uy * uy)
    g[5, y, x] = keep * f5 + w2 * (rest + 3.0 * p + 4.5 * p * p)
    g[6, y, x] = keep * f6 + w2 * (rest + 3.0 * m + 4.5 * m * m)
    g[7, y, x] = keep * f7 + w2 * (rest - 3.0 * p + 4.5 * p * p)
    g[8, y, x] = keep * f8 + w2 * (rest - 3.0 * m + 4.5 * m * m)


@wp.kernel
def nbody(pos: wp.array[wp.vec3], mass: wp.array[float], acc: wp.array[wp.vec3]):
    i = wp.tid()
    p = pos[i]
    a = wp.vec3(0.0, 0.0, 0.0)
    for j in range(pos.shape[0]):
        d = pos[j] - p
        r2 = wp.dot(d, d) + 1.0e-3
        a += d * (mass[j] / (r2 * wp.sqrt(r2)))
    acc[i] = a


@wp.kernel
def mandelbrot(size: float, limit: int, out: wp.array2d[int]):
    y, x = wp.tid()
    cr = -2.0 + float(x) * (3.0 / size)
    ci = -1.5 + float(y) * (3.0 / size)
    zr = float(0.0)
    zi = float(0.0)
    n = int(0)
    while zr * zr + zi * zi <= 4.0 and n < limit:
        t = zr * zr - zi * zi + cr
        zi = 2.0 * zr * zi + ci
        zr = t
        n += 1
    out[y, x] = n


@wp.kernel
def gather(x: wp.array[float], table: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    t = x[i] * float(table.shape[0] - 1)
    k = int(t)
    s = t - float(k)
    out[i] = table[k] * (1.0 - s) + table[k + 1] * s


@wp.kernel
def row_sum(a: wp.array2d[float], out: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(out, i, a[i, j])


@wp.kernel
def matmul(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    s = float(0.0)
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@wp.kernel
def elementary(x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.sin(x[i]) * wp.exp(-y[i]) + wp.pow(x[i], y[i]) + wp.sqrt(x[i])


@wp.kernel
def collatz(x: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    n = x[i]
    steps = int(0)
    while n != 1:
        if n & 1 == 0:
            n = n >> 1
        else:
            n = 3 * n + 1
        steps += 1
    out[i] = steps


@wp.kernel
def many(
    a: wp.array[float], b: wp.array[float], c: wp.array[float], d: wp.array[float],
    e: wp.array[float], f: wp.array[float], g: wp.array[float], h: wp.array[float],
    p: float, q: float, r: float, s: float,
    out: wp.array[float],
):  # fmt: skip
    i = wp.tid()
    out[i] = p * a[i] * b[i] + q * c[i] * d[i] + r * e[i] * f[i] + s * g[i] * h[i]


@wp.kernel
def mat33(a: wp.array[wp.mat33], b: wp.array[wp.mat33], out: wp.array[wp.mat33]):
    i = wp.tid()
    out[i] = a[i] * b[i] + wp.transpose(a[i])
