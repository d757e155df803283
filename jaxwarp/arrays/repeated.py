"""Launches outside of JAX that repeat an earlier one, with arguments of the same types and shapes.

Everything about them is found out once, except the addresses of arguments.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from operator import add, itemgetter
from typing import Any, cast

import numpy as np

from jaxwarp.arrays.eager import CheckedLaunch, checked_like, on_records
from jaxwarp.arrays.held import VALUES, Held
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.ids.tables import tables_at
from jaxwarp.arrays.tapes.recorded import Launched
from jaxwarp.ffi.debug import failing_in, failure_in
from jaxwarp.launches.code import key_of
from jaxwarp.launches.on_memory import are_aligned, loaded_on
from jaxwarp.memory.gpu.by_value import ByValue
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.host_scope import HOST, Outside
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.memory.region import Region, array_region
from jaxwarp.unlocked import address_of

_NOWHERE = np.zeros(0)
_NOTHING = object()


class Repeated:
    """A launch with everything found but the addresses.

    Attributes:
        plan: what it is.
    """

    def __init__(self, checked: CheckedLaunch):
        self.plan = plan = checked.plan
        values = [(i, value) for i, value in enumerate(checked.values) if i not in plan.untouched]
        records = {i: found for i, value in values if (found := value.in_records) is not None}
        launch = on_records(plan.launch, tuple((i, r.place) for i, r in records.items())) if records else plan.launch
        shapes = tuple(records[i].region.shape if i in records else shape for i, shape in enumerate(plan.shapes))
        memory = {i: found.region for i, found in records.items()}
        regions = [memory.get(i, value.region) for i, value in enumerate(checked.values) if value.region is not None]
        # What tells of assertions that fail, in a record behind the arguments.
        self._failing = failing_in(launch, shapes)
        key = key_of(launch, shapes)
        if self._failing is not None:
            key = key._replace(kernel=self._failing.kernel, shapes=(*shapes, (self._failing.layout.size,)))
        self._code = loaded_on(checked.scope, key, are_aligned(regions))
        self._is_divided = checked.scope is HOST  # of a call of XLA's, other threads are XLA's
        self._sizes = [
            math.prod(shape) * param.dtype.numpy.itemsize
            for shape, param in zip(shapes, launch.kernel.params, strict=True)
        ]
        # How far from the first record fields begin; which of them have no byte in common in one record.
        self._offsets = [(i, r.bytes[0]) for i, r in records.items()]
        self._apart = {(i, j) for i, a in records.items() for j, b in records.items() if a.is_apart_from(b)}
        self._converters, self._plain = plan.fit.by_value, plan.fit.numbers
        self._written = tuple(plan.written)
        # Of the memory that is used: also components of one value that are given as an array of ours.
        values = enumerate(checked.values)
        unseen = plan.untouched | plan.endless
        self._arrays = [i for i, value in values if value.region is not None and i not in unseen]
        self._tables = tables_at(cast("Outside", checked.scope)) if plan.endless else None
        self._same = plan.same
        looked_at = (*self._arrays, *self._same)
        self._places_of_arrays = itemgetter(*looked_at) if looked_at else lambda _: None
        self._apart_at: Any = _NOTHING  # where they last were, and none overlapped
        # Of numbers of Python, by argument: the last one, which the next launch often has too, as an operand.
        self._numbers: list[tuple[Any, Any, int]] = [(_NOTHING, None, 0)] * len(plan.arguments)

    def operands(self, seen: Sequence[Any]) -> Any:
        """Return the addresses of the arguments, and their operands, which are None for arrays. Return None if memory
        that is written overlaps other memory in use."""
        addresses, kept = self._places(seen, 0)
        for i, offset in self._offsets:
            addresses[i] -= offset
        places = self._places_of_arrays(addresses)
        if places != self._apart_at:
            if not self._are_apart(addresses):
                return None
            self._apart_at = places
        if self._tables is not None and any(
            self._tables.meets(addresses[i], addresses[i] + self._sizes[i]) for i in self._written
        ):
            return None
        return addresses, kept

    def _places(self, seen: Sequence[Any], first: int) -> tuple[list[int], list[Any]]:
        """Return the addresses of arguments, the first of which has the number `first`, and their operands, which are
        None for arrays."""
        addresses: list[int] = []
        kept: list[Any] = []
        for value in seen:
            kind = type(value)
            if kind is HostArray or kind is LiveArray:
                addresses.append(value._region.address)
                kept.append(None)
            elif kind is np.ndarray and self._converters[first + len(kept)] is None:
                addresses.append(address_of(value))
                kept.append(None)
            elif kind is Held:
                found = value.operands.get(self)
                if found is None:
                    found = value.operands[self] = self._places(value.leaves, first + len(kept))
                addresses += found[0]
                kept += found[1]
            else:
                number = self._numbers[first + len(kept)]
                _, array, address = number if number[0] is value else self._operand(first + len(kept), value)
                addresses.append(address)
                kept.append(array)
        return addresses, kept

    def _operand(self, index: int, value: Any) -> tuple[Any, Any, int]:
        """Return a value that is not a jaxwarp array, its operand of NumPy or `ctypes`, and the operand's address."""
        convert = self._converters[index]
        plain, made = self._plain[index]
        if made is not None and plain.has(value):
            number = made(value)  # in a third of the time of an array
            found = value, number, ctypes.addressof(number)
        else:
            array = _NOWHERE if value is None else value if convert is None else np.asarray(convert(value))
            found = value, array, address_of(array)
        if type(value) in VALUES:  # which never change
            self._numbers[index] = found
        return found

    def launched(self, given: Sequence[Any], views: Sequence[Any], operands: tuple[Any, ...]) -> Launched:
        """The launch, for a tape."""
        regions: list[Region | None] = []
        values: list[np.ndarray | None] = []
        for value, operand in zip(views, operands[1], strict=True):
            region = number = None
            if operand is None:
                region = value._region if type(value) is HostArray else array_region(value)
            elif type(value) in VALUES and value is not None:
                number = np.asarray(operand)
            elif self._converters[len(regions)] is None and value is not None:
                region = array_region(value)
            else:  # the caller may change it
                number = self.plan.by_value(len(regions), value)
            regions.append(region)
            values.append(number)
        return Launched(self.plan, HOST, given, regions, values, True)

    def _are_apart(self, addresses: Sequence[Any]) -> bool:
        """Return whether no written array overlaps another one, except for arguments that share memory as they did when
        they were checked."""
        if any(addresses[i] != addresses[first] for i, first in self._same.items()):
            return False
        for i in self._written:
            low, high = addresses[i], addresses[i] + self._sizes[i]
            for j in self._arrays:
                if i != j and addresses[j] < high and low < addresses[j] + self._sizes[j]:
                    if addresses[j] == low and (i, j) in self._apart:
                        continue
                    return False
        return True

    def run(self, given: Sequence[Any], operands: tuple[Any, ...]) -> None:
        """The launch.

        Raises:
            CheckError: an assertion of the kernel's failed.
        """
        failure = None
        if self._failing is None:
            self._code.run(operands[0], self._is_divided)
        else:
            record = np.zeros(self._failing.layout.size, np.int64)
            self._code.run([*operands[0], address_of(record)], self._is_divided)
            failure = failure_in(record, self.plan.launch, self._failing)
        for i in self._written:
            value = given[i]
            if type(value) is HostArray and value._region.owner.tensors:
                value._region.owner.written()
        if failure is not None:
            raise failure

    @property
    def written(self) -> tuple[int, ...]:
        """The arguments that it writes."""
        return self._written

    @property
    def is_by_arrays(self) -> bool:
        """Tell whether nothing but arguments decides it, and nothing can fail."""
        return self._tables is None and self._failing is None

    def operand(self, index: int, value: Any) -> tuple[Any, int]:
        """Return the operand of a value that is no array, and its address."""
        _, operand, address = self._operand(index, value)
        return operand, address

    def ready(self, given: Sequence[Any], operands: tuple[Any, ...]) -> Any:
        """Return what `run_ready` takes for these arguments; None if it is to be found out each time."""
        del given
        return self._code.packed(operands[0])

    def with_numbers(self, ready: Any, before: tuple[Any, ...], operands: tuple[Any, ...]) -> Any:
        """Return what `run_ready` takes for operands that may differ in numbers from those before."""
        del ready, before
        return self._code.packed(operands[0])

    def run_ready(self, ready: Any, operands: tuple[Any, ...]) -> bool:
        """Run the launch as before. Return whether it could be."""
        del operands
        self._code.call(ready)
        return True


