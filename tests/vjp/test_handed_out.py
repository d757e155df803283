"""Derivatives of kernels in which atomics on integers choose places: those of the order of threads that ran.

The oracle is the same kernel, given what the atomics have returned as an input, which a launch hands out as `seen`.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivativekit import verified
from hostcuda import run_host
from language import define

import jaxwarp as wp
from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import prepare
from jaxwarp.vjp.handed_out import split_handed_out


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


N = 6
# Each `@n(...)` reads or updates the counter, and is the n-th column of `seen`.
CASES = {
    "places": "@0(wp.atomic_add(c, 0, 1))\n    out[a0] = v * v",
    "a place and what is left": "@0(wp.atomic_add(c, 0, 2))\n    @1(c[0])\n    out[a0 / 2] = v * wp.float64(a1)",
    "up and down": (
        "@0(wp.atomic_add(c, 0, 1))\n    @1(wp.atomic_sub(c, 0, 1))\n    out[a0] += v * v\n    out[a1] += wp.sin(v)"
    ),
    "read before": "@0(c[1])\n    @1(wp.atomic_add(c, 1, 1))\n    out[a1] = v * wp.float64(a0 + 1)",
    "the least": "@0(wp.atomic_min(c, 0, -i))\n    if a0 > -i:\n        out[i] = v * wp.float64(a0 - 1)",
    "the largest": "@0(wp.atomic_max(c, 0, i))\n    wp.atomic_add(out, a0 % 2, v * v)",
    "a list": "@0(wp.atomic_exch(c, 0, i))\n    out[i] = x[wp.max(a0, 0)] * v",
    "a claim": "@0(wp.atomic_exch(c, i % 2, 1))\n    if a0 == 0:\n        out[i % 2] = v * v",
    "swaps": "@0(wp.atomic_cas(c, 0, i % 2, i))\n    out[a0] = wp.exp(v)",
    "bits": "@0(wp.atomic_or(c, 0, 1 << i))\n    out[i] = v * wp.float64(a0)",
    "in a loop": (
        "for k in range(3):\n        @0(wp.atomic_add(c, k % 2, 1))\n        wp.atomic_add(out, a0, v * wp.float64(k))"
    ),
    "in a while": (
        "k = int(0)\n    while k < 4 and v < 2.0:\n        @0(wp.atomic_add(c, 0, 1))\n"
        "        wp.atomic_add(out, a0 % 6, v * v)\n        v = v + wp.sin(v) + wp.float64(1.0)\n        k += 1"
    ),
    "capacity": (
        "@0(wp.atomic_add(c, 0, 1))\n    if a0 >= 3:\n        return\n"
        "    for k in range(2):\n        out[2 * a0 + k] = v"
    ),
}
CASES["an extent"] = "@0(wp.atomic_add(c, 0, 1))\n    if a0 < c.shape[0]:\n        out[a0] = wp.sin(v)"
DIMS = {"c": 2, "out": 4 * N, "seen": (N, 4, 2)}


def text(name: str, replayed: bool) -> str:
    def line(match: re.Match[str]) -> str:
        n, expression = match.group(1), match.group(2)
        k = "k" if "k" in CASES[name].split("@")[0] else "0"
        return f"a{n} = {f'given[i, {k}, {n}]' if replayed else expression}\n        seen[i, {k}, {n}] = a{n}"

    lines: list[str] = []
    for part in CASES[name].split("\n"):
        depth = part[: len(part) - len(part.lstrip())] if lines else "    "
        made = re.sub(r"@(\d)\((.*)\)$", line, part.strip()).replace("\n        ", f"\n{depth}")
        lines.append(depth + made)
    return (
        "@wp.kernel\ndef k(x: wp.array[wp.float64], given: wp.array3d[int], c: wp.array[int], seen: wp.array3d[int], "
        "out: wp.array[wp.float64]):\n    i = wp.tid()\n    v = x[i]\n" + "\n".join(lines) + "\n"
    )


def calls(name: str) -> list[Any]:
    scopes = [define(text(name, replayed)) for replayed in (False, True)]
    return [wp.jax_kernel(s["k"], num_outputs=3, launch_dims=N, output_dims=DIMS) for s in scopes]


X = np.random.default_rng(3).uniform(0.2, 1.5, N)
W = np.random.default_rng(4).uniform(-1.0, 1.0, 4 * N)
NONE = np.zeros((N, 4, 2), np.int32)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_what_ran(name):
    recorded, replayed = calls(name)

    def loss(call, x, given):
        _, seen, out = call(x, given)
        return out @ W + (out * out) @ W, seen

    slopes, seen = jax.grad(lambda x: loss(recorded, x, NONE), has_aux=True)(X)
    np.testing.assert_allclose(slopes, jax.grad(lambda x: loss(replayed, x, seen)[0])(X), rtol=1e-12)
    (_, seen), (along, _) = jax.jvp(lambda x: loss(recorded, x, NONE), (X,), (W[:N],))
    expected = jax.jvp(lambda x: loss(replayed, x, seen)[0], (X,), (W[:N],))[1]
    np.testing.assert_allclose(along, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["places", "swaps", "in a loop"])
def test_transformations(name):
    recorded, replayed = calls(name)

    def loss(call, x, given):
        _, seen, out = call(x, given)
        return (out**3) @ W, seen

    both = jnp.stack([X, X[::-1]])
    found, seen = jax.jit(jax.vmap(jax.grad(lambda x: loss(recorded, x, NONE), has_aux=True)))(both)
    expected = jax.vmap(jax.grad(lambda x, s: loss(replayed, x, s)[0]))(both, seen)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    for outer in (jax.jacfwd, jax.jacrev):
        second = outer(jax.grad(lambda y: loss(recorded, y, NONE), has_aux=True), has_aux=True)
        found, seen = second(X)
        expected = jax.hessian(lambda x, s: loss(replayed, x, s)[0])(X, seen)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)

    def steps(x):
        def step(x, _):
            _, seen, out = recorded(x, NONE)
            return x + 0.1 * out[:N], seen

        end, seen = jax.lax.scan(step, x, None, length=3)
        return end @ W[:N], seen

    found, seen = jax.grad(steps, has_aux=True)(X)

    def as_seen(x):
        for given in seen:
            x = x + 0.1 * replayed(x, given)[2][:N]
        return x @ W[:N]

    np.testing.assert_allclose(found, jax.grad(as_seen)(X), rtol=1e-12)


def test_checkpoints_are_refused():
    """They would hand out places a second time, in another order."""
    recorded, _ = calls("places")
    with pytest.raises(NotImplementedError, match=r"leave that launch out of jax\.checkpoint"):
        jax.grad(jax.checkpoint(lambda x: recorded(x, NONE)[2] @ W))(X)


@pytest.mark.parametrize("mode", ["release", "debug"])
def test_a_counter_that_goes_on(mode, monkeypatch):
    """It is an in-out argument, whose result is that of the launch."""

    @wp.kernel
    def k(x: wp.array[wp.float64], c: wp.array[int], src: wp.array[int], out: wp.array[wp.float64]):
        i = wp.tid()
        place = wp.atomic_add(c, 0, 1)
        out[place % 6] = x[i] * x[i] * wp.float64(c[1])
        src[place % 6] = i

    monkeypatch.setattr(wp.config, "mode", mode)
    call = wp.jax_kernel(k, num_outputs=3, in_out_argnames=["c"], output_dims={"src": N, "out": N})

    def loss(x):
        c, src, out = call(x, np.array([4, 7], np.int32))
        return out @ W[:N], (c, src)

    slopes, (c, src) = jax.grad(loss, has_aux=True)(X)
    assert c.tolist() == [4 + N, 7]
    np.testing.assert_allclose(slopes[src], 14 * X[src] * W[:N], rtol=1e-12)


def test_loops_that_nothing_counts_are_refused():
    @wp.kernel
    def k(x: wp.array[wp.float64], n: wp.array[int], c: wp.array[int], out: wp.array[wp.float64]):
        i = wp.tid()
        for _ in range(n[i]):
            out[wp.atomic_add(c, 0, 1)] = x[i]

    call = wp.jax_kernel(k, num_outputs=2, launch_dims=2, output_dims={"c": 1, "out": 9})
    with pytest.raises(DifferentiationError, match="it is not known how many iterations the loop in line") as caught:
        jax.grad(lambda x: call(x, np.array([2, 3], np.int32))[1].sum())(X[:2])
    assert "out[wp.atomic_add(c, 0, 1)] = x[i]" in str(caught.value)


def test_records_that_are_too_large_are_refused():
    @wp.kernel
    def k(x: wp.array[wp.float64], n: wp.array[int], c: wp.array[int], out: wp.array[wp.float64]):
        i = wp.tid()
        for _ in range(wp.min(n[i], 1_000_000)):
            out[wp.atomic_add(c, 0, 1)] = x[i]

    call = wp.jax_kernel(k, num_outputs=2, launch_dims=2000, output_dims={"c": 1, "out": 9})
    with pytest.raises(DifferentiationError, match=r"its record would have 7\.5 GiB or more"):
        jax.grad(lambda x: call(x, np.zeros(2000, np.int32))[1].sum())(np.ones(2000))


def test_a_counter_of_floats_is_refused():
    @wp.kernel
    def k(x: wp.array[wp.float64], c: wp.array[wp.float64], out: wp.array[wp.float64]):
        i = wp.tid()
        out[int(wp.atomic_add(c, 0, wp.float64(1.0)))] = x[i]

    call = wp.jax_kernel(k, num_outputs=2, launch_dims=2, output_dims={"c": 1, "out": 9})
    with pytest.raises(DifferentiationError, match="depends on the order of threads"):
        jax.grad(lambda x: call(x)[1].sum())(X[:2])


def test_a_claim_by_floats_is_refused():
    @wp.kernel
    def k(x: wp.array[wp.float64], c: wp.array[wp.float64], out: wp.array[wp.float64]):
        i = wp.tid()
        if wp.atomic_exch(c, 0, wp.float64(1.0)) == wp.float64(0.0):
            out[0] = x[i]

    call = wp.jax_kernel(k, num_outputs=2, launch_dims=2, output_dims={"c": 1, "out": 1})
    with pytest.raises(DifferentiationError, match="depends on the order of threads"):
        jax.jvp(lambda x: call(x)[1], (X[:2],), (X[:2],))


@pytest.mark.parametrize("name", ["places", "read before", "swaps", "in a while"])
def test_both_halves_do_what_the_kernel_does(name):
    """In the interpreter, and as CUDA text on the host: each has an order of threads that does not change."""
    kernel = prepare(define(text(name, False))["k"].ir())
    split = split_handed_out(kernel, [0])
    assert split is not None
    shapes = {"x": N, "given": (N, 4, 2), **DIMS}
    arrays = {p.name: np.zeros(shapes[p.name], p.dtype.numpy) for p in kernel.params}
    arrays["x"] = np.array(X)
    shapes = split.shapes((N,), [a.shape for a in arrays.values()])
    records = [np.zeros(s, r.param.dtype.numpy) for r, s in zip(split.seen, shapes, strict=True)]
    for run in (interpret, run_host):
        expected, found = ({n: a.copy() for n, a in arrays.items()} for _ in range(2))
        run(verified(kernel), (N,), list(expected.values()))
        run(verified(prepare(split.recorder)), (N,), [*found.values(), *records])
        np.testing.assert_array_equal(found["c"], expected["c"])
        assert not found["out"].any()
        run(verified(prepare(split.kernel)), (N,), [*found.values(), *records])
        for n in arrays:
            np.testing.assert_allclose(found[n], expected[n], rtol=1e-14, err_msg=n)


def test_a_launch_that_prints_is_recorded_as_a_whole(capfd):
    """Also what only the message has read."""

    @wp.kernel
    def k(x: wp.array[wp.float64], c: wp.array[int], src: wp.array[int], out: wp.array[wp.float64]):
        i = wp.tid()
        if i == 1:
            wp.printf("one %d\n", c[1])
        place = wp.atomic_add(c, 0, 1)
        out[place] = x[i] * x[i]
        src[place] = i

    call = wp.jax_kernel(k, num_outputs=3, output_dims={"c": 2, "src": N, "out": N})

    def loss(x):
        _, src, out = call(x)
        return out @ W[:N], src

    slopes, src = jax.grad(loss, has_aux=True)(X)
    np.testing.assert_allclose(slopes[src], 2 * X[src] * W[:N], rtol=1e-12)
    assert capfd.readouterr().out == "one 0\n"
