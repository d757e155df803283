"""A derivative kernel and what each of its parameters is."""

from __future__ import annotations

from dataclasses import dataclass

from jaxwarp.ir.nodes import Kernel


@dataclass(frozen=True)
class Slot:
    """One parameter of a derivative kernel.

    Attributes:
        kind: "primal" (the parameter itself), "final" (what the kernel leaves in it: the operand that equals this was
            selected by an atomic min or max), "tangent" or "cotangent" (its derivative, of the same shape, and dtype
            except that a cotangent that is only accumulated is float32 for half precision).
        index: which parameter of the differentiated kernel it belongs to.
        reads: the launch needs a value on entry.
        writes: the launch leaves a value that is a result (or scratch, for primals).
    """

    kind: str
    index: int
    reads: bool
    writes: bool


@dataclass(frozen=True)
class Derived:
    """A kernel made by `tangent` or `adjoint`; `slots` describes its parameters in order."""

    kernel: Kernel
    slots: tuple[Slot, ...]
