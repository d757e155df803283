"""Surfaces on some cells of a grid: against those on all, and cells that a surface can pass."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError

geo = wp.geometry
RING, TUBE = 0.55, 0.25


@wp.kernel
def measure(places: wp.array[wp.vec3], radius: wp.array[float], values: wp.array[float]):
    i = wp.tid()
    p = places[i]
    across = wp.sqrt(p[0] * p[0] + p[1] * p[1]) - RING
    values[i] = wp.sqrt(across * across + p[2] * p[2]) - radius[0]


def torus(places: Any, radius: Any = None) -> Any:
    values = wp.zeros(len(places), dtype=float, requires_grad=radius is not None)
    radius = wp.array([TUBE], dtype=float) if radius is None else radius
    wp.launch(measure, len(places), [places, radius], [values])
    return values


def at_nodes(dims: tuple[int, int, int], lower: Any, upper: Any) -> np.ndarray:
    axes = (np.linspace(a, b, n) for a, b, n in zip(lower, upper, dims, strict=True))
    p = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    across = np.hypot(p[..., 0], p[..., 1]) - RING
    return (np.hypot(across, p[..., 2]) - TUBE).astype(np.float32)


def farthest(one: tuple[Any, Any], other: tuple[Any, Any]) -> float:
    """How far a triangle is at most from one of another surface: the middle, and the normal."""
    sides = []
    for points, faces in (one, other):
        a, b, c = np.asarray(points, np.float64)[np.asarray(faces).reshape(-1, 3)].transpose(1, 0, 2)
        sides.append(np.concatenate([(a + b + c) / 3, np.cross(b - a, c - a)], 1))
    return max(cKDTree(x).query(y)[0].max() for x, y in (sides, sides[::-1]))


@pytest.mark.parametrize("dims", [(17, 17, 17), (20, 13, 31)])
def test_the_surface_is_that_of_all_nodes(dims):
    lower, upper = (-0.9, -0.95, -0.6), (0.92, 1.0, 0.5)
    points, faces, stats = geo.sparse_marching_cubes(torus, *dims, lower=lower, upper=upper, return_stats=True)
    dense = geo.marching_cubes(jnp.asarray(at_nodes(dims, lower, upper)), lower=lower, upper=upper)
    expected = dense.trimmed()
    assert len(faces) // 3 == len(expected[1])
    assert farthest((points.numpy(), faces.numpy()), expected) < 1e-4
    assert stats["requested_ncells"] == tuple(n - 1 for n in dims)
    assert stats["culled_cells"] == 0 or max(dims) != min(dims)


def test_few_places_are_asked_for():
    _, _, stats = geo.sparse_marching_cubes(torus, 129, 129, 129, lower=[-1] * 3, upper=[1] * 3, return_stats=True)
    assert 10 * stats["field_evaluations"] < 129**3
    assert stats["unique_corners"] < 2 * stats["leaf_cells"]


def test_no_cell_of_the_surface_is_missing():
    cells, width = geo.lipschitz_octree(torus, (-1.0, -1.0, -1.0), 2.0, 5)
    assert width == 2 / 32
    above = at_nodes((33, 33, 33), [-1] * 3, [1] * 3) >= 0
    eight = sum(above[i : 32 + i, j : 32 + j, k : 32 + k].astype(int) for i in (0, 1) for j in (0, 1) for k in (0, 1))
    passed = {tuple(c) for c in np.argwhere((eight > 0) & (eight < 8))}
    found = {tuple(c) for c in cells.numpy()}
    assert passed <= found
    assert len(found) < 4 * len(passed)


def test_cells_whose_centre_is_nan_are_kept():
    def hole(places: Any) -> Any:
        values = np.array(torus(places).numpy())
        values[places.numpy()[:, 0] > 0.5] = np.nan
        return values

    every, _ = geo.lipschitz_octree(torus, [-1.0] * 3, 2.0, 4)
    found, _ = geo.lipschitz_octree(hole, [-1.0] * 3, 2.0, 4)
    assert {tuple(c) for c in every.numpy()} <= {tuple(c) for c in found.numpy()}


def test_fields_may_be_functions_of_jax():
    one = geo.sparse_marching_cubes(torus, 17, 17, 17, lower=[-1] * 3, upper=[1] * 3)

    @jax.jit
    def field(p: Any) -> Any:
        return jnp.hypot(jnp.hypot(p[:, 0], p[:, 1]) - RING, p[:, 2]) - TUBE

    two = geo.sparse_marching_cubes(lambda p: field(jnp.asarray(p.numpy())), 17, 17, 17, lower=[-1] * 3, upper=[1] * 3)
    np.testing.assert_array_equal(one[1].numpy(), two[1].numpy())
    np.testing.assert_allclose(one[0].numpy(), two[0].numpy(), atol=1e-5)


def test_cells_may_be_anywhere_and_far_apart():
    """A ball's corner cell at one place and, 2^25 cells away, at another."""
    values = np.array([[1, 1, 1, 1, 1, 1, -1, 1]] * 2, np.float32)
    far = 1 << 25
    points, faces = geo.sparse_marching_cubes_from_cells(
        np.array([[0, 0, 0], [far, -far, 3]], np.int32), values, origin=(1.0, 0.0, 0.0), cell_width=0.5
    )
    assert faces.numpy().tolist() == [0, 1, 2, 3, 4, 5] or sorted(faces.numpy()) == list(range(6))
    here, there = points.numpy()[:3], points.numpy()[3:]
    np.testing.assert_allclose(here.max(0) - here.min(0), 0.25)
    assert (there[:, 0] >= far / 2).all()


