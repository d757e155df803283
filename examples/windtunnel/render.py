"""Pictures of a flow: a colour map, PNG, animated GIF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from windtunnel import TunnelError

# Diverging, dark in the middle, so that still air is night and eddies glow: clockwise cold, counter-clockwise warm.
ANCHORS = (
    (0.00, (232, 250, 255)),
    (0.18, (96, 205, 245)),
    (0.34, (28, 110, 190)),
    (0.45, (16, 40, 84)),
    (0.50, (10, 12, 24)),
    (0.55, (74, 22, 38)),
    (0.66, (190, 58, 32)),
    (0.82, (248, 158, 52)),
    (1.00, (255, 246, 214)),
)
LEVELS = 255
SOLID = 255  # the palette's last entry
SOLID_COLOUR = (206, 208, 212)
CONTRAST = 0.8  # exponent below 1: faint eddies far downstream stay visible


def palette() -> np.ndarray:
    """256 colours: `LEVELS` of the map, then the obstacle's. `[256, 3]` uint8."""
    at = np.linspace(0.0, 1.0, LEVELS)
    stops = [a for a, _ in ANCHORS]
    channels = [np.interp(at, stops, [colour[k] for _, colour in ANCHORS]) for k in range(3)]
    return np.concatenate([np.stack(channels, axis=1), [SOLID_COLOUR]]).round().astype(np.uint8)


def picture(field: np.ndarray, solid: np.ndarray, limit: float) -> Image.Image:
    """A signed field in colour.

    Args:
        field: `[ny, nx]`; zero is dark.
        solid: `[ny, nx]`, true where the obstacle is.
        limit: magnitude that gets the last colour.
    """
    scaled = np.clip(field / limit, -1.0, 1.0)
    curved = np.sign(scaled) * np.abs(scaled) ** CONTRAST
    index = np.rint((curved + 1.0) / 2.0 * (LEVELS - 1)).astype(np.uint8)
    image = Image.fromarray(np.where(solid, np.uint8(SOLID), index))
    image.putpalette(palette().tobytes(), "RGB")
    return image


def save(image: Image.Image, path: Path, frames: Sequence[Image.Image] = ()) -> None:
    """Writes a PNG, or with `frames` after the first an endless GIF of 25 pictures a second.

    Raises:
        TunnelError: the file cannot be written.
    """
    try:
        if path.suffix == ".gif":
            image.save(path, save_all=True, append_images=list(frames), duration=40, loop=0, optimize=False)
        else:
            image.save(path, optimize=True)
    except OSError as error:
        raise TunnelError(f"cannot write {path} ({error.strerror or error})") from None


def prepare(folder: Path) -> None:
    """Makes the folder for the pictures, before an hour of work is done for nothing.

    Raises:
        TunnelError: the folder cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".wind_tunnel"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise TunnelError(f"cannot write into the folder {folder} ({error.strerror or error})") from None
