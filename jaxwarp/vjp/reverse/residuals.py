"""Residuals: values that a reverse sweep could not recompute. One more launch of the kernel records them before it.

    for k in range(n) {                           for k in range(n) {
      v = load a[i, k]                              v = load a[i, k]
      store a[i, k], s * v              ->          store residual[i, k], v
    }                                               store a[i, k], s * v }

The reverse sweep reads the residual where the kernel had read the array. The residual is one more input to the sweep,
and nothing writes it, so checkpoints, branches and loops need not know of it.

Two runs of a load may share a place in its residual if they see one value. The residual has the axes of the array,
since threads do not share elements. It has one more axis for each loop around the load in whose iterations the load may
see an element change. The launch must give an upper bound on the iterations of such a loop. Loops that move an index
take no axis of their own, nor do loops that do not write to the array. So a sweep over a row keeps a row, however long,
and the first load of an in-place LU factorisation keeps an array like the matrix. An axis of the array is left out if
the others tell the threads apart, and its index does not move (`a[i, 0]`), or only with a loop of fewer iterations than
it has elements.

Where nothing bounds the iterations of a loop, and elements are found in data (kinematic trees), the residual has no
axis for it: all reads of an element are taken to see one value. The launch that records finds out whether that is so:

    v = load a[j]                  ->   store residual[j], v;  store a_read[j], 1
    store a[k], f(v)               ->   if a_read[k] != 0 { store a_read[k], 2 };  store a[k], f(v)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxwarp.analysis.addresses import Addresses
from jaxwarp.analysis.dependence import Dependence
from jaxwarp.analysis.effects import tell_apart
from jaxwarp.analysis.integers.trips import Counter, Trips
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Const, For, Load, Op, Param, Size, Store, Value, While, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import Scalar, int32, int64, uint64
from jaxwarp.vjp.unread import without_unread

# More is not what a loop makes but what is not known of one.
_MOST_ITERATIONS = 1 << 24


@dataclass(frozen=True, eq=False)
class Iteration:
    """The iteration number of a loop: (index - start) / step. A `while` is numbered by one of its counters.

    Attributes:
        is_test: whether it is asked in the condition of a `while`, which is run once more.
        counter: of a `while`.
    """

    loop: For | While
    index: Value
    start: Value
    step: Value | int
    is_test: bool = False
    counter: Counter | None = None

    def most(self, trips: Trips) -> int | None:
        """Return a bound on the iterations, or None if none is known, or the counter might not tell them apart."""
        iterations = trips.most.get(self.loop)
        if isinstance(self.loop, While) and self.counter is not None and trips.may_wrap(self.loop, self.counter):
            return None
        return None if iterations is None or iterations >= _MOST_ITERATIONS else iterations + self.is_test


@dataclass(frozen=True, eq=False)
class Residual:
    """The array in which the values of one load are kept.

    Attributes:
        load: the load.
        axes: those of the array that the residual has.
        iterations: of the loops that have an axis too, the outermost first.
        param: the residual: these axes, then one for each of these loops.
        is_settled: whether it is only right if no element is written after it is read.
    """

    load: Load
    axes: tuple[int, ...]
    iterations: tuple[Iteration, ...]
    param: Param
    is_settled: bool = False

    def of_axes(self, items: Sequence[Any]) -> list[Any]:
        """Select the items of the residual's axes from one item (an extent, an index) for each axis of the array."""
        return [items[axis] for axis in self.axes]


