"""An analysis of values: they are the same in all lanes, step evenly from lane to lane, or vary.

A vector of lanes runs consecutive threads along the last grid axis. For each value the analysis finds a *stride*:

* 0: **uniform**, one scalar serves every active lane;
* s: **linear**, lane j holds `base + j*s` in the wrapping arithmetic of the type, with `base` that of lane 0;
* None: **varying**.

Only active lanes count, so the counter of a divergent loop is uniform: the lanes still running have all run the same
number of iterations. Values that leave such a loop, or a branch that lanes take differently, vary.

The index of a `for` that lanes enter at different numbers, counting by one to a stop that they share, is made uniform:
lanes wait until the index is at their start. These loops are *aligned*. Lanes in one have run different numbers of
iterations, so the values that it carries vary.

Linear values obey wrapping arithmetic, so a vector made of one is exact. As an index it is used in 64 bits as
`sext(base) + j*s`. For s > 0 that equals the lane's true index whenever the latter is not negative, and a negative
index is an error of the program: with |s| * lanes below 2**31 a lane wraps at most once, and from positive to negative.
For s < 0 the same holds counted from the last lane. Widening casts are different, since adding to a wrapped and widened
value can make it valid again; they keep linearity only where nothing can have wrapped (`exact`), as for a thread index.

In the same way `v + c` with a constant c is a *shift* of v: as an index it may be computed in 64 bits as `sext(v) + c`.
For c >= 0 the two differ only where v + c wraps to a negative number, and for c < 0 they do not differ if v >= 0.
So neighbours in a stencil have addresses that differ by constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxwarp.errors import InternalError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Size, Store, Tell, Tid, Value, While, walk
from jaxwarp.types import int32, int64
from jaxwarp.unlocked import cached_property

Stride = int | None

# Bounds j*s for any lane count, see above.
_MAX_STRIDE = 1 << 20


@dataclass
class Strides:
    """The result of the analysis.

    Attributes:
        of: the stride of each value.
        used: the values that something reads.
        shifts: (v, c) of integer values that as indices are v + c.
        aligned: the loops in which lanes wait for the index to get to their start.
        constants: the values that are, where there are several lanes.
        counted: of indices that count from the end if they are negative, those as they are written.
    """

    of: dict[Value, Stride]
    used: set[Value]
    shifts: dict[Value, tuple[Value, int]] = field(default_factory=dict)
    aligned: frozenset[For] = frozenset()
    constants: Mapping[Value, bool | int | float] = field(default_factory=dict)
    counted: Mapping[Value, Value] = field(default_factory=dict)

    @cached_property
    def least_counted(self) -> dict[Value, int]:
        """The least shift that counted indices add to each of their roots."""
        found: dict[Value, int] = {}
        for index in self.counted.values():
            root, shift = self.shifts.get(index, (index, 0))
            found[root] = min(found.get(root, shift), shift)
        return found

    def is_uniform(self, *values: Value) -> bool:
        return all(self.of[v] == 0 for v in values)

    def is_scalar(self, value: Value) -> bool:
        """Return whether one scalar is enough for a value: it is uniform, or linear and given by its base."""
        return self.of[value] is not None

    def has_uniform_trips(self, loop: For | While) -> bool:
        """Do all active lanes run the loop equally often?"""
        if isinstance(loop, For):
            return self.is_uniform(loop.start, loop.stop, loop.step)
        return self.is_uniform(loop.condition.results[0])

    def mask_bits(self, values: Sequence[Value]) -> int:
        """The width of most of the values that lanes hold apart."""
        widths = [v.type.bits == 64 for v in values if not self.is_scalar(v)]
        return 64 if 2 * sum(widths) > len(widths) else 32


def find_strides(
    kernel: Kernel,
    width: int,
    assumed: Mapping[Value, Stride] | None = None,
    choices: Mapping[Value, bool] | None = None,
) -> Strides:
    """Analyses a kernel.

    Args:
        kernel: a prepared kernel.
        width: lanes; with one lane everything is uniform.
        assumed: strides that hold in the chunks this version of the code is for.
        choices: bools that are constant in those chunks.
    """
    kept: dict[str, Any] = vars(kernel)
    is_general = width > 1 and not assumed and not choices
    if is_general and "_strides" in kept:
        return kept["_strides"]
    used = {v for op in walk(kernel.body) for v in op.operands}
    used.update(v for op in walk(kernel.body) for block in op.blocks for v in block.results)
    if width == 1:
        every = [v for op in walk(kernel.body) for v in (*op.defined, *(p for b in op.blocks for p in b.params))]
        return Strides(dict.fromkeys(every, 0), used)
    analysis = _Analysis(kernel, assumed or {}, choices or {})
    analysis.run(kernel.body)
    counted = {
        op.result: op.args[0] for op in walk(kernel.body) if isinstance(op, Call) and op.builtin.name == "from_end"
    }
    found = Strides(analysis.strides, used, analysis.shifts, analysis.aligned(kernel), analysis.constants, counted)
    if is_general:
        kept["_strides"] = found  # the width is chosen by it, then code is made
    return found


class _Analysis:
    """Optimistic: a value starts at the first stride found and is lowered to varying where another is found.

    One sweep visits a loop's body once, so sweeps are repeated until none changes anything.
    """

    def __init__(self, kernel: Kernel, assumed: Mapping[Value, Stride], choices: Mapping[Value, bool]):
        self.lane_axis = kernel.grid_rank - 1
        self.locals = frozenset(kernel.locals)
        self.assumed = assumed
        self.choices = choices
        self.strides: dict[Value, Stride] = {}
        self.exact: set[Value] = set()  # linear or uniform, and no lane has wrapped
        self.constants: dict[Value, bool | int | float] = {}
        self.shifts: dict[Value, tuple[Value, int]] = {}
        self.not_negative: set[Value] = set()
        self.changed = True
        self.has_loops = False

    def run(self, body: Block) -> None:
        while self.changed:
            self.changed = False
            self.block(body)
            # Without loops, operands come before what is made of them: once is enough.
            self.changed = self.changed and self.has_loops

    def lower(self, value: Value, stride: Stride) -> None:
        """Notes that `value` was found to have `stride`."""
        if value in self.assumed:
            stride = self.assumed[value]
        if value not in self.strides:
            self.strides[value] = stride
            self.changed = True
        elif self.strides[value] is not None and self.strides[value] != stride:
            self.strides[value] = None
            self.exact.discard(value)
            self.changed = True

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        match op:
            case Const():
                self.constants[op.result] = op.value
                self.lower(op.result, 0)
            case Tid():
                self.exact.add(op.result)
                self.not_negative.add(op.result)
                self.lower(op.result, 1 if op.axis == self.lane_axis else 0)
            case Size():
                self.not_negative.add(op.result)
                self.lower(op.result, 0)
            case Call():
                self.lower(op.result, self.call(op))
                if op.builtin.name in ("add", "sub") and op.result.type in (int32, int64):
                    self.note_shift(op)
                elif op.builtin.name in ("min", "max", "select", "from_end") and self.strides[op.result]:
                    self.note_choice(op)
            case Load():
                shared = op.param not in self.locals and all(self.strides[i] == 0 for i in op.indices)
                self.lower(op.result, 0 if shared else None)
            case Store() | Tell():
                pass
            case Atomic():
                self.lower(op.result, None)
            case If():
                self.if_(op)
            case For():
                self.for_(op)
            case While():
                self.while_(op)
            case _:
                raise InternalError(f"the uniformity analysis does not know {type(op).__name__}")

    def call(self, op: Call) -> Stride:
        strides = [self.strides[a] for a in op.args]
        if all(s == 0 for s in strides):
            return 0
        if None in strides or not op.result.type.is_int:
            return self.select(op) if op.builtin.name == "select" else None
        stride = self.linear(op, [s or 0 for s in strides])
        if stride is not None and abs(stride) > _MAX_STRIDE:
            return None
        return stride

    def note_shift(self, op: Call) -> None:
        left, right = op.args
        if op.builtin.name == "add" and left in self.constants:
            left, right = right, left
        if right not in self.constants:
            return
        constant = int(self.constants[right])
        root, before = self.shifts.get(left, (left, 0))
        total = before + (constant if op.builtin.name == "add" else -constant)
        limit = 1 << (root.type.bits - 1)
        if (0 if root not in self.not_negative else -limit) <= total < limit:
            self.shifts[op.result] = root, total

    def note_choice(self, op: Call) -> None:
        """Record that a result assumed to step is one of its operands: the one that steps, or the chosen one."""
        if op.builtin.name == "select":
            if op.args[0] in self.choices:
                self.rename(op.result, op.args[1 if self.choices[op.args[0]] else 2])
        elif op.result in self.assumed:
            self.rename(op.result, next(a for a in op.args if self.strides[a]))

    def rename(self, value: Value, other: Value) -> None:
        """`value` is `other` in the chunks that this version of the code is for."""
        if other.type in (int32, int64):
            self.shifts[value] = self.shifts.get(other, (other, 0))

    def select(self, op: Call) -> Stride:
        condition, yes, no = op.args
        if condition in self.choices:
            return self.strides[yes if self.choices[condition] else no]
        return self.join([condition], [yes, no])

    def join(self, conditions: list[Value], values: list[Value]) -> Stride:
        """The stride of one of `values`, chosen by `conditions`."""
        strides = {self.strides[v] for v in values}
        uniform = all(self.strides[c] == 0 for c in conditions)
        return strides.pop() if len(strides) == 1 and (uniform or values[0] is values[1]) else None

    def linear(self, op: Call, strides: list[int]) -> Stride:
        """The stride of an integer operation on linear and uniform operands, None if it is not linear."""
        match op.builtin.name:
            case "add":
                return strides[0] + strides[1]
            case "sub":
                return strides[0] - strides[1]
            case "neg":
                return -strides[0]
            case "mul":
                for i, j in ((0, 1), (1, 0)):
                    if op.args[j] in self.constants:
                        return strides[i] * int(self.constants[op.args[j]])
                return None
            case "shl":
                count = self.constants.get(op.args[1])
                return strides[0] << int(count) if count is not None and 0 <= count < 20 else None
            case "cast" if op.args[0].type.is_int:
                if op.result.type.bits <= op.args[0].type.bits:
                    return strides[0]
                if op.args[0] in self.exact:
                    self.exact.add(op.result)
                    return strides[0]
                return None
            case "select":
                return self.select(op)
            case _:
                return None

    def if_(self, op: If) -> None:
        self.block(op.then)
        self.block(op.orelse)
        for result, yes, no in zip(op.results, op.then.results, op.orelse.results, strict=True):
            if op.condition in self.choices:
                self.lower(result, self.strides[yes if self.choices[op.condition] else no])
            else:
                self.lower(result, self.join([op.condition], [yes, no]))

    def for_(self, op: For) -> None:
        self.has_loops = True
        index, *params = op.body.params
        aligns = self.aligns(op)
        self.lower(index, 0 if aligns else self.strides[op.start] if self.strides[op.step] == 0 else None)
        if self.is_not_negative(op.start) and self.constants.get(op.step, -1) > 0:
            self.not_negative.add(index)
        self.enter(params, op.inits)
        if aligns:
            for param in params:
                self.lower(param, None)
        self.block(op.body)
        self.enter(params, op.body.results)
        uniform = all(self.strides[v] == 0 for v in (op.start, op.stop, op.step))
        self.leave(op, params, uniform)

    def aligns(self, op: For) -> bool:
        """Return whether aligning a loop is allowed and useful. It is not if integers that it carries may be alike."""
        index, *params = op.body.params
        if self.strides[op.start] is not None or self.strides[op.stop] != 0 or self.strides.get(index, 0) != 0:
            return False
        alike = any(not p.type.is_float and self.strides[i] is not None for p, i in zip(params, op.inits, strict=True))
        return not alike and index.type.is_signed and self.constants.get(op.step) in (1, -1)

    def aligned(self, kernel: Kernel) -> frozenset[For]:
        """Return the aligned loops of a kernel. Call it when the analysis is done."""
        return frozenset(op for op in walk(kernel.body) if isinstance(op, For) and self.aligns(op))

    def is_not_negative(self, value: Value) -> bool:
        return value in self.not_negative or self.constants.get(value, -1) >= 0

    def while_(self, op: While) -> None:
        self.has_loops = True
        self.enter(op.condition.params, op.inits)
        self.block(op.condition)
        self.enter(op.body.params, op.condition.params)
        self.block(op.body)
        self.enter(op.condition.params, op.body.results)
        self.leave(op, op.condition.params, self.strides[op.condition.results[0]] == 0)

    def enter(self, params: tuple[Value, ...] | list[Value], values: tuple[Value, ...]) -> None:
        for param, value in zip(params, values, strict=True):
            self.lower(param, self.strides[value])

    def leave(self, op: For | While, params: tuple[Value, ...] | list[Value], uniform: bool) -> None:
        for result, param in zip(op.results, params, strict=True):
            self.lower(result, self.strides[param] if uniform else None)
