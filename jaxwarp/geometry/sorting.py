"""`sort_pairs`: values in the order of their keys, in native code on CPUs and by XLA elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry.operations import operation
from jaxwarp.memory.convert import for_jax
from jaxwarp.native.library import SORT_TARGET

_MOST = 2**31 - 1
_KEYS = tuple(
    jnp.dtype(t)
    for t in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
              "float32", "float64")
)  # fmt: skip


@boundary
def sort_pairs(keys: Any, values: Any) -> tuple[Any, Any]:
    """Sort keys, and move values with them. Values of equal keys keep their order.

    On CPUs this is a radix sort in native code, on all threads of XLA; elsewhere it is XLA's sort. The result is the
    same to the bit.

    Args:
        keys: (n,) of any real type. -0.0 and 0.0 are equal keys; all NaNs are, and come last.
        values: (n, ...) of any type, or a pytree of such arrays.

    Returns:
        The keys in ascending order, and the values in the order of their keys.

    Raises:
        KernelTypeError: the keys are of another type or rank.
        KernelValueError: the values are not as many as the keys, or there are 2^31 or more.

    Differentiability:
        Both results are permutations of what is given, where the order is fixed.

    Examples:
        >>> keys, values = jaxwarp.sort_pairs(jnp.array([2, 0, 1]), jnp.array([10.0, 20.0, 30.0]))
        >>> values
        Array([20., 30., 10.], dtype=float32)
    """
    keys = jnp.asarray(for_jax(keys, "sort_pairs: keys"))
    if keys.ndim != 1:
        raise KernelValueError(
            f"sort_pairs: keys: expected an array with 1 axis, got shape {keys.shape}", hint="use jax.vmap for rows"
        )
    values = jax.tree.map(lambda leaf: jnp.asarray(for_jax(leaf, "sort_pairs: values")), values)
    for path, leaf in jax.tree_util.tree_leaves_with_path(values):
        if leaf.ndim == 0 or leaf.shape[0] != keys.shape[0]:
            raise KernelValueError(
                f"sort_pairs: values{jax.tree_util.keystr(path)}: expected {keys.shape[0]} of them, as many as"
                f" there are keys, got shape {leaf.shape}"
            )
    sorted_keys, order = sort_order(keys)
    return sorted_keys, jax.tree.map(lambda leaf: taken(leaf, order), values)


def sort_order(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The keys, (n,), in ascending order, and where each of them was: int32."""
    bits = _ordered(jax.lax.stop_gradient(keys))
    sorted_bits, order = sort_bits(bits)
    if bits.dtype == keys.dtype:
        return sorted_bits, order
    return taken(keys, order), order


def taken(values: jax.Array, order: jax.Array) -> jax.Array:
    """Values in an order, which is a permutation of their places."""
    return values.at[order].get(mode="promise_in_bounds", unique_indices=True)


def _ordered(keys: jax.Array) -> jax.Array:
    """Unsigned numbers of 32 or 64 bits in the order of the keys.

    Of integers the sign bit is turned, of negative floats all bits are. The tests are of integers, since XLA flushes
    subnormal floats to zero on CPUs.

    Source: M. Herf, "Radix Tricks", 2001.
    """
    if keys.dtype not in _KEYS:
        raise KernelTypeError(
            f"sort_pairs: keys: expected integers, floats or bools, got {keys.dtype}",
            hint="convert them: keys.astype(jnp.int32)",
        )
    if keys.dtype == bool:
        return keys.astype(jnp.uint32)
    bits, width = 8 * keys.dtype.itemsize, jnp.dtype(f"uint{8 * keys.dtype.itemsize}")
    turned = _turned(jax.lax.bitcast_convert_type(keys, width), keys.dtype, width.type(1 << (bits - 1)))
    return turned if bits >= 32 else turned.astype(jnp.uint32)


def _turned(bits: jax.Array, dtype: Any, sign: Any) -> jax.Array:
    if jnp.issubdtype(dtype, jnp.unsignedinteger):
        return bits
    if jnp.issubdtype(dtype, jnp.signedinteger):
        return bits ^ sign
    infinity, last = np.array(np.inf, dtype).view(bits.dtype), ~bits.dtype.type(0)
    bits = jnp.where(bits == sign, bits.dtype.type(0), bits)
    turned = jnp.where((bits & sign) != 0, ~bits, bits | sign)
    return jnp.where((bits & ~sign) > infinity, last, turned)


def _results(keys: Any) -> list[Any]:
    if isinstance(keys.shape[-1], int) and keys.shape[-1] > _MOST:
        raise KernelValueError(f"sort_pairs: at most {_MOST} keys can be sorted, got {keys.shape[-1]}")
    return [(keys.shape, keys.dtype), (keys.shape, np.dtype(np.int32))]


def sort_by_xla(keys: jax.Array) -> Sequence[jax.Array]:
    places = jax.lax.broadcasted_iota(np.int32, keys.shape, keys.ndim - 1)
    return jax.lax.sort((keys, places), num_keys=1, is_stable=True)


sort_bits = operation(SORT_TARGET, _results, sort_by_xla)
"""Unsigned keys (..., n), sorted along the last axis, and where each was."""


_CELLS = 1023  # along each axis, less one: 30 bits


def curve_order(points: jax.Array) -> jax.Array:
    """The places of points, (n, 3), along a curve on which neighbours follow each other.

    Source: Morton, "A Computer Oriented Geodetic Data Base", 1966.
    """
    known = jnp.where(jnp.isfinite(points), points, 0.0)
    low, high = known.min(0), known.max(0)
    size = (high - low).max()
    cells = ((known - low) * jnp.where(size > 0.0, _CELLS / size, 0.0)).astype(jnp.uint32)
    x, y, z = (_spread(cells[:, axis]) for axis in range(3))
    return sort_bits(x | y << 1 | z << 2)[1]


def _spread(bits: jax.Array) -> jax.Array:
    """Ten bits, each three places from the next."""
    for distance, mask in ((16, 0x030000FF), (8, 0x0300F00F), (4, 0x030C30C3), (2, 0x09249249)):
        bits = (bits | bits << distance) & jnp.uint32(mask)
    return bits
