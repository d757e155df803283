"""Derivatives of finite elements at nodes, on sides that cells share, at 0, at ties, and of elements without extent.

Those by positions that are looked up are a tape's, the only mode that they have; the others are of both modes.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem
from jaxwarp.types import float64 as F
from tests.slopekit import check_slopes


@pytest.fixture(autouse=True)
def _in_double_precision():
    with jax.enable_x64(True):
        yield


# Looking up


CUT = {
    "Trimesh2D": fem.utils.grid_to_tris,
    "Quadmesh2D": fem.utils.grid_to_quads,
    "Tetmesh": fem.utils.grid_to_tets,
    "Hexmesh": fem.utils.grid_to_hexes,
}
DIMENSIONS = {"Trimesh2D": 2, "Quadmesh2D": 2, "Tetmesh": 3, "Hexmesh": 3, "Grid2D": 2, "Grid3D": 3}


@cache
def looked_up(dtype: Any) -> Any:
    @fem.integrand
    def value(s: fem.Sample, domain: fem.Domain, u: fem.Field, p: wp.array[dtype]):
        return u(fem.lookup(domain, p[s.qp_index]))

    return value


@cache
class Lookup:
    """A field that is linear in space, of a mesh of two cells an axis, turned by what is no simple number.

    Attributes:
        axes: the directions of its sides, as rows.
        special: its nodes, and what is between two corners of a cell: on edges and sides, and in them.
    """

    def __init__(self, name: str, scalar: Any):
        n, self.scalar = DIMENSIONS[name], scalar
        steps, self.slope = np.moveaxis(np.indices((3,) * n), 0, -1).reshape(-1, n) / 2.0, np.array([1.0, 2.0, 3.0])[:n]
        self.dtype = wp.types.vector(n, scalar)
        if name in CUT:
            self.axes = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0].T
            corners = 1.7 * steps @ self.axes + 0.3
            cells = np.asarray(CUT[name](*(2,) * n))
            given = wp.array(cells, dtype=int), wp.array(corners, dtype=self.dtype)
            self.geometry = getattr(fem, name)(*given, build_bvh=True)
            pairs = combinations(range(cells.shape[-1]), 2)
            between = [(corners[cells[:, a]] + corners[cells[:, b]]) / 2 for a, b in pairs]
            self.special = np.concatenate([corners, *between])
        else:
            ends = {"bounds_lo": self.dtype(*(0.0,) * n), "bounds_hi": self.dtype(*(1.0,) * n)}
            self.axes, sizes = np.eye(n), (wp.vec2i if n == 2 else wp.vec3i)(*(2,) * n)
            self.geometry = getattr(fem, name)(res=sizes, **ends, scalar_type=scalar)
            self.special = np.concatenate([steps, steps + 0.25])
        space = fem.make_polynomial_space(self.geometry, degree=1, dtype=scalar)
        self.field = space.make_field()
        self.field.dof_values = wp.array(space.node_positions().numpy() @ self.slope, dtype=scalar)

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values, and their derivatives by the points."""
        p = wp.array(points, dtype=self.dtype, requires_grad=True)
        out = wp.zeros(len(points), dtype=self.scalar, requires_grad=True)
        with wp.Tape() as tape:
            given = {"fields": {"u": self.field}, "values": {"p": p}}
            domain = fem.Cells(self.geometry)
            fem.interpolate(looked_up(self.dtype), dest=out, dim=len(points), at=domain, **given)
        tape.backward(grads={out: wp.ones(len(points), dtype=self.scalar)})
        return out.numpy().astype(float), p.grad.numpy().astype(float)


# Single precision runs the same functions: one kind of mesh and one kind of grid have it too.
@pytest.mark.parametrize(
    ("name", "scalar"),
    [*((name, wp.float64) for name in DIMENSIONS), ("Trimesh2D", wp.float32), ("Grid2D", wp.float32)],
)
def test_lookups_on_nodes_and_shared_sides(name, scalar):
    lookup = Lookup(name, scalar)
    values, slopes = lookup(lookup.special)
    inside = np.isclose(values, lookup.special @ lookup.slope, atol=1e-5)
    assert inside.sum() >= 3 ** DIMENSIONS[name]
    expected = np.broadcast_to(lookup.slope, slopes.shape)
    if name not in CUT:  # where a grid ends, its upper bound is what `clamp` chooses, as in Warp
        expected = np.where(np.isclose(lookup.special, 1.0), 0.0, expected)
    np.testing.assert_allclose(slopes[inside], expected[inside], atol=1e-3)


