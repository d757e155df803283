"""Kernels that move data: whole lines of each array at a time where the arrays do not fit the caches."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile_cpu, launch
from jaxwarp.codegen.cpu.plan import width as widths
from jaxwarp.codegen.cpu.plan.moves import moves_data
from jaxwarp.codegen.cpu.plan.target import Machine, host
from jaxwarp.codegen.cpu.plan.width import choose_width, is_beyond_caches
from jaxwarp.passes.pipeline import prepare

SSE, AVX2, AVX512 = (Machine("", "", features) for features in ("", "+avx2", "+avx2,+avx512f"))


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


def test_two_registers_are_a_line_where_arrays_are_large():
    for real, narrow, wide in ((wp.float32, 8, 16), (wp.float64, 4, 8)):
        kernel = prepare(pairs(real).ir())
        assert (choose_width(kernel, AVX2), choose_width(kernel, AVX2, is_large=True)) == (narrow, wide)
        for machine in (SSE, AVX512):  # two are half a line; one is a line
            assert choose_width(kernel, machine) == choose_width(kernel, machine, is_large=True)
        # Then all that it stores may be streamed, before it could not.
        texts = [compile_cpu(kernel, machine=AVX2, is_large=large).text for large in (False, True)]
        counts = [text.count("!nontemporal") for text in texts]
        assert counts[0] == 0 < counts[1]


@wp.kernel
def strided(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a[2 * i]


@wp.kernel
def found(a: wp.array[float], k: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = a[k[i]]


@wp.kernel
def entries(a: wp.array[wp.vec3], out: wp.array[wp.vec3]):
    i = wp.tid()
    out[i] = 2.0 * a[i]


@wp.kernel
def transposed(a: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = a[j, i]


@wp.kernel
def chosen(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    if a[i] > 0.0:
        out[i] = a[i]


@wp.kernel
def repeated(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    s = 0.0
    for k in range(a.shape[0]):
        s += a[k]
    out[i] = s


@wp.kernel
def computed(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.sin(a[i])


@wp.kernel
def updated(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] += a[i]


@wp.kernel
def scattered(a: wp.array[float], out: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(total, i / 2, a[i])
    out[i] = a[i]


@wp.kernel
def summed(a: wp.array[float], out: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(total, 0, a[i])
    out[i] = a[i]


@wp.kernel
def rows(a: wp.array2d[float], b: wp.array[float], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = a[i, j] * b[i]


@pytest.mark.parametrize(
    "kernel", [strided, found, entries, transposed, chosen, repeated, computed, updated, scattered]
)
def test_what_does_more_than_move_adjacent_elements(kernel):
    assert not moves_data(prepare(kernel.ir()))


@pytest.mark.parametrize("kernel", [summed, rows])
def test_what_moves_adjacent_elements(kernel):
    assert moves_data(prepare(kernel.ir()))


@pytest.mark.parametrize("real", [wp.float32, wp.float64])
@pytest.mark.parametrize("cache_bytes", [0, 1 << 40])
def test_whole_lines_at_any_length_and_address(real, cache_bytes):
    kernel, dtype = prepare(pairs(real).ir()), np.dtype(real.numpy).type
    code = compile_cpu(kernel, machine=replace(AVX2, cache_bytes=cache_bytes), is_large=True)
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


def test_launches_on_large_arrays_have_code_of_their_own(monkeypatch):
    """By the extents of all arrays, results twice; where extents are symbolic, the narrow code serves all."""
    kernel = pairs(wp.float32)
    asked = []

    def spy(prepared, sizes):
        asked.append(sum(sizes.values()))
        return is_beyond_caches(prepared, sizes)

    monkeypatch.setattr(widths, "host", lambda: replace(host(), cache_bytes=88 << 15))
    monkeypatch.setattr("jaxwarp.codegen.cpu.is_beyond_caches", spy)
    call = wp.jax_kernel(kernel, num_outputs=6)
    images = []
    for n in (1 << 10, (1 << 14) - 1, 20_000):
        inputs = [jax.random.normal(jax.random.key(k), (n,)) for k in range(10)]
        program = jax.jit(lambda *inputs: call(*inputs, jnp.float32(1.5)))
        images.append(program.lower(*inputs).as_text().split("image = ")[1].split('", index_bits')[0])
        for got, want in zip(program(*inputs), expected(inputs, 1.5), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert max(asked) == 64 * 20_000 + 4
    assert images[0] == images[1]
    assert (images[1] != images[2]) == (host().vector_bits == 256)  # else registers decide anyway
    asked.clear()
    symbolic = [jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), jnp.float32)] * 10
    exported = jax.export.export(program, platforms=["cpu"], disabled_checks=wp.export_checks())(*symbolic)
    assert not asked
    for got, want in zip(exported.call(*inputs), expected(inputs, 1.5), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
