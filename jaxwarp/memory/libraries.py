"""The tensor libraries that arrays outside of JAX support."""

from __future__ import annotations

import sys

from jaxwarp.memory.tensor_owner import TensorLibrary
from jaxwarp.memory.torch import TORCH

LIBRARIES: tuple[TensorLibrary, ...] = (TORCH,)


def library_of(value: object) -> TensorLibrary | None:
    """The library whose tensor a value is."""
    for library in LIBRARIES:
        if library.module in sys.modules and library.is_tensor(value):
            return library
    return None
