"""Reverse derivatives of sweeps over arrays that they change, by indices that count from the end or wrap around.

The same text is run by Python on arrays of NumPy, whose indices count from the end, too: for values and differences.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import define
from orders import check_orders, scalar
from overwrites import some

import jaxwarp as wp
from jaxwarp.errors import DifferentiationError
from jaxwarp.types import float64 as F

N = 6
SWEEPS = {
    "one before": """
for k in range(a.shape[1]):
    a[i, k] = sin(a[i, k]) + half * a[i, k - 1] * a[i, k]""",
    "two before": """
for k in range(a.shape[1]):
    a[i, k] = sin(a[i, k]) * a[i, k - 2] + half * a[i, k - 1]""",
    "backwards": """
for k in range(a.shape[1] - 1, -1, -1):
    a[i, k] = a[i, k] * a[i, k - 1]""",
    "backwards, and from the end": """
for k in range(a.shape[1] - 1, -1, -1):
    a[i, k] = a[i, k] * sin(a[i, k + 1 - a.shape[1]])""",
    "from one": """
for k in range(1, a.shape[1]):
    a[i, k] = a[i, k] * a[i, k - 1]
    a[i, k - 2] = sin(a[i, k - 2] * a[i, k])""",
    "both neighbours": """
for k in range(a.shape[1]):
    a[i, k] = a[i, k] * a[i, k - 1] + half * sin(a[i, k + 1 - a.shape[1]])""",
    "remainders": """
for k in range(a.shape[1]):
    a[i, k] = a[i, k] * a[i, (k + 1) % a.shape[1]] * sin(a[i, (k + 2) % 3])""",
    "stored from the end": """
for k in range(a.shape[1]):
    a[i, k - 3] = a[i, k] * sin(a[i, k - 3]) + a[i, k - 1]""",
    "several sweeps": """
for s in range(3):
    for k in range(a.shape[1]):
        a[i, k] = sin(a[i, k]) + half * sin(a[i, k - 1] * a[i, k - s])""",
    "steps of two": """
for k in range(0, a.shape[1], 2):
    a[i, k] = a[i, k] * a[i, k - 1]
    a[i, k - 1] = a[i, k] * a[i, k - 2]""",
    "known extents": """
for k in range(6):
    a[i, k] = a[i, k] * a[i, k - 1]""",
    "only half of it": """
for k in range(3):
    a[i, k] = a[i, k] * a[i, k - 3] * a[i, k - 1]""",
    "an argument": """
for k in range(a.shape[1]):
    a[i, k] = sin(a[i, k]) * a[i, k - n]""",
    "an argument as the bound": """
for k in range(min(n, 5)):
    a[i, k - n] = sin(a[i, k]) * a[i, k - n]""",
    "while": """
k = a.shape[1] - 2
while k > -3:
    a[i, k] = a[i, k] * a[i, k - 1]
    k = k - 1""",
    "the last elements of a slice": """
row = a[i, 1:5]
for k in range(4):
    row[k] = row[k] * sin(row[k - 1]) + a[i, k - 1]""",
    "added to": """
for k in range(a.shape[1]):
    a[i, k] += sin(a[i, k - 1]) * a[i, k]""",
    "two names of one element": """
a[i, n] = a[i, n] * a[i, n - 6]
a[i, n - 6] = sin(a[i, n]) * a[i, n - 1]""",
}
OTHERS = {
    "two axes": """
for j in range(2):
    for k in range(a.shape[2]):
        a[i, j, k] = sin(a[i, j, k]) + half * a[i, j - 1, k - 1] * a[i, j, k]""",
    "inner axis only": """
for k in range(a.shape[2]):
    for j in range(2):
        a[i, j, k] = a[i, j, k] * a[i, j - 1, k - 1]""",
}
OWN = """
t = wp.zeros(70, F)
for k in range(3):
    t[k - 3] = a[i, k]
    t[k] = a[i, k + 3]
for k in range(8):
    t[k] = sin(t[k]) + half * t[k - 1] * t[k - 69] + t[k - 3]
