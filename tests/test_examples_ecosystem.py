"""Examples that stand in for parts of DiffeRT and jax-md: against formulas, and these where they are installed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import differt_queries
import radio_paths


@pytest.fixture(autouse=True)
def as_users_have_it():
    """Libraries promote types, and warn of each other's changes."""
    with jax.numpy_dtype_promotion("standard"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def library(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


def is_drawn(path: Path) -> bool:
    with Image.open(path) as image:
        return np.asarray(image).std() > 20


# Radio


def free_space(distance):
    return (radio_paths.WAVE / (4 * np.pi * distance)) ** 2


def two_rays(d, sends, receives):
    """The line of sight, and the ray that the ground reflects (Rappaport, Wireless Communications, section 4.6)."""
    direct, bounced = np.hypot(d, sends - receives), np.hypot(d, sends + receives)
    sine, root = (sends + receives) / bounced, np.sqrt(radio_paths.CONCRETE - (d / bounced) ** 2)
    reflects = (radio_paths.CONCRETE * sine - root) / (radio_paths.CONCRETE * sine + root)
    k = 2 * np.pi / radio_paths.WAVE
    field = np.exp(-1j * k * direct) / direct + reflects * np.exp(-1j * k * bounced) / bounced
    return (radio_paths.WAVE / (4 * np.pi)) ** 2 * np.abs(field) ** 2


def along_street(d, height):
    return jnp.asarray(np.stack([d, 0 * d, 0 * d + height], 1), jnp.float32)


def test_power_in_free_space_is_friis():
    walls = radio_paths.street(np.zeros((0, 5)))
    tx, rx = jnp.array([0.0, 0.0, 10.0]), along_street(np.geomspace(5, 350, 50), 2.0)
    found = radio_paths.power(tx, rx, walls, [jnp.zeros((1, 0), jnp.int32)])
    for power in found:
        np.testing.assert_allclose(power, free_space(np.linalg.norm(np.asarray(rx - tx), axis=1)), rtol=1e-5)


def test_power_over_the_ground_is_that_of_two_rays():
    walls = radio_paths.street(np.zeros((0, 5)))
    d = np.geomspace(5, 350, 400)
    for sends, receives in ((10.0, 1.5), (2.0, 1.0)):
        tx = jnp.array([0.0, 0.0, sends])
        candidates = radio_paths.candidates_of(tx, walls)
        assert [len(numbers) for numbers in candidates] == [1, 1, 0]
        power, mean = radio_paths.power(tx, along_street(d, receives), walls, candidates)
        expected = two_rays(d, sends, receives)
        np.testing.assert_allclose(power, expected, rtol=2e-2, atol=1e-4 * expected.max())
        assert (mean > free_space(np.hypot(d, sends - receives))).all()
    # Far away, as the fourth power of the distance, whatever the wave is.
    assert abs(float(power[-1]) * d[-1] ** 4 / (sends * receives) ** 2 - 1) < 0.2


HOUSES = np.array([[-20.0, 20.0, 8.0, 20.0, 15.0], [-20.0, 20.0, -20.0, -8.0, 20.0], [24.0, 40.0, -20.0, -8.0, 20.0]])


def test_a_street_has_the_reflections_that_one_counts():
    """Between two walls there are the line of sight, one off the ground, two off walls, and pairs of these."""
    walls = radio_paths.street(HOUSES)
    tx, rx = jnp.array([-10.0, 0.0, 4.0]), jnp.array([[10.0, 1.0, 1.5], [22.0, -15.0, 1.5], [0.0, 14.0, 1.5]])
    mesh = differt_queries.mesh_of(walls.triangles())
    sides = [1, 7]  # of the first house, and of the second one, to the street
    counts, gains = np.zeros((3, 3), int), jax.jit(radio_paths.path_gains)
    for numbers in radio_paths.candidates_of(tx, walls):
        for row in np.asarray(numbers):
            off = [jax.tree.map(lambda a, k=k: a[k], walls) for k in row]
            counts[:, len(row)] += np.asarray(gains(tx, rx, off, mesh)) != 0
    assert set(sides) <= set(np.asarray(radio_paths.candidates_of(tx, walls)[1]).ravel().tolist())
    # Off both walls in turn, two ways; off a wall and the ground, the two orders of which only one is a path.
    np.testing.assert_array_equal(counts[0], [1, 3, 4])
    assert counts[1, 0] == 0  # around the corner
    assert counts[2].sum() == 0  # in a house


def test_gradients_by_the_transmitter_are_differences():
    walls, tx = radio_paths.street(HOUSES), jnp.array([-10.0, 1.0, 4.0])
    rx = jnp.array([[10.0, 1.0, 1.5], [3.0, -4.0, 1.5], [30.0, 5.0, 1.5]])
    candidates = radio_paths.candidates_of(tx, walls)
    levels = lambda tx: 10 * jnp.log10(radio_paths.power(tx, rx, walls, candidates)[1])  # noqa: E731
    forward, backward = jax.jacfwd(levels)(tx), jax.jacrev(levels)(tx)
    np.testing.assert_allclose(forward, backward, atol=1e-4)
    for axis in range(3):
        step = 0.1 * jnp.eye(3)[axis]
        np.testing.assert_allclose(forward[:, axis], (levels(tx + step) - levels(tx - step)) / 0.2, atol=2e-3)


def test_a_map_is_drawn(tmp_path):
    found = radio_paths.main(["--spacing", "6", "--out", str(tmp_path)])
    assert 0.2 < found["reached"] < 0.6
    assert -85 < found["level"] < -60
    assert is_drawn(tmp_path / "radio_paths.png")


def triangles(rng, *shape):
    middle = rng.uniform(-1, 1, (*shape, 1, 3))
    return jnp.asarray(middle + 0.3 * rng.normal(size=(*shape, 3, 3)), jnp.float32)


def rays(rng, *shape):
    return (jnp.asarray(a, jnp.float32) for a in (rng.uniform(-1, 1, (*shape, 3)), rng.normal(size=(*shape, 3))))


@pytest.mark.parametrize("is_masked", [False, True])
def test_rays_hit_what_those_of_differt_hit(is_masked):
    differt = library("differt.geometry")
    rng = np.random.default_rng(1)
    # One scene for all rays, and one for each row of them.
    for origins, ways, scene in ((*rays(rng, 200), triangles(rng, 60)), (*rays(rng, 4, 50), triangles(rng, 4, 1, 60))):
        active = jnp.asarray(rng.random(scene.shape[:-2]) < 0.5) if is_masked else None
        for name in ("ray_intersect_any_triangle", "first_triangle_hit_by_ray"):
            ours, theirs = (getattr(of, name)(origins, ways, scene, active) for of in (differt_queries, differt))
            for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
                assert a.shape == b.shape == origins.shape[:-1]
                np.testing.assert_allclose(a, b, rtol=1e-4)
    slopes = [
        jax.grad(lambda o, f=f: jnp.where(jnp.isfinite(t := f(o, ways, scene, active)[1]), t, 0.0).sum())(origins)
        for f in (differt_queries.first_triangle_hit_by_ray, differt.first_triangle_hit_by_ray)
    ]
    np.testing.assert_allclose(*slopes, rtol=1e-3, atol=1e-3)


def test_triangles_are_seen_that_differt_sees():
    differt = library("differt.geometry")
    rng = np.random.default_rng(2)
    scene, vertex = triangles(rng, 3, 40), jnp.asarray(rng.uniform(-1, 1, (3, 3)), jnp.float32)
    ours = differt_queries.triangles_visible_from_vertex(vertex, scene, num_rays=40_000)
    theirs = differt.triangles_visible_from_vertex(vertex, scene, num_rays=40_000)
    assert ours.shape == theirs.shape == (3, 40)
    assert 0.2 < ours.mean() < 0.97
    assert not (theirs & ~ours).any()
    assert (ours != theirs).mean() < 0.06  # slivers, a few millionths of what is around


# jax-md


@pytest.fixture
def jax_md():
    return library("jax_md")


@pytest.fixture
def lists(jax_md):
    import jax_md_lists

    return jax_md_lists


def as_sets(near, partition):
    n = len(near.reference_position)
    if partition.is_sparse(near.format):
        pairs = np.asarray(near.idx).T
        return {(int(b), int(a)) for a, b in pairs if a < n}
    return {(i, int(j)) for i, row in enumerate(np.asarray(near.idx)) for j in row if j < n}


def all_pairs(x, box, reach):
    way = np.asarray(x, np.float64)[:, None] - np.asarray(x, np.float64)
    far = np.linalg.norm(way - np.where(box > 0, box * np.round(way / np.where(box > 0, box, 1.0)), 0.0), axis=-1)
    np.fill_diagonal(far, np.inf)
    assert np.abs(far - reach).min() > 1e-6  # which float32 tells apart
    return {(int(i), int(j)) for i, j in np.argwhere(far < reach)}


@pytest.mark.parametrize("style", ["Dense", "Sparse", "OrderedSparse"])
@pytest.mark.parametrize("box", [np.array([5.0, 6.0, 7.0]), np.array([9.0, 8.0]), 2.5], ids=["3d", "2d", "small"])
def test_neighbours_are_those_of_jax_md(jax_md, lists, style, box):
    partition, rng = jax_md.partition, np.random.default_rng(3)
    x = jnp.asarray(rng.uniform(0, box, (150, np.size(box) if np.size(box) > 1 else 3)), jnp.float32)
    options = {"r_cutoff": 1.0, "dr_threshold": 0.2, "format": getattr(partition, style)}
    given = jax_md.space.periodic(box)[0], box
    near = lists.neighbor_list(*given, **options).allocate(x)
    theirs = partition.neighbor_list(*given, **options).allocate(x)
    expected = all_pairs(x, box, 1.2)
    if style == "OrderedSparse":
        expected = {(i, j) for i, j in expected if j < i}
    assert as_sets(near, partition) == as_sets(theirs, partition) == expected
    assert not near.did_buffer_overflow
    assert jax.tree.structure(near.error) == jax.tree.structure(theirs.error)
    moved = (x + 0.3) % box
    assert as_sets(jax.jit(near.update)(moved), partition) == {
        p for p in all_pairs(moved, box, 1.2) if style != "OrderedSparse" or p[1] < p[0]
    }


def test_lists_are_made_anew_when_particles_have_moved_and_say_when_they_are_short(jax_md, lists):
    rng = np.random.default_rng(4)
    x = jnp.asarray(rng.uniform(0, 6.0, (200, 3)), jnp.float32)
    fns = lists.neighbor_list(jax_md.space.periodic(6.0)[0], 6.0, 1.0, 0.4)
    near = fns.allocate(x)
    update = jax.jit(fns.update)
    np.testing.assert_array_equal(update(x + 0.1, near).reference_position, x)  # by 0.17, less than half of the skin
    np.testing.assert_array_equal(update(x + 0.2, near).reference_position, x + 0.2)
    crowded = update(x / 3, near)
    assert crowded.did_buffer_overflow
    assert "overflow" in str(crowded.error)
    assert update(x, crowded).did_buffer_overflow  # as in jax-md, until it is allocated anew
    assert not fns.allocate(x / 3).did_buffer_overflow


def test_boxes_may_be_open_fractional_and_changing(jax_md, lists):
    partition, rng = jax_md.partition, np.random.default_rng(5)
    x = jnp.asarray(rng.uniform(0, 5.0, (150, 3)), jnp.float32)
    near = lists.neighbor_list(jax_md.space.free()[0], 5.0, 1.0).allocate(x)
    assert as_sets(near, partition) == all_pairs(x, np.zeros(3), 1.0)
    box = np.array([5.0, 6.0, 7.0])
    displacement, _ = jax_md.space.periodic_general(box, fractional_coordinates=True)
    near = lists.neighbor_list(displacement, box, 1.0, fractional_coordinates=True).allocate(x / 5)
    assert as_sets(near, partition) == all_pairs(x / 5 * box, box, 1.0)
    near = jax.jit(lambda near, box: near.update(x / 5, box=box))(near, 1.1 * box)
    assert as_sets(near, partition) == all_pairs(x / 5 * (1.1 * box), 1.1 * box, 1.0)
    with pytest.raises(ValueError, match="sides of a box"):
        lists.neighbor_list(displacement, 5 * np.eye(3), 1.0).allocate(x)


def test_energies_and_forces_are_those_of_jax_md(jax_md, lists):
    import lennard_jones

    fluid, box = lennard_jones.crystal(5, 0.82, 1.0)
    x = fluid.x + 0.05 * fluid.v
    displacement, _ = jax_md.space.periodic(box)
    found = []
    for make, style in ((None, "Dense"), (lists.neighbor_list, "Dense"), (lists.neighbor_list, "OrderedSparse")):
        options = {"neighbor_list_fn": make} if make else {}
        fns, energy = jax_md.energy.lennard_jones_neighbor_list(
            displacement, box, format=getattr(jax_md.partition, style), **options
        )
        found.append(jax.value_and_grad(energy)(x, neighbor=fns.allocate(x)))
    for energy, slope in found[1:]:
        np.testing.assert_allclose(energy, found[0][0], rtol=1e-6)
        np.testing.assert_allclose(slope, found[0][1], atol=1e-5 * np.abs(found[0][1]).max())


def test_a_fluid_of_jax_md_is_that_of_the_handbook(jax_md, lists, tmp_path):
    """NIST, Monte Carlo at the temperature 0.85 and density 0.82: energy -5.795."""
    import jax_md_neighbors

    found = jax_md_neighbors.main(["--side", "4", "--steps", "500", "--out", str(tmp_path)])
    assert abs(found["temperature"] - 0.85) < 0.1
    assert abs(found["energy"] - (-5.795 + 1.2 * (found["temperature"] - 0.85))) < 0.06
    assert found["drift"] < 2e-3
    assert is_drawn(tmp_path / "jax_md_neighbors.png")


# MuJoCo


def test_a_controller_by_gradients_of_mujoco_warp():
    """In a process of its own, where `import warp` is jaxwarp."""
    example = Path(__file__).resolve().parent.parent / "examples" / "mujoco_control.py"
    command = [sys.executable, str(example), "--worlds", "4", "--steps", "3", "--iterations", "2"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if importlib.util.find_spec("mujoco") is None:
        assert found.returncode == 1
        assert "this example needs MuJoCo: pip install mujoco mujoco-mjx mujoco-warp" in found.stderr
        return
    assert found.returncode == 0, found.stderr
    ours, theirs = (re.search(rf"{impl} *: cost ([0-9.]+) -> ([0-9.]+)", found.stdout) for impl in ("warp", "jax"))
    assert ours is not None
    assert theirs is not None
    assert float(ours[2]) < float(ours[1]) == pytest.approx(float(theirs[1]), rel=1e-3)
    difference = re.search(r"gradients differ by ([0-9.e+-]+)", found.stdout)
    assert difference is not None
    assert float(difference[1]) < 1e-3
