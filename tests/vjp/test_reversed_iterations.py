"""What a reversed iteration of a loop costs and gives: one division, one product from iteration to iteration, states of
all lanes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.codegen.cpu.run import launch
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Call, For, Op, While, walk
from jaxwarp.passes.pipeline import fix_rounding, prepare
from jaxwarp.types import float16, float32, float64, int32
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import adjoint
from jaxwarp.vjp.reverse.checkpoints import choose_layout

AVX2 = Machine("", "", "+avx2")


@wp.kernel
def newton(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    a = x[i]
    v = 1.0
    while wp.abs(v * v * v - a) > 1.0e-4 * a:
        v -= (v * v * v - a) / (3.0 * v * v)
    y[i] = v


@wp.kernel
def squares(x: wp.array[float], y: wp.array[float]):
    """Two carried values, products of a value by itself, also fused ones."""
    i = wp.tid()
    v = x[i]
    w = 0.5
    k = 0
    while v * v + w * w < 9.0 and k < 60:
        t = v * v - w * w + x[i]
        w = 0.5 * v * w + 0.1
        v = t
        k += 1
    y[i] = v * v * v + w


@wp.kernel
def bisection(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    a = x[i]
    low = 0.0
    high = a + 1.0
    while high - low > 1.0e-4 * a:
        mid = 0.5 * (low + high)
        if mid * mid * mid > a:
            high = mid
        else:
            low = mid
    v = 0.5 * (low + high)
    y[i] = v - (v * v * v - a) / (3.0 * v * v)


@wp.kernel
def roots(x: wp.array[float], y: wp.array[float]):
    """A loop that lanes leave in one of equal iterations."""
    i = wp.tid()
    s = x[i]
    for _ in range(5):
        v = 1.0
        while wp.abs(v * v - s) > 1.0e-3 * s:
            v = 0.5 * (v + s / v)
        s += 0.1 * v
    y[i] = s


@wp.kernel
def decay(x: wp.array[float], stop: wp.array[float], y: wp.array[float]):
    """Iterations from none to hundreds."""
    i = wp.tid()
    v = x[i]
    while v > stop[i]:
        v = v * (1.0 - 0.1 * v)
    y[i] = v


def reverse(kernel: wp.Kernel) -> Kernel:
    return prepare(adjoint(fix_rounding(kernel.ir()), [0]).kernel)


def last_loop(kernel: Kernel) -> list[Op]:
    """The reversed iterations."""
    *_, loop = (op for op in walk(kernel.body) if isinstance(op, For | While))
    return list(walk(loop.body))


def made_by(ops: list[Op]) -> list[str]:
    return [op.builtin.name for op in ops if isinstance(op, Call)]


def test_one_division_per_iteration():
    assert made_by(last_loop(reverse(newton))).count("div") == 1


def test_one_product_from_iteration_to_iteration():
    """What goes from iteration to iteration is multiplied once, by what is there before; the sum for `a` is one
    operation."""
    kernel = reverse(newton)
    *_, loop = (op for op in walk(kernel.body) if isinstance(op, For))
    carried, total = loop.body.params[1:]
    users = [op for op in loop.body.ops if {carried, total} & set(op.operands)]
    assert sorted(made_by(users)) == ["fma", "mul"]
    assert {value for op in users for value in op.defined} == set(loop.body.results)


def test_squares_take_one_product():
    """v v' + w w' + ...: three sums of the values carried, and none of two equal terms."""
    names = made_by(last_loop(reverse(squares)))
    assert names.count("fma") + names.count("add") <= 6, names


def test_squares_move_twice():
    """Of the adjoint itself: in JAX it is the tangent kernel that is transposed."""

    @wp.kernel
    def square(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * x[i] + 3.0 * x[i]

    made = adjoint(fix_rounding(square.ir()), [0])
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    kinds = [s.kind for s in made.slots]
    buffers = [x if s.kind == "primal" else np.full(9, float(s.index), np.float32) for s in made.slots]
    interpret(prepare(made.kernel), (9,), buffers)
    assert kinds.count("cotangent") == 2
    found = next(b for b, s in zip(buffers, made.slots, strict=True) if (s.kind, s.index) == ("cotangent", 0))
    np.testing.assert_array_equal(found, 2 * x + 3)


@wp.kernel
def scaled_square(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 4.5 * x[i] * x[i]


@wp.kernel
def scaled_square_in_a_sum(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * (x[i] * 4.5) + 3.0


@pytest.mark.parametrize("kernel", [scaled_square, scaled_square_in_a_sum])
@pytest.mark.parametrize("derive", [lambda k: adjoint(k, [0]), lambda k: tangent(k, [0])], ids=["adjoint", "tangent"])
def test_scaled_squares_take_one_product(kernel, derive):
    """d(c x x) = 2 (c x) dx: a product for c x, and one by what moves."""
    made = prepare(derive(fix_rounding(kernel.ir())).kernel)
    names = [op.builtin.name for op in walk(made.body) if isinstance(op, Call)]
    assert sum(names.count(product) for product in ("mul", "fma")) == 2, names
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    call = wp.jax_kernel(kernel)
    for found in (jax.grad(lambda x: call(x)[0].sum())(x), jax.jvp(lambda x: call(x)[0], (x,), (np.ones_like(x),))[1]):
        np.testing.assert_array_equal(found, 9 * x)
    (second,) = jax.jvp(jax.grad(lambda x: call(x)[0].sum()), (x,), (np.ones_like(x),))[1:]
    np.testing.assert_array_equal(second, np.full(9, 9, np.float32))


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_quotients_of_all_magnitudes(dtype):
    """By both operands, beside exact ones; from the least normal number to the largest."""

    @wp.kernel
    def ratio(a: wp.array[dtype], b: wp.array[dtype], y: wp.array[dtype]):
        i = wp.tid()
        y[i] = a[i] / b[i]

    info = np.finfo(dtype.numpy)
    rng = np.random.default_rng(2)
    span = np.log2(float(info.max)) - 1
    b = np.exp2(rng.uniform(-span + 1, span, 4000)).astype(dtype.numpy)
    quotients = np.exp2(rng.uniform(-20, 20, 4000)) * rng.choice([-1, 1], 4000)
    a = np.clip(b * quotients.astype(np.longdouble), -info.max, info.max).astype(dtype.numpy)
    a[:3], b[:3] = (0.0, 3.0, info.max), (2.0, info.tiny, info.max)
    with jax.enable_x64(True):
        call = lambda a, b: wp.jax_kernel(ratio)(a, b)[0]  # noqa: E731
        by_a, by_b = jax.vjp(call, jnp.asarray(a), jnp.asarray(b))[1](jnp.ones(4000, dtype.numpy))
    wide_a, wide_b = a.astype(np.longdouble), b.astype(np.longdouble)
    for got, right in ((by_a, 1 / wide_b), (by_b, -wide_a / wide_b / wide_b)):
        with np.errstate(over="ignore"):
            right_here = right.astype(dtype.numpy)
        finite, found = np.isfinite(right_here), np.asarray(got)
        allowed = 8 * info.eps * np.maximum(np.abs(right_here), info.tiny)[finite]
        np.testing.assert_array_less(np.abs(found[finite] - right_here[finite]), allowed)
        np.testing.assert_array_equal(found[~finite], right_here[~finite])


def test_quotients_of_half_precision_divide_twice():
    """1 / b of a b just above the least number is too large; the quotient's derivative need not be."""

    @wp.kernel
    def ratio(b: wp.array[float16], y: wp.array[float16]):
        i = wp.tid()
        y[i] = wp.float16(0.0) / b[i]

    b = jnp.array([1e-5, 2.0], jnp.float16)
    np.testing.assert_array_equal(jax.grad(lambda b: wp.jax_kernel(ratio)(b)[0].sum())(b), [0, 0])


