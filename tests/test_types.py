"""What type checkers know of results: `make lint` has pyright read this file, and the tests run it."""

from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp


@wp.kernel
def double(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.struct
class Ball:
    height: wp.array[float]


@wp.kernel
def fall(ball: Ball):
    i = wp.tid()
    ball.height[i] -= 1.0


def twice(x: wp.array[float], y: wp.array[float]):
    wp.launch(double, dim=x.shape, inputs=[x, y])


def test_results_of_calls():
    (y,) = wp.jax_kernel(double)(jnp.ones(3))
    total: jax.Array = y.sum()
    assert total == 6
    (z,) = wp.jax_callable(twice, num_outputs=1)(jnp.ones(3))
    assert z.shape == (3,)
    (ball,) = wp.jax_kernel(fall, in_out_argnames=["ball"], launch_dims=2)(Ball(height=jnp.ones(2)))
    assert ball.height.tolist() == [0, 0]


def test_arrays_outside_of_jax():
    a = wp.zeros(3, dtype=float)
    wp.launch(double, dim=3, inputs=[wp.array([1.0, 2.0, 3.0], dtype=float), a])
    assert_type(a.numpy(), np.ndarray)
    assert_type(a.list(), list[Any])
    assert_type(a.shape, tuple[int, ...])
    assert_type(a.ndim, int)
    assert_type(a.to_jax(), jax.Array)
    assert_type(a.reshape((3, 1)).numpy(), np.ndarray)
    assert_type(wp.from_numpy(a.numpy()).list(), list[Any])
    assert a.list() == [2, 4, 6]
    same: wp.array[float] = wp.clone(a)
    assert same.size == 3


def _refused_by_checkers(a: wp.array[float]):
    """Is never run: an `ignore` that nothing needs is an error for pyright."""
    wp.zeros(3, dtyp=float)  # pyright: ignore[reportCallIssue]
    wp.launch(double, dim=3, input=[a, a])  # pyright: ignore[reportCallIssue]
    wp.jax_kernel(double, vmap_method="nonsense")  # pyright: ignore[reportArgumentType]
    wp.jax_kernel(double, mode="debgu")  # pyright: ignore[reportArgumentType]
    wp.jax_callable(twice, vmap_method="nonsense")  # pyright: ignore[reportArgumentType]
    wp.geometry.neighbors(a, 0.1, 3, 4)  # pyright: ignore[reportCallIssue]
    wp.geometry.neighbours(a, 0.1, 3)  # pyright: ignore[reportAttributeAccessIssue]
    wp.config.mode = "debgu"  # pyright: ignore[reportAttributeAccessIssue]
    wp.config.max_unrol = 8  # pyright: ignore[reportAttributeAccessIssue]
    a.nump()  # pyright: ignore[reportAttributeAccessIssue]


def test_settings_are_known():
    assert_type(wp.config.max_unroll, int)
    wp.config.checks = ["bounds", "races"]
    wp.config.checks = wp.config.SETTINGS["checks"].default
