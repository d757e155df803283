"""Arrays of structs outside of JAX: records in memory, whose fields are arrays that lie in it. See docs/design/0023."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelTypeError, KernelValueError, did_you_mean
from jaxwarp.launches.arguments.generics import fill_generic, is_generic
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.region import Region, array_region
from jaxwarp.memory.scope import Scope
from jaxwarp.memory.tensor_owner import fresh
from jaxwarp.structs.records import as_record, as_records, instance_of, memory_axes, memory_dtype
from jaxwarp.types import Array, Element, Struct, field_type, float32, struct_of
from jaxwarp.unlocked import cached_property


@boundaries
class StructArray(HostArray):
    """An array of structs outside of JAX. `numpy()` is a view of it with NumPy's structured type, `field(name)` the
    array of a field, which shares its memory."""

    @property
    def struct(self) -> Struct:
        """The struct type of the elements."""
        return self.type.dtype

    def field(self, name: str) -> HostArray:
        """The array of a field: writing to it writes to this array, and its gradient is part of this one's.

        Raises:
            KernelTypeError: there is no such field.
        """
        type_, region, found = self._places.get(name) or self._place(name)
        part = array_at(self.name, type_, region, self.is_writable)
        part.whole = self if self.whole is None else self.whole
        part.source = self._source_of_parts()
        if self._grad is not None:
            assert isinstance(self._grad, StructArray)
            part._grad = self._grad.field(name)
        if isinstance(part, StructArray):
            return part
        if self.is_writable not in found:
            found[self.is_writable] = {"in_records": part.in_records, "token": part.token}
        else:
            vars(part).update(found[self.is_writable])
        return part

    @cached_property
    def _places(self) -> dict[str, tuple[Array, Region, dict[bool, dict[str, Any]]]]:
        """The type, the region and cached properties of each field that was requested so far. There is one set of
        properties for writable arrays, another one for read-only arrays. No array is stored: it would refer to this
        array, and this array to it."""
        return {}

    def _place(self, name: str) -> tuple[Array, Region, dict[bool, dict[str, Any]]]:
        struct = self.struct
        found = next((f for f in struct.fields if f.name == name), None)
        if found is None:
            names = [f.name for f in struct.fields]
            hint = did_you_mean(name, names) or f"its fields are {', '.join(names)}"
            raise KernelTypeError(f"{self.label}: struct {struct!r} has no field {name}", hint=hint)
        type_ = field_type(self.type, found)
        if isinstance(found.type, Array):  # only where there are no elements
            if not isinstance(type_.dtype, Struct) and is_generic(type_.dtype):  # texels of a texture: any will do
                type_ = Array(fill_generic(type_.dtype, float32), type_.ndim)
            shape = (*self.shape, *[0] * found.type.ndim, *memory_axes(type_.dtype))
            region = self.scope.make(memory_dtype(type_.dtype, is_none=True), shape)
        else:
            region = self.region.field(name)
        made = self._places[name] = (type_, region, {})
        return made

    @property
    def leaves(self) -> tuple[HostArray, ...]:
        return tuple(leaf for f in self.struct.fields for leaf in self.field(f.name).leaves)

    def _element(self, value: Any) -> np.ndarray:
        return as_record(self.struct, value, self.label)

    def _source(self, source: Any) -> Region | np.ndarray:
        if isinstance(source, HostArray):
            return source.region
        if not self.shape and (struct_of(type(source)) is not None or isinstance(source, (tuple, Mapping, np.void))):
            return self._element(source)
        return as_records(self.struct, source, self.label)

    def list(self) -> list[Any]:
        """The elements as instances of the struct, in order."""
        return [instance_of(self.struct, record) for record in self.numpy().reshape(-1)]

    def view(self, dtype: Any) -> HostArray:
        """The same memory with another element type: of structs only with their own.

        Raises:
            KernelTypeError: another type.
        """
        if (struct_of(dtype) or dtype) == self.struct:
            return self._as(self.struct, self.region)
        raise KernelTypeError(
            f"{self.label}: its memory holds structs, and is none of {dtype!r}",
            hint="take the array of a field, array.field(name), or a view of NumPy's, array.numpy()",
        )

    def to_jax(self) -> Any:
        """See `jaxwarp.to_jax`."""
        made = object.__new__(self.struct.kind)
        made.__dict__.update({f.name: self.field(f.name).to_jax() for f in self.struct.fields})
        return made

    def __jax_array__(self) -> jax.Array:
        raise KernelTypeError(
            f"{self.label} is no array of JAX: there it is a struct of arrays", hint="write jaxwarp.to_jax(array)"
        )

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        del stream, max_version, dl_device, copy
        raise KernelTypeError(
            f"{self.label}: DLPack has no structs", hint="pass the array of a field: array.field(name)"
        )


def _unpacked(array: StructArray) -> tuple[tuple[Any], None]:
    array.scope.require_untraced(array.label, "used as a JAX value")
    return (array.to_jax(),), None


# For JAX's functions it stands for its contents: a struct of JAX arrays.
jax.tree_util.register_pytree_node(StructArray, _unpacked, lambda _, values: values[0])


def array_at(
    name: str, type_: Array, region: Region, is_writable: bool, jax_value: jax.Array | None = None
) -> HostArray:
    """The array of a type that a region is."""
    kind = StructArray if isinstance(type_.dtype, Struct) else HostArray
    return kind(name, type_, region, is_writable, jax_value)


def new_array(name: str, element: Element | Struct, shape: tuple[int, ...], place: Scope = HOST) -> HostArray:
    """A new array of zeros."""
    region = place.make(memory_dtype(element, 0 in shape), (*shape, *memory_axes(element)))
    return array_at(name, Array(element, len(shape)), region, is_writable=True)


def array_of_structs(name: str, data: Any, struct: Struct, shape: tuple[Any, ...] | None, copy: bool) -> HostArray:
    """An array of structs, of instances, tuples or records."""
    where = f"{name}(...): data"
    if isinstance(data, HostArray):
        if data.dtype != struct:
            raise KernelTypeError(
                f"{where}: expected structs {struct!r}, got {data.dtype!r}", hint=f"pass a list of {struct!r}(...)"
            )
        found = data if shape is None else data.contiguous().reshape(*shape)
        return found.new_like().assign(found) if copy else found
    records = np.atleast_1d(as_records(struct, data, where))
    is_shared = not copy and isinstance(data, np.ndarray)
    if not is_shared:
        records = np.array(records, order="C")
    if shape is not None:
        if math.prod(shape) != records.size or not (records.flags.c_contiguous or shape == records.shape):
            raise KernelValueError(
                f"{where}: {records.shape} structs do not have the shape {shape}", hint="leave it out"
            )
        records = records.reshape(shape)
    is_writable = bool(records.flags.writeable)
    region = array_region(records) if is_shared else fresh(array_region(records))
    return array_at(name, Array(struct, records.ndim), region, is_writable)
