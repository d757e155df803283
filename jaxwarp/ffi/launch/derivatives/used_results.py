"""The part of a launch that is used: without results that nobody uses, and operands that only these need.

What is transposed is that part. So a derivative of the transpose, which runs it forward (`second_order.py`), has all
its operands, and a cotangent for all but those results that the kernel reads itself.
"""

from __future__ import annotations

import dataclasses
import functools

from jaxwarp.deep import with_deep_stack
from jaxwarp.ffi.launch.spec import BatchOf, Launch, TangentOf, intern_kernel
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Load, Size, Store, walk
from jaxwarp.vjp.unread import without_unread

Places = tuple[int, ...]


def heard_part(launch: Launch, heard: Places) -> tuple[Launch, Places]:
    """The part of a launch that the results `heard` depend on, and which of its parameters are those of the part.

    Args:
        launch: one that runs forward.
        heard: those of its parameters that are results with a cotangent.
    """
    if len(heard) == len(launch.result_params):
        return launch, tuple(range(len(launch.roles)))
    used, whole = {*heard, *_heard_kernel(launch.kernel, heard)[1]}, launch
    while isinstance(whole.origin, BatchOf):
        whole = whole.origin.launch
        used |= set(_heard_kernel(whole.kernel, heard)[1])
    kept = tuple(sorted(used))
    return (launch if len(kept) == len(launch.roles) else _restricted(launch, heard, kept)), kept


@functools.lru_cache(maxsize=512)
@with_deep_stack
def _heard_kernel(kernel: Kernel, heard: Places) -> tuple[Kernel, Places]:
    """The kernel without writes that only other results show, and the parameters that it uses."""
    part = without_unread(kernel, [kernel.params[i] for i in heard])
    used = {op.param for op in walk(part.body) if isinstance(op, Load | Store | Atomic | Size)}
    return part, tuple(i for i, p in enumerate(kernel.params) if p in used)


def _restricted(launch: Launch, heard: Places, kept: Places) -> Launch:
    kernel, _ = _heard_kernel(launch.kernel, heard)
    results = dict(zip(launch.result_params, launch.results, strict=True))
    return launch.replace(
        kernel=intern_kernel(dataclasses.replace(kernel, params=tuple(kernel.params[i] for i in kept))),
        roles=tuple(launch.roles[i] for i in kept),
        results=tuple(results[i] for i in kept if i in results),
        factors=launch.factors and tuple(launch.factors[i] for i in kept),
        origin=_restricted_origin(launch, heard, kept),
    )


def _restricted_origin(launch: Launch, heard: Places, kept: Places) -> TangentOf | BatchOf | None:
    origin = launch.origin
    if isinstance(origin, TangentOf):
        return TangentOf(origin.launch, tuple(origin.slots[i] for i in kept))
    if isinstance(origin, BatchOf):
        dims = dict(zip(launch.operand_params, origin.dims, strict=True))
        result_dims = dict(zip(launch.result_params, origin.result_dims, strict=True))
        return BatchOf(
            _restricted(origin.launch, heard, kept),
            tuple(dims[i] for i in kept if i in dims),
            tuple(result_dims[i] for i in kept if i in result_dims),
            origin.size,
        )
    assert origin is None
    return None
