"""The recording of a tape: its operations, and the contents that it keeps while it records. See docs/design/0013."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxwarp.arrays.eager import CheckedLaunch, LaunchPlan, PlacedValue
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.tapes.blocks import is_float
from jaxwarp.errors import KernelTypeError
from jaxwarp.launches.spec import LaunchSpec
from jaxwarp.memory.host_scope import contents_of, copy_of
from jaxwarp.memory.region import Region, Spans
from jaxwarp.memory.scope import Scope
from jaxwarp.memory.tensor_owner import place_of


class Launched:
    """A launch.

    Attributes:
        plan: what it is.
        scope: where it was.
        given: its arguments, of which values may have changed since.
        regions: where its arrays were; None for values.
        values: what it was given by value; None for arrays.
        is_plain: whether elements of its arrays lie side by side, or are fields of records that do.
    """

    __slots__ = ("given", "is_plain", "plan", "regions", "scope", "values")

    def __init__(
        self,
        plan: LaunchPlan,
        scope: Scope,
        given: Sequence[Any],
        regions: Sequence[Region | None],
        values: Sequence[np.ndarray | None],
        is_plain: bool,
    ):
        self.plan, self.scope, self.given = plan, scope, given
        self.regions, self.values, self.is_plain = regions, values, is_plain

    @classmethod
    def of(cls, checked: CheckedLaunch) -> Launched:
        """A launch whose arguments fit. Numbers are kept as they are now: a caller's array of one may change."""
        plan, given = checked.plan, checked.values
        values = [None if v.region is not None else plan.by_value(i, v.value) for i, v in enumerate(given)]
        return cls(plan, checked.scope, [v.value for v in given], [v.region for v in given], values, False)

    @property
    def launch(self) -> LaunchSpec:
        """The launch without its values."""
        return self.plan.launch

    @property
    def reads(self) -> list[Region]:
        return [r for i in self.plan.launch.operand_params if (r := self.regions[i]) is not None]

    @property
    def writes(self) -> list[Region]:
        return [r for i in self.plan.launch.result_params if (r := self.regions[i]) is not None]

    @property
    def checked(self) -> CheckedLaunch:
        """The checked launch, with its arguments as they were when it was recorded."""
        found = zip(self.given, self.regions, self.values, strict=True)
        return CheckedLaunch(
            self.plan,
            [
                PlacedValue(v) if r is None else PlacedValue(g, g if isinstance(g, HostArray) else None, r, True)
                for g, r, v in found
            ],
            self.scope,
        )


class Copied:
    """A copy."""

    __slots__ = ("source", "target")

    def __init__(self, target: Region, source: Region):
        self.target, self.source = target, source

    @property
    def reads(self) -> list[Region]:
        return [self.source]

    @property
    def writes(self) -> list[Region]:
        return [self.target]


class NewContents:
    """New contents that depend on no array."""

    __slots__ = ("is_update", "target", "values")

    def __init__(self, target: Region, values: np.ndarray, is_update: bool = False):
        self.target, self.values, self.is_update = target, values, is_update

    @property
    def reads(self) -> list[Region]:
        return []

    @property
    def writes(self) -> list[Region]:
        return [self.target]


class PullbackCall:
    """A function that goes back through what is not recorded, by the gradients of arrays.

    Attributes:
        inputs: by their names, what is known to be read by what is not recorded; those with gradients are of `arrays`.
        results: likewise what is written.
    """

    __slots__ = ("arrays", "function", "inputs", "results")

    def __init__(
        self,
        function: Callable[[], Any],
        arrays: Sequence[HostArray],
        inputs: Mapping[str, HostArray],
        results: Mapping[str, HostArray],
    ):
        self.function, self.arrays, self.inputs, self.results = function, arrays, inputs, results

    @property
    def touched(self) -> list[HostArray]:
        """All its arrays."""
        return [*self.arrays, *self.inputs.values(), *self.results.values()]

    @property
    def reads(self) -> list[Region]:
        return []

    @property
    def writes(self) -> list[Region]:
        return []


