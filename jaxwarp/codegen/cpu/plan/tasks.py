"""Loops of a thread that run as launches of their own: loops over tiles.

Lanes are threads, mostly. Where a thread works on tiles, eight threads have eight times the tiles, which leave the near
caches, and each element of an array is far from the next lane's. So threads of such a kernel run one at a time, and
their lanes are elements of a tile. A loop whose iterations are independent is a kernel over its indices, a *task*:

    for %i in range(64) {                            kernel task[2](@a: f32[64, 64], @b: f32[64, 64], @c: f32[]) {
      for %j in range(64) {                            %i = tid 0;  %j = tid 1
        store @a[%i, %j], mul(load @b[%j, %i], %c)  ->  store @a[%i, %j], mul(load @b[%j, %i], load @c[])
      }                                              }
    }

It has the arrays that the loop accesses, and what the loop reads of values from outside, as arguments by value. It is
compiled like every other kernel, so a product of tiles does several rows at once, as a product of matrices does. A sum
over a tile is a kernel whose threads all add to one element.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxwarp.analysis.loops.folds import SUM
from jaxwarp.analysis.loops.nests import Nest, Nests
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.codegen.cpu.plan.cost import WorkSum
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.codegen.cpu.plan.width import WIDTH_VARIABLE, fitting_width, register_lanes
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Param, Size, Store, Tell, Tid, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import int32

# A call of a task takes some 30 cycles.
LEAST_ELEMENTS = 64
# What is left takes a thread as long as so much of the tasks takes lanes.
WORTH = 16


@dataclass(frozen=True, eq=False)
class Task:
    """A loop as a launch.

    Attributes:
        kernel: its parameters are `arrays`, then one of rank 0 for each of `numbers` and of `sums`.
        width: lanes.
        extents: of the launch.
        arrays: the arrays that the loop accesses.
        numbers: values from outside of the loop.
        before: operations that make some of them.
        sums: what the loop carries, before and after it.
    """

    kernel: Kernel
    width: int
    extents: tuple[int, ...]
    arrays: tuple[Param, ...]
    numbers: tuple[Value, ...]
    before: tuple[Op, ...]
    sums: tuple[tuple[Value, Value], ...]


def find_tasks(kernel: Kernel, machine: Machine) -> Mapping[For, Task]:
    """Return the tasks of a prepared kernel, by their loops; none if its threads had better be lanes."""
    ops = list(walk(kernel.body))
    if not kernel.locals or os.environ.get(WIDTH_VARIABLE):
        return {}
    # Of what several threads add to, each lane's addition would be an atomic.
    if any(isinstance(op, Atomic) and op.param not in kernel.locals for op in ops):
        return {}
    nests = Nests(kernel)
    chosen = {loop: nest for loop, nest in nests.found.items() if _is_task(nest, kernel)}
    alone, shared = _work(kernel.body, chosen, nests)
    if not chosen or shared < WORTH * alone:
        return {}
    return {loop: _task(nest, nests, kernel, number, machine) for number, (loop, nest) in enumerate(chosen.items())}


def _is_task(nest: Nest, kernel: Kernel) -> bool:
    """Return whether a nest can be a launch, and is worth it."""
    loops, ops = nest.loops, list(walk(nest.loops[0].body))
    if nest.is_open or nest.is_scan or nest.most < LEAST_ELEMENTS:
        return False
    if any(loop.body.params[0].type is not int32 for loop in loops):
        return False
    if nest.fold is not None and (nest.fold.kind != SUM or any(v.type.is_half for v in loops[0].inits)):
        return False
    if any(inner not in outer.body.ops for outer, inner in itertools.pairwise(loops)):
        return False
    # Parts of tiles outside of arrays are seldom met; elsewhere too, branches make code long.
    if any(isinstance(op, Tell) or (isinstance(op, If) and _has_stores(op)) for op in ops):
        return False
    # Two parameters may be one buffer, in which order counts.
    accessed = {op.param for op in ops if isinstance(op, Load | Store | Atomic) and op.param not in kernel.locals}
    return len(accessed) < 2 or not any(isinstance(op, Store) and op.param in accessed for op in ops)


def _has_stores(op: If) -> bool:
    return any(isinstance(inner, Store | Atomic) for block in op.blocks for inner in walk(block))


def _work(block: Block, chosen: Mapping[For, Nest], nests: Nests) -> tuple[float, float]:
    """Return what a thread does by itself, and what tasks do; of branches, the one with more of the latter."""
    sums = WorkSum({})
    sums.known.update((value, int(known)) for value, known in nests.constants.items() if value.type.is_int)
    alone = shared = 0.0
    for op in block.ops:
        if op in chosen:
            assert isinstance(op, For)
            shared += sums.trips(op) * sums.block(op.body)
            continue
        inner = [_work(b, chosen, nests) for b in op.blocks]
        if isinstance(op, If):
            inner = [max(inner, key=lambda found: found[1])]
        trips = sums.trips(op)
        alone += sums.price(op) + trips * sum(a for a, _ in inner)
        shared += trips * sum(s for _, s in inner)
    return alone, shared


def _task(nest: Nest, nests: Nests, kernel: Kernel, number: int, machine: Machine) -> Task:
    made = _Outlined(nest, nests)
    body = made.body()
    arrays = tuple(dict.fromkeys(op.param for op in walk(body) if isinstance(op, Load | Store | Atomic | Size)))
    own = {*made.numbers.values(), *made.sums}
    arrays = tuple(param for param in arrays if param not in own)
    task = Kernel(
        f"{kernel.name}.task{number}", len(nest.loops), (*arrays, *made.numbers.values(), *made.sums), body
    )
    extents = tuple(map(len, nest.ranges))
    width = _width(task, extents[-1], machine)
    sums = tuple(zip(nest.loops[0].inits, nest.loops[0].results, strict=True))
    return Task(task, width, extents, arrays, tuple(made.numbers), tuple(made.before), sums)


def _width(kernel: Kernel, extent: int, machine: Machine) -> int:
    """Return the lanes for so many threads, so that no or few lanes are off."""
    width, register = fitting_width(kernel, machine), register_lanes(kernel, machine)
    while width > 1 and width > extent:
        width //= 2
    while width > register and extent % width:
        width //= 2
    return width


class _Outlined(Rewriter):
    """The body of a task.

    Attributes:
        numbers: parameters, by the values from outside that they are.
        before: operations on which these depend, that the loop repeats.
        sums: parameters for what the loop carries.
    """

    def __init__(self, nest: Nest, nests: Nests):
        super().__init__()
        self.nest = nest
        self.nests = nests
        self.numbers: dict[Value, Param] = {}
        self.before: list[Op] = []
        self.sums = [Param(f"sum{n}", v.type, ()) for n, v in enumerate(nest.loops[0].inits)]
        self.inside: set[Value] = set()

    def body(self) -> Block:
        loops = self.nest.loops
        for op in walk(loops[0].body):
            self.inside.update(v for v in op.defined if not isinstance(op, Tid))
            self.inside.update(v for block in op.blocks for v in block.params)
        carried = {v for loop in loops for v in loop.body.params[1:]}
        self.inside.update(loops[0].body.params)
        self.scopes.append([])
        for read in self._read():
            if read not in self.inside and read not in self.values:
                self._bring(read)
        for axis, (loop, range_) in enumerate(zip(loops, self.nest.ranges, strict=True)):
            self._index(axis, loop, range_)
        results = loops[-1].body.results
        for loop, following in zip(loops, (*loops[1:], None), strict=True):
            for op in loop.body.ops:
                if op is following:
                    break
                if following is not None or not any(v in results for v in op.defined):
                    self.op(op)
        for param, result in zip(self.sums, results, strict=True):
            self._add(param, result, carried)
        return Block((), tuple(self.scopes.pop()), ())

    def op(self, op: Op) -> None:
        if not isinstance(op, Tid):  # a number here
            self.copy(op)

    def _read(self) -> list[Value]:
        """Return the values that the loops' bodies read, in order."""
        found: dict[Value, None] = {}
        for op in walk(self.nest.loops[0].body):
            if isinstance(op, Tid):
                found[op.result] = None
                self.before.append(op)
            if op not in self.nest.loops:
                found.update(dict.fromkeys(op.operands))
                found.update(dict.fromkeys(v for block in op.blocks for v in block.results))
        return list(found)

    def _bring(self, value: Value) -> None:
        """Makes a value from outside known."""
        constant = self.nests.defining.get(value)
        if isinstance(constant, Const):
            self.emit(constant)
            return
        param = self.numbers[value] = Param(f"number{len(self.numbers)}", value.type, ())
        self.values[value] = Value(value.type, value.name)
        self.emit(Load(self.values[value], param, ()))

    def _index(self, axis: int, loop: For, range_: range) -> None:
        index = Value(int32, loop.body.params[0].name)
        self.emit(Tid(index, axis))
        for name, known in (("mul", range_.step), ("add", range_.start)):
            if known != (name == "mul"):
                number = Value(int32)
                self.emit(Const(number, known))
                index = self.call(ROWS[name], index, number)
        self.values[loop.body.params[0]] = index

    def _add(self, param: Param, result: Value, carried: set[Value]) -> None:
        """Adds to a sum's element what the loop adds to the sum. (A product that would be contracted is rounded.)"""
        op = self.nests.defining[result]
        assert isinstance(op, Call)
        if op.builtin.name == "fma":
            value = self.call(ROWS["mul"], *self.all(op.args[:2]))
        elif op.builtin.name == "sub":
            value = self.call(ROWS["neg"], self.value(op.args[1]))
        else:
            (value,) = (self.value(v) for v in op.args if v not in carried)
        self.emit(Atomic(Value(value.type), "add", param, (), (value,)))


def counts(extents: Sequence[int]) -> tuple[int, int]:
    """Return the rows and columns of a launch."""
    return math.prod(extents[:-1]), extents[-1]
