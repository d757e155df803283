"""warp.fem: heat that spreads on a grid of quadratic elements, a sparse system for each step."""

import numpy as np
import warp as wp
import warp.fem as fem
from measure import Model
from warp.optim.linear import cg


@fem.integrand
def mass(s: fem.Sample, u: fem.Field, v: fem.Field):  # noqa: ANN201
    return u(s) * v(s)


@fem.integrand
def diffusion(s: fem.Sample, u: fem.Field, v: fem.Field, nu: float):  # noqa: ANN201
    return nu * wp.dot(fem.grad(u, s), fem.grad(v, s))


@fem.integrand
def bump(s: fem.Sample, domain: fem.Domain):  # noqa: ANN201
    x = domain(s)
    return wp.exp(-20.0 * wp.length_sq(x - wp.vec2(0.3, 0.5)))


def build() -> Model:
    grid = fem.Grid2D(res=wp.vec2i(8, 8))
    space = fem.make_polynomial_space(grid, degree=2)
    u, v = fem.make_trial(space), fem.make_test(space)
    field = space.make_field()
    fem.interpolate(bump, dest=field)
    both = {"u": u, "v": v}

    def step() -> None:
        weights = fem.integrate(mass, fields=both, output_dtype=float)
        system = weights + fem.integrate(diffusion, fields=both, values={"nu": 0.01}, output_dtype=float)
        found = wp.zeros_like(field.dof_values)
        cg(system, b=weights @ field.dof_values, x=found, tol=1e-8)
        field.dof_values = found

    # The order of nodes is not the same everywhere.
    return step, lambda: np.sort(field.dof_values.numpy())
