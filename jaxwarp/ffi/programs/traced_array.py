"""The arrays that a function under `jax_callable` gets: each is a name for a JAX value that launches replace."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxwarp import compat
from jaxwarp.boundary import boundaries
from jaxwarp.conversions import converted
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.launches.arguments.argument import Given, describe, is_wide, require_enabled
from jaxwarp.launches.spec import is_static
from jaxwarp.memory.devices import Device, device_from_jax
from jaxwarp.memory.indexing import require_index
from jaxwarp.memory.region import Region, dense_region
from jaxwarp.memory.scope import inside_traced
from jaxwarp.types import Array, Element, Scalar, element_scalar, element_shape


@boundaries
class ArrayHandle:
    """An array inside a `jax_callable`, with shape and type as in a kernel: components are not axes.

    Its `value` is the JAX value it stands for now. A launch that writes to the array, `fill_` and `assign` give it a
    new one; JAX arrays themselves never change. Functions of `jnp` are called with the value.

    Attributes:
        is_staged: whether the function may write to this input: it then goes on with an array of its own.
    """

    is_staged = False

    def __init__(self, name: str, type_: Array, value: jax.Array, is_writable: bool):
        self.name = name
        self.type = type_
        self.is_writable = is_writable
        self._value = value
        self._made_in = compat.trace_state()

    @property
    def value(self) -> jax.Array:
        """The JAX value: the array's shape followed by the component axes.

        Raises:
            KernelTypeError: it has a 64-bit type, and JAX has none here.
        """
        require_enabled(f"array '{self.name}'", self.dtype)
        return self.held

    @property
    def held(self) -> jax.Array:
        """The value, which may have a 64-bit type even if JAX has none for others."""
        return self._value

    @property
    def root(self) -> ArrayHandle:
        """The array that this one is, or is a part of."""
        return self

    @property
    def place(self) -> Region | None:
        """The region that its elements would take if each had one byte and the root array began at the address 1.

        None where extents are symbolic.
        """
        shape = self.full_shape
        return dense_region(1, np.dtype(np.int8), shape) if all(map(is_static, shape)) else None

    def replace(self, value: jax.Array) -> None:
        """Lets the handle stand for a new value of the same shape and type."""
        self.require_writable("written")
        self._value = value

    @property
    def is_here(self) -> bool:
        """True if the array belongs to the function that JAX traces now."""
        return self.root._made_in == compat.trace_state()

    def require_writable(self, what: str) -> None:
        """Inputs are values of the caller's. And JAX traces the body of a loop once, however often it runs."""
        root = self.root
        if not (root.is_writable or root.is_staged):
            raise KernelTypeError(
                f"array '{root.name}' is an input and cannot be {what}",
                hint=f"name it in in_out_argnames=['{root.name}'], or write to a clone",
            )
        if not self.is_here:
            raise inside_traced(f"array '{root.name}'", what)
        root.is_writable = True  # loops carry it from now on

    @property
    def dtype(self) -> Element:
        """The element type: a scalar, vector or matrix type."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes, without those of components."""
        return self.type.ndim

    @property
    def full_shape(self) -> tuple[Any, ...]:
        """The extents, with those of components."""
        return tuple(self.held.shape)

    def describe(self) -> Given:
        """Return what a launch needs to know before it looks at the contents."""
        return dataclasses.replace(describe(self.held), kind="handle", element=self.type.dtype)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents, without those of components."""
        return self.full_shape[: self.ndim]

    @property
    def size(self) -> Any:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def device(self) -> Device:
        """The device on which JAX places new arrays: the program may run on another one."""
        found: Any = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
        is_device = isinstance(found, jax.Device)
        return device_from_jax(found if is_device else jax.local_devices(backend=found)[0])

    def __len__(self) -> int:
        if self.ndim == 0:
            raise KernelTypeError(
                f"array '{self.name}' has no axes and no length", hint="it is one element: array.value"
            )
        return self.shape[0]

    def __bool__(self) -> bool:
        """Return whether the array has elements, as in Warp: `array or other`."""
        return len(self) > 0 if self.ndim else self._refuse_comparison()

    def __iter__(self) -> Iterator[ArrayHandle]:
        return (self[i] for i in range(len(self)))

    def __jax_array__(self) -> jax.Array:
        return self.value

    def _refuse_comparison(self, *_: Any) -> NoReturn:
        raise KernelTypeError(
            f"array '{self.name}' cannot be compared, and its numbers are neither true nor false, while it is traced",
            hint="compute with array.value, or branch in a kernel",
        )

    # Python's own answers are about names, not about what the array holds.
    __eq__ = __ne__ = _refuse_comparison
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<array '{self.name}': {self.dtype}, shape {self.shape}>"

    def __getitem__(self, index: Any) -> ArrayHandle:
        """A part of the array, by integers and slices of its leading axes. Writing to it writes to the array."""
        return _View(self, require_index(f"array '{self.name}'", self.shape, index))

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index].assign(value)

    @property
    def ptr(self) -> Address:
        """The address, for `array(ptr=a.ptr, dtype=..., shape=...)`: the same memory with other axes. No integer."""
        return Address(self)

    @property
    def is_contiguous(self) -> bool:
        """True if the elements lie side by side, as those of whole arrays do."""
        place = self.place
        return self.root is self if place is None else place.is_dense

    def reshape(self, *extents: Any, shape: Any = None) -> ArrayHandle:
        """The same memory in another shape, `(2, 3)`, `shape=(2, 3)` or `2, 3`; one extent may be -1. The array must be
        contiguous."""
        listed = (shape,) if shape is not None else extents
        given = tuple(listed[0]) if len(listed) == 1 and isinstance(listed[0], (tuple, list)) else listed
        try:
            whole = jax.ShapeDtypeStruct(self.shape, np.dtype(np.int8))
            found = jax.eval_shape(lambda x: jnp.reshape(x, given), whole).shape
        except TypeError as error:
            raise KernelValueError(
                f"array '{self.name}' of shape {self.shape} cannot be reshaped to {given}",
                hint="the number of its elements must stay",
            ) from error
        return self.placed(Array(self.dtype, len(found)), (*found, *element_shape(self.dtype)))

    def flatten(self) -> ArrayHandle:
        """The same memory with one axis. The array must be contiguous."""
        return self if self.ndim == 1 else self.reshape(-1)

    def placed(self, type_: Array, full_shape: tuple[Any, ...]) -> ArrayHandle:
        """An array with the first elements of this one, in other axes."""
        scalar, given = element_scalar(type_.dtype), element_scalar(self.dtype)
        if not self.is_contiguous:
            raise KernelTypeError(
                f"array '{self.name}' has gaps between its elements, and no other shape", hint="take a clone(...)"
            )
        sizes = math.prod(full_shape), math.prod(self.full_shape)
        is_known = all(map(is_static, sizes))
        if scalar != given or (sizes[0] > sizes[1] if is_known else sizes[0] != sizes[1]):
            raise KernelTypeError(
                f"array '{self.name}' has {sizes[1]} numbers of {given}; an array with the same memory cannot have"
                f" {sizes[0]} of {scalar}",
                hint="keep the scalar type, and take no more numbers than there are",
            )
        return self._placed(type_, full_shape)

    def _placed(self, type_: Array, full_shape: tuple[Any, ...]) -> ArrayHandle:
        return _Placed(self, type_, full_shape)

    def assign(self, source: Any) -> ArrayHandle:
        """Gives the array the contents of another one, or of a JAX or NumPy array, of the same shape and dtype."""
        scalar = element_scalar(self.dtype)
        if isinstance(source, np.ndarray):
            source = source.copy()  # the original may change before the program is compiled
        with compat.with_x64_if(scalar.bits == 64):
            given = source if isinstance(source, ArrayHandle) else jnp.asarray(source)
        found = given.describe() if isinstance(given, ArrayHandle) else describe(given)
        if found.shape != self.full_shape or found.dtype != scalar.numpy:
            raise KernelTypeError(
                f"array '{self.name}': expected {scalar} of shape {self.full_shape}, got {found.dtype} of shape"
                f" {found.shape}",
                hint="convert the source, or assign to a part: array[:n].assign(source)",
            )
        self.store(given)
        return self

    def store(self, source: Any) -> None:
        """Takes over the contents of another array or of a JAX value that fits."""
        self.replace(source.held if isinstance(source, ArrayHandle) else source)

    def fill_(self, value: Any) -> ArrayHandle:
        """Sets every element to a scalar, or to a vector or matrix of the element type's shape."""
        self.replace(filled(self.full_shape, self.dtype, value, f"array '{self.name}'"))
        return self

    def zero_(self) -> ArrayHandle:
        """Sets every element to zero."""
        return self.fill_(0)

    def numpy(self) -> NoReturn:
        """Refused: the function is traced, there are no numbers yet."""
        raise KernelTypeError(
            f"array '{self.name}' has no numbers while its function is traced",
            hint="compute with jnp functions, or look at values with graph_mode=GraphMode.NONE",
        )

    __array__ = numpy
    list = numpy


