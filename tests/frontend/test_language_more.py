"""Default values of kernels' arguments, vectors taken apart, loops that never end, overloads called from Python."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import define

import jaxwarp as wp
from jaxwarp.errors import KernelError, KernelSyntaxError

LIMITS = [1.0, 2.0]
HIGH = wp.vec2(*LIMITS)


@wp.func
def clip(x: float, low: float, high: wp.vec2):
    a, b = high
    return wp.clamp(x, low, wp.min(a, b))


@wp.kernel
def clipped(
    x: wp.array[float],
    low: float = 0.0,
    high: wp.vec2 = HIGH,
    w: wp.array[float] | None = None,
    out: wp.array[float] | None = None,
):
    i = wp.tid()
    y = clip(x[i], low, high)
    if w:
        y *= w[i]
    out[i] = y


@wp.kernel
def clipped_from(x: wp.array[float], out: wp.array[float], low: float = 0.0, high: wp.vec2 = HIGH):
    out[wp.tid()] = clip(x[wp.tid()], low, high)


X = np.array([-1.0, 0.5, 3.0], np.float32)


def test_calls_leave_out_arguments_with_default_values():
    call = wp.jax_kernel(clipped)
    assert call(X)[0].tolist() == [0.0, 0.5, 1.0]
    assert call(X, 0.25)[0].tolist() == [0.25, 0.5, 1.0]
    assert call(X, high=wp.vec2(2.0))[0].tolist() == [0.0, 0.5, 2.0]
    assert jax.jit(lambda x: call(x, w=2.0 * x)[0])(X).tolist() == [0.0, 0.5, 6.0]
    assert jax.grad(lambda x: jnp.sum(call(x, low=-9.0)[0]))(X).tolist() == [1.0, 1.0, 0.0]
    with pytest.raises(KernelError, match="x is missing"):
        call(low=1.0)


def test_launches_leave_out_the_last_ones():
    out = wp.zeros(3)
    wp.launch(clipped_from, dim=3, inputs=[X], outputs=[out])
    assert out.numpy().tolist() == [0.0, 0.5, 1.0]
    wp.launch(clipped_from, dim=3, inputs=[X, out, -1.0])
    assert out.numpy().tolist() == [-1.0, 0.5, 1.0]
    clipped_from.interpret(X, out, low=0.125)
    assert out.numpy().tolist() == [0.125, 0.5, 1.0]
    with pytest.raises(KernelError, match="expected 4 arguments"):
        wp.launch(clipped_from, dim=3, inputs=[X])


def test_default_values_are_kept():
    HIGH[0] = -5.0
    assert wp.jax_kernel(clipped)(X)[0].tolist() == [0.0, 0.5, 1.0]


def test_a_default_value_of_another_type_is_refused():
    kernel = define("@wp.kernel\ndef k(out: wp.array[float], n: int = 1.5):\n    out[wp.tid()] = float(n)\n")["k"]
    with pytest.raises(KernelError, match="argument 'n'"):
        wp.launch(kernel, dim=1, inputs=[wp.zeros(1)])


def test_vectors_are_taken_apart():
    source = "@wp.kernel\ndef k(v: wp.array[wp.vec3]):\n    u = v[0]\n    {}\n"
    body = "x, y, z = u\n    v[1] = wp.vec3(z, wp.float(wp.int(x)), wp.static(1.0 * len(u)))"
    make = define(source.format(body))["k"]
    a = wp.array([[1.5, 2.0, 4.0], [0.0, 0.0, 0.0]], dtype=wp.vec3)
    wp.launch(make, dim=1, inputs=[a])
    assert a.numpy()[1].tolist() == [4.0, 1.0, 3.0]
    with pytest.raises(KernelError, match="cannot unpack 3 values into 2 names"):
        define(source.format("x, y = u"))["k"].specialize()


def test_rows_of_a_matrix_are_taken_apart():
    @wp.kernel
    def k(m: wp.array[wp.mat22], out: wp.array[float]):
        i = wp.tid()
        (a, b), r = m[i]
        out[i] = a * b + wp.dot(r, r)

    call = wp.jax_kernel(k)
    m = np.array([[[2.0, 3.0], [4.0, 5.0]]], np.float32)
    assert call(m)[0].tolist() == [47.0]
    assert jax.grad(lambda m: call(m)[0].sum())(m).tolist() == [[[3.0, 2.0], [8.0, 10.0]]]


@pytest.mark.parametrize("test", ["ALWAYS", "1 < 2", "wp.static(ALWAYS)"])
def test_loops_that_never_end_are_refused(test):
    body = f"@wp.kernel\ndef k(n: int, out: wp.array[float]):\n    while {test}:\n        out[0] += 1.0\n"
    scope: dict[str, Any] = define("ALWAYS = True\n" + body)
    with pytest.raises(KernelSyntaxError, match="this loop never ends"):
        scope["k"].specialize()
    left = define("ALWAYS = True\n" + body + "        if out[0] > 3.0:\n            break\n")["k"]
    out = wp.zeros(1)
    wp.launch(left, dim=1, inputs=[1, out])
    assert out.numpy().tolist() == [4.0]


@wp.func
def kind(x: float):
    return 1.0 * x


@wp.func
def kind(x: int):  # noqa: F811
    return 100.0 + float(x)


@wp.func
def kind(x: wp.vec2):  # noqa: F811
    return x[0]


@wp.func
def kind(x: wp.vec2, y: Any):  # noqa: F811
    return x[1]


@wp.func
def kind(x: wp.array[float]):  # noqa: F811
    return x[1]


def test_overloads_called_from_python_are_chosen_by_the_values():
    assert (kind(2.0), kind(2), kind(np.float32(3.0)), kind(np.int32(3))) == (2.0, 102.0, 3.0, 103.0)
    assert (kind(wp.vec2(5.0, 6.0)), kind(wp.vec2(5.0, 6.0), 1)) == (5.0, 6.0)
    assert kind(np.array([7.0, 8.0], np.float32)) == 8.0
    for wrong in ((wp.vec3(),), (2.0, 1), ()):
        with pytest.raises(KernelError, match="no overload of kind takes"):
            kind(*wrong)
