"""Elements that are a thread's own by what an index is for every thread, or since the thread stores to all it reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivativekit import Case, check_adjoint, check_adjoint_of_tangent, check_tangent
from overwrites import some

import jaxwarp as wp
from jaxwarp.errors import DifferentiationError
from jaxwarp.types import float64 as F
from jaxwarp.vjp.reverse.adjoint import adjoint

OFFSETS = np.array([0, 4, 5, 9], np.int32)


@wp.kernel
def permuted(x: wp.array[F], a: wp.array[F]):
    i = wp.tid()
    j = (7 * i) % 5
    for _ in range(20):
        a[j] = wp.sin(a[j]) * x[i] + F(0.3) * a[j]


@wp.kernel
def butterfly(x: wp.array[F], a: wp.array[F]):
    """Two elements of a thread; at other indices than theirs there are those of others."""
    i = wp.tid()
    j = (i // 2) * 4 + (i & 1)
    b = x[i] * a[j + 2]
    a[j + 2] = a[j] * a[j] - b
    a[j] = a[j] + b


@wp.kernel
def swizzled(x: wp.array2d[F], a: wp.array2d[F]):
    i, k = wp.tid()
    for _ in range(2):
        a[k ^ 1, i] = wp.tanh(a[k ^ 1, i]) * x[i, k]


@wp.kernel
def recurrence(x: wp.array[F], offsets: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    s = offsets[i]
    y[s] = x[s]
    for k in range(offsets[i + 1] - s - 1):
        y[s + k + 1] = wp.sin(y[s + k]) * x[s + k + 1]


@wp.kernel
def backward(x: wp.array[F], offsets: wp.array[int], y: wp.array[F]):
    """By absolute places, two iterations ago, what starts it stored afterwards as well as before."""
    i = wp.tid()
    last = offsets[i + 1] - 1
    y[last] = x[last]
    y[last - 1] = x[last] * x[last]
    for k in range(last - 2, offsets[i] - 1, -1):
        y[k] = wp.sin(y[k + 2]) * x[k] + y[k + 1] * y[k + 1]


@wp.kernel
def counted(x: wp.array[F], offsets: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    k = offsets[i]
    y[k] = x[k]
    while k < offsets[i + 1] - 1:
        y[k + 1] = wp.sin(y[k]) * x[k + 1]
        k += 1


@wp.kernel
def later_loop(x: wp.array[F], offsets: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    total = F(0.0)
    for k in range(offsets[i], offsets[i + 1]):
        y[k] = wp.exp(x[k])
    for k in range(offsets[i], offsets[i + 1] - 1):
        total += y[k + 1] * y[k]
    y[offsets[i]] = total


@wp.kernel
def meets(x: wp.array[F], a: wp.array[F]):
    i = wp.tid()
    j = (7 * i) % 4
    a[j] = a[j] * x[i]


@wp.kernel
def meets_beside(x: wp.array[F], a: wp.array[F]):
    i = wp.tid()
    j = (7 * i) % 5
    a[j] = a[j + 1] * x[i]


@wp.kernel
def not_started(x: wp.array[F], offsets: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    s = offsets[i]
    for k in range(offsets[i + 1] - s - 1):
        y[s + k + 1] = wp.sin(y[s + k]) * x[s + k + 1]


@wp.kernel
def half_started(x: wp.array[F], offsets: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    s = offsets[i]
    y[s + 1] = x[s]
    for k in range(2, offsets[i + 1] - s):
        y[s + k] = wp.sin(y[s + k - 2]) * y[s + k - 1]


@wp.kernel
def perhaps_stored(x: wp.array[F], offsets: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    s = offsets[i]
    y[s] = x[s]
    for k in range(offsets[i + 1] - s - 1):
        if x[s + k] > F(0.5):
            y[s + k + 1] = wp.sin(y[s + k]) * x[s + k + 1]


@wp.kernel
def started_elsewhere(x: wp.array[F], offsets: wp.array[int], y: wp.array[F]):
    """Only where there is a first one."""
    i = wp.tid()
    s = offsets[i]
    if x[s] > F(0.5):
        y[s] = x[s]
    for k in range(offsets[i + 1] - s - 1):
        y[s + k + 1] = wp.sin(y[s + k]) * x[s + k + 1]


@wp.kernel
def too_far(x: wp.array[F], offsets: wp.array[int], y: wp.array[F]):
    """The second loop reads one element more."""
    i = wp.tid()
    for k in range(offsets[i], offsets[i + 1]):
        y[k] = wp.exp(x[k])
    for k in range(offsets[i], offsets[i + 1]):
        x[k] = x[k] * y[k + 1]


@wp.kernel
def another_row(x: wp.array[F], offsets: wp.array[int], y: wp.array[F]):
    """The place changes in the loop that stores."""
    i = wp.tid()
    s = offsets[i]
    y[s] = x[s]
    for k in range(2):
        s = offsets[i] + 2 * k
        y[s + 1] = y[s] * x[s]
        for j in range(offsets[i + 1] - s):
            y[s + 1] = y[s + j] * x[s]


def case_of(kernel: Any, threads: int = 5) -> Case:
    ir = kernel.ir()
    if kernel is swizzled:
        return Case(kernel.name, ir, (3, 4), [some(3, 4), some(4, 3, seed=2)], (0, 1), (1,))
    buffers = {"x": some(10), "a": some(10, seed=2), "offsets": OFFSETS, "y": some(11, seed=3)}
    names = [p.name for p in ir.params]
    grid = (len(OFFSETS) - 1,) if "offsets" in names else (threads,)
    written = tuple(n for n, name in enumerate(names) if name in ("a", "y") or (kernel is too_far and name == "x"))
    return Case(kernel.name, ir, grid, [buffers[n] for n in names], (0, *written), written)


@pytest.mark.parametrize("kernel", [permuted, butterfly, swizzled, recurrence, backward, counted, later_loop])
def test_own_elements(kernel):
    case = case_of(kernel, 4 if kernel is butterfly else 5)
    if kernel is backward:
        case.buffers[1] = np.array([0, 4, 6, 9], np.int32)
    check_tangent(case)
    check_adjoint_of_tangent(case, with_grid=True, as_written=True)


REFUSED = [meets, meets_beside, not_started, half_started, perhaps_stored, started_elsewhere, too_far, another_row]


@pytest.mark.parametrize("kernel", REFUSED)
def test_what_may_be_of_others_is_refused(kernel):
    with pytest.raises(DifferentiationError, match="a thread may read what another one writes") as error:
        check_adjoint_of_tangent(case_of(kernel))
    assert "test_own_elements.py:" in str(error.value)
    found_in_data = kernel not in (meets, meets_beside)
    assert ("let the thread itself store to every element of y that it reads" in str(error.value)) is found_in_data


def test_more_threads_than_are_looked_at():
    """A launch of unknown or many threads is refused, as it was."""
    grids: list[tuple[int | None, ...]] = [(None,), (100_000,)]
    for grid in grids:
        with pytest.raises(DifferentiationError, match="a thread may read"):
            adjoint(permuted.ir(), (0,), grid)


@wp.kernel
def sorted_pair(x: wp.array[F], a: wp.array[F]):
    i = wp.tid()
    low = x[i]
    high = a[i]
    if low > high:
        kept = low
        low = high
        high = kept
    a[i] = low * low + F(3.0) * high


@wp.kernel
def median(x: wp.array2d[F], a: wp.array[F]):
    i = wp.tid()
    v = wp.zeros(5, dtype=F)
    for k in range(5):
        v[k] = x[i, k]
    for _ in range(4):
        for k in range(4):
            if v[k] > v[k + 1]:
                kept = v[k]
                v[k] = v[k + 1]
                v[k + 1] = kept
    a[i] = v[2] * v[2] + v[0]


@pytest.mark.parametrize("kernel", [sorted_pair, median])
def test_a_branch_that_only_changes_places(kernel):
    """Its reverse has no operations, and was left out with the cotangents that it sent elsewhere: they were zero."""
    x = some(6) if kernel is sorted_pair else some(6, 5)
    case = Case(kernel.name, kernel.ir(), (6,), [x, some(6, seed=2)], (0,), (1,))
    check_tangent(case)
    check_adjoint(case)
    check_adjoint_of_tangent(case)
