"""The passes that every kernel goes through, in order. `commands/stages.py` lists all stages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence

from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param
from jaxwarp.passes.contract_fma import contract_fma
from jaxwarp.passes.erase_rules import erase_rules
from jaxwarp.passes.simplify import simplify
from jaxwarp.passes.tells import without_failures, without_tests
from jaxwarp.passes.widen_half import widen_half

_CACHE = 512


FIX_ROUNDING: tuple[Callable[..., Kernel], ...] = (
    without_tests,
    simplify,
    contract_fma,  # what everything rounds to is decided
)
PREPARE: tuple[Callable[..., Kernel], ...] = (
    without_failures,  # assertions that nobody reads
    *FIX_ROUNDING,
    erase_rules,  # those written by hand have served
    widen_half,
    simplify,
)


@with_deep_stack
def fix_rounding(kernel: Kernel, *, fma: bool = True, beside: Collection[Param] | None = None) -> Kernel:
    """The kernel as derivatives are made of it: simplified, (with `fma`) contracted; so they round as it does.

    Args:
        kernel: the kernel.
        fma: whether products and sums are contracted.
        beside: in debug mode, to which parameters checks store: tests stay, and round nothing differently.
    """
    if beside is None:
        return _fixed(kernel, fma)
    return contract_fma(simplify(kernel), fma=fma, beside=beside)


@functools.lru_cache(maxsize=_CACHE)
def _fixed(kernel: Kernel, fma: bool) -> Kernel:
    """Once for a kernel: a gradient asks for it as the tangent, as the adjoint, and to find threads that meet."""
    return _through(FIX_ROUNDING, kernel, fma)


@with_deep_stack
def prepare(kernel: Kernel, *, fma: bool = True) -> Kernel:
    """The kernel as both backends compile it."""
    return _through(PREPARE, kernel, fma)


def _through(passes: Sequence[Callable[..., Kernel]], kernel: Kernel, fma: bool) -> Kernel:
    for run in passes:
        kernel = run(kernel, fma=fma) if run is contract_fma else run(kernel)
    return kernel


@functools.lru_cache(maxsize=_CACHE)
def prepared(kernel: Kernel, fma: bool) -> Kernel:
    """`prepare`, once for a kernel."""
    return prepare(kernel, fma=fma)
