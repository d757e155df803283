"""`@struct`: classes whose instances are values of the kernel language, and pytrees of JAX.

The fields are the class's annotations. An instance holds whatever JAX puts there, since JAX rebuilds pytrees with
tracers, placeholders and None in place of values; what cannot be a kernel's argument is refused where it is one.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import json
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.export
import numpy as np

from jaxwarp.boundary import boundary, caller
from jaxwarp.errors import KernelError, KernelTypeError
from jaxwarp.structs.instances import METHODS, checked, initial, is_open
from jaxwarp.types import STRUCT, Array, Scalar, Struct, StructField, as_dtype, struct_of

_OWN = ("__init__", "__setattr__", "__slots__", "__new__")


@boundary
def struct(kind: Any = None, /, *, module: Any = None) -> Any:
    """Make a struct from a class with annotated fields: `@struct`.

    Fields are scalars, vectors, matrices, arrays and other structs. They may have defaults.
    `dataclasses.field(metadata={"static": True})` declares a field that JAX does not trace. Fields of base classes come
    first. The class gets a constructor, checks of assignments, `==` and `repr`, and is a pytree of JAX. The constructor
    takes values by position or by name. A field that you leave out has its default, or is zero; an array is then None.

    Args:
        kind: the class.
        module: accepted, no effect.

    Raises:
        KernelTypeError: an annotation is no type of the kernel language, or a default does not fit it.

    Examples:
        >>> @jaxwarp.struct
        ... class Particles:
        ...     mass: float
        ...     x: jaxwarp.array[jaxwarp.vec3]
        >>> Particles(mass=2.0).mass
        2.0
    """
    del module
    scope = caller()

    @boundary
    def decorate(kind: Any) -> Any:
        return _decorated(kind, {**scope.f_globals, **scope.f_locals})

    return decorate if kind is None else decorate(kind)


def _decorated(kind: Any, scope: Mapping[str, Any]) -> Any:
    if not isinstance(kind, type):
        raise KernelTypeError(f"@struct: expected a class, got {kind!r}", hint="write @struct above a class")
    for name in _OWN:
        if name in vars(kind) and not _is_dataclass(kind):
            raise KernelTypeError(
                f"struct {kind.__name__}: the class has {name}; a struct gets its own",
                hint="leave it out, and write a function that makes one",
            )
    fields = tuple(_fields(kind, scope))
    setattr(kind, STRUCT, Struct(kind, fields))
    for name, method in METHODS.items():
        if name in _OWN or name not in vars(kind) or _is_dataclass(kind):
            setattr(kind, name, method)
    setattr(kind, "__match_args__", tuple(f.name for f in fields))  # noqa: B010 - no type knows it
    _describe_as_dataclass(kind, fields)
    register(kind, fields)
    return kind


def _is_dataclass(kind: Any) -> bool:
    """Return whether the class is itself a dataclass: a subclass of a struct has the struct's description."""
    return "__dataclass_fields__" in vars(kind)


def _describe_as_dataclass(kind: Any, fields: Sequence[StructField]) -> None:
    """Makes `dataclasses.replace`, `fields` and `asdict` take instances."""
    described = [
        (f.name, f.type, dataclasses.field(default_factory=partial(initial, kind, f), metadata={"static": f.is_static}))
        for f in fields
    ]
    like = dataclasses.make_dataclass(kind.__name__, described, init=False, repr=False, eq=False)
    for name in ("__dataclass_fields__", "__dataclass_params__"):
        setattr(kind, name, getattr(like, name))


# Fields


def _fields(kind: type, scope: Mapping[str, Any]) -> Iterator[StructField]:
    """Inherited fields, then those of the class; one declared again keeps its place."""
    found: dict[str, StructField] = {}
    for base in reversed(kind.__mro__[1:]):
        inherited = struct_of(base)
        found.update({f.name: f for f in inherited.fields} if inherited is not None else {})
    for name, annotation in _annotations(kind).items():
        if not _is_class_variable(annotation):
            found[name] = _field(kind, name, annotation, scope)
    yield from found.values()


