"""What Warp says of volumes: kernels of its own, compiled by it."""

# pyright: reportAttributeAccessIssue=false, reportInvalidTypeForm=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

wp.config.quiet = True


@wp.kernel
def look_up(volume: wp.uint64, ijk: wp.array(dtype=wp.vec3i), out: wp.array(dtype=Any), index: wp.array(dtype=int)):
    n = wp.tid()
    p = ijk[n]
    out[n] = wp.volume_lookup(volume, p[0], p[1], p[2], dtype=out.dtype)
    index[n] = wp.volume_lookup_index(volume, p[0], p[1], p[2])


@wp.kernel
def sample(volume: wp.uint64, places: wp.array(dtype=wp.vec3), mode: int, out: wp.array(dtype=Any)):
    n = wp.tid()
    out[n] = wp.volume_sample(volume, places[n], mode, dtype=out.dtype)


TYPES = {"float32": wp.float32, "int32": wp.int32, "vec3f": wp.vec3f, "float64": wp.float64, "vec4d": wp.vec4d}


def values(volume: Any, name: str, ijk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and numbers of voxels."""
    out = wp.zeros(len(ijk), dtype=TYPES[name], device="cpu")
    index = wp.zeros(len(ijk), dtype=int, device="cpu")
    points = wp.array(ijk, dtype=wp.vec3i, device="cpu")
    wp.launch(look_up, len(ijk), inputs=[wp.uint64(volume.id), points, out, index], device="cpu")
    return out.numpy(), index.numpy()


def samples(volume: Any, name: str, places: np.ndarray, mode: int) -> np.ndarray:
    out = wp.zeros(len(places), dtype=TYPES[name], device="cpu")
    points = wp.array(places, dtype=wp.vec3, device="cpu")
    wp.launch(sample, len(places), inputs=[wp.uint64(volume.id), points, mode, out], device="cpu")
    return out.numpy()


def load(data: bytes) -> Any:
    return wp.Volume.load_from_nvdb(data, device="cpu")
