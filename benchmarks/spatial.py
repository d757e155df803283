"""Meshes, grids of points and volumes as users have them, beside NVIDIA Warp's: made, refitted and asked.

    python benchmarks/spatial.py [--rounds 7] [--only rays,sums]
    python benchmarks/spatial.py --growth [--largest 1000000]

A bumpy sphere of 69,168 triangles, a million points with 32 neighbours each, a volume of 128^3 voxels. One thread, its
own processor time; contenders take turns. Numbers are milliseconds of both and how many times as fast ours is: medians.
Sorting is beside XLA's, gradients are beside their own values, and winding numbers beside Warp's signed distances that
they decide about. Needs warp-lang. Writes results/spatial.json.

With --growth, over four sizes, each four times the one before: making a mesh of up to a million triangles, ten times as
many rays against it, a hash grid of ten times as many particles. The last column is by how much the time grew. Writes
results/spatial_growth.json, with the bytes of our mesh and grid, and the most that the process had.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from irregular_cases import FAR, SEED, anywhere, bumpy_sphere, camera

import jaxwarp as wp

RAYS, POINTS = 1 << 18, 1 << 14
PARTICLES, NEIGHBOURS = 1_000_000, 32
SAMPLES, VOXELS = 1 << 20, 128

Runs = dict[str, tuple[Callable[[], Any], Callable[[], Any]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    parser.add_argument("--growth", action="store_true", help="times over four sizes")
    parser.add_argument("--largest", type=int, default=1_000_000, help="triangles of the largest (default %(default)s)")
    options = parser.parse_args()
    rounds = options.rounds
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX has threads
    import measure

    if options.growth:
        measure.write("spatial_growth", grow(options.largest, min(rounds, 3)))
        return
    print(f"{'':34}{'ours, ms':>10}{'other, ms':>10}{'times':>8}")
    found = {}
    for make in (mesh_runs, grid_runs, sort_runs, volume_runs):
        for name, runs in make().items():
            if any(part in name for part in options.only.split(",")):
                ours, theirs = compare(*runs, rounds)
                found[name] = {"ours": ours, "other": theirs}
                print(f"{name:34}{1e3 * ours:10.2f}{1e3 * theirs:10.2f}{theirs / ours:8.2f}", flush=True)
    if not options.only:
        measure.write("spatial", found)


def compare(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Median seconds of each."""
    times: tuple[list[float], list[float]] = [], []
    for _ in range(rounds + 1):  # the first round compiles
        for run, seconds in zip((ours, theirs), times, strict=True):
            began = time.process_time()
            run()
            seconds.append(time.process_time() - began)
    return float(np.median(times[0][1:])), float(np.median(times[1][1:]))


def grow(largest: int, rounds: int) -> dict[str, Any]:
    """Seconds of both for each size, and what ours takes in memory."""
    found: dict[str, Any] = {}
    print(f"{'':36}{'ours, ms':>10}{'Warp, ms':>10}{'times':>8}{'growth':>8}")
    before: dict[str, float] = {}
    for size in (round((largest / 4**k / 4) ** 0.5) for k in (3, 2, 1, 0)):
        runs, told = make_large_runs(size)
        for name, pair in runs.items():
            ours, theirs = compare(*pair, rounds)
            grown = ours / before[name] if name in before else float("nan")
            before[name] = ours
            print(f"{name:12}{told['triangles']:>12,} triangles{1e3 * ours:10.1f}{1e3 * theirs:10.1f}"
                  f"{theirs / ours:8.2f}{grown:8.2f}")  # fmt: skip
            told[name] = {"ours": ours, "warp": theirs}
        found[str(told["triangles"])] = told | {"most": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}
    return found


