"""Random programs in which what variables are at first decides later: kernels do what Python does with the text."""

from __future__ import annotations

import flow_programs
import numpy as np
import pytest
from flow_programs import THREADS, Writer
from kernels_strategy import RandomPick
from language import define

from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare


@pytest.mark.parametrize("seed", range(20))
def test_program_does_what_python_does(seed):
    program, expected = flow_programs.written(RandomPick(seed))
    source = flow_programs.of_kernel(program)
    function = define(source)["program"]
    kernel = verify(function.specialize())
    prepared = verify(prepare(kernel))
    runs = {
        "interpreter": lambda b: interpret(kernel, (THREADS,), b),
        "prepared": lambda b: interpret(prepared, (THREADS,), b),
        "stepped": lambda b: function.interpret(*b, dim=THREADS),
        "cpu": lambda b: run_cpu(prepared, (THREADS,), b, width=8),
    }
    for name, run in runs.items():
        got = flow_programs.arguments()
        run(got)
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{name}\n{source}")


def test_the_generator_reaches_the_language():
    programs = "".join(Writer(RandomPick(seed)).program() for seed in range(60))
    needed = ["while True:", "break", "continue", "return 0", "enumerate(", "reversed(", "range(20)", ",):"]
    needed += [" and ", " or ", "(not ", " if ", "&r1: wp.ref[int]", "u0: Any", "k: int = 2", "k=", "b="]
    needed += [".n &= ", ".v.x = ", "s.v[", "own = wp.zeros(4", "own: wp.array[int]", "-1 - ("]
    needed += ["0, -2)", "S(1, 2.0)", "r1 += 1", "r1 ^= f"]
    assert [text for text in needed if text not in programs] == []
