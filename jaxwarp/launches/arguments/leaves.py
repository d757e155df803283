"""Structs as arguments: what a call is given as the arrays and numbers that a launch has, results as structs again.

A call takes structs apart before anything else looks at its arguments, so launches, and all transformations of JAX, see
leaves only.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jax import export

from jaxwarp.errors import KernelTypeError, KernelValueError, did_you_mean, type_text
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.argument import CallParameter
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT
from jaxwarp.memory.live_array import MemoryArray
from jaxwarp.types import Array, Indexed, Struct, field_type, handled, leaves_of, meant, struct_in


def count_outputs(owner: str, num_outputs: int, outputs: str | Sequence[str] | None) -> int:
    """Return how many arguments are outputs: `num_outputs`, or as many as `outputs` names.

    Raises:
        KernelTypeError, KernelValueError: `outputs` is no name and no sequence of names, or both are given.
    """
    if outputs is None:
        return num_outputs
    if not isinstance(outputs, str | list | tuple) or not all(isinstance(name, str) for name in outputs):
        raise KernelTypeError(
            f"{owner}: outputs: expected a name or a tuple of names, got {outputs!r}",
            hint='name the arguments that the call returns: outputs="out", or outputs=("total", "out")',
        )
    if num_outputs != 1:
        raise KernelValueError(
            f"{owner}: outputs names the outputs, and num_outputs={num_outputs!r} counts them",
            hint="leave out num_outputs",
        )
    return 1 if isinstance(outputs, str) else len(outputs)


def form_of_results(
    owner: str, arguments: Sequence[CallParameter], outputs: str | Sequence[str] | None, named_outputs: bool
) -> Callable[[Iterable[Any]], Any] | None:
    """Return a function that makes what a call returns of its list of results; None where that is the list.

    With `outputs` a call returns what a function of JAX would: one array, or a named tuple of several.

    Raises:
        KernelValueError: a name is none of an output, or cannot be that of a field.
    """
    names = tuple(dict.fromkeys(a.declared for a in arguments if a.role != INPUT))
    if outputs is not None:
        given = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        _require_names(owner, arguments, given, names)
        if isinstance(outputs, str):
            return _only
    elif not named_outputs:
        return None
    for name in names:
        if name.startswith("_"):
            option = "named_outputs" if outputs is None else "outputs"
            raise KernelValueError(
                f"{owner}: {option}: a field of a named tuple cannot be called {name!r}",
                hint="give the output a name that begins with a letter",
            )
    return _named_tuple(owner.rsplit(maxsplit=1)[-1], names)._make


def _require_names(
    owner: str, arguments: Sequence[CallParameter], given: tuple[str, ...], names: tuple[str, ...]
) -> None:
    declared = list(dict.fromkeys(a.declared for a in arguments))
    for name in given:
        if name not in declared:
            raise KernelValueError(
                f"{owner}: outputs: no argument is named {name!r}; the arguments are {', '.join(declared)}",
                hint=did_you_mean(name, declared) or f"outputs are the last arguments: outputs={declared[-1]!r}",
            )
    if given != names:
        inputs = [name for name in given if name not in names]
        hint = f"to update {inputs[0]}: in_out_argnames=[{inputs[0]!r}]" if inputs else "name them in this order"
        raise KernelValueError(
            f"{owner}: outputs: expected {', '.join(map(repr, names))}, got {', '.join(map(repr, given))}:"
            " outputs are the arguments of in_out_argnames and the last ones, in the order of the arguments",
            hint=hint,
        )


def _only(results: Iterable[Any]) -> Any:
    (result,) = results
    return result


@cache  # one type for all calls of a name: results of the same names are of one kind of pytree
def _named_tuple(name: str, names: tuple[str, ...]) -> Any:
    """A type that no module has: pickles and exported programs name it by what it is made of."""
    made: Any = namedtuple(name if name.isidentifier() else "Outputs", names)
    made.__reduce__ = lambda self: (_named, (name, names, *self))
    export.register_namedtuple_serialization(made, serialized_name=f"jaxwarp.{name}({', '.join(names)})")
    return made


def _named(name: str, names: tuple[str, ...], *values: Any) -> Any:
    return _named_tuple(name, names)(*values)


class _Part(NamedTuple):
    """An argument as declared, with the roles of its leaves."""

    where: str
    name: str
    type: Any
    roles: tuple[str, ...]


class Packing:
    """The mapping between the arguments of a function with structs and their leaves."""

    def __init__(self, declared: Sequence[tuple[str, Any]], arguments: Sequence[CallParameter]):
        remaining = list(reversed(arguments))
        self._parts: list[_Part] = []
        for name, type_ in declared:
            leaves = [remaining.pop() for _ in leaves_of(name, type_)]
            where = f"{leaves[0].owner} {leaves[0].kernel}: argument" if leaves else ""
            self._parts.append(_Part(where, name, type_, tuple(leaf.role for leaf in leaves)))

    @classmethod
    def of(cls, declared: Sequence[tuple[str, Any]], arguments: Sequence[CallParameter]) -> Packing | None:
        """None if there is no struct among the arguments."""
        return cls(declared, arguments) if any(struct_in(t) is not None for _, t in declared) else None

    def spread(self, values: Sequence[Any]) -> list[Any]:
        """The leaves of the inputs."""
        inputs = (p for p in self._parts if OUTPUT not in p.roles)
        pairs = zip(inputs, values, strict=True)
        return [leaf for p, value in pairs for leaf in _leaves(p.where, p.name, p.type, value)]

    def packed(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments, of all leaves."""
        remaining = iter(leaves)
        return [rebuilt(p.type, remaining) for p in self._parts]

    def require_same(self, arguments: Sequence[Any], leaves: Sequence[Any]) -> None:
        """Refuses that a function has put other arrays into a struct that it was given: the caller would not see it."""
        remaining = iter(leaves)
        for part, value in zip(self._parts, arguments, strict=True):
            names = [name for name, _ in leaves_of(part.name, part.type)]
            held = _leaves(part.where, part.name, part.type, value)
            for name, role, found in zip(names, part.roles, held, strict=True):
                if found is not next(remaining) and role != INPUT:
                    raise KernelTypeError(
                        f"{part.where} '{name}' has been replaced by another array, which the caller does not get",
                        hint=f"copy into it: jaxwarp.copy({name}, array)",
                    )

    def gathered(self, inputs: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """The results, of their leaves. What a struct has that the call does not update is that of the input."""
        given, made = iter(inputs), iter(results)
        found = []
        for part in self._parts:
            leaves = []
            for role in part.roles:
                old = None if role == OUTPUT else next(given)
                new = old if role == INPUT else next(made)
                # No array stays none: an empty one would be there for the next kernel.
                leaves.append(None if role == IN_OUT and old is None else new)
            if set(part.roles) - {INPUT}:
                found.append(rebuilt(part.type, iter(leaves)))
        return found


def spread(kernel: Kernel, values: Sequence[Any]) -> list[Any]:
    """The leaves of all arguments of a kernel."""
    if not kernel.has_structs:
        return list(values)
    pairs = zip(kernel.arguments, values, strict=True)
    return [leaf for argument, value in pairs for leaf in spread_argument(kernel, argument, value)]


def spread_argument(kernel: Kernel, argument: Any, value: object) -> list[Any]:
    """The leaves of one argument."""
    value, found = meant(value), list[Any]()
    paths = paths_of(argument.annotation) if isinstance(argument.annotation, Struct) else None
    if paths is None or not _take(paths, value, found):
        found.extend(_leaves(f"kernel {kernel.name}: argument", argument.name, argument.annotation, value))
    return found


def spread_struct(struct: Struct, value: object) -> list[Any]:
    """The leaves of an instance of a struct."""
    found: list[Any] = []
    paths = paths_of(struct)
    if paths is None or not _take(paths, value, found):
        found.extend(_leaves("", struct.name, struct, value))
    return found


Paths = tuple[type, tuple[tuple[str, Any], ...]]


@cache
def paths_of(struct: Struct) -> Paths | None:
    """The class of a struct, and the names of its fields with the same of those that are structs. None: it has indexed
    arrays, or arrays of structs."""
    fields = []
    for field in struct.fields:
        inner = paths_of(field.type) if isinstance(field.type, Struct) else None
        if inner is None and struct_in(field.type) is not None:
            return None
        fields.append((field.name, inner))
    return None if isinstance(struct, Indexed) else (struct.kind, tuple(fields))


def _take(paths: Paths, value: object, found: list[Any]) -> bool:
    """Appends the leaves of an instance of the class. False, with nothing appended: it is none, or holds others."""
    kind, fields = paths
    if type(value) is not kind:
        return False
    held, count = value.__dict__, len(found)
    for name, inner in fields:
        if inner is None:
            found.append(held[name])
        elif not _take(inner, held[name], found):
            del found[count:]
            return False
    return True


def _leaves(where: str, name: str, type_: object, value: object) -> Iterator[Any]:
    struct = struct_in(type_)
    if struct is None:
        yield value
        return
    value = meant(value)
    if value is None and struct is type_ and not isinstance(struct, Indexed):
        raise _no_struct(where, name, type_, "None", "")
    other = handled(value)
    if other is not None and not issubclass(other.kind, struct.kind):  # a texture of fewer axes has the same fields
        raise _no_struct(where, name, type_, other.name, "")
    for field in struct.fields:
        part = None if value is None else _part(where, name, type_, field.name, value)
        yield from _leaves(where, f"{name}.{field.name}", field_type(type_, field), part)


def _part(where: str, name: str, type_: Any, field: str, value: Any) -> Any:
    """A field of what is given for a struct: of an instance, of an array of structs, or of any other object or mapping
    that has it."""
    if isinstance(value, MemoryArray):
        given = getattr(value, "dtype", None)
        if not isinstance(given, Struct):
            raise _no_struct(where, name, type_, f"an array of {given!r}", "")
        if field not in [f.name for f in given.fields]:
            raise _no_struct(where, name, type_, f"an array of {given!r}", f" without {field}")
        return value.field(field)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        is_mapping = isinstance(value, Mapping) or (isinstance(value, np.ndarray) and value.dtype.names is not None)
        return value[field] if is_mapping else getattr(value, field)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    if isinstance(value, (list, tuple)) and isinstance(type_, Array):
        raise KernelTypeError(
            f"{where} '{name}': expected {_text(type_)}, got a {type(value).__name__}",
            hint=f"stack its structs: jax.tree.map(lambda *a: jax.numpy.stack(a), *{name})",
        )
    raise _no_struct(where, name, type_, type_text(value), f" without {field}")


def _no_struct(where: str, name: str, type_: object, given: str, lacking: str) -> KernelTypeError:
    struct = struct_in(type_)
    assert struct is not None
    if isinstance(struct, Indexed):
        return KernelTypeError(
            f"{where} '{name}': expected an {struct!r}, got {given}",
            hint=f"make one: jaxwarp.indexedarray({name}, [indices])",
        )
    listed = ", ".join(f.name for f in struct.fields)
    many = "with arrays of them" if isinstance(type_, Array) else ""
    return KernelTypeError(
        f"{where} '{name}': expected {_text(type_)}, got {given}{lacking}",
        hint=f"pass a {struct!r}, or a dataclass, named tuple or dictionary with {listed} {many}".rstrip(),
    )


def _text(type_: Any) -> str:
    if isinstance(type_, Struct):
        return f"struct {type_!r}"
    return f"an array of struct {type_.dtype!r} with {type_.ndim} ax{'is' if type_.ndim == 1 else 'es'}"


def rebuilt(type_: object, leaves: Iterator[Any]) -> Any:
    """A value of a type, of its leaves: an instance of the struct, without any check."""
    struct = struct_in(type_)
    if struct is None:
        return next(leaves)
    made = object.__new__(struct.kind)
    made.__dict__.update((f.name, rebuilt(field_type(type_, f), leaves)) for f in struct.fields)
    return made
