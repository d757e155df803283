"""Forward mode: the kernel that pushes tangents through a kernel.

    y = f(a, b)            ->   y = f(a, b);  y' = df/da a' + df/db b'
    v = load x[i]          ->   v = load x[i];  v' = load x'[i]
    store y[i], v          ->   store y[i], v;  store y'[i], v'
    atomic_add y[i], v     ->   atomic_add y[i], v;  atomic_add y'[i], v'
    atomic_max y[i], v     ->   if v == final y[i] { store y'[i], v' }         (min likewise; one of equal operands)

Branches and loops return and carry tangents beside their values, so the control flow is the primal's. The result is
linear in the tangents. Writes to primal arrays are kept only where the kernel reads them back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from jaxwarp.analysis.addresses import require_no_visible_race
from jaxwarp.builtins.scalar_ops.arith import EXTREMES
from jaxwarp.builtins.scalar_ops.rules import GUARDED
from jaxwarp.errors import DifferentiationError, InternalError
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Param, Size, Store, Tid, Value, While, walk
from jaxwarp.ir.rewrite import rebuild
from jaxwarp.vjp.activity import Activity, used_values
from jaxwarp.vjp.calculus import Calculus, partial_derivatives, products_of, square_in
from jaxwarp.vjp.derived import Derived, Slot
from jaxwarp.vjp.forward.thread_order import require_no_order
from jaxwarp.vjp.load_source import FinalReads, loads_on_entry, reads_of_finals
from jaxwarp.vjp.replay import take_replays


def tangent(
    kernel: Kernel, wanted: Collection[int], grid: Sequence[int | None] | None = None, from_finals: bool = True
) -> Derived:
    """The kernel that maps tangents of the parameters in `wanted` to tangents of what the kernel writes.

    Args:
        kernel: a verified kernel.
        wanted: positions of the float parameters whose tangents are given: inputs, or initial values of in-outs.
        grid: launch extents, as far as they are known: they help to prove that threads do not share elements.
        from_finals: read elements that the kernel stores from the final contents where its own transpose could not have
            them otherwise: `a[k + 1] = f(a[k])`.

    Raises:
        DifferentiationError: an operation whose derivative cannot be guaranteed, with its line.
    """
    replayed = take_replays(kernel, grid)
    kernel = replayed.kernel
    require_no_visible_race(kernel, grid)
    finals = reads_of_finals(kernel, grid) if from_finals else FinalReads()
    still = [p for i, p in enumerate(kernel.params) if i not in wanted and p.dtype.is_float]
    made = _Tangent(kernel, wanted, finals, replayed.finals, loads_on_entry(kernel, still, grid))
    require_no_order(kernel, made.activity, made.used, grid)
    return made.build()


def directional(builder: Builder, block: Block, by: Value) -> Value | None:
    """Appends a block that writes nothing, and the derivative of its only result by a value from outside.

    Returns:
        the derivative; None where it is zero everywhere.
    """
    seed = Param("seed", by.type, ())
    kernel = Kernel("directional", 1, (seed,), Block((), (Load(by, seed, ()), *block.ops), block.results))
    tangent = _Tangent(kernel, [0])
    tangent.builder, tangent.o = builder, Calculus(builder)
    loc = builder.loc
    tangent.tangents[by] = builder.const(1.0, by.type)
    tangent.ops(block)
    builder.loc = loc
    return tangent.tangents.get(block.results[0])


class _Tangent:
    def __init__(
        self,
        kernel: Kernel,
        wanted: Collection[int],
        reads: FinalReads | None = None,
        finals: Mapping[Param, Param] | None = None,
        on_entry: Collection[Load] = (),
    ):
        self.kernel = kernel
        # The last parameters are what replays read of the kernel's results.
        self.params = kernel.params[: len(kernel.params) - len(finals or {})]
        self.wanted = frozenset(wanted)
        # Where no tangent comes in, there is none to load until one is stored: 0 would make NaN of an infinite slope.
        self.activity = Activity(kernel, [kernel.params[i] for i in wanted], on_entry)
        self.builder = Builder()
        self.o = Calculus(self.builder)
        self.tangents: dict[Value, Value] = {}
        ops = list(walk(kernel.body))
        reads = reads or FinalReads()
        self.final = reads.loads
        self.read = {op.param for op in ops if isinstance(op, Load) and op not in self.final}
        # Arrays that are read after they are written: these stores are done here too.
        self.kept = (self.read | _observed_atomics(kernel, ops)) - reads.arrays
        self.written = {op.param for op in ops if isinstance(op, (Store, Atomic))}
        self.used = used_values(kernel)
        self.products = products_of(kernel)
        arrays = (*kernel.params, *kernel.locals)
        self.left_out = reads.arrays
        self.finals: dict[Param, Param] = dict(finals or {})
        self.tangent_params = {p: Param(f"{p.name}_t", p.dtype, p.shape) for p in arrays if p in self.activity.params}

    def build(self) -> Derived:
        self.ops(self.kernel.body)
        params: list[Param] = []
        slots: list[Slot] = []
        for i, param in enumerate(self.params):
            if self.keeps(param):
                params.append(param)
                slots.append(Slot("primal", i, True, param in self.written and param not in self.left_out))
        for i, param in enumerate(self.params):
            if param in self.tangent_params:
                params.append(self.tangent_params[param])
                slots.append(Slot("tangent", i, i in self.wanted, param in self.written))
        for i, param in enumerate(self.params):
            if param in self.finals:
                params.append(self.finals[param])
                slots.append(Slot("final", i, True, False))
        name = f"{self.kernel.name}_jvp"
        locals_ = [p for local in self.kernel.locals for p in (local, self.tangent_params.get(local)) if p is not None]
        body = self.builder.finish(name, self.kernel.grid_rank, params)
        return Derived(dataclasses.replace(body, locals=tuple(locals_)), tuple(slots))

    def keeps(self, param: Param) -> bool:
        """Return whether the tangent kernel needs the primal array: it reads it, or asks for its extents."""
        return param in self.read | self.kept or param not in self.written or param in _sized(self.kernel)

    def ops(self, block: Block) -> None:
        for op in block.ops:
            self.builder.loc = op.loc
            self.op(op)

    def tangent(self, value: Value) -> Value | None:
        return self.tangents.get(value)

    def dense(self, value: Value) -> Value:
        """The tangent, zeros included."""
        found = self.tangents.get(value)
        return self.o.number(0.0, value.type) if found is None else found

    def op(self, op: Op) -> None:
        match op:
            case Const() | Tid() | Size():
                self.builder.append(op)
            case Call():
                self.builder.append(op)
                self.call(op)
            case Load():
                source = {op.param: self.final_contents(op.param)} if op in self.final else None
                self.builder.append(rebuild(op, op.defined, op.operands, params=source))
                if op.param in self.activity.params and op not in self.activity.still:
                    self.tangents[op.result] = self.builder.load(self.tangent_params[op.param], op.indices)
            case Store():
                if op.param in self.kept:
                    self.builder.append(op)
                if op.param in self.activity.params:
                    self.builder.store(self.tangent_params[op.param], op.indices, self.dense(op.value))
            case Atomic():
                self.atomic(op)
            case If():
                self.if_(op)
            case For():
                self.for_(op)
            case While():
                self.while_(op)
            case _:
                raise InternalError(f"the tangent of {type(op).__name__} is not defined")

    def call(self, op: Call) -> None:
        if not any(a in self.tangents for a in op.args):
            return
        if not op.result.type.is_float:
            require_locally_constant(op)
            return
        square = square_in(op, self.products, self.tangents)
        if square is None:
            found = call_tangent(self.o, op, op.result, op.args, [self.tangent(a) for a in op.args])
        else:
            scaled, root = square
            found = self.o.plus(
                self.o.times(self.o.add(scaled, scaled), self.dense(root)) if root in self.tangents else None,
                self.tangent(op.args[2]) if len(op.args) == 3 else None,
            )
        if found is not None:
            self.tangents[op.result] = found

    def atomic(self, op: Atomic) -> None:
        active = op.param in self.activity.params
        if op.param in self.kept or op.result in self.used:
            self.builder.append(op)
        if not active:
            return
        if op.kind in ("min", "max"):
            self.selection(op)
            return
        require_plain_accumulation(op, self.used)
        moved = self.tangent(op.args[0])
        if op.takes:
            zero = self.dense(op.args[0])
            old = self.builder.atomic("exch", self.tangent_params[op.param], op.indices, zero, takes=True)
            self.tangents[op.result] = old
            return
        if moved is not None:
            self.builder.atomic("add", self.tangent_params[op.param], op.indices, moved)

    def selection(self, op: Atomic) -> None:
        """The tangent of a minimum or maximum is that of the operand which it is in the end."""
        others = [x for x in walk(self.kernel.body) if isinstance(x, (Load, Store, Atomic)) and x.param is op.param]
        if any(not isinstance(x, Atomic) or x.kind != op.kind or x.result in self.used for x in others):
            raise DifferentiationError(
                f"atomic_{op.kind} on {op.param.name} has no derivative here: the kernel also uses {op.param.name} in "
                "another way, so what the array holds in the end does not tell which operand was selected",
                op.loc,
                hint="use an array that is an output, and nothing but atomics on it",
            )
        final = self.final_contents(op.param)
        is_selected = self.o.eq(op.args[0], self.builder.load(final, op.indices))
        with self.builder.block() as ops:
            self.builder.store(self.tangent_params[op.param], op.indices, self.dense(op.args[0]))
            then = Block((), tuple(ops), ())
        self.builder.append(If((), is_selected, then, Block((), (), ()), loc=op.loc))

    def final_contents(self, param: Param) -> Param:
        return self.finals.setdefault(param, Param(f"{param.name}_final", param.dtype, param.shape))

    def branch(self, block: Block, active: Sequence[int]) -> Block:
        with self.builder.block() as ops:
            self.ops(block)
            results = (*block.results, *(self.dense(block.results[i]) for i in active))
            return Block(block.params, tuple(ops), results)

    def if_(self, op: If) -> None:
        active = self.active(op.results)
        then, orelse = self.branch(op.then, active), self.branch(op.orelse, active)
        fresh = self.fresh(op.results, active)
        self.builder.append(If((*op.results, *fresh), op.condition, then, orelse, loc=op.loc))

    def for_(self, op: For) -> None:
        active = self.active(op.results)
        inits = (*op.inits, *(self.dense(op.inits[i]) for i in active))
        carried = self.fresh(op.body.params[1:], active)
        body = self.branch(op.body, active)
        body = Block((*op.body.params, *carried), body.ops, body.results)
        results = (*op.results, *self.fresh(op.results, active))
        self.builder.append(For(results, op.start, op.stop, op.step, inits, body, op.over_tile, loc=op.loc))

    def while_(self, op: While) -> None:
        active = self.active(op.results)
        inits = (*op.inits, *(self.dense(op.inits[i]) for i in active))
        test = Block((*op.condition.params, *self.fresh(op.condition.params, active)), (), ())
        with self.builder.block() as ops:
            self.ops(op.condition)
            test = Block(test.params, tuple(ops), op.condition.results)
        carried = self.fresh(op.body.params, active)
        body = self.branch(op.body, active)
        body = Block((*op.body.params, *carried), body.ops, body.results)
        results = (*op.results, *self.fresh(op.results, active))
        self.builder.append(While(results, inits, test, body, loc=op.loc))

    def active(self, values: Sequence[Value]) -> list[int]:
        return [i for i, v in enumerate(values) if v in self.activity.values]

    def fresh(self, values: Sequence[Value], active: Sequence[int]) -> tuple[Value, ...]:
        """New values for the tangents of `values`, at the positions in `active`."""
        new = tuple(Value(values[i].type, f"{values[i].name}_t" if values[i].name else "") for i in active)
        self.tangents.update((values[i], t) for i, t in zip(active, new, strict=True))
        return new


def call_tangent(
    o: Calculus, op: Call, out: Value, args: Sequence[Value], tangents: Sequence[Value | None]
) -> Value | None:
    """The tangent of one call, None for zero. A select chooses between tangents: the other side cannot spoil it."""
    if op.builtin.name == "cast":
        return o.cast(tangents[0], out.type) if tangents[0] is not None else None
    if op.builtin.name == "select":
        return _chosen(o, args[0], tangents[1], tangents[2])
    if op.builtin.name in EXTREMES:
        return _chosen(o, EXTREMES[op.builtin.name](o, *args), *tangents)
    if op.builtin is GUARDED:
        by_incoming = o.guarded(tangents[0], args[1]) if tangents[0] is not None else None
        return o.plus(by_incoming, o.guarded(args[0], tangents[1]) if tangents[1] is not None else None)
    factors = partial_derivatives(o, op, out, tuple(args))
    total = None
    for factor, moved in zip(factors, tangents, strict=True):
        if moved is not None:
            total = o.plus(total, o.times(factor, moved))
    return total


def _chosen(o: Calculus, condition: Value, a: Value | None, b: Value | None) -> Value | None:
    if a is None and b is None:
        return None
    return o.select(condition, 0.0 if a is None else a, 0.0 if b is None else b)


def require_locally_constant(op: Call) -> None:
    """Integers and bools made from floats do not move with them, except where bits are reinterpreted."""
    if op.builtin.name == "bitcast":
        raise DifferentiationError(
            "bitcast has no derivative: it reads the bits of a float",
            op.loc,
            hint="write float(x) or int(x) to convert the value, or give the @func a rule with func_grad",
        )


def require_plain_accumulation(op: Atomic, used: Collection[Value]) -> None:
    """Refuses atomics whose derivative is not known: other kinds than add, and old values that are used.

    Except the exchange by which a reverse sweep takes a cotangent that threads share.
    """
    if op.takes:
        return
    if op.kind != "add":
        raise DifferentiationError(
            f"atomic_{op.kind} on {op.param.name} has no derivative",
            op.loc,
            hint="use atomic_add, atomic_min or atomic_max, or jax.lax.stop_gradient around what it works on",
        )
    if op.result in used:
        raise DifferentiationError(
            f"the old value that atomic_add on {op.param.name} returns is used; it depends on the order of threads, "
            "so its derivative is not defined",
            op.loc,
            hint="use what atomic_add returns of integers only, or read the array in another launch",
        )


def _observed_atomics(kernel: Kernel, ops: Sequence[Op]) -> set[Param]:
    """Arrays whose old value some atomic returns to the kernel."""
    used = used_values(kernel)
    return {op.param for op in ops if isinstance(op, Atomic) and op.result in used}


def _sized(kernel: Kernel) -> set[Param]:
    return {op.param for op in walk(kernel.body) if isinstance(op, Size)}
