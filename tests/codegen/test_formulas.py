"""Formulas of builtins become functions in kernels that have many of them, and keep their values, on both targets."""

import re
import sys
from pathlib import Path

import hostcuda
import numpy as np
import pytest
from cpukit import SHAPES, Make, check

import jaxwarp as wp
from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cpu import compile as cpu_compile
from jaxwarp.codegen.cpu import compile_cpu, run_cpu
from jaxwarp.codegen.cpu.llvm import formulas
from jaxwarp.codegen.cuda import functions
from jaxwarp.codegen.cuda.compile import ptx
from jaxwarp.codegen.cuda.emit import print_cuda
from jaxwarp.passes.pipeline import fix_rounding, prepare
from jaxwarp.types import bfloat16, float16, float32, float64, int8, int32, int64, uint8, uint32, uint64
from jaxwarp.vjp.reverse.adjoint import adjoint

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import compile_kernels as generated
import cpu_kernels

UNARY = ("sin", "cos", "tan", "exp", "expm1", "log", "log1p", "cbrt", "tanh", "asin", "atan", "erf", "asinh")
BINARY = ("atan2", "pow")
ODD = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, -3e-41, 1e30, -1e15, 2.0**70, 700.0, -744.0)


def every_function(dtype):
    """A kernel of all of these functions, some in a branch that lanes take differently, and of one scalar."""
    b = Make()
    names = (*UNARY, *BINARY)
    x, y, one, out = (
        b.array(None, dtype=dtype),
        b.array(None, dtype=dtype),
        b.array(dtype=dtype),
        b.array(None, len(names) * 2 + 1, dtype=dtype),
    )
    i = b.tid(0)
    u, v, c = b.load(x, [i]), b.load(y, [i]), b.load(one, [])
    for n, name in enumerate(names):
        args = [u] if name in UNARY else [u, v]
        b.store(out, [i, b.i(n)], b.op(name, *args))
        b.if_(b.op("gt", v, b.f(0.5, dtype)), lambda n=n, name=name: _stored(b, out, i, len(names) + n, name, v))
    b.store(out, [i, b.i(2 * len(names))], b.op("sin", c))
    return prepare(b.kernel())


def _stored(b, out, i, n, name, v):
    args = [v] if name in UNARY else [v, b.op("neg", v)]
    b.store(out, [i, b.i(n)], b.op(name, *args))
    return ()


def buffers_for(kernel, dtype, count=101):
    rng = np.random.default_rng(3)
    x, y = (rng.uniform(-3, 3, count).astype(dtype.numpy) for _ in range(2))
    with np.errstate(over="ignore"):
        x[: len(ODD)], y[-len(ODD) :] = np.array(ODD).astype(dtype.numpy), np.array(ODD).astype(dtype.numpy)
    return [x, y, np.array(0.3, dtype.numpy), np.zeros((count, kernel.params[3].shape[1]), dtype.numpy)]


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_functions_have_the_values_of_formulas_in_place(width, dtype, monkeypatch):
    """To the bit: infinities, NaN, what the C library is asked, and lanes that are off too."""
    kernel = every_function(dtype)
    found = []
    for most in (1 << 30, 0):
        monkeypatch.setattr(formulas, "MOST", most)
        buffers = buffers_for(kernel, dtype)
        code = run_cpu(kernel, (101,), buffers, width, machine=SHAPES[width])
        found.append(
            (buffers[3].view(f"u{dtype.bits // 8}"), len(re.findall(r"^define internal .* #4 {", code.text, re.M)))
        )
    (plain, none), (shared, some) = found
    assert none == 0
    assert some >= len(UNARY) + len(BINARY)
    assert np.array_equal(plain, shared)


@pytest.mark.parametrize("width", [1, 8])
def test_functions_are_told_apart_by_types(width, monkeypatch):
    """Also those that LLVM has one type for: signed and unsigned integers, both half types."""
    monkeypatch.setattr(formulas, "LONG", 1)
    monkeypatch.setattr(formulas, "MOST", 0)
    b = Make()
    x = b.array(None)
    types = (int8, uint8, int32, uint32, int64, uint64, float16, bfloat16, float64)
    outs = [b.array(None, 2, dtype=t) for t in types]
    i = b.tid(0)
    value = b.load(x, [i])
    for n, factor in enumerate((1.0, -3.5)):
        for out in outs:
            b.store(out, [i, b.i(n)], b.cast(b.op("mul", value, b.f(factor)), out.dtype))
    numbers = np.array([0.0, 1.7, -2.6, 300.5, -4e9, 3e10, 65519.0, np.inf, -np.inf, np.nan, 1e-8], np.float32)
    check(b.kernel(), (11,), [numbers, *(np.zeros((11, 2), t.numpy) for t in types)], (width,))


