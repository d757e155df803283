"""Every semi-public name of JAX that jaxwarp uses, for each version it supports (0.9 to 0.12)."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.core
import numpy as np
from jax._src import array as _array
from jax._src import checkify as _checkify
from jax._src import core as _core
from jax._src import dispatch as _dispatch
from jax._src import effects as _effects
from jax._src import source_info_util as _source_info_util
from jax._src import traceback_util as _traceback_util
from jax._src import xla_bridge as _xla_bridge
from jax._src.interpreters import mlir as _mlir
from jax.experimental import jet as _jet
from jax.interpreters import ad
from jax.sharding import NamedSharding, PartitionSpec

from jaxwarp.boundary import PACKAGE

ArrayImpl = _array.ArrayImpl
# Those of `jax.extend.core`, whose import imports Pallas.
Primitive: TypeAlias = _core.Primitive
Var: TypeAlias = _core.Var

# Settings are attributes that type checkers do not see in every version.
_config: Any = jax.config


def variables_of(extents: Iterable[Any]) -> list[str]:
    """The names in symbolic extents, and in what is demanded of these names; sorted."""
    wanted = [side for left, right, _ in constraints_of(extents) for side in (left, right)]
    return sorted(set().union(*map(names_in, (*extents, *wanted))))


def names_in(extent: Any) -> list[str]:
    """The names in a symbolic extent, sorted; a number has none."""
    return sorted(extent._get_vars()) if hasattr(extent, "_get_vars") else []


def constraints_of(extents: Iterable[Any]) -> list[tuple[Any, Any, bool]]:
    """Return what is demanded of the variables in symbolic extents: `(a, b, True)` for a == b, else a >= b."""
    scopes = {id(n.scope): n.scope for n in extents if hasattr(n, "scope")}
    return [(c.e1, c.e2, c.cmp.name == "EQ") for scope in scopes.values() for c in scope._explicit_constraints]


def extent_at(extent: Any, values: Mapping[str, int]) -> int:
    """A symbolic extent, or a number, as an int where its variables have these values."""
    return int(extent if isinstance(extent, (int, np.integer)) else extent._evaluate(values))


def is_x64_enabled() -> bool:
    """Return whether JAX has 64-bit types at this point (`jax.enable_x64` is a context manager, too)."""
    return bool(_config.jax_enable_x64)


def with_x64() -> Any:
    """`with with_x64():` JAX has 64-bit types."""
    return jax.enable_x64(True)


def with_x64_if(is_needed: bool) -> Any:
    """`with with_x64_if(is_needed):` JAX has 64-bit types, at least if they are needed.

    A program may compute with them inside even if what it takes and gives has none. JAX keeps such types through its
    transformations, but what makes a value, and each function of `jnp`, asks whether they are enabled.
    """
    return jax.enable_x64(True) if is_needed and not is_x64_enabled() else contextlib.nullcontext()


def with_types_of(parameter: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of rules of a primitive: each runs where JAX has the types of the primitive's parameter of this name.

    JAX calls them later than the primitive is bound, maybe in a program that does not have these types.
    """

    def typed(rule: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(rule)
        def run(*args: Any, **params: Any) -> Any:
            with with_x64_if(params[parameter].is_wide):
                return rule(*args, **params)

        return run

    return typed


def has_started() -> bool:
    """Return whether JAX has started a backend, with its threads, in this process."""
    return _xla_bridge.backends_are_initialized()


# What functions that JAX compiles depend on beside their arguments: they are traced anew where it differs.
_traced_under: Any = jax.make_user_context(None)


def set_traced_under(value: Any) -> None:
    """Makes JAX trace functions anew that it has traced under another value, on all threads."""
    _traced_under._obj.set_global(value)


# The line that profiles and HLO show for a launch is the user's, not ours.
_source_info_util.register_exclusion(PACKAGE)


def location(ctx: _mlir.LoweringRuleContext, name: str) -> Any:
    """`with location(ctx, name):` what a lowering makes has this name and the user's line."""
    return _mlir.source_info_to_location(ctx.module_context, None, ctx.name_stack.extend(name), ctx.traceback)


# Where an error passes through a function of JAX's, its traceback loses these along with JAX's frames: ours, and
# those of what JAX calls its own functions through.
for _path in (os.path.dirname(__file__), contextlib.__file__):
    _traceback_util.register_exclusion(_path)


def trace_state() -> Any:
    """Whom operations go to here: the program that runs, or the function that JAX traces. Compared with `==`."""
    return _core.get_opaque_trace_state()


def is_tracing() -> bool:
    """Return whether JAX is tracing a function at this point."""
    return not _core.trace_state_clean()


class LaunchEffect(_effects.Effect):
    """An effect that makes JAX keep a launch whose results nobody uses. It does not order launches among themselves."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LaunchEffect)

    def __hash__(self) -> int:
        return hash(LaunchEffect)

    def __repr__(self) -> str:
        return "launch with side effects"


class UnrepeatableEffect(_effects.Effect):
    """An effect of a launch that another run would not repeat. It is for `jax.checkpoint` to refuse it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnrepeatableEffect)

    def __hash__(self) -> int:
        return hash(UnrepeatableEffect)

    def __repr__(self) -> str:
        return (
            "a record of what atomics on integers returned, for a derivative, which jax.checkpoint would make a second "
            "time, in another order of threads: leave that launch out of jax.checkpoint"
        )


