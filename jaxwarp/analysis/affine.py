"""The values that are affine in the launch: v = constant + sum of coefficient * iterator, as whole numbers.

An iterator is a grid axis (0 <= i < extent) or a `For` loop of constant bounds (0 <= k < trip count; the index is
start + step * k). A form is kept only if every step of its computation provably fits its integer type: arithmetic
wraps, and a form that may wrap is no form.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.ir.interpret import trip_counts
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Call, Const, For, Op, Param, Size, Tid, Value
from jaxwarp.types import Scalar

_MAX_EXTENT = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Iterator:
    """Counts 0, 1, ..., extent - 1. `extent` is None where it is not known; `axis` is None for loops."""

    extent: int | None
    axis: int | None = None
    symbol: Any = None  # the grid extent as given, for comparison with the extent of an array

    @property
    def last(self) -> int:
        return (self.extent if self.extent is not None else _MAX_EXTENT) - 1


@dataclass(frozen=True, eq=False)
class Form:
    """constant + sum of coefficient * iterator; no coefficient is zero."""

    constant: int
    terms: Mapping[Iterator, int]

    def range(self) -> tuple[int, int]:
        ends = [(c * it.last if c < 0 else 0, c * it.last if c > 0 else 0) for it, c in self.terms.items()]
        return self.constant + sum(low for low, _ in ends), self.constant + sum(high for _, high in ends)

    def fits(self, dtype: Scalar) -> bool:
        low, high = self.range()
        limits = np.iinfo(dtype.numpy)
        return limits.min <= low and high <= limits.max

    def plus(self, other: Form, factor: int = 1) -> Form:
        terms = dict(self.terms)
        for it, c in other.terms.items():
            terms[it] = terms.get(it, 0) + factor * c
        return Form(self.constant + factor * other.constant, {it: c for it, c in terms.items() if c})

    def times(self, factor: int) -> Form:
        return Form(0, {}).plus(self, factor)


class Forms:
    """The affine forms of a kernel's integer values on one grid.

    Args:
        kernel: the kernel.
        grid: launch extents; an entry that is no integer (a symbolic dimension, None) is an unknown extent.
        shapes: extents of parameters, where known; the static ones are known anyway.
    """

    def __init__(self, kernel: Kernel, grid: Sequence[Any], shapes: Mapping[Param, Sequence[Any]] | None = None):
        self.grid = [_grid_iterator(axis, extent) for axis, extent in enumerate(grid)]
        self.shapes = shapes or {}
        self.forms: dict[Value, Form] = {}
        self.trips: dict[For, int] = {}
        self._block(kernel.body)

    def __getitem__(self, value: Value) -> Form | None:
        return self.forms.get(value)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            form = self._form(op)
            if form is not None and form.fits(op.defined[0].type):
                self.forms[op.defined[0]] = form
            if isinstance(op, For):
                self._loop(op)
            for inner in op.blocks:
                self._block(inner)

    def _loop(self, op: For) -> None:
        bounds = [self.forms.get(v) for v in (op.start, op.stop, op.step)]
        start, stop, step = (f.constant if f is not None and not f.terms else None for f in bounds)
        if start is None or stop is None or step is None:
            return
        dtype = op.start.type.numpy
        count = int(trip_counts(*(np.full(1, v, dtype) for v in (start, stop, step)))[0])
        self.trips[op] = count
        if count:
            terms = {Iterator(count): step} if count > 1 else {}
            self.forms[op.body.params[0]] = Form(start, terms)

    def _form(self, op: Op) -> Form | None:
        match op:
            case Const() if op.result.type.is_int:
                return Form(int(op.value), {})
            case Tid():
                it = self.grid[op.axis]
                return Form(0, {}) if it.extent == 1 else Form(0, {it: 1})
            case Size():
                extent = self.shapes.get(op.param, op.param.shape)[op.axis]
                return Form(extent, {}) if isinstance(extent, int) else None
            case Call() if op.result.type.is_int:
                args = [self.forms.get(v) for v in op.args]
                if any(a is None for a in args):
                    return None
                return _call(op.builtin.name, *args)
            case _:
                return None


# Several analyses of one launch come one after the other.
_KEPT = 8


def forms_of(kernel: Kernel, grid: Sequence[Any], shapes: Mapping[Param, Sequence[Any]] | None = None) -> Forms:
    """Return the affine forms of a kernel's integer values, see `Forms`; nobody changes them."""
    return _kept(kernel, tuple(grid), tuple((param, tuple(shape)) for param, shape in (shapes or {}).items()))


@functools.lru_cache(maxsize=_KEPT)
def _kept(kernel: Kernel, grid: tuple[Any, ...], shapes: tuple[tuple[Param, tuple[Any, ...]], ...]) -> Forms:
    return Forms(kernel, grid, dict(shapes))


def _call(name: str, *args: Any) -> Form | None:
    match name, args:
        case "add", (a, b):
            return a.plus(b)
        case "sub", (a, b):
            return a.plus(b, -1)
        case "neg", (a,):
            return a.times(-1)
        case "mul", (a, b):
            if a.terms and b.terms:
                return None
            return b.times(a.constant) if not a.terms else a.times(b.constant)
        case "cast", (a,):
            return a
        case _:
            return None


def _grid_iterator(axis: int, extent: Any) -> Iterator:
    known = isinstance(extent, (int, np.integer))
    return Iterator(int(extent) if known else None, axis, extent)
