"""The operand that stands for an argument: what is given is checked once, values are converted at each call."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.launches.arguments.argument import KEY, KEY_KIND, REFERENCE, CallParameter, Given, is_key, is_whole
from jaxwarp.launches.arguments.dims import format_shape, require_int32_extents, shape_text
from jaxwarp.memory.convert import taken
from jaxwarp.types import (
    SCALAR_BY_DTYPE,
    Aggregate,
    Element,
    Scalar,
    element_scalar,
    element_shape,
)

Convert = Callable[[Any], Any]


def make_converter(argument: CallParameter, element: Element, given: Given) -> Convert | None:
    """Checks what is given, and returns what makes an operand of its value (None: the value is one).

    Raises:
        KernelTypeError, KernelValueError: what is given does not fit.
    """
    if given.kind == KEY_KIND:
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
        raise KernelTypeError(f"{expected}, got {given}", hint=other_kind(argument, scalar, given))
    shape, ndim = given.shape, argument.ndim
    is_shaped = len(shape) == argument.ndim + len(components) and tuple(shape[argument.ndim :]) == components
    adapts = given.is_weak and not argument.is_array and _is_widening(given.dtype, scalar)
    if not is_shaped or (given.dtype != scalar.numpy and not adapts):
        fits = is_shaped or is_key(given.dtype)
        hint = _conversion(argument, scalar, given) if fits else _shaping(argument, components, given)
        if not is_shaped and argument.is_array and argument.element is Any and len(shape) in (ndim + 1, ndim + 2):
            hint = "an array of Any has the elements that arrays of jaxwarp have, else scalars; for last axes that are"
            hint += " components write their type, such as array(dtype=vec3) or array(dtype=vec(length=Any, dtype=Any))"
        raise KernelTypeError(f"{expected}, got {given}", hint=hint)
    require_int32_extents(shape, argument.where)
    if given.kind == "ndarray":
        return lambda value: taken(value, scalar.numpy, argument.where)
    return None if given.dtype == scalar.numpy else lambda value: jax.lax.convert_element_type(value, scalar.numpy)


def _require_key_rank(argument: CallParameter, given: Given) -> None:
    """Raises unless there are as many axes of keys as the argument has."""
    shape = (given.shape or ())[:-1]
    if len(shape) != argument.ndim:
        what = "one key" if not argument.is_array else f"keys of shape {shape_text(argument.ndim, ())}"
        hint = _shaping(argument, (), Given(KEY_KIND, shape, given.dtype)) if argument.is_array else "map with jax.vmap"
        raise KernelTypeError(f"{argument.where}: expected {what}, got keys of shape {format_shape(shape)}", hint=hint)


def other_kind(argument: CallParameter, scalar: Scalar, given: Given) -> str:
    """Return a hint for a value that is no array or number of the language: what to pass instead."""
    name = argument.name
    if is_key(given.dtype):
        return f"annotate the argument wp.PRNGKey, or pass its bits: jax.random.key_data({name}), for array[wp.uint32]"
    if given.dtype is not None and given.kind not in ("list", "tuple", "int", "float", "bool"):
        return _conversion(argument, scalar, given)
    if given.kind == REFERENCE:
        return f"pass what it holds: {name}[...]"
    if given.kind in ("list", "tuple") and (argument.is_array or isinstance(argument.element, Aggregate)):
        if given.is_eager:
            return f"make an array of it: jaxwarp.array({name}, dtype={scalar})"
        return f"make an array of it: jax.numpy.asarray({name}, '{scalar}')"
    if not argument.is_array:
        return "pass a number, or a scalar of JAX"
    if given.kind in ("int", "float", "bool"):
        if given.is_eager:
            return f"make an array of it: jaxwarp.full(shape, {name}, dtype={scalar})"
        return f"make an array of it: jax.numpy.full(shape, {name}, '{scalar}')"
    return "pass arrays one by one, each as an argument of its own"


def _conversion(argument: CallParameter, scalar: Scalar, given: Given) -> str:
    """Return a hint for an array of another type: how to convert it to the right type."""
    name, dtype = argument.name, given.dtype
    if is_key(dtype):
        return other_kind(argument, scalar, given)
    if given.kind == "handle":  # in a jax_callable
        return f"convert its value, {name}.value.astype('{scalar}'), or make it with dtype={scalar}"
    if given.kind == "buffer":  # outside of JAX
        return f"convert it: jaxwarp.array({name}, dtype={scalar})"
    if getattr(dtype, "kind", "") == "c":
        return f"pass its parts: {name}.real.astype('{scalar}'), {name}.imag.astype('{scalar}')"
    return f"convert it: jax.numpy.asarray({name}, '{scalar}')"


def _shaping(argument: CallParameter, components: tuple[int, ...], given: Given) -> str:
    """Return a hint for an array of another shape: how to make it fit."""
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


def _is_widening(dtype: np.dtype, scalar: Scalar) -> bool:
    """May a weakly typed JAX scalar (it came from a Python literal) become `scalar`? Not a float an integer."""
    order = {"b": 0, "i": 1, "u": 1, "f": 2}
    kind = 2 if scalar.is_float else 1 if scalar.is_int else 0
    return jnp.issubdtype(dtype, np.number) and order.get(dtype.kind, 2) <= kind and kind > 0


def _host_hint(element: Element, shape: tuple[int, ...]) -> str:
    if element == KEY:
        return "pass a key of JAX, jax.random.key(seed), or its 2 numbers"
    if len(shape) == 2:
        return f"pass {shape[0]} rows of {shape[1]} numbers"
    return f"pass {shape[0]} numbers" if shape else "pass a number"


def _host_converter(argument: CallParameter, element: Element) -> Convert:
    scalar, shape = element_scalar(element), element_shape(element)
    number, plain = scalar.numpy.type, plain_numbers(scalar)

    def convert(value: Any) -> Any:
        # The way of eager calls: a Python number inside the type's range.
        if not shape and plain.has(value):
            return number(value)
        array = np.asarray(operator.index(value) if is_whole(value) else value)
        if array.shape != shape:
            expected = f"{argument.where}: expected {scalar} of shape {format_shape(shape)}"
            raise KernelTypeError(
                f"{expected}, got {type_text(value)} of shape {format_shape(array.shape)}",
                hint=_host_hint(element, shape),
            )
        return array.copy()[()] if array.dtype == scalar.numpy else _represent(argument, scalar, array)

    return convert


def eager_converter(argument: CallParameter, element: Element, given: Given, convert: Convert | None) -> Convert | None:
    """Return the converter of a value to an operand of a compiled program; None: the value already is one.

    It is `convert`, except that a number which JAX converts to the argument's type is passed as a Python number. JAX
    takes a Python number in a microsecond, and a NumPy number in twenty.
    """
    scalar = element_scalar(element)
    if convert is None or argument.is_array or element is not scalar:
        return convert
    plain = plain_numbers(scalar)
    if jax.dtypes.canonicalize_dtype(plain.kind) != scalar.numpy:
        return convert
    if given.kind == plain.kind.__name__:
        return lambda value: value if plain.has(value) else convert(value)
    if given.kind == scalar.numpy.name:
        return lambda value: value.item() if type(value) is scalar.numpy.type else convert(value)
    return convert


class Plain(NamedTuple):
    """The numbers of Python of a type that are one of the kernel's without more ado."""

    kind: type
    low: float
    high: float

    def has(self, value: Any) -> bool:
        return type(value) is self.kind and self.low <= value <= self.high


def plain_numbers(scalar: Scalar) -> Plain:
    if scalar.is_float:
        return Plain(float, -1e4, 1e4)
    if not scalar.is_int:
        return Plain(int, 0, 0)
    info = np.iinfo(scalar.numpy)
    return Plain(int, int(info.min), int(info.max))


def number_of_c(scalar: Scalar) -> Any:
    """Return the type of `ctypes` for a number; None for one that C has no number for."""
    kind = scalar.numpy
    return np.ctypeslib.as_ctypes_type(kind) if kind.isbuiltin == 1 and kind.char != "e" else None


def _represent(argument: CallParameter, scalar: Scalar, values: np.ndarray) -> Any:
    """The values in the argument's type; refused where they do not exist in it."""
    if scalar.is_float:
        try:
            with np.errstate(all="ignore"):
                result = values.astype(scalar.numpy)
            fits = not (np.isinf(result.astype(np.float64)) & np.isfinite(values.astype(np.float64))).any()
        except OverflowError:  # an integer beyond every float
            result, fits = values, False
    elif not scalar.is_int and values.dtype.kind in "biu":  # flags of a mask: true is what is not zero, as in Python
        result, fits = values != 0, True
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
