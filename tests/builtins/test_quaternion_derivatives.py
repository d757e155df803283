"""Derivatives of functions of quaternions, both modes and second order, against differences: where rotations are the
identity, half a turn, and equal to each other, too."""

from __future__ import annotations

import linecache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp

IDENTITY = [0.0, 0.0, 0.0, 1.0]
HALF = [0.6, 0.0, -0.8, 0.0]
SMALL = [1e-5, -2e-5, 1e-5, 1.0]
GENERAL = [0.4, -0.2, 0.5, 0.7]
OTHER = [-0.3, 0.8, 0.1, 0.6]
NEGATIVE = [0.4, 0.2, -0.5, -0.7]
V = [0.3, -1.2, 0.8]
TURN_X = np.diag([1.0, -1.0, -1.0]).ravel().tolist()
TURN_Z = np.diag([-1.0, -1.0, 1.0]).ravel().tolist()
TURN_Y = np.diag([-1.0, 1.0, -1.0]).ravel().tolist()
UNIT = np.eye(3).ravel().tolist()

# Text of a function's value, of its components, and points: `q(k)` is the quaternion at x[k], `v(k)` the vector.
CASES = {
    "axis_angle": ("wp.quat_from_axis_angle(v(0), x[3])", 4, [[*V, 0.7], [*V, 0.0], [0.0, 0.0, 1.0, 3.14159]]),
    "slerp": ("wp.quat_slerp(q(0), q(4), x[8])", 4, [
        [*GENERAL, *OTHER, 0.3], [*GENERAL, *GENERAL, 0.3], [*IDENTITY, *IDENTITY, 0.7], [*IDENTITY, *SMALL, 0.7],
        [*GENERAL, *NEGATIVE, 0.4], [*IDENTITY, 0.1, 0.1, 0.1, 0.99, 0.0], [*IDENTITY, *OTHER, 1.0],
        [*IDENTITY, 0.9, 0.1, 0.1, 0.01, 2.5]]),
    "slerp_of_equal": ("wp.quat_slerp(q(0), q(0), x[4])", 4, [[*GENERAL, 0.3], [*IDENTITY, 1.5]]),
    "angle": ("wp.quat_to_axis_angle(q(0))[1]", 0, [GENERAL, OTHER, NEGATIVE]),
    "axis": ("wp.quat_to_axis_angle(q(0))[0]", 3, [GENERAL, OTHER, NEGATIVE]),
    "from_matrix": ("wp.quat_from_matrix(wp.matrix_from_rows(v(0), v(3), v(6)))", 4, [UNIT, TURN_X, TURN_Y, TURN_Z]),
    "to_matrix": ("wp.quat_to_matrix(q(0))[1]", 3, [GENERAL, IDENTITY, HALF]),
    "round_trip": ("wp.quat_from_matrix(wp.quat_to_matrix(wp.normalize(q(0))))", 4, [GENERAL, IDENTITY, HALF]),
    "rotate": ("wp.quat_rotate(q(0), v(4))", 3, [[*GENERAL, *V], [*IDENTITY, *V], [*HALF, *V]]),
    "rotate_inv": ("wp.quat_rotate_inv(q(0), v(4))", 3, [[*GENERAL, *V], [*IDENTITY, *V]]),
    "rpy": ("wp.quat_rpy(x[0], x[1], x[2])", 4, [[0.3, -0.4, 1.2], [0.0, 0.0, 0.0]]),
    "to_rpy": ("wp.quat_to_rpy(wp.normalize(q(0)))", 3, [GENERAL, IDENTITY, OTHER]),
    "from_euler": ("wp.quat_from_euler(v(0), 2, 0, 1)", 4, [V, [0.0, 0.0, 0.0]]),
    "to_euler": ("wp.quat_to_euler(q(0), 0, 1, 2)", 3, [GENERAL, OTHER, IDENTITY]),
    "twist": ("wp.quat_twist(wp.vec3d(wp.float64(0.0), wp.float64(0.6), wp.float64(0.8)), q(0))", 4,
              [GENERAL, IDENTITY, SMALL]),
    "twist_angle": ("wp.quat_twist_angle(wp.vec3d(x[4], wp.float64(0.6), wp.float64(0.8)), q(0))", 0,
                    [[*GENERAL, 0.0]]),
    "signed_angle": ("wp.quat_twist_angle_signed(wp.vec3d(x[4], wp.float64(0.6), wp.float64(0.8)), q(0))", 0,
                     [[*GENERAL, 0.0], [*IDENTITY, 0.0], [*SMALL, 0.0]]),
    "atan2": ("wp.atan2(x[0], x[1])", 0, [[0.3, -2.0], [0.0, 1.0]]),
    "normalize": ("wp.normalize(q(0))", 4, [GENERAL, IDENTITY]),
    "transforms": ("wp.transform_point(wp.transform_inverse(wp.transformd(v(0), q(3)) * wp.transformd(v(7), q(3))), "
                   "v(7))", 3, [[*V, *GENERAL, *V], [0.0, 0.0, 0.0, *IDENTITY, *V]]),
    "decompose": ("wp.transform_decompose(wp.transform_compose(v(0), wp.normalize(q(3)), v(7)))[1]", 4,
                  [[*V, *GENERAL, 1.0, 2.0, 3.0], [*V, *IDENTITY, 1.0, 1.0, 1.0]]),
    "twist_of_motion": ("wp.spatial_top(wp.spatial_cross(wp.transform_twist(wp.transformd(v(0), q(3)), "
                        "wp.spatial_vectord(v(0), v(7))), wp.spatial_vectord(v(7), v(0))))", 3, [[*V, *GENERAL, *V]]),
}  # fmt: skip


