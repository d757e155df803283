"""Sums at addresses that threads share, in CUDA text: run on the host with threads that wait for each other.

The interpreter says what they are; blocks of every kind of size, whole and partial warps, threads that stride, branches
that part the threads of a warp, loops that they leave at different times.
"""

from __future__ import annotations

import hostcuda
import numpy as np
import pytest
from derivativekit import feed
from devicecuda import run_device
from kernels_strategy import same_values

import jaxwarp as wp
from jaxwarp.codegen.cuda import compile_cuda, nvrtc, print_cuda, resources
from jaxwarp.codegen.cuda.emit import ANY_NUMBER
from jaxwarp.codegen.cuda.sums.reductions import MOST_BLOCKS, SHARED_ELEMENTS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import SCALARS, Scalar, bool_, float32, float64, int32
from jaxwarp.vjp.reverse.adjoint import adjoint

KINDS = ("add", "min", "max", "and", "or", "xor")
PLACES = [(kind, t) for kind in KINDS for t in SCALARS
          if t is not bool_ and not t.is_half and (kind in ("add", "min", "max") or not t.is_float)]  # fmt: skip


def everywhere(kernel: Kernel, grid: tuple[int, ...], buffers: list[np.ndarray], tolerance: float = 0.0) -> None:
    """The text against the interpreter, with many shapes of blocks."""
    expected = [b.copy() for b in buffers]
    interpret(kernel, grid, expected)
    hostcuda.prepare_host([kernel])
    for bits, block, threads in [(32, 1, None), (32, 7, None), (32, 32, None), (32, 40, None), (32, 64, 64),
                                 (64, 33, 66), (64, 96, None), (64, 256, None)]:  # fmt: skip
        got = [b.copy() for b in buffers]
        hostcuda.run_host(kernel, grid, got, bits, threads, block)
        for param, a, b in zip(kernel.params, got, expected, strict=True):
            is_near = tolerance and b.dtype.kind == "f"
            is_right = np.allclose(a, b, rtol=tolerance, atol=tolerance) if is_near else same_values(a, b)
            text = "" if is_right else print_cuda(kernel, bits).source
            assert is_right, f"{param.name}, blocks of {block}: got {a}, expected {b}\n{text}"


def reduction(kind: str, t: Scalar) -> Kernel:
    """x[i] goes to a number, to element 2 of three, and (where i is odd) to element k % n of an array, k < 5."""
    make = Builder()
    from jaxwarp.builtins.scalar_ops import ROWS

    x, total = Param("x", t, (None,)), Param("total", t, ())
    three, many = Param("three", t, (3,)), Param("many", t, (None,))
    i = make.tid(0)
    value = make.load(x, [i])
    make.atomic(kind, total, [], value)
    make.atomic(kind, three, [make.const(2, int32)], value)

    def in_loop():
        def one(k):
            at = make.call(ROWS["mod"], k, make.size(many, 0))
            make.atomic(kind, many, [at], value)
            return []

        make.for_(make.const(0, int32), make.const(5, int32), make.const(1, int32), [], one)
        return []

    odd = make.call(ROWS["bit_and"], i, make.const(1, int32))
    make.if_(make.call(ROWS["ne"], odd, make.const(0, int32)), in_loop)
    make.atomic(kind, many, [make.const(1, int32)], value)
    return make.finish(f"reduce_{kind}_{t.short}", 1, [x, total, three, many])


@pytest.fixture(scope="module")
def reductions() -> dict[tuple[str, Scalar], Kernel]:
    kernels = {(kind, t): prepare(reduction(kind, t)) for kind, t in PLACES}
    hostcuda.prepare_host(kernels.values())
    return kernels


