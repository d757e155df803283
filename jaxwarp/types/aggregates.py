"""Vectors, matrices, quaternions and transforms: types of values that are made of scalars of one type."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jaxwarp.boundary import boundary, guarded
from jaxwarp.conversions import require_unmasked, require_whole
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.quaternions import IDENTITY_ROTATION, HostValue, quat_product, transform_product
from jaxwarp.types.scalars import PYTHON_TYPES, Scalar, letter, type_name, value_type


class _OneOfEach(type):
    """A metaclass that makes equal instances one object, so that `is` tells types apart as `==` does."""

    def __call__(cls, *parameters: Any, **named: Any) -> Any:
        made = super().__call__(*parameters, **named)
        return _KNOWN.setdefault((cls, made), made)


_KNOWN: dict[tuple[type, Any], Any] = {}


@guarded
class Aggregate(metaclass=_OneOfEach):
    """A type made of components of one scalar type: a vector, a matrix, a quaternion, a transform.

    Calling it makes a NumPy array on the host.
    """

    dtype: Any  # Scalar, or typing.Any in a generic signature

    @property
    def __name__(self) -> str:
        """The name that a Python type has: Warp's name of it, `vec3f`."""
        return self.short_name

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def parameters(self) -> tuple[Any, ...]:
        """The parameters that define the type within its kind: each may be `typing.Any` in a generic signature."""
        raise NotImplementedError

    # Whether values outside of kernels compute with arrays of NumPy, as these do.
    is_open: ClassVar[bool] = True

    @property
    def short_name(self) -> str:
        """`vec3f`, `mat22d`, as Warp calls it; of one without such a name how it is made."""
        raise NotImplementedError

    def section(self, shape: tuple[int, ...]) -> Aggregate | None:
        """The type of a part of a value outside of kernels, of this shape; None if it has none."""
        match shape:
            case (n,):
                return Vec(n, self.dtype)
            case (rows, columns):
                return Mat(rows, columns, self.dtype)
            case _:
                return None

    def product(self, a: np.ndarray, other: Any, b: np.ndarray) -> tuple[Aggregate, np.ndarray] | None:
        """`a * b` of a value of this type and one of another outside of kernels, and its type; None: there is none."""
        del a, other, b
        return None

    def with_dtype(self, dtype: Any) -> Aggregate:
        """The same of another scalar type."""
        names: tuple[str, ...] = getattr(self, "__match_args__")  # noqa: B009 - of those that are dataclasses
        return type(self)(**{name: getattr(self, name) for name in names} | {"dtype": dtype})

    @property
    def parts(self) -> dict[str, NamedPart]:
        """The parts that have a name: `v.x`, `t.p`."""
        return {}

    @property
    def forms(self) -> tuple[tuple[Any, ...], ...]:
        """The arguments that it can be made of, other than components: their types."""
        return ()

    @property
    def keywords(self) -> tuple[tuple[str, ...], ...]:
        """The names of the arguments of its constructors."""
        return ()

    def arguments(self, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of a constructor, by position. Names may repeat its dtype, length and shape.

        Raises:
            KernelTypeError: a name is unknown, given twice, or missing.
        """
        if not named:
            return values
        own = {"dtype": self.dtype, "shape": self.shape, "length": self.shape[0] if len(self.shape) == 1 else None}
        named = {n: v for n, v in named.items() if n not in own or not _repeats(v, own[n])}
        if not named:
            return values
        for names in self.keywords:
            rest = names[len(values) :]
            missing = [n for n in rest if n not in named]
            if set(named) <= set(rest) and missing == list(rest[len(rest) - len(missing) :]):
                return (*values, *(named[n] for n in rest if n in named))
        raise KernelTypeError(
            f"{self}: cannot be made of {len(values)} values and {', '.join(named)}",
            hint=" or ".join(f"write {self}({', '.join(f'{n}=...' for n in names)})" for names in self.keywords)
            or "pass the values by position",
        )

    __or__, __ror__ = Scalar.__or__, Scalar.__ror__
    __subclasscheck__ = Scalar.__subclasscheck__

    def __instancecheck__(self, value: Any) -> bool:
        """`isinstance(v, vec3)`: of a value outside of kernels."""
        return isinstance(value, HostValue) and value.type == self

    def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type, ...]:
        """`class vec5(types.vector(5, float)): pass` is another name for the type."""
        return (_Renamed,)

    # Names that generic programs for Warp ask types for.

    @property
    def _wp_scalar_type_(self) -> Any:
        return self.dtype

    @property
    def _shape_(self) -> tuple[int, ...]:
        return self.shape

    @property
    def _length_(self) -> int:
        return self.size

    @boundary
    def from_buffer(self, buffer: Any, offset: int = 0) -> HostValue:
        """A value outside of kernels whose components are in the memory of another object, which may be written.

        Args:
            buffer: writable memory: an array of NumPy, a bytearray.
            offset: where the value begins, in bytes.

        Raises:
            KernelTypeError: it is no writable memory without gaps.
            KernelValueError: the value does not fit there.
        """
        return _in_memory(self, "from_buffer", _writable_memory_of(self, buffer), offset)

    @boundary
    def from_buffer_copy(self, buffer: Any, offset: int = 0) -> HostValue:
        """A value outside of kernels, of components that are read from the memory of another object.

        Args:
            buffer: memory: an array of NumPy, bytes.
            offset: where the value begins, in bytes.

        Raises:
            KernelTypeError: it is no memory without gaps.
            KernelValueError: the value does not fit there.
        """
        return _in_memory(self, "from_buffer_copy", _memory_of(self, "from_buffer_copy", buffer), offset).copy()

    def __mul__(self, count: int) -> SeveralInMemory:
        """`(vec2 * 3).from_buffer_copy(memory)`: several values from memory, one after the other."""
        if not isinstance(count, int) or count < 0:
            raise KernelTypeError(
                f"{self} * {count!r}: expected a number of values, got {type_text(count)}",
                hint="a type times a number is the type of as many values in memory; make a value before you scale it",
            )
        return SeveralInMemory(self, count)

    @boundary
    def __call__(self, *values: Any, **named: Any) -> HostValue:
        return _host_value(self, self.arguments(values, named))


@dataclass(frozen=True, slots=True)
class SeveralInMemory:
    """Several values of a type, one after the other in the memory of another object."""

    type: Aggregate
    count: int

    def __repr__(self) -> str:
        return f"({self.type} * {self.count})"

    @boundary
    def from_buffer(self, buffer: Any, offset: int = 0) -> list[HostValue]:
        """Return values whose components stay in the memory, which may be written.

        Args:
            buffer: writable memory: an array of NumPy, a bytearray.
            offset: where the first value begins, in bytes.

        Raises:
            KernelTypeError: it is no writable memory without gaps.
            KernelValueError: the values do not fit there.
        """
        memory = _writable_memory_of(self, buffer)
        return [_in_memory(self.type, "from_buffer", memory, at) for at in self._places("from_buffer", memory, offset)]

    @boundary
    def from_buffer_copy(self, buffer: Any, offset: int = 0) -> list[HostValue]:
        """Return values with components of their own, which are read from the memory.

        Args:
            buffer: memory: an array of NumPy, bytes.
            offset: where the first value begins, in bytes.

        Raises:
            KernelTypeError: it is no memory without gaps.
            KernelValueError: the values do not fit there.
        """
        name = "from_buffer_copy"
        memory = _memory_of(self, name, buffer)
        return [_in_memory(self.type, name, memory, at).copy() for at in self._places(name, memory, offset)]

    def _places(self, name: str, memory: memoryview, offset: int) -> range:
        step = self.type.size * self.type.dtype.numpy.itemsize
        _require_room(self, name, memory, offset, step * self.count)
        return range(offset, offset + step * self.count, step)


def _repeats(given: Any, own: Any) -> bool:
    """Return whether an argument is what the type says of itself."""
    if isinstance(given, type):
        return PYTHON_TYPES.get(given) == own
    return isinstance(given, Scalar | int | tuple) and given == own


def _memory_of(t: Aggregate | SeveralInMemory, name: str, buffer: Any) -> memoryview:
    try:
        return memoryview(buffer).cast("B")
    except (TypeError, ValueError, BufferError) as error:
        raise KernelTypeError(
            f"{t}.{name}: expected memory without gaps, got {type_text(buffer)}: {error}",
            hint="pass bytes, or an array of NumPy; of a part of one a copy",
        ) from None


def _writable_memory_of(t: Aggregate | SeveralInMemory, buffer: Any) -> memoryview:
    memory = _memory_of(t, "from_buffer", buffer)
    if memory.readonly:
        raise KernelTypeError(f"{t}.from_buffer: the memory is read-only", hint="use from_buffer_copy")
    return memory


def _require_room(t: Aggregate | SeveralInMemory, name: str, memory: memoryview, offset: int, size: int) -> None:
    if not 0 <= offset <= len(memory) - size:
        raise KernelValueError(
            f"{t}.{name}: {size} bytes from byte {offset} on do not fit: there are {len(memory)}",
            hint="the memory begins with the components, one after the other",
        )


def _in_memory(t: Aggregate, name: str, memory: memoryview, offset: int) -> HostValue:
    _require_room(t, name, memory, offset, t.size * t.dtype.numpy.itemsize)
    made = np.frombuffer(memory, t.dtype.numpy, t.size, offset).reshape(t.shape).view(HostValue)
    made.__dict__["type"] = t
    return made


class _Renaming(type):
    """Makes a type of this package of a class statement that has it as its base."""

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, members)
        given = members.get("__orig_bases__", ())
        own = [member for member in members if not member.startswith("__")]
        functions = {n: members[n] for n in own if hasattr(members[n], "overloads")}
        if len(given) == 1 and own and len(functions) == len(own):
            _add_functions(name, given[0], functions)
        elif len(given) != 1 or own:
            raise KernelTypeError(
                f"class {name}: expected {given[0]} as its only base, and no members, got {', '.join(own) or given}",
                hint=f"write {name} = {given[0]}, and functions beside it",
            )
        return given[0]


def _add_functions(name: str, t: Aggregate, functions: dict[str, Any]) -> None:
    """Give a type the functions of a class that has it as its base.

    Raises:
        KernelTypeError: the type has another attribute of such a name.
    """
    for each, function in functions.items():
        known = vars(t).get(each)
        if hasattr(t, each) and (known is None or getattr(known, "key", None) != function.key):
            raise KernelTypeError(
                f"class {name}: {t} has another {each}: classes with this base are one type",
                hint="give the function another name, or write it beside the class",
            )
        object.__setattr__(t, each, function)


class _Renamed(metaclass=_Renaming):
    """Stands for a type of this package among the bases of a class."""


@guarded
class NamedPart(NamedTuple):
    """A part of an aggregate that has a name: its type and its first component."""

    dtype: Any
    start: int

    @property
    def size(self) -> int:
        return 1 if isinstance(self.dtype, Scalar) else self.dtype.size


_AXES = ("x", "y", "z", "w")


@guarded
@value_type
class Vec(Aggregate):
    """A vector of `length` components."""

    length: int
    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def parameters(self) -> tuple[Any, ...]:
        return (self.length, self.dtype)

    @property
    def parts(self) -> dict[str, NamedPart]:
        return {name: NamedPart(self.dtype, k) for k, name in enumerate(_AXES[: self.length])}

    @property
    def forms(self) -> tuple[tuple[Any, ...], ...]:
        return ((Vec(3, self.dtype),) * 2,) if self.length == 6 else ()

    @property
    def short_name(self) -> str:
        if self.length in (2, 3, 4) and letter(self.dtype):
            return f"vec{self.length}{letter(self.dtype)}"
        return f"vector(length={type_name(self.length)}, dtype={type_name(self.dtype)})"

    def product(self, a: np.ndarray, other: Any, b: np.ndarray) -> tuple[Aggregate, np.ndarray] | None:
        return _matrix_product(self, a, other, b)

    def __repr__(self) -> str:
        return f"vec{type_name(self.length)}[{type_name(self.dtype)}]"


@guarded
@value_type
class Mat(Aggregate):
    """A row-major matrix."""

    rows: int
    columns: int
    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, self.columns)

    @property
    def parameters(self) -> tuple[Any, ...]:
        return (self.rows, self.columns, self.dtype)

    @property
    def short_name(self) -> str:
        if all(n in (2, 3, 4) for n in self.shape) and letter(self.dtype):
            return f"mat{self.rows}{self.columns}{letter(self.dtype)}"
        shape = f"({type_name(self.rows)}, {type_name(self.columns)})"
        return f"matrix(shape={shape}, dtype={type_name(self.dtype)})"

    def product(self, a: np.ndarray, other: Any, b: np.ndarray) -> tuple[Aggregate, np.ndarray] | None:
        return _matrix_product(self, a, other, b)

    def __repr__(self) -> str:
        return f"mat{type_name(self.rows)}x{type_name(self.columns)}[{type_name(self.dtype)}]"


@guarded
@value_type
class Quat(Aggregate):
    """A quaternion x i + y j + z k + w; its components in this order."""

    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return (4,)

    @property
    def parameters(self) -> tuple[Any, ...]:
        return (self.dtype,)

    @property
    def parts(self) -> dict[str, NamedPart]:
        return {name: NamedPart(self.dtype, k) for k, name in enumerate(_AXES)}

    @property
    def forms(self) -> tuple[tuple[Any, ...], ...]:
        return ((Vec(3, self.dtype), self.dtype),)

    @property
    def keywords(self) -> tuple[tuple[str, ...], ...]:
        return (_AXES, ("ijk", "real"), ("quat",))

    is_open = False

    @property
    def short_name(self) -> str:
        return f"quat{letter(self.dtype)}" if letter(self.dtype) else f"quat(dtype={type_name(self.dtype)})"

    def product(self, a: np.ndarray, other: Any, b: np.ndarray) -> tuple[Aggregate, np.ndarray] | None:
        return (self, quat_product(a, b)) if other == self else None

    def __repr__(self) -> str:
        return f"quat[{type_name(self.dtype)}]"


@guarded
@value_type
class Transform(Aggregate):
    """A rigid motion: a translation `p` and after it in memory a unit quaternion `q`."""

    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return (7,)

    @property
    def parameters(self) -> tuple[Any, ...]:
        return (self.dtype,)

    @property
    def parts(self) -> dict[str, NamedPart]:
        return {"p": NamedPart(Vec(3, self.dtype), 0), "q": NamedPart(Quat(self.dtype), 3)}

    @property
    def forms(self) -> tuple[tuple[Any, ...], ...]:
        return ((Vec(3, self.dtype), Quat(self.dtype)), (Vec(3, self.dtype),))

    @property
    def keywords(self) -> tuple[tuple[str, ...], ...]:
        return (("p", "q"),)

    is_open = False

    @property
    def short_name(self) -> str:
        return f"transform{letter(self.dtype)}" if letter(self.dtype) else f"transform(dtype={type_name(self.dtype)})"

    def product(self, a: np.ndarray, other: Any, b: np.ndarray) -> tuple[Aggregate, np.ndarray] | None:
        return (self, transform_product(a, b)) if other == self else None

    def __repr__(self) -> str:
        return f"transform[{type_name(self.dtype)}]"


Element = Scalar | Aggregate


def _matrix_product(left: Aggregate, a: np.ndarray, right: Any, b: np.ndarray) -> tuple[Aggregate, np.ndarray] | None:
    """Matrix times matrix, matrix times column, row times matrix, of one component type."""
    is_product = isinstance(right, Vec | Mat) and Mat in (type(left), type(right)) and left.dtype == right.dtype
    if not is_product or left.shape[-1] != right.shape[0]:
        return None
    made = a @ b
    return left.section(made.shape) or left, made


_NUMBERS = frozenset((int, float))


def _host_value(t: Aggregate, values: tuple[Any, ...]) -> HostValue:
    if not isinstance(t.dtype, Scalar):
        raise KernelTypeError(
            f"{t} is generic and has no values; use a type with a dtype, like vec3 or mat33",
            hint="write vec3(...), or types.vector(length=3, dtype=float)(...)",
        )
    # NumPy takes these as they are.
    is_plain = len(values) == t.size and t.dtype.is_float and _NUMBERS.issuperset(map(type, values))
    shape = t.shape
    components = np.array(values if is_plain else _host_components(t, values), t.dtype.numpy)
    return HostValue.view_of(t, components if len(shape) == 1 else components.reshape(shape))


def _component(t: Aggregate, value: object) -> Any:
    """Return an argument of a constructor, checked. Python integers wrap, as in scalar types."""
    if type(value) is int and t.dtype.is_int:
        return t.dtype(value)
    require_unmasked(value)
    if not holds_numbers(value):
        raise KernelTypeError(f"{t}: expected numbers, got {value!r}", hint=f"pass {t.size} numbers, or one for all")
    return value


def holds_numbers(value: Any) -> bool:
    """Return whether a value is a real number, or an array or nested sequence of real numbers.

    None is not one, though NumPy makes NaN of it.
    """
    try:
        return type(value) in (bool, int, float) or np.asarray(value).dtype.kind not in "OSUmMc"
    except (TypeError, ValueError):  # rows of different lengths
        return False


def _host_components(t: Aggregate, values: tuple[Any, ...]) -> np.ndarray:
    if len(values) == 0:
        return np.array((0.0, 0.0, 0.0, *IDENTITY_ROTATION) if isinstance(t, Transform) else (0,) * t.size)
    given = [_component(t, v) for v in values]
    if t.dtype.is_int:
        for value in given:
            require_whole(value, t.dtype, str(t))
    if len(given) == 1 and np.ndim(given[0]) == 0:
        return np.full(t.size, given[0])
    flat = np.concatenate([np.ravel(np.asarray(v, t.dtype.numpy)) for v in given])
    if isinstance(t, Transform) and len(values) == 1 and flat.size == 3:
        flat = np.append(flat, IDENTITY_ROTATION)
    if flat.size != t.size:
        raise KernelTypeError(
            f"{t}: expected 0, 1 or {t.size} components, got {flat.size}",
            hint=f"pass one value for all components, or {t.size} values",
        )
    return flat
