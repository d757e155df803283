"""Arrays that a thread makes for itself: `wp.zeros` in kernels. Against NumPy, and their derivatives against finite
differences and JAX."""

from __future__ import annotations

from typing import Any

import derivativekit as kit
import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivativekit import Case
from language import define, outputs, run

import jaxwarp as wp
from jaxwarp.frontend.lowering.tiles.own_arrays import MAX_BYTES
from jaxwarp.passes.pipeline import prepare

D = wp.float64
N = 5
SIZE = wp.constant(3)
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


# Values


@wp.func
def filled(a: wp.array2d[float], x: float):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] += x * float(10 * i + j)


@wp.func
def made(x: float):
    a = wp.zeros(shape=2, dtype=float)
    a[1] = x
    return a


@wp.kernel
def everything(x: wp.array[float], out: wp.array2d[float]):
    i = wp.tid()
    a = wp.zeros(shape=(4, SIZE), dtype=float)
    filled(a, x[i])
    row = a[2]
    out[i, 0] = row[1] + a[-1, -1] + a[1][2] + float(len(a)) + float(a.shape[1])
    v = wp.zeros(SIZE, wp.vec3)
    m = wp.zeros(shape=wp.static(1 + 1), dtype=wp.mat22)
    bins = wp.zeros(shape=(100,), dtype=wp.int64)
    for t in range(7 * i):
        bins[(t * t) % 100] += wp.int64(1)
        v[t % 3].y += a[t % 4, 2]
        v[t % 3][0] -= 1.0
        m[t % 2][0, 1] += x[i]
    out[i, 1] = v[1].y + v[0][0] * 100.0 + m[1][0, 1]
    out[i, 2] = float(bins[16] * wp.int64(100) + bins[25])
    before = wp.atomic_add(bins, 16, wp.int64(5))
    out[i, 3] = float(bins[16] * before)
    first, second = made(x[i]), made(-x[i])
    out[i, 4] = first[1] * 10.0 + second[1] + second[0]
    part = a[1:3, 1:]
    out[i, 5] = part[1, 0] + float(part.shape[0])


def expected_everything(x: float, i: int) -> list[float]:
    a = np.array([[x * (10 * i + j) for j in range(3)] for i in range(4)])
    v, m, bins = np.zeros((3, 3)), np.zeros((2, 2, 2)), np.zeros(100, int)
    for t in range(7 * i):
        bins[t * t % 100] += 1
        v[t % 3, 1] += a[t % 4, 2]
        v[t % 3, 0] -= 1
        m[t % 2, 0, 1] += x
    return [
        a[2, 1] + a[3, 2] + a[1, 2] + 7,
        v[1, 1] + v[0, 0] * 100 + m[1, 0, 1],
        bins[16] * 100 + bins[25],
        (bins[16] + 5) * bins[16],
        9 * x,
        a[2, 1] + 2,
    ]


def test_everything_about_values():
    x = np.arange(N, dtype=np.float32)
    expected = [expected_everything(v, i) for i, v in enumerate(x)]
    np.testing.assert_allclose(outputs(everything, N, x, np.zeros((N, 6))), expected, rtol=1e-6)
    call = wp.jax_kernel(everything, launch_dims=N, output_dims=(N, 6))
    np.testing.assert_allclose(call(x)[0], expected, rtol=1e-6)
    batch = jnp.stack([x, x + 1, 2 * x])
    got = jax.jit(jax.vmap(lambda x: call(x)[0]))(batch)
    for one, row in zip(batch, got, strict=True):
        want = [expected_everything(float(v), i) for i, v in enumerate(one)]
        np.testing.assert_allclose(row, want, rtol=1e-6)


def test_cuda_code_run_on_the_host():
    x = np.arange(N, dtype=np.float32)
    ir = prepare(everything.specialize(), fma=False)
    buffers = [x.copy(), np.zeros((N, 6), np.float32)]
    hostcuda.run_host(ir, (N,), buffers)
    np.testing.assert_allclose(buffers[1], [expected_everything(v, i) for i, v in enumerate(x)], rtol=1e-6)


