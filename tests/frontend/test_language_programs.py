"""Random control flow: what Python does with the same text, the lowered kernel must do."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from language import define, run_python
from programs import programs

from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import prepare

THREADS = 8


# Programs are short enough to read as they come; shrinking one takes minutes.
@settings(phases=[Phase.reuse, Phase.generate], suppress_health_check=list(HealthCheck))
@given(programs())
def test_program_does_what_python_does(source):
    scope = define(source)
    a = np.arange(3, 3 + THREADS, dtype=np.int32) * 7 % 11
    expected = np.zeros((THREADS, 6), np.int32)
    run_python(scope, "program", THREADS, [int(v) for v in a], expected)
    kernel = scope["program"].specialize()
    got = np.zeros_like(expected)
    interpret(kernel, (THREADS,), [a.copy(), got])
    np.testing.assert_array_equal(got, expected, err_msg=source)
    stepped = np.zeros_like(expected)
    scope["program"].interpret(a.copy(), stepped, threads=list(range(THREADS)))
    np.testing.assert_array_equal(stepped, expected, err_msg=source)
    vectorised = np.zeros_like(expected)
    run_cpu(prepare(kernel), (THREADS,), [a.copy(), vectorised], width=8)
    np.testing.assert_array_equal(vectorised, expected, err_msg=source)
