"""Launches outside of JAX that are like one before: what the checks found is kept by the types and shapes of the
arguments, and what is left is to find addresses and call the code. Large launches use all cores.
"""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections.abc import Sequence
from operator import add, itemgetter
from typing import Any, NamedTuple, cast

import numpy as np

from jaxwarp import compat
from jaxwarp.arrays.eager import Checked, check, checked_like, on_records, run_checked
from jaxwarp.arrays.held import VALUES, Held, flat, token_of
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.ids.tables import tables_at
from jaxwarp.arrays.tapes.recorded import Launched
from jaxwarp.errors import KernelError
from jaxwarp.ffi.launch.calls.converters import plain_numbers
from jaxwarp.ffi.launch.code import CodeKey, key_of
from jaxwarp.ffi.launch.debug import debug_now, mode_of
from jaxwarp.ffi.launch.on_memory import CudaLaunch, are_aligned, loaded_on
from jaxwarp.ffi.launch.spec import IN_OUT
from jaxwarp.kernel import Kernel
from jaxwarp.memory.gpu.by_value import ByValue
from jaxwarp.memory.gpu.scope import GpuScope, region_of_tensor
from jaxwarp.memory.host_scope import HOST, Outside, Recorder, recording
from jaxwarp.memory.libraries import library_of
from jaxwarp.memory.region import Region, array_region
from jaxwarp.quaternions import HostValue
from jaxwarp.structs.indexed import indexed_of
from jaxwarp.types import SCALAR_BY_DTYPE, Array, Scalar
from jaxwarp.unlocked import address_of

_MAX_KNOWN = 512
_PLAIN = frozenset((HostArray, HostValue, Held, np.ndarray, int, float, bool))

_INTEGERS = frozenset((int,))
_TOKENED = frozenset((HostArray, Held))
_BLOCKS = frozenset((int, str, type(None)))
_NOWHERE = np.zeros(0)
_NOTHING = object()


def launch_outside(
    place: Outside, kernel: Kernel, dim: Any, parts: Sequence[Any], block_dim: int | str | None, is_recorded: bool
) -> None:
    """A launch on arrays outside of JAX, at once: in the memory of a `place`. An active tape records it, or, unless
    `is_recorded`, its results.

    Args:
        parts: the arguments, of structs their leaves, or what is known of them; see `held.parts_of`.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
    """
    made, tape = prepared_launch(place, kernel, dim, parts, block_dim), recording.get()
    if tape is None:
        made.run()
        return
    if any(type(value) not in _PLAIN and indexed_of(value) is not None for value in parts):
        # What is read of an indexed array is a copy, through which the tape has to find back.
        parts = [value if indexed_of(value) is None else value.contiguous() for value in parts]
        made = prepared_launch(place, kernel, dim, parts, block_dim)
    _record(tape, made, is_recorded)


class Once(NamedTuple):
    """A launch whose arguments fit, and of which nothing is known from before."""

    checked: Checked

    def run(self) -> None:
        run_checked(self.checked.scope, self.checked)

    def launched(self) -> Launched:
        return Launched.of(self.checked)


class Again(NamedTuple):
    """A launch that is like one before.

    Attributes:
        known: what is known of it.
        given: its arguments.
        views: these, where tensors of other libraries are arrays.
        operands: of `known`.
    """

    known: _Known
    given: Sequence[Any]
    views: Sequence[Any]
    operands: Any

    def run(self) -> None:
        self.known.run(self.views, self.operands)

    def launched(self) -> Launched:
        return self.known.launched(flat(self.given), self.views, self.operands)


def prepared_launch(
    place: Outside, kernel: Kernel, dim: Any, parts: Sequence[Any], block_dim: int | str | None
) -> Once | Again:
    """A launch that can be run.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
    """
    seen = parts
    if not _PLAIN.issuperset(map(type, parts)):
        seen = [value if type(value) in _PLAIN else _as_array(value) for value in parts]
    is_plain = type(block_dim) in _BLOCKS and debug_now(mode_of(kernel)) is None
    key = _signature(dim, seen) if is_plain else None
    key = key if (block_dim is None and place is HOST) or key is None else (block_dim, place, *key)
    known = None if key is None or compat.is_tracing() else kernel.launches.get(key)
    operands = None if known is None else known.operands(seen)
    checked = None
    if operands is None:
        checked = check(place, kernel, dim, flat(parts), block_dim)
        known = _remember(kernel, key, checked)
        operands = None if known is None else known.operands(seen)
    if known is not None and operands is not None:
        return Again(known, parts, flat(seen) if kernel.has_structs else seen, operands)
    assert checked is not None
    return Once(checked)


def _record(tape: Recorder, made: Once | Again, is_recorded: bool) -> None:
    """The launch on a tape, or what it writes."""
    done = made.launched()
    if is_recorded:
        tape.record_launch(done)
        made.run()
        return
    tape.see(*(done.given[i] for i in done.plan.written))
    for region in done.writes:
        tape.record_write(region)
    made.run()
    roles = done.plan.launch.roles
    for i, region in zip(done.plan.written, done.writes, strict=True):
        tape.record_result(region, roles[i] == IN_OUT)


