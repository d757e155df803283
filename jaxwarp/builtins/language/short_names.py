"""The short names of aggregate types, as Warp has them: `vec3` and `vec3f`, `vec3d`, `mat33`, `quat`, `transform`."""

from __future__ import annotations

from jaxwarp import types
from jaxwarp.types import Aggregate, Mat, Quat, Scalar, Transform, Vec

_SUFFIXES: dict[str, Scalar] = {
    "": types.float32, "h": types.float16, "f": types.float32, "d": types.float64, "b": types.int8, "ub": types.uint8,
    "s": types.int16, "us": types.uint16, "i": types.int32, "ui": types.uint32, "l": types.int64, "ul": types.uint64,
}  # fmt: skip
_FLOATS = {suffix: _SUFFIXES[suffix] for suffix in ("", "h", "f", "d")}

VECTORS: dict[str, Vec] = {f"vec{n}{suffix}": Vec(n, scalar) for n in (2, 3, 4) for suffix, scalar in _SUFFIXES.items()}
# A key of JAX: the two words of a raw one.
VECTORS["PRNGKey"] = Vec(2, types.uint32)
MATRICES: dict[str, Mat] = {f"mat{n}{n}{suffix}": Mat(n, n, t) for n in (2, 3, 4) for suffix, t in _FLOATS.items()}
MOTIONS: dict[str, Aggregate] = {
    **{f"quat{suffix}": Quat(t) for suffix, t in _FLOATS.items()},
    **{f"transform{suffix}": Transform(t) for suffix, t in _FLOATS.items()},
    **{f"spatial_vector{suffix}": Vec(6, t) for suffix, t in _FLOATS.items()},
    **{f"spatial_matrix{suffix}": Mat(6, 6, t) for suffix, t in _FLOATS.items()},
}
AGGREGATES: dict[str, Aggregate] = {**VECTORS, **MATRICES, **MOTIONS}
