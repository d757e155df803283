"""Types of tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxwarp.boundary import guarded
from jaxwarp.types.scalars import type_name


@guarded
@dataclass(frozen=True)
class TileType:
    """A tile: element type and shape. In annotations `dtype`, extents and all of `shape` may be `typing.Any`."""

    dtype: Any
    shape: Any

    def __repr__(self) -> str:
        extents = () if self.shape is Any else self.shape
        return f"tile[{', '.join([type_name(self.dtype), *('Any' if n is Any else str(n) for n in extents)])}]"

    def __call__(self, *_: Any) -> Any:
        """Calling it is for `typing`, which takes what can be called for a type."""
        raise TypeError(f"{self!r} is an annotation: tiles are made in kernels")
