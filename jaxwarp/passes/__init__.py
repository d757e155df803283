"""Passes: functions from kernels to kernels, one file each. `prepare` is what every backend compiles."""

from __future__ import annotations

from jaxwarp.deep import roomy
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.contract_fma import contract_fma
from jaxwarp.passes.erase_rules import erase_rules
from jaxwarp.passes.simplify import simplify
from jaxwarp.passes.widen_half import widen_half


@roomy
def settle(kernel: Kernel, *, fma: bool = True) -> Kernel:
    """The kernel as derivatives are made of it: simplified, (with `fma`) contracted; so they round as it does."""
    return contract_fma(simplify(kernel), fma=fma)


@roomy
def prepare(kernel: Kernel, *, fma: bool = True) -> Kernel:
    """The kernel as backends compile it: settled, without rules, half precision widened."""
    return simplify(widen_half(erase_rules(settle(kernel, fma=fma))))