Operation = Launched | Copied | NewContents | PullbackCall


class Recording:
    """A record of the operations on arrays so far. Callers record an operation before it happens."""

    def __init__(self) -> None:
        self._idle: list[Region] = []
        self._forget()

    def _forget(self) -> None:
        self._ops: list[Operation] = []
        self._arrays: dict[int, HostArray] = {}
        self._saved: list[tuple[Region, Region]] = []  # what was overwritten, in order
        self._settled: set[Any] = set()  # saved, or made by the tape
        self._read = Spans()
        self._checked: dict[Any, Region] = {}  # to hold at `backward` what they held at the end

    def launched_on_none(self, *arrays: Any) -> None:
        """Note arrays of a launch without threads: a loss may be one of them, with no derivatives."""
        self.see(*arrays)
        self._idle += [array.region for array in arrays if isinstance(array, HostArray)]

    def see(self, *arrays: Any) -> None:
        """Note arrays that are launched on, copied or filled. Derivatives are added to the gradients of those that have
        one."""
        for array in arrays:
            if isinstance(array, HostArray):
                seen = array if array.whole is None else array.whole
                self._arrays[id(seen)] = seen

    def record_launch(self, op: Launched) -> None:
        """A launch."""
        plan, regions = op.plan, op.regions
        if 0 in plan.launch.grid:
            self.launched_on_none(*op.given)
            return
        if not op.is_plain:
            for argument, region in zip(plan.arguments, regions, strict=True):
                if region is not None:
                    _require_places(f"{argument.where}: several of its elements", region)
        self.see(*op.given)
        for i, (is_updated, is_needed) in plan.overwritten.items():
            region = regions[i]
            assert region is not None
            self._overwritten(region, is_updated, is_needed)
        for i in plan.launch.operand_params:
            if (region := regions[i]) is not None:
                self._read.add(region)
        self._ops.append(op)

    def record_copy(self, target: Region, source: Region) -> None:
        """A copy."""
        for what, region in ("destination", target), ("source", source):
            _require_places(f"copy: several elements of the {what}", region)
        self._read.add(source)  # first: they may overlap
        self._overwritten(target)
        self._ops.append(Copied(target, source))

    def record_constant(self, target: Region, values: np.ndarray) -> None:
        """Contents that depend on no array."""
        self._overwritten(target)
        self._ops.append(NewContents(target, values))

    def record_write(self, target: Region) -> None:
        """A launch that is not recorded is going to write to `target`."""
        self._overwritten(target)

    def record_result(self, target: Region, is_update: bool = False) -> None:
        """Record the contents of `target` after a launch that is not recorded. `is_update`: the launch may have read
        `target`."""
        self._ops.append(NewContents(target, contents_of(target), is_update))

    def record_called(
        self,
        function: Callable[[], Any],
        arrays: Sequence[HostArray],
        inputs: Mapping[str, HostArray] | None = None,
        results: Mapping[str, HostArray] | None = None,
    ) -> None:
        """A function that goes back, and the arrays whose gradients it reads and adds to; see `PullbackCall`."""
        called = PullbackCall(function, arrays, inputs or {}, results or {})
        self.see(*called.touched)
        self._ops.append(called)

    def _overwritten(self, region: Region, is_updated: bool = False, is_needed: bool = False) -> None:
        """Saves what a region holds, unless the tape has made that, or nobody asks for it.

        `is_updated`: some of it stays, or is added to; `is_needed`: it decides what is written.
        """
        key = place_of(region)
        if key in self._settled:
            return
        self._settled.add(key)
        is_needed = is_needed or self._read.overlap(region)
        if is_updated or is_needed:
            self._saved.append((region, copy_of(region)))
        if is_needed:
            self._checked[key] = region


def _require_places(which: str, region: Region) -> None:
    """A tape tells elements apart by their place; `which` of them are in one."""
    if region.repeats and is_float(region.dtype):
        raise KernelTypeError(
            f"{which} are in one place (strides {region.strides}), and a tape is recording, which tells elements apart"
            " by their place",
            hint="pass a copy that is contiguous",
        )
