"""Meshes, hash grids and volumes on a GPU: made and asked, and the answers beside the CPU's."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import spatial
from irregular_cases import FAR, SEED, anywhere, bumpy_sphere, camera

import jaxwarp as wp
from gpu_report.kernels import timed
from gpu_report.sections import Row, Setup, tried

ASKED_OF_BOTH = 4096
TOLERANCE = 1e-4


class Sizes(NamedTuple):
    """How much of each: `sphere` squared times four are triangles."""

    sphere: int
    rays: int
    points: int
    particles: int
    samples: int
    voxels: int


_LARGE = Sizes(500, 1 << 23, 1 << 20, 10_000_000, 1 << 24, 256)
_SMALL = Sizes(8, 1 << 10, 1 << 8, 1000, 1 << 10, 16)


def queries(setup: Setup) -> Iterator[Row]:
    """Microseconds of each, and how many a second. Answers are compared on a few, with our own on the CPU."""
    sizes = _SMALL if setup.is_small else _LARGE
    for name, part in {"mesh": _mesh, "grid": _grid, "volume": _volume}.items():
        yield from tried({"query": name}, functools.partial(part, setup, sizes))


def _mesh(setup: Setup, sizes: Sizes) -> Iterator[Row]:
    p, f = np.unique(bumpy_sphere(sizes.sphere).reshape(-1, 3), axis=0, return_inverse=True)
    f = f.reshape(-1).astype(np.int32)
    random = np.random.default_rng(SEED)
    x = random.uniform(-1.3, 1.3, (sizes.points, 3)).astype(np.float32)
    held = tuple(map(jnp.asarray, (p, f)))
    yield from _row(setup, "making a mesh", len(f) // 3, jax.jit(wp.Mesh), held)
    mesh, (_, on_host) = wp.Mesh(*held), _on_both(lambda: wp.Mesh(p, f))
    yield from _row(setup, "refit", len(f) // 3, jax.jit(lambda mesh, p: mesh.replace(points=p)), (mesh, held[0]))

    def t(mesh: wp.Mesh, o: Any, d: Any) -> Any:
        return jnp.minimum(wp.geometry.cast_rays(mesh, o, d, FAR).t, FAR)

    for kind, rays in {"camera": camera(sizes.rays), "random": anywhere(sizes.rays, random)}.items():
        yield from _asked(setup, f"rays, {kind}", t, mesh, on_host, rays)
    distance = lambda mesh, x: wp.geometry.closest_points(mesh, x).distance  # noqa: E731
    yield from _asked(setup, "closest points", distance, mesh, on_host, (x,))
    solid = _on_both(lambda: wp.Mesh(*map(jnp.asarray, (p, f)), support_winding_number=True))
    yield from _asked(setup, "winding numbers", wp.geometry.winding_number, *solid, (x,))
    o, d = map(jnp.asarray, rays)

    def total(p: Any, o: Any, d: Any) -> Any:
        hits = wp.geometry.cast_rays(mesh.replace(points=p), o, d, FAR)
        return jnp.where(hits.face >= 0, hits.t, 0.0).sum()

    yield from _row(setup, "rays, value", len(o), jax.jit(total), (mesh.points, o, d))
    both = jax.jit(jax.value_and_grad(total, (0, 1, 2)))
    yield from _row(setup, "rays, value and gradient", len(o), both, (mesh.points, o, d))
    if importlib.util.find_spec("warp") is not None and not setup.is_dry:
        yield from _by_warp(setup, p, f, rays, x)


def _by_warp(setup: Setup, p: np.ndarray, f: np.ndarray, rays: Any, x: np.ndarray) -> Iterator[Row]:
    import warp

    kernels, device = spatial.kernels_of(warp), "cuda:0"

    def points(a: np.ndarray) -> Any:
        return warp.array(a, dtype=warp.vec3, device=device)

    mesh = warp.Mesh(points(p), warp.array(f, dtype=int, device=device))
    asked = {"rays, random": ("cast", [points(a) for a in rays]), "closest points": ("closest", [points(x)])}
    for name, (kernel, given) in asked.items():
        count = len(given[0])
        arguments = [mesh.id, *given, warp.zeros(count, dtype=float, device=device)]

        def run(times: int, kernel: Any = kernels[kernel], count: int = count, arguments: Any = arguments) -> None:
            for _ in range(times):
                warp.launch(kernel, count, arguments, device=device)
            warp.synchronize()

        yield _rate(name, "Warp", count, timed(setup, {name: run})[name].median)


def _grid(setup: Setup, sizes: Sizes) -> Iterator[Row]:
    n, random = sizes.particles, np.random.default_rng(SEED)
    x = random.uniform(0, 1, (n, 3)).astype(np.float32)
    radius = (spatial.NEIGHBOURS / n / (4 / 3 * np.pi)) ** (1 / 3)
    cells = int(min(256, 1 / radius))
    held = jnp.asarray(x)
    build = jax.jit(lambda x: wp.HashGrid.build(x, radius, cells))
    yield from _row(setup, "making a hash grid", n, build, (held,))
    count = min(n, 1 << 20)
    sums = wp.jax_kernel(wp.kernel(_sums), launch_dims=count, output_dims=count)

    def asked(grid: wp.HashGrid, x: Any, points: Any) -> Any:
        return sums(grid, x, points, radius)[0]

    given = (held[:count],)
    yield from _row(setup, "sums over neighbours", count, jax.jit(asked), (build(held), held, *given))
    few = min(ASKED_OF_BOTH, count)
    call = wp.jax_kernel(wp.kernel(_sums), launch_dims=few, output_dims=few)
    found = _on_both(lambda: call(build(jnp.asarray(x)), jnp.asarray(x), jnp.asarray(x[:few]), radius)[0])
    yield from _compared("sums over neighbours", *found)
    keys = jnp.asarray(random.integers(0, 1 << 32, n, dtype=np.uint32))
    values = jnp.arange(n, dtype=jnp.int32)
    yield from _row(setup, "sorting pairs", n, jax.jit(wp.sort_pairs), (keys, values))
    xla = jax.jit(lambda k, v: jax.lax.sort((k, v), num_keys=1))
    yield from _row(setup, "sorting pairs", n, xla, (keys, values), by="XLA")
    yield from _compared("sorting pairs", wp.sort_pairs(keys, values)[0], xla(keys, values)[0])


def _sums(grid: wp.HashGrid, x: wp.array[wp.vec3], points: wp.array[wp.vec3], r: float, out: wp.array[float]):
    i = wp.tid()
    total = 0.0
    for j in wp.hash_grid_query(grid, points[i], r):
        distance = wp.length(x[j] - points[i])
        if distance < r:
            total += 1.0 - distance / r
    out[i] = total


def _volume(setup: Setup, sizes: Sizes) -> Iterator[Row]:
    random = np.random.default_rng(SEED)
    values = random.normal(size=(sizes.voxels,) * 3).astype(np.float32)
    places = random.uniform(0, sizes.voxels - 1, (sizes.samples, 3)).astype(np.float32)
    volume, on_host = _on_both(lambda: wp.Volume.load_from_numpy(values, bg_value=0.0))
    yield from _asked(setup, "samples of a volume", _sampled, volume, on_host, (places,))
    gradient = jax.jit(jax.grad(lambda volume, x: _sampled(volume, x).sum(), 1))
    yield from _row(setup, "gradient of samples", len(places), gradient, (volume, jnp.asarray(places)))


def _sampled(volume: wp.Volume, x: Any) -> Any:
    return wp.jax_kernel(wp.kernel(spatial.sample), launch_dims=len(x), output_dims=len(x))(volume, x)[0]


def _asked(setup: Setup, name: str, function: Any, here: Any, on_host: Any, given: tuple[Any, ...]) -> Iterator[Row]:
    """A query of many, and of a few on both."""
    operands = tuple(map(jnp.asarray, given))
    yield from _row(setup, name, len(operands[0]), jax.jit(function), (here, *operands))
    few = [a[:: max(1, len(a) // ASKED_OF_BOTH)] for a in given]
    found = jax.jit(function)(here, *map(jnp.asarray, few))
    with jax.default_device(jax.devices("cpu")[0]):
        expected = jax.jit(function)(on_host, *map(jnp.asarray, few))
    yield from _compared(name, found, expected)


def _on_both(make: Callable[[], Any]) -> tuple[Any, Any]:
    found = make()
    with jax.default_device(jax.devices("cpu")[0]):
        return found, make()


def _compared(name: str, found: Any, expected: Any) -> Iterator[Row]:
    """At an edge a ray may hit on one alone."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    apart = float((np.abs(found - expected) > TOLERANCE * (1 + np.abs(expected))).mean())
    row: Row = {"query": name, "by": "beside the CPU", "apart": apart}
    yield row if apart <= 1e-3 else {**row, "failed": f"wrong: {apart:.1%} are not the CPU's"}


def _row(
    setup: Setup, name: str, many: int, function: Any, operands: tuple[Any, ...], by: str = "jaxwarp"
) -> Iterator[Row]:
    program = function.lower(*operands).compile()

    def run(times: int) -> None:
        jax.block_until_ready([program(*operands) for _ in range(times)][-1])

    yield _rate(name, by, many, timed(setup, {name: run})[name].median)


def _rate(name: str, by: str, many: int, seconds: float) -> Row:
    return {"query": name, "by": by, "many": many, "us": 1e6 * seconds, "millions_per_second": many / seconds / 1e6}
