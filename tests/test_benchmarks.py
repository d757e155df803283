"""The benchmarks: what is written by hand means the same as the kernels it is timed against; programs that run."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxwarp import jax_kernel
from jaxwarp.codegen.cuda import nvrtc

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import cpu  # noqa: E402
import cpu_cases  # noqa: E402
import cpu_kernels  # noqa: E402
import derivatives  # noqa: E402
import gpu  # noqa: E402
import gpu_kernels as timed  # noqa: E402
import handwritten  # noqa: E402
import launch  # noqa: E402
import measure  # noqa: E402
import sizes  # noqa: E402

RNG = np.random.default_rng(5)
PAIRS = {
    "saxpy": (handwritten.saxpy, timed.saxpy, (1000,)),
    "lbm": (handwritten.lbm, timed.lbm, (13, 21)),
    "increment": (handwritten.increment, timed.increment, (16,)),
}


def inputs(name: str, grid: tuple[int, ...]) -> list[np.ndarray]:
    match name:
        case "saxpy":
            return [np.float32(1.7), *RNG.standard_normal((2, *grid), np.float32)]
        case "lbm":
            weight = np.array(timed.WEIGHT)[:, None, None]
            return [(weight * RNG.uniform(0.8, 1.2, (9, *grid))).astype(np.float32), np.float32(1.6)]
        case _:
            return [RNG.standard_normal(grid, np.float32)]


def expected(name: str, operands: list[np.ndarray]) -> np.ndarray:
    wide = [np.asarray(x, np.float64) for x in operands]
    match name:
        case "saxpy":
            return wide[0] * wide[1] + wide[2]
        case "lbm":
            return gpu.lbm_reference(operands[0], 1.6)
        case _:
            return wide[0] + 1


def run_by_hand(code: handwritten.ByHand, twin: object, grid: tuple[int, ...], buffers: list[np.ndarray]) -> None:
    """The hand-written text as C++ on the host."""
    key = hostcuda.key(code.code)
    if key not in hostcuda._launchers:
        hostcuda.compile_host([(twin.specialize(), code.code)])
    geometry = [grid[axis] if number < 0 else buffers[number].shape[axis] for number, axis in code.geometry]
    total = math.prod(grid)
    pointers = (ctypes.c_void_p * len(buffers))(*(b.ctypes.data for b in buffers))
    numbers = (ctypes.c_longlong * max(1, len(geometry)))(*geometry)
    hostcuda._launchers[key](pointers, numbers, ctypes.c_longlong(total), -(-total // 4), 4)


@pytest.mark.parametrize("name", PAIRS)
def test_by_hand_and_kernel_mean_the_same(name):
    code, kernel, grid = PAIRS[name]
    operands = inputs(name, grid)
    want = expected(name, operands)
    shape = want.shape
    (ours,) = jax_kernel(kernel, launch_dims=grid, output_dims=shape)(*map(jnp.asarray, operands))
    by_hand = np.full(shape, np.nan, np.float32)
    run_by_hand(code, kernel, grid, [*(np.array(x, np.float32) for x in operands), by_hand])
    np.testing.assert_allclose(ours, want, rtol=2e-6, atol=2e-7)
    np.testing.assert_allclose(by_hand, want, rtol=2e-6, atol=2e-7)


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
@pytest.mark.parametrize("name", PAIRS)
def test_by_hand_compiles_and_lowers(name):
    code, _, grid = PAIRS[name]
    operands = [jnp.asarray(x) for x in inputs(name, grid)]
    shape = expected(name, [np.asarray(x) for x in operands]).shape
    call = code.call(grid, jax.ShapeDtypeStruct(shape, jnp.float32), 90)
    traced = jax.jit(call).trace(*operands)
    assert code.symbol in traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.gpu
@pytest.mark.parametrize("name", PAIRS)
def test_by_hand_on_a_gpu(name):
    code, kernel, grid = PAIRS[name]
    operands = inputs(name, grid)
    want = expected(name, operands)
    arch = int(jax.devices("cuda")[0].compute_capability.replace(".", ""))
    by_hand = jax.jit(code.call(grid, jax.ShapeDtypeStruct(want.shape, jnp.float32), arch))
    ours = jax_kernel(kernel, launch_dims=grid, output_dims=want.shape)
    for got in (by_hand(*map(jnp.asarray, operands)), ours(*map(jnp.asarray, operands))[0]):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-7)


def test_bench_gpu_says_that_there_is_none():
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "gpu.py"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "bench-gpu: no CUDA GPU is visible to JAX, so there is nothing to measure\n"


def test_bench_launch_checks_what_it_times():
    call = launch._first(jax_kernel(launch.increment))
    launch.in_loop(call, 10)()
    launch.eager(call, 10)()
    launch.in_loop(launch.pure_callback, 3)()
    big = launch._first(jax_kernel(launch.big_kernel(8)))
    assert launch.code_size(big) > launch.code_size(call) + 10_000
    launch.in_loop(big, 10)()
    with pytest.raises(AssertionError):
        launch.in_loop(lambda x: x + 2, 10)


@pytest.fixture(scope="module")
def by_hand_on_the_cpu(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    assert cpu.compile_reference(folder) == ""
    return cpu.load_reference(folder)


@pytest.mark.parametrize("case", list(cpu_cases.make_cases(small=True)), ids=lambda case: case.name)
def test_cpu_cases(by_hand_on_the_cpu, case):
    """C++ by hand, jaxwarp, jax.numpy (and Numba and Warp where they are installed) give the same result."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        runs = cpu.contenders(case, by_hand_on_the_cpu, set())
        cpu.require_right(case, runs)
        found = cpu.compare(runs, 1, time.perf_counter)
    assert {"C++ OpenMP", "jaxwarp", "jax.numpy"} <= set(found)
    assert all(row["seconds"] > 0 and len(row["ratio"]) == 3 for row in found.values())


