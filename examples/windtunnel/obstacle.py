"""From a picture to solid cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from windtunnel import TunnelError


def load(path: Path, *, invert: bool = False) -> np.ndarray:
    """How solid each pixel of a picture is.

    Dark is solid. Transparent is never solid. Any mode of Pillow's is accepted: black and white, grey of 8 or 16 bits,
    colour, palette, with or without transparency.

    Args:
        path: the picture.
        invert: light is solid instead.

    Returns:
        `[rows, columns]` in 0 (air) to 1 (solid), float64.

    Raises:
        TunnelError: the file is missing, is not a picture, or is too large to be one.
    """
    try:
        with Image.open(path) as image:
            image.load()
            grey, alpha = _luminance(image)
    except FileNotFoundError:
        raise TunnelError(f"the obstacle {path} does not exist") from None
    except IsADirectoryError:
        raise TunnelError(f"the obstacle {path} is a folder, not an image file") from None
    except PermissionError:
        raise TunnelError(f"the obstacle {path} may not be read") from None
    except UnidentifiedImageError:
        raise TunnelError(f"the obstacle {path} is not an image that can be read") from None
    except Image.DecompressionBombError:
        raise TunnelError(f"the obstacle {path} has too many pixels; make the picture smaller") from None
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError) as error:  # Pillow's ways to refuse damaged files
        raise TunnelError(f"the obstacle {path} is a damaged image ({error})") from None
    return (grey if invert else 1.0 - grey) * alpha


def _luminance(image: Image.Image) -> tuple[np.ndarray, np.ndarray]:
    """Grey and opacity in [0, 1]."""
    if image.mode.startswith(("I", "F")):  # one channel of more than 8 bits, which convert("L") would clip
        grey = np.asarray(image, dtype=np.float64)
        top = 65535.0 if image.mode.startswith("I") else max(1.0, float(np.nanmax(grey, initial=1.0)))
        return np.clip(np.nan_to_num(grey) / top, 0.0, 1.0), np.ones(grey.shape)
    rgba = image.convert("RGBA")
    alpha = np.asarray(rgba.getchannel("A"), dtype=np.float64) / 255.0
    return np.asarray(rgba.convert("RGB").convert("L"), dtype=np.float64) / 255.0, alpha


def crop(solidity: np.ndarray) -> np.ndarray:
    """The smallest rectangle that holds everything solid.

    Raises:
        TunnelError: nothing is solid, or everything is.
    """
    solid = solidity >= 0.5
    if not solid.any():
        raise TunnelError("the picture has no dark pixels, so there is no obstacle; try --invert")
    if solid.all():
        raise TunnelError("the whole picture is dark, so there is no outline; try --invert")
    rows, columns = np.flatnonzero(solid.any(axis=1)), np.flatnonzero(solid.any(axis=0))
    return solidity[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def place(solidity: np.ndarray, length: int, width: int, height: int) -> np.ndarray:
    """The obstacle in the tunnel.

    Args:
        solidity: `[rows, columns]` as `load` gives it.
        length: cells along the obstacle's longer side.
        width: cells along the tunnel.
        height: cells across the tunnel.

    Returns:
        `[height, width]`, true where solid, row 0 at the top; the obstacle's middle is a quarter of the way along.

    Raises:
        TunnelError: the obstacle does not fit, or is too small to have a shape.
    """
    outline = crop(solidity)
    rows, columns = outline.shape
    scale = length / max(rows, columns)
    size = (max(1, round(columns * scale)), max(1, round(rows * scale)))
    left, top = width // 4 - size[0] // 2, (height - size[1]) // 2
    if left < 4 or left + size[0] > width - 4 or top < 4 or height - (top + size[1]) < 4:
        raise TunnelError(
            f"the obstacle is {size[0]} x {size[1]} cells, which does not fit into the tunnel of {width} x {height}"
            " with room around it; lower --length or enlarge --width and --height"
        )
    small = Image.fromarray(outline.astype(np.float32)).resize(size, Image.Resampling.BOX)
    solid = np.asarray(small) >= 0.5
    if not solid.any():
        raise TunnelError(f"nothing of the obstacle is left at --length {length}; raise --length")
    tunnel = np.zeros((height, width), dtype=bool)
    tunnel[top : top + size[1], left : left + size[0]] = solid
    return tunnel
