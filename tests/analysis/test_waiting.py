"""Threads that wait for others: on the CPU they run one after another, so that they end."""

from __future__ import annotations

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.analysis.collisions import succession_of
from jaxwarp.analysis.waiting import waits
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import prepared


@wp.kernel
def lock(locks: wp.array[int], total: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    while wp.atomic_cas(locks, 0, 0, 1) != 0:
        pass
    total[0] = total[0] * 0.5 + x[i]
    wp.atomic_exch(locks, 0, 0)


@wp.kernel
def lock_of_a_bin(locks: wp.array[int], total: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    for iteration in range(2):
        place = (i + iteration) % 3
        while True:
            if wp.atomic_exch(locks, place, 1) == 0:
                break
        total[place] = total[place] * 0.5 + x[i]
        locks[place] = 0


@wp.kernel
def tickets(serving: wp.array[int], total: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    while wp.atomic_add(serving, 0, 0) != i:
        pass
    total[0] = total[0] * 0.5 + x[i]
    wp.atomic_add(serving, 0, 1)


@wp.kernel
def flag(ready: wp.array[int], total: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    if i > 0:
        while wp.atomic_or(ready, i - 1, 0) == 0:
            pass
        total[i] = total[i - 1] * 0.5 + x[i]
    wp.atomic_exch(ready, i, 1)


@wp.kernel
def retry(best: wp.array[int], total: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    mine = int(x[i] * 100.0)
    best[1 + i] = mine
    seen = best[0]
    while seen < mine:
        found = wp.atomic_cas(best, 0, seen, mine)
        if found == seen:
            break
        seen = found


@wp.kernel
def inside(locks: wp.array[int], total: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    done = bool(False)  # noqa: UP018  (a variable)
    while not done:
        if wp.atomic_cas(locks, 0, 0, 1) == 0:
            total[0] = total[0] + x[i]
            wp.atomic_exch(locks, 0, 0)
            done = True


@wp.kernel
def own_element(steps: wp.array[int], total: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    total[i] = x[i]
    while total[i] > 0.1:
        total[i] = total[i] * 0.5
        steps[i] = steps[i] + 1
    total[i] = total[i] + 1.0


@wp.kernel
def chain(after: wp.array[int], total: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    node = i
    while after[node] >= 0:
        node = after[node]
        total[i] += x[node]
    after[i] = -1


def made(kernel):
    return prepared(kernel.specialize(), True)


@pytest.mark.parametrize("kernel", [lock, lock_of_a_bin, tickets, flag])
def test_kernels_that_wait_run_thread_by_thread(kernel):
    assert waits(made(kernel))
    found = succession_of(made(kernel), (16,))
    assert found is not None
    assert found.one_by_one
    assert found.apart is None


@pytest.mark.parametrize("kernel", [retry, inside, own_element, chain])
def test_loops_that_end_by_themselves_do_not_wait(kernel):
    assert not waits(made(kernel))


def expected(kernel, x):
    total = np.zeros(16, np.float32)
    for i in range(16):
        places = [i % 3, (i + 1) % 3] if kernel is lock_of_a_bin else [0]
        if kernel is flag:
            total[i] = total[i - 1] * np.float32(0.5) + x[i] if i else 0
        else:
            for place in places:
                total[place] = total[place] * np.float32(0.5) + x[i]
    return total


@pytest.mark.parametrize("kernel", [lock, lock_of_a_bin, tickets, flag])
def test_they_end_one_thread_after_the_other(kernel):
    assert waits(made(kernel))  # else the launches below would not end
    x = np.random.default_rng(3).random(16, np.float32)
    by_interpreter = [np.zeros(16, np.int32), np.zeros(16, np.float32), x]
    interpret(made(kernel), (16,), by_interpreter, max_steps=10_000, one_by_one=True)
    np.testing.assert_allclose(by_interpreter[1], expected(kernel, x), rtol=1e-6)
    state, total = np.zeros(16, np.int32), np.zeros(16, np.float32)
    wp.launch(kernel, dim=16, inputs=[state, total, x])
    np.testing.assert_allclose(total, expected(kernel, x), rtol=1e-6)
    call = wp.jax_kernel(kernel, num_outputs=2, in_out_argnames=[a.name for a in kernel.arguments[:2]], launch_dims=16)
    found = call(np.zeros(16, np.int32), np.zeros(16, np.float32), x)
    np.testing.assert_allclose(found[1], expected(kernel, x), rtol=1e-6)
