"""Arrays in memory that a scope owns: those of a running call, and the base of arrays outside of JAX."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.convert import as_element, as_values, taken_apart, zero_element
from jaxwarp.memory.dlpack import make_capsule
from jaxwarp.memory.indexing import require_index
from jaxwarp.memory.region import Region, dense_region, dense_strides
from jaxwarp.memory.scope import Scope
from jaxwarp.quaternions import HostValue
from jaxwarp.structs.records import dtype_text, memory_axes
from jaxwarp.types import Array, Element, Scalar, as_dtype, element_scalar, element_shape


def without_ones(shape: Sequence[int]) -> tuple[int, ...]:
    """The extents of a shape that are not 1."""
    return tuple(n for n in shape if n != 1)


@boundaries
class MemoryArray:
    """An array of a call, valid until the call ends. What is written to it is there at once.

    On the CPU `np.asarray(array)` and `array.numpy()` are views of it, read-only where the array is. On CUDA
    `array.numpy()` is a read-only copy, and `__cuda_array_interface__` is for array libraries of CUDA. DLPack is on
    both.
    """

    _CALLED: ClassVar[str] = "array"
    _HINTS: ClassVar[dict[str, str]] = {
        "shape": "a = a.reshape((3, 4)) is the same memory in another shape",
        "ndim": "a = a.reshape(...) is the same memory with other axes",
        "strides": "wp.array(ptr=a.ptr, shape=..., strides=..., dtype=...) is the same memory with other strides",
        "dtype": "a.view(dtype) is the same memory with another type, wp.array(a.numpy(), dtype=...) a converted copy",
        "size": "make another one, of another shape",
        "device": "a.to(device) is on another device",
        "ptr": "wp.array(ptr=..., shape=..., dtype=...) is other memory",
        "is_contiguous": "a.contiguous() has its elements side by side",
    }

    def __init__(self, scope: Scope, name: str, region: Region, is_writable: bool):
        self.scope, self.name, self.is_writable = scope, name, is_writable
        self._region = region

    @property
    def label(self) -> str:
        """The array's name in messages."""
        return self.name

    @property
    def region(self) -> Region:
        """The array's memory. Access raises an error once the call is over."""
        self.scope.require_open(self.label)
        return self._region

    def require_scope(self, scope: Scope) -> None:
        """Memory of another call may end at any time."""
        self.scope.require_open(self.label)
        if self.scope is not scope:
            raise KernelTypeError(f"{self.label} belongs to another call", hint="pass np.array(...), which is a copy")

    @property
    def components(self) -> tuple[int, ...]:
        """The axes of an element, which `shape` does not have."""
        return ()

    @property
    def dtype(self) -> Any:
        return self.region.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of its axes. Components of vectors and matrices are no axes."""
        region = self.region
        return region.shape[: len(region.shape) - len(self.components)]

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of its elements. A vector is one element."""
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in bytes."""
        return self.region.strides[: self.ndim]

    @property
    def is_contiguous(self) -> bool:
        """True if its elements lie side by side in memory, in the order of their indices."""
        return self.region.is_dense

    @property
    def ptr(self) -> int | None:
        """The address."""
        return self.region.address

    @property
    def device(self) -> str:
        """ "cpu", or "cuda:0" and so on."""
        return "cpu" if self.scope.platform == "cpu" else f"cuda:{self.scope.device_ordinal}"

    @property
    def platform(self) -> str:
        return self.scope.platform

    def __repr__(self) -> str:
        region = self._region
        return f"<{self.label}: {region.dtype} of shape {region.shape} on {self.scope.platform}>"

    def __len__(self) -> int:
        if not self.shape:
            raise KernelTypeError(f"{self.label} has no axes and no length", hint="it is one element: array.numpy()")
        return self.shape[0]

    def _part(self, region: Region) -> MemoryArray:
        return MemoryArray(self.scope, self.name, region, self.is_writable)

    def __getitem__(self, index: Any) -> MemoryArray:
        """A part of the array, by integers and slices of its leading axes. Writing to it writes to the array."""
        return self._part(self.region.part(require_index(self.label, self.shape, index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        part = self[index]
        (part.fill_ if self._is_number(value) else part._assign)(value)

    def _is_number(self, value: Any) -> bool:
        """Return whether `value` is a number that every element can be set to. A float is not, if the elements would
        drop its fraction."""
        kind = self.region.dtype.kind
        whole = bool | np.bool if kind == "b" else int | np.integer | np.bool
        return not self.components and isinstance(value, whole if kind in "biu" else whole | float | np.floating)

    def __iter__(self) -> Iterator[MemoryArray]:
        return (self[i] for i in range(len(self)))

    def require_writable(self, what: str) -> None:
        """Inputs are values of the caller's."""
        self.scope.require_open(self.label)
        self.scope.require_untraced(self.label, what, self._region)
        if not self.is_writable:
            raise KernelTypeError(f"{self.label} is an input and cannot be {what}", hint=self._hint())

    def _hint(self) -> str:
        return "write to an output, or to a copy"

    def assign(self, src: Any) -> MemoryArray:
        """Gives the array the contents of another one, or of an array of the host, of the same shape and dtype.

        An array of the host may have other axes of extent 1. Its last axis may have the numbers of whole elements.
        """
        return self._assign(src)

    def _assign(self, src: Any) -> MemoryArray:
        self.require_writable("written")
        target, given = self.region, self._source(src)
        if isinstance(given, np.ndarray) and without_ones(given.shape) == without_ones(target.shape):
            given = given.reshape(target.shape)
        if given.shape != target.shape or given.dtype != target.dtype:
            raise KernelTypeError(
                f"{self.label}: expected {dtype_text(target.dtype)} of shape {target.shape}, got"
                f" {dtype_text(given.dtype)} of shape {given.shape}",
                hint="convert the source, or assign to a part: array[:n].assign(src)",
            )
        if isinstance(given, Region):
            self.scope.copy(target, given)
        else:
            self.scope.write(target, given)
        return self

    def _source(self, source: object) -> Region | np.ndarray:
        if isinstance(source, MemoryArray):
            source.require_scope(self.scope)
            return source.region
        found = self.scope.find(source) if self.scope.platform != "cpu" else None
        if found is not None:
            return found[0]
        return taken_apart(as_values(source, self.region.dtype, self.label), self.components)

    def fill_(self, value: Any) -> MemoryArray:
        """Sets every element to a scalar, or to a vector or matrix of the element type's shape."""
        return self._fill(self._element(value))

    def _fill(self, element: np.ndarray) -> MemoryArray:
        self.require_writable("written")
        self.scope.fill(self.region, element)
        return self

    def _element(self, value: object) -> np.ndarray:
        return as_element(value, self.region.dtype, self.components, self.label)

    def zero_(self) -> MemoryArray:
        """Sets every element to zero."""
        return self._fill(zero_element(self.region.dtype, self.components))

    def numpy(self) -> np.ndarray:
        """Return the contents as a NumPy array: a view on the CPU, a read-only copy from a GPU."""
        return self.scope.numpy(self.label, self.region, self.is_writable)

    def list(self) -> list[Any]:
        """The elements in order: numbers of Python, or values of the element's type as kernels have them."""
        elements = self.numpy().reshape(-1, *self.components)
        return [HostValue.of(self.dtype, e) for e in elements] if self.components else elements.tolist()

    def item(self) -> Any:
        """The only element, as `list` has it."""
        if self.size != 1:
            raise KernelTypeError(
                f"{self.label} has {self.size} elements, and is no single value",
                hint="take one of them: array[0].item(), or all: array.numpy()",
            )
        return self.list()[0]

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype, copy=copy)

    def _require_name(self, interface: str, instead: str) -> None:
        """NumPy's interfaces have no names for bfloat16 and its like; NumPy itself then asks `__array__`."""
        if self._region.dtype.isbuiltin != 1:
            raise AttributeError(f"{self.label}: {interface} has no name for {self._region.dtype}; use {instead}")

    @property
    def __array_interface__(self) -> dict[str, Any]:
        self.scope.require_open(self.label)
        if self.scope.platform != "cpu":
            raise AttributeError(f"{self.label} is in the memory of a GPU, and has no __array_interface__")
        self._require_name("__array_interface__", "np.asarray(array)")
        self.scope.require_settled(self.label)
        region = self._region
        # Not an address but the bytes themselves: who reads them then holds them, which is found out at the end.
        memory = memoryview(self.scope.lease(self.label, region))
        if not region.size:
            memory = memoryview(b"")
        return {
            "shape": region.shape,
            "typestr": region.dtype.str,
            "data": memory if self.is_writable else memory.toreadonly(),
            "offset": region.address - region.span[0],
            "strides": region.strides,
            "version": 3,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        region = self.region
        if self.scope.platform == "cpu":
            raise AttributeError(f"{self.label} is in the memory of the host, and has no __cuda_array_interface__")
        self._require_name("__cuda_array_interface__", "DLPack")
        return {
            "shape": region.shape,
            "typestr": region.dtype.str,
            "data": (region.address, not self.is_writable),
            "strides": None if region.is_dense else region.strides,
            "version": 3,
            # The interface has no 0: it calls the default stream 1.
            "stream": self.scope.settled_on(region) or 1,
        }

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return make_capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        self.scope.require_open(self.label)
        return (1, 0) if self.scope.platform == "cpu" else (2, self.scope.device_ordinal)


@boundaries
class LiveArray(MemoryArray):
    """An array of a function under `jax_callable` with `GraphMode.NONE`: as `ArrayHandle`, but with numbers in it."""

    _COPIED: ClassVar[str] = "a clone(...)"

    def __init__(self, scope: Scope, name: str, type_: Array, region: Region, is_writable: bool):
        super().__init__(scope, name, region, is_writable)
        self.type = type_

    @property
    def label(self) -> str:
        return f"array '{self.name}'"

    @property
    def token(self) -> Any:
        """A token of everything about the array that affects a launch in its call, except its address. None if it is
        not dense."""
        region = self._region
        return (LiveArray, self.type.dtype, region.dtype, region.shape, self.is_writable) if region.is_plain else None

    @property
    def components(self) -> tuple[int, ...]:
        return memory_axes(self.type.dtype)

    @property
    def dtype(self) -> Element:
        """The element type: a scalar, vector or matrix type."""
        return self.type.dtype

    def _part(self, region: Region) -> LiveArray:
        ndim = len(region.shape) - len(self.components)
        return LiveArray(self.scope, self.name, Array(self.type.dtype, ndim), region, self.is_writable)

    def _hint(self) -> str:
        return f"name it in in_out_argnames=['{self.name}'], or write to a clone"

    @property
    def value(self) -> Any:
        """Refused: JAX is waiting for the function, and cannot compute for it."""
        raise KernelTypeError(
            f"{self.label} has no JAX value while its function runs on real memory",
            hint="use .numpy() here, or GraphMode.JAX for functions of jnp",
        )

    # Other shapes of the same memory.

    def _as(self, element: Any, region: Region) -> Any:
        type_ = Array(element, len(region.shape) - len(memory_axes(element)))
        return LiveArray(self.scope, self.name, type_, region, self.is_writable)

    def _dense(self, what: str) -> Region:
        if not self.is_contiguous:
            raise KernelValueError(
                f"{self.label} has gaps between its elements, and cannot be {what}", hint=f"take {self._COPIED}"
            )
        return self.region

    def reshape(self, *extents: Any, shape: Any = None) -> Self:
        """The same memory in another shape, `(2, 3)`, `shape=(2, 3)` or `2, 3`; one extent may be -1. The array must be
        contiguous."""
        return self._reshaped(extents, shape)

    def _reshaped(self, extents: tuple[Any, ...], shape: Any) -> Self:
        if extents and shape is not None:
            raise KernelTypeError(f"{self.label}: reshape: shape is given twice", hint="write reshape((2, 3))")
        listed = (shape,) if shape is not None else extents
        given = listed[0] if len(listed) == 1 and isinstance(listed[0], (tuple, list)) else listed
        region = self._dense("reshaped")
        found = _extents(given, self.size)
        if found is None:
            sizes = f" (size {math.prod(given)})" if all(isinstance(n, int) for n in given) else ""
            raise KernelValueError(
                f"cannot reshape array of shape {self.shape} (size {self.size}) into shape {tuple(given)}{sizes}",
                hint="the number of elements must stay",
            )
        shape = (*found, *self.components)
        return self._as(self.type.dtype, dense_region(region.address, region.dtype, shape, region.owner))

    def flatten(self) -> Self:
        """The same memory with one axis. The array must be contiguous."""
        return self if self.ndim == 1 else self.reshape(self.size)

    def transpose(self, axes: Any = None) -> Self:
        """The same memory with its axes in another order; None: reversed."""
        return self._transposed(axes)

    def _transposed(self, axes: Any) -> Self:
        order = list(range(self.ndim))[::-1] if axes is None else list(axes) if np.iterable(axes) else [axes]
        if not all(isinstance(a, (int, np.integer)) for a in order) or sorted(order) != list(range(self.ndim)):
            raise KernelValueError(
                f"{self.label}: transpose: expected an order of {self.ndim} axes, got {axes}",
                hint=f"write transpose({tuple(reversed(range(self.ndim)))})",
            )
        region, rest = self.region, range(self.ndim, len(self.region.shape))
        shape = tuple(region.shape[a] for a in (*order, *rest))
        strides = tuple(region.strides[a] for a in (*order, *rest))
        return self._as(self.type.dtype, Region(region.address, region.dtype, shape, strides, region.owner))

    def view(self, dtype: Any) -> Self:
        """The same memory with another element type: one of the same size, or scalars of the same size as components of
        the last axes, or no components."""
        return self._viewed(dtype)

    def _viewed(self, dtype: Any) -> Self:
        element, region = as_dtype(dtype), self.region
        scalar, components = element_scalar(element), element_shape(element)
        rank = len(region.shape) - len(components)
        is_known = isinstance(scalar, Scalar)
        is_same = is_known and self._is_element_of(math.prod(components) * scalar.bytes)
        is_scalar = is_known and region.dtype.itemsize == scalar.bytes
        has_axes = is_scalar and rank >= 0 and region.shape[rank:] == components
        if is_same and (self.components or not components or not has_axes):  # axes of numbers may be components
            shape = (*self.shape, *components)
            strides = (*self.strides, *dense_strides(components, scalar.bytes))
        elif has_axes:
            shape, strides = region.shape, region.strides
        else:
            raise KernelTypeError(
                f"{self.label}: its memory, of shape {region.shape}, is none of {element!r}",
                hint="view as a type of the same size, or as one whose components are the last axes",
            )
        return self._as(element, Region(region.address, scalar.numpy, shape, strides, region.owner))

    def _is_element_of(self, size: int) -> bool:
        """Return whether an element takes `size` bytes, without gaps."""
        inner = self.region.strides[self.ndim :]
        dense = dense_strides(self.components, self.region.dtype.itemsize)
        return math.prod(self.components) * self.region.dtype.itemsize == size and inner == dense


def _extents(given: Sequence[Any], size: int) -> tuple[int, ...] | None:
    """A shape of so many elements, in which one extent may be -1; None: it is none."""
    if not all(hasattr(n, "__index__") and np.ndim(n) == 0 for n in given):
        return None
    extents = [operator.index(n) for n in given]
    if extents.count(-1) == 1:
        others = -math.prod(extents)
        extents[extents.index(-1)] = size // others if others > 0 and size % others == 0 else -2
    return tuple(extents) if min(extents, default=0) >= 0 and math.prod(extents) == size else None
