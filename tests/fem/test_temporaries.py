"""Temporary arrays of `fem`: arrays, as in Warp, with two methods more."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem
from jaxwarp.errors import KernelValueError


@wp.kernel
def fill(x: wp.array[wp.vec3], n: wp.array[int]):
    k = wp.tid()
    x[k] = wp.vec3(float(k))
    n[k] = k


@wp.kernel
def double(x: wp.array[float], y: wp.array[float]):
    k = wp.tid()
    y[k] = 2.0 * x[k]


def test_a_temporary_is_an_array():
    store = fem.TemporaryStore()
    x = fem.borrow_temporary(store, 3, wp.vec3)
    n = fem.borrow_temporary(store, shape=(3,), dtype=int, requires_grad=False)
    wp.launch(fill, 3, inputs=[x, n])
    np.testing.assert_array_equal(x.numpy(), np.repeat([[0.0], [1.0], [2.0]], 3, axis=1))
    n.zero_()
    np.testing.assert_array_equal(n.numpy(), 0)
    assert isinstance(x, fem.Temporary)


def test_a_temporary_like_an_array_has_its_type_and_a_gradient_if_it_has_one():
    like = fem.borrow_temporary_like(wp.zeros((2, 3), dtype=wp.float64, requires_grad=True), None)
    assert (like.shape, like.dtype, like.requires_grad) == ((2, 3), wp.float64, True)


def test_detach_and_release_hold_no_memory():
    x = fem.borrow_temporary(None, 4, float)
    assert x.detach() is x
    x.release()
    np.testing.assert_array_equal(x.numpy(), 0.0)
    seen = weakref.ref(x)
    gc.disable()
    try:
        del x
        assert seen() is None
    finally:
        gc.enable()


def test_a_temporary_in_a_traced_callable():
    def doubled_twice(x: wp.array[float], y: wp.array[float]):
        t = fem.borrow_temporary(None, shape=x.shape, dtype=float)
        wp.launch(double, x.shape[0], inputs=[x, t])
        wp.launch(double, x.shape[0], inputs=[t.detach(), y])
        t.release()

    y = jax.jit(wp.jax_callable(doubled_twice))(jnp.arange(3.0))
    np.testing.assert_array_equal(y[0], [0.0, 4.0, 8.0])


def test_detach_of_a_temporary_that_is_gone_is_refused():
    """It returned None: nothing but the call refers to the array."""
    with pytest.raises(KernelValueError, match=r"borrow_temporary: detach\(\): the temporary is no longer used"):
        fem.borrow_temporary(None, 4, float).detach()
