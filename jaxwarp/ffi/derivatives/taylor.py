"""The rule of launches for `jax.experimental.jet`: Taylor series along a path, by forward mode over forward mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def launch_jet(
    bind: Callable[[Sequence[Any]], list[Any]], primals: Sequence[Any], series: Sequence[Sequence[Any]]
) -> tuple[list[Any], list[list[Any]]]:
    """Results, and the coefficients of their Taylor series, first to last.

    The work doubles with each order: a kernel has no Taylor arithmetic of its own.

    Args:
        bind: launches on operands.
        primals: the operands at t = 0.
        series: of each operand the coefficients of t, t^2, ...
    """

    def along(t: jax.Array) -> list[Any]:
        return bind([_moved(x, terms, t) for x, terms in zip(primals, series, strict=True)])

    derivatives: list[Callable[[jax.Array], list[Any]]] = [along]
    for _ in series[0]:
        derivatives.append(_slope(derivatives[-1]))
    results, *slopes = [derivative(jnp.zeros(())) for derivative in derivatives]
    terms = [[(y / math.factorial(k)).astype(y.dtype) for y in of_order] for k, of_order in enumerate(slopes, 1)]
    return results, [list(of_result) for of_result in zip(*terms, strict=True)]


def _moved(x: Any, terms: Sequence[Any], t: jax.Array) -> Any:
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    t = t.astype(x.dtype)
    return x + sum(term * t**k for k, term in enumerate(terms, 1))


def _slope(function: Callable[[jax.Array], list[Any]]) -> Callable[[jax.Array], list[Any]]:
    def slope(t: jax.Array) -> list[Any]:
        results, tangents = jax.jvp(function, (t,), (jnp.ones(()),))
        pairs = zip(results, tangents, strict=True)
        # Of integers JAX has tangents without a value.
        return [jnp.zeros_like(y) if d.dtype == jax.dtypes.float0 else d for y, d in pairs]

    return slope
