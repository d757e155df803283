"""`geometry.surface_nets`: shapes with known measures, random fields, derivatives, sizes."""

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

from .shapes import SHAPES, area, euler, is_closed, nodes, volume

GRID = (5, 6, 7)
netted = jax.jit(lambda f: wp.geometry.surface_nets(f, size=(900, 900), quads=True))


def test_measures_of_shapes():
    for field, number, expected_area, expected_volume in SHAPES.values():
        values = jnp.asarray(field(nodes((40, 40, 40))), jnp.float32)
        for quads in (False, True):
            surface = wp.geometry.surface_nets(values, lower=(-1, -1, -1), upper=(1, 1, 1), quads=quads)
            points, faces = map(np.asarray, surface.trimmed())
            assert faces.shape[1] == (4 if quads else 3)
            assert euler(points, faces) == number
            assert is_closed(faces)
            if not quads:
                assert abs(area(points, faces) / expected_area - 1) < 0.01
                assert abs(volume(points, faces) / expected_volume - 1) < 0.02
        assert np.abs(field(points)).max() < 0.004


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=60, max_size=60))
def test_random_fields_have_closed_surfaces(values):
    field = np.full(GRID, -1.0, np.float32)
    field[1:-1, 1:-1, 1:-1] = np.array(values, np.float32).reshape(3, 4, 5)
    points, faces = map(np.asarray, netted(field).trimmed())
    assert is_closed(faces, most=2)
    assert np.isin(np.arange(len(points)), faces).all()
    assert volume(points, np.concatenate([faces[:, :3], faces[:, [0, 2, 3]]])) <= 1e-4


def plain(field):
    """A function of the field that gives each vertex as the mean of its patch's crossings, in jax.numpy."""
    values = np.asarray(field)
    patch, low, high = [], [], []
    for cell in np.ndindex(*(n - 1 for n in values.shape)):
        case = sum(1 << n for n, c in enumerate(cases.CORNERS) if values[tuple(np.add(cell, c))] >= 0)
        for loop in cases.loops(case):
            number = patch[-1] + 1 if patch else 0
            patch += [number] * len(loop)
            low += [np.add(cell, cases.CORNERS[cases.EDGES[e][0]]) for e in loop]
            high += [np.add(cell, cases.CORNERS[cases.EDGES[e][1]]) for e in loop]
    patch, low, high = np.array(patch), np.array(low), np.array(high)

    def vertices(field):
        a, b = field[tuple(low.T)], field[tuple(high.T)]
        at = np.float32(low) + (a / (a - b))[:, None] * np.float32(high - low)
        count = np.bincount(patch)
        return jax.ops.segment_sum(at, patch, len(count)) / np.float32(count)[:, None]

    return vertices


def test_vertices_and_derivatives():
    rng = np.random.default_rng(0)
    field, way = (jnp.asarray(rng.normal(size=(3, 3, 4)), jnp.float32) for _ in range(2))
    expected = plain(field)
    exact = expected(field)
    weights = jnp.asarray(rng.normal(size=exact.shape), jnp.float32)
    found = wp.geometry.surface_nets(field)
    assert found.vertex_count == len(exact)
    np.testing.assert_allclose(found.vertices, exact, atol=1e-6)

    def ours(f):
        return (wp.geometry.surface_nets(f, size=99).vertices[: len(exact)] ** 2 * weights).sum()

    slopes = [jax.jit(jax.grad(f)) for f in (ours, lambda f: (expected(f) ** 2 * weights).sum())]
    a, b = (slope(field) for slope in slopes)
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())
    np.testing.assert_allclose(jax.jvp(ours, (field,), (way,))[1], (b * way).sum(), rtol=1e-3)
    a, b = (jax.jit(lambda f, s=s: jax.jvp(s, (f,), (way,))[1])(field) for s in slopes)
    np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-3 * np.abs(b).max())


def test_batches_sizes_and_holes():
    fields = np.random.default_rng(1).normal(size=(2, *GRID)).astype(np.float32)
    many = jax.vmap(netted)(fields)
    for k in range(2):
        for a, b in zip(many, netted(fields[k]), strict=True):
            np.testing.assert_array_equal(a[k], b)
    whole = wp.geometry.surface_nets(fields[0])
    count, faces = int(whole.vertex_count), int(whole.face_count)
    for size, missing in (((count, faces), False), ((count - 1, faces - 2), True)):
        found = wp.geometry.surface_nets(fields[0], size=size)
        assert bool(found.overflow) is missing
        assert (found.vertex_count, found.face_count) == (count, faces)
    hole = fields[0].copy()
    hole[2, 3, 3] = np.nan
    found = wp.geometry.surface_nets(hole)
    points, faces = found.trimmed()
    assert 0 < len(faces) < whole.face_count
    assert np.isfinite(points).all()
    assert faces.min() >= 0
    assert faces.max() < len(points)
    with pytest.raises(KernelError, match="surface_nets: field: expected three axes"):
        wp.geometry.surface_nets(fields)
