"""None in place of an array: which side of a test is there is known when a kernel is lowered."""

from __future__ import annotations

import re
from typing import Any, Optional

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import define

import jaxwarp as wp
from jaxwarp.errors import KernelError, KernelTypeError, KernelValueError
from jaxwarp.ir.nodes import If, Load, walk
from jaxwarp.types import Absent, Array, float32


@wp.func
def weight(weights: wp.array[float], i: int):
    if weights is None:
        return 0.5
    return weights[i]


@wp.kernel
def weighted(x: wp.array[float], weights: wp.array[float] | None, out: wp.array[float]):
    i = wp.tid()
    total = x[i]
    if weights and i < len(weights):
        total = total * weights[i]
    if not weights or weights[i] > 100.0:
        total += 1.0
    out[i] = total + weight(weights, i) + float(weights.shape[0]) + weight(None, i)


X, W = [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]
WITHOUT, WITH = [3.0, 4.0, 5.0], [2.0 + 2 + 3.5, 6.0 + 3 + 3.5, 12.0 + 4 + 3.5]


def test_in_jax():
    call = wp.jax_kernel(weighted)
    x, w = jnp.array(X), jnp.array(W)
    assert call(x, None)[0].tolist() == WITHOUT
    assert call(x, w)[0].tolist() == WITH
    assert jax.jit(lambda x, w: call(x, w)[0])(x, None).tolist() == WITHOUT
    assert jax.vmap(lambda x, w: call(x, w)[0], in_axes=(0, None))(x[None], None).tolist() == [WITHOUT]


