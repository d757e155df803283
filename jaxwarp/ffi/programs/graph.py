"""The primitive `jaxwarp_program`: a recorded program as one custom call, which replays a CUDA graph of its own.

It is compiled as one call, and transformed as the launches it consists of: its derivatives and its batched form are
launches of their own in the program around it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import numpy as np
from jax.interpreters import ad, batching, mlir

from jaxwarp import compat
from jaxwarp.compat import Primitive
from jaxwarp.errors import InternalError
from jaxwarp.ffi.derivatives.rules import is_active
from jaxwarp.ffi.derivatives.zeros import Values, pushed
from jaxwarp.ffi.lowering import call_attributes
from jaxwarp.ffi.programs.captured import (
    BufferView,
    CallOp,
    CapturedProgram,
    ComputeOp,
    CopyOp,
    FillOp,
    IfOp,
    LaunchOp,
    LoopOp,
    Shape,
    evaluate,
)
from jaxwarp.launches.image import sealed
from jaxwarp.launches.spec import LaunchSpec
from jaxwarp.native.library import PROGRAM_TARGET
from jaxwarp.passes.launches.tells import says

graph_p = Primitive(PROGRAM_TARGET)
graph_p.multiple_results = True

_LAUNCH, _COPY, _FILL = 0, 1, 2


def bind_graph(recording: CapturedProgram, operands: Sequence[Any]) -> list[Any]:
    """Run a recorded program on JAX values.

    Where launches print or may fail, it is these, each of which tells it by itself; also where some are made in Python,
    repeated, or chosen, or JAX computes between them.
    """
    apart = CallOp | ComputeOp | LoopOp | IfOp
    if any(isinstance(op, apart) or (isinstance(op, LaunchOp) and _tells(op.launch)) for op in recording.ops):
        return evaluate(recording, operands)
    with compat.with_x64_if(recording.is_wide):
        return graph_p.bind(*compat.unify_varying(operands), recording=recording)


_typed = compat.with_types_of("recording")


def _tells(launch: LaunchSpec) -> bool:
    return launch.debug is not None or says(launch.kernel)


@functools.lru_cache(maxsize=256)
def _compiled(recording: CapturedProgram) -> Callable[..., list[Any]]:
    def call(*operands: Any) -> list[Any]:
        return graph_p.bind(*operands, recording=recording)

    call.__name__ = call.__qualname__ = recording.name
    return compat.jit_primitive(call)


def _graph_impl(*operands: Any, recording: CapturedProgram) -> list[Any]:
    # Also under jax.disable_jit(): there is no other way to run it.
    with jax.disable_jit(False):
        return _compiled(recording)(*operands)


def _graph_abstract(*operands: Any, recording: CapturedProgram) -> tuple[list[Any], set[Any]]:
    results = [compat.output_aval(operands, slot.shape, slot.dtype) for slot in recording.results]
    return results, {compat.SIDE_EFFECT} if recording.has_side_effect else set()


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, recording: CapturedProgram, platform: str) -> Sequence[Any]:
    # Scratch memory is XLA's: results that nobody sees.
    scratch = [jax.core.ShapedArray(slot.shape, slot.dtype) for slot in recording.scratch]
    rule = jax.ffi.ffi_lowering(
        PROGRAM_TARGET, operand_output_aliases=dict(recording.aliases), has_side_effect=recording.has_side_effect
    )
    extended = ctx.replace(avals_out=[*(ctx.avals_out or ()), *scratch]) if scratch else compat.never_all_of_a_body(ctx)
    attributes = program_attributes(recording, platform, compat.is_for_export(ctx))
    return rule(extended, *operands, **sealed(attributes))[: len(recording.results)]


def _graph_lower_cpu(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Sequence[Any]:
    return _lower(ctx, *operands, platform="cpu", **params)


def _graph_lower_cuda(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Sequence[Any]:
    return _lower(ctx, *operands, platform="cuda", **params)


def program_attributes(recording: CapturedProgram, platform: str, is_for_export: bool = True) -> dict[str, Any]:
    """The attributes of the custom call on `platform` (docs/design/0011-graph-modes.md)."""
    attributes: dict[str, Any] = {"name": recording.name, "graph_cache_max": np.int64(recording.graph_cache_max)}
    images: dict[bytes, int] = {}
    kernels: dict[tuple[LaunchSpec, tuple[Shape, ...]], int] = {}
    views: dict[BufferView, int] = {}
    encoded: list[int] = []

    def kernel(op: LaunchOp) -> int:
        shapes = tuple(v.shape for v in op.operands)
        known = kernels.get((op.launch, shapes))
        if known is not None:
            return known
        number = kernels[op.launch, shapes] = len(kernels)
        for name, value in call_attributes(op.launch, shapes, platform, is_for_export).items():
            entry = np.int64(images.setdefault(value, len(images))) if name == "image" else value
            attributes[f"kernel{number}_{name}"] = entry
        return number

    def view(v: BufferView) -> int:
        return views.setdefault(v, len(views))

    for op in recording.ops:
        match op:
            case LaunchOp():
                parts = [view(v) for v in (*op.operands, *op.results)]
                encoded += (_LAUNCH, kernel(op), len(parts), *parts)
            case CopyOp():
                encoded += (_COPY, view(op.to), view(op.source))
            case FillOp():
                pattern = op.scalar[:4]
                encoded += (_FILL, len(pattern), int.from_bytes(pattern, "little"), view(op.to))
            case CallOp() | ComputeOp() | LoopOp() | IfOp():
                raise InternalError(f"{recording.name}: {type(op).__name__} in a program of one operation")
    attributes |= {f"image{number}": image for image, number in images.items()}
    table = [n for v in views for n in _encode(v)]
    return attributes | {
        "kernels": np.int64(len(kernels)),
        "views": np.array(table, np.int64),
        "ops": np.array(encoded, np.int64),
    }


def _encode(view: BufferView) -> list[int]:
    """Buffer, offset in bytes, rank and extents; of a whole buffer, rank -1: its extents may be symbolic."""
    if view.is_whole:
        return [view.buffer, 0, -1]
    return [view.buffer, view.offset * view.dtype.itemsize, len(view.shape), *view.shape]


@functools.lru_cache(maxsize=256)
def _as_launches(recording: CapturedProgram) -> Callable[..., list[Any]]:
    """The program as launches, which JAX transforms one by one; compiled as a whole outside of a trace, too."""

    def call(*operands: Any) -> list[Any]:
        return evaluate(recording, operands)

    call.__name__ = call.__qualname__ = recording.name
    return jax.jit(call)


def _graph_batch(
    operands: Sequence[Any], dims: Sequence[int | None], *, recording: CapturedProgram
) -> tuple[list[Any], list[int]]:
    mapped = jax.vmap(_as_launches(recording), in_axes=tuple(dims))
    return mapped(*operands), [0] * len(recording.results)


def _graph_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, recording: CapturedProgram
) -> tuple[list[Any], list[Any]]:
    active = {i: t for i, t in enumerate(tangents) if is_active(t)}

    def function(given: Values) -> Values:
        return dict(enumerate(_as_launches(recording)(*[given.get(i, x) for i, x in enumerate(primals)])))

    results, found = pushed(function, {i: primals[i] for i in active}, active)
    zeros = [ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results.values()]
    return list(results.values()), [found.get(i, zero) for i, zero in enumerate(zeros)]


graph_p.def_impl(_typed(_graph_impl))
graph_p.def_effectful_abstract_eval(_graph_abstract)
mlir.register_lowering(graph_p, _typed(_graph_lower_cpu), platform="cpu")
mlir.register_lowering(graph_p, _typed(_graph_lower_cuda), platform="cuda")
batching.primitive_batchers[graph_p] = _typed(_graph_batch)
ad.primitive_jvps[graph_p] = _typed(_graph_jvp)
