"""The kernels whose derivatives rules.py times. Loops are Euler steps of length 1/n: slopes stay of order one."""

from __future__ import annotations

import jaxwarp as wp


@wp.kernel
def elementary(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    y[i] = wp.sin(v) * wp.exp(-v) + wp.sqrt(v) * wp.cos(2.0 * v)


@wp.kernel
def polynomial(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    y[i] = ((0.3 * v + 0.2) * v - 1.5) * v + 0.1 * v * v


@wp.kernel
def vectors(x: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    v = x[i]
    w = wp.normalize(v)
    y[i] = wp.cross(w, wp.vec3(v[1], v[2], v[0])) + w


@wp.kernel
def sines(x: wp.array[float], n: int, y: wp.array[float]):
    """A carried value, one sine an iteration."""
    i = wp.tid()
    v = x[i]
    h = 1.0 / float(n)
    for _ in range(n):
        v = v + h * wp.sin(v)
    y[i] = v


@wp.kernel
def logistic(x: wp.array[float], n: int, y: wp.array[float]):
    """A carried value, three multiplications an iteration."""
    i = wp.tid()
    v = x[i]
    h = 1.0 / float(n)
    for _ in range(n):
        v += h * v * (1.0 - v)
    y[i] = v


@wp.kernel
def pendulum(x: wp.array[float], n: int, y: wp.array[float]):
    """Two carried values."""
    i = wp.tid()
    v = x[i]
    w = 0.3
    h = 1.0 / float(n)
    for _ in range(n):
        w -= h * wp.sin(v) + h * 0.1 * w * w
        v += h * w
    y[i] = v + w


@wp.kernel
def total(x: wp.array[float], n: int, y: wp.array[float]):
    """A sum."""
    i = wp.tid()
    v = 0.0
    for k in range(n):
        v += wp.sin(x[i] + float(k))
    y[i] = v / float(n)


@wp.kernel
def nested(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    h = 1.0 / float(n)
    for _ in range(n):
        w = v
        for _ in range(4):
            w = 0.5 * (w + wp.sin(w))
        v += h * w
    y[i] = v


@wp.kernel
def newton(x: wp.array[float], y: wp.array[float]):
    """A while loop, that every thread leaves at its own time."""
    i = wp.tid()
    a = x[i]
    v = 1.0
    while wp.abs(v * v * v - a) > 1.0e-4 * a:
        v -= (v * v * v - a) / (3.0 * v * v)
    y[i] = v


@wp.kernel
def roots(x: wp.array[float], y: wp.array[float]):
    """A while loop of few iterations in one of equal ones: what it costs to begin and end is most of it."""
    i = wp.tid()
    s = x[i]
    for _ in range(20):
        v = 1.0
        while wp.abs(v * v - s) > 1.0e-3 * s:
            v = 0.5 * (v + s / v)
        s += 0.1 * v
    y[i] = s


@wp.kernel
def march(x: wp.array[float], y: wp.array[float]):
    """Along a ray to a sphere, up to a break."""
    i = wp.tid()
    t = 0.0
    for _ in range(100):
        u = t - 3.0
        v = 0.4 * x[i] + 0.1 * t
        d = wp.sqrt(u * u + v * v) - 1.2
        if d < 1.0e-4:
            break
        t += d
    y[i] = t


@wp.kernel
def adaptive(x: wp.array[float], y: wp.array[float]):
    """Steps of Heun's method as long as their error allows; those that are too long are made again."""
    i = wp.tid()
    v = x[i]
    t = 0.0
    h = 0.1
    while t < 1.0:
        h = wp.min(h, 1.0001 - t)
        first = 0.5 - v * v * v
        w = v + h * first
        second = 0.5 - w * w * w
        if 0.5 * h * wp.abs(second - first) < 1.0e-3:
            t += h
            v += 0.5 * h * (first + second)
            h *= 1.3
        else:
            h *= 0.6
    y[i] = v


@wp.kernel
def stencil(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    up, down = wp.max(i - 1, 0), wp.min(i + 1, x.shape[0] - 1)
    left, right = wp.max(j - 1, 0), wp.min(j + 1, x.shape[1] - 1)
    v = x[i, j]
    y[i, j] = v + 0.1 * (x[up, j] + x[down, j] + x[i, left] + x[i, right] - 4.0 * v) + 0.1 * v * v


@wp.kernel
def gray_scott(u: wp.array2d[float], v: wp.array2d[float], of_u: wp.array2d[float], of_v: wp.array2d[float]):
    i, j = wp.tid()
    n, m = u.shape[0], u.shape[1]
    up, down = wp.where(i == 0, n - 1, i - 1), wp.where(i == n - 1, 0, i + 1)
    left, right = wp.where(j == 0, m - 1, j - 1), wp.where(j == m - 1, 0, j + 1)
    spread = 0.16 * (u[up, j] + u[down, j] + u[i, left] + u[i, right] - 4.0 * u[i, j])
    spread_v = 0.08 * (v[up, j] + v[down, j] + v[i, left] + v[i, right] - 4.0 * v[i, j])
    reaction = u[i, j] * v[i, j] * v[i, j]
    of_u[i, j] = u[i, j] + spread - reaction + 0.04 * (1.0 - u[i, j])
    of_v[i, j] = v[i, j] + spread_v + reaction - 0.1 * v[i, j]


@wp.kernel
def gather(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = x[index[i]]
    y[i] = v * v


@wp.kernel
def bodies(x: wp.array[wp.vec3], mass: wp.array[float], a: wp.array[wp.vec3]):
    """Forces of all on each; so near to each other that no two are alone."""
    i = wp.tid()
    s = wp.vec3(0.0, 0.0, 0.0)
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        r2 = wp.dot(d, d) + 0.1
        s += d * (mass[j] / (r2 * wp.sqrt(r2)))
    a[i] = s


@wp.kernel
def shared_number(a: float, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] / (1.0 + a * x[i] * x[i])


@wp.kernel
def shared_weights(w: wp.array[float], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = 0.0
    for k in range(w.shape[0]):
        s += w[k] * x[i + k]
    y[i] = s
