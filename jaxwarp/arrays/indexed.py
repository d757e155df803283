"""Indexed arrays: parts of arrays by arrays of indices, one for each axis, or None. See docs/design/0023."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from jaxwarp.arrays.from_data import array_of
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launch import launch
from jaxwarp.arrays.struct_array import new_array
from jaxwarp.boundary import boundaries
from jaxwarp.decorators import func, kernel
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS
from jaxwarp.frontend.text.annotations import array, array4d
from jaxwarp.kernel import Kernel
from jaxwarp.memory.devices import Device
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.region import Region
from jaxwarp.structs.indexed import MOST_AXES, indexed_of, indexed_type
from jaxwarp.structs.records import memory_axes
from jaxwarp.types import SCALAR_BY_DTYPE, Array, Indexed, as_dtype, int32

_tid = INTRINSICS["tid"]


@boundaries
class IndexedArray:
    """A part of an array: element `i, j` is that at `indices[0][i], indices[1][j]`; an axis without indices is whole.

    It is a struct of the array and the indices, so a pytree of JAX. Outside of JAX writing to it writes to the array.
    """

    data: Any

    @property
    def _type(self) -> Indexed:
        found = indexed_of(self)
        assert found is not None
        return found

    @property
    def indices(self) -> list[Any]:
        """The array of indices of each axis; None for an axis without indices."""
        return [getattr(self, f"indices{axis}") for axis in range(self.ndim)]

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self._type.array.dtype

    @property
    def ndim(self) -> int:
        return self._type.array.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        whole = zip(self.indices, self.data.shape, strict=False)
        return tuple(extent if index is None else index.shape[0] for index, extent in whole)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def device(self) -> Device:
        """The device of the array, outside of JAX."""
        return self.data.device

    @property
    def is_contiguous(self) -> bool:
        return False

    @property
    def pinned(self) -> bool:
        """False: no memory is pinned."""
        return False

    @property
    def requires_grad(self) -> bool:
        """True if the underlying array has a gradient."""
        return self.data.requires_grad

    @property
    def grad(self) -> Any:
        """The same part of the gradient of its array."""
        return None if self.data.grad is None else _indexed(self._type, self.data.grad, self.indices)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"indexedarray(shape={self.shape}, dtype={self.dtype})"

    def __str__(self) -> str:
        return str(self.numpy())

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.dtype, self.ndim, self.data, self.indices)  # its class has no name

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        return np.asarray(self.numpy(), dtype)

    def numpy(self) -> np.ndarray:
        """Its elements as a new array of NumPy."""
        self._require_inside()
        found = np.asarray(self.data)
        for axis, index in enumerate(self.indices):
            found = found if index is None else np.take(found, np.asarray(index), axis)
        return np.array(found)

    def list(self) -> list[Any]:
        """The elements as Python values, in order."""
        return array_of(self.numpy(), self.dtype).list()

    @property
    def _place(self) -> Any:
        """The memory that the array is in."""
        return self.data.scope if isinstance(self.data, HostArray) else HOST

    def contiguous(self) -> HostArray:
        """A new array with its elements. A tape records it."""
        self._require_inside()
        made = new_array("contiguous", self.dtype, self.shape, self._place)
        made.begin(self.requires_grad)
        self._move(_copies()[0], made)
        return made

    def assign(self, src: Any) -> IndexedArray:
        """Gives it the contents of another array of its shape. An element that is there twice keeps either."""
        given = src.contiguous() if isinstance(src, IndexedArray) else src
        given = given if isinstance(given, HostArray) else array_of(given, self.dtype)
        if given.scope is not self._place:
            given = given.new_like(self._place).assign(given)
        if given.dtype != self.dtype or given.shape != self.shape:
            raise KernelTypeError(
                f"{self!r}: expected an array of {self.dtype} of shape {self.shape}, got {given.dtype} of shape"
                f" {given.shape}",
                hint="pass an array of its shape, or a value to fill_(value)",
            )
        self._move(_copies()[1], given)
        return self

    def fill_(self, value: Any) -> IndexedArray:
        """Sets every element to a value."""
        return self.assign(new_array("fill_", self.dtype, self.shape, self._place).fill_(value))

    def zero_(self) -> IndexedArray:
        """Sets every element to zero."""
        return self.assign(new_array("zero_", self.dtype, self.shape, self._place))

    def to(self, device: Any, requires_grad: bool | None = None) -> IndexedArray:
        """The indexed array on a device: itself, if it is there."""
        data = self.data.to(device, requires_grad)
        moved = [index if index is None else index.to(device) for index in self.indices]
        is_here = all(a is b for a, b in zip([data, *moved], [self.data, *self.indices], strict=True))
        return self if is_here else indexedarray(data, moved)

    def _require_inside(self) -> None:
        if not isinstance(self.data, HostArray) and not isinstance(self.data, np.ndarray):
            raise KernelTypeError(f"{self!r} is one of JAX's arrays", hint="index them in JAX: data[indices]")
        for axis, index in enumerate(self.indices):
            found = np.zeros(0, np.int32) if index is None else np.asarray(index)
            if found.size and not (found.min() >= 0 and found.max() < self.data.shape[axis]):
                raise KernelValueError(
                    f"{self!r}: indices[{axis}] reaches from {found.min()} to {found.max()}, and the axis has"
                    f" {self.data.shape[axis]} elements",
                    hint=f"indices go from 0 to {self.data.shape[axis] - 1}",
                )

    def _move(self, run: Kernel, other: HostArray) -> None:
        """Runs a kernel on elements of the array and those of another one, which are numbers."""
        self._require_inside()
        missing = MOST_AXES - self.ndim
        for part, whole in zip(other.leaves, self.data.leaves, strict=True):
            padded = (_with_axes(a, MOST_AXES - a.ndim) for a in (whole, part))
            launch(run, (1,) * missing + self.shape, [*padded, *[None] * missing, *self.indices])


def _with_axes(given: HostArray, count: int) -> HostArray:
    """The array with so many axes of one element in front."""
    r = given.region
    made = given._as(given.dtype, Region(r.address, r.dtype, (1,) * count + r.shape, (0,) * count + r.strides, r.owner))
    made._grad = None if given._grad is None else _with_axes(given._grad, count)
    return made


@functools.cache
def _copies() -> tuple[Kernel, Kernel]:
    """Return two kernels: one copies the elements at indices to an array, the other copies them back. The kernels are
    made when they are first needed."""

    @func
    def at(indices: array[int], i: int):  # pyright: ignore[reportInvalidTypeForm]
        found = i
        if indices:
            found = indices[i]
        return found

    @kernel
    def gather(
        data: array4d[Any],  # pyright: ignore[reportInvalidTypeForm]
        out: array4d[Any],  # pyright: ignore[reportInvalidTypeForm]
        a: array[int],  # pyright: ignore[reportInvalidTypeForm]
        b: array[int],  # pyright: ignore[reportInvalidTypeForm]
        c: array[int],  # pyright: ignore[reportInvalidTypeForm]
        d: array[int],  # pyright: ignore[reportInvalidTypeForm]
    ):
        i, j, k, m = _tid()
        out[i, j, k, m] = data[at(a, i), at(b, j), at(c, k), at(d, m)]

    @kernel
    def scatter(
        data: array4d[Any],  # pyright: ignore[reportInvalidTypeForm]
        given: array4d[Any],  # pyright: ignore[reportInvalidTypeForm]
        a: array[int],  # pyright: ignore[reportInvalidTypeForm]
        b: array[int],  # pyright: ignore[reportInvalidTypeForm]
        c: array[int],  # pyright: ignore[reportInvalidTypeForm]
        d: array[int],  # pyright: ignore[reportInvalidTypeForm]
    ):
        i, j, k, m = _tid()
        data[at(a, i), at(b, j), at(c, k), at(d, m)] = given[i, j, k, m]

    return gather, scatter


# Making them.


@boundaries
class IndexedAnnotation:
    """`indexedarray`, `indexedarray1d` to `indexedarray4d`: `indexedarray(a, [indices, None])` is a part of an array,
    `indexedarray[float]` and `indexedarray(dtype=float, ndim=2)` are annotations of arguments that take one."""

    is_type_of_arrays: ClassVar[bool] = True
    """For `types.type_is_array`."""

    def __init__(self, name: str, ndim: int | None):
        self._name, self._ndim = name, ndim

    def __getitem__(self, dtype: Any) -> Indexed:
        given = array[dtype] if self._ndim is None else Array(as_dtype(dtype), self._ndim)
        return indexed_type(IndexedArray, given.dtype, given.ndim)

    def __call__(self, data: Any = None, indices: Any = None, dtype: Any = None, ndim: int | None = None) -> Any:
        """An indexed array, or, without data, an annotation.

        Args:
            data: an array outside of JAX, or one of NumPy or JAX.
            indices: an array of int32 with one axis for each axis of `data`, or None; or the one of the first axis.
            dtype: the element type; None: that of `data`.
            ndim: the number of axes; None: that of `data`.

        Raises:
            KernelTypeError, KernelValueError: the indices are no such arrays, or `data` has another type.
        """
        ndim = self._ndim if ndim is None else ndim
        if data is None:
            if dtype is None:
                raise KernelTypeError(f"{self._name}(...): expected data, or dtype=", hint=f"{self._name}(dtype=float)")
            return indexed_type(IndexedArray, dtype, ndim or 1)
        found = _type_of(self._name, data, dtype)
        if ndim is not None and found.array.ndim != ndim:
            raise KernelValueError(
                f"{self._name}(...): expected data with {ndim} axes, got {found.array.ndim}",
                hint="leave ndim out, or reshape the data",
            )
        return _indexed(found, data, _indices(self._name, found.array.ndim, indices))

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, IndexedArray) and self._ndim in (None, instance.ndim)

    def __repr__(self) -> str:
        return self._name


indexedarray = IndexedAnnotation("indexedarray", None)
indexedarray1d, indexedarray2d, indexedarray3d, indexedarray4d = (
    IndexedAnnotation(f"indexedarray{n}d", n) for n in (1, 2, 3, 4)
)


def _type_of(name: str, data: Any, dtype: Any) -> Indexed:
    if isinstance(data, HostArray):
        if dtype is not None and indexed_type(IndexedArray, dtype, 1).array.dtype != data.dtype:
            raise KernelTypeError(
                f"{name}(...): dtype: the data are of {data.dtype}, got {dtype!r}", hint="leave dtype out"
            )
        return indexed_type(IndexedArray, data.dtype, data.ndim)
    shape: Any = getattr(data, "shape", None)
    given: Any = getattr(data, "dtype", None)
    if not isinstance(shape, tuple) or given not in SCALAR_BY_DTYPE:
        raise KernelTypeError(
            f"{name}(...): data: expected an array, got {type_text(data)}", hint="make one with array(data)"
        )
    found = indexed_type(IndexedArray, SCALAR_BY_DTYPE[given] if dtype is None else dtype, 1)
    return indexed_type(IndexedArray, found.array.dtype, len(shape) - len(memory_axes(found.array.dtype)))


def _indices(name: str, ndim: int, indices: Any) -> list[Any]:
    several = list(indices) if isinstance(indices, (list, tuple)) else [indices]
    if len(several) > ndim:
        raise KernelValueError(
            f"{name}(...): indices: expected at most {ndim}, one for each axis, got {len(several)}",
            hint="write [indices, None]",
        )
    for axis, index in enumerate(several):
        shape, dtype = getattr(index, "shape", None), getattr(index, "dtype", None)
        if index is not None and not (shape is not None and len(shape) == 1 and dtype in (int32, int32.numpy)):
            given = type(index).__name__ if shape is None else f"one of {dtype} of shape {shape}"
            raise KernelTypeError(
                f"{name}(...): indices[{axis}]: expected an array of int32 with 1 axis, got {given}",
                hint="write array([0, 2], dtype=int), or None for the whole axis",
            )
    return [*several, *[None] * (ndim - len(several))]


def _indexed(type_: Indexed, data: Any, indices: Sequence[Any]) -> Any:
    made = object.__new__(type_.kind)
    made.__dict__.update(data=data, **{f"indices{axis}": index for axis, index in enumerate(indices)})
    return made


def _unpickled(dtype: Any, ndim: int, data: Any, indices: Sequence[Any]) -> Any:
    return _indexed(indexed_type(IndexedArray, dtype, ndim), data, indices)


def _part_at(given: HostArray, index: tuple[Any, ...]) -> Any:
    """`a[indices, 1:3]`: integers and slices are taken first, indices are of the axes that are left."""
    plain = tuple(slice(None) if isinstance(i, HostArray) else i for i in index)
    left = [i if isinstance(i, HostArray) else None for i in index if isinstance(i, (HostArray, slice))]
    return indexedarray(given[plain], left)


HostArray.indexed = staticmethod(_part_at)
