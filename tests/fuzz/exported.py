"""Programs that mutations.py exports: functions and their arguments."""

import jax.numpy as jnp

import jaxwarp as wp

EXTENT = 12_347  # of every launch, and of nothing else in the file


@wp.kernel
def double(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * 2.0


def twice(x: wp.array[float], y: wp.array[float]):
    between = wp.empty_like(x)
    wp.launch(double, x.shape, [x], [between])
    wp.launch(double, x.shape, [between], [y])


X = jnp.arange(float(EXTENT))
CALLS = [
    (lambda x: wp.jax_kernel(double)(x)[0], X),
    (lambda x: wp.jax_callable(twice, graph_mode=wp.GraphMode.WARP)(x)[0], X),
]
