"""Kernels over irregular data timed by irregular.py: `KERNELS[name]`.

Warp compiles this same file, with its own module in place of jaxwarp.

The tree of boxes is complete and in heap order: node n has the children 2n and 2n + 1, and a record with the boxes of
both. What is still to be visited is a bit for each level, `trail`, so there is no stack (Afra and Szirmay-Kalos 2014).
"""

# ruff: noqa: UP018, RUF046  (Warp wants variables of loops declared so)

import jaxwarp as wp

boxes = wp.types.vector(length=12, dtype=wp.float32)  # low and high corner of two


@wp.func
def lowest(x: int):
    # The number of zeros below the lowest 1, by the exponent of a float.
    return (wp.cast(float(x & (0 - x)), int) >> 23) - 127


@wp.func
def enters(low: wp.vec3, high: wp.vec3, o: wp.vec3, inverse: wp.vec3, far: float):
    """Where a ray enters a box; far if it does not before."""
    a = wp.cw_mul(low - o, inverse)
    b = wp.cw_mul(high - o, inverse)
    near = wp.max(wp.max(wp.min(a[0], b[0]), wp.min(a[1], b[1])), wp.max(wp.min(a[2], b[2]), 0.0))
    last = wp.min(wp.min(wp.max(a[0], b[0]), wp.max(a[1], b[1])), wp.min(wp.max(a[2], b[2]), far))
    return near if near <= last * 1.0000004 else far


@wp.func
def hits(t: wp.mat33, o: wp.vec3, d: wp.vec3, far: float):
    """Where a ray hits a triangle, far if it does not: by the volumes that it makes with the edges."""
    a = t[0] - o
    b = t[1] - o
    c = t[2] - o
    u = wp.dot(wp.cross(c - b, c + b), d)
    v = wp.dot(wp.cross(a - c, a + c), d)
    w = wp.dot(wp.cross(b - a, b + a), d)
    n = wp.cross(c - a, a - b)
    slope = wp.dot(n, d)
    at = wp.dot(n, a) / slope
    low = wp.min(u, wp.min(v, w))
    high = wp.max(u, wp.max(v, w))
    return at if (low >= 0.0 or high <= 0.0) and slope != 0.0 and at >= 0.0 else far


@wp.kernel
def rays(nodes: wp.array[boxes], first: wp.array[int], triangles: wp.array[wp.mat33], origins: wp.array[wp.vec3],
         directions: wp.array[wp.vec3], far: float, out: wp.array[float]):  # fmt: skip
    i = wp.tid()
    o = origins[i]
    d = directions[i]
    inverse = wp.vec3(1.0 / d[0], 1.0 / d[1], 1.0 / d[2])
    leaves = first.shape[0] - 1
    best = float(far)
    node = int(1)
    trail = int(0)
    while node != 0:
        while node != 0 and node < leaves:
            b = nodes[node]
            t0 = enters(wp.vec3(b[0], b[1], b[2]), wp.vec3(b[3], b[4], b[5]), o, inverse, best)
            t1 = enters(wp.vec3(b[6], b[7], b[8]), wp.vec3(b[9], b[10], b[11]), o, inverse, best)
            s = lowest(trail)
            up = (node >> s) ^ 1 if trail != 0 else 0
            some = wp.min(t0, t1) < best
            both = wp.max(t0, t1) < best
            node = 2 * node + (1 if t1 < t0 else 0) if some else up
            trail = 2 * trail + (1 if both else 0) if some else (trail >> s) - 1
        if node != 0:
            for k in range(first[node - leaves], first[node - leaves + 1]):
                best = wp.min(best, hits(triangles[k], o, d, best))
            s = lowest(trail)
            node = (node >> s) ^ 1 if trail != 0 else 0
            trail = (trail >> s) - 1
    out[i] = best


@wp.func
def square_to_box(low: wp.vec3, high: wp.vec3, p: wp.vec3):
    x = wp.max(wp.max(low[0] - p[0], p[0] - high[0]), 0.0)
    y = wp.max(wp.max(low[1] - p[1], p[1] - high[1]), 0.0)
    z = wp.max(wp.max(low[2] - p[2], p[2] - high[2]), 0.0)
    return x * x + y * y + z * z


@wp.func
def square_to_edge(p: wp.vec3, e: wp.vec3):
    q = p - e * wp.clamp(wp.dot(p, e) / wp.dot(e, e), 0.0, 1.0)
    return wp.dot(q, q)


