"""Finite elements with values of JAX: in `jit`, `vmap` and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jaxwarp as wp
from jaxwarp import fem

INDICES = fem.utils.grid_to_tris(2, 2)
CORNERS = np.stack(np.indices((3, 3)), -1).reshape(-1, 2) / 2.0 + np.random.default_rng(2).normal(0.0, 0.03, (9, 2))


@fem.integrand
def energy(s: fem.Sample, u: fem.Field, weight: wp.float64):
    g = fem.grad(u, s)
    return weight * u(s) * u(s) * wp.dot(g, g)


@fem.integrand
def product(s: fem.Sample, k: fem.Field, v: fem.Field):
    return k(s) * v(s)


@fem.integrand
def weighted_mass(s: fem.Sample, k: fem.Field, u: fem.Field, v: fem.Field):
    return k(s) * u(s) * v(s)


def field_of(space, values):
    field = space.make_field()
    field.dof_values = jnp.asarray(values)
    return field


def space_on(positions):
    mesh = fem.Trimesh2D(wp.array(INDICES, dtype=int), positions)
    return fem.make_polynomial_space(mesh, degree=2)


def energy_of(values, positions, weight):
    space = space_on(jnp.asarray(positions))
    fields = {"u": field_of(space, values)}
    return fem.integrate(
        energy, domain=fem.Cells(space.geometry), fields=fields, values={"weight": jnp.asarray(weight)}
    )


@pytest.fixture(autouse=True)
def _in_double_precision():
    with jax.enable_x64(True):
        yield


SPACE = space_on(wp.array(CORNERS, dtype=wp.vec2d))
VALUES = np.random.default_rng(0).random(SPACE.node_count())


def test_functionals_have_derivatives_by_fields_positions_and_values():
    arguments = VALUES, CORNERS, np.float64(1.5)
    field = SPACE.make_field()
    field.dof_values = wp.array(VALUES, dtype=wp.float64)
    outside = fem.integrate(energy, domain=fem.Cells(SPACE.geometry), fields={"u": field}, values={"weight": 1.5})
    assert np.isclose(jax.jit(energy_of)(*arguments), outside, rtol=1e-12)
    check_grads(jax.jit(energy_of), arguments, order=1, modes=["fwd", "rev"])


def residual(values):
    fields = {"k": field_of(SPACE, values), "v": fem.make_test(SPACE)}
    b = fem.integrate(product, fields=fields)
    matrix = fem.integrate(weighted_mass, fields={**fields, "u": fem.make_trial(SPACE)})
    return 1e3 * (matrix @ b) @ b


def test_arrays_and_matrices_have_derivatives():
    assert np.isclose(jax.jit(residual)(VALUES), residual(VALUES), rtol=1e-12)
    check_grads(jax.jit(residual), (VALUES,), order=2, modes=["rev"])


def test_integrals_without_jax_values_are_constants_of_a_traced_function():
    field = SPACE.make_field()
    field.dof_values = wp.array(VALUES, dtype=wp.float64)

    @jax.jit
    def scaled(x):
        fields = {"k": field, "v": fem.make_test(SPACE)}
        b = fem.integrate(product, fields=fields)
        matrix = fem.integrate(weighted_mass, fields={**fields, "u": fem.make_trial(SPACE)})
        total = fem.integrate(energy, domain=fem.Cells(SPACE.geometry), fields={"u": field}, values={"weight": 1.5})
        return x * (1e3 * (matrix @ b) @ b + total)

    outside = fem.integrate(energy, domain=fem.Cells(SPACE.geometry), fields={"u": field}, values={"weight": 1.5})
    assert np.isclose(scaled(3.0), 3.0 * (residual(VALUES) + outside), rtol=1e-12)


def interpolated(values):
    target = fem.make_polynomial_space(SPACE.geometry, degree=1).make_field()
    fem.interpolate(field_of(SPACE, values), dest=target)
    return (target.dof_values**2).sum()


def test_interpolation_is_a_value_of_jax():
    many = jax.vmap(interpolated)(jnp.stack([VALUES, 2.0 * VALUES]))
    np.testing.assert_allclose(many, interpolated(VALUES) * np.array([1.0, 4.0]), rtol=1e-12)
    check_grads(interpolated, (VALUES,), order=1, modes=["rev"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda u: fem.integrate(energy, domain=fem.Cells(SPACE.geometry), fields={"u": u}, values={"weight": 1.0},
                                 output=wp.zeros(1)), "values of JAX do not change"),
        (lambda u: fem.interpolate(u, dest=wp.zeros(8, dtype=wp.float64), at=fem.Cells(SPACE.geometry)),
         "results are fields' values at nodes"),
        (lambda u: setattr(u, "dof_values", jnp.zeros(3)), "expected float64 of shape"),
        (lambda u: fem.Trimesh2D(wp.array(INDICES, dtype=int), jnp.asarray(CORNERS), build_bvh=True), "build_bvh"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(wp.KernelError, match=message):
        call(field_of(SPACE, VALUES))


@wp.kernel
def eigenvectors(a: wp.array[wp.mat33], out: wp.array[wp.mat33]):
    i = wp.tid()
    vectors, _ = fem.linalg.symmetric_eigen(a[i])
    out[i] = vectors


@wp.kernel
def eigenvectors_to_a_tolerance(a: wp.array[wp.mat33], out: wp.array[wp.mat33]):
    i = wp.tid()
    _, vectors = fem.linalg.symmetric_eigenvalues_qr(a[i], 1e-6)
    out[i] = vectors


@pytest.mark.parametrize("kernel", [eigenvectors, eigenvectors_to_a_tolerance], ids=lambda k: k.name)
def test_eigenvectors_of_diagonal_matrices_have_derivatives(kernel):
    find = wp.jax_kernel(kernel)
    direction = np.array([[[0, 1, 0], [1, 0, 0.5], [0, 0.5, 0]]], np.float32)
    diagonal = jnp.asarray(np.diag([1.0, 2.0, 4.0])[None].astype(np.float32))
    change = jax.jit(lambda a, along: jax.jvp(lambda a: find(a)[0], (a,), (along,))[1])(diagonal, direction)
    np.testing.assert_allclose(change[0], [[0, -1, 0], [1, 0, -0.25], [0, 0.25, 0]], atol=1e-6)
