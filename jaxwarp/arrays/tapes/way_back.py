"""The way back through what a tape has recorded: run again in private memory, then backwards. See docs/design/0013."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jaxwarp.arrays.eager import run_checked
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.tapes.blocks import MemoryBlocks, PlacedRegion, Private
from jaxwarp.arrays.tapes.by_hand import ByHand
from jaxwarp.arrays.tapes.gpu.memory import GpuMemory
from jaxwarp.arrays.tapes.memory import HOST_MEMORY, Memory
from jaxwarp.arrays.tapes.pull import Destination, Pull, pull_of
from jaxwarp.arrays.tapes.recorded import Copied, Launched, NewContents, Operation, PullbackCall
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.launches.spec import INPUT, OUTPUT
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.host_scope import HOST, scope_of
from jaxwarp.memory.region import Region, dense_region
from jaxwarp.memory.tensor_owner import note_written, place_of
from jaxwarp.structs.records import has_floats
from jaxwarp.unlocked import address_of, cached_property

_NOTHING: Mapping[int, Region] = {}


class _Step:
    """An operation, where what it reads and writes is, and what the way back does at it.

    Attributes:
        places: of a launch, those of its arguments, None for values.
        reads: the numbers of the blocks that it reads.
        operands: of a launch, the numbers of its operands that are arrays of floats, and where they are.
        results: likewise.
        float_reads: the numbers of the blocks of floats that it reads.
        is_again: whether it is run again: something later reads what it writes.
        pull: of a launch that matters, its reverse.
        given: the results whose cotangents that takes.
        found: the operands that it finds cotangents of, where they are, and of each whether it is added to what is
            there, and whether no other one is in the same block.
        needed: the numbers of the blocks that it reads of the operands.
        kept: operands as they were, of those that change later and of values, by argument.
        cleared: where cotangents are used up.
    """

    __slots__ = (
        *("cleared", "float_reads", "float_writes", "found", "given", "is_again", "kept", "needed", "op", "operands"),
        *("places", "pull", "reads", "results", "writes"),
    )

    def __init__(self, op: Operation, blocks: MemoryBlocks):
        self.op, self.is_again = op, False
        self.pull: Pull | None = None
        self.given: tuple[int, ...] = ()
        self.found: Sequence[tuple[int, PlacedRegion, bool, bool]] = ()
        self.needed: Sequence[int] = ()
        self.kept: Mapping[int, Region] = _NOTHING
        self.cleared: Sequence[PlacedRegion] = ()
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

    def clears(self, places: Sequence[PlacedRegion], asked: set[int]) -> None:
        """The way back sets cotangents to zero. Blocks all of which are zero then are asked for no more."""
        self.cleared = [place for place in places if place.block in asked]
        asked.difference_update(place.block for place in self.cleared if place.fills)


class Pair(NamedTuple):
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
    """One run: a plan of the way back, the recording again, in private memory, as far as that reads it, then the way
    back.

    Attributes:
        values: what arrays held when they were recorded.
        cotangents: those of all arrays: gradients themselves, where they can be.
    """

    values: Private
    cotangents: Private

    def __init__(
        self,
        ops: Sequence[Operation],
        arrays: Sequence[HostArray],
        saved: Sequence[tuple[Region, Region]],
    ):
        self.blocks = MemoryBlocks(_regions(ops, arrays, saved))
        self.blocks.require_one_type()
        moving = [(a, grad) for a in arrays if (grad := a.grad) is not None and has_floats(a.dtype)]
        found = [(a, grad, a.region, grad.region) for a, grad in moving]
        pairs = [Pair(a, grad, self.blocks.place(region), target) for a, grad, region, target in found]
        self.pairs = list({(place_of(p.place.region), place_of(p.target)): p for p in pairs}.values())
        self.steps = [_Step(op, self.blocks) for op in ops]
        self.written = {block for step in self.steps for block in step.writes}
        self.saved = [(self.blocks.place(region), kept) for region, kept in saved]
        self.memory = self._one_memory()
        self.replaced = set[int]()  # blocks of which arrays may hold something else by now
        self.by_hand: ByHand | None = None
        if any(isinstance(step.op, PullbackCall) for step in self.steps):
            self.by_hand = ByHand(self.pairs, self.blocks, self.memory)

    def _one_memory(self) -> Memory:
        """Return the memory of the GPU on which all of it is, or else the host's."""
        gpus = self.blocks.gpus
        if not gpus or len(gpus) < len(self.blocks.lows):
            return HOST_MEMORY
        places = {*gpus.values(), *(scope_of(pair.target) for pair in self.pairs)}
        scope = places.pop()
        return GpuMemory(scope) if isinstance(scope, GpuScope) and not places else HOST_MEMORY

    def run(self) -> None:
        """Add the derivatives to the gradients."""
        if self.by_hand is not None:  # its functions are in contexts of their own
            self._run()
            return
        with self.memory.entered():
            self._run()

    def _run(self) -> None:
        _require_gradients_apart(self.pairs)
        active = self._active()
        begun = self._begun()
        asked = self._plan(active, begun)
        self._make_cotangents(begun, asked)
        self._replay()
        kept: dict[Any, list[Region]] = {}
        for step in reversed(self.steps):
            if self._retained:
                self._keep(step.op.writes, kept)
            self._back(step)
            if self.by_hand is not None:
                self.by_hand.stale.update(step.reads, step.writes)
        if self.by_hand is not None:
            self.by_hand.require_unchanged(range(len(self.pairs)))
        for pair in self.pairs:  # a gradient that was zero and is zero is there already
            if pair.place.block not in self.mapped and (self.by_hand is not None or pair.place.block in asked):
                self.memory.bring(pair.target, self.cotangents.at(pair.place))
        for owner, found in kept.items():
            for pair, values in zip(self._retained[owner], found, strict=True):
                self.memory.bring(pair.target, values)
        note_written([pair.target for pair in self.pairs])

    # What is to be done. Blocks of memory that depend on an array with a gradient are active, those that a result
    # depends on are asked for. Of all others a cotangent is zero whatever the slopes are.

    def _active(self) -> set[int]:
        active = {pair.place.block for pair in self.pairs}
        for step in self.steps:
            if isinstance(step.op, PullbackCall) and self.by_hand is not None:
                self.by_hand.require_gradients(step.op, active)
            if not active.isdisjoint(step.float_reads):
                active.update(step.float_writes)
        return active

    def _begun(self) -> set[int]:
        """Return the blocks whose cotangents start from numbers other than zero. Of those that nothing writes it does
        not matter."""
        read = {pair.place.block for pair in self.pairs} - self.written
        asked = [pair for pair in self.pairs if pair.place.block in self.written]
        found = self.memory.nonzero([pair.target for pair in asked])
        return read | {pair.place.block for pair, is_begun in zip(asked, found, strict=True) if is_begun}

    def _plan(self, active: set[int], begun: set[int]) -> set[int]:
        """Find the reverse of each launch, and the operations that have to be run again. Returns the blocks that have a
        cotangent at some time."""
        asked, ever, read = set(begun), set(begun), set[int]()
        for step in reversed(self.steps):
            op = step.op
            is_asked = not asked.isdisjoint(step.float_writes)
            if isinstance(op, PullbackCall) and self.by_hand is not None:
                asked |= self.by_hand.blocks_of(op.arrays)
            elif is_asked and isinstance(op, Launched) and active.isdisjoint(step.float_reads):
                roles = op.launch.roles
                step.clears([place for i, place in step.results if roles[i] == OUTPUT], asked)
            elif is_asked and isinstance(op, Launched):
                self._plan_launch(step, op, active, asked)
            elif is_asked:
                step.clears([place for _, place in step.results], asked)
                asked.update(step.float_reads)
            ever |= asked
            step.is_again = not read.isdisjoint(step.writes)
            if step.is_again:
                read.update(step.reads)
                self.replaced.update(step.writes)
            read.update(step.needed)
        self.replaced |= {block for block in read if block in self.written or not self._is_here(block)} - {-1}
        return ever

    def _is_here(self, block: int) -> bool:
        return self.blocks.gpus.get(block, HOST) is self.memory.scope

    def _plan_launch(self, step: _Step, op: Launched, active: set[int], asked: set[int]) -> None:
        launch = op.plan.launch
        wanted = tuple([i for i, place in step.operands if place.block in active])
        given = tuple([i for i, place in step.results if place.block in asked])
        step.given = given
        step.pull = pull = pull_of(op.plan, wanted, given, self.memory)
        places = step.places
        step.needed = [p.block for i in pull.operands if (p := places[i]) is not None]
        roles = launch.roles
        gone = [p for i, p in step.results if roles[i] == OUTPUT or (i in wanted and i not in pull.found)]
        step.clears(gone, asked)
        found = [(i, place) for i, place in step.operands if i in pull.found]
        blocks = [place.block for _, place in found]
        step.found = [(i, place, roles[i] == INPUT, blocks.count(place.block) == 1) for i, place in found]
        asked.update(blocks)

    def _make_cotangents(self, begun: set[int], asked: set[int]) -> None:
        self.mapped = self._direct()
        kept = self.pairs if self.by_hand is not None else [p for pairs in self._retained.values() for p in pairs]
        chosen = asked | {pair.place.block for pair in kept}
        self.cotangents = Private(self.memory, self.blocks, chosen, self.mapped)
        self.cotangents.clear()
        for pair in self.pairs:
            if pair.place.block in begun and pair.place.block not in self.mapped:
                self.memory.bring(self.cotangents.at(pair.place), pair.target)
        if self.by_hand is not None:
            self.by_hand.cotangents = self.cotangents

    def _direct(self) -> dict[int, Region]:
        """Return the gradients that are the cotangents of a block: they have its layout, and nothing that was recorded
        reads them. Until the end nothing may fail, then, or gradients would be left half done."""
        is_safe = self.by_hand is None and all(step.pull is None or step.pull.is_native for step in self.steps)
        return {
            pair.place.block: pair.target
            for pair in self.pairs
            if is_safe
            and pair.place.fills
            and pair.target.is_plain
            and self.memory.has(pair.target)
            and not self.blocks.meet(*pair.target.span)
        }

    @cached_property
    def _retained(self) -> dict[Any, list[Pair]]:
        """Arrays and gradients that are kept, by the memory of the gradients."""
        found: dict[Any, list[Pair]] = {}
        for pair in self.pairs:
            if pair.target.owner.is_retained:
                found.setdefault(pair.target.owner, []).append(pair)
        return found

    def _keep(self, writes: Sequence[Region], kept: dict[Any, list[Region]]) -> None:
        """Keeps the derivatives by what was written last, before they are used up."""
        for owner, pairs in self._retained.items():
            if owner not in kept and any(w.overlaps(pair.place.region) for w in writes for pair in pairs):
                kept[owner] = [self.memory.copied(self.cotangents.at(pair.place)) for pair in pairs]

    # The recording again.

    def _replay(self) -> None:
        """Runs the recording again, as far as the way back reads it, and keeps operands that change later."""
        self.values = values = Private(self.memory, self.blocks, self.replaced)
        filled = self._overwritten() | {place.block for place, _ in self.saved if place.fills}
        values.load(block for block in values.chosen if block not in filled)
        for place, kept in reversed(self.saved):  # what was there first comes last
            if place.block in self.replaced:
                self.memory.bring(values.at(place), kept)
        last = {block: number for number, step in enumerate(self.steps) if step.is_again for block in step.writes}
        for number, step in enumerate(self.steps):
            op = step.op
            if isinstance(op, Launched):
                changing = [block for block in step.needed if last.get(block, -1) >= number]
                if step.pull is not None and (changing or None in step.places):
                    self._keep_operands(step, op, changing)
                if step.is_again and not self._run_again(step, op):
                    self._run_elsewhere(step, op)
            elif step.is_again and isinstance(op, Copied):
                self.memory.copy(values.at(self.blocks.place(op.target)), values.at(self.blocks.place(op.source)))
            elif step.is_again and isinstance(op, NewContents):
                self.memory.set(values.at(self.blocks.place(op.target)), op.values)

    def _overwritten(self) -> set[int]:
        """The blocks of which nothing is left before anything is read: their first launch writes all of them."""
        touched, found = set[int](), set[int]()
        for step in self.steps:
            touched.update(step.reads)
            if isinstance(step.op, Launched):
                for place, role in zip(step.places, step.op.plan.launch.roles, strict=True):
                    if role == OUTPUT and place is not None and place.fills and place.block not in touched:
                        found.add(place.block)
            touched.update(step.writes)
        return found

    def _keep_operands(self, step: _Step, op: Launched, changing: Sequence[int]) -> None:
        """`changing`: the blocks that it or a later operation, which is run again, writes."""
        assert step.pull is not None
        step.kept = kept = dict[int, Region]()
        for number, i in enumerate(op.plan.launch.operand_params):
            place, value = step.places[i], op.values[i]
            if place is not None:
                if changing and place.block in changing and number in step.pull.needed:
                    kept[i] = self.memory.copied(self.values.at(place))
            elif value is not None and number in step.pull.needed:
                kept[i] = self.memory.operand(value, op.plan.arguments[i].is_array)
            elif value is not None:
                kept[i] = dense_region(0, value.dtype, value.shape)  # nobody reads it

    def _run_again(self, step: _Step, op: Launched) -> bool:
        """Runs a launch in private memory, unless there is more to do: in debug mode, or where arrays have gaps."""
        plan, addresses = op.plan, []
        if plan.launch.debug is not None or self.memory is not HOST_MEMORY:
            return False
        for i, (place, value) in enumerate(zip(step.places, op.values, strict=True)):
            if place is not None:
                if not place.is_plain:
                    return False
                addresses.append(self.values.at(place).address)
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
        run_checked(self.memory.scope, checked._replace(values=moved))

    # The way back.

    def _back(self, step: _Step) -> None:
        op, at = step.op, self.cotangents.at
        if isinstance(op, Launched):
            if step.pull is not None:
                self._back_launch(step, op, step.pull)
        elif isinstance(op, PullbackCall):
            assert self.by_hand is not None
            self.by_hand.call(op)
        elif isinstance(op, Copied):
            if step.cleared and step.operands:
                self._back_copy(op)
                return
        elif op.is_update and self.by_hand is not None:
            self.by_hand.require_no_update(self.blocks.place(op.target).block)
        for place in step.cleared:
            self.memory.clear(at(place))

    def _back_copy(self, op: Copied) -> None:
        memory, target = self.memory, self.cotangents.at(self.blocks.place(op.target))
        source = self.cotangents.at(self.blocks.place(op.source))
        moved = memory.copied(target) if target.overlaps(source) else memory.plain(target)
        if moved is target:
            memory.add(source, moved)
            memory.clear(target)
        else:
            memory.clear(target)
            memory.add(source, moved)

    def _back_launch(self, step: _Step, op: Launched, pull: Pull) -> None:
        places, kept, value, at = step.places, step.kept, self.values.at, self.cotangents.at
        operands = op.plan.launch.operand_params
        inputs = [value(p) if (p := places[i]) is not None and i not in kept else kept[i] for i in operands]
        inputs += [at(p) for i in step.given if (p := places[i]) is not None]
        pull.run(inputs, {i: Destination(at(place), is_added, is_apart) for i, place, is_added, is_apart in step.found})


def _require_gradients_apart(pairs: Sequence[Pair]) -> None:
    """Gradients are where they may be."""
    for pair in pairs:
        if not pair.grad.is_writable:
            raise KernelTypeError(
                f"Tape.backward: the gradient of {pair.array.label} is read-only, and written",
                hint="give the array jaxwarp.clone(gradient), or pass backward(grads={array: gradient})",
            )
    regions = [(pair.place.region, pair.target) for pair in pairs]
    if (found := _shared(regions, 0)) is not None:
        one, other = (pairs[i].array.label for i in found)
        raise KernelValueError(
            f"Tape.backward: {one} and {other} share memory, and their gradients do not",
            hint="set requires_grad where the array is made; parts of it then have parts of its gradient",
        )
    if (found := _shared(regions, 1)) is not None:
        one, other = (pairs[i].array.label for i in found)
        raise KernelValueError(
            f"Tape.backward: the gradients of {one} and {other} share memory, they do not",
            hint="give each a gradient of its own",
        )


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
