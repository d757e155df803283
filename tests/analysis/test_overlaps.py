"""Launches on parts of one array: taken where no element is shared, refused where one is; and rules with fma."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.memory.region import array_region


@wp.kernel
def double(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def double_rows(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = 2.0 * x[i, j]


def test_regions_overlap_exactly_as_numpy_says():
    rng = np.random.default_rng(3)
    whole = np.zeros((6, 8, 5), np.float32)

    def part():
        starts, stops = ([int(rng.integers(low, n + low)) for n in whole.shape] for low in (0, 1))
        steps = rng.integers(1, 4, whole.ndim).tolist()
        return whole[tuple(map(slice, starts, stops, steps))]

    found = set()
    for _ in range(600):
        a, b = part(), part()
        touched = set(range(whole.size))
        for view in (a, b):
            own = np.zeros(whole.size, bool)
            offsets = (view.ctypes.data - whole.ctypes.data) // 4
            index = np.array(offsets)
            for n, s in zip(view.shape, view.strides, strict=True):
                index = index[..., None] + np.arange(n) * (s // 4)
            own[index.ravel()] = True
            touched &= set(np.flatnonzero(own))
        expected = bool(touched)
        assert array_region(a).overlaps(array_region(b)) == expected
        found.add(expected)
    assert found == {True, False}


def test_interleaved_parts_of_one_numpy_array():
    b = np.arange(10, dtype=np.float32)
    expected = b.copy()
    expected[1::2] = 2 * b[::2]
    wp.launch(double, dim=5, inputs=[b[::2], b[1::2]])
    np.testing.assert_array_equal(b, expected)
    m = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected = m.copy()
    expected[:, 3:] = 2 * m[:, :3]
    wp.launch(double_rows, dim=(4, 3), inputs=[m[:, :3], m[:, 3:]])
    np.testing.assert_array_equal(m, expected)


SHARED = [(slice(0, 5), slice(4, 9)), (slice(0, 9, 2), slice(2, 7))]


@pytest.mark.parametrize("parts", SHARED)
def test_parts_that_share_an_element_are_refused(parts):
    b = np.arange(10, dtype=np.float32)
    with pytest.raises(wp.errors.KernelTypeError, match="shares memory with argument 'x'"):
        wp.launch(double, dim=5, inputs=[b[parts[0]], b[parts[1]]])
    np.testing.assert_array_equal(b, np.arange(10))


def test_gradient_of_interleaved_parts():
    a = wp.array(np.arange(6, dtype=np.float32), requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(double, dim=3, inputs=[a[::2], a[1::2]])
    seed = wp.array(np.array([1, 10, 2, 20, 3, 30], np.float32))
    tape.backward(grads={a: seed})
    # What was in the odd places is overwritten; the even ones have what they are, and twice what they are read for.
    np.testing.assert_array_equal(a.grad.numpy(), [21, 0, 42, 0, 63, 0])


def halves(x: wp.array[float], out: wp.array[float]):
    wp.copy(out[:2], x)
    wp.launch(double, dim=2, inputs=[out[:2]], outputs=[out[2:]])


@pytest.mark.parametrize("mode", list(wp.GraphMode)[:3])
def test_parts_of_one_array_in_a_callable(mode):
    call = wp.jax_callable(halves, output_dims=4, graph_mode=mode)
    x = jnp.array([1.0, 3.0])
    np.testing.assert_array_equal(call(x)[0], [1, 3, 2, 6])
    np.testing.assert_array_equal(jax.jit(jax.vmap(call))(x[None])[0], [[1, 3, 2, 6]])
    if mode != wp.GraphMode.NONE:
        np.testing.assert_array_equal(jax.grad(lambda x: (call(x)[0] * jnp.arange(4.0)).sum())(x), [4, 7])


def interleaved(x: wp.array[float], out: wp.array[float]):
    wp.copy(out, x)
    wp.launch(double, dim=2, inputs=[out[::2]], outputs=[out[1::2]])


def test_interleaved_parts_in_a_callable():
    call = wp.jax_callable(interleaved)
    np.testing.assert_array_equal(call(jnp.arange(4.0))[0], [0, 0, 2, 4])


@pytest.mark.parametrize("mode", [wp.GraphMode.JAX, wp.GraphMode.WARP])
def test_parts_that_overlap_in_a_callable_are_refused(mode):
    def overlapping(x: wp.array[float], out: wp.array[float]):
        wp.launch(double, dim=2, inputs=[out[:3]], outputs=[out[2:]])

    with pytest.raises(wp.errors.KernelTypeError, match="or parts of one that overlap"):
        wp.jax_callable(overlapping, output_dims=4, graph_mode=mode)(jnp.ones(2))


@wp.func
def weighted(x: float, s: float):
    return x * s + x


@wp.func_grad(weighted)
def adj_weighted(x: float, s: float, r: float):
    wp.adjoint[x] += wp.fma(r, s, r)
    wp.adjoint[s] += wp.fma(x, r, 0.0 * r)


@wp.kernel
def use_weighted(x: wp.array[float], s: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = weighted(x[i], s[i])


def test_fma_in_a_rule():
    x, s = jnp.array([1.0, 2.0, -3.0]), jnp.array([0.5, 4.0, 2.0])
    f = wp.jax_kernel(use_weighted)
    dx, ds = jax.grad(lambda x, s: f(x, s)[0].sum(), (0, 1))(x, s)
    np.testing.assert_allclose(dx, s + 1)
    np.testing.assert_allclose(ds, x)
    _, moved = jax.jvp(lambda x: f(x, s)[0], (x,), (jnp.ones(3),))
    np.testing.assert_allclose(moved, s + 1)


@wp.func
def pair(x: float, s: float):
    return x * s, x


@wp.func_grad(pair)
def adj_pair(x: float, s: float, r: float, t: float):
    wp.adjoint[x] += wp.fma(r, s, t)


@wp.kernel
def use_pair(x: wp.array[float], s: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    _, b = pair(x[i], s[i])
    z[i] = b


def test_a_cotangent_of_zero_counts_for_nothing_in_fma_also_times_infinity():
    """z does not depend on s, however large that is."""
    f = wp.jax_kernel(use_pair)
    g = jax.grad(lambda x: f(x, jnp.array([jnp.inf]))[0].sum())(jnp.ones(1))
    np.testing.assert_array_equal(g, [1.0])


@pytest.mark.parametrize("text", ["wp.fma(r, r, r)", "wp.fma(r, x, 1.0)", "wp.fma(x, s, r)"])
def test_fma_that_is_not_linear(text):
    from language import define

    scope = define(
        "@wp.func\ndef f(x: float, s: float):\n    return x * s\n"
        f"@wp.func_grad(f)\ndef adj_f(x: float, s: float, r: float):\n    wp.adjoint[x] += {text}\n"
        "@wp.kernel\ndef k(x: wp.array[float], y: wp.array[float]):\n    i = wp.tid()\n    y[i] = f(x[i], 2.0)\n"
    )
    with pytest.raises(wp.errors.DifferentiationError, match="not linear in its cotangent"):
        jax.grad(lambda x: wp.jax_kernel(scope["k"])(x)[0].sum())(jnp.ones(2))