# `jax.ffi.ffi_call(has_side_effect=True)` has an effect of its own, but before JAX 0.11 it is in too few of these
# sets: under jax.checkpoint it fails. Hence ours.
for _allowed in (
    _effects.lowerable_effects,
    _effects.control_flow_allowed_effects,
    _effects.remat_allowed_effects,
    _effects.custom_derivatives_allowed_effects,
    _effects.partial_eval_kept_effects,
):
    _allowed.add_type(LaunchEffect)

for _allowed in (
    _effects.lowerable_effects,
    _effects.control_flow_allowed_effects,
    _effects.custom_derivatives_allowed_effects,
):
    _allowed.add_type(UnrepeatableEffect)

SIDE_EFFECT = LaunchEffect()
UNREPEATABLE = UnrepeatableEffect()


JaxException = _checkify.JaxException
ErrorEffect = _checkify.ErrorEffect
checkify: Callable[..., Any] = _checkify.checkify
traceback_here: Callable[[], Any] = _checkify.get_traceback


def set_checkify_rule(primitive: _core.Primitive, rule: Callable[..., Any]) -> None:
    """`rule(primitive, assert_func, error, enabled_errors, *operands, **params)` is what checkify makes of a primitive.

    `assert_func(error, failed, new)` is the error with a new one, where that is what failed.
    """

    def plain(error: Any, enabled: Any, *operands: Any, **params: Any) -> Any:
        return rule(primitive, _checkify.assert_func, error, enabled, *operands, **params)

    # From JAX 0.12 on a context goes first, which numbers the checks.
    def in_context(context: Any, error: Any, enabled: Any, *operands: Any, **params: Any) -> Any:
        assert_func = functools.partial(_checkify.assert_func, context)
        return rule(primitive, assert_func, error, enabled, *operands, **params)

    has_context = hasattr(_checkify, "CheckifyContext")
    _checkify.error_checks[primitive] = in_context if has_context else plain


def set_jet_rule(primitive: _core.Primitive, rule: Callable[..., Any]) -> None:
    """`rule(operands, series, **params)` gives results and their series; series are lists of Taylor coefficients."""
    _jet.jet_rules[primitive] = rule


def jit_primitive(function: Any) -> Callable[..., Any]:
    """`jax.jit` of a function that does nothing but bind a primitive.

    Marked as such, as JAX marks its own: where jax.debug_nans finds a NaN it does not look for it inside, by running
    the function eagerly, which would compile it again, find the NaN again and so on.
    """
    function._apply_primitive = True
    return jax.jit(function)


def varying_axes(aval: jax.core.AbstractValue) -> frozenset[Any]:
    """The manual mesh axes (of a `shard_map` with check_vma=True) over which a value differs."""
    manual = getattr(aval, "manual_axis_type", None)  # JAX 0.10 and later
    return frozenset(manual.varying if manual is not None else getattr(aval, "vma", ()))


def unify_varying(operands: Sequence[Any]) -> list[Any]:
    """Casts operands so that all vary over the same manual mesh axes, as operands of one primitive must."""
    varying = [varying_axes(jax.typeof(x)) for x in operands]
    union = frozenset().union(*varying)
    if not union:
        return list(operands)
    return [
        jax.lax.pcast(x, tuple(sorted(union - axes, key=str)), to="varying") if union - axes else x
        for x, axes in zip(operands, varying, strict=True)
    ]


