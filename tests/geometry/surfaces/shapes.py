"""Fields of shapes with known areas and volumes, and what is measured of surfaces, in NumPy."""

from __future__ import annotations

from collections import Counter

import numpy as np


def nodes(shape):
    """Places of the nodes of a grid from -1 to 1."""
    return np.stack(np.meshgrid(*[np.linspace(-1, 1, n) for n in shape], indexing="ij"), -1)


def ball(p, r=0.7):
    return np.linalg.norm(p, axis=-1) - r


def torus(p, r=0.6, s=0.25):
    return np.hypot(np.hypot(p[..., 0], p[..., 1]) - r, p[..., 2]) - s


# Field, Euler number, area, volume.
SHAPES = {
    "ball": (ball, 2, 4 * np.pi * 0.7**2, 4 / 3 * np.pi * 0.7**3),
    "torus": (torus, 0, 4 * np.pi**2 * 0.6 * 0.25, 2 * np.pi**2 * 0.6 * 0.25**2),
}


def area(points, faces):
    t = points[faces]
    return np.linalg.norm(np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]), axis=1).sum() / 2


def volume(points, faces):
    t = points[faces].astype(np.float64)
    return np.einsum("ij,ij->", t[:, 0], np.cross(t[:, 1], t[:, 2])) / 6


def directed_edges(faces):
    """How often each edge is passed in each direction."""
    corners = faces.shape[1]
    return Counter((int(f[k]), int(f[(k + 1) % corners])) for f in faces for k in range(corners))


def euler(points, faces):
    return len(points) - len(directed_edges(faces)) // 2 + len(faces)


def is_closed(faces, most=1):
    """Whether every edge is passed as often in one direction as in the other: by `most` faces at most."""
    passed = directed_edges(faces)
    return all(passed[b, a] == n <= most for (a, b), n in passed.items())
