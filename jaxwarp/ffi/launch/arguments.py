"""Arguments of a call from JAX: which type each has, and the operand that stands for it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxwarp import compat
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.launch.dims import format_shape, require_int32_extents, shape_text
from jaxwarp.ffi.launch.spec import INPUT
from jaxwarp.quaternions import HostValue
from jaxwarp.structs.records import dtype_text
from jaxwarp.types import (
    SCALAR_BY_DTYPE,
    Aggregate,
    Array,
    Element,
    Mat,
    Scalar,
    Vec,
    bool_,
    element_scalar,
    element_shape,
    float32,
    int32,
    opened,
    type_variable,
    uint32,
)
from jaxwarp.unlocked import cached_property

Convert = Callable[[Any], Any]

KEY = Vec(2, uint32)
"""What a key of JAX is in a kernel: the words of a raw one."""
_KEY = "key"  # the kind of a typed one


@dataclass(frozen=True)
class Argument:
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
        """What its type variable is, where its elements have this type; without one, the type."""
        inside = self.variable is not None and isinstance(self.element, Aggregate)
        return element_scalar(element) if inside else element

    @property
    def _annotated(self) -> Any:
        return self.annotation.dtype if self.is_array else self.annotation


@dataclass(frozen=True)
class Given:
    """What is known of a value that was passed: enough to decide everything but the value itself.

    `shape` and `dtype` are None for what is no array; `is_weak`: JAX lets the dtype adapt; `is_host`: a scalar or a
    sequence of Python or NumPy, whose value is known here; `element`: the element type of an array that has one;
    `is_absent`: None is given for an array, and the rest is what an empty one has.
    """

    kind: str
    shape: tuple[Any, ...] | None = None
    dtype: Any = None
    is_weak: bool = False
    is_host: bool = False
    element: Element | None = None
    is_absent: bool = False

    def __str__(self) -> str:
        if self.dtype is None or self.kind in ("bool", "int", "float", "list", "tuple"):
            return self.kind
        named = dtype_text(self.dtype) if isinstance(self.dtype, np.dtype) else self.dtype
        return f"{named} of shape {format_shape(self.shape or ())}"


def describe_for(argument: Argument, value: Any) -> Given:
    """What is known of a value that is passed: `describe`, but that of a key of JAX is what it consists of, if the
    argument is one.

    Raises:
        KernelTypeError: the key is none of Threefry's.
    """
    given = describe(value)
    if not _is_key(given.dtype) or argument.role != INPUT or argument.element != KEY or given.shape is None:
        return given
    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(given.shape, given.dtype))
    if data.shape[len(given.shape) :] != element_shape(KEY):
        raise KernelTypeError(
            f"{argument.where}: expected a key of the generator threefry2x32, got {given}",
            hint='make it with jax.random.key(seed, impl="threefry2x32")',
        )
    return Given(_KEY, data.shape, data.dtype)


def describe(value: Any) -> Given:
    """What is known of `value` before looking at its contents."""
    if isinstance(value, (np.ndarray, np.generic)):
        # JAX holds 64-bit NumPy data in 32 bits unless it is told otherwise.
        dtype = jax.dtypes.canonicalize_dtype(value.dtype) if value.dtype.kind in "biufc" else value.dtype
        if isinstance(value, HostValue):
            return Given("ndarray", value.shape, dtype, element=value.type)
        return Given(type(value).__name__, value.shape, dtype, is_host=value.ndim == 0)
    if isinstance(value, (bool, int, float)):
        return Given(type(value).__name__, (), np.dtype(type(value)), is_host=True)
    if isinstance(value, (list, tuple)):
        array = np.asarray(value) if _is_numeric(value) else None
        shape, dtype = (None, None) if array is None else (array.shape, array.dtype)
        return Given(type(value).__name__, shape, dtype, is_host=True)
    if isinstance(value, jax.Array):
        aval = jax.typeof(value)
        return Given(type(value).__name__, aval.shape, aval.dtype, is_weak=bool(getattr(aval, "weak_type", False)))
    return Given(type(value).__name__)


def with_absent(arguments: Sequence[Argument], given: Sequence[Given]) -> tuple[Given, ...]:
    """What is given, where None for an array is an empty one that is marked."""
    return tuple(
        _absent(a) if g.kind == "NoneType" and a.is_array else g for a, g in zip(arguments, given, strict=True)
    )


def _absent(argument: Argument) -> Given:
    annotated = argument.element
    scalar = annotated if isinstance(annotated, Scalar) else getattr(annotated, "dtype", float32)
    scalar = scalar if isinstance(scalar, Scalar) else float32
    components = tuple(n if isinstance(n, int) else 1 for n in getattr(annotated, "shape", ()))
    return Given("NoneType", (0,) * argument.ndim + components, scalar.numpy, is_absent=True)


def as_jax_value(value: Any) -> Any:
    """A JAX array for what JAX takes as one: objects with `__jax_array__`, and arrays that JAX itself passes around
    while it traces. Everything else as it is."""
    if value is None or isinstance(value, (np.ndarray, np.generic, numbers.Number, list, tuple, jax.Array)):
        return value
    if hasattr(value, "__jax_array__"):
        return jnp.asarray(value.__jax_array__())
    try:
        jax.typeof(value)
    except TypeError:
        return value
    return jnp.asarray(value)


def _is_numeric(values: Sequence[Any]) -> bool:
    return all(_is_numeric(v) if isinstance(v, (list, tuple)) else isinstance(v, numbers.Real) for v in values)


def resolve_element(argument: Argument, given: Given) -> Element:
    """The element type of an argument: what the annotation says, generic parts taken from what is given."""
    element, ndim = argument.element, argument.ndim
    if isinstance(element, Scalar):
        return element
    components: tuple[Any, ...] = () if given.shape is None else given.shape[ndim:]
    match element:
        case Vec(length=length, dtype=dtype):
            fits = len(components) == 1 and (length is Any or length == components[0])
            return Vec(components[0] if fits else length, _resolve_scalar(argument, dtype, given))
        case Mat(rows=rows, columns=columns, dtype=dtype):
            fits = len(components) == 2
            rows = components[0] if rows is Any and fits else rows
            columns = components[1] if columns is Any and fits else columns
            return Mat(rows, columns, _resolve_scalar(argument, dtype, given))
        case Aggregate(dtype=dtype):
            return element.with_dtype(_resolve_scalar(argument, dtype, given))
        case _:
            scalar = _resolve_scalar(argument, element, given)
            if given.element is not None and element_shape(given.element) == components:
                return given.element
            if argument.is_array or not components:
                return scalar
            return Vec(components[0], scalar) if len(components) == 1 else Mat(components[0], components[1], scalar)


def _resolve_scalar(argument: Argument, dtype: Any, given: Given) -> Scalar:
    if isinstance(dtype, Scalar):
        return dtype
    if given.is_host and given.kind in ("bool", "int", "float", "list", "tuple") and given.dtype is not None:
        return {"b": bool_, "i": int32}.get(given.dtype.kind, float32)
    scalar = SCALAR_BY_DTYPE.get(given.dtype) if isinstance(given.dtype, np.dtype) else None
    if scalar is None:
        raise KernelTypeError(
            f"{argument.where}: expected an array or a scalar of a type of the kernel language, got {given}",
            hint=_other_kind(argument, float32, given),
        )
    return scalar


def is_generic(element: Any) -> bool:
    """Whether an annotated element type leaves something open."""
    match element:
        case Scalar():
            return False
        case Aggregate():
            return Any in element.parameters
        case _:
            return True


def fill_generic(element: Any, like: Element) -> Element:
    """A generic element type with what is open taken from `like`."""
    scalar = element_scalar(like)
    match element:
        case Vec(length=length, dtype=dtype):
            length = like.length if length is Any and isinstance(like, Vec) else length
            return Vec(length, scalar if dtype is Any else dtype)
        case Mat(rows=rows, columns=columns, dtype=dtype):
            rows = like.rows if rows is Any and isinstance(like, Mat) else rows
            columns = like.columns if columns is Any and isinstance(like, Mat) else columns
            return Mat(rows, columns, scalar if dtype is Any else dtype)
        case Aggregate(dtype=dtype):
            return element.with_dtype(scalar if dtype is Any else dtype)
        case _:
            return like


def make_converter(argument: Argument, element: Element, given: Given) -> Convert | None:
    """Checks what is given, and returns what makes an operand of its value (None: the value is one).

    Raises:
        KernelTypeError, KernelValueError: what is given does not fit.
    """
    if given.kind == _KEY:
        require_int32_extents(given.shape or (), argument.where)
        _require_key_rank(argument, given)
        return jax.random.key_data
    if not argument.is_array and given.is_host and given.dtype is not None:
        return _host_converter(argument, element)
    scalar, components = element_scalar(element), element_shape(element)
    is_plain = given.kind == "ndarray" and given.element is None and given.dtype in SCALAR_BY_DTYPE
    if not argument.is_array and is_plain and given.shape == components:
        return _host_converter(argument, element)
    if given.is_absent:
        return lambda _: np.zeros(given.shape or (), scalar.numpy)
    expected = f"{argument.where}: expected {scalar} of shape {shape_text(argument.ndim, components)}"
    if given.dtype is None or given.shape is None or (given.is_host and argument.is_array):
        raise KernelTypeError(f"{expected}, got {given}", hint=_other_kind(argument, scalar, given))
    shape, ndim = given.shape, argument.ndim
    is_shaped = len(shape) == argument.ndim + len(components) and tuple(shape[argument.ndim :]) == components
    adapts = given.is_weak and not argument.is_array and _is_widening(given.dtype, scalar)
    if not is_shaped or (given.dtype != scalar.numpy and not adapts):
        fits = is_shaped or _is_key(given.dtype)
        hint = _conversion(argument, scalar, given) if fits else _shaping(argument, components, given)
        if not is_shaped and argument.is_array and argument.element is Any and len(shape) in (ndim + 1, ndim + 2):
            hint = "an array of Any has the elements that arrays of jaxwarp have, else scalars; for last axes that are"
            hint += " components write their type, such as array(dtype=vec3) or array(dtype=vec(length=Any, dtype=Any))"
        raise KernelTypeError(f"{expected}, got {given}", hint=hint)
    require_int32_extents(shape, argument.where)
    if given.kind == "ndarray":
        return lambda value: np.asarray(value, scalar.numpy)
    return None if given.dtype == scalar.numpy else lambda value: jax.lax.convert_element_type(value, scalar.numpy)


def _require_key_rank(argument: Argument, given: Given) -> None:
    """Raises unless there are as many axes of keys as the argument has."""
    shape = (given.shape or ())[:-1]
    if len(shape) != argument.ndim:
        what = "one key" if not argument.is_array else f"keys of shape {shape_text(argument.ndim, ())}"
        hint = _shaping(argument, (), Given(_KEY, shape, given.dtype)) if argument.is_array else "map with jax.vmap"
        raise KernelTypeError(f"{argument.where}: expected {what}, got keys of shape {format_shape(shape)}", hint=hint)


def _other_kind(argument: Argument, scalar: Scalar, given: Given) -> str:
    """What to pass instead of what is no array or number of the language."""
    name = argument.name
    if _is_key(given.dtype):
        return f"annotate the argument wp.PRNGKey, or pass its bits: jax.random.key_data({name}), for array[wp.uint32]"
    if given.dtype is not None and given.kind not in ("list", "tuple", "int", "float", "bool"):
        return _conversion(argument, scalar, given)
    if not argument.is_array:
        return "pass a number, or a scalar of JAX"
    if given.kind in ("list", "tuple"):
        return f"make an array of it: jax.numpy.asarray({name}, '{scalar}')"
    if given.kind in ("int", "float", "bool"):
        return f"make an array of it: jax.numpy.full(shape, {name}, '{scalar}')"
    return "pass arrays one by one, each as an argument of its own"


def _conversion(argument: Argument, scalar: Scalar, given: Given) -> str:
    """How to make an array of the right type of one of another type."""
    name, dtype = argument.name, given.dtype
    if _is_key(dtype):
        return _other_kind(argument, scalar, given)
    if given.kind == "handle":  # in a jax_callable
        return f"convert its value, {name}.value.astype('{scalar}'), or make it with dtype={scalar}"
    if given.kind == "buffer":  # outside of JAX
        return f"convert it: jaxwarp.array({name}, dtype={scalar})"
    if getattr(dtype, "kind", "") == "c":
        return f"pass its parts: {name}.real.astype('{scalar}'), {name}.imag.astype('{scalar}')"
    return f"convert it: jax.numpy.asarray({name}, '{scalar}')"


def _shaping(argument: Argument, components: tuple[int, ...], given: Given) -> str:
    """What to do about an array of another shape."""
    name, wanted, shape = argument.name, argument.ndim + len(components), given.shape or ()
    if not argument.is_array and not components:
        return f"pass a number, or one element: {name}[{', '.join('0' * len(shape))}]"
    if components and tuple(shape[len(shape) - len(components) :]) != components:
        return f"the last axes are the components: {format_shape(components)}"
    if len(shape) < wanted:
        return f"give it {wanted} {'axis' if wanted == 1 else 'axes'}: {name}.reshape(...)"
    free = len(shape) - len(components)
    parts = "pass a part of it" if given.kind in ("buffer", "handle") else "map over its first axis with jax.vmap"
    return f"{parts}, or annotate the argument array(dtype=..., ndim={free}) and index it with {free} indices"


def _is_key(dtype: Any) -> bool:
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)


def _is_widening(dtype: np.dtype, scalar: Scalar) -> bool:
    """May a weakly typed JAX scalar (it came from a Python literal) become `scalar`? Not a float an integer."""
    order = {"b": 0, "i": 1, "u": 1, "f": 2}
    kind = 2 if scalar.is_float else 1 if scalar.is_int else 0
    return jnp.issubdtype(dtype, np.number) and order.get(dtype.kind, 2) <= kind and kind > 0


def _host_converter(argument: Argument, element: Element) -> Convert:
    scalar, shape = element_scalar(element), element_shape(element)
    number, limit = scalar.numpy.type, _safe_limit(scalar)

    def convert(value: Any) -> Any:
        # The way of eager calls: a Python number inside the type's range.
        if type(value) is limit.kind and limit.low <= value <= limit.high and not shape:
            return number(value)
        array = np.asarray(value)
        if array.shape != shape:
            expected = f"{argument.where}: expected {scalar} of shape {format_shape(shape)}"
            raise KernelTypeError(
                f"{expected}, got {type(value).__name__} of shape {format_shape(array.shape)}",
                hint=f"pass {shape[0]} numbers"
                if len(shape) == 1
                else "pass a number"
                if not shape
                else f"pass {shape[0]} rows of {shape[1]} numbers",
            )
        return array.copy()[()] if array.dtype == scalar.numpy else _represent(argument, scalar, array)

    return convert


def eager_converter(argument: Argument, element: Element, given: Given, convert: Convert | None) -> Convert | None:
    """What makes an operand of a compiled program: as `convert`, but numbers that JAX makes the argument's type of
    stay Python's. Those it takes in a microsecond, where one of NumPy's takes twenty.
    """
    scalar = element_scalar(element)
    if convert is None or argument.is_array or element is not scalar:
        return convert
    limit = _safe_limit(scalar)
    if jax.dtypes.canonicalize_dtype(limit.kind) != scalar.numpy:
        return convert
    if given.kind == limit.kind.__name__:
        return lambda value: value if type(value) is limit.kind and limit.low <= value <= limit.high else convert(value)
    if given.kind == scalar.numpy.name:
        return lambda value: value.item() if type(value) is scalar.numpy.type else convert(value)
    return convert


class _Limit(NamedTuple):
    """The numbers of Python of a type that are one of the kernel's without more ado."""

    kind: type
    low: float
    high: float


