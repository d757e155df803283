"""Fields that are functions: their derivatives, on sides, by index, and geometries that they deform."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem
from jaxwarp.errors import KernelTypeError, KernelValueError


@wp.func
def swirl(x: wp.vec2, speed: float):
    return wp.vec2(speed * x[0] * x[1], x[0] * x[0])


@wp.func
def swirl_gradient(x: wp.vec2, speed: float):
    return wp.mat22(speed * x[1], speed * x[0], 2.0 * x[0], 0.0)


@wp.func
def swirl_divergence(x: wp.vec2, speed: float):
    return speed * x[1]


@wp.func
def by_index(index: int, numbers: wp.array[float]):
    return numbers[index]


@fem.integrand
def shear(s: fem.Sample, u: fem.Field):
    return fem.grad(u, s)[1, 0]


@fem.integrand
def divergence(s: fem.Sample, u: fem.Field):
    return fem.div(u, s)


@fem.integrand
def number(s: fem.Sample, u: fem.Field):
    return u(s)


@fem.integrand
def outward(s: fem.Sample, domain: fem.Domain, u: fem.Field):
    return wp.dot(u(s), fem.normal(domain, s))


@fem.integrand
def one(s: fem.Sample):
    return 1.0


def implicit(domain, **derivatives):
    return fem.ImplicitField(domain, swirl, values={"speed": 4.0}, degree=2, **derivatives)


def integral(integrand, domain, **fields):
    return fem.integrate(integrand, domain=domain, fields=fields)


def test_derivatives_are_those_that_are_given():
    domain = fem.Cells(fem.Grid2D(res=wp.vec2i(3, 2)))
    field = implicit(domain, grad_func=swirl_gradient, div_func=swirl_divergence)
    assert np.isclose(integral(shear, domain, u=field), 1.0)  # 2 x over the unit square
    assert np.isclose(integral(divergence, domain, u=field), 2.0)


def test_the_divergence_theorem_holds_on_the_trace():
    grid = fem.Grid2D(res=wp.vec2i(3, 2))
    field = implicit(fem.Cells(grid), div_func=swirl_divergence)
    assert np.isclose(integral(outward, fem.BoundarySides(grid), u=field.trace()), 2.0)


def test_derivatives_that_are_not_given_are_refused():
    domain = fem.Cells(fem.Grid2D(res=wp.vec2i(3, 2)))
    with pytest.raises(KernelTypeError, match=r"fem\.grad is not available") as caught:
        integral(shear, domain, u=implicit(domain))
    assert "grad_func" in caught.value.hint
    with pytest.raises(KernelValueError, match="with a gradient"):
        implicit(domain).make_deformed_geometry()
    with pytest.raises(KernelTypeError, match=r"div_func: expected a @wp\.func, got float"):
        implicit(domain, div_func=1.0)


def test_functions_of_the_quadrature_point():
    domain = fem.Cells(fem.Grid2D(res=wp.vec2i(2, 2)))
    quadrature = fem.RegularQuadrature(domain, order=0)
    numbers = wp.array([1.0, 2.0, 3.0, 6.0], dtype=float)
    field = fem.ImplicitField(domain, by_index, values={"numbers": numbers})
    assert np.isclose(fem.integrate(number, quadrature=quadrature, fields={"u": field}), 3.0)


@wp.func
def bend(x: wp.vec2):
    return wp.vec2(x[0] + 0.5 * x[1] * x[1], 2.0 * x[1])


@wp.func
def bend_gradient(x: wp.vec2):
    return wp.mat22(1.0, x[1], 0.0, 2.0)


@wp.func
def stretch(x: wp.vec2):
    return wp.vec2(0.0, x[1])


@wp.func
def stretch_gradient(x: wp.vec2):
    return wp.mat22(0.0, 0.0, 0.0, 1.0)


def test_geometries_are_deformed():
    grid = fem.Grid2D(res=wp.vec2i(3, 2))
    cells = fem.Cells(grid)
    bent = fem.ImplicitField(cells, bend, grad_func=bend_gradient).make_deformed_geometry(relative=False)
    displaced = fem.ImplicitField(cells, stretch, grad_func=stretch_gradient).make_deformed_geometry()
    for geometry in (bent, displaced):  # both are twice as high
        assert np.isclose(fem.integrate(one, domain=fem.Cells(geometry)), 2.0)
        field = implicit(fem.Cells(geometry), div_func=swirl_divergence)
        everywhere = fem.RegularQuadrature(fem.Cells(geometry), 4)
        boundary = fem.RegularQuadrature(fem.BoundarySides(geometry), 4)
        inside = fem.integrate(divergence, quadrature=everywhere, fields={"u": field})
        assert np.isclose(fem.integrate(outward, quadrature=boundary, fields={"u": field.trace()}), inside, rtol=1e-5)


def test_the_same_everywhere_has_no_slope():
    grid = fem.Grid2D(res=wp.vec2i(3, 2))
    domain = fem.Cells(grid)
    uniform = fem.UniformField(domain, wp.vec2(3.0, 4.0))
    assert integral(shear, domain, u=uniform) == 0.0
    assert integral(divergence, domain, u=uniform) == 0.0


def test_fields_of_another_geometry_have_slopes_and_a_background():
    inner = fem.Grid2D(res=wp.vec2i(2, 2), bounds_lo=wp.vec2(0.0, 0.0), bounds_hi=wp.vec2(0.5, 1.0))
    field = fem.make_polynomial_space(inner, dtype=wp.vec2, degree=2).make_field()
    fem.interpolate(implicit(fem.Cells(inner)), dest=field)
    outer = fem.Cells(fem.Grid2D(res=wp.vec2i(4, 4)))
    seen = fem.NonconformingField(outer, field)
    assert np.isclose(integral(divergence, outer, u=seen), 1.0, rtol=1e-5)  # half of 2


@wp.func
def curve(x: wp.vec2, p: wp.array[float]):
    return wp.vec2(p[0] * p[0] * x[0] * x[1], p[1] * x[0] * x[0])


@wp.func
def curve_gradient(x: wp.vec2, p: wp.array[float]):
    return wp.mat22(p[0] * p[0] * x[1], p[0] * p[0] * x[0], 2.0 * p[1] * x[0], 0.0)


@wp.func
def curve_divergence(x: wp.vec2, p: wp.array[float]):
    return p[0] * p[0] * x[1]


@fem.integrand
def slopes(s: fem.Sample, u: fem.Field):
    return fem.grad(u, s)[1, 0] * fem.div(u, s) + wp.dot(u(s), u(s))


@fem.integrand
def size(s: fem.Sample, u: fem.Field):
    return wp.dot(u(s), u(s))


def of_field(field):
    return fem.integrate(slopes, quadrature=fem.RegularQuadrature(field.domain, 4), fields={"u": field})


def of_deformed(field):
    cells = fem.Cells(field.make_deformed_geometry())
    uniform = fem.UniformField(cells, wp.vec2(1.0, 2.0))
    return fem.integrate(size, quadrature=fem.RegularQuadrature(cells, 4), fields={"u": uniform})


@pytest.mark.parametrize("result", [of_field, of_deformed])
def test_derivatives_by_values_in_jax(result):
    cells = fem.Cells(fem.Grid2D(res=wp.vec2i(3, 2)))

    def loss(p):
        given = {"grad_func": curve_gradient, "div_func": curve_divergence, "degree": 4}
        return result(fem.ImplicitField(cells, curve, values={"p": p}, **given))

    p, step = jnp.array([1.3, -0.4], jnp.float32), 1e-2
    sides = [(loss(p + d), loss(p - d)) for d in step * jnp.eye(2)]
    expected = [(above - below) / (2 * step) for above, below in sides]
    np.testing.assert_allclose(jax.grad(loss)(p), expected, rtol=1e-3)
    np.testing.assert_allclose(jax.jvp(loss, (p,), (jnp.ones(2),))[1], np.sum(expected), rtol=1e-3)
