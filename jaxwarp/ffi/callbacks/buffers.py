"""The buffers that a callback works on: XLA's memory, for as long as the call lasts."""

from __future__ import annotations

import numpy as np

from jaxwarp.memory.live_array import MemoryArray
from jaxwarp.memory.region import dense_region
from jaxwarp.memory.scope import Scope


class Buffer(MemoryArray):
    """An input or output of a callback, with the shape and dtype that it has in JAX."""

    def __init__(self, scope: Scope, name: str, dtype: np.dtype, shape: tuple[int, ...], address: int, is_input: bool):
        super().__init__(scope, name, dense_region(address, dtype, shape), is_writable=not is_input)
        self.is_input = is_input