def test_cpu_cases_find_a_wrong_contender(by_hand_on_the_cpu):
    case = next(cpu_cases.make_cases(small=True))
    runs = cpu.contenders(case, by_hand_on_the_cpu, set())
    run = runs["jaxwarp"]
    runs["jaxwarp"] = lambda: run() * 1.0001
    with pytest.raises(SystemExit, match=r"bench: saxpy \(jaxwarp\) is wrong: relative error 1.00e-04"):
        cpu.require_right(case, runs)


@pytest.mark.parametrize("name", cpu_kernels.SIZED)
def test_sizes(by_hand_on_the_cpu, name, monkeypatch):
    """Whoever is timed there computes what jax.numpy does, at a size that no vector divides; who does not is found."""
    monkeypatch.setattr(sizes, "LEAST_SECONDS", 1e-5)
    code = by_hand_on_the_cpu["float32"]
    runs = sizes.contenders(name, 1003, code, 2)
    found = sizes.compare(runs, 1, time.perf_counter)
    assert {"jaxwarp", "jax.numpy", "C++ on 1", "C++ on 2"} <= set(found)
    assert min(row["ratio"] for contender, row in found.items() if contender.startswith(("C++", "Numba"))) == 1
    other = next(n for n in cpu_kernels.SIZED if n not in (name, "attract"))
    made = sizes.launch
    monkeypatch.setattr(sizes, "launch", lambda _name, size: made(other, size))
    if name != "attract":
        with pytest.raises(AssertionError, match="jaxwarp is wrong"):
            sizes.contenders(name, 1003, code, 1)


def test_cpu_means():
    def row(ours, *others):
        ratios = zip(("jaxwarp", "Numba", "Numba fastmath"), (ours, *others), strict=False)
        return {name: {"ratio": [0.0, ratio, 9.0], "seconds": 1.0} for name, ratio in ratios}

    found = {"a": row(1.0, 4.0, 2.0), "b": row(2.0, 16.0, 64.0)}
    assert math.isclose(cpu.mean_over_ours(found, ["Numba"]), math.sqrt(4 * 8))
    assert math.isclose(cpu.mean_over_ours(found, ["Numba", "Numba fastmath"]), math.sqrt(2 * 8))
    assert math.isnan(cpu.mean_over_ours(found, ["Warp"]))


def test_figures():
    found = measure.figure([4.0, 1.0, 3.0, 2.0, 100.0])
    assert (found.median, found.low, found.high, found.least) == (3, 2, 4, 1)
    assert found.times(2).median == 6
    order = []
    made = [measure.Contender(n, lambda n=n: order.append(n), 1) for n in "ab"]
    measure.interleave(made, 2)
    assert order == ["a", "b"] * 3


def test_bench_derivatives_checks_what_it_times():
    cases = {case.name: case for case in derivatives.make_cases()}
    case = derivatives.Case("few", cases["pendulum 32"].call, ((64,),))
    found = derivatives.times(derivatives.programs(case), 1, time.perf_counter)
    assert set(found) == {"primal", "jvp", "vjp"}
    assert all((seconds > 0).all() for seconds in found.values())
    wrong = jax.custom_jvp(lambda x: x * x)
    wrong.defjvp(lambda x, t: (x[0] * x[0], 2.2 * x[0] * t[0]))
    with pytest.raises(SystemExit, match="the jvp of wrong is wrong"):
        derivatives.programs(derivatives.Case("wrong", wrong, ((64,),)))
