"""Several rows of threads in one body: what does not depend on the row is loaded and computed once for all of them.

    %i = tid 0                              %i = tid 0; %i1 = add %i, 1
    %s = for %k carry(%p = 0) {             %s, %s1 = for %k carry(%p = 0, %p1 = 0) {
        %a = load @a[%i, %k]                    %a = load @a[%i, %k]; %a1 = load @a[%i1, %k]
        %b = load @b[%k, %j]         ->         %b = load @b[%k, %j]
        %q = fma %a, %b, %p                     %q = fma %a, %b, %p; %q1 = fma %a1, %b, %p1
        yield %q }                              yield %q, %q1 }
    store @c[%i, %j], %s                    store @c[%i, %j], %s; store @c[%i1, %j], %s1

A row is an index of the last axis but one. Threads have no order: those of several rows may take turns, as long as the
operations of each stay in theirs. So a load, an atomic, a loop or a branch is done for all rows before what follows it
begins. A load of the same element in all rows is done once, whatever arrays overlap: what it stands for is a load for
each row, one after the other, with nothing between them. Branches and loops that rows take alike are one, around what
is in them for all rows; those that rows take differently are repeated, row after row. What only computes and stores,
between these, is done row by row: that takes fewer registers, and leaves stores of components side by side.

What all rows add to one element, and nobody wants to know the old value of, is summed first and added once:

    atomic_add @y[%k, %j], %q      ->      %t = add %q, %q1; atomic_add @y[%k, %j], %t

In kernels with atomics, computing waits for what wants its result, so that what is added here is not held while rows
add there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Op, Size, Store, Tid, Value, While, walk
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.ir.rows import adds_once, find_differing, is_apart, values_read
from jaxwarp.types import int32

_IN_RUNS = (Const, Tid, Size, Call, Store)


def coarsen(kernel: Kernel, rows: int, differing: frozenset[Value] | None = None) -> Kernel:
    """The kernel whose thread (.., i, j) does what those of (.., i, j) to (.., i + rows - 1, j) do.

    Args:
        kernel: of two axes at least, without arrays of a thread's own.
        rows: how many.
        differing: what `find_differing` finds, if that is known.
    """
    writer = _Rows(kernel, rows, find_differing(kernel) if differing is None else differing)
    body = kernel.body if not any(isinstance(op, Atomic) for op in walk(kernel.body)) else _delayed(kernel.body)
    return Kernel(kernel.name, kernel.grid_rank, kernel.params, writer.block(body))


def _delayed(block: Block) -> Block:
    """The block, and those in it, with computations right before the first operation that wants them."""
    ops: list[Op] = []
    waiting: dict[Value, Call] = {}

    def take(values: Iterable[Value]) -> None:
        for value in values:
            call = waiting.pop(value, None)
            if call is not None:
                take(call.args)
                ops.append(call)

    for op in block.ops:
        if isinstance(op, Call):
            waiting[op.result] = op
            continue
        take(op.operands)
        if op.blocks:
            take(list(waiting))  # it may be wanted anywhere in there
        ops.append(rebuild(op, op.defined, op.operands, [_delayed(inner) for inner in op.blocks]))
    take(list(waiting))
    return Block(block.params, tuple(ops), block.results)


class _Rows:
    """Writes the new body. `of` has what stands for a value in each row: one value for all, or as many as rows."""

    def __init__(self, kernel: Kernel, rows: int, differing: frozenset[Value]):
        self.axis = kernel.grid_rank - 2
        self.used = values_read(kernel)
        self.rows = rows
        self.differing = differing
        self.of: dict[Value, tuple[Value, ...]] = {}
        self.scopes: list[list[Op]] = []

    def fresh(self, value: Value) -> tuple[Value, ...]:
        count = self.rows if value in self.differing else 1
        new = self.of[value] = tuple(Value(value.type, value.name) for _ in range(count))
        return new

    def every(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """All values that stand for `values`, in the order in which `fresh` makes those of parameters."""
        return tuple(new for value in values for new in self.of[value])

    def in_row(self, values: Iterable[Value], row: int) -> tuple[Value, ...]:
        return tuple(self.of[v][row if v in self.differing else 0] for v in values)

    def emit(self, op: Op) -> None:
        self.scopes[-1].append(op)

    def block(self, block: Block, results: Sequence[tuple[Value, Value]] | None = None) -> Block:
        """The block for all rows. `results` pairs what it yields with what that becomes outside."""
        params = tuple(new for param in block.params for new in self.fresh(param))
        self.scopes.append([])
        ops, at = block.ops, 0
        while at < len(ops):
            if isinstance(ops[at], _IN_RUNS):
                at += self.run(ops[at:])
            else:
                self.op(ops[at])
                at += 1
        yielded = self.yielded(results) if results is not None else self.every(block.results)
        return Block(params, tuple(self.scopes.pop()), yielded)

    def yielded(self, results: Sequence[tuple[Value, Value]]) -> tuple[Value, ...]:
        """Return what a block yields: one value for each row if the target differs between rows, else one for all."""
        found: list[Value] = []
        for value, target in results:
            count = self.rows if target in self.differing else 1
            found += [self.in_row((value,), row)[0] for row in range(count)]
        return tuple(found)

    def run(self, ops: Sequence[Op]) -> int:
        """The pure operations and stores that `ops` begins with, row by row; returns how many."""
        end = next((n for n, op in enumerate(ops) if not isinstance(op, _IN_RUNS)), len(ops))
        own = []
        for op in ops[:end]:
            if isinstance(op, Tid) or not (isinstance(op, Store) or self.differing.intersection(op.defined)):
                self.op(op)
            else:
                own.append((op, [self.fresh(v) for v in op.defined]))
        for row in range(self.rows):
            for op, results in own:
                self.emit(rebuild(op, [r[row] for r in results], self.in_row(op.operands, row)))
        return end

    def op(self, op: Op) -> None:
        match op:
            case Tid() if op.axis == self.axis:
                self.tid(op)
            case If() | For() | While() if is_apart(op, self.differing):
                self.apart(op)
            case If():
                self.if_(op)
            case For():
                self.for_(op)
            case While():
                self.while_(op)
            case Atomic() if adds_once(op, self.differing, self.used):
                self.add_once(op)
            case _:
                results = [self.fresh(v) for v in op.defined]
                count = max((len(r) for r in results), default=self.rows)
                for row in range(count):
                    self.emit(rebuild(op, [r[row] for r in results], self.in_row(op.operands, row)))

    def tid(self, op: Tid) -> None:
        results = self.fresh(op.result)
        self.emit(rebuild(op, results[:1], ()))
        for row, result in enumerate(results[1:], 1):
            number = Const(Value(int32), row, loc=op.loc)
            self.emit(number)
            self.emit(Call(result, ROWS["add"], (results[0], number.result), loc=op.loc))

    def add_once(self, op: Atomic) -> None:
        results, (value,) = self.fresh(op.result), op.args
        total, *others = (self.in_row((value,), row)[0] for row in range(self.rows))
        for other in others:
            result = Value(value.type)
            self.emit(Call(result, ROWS["add"], (total, other), loc=op.loc))
            total = result
        self.emit(rebuild(op, results[:1], (*self.in_row(op.indices, 0), total)))

    def apart(self, op: Op) -> None:
        results = [self.fresh(v) for v in op.defined]
        for row in range(self.rows):
            copier = Rewriter(fresh=True)
            copier.values = {v: self.in_row((v,), row)[0] for v in self.of}
            copier.scopes.append([])
            copier.copy(op)
            (made,) = copier.scopes.pop()
            self.emit(rebuild(made, [r[row] for r in results], made.operands, made.blocks))

    def if_(self, op: If) -> None:
        results = tuple(new for v in op.results for new in self.fresh(v))
        blocks = [self.block(b, list(zip(b.results, op.results, strict=True))) for b in op.blocks]
        self.emit(If(results, self.of[op.condition][0], *blocks, loc=op.loc))

    def for_(self, op: For) -> None:
        carried = op.body.params[1:]
        start, stop, step = self.every((op.start, op.stop, op.step))
        inits = self.yielded(list(zip(op.inits, carried, strict=True)))
        body = self.block(op.body, list(zip(op.body.results, carried, strict=True)))
        results = tuple(new for v in op.results for new in self.fresh(v))
        self.emit(For(results, start, stop, step, inits, body, loc=op.loc))

    def while_(self, op: While) -> None:
        carried = op.condition.params
        inits = self.yielded(list(zip(op.inits, carried, strict=True)))
        condition = self.block(op.condition)
        body = self.block(op.body, list(zip(op.body.results, carried, strict=True)))
        results = tuple(new for v in op.results for new in self.fresh(v))
        self.emit(While(results, inits, condition, body, loc=op.loc))
