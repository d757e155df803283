"""Examples of a page each: at a small size, against published or analytic values."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import cloth
import figure_eight
import heat_design
import image_filters
import ising
import kmeans
import n_body
import neural_field
import plasma
import ray_marching
import waves

import jaxwarp as wp

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def standard_promotion():
    """As users have it."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def test_magnetisation_is_yangs(tmp_path):
    found = ising.main(["--size", "64", "--sweeps", "400", "--out", str(tmp_path)])
    for temperature in (1.8, 2.1):
        assert abs(found[temperature][0] - found[temperature][1]) < 0.03
    assert found[3.0][0] < 0.15
    with Image.open(tmp_path / "ising.png") as picture:
        assert picture.size == (900, 330)


def test_corners_bear_the_cloth(tmp_path):
    assert abs(cloth.main(["--particles", "12", "--steps", "20000", "--out", str(tmp_path)]) - 1) < 2e-3
    assert (tmp_path / "cloth.png").is_file()


def test_a_film_has_the_moments_of_the_fall(tmp_path, monkeypatch):
    monkeypatch.setattr(cloth._film, "FRAMES", 5)
    cloth.main(["--particles", "4", "--steps", "6000", "--film", "--out", str(tmp_path)])
    with Image.open(tmp_path / "cloth.webp") as film:
        assert film.n_frames == 5
        first = np.asarray(film.convert("RGB"), float)
        film.seek(film.n_frames - 1)
        assert np.abs(np.asarray(film.convert("RGB"), float) - first).max() > 100


def test_three_bodies_come_back(tmp_path):
    assert figure_eight.main(["--steps", "500", "--out", str(tmp_path)]) < 1e-6
    with jax.enable_x64(True):
        slope = figure_eight.monodromy(300)
    assert abs(np.linalg.det(slope) - 1) < 1e-9  # symplectic
    forms = np.block([[np.zeros((6, 6)), np.eye(6)], [-np.eye(6), np.zeros((6, 6))]])
    np.testing.assert_allclose(slope.T @ forms @ slope, forms, atol=1e-8)


def test_rays_meet_the_ball_where_geometry_says():
    """From above, the middle of the picture is the top of the ball: its colour is lit, and sides are alike."""
    picture = ray_marching.render(32, 48)
    assert picture.shape == (32, 48, 3)
    assert np.isfinite(picture).all()
    starts = jnp.asarray([[0.0, 3.0, 0.0], [0.3, 3.0, 0.0], [3.0, 1.0, 3.0]], jnp.float32)
    t = np.asarray(march_down(starts))
    np.testing.assert_allclose(t[:2], [1.3, 3.0 - 0.9 - np.sqrt(0.64 - 0.09)], atol=2e-3)
    np.testing.assert_allclose(t[2], 1.0, atol=2e-3)  # the floor


def march_down(starts):
    (t,) = wp.jax_kernel(down)(starts)
    return t


@wp.kernel
def down(start: wp.array[wp.vec3], t: wp.array[float]):
    i = wp.tid()
    t[i] = ray_marching.march(start[i], wp.vec3(0.0, -1.0, 0.0))


def test_clusters_are_lloyds(tmp_path):
    rng = np.random.default_rng(0)
    pixel = rng.uniform(size=(500, 3)).astype(np.float32)
    colour, nearest = kmeans.cluster(jax.random.key(1), jnp.asarray(pixel), 5, 100)
    distances = np.linalg.norm(pixel[:, None].astype(np.float64) - np.asarray(colour, np.float64), axis=-1)
    np.testing.assert_array_equal(nearest, distances.argmin(axis=1))
    for k in range(5):  # it has settled: each colour is the mean of its pixels
        np.testing.assert_allclose(colour[k], pixel[np.asarray(nearest) == k].mean(axis=0), atol=1e-4)
    assert kmeans.main(["--height", "32", "--colours", "4", "--out", str(tmp_path)]) < 0.1


def test_encoding_is_bilinear_and_learns(tmp_path):
    rng = np.random.default_rng(2)
    place = rng.uniform(size=(40, 2)).astype(np.float32)
    features = rng.normal(size=(neural_field.LEVELS * neural_field.TABLE, 2)).astype(np.float32)
    shape = 40, neural_field.LEVELS
    call = wp.jax_kernel(neural_field.encode, launch_dims=shape, output_dims=shape)
    (code,) = call(place, features)
    size = int(neural_field.COARSEST)  # of the coarsest level, which fits into the table
    grid = features[: (size + 1) ** 2].reshape(size + 1, size + 1, 2)
    for n, at in enumerate(place):
        i, j = (at * size).astype(int)
        s, t = at * size - [i, j]
        expected = (1 - s) * ((1 - t) * grid[i, j] + t * grid[i, j + 1])
        expected += s * ((1 - t) * grid[i + 1, j] + t * grid[i + 1, j + 1])
        np.testing.assert_allclose(code[n, 0], expected, rtol=1e-3, atol=1e-4)
    options = ["--height", "32", "--steps", "150", "--batch", "512", "--out", str(tmp_path)]
    assert neural_field.main(options) > 25


def test_a_mode_swings_as_the_discrete_dispersion_says():
    rows, columns, c, steps = 20, 31, 0.6, 150
    kx, ky = 2 * np.pi / (rows + 1), 3 * np.pi / (columns + 1)
    mode = np.sin(kx * (1 + np.arange(rows)))[:, None] * np.sin(ky * (1 + np.arange(columns)))
    omega = 2 * np.arcsin(c * np.sqrt(np.sin(kx / 2) ** 2 + np.sin(ky / 2) ** 2))
    launch = wp.jax_kernel(waves.step)
    speed = jnp.full((rows, columns), c)
    before, now = jnp.asarray(mode, jnp.float32), jnp.asarray(np.cos(omega) * mode, jnp.float32)
    for _ in range(steps):
        before, now = now, launch(now, before, speed, jnp.zeros_like(speed))[0]
    np.testing.assert_allclose(now, np.cos((steps + 1) * omega) * mode, atol=2e-4)


