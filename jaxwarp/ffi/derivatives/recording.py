"""The launch before a reverse sweep that records what the sweep could not have again (see vjp/reverse/residuals.py)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Load, Op, walk
from jaxwarp.launches.modes import debug_for
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT, LaunchSpec, intern_kernel, is_static
from jaxwarp.vjp.reports import make_report
from jaxwarp.vjp.reverse.residuals import Iteration, Residual, ResidualLaunch

# Bytes of all records of a launch. A program that needs more would seldom run.
LIMIT = 1 << 32

Bind = Callable[[LaunchSpec, Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class Point:
    """The point at which a launch is transposed. Linear operands have no values here: only their shapes are known.

    Attributes:
        launch: the launch.
        given: the operands by parameter.
        linear: abstract values of the linear ones.
    """

    launch: LaunchSpec
    given: Mapping[int, Any]
    linear: Mapping[int, Any]

    def shape(self, index: int) -> tuple[Any, ...]:
        """Return the shape of a parameter."""
        if index in self.linear:
            return tuple(self.linear[index].shape)
        if index in self.given:
            return tuple(jnp.shape(self.given[index]))
        return tuple(self.launch.results[self.launch.result_params.index(index)])

    def value(self, index: int, is_read: bool) -> Any:
        """Return what a parameter contains on entry."""
        if index not in self.linear and self.launch.roles[index] != OUTPUT:
            return self.given[index]
        if index in self.linear and is_read:
            raise _not_linear(self.launch.kernel, index)
        # What an output holds is zero; of a linear operand only the extents are asked for.
        return jnp.zeros(self.shape(index), self.launch.kernel.params[index].dtype.numpy)


def record_launch(bind: Bind, point: Point, recording: ResidualLaunch) -> tuple[list[Any], Any]:
    """The records of a launch, in their order, and the factor of cotangents: NaN where these are not right, or None."""
    launch = point.launch
    count = len(launch.kernel.params)
    shapes = _require_known(recording, launch, [point.shape(i) for i in range(count)])
    read = {op.param for op in walk(recording.kernel.body) if isinstance(op, Load)}
    roles: list[str] = []
    results: list[tuple[Any, ...]] = []
    operands: list[Any] = []
    for position, index in enumerate(recording.params):
        is_output = launch.roles[index] == OUTPUT
        written = index in recording.written
        roles.append(OUTPUT if written and is_output else IN_OUT if written else INPUT)
        if written:
            results.append(point.shape(index))
        if not (written and is_output):
            operands.append(point.value(index, recording.kernel.params[position] in read))
    factors = launch.factors
    if factors is not None:
        own = [factors[i] for i in recording.params]
        of_records = [recording.source.params.index(record.load.param) for record in recording.residuals]
        extra = [
            (*r.of_axes(factors[i]), *[None] * len(r.iterations))
            for i, r in zip(of_records, recording.residuals, strict=True)
        ]
        factors = (*own, *extra, *(factors[i] for i in recording.settled))
    marks = [point.shape(i) for i in recording.settled]
    made = launch.replace(
        kernel=intern_kernel(recording.kernel),
        roles=(*roles, *[OUTPUT] * (len(shapes) + len(marks))),
        results=(*results, *shapes, *marks),
        has_side_effect=False,
        origin=None,
        factors=factors,
        debug=launch.debug and launch.debug.for_derivative(()),
        in_order=False,
    )
    found = bind(made, operands)[len(results) :]
    factor: Any = None
    for i, mark in zip(recording.settled, found[len(shapes) :], strict=True):
        of_array = report(bind, launch, _overwritten(recording.source, i), jnp.any(mark == 2))
        factor = of_array if factor is None else factor * of_array
    return found[: len(shapes)], factor


def report(bind: Bind, launch: LaunchSpec, kernel: Kernel, met: Any) -> Any:
    """NaN where that is met, and the call fails if anybody is told; else 1. For `kernel`, see `vjp/reports.py`."""
    debug = launch.debug.for_derivative(()) if launch.debug else debug_for(kernel, "release")
    told = LaunchSpec(kernel, (1,), (INPUT, OUTPUT), ((1,),), debug=debug)
    return bind(told, [met.reshape(1)])[0][0]


@functools.lru_cache(maxsize=512)
def _overwritten(kernel: Kernel, index: int) -> Kernel:
    param = kernel.params[index]
    read = next(op for op in walk(kernel.body) if isinstance(op, Load) and op.param is param)
    text = (
        f"an element of {param.name} that is read here is written later by the same thread, in a loop of which it is "
        "not known how many iterations it makes; the reverse sweep would need the overwritten value. Let the loop end "
        "at a constant, an extent of an array or min(n, constant)"
    )
    return intern_kernel(make_report(f"{kernel.name}_overwritten", text, read.loc))


def _require_known(
    recording: ResidualLaunch, launch: LaunchSpec, given: Sequence[Sequence[Any]]
) -> list[tuple[Any, ...]]:
    shapes: list[tuple[Any, ...]] = []
    size = 0
    for record, shape in recording.shapes(launch.grid, given):
        if isinstance(shape, Iteration):
            raise _unbounded(record, shape.loop)
        shapes.append(shape)
        if all(is_static(n) for n in shape):
            size += math.prod(shape) * record.load.param.dtype.numpy.itemsize
        if size > LIMIT:
            raise _too_large(record, size)
    return shapes


def _unbounded(record: Residual, loop: Op) -> DifferentiationError:
    where = f" in line {loop.loc.line}" if loop.loc is not None else ""
    return DifferentiationError(
        f"{record.load.param.name} is read here after it may have been overwritten, in each iteration of the "
        f"loop{where}; the reverse sweep would need all that was read, and it is not known how many iterations there "
        "are at most",
        record.load.loc,
        hint="let the loop end at a constant, an extent of an array or min(n, constant); or carry the value in a local "
        "variable",
    )


def _too_large(record: Residual, size: int) -> DifferentiationError:
    return DifferentiationError(
        f"{record.load.param.name} is read here after it may have been overwritten, in each iteration of the loops "
        f"around it; the reverse sweep needs the overwritten values, which are {size / 2**30:.1f} GiB or more",
        record.load.loc,
        hint="launch once for each iteration of the outer loop, or carry the value in a local variable",
    )


def _not_linear(kernel: Kernel, index: int) -> DifferentiationError:
    """Build the error of `jax.linear_transpose` for a kernel that is not linear. Tangent kernels always are."""
    param = kernel.params[index]
    read = next(op for op in walk(kernel.body) if isinstance(op, Load) and op.param is param)
    return DifferentiationError(
        f"kernel {kernel.name} is not linear in its argument {param.name}, and cannot be transposed",
        read.loc,
        hint="derivatives at a point are those of jax.vjp and jax.grad",
    )