@wp.kernel
def clipped(x: wp.array[float], iterations: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    k = 0
    while k < iterations[i]:
        v = wp.max(v - 1.0, 0.0)
        k += 1
    y[i] = wp.sqrt(v)


@wp.kernel
def chosen(x: wp.array[float], iterations: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    k = 0
    while k < iterations[i]:
        k += 1
        if v > 0.0:  # noqa: SIM108, a branch is what is tested
            v = v - 1.0
        else:
            v = 0.0
    y[i] = wp.sqrt(v)


@pytest.mark.parametrize("kernel", [clipped, chosen], ids=lambda k: k.name)
def test_an_infinite_cotangent_does_not_pass_a_side_that_was_not_taken(kernel):
    """At zero the square root is infinitely steep; what has been cut off has nothing to do with that."""
    x, iterations = jnp.array([0.5, -2.0, 5.0, 4.0]), jnp.array([2, 3, 1, 0], jnp.int32)
    gradient = jax.grad(lambda x: wp.jax_kernel(kernel)(x, iterations)[0].sum())(x)
    np.testing.assert_allclose(gradient, [0.0, 0.0, 0.25, 0.25])


@pytest.mark.parametrize("carried", [float32, float64], ids=str)
def test_an_iteration_of_several_types(carried):
    """The factor that the iterations share is of the other type; this was refused."""
    other = float64 if carried is float32 else float32

    @wp.kernel
    def powers(x: wp.array[carried], w: wp.array[other], iterations: wp.array[int], y: wp.array[carried]):
        i = wp.tid()
        v = x[i]
        f = w[i]
        for _ in range(iterations[i]):
            v = carried(other(v) * f)
        y[i] = v

    iterations = np.array([0, 1, 2, 5, 9, 3, 17, 4, 1], np.int32)
    x, w = np.linspace(0.5, 1.5, 9).astype(carried.numpy), np.linspace(1.2, 0.8, 9).astype(other.numpy)
    with jax.enable_x64(True):
        run = wp.jax_kernel(powers)
        by_x, by_w = jax.grad(lambda x, w: run(x, w, iterations)[0].sum(), argnums=(0, 1))(x, w)
    assert (by_x.dtype, by_w.dtype) == (carried.numpy, other.numpy)
    start, factor = x.astype(np.float64), w.astype(np.float64)
    np.testing.assert_allclose(by_x, factor**iterations, rtol=1e-5)
    np.testing.assert_allclose(by_w, start * iterations * factor ** np.maximum(iterations - 1, 0), rtol=1e-5)


def test_the_fewer_values_the_longer_the_segments():
    sizes = {1: [float32], 2: [float64], 3: [float32] * 4, 4: [float64] * 8, 5: [float64] * 8 + [int32]}
    assert [choose_layout(types).fine for types in sizes.values()] == [7, 7, 6, 5, 4]
    for types in sizes.values():  # of 16 lanes of float32, or 8 of float64, in a first cache
        lanes = 16 if types[0] is float32 else 8
        assert (choose_layout(types).segment + 1) * lanes * sum(t.bytes for t in types) < 20 << 10


@pytest.mark.parametrize("kernel", [newton, bisection, roots, decay, squares], ids=lambda k: k.name)
def test_lanes_that_leave_apart_at_all_widths(kernel):
    """Machine code of reverse sweeps beside the interpreter, bit for bit: no iteration, many, all lanes alike, one
    long."""
    rng, made = np.random.default_rng(3), adjoint(fix_rounding(kernel.ir()), [0])
    prepared = prepare(made.kernel)
    codes = {width: compile_cpu(prepared, width) for width in (1, 2, 8, 16, 32)}
    for threads, alike in ((1, False), (77, False), (77, True)):
        x = rng.uniform(0.5, 2.0, threads).astype(np.float32)
        if kernel is newton:
            x[::5] = 1.0  # no iteration
        stop = rng.choice([3.0, 0.5, 0.06], threads).astype(np.float32)
        stop[0] = 0.015
        primals = [x, stop, np.zeros_like(x)] if kernel is decay else [x, np.zeros_like(x)]
        if alike:
            primals = [np.full_like(p, p[0]) for p in primals]
        sources = [primals[s.index] if s.kind == "primal" else rng.normal(size=threads) for s in made.slots]
        buffers = [np.array(b, p.dtype.numpy) for b, p in zip(sources, made.kernel.params, strict=True)]
        expected = [b.copy() for b in buffers]
        interpret(prepared, (threads,), expected)
        for width, code in codes.items():
            got = [b.copy() for b in buffers]
            launch(code, prepared, (threads,), got)
            for right, ours in zip(expected, got, strict=True):
                np.testing.assert_array_equal(ours, right, err_msg=f"width {width}")


def test_states_are_loaded_without_masks():
    """The memory is there for all lanes; without mask registers a masked load is three instructions."""
    text = compile_cpu(reverse(newton), 16, AVX2).text
    main = text.split("\nchunk:")[1].split("\nrest:")[0]
    assert "llvm.masked.load" not in main
