"""What irregular.py times: data, the kernel as users call it, the arguments of the C++ function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import irregular_kernels
import numpy as np

import jaxwarp as wp

FAR = 1e6
SEED = 11


@dataclass(frozen=True)
class Case:
    """Something to time.

    Attributes:
        name: with the kind of data.
        kernel_name: of the kernel, the C++ function, and the loop of Numba.
        arrays: the data, NumPy.
        elements: types of their elements by name in irregular_kernels or wp; "" for scalars.
        scalars: what follows them.
        threads: of the launch; the result has one number each.
    """

    name: str
    kernel_name: str
    arrays: tuple[np.ndarray, ...]
    elements: tuple[str, ...]
    scalars: tuple[Any, ...]
    threads: int

    result_dtype = np.float32
    tolerance = 1e-4

    @property
    def shape(self) -> tuple[int]:
        return (self.threads,)

    def ours(self, *arrays: Any) -> Any:
        kernel = irregular_kernels.KERNELS[self.kernel_name]
        return wp.jax_kernel(kernel, launch_dims=self.threads, output_dims=self.threads)(*arrays, *self.scalars)[0]


def make_cases(small: bool = False) -> Iterator[Case]:
    """The cases, one after the other; `small` ones are for tests."""
    random = np.random.default_rng(SEED)
    triangles = bumpy_sphere(8 if small else 132)
    nodes, first, order = heap(triangles)
    tree, types = (nodes, first, triangles[order]), ("boxes", "", "mat33")
    n = 300 if small else 1 << 18
    for kind, (origins, directions) in {"camera": camera(n), "random": anywhere(n, random)}.items():
        arrays = (*tree, origins, directions)
        yield Case(f"rays, {kind}", "rays", arrays, (*types, "vec3", "vec3"), (FAR,), len(origins))
    points = random.uniform(-1.3, 1.3, (n // 4, 3)).astype(np.float32)
    yield Case("closest", "closest", (*tree, points), (*types, "vec3"), (FAR,), len(points))
    yield _neighbours(200 if small else 1 << 17, random)
    yield _sparse_rows(150 if small else 1 << 18, random)
    n, side = (200, 5) if small else (1 << 20, 64)
    field = random.normal(size=(side, side + 1, side + 2)).astype(np.float32)
    points = random.uniform(-1, side + 1, (n, 3)).astype(np.float32)
    yield Case("trilinear", "trilinear", (field, points), ("", "vec3"), (-1.0,), n)


def _neighbours(n: int, random: Any) -> Case:
    """Some 30 within the radius."""
    cells = max(1, int((n / 7) ** (1 / 3)))
    points, radius = random.uniform(0, 1, (n, 3)).astype(np.float32), np.float32(1 / cells)
    x, y, z = np.clip((points / radius).astype(int), 0, cells - 1).T
    cell = (z * cells + y) * cells + x
    order = np.argsort(cell, kind="stable")
    start = np.searchsorted(cell[order], np.arange(cells**3 + 1)).astype(np.int32)
    return Case("neighbours", "neighbours", (start, points[order]), ("", "vec3"), (float(radius), cells), n)


def _sparse_rows(n: int, random: Any) -> Case:
    start = np.concatenate([[0], np.cumsum(random.poisson(12, n))]).astype(np.int32)
    columns = random.integers(0, n, start[-1]).astype(np.int32)
    values, x = (random.normal(size=size).astype(np.float32) for size in (start[-1], n))
    return Case("sparse_rows", "sparse_rows", (start, columns, values, x), ("",) * 4, (), n)


def bumpy_sphere(n: int) -> np.ndarray:
    """Triangles (4 n (n - 1), 3 corners, 3): a sphere by longitude and latitude, with bumps; closed."""
    along, across = np.meshgrid(np.linspace(0, 2 * np.pi, 2 * n + 1), np.linspace(0, np.pi, n + 1), indexing="ij")
    radius = 1 + 0.05 * np.sin(9 * across) * np.cos(7 * along) * np.sin(across)
    unit = np.stack([np.sin(across) * np.cos(along), np.sin(across) * np.sin(along), np.cos(across)], -1)
    p = (radius[..., None] * unit).astype(np.float32)
    a, b, c, d = p[:-1, :-1], p[1:, :-1], p[1:, 1:], p[:-1, 1:]
    # At a pole two corners are one: there every other triangle is none.
    lower, upper = np.stack([a, b, c], -2)[:, 1:], np.stack([a, c, d], -2)[:, :-1]
    return np.concatenate([lower.reshape(-1, 3, 3), upper.reshape(-1, 3, 3)])


def heap(triangles: np.ndarray, leaf: float = 2.2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A complete binary tree: (nodes, 12) boxes of both children, where leaves begin, the order of the triangles.

    Each level halves every part at the median of its longest axis.
    """
    low, high, count = triangles.min(1), triangles.max(1), len(triangles)
    middle, order = (low + high) / 2, np.arange(count)
    depth = max(1, int(np.ceil(np.log2(count / leaf))))
    for level in range(depth):
        edges = (np.arange(2**level + 1) * count) >> level
        part, m = np.searchsorted(edges, np.arange(count), side="right") - 1, middle[order]
        size = np.maximum.reduceat(m, edges[:-1]) - np.minimum.reduceat(m, edges[:-1])
        order = order[np.lexsort((m[np.arange(count), size.argmax(1)[part]], part))]
    first = (np.arange(2**depth + 1) * count) >> depth
    boxes = [np.minimum.reduceat(low[order], first[:-1]), np.maximum.reduceat(high[order], first[:-1])]
    nodes = np.zeros((2**depth, 12), np.float32)
    for level in range(depth - 1, -1, -1):
        nodes[2**level : 2 ** (level + 1)] = np.concatenate(boxes, 1).reshape(-1, 12)
        boxes = [f(b.reshape(-1, 2, 3), axis=1) for f, b in zip((np.min, np.max), boxes, strict=True)]
    return nodes, first.astype(np.int32), order


def camera(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Origins and directions of the rays of a picture, row by row."""
    side = int(n**0.5)
    y, x = np.meshgrid(np.linspace(0.45, -0.45, side), np.linspace(-0.45, 0.45, side), indexing="ij")
    directions = np.stack([x, y, -np.ones_like(x)], -1).reshape(-1, 3)
    return np.full_like(directions, (0.1, 0.2, 2.6), np.float32), _unit(directions)


def anywhere(n: int, random: Any) -> tuple[np.ndarray, np.ndarray]:
    """Origins and directions of rays from points in and around the sphere."""
    return random.uniform(-1, 1, (n, 3)).astype(np.float32), _unit(random.normal(size=(n, 3)))


def _unit(v: np.ndarray) -> np.ndarray:
    return (v / np.linalg.norm(v, axis=1, keepdims=True)).astype(np.float32)
