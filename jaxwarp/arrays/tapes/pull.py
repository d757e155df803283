"""The reverse of one launch, in memory of the host or of a GPU. See docs/design/0071.

It is a list of steps (`steps.py`), or, where an operation is none of those, a program of XLA's on the host. Sums go to
where they are wanted if the memory allows it: then a reverse is one launch.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxwarp import compat
from jaxwarp.arrays.eager import LaunchPlan
from jaxwarp.arrays.tapes.memory import Memory
from jaxwarp.arrays.tapes.steps import Computed, LaunchStep, PullbackSteps, Shapes, UnknownError, abstract
from jaxwarp.ffi.debug import failures_raised
from jaxwarp.ffi.derivatives.handed_out import require_no_handing_out
from jaxwarp.ffi.derivatives.rules import silent_launch
from jaxwarp.ffi.derivatives.zeros import Values, pulled
from jaxwarp.ffi.primitive import bind_launch
from jaxwarp.launches.spec import LaunchSpec
from jaxwarp.memory.host_scope import contents_of
from jaxwarp.memory.region import Region, array_region

_MOST_BYTES = 1 << 20  # of memory of its own that a reverse keeps for the next time


class Destination(NamedTuple):
    """A place that the cotangent of an operand goes to.

    Attributes:
        region: the memory, which may have gaps or be elsewhere.
        is_added: whether it is added to what is there, else it takes the place of that.
        is_apart: whether no other memory that the reverse uses overlaps it, but the same region as a cotangent given.
        flag: memory that is zero if nothing is to be added; None: nobody asks.
    """

    region: Region
    is_added: bool = True
    is_apart: bool = True
    flag: Region | None = None


class Pull(ABC):
    """The reverse of a launch.

    Attributes:
        found: the operands that get a cotangent.
        needed: the places, among operands and then cotangents, of the inputs whose contents are read.
        operands: the operands among them, by argument.
        is_native: whether it is done by steps.
    """

    found: frozenset[int]
    needed: frozenset[int]
    operands: tuple[int, ...]
    is_native: bool

    @abstractmethod
    def run(self, inputs: Sequence[Region], targets: Mapping[int, Destination]) -> None:
        """Compute the cotangents of operands.

        Args:
            inputs: the operands, then the cotangents of the results given. They are only read, but for those that are
                targets, too.
            targets: where they go, of all that are found.
        """


def pull_of(plan: LaunchPlan, wanted: tuple[int, ...], given: tuple[int, ...], memory: Memory) -> Pull:
    """Return what computes cotangents of the `wanted` operands of a launch from those of the results `given`.

    Raises:
        DifferentiationError: a derivative that cannot be had, with the line of the kernel.
    """
    key = wanted, given, memory
    found = plan.pulls.get(key)
    if found is None:
        made = silent_launch(plan.launch), wanted, given, plan.shapes, memory  # it has run, and said what it says
        found = plan.pulls[key] = native_pull(*made) or ProgramPull(*made)
    return found


def native_pull(
    launch: LaunchSpec, wanted: tuple[int, ...], given: tuple[int, ...], shapes: Shapes, memory: Memory
) -> StepsPull | None:
    """Return the steps of a reverse. Return None if some operation is none, and in debug mode, which also checks
    launches whose results nobody reads."""
    if launch.debug is not None:
        return None
    try:
        return StepsPull(PullbackSteps(_traced(launch, wanted), launch, given, shapes), launch, given, memory)
    except UnknownError:
        return None


@functools.lru_cache(maxsize=256)
def _traced(launch: LaunchSpec, wanted: tuple[int, ...]) -> Any:
    require_no_handing_out(launch, wanted)

    def pull(operands: Values, cotangents: Values) -> Values:
        def run(active: Values) -> Values:
            results = bind_launch(launch, [active.get(i, operands[i]) for i in launch.operand_params])
            return dict(zip(launch.result_params, results, strict=True))

        return pulled(run, {i: operands[i] for i in wanted}, cotangents)[1]

    return jax.jit(pull)


class ProgramPull(Pull):
    """A program of XLA's on the CPU, over copies."""

    is_native = False

    def __init__(
        self, launch: LaunchSpec, wanted: tuple[int, ...], given: tuple[int, ...], shapes: Shapes, memory: Memory
    ):
        self._function, self._memory = _traced(launch, wanted), memory
        self._operands, self._given = launch.operand_params, given
        with _in_jax():
            self.found = frozenset(self._function.eval_shape(*abstract(launch, given, shapes)))
        self.needed, self.operands = frozenset(range(len(self._operands) + len(given))), self._operands

    def run(self, inputs: Sequence[Region], targets: Mapping[int, Destination]) -> None:
        values = [contents_of(region) for region in inputs]
        operands = dict(zip(self._operands, values, strict=False))
        cotangents = dict(zip(self._given, values[len(operands) :], strict=True))
        with failures_raised(), _in_jax():
            found = {i: np.asarray(x) for i, x in self._function(operands, cotangents).items()}
        memory = self._memory
        for i, numbers in found.items():
            target = targets[i]
            if target.is_added:
                memory.add(target.region, memory.operand(numbers, True), target.flag)
            else:
                memory.bring(target.region, array_region(numbers))


