"""Random programs on numbers of every type: kernels do what Python does with the arithmetic of docs/language.md."""

from __future__ import annotations

import numpy as np
import pytest
from kernels_strategy import RandomPick
from language import define
from number_programs import NUMBERS, Writer

from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare


@pytest.mark.parametrize("seed", range(25))
def test_program_does_what_python_does(seed):
    writer = Writer(RandomPick(seed))
    source = writer.program()
    scope = define(source)
    expected = writer.arguments(seed)
    writer.run(scope, expected)
    kernel = verify(scope["program"].specialize())
    prepared = verify(prepare(kernel, fma=False))
    runs = {
        "interpreter": lambda b: interpret(kernel, writer.grid, b),
        "stepped": lambda b: scope["program"].interpret(*b, dim=writer.grid),
        "cpu": lambda b: run_cpu(prepared, writer.grid, b, width=8),
    }
    for name, run in runs.items():
        got = writer.arguments(seed)
        run(got)
        for a, b in zip(expected, got, strict=True):
            assert np.array_equal(a, b, equal_nan=True), f"{name}: {a}\n{b}\n{source}"


def test_the_generator_reaches_the_language():
    sources = "".join(Writer(RandomPick(seed)).program() for seed in range(200))
    types = [f"wp.array[wp.{t.name}]" for t in NUMBERS]
    statements = [
        "break",
        "continue",
        "elif",
        "while",
        "own[",
        "row = ",
        "pair.first",
        "wp.atomic_exch(",
        "    return ",
    ]
    operators = [
        "<<",
        ">>",
        "//",
        "%",
        "~(",
        "wp.popcount(",
        "wp.clamp(",
        " if ",
        "return",
        "nested(",
        "moved(",
        "i, j = ",
    ]
    for needed in (*types, *statements, *operators):
        assert needed in sources
