"""Moving pictures of the examples: endless GIF and WebP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

FRAMES = 32


def save(pictures: Sequence[np.ndarray], path: Path, milliseconds: int = 40) -> None:
    """Write pictures, `[height, width, 3]` of uint8 each, as a film that starts again at its end.

    Args:
        path: its suffix, `.gif` or `.webp`, is the format.
        milliseconds: how long each picture is shown.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = [Image.fromarray(p) for p in pictures]
    options = {"save_all": True, "append_images": frames[1:], "duration": milliseconds, "loop": 0}
    if path.suffix == ".gif":
        colours = Image.fromarray(np.concatenate(pictures[:: max(1, len(pictures) // 8)])).quantize(256)
        first, *others = (frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in frames)
        first.save(path, **{**options, "append_images": others}, optimize=False)
    else:
        frames[0].save(path, **options, quality=60, method=6)


def save_figures(figures: Iterable[Figure], path: Path, milliseconds: int = 60) -> None:
    """Write figures as a film."""
    pictures = []
    for figure in figures:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        pictures.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
    save(pictures, path, milliseconds)
