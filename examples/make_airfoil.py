"""Draws the obstacle that the wind tunnel ships with: a NACA four-digit airfoil, as a PNG.

    python examples/make_airfoil.py --digits 4412 --angle 18 --out examples/data/naca.png

Source: E. N. Jacobs, K. E. Ward, R. M. Pinkerton, "The characteristics of 78 related airfoil sections from tests in
the variable-density wind tunnel", NACA Report 460, 1933: thickness and mean line of the family.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

# Half thickness of the family at full scale t = 0.20 chord: sum of a_k x**p_k (Report 460).
THICKNESS = ((0.29690, 0.5), (-0.12600, 1.0), (-0.35160, 2.0), (0.28430, 3.0), (-0.10150, 4.0))
OVERSAMPLING = 4  # drawn larger and averaged down, so that the outline has grey edges


def outline(digits: str, points: int = 200) -> np.ndarray:
    """The closed outline of a NACA four-digit section.

    Args:
        digits: the designation: maximum camber in percent of the chord, its position in tenths, thickness in percent.
        points: points along each surface.

    Returns:
        `[2 * points, 2]`, chord from (0, 0) to (1, 0), y up, from the trailing edge over the upper surface and back.

    Raises:
        ValueError: `digits` is not a designation of four digits with a thickness above zero.
    """
    if len(digits) != 4 or not digits.isascii() or not digits.isdigit() or digits[2:] == "00":
        raise ValueError(f"expected four digits with a thickness above zero, like 4412, got {digits!r}")
    camber, position, thickness = int(digits[0]) / 100, int(digits[1]) / 10, int(digits[2:]) / 100
    if camber > 0 and position == 0:
        raise ValueError(f"a cambered section needs the position of the camber (second digit), got {digits!r}")
    x = 0.5 * (1 - np.cos(np.linspace(0, np.pi, points)))  # denser at both edges
    half = thickness / 0.20 * sum(a * x**p for a, p in THICKNESS)
    mean, slope = np.zeros_like(x), np.zeros_like(x)
    if camber > 0:
        front = x < position
        mean = camber * np.where(
            front,
            (2 * position * x - x**2) / position**2,
            (1 - 2 * position + 2 * position * x - x**2) / (1 - position) ** 2,
        )
        slope = 2 * camber * (position - x) / np.where(front, position**2, (1 - position) ** 2)
    theta = np.arctan(slope)
    upper = np.stack([x - half * np.sin(theta), mean + half * np.cos(theta)], axis=1)
    lower = np.stack([x + half * np.sin(theta), mean - half * np.cos(theta)], axis=1)
    return np.concatenate([upper[::-1], lower])


def draw(digits: str, angle: float, chord: int) -> Image.Image:
    """The section, black on white.

    Args:
        digits: the NACA designation.
        angle: angle of attack in degrees: the nose is turned up against a wind from the left.
        chord: length of the chord in pixels.
    """
    points = outline(digits)
    a = np.radians(-angle)
    turned = points @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])
    turned[:, 1] *= -1  # rows of an image go down
    margin = 0.05
    low, high = turned.min(0) - margin, turned.max(0) + margin
    scale = chord * OVERSAMPLING
    width, height = (int(np.ceil((high - low)[k] * chord)) for k in range(2))
    image = Image.new("L", (width * OVERSAMPLING, height * OVERSAMPLING), 255)
    ImageDraw.Draw(image).polygon([tuple(p) for p in (turned - low) * scale], fill=0)
    return image.resize((width, height), Image.Resampling.BOX)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--digits", default="4412", help="NACA designation (default %(default)s)")
    parser.add_argument("--angle", type=float, default=18.0, help="angle of attack in degrees (default %(default)s)")
    parser.add_argument("--chord", type=int, default=600, help="chord in pixels (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "naca.png")
    options = parser.parse_args()
    if options.chord < 8:
        parser.error(f"--chord must be at least 8 pixels, got {options.chord}")
    try:
        draw(options.digits, options.angle, options.chord).save(options.out, optimize=True)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"NACA {options.digits} at {options.angle:g} degrees: {options.out}")


if __name__ == "__main__":
    main()
