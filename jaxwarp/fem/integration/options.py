"""The options of assembled matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.sparse.create import require_topology

_NAMES = ("prune_numerical_zeros", "topology", "capacity", "construction")
_CHOICES = {
    "capacity": ("auto", "reuse"),
    "construction": ("triplets", "auto", "row_compress", "mapped", "mapped_atomic"),
}


@dataclass(frozen=True)
class BlockOptions:
    """The choice of the blocks that a matrix keeps, as in `bsr_set_from_triplets`."""

    prunes: bool | None
    topology: str


def block_options(what: str, given: Any, has_output: bool) -> BlockOptions:
    """Read `bsr_options`.

    Raises:
        KernelTypeError, KernelValueError: there is no such option, or no matrix that has a topology to keep.
    """
    name = f"{what}: bsr_options"
    if given is not None and not isinstance(given, Mapping):
        raise KernelTypeError(f"{name}: expected a dictionary or None, got {type_text(given)}")
    options = dict(given or {})
    unknown = [str(key) for key in options if key not in _NAMES]
    if unknown:
        raise KernelValueError(f"{name}: expected {', '.join(_NAMES)}, got {', '.join(unknown)}")
    for key, choices in _CHOICES.items():
        if options.setdefault(key, choices[0]) not in choices:
            raise KernelValueError(f"{name}: {key}: expected one of {', '.join(choices)}, got {options[key]!r}")
    prunes = options.get("prune_numerical_zeros")
    if prunes is not None and not isinstance(prunes, bool):
        raise KernelTypeError(f"{name}: prune_numerical_zeros: expected a bool or None, got {prunes!r}")
    topology = require_topology(name, options.get("topology"))
    if topology != "compact" and not has_output:
        raise KernelValueError(
            f"{name}: topology: expected 'compact', as there is no matrix yet, got {topology!r}",
            hint="pass the matrix whose blocks or capacity stay",
        )
    if options["construction"].startswith("mapped"):
        if topology != "compact" or prunes:
            raise KernelValueError(
                f"{name}: construction: {options['construction']!r} needs topology='compact' and"
                " prune_numerical_zeros=False"
            )
        prunes = False
    return BlockOptions(prunes, topology)
