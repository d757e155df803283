"""The launches of a kernel whose threads work on copies of their own: see vjp/own_copies.py."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxwarp.ffi.derivatives.recording import report
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Load, Store, walk
from jaxwarp.launches.spec import INPUT, OUTPUT, LaunchSpec, intern_kernel, is_static
from jaxwarp.passes.pipeline import fix_rounding
from jaxwarp.vjp.own_copies import OwnCopies, OwnCopy, report_shared, with_own_copies

Bind = Callable[[LaunchSpec, Sequence[Any]], list[Any]]
Shape = tuple[Any, ...]

_CACHE = 512
# What each array adds to a launch: a copy and four marks.
_WORDS = 5
# Of an array. Kernels whose threads share by chance, as scatters do, have as many threads as the array has elements.
_MOST_COPIES = 128


@dataclasses.dataclass(frozen=True)
class CopiedLaunch:
    """A launch that does the same as another one, with copies for its threads.

    Attributes:
        launch: its first parameters are those of the other.
        entries: parameters of the other whose contents on entry are the operands after the other's, in this order.
        copies: what it makes besides.
    """

    launch: LaunchSpec
    entries: tuple[int, ...]
    copies: OwnCopies

    def factor(self, bind: Bind, source: LaunchSpec, results: Sequence[Any]) -> Any:
        """Return the factor of tangents: NaN if threads have shared elements so that their order matters, else 1."""
        found = dict(zip(self.launch.result_params, map(jax.lax.stop_gradient, results), strict=False))
        factor: Any = None
        first = len(source.roles)
        for copy in self.copies.copies:
            own, *marks = (found[first + n] for n in range(1, len(copy.params)))
            met = _have_met(copy, found[copy.index], own, dict(zip(copy.marks, marks, strict=True)))
            one = report(bind, source, _shared(source.kernel, copy.index), met)
            factor = one if factor is None else factor * one
            first += len(copy.params)
        return factor


def copied_launch(launch: LaunchSpec, shapes: Sequence[Shape], wanted: tuple[int, ...]) -> CopiedLaunch | None:
    """Return the launch with copies, or None if no threads may share what they read and store."""
    if launch.origin is not None or not _reads_what_it_stores(launch.kernel):
        return None
    known = tuple(tuple(int(n) if is_static(n) else None for n in shape) for shape in shapes)
    grid = tuple(int(n) if is_static(n) else None for n in launch.grid)
    found = _copies(launch.kernel, launch.fma, wanted, grid, known)
    if found is None:
        return None
    roles: list[str] = []
    results: list[Shape] = []
    before = (launch.debug and launch.debug.arrays) or tuple(f"array {p.name}" for p in launch.kernel.params)
    names, in_front = list(before), [0] * len(before)
    for copy in found.copies:
        shape = (*(launch.grid[axis] for axis in copy.axes), *shapes[copy.index])
        if not all(map(is_static, shape)) or math.prod(shape[: len(copy.axes)]) > _MOST_COPIES:
            return None  # whether threads meet is asked in another way (winners.py)
        roles += [INPUT, *[OUTPUT] * _WORDS]
        results += [shape] * _WORDS
        names += [before[copy.index]] * len(copy.params)
        in_front += [0, *[len(copy.axes)] * _WORDS]
    made = launch.replace(
        kernel=found.kernel,
        roles=(*launch.roles, *roles),
        results=(*launch.results, *results),
        factors=None,
        debug=launch.debug and launch.debug.for_derivative(tuple(names), tuple(in_front)),
    )
    return CopiedLaunch(made, tuple(copy.index for copy in found.copies), found)


def _have_met(copy: OwnCopy, left: Any, own: Any, marks: Mapping[str, Any]) -> Any:
    """Has a thread read what another one has stored, or have threads stored different values where one reads?"""
    axes = tuple(range(len(copy.axes)))
    written, before = marks["written"], marks["before"]
    pairs = before.sum(axes) * written.sum(axes)
    met = jnp.any(pairs != (before * written).sum(axes))
    is_other = (written != 0) & ((own != left) & ~((own != own) & (left != left)) | (marks["changed"] != 0))
    is_shared = (written.sum(axes) > 1) & (marks["after"].sum(axes) > 0)
    return met | jnp.any(is_shared & jnp.any(is_other, axes))


@functools.lru_cache(maxsize=_CACHE)
def _reads_what_it_stores(kernel: Kernel) -> bool:
    ops = list(walk(kernel.body))
    read = {op.param for op in ops if isinstance(op, Load)}
    return any(isinstance(op, Store) and op.param in read and op.param.dtype.is_float for op in ops)


@functools.lru_cache(maxsize=_CACHE)
def _copies(
    kernel: Kernel, fma: bool, wanted: tuple[int, ...], grid: Shape, shapes: tuple[Shape, ...]
) -> OwnCopies | None:
    kernel = fix_rounding(kernel, fma=fma)
    found = with_own_copies(kernel, wanted, grid, dict(zip(kernel.params, shapes, strict=True)))
    return found and dataclasses.replace(found, kernel=intern_kernel(found.kernel))


@functools.lru_cache(maxsize=_CACHE)
def _shared(kernel: Kernel, index: int) -> Kernel:
    return intern_kernel(report_shared(kernel, index))
