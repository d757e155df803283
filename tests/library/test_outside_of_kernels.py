"""Functions of the library called from Python give what they give in a kernel."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError

A = wp.mat33(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0)


@wp.kernel
def inside(
    numbers: wp.array[float],
    integers: wp.array[int],
    points: wp.array[wp.vec3],
    u: wp.array[wp.mat33],
    s: wp.array[wp.vec3],
):
    state = wp.rand_init(42, 3)
    numbers[0] = wp.randn(state)
    state = wp.rand_init(42, 3)
    integers[0] = wp.randi(state, -5, 1000)
    state = wp.rand_init(42, 3)
    integers[1] = int(wp.poisson(state, 3.0))
    state = wp.rand_init(42, 3)
    points[0] = wp.sample_unit_sphere(state)
    state = wp.rand_init(42, 3)
    numbers[1] = wp.noise(state, wp.vec3(0.1, 0.2, 0.3))
    numbers[2] = wp.pnoise(state, wp.vec2(0.1, 0.2), 3, 3)
    points[1] = wp.curlnoise(state, wp.vec3(0.1, 0.2, 0.3), wp.uint32(2))
    numbers[3] = wp.erfinv(0.25)
    uu, ss, _ = wp.svd3(A)
    u[0] = uu
    s[0] = ss


def test_values():
    numbers, integers, points = wp.zeros(4), wp.zeros(2, dtype=int), wp.zeros(2, dtype=wp.vec3)
    u, s = wp.zeros(1, dtype=wp.mat33), wp.zeros(1, dtype=wp.vec3)
    wp.launch(inside, 1, [numbers, integers, points, u, s])
    state = wp.rand_init(42, 3)
    point = wp.vec3(0.1, 0.2, 0.3)
    found = [wp.randn(state), wp.noise(state, point), wp.pnoise(state, wp.vec2(0.1, 0.2), 3, 3), wp.erfinv(0.25)]
    np.testing.assert_allclose(found, numbers.numpy(), rtol=2e-6)
    assert [wp.randi(state, -5, 1000), wp.poisson(state, 3.0)] == integers.numpy().tolist()
    np.testing.assert_allclose(wp.sample_unit_sphere(state), points.numpy()[0], rtol=2e-6)
    np.testing.assert_allclose(wp.curlnoise(state, xyz=point, octaves=wp.uint32(2)), points.numpy()[1], rtol=2e-5)
    left, values, right = wp.svd3(A)
    np.testing.assert_allclose(left, u.numpy()[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(values, s.numpy()[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(left * wp.diag(values) * wp.transpose(right), A, rtol=1e-5)


def test_numbers_that_numpy_has_from_warp():
    """Warp's numbers, seed 42."""
    state = wp.rand_init(42)
    assert (state, wp.randi(state), wp.poisson(state, 3.0)) == (1223963391, -1509658557, 5)
    np.testing.assert_allclose(wp.randn(state), 0.8478932976722717, rtol=1e-6)


def test_types():
    assert wp.erfinv(np.float64(0.5)).dtype == np.float64
    assert wp.erfinv(0.5) == wp.erfinv(np.float32(0.5)) != wp.erfinv(np.float64(0.5))
    assert wp.sin(wp.float64(1.23)) == np.sin(np.float64(1.23)) != wp.sin(1.23)
    assert (wp.mul(wp.vec2d(1.23, 2.34), wp.float64(3.45)) == np.array([1.23, 2.34]) * 3.45).all()
    # To a number of Python no precision sticks: an array of JAX keeps its own.
    numbers = [
        wp.sin(1.23),
        wp.dot(wp.vec3(1.0), wp.vec3(2.0)),
        wp.erfinv(0.5),
        wp.vec3(1.5)[0],
        wp.quat()[3],
        wp.vec3(2.0).x,
    ]
    assert [type(x) for x in numbers] == [float] * 6
    assert numbers[0] == np.sin(np.float32(1.23))
    integers = [wp.mul(3, 4), wp.randi(wp.rand_init(1)), wp.vec3i(1)[0], *wp.vec2i(2, 3), wp.mat22(0.0).shape[0]]
    assert [type(x) for x in integers] == [int] * 6
    assert [type(x) for x in (wp.isnan(1.0), wp.vec2d(1.0)[0], wp.vec2h(1.0)[0], wp.mul(wp.int8(3), wp.int8(4)))] == [
        bool, np.float64, np.float16, np.int8
    ]  # fmt: skip
    assert (jnp.ones(2, jnp.bfloat16) * wp.dot(wp.vec3(1.0), wp.vec3(2.0))).dtype == jnp.bfloat16
    assert wp.bit_count(wp.uint8(255)) == wp.bit_count(255) == 8
    assert repr(wp.curlnoise(wp.rand_init(1), wp.vec2(0.5, 0.5))).startswith("vec2f([")


def test_arguments_are_not_advanced():
    state = wp.rand_init(wp.vec2ui(1, 2), 3)
    before = state.tolist()
    assert wp.randf(state) == wp.randf(state)
    assert state.tolist() == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wp.bit_count(7.0), "the operand must be an integer, got float32"),
        (
            lambda: wp.lower_bound(wp.zeros(3), 1.0),
            "lower_bound: outside of kernels it takes numbers, .* got an array outside of JAX",
        ),
        (lambda: wp.erfinv("0.5"), "erfinv: outside of kernels .* got str"),
        (wp.erfinv, "erfinv is called without its argument x|no overload of erfinv takes"),
        (lambda: wp.svd3(A, A, wp.vec3(), A), "svd3 assigns to its arguments"),
        (lambda: wp.erfinv(y=1.0), "no overload of erfinv takes"),
    ],
)
def test_refused(call, message):
    with pytest.raises(KernelTypeError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wp.quat_rotate(wp.vec3(), wp.quat()), r"quat_rotate: argument quat: expected Quat, got vec3"),
        (lambda: wp.spatial_dot(wp.vec3(), wp.vec3()), r"spatial_dot: argument a: expected Vec6, got vec3"),
        (lambda: wp.cross(np.ones(3), np.ones(4)), r"cross: argument b: expected Vec3, got ndarray of shape \(4,\)"),
        (lambda: wp.transform_point(wp.quat(), wp.vec3()), r"argument xform: expected Transform \| Mat44, got quat"),
        (lambda: wp.quat_from_axis_angle(1.0, 1.0), r"argument axis: expected Vec3, got float"),
    ],
)
def test_builtins_refuse_other_components(call, message):
    with pytest.raises(KernelTypeError, match=message):
        call()
    assert wp.transform_point(wp.transform_to_matrix(wp.transform_identity()), wp.vec3(1.0, 2.0, 3.0))[2] == 3.0
