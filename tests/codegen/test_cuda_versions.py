"""Texts with the extents of their launch as constants: the same results, no division, no more versions than a bound."""

from __future__ import annotations

import hostcuda
import numpy as np
import pytest
from kernels import KERNELS
from kernels_strategy import same_values

import jaxwarp as wp
from jaxwarp.codegen.abi import NO_CUDA_OPTIONS, CudaOptions, index_bits_of
from jaxwarp.codegen.cuda import code_for
from jaxwarp.errors import KernelValueError
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.verify import verify
from jaxwarp.passes.extents import with_extents
from jaxwarp.passes.pipeline import prepare

RELATIVE = {2: 1e-2, 4: 2e-5, 8: 1e-12}


@pytest.fixture(scope="module")
def prepared() -> dict[str, Kernel]:
    return {name: prepare(one.ir) for name, one in KERNELS.items()}


@pytest.fixture(scope="module")
def codes(prepared: dict[str, Kernel]):
    found = {
        (name, bits): code_for(prepared[name], one.grid, [b.shape for b in one.buffers()], bits, NO_CUDA_OPTIONS)
        for name, one in KERNELS.items()
        for bits in (32, 64)
    }
    hostcuda.compile_host([(prepared[name], code) for (name, _), code in found.items()])
    return found


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("bits", [32, 64])
def test_every_kernel_with_its_extents(name: str, bits: int, prepared, codes):
    one, kernel = KERNELS[name], prepared[name]
    expected, got = one.buffers(), one.buffers()
    verify(with_extents(kernel, [b.shape for b in got]))
    interpret(kernel, one.grid, expected)
    hostcuda.run_code(kernel, codes[name, bits], one.grid, got)
    for param, a, b in zip(kernel.params, got, expected, strict=True):
        if one.exact:
            assert same_values(a, b), param.name
        else:
            np.testing.assert_allclose(a, b, rtol=RELATIVE[a.dtype.itemsize], err_msg=param.name)


@pytest.mark.parametrize("name", KERNELS)
def test_extents_are_no_arguments(name: str, codes):
    assert codes[name, 32].geometry == ()
    assert codes[name, 64].geometry == ()


@wp.kernel
def shift(x: wp.array2d[float], by: int, y: wp.array2d[float]):
    i, j = wp.tid()
    rows, columns = x.shape[0], x.shape[1]
    y[i, j] = x[(i + 1) % rows, (j - 1 + columns) % columns] + x[(i + rows) % rows, (j + columns + 5) % columns]
    y[i, j] += x[(i + by) % rows, (j * 3) % columns]


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 6), (2, 7), (40, 33)])
def test_neighbours_around_the_end(shape: tuple[int, int]):
    kernel = prepare(shift.specialize())
    random = np.random.default_rng(0)
    x, by = random.random(shape, np.float32), np.array(2, np.int32)
    y = np.zeros(shape, np.float32)
    code = code_for(kernel, shape, [shape, (), shape], 32, NO_CUDA_OPTIONS)
    hostcuda.run_code(kernel, code, shape, [x, by, y])
    expected = np.roll(x, (-1, 1), (0, 1)) + np.roll(x, -5, 1)
    expected += np.roll(x, -2, 0)[:, np.arange(shape[1]) * 3 % shape[1]]
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_neighbours_are_not_divided():
    kernel = prepare(shift.specialize())
    assert "wrap_around(" in code_for(kernel, (40, 33), [(40, 33), (), (40, 33)], 32, NO_CUDA_OPTIONS).source


