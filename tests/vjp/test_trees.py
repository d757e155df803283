"""Gradients through loops of unknown length that read what earlier iterations wrote, at elements found in data.

The oracle is the same recurrence in JAX. What cannot be right fails when it runs, with the line.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxwarp as wp

FAILURE = (ValueError, jax.errors.JaxRuntimeError)


@wp.kernel
def tree(
    parent: wp.array[int], order: wp.array[int], start: wp.array[int], q: wp.array2d[float], pos: wp.array2d[float]
):
    w, b = wp.tid()
    for i in range(start[b], start[b + 1]):
        body = order[i]
        v = q[w, body]
        if parent[body] >= 0:
            v = wp.sin(v * pos[w, parent[body]]) + pos[w, parent[body]]
        pos[w, body] = v


@wp.kernel
def sums(parent: wp.array[int], level: wp.array[int], scale: wp.array[float], total: wp.array2d[float]):
    """A level of a tree: bodies add what they have to their parents."""
    w, i = wp.tid()
    body = level[i]
    wp.atomic_add(total, w, parent[body], scale[body] * total[w, body] * total[w, body])


PARENT = np.array([-1, 0, 1, 2, 1, 4], np.int32)
BODIES, WORLDS = len(PARENT), 3
Q = np.random.default_rng(0).normal(size=(WORLDS, BODIES)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(WORLDS, BODIES)).astype(np.float32)
TREES = {
    "a chain": ([0, 1, 2, 3, 4, 5], [0, 6]),
    "branches": ([0, 1, 2, 3, 0, 1, 4, 5], [0, 4, 8]),
    "some computed twice": ([0, 1, 2, 2, 3, 4, 5, 5], [0, 8]),
    "below what is given": ([2, 3, 2, 3], [0, 2, 4]),
}


def launch(order: Any, start: Any, q: Any, pos: Any) -> Any:
    grid = (WORLDS, len(start) - 1)
    call = wp.jax_kernel(tree, num_outputs=1, launch_dims=grid, in_out_argnames=["pos"])
    return call(PARENT, np.array(order, np.int32), np.array(start, np.int32), q, pos)[0]


def by_jax(order: Any, start: Any, q: Any, pos: Any) -> Any:
    for body in order:
        v = q[:, body]
        if PARENT[body] >= 0:
            v = jnp.sin(v * pos[:, PARENT[body]]) + pos[:, PARENT[body]]
        pos = pos.at[:, body].set(v)
    return pos


@pytest.mark.parametrize("name", TREES)
def test_trees(name):
    order, start = TREES[name]
    losses = [lambda q, pos, f=f: (f(order, start, q, pos) * W).sum() for f in (launch, by_jax)]
    pos = W[::-1].copy()
    found, expected = (jax.grad(f, (0, 1))(Q, pos) for f in losses)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    found, expected = (jax.jvp(f, (Q, pos), (W, Q))[1] for f in losses)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_transformations_of_branches():
    order, start = TREES["branches"]
    losses = [lambda q, f=f: (f(order, start, q, jnp.zeros_like(q)) ** 2 * W).sum() for f in (launch, by_jax)]
    both = np.stack([Q, -Q])
    found, expected = (jax.jit(jax.vmap(jax.grad(f)))(both) for f in losses)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    for outer in (jax.jacfwd, jax.jacrev):
        found, expected = (jax.jit(outer(jax.grad(f)))(Q) for f in losses)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    found, expected = (jax.jit(jax.grad(jax.checkpoint(f)))(Q) for f in losses)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


STRAY = {
    "overwritten after it is read": ([0, 1, 0, 2], [0, 4], "is written later by the same thread"),
    "stored by another thread": ([0, 1, 2, 3], [0, 2, 4], "two threads have met at an element of pos"),
    "read before another thread stores": ([2, 3, 0, 1], [0, 2, 4], "two threads have met at an element of pos"),
}


@pytest.mark.parametrize("name", STRAY)
def test_what_is_not_a_tree_fails_when_it_runs(name):
    order, start, message = STRAY[name]
    with pytest.raises(FAILURE, match=message) as caught:
        jax.block_until_ready(jax.grad(lambda q: (launch(order, start, q, jnp.zeros_like(q)) * W).sum())(Q))
    assert "pos[w, parent[body]]" in str(caught.value)


def test_forward_mode_overwrites_what_it_has_read():
    """Nothing needs to be recorded there."""
    order, start = [0, 1, 0, 2, 1, 4, 4], [0, 7]
    found, expected = (
        jax.jvp(lambda q, f=f: f(order, start, q, jnp.zeros_like(q)), (Q,), (W,))[1] for f in (launch, by_jax)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_threads_that_store_other_values_where_one_reads():
    @wp.kernel
    def k(order: wp.array[int], start: wp.array[int], x: wp.array[float], y: wp.array[float]):
        b = wp.tid()
        for i in range(start[b], start[b + 1]):
            body = order[i]
            y[body] = x[b] * (1.0 + y[wp.max(body - 2, 0)])

    call = wp.jax_kernel(k, num_outputs=1, launch_dims=2, in_out_argnames=["y"])
    order, start = np.array([1, 3, 1], np.int32), np.array([0, 2, 3], np.int32)
    gradient = jax.grad(lambda x: call(order, start, x, jnp.zeros(4))[0][3])
    np.testing.assert_allclose(gradient(np.array([2.0, 2.0], np.float32)), [5.0, 0.0])
    with pytest.raises(FAILURE, match="store different values"):
        jax.block_until_ready(gradient(np.array([2.0, 3.0], np.float32)))


def test_an_index_out_of_range_names_the_array_and_its_own_axis():
    """Derivatives keep what each thread stores in arrays of their own, with the thread's axis in front."""

    @wp.kernel
    def k(order: wp.array[int], up: wp.array[int], x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[order[i]] = x[i]
        y[i] = y[up[i]] + x[i]

    call = wp.jax_kernel(k, num_outputs=1, mode="debug")
    for derive in (jax.grad, lambda f: lambda x: jax.jvp(f, (x,), (x,))[1]):
        with pytest.raises(FAILURE, match="index 7 of axis 0 of array y is out of range; its extent is 2"):
            jax.block_until_ready(derive(lambda x: call(jnp.array([0, 1]), jnp.array([7, 1]), x)[0].sum())(jnp.ones(2)))


@pytest.mark.parametrize("level", [[2, 4], [3, 5]])
def test_sums_into_other_elements_of_one_array(level):
    scale = W[0]

    def of_kernel(scale, total):
        call = wp.jax_kernel(sums, num_outputs=1, launch_dims=(WORLDS, 2), in_out_argnames=["total"])
        return call(PARENT, np.array(level, np.int32), scale, total)[0]

    @jax.jit
    def of_jax(scale, total):
        level_ = np.array(level)
        return total.at[:, PARENT[level_]].add(scale[level_] * total[:, level_] ** 2)

    found, expected = (jax.grad(lambda *xs, f=f: (f(*xs) * W).sum(), (0, 1))(scale, Q) for f in (of_kernel, of_jax))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_sums_into_elements_that_others_read_fail():
    call = wp.jax_kernel(sums, num_outputs=1, launch_dims=(WORLDS, 2), in_out_argnames=["total"])
    level = np.array([3, 2], np.int32)  # 3 adds to 2
    with pytest.raises(FAILURE, match="two threads have met at an element of total"):
        jax.block_until_ready(jax.grad(lambda t: call(PARENT, level, W[0], t)[0].sum())(Q))


@wp.kernel
def scaled(
    parent: wp.array[int],
    order: wp.array[int],
    start: wp.array[int],
    scale: wp.array[float],
    q: wp.array[float],
    pos: wp.array[float],
):
    b = wp.tid()
    for i in range(start[b], start[b + 1]):
        body = order[i]
        v = q[body] * scale[b]
        if parent[body] >= 0:
            v = v + wp.sin(pos[parent[body]])
        pos[body] = v


SIZE, BRANCHES, LONGEST = 5, 3, 3
LEFT = np.random.default_rng(2).normal(size=SIZE).astype(np.float32)
Program = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Trees and graphs, walked by branches from a root or in any order, which may or may not compute the same."""
    numbers = st.integers(0, SIZE - 1)
    parent = np.array([-1] + [draw(st.integers(-1, draw(st.sampled_from([i - 1, SIZE - 1])))) for i in range(1, SIZE)])
    order, start = list[int](), [0]
    for _ in range(BRANCHES):
        if draw(st.booleans()):
            path, body = list[int](), draw(numbers)
            while body >= 0 and body not in path and len(path) < LONGEST:
                path.append(body)
                body = int(parent[body])
            order += path[::-1]
        else:
            order += draw(st.lists(numbers, max_size=LONGEST))
        start.append(len(order))
    order += [0] * (BRANCHES * LONGEST - len(order))
    scale = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0]), min_size=BRANCHES, max_size=BRANCHES))
    return parent.astype(np.int32), np.array(order, np.int32), np.array(start, np.int32), np.array(scale, np.float32)


def one_after_the_other(program: Program, q: Any, pos: Any) -> Any:
    parent, order, start, scale = program
    for b in range(BRANCHES):
        for body in order[start[b] : start[b + 1]]:
            v = q[body] * scale[b]
            if parent[body] >= 0:
                v = v + jnp.sin(pos[parent[body]])
            pos = pos.at[body].set(v)
    return pos


def faults(program: Program, q: np.ndarray, pos: np.ndarray) -> tuple[bool, bool]:
    """Does the order of threads matter, and does one write what it has read?"""
    parent, order, start, scale = program
    stored: list[dict[int, list[float]]] = [{} for _ in range(SIZE)]
    before: list[set[int]] = [set() for _ in range(SIZE)]
    after, overwrites = set[int](), False
    for b in range(BRANCHES):
        own, read = dict[int, Any](), set[int]()
        for body in order[start[b] : start[b + 1]]:
            v, above = q[body] * scale[b], int(parent[body])
            if above >= 0:
                read.add(above)
                (after.add(above) if above in own else before[above].add(b))
                v = v + np.sin(own.get(above, pos[above]))
            overwrites |= int(body) in read
            own[int(body)] = v
            stored[body].setdefault(b, []).append(float(v))
    of_others = any(set(stored[e]) - {b} for e in range(SIZE) for b in before[e])
    differ = any(len(stored[e]) > 1 and len({v for vs in stored[e].values() for v in vs}) > 1 for e in after)
    return of_others or differ, overwrites


CALL = wp.jax_kernel(scaled, num_outputs=1, launch_dims=BRANCHES, in_out_argnames=["pos"])
SLOPES = jax.jit(jax.grad(lambda program, q, pos: CALL(*program, q, pos)[0] @ LEFT, (1, 2)))
ALONG = jax.jit(lambda program, q, pos: jax.jvp(lambda q, pos: CALL(*program, q, pos)[0], (q, pos), (pos, q))[1])


@settings(max_examples=60, deadline=None)
@given(programs())
def test_random_programs_are_right_or_fail(program):
    q, pos = Q[0, :SIZE], W[0, :SIZE]
    is_race, overwrites = faults(program, q, pos)
    for name, f in (("reverse", SLOPES), ("forward", ALONG)):
        if is_race or (overwrites and name == "reverse"):
            with pytest.raises(FAILURE):
                jax.block_until_ready(f(program, q, pos))
        elif name == "reverse":
            expected = jax.grad(lambda q, pos: one_after_the_other(program, q, pos) @ LEFT, (0, 1))(q, pos)
            for a, b in zip(f(program, q, pos), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        else:
            expected = jax.jvp(lambda q, pos: one_after_the_other(program, q, pos), (q, pos), (pos, q))[1]
            np.testing.assert_allclose(f(program, q, pos), expected, rtol=1e-5, atol=1e-6)
