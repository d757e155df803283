"""Kernels on tiles as they are launched: recorded, captured, on a tape, in JAX's transformations, exported, checked."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jaxwarp as wp
from jaxwarp.errors import CheckError

RNG = np.random.default_rng(1)


@wp.kernel
def rows(a: wp.array2d[float], out: wp.array2d[float]):
    i, lane = wp.tid()
    t = wp.tile_load(a, shape=(4, 4), offset=(4 * i, 4 * lane))
    u = t * 2.0
    u += wp.tile_transpose(t)
    wp.tile_store(out, wp.tile_matmul(u, t), offset=(4 * i, 0))


def expected(a):
    return jnp.concatenate([(2 * x + x.T) @ x for x in jnp.reshape(a, (-1, 4, 4))])


def numbers(*shape: int) -> np.ndarray:
    return RNG.random(shape).astype(np.float32)


def test_recorded_and_captured_launches():
    a, out = wp.array(numbers(8, 4)), wp.zeros((8, 4), dtype=float)
    command = wp.launch_tiled(rows, dim=[2], inputs=[a], outputs=[out], record_cmd=True)
    command.launch()
    np.testing.assert_allclose(out.numpy(), expected(a.numpy()), rtol=1e-5)
    with wp.ScopedCapture() as capture:
        wp.launch_tiled(rows, dim=2, inputs=[a], outputs=[out])
    a.assign(numbers(8, 4))
    wp.capture_launch(capture.graph)
    np.testing.assert_allclose(out.numpy(), expected(a.numpy()), rtol=1e-5)


def test_a_tape_goes_back():
    a = wp.array(numbers(8, 4), requires_grad=True)
    out = wp.zeros((8, 4), dtype=float, requires_grad=True)
    weights = numbers(8, 4)
    with wp.Tape() as tape:
        wp.launch_tiled(rows, dim=2, inputs=[a], outputs=[out])
    tape.backward(grads={out: wp.array(weights)})
    wanted = jax.grad(lambda a: (expected(a) * weights).sum())(a.numpy())
    np.testing.assert_allclose(a.grad.numpy(), wanted, rtol=1e-5)


def test_transformations_and_export():
    call = wp.jax_kernel(rows, launch_dims=(2, 1), output_dims=(8, 4))

    def ours(a):
        return call(a)[0]

    batch = jnp.asarray(numbers(3, 8, 4))
    np.testing.assert_allclose(jax.jit(jax.vmap(ours))(batch), jax.vmap(expected)(batch), rtol=1e-5)
    got = jax.vmap(jax.grad(lambda a: ours(a).sum()))(batch)
    np.testing.assert_allclose(got, jax.vmap(jax.grad(lambda a: expected(a).sum()))(batch), rtol=1e-5)
    checks = [export.DisabledSafetyCheck.custom_call("jaxwarp_launch")]
    exported = export.export(jax.jit(ours), disabled_checks=checks)(jax.ShapeDtypeStruct((8, 4), jnp.float32))
    back = export.deserialize(exported.serialize())
    np.testing.assert_allclose(back.call(batch[0]), expected(batch[0]), rtol=1e-5)


@wp.kernel
def large(a: wp.array2d[float], out: wp.array[float]):
    i, _lane = wp.tid()
    t = wp.tile_load(a, shape=(128, 250), offset=(i, 0))
    out[i] = wp.tile_sum(t * float(i))[0]


def test_tiles_that_fill_what_is_allowed():
    """250 KiB for each of 300 threads, on a thread with a stack of 1 MiB."""
    a = numbers(400, 250)
    wanted = np.array([a[i : i + 128].sum(dtype=np.float64) * i for i in range(300)])
    call = jax.jit(wp.jax_kernel(large, launch_dims=(300, 1), output_dims=300))
    found = {}

    def work():
        out = wp.zeros(300, dtype=float)
        wp.launch_tiled(large, dim=300, inputs=[wp.array(a)], outputs=[out], block_dim=32)
        found["launch"], found["jit"] = out.numpy(), np.asarray(call(a)[0])

    before = threading.stack_size(1024 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    for result in (found["launch"], found["jit"]):
        np.testing.assert_allclose(result, wanted, rtol=1e-4)


def test_debug_mode_finds_indices_outside_of_tiles(monkeypatch):
    monkeypatch.setattr(wp.config, "mode", "debug")

    @wp.kernel
    def element(a: wp.array[float], n: int):
        t = wp.tile_load(a, shape=4)
        t[n] = 2.0
        wp.tile_store(a, t)

    @wp.kernel
    def part(a: wp.array[float], n: int):
        t = wp.tile_load(a, shape=4)
        wp.tile_store(a, wp.tile_view(t, offset=(n,), shape=(2,)))

    for kernel, wrong in ((element, (4, -5, 100)), (part, (3, -5, 100))):
        for n in wrong:
            with pytest.raises(CheckError, match="axis 0 of array t is out of range; its extent is 4"):
                wp.launch_tiled(kernel, dim=1, inputs=[wp.array(numbers(4)), n], block_dim=1)
        wp.launch_tiled(kernel, dim=1, inputs=[wp.array(numbers(4)), 2], block_dim=1)


@pytest.mark.parametrize("unroll", [1, 4, 100])
def test_loops_that_are_unrolled_mean_the_same(unroll):
    @wp.kernel(module_options={"max_unroll": unroll})
    def k(a: wp.array2d[float], out: wp.array2d[float]):
        t = wp.tile_load(a, shape=(4, 4))
        u = wp.tile_transpose(t)
        v = t
        for _q in range(5):
            t *= 1.5
            v += u
            u, v = v, u
            v = v * 0.5
        wp.tile_store(out, t + u * 10.0 + v * 100.0)

    a = numbers(4, 4)
    t, u, v = a.copy(), a.T.copy(), a.copy()
    for _q in range(5):
        t, v = t * 1.5, v + u
        u, v = v, u * 0.5
    out = wp.zeros((4, 4), dtype=float)
    wp.launch_tiled(k, dim=1, inputs=[wp.array(a)], outputs=[out], block_dim=8)
    np.testing.assert_allclose(out.numpy(), t + 10 * u + 100 * v, rtol=1e-5)
