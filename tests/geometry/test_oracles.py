"""Rays, closest points and winding numbers beside libraries that are made for them: `pip install jaxwarp[oracles]`."""

from __future__ import annotations

import numpy as np
import pytest

import jaxwarp as wp
from tests.geometry.brute import rays, sphere

P, F = sphere(24, bumps=0.25)  # 6,912 triangles
COUNT = 20_000


def camera_rays(side: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(-0.6, 0.6, side)
    x, y = np.meshgrid(x, x)
    directions = np.stack([x, y, -np.ones_like(x)], -1).reshape(-1, 3).astype(np.float32)
    return np.broadcast_to(np.float32([0.0, 0.0, 3.0]), directions.shape).copy(), directions


@pytest.mark.parametrize("shot", ["anywhere", "camera"])
def test_rays_beside_embree(shot):
    scenes, meshes = pytest.importorskip("embreex.rtcore_scene"), pytest.importorskip("embreex.mesh_construction")
    origins, directions = camera_rays(150) if shot == "camera" else rays(COUNT, 3)
    scene = scenes.EmbreeScene(robust=True)
    meshes.TriangleMesh(scene, P[F])
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    expected = scene.run(origins, unit.astype(np.float32), output=True)
    found = wp.geometry.cast_rays(wp.Mesh(P, F), origins, unit.astype(np.float32))
    face, t = np.asarray(found.face), np.asarray(found.t)
    is_hit = expected["primID"] >= 0
    assert is_hit.sum() > COUNT // 40
    # Where the surface turns away, a ray may pass by what another computation hits.
    assert ((face >= 0) != is_hit).mean() <= 2e-4
    both = is_hit & (face >= 0)
    is_near = np.isclose(t[both], expected["tfar"][both], rtol=2e-5, atol=2e-5)
    assert (~is_near).mean() <= 2e-4
    # On an edge it is one face or the other.
    assert (face[both] != expected["primID"][both]).mean() <= 1e-2


def test_closest_points_beside_libigl():
    igl = pytest.importorskip("igl")
    points = np.random.default_rng(5).uniform(-1.5, 1.5, (COUNT, 3)).astype(np.float32)
    squares, _, places = igl.point_mesh_squared_distance(points.astype(float), P.astype(float), F.astype(np.int64))[:3]
    found = wp.geometry.closest_points(wp.Mesh(P, F), points)
    np.testing.assert_allclose(found.distance, np.sqrt(squares), rtol=1e-5, atol=2e-6)
    apart = np.linalg.norm(np.asarray(found.point) - places, axis=1)
    assert (apart > 1e-4).mean() <= 1e-3  # where two places are as close


@pytest.mark.parametrize("kept", [1.0, 0.7], ids=["closed", "with holes"])
def test_winding_numbers_beside_libigl(kept):
    igl = pytest.importorskip("igl")
    random = np.random.default_rng(6)
    faces = F[random.random(len(F)) < kept]
    points = random.uniform(-1.5, 1.5, (COUNT, 3)).astype(np.float32)
    exact = igl.winding_number(P.astype(float), faces.astype(np.int64), points.astype(float))
    found = wp.geometry.winding_number(wp.Mesh(P, faces, support_winding_number=True), points)
    assert 0.05 < (exact > 0.3).mean() < 0.95
    np.testing.assert_allclose(found, exact, atol=1e-3)
