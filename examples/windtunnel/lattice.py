"""The flow: one kernel that streams and collides, and three that look at the result.

Units are those of the lattice: a cell is 1 long, a step takes 1, still air has density 1. Sound travels at 1/sqrt(3).

Sources:
    The D2Q9 lattice: Y. H. Qian, D. d'Humières, P. Lallemand, "Lattice BGK models for Navier-Stokes equation",
        Europhys. Lett. 17, 479 (1992).
    The collision: O. Malaspinas, "Increasing stability and accuracy of the lattice Boltzmann scheme: recursivity and
        regularization", arXiv:1505.06900 (2015), in two dimensions.
    Walls, inflow, outflow and the force on a body: half-way bounce-back, its moving-wall and its pressure form, and
        momentum exchange, as in T. Krüger et al., "The Lattice Boltzmann Method" (2017), sections 5.3 and 5.4.
"""

from __future__ import annotations

import numpy as np

import jaxwarp as wp

Q = 9
CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHT = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
OPPOSITE = (0, 3, 4, 1, 2, 7, 8, 5, 6)
MIRRORED = (0, 1, 4, 3, 2, 8, 7, 6, 5)  # up and down exchanged

# Kinds of cells. A border cell has a neighbour that is solid or outside; all others can stream without looking.
OPEN, BORDER, SOLID = 0, 1, 2

vec9 = wp.types.vector(length=9, dtype=float)


@wp.func
def velocity_at(f: wp.array3d[float], y: int, x: int):
    """Velocity in one cell."""
    rho = 0.0
    momentum = wp.vec2(0.0, 0.0)
    for q in range(wp.static(Q)):
        rho += f[q, y, x]
        momentum += f[q, y, x] * wp.vec2(float(wp.static(CX[q])), float(wp.static(CY[q])))
    return momentum / rho


@wp.func
def stream_at_border(f: wp.array3d[float], cells: wp.array2d[wp.uint8], inflow: wp.array[float], y: int, x: int):
    """What arrives in a border cell.

    Left of the tunnel the inflow is a wall that moves with the wind; right of it the pressure is constant; above and
    below, air glides along the wall; at solid cells it bounces back.
    """
    v = vec9()
    v[0] = f[0, y, x]
    u = velocity_at(f, y, x)
    for q in range(1, wp.static(Q)):
        cx = float(wp.static(CX[q]))
        cu = wp.dot(wp.vec2(cx, float(wp.static(CY[q]))), u)
        back = f[wp.static(OPPOSITE[q]), y, x]
        source_x = x - wp.static(CX[q])
        source_y = y - wp.static(CY[q])
        if source_x < 0:
            v[q] = back + wp.static(6.0 * WEIGHT[q]) * cx * inflow[y]
        elif source_x >= f.shape[2]:
            v[q] = wp.static(2.0 * WEIGHT[q]) * (1.0 + 4.5 * cu * cu - 1.5 * wp.dot(u, u)) - back
        elif source_y < 0 or source_y >= f.shape[1]:
            if cells[y, source_x] == wp.static(SOLID):
                v[q] = back
            else:
                v[q] = f[wp.static(MIRRORED[q]), y, source_x]
        elif cells[source_y, source_x] == wp.static(SOLID):
            v[q] = back
        else:
            v[q] = f[q, source_y, source_x]
    return v


@wp.func
def collide(v: vec9, omega: float):
    """Recursive regularised collision: keeps the moments that are flow and drops the noise between them.

    With density rho, velocity u and the second moments' distance n from equilibrium, the result is the Hermite series
        w_q (rho + 3 rho c.u + 9/2 H2:a2 + 27/2 H3:a3 + 81/4 H4 a4),
    whose coefficients follow from rho, u and (1 - omega) n.
    """
    rho = 0.0
    ux = 0.0
    uy = 0.0
    xx = 0.0
    xy = 0.0
    yy = 0.0
    for q in range(wp.static(Q)):
        cx = float(wp.static(CX[q]))
        cy = float(wp.static(CY[q]))
        rho += v[q]
        ux += cx * v[q]
        uy += cy * v[q]
        xx += cx * cx * v[q]
        xy += cx * cy * v[q]
        yy += cy * cy * v[q]
    ux = ux / rho
    uy = uy / rho
    keep = 1.0 - omega
    nxx = keep * (xx - rho / 3.0 - rho * ux * ux)
    nxy = keep * (xy - rho * ux * uy)
    nyy = keep * (yy - rho / 3.0 - rho * uy * uy)
    axx = rho * ux * ux + nxx
    axy = rho * ux * uy + nxy
    ayy = rho * uy * uy + nyy
    axxy = rho * ux * ux * uy + 2.0 * ux * nxy + uy * nxx
    axyy = rho * ux * uy * uy + 2.0 * uy * nxy + ux * nyy
    axxyy = rho * ux * ux * uy * uy + ux * ux * nyy + uy * uy * nxx + 4.0 * ux * uy * nxy
    for q in range(wp.static(Q)):
        cx = float(wp.static(CX[q]))
        cy = float(wp.static(CY[q]))
        hx = float(wp.static(CX[q] ** 2 - 1 / 3))
        hy = float(wp.static(CY[q] ** 2 - 1 / 3))
        first = rho + 3.0 * rho * (cx * ux + cy * uy)
        second = 4.5 * (hx * axx + 2.0 * cx * cy * axy + hy * ayy)
        third = 13.5 * (hx * cy * axxy + cx * hy * axyy)
        v[q] = wp.static(WEIGHT[q]) * (first + second + third + 20.25 * hx * hy * axxyy)
    return v


