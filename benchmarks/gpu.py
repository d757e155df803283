"""Kernels on a GPU against its measured copy bandwidth and against CUDA C++ written by hand.

    python benchmarks/gpu.py [--rounds 15] [--gigabytes 4]

The hand-written kernels go through the same native handler, so a difference is one of the code. Data is random and many
times the L2 cache; results are compared with NumPy in float64 before anything is timed. Needs a CUDA GPU and the JAX
for it; says so and does nothing where there is none. Writes results/gpu.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import derivatives_kernels
import gpu_kernels as kernels
import handwritten
import jax
import jax.numpy as jnp
import measure
import numpy as np

import jaxwarp as wp

BETWEEN_WAITS = 20  # launches given to the device before it is waited for
LAUNCHES = 20_000
SHARED = 10_000_000  # threads that add to one number
TOLERANCE = 1e-6  # ||out - reference|| / ||reference||, float32 against float64
CHECKED = 2_000_000  # elements compared: a prefix, where NumPy would take long


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--gigabytes", type=float, default=4.0, help="of memory that each kernel moves (default 4)")
    options = parser.parse_args()
    device = find_gpu()
    if device is None:
        print("bench-gpu: no CUDA GPU is visible to JAX, so there is nothing to measure")
        return 0
    arch = int(device.compute_capability.replace(".", ""))
    print(f"{device.device_kind}, sm_{arch}, JAX {jax.__version__}")
    size = int(options.gigabytes * 1e9)
    copied = copy_bandwidth(size, options.rounds)
    results = {
        "copy_bytes_per_second": copied,
        "saxpy": saxpy(size, arch, options.rounds, copied),
        "lbm": lbm(size, arch, options.rounds, copied),
        "launch_us": launch(arch, options.rounds),
        "shared_gradients": shared_gradients(options.rounds, copied),
        "driver": driver(device),
    }
    measure.write("gpu", results)
    return 0


def find_gpu() -> Any:
    try:
        return jax.devices("cuda")[0]
    except RuntimeError:
        return None


def driver(device: Any) -> str:
    return str(getattr(device.client, "platform_version", "unknown"))


def repeated(call: Callable[..., Any], *operands: jax.Array) -> Callable[[], Any]:
    """Several calls in a row, then a wait for the last. The device runs them in order and frees results as they go."""
    compiled = jax.jit(call).lower(*operands).compile()

    def run() -> None:
        for _ in range(BETWEEN_WAITS):
            result = compiled(*operands)
        jax.block_until_ready(result)

    return run


def report(title: str, found: dict[str, measure.Figure], moved: int, peak: float) -> dict[str, Any]:
    """Bytes a second of each, and as parts of the copy's."""
    print(f"\n{title}: {moved / 1e9:.2f} GB moved per launch")
    rows = {}
    for name, seconds in found.items():
        rate = moved / seconds.median
        rows[name] = {"seconds": seconds, "bytes_per_second": rate, "of_copy": rate / peak}
        print(f"  {name:<12} {1e6 * seconds.median:9.1f} us  {rate / 1e12:6.3f} TB/s  {rate / peak:6.1%} of a copy")
    return rows