def launch_again(checked: Checked) -> None:
    """A launch that was checked, once more. An active tape records it."""
    tape = recording.get()
    if tape is None:
        run_checked(checked.scope, checked)
    else:
        _record(tape, Once(checked), True)


def _as_array(value: Any) -> Any:
    """A tensor of another library as an array; any other value as it is."""
    library = library_of(value)
    if library is None or library.is_recording(value):
        return value
    try:
        region = region_of_tensor(library, value)
    except KernelError:
        return value  # the checks say what is wrong
    type_ = Array(SCALAR_BY_DTYPE[region.dtype], len(region.shape))
    return HostArray("", type_, region, is_writable=True) if region.shape else value


def _signature(dim: Any, seen: Sequence[Any]) -> Any:
    """Return all that decides a launch of a kernel but for the values; None where it is not that simple."""
    if type(dim) is not int and not (type(dim) is tuple and _INTEGERS.issuperset(map(type, dim))):
        return None
    tokens = [value.token if type(value) in _TOKENED else token_of(value) for value in seen]
    places: list[int] = []
    for value in seen:
        if type(value) is HostArray:
            places.append(value._region.address)
        elif type(value) is Held:
            places += value.places
    if len(set(places)) < len(places):  # an array may be given twice, see same_memory.py
        tokens.append(tuple(map(places.index, places)))
    return None if None in tokens else (dim, *tokens)


class _Known:
    """A launch with everything found but the addresses.

    Attributes:
        plan: what it is.
    """

    def __init__(self, checked: Checked):
        self.plan = plan = checked.plan
        records = {i: found for i, value in enumerate(checked.values) if (found := value.in_records) is not None}
        launch = on_records(plan.launch, tuple((i, r.place) for i, r in records.items())) if records else plan.launch
        shapes = tuple(records[i].region.shape if i in records else shape for i, shape in enumerate(plan.shapes))
        self._code = self._compiled(checked, key_of(launch, shapes))
        self._sizes = [
            math.prod(shape) * param.dtype.numpy.itemsize
            for shape, param in zip(shapes, launch.kernel.params, strict=True)
        ]
        # How far from the first record fields begin; which of them have no byte in common in one record.
        self._offsets = [(i, r.bytes[0]) for i, r in records.items()]
        self._apart = {(i, j) for i, a in records.items() for j, b in records.items() if a.is_apart_from(b)}
        self._converters = [
            None if argument.is_array else convert or (lambda value: value)
            for argument, convert in zip(plan.arguments, plan.converters, strict=True)
        ]
        params = zip(launch.kernel.params, shapes, strict=True)
        self._plain = [(plain_numbers(p.dtype), None if shape else _ctype_of(p.dtype)) for p, shape in params]
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

    def _compiled(self, checked: Checked, key: CodeKey) -> Any:
        return loaded_on(checked.scope, key)

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
            if kind is HostArray:
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
        """The launch."""
        self._code.run(operands[0])
        for i in self._written:
            value = given[i]
            if type(value) is HostArray and value._region.owner.tensors:
                value._region.owner.written()


class _KnownOnGpu(_Known):
    """A launch in the memory of a GPU."""

    _code: CudaLaunch

    def _compiled(self, checked: Checked, key: CodeKey) -> CudaLaunch:
        assert isinstance(checked.scope, GpuScope)
        self._scope = checked.scope
        regions = {i: value.region for i, value in enumerate(checked.values) if value.region is not None}
        code = loaded_on(self._scope, key, are_aligned([*regions.values()]))
        self._reads = tuple(i for i in regions if i not in code.written)
        self._writes = tuple(i for i in regions if i in code.written)
        self._has_values = any(v.region is None and v.value is not None for v in checked.values)
        self._values = ByValue(self._scope)
        return code

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


def _ctype_of(scalar: Scalar) -> Any:
    """The type of `ctypes` for a number; None of what C has no number for."""
    return (
        np.ctypeslib.as_ctypes_type(scalar.numpy) if scalar.numpy.isbuiltin == 1 and scalar.numpy.char != "e" else None
    )


def _remember(kernel: Kernel, key: Any, checked: Checked) -> _Known | None:
    """Store and return the checks of a launch for later launches like it. Return None if those launches need more than
    these checks."""
    if key is None or checked.launch.debug is not None or 0 in checked.launch.grid:
        return None
    if any(checked.values[i].in_records is not None for i in checked.plan.added_to):
        return None
    is_on_gpu = isinstance(checked.scope, GpuScope)
    values = zip(checked.plan.arguments, checked.values, strict=True)
    if is_on_gpu and any(a.is_array and v.region is None and v.value is not None for a, v in values):
        return None  # it is copied for each launch
    made = _KnownOnGpu(checked) if is_on_gpu else _Known(checked)
    with _launched_lock:
        if sum(len(other.launches) for other in _launched) >= _MAX_KNOWN:
            forget()
        kernel.launches[key] = made
        _launched.add(kernel)
    return made


def forget() -> None:
    """The next launches are looked at again: their code may be another one."""
    with _launched_lock:
        for kernel in _launched:
            kernel.launches.clear()
            kernel.plans.clear()
        _launched.clear()


_launched_lock = threading.RLock()
_launched: weakref.WeakSet[Kernel] = weakref.WeakSet()
