"""Derivatives of launches under JAX's transformations, against JAX's own derivatives of the same mathematics."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads

import jaxwarp as wp
from jaxwarp.errors import DifferentiationError


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


X = np.linspace(0.3, 1.4, 6)
W = np.linspace(-0.7, 0.9, 4)


@wp.kernel
def filtered(x: wp.array[wp.float64], w: wp.array[wp.float64], s: wp.float64, y: wp.array[wp.float64]):
    """y[i] = s * sum_k w[k] sin(x[(i + k) % n])"""
    i = wp.tid()
    total = wp.float64(0.0)
    for k in range(w.shape[0]):
        total += w[k] * wp.sin(x[(i + k) % x.shape[0]])
    y[i] = s * total


@jax.jit
def filter_reference(x, w, s):
    n = x.shape[0]
    rows = jnp.stack([jnp.roll(jnp.sin(x), -k) for k in range(w.shape[0])])
    assert rows.shape == (w.shape[0], n)
    return s * (w @ rows)


@wp.kernel
def relaxed(x: wp.array[wp.float64], n: int, y: wp.array[wp.float64]):
    """n steps of v = cos(v) v, with an early end."""
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        if v < wp.float64(0.05):
            break
        v = wp.cos(v) * v
    y[i] = v


@partial(jax.jit, static_argnames="n")
def relaxed_reference(x, n):
    def step(v, _):
        return jnp.where(v < 0.05, v, jnp.cos(v) * v), None

    return jax.lax.scan(step, x, None, length=n)[0]


@wp.kernel
def updated(x: wp.array[wp.float64], a: wp.array[wp.float64], out: wp.array[wp.float64]):
    """`a` in place, several times; `out` by atomics."""
    i = wp.tid()
    for _ in range(3):
        a[i] = a[i] * a[i]
        a[i] *= x[i]
    wp.atomic_add(out, i % 2, wp.exp(a[i]))


@jax.jit
def updated_reference(x, a):
    for _ in range(3):
        a = a * a * x
    return a, jnp.zeros(2).at[jnp.arange(len(a)) % 2].add(jnp.exp(a))


call_filtered = wp.jax_kernel(filtered)
call_relaxed = wp.jax_kernel(relaxed, enable_backward=True)
call_updated = wp.jax_kernel(updated, num_outputs=2, in_out_argnames=["a"], output_dims={"out": 2})


def launch_filter(x, w, s):
    return call_filtered(x, w, s)[0]


def launch_relaxed(x, n=7):
    return call_relaxed(x, n)[0]


PAIRS = {
    "filtered": (launch_filter, filter_reference, (X, W, np.float64(1.7))),
    "relaxed": (launch_relaxed, partial(relaxed_reference, n=7), (X,)),
    "updated": (lambda x, a: tuple(call_updated(x, a)), updated_reference, (X, X[::-1].copy())),
}


def close(a, b, rtol=1e-9):
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, rtol=rtol, atol=1e-11), a, b)


def scalar(f):
    return lambda *args: sum(jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(f(*args)))


@pytest.fixture(params=PAIRS, ids=str)
def pair(request):
    return PAIRS[request.param]


# All but the first are compiled as a whole, since JAX takes its time for a Hessian one operation at a time.
TRANSFORMS = {
    "grad": lambda f, k: jax.grad(scalar(f), tuple(range(k))),
    "jit-grad": lambda f, k: jax.jit(jax.grad(scalar(f), tuple(range(k)))),
    "jacfwd": lambda f, k: jax.jit(jax.jacfwd(f, tuple(range(k)))),
    "jacrev": lambda f, k: jax.jit(jax.jacrev(f, tuple(range(k)))),
    "hessian": lambda f, k: jax.jit(jax.hessian(scalar(f), tuple(range(k)))),
    "forward-twice": lambda f, k: jax.jit(jax.jacfwd(jax.jacfwd(scalar(f)))),
    "checkpoint": lambda f, k: jax.jit(jax.grad(jax.checkpoint(scalar(f)))),
    "third": lambda f, k: jax.jit(jax.jacfwd(jax.jacfwd(jax.grad(scalar(f))))),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_derivatives_are_those_of_jax(pair, transform):
    launched, reference, args = pair
    derive = TRANSFORMS[transform]
    close(derive(launched, len(args))(*args), derive(reference, len(args))(*args))


def test_against_finite_differences(pair):
    launched, _, args = pair
    check_grads(launched, args, order=2, modes=("fwd",), atol=1e-4, rtol=1e-4)
    check_grads(launched, args, order=1, modes=("rev",), atol=1e-4, rtol=1e-4)


def test_jvp_and_linearize(pair):
    launched, reference, args = pair
    tangents = tuple(np.cos(np.arange(np.size(a))).reshape(np.shape(a)) for a in args)
    expected = jax.jvp(reference, args, tangents)
    close(jax.jvp(launched, args, tangents), expected)
    out, linear = jax.linearize(launched, *args)
    close((out, linear(*tangents)), expected)
    cotangent = jax.tree.map(jnp.ones_like, out)
    close(jax.linear_transpose(linear, *args)(cotangent), jax.vjp(reference, *args)[1](cotangent))


def test_reverse_over_reverse(pair):
    launched, reference, args = pair
    every = tuple(range(len(args)))
    twice = [jax.jit(jax.jacrev(jax.grad(scalar(f), every), every)) for f in (launched, reference)]
    close(twice[0](*args), twice[1](*args))


AXES = [(0, None, None), (1, None, None), (None, 0, None), (0, 0, 0), (1, 1, None)]


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_vmap_of_grad_and_grad_of_vmap(axes):
    sizes = {0: X, 1: W, 2: np.float64(1.7)}
    args = tuple(
        a if ax is None else np.stack([np.asarray(a) * (1 + 0.1 * k) for k in range(3)], axis=ax)
        for (_, a), ax in zip(sizes.items(), axes, strict=True)
    )
    for wrap in (
        lambda f: jax.vmap(jax.grad(scalar(f), (0, 1, 2)), axes),
        lambda f: jax.grad(scalar(jax.vmap(f, axes)), (0, 1, 2)),
        lambda f: jax.vmap(jax.jacfwd(f, (0, 1, 2)), axes),
        lambda f: jax.hessian(scalar(jax.vmap(f, axes)), (0, 1)),
    ):
        close(jax.jit(wrap(launch_filter))(*args), jax.jit(wrap(filter_reference))(*args))


def test_through_scan_cond_and_while():
    def program(f):
        def step(x, s):
            x = jax.lax.cond(s > 0.5, lambda x: f(x, W, s), lambda x: x * s, x)
            return x, x.sum()

        return lambda x: sum(map(jnp.sum, jax.lax.scan(jax.checkpoint(step), x, jnp.array([0.2, 0.7, 1.1]))))

    for wrap in (jax.grad, jax.jacfwd):
        close(jax.jit(wrap(program(launch_filter)))(X), jax.jit(wrap(program(filter_reference)))(X))

    def loop(f):
        return lambda x: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1], W, 0.9)), (0, x))[1]

    close(jax.jacfwd(loop(launch_filter))(X), jax.jacfwd(loop(filter_reference))(X))


@pytest.mark.parametrize("check", [True, False])
def test_shard_map_sums_gradients_of_what_is_replicated(check):
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    x = np.linspace(0.1, 2.0, 32)

    def loss(f):
        def body(x, w, s):
            return f(x, w, s)

        mapped = jax.shard_map(body, mesh=mesh, in_specs=(P("d"), P(), P()), out_specs=P("d"), check_vma=check)
        return lambda x, w, s: jnp.sum(jnp.sin(mapped(x, w, s)))

    args = (x, W, np.float64(0.8))
    gradients = [jax.jit(jax.grad(loss(f), (0, 1, 2)))(*args) for f in (launch_filter, filter_reference)]
    close(*gradients)


@wp.kernel
def vectors(v: wp.array[wp.vec3d], m: wp.mat33d, out: wp.array[wp.vec3d]):
    i = wp.tid()
    u = m * v[i]
    u[1] = u[1] * u[0]
    u[1] += wp.float64(2.0) * u[2]
    out[i] = wp.normalize(u) + wp.cross(u, v[i])


def test_vectors_matrices_and_components_assigned_again():
    v = np.cos(np.arange(12.0)).reshape(4, 3)
    m = np.sin(np.arange(9.0)).reshape(3, 3)

    def reference(v, m):
        u = v @ m.T
        u = u.at[:, 1].set(u[:, 1] * u[:, 0])
        u = u.at[:, 1].add(2.0 * u[:, 2])
        return u / jnp.linalg.norm(u, axis=1, keepdims=True) + jnp.cross(u, v)

    launched = lambda v, m: wp.jax_kernel(vectors)(v, m)[0]  # noqa: E731
    for derive in (lambda f: jax.jacrev(f, (0, 1)), lambda f: jax.hessian(scalar(f), (0, 1))):
        close(jax.jit(derive(launched))(v, m), jax.jit(derive(reference))(v, m))


@wp.kernel
def product(a: wp.array2d[wp.float64], b: wp.array2d[wp.float64], c: wp.array2d[wp.float64]):
    i, j = wp.tid()
    s = wp.float64(0.0)
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


def test_outputs_of_another_shape_than_the_inputs():
    a, b = np.cos(np.arange(6.0)).reshape(3, 2), np.sin(np.arange(10.0)).reshape(2, 5)
    launched = lambda a, b: wp.jax_kernel(product)(a, b, launch_dims=(3, 5))[0]  # noqa: E731
    close(jax.grad(scalar(launched), (0, 1))(a, b), jax.grad(scalar(jnp.matmul), (0, 1))(a, b))


@wp.kernel
def mixed(n: wp.array[int], flag: wp.array[bool], x: wp.array[float], y: wp.array[float], m: wp.array[int]):
    i = wp.tid()
    y[i] = wp.where(flag[i], x[n[i]] ** 2.0, 0.0)
    m[i] = int(x[i] * 10.0)


def test_integers_and_bools_have_no_tangents():
    n = jnp.array([2, 0, 0], jnp.int32)
    flag = jnp.array([True, False, True])
    x = jnp.array([0.1, 0.2, 0.3], jnp.float32)
    call = wp.jax_kernel(mixed, num_outputs=2)
    gradient = jax.grad(lambda n, flag, x: call(n, flag, x)[0].sum(), (0, 1, 2), allow_int=True)(n, flag, x)
    assert gradient[0].dtype == jax.dtypes.float0
    assert gradient[1].dtype == jax.dtypes.float0
    np.testing.assert_allclose(gradient[2], [0.2, 0.0, 0.6], rtol=1e-6)


@wp.kernel
def generic(x: wp.array[Any], y: wp.array[Any]):
    i = wp.tid()
    y[i] = x[i] * x[i]


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64], ids=str)
def test_generic_kernels_of_every_float(dtype):
    x = jnp.arange(4, dtype=dtype)
    gradient = jax.grad(lambda x: wp.jax_kernel(generic)(x)[0].astype(jnp.float64).sum())(x)
    assert gradient.dtype == dtype
    np.testing.assert_array_equal(gradient, 2 * np.arange(4))


@wp.kernel
def newton(x: wp.array[wp.float64], y: wp.array[wp.float64]):
    """The square root, by Newton's method until it stands still."""
    i = wp.tid()
    v = x[i]
    last = wp.float64(0.0)
    while wp.abs(v - last) > wp.float64(1e-14):
        last = v
        v = wp.float64(0.5) * (v + x[i] / v)
    y[i] = v