def test_a_long_formula_is_written_once():
    """A statement with a sine is a few instructions in the text, and few bytes of machine code."""
    texts, sizes = [], []
    for count in (100, 200):
        code = compile_cpu(prepare(generated.sines(count).ir()))
        texts.append(len(code.text.splitlines()))
        sizes.append(len(cpu_compile.compile_object(code.bitcode, cpu_compile.host())))
    assert texts[1] - texts[0] <= 16 * 100
    assert sizes[1] - sizes[0] <= 500 * 100


def test_gradients_of_many_formulas_write_them_once():
    counts = []
    for count in (100, 200):
        derived = adjoint(fix_rounding(generated.sines(count).ir()), [0], [None])
        counts.append(len(compile_cpu(prepare(derived.kernel)).text.splitlines()))
    assert counts[1] - counts[0] <= 30 * 100


@pytest.mark.parametrize("name", sorted(cpu_kernels.KERNELS))
def test_kernels_of_few_formulas_have_them_in_place(name):
    """Where calls would cost, and compile no faster to speak of."""
    kernel = prepare(cpu_kernels.KERNELS[name](float, wp.vec3, wp.mat33).ir())
    assert not formulas.shared_formulas(kernel, 8)
    assert "_of(" not in print_cuda(kernel).source


@wp.kernel
def trigonometric(x: wp.array[float], y: wp.array[wp.float64], out: wp.array2d[float], wide: wp.array2d[wp.float64]):
    i = wp.tid()
    for k in range(wp.static(12)):
        a = x[i] * float(k + 1)
        b = y[i] * wp.float64(k + 1)
        out[i, k] = wp.sin(a) + wp.asin(a) + wp.pow(a, 3.0)
        wide[i, k] = wp.sin(b) + wp.cos(b) + wp.atan2(b, wp.float64(2.0))


def test_cuda_functions_have_the_values_of_calls_in_place(monkeypatch):
    kernel = prepare(trigonometric.ir())
    rng = np.random.default_rng(5)
    given = [rng.uniform(-1, 1, 40).astype(np.float32), rng.uniform(-9, 9, 40)]
    found = []
    for most in (functions.MOST, 1 << 30):
        monkeypatch.setattr(functions, "MOST", most)
        buffers = [*(g.copy() for g in given), np.zeros((40, 12), np.float32), np.zeros((40, 12))]
        hostcuda.run_host(kernel, (40,), buffers)
        found.append(buffers)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_cuda_text_has_a_function_of_each_type_once():
    """`asin` with the bounds of its argument; the kernel's own names stay its own."""
    text = print_cuda(prepare(trigonometric.ir())).source
    heads = re.findall(r"^static __device__ __noinline__ (\w+) (\w+)\(", text, re.M)
    assert sorted(heads) == [
        ("double", "atan2_of"), ("double", "cos_of"), ("double", "sin_of"),
        ("float", "asin_of"), ("float", "pow_of"), ("float", "sin_of"),
    ]  # fmt: skip
    assert "{ return asinf(clamp_to_unit(x0)); }" in text
    assert not re.findall(r"\bsinf?\(", text.split("__global__")[1])


def test_fast_functions_of_floats_stay_in_place():
    """They are single instructions."""
    text = print_cuda(prepare(trigonometric.ir()), options=CudaOptions(fast_math=True)).source
    assert "__noinline__ float" not in text


def test_cuda_names_of_functions_are_taken():
    @wp.kernel
    def named(x: wp.array[float], out: wp.array2d[float]):
        i = wp.tid()
        sin_of = x[i] * 2.0
        for k in range(wp.static(80)):
            out[i, k] = wp.sin(sin_of + float(k)) + sin_of

    kernel = prepare(named.ir())
    x = np.linspace(-1, 1, 9, dtype=np.float32)
    buffers = [x, np.zeros((9, 80), np.float32)]
    hostcuda.run_host(kernel, (9,), buffers)
    wanted = np.sin(2 * x[:, None] + np.arange(80)) + 2 * x[:, None]
    assert np.allclose(buffers[1], wanted, atol=1e-4)


def test_ptx_of_many_sines_is_short():
    """2,400 characters for each where NVRTC writes it out."""
    sizes = [len(ptx(prepare(generated.sines(n).ir()), 80)) for n in (80, 160)]
    assert sizes[1] - sizes[0] <= 80 * 700
