"""`jax_kernel`: every documented behaviour of a call (the errors are in test_jax_kernel_errors.py)."""

import inspect
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import jax_kernel

rng = np.random.default_rng(0)


@wp.kernel
def axpy(s: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = s * x[i] + y[i]


@wp.kernel
def sincos(angle: wp.array[float], sine: wp.array[float], cosine: wp.array[float]):
    i = wp.tid()
    sine[i] = wp.sin(angle[i])
    cosine[i] = wp.cos(angle[i])


@wp.kernel
def diagonal(out: wp.array[wp.mat33]):
    i = wp.tid()
    out[i] = wp.mat33(1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0)


@wp.kernel
def matmul(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    if i < a.shape[0] and j < b.shape[1]:
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


@wp.kernel
def rowsum(matrix: wp.array2d[float], sums: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(sums, i, matrix[i, j])


@wp.kernel
def vecmat(
    a: wp.array[float], b: wp.array[wp.vec3], c: wp.array[wp.mat22],
    d: wp.array[float], e: wp.array[wp.vec3], f: wp.array[wp.mat22],
):  # fmt: skip
    i = wp.tid()
    d[i] = a[i] + wp.dot(b[i], b[i])
    e[i] = 2.0 * b[i]
    f[i] = c[i] * c[i]


@wp.kernel
def every_other(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    if i % 2 == 0:
        out[i] = x[i]


X = np.arange(6, dtype=np.float32)
Y = np.ones(6, np.float32)


def both(function, *args, **kwargs):
    """The results of a call, eager and jitted, which must agree."""
    eager = function(*args, **kwargs)
    jitted = jax.jit(lambda *a: function(*a, **kwargs))(*args)
    assert isinstance(eager, list)
    assert isinstance(jitted, list)
    for a, b in zip(eager, jitted, strict=True):
        assert isinstance(a, jax.Array)
        np.testing.assert_array_equal(a, b)
    return eager


def test_one_output_is_a_sequence_too():
    (out,) = both(jax_kernel(axpy), 2.0, X, Y)
    assert out.dtype == jnp.float32
    np.testing.assert_array_equal(out, 2 * X + Y)


def test_several_outputs():
    sine, cosine = both(jax_kernel(sincos, num_outputs=2), X)
    np.testing.assert_allclose(sine, np.sin(X), atol=1e-6)
    np.testing.assert_allclose(cosine, np.cos(X), atol=1e-6)


def test_kernel_without_inputs():
    (out,) = jax_kernel(diagonal)(launch_dims=4)
    np.testing.assert_array_equal(out, np.broadcast_to(np.diag([1.0, 2.0, 3.0]), (4, 3, 3)))
    (out,) = jax.jit(jax_kernel(diagonal, launch_dims=(2,)))()
    assert out.shape == (2, 3, 3)


def test_an_output_with_more_axes_than_the_launch_is_like_the_first_array():
    @wp.kernel
    def doubled(scale: float, a: wp.array3d[wp.vec2], b: wp.array3d[float], c: wp.array2d[float]):
        i, j = wp.tid()
        for m in range(a.shape[0]):
            b[m, i, j] = scale * a[m, i, j][1]
            c[i, j] += a[m, i, j][0]

    a = jnp.arange(48.0).reshape(2, 3, 4, 2)
    call = jax_kernel(doubled, 2, launch_dims=(3, 4))
    b, c = both(call, 2.0, a)
    np.testing.assert_array_equal(b, 2 * a[..., 1])
    np.testing.assert_array_equal(c, a[..., 0].sum(0))
    batched = jax.vmap(lambda a: call(2.0, a)[0])(jnp.stack([a, 3 * a]))
    np.testing.assert_array_equal(batched, jnp.stack([2 * a[..., 1], 6 * a[..., 1]]))


def test_launch_dims_per_call_override_those_of_the_function():
    a, b = rng.random((3, 2), np.float32), rng.random((2, 5), np.float32)
    function = jax_kernel(matmul, launch_dims=(3, 4))
    np.testing.assert_allclose(both(function, a, b[:, :4])[0], a @ b[:, :4], rtol=1e-5)
    np.testing.assert_allclose(both(function, a, b, launch_dims=[3, 5])[0], a @ b, rtol=1e-5)
    np.testing.assert_allclose(both(jax_kernel(matmul), a, b, launch_dims=(np.int64(3), 5))[0], a @ b, rtol=1e-5)


@pytest.mark.parametrize("dims", [4, (4,), [4], {"sine": 4, "cosine": [4]}])
def test_output_dims(dims):
    for sine, cosine in (
        jax_kernel(sincos, 2, launch_dims=4)(X, output_dims=dims),
        jax_kernel(sincos, 2, launch_dims=4, output_dims=dims)(X),
    ):
        np.testing.assert_allclose(sine, np.sin(X[:4]), atol=1e-6)
        np.testing.assert_allclose(cosine, np.cos(X[:4]), atol=1e-6)


def test_output_dims_by_name_differ():
    sine, cosine = jax_kernel(sincos, 2)(X, output_dims={"sine": 6, "cosine": 8})
    assert (sine.shape, cosine.shape) == ((6,), (8,))
    np.testing.assert_array_equal(cosine[6:], 0)


def test_vector_and_matrix_arrays_in_either_convention():
    n = 5
    a, b, c = rng.random(n, np.float32), rng.random((n, 3), np.float32), rng.random((n, 2, 2), np.float32)
    function = jax_kernel(vecmat, num_outputs=3)
    for dims in (
        None,
        n,
        {"d": n, "e": n, "f": n},
        {"d": n, "e": (n, 3), "f": [n, 2, 2]},
        {"d": a.shape, "e": b.shape, "f": c.shape},
    ):
        d, e, f = both(function, a, b, c, output_dims=dims)
        np.testing.assert_allclose(d, a + (b * b).sum(1), rtol=1e-5)
        np.testing.assert_allclose(e, 2 * b)
        np.testing.assert_allclose(f, c @ c, rtol=1e-5)


def test_in_out_argument_starts_from_its_value_and_leaves_the_callers_alone():
    m, start = jnp.array(rng.random((3, 4), np.float32)), jnp.array([1.0, 2.0, 3.0])
    (sums,) = both(jax_kernel(rowsum, in_out_argnames=["sums"]), m, start)
    np.testing.assert_allclose(sums, m.sum(1) + start, rtol=1e-6)
    np.testing.assert_array_equal(start, [1.0, 2.0, 3.0])


@wp.kernel
def in_the_middle(
    x: wp.array[float], state: wp.array[float], y: wp.array[float], count: wp.array[int], out: wp.array[float]
):
    i = wp.tid()
    state[i] = state[i] + x[i]
    count[i] += 1
    out[i] = y[i]


def test_in_out_arguments_come_first_among_the_outputs():
    function = jax_kernel(in_the_middle, num_outputs=3, in_out_argnames=["count", "state"])
    state, count, out = both(function, X, Y, 5 * Y, np.zeros(6, np.int32))
    np.testing.assert_array_equal(state, X + 1)
    np.testing.assert_array_equal(count, 1)
    np.testing.assert_array_equal(out, 5)


def test_what_the_kernel_does_not_write_is_zero():
    for _ in range(3):  # so that memory is reused
        (out,) = jax_kernel(every_other)(np.full(1000, 7, np.float32))
        np.testing.assert_array_equal(out, np.where(np.arange(1000) % 2 == 0, 7, 0))
    (sums,) = jax_kernel(rowsum)(np.ones((3, 4), np.float32), output_dims=3)
    np.testing.assert_array_equal(sums, 4)


def test_keyword_arguments():
    function = jax_kernel(axpy)
    for (out,) in (function(y=Y, s=2.0, x=X), function(2.0, y=Y, x=X), jax.jit(function)(2.0, X, y=Y)):
        np.testing.assert_array_equal(out, 2 * X + Y)


@pytest.mark.parametrize(
    "s", [2.0, 2, True, np.float32(2), np.float64(2), np.int8(2), np.array(2.0), jnp.float32(2), jnp.asarray(2.0)]
)
def test_scalars_of_any_origin(s):
    np.testing.assert_array_equal(jax_kernel(axpy)(s, X, Y)[0], float(s) * X + Y)
    np.testing.assert_array_equal(jax.jit(lambda: jax_kernel(axpy)(s, X, Y)[0])(), float(s) * X + Y)


def test_scalars_are_not_compiled_in():
    function = jax_kernel(axpy)
    for s in range(5):
        np.testing.assert_array_equal(function(float(s), X, Y)[0], s * X + Y)
    assert len(function._plans) == 1


def test_traced_scalars():
    traced = jax.jit(lambda s: jax_kernel(axpy)(s, X, Y)[0])
    for s in (2.0, 3, jnp.float32(4)):
        np.testing.assert_array_equal(traced(s), float(s) * X + Y)
    assert traced(5.0).dtype == jnp.float32


@wp.kernel
def scalars(a: int, b: bool, c: wp.uint8, d: wp.bfloat16, out: wp.array[float]):
    i = wp.tid()
    out[i] = float(a) + wp.where(b, 0.5, 0.0) + float(c) + float(d)


def test_scalars_of_other_types():
    (out,) = jax_kernel(scalars, launch_dims=2)(3.0, True, 200, 0.25)
    np.testing.assert_array_equal(out, 203.75)
    (out,) = jax.jit(jax_kernel(scalars, launch_dims=2))(3, False, jnp.uint8(200), jnp.bfloat16(0.25))
    np.testing.assert_array_equal(out, 203.25)


@wp.kernel
def transform(m: wp.mat33, v: wp.vec3, x: wp.array[wp.vec3], out: wp.array[wp.vec3]):
    i = wp.tid()
    out[i] = m * x[i] + v


@pytest.mark.parametrize(
    "kind",
    [lambda a: a, jnp.asarray, lambda a: a.tolist(), lambda a: tuple(map(tuple, a)) if a.ndim == 2 else tuple(a)],
)
def test_vectors_and_matrices_by_value(kind):
    m, v, x = rng.random((3, 3), np.float32), rng.random(3, np.float32), rng.random((4, 3), np.float32)
    (out,) = jax_kernel(transform)(kind(m), kind(v), x)
    np.testing.assert_allclose(out, x @ m.T + v, rtol=1e-5)
    (out,) = jax.jit(jax_kernel(transform))(m, v, x)
    np.testing.assert_allclose(out, x @ m.T + v, rtol=1e-5)


def test_wp_values_by_value():
    (out,) = jax_kernel(transform)(wp.mat33(1.0), wp.vec3(1.0, 2.0, 3.0), np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(out, [[1, 2, 3]] * 2)


@wp.kernel
def generic_scale(x: wp.array[typing.Any], s: typing.Any, out: wp.array[typing.Any]):
    i = wp.tid()
    out[i] = x[i] * s


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8", "int16"])
def test_generic_kernels_are_specialised_by_dtype(dtype):
    x = jnp.arange(5).astype(dtype)
    (out,) = jax_kernel(generic_scale)(x, jnp.asarray(3, dtype))
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.astype(float), 3.0 * np.arange(5))


def test_generic_kernels_serve_several_types_at_once():
    function = jax_kernel(generic_scale)
    for _ in range(2):
        assert function(X, 2.0)[0].dtype == jnp.float32
        assert function(np.arange(3, dtype=np.int32), 2)[0].dtype == jnp.int32


T = typing.TypeVar("T")


@wp.kernel
def generic_pair(index: wp.array[typing.Any], x: wp.array[T], out: wp.array[T]):
    i = wp.tid()
    out[i] = x[int(index[i])]


def test_a_generic_output_has_the_type_of_its_type_variable():
    (out,) = jax_kernel(generic_pair)(np.array([1, 0], np.uint8), np.array([2.5, 3.5], np.float32))
    np.testing.assert_array_equal(out, [3.5, 2.5])


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32"]
)
def test_arrays_of_every_type(dtype):
    element = jnp.dtype(dtype)

    @wp.kernel
    def copy(x: wp.array[element], out: wp.array[element]):
        i = wp.tid()
        out[i] = x[i]

    x = jnp.array([0, 1, 3, 1]).astype(dtype)
    (out,) = jax_kernel(copy)(x)
    assert out.dtype == x.dtype
    np.testing.assert_array_equal(out, x)


@wp.kernel
def leading(x: wp.array2d[float], out: wp.array[float], visits: wp.array[int]):
    i = wp.tid()
    out[i] = x[i, 0]
    wp.atomic_add(visits, i, 1)


def test_more_launch_axes_than_indices_repeat_threads():
    x = rng.random((3, 4), np.float32)
    out, visits = jax_kernel(leading, 2)(x, launch_dims=x.shape, output_dims=3)
    np.testing.assert_array_equal(out, x[:, 0])
    np.testing.assert_array_equal(visits, 4)


@wp.kernel
def where_am_i(out: wp.array[wp.vec3]):
    i, j, k = wp.tid()
    out[i] = wp.vec3(float(i), float(j), float(k))


def test_fewer_launch_axes_than_indices():
    (out,) = jax_kernel(where_am_i)(launch_dims=3, output_dims=3)
    np.testing.assert_array_equal(out, [[0, 0, 0], [1, 0, 0], [2, 0, 0]])


@wp.kernel
def no_index(x: wp.array[float], out: wp.array[float]):
    wp.atomic_add(out, 0, x[0])


def test_kernel_that_does_not_ask_for_its_index():
    (out,) = jax_kernel(no_index)(np.array([2.0, 0.0, 0.0], np.float32), launch_dims=3, output_dims=1)
    np.testing.assert_array_equal(out, 6)


@wp.kernel
def five_axes(x: wp.array(dtype=float, ndim=5), out: wp.array(dtype=float, ndim=5)):
    i, j, k, m = wp.tid()
    for n in range(x.shape[4]):
        out[i, j, k, m, n] = 2.0 * x[i, j, k, m, n]


def test_arrays_of_rank_five():
    x = rng.random((2, 1, 3, 2, 4), np.float32)
    np.testing.assert_array_equal(jax_kernel(five_axes)(x, launch_dims=x.shape[:4], output_dims=x.shape)[0], 2 * x)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_small_and_empty_arrays(n):
    (out,) = both(jax_kernel(axpy), 2.0, X[:n], Y[:n])
    np.testing.assert_array_equal(out, 2 * X[:n] + Y[:n])


def test_empty_launch_clears_outputs():
    (out,) = jax_kernel(every_other)(np.zeros(0, np.float32), output_dims=5)
    np.testing.assert_array_equal(out, np.zeros(5))


def test_same_array_for_several_arguments():
    @wp.kernel
    def shifted_add(x: wp.array[float], state: wp.array[float]):
        i = wp.tid()
        state[i] = x[(i + 1) % x.shape[0]]

    function = jax_kernel(shifted_add, in_out_argnames=["state"])
    x = jnp.arange(1000.0)
    expected = np.roll(np.arange(1000.0), -1)
    np.testing.assert_array_equal(function(x, x)[0], expected)
    np.testing.assert_array_equal(jax.jit(lambda x: function(x, x))(x)[0], expected)
    donated = jax.jit(lambda x: function(x, x), donate_argnums=0)(x + 0)
    np.testing.assert_array_equal(donated[0], expected)
    looped = jax.lax.fori_loop(0, 3, lambda _, x: function(x, x)[0], x)
    np.testing.assert_array_equal(looped, np.roll(np.arange(1000.0), -3))


def test_options_of_warp_are_accepted():
    function = jax_kernel(
        axpy, module_preload_mode=wp.ModulePreloadMode.NONE, enable_backward=True, has_side_effect=False, block_dim=128
    )
    np.testing.assert_array_equal(function(2.0, X, Y)[0], 2 * X + Y)


def test_a_function_says_what_it_is():
    function = jax_kernel(axpy)
    assert repr(function) == "<jax_kernel axpy>"
    assert function.__name__ == "axpy"
    names = ["s", "x", "y", "launch_dims", "output_dims", "vmap_method"]
    assert list(inspect.signature(function).parameters) == names
    assert "out" in inspect.signature(jax_kernel(axpy, in_out_argnames=["out"])).parameters


def test_numpy_results_of_wide_types_are_narrowed_as_jax_does():
    (out,) = jax_kernel(axpy)(2.0, X.astype(np.float64), Y)
    assert out.dtype == jnp.float32
    np.testing.assert_array_equal(out, 2 * X + Y)


def test_disable_jit():
    with jax.disable_jit():
        np.testing.assert_array_equal(jax_kernel(axpy)(2.0, X, Y)[0], 2 * X + Y)
        np.testing.assert_array_equal(jax.vmap(jax_kernel(axpy), (None, 0, 0))(2.0, X[None], Y[None])[0][0], 2 * X + Y)


def test_debug_nans():
    with jax.debug_nans(True):
        np.testing.assert_array_equal(jax_kernel(axpy)(2.0, X, Y)[0], 2 * X + Y)
        with pytest.raises(FloatingPointError, match="axpy"):
            jax_kernel(axpy)(float("nan"), X, Y)
        with pytest.raises(FloatingPointError, match="axpy"):
            jax.jit(lambda s: jax_kernel(axpy)(s, X, Y)[0])(float("nan"))
    assert np.isnan(jax_kernel(axpy)(float("nan"), X, Y)[0]).all()


def test_calls_on_another_device():
    device = jax.devices()[3]
    x = jax.device_put(X, device)
    (out,) = jax_kernel(axpy)(2.0, x, x)
    assert out.devices() == {device}
    np.testing.assert_array_equal(out, 3 * X)


@wp.kernel
def sums_of(x: wp.array[float], total: wp.array[float], plus: wp.array[float], minus: wp.array[float]):
    i = wp.tid()
    total[0] += x[i]
    plus[i] = x[i] + 1.0
    minus[i] = x[i] - 1.0


def test_named_outputs():
    call = wp.jax_kernel(sums_of, num_outputs=3, in_out_argnames=["total"], named_outputs=True)
    x, zero = jnp.arange(3.0), jnp.zeros(1)
    found = jax.jit(call)(x, zero)
    assert isinstance(found, tuple)
    assert found._fields == ("total", "plus", "minus")
    assert type(found).__name__ == "sums_of"
    np.testing.assert_array_equal(found.total, [3.0])
    np.testing.assert_array_equal(found.plus, x + 1)
    total, _, minus = found
    np.testing.assert_array_equal(minus, x - 1)
    assert total is found[0]
    again = wp.jax_kernel(sums_of, num_outputs=3, in_out_argnames=["total"], named_outputs=True)(x, zero)
    assert jax.tree.structure(found) == jax.tree.structure(again)
    assert jax.vmap(call)(x[None], zero[None]).plus.shape == (1, 3)
    assert jax.grad(lambda x: call(x, zero).plus @ call(x, zero).minus)(x).tolist() == (2 * x).tolist()
    _, pull = jax.vjp(call, x, zero)
    assert pull(found._replace(plus=jnp.ones(3)))[0].shape == (3,)


def test_outputs_that_cannot_be_fields():
    @wp.kernel
    def hidden(x: wp.array[float], _y: wp.array[float]):
        _y[wp.tid()] = x[wp.tid()]

    assert isinstance(wp.jax_kernel(hidden)(jnp.ones(2)), list)
    with pytest.raises(wp.errors.KernelValueError, match=r"named_outputs: a field .* cannot be called '_y'"):
        wp.jax_kernel(hidden, named_outputs=True)
