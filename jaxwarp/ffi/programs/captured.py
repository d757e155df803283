"""A recorded program: launches, copies and fills on buffers, and what it computes as a function of JAX values.

The parameter of the primitive in graph.py. Buffers are numbered as the custom call has them: operands, then results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxwarp import compat
from jaxwarp.ffi.primitive import bind_launch
from jaxwarp.ffi.programs.control import Step, Values, repeated
from jaxwarp.ffi.programs.python_call import PythonCall, bind_call
from jaxwarp.launches.spec import Dim, LaunchSpec
from jaxwarp.unlocked import cached_property

Shape = tuple[Dim, ...]
_MOST_INT32 = 2**31 - 1


@dataclass(frozen=True)
class BufferView:
    """A contiguous part of a buffer; `offset` counts elements. Whole buffers have the buffer's shape and offset 0."""

    buffer: int
    offset: int
    shape: Shape
    dtype: np.dtype
    is_whole: bool


@dataclass(frozen=True)
class LaunchOp:
    """A launch; the views of an in-out parameter as operand and as result are the same."""

    launch: LaunchSpec
    operands: tuple[BufferView, ...]
    results: tuple[BufferView, ...]


@dataclass(frozen=True)
class CopyOp:
    """Copies one view to another one of the same dtype and size, which does not overlap it."""

    to: BufferView
    source: BufferView


@dataclass(frozen=True)
class FillOp:
    """Sets every element of a view to the scalar with these bytes; if there are 8, their halves are equal."""

    to: BufferView
    scalar: bytes


@dataclass(frozen=True)
class CallOp:
    """A launch that is made in Python when the program runs; what it writes are operands and results."""

    call: PythonCall
    operands: tuple[BufferView, ...]
    results: tuple[BufferView, ...]


@dataclass(frozen=True)
class ComputeOp:
    """A function of JAX, of the values of operands; it is compared by identity."""

    function: Callable[..., Sequence[Any]]
    operands: tuple[BufferView, ...]
    results: tuple[BufferView, ...]


@dataclass(frozen=True)
class LoopOp:
    """Operations that are repeated as long as a view of one number is not zero, at most so often; None: no limit."""

    condition: BufferView
    body: tuple[Op, ...]
    max_iterations: int | None


@dataclass(frozen=True)
class IfOp:
    """Operations of which the first ones are done if a view of one number is not zero, else the others."""

    condition: BufferView
    bodies: tuple[tuple[Op, ...], tuple[Op, ...]]


Op = LaunchOp | CallOp | ComputeOp | CopyOp | FillOp | LoopOp | IfOp


def views_of(op: Op) -> tuple[list[BufferView], list[BufferView]]:
    """Return the views that an operation reads, and those it writes."""
    match op:
        case LaunchOp() | CallOp() | ComputeOp():
            return list(op.operands), list(op.results)
        case CopyOp():
            return [op.source], [op.to]
        case FillOp():
            return [], [op.to]
        case LoopOp() | IfOp():
            inside = op.body if isinstance(op, LoopOp) else (*op.bodies[0], *op.bodies[1])
            found = [views_of(one) for one in inside]
            return [op.condition, *(v for reads, _ in found for v in reads)], [v for _, w in found for v in w]


@dataclass(frozen=True)
class OutputSlot:
    """A buffer that the program is given to write to."""

    shape: Shape
    dtype: np.dtype


@dataclass(frozen=True, repr=False)
class CapturedProgram:
    """The operations of a callable, as it was recorded.

    Attributes:
        name: of the callable.
        operands: how many operands there are; their buffers come first.
        results: of the buffers after them, those that are results.
        scratch: the buffers after these.
        aliases: pairs of an operand and the result that starts from it.
        ops: in order.
        has_side_effect: whether to run it even if no result is used.
        graph_cache_max: how many CUDA graphs of it are kept on each device.
    """

    name: str
    operands: int
    results: tuple[OutputSlot, ...]
    scratch: tuple[OutputSlot, ...]
    aliases: tuple[tuple[int, int], ...]
    ops: tuple[Op, ...]
    has_side_effect: bool
    graph_cache_max: int

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.operands, self.results, self.scratch, self.aliases, self.ops))

    @cached_property
    def is_wide(self) -> bool:
        """Tell whether it computes with a 64-bit type: its rules then run where JAX has such types."""
        views = [view for op in self.ops for part in views_of(op) for view in part]
        return any(view.dtype.kind in "iuf" and view.dtype.itemsize == 8 for view in views)

    def __hash__(self) -> int:
        return self._hash  # JAX asks often, and there may be thousands of operations

    def __repr__(self) -> str:
        """Return the text for a printed jaxpr."""
        return f"{self.name}[{len(self.ops)} operations]"


