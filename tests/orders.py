"""A check of derivatives of first and second order in all four orders of modes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def flat(tree: Any) -> Any:
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def scalar(f: Any) -> Any:
    return lambda *args: sum(jnp.vdot(jnp.cos(jnp.arange(y.size)), jnp.sin(y).ravel()) for y in f(*args))


def check_orders(launched: Any, args: Any) -> None:
    """A function of float64 arrays, which returns a list of such, against finite differences and itself."""
    every, f = tuple(range(len(args))), scalar(launched)
    gradient, value = jax.jit(jax.grad(f, every)), jax.jit(f)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        along, eps = [rng.standard_normal(np.shape(a)) for a in args], 1e-6
        high, low = (value(*(a + e * t for a, t in zip(args, along, strict=True))) for e in (eps, -eps))
        slope = sum(np.vdot(g, t) for g, t in zip(gradient(*args), along, strict=True))
        np.testing.assert_allclose(slope, (high - low) / (2 * eps), rtol=1e-6)
    second = {
        "forward-forward": lambda *a: jax.jvp(lambda *a: jax.jvp(f, a, tuple(along))[1], a, tuple(along))[1],
        "forward-reverse": lambda *a: jnp.vdot(flat(jax.jvp(jax.grad(f, every), a, tuple(along))[1]), flat(along)),
        "reverse-forward": lambda *a: jnp.vdot(
            flat(jax.grad(lambda *a: jax.jvp(f, a, tuple(along))[1], every)(*a)), flat(along)
        ),
        "reverse-reverse": lambda *a: jnp.vdot(
            flat(jax.grad(lambda *a: jnp.vdot(flat(jax.grad(f, every)(*a)), flat(along)), every)(*a)), flat(along)
        ),
    }
    found = jax.jit(lambda *a: [g(*a) for g in second.values()])(*args)
    np.testing.assert_allclose(found, [found[0]] * 4, rtol=1e-8)
    high, low = (gradient(*(a + e * t for a, t in zip(args, along, strict=True))) for e in (eps, -eps))
    np.testing.assert_allclose(found[0], np.vdot(flat(high) - flat(low), flat(along)) / (2 * eps), rtol=1e-5)