def _annotations(kind: type) -> Mapping[str, Any]:
    return inspect.get_annotations(kind)


def _is_class_variable(annotation: object) -> bool:
    if isinstance(annotation, str):
        return annotation.split("[")[0].rpartition(".")[2] == "ClassVar"
    return annotation is typing.ClassVar or typing.get_origin(annotation) is typing.ClassVar


def _field(kind: type, name: str, annotation: object, scope: Mapping[str, Any]) -> StructField:
    where = f"struct {kind.__name__}: field {name}"
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, {**scope, **vars(kind)})
        except Exception as error:
            raise KernelTypeError(
                f"{where}: the annotation {annotation!r} cannot be evaluated: {error}",
                hint="define or import the name before the struct",
            ) from error
    try:
        dtype = annotation if isinstance(annotation, Array) else as_dtype(annotation)
    except KernelError as error:
        raise KernelTypeError(f"{where}: {error.message}", hint=error.hint) from None
    if is_open(dtype) and not isinstance(dtype, Array):
        raise KernelTypeError(
            f"{where}: {annotation!r} is generic; a field has one type", hint=f"write {name}: float, or an array[Any]"
        )
    default, is_static = _declared(kind, name)
    field = StructField(name, dtype, None, is_static)
    if is_static and not isinstance(dtype, Scalar):
        raise KernelTypeError(
            f"{where} is static: expected a scalar type, got {dtype!r}", hint="leave static out: JAX traces arrays"
        )
    if default is not None:
        checked(kind, field, default(), is_strict=True)
    return dataclasses.replace(field, default=default)


def _declared(kind: type, name: str) -> tuple[Callable[[], Any] | None, bool]:
    """Return what makes a field's default, and whether the field is static."""
    missing = dataclasses.MISSING
    given = vars(kind).get(name, missing)
    if _is_dataclass(kind) and name in kind.__dataclass_fields__:
        given = kind.__dataclass_fields__[name]
    if not isinstance(given, dataclasses.Field):
        return (None if given is missing else lambda: copy.copy(given)), False
    if vars(kind).get(name) is given:
        delattr(kind, name)
    is_static = bool(given.metadata.get("static", False))
    if given.default_factory is not missing:
        return given.default_factory, is_static
    return (None if given.default is missing else lambda: copy.copy(given.default)), is_static


# JAX


def register(kind: type, fields: tuple[StructField, ...]) -> None:
    """Makes a class whose instances have these fields a pytree."""
    names = [f.name for f in fields if not f.is_static]
    static = [f.name for f in fields if f.is_static]
    keys = [jax.tree_util.GetAttrKey(name) for name in names]

    def flatten(value: object) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        held = value.__dict__
        return tuple([held[name] for name in names]), tuple([held[name] for name in static])

    def flatten_with_keys(value: object) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        children, fixed = flatten(value)
        return tuple(zip(keys, children, strict=True)), fixed

    def unflatten(fixed: tuple[Any, ...], children: Any) -> Any:
        made = object.__new__(kind)
        held = dict(zip(names, children, strict=True))
        held.update(zip(static, fixed, strict=True))
        made.__dict__.update({f.name: held[f.name] for f in fields})
        return made

    jax.tree_util.register_pytree_with_keys(kind, flatten_with_keys, unflatten, flatten)
    # A class of this name may have been there before: exported functions that take this one cannot be saved then.
    with contextlib.suppress(ValueError):
        jax.export.register_pytree_node_serialization(
            kind,
            serialized_name=f"{kind.__module__}.{kind.__qualname__}",
            serialize_auxdata=lambda fixed: json.dumps([_plain(v) for v in fixed]).encode(),
            deserialize_auxdata=lambda data: tuple(json.loads(bytes(data))),
        )


def _plain(value: Any) -> Any:
    """A static value as Python's own."""
    return value.item() if isinstance(value, np.generic) else value
