"""Options of CUDA code: each changes the text or what the compiler is told; wrong ones are refused."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hostcuda import run_host

import jaxwarp as wp
from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cuda import compile as cuda_compile
from jaxwarp.codegen.cuda import nvrtc, print_cuda
from jaxwarp.errors import KernelValueError
from jaxwarp.ffi import lowering
from jaxwarp.launches import code
from jaxwarp.launches.code import Gpus
from jaxwarp.passes.pipeline import prepare

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")


def make(**options):
    @wp.kernel(**options)
    def roots(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = 1.0 / wp.sqrt(x[i]) + wp.sin(x[i])

    return roots


def bounds(kernel):
    return re.search(r"__launch_bounds__\((.*)\)", kernel.source("cuda")).group(1)


def test_launch_bounds():
    assert bounds(make()) == "256"
    assert bounds(make(block_dim=64)) == "64"
    assert bounds(make(launch_bounds=128)) == "128"
    assert bounds(make(launch_bounds=(512, 2))) == "512, 2"
    assert bounds(make(launch_bounds=[512, np.int64(2)], block_dim=64)) == "512, 2"
    assert make(launch_bounds=128).cuda_options().block == 128
    assert make(launch_bounds=512).cuda_options().block == 256


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"launch_bounds": 2048}, r"launch_bounds: expected the most threads of a block \(1 to 1024\).*, got 2048"),
        ({"launch_bounds": (256, 2, 2)}, r"launch_bounds: .*, got \(256, 2, 2\)"),
        ({"launch_bounds": (256, 0)}, r"launch_bounds: .*, got \(256, 0\)"),
        ({"launch_bounds": "256"}, r"launch_bounds: .*, got '256'"),
        (
            {"launch_bounds": 128, "block_dim": 256},
            r"block_dim: expected at most 128, as launch_bounds=\(128,\) says, got 256",
        ),
        ({"block_dim": 2.5}, r"block_dim: expected an integer from 1 to 1024, got 2\.5"),
        ({"max_registers": 256}, "max_registers: expected an integer from 1 to 255, got 256"),
        ({"optimization_level": 4}, "optimization_level: expected an integer from 0 to 3, got 4"),
        ({"optimization_level": True}, "optimization_level: expected an integer from 0 to 3, got True"),
        ({"fast_math": "yes"}, "fast_math: expected True or False, got 'yes'"),
        ({"grid_stride": 1}, "grid_stride: expected True or False, got 1"),
    ],
)
def test_wrong_options_are_refused(options, message):
    kernel, x = make(**options), jnp.ones(3)
    for call in (lambda: wp.jax_kernel(kernel)(x), lambda: wp.launch(kernel, 3, [wp.ones(3)], [wp.ones(3)])):
        with pytest.raises(KernelValueError, match=f"^kernel roots: {message}"):
            call()


def test_cluster_dim_warns():
    with pytest.warns(UserWarning, match="^kernel roots: cluster_dim has no effect") as found:
        make(cluster_dim=2)
    assert found[0].filename == __file__


@pytest.mark.parametrize("bits", [32, 64])
def test_without_a_loop_over_threads(bits):
    kernel = prepare(make().specialize())
    options = CudaOptions(32, grid_stride=False)
    text = print_cuda(kernel, bits, options).source
    assert "for (" not in text
    assert "for (" in print_cuda(kernel, bits).source
    x = np.linspace(1, 2, 100, dtype=np.float32)
    y = np.zeros_like(x)
    run_host(kernel, (100,), [x, y], bits, 128, 32, options=options)
    np.testing.assert_allclose(y, 1 / np.sqrt(x) + np.sin(x), rtol=1e-5)


def test_sums_keep_their_loop():
    @wp.kernel(grid_stride=False)
    def total(x: wp.array[float], out: wp.array[float]):
        wp.atomic_add(out, 0, x[wp.tid()])

    assert "gridDim.x * blockDim.x" in total.source("cuda")


@pytest.fixture
def told(monkeypatch):
    """What NVRTC is told: its options, and the text."""
    found = []

    def compile_source(source, name, options, ptx):
        found.append((source, options))
        return nvrtc.Compiled(b"made", "")

    monkeypatch.setattr(nvrtc, "compile_source", compile_source)
    monkeypatch.setattr(cuda_compile.cache, "get", lambda _: None)
    monkeypatch.setattr(cuda_compile.cache, "put", lambda *_: None)
    return found


@needs_nvrtc
@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"fast_math": True}, "--use_fast_math"),
        ({"max_registers": 32}, "--maxrregcount=32"),
        ({"optimization_level": 1}, "--ptxas-options=-O1"),
        ({"module_options": {"fast_math": True}}, "--use_fast_math"),
        ({"module_options": {"lineinfo": True}}, "--generate-line-info"),
    ],
)
def test_options_reach_the_compiler_of_a_launch_and_of_its_gradient(options, option, told, monkeypatch):
    monkeypatch.setattr(lowering, "_gpus", lambda _: Gpus((90,)))
    code.forget()
    run = wp.jax_kernel(make(**options))
    for f in (lambda x: run(x)[0], jax.grad(lambda x: run(x)[0].sum())):
        told.clear()
        jax.jit(f).trace(jnp.ones(3)).lower(lowering_platforms=("cuda",))
        assert told
        assert all(option in list(given) for _, given in told)
    code.forget()


@needs_nvrtc
def test_options_change_the_machine_code():
    assert "sqrt.approx" in make(fast_math=True).ptx(90)
    assert "sqrt.approx" not in make().ptx(90)
    assert ".minnctapersm 4" in make(launch_bounds=(128, 4)).ptx(90)
    assert ".maxntid 128" in make(launch_bounds=128).ptx(90)


@needs_nvrtc
@pytest.mark.parametrize(("fast", "operations"), [(False, ["sqrt.rn", "rcp.rn"]), (True, ["rsqrt.approx"])])
def test_reciprocal_roots_are_rounded_twice_or_approximated(fast, operations):
    @wp.kernel(fast_math=fast)
    def divided(x: wp.array[float], y: wp.array[float]):
        y[wp.tid()] = 1.0 / wp.sqrt(x[wp.tid()])

    @wp.kernel(fast_math=fast)
    def named(x: wp.array[float], y: wp.array[float]):
        y[wp.tid()] = wp.rsqrt(x[wp.tid()])

    for kernel in (divided, named):
        assert re.findall(r"\s((?:r?sqrt|rcp|div)\.\w+)", kernel.ptx(90)) == operations


@needs_nvrtc
def test_fast_math_does_not_contract():
    """Contraction is the IR's. What is shown is what is launched."""

    @wp.kernel(fast_math=True, module_options={"fuse_fp": False})
    def product(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * x[i] + y[i]

    assert "fma.rn" not in product.ptx(90)


@needs_nvrtc
def test_lines_of_the_user_are_in_the_code(monkeypatch):
    monkeypatch.setattr(wp.config, "lineinfo", True)
    text = make().ptx(90)
    line = make.__code__.co_firstlineno + 4
    assert ".file\t" in text
    assert __file__ in text
    assert re.search(rf"\.loc\s+\d+ {line} ", text)
    assert make().resources(90).registers == make(module_options={"lineinfo": False}).resources(90).registers
