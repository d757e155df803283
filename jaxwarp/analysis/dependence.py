"""The accesses of a thread that may follow one another at the same address, which decide what a load sees.

    for k in range(n):                    the load of a[i, k] comes after every store to that element: it sees what the
        a[i, k + 1] = f(a[i, k])          launch leaves there. Had a[i, k + 2] been loaded: what it found there.

A load that no write to its element precedes sees the contents on entry; one that none follows sees the final contents.
Either can be loaded again after the launch. To prove it, indices are written as sums of loop variables and values that
do not change; two accesses in different iterations of a loop have variables that differ by a multiple of its step,
inner variables are between their bounds, and the difference of the indices must be at least 1, or at most -1.

An index that may count from the end, `from_end(i, n)`, is i or i + n: the indices have to differ in both cases, and in
all four if both accesses have such an index. So in

    for k in range(n):                    the load is of an element that is stored earlier if k > 0, and of one that is
        a[i, k] = f(a[i, k - 1])          stored later if k = 0; in two iterations, less than n apart, it is of two.

With `as_written`, i + n is ignored where elements are floats; vjp/aliases.py looks for indices that are negative when
the launch runs. It is not ignored for integers, which may be indices, for what decides how often a loop runs, and for a
thread's own arrays: a sweep that took another element for it might never end.

Indices are taken as whole numbers: one whose computation wraps is negative and outside every array, but for sums with
factors beyond _MAX_FACTOR or variables of larger steps than _MAX_STEP, and loops that would have to make 2^20
iterations in between.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxwarp.analysis.affine import forms_of
from jaxwarp.analysis.indirect_indices import arrays_that_count
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, Load, Op, Param, Size, Store, Value, While
from jaxwarp.types import Scalar, int32, int64

Access = Load | Store | Atomic
# A loop variable or another value, in the iteration of the first or second access (or the same in both).
Atom = tuple[Any, int]
Counted = Mapping[Call, int]
_FIRST, _SECOND, _BOTH = 1, 2, 0
_DISTANCE: Atom = ("distance", _BOTH)
_MAX_FACTOR = 16
_MAX_STEP = 1 << 12
# Pairs of indices are compared that are made of so many that may count from the end.
_MOST_FROM_END = 4


@dataclass(frozen=True)
class Sum:
    """constant + sum of factor * atom; no factor is zero."""

    constant: int
    terms: Mapping[Any, int]

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        terms = dict(self.terms)
        for atom, c in other.terms.items():
            terms[atom] = terms.get(atom, 0) + factor * c
        return Sum(self.constant + factor * other.constant, {a: c for a, c in terms.items() if c})

    def times(self, factor: int) -> Sum:
        return Sum(0, {}).plus(self, factor)


class Dependence:
    """The accesses of a kernel and what is known of their order, within one thread.

    Args:
        kernel: the kernel.
        grid: launch extents, as far as they are known.
        shapes: extents of arrays, likewise.
        as_written: whether no index of an array of floats counts from the end.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: Sequence[int | None],
        shapes: Mapping[Param, Sequence[int | None]] | None = None,
        as_written: bool = False,
    ):
        self.forms = forms_of(kernel, grid, shapes)
        self.shapes = shapes or {}
        self.as_written = as_written
        self.locals = frozenset(kernel.locals)
        self.sums: dict[Value, Sum] = {}
        self.from_end: dict[Value, Counted] = {}  # what a value is more than its sum, as often as the numbers say
        self.extents: dict[tuple[Param, int], Value] = {}  # the first of the values that are an extent
        self.counting = arrays_that_count(kernel)
        self.home: dict[Value, tuple[Op, ...]] = {}  # the loops around a value's definition, the outermost first
        self.steps: dict[Value, int] = {}  # what a loop variable grows by in each iteration
        self.uneven: set[Value] = set()  # loop variables of unknown or large steps
        self.lowest: dict[Value, Sum] = {}
        self.highest: dict[Value, Sum] = {}
        self.loops: dict[Access, tuple[Op, ...]] = {}
        self.place: dict[Access, int] = {}
        self.tests: set[tuple[Access, Op]] = set()  # accesses in the condition of a `while`
        self._block(kernel.body, ())

    def may_precede(self, first: Access, second: Access, within: int = 0) -> bool:
        """May some execution of `first` come before one of `second` at the same address?

        The first `within` of the loops around both are in the same iteration.
        """
        common = self._common(first, second)
        if self.place[first] < self.place[second] and not self._differ(first, second, common, None):
            return True
        return any(not self._differ(first, second, common, depth) for depth in range(within, len(common)))

    def differ_now(self, a: Access, b: Access) -> bool:
        """Do the addresses differ in every single iteration of the loops around both?"""
        return self._differ(a, b, self._common(a, b), None)

    def tells_iteration(self, access: Access, loop: For | While) -> bool:
        """Return whether the address differs in each iteration of the loop, whatever else the loop does.

        The loops outside of it are in the same iteration. The address differs if an index moves with the loop's
        variable, and with nothing else that the loop changes.
        """
        return any(self.index_tells_iteration(access, axis, loop) for axis in range(access.param.rank))

    def index_tells_iteration(self, access: Access, axis: int, loop: For | While) -> bool:
        """`tells_iteration`, of one index."""
        index = access.indices[axis]
        body = loop.body.params
        variables = {value for value in body if value in self.steps} | set(body[:1] if isinstance(loop, For) else ())
        inside = self._varying(index, loop)
        if len(inside) != 1 or inside[0] not in variables:
            return False
        loops = self.loops[access]
        return not self.counted(access, index) or _Proof(self, access, access, loops, loops.index(loop)).differ(
            index, index
        )

    def is_invariant(self, index: Value, loop: For | While) -> bool:
        """Return whether the index is the same in all iterations of the loop, while its outer loops do not advance."""
        made_of = (index, *(value for op in self.from_end.get(index, ()) for value in op.args))
        return not any(self._varying(value, loop) for value in made_of)

    def are_of_one_array(self, indices: Sequence[Value]) -> bool:
        """Return whether equal sums of indices on one axis mean one element: negative indices count from one end."""
        counted = [(index, list(self.from_end.get(index, ()))) for index in indices]
        ends = [(op, op.result is index and op.args[0] not in self.from_end) for index, ops in counted for op in ops]
        first = self.sum(ends[0][0].args[1]) if ends else None
        return all(is_whole and self.sum(op.args[1]) == first for op, is_whole in ends)

    def counted(self, access: Access, index: Value) -> Counted:
        """The operations by which an index of an access may count from the end, and how often each counts."""
        is_searched = access.param.dtype.is_float and access.param not in self.locals
        is_harmless = self.as_written and is_searched and access.param not in self.counting
        return {} if is_harmless else self.from_end.get(index, {})

    def _extent(self, param: Param, axis: int) -> Sum | None:
        """An extent, None if it is not known, and the kernel does not ask for it."""
        extent = self.shapes.get(param, param.shape)[axis] or param.shape[axis]
        if extent is not None:
            return Sum(int(extent), {})
        asked = self.extents.get((param, axis))
        return asked and Sum(0, {asked: 1})

    def _varying(self, index: Value, loop: Op) -> list[Value]:
        """Return the values that an index is made of and that the loop may change."""
        return [value for value in self.sum(index).terms if loop in self.home[value]]

    def _common(self, a: Access, b: Access) -> tuple[Op, ...]:
        of_a, of_b = self.loops[a], self.loops[b]
        return tuple(loop for n, loop in enumerate(of_a) if of_a[: n + 1] == of_b[: n + 1])

    # Collecting

    def _block(self, block: Block, loops: tuple[Op, ...], tested: tuple[Op, ...] = ()) -> None:
        for value in block.params:
            self.home[value] = loops
        for op in block.ops:
            for value in op.defined:
                self.home[value] = loops
            if isinstance(op, Access):
                self.loops[op] = loops
                self.place[op] = len(self.place)
                self.tests.update((op, loop) for loop in tested)
            if isinstance(op, Call):
                self._call(op)
            elif isinstance(op, Const) and op.result.type.is_int:
                self.sums[op.result] = Sum(int(op.value), {})
            elif isinstance(op, Size):
                self._size(op)
            elif isinstance(op, For):
                self._for(op)
                self._block(op.body, (*loops, op), tested)
            elif isinstance(op, While):
                self._while(op)
                self._block(op.condition, (*loops, op), (*tested, op))
                self._bound(op)
                self._block(op.body, (*loops, op), tested)
            else:
                for inner in op.blocks:
                    self._block(inner, loops, tested)

    def sum(self, value: Value) -> Sum:
        return self.sums.get(value) or Sum(0, {value: 1})

    def _size(self, op: Size) -> None:
        self.extents.setdefault((op.param, op.axis), op.result)
        self.home[op.result] = ()
        self.sums[op.result] = self._extent(op.param, op.axis) or Sum(0, {op.result: 1})

    def _call(self, op: Call) -> None:
        args = [self.sum(v) for v in op.args]
        exact = op.result.type in (int32, int64) and all(a.type in (int32, int64) for a in op.args)
        if not exact or (op.builtin.name == "cast" and _narrows(op.args[0].type, op.result.type)):
            return
        match op.builtin.name, args:
            case "add", (a, b):
                found = a.plus(b)
            case "sub", (a, b):
                found = a.plus(b, -1)
            case "neg", (a,):
                found = a.times(-1)
            case "mul", (a, b) if not a.terms or not b.terms:
                found = b.times(a.constant) if not a.terms else a.times(b.constant)
            case "cast", (a,):
                found = a
            case "from_end", (a, _):
                found = a
            case _:
                return
        if all(self._is_small(v, c) for v, c in found.terms.items()) or self.forms[op.result] is not None:
            self.sums[op.result] = found
            if counted := self._counted(op):
                self.from_end[op.result] = counted

    def _counted(self, op: Call) -> Counted:
        """Return the ways in which the operands of a sum may count from the end."""
        name, (a, *others) = op.builtin.name, op.args
        found = dict(self.from_end.get(a, {}))
        if name == "from_end":
            found[op] = 1
        elif name == "neg":
            found = {made: -times for made, times in found.items()}
        elif name == "mul":
            by_a, by_b = self.sum(a).constant, self.sum(others[0]).constant
            pairs = ((found, by_b), (self.from_end.get(others[0], {}), by_a))
            found = {made: times * by for counted, by in pairs for made, times in counted.items()}
        elif name in ("add", "sub"):
            for made, times in self.from_end.get(others[0], {}).items():
                found[made] = found.get(made, 0) + (times if name == "add" else -times)
        return found

    def _is_small(self, value: Value, factor: int) -> bool:
        """Does factor * value not wrap between two iterations of the loop that the value counts, if it does?"""
        step = self.steps.get(value, None if value in self.uneven else 1)
        return abs(factor) == 1 or (step is not None and abs(factor * step) <= _MAX_STEP and abs(factor) <= _MAX_FACTOR)

    def _for(self, op: For) -> None:
        index, step = op.body.params[0], self.sum(op.step)
        if not step.terms and 0 < abs(step.constant) <= _MAX_STEP:
            low, high = self.sum(op.start), self.sum(op.stop)
            if step.constant < 0:
                low, high = high.plus(Sum(1, {})), low
            else:
                high = high.plus(Sum(-1, {}))
            self.steps[index], self.lowest[index], self.highest[index] = step.constant, low, high
        else:
            self.uneven.add(index)
        for init, carried, result in zip(op.inits, op.body.params[1:], op.body.results, strict=True):
            self._counter(op.body, init, carried, result)

    def _while(self, op: While) -> None:
        for init, carried, test, result in zip(
            op.inits, op.body.params, op.condition.params, op.body.results, strict=True
        ):
            self._counter(op.body, init, carried, result)
            self.sums[test] = Sum(0, {carried: 1})

    def _counter(self, body: Block, init: Value, carried: Value, result: Value) -> None:
        """A carried integer that grows by a constant in each iteration."""
        for op in body.ops:
            if isinstance(op, Call) and op.result is result and op.builtin.name in ("add", "sub"):
                (a, b), sign = op.args, 1 if op.builtin.name == "add" else -1
                if b is carried and sign == 1:
                    a, b = b, a
                step = sign * self._constant(b, body)
                if a is carried and 0 < abs(step) <= _MAX_STEP and carried.type in (int32, int64):
                    self.steps[carried] = step
                    (self.lowest if step > 0 else self.highest)[carried] = self.sum(init)

    def _constant(self, value: Value, body: Block) -> int:
        """The constant that a value is, 0 if it is none; the body has not been visited yet."""
        found = self.sums.get(value)
        if found is not None:
            return 0 if found.terms else found.constant
        return next((int(op.value) for op in body.ops if isinstance(op, Const) and op.result is value), 0)

    def _bound(self, op: While) -> None:
        """`while k < n and ...` bounds k in the body."""
        made = {value: inner for inner in op.condition.ops for value in inner.defined}
        pending = list(op.condition.results)
        while pending:
            test = made.get(pending.pop())
            if not isinstance(test, Call):
                continue
            if test.builtin.name == "logical_and":
                pending += test.args
                continue
            if test.builtin.name not in ("lt", "le", "gt", "ge") or test.args[0].type not in (int32, int64):
                continue
            small, large = test.args if test.builtin.name in ("lt", "le") else test.args[::-1]
            gap = Sum(int(test.builtin.name in ("lt", "gt")), {})
            small, large = self.sum(small), self.sum(large)
            self._note(op, self.highest, small, large.plus(gap, -1))
            self._note(op, self.lowest, large, small.plus(gap))

    def _note(self, op: While, bounds: dict[Value, Sum], variable: Sum, bound: Sum) -> None:
        terms = list(variable.terms.items())
        if variable.constant or len(terms) != 1 or terms[0][1] != 1 or terms[0][0] not in op.body.params:
            return
        if all(op not in self.home.get(value, (op,)) for value in bound.terms):
            bounds.setdefault(terms[0][0], bound)

    # Proving

    def _differ(self, first: Access, second: Access, common: Sequence[Op], depth: int | None) -> bool:
        """Do the addresses provably differ, where `first` is in an earlier iteration of the loop at `depth`?

        The loops outside of it are in the same iteration; with None, all that both accesses are in.
        """
        proof = _Proof(self, first, second, common, depth)
        return any(
            proof.differ(a, b) for a, b in zip(first.indices, second.indices, strict=True)
        )