@contextmanager
def _in_jax() -> Iterator[None]:
    with compat.with_x64(), jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield


class StepsPull(Pull):
    """Steps in one memory.

    What a launch does no more than add to is added to the target itself; a cotangent that a launch updates is updated
    where it is. All else is made in memory of its own.
    """

    is_native = True

    def __init__(self, steps: PullbackSteps, launch: LaunchSpec, given: Sequence[int], memory: Memory):
        self._memory, self._inputs, self._types, self._constants = memory, steps.inputs, steps.types, steps.constants
        self._results, uses = steps.results, steps.uses
        self.found = frozenset(i for i, _ in steps.results)
        reads = {number for step in steps.steps for number in step.reads} | {number for _, number in steps.results}
        self.needed = frozenset(number for number in reads if number < steps.inputs)
        self.operands = tuple(i for number, i in enumerate(launch.operand_params) if number in self.needed)
        cotangents = {i: len(launch.operand_params) + k for k, i in enumerate(given)}
        launches = [step for step in steps.steps if isinstance(step, LaunchStep)]
        # What the launch and the caller alone use.
        summed = {number for step in launches for number in step.summed if uses[number] == 2}
        updated = {made: source for step in launches for source, made in step.copied if uses[made] == 2}
        self._added = [(i, n) for i, n in steps.results if n in summed and i not in cotangents]
        self._updated = [
            (i, n, updated[n])
            for i, n in steps.results
            if n in updated and updated[n] == cotangents.get(i) and uses[updated[n]] == 1
        ]
        added = {n for _, n in self._added}
        self._steps = [
            _Launch(s, added, memory) if isinstance(s, LaunchStep) else _Other(s, memory) for s in steps.steps
        ]
        self._idle: list[dict[int, Region]] = []  # memory of its own, by numbers of values; each run has one
        made = (steps.types[number] for number in range(steps.inputs, len(steps.types)) if uses[number])
        self._bytes = sum(math.prod(t.shape) * t.dtype.itemsize for t in made)
        in_place = {number: source for _, number, source in self._updated}
        self._sources = [(i, in_place.get(n, n)) for i, n in steps.results if n not in added]
        rest = {n for _, n in steps.results} - added - in_place.keys() - set(cotangents.values())
        # One launch alone, if memory allows it: which inputs, and behind these targets, its arguments are.
        self._arguments: Sequence[int] = ()
        if not rest and len(self._steps) == 1 and isinstance(only := self._steps[0], _Launch):
            behind = in_place | {n: steps.inputs + k for k, (_, n) in enumerate(self._added)}
            if all(n < steps.inputs or n in behind for n in launches[0].places):
                self._launch, self._arguments = only.launch, [behind.get(n, n) for n in launches[0].places]

    def run(self, inputs: Sequence[Region], targets: Mapping[int, Destination]) -> None:
        if self._arguments and self._are_in_place(inputs, targets):
            regions = [*inputs, *[targets[i].region for i, _ in self._added]]
            self._launch([regions[k] for k in self._arguments])
            return
        try:
            own = self._idle.pop()
        except IndexError:
            own = {}
        memory, needed = self._memory, self.needed
        known: dict[int, Region] = {}
        for number, region in enumerate(inputs):
            known[number] = memory.plain(region) if number in needed else region
        for i, number in self._added:
            if self._is_direct(targets[i]):
                known[number] = targets[i].region
        for i, number, source in self._updated:
            if targets[i].region is known[source]:
                known[number] = known[source]
        values = _Values(self, own, known)
        for step in self._steps:
            step.run(values)
        self._store(values, targets)
        if self._bytes <= _MOST_BYTES:
            self._idle.append(own)

    def _is_direct(self, target: Destination) -> bool:
        region = target.region
        return target.is_apart and target.flag is None and region.is_plain and self._memory.has(region)

    def _are_in_place(self, inputs: Sequence[Region], targets: Mapping[int, Destination]) -> bool:
        """Return whether all is where the launch takes it, and goes where it leaves it."""
        memory = self._memory
        for number in self.needed:
            region = inputs[number]
            if not (region.is_plain and memory.has(region)):
                return False
        for i, _ in self._added:
            if not self._is_direct(targets[i]):
                return False
        return not self._sources or all(targets[i].region is inputs[source] for i, source in self._sources)

    def _store(self, values: _Values, targets: Mapping[int, Destination]) -> None:
        found = [(targets[i], values[number]) for i, number in self._results]
        found = [(target, value) for target, value in found if target.region is not value]
        for target, value in found:
            if target.is_added:
                self._memory.add(target.region, value, target.flag)
        for target, value in found:  # now that nobody reads cotangents any more
            if not target.is_added:
                self._memory.bring(target.region, value)

    def make(self, number: int) -> Region:
        """Return new memory for a value."""
        type_ = self._types[number]
        made = self._memory.new(type_.dtype, type_.shape)
        if number in self._constants:
            self._memory.set(made, np.asarray(self._constants[number]))
        return made


