"""The primitive `jaxwarp_launch` and its rule for each transformation of JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir

from jaxwarp import compat
from jaxwarp.analysis.shardable import Factors
from jaxwarp.compat import Primitive
from jaxwarp.errors import InternalError
from jaxwarp.ffi.costs import loop_copies, program
from jaxwarp.ffi.debug import record_shape, scan_launches, told, with_checks
from jaxwarp.ffi.derivatives.rules import launch_jvp, launch_transpose
from jaxwarp.ffi.derivatives.taylor import launch_jet
from jaxwarp.ffi.lowering import TARGET, call_attributes, scratch_attributes
from jaxwarp.ffi.partition import can_partition, partitioned, result_specs
from jaxwarp.ir.kernel import Kernel
from jaxwarp.launches.code import placing
from jaxwarp.launches.image import sealed
from jaxwarp.launches.interned import Interned
from jaxwarp.launches.spec import IN_OUT, BatchOf, Dim, LaunchSpec, intern_kernel
from jaxwarp.passes.launches.batch import batch

launch_p = Primitive(TARGET)
launch_p.multiple_results = True

# A launch with a sharding rule. Its lowering asks for the devices, which makes JAX lower anew for other devices: a
# primitive of its own, so that other launches do not pay for it.
sharded_launch_p = Primitive(f"{TARGET}_sharded")
sharded_launch_p.multiple_results = True
compat.lower_with_devices(sharded_launch_p)


def bind_launch(launch: LaunchSpec, operands: Sequence[Any]) -> list[Any]:
    """Launches a kernel on JAX values: the only way in for traced code."""
    with compat.with_x64_if(launch.is_wide):
        operands = compat.unify_varying(operands)
        return _primitive(launch).bind(*operands, launch=_with_numbers(launch, operands))


def _with_numbers(launch: LaunchSpec, operands: Sequence[Any]) -> LaunchSpec:
    """The launch with those of its operands that a program being traced holds as constants, as far as they decide."""
    found = {i: x for i, x in zip(launch.operand_params, operands, strict=True) if compat.is_constant_integer(x)}
    is_traced = found and any(isinstance(x, jax.core.Tracer) for x in operands)
    deciding = placing(launch.kernel, launch.fma) if is_traced else frozenset[int]()
    numbers = tuple((i, int(x)) for i, x in found.items() if i in deciding)
    return launch if numbers == launch.numbers else launch.replace(numbers=numbers)


_typed = compat.with_types_of("launch")


def _primitive(launch: LaunchSpec) -> Primitive:
    return launch_p if launch.factors is None else sharded_launch_p


def _compile_launch(launch: LaunchSpec) -> Callable[..., list[Any]]:
    def call(*operands: Any) -> list[Any]:
        typed = [
            jax.lax.convert_element_type(x, launch.kernel.params[index].dtype.numpy)
            for index, x in zip(launch.operand_params, operands, strict=True)
        ]
        return launch_p.bind(*typed, launch=launch)

    call.__name__ = call.__qualname__ = launch.name
    return compat.jit_primitive(call)


# Compiled launches for eager calls: all that a plan of a call holds, and the last ones beside. A loaded program of XLA
# takes 1.5 MB, so kernels that come and go must not leave theirs behind.
compiled_launches = Interned(_compile_launch, keep=128)


def compiled_launch(launch: LaunchSpec) -> Callable[..., list[Any]]:
    """A compiled launch, for eager calls."""
    return compiled_launches(launch)


def _launch_impl(*operands: Any, launch: LaunchSpec) -> list[Any]:
    # Under jax.disable_jit() this is where a launch is compiled nevertheless: there is no other way to run it.
    with jax.disable_jit(False):
        return compiled_launch(launch.replace() if launch.numbers else launch)(*operands)


def _launch_abstract(*operands: Any, launch: LaunchSpec) -> tuple[list[Any], set[Any]]:
    for index, aval in zip(launch.operand_params, operands, strict=True):
        param = launch.kernel.params[index]
        if aval.dtype != param.dtype.numpy or len(aval.shape) != param.rank:
            raise InternalError(f"{launch}: {param.name} got {aval}")
    specs = result_specs(launch, operands) or [None] * len(launch.results)
    results = [
        compat.output_aval(operands, shape, launch.kernel.params[index].dtype.numpy, spec)
        for index, shape, spec in zip(launch.result_params, launch.results, specs, strict=True)
    ]
    if launch.debug is not None and launch.debug.is_value:
        results.append(compat.output_aval(operands, record_shape(launch), np.uint32))
    effects = {compat.SIDE_EFFECT} if launch.is_effect else set()
    return results, effects | ({compat.UNREPEATABLE} if launch.unrepeatable else set())


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, launch: LaunchSpec, platform: str) -> Sequence[Any]:
    avals: Sequence[Any] = ctx.avals_in
    if can_partition(launch, avals) and compat.is_partitioned_by_xla(ctx):
        return mlir.lower_fun(partitioned(bind_launch, launch), multiple_results=True)(ctx, *operands)
    if launch.debug is not None:
        return _lower_checked(ctx, operands, launch)
    loop_copies.watch(ctx, launch, avals)
    made = _custom_call(ctx, operands, launch, platform, {})
    program.tell(made, launch, [a.shape for a in avals])
    return made


checked_p = Primitive(f"{TARGET}_checked")
"""The custom call of a launch of a checked kernel, or of one after it: it is made in lowerings only.

