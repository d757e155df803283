"""`capture_while` and `capture_if` in functions that are traced."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jaxwarp as wp
from jaxwarp import GraphMode, jax_callable
from jaxwarp.errors import DifferentiationError, KernelTypeError, KernelValueError

TRACED = [GraphMode.JAX, GraphMode.WARP]
MODES = [*TRACED, GraphMode.NONE]
OUTPUTS = {"num_outputs": 2, "in_out_argnames": ["n", "x"]}


@wp.kernel
def square(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i] * 0.5


@wp.kernel
def down(n: wp.array[int]):
    n[wp.tid()] -= 1


def step(n, x, y):
    wp.launch(square, x.shape, [x, y])
    wp.launch(down, 1, [n])


def iterate(n: wp.array[int], x: wp.array[float]):
    y = wp.zeros_like(x)

    def body(n, x):
        step(n, x, y)
        half = wp.clone(y)  # made anew in each iteration
        x.assign(half)

    wp.capture_while(n, body, n=n, x=x)


def choose(n: wp.array[int], x: wp.array[float]):
    y = wp.zeros_like(x)

    def larger():
        step(n, x, y)
        x.assign(y)

    def zero():
        x[:2].fill_(-1.0)

    wp.capture_if(n, larger, zero)
    wp.capture_if(n[0:1], on_false=lambda: n.fill_(-5))


def outside(function, n, x):
    """What the function does outside of JAX."""
    arrays = wp.array([n], dtype=int), wp.array(x, dtype=float)
    function(*arrays)
    return [a.numpy().tolist() for a in arrays]


X = np.array([1.5, 2.5, 0.5], np.float32)
N = [jnp.array([n], jnp.int32) for n in range(5)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [iterate, choose])
def test_repeats_as_outside_of_jax(function, mode):
    call = jax.jit(jax_callable(function, graph_mode=mode, **OUTPUTS))
    for n in (0, 1, 3):
        assert [v.tolist() for v in call(N[n], X)] == outside(function, n, X)


@pytest.mark.parametrize("mode", TRACED)
@pytest.mark.parametrize("function", [iterate, choose])
def test_lanes_that_are_done_keep_their_values(function, mode):
    numbers, rows = [2, 0, 3, 1], np.stack([X, X + 1, X - 1, 2 * X])
    found = jax.jit(jax.vmap(jax_callable(function, graph_mode=mode, **OUTPUTS)))(jnp.array(numbers)[:, None], rows)
    expected = [outside(function, n, row) for n, row in zip(numbers, rows, strict=True)]
    assert [v.tolist() for v in found] == [list(v) for v in zip(*expected, strict=True)]


def iterated(x, n):
    for _ in range(n):
        x = x * x * 0.5
    return x


@pytest.mark.parametrize("mode", TRACED)
def test_forward_derivatives(mode):
    call = jax_callable(iterate, graph_mode=mode, **OUTPUTS)
    found = jax.jvp(lambda x: call(N[3], x)[1], (X,), (np.ones_like(X),))
    expected = jax.jvp(lambda x: iterated(x, 3), (X,), (np.ones_like(X),))
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)


@pytest.mark.parametrize("mode", TRACED)
def test_reverse_of_a_bounded_loop(mode):
    def bounded(n: wp.array[int], x: wp.array[float]):
        y = wp.zeros_like(x)

        def body():
            step(n, x, y)
            x.assign(y)

        wp.capture_while(n, body, max_iterations=4)

    call = jax_callable(bounded, graph_mode=mode, **OUTPUTS)
    for n, done in ((2, 2), (4, 4), (9, 4)):  # it ends after 4 in any case
        count = jnp.array([n], jnp.int32)
        assert outside(bounded, n, X)[1] == call(count, X)[1].tolist() == iterated(X, done).tolist()
        found = jax.grad(lambda x, count=count: call(count, x)[1].sum())(X)
        np.testing.assert_allclose(found, jax.grad(lambda x, k=done: iterated(x, k).sum())(X), rtol=1e-6)
    lanes = jax.vmap(jax.grad(lambda x, n: call(n, x)[1].sum()))(np.stack([X, X]), jnp.array([[1], [3]]))
    np.testing.assert_allclose(lanes[0], jax.grad(lambda x: iterated(x, 1).sum())(X), rtol=1e-6)
    np.testing.assert_allclose(lanes[1], jax.grad(lambda x: iterated(x, 3).sum())(X), rtol=1e-6)


@pytest.mark.parametrize("mode", TRACED)
def test_reverse_of_a_branch(mode):
    call = jax_callable(choose, graph_mode=mode, **OUTPUTS)
    gradients = [jax.grad(lambda x, n=n: call(n, x)[1].sum())(X).tolist() for n in N[:2]]
    assert gradients == [[0, 0, 1], X.tolist()]


@pytest.mark.parametrize("mode", TRACED)
def test_reverse_of_an_unbounded_loop_is_refused(mode):
    call = jax_callable(iterate, graph_mode=mode, **OUTPUTS)
    with pytest.raises(DifferentiationError, match="a reverse derivative needs the number of iterations") as caught:
        jax.grad(lambda x: call(N[2], x)[1].sum())(X)
    assert "max_iterations=n" in str(caught.value)
    # What does not depend on the loop has one.
    gradient = jax.grad(lambda x: (call(N[2], jax.lax.stop_gradient(x))[1] * x).sum())(X)
    np.testing.assert_allclose(gradient, iterated(X, 2), rtol=1e-6)


@pytest.mark.parametrize("mode", TRACED)
def test_inside_scan_and_export(mode):
    call = jax_callable(iterate, graph_mode=mode, **OUTPUTS)

    def scanned(n, x):
        return jax.lax.scan(lambda x, _: (call(n, x)[1], None), x, length=2)[0]

    exported = export.export(jax.jit(scanned), disabled_checks=wp.export_checks())(N[2], X)
    exported = export.deserialize(exported.serialize())
    np.testing.assert_allclose(exported.call(N[2], X), iterated(X, 4), rtol=1e-6)


@pytest.mark.parametrize("mode", TRACED)
def test_over_several_devices(mode):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
    call = jax_callable(iterate, graph_mode=mode, **OUTPUTS)
    mapped = jax.shard_map(lambda n, x: tuple(call(n, x)), mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    n, x = jax.jit(mapped)(jnp.array([0, 1, 2, 3], jnp.int32), np.tile(X, 4))
    assert n.tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(x, np.concatenate([iterated(X, k) for k in range(4)]), rtol=1e-6)


@pytest.mark.parametrize("mode", TRACED)
def test_loops_in_loops_and_arrays_made_between_them(mode):
    @wp.kernel
    def count(n: wp.array[int], total: wp.array[int]):
        n[0] = n[0] - 1
        total[0] = total[0] + 1

    def program(n: wp.array[int], total: wp.array[int]):
        def outer():
            inner = wp.clone(n)
            wp.capture_while(inner, lambda: wp.launch(count, 1, [inner, total]))
            wp.capture_if(inner, on_false=lambda: wp.launch(count, 1, [n, total]))

        wp.capture_while(n, outer)

    call = jax_callable(program, num_outputs=2, in_out_argnames=["n", "total"], graph_mode=mode)
    assert jax.jit(call)(N[4], N[0])[1].tolist() == [4 + 3 + 2 + 1 + 4]


def test_the_body_is_traced_once():
    traces = []

    def program(n: wp.array[int], x: wp.array[float]):
        y = wp.zeros_like(x)

        def body():
            traces.append(1)
            step(n, x, y)

        wp.capture_while(n, body)

    jax.jit(jax_callable(program, **OUTPUTS))(N[3], X)
    assert traces == [1]


def test_a_body_may_have_an_argument_of_that_name():
    seen = []

    def body(max_iterations, n):
        seen.append(max_iterations)
        n.fill_(0)

    n = wp.array([2], dtype=int)
    wp.capture_while(n, body, max_iterations=7, n=n)
    assert seen == [7]


def test_what_is_refused():
    def graph(n: wp.array[int], x: wp.array[float]):
        wp.capture_while(n, captured)

    def number(n: wp.array[int], x: wp.array[float]):
        wp.capture_while(x, lambda: None)

    def bound(n: wp.array[int], x: wp.array[float]):
        wp.capture_while(n, lambda: None, max_iterations=-1)

    def an_input(n: wp.array[int], x: wp.array[float]):
        wp.capture_while(n, lambda: n.fill_(0))

    with wp.ScopedCapture() as capture:
        pass
    captured = capture.graph
    for function, error, message in (
        (graph, KernelTypeError, "a graph is of launches outside of JAX"),
        (number, KernelTypeError, "expected an array of one int32"),
        (bound, KernelValueError, "max_iterations: expected a number of iterations, got -1"),
    ):
        for mode in TRACED:
            with pytest.raises(error, match=message):
                jax_callable(function, graph_mode=mode, **OUTPUTS)(N[1], X)
    with pytest.raises(KernelTypeError, match="'n' is an input and cannot be written"):
        jax_callable(an_input)(N[1])
