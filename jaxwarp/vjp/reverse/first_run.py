"""The first run of a reverse sweep: every operation of the kernel but the writes, with values of its own each time.

Writes to arrays of the thread's own that stay in memory are done where the run fills them (`own_memory.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from jaxwarp.errors import DifferentiationError, InternalError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Param, Size, Store, Tid, Value, While, walk
from jaxwarp.ir.rewrite import rebuild
from jaxwarp.types import int64
from jaxwarp.vjp.activity import Activity, read_inside, used_values
from jaxwarp.vjp.load_source import LoadSources
from jaxwarp.vjp.reverse.context import Environment, Reversal
from jaxwarp.vjp.reverse.own_memory import OwnMemory
from jaxwarp.vjp.reverse.residuals import Residual, find_residuals, iteration_numbers


class FirstRun(Reversal):
    """Runs blocks again.

    Attributes:
        finals, lost: what stands for an array where its final contents are read, and where a load cannot be done again.
        residual_loads: those that may have residuals: not what is linear in the cotangents, which the launch that keeps
            them does not have.
    """

    def __init__(
        self,
        kernel: Kernel,
        activity: Activity,
        sources: LoadSources,
        own: OwnMemory,
        residuals: bool,
        unbounded: Collection[For | While] = (),
    ):
        super().__init__(kernel, activity, own)
        self.used = used_values(kernel)
        self.read_inside = read_inside(kernel)
        self.sources = sources
        self.finals: dict[Param, Param] = {}
        self.lost: dict[Param, Param] = {}
        others = {*activity.params, *kernel.locals}
        self.residual_loads = {op for op in sources.lost if op.param not in others} if residuals else set[Load]()
        self.residuals = find_residuals(kernel, sources.dependence, sources.addresses, self.residual_loads, unbounded)

    def forward(self, block: Block, env: Environment) -> None:
        """Emits the operations of a block; `env` gets what stands for its values."""
        for op in block.ops:
            self.builder.loc = op.loc
            self.forward_op(op, env)

    def forward_inside(self, block: Block, env: Environment) -> None:
        """Emits the operations of a block that is going to be reversed, and what that needs of them.

        A branch that only makes results of the block is not run: its own reverse does. Else the reverse of n branches,
        each inside the one before, would begin with n * n / 2 of them.
        """
        for op in block.ops:
            self.builder.loc = op.loc
            if not isinstance(op, If) or not self.read_inside.isdisjoint(op.results) or self.fills(op):
                self.forward_op(op, env)

    def fills(self, branch: If) -> bool:
        """Does a branch store to an array that is read outside of it, too, or to its record?"""
        outside = self.filling.difference(*(self.own.filled_by(block) for block in branch.blocks))
        inside = (op for block in branch.blocks for op in walk(block) if isinstance(op, Load | Store))
        return any(op.param in outside and (isinstance(op, Store) or op in self.own.records) for op in inside)

    def forward_op(self, op: Op, env: Environment) -> None:
        match op:
            case Load() if op in self.residuals:
                residual = self.residuals[op]
                env[op.result] = self.builder.load(residual.param, self.place(residual, env), op.result.name)
            case Load() if op in self.own.records:
                self.recorded(op, env)
            case Const() | Tid() | Size() | Call() | Load():
                operands = [env[v] for v in op.operands]
                self.builder.append(rebuild(op, self.fresh(op.defined, env), operands, params=self.source(op)))
            case Store():
                if op.param in self.filling:
                    self.builder.store(op.param, [env[v] for v in op.indices], env[op.value])
            case Atomic():
                if op.result in self.used:
                    raise DifferentiationError(
                        f"the old value that atomic_{op.kind} on {op.param.name} returns is used; "
                        "it depends on the order of threads, so the reverse sweep cannot have it again",
                        op.loc,
                        hint="choose places in a launch of its own, of integers, and differentiate another one",
                    )
            case If():
                then, orelse = (self.replayed(b, env, {}) for b in op.blocks)
                self.builder.append(If(self.fresh(op.results, env), env[op.condition], then, orelse, loc=op.loc))
            case For():
                start, stop, step, *inits = (env[v] for v in op.operands)
                body = self.replayed(op.body, env, {})
                run = For(self.fresh(op.results, env), start, stop, step, tuple(inits), body, op.over_tile, loc=op.loc)
                self.runs[op] = run
                self.builder.append(run)
            case While():
                self.forward_while(op, env)
            case _:
                raise InternalError(f"the adjoint of {type(op).__name__} is not defined")

    def recorded(self, op: Load, env: Environment) -> None:
        """A load of an array that is filled in between: done and recorded, or what has been recorded of it."""
        record = self.own.records[op]
        place = self.place(record, env)
        if op.param not in self.filling:
            env[op.result] = self.builder.load(record.param, place, op.result.name)
            return
        env[op.result] = self.builder.load(op.param, [env[v] for v in op.indices], op.result.name)
        self.builder.store(record.param, place, env[op.result])

    def place(self, residual: Residual, env: Environment) -> list[Value]:
        """The indices at which a residual has what its load saw."""
        numbers = iteration_numbers(self.builder.call, self.builder.const, residual, lambda v: env[v])
        return [*(env[v] for v in residual.of_axes(residual.load.indices)), *numbers]

    def source(self, op: Op) -> dict[Param, Param] | None:
        """Map a load's array to the one that the reverse sweep reads instead; None if it reads the same array."""
        if not isinstance(op, Load) or op not in self.sources.final | self.sources.lost:
            return None
        if op.param in self.filling or op in self.own.final:
            return None
        param, is_final = op.param, op in self.sources.final
        name = f"{param.name}_final" if is_final else param.name
        known = self.finals if is_final else self.lost
        return {param: known.setdefault(param, Param(name, param.dtype, param.shape))}

    def forward_while(self, op: While, env: Environment) -> None:
        """A `while` also counts its iterations, for the reverse sweep."""
        zero = self.o.number(0, int64)
        trips, counted, going = Value(int64, "trips"), Value(int64), Value(int64)
        condition = self.replayed(op.condition, env, {}, extra=[going])
        with self.builder.block() as ops:
            child = env.new_child()
            params = self.fresh(op.body.params, child)
            self.forward(op.body, child)
            after = self.o.add(counted, 1)
            results = (*(child[v] for v in op.body.results), after)
            body = Block((*params, counted), tuple(ops), results)
        inits = (*(env[v] for v in op.inits), zero)
        condition = Block(condition.params, condition.ops, condition.results)
        self.runs[op] = While((*self.fresh(op.results, env), trips), inits, condition, body, loc=op.loc)
        self.builder.append(self.runs[op])

    def replayed(
        self, block: Block, env: Environment, bound: Mapping[Value, Value], extra: Sequence[Value] = ()
    ) -> Block:
        """A copy of a block, run again; `bound` replaces some of its parameters by values in scope."""
        child = env.new_child(dict(bound))
        with self.builder.block() as ops:
            params = self.fresh([p for p in block.params if p not in bound], child)
            self.forward(block, child)
            return Block((*params, *extra), tuple(ops), tuple(child[v] for v in block.results))
