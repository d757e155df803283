"""The classes for programs of Warp, on arrays outside of JAX."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelError

from .shapes import ball, nodes

FIELD = ball(nodes((9, 10, 11))).astype(np.float32)
CORNERS = {"lower": (-1.0, -1.0, -1.0), "upper": (1.0, 1.0, 1.0)}


@pytest.mark.parametrize("name", ["marching_cubes", "surface_nets"])
def test_they_are_what_jax_gives(name):
    kind = {"marching_cubes": wp.geometry.IsoSurfaceMarchingCubes, "surface_nets": wp.geometry.IsoSurfaceNets}[name]
    made = kind(9, 10, 11, **CORNERS)
    field = wp.array(FIELD, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        made.surface(field, 0.05)
    points, faces = getattr(wp.geometry, name)(jnp.asarray(FIELD), 0.05, **CORNERS).trimmed()
    np.testing.assert_array_equal(made.verts.numpy(), points)
    np.testing.assert_array_equal(made.indices.numpy().reshape(-1, 3), faces)
    made.verts.grad.fill_(wp.vec3(1.0, 2.0, 3.0))
    tape.backward()
    slope = field.grad.numpy()
    step = 1e-3 * np.sign(slope)
    moved = [kind.extract(wp.array(FIELD + s * step, dtype=float), 0.05, **CORNERS)[0].numpy() for s in (1, -1)]
    rise = ((moved[0] - moved[1]) * [1.0, 2.0, 3.0]).sum() / 2e-3
    np.testing.assert_allclose(np.abs(slope).sum(), rise, rtol=1e-2)


def test_names_of_warp():
    assert wp.MarchingCubes is wp.geometry.IsoSurfaceMarchingCubes
    made = wp.MarchingCubes(nx=9, ny=10, nz=11, domain_bounds_lower_corner=wp.vec3(-1.0, -1.0, -1.0),
                            domain_bounds_upper_corner=wp.vec3(1.0, 1.0, 1.0))  # fmt: skip
    assert isinstance(made, wp.geometry.IsoSurfaceBase)
    field = wp.array(FIELD, dtype=float)
    made.surface(field, threshold=0.0)
    points, indices = made.extract_surface_marching_cubes(field, 0.0, (-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))
    np.testing.assert_array_equal(made.verts.numpy(), points.numpy())
    np.testing.assert_array_equal(made.indices.numpy(), indices.numpy())
    assert (len(made.CASE_TO_TRI_RANGE), len(made.TRI_LOCAL_INDICES)) == (257, 2460)
    quads = wp.geometry.IsoSurfaceNets.extract(field, topology="quad")[1]
    assert len(quads) % 4 == 0
    made.resize(4, 4, 4)
    made.surface(wp.zeros((4, 4, 4)), 0.5)
    assert made.verts.shape == (0,)
    assert made.indices.shape == (0,)


def test_wrong_arguments_are_refused():
    made, field = wp.MarchingCubes(4, 4, 4), wp.zeros((4, 4, 4))
    for run, message in [
        (lambda: made.surface(wp.zeros((4, 4, 5)), 0.0), r"field: expected the shape \(4, 4, 4\), got \(4, 4, 5\)"),
        (lambda: made.surface(jnp.zeros((4, 4, 4)), 0.0), "in JAX arrays have a size that does not depend on values"),
        (lambda: made.surface(np.zeros((4, 4, 4)), 0.0), "field: expected an array of float32, got ndarray"),
        (lambda: made.extract(wp.zeros((4, 4, 4), dtype=int)), "field: expected float32"),
        (lambda: made.extract(wp.zeros((4, 4))), "field: expected three axes"),
        (lambda: wp.MarchingCubes(4, 4, 4, (0, 0, 0), domain_bounds_lower_corner=(0, 0, 0)), "are the same"),
        (lambda: wp.geometry.IsoSurfaceNets(4, 4, 4, topology="hexagon"), "topology: expected 'triangle' or 'quad'"),
        (lambda: wp.geometry.IsoSurfaceNets.extract(field, topology=4), "topology: expected 'triangle' or 'quad'"),
    ]:
        with pytest.raises(KernelError, match=message):
            run()
    with pytest.raises(TypeError):
        wp.geometry.IsoSurfaceBase(4, 4, 4)