def make_large_runs(size: int) -> tuple[Runs, dict[str, Any]]:
    """As `make_runs`, of a mesh, rays and a grid of one size; and how large they are."""
    import jax
    import jax.numpy as jnp
    import warp

    warp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    p, f = np.unique(bumpy_sphere(size).reshape(-1, 3), axis=0, return_inverse=True)
    f = f.reshape(-1).astype(np.int32)
    count = 10 * (len(f) // 3)
    o, d = anywhere(count, np.random.default_rng(SEED))
    x = np.random.default_rng(SEED).uniform(0, 1, (count, 3)).astype(np.float32)
    radius = float(count) ** (-1 / 3)  # about four neighbours
    cells = min(128, int(1 / radius))
    points, indices = warp.array(p, dtype=warp.vec3, device="cpu"), warp.array(f, dtype=int, device="cpu")
    theirs, out = warp.Mesh(points, indices), warp.zeros(count, dtype=float, device="cpu")
    given = [*(warp.array(a, dtype=warp.vec3, device="cpu") for a in (o, d)), out]
    particles, grid = warp.array(x, dtype=warp.vec3, device="cpu"), warp.HashGrid(cells, cells, cells, device="cpu")
    mesh, kernel = wp.Mesh(jnp.asarray(p), jnp.asarray(f)), kernels_of(warp)["cast"]
    cast = jax.jit(wp.geometry.cast_rays)
    build = jax.jit(lambda x: wp.HashGrid.build(x, radius, cells))
    held = build(jnp.asarray(x))
    runs: Runs = {
        "mesh": (lambda: wp.Mesh(p, f), lambda: warp.Mesh(points, indices)),
        "rays": (
            lambda: np.asarray(cast(mesh, o, d, FAR).t).clip(max=FAR),
            lambda: (warp.launch(kernel, count, [theirs.id, *given], device="cpu"), out.numpy())[1],  # keeps the mesh
        ),
        "grid": (lambda: jax.block_until_ready(build(x)), lambda: grid.build(particles, radius)),
    }
    same = (np.abs(runs["rays"][0]() - runs["rays"][1]()) <= 1e-4).mean()
    if same < 0.999:
        raise SystemExit(f"bench: rays: only {same:.1%} of the distances are Warp's")
    if sorted(np.asarray(held.ids).tolist()) != list(range(count)):
        raise SystemExit("bench: grid: a particle is missing")
    mesh_bytes, grid_bytes = (sum(leaf.nbytes for leaf in jax.tree.leaves(made)) for made in (mesh, held))
    told = {"triangles": len(f) // 3, "rays": count, "mesh_bytes": mesh_bytes, "grid_bytes": grid_bytes}
    return runs, told


def mesh_runs(size: int = 132) -> Runs:
    """By name, ours and Warp's. What they find is compared first."""
    import jax
    import jax.numpy as jnp
    import warp

    warp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    p, f = np.unique(bumpy_sphere(size).reshape(-1, 3), axis=0, return_inverse=True)
    f = f.reshape(-1).astype(np.int32)
    random = np.random.default_rng(SEED)
    x = random.uniform(-1.3, 1.3, (POINTS, 3)).astype(np.float32)
    rays = {"camera": camera(RAYS), "random": anywhere(RAYS, random)}

    def arrays_of(module: Any, points: Any) -> Any:
        return module.array(points, dtype=module.vec3, device="cpu")

    ours = wp.Mesh(arrays_of(wp, p), wp.array(f, dtype=int, device="cpu"))
    theirs = warp.Mesh(arrays_of(warp, p), warp.array(f, dtype=int, device="cpu"))
    points, indices = arrays_of(warp, p), warp.array(f, dtype=int, device="cpu")
    runs: Runs = {
        "making a mesh": (lambda: wp.Mesh(p, f), lambda: warp.Mesh(points, indices)),
        "refit": (ours.refit, theirs.refit),
    }
    mesh = wp.Mesh(jnp.asarray(p), jnp.asarray(f))
    cast, closest = jax.jit(wp.geometry.cast_rays), jax.jit(wp.geometry.closest_points)
    out = warp.zeros(max(RAYS, POINTS), dtype=float, device="cpu")
    kernels = kernels_of(warp)
    for kind, (o, d) in rays.items():
        given = [theirs.id, arrays_of(warp, o), arrays_of(warp, d), out]
        runs[f"rays, {kind}"] = (
            lambda o=o, d=d: np.asarray(cast(mesh, o, d, FAR).t).clip(max=FAR),
            lambda given=given: (warp.launch(kernels["cast"], RAYS, given, device="cpu"), out.numpy()[:RAYS])[1],
        )
    given_points = [theirs.id, arrays_of(warp, x), out]
    runs["closest points"] = (
        lambda: np.asarray(closest(mesh, x).distance),
        lambda: (warp.launch(kernels["closest"], POINTS, given_points, device="cpu"), out.numpy()[:POINTS])[1],
    )
    solid = wp.Mesh(jnp.asarray(p), jnp.asarray(f), support_winding_number=True)
    wind, their_solid = jax.jit(wp.geometry.winding_number), warp.Mesh(points, indices, support_winding_number=True)
    asked = arrays_of(warp, x)
    runs["winding numbers, beside signs"] = (
        lambda: np.where(np.asarray(wind(solid, x)) > 0.5, -1.0, 1.0),
        lambda: (
            warp.launch(kernels["signs"], POINTS, [their_solid.id, asked, out], device="cpu"),  # keeps the mesh
            out.numpy()[:POINTS],
        )[1],
    )
    for name in list(runs)[2:]:
        ours_found, found = (run() for run in runs[name])
        same = (np.abs(ours_found - found) <= 1e-4).mean()  # at edges a ray may hit for one alone
        if same < 0.999:
            raise SystemExit(f"bench: {name}: only {same:.1%} of the distances are Warp's")
    o, d = rays["random"]
    runs["gradient of rays, beside value"] = gradient_beside_value(
        lambda p, o, d: jnp.where((hits := wp.geometry.cast_rays(mesh.replace(points=p), o, d)).face >= 0, hits.t, 0.0),
        (mesh.points, jnp.asarray(o), jnp.asarray(d)),
    )
    in_kernel = wp.jax_kernel(wp.kernel(_cast), launch_dims=RAYS, output_dims=RAYS)
    runs["the same in a kernel"] = gradient_beside_value(
        lambda p, o, d: in_kernel(mesh.replace(points=p), o, d)[0], (mesh.points, jnp.asarray(o), jnp.asarray(d))
    )
    return runs


def gradient_beside_value(function: Callable[..., Any], values: tuple[Any, ...]) -> tuple[Callable[[], Any], ...]:
    """Both at once, by all of the values, and the value alone."""
    import jax

    def total(*values: Any) -> Any:
        return function(*values).sum()

    value, both = jax.jit(total), jax.jit(jax.value_and_grad(total, tuple(range(len(values)))))
    return lambda: jax.block_until_ready(both(*values)), lambda: jax.block_until_ready(value(*values))


def _cast(mesh: wp.Mesh, o: wp.array[wp.vec3], d: wp.array[wp.vec3], out: wp.array[float]):
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, o[i], d[i], FAR)
    out[i] = hit.t


def grid_runs() -> Runs:
    """A hash grid, made, and sums over the neighbours that it finds."""
    import jax
    import jax.numpy as jnp
    import warp

    x = np.random.default_rng(SEED).uniform(0, 1, (PARTICLES, 3)).astype(np.float32)
    r = (NEIGHBOURS / PARTICLES / (4 / 3 * np.pi)) ** (1 / 3)
    cells = int(1 / r)
    build = jax.jit(lambda x: wp.HashGrid.build(x, r, cells))
    points, theirs = warp.array(x, dtype=warp.vec3, device="cpu"), warp.HashGrid(cells, cells, cells, device="cpu")
    out, held = warp.zeros(PARTICLES, dtype=float, device="cpu"), jnp.asarray(x)
    theirs.build(points, r)
    kernel = kernels_of(warp)["sums"]
    ours = jax.jit(wp.jax_kernel(wp.kernel(_sums), launch_dims=PARTICLES, output_dims=PARTICLES))
    grid = build(held)
    runs: Runs = {
        "making a hash grid": (lambda: jax.block_until_ready(build(held)), lambda: theirs.build(points, r)),
        "sums over neighbours": (
            lambda: np.asarray(ours(grid, held, r)[0]),
            lambda: (warp.launch(kernel, PARTICLES, [theirs.id, points, r, out], device="cpu"), out.numpy())[1],
        ),
    }
    found, expected = (run() for run in runs["sums over neighbours"])
    if not np.allclose(found, expected, rtol=1e-4, atol=1e-4):
        raise SystemExit("bench: sums over neighbours are not Warp's")
    return runs


def _sums(grid: wp.HashGrid, x: wp.array[wp.vec3], r: float, out: wp.array[float]):
    i = wp.hash_grid_point_id(grid, wp.tid())
    total = 0.0
    for j in wp.hash_grid_query(grid, x[i], r):
        distance = wp.length(x[j] - x[i])
        if distance < r:
            total += 1.0 - distance / r
    out[i] = total


def sort_runs() -> Runs:
    """A million pairs of integers, sorted by us and by XLA."""
    import jax
    import jax.numpy as jnp

    keys = jnp.asarray(np.random.default_rng(SEED).integers(0, 1 << 32, PARTICLES, dtype=np.uint32))
    values = jnp.arange(PARTICLES, dtype=jnp.int32)
    ours, theirs = jax.jit(wp.sort_pairs), jax.jit(lambda k, v: jax.lax.sort((k, v), num_keys=1))
    return {
        "sorting pairs, beside XLA": tuple(
            lambda sort=sort: jax.block_until_ready(sort(keys, values)) for sort in (ours, theirs)
        )
    }  # pyright: ignore[reportReturnType]


def volume_runs() -> Runs:
    """Trilinear samples of a volume at random places."""
    import jax
    import jax.numpy as jnp
    import warp

    random = np.random.default_rng(SEED)
    values = random.normal(size=(VOXELS,) * 3).astype(np.float32)
    places = random.uniform(0, VOXELS - 1, (SAMPLES, 3)).astype(np.float32)
    theirs = warp.Volume.load_from_numpy(values, bg_value=0.0, device="cpu")
    points, out = warp.array(places, dtype=warp.vec3, device="cpu"), warp.zeros(SAMPLES, dtype=float, device="cpu")
    kernel, volume = kernels_of(warp)["sample"], wp.Volume.load_from_numpy(values, bg_value=0.0)
    call = wp.jax_kernel(wp.kernel(sample), launch_dims=SAMPLES, output_dims=SAMPLES)
    ours, held, in_jax = jax.jit(call), jnp.asarray(places), jax.device_put(volume)
    runs: Runs = {
        "samples of a volume": (
            lambda: np.asarray(ours(volume, held)[0]),
            lambda: (warp.launch(kernel, SAMPLES, [theirs.id, points, out], device="cpu"), out.numpy())[1],
        ),
        "gradient of samples, beside value": gradient_beside_value(lambda x: call(volume, x)[0], (held,)),
        "the same by voxels too": gradient_beside_value(
            lambda b, x: call(in_jax.replace(bricks=b), x)[0], (in_jax.bricks, held)
        ),
    }
    found, expected = (run() for run in runs["samples of a volume"])
    if not np.allclose(found, expected, atol=1e-4):
        raise SystemExit("bench: samples are not Warp's")
    return runs


def sample(volume: wp.Volume, x: wp.array[wp.vec3], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.volume_sample_f(volume, x[i], wp.Volume.LINEAR)


def kernels_of(warp: Any) -> dict[str, Any]:
    @warp.kernel
    def cast(
        mesh: warp.uint64, o: warp.array(dtype=warp.vec3), d: warp.array(dtype=warp.vec3), out: warp.array(dtype=float)
    ):
        i = warp.tid()
        hit = warp.mesh_query_ray(mesh, o[i], d[i], FAR)
        out[i] = warp.where(hit.result, hit.t, FAR)

    @warp.kernel
    def closest(mesh: warp.uint64, x: warp.array(dtype=warp.vec3), out: warp.array(dtype=float)):
        i = warp.tid()
        found = warp.mesh_query_point_no_sign(mesh, x[i], FAR)
        out[i] = warp.length(warp.mesh_eval_position(mesh, found.face, found.u, found.v) - x[i])

    @warp.kernel
    def signs(mesh: warp.uint64, x: warp.array(dtype=warp.vec3), out: warp.array(dtype=float)):
        i = warp.tid()
        out[i] = warp.mesh_query_point_sign_winding_number(mesh, x[i], FAR).sign

    @warp.kernel
    def sums(grid: warp.uint64, x: warp.array(dtype=warp.vec3), r: float, out: warp.array(dtype=float)):
        i = warp.hash_grid_point_id(grid, warp.tid())
        total = float(0.0)  # noqa: UP018
        for j in warp.hash_grid_query(grid, x[i], r):
            distance = warp.length(x[j] - x[i])
            if distance < r:
                total += 1.0 - distance / r
        out[i] = total

    @warp.kernel
    def sample(volume: warp.uint64, x: warp.array(dtype=warp.vec3), out: warp.array(dtype=float)):
        i = warp.tid()
        out[i] = warp.volume_sample_f(volume, x[i], warp.Volume.LINEAR)

    return {"cast": cast, "closest": closest, "signs": signs, "sums": sums, "sample": sample}


if __name__ == "__main__":
    main()
