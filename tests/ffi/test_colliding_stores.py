"""Threads that store to one element: the last one wins, in values, tangents and cotangents of every order.

The oracle is the kernel as a loop over threads, written with `jnp`, and differentiated by JAX.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_strategy import same_values

import jaxwarp as wp
from jaxwarp.analysis.collisions import succession_of
from jaxwarp.passes.pipeline import prepared

pytestmark = pytest.mark.filterwarnings("ignore:.*donated buffers.*")


@wp.kernel
def to_one(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[0] = x[i] * x[i]


@wp.kernel
def to_halves(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i / 2] = x[i] * x[i]


@wp.kernel
def if_large(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.5:
        y[0] = wp.sin(x[i])


@wp.kernel
def scatter(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[index[i]] = x[i] * x[i] * x[i]


@wp.kernel
def two_statements(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.5:
        y[index[i]] = x[i] * x[i]
    else:
        y[index[i]] = wp.sin(x[i])
    y[3] = x[i] * 2.0


@wp.kernel
def in_a_loop(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    for k in range(index[i] + 1):
        v = v * x[i]
        y[k] = v


@wp.kernel
def in_a_while(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    k = 3
    v = x[i]
    while k >= index[i] and v < 5.0:
        y[k] = v * v
        v = v * 1.5
        k -= 1


@wp.kernel
def constants_too(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if index[i] == 1:
        y[i / 2] = 7.0
    else:
        y[i / 2] = x[i] * x[i]


@wp.kernel
def own_and_shared(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i % 4] = x[i] * x[i]
    y[(i + 1) % 4] = wp.exp(x[i])


def _to_one(i, x, index, y):
    return y.at[0].set(x[i] * x[i])


def _to_halves(i, x, index, y):
    return y.at[i // 2].set(x[i] * x[i])


def _if_large(i, x, index, y):
    return jnp.where(x[i] > 0.5, y.at[0].set(jnp.sin(x[i])), y)


def _scatter(i, x, index, y):
    return y.at[index[i]].set(x[i] ** 3)


def _two_statements(i, x, index, y):
    return y.at[index[i]].set(jnp.where(x[i] > 0.5, x[i] ** 2, jnp.sin(x[i]))).at[3].set(2 * x[i])


def _in_a_loop(i, x, index, y):
    for k in range(4):
        y = jnp.where(k <= index[i], y.at[k].set(x[i] ** (k + 2)), y)
    return y


def _in_a_while(i, x, index, y):
    v = x[i]
    for k in (3, 2, 1, 0):
        y, v = jnp.where((k >= index[i]) & (v < 5.0), y.at[k].set(v * v), y), v * 1.5
    return y


def _constants_too(i, x, index, y):
    return y.at[i // 2].set(jnp.where(index[i] == 1, 7.0, x[i] * x[i]))


def _own_and_shared(i, x, index, y):
    return y.at[i % 4].set(x[i] ** 2).at[(i + 1) % 4].set(jnp.exp(x[i]))


PAIRS = {
    k.name: (k, r)
    for k, r in (
        (to_one, _to_one),
        (to_halves, _to_halves),
        (if_large, _if_large),
        (scatter, _scatter),
        (two_statements, _two_statements),
        (in_a_loop, _in_a_loop),
        (in_a_while, _in_a_while),
        (constants_too, _constants_too),
        (own_and_shared, _own_and_shared),
    )
}
N = 7
X = jnp.array([0.3, 0.9, 0.6, 0.2, 0.8, 0.4, 0.7])
INDEX = jnp.array([1, 0, 1, 3, 2, 0, 2], jnp.int32)


def by_kernel(name, in_out=False):
    call = wp.jax_kernel(PAIRS[name][0], output_dims=None if in_out else 4, in_out_argnames=["y"] if in_out else None)
    if in_out:
        return lambda x, index, y: call(x, index, y)[0]
    return lambda x, index: call(x, index)[0]


def in_turn(thread, count, x, index, y):
    """What threads leave in `y`, one after the other."""
    return jax.lax.scan(lambda y, i: (thread(i, x, index, y), None), y, jnp.arange(count))[0]


def by_threads(name):
    def run(x, index, y=None):
        return in_turn(PAIRS[name][1], x.shape[0], x, index, jnp.zeros(4, x.dtype) if y is None else y)

    return run


def close(found, expected):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


W = jnp.array([1.0, -2.0, 0.5, 3.0])


def loss(f):
    """Not linear, so that cotangents move too."""
    return lambda x, *rest: jnp.sum(W * f(x, *rest) ** 2)


def first_order(f):
    """The value, both modes, and the gradient of a loss."""

    def all_of_them(x, index):
        g = functools.partial(f, index=index)
        return g(x), jax.jvp(g, (x,), (jnp.arange(1.0, 1 + N),)), jax.jacrev(g)(x), jax.value_and_grad(loss(g))(x)

    return jax.jit(all_of_them)


def second_order(f):
    """Hessians in all four orders of modes."""
    modes = list(itertools.product((jax.jacfwd, jax.jacrev), repeat=2))
    return jax.jit(lambda x, index: [a(b(loss(f)))(x, index) for a, b in modes])


@pytest.mark.parametrize("name", PAIRS)
def test_the_last_thread_wins(name):
    close(*(first_order(f(name))(X, INDEX) for f in (by_kernel, by_threads)))


def test_second_derivatives():
    close(*(second_order(f("two_statements"))(X, INDEX) for f in (by_kernel, by_threads)))


@pytest.mark.parametrize("name", ["to_one"])
def test_outside_of_jit_and_in_a_scan(name):
    def gradients(f):
        def total(x):
            return jnp.sum(jax.lax.scan(lambda c, _: (c + 0.1, loss(f)(c, INDEX)), x, length=3)[1])

        return f(X, INDEX), jax.grad(loss(jax.checkpoint(f)))(X, INDEX), jax.grad(total)(X)

    close(gradients(by_kernel(name)), jax.jit(lambda: gradients(by_threads(name)))())


def test_third_derivatives():
    fs = by_kernel("scatter"), by_threads("scatter")
    close(*(jax.jit(jax.jacrev(jax.jacfwd(jax.grad(loss(f)))))(X, INDEX) for f in fs))


@pytest.mark.parametrize("name", ["scatter"])
def test_elements_that_nobody_stores_to_keep_their_cotangent(name):
    y = jnp.array([1.0, 2.0, 3.0, 4.0])

    def both(f):
        return jax.jit(lambda x, y: [m(loss(f), argnums=(0, 2))(x, INDEX, y) for m in (jax.grad, jax.hessian)])(X, y)

    close(both(by_kernel(name, in_out=True)), both(by_threads(name)))


XS = jnp.stack([X, X[::-1], jnp.sort(X)])
INDICES = jnp.stack([INDEX, INDEX[::-1], jnp.sort(INDEX)])


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (1, 0)])
def test_batches(axes):
    xs = {0: XS, 1: XS.T, None: X}[axes[0]]
    indices = INDEX if axes[1] is None else INDICES

    def both(f):
        def run(xs):
            gradient_of_batch = jax.grad(lambda x: jnp.sum(jax.vmap(loss(f), axes)(x, indices)))
            return jax.vmap(f, axes)(xs, indices), jax.vmap(jax.grad(loss(f)), axes)(xs, indices), gradient_of_batch(xs)

        return jax.jit(run)(xs)

    close(both(by_kernel("scatter")), both(by_threads("scatter")))


def test_nested_batches_of_hessians():
    fs = by_kernel("scatter"), by_threads("scatter")
    close(*(jax.jit(jax.vmap(jax.vmap(jax.hessian(loss(f)), (0, None)), (None, 0)))(XS, INDICES) for f in fs))


@pytest.mark.parametrize("method", ["sequential", "broadcast_all"])
def test_other_ways_of_batching(method):
    call = wp.jax_kernel(scatter, output_dims=4, vmap_method=method)
    fs = (lambda x, i: call(x, i)[0]), by_threads("scatter")
    close(*(jax.jit(jax.vmap(jax.grad(loss(f)), (0, None)))(XS, INDEX) for f in fs))


def test_finite_differences_of_the_plain_call_agree():
    f, step = by_kernel("two_statements"), 1e-3
    found = jax.grad(lambda x: jnp.sum(f(x, INDEX)))(X)
    difference = [
        (jnp.sum(f(X.at[k].add(step), INDEX)) - jnp.sum(f(X.at[k].add(-step), INDEX))) / (2 * step) for k in range(N)
    ]
    np.testing.assert_allclose(found, difference, atol=2e-3)


def test_the_value_has_the_bits_of_a_plain_call():
    f = by_kernel("own_and_shared")
    plain = f(X, INDEX)
    _, pull = jax.vjp(lambda x: f(x, INDEX), X)
    assert np.array_equal(jax.jvp(lambda x: f(x, INDEX), (X,), (X,))[0], plain)
    assert np.array_equal(jax.vjp(lambda x: f(x, INDEX), X)[0], plain)
    assert pull(W)[0].shape == X.shape


@wp.kernel
def vectors(x: wp.array[wp.vec3], index: wp.array[int], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[index[i]] = x[i] * x[i][0]


@wp.kernel
def single_components(x: wp.array[wp.vec3], index: wp.array[int], y: wp.array2d[float]):
    i = wp.tid()
    y[index[i], 0] = x[i][0] * x[i][1]
    if i % 2 == 0:
        y[index[i], 1] = x[i][2] * x[i][2]


def test_vectors_and_single_components():
    x = jnp.sin(jnp.arange(3.0 * N)).reshape(N, 3)

    def of_vectors(i, x, index, y):
        return y.at[index[i]].set(x[i] * x[i, 0])

    def of_components(i, x, index, y):
        y = y.at[index[i], 0].set(x[i, 0] * x[i, 1])
        return jnp.where(i % 2 == 0, y.at[index[i], 1].set(x[i, 2] ** 2), y)

    for kernel, thread, dims in ((vectors, of_vectors, 4), (single_components, of_components, (4, 2))):
        call = wp.jax_kernel(kernel, launch_dims=N, output_dims=dims)
        found = jax.jit(jax.jacrev(lambda x, call=call: call(x, INDEX)[0]))(x)
        y = jnp.zeros_like(found[..., 0, 0])
        expected = jax.jit(jax.jacrev(lambda x, thread=thread, y=y: in_turn(thread, N, x, INDEX, y)))(x)
        np.testing.assert_allclose(found, expected, atol=1e-5)


@wp.kernel
def several_outputs(x: wp.array2d[float], y: wp.array[float], z: wp.array2d[float], count: wp.array[int]):
    i, j = wp.tid()
    y[j] = x[i, j] * x[i, j]
    z[i, j] = wp.sin(x[i, j])
    count[0] = j


def test_outputs_of_one_launch_have_winners_of_their_own():
    call = wp.jax_kernel(several_outputs, num_outputs=3, output_dims={"y": 3, "z": (2, 3), "count": 1})
    x = jnp.arange(1.0, 7.0).reshape(2, 3)

    def total(x):
        y, z, count = call(x)
        return jnp.sum(y * jnp.array([1.0, 2.0, 3.0])) + jnp.sum(z) + count[0].astype(float)

    expected = jnp.cos(x).at[1].add(2 * x[1] * jnp.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(jax.jit(jax.grad(total))(x), expected, rtol=1e-5)


# Values

rng = np.random.default_rng(7)


def loop_of_scatter(x, index, y):
    for i, k in enumerate(index):
        y[k] = x[i] * x[i] * x[i]


def loop_of_two_statements(x, index, y):
    for i, k in enumerate(index):
        y[k] = x[i] * x[i] if x[i] > np.float32(0.5) else np.sin(x[i])
        y[3] = 2 * x[i]


@pytest.mark.parametrize(("kernel", "loop"), [(scatter, loop_of_scatter), (two_statements, loop_of_two_statements)])
def test_large_launches_have_the_values_of_a_loop(kernel, loop):
    n, m = 200_000, 1000
    x, index = rng.random(n, np.float32), rng.integers(0, m, n).astype(np.int32)
    expected, outside = np.zeros(m, np.float32), np.zeros(m, np.float32)
    loop(x, index, expected)
    call = wp.jax_kernel(kernel, output_dims=m)
    wp.launch(kernel, dim=n, inputs=[x, index, outside])
    for found in (call(x, index)[0], outside):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    # Each element has one winner, whose cotangent is all there is.
    last = np.full(m, -1)
    last[index] = np.arange(n)
    last[3] = n - 1 if kernel is two_statements else last[3]
    gradient = jax.grad(lambda x: call(x, index)[0].sum())(x)
    assert set(np.flatnonzero(gradient)) == set(last[last >= 0])


def in_order(kernel, grid=None, shapes=None):
    """How threads follow each other."""
    made = prepared(kernel.specialize(), True)
    shapes = {} if shapes is None else dict(zip(made.params, shapes, strict=True))
    return succession_of(made, grid or [None] * made.grid_rank, shapes)


@wp.kernel
def flat(x: wp.array[float], width: int, channels: int, y: wp.array[float]):
    i, j = wp.tid()
    for k in range(channels):
        y[(i * width + j) * channels + k] = x[i] + float(100 * j + k)


@pytest.mark.parametrize(("width", "channels"), [(50, 3), (57, 3), (49, 3), (0, 3), (2**30, 4)])
def test_rows_of_a_width_that_is_known_when_the_launch_runs(width, channels):
    """Indices tell threads apart if the width is large enough, which is asked then; products may wrap."""
    rows, columns = 40, 50
    x, found = rng.random(rows, np.float32), np.zeros(40 * 60 * channels, np.float32)
    expected = found.copy()
    for i, j in itertools.product(range(rows), range(columns)):
        at = (i * width + j) * channels % 2**32
        expected[at : at + channels] = x[i] + np.arange(100 * j, 100 * j + channels, dtype=np.float32)
    wp.launch(flat, dim=(rows, columns), inputs=[x, width, channels, found])
    np.testing.assert_array_equal(found, expected)


def test_only_stores_that_may_meet_are_put_in_order():
    for kernel in (to_one, to_halves, scatter, two_statements, in_a_loop, own_and_shared):
        found = in_order(kernel)
        assert found is not None, kernel.name
        assert found.apart is None, kernel.name
        assert found.one_by_one == (kernel not in (to_one, to_halves, scatter)), kernel.name
    found = in_order(flat)
    assert found is not None
    assert found.apart is not None


@wp.kernel
def flags(x: wp.array[float], level: float, found: wp.array[float], many: wp.array[int]):
    i = wp.tid()
    if x[i] > level:
        found[0] = level * 2.0
        many[i / 2] = 1


@wp.kernel
def apart(x: wp.array2d[float], y: wp.array[float], z: wp.array2d[float]):
    i, j = wp.tid()
    y[4 * i + j + 2] = x[i, j]
    for k in range(3):
        z[x.shape[0] - 1 - i, 3 * j + k] = x[i, j]
    if i == 0:
        y[0] = 1.0
    y[1] = 2.0


def test_flags_and_elements_of_a_thread_cost_nothing():
    assert in_order(flags) is None
    assert in_order(apart, (5, 4), [(5, 4), (22,), (5, 12)]) is None
    call = wp.jax_kernel(apart, num_outputs=2, launch_dims=(5, 4), output_dims={"y": 22, "z": (5, 12)})
    gradient = jax.make_jaxpr(jax.grad(lambda x: call(x)[0].sum()))(jnp.ones((5, 4)))
    assert "apart_jvp_vjp" in str(gradient)
    assert "winner" not in str(gradient)


def test_no_kernel_of_the_benchmarks_waits_for_others():
    from benchmarks import cpu_kernels, derivatives_kernels

    made = [make(wp.float32, wp.vec3, wp.mat33) for make in cpu_kernels.KERNELS.values()]
    made += [k for k in vars(derivatives_kernels).values() if isinstance(k, wp.Kernel)]
    assert len(made) > 20
    assert [k.name for k in made if in_order(k) is not None] == []


@wp.kernel
def twice_at_one_place(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    k = (i * i) % 5
    if x[i] > 0.5:
        y[k] = x[i]
    else:
        y[k] = -x[i]


def test_two_stores_at_one_computed_place():
    call = wp.jax_kernel(twice_at_one_place, output_dims=5)
    expected = np.zeros(5, np.float32)
    for i, v in enumerate(np.asarray(X)):
        expected[i * i % 5] = v if v > 0.5 else -v
    np.testing.assert_array_equal(call(X)[0], expected)
    np.testing.assert_array_equal(call(X[:0])[0], np.zeros(5))
    assert np.count_nonzero(jax.grad(lambda x: call(x)[0].sum())(X)) == 3


# What is also read, or updated by atomics


@wp.kernel
def in_place(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[index[i]] = y[index[i]] * x[i]


@wp.kernel
def of_others(x: wp.array[float], index: wp.array[int], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    y[index[i]] = x[i] * x[i]
    z[i] = y[index[i] / 2] * x[i]


@wp.kernel
def stores_and_sums(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[index[i]] = x[i]
    wp.atomic_add(y, index[i], x[i] * x[i])


@wp.kernel
def by_counts(x: wp.array[float], index: wp.array[int], count: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    count[index[i]] = count[index[i]] + i
    y[i] = x[i] * float(count[index[i]])


ORDER = jnp.array([3, 1, 0, 2], jnp.int32)
SHARED = ORDER.at[0].set(2)


def fails(array: str, before: str = "") -> Any:
    """A derivative where threads have met: a failed call, which names the array."""
    failed = (ValueError, jax.errors.JaxRuntimeError)
    return pytest.raises(failed, match=f"{before}.*two threads have met at an element of {array}, which")


def test_updates_at_places_in_data_that_differ_are_exact_and_others_fail():
    call = wp.jax_kernel(in_place, in_out_argnames=["y"])
    x, y = X[:4], W

    def f(x, y, index):
        return jnp.sum(call(x, index, y)[0] ** 2)

    def expected(x, y, index):
        return jnp.sum(y.at[index].multiply(x, unique_indices=True) ** 2)

    for mode in (jax.grad, jax.hessian):
        derivative = jax.jit(mode(f, argnums=(0, 1)))
        close(derivative(x, y, ORDER), jax.jit(mode(expected, argnums=(0, 1)))(x, y, ORDER))
        with fails("y"):
            jax.block_until_ready(derivative(x, y, SHARED))
    forward = jax.jit(lambda index: jax.jvp(lambda x: call(x, index, y)[0], (x,), (x,))[1])
    assert np.isfinite(forward(ORDER)).all()
    with fails("y"):
        jax.block_until_ready(forward(SHARED))
    # Items of a batch are launches of their own, and the first that fails is named.
    gradients = jax.jit(jax.vmap(jax.grad(f), (None, None, 0)))
    assert np.isfinite(gradients(x, y, jnp.stack([ORDER, ORDER[::-1]]))).all()
    with fails("y", "batch index "):
        jax.block_until_ready(gradients(x, y, jnp.stack([ORDER, SHARED])))


def test_reads_of_what_no_thread_stores_are_exact():
    """Threads 1 and 3 store to one element, which no thread reads: the last one wins."""
    call = wp.jax_kernel(of_others, num_outputs=2, output_dims={"y": 4, "z": 4})
    index = jnp.array([0, 3, 2, 3], jnp.int32)
    weights = jnp.array([1.0, 10.0, 100.0, 1000.0])
    found = jax.jit(jax.grad(lambda x: (call(x, index)[0] + call(x, index)[1]) @ weights))(X[:4])
    x = X[:4]
    expected = jnp.array([2 * x[0] + 3 * x[0] ** 2, 0.0, 200 * x[2], 2000 * x[3]])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("index", [[0, 1, 1, 1], [0, 0, 0, 0]])
def test_reads_of_what_others_store_fail(index):
    call = wp.jax_kernel(of_others, num_outputs=2, output_dims={"y": 4, "z": 4})
    with fails("y"):
        jax.block_until_ready(jax.jvp(lambda x: call(x, jnp.array(index, jnp.int32)), (X[:4],), (X[:4],))[1])


def test_stores_among_sums_are_exact_where_no_other_thread_adds():
    call = wp.jax_kernel(stores_and_sums)
    tangent = jax.jit(lambda index: jax.jvp(lambda x: call(x, index)[0], (X[:4],), (jnp.ones(4),))[1])
    np.testing.assert_allclose(tangent(ORDER)[ORDER], 1 + 2 * X[:4], rtol=1e-6)
    with fails("y"):
        jax.block_until_ready(tangent(SHARED))


def test_integers_that_threads_read_and_write_matter_too():
    call = wp.jax_kernel(by_counts, num_outputs=2, output_dims={"count": 4, "y": 4})
    tangent = jax.jit(lambda index: jax.jvp(lambda x: call(x, index)[1], (X[:4],), (jnp.ones(4),))[1])
    np.testing.assert_allclose(tangent(ORDER), jnp.arange(4.0))
    with fails("count"):
        jax.block_until_ready(tangent(SHARED))


# Other doors


def test_tapes_and_callables():
    x, index = np.asarray(X), np.asarray(INDEX)
    expected = jax.jit(jax.grad(lambda x: jnp.sum(by_threads("two_statements")(x, INDEX))))(X)
    a, y = wp.array(x, dtype=float, requires_grad=True), wp.zeros(4, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(two_statements, dim=N, inputs=[a, index], outputs=[y])
    tape.backward(grads={y: wp.ones(4, dtype=float)})
    np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-5)

    def program(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
        wp.launch(two_statements, dim=x.shape, inputs=[x, index], outputs=[y])

    call = wp.jax_callable(program, output_dims={"y": 4})
    np.testing.assert_array_equal(call(X, INDEX)[0], y.numpy())
    np.testing.assert_allclose(jax.grad(lambda x: call(x, INDEX)[0].sum())(X), expected, rtol=1e-5)


@wp.kernel
def last_of_all(x: wp.array2d[float], y: wp.array[float], rows: wp.array[float]):
    i, j = wp.tid()
    y[0] = x[i, j] * x[i, j]
    rows[i] = x[i, j] * x[i, j]


def test_exported_programs_of_symbolic_extents():
    n, m = jax.export.symbolic_shape("n, m")
    call = wp.jax_kernel(last_of_all, num_outputs=2)

    def f(x):
        y, rows = call(x, output_dims={"y": 1, "rows": x.shape[0]})
        return y[0] + 10 * jnp.sum(rows)

    both = jax.jit(lambda x: (jax.value_and_grad(f)(x), jax.jvp(f, (x,), (x,))[1]))
    disabled = {"disabled_checks": wp.export_checks()}
    program = jax.export.export(both, **disabled)(jax.ShapeDtypeStruct((n, m), jnp.float32))
    for shape in ((3, 4), (2, 700)):
        x = jnp.sin(jnp.arange(1.0, 1 + shape[0] * shape[1])).reshape(shape)
        (value, gradient), tangent = jax.export.deserialize(program.serialize()).call(x)
        expected = jnp.zeros(shape).at[:, -1].set(20 * x[:, -1]).at[-1, -1].add(2 * x[-1, -1])
        np.testing.assert_allclose(value, x[-1, -1] ** 2 + 10 * jnp.sum(x[:, -1] ** 2), rtol=1e-5)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5)
        np.testing.assert_allclose(tangent, jnp.sum(expected * x), rtol=1e-5)


# Random collisions under random stacks of transformations


@wp.kernel
def programmable(x: wp.array[float], at: wp.array2d[int], does: wp.array2d[int], y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    for s in range(at.shape[0]):
        if does[s, i] == 1:
            y[at[s, i]] = v
        v = v * x[i] + 1.0
    if does[0, i] == 2:
        y[at[0, i]] = wp.sin(v)


def _programmed(x, at, does):
    def thread(i, x, index, y):
        at, does = index
        v = x[i]
        for s in range(2):
            y = jnp.where(does[s, i] == 1, y.at[at[s, i]].set(v), y)
            v = v * x[i] + 1.0
        return jnp.where(does[0, i] == 2, y.at[at[0, i]].set(jnp.sin(v)), y)

    return in_turn(thread, 4, x, (at, does), jnp.zeros(3, x.dtype))


def _by_programmable(x, at, does):
    return wp.jax_kernel(programmable, launch_dims=4, output_dims=3)(x, at, does)[0]


STACKS = {
    "grad": jax.grad,
    "jacfwd of jacrev": lambda f: jax.jacfwd(jax.jacrev(f)),
    "jacrev of jacfwd": lambda f: jax.jacrev(jax.jacfwd(f)),
    "grad of vmap of value_and_grad": lambda f: jax.grad(
        lambda x, *rest: jnp.sum(jax.vmap(lambda s: jnp.sum(jax.grad(f)(s * x, *rest)))(jnp.array([1.0, 0.5])))
    ),
}


@functools.cache
def _stacked(name, is_kernel):
    f = _by_programmable if is_kernel else _programmed
    return jax.jit(STACKS[name](lambda x, at, does: jnp.sum(jnp.array([1.0, -2.0, 3.0]) * f(x, at, does) ** 2)))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(list(STACKS)),
    st.lists(st.integers(0, 2), min_size=8, max_size=8),
    st.lists(st.integers(0, 2), min_size=8, max_size=8),
)
def test_any_collisions_under_any_transformations(name, at, does):
    arguments = (X[:4], *(jnp.array(a, jnp.int32).reshape(2, 4) for a in (at, does)))
    np.testing.assert_allclose(
        _stacked(name, True)(*arguments), _stacked(name, False)(*arguments), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("n", [6, 5000])
def test_the_last_store_stays_whatever_it_is(n):
    """NaN, infinities and zeros of both signs, to the bit, also as the value that is differentiated."""

    @wp.kernel
    def put(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        y[index[i]] = x[i]

    rng = np.random.default_rng(n)
    for _ in range(5):
        x = rng.choice(np.array([np.nan, 0.0, -0.0, 1.0, np.inf, -np.inf], np.float32), n)
        index = rng.integers(0, 4, n).astype(np.int32)
        expected = np.zeros(4, np.float32)
        for i in range(n):
            expected[index[i]] = x[i]
        call = lambda x, index=index: wp.jax_kernel(put, output_dims=4)(x, index)[0]  # noqa: E731
        for got in (call(x), jax.jit(call)(x), jax.vmap(call)(x[None])[0], jax.vjp(call, x)[0]):
            assert same_values(np.asarray(got), expected)
        (cotangent,) = jax.vjp(call, x)[1](jnp.ones(4))
        last = sorted(int(np.flatnonzero(index == k)[-1]) for k in range(4) if (index == k).any())
        assert np.flatnonzero(cotangent).tolist() == last
