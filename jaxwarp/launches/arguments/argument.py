"""Arguments of a call: how a kernel declares them, and what is known of the values that are given."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxwarp import compat
from jaxwarp.compat import ArrayImpl
from jaxwarp.conversions import require_unmasked
from jaxwarp.errors import KernelTypeError
from jaxwarp.launches.arguments.dims import format_shape
from jaxwarp.launches.spec import INPUT, is_static
from jaxwarp.quaternions import HostValue
from jaxwarp.structs.records import dtype_text
from jaxwarp.types import (
    Aggregate,
    Array,
    Element,
    Scalar,
    Vec,
    element_scalar,
    element_shape,
    float32,
    opened,
    type_variable,
    uint32,
)
from jaxwarp.unlocked import cached_property

KEY = Vec(2, uint32)
"""What a key of JAX is in a kernel: the words of a raw one."""
KEY_KIND = "key"  # the kind of a typed one
REFERENCE = "Ref"  # the kind of a reference to an array that may change


@dataclass(frozen=True)
class CallParameter:
    """A parameter of a kernel, as a call sees it. `annotation` may be generic (`typing.Any`).

    `root`: the argument that it is a field of, if it is one.
    """

    kernel: str
    name: str
    annotation: Any
    role: str
    owner: str = "kernel"
    root: str = ""

    @property
    def declared(self) -> str:
        """The name of the argument in the kernel's signature."""
        return self.root or self.name

    @property
    def where(self) -> str:
        return f"{self.owner} {self.kernel}: argument '{self.name}'"

    @property
    def is_array(self) -> bool:
        return isinstance(self.annotation, Array)

    @property
    def ndim(self) -> int:
        return self.annotation.ndim if self.is_array else 0

    @cached_property
    def element(self) -> Any:
        """The type of an element, or of the value; `Any` where the annotation leaves it open."""
        return opened(self._annotated)

    @cached_property
    def variable(self) -> TypeVar | None:
        """The type variable in its annotation."""
        return type_variable(self._annotated)

    def meaning(self, element: Element) -> Element:
        """Return what its type variable stands for if its elements have this type; without a variable, the type."""
        inside = self.variable is not None and isinstance(self.element, Aggregate)
        return element_scalar(element) if inside else element

    @property
    def _annotated(self) -> Any:
        return self.annotation.dtype if self.is_array else self.annotation


@dataclass(frozen=True)
class Given:
    """The known facts about a value that was passed: enough to decide everything but the value itself.

    `shape` and `dtype` are None for what is no array; `is_weak`: JAX lets the dtype adapt; `is_host`: a scalar or a
    sequence of Python or NumPy, whose value is known here; `element`: the element type of an array that has one;
    `is_absent`: None is given for an array, and the rest is what an empty one has; `is_eager`: a launch outside of JAX.
    """

    kind: str
    shape: tuple[Any, ...] | None = None
    dtype: Any = None
    is_weak: bool = False
    is_host: bool = False
    element: Element | None = None
    is_absent: bool = False
    is_eager: bool = False

    def __str__(self) -> str:
        if self.dtype is None or self.kind in ("bool", "int", "float", "list", "tuple"):
            return self.kind
        named = dtype_text(self.dtype) if isinstance(self.dtype, np.dtype) else self.dtype
        return f"{named} of shape {format_shape(self.shape or ())}"


def describe_for(argument: CallParameter, value: object) -> Given:
    """Describe a passed value as `describe` does, but describe a JAX key by its data if the argument is a key.

    Raises:
        KernelTypeError: the key is none of Threefry's.
    """
    given = describe(value)
    if not is_key(given.dtype) or argument.role != INPUT or argument.element != KEY or given.shape is None:
        return given
    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(given.shape, given.dtype))
    if data.shape[len(given.shape) :] != element_shape(KEY):
        raise KernelTypeError(
            f"{argument.where}: expected a key of the generator threefry2x32, got {given}",
            hint='make it with jax.random.key(seed, impl="threefry2x32")',
        )
    return Given(KEY_KIND, data.shape, data.dtype)


def describe(value: object) -> Given:
    """Return what is known of `value` before its contents are read."""
    if isinstance(value, (np.ndarray, np.generic)):
        # JAX holds 64-bit NumPy data in 32 bits unless it is told otherwise.
        dtype = jax.dtypes.canonicalize_dtype(value.dtype) if value.dtype.kind in "biufc" else value.dtype
        if isinstance(value, HostValue):
            return Given("ndarray", value.shape, dtype, element=value.type)
        return Given(type(value).__name__, value.shape, dtype, is_host=value.ndim == 0)
    if isinstance(value, (bool, int, float)):
        return Given(type(value).__name__, (), np.dtype(type(value)), is_host=True)
    if isinstance(value, (list, tuple)):
        array = _array_of(value)
        shape, dtype = (None, None) if array is None else (array.shape, array.dtype)
        return Given(type(value).__name__, shape, dtype, is_host=True)
    if isinstance(value, jax.Array) and not is_reference(value):  # JAX 0.9 takes what stands for one to be an array
        aval = jax.typeof(value)
        return Given(type(value).__name__, aval.shape, aval.dtype, is_weak=bool(getattr(aval, "weak_type", False)))
    if is_whole(value):
        return Given("int", (), np.dtype(int), is_host=True)
    return Given(REFERENCE if is_reference(value) else type(value).__name__)


