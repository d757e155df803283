"""The wind tunnel's step once more, in NumPy and float64: whole arrays, direction by direction, tensors by einsum."""

from __future__ import annotations

import numpy as np

C = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)])
W = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
IDENTITY = np.eye(2) / 3  # speed of sound squared

# Hermite tensors of each direction.
H2 = np.einsum("qi,qj->qij", C, C) - IDENTITY
H3 = np.einsum("qi,qj,qk->qijk", C, C, C) - (
    np.einsum("qi,jk->qijk", C, IDENTITY)
    + np.einsum("qj,ik->qijk", C, IDENTITY)
    + np.einsum("qk,ij->qijk", C, IDENTITY)
)


def direction(c: np.ndarray) -> int:
    """The number of the direction (cx, cy)."""
    return int(np.flatnonzero((c == C).all(axis=1))[0])


def macroscopic(f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Density `[ny, nx]` and velocity `[2, ny, nx]`."""
    rho = f.sum(axis=0)
    return rho, np.einsum("qi,qyx->iyx", C, f) / rho


def stream(f: np.ndarray, solid: np.ndarray, inflow: np.ndarray) -> np.ndarray:
    """What arrives in each cell; solid cells keep what they have."""
    ny, nx = solid.shape
    _, u = macroscopic(f)
    y, x = np.mgrid[:ny, :nx]
    arrived = f.copy()
    for q in range(1, 9):
        cx, cy = C[q]
        back = f[direction(-C[q])]
        cu = cx * u[0] + cy * u[1]
        beyond = (y - cy < 0) | (y - cy >= ny)
        source = np.where(beyond, direction(C[q] * (1, -1)), q)
        sy, sx = np.where(beyond, y, y - cy), x - cx
        inside = (sx >= 0) & (sx < nx)
        sx = np.clip(sx, 0, nx - 1)
        arrived[q] = np.where(solid[sy, sx], back, f[source, sy, sx])
        arrived[q] = np.where(x - cx < 0, back + 6 * W[q] * cx * inflow[:, None], arrived[q])
        pressure = 2 * W[q] * (1 + 4.5 * cu**2 - 1.5 * (u**2).sum(axis=0)) - back
        arrived[q] = np.where(~inside & (x - cx >= nx), pressure, arrived[q])
    return np.where(solid, f, arrived)


def collide(f: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """Equilibrium to fourth order plus what is kept of the distance from it, rebuilt from its second moments."""
    rho, u = macroscopic(f)
    keep = 1 - omega
    n2 = keep * (np.einsum("qij,qyx->ijyx", H2, f) - rho * np.einsum("iyx,jyx->ijyx", u, u))
    a2 = rho * np.einsum("iyx,jyx->ijyx", u, u) + n2
    un = np.einsum("iyx,jkyx->ijkyx", u, n2)
    a3 = rho * np.einsum("iyx,jyx,kyx->ijkyx", u, u, u) + un + un.swapaxes(0, 1) + un.swapaxes(0, 2)
    ux, uy = u
    a4 = rho * ux**2 * uy**2 + ux**2 * n2[1, 1] + uy**2 * n2[0, 0] + 4 * ux * uy * n2[0, 1]
    h4 = (C[:, 0] ** 2 - 1 / 3) * (C[:, 1] ** 2 - 1 / 3)
    # The lattice carries only the mixed third moments; xxx and yyy are zero on it.
    mixed = H3.copy()
    mixed[:, 0, 0, 0] = mixed[:, 1, 1, 1] = 0
    series = (
        rho
        + 3 * np.einsum("qi,iyx->qyx", C, rho * u)
        + 9 / 2 * np.einsum("qij,ijyx->qyx", H2, a2)
        + 27 / 6 * np.einsum("qijk,ijkyx->qyx", mixed, a3)
        + 81 / 4 * np.einsum("q,yx->qyx", h4, a4)
    )
    return W[:, None, None] * series


def step(f: np.ndarray, solid: np.ndarray, inflow: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """One step: `[9, ny, nx]` to `[9, ny, nx]`."""
    rest = np.broadcast_to(W[:, None, None], f.shape)
    return np.where(solid, rest, collide(stream(f, solid, inflow), omega))


def force(f: np.ndarray, solid: np.ndarray, body: np.ndarray) -> np.ndarray:
    """Momentum given to the body, (x, y): each population that is about to hit it comes back."""
    total = np.zeros(2)
    padded = np.pad(body, 1)
    ny, nx = body.shape
    for q in range(1, 9):
        cx, cy = C[q]
        hits = padded[1 + cy : 1 + cy + ny, 1 + cx : 1 + cx + nx] & ~solid
        total += 2 * f[q][hits].sum() * C[q]
    return total