def test_data_dependent_while():
    x = np.array([0.5, 2.0, 30.0, 1e6])
    launched = lambda x: wp.jax_kernel(newton)(x)[0]  # noqa: E731
    np.testing.assert_allclose(jax.grad(lambda x: launched(x).sum())(x), 0.5 / np.sqrt(x), rtol=1e-12)
    np.testing.assert_allclose(jax.jvp(launched, (x,), (np.ones(4),))[1], 0.5 / np.sqrt(x), rtol=1e-12)


@wp.kernel
def dependent(a: wp.array[wp.float64]):
    i = wp.tid()
    a[i] = a[i + 1] * wp.float64(2.0)


def test_reading_what_other_threads_write_is_refused_with_the_line():
    call = wp.jax_kernel(dependent, in_out_argnames=["a"], launch_dims=3)
    with pytest.raises(DifferentiationError) as error:
        jax.grad(lambda a: call(a)[0].sum())(np.ones(4))
    text = str(error.value)
    assert "the kernel reads a and writes it" in text
    assert "a[i] = a[i + 1] * wp.float64(2.0)" in text


def test_an_exported_gradient_runs_in_another_process(tmp_path):
    from jax import export

    gradient = jax.jit(jax.grad(lambda x: launch_relaxed(x, 50).sum()))
    program = export.export(gradient, disabled_checks=wp.export_checks())(jax.ShapeDtypeStruct((6,), jnp.float64))
    (tmp_path / "program").write_bytes(program.serialize())
    code = textwrap.dedent(f"""
        import jax, numpy as np
        jax.config.update("jax_enable_x64", True)
        import jaxwarp
        program = jax.export.deserialize(bytearray(open({str(tmp_path / "program")!r}, "rb").read()))
        print(repr(np.asarray(program.call(np.linspace(0.3, 1.4, 6))).tolist()))
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = jax.grad(lambda x: relaxed_reference(x, 50).sum())(X)
    np.testing.assert_allclose(eval(done.stdout), expected, rtol=1e-9)


@wp.kernel
def doubled(a: wp.array[wp.float64], y: wp.array[wp.float64]):
    i = wp.tid()
    y[i] = a[i] * wp.float64(2.0)


def test_an_in_out_argument_that_is_not_written_goes_through():
    call = wp.jax_kernel(doubled, num_outputs=2, in_out_argnames=["a"])
    total = lambda a: sum(jnp.sum(o) for o in call(a))  # noqa: E731
    np.testing.assert_array_equal(jax.grad(total)(np.ones(3)), 3.0)
    (transposed,) = jax.linear_transpose(call, np.ones(3))([np.ones(3), np.ones(3)])
    np.testing.assert_array_equal(transposed, 3.0)


@wp.kernel
def stairs(x: wp.array[wp.float64], y: wp.array[wp.float64]):
    i = wp.tid()
    y[i] = wp.float64(int(x[i]))


def test_what_does_not_move_has_a_zero_derivative():
    launched = lambda x: wp.jax_kernel(stairs)(x)[0]  # noqa: E731
    np.testing.assert_array_equal(jax.jacfwd(launched)(X), 0.0)
    np.testing.assert_array_equal(jax.grad(lambda x: launched(x).sum())(X), 0.0)


@wp.kernel
def scattered(x: wp.array[wp.float64], place: wp.array[int], y: wp.array[wp.float64]):
    i = wp.tid()
    y[place[i]] = x[i] * x[i]


def test_scatter_at_places_that_only_the_caller_knows_to_differ():
    place = np.array([3, 0, 5, 1, 4, 2], np.int32)
    launched = lambda x: wp.jax_kernel(scattered)(x, place)[0]  # noqa: E731
    reference = lambda x: jnp.zeros(6).at[place].set(x * x)  # noqa: E731
    for derive in (lambda f: jax.grad(scalar(f)), lambda f: jax.hessian(scalar(f))):
        close(jax.jit(derive(launched))(X), jax.jit(derive(reference))(X))


@wp.kernel
def extremes(x: wp.array[wp.float64], place: wp.array[int], high: wp.array[wp.float64], low: wp.array[wp.float64]):
    i = wp.tid()
    v = x[i] * x[i] + wp.sin(wp.float64(3.0) * x[i])
    wp.atomic_max(high, place[i], v)
    wp.atomic_min(low, place[i], v * x[i])


def test_atomic_min_and_max():
    """Products and sums are there to be contracted differently: the selected operand is found nevertheless."""
    x, place = np.linspace(-1.3, 2.1, 41), np.arange(41, dtype=np.int32) % 4
    high, low = np.full(4, -9.0), np.array([9.0, -90.0, 9.0, 9.0])
    call = wp.jax_kernel(extremes, num_outputs=2, in_out_argnames=["high", "low"], launch_dims=41)

    def dense(x, high, low):
        """JAX does not differentiate its scatters of extremes."""
        v = x * x + jnp.sin(3.0 * x)
        inside = place[None] == np.arange(4)[:, None]
        return (
            jnp.maximum(high, jnp.where(inside, v, -jnp.inf).max(axis=1)),
            jnp.minimum(low, jnp.where(inside, v * x, jnp.inf).min(axis=1)),
        )

    launched = lambda x, high, low: tuple(call(x, place, high, low))  # noqa: E731
    close(launched(x, high, low), dense(x, high, low))
    everything = (0, 1, 2)
    for derive in (
        lambda f: jax.jacfwd(f, everything),
        lambda f: jax.jacrev(f, everything),
        lambda f: jax.hessian(scalar(f)),
    ):
        # Of the dense one nothing is fused: XLA would contract `v` once and not the other time, and find no operand.
        close(jax.jit(derive(launched))(x, high, low), derive(dense)(x, high, low))
    stacked = np.stack([x, x[::-1].copy()])
    mapped = [jax.vmap(jax.grad(scalar(lambda x, f=f: f(x, high, low))))(stacked) for f in (launched, dense)]
    close(*mapped)


@wp.kernel
def scaled(x: wp.array[Any], s: wp.array[Any], n: int, y: wp.array[Any]):
    i = wp.tid()
    for _ in range(n):
        y[i] = x[i] * s[0]


@wp.kernel
def summed(x: wp.array[Any], s: wp.array[Any], n: int, y: wp.array[Any]):
    i = wp.tid()
    total = x[i] - x[i]
    for _ in range(n):
        total += x[i] * s[0]
    y[i] = total


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16], ids=str)
@pytest.mark.parametrize("kernel", [scaled, summed], ids=lambda k: k.name)
def test_gradients_in_half_precision_are_summed_in_single(dtype, kernel):
    """Ones added up in half precision stop at 2048 (bfloat16: 256)."""
    threads, steps = (8192, 1) if kernel is scaled else (1, 8192)
    x = jnp.ones(threads, dtype)
    loss = lambda s: wp.jax_kernel(kernel)(x, s, steps)[0].astype(jnp.float32).sum()  # noqa: E731
    gradient = jax.grad(loss)(jnp.full(1, 1e-3, dtype))
    assert gradient.dtype == dtype
    np.testing.assert_allclose(gradient.astype(np.float32), 8192, rtol=1e-2)


@wp.kernel
def product_of_all(x: wp.array[wp.float64], y: wp.array[wp.float64]):
    p = wp.float64(1.0)
    for k in range(x.shape[0]):
        p = p * x[k]
    y[0] = p


def test_a_derivative_made_for_one_thread_is_mapped_to_many():
    """With one thread nothing is shared; `vmap` gives each item its own gradient."""
    launched = lambda x: wp.jax_kernel(product_of_all, launch_dims=1, output_dims=1)(x)[0][0]  # noqa: E731
    x = np.linspace(0.5, 1.5, 12).reshape(3, 4)
    for derive in (jax.grad, jax.hessian):
        close(jax.vmap(derive(launched))(x), jax.jit(jax.vmap(derive(jnp.prod)))(x))
    shared = lambda f: jax.grad(lambda x: jnp.sum(jax.vmap(lambda s: f(x) * s)(jnp.arange(3.0))))  # noqa: E731
    close(shared(launched)(x[0]), jax.jit(shared(jnp.prod))(x[0]))
