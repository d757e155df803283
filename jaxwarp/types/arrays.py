"""Types of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxwarp.types.scalars import type_name


@dataclass(frozen=True)
class Array:
    """The annotation of an array parameter: element type and rank. `dtype` may be `typing.Any`."""

    dtype: Any
    ndim: int = 1

    def __repr__(self) -> str:
        return f"array[{type_name(self.dtype)}, {self.ndim}]"

    def __or__(self, other: Any) -> Array:
        """`array[float] | None`: None may be given for any array."""
        return self if other is None else NotImplemented

    __ror__ = __or__


@dataclass(frozen=True)
class Absent:
    """What an array argument has in place of a type where None is given for it. The operand is an empty array."""

    array: Array

    def __repr__(self) -> str:
        return "None"
