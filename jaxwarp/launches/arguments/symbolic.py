"""Launches with symbolic extents, looked at with numbers in their place.

Threads of extent m that read an array of extent n leave it where m is 60 and n is 1.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jaxwarp import compat
from jaxwarp.errors import OutOfRangeError
from jaxwarp.launches.spec import Dim, is_static

# Of each variable, in steps so small that few programs are right between two of them alone.
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 60, 64, 96, 128, 192, 256, 384, 512, 1000, 5040)
_LARGE = tuple(5040 << k for k in (1, 2, 4, 8, 14, 18))  # looked at where nothing smaller is right
_MOST_EXAMPLES = 81
_MOST_LOOKED_AT = 2500  # most may not be allowed
_MOST_ELEMENTS = (1 << 31) - 1  # along an axis, where indices are of 32 bits

Values = dict[str, int]
"""Of the variables in symbolic extents."""
_Tried = tuple[Values, OutOfRangeError | None]


def dims_at(dims: Sequence[Dim], values: Mapping[str, int]) -> tuple[int, ...]:
    """The extents where their variables have these values."""
    return tuple(compat.extent_at(dim, values) for dim in dims)


def require_for_sizes(require: Callable[[Values], None], grid: Sequence[Dim], dims: Sequence[Dim]) -> None:
    """Refuse what is out of range for all sizes, or because two sizes differ.

    What is wrong for some sizes alone, such as those too small for a stencil or too large for a table, is left to the
    user, as JAX does not know which sizes will come.

    Args:
        require: raises an OutOfRangeError if the program is out of range where the variables have these values.
        grid: extents of the launch.
        dims: those of its arrays.
    """
    free = _Free.of(grid, dims)
    equal: list[_Tried] = []
    for sizes in (_SIZES, _LARGE):
        equal += [_tried(require, values) for values in free.examples(zip(*[sizes] * len(free.names), strict=True))]
        good = [values[free.names[0]] for values, error in equal if error is None]
        if good:
            break
    if equal and not good:
        raise _for_users(*equal[0])
    # The sum of odd and even sizes is odd, though it may always be even.
    round_ = next((some for unit in (48, 12) if len(some := [n for n in good if n % unit == 0]) > 1), good)
    sizes = sorted({round_[0], round_[len(round_) // 2], round_[-1]}) if good else (*_SIZES, *_LARGE)
    apart = (some for some in _choices(sizes, len(free.names)) if len(set(some)) > 1)
    allowed = list(free.examples(itertools.islice(apart, _MOST_LOOKED_AT)))
    # Of all parts of the list, which starts with the smallest.
    tried = [_tried(require, values) for values in allowed[:: -(-len(allowed) // _MOST_EXAMPLES) or 1]]
    wrong = [(values, error) for values, error in tried if error is not None]
    if wrong and (good or len(wrong) == len(tried)):
        raise _for_users(*wrong[0])


def _choices(sizes: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """All choices of so many sizes, or if they are many some of them, whatever their order."""
    if len(sizes) ** count <= _MOST_LOOKED_AT:
        return itertools.product(sizes, repeat=count)
    number = random.Random(0)
    return (tuple(number.choices(sizes, k=count)) for _ in itertools.count())


@dataclass(frozen=True)
class _Free:
    """The variables of a launch that may have any value, and what follows from them.

    Attributes:
        names: of these variables.
        others: those that an equation of the user gives, such as m in "m == n + 1", by what they are.
        demands: of the user (`constraints=`).
        grid: extents of the launch.
        dims: those of its arrays that are symbolic.
    """

    names: tuple[str, ...]
    others: dict[str, Dim]
    demands: Sequence[tuple[Dim, Dim, bool]]
    grid: Sequence[Dim]
    dims: Sequence[Dim]

    @staticmethod
    def of(grid: Sequence[Dim], dims: Sequence[Dim]) -> _Free:
        extents = [*grid, *dims]
        demands = compat.constraints_of(extents)
        others: dict[str, Dim] = {}
        for left, right, is_equal in demands:
            for one, other in ((left, right), (right, left)) if is_equal else ():
                name = str(one)
                if compat.names_in(one) == [name] and name not in others and name not in _needed(other, others):
                    others[name] = other
                    break
        names = tuple(name for name in compat.variables_of(extents) if name not in others)
        return _Free(names, others, demands, grid, [n for n in dims if not is_static(n)])

    def examples(self, sizes: Iterable[tuple[int, ...]]) -> Iterator[Values]:
        """Values that the user allows, where there are threads, and elements in arrays of symbolic extents."""
        for some in sizes:
            try:
                with np.errstate(all="raise"):
                    values = self._with_others(dict(zip(self.names, some, strict=True)))
                    sides = [(*dims_at(demand[:2], values), demand[2]) for demand in self.demands]
                    extents = dims_at((*self.grid, *self.dims), values)
            except ArithmeticError:  # division by 0, or too large a number
                continue
            if not all(left == right if is_equal else left >= right for left, right, is_equal in sides):
                continue
            if min(*values.values(), *extents, 1) > 0 and max(extents) <= _MOST_ELEMENTS:
                yield values

    def _with_others(self, values: Values) -> Values:
        found = dict(values)
        while missing := [name for name in self.others if name not in found]:
            ready = [name for name in missing if found.keys() >= set(compat.names_in(self.others[name]))]
            found |= {name: compat.extent_at(self.others[name], found) for name in ready}
        return dict(sorted(found.items()))


def _needed(extent: Dim, others: Mapping[str, Dim]) -> set[str]:
    """The variables in an extent, and in what equations give for them."""
    return {n for name in compat.names_in(extent) for n in (name, *_needed(others.get(name, 0), others))}


def _tried(require: Callable[[Values], None], values: Values) -> _Tried:
    try:
        require(values)
    except OutOfRangeError as error:
        return values, error
    return values, None


def _for_users(values: Values, error: OutOfRangeError | None) -> OutOfRangeError:
    assert error is not None
    given = ", ".join(f"{name}={value}" for name, value in values.items())
    hint = "launch fewer threads, or say how the sizes are related: jax.export.symbolic_shape(..., constraints=[...])"
    return OutOfRangeError(f"with the symbolic extents {given}: {error.message}", error.loc, hint)
