"""The reach of the accesses of a kernel, for all extents: found once, and compared with extents at each launch.

    y[i] = x[i + 1]        of thread indices i < n: below n in y, below n + 1 in x

An index is followed where it is a thread index, an extent or a constant, plus a constant. `out_of_range.py` searches
the others among threads.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Param, Size, Store, Tid, Value, While
from jaxwarp.types import int32

Shape = tuple[int | None, ...]

_DECIDED_BY_ONE = ("logical_and", "logical_or", "select")  # which may be known where one operand is


class _Form(NamedTuple):
    """An integer: of an axis of threads the index, of an axis of a parameter the extent, or nothing, plus `more`."""

    thread: int | None
    extent: tuple[int, int] | None
    more: int


class _Access(NamedTuple):
    """An index into an axis of a parameter. The parameter is a number, where local arrays follow the arguments."""

    param: int
    axis: int
    form: _Form


def is_inside(kernel: Kernel, threads: Sequence[int], shapes: Sequence[Shape]) -> bool:
    """Return whether a search for accesses out of range is known to find none. Extents may be None, unknown."""
    found = reaches(kernel)
    if found is None:
        return False
    shapes = [*shapes, *(p.shape for p in kernel.locals)]
    for param, axis, (thread, extent, more) in found:
        bound, low, high = shapes[param][axis], more, more
        if thread is not None:
            high += threads[thread] - 1
        elif extent is not None:
            n = shapes[extent[0]][extent[1]]
            if n is None:
                continue  # and so is the index
            low = high = n + more
        if bound is not None and not (low >= 0 and high < bound <= 2**31):
            return False
    return True


@functools.lru_cache(maxsize=512)
@with_deep_stack
def reaches(kernel: Kernel) -> tuple[_Access, ...] | None:
    """Return the indices that a search may know, of all accesses that it may reach. Return None if one has no form."""
    follower = _Follower(kernel)
    follower.block(kernel.body)
    return None if follower.is_open else tuple(follower.reaches)


class _Follower:
    """Goes through a kernel as the search does.

    Attributes:
        forms: of all values that the search may know; None: it is none of those followed here.
        from_front: forms of values that are so unless they are below zero, where they count from the end.
    """

    def __init__(self, kernel: Kernel):
        self.places = {p: i for i, p in enumerate((*kernel.params, *kernel.locals))}
        self.forms: dict[Value, _Form | None] = {}
        self.from_front: dict[Value, _Form] = {}
        self.reaches: dict[_Access, None] = {}
        self.is_open = False

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        match op:
            case Const():
                self.forms[op.result] = _Form(None, None, int(op.value)) if op.result.type == int32 else None
            case Tid():
                self.forms[op.result] = _Form(op.axis, None, 0)
            case Size():
                self.forms[op.result] = _Form(None, (self.places[op.param], op.axis), 0)
            case Call():
                self.call(op)
            case Load() | Store() | Atomic():
                self.access(op.param, op.indices)
            case If():
                self.inside(op, [op.condition], (op.then, op.orelse))
            case For():
                self.inside(op, [op.start, op.stop, op.step], (op.body,))
            case While():
                self.inside(op, [], (op.condition, op.body))
            case _:
                pass

    def inside(self, op: If | For | While, needed: Sequence[Value], blocks: Sequence[Block]) -> None:
        """Blocks are searched where all is known that they need."""
        if all(v in self.forms for v in needed):
            for block in blocks:
                self.forms.update(dict.fromkeys(block.params))
                self.block(block)
            self.forms.update(dict.fromkeys(op.results))

    def call(self, op: Call) -> None:
        known = [v for v in op.args if v in self.forms]
        if len(known) == len(op.args) or (known and op.builtin.name in _DECIDED_BY_ONE):
            self.forms[op.result] = self.form(op) if op.result.type == int32 else None

    def form(self, op: Call) -> _Form | None:
        """Return the form of a sum, a difference, or an index that may count from the end."""
        if len(op.args) != 2 or any(v.type != int32 for v in op.args):
            return None
        one, other = self.forms.get(op.args[0]), self.forms.get(op.args[1])
        if one is None or other is None:
            return None
        match op.builtin.name:
            case "add" if _is_number(one):
                return other._replace(more=other.more + one.more)
            case "add" if _is_number(other):
                return one._replace(more=one.more + other.more)
            case "sub" if _is_number(other):
                return one._replace(more=one.more - other.more)
            case "from_end" if one.more >= 0:
                return one
            case "from_end":
                self.from_front[op.result] = one
                return None
            case _:
                return None

    def access(self, param: Param, indices: Sequence[Value]) -> None:
        for axis, value in enumerate(indices):
            if value not in self.forms:
                continue
            form, bound = self.forms[value] or self.from_front.get(value), param.shape[axis]
            if form is None:
                self.is_open = True
            elif not (_is_number(form) and bound is not None and 0 <= form.more < bound):
                self.reaches[_Access(self.places[param], axis, form)] = None


def _is_number(form: _Form) -> bool:
    return form.thread is None and form.extent is None
