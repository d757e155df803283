"""A derivative kernel and what each of its parameters is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Load, Param, Size, Store, walk
from jaxwarp.passes.simplify import simplify
from jaxwarp.vjp.reverse.residuals import ResidualLaunch
from jaxwarp.vjp.unread import without_unread


@dataclass(frozen=True)
class Slot:
    """One parameter of a derivative kernel.

    Attributes:
        kind: "primal" (the parameter itself), "final" (what the kernel leaves in it), "tangent" or "cotangent" (its
            derivative, of the same shape, and dtype except that a cotangent that is only accumulated is float32 for
            half precision), "residual" (what loads of it have seen, in the order of the residual launch's).
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
    """A kernel made by `tangent` or `adjoint`; `slots` describes its parameters in order.

    Attributes:
        residual_launch: what has to be launched first, for the slots that are residuals.
    """

    kernel: Kernel
    slots: tuple[Slot, ...]
    residual_launch: ResidualLaunch | None = None


def without_idle(derived: Derived, kinds: Collection[str], others: Collection[int] = ()) -> Derived:
    """Simplified, and without the parameters of these kinds that turn out not to be used.

    Cotangents that nothing is added to go too: they are zero. Of some primals only the extents are needed: those are no
    longer said to be read. `others` are those that are kept in any case.
    """
    kernel = simplify(derived.kernel)
    accessed = {op.param for op in walk(kernel.body) if isinstance(op, (Load, Store, Atomic))}
    used = accessed | {op.param for op in walk(kernel.body) if isinstance(op, Size)}
    kept = [
        (p, replace(s, reads=p in accessed) if s.kind == "primal" else s)
        for p, s in zip(kernel.params, derived.slots, strict=True)
        if p in used or not _is_idle(s, kinds, others)
    ]
    params, slots = tuple(p for p, _ in kept), tuple(s for _, s in kept)
    made = Kernel(kernel.name, kernel.grid_rank, params, kernel.body, kernel.locals)
    return Derived(made, slots, derived.residual_launch)


def _is_idle(slot: Slot, kinds: Collection[str], others: Collection[int]) -> bool:
    """Return whether a slot can be removed if its parameter is not used."""
    if slot.kind == "cotangent":
        return not slot.reads
    return slot.kind in kinds and not (slot.kind == "primal" and slot.index in others)


def marking(
    kernel: Kernel, finals: Sequence[int], marks: Mapping[int, Param] | Sequence[tuple[int, Param]]
) -> Derived:
    """Reduce a kernel to what it does to the marks: it no longer writes other arrays that it does not read."""
    pairs = list(marks.items()) if isinstance(marks, Mapping) else list(marks)
    own = len(kernel.params) - len(finals)
    kernel = without_unread(replace(kernel, params=(*kernel.params, *(p for _, p in pairs))), [p for _, p in pairs])
    written = {op.param for op in walk(kernel.body) if isinstance(op, Store | Atomic)}
    slots = [Slot("primal", i, True, p in written) for i, p in enumerate(kernel.params[:own])]
    slots += [Slot("final", i, True, False) for i in finals]
    slots += [Slot("winner", i, False, True) for i, _ in pairs]
    return without_idle(Derived(kernel, tuple(slots)), ("primal", "final"))
