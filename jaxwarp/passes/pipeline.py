"""From Python text to machine code: every step, in order, and the functions that take a kernel along.

text            frontend.text.read_source       found, proved to be the function's, its constants kept
                frontend.text.signature         the parameters
IR              frontend.lower                  for the types of one call; inlines functions, unrolls; verified
launch          passes.flatten, passes.batch    two axes as one; one axis more for vmap
                ffi: analysis.shardable         how it may be cut between devices
fix_rounding    passes.simplify
                passes.contract_fma             what everything rounds to is decided
derivative      vjp.forward, vjp.reverse        of that, so that it rounds alike; its kernel starts at `launch`
checks          passes.checks.checked           assertions; in debug mode, tests before what can fail; its kernel too
prepare         passes.tells.without_failures   assertions that nobody reads
                fix_rounding
                passes.erase_rules              rules written by hand have served
                passes.widen_half
                passes.simplify
launch on GPUs  passes.extents                  what is known of it is constants
                passes.gathered                 sums around a thread without atomics
machine code    analysis.collisions             which threads follow one another
                codegen.cpu, codegen.cuda       text; LLVM or NVRTC
"""

from __future__ import annotations

import functools

from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.contract_fma import contract_fma
from jaxwarp.passes.erase_rules import erase_rules
from jaxwarp.passes.simplify import simplify
from jaxwarp.passes.tells import without_failures
from jaxwarp.passes.widen_half import widen_half

_CACHE = 512


@with_deep_stack
def fix_rounding(kernel: Kernel, *, fma: bool = True) -> Kernel:
    """The kernel as derivatives are made of it: simplified, (with `fma`) contracted; so they round as it does."""
    kernel = simplify(kernel)
    return contract_fma(kernel, fma=fma)


@with_deep_stack
def prepare(kernel: Kernel, *, fma: bool = True) -> Kernel:
    """The kernel as both backends compile it."""
    kernel = fix_rounding(without_failures(kernel), fma=fma)
    kernel = erase_rules(kernel)
    kernel = widen_half(kernel)
    return simplify(kernel)


@functools.lru_cache(maxsize=_CACHE)
def prepared(kernel: Kernel, fma: bool) -> Kernel:
    """`prepare`, once for a kernel."""
    return prepare(kernel, fma=fma)
