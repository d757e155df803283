"""The part of a launch that is used: without results that nobody uses, and operands that only these need.

What is transposed is that part. So a derivative of the transpose, which runs it forward (`second_order.py`), has all
its operands, and a cotangent for all but those results that the kernel reads itself.
"""

from __future__ import annotations

import dataclasses
import functools

from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Load, Size, Store, walk
from jaxwarp.launches.spec import BatchOf, LaunchSpec, TangentOf, intern_kernel
from jaxwarp.vjp.unread import without_unread

Places = tuple[int, ...]


def used_part(launch: LaunchSpec, used: Places) -> tuple[LaunchSpec, Places]:
    """The part of a launch that the results `used` depend on, and which of its parameters are those of the part.

    Args:
        launch: one that runs forward.
        used: those of its parameters that are results with a cotangent.
    """
    if len(used) == len(launch.result_params):
        return launch, tuple(range(len(launch.roles)))
    params, whole = {*used, *_used_kernel(launch.kernel, used)[1]}, launch
    while isinstance(whole.origin, BatchOf):
        whole = whole.origin.launch
        params |= set(_used_kernel(whole.kernel, used)[1])
    kept = tuple(sorted(params))
    return (launch if len(kept) == len(launch.roles) else _restricted(launch, used, kept)), kept


@functools.lru_cache(maxsize=512)
@with_deep_stack
def _used_kernel(kernel: Kernel, used: Places) -> tuple[Kernel, Places]:
    """The kernel without writes that only other results show, and the parameters that it uses."""
    part = without_unread(kernel, [kernel.params[i] for i in used])
    params = {op.param for op in walk(part.body) if isinstance(op, Load | Store | Atomic | Size)}
    return part, tuple(i for i, p in enumerate(kernel.params) if p in params)


def _restricted(launch: LaunchSpec, used: Places, kept: Places) -> LaunchSpec:
    kernel, _ = _used_kernel(launch.kernel, used)
    results = dict(zip(launch.result_params, launch.results, strict=True))
    return launch.replace(
        kernel=intern_kernel(dataclasses.replace(kernel, params=tuple(kernel.params[i] for i in kept))),
        roles=tuple(launch.roles[i] for i in kept),
        results=tuple(results[i] for i in kept if i in results),
        factors=launch.factors and tuple(launch.factors[i] for i in kept),
        origin=_restricted_origin(launch, used, kept),
    )


def _restricted_origin(launch: LaunchSpec, used: Places, kept: Places) -> TangentOf | BatchOf | None:
    origin = launch.origin
    if isinstance(origin, TangentOf):
        return TangentOf(origin.launch, tuple(origin.slots[i] for i in kept))
    if isinstance(origin, BatchOf):
        dims = dict(zip(launch.operand_params, origin.dims, strict=True))
        result_dims = dict(zip(launch.result_params, origin.result_dims, strict=True))
        return BatchOf(
            _restricted(origin.launch, used, kept),
            tuple(dims[i] for i in kept if i in dims),
            tuple(result_dims[i] for i in kept if i in result_dims),
            origin.size,
        )
    assert origin is None
    return None
