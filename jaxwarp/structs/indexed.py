"""The types of indexed arrays: structs of an array and an array of indices, or None, for each of its axes.

On the host and in calls they are structs like others; in kernels they are arrays, see `Indexed`.
"""

from __future__ import annotations

import functools
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.structs.declare import register
from jaxwarp.structs.instances import METHODS, is_open
from jaxwarp.types import STRUCT, Array, Indexed, Struct, StructField, as_dtype, int32

MOST_AXES = 4


def indexed_type(base: type, dtype: object, ndim: Any) -> Indexed:
    """The type of indexed arrays of an element type and a number of axes.

    Args:
        base: the class whose methods its instances have.

    Raises:
        KernelTypeError, KernelValueError: there are none.
    """
    element = as_dtype(dtype)
    if is_open(element) and element is not Any:
        raise KernelTypeError(
            f"indexedarray: {dtype!r} is generic in part; an indexed array has one type, or Any",
            hint="write indexedarray(dtype=float), or indexedarray(dtype=Any)",
        )
    if not isinstance(ndim, int) or isinstance(ndim, bool) or not 1 <= ndim <= MOST_AXES:
        raise KernelValueError(
            f"indexedarray: ndim: expected a number from 1 to {MOST_AXES}, got {ndim!r}",
            hint="write indexedarray(dtype=float, ndim=2)",
        )
    return _made(base, element, ndim)


@functools.cache
def _made(base: type, element: object, ndim: int) -> Indexed:
    indices = tuple(StructField(f"indices{axis}", Array(int32, 1)) for axis in range(ndim))
    fields = (StructField("data", Array(element, ndim)), *indices)
    name = f"indexedarray[{element!r}, {ndim}]"
    own = {n: m for n, m in METHODS.items() if n not in vars(base)}
    kind = type(name, (base,), {**own, "__module__": base.__module__})
    found = Indexed(kind, fields, Array(element, ndim))
    setattr(kind, STRUCT, found)
    register(kind, fields)
    return found


def indexed_of(value: object) -> Indexed | None:
    """The type of an indexed array; None for anything else."""
    found: Struct | None = vars(type(value)).get(STRUCT)
    return found if isinstance(found, Indexed) else None