for k in range(a.shape[1]):
    a[i, k] = t[k - 5] * a[i, k - 1]"""


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def launched(body: str, rank: int) -> Any:
    text = "".join(f"    {line}\n" for line in body.strip().splitlines())
    head = f"@wp.kernel\ndef k(n: int, a: wp.array{rank}d[F]):\n    i = wp.tid()\n    half = F(0.5)\n"
    scope = define(head + text, F=F, sin=wp.sin, min=wp.min)
    call = wp.jax_kernel(scope["k"], in_out_argnames=["a"], launch_dims=2)
    return lambda n, a: call(n, a)[0]


class OnNumPy:
    @staticmethod
    def zeros(extent: int, _: type) -> np.ndarray:
        return np.zeros(extent)


def reference(body: str, n: int, a: np.ndarray) -> np.ndarray:
    changed, code = np.array(a), compile(body, "<reference>", "exec")
    for i in range(2):
        exec(code, {"a": changed, "i": i, "n": n, "half": 0.5, "sin": np.sin, "F": float, "wp": OnNumPy})
    return changed


def slopes(body: str, n: int, a: np.ndarray) -> np.ndarray:
    """The gradient of what `scalar` makes of the result, by differences."""
    found, eps = np.zeros(a.shape), 1e-6
    weights = np.cos(np.arange(a.size))
    for place in np.ndindex(a.shape):
        ends = []
        for sign in (1, -1):
            moved = a.copy()
            moved[place] += sign * eps
            ends.append(np.vdot(weights, np.sin(reference(body, n, moved)).ravel()))
        found[place] = (ends[0] - ends[1]) / (2 * eps)
    return found


def check(body: str, a: np.ndarray, n: int = 3) -> None:
    ours = launched(body, a.ndim)
    np.testing.assert_allclose(ours(n, a), reference(body, n, a), rtol=1e-12)
    found = jax.grad(scalar(lambda a: [ours(n, a)]))(a)
    np.testing.assert_allclose(found, slopes(body, n, a), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", SWEEPS)
def test_gradients(name):
    check(SWEEPS[name], some(2, N))


@pytest.mark.parametrize("name", OTHERS)
def test_gradients_with_more_axes(name):
    check(OTHERS[name], some(2, 2, 4))


def test_own_arrays():
    check(OWN, some(2, N))


@pytest.mark.parametrize("n", [0, 1, 6])
def test_arguments(n):
    check(SWEEPS["an argument"], some(2, N), n)


@pytest.mark.parametrize("name", ["one before", "stored from the end"])
def test_second_order_and_batches(name):
    body, many = SWEEPS[name], some(3, 2, N)
    ours = launched(body, 2)
    check_orders(lambda a: [ours(3, a)], (many[0],))
    found = jax.grad(lambda a: jnp.sum(jax.vmap(scalar(lambda a: [ours(3, a)]))(a)))(many)
    np.testing.assert_allclose(found, [slopes(body, 3, a) for a in many], rtol=1e-7, atol=1e-8)


def test_extents_that_are_not_known_when_it_is_traced():
    ours = launched(SWEEPS["one before"], 2)
    (n,) = jax.export.symbolic_shape("n")
    gradient = jax.jit(jax.grad(scalar(lambda a: [ours(3, a)])))
    allowed = wp.export_checks()
    exported = jax.export.export(gradient, disabled_checks=allowed)(jax.ShapeDtypeStruct((2, n), np.float64))
    for extent in (1, 5):
        a = some(2, extent)
        np.testing.assert_allclose(exported.call(a), slopes(SWEEPS["one before"], 3, a), rtol=1e-7)


def test_iterations_that_nobody_knows_are_refused_with_the_line():
    body = """
for k in range(n):
    a[i, k % 4 - 2] = sin(a[i, k % 4 - 2]) * a[i, k % 3 - 1]"""
    with pytest.raises(DifferentiationError, match="a is read here after it may have been overwritten") as error:
        jax.grad(lambda a: launched(body, 2)(3, a).sum())(some(2, N))
    assert "a[i, k % 4 - 2] = sin(a[i, k % 4 - 2]) * a[i, k % 3 - 1]" in str(error.value)
    assert "let the loop end at a constant" in str(error.value)


def test_sweeps_of_unknown_length_fail_where_an_index_counts_from_the_end():
    body = """
for k in range(n):
    a[i, k - 1] = sin(a[i, k - 1]) * a[i, k]"""
    gradient = jax.grad(lambda a: launched(body, 2)(3, a).sum())
    failed = (ValueError, jax.errors.JaxRuntimeError)
    with pytest.raises(failed, match="a is read and written, and its index -1 counts from the end here"):
        jax.block_until_ready(gradient(some(2, N)))