@dataclass(frozen=True, eq=False)
class ResidualLaunch:
    """The kernel that writes residuals.

    Attributes:
        kernel: its parameters are some of the source's, then the residuals.
        source: the kernel whose loads are kept.
        params: for each parameter of the kernel but the residuals, its position in the source.
        written: those positions whose arrays the kernel writes.
        residuals: what is kept.
        settled: arrays, by position in the source: the last parameters of the kernel are marks of these, 2 where an
            element has been written after it had been read.
    """

    kernel: Kernel
    source: Kernel
    params: tuple[int, ...]
    written: frozenset[int]
    residuals: tuple[Residual, ...]
    settled: tuple[int, ...] = ()

    def shapes(
        self, grid: Sequence[Any], given: Sequence[Sequence[Any]]
    ) -> Iterator[tuple[Residual, tuple[Any, ...] | Iteration]]:
        """Yield the shape of each residual's array, on a launch whose parameters have the shapes `given`.

        A residual in a loop of which it is not known how many iterations it makes has that loop for a shape.
        """
        trips = Trips(self.source, grid, dict(zip(self.source.params, given, strict=True)))
        for residual in self.residuals:
            counts = [iteration.most(trips) for iteration in residual.iterations]
            unknown = [iteration for iteration, count in zip(residual.iterations, counts, strict=True) if count is None]
            own = residual.of_axes(given[self.source.params.index(residual.load.param)])
            yield residual, unknown[0] if unknown else (*own, *counts)


def unbounded_loops(kernel: Kernel, trips: Trips) -> list[For | While]:
    """Return the loops of which it is not known how many iterations they make at most."""
    loops = [op for op in walk(kernel.body) if isinstance(op, (For, While))]
    return [op for op in loops if trips.most.get(op, _MOST_ITERATIONS) >= _MOST_ITERATIONS]


def find_residuals(
    kernel: Kernel,
    dependence: Dependence,
    addresses: Addresses,
    loads: Collection[Load],
    unbounded: Collection[For | While] = (),
) -> dict[Load, Residual]:
    """A residual for each of the loads that can have one: a `while` around them needs a counter.

    Or it has to be `unbounded`, and to find the elements in data.
    """
    if not loads:
        return {}
    finder = _Finder(kernel, dependence, addresses, loads, unbounded)
    finder.block(kernel.body, ())
    return finder.found


class _Finder:
    def __init__(
        self,
        kernel: Kernel,
        dependence: Dependence,
        addresses: Addresses,
        loads: Collection[Load],
        unbounded: Collection[For | While],
    ):
        self.unbounded = unbounded
        self.dependence = dependence
        self.addresses = addresses
        self.loads = loads
        self.counters = Trips(kernel).counters
        self.found: dict[Load, Residual] = {}

    def block(self, block: Block, around: tuple[tuple[For | While, Block], ...]) -> None:
        """`around` are the loops that the block is in, and which block of theirs."""
        for op in block.ops:
            if isinstance(op, Load) and op in self.loads:
                self.load(op, around)
            for inner in op.blocks:
                self.block(inner, (*around, (op, inner)) if isinstance(op, (For, While)) else around)

    def load(self, op: Load, around: tuple[tuple[For | While, Block], ...]) -> None:
        loops = [loop for loop, _ in around]
        axes = self.axes(op, loops)
        counted = self.counted(op, loops, axes)
        is_settled = any(loop in self.unbounded for loop in counted) and any(
            map(self.addresses.is_indirect, op.indices)
        )
        if is_settled:
            axes, counted = tuple(range(op.param.rank)), []
        iterations = [iteration_of(loop, inner, self.counters) for loop, inner in around if loop in counted]
        known = tuple(iteration for iteration in iterations if iteration is not None)
        if len(known) == len(iterations):
            shape = (*(op.param.shape[axis] for axis in axes), *[None] * len(iterations))
            param = Param(f"{op.param.name}_record{len(self.found)}", op.param.dtype, shape)
            self.found[op] = Residual(op, axes, known, param, is_settled)

    def axes(self, op: Load, loops: Sequence[For | While]) -> tuple[int, ...]:
        """Return the axes of the array that the residual needs."""
        kept = tuple(range(op.param.rank))
        counted = self.counted(op, loops, kept)
        for axis in reversed(range(op.param.rank)):
            fewer = tuple(k for k in kept if k != axis)
            if not self.tells_threads(op, fewer):
                continue
            by_iterations = self.counted(op, loops, fewer)
            more = [loop for loop in by_iterations if loop not in counted]
            if not (fewer or by_iterations) or not all(self.is_shorter(op, axis, loop) for loop in more):
                continue
            kept, counted = fewer, by_iterations
        return kept

    def tells_threads(self, op: Load, axes: Sequence[int]) -> bool:
        key = self.addresses.key(op)
        found = [self.addresses.threads([key[axis]]) for axis in axes]
        return tell_apart(self.addresses.forms, [axis for axis in found if axis is not None])

    def is_shorter(self, op: Load, axis: int, loop: For | While) -> bool:
        """Has the loop at most as many iterations as the axis has elements, and is it known how many?

        So it is if each iteration certainly loads another one.
        """
        moves = self.dependence.index_tells_iteration(op, axis, loop)
        return moves and loop in self.dependence.forms.trips and self.is_certain(op, loop.blocks[0])

    def is_certain(self, op: Load, block: Block) -> bool:
        return op in block.ops or any(
            self.dependence.forms.trips.get(inner, 0) > 0 and self.is_certain(op, inner.body)
            for inner in block.ops
            if isinstance(inner, For)
        )

    def counted(self, op: Load, loops: Sequence[For | While], axes: Sequence[int]) -> list[For | While]:
        """The loops that need an axis where the residual has these axes of the array.

        Two runs of the load that share a place differ first in the iteration of one of the others. There an index that
        is kept moves, or nothing is written in between, and all that is left out is the same.
        """
        others = [index for axis, index in enumerate(op.indices) if axis not in axes]
        return [
            loop
            for loop in loops
            if not any(self.dependence.index_tells_iteration(op, axis, loop) for axis in axes)
            and (_writes(loop, op.param) or not all(self.dependence.is_invariant(index, loop) for index in others))
        ]


