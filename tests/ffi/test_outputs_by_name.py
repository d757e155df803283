"""`outputs`: calls that return what functions of JAX return, and decorators of plain Python functions."""

import inspect
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError


@wp.jax_kernel(outputs="y")
def double(x: wp.array[float], y: wp.array[float]):
    """Doubles."""
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def both(x: wp.array[float], total: wp.array[float], plus: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(total, 0, x[i])
    plus[i] = x[i] + 1.0


X = jnp.arange(3.0)


def test_one_name_is_one_array():
    assert isinstance(double(X), jax.Array)
    np.testing.assert_array_equal(double(X), 2 * X)
    np.testing.assert_array_equal(jax.jit(jax.vmap(double))(X[None]), 2 * X[None])
    assert jax.grad(lambda x: double(x).sum())(X).tolist() == [2.0, 2.0, 2.0]
    np.testing.assert_array_equal(jax.lax.fori_loop(0, 3, lambda _, x: double(x), X), 8 * X)
    assert (double.__name__, double.__doc__) == ("double", "Doubles.")
    assert next(iter(inspect.signature(double).parameters)) == "x"


def test_the_kernel_of_a_decorated_function():
    assert isinstance(double.kernel, wp.Kernel)
    y = wp.zeros(3, dtype=float)
    wp.launch(double.kernel, dim=3, inputs=[wp.array([1.0, 2.0, 3.0], dtype=float)], outputs=[y])
    assert y.list() == [2.0, 4.0, 6.0]
    assert isinstance(wp.jax_kernel(double.kernel)(X), list)  # as in Warp


def test_several_names_are_a_named_tuple():
    call = wp.jax_kernel(both, outputs=("total", "plus"), output_dims={"total": 1, "plus": 3})
    found = jax.jit(call)(X)
    assert found._fields == ("total", "plus")
    assert found.total.tolist() == [3.0]
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is type(found)
    assert again.plus.tolist() == found.plus.tolist()
    program = export.export(jax.jit(call), disabled_checks=wp.export_checks())(X).serialize()
    assert export.deserialize(program).call(X).total.tolist() == [3.0]
    updating = wp.jax_kernel(both, outputs=("total", "plus"), in_out_argnames="total")
    assert updating(X, jnp.ones(1)).total.tolist() == [4.0]


def test_it_sees_what_is_around_it():
    factor = 3.0

    @wp.jax_kernel(outputs="y", launch_dims=2)
    def scaled(x: wp.array[float], y: wp.array[float]):
        y[wp.tid()] = wp.static(factor) * x[wp.tid()]

    assert scaled(X).tolist() == [0.0, 3.0]

    @wp.jax_kernel(outputs="y")
    @wp.kernel(module_options={"max_unroll": 2})
    def same(x: wp.array[float], y: wp.array[float]):
        y[wp.tid()] = x[wp.tid()]

    np.testing.assert_array_equal(same(X), X)


def test_structs_and_updates():
    @wp.struct
    class Ball:
        height: wp.array[float]

    @wp.jax_kernel(outputs="ball", in_out_argnames=["ball"], launch_dims=2)
    def fall(ball: Ball):
        ball.height[wp.tid()] -= 1.0

    assert fall(Ball(height=jnp.ones(2))).height.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("mode", [wp.GraphMode.JAX, wp.GraphMode.WARP, wp.GraphMode.NONE])
def test_callables(mode):
    @wp.jax_callable(outputs="out", graph_mode=mode)
    def quadruple(x: wp.array[float], out: wp.array[float]):
        between = wp.empty_like(x)
        wp.launch(double.kernel, dim=x.shape, inputs=[x], outputs=[between])
        wp.launch(double.kernel, dim=x.shape, inputs=[between], outputs=[out])

    np.testing.assert_array_equal(jax.jit(quadruple)(X), 4 * X)
    named = wp.jax_callable(quadruple.func, outputs=["out"])
    np.testing.assert_array_equal(named(X).out, 4 * X)


def test_names_that_do_not_fit():
    def refused(text, hint, *args, **options):
        with pytest.raises((KernelTypeError, KernelValueError)) as caught:
            wp.jax_kernel(*args, **options)
        assert caught.value.message == text
        assert hint in caught.value.hint

    listed = "the arguments are x, total, plus"
    refused(f"kernel both: outputs: no argument is named 'pluss'; {listed}", "plus", both, outputs="pluss")
    order = "outputs are the arguments of in_out_argnames and the last ones, in the order of the arguments"
    wrong = f"kernel both: outputs: expected 'plus', got 'total': {order}"
    refused(wrong, "in_out_argnames=['total']", both, outputs="total")
    swapped = f"kernel both: outputs: expected 'total', 'plus', got 'plus', 'total': {order}"
    refused(swapped, "in this order", both, outputs=("plus", "total"))
    counted = "kernel both: outputs names the outputs, and num_outputs=2 counts them"
    refused(counted, "leave out num_outputs", both, num_outputs=2, outputs=("total", "plus"))
    refused("kernel both: outputs: expected a name or a tuple of names, got 1", 'outputs="out"', both, outputs=1)
    refused("jax_kernel: expected a kernel, got <jax_kernel double>", "pass its attribute kernel", double)
    with pytest.raises(KernelTypeError, match=r"launch: expected a kernel[^$]*pass its attribute kernel"):
        wp.launch(double, dim=3, inputs=[X])
    plain = "jax_kernel: expected a kernel, got the Python function plain"
    refused(plain, "@jaxwarp.jax_kernel(outputs='b')", _plain())


def test_the_hint_for_an_output_that_is_missing_has_the_option_that_was_used():
    @wp.kernel
    def split(x: wp.array[float], low: wp.array[float], high: wp.array[float]):
        i = wp.tid()
        low[i] = wp.min(x[i], 0.0)
        high[i] = wp.max(x[i], 0.0)

    for options, hint in (({"outputs": "high"}, "outputs=('low', 'high')"), ({}, "jax_kernel(split, num_outputs=2)")):
        with pytest.raises(KernelTypeError) as caught:
            wp.jax_kernel(split, **options)(X)
        assert caught.value.hint == f"the kernel writes to low, high: {hint}"


def _plain():
    def plain(a: wp.array[float], b: wp.array[float]):
        b[wp.tid()] = a[wp.tid()]

    return plain
