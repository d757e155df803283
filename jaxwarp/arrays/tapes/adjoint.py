"""`launch(..., adjoint=True)`: the reverse of a launch on arrays outside of JAX."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launching import prepared_launch
from jaxwarp.arrays.tapes.gpu.memory import GpuMemory
from jaxwarp.arrays.tapes.memory import HOST_MEMORY, Memory
from jaxwarp.arrays.tapes.pull import Destination, pull_of
from jaxwarp.arrays.tapes.recorded import Launched
from jaxwarp.errors import DifferentiationError, KernelTypeError, type_text
from jaxwarp.kernel import Kernel
from jaxwarp.memory.fork_guard import require_jax
from jaxwarp.memory.gpu.ordering import is_zero
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.host_scope import HOST, scope_of
from jaxwarp.memory.region import Region, dense_region
from jaxwarp.memory.tensor_owner import note_written
from jaxwarp.structs.records import has_floats


def reverse_launch(kernel: Kernel, dim: Any, given: Sequence[Any], adjoints: Sequence[Any]) -> None:
    """`launch(..., adjoint=True)`: adds to the adjoints of what a kernel reads, given those of what it writes.

    Args:
        adjoints: one per argument; None and numbers: the argument's own `grad`, if it has one.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit; the kernel overwrites what its reverse needs.
    """
    require_jax("launch with adjoint")
    place = next((value.scope for value in given if isinstance(value, HostArray)), HOST)
    op = prepared_launch(place, kernel, dim, given, None).launched()
    plan = op.plan
    if 0 in plan.launch.grid:
        return
    if plan.lost is not None:
        name = plan.launch.kernel.params[plan.lost].name
        raise DifferentiationError(
            f"kernel {kernel.name}: the kernel overwrites '{name}', and its adjoint needs what was there",
            plan.written[plan.lost],
            hint="record the launch with a Tape, which keeps it",
        )
    targets: dict[int, Region] = {}
    results: dict[int, Region] = {}
    for i, is_read in plan.floats:
        region = _adjoint(op, i, adjoints[i], is_read)
        if region is not None:
            (targets if is_read else results)[i] = region
    if not targets or not results:
        return
    scope = op.scope
    if isinstance(scope, GpuScope) and all(scope_of(r) is scope for r in (*targets.values(), *results.values())):
        with scope.entered():
            _add(GpuMemory(scope), op, targets, results)
    else:
        _add(HOST_MEMORY, op, targets, results)


def _add(memory: Memory, op: Launched, targets: Mapping[int, Region], results: Mapping[int, Region]) -> None:
    """Add the cotangents of operands to what is there, given those of all results, of which zeros have no part."""
    # With one result it is only decided whether cotangents are added, and the device sees to it: were the host to ask,
    # it would wait for all that the device has to do.
    flag = None
    if type(memory) is GpuMemory and len(results) == 1 and is_zero(*results.values()) is None:
        flag = memory.find_nonzero([memory.plain(region) for region in results.values()])
    else:
        are_asked = memory.nonzero([*results.values()])
        results = {i: r for (i, r), is_asked in zip(results.items(), are_asked, strict=True) if is_asked}
    if not results:
        return
    incoming = {i: memory.plain(region) for i, region in results.items()}
    pull = pull_of(op.plan, tuple(targets), tuple(incoming), memory)
    inputs = [*_operands(op, memory, pull.needed), *incoming.values()]
    found = {i: region for i, region in targets.items() if i in pull.found}
    used = [region.span for region in (*op.regions, *incoming.values(), *found.values()) if region is not None]
    pull.run(inputs, {i: Destination(region, True, _is_alone(region.span, used), flag) for i, region in found.items()})
    note_written([*found.values()])


def _is_alone(span: tuple[int, int], used: Sequence[tuple[int, int]]) -> bool:
    """Return whether of the spans that are used, of which it is one, no other one meets it."""
    low, high = span
    return len([1 for start, end in used if start < high and low < end]) <= 1


def _operands(op: Launched, memory: Memory, needed: Container[int]) -> list[Region]:
    found: list[Region] = []
    for number, i in enumerate(op.launch.operand_params):
        region, value = op.regions[i], op.values[i]
        if region is not None:
            found.append(region)
        else:
            assert value is not None
            is_read, is_array = number in needed, op.plan.arguments[i].is_array
            found.append(memory.operand(value, is_array) if is_read else dense_region(0, value.dtype, value.shape))
    return found


def _adjoint(op: Launched, i: int, given: Any, is_written: bool) -> Region | None:
    """Return the region of an argument's adjoint. Return None if the argument has no adjoint."""
    region = op.regions[i]
    if region is None:
        return None
    if given is None or isinstance(given, (bool, int, float, np.generic)):
        array = op.given[i]
        given = array.grad if isinstance(array, HostArray) and has_floats(array.dtype) else None
    if given is None:
        return None
    found = (given.region, given.is_writable) if isinstance(given, HostArray) else op.scope.find(given)
    if found is None:
        raise KernelTypeError(
            f"{_where(op, i)}: expected an array, got {type_text(given)}",
            hint="pass zeros_like(array), or None where no derivative is wanted",
        )
    adjoint, is_writable = found
    if adjoint.shape != region.shape or adjoint.dtype != region.dtype:
        raise KernelTypeError(
            f"{_where(op, i)}: expected {region.dtype} of shape {region.shape}, got {adjoint.dtype} of shape"
            f" {adjoint.shape}",
            hint="make it with zeros_like(array)",
        )
    if is_written and not is_writable:
        raise KernelTypeError(f"{_where(op, i)} is added to, and it is read-only", hint="pass a copy")
    return adjoint


def _where(op: Launched, i: int) -> str:
    return f"{op.plan.arguments[i].where}: its adjoint"
