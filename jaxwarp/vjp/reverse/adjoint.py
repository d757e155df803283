"""Reverse mode: the kernel that pulls cotangents back through a kernel.

Each thread runs its part of the kernel again (without the writes), then the same operations in reverse:

    y = f(a, b)            ->   a* += df/da y*;  b* += df/db y*
    v = load x[i]          ->   x*[i] += v*
    store y[i], v          ->   v* += y*[i];  y*[i] = 0         (an atomic exchange if threads may share y[i])
    atomic_add y[i], v     ->   v* += y*[i]

A branch is run again inside the reversed branch; loops are in `loops.py`. The cotangent of an array that the kernel
writes is updated in place: it comes in as that of the final contents and leaves as that of the initial contents. Where
nobody asks for the latter, and each element is stored at most once (`single_access.py`), it is only read: nothing is
cleared. Likewise x*[i] = v* where x[i] is loaded at most once.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from jaxwarp.analysis.addresses import require_partitioned, require_pure_conditions
from jaxwarp.analysis.integers.trips import Trips
from jaxwarp.analysis.single_access import SingleAccess
from jaxwarp.analysis.thread_values import Shapes
from jaxwarp.builtins.scalar_ops.arith import EXTREMES
from jaxwarp.builtins.scalar_ops.rules import GUARDED
from jaxwarp.errors import DifferentiationError, InternalError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Param, Size, Store, Tid, Value, While, walk
from jaxwarp.passes.simplify import simplify
from jaxwarp.vjp.activity import Activity
from jaxwarp.vjp.calculus import partial_derivatives, products_of, square_in
from jaxwarp.vjp.derived import Derived, Slot, without_idle
from jaxwarp.vjp.forward.tangent import require_locally_constant, require_plain_accumulation
from jaxwarp.vjp.load_source import LoadSources
from jaxwarp.vjp.own_arrays import arrays_as_values, best_as_values, may_be_values
from jaxwarp.vjp.promote import promote_memory
from jaxwarp.vjp.replay import take_replays
from jaxwarp.vjp.reverse.context import Cotangents, Environment, cotangent_type
from jaxwarp.vjp.reverse.extrema import extrema_of
from jaxwarp.vjp.reverse.first_run import FirstRun
from jaxwarp.vjp.reverse.hoist import hoist_loads
from jaxwarp.vjp.reverse.loops import reverse_loop
from jaxwarp.vjp.reverse.own_memory import OwnMemory, clear
from jaxwarp.vjp.reverse.primal_liveness import PrimalLiveness
from jaxwarp.vjp.reverse.residuals import make_residual_launch, unbounded_loops
from jaxwarp.vjp.unread import without_unread


@dataclass(frozen=True)
class Assumed:
    """The assumptions of an adjoint that a launch finds out about.

    Attributes:
        as_written: no index of an array of floats counts from the end (`aliases.py`).
        watched: no thread reads what another one writes (`winners.py`).
        settled: no element that is found in data is written after it is read, in loops that nothing bounds
            (`residuals.py`).
    """

    as_written: bool = False
    watched: bool = False
    settled: bool = False


NOTHING = Assumed()


def adjoint(
    kernel: Kernel,
    wanted: Collection[int],
    grid: Sequence[int | None] | None = None,
    sweep: bool = False,
    finals: bool = True,
    extents: Sequence[Sequence[int | None]] | None = None,
    silent: Collection[int] = (),
    assumed: Assumed = NOTHING,
) -> Derived:
    """The kernel that maps cotangents of what the kernel writes to cotangents of the parameters in `wanted`.

    Args:
        kernel: a verified kernel.
        wanted: positions of the float parameters whose cotangents are asked: inputs, or initial values of in-outs.
        grid: launch extents that the result may rely on, as far as they are known: they help to prove that threads
            do not share elements.
        sweep: whether the kernel is a reverse sweep, or was made from one: its own arrays are checkpoints, and there
            are no residuals.
        finals: whether what the kernel leaves in its arrays can be had. Else what loads of it see is kept.
        extents: of each parameter, those that the result may rely on, likewise.
        silent: positions of parameters that the kernel writes and whose cotangents are zero, as nobody uses what it
            leaves there: a slope that is infinite or NaN does not matter for them.
        assumed: what a launch finds out.

    Raises:
        DifferentiationError: an operation whose derivative cannot be guaranteed, with its line.
    """
    replayed = take_replays(kernel, grid)
    if replayed.finals:
        raise DifferentiationError(
            "the adjoint of a kernel with a func_replay is made of its tangent: it needs what the launch leaves"
        )
    kernel = replayed.kernel
    used = [p for i, p in enumerate(kernel.params) if i not in silent]
    kernel = without_unread(kernel, used)
    shapes = dict(zip(kernel.params, extents or (), strict=extents is not None))
    as_values = set() if sweep else best_as_values(kernel)
    while True:
        try:
            known = simplify(arrays_as_values(kernel, as_values))
            return _adjoint(known, wanted, used, grid, sweep, finals, shapes, assumed)
        except _OverwrittenError as error:
            if sweep or not may_be_values(kernel, error.param):
                raise error.refusal from None
            as_values.add(error.param)


def _adjoint(
    kernel: Kernel,
    wanted: Collection[int],
    used: Collection[Param],
    grid: Sequence[int | None] | None,
    sweep: bool,
    finals: bool,
    shapes: Shapes,
    assumed: Assumed,
) -> Derived:
    """The same, with arrays of the thread's own left in memory."""
    require_pure_conditions(kernel)
    if not assumed.watched:
        require_partitioned(kernel, grid, shapes)
    promoted = without_unread(promote_memory(kernel, grid, shapes, assumed.as_written), used)
    kernel = simplify(hoist_loads(promoted, [kernel.params[i] for i in wanted]))
    sources = LoadSources(kernel, grid, finals, shapes, assumed.as_written)
    trips = Trips(kernel, grid or None, shapes)
    own = OwnMemory(kernel, () if sweep else kernel.locals, sources, trips)
    silent = [p for p in kernel.params if p not in used]
    unbounded = unbounded_loops(kernel, trips) if assumed.settled else ()
    return Adjoint(kernel, wanted, sources, own, not sweep, silent, unbounded).build()


