"""Fields annotated uint64 that hold a mesh, as programs of Warp have them: the struct's kernels take it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelError

POINTS = jnp.array([[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 1.0]])
FACES = jnp.array([[0, 1, 2]], jnp.int32)
ORIGINS = jnp.array([[1.0, 1.0, 3.0], [0.5, 0.5, 3.0]])
EXPECTED = [5.5, 5.75]


@wp.struct
class Scene:
    id: wp.uint64
    scale: float


@wp.struct
class World:
    scene: Scene
    seed: int


@wp.func
def look(scene: Scene, origin: wp.vec3) -> float:
    return scene.scale * wp.mesh_query_ray(scene.id, origin, wp.vec3(0.0, 0.0, -1.0), 100.0).t


@wp.kernel
def depths(scene: Scene, origins: wp.array[wp.vec3], t: wp.array[float]):
    i = wp.tid()
    t[i] = look(scene, origins[i])


@wp.kernel
def depths_in(world: World, origins: wp.array[wp.vec3], t: wp.array[float]):
    i = wp.tid()
    scene = world.scene
    t[i] = look(scene, origins[i])


@wp.kernel
def number(scene: Scene, t: wp.array[float]):
    t[wp.tid()] = float(scene.id)


cast = wp.jax_kernel(depths)


def scene_of(points):
    return Scene(id=wp.Mesh(points, FACES), scale=2.0)


def test_in_jax():
    scene = scene_of(POINTS)
    assert isinstance(scene.id, wp.Mesh)
    for run in (cast, jax.jit(cast)):
        np.testing.assert_allclose(run(scene, ORIGINS)[0], EXPECTED)
    (found,) = wp.jax_kernel(depths_in)(World(scene=scene, seed=1), ORIGINS)
    np.testing.assert_allclose(found, EXPECTED)

    def total(points):
        return cast(scene_of(points), ORIGINS)[0].sum()

    np.testing.assert_allclose(jax.grad(total)(POINTS)[:, 2], [-2.5, -0.75, -0.75])
    many = jax.vmap(total)(jnp.stack([POINTS, POINTS + jnp.array([0.0, 0.0, 1.0])]))
    np.testing.assert_allclose(many, [11.25, 7.25])


def test_outside_of_jax():
    points = wp.array(np.asarray(POINTS), dtype=wp.vec3)
    scene = Scene()
    scene.id = wp.Mesh(points, wp.array(np.asarray(FACES).reshape(-1), dtype=int)).id
    scene.scale = 2.0
    origins, t = wp.array(np.asarray(ORIGINS), dtype=wp.vec3), wp.zeros(2, dtype=float)
    wp.launch(depths, 2, [scene, origins], [t])
    np.testing.assert_allclose(t.numpy(), EXPECTED)


def test_numbers_stay_numbers():
    scene, t = Scene(), wp.zeros(1, dtype=float)
    scene.id = 5
    wp.launch(number, 1, [scene], [t])
    assert t.numpy() == [5.0]
    with pytest.raises(KernelError, match="Mesh"):
        wp.jax_kernel(number, launch_dims=1, output_dims=1)(scene_of(POINTS))
    with pytest.raises(KernelError, match="field scale: expected float32, got Mesh"):
        scene.scale = wp.Mesh(POINTS, FACES)


@wp.struct
class Near:
    grid: wp.uint64
    radius: float


@wp.struct
class Around:
    near: Near


@wp.kernel
def count_near(s: Around, place: wp.array[wp.vec3], out: wp.array[int]):
    i = wp.tid()
    for _j in wp.hash_grid_query(s.near.grid, place[i], s.near.radius):
        out[i] += 1


def test_a_copy_of_a_struct_has_the_same_mesh_and_grid():
    grid, mesh = wp.HashGrid(32, 32, 32), wp.Mesh(wp.array(POINTS, dtype=wp.vec3), wp.array([0, 1, 2], dtype=int))
    around, world = Around(Near(grid.id, 0.5)), World(Scene(mesh.id, 2.0), 1)
    place, out = wp.array(POINTS, dtype=wp.vec3), wp.zeros(3, dtype=int)
    for copies in (1, 2):  # what they are given later is seen through the ids
        grid.build(wp.array(np.tile(POINTS, (copies, 1)), dtype=wp.vec3), 0.5)
        wp.launch(count_near, 3, [around, place], [out.zero_()])
        assert out.numpy().tolist() == [copies] * 3
    mesh.points = wp.array(POINTS - jnp.array([0.0, 0.0, 1.0]), dtype=wp.vec3)
    t = wp.zeros(2, dtype=float)
    wp.launch(depths_in, 2, [world, wp.array(ORIGINS, dtype=wp.vec3)], [t])
    np.testing.assert_allclose(t.numpy(), np.array(EXPECTED) + 2.0)
