"""Kernels of equal content share much, and yet an error names the line of the kernel that was launched."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import define

import jaxwarp as wp
from jaxwarp.errors import DifferentiationError, KernelError

# "here" marks the line that every derivative is refused for.
SHIFT = """
@wp.func
def half(x: wp.array[float], i: int):
    return 0.5 * x[i + 1]  # here

@wp.kernel
def shift(a: wp.array[float]):
    i = wp.tid()
    a[i] = half(a, i)
"""

# The same, with other lines and other names of what is inlined.
LATER = "\n\n\n" + SHIFT


def line_of(source: str) -> int:
    return 1 + next(n for n, text in enumerate(source.splitlines()) if "# here" in text)


def moved(kernel):
    return wp.jax_kernel(kernel, in_out_argnames=["a"], launch_dims=3)


def on_a_tape(kernel):
    a = wp.array(np.ones(4, np.float32), requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=3, inputs=[a])
    tape.backward(grads={a: wp.ones(4)})


def in_a_callable(kernel):
    def program(x: wp.array[float], y: wp.array[float]):
        wp.copy(y, x)
        wp.launch(kernel, dim=3, inputs=[y])

    jax.grad(lambda x: wp.jax_callable(program)(x)[0].sum())(jnp.ones(4))


WAYS = {
    "eager": lambda k: jax.grad(lambda a: moved(k)(a)[0].sum())(jnp.ones(4)),
    "jit": lambda k: jax.jit(jax.grad(lambda a: moved(k)(a)[0].sum()))(jnp.ones(4)),
    "jvp": lambda k: jax.jvp(lambda a: moved(k)(a)[0], (jnp.ones(4),), (jnp.ones(4),)),
    "vmap": lambda k: jax.vmap(jax.grad(lambda a: moved(k)(a)[0].sum()))(jnp.ones((2, 4))),
    "scan": lambda k: jax.grad(lambda a: jax.lax.scan(lambda c, _: (moved(k)(c)[0], None), a, None, 2)[0].sum())(
        jnp.ones(4)
    ),
    "tape": on_a_tape,
    "callable": in_a_callable,
}


@pytest.mark.parametrize("way", WAYS)
def test_line_of_the_kernel_that_was_launched(way):
    """Each in turn, and the first again."""
    sources = [SHIFT, LATER, SHIFT.replace("\n@wp.kernel", "\n\n@wp.kernel")]
    kernels = [define(source)["shift"] for source in sources]
    assert len({k.ir().digest for k in kernels}) == 1
    for k, source in [*zip(kernels, sources, strict=True), (kernels[0], sources[0])]:
        with pytest.raises(DifferentiationError) as caught:
            WAYS[way](k)
        loc = caught.value.loc
        assert (loc.file, loc.line) == (k.func.__code__.co_filename, line_of(source))
        assert "0.5 * x[i + 1]" in str(caught.value)
        assert loc.inlined_at.line == k.func.__code__.co_firstlineno + 3


def test_line_of_a_sharding_rule():
    source = """
@wp.kernel
def spread(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[0]
"""
    for text in (source, "\n\n" + source):
        k = define(text)["spread"]
        with pytest.raises(KernelError) as caught:
            wp.jax_kernel(k, sharding_rule="i -> i")(jnp.ones(4))
        assert caught.value.loc.file == k.func.__code__.co_filename
        assert caught.value.loc.line == k.func.__code__.co_firstlineno + 3


def test_dimensions_that_compare_equal_to_others_are_refused_also_later():
    @wp.kernel
    def double(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = 2.0 * x[i]

    f, x = wp.jax_kernel(double), jnp.ones(3)
    for wrong in (True, 1.0, (True,), np.bool_(True)):
        for _ in range(2):
            with pytest.raises(KernelError, match="launch_dims: expected an integer"):
                f(x, launch_dims=wrong, output_dims=3)
            with pytest.raises(KernelError, match="output_dims: expected an integer"):
                f(x, output_dims=wrong)
            with pytest.raises(KernelError, match="output_dims: expected an integer"):
                f(x, output_dims={"y": wrong})
            f(x, launch_dims=1, output_dims={"y": 1})
            f(x, launch_dims=(1,), output_dims=1)

    def program(x: wp.array[float], y: wp.array[float]):
        wp.launch(double, dim=1, inputs=[x, y])

    g = wp.jax_callable(program)
    g(x, output_dims=1)
    with pytest.raises(KernelError, match="output_dims: expected an integer"):
        g(x, output_dims=True)


@pytest.mark.parametrize("bounds", ["10**30", "-(10**30), 10**30", "0, 10**30, 10**29", "10**30, 0, -1"])
def test_bounds_of_a_loop_beyond_every_integer(bounds):
    k = define(f"@wp.kernel\ndef k(y: wp.array[float]):\n    for q in range({bounds}):\n        y[0] = 1.0\n")["k"]
    with pytest.raises(KernelError, match="does not fit in int32") as caught:
        k.ir()
    assert caught.value.loc.line == 3
    assert caught.value.hint


def test_a_loop_of_more_iterations_than_python_counts():
    loop = "for q in range(wp.int64(-(2**62) - 1), wp.int64(2**62)):"
    k = define(f"@wp.kernel\ndef k(y: wp.array[float]):\n    {loop}\n        y[0] = 1.0\n")["k"]
    assert "for" in str(k.ir())