def copy_bandwidth(size: int, rounds: int) -> float:
    """Bytes read and written a second by a copy on the device."""
    x = jax.random.normal(jax.random.key(0), (size // 8,))
    np.testing.assert_array_equal(jnp.copy(x)[:1000], x[:1000])
    found = measure.interleave([measure.Contender("copy", repeated(jnp.copy, x), BETWEEN_WAITS)], rounds)
    rate = 2 * x.nbytes / found["copy"].median
    print(f"copy on the device: {rate / 1e12:.3f} TB/s, {found['copy'].times(1e6)} us")
    return rate


def require_close(name: str, got: Any, expected: np.ndarray) -> None:
    error = np.linalg.norm(np.asarray(got, np.float64) - expected) / np.linalg.norm(expected)
    if not error < TOLERANCE:
        raise SystemExit(f"bench-gpu: {name} is wrong: relative error {error:.2e}, at most {TOLERANCE:.0e} expected")


def saxpy(size: int, arch: int, rounds: int, peak: float) -> dict[str, Any]:
    n = size // 12
    x, y = (jax.random.normal(jax.random.key(k), (n,)) for k in (1, 2))
    a = jnp.float32(1.7)
    ours = wp.jax_kernel(kernels.saxpy)
    by_hand = handwritten.saxpy.call((n,), jax.ShapeDtypeStruct((n,), jnp.float32), arch)
    calls = {"jaxwarp": lambda a, x, y: ours(a, x, y)[0], "by hand": by_hand, "jax.numpy": lambda a, x, y: a * x + y}
    start, end = slice(0, CHECKED), slice(n - 1000, n)
    for name, call in calls.items():
        out = jax.jit(call)(a, x, y)
        for part in (start, end):
            expected = np.float64(a) * np.asarray(x[part], np.float64) + np.asarray(y[part], np.float64)
            require_close(f"saxpy ({name})", out[part], expected)
    found = measure.interleave(
        [measure.Contender(name, repeated(call, a, x, y), BETWEEN_WAITS) for name, call in calls.items()], rounds
    )
    return report("saxpy", found, 12 * n, peak)


def lbm_reference(f: np.ndarray, omega: float) -> np.ndarray:
    """The step of kernels.lbm in float64."""
    v = np.stack([np.roll(f[q], (kernels.CY[q], kernels.CX[q]), axis=(0, 1)) for q in range(9)]).astype(np.float64)
    c = np.array([kernels.CX, kernels.CY], np.float64)
    rho = v.sum(axis=0)
    u = np.einsum("iq,qyx->iyx", c, v) / rho
    cu = np.einsum("iq,iyx->qyx", c, u)
    weight = np.array(kernels.WEIGHT)[:, None, None]
    return v + omega * (weight * rho * (1 - 1.5 * (u**2).sum(axis=0) + 3 * cu + 4.5 * cu**2) - v)


def populations(ny: int, nx: int) -> jax.Array:
    noise = jax.random.normal(jax.random.key(3), (9, ny, nx))
    return jnp.asarray(kernels.WEIGHT, jnp.float32)[:, None, None] * (1 + 0.05 * noise)


def lbm_calls(ny: int, nx: int, arch: int) -> dict[str, Callable[..., Any]]:
    ours = wp.jax_kernel(kernels.lbm, launch_dims=(ny, nx), output_dims=(9, ny, nx))
    by_hand = handwritten.lbm.call((ny, nx), jax.ShapeDtypeStruct((9, ny, nx), jnp.float32), arch)
    return {"jaxwarp": lambda f, omega: ours(f, omega)[0], "by hand": by_hand}


def lbm(size: int, arch: int, rounds: int, peak: float) -> dict[str, Any]:
    omega = jnp.float32(1.6)
    small = populations(70, 333)
    for name, call in lbm_calls(70, 333, arch).items():
        require_close(f"lbm ({name})", jax.jit(call)(small, omega), lbm_reference(np.asarray(small), 1.6))
    nx = 8192
    ny = size // (72 * nx)
    f = populations(ny, nx)
    calls = lbm_calls(ny, nx, arch)
    results = [jax.jit(call)(f, omega) for call in calls.values()]
    require_close("lbm (large, against by hand)", results[0][:, -64:], np.asarray(results[1][:, -64:], np.float64))
    del results
    found = measure.interleave(
        [measure.Contender(name, repeated(call, f, omega), BETWEEN_WAITS) for name, call in calls.items()], rounds
    )
    rows = report(f"LBM step, {ny} x {nx} cells", found, 72 * ny * nx, peak)
    for name, seconds in found.items():
        rows[name]["updates_per_second"] = ny * nx / seconds.median
        print(f"  {name:<12} {ny * nx / seconds.median / 1e9:.2f} billion lattice updates a second")
    return rows


def shared_gradients(rounds: int, peak: float) -> dict[str, Any]:
    """Gradients by a number and by 16 weights that ten million threads read, beside sums by jax.numpy."""
    n = SHARED
    x = jax.random.uniform(jax.random.key(4), (n + 15,), minval=0.5, maxval=2.0)
    ct = jax.random.normal(jax.random.key(5), (n,))
    number, weights = (
        wp.jax_kernel(k, launch_dims=n) for k in (derivatives_kernels.shared_number, derivatives_kernels.shared_weights)
    )
    calls = {
        "by a number": lambda x, ct: jax.vjp(lambda a: number(a, x[:n], output_dims=n)[0], jnp.float32(0.7))[1](ct)[0],
        "jax.numpy": lambda x, ct: -jnp.vdot(ct, x[:n] ** 3 / (1 + 0.7 * x[:n] ** 2) ** 2),
        "by weights": lambda x, ct: jax.vjp(lambda w: weights(w, x, output_dims=n)[0], jnp.ones(16))[1](ct)[0],
    }
    data, pulled = np.asarray(x, np.float64), np.asarray(ct, np.float64)
    expected = {
        "by a number": -np.vdot(pulled, data[:n] ** 3 / (1 + 0.7 * data[:n] ** 2) ** 2),
        "by weights": np.array([np.vdot(pulled, data[k : k + n]) for k in range(16)]),
    }
    for name, value in expected.items():
        got = np.asarray(jax.jit(calls[name])(x, ct), np.float64)
        # The sum of ten million terms of either sign: a part of the root of the sum of their squares.
        if not np.allclose(got, value, rtol=1e-3, atol=1e-3 * np.sqrt(n)):
            raise SystemExit(f"bench-gpu: the gradient {name} is wrong: {got}, {value} expected")
    found = measure.interleave(
        [measure.Contender(name, repeated(call, x, ct), BETWEEN_WAITS) for name, call in calls.items()], rounds
    )
    return report(f"gradients that {n / 1e6:.0f} million threads add to", found, 8 * n, peak)


def launch(arch: int, rounds: int) -> dict[str, measure.Figure]:
    """Microseconds a launch of 16 floats takes inside one program."""
    ours = wp.jax_kernel(kernels.increment)
    by_hand = handwritten.increment.call((16,), jax.ShapeDtypeStruct((16,), jnp.float32), arch)
    calls = {"jaxwarp": lambda x: ours(x)[0], "by hand": by_hand, "jax.numpy": lambda x: x + 1}
    contenders = []
    for name, call in calls.items():
        program = looped(call)
        np.testing.assert_array_equal(program(jnp.zeros(16)), np.full(16, LAUNCHES))
        contenders.append(measure.Contender(name, lambda p=program: p(jnp.zeros(16)).block_until_ready(), LAUNCHES))
    found = measure.scale(measure.interleave(contenders, rounds), 1e6)
    measure.table("A launch on 16 floats in a jitted fori_loop, microseconds", found)
    return found


def looped(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return jax.jit(lambda x: jax.lax.fori_loop(0, LAUNCHES, lambda _, c: call(c), x))


if __name__ == "__main__":
    sys.exit(main())
