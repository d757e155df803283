"""The way back through what a tape has recorded: run again in private memory, then backwards. See docs/design/0013."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from jaxwarp.arrays.eager import run_checked
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.tapes.by_hand import ByHand
from jaxwarp.arrays.tapes.gpu.shadow import GpuShadow
from jaxwarp.arrays.tapes.pullback import known_pull, known_pull_on, operands_on, pull_in_jax
from jaxwarp.arrays.tapes.recorded import Copied, Launched, NewContents, Operation, PullbackCall
from jaxwarp.arrays.tapes.shadow import MemoryBlocks, PlacedRegion, Private, Shadow, is_zero
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.launch.spec import INPUT, OUTPUT, LaunchSpec
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.host_scope import HOST, contents_of, scope_of, set_contents
from jaxwarp.memory.region import Region
from jaxwarp.memory.tensor_owner import note_written, place_of
from jaxwarp.unlocked import address_of, cached_property


class _Step:
    """An operation, and where what it reads and writes is.

    Attributes:
        places: of a launch, those of its arguments, None for values.
        reads: the numbers of the blocks that it reads.
        operands: of a launch, the numbers of its operands that are arrays of floats, and where they are.
        results: likewise.
        float_reads: the numbers of the blocks of floats that it reads.
        kept: of a launch that matters, operands that are not in private memory as they were, by argument.
    """

    __slots__ = (
        *("float_reads", "float_writes", "is_back", "kept", "op", "operands", "places", "reads", "results", "writes"),
    )

    def __init__(self, op: Operation, blocks: MemoryBlocks):
        self.op, self.is_back = op, False
        self.kept: dict[int, Any] = {}
        self.places: list[PlacedRegion | None] = []
        if isinstance(op, Launched):
            self.places = places = [None if r is None else blocks.place(r) for r in op.regions]
            launch = op.plan.launch
            reads = [(i, p) for i in launch.operand_params if (p := places[i]) is not None]
            writes = [(i, p) for i in launch.result_params if (p := places[i]) is not None]
        else:
            reads, writes = ([(-1, blocks.place(r)) for r in regions] for regions in (op.reads, op.writes))
        self.reads, self.writes = [p.block for _, p in reads], [p.block for _, p in writes]
        self.operands, self.results = [r for r in reads if r[1].is_float], [w for w in writes if w[1].is_float]
        self.float_reads, self.float_writes = ([p.block for _, p in of] for of in (self.operands, self.results))

    def place(self, index: int) -> PlacedRegion:
        """Return the place of an array argument of a launch."""
        found = self.places[index]
        assert found is not None
        return found


class _Pair(NamedTuple):
    """An array with a gradient.

    Attributes:
        place: of the array.
        target: where the gradient is.
    """

    array: HostArray
    grad: HostArray
    place: PlacedRegion
    target: Region


class Backward:
    """One run: the recording again, in private memory, then the way back."""

    def __init__(
        self,
        ops: Sequence[Operation],
        arrays: Sequence[HostArray],
        saved: Sequence[tuple[Region, Region]],
    ):
        self.blocks = MemoryBlocks(_regions(ops, arrays, saved))
        self.blocks.require_one_type()
        found = [(a, grad, a.region, grad.region) for a in arrays if (grad := a.grad) is not None]
        pairs = [_Pair(a, grad, self.blocks.place(region), target) for a, grad, region, target in found]
        self.pairs = list({(place_of(p.place.region), place_of(p.target)): p for p in pairs}.values())
        self.steps = [_Step(op, self.blocks) for op in ops]
        before = [(self.blocks.place(region), kept) for region, kept in saved]
        written = {block for step in self.steps for block in step.writes}
        self.gpu = self._one_gpu()
        make: Any = Shadow if self.gpu is None else partial(GpuShadow, self.gpu)
        self.values: Private = make(self.blocks, written | {place.block for place, _ in before}, self._overwritten())
        for place, kept in reversed(before):  # what was there first comes last
            self.values.load(place, kept)
        every = range(len(self.blocks.lows))
        self.cotangents: Private = make(self.blocks, every, every)
        self.by_hand: ByHand | None = None

    def _overwritten(self) -> set[int]:
        """The blocks of which nothing is left before anything is read: their first launch writes all of them."""
        touched, found = set[int](), set[int]()
        for step in self.steps:
            touched.update(step.reads)
            if isinstance(step.op, Launched):
                roles = step.op.launch.roles
                outputs = [p for p, role in zip(step.places, roles, strict=True) if p is not None and role == OUTPUT]
                found.update(p.block for p in outputs if p.fills and p.block not in touched)
            touched.update(step.writes)
        return found

    def _one_gpu(self) -> GpuScope | None:
        """The GPU on which all of it is; None: some of it is elsewhere, and the private memory the host's."""
        gpus = self.blocks.gpus
        if not gpus or len(gpus) < len(self.blocks.lows):
            return None
        places = {scope_of(region) for region in (*gpus.values(), *(pair.target for pair in self.pairs))}
        return places.pop() if len(places) == 1 else None

    def run(self) -> None:
        self._collect()
        if any(isinstance(step.op, PullbackCall) for step in self.steps):
            self.by_hand = ByHand(self.pairs, self.blocks, self.cotangents)
        # Blocks of memory: those that depend on an array with a gradient are active, those that a result depends on
        # are asked for. Of all others a cotangent is zero whatever the slopes are.
        active = {pair.place.block for pair in self.pairs}
        for step in self.steps:
            if isinstance(step.op, PullbackCall) and self.by_hand is not None:
                self.by_hand.require_gradients(step.op, active)
            if not active.isdisjoint(step.float_reads):
                active.update(step.float_writes)
        self._replay(active)
        cotangents = self.cotangents
        begun = {pair.place.block for pair, idle in zip(self.pairs, self._begin(), strict=True) if not idle}
        asked = set(begun)
        kept: dict[Any, list[Any]] = {}
        for step in reversed(self.steps):
            if self._retained:
                self._keep(step.op.writes, kept)
            self._back(step, active, asked)
            if self.by_hand is not None:
                self.by_hand.stale.update(step.reads, step.writes)
        if self.by_hand is not None:
            self.by_hand.require_unchanged(range(len(self.pairs)))
        for pair in self.pairs:  # a gradient that was zero and is zero is there already
            if self.by_hand is not None or not {pair.place.block}.isdisjoint(begun | asked):
                cotangents.store(pair.place, pair.target)
        for owner, found in kept.items():
            for pair, values in zip(self._retained[owner], found, strict=True):
                if isinstance(values, Region):
                    scope_of(pair.target).bring(pair.target, values)
                else:
                    set_contents(pair.target, values)
        note_written([pair.target for pair in self.pairs])

    @cached_property
    def _retained(self) -> dict[Any, list[_Pair]]:
        """Arrays and gradients that are kept, by the memory of the gradients."""
        found: dict[Any, list[_Pair]] = {}
        for pair in self.pairs:
            if pair.target.owner.is_retained:
                found.setdefault(pair.target.owner, []).append(pair)
        return found

    def _keep(self, writes: Sequence[Region], kept: dict[Any, list[Any]]) -> None:
        """Keeps the derivatives by what was written last, before they are used up."""
        for owner, pairs in self._retained.items():
            if owner not in kept and any(w.overlaps(pair.place.region) for w in writes for pair in pairs):
                kept[owner] = [self.cotangents.kept(pair.place) for pair in pairs]

    def _collect(self) -> None:
        """Gradients are where they may be."""
        for pair in self.pairs:
            if not pair.grad.is_writable:
                raise KernelTypeError(
                    f"Tape.backward: the gradient of {pair.array.label} is read-only, and written",
                    hint="give the array jaxwarp.clone(gradient), or pass backward(grads={array: gradient})",
                )
        regions = [(pair.place.region, pair.target) for pair in self.pairs]
        if (found := _shared(regions, 0)) is not None:
            one, other = (self.pairs[i].array.label for i in found)
            raise KernelValueError(
                f"Tape.backward: {one} and {other} share memory, and their gradients do not",
                hint="set requires_grad where the array is made; parts of it then have parts of its gradient",
            )
        if (found := _shared(regions, 1)) is not None:
            one, other = (self.pairs[i].array.label for i in found)
            raise KernelValueError(
                f"Tape.backward: the gradients of {one} and {other} share memory, they do not",
                hint="give each a gradient of its own",
            )

    def _begin(self) -> Sequence[bool]:
        """Cotangents start from the gradients that are there. Returns which of them are zero."""
        if self.gpu is None:
            are_zero = [scope_of(p.target) is HOST and is_zero(p.target) for p in self.pairs]
        else:
            are_zero = [False] * len(self.pairs)
        for pair, idle in zip(self.pairs, are_zero, strict=True):
            if not idle:
                self.cotangents.load(pair.place, pair.target)
        places = [pair.place for pair in self.pairs]
        return are_zero if self.gpu is None else [not found for found in self.cotangents.nonzero(places)]

    def _replay(self, active: set[int]) -> None:
        """Runs the recording again, and keeps the operands of every launch that matters, as they were."""
        last = {block: number for number, step in enumerate(self.steps) for block in step.writes}
        for number, (step, is_needed) in enumerate(zip(self.steps, self._needed_later(), strict=True)):
            match step.op:
                case Launched() as op:
                    if not active.isdisjoint(step.float_reads):
                        self._keep_operands(step, op, {block for block in step.reads if last.get(block, -1) >= number})
                    if is_needed and not self._run_again(step, op):
                        self._run_elsewhere(step, op)
                case Copied() as op:
                    if is_needed:
                        target, source = self.blocks.place(op.target), self.blocks.place(op.source)
                        self.values.set(target, self.values.kept(source))  # they may overlap
                case NewContents() as op:
                    if is_needed:
                        self.values.set(self.blocks.place(op.target), op.values)
                case PullbackCall():
                    pass

    def _needed_later(self) -> list[bool]:
        """Return, for each operation, whether a later one reads what it writes."""
        needed, read = [], set[int]()
        for step in reversed(self.steps):
            needed.append(not read.isdisjoint(step.writes))
            read.update(step.reads)
        return needed[::-1]

    def _keep_operands(self, step: _Step, op: Launched, changing: set[int]) -> None:
        """`changing`: the blocks that it or a later operation writes."""
        step.is_back = True
        for i in op.plan.launch.operand_params:
            place = step.places[i]
            if place is None:
                value = op.values[i]
                assert value is not None
                step.kept[i] = value
            elif place.block in changing or not place.is_plain:
                step.kept[i] = self.values.kept(place)

    def _run_again(self, step: _Step, op: Launched) -> bool:
        """Runs a launch in private memory, unless there is more to do: in debug mode, or where arrays have gaps."""
        plan, addresses = op.plan, []
        if plan.launch.debug is not None or self.gpu is not None:
            return False
        for i, (place, value) in enumerate(zip(step.places, op.values, strict=True)):
            if place is not None:
                if not place.is_plain:
                    return False
                addresses.append(self.values.address(place))
            elif plan.arguments[i].is_array:
                return False
            else:
                assert value is not None
                addresses.append(address_of(value))
        plan.code.run(addresses)
        return True

    def _run_elsewhere(self, step: _Step, op: Launched) -> None:
        """Runs a launch in private memory, of the host also where it was launched on a GPU."""
        checked = op.checked
        pairs = zip(checked.values, step.places, strict=True)
        moved = [v if p is None else v._replace(region=self.values.at(p)) for v, p in pairs]
        run_checked(self.gpu or HOST, checked._replace(values=moved))

    def _back(self, step: _Step, active: set[int], asked: set[int]) -> None:
        cotangents = self.cotangents
        match step.op:
            case PullbackCall() as op:
                assert self.by_hand is not None
                asked |= self.by_hand.call(op)
            case NewContents() as op:
                if op.is_update and self.by_hand is not None:
                    self.by_hand.require_no_update(self.blocks.place(op.target).block)
                cotangents.clear(self.blocks.place(op.target), asked)
            case Copied() as op:
                target, source = self.blocks.place(op.target), self.blocks.place(op.source)
                is_asked = source.is_float and not asked.isdisjoint(step.writes)
                moved = cotangents.kept(target) if is_asked else None
                cotangents.clear(target, asked)
                if is_asked:
                    cotangents.add(source, moved)
                    asked.update(step.reads)
            case Launched() as op:
                if not step.is_back:  # of nothing that has a gradient
                    for i in op.launch.result_params:
                        if op.launch.roles[i] == OUTPUT and (place := step.places[i]) is not None:
                            cotangents.clear(place, asked)
                elif not asked.isdisjoint(step.float_writes):
                    self._back_launch(step, op, active, asked)

    def _back_launch(self, step: _Step, op: Launched, active: set[int], asked: set[int]) -> None:
        launch, cotangents = op.plan.launch, self.cotangents
        wanted = tuple([i for i, place in step.operands if place.block in active])
        given = tuple([i for i, place in step.results if place.block in asked])
        if self.gpu is not None and (on_gpu := known_pull_on(op.plan, wanted, given, self.gpu)) is not None:
            inputs = self._inputs(self.gpu, step, op, given)
            self._add(step, launch, wanted, on_gpu.run(inputs), asked)
            return
        pull = known_pull(op.plan, wanted, given) if self.gpu is None else None
        if pull is None:
            operands = {i: self._operand(step, i) for i in launch.operand_params}
            incoming = {i: np.array(cotangents.numpy(step.place(i))) for i in given}
            self._add(step, launch, wanted, pull_in_jax(launch, wanted, operands, incoming), asked)
        else:
            addresses, kept = self._addresses(step, launch, given)
            run = pull.run(addresses)
            self._add(step, launch, wanted, run.results, asked)
            pull.release(run)
            del kept

    def _operand(self, step: _Step, i: int) -> np.ndarray:
        kept = step.kept.get(i)
        if isinstance(kept, Region):
            return contents_of(kept)
        return self.values.numpy(step.place(i)) if kept is None else kept

    def _inputs(self, gpu: GpuScope, step: _Step, op: Launched, given: Sequence[int]) -> list[Region]:
        """Operands and cotangents on a GPU."""
        regions: dict[int, Region] = {}
        for i in op.launch.operand_params:
            if (place := step.places[i]) is not None:
                kept = step.kept.get(i)
                regions[i] = kept if isinstance(kept, Region) else self.values.at(place)
        return [*operands_on(gpu, op, regions), *(self.cotangents.values(step.place(i)) for i in given)]

    def _addresses(self, step: _Step, launch: LaunchSpec, given: Sequence[int]) -> tuple[list[int], list[np.ndarray]]:
        """Return the addresses of operands and cotangents, and the copies to keep while these are used."""
        addresses, copies = [], []
        for i in launch.operand_params:
            kept = step.kept.get(i)
            addresses.append(self.values.address(step.place(i)) if kept is None else address_of(kept))
        for i in given:
            place = step.place(i)
            if place.is_plain:
                addresses.append(self.cotangents.address(place))
            else:
                copies.append(self.cotangents.kept(place))
                addresses.append(address_of(copies[-1]))
        return addresses, copies

    def _add(
        self, step: _Step, launch: LaunchSpec, wanted: Sequence[int], found: Mapping[int, Any], asked: set[int]
    ) -> None:
        """Cotangents of results are used up, those `found` of operands are there."""
        cotangents, roles = self.cotangents, launch.roles
        for i, place in step.results:
            if roles[i] == OUTPUT or (i in wanted and i not in found):
                cotangents.clear(place, asked)
            elif i in found:
                cotangents.set(place, found[i])
        for i, place in step.operands:
            if i in found:
                asked.add(place.block)
                if roles[i] == INPUT:
                    cotangents.add(place, found[i])


def _regions(
    ops: Sequence[Operation], arrays: Sequence[HostArray], saved: Sequence[tuple[Region, Region]]
) -> Iterator[Region]:
    for op in ops:
        if isinstance(op, Launched):
            yield from (region for region in op.regions if region is not None)
        elif isinstance(op, PullbackCall):
            yield from (leaf.region for array in op.touched for leaf in array.leaves)
        else:
            yield from (*op.reads, *op.writes)
    yield from (array.region for array in arrays)
    yield from (region for region, _ in saved)


def _shared(pairs: Sequence[tuple[Region, Region]], which: int) -> tuple[int, int] | None:
    """Two pairs of an array's region and its gradient's whose `which` regions overlap, where the other two need not lie
    to each other as these do; None: there are none.

    Regions are gone through by where they begin. Those that are as far from their gradients as from each other's, and
    laid out like them, are of one kind, and may overlap. Of those of other kinds only the one that reaches farthest
    matters; it is of one of two kinds, whichever this one is of.
    """
    spans = sorted(pair[which].span for pair in pairs)
    if all(one[1] <= other[0] for one, other in itertools.pairwise(spans)):
        return None
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
