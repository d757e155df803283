"""Values that integrands are given beside fields: their types, and the struct that kernels are given."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.errors import KernelTypeError, type_text
from jaxwarp.fem.geometry.kinds import make_kind
from jaxwarp.frontend.text.annotations import is_generic
from jaxwarp.types import SCALAR_BY_DTYPE, Array, Struct, struct_of


def value_type(what: str, name: str, value: Any) -> Any:
    """The type of a value that has no declared one.

    Raises:
        KernelTypeError: it has none.
    """
    if isinstance(value, np.generic) and value.dtype in SCALAR_BY_DTYPE:
        return SCALAR_BY_DTYPE[value.dtype]
    if isinstance(value, bool):
        return wp.bool
    if isinstance(value, int):
        return wp.int32
    if isinstance(value, float):
        return wp.float32
    if isinstance(value, HostArray):
        return Array(value.dtype, value.ndim)
    if isinstance(value, jax.Array) and value.dtype in SCALAR_BY_DTYPE:
        scalar = SCALAR_BY_DTYPE[value.dtype]
        return Array(scalar, value.ndim) if value.ndim else scalar
    found = struct_of(type(value)) or getattr(value, "type", None)
    if found is None:
        raise KernelTypeError(
            f"{what}: {name}: expected a number, vector, array or struct, got {type_text(value)}",
            hint="make arrays with wp.array, or pass those of JAX",
        )
    return found


def struct_of_values(what: str, declared: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """An instance of a struct with a field for each value, of the declared type if that is one."""
    types = []
    for name, value in values.items():
        pattern = declared.get(name, Any)
        is_known = pattern is not Any and not is_generic(pattern)
        types.append((name, pattern if is_known else value_type(what, name, value)))
    return _kind(tuple(types))(**values)


@functools.cache
def _kind(types: tuple[tuple[str, Any], ...]) -> Any:
    return make_kind("Values", {name: t.kind if isinstance(t, Struct) else t for name, t in types}, {})


def struct_of_structs(name: str, parts: Mapping[str, Any]) -> Any:
    """An instance of a struct of structs."""
    return _structs(name, tuple((n, type(p)) for n, p in parts.items()))(**parts)


@functools.cache
def _structs(name: str, types: tuple[tuple[str, Any], ...]) -> Any:
    return make_kind(name, dict(types), {})
