"""Launches with symbolic extents, looked at with numbers in their place.

Threads of extent m that read an array of extent n leave it where m is 60 and n is 1.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from jaxwarp import compat
from jaxwarp.errors import OutOfRangeError
from jaxwarp.launches.spec import Dim

# Of each variable, in steps so small that few programs are right between two of them alone.
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 60, 64, 96, 128, 192, 256, 384, 512, 1000, 5040)
_MOST_EXAMPLES = 81
_MOST_LOOKED_AT = 10_000  # most may not be allowed

Values = dict[str, int]
"""Of the variables in symbolic extents."""


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
    names = compat.variables_of([*grid, *dims])
    examples = functools.partial(_examples, names, grid, dims)
    equal = [_tried(require, values) for values in examples(zip(*[_SIZES] * len(names), strict=True))]
    good = [next(iter(values.values())) for values, error in equal if error is None]
    if equal and not good:
        raise _for_users(*equal[0])
    sizes = sorted({good[0], good[len(good) // 2], good[-1]}) if good else _SIZES
    apart = (some for some in itertools.product(sizes, repeat=len(names)) if len(set(some)) > 1)
    allowed = examples(itertools.islice(apart, _MOST_LOOKED_AT))
    tried = [_tried(require, values) for values in itertools.islice(allowed, _MOST_EXAMPLES)]
    wrong = [(values, error) for values, error in tried if error is not None]
    if wrong and (good or len(wrong) == len(tried)):
        raise _for_users(*wrong[0])


def _examples(
    names: Sequence[str], grid: Sequence[Dim], dims: Sequence[Dim], sizes: Iterable[tuple[int, ...]]
) -> Iterator[Values]:
    """Values that the user allows (`constraints=`), where there are threads and no extent is negative."""
    demands = compat.constraints_of([*grid, *dims])
    for some in sizes:
        values = dict(zip(names, some, strict=True))
        sides = [(*dims_at(demand[:2], values), demand[2]) for demand in demands]
        if not all(left == right if is_equal else left >= right for left, right, is_equal in sides):
            continue
        if min(dims_at(grid, values), default=1) > 0 and min(dims_at(dims, values), default=0) >= 0:
            yield values


def _tried(require: Callable[[Values], None], values: Values) -> tuple[Values, OutOfRangeError | None]:
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