@pytest.mark.parametrize(("kind", "t"), PLACES, ids=[f"{k}-{t.short}" for k, t in PLACES])
def test_every_kind_and_type(kind, t, reductions):
    kernel, rng = reductions[kind, t], np.random.default_rng(3)
    n = 150
    x = rng.integers(-50, 50, n).astype(t.numpy)  # sums of small whole numbers are exact in any order
    if not t.is_float:
        x = rng.integers(np.iinfo(t.numpy).min, np.iinfo(t.numpy).max, n, dtype=t.numpy, endpoint=True)
    start = [rng.integers(0, 9, s).astype(t.numpy) for s in ((), (3,), (2,))]
    everywhere(kernel, (n,), [x, *start])
    everywhere(kernel, (n,), [x, *start[:2], rng.integers(0, 9, SHARED_ELEMENTS + 1).astype(t.numpy)])
    if t.is_float and kind != "add":
        x[rng.random(n) < 0.3] = np.nan
        everywhere(kernel, (n,), [x * t.numpy.type(-0.0), *(np.full_like(s, np.nan) for s in start)])
        everywhere(kernel, (n,), [np.full_like(x, np.nan), *(np.full_like(s, np.nan) for s in start)])


def test_what_is_done_where(reductions):
    """Numbers wait for the end of the launch; an array's elements go through shared memory if it is small."""
    code = print_cuda(reductions["add", float32])
    loop, after = code.source.split("reduce_add_f32(")[1].split("block_add_f32(&total[0]", 1)
    assert "total_part += " in loop
    assert "three_part += " in loop
    assert "&total[" not in loop
    assert "warp_add_f32(&(many_is_small ? many_part : many)[" in loop
    assert "atomicAdd(&many[" in after
    assert code.most_blocks == MOST_BLOCKS


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
def test_many_small_arrays_share_what_there_is_of_shared_memory():
    """Thirty of float64 needed 60 KiB, of 48; those without room take atomics of warps."""
    make = Builder()
    arrays = [Param("x", float64, (None,)), *(Param(f"sum{k}", float64, (None,)) for k in range(30))]
    i = make.tid(0)
    value = make.load(arrays[0], [i])
    for array in arrays[1:]:
        make.atomic("add", array, [make.const(2, int32)], value)
    kernel = prepare(make.finish("sums", 1, arrays))
    assert resources(kernel, 90).shared <= 48 * 1024
    x = np.arange(300, dtype=np.float64)
    buffers = [x, *(np.zeros(3) for _ in range(30))]
    hostcuda.run_host(kernel, (300,), buffers, 32, 64, 64)
    for total in buffers[1:]:
        np.testing.assert_array_equal(total, [0, 0, x.sum()])


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
def test_compiles_for_every_architecture(reductions):
    """Halves and float32; other types, whose text is made in the same way, for the oldest one."""
    for t in SCALARS:
        if ("add", t) in reductions:
            compile_cuda(print_cuda(reductions["add", t]), (75, 90, 100, 120) if t.is_half or t is float32 else (75,))
    for kind in KINDS:
        compile_cuda(print_cuda(reductions[kind, int32], 64), (80,))


@wp.kernel
def reads_back(x: wp.array[float], total: wp.array[float], y: wp.array[float]):
    """Every thread sees what it has added so far."""
    i = wp.tid()
    wp.atomic_add(total, 0, x[i])
    y[i] = total[0]