def _safe_limit(scalar: Scalar) -> _Limit:
    if scalar.is_float:
        return _Limit(float, -1e4, 1e4)
    if not scalar.is_int:
        return _Limit(int, 0, 0)
    info = np.iinfo(scalar.numpy)
    return _Limit(int, int(info.min), int(info.max))


def _represent(argument: Argument, scalar: Scalar, values: np.ndarray) -> Any:
    """The values in the argument's type; refused where they do not exist in it."""
    if scalar.is_float:
        try:
            with np.errstate(all="ignore"):
                result = values.astype(scalar.numpy)
            fits = not (np.isinf(result.astype(np.float64)) & np.isfinite(values.astype(np.float64))).any()
        except OverflowError:  # an integer beyond every float
            result, fits = values, False
    else:
        info = np.iinfo(scalar.numpy) if scalar.is_int else None
        low, high = (int(info.min), int(info.max)) if info else (0, 1)
        fits = all(math.isfinite(v) and int(v) == v and low <= v <= high for v in values.ravel().tolist())
        result = values.astype(scalar.numpy) if fits else values
    if not fits:
        raise KernelValueError(
            f"{argument.where}: expected a value of {scalar}, got {values.tolist()!r}",
            hint=f"convert it: {argument.name} = {'round' if scalar.is_int else 'float'}({argument.name})"
            if scalar.is_int and np.isfinite(values.astype(np.float64)).all() and _has_fraction(values)
            else f"annotate the argument with a type that has it, or pass a value of {scalar}",
        )
    return result[()]


def _has_fraction(values: np.ndarray) -> bool:
    return any(int(v) != v for v in values.ravel().tolist())


def require_enabled(argument: Argument, element: Element) -> None:
    """64-bit types exist in JAX only where they are enabled."""
    scalar = element_scalar(element)
    if scalar.bits == 64 and not compat.is_x64_enabled():
        raise KernelTypeError(
            f"{argument.where} has type {scalar}, but 64-bit types are not enabled in JAX",
            hint='enable them with jax.config.update("jax_enable_x64", True), before the first array is made',
        )
