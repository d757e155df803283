"""The short names of vector and matrix types: `vec3` and `vec3f`, `vec3d`, `mat33`, ..., as Warp has them."""

from __future__ import annotations

from jaxwarp import types
from jaxwarp.types import Mat, Scalar, Vec

_SUFFIXES: dict[str, Scalar] = {
    "": types.float32, "h": types.float16, "f": types.float32, "d": types.float64, "b": types.int8, "ub": types.uint8,
    "s": types.int16, "us": types.uint16, "i": types.int32, "ui": types.uint32, "l": types.int64, "ul": types.uint64,
}  # fmt: skip

VECTORS: dict[str, Vec] = {f"vec{n}{suffix}": Vec(n, scalar) for n in (2, 3, 4) for suffix, scalar in _SUFFIXES.items()}
MATRICES: dict[str, Mat] = {
    f"mat{n}{n}{suffix}": Mat(n, n, _SUFFIXES[suffix]) for n in (2, 3, 4) for suffix in ("", "h", "f", "d")
}
