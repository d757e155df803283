"""Structs that are given to launches again and again: what was found out about them, for as long as it holds.

A mesh is some thirty arrays and numbers. To look at each takes several times as long as a small launch, and from one
launch to the next most structs hold the same objects, in the same place.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain
from operator import is_
from sys import getrefcount
from typing import Any

import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.leaves import Paths, paths_of, spread_argument
from jaxwarp.memory.host_scope import Outside
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.memory.tokens import ArrayMark, alike
from jaxwarp.quaternions import HostValue
from jaxwarp.types import Array, Struct, handled, leaves_of, meant, struct_of
from jaxwarp.unlocked import address_of

_NUMBERS = frozenset((float, int, bool))
VALUES = _NUMBERS | {type(None)}  # which never change; None is an array without elements


def token_of(value: Any) -> Any:
    """Return a token of everything about a value that affects a launch, except its address and contents. Return None if
    the value is not simple enough."""
    kind = type(value)
    if kind is HostArray or kind is LiveArray:
        return value.token
    if kind is np.ndarray:
        flags = value.flags
        plain = value.ndim and flags.c_contiguous and flags.aligned
        # A value may be given as an array of NumPy of another type, and is converted: not as an array of ours.
        return (np.ndarray, value.dtype, value.shape, flags.writeable) if plain else None
    if kind is HostValue:  # a vector and a quaternion are not taken for each other
        return (value.type, value.dtype, value.shape) if value.flags.c_contiguous else None
    return kind if kind in VALUES or isinstance(value, np.generic) else None


class Held:
    """A struct, while its fields hold the same objects, which are of the same kind and in the same place.

    Where what is passed by value has other contents, `operands` are given up.

    What it holds is kept until its next launch, or its own end.

    Attributes:
        leaves: the arrays and numbers that it consists of.
        token: what decides a launch on them but for where they are.
        operands: by what is known of a launch: where they are in it, and what they are as operands.
        mark: stands for all of it, what is passed by value included; another one when that has other contents.
    """

    __slots__ = (
        *("_arrays", "_contents", "_copied", "_fields", "_inner", "_layouts", "_memory", "_resizable"),
        *("_value", "leaves", "mark", "operands", "places", "token"),
    )

    def __init__(self, struct: Struct, value: Any, leaves: list[Any], fields: list[tuple[Any, tuple[Any, ...]]]):
        number = id(value)
        self._value = weakref.ref(value, lambda _: _found.pop(number, None))
        self.leaves = leaves
        # Not the struct itself, which would never end.
        self._fields, self._inner = fields[0][1], fields[1:]
        self.operands: dict[Any, tuple[list[int], list[Any]]] = {}
        self.mark = ArrayMark()
        self.places = [leaf._region.address for leaf in leaves if type(leaf) is HostArray]
        kinds = zip(leaves, _are_arrays(struct), strict=True)
        self._arrays = [(leaf, leaf.token) for leaf in leaves if type(leaf) is HostArray]
        # What a mesh, a grid or a volume has stays as it is: to see whether somebody reshapes it takes a microsecond.
        memory = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
        self._memory = [a for a in memory if a.flags.owndata] if handled(value) else memory
        self._layouts = [(a.shape, a.dtype, a.flags.num) for a in self._memory]
        # Of arrays of NumPy, views stay where they are; what has its own memory can be resized.
        self._resizable = [(a, address_of(a)) for a in self._memory if a.flags.owndata]
        self._copied = [leaf for leaf, is_array in kinds if not is_array and isinstance(leaf, np.ndarray)]
        self._contents = [a.tobytes() for a in self._copied]
        tokens = tuple([token_of(leaf) for leaf in leaves])
        self.token = None if None in tokens else alike(tokens)

    def holds(self, value: Any) -> bool:
        """Return whether nothing about the struct has changed, apart from the contents of values passed by value. If
        those have changed, drop `operands`."""
        if self._value() is not value or not _are_same(value, self._fields):
            return False
        for part, fields in self._inner:
            if not _are_same(part, fields):
                return False
        for array, token in self._arrays:
            if array.token is not token:
                return False
        if [(a.shape, a.dtype, a.flags.num) for a in self._memory] != self._layouts:
            return False
        for array, address in self._resizable:
            if address_of(array) != address:
                return False
        contents = [a.tobytes() for a in self._copied]
        if contents != self._contents:
            self._contents, self.operands, self.mark = contents, {}, ArrayMark()
        return True

    def has_fields(self, value: Any) -> bool:
        """Tell whether its fields hold the same objects, in the same places, with the same numbers."""
        if self._value() is not value or not _are_same(value, self._fields):
            return False
        for part, fields in self._inner:
            if not _are_same(part, fields):
                return False
        for array, address in self._resizable:
            if address_of(array) != address:
                return False
        return not self._copied or [a.tobytes() for a in self._copied] == self._contents

    def with_numbers(self, value: Any) -> Held | None:
        """Return a `Held` for a struct in which only numbers have changed, each to one of the same type. Return None if
        anything else has changed."""
        now, leaves = _fields_of(value), [*self.leaves]
        if self._value() is not value or len(now) != len(self._fields):
            return None
        for old, new in zip(self._fields, now, strict=True):
            if new is old:
                continue
            places = [i for i, leaf in enumerate(leaves) if leaf is old]
            if type(new) is not type(old) or type(new) not in _NUMBERS or len(places) != 1:
                return None
            leaves[places[0]] = new
        made = object.__new__(Held)  # other threads may launch with what was there
        for name in self.__slots__:
            setattr(made, name, getattr(self, name))
        made.leaves, made._fields, made.operands, made.mark = leaves, now, {}, ArrayMark()
        return made

    @property
    def references(self) -> dict[int, int]:
        """The number of references from here to each object, by the object's `id`."""
        inner = chain.from_iterable((part, *held) for part, held in self._inner)
        return Counter(map(id, chain(self.leaves, self._fields, inner, self._memory, self._copied)))

    @property
    def scope(self) -> Outside | None:
        """The scope of its first array."""
        return self._arrays[0][0].scope if self._arrays else None


