"""Loads that every iteration of a loop does alike: their cotangents are summed, and added once."""

import numpy as np
import pytest
from derivativekit import Case, check_adjoint, check_adjoint_of_tangent, check_tangent, check_tangent_of_adjoint
from overwrites import some

import jaxwarp as wp
from jaxwarp.ir.nodes import Atomic, For, If, walk
from jaxwarp.types import float64 as F
from jaxwarp.vjp.reverse.adjoint import adjoint


@wp.kernel
def pairs(x: wp.array[F], n: int, y: wp.array[F]):
    i = wp.tid()
    s = F(0.0)
    for j in range(n):
        s += wp.sin(x[i] - x[j]) * x[i]
    y[i] = s


@wp.kernel
def with_step(x: wp.array[F], start: int, stop: int, step: int, y: wp.array[F]):
    """The index is one of the array where the loop has an iteration."""
    i = wp.tid()
    s = x[i]
    for j in range(start, stop, step):
        s = s * x[start] + F(j) * x[stop - step]
    y[i] = s


@wp.kernel
def nested(x: wp.array2d[F], n: int, y: wp.array[F]):
    i = wp.tid()
    s = F(0.5)
    for j in range(n):
        for k in range(j % 3):
            s = wp.sin(s) * x[i, 0] + x[j + 0, 1]
            for _ in range(k):
                s += s * x[j, 2] * x[i, k]
    y[i] = s


@wp.kernel
def in_a_branch(x: wp.array[F], n: int, y: wp.array[F]):
    i = wp.tid()
    s = F(1.0)
    for j in range(n):
        if j > 2:
            s = s * x[i + 100 * (1 - (j + i) // (j + i))]
        else:
            s += x[i] * F(j)
    y[i] = s


@wp.kernel
def left_early(x: wp.array[F], n: int, y: wp.array[F]):
    i = wp.tid()
    s = F(0.0)
    for j in range(n):
        if s > F(1.5):
            break
        s += x[i] * x[j]
    y[i] = s


@wp.kernel
def overwritten(x: wp.array[F], n: int, y: wp.array[F]):
    i = wp.tid()
    for _ in range(n):
        y[i] = y[i] * x[i] + F(0.1)


@wp.kernel
def overwritten_meanwhile(x: wp.array2d[F], n: int, y: wp.array2d[F]):
    """What is read is another thing from the third iteration on."""
    i = wp.tid()
    s = F(0.0)
    for j in range(n):
        y[i, j] = x[i, j] * F(2.0) + y[i, j]
        s += F(j + 1) * y[i, 2]
    y[i, 5] = s


@wp.kernel
def by_iterations(x: wp.array[F], index: wp.array[int], n: int, y: wp.array[F]):
    """The index comes from memory: it is not moved, nor what it finds."""
    i = wp.tid()
    s = F(0.0)
    for j in range(n):
        s += x[index[i]] * x[index[j]]
    y[i] = s


def case(kernel, x, *more, wanted=(0,)):
    buffers = [x, *(np.asarray(m, np.int32) for m in more), some(len(x), seed=9)]
    grid = (4,)
    buffers[-1] = buffers[-1][:4]
    last = len(buffers) - 1
    wanted = (*wanted, *((last,) if kernel is overwritten else ()))
    return Case(kernel.name, kernel.specialize(), grid, buffers, wanted, (last,))


CASES = [case(pairs, some(6), n) for n in (0, 1, 5)]
CASES += [case(with_step, some(8), *r) for r in ((2, 6, 1), (6, 1, -2), (50, 50, 1), (50, 60, 0), (90, 95, -1))]
CASES += [case(nested, some(7, 3), n) for n in (0, 1, 7)]
CASES += [case(in_a_branch, some(4), n) for n in (0, 3, 6)]
CASES += [case(left_early, some(6), n) for n in (0, 6)]
CASES += [case(overwritten, some(4), n) for n in (0, 4)]
CASES += [
    Case(f"meanwhile{n}", overwritten_meanwhile.specialize(), (4,), [some(4, 6), np.int32(n), some(4, 6, seed=2)],
         (0, 2), (2,)) for n in (2, 5)
]  # fmt: skip
CASES += [case(by_iterations, some(6), [1, 1, 3, 0], n) for n in (0, 4)]


@pytest.mark.parametrize("checked", CASES, ids=lambda c: f"{c.name}-{[int(b) for b in c.buffers if b.shape == ()]}")
@pytest.mark.parametrize("check", [check_tangent, check_adjoint, check_adjoint_of_tangent, check_tangent_of_adjoint])
def test_derivatives(check, checked):
    check(checked)


def sums(kernel, wanted=(0,)):
    """The updates of cotangents in loops, and outside of them."""
    made = adjoint(kernel.specialize(), wanted).kernel
    loops = [op for op in walk(made.body) if isinstance(op, For)]
    inside = {op for loop in loops for op in walk(loop.body) if isinstance(op, Atomic)}
    return len(inside), len({op for op in walk(made.body) if isinstance(op, Atomic)} - inside)


def test_what_is_the_same_in_every_iteration_is_added_to_once():
    assert sums(pairs) == (1, 1)  # x[j], x[i]
    assert sums(by_iterations) == (2, 0)


def test_a_loop_without_an_iteration_adds_nothing():
    """Not even zero: there may be no such element."""
    made = adjoint(pairs.specialize(), [0]).kernel
    branches = [op for op in walk(made.body) if isinstance(op, If)]
    guarded = [op for b in branches for op in walk(b.then) if isinstance(op, Atomic)]
    assert len(guarded) == 1
