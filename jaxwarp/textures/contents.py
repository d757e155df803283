"""The contents of textures: texels of all mip levels, one level after the other, and the places of the levels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.conversions import require_unmasked
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.launches.arguments.dims import require_known
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.types import Vec, element_scalar

TYPES = ("uint8", "uint16", "uint32", "int8", "int16", "int32", "float16", "float32")
_AXES = ("width", "height", "depth")
_MOST_LEVELS = 16
_MOST_TEXELS = (1 << 31) - 1


def is_integer32(dtype: Any) -> bool:
    return np.dtype(dtype) in (np.int32, np.uint32)


class Image(NamedTuple):
    """The properties of an image: its sizes, (width, height, depth)[:ndim], its number of channels, and their type."""

    sizes: tuple[int, ...]
    channels: int
    type_name: str


def image_of(where: str, data: Any, ndim: int) -> Image:
    """Return the properties of an array as an image.

    Raises:
        KernelTypeError, KernelValueError: it is no image of this many axes.
    """
    if not isinstance(data, np.ndarray | jax.Array | LiveArray):
        raise KernelTypeError(
            f"{where}: data: expected an array, got {type_text(data)}",
            hint="pass an array of NumPy, JAX or jaxwarp",
        )
    if isinstance(data, np.ndarray):
        require_unmasked(data)
    dtype: Any = data.dtype
    is_of_vectors = isinstance(data, LiveArray) and isinstance(dtype, Vec)
    name = element_scalar(dtype).name if isinstance(data, LiveArray) else np.dtype(dtype).name
    _require_type(where, "data", name, "data.astype('float32')")
    shape = (*data.shape, dtype.length) if is_of_vectors else tuple(data.shape)
    if len(shape) not in ((ndim + 1,) if is_of_vectors else (ndim, ndim + 1)):
        expected = ", ".join(reversed(_AXES[:ndim]))
        raise KernelValueError(
            f"{where}: data: expected the shape ({expected}) or ({expected}, channels), got {shape}",
            hint=f"a texture of {ndim} axes has data of {ndim}, and one more for channels",
        )
    require_known(shape, f"{where}: data")
    sizes, channels = shape[ndim - 1 :: -1], shape[ndim] if len(shape) > ndim else 1
    require_sizes(where, sizes, channels)
    return Image(sizes, channels, name)


def texels_of(data: Any, image: Image) -> Any:
    """The texels of an image, (n, c), that nobody else writes to."""
    return _owned(data).reshape(math.prod(image.sizes), image.channels)


def decoded(texels: Any) -> Any:
    """The texels as the numbers that samples are made of, float32: as they are, or a copy."""
    dtype = texels.region.dtype if isinstance(texels, HostArray) else texels.dtype
    if dtype == np.float32:
        return texels
    values = np.asarray(texels.numpy() if isinstance(texels, HostArray) else texels)
    largest = _LARGEST.get(dtype.name)
    numbers = values.astype(np.float32)
    if largest is None:
        return numbers
    return np.maximum(numbers / np.float32(largest), np.float32(-1.0))


_LARGEST = {"uint8": 255, "uint16": 65535, "int8": 127, "int16": 32767}


def numbers_of(array: HostArray) -> HostArray:
    """An array, whose vectors are another axis."""
    return array.view(element_scalar(array.dtype)) if isinstance(array.dtype, Vec) else array


def name_of(dtype: Any) -> str:
    """The name of a type of the kernel language, of NumPy, or of Python."""
    if dtype is None:
        return "None"
    if dtype in (float, int):
        return "float32" if dtype is float else "int32"
    try:
        return getattr(dtype, "name", None) or np.dtype(dtype).name
    except TypeError:
        return str(dtype)


def _require_type(where: str, what: str, name: str, hint: str) -> None:
    if name not in TYPES:
        raise KernelTypeError(f"{where}: {what}: expected one of the types {', '.join(TYPES)}, got {name}", hint=hint)


def require_sizes(where: str, sizes: Sequence[int], channels: int) -> None:
    """Raises:
    KernelValueError: a texture cannot have these.
    """
    for name, size in zip(_AXES, sizes, strict=False):
        if size <= 0:
            raise KernelValueError(f"{where}: {name}: expected a positive number, got {size}", hint=f"pass {name}=1")
    if channels not in (1, 2, 4):
        raise KernelValueError(
            f"{where}: num_channels: expected 1, 2, or 4, got {channels}", hint="add channels of zeros to the data"
        )
    if math.prod(sizes) * channels > _MOST_TEXELS:
        raise KernelValueError(f"{where}: expected fewer than 2^31 numbers, got {math.prod(sizes) * channels}")


def _owned(data: Any) -> Any:
    """A copy that a later write to `data` does not change; of an array with a gradient, one on its tape."""
    if isinstance(data, jax.Array):
        return data
    if isinstance(data, HostArray) and data.requires_grad:
        copied: Any = wp.clone(data)
        return numbers_of(copied)
    return np.array(data.numpy() if isinstance(data, LiveArray) else data, order="C")


def zeros(where: str, sizes: Sequence[int], channels: int, dtype: Any) -> np.ndarray:
    """Texels of a texture that is yet to be filled."""
    name = name_of(dtype)
    _require_type(where, "dtype", name, "pass data, or sizes, num_channels and dtype=wp.float32")
    require_sizes(where, sizes, channels)
    return np.zeros((math.prod(sizes), channels), name)


# Mip levels


def level_sizes(where: str, sizes: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """The sizes of each level: halves of those before, rounded down. A count of 0 is as many as there are.

    Raises:
        KernelValueError: there are fewer.
    """
    most = max(sizes).bit_length()
    if not 0 <= count <= min(most, _MOST_LEVELS):
        raise KernelValueError(
            f"{where}: num_mip_levels: expected 0 to {min(most, _MOST_LEVELS)}, got {count}",
            hint="0 is all levels down to a single texel",
        )
    found = [tuple(sizes)]
    while len(found) < (count or min(most, _MOST_LEVELS)):
        found.append(tuple(max(1, size // 2) for size in found[-1]))
    return found


def with_levels(where: str, texels: Any, sizes: Sequence[tuple[int, ...]]) -> tuple[Any, np.ndarray]:
    """The texels of all levels, each averaged from the one before, and a row of (width, height, depth, start) for each.

    Raises:
        KernelTypeError: they cannot be averaged where they are.
    """
    if isinstance(texels, LiveArray):
        raise KernelTypeError(
            f"{where}: data: mip levels of an array that requires a gradient are not on its tape",
            hint="make the texture in JAX, or of array.numpy()",
        )
    own = jnp if isinstance(texels, jax.Array) else np
    if own is jnp and is_integer32(texels.dtype):
        raise KernelTypeError(
            f"{where}: mip levels of {texels.dtype} are not made in JAX, which has no float64 to average them in",
            hint="make the texture of an array of NumPy",
        )
    levels, rows, start = [texels], [], 0
    for before, after in itertools.pairwise(sizes):
        levels.append(_halved(own, levels[-1], before, after))
    for level in sizes:
        rows.append((*level, *(1,) * (3 - len(level)), start))
        start += math.prod(level)
    return own.concatenate(levels), np.array(rows, np.int32)


def _halved(own: Any, texels: Any, before: tuple[int, ...], after: tuple[int, ...]) -> Any:
    """Averages of pairs along each axis; the last one of an odd number is left out.

    In float64 outside of JAX, in float32 in JAX. Halved before they are added, so that the sum is finite.
    """
    dtype = texels.dtype
    grid = texels.reshape(*reversed(before), texels.shape[-1]).astype(np.float64 if own is np else np.float32)
    for axis, (old, new) in enumerate(zip(reversed(before), reversed(after), strict=True)):
        if old != new:
            even = own.take(grid, 2 * np.arange(new), axis=axis)
            odd = own.take(grid, 2 * np.arange(new) + 1, axis=axis)
            grid = even * 0.5 + odd * 0.5
    if np.issubdtype(dtype, np.integer):
        grid = own.rint(grid)
    return grid.astype(dtype).reshape(-1, texels.shape[-1])