@pytest.mark.parametrize("dtype", [wp.bool, wp.int8, wp.uint64, wp.float16, wp.bfloat16, wp.float64])
def test_every_kind_of_number(dtype):
    @wp.kernel
    def k(x: wp.array[Any], out: wp.array[Any]):
        i = wp.tid()
        a = wp.zeros(4, dtype)
        out[i] = a[i % 4]
        a[i % 4] = x[i]
        a[(i + 1) % 4] = x[i]
        if i > 1:
            out[i] = a[(i + 1) % 4]

    x = np.array([1, 1, 1, 0, 1, 1, 0]).astype(dtype.numpy)
    kinds = [wp.array(dtype=dtype, ndim=1)] * 2
    got = run(k, 7, x, np.ones(7), kinds=kinds)[-1]
    np.testing.assert_array_equal(got, np.where(np.arange(7) > 1, x, 0))


@wp.struct
class Part:
    weights: wp.vec2


@wp.struct
class Cell:
    count: int
    mass: float
    part: Part


@wp.func
def cells(n: int, x: float) -> wp.fixedarray(dtype=Cell, shape=(2, 3)):  # pyright: ignore[reportInvalidTypeForm]
    made = wp.zeros(shape=(2, 3), dtype=Cell)
    for i in range(made.shape[0]):
        for j in range(made.shape[1]):
            made[i][j].count = i * made.shape[1] + j
            made[i, j].mass = x * float(made[i, j].count + n)
            made[i, j].part.weights = wp.vec2(x * x, 1.0)
    return made


@wp.kernel
def of_structs(x: wp.array[float], out: wp.array[float]):
    t = wp.tid()
    one = cells(t, x[t])
    other = cells(t + 1, x[t])
    other[0, 0] = one[1, 2]
    total = 0.0
    for i in range(t):
        total += one[i % 2, i % 3].mass
    last = one[1, 2]
    out[t] = total + last.mass + float(last.count) * 10.0 + other[0, 0].part.weights[0] + other[0, 1].mass


def expected_of_structs(x: Any, t: int) -> Any:
    total = sum(x * ((i % 2) * 3 + i % 3 + t) for i in range(t))
    return total + x * (5 + t) + 50 + x * x + x * (1 + t + 1)


def test_arrays_of_structs():
    x = np.linspace(0.5, 2.0, 6, dtype=np.float32)
    expected = [expected_of_structs(x[t], t) for t in range(6)]
    np.testing.assert_allclose(outputs(of_structs, 6, x, np.zeros(6)), expected, rtol=1e-6)
    buffers = [x.copy(), np.zeros(6, np.float32)]
    hostcuda.run_host(prepare(of_structs.specialize(), fma=False), (6,), buffers)
    np.testing.assert_allclose(buffers[1], expected, rtol=1e-6)
    gradient = jax.grad(lambda x: wp.jax_kernel(of_structs)(x)[0].sum())(jnp.asarray(x))
    derived = [jax.grad(lambda x, t=t: expected_of_structs(x, t))(float(x[t])) for t in range(6)]
    np.testing.assert_allclose(gradient, derived, rtol=1e-5)


def test_an_array_made_in_a_loop_is_new_in_each_iteration():
    @wp.kernel
    def k(out: wp.array[int]):
        i = wp.tid()
        total = 0
        for t in range(50 + i):
            a = wp.zeros(2, int)
            a[t % 2] += t
            total += a[0]
        for _t in range(3):
            a = wp.zeros(2, int)
            a[0] += 1
            total += a[0]
        out[i] = total

    assert outputs(k, 2, np.zeros(2)).tolist() == [sum(range(0, 50, 2)) + 3, sum(range(0, 51, 2)) + 3]