def evaluate(recording: CapturedProgram, operands: Sequence[Any]) -> list[Any]:
    """The results as JAX computes them: the same launches, each an operation of its own."""
    values: dict[int, Any] = dict(enumerate(operands))
    slots = (*recording.results, *recording.scratch)
    for operand, result in recording.aliases:
        values[recording.operands + result] = operands[operand]
    first = recording.operands
    with compat.with_x64_if(recording.is_wide):
        _run(recording.ops, values, {first + n: slot for n, slot in enumerate(slots)})
    return [values[first + i] for i in range(len(recording.results))]


def _run(ops: Sequence[Op], values: dict[int, Any], slots: Mapping[int, OutputSlot]) -> None:
    """Do operations on the values of buffers."""

    def read(view: BufferView) -> Any:
        value = values[view.buffer]
        if view.is_whole:
            return value
        size = math.prod(view.shape)
        return jax.lax.slice(value.reshape(-1), (view.offset,), (view.offset + size,)).reshape(view.shape)

    def write(view: BufferView, part: Any) -> None:
        if view.is_whole:
            values[view.buffer] = part
            return
        slot = slots[view.buffer]
        whole = values.get(view.buffer)
        flat = jnp.zeros(math.prod(slot.shape), slot.dtype) if whole is None else whole.reshape(-1)
        # A number of Python's would have 64 bits where JAX has them; a rule of JAX's may be run where it has none.
        offset = np.int32(view.offset) if view.offset <= _MOST_INT32 else view.offset
        flat = jax.lax.dynamic_update_slice(flat, part.reshape(-1), (offset,))
        values[view.buffer] = flat.reshape(slot.shape)

    for op in ops:
        match op:
            case LaunchOp() | CallOp():
                given = [read(v) for v in op.operands]
                results = bind_launch(op.launch, given) if isinstance(op, LaunchOp) else bind_call(op.call, given)
                for view, result in zip(op.results, results, strict=True):
                    write(view, result)
            case ComputeOp():
                for view, result in zip(op.results, op.function(*map(read, op.operands)), strict=True):
                    write(view, result)
            case CopyOp():
                write(op.to, read(op.source).reshape(op.to.shape))
            case FillOp():
                write(op.to, jnp.full(op.to.shape, np.frombuffer(op.scalar, op.to.dtype)[0]))
            case LoopOp() | IfOp():
                _run_control(op, values, slots, read)


def _run_control(
    op: LoopOp | IfOp, values: dict[int, Any], slots: Mapping[int, OutputSlot], read: Callable[[BufferView], Any]
) -> None:
    """Do a loop or a branch as one of JAX, which carries the buffers that it writes."""
    numbers = sorted({view.buffer for view in views_of(op)[1]})
    for number in numbers:
        if number not in values:
            values[number] = jnp.zeros(slots[number].shape, slots[number].dtype)

    def holds(carried: Values) -> Any:
        outside = dict(values)
        values.update(zip(numbers, carried, strict=True))
        found = read(op.condition).reshape(()) != 0
        values.update(outside)
        return found

    def step(body: Sequence[Op]) -> Step:
        def run(carried: Values) -> Values:
            inside = values | dict(zip(numbers, carried, strict=True))
            _run(body, inside, slots)
            return tuple(compat.unify_varying([*(inside[n] for n in numbers), *carried])[: len(numbers)])

        return run

    known = list(values)
    start = dict(zip(known, compat.unify_varying([values[n] for n in known]), strict=True))
    carried = tuple(start[n] for n in numbers)
    if isinstance(op, LoopOp):
        results = repeated(holds, step(op.body), carried, op.max_iterations)
    else:
        results = jax.lax.cond(holds(carried), *(step(body) for body in op.bodies), carried)
    values.update(zip(numbers, results, strict=True))
