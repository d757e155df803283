"""Random kernels whose threads store to any elements of some arrays, which they do nothing else with."""

from __future__ import annotations

import kernels_strategy
from kernels_strategy import Array

from jaxwarp.types import SCALARS


class Maker(kernels_strategy.Maker):
    """What other kernels update by atomics is stored to here: of any type, in branches and loops too."""

    fewest_accumulators = 1

    def make_accumulator(self) -> Array:
        shape = tuple(self.pick.integer(1, 6) for _ in range(self.pick.integer(0, 2)))
        dtype = self.pick.of(SCALARS if self.pick.chance(30) else self.types)
        return Array(self.make_param(dtype, shape), shape)

    def statements(self, depth: int) -> None:
        super().statements(depth)
        if depth == 0 or self.pick.chance(20):
            self.collide()

    def statement(self, depth: int) -> None:
        if self.pick.chance(15):
            self.collide()
        else:
            super().statement(depth)

    def update(self) -> None:
        self.collide()

    def collide(self) -> None:
        self.store(self.pick.of(self.accumulators))
