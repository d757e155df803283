"""Meshes as users have them, beside NVIDIA Warp's: made, refitted, and asked by rays and for closest points.

    python benchmarks/meshes.py [--rounds 7]
    python benchmarks/meshes.py --growth [--largest 1000000]

A bumpy sphere of 69,168 triangles, one thread, its own processor time; contenders take turns. Numbers are milliseconds
of both and how many times as fast ours is: medians. Needs warp-lang. Writes results/meshes.json.

With --growth, over four sizes, each four times the one before: making a mesh of up to a million triangles, ten times as
many rays against it, a hash grid of ten times as many particles. The last column is by how much the time grew. Writes
results/meshes_growth.json, with the bytes of our mesh and grid, and the most that the process had.
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

RAYS, POINTS = 1 << 16, 1 << 13


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--growth", action="store_true", help="times over four sizes")
    parser.add_argument("--largest", type=int, default=1_000_000, help="triangles of the largest (default %(default)s)")
    options = parser.parse_args()
    rounds = options.rounds
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX has threads
    import measure

    if options.growth:
        measure.write("meshes_growth", grow(options.largest, min(rounds, 3)))
        return
    found = {name: compare(*runs, rounds) for name, runs in make_runs(132).items()}
    print(f"{'':24}{'ours, ms':>10}{'Warp, ms':>10}{'times':>8}")
    for name, (ours, theirs) in found.items():
        print(f"{name:24}{1e3 * ours:10.2f}{1e3 * theirs:10.2f}{theirs / ours:8.2f}")
    measure.write("meshes", {name: {"ours": ours, "warp": theirs} for name, (ours, theirs) in found.items()})


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


def make_large_runs(size: int) -> tuple[dict[str, tuple[Callable[[], Any], Callable[[], Any]]], dict[str, Any]]:
    """As `make_runs`, of a mesh, rays and a grid of one size; and how large they are."""
    import jax
    import jax.numpy as jnp
    import warp

    import jaxwarp as wp

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
    mesh, kernel = wp.Mesh(jnp.asarray(p), jnp.asarray(f)), _kernels_of(warp)["cast"]
    cast = jax.jit(wp.geometry.cast_rays)
    build = jax.jit(lambda x: wp.HashGrid.build(x, radius, cells))
    held = build(jnp.asarray(x))
    runs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
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


def make_runs(size: int) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """By name, ours and Warp's. What they find is compared first."""
    import jax
    import jax.numpy as jnp
    import warp

    import jaxwarp as wp

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
    runs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "making a mesh": (lambda: wp.Mesh(p, f), lambda: warp.Mesh(points, indices)),
        "refit": (ours.refit, theirs.refit),
    }
    mesh = wp.Mesh(jnp.asarray(p), jnp.asarray(f))
    cast, closest = jax.jit(wp.geometry.cast_rays), jax.jit(wp.geometry.closest_points)
    out = warp.zeros(max(RAYS, POINTS), dtype=float, device="cpu")
    kernels = _kernels_of(warp)
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
    for name in list(runs)[2:]:
        ours_found, found = (run() for run in runs[name])
        same = (np.abs(ours_found - found) <= 1e-4).mean()  # at edges a ray may hit for one alone
        if same < 0.999:
            raise SystemExit(f"bench: {name}: only {same:.1%} of the distances are Warp's")
    return runs


def _kernels_of(warp: Any) -> dict[str, Any]:
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

    return {"cast": cast, "closest": closest}


if __name__ == "__main__":
    main()
