"""Meshes for tests, and what queries of them are, of all faces in float64."""

from __future__ import annotations

import numpy as np


def sphere(n: int = 6, bumps: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """A cube of six n x n faces blown up to a sphere with bumps: closed, with fronts outside."""
    t = np.tan(np.linspace(-np.pi / 4, np.pi / 4, n + 1))
    points, faces = [], []
    for axis in range(3):
        for side in (-1.0, 1.0):
            a, b = np.meshgrid(t, t, indexing="ij")
            p = np.empty((n + 1, n + 1, 3))
            p[..., axis], p[..., (axis + 1) % 3], p[..., (axis + 2) % 3] = side, a, b
            i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
            k = sum(map(len, points)) + i * (n + 1) + j
            q = np.stack([k, k + n + 1, k + n + 2, k + 1], -1).reshape(-1, 4)[:, :: int(side)]
            points.append(p.reshape(-1, 3))
            faces += [q[:, [0, 1, 2]], q[:, [0, 2, 3]]]
    p, f = np.concatenate(points), np.concatenate(faces)
    p /= np.linalg.norm(p, axis=1, keepdims=True)
    _, first, inverse = np.unique(p.round(9), axis=0, return_index=True, return_inverse=True)
    p, f = p[first], inverse.reshape(-1)[f]
    p *= 1.0 + bumps * np.sin(5 * p[:, :1]) * np.cos(7 * p[:, 1:2])
    return p.astype(np.float32), f.astype(np.int32)


def rays(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """From anywhere in a cube to anywhere."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.3, 1.3, (count, 3)).astype(np.float32), rng.normal(size=(count, 3)).astype(np.float32)


def all_hits(points, faces, origins, directions) -> tuple[np.ndarray, np.ndarray]:
    """How far each ray goes to each face, (rays, faces), infinite where it misses; and how far inside it does."""
    a, b, c = (points[faces[:, k]].astype(np.float64) for k in range(3))
    o, d = origins.astype(np.float64)[:, None], directions.astype(np.float64)[:, None]
    normal = np.cross(b - a, c - a)
    with np.errstate(all="ignore"):
        t = ((a - o) * normal).sum(-1) / (d * normal).sum(-1)
        q = o + t[..., None] * d
        area = (normal**2).sum(-1)
        u = (np.cross(c - b, q - b) * normal).sum(-1) / area
        v = (np.cross(a - c, q - c) * normal).sum(-1) / area
        margin = np.minimum(np.minimum(u, v), 1.0 - u - v)
        inside = (margin >= 0.0) & (t >= 0.0) & (area > 0.0)
    return np.where(inside, t, np.inf), margin


def squared_distances(points, faces, queries) -> np.ndarray:
    """(queries, faces): of each point to the closest one of each face. NaN where a face has no closest point."""
    a, b, c = (points[faces[:, k]].astype(np.float64) for k in range(3))
    p = queries.astype(np.float64)[:, None]

    def to_edge(x, y):
        e = y - x
        length = (e * e).sum(-1)
        s = ((p - x) * e).sum(-1) / np.where(length > 0, length, 1.0)
        return ((p - x - np.clip(s, 0.0, 1.0)[..., None] * e) ** 2).sum(-1)

    normal = np.cross(b - a, c - a)
    area = (normal**2).sum(-1)
    safe = np.where(area > 0, area, 1.0)
    height = ((p - a) * normal).sum(-1)
    foot = p - (height / safe)[..., None] * normal
    u = (np.cross(c - b, foot - b) * normal).sum(-1)
    v = (np.cross(a - c, foot - c) * normal).sum(-1)
    inside = (u >= 0) & (v >= 0) & (u + v <= area) & (area > 0)
    edges = np.minimum(np.minimum(to_edge(a, b), to_edge(b, c)), to_edge(c, a))
    return np.where(inside, height**2 / safe, edges)
