"""Pictures of a flow: a colour map, PNG, animated GIF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import _film
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import imsave

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
SOLID_COLOUR = (206, 208, 212)
CONTRAST = 0.8  # exponent below 1: faint eddies far downstream stay visible
COLOURS = LinearSegmentedColormap.from_list(
    "eddies", [(at, [c / 255 for c in colour]) for at, colour in ANCHORS], LEVELS, bad=[c / 255 for c in SOLID_COLOUR]
)


def picture(field: np.ndarray, solid: np.ndarray, limit: float) -> np.ndarray:
    """A signed field in colour, `[ny, nx, 3]` uint8.

    Args:
        field: `[ny, nx]`; zero is dark.
        solid: `[ny, nx]`, true where the obstacle is.
        limit: magnitude that gets the last colour.
    """
    scaled = np.clip(field / limit, -1.0, 1.0)
    curved = np.sign(scaled) * np.abs(scaled) ** CONTRAST
    return COLOURS(np.where(solid, np.nan, (curved + 1.0) / 2.0), bytes=True)[..., :3]


def save(pictures: Sequence[np.ndarray], path: Path) -> None:
    """Writes pictures as an endless GIF of 25 a second, or one as a PNG.

    Raises:
        TunnelError: the file cannot be written.
    """
    try:
        if path.suffix == ".gif":
            _film.save(pictures, path)
        else:
            imsave(path, *pictures)
    except OSError as error:
        raise TunnelError(f"cannot write {path} ({error.strerror or error})") from None


def cut(vorticity: np.ndarray, solid: np.ndarray, rows: Sequence[int], path: Path) -> None:
    """Writes a picture of a flow that was computed in parts, with a line where two of them meet."""
    shape = np.array(solid.shape[::-1])
    figure = Figure(tuple(9 * shape / shape.max()))
    axes = figure.add_axes((0, 0, 1, 1), frame_on=False, xticks=[], yticks=[])
    axes.imshow(picture(vorticity, solid, float(np.abs(vorticity).max()) / 4), aspect="auto")
    axes.hlines(np.asarray(rows) - 0.5, 0, shape[0] - 1, colors="white", linestyles=":", linewidth=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


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