def is_constant_integer(operand: Any) -> bool:
    """Return whether an operand is an integer without axes that is known here, and no matter of other processes."""
    if isinstance(operand, jax.core.Tracer) or np.ndim(operand):
        return False
    dtype = operand.dtype if hasattr(operand, "dtype") else type(operand)  # of `jvp` it may be a number of Python's
    if not np.issubdtype(dtype, np.integer):
        return False
    return not isinstance(operand, jax.Array) or operand.is_fully_addressable


def output_aval(operands: Sequence[Any], shape: Sequence[Any], dtype: Any, spec: PartitionSpec | None = None) -> Any:
    """The abstract value of a result: sharded as `spec` says (None: not), varying over the manual mesh axes that the
    operands vary over."""
    spec = PartitionSpec(*[None] * len(shape)) if spec is None else spec
    if operands:
        # The operands' type carries the mesh and, under whichever name this version has, the manual axes.
        like = next((a for a in operands if not a.sharding.mesh.empty), operands[0])
        sharding = like.sharding.update(spec=spec)
        return like.update(shape=tuple(shape), dtype=dtype, weak_type=False, sharding=sharding)
    sharding = NamedSharding(jax.sharding.get_abstract_mesh(), spec)
    return jax.core.ShapedArray(tuple(shape), dtype, sharding=sharding)


def never_all_of_a_body(ctx: _mlir.LoweringRuleContext) -> _mlir.LoweringRuleContext:
    """Return the context of a custom call with one more result, which is empty, where XLA needs it.

    If a custom call is all of the body of a `while_loop`, and its operands are what the loop carries, in order, XLA
    (`WhileUtil::GetInvariantGTEsForWhileBody`) takes the operands of the call for the values of the next iteration. It
    finds that nothing changes, and moves the call out of the loop. With another result the body is a tuple of others.
    """
    carried, results = list(ctx.avals_in), list(ctx.avals_out or ())
    if len(results) < 2 or not 0 < len(carried) <= len(results):
        return ctx
    lists: Any = (carried, results)
    kinds = [[(a.shape, a.dtype) for a in avals] for avals in lists]
    if kinds[0] != kinds[1][: len(carried)]:
        return ctx
    return ctx.replace(avals_out=[*results, jax.core.ShapedArray((0,), np.dtype(np.uint8))])


def is_for_export(ctx: _mlir.LoweringRuleContext) -> bool:
    """Return whether a lowering is for `jax.export`."""
    return bool(ctx.module_context.lowering_parameters.for_export)


def keep_with_program(ctx: _mlir.LoweringRuleContext, kept: Callable[..., Any]) -> None:
    """Keeps an object alive for as long as the program that is being lowered.

    As a host callback of JAX's, which is called through a target of XLA's too: the loaded executable owns it, and the
    program does not go into the persistent cache.
    """
    ctx.module_context.add_host_callback(kept)


def lower_with_devices(primitive: _core.Primitive) -> None:
    """Marks a primitive whose lowering asks which devices the program is for."""
    _dispatch.prim_requires_devices_during_lowering.add(primitive)


def is_partitioned_by_xla(ctx: _mlir.LoweringRuleContext) -> bool:
    """Return whether XLA partitions the program being lowered on several devices, in this process.

    It does not where everything is local already (one device, `shard_map`), nor for export: a partitioning rule is a
    function of this process.
    """
    module = ctx.module_context
    assignment = getattr(module.axis_context, "device_assignment", None)
    return not module.lowering_parameters.for_export and assignment is not None and len(assignment) > 1


def is_for_several_devices(ctx: _mlir.LoweringRuleContext) -> bool:
    """Tell whether a program being lowered is for several devices, and not the part of one of them (`shard_map`)."""
    return getattr(ctx.module_context.axis_context, "num_devices", 1) > 1


def has_tangent(value: Any, moved: Any) -> bool:
    """Return whether a value computed under `jax.jvp` varies with the varying arguments, of which `moved` is one."""
    trace = moved._trace
    return getattr(value, "_trace", None) is trace and type(value.tangent) is not ad.Zero


def sharded_as(value: Any, aval: jax.core.AbstractValue) -> Any:
    """The value with the sharding of a type: on a mesh of explicit axes a cotangent has that of its primal."""
    wanted = getattr(aval, "sharding", None)
    if wanted is None or not any(axis is not None for axis in (*wanted.spec, *jax.typeof(value).sharding.spec)):
        return value
    return value if jax.typeof(value).sharding == wanted else jax.sharding.reshard(value, wanted)