def function_of(name):
    """The case's function: an array of its arguments to an array of its components."""
    text, size, _ = CASES[name]
    for letter, made in (("q", "wp.quatd(x[{0}], x[{0} + 1], x[{0} + 2], x[{0} + 3])"),
                         ("v", "wp.vec3d(x[{0}], x[{0} + 1], x[{0} + 2])")):  # fmt: skip
        for k in range(12):
            text = text.replace(f"{letter}({k})", made.format(k))
    lines = ["def kernel(x: wp.array[wp.float64], out: wp.array[wp.float64]):", "    i = wp.tid()"]
    lines += [f"    result = {text}"]
    lines += [f"    out[{k}] = result[{k}]" for k in range(size)] or ["    out[0] = result"]
    file, source = f"<derivatives {name}>", "\n".join(lines) + "\n"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {"wp": wp}
    exec(compile(source, file, "exec"), scope)
    call = wp.jax_kernel(wp.kernel(scope["kernel"]), launch_dims=1, output_dims=max(size, 1))
    return lambda x: call(x)[0]


def differences(f, x, eps):
    """Central differences of fourth order."""
    steps = eps * np.eye(len(x))
    return np.stack([(8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * eps) for e in steps], -1)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    with jax.enable_x64(True):
        call = function_of(name)
        size = max(CASES[name][1], 1)
        weights = jnp.asarray(np.random.default_rng(size).normal(size=size))
        f, gradient = jax.jit(call), jax.jit(jax.grad(lambda y: call(y) @ weights))
        firsts = [jax.jit(mode(call)) for mode in (jax.jacfwd, jax.jacrev)]
        seconds = [jax.jit(mode(gradient)) for mode in (jax.jacfwd, jax.jacrev)]
        for x in map(jnp.asarray, CASES[name][2]):
            for primal, derivatives, accuracy in ((f, firsts, 1e-8), (gradient, seconds, 1e-7)):
                expected = differences(lambda y, primal=primal: np.asarray(primal(y)), x, 1e-3)
                for derivative in derivatives:
                    tolerance = accuracy * max(1.0, np.abs(expected).max())
                    np.testing.assert_allclose(derivative(x), expected, atol=tolerance, err_msg=str(x))


@pytest.mark.parametrize("name", ["axis", "angle"])
@pytest.mark.parametrize("point", [IDENTITY, HALF])
def test_derivatives_are_finite_where_there_are_none(name, point):
    with jax.enable_x64(True):
        f, x = function_of(name), jnp.asarray(point)
        for derivative in (jax.jacfwd(f), jax.jacrev(f)):
            found = np.asarray(derivative(x))
            assert np.isfinite(found).all()
            if point is IDENTITY:
                assert not found.any()


NONE = [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "point"),
    [("atan2", NONE[:2]), ("angle", NONE), ("to_euler", NONE)]
    + [(name, [*q, 0.0]) for name in ("twist_angle", "signed_angle") for q in (NONE, [1.0, 0.0, 0.0, 0.0])],
)
def test_derivatives_of_angles_of_no_vector_are_zero(name, point):
    """Of a zero quaternion, and of half a turn about an axis that is perpendicular to that of the twist."""
    with jax.enable_x64(True):
        f, x = function_of(name), jnp.asarray(point)
        for derivative in (jax.jacfwd(f), jax.jacrev(f), jax.hessian(f), jax.jacrev(jax.jacrev(f))):
            assert not np.asarray(derivative(x)).any()


@wp.kernel
def angles(y: wp.array[float], x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.atan2(y[i], x[i])


def test_slopes_of_angles_at_any_distance():
    """The square of a distance of 1e-25 is 0, that of 1e25 infinite."""
    rng = np.random.default_rng(0)
    scale = 10.0 ** np.arange(-30, 31)
    y, x = ((rng.uniform(0.3, 1.0, 61) * rng.choice([-1, 1], 61) * scale).astype(np.float32) for _ in range(2))
    found = jax.grad(lambda y, x: wp.jax_kernel(angles)(y, x)[0].sum(), (0, 1))(y, x)
    wide_y, wide_x = y.astype(np.float64), x.astype(np.float64)
    square = wide_x**2 + wide_y**2
    np.testing.assert_allclose(found[0], wide_x / square, rtol=1e-6)
    np.testing.assert_allclose(found[1], -wide_y / square, rtol=1e-6)
