"""The reverse of a launch on arrays outside of JAX: that of the launch primitive, compiled once per launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxwarp import compat
from jaxwarp.arrays.eager import LaunchPlan
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launching import prepared_launch
from jaxwarp.arrays.tapes.gpu import arithmetic
from jaxwarp.arrays.tapes.gpu.pull import GpuPull
from jaxwarp.arrays.tapes.native_pullback import NativePull, PullbackSteps, native_pull
from jaxwarp.arrays.tapes.recorded import Launched
from jaxwarp.errors import DifferentiationError, KernelTypeError
from jaxwarp.ffi.launch.debug import failures_raised
from jaxwarp.ffi.launch.derivatives.handed_out import require_no_handing_out
from jaxwarp.ffi.launch.derivatives.rules import silent_launch
from jaxwarp.ffi.launch.derivatives.zeros import Values, pulled
from jaxwarp.ffi.launch.primitive import bind_launch
from jaxwarp.ffi.launch.spec import LaunchSpec
from jaxwarp.kernel import Kernel
from jaxwarp.memory.fork_guard import require_jax
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.host_scope import HOST, contents_of, scope_of, set_contents
from jaxwarp.memory.region import Region
from jaxwarp.memory.scope import view_of
from jaxwarp.memory.tensor_owner import note_written
from jaxwarp.unlocked import address_of


@functools.lru_cache(maxsize=256)
def _pull(launch: LaunchSpec, wanted: tuple[int, ...]) -> Callable[[Values, Values], Values]:
    require_no_handing_out(launch, wanted)

    def pull(operands: Values, cotangents: Values) -> Values:
        def run(active: Values) -> Values:
            results = bind_launch(launch, [active.get(i, operands[i]) for i in launch.operand_params])
            return dict(zip(launch.result_params, results, strict=True))

        return pulled(run, {i: operands[i] for i in wanted}, cotangents)[1]

    return jax.jit(pull)


def known_pull(plan: LaunchPlan, wanted: tuple[int, ...], given: tuple[int, ...]) -> NativePull | None:
    """Return native code that computes cotangents of the `wanted` operands of a launch from those of the results
    `given`. Return None if there is no such code.

    Raises:
        DifferentiationError: a derivative that cannot be had, with the line of the kernel.
    """
    return _known(plan, (wanted, given), NativePull)


def known_pull_on(plan: LaunchPlan, wanted: tuple[int, ...], given: tuple[int, ...], gpu: GpuScope) -> GpuPull | None:
    """Return the code that `known_pull` describes, for the memory of a GPU."""
    return _known(plan, (wanted, given, gpu), lambda steps: GpuPull(steps, gpu))


def _known(plan: LaunchPlan, key: tuple[Any, ...], make: Callable[[PullbackSteps], Any]) -> Any:
    if key not in plan.pulls:
        plan.pulls[key] = native_pull(_pull, silent_launch(plan.launch), key[0], key[1], plan.shapes, make)
    return plan.pulls[key]


def pull_in_jax(
    launch: LaunchSpec, wanted: tuple[int, ...], operands: Values, cotangents: Values
) -> dict[int, np.ndarray]:
    """Cotangents of the `wanted` operands, given those of results; they are zero where none is given or returned.

    Raises:
        DifferentiationError: a derivative that cannot be had, with the line of the kernel.
        CheckError: in debug mode, a thread has failed a check.
    """
    launch = silent_launch(launch)  # it has been run, and has said what it says
    with failures_raised(), compat.with_x64(), jax.default_device(jax.local_devices(backend="cpu")[0]):
        found = _pull(launch, wanted)(operands, cotangents)
        return {i: np.asarray(x) for i, x in found.items()}


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
    if isinstance(op.scope, GpuScope) and _add_on(op.scope, targets, op, results):
        return
    incoming = {i: region for i, region in results.items() if _view(region).any()}
    if targets and incoming:
        _add(targets, op, incoming)


def _add(targets: Mapping[int, Region], op: Launched, incoming: Mapping[int, Region]) -> None:
    """Adds the cotangents of operands to what is there, given those of results."""
    plan, wanted = op.plan, tuple(targets)
    pull = known_pull(plan, wanted, tuple(incoming))
    if pull is None:
        operands = {i: _operand(op, i) for i in plan.launch.operand_params}
        cotangents = {i: _view(region) for i, region in incoming.items()}
        _add_found(targets, pull_in_jax(plan.launch, wanted, operands, cotangents))
        return
    kept: list[np.ndarray] = []
    addresses = [_address(op.regions[i], op.values[i], kept) for i in plan.launch.operand_params]
    addresses += [_address(region, None, kept) for region in incoming.values()]
    run = pull.run(addresses)
    _add_found(targets, run.results)
    pull.release(run)


def _add_on(gpu: GpuScope, targets: Mapping[int, Region], op: Launched, results: Mapping[int, Region]) -> bool:
    """Add the cotangents of operands on a GPU as `_add` does, given those of all results. Return False if that takes
    code for the CPU."""
    if any(scope_of(region) is not gpu for region in (*targets.values(), *results.values())):
        return False
    if not targets or not results:
        return True
    incoming = {i: arithmetic.plain(gpu, region) for i, region in results.items()}
    # Which results have a cotangent decides what is computed. With one result it only decides whether that is added,
    # and the device sees to it: were the host to ask, it would wait for all that the device has to do.
    flag = None
    if len(incoming) == 1:
        flag, given = arithmetic.find_nonzero(gpu, [*incoming.values()]), tuple(incoming)
    else:
        are_asked = arithmetic.nonzero(gpu, [*incoming.values()])
        given = tuple(i for i, is_asked in zip(incoming, are_asked, strict=True) if is_asked)
    if not given:
        return True
    pull = known_pull_on(op.plan, tuple(targets), given, gpu)
    if pull is None:
        return False
    regions = {i: region for i, region in enumerate(op.regions) if region is not None}
    found = pull.run([*operands_on(gpu, op, regions), *(incoming[i] for i in given)])
    for i, values in found.items():
        arithmetic.add(gpu, targets[i], values, flag)
    note_written([targets[i] for i in found])
    return True


def operands_on(gpu: GpuScope, op: Launched, regions: Mapping[int, Region]) -> list[Region]:
    """The operands of a launch on a GPU, as its code takes them, of which arrays are in these regions."""
    found: list[Region] = []
    for i in op.launch.operand_params:
        region, value = regions.get(i), op.values[i]
        if region is not None:
            found.append(arithmetic.plain(gpu, region))
        else:
            assert value is not None
            found.append(gpu.uploaded(value) if op.plan.arguments[i].is_array else gpu.constant(value))
    return found


def _add_found(targets: Mapping[int, Region], found: Mapping[int, np.ndarray]) -> None:
    for i, values in found.items():
        region = targets[i]
        if scope_of(region) is HOST:
            view = view_of(region)
            np.add(view, values, view)
        else:
            set_contents(region, contents_of(region) + values)
    note_written([targets[i] for i in found])


def _operand(op: Launched, i: int) -> np.ndarray:
    region, value = op.regions[i], op.values[i]
    if region is not None:
        return _view(region)
    assert value is not None
    return value


def _address(region: Region | None, value: np.ndarray | None, kept: list[np.ndarray]) -> int:
    """Return the address at which native code finds the contents of a region, or the value if there is no region.
    Append copies to `kept`."""
    if region is not None and _is_here(region):
        return region.address
    found = value if region is None else contents_of(region)
    assert found is not None
    kept.append(found)
    return address_of(found)


def _is_here(region: Region) -> bool:
    return region.is_plain and scope_of(region) is HOST


def _view(region: Region) -> np.ndarray:
    """Return the contents of a region: a view if native code can use the memory as it is, else a copy."""
    return view_of(region) if _is_here(region) else contents_of(region)


def _adjoint(op: Launched, i: int, given: Any, is_written: bool) -> Region | None:
    """Return the region of an argument's adjoint. Return None if the argument has no adjoint."""
    region = op.regions[i]
    if region is None:
        return None
    if given is None or isinstance(given, (bool, int, float, np.generic)):
        array = op.given[i]
        given = array.grad if isinstance(array, HostArray) else None
    if given is None:
        return None
    found = (given.region, given.is_writable) if isinstance(given, HostArray) else op.scope.find(given)
    if found is None:
        raise KernelTypeError(
            f"{_where(op, i)}: expected an array, got {type(given).__name__}",
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
