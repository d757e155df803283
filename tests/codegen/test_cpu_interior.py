"""CPU code: the version for chunks inside the domain, and the other one at its edges, against the interpreter."""

import numpy as np
import pytest
from cpukit import WIDTHS, Make, check, floats

from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import int32

EXTENTS = (1, 2, 7, 8, 9, 31, 64, 100)


def inside(code):
    """The text of the version for the interior."""
    return code.text.split("inside:")[1].split("rest:")[0]


def neighbours(m, wrap):
    """out[i, j] = u[i, wrap(j, 1)] - u[i, wrap(j, -1)] + u[wrap(i, 1), j]"""
    u, out = m.array(None, None), m.array(None, None)
    i, j = m.tid(0), m.tid(1)
    rows, columns = m.size(u, 0), m.size(u, 1)
    total = m.op("sub", m.load(u, [i, wrap(m, j, 1, columns)]), m.load(u, [i, wrap(m, j, -1, columns)]))
    m.store(out, [i, j], m.op("add", total, m.load(u, [wrap(m, i, 1, rows), j])))
    return m.kernel(2)


def modulo(m, i, step, n):
    """(i + step + n) % n"""
    return m.op("mod", m.op("add", m.op("add", i, m.i(step)), n), n)


def clamp(m, i, step, n):
    """min(max(i + step, 0), n - 1)"""
    return m.op("min", m.op("max", m.op("add", i, m.i(step)), m.i(0)), m.op("sub", n, m.i(1)))


def conditional(m, i, step, n):
    """i + step if that is in range, else the other end; by comparison of different kinds"""
    moved = m.op("add", i, m.i(step))
    if step > 0:
        return m.op("select", m.op("lt", moved, n), moved, m.i(0))
    return m.op("select", m.op("eq", i, m.i(0)), m.op("sub", n, m.i(1)), moved)


def branching(m, i, step, n):
    """The same with a branch."""
    moved = m.op("add", i, m.i(step))
    outside = m.op("ge", moved, n) if step > 0 else m.op("lt", moved, m.i(0))
    (index,) = m.if_(outside, lambda: (m.op("sub", n, m.i(1)) if step < 0 else m.i(0),), lambda: (moved,))
    return index


@pytest.mark.parametrize("wrap", [modulo, clamp, conditional, branching])
def test_wraps_become_vector_loads(wrap):
    kernel = neighbours(Make(), wrap)
    for columns in EXTENTS:
        check(kernel, (3, columns), [floats(3, columns), np.zeros((3, columns), np.float32)])
    tiles = [(0, 1, 0, 64), (0, 1, 64, 100), (1, 3, 64, 100), (1, 3, 0, 64)]
    check(kernel, (3, 100), [floats(3, 100), np.zeros((3, 100), np.float32)], WIDTHS, tiles)
    fast = inside(compile_cpu(prepare(kernel), 16))
    assert "gather" not in fast
    assert fast.count("load <16 x float>") == 3


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("swapped", [False, True])
def test_tests_of_the_thread_index(name, swapped):
    """Each comparison, with thresholds of the launch around every lane."""
    m = Make()
    threshold, x, out = m.array(dtype=int32), m.array(None), m.array(None)
    i = m.tid(0)
    sides = [i, m.load(threshold, [])]
    value = m.load(x, [i])

    def then():
        m.store(x, [i], m.op("neg", value))
        return (m.op("mul", value, m.f(2.0)),)

    (result,) = m.if_(m.op(name, *(sides[::-1] if swapped else sides)), then, lambda: (value,))
    m.store(out, [i], result)
    for at in (-5, 0, 1, 7, 8, 15, 16, 30, 63, 64, 99, 200):
        check(m.kernel(), (100,), [np.full((), at, np.int32), floats(100), floats(100)], (8, 16))
    assert "masked" not in inside(compile_cpu(prepare(m.kernel()), 16))


def test_early_return_leaves_no_mask_inside():
    m = Make()
    x = m.array(None)
    i = m.tid(0)
    past = m.op("ge", i, m.size(x, 0))
    m.if_(m.op("logical_not", past), lambda: (m.store(x, [i], m.op("add", m.load(x, [i]), m.f(1.0))), ())[1])
    assert "masked" not in inside(compile_cpu(prepare(m.kernel()), 16))
    for n in EXTENTS:
        check(m.kernel(), (n + 33,), [floats(n)])


def test_rows_and_columns_of_a_flat_index():
    """i // n and i % n of a one-dimensional launch, n known at run time, at its extremes and zero."""
    m = Make()
    width, table, out = m.array(dtype=int32), m.array(None, None), m.array(None)
    i, n = m.tid(0), m.load(width, [])
    m.store(out, [i], m.load(table, [m.op("div", i, n), m.op("mod", i, n)]))
    for columns in (1, 3, 16, 50, 120):
        rows = -(-120 // columns)
        check(m.kernel(), (120,), [np.full((), columns, np.int32), floats(rows, columns), np.zeros(120, "f")])
    quotients = Make()
    width, out = quotients.array(dtype=int32), quotients.array(None, 2, dtype=int32)
    i, n = quotients.tid(0), quotients.load(width, [])
    quotients.store(out, [i, quotients.i(0)], quotients.op("div", i, n))
    quotients.store(out, [i, quotients.i(1)], quotients.op("mod", i, n))
    for divisor in (0, -1, -7, 2**31 - 1, -(2**31)):
        check(quotients.kernel(), (70,), [np.full((), divisor, np.int32), np.zeros((70, 2), np.int32)])


def test_index_that_wraps_around_32_bits():
    """Thresholds near the ends of the type: the first and the last lane may agree while those between do not."""
    m = Make()
    offset, out = m.array(dtype=int32), m.array(None, 4, dtype=int32)
    i, shift = m.tid(0), m.load(offset, [])
    moved = m.op("add", i, shift)
    results = [
        m.op("select", m.op("lt", moved, m.i(5)), m.i(1), m.i(2)),
        m.op("mod", moved, m.i(1000)),
        m.op("min", moved, m.i(3)),
        m.op("max", m.op("mul", moved, m.i(1 << 20)), shift),
    ]
    for component, value in enumerate(results):
        m.store(out, [i, m.i(component)], value)
    for at in (2**31 - 1, 2**31 - 9, 2**31 - 40, -(2**31), -20, 0):
        check(m.kernel(), (64,), [np.full((), at, np.int32), np.zeros((64, 4), np.int32)])


def test_parameter_that_the_kernel_changes_is_not_read_early():
    """A threshold that the same thread writes before it compares."""
    m = Make()
    threshold, out = m.array(dtype=int32), m.array(None, dtype=int32)
    i = m.tid(0)
    m.store(threshold, [], m.i(50))
    m.store(out, [i], m.op("select", m.op("lt", i, m.load(threshold, [])), m.i(1), m.i(2)))
    assert "inside:" not in compile_cpu(m.kernel(), 8).text
    check(m.kernel(), (100,), [np.zeros((), np.int32), np.zeros(100, np.int32)])
