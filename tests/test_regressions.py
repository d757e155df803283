"""Faults that random kernels found, each with the smallest kernel that shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import derivativekit
import numpy as np
import pytest
from cpukit import Make
from hostcuda import run_host
from kernels_strategy import same_values

import jaxwarp as wp
from jaxwarp.analysis.integers import ranges
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.errors import KernelTypeError
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import prepare
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


@wp.kernel
def replaced(count: wp.array[int], a: wp.array2d[int], b: wp.array[int]):
    """What an iteration has read is carried, and overwritten: adjacent elements, and such with gaps."""
    i = wp.tid()
    v = 1
    w = 2
    k = 0
    while k < count[i]:
        h = a[0, i]
        a[0, i] = v + k
        v = h
        g = a[1, 2 * i]
        a[1, 2 * i] = w + k
        w = g
        k += 1
    b[i] = 100 * v + w


@pytest.mark.parametrize("threads", [1, 3, 8, 21])
def test_what_some_lanes_load_is_not_loaded_after_a_later_store(threads):
    """LLVM joined the masked load with the choice of what is carried, behind the store."""
    a = np.arange(10, 10 + 4 * threads, dtype=np.int32).reshape(2, 2 * threads)
    count = np.resize([0, 1, 2, 5], threads).astype(np.int32)
    _, after, _ = check(replaced.ir(), (threads,), count, a, np.zeros(threads, np.int32))
    assert threads < 3 or after[0, 1] == 1


@wp.kernel
def places_changed(where: wp.array[int], a: wp.array[wp.float64], out: wp.array2d[wp.float64]):
    i = wp.tid()
    own = wp.zeros(3, dtype=wp.float64)
    own[0] = a[i]
    own[2] = a[i + 1]
    for k in range(2):
        h = own[where[0]]
        own[where[0]] = own[k]
        own[k] = h
    for k in range(3):
        out[i, k] = own[k]


@pytest.mark.parametrize("threads", [1, 8, 13])
def test_elements_of_a_threads_own_array_change_places(threads):
    """The same, where a store to a thread's own array is a choice between the new value and the old one."""
    a = np.linspace(1.0, 2.0, threads + 1)
    *_, out = check(places_changed.ir(), (threads,), np.array([2], np.int32), a, np.zeros((threads, 3)))
    np.testing.assert_array_equal(out, np.stack([a[1:], a[:-1], 0 * a[1:]], 1))


@wp.kernel
def zero_minus(x: wp.array[float]):
    i = wp.tid()
    x[i] = 0.0 - float(i)


def test_zero_minus_an_integer_is_no_negative_zero():
    """GCC, by which the tests run CUDA text, made it a negation."""
    (x,) = check(zero_minus.ir(), (3,), np.ones(3, np.float32))
    assert not np.signbit(x[0])


@wp.kernel
def stores_a_vector(x: wp.array[float]):
    x[wp.tid()] = wp.vec3(1.0)


def test_a_vector_for_a_number_is_not_to_be_converted():
    """float32(vector) is refused, too."""
    with pytest.raises(KernelTypeError, match="x holds float32") as error:
        stores_a_vector.ir()
    assert error.value.hint == "store one of its components"


@wp.kernel
def counted(x: wp.array[wp.float64], count: wp.array[int], y: wp.array[wp.float64]):
    i = wp.tid()
    if x[0] < -0.3:
        count[i] = i % 4
    else:
        s = x[i]
        for _ in range(count[i]):
            s = wp.sin(s * x[i])
        y[i] = s


def test_second_derivatives_where_the_first_reads_final_integers():
    """The checks asked for the tangents of integers, which there are none of."""
    buffers = [np.array([0.5, 0.7, 0.9]), np.array([1, 2, 3], np.int32), np.zeros(3)]
    case = derivativekit.Case("counted", counted.ir(), (3,), buffers, (0,), (2,))
    first = derivativekit.adjoint_of(case.kernel, case.wanted, case.grid)
    assert ("final", 1) in [(s.kind, s.index) for s in first.slots]
    derivativekit.check_adjoint(case)
    derivativekit.check_tangent_of_adjoint(case)


@wp.kernel
def component_known_later(n: int, out: wp.array[wp.vec2]):
    i = wp.tid()
    out[i][0] = 1.0
    j = (n + 1) % 2
    out[i][j] = 2.0


def test_a_component_that_is_computed_between_two_stores():
    out = wp.zeros(40, dtype=wp.vec2)
    for n, expected in ((0, [1.0, 2.0]), (1, [2.0, 2.0])):
        wp.launch(component_known_later, 40, [n, out])
        np.testing.assert_array_equal(out.numpy(), [expected] * 40)


@pytest.mark.parametrize(("name", "by"), [("shr", (6, -1)), ("div", (6, 0)), ("floordiv", (6, 0)), ("mod", (6, 0))])
def test_the_range_of_what_is_never_reached_is_asked_for(name, by):
    """Its end is before its begin, and so is that of the result."""
    least, most = ranges.range_of(name, [(0, 8), by]) or (0, 0)
    assert least > most


@wp.kernel
def condition_twice(d: wp.array[int], a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    n, x = d[i], a[i]
    if (n > 0 and x > 0) and (n > 0 and x < 5):
        out[i] += 100
    out[i] += 1 if n > 0 else n % 7 + 10


@wp.kernel
def condition_and_its_negation(d: wp.array[int], a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    t = d[i] > a[i]
    if t and not t:  # noqa: SIM220 - what is tested
        out[i] = -5
    out[i] += 2 if t else d[i] % 7


def test_a_condition_that_is_there_twice_is_not_known_after_the_branch():
    d, a = np.array([-3, 4, 5, 0]), np.array([1, 2, 9, 3])
    for kernel, expected in ((condition_twice, [7, 101, 1, 10]), (condition_and_its_negation, [-3, 2, 5, 0])):
        out = wp.zeros(4, dtype=int)
        wp.launch(kernel, 4, [wp.array(d, dtype=int), wp.array(a, dtype=int), out])
        assert out.list() == expected