def keep(value: Any, key: object, found: Any) -> None:
    """Keeps what was found out about a struct, for `kept`, which holds none of it."""
    if (held := _held_of(value)) is not None:
        held.operands[key] = found


def kept(value: Any, key: object) -> Any:
    """Return what was stored for a struct under a key. Return None if nothing was stored or the struct has changed."""
    held = _held_of(value)
    return None if held is None else held.operands.get(key)


def kept_of_fields(value: Any, key: object) -> Any:
    """The same in a third of the time, for what never changes by itself: nobody reshapes an array of the object's."""
    found = _found.get(id(value))
    return found.operands.get(key) if found is not None and found.has_fields(value) else None


def _held_of(value: Any) -> Held | None:
    struct = struct_of(type(value))
    return None if struct is None else _held(struct, value)


def are_held_alone(value: Any, structs: list[Any], arrays: list[np.ndarray]) -> bool:
    """Return whether nothing else refers to the structs and arrays in a struct, except the `Held` of this module, so
    that nobody can see them change.

    A current user, such as a running JAX program or a launch in another thread, also counts as a reference.

    Args:
        structs, arrays: each is in one field and otherwise only in these lists. Each array is a view of another array.
    """
    number = id(value)
    alone: list[Any] = [_found[number]] if number in _found else []
    known = alone[0].references if alone else {}
    alone += [array.base for array in arrays]
    if _counts(alone) != [_IN_LIST + 1] * len(alone):
        return False
    return all(_counts(x) == [_IN_LIST + 1 + known.get(id(y), 0) for y in x] for x in (structs, arrays))


def _counts(objects: list[Any]) -> list[int]:
    return list(map(getrefcount, objects))


_IN_LIST = _counts([object()])[0]


def _are_same(value: Any, fields: tuple[Any, ...]) -> bool:
    """Return whether the fields of a struct are these objects."""
    now = _fields_of(value)
    return len(now) == len(fields) and all(map(is_, now, fields))


def _fields_of(value: Any) -> tuple[Any, ...]:
    """Return the names of a struct's fields, then what they hold: fields that were deleted come in another order."""
    held = value.__dict__
    return (*held, *held.values())


@cache
def _are_arrays(struct: Struct) -> tuple[bool, ...]:
    return tuple(isinstance(type_, Array) for _, type_ in leaves_of("", struct))


def held_of(struct: Struct, given: Any) -> Held | None:
    """Return the `Held` of an argument that is a struct, or that its id names; None if it is to be looked at."""
    return _held(struct, meant(given))


def parts_of(kernel: Kernel, values: Sequence[Any]) -> list[Any]:
    """Spread the arguments as `spread` does, but keep a `Held` in place of the leaves of a struct that has one."""
    if not kernel.has_structs:
        return list(values)
    found: list[Any] = []
    for argument, struct, given in zip(kernel.arguments, kernel.structs, values, strict=True):
        value = meant(given)
        if struct is None:
            found.append(given)
        elif (held := _held(struct, value) if argument.annotation is struct else None) is not None:
            found.append(held)
        else:
            found.extend(spread_argument(kernel, argument, value))
    return found


def flat(parts: Sequence[Any]) -> list[Any]:
    """The leaves of all arguments."""
    found: list[Any] = []
    for part in parts:
        if type(part) is Held:
            found += part.leaves
        else:
            found.append(part)
    return found


def _held(struct: Struct, value: Any) -> Held | None:
    """Return the `Held` of a struct. Return None if the struct has to be examined at each launch."""
    found = _found.get(id(value))
    if found is not None and found.holds(value):
        return found
    found = None if found is None else found.with_numbers(value)
    if found is not None and found.holds(value):
        _found[id(value)] = found
        return found
    paths, leaves, fields = paths_of(struct), [], []
    if paths is None or not _gather(paths, value, leaves, fields) or not _KINDS.issuperset(map(type, leaves)):
        return None
    made = Held(struct, value, leaves, fields)
    if made.token is None:
        return None
    _found[id(value)] = made
    return made


def _gather(paths: Paths, value: Any, leaves: list[Any], fields: list[Any]) -> bool:
    """Appends the leaves of an instance of the class, and what each struct in it holds. False: it is none, or holds
    others."""
    kind, names = paths
    if type(value) is not kind:
        return False
    held = value.__dict__
    fields.append((value, _fields_of(value)))
    for name, inner in names:
        if inner is None:
            leaves.append(held[name])
        elif not _gather(inner, held[name], leaves, fields):
            return False
    return True


_KINDS = VALUES | {HostArray, HostValue, np.ndarray}
_found: dict[int, Held] = {}  # by the number of the struct
