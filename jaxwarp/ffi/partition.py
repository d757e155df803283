"""A launch with a `sharding_rule` over sharded operands: one launch per shard, no operand gathered.

XLA's partitioner asks, once it knows how the operands are sharded, what to put in the launch's place. The answer is a
launch of each shard's part, and a sum over the shards of what each has a part of.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.custom_partitioning import ArrayMapping, SdyShardingRule, custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from jaxwarp.analysis.shardable import Split
from jaxwarp.errors import KernelValueError
from jaxwarp.launches.spec import IN_OUT, LaunchSpec, is_static

Bind = Callable[[LaunchSpec, Sequence[Any]], list[Any]]
MeshAxes = tuple[Any, ...]

_NO_MESH = jax.sharding.AbstractMesh((), ())


def _extreme(kind: str, value: Any, axes: MeshAxes) -> Any:
    """The least or the greatest, as atomics leave it: of floats that of integers in the same order.

    XLA's reductions of floats may leave a NaN out or not, and take either zero.
    """
    combine = jax.lax.pmin if kind == "min" else jax.lax.pmax
    if not jnp.issubdtype(value.dtype, jnp.floating):
        return combine(value, axes)
    wide = value.astype(np.float32) if value.dtype.itemsize < 4 else value
    integer = np.dtype(f"int{8 * wide.dtype.itemsize}")
    limits = np.iinfo(integer)
    # Comes last, and is the bits of a NaN again.
    nothing = limits.max if kind == "min" else limits.min
    ordered = _in_order(jax.lax.bitcast_convert_type(wide, integer))
    found = combine(jnp.where(jnp.isnan(wide), nothing, ordered), axes)
    return jax.lax.bitcast_convert_type(_in_order(found), wide.dtype).astype(value.dtype)


def _in_order(bits: Any) -> Any:
    """Map bits of floats to integers in the same order, or back: flip all bits but the sign of negative numbers."""
    return jnp.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


_REDUCTIONS: dict[str, Callable[[Any, MeshAxes], Any]] = {
    "add": jax.lax.psum,
    "min": functools.partial(_extreme, "min"),
    "max": functools.partial(_extreme, "max"),
}


@functools.lru_cache(maxsize=1024)
def partitioned(bind: Bind, launch: LaunchSpec) -> Callable[..., list[Any]]:
    """The launch as a function that XLA may partition."""
    whole = launch.replace(factors=None, origin=None)

    def call(*operands: Any) -> list[Any]:
        return bind(whole, operands)

    call.__name__ = call.__qualname__ = launch.name
    function = custom_partitioning(call)

    def partition(mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        cut = choose_axes(launch, mesh, operands, results)

        def shardings(params: Sequence[int]) -> tuple[NamedSharding, ...]:
            return tuple(NamedSharding(mesh, _spec(launch, i, cut)) for i in params)

        body = _shard_launch(bind, launch, mesh, cut)
        return mesh, body, list(shardings(launch.result_params)), shardings(launch.operand_params)

    function.def_partition(partition, sharding_rule=_shardy_rule(launch))
    return function


def _shardy_rule(launch: LaunchSpec) -> SdyShardingRule:
    """The rule for the propagation of shardings: factors that cannot be cut are to be replicated."""
    names: dict[Any, str] = {}

    def name(param: int, axis: int) -> str:
        factor = (launch.factors or ())[param][axis]
        return names.setdefault((param, axis) if factor is None else factor, f"f{len(names)}")

    def mappings(params: Sequence[int]) -> tuple[ArrayMapping, ...]:
        return tuple(ArrayMapping(*(name(i, a) for a in range(launch.kernel.params[i].rank))) for i in params)

    operands, results = mappings(launch.operand_params), mappings(launch.result_params)
    cut = {names[f] for f, outcome in launch.splits.items() if isinstance(outcome, Split)}
    of_results = {f for mapping in results for f in mapping}
    return SdyShardingRule(
        operands,
        results,
        reduction_factors=tuple(f for f in names.values() if f in cut and f not in of_results),
        need_replication_factors=tuple(f for f in names.values() if f not in cut),
    )


def choose_axes(launch: LaunchSpec, mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> dict[str, MeshAxes]:
    """The mesh axes that each factor is cut along: those of a result that has it, else those of an operand."""
    chosen: dict[str, MeshAxes] = {}
    taken: set[Any] = set()
    places = [*zip(launch.result_params, results, strict=True), *zip(launch.operand_params, operands, strict=True)]
    for param, value in places:
        spec = getattr(value.sharding, "spec", None)
        for axis, factor in enumerate((launch.factors or ())[param]):
            axes = _mesh_axes(spec, axis)
            split = None if factor is None else launch.splits.get(factor)
            if factor is None or factor in chosen or not isinstance(split, Split):
                continue
            if not axes or not taken.isdisjoint(axes):
                continue
            # Shards are equal, an extent that the devices do not divide is not cut; and each has the threads of its
            # own elements, so there must be one thread for each.
            extent, parts = value.shape[axis], math.prod(mesh.shape[a] for a in axes)
            if extent == launch.grid[split.axis] and extent % parts == 0:
                chosen[factor] = axes
                taken.update(axes)
    return chosen


def _mesh_axes(spec: Any, axis: int) -> MeshAxes:
    given = spec[axis] if spec is not None and axis < len(spec) else None
    return tuple(given) if isinstance(given, (tuple, list)) else () if given is None else (given,)


def _spec(launch: LaunchSpec, param: int, cut: dict[str, MeshAxes]) -> PartitionSpec:
    return PartitionSpec(*(cut.get(f) if f is not None else None for f in (launch.factors or ())[param]))


def _shard_launch(bind: Bind, launch: LaunchSpec, mesh: Any, cut: dict[str, MeshAxes]) -> Callable[..., list[Any]]:
    """The launch of one shard."""
    parts = {f: math.prod(mesh.shape[a] for a in axes) for f, axes in cut.items()}
    grid = list(launch.grid)
    reductions: dict[int, list[tuple[str, MeshAxes]]] = {}
    for factor, axes in cut.items():
        split = launch.splits[factor]
        assert isinstance(split, Split)
        grid[split.axis] //= parts[factor]
        for param, kind in split.reduced.items():
            reductions.setdefault(param, []).append((kind, axes))
    factors = launch.factors or ()
    local = launch.replace(
        factors=None,
        origin=None,
        grid=tuple(grid),
        results=tuple(
            tuple(n // parts.get(f, 1) if f is not None else n for n, f in zip(shape, factors[i], strict=True))
            for i, shape in zip(launch.result_params, launch.results, strict=True)
        ),
    )

    def of_shard(*operands: Any) -> list[Any]:
        # A shard knows of no mesh: with one of explicit axes, XLA does not recognise the reductions.
        with jax.sharding.use_abstract_mesh(_NO_MESH):
            return body(*operands)

    def body(*operands: Any) -> list[Any]:
        values = list(operands)
        for n, i in enumerate(launch.operand_params):
            for kind, axes in reductions.get(i, ()):
                if launch.roles[i] == IN_OUT and kind == "add":
                    # What was there before is part of the sum once, not once per shard.
                    values[n] = jnp.where(jax.lax.axis_index(axes) == 0, values[n], jnp.zeros_like(values[n]))
        found = bind(local, values)
        for n, i in enumerate(launch.result_params):
            for kind, axes in reductions.get(i, ()):
                found[n] = _REDUCTIONS[kind](found[n], axes)
        return found

    return of_shard


def result_specs(launch: LaunchSpec, operands: Sequence[Any]) -> list[PartitionSpec] | None:
    """Under a mesh of explicit axes: how the results are sharded, by the types of the operands.

    Raises:
        KernelValueError: two operands are sharded differently along one factor.
    """
    explicit = [a for a in operands if any(axis is not None for axis in getattr(a.sharding, "spec", ()))]
    if launch.factors is None or not explicit:
        return None
    chosen: dict[str, MeshAxes] = {}
    for param, aval in zip(launch.operand_params, operands, strict=True):
        for axis, factor in enumerate(launch.factors[param]):
            axes = _mesh_axes(aval.sharding.spec, axis)
            if factor is None or not axes or not isinstance(launch.splits.get(factor), Split):
                continue
            if chosen.setdefault(factor, axes) != axes:
                raise KernelValueError(
                    f"kernel {launch.name}: factor '{factor}' of sharding_rule is sharded over {chosen[factor]} in one"
                    f" argument and over {axes} in '{launch.kernel.params[param].name}'",
                    hint="bring one of them to the sharding of the other with jax.sharding.reshard",
                )
    return [_spec(launch, i, chosen) for i in launch.result_params]


def can_partition(launch: LaunchSpec, operands: Sequence[Any]) -> bool:
    """Return whether there is something to partition.

    Without operands nothing is sharded, and Shardy has no rules for that. Symbolic extents occur in programs for
    export, which are not partitioned.
    """
    shapes = [*(a.shape for a in operands), *launch.results, launch.grid]
    is_known = all(is_static(n) for shape in shapes for n in shape)
    return launch.factors is not None and bool(operands) and is_known
