"""One loop whose reverse is being made: how often it runs, its iterations run again, its reversed iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.interpret import trip_counts
from jaxwarp.ir.nodes import Call, For, Op, Value, While
from jaxwarp.types import int64, uint64
from jaxwarp.vjp.reverse.context import Cotangents, Environment, Reversal, cotangent_type


@dataclass
class Reversed:
    """One reversed iteration, as code with holes: `state` and `number` stand for what the driver will supply."""

    ops: list[Op]
    number: Value  # k, int64
    state: dict[Value, Value]  # carried value of the loop -> placeholder
    incoming: dict[Value, Value]  # carried value -> placeholder of its cotangent after the iteration
    outgoing: dict[Value, Value]  # carried value -> its cotangent before the iteration
    outer: dict[Value, Value]  # value from outside the loop -> what this iteration adds to its cotangent


class LoopSteps:
    def __init__(self, context: Reversal, op: For | While, env: Environment, cotangents: Cotangents):
        self.context = context
        self.builder = context.builder
        self.o = context.o
        self.op = op
        self.env = env
        self.cotangents = cotangents
        self.carried = op.body.params[1:] if isinstance(op, For) else op.body.params
        self.active = [i for i, v in enumerate(self.carried) if v in context.activity.values]

    def known_trips(self) -> int | None:
        """Return the number of iterations of the loop, or None if it is not a constant."""
        numbers = self.context.constants
        if isinstance(self.op, While):
            return None
        bounds = (self.op.start, self.op.stop, self.op.step)
        known = [np.full(1, numbers[v], v.type.numpy) for v in bounds if v in numbers]
        return int(trip_counts(*known)[0]) if len(known) == 3 else None

    def zero(self, value: Value) -> Value:
        return self.o.number(0.0, cotangent_type(value.type))

    def trips(self) -> Value:
        """Return the number of iterations that the loop ran, int64."""
        if isinstance(self.op, While):
            return self.context.runs[self.op].results[-1]
        o = self.o
        start, stop, step = (self.env[v] for v in (self.op.start, self.op.stop, self.op.step))
        up = o.gt(step, 0)
        runs = o.select(up, o.lt(start, stop), o.gt(start, stop))
        # Without a sign neither the distance nor the pace is beyond the type, and (distance - 1) / pace + 1 rounds up.
        wide = uint64 if step.type.bits == 64 else int64
        start, stop, step = (o.cast(v, wide) for v in (start, stop, step))
        distance = o.select(up, o.sub(stop, start), o.sub(start, stop))
        count = o.add(o.div(o.sub(distance, 1), o.select(up, step, o.neg(step))), 1)
        return o.select(runs, o.cast(count, int64), 0)

    def bind_index(self, number: Value, child: Environment) -> None:
        """The loop variable of iteration `number`."""
        if isinstance(self.op, For):
            index = self.op.body.params[0]
            start, step = self.env[self.op.start], self.env[self.op.step]
            child[index] = self.o.add(start, self.o.mul(self.o.cast(number, index.type), step))

    def step_forward(self, number: Value, state: dict[Value, Value]) -> dict[Value, Value]:
        """The carried values after iteration `number`, of those whose values before it are in `state`."""
        child = self.env.new_child(dict(state))
        for value in self.carried:
            # A value that is not kept is not read by any that is; simplification removes what it feeds.
            child.setdefault(value, self.o.number(0, value.type))
        self.bind_index(number, child)
        saved, self.context.runs = self.context.runs, self.context.runs.new_child()
        self.context.forward(self.op.body, child)
        self.context.runs = saved
        return {c: child[r] for c, r in zip(self.carried, self.op.body.results, strict=True) if c in state}

    def emit_reversed(
        self, body: Reversed, outer: tuple[Value, ...], supplied: Sequence[Value] = ()
    ) -> tuple[Value, ...]:
        """Places the reversed iteration in the open block; returns the cotangents to carry on.

        Carried values that are not `supplied` feed only code that will turn out to be unused.
        """
        for value, placeholder in body.state.items():
            if value not in supplied:
                self.builder.append(named(self.o.number(0, value.type), placeholder))
        for op in body.ops:
            self.builder.append(op)
        sums = [self.o.add(total, more) for total, more in zip(outer, body.outer.values(), strict=True)]
        return (*body.outgoing.values(), *sums)


def named(value: Value, placeholder: Value) -> Call:
    """Defines a placeholder as a value: the code with holes was made before the value was known."""
    return Call(placeholder, ROWS["cast"], (value,))
