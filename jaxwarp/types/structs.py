"""Types of structs, each of which is a type of its own, and of what consists of them."""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from dataclasses import dataclass
from typing import Any

from jaxwarp.boundary import boundary, call_for_user, guarded
from jaxwarp.types.aggregates import Vec
from jaxwarp.types.arrays import Array
from jaxwarp.types.ids import NAMED, Id
from jaxwarp.types.scalars import HANDLE, float32, float64, int32, int64, uint32

ABSENT_HINTS = "__jaxwarp_absent_hints__"
"""What a class says of its fields that may be None: what to do where a kernel needs one, by name."""


@guarded
@dataclass(frozen=True)
class StructField:
    """A field of a struct. `default` makes its default value; None: it has none, and is zero, or no array."""

    name: str
    type: Any  # Scalar, Vec, Mat, Array, Struct
    default: Any = None
    is_static: builtins.bool = False


@guarded
@dataclass(frozen=True, eq=False)
class Struct:
    """A struct: named fields in order. `kind` is the class that `@struct` decorates, whose instances are its values."""

    kind: type
    fields: tuple[StructField, ...]

    def __eq__(self, other: object) -> builtins.bool:
        return self is other or other is self.kind

    def __hash__(self) -> int:
        return hash(self.kind)

    def __reduce__(self) -> Any:
        """Reduce a struct to its class, which is pickled by its name."""
        return (struct_of, (self.kind,)) if struct_of(self.kind) is self else super().__reduce_ex__(2)

    @property
    def name(self) -> str:
        return self.kind.__name__

    @functools.cached_property
    def by_name(self) -> dict[str, StructField]:
        """The fields by their names."""
        return {field.name: field for field in self.fields}

    def index(self, name: str) -> int | None:
        """The position of a field; None if there is none of that name."""
        return next((k for k, field in enumerate(self.fields) if field.name == name), None)

    @property
    def members(self) -> list[str]:
        """The constants and functions of the class that instances have, too."""
        names = dict.fromkeys(name for base in self.kind.__mro__[:-1] for name in vars(base))
        return [n for n in names if not n.startswith("_") and self.index(n) is None and _is_member(self.kind, n)]

    @boundary
    def __call__(self, *values: Any, **named: Any) -> Any:
        return call_for_user(self.kind, *values, **named)

    def __repr__(self) -> str:
        return self.name


@guarded
@dataclass(frozen=True, eq=False, repr=False)
class Indexed(Struct):
    """An indexed array: a struct of an array and indices outside of kernels, the array at those indices in kernels."""

    array: Array

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def ndim(self) -> Any:
        return self.array.ndim


def _is_member(kind: type, name: str) -> builtins.bool:
    """Neither computed when it is asked for, nor a method that all structs have."""
    found = inspect.getattr_static(kind, name)
    is_method = isinstance(found, types.FunctionType) and found.__module__.partition(".")[0] == _PACKAGE
    return not (is_method or isinstance(found, property | classmethod))


_PACKAGE = __name__.partition(".")[0]

# The attribute of a class that holds its `Struct`.
STRUCT = "__jaxwarp_struct__"
# And of one that kernels can go over, the function that says how: see `func_next`.
NEXT = "__jaxwarp_next__"
# And the functions that say it by runs of items.
RUNS = "__jaxwarp_runs__"


def struct_of(kind: object) -> Struct | None:
    """The struct that a class is; None if it is none."""
    return vars(kind).get(STRUCT) if isinstance(kind, type) else None


def handled(value: object) -> Struct | None:
    """The struct that a value on the host is, or that its id names, if it may stand where uint64 is annotated."""
    kind = type(value.value if type(value) is Id else value)
    return struct_of(kind) if getattr(kind, HANDLE, False) else None


def meant(value: Any) -> Any:
    """The object that an id is of; any other value as it is."""
    return value.value if type(value) is Id else value


def struct_in(t: object) -> Struct | None:
    """The struct that a type, or the elements of an array type, are; None if they are none."""
    element = t.dtype if isinstance(t, Array) else t
    return element if isinstance(element, Struct) else None


def field_type(t: object, field: StructField) -> Any:
    """Return a field's type in a type made of structs: in an array of structs, an array with the same leading axes."""
    if not isinstance(t, Array):
        return field.type
    inner = field.type
    return Array(inner.dtype, t.ndim + inner.ndim) if isinstance(inner, Array) else Array(inner, t.ndim)


def leaves_in_handles(name: str, t: object) -> list[str]:
    """Return the leaves of a type that are parts of a mesh, a grid, or another object that Warp names by a number."""
    found = struct_in(t)
    if found is None:
        return []
    if getattr(found.kind, HANDLE, False):
        return [leaf for leaf, _ in leaves_of(name, t)]
    return [leaf for f in found.fields for leaf in leaves_in_handles(f"{name}.{f.name}", field_type(t, f))]


def id_leaves(struct: Struct) -> list[list[tuple[str, Any]]]:
    """The leaves of a class whose objects have ids, each with the types that it may have, if its annotation leaves that
    open: kernels ask for one of these."""
    named = getattr(struct.kind, NAMED, None)
    found = [(name.removeprefix("."), type_) for name, type_ in leaves_of("", struct)]
    return [_typed_leaves(name, named.types.get(name, type_) if named else type_) for name, type_ in found]


def _typed_leaves(name: str, type_: Any) -> list[tuple[str, Any]]:
    dtype = type_.dtype if isinstance(type_, Array) else None
    if dtype is Any:
        return [(name, Array(scalar, type_.ndim)) for scalar in OPEN]
    if isinstance(dtype, Vec) and dtype.dtype is Any:
        return [(name, Array(Vec(dtype.length, scalar), type_.ndim)) for scalar in OPEN]
    return [(name, type_)]


OPEN = (float32, float64, int32, int64, uint32)


def leaves_of(name: str, t: object) -> list[tuple[str, Any]]:
    """Return the leaves of a type by name: `s.x`, `s.inner.v`. A type without structs is one leaf, itself."""
    found = struct_in(t)
    if found is None:
        return [(name, t)]
    return [leaf for f in found.fields for leaf in leaves_of(f"{name}.{f.name}", field_type(t, f))]