@boundaries
class _View(ArrayHandle):
    """A part of another array, by basic indexing; reads and writes go to that array."""

    def __init__(self, parent: ArrayHandle, index: tuple[Any, ...]):
        self.parent = parent
        self.index = index
        ndim = parent.ndim - sum(not isinstance(i, slice) for i in index)
        super().__init__(f"{parent.name}[...]", Array(parent.dtype, ndim), parent.held, parent.is_writable)

    @property
    def held(self) -> jax.Array:
        with compat.with_x64_if(is_wide(self.dtype)):
            return self.parent.held[self.index]

    @property
    def root(self) -> ArrayHandle:
        return self.parent.root

    @property
    def place(self) -> Region | None:
        whole = self.parent.place
        return None if whole is None else whole.part(self.index)

    def replace(self, value: jax.Array) -> None:
        self.require_writable("written")
        self.parent.replace(_with_part(self.parent.held, self.index, value))


@boundaries
class _Placed(ArrayHandle):
    """The first elements of a contiguous array in other axes; reads and writes go to that array."""

    def __init__(self, parent: ArrayHandle, type_: Array, full_shape: tuple[Any, ...]):
        self.parent, self._full_shape = parent, full_shape
        super().__init__(f"{parent.name} in shape {full_shape}", type_, parent.held, parent.is_writable)

    @property
    def _is_whole(self) -> bool:
        return math.prod(self._full_shape) == math.prod(self.parent.full_shape)

    @property
    def held(self) -> jax.Array:
        with compat.with_x64_if(is_wide(self.dtype)):
            flat = self.parent.held.reshape(-1)
            return (flat if self._is_whole else flat[: math.prod(self._full_shape)]).reshape(self._full_shape)

    @property
    def root(self) -> ArrayHandle:
        return self.parent.root

    @property
    def place(self) -> Region | None:
        whole = self.parent.place
        return None if whole is None else dense_region(whole.address, whole.dtype, self._full_shape)

    def replace(self, value: jax.Array) -> None:
        self.require_writable("written")
        whole, is_wide_here = self.parent.held, is_wide(self.dtype)
        with compat.with_x64_if(is_wide_here):
            flat = whole.reshape(-1), value.reshape(-1)
        made = flat[1] if self._is_whole else _with_part(flat[0], slice(math.prod(self._full_shape)), flat[1])
        with compat.with_x64_if(is_wide_here):
            made = made.reshape(whole.shape)
        self.parent.replace(made)


