"""What a compiled program costs: XLA's figures of the rest, and those of the launches, added by hand."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jaxwarp as wp

pytestmark = pytest.mark.release_mode("checks are part of no count")
N = 1000


@wp.kernel
def axpy(a: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a * x[i] + y[i]


@wp.kernel
def waves(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.0:
        out[i] = wp.exp(x[i]) + wp.sin(x[i])
    else:
        out[i] = 2.0 * x[i]


@wp.kernel
def root(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    y = x[i]
    while y * y > x[i]:
        y = 0.5 * y
    out[i] = y


call, call_waves, call_root = wp.jax_kernel(axpy), wp.jax_kernel(waves), wp.jax_kernel(root)
X = jnp.ones(N)


def compiled(function, *operands):
    return jax.jit(function).lower(*operands).compile()


def cost(function, *operands):
    return wp.cost_analysis(compiled(function, *operands))


def test_a_launch_alone():
    found = cost(lambda x: call(2.0, x, x)[0], X)
    assert found["flops"] == found["flops at least"] == 2 * N
    assert found["bytes accessed"] == 3 * 4 * N
    assert found["launches"] == 1


def test_beside_what_xla_does():
    plain = compiled(lambda x: 3.0 * x + 1.0, X).cost_analysis()
    found = cost(lambda x: 3.0 * call(2.0, x, x)[0] + 1.0, X)
    assert found["flops"] == plain["flops"] + 2 * N
    assert found["bytes accessed"] == plain["bytes accessed"] + 3 * 4 * N


def test_without_launches_it_is_xlas():
    program = compiled(lambda x: jnp.exp(x) * 3.0, X)
    found = wp.cost_analysis(program)
    assert found["launches"] == 0
    for name in ("flops", "transcendentals", "bytes accessed"):
        assert found[name] == program.cost_analysis().get(name, 0)


def test_the_least_and_the_most():
    found = cost(lambda x: call_waves(x)[0], X)
    assert (found["flops at least"], found["flops"]) == (N, N)
    assert (found["transcendentals at least"], found["transcendentals"]) == (0, 2 * N)
    assert cost(lambda x: call_root(x)[0], X)["flops"] == math.inf


def test_a_launch_that_xla_drops_costs_nothing():
    assert cost(lambda x: (call(2.0, x, x)[0], x)[1], X)["launches"] == 0


def test_batches_gradients_and_loops():
    batch = jnp.ones((5, N))
    assert cost(jax.vmap(lambda x: call(2.0, x, x)[0]), batch)["flops"] == 5 * 2 * N
    gradient = cost(jax.grad(lambda x: call(2.0, x, x)[0].sum()), X)
    assert gradient["launches"] == 1
    assert gradient["flops"] >= N

    def steps(x, turns):
        return lax.fori_loop(0, turns, lambda _, x: call(2.0, x, x)[0], x)

    assert cost(lambda x: steps(x, 7), X)["flops"] == cost(lambda x: steps(x, 70), X)["flops"]


def test_what_is_no_program_is_refused():
    with pytest.raises(wp.KernelError, match=r"cost_analysis: expected a compiled function, got <") as error:
        wp.cost_analysis(lambda x: x)
    assert "compile()" in error.value.hint
    with pytest.raises(wp.KernelError, match="expected a compiled function"):
        wp.cost_analysis(jax.jit(lambda x: x).lower(X))


def test_a_launch_of_unknown_cost_is_refused():
    @wp.kernel
    def pick(x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = x[int(x[i])]

    program = compiled(lambda x: wp.jax_kernel(pick, mode="debug")(x)[0], X)
    with pytest.raises(wp.KernelError, match="a launch of unknown cost"):
        wp.cost_analysis(program)
