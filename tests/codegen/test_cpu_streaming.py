"""Streaming stores of kernels of many arrays: whole lines of each at a time, wherever these begin."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from cpushapes import entries_read

import jaxwarp as wp
from jaxwarp.analysis.collisions import succession_of
from jaxwarp.codegen.cpu import compile_cpu, launch
from jaxwarp.codegen.cpu.llvm.arguments import FunctionFrame
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.errors import InternalError
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


@wp.kernel
def increment(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + 1.0


@wp.kernel
def spread(x: wp.array[float], width: int, y: wp.array[float]):
    i, j = wp.tid()
    y[i * width + j] = x[j]


def test_what_is_streamed_is_decided_by_extents_of_the_launch():
    """The code once read them from behind its geometry: small launches streamed by chance, and took twice as long."""
    code = compile_cpu(prepare(increment.ir()), 16, AVX2)
    assert code.geometry == ((0, 0), (1, 0))
    assert entries_read(code.text) == {0, 1}


def test_launches_in_order_ask_for_extents_behind_those_of_streaming():
    kernel = prepare(spread.ir())
    order = succession_of(kernel, (4, 16), dict(zip(kernel.params, [(16,), (), (64,)], strict=True)))
    assert order is not None
    assert order.apart is not None
    code = compile_cpu(kernel, 16, AVX2, succession=order)
    assert "!nontemporal" in code.text
    assert entries_read(code.text) == set(range(len(code.geometry)))
    sizes = re.findall(r"%b(\d+)\.(\d+) = mul i64 \d+, %g(\d+)", code.text)
    assert {(int(param), int(axis)) for param, axis, _ in sizes} == {(0, 0), (2, 0)}
    for param, axis, number in sizes:
        assert code.geometry[int(number)] == (int(param), int(axis))


def test_a_function_that_asks_for_an_extent_too_late_is_refused():
    kernel = prepare(increment.ir())
    frame = FunctionFrame(kernel, 16, AVX2)
    frame.extent(kernel.params[0], 0)
    assert frame.geometry == ((0, 0),)
    frame.extent(kernel.params[0], 0)
    with pytest.raises(InternalError, match="too late"):
        frame.extent(kernel.params[1], 0)
