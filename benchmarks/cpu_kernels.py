"""Kernels timed on the CPU by cpu.py, for a type of floats each: `KERNELS[name](real, vec, mat)`.

Warp compiles this same file, with its own module in place of jaxwarp.
"""

# ruff: noqa: UP018, RUF046, SIM108, PLR0913, ARG001  (Warp wants variables of loops declared so)

import jaxwarp as wp


def _saxpy(real, vec, mat):
    @wp.kernel
    def saxpy(a: real, x: wp.array[real], y: wp.array[real], out: wp.array[real]):
        i = wp.tid()
        out[i] = a * x[i] + y[i]

    return saxpy


def _vec3(real, vec, mat):
    @wp.kernel
    def vec3(a: wp.array[vec], b: wp.array[vec], out: wp.array[vec]):
        i = wp.tid()
        out[i] = wp.cross(wp.normalize(a[i]), b[i])

    return vec3


def _lbm(real, vec, mat):
    @wp.kernel
    def lbm(f: wp.array3d[real], omega: real, g: wp.array3d[real]):
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
        rest = real(1.0) - real(1.5) * (ux * ux + uy * uy)
        w0 = omega * rho * real(0.4444444444444444)
        w1 = omega * rho * real(0.1111111111111111)
        w2 = omega * rho * real(0.0277777777777778)
        keep = real(1.0) - omega
        p = ux + uy
        m = uy - ux
        g[0, y, x] = keep * f0 + w0 * rest
        g[1, y, x] = keep * f1 + w1 * (rest + real(3.0) * ux + real(4.5) * ux * ux)
        g[2, y, x] = keep * f2 + w1 * (rest + real(3.0) * uy + real(4.5) * uy * uy)
        g[3, y, x] = keep * f3 + w1 * (rest - real(3.0) * ux + real(4.5) * ux * ux)
        g[4, y, x] = keep * f4 + w1 * (rest - real(3.0) * uy + real(4.5) * uy * uy)
        g[5, y, x] = keep * f5 + w2 * (rest + real(3.0) * p + real(4.5) * p * p)
        g[6, y, x] = keep * f6 + w2 * (rest + real(3.0) * m + real(4.5) * m * m)
        g[7, y, x] = keep * f7 + w2 * (rest - real(3.0) * p + real(4.5) * p * p)
        g[8, y, x] = keep * f8 + w2 * (rest - real(3.0) * m + real(4.5) * m * m)

    return lbm


def _nbody(real, vec, mat):
    @wp.kernel
    def nbody(pos: wp.array[vec], mass: wp.array[real], acc: wp.array[vec]):
        i = wp.tid()
        p = pos[i]
        a = vec(real(0.0), real(0.0), real(0.0))
        for j in range(pos.shape[0]):
            d = pos[j] - p
            r2 = wp.dot(d, d) + real(1.0e-3)
            a += d * (mass[j] / (r2 * wp.sqrt(r2)))
        acc[i] = a

    return nbody


def _mandelbrot(real, vec, mat):
    @wp.kernel
    def mandelbrot(size: real, limit: int, out: wp.array2d[int]):
        y, x = wp.tid()
        cr = real(-2.0) + real(x) * (real(3.0) / size)
        ci = real(-1.5) + real(y) * (real(3.0) / size)
        zr = real(0.0)
        zi = real(0.0)
        n = int(0)
        while zr * zr + zi * zi <= real(4.0) and n < limit:
            t = zr * zr - zi * zi + cr
            zi = real(2.0) * zr * zi + ci
            zr = t
            n += 1
        out[y, x] = n

    return mandelbrot


def _gather(real, vec, mat):
    @wp.kernel
    def gather(x: wp.array[real], table: wp.array[real], out: wp.array[real]):
        i = wp.tid()
        t = x[i] * real(table.shape[0] - 1)
        k = int(t)
        s = t - real(k)
        out[i] = table[k] * (real(1.0) - s) + table[k + 1] * s

    return gather


def _row_sum(real, vec, mat):
    @wp.kernel
    def row_sum(a: wp.array2d[real], out: wp.array[real]):
        i, j = wp.tid()
        wp.atomic_add(out, i, a[i, j])

    return row_sum


def _matmul(real, vec, mat):
    @wp.kernel
    def matmul(a: wp.array2d[real], b: wp.array2d[real], c: wp.array2d[real]):
        i, j = wp.tid()
        s = real(0.0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s

    return matmul


def _elementary(real, vec, mat):
    @wp.kernel
    def elementary(x: wp.array[real], y: wp.array[real], out: wp.array[real]):
        i = wp.tid()
        out[i] = wp.sin(x[i]) * wp.exp(-y[i]) + wp.pow(x[i], y[i]) + wp.sqrt(x[i])

    return elementary


def _collatz(real, vec, mat):
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

    return collatz


def _many(real, vec, mat):
    @wp.kernel
    def many(
        a: wp.array[real], b: wp.array[real], c: wp.array[real], d: wp.array[real],
        e: wp.array[real], f: wp.array[real], g: wp.array[real], h: wp.array[real],
        p: real, q: real, r: real, s: real,
        out: wp.array[real],
    ):  # fmt: skip
        i = wp.tid()
        out[i] = p * a[i] * b[i] + q * c[i] * d[i] + r * e[i] * f[i] + s * g[i] * h[i]

    return many


def _mat33(real, vec, mat):
    @wp.kernel
    def mat33(a: wp.array[mat], b: wp.array[mat], out: wp.array[mat]):
        i = wp.tid()
        out[i] = a[i] * b[i] + wp.transpose(a[i])

    return mat33


KERNELS = {
    make.__name__[1:]: make
    for make in (_saxpy, _vec3, _lbm, _nbody, _mandelbrot, _gather, _row_sum, _matmul, _elementary, _collatz, _many,
                 _mat33)
}  # fmt: skip


def _scale(real):
    @wp.kernel
    def scale(a: real, x: wp.array[real], y: wp.array[real], out: wp.array[real]):
        i = wp.tid()
        out[i] = a * x[i] + y[i]

    return scale


def _elementary_of(real):
    @wp.kernel
    def elementary_of(a: real, x: wp.array[real], y: wp.array[real], out: wp.array[real]):
        i = wp.tid()
        out[i] = wp.sin(a * x[i]) * wp.exp(-y[i]) + wp.pow(x[i], y[i]) + wp.sqrt(x[i])

    return elementary_of


def _attract(real):
    @wp.kernel
    def attract(a: real, x: wp.array[real], points: wp.array[real], out: wp.array[real]):
        i = wp.tid()
        s = real(0.0)
        for j in range(points.shape[0]):
            d = points[j] - x[i]
            r2 = d * d + a
            s += d / (r2 * wp.sqrt(r2))
        out[i] = s

    return attract


# Of sizes.py: each takes a number first.
SIZED = {"scale": _scale, "elementary": _elementary_of, "attract": _attract}
