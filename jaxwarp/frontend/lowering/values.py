"""The values that an expression of the kernel language can have while a kernel is being lowered.

    run-time values     ir.Value (a scalar), Bundle (a vector, matrix, quaternion or transform), StructValue (a value
                        for each field)
    literals            Python bool, int, float: weak, they take the type of what they meet
    static values       tuples of any of these, types, functions, modules and other host objects, array views

Only run-time values and literals can differ between the branches of a run-time condition or the iterations of a loop.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.builtins.language.function import Function
from jaxwarp.builtins.language.shown import OfInstances, parsed
from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import InternalError, KernelError, KernelTypeError, object_text
from jaxwarp.frontend.text.functions import Func
from jaxwarp.ir import nodes as ir
from jaxwarp.quaternions import HostValue
from jaxwarp.types import (
    HANDLE,
    SCALAR_BY_DTYPE,
    Aggregate,
    Array,
    Mat,
    NamedPart,
    Scalar,
    Struct,
    TileType,
    Vec,
    bool_,
    float32,
    int32,
    struct_of,
)

# Python's own functions that have a meaning in kernels, filled where those are defined.
PYTHON_OBJECTS: dict[Any, Any] = {}
# What kernels may name without importing it, as in Warp, where nothing else has the name; filled likewise.
BARE_NAMES: dict[str, Any] = {}

PYTHON_TYPES: dict[Any, Scalar] = {bool: bool_, int: int32, float: float32}


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of a view: `index` where it is fixed; else `extent` elements (None: all of it) from `offset` on, each
    `step` behind the one before (None: 1), or those whose numbers are in `through`, an array.

    An index of a slice has a `test` for debug mode, which is made where an element is read or written: the index along
    the slice, the slice's extent, and what the axis is called.
    """

    index: ir.Value | None = None
    offset: ir.Value | None = None
    extent: ir.Value | None = None
    step: ir.Value | None = None
    through: View | None = None
    test: tuple[ir.Value, ir.Value, str] | None = None

    @property
    def parts(self) -> tuple[ir.Value | View | None, ...]:
        """The parts that can differ between axes of two views of one array; None for a part that the axis lacks."""
        return self.index, self.offset, self.extent, self.step, self.through


@dataclass(frozen=True, eq=False)
class InMemory:
    """The place of an array that an id's object has, all int64: its first scalar, in the memory that is the view's
    parameter; how many elements it has; how many scalars these are apart."""

    start: ir.Value
    count: ir.Value
    stride: ir.Value

    @property
    def parts(self) -> tuple[ir.Value, ...]:
        return self.start, self.count, self.stride


@dataclass(frozen=True, eq=False)
class View:
    """An array parameter, or a part of one: one entry per array axis.

    `given`: whether there is an array, and not None in its place; None: there is. `within`: the parameter is all
    memory, and the array is there, of one axis or of rows side by side; see docs/design/0054.
    """

    param: ir.Param
    dtype: Scalar | Aggregate
    axes: tuple[Axis, ...]
    given: ir.Value | None = None
    within: InMemory | None = None

    @property
    def name(self) -> str:
        return self.param.name

    @property
    def free(self) -> tuple[int, ...]:
        """The parameter's axes that are not fixed: those of this view."""
        return tuple(k for k, axis in enumerate(self.axes) if axis.index is None)

    @property
    def ndim(self) -> int:
        return len(self.free)

    @property
    def type(self) -> Array:
        return Array(self.dtype, self.ndim)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A part of one of several arrays of one type: that of `views` whose number is `which` in the launch.

    `given` is as in `View`. Without views it is a part of None: no thread goes on to where it is used.
    """

    dtype: Scalar | Aggregate
    ndim: int
    which: ir.Value
    views: tuple[View, ...]
    numbers: tuple[int, ...]
    given: ir.Value | None = None
    name: str = ""

    @property
    def type(self) -> Array:
        return Array(self.dtype, self.ndim)


@dataclass(frozen=True, eq=False)
class ElementAddress:
    """`view.ptr + offset`: the place of a byte of an array."""

    view: View
    offset: int = 0

    @property
    def type(self) -> str:
        """Its type in a message."""
        return f"the address of {self.view.name}"


@dataclass(frozen=True, eq=False)
class NoArray:
    """None in place of an array of a type (None: of any), which a parameter of this name was to be."""

    type: Array | None = None
    name: str = ""
    hint: str = ""  # what to do where it is needed


@dataclass(frozen=True, eq=False)
class ElementValue:
    """One element of an array, not loaded yet; with `component` set, one component or row of it; with `part`, some
    components of it."""

    view: View | Chosen
    component: tuple[Any, ...] = ()
    part: NamedPart | None = None

    @property
    def views(self) -> tuple[View, ...]:
        """The places that it may be at, each in another array."""
        return self.view.views if isinstance(self.view, Chosen) else (self.view,)


@dataclass(frozen=True, eq=False)
class StructValue:
    """A struct: the value of each field. Of one in an array, not loaded yet, they are elements."""

    type: Struct
    values: tuple[Any, ...]

    def replaced(self, index: int, value: object) -> StructValue:
        """The struct with another value of one field."""
        return StructValue(self.type, (*self.values[:index], value, *self.values[index + 1 :]))


@dataclass(frozen=True, eq=False)
class StructView:
    """An array of structs, or a part of one: for each field an array, whose first `ndim` axes are those of this one."""

    dtype: Struct
    ndim: int
    views: tuple[View | StructView | NoArray, ...]

    @property
    def type(self) -> Array:
        return Array(self.dtype, self.ndim)

    @property
    def name(self) -> str:
        """The name of the array, which is the start of the names of its fields' parameters."""
        first = self.views[0]
        return first.name.rpartition(".")[0]


