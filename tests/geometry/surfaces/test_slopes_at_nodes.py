"""Derivatives of surfaces that pass through nodes: where values are 0, equal, infinite, or NaN beside them.

A node that has the threshold is above it. So vertices have the derivatives of a field that is a little more there: the
difference ahead, in which the surface keeps its faces, or the one behind by the threshold.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp

RANDOM = np.random.default_rng(0)
NODES = (4, 4, 4)
CASES = 12  # fields of small integers: at each of them, cells of many of the 256 cases have nodes at the threshold


def with_value(value: float) -> np.ndarray:
    found = RANDOM.integers(-1, 2, NODES).astype(np.float32)
    found[1, 1, 1], found[2, 1, 2] = value, -value
    return found


def plane(*values: float) -> np.ndarray:
    return np.broadcast_to(np.array(values, np.float32), NODES).copy()


FIELDS = {
    **{f"integers {k}": RANDOM.integers(-1, 2, NODES).astype(np.float32) for k in range(CASES)},
    "a plane through nodes": plane(1.0, 0.0, -1.0, -2.0),
    "its other side": plane(-1.0, 0.0, 1.0, 1.0),
    "one node": np.where((np.indices(NODES) == 1).all(0), 0.0, -1.0).astype(np.float32),
    "flat above": np.where(np.indices(NODES).max(0) <= 1, 0.0, -2.0).astype(np.float32),
    "no surface": np.zeros(NODES, np.float32),
    "infinite nodes": with_value(np.inf),
    "nodes that are NaN": with_value(np.nan),
}
METHODS = {"marching cubes": wp.geometry.marching_cubes, "surface nets": wp.geometry.surface_nets}
STEP = 2.0**-9


SIZE = (160, 300)  # vertices that are not there are 0


def ahead(here: Any, near: Any, far: Any) -> np.ndarray:
    """The slope, to second order, of values at 0, half a step and a step."""
    here, near, far = (np.asarray(v, np.float64) for v in (here, near, far))
    return (4 * near - far - 3 * here) / STEP


@cache
def functions(method: str) -> tuple[Any, Any]:
    """How many vertices there are, and where, of many fields and thresholds; and their derivatives in both modes."""

    def vertices(field: Any, threshold: Any) -> jax.Array:
        return METHODS[method](field, threshold, size=SIZE).vertices

    @jax.jit
    @jax.vmap
    def many(field: Any, threshold: Any) -> Any:
        found = METHODS[method](field, threshold, size=SIZE)
        return found.vertex_count, found.vertices

    @jax.jit
    def derivatives(field: Any) -> Any:
        return [mode(vertices, (0, 1))(field, jnp.float32(0.0)) for mode in (jax.jacfwd, jax.jacrev)]

    return many, derivatives


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("method", METHODS)
def test_vertices_move_with_nodes_that_have_the_threshold(method, name):
    field = FIELDS[name]
    many, derivatives = functions(method)
    is_asked = np.isfinite(field).reshape(-1)
    one = np.eye(field.size, dtype=np.float32).reshape(-1, *NODES) * is_asked[:, None, None, None]
    moved = [np.where(one > 0, field + np.float32(step), field) for step in (STEP / 2, STEP)]
    fields = np.concatenate([[field] * 3, *moved])
    thresholds = np.zeros(len(fields), np.float32)
    thresholds[1:3] = -STEP / 2, -STEP
    counts, ends = many(fields, thresholds)
    assert bool(counts[0]) == (name != "no surface")
    assert counts[0] <= SIZE[0]
    slopes = ahead(ends[0], *np.split(ends[3:], 2))[is_asked]
    by_threshold = -ahead(*ends[:3])
    for by_field, by_value in derivatives(field):
        assert np.isfinite(by_field).all()
        found = np.moveaxis(np.asarray(by_field).reshape(SIZE[0], 3, -1), -1, 0)[is_asked]
        np.testing.assert_allclose(found, slopes, atol=2e-3)
        np.testing.assert_allclose(by_value, by_threshold, atol=2e-3)


def slopes_of_sum(method: str, field: np.ndarray) -> np.ndarray:
    """The gradient of the sum of all coordinates."""
    _, derivatives = functions(method)
    _, (by_field, _) = derivatives(field)
    return np.asarray(by_field).sum((0, 1))


@pytest.mark.parametrize("surfaces", [wp.geometry.IsoSurfaceMarchingCubes, wp.geometry.IsoSurfaceNets])
def test_tapes_have_the_same_slopes(surfaces):
    values = FIELDS["integers 0"]
    method = "marching cubes" if surfaces is wp.geometry.IsoSurfaceMarchingCubes else "surface nets"
    field = wp.array(values, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        points, _ = surfaces.extract(field)
    tape.backward(grads={points: wp.array(np.ones((*points.shape, 3)), dtype=wp.vec3)})
    np.testing.assert_allclose(field.grad.numpy(), slopes_of_sum(method, values), atol=1e-5)


def test_surfaces_of_cells_have_the_slopes_of_those_of_grids():
    field = FIELDS["integers 0"]
    cells = np.array(list(np.ndindex(*(n - 1 for n in field.shape))), np.int32)
    corners = cells[:, None] + np.array(wp.geometry.IsoSurfaceMarchingCubes.CUBE_CORNER_OFFSETS)
    values = wp.array(field[tuple(corners.reshape(-1, 3).T)].reshape(-1, 8), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        points, _ = wp.geometry.sparse_marching_cubes_from_cells(cells, values)
    tape.backward(grads={points: wp.array(np.ones((*points.shape, 3)), dtype=wp.vec3)})
    found = np.zeros_like(field)
    np.add.at(found, tuple(corners.reshape(-1, 3).T), values.grad.numpy().reshape(-1))
    np.testing.assert_allclose(found, slopes_of_sum("marching cubes", field), atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_grid_without_extent_has_slopes_by_its_corners(method):
    """All vertices are at one place along an axis; they leave it as the corners do."""
    flat = jnp.array([0.0, 1.0, 1.0])

    def vertices(low: jax.Array, high: jax.Array) -> jax.Array:
        return METHODS[method](FIELDS["integers 1"], size=SIZE, lower=low, upper=high).vertices

    @jax.jit
    def found(low: jax.Array, high: jax.Array) -> Any:
        there = METHODS[method](FIELDS["integers 1"], size=SIZE)
        return there, [mode(vertices, (0, 1))(low, high) for mode in (jax.jacfwd, jax.jacrev)]

    there, modes = found(flat, flat)
    count = int(there.vertex_count)
    assert 0 < count <= SIZE[0]
    share = there.vertices[:count] / 3.0
    for by_low, by_high in modes:
        for k in range(3):
            np.testing.assert_allclose(by_low[:count, k, k], 1 - share[:, k], atol=1e-6)
            np.testing.assert_allclose(by_high[:count, k, k], share[:, k], atol=1e-6)
