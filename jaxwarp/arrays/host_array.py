"""Arrays outside of JAX: memory of the process, which launches write to in place. See docs/design/0013."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxwarp import compat
from jaxwarp.boundary import boundaries, raise_for_user
from jaxwarp.codegen.abi import PACK_BYTES
from jaxwarp.conversions import as_numbers
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.convert import cast_values, taken
from jaxwarp.memory.devices import Device, device_to_jax
from jaxwarp.memory.dlpack import make_capsule
from jaxwarp.memory.gpu.pinned import Pinned
from jaxwarp.memory.gpu.scope import device_of, place_of_device
from jaxwarp.memory.host_scope import HOST, Outside, capturing, contents_of
from jaxwarp.memory.libraries import library_of
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.memory.region import Region, array_region, dense_region, dense_strides
from jaxwarp.memory.scope import Scope
from jaxwarp.memory.tensor_owner import Owner, owned
from jaxwarp.memory.tokens import ArrayMark, InRecords, alike
from jaxwarp.structs.records import memory_axes
from jaxwarp.types import (
    Array,
    Element,
    Struct,
    as_dtype,
    element_scalar,
    matrix,
    struct_of,
    vector,
)
from jaxwarp.unlocked import cached_property

# Attributes of Warp's arrays that these do not have, with what to write instead.
_CODE = "launches take the array itself"
_CPU = "arrays outside of JAX are in ordinary memory of the host"

REFUSED = {
    "cptr": _CODE,
    "ctype": _CODE,
    "vars": _CODE,
    "ipc_handle": "processes share no arrays; use multiprocessing.shared_memory and array(values, copy=False)",
    "is_transposed": "ask for is_contiguous, or compare strides",
    "memory_kind": _CPU,
}

_MOST_WORDS = 2**31 - 1  # that code for dense arrays takes


@boundaries
class HostArray(LiveArray):
    """An array outside of JAX: shape and element type as in a kernel, components are not axes.

    `numpy()` is a view of its memory; parts by slices are too.

    Attributes:
        scope: of the process, in the memory of the host or of a GPU.
        jax_value: the JAX array whose memory this is, where it is one's: it is never written.
        whole: the array of structs of which it is a field.
        source: the dense memory that it is a part of; None: it is no part, or not of dense memory.
    """

    scope: Outside
    jax_value: jax.Array | None
    whole: HostArray | None
    source: Region | None
    _COPIED: ClassVar[str] = "array.contiguous()"
    _grad: HostArray | None
    # Operators beside numbers of NumPy (-1e6) are the array's, beside arrays of NumPy (0) are theirs.
    __array_priority__: ClassVar[float] = -1.0

    def __init__(self, name: str, type_: Array, region: Region, is_writable: bool, jax_value: jax.Array | None = None):
        region = owned(region)
        # In one step, past what asks whether users may assign to attributes.
        self.__dict__.update(
            scope=region.owner.scope or HOST, name=name, type=type_, _region=region, jax_value=jax_value, _grad=None,
            whole=None, source=None, _is_writable=is_writable, _may_be_written=is_writable,
        )  # fmt: skip

    @property
    def is_writable(self) -> bool:
        """True if launches and copies may write to the array."""
        return self._is_writable

    @is_writable.setter
    def is_writable(self, value: bool) -> None:
        if value and not self._may_be_written:
            raise KernelTypeError(
                f"is_writable: {self.label} was made read-only: others count on its memory",
                hint="write to jaxwarp.clone(array)",
            )
        self._is_writable = bool(value)
        self.__dict__.pop("token", None)  # of which it is a part
        self.__dict__.pop("mark", None)

    def __deepcopy__(self, memo: dict[int, Any]) -> HostArray:
        """Memory of its own, with the same contents; its gradient likewise."""
        made = memo[id(self)] = self.new_like().assign(self)
        made._grad = copy.deepcopy(self._grad, memo)
        return made

    def __bool__(self) -> bool:
        """Return whether the array has elements, as in Warp: `array or other`."""
        return len(self) > 0

    def __copy__(self) -> HostArray:
        """The same memory."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.__dict__.pop("mark", None)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the contents, the device and the gradient, but not that the array is part of another one."""
        HOST.require_settled(f"pickling an {self.label}")
        device = None if self.scope is HOST else str(self.device)
        return _unpickled, (type(self), self.type, contents_of(self._region), device, self._grad)

    @property
    def leaves(self) -> tuple[HostArray, ...]:
        """The arrays of numbers that it consists of."""
        return (self,)

    def __getattr__(self, name: str) -> Any:
        if name in REFUSED:
            raise_for_user(AttributeError(f"{name} of arrays is not there; {REFUSED[name]}"))
        raise_for_user(AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}"))

    @cached_property
    def label(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return f"array of {self.type.dtype} of shape {self.shape}"

    @property
    def region(self) -> Region:
        """The array's memory."""
        return self._region

    @cached_property
    def components(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return memory_axes(self.type.dtype)

    @cached_property
    def shape(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The extents of its axes. Components of vectors and matrices are no axes."""
        found = self._region.shape
        return found[: len(found) - len(self.components)]

    @cached_property
    def token(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A token of everything about the array that affects a launch, except its address. None if its elements are
        neither contiguous nor a field of contiguous records."""
        region, place = self._region, None
        memory = region
        if not region.is_plain:
            found = self.in_records
            if found is None:
                return None
            memory, place = found.region, found.place
        where = None if self.scope is HOST else (self.scope, not memory.address % PACK_BYTES)
        return alike((self.dtype, region.shape, self.is_writable, where, place))

    @cached_property
    def mark(self) -> ArrayMark:
        """Return what stands for the array, its memory and its token, for as long as they are so."""
        return ArrayMark()

    @cached_property
    def in_records(self) -> InRecords | None:
        """The rows of dense memory of which the array is a field: records, or rows of a matrix of which these are some
        columns. None if its elements are not one row apart, side by side within a row."""
        region, source, size = self._region, self.source, self._region.dtype.itemsize
        pitch = region.strides[self.ndim - 1] if self.ndim else 0
        if source is None or pitch <= 0 or pitch % size:
            return None
        first = (region.address - source.address) % pitch
        start, words, count = region.address - first, pitch // size, math.prod(self.shape)
        end = first + math.prod(self.components) * size
        strides = (*dense_strides(self.shape, pitch), *dense_strides(self.components, size))
        is_inside = end <= pitch and start + count * pitch <= source.address + source.nbytes
        if region.strides != strides or not is_inside or first % size or start % size or count * words > _MOST_WORDS:
            return None
        seen = dense_region(start, region.dtype, (*self.shape, words), region.owner)
        return InRecords(seen, (words, first // size), (first, end))

    def _source_of_parts(self) -> Region | None:
        return self._region if self.source is None and self._region.is_dense else self.source

    def __repr__(self) -> str:
        return f"array(shape={self.shape}, dtype={self.type.dtype}, device={self.device})"

    def __str__(self) -> str:
        return str(self.numpy())

    def require_scope(self, scope: Scope) -> None:
        """Memory of the host is that for every call on the CPU; that of a GPU is used on it, outside of calls."""
        if self.scope is HOST and scope.platform != "cpu" and not scope.is_outside:
            raise KernelTypeError(f"{self.label} is memory of the host", hint="pass array.numpy(), which is copied")
        if self.scope is not scope and not (self.scope is HOST and scope.platform == "cpu"):
            where = device_of(scope)
            raise KernelTypeError(
                f"{self.label} is on {self.device}, and is used on {where}", hint=f'pass a copy: array.to("{where}")'
            )

    @property
    def device(self) -> Device:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The device of the array."""
        return device_of(self.scope)

    def require_writable(self, what: str) -> None:
        if compat.is_tracing():  # a label takes time
            self.scope.require_untraced(self.label, what, self._region)
        if not self.is_writable:
            kind = "the memory of a JAX array, which never changes" if self.jax_value is not None else "read-only"
            raise KernelTypeError(f"{self.label} is {kind}, and cannot be {what}", hint="write to jaxwarp.clone(array)")

    def numpy(self) -> np.ndarray:
        """Return the contents as a NumPy array: a view on the CPU, a read-only copy from a GPU."""
        if self.scope is not HOST or capturing.get() is not None:
            return super().numpy()
        array = self._region.here.view()
        array.flags.writeable = self.is_writable
        return array

    def _part(self, region: Region) -> HostArray:
        return self._as(self.type.dtype, region)

    indexed: ClassVar[Callable[..., Any]]
    """Makes a part by arrays of indices: `(array, index)`. Their module sets it."""

    def __getitem__(self, index: Any) -> Any:
        """A part of the array, by integers, slices and arrays of indices. Writing to it writes to the array."""
        if isinstance(index, HostArray) or (isinstance(index, tuple) and any(isinstance(i, HostArray) for i in index)):
            return self.indexed(self, index if isinstance(index, tuple) else (index,))
        part = super().__getitem__(index)
        assert isinstance(part, HostArray)
        part._grad = None if self._grad is None else self._grad[index]
        return part

    def _source(self, source: Any) -> Region | np.ndarray:
        # Numbers of Python have no type of their own; those of NumPy are converted, but for fractions to integers.
        dtype = self._region.dtype
        if isinstance(source, HostArray):  # wherever it is
            return source.region
        if isinstance(source, (list, tuple, range)):
            source = cast_values(as_numbers(source), dtype, self.label)
        elif isinstance(source, np.ndarray) and source.dtype.kind in ("biu" if dtype.kind in "biu" else "biuf"):
            source = cast_values(source, dtype, self.label)
        elif library_of(source) is not None and (found := self.scope.find(source)) is not None:
            return found[0]
        return super()._source(source)

    def assign(self, src: Any) -> HostArray:
        """Gives the array the contents of another one, or of an array of the host, of the same shape and dtype.

        If the source has fewer elements and both are contiguous, the first elements of the array get these, as `copy`
        does.
        """
        given, n = self._source(src), len(self.components)
        is_dense = self.is_contiguous and (isinstance(given, np.ndarray) or given.is_dense)
        is_alike = given.dtype == self._region.dtype and given.shape[len(given.shape) - n :] == self.components
        if not (is_dense and is_alike and given.size < self._region.size):
            return self._assign(src)
        source = given.reshape(-1, *self.components) if isinstance(given, np.ndarray) else src.flatten()
        self.flatten()[: source.shape[0]]._assign(source)
        return self

    def _assign(self, src: Any) -> HostArray:
        HOST.see(self, src)
        super()._assign(src)
        return self

    def _fill(self, element: np.ndarray) -> HostArray:
        HOST.see(self)
        super()._fill(element)
        return self

    fill = LiveArray.fill_

    @property
    def owner(self) -> Owner:
        """Who keeps the memory."""
        return self._region.owner

    @property
    def ptr(self) -> int | None:
        """The address; None where there are no elements."""
        self.scope.exposed(self._region)
        return self._region.address if self._region.size else None

    @property
    def capacity(self) -> int:
        """The bytes from its first element to the end of the last one."""
        return self._region.span[1] - self._region.address

    @property
    def deleter(self) -> Callable[[int, int], Any] | None:
        """The function that the array's memory was given to be freed by; None if jaxwarp, or who made it, frees it."""
        return getattr(self.owner.memory, "deleter", None)

    @property
    def pinned(self) -> bool:
        """True if the array is in pinned host memory, which GPUs copy to and from directly."""
        return isinstance(self.owner.memory, Pinned)

    @property
    def retain_grad(self) -> bool:
        """True if `Tape.backward` keeps the derivative with respect to the array's contents after the tape's last
        write. Otherwise the gradient of an array that the tape writes is used up. Parts of the array share this
        setting."""
        return self._grad is not None and self._grad.owner.is_retained

    @retain_grad.setter
    def retain_grad(self, value: bool) -> None:
        if value and self._grad is None:
            raise KernelValueError(
                f"retain_grad: {self.label} has no gradient to keep", hint="set requires_grad=True, of floats, before"
            )
        if self._grad is not None:
            self._grad.owner.is_retained = bool(value)

    def mark_init(self) -> None:
        """Does nothing: tapes find out what is overwritten."""

    def mark_read(self) -> None:
        """Does nothing: tapes find out what is read."""

    def mark_write(self, **_: Any) -> None:
        """Does nothing: tapes find out what is written."""

    # Other shapes of the same memory.

    def _as(self, element: Element | Struct, region: Region) -> HostArray:
        type_ = Array(element, len(region.shape) - len(memory_axes(element)))
        made = type(self)(self.name, type_, region, self.is_writable, self.jax_value)
        made.__dict__["source"] = self._source_of_parts()
        return made

    def reshape(self, *extents: Any, shape: Any = None) -> HostArray:
        """The same memory in another shape, `(2, 3)`, `shape=(2, 3)` or `2, 3`; one extent may be -1. The array must be
        contiguous."""
        made = self._reshaped(extents, shape)
        made._grad = None if self._grad is None else self._grad.reshape(tuple(made.shape))
        return made

    def transpose(self, axes: Any = None) -> HostArray:
        """The same memory with its axes in another order; None: reversed."""
        made = self._transposed(axes)
        made._grad = None if self._grad is None else self._grad.transpose(axes)
        return made

    def view(self, dtype: Any) -> HostArray:
        """The same memory with another element type: one of the same size, or scalars of the same size as components of
        the last axes, or no components."""
        made = self._viewed(dtype)
        if self._grad is not None and made._region.dtype == self._region.dtype:
            made._grad = self._grad.view(dtype)
        return made

    def to(self, device: Any, requires_grad: bool | None = None) -> HostArray:
        """The array on a device: itself, if it is there, else a copy, with a gradient of its own.

        Raises:
            KernelTypeError, KernelValueError: there is no such device.
        """
        place = place_of_device(device, "to")
        wants = self.requires_grad if requires_grad is None else bool(requires_grad)
        if place is self.scope and wants == self.requires_grad:
            return self
        made = self._as(self.type.dtype, self.region) if place is self.scope else self.new_like(place).assign(self)
        made.begin(wants)
        return made

    def contiguous(self) -> HostArray:
        """The array itself if its elements lie side by side, else a copy."""
        return self if self.is_contiguous else self.new_like().assign(self)

    def new_like(self, place: Scope | None = None) -> HostArray:
        """A new array of zeros of its shape and type, in the same memory or that of `place`."""
        region = (place or self.scope).make(self._region.dtype, self._region.shape)
        return type(self)(self.name, self.type, region, is_writable=True)

    # Gradients.

    @property
    def requires_grad(self) -> bool:
        """True if the array has a gradient. That of an array of integers is zeros: no tape adds to it."""
        return self._grad is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not value:
            self._grad = None
        elif self._grad is None:
            self._grad = self.new_like()

    def begin(self, requires_grad: bool) -> None:
        """Gives a new array a gradient. What is made in a capture is as new whenever that is launched."""
        self.requires_grad = requires_grad
        if self._grad is not None and capturing.get() is not None:
            self._grad.zero_()

    @property
    def grad(self) -> HostArray | None:
        """The array to which `Tape.backward` adds the derivative; None if no derivative is wanted.

        Of integers it stays zeros: nothing is added to it.
        """
        if self._grad is not None:
            self._grad.owner.follow()
        return self._grad

    @grad.setter
    def grad(self, grad: HostArray | None) -> None:
        if grad is not None and (
            not isinstance(grad, HostArray) or grad.dtype != self.dtype or grad.shape != self.shape
        ):
            raise KernelTypeError(
                f"grad: expected an array of {self.dtype} of shape {self.shape}, got {grad!r}",
                hint="make it with zeros_like(array)",
            )
        is_retained, self._grad = self.retain_grad, grad
        self.retain_grad = is_retained and grad is not None

    # Interfaces.

    def __jax_array__(self) -> jax.Array:
        self.scope.require_untraced(self.label, "used as a JAX array")
        return self.to_jax()

    def to_jax(self) -> jax.Array:
        """See `jaxwarp.to_jax`."""
        region, origin = self.region, self.jax_value
        kind = region.shape, region.dtype
        # A part of its shape that is reversed or transposed is not dense: it has the elements in another order.
        if origin is not None and (origin.shape, origin.dtype) == kind and region.is_dense and not origin.is_deleted():
            return origin
        if region.dtype.itemsize == 8 and not compat.is_x64_enabled():
            raise KernelTypeError(
                f"to_jax: {self.label}: 64-bit types are not enabled in JAX",
                hint="make the array of a 32-bit type: array(data, dtype=float); or enable 64-bit types before the "
                'first array is made: jax.config.update("jax_enable_x64", True)',
            )
        device = device_of(self.scope)
        if device.is_cpu:
            return jnp.asarray(taken(self.numpy(), region.dtype, self.label))
        try:
            target = device_to_jax(device)
        except KernelValueError:  # JAX has no GPU: what it gets is on the host
            return jnp.asarray(taken(self.numpy(), region.dtype, self.label))
        return jax.dlpack.from_dlpack(self) if self.size else jax.device_put(self.numpy(), target)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        # JAX takes memory over without asking whether it may change. Its arrays never do.
        is_jax = sys._getframe(1).f_globals.get("__name__", "").startswith("jax.")
        if is_jax and self.is_writable and copy is None:
            copy = True
        return make_capsule(self, stream, max_version, dl_device, copy, is_jax)


# For JAX's functions it stands for its contents, as they are when they are called: a JAX array, which never changes.
jax.tree_util.register_pytree_node(
    HostArray,
    lambda array: ((array.__jax_array__(),), None),
    lambda _, values: values[0],  # pyright: ignore[reportArgumentType]
)


def require_float(element: Element, where: str) -> None:
    """Only floats have derivatives."""
    if not element_scalar(element).is_float:
        raise KernelTypeError(
            f"{where}: expected an element type of floats, got {element}",
            hint="only floats have gradients: make the array with dtype=float",
        )


def type_of_value(value: Any) -> Element | Struct:
    """The element type of one value: of Python numbers int32 and float32, of sequences a vector or matrix, of what has
    a type itself this."""
    struct = struct_of(type(value))
    if struct is not None:
        return struct
    array = np.asarray(value)
    is_python = not isinstance(value, (np.ndarray, np.generic, jax.Array))
    python = {"b": bool, "i": int, "f": float}.get(array.dtype.kind) if is_python else None
    scalar = as_dtype(python or array.dtype)
    match array.shape:
        case ():
            return scalar
        case (length,):
            return vector(length, scalar)
        case (rows, columns):
            return matrix((rows, columns), scalar)
        case shape:
            raise KernelTypeError(
                f"expected a number, vector or matrix, got an array of shape {shape}",
                hint="write full(shape, 0.0); for data use array(data)",
            )


def _unpickled(
    kind: type[HostArray], type_: Array, values: np.ndarray, device: str | None, grad: HostArray | None
) -> HostArray:
    """An array that was pickled.

    Raises:
        KernelValueError: there is no such device.
    """
    made = kind("", type_, array_region(np.array(values, order="C")), is_writable=True)
    if device is not None:
        made = made.to(device)
    made._grad = grad
    return made
