"""Threads that share elements which they read after they have stored there themselves: each works on a copy of its own.

    for i in range(start[b], start[b + 1]) {        branches of a tree, one for each thread: several compute the same
      v = f(load y[parent[i]])                      bodies near the root
      store y[i], v }

    v = load y[j]       ->      w = load y_written[b, j]
                                if w != 0 { v = load y_own[b, j];    store y_after[b, j], 1 }
                                else      { v = load y_entry[j];     store y_before[b, j], 1 }
    store y[j], v       ->      if y_written[b, j] != 0 and y_own[b, j] != v { store y_changed[b, j], 1 }
                                store y_own[b, j], v;  store y_written[b, j], 1;  store y[j], v

That is what the kernel does when its threads run one after the other, unless one reads what another has stored. In
another order it does the same if threads that store to one element, which one of them reads, store one value. Both are
found out when the launch has run. The copies have an axis for each axis of the grid that indices do not tell apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from jaxwarp.analysis.addresses import Access, Grid, Ownership, ownership_of
from jaxwarp.analysis.thread_values import Shapes
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Load, Op, Param, Store, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import int32
from jaxwarp.vjp.activity import Activity
from jaxwarp.vjp.replay import has_replays
from jaxwarp.vjp.reports import make_report


@dataclass(frozen=True, eq=False)
class OwnCopy:
    """The parameters of one array that the kernel gains.

    Attributes:
        index: which parameter the array is.
        axes: of the grid, in front of those of the array.
        entry: what the array holds on entry.
        own: what each thread has stored.
        marks: "written", "before", "after", "changed".
    """

    index: int
    axes: tuple[int, ...]
    entry: Param
    own: Param
    marks: Mapping[str, Param]

    @property
    def params(self) -> tuple[Param, ...]:
        """The entry, then what the launch makes."""
        return (self.entry, self.own, *self.marks.values())


@dataclass(frozen=True, eq=False)
class OwnCopies:
    """A kernel that does the same, with the parameters of these copies after its own."""

    kernel: Kernel
    copies: tuple[OwnCopy, ...]


@with_deep_stack
def with_own_copies(kernel: Kernel, wanted: Collection[int], grid: Grid, shapes: Shapes) -> OwnCopies | None:
    """Give threads copies of active arrays of which they may share elements, where indices are found in data.

    The result is None if there are no such arrays.

    Args:
        kernel: one whose rounding is fixed.
        wanted: positions of its parameters.
        grid: launch extents, as far as they are known.
        shapes: extents of arrays, likewise.
    """
    if has_replays(kernel):
        return None
    ownership = ownership_of(kernel, grid, shapes, sized=True)
    active = Activity(kernel, [kernel.params[i] for i in wanted]).params
    shared = [p for p in kernel.params if p in active and _may_share(ownership, p)]
    if not shared:
        return None
    copies = {p: _copy(kernel, ownership, p) for p in shared}
    body = _Copying(copies).block(kernel.body)
    params = (*kernel.params, *(param for copy in copies.values() for param in copy.params))
    return OwnCopies(replace(kernel, name=f"{kernel.name}_own", params=params, body=body), tuple(copies.values()))


def _may_share(ownership: Ownership, param: Param) -> bool:
    accesses = ownership.accesses.get(param, [])
    kinds = {type(op) for op in accesses}
    is_found = any(ownership.addresses.is_indirect(index) for op in accesses for index in op.indices)
    return kinds == {Load, Store} and is_found and not ownership.is_own(param)


def _copy(kernel: Kernel, ownership: Ownership, param: Param) -> OwnCopy:
    told = ownership.told(ownership.accesses[param])
    axes = tuple(
        it.axis for it in ownership.addresses.forms.grid if it.extent != 1 and it not in told and it.axis is not None
    )
    shape = ((None,) * len(axes)) + param.shape
    marks = {name: Param(f"{param.name}_{name}", int32, shape) for name in ("written", "before", "after", "changed")}
    entry = Param(f"{param.name}_entry", param.dtype, param.shape)
    return OwnCopy(kernel.params.index(param), axes, entry, Param(f"{param.name}_own", param.dtype, shape), marks)


class _Copying(Rewriter):
    def __init__(self, copies: Mapping[Param, OwnCopy]):
        super().__init__()
        self.copies = copies

    def op(self, op: Op) -> None:
        if not isinstance(op, Access) or op.param not in self.copies:
            self.copy(op)
            return
        assert not isinstance(op, Atomic)
        copy = self.copies[op.param]
        builder = Builder(self.scopes)
        builder.loc = op.loc
        indices = self.all(op.indices)
        place = (*(builder.tid(axis) for axis in copy.axes), *indices)
        one = builder.const(1, int32)
        written = builder.load(copy.marks["written"], place)
        is_written = builder.call(ROWS["ne"], written, builder.const(0, int32))
        if isinstance(op, Load):
            self.load(builder, op, copy, is_written, place, indices, one)
            return
        value = self.value(op.value)

        def note() -> tuple[Value, ...]:
            is_other = builder.call(ROWS["ne"], builder.load(copy.own, place), value)
            builder.if_(is_other, mark)
            return ()

        def mark() -> tuple[Value, ...]:
            builder.store(copy.marks["changed"], place, one)
            return ()

        builder.if_(is_written, note)
        builder.store(copy.own, place, value)
        builder.store(copy.marks["written"], place, one)
        self.copy(op)

    def load(
        self,
        builder: Builder,
        op: Load,
        copy: OwnCopy,
        is_written: Value,
        place: Sequence[Value],
        indices: Sequence[Value],
        one: Value,
    ) -> None:
        def own() -> tuple[Value, ...]:
            builder.store(copy.marks["after"], place, one)
            return (builder.load(copy.own, place),)

        def entry() -> tuple[Value, ...]:
            builder.store(copy.marks["before"], place, one)
            return (builder.load(copy.entry, indices),)

        (self.values[op.result],) = builder.if_(is_written, own, entry, [op.result.name])


def report_shared(kernel: Kernel, index: int) -> Kernel:
    """Make what fails for one thread where threads have shared elements of an array in another way."""
    param = kernel.params[index]
    load = next(op for op in walk(kernel.body) if isinstance(op, Load) and op.param is param)
    text = (
        f"two threads have met at an element of {param.name}, which the kernel reads and writes: one reads what "
        "another one has stored, or they store different values where one of them reads. What is left depends on their "
        "order, and the derivative is not defined. Read an input and write an output, or keep the indices apart"
    )
    return make_report(f"{kernel.name}_shared", text, load.loc)
