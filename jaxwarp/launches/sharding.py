"""`sharding_rule`: which axes of a kernel's arrays are cut together, as users write it and as a launch keeps it.

Examples:
    "i j, i j -> i j"      two inputs and an output; the first axes go together, the second axes too
    "i k, k j -> i j"      a matrix product
    ", i -> i"             a scalar and an array
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxwarp.analysis.shardable import Factors, Split
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.launches.arguments.argument import CallParameter
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT, Dim, LaunchSpec
from jaxwarp.types import Element, element_shape

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

Entry = tuple[str, ...]


@dataclass(frozen=True)
class ShardingRule:
    """A rule that fits a kernel's arguments: names of factors for each of them, in their order."""

    text: str
    entries: tuple[Entry, ...]


def parse_rule(kernel: str, text: Any, arguments: Sequence[CallParameter]) -> ShardingRule:
    """A rule as it is given to `jax_kernel`.

    Raises:
        KernelTypeError, KernelValueError: it is no rule, or has not an entry for each input and each output.
    """
    where = f"kernel {kernel}: sharding_rule"
    if not isinstance(text, str):
        raise KernelTypeError(
            f'{where}: expected a string like "i j, i j -> i j", got {text!r}',
            hint='write sharding_rule="i k, k j -> i j"',
        )
    if text.count("->") != 1:
        raise KernelValueError(
            f'{where}: expected one "->" between inputs and outputs, got {text!r}',
            hint='write the entries of the inputs, "->", those of the outputs: "i, i -> i"',
        )
    left, right = text.split("->")
    inputs = [a for a in arguments if a.role != OUTPUT]
    arrays = [a for a in inputs if a.is_array]
    given = [_entry(where, part) for part in left.split(",")] if left.strip() or (len(inputs) == 1 and arrays) else []
    if not arrays and not any(given):
        given = []
    if len(given) == len(inputs):
        entries = dict(zip((a.name for a in inputs), given, strict=True))
    elif len(given) == len(arrays):
        entries = dict(zip((a.name for a in arrays), given, strict=True))
    else:
        listed = ", ".join(a.name for a in inputs) or "none"
        raise KernelValueError(
            f"{where}: expected an entry for each of {len(inputs)} inputs ({listed}), got {len(given)} in {text!r}",
            hint='entries are separated by commas; that of a scalar is empty, or left out with all others: ", i -> i"',
        )
    results = [a for a in arguments if a.role != INPUT]
    found = [_entry(where, part) for part in right.split(",")]
    if len(found) != len(results):
        listed = ", ".join(a.name for a in results)
        raise KernelValueError(
            f"{where}: expected an entry for each of {len(results)} outputs ({listed}), got {len(found)} in {text!r}",
            hint="write one for each of them behind ->, separated by commas",
        )
    for argument, entry in zip(results, found, strict=True):
        if argument.role == IN_OUT and entries[argument.name] != entry:
            raise KernelValueError(
                f"{where}: in-out argument '{argument.name}' has '{' '.join(entries[argument.name])}' as an input and"
                f" '{' '.join(entry)}' as an output: expected the same",
                hint="write the same on both sides",
            )
        entries[argument.name] = entry
    return ShardingRule(text, tuple(entries.get(a.name, ()) for a in arguments))


def _entry(where: str, text: str) -> Entry:
    names = tuple(text.split())
    for name in names:
        if "..." in name or "(" in name or ")" in name:
            raise KernelValueError(
                f"{where}: '...' and '(i j)' are not supported; name one factor for each axis",
                hint='write a letter for each axis: "i j, j k -> i k"',
            )
        if not _NAME.fullmatch(name):
            raise KernelValueError(
                f"{where}: expected a name of letters and digits for each axis, got {name!r}",
                hint='write a letter for each axis: "i j -> i j"',
            )
        if names.count(name) > 1:
            raise KernelValueError(
                f"{where}: factor '{name}' stands twice in '{text.strip()}': axes of one array cannot be cut together",
                hint="give each axis of an array a name of its own",
            )
    return names


def fit_factors(
    rule: ShardingRule,
    arguments: Sequence[CallParameter],
    elements: Sequence[Element],
    shapes: Sequence[tuple[Dim, ...] | None],
) -> Factors:
    """The factor of each axis of each argument; None for those of components.

    Args:
        rule: from `parse_rule`.
        arguments: of the kernel.
        elements: their element types.
        shapes: their shapes with component axes; None for scalars known on the host.

    Raises:
        KernelValueError: naming the argument whose rank or extent does not fit.
    """
    factors: list[tuple[str | None, ...]] = []
    sizes: dict[str, tuple[Dim, CallParameter]] = {}
    for argument, element, shape, entry in zip(arguments, elements, shapes, rule.entries, strict=True):
        components = len(element_shape(element))
        if len(entry) not in (argument.ndim, argument.ndim + components):
            axes = "1 axis" if argument.ndim == 1 else f"{argument.ndim} axes"
            raise KernelValueError(
                f"{argument.where} has {axes}, but sharding_rule {rule.text!r} gives it '{' '.join(entry)}'",
                hint="name one factor for each axis, without those of components",
            )
        # Components of an element stay together.
        full = (*entry[: argument.ndim], *[None] * components)
        for name, extent in zip(entry, shape or (), strict=False):
            known, first = sizes.setdefault(name, (extent, argument))
            if known is not extent and known != extent:
                raise KernelValueError(
                    f"{argument.where}: factor '{name}' of sharding_rule {rule.text!r} has {extent} elements here, and"
                    f" {known} in '{first.name}'",
                    hint="give axes of different extents different names",
                )
        factors.append(full)
    return tuple(factors)


def require_splits(launch: LaunchSpec, rule: ShardingRule) -> None:
    """A factor that connects inputs with outputs is there to be cut.

    Raises:
        KernelValueError: it cannot, with the line of the kernel that is the reason.
    """
    holders: dict[Any, list[str]] = {}
    for role, axes in zip(launch.roles, launch.factors or (), strict=True):
        for factor in axes:
            holders.setdefault(factor, []).append(role)
    for name, outcome in launch.splits.items():
        roles = holders[name]
        connects = len(roles) > 1 and set(roles) not in ({INPUT}, {OUTPUT})
        if connects and not isinstance(outcome, Split):
            raise KernelValueError(
                f"kernel {launch.name}: sharding_rule {rule.text!r}: the launch cannot be cut along '{name}':"
                f" {outcome.reason}",
                outcome.loc,
                hint=f"give axes that are not to be cut names of their own, not '{name}' in several arguments; or"
                " launch it under jax.shard_map, and exchange what the shards need of each other",
            )