class _Proof:
    def __init__(self, dependence: Dependence, first: Access, second: Access, common: Sequence[Op], depth: int | None):
        self.dependence = dependence
        self.same = set(common if depth is None else common[:depth])
        self.varying = None if depth is None else common[depth]
        self.accesses = {_FIRST: first, _SECOND: second}

    def differ(self, a: Value, b: Value) -> bool:
        ends = self.ends(a, b)
        if len(ends) > _MOST_FROM_END:
            return False
        taken = [self.taken(op, which) for op, which in ends]
        return all(
            self.differ_by(a, b, {end: times for end, times, is_taken in zip(ends, ends.values(), some, strict=True)
                                  if is_taken})
            for some in itertools.product(*taken)
        )  # fmt: skip

    def differ_by(self, a: Value, b: Value, ends: Mapping[tuple[Call, int], int]) -> bool:
        """Do two indices differ, where these count from the end and others do not?"""
        for in_steps in (True, False):
            gap = self.at(self.dependence.sum(b), _SECOND, in_steps)
            gap = gap.plus(self.at(self.dependence.sum(a), _FIRST, in_steps), -1)
            for (op, which), times in ends.items():
                gap = gap.plus(self.at(self.dependence.sum(op.args[1]), which, in_steps), times)
            if self.is_positive(gap) or self.is_positive(gap.times(-1)):
                return True
        return False

    def ends(self, a: Value, b: Value) -> dict[tuple[Call, int], int]:
        """Return by what the difference of two indices may exceed that of their sums: so often the extents of these."""
        found: dict[tuple[Call, int], int] = {}
        for value, which, sign in ((a, _FIRST, -1), (b, _SECOND, 1)):
            for op, times in self.dependence.counted(self.accesses[which], value).items():
                end = op, _BOTH if self.same.issuperset(self.dependence.home[op.result]) else which
                found[end] = found.get(end, 0) + sign * times
        return {end: times for end, times in found.items() if times}

    def taken(self, op: Call, which: int) -> tuple[bool, ...]:
        """Tell whether an index counts from the end: one of the two if it shows which."""
        if op.args[0] in self.dependence.from_end:
            return False, True
        index = self.at(self.dependence.sum(op.args[0]), which)
        if self.is_positive(index.plus(Sum(1, {}))):
            return (False,)
        return (True,) if self.is_positive(index.times(-1)) else (False, True)

    def at(self, sum_: Sum, which: int, in_steps: bool = True) -> Sum:
        """A sum of values in the iteration of one of the accesses.

        With `in_steps`, variables of the second access are those of the first one, and as many steps as are between.
        """
        found = Sum(sum_.constant, {})
        for value, factor in sum_.terms.items():
            home = self.dependence.home[value]
            if self.same.issuperset(home):
                found = found.plus(Sum(0, {(value, _BOTH): factor}))
            elif in_steps and which == _SECOND and home[-1] is self.varying and value in self.dependence.steps:
                # The variable of the first access, some iterations later.
                later = {(value, _FIRST): factor, _DISTANCE: factor * self.dependence.steps[value]}
                found = found.plus(Sum(0, later))
            else:
                found = found.plus(Sum(0, {(value, which): factor}))
        return found

    def is_positive(self, gap: Sum) -> bool:
        """Replaces what varies by its bounds, the innermost first, until a number is left."""
        while gap.terms:
            atom = max(gap.terms, key=self.depth)
            factor = gap.terms[atom]
            bound = self.bound(atom, lower=factor > 0)
            if bound is None:
                return False
            gap = gap.plus(Sum(0, {atom: -factor})).plus(bound, factor)
        return gap.constant >= 1

    def depth(self, atom: Atom) -> tuple[int, int]:
        if atom == _DISTANCE:
            return -1, 0
        return len(self.dependence.home[atom[0]]), atom[0] in self.dependence.steps

    def bound(self, atom: Atom, lower: bool) -> Sum | None:
        """Return what an atom is at least (or at most), in terms of atoms further out; None if that is not known."""
        if atom == _DISTANCE:
            trips = self.dependence.forms.trips.get(self.varying) if isinstance(self.varying, For) else None
            return Sum(1, {}) if lower else None if trips is None else Sum(max(trips - 1, 1), {})
        value, which = atom
        found = (self.dependence.lowest if lower else self.dependence.highest).get(value)
        if found is not None and not self._is_tested(value, which):
            return self.at(found, which)
        form = self.dependence.forms[value]
        if form is not None:
            return Sum(form.range()[0 if lower else 1], {})
        # An array with an element has extents of 1 at least.
        return Sum(1, {}) if lower and value in self.dependence.extents.values() else None

    def _is_tested(self, value: Value, which: int) -> bool:
        """The last test of a `while` may find its variable beyond what the condition says."""
        accesses = self.accesses.values() if which == _BOTH else [self.accesses[which]]
        return any((access, self.dependence.home[value][-1]) in self.dependence.tests for access in accesses)


def _narrows(source: Scalar, target: Scalar) -> bool:
    return source == int64 and target == int32