class RepeatedOnGpu(Repeated):
    """A launch in the memory of a GPU."""

    def __init__(self, checked: CheckedLaunch):
        super().__init__(checked)
        assert isinstance(checked.scope, GpuScope)
        self._scope = checked.scope
        regions = [i for i, value in enumerate(checked.values) if value.region is not None]
        self._reads = tuple(i for i in regions if i not in self._code.written)
        self._writes = tuple(i for i in regions if i in self._code.written)
        self._has_values = any(v.region is None and v.value is not None for v in checked.values)
        self._values = ByValue(self._scope)

    def _operand(self, index: int, value: Any) -> tuple[Any, Any, int]:
        convert = self._converters[index]
        if convert is None:
            return value, None, 0  # None, of which no element is touched
        found = value, np.asarray(convert(value)).tobytes(), 0
        if type(value) in VALUES:  # which never change
            self._numbers[index] = found
        return found

    def launched(self, given: Sequence[Any], views: Sequence[Any], operands: tuple[Any, ...]) -> Launched:
        del views, operands
        return Launched.of(checked_like(self._scope, self.plan, given))

    def run(self, given: Sequence[Any], operands: tuple[Any, ...]) -> None:
        scope, (addresses, values) = self._scope, operands
        reads = [given[i]._region for i in self._reads]
        writes = [given[i]._region for i in self._writes]
        with scope.entered():
            if not self._has_values:
                scope.uses(reads, writes)
                self._code.run(scope, addresses)
            else:
                contents = tuple(values)
                stored = self._values.take(contents)
                scope.uses([*reads, stored.memory], writes)
                self._code.run(scope, list(map(add, addresses, stored.places)))
                self._values.keep(contents, stored)
        for region in writes:
            if region.owner.tensors:
                region.owner.written()

    def ready(self, given: Sequence[Any], operands: tuple[Any, ...]) -> Any:
        reads, writes = [given[i]._region for i in self._reads], [given[i]._region for i in self._writes]
        quiet = self._scope.quiet(reads, writes)
        return None if quiet is None else (quiet, *self._stored(operands))

    def with_numbers(self, ready: Any, before: tuple[Any, ...], operands: tuple[Any, ...]) -> Any:
        # The contents, not where they are: a vector may have others in the same place.
        return ready if operands[1] == before[1] else (ready[0], *self._stored(operands))

    def _stored(self, operands: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the memory of what is passed by value, and the parameters with its address."""
        addresses, stored = operands[0], None
        if self._has_values:
            contents = tuple(operands[1])
            stored = self._values.take(contents)
            self._values.keep(contents, stored)
            addresses = list(map(add, addresses, stored.places))
        return stored, self._code.parameters(addresses)

    def run_ready(self, ready: Any, operands: tuple[Any, ...]) -> bool:
        scope, (quiet, stored, parameters) = self._scope, ready
        with scope.entered():
            if stored is None:
                return scope.uses_as_before(quiet) and self._code.run_on(scope, parameters)
            contents = tuple(operands[1])
            taken = self._values.take(contents)
            try:
                if taken is not stored or not scope.wrote(stored.memory) or not scope.uses_as_before(quiet):
                    return False
                return self._code.run_on(scope, parameters)
            finally:
                self._values.keep(contents, taken)