def test_a_part_of_an_array_by_its_address():
    """Both names are of one memory, as in Warp."""

    @wp.func
    def doubled(a: wp.array[wp.vec2], k: int):
        a[k] = 2.0 * a[k]
        return a.shape[0]

    @wp.kernel
    def k(x: wp.array[wp.vec2], out: wp.array[wp.vec2], sizes: wp.array[int]):
        i = wp.tid()
        whole = wp.zeros(shape=(6,), dtype=wp.vec2)
        last = wp.array(ptr=whole.ptr + wp.uint64(2 * 8), shape=(4,), dtype=wp.vec2f)
        middle = wp.array(ptr=8 + last.ptr, shape=2, dtype=wp.vec2)
        for j in range(4):
            last[j] = x[4 * i + j]
        sizes[i] = 10 * doubled(middle, i % 2) + doubled(last, 3)
        middle[-1][1] += 1.0
        for j in range(6):
            out[6 * i + j] = whole[j]

    x = RNG.normal(size=(12, 2)).astype(np.float32)
    expected = np.zeros((3, 6, 2), np.float32)
    expected[:, 2:] = x.reshape(3, 4, 2)
    for i in range(3):
        expected[i, 3 + i % 2] *= 2
    expected[:, 5] *= 2
    expected[:, 4, 1] += 1
    out, sizes = run(k, 3, x, np.zeros((18, 2)), np.zeros(3, np.int32))[1:]
    np.testing.assert_allclose(out, expected.reshape(18, 2))
    assert sizes.tolist() == [24] * 3
    arrays = [wp.array(x, dtype=wp.vec2), wp.zeros(18, dtype=wp.vec2), wp.zeros(3, dtype=int)]
    wp.launch(k, 3, arrays)
    np.testing.assert_allclose(arrays[1].numpy(), expected.reshape(18, 2))


ERRORS = {
    "n = int(x[0])\n    a = wp.zeros(shape=n, dtype=float)": "must be known before it runs",
    "a = wp.zeros(shape=(2, 0), dtype=float)": "an extent must be positive, got 0",
    "a = wp.zeros(shape=2.5, dtype=float)": "an extent must be an integer",
    "a = wp.zeros(shape=(), dtype=float)": "the shape has no extent",
    "a = wp.zeros(dtype=float)": "expected a shape and a type",
    "a = wp.zeros(3, 4)": "dtype must be a scalar, vector, matrix or struct type, got the constant 4",
    "a = wp.zeros(3, float, device=1)": "expected a shape and a type",
    f"a = wp.zeros({MAX_BYTES // 4 + 1}, float)": f"at most {MAX_BYTES} are allowed",
    "a = wp.zeros(3, float)\n    a[3] = 1.0": "index 3 is out of range: this axis of a has the extent 3",
    "a = wp.zeros(3, float)\n    a[-4] = 1.0": "index -4 is out of range",
    "a = wp.zeros(3, float)\n    a[0] = wp.float64(1.0)": "a holds float32, got float64",
    "b = wp.array(ptr=x.ptr, shape=2, dtype=float)": "has no attribute ptr",
    "b = wp.array(ptr=wp.uint64(8), shape=2, dtype=float)": "a part of an array that the kernel made",
    "a = wp.zeros(3, float)\n    b = a.ptr - 4": r"no arithmetic but \+ a constant",
    "a = wp.zeros(3, float)\n    b = a.ptr + int(x[0])": r"no arithmetic but \+ a constant.*got int32",
    "a = wp.zeros(3, float)\n    b = a.ptr * 2.0": r"no arithmetic but \+ a constant",
    "a = wp.zeros(3, float)\n    x[0] = a.ptr": "the address of a",
    "a = wp.zeros(3, float)\n    b = wp.array(ptr=a.ptr, shape=3, dtype=int)": "expected one axis of float32",
    "a = wp.zeros((3, 2), float)\n    b = wp.array(ptr=a.ptr, shape=3, dtype=float)": "an array of one axis",
    "a = wp.zeros(3, float)\n    b = wp.array(ptr=a.ptr + 6, shape=1, dtype=float)": "take 4 bytes, got 6",
    "a = wp.zeros(3, float)\n    b = wp.array(ptr=a.ptr + 4, shape=3, dtype=float)": "elements 1 to 3 of a",
    "a = wp.zeros(3, float)\n    b = wp.atomic_cas(a, 0, 1.0, 2.0)": "an array of this thread alone",
}


@pytest.mark.parametrize("body", ERRORS)
def test_errors(body):
    scope = define(f"@wp.kernel\ndef k(x: wp.array[float]):\n    {body}\n")
    with pytest.raises(wp.errors.KernelError, match=ERRORS[body]) as caught:
        scope["k"].specialize()
    assert caught.value.loc is not None


