"""Every function of random numbers, for jaxwarp and for Warp: `make(wp)` gives kernels of that module."""

from __future__ import annotations

from typing import Any

import numpy as np

INTEGERS, FLOATS, COUNTS = 7, 29, 5
CDF = np.cumsum(np.arange(1, 11) / np.float32(55)).astype(np.float32)
SEED = -7


def make(wp: Any) -> tuple[Any, Any]:
    @wp.kernel
    def integers(seed: int, out: wp.array(dtype=wp.uint32, ndim=2)):
        i = wp.tid()
        out[i, 0] = wp.rand_init(seed)
        state = wp.rand_init(seed, i)
        out[i, 1] = state
        out[i, 2] = wp.randu(state)
        out[i, 3] = wp.randu(state, wp.uint32(5), wp.uint32(1000 + i))
        out[i, 4] = wp.uint32(wp.randi(state))
        out[i, 5] = wp.uint32(wp.randi(state, -5, 5 + i))
        out[i, 6] = state

    @wp.kernel
    def floats(
        seed: int,
        cdf: wp.array(dtype=float),
        out: wp.array(dtype=float, ndim=2),
        counts: wp.array(dtype=wp.uint32, ndim=2),
    ):
        i = wp.tid()
        state = wp.rand_init(seed, i)
        out[i, 0] = wp.randf(state)
        out[i, 1] = wp.randf(state, -3.0, 7.0)
        out[i, 2] = wp.randn(state)
        a = wp.sample_triangle(state)
        b = wp.sample_unit_ring(state)
        c = wp.sample_unit_disk(state)
        d = wp.sample_unit_square(state)
        for k in range(2):
            out[i, 3 + k] = a[k]
            out[i, 5 + k] = b[k]
            out[i, 7 + k] = c[k]
            out[i, 9 + k] = d[k]
        e = wp.sample_unit_sphere_surface(state)
        f = wp.sample_unit_sphere(state)
        g = wp.sample_unit_hemisphere_surface(state)
        h = wp.sample_unit_hemisphere(state)
        j = wp.sample_unit_cube(state)
        for k in range(3):
            out[i, 11 + k] = e[k]
            out[i, 14 + k] = f[k]
            out[i, 17 + k] = g[k]
            out[i, 20 + k] = h[k]
            out[i, 23 + k] = j[k]
        for k in range(3):
            out[i, 26 + k] = wp.randn(state)
        counts[i, 0] = wp.uint32(wp.sample_cdf(state, cdf))
        counts[i, 1] = wp.poisson(state, 0.5)
        counts[i, 2] = wp.poisson(state, 3.0)
        counts[i, 3] = state
        counts[i, 4] = wp.poisson(state, float(i % 200) + 10.0)

    return integers, floats


def numbers(wp: Any, threads: int) -> dict[str, np.ndarray]:
    """What the kernels of a module draw, on its CPU."""
    integers, floats = make(wp)
    drawn = wp.zeros((threads, INTEGERS), dtype=wp.uint32)
    out = wp.zeros((threads, FLOATS), dtype=float)
    counts = wp.zeros((threads, COUNTS), dtype=wp.uint32)
    wp.launch(integers, dim=threads, inputs=[SEED], outputs=[drawn], device="cpu")
    cdf = wp.array(CDF, dtype=float, device="cpu")
    wp.launch(floats, dim=threads, inputs=[SEED, cdf], outputs=[out, counts], device="cpu")
    return {"integers": drawn.numpy(), "floats": out.numpy(), "counts": counts.numpy()}
