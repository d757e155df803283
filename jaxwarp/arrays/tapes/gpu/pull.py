"""The reverse of a launch in the memory of a GPU: the steps of `native_pullback.py`, queued on its stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.arrays.tapes.gpu import arithmetic
from jaxwarp.arrays.tapes.native_pullback import Computed, LaunchStep, PullbackSteps, UnknownError
from jaxwarp.ffi.launch.on_memory import CudaLaunch, are_aligned, loaded_on
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.region import Region


class GpuPull:
    """A function of operands and cotangents. What its steps make has memory of its own for each call.

    Raises:
        UnknownError: a step that is not known here.
    """

    def __init__(self, steps: PullbackSteps, scope: GpuScope):
        self._steps, self._scope = steps, scope
        self._constants = {number: np.asarray(value) for number, value in steps.constants}
        self._launches: dict[Any, CudaLaunch] = {}
        for step in steps.steps:
            if isinstance(step, Computed):
                (shape,), made = {steps.types[i].shape for i in step.given}, steps.types[step.made].shape
                if shape != made and step.given[0] not in self._constants:
                    raise UnknownError

    def run(self, inputs: Sequence[Region]) -> dict[int, Region]:
        """The cotangents that there are of operands, by their numbers.

        Args:
            inputs: the operands, then the cotangents, dense. They are only read.
        """
        scope, types = self._scope, self._steps.types
        values: list[Region | None] = [*inputs, *[None] * (len(types) - len(inputs))]

        def new(number: int) -> Region:
            made = values[number] = scope.new(types[number].dtype, types[number].shape)
            return made

        def value(number: int) -> Region:
            found = values[number]
            if found is None:
                found = new(number)
                scope.set(found, self._constants[number])
            return found

        for step in self._steps.steps:
            if isinstance(step, LaunchStep):
                for number in step.made:
                    new(number)
                for source, target in step.copied:
                    scope.duplicate(value(target), value(source))
                self._launch(step, [value(number) for number in step.places])
            elif step.given[0] in self._constants and step.kind == "copy":
                scope.set(new(step.made), self._constants[step.given[0]])
            else:
                self._compute(step, new(step.made), [value(number) for number in step.given])
        return {i: value(number) for i, number in self._steps.results}

    def _compute(self, step: Computed, target: Region, given: Sequence[Region]) -> None:
        match step.kind:
            case "copy":
                self._scope.duplicate(target, given[0])
            case "convert":
                arithmetic.convert(self._scope, target, given[0])
            case "add":
                self._scope.duplicate(target, given[0])
                arithmetic.add(self._scope, target, given[1])

    def _launch(self, step: LaunchStep, operands: Sequence[Region]) -> None:
        scope, is_aligned = self._scope, are_aligned(operands)
        code = self._launches.get((step, is_aligned))
        if code is None:
            code = self._launches[step, is_aligned] = loaded_on(scope, step.key, is_aligned)
        for i in code.cleared:
            scope.set(operands[i], np.zeros((), operands[i].dtype))
        with scope.entered():
            scope.uses(*([o for i, o in enumerate(operands) if (i in code.written) is w] for w in (False, True)))
            code.run(scope, [o.address for o in operands])