def test_an_index_outside_is_noticed_by_the_interpreter():
    @wp.kernel
    def k(n: int, out: wp.array[int]):
        a = wp.zeros(4, int)
        out[0] = a[n]

    with pytest.raises(IndexError, match="index 4 of axis 0 of array a is out of range; its extent is 4"):
        outputs(k, 1, 4, np.zeros(1))


# Derivatives


@wp.kernel
def histogram(x: wp.array[D], at: wp.array2d[int], out: wp.array[D]):
    """Elements overwritten at indices from data, in a loop."""
    i = wp.tid()
    h = wp.zeros(shape=4, dtype=D)
    for t in range(at.shape[1]):
        j = at[i, t]
        h[j] += x[i] * D(float(t))
        h[(j + 1) % 4] = wp.sin(h[j]) + x[i] * h[(j + 1) % 4]
    for t in range(4):
        out[i] += h[t] * h[t]


@wp.func
def horner(c: wp.array[D], x: wp.float64):
    result = D(0.0)
    for k in range(len(c)):
        result = result * x + c[len(c) - 1 - k]
    return result


@wp.kernel
def polynomial(x: wp.array[D], out: wp.array[D]):
    """Constant indices, by reference, in an unrolled loop."""
    i = wp.tid()
    c = wp.zeros(5, D)
    for k in range(5):
        c[k] = x[k] * x[k]
    out[i] = horner(c, x[i]) * c[1]


@wp.kernel
def stack(x: wp.array[D], program: wp.array2d[int], out: wp.array[D]):
    """A stack machine: push, add, multiply, sine; branches, a moving top, integers beside floats."""
    i = wp.tid()
    s = wp.zeros(6, D)
    uses = wp.zeros(shape=(2, 2), dtype=int)
    top = 0
    for t in range(program.shape[1]):
        op = program[i, t]
        if op == 0 or top < 2:
            s[top] = x[t] * D(float(1 + uses[0, 0]))
            top += 1
            uses[0, 0] += 1
        elif op == 1:
            s[top - 2] += s[top - 1]
            top -= 1
        elif op == 2:
            s[top - 2] *= s[top - 1]
            top -= 1
        else:
            s[top - 1] = wp.sin(s[top - 1])
            uses[1, op % 2] += 1
    total = D(0.0)
    while top > 0:
        top -= 1
        total += s[top]
    out[i] = total * D(float(1 + uses[1, 1]))


@wp.kernel
def vectors(x: wp.array[D], out: wp.array[D]):
    i = wp.tid()
    v = wp.zeros(3, wp.vec3d)
    for t in range(20):
        v[t % 3].x += x[t % 5]
        v[t % 3] = wp.cross(v[(t + 1) % 3], v[t % 3]) * D(0.1) + wp.vec3d(x[i], D(1.0), x[t % 4])
    out[i] = wp.dot(v[0], v[1]) + v[2].y


@wp.func
def solved(a: wp.float64, b: wp.float64):
    """A two by two system by elimination, in an array of the function's own."""
    m = wp.zeros((2, 3), D)
    m[0, 0] = a
    m[0, 1] = b
    m[0, 2] = D(1.0)
    m[1, 0] = b
    m[1, 1] = D(3.0) + a
    m[1, 2] = a * b
    f = m[1, 0] / m[0, 0]
    for k in range(m.shape[1]):
        m[1, k] -= f * m[0, k]
    y = m[1, 2] / m[1, 1]
    return (m[0, 2] - m[0, 1] * y) / m[0, 0] + y


@wp.kernel
def gradient_of_a_function_with_an_array(x: wp.array[D], out: wp.array[D]):
    i = wp.tid()
    a, b = wp.grad(solved)(x[i], x[i] * x[i])
    v = x[i]
    while solved(v, D(0.3)) > D(0.6):
        v = v * D(1.3)
    out[i] = a * b + solved(x[i], v)


def random(*shape: int) -> np.ndarray:
    return RNG.uniform(0.4, 1.4, shape)


