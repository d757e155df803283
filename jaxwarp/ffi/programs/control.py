"""Loops and branches of JAX over the arrays of a program, whose bodies are functions that launch on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from jaxwarp import compat
from jaxwarp.compat import Primitive
from jaxwarp.errors import DifferentiationError
from jaxwarp.ffi.programs.traced_array import ArrayHandle, standing_for

Values = Sequence[Any]
Step = Callable[[Values], Values]


def repeated(holds: Callable[[Values], Any], step: Step, start: Values, max_iterations: int | None) -> Values:
    """Repeat a step as long as a condition holds, and no more often than `max_iterations`, if that is given."""
    if max_iterations is None:
        found = jax.lax.while_loop(holds, step, tuple(start))
        # A primitive for each: a derivative is asked for only of those that something depends on.
        return [forward_only_p.bind(x) if jnp.issubdtype(x.dtype, jnp.inexact) else x for x in found]

    def once(values: Values, _: None) -> tuple[Values, None]:
        return jax.lax.cond(holds(values), step, tuple, values), None

    return jax.lax.scan(once, tuple(start), None, length=max_iterations)[0]


def over_arrays(
    control: Callable[[Callable[[Values], Any], Sequence[Step], Values], Values],
    arrays: Sequence[ArrayHandle],
    others: Values,
    condition: ArrayHandle,
    bodies: Sequence[Callable[[], object]],
) -> None:
    """Apply a loop or a branch to the arrays that bodies may write to.

    Args:
        control: given the condition and the bodies as functions of values, and the values, returns the new values.
        arrays: that may be written where the program is now.
        others: further values that bodies may read.
        condition: the array of one number that decides.
        bodies: functions that launch on the arrays.
    """
    start = compat.unify_varying([*(a.held for a in arrays), *others])[: len(arrays)]

    def holds(values: Values) -> Any:
        with standing_for(arrays, values):
            return condition.held.reshape(()) != 0

    def step(body: Callable[[], object]) -> Step:
        def run(values: Values) -> Values:
            with standing_for(arrays, values):
                body()
                found = [a.held for a in arrays]
            # In a shard_map, what the body makes anew must vary as what it replaces.
            return tuple(compat.unify_varying([*found, *values])[: len(arrays)])

        return run

    for array, value in zip(arrays, control(holds, [step(body) for body in bodies], start), strict=True):
        array.replace(value)


forward_only_p = Primitive("jaxwarp_forward_only")


def _refuse_transpose(*_: Any) -> Any:
    raise DifferentiationError(
        "capture_while: a reverse derivative needs the number of iterations, and only the condition says it",
        hint="bound it: capture_while(condition, body, max_iterations=n), or use forward derivatives: jax.jvp",
    )


forward_only_p.def_impl(lambda x: x)
forward_only_p.def_abstract_eval(lambda aval: aval)
mlir.register_lowering(forward_only_p, lambda _, x: [x])
batching.defvectorized(forward_only_p)
ad.deflinear2(forward_only_p, _refuse_transpose)
compat.set_jet_rule(forward_only_p, lambda primals, series: (primals[0], series[0]))