@dataclass(frozen=True, eq=False)
class Tile:
    """A tile: `shape` elements of an array of the thread's own.

    `place(frame, indices)` gives the indices in the array of the element that has `indices` in the tile; where it is
    broadcast (`repeats`), several indices have one element.
    """

    storage: View | StructView
    shape: tuple[int, ...]
    place: Callable[[Any, tuple[ir.Value, ...]], tuple[ir.Value, ...]]
    repeats: bool = False

    @property
    def dtype(self) -> Any:
        return self.storage.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def name(self) -> str:
        """The name of the array."""
        return self.storage.name

    @property
    def type(self) -> TileType:
        return TileType(self.dtype, self.shape)


@dataclass(frozen=True, eq=False)
class TileStack:
    """A stack: a tile of what is on it, and of how much that is."""

    values: Tile
    count: Tile

    @property
    def type(self) -> str:
        return f"a stack of {self.values.dtype!r}"


@dataclass(frozen=True, eq=False)
class Shape:
    """`a.shape`: its extents are read when asked for."""

    view: View | Chosen


@dataclass(frozen=True, eq=False)
class Slice:
    """`start:stop:step` in an index, evaluated; None where left out."""

    start: Any
    stop: Any
    step: Any = None


class Prototype(Bundle):
    """The zeros of a type that was made in the kernel, `types.vector(length=5, dtype=float)`; can be called as it."""


@dataclass(frozen=True, eq=False)
class Host:
    """Any other Python object that a kernel's text can name: a module, a class, an instance."""

    value: Any


@dataclass(frozen=True, eq=False)
class Undefined:
    """A variable that has no value here; `reason` completes "x is not defined here: ".

    It has `value` where `test` is known to be `truth`, or, if it `is_checked`, where that is found in the launch.
    `loop` can hand on what an earlier iteration has set, once the type is known.
    """

    reason: str
    conditional: bool = False
    test: ir.Value | None = None
    truth: bool = True
    value: Any = None
    is_checked: bool = False
    loop: Any = None


class NoValue:
    """The result of a function that returns nothing."""


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """A function of the language that needs more than values: `tid`, atomics, `static`, `len`.

    What lowers its unevaluated calls is registered with `frame.lowers`.
    """

    name: str
    doc: str = ""
    signature: str = ""
    host: Callable[..., Any] | None = None

    @property
    def __name__(self) -> str:
        return self.name

    __doc__ = OfInstances(lambda self: f"{self.signature}\n\n{self.doc}", __doc__)  # pyright: ignore
    __signature__ = OfInstances(lambda self: parsed(self.signature))

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.host is not None:
            try:
                return self.host(*args, **kwargs)
            except (TypeError, ValueError) as error:
                if isinstance(error, KernelError):
                    raise
                raise KernelTypeError(f"{self.name}: {error}", hint=f"the signature is {self.signature}") from None
        raise KernelTypeError(f"{self.name}() can only be called inside a kernel", hint="call it in a @kernel or @func")

    def __repr__(self) -> str:
        return f"<jaxwarp function {self.name}>"