def _with_part(whole: jax.Array, index: Any, value: jax.Array) -> jax.Array:
    """The values of an array of a program after one of its parts has been set."""
    if compat.is_x64_enabled() or whole.dtype != np.float64:
        with compat.with_x64_if(whole.dtype.itemsize == 8):
            return whole.at[index].set(value)
    # Here the derivative that JAX makes of the above by `whole` would have zeros in single precision.
    with compat.with_x64():
        is_set = jnp.zeros(whole.shape, bool).at[index].set(True)
        return jnp.where(is_set, jnp.zeros_like(whole).at[index].set(value), whole)


@contextmanager
def standing_for(arrays: Sequence[ArrayHandle], values: Sequence[Any]) -> Iterator[None]:
    """Let arrays stand for other values, which belong to the function that JAX traces here."""
    before = [(array._value, array._made_in) for array in arrays]
    state = compat.trace_state()
    try:
        for array, value in zip(arrays, values, strict=True):
            array._value, array._made_in = value, state
        yield
    finally:
        for array, (value, made_in) in zip(arrays, before, strict=True):
            array._value, array._made_in = value, made_in


class Address:
    """Stands for the address of an array of a traced function, which has none: JAX places arrays."""

    def __init__(self, array: ArrayHandle):
        self.array = array


def as_value_in_trees(kind: type[ArrayHandle]) -> None:
    """Lets compiled functions of JAX (most of `jnp`, `jit`, `vmap`) take arrays of this kind: they get the value."""

    def rebuilt(_: None, values: Any) -> Any:
        return values[0]

    jax.tree_util.register_pytree_node(kind, lambda array: ((array.value,), None), rebuilt)


as_value_in_trees(ArrayHandle)
as_value_in_trees(_View)
as_value_in_trees(_Placed)


def filled(shape: tuple[Any, ...], element: Element, value: Any, where: str) -> jax.Array:
    """A JAX array of `shape`, component axes included, of one value."""
    scalar, components = element_scalar(element), element_shape(element)
    given = value.held if isinstance(value, ArrayHandle) else value
    if scalar.is_int:
        given = _integers(given, scalar, where)
    with compat.with_x64_if(scalar.bits == 64):
        return _broadcast(jnp.asarray(given), shape, components, scalar, where)


def _broadcast(array: jax.Array, shape: tuple[Any, ...], components: Any, scalar: Scalar, where: str) -> jax.Array:
    if array.shape not in ((), components):
        expected = "a number" if not components else f"a number or an array of shape {components}"
        raise KernelTypeError(
            f"{where}: expected {expected} to fill it with, got an array of shape {array.shape}",
            hint="copy an array with assign(values)",
        )
    return jnp.broadcast_to(jax.lax.convert_element_type(array, scalar.numpy), shape)


def _integers(given: Any, scalar: Scalar, where: str) -> Any:
    """A value for an array of integers. What JAX traces has no numbers to look at: its type must fit."""
    if not isinstance(given, jax.core.Tracer):
        values = np.asarray(given)
        return converted(values, scalar.numpy, where) if values.dtype.kind in "iuf" else given
    is_number, is_int = (jnp.issubdtype(given.dtype, kind) for kind in (jnp.number, jnp.integer))
    if not is_number or (is_int and (jax.typeof(given).weak_type or np.can_cast(given.dtype, scalar.numpy))):
        return given
    raise KernelTypeError(
        f"{where}: expected a value of {scalar}, got {given.dtype}, traced by JAX",
        hint=f"convert it: value.astype({str(scalar)!r})",
    )
