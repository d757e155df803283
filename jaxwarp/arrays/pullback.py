"""The reverse of a launch on arrays outside of JAX: that of the launch primitive, compiled once per launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxwarp import compat
from jaxwarp.arrays.eager import Checked, check
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.native_pullback import native_pull
from jaxwarp.errors import DifferentiationError, KernelTypeError
from jaxwarp.ffi.launch.debug import failures_raised
from jaxwarp.ffi.launch.derivatives.rules import silent_launch
from jaxwarp.ffi.launch.derivatives.zeros import Values, pulled
from jaxwarp.ffi.launch.primitive import bind_launch
from jaxwarp.ffi.launch.spec import INPUT, Launch
from jaxwarp.kernel import Kernel
from jaxwarp.memory.fork_guard import require_jax
from jaxwarp.memory.host_scope import HOST, contents_of, set_contents
from jaxwarp.memory.region import Region


@functools.lru_cache(maxsize=256)
def _pull(launch: Launch, wanted: tuple[int, ...]) -> Callable[[Values, Values], Values]:
    def pull(operands: Values, cotangents: Values) -> Values:
        def run(moving: Values) -> Values:
            results = bind_launch(launch, [moving.get(i, operands[i]) for i in launch.operand_params])
            return dict(zip(launch.result_params, results, strict=True))

        return pulled(run, {i: operands[i] for i in wanted}, cotangents)[1]

    return jax.jit(pull)


def pull_back(launch: Launch, wanted: tuple[int, ...], operands: Values, cotangents: Values) -> dict[int, np.ndarray]:
    """Cotangents of the `wanted` operands, given those of results; they are zero where none is given or returned.

    Raises:
        DifferentiationError: a derivative that cannot be had, with the line of the kernel.
        CheckError: in debug mode, a thread has failed a check.
    """
    launch = silent_launch(launch)  # it has been run, and has said what it says
    pull = native_pull(_pull, launch, wanted, operands, cotangents)
    if pull is not None:
        return pull(operands, cotangents)
    with failures_raised(), compat.with_x64(), jax.default_device(jax.local_devices(backend="cpu")[0]):
        found = _pull(launch, wanted)(operands, cotangents)
        return {i: np.asarray(x) for i, x in found.items()}


def reverse_launch(kernel: Kernel, dim: Any, given: Sequence[Any], adjoints: Sequence[Any]) -> None:
    """`launch(..., adjoint=True)`: adds to the adjoints of what a kernel reads, given those of what it writes.

    Args:
        adjoints: one per argument, or fewer; None and numbers: the argument's own `grad`, if it has one.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit; the kernel overwrites what its reverse needs.
    """
    require_jax("launch with adjoint")
    place = next((value.scope for value in given if isinstance(value, HostArray)), HOST)
    checked = check(place, kernel, dim, given, None)
    launch, params = checked.launch, checked.launch.kernel.params
    if 0 in launch.grid:
        return
    for i, (_, is_needed) in checked.plan.overwritten.items():
        if is_needed:
            raise DifferentiationError(
                f"kernel {kernel.name}: the kernel overwrites '{params[i].name}', and its adjoint needs what was there",
                checked.plan.written[i],
                hint="record the launch with a Tape, which keeps it",
            )
    places = {
        i: _adjoint(checked, i, adjoints[i] if i < len(adjoints) else None, launch.roles[i] == INPUT)
        for i, value in enumerate(checked.values)
        if value.region is not None and params[i].dtype.is_float
    }
    wanted = tuple(i for i, place in places.items() if place is not None and launch.roles[i] == INPUT)
    operands = {i: _operand(checked, i) for i in launch.operand_params}
    given_by = {i: contents_of(place) for i in launch.result_params if (place := places.get(i)) is not None}
    incoming = {i: values for i, values in given_by.items() if values.any()}
    for i, found in pull_back(launch, wanted, operands, incoming).items() if wanted and incoming else ():
        if (place := places[i]) is not None:
            set_contents(place, contents_of(place) + found)


def _operand(checked: Checked, i: int) -> np.ndarray:
    value, convert = checked.values[i], checked.plan.converters[i]
    if value.region is not None:
        return contents_of(value.region)
    return np.asarray(value.value if convert is None else convert(value.value))


def _adjoint(checked: Checked, i: int, given: Any, is_written: bool) -> Region | None:
    """Where the adjoint of an argument is."""
    array, where = checked.values[i], f"{checked.plan.arguments[i].where}: its adjoint"
    if given is None or isinstance(given, (bool, int, float, np.generic)):
        given = array.array.grad if isinstance(array.array, HostArray) else None
    if given is None:
        return None
    found = (given.region, given.is_writable) if isinstance(given, HostArray) else checked.scope.find(given)
    if found is None:
        raise KernelTypeError(
            f"{where}: expected an array, got {type(given).__name__}",
            hint="pass zeros_like(array), or None where no derivative is wanted",
        )
    region, is_writable = found
    assert array.region is not None
    if region.shape != array.region.shape or region.dtype != array.region.dtype:
        expected = f"{array.region.dtype} of shape {array.region.shape}"
        raise KernelTypeError(
            f"{where}: expected {expected}, got {region.dtype} of shape {region.shape}",
            hint="make it with zeros_like(array)",
        )
    if is_written and not is_writable:
        raise KernelTypeError(f"{where} is added to, and it is read-only", hint="pass a copy")
    return region
