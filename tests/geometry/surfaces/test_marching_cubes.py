"""`geometry.marching_cubes`: shapes with known measures, random fields, derivatives, sizes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxwarp as wp
from jaxwarp.errors import KernelError
from jaxwarp.geometry.surfaces import cases

from .shapes import SHAPES, area, ball, euler, is_closed, nodes, volume

GRID = (5, 6, 7)
marched = jax.jit(lambda f, t: wp.geometry.marching_cubes(f, t, size=(900, 1800)))


def test_cases():
    """Every loop passes each edge between above and below once, and no case has a diagonal in a side of its cell."""
    for case in range(256):
        above = [case >> n & 1 for n in range(8)]
        passed = sorted(e for loop in cases.loops(case) for e in loop)
        assert passed == [e for e, (a, b) in enumerate(cases.EDGES) if above[a] != above[b]]
        assert len(cases.triangles(case)) == sum(len(loop) - 2 for loop in cases.loops(case))
        for loop in cases.loops(case):
            assert min(cases._cost(loop, cut) for cut in cases._cuts(loop))[0] == 0


@pytest.mark.parametrize("name", SHAPES)
def test_measures_of_shapes(name):
    field, number, expected_area, expected_volume = SHAPES[name]
    errors = []
    for n in (20, 40):
        surface = wp.geometry.marching_cubes(jnp.asarray(field(nodes((n, n + 2, n - 1))), jnp.float32),
                                             lower=(-1, -1, -1), upper=(1, 1, 1))  # fmt: skip
        points, faces = map(np.asarray, surface.trimmed())
        assert len(points) == surface.vertex_count
        assert euler(points, faces) == number
        assert is_closed(faces)
        errors.append([area(points, faces) / expected_area - 1, volume(points, faces) / expected_volume - 1])
        assert np.abs(field(points)).max() < 10 / n**2
    errors = np.abs(errors)
    assert (errors[1] < 0.015).all()
    assert (errors[1] < 0.4 * errors[0]).all()  # of the second order


def test_beside_scikit_image():
    measure = pytest.importorskip("skimage.measure")
    field = SHAPES["torus"][0](nodes((24, 24, 24))).astype(np.float32)
    points, faces = map(np.asarray, wp.geometry.marching_cubes(jnp.asarray(field)).trimmed())
    theirs, their_faces = measure.marching_cubes(field, 0.0)[:2]
    assert len(theirs) == len(points)
    np.testing.assert_allclose(sorted(map(tuple, theirs.round(3))), sorted(map(tuple, points.round(3))), atol=2e-3)
    np.testing.assert_allclose(area(points, faces), area(theirs, their_faces), rtol=2e-3)
    np.testing.assert_allclose(volume(points, faces), abs(volume(theirs, their_faces)), rtol=2e-3)


def padded(values):
    """A field that is below at the border of the grid, so that its surface does not end there."""
    field = np.full(GRID, -1.0, np.float32)
    field[1:-1, 1:-1, 1:-1] = values
    return field


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=60, max_size=60), st.booleans())
def test_random_fields_have_closed_surfaces(values, is_turned):
    """Integers are on the threshold often; all ambiguous sides occur."""
    field = padded(np.array(values, np.float32).reshape(3, 4, 5))
    field = -field if is_turned else field
    points, faces = map(np.asarray, marched(field, 0.0).trimmed())
    assert is_closed(faces)
    assert np.isin(np.arange(len(points)), faces).all()
    # The surface parts what is above from what is not: the volume is that of the tetrahedra's sum, of one sign.
    assert volume(points, faces) * (1 if is_turned else -1) >= -1e-4


def plain(field, threshold, lower, upper):
    """The vertices, edge by edge in jax.numpy."""
    shape = np.array(field.shape)
    values, above = np.asarray(field), np.asarray(field) >= float(threshold)
    found = []
    for place in np.ndindex(*values.shape):
        for axis in range(3):
            end = np.array(place)
            end[axis] += 1
            if (end < shape).all() and above[place] != above[tuple(end)]:
                found.append((place, tuple(end)))
    low, high = (np.array([f[k] for f in found]) for k in (0, 1))
    way, size = np.float32(high - low), np.float32(shape - 1)

    def vertices(field, threshold, lower, upper):
        a, b = field[tuple(low.T)], field[tuple(high.T)]
        t = (threshold - a) / (b - a)
        return lower + (np.float32(low) + t[:, None] * way) * (upper - lower) / size

    return vertices


def test_vertices_and_derivatives():
    rng = np.random.default_rng(0)
    values = (jnp.asarray(rng.normal(size=GRID), jnp.float32), jnp.float32(0.1),
              jnp.array([-1.0, 0.5, 2.0]), jnp.array([3.0, 1.5, 2.5]))  # fmt: skip
    expected = plain(*values)
    count = len(expected(*values))
    weights = jnp.asarray(rng.normal(size=(count, 3)), jnp.float32)

    def ours(field, threshold, lower, upper):
        found = wp.geometry.marching_cubes(field, threshold, size=(900, 1800), lower=lower, upper=upper)
        return (found.vertices[:count] ** 2 * weights).sum()

    def theirs(*v):
        return (expected(*v) ** 2 * weights).sum()

    found = wp.geometry.marching_cubes(values[0], values[1], lower=values[2], upper=values[3])
    assert found.vertex_count == count
    np.testing.assert_allclose(found.vertices, expected(*values), atol=2e-6)
    ways = tuple(jnp.asarray(rng.normal(size=v.shape), jnp.float32) for v in values)
    slopes = [jax.jit(jax.grad(f, (0, 1, 2, 3))) for f in (ours, theirs)]
    for a, b in zip(slopes[0](*values), slopes[1](*values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())
    tangents = [jax.jvp(f, values, ways)[1] for f in (ours, theirs)]
    np.testing.assert_allclose(*tangents, rtol=1e-3)
    for a, b in zip(*(jax.jit(lambda g=g: jax.jvp(g, values, ways)[1])() for g in slopes), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-3 * np.abs(b).max())


def test_transformations():
    fields = jnp.asarray(np.random.default_rng(1).normal(size=(3, *GRID)), jnp.float32)
    one = [marched(f, 0.0) for f in fields]
    many = jax.vmap(lambda f: marched(f, 0.0))(fields)
    for k in range(3):
        for a, b in zip(many, one[k], strict=True):
            np.testing.assert_array_equal(a[k], b)
    exact = wp.geometry.marching_cubes(fields[0])
    np.testing.assert_array_equal(exact.faces, one[0].trimmed()[1])


def test_what_has_no_room_is_reported():
    field = jnp.asarray(np.random.default_rng(1).normal(size=GRID), jnp.float32)
    whole = wp.geometry.marching_cubes(field)
    count, faces = int(whole.vertex_count), int(whole.face_count)
    for size, missing in ((40, True), ((count, 30), True), ((count - 1, faces), True), ((count, faces), False),
                          ((0, 0), True)):  # fmt: skip
        found = wp.geometry.marching_cubes(field, size=size)
        assert bool(found.overflow) is missing
        assert (found.vertex_count, found.face_count) == (count, faces)
        there = np.asarray(found.faces)
        assert there.max(initial=-1) < len(found.vertices)
        kept = there[(there >= 0).all(1)]
        assert ((there >= 0).all(1) | (there == -1).all(1)).all()
        assert {tuple(f) for f in kept} <= {tuple(f) for f in np.asarray(whole.faces)}
        np.testing.assert_array_equal(found.vertices, whole.vertices[: len(found.vertices)])
        if missing:
            with pytest.raises(KernelError, match=f"there are {count} vertices and {faces} faces, and room for"):
                found.trimmed()


def test_what_is_not_finite():
    field = ball(nodes((12, 12, 12))).astype(np.float32)
    hole = field.copy()
    hole[6, 6, 9:] = np.nan
    whole, open_ = (wp.geometry.marching_cubes(jnp.asarray(f)) for f in (field, hole))
    assert 0 < open_.face_count < whole.face_count
    assert np.isfinite(open_.vertices).all()
    far = np.where(field > 0, np.inf, field).astype(np.float32)
    found = wp.geometry.marching_cubes(jnp.asarray(far))
    assert np.isfinite(found.vertices).all()
    assert is_closed(np.asarray(found.faces))
    both = wp.geometry.marching_cubes(jnp.asarray(np.where(field > 0, np.inf, -np.inf), jnp.float32))
    np.testing.assert_array_equal(np.unique(np.asarray(both.vertices) % 1), [0.0, 0.5])
    nothing = wp.geometry.marching_cubes(jnp.full(GRID, jnp.nan))
    assert (nothing.vertex_count, nothing.face_count, len(nothing.faces)) == (0, 0, 0)


def test_a_surface_is_a_mesh():
    field = jnp.asarray(ball(nodes((20, 20, 20))), jnp.float32)

    @jax.jit
    def depth(field, eye):
        found = wp.geometry.marching_cubes(field, size=2000, lower=-jnp.ones(3), upper=jnp.ones(3))
        return wp.geometry.cast_rays(wp.Mesh(found.vertices, found.faces), eye, -eye).t

    eyes = jnp.asarray(np.random.default_rng(0).normal(size=(50, 3)), jnp.float32)
    eyes /= jnp.linalg.norm(eyes, axis=1, keepdims=True)
    np.testing.assert_allclose(depth(field, eyes), 0.3, atol=7e-3)


def test_wrong_arguments_are_refused():
    field = jnp.zeros(GRID)
    call = wp.geometry.marching_cubes
    for run, message in [
        (lambda: call([1.0]), "field: expected an array of float32, got list"),
        (lambda: call(np.zeros(GRID)), "field: expected float32, got float64"),
        (lambda: call(field[0]), "field: expected three axes of at least two nodes"),
        (lambda: call(field[:1]), "field: expected three axes of at least two nodes"),
        (lambda: call(field, size=-1), "size: expected a number of vertices"),
        (lambda: call(field, size=(1, 2, 3)), "size: expected a number of vertices"),
        (lambda: call(field, size=2.0), "size: expected a number of vertices"),
        (lambda: call(field, lower=(1.0, 2.0)), "lower: expected three coordinates"),
        (lambda: jax.jit(call)(field), "under jit, the size of the result cannot depend on values"),
        (lambda: jax.jit(lambda f: call(f, size=9).trimmed())(field), "Surface.trimmed: in a program"),
    ]:
        with pytest.raises(KernelError, match=message):
            run()