def saxpy() -> Kernel:
    @wp.kernel
    def saxpy(a: float, x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = a * x[i] + y[i]

    return prepare(saxpy.specialize())


def test_launches_without_code_of_their_own_share_a_text():
    kernel = saxpy()

    def text(grid, n):
        return code_for(kernel, grid, [(), (n,), (n,)], 32, NO_CUDA_OPTIONS)

    assert [text((n,), n).grid for n in (1, 2)] == [(1,), (2,)]
    assert text(None, 1) is text(None, 2)


def test_extents_known_at_run_time_stay_arguments():
    @wp.kernel
    def copied(x: wp.array2d[float], y: wp.array2d[float]):
        i, j = wp.tid()
        y[i, j] = x[i, j]

    kernel = prepare(copied.specialize())
    n = object()  # a symbolic extent
    code = code_for(kernel, (4, n), [(4, n), (4, n)], 64, NO_CUDA_OPTIONS)
    assert code.geometry
    assert "for (" in code.source
    x, y = np.random.default_rng(0).random((4, 6), np.float32), np.zeros((4, 6), np.float32)
    hostcuda.run_code(kernel, code, (4, 6), [x, y])
    np.testing.assert_array_equal(x, y)


@wp.kernel
def planes(x: wp.array3d[float], y: wp.array3d[float]):
    i, j = wp.tid()
    for q in range(3):
        y[q, i, j] = x[2 - q, i, j]


def test_many_elements_have_64_bits_where_they_need_them():
    """Threads are counted, and rows indexed, in 32 bits; planes in 64."""
    shape = (3, 32768, 32768)
    code = code_for(prepare(planes.specialize()), shape[1:], [shape, shape], index_bits_of(shape, []), NO_CUDA_OPTIONS)
    assert "[&](unsigned int thread) {" in code.source
    assert "y[i * 32768 + j + 2147483648LL]" in code.source
    assert "long long thread_count" in code.source
    assert code.index_bits == 64


def test_more_threads_than_32_bits_count():
    kernel, shape = prepare(planes.specialize()), (2, 2**30)
    code = code_for(kernel, shape, [(3, *shape)] * 2, 64, NO_CUDA_OPTIONS)
    assert "const unsigned int thread = " in code.source  # which has no sign, and makes one step
    shape = (4, 2**30)
    code = code_for(kernel, shape, [(3, *shape)] * 2, 64, NO_CUDA_OPTIONS)
    assert "const long long thread = " in code.source
    assert "int i = (int)(thread / 1073741824LL);" in code.source


def test_a_loop_where_there_are_not_blocks_enough():
    shape = (2**20, 2**20)
    few = code_for(prepare(planes.specialize()), shape, [(3, *shape)] * 2, 64, CudaOptions(block=32))
    assert "gridDim.x * blockDim.x" in few.source
    many = code_for(prepare(planes.specialize()), shape, [(3, *shape)] * 2, 64, CudaOptions(block=1024))
    assert "gridDim.x * blockDim.x" not in many.source
    # A block that nobody says may turn out to be smaller.
    free = code_for(prepare(planes.specialize()), (2**19, 2**20), [(1, 1, 1)] * 2, 64, CudaOptions(is_free=True))
    assert "gridDim.x * blockDim.x" in free.source


@wp.kernel
def packed(
    x: wp.array[wp.vec4], m: wp.array2d[wp.mat22], n: wp.array[wp.vec2i], d: wp.array[wp.vec2d], y: wp.array[wp.vec4]
):
    i = wp.tid()
    v = x[i]
    a = m[i, 1]
    k = n[i]
    n[i] = wp.vec2i(k[1], k[0] + 1)
    d[i] = d[i] * wp.float64(2.0)
    last = y[i]
    last += wp.vec4(v[3], v[2], a[0, 1], a[1, 0])
    y[i] = last * float(k[0])


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("is_aligned", [True, False])
def test_words_of_a_row_are_accessed_together(bits: int, is_aligned: bool):
    kernel = prepare(packed.specialize())
    random = np.random.default_rng(0)
    buffers = [
        random.random((5, 4), np.float32),
        random.random((5, 2, 2, 2), np.float32),
        random.integers(0, 9, (5, 2), np.int32),
        random.random((5, 2)),
        random.random((5, 4), np.float32),
    ]
    expected = [b.copy() for b in buffers]
    interpret(kernel, (5,), expected)
    code = code_for(kernel, (5,), [b.shape for b in buffers], bits, NO_CUDA_OPTIONS, is_aligned)
    hostcuda.run_code(kernel, code, (5,), buffers)
    for got, wanted in zip(buffers, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    loads = code.source.count("*(const float4 *)&"), code.source.count("*(const int2 *)&")
    stores = code.source.count("*(float4 *)&"), code.source.count("*(double2 *)&")
    assert (*loads, *stores) == ((1, 1, 1, 1) if is_aligned else (0, 0, 0, 0))


@wp.kernel
def entangled(x: wp.array[wp.vec4], y: wp.array[wp.vec4]):
    i = wp.tid()
    y[i][0] = x[i][0]
    y[i][1] = y[i][0] + x[i][1]
    y[i][2] = x[i][2]
    if x[i][0] > 0.5:
        y[i][2] = 7.0
    y[i][3] = y[i][2]


def test_words_that_are_needed_in_between_are_not():
    kernel = prepare(entangled.specialize())
    x = np.random.default_rng(1).random((9, 4), np.float32)
    got, expected = np.zeros_like(x), np.zeros_like(x)
    interpret(kernel, (9,), [x, expected])
    code = code_for(kernel, (9,), [x.shape, x.shape], 32, NO_CUDA_OPTIONS)
    hostcuda.run_code(kernel, code, (9,), [x, got])
    np.testing.assert_array_equal(got, expected)
    assert "*(float4 *)&" not in code.source


def test_the_text_of_a_launch():
    text = packed.source("cuda", dim=8, shapes={"x": 8, "m": (8, 3), "n": (8,), "d": 8, "y": 8})
    assert "*(const float4 *)&y[i * 4]" in text
    assert "m[i * 12 + 5]" in text
    assert "m[i * m_stride0 + 5]" in packed.source("cuda")
    planes_of_4 = planes.source("cuda", dim=(4, 5), shapes={"x": (3, 4, 5), "y": (3, 4, 5)})
    assert "thread / 5u" in planes_of_4
    assert "gridDim" not in planes_of_4
    assert "for (" in planes.source("cuda")
    wide = planes.source("cuda", dim=(2**15, 2**15), shapes={"x": (3, 2**15, 2**15), "y": (3, 2**15, 2**15)})
    assert "long long thread_count" in wide


@pytest.mark.parametrize(
    ("dim", "shapes", "message"),
    [
        (4, {}, "kernel planes: dim: expected 2 extents, got 4"),
        ((4, 5), {"z": 3}, "kernel planes: shapes: no parameter 'z'"),
        ((4, 5), {"x": (3, 4, 5)}, "kernel planes: shapes: expected the shape of y, of 3 axes"),
        ((4, 5), {"x": (3, 4)}, r"kernel planes: shapes: x has 3 axes, got \(3, 4\)"),
    ],
)
def test_extents_of_another_kernel_are_refused(dim, shapes, message):
    with pytest.raises(KernelValueError, match=message):
        planes.source("cuda", dim=dim, shapes=shapes)
