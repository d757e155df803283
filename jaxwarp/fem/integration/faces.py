"""One launch for both faces: arrays outside of JAX, which a tape records, or values of JAX if anything given is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.sparse import faces


def _leaves(values: Any) -> list[Any]:
    return jax.tree.leaves(values, is_leaf=lambda value: isinstance(value, HostArray))


def is_of_jax(values: Any) -> bool:
    """Return whether there is a value of JAX in structs, lists or dictionaries."""
    return any(isinstance(leaf, jax.Array) for leaf in _leaves(values))


def as_jax(values: Any) -> Any:
    """Return structs, lists or dictionaries with JAX arrays in place of arrays outside of JAX."""
    return jax.tree.map(
        lambda leaf: leaf.to_jax() if isinstance(leaf, HostArray) else leaf,
        values,
        is_leaf=lambda leaf: isinstance(leaf, HostArray),
    )


def needs_gradient(values: Any) -> bool:
    """Return whether an array in structs, lists or dictionaries has a gradient."""
    return any(isinstance(leaf, HostArray) and leaf.requires_grad for leaf in _leaves(values))


def overlaps(array: HostArray, values: Any) -> bool:
    """Return whether an array outside of JAX shares memory with one in structs, lists or dictionaries."""
    return any(isinstance(leaf, HostArray) and leaf.region.overlaps(array.region) for leaf in _leaves(values))


def evaluated(
    kernel: Any, dim: Any, inputs: Sequence[Any], outputs: Sequence[tuple[int, Any]], device: Any
) -> list[Any]:
    """Launch a kernel and return its last arguments, which are zero before the launch.

    Args:
        outputs: extent and element type of each.
    """
    if is_of_jax(list(inputs)):
        return faces.evaluated(kernel, dim, as_jax(list(inputs)), outputs)
    needs = needs_gradient(list(inputs))
    made = [wp.zeros(count, dtype=dtype, device=device, requires_grad=needs) for count, dtype in outputs]
    wp.launch(kernel, dim, list(inputs), made, device=device)
    return made
