"""Kernels on tiles by a block of CUDA threads: run on the host with shared memory that sees races.

The interpreter, where one thread does it all, says what they are: to the bit, but for sums of floats.
"""

from __future__ import annotations

import re
from dataclasses import replace

import hostcuda
import numpy as np
import pytest
from kernels_strategy import same_values
from tilekit import NUMBERS, body_kernel

from jaxwarp.codegen.cuda import CudaCode, compile_cuda, print_cuda, resources
from jaxwarp.codegen.cuda.blocks import plan as planning
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.launches.code import CodeKey, Gpus, code_of
from jaxwarp.passes.pipeline import fix_rounding, prepare
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import adjoint

HALF_OF = """
@wp.func
def half_of(x: Any):
    return x * type(x)(0.5)

@wp.struct
class Pair:
    number: float
    place: wp.vec2i

@wp.func
def paired(x: float):
    return Pair(x, wp.vec2i(int(x * 8.0), 3))

@wp.func
def number_of(p: Pair):
    return p.number + float(p.place[0])
"""
# Loads and stores beyond the ends, views, parts, broadcasts, tiles that several threads meet at.
BODIES = {
    "softmax": """
t = wp.tile_load(x, shape=({n},), offset=(i * {n},))
top = wp.tile_max(t)
e = wp.tile_map(wp.exp, t - wp.tile_broadcast(top, shape=({n},)))
wp.tile_store(y, e / wp.tile_broadcast(wp.tile_sum(e), shape=({n},)), offset=(i * {n},))
""",
    "extremes": """
t = wp.tile_reshape(wp.tile_load(x, shape=({n} * 3,)), ({n}, 3))
wp.tile_store(y, wp.tile_min(t))
wp.tile_store(y, wp.tile_astype(wp.tile_argmax(t), float), offset=(1,))
wp.tile_store(y, wp.tile_astype(wp.tile_argmin(t), float), offset=(2,))
y[3] = wp.tile_max(t)[0] + t[{n} - 1, 1]
""",
    "views": """
t = wp.tile_load(x, shape=({n},))
u = wp.tile_zeros(shape=({n}, 4), dtype=float)
u += wp.tile_broadcast(wp.tile_reshape(t, ({n}, 1)), shape=({n}, 4))
wp.tile_view(u, offset=(0, 1), shape=({n}, 2)) + wp.tile_view(u, offset=(0, 0), shape=({n}, 2))
turned = wp.tile_transpose(u)
turned[1] = turned[2] * 3.0
wp.tile_store(y, wp.tile_sum(u, axis=1))
wp.tile_store(y, wp.tile_map(half_of, t), offset=(i - 2,))
""",
    "turns": """
t = wp.tile_load(x, shape=({n},))
u = wp.tile_zeros(shape=({n},), dtype=float)
for k in range(3):
    wp.tile_assign(u, t)
    t = wp.tile_map(half_of, t) + wp.tile_broadcast(wp.tile_view(u, offset=(k % {n},), shape=(1,)), shape=({n},))
    if t[0] > -9.0:
        t[{n} // 2] = t[{n} // 2] + 1.0
wp.tile_store(y, t)
wp.tile_atomic_add(y, u)
""",
    "product": """
a = wp.tile_load(m, shape=({n}, 5), offset=(i, 0))
b = wp.tile_load(m, shape=(5, {n}), offset=(0, i))
c = wp.tile_ones(shape=({n}, {n}), dtype=float)
wp.tile_matmul(a, b, c)
wp.tile_matmul(wp.tile_transpose(b), wp.tile_transpose(a), c, alpha=2.0)
wp.tile_store(y, wp.tile_sum(c * c, axis=0))
wp.tile_store(m, c, offset=(3, 2))
""",
    "structs": """
p = wp.tile_map(paired, wp.tile_load(x, shape=({n},)))
wp.tile_store(y, wp.tile_map(number_of, p))
v = wp.tile_load(vectors, shape=({n},))
total = wp.tile_sum(v)
y[0] = total[0][0] + total[0][2]
wp.tile_store(vectors, v + wp.tile_broadcast(total, shape=({n},)))
""",
}
SYMMETRIC = """
t = wp.tile_load(m, shape=({n}, {n}))
a = wp.tile_diag_add(t + wp.tile_transpose(t), wp.tile_full(shape={n}, value=4.0 * float({n}), dtype=float))
"""
# Loops over the rest of a row or column: what is stored to there, and loaded, was stored to by others before.
FACTORS = {
    "lower": """
l = wp.tile_cholesky(a)
wp.tile_store(y, wp.tile_cholesky_solve(l, wp.tile_load(x, shape={n})))
wp.tile_store(m, l)
""",
    "upper": """
wp.tile_cholesky_inplace(a, fill_mode="upper")
b = wp.tile_load(m, shape=({n}, 5), offset=(1, 2))
wp.tile_store(m, wp.tile_cholesky_solve(a, b, fill_mode="upper"))
column = wp.tile_load(x, shape={n})
wp.tile_lower_solve_inplace(wp.tile_transpose(a), column)
wp.tile_upper_solve_inplace(a, column)
wp.tile_store(y, column)
""",
    "gauss": """
for k in range({n}):
    pivot = a[k, k]
    for r in range(k + 1, {n}):
        factor = a[r, k] / pivot
        a[r, k] = factor
        for c in range(k + 1, {n}):
            a[r, c] = a[r, c] - factor * a[k, c]
wp.tile_store(m, a)
""",
    "outer": """
for k in range({n}):
    for r in range({n} - 1, k, -1):
        a[r, k] = a[r, k] / a[k, k]
    for r in range(k + 1, {n}):
        for c in range(k + 1, {n}):
            a[r, c] = a[r, c] - a[r, k] * a[k, c]
total = float(0.0)
for k in range(wp.min(y.shape[0], {n}), 0, -2):
    y[k - 1] = a[k - 1, 0] * 2.0
wp.tile_store(m, a)
""",
}
EXTENTS = (1, 2, 31, 32, 33, 64, 65)
ARGUMENTS = "x: wp.array[float], y: wp.array[float], m: wp.array2d[float], vectors: wp.array[wp.vec3]"