@dataclass(frozen=True, eq=False)
class Gradient:
    """`grad(f)`; `apply(frame, node, gradient, args, keywords)` lowers a call of it."""

    function: Differentiable
    apply: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Expanded:
    """A function of the language that a library decides anew for each call, by the types of the arguments.

    `expand(call, args, keywords)` is given evaluated arguments, and gives what the call is; `call(function, args,
    keywords)` lowers the call of another one.
    """

    name: str
    expand: Callable[..., Any]

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise KernelTypeError(f"{self.name}() can only be called inside a kernel", hint="call it in a @kernel or @func")


# What has a gradient: a function of the language, a gradient of one, a builtin function (in a `Host`).
Differentiable = Func | Gradient | Host


def is_literal(value: object) -> bool:
    return isinstance(value, (bool, int, float))


def is_object(value: object) -> bool:
    """A mesh, or whatever else may stand where Warp has a number that names it."""
    return isinstance(value, StructValue) and getattr(value.type.kind, HANDLE, False)


def is_dynamic(value: object) -> bool:
    """A value that can differ between branches: a scalar, a bundle, a literal."""
    return isinstance(value, (ir.Value, Bundle)) or is_literal(value)


def type_of(value: object) -> Any:
    """The language type of a value; None where it has none (functions, modules)."""
    if isinstance(value, (ir.Value, Bundle, View, Chosen, StructValue, StructView, Tile)):
        return value.type
    if is_literal(value):
        return PYTHON_TYPES[type(value)]
    return None


def describe(value: object) -> str:
    """A value in a message: its type, or what it is."""
    match value:
        case bool() | int() | float():
            return f"the constant {value}"
        case (
            ir.Value()
            | Bundle()
            | View()
            | ElementAddress()
            | Chosen()
            | StructValue()
            | StructView()
            | Tile()
            | TileStack()
        ):
            return str(value.type)
        case ElementValue():
            return repr(value.view.dtype)
        case tuple():
            return f"a tuple of {len(value)}"
        case Shape():
            return "a shape"
        case Scalar() | Aggregate() | Struct():
            return f"the type {value!r}"
        case type() if issubclass(value, NoValue):
            return "nothing (the function returns no value)"
        case Gradient():
            return f"the gradient of {describe(value.function)}"
        case Func() | Intrinsic():
            return f"the function {value.name}"
        case NoArray():
            return "None"
        case Host(value=types.ModuleType() as module):
            return f"the module {module.__name__}"
        case Host(value=Function() as function):
            return f"the function {function.name}"
        case Host(value=host):
            return object_text(host)
        case _:
            raise InternalError(f"a value of the frontend without a description: {value!r}")


def known_text(value: Any) -> str | None:
    """The text that a value of a kernel's text is: literal, captured, or of an enumeration; None: it is none."""
    found = value.value if isinstance(value, Host) else value
    found = found.value if isinstance(found, enum.Enum) else found
    return str(found) if isinstance(found, str) else None


def capture(value: object) -> Any:
    """A host value as a value of the language, where it has a meaning there; else wrapped in `Host`.

    NumPy scalars and arrays become `Host` too: they are typed constants, made by the frame that uses them.
    """
    if isinstance(value, enum.Enum) and isinstance(value, int):
        return int(value)
    if isinstance(value, np.generic):
        return Host(value)
    if isinstance(value, (bool, int, float)):
        return value
    if value is None:
        return NoArray()
    if isinstance(value, (types.BuiltinFunctionType, types.FunctionType, type)):
        value = PYTHON_OBJECTS.get(value, value)
    if isinstance(value, (Scalar, Aggregate, Struct, Intrinsic, Func)):
        return value
    if (found := struct_of(value)) is not None:
        return found
    if isinstance(value, type) and value in PYTHON_TYPES:
        return PYTHON_TYPES[value]
    if isinstance(value, tuple):
        return tuple(capture(v) for v in value)
    return Host(value)


def host_constant(value: object) -> tuple[Scalar | Aggregate, np.ndarray] | None:
    """The type and components of a NumPy scalar or small array; None if it is no value of the language."""
    if not isinstance(value, (np.generic, np.ndarray)) or value.dtype not in SCALAR_BY_DTYPE:
        return None
    scalar = SCALAR_BY_DTYPE[value.dtype]
    array = np.asarray(value)
    if isinstance(value, HostValue) and value.type is not None:
        return value.type, array
    match array.shape:
        case ():
            return scalar, array
        case (n,) if n > 0:
            return Vec(n, scalar), array
        case (rows, columns) if rows > 0 and columns > 0:
            return Mat(rows, columns, scalar), array
        case _:
            return None
