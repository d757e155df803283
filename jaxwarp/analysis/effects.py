"""The effects of a kernel on its arrays: which it reads, writes and accumulates into, and what can be proved about it.

    effects = analyze(kernel)
    effects[param].writes, effects[param].first_write     for checks against how the kernel is called
    effects.covers(param, grid, shape)                    may its buffer start uninitialised?
    effects.injective(op, grid)                           do different threads touch different elements?

Both proofs err on the safe side: False means "not proved".
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxwarp.analysis import affine
from jaxwarp.analysis.affine import Forms, forms_of
from jaxwarp.analysis.coverage import Coverage
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import Loc
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Load, Param, Store, walk


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
        """True if the kernel stores to the array; atomics count as `accumulates`."""
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
        self.access = _accesses(kernel)
        self._coverage: tuple[Any, Coverage] | None = None  # of the launch that was last asked about

    def __getitem__(self, param: Param) -> Access:
        return self.access[param]

    @with_deep_stack
    def covers(
        self,
        param: Param,
        grid: Sequence[Any],
        shape: Sequence[Any],
        others: Mapping[Param, Sequence[Any]] | None = None,
    ) -> bool:
        """Does nothing of the array's previous contents survive the launch, or show in it?

        True if every element is provably written (see coverage.py), and the kernel neither loads from the array nor
        updates it atomically.

        Args:
            param: the array.
            grid: launch extents; an entry that is no integer is unknown, and equal only to an equal extent.
            shape: the array's extents, likewise.
            others: extents of other arrays, likewise, where they are known.
        """
        access = self.access[param]
        if access.loads or access.atomics:
            return False
        if any(isinstance(n, int) and n == 0 for n in shape):
            return True
        if any(isinstance(n, int) and n == 0 for n in grid):
            return False
        shapes = {**(others or {}), param: shape}
        if (named := _named(grid, shapes)) is not None and _is_covered_alike(self.kernel, param, *named):
            return True
        # Questions about the arrays of one launch come one after the other.
        key = tuple(grid), tuple((p, tuple(s)) for p, s in shapes.items())
        last = self._coverage
        if last is None or last[0] != key:
            self._coverage = last = key, Coverage(self.kernel, grid, shapes)
        return last[1].covers(param, shape)

    def injective(self, op: Load | Store | Atomic, grid: Sequence[Any]) -> bool:
        """Do different threads provably touch different elements at `op`, whatever iterations they are in?"""
        forms = forms_of(self.kernel, grid)
        axes: list[tuple[Mapping[affine.Iterator, int], int]] = []
        for value in op.indices:
            form = forms[value]
            if form is not None and all(it.axis is not None for it in form.terms):
                axes.append((form.terms, 0))
        return tell_apart(forms, axes)


def _named(grid: Sequence[Any], shapes: Mapping[Param, Sequence[Any]]) -> tuple[Any, Any] | None:
    """Return the extents with names in place of numbers, equal ones for equal numbers: what is proved of these holds
    for all extents that are equal in the same places. One, and what a type fixes, stay numbers. None: not all extents
    are numbers."""
    if not all(type(n) is int for extents in (grid, *shapes.values()) for n in extents):
        return None
    names: dict[int, str] = {}

    def name(n: int) -> int | str:
        return n if n == 1 else names.setdefault(n, f"n{len(names)}")

    kept = [(p, shape) for p, shape in shapes.items() if len(shape) == p.rank]
    return tuple(map(name, grid)), tuple(
        (p, tuple(name(n) if fixed is None else n for n, fixed in zip(shape, p.shape, strict=True)))
        for p, shape in kept
    )


@functools.lru_cache(maxsize=2048)
def _is_covered_alike(kernel: Kernel, param: Param, grid: tuple[Any, ...], shapes: tuple[Any, ...]) -> bool:
    """Return whether the kernel provably writes every element, with what is known of extents by their names."""
    known = dict(shapes)
    return param in known and _coverage(kernel, grid, shapes).covers(param, known[param])


@functools.lru_cache(maxsize=8)  # questions about the arrays of one launch come one after the other
def _coverage(kernel: Kernel, grid: tuple[Any, ...], shapes: tuple[Any, ...]) -> Coverage:
    return Coverage(kernel, grid, dict(shapes))


def _accesses(kernel: Kernel) -> Mapping[Param, Access]:
    """Found once for a kernel, and kept with it."""
    kept: dict[str, Any] = vars(kernel)
    found: dict[Param, Access] | None = kept.get("_accesses")
    if found is None:
        found = {p: Access() for p in (*kernel.params, *kernel.locals)}
        for op in walk(kernel.body):
            if isinstance(op, Load):
                found[op.param].loads.append(op)
            elif isinstance(op, (Store, Atomic)):
                access = found[op.param]
                access.first_write = access.first_write or (op.loc if not access.modifies else None)
                if isinstance(op, Store):
                    access.stores.append(op)
                else:
                    access.atomics.append(op)
        kept["_accesses"] = found
    return found


def tell_apart(forms: Forms, axes: Sequence[tuple[Mapping[affine.Iterator, int], int]]) -> bool:
    """Do indices tell the threads of a launch apart?

    Each is a sum of grid iterators with coefficients, and of something else that varies by so much at most.
    """
    return told_apart(axes).issuperset(it for it in forms.grid if it.extent is None or it.extent > 1)


def told_apart(axes: Sequence[tuple[Mapping[affine.Iterator, int], int]]) -> set[affine.Iterator]:
    """The iterators on which threads agree that share an element of such indices."""
    solved: set[affine.Iterator] = set()
    pending = list(axes)
    while progress := [terms for terms, spread in pending if _tells_apart(terms, solved, spread)]:
        for terms in progress:
            solved.update(terms)
        pending = [axis for axis in pending if not set(axis[0]) <= solved]
    return solved


@with_deep_stack
def analyze(kernel: Kernel) -> Effects:
    """Reads, writes and atomic updates of every parameter."""
    return Effects(kernel)


def _tells_apart(terms: Mapping[affine.Iterator, int], solved: set[affine.Iterator], spread: int) -> bool:
    """Given the solved iterators, does the sum of the others determine each of them?

    It does when each coefficient exceeds all that the smaller ones, and what else there is, can add up to.
    """
    reach = spread
    for it, coefficient in sorted(terms.items(), key=lambda term: abs(term[1])):
        if it in solved:
            continue
        if abs(coefficient) <= reach:
            return False
        reach += abs(coefficient) * it.last
    return True