@pytest.mark.parametrize("name", DIMENSIONS)
def test_lookups_of_what_is_outside_beside_nodes_and_shared_sides(name):
    """The closest point moves along the side that it is on, also where it passes from one cell to the next."""
    lookup, step = Lookup(name, wp.float64), 1e-6
    far = lookup.special + 3.0 * lookup.axes[0]
    here, gradients = lookup(far)
    moved = [[(lookup(far + way * a)[0] - here) / way for way in (step, -step)] for a in lookup.axes]
    low, high = np.min(moved, 1).T - 1e-3, np.max(moved, 1).T + 1e-3
    found = gradients @ lookup.axes.T
    assert ((found >= low) & (found <= high)).all()
    np.testing.assert_allclose(found[:, 0], 0.0, atol=1e-3)
    assert np.abs(found[:, 1]).max() > 0.1


# Elements


@fem.integrand
def one(s: fem.Sample, v: fem.Field):
    return v(s) * v(s)


@fem.integrand
def length_of_slope(s: fem.Sample, v: fem.Field):
    return wp.length(fem.grad(v, s))


@fem.integrand
def flow(s: fem.Sample, domain: fem.Domain, v: fem.Field):
    return v(s) * fem.normal(domain, s)[0]


INTEGRANDS = {"area": one, "length of the slope": length_of_slope}
FLAT = np.moveaxis(np.indices((3, 3)), 0, -1).reshape(-1, 2) / 2.0


def integral(form: Any, values: Any, corners: Any, sides: bool = False) -> Any:
    mesh = (fem.Trimesh2D if corners.shape[1] == 2 else fem.Trimesh3D)(
        wp.array(np.asarray(fem.utils.grid_to_tris(2, 2)), dtype=int), corners
    )
    space = fem.make_polynomial_space(mesh, degree=1, dtype=F)
    field = space.make_field()
    field.dof_values = values
    domain = fem.BoundarySides(mesh) if sides else fem.Cells(mesh)
    fields = {"v": field.trace() if sides else field}
    return fem.integrate(form, domain=domain, fields=fields)


def collapsed() -> np.ndarray:
    """Some triangles have no area, and a side of the boundary no length: two nodes are at one place."""
    corners = np.concatenate([FLAT, np.zeros((9, 1))], 1)
    corners[1] = corners[0]
    return corners


@pytest.mark.parametrize("name", ["a flat mesh in space", "elements without extent", "nowhere"])
def test_areas_by_positions(name):
    """In the plane of the mesh, where differences of areas are of second order, and where there is no area."""
    corners = {"nowhere": np.zeros((9, 3)), "elements without extent": collapsed()}.get(
        name, np.concatenate([FLAT, np.zeros((9, 1))], 1)
    )
    ones = np.ones(9)

    def area(x: Any) -> jax.Array:
        return jax.vmap(lambda row: integral(one, jnp.asarray(ones), row.reshape(9, 3)))(x)[:, None]

    rows = corners.reshape(1, 27)
    check_slopes(area, rows, np.eye(27), eps=1e-7, accuracy=1e-5, names=["area"])
    boundary = lambda x: integral(one, jnp.asarray(ones), x, sides=True)  # noqa: E731
    for derivative in (jax.jacfwd, jax.jacrev):
        assert np.isfinite(derivative(boundary)(jnp.asarray(corners))).all()


@pytest.mark.parametrize("sides", [False, True])
@pytest.mark.parametrize("level", [0.0, 1.5])
def test_integrals_by_values_that_are_equal_or_0(level, sides):
    """A square has no slope at 0, and the length of a gradient has a kink where it is 0."""
    forms = {"area": one} if sides else INTEGRANDS
    along = np.concatenate([np.eye(9), np.random.default_rng(0).normal(size=(2, 9))])

    def values(x: Any) -> jax.Array:
        found = [jax.vmap(lambda v, f=f: integral(f, v, jnp.asarray(FLAT), sides))(x) for f in forms.values()]
        return jnp.stack(found, -1)

    check_slopes(values, np.full((1, 9), level), along, eps=1e-7, accuracy=1e-5, names=list(forms))


