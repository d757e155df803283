"""Faults that random kernels found, each with the smallest kernel that shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cpukit import Make
from hostcuda import run_host
from kernels_strategy import same_values

from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.nodes import Kernel
from jaxwarp.passes import prepare
from jaxwarp.types import bool_, int8, int32, int64, uint16

BACKENDS: dict[str, Callable[..., Any]] = {
    "interpreter": interpret,
    "cpu, 1": lambda *launch: run_cpu(*launch, width=1),
    "cpu, 8": lambda *launch: run_cpu(*launch, width=8),
    "cuda": run_host,
}


def check(kernel: Kernel, grid: Sequence[int], *buffers: np.ndarray) -> list[np.ndarray]:
    """Prepared or not, and on each backend, a kernel does what the interpreter says; returns that."""
    expected = [b.copy() for b in buffers]
    interpret(kernel, grid, expected)
    for name, run in BACKENDS.items():
        got = [b.copy() for b in buffers]
        run(prepare(kernel), grid, got)
        for param, a, b in zip(kernel.params, expected, got, strict=True):
            assert same_values(a, b), f"{name}: {param.name}:\n{a}\n{b}"
    return expected


@pytest.mark.parametrize(("wide", "narrow"), [(int32, int8), (int64, int32), (uint16, int8)])
def test_a_cast_down_and_up_again_is_not_dropped(wide, narrow):
    make = Make()
    x, y = make.array(None, dtype=wide), make.array(None, dtype=wide)
    i = make.tid(0)
    make.store(y, [i], make.cast(make.cast(make.load(x, [i]), narrow), wide))
    values = np.array([1, 127, 128, 200, 255, 256, 300], wide.numpy)
    _, got = check(make.kernel(), (7,), values, np.zeros(7, wide.numpy))
    np.testing.assert_array_equal(got, values.astype(narrow.numpy).astype(wide.numpy))


def test_a_constant_that_names_a_loops_step_is_used_after_the_loop():
    """The CUDA text used the inner block's local outside it."""
    make = Make()
    x, y = make.array(dtype=bool_), make.array(None, 2, dtype=uint16)
    i, zero, one = make.tid(0), make.i(0), make.i(1)
    start, stop, step = (make.i(n, uint16) for n in (0, 3, 1))

    def loop() -> tuple[()]:
        make.for_(start, stop, step, [], lambda k: (make.store(y, [i, zero], k), ())[1])
        return ()

    make.if_(make.load(x, []), loop)
    make.store(y, [i, one], step)
    _, got = check(make.kernel(), (2,), np.array(True), np.zeros((2, 2), np.uint16))
    assert got.tolist() == [[2, 1], [2, 1]]
