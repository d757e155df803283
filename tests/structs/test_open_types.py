"""Structs, arrays of structs and indexed arrays for arguments that leave their type open; what of a struct is a result;
gradients by structs."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError

T = TypeVar("T")


@wp.struct
class Inner:
    m: wp.mat22
    k: float


@wp.struct
class Body:
    x: float
    v: wp.vec3
    inner: Inner
    n: int
    a: wp.array[float]


@wp.struct
class Mass:
    x: float


@wp.func
def doubled(s: Any):
    return s.x * 2.0


@wp.kernel
def read(s: Any, out: wp.array[float]):
    out[wp.tid()] = doubled(s)


@wp.kernel
def moved(source: wp.array[Any], out: wp.array[Any]):
    i = wp.tid()
    out[i] = source[i]


@wp.kernel
def indexed(source: wp.indexedarray(dtype=Any), out: wp.array[Any]):  # pyright: ignore
    i = wp.tid()
    out[i] = source[i]


@wp.kernel
def both(a: T, b: T, out: wp.array[float]):
    out[0] = a.x + b.x


def body(x: float = 3.0) -> Body:
    return Body(x, jnp.array([1.0, 2.0, 3.0]), Inner(jnp.full((2, 2), 2.0), 5.0), 4, jnp.array([7.0]))


def test_any_is_the_struct_that_is_given():
    out = wp.zeros(2, dtype=float)
    for given in (Mass(3.0), body()):
        wp.launch(read, dim=2, inputs=[given], outputs=[out])
        assert out.list() == [6.0, 6.0]
        out.zero_()
    launched = wp.jax_kernel(read, launch_dims=2)
    assert launched(Mass(3.0))[0].tolist() == [6.0, 6.0]
    assert jax.grad(lambda s: launched(s)[0].sum())(Mass(3.0)).x == 4.0
    assert jax.vmap(launched)(Mass(jnp.arange(3.0)))[0].tolist() == [[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]
    stepped = np.zeros(2, np.float32)
    read.interpret(Mass(3.0), stepped, dim=2)
    assert stepped.tolist() == [6.0, 6.0]
    with pytest.raises(wp.KernelError, match="float32 has no attribute x"):
        wp.launch(read, dim=2, inputs=[1.0], outputs=[out])


def test_arrays_of_any_are_of_structs_and_indexed():
    records = wp.array([Mass(1.0), Mass(2.0)], dtype=Mass)
    out = wp.zeros_like(records)
    wp.launch(moved, dim=2, inputs=[records], outputs=[out])
    assert out.numpy()["x"].tolist() == [1.0, 2.0]
    (made,) = wp.jax_kernel(moved, launch_dims=2)(Mass(jnp.arange(2.0)))
    assert isinstance(made, Mass)
    assert made.x.tolist() == [0.0, 1.0]
    cells, numbers = wp.array([1.0, 2.0, 3.0], dtype=float), wp.zeros(2, dtype=float)
    for k in (moved, indexed):
        wp.launch(k, dim=2, inputs=[cells[wp.array([2, 0], dtype=int)]], outputs=[numbers])
        assert numbers.list() == [3.0, 1.0]
        numbers.zero_()
        part = wp.indexedarray(jnp.arange(4.0), jnp.array([3, 1]))
        assert wp.jax_kernel(k, launch_dims=2)(part)[0].tolist() == [3.0, 1.0]
    assert wp.jax_kernel(moved)(jnp.arange(2))[0].dtype == jnp.int32


def test_a_type_variable_is_one_struct():
    out = wp.zeros(1, dtype=float)
    wp.launch(both, dim=1, inputs=[Mass(1.0), Mass(2.0), out])
    assert out.list() == [3.0]
    with pytest.raises(KernelTypeError, match="argument 'b': T is Mass for 'a', got Body"):
        wp.launch(both, dim=1, inputs=[Mass(1.0), body(), out])


@wp.struct
class System:
    near: wp.array[int]
    x: wp.array[float]
    w: wp.array[float]
    dt: float


@wp.kernel
def step(s: System):
    i = wp.tid()
    s.x[i] = s.x[i] + s.w[s.near[i]] * s.dt


@wp.kernel
def look(s: System, out: wp.array[float]):
    i = wp.tid()
    out[i] = s.x[i]


def system() -> System:
    return System(jnp.array([2, 1, 0]), jnp.arange(3.0), jnp.ones(3), 0.5)


def test_arrays_that_are_not_written_are_no_results_of_a_launch():
    advance, s = wp.jax_kernel(step, num_outputs=1, in_out_argnames=["s"]), system()
    (after,) = advance(s)
    assert after.x.tolist() == [0.5, 1.5, 2.5]
    assert after.near is s.near
    assert after.w is s.w
    (launch,) = [e for e in jax.make_jaxpr(lambda s: advance(s)[0])(s).eqns if "launch" in e.primitive.name]
    assert len(launch.outvars) == 1
    for found in (jax.jit(advance)(s)[0], jax.vmap(lambda s: advance(s)[0])(jax.tree.map(lambda a: jnp.stack([a]), s))):
        assert jnp.ravel(found.x).tolist() == [0.5, 1.5, 2.5]
        assert jnp.ravel(found.near).tolist() == [2, 1, 0]
    # An array that is passed on has the gradient of both its uses.

    def loss(w):
        (after,) = advance(System(s.near, s.x, w, s.dt))
        return (after.x * after.w).sum()

    assert jax.grad(loss)(s.w).tolist() == [1.0, 2.0, 3.0]
    results = wp.jax_kernel(look, num_outputs=2, in_out_argnames=["s"])(s)
    assert [results[0].x.tolist(), results[1].tolist()] == [[0.0, 1.0, 2.0]] * 2


@wp.func
def energy(s: Body, y: float):
    return s.x * s.x * s.v.y * s.inner.k + s.inner.m[0, 1] * s.a[0] * y * float(s.n)


@wp.kernel
def slopes(s: Body, out: wp.array[float]):
    g, gy = wp.grad(energy)(s, 2.0)
    out[0] = g.x
    out[1] = g.v.y
    out[2] = g.inner.k
    out[3] = g.inner.m[0, 1]
    out[4] = gy
    out[5] = float(g.n)


def test_gradients_by_structs():
    launched = wp.jax_kernel(slopes, launch_dims=1, output_dims=6)
    assert launched(body())[0].tolist() == [60.0, 45.0, 18.0, 56.0, 56.0, 0.0]
    check_grads(lambda x: launched(body(x))[0], (3.0,), 2, rtol=1e-2)

    @wp.kernel
    def of_elements(bodies: wp.array[Inner], out: wp.array[Inner]):
        i = wp.tid()
        out[i] = wp.grad(product)(bodies[i])

    (found,) = wp.jax_kernel(of_elements, launch_dims=1)(Inner(jnp.ones((1, 2, 2)), jnp.full(1, 3.0)))
    assert (found.m.tolist(), found.k.tolist()) == ([[[3.0, 0.0], [0.0, 3.0]]], [2.0])

    @wp.kernel
    def of_an_array(s: Body, out: wp.array[float]):
        g, _ = wp.grad(energy)(s, 2.0)
        out[0] = g.a[0]

    with pytest.raises(wp.KernelError, match="the gradient's a is None"):
        of_an_array.specialize()


@wp.func
def product(s: Inner):
    return s.k * wp.trace(s.m)


def test_a_matrix_of_a_struct_is_given_in_a_row():
    assert Inner((1.0, 2.0, 3.0, 4.0), 1.0).m == ((1.0, 2.0), (3.0, 4.0))


@wp.struct
class One:
    n: int


@wp.struct
class Other:
    unused: float
    n: int


@wp.kernel
def of_any(s: Any, out: wp.array[int]):
    out[wp.tid()] = s.n


@pytest.mark.parametrize("kind", [One, Other])
def test_named_types_of_open_arguments_may_be_structs(kind):
    named = wp.overload(of_any, [kind, wp.array[int]])
    assert "s.n" in str(of_any.ir([kind, wp.array[int]]))
    out = wp.zeros(2, dtype=int)
    s = kind()
    s.n = 42
    for kernel in (of_any, named):
        out.zero_()
        wp.launch(kernel, 2, [s, out])
        assert out.numpy().tolist() == [42, 42]