@wp.kernel
def old_values(total: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    y[i] = wp.atomic_add(total, 0, 1)


@wp.kernel
def two_kinds(total: wp.array[int], x: wp.array[int]):
    i = wp.tid()
    wp.atomic_add(total, 0, x[i])
    wp.atomic_max(total, 0, x[i])


@pytest.mark.parametrize("kernel", [reads_back, old_values, two_kinds], ids=lambda k: k.name)
def test_left_alone(kernel):
    """Where somebody looks on, or the order counts, atomics stay as they are."""
    code = print_cuda(prepare(kernel.specialize()))
    assert "__syncthreads" not in code.source
    assert "__activemask" not in code.source
    assert code.most_blocks == ANY_NUMBER


@wp.kernel
def maybe_outside(x: wp.array[float], n: int, total: wp.array[float]):
    """Element n is not there where no thread adds to it."""
    i = wp.tid()
    if x[i] > 2.0:
        wp.atomic_add(total, n, x[i])


def test_an_element_that_nobody_reaches_is_not_touched():
    kernel = prepare(maybe_outside.specialize())
    memory = np.zeros(8, np.float32)
    buffers = [np.ones(70, np.float32), np.array(5, np.int32), memory[:1]]
    hostcuda.run_host(kernel, (70,), buffers, block=64)
    np.testing.assert_array_equal(memory, np.zeros(8))
    everywhere(kernel, (70,), [np.linspace(0, 3, 70).astype(np.float32), np.array(0, np.int32), np.ones(1, np.float32)],
               1e-6)  # fmt: skip


@wp.kernel
def network(a: float, v: wp.vec3, w: wp.array2d[float], x: wp.array[float], y: wp.array[float]):
    """Weights in a nested loop, in a branch, and in a loop that each thread leaves at its own time."""
    i = wp.tid()
    s = 0.0
    for j in range(w.shape[0]):
        t = 0.0
        for k in range(w.shape[1]):
            t += w[j, k] * wp.sin(a * x[i] + float(k))
        s += wp.tanh(t) * v[0]
    if x[i] > 0.3:
        s *= a * v[1]
    k = 0
    while s * s < 9.0 and k < w.shape[1]:
        s = s * (1.5 + v[2] * w[0, k])
        k += 1
    y[i] = s


def gradient_of_network(n: int, shape: tuple[int, int]) -> tuple[Kernel, list[np.ndarray]]:
    """The adjoint by a, v and w, and buffers for it."""
    rng = np.random.default_rng(4)
    derived = adjoint(network.specialize(), [0, 1, 2])
    primals = [rng.uniform(0.5, 1, ()), rng.uniform(0.5, 1, 3), rng.uniform(-0.1, 0.1, shape), rng.uniform(-1, 1, n),
               np.zeros(n)]  # fmt: skip
    buffers = feed(derived, primals, {4: rng.standard_normal(n) / n})
    return prepare(derived.kernel), [b.astype(np.float32) for b in buffers]


@pytest.mark.parametrize("shape", [(2, 3), (1, SHARED_ELEMENTS + 3)])
def test_gradient_of_weights(shape):
    kernel, buffers = gradient_of_network(83, shape)
    text = print_cuda(kernel).source
    assert "block_add_f32(&a_ct[0], a_ct_part)" in text
    assert "warp_add_f32(&(w_ct_is_small" in text
    everywhere(kernel, (83,), buffers, 3e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [83, 4_099])
def test_gradient_of_weights_on_the_device(n):
    kernel, buffers = gradient_of_network(n, (2, 3))
    expected = [b.copy() for b in buffers]
    interpret(kernel, (n,), expected)
    run_device(kernel, (n,), buffers)
    for a, b in zip(buffers, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize(("kind", "t"), PLACES, ids=[f"{k}-{t.short}" for k, t in PLACES])
def test_every_kind_on_the_device(kind, t, reductions):
    n, rng = 4_099, np.random.default_rng(6)
    buffers = [rng.integers(0, 3, s).astype(t.numpy) for s in ((n,), (), (3,), (2,))]
    expected = [b.copy() for b in buffers]
    interpret(reductions[kind, t], (n,), expected)
    run_device(reductions[kind, t], (n,), buffers)
    for a, b in zip(buffers, expected, strict=True):
        assert same_values(a, b)


@wp.kernel
def rowwise(x: wp.array2d[int], total: wp.array[int], one: wp.array[int]):
    """A row's address is the same for most of a warp, not for all of it."""
    i, j = wp.tid()
    wp.atomic_add(total, i, x[i, j])
    wp.atomic_add(one, 0, x[i, j])


@pytest.mark.parametrize("shape", [(5, 37), (70, 3), (300, 2)])
def test_rows_that_straddle_warps(shape):
    x = np.random.default_rng(7).integers(-9, 9, shape).astype(np.int32)
    kernel = prepare(rowwise.specialize())
    buffers = [x, np.zeros(shape[0], np.int32), np.zeros(1, np.int32)]
    everywhere(kernel, shape, buffers)
    hostcuda.run_host(kernel, shape, buffers)
    np.testing.assert_array_equal(buffers[1], x.sum(1))
