"""`Surface`, what is checked before there is one, and how many faces and vertices it has room for."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import guarded
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text


@guarded
class Surface(NamedTuple):
    """A surface of triangles, or of quads, in arrays whose sizes are fixed.

    Attributes:
        vertices: (n, 3), of float32. Those that are not used are 0.
        faces: (m, 3), or (m, 4), of int32: vertices, counterclockwise as seen from where the field is above the
            threshold. Those that are not used are -1.
        vertex_count, face_count: how many there are, also where they are more than there is room for.
        overflow: whether they are. Then vertices that have no room, and the faces that have one of these, are missing.
    """

    vertices: jax.Array
    faces: jax.Array
    vertex_count: jax.Array
    face_count: jax.Array
    overflow: jax.Array

    def trimmed(self) -> tuple[jax.Array, jax.Array]:
        """Vertices and faces without those that are not used, outside of `jit`.

        Raises:
            KernelTypeError: the surface is traced.
            KernelValueError: there was no room for some.
        """
        if isinstance(self.overflow, jax.core.Tracer):
            raise KernelTypeError(
                "Surface.trimmed: in a program sizes do not depend on values",
                hint="return the surface, and trim it outside; wp.Mesh ignores faces of -1",
            )
        if self.overflow:
            raise KernelValueError(
                f"Surface.trimmed: there are {self.vertex_count} vertices and {self.face_count} faces, and room for "
                f"{len(self.vertices)} and {len(self.faces)}",
                hint="pass a larger size=",
            )
        return self.vertices[: int(self.vertex_count)], self.faces[: int(self.face_count)]


def require_field(where: str, field: Any) -> None:
    """Raises an error unless it is a field of a cell at least, whose edges and patches can be numbered."""
    shape, dtype = getattr(field, "shape", None), getattr(field, "dtype", None)
    if shape is None or dtype is None:
        raise KernelTypeError(f"{where}: field: expected an array of float32, got {type_text(field)}")
    if dtype not in (np.float32, wp.float32):
        raise KernelTypeError(f"{where}: field: expected float32, got {dtype}", hint="pass field.astype('float32')")
    if len(shape) != 3 or min(shape) < 2:
        raise KernelValueError(
            f"{where}: field: expected three axes of at least two nodes, got the shape {tuple(shape)}"
        )
    if int(np.prod(shape, dtype=np.int64)) > 1 << 29:
        raise KernelValueError(f"{where}: field: expected at most 2^29 nodes, got the shape {tuple(shape)}")


def require_bounds(where: str, lower: Any, upper: Any, nodes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """The corners of the grid, (3,) of float32."""
    found = []
    for name, given, default in (("lower", lower, [0.0] * 3), ("upper", upper, [float(n - 1) for n in nodes])):
        corner = jnp.asarray(default if given is None else given)
        if corner.shape != (3,):
            raise KernelValueError(f"{where}: {name}: expected three coordinates, got the shape {corner.shape}")
        found.append(corner.astype(jnp.float32))
    return found[0], found[1]


def require_size(where: str, size: Any) -> tuple[int, int]:
    """Room for how many vertices and faces."""
    given: tuple[Any, ...] = size if isinstance(size, tuple) else (size,)
    if len(given) not in (1, 2) or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in given):
        raise KernelValueError(
            f"{where}: size: expected a number of vertices, or numbers of vertices and faces, got {size!r}"
        )
    return given[0], given[-1] if len(given) == 2 else 2 * given[0]
