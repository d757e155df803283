"""Launches outside of JAX on the very arrays of an earlier one: nothing is looked at for each argument.

A program steps on the same arrays again and again. Each array has a `mark`, which no other one ever has while somebody
holds it, so a launch whose arrays have the marks of an earlier one is that one, but for its numbers. Marks hold no
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, is_
from typing import Any

import numpy as np

from jaxwarp.arrays.held import VALUES, Held, held_of, token_of
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.repeated import Repeated
from jaxwarp.arrays.struct_array import StructArray
from jaxwarp.kernel import Kernel
from jaxwarp.quaternions import HostValue

_MOST = 64  # of a kernel
_mark = attrgetter("mark")
_ARRAYS = frozenset((HostArray, StructArray))
_INTEGERS = frozenset((int,))
_BLOCKS = frozenset((int, str, type(None)))


class Asked:
    """A launch, as far as its arrays and extents decide it.

    Attributes:
        key: these.
        held: what is known of the arguments that are structs, by their numbers.
    """

    __slots__ = ("_params", "_recents", "held", "key")

    def __init__(self, recents: dict[Any, Recent], key: Any, params: Sequence[Any], held: dict[int, Held]):
        self._recents, self.key, self._params, self.held = recents, key, params, held

    def run(self) -> bool:
        """Run the launch, if there was one like it. Return whether it ran."""
        found = self._recents.get(self.key)
        return found is not None and found.run(self._params, self.held)

    def keep(self, kernel: Kernel, known: Repeated, given: Sequence[Any], operands: tuple[Any, ...]) -> None:
        """Keep a launch that has run, for those like it."""
        numbers = [self._params[k] for k in kernel.places.numbers]
        is_plain = all(type(v) in VALUES or isinstance(v, HostValue | np.generic) for v in numbers)
        is_plain = is_plain and all(isinstance(self._params[k], HostArray) for k in kernel.places.arrays)
        ready = known.ready(given, operands) if is_plain and known.is_by_arrays else None
        if ready is None:
            return
        if len(self._recents) >= _MOST:
            self._recents.clear()
        self._recents[self.key] = Recent(kernel, known, operands, numbers, ready)


def asked(kernel: Kernel, dim: Any, params: Sequence[Any], block_dim: Any, place: Any) -> Asked | None:
    """Return what a launch asks for; None if it has to be looked at argument by argument."""
    if type(dim) is not int and not (type(dim) is tuple and _INTEGERS.issuperset(map(type, dim))):
        return None
    places, held = kernel.places, {}
    try:
        arrays = [params[k] for k in places.arrays]
        marks = list(map(_mark, arrays))
    except AttributeError:  # of another library, or None
        return None
    if not _ARRAYS.issuperset(map(type, arrays)) and not all(isinstance(a, HostArray) for a in arrays):
        return None  # what has the attributes of an array may be something else
    for k, struct in places.structs:
        found = held_of(struct, params[k])
        if found is None:
            return None
        held[k] = found
        marks.append(found.mark)
    key = (dim, block_dim, place, *marks)
    return Asked(kernel.found.recent, key, params, held) if marks and type(block_dim) in _BLOCKS else None


class Recent:
    """A launch that has run.

    Args:
        numbers: its arguments that are neither arrays nor structs.
        ready: what its code takes.
    """

    __slots__ = ("_arguments", "_is_fixed", "_known", "_leaves", "_now", "_written")

    def __init__(self, kernel: Kernel, known: Repeated, operands: tuple[Any, ...], numbers: list[Any], ready: Any):
        places = kernel.places
        self._known, self._now = known, (numbers, operands, ready)
        self._arguments, self._leaves = places.numbers, [places.first[k] for k in places.numbers]
        self._is_fixed = VALUES.issuperset(map(type, numbers))  # vectors and the like may be changed in place
        self._written = [places.of_leaf(i) for i in known.written]

    def run(self, params: Sequence[Any], held: dict[int, Held]) -> bool:
        """Run it with the numbers among these arguments. Return whether it could be: they may make it another one."""
        now = self._now  # in one step: another thread may launch with other numbers
        numbers = [params[k] for k in self._arguments]
        if not (self._is_fixed and all(map(is_, numbers, now[0]))):
            now = self._with(numbers, *now)
            if now is None:
                return False
            self._now = now
        if not self._known.run_ready(now[2], now[1]):
            return False
        for k, leaf in self._written:
            array = params[k] if leaf is None else held[k].leaves[leaf]
            if array._region.owner.tensors:
                array._region.owner.written()
        return True

    def _with(self, numbers: list[Any], before: list[Any], operands: tuple[Any, ...], ready: Any) -> Any:
        """Return numbers of the same types, with their operands; None if they are of others."""
        tokens = zip(map(token_of, numbers), map(token_of, before), strict=True)
        if any(new is None or new != old for new, old in tokens):
            return None
        addresses, kept = [*operands[0]], [*operands[1]]
        for leaf, new, old in zip(self._leaves, numbers, before, strict=True):
            if new is not old or type(new) not in VALUES:
                kept[leaf], addresses[leaf] = self._known.operand(leaf, new)
        return numbers, (addresses, kept), self._known.with_numbers(ready, operands, (addresses, kept))
