"""`jaxwarp.utils` in functions that JAX traces: the numbers of the same calls outside of JAX, and of NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import GraphMode
from jaxwarp.errors import ArrayError, KernelTypeError
from jaxwarp.types import element_shape

KEYS = (wp.int32, wp.uint32, wp.float32, wp.int64, wp.uint64, wp.float64)
MODES = [GraphMode.JAX, GraphMode.WARP]


def numbers(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.floating):
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(-50 if np.issubdtype(dtype, np.signedinteger) else 0, 50, shape).astype(dtype)


def in_both(function, *arrays, mode=GraphMode.JAX):
    """What a function leaves in arrays, outside of JAX and traced; arrays are pairs of numbers and an element type.

    With x64 for what crosses, since the types of keys are also 64-bit ones.
    """
    given = [wp.array(numbers, dtype=dtype) for numbers, dtype in arrays]
    function(*given)
    names = [f"a{i}" for i in range(len(arrays))]
    listed = ", ".join(names)
    space = {"function": function}
    exec(f"def run({listed}):\n    function({listed})", space)
    run = space["run"]
    axes = [np.ndim(x) - len(element_shape(dtype)) for x, dtype in arrays]
    run.__annotations__ = {n: wp.array(dtype=t, ndim=k) for n, (_, t), k in zip(names, arrays, axes, strict=True)}
    with jax.enable_x64(True):
        call = wp.jax_callable(run, num_outputs=len(names), in_out_argnames=names, graph_mode=mode)
        found = call(*(jnp.asarray(x) for x, _ in arrays))
    return [array.numpy() for array in given], [np.asarray(x) for x in found]


def check(function, *arrays, mode=GraphMode.JAX):
    outside, traced = in_both(function, *arrays, mode=mode)
    for one, other in zip(outside, traced, strict=True):
        np.testing.assert_array_equal(one, other)
    return outside


@pytest.mark.parametrize("dtype", [wp.int32, wp.int64, wp.vec3i])
def test_scans(dtype):
    scalar = np.int64 if dtype is wp.int64 else np.int32
    values = numbers(scalar, (40, *element_shape(dtype)))
    for is_inclusive in (True, False):
        check(
            lambda a, b, i=is_inclusive: wp.utils.array_scan(a, b, i),
            (values, dtype), (np.zeros_like(values), dtype),
        )  # fmt: skip


@pytest.mark.parametrize("dtype", KEYS)
def test_sorts(dtype):
    keys = numbers(dtype.numpy, 50)
    if dtype.is_float:
        keys[:5] = np.inf, -np.inf, 0.0, -0.0, np.nan
    values = np.arange(50, dtype=np.int32)
    found = check(lambda k, v: wp.utils.radix_sort_pairs(k, v, 40), (keys, dtype), (values, wp.int32))
    assert (found[1][:40] != values[:40]).any()
    assert (found[1][40:] == values[40:]).all()


@pytest.mark.parametrize("mode", MODES)
def test_sorts_by_some_bits_and_moves_vectors(mode):
    keys, values = np.array([8, 1, 10, 3, 4, 5, 6, 7], np.int32), numbers(np.float32, (8, 2))
    given = (keys, wp.int32), (values, wp.vec2)
    check(lambda k, v: wp.utils.radix_sort_pairs(k, v, 8, end_bit=2), *given, mode=mode)
    check(lambda k, v: wp.utils.radix_sort_pairs(k, v, 8, 1, 3), *given, mode=mode)
    check(lambda k, v: wp.utils.radix_sort_pairs(k, v, 0), *given, mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_sorts_segments(mode):
    keys, values = numbers(np.float32, (3, 10)), np.arange(30, dtype=np.int32).reshape(3, 10)
    starts, ends = np.array([11, 0, 22, 5, 18], np.int32), np.array([17, 4, 30, 5, 19], np.int32)
    given = (keys, wp.float32), (values, wp.int32)
    check(
        lambda k, v, s, e: wp.utils.segmented_sort_pairs(k, v, 30, s, e),
        *given, (starts, wp.int32), (ends, wp.int32), mode=mode,
    )  # fmt: skip
    whole = np.array([0, 10, 10, 20, 28], np.int32)
    check(lambda k, v, s: wp.utils.segmented_sort_pairs(k, v, 28, s), *given, (whole, wp.int32), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_finds_runs(mode):
    values = np.array([1, 1, 2, 2, 2, 1, 7, 7], np.int64)
    found, lengths = (np.full(8, -1, np.int64), wp.int64), (np.full(8, -1, np.int32), wp.int32)
    before = found, lengths, (np.zeros(2, np.int32), wp.int32)
    for count in (8, 5, 0):
        check(
            lambda v, r, n, c, count=count: wp.utils.runlength_encode(v, r, n, c, value_count=count) and None,
            (values, wp.int64), *before, mode=mode,
        )  # fmt: skip


def order(keys: wp.array[float], values: wp.array[float], y: wp.array[float]):
    """Sort copies by 64-bit keys, which no one outside sees, and sum the values in that order."""
    wide = wp.empty(keys.shape, dtype=wp.int64)
    wp.launch(widen, keys.shape, inputs=[keys], outputs=[wide])
    moved = wp.clone(values)
    wp.utils.radix_sort_pairs(wide, moved, keys.shape[0])
    wp.utils.array_scan(moved, y)


@wp.kernel
def widen(keys: wp.array[float], wide: wp.array[wp.int64]):
    i = wp.tid()
    wide[i] = wp.int64(keys[i] * 100.0) << wp.int64(32)


@pytest.mark.parametrize("mode", MODES)
def test_under_transformations_and_without_64_bits_elsewhere(mode):
    call = wp.jax_callable(order, graph_mode=mode)
    keys, values = numbers(np.float32, (2, 6)), numbers(np.float32, (2, 6), 1)
    places = np.argsort((keys * 100.0).astype(np.int64), kind="stable")
    sums = np.cumsum(np.take_along_axis(values, places, 1), axis=1)
    for mapped in (jax.vmap(call), jax.jit(jax.vmap(call)), jax.vmap(jax.jit(call))):
        np.testing.assert_allclose(mapped(keys, values)[0], sums, atol=1e-5)
    looped = jax.jit(lambda k, v: jax.lax.scan(lambda c, kv: (c, call(*kv)[0]), None, (k, v))[1])
    np.testing.assert_allclose(looped(keys, values), sums, atol=1e-5)
    weights = np.arange(1.0, 7.0, dtype=np.float32)
    gradient = jax.jit(jax.vmap(jax.grad(lambda v, k: (call(k, v)[0] * weights).sum())))(values, keys)
    expected = np.zeros_like(values)
    np.put_along_axis(expected, places, np.broadcast_to(np.cumsum(weights[::-1])[::-1], (2, 6)), 1)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("says", "call"),
    [
        ("keys: expected an array of the function that is traced, got list",
         lambda k, v: wp.utils.radix_sort_pairs([1, 2], v, 2)),
        ("share memory", lambda k, v: wp.utils.radix_sort_pairs(v, v[:2], 2)),
        ("4 pairs, but keys have 3", lambda k, v: wp.utils.radix_sort_pairs(v, wp.clone(v), 4)),
        ("run_count: expected an array of one int32",
         lambda k, v: wp.utils.runlength_encode(k, v, wp.zeros(3, dtype=int))),
        ("do not match", lambda k, v: wp.utils.array_scan(k[:2], v)),
        ("cannot be written", lambda k, v: wp.utils.array_scan(k, k)),
        ("expected an array outside of JAX", lambda k, v: wp.utils.array_sum(k)),
    ],
)  # fmt: skip
def test_refusals(says, call):
    def run(k: wp.array[int], v: wp.array[int]):
        call(k, v)

    with pytest.raises((ArrayError, KernelTypeError), match=says):
        wp.jax_callable(run)(jnp.arange(3))
