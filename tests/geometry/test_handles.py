"""Arguments annotated uint64, which are given a mesh, a tree or a grid."""

# ruff: noqa: UP018

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.arrays import launching
from jaxwarp.errors import KernelError
from tests.geometry.brute import sphere


@wp.func
def height(mesh: wp.uint64, x: wp.vec3) -> float:
    return wp.mesh_query_ray(mesh, x, wp.vec3(0.0, 0.0, -1.0), 100.0).t


@wp.kernel
def mixed(
    n: wp.uint64, mesh: wp.uint64, grid: wp.uint64, other: wp.uint64, x: wp.array[wp.vec3], out: wp.array[wp.vec4],
):  # fmt: skip
    i = wp.tid()
    count = float(0.0)
    for _k in wp.hash_grid_query(grid, x[i], 0.5):
        count += 1.0
    out[i] = wp.vec4(float(n), height(mesh, x[i]), height(other, x[i]), count)


P, F = sphere(2, 0.0)
X = np.array([[0.1, 0.2, 3.0], [0.3, 0.1, 4.0]], np.float32)


def test_numbers_and_structs_stand_side_by_side():
    one, two = wp.Mesh(P, F), wp.Mesh(np.float32(2) * P, F)
    grid = wp.HashGrid(8, 8, 8)
    points = wp.array(X, dtype=wp.vec3)
    grid.build(points, 0.5)
    out = wp.zeros(2, dtype=wp.vec4)
    wp.launch(mixed, dim=2, inputs=[7, one.id, grid.id, two.id, points], outputs=[out])
    found = out.numpy().copy()
    assert found[:, 0].tolist() == [7, 7]
    assert (found[:, 1] > found[:, 2]).all()
    assert (found[:, 3] >= 1).all()
    again = wp.launch(mixed, dim=2, inputs=[7, two, grid, one, points], outputs=[out], record_cmd=True)
    again.launch()
    np.testing.assert_array_equal(out.numpy()[:, 1:3], found[:, 2:0:-1])
    again.set_param_by_name("mesh", one)
    again.launch()
    np.testing.assert_array_equal(out.numpy()[:, 1], found[:, 1])


@wp.kernel
def heights(mesh: wp.uint64, x: wp.array[wp.vec3], out: wp.array[float]):
    out[wp.tid()] = height(mesh, x[wp.tid()])


def test_calls_in_jax_take_structs_for_numbers():
    call = wp.jax_kernel(heights)
    mesh = wp.Mesh(jnp.asarray(P), jnp.asarray(F))
    (plain,) = call(mesh.id, X, launch_dims=2)
    (jitted,) = jax.jit(lambda m: call(m, X, launch_dims=2))(mesh)
    np.testing.assert_array_equal(plain, jitted)
    gradient = jax.grad(lambda m: call(m, X, launch_dims=2)[0].sum(), allow_int=True)(mesh)
    np.testing.assert_allclose(gradient.points[:, 2].sum(), -2.0, rtol=1e-5)


@wp.kernel
def twice(n: wp.uint64, out: wp.array[wp.uint64]):
    out[0] = n * wp.uint64(2)


@pytest.mark.release_mode("debug mode reports ids of nothing")
def test_numbers_of_meshes_and_of_none():
    mesh, out = wp.Mesh(P, F), wp.zeros(1, dtype=wp.uint64)
    wp.launch(twice, dim=1, inputs=[mesh.id, out])
    assert out.numpy()[0] == 2 * mesh.id
    t = np.ones(2, np.float32)
    wp.launch(heights, dim=1, inputs=[5, X, t])
    assert t.tolist() == [0, 1]
    with pytest.raises(KernelError, match="uint64"):
        wp.jax_kernel(twice, launch_dims=1, output_dims=1)(mesh)


@wp.struct
class Scene:
    grid: wp.HashGrid
    radius: float


@wp.kernel
def count_near(scene: Scene, x: wp.array[wp.vec3], near: wp.array[int]):
    i = wp.tid()
    for j in wp.hash_grid_query(scene.grid, x[i], scene.radius):
        if wp.length(x[i] - x[j]) <= scene.radius:
            near[i] += 1


@wp.kernel
def count_cells(scene: Scene, near: wp.array[int]):
    near[wp.tid()] = scene.grid.start.shape[0]


def test_arrays_inside_of_grids_do_not_give_the_launch_dimensions():
    """A grid of fewer cells than there are points left the last ones out."""
    x = jnp.asarray(np.random.default_rng(0).uniform(size=(40, 3)), jnp.float32)
    scene = Scene(grid=wp.HashGrid.build(x, 0.5, 2), radius=0.5)
    (near,) = wp.jax_kernel(count_near)(scene, x)
    distances = np.linalg.norm(x[:, None] - x[None], axis=-1)
    np.testing.assert_array_equal(near, (distances <= 0.5).sum(1))
    with pytest.raises(KernelError, match="no array input to take the launch dimensions from"):
        wp.jax_kernel(count_cells)(scene)


@wp.kernel
def look_down(mesh: wp.uint64, weight: wp.array[float], t: wp.array[float]):
    i = wp.tid()
    t[i] = wp.mesh_query_ray(mesh, wp.vec3(0.1, 0.2, 5.0), wp.vec3(0.0, 0.0, -1.0), 10.0).t
    if weight:
        t[i] *= weight[i]