@wp.kernel
def collide_and_stream(
    f: wp.array3d[float],  # populations [9, ny, nx]
    cells: wp.array2d[wp.uint8],  # OPEN, BORDER or SOLID
    inflow: wp.array[float],  # velocity of the wind, per row
    omega: wp.array[float],  # relaxation rate, per column
    g: wp.array3d[float],  # populations one step later
):
    y, x = wp.tid()
    kind = cells[y, x]
    v = vec9()
    if kind == wp.static(OPEN):
        for q in range(wp.static(Q)):
            v[q] = f[q, y - wp.static(CY[q]), x - wp.static(CX[q])]
        v = collide(v, omega[x])
    elif kind == wp.static(BORDER):
        v = collide(stream_at_border(f, cells, inflow, y, x), omega[x])
    else:
        for q in range(wp.static(Q)):
            v[q] = wp.static(WEIGHT[q])
    for q in range(wp.static(Q)):
        g[q, y, x] = v[q]


@wp.kernel
def look(f: wp.array3d[float], velocity: wp.array2d[wp.vec2]):
    y, x = wp.tid()
    velocity[y, x] = velocity_at(f, y, x)


@wp.kernel
def curl(velocity: wp.array2d[wp.vec2], cells: wp.array2d[wp.uint8], vorticity: wp.array2d[float]):
    y, x = wp.tid()
    w = 0.0
    if y > 0 and x > 0 and y < cells.shape[0] - 1 and x < cells.shape[1] - 1 and cells[y, x] != wp.static(SOLID):
        # Rows go down, so the y axis does: the sign makes counter-clockwise as seen positive.
        along_y = velocity[y + 1, x] - velocity[y - 1, x]
        along_x = velocity[y, x + 1] - velocity[y, x - 1]
        w = 0.5 * (along_y[0] - along_x[1])
    vorticity[y, x] = w


@wp.kernel
def exchange_momentum(
    f: wp.array3d[float],
    cells: wp.array2d[wp.uint8],
    body: wp.array2d[wp.bool],  # the cells whose force is wanted (walls are solid too)
    force: wp.array[wp.vec2],  # one element
):
    y, x = wp.tid()
    if cells[y, x] == wp.static(BORDER):
        given = wp.vec2(0.0, 0.0)
        for q in range(1, wp.static(Q)):
            target_y = y + wp.static(CY[q])
            target_x = x + wp.static(CX[q])
            inside = 0 <= target_y < f.shape[1] and 0 <= target_x < f.shape[2]
            if inside and body[target_y, target_x]:
                given += 2.0 * f[q, y, x] * wp.vec2(float(wp.static(CX[q])), float(wp.static(CY[q])))
        wp.atomic_add(force, 0, given)


def classify(solid: np.ndarray) -> np.ndarray:
    """OPEN, BORDER or SOLID for each cell of a tunnel. `[ny, nx]` bool to `[ny, nx]` uint8."""
    ny, nx = solid.shape
    outside = np.pad(solid, 1, constant_values=True)
    near = np.zeros_like(solid)
    for cx, cy in zip(CX, CY, strict=True):
        near |= outside[1 + cy : 1 + cy + ny, 1 + cx : 1 + cx + nx]
    return np.where(solid, SOLID, np.where(near, BORDER, OPEN)).astype(np.uint8)


def at_rest_or_moving(solid: np.ndarray, inflow: np.ndarray) -> np.ndarray:
    """Populations of air that moves with the wind, and of still air in solid cells. `[9, ny, nx]` float32."""
    u = np.where(solid, 0.0, inflow[:, None])
    cu = 3.0 * np.multiply.outer(np.array(CX), u)
    return (np.array(WEIGHT)[:, None, None] * (1.0 + cu + 0.5 * cu**2 - 1.5 * u**2)).astype(np.float32)
