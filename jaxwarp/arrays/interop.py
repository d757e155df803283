"""Arrays outside of JAX from those of JAX and of libraries with DLPack, and back."""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import numpy as np

from jaxwarp.arrays.element_types import concrete, scalar_of_numpy
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.struct_array import array_of_structs
from jaxwarp.boundary import located_call
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.memory.current import require_outside
from jaxwarp.memory.dlpack import import_tensor, is_on_gpu
from jaxwarp.memory.gpu.scope import place_of_device, region_of_tensor
from jaxwarp.memory.host_scope import Outside, require_unrecorded, untraced
from jaxwarp.memory.libraries import library_of
from jaxwarp.memory.region import Region, array_region
from jaxwarp.types import Array, Struct, as_dtype, element_scalar, element_shape


@located_call
def from_jax(jax_array: Any, dtype: Any = None) -> HostArray:
    """The memory of a JAX array as an array outside of JAX, without a copy. It can be read only: JAX arrays never
    change. `clone` of it can be written.

    Args:
        jax_array: on one device; for a struct as `dtype`, one of such arrays, which are copied.
        dtype: an element type whose components are the array's last axes, or a struct; None: a scalar type. Integers
            may be seen with a sign or without, and bools as 8-bit integers.

    Raises:
        KernelTypeError, KernelValueError: it is no such array, or of another type.
    """
    struct = None if dtype is None else as_dtype(dtype)
    if isinstance(struct, Struct):
        require_outside("from_jax")
        return array_of_structs("from_jax", jax_array, struct, None, copy=True)
    if not isinstance(jax_array, jax.Array) or isinstance(jax_array, jax.core.Tracer):
        if isinstance(jax_array, jax.core.Tracer):
            raise untraced(jax_array, "from_jax")
        raise KernelTypeError(
            f"from_jax: expected a JAX array, got {type(jax_array).__name__}",
            hint="write array(data) for lists and NumPy arrays",
        )
    devices = list(jax_array.devices())
    if len(devices) == 1 and is_on_gpu(jax_array):
        region, _ = import_tensor(jax_array, named_gpu)
        return wrapped("from_jax", region, dtype, is_writable=False, jax_value=jax_array)
    if len(devices) != 1 or devices[0].platform != "cpu":
        raise KernelValueError(
            f"from_jax: expected an array on one device, got one on {', '.join(map(str, devices))}",
            hint="copy it there: jax.device_put(array, jax.local_devices(backend='cpu')[0])",
        )
    values = np.asarray(jax_array)
    return wrapped("from_jax", array_region(values), dtype, is_writable=False, jax_value=jax_array)


@located_call
def from_dlpack(source: Any, dtype: Any = None) -> HostArray:
    """The memory of an array with DLPack's interface, or of a capsule, as an array outside of JAX, without a copy.

    What its library lets be written can be written; the memory of JAX arrays can only be read. `dtype` is as for
    `from_jax`, but no struct.

    Raises:
        KernelTypeError, KernelValueError: it is memory of no device here, or does not fit `dtype`.
    """
    if isinstance(source, jax.Array):
        return from_jax.__wrapped__(source, dtype)  # pyright: ignore[reportFunctionMemberAccess]
    library = library_of(source)
    if library is not None:
        require_unrecorded(library, source)
        region = region_of_tensor(library, source)
        return wrapped("from_dlpack", region, dtype, is_writable=not region.repeats)
    region, is_writable = import_tensor(source, named_gpu)
    return wrapped("from_dlpack", region, dtype, is_writable)


def named_gpu(ordinal: int) -> Outside:
    """The memory of a GPU that another library names."""
    return place_of_device(f"cuda:{ordinal}", "from_dlpack")


def wrapped(where: str, region: Region, dtype: Any, is_writable: bool, jax_value: jax.Array | None = None) -> HostArray:
    """The array in memory that somebody else has made.

    Raises:
        KernelTypeError: it does not fit `dtype`.
    """
    require_outside(where)
    element = scalar_of_numpy(where, region.dtype) if dtype is None else concrete(where, dtype)
    scalar, components = element_scalar(element).numpy, element_shape(element)
    region = _seen_as(region, scalar)
    rank = len(region.shape) - len(components)
    if region.dtype != scalar or rank < 0 or region.shape[rank:] != components:
        raise KernelTypeError(
            f"{where}: expected {scalar} of shape (..., {', '.join(map(str, components))}) for {element}, got"
            f" {region.dtype} of shape {region.shape}"
            if components
            else f"{where}: expected {scalar}, got {region.dtype}",
            hint="without dtype it has the type that it comes with",
        )
    return HostArray(where, Array(element, rank), region, is_writable, jax_value)


def _seen_as(region: Region, dtype: np.dtype) -> Region:
    """The same memory as integers with or without a sign, where it holds integers of that size, or bools."""
    is_other = region.dtype != dtype and region.dtype.itemsize == dtype.itemsize
    if is_other and region.dtype.kind in "iub" and dtype.kind in "iu":
        return Region(region.address, dtype, region.shape, region.strides, region.owner)
    return region


@located_call
def to_jax(warp_array: Any) -> Any:
    """Convert an array outside of JAX to a JAX array, whose last axes are the components. An array of structs becomes a
    struct of JAX arrays.

    The result is a copy, because JAX arrays never change. An array that came from JAX gives that JAX array.

    Raises:
        KernelTypeError: it is no array outside of JAX, or of a 64-bit type and those are not enabled in JAX.
    """
    if not isinstance(warp_array, HostArray):
        raise KernelTypeError(
            f"to_jax: expected an array outside of JAX, got {type_text(warp_array)}",
            hint="for lists and NumPy arrays use jnp.asarray(data)",
        )
    warp_array.scope.require_untraced(warp_array.label, "made a JAX array")
    return warp_array.to_jax()


@located_call
def to_dlpack(wp_array: Any) -> Any:
    """A DLPack capsule with the memory of an array outside of JAX, which then is shared with whoever takes it.

    Raises:
        KernelTypeError: it is no array outside of JAX.
        BufferError: it can only be read, which capsules cannot say.
    """
    if not isinstance(wp_array, HostArray):
        raise KernelTypeError(
            f"to_dlpack: expected an array outside of JAX, got {type_text(wp_array)}",
            hint="for other arrays use their own __dlpack__",
        )
    return wp_array.__dlpack__()