def made(name: str, n: int) -> Kernel:
    body = BODIES[name] if name in BODIES else SYMMETRIC + FACTORS[name]
    kernel = body_kernel(ARGUMENTS, body.replace("{n}", str(n)), HALF_OF)
    return replace(prepare(kernel.specialize(), fma=False), name=f"{name}_{n}")


def arrays(kernel: Kernel) -> list[np.ndarray]:
    """Numbers, among which extremes come twice, and as zeros of both signs."""
    rng = np.random.default_rng(5)
    shapes = {"x": (150,), "y": (70,), "m": (40, 40), "vectors": (66, 3)}
    bases = [re.sub("_(ct|t)$", "", p.name) for p in kernel.params]
    found = [np.round(rng.standard_normal(shapes[base]), 1).astype(np.float32) for base in bases]
    return [np.where(np.abs(a) < 0.2, np.copysign(np.float32(0), a), a) for a in found]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks also for tiles that are too small to be worth them."""
    monkeypatch.setattr(planning, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(planning, "WORTH", 0)


def both(kernel: Kernel, code: CudaCode, grid: int = 2) -> list[tuple[np.ndarray, np.ndarray]]:
    """What the interpreter, and a block that goes round, make of a launch."""
    expected, got = arrays(kernel), arrays(kernel)
    interpret(kernel, (grid,), expected)
    hostcuda.run_code(kernel, code, (grid,), got, threads=code.threads)
    return list(zip(got, expected, strict=True))


def product_of(n: int, kernel: Kernel) -> list[np.ndarray]:
    """Return what one block makes of `product`, by NumPy: the interpreter takes seconds for large ones."""
    x, y, m, vectors = arrays(kernel)
    wide = np.pad(m, n)[n:, n:].astype(np.float64)
    product = wide[:n, :5] @ wide[:5, :n]
    c = 1.0 + product + 2.0 * product.T
    y[:n], m[3 : 3 + n, 2 : 2 + n] = (c * c).sum(0), c[:37, :38]
    return [x, y, m, vectors]


@pytest.mark.parametrize("name", BODIES)
def test_a_block_of_threads_has_the_values_of_one_thread(always: None, name: str) -> None:
    kernels = [made(name, n) for n in EXTENTS]
    codes = [print_cuda(kernel) for kernel in kernels]
    assert all(code.threads > 1 for code in codes[1:])
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for n, kernel, code in zip(EXTENTS, kernels, codes, strict=True):
        if name == "product":
            found = arrays(kernel)
            hostcuda.run_code(kernel, code, (1,), found, threads=code.threads)
            for a, b in zip(found, product_of(n, kernel), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=f"{kernel.name}\n{code.source}")
            if n > 2:
                continue
        for a, b in both(kernel, code, 1):
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6, err_msg=f"{kernel.name}\n{code.source}")
            if name == "extremes":
                assert same_values(a, b), code.source


@pytest.mark.parametrize("name", FACTORS)
def test_factors_and_solutions(always: None, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outer loop by all threads in order, the inner ones divided; by one warp and several."""
    monkeypatch.setattr(planning, "LEAST_OF_REST", 1)
    monkeypatch.setattr(planning, "EACH", 1)
    kernels = [made(name, n) for n in (2, 13, 34)]
    codes = [print_cuda(kernel) for kernel in kernels]
    assert codes[0].threads == 32
    assert codes[2].threads > 32
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for kernel, code in zip(kernels, codes, strict=True):
        for a, b in both(kernel, code, 1):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=f"{kernel.name}\n{code.source}")
            if name in ("gauss", "outer"):
                assert same_values(a, b), code.source


