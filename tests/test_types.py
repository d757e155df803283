"""What pyright and mypy know of programs of users: `make lint` has both read this file, and the tests run it.

Programs that are right have no error. Lines that are wrong are in `_refused_by_checkers`: an `ignore` that is not
needed is an error, so each of them is one for both.
"""

from __future__ import annotations

import dataclasses
from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp

SCALE = wp.constant(2.0)


@wp.func
def squared(x: float) -> float:
    return x * x


@wp.func
def reflected(v: wp.vec3, n: wp.vec3) -> wp.vec3:
    return v - 2.0 * wp.dot(v, n) * n


@wp.func(inline=True)
def halved(x: wp.float32) -> wp.float32:
    return 0.5 * x


@wp.kernel
def double(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = SCALE * x[i]


@wp.kernel(enable_backward=False)
def energies(x: wp.array[wp.vec3], k: float, n: int, total: wp.array[wp.float32]) -> None:
    i = wp.tid()
    left = wp.max(i - 1, 0)
    right = wp.min(i + 1, n - 1)
    d = wp.normalize(x[right] - x[left] + wp.vec3(1.0, 0.0, 0.0))
    up = wp.vec3(0.0, 1.0, 0.0)
    w = wp.cross(reflected(d, up), up)
    w = wp.quat_rotate(wp.quat_from_axis_angle(up, 0.5), w)
    e = squared(wp.length(w)) + halved(1.0) + wp.clamp(k, 0.0, 1.0) + wp.abs(wp.sin(k))
    s = wp.where(k > 0.0, e, -e)
    state = wp.rand_init(42, i)
    s += wp.randf(state) + wp.float32(i)
    for j in range(n):
        s += float(j)
    wp.atomic_add(total, 0, s)


@wp.kernel
def products(a: wp.array2d[float], m: wp.mat33, b: wp.array2d[float]) -> None:
    i, j = wp.tid()
    v = wp.vec3(a[i, j])
    b[i, j] = (wp.transpose(m) @ v)[0] + wp.determinant(m) + wp.trace(wp.inverse(m))


@wp.struct
class Ball:
    height: wp.array[float]


@wp.struct
class Params:
    k: float
    xs: wp.array[float]
    up: wp.vec3 = wp.vec3(0.0, 0.0, 1.0)
    n: int = 3


@wp.kernel
def fall(ball: Ball):
    i = wp.tid()
    ball.height[i] -= 1.0


@wp.kernel
def scaled(p: Params, y: wp.array[float]) -> None:
    i = wp.tid()
    y[i] = p.k * p.xs[i] * p.up[2] + float(p.n)


def twice(x: wp.array[float], y: wp.array[float]):
    wp.launch(double, dim=x.shape, inputs=[x, y])


@wp.jax_kernel(outputs="out")
def smooth(u: wp.array[float], rate: float, out: wp.array[float]) -> None:
    i = wp.tid()
    out[i] = u[i] + rate * (u[wp.min(i + 1, u.shape[0] - 1)] - u[i])


@wp.jax_kernel(outputs=("low", "high"), vmap_method="broadcast_all")
def parts(u: wp.array[float], low: wp.array[float], high: wp.array[float]) -> None:
    i = wp.tid()
    low[i] = wp.min(u[i], 0.0)
    high[i] = wp.max(u[i], 0.0)


@wp.jax_callable(outputs="y")
def twice_in_jax(x: wp.array[float], y: wp.array[float]) -> None:
    wp.launch(double, dim=x.shape, inputs=[x, y])


def test_results_of_calls() -> None:
    (y,) = wp.jax_kernel(double)(jnp.ones(3))
    total: jax.Array = y.sum()
    assert total == 6
    (z,) = wp.jax_callable(twice, num_outputs=1)(jnp.ones(3))
    assert z.shape == (3,)
    (ball,) = wp.jax_kernel(fall, in_out_argnames=["ball"], launch_dims=2)(Ball(height=jnp.ones(2)))
    assert ball.height.tolist() == [0, 0]


def test_named_outputs_and_decorated_functions() -> None:
    def loss(x: jax.Array) -> jax.Array:
        a: jax.Array = smooth(x, 0.5) + smooth(u=x, rate=0.5, launch_dims=2) + twice_in_jax(x)
        low, high = parts(x)
        return a.sum() + low.sum() + high.sum()

    assert jax.grad(loss)(jnp.ones(2)).tolist() == [4, 6]
    assert smooth.kernel.key == "smooth"


def test_structs() -> None:
    p = Params(k=2.0, xs=jnp.arange(2.0))
    q = dataclasses.replace(p, n=4)
    q.k += 1.0
    (y,) = wp.jax_kernel(scaled)(q)
    assert y.tolist() == [4, 7]
    assert p.xs.sum() == 1
    assert_type(p.k, float)


def test_geometry() -> None:
    grid = wp.HashGrid.build(jnp.zeros((3, 3)), 0.1, 4)
    found = wp.geometry.neighbors(grid, 0.1, 3)
    mesh = wp.Mesh(jnp.eye(3), jnp.zeros((1, 3), int))
    assert found is not None
    assert mesh.points is not None


def test_kernels_outside_of_jax() -> None:
    x: wp.array[wp.vec3] = wp.from_numpy(np.zeros((2, 3), np.float32), dtype=wp.vec3)
    total = wp.zeros(1, dtype=float)
    wp.launch(energies, dim=2, inputs=[x, 1.0, 2], outputs=[total])
    assert total.list()[0] > 0
    a, b = wp.ones((2, 2), dtype=float), wp.zeros((2, 2), dtype=float)
    wp.launch(products, dim=(2, 2), inputs=[a, wp.mat33(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), b])
    assert b.list() == [5] * 4


def test_tapes() -> None:
    x = wp.full(1, 3.0, dtype=float, requires_grad=True)
    y = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(double, dim=1, inputs=[x, y])
    tape.backward(loss=y)
    assert x.grad.list() == [2]


def test_arrays_outside_of_jax() -> None:
    a = wp.zeros(3, dtype=float)
    wp.launch(double, dim=3, inputs=[wp.array([1.0, 2.0, 3.0], dtype=float), a])
    assert_type(a.numpy(), np.ndarray)
    assert_type(a.list(), list[Any])
    assert_type(a.shape, tuple[int, ...])
    assert_type(a.ndim, int)
    assert_type(a.to_jax(), jax.Array)
    assert_type(a.reshape((3, 1)).numpy(), np.ndarray)
    assert_type(wp.from_numpy(a.numpy()).list(), list[Any])
    assert a.list() == [2, 4, 6]
    same: wp.array[float] = wp.clone(a)
    assert same.size == 3


def test_settings_are_known() -> None:
    assert_type(wp.config.max_unroll, int)
    wp.config.checks = ["bounds", "races"]
    wp.config.checks = wp.config.SETTINGS["checks"].default


def _types_of_the_language(v: wp.vec3d, m: wp.mat22, x: wp.float64) -> None:
    """Is never run: the functions of kernels keep the type of a vector, a matrix or a number."""
    assert_type(wp.normalize(v), wp.vec3d)
    assert_type(wp.cross(v, v), wp.vec3d)
    assert_type(wp.transpose(m), wp.mat22)
    assert_type(wp.length(v), float)
    assert_type(wp.max(x, 0.0), float)
    assert_type(wp.isnan(x), bool)
    assert_type(squared(x), float)
    assert_type(wp.quat_rotate(wp.quat(), v), wp.vec3d)


def _refused_by_checkers(a: wp.array[float], v: wp.vec3, p: Params) -> None:
    """Is never run: an `ignore` that nothing needs is an error."""
    wp.zeros(3, dtyp=float)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    wp.launch(double, dim=3, input=[a, a])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    wp.kernel(enable_bakward=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    wp.jax_kernel(double, vmap_method="nonsense")  # type: ignore  # pyright: ignore
    wp.jax_kernel(double, mode="debgu")  # type: ignore  # pyright: ignore
    wp.jax_kernel(outputs="y", mode="debgu")  # type: ignore  # pyright: ignore
    wp.jax_callable(twice, vmap_method="nonsense")  # type: ignore  # pyright: ignore
    wp.jax_kernel(double)(1, 2, 3)  # type: ignore  # pyright: ignore
    wp.jax_callable(twice)(1, 2, 3)  # type: ignore  # pyright: ignore
    smooth(1, 2, 3, 4)  # type: ignore  # pyright: ignore
    smooth.kernl  # type: ignore[attr-defined]  # pyright: ignore  # noqa: B018
    Params(kk=1.0, xs=a)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    p.kk  # type: ignore[attr-defined]  # pyright: ignore  # noqa: B018
    wp.sin(v)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    wp.sqrt(1.0, 2.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    wp.length(1.0)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    wp.geometry.neighbors(a, 0.1, 3, 4)  # type: ignore  # pyright: ignore[reportCallIssue]
    wp.geometry.neighbours(a, 0.1, 3)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    wp.config.mode = "debgu"  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    wp.config.max_unrol = 8  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    a.nump()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
