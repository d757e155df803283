"""Integers are never cut: fractions, NaN and what a type has not are refused wherever a number becomes one."""

from __future__ import annotations

import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelError


@wp.struct
class Held:
    a: wp.uint8
    v: wp.vec3ub


def assigned(value: Any) -> Any:
    v = wp.vec3ub(1, 2, 3)
    v.x = value
    return v


def item(value: Any) -> Any:
    v = wp.vec3ub(1, 2, 3)
    v[0] = value
    return v


def part(value: Any) -> Any:
    a = wp.zeros(1, dtype=wp.uint8)
    a[:] = [value]
    return a


def in_program(mode: wp.GraphMode, body: Any) -> Any:
    def call(value: Any) -> Any:
        def f(x: wp.array[wp.uint8], out: wp.array[wp.uint8]):
            body(out, value)

        return wp.jax_callable(f, graph_mode=mode)(jnp.zeros(1, jnp.uint8))[0]

    return call


WAYS = {
    "array": lambda x: wp.array([x], dtype=wp.uint8),
    "array of NumPy": lambda x: wp.array(np.array([x]), dtype=wp.uint8),
    "array of JAX": lambda x: wp.array(jnp.array([x]), dtype=wp.uint8),
    "array of ours": lambda x: wp.array(wp.array(np.array([x], np.float32)), dtype=wp.uint8),
    "array of vectors": lambda x: wp.array([(x, 2, 3)], dtype=wp.vec3ub),
    "from_numpy": lambda x: wp.from_numpy(np.array([x]), dtype=wp.uint8),
    "assign": lambda x: wp.zeros(1, dtype=wp.uint8).assign([x]),
    "slice": part,
    "fill_": lambda x: wp.zeros(1, dtype=wp.uint8).fill_(x),
    "fill_ of NumPy": lambda x: wp.zeros(1, dtype=wp.uint8).fill_(np.float32(x)),
    "fill_ of vectors": lambda x: wp.zeros(1, dtype=wp.vec3ub).fill_((x, 2, 3)),
    "full": lambda x: wp.full(1, x, dtype=wp.uint8),
    "full_like": lambda x: wp.full_like(wp.zeros(1, dtype=wp.uint8), x),
    "field": Held,
    "vector field": lambda x: Held(v=(x, 2, 3)),
    "array of structs": lambda x: wp.array([(x, (1, 2, 3))], dtype=Held),
    "vector in structs": lambda x: wp.array([(0, (x, 2, 3))], dtype=Held),
    "vector": lambda x: wp.vec3ub(x, 2, 3),
    "vector of one": wp.vec3ub,
    "vector of NumPy": lambda x: wp.vec3ub(np.array([x, 2, 3])),
    "matrix": lambda x: wp.types.matrix((1, 2), wp.uint8)(x, 1),
    "component": assigned,
    "item": item,
    **{f"{name} in {mode.name}": in_program(mode, body)
       for mode in (wp.GraphMode.JAX, wp.GraphMode.WARP, wp.GraphMode.NONE)
       for name, body in {"fill_": lambda out, x: out.fill_(x), "part": lambda out, x: out[0:].fill_(x),
                          "full": lambda out, x: wp.copy(out, wp.full(1, x, dtype=wp.uint8))}.items()},
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [1.5, -0.25, float("nan"), float("inf"), 1e20])
def test_what_is_no_integer_is_refused(way, value):
    """`array([1.5], dtype=uint8)` was 1."""
    with pytest.raises(Exception, match=r"(?s)expected .*uint8") as caught:
        WAYS[way](value)
    assert isinstance(caught.value, KernelError) or "in NONE" in way  # there XLA raises it


def numbers(found: Any) -> list[Any]:
    found = [found.a, *found.v] if isinstance(found, Held) else found.numpy() if hasattr(found, "numpy") else found
    return re.findall(r"\d+", str(np.asarray(found).tolist()))


@pytest.mark.parametrize("way", WAYS)
def test_whole_floats_are_integers(way):
    assert "7" in numbers(WAYS[way](7.0))


def test_arrays_in_structs_keep_their_values():
    with pytest.raises(KernelError, match="field a: expected values of uint8"):
        wp.zeros(1, dtype=Held).assign(Held(np.array([300]), np.zeros((1, 3), np.uint8)))
    with pytest.raises(KernelError, match="field a: expected a value of uint8, got 300"):
        Held(np.int64(300))


def test_values_that_jax_traces():
    def f(x: wp.array[int], y: wp.array[float], out: wp.array[int]):
        out.fill_(y.value[0])

    with pytest.raises(KernelError, match="expected a value of int32, got float32, traced"):
        wp.jax_callable(f)(jnp.zeros(1, int), jnp.ones(1))


def test_explicit_conversions_are_those_of_kernels():
    assert (wp.uint8(1.5), wp.uint8(300), wp.vec3ub(300)[0]) == (1, 44, 44)
