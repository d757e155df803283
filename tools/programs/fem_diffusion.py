"""Warp's own example of diffusion with finite elements, from its wheel."""

import importlib.util
import sys
from pathlib import Path

import numpy as np


def build():
    sys.path.append(str(examples()))
    import example_diffusion

    example = example_diffusion.Example(quiet=True, resolution=8)
    # The order of nodes is not the same everywhere.
    return example.step, lambda: np.sort(example._scalar_field.dof_values.numpy())


def examples() -> Path:
    """Return where the wheel of Warp has its examples, whatever `warp` is."""
    import importlib.metadata

    found = importlib.metadata.distribution("warp-lang").locate_file("warp/examples/fem")
    return Path(str(found))
