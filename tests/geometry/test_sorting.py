"""`sort_pairs`: as NumPy sorts, for every type of keys, under every transformation."""

from __future__ import annotations

import sys

import hypothesis
import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st
from jax import export

import jaxwarp as wp
from jaxwarp.errors import KernelValueError
from jaxwarp.geometry import sorting

TYPES = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32"]
WIDE = ["int64", "uint64", "float64"]


def expected_order(keys):
    """Zeros are equal; NaNs are, and come last."""
    if keys.dtype.kind in "biu":
        return np.argsort(keys, kind="stable")
    with np.errstate(invalid="ignore"):
        wide = keys.astype(np.float64)
    return np.lexsort((np.where(np.isnan(wide), 0, wide), np.isnan(wide)))  # lexsort is stable


def bits(x):
    """The bits of numbers; of bfloat16 all NaNs are one: XLA may make one of another when it compiles in a hurry."""
    x = np.asarray(x)
    if x.dtype == ml_dtypes.bfloat16:
        with np.errstate(invalid="ignore"):
            x = np.where(np.isnan(x), np.array(np.nan, x.dtype), x)
    return x.view(f"u{x.dtype.itemsize}")


def random_keys(dtype, n, seed=0):
    """All bit patterns are as likely, some values come many times, and the special ones are there."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(n) < 0.3
    dtype = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    keys = rng.integers(0, 256, n * dtype.itemsize, np.uint8).view(dtype).copy()
    special = [0, 1, 5] if dtype.kind in "iu" else [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf]
    if dtype.kind not in "iu":
        tiny = np.array([1, 2], f"u{dtype.itemsize}").view(dtype)
        special += [*tiny, *np.negative(tiny)]
    places = rng.random(n) < 0.4
    keys[places] = rng.choice(np.array(special, dtype), places.sum())
    return keys


def check(keys, sorted_keys, order):
    expected = expected_order(keys)
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(bits(sorted_keys), bits(keys[expected]))


@pytest.mark.parametrize("n", [0, 1, 70_001])
@pytest.mark.parametrize("dtype", TYPES)
def test_values_are_in_the_stable_order_of_their_keys(dtype, n):
    keys = random_keys(dtype, n)
    check(keys, *jax.jit(wp.sort_pairs)(jnp.asarray(keys), jnp.arange(n)))


@pytest.mark.parametrize("dtype", WIDE)
def test_keys_of_64_bits(dtype):
    keys = random_keys(dtype, 40_000)
    with jax.enable_x64(True):
        check(keys, *wp.sort_pairs(jnp.asarray(keys), jnp.arange(keys.size)))


@pytest.mark.parametrize("dtype", TYPES)
def test_the_order_of_other_devices_is_the_same(dtype):
    keys = jnp.asarray(random_keys(dtype, 3000))
    native, xla = (sort(sorting._ordered(keys)) for sort in (sorting.sort_bits, sorting.sort_by_xla))
    for ours, theirs in zip(native, xla, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@hypothesis.given(
    # Each length is compiled.
    hnp.arrays(
        np.int32, st.sampled_from([0, 1, 2, 37, 300]), elements=st.integers(-5, 5) | st.integers(-(2**31), 2**31 - 1)
    )
)
def test_integers_as_numpy_sorts_them(keys):
    check(keys, *wp.sort_pairs(jnp.asarray(keys), jnp.arange(keys.size)))


def test_keys_that_differ_in_few_bits():
    rng = np.random.default_rng(0)
    for mask in (0, 1, 0xFF00, 0x80000001, 0x1FFFF, 0x7000):
        keys = rng.integers(0, 2**32, 5000, dtype=np.uint32) & np.uint32(mask) | np.uint32(0x00010000)
        check(keys, *wp.sort_pairs(jnp.asarray(keys), jnp.arange(keys.size)))


def test_values_are_trees_of_arrays_of_any_type():
    keys = jnp.array([3, 1, 2])
    values = {"a": jnp.arange(6.0).reshape(3, 2), "b": (jnp.array([True, False, True]), jnp.array([1j, 2j, 3j]))}
    _, found = wp.sort_pairs(keys, values)
    np.testing.assert_array_equal(found["a"], [[2, 3], [4, 5], [0, 1]])
    np.testing.assert_array_equal(found["b"][0], [False, True, True])
    np.testing.assert_array_equal(found["b"][1], [2j, 3j, 1j])


@pytest.mark.parametrize("shape", [(5, 40), (3, 50_000), (400, 100), (2, 4, 30), (0, 5), (4, 0)])
def test_rows_by_vmap(shape):
    keys = np.random.default_rng(1).integers(0, 50, shape).astype(np.int32)
    function = wp.sort_pairs
    for _ in shape[1:]:
        function = jax.vmap(function)
    values = jnp.broadcast_to(jnp.arange(shape[-1]), shape)
    found, order = jax.jit(function)(jnp.asarray(keys), values)
    expected = np.argsort(keys, axis=-1, kind="stable")
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(found, np.take_along_axis(keys, expected, -1))


def test_vmap_over_other_axes_and_of_values_alone():
    keys = jnp.array([[3, 1], [2, 5], [1, 4]])
    found, order = jax.vmap(wp.sort_pairs, (1, None), (1, 1))(keys, jnp.arange(3))
    np.testing.assert_array_equal(found, np.sort(keys, axis=0))
    np.testing.assert_array_equal(order, [[2, 0], [1, 2], [0, 1]])
    _, values = jax.vmap(wp.sort_pairs, (None, 0))(jnp.array([1, 0]), jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(values, [[2, 1], [4, 3]])


def test_in_scan_and_cond():
    def step(keys, _):
        found, _ = wp.sort_pairs(-keys, keys)
        return jax.lax.cond(found[0] < 0, lambda k: k, lambda k: k + 1, found), found[0]

    _, firsts = jax.jit(lambda k: jax.lax.scan(step, k, length=3))(jnp.array([4, 7, 1]))
    np.testing.assert_array_equal(firsts, [-7, 1, -8])


def test_derivatives_are_those_of_a_permutation():
    keys, values = jnp.array([3.0, -1.0, jnp.inf, 0.5]), jnp.array([[1.0], [2.0], [3.0], [4.0]])
    weights = jnp.arange(1.0, 5.0)

    def weighed(keys, values):
        found, moved = wp.sort_pairs(keys, values)
        return (weights * jnp.where(jnp.isfinite(found), found, 0) ** 2).sum() + (weights[:, None] * moved**2).sum()

    by_keys, by_values = jax.grad(weighed, (0, 1))(keys, values)
    np.testing.assert_array_equal(by_keys, [3 * 2 * 3, 1 * 2 * -1, 0, 2 * 2 * 0.5])
    np.testing.assert_array_equal(by_values[:, 0], [3 * 2 * 1, 1 * 2 * 2, 4 * 2 * 3, 2 * 2 * 4])
    _, forward = jax.jvp(weighed, (keys, values), (jnp.ones(4), jnp.ones((4, 1))))
    assert forward == by_keys.sum() + by_values.sum()
    hessian = jax.hessian(weighed, 1)(keys, values)[:, 0, :, 0]
    np.testing.assert_array_equal(hessian, np.diag([6.0, 2, 8, 4]))
    jax.vmap(jax.grad(weighed, 1))(jnp.stack([keys, -keys]), jnp.stack([values, values]))


def test_abstract_evaluation():
    keys, values = jax.eval_shape(
        wp.sort_pairs, jax.ShapeDtypeStruct((7,), jnp.int16), jax.ShapeDtypeStruct((7, 2), jnp.float32)
    )
    assert (keys.shape, keys.dtype, values.shape, values.dtype) == ((7,), jnp.int16, (7, 2), jnp.float32)


def test_export_for_both_platforms_and_any_size():
    (n,) = export.symbolic_shape("n")
    shapes = jax.ShapeDtypeStruct((n,), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.int32)
    whole = export.export(jax.jit(wp.sort_pairs), platforms=("cpu", "cuda"), disabled_checks=wp.export_checks())(
        *shapes
    )
    text = whole.mlir_module()
    assert text.count("custom_call @jaxwarp_sort") == 1
    assert "stablehlo.sort" in text
    found = export.deserialize(whole.serialize()).call(jnp.array([2.0, 1.0, 3.0]), jnp.arange(3))
    np.testing.assert_array_equal(found[1], [1, 0, 2])


def test_in_shard_map():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), "d")
    spec = jax.sharding.PartitionSpec("d")
    keys = jnp.array([3, 1, 2, 0, 7, 6, 5, 5])
    found, _ = jax.jit(jax.shard_map(wp.sort_pairs, mesh=mesh, in_specs=(spec, spec), out_specs=spec))(keys, keys)
    np.testing.assert_array_equal(found, [1, 3, 0, 2, 6, 7, 5, 5])


def test_eager_and_without_jit():
    with jax.disable_jit():
        np.testing.assert_array_equal(wp.sort_pairs(np.array([2, 1]), np.array([5, 6]))[1], [6, 5])


@pytest.mark.parametrize(
    ("keys", "values", "error", "text"),
    [
        (
            np.ones((2, 2)),
            np.ones(2),
            wp.errors.KernelValueError,
            r"keys: expected an array with 1 axis, got shape \(2, 2\)",
        ),
        (
            np.ones(2, np.complex64),
            np.ones(2),
            wp.errors.KernelTypeError,
            "expected integers, floats or bools, got complex64",
        ),
        (np.ones(2), {"a": np.ones(3)}, wp.errors.KernelValueError, r"values\['a'\]: expected 2 of them"),
        (np.ones(2), np.float32(3), wp.errors.KernelValueError, r"values: expected 2 of them.* got shape \(\)"),
    ],
)
def test_what_cannot_be_sorted_is_refused(keys, values, error, text):
    with pytest.raises(error, match=text):
        jax.jit(wp.sort_pairs)(keys, values)


def test_it_is_read_late_and_listed():
    assert {"sort_pairs", "geometry"} <= set(dir(wp))
    assert wp.geometry is sys.modules["jaxwarp.geometry"]


def test_arrays_of_numpy_that_change_afterwards():
    """JAX reads them when it gets to it."""
    keys, values = np.ones(1 << 20, np.int32), np.ones(1 << 20, np.float32)
    busy, x = jax.jit(lambda x: jax.lax.fori_loop(0, 30, lambda _, x: jnp.sin(x) + x, x)), jnp.ones(1 << 18)
    busy(x).block_until_ready()
    for _ in range(2):
        busy(x)
        found = wp.sort_pairs(keys, values)
        keys[:], values[:] = 2, 2.0
        assert (int(found[0].max()), float(found[1].max())) == (1, 1.0)
        keys[:], values[:] = 1, 1.0


def test_keys_that_jax_would_cut():
    with pytest.raises(KernelValueError, match="sort_pairs: keys: expected values of int32"):
        wp.sort_pairs(np.array([2**32, 1]), np.arange(2))