def is_whole(value: object) -> bool:
    """Return whether a value is an integer by Python's rule, `__index__`, as members of enumerations are."""
    return hasattr(type(value), "__index__") and not hasattr(type(value), "shape")


def signature_token(value: Any) -> Any:
    """A hashable stand-in for what `describe` knows of a value; None where there is none."""
    kind = type(value)
    if kind is ArrayImpl:
        return value.aval.shape, value.aval.dtype, value.aval.weak_type
    if kind is float or kind is int or kind is bool or isinstance(value, np.generic):
        return kind
    if kind is np.ndarray:
        return kind, value.shape, value.dtype
    if isinstance(value, jax.core.Tracer):
        aval: Any = value.aval
        if isinstance(aval, jax.core.ShapedArray) and all(map(is_static, aval.shape)):
            return aval.shape, aval.dtype, aval.weak_type
    if isinstance(value, jax.Array):  # keys
        return value.shape, value.dtype, False
    return None


def with_absent(arguments: Sequence[CallParameter], given: Sequence[Given]) -> tuple[Given, ...]:
    """Replace each None that is given for an array by an empty array that is marked as absent."""
    return tuple(
        _absent(a) if g.kind == "NoneType" and a.is_array else g for a, g in zip(arguments, given, strict=True)
    )


def _absent(argument: CallParameter) -> Given:
    annotated = argument.element
    scalar = annotated if isinstance(annotated, Scalar) else getattr(annotated, "dtype", float32)
    scalar = scalar if isinstance(scalar, Scalar) else float32
    components = tuple(n if isinstance(n, int) else 1 for n in getattr(annotated, "shape", ()))
    return Given("NoneType", (0,) * argument.ndim + components, scalar.numpy, is_absent=True)


def as_jax_value(value: Any, where: str = "") -> Any:
    """A JAX array for what JAX takes as one: objects with `__jax_array__`, and arrays that JAX itself passes around
    while it traces. Arrays of NumPy of other classes are plain ones. Everything else as it is.

    Args:
        value: an argument of a call.
        where: the argument's name in messages.

    Raises:
        KernelTypeError: an array of NumPy with a mask, or an array outside of JAX that JAX cannot take.
    """
    if isinstance(value, np.ndarray) and not isinstance(value, HostValue):
        require_unmasked(value)
        return np.asarray(value)
    if value is None or isinstance(value, (np.ndarray, np.generic, numbers.Number, list, tuple, jax.Array)):
        return value
    if is_reference(value):
        return value
    if hasattr(value, "__jax_array__"):
        try:
            return jnp.asarray(value.__jax_array__())
        except KernelTypeError as error:
            text = f"{where}: {error.message}" if where else error.message
            raise KernelTypeError(text, error.loc, error.hint) from None
    try:
        is_array = isinstance(jax.typeof(value), jax.core.ShapedArray) and not isinstance(value, jax.ShapeDtypeStruct)
    except TypeError:
        return value
    return jnp.asarray(value) if is_array else value


def _array_of(values: Sequence[Any]) -> np.ndarray | None:
    """None: they are no numbers, or not in equal rows."""
    try:
        return np.asarray(values) if _is_numeric(values) else None
    except ValueError:
        return None


def _is_numeric(values: Sequence[Any]) -> bool:
    return all(_is_numeric(v) if isinstance(v, (list, tuple)) else isinstance(v, numbers.Real) for v in values)


def is_reference(value: Any) -> bool:
    """Return whether a value is a reference to a mutable array (`jax.new_ref`), or stands for one while JAX traces."""
    return hasattr(getattr(value, "aval", None), "inner_aval")


def is_key(dtype: Any) -> bool:
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)


def is_wide(element: Any) -> bool:
    """Return whether an element type has 64 bits; one that is left open has not."""
    scalar = element if isinstance(element, Scalar) else getattr(element, "dtype", None)
    return isinstance(scalar, Scalar) and scalar.bits == 64


def require_enabled(where: str, element: Element) -> None:
    """64-bit types exist in JAX only where they are enabled."""
    if is_wide(element) and not compat.is_x64_enabled():
        raise KernelTypeError(
            f"{where} has type {element_scalar(element)}, but 64-bit types are not enabled in JAX",
            hint='enable them with jax.config.update("jax_enable_x64", True), before the first array is made',
        )
