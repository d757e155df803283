"""The warning where a loop copies its state each iteration: there where the compiled program copies, and only there."""

from __future__ import annotations

import re
import warnings

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jaxwarp as wp

SIZE = 1 << 18


@wp.kernel
def blur(u: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = 0.5 * (u[i] + u[(i + 1) % u.shape[0]])


@wp.kernel
def mean(u: wp.array[float], v: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = 0.5 * (u[i] + v[i])


@wp.kernel
def approach(u: wp.array[float], v: wp.array[float]):
    i = wp.tid()
    v[i] = 0.5 * (u[i] + v[i])


jax_blur, jax_mean = wp.jax_kernel(blur), wp.jax_kernel(mean)
jax_approach = wp.jax_kernel(approach, in_out_argnames=["v"])


def smooth(u):
    return jax_blur(u)[0]


def middle(u, v):
    return jax_mean(u, v)[0]


def repeated(step, start, turns=12, unroll=1):
    return lax.scan(lambda carry, _: (step(carry), None), start, None, length=turns, unroll=unroll)[0]


def over_two(step, **how):
    return lambda u: repeated(step, (u, 2 * u), **how)


COPY = {
    "fori_loop": lambda u: lax.fori_loop(0, 12, lambda _, u: smooth(u), u),
    "two turns": lambda u: lax.fori_loop(0, 2, lambda _, u: smooth(u), u),
    "turns that data decides": lambda u: lax.fori_loop(0, u[0].astype(int), lambda _, u: smooth(u), u),
    "while_loop": lambda u: lax.while_loop(lambda c: c[1] < 9, lambda c: (smooth(c[0]), c[1] + 1), (u, 0))[0],
    "scan": lambda u: repeated(smooth, u),
    "a function that is jitted": lambda u: repeated(jax.jit(smooth), u),
    "a function that is checkpointed": lambda u: repeated(jax.checkpoint(smooth), u),
    "two stages that both read the state": lambda u: repeated(lambda u: middle(u, smooth(u)), u),
    "beside a constant": over_two(lambda c: (middle(*c), c[1])),
    "the state but one": over_two(lambda c: (c[1], middle(*c))),
    "the state but one, twice an iteration": over_two(lambda c: (c[1], middle(*c)), unroll=2),
    "stacked as well": lambda u: lax.scan(lambda u, _: (smooth(u),) * 2, u, None, length=3),
    "a loop in a loop": lambda u: repeated(lambda u: repeated(smooth, u, 3), u, 5),
    "vmap": lambda u: jax.vmap(lambda u: repeated(smooth, u))(u.reshape(4, -1)),
}
NO_COPY = {
    "no loop": smooth,
    "one turn": lambda u: repeated(smooth, u, 1),
    "two launches an iteration": lambda u: repeated(smooth, u, unroll=2),
    "an odd number of turns": lambda u: repeated(smooth, u, 13, unroll=2),
    "changed by XLA after": lambda u: repeated(lambda u: 0.9 * smooth(u), u),
    "changed by XLA before": lambda u: repeated(lambda u: smooth(0.9 * u), u),
    "two stages": lambda u: repeated(lambda u: smooth(smooth(u)), u),
    "beside a constant, twice an iteration": over_two(lambda c: (middle(*c), c[1]), unroll=2),
    "the state but one, three times an iteration": over_two(lambda c: (c[1], middle(*c)), unroll=3),
    "the state but one, four times an iteration": over_two(lambda c: (c[1], middle(*c)), unroll=4),
    "in place": over_two(lambda c: (c[0], jax_approach(*c)[0])),
    "the state but one in place": over_two(lambda c: (c[1], jax_approach(*c[::-1])[0]), unroll=2),
}


def warned(function, *operands):
    """The warnings about loops, and the program, lowered anew."""
    jax.clear_caches()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        lowered = jax.jit(function).lower(*operands)
    return [w for w in found if w.category is wp.PerformanceWarning], lowered


def copies(lowered) -> bool:
    """Whether anything but the entry of a compiled program copies an array of the state's size."""
    rest = lowered.compile().as_text().partition("ENTRY")[0]
    shapes = re.findall(r"= f32\[([\d,]+)\]\S* copy\(", rest)
    return any(len(shape) > 5 for shape in shapes)


@pytest.mark.release_mode("the copies of debug mode are not the launch's")
@pytest.mark.parametrize("name", COPY)
def test_there(name):
    found, lowered = warned(COPY[name], jnp.ones(SIZE))
    assert len(found) == 1
    assert copies(lowered)


@pytest.mark.parametrize("name", NO_COPY)
def test_not_there(name):
    found, lowered = warned(NO_COPY[name], jnp.ones(SIZE))
    assert found == []
    if wp.config.mode != "debug":
        assert not copies(lowered)


def test_small_states_are_not_worth_a_word():
    assert warned(COPY["scan"], jnp.ones(SIZE - 1))[0] == []


@pytest.mark.release_mode("no warning in debug mode")
def test_it_names_the_kernel_the_line_and_the_cure():
    (warning,), _ = warned(COPY["scan"], jnp.ones(SIZE))
    assert warning.filename == __file__
    assert warning.lineno == smooth.__code__.co_firstlineno + 1
    assert str(warning.message).startswith("kernel blur: a loop copies its state in every iteration.")
    assert "twice as many steps an iteration (`unroll=2`" in str(warning.message)
    (warning,), _ = warned(COPY["the state but one"], jnp.ones(SIZE))
    assert "`unroll=3`" in str(warning.message)


@pytest.mark.release_mode("no warning in debug mode")
def test_once_for_each_line():
    jax.clear_caches()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for n in (SIZE, 2 * SIZE, 3 * SIZE):
            jax.jit(COPY["scan"])(jnp.ones(n))
    assert len(found) == 1


@pytest.mark.release_mode("no warning in debug mode")
def test_of_gradients_too():
    found, _ = warned(jax.grad(lambda u: COPY["scan"](u).sum()), jnp.ones(SIZE))
    assert {w.lineno for w in found} == {smooth.__code__.co_firstlineno + 1}


@pytest.mark.release_mode("no warning in debug mode")
def test_as_an_error_it_ends_the_call():
    jax.clear_caches()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(wp.PerformanceWarning):
            jax.jit(COPY["scan"])(jnp.ones(SIZE))
        assert jax.jit(smooth)(jnp.ones(SIZE))[0] == 1
