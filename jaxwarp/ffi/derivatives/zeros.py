"""`jax.jvp`, `jax.vjp` and `jax.linear_transpose` that leave out what is zero since nothing leads there.

JAX's own fill in arrays of zeros. Taken on, such a zero makes NaN of a slope that is infinite, where JAX itself has no
part in what a result does not depend on. Functions here take and return arrays by position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from jaxwarp import compat
from jaxwarp.compat import Primitive

Values = dict[int, Any]
Pair = tuple[Values, Values]
Function = Callable[[Values], Values]

# The identity. Its transpose takes note that there is one: JAX asks for none of what is zero.
mark_p = Primitive("jaxwarp_mark")


class _Marks:
    """A record of the places that a reverse pass reaches."""

    def __init__(self) -> None:
        self.reached: set[int] = set()

    def __call__(self, values: Values) -> Values:
        return {i: mark_p.bind(x, marks=self, place=i) for i, x in values.items()}

    def found(self, cotangents: Values) -> Values:
        return {i: c for i, c in cotangents.items() if i in self.reached}


def pushed(function: Function, at: Values, tangents: Values) -> Pair:
    """The results, and tangents of those that are active."""
    active: set[int] = set()

    def noted(moved: Values) -> Values:
        results = function(moved)
        active.update(i for i, x in results.items() if any(compat.has_tangent(x, y) for y in moved.values()))
        return results

    results, found = jax.jvp(noted, (at,), (tangents,))
    return results, {i: t for i, t in found.items() if i in active}


def pulled(function: Function, at: Values, cotangents: Values) -> tuple[Values, Values]:
    """The results, and cotangents of the arguments on which those depend that have one."""
    marks = _Marks()

    def asked(moved: Values) -> tuple[Values, Values]:
        results = function(marks(moved))
        return _picked(results, cotangents), results

    kept, pull, results = jax.vjp(asked, at, has_aux=True)
    (found,) = pull(_picked(cotangents, kept)) if kept else ({},)
    return results, marks.found(found)


def transposed(function: Callable[[Values], Pair], arguments: Values, cotangents: Pair) -> Values:
    """Cotangents of the (abstract) arguments of a linear function on which those results depend that have one."""
    marks = _Marks()

    def asked(moved: Values) -> list[Values]:
        return [_picked(r, c) for r, c in zip(function(marks(moved)), cotangents, strict=True)]

    kept = jax.eval_shape(asked, arguments)
    if not any(kept):
        return {}
    (found,) = jax.linear_transpose(asked, arguments)([_picked(c, k) for c, k in zip(cotangents, kept, strict=True)])
    return marks.found(found)


def _picked(values: Values, among: Values) -> Values:
    return {i: x for i, x in _floats(values).items() if i in among}


def _floats(values: Values) -> Values:
    return {i: x for i, x in values.items() if jnp.issubdtype(x.dtype, jnp.floating)}


def _mark_transpose(cotangent: Any, _: Any, *, marks: _Marks, place: int) -> list[Any]:
    marks.reached.add(place)
    return [cotangent]


def _mark_batch(operands: Sequence[Any], dims: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    return mark_p.bind(*operands, **params), dims[0]


mark_p.def_impl(lambda x, **_: x)
mark_p.def_abstract_eval(lambda x, **_: x)
mlir.register_lowering(mark_p, lambda _, x, **__: [x])
batching.primitive_batchers[mark_p] = _mark_batch
ad.deflinear2(mark_p, _mark_transpose)
