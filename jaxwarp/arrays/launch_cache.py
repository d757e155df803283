"""Launches outside of JAX that are like one before: what the checks found is kept by the types and shapes of the
arguments, and what is left is to find addresses and call the code. Large launches use all cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jaxwarp import compat
from jaxwarp.arrays.eager import Checked, check, checked_like, on_records, run_checked
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.errors import KernelError
from jaxwarp.ffi.launch.debug import debug_now, mode_of
from jaxwarp.ffi.launch.native_launch import code_of
from jaxwarp.kernel import Kernel
from jaxwarp.memory.host_scope import HOST, Outside, Recorder, recording
from jaxwarp.memory.libraries import library_of
from jaxwarp.quaternions import HostValue
from jaxwarp.types import SCALAR_BY_DTYPE, Array
from jaxwarp.unlocked import address_of

_MAX_KNOWN = 512
_PLAIN = frozenset((HostArray, HostValue, np.ndarray, int, float, bool))

_VALUES = frozenset((float, int, bool, type(None)))  # None is an array without elements
_NOWHERE = np.zeros(0)

_Operands = tuple[list[int], list[np.ndarray]]
"""Addresses, and the values of the host that are at some of them."""


def launch_outside(
    place: Outside, kernel: Kernel, dim: Any, given: Sequence[Any], block_dim: int | None, is_recorded: bool
) -> None:
    """A launch on arrays outside of JAX, at once: in the memory of a `place`. An active tape records it, or, unless
    `is_recorded`, its results.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
    """
    tape = recording.get()
    views = [_as_array(value) for value in given]
    is_plain = place is HOST and block_dim is None and debug_now(mode_of(kernel)) is None
    key = _signature(kernel, dim, views) if is_plain else None
    known = None if key is None or compat.is_tracing() else _known.get(key)
    operands = None if known is None else known.operands(views)
    if known is None or operands is None:
        checked = check(place, kernel, dim, given, block_dim)
        known = _remember(key, checked)
        operands = None if known is None else known.operands(views)
        run = partial(run_checked, place, checked)
        if known is not None and operands is not None:
            run = partial(known.run, views, operands)
    elif tape is None:
        known.run(views, operands)
        return
    else:
        checked, run = checked_like(known.plan, given), partial(known.run, views, operands)
    if tape is None:
        run()
    else:
        _record(tape, checked, run, is_recorded)


def _record(tape: Recorder, checked: Checked, run: Callable[[], None], is_recorded: bool) -> None:
    """The launch on a tape, or what it writes."""
    if is_recorded:
        tape.record_launch(checked)
        run()
    else:
        places = [checked.values[i] for i in checked.plan.written]
        written = [place.region for place in places if place.region is not None]
        tape.see(*(place.array for place in places))
        for region in written:
            tape.record_write(region)
        run()
        for region in written:
            tape.record_result(region)


def launch_again(checked: Checked) -> None:
    """A launch that was checked, once more. An active tape records it."""
    tape, run = recording.get(), partial(run_checked, HOST, checked)
    if tape is None:
        run()
    else:
        _record(tape, checked, run, True)


def _as_array(value: Any) -> Any:
    """A tensor of another library as an array; any other value as it is."""
    library = None if type(value) in _PLAIN else library_of(value)
    if library is None or library.is_recording(value):
        return value
    try:
        region = library.region(value)
    except KernelError:
        return value  # the checks say what is wrong
    type_ = Array(SCALAR_BY_DTYPE[region.dtype], len(region.shape))
    return HostArray("", type_, region, is_writable=True) if region.shape else value


def _signature(kernel: Kernel, dim: Any, given: Sequence[Any]) -> Any:
    """What decides a launch but for the values; None where it is not that simple."""
    if type(dim) is not int and not (type(dim) is tuple and all(type(n) is int for n in dim)):
        return None
    tokens = [_token(value) for value in given]
    return None if None in tokens else (kernel, dim, *tokens)


def _token(value: Any) -> Any:
    kind = type(value)
    if kind is HostArray:
        return value.token
    if kind is np.ndarray:
        flags = value.flags
        plain = value.ndim and flags.c_contiguous and flags.aligned
        return (value.dtype, value.shape, flags.writeable) if plain else None
    if kind is HostValue:  # a vector and a quaternion are not taken for each other
        return (value.type, value.dtype, value.shape) if value.flags.c_contiguous else None
    return kind if kind in _VALUES or isinstance(value, np.generic) else None


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
        self._code = code_of(launch.kernel, launch.fma, launch.grid, shapes)
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
        self._written = tuple(plan.written)
        self._arrays = [i for i, argument in enumerate(plan.arguments) if argument.is_array]

    def operands(self, given: Sequence[Any]) -> _Operands | None:
        """Where the arguments are, unless arrays overlap."""
        addresses: list[int] = []
        kept: list[np.ndarray] = []
        for value, convert in zip(given, self._converters, strict=True):
            if type(value) is HostArray:
                addresses.append(value._region.address)
            elif value is None:
                addresses.append(address_of(_NOWHERE))
            else:
                array = value if convert is None else np.asarray(convert(value))
                kept.append(array)
                addresses.append(address_of(array))
        for i, offset in self._offsets:
            addresses[i] -= offset
        for i in self._written:
            low, high = addresses[i], addresses[i] + self._sizes[i]
            for j in self._arrays:
                if i != j and addresses[j] < high and low < addresses[j] + self._sizes[j]:
                    if addresses[j] == low and (i, j) in self._apart:
                        continue
                    return None
        return addresses, kept

    def run(self, given: Sequence[Any], operands: _Operands) -> None:
        """The launch."""
        self._code.run(operands[0])
        for i in self._written:
            value = given[i]
            if type(value) is HostArray and value._region.owner.tensors:
                value._region.owner.written()


def _remember(key: Any, checked: Checked) -> _Known | None:
    """What launches like this one need not look for again, unless there is more to do."""
    if key is None or checked.launch.debug is not None or 0 in checked.launch.grid:
        return None
    if any(checked.values[i].in_records is not None for i in checked.plan.added_to):
        return None
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    made = _known[key] = _Known(checked)
    return made


_known: dict[Any, _Known] = {}
