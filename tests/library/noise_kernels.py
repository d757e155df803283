"""Every function of noise, for jaxwarp and for Warp: `make(wp)` gives kernels of that module."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

COLUMNS = 16
SEED = 5


@cache
def make(wp: Any) -> tuple[Any, Any]:
    @wp.kernel
    def plain(seed: int, p: wp.array(dtype=wp.vec4), out: wp.array(dtype=float, ndim=2)):
        i = wp.tid()
        state = wp.rand_init(seed)
        a = p[i]
        xy, xyz = wp.vec2(a[0], a[1]), wp.vec3(a[0], a[1], a[2])
        out[i, 0] = wp.noise(state, a[0])
        out[i, 1] = wp.noise(state, xy)
        out[i, 2] = wp.noise(state, xyz)
        out[i, 3] = wp.noise(state, a)
        out[i, 4] = wp.pnoise(state, a[0], 3)
        out[i, 5] = wp.pnoise(state, xy, 3, 4)
        out[i, 6] = wp.pnoise(state, xyz, 3, 4, 5)
        out[i, 7] = wp.pnoise(state, a, 3, 4, 5, 2)

    @wp.kernel
    def curls(seed: int, p: wp.array(dtype=wp.vec4), out: wp.array(dtype=float, ndim=2)):
        i = wp.tid()
        state = wp.rand_init(seed)
        a = p[i]
        b = wp.curlnoise(state, wp.vec2(a[0], a[1]), wp.uint32(3), 2.0, 0.5)
        c = wp.curlnoise(state, wp.vec3(a[0], a[1], a[2]), wp.uint32(2), 1.7, 0.6)
        d = wp.curlnoise(state, a)
        for k in range(2):
            out[i, 8 + k] = b[k]
        for k in range(3):
            out[i, 10 + k] = c[k]
            out[i, 13 + k] = d[k]

    return plain, curls


def points(n: int) -> np.ndarray:
    """Of both signs, some of whole numbers."""
    p = np.random.default_rng(0).uniform(-6, 6, (n, 4)).astype(np.float32)
    p[::7] = np.round(p[::7])
    return p


def values(wp: Any, n: int) -> np.ndarray:
    """What the kernels of a module give, on its CPU."""
    out = wp.zeros((n, COLUMNS), dtype=float, device="cpu")
    given = wp.array(points(n), dtype=wp.vec4, device="cpu")
    for kernel in make(wp):
        wp.launch(kernel, dim=n, inputs=[SEED, given, out], device="cpu")
    return out.numpy()
