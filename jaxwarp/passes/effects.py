"""What a kernel does to its arrays: which it reads, writes and accumulates into, and what can be proved about it.

    effects = analyze(kernel)
    effects[param].writes, effects[param].first_write     for checks against how the kernel is called
    effects.covers(param, grid, shape)                    may its buffer start uninitialised?
    effects.injective(op, grid)                           do different threads touch different elements?

Both proofs err on the safe side: False means "not proved".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxwarp.deep import roomy
from jaxwarp.errors import Loc
from jaxwarp.ir.nodes import Atomic, Block, For, Kernel, Load, Op, Param, Store, walk
from jaxwarp.passes import affine
from jaxwarp.passes.affine import Form, Forms

# Products of constant indices are enumerated; a store per element of a larger block is not code that people write.
_MAX_CONSTANT_ELEMENTS = 1 << 16


@dataclass
class Access:
    """Everything that a kernel does to one parameter, in program order."""

    loads: list[Load] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    atomics: list[Atomic] = field(default_factory=list)
    first_write: Loc | None = None

    @property
    def reads(self) -> bool:
        return bool(self.loads)

    @property
    def writes(self) -> bool:
        """By stores; atomics are `accumulates`."""
        return bool(self.stores)

    @property
    def accumulates(self) -> bool:
        return bool(self.atomics)

    @property
    def modifies(self) -> bool:
        return self.writes or self.accumulates


class Effects:
    """The result of `analyze`: a mapping from parameters to `Access`, and proofs about them."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.access: dict[Param, Access] = {p: Access() for p in (*kernel.params, *kernel.locals)}
        for op in walk(kernel.body):
            self._note(op)

    def _note(self, op: Op) -> None:
        match op:
            case Load():
                self.access[op.param].loads.append(op)
            case Store():
                access = self.access[op.param]
                access.first_write = access.first_write or (op.loc if not access.modifies else None)
                access.stores.append(op)
            case Atomic():
                access = self.access[op.param]
                access.first_write = access.first_write or (op.loc if not access.modifies else None)
                access.atomics.append(op)
            case _:
                pass

    def __getitem__(self, param: Param) -> Access:
        return self.access[param]

    def covers(self, param: Param, grid: Sequence[Any], shape: Sequence[Any]) -> bool:
        """Does nothing of the array's previous contents survive the launch, or show in it?

        True if every element is provably written by stores that every thread reaches, and the kernel neither loads
        from the array nor updates it atomically.

        Args:
            param: the array.
            grid: launch extents; an entry that is no integer is unknown, and equal only to an equal extent.
            shape: the array's extents, likewise.
        """
        access = self.access[param]
        if access.loads or access.atomics:
            return False
        if any(isinstance(n, int) and n == 0 for n in shape):
            return True
        if any(isinstance(n, int) and n == 0 for n in grid):
            return False
        forms = Forms(self.kernel, grid, {param: shape})
        written: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
        for store in _certain(self.kernel.body, forms):
            if store.param is param and (split := _split(store, forms, shape)):
                written.setdefault(split[0], set()).add(split[1])
        return any(_all_constants(axes, found, shape) for axes, found in written.items())

    def injective(self, op: Load | Store | Atomic, grid: Sequence[Any]) -> bool:
        """Do different threads provably touch different elements at `op`, whatever iterations they are in?"""
        forms = Forms(self.kernel, grid)
        wanted = {it for it in forms.grid if it.extent is None or it.extent > 1}
        pending = []
        for value in op.indices:
            form = forms[value]
            if form is not None and all(it.axis is not None for it in form.terms):
                pending.append(dict(form.terms))
        solved: set[affine.Iterator] = set()
        while progress := [terms for terms in pending if _tells_apart(terms, solved)]:
            for terms in progress:
                solved.update(terms)
            pending = [terms for terms in pending if not set(terms) <= solved]
        return wanted <= solved


@roomy
def analyze(kernel: Kernel) -> Effects:
    """Reads, writes and atomic updates of every parameter."""
    return Effects(kernel)


def _certain(block: Block, forms: Forms) -> Iterator[Store]:
    """Stores that every thread executes: at top level, or in loops that certainly run."""
    for op in block.ops:
        match op:
            case Store():
                yield op
            case For() if forms.trips.get(op, 0) > 0:
                yield from _certain(op.body, forms)
            case _:
                pass


def _split(store: Store, forms: Forms, shape: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Splits a store's axes: those swept by iterators (in full), and the constant indices on the others.

    None if some axis is neither, or an iterator sweeps two axes.
    """
    swept: list[int] = []
    constants: list[int] = []
    used: set[affine.Iterator] = set()
    for axis, (value, extent) in enumerate(zip(store.indices, shape, strict=True)):
        form = forms[value]
        if form is None:
            return None
        if not form.terms:
            constants.append(form.constant)
            continue
        if not used.isdisjoint(form.terms) or not _sweeps(form, extent):
            return None
        used.update(form.terms)
        swept.append(axis)
    # A grid axis of unknown extent that sweeps nothing may be empty, and then no thread runs.
    if any(it.extent is None and it not in used for it in forms.grid):
        return None
    return tuple(swept), tuple(constants)


def _sweeps(form: Form, extent: Any) -> bool:
    """Does the form take every value of 0 ... extent - 1 (and no other) as its iterators run?

    It does when the coefficients are those of a mixed radix: 1, n0, n0 * n1, ... with the extents n in that order.
    """
    if not isinstance(extent, int):
        ((it, coefficient), *more) = form.terms.items()
        same = extent is not None and it.extent is None and it.symbol == extent
        return same and not more and coefficient == 1 and form.constant == 0
    radix = 1
    for it, coefficient in sorted(form.terms.items(), key=lambda term: abs(term[1])):
        if it.extent is None or abs(coefficient) != radix:
            return False
        radix *= it.extent
    return radix == extent and form.range()[0] == 0


def _all_constants(swept: Iterable[int], found: set[tuple[int, ...]], shape: Sequence[Any]) -> bool:
    extents = [n for axis, n in enumerate(shape) if axis not in set(swept)]
    if not all(isinstance(n, int) for n in extents) or math.prod(extents) > _MAX_CONSTANT_ELEMENTS:
        return False
    inside = {c for c in found if all(0 <= i < n for i, n in zip(c, extents, strict=True))}
    return len(inside) == math.prod(extents)


def _tells_apart(terms: Mapping[affine.Iterator, int], solved: set[affine.Iterator]) -> bool:
    """Given the solved iterators, does the sum of the others determine each of them?

    It does when each coefficient exceeds all that the smaller ones can add up to.
    """
    reach = 0
    for it, coefficient in sorted(terms.items(), key=lambda term: abs(term[1])):
        if it in solved:
            continue
        if abs(coefficient) <= reach:
            return False
        reach += abs(coefficient) * it.last
    return True