def _writes(loop: For | While, param: Param) -> bool:
    return any(isinstance(op, (Store, Atomic)) and op.param is param for block in loop.blocks for op in walk(block))


def iteration_of(loop: For | While, block: Block, counters: Mapping[While, Sequence[Counter]]) -> Iteration | None:
    """Return the iteration that a block of a loop is in, or None for a `while` without a counter."""
    if isinstance(loop, For):
        return Iteration(loop, loop.body.params[0], loop.start, loop.step)
    if counters.get(loop):
        counter = counters[loop][0]
        is_test = block is loop.condition
        index, start = block.params[counter.position], loop.inits[counter.position]
        return Iteration(loop, index, start, counter.step, is_test, counter)
    return None


def iteration_numbers(
    call: Callable[..., Value], const: Callable[[int, Scalar], Value], residual: Residual, use: Callable[[Value], Value]
) -> list[Value]:
    """Emit the iteration numbers of a residual's loops: indices, int64. `use` maps a value to its replacement."""
    return number_iterations(call, const, residual.iterations, use)


def number_iterations(
    call: Callable[..., Value],
    const: Callable[[int, Scalar], Value],
    iterations: Sequence[Iteration],
    use: Callable[[Value], Value],
) -> list[Value]:
    """Emit the numbers of iterations, likewise."""

    def wide(value: Value | int, dtype: Scalar) -> Value:
        if isinstance(value, int):
            return const(value % 2**64 if dtype == uint64 else value, dtype)
        found = use(value)
        return found if found.type == dtype else call(ROWS["cast"], found, dtype=dtype)

    def number(iteration: Iteration) -> Value:
        if iteration.index.type.bits < 64:
            index, start, step = (wide(v, int64) for v in (iteration.index, iteration.start, iteration.step))
            return call(ROWS["div"], call(ROWS["sub"], index, start), step)
        # Distances may be beyond int64: they are counted without a sign, from the lesser one.
        index, start, step = (wide(v, uint64) for v in (iteration.index, iteration.start, iteration.step))
        up, down = call(ROWS["sub"], index, start), call(ROWS["sub"], start, index)
        if not (iteration.index.type.is_signed or isinstance(iteration.step, int)):
            return call(ROWS["cast"], call(ROWS["div"], up, step), dtype=int64)
        is_down = call(ROWS["lt"], wide(iteration.step, int64), const(0, int64))
        distance = call(ROWS["select"], is_down, down, up)
        pace = call(ROWS["select"], is_down, call(ROWS["neg"], step), step)
        return call(ROWS["cast"], call(ROWS["div"], distance, pace), dtype=int64)

    return [number(iteration) for iteration in iterations]


