"""Slopes in both modes beside differences from both sides: for tests of derivatives at 0, at ties, at ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Slopes beyond are those of something singular, or of a step, and no derivative.
STEEPEST = 1e4


def slopes_of_rows(f: Callable[[Any], jax.Array], x: np.ndarray, along: np.ndarray) -> dict[str, np.ndarray]:
    """Slopes of f, from rows (p, n) to rows (p, e) of which each depends on its own, along d directions: (d, p, e)."""
    moved = np.broadcast_to(along[:, None], (len(along), *x.shape)).astype(x.dtype)
    forward = jax.jit(jax.vmap(lambda t: jax.jvp(f, (x,), (t,))[1]))(moved)
    count = forward.shape[-1]
    one = np.eye(count, dtype=x.dtype)[:, None] * np.ones((1, len(x), 1), x.dtype)
    gradients = jax.jit(jax.vmap(lambda c: jax.vjp(f, x)[1](c)[0]))(one)
    return {"forward": np.asarray(forward), "reverse": np.asarray(jnp.einsum("epx,dx->dpe", gradients, along))}


def ends_of_slopes(f: Callable[[Any], jax.Array], x: np.ndarray, along: np.ndarray, eps: float) -> np.ndarray:
    """Differences behind and ahead, (2, d, p, e)."""
    value, ahead, behind = jax.jit(f), [], []
    here = np.asarray(value(x))
    for t in along:
        ahead.append((np.asarray(value((x + eps * t).astype(x.dtype))) - here) / eps)
        behind.append((here - np.asarray(value((x - eps * t).astype(x.dtype)))) / eps)
    return np.array([behind, ahead])


def check_slopes(
    f: Callable[[Any], jax.Array],
    x: np.ndarray,
    along: np.ndarray,
    *,
    eps: float,
    accuracy: float,
    names: Sequence[str],
    steepest: float = STEEPEST,
) -> None:
    """Both modes give a slope between those of the two sides, which are one where f is smooth.

    Args:
        f: a function of rows, as of `slopes_of_rows`; `names` are those of its results.
        x: the rows.
        along: the directions, (d, n).
        eps: the step of the differences.
        accuracy: how far a slope may be off, beside one and the sizes of both.
        names: of what f gives.
        steepest: slopes beyond are not looked at.
    """
    ends = ends_of_slopes(f, x, along, eps)
    low, high = ends.min(0), ends.max(0)
    is_asked = np.isfinite(ends).all(0) & (np.abs(ends).max(0) < steepest)
    room = accuracy * (1 + np.abs(ends).max(0))
    wrong = []
    for mode, found in slopes_of_rows(f, x, along).items():
        is_wrong = is_asked & ~((found >= low - room) & (found <= high + room))
        for p, e in np.argwhere(is_wrong.any(0)):
            d = is_wrong[:, p, e].argmax()
            slopes = f"{found[d, p, e]:.6g}, not in [{low[d, p, e]:.6g}, {high[d, p, e]:.6g}]"
            wrong.append(f"{names[e]} {mode} at point {p} along {d}: {slopes}")
    assert not wrong, "\n".join(wrong)