class _Values(dict[int, Region]):
    """The values of one run, by their numbers."""

    def __init__(self, pull: StepsPull, own: dict[int, Region], known: dict[int, Region]):
        super().__init__(known)
        self._pull, self._own = pull, own

    def __missing__(self, number: int) -> Region:
        found = self._own.get(number)
        if found is None:
            found = self._own[number] = self._pull.make(number)
        self[number] = found
        return found

    def is_own(self, number: int) -> bool:
        """Return whether a value is in memory that the reverse has made."""
        return self[number] is self._own.get(number)


class _Launch:
    """A launch of a reverse; values with the numbers `added` start from what is there."""

    def __init__(self, step: LaunchStep, added: set[int], memory: Memory):
        self._memory, self._places, self._copied = memory, step.places, step.copied
        self._added = [number for number in step.summed if number in added]
        self.launch = memory.launcher(step.key(added))

    def run(self, values: _Values) -> None:
        memory = self._memory
        regions = [values[number] for number in self._places]
        for source, target in self._copied:
            if values[target] is not values[source]:
                memory.copy(values[target], values[source])
        for number in self._added:
            if values.is_own(number):
                memory.clear(values[number])
        self.launch(regions)


class _Other:
    """A step of a reverse that is no launch."""

    def __init__(self, step: Computed, memory: Memory):
        self._step, self._memory = step, memory

    def run(self, values: _Values) -> None:
        step, memory = self._step, self._memory
        target, source = values[step.made], values[step.given[0]]
        if step.kind == "convert":
            memory.convert(target, source)
        else:
            memory.copy(target, source)
            memory.add(target, values[step.given[1]])
