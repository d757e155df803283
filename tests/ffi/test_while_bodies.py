"""Loops of JAX whose body is one custom call, which XLA may mistake for a tuple of what the loop carries."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import jaxwarp as wp
from jaxwarp import GraphMode


@wp.kernel
def count(n: wp.array[int], x: wp.array[float]):
    n[0] = n[0] - 1
    x[0] = x[0] + 1.0


def program(n: wp.array[int], x: wp.array[float]):
    wp.launch(count, 1, [n, x])


def in_python(n: wp.array[int], x: wp.array[float]):
    n.assign(n.numpy() - 1)
    x.assign(x.numpy() + 1)


OPTIONS = {"num_outputs": 2, "in_out_argnames": ["n", "x"]}
CALLS = {
    "a launch": wp.jax_kernel(count, launch_dims=1, **OPTIONS),
    "a program": wp.jax_callable(program, graph_mode=GraphMode.WARP, **OPTIONS),
    "a call of Python": wp.jax_callable(in_python, graph_mode=GraphMode.NONE, **OPTIONS),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_body_that_is_one_call_is_repeated(what):
    def body(carried):
        return tuple(CALLS[what](*carried))

    start = jnp.array([3], jnp.int32), jnp.ones(1)
    loop = jax.jit(lambda *start: jax.lax.while_loop(lambda carried: carried[0][0] != 0, body, start))
    before, entry = loop.lower(*start).compile().as_text().split("ENTRY")
    assert "custom-call(" in before  # or it never ends
    assert "custom-call(" not in entry
    assert [x.tolist() for x in loop(*start)] == [[0], [4]]