@wp.func
def square_to_triangle(t: wp.mat33, p: wp.vec3):
    """The square of the distance: to the plane where the foot lies inside, to the nearest edge where not."""
    a = p - t[0]
    b = p - t[1]
    c = p - t[2]
    ab = t[1] - t[0]
    bc = t[2] - t[1]
    ca = t[0] - t[2]
    n = wp.cross(ab, ca)
    u = wp.dot(wp.cross(ab, n), a)
    v = wp.dot(wp.cross(bc, n), b)
    w = wp.dot(wp.cross(ca, n), c)
    height = wp.dot(n, a)
    low = wp.min(u, wp.min(v, w))
    high = wp.max(u, wp.max(v, w))
    edges = wp.min(square_to_edge(a, ab), wp.min(square_to_edge(b, bc), square_to_edge(c, ca)))
    return height * height / wp.dot(n, n) if low >= 0.0 or high <= 0.0 else edges


@wp.kernel
def closest(nodes: wp.array[boxes], first: wp.array[int], triangles: wp.array[wp.mat33], points: wp.array[wp.vec3],
            far: float, out: wp.array[float]):  # fmt: skip
    i = wp.tid()
    p = points[i]
    leaves = first.shape[0] - 1
    best = float(far * far)
    node = int(1)
    trail = int(0)
    while node != 0:
        while node != 0 and node < leaves:
            b = nodes[node]
            t0 = square_to_box(wp.vec3(b[0], b[1], b[2]), wp.vec3(b[3], b[4], b[5]), p)
            t1 = square_to_box(wp.vec3(b[6], b[7], b[8]), wp.vec3(b[9], b[10], b[11]), p)
            s = lowest(trail)
            up = (node >> s) ^ 1 if trail != 0 else 0
            some = wp.min(t0, t1) < best
            both = wp.max(t0, t1) < best
            node = 2 * node + (1 if t1 < t0 else 0) if some else up
            trail = 2 * trail + (1 if both else 0) if some else (trail >> s) - 1
        if node != 0:
            for k in range(first[node - leaves], first[node - leaves + 1]):
                best = wp.min(best, square_to_triangle(triangles[k], p))
            s = lowest(trail)
            node = (node >> s) ^ 1 if trail != 0 else 0
            trail = (trail >> s) - 1
    out[i] = wp.sqrt(best)


@wp.kernel
def neighbours(start: wp.array[int], points: wp.array[wp.vec3], radius: float, cells: int, out: wp.array[float]):
    """Particles are sorted by cells, as wide as the radius: three cells along x are one range."""
    i = wp.tid()
    p = points[i]
    x = wp.clamp(int(p[0] / radius), 0, cells - 1)
    y = wp.clamp(int(p[1] / radius), 0, cells - 1)
    z = wp.clamp(int(p[2] / radius), 0, cells - 1)
    total = float(0.0)
    for k in range(wp.max(z - 1, 0), wp.min(z + 2, cells)):
        for j in range(wp.max(y - 1, 0), wp.min(y + 2, cells)):
            row = (k * cells + j) * cells
            for n in range(start[row + wp.max(x - 1, 0)], start[row + wp.min(x + 2, cells)]):
                distance = wp.length(points[n] - p)
                if distance < radius:
                    total += 1.0 - distance / radius
    out[i] = total


@wp.kernel
def sparse_rows(start: wp.array[int], columns: wp.array[int], values: wp.array[float], x: wp.array[float],
                out: wp.array[float]):  # fmt: skip
    i = wp.tid()
    total = float(0.0)
    for k in range(start[i], start[i + 1]):
        total += values[k] * x[columns[k]]
    out[i] = total


@wp.kernel
def trilinear(field: wp.array3d[float], points: wp.array[wp.vec3], background: float, out: wp.array[float]):
    i = wp.tid()
    p = points[i]
    x = int(wp.floor(p[0]))
    y = int(wp.floor(p[1]))
    z = int(wp.floor(p[2]))
    a = p[0] - float(x)
    b = p[1] - float(y)
    c = p[2] - float(z)
    found = background
    inside = x >= 0 and y >= 0 and z >= 0
    if inside and x + 1 < field.shape[0] and y + 1 < field.shape[1] and z + 1 < field.shape[2]:
        v00 = wp.lerp(field[x, y, z], field[x, y, z + 1], c)
        v01 = wp.lerp(field[x, y + 1, z], field[x, y + 1, z + 1], c)
        v10 = wp.lerp(field[x + 1, y, z], field[x + 1, y, z + 1], c)
        v11 = wp.lerp(field[x + 1, y + 1, z], field[x + 1, y + 1, z + 1], c)
        found = wp.lerp(wp.lerp(v00, v01, b), wp.lerp(v10, v11, b), a)
    out[i] = found


KERNELS = {"rays": rays, "closest": closest, "neighbours": neighbours, "sparse_rows": sparse_rows,
           "trilinear": trilinear}  # fmt: skip
