"""A kernel's Python function and the types of its arguments, to IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import KernelTypeError, Loc
from jaxwarp.frontend.derivatives import gradient
from jaxwarp.frontend.from_end import without_needless
from jaxwarp.frontend.ids import TABLES
from jaxwarp.frontend.lowering import calls, intrinsics, local_arrays, statements
from jaxwarp.frontend.lowering.branches import execute
from jaxwarp.frontend.lowering.frame import Context, Frame, ReadValues, Window
from jaxwarp.frontend.lowering.loops import statements as loops
from jaxwarp.frontend.lowering.structs import argument_values, parameters
from jaxwarp.frontend.lowering.tiles import algebra, arithmetic, arrays, making, shapes, stacks
from jaxwarp.frontend.lowering.tiles.thread_dependence import ThreadDependence
from jaxwarp.frontend.lowering.told import failures, prints
from jaxwarp.frontend.text.source import Source
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.kernel import Kernel, LaneUse, TileUse
from jaxwarp.ir.nodes import walk
from jaxwarp.ir.rows import count_uses
from jaxwarp.ir.verify import verify
from jaxwarp.types import Absent, Aggregate, Array, Scalar

ArgumentType = Scalar | Aggregate | Array | Absent

# Blocks inside each other. Derivatives and machine code of 1000 take 20 s; Python itself parses about as many `elif`.
_MOST_NESTED = 2000

# Importing these registers the functions that lower each kind of syntax node.
_TILES = (algebra, arithmetic, arrays, making, shapes, stacks)
_LOWERING = (statements, loops, calls, intrinsics, local_arrays, failures, prints, gradient, *_TILES)


def lower(
    source: Source,
    arguments: Sequence[tuple[str, Any]],
    types: Sequence[ArgumentType],
    max_unroll: int = 16,
    joined: dict[Loc, dict[str, Any]] | None = None,
    seen: ReadValues | None = None,
) -> Kernel:
    """The kernel for arguments of these types.

    Its grid has as many axes as `tid()` gives indices, one if the kernel does not ask.

    Args:
        arguments: their names and annotations. The IR's parameters have the names, those of a struct's fields `s.x`.
        types: of the leaves of the arguments (a struct has one for each field), concrete.
        max_unroll: loops of at most so many iterations, known when lowering, are unrolled.
        joined: gets the types of variables where paths meet, by the place of the `if` or loop.
        seen: gets what was read of the world of Python.
    """
    try:
        return _lower(source, arguments, types, max_unroll, joined, seen or ReadValues())
    except RecursionError:
        raise KernelTypeError(
            f"{source.name} is nested too deeply for Python's recursion limit",
            source.signature_loc,
            hint="split the expression over several lines, or the kernel into @funcs",
        ) from None


@with_deep_stack
def _lower(
    source: Source,
    arguments: Sequence[tuple[str, Any]],
    types: Sequence[ArgumentType],
    max_unroll: int,
    joined: dict[Loc, dict[str, Any]] | None,
    seen: ReadValues,
) -> Kernel:
    context = Context(max_unroll=max_unroll, joined=joined, seen=seen)
    params = parameters(arguments, types)
    context.params = params
    frame = Frame(context, source, {})
    with frame.at(source.tree):
        context.builder.loc = source.signature_loc
        frame.variables.update(argument_values(frame, arguments, types, params))
        context.ids = frame.variables.pop(TABLES, None)
        execute(frame, source.tree.body, frozenset())
    rank = context.tid[0] if context.tid is not None else 1
    kernel = context.builder.finish(source.name, rank, params)
    _require_shallow(kernel)
    tiles = _tile_uses(kernel, context.windows)
    kernel = without_needless(kernel, context.from_end)
    used = {op.param for op in walk(kernel.body) if isinstance(op, ir.Load | ir.Store)} if context.locals else set()
    own = tuple(p for p in context.locals if p in used)
    lanes = (*context.lanes, *_lane_indices(kernel, context.tid))
    return verify(replace(kernel, locals=own, sizes=tuple(context.sizes), tiles=tiles, lanes=lanes))


def _lane_indices(kernel: Kernel, tid: tuple[int, Loc] | None) -> tuple[LaneUse, ...]:
    """Return the use of the last of several indices, which is a lane in launches of blocks."""
    if tid is None or tid[0] < 2:
        return ()
    axis, uses = tid[0] - 1, count_uses(kernel)
    is_used = any(isinstance(op, ir.Tid) and op.axis == axis and uses[op.result] for op in walk(kernel.body))
    return (LaneUse("the last index of tid()", tid[1], axis),) if is_used else ()


def _tile_uses(kernel: Kernel, windows: Sequence[Window]) -> tuple[TileUse, ...]:
    if not windows:
        return ()
    differing = ThreadDependence(kernel.body).values

    def moves(window: Window) -> bool:
        axes = zip(window.starts, window.shape, strict=True)
        return any(n > 1 and not differing.isdisjoint(starts) for starts, n in axes)

    return tuple(TileUse(w.param, w.shape, w.stores, moves(w), w.loc) for w in windows)


def _require_shallow(kernel: Kernel) -> None:
    pending = [(kernel.body, 0)]
    while pending:
        block, depth = pending.pop()
        for op in block.ops:
            if op.blocks and depth == _MOST_NESTED:
                raise KernelTypeError(
                    f"{kernel.name} is nested too deeply: more than {_MOST_NESTED} branches and loops in each other",
                    op.loc,
                    hint="choose by a table in an array; an `elif` is inside the `else` before it, and what comes after"
                    " an early return is inside one too",
                )
            pending += [(inner, depth + 1) for inner in op.blocks]
