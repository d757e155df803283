"""All that a process does until the results of its first kernel, in CPU seconds. For compile.py.

    python benchmarks/compile_cold.py jaxwarp|warp|jax

It imports what it needs and no more, compiles, and runs: a kernel in jaxwarp, outside of JAX, or in Warp, and what the
kernel does as a jitted function of JAX.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np

X = np.arange(64, dtype=np.float32)


def by_kernel(wp: Any) -> Any:
    @wp.kernel
    def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):  # pyright: ignore[reportInvalidTypeForm]
        i = wp.tid()
        y[i] = x[i] * 1.5 + 1.0

    y = wp.zeros(len(X), dtype=float, device="cpu")
    wp.launch(scaled, len(X), inputs=[wp.array(X, dtype=float, device="cpu"), y], device="cpu")
    return y.numpy()


def by(who: str) -> Any:
    if who == "jax":
        import jax

        return jax.jit(lambda x: x * 1.5 + 1.0)(X)
    if who == "jaxwarp":
        import jaxwarp

        return by_kernel(jaxwarp)
    import warp

    warp.config.kernel_cache_dir = os.environ["JAXWARP_CACHE_DIR"]
    return by_kernel(warp)


if __name__ == "__main__":
    np.testing.assert_allclose(by(sys.argv[1]), X * 1.5 + 1.0)
    print(json.dumps({"seconds": sum(os.times()[:4])}))
