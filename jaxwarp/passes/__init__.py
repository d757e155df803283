"""Passes: functions from kernels to kernels, one file each. `prepare` is what every backend compiles."""

from __future__ import annotations

from jaxwarp.deep import roomy
from jaxwarp.ir.nodes import Kernel
from jaxwarp.passes.contract_fma import contract_fma
from jaxwarp.passes.erase_rules import erase_rules
from jaxwarp.passes.simplify import simplify
from jaxwarp.passes.widen_half import widen_half


@roomy
def prepare(kernel: Kernel, *, fma: bool = True) -> Kernel:
    """The kernel as backends compile it: simplified, half precision widened, and (with `fma`) products contracted."""
    kernel = widen_half(simplify(erase_rules(kernel)))
    if fma:
        kernel = contract_fma(kernel)
    return simplify(kernel)