def test_a_corner_that_is_nan_makes_a_hole():
    values = np.array([[1, 1, 1, 1, 1, 1, -1, 1]], np.float32)
    assert len(geo.sparse_marching_cubes_from_cells(np.zeros((1, 3), np.int32), values)[1]) == 3
    values[0, 0] = np.nan
    assert len(geo.sparse_marching_cubes_from_cells(np.zeros((1, 3), np.int32), values)[1]) == 0
    assert len(geo.sparse_marching_cubes_from_cells(np.zeros((0, 3), np.int32), np.zeros((0, 8)))[0]) == 0


@wp.kernel
def add_area(points: wp.array[wp.vec3], faces: wp.array[int], area: wp.array[float]):
    i = wp.tid()
    a = points[faces[3 * i]]
    wp.atomic_add(area, 0, 0.5 * wp.length(wp.cross(points[faces[3 * i + 1]] - a, points[faces[3 * i + 2]] - a)))


@pytest.mark.parametrize("way", ["field", "cells"])
def test_a_tape_follows_vertices(way):
    """The area of a torus is 4 pi^2 R r."""
    radius = wp.array([TUBE], dtype=float, requires_grad=True)
    area = wp.zeros(1, dtype=float, requires_grad=True)
    cells, width = geo.lipschitz_octree(torus, [-1.0] * 3, 2.0, 5)
    offsets = np.array(geo.IsoSurfaceMarchingCubes.CUBE_CORNER_OFFSETS)
    places = wp.array(((cells.numpy()[:, None] + offsets) * width - 1.0).reshape(-1, 3), dtype=wp.vec3)
    with wp.Tape() as tape:
        if way == "field":
            box = {"lower": [-1] * 3, "upper": [1] * 3}
            points, faces = geo.sparse_marching_cubes(lambda p: torus(p, radius), 33, 33, 33, **box)
        else:
            values = torus(places, radius)
            points, faces = geo.sparse_marching_cubes_from_cells(cells, values, [-1.0] * 3, width)
        wp.launch(add_area, len(faces) // 3, [points, faces], [area])
    tape.backward(area)
    np.testing.assert_allclose(area.numpy(), 4 * np.pi**2 * RING * TUBE, rtol=0.02)
    np.testing.assert_allclose(radius.grad.numpy(), 4 * np.pi**2 * RING, rtol=0.02)


FLAT = np.zeros((1, 8), np.float32)
CELL = np.zeros((1, 3), np.int32)
BAD = {
    "field: expected a function": lambda: geo.lipschitz_octree(3, [0] * 3, 1.0, 2),
    "got Func": lambda: geo.lipschitz_octree(wp.func(point), [0] * 3, 1.0, 2),
    "return an array of float32, got int": lambda: geo.lipschitz_octree(lambda p: 3, [0] * 3, 1.0, 2),
    "expected 1 values": lambda: geo.lipschitz_octree(lambda p: np.zeros(2, np.float32), [0] * 3, 1.0, 2),
    "max_depth: expected 0 to 30": lambda: geo.lipschitz_octree(torus, [0] * 3, 1.0, 31),
    "root_width": lambda: geo.lipschitz_octree(torus, [0] * 3, 0.0, 3),
    "lipschitz_bound": lambda: geo.sparse_marching_cubes(torus, 3, 3, 3, lipschitz_bound=-1.0),
    "ny: expected 2 to 1073741824, got 1": lambda: geo.sparse_marching_cubes(torus, 3, 1, 3),
    "cell_width": lambda: geo.sparse_marching_cubes_from_cells(CELL, FLAT, cell_width=0.0),
    "cells: expected integers": lambda: geo.sparse_marching_cubes_from_cells(CELL.astype(np.float32), FLAT),
    r"corner_values: expected float32, \(1, 8\)": lambda: geo.sparse_marching_cubes_from_cells(CELL, FLAT[:, :7]),
    "cells: expected each cell once": lambda: geo.sparse_marching_cubes_from_cells(
        np.repeat(CELL, 2, 0), np.repeat(FLAT, 2, 0)
    ),
    "cells: expected places": lambda: geo.sparse_marching_cubes_from_cells(CELL.astype(np.uint64) + 2**63, FLAT),
    "corner_values: .* got complex64": lambda: geo.sparse_marching_cubes_from_cells(CELL, FLAT + 1j),
    "origin: expected three": lambda: geo.sparse_marching_cubes_from_cells(CELL, FLAT, origin=(1.0,)),
    "threshold: expected a finite": lambda: geo.sparse_marching_cubes_from_cells(CELL, FLAT, threshold=np.nan),
    "nx: expected 2 to .* got 2[.]5": lambda: geo.sparse_marching_cubes(torus, 2.5, 3, 3),
    "upper: expected other": lambda: geo.sparse_marching_cubes(torus, 3, 3, 3, lower=[0] * 3, upper=[0] * 3),
    "root_width: expected a positive finite": lambda: geo.lipschitz_octree(torus, [0] * 3, np.inf, 2),
    "too far apart": lambda: geo.sparse_marching_cubes_from_cells(
        np.array([[-(2**30)] * 3, [2**30] * 3], np.int32), np.zeros((2, 8), np.float32)
    ),
}


def point(p: wp.vec3) -> float:
    return wp.length(p)


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    with pytest.raises((KernelTypeError, KernelValueError), match=message):
        BAD[message]()


def test_it_is_refused_in_programs():
    with pytest.raises(KernelTypeError, match="a size that does not depend on values"):
        jax.jit(lambda: geo.sparse_marching_cubes(torus, 3, 3, 3))()
