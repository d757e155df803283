"""The benchmarks: what is written by hand means the same as the kernels it is timed against; programs that run."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxwarp import jax_kernel

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import compile as compiling  # noqa: E402
import cpu  # noqa: E402
import cpu_cases  # noqa: E402
import cpu_kernels  # noqa: E402
import derivatives  # noqa: E402
import launch  # noqa: E402
import measure  # noqa: E402
import sizes  # noqa: E402
import warp_program  # noqa: E402
import warp_steps  # noqa: E402

RNG = np.random.default_rng(5)


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


def test_bench_launch_compares_within_rounds():
    """A round in which the machine ran at half its speed changes no ratio."""
    found = measure.ratios({"plain": [1.0, 2.0, 1.0], "ours": [9.0, 18.0, 9.0]}, "plain")
    assert found == {"ours": measure.Figure(9.0, 9.0, 9.0, 9.0)}
    call = launch._first(jax_kernel(launch.increment))
    multiples = launch.multiples_of_plain({"jaxwarp": call, "jax.numpy": lambda x: x + 1}, 1)
    assert set(multiples) == {"jaxwarp"}
    assert multiples["jaxwarp"].median > 1


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


def test_bench_compile_times_every_stage():
    found = compiling.least(compiling.kernel("saxpy"), 1)
    stages = ("frontend", "passes", "emission", "bitcode", "llvm", "load")
    assert found["total"] == pytest.approx(sum(found[stage] for stage in stages))
    assert found["operations"] > 3
    assert found["object"] > 100


def test_bench_warp_steps_both_packages_in_turn():
    pytest.importorskip("warp")
    if warp_steps.PROGRAMS.keys() - {name for name in warp_steps.PROGRAMS if warp_program.source_of(name)}:
        pytest.skip("this version of Warp has not all of these programs")
    found = warp_steps.compare("core/example_wave", rounds=1, cores=1)
    assert found["ratio"] == found["warp"]["least"] / found["jaxwarp"]["least"] > 0


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
