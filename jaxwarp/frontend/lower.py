"""A kernel's Python function and the types of its arguments, to IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import KernelTypeError, Loc
from jaxwarp.frontend.derivatives import gradient
from jaxwarp.frontend.lowering import calls, intrinsics, local_arrays, statements
from jaxwarp.frontend.lowering.branches import execute
from jaxwarp.frontend.lowering.frame import Context, Frame
from jaxwarp.frontend.lowering.loops import statements as loops
from jaxwarp.frontend.lowering.memory import load_element
from jaxwarp.frontend.lowering.values import Element, NoArray
from jaxwarp.frontend.lowering.views import whole
from jaxwarp.frontend.text.source import Source
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import walk
from jaxwarp.ir.verify import verify
from jaxwarp.types import Absent, Aggregate, Array, Scalar, element_scalar, element_shape

ArgumentType = Scalar | Aggregate | Array | Absent

# Blocks inside each other. Derivatives and machine code of 1000 take 20 s; Python itself parses about as many `elif`.
_MOST_NESTED = 2000

# Importing these registers the functions that lower each kind of syntax node.
_LOWERING = (statements, loops, calls, intrinsics, local_arrays, gradient)


def lower(
    source: Source,
    names: Sequence[str],
    types: Sequence[ArgumentType],
    max_unroll: int = 16,
    joined: dict[Loc, dict[str, Any]] | None = None,
) -> Kernel:
    """The kernel for arguments of these types.

    Its grid has as many axes as `tid()` gives indices, one if the kernel does not ask.

    Args:
        names: of the arguments; the IR's parameters have them.
        types: concrete, one per argument.
        max_unroll: loops of at most so many iterations, known when lowering, are unrolled.
        joined: gets the types of variables where paths meet, by the place of the `if` or loop.
    """
    try:
        return _lower(source, names, types, max_unroll, joined)
    except RecursionError:
        raise KernelTypeError(
            f"{source.name} is nested too deeply for Python's recursion limit",
            source.signature_loc,
            hint="split the expression over several lines, or the kernel into @funcs",
        ) from None


@with_deep_stack
def _lower(
    source: Source,
    names: Sequence[str],
    types: Sequence[ArgumentType],
    max_unroll: int,
    joined: dict[Loc, dict[str, Any]] | None,
) -> Kernel:
    context = Context(max_unroll=max_unroll, joined=joined)
    params = tuple(parameter(name, dtype) for name, dtype in zip(names, types, strict=True))
    context.params = params
    frame = Frame(context, source, {})
    with frame.at(source.tree):
        context.builder.loc = source.signature_loc
        for param, dtype in zip(params, types, strict=True):
            frame.variables[param.name] = argument_value(frame, param, dtype)
        execute(frame, source.tree.body, frozenset())
    rank = context.tid[0] if context.tid is not None else 1
    kernel = context.builder.finish(source.name, rank, params)
    _require_shallow(kernel)
    used = {op.param for op in walk(kernel.body) if isinstance(op, ir.Load | ir.Store)} if context.locals else set()
    own = tuple(p for p in context.locals if p in used)
    return verify(replace(kernel, locals=own, sizes=tuple(context.sizes)))


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


def parameter(name: str, dtype: ArgumentType) -> ir.Param:
    """The buffer of an argument: array axes, then component axes."""
    dtype = dtype.array if isinstance(dtype, Absent) else dtype
    if isinstance(dtype, Array):
        shape: tuple[int | None, ...] = (None,) * dtype.ndim
        return ir.Param(name, element_scalar(dtype.dtype), shape + element_shape(dtype.dtype))
    return ir.Param(name, element_scalar(dtype), element_shape(dtype))


def argument_value(frame: Frame, param: ir.Param, dtype: ArgumentType) -> Any:
    """The variable that the function sees; by-value arguments are read once, at the start."""
    if isinstance(dtype, Absent):
        return NoArray(dtype.array, param.name)
    if isinstance(dtype, Array):
        return whole(param, dtype.dtype, dtype.ndim)
    return load_element(frame.builder, Element(whole(param, dtype, 0)))
