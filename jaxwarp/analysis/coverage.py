"""The stores that a launch certainly executes, and whether they reach every element of an array.

The certain stores are those at top level, in loops that certainly run, in branches that every thread takes, and those
that both branches of an `if` make to one element. A guard

    if i < n and j < m:  c[i, j] = ...          if i >= n: return
                                                c[i] = ...

whose bounds are known for the launch selects a box of threads: those with indices below the bounds. All of them execute
the store, so it counts as a store in a launch of the box's size. Guards of another form prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.analysis import affine
from jaxwarp.analysis.affine import Form, Forms, forms_of
from jaxwarp.analysis.integers.conditions import comparison, conjuncts
from jaxwarp.analysis.thread_values import Shapes, ThreadValues
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Const, For, If, Param, Size, Store, Value, walk
from jaxwarp.unlocked import cached_property

# Products of constant indices are enumerated; a store per element of a larger block is not code that people write.
_MAX_CONSTANT_ELEMENTS = 1 << 16

# What stands for an iterator of which only the first so many values occur.
Limits = Mapping[affine.Iterator, affine.Iterator]


@dataclass(frozen=True)
class _Certain:
    """A store that every thread within the limits executes."""

    store: Store
    limits: Limits


class Coverage:
    """The certain stores of a launch that is not empty.

    Args:
        kernel: the kernel.
        grid: launch extents; an entry that is no integer is unknown.
        shapes: extents of arrays, likewise.
    """

    def __init__(self, kernel: Kernel, grid: Sequence[Any], shapes: Shapes):
        self._kernel, self._forms = kernel, forms_of(kernel, grid, shapes)
        self._certain: dict[Param, list[_Certain]] = {}
        for certain in _Walker(kernel, self._forms).block(kernel.body, {}):
            self._certain.setdefault(certain.store.param, []).append(certain)

    @cached_property
    def _values(self) -> ThreadValues:
        return ThreadValues(self._kernel, [it.symbol for it in self._forms.grid], self._forms.shapes)

    def covers(self, param: Param, shape: Sequence[Any]) -> bool:
        """Do the certain stores reach every element of an array?"""
        written: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
        for certain in self._certain.get(param, ()):
            if split := _split(certain, self._forms, self._values, shape):
                written.setdefault(split[0], set()).add(split[1])
        return any(_all_offsets(strides, found, shape) for strides, found in written.items())


class _Walker:
    def __init__(self, kernel: Kernel, forms: Forms):
        self.forms = forms
        self.definition = {value: op for op in walk(kernel.body) for value in op.defined}

    def block(self, block: Block, limits: Limits) -> Iterator[_Certain]:
        for op in block.ops:
            match op:
                case Store():
                    yield _Certain(op, limits)
                case For() if self.forms.trips.get(op, 0) > 0:
                    yield from self.block(op.body, limits)
                case If():
                    yield from self.branches(op, limits)
                case _:
                    pass

    def branches(self, op: If, limits: Limits) -> Iterator[_Certain]:
        then, orelse = list(self.block(op.then, limits)), list(self.block(op.orelse, limits))
        for stores, truth in ((then, True), (orelse, False)):
            within = self.within(op.condition, truth, limits) if stores else None
            if within is not None:
                yield from (_Certain(certain.store, _both(within, certain.limits)) for certain in stores)
        # Whichever branch a thread takes, it stores there.
        other = {self.place(certain) for certain in orelse}
        yield from (certain for certain in then if self.place(certain) in other)

    def place(self, certain: _Certain) -> tuple[Any, ...]:
        """Equal for stores to the same element by the same threads."""
        limits = frozenset((it, limited.extent) for it, limited in certain.limits.items())
        forms = [self.forms[index] for index in certain.store.indices]
        indices = [index if form is None else (form.constant, frozenset(form.terms.items()))
                   for index, form in zip(certain.store.indices, forms, strict=True)]  # fmt: skip
        return certain.store.param, tuple(indices), limits

    def within(self, condition: Value, truth: bool, limits: Limits) -> Limits | None:
        """The limits of the threads for which a condition is `truth`; None if there are none, or it is not known."""
        found: Limits | None = limits
        for value, holds in conjuncts(condition, truth, self.definition):
            found = None if found is None else self.where(value, holds, found)
        return found

    def where(self, condition: Value, truth: bool, limits: Limits) -> Limits | None:
        made = self.definition.get(condition)
        if isinstance(made, Const):
            return limits if bool(made.value) == truth else None
        name, a, b = comparison(condition, truth, self.definition) or ("", condition, condition)
        if name in ("lt", "le"):
            return self.below(a, b, name == "lt", limits)
        return self.below(b, a, name == "gt", limits) if name in ("gt", "ge") else None

    def below(self, low: Value, high: Value, strict: bool, limits: Limits) -> Limits | None:
        """The limits where low < high (low <= high if not strict)."""
        a, b = self.forms[low], self.forms[high]
        if a is not None and b is not None:
            # Forms are whole numbers, so that nothing wraps in the difference.
            return _where_negative(limited(a.plus(b, -1).plus(Form(0 if strict else -1, {})), limits), limits)
        return limits if a is not None and self.is_below_extent(a, high) else None

    def is_below_extent(self, form: Form, high: Value) -> bool:
        """Return whether the form is at most a thread index on a grid axis whose extent is symbolic and is `high`."""
        size = self.definition.get(high)
        if not isinstance(size, Size) or form.constant > 0 or len(form.terms) != 1:
            return False
        ((it, coefficient),) = form.terms.items()
        extent = self.forms.shapes.get(size.param, size.param.shape)[size.axis]
        return coefficient == 1 and it.extent is None and extent is not None and it.symbol == extent


def _both(first: Limits, second: Limits) -> Limits:
    limits = dict(first)
    for it, limit in second.items():
        if it not in limits or (limit.extent or 0) < (limits[it].extent or 0):
            limits[it] = limit
    return limits


def _where_negative(form: Form, limits: Limits) -> Limits | None:
    """The limits within which a form is negative, if that is a matter of limits: coefficient * it + constant < 0."""
    least, most = form.range()
    if most < 0:
        return limits
    if least >= 0 or len(form.terms) != 1:
        return None
    ((it, coefficient),) = form.terms.items()
    if coefficient < 0 or it.extent is None:
        return None
    count = -(form.constant // coefficient)
    original = next((old for old, new in limits.items() if new is it), it)
    return {**limits, original: affine.Iterator(min(count, it.extent), it.axis)}


def limited(form: Form, limits: Limits) -> Form:
    """The form with limited iterators in place of those they stand for."""
    return Form(form.constant, {limits.get(it, it): c for it, c in form.terms.items()})


def _split(
    certain: _Certain, forms: Forms, values: ThreadValues, shape: Sequence[Any]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """A store by what it does on each axis: the strides of those that iterators sweep, and where it begins.

    (1, 0) is an axis swept in full, (2, 1) its odd elements, (0, 5) the element 5. None if some axis is none of these,
    or an iterator sweeps two axes.
    """
    strides: list[int] = []
    offsets: list[int] = []
    used: set[affine.Iterator] = set()
    for value, extent in zip(certain.store.indices, shape, strict=True):
        form = forms[value]
        if form is None:
            iterators, stride, offset = _sweep(value, certain.limits, forms, values, extent)
        else:
            form = limited(form, certain.limits)
            iterators, stride, offset = set(form.terms), _stride(form, extent), form.range()[0]
        if stride is None or not used.isdisjoint(iterators):
            return None
        used |= iterators
        strides.append(stride)
        offsets.append(offset)
    # A grid axis of unknown extent that sweeps nothing may be empty, and then no thread runs.
    if any(it.extent is None and it not in used for it in forms.grid):
        return None
    return tuple(strides), tuple(offsets)


def _sweep(
    value: Value, limits: Limits, forms: Forms, values: ThreadValues, extent: Any
) -> tuple[set[affine.Iterator], int | None, int]:
    """An index that is no sum, by its values for all threads: does it take every value along one axis of the grid?

    x - 1 if x > 0 else n - 1, (x + 1) % n
    """
    found = values.of(value)
    if found is None or not isinstance(extent, int):
        return set(), None, 0
    axes = [axis for axis, count in enumerate(found.shape) if count > 1]
    if len(axes) != 1:
        return set(), None if axes else 0, int(found.flat[0])
    it = forms.grid[axes[0]]
    line = found.ravel()[: limits.get(it, it).extent].astype(np.int64)
    seen = np.zeros(extent, bool)
    seen[line[(line >= 0) & (line < extent)]] = True
    return {limits.get(it, it)}, 1 if seen.all() else None, 0


def _stride(form: Form, extent: Any) -> int | None:
    """Does the form take every s-th value of 0 ... extent - 1 from its least one, below s, on? 0 if it is a constant.

    It does when the coefficients are those of a mixed radix: s, s * n0, s * n0 * n1, ... with the extents n in that
    order, and the last is the extent.
    """
    if not form.terms:
        return 0
    if not isinstance(extent, int):
        ((it, coefficient), *more) = form.terms.items()
        same = extent is not None and it.extent is None and it.symbol == extent
        return 1 if same and not more and coefficient == 1 and form.constant == 0 else None
    stride = min(abs(coefficient) for coefficient in form.terms.values())
    radix = stride
    for it, coefficient in sorted(form.terms.items(), key=lambda term: abs(term[1])):
        if it.extent is None or abs(coefficient) != radix:
            return None
        radix *= it.extent
    return stride if radix == extent and 0 <= form.range()[0] < stride else None


def _all_offsets(strides: Sequence[int], found: set[tuple[int, ...]], shape: Sequence[Any]) -> bool:
    """Do stores of these strides begin everywhere that they have to?"""
    extents = [stride or n for stride, n in zip(strides, shape, strict=True)]
    if not all(isinstance(n, int) for n in extents) or math.prod(extents) > _MAX_CONSTANT_ELEMENTS:
        return False
    inside = {c for c in found if all(0 <= i < n for i, n in zip(c, extents, strict=True))}
    return len(inside) == math.prod(extents)
