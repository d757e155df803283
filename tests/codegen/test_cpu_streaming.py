"""Streaming stores of kernels of many arrays: whole lines of each at a time, wherever these begin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile_cpu, launch
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.passes.pipeline import prepare

AVX2 = Machine("", "", "+avx2")


def pairs(real):
    """Reads ten arrays, holds what it read, and stores six."""

    @wp.kernel
    def kernel(
        a: wp.array[real], b: wp.array[real], c: wp.array[real], d: wp.array[real], e: wp.array[real],
        f: wp.array[real], g: wp.array[real], h: wp.array[real], v: wp.array[real], w: wp.array[real], s: real,
        ab: wp.array[real], cd: wp.array[real], ef: wp.array[real], gh: wp.array[real], vw: wp.array[real],
        both: wp.array[real],
    ):  # fmt: skip
        i = wp.tid()
        x, y, z, u, t = a[i] * b[i], c[i] * d[i], e[i] * f[i], g[i] * h[i], v[i] * w[i]
        ab[i] = x * s + a[i]
        cd[i] = y * x + c[i]
        ef[i] = z * y + e[i]
        gh[i] = u * z + g[i]
        vw[i] = t * u + v[i]
        both[i] = b[i] * d[i] + f[i] * h[i] + w[i] * x

    return kernel


def expected(inputs, s):
    a, b, c, d, e, f, g, h, v, w = inputs
    x, y, z, u, t = a * b, c * d, e * f, g * h, v * w
    return [x * s + a, y * x + c, z * y + e, u * z + g, t * u + v, b * d + f * h + w * x]


@pytest.mark.parametrize("real", [wp.float32, wp.float64])
@pytest.mark.parametrize("cache_bytes", [0, 1 << 40])
def test_whole_lines_at_any_length_and_address(real, cache_bytes):
    kernel, dtype = prepare(pairs(real).ir()), np.dtype(real.numpy).type
    code = compile_cpu(kernel, 64 // dtype().itemsize, replace(AVX2, cache_bytes=cache_bytes))
    assert "!nontemporal" in code.text
    random, size = np.random.default_rng(3), dtype().itemsize
    for count in (0, 1, 15, 16, 17, 100):
        for offset in (0, size, 32):
            memory = np.full((16, count * size + 192), 7, np.uint8)
            begins = [offset + -row.ctypes.data % 64 for row in memory]
            arrays = [r[at : at + count * size].view(dtype) for r, at in zip(memory, begins, strict=True)]
            for array in arrays[:10]:
                array[:] = random.standard_normal(count)
            launch(code, kernel, (count,), [*arrays[:10], np.array(1.5, dtype), *arrays[10:]])
            for got, want in zip(arrays[10:], expected(arrays[:10], dtype(1.5)), strict=True):
                np.testing.assert_allclose(
                    got, want, rtol=1e-5 if size == 4 else 1e-13, atol=1e-5 if size == 4 else 1e-13
                )
            for row, at in zip(memory, begins, strict=True):
                assert (row[:at] == 7).all()
                assert (row[at + count * size :] == 7).all()


@wp.kernel
def found(face: wp.array[int], x: wp.array[float], edge: int, near: wp.array[float], far: wp.array[float]):
    i = wp.tid()
    near[i] = wp.inf
    if face[i] >= 0:
        near[i] = x[i]
    if edge < 0:
        far[i] = x[i]
    else:
        far[i] = 2.0 * x[i]


def test_what_is_stored_again_is_not_streamed():
    """A line that has left the caches would come back. Of two sides one runs, and either is streamed."""
    text = compile_cpu(prepare(found.ir()), 16, replace(AVX2, cache_bytes=0)).text
    body = text[text.index("\nchunk:") : text.index("\nrest:")]
    assert body.count("!nontemporal") == 2
