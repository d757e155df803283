"""Control flow of the kernel language, one construct at a time (random combinations: test_language_programs.py)."""

# ruff: noqa: RET505, SIM108  (kernels are written for their own sake)

from __future__ import annotations

import numpy as np
import pytest
from language import define, outputs, run

import jaxwarp as wp
from jaxwarp.ir.nodes import For, If, While, walk


def kinds(kernel: wp.Kernel) -> list[str]:
    """The control flow of a kernel's IR."""
    return [type(op).__name__ for op in walk(kernel.specialize().body) if isinstance(op, (If, For, While))]


@wp.kernel
def early_return(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    if i >= len(a):
        return
    x = a[i]
    if x < 0.0:
        out[i] = -1.0
        return
    elif x == 0.0:
        return
    out[i] = x * 2.0


def test_early_return_is_the_other_branch():
    np.testing.assert_array_equal(outputs(early_return, 6, [1, -2, 0, 3], np.zeros(6)), [2, -1, 0, 6, 0, 0])
    assert kinds(early_return) == ["If", "If", "If"]


@wp.kernel
def ranges(n: int, s: int, out: wp.array[int]):
    total = 0
    for k in range(n):
        total += k
    out[0] = total
    total = 0
    for k in range(2, n):
        total = total * 10 + k
    out[1] = total
    total = 0
    for k in range(n, -1, -2):
        total = total * 10 + k
    out[2] = total
    total = 0
    for k in range(0, n * s, s):
        total = total * 100 + k * k
    out[3] = total
    for k in range(10):
        out[4] = k


@pytest.mark.parametrize(("n", "s"), [(5, 1), (4, 3), (4, -2), (0, 1), (-3, 2)])
def test_ranges(n, s):
    def digits(iterations, base, f=lambda k: k):
        total = 0
        for k in iterations:
            total = total * base + f(k)
        return total

    expected = [sum(range(n)), digits(range(2, n), 10), digits(range(n, -1, -2), 10)]
    expected += [digits(range(0, n * s, s), 100, lambda k: k * k), 9]
    np.testing.assert_array_equal(outputs(ranges, 1, n, s, np.zeros(5)), expected)


def test_a_step_of_zero_runs_no_iteration():
    source = """
@wp.kernel
def k(step: int, out: wp.array[int]):
    for i in range(0, 5, step):
        out[0] += 1
    for i in range(0, 5, step):
        if i == 100:
            break
        out[1] += 1
"""
    np.testing.assert_array_equal(outputs(define(source)["k"], 1, 0, np.zeros(2)), [0, 0])


def test_a_loop_near_the_ends_of_its_type_ends():
    source = """
@wp.kernel
def k(start: int, stop: int, step: int, out: wp.array[int]):
    for i in range(start, stop, step):
        if out[0] == 10:
            break
        out[0] += 1
"""
    kernel, high = define(source)["k"], 2**31 - 1
    for bounds in ((high - 5, high, 3), (-high, high, 2**30), (high, -high, -(2**30)), (-high, high, high)):
        assert outputs(kernel, 1, *bounds, np.zeros(1))[0] == len(range(*bounds))


@wp.kernel
def unrolled(v: wp.array[wp.vec3], out: wp.array2d[float]):
    i = wp.tid()
    for k in range(3):
        for j in range(wp.static(2 * 2 - 1)):
            if k == j:
                out[i, k] = v[i][k] * wp.static(10.0 ** (k + 1))
            elif k + 1 == j:
                out[i, 3] = out[i, 3] + v[i][k + 1]


def test_short_loops_are_unrolled_and_their_variables_constants():
    out = outputs(unrolled, 2, [[1, 2, 3], [4, 5, 6]], np.zeros((2, 4)))
    np.testing.assert_array_equal(out, [[10, 200, 3000, 5], [40, 500, 6000, 11]])
    assert kinds(unrolled) == []


def test_max_unroll():
    source = """
@wp.kernel(module_options={"max_unroll": 20})
def wide(out: wp.array[int]):
    for k in range(20):
        out[k] = wp.static(k * k)

@wp.kernel
def narrow(out: wp.array[int]):
    for k in range(17):
        out[k] = k * k
"""
    scope = define(source)
    np.testing.assert_array_equal(outputs(scope["wide"], 1, np.zeros(20)), np.arange(20) ** 2)
    assert kinds(scope["narrow"]) == ["For"]


@wp.kernel
def collatz(a: wp.array[int], steps: wp.array[int]):
    i = wp.tid()
    n = a[i]
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
        if count >= 100:
            break
    steps[i] = count


def test_while_with_break():
    np.testing.assert_array_equal(outputs(collatz, 4, [1, 6, 27, 7], np.zeros(4)), [0, 8, 100, 16])


@wp.kernel
def first_match(table: wp.array2d[int], wanted: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    out[i] = -1
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            if table[row, column] < 0:
                continue
            if table[row, column] == wanted[i]:
                out[i] = row * 10 + column
                return
        if table[row, 0] == 99:
            break


def test_return_and_break_out_of_nested_loops():
    table = [[1, -5, 2], [99, 4, 5], [6, 7, 8]]
    np.testing.assert_array_equal(outputs(first_match, 4, table, [4, -5, 7, 2], np.zeros(4)), [11, -1, -1, 2])


@wp.kernel
def carried_bundle(n: int, out: wp.array[wp.vec2]):
    a, b = wp.vec2(1.0, 0.0), wp.vec2(0.0, 1.0)
    for k in range(n):
        a, b = b, a + b
        if k == 3:
            a.x = 100.0
    out[0] = a
    out[1] = b


def test_vectors_are_carried_through_loops():
    a, b = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    for k in range(6):
        a, b = b, a + b
        if k == 3:
            a[0] = 100
    np.testing.assert_array_equal(outputs(carried_bundle, 1, 6, np.zeros((2, 2))), [a, b])


@wp.kernel
def conditions(a: wp.array[int], out: wp.array2d[int]):
    i = wp.tid()
    n = len(a)
    if i + 1 < n and a[i + 1] > a[i]:
        out[i, 0] = 1
    if i + 1 >= n or a[i + 1] < a[i]:
        out[i, 1] = 1
    if 0 < a[i] < 5 <= n:
        out[i, 2] = 1
    if not a[i]:
        out[i, 3] = 1
    x = 7 if i == 0 else (a[i - 1] if a[i] != 2 else -1)
    out[i, 4] = x
    if a[i] and (i & 1) == 0:
        out[i, 5] = 1


def test_conditions_do_not_evaluate_what_they_need_not():
    # The interpreter raises for an index outside of its array, so a[n] or a[-1] would be noticed.
    a = np.array([3, 5, 2, 0, 1], np.int32)
    out = outputs(conditions, 5, a, np.zeros((5, 6)))
    expected = [
        [1, 0, 1, 0, 7, 1],
        [0, 1, 0, 0, 3, 0],
        [0, 1, 1, 0, -1, 1],
        [1, 0, 0, 1, 2, 0],
        [0, 1, 1, 0, 0, 1],
    ]
    np.testing.assert_array_equal(out, expected)


@wp.kernel
def chain_once(counter: wp.array[int], out: wp.array[bool]):
    out[0] = -1 < wp.atomic_add(counter, 0, 1) < 5


def test_a_chained_comparison_evaluates_its_middle_once():
    counter, out = run(chain_once, 1, [0], [False])
    assert (counter[0], out[0]) == (1, True)


@wp.kernel
def constant_condition(out: wp.array[float]):
    if wp.static(len("abc") == 3):
        x = 1.0
    else:
        x = wp.vec3(1.0)[7]  # not lowered: this branch is never taken
    out[0] = x if True else "never"


def test_an_ellipsis_is_a_statement_that_does_nothing():
    @wp.kernel
    def k(y: wp.array[float]):
        if y[0] > 0.0:
            ...
        y[0] = 2.0

    assert outputs(k, 1, [1.0]).tolist() == [2.0]


def test_a_constant_condition_lowers_only_the_branch_taken():
    assert outputs(constant_condition, 1, np.zeros(1))[0] == 1.0
    assert kinds(constant_condition) == []


@wp.kernel
def loop_variable_afterwards(n: int, out: wp.array[int]):
    k = -1
    for k in range(n):  # noqa: B007
        pass
    out[0] = k
    for j in range(4):  # noqa: B007
        pass
    out[1] = j


def test_the_loop_variable_keeps_its_last_value():
    np.testing.assert_array_equal(outputs(loop_variable_afterwards, 1, 5, np.zeros(2)), [4, 3])
    np.testing.assert_array_equal(outputs(loop_variable_afterwards, 1, 0, np.zeros(2)), [-1, 3])


def test_a_variable_that_all_going_paths_define_is_defined():
    source = """
@wp.kernel
def k(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    if a[i] > 0:
        if a[i] > 5:
            return
        y = 1
    elif a[i] < 0:
        y = 2
    else:
        return
    out[i] = y
"""
    np.testing.assert_array_equal(outputs(define(source)["k"], 4, [3, 9, -1, 0], np.zeros(4)), [1, 0, 2, 0])


def test_names_of_one_type_per_place():
    source = """
@wp.kernel
def k(out: wp.array[float]):
    i = wp.tid()
    x = i + 1
    x = float(x) * 0.5
    out[i] = x
"""
    np.testing.assert_array_equal(outputs(define(source)["k"], 2, np.zeros(2)), [0.5, 1.0])


@wp.func
def chosen(x: int, is_plain: bool = False):
    total = 0
    for k in range(4):
        if is_plain:
            found = k
        else:
            if x == k:
                return total
            continue
        if k == 2:
            if is_plain:
                if x == 5:
                    break
                return total + k
            part = k
        else:
            part = 10 * k
        total += found + part
    return total + 100


@wp.kernel
def chooses_before_it_runs(out: wp.array2d[int]):
    i = wp.tid()
    out[i, 0] = chosen(i)
    out[i, 1] = chosen(i, True)


def test_nothing_comes_after_a_known_side_that_is_left_on_every_path():
    """What the other side sets is not needed then."""
    expected = [[0 if i < 4 else 100, 13 if i < 5 else 111] for i in range(6)]
    np.testing.assert_array_equal(outputs(chooses_before_it_runs, 6, np.zeros((6, 2), np.int32)), expected)


@wp.func
def last_of(n: int):
    while True:
        found = n
        if n > 20:
            break
        n = 2 * n + 1
    for k in range(20):
        last = k * found
    return last + k


@wp.kernel
def calls_loops_that_set_first(out: wp.array[int]):
    i = wp.tid()
    out[i] = last_of(i)


def test_functions_whose_loops_set_variables_first():
    """In a kernel that is stepped through as well."""
    expected = [last_of(i) for i in range(6)]
    np.testing.assert_array_equal(outputs(calls_loops_that_set_first, 6, np.zeros(6, np.int32)), expected)


@wp.func
def collatz_steps(n: int) -> int:
    steps = 0
    while True:
        if n == 1:
            return steps
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1


@wp.func
def root_above(n: int) -> int:
    while True:
        k = 0
        while True:
            if k * k >= n:
                return k
            if k > 3:
                break
            k += 1
        n -= 7


@wp.kernel
def endless_but_for_returns(x: wp.array[int], out: wp.array2d[int]):
    i = wp.tid()
    out[i, 0] = collatz_steps(x[i])
    out[i, 1] = root_above(x[i])
    while True:
        if out[i, 2] * out[i, 2] > x[i]:
            return
        out[i, 2] = out[i, 2] + 1


def test_a_loop_that_only_returns_end_needs_no_return_after_it():
    x = np.arange(1, 20)
    got = outputs(endless_but_for_returns, len(x), x, np.zeros((len(x), 3)))
    functions = {f.name: f.overloads[0].source.function for f in (collatz_steps, root_above)}
    assert got[:, 0].tolist() == [functions["collatz_steps"](int(n)) for n in x]
    assert got[:, 1].tolist() == [functions["root_above"](int(n)) for n in x]
    assert got[:, 2].tolist() == [int(np.sqrt(n)) + 1 for n in x]
