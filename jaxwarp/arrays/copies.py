"""New arrays, copies and clones while a Python function runs on real memory: they happen at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.struct_array import array_at
from jaxwarp.errors import KernelTypeError, type_text
from jaxwarp.launches.arguments.dims import normalize_dims
from jaxwarp.memory.convert import as_element, zero_element
from jaxwarp.memory.host_scope import HOST, capturing
from jaxwarp.memory.live_array import LiveArray, MemoryArray
from jaxwarp.memory.region import Region
from jaxwarp.memory.scope import Scope
from jaxwarp.structs.records import as_record, memory_axes, memory_dtype
from jaxwarp.types import SCALAR_BY_DTYPE, Array, Struct, as_dtype, element_scalar, element_shape


def make_now(scope: Scope, name: str, shape: Any, dtype: Any, value: Any) -> LiveArray:
    """A new array of one value."""
    element = as_dtype(dtype)
    extents = normalize_dims(shape, f"{name}: shape")
    region = scope.make(memory_dtype(element, 0 in extents), (*extents, *memory_axes(element)))
    if type(value) is int and value == 0 and not isinstance(element, Struct) and capturing.get() is None:
        return _array(scope, name, Array(element, len(extents)), region)  # which holds zeros
    if isinstance(element, Struct):
        _require_host(scope, name, element)
        if 0 in extents:
            return _array(scope, name, Array(element, len(extents)), region)
        pattern = as_record(element, value, name)
    elif type(value) is int and value == 0:
        pattern = zero_element(region.dtype, memory_axes(element))
    else:
        pattern = as_element(value, region.dtype, memory_axes(element), name)
    if pattern.tobytes().strip(b"\0") or capturing.get() is not None:
        scope.fill(region, pattern)
    return _array(scope, name, Array(element, len(extents)), region)


def _require_host(scope: Scope, name: str, struct: Struct) -> None:
    if not scope.is_outside:
        raise KernelTypeError(
            f"{name}: an array of struct {struct!r} in memory is for outside of JAX, not for callbacks and callables",
            hint=f"make a struct of arrays, {struct!r}(...)",
        )


def _array(scope: Scope, name: str, type_: Array, region: Region) -> LiveArray:
    """A new array in the memory of a scope."""
    if scope.is_outside:
        return array_at(name, type_, region, is_writable=True)
    return LiveArray(scope, name, type_, region, is_writable=True)


def type_of(array: Any, where: str) -> tuple[tuple[int, ...], Any]:
    """Shape and element type of an array, for one that is made like it.

    Raises:
        KernelTypeError: it is no array, or not of a type of the kernel language.
    """
    if isinstance(array, LiveArray):
        return array.shape, array.dtype
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    if not isinstance(shape, tuple) or not isinstance(dtype, np.dtype) or dtype not in SCALAR_BY_DTYPE:
        raise KernelTypeError(
            f"{where}: expected an array of a type of the kernel language, got {array!r}",
            hint="pass an array of jaxwarp or NumPy, of numbers",
        )
    return shape, SCALAR_BY_DTYPE[dtype]


def copy_now(scope: Scope, dest: Any, src: Any, offsets: tuple[int, int], count: int) -> None:
    """Copies elements of `src` to `dest`: all of them, or `count` from offsets into arrays with one axis."""
    target = _as_memory(scope, dest)
    if scope is HOST:
        _copy_in_order(target, src, offsets, count)
        return
    if not (any(offsets) or count):
        target.assign(src)
        return
    at, start = offsets
    source = src if isinstance(src, MemoryArray) else np.asarray(src)
    if target.ndim != 1 or source.ndim - len(target.components) * (not isinstance(source, MemoryArray)) != 1:
        raise KernelTypeError(
            f"copy: offsets need arrays with 1 axis, {target.label} has {target.ndim}",
            hint="copy parts: copy(dest[1:3], src[0:2])",
        )
    count = count or len(source) - start
    _require_fitting(count, (start, len(source)), (at, len(target)))
    target[at : at + count].assign(source[start : start + count])


def _require_fitting(count: int, source: tuple[int, int], dest: tuple[int, int]) -> None:
    """Refuse to copy elements that are not there, or have no place: each array is given by an offset and its size."""
    if min(source[0], dest[0]) < 0 or source[0] > source[1]:
        raise KernelTypeError(
            f"copy: expected offsets within the arrays, got {source[0]} in a source of {source[1]} elements and"
            f" {dest[0]} in a destination of {dest[1]}"
        )
    if count < 0 or source[0] + count > source[1] or dest[0] + count > dest[1]:
        raise KernelTypeError(
            f"copy: {count} elements from {source[0]} of {source[1]} do not fit {dest[0]} of {dest[1]}",
            hint="pass a smaller count, or smaller offsets",
        )


def _copy_in_order(target: MemoryArray, src: Any, offsets: tuple[int, int], count: int) -> None:
    """Copy elements of contiguous arrays in memory order, whatever their shapes, as Warp does. Without offsets and a
    count, copy all of `src`, to a target that may be larger."""
    target.require_writable("written")
    if not (isinstance(src, MemoryArray) or any(offsets) or count):
        target.assign(src)
        return
    source = src if isinstance(src, MemoryArray) else _as_memory(HOST, src, "from")
    if source.dtype != target.dtype and isinstance(source, HostArray) and _is_one_number(source.dtype, target.dtype):
        source = source.view(target.dtype)
    if source.dtype != target.dtype:
        raise KernelTypeError(
            f"copy: expected a source of {target.dtype}, as the destination is, got {source.dtype}",
            hint=f"convert it: array(src.numpy(), dtype={target.dtype})",
        )
    at, start = (_count("offset", n) for n in offsets)
    number = _count("count", count) or (source.size if not any(offsets) else source.size - start)
    _require_fitting(number, (start, source.size), (at, target.size))
    if not (count or any(offsets)) and source.shape == target.shape:
        target.assign(source)
    elif not number:
        return
    elif target.ndim == source.ndim == 1:
        target[at : at + number].assign(source[start : start + number])
    elif isinstance(target, HostArray) and isinstance(source, HostArray):
        if not (target.is_contiguous and source.is_contiguous):
            raise KernelTypeError(
                f"copy: arrays of shapes {source.shape} and {target.shape} with gaps between their elements can only be"
                " copied whole, to the same shape",
                hint="copy from and to contiguous(), or reshape the source",
            )
        target.flatten()[at : at + number].assign(source.flatten()[start : start + number])


def _is_one_number(source: Any, target: Any) -> bool:
    """Return whether elements of both types are one number of the same scalar type, such as a vector of one and a
    number."""
    types = (source, target)
    if any(isinstance(t, Struct) for t in types):
        return False
    return element_scalar(source) == element_scalar(target) and all(math.prod(element_shape(t)) == 1 for t in types)


def _count(name: str, value: Any) -> int:
    if type(value) is int and value >= 0:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 0:
        raise KernelTypeError(
            f"copy: {name}: expected an integer from 0, got {value!r}", hint="write a number of elements"
        )
    return int(value)


def _as_memory(scope: Scope, value: Any, direction: str = "to") -> MemoryArray:
    if isinstance(value, MemoryArray):
        return value
    found = scope.find(value)
    if found is None:
        whose = "an array" if scope is HOST else "an array of the call"
        raise KernelTypeError(
            f"copy: expected {whose} to copy {direction}, got {type_text(value)}",
            hint="make one with array(data) or zeros(shape)",
        )
    region, is_writable = found
    if scope is HOST:
        element = type_of(region, "copy")[1]
        return HostArray("copy", Array(element, len(region.shape)), region, is_writable)
    return MemoryArray(scope, "the array copied to", region, is_writable)


def clone_now(scope: Scope, src: Any) -> LiveArray:
    """A new array with the contents of another one."""
    shape, element = type_of(src, "clone")
    name = f"clone of {src.name}" if isinstance(src, MemoryArray) else "clone"
    if isinstance(element, Struct):
        _require_host(scope, "clone", element)
    region = scope.make(memory_dtype(element, 0 in shape), (*shape, *memory_axes(element)))
    made = _array(scope, name, Array(element, len(shape)), region)
    made.assign(src)
    return made
