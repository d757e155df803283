"""Ways back that programs write themselves, as functions that read gradients of arrays and add to them; cotangents are
in private memory. Each gradient is written and read as often as operations before and functions change it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.tapes.blocks import MemoryBlocks, Private
from jaxwarp.arrays.tapes.memory import Memory
from jaxwarp.arrays.tapes.recorded import PullbackCall
from jaxwarp.errors import KernelValueError
from jaxwarp.memory.host_scope import contents_of


class ByHand:
    """The gradients of pairs, as functions see them.

    Attributes:
        stale: numbers of the blocks whose cotangents are others by now than the gradients say.
        written: numbers of the pairs whose gradients functions have changed.
        cotangents: of all pairs; set before a function is called.
    """

    cotangents: Private

    def __init__(self, pairs: Sequence[Any], blocks: MemoryBlocks, memory: Memory):
        self.pairs, self.blocks, self.memory = pairs, blocks, memory
        self.in_block: dict[int, list[int]] = {}
        for number, pair in enumerate(pairs):
            self.in_block.setdefault(pair.place.block, []).append(number)
        # What the gradients held when they were last written or read here.
        self.known = [contents_of(pair.target) for pair in pairs]
        self.stale: set[int] = set()
        self.written: set[int] = set()

    def call(self, op: PullbackCall) -> None:
        """Calls a function. It may change the cotangents in the blocks of its arrays."""
        self.require_unchanged(self._numbers(self.stale))
        for number in self._numbers(self.stale):
            pair = self.pairs[number]
            self.memory.bring(pair.target, self.cotangents.at(pair.place))
            self.known[number] = contents_of(pair.target)
        self.stale = set()
        op.function()
        for number in self._numbers(self.blocks_of(op.arrays)):
            pair = self.pairs[number]
            self.memory.bring(self.cotangents.at(pair.place), pair.target)
            found = contents_of(pair.target)
            if found.any() and found.tobytes() != self.known[number].tobytes():
                self.written.add(number)
            self.known[number] = found

    def require_no_update(self, block: int) -> None:
        """Refuses that a launch which is not recorded updates, in place, what a function has given a derivative."""
        for number in self.written.intersection(self.in_block.get(block, ())):
            raise KernelValueError(
                f"Tape.backward: a function has written the gradient of {self.pairs[number].array.label}, which a "
                "launch before it with record_tape=False updates in place: by which of its contents the derivative is, "
                "is not known",
                hint="write the result of that launch to another array",
            )

    def require_gradients(self, op: PullbackCall, active: set[int]) -> None:
        """Refuses a function through whose arrays a derivative would go that have no gradient.

        Args:
            active: the numbers of the blocks that depend on an array with a gradient.
        """
        moving = {name: a for name, a in op.inputs.items() if not active.isdisjoint(self.blocks_of([a]))}
        for name, array in {**moving, **op.results}.items() if moving else ():
            if self.in_block.keys().isdisjoint(self.blocks_of([array])):
                raise KernelValueError(
                    f"Tape.backward: {name} depends on an array with a gradient, and has none: a derivative would be "
                    "lost",
                    hint="make it with requires_grad=True",
                )

    def blocks_of(self, arrays: Iterable[HostArray]) -> set[int]:
        """Return the numbers of the blocks that arrays are in."""
        return {self.blocks.place(leaf.region).block for array in arrays for leaf in array.leaves}

    def _numbers(self, blocks: Iterable[int]) -> list[int]:
        return [number for block in blocks for number in self.in_block.get(block, ())]

    def require_unchanged(self, numbers: Iterable[int]) -> None:
        """Refuses what a function has written to gradients of arrays that are none of its own."""
        for number in numbers:
            if contents_of(self.pairs[number].target).tobytes() != self.known[number].tobytes():
                raise KernelValueError(
                    f"Tape.backward: a function has written the gradient of {self.pairs[number].array.label}, "
                    "which is none of the arrays that it was recorded with",
                    hint="name all of them: tape.record_func(function, [x, y])",
                )