The parameters in `words`, int64 marks and records, are buffers of pairs of 32-bit words: JAX may have no others.
`tells`: numbers in a row of the record, the last result, and the texts that a handler on the CPU makes an error of.
"""
checked_p.multiple_results = True


def _checked_abstract(*operands: Any, launch: LaunchSpec, words: tuple[int, ...], tells: Any) -> list[Any]:
    del tells
    shapes = [(*s, 2) if i in words else s for i, s in zip(launch.result_params, launch.results, strict=True)]
    dtypes = [np.uint32 if i in words else launch.kernel.params[i].dtype.numpy for i in launch.result_params]
    return [compat.output_aval(operands, s, d) for s, d in zip(shapes, dtypes, strict=True)]


def _checked_lower(
    ctx: mlir.LoweringRuleContext, *operands: Any, launch: LaunchSpec, words: tuple[int, ...], tells: Any, platform: str
) -> Sequence[Any]:
    ranks = [p.rank + (i in words) for i, p in enumerate(launch.kernel.params)]
    more: dict[str, Any] = {"ranks": np.array(ranks, np.int64)}
    if tells is not None and platform == "cpu":
        row, texts = tells
        more |= {"record": np.int64(len(operands) + len(launch.results) - 1), "record_row": np.int64(row)}
        more["reports"] = texts
    return _custom_call(ctx, operands, launch, platform, more, words)


def _custom_call(
    ctx: mlir.LoweringRuleContext,
    operands: Sequence[Any],
    launch: LaunchSpec,
    platform: str,
    more: dict[str, Any],
    words: Sequence[int] = (),
) -> Sequence[Any]:
    avals: Sequence[Any] = ctx.avals_in
    shapes = [a.shape[:-1] if i in words else a.shape for i, a in zip(launch.operand_params, avals, strict=True)]
    attributes = call_attributes(launch, shapes, platform, compat.is_for_export(ctx)) | more
    scratch, copies = scratch_attributes(launch, shapes) if platform == "cpu" else (0, {})
    if scratch:
        ctx = ctx.replace(avals_out=[*(ctx.avals_out or ()), jax.core.ShapedArray((scratch,), np.dtype(np.uint8))])
    else:
        ctx = compat.never_all_of_a_body(ctx)
    rule = jax.ffi.ffi_lowering(TARGET, operand_output_aliases=launch.aliases, has_side_effect=launch.has_side_effect)
    # XLA names the instruction by this, and timelines of profiles show names of instructions.
    with compat.location(ctx, launch.name):
        return rule(ctx, *operands, **sealed(attributes | copies))[: len(launch.results)]


def _lower_checked(ctx: mlir.LoweringRuleContext, operands: Sequence[Any], launch: LaunchSpec) -> Sequence[Any]:
    """A launch in debug mode: the checked kernel, with the record of its failures as one more result."""
    debug = launch.debug
    avals: Sequence[Any] = ctx.avals_in
    assert debug is not None
    made, found = with_checks(launch, [aval.shape for aval in avals])
    if found is None:

        def run(*xs: Any) -> list[Any]:
            record = [jnp.zeros(record_shape(launch), np.uint32)] if debug.is_value else []
            return [*bind_launch(made, xs), *record]

        return mlir.lower_fun(run, multiple_results=True)(ctx, *operands)
    # XLA refuses effects in programs that it partitions.
    if launch.is_effect and not compat.is_for_several_devices(ctx):
        made = made.replace(has_side_effect=True)
    scans = scan_launches(launch, made, found)
    tells = (found.layout.row, told(launch, found)) if debug.delivery == "error" else None

    def run(*xs: Any) -> list[Any]:
        ours = tuple(range(len(launch.roles), len(made.roles)))
        *results, record = checked_p.bind(*xs, launch=made, words=ours, tells=tells)
        count = len(launch.results)
        results, marks = results[:count], results[count:]
        for scan, marked in zip(scans, marks, strict=True):
            (found_later,) = checked_p.bind(marked, launch=scan, words=(0, 1), tells=tells)
            is_first = (record[..., :1, :] != 0).any(axis=-1, keepdims=True)
            record = jnp.where(is_first, record, found_later)
        return [*results, record] if debug.is_value else results

    return mlir.lower_fun(run, multiple_results=True)(ctx, *operands)


def _launch_lower_cpu(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Sequence[Any]:
    return _lower(ctx, *operands, platform="cpu", **params)


def _launch_lower_cuda(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Sequence[Any]:
    return _lower(ctx, *operands, platform="cuda", **params)


@functools.lru_cache(maxsize=1024)
def _batched(kernel: Kernel, axes: tuple[int | None, ...]) -> Kernel:
    return intern_kernel(batch(kernel, axes))


def _launch_batch(
    operands: Sequence[Any], dims: Sequence[int | None], *, launch: LaunchSpec
) -> tuple[list[Any], list[int]]:
    """One launch with a grid axis more. Operands stay where they are; what is not batched is read by every item."""
    size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
    match launch.vmap_method:
        case "sequential" | "sequential_unrolled":
            return _batch_sequential(operands, dims, launch)
        case "broadcast_all":
            repeated = set(range(len(operands)))
        case None | "expand_dims" | "legacy_vectorized":
            # An in-out argument's result differs from item to item, so each needs its own start.
            repeated = {n for n, i in enumerate(launch.operand_params) if launch.roles[i] == IN_OUT}
        case _:
            raise InternalError(f"vmap_method {launch.vmap_method!r}")
    operands, positions = list(operands), list(dims)
    for n in repeated:
        if positions[n] is None:
            operands[n], positions[n] = jnp.broadcast_to(operands[n], (size, *operands[n].shape)), 0
    axes: dict[int, int | None] = dict(zip(launch.operand_params, positions, strict=True))
    # The batch axis of an in-out argument stays where it is; that of an output is the first.
    result_dims = [axes.get(i) or 0 for i in launch.result_params]
    batched = launch.replace(
        kernel=_batched(launch.kernel, tuple(axes.get(i, 0) for i in range(len(launch.roles)))),
        grid=(size, *launch.grid),
        results=tuple(_insert(s, d, size) for s, d in zip(launch.results, result_dims, strict=True)),
        origin=launch.origin and BatchOf(launch, tuple(positions), tuple(result_dims), size),
        factors=_batched_factors(launch, axes),
        debug=launch.debug and launch.debug.in_batch(),
    )
    results = bind_launch(batched, operands)
    return results, [*result_dims, *[0] * (len(results) - len(result_dims))]  # the record's items come first


def _batched_factors(launch: LaunchSpec, axes: dict[int, int | None]) -> Factors | None:
    """The batch is a factor, too."""
    if launch.factors is None:
        return None
    name = f"(vmap {len(launch.grid)})"  # no rule of a user's has this name
    places = [axes.get(i, 0) for i in range(len(launch.roles))]
    return tuple(f if p is None else _insert(f, p, name) for f, p in zip(launch.factors, places, strict=True))


def _insert(shape: tuple[Dim, ...], axis: int, size: Dim) -> tuple[Dim, ...]:
    return (*shape[:axis], size, *shape[axis:])


def _batch_sequential(
    operands: Sequence[Any], dims: Sequence[int | None], launch: LaunchSpec
) -> tuple[list[Any], list[int]]:
    """One launch after the other, in a loop."""
    moved = tuple(jnp.moveaxis(x, d, 0) for x, d in zip(operands, dims, strict=True) if d is not None)

    def item(_: None, batched: tuple[Any, ...]) -> tuple[None, list[Any]]:
        values = iter(batched)
        return None, bind_launch(
            launch, [x if d is None else next(values) for x, d in zip(operands, dims, strict=True)]
        )

    _, results = jax.lax.scan(item, None, moved, unroll=launch.vmap_method == "sequential_unrolled")
    return results, [0] * len(results)


def _launch_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, launch: LaunchSpec) -> tuple[list[Any], list[Any]]:
    return launch_jvp(bind_launch, launch, primals, tangents)


def _launch_jet(
    primals: Sequence[Any], series: Sequence[Any], *, launch: LaunchSpec
) -> tuple[list[Any], list[list[Any]]]:
    return launch_jet(functools.partial(bind_launch, launch), primals, series)


def _launch_transpose(cotangents: Sequence[Any], *operands: Any, launch: LaunchSpec) -> list[Any]:
    return launch_transpose(bind_launch, launch, cotangents, operands)


checked_p.def_abstract_eval(_checked_abstract)
for _platform in ("cpu", "cuda"):
    mlir.register_lowering(checked_p, functools.partial(_checked_lower, platform=_platform), platform=_platform)

for _primitive_p in (launch_p, sharded_launch_p):
    _primitive_p.def_impl(_typed(_launch_impl))
    _primitive_p.def_effectful_abstract_eval(_launch_abstract)
    mlir.register_lowering(_primitive_p, _typed(_launch_lower_cpu), platform="cpu")
    mlir.register_lowering(_primitive_p, _typed(_launch_lower_cuda), platform="cuda")
    batching.primitive_batchers[_primitive_p] = _typed(_launch_batch)
    ad.primitive_jvps[_primitive_p] = _typed(_launch_jvp)
    ad.primitive_transposes[_primitive_p] = _typed(_launch_transpose)
    compat.set_jet_rule(_primitive_p, _typed(_launch_jet))
