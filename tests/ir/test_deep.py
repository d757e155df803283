"""Kernels deeper than Python's recursion limit, and programs that are deep themselves."""

from __future__ import annotations

import sys
import threading

import jax
import numpy as np
import pytest
from language import define

from jaxwarp import jax_kernel
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import KernelError
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.nodes import For, walk

HEAD = "@wp.kernel\ndef k(a: wp.array[float], out: wp.array[float]):\n    i = wp.tid()\n"


def test_a_sum_of_hundreds_of_terms():
    terms = 600
    kernel = define(f"{HEAD}    out[i] = {' + '.join(['a[i]'] * terms)}\n")["k"]
    (got,) = jax_kernel(kernel)(np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(got, np.arange(3) * terms)


def test_hundreds_of_early_returns():
    count = 150
    body = "".join(f"    if a[i] == {n}.0:\n        return\n    out[i] += 1.0\n" for n in range(count))
    kernel = define(HEAD + body)["k"]
    (got,) = jax_kernel(kernel)(np.array([0, 7, 149, 200], np.float32))
    np.testing.assert_array_equal(got, [0, 7, 149, 150])
    assert kernel.source("cuda").count("if (") >= count


def chain(branches: int) -> str:
    """y = x * (l + 0.5) in the l-th branch of an `elif` chain."""
    tests = (f"    {'elif' if n else 'if'} i == {n}:\n        v = v * {n}.5\n" for n in range(branches))
    return f"{HEAD}    v = a[i]\n{''.join(tests)}    out[i] = v\n"


def test_a_thousand_branches_after_each_other():
    kernel = define(chain(1000))["k"]
    (got,) = jax_kernel(kernel)(np.ones(1001, np.float32))
    np.testing.assert_array_equal(got, [*(np.arange(1000) + 0.5), 1.0])


def test_the_gradient_of_branches_after_each_other_grows_as_they_do(monkeypatch):
    made = []
    append = Builder.append
    monkeypatch.setattr(Builder, "append", lambda self, op: (made.append(op), append(self, op))[1])

    def operations(branches: int) -> int:
        made.clear()
        call = jax_kernel(define(chain(branches))["k"])
        gradient = jax.grad(lambda a: call(a)[0].sum())(np.ones(branches + 1, np.float32))
        np.testing.assert_array_equal(gradient, [*(np.arange(branches) + 0.5), 1.0])
        return len(made)

    few, many = operations(40), operations(160)
    assert few > 40
    assert many < 5 * few


def test_branches_inside_each_other_without_end_are_refused():
    lines = chain(2010)
    with pytest.raises(KernelError, match="nested too deeply: more than 2000 branches") as raised:
        define(lines)["k"].ir()
    assert raised.value.loc is not None
    assert raised.value.loc.line > 2000


def nested_loops(inner: str) -> str:
    loops = "for p in range(16):\n        for q in range(16):\n            for r in range(16):\n"
    return f"{HEAD}    v = float(0.0)\n    {loops}                v += {inner} * a[i]\n    out[i] = v\n"


def test_loops_inside_each_other_are_unrolled_while_that_is_little():
    kernel = define(nested_loops("float(p * q + r)"))["k"]
    kinds = [type(op) for op in walk(kernel.ir().body)]
    assert kinds.count(For) == 256  # the innermost, for each iteration of the others
    (got,) = jax_kernel(kernel)(np.ones(2, np.float32))
    np.testing.assert_array_equal(got, 16 * 120.0**2 + 256 * 120.0)


def test_loops_whose_index_has_to_be_a_constant_are_always_unrolled():
    kernel = define(nested_loops("wp.static(float(p * q + r))"))["k"]
    assert not any(isinstance(op, For) for op in walk(kernel.ir().body))


def at_depth(frames: int, function):
    return function() if frames == 0 else at_depth(frames - 1, function)


def test_a_small_kernel_in_a_deep_program():
    body = "    if a[i] > 0.0:\n        for j in range(3):\n            out[i] = ((a[i] + 1.0) * 2.0 + float(j))\n"
    shallow, deep = (define(HEAD + body)["k"] for _ in range(2))
    source = at_depth(sys.getrecursionlimit() - 250, lambda: deep.source("cuda"))
    assert source == shallow.source("cuda")


def depth(n: int) -> int:
    return 0 if n == 0 else 1 + depth(n - 1)


def test_the_settings_of_the_process_are_as_before():
    before = sys.getrecursionlimit(), threading.stack_size()
    assert with_deep_stack(depth)(5 * before[0]) == 5 * before[0]
    assert (sys.getrecursionlimit(), threading.stack_size()) == before
    with pytest.raises(RecursionError):
        depth(5 * before[0])


def test_errors_come_through_and_endless_recursion_ends():
    def fails(n: int) -> int:
        if n == 0:
            raise KeyError("at the bottom")
        return fails(n - 1)

    with pytest.raises(KeyError, match="at the bottom"):
        with_deep_stack(fails)(5000)
    with pytest.raises(RecursionError):
        with_deep_stack(fails)(-1)
