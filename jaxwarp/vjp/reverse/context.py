"""The context for reversing blocks and loops: the code made so far, and the facts about its cotangents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Const, For, Op, Param, Value, While, walk
from jaxwarp.types import Scalar, float32
from jaxwarp.vjp.activity import Activity
from jaxwarp.vjp.calculus import Calculus, Factor
from jaxwarp.vjp.reverse.own_memory import OwnMemory
from jaxwarp.vjp.reverse.primal_liveness import PrimalLiveness

# What stands for the values of the differentiated kernel where code is being emitted.
Environment = ChainMap[Value, Value]
Cotangents = dict[Value, Value]


def cotangent_type(dtype: Scalar) -> Scalar:
    """Return the type of a value's cotangent. Half precision is too coarse for sums of many small terms."""
    return float32 if dtype.is_half else dtype


class Reversal(ABC):
    """The state of one construction.

    Attributes:
        guarded: cotangents that are zero where the side or the loop they come from was not taken.
        runs: of each loop of the differentiated kernel, the one that is its first run; that of a `while` also counts.
        constants: those of the differentiated kernel.
        locals: arrays of the thread's own.
        own: those of the differentiated kernel that stay in memory.
        extrema: the loops that look for an extremum of a tile, with the loops right inside of them.
        filling: of these, the arrays that the block which is being run fills: its stores are done.
    """

    def __init__(self, kernel: Kernel, activity: Activity, own: OwnMemory):
        self.builder = Builder()
        self.o = Calculus(self.builder)
        self.activity = activity
        self.guarded: set[Value] = set()
        self.runs: ChainMap[Op, For | While] = ChainMap()
        self.primal_liveness = PrimalLiveness([])
        self.constants = {op.result: op.value for op in walk(kernel.body) if isinstance(op, Const)}
        self.locals: list[Param] = list(kernel.locals)
        self.own = own
        self.extrema: Mapping[Op, tuple[For, ...]] = {}
        self.filling = own.filled_by(kernel.body)

    @abstractmethod
    def forward(self, block: Block, env: Environment) -> None:
        """Emits the operations of a block; `env` gets what stands for its values."""

    @abstractmethod
    def reverse(self, block: Block, env: Environment, cotangents: Cotangents) -> None:
        """Emits the reverse of a block that has been run in `env`.

        `cotangents` holds those of the block's results on entry, those of its parameters and of outer
        values at the end.
        """

    @contextmanager
    def running(self, block: Block) -> Iterator[None]:
        """Enter code that runs a block of the kernel from its beginning, or reverses it."""
        outer, self.filling = self.filling, self.own.filled_by(block)
        yield
        self.filling = outer

    def fresh(self, values: Sequence[Value], env: Environment) -> tuple[Value, ...]:
        new = tuple(Value(v.type, v.name) for v in values)
        env.update(zip(values, new, strict=True))
        return new

    def add(self, cotangents: Cotangents, value: Value, more: Value | None) -> None:
        """value* += more, if the value's cotangent is of interest."""
        if value in self.activity.values and more is not None:
            more = self.converted(more, cotangent_type(value.type))
            before = cotangents.get(value)
            total = self.o.plus(before, more)
            assert total is not None
            if more in self.guarded and (before is None or before in self.guarded):
                self.guarded.add(total)
            cotangents[value] = total

    def converted(self, cotangent: Value, dtype: Scalar) -> Value:
        result = self.o.cast(cotangent, dtype)
        if cotangent in self.guarded:
            self.guarded.add(result)
        return result

    def chosen(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        """A cotangent for one side of a choice."""
        result = self.o.select(condition, a, b)
        self.guarded.add(result)
        return result

    def scaled(self, factor: Factor, incoming: Value) -> Value | None:
        """factor * incoming, which stays zero for a side that was not taken, whatever the factor is there."""
        if isinstance(factor, Value) and self.o.known(factor) is None:
            factor = self.o.cast(factor, incoming.type)
        product = self.o.times(factor, incoming)
        if incoming not in self.guarded or product is None:
            return product
        if isinstance(factor, Value) and self.o.known(factor) is None:
            product = self.o.guarded(incoming, factor)
        self.guarded.add(product)
        return product

    def known_range(self, loop: For) -> range:
        """Return the numbers that a loop goes over; nothing if they are not known."""
        start, stop, step = (self.constants.get(v) for v in (loop.start, loop.stop, loop.step))
        return range(int(start), int(stop), int(step)) if start is not None and stop is not None and step else range(0)

    def local(self, name: str, dtype: Scalar, length: int) -> Param:
        """A new array of the thread's own."""
        param = Param(f"{name}{len(self.locals)}", dtype, (length,))
        self.locals.append(param)
        return param
