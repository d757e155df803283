"""Random programs on vectors and matrices: kernels do what Python does with the same text."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
from kernels_strategy import Pick, RandomPick
from language import define
from typed_programs import VECTORS, BundleArray, StandIn, Writer

from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare

THREADS = 11


def arguments(length: int) -> list[np.ndarray]:
    rng = np.random.default_rng(length)
    vectors = rng.integers(-8, 9, (THREADS, length)).astype(np.float32)
    scalars = rng.integers(-8, 9, THREADS).astype(np.float32)
    counts = rng.integers(0, 16, THREADS).astype(np.int32)
    return [vectors, scalars, counts, np.zeros_like(vectors), np.zeros((THREADS, 4), np.float32)]


def run_in_python(scope: dict[str, Any], arrays: list[np.ndarray]) -> None:
    stand_in = StandIn()
    plain: dict[str, Any] = {"wp": stand_in}
    helper = scope["helper"].overloads[-1].source.function
    plain["helper"] = types.FunctionType(helper.__code__, plain)
    program = types.FunctionType(scope["program"].func.__code__, plain)
    a, x, k, out, scalars = arrays
    given = [BundleArray(a), x.astype(np.float64), [int(n) for n in k], BundleArray(out), scalars]
    for stand_in.index in range(THREADS):
        program(*given)


def check(pick: Pick) -> str:
    writer = Writer(pick)
    source = writer.program()
    scope = define(source)
    expected = arguments(VECTORS[writer.vector])
    run_in_python(scope, expected)
    kernel = verify(scope["program"].specialize())
    prepared = verify(prepare(kernel))
    runs = {
        "interpreter": lambda b: interpret(kernel, (THREADS,), b),
        "prepared": lambda b: interpret(prepared, (THREADS,), b),
        "stepped": lambda b: scope["program"].interpret(*b, dim=THREADS),
        "cpu": lambda b: run_cpu(prepared, (THREADS,), b, width=8),
    }
    for name, run in runs.items():
        got = arguments(VECTORS[writer.vector])
        run(got)
        for a, b in zip(expected, got, strict=True):
            # Zeros of both signs are one: Python's clip and ours choose differently between them.
            np.testing.assert_array_equal(a, b, err_msg=f"{name}\n{source}")
    return source


@pytest.mark.parametrize("seed", range(30))
def test_program_does_what_python_does(seed):
    check(RandomPick(seed))


def test_the_generator_reaches_the_language():
    sources = "".join(Writer(RandomPick(seed)).program() for seed in range(100))
    for needed in (
        "wp.cross(",
        "m * ",
        "wp.determinant(",
        "] += ",
        ".x = ",
        "break",
        "continue",
        "helper(",
        "vec4",
        "else",
    ):
        assert needed in sources