INDICES = RNG.integers(0, 4, (N, 13), dtype=np.int32)
CASES = {
    "histogram": (histogram, (random(N), INDICES, np.zeros(N))),
    "polynomial": (polynomial, (random(N), np.zeros(N))),
    "stack": (stack, (random(13), INDICES, np.zeros(N))),
    "vectors": (vectors, (random(N), np.zeros(N))),
    "gradient of a function": (gradient_of_a_function_with_an_array, (random(N), np.zeros(N))),
}


def make(name: str) -> Case:
    kernel, buffers = CASES[name]
    last = len(buffers) - 1
    return Case(name, kernel.specialize(), (N,), list(buffers), (0, last) if name == "histogram" else (0,), (last,))


@pytest.mark.parametrize("name", CASES)
def test_derivatives_in_all_modes(name):
    case = make(name)
    kit.check_tangent(case)
    kit.check_adjoint(case)
    kit.check_adjoint_of_tangent(case)
    kit.check_tangent_of_adjoint(case)


def test_derivatives_against_jax():
    x, at = random(N), RNG.integers(0, 4, (N, 100), dtype=np.int32)

    def ours(x):
        return wp.jax_kernel(histogram)(x, at)[0].sum()

    @jax.jit
    def theirs(x):
        def iteration(h, t, x, at):
            j = at[t]
            h = h.at[j].add(x * t)
            return h.at[(j + 1) % 4].set(jnp.sin(h[j]) + x * h[(j + 1) % 4])

        def one(x, at):
            steps = jnp.arange(len(at))
            h, _ = jax.lax.scan(lambda h, t: (iteration(h, t, x, at), None), jnp.zeros(4), steps)
            return (h * h).sum()

        with jax.numpy_dtype_promotion("standard"):
            return jax.vmap(one)(x, at).sum()

    np.testing.assert_allclose(jax.grad(ours)(x), jax.grad(theirs)(x), rtol=1e-9)
    np.testing.assert_allclose(jax.jacfwd(ours)(x), jax.grad(theirs)(x), rtol=1e-9)
    expected = jax.jvp(jax.grad(theirs), (x,), (x,))[1]
    np.testing.assert_allclose(jax.jvp(jax.grad(ours), (x,), (x,))[1], expected, rtol=1e-8, atol=1e-8)


def test_a_rule_sees_and_adds_to_an_array_of_the_thread():
    @wp.func
    def f(a: wp.array[D], i: int):
        return wp.floor(a[i])

    @wp.func_grad(f)
    def adj_f(a: wp.array[D], i: int, adj: wp.float64):
        weights = wp.zeros(2, D)
        for k in range(2):
            weights[k] += adj * D(float(k + 2))
        wp.adjoint[a][i] += weights[0] * a[i]
        wp.adjoint[a][i + 1] += weights[1]

    @wp.kernel
    def k(x: wp.array[D], out: wp.array[D]):
        i = wp.tid()
        a = wp.zeros(3, D)
        a[i] = x[i] * x[i]
        a[i + 1] = x[i]
        out[i] = f(a, i)

    x = jnp.array([1.5, 2.5])
    for transform in (jax.jacrev, jax.jacfwd):
        got = transform(lambda x: wp.jax_kernel(k)(x)[0].sum())(x)
        np.testing.assert_allclose(got, 2 * x**2 * 2 * x + 3)


@wp.kernel
def swapped_vjp(x: wp.array[D], place: wp.array[int], out: wp.array[D]):
    i = wp.tid()
    own = wp.zeros(3, dtype=D)
    for k in range(3):
        own[place[k]] = own[place[k]] * x[k] + x[i]
    out[i] = own[0] * own[place[i]]


def test_a_kernel_may_be_named_like_a_derivative():
    with jax.enable_x64(True):
        x, place = jnp.array([0.3, 0.8, 1.2]), jnp.array([0, 2, 0], jnp.int32)
        call = wp.jax_kernel(swapped_vjp, launch_dims=3, output_dims=3)

        def f(x):
            return call(x, place)[0]

        np.testing.assert_allclose(jax.jacrev(f)(x), jax.jacfwd(f)(x), rtol=1e-12)
        assert np.abs(jax.jacrev(f)(x)).max() > 0.1