def test_launches_on_a_mesh_are_checked_once(monkeypatch):
    """A mesh without velocities, and None for an array, are as good as any other argument."""
    mesh = wp.Mesh(points=wp.array(P, dtype=wp.vec3), indices=wp.array(F.ravel(), dtype=int))
    found, weights, checks = [], [None, wp.full(3, 2.0), None, wp.full(3, 3.0)], []
    check = launching.check
    monkeypatch.setattr(launching, "check", lambda *given: checks.append(given) or check(*given))
    for weight in weights:
        t = wp.zeros(3)
        wp.launch(look_down, 3, [mesh.id, weight], [t])
        found.append(float(t.numpy()[2]))
    np.testing.assert_allclose(found, np.array([1, 2, 1, 3]) * found[0], rtol=1e-6)
    assert len(checks) == 2


def by_number(mesh: wp.uint64, x: wp.array[wp.vec3], out: wp.array[float]):
    wp.launch(heights, dim=x.shape, inputs=[mesh, x], outputs=[out])


def by_mesh(mesh: wp.Mesh, x: wp.array[wp.vec3], out: wp.array[float]):
    wp.launch(heights, dim=x.shape, inputs=[mesh, x], outputs=[out])


@pytest.mark.parametrize("mode", [wp.GraphMode.JAX, wp.GraphMode.WARP, wp.GraphMode.NONE])
@pytest.mark.parametrize("program", [by_number, by_mesh])
def test_programs_take_meshes(program, mode):
    """Arrays that a mesh does not have were refused, and so were meshes where uint64 is annotated."""
    call, expected = wp.jax_callable(program, graph_mode=mode), wp.jax_kernel(heights)
    (one,), (other,) = expected(wp.Mesh(P, F), X), expected(wp.Mesh(2 * P, F), X)
    for f in (call, jax.jit(call)):
        np.testing.assert_array_equal(f(wp.Mesh(P, F), X)[0], one)
        np.testing.assert_array_equal(f(wp.Mesh(2 * P, F), X)[0], other)
    (many,) = jax.vmap(lambda s: call(wp.Mesh(s * P, F), X))(jnp.float32([1.0, 2.0]))
    np.testing.assert_array_equal(many, [one, other])
    if mode != wp.GraphMode.NONE:
        slope = jax.grad(lambda p: call(wp.Mesh(p, F), X)[0].sum())(jnp.asarray(P))
        by_kernel = jax.grad(lambda p: expected(wp.Mesh(p, F), X)[0].sum())(jnp.asarray(P))
        np.testing.assert_allclose(slope, by_kernel, rtol=1e-6)
        assert abs(slope).sum() > 0.5


@wp.struct
class Place:
    mesh: wp.uint64
    above: float


@wp.kernel
def look_at(place: Place, x: wp.array[wp.vec3], out: wp.array[float]):
    i = wp.tid()
    out[i] = height(place.mesh, x[i]) + place.above


def test_programs_take_structs_with_meshes():
    def program(place: Place, x: wp.array[wp.vec3], out: wp.array[float]):
        wp.launch(look_at, dim=x.shape, inputs=[place, x], outputs=[out])

    (found,) = wp.jax_callable(program)(Place(wp.Mesh(P, F), 2.0), X)
    np.testing.assert_allclose(found, 2.0 + wp.jax_kernel(heights)(wp.Mesh(P, F), X)[0], rtol=1e-6)


def test_programs_make_meshes_of_values():
    def program(points: wp.array[wp.vec3], x: wp.array[wp.vec3], out: wp.array[float]):
        wp.launch(heights, dim=x.shape, inputs=[wp.Mesh(points.value, F), x], outputs=[out])

    slope = jax.grad(lambda p: wp.jax_callable(program, output_dims=2)(p, X)[0].sum())(jnp.asarray(P))
    np.testing.assert_array_equal(slope, jax.grad(lambda p: wp.jax_kernel(heights)(wp.Mesh(p, F), X)[0].sum())(P))

    def of_handles(points: wp.array[wp.vec3], out: wp.array[float]):
        wp.Mesh(points, F)

    with pytest.raises(KernelError, match="points: expected an array of NumPy or JAX, got <array 'points'") as info:
        wp.jax_callable(of_handles)(jnp.asarray(P))
    assert info.value.hint == "pass array.value"


def test_where_they_are_and_what_they_were_made_of():
    points = wp.array(np.eye(3), dtype=wp.vec3)
    plain = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))
    groups = np.array([3], np.int32)
    mesh = wp.Mesh(jnp.eye(3), jnp.arange(3, dtype=jnp.int32), groups=groups, support_winding_number=True)
    for value in (plain, mesh, wp.Bvh(points, points), wp.Bvh(jnp.eye(3), jnp.eye(3)), wp.HashGrid(4, 4, 4)):
        assert value.device == "cpu"
    assert (plain.groups, plain.support_winding_number) == (None, False)
    assert mesh.groups.tolist() == [3]
    assert mesh.support_winding_number is True