def test_normals_of_sides_without_length_are_finite():
    corners = jnp.asarray(collapsed()[:, :2])
    total = lambda x, v: integral(flow, v, x, sides=True)  # noqa: E731
    for mode in (jax.jacfwd, jax.jacrev):
        by_place, by_value = mode(total, (0, 1))(corners, jnp.zeros(9))
        np.testing.assert_array_equal(by_place, 0.0)  # the field is 0
        assert np.isfinite(by_value).all()
        assert np.abs(by_value).max() > 0.1


# Linear algebra


mat44d: Any = wp.types.matrix(shape=(4, 4), dtype=F)


@wp.kernel
def inverted(a: wp.array[mat44d], out: wp.array[mat44d]):
    i = wp.tid()
    out[i] = fem.linalg.inverse_qr(a[i])


@wp.kernel
def parts(a: wp.array[wp.mat33d], out: wp.array2d[F]):
    i = wp.tid()
    m = fem.linalg.symmetric_part(a[i])
    _, by_sweeps = fem.linalg.symmetric_eigen(m)
    to_rounding, _ = fem.linalg.symmetric_eigenvalues_qr(m, F(1.0e-12))
    out[i, 0] = by_sweeps[0] + by_sweeps[1] + by_sweeps[2]
    out[i, 1] = wp.dot(to_rounding, to_rounding)
    out[i, 2] = by_sweeps[0] * by_sweeps[1] * by_sweeps[2]
    out[i, 3] = wp.length(fem.linalg.skew_part(a[i]))
    out[i, 4] = wp.trace(fem.linalg.spherical_part(a[i]))
    out[i, 5] = fem.linalg.generalized_inner(a[i], m)


def test_inverses_by_matrices_with_zeros_and_equal_pivots():
    shifted = np.roll(np.eye(4), 1, axis=0)
    mixed = np.array([[0.0, 2, 0, 1], [1, 0, 1, 0], [1, 0, -1, 0], [0, 1, 0, -1]])
    matrices = np.stack([np.eye(4), -np.eye(4), shifted, mixed, mixed.T, np.ones((4, 4)) - np.eye(4)])
    call = wp.jax_kernel(inverted)

    def f(x: Any) -> jax.Array:
        return call(x.reshape(-1, 4, 4))[0].reshape(-1, 16)

    names = [f"({k // 4}, {k % 4})" for k in range(16)]
    check_slopes(f, matrices.reshape(-1, 16), np.eye(16), eps=1e-7, accuracy=1e-5, names=names)


def test_eigenvalues_that_are_equal_or_0():
    """Symmetric functions of eigenvalues are smooth where these are equal, and off the diagonal is 0."""
    equal = np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 2]])
    diagonal = [np.diag(d) for d in ([0.0, 0, 0], [1.0, 1, 1], [1.0, 1, 2], [0.0, -1, 1])]
    matrices = np.stack([*diagonal, np.ones((3, 3)), equal])
    call = wp.jax_kernel(parts, launch_dims=6, output_dims=(6, 6))
    names = ["trace", "squares", "determinant", "skew", "spherical", "inner"]
    check_slopes(
        lambda x: call(x.reshape(-1, 3, 3))[0], matrices.reshape(-1, 9), np.eye(9), eps=1e-7, accuracy=1e-5, names=names
    )


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (2.0, -3.0)])
def test_sums_of_arrays_with_factors_that_are_0(alpha, beta):
    x, y = (wp.array(np.array(v), dtype=F, requires_grad=True) for v in ([1.0, 0.0, 2.0], [0.0, 3.0, np.inf]))
    with wp.Tape() as tape:
        fem.linalg.array_axpy(x, y, alpha, beta)
    tape.backward(grads={y: wp.ones(3, dtype=F)})
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, alpha))
    np.testing.assert_array_equal(y.grad.numpy(), np.full(3, beta))