def test_the_lens_is_found(tmp_path):
    assert abs(waves.main(["--rows", "48", "--out", str(tmp_path)]) - 0.33) < 1e-3


def test_two_beams_grow_as_theory_says(tmp_path):
    found, expected = plasma.main(["--particles", "20000", "--cells", "64", "--out", str(tmp_path)])
    assert abs(found / expected - 1) < 0.03
    assert abs(expected - 1 / 8**0.5) < 1e-12  # the largest rate there is, in closed form
    x = jnp.asarray([0.1, 3.0, 6.2], jnp.float32)
    (charge,) = wp.jax_kernel(plasma.deposit, output_dims=8)(x, 1.0)
    at = np.asarray(x) * 8 / plasma.LENGTH
    by_hand = np.zeros(8)
    for place in at:
        by_hand[int(place)] += 1 - place % 1
        by_hand[(int(place) + 1) % 8] += place % 1
    np.testing.assert_allclose(charge, by_hand, atol=1e-5)


def test_clusters_pull_as_newton_says(tmp_path):
    assert n_body.main(["--stars", "200", "--steps", "20", "--out", str(tmp_path)]) < 2e-3
    x, v = n_body.plummer(jax.random.key(3), 4000)
    a, potential = wp.jax_kernel(n_body.pull, num_outputs=2)(x[:50], 0.5)
    away = np.asarray(x[None, :50] - x[:50, None], np.float64)
    r = np.sqrt((away**2).sum(-1) + n_body.SOFTENING**2)
    np.testing.assert_allclose(a, 0.5 * (away / r[..., None] ** 3).sum(1), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(potential, -0.5 * (1 / r - np.eye(50) / n_body.SOFTENING).sum(1), rtol=1e-3)
    # The energy of Plummer's sphere, of which the outermost hundredth is left out.
    assert abs(sum(n_body.energy((x, v), 1 / 4000)) / (-3 * np.pi / 64) - 1) < 0.1


def test_filters_are_those_of_the_formula(tmp_path):
    rng = np.random.default_rng(5)
    u = rng.uniform(size=(9, 11, 3)).astype(np.float32)
    padded = np.pad(u, ((4, 4), (4, 4), (0, 0)), mode="edge").astype(np.float64)
    total, weights = np.zeros(u.shape), np.zeros((9, 11, 1))
    for k in range(9):
        for m in range(9):
            there = padded[k : k + 9, m : m + 11]
            near = ((k - 4) ** 2 + (m - 4) ** 2) / (2 * image_filters.SIGMA**2)
            w = np.exp(-near - 3.0 * ((there - u) ** 2).sum(-1, keepdims=True))
            total, weights = total + w * there, weights + w
    np.testing.assert_allclose(image_filters.smooth(u, 3.0)[0], total / weights, rtol=1e-4)
    ramp = np.broadcast_to(0.1 * np.arange(11.0, dtype=np.float32)[:, None], (9, 11, 3))
    np.testing.assert_allclose(image_filters.outline(ramp)[0][1:-1, 1:-1], 0.1, rtol=1e-4)  # of a ramp, its slope
    before, after = image_filters.main(["--height", "48", "--out", str(tmp_path)])
    assert after > before + 5


def test_the_design_is_cooler_and_its_gradient_is_right(tmp_path):
    rng = np.random.default_rng(6)
    design = jnp.asarray(rng.uniform(0.2, 0.8, (12, 12)), jnp.float32)
    c = heat_design.conductivity(design)
    (columns,) = jax.vmap(lambda t: wp.jax_kernel(heat_design.conduct)(t, c))(jnp.eye(144).reshape(144, 12, 12))
    matrix = np.asarray(columns, np.float64).reshape(144, 144)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)
    by_hand = np.linalg.solve(matrix, np.full(144, 1 / 144)).reshape(12, 12)
    np.testing.assert_allclose(heat_design.temperature(c), by_hand, rtol=2e-3)
    mean = jax.jit(heat_design.mean_temperature)
    slope = jax.jit(jax.grad(mean))(design)
    for i, j in ((0, 0), (5, 1), (11, 7)):
        step = 0.02
        ends = [mean(design.at[i, j].add(s)) for s in (step, -step)]
        assert abs(slope[i, j] - (ends[0] - ends[1]) / (2 * step)) < 0.03 * abs(slope[i, j]) + 2e-3
    before, after = heat_design.main(["--size", "24", "--steps", "25", "--out", str(tmp_path)])
    assert after < before / 3


def sections() -> list[str]:
    return re.split(r"^## ", (ROOT / "docs" / "gallery.md").read_text(), flags=re.MULTILINE)[1:]


def test_every_example_has_a_picture():
    assert len(sections()) >= 16
    for section in sections():
        pictures = re.findall(r"^!\[.+\]\((images/\w+\.(?:png|webp))\)$", section, re.MULTILINE)
        assert len(pictures) == 1, section
        picture = ROOT / "docs" / pictures[0]
        assert picture.stat().st_size < 400_000 or picture.suffix == ".png"


@pytest.mark.parametrize("section", sections(), ids=lambda s: s.partition("\n")[0])
def test_an_example_is_a_page_of_code(section):
    """40 to 120 lines, without docstrings, comments and empty ones; the largest one is twice that."""
    text = (ROOT / re.search(r"\]\(\.\./(examples/\w+\.py)\)", section)[1]).read_text()
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING):
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    assert 40 <= len(lines) <= (240 if "backwards" in section.partition("\n")[0] else 120)
