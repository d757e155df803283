"""Rays and points on several devices, which all have the mesh: nothing is gathered."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxwarp as wp
from tests.geometry.brute import sphere

POINTS, FACES = sphere(3)
ORIGINS = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32) * 2


def collectives(function: Any, *arguments: Any) -> Counter[str]:
    text = function.lower(*arguments).compile().as_text()
    assert "jaxwarp_launch" in text
    return Counter(re.findall(r" ((?:all|collective|reduce)-[a-z-]+)\(", text))


@pytest.fixture
def devices():
    return Mesh(np.array(jax.devices()[:4]), "d")


def cast(points: Any, origins: Any) -> Any:
    return wp.geometry.cast_rays(wp.Mesh(points, FACES), origins, -origins).t


def near(points: Any, origins: Any) -> Any:
    return wp.geometry.closest_points(wp.Mesh(points, FACES), origins).distance


@pytest.mark.parametrize("query", [cast, near])
def test_rays_are_cut_and_the_mesh_is_not(devices, query):
    cut = jax.jit(jax.shard_map(query, mesh=devices, in_specs=(P(), P("d")), out_specs=P("d")))
    origins = jax.device_put(ORIGINS, NamedSharding(devices, P("d")))
    assert not collectives(cut, jnp.asarray(POINTS), origins)
    found = cut(jnp.asarray(POINTS), origins)
    assert found.sharding.is_equivalent_to(NamedSharding(devices, P("d")), 1)
    np.testing.assert_array_equal(found, query(jnp.asarray(POINTS), jnp.asarray(ORIGINS)))


def test_only_the_gradient_of_the_mesh_is_summed(devices):
    def loss(points: Any, origins: Any) -> Any:
        return jax.lax.psum(jnp.sum(cast(points, origins) ** 2), "d")

    cut = jax.shard_map(jax.grad(loss), mesh=devices, in_specs=(P(), P("d")), out_specs=P())
    origins = jax.device_put(ORIGINS, NamedSharding(devices, P("d")))
    found = collectives(jax.jit(cut), jnp.asarray(POINTS), origins)
    assert set(found) == {"all-reduce"}
    expected = jax.grad(lambda p: jnp.sum(cast(p, jnp.asarray(ORIGINS)) ** 2))(jnp.asarray(POINTS))
    np.testing.assert_allclose(jax.jit(cut)(jnp.asarray(POINTS), origins), expected, rtol=1e-4, atol=1e-4)
