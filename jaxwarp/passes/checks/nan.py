"""NaN: a thread that makes one of numbers that are none, and then stores or adds a NaN to an array, says so.

    %c = div %a, %b        ->     %c = div %a, %b
    store y[%i], %c               if isnan %c { if not (isnan %a or isnan %b) and not made { made = line } }
                                  if isnan %c and made { report (line, %i) }
                                  store y[%i], %c

A NaN that comes from an array or a constant, and one that is not used, is no failure. What a run of operations makes is
tested once: a NaN goes on to what is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Op, Param, Store, Tid, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.checks.reports import Reports
from jaxwarp.types import int32

# They make no NaN of numbers that are none, or are meant to (bits).
_HARMLESS = (
    "select", "min", "max", "min_number", "max_number", "neg", "abs", "copysign", "cast", "bitcast", "floor", "ceil",
    "round", "sign",
)  # fmt: skip
# They may make a number of a NaN: that of an operand is looked for by itself.
_STOPPING = ("pow",)
_MOST_INDICES = 8


def check_nan(kernel: Kernel, reports: Reports) -> Kernel:
    """The kernel with tests of what it stores; as it is if that cannot be NaN."""
    writes = [op for op in walk(kernel.body) if isinstance(op, Store | Atomic) and op.param.dtype.is_float]
    makers = any(isinstance(op, Call) and _may_make(op) for op in walk(kernel.body))
    if not makers or not any(op.param not in kernel.locals for op in writes):
        return kernel
    return _CheckNan(kernel, reports).kernel(kernel)


def _may_make(op: Call) -> bool:
    return op.result.type.is_float and op.builtin.name not in _HARMLESS and any(a.type.is_float for a in op.args)


class _CheckNan(Rewriter):
    def __init__(self, kernel: Kernel, reports: Reports):
        super().__init__()
        self.b = Builder(self.scopes)
        self.reports, self.locals = reports, frozenset(kernel.locals)
        self.batches = {op.result for op in walk(kernel.body) if isinstance(op, Tid) and op.axis < reports.batched}
        names = {p.name for p in (*kernel.params, *kernel.locals)}
        self.made = Param(next(n for n in _names() if n not in names), int32, (1,))
        self.run: list[list[Call]] = []

    def kernel(self, kernel: Kernel) -> Kernel:
        checked = super().kernel(kernel)
        zero, place = Value(int32), Value(int32)
        b = Builder()
        zero, place = b.const(0, int32), b.const(0, int32)
        b.store(self.made, (place,), zero)
        body = Block((), (*b.here, *checked.body.ops), ())
        return Kernel(checked.name, checked.grid_rank, checked.params, body, (*checked.locals, self.made))

    def block(self, block: Block) -> Block:
        self.scopes.append([])
        self.run.append([])
        for op in block.ops:
            self.op(op)
        self.test_run()
        self.run.pop()
        return Block(block.params, tuple(self.scopes.pop()), self.all(block.results))

    def op(self, op: Op) -> None:
        match op:
            case Call():
                self.emit(op)
                if _may_make(op):
                    self.run[-1].append(op)
            case Store() | Atomic() if op.param.dtype.is_float and op.param not in self.locals:
                self.test_run()
                self.write(op)
                self.emit(op)
            case _:
                if op.blocks:
                    self.test_run()
                self.copy(op)

    def test_run(self) -> None:
        """Test the values made since the last test, and record the first operation that made a NaN."""
        run = self.run[-1]
        if not run:
            return
        self.run[-1] = []
        b = self.b
        b.loc = None
        used = {a for op in run if op.builtin.name not in _STOPPING for a in op.args}
        last = [op.result for op in run if op.result not in used]
        found = b.call(ROWS["isnan"], last[0])
        for value in last[1:]:
            found = b.call(ROWS["logical_or"], found, b.call(ROWS["isnan"], value))

        def search() -> Sequence[Value]:
            for op in run:
                self.put_down(op)
            return ()

        b.if_(found, search)

    def put_down(self, op: Call) -> None:
        b = self.b
        is_new = b.call(ROWS["eq"], b.load(self.made, (b.const(0, int32),)), b.const(0, int32))
        tests = [b.call(ROWS["isnan"], op.result), is_new]
        tests += [b.call(ROWS["logical_not"], b.call(ROWS["isnan"], a)) for a in op.args if a.type.is_float]
        condition = tests[0]
        for test in tests[1:]:
            condition = b.call(ROWS["logical_and"], condition, test)

        def note() -> Sequence[Value]:
            b.store(self.made, (b.const(0, int32),), b.const(op.loc.line if op.loc is not None else -1, int32))
            return ()

        b.if_(condition, note)

    def write(self, op: Store | Atomic) -> None:
        b = self.b
        b.loc = op.loc
        value = op.value if isinstance(op, Store) else op.args[-1]
        is_nan = b.call(ROWS["isnan"], value)

        def stored() -> Sequence[Value]:
            line = b.load(self.made, (b.const(0, int32),))
            b.if_(b.call(ROWS["ne"], line, b.const(0, int32)), lambda: self.report(op, line))
            return ()

        b.if_(is_nan, stored)

    def report(self, op: Store | Atomic, line: Value) -> Sequence[Value]:
        indices = [i for i in op.indices if i not in self.batches][:_MOST_INDICES]
        element = ", ".join(f"{{{1 + n}}}" for n in range(len(indices))) + ("," if len(indices) == 1 else "")
        verb = "stored to" if isinstance(op, Store) else "added to" if op.kind == "add" else "put into"
        text = f"a NaN that this thread has made in line {{0}} is {verb} element ({element}) of"
        self.reports.emit(self.b, f"{text} {self.reports.array(op.param)}", [line, *indices], op.loc)
        return ()


def _names() -> Sequence[str]:
    return ["made_nan", *(f"made_nan{i}" for i in range(1000))]
