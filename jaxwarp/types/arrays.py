"""Types of arrays."""

from __future__ import annotations

import typing
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

from jaxwarp.boundary import guarded
from jaxwarp.types.scalars import type_name, value_type


@value_type
class Array:
    """The annotation of an array parameter: element type and rank. `dtype` may be `typing.Any`.

    `axes`: extents, or names of axes that have one extent wherever they occur in a signature; None: of any extent. They
    are no part of the type.
    """

    dtype: Any
    ndim: int = 1
    axes: tuple[int | str | None, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        return f"array[{type_name(self.dtype)}, {self.ndim}]"

    def __or__(self, other: Any) -> Any:
        """`array[float] | None`: None may be given for any array. Other unions are for functions of Python."""
        return self if other is None else typing.Union[self, other]  # noqa: UP007 - it is made here

    def __ror__(self, other: Any) -> Any:
        return self if other is None else typing.Union[other, self]  # noqa: UP007

    def __call__(self, *_: Any) -> typing.NoReturn:
        """Calling it is for `typing`, which takes what can be called for a type."""
        raise TypeError(f"{self!r} is an annotation: make an array by array(data, dtype={type_name(self.dtype)})")


_FIELDS = Array.__match_args__


def _set(array: Array, name: str, value: Any) -> None:
    """Programs may note what they like on an annotation, but what it is made of."""
    if name in _FIELDS:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(array, name, value)


Array.__setattr__ = _set  # a frozen dataclass may not have its own
guarded(Array)


@guarded
@dataclass(frozen=True)
class Absent:
    """The stand-in for the type of an array argument that is given None. The operand is an empty array."""

    array: Array

    def __repr__(self) -> str:
        return "None"
