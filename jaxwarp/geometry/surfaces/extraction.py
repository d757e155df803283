"""The steps by which a surface is extracted, in JAX and on arrays outside of it.

Nodes, and edges and cells by their lowest node, are in the order of the field's memory. A thread has a row of them
along the last axis: rows are counted, sums of counts say where each begins, and each writes its part. So the order of
vertices and faces does not depend on the order of threads. Only the last step, which places vertices, has derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError
from jaxwarp.geometry.surfaces.surface import Surface, require_size
from jaxwarp.kernel import Kernel


@dataclass(frozen=True)
class Method:
    """A way to make surfaces. Its kernels begin with the field, the threshold, and the table of a grid's shape.

    Attributes:
        count: (..., vertices, faces) of each row.
        number: (..., first, numbers, codes) of what vertices are on: their numbers by place, and places by number.
        write: (..., first, numbers, faces) vertices of faces, counted from 1 on.
        place: (..., lower, upper, codes, count, points).
        table: of a shape of nodes.
        places: entries of `numbers` for each node.
        corners: of a face.
    """

    count: Kernel
    number: Kernel
    write: Kernel
    place: Kernel
    table: Callable[[tuple[int, ...]], np.ndarray]
    places: int
    corners: int


@cache
def _call(kernel: Kernel, outputs: int) -> Any:
    return wp.jax_kernel(kernel, num_outputs=outputs)


def starts(counts: Any) -> tuple[Any, Any]:
    """Return where the part of each row begins, and the sum of all counts."""
    array = np if isinstance(counts, np.ndarray) else jnp
    ends = array.cumsum(counts.reshape(-1), dtype=np.int32)
    return (ends - counts.reshape(-1)).reshape(counts.shape), ends[-1]


def _room(where: str, size: Any, vertices: Any, faces: Any) -> tuple[int, int]:
    """The sizes of the results: what is asked for; else what there is, where that is known."""
    if size is not None:
        return require_size(where, size)
    if isinstance(vertices, jax.core.Tracer):
        raise KernelTypeError(
            f"{where}: under jit, the size of the result cannot depend on values",
            hint="pass size=(vertices, faces), and look at .overflow",
        )
    return int(vertices), int(faces)


def extract(
    where: str, method: Method, field: jax.Array, threshold: jax.Array, bounds: Sequence[jax.Array], size: Any
) -> Surface:
    """The surface, in JAX.

    Raises:
        KernelTypeError, KernelValueError: `size` is none, or is missing in a program.
    """
    rows, table = field.shape[:2], jnp.asarray(method.table(field.shape))
    held = jax.lax.stop_gradient(field), jax.lax.stop_gradient(threshold), table
    counts = _call(method.count, 2)(*held, launch_dims=rows, output_dims=rows)
    (first, vertex_count), (first_face, face_count) = (starts(c) for c in counts)
    most = _room(where, size, vertex_count, face_count)
    dims = {"numbers": method.places * field.size, "codes": most[0]}
    numbers, codes = _call(method.number, 2)(*held, first, launch_dims=rows, output_dims=dims)
    write, shape = _call(method.write, 1), (most[1], method.corners)
    (faces,) = write(*held, first_face, numbers, launch_dims=rows, output_dims=shape)
    place = _call(method.place, 1)
    (points,) = place(
        field, threshold, table, *bounds, codes, vertex_count[None], launch_dims=most[0], output_dims=most[0]
    )
    is_there = ((faces > 0) & (faces <= most[0])).all(1, keepdims=True)
    overflow = (vertex_count > most[0]) | (face_count > most[1])
    return Surface(points, jnp.where(is_there, faces - 1, -1), vertex_count, face_count, overflow)


def extract_outside(method: Method, field: Any, threshold: float, bounds: Sequence[Any]) -> tuple[Any, np.ndarray]:
    """The vertices, an array outside of JAX, where the field is, that a tape follows; and the faces."""
    rows, place = field.shape[:2], field.device

    def given(values: Any) -> Any:
        return wp.array(values, dtype=int, device=place)

    def zeros(*shape: int) -> Any:
        return wp.zeros(shape, dtype=int, device=place)

    held = [field, threshold, given(method.table(field.shape))]

    def run(kernel: Kernel, inputs: list[Any], outputs: list[Any]) -> None:
        wp.launch(kernel, rows, [*held, *inputs], outputs, record_tape=False)

    counts = [zeros(*rows), zeros(*rows)]
    run(method.count, [], counts)
    (first, vertex_count), (first_face, face_count) = (starts(c.numpy()) for c in counts)
    numbers, codes = zeros(method.places * field.size), zeros(int(vertex_count))
    run(method.number, [given(first)], [numbers, codes])
    faces = zeros(int(face_count), method.corners)
    run(method.write, [given(first_face), numbers], [faces])
    points = wp.zeros(int(vertex_count), dtype=wp.vec3, device=place, requires_grad=field.requires_grad)
    count = given([int(vertex_count)])
    wp.launch(method.place, int(vertex_count), [*held, *bounds, codes, count], [points])
    return points, faces.numpy() - 1
