"""Random numbers of a seed: Warp's. `random_numbers.json` holds what NVIDIA Warp 1.19 drew on its CPU."""

from __future__ import annotations

import json
from pathlib import Path

import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from language import run

import jaxwarp as wp
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import prepare
from library.random_kernels import CDF, COUNTS, FLOATS, INTEGERS, SEED, make, numbers

REFERENCE = {
    name: np.array(rows, np.float32 if name == "floats" else np.uint32)
    for name, rows in json.loads((Path(__file__).parent / "random_numbers.json").read_text()).items()
}
# Of numbers around 1; `randf(state, -3.0, 7.0)` is one of around 10.
TOLERANCE = 8 * np.finfo(np.float32).eps


def require_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    np.testing.assert_array_equal(found["integers"], expected["integers"])
    np.testing.assert_array_equal(found["counts"][:, :4], expected["counts"][:, :4])
    scale = np.where(np.arange(FLOATS) == 1, 10.0, 1.0)
    np.testing.assert_allclose(found["floats"] / scale, expected["floats"] / scale, atol=TOLERANCE, rtol=TOLERANCE)
    # Large means compare rounded logarithms: one number in many may be another.
    assert (found["counts"][:, 4] != expected["counts"][:, 4]).mean() < 1e-3


def test_numbers_of_warp():
    require_same(numbers(wp, len(REFERENCE["integers"])), REFERENCE)


def test_numbers_beside_an_installed_warp():
    warp = pytest.importorskip("warp", reason="the comparison needs warp-lang")
    warp.config.quiet = True
    require_same(numbers(wp, 4096), numbers(warp, 4096))


def test_interpreter_widths_and_cuda_draw_the_same():
    integers, floats = make(wp)
    n = len(REFERENCE["integers"])
    drawn = run(integers, n, SEED, np.zeros((n, INTEGERS), np.uint32))[-1]
    _, _, out, counts = run(floats, n, SEED, CDF, np.zeros((n, FLOATS), np.float32), np.zeros((n, COUNTS), np.uint32))
    require_same({"integers": drawn, "floats": out, "counts": counts}, REFERENCE)
    kernel = prepare(floats.specialize())
    expected, got = (
        [np.array(SEED, np.int32), CDF, np.zeros((n, FLOATS), np.float32), np.zeros((n, COUNTS), np.uint32)]
        for _ in range(2)
    )
    interpret(kernel, (n,), expected)
    hostcuda.run_host(kernel, (n,), got)
    np.testing.assert_array_equal(got[3], expected[3])
    np.testing.assert_allclose(got[2], expected[2], atol=TOLERANCE)


@wp.kernel
def stored(states: wp.array[wp.uint32], keyed: wp.array[wp.vec4ui], out: wp.array2d[float]):
    i = wp.tid()
    for j in range(out.shape[1]):
        out[i, j] = wp.randf(states[i]) + wp.randf(keyed[i])


def test_states_in_arrays_go_on_where_they_were():
    twice = wp.jax_kernel(stored, in_out_argnames=["states", "keyed"], output_dims=(3, 2), num_outputs=3)
    states, keyed = jnp.arange(3, dtype="uint32"), jnp.arange(12, dtype="uint32").reshape(3, 4)
    *kept, first = twice(states, keyed)
    *kept, second = twice(*kept)
    once = wp.jax_kernel(stored, in_out_argnames=["states", "keyed"], output_dims=(3, 4), num_outputs=3)
    *last, all_of_them = once(states, keyed)
    np.testing.assert_array_equal(np.concatenate([first, second], 1), all_of_them)
    for a, b in zip(kept, last, strict=True):
        np.testing.assert_array_equal(a, b)


@wp.kernel
def between(low: wp.array[float], high: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    state = wp.rand_init(3, i)
    if wp.randf(state) < 0.5:
        wp.randu(state)
    out[i] = wp.randf(state, low[i], high[i]) * wp.randn(state)


def test_bounds_have_derivatives():
    low, high = jnp.linspace(-1.0, 0.0, 9), jnp.linspace(1.0, 3.0, 9)
    f = jax.jit(lambda low, high: wp.jax_kernel(between)(low, high)[0])
    check_grads(f, (low, high), order=2, modes=["fwd", "rev"], eps=1e-2)
    by_low, by_high = jax.jit(jax.grad(lambda a, b: f(a, b).sum(), (0, 1)))(low, high)
    np.testing.assert_allclose(by_low * low + by_high * high, f(low, high), rtol=1e-5)


@wp.kernel
def many(n: int, lam: float, out: wp.array[wp.uint32]):
    state = wp.rand_init(11, wp.tid())
    out[wp.tid()] = wp.poisson(state, lam)


@pytest.mark.parametrize("lam", [0.0, 0.3, 4.0, 10.0, 57.0])
def test_poisson_has_its_mean_and_variance(lam):
    n = 200_000
    out = np.asarray(wp.jax_kernel(many, launch_dims=n, output_dims=n)(0, lam)[0], np.float64)
    deviation = np.sqrt(max(lam, 1e-9) / n)
    assert abs(out.mean() - lam) <= 5 * deviation
    assert abs(out.var() - lam) <= 5 * deviation * np.sqrt(1 + 2 * lam)


def test_errors_name_the_state():
    @wp.kernel
    def literal(out: wp.array[float]):
        out[0] = wp.randf(42)

    @wp.kernel
    def signed(out: wp.array[float]):
        state = 42
        out[0] = wp.randn(state)

    for kernel, line in ((literal, "wp.randf(42)"), (signed, "wp.randn(state)")):
        with pytest.raises(wp.KernelError) as caught:
            kernel.specialize()
        assert line in str(caught.value)
        assert "state" in str(caught.value)
