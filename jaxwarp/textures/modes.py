"""The modes of sampling a texture: between texels, and outside of them."""

from __future__ import annotations

import enum


class TextureFilterMode(enum.IntEnum):
    """The value of a sample between the centres of texels."""

    CLOSEST = 0
    """The texel that the place is in."""
    LINEAR = 1
    """Interpolated between the two, four or eight texels around the place."""


class TextureAddressMode(enum.IntEnum):
    """The values outside of a texture, along an axis."""

    WRAP = 0
    """The texture again."""
    CLAMP = 1
    """The texel at the edge."""
    MIRROR = 2
    """The texture, reflected at its edge."""
    BORDER = 3
    """0."""
