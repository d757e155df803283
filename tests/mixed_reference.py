"""Runs texts of `mixed_strategy.py` by Python, on arrays of NumPy, whose indices count from the end, too."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import derivativekit as kit
import numpy as np
from mixed_strategy import MixedCase

Place = tuple[int, ...]


class OnNumPy:
    """Stands for `wp`."""

    sin, cos, tanh = math.sin, math.cos, math.tanh
    min, max = min, max

    def __init__(self, thread: int):
        self.thread = thread

    def tid(self) -> int:
        return self.thread

    @staticmethod
    def kernel(function: Callable[..., None]) -> Callable[..., None]:
        return function

    @staticmethod
    def zeros(extent: int, _: type) -> np.ndarray:
        return np.zeros(extent)

    @staticmethod
    def tile_load(array: np.ndarray, shape: Any, offset: Any) -> np.ndarray:
        found = np.zeros(shape)
        for place, element in elements(array, found.shape, offset):
            found[place] = array[element]
        return found

    @staticmethod
    def tile_store(array: np.ndarray, tile: np.ndarray, offset: Any) -> None:
        for place, element in elements(array, tile.shape, offset):
            array[element] = tile[place]

    @staticmethod
    def tile_map(function: Callable[[float], float], tile: np.ndarray) -> np.ndarray:
        return np.vectorize(function, otypes=[float])(tile)

    @staticmethod
    def tile_matmul(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> None:
        total += a @ b

    @staticmethod
    def tile_sum(tile: np.ndarray) -> np.ndarray:
        return np.array([tile.sum()])


def elements(array: np.ndarray, shape: Sequence[int], offset: Any) -> Iterator[tuple[Place, Place]]:
    """Places in a tile of this shape, and the elements of the array that they are of, without those outside."""
    for place in itertools.product(*map(range, shape)):
        element = tuple(int(n + m) for n, m in zip(place, np.atleast_1d(offset), strict=True))
        if all(0 <= n < extent for n, extent in zip(element, array.shape, strict=True)):
            yield place, element


def in_python(source: str, threads: int, buffers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The buffers after the kernel of a text, thread by thread."""
    found = [np.array(b) for b in buffers]
    code = compile(source, "<reference>", "exec", annotations.compiler_flag)
    for thread in range(threads):
        scope: dict[str, Any] = {"wp": OnNumPy(thread), "F": float}
        exec(code, scope)
        scope["k"](*found)
    return found


def check(case: MixedCase, eps: float = 1e-6) -> None:
    """The interpreter against Python, and the tangent against differences."""
    expected = in_python(case.source, case.grid[0], case.buffers)
    for got, right in zip(kit.run(case.kernel, case.grid, case.buffers), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-9, atol=1e-11)
    kit.check_tangent(case, eps)
