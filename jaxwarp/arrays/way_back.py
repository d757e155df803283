"""The way back through what a tape has recorded: run again in private memory, then backwards. See docs/design/0013."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.arrays.eager import Checked, run_like
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.pullback import pull_back
from jaxwarp.arrays.shadow import Shadow, is_float
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.launch.spec import INPUT, OUTPUT, Launch
from jaxwarp.memory.host_scope import contents_of, set_contents
from jaxwarp.memory.region import Region
from jaxwarp.memory.tensor_owner import note_written, place_of
from jaxwarp.unlocked import cached_property


@dataclass(frozen=True)
class Launched:
    """A launch: `regions` of its array arguments, None for values."""

    launch: Launch
    checked: Checked
    regions: tuple[Region | None, ...]

    @cached_property
    def reads(self) -> list[Region]:
        return [r for i in self.launch.operand_params if (r := self.regions[i]) is not None]

    @cached_property
    def writes(self) -> list[Region]:
        return [r for i in self.launch.result_params if (r := self.regions[i]) is not None]


@dataclass(frozen=True)
class Copied:
    """A copy."""

    target: Region
    source: Region

    @property
    def reads(self) -> list[Region]:
        return [self.source]

    @property
    def writes(self) -> list[Region]:
        return [self.target]


@dataclass(frozen=True)
class Constant:
    """New contents that depend on no array."""

    target: Region
    values: np.ndarray

    @property
    def reads(self) -> list[Region]:
        return []

    @property
    def writes(self) -> list[Region]:
        return [self.target]


class _Step:
    """An operation, and the numbers of the blocks of memory of what it reads and writes, also of floats alone."""

    def __init__(self, op: Launched | Copied | Constant, memory: Shadow):
        self.op = op
        self.reads = [memory.block(r) for r in op.reads]
        self.writes = [memory.block(r) for r in op.writes]
        self.float_reads = [b for r, b in zip(op.reads, self.reads, strict=True) if is_float(r.dtype)]
        self.float_writes = [b for r, b in zip(op.writes, self.writes, strict=True) if is_float(r.dtype)]


class Backward:
    """One run: the recording again, in private memory, then the way back."""

    def __init__(
        self,
        ops: Sequence[Launched | Copied | Constant],
        arrays: Sequence[HostArray],
        saved: Sequence[tuple[Region, np.ndarray]],
    ):
        self.ops = ops
        found = [(a, grad) for a in arrays if (grad := a.grad) is not None]
        self.pairs = list({(place_of(a.region), place_of(grad.region)): (a, grad) for a, grad in found}.values())
        regions = [r for op in ops for r in (*op.reads, *op.writes)] + [a.region for a in arrays]
        written = [r for op in ops for r in op.writes]
        self.values = Shadow(regions, written)
        for region, contents in reversed(saved):  # what was there first comes last
            self.values.view(region)[...] = contents
        self.cotangents = Shadow(regions, regions, is_zero=True)
        self.cotangents.require_one_type()
        self.steps = [_Step(op, self.values) for op in ops]

    def run(self) -> None:
        self._collect()
        # By block of memory: does it depend on an array with a gradient? Does the result depend on it? Where it does
        # not, a cotangent is zero whatever the slopes are.
        moving = {self.cotangents.block(a.region) for a, _ in self.pairs}
        for step in self.steps:
            if not moving.isdisjoint(step.float_reads):
                moving.update(step.float_writes)
        operands = self._replay(moving)
        asked = {self.cotangents.block(a.region) for a, _ in self.pairs if self.cotangents.view(a.region).any()}
        kept: dict[Any, list[np.ndarray]] = {}
        for step, values in zip(reversed(self.steps), reversed(operands), strict=True):
            self._keep(step.op.writes, kept)
            self._back(step, values, moving, asked)
        for array, grad in self.pairs:
            set_contents(grad.region, self.cotangents.view(array.region))
        for owner, found in kept.items():
            for (_, grad), values in zip(self._retained[owner], found, strict=True):
                set_contents(grad.region, values)
        for _, grad in self.pairs:
            note_written([grad.region])

    @cached_property
    def _retained(self) -> dict[Any, list[tuple[HostArray, HostArray]]]:
        """Arrays and gradients that are kept, by the memory of the gradients."""
        found: dict[Any, list[tuple[HostArray, HostArray]]] = {}
        for array, grad in self.pairs:
            if grad.owner.is_retained:
                found.setdefault(grad.owner, []).append((array, grad))
        return found

    def _keep(self, writes: Sequence[Region], kept: dict[Any, list[np.ndarray]]) -> None:
        """Keeps the derivatives by what was written last, before they are used up."""
        for owner, pairs in self._retained.items():
            if owner not in kept and any(w.overlaps(array.region) for w in writes for array, _ in pairs):
                kept[owner] = [self.cotangents.view(array.region).copy() for array, _ in pairs]

    def _collect(self) -> None:
        """Cotangents start from the gradients that are there."""
        for array, grad in self.pairs:
            if not grad.is_writable:
                raise KernelTypeError(
                    f"Tape.backward: the gradient of {array.label} is read-only, and written",
                    hint="give the array jaxwarp.clone(gradient), or pass backward(grads={array: gradient})",
                )
        found = _shared([(array.region, grad.region) for array, grad in self.pairs], 0)
        if found is not None:
            one, other = (self.pairs[i][0].label for i in found)
            raise KernelValueError(
                f"Tape.backward: {one} and {other} share memory, and their gradients do not",
                hint="set requires_grad where the array is made; parts of it then have parts of its gradient",
            )
        found = _shared([(array.region, grad.region) for array, grad in self.pairs], 1)
        if found is not None:
            one, other = (self.pairs[i][0].label for i in found)
            raise KernelValueError(
                f"Tape.backward: the gradients of {one} and {other} share memory, they do not",
                hint="give each a gradient of its own",
            )
        for array, grad in self.pairs:
            self.cotangents.view(array.region)[...] = contents_of(grad.region)

    def _replay(self, moving: set[int]) -> list[Any]:
        """Runs the recording again. The operands of every launch that matters, as they were."""
        kept: list[Any] = []
        needed, changing = self._needed_later(), self._changing()
        for step, is_needed, changed in zip(self.steps, needed, changing, strict=True):
            values: dict[int, np.ndarray] = {}
            match step.op:
                case Launched() as op:
                    if not moving.isdisjoint(step.float_reads):
                        values = self._operands(op, changed)
                    if is_needed and not run_like(op.checked, self.values.address):
                        op.checked.run_in(self.values.at)
                case Copied() as op:
                    if is_needed:
                        self.values.view(op.target)[...] = self.values.view(op.source).copy()  # they may overlap
                case Constant() as op:
                    if is_needed:
                        self.values.view(op.target)[...] = op.values
            kept.append(values)
        return kept

    def _needed_later(self) -> list[bool]:
        """For each operation, whether a later one reads what it writes."""
        needed, read = [], set[int]()
        for step in reversed(self.steps):
            needed.append(not read.isdisjoint(step.writes))
            read.update(step.reads)
        return needed[::-1]

    def _changing(self) -> list[bool]:
        """For each operation, whether it or a later one writes to what it reads."""
        changing, written = [], set[int]()
        for step in reversed(self.steps):
            written.update(step.writes)
            changing.append(not written.isdisjoint(step.reads))
        return changing[::-1]

    def _operands(self, op: Launched, may_change: bool) -> dict[int, np.ndarray]:
        values = {}
        for i in op.launch.operand_params:
            region = op.regions[i]
            values[i] = op.checked.values[i].value if region is None else self.values.snapshot(region, may_change)
        return values

    def _back(self, step: _Step, values: Any, moving: set[int], asked: set[int]) -> None:
        cotangents = self.cotangents
        match step.op:
            case Constant() as op:
                cotangents.clear(op.target, asked)
            case Copied() as op:
                moved, is_asked = cotangents.view(op.target).copy(), not asked.isdisjoint(step.writes)
                cotangents.clear(op.target, asked)
                if is_float(op.source.dtype) and is_asked:
                    cotangents.view(op.source)[...] += moved
                    asked.update(step.reads)
            case Launched() as op:
                if values:
                    self._back_launch(step, op, values, moving, asked)
                else:  # of nothing that has a gradient
                    for i in op.launch.result_params:
                        if op.launch.roles[i] == OUTPUT and (region := op.regions[i]) is not None:
                            cotangents.clear(region, asked)

    def _back_launch(
        self, step: _Step, op: Launched, values: dict[int, np.ndarray], moving: set[int], asked: set[int]
    ) -> None:
        if asked.isdisjoint(step.float_writes):
            return
        cotangents, regions, launch = self.cotangents, op.regions, op.launch
        reads, writes = step.float_reads, step.float_writes
        results = {i: r for i in launch.result_params if (r := regions[i]) is not None and is_float(r.dtype)}
        floats = [i for i in launch.operand_params if (r := regions[i]) is not None and is_float(r.dtype)]
        wanted = tuple(i for i, block in zip(floats, reads, strict=True) if block in moving)
        given = zip(results.items(), writes, strict=True)
        incoming = {i: cotangents.view(r).copy() for (i, r), block in given if block in asked}
        found = pull_back(launch, wanted, values, incoming)
        for i, region in results.items():
            if launch.roles[i] == OUTPUT or (i in wanted and i not in found):
                cotangents.clear(region, asked)
            elif i in found:
                cotangents.view(region)[...] = found[i]
        asked.update(block for i, block in zip(floats, reads, strict=True) if i in found)
        for i in found:
            if launch.roles[i] == INPUT:
                region = regions[i]
                assert region is not None
                cotangents.view(region)[...] += found[i]


def _shared(pairs: Sequence[tuple[Region, Region]], which: int) -> tuple[int, int] | None:
    """Two pairs of an array's region and its gradient's whose `which` regions overlap, where the other two need not lie
    to each other as these do; None: there are none.

    Regions are gone through by where they begin. Those that are as far from their gradients as from each other's, and
    laid out like them, are of one kind, and may overlap. Of those of other kinds only the one that reaches farthest
    matters; it is of one of two kinds, whichever this one is of.
    """
    kinds = [(g.address - a.address) if a.strides == g.strides else (i,) for i, (a, g) in enumerate(pairs)]
    farthest: dict[Any, tuple[int, int]] = {}  # of at most two kinds: how far, which pair
    for i in sorted(range(len(pairs)), key=lambda i: pairs[i][which].span):
        low, high = pairs[i][which].span
        if low == high:
            continue
        for kind, (reach, other) in farthest.items():
            if kind != kinds[i] and low < reach:
                return i, other
        farthest[kinds[i]] = max((high, i), farthest.get(kinds[i], (high, i)))
        if len(farthest) > 2:
            del farthest[min(farthest, key=lambda kind: farthest[kind])]
    return None
