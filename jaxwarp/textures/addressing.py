"""The texels around a coordinate, along an axis."""

# ruff: noqa: ANN201, SIM109

from __future__ import annotations

import jaxwarp as wp
from jaxwarp.textures.modes import TextureAddressMode, TextureFilterMode

WRAP, CLAMP, MIRROR, BORDER = map(int, TextureAddressMode)
CLOSEST, LINEAR = map(int, TextureFilterMode)


@wp.struct
class Cell:
    """The two texels around a place, whether they are there or 0, and how far it is from the first to the second.

    Of the closest texel it is the first; `share` is then 0, or NaN where the place is.
    """

    first: int
    second: int
    has_first: bool
    has_second: bool
    share: float


@wp.func
def index_in(i: int, size: int, mode: int) -> int:
    """The texel that a number outside of a texture, by less than a period, stands for; at the edge, of a border."""
    at = i
    if mode == WRAP:
        at = i + size if i < 0 else i
        at = at - size if at >= size else at
    elif mode == MIRROR:
        at = i + 2 * size if i < 0 else i
        at = at - 2 * size if at >= 2 * size else at
        at = 2 * size - 1 - at if at >= size else at
    return wp.clamp(at, 0, size - 1)


@wp.func
def is_inside(i: int, size: int, mode: int) -> bool:
    return mode != BORDER or (i >= 0 and i < size)


@wp.func
def between(x: wp.Float, low: wp.Float, high: wp.Float):
    """Return `clamp(x, low, high)`, but keep NaN. At the ends, the derivative is that inside."""
    above = low if x < low else x
    return high if above > high else above


@wp.func
def within_period(u: wp.Float, base: int, mode: int, is_normalized: bool):
    """The remainder of a coordinate, after which it is at the same place again; with the sign of the coordinate."""
    scalar = type(u)
    period = scalar(2.0) if mode == MIRROR else scalar(1.0)
    if is_normalized:
        return u - period * wp.trunc(u / period)  # exactly, with powers of two, and without a call of fmod
    return wp.mod(u, period * scalar(base))


@wp.func
def linear_cell(u: float, base: int, size: int, mode: int, is_normalized: bool) -> Cell:
    """The cell between the centres of two texels, of a level of `size` texels of a texture of `base`."""
    reduced = u
    if mode == WRAP or mode == MIRROR:
        reduced = within_period(u, base, mode, is_normalized)
        if reduced < 0.0:
            reduced += (1.0 if is_normalized else float(base)) * (2.0 if mode == MIRROR else 1.0)
    scale = float(size) if is_normalized else float(size) / float(base)
    place = reduced * scale - 0.5
    if mode == CLAMP:
        place = between(place, 0.0, float(size - 1))
    elif mode == BORDER:
        place = between(place, -2.0, float(size)) if place == place else -2.0
    lowest = wp.floor(place)
    i = int(lowest) if place == place else 0
    return Cell(
        index_in(i, size, mode),
        index_in(i + 1, size, mode),
        is_inside(i, size, mode),
        is_inside(i + 1, size, mode),
        place - lowest,
    )


@wp.func
def closest_cell(u: float, base: int, size: int, mode: int, is_normalized: bool) -> Cell:
    """The texel that a coordinate is in. In float64, where what is just below 0, or below an edge, stays there."""
    reduced = wp.float64(u)
    if mode == WRAP or mode == MIRROR:
        reduced = within_period(reduced, base, mode, is_normalized)
    place = reduced * wp.float64(size)
    if not is_normalized:
        place = place / wp.float64(base)
    if mode == CLAMP or mode == BORDER:
        place = between(place, wp.float64(-1.0), wp.float64(size))
    if mode == BORDER and place != place:
        place = wp.float64(-1.0)
    i = int(wp.floor(place)) if place == place else 0
    share = 0.0 if place == place else float(place)
    there = is_inside(i, size, mode)
    return Cell(index_in(i, size, mode), 0, there, False, share)


@wp.func
def cell_of(u: float, base: int, size: int, mode: int, is_normalized: bool, filter_mode: int) -> Cell:
    found = Cell()  # pyright: ignore[reportCallIssue]
    if filter_mode == LINEAR:
        found = linear_cell(u, base, size, mode, is_normalized)
    else:
        found = closest_cell(u, base, size, mode, is_normalized)
    return found
