"""Kernels on tiles: products of matrices beside jax.numpy and torch, and softmax of rows beside a copy."""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from gpu_report.sections import Row, Setup, tried

ROUNDS = 5
SIZES = ((2048, 2048, 2048), (4096, 4096, 4096), (2000, 1999, 2001))
SMALL_SIZES = ((128, 128, 64), (70, 65, 33))
TYPES = {"float32": (wp.float32, 16), "float16": (wp.float16, 32), "bfloat16": (wp.bfloat16, 32)}
WIDTHS = (1024, 8192)
ROWS = 8192
TILE = wp.constant(64)


def product_kernel(dtype: Any, depth: int) -> wp.Kernel:
    """Return the kernel whose blocks have 64 x 64 elements of a product, with sums in float32."""
    deep = wp.constant(depth)

    @wp.kernel
    def tiles_product(a: wp.array2d[dtype], b: wp.array2d[dtype], c: wp.array2d[float]):
        i, j = wp.tid()
        total = wp.tile_zeros(shape=(TILE, TILE), dtype=float)
        for k in range((a.shape[1] + deep - 1) // deep):
            left = wp.tile_load(a, shape=(TILE, deep), offset=(i * TILE, k * deep))
            right = wp.tile_load(b, shape=(deep, TILE), offset=(k * deep, j * TILE))
            wp.tile_matmul(left, right, total)
        wp.tile_store(c, total, offset=(i * TILE, j * TILE))

    return tiles_product


def softmax_kernel(width: int) -> wp.Kernel:
    wide = wp.constant(width)

    @wp.kernel
    def tiles_softmax(x: wp.array2d[float], y: wp.array2d[float]):
        i = wp.tid()
        t = wp.tile_load(x[i], shape=(wide,))
        e = wp.tile_map(wp.exp, t - wp.tile_broadcast(wp.tile_max(t), shape=(wide,)))
        wp.tile_store(y[i], e / wp.tile_broadcast(wp.tile_sum(e), shape=(wide,)))

    return tiles_softmax


def tiles(setup: Setup) -> Iterator[Row]:
    """TFLOP/s of products, GB/s of softmax."""
    for size in SMALL_SIZES if setup.is_small else SIZES:
        for name in TYPES:
            head = {"what": "product", "type": name, "size": str(size)}
            yield from tried(head, functools.partial(_product, setup, name, size))
    for width in (256,) if setup.is_small else WIDTHS:
        yield from tried({"what": "softmax", "size": str(width)}, functools.partial(_softmax, setup, width))


def _product(setup: Setup, name: str, size: tuple[int, int, int]) -> Iterator[Row]:
    m, n, k = size
    dtype, depth = TYPES[name]
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.standard_normal(s, np.float32)).astype(name) for s in ((m, k), (k, n)))
    blocks = (-(-m // 64), -(-n // 64))
    call = wp.jax_kernel(product_kernel(dtype, depth), outputs="c", launch_dims=blocks, output_dims=(m, n))
    run = jax.jit(call)
    peer = jax.jit(functools.partial(jnp.matmul, precision="highest", preferred_element_type=jnp.float32))
    # Some rows, in float64 on the host: other libraries may round otherwise.
    some = slice(0, m, max(1, m // 16))
    expected = np.asarray(a[some], np.float64) @ np.asarray(b, np.float64)
    np.testing.assert_allclose(np.asarray(run(a, b))[some], expected, rtol=1e-3, atol=1e-2)
    flops = 2.0 * m * n * k
    row = {"what": "product", "type": name, "size": str(size), "TFLOP/s": flops / _seconds(setup, run, a, b) / 1e12}
    row["jax.numpy"] = flops / _seconds(setup, peer, a, b) / 1e12
    if not setup.is_dry and importlib.util.find_spec("torch") is not None:
        row["torch"] = flops / _torch_seconds(setup, name, size) / 1e12
    yield row


def _torch_seconds(setup: Setup, name: str, size: tuple[int, int, int]) -> float:
    import torch

    m, n, k = size
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(s, device="cuda").to(getattr(torch, name)) for s in ((m, k), (k, n)))

    def run() -> None:
        torch.matmul(a, b)
        torch.cuda.synchronize()

    return _fastest(setup, run)


def _softmax(setup: Setup, width: int) -> Iterator[Row]:
    rows = 8 if setup.is_small else ROWS
    x = jnp.asarray(np.random.default_rng(0).standard_normal((rows, width), np.float32))
    call = wp.jax_kernel(softmax_kernel(width), outputs="y", launch_dims=rows, output_dims=(rows, width))
    run = jax.jit(call)
    np.testing.assert_allclose(np.asarray(run(x)), np.asarray(jax.nn.softmax(x)), rtol=1e-4, atol=1e-6)
    moved = 2.0 * 4 * rows * width
    ways = {"GB/s": run, "jax.numpy": jax.jit(jax.nn.softmax), "copy": jax.jit(lambda x: x + 1.0)}
    rates = {way: moved / _seconds(setup, function, x) / 1e9 for way, function in ways.items()}
    yield {"what": "softmax", "size": str(width), **rates}


def _seconds(setup: Setup, function: Callable[..., jax.Array], *args: jax.Array) -> float:
    return _fastest(setup, lambda: jax.block_until_ready(function(*args)))


def _fastest(setup: Setup, run: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of some runs, after two that are not counted."""
    times: list[float] = []
    for _ in range(1 if setup.is_small else 2 + ROUNDS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)