def test_the_launch_has_the_shape_of_the_first_array_that_is_given():
    @wp.kernel
    def k(offset: wp.array[float], x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = x[i] + (offset[i] if offset else 1.0)

    assert wp.jax_kernel(k)(None, jnp.array(X))[0].tolist() == [2.0, 3.0, 4.0]
    stepped = np.zeros(3, np.float32)
    k.interpret(None, np.array(X, np.float32), stepped)
    assert stepped.tolist() == [2.0, 3.0, 4.0]


def test_derivatives():
    call = wp.jax_kernel(weighted)
    x, w = jnp.array(X), jnp.array(W)
    square = lambda x, w: (call(x, w)[0] ** 2).sum()  # noqa: E731
    assert jax.grad(square)(x, None).tolist() == [2 * v for v in WITHOUT]
    assert jax.grad(square)(x, w).tolist() == [2 * a * b for a, b in zip(WITH, W, strict=True)]
    assert jax.hessian(square)(x, None).tolist() == (2 * np.eye(3)).tolist()
    assert jax.jvp(lambda x: call(x, None)[0], (x,), (x,))[1].tolist() == X


def test_outside_of_jax_in_programs_and_in_python():
    x, out = wp.array(X, dtype=float), wp.zeros(3)
    for weights, expected in ((None, WITHOUT), (wp.array(W, dtype=float), WITH), (None, WITHOUT)):
        wp.launch(weighted, 3, [x, weights], [out])
        assert out.numpy().tolist() == expected
    stepped = np.zeros(3, np.float32)
    weighted.interpret(np.array(X, np.float32), None, stepped, dim=3)
    assert stepped.tolist() == WITHOUT

    @wp.jax_callable
    def program(x: wp.array[float], out: wp.array[float]):
        wp.launch(weighted, 3, [x, None], [out])

    assert program(jnp.array(X), output_dims=3)[0].tolist() == WITHOUT


def test_on_a_tape():
    x, out = wp.array(X, dtype=float, requires_grad=True), wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(weighted, 3, [x, None], [out])
    tape.backward(grads={out: wp.ones(3)})
    assert x.grad.numpy().tolist() == [1.0] * 3


def test_what_is_not_there_leaves_nothing_in_the_code():
    array = Array(float32)
    ops = list(walk(weighted.specialize([array, Absent(array), array]).body))
    assert [op.param.name for op in ops if isinstance(op, Load)] == ["x"]
    assert not any(isinstance(op, If) for op in ops)


def test_results_that_nobody_wants():
    @wp.kernel
    def both(x: wp.array[float], square: wp.array[float], cells: Optional[Any], table: wp.array2d[Any]):  # noqa: UP045
        i = wp.tid()
        if square:
            square[i] = x[i] * x[i]
        if None is not None:
            square[i] = 0.0
        if table is not None:
            table[i, 0] = 1.0

    x, square = wp.array(X, dtype=float), wp.zeros(3)
    wp.launch(both, 3, [x, None, 1.0, None])
    wp.launch(both, 3, [x, square, 1.0, None])
    assert square.numpy().tolist() == [1.0, 4.0, 9.0]


@pytest.mark.parametrize(
    "line",
    ["out[0] = x[0]", "x[0] = 1.0", "wp.atomic_add(x, 0, 1.0)", "x[0] += 1.0", "n = int(x[0])"],
)
def test_an_element_of_none_is_refused(line):
    k = define(f"@wp.kernel\ndef k(x: wp.array[float], n: int, out: wp.array[float]):\n    {line}\n")["k"]
    with pytest.raises(KernelValueError, match=re.escape("x is None: it has no elements")) as caught:
        wp.launch(k, 1, [None, 1, wp.zeros(1)])
    assert caught.value.hint == "pass an array, or test for it first: if x:"


CONDITIONAL = """@wp.func
def first(x: wp.array[float]):
    return x[0]

@wp.kernel
def k(flags: wp.array[int], x: wp.array2d[float], v: wp.array[wp.vec3], out: wp.array[float]):
    i = wp.tid()
    n = flags[i]
    out[i] = 1.0
    if n > 0:
        {line}
"""


@pytest.mark.parametrize(
    "line",
    [
        "out[i] = x[i, n]",
        "x[i, 0] = 1.0",
        "x[i][0] += 1.0",
        "wp.atomic_add(x, 0, n, 1.0)",
        "out[i] = first(x[i])",
        "v[i] = wp.vec3(1.0)",
        "v[i][1] = v[0].x",
        "v[i].x += 1.0",
        "out[i] = wp.length(wp.atomic_max(v, i, v[1]))",
        "out[i] = wp.where(n == 1, x[0, 0], 2.0)",
        "out[i] = float(v[n][n])",
    ],
)
def test_an_element_of_none_fails_where_a_thread_uses_it(line):
    k = define(CONDITIONAL.replace("{line}", line))["k"]
    out = wp.zeros(2)
    wp.launch(k, 2, [np.array([0, -1], np.int32), None, None, out])
    assert out.list() == [1.0, 1.0]
    message = r"thread \(1,\): (x|v) is None: it has no elements, and this thread uses one"
    with pytest.raises(wp.CheckError, match=message):
        wp.launch(k, 2, [np.array([0, 1], np.int32), None, None, out])


def test_an_element_of_none_on_another_path_has_derivatives():
    @wp.kernel
    def k(flag: int, x: wp.array[float], w: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        scale = 3.0
        if flag > 0:
            scale = w[i]
            w[i] = 0.0
        out[i] = scale * x[i]

    call = wp.jax_kernel(k, num_outputs=2, in_out_argnames=["w"])
    assert jax.grad(lambda x: call(0, x, None)[-1].sum())(jnp.array(X)).tolist() == [3.0] * 3


def test_only_arrays_are_none():
    @wp.kernel
    def k(s: float, out: wp.array[float]):
        out[0] = s

    with pytest.raises(KernelTypeError, match="argument 's': expected"):
        wp.launch(k, 1, [None], [wp.zeros(1)])
    with pytest.raises(KernelTypeError, match="argument 's': expected"):
        wp.jax_kernel(k, launch_dims=1, output_dims=1)(None)


@pytest.mark.parametrize("line", ["y = 1.0 + None", "y = None\n    out[0] = y", "y = wp.sin(None)", "y = n is n"])
def test_none_is_no_number(line):
    k = define(f"@wp.kernel\ndef k(n: int, out: wp.array[float]):\n    {line}\n")["k"]
    with pytest.raises(KernelError):
        k.specialize()