class _OverwrittenError(Exception):
    """The loss of a value that the sweep needs from `param`, an array of the thread's own; `refusal` names the read."""

    def __init__(self, param: Param, refusal: DifferentiationError):
        super().__init__(param.name)
        self.param = param
        self.refusal = refusal


class Adjoint(FirstRun):
    """One construction of an adjoint."""

    def __init__(
        self,
        kernel: Kernel,
        wanted: Collection[int],
        sources: LoadSources,
        own: OwnMemory,
        residuals: bool = True,
        silent: Collection[Param] = (),
        unbounded: Collection[For | While] = (),
    ):
        active = Activity(kernel, [kernel.params[i] for i in wanted])
        super().__init__(kernel, active, sources, own, residuals, unbounded)
        self.kernel = kernel
        self.wanted = frozenset(wanted)
        self.silent = frozenset(silent)
        state = next((p for p in kernel.locals if p in self.activity.params and p not in own.arrays), None)
        if state is not None:
            raise DifferentiationError(
                f"this is the reverse of a reverse sweep, whose states ({state.name}) move with what is asked for; "
                "that derivative is not available here",
                hint="make one of the two forward: jax.jacfwd(jax.grad(f)), jax.jvp",
            )
        self.ownership = self.sources.ownership
        self.single_access = SingleAccess(kernel, self.ownership)
        self.products = products_of(kernel)
        self.extrema = extrema_of(kernel)
        self.written = {op.param for op in walk(kernel.body) if isinstance(op, (Store, Atomic))}
        self.cotangent_params = {
            p: Param(f"{p.name}_ct", p.dtype if p in self.written else cotangent_type(p.dtype), p.shape)
            for p in kernel.params
            if p in self.activity.params
        }
        # Arrays whose cotangent is read and not changed.
        self.read_only = {p for p in self.written if p in self.cotangent_params and self.only_reads_cotangent(p)}
        of_own = {p: Param(f"{p.name}_ct", cotangent_type(p.dtype), p.shape) for p in own.arrays}
        self.cotangent_params |= {p: of_own[p] for p in own.arrays if p in self.activity.params}

    def only_reads_cotangent(self, param: Param) -> bool:
        """Need the cotangent of an array that the kernel writes not be updated?

        Not where that of the initial contents is not asked for, and what one write takes no other access looks at.
        """
        if param in self.silent or self.kernel.params.index(param) in self.wanted:
            return False
        stored_once = self.single_access.only(param, Store) and self.single_access.at_most_once(param)
        return stored_once or self.single_access.only(param, Atomic)

    def build(self) -> Derived:
        env: Environment = ChainMap()
        for param in self.own.arrays:
            if param in self.cotangent_params:
                self.locals.append(self.cotangent_params[param])
                clear(self.builder, self.cotangent_params[param])
        self.locals += [record.param for record in self.own.records.values()]
        self.forward(self.kernel.body, env)
        self.reverse(self.kernel.body, env, {})
        params: list[Param] = []
        slots: list[Slot] = []
        for i, param in enumerate(self.kernel.params):
            params.append(param)
            slots.append(Slot("primal", i, True, False))
        for i, param in enumerate(self.kernel.params):
            if param in self.cotangent_params:
                params.append(self.cotangent_params[param])
                slots.append(Slot("cotangent", i, param in self.written, param not in self.read_only))
        for i, param in enumerate(self.kernel.params):
            if param in self.finals:
                params.append(self.finals[param])
                slots.append(Slot("final", i, True, False))
        for residual in self.residuals.values():
            params.append(residual.param)
            slots.append(Slot("residual", self.kernel.params.index(residual.load.param), True, False))
        body = self.builder.finish(f"{self.kernel.name}_vjp", self.kernel.grid_rank, params)
        derived = Kernel(body.name, body.grid_rank, body.params, body.body, tuple(self.locals))
        # What only silent results need is kept too, while any is written: A(p) needs p.
        is_whole = not self.silent & self.written & self.activity.params
        others = () if is_whole else range(len(self.kernel.params))
        result = without_idle(Derived(derived, tuple(slots)), ("primal", "final", "residual"), others)
        self.require_nothing_lost(result.kernel)
        if not any(slot.kind == "residual" for slot in result.slots):
            return result
        return self.with_residuals(Derived(derived, tuple(slots)), result, others)

    def with_residuals(self, whole: Derived, result: Derived, others: Collection[int]) -> Derived:
        """The result with the kernel that makes its residuals, and all parameters that this has: A(p) needs p."""
        used = set(result.kernel.params)
        residuals = [residual for residual in self.residuals.values() if residual.param in used]
        residual_launch = make_residual_launch(self.kernel, self.activity.params, residuals)
        whole = replace(whole, residual_launch=residual_launch)
        return without_idle(whole, ("primal", "final", "residual"), {*residual_launch.params, *others})

    def require_nothing_lost(self, result: Kernel) -> None:
        """Refuses a derivative that needs a value which was overwritten."""
        lost = set(self.lost.values())
        load = next((op for op in walk(result.body) if isinstance(op, Load) and op.param in lost), None)
        if load is None:
            return
        own = next((p for p in self.kernel.locals if self.lost.get(p) is load.param), None)
        if own is not None:
            refusal = DifferentiationError(
                f"{own.name}, an array of the thread's own, is read here, and the element may be overwritten later; "
                "the reverse sweep would need the overwritten value, and cannot record it",
                load.loc,
                hint="write the result to another array, let the loops around it have few iterations, known before the "
                "kernel runs, or differentiate forward: jax.jvp, jax.jacfwd",
            )
            raise _OverwrittenError(own, refusal)
        hint = "carry the value in a local variable, or write to another output"
        if load.param in {self.lost.get(op.param) for op in self.residual_loads}:
            hint = (
                "let something count the iterations of the while loops around it, up to a known end (`for` with "
                "`break`, `while k < 100 and ...`): then what is read in each can be recorded"
            )
        raise DifferentiationError(
            f"{load.param.name} is read here after it may have been overwritten, at an address that changes in a loop "
            "or depends on data; the reverse sweep would need the overwritten value",
            load.loc,
            hint=hint,
        )

    def reverse(self, block: Block, env: Environment, cotangents: Cotangents) -> None:
        """Emits the reverse of a block that has been run in `env`.

        `cotangents` holds those of the block's results on entry, those of its parameters and of outer
        values at the end.
        """
        outer, self.primal_liveness = self.primal_liveness, PrimalLiveness(self.builder.here)
        with self.running(block):
            for op in reversed(block.ops):
                self.builder.loc = op.loc
                self.reverse_op(op, env, cotangents)
        self.primal_liveness = outer

    def reverse_op(self, op: Op, env: Environment, cotangents: Cotangents) -> None:
        match op:
            case Const() | Tid() | Size():
                pass
            case Call():
                if not op.result.type.is_float and any(a in self.activity.values for a in op.args):
                    require_locally_constant(op)
                incoming = cotangents.pop(op.result, None)
                if incoming is not None:
                    self.reverse_call(op, env, incoming, cotangents)
            case Load():
                incoming = cotangents.pop(op.result, None)
                if incoming is not None:
                    self.accumulate(op, env, incoming)
            case Store():
                self.reverse_store(op, env, cotangents)
            case Atomic():
                if op.param in self.activity.params:
                    require_plain_accumulation(op, self.used)
                    indices = [env[v] for v in op.indices]
                    found = self.builder.load(self.cotangent_params[op.param], indices)
                    self.receive(op.param, found, op.args[0], cotangents)
            case If():
                self.reverse_if(op, env, cotangents)
            case For() | While():
                reverse_loop(self, op, env, cotangents)
            case _:
                raise InternalError(f"the adjoint of {type(op).__name__} is not defined")

    def reverse_call(self, op: Call, env: Environment, incoming: Value, cotangents: Cotangents) -> None:
        args = [env[a] for a in op.args]
        if op.builtin.name == "cast":
            self.add(cotangents, op.args[0], incoming)
        elif op.builtin.name in ("select", *EXTREMES):
            # The cotangent goes to the side that was taken; the other side gets zero, whatever its value is.
            if op.builtin.name == "select":
                condition, sides = args[0], op.args[1:]
            else:
                condition, sides = EXTREMES[op.builtin.name](self.o, *args), op.args
            self.add(cotangents, sides[0], self.chosen(condition, incoming, 0.0))
            self.add(cotangents, sides[1], self.chosen(condition, 0.0, incoming))
        elif op.builtin is GUARDED:
            self.guarded.add(incoming)
            for arg, factor in zip(op.args, reversed(args), strict=True):
                self.add(cotangents, arg, self.scaled(factor, incoming))
        else:
            factors = partial_derivatives(self.o, op, env[op.result], tuple(args))
            moved = op.args
            if (square := square_in(op, self.products, self.activity.values)) is not None:
                # One product, which may become part of a sum: 2 c v is there before the cotangent is.
                scaled, root = square
                moved, factors = (root, *op.args[2:]), (self.o.add(env[scaled], env[scaled]), *factors[2:])
            for arg, factor in zip(moved, factors, strict=True):
                if arg in self.activity.values:
                    self.add(cotangents, arg, self.scaled(factor, incoming))

    def accumulate(self, op: Load, env: Environment, incoming: Value) -> None:
        """x*[i] += v*: without an atomic where no other thread can touch the element, = where no other load does."""
        target, indices = self.cotangent_params[op.param], [env[v] for v in op.indices]
        incoming = self.o.cast(incoming, target.dtype)
        if op.param not in self.written and self.single_access.at_most_once(op.param):
            self.builder.store(target, indices, incoming)
        elif self.ownership.is_private(op.param):
            before = self.builder.load(target, indices)
            self.builder.store(target, indices, self.o.add(before, incoming))
        else:
            self.builder.atomic("add", target, indices, incoming)

    def reverse_store(self, op: Store, env: Environment, cotangents: Cotangents) -> None:
        if op.param not in self.activity.params:
            return
        target, indices = self.cotangent_params[op.param], [env[v] for v in op.indices]
        if op.param in self.read_only:
            self.receive(op.param, self.builder.load(target, indices), op.value, cotangents)
            return
        zero = self.o.number(0.0, target.dtype)
        if self.ownership.is_private(op.param):
            self.receive(op.param, self.builder.load(target, indices), op.value, cotangents)
            self.builder.store(target, indices, zero)
        else:
            # Several threads may store one value to one element: the cotangent goes to one of them.
            self.receive(op.param, self.builder.atomic("exch", target, indices, zero, takes=True), op.value, cotangents)

    def receive(self, param: Param, found: Value, value: Value, cotangents: Cotangents) -> None:
        """Give a value that was written to an array the cotangent of its element.

        For a silent array, or one of the thread's own, that cotangent is zero until the kernel has read the element.
        """
        if param in self.silent or param in self.own.arrays:
            self.guarded.add(found)
        self.add(cotangents, value, found)

    def reverse_if(self, op: If, env: Environment, cotangents: Cotangents) -> None:
        incoming = [cotangents.pop(v, None) for v in op.results]
        sides: list[tuple[list[Op], Cotangents]] = []
        for block in op.blocks:
            with self.builder.block() as ops:
                child = env.new_child()
                runs, self.runs = self.runs, self.runs.new_child()
                with self.running(block):
                    self.forward_inside(block, child)
                local: Cotangents = {}
                for value, moved in zip(block.results, incoming, strict=True):
                    self.add(local, value, moved)
                self.reverse(block, child, local)
                self.runs = runs
                sides.append((ops, local))
        outer = list(dict.fromkeys(v for _, local in sides for v in local))
        blocks = []
        for ops, local in sides:
            results = []
            for value in outer:
                if value not in local:
                    local[value] = Value(cotangent_type(value.type))
                    ops.append(Const(local[value], 0.0, loc=op.loc))
                results.append(local[value])
            blocks.append(Block((), tuple(ops), tuple(results)))
        # A side without operations may still say which value a cotangent belongs to.
        if not outer and not any(block.ops for block in blocks):
            return
        back = tuple(Value(cotangent_type(v.type)) for v in outer)
        # The side that was not taken has left zeros, or the side that was has nothing to do with the value.
        self.guarded.update(back)
        self.builder.append(If(back, env[op.condition], *blocks, loc=op.loc))
        for value, moved in zip(outer, back, strict=True):
            self.add(cotangents, value, moved)