def make_residual_launch(kernel: Kernel, active: Collection[Param], residuals: Sequence[Residual]) -> ResidualLaunch:
    """The kernel that writes these residuals.

    It is without writes to the arrays that are `active`, in which the kernel is linear: what is kept depends on
    none, so their loads vanish. One that does not is left, and shows that the kernel was not linear.
    """
    settled = dict.fromkeys(r.load.param for r in residuals if r.is_settled)
    marks = {p: Param(f"{p.name}_read", int32, p.shape) for p in settled}
    arrays = (*(r.param for r in residuals), *marks.values())
    body = _StoreResiduals(active, {r.load: r for r in residuals}, marks).block(kernel.body)
    made = replace(kernel, name=f"{kernel.name}_record", params=(*kernel.params, *arrays), body=body)
    made = without_unread(made, arrays)
    ops = list(walk(made.body))
    written = {op.param for op in ops if isinstance(op, (Store, Atomic))}
    used = written | {op.param for op in ops if isinstance(op, (Load, Size))}
    kept = tuple(i for i, p in enumerate(kernel.params) if p in used)
    return ResidualLaunch(
        replace(made, params=(*(kernel.params[i] for i in kept), *arrays)),
        kernel,
        kept,
        frozenset(i for i in kept if kernel.params[i] in written),
        tuple(residuals),
        tuple(kernel.params.index(p) for p in settled),
    )


class _StoreResiduals(Rewriter):
    """Adds stores to residuals and marks, and leaves out writes to what is active."""

    def __init__(self, active: Collection[Param], residuals: Mapping[Load, Residual], marks: Mapping[Param, Param]):
        super().__init__()
        self.active = active
        self.residuals = residuals
        self.marks = marks

    def op(self, op: Op) -> None:
        if isinstance(op, (Load, Store, Atomic)) and op.param in self.marks:
            self.mark(op, self.marks[op.param])
        if isinstance(op, (Store, Atomic)) and op.param in self.active:
            if isinstance(op, Atomic):
                self.emit(Load(op.result, op.param, self.all(op.indices), loc=op.loc))
            return
        self.copy(op)
        residual = self.residuals.get(op) if isinstance(op, Load) else None
        if residual is not None:
            numbers = iteration_numbers(self.call, self.const, residual, self.value)
            indices = (*self.all(residual.of_axes(residual.load.indices)), *numbers)
            self.emit(Store(residual.param, indices, self.value(residual.load.result), loc=op.loc))

    def mark(self, op: Load | Store | Atomic, mark: Param) -> None:
        """Mark an element that is read, and one that is written after that."""
        builder = Builder(self.scopes)
        builder.loc = op.loc
        indices = self.all(op.indices)
        before, zero = builder.load(mark, indices), builder.const(0, int32)
        marked = builder.call(ROWS["max"], before, builder.const(1, int32))
        if not isinstance(op, Load):
            was_read = builder.call(ROWS["ne"], before, zero)
            marked = builder.call(ROWS["select"], was_read, builder.const(2, int32), zero)
        builder.store(mark, indices, marked)

    def const(self, value: int, dtype: Scalar) -> Value:
        result = Value(dtype)
        self.emit(Const(result, value))
        return result
