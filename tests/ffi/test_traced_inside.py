"""Functions that JAX traces inside a `jax_callable`: they run once, so they must have no effect on arrays outside."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import GraphMode, jax_callable

X = np.arange(3, dtype=np.float32)


@wp.kernel
def increase(b: wp.array[float]):
    i = wp.tid()
    b[i] = b[i] + 1.0


@wp.kernel
def double(a: wp.array[float], b: wp.array[float]):
    i = wp.tid()
    b[i] = 2.0 * a[i]


def launch(b):
    wp.launch(increase, dim=b.shape, inputs=[b])
    return 0


EFFECTS = {
    "launch": launch,
    "launch on a part": lambda b: launch(b[1:]),
    "fill_": lambda b: b.fill_(1.0).ndim,
    "assign": lambda b: b.assign(X).ndim,
    "item": lambda b: b.__setitem__(slice(0, 2), X[:2]),
    "copy": lambda b: wp.copy(b, X),
}
TRACED = {
    "fori_loop": lambda effect: jax.lax.fori_loop(0, 3, lambda _, x: (effect(), x)[1], 0),
    "scan": lambda effect: jax.lax.scan(lambda x, _: (x, (effect(), x)[1]), 0, None, 3),
    "cond": lambda effect: jax.lax.cond(True, lambda: (effect(), 0)[1], lambda: 0),
    "jit": lambda effect: jax.jit(lambda: (effect(), 0)[1])(),
    "vmap": lambda effect: jax.vmap(lambda x: (effect(), x)[1])(jnp.arange(3)),
    "grad": lambda effect: jax.grad(lambda x: (effect(), x)[1])(1.0),
}
MODES = [GraphMode.JAX, GraphMode.WARP, GraphMode.NONE]


@pytest.mark.parametrize("mode", MODES, ids=lambda m: GraphMode(m).name)
@pytest.mark.parametrize("traced", [t for t in TRACED if t != "fori_loop"])
def test_a_launch_in_a_traced_function_is_refused(mode, traced):
    expect_refusal(mode, "fori_loop", "launch")
    expect_refusal(mode, traced, "launch")


@pytest.mark.parametrize("mode", MODES, ids=lambda m: GraphMode(m).name)
@pytest.mark.parametrize("effect", [e for e in EFFECTS if e != "launch"])
def test_every_way_of_writing_is_refused(mode, effect):
    expect_refusal(mode, "fori_loop", effect)


def expect_refusal(mode, traced, effect):
    def function(b: wp.array[float]):
        TRACED[traced](lambda: EFFECTS[effect](b))

    call = jax_callable(function, num_outputs=1, in_out_argnames=["b"], graph_mode=mode)
    with pytest.raises(Exception, match=r"array 'b.*' cannot be written.* in a function that JAX traces"):
        jax.block_until_ready(jax.jit(call)(X))


def test_arrays_of_a_traced_function_are_its_own():
    def function(a: wp.array[float], out: wp.array[float]):
        def body(_, x):
            made = wp.zeros(a.shape, dtype=float)
            wp.launch(double, dim=a.shape, inputs=[x], outputs=[made])
            made.assign(made.value + a)
            return made.value

        out.assign(jax.lax.fori_loop(0, 3, body, a.value))

    (out,) = jax.jit(jax_callable(function))(X)
    np.testing.assert_array_equal(out, 15.0 * X)  # x -> 2 x + a


def test_a_callable_may_itself_be_traced_inside_loops():
    def function(b: wp.array[float]):
        for _ in range(2):
            launch(b)

    for mode in MODES:
        call = jax_callable(function, num_outputs=1, in_out_argnames=["b"], graph_mode=mode)
        found = jax.jit(lambda x, call=call: jax.lax.fori_loop(0, 3, lambda _, x: call(x)[0], x))(X)
        np.testing.assert_array_equal(found, X + 6.0)