DERIVED = {
    "softmax": 33, "views": 33, "turns": 65, "product": 9, "structs": 33, "lower": 9, "upper": 6, "outer": 6,
}  # fmt: skip


@pytest.mark.parametrize("way", ["reverse", "forward"])
def test_derivatives(always: None, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops over elements are shared in both sweeps, and sums of cotangents; sums of the kernel stay in order."""
    monkeypatch.setattr(planning, "LEAST_OF_REST", 1)
    derive = {"reverse": adjoint, "forward": tangent}[way]
    kernels = []
    for name, n in DERIVED.items():
        derived = derive(fix_rounding(made(name, n), fma=False), range(4), (1,)).kernel
        kernels.append(replace(prepare(derived, fma=False), name=f"{name}_{way}"))
    codes = [print_cuda(kernel) for kernel in kernels]
    alone = {kernel.name for kernel, code in zip(kernels, codes, strict=True) if code.threads == 1}
    assert alone <= {"structs_reverse", "upper_reverse"}  # which load outside of nests what they store to
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for kernel, code in zip(kernels, codes, strict=True):
        for a, b in both(kernel, code, 1):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, err_msg=f"{kernel.name}\n{code.source}")


def test_numbers_of_all_types_and_nan(always: None) -> None:
    """Sums of integers wrap; a NaN is the extremum of NaNs alone; memory of several warps."""
    body = """
t = wp.tile_load(x, shape=(150,))
wp.tile_store(y, wp.tile_sum(t))
wp.tile_store(y, wp.tile_min(t), offset=(1,))
wp.tile_store(y, wp.tile_max(wp.tile_view(t, offset=(120,), shape=(30,))), offset=(2,))
wp.tile_store(places, wp.tile_argmax(t))
wp.tile_store(places, wp.tile_argmin(wp.tile_view(t, offset=(120,), shape=(30,))), offset=(1,))
"""
    made_of, codes = [], []
    for number, name in enumerate(NUMBERS):
        arguments = f"x: wp.array[{name}], y: wp.array[{name}], places: wp.array[int]"
        kernel = replace(prepare(body_kernel(arguments, body).specialize(), fma=False), name=f"of_{number}")
        made_of.append(kernel)
        codes.append(print_cuda(kernel))
    assert {code.threads for code in codes} == {32}
    hostcuda.compile_host(list(zip(made_of, codes, strict=True)), "-O0")
    rng = np.random.default_rng(2)
    for kernel, code in zip(made_of, codes, strict=True):
        dtype = kernel.params[0].dtype
        x = rng.integers(0, 100, 150).astype(dtype.numpy)
        if dtype.is_float:
            x[[3, 40]] = x[120:] = np.nan
        expected = [x, np.zeros(3, dtype.numpy), np.zeros(2, np.int32)]
        got = [a.copy() for a in expected]
        interpret(kernel, (1,), expected)
        hostcuda.run_code(kernel, code, (1,), got)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a.astype(np.float64), b.astype(np.float64), str(dtype))


def test_the_first_of_equal_extremes_of_a_view_and_indices_of_any_type(always: None) -> None:
    """The order of a transposed tile is not that of the array; an index of a loop has the type of its bounds."""
    turned = """
t = wp.tile_load(x, shape=(12, 70))
u = wp.tile_transpose(t)
wp.tile_store(places, wp.tile_argmax(u))
wp.tile_store(places, wp.tile_argmin(u), offset=(1,))
wp.tile_store(y, wp.tile_min(wp.tile_transpose(wp.tile_view(t, offset=(1, 1), shape=(2, 40)))))
wp.tile_store(x, t + t)
"""
    indices = """
for k in range(wp.uint32(0), wp.uint32(64)):
    y[k] = float(-k)
for j in range(wp.int64(0), wp.int64(64)):
    long[j] = j * j * j * j * j * j * j + (j << wp.int64(40))
for b in range(wp.uint8(0), wp.uint8(64)):
    small[b] = b - wp.uint8(70)
for f in range(wp.int64(2**40), wp.int64(2**40 + 64)):
    far[f - wp.int64(2**40)] = f
wp.tile_store(tail, wp.tile_load(tail, shape=(64,)) + wp.tile_ones(shape=(64,), dtype=float))
"""
    x = np.zeros((12, 70), np.float32)
    x[2, 9] = x[9, 2] = 5.0
    x[3, 1] = x[0, 60] = -4.0
    x[1, 2:40] = np.copysign(0.0, -1.0)
    sets = (
        ("turned", "x: wp.array2d[float], y: wp.array[float], places: wp.array[int]", turned,
         [x, np.zeros(1, np.float32), np.zeros(2, np.int32)]),
        ("indices", "y: wp.array[float], long: wp.array[wp.int64], small: wp.array[wp.uint8], far: wp.array[wp.int64], "
         "tail: wp.array[float]", indices, [np.zeros(64, t) for t in ("f4", "i8", "u1", "i8", "f4")]),
    )  # fmt: skip
    for name, arguments, body, given in sets:
        kernel = replace(prepare(body_kernel(arguments, body).specialize(), fma=False), name=name)
        code = print_cuda(kernel)
        assert code.threads > 1
        hostcuda.compile_host([(kernel, code)], "-O0")
        expected, got = [a.copy() for a in given], [a.copy() for a in given]
        interpret(kernel, (1,), expected)
        hostcuda.run_code(kernel, code, (1,), got)
        assert all(same_values(a, b) for a, b in zip(got, expected, strict=True)), code.source


@pytest.mark.parametrize("name", ["softmax", "turns", "product", "extremes", "lower"])
def test_no_barrier_can_be_left_out(always: None, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "EACH", 1)
    monkeypatch.setattr(planning, "LEAST_OF_REST", 1)
    monkeypatch.setattr(planning, "EACH_OF_PRODUCT", 8)
    kernel = made(name, 65 if name in BODIES else 7)
    code = print_cuda(kernel)
    pieces = code.source.split("__syncthreads();")
    assert len(pieces) > 2
    # The solution's first element is made last, by the thread that stores it: who knows that needs no last barrier.
    needed = len(pieces) - (name in FACTORS)
    faulty = [replace(code, source=_joined(pieces, k)) for k in range(1, needed)]
    hostcuda.compile_host([(kernel, one) for one in (code, *faulty)], "-O0")
    hostcuda.run_code(kernel, code, (2,), arrays(kernel), threads=code.threads)
    for one in faulty:
        with pytest.raises(AssertionError, match="a race in shared memory"):
            hostcuda.run_code(kernel, one, (2,), arrays(kernel), threads=one.threads)


def _joined(pieces: list[str], without: int) -> str:
    barrier = "__syncthreads();"
    return barrier.join(pieces[:without]) + " " + barrier.join(pieces[without:])


TOLD = {
    "way": ("x: wp.array[float], y: wp.array[int]", """
t = wp.tile_load(x, shape={n})
if x[0] > -9.0:
    x[0] = x[0] + 1.0
    wp.tile_store(x, t * 2.0, offset=(5,))
if x[1] + x[0] > 99.0:
    y[1] = 3
"""),
    "count": ("x: wp.array[float], y: wp.array[int]", """
k = wp.atomic_add(y, 0, 3)
for j in range(k + 2):
    wp.tile_store(x, wp.tile_load(x, shape={n}) + float(k) + x[2])
wp.atomic_max(y, k % 7, k * 2)
"""),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_one_thread_tells_what_changes(always: None, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all threads load from an array that is stored to, and what an atomic found; by one warp and two."""
    monkeypatch.setattr(planning, "EACH", 1)
    arguments, body = TOLD[name]
    kernels = [body_kernel(arguments, body.replace("{n}", str(n))).specialize() for n in (20, 64)]
    kernels = [replace(prepare(k, fma=False), name=f"{name}_{n}") for n, k in enumerate(kernels)]
    codes = [print_cuda(kernel) for kernel in kernels]
    assert [code.threads for code in codes] == [32, 64]
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for kernel, code in zip(kernels, codes, strict=True):
        expected = [np.arange(80, dtype=np.float32), np.arange(9, dtype=np.int32)]
        got = [a.copy() for a in expected]
        interpret(kernel, (1,), expected)
        hostcuda.run_code(kernel, code, (1,), got)
        assert all(same_values(a, b) for a, b in zip(got, expected, strict=True)), code.source


def test_sums_that_decide_stay_in_order(always: None) -> None:
    """Derivatives repeat them; other sums may be in any order."""
    decides = """
total = wp.tile_sum(wp.tile_load(x, shape=64))
if total[0] > 1.0:
    x[0] = 0.0
"""
    deciding = prepare(body_kernel("x: wp.array[float]", decides).specialize())
    for kernel, in_order in ((deciding, True), (made("softmax", 64), False)):
        assert "total_of_warp" in print_cuda(kernel).source
        assert ("total_of_warp" not in print_cuda(fix_rounding(kernel)).source) is in_order


def test_small_tiles_have_one_thread() -> None:
    assert print_cuda(made("softmax", 16)).threads == 1
    factor = "wp.tile_store(m, wp.tile_cholesky(wp.tile_load(m, shape=(16, 16))))"
    assert print_cuda(prepare(body_kernel("m: wp.array2d[float]", factor).specialize())).threads == 1


def test_a_launch_counts_the_threads_of_blocks() -> None:
    """Handlers launch as many blocks as the launch has threads: its grid has one more extent."""
    twice = "wp.tile_store(x, wp.tile_load(x, shape=96, offset=i * 96) * 2.0, i * 96)"
    kernel = body_kernel("x: wp.array[float]", twice)
    code = code_of(CodeKey(kernel.specialize(), True, (7,), ((672,),), gpus=Gpus((90,))))
    assert (code.grid, code.block, code.index_bits) == ((7, 32), 32, 32)
    wide = code_of(CodeKey(kernel.specialize(), True, (2**24,), ((672,),), gpus=Gpus((90,))))
    assert (wide.grid, wide.index_bits) == ((2**24, 32), 64)


def test_a_softmax_lies_in_registers() -> None:
    found = resources(made("softmax", 1024), 90)
    assert (found.spill_stores, found.stack, found.shared) == (0, 0, 0)
    assert found.registers <= 80


def test_a_product_lies_in_registers_and_shared_memory() -> None:
    body = """
total = wp.tile_zeros(shape=(64, 64), dtype=float)
for k in range(m.shape[1] // 16):
    a = wp.tile_load(m, shape=(64, 16), offset=(0, k * 16))
    wp.tile_matmul(a, wp.tile_load(m, shape=(16, 64), offset=(k * 16, 0)), total)
wp.tile_store(c, total)
"""
    kernel = prepare(body_kernel("m: wp.array2d[float], c: wp.array2d[float]", body).specialize())
    found = resources(kernel, 90)
    # Three stages of rows of 16 and of 64 numbers, with four between them.
    assert (found.spill_stores, found.stack, found.shared) == (0, 0, 3 * (64 * 20 + 16 * 68) * 4)
    assert found.registers <= 128
    assert compile_cuda(print_cuda(kernel), (80,))
