"""The modes of sampling a texture: between texels, and outside of them."""

from __future__ import annotations

import enum


class TextureFilterMode(enum.IntEnum):
    """A way to sample between the centres of texels."""

    CLOSEST = 0
    """Take the closest texel."""
    LINEAR = 1
    """Interpolate between the two, four or eight texels around the place."""


class TextureAddressMode(enum.IntEnum):
    """A way to sample outside of a texture, along an axis."""

    WRAP = 0
    """Repeat the texture."""
    CLAMP = 1
    """Take the texel at the edge."""
    MIRROR = 2
    """Repeat the texture, reflected at each edge."""
    BORDER = 3
    """Take 0."""
