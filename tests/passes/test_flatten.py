"""Launches over short rows run over their elements where that is the same, and as they are where it is not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.ffi.launch.primitive import launch_p

RNG = np.random.default_rng(0)


@wp.kernel
def twice(x: wp.array2d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    o[i, j] = 2.0 * x[i, j] + 1.0


@wp.kernel
def weighted(x: wp.array3d[float], w: wp.array[float], s: float, o: wp.array3d[float]):
    i, j, k = wp.tid()
    total = float(0.0)  # noqa: UP018  (a variable of loops)
    for n in range(w.shape[0]):
        total += w[n] * x[i, j, k]
    if x[i, j, k] > 0.5:
        total = total * s
    o[i, j, k] = total


@wp.kernel
def update(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = y[i, j] * 0.5 + x[i, j]


@wp.kernel
def adding(x: wp.array2d[float], total: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(total, 0, x[i, j])


@wp.kernel
def rows(x: wp.array2d[float], total: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(total, i, x[i, j])


@wp.kernel
def transposed(x: wp.array2d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    o[j, i] = x[i, j]


@wp.kernel
def numbered(x: wp.array2d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    o[i, j] = x[i, j] + float(j)


@wp.kernel
def sized(x: wp.array2d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    o[i, j] = x[i, j] * float(x.shape[1])


@wp.kernel
def carried(x: wp.array2d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    k = j
    if x[i, j] > 0.5:
        k = 0
    o[i, j] = x[i, k]


@wp.kernel
def vectors(x: wp.array2d[wp.vec3], o: wp.array2d[wp.vec3]):
    i, j = wp.tid()
    o[i, j] = 2.0 * x[i, j]


@wp.kernel
def diagonal(x: wp.array3d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    o[i, j] = x[i, j, j]


def ranks(call, *args):
    """The ranks of the grids of the launches in the program."""
    text = jax.jit(call).lower(*args).as_text()
    return [line.split("grid = dense<")[1].split("tensor<")[1].split("x")[0] for line in text.splitlines()
            if "@jaxwarp_launch" in line]  # fmt: skip


def floats(*shape):
    return RNG.uniform(0, 1, shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1000, 3), (7, 1), (2, 63), (1, 3), (0, 3), (5, 0), (1, 1), (50, 64)], ids=str)
def test_elements(shape):
    x = floats(*shape)
    call = lambda x: wp.jax_kernel(twice)(x)[0]  # noqa: E731
    np.testing.assert_array_equal(call(x), 2 * x + 1)
    short = shape[0] > 1 and 0 < shape[1] < 64
    assert ranks(call, x) == ["1" if short else "2"]


def test_three_axes_become_one():
    x, w = floats(20, 4, 3), np.array([0.5, 0.25, 1.0], np.float32)
    call = lambda x, w, s: wp.jax_kernel(weighted)(x, w, s)[0]  # noqa: E731
    want = np.where(x > 0.5, x * 1.75 * 3, x * 1.75)
    np.testing.assert_allclose(call(x, w, jnp.float32(3)), want, rtol=1e-6)
    assert ranks(call, x, w, jnp.float32(3)) == ["1"]
    batch = jax.vmap(call, in_axes=(0, None, 0))(np.stack([x, 1 - x]), w, np.array([3, 0.5], np.float32))
    np.testing.assert_allclose(batch[0], want, rtol=1e-6)
    gradient = jax.grad(lambda x: call(x, w, jnp.float32(3)).sum())(x)
    np.testing.assert_allclose(gradient, np.where(x > 0.5, 1.75 * 3, 1.75), rtol=1e-6)


def test_updated_in_place():
    """Left as it is: XLA would copy a view of the donated buffer."""
    x, y = floats(300, 3), floats(300, 3)
    call = wp.jax_kernel(update, in_out_argnames=["y"])
    np.testing.assert_array_equal(call(x, y)[0], y * np.float32(0.5) + x)
    assert ranks(lambda x, y: call(x, y)[0], x, y) == ["2"]
    copied = jax.jit(lambda x, y: call(x, y)[0], donate_argnums=1).lower(x, y).compile().as_text()
    assert "copy(" not in copied


def test_sums_of_all():
    x = np.round(floats(300, 3) * 64)
    call = wp.jax_kernel(adding, output_dims=1)
    assert call(x)[0] == x.sum()
    assert ranks(lambda x: call(x)[0], x) == ["1"]


def test_vectors_have_their_components():
    x = floats(40, 3, 3)
    call = lambda x: wp.jax_kernel(vectors)(x)[0]  # noqa: E731
    np.testing.assert_array_equal(call(x), 2 * x)
    assert ranks(call, x) == ["1"]


@pytest.mark.parametrize(
    ("kernel", "want", "dims"),
    [
        (rows, lambda x: np.round(x * 64).sum(1) / 64, 30),
        (transposed, lambda x: x.T, (3, 30)),
        (numbered, lambda x: x + np.arange(3, dtype=np.float32), (30, 3)),
        (sized, lambda x: x * 3, (30, 3)),
        (carried, lambda x: np.where(x > 0.5, x[:, :1], x), (30, 3)),
    ],
    ids=["rows", "transposed", "numbered", "sized", "carried"],
)
def test_indices_that_say_something_else(kernel, want, dims):
    x = np.round(floats(30, 3) * 64) / 64
    call = wp.jax_kernel(kernel, launch_dims=(30, 3), output_dims=dims)
    np.testing.assert_array_equal(call(x)[0], want(x))
    assert ranks(lambda x: call(x)[0], x) == ["2"]


def test_arrays_wider_than_the_launch():
    """Rows of five of which threads take three, and a thread index that is used twice."""
    x = floats(30, 5)
    call = wp.jax_kernel(twice, launch_dims=(30, 3), output_dims=(30, 3))
    np.testing.assert_array_equal(call(x)[0], 2 * x[:, :3] + 1)
    assert ranks(lambda x: call(x)[0], x) == ["2"]
    y = floats(30, 3, 3)
    call = wp.jax_kernel(diagonal, launch_dims=(30, 3), output_dims=(30, 3))
    np.testing.assert_array_equal(call(y)[0], np.einsum("ijj->ij", y))
    assert ranks(lambda y: call(y)[0], y) == ["2"]


def test_the_launch_itself_stays_as_it_is():
    """Only its lowering changes: what transformations see has both axes."""
    (equation,) = [e for e in jax.make_jaxpr(wp.jax_kernel(twice))(floats(30, 3)).eqns if e.primitive is launch_p]
    assert equation.params["launch"].grid == (30, 3)
