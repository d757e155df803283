"""May a launch be cut along a factor? The proof behind `sharding_rule`.

A factor names array axes and the grid axis that runs along them. The launch cut along it is one launch per shard, with
the shard's part of those array axes and of that grid axis. Together they do what the whole launch does if a thread
uses its index t along the factor only where it does not matter which shard it is in:

    x[..., t, ...]                        on an axis of the factor: the same element, counted from the shard's first
    t < x.shape[a], and its likes         true in the whole and in every part
    atomic_add(total, k, ...)             on an array without the factor: partial sums, which are added up afterwards

Everything else (x[t + 1], float(t), x.shape[a] as a number) makes the answer no, with the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxwarp.analysis.affine import Form, Forms
from jaxwarp.analysis.effects import Effects
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import Loc
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Load, Op, Param, Size, Store, Tid, Value, walk

Factors = tuple[tuple[str | None, ...], ...]
"""For each parameter, the factor of each of its axes."""

_REDUCED = ("add", "min", "max")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


@dataclass(frozen=True)
class Split:
    """The way in which a launch is cut along a factor.

    Attributes:
        axis: the grid axis that is cut.
        reduced: parameters of which every shard has a partial result, and the kind of atomic that combines them.
    """

    axis: int
    reduced: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Whole:
    """Why a launch is not cut along a factor."""

    reason: str
    loc: Loc | None = None


@with_deep_stack
def find_splits(kernel: Kernel, factors: Factors) -> dict[str, Split | Whole]:
    """Return the split along each factor, or why there is none. Pass a simplified kernel: more of it can be proved."""
    analysis = _Analysis(kernel, factors)
    return {f: analysis.split(f) for f in dict.fromkeys(f for axes in factors for f in axes if f is not None)}


class _Analysis:
    def __init__(self, kernel: Kernel, factors: Factors):
        self.kernel = kernel
        self.factors = dict(zip(kernel.params, factors, strict=True))
        # Nothing may be proved from the extents of the whole grid: a shard's are others.
        self.forms = Forms(kernel, [None] * kernel.grid_rank)
        self.effects = Effects(kernel)
        self.used = {v for op in walk(kernel.body) for v in (*op.operands, *(r for b in op.blocks for r in b.results))}

    def split(self, factor: str) -> Split | Whole:
        axes = sorted({axis for op in walk(self.kernel.body) for axis in self._runs_along(op, factor)})
        if not axes:
            return Whole("no axis of the launch runs along it")
        outcomes = [_Check(self, factor, axis).outcome() for axis in axes]
        return next((o for o in outcomes if isinstance(o, Split)), outcomes[0])

    def _runs_along(self, op: Op, factor: str) -> list[int]:
        """The grid axes whose index is the index of an array along the factor."""
        if not isinstance(op, Load | Store | Atomic) or op.param not in self.factors:
            return []
        found = [self.thread_axis(v) for v, f in zip(op.indices, self.factors[op.param], strict=True) if f == factor]
        return [axis for axis in found if axis is not None]

    def thread_axis(self, value: Value) -> int | None:
        """The grid axis whose thread index the value is."""
        form = self.forms[value]
        if form is None or form.constant != 0 or len(form.terms) != 1:
            return None
        ((iterator, coefficient),) = form.terms.items()
        return iterator.axis if coefficient == 1 else None


class _RefusedError(Exception):
    def __init__(self, reason: str, loc: Loc | None):
        super().__init__(reason)
        self.whole = Whole(reason, loc)


class _Check:
    """Follows what depends on the thread index along one grid axis, and on extents along the factor."""

    def __init__(self, analysis: _Analysis, factor: str, axis: int):
        self.analysis, self.factor, self.axis = analysis, factor, axis
        self.local: set[Value] = set()
        self.sizes: set[Value] = set()
        self.reduced: dict[Param, str] = {}

    def outcome(self) -> Split | Whole:
        try:
            self._block(self.analysis.kernel.body)
        except _RefusedError as refused:
            return refused.whole
        params = self.analysis.kernel.params
        return Split(self.axis, {params.index(p): kind for p, kind in self.reduced.items()})

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)
            for inner in op.blocks:
                self._block(inner)
                self._require_common(inner.results, op.loc)

    def _op(self, op: Op) -> None:
        match op:
            case Tid():
                if op.axis == self.axis:
                    self.local.add(op.result)
            case Size():
                if self._axis_factors(op.param)[op.axis] == self.factor:
                    self.local.add(op.result)
                    self.sizes.add(op.result)
            case Call():
                if not self.local.isdisjoint(op.args) and not self._is_decided(op):
                    self.local.add(op.result)
            case Load():
                self._access(op.param, op.indices, op.loc)
            case Store():
                self._access(op.param, op.indices, op.loc)
                self._require_common((op.value,), op.loc)
                self._require_own(op)
            case Atomic():
                self._access(op.param, op.indices, op.loc)
                self._require_common(op.args, op.loc)
                self._require_own(op)
            case _:
                self._require_common(op.operands, op.loc)

    def _axis_factors(self, param: Param) -> Sequence[Any]:
        """Return the factor of each axis; arrays of a thread's own have none."""
        return self.analysis.factors.get(param, (None,) * param.rank)

    def _access(self, param: Param, indices: Sequence[Value], loc: Loc | None) -> None:
        for value, factor in zip(indices, self._axis_factors(param), strict=True):
            if factor == self.factor:
                if self.analysis.thread_axis(value) != self.axis:
                    raise _RefusedError(f"a thread uses elements of {param.name} other than its own along it", loc)
            elif value in self.local:
                raise _RefusedError(f"the thread index along it is an index along another axis of {param.name}", loc)

    def _require_common(self, values: Sequence[Value], loc: Loc | None) -> None:
        if not self.local.isdisjoint(values):
            raise _RefusedError("the thread index or an extent along it is used as a number", loc)

    def _require_own(self, op: Store | Atomic) -> None:
        """A write to an array that all shards share can only be a part of a sum, a minimum or a maximum."""
        param = op.param
        if self.factor in self._axis_factors(param) or param in self.analysis.kernel.locals:
            return
        access = self.analysis.effects[param]
        kinds = {atomic.kind for atomic in access.atomics}
        is_read = access.loads or any(a.result in self.analysis.used for a in access.atomics)
        if access.stores or is_read or len(kinds) != 1 or not kinds <= set(_REDUCED):
            raise _RefusedError(f"threads along it write the same elements of {param.name}", op.loc)
        self.reduced[param] = kinds.pop()

    def _is_decided(self, op: Call) -> bool:
        """Return whether the result is the same in the whole launch and in all of its parts."""
        if op.builtin.name not in _COMPARISONS:
            return False
        left, right = op.args
        if {left, right} <= self.sizes:
            return True
        for index, bound in ((left, right), (right, left)):
            if self.analysis.thread_axis(index) == self.axis:
                # Both ways round: 0 <= t < extent, so every comparison has an answer but those with a middle value.
                return bound in self.sizes or _is_below_all(self.analysis.forms[bound], op.builtin.name, index is left)
        return False


def _is_below_all(form: Form | None, comparison: str, index_is_left: bool) -> bool:
    """Does comparing an index >= 0 with this constant have one answer for all of them?"""
    if form is None or form.terms:
        return False
    splits_at_zero = ("ge", "lt") if index_is_left else ("le", "gt")
    return form.constant < 0 or (form.constant == 0 and comparison in splits_at_zero)
