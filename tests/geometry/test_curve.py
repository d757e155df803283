"""Points searched along a curve: the same results, in the order in which they were given."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxwarp as wp
from jaxwarp.geometry.sorting import curve_order
from tests.geometry.brute import sphere

POINTS, FACES = sphere(6)
X = np.random.default_rng(0).uniform(-1.5, 1.5, (4, 1024, 3)).astype(np.float32)


@functools.cache
def mesh():
    with jax.ensure_compile_time_eval():  # the first test to need it may be tracing
        return wp.Mesh(jnp.asarray(POINTS), jnp.asarray(FACES), support_winding_number=True)


QUERIES = {
    "closest": lambda x: wp.geometry.closest_points(mesh(), x),
    "signed": lambda x: wp.geometry.signed_distance(mesh(), x),
    "winding": lambda x: wp.geometry.winding_number(mesh(), x),
}

every_query = pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)


@pytest.fixture
def sorts(monkeypatch):
    """As in a process with one device."""
    monkeypatch.setattr(jax, "device_count", lambda: 1)


def is_sorted(function, *arguments):
    unknown = functools.partial(function)  # of which nothing is kept
    return "sort" in jax.jit(unknown).lower(*arguments).as_text()


def same(found, expected):
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@every_query
def test_the_same_results(query, monkeypatch):
    expected = query(X)
    assert not is_sorted(query, X)
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    assert is_sorted(query, X)
    same(query(X), expected)
    same(jax.vmap(query)(X), expected)
    same(jax.lax.map(query, X), expected)


@every_query
def test_few_points_and_few_faces_stay_in_order(query, sorts):
    assert not is_sorted(query, X[0, :1000])
    cube = wp.Mesh(jnp.asarray(sphere(3)[0]), jnp.asarray(sphere(3)[1]))
    assert not is_sorted(lambda x: wp.geometry.closest_points(cube, x), X)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, 3e38])
def test_points_that_have_no_order(value, sorts):
    x = np.full((2000, 3), value, np.float32)
    x[::7] = np.random.default_rng(1).uniform(-1, 1, x[::7].shape) * np.where(np.arange(286)[:, None] % 2, 1, 3e38)
    found = wp.geometry.closest_points(mesh(), x)
    expected = [wp.geometry.closest_points(mesh(), part) for part in np.split(x, 4)]  # of few points each
    same(found, jax.tree.map(lambda *parts: np.concatenate(parts), *expected))


@every_query
def test_derivatives(query, monkeypatch):
    def loss(x):
        return jnp.sum(jnp.sin(jax.tree.leaves(query(x))[0]))

    x = jnp.asarray(X[0])
    direction = jnp.asarray(np.random.default_rng(2).normal(size=x.shape), jnp.float32)
    gradient = jax.grad(loss)
    expected = gradient(x), jax.jvp(gradient, (x,), (direction,))[1]
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    found = jax.jit(gradient)(x), jax.jvp(gradient, (x,), (direction,))[1]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@every_query
def test_points_on_several_devices_stay_where_they_are(query):
    devices = Mesh(np.array(jax.devices()[:4]), "d")
    x = X.reshape(-1, 3)
    there = jax.device_put(x, NamedSharding(devices, P("d")))
    by_compiler = jax.jit(query).lower(there).compile()
    by_hand = jax.jit(jax.shard_map(query, mesh=devices, in_specs=P("d"), out_specs=P("d"))).lower(there).compile()
    for program in (by_compiler, by_hand):
        same(program(there), query(x))
    assert "sort" in by_hand.as_text()
    assert "sort" not in by_compiler.as_text()
    assert not any(word in by_hand.as_text() for word in ("all-gather", "all-to-all", "all-reduce", "permute("))


def test_extents_that_are_symbols(sorts):
    (n,) = jax.export.symbolic_shape("n")
    call = jax.jit(QUERIES["closest"])
    given = jax.ShapeDtypeStruct((n, 3), jnp.float32)
    checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in ("jaxwarp_launch",)]
    exported = jax.export.export(call, disabled_checks=checks)(given)
    same(tuple(exported.call(X[0])), tuple(QUERIES["closest"](X[0])))


def test_neighbours_follow_each_other():
    x = jnp.asarray(X.reshape(-1, 3))
    order = curve_order(x)
    assert sorted(order.tolist()) == list(range(len(x)))
    step = np.linalg.norm(np.diff(x[order], axis=0), axis=1).mean()
    assert step < 0.2 * np.linalg.norm(np.diff(x, axis=0), axis=1).mean()
