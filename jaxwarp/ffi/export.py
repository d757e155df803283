"""Facts about jaxwarp that `jax.export` needs to know."""

from __future__ import annotations

from jax.export import DisabledSafetyCheck

from jaxwarp.native.library import OPERATIONS, PROGRAM_TARGET, TARGET


def export_checks() -> list[DisabledSafetyCheck]:
    """The safety checks to disable when exporting a program that launches kernels.

    `jax.export` refuses custom calls it does not know, as it cannot promise that they keep their meaning. A launch
    carries its code; its format has a version, and an image that this version cannot read is refused when the program
    is run. The process that runs the program must have imported jaxwarp. An exported program carries machine code or
    LLVM bitcode: run only what you trust, as with any code.

    Examples:
        >>> exported = jax.export.export(jax.jit(f), disabled_checks=jaxwarp.export_checks())(x)
    """
    targets = (TARGET, PROGRAM_TARGET, *(f"jaxwarp_{name}" for name in OPERATIONS))
    return [DisabledSafetyCheck.custom_call(target) for target in targets]
