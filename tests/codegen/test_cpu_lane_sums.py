"""Floats to which all lanes add: several sums at once, without atomics where an array is a rectangle's own."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cpukit import Make, check, floats
from hypothesis import strategies as st
from test_cpu_copies import copies_of

import jaxwarp as wp
from jaxwarp.codegen.cpu import choose_cut, compile_cpu, launch
from jaxwarp.codegen.cpu.accumulate.lane_sums import sums_of_lanes
from jaxwarp.codegen.cpu.llvm.vectors import VectorBuilder
from jaxwarp.ffi import lowering
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import bool_, float32, float64, int32


def sums_kernel(places, masked=False, extents=((None,), (None, 3)), dtypes=(float32, float32)):
    """for k: y[k] += x * c  or  z[k, n] += x * c, one after the other, with computations between them.

    `places`: of each addition whether it is to `y` (None) or to which component of `z`.
    """
    m = Make()
    flag, x = m.array(None, dtype=bool_), m.array(None, dtype=float32)
    targets = [m.array(*shape, dtype=dtype) for shape, dtype in zip(extents, dtypes, strict=True)]
    count = m.array(dtype=int32)
    i = m.tid(0)
    value = m.load(x, [i])

    def iteration(k):
        for number, place in enumerate(places):
            target = targets[place is not None]
            index = [k] if place is None else [k, m.i(place)]
            change = m.op("mul", m.cast(value, target.dtype), m.f(number + 1.0, target.dtype))
            m.atomic("add", target, index, m.op("add", change, m.cast(k, target.dtype)))
        return []

    def loop():
        m.for_(m.i(0), m.load(count, []), m.i(1), [], iteration)
        return []

    if masked:
        m.if_(m.load(flag, [i]), loop, list)
    else:
        loop()
    return m.kernel()


def sums_buffers(n, sizes, dtypes=(float32, float32)):
    rng = np.random.default_rng(n)
    arrays = [floats(*size, seed=9).astype(t.numpy) for size, t in zip(sizes, dtypes, strict=True)]
    return [rng.random(n) < 0.5, floats(n, seed=1), *arrays, np.array(min(sizes[0][0], sizes[1][0]), np.int32)]


ALL = (None, 0, 1, 2, None, 0, 0, None, 1, 2, 2)


@pytest.mark.parametrize(("number", "widths"), [
    (1, (8,)), (2, (2, 4, 8)), (3, (4, 16)), (4, (8,)), (5, (64,)), (8, (8,)), (9, (16,)), (11, (4,)),
])  # fmt: skip
def test_every_number_of_sums(number, widths):
    """More than a quarter of a register holds, and more than are made at once; some twice to one element."""
    check(sums_kernel(ALL[:number], number % 2 == 1), (45,), sums_buffers(45, ((70,), (70, 3))), widths)


@pytest.mark.parametrize("dtypes", [(float64, float64), (float32, float64), (float64, float32)], ids=str)
def test_types(dtypes):
    kernel = sums_kernel(ALL[:7], True, dtypes=dtypes)
    check(kernel, (83,), sums_buffers(83, ((70,), (70, 3)), dtypes), (2, 4, 16))


@pytest.mark.parametrize("sizes", [((8,), (8, 3)), ((64,), (22, 3)), ((65,), (21, 3)), ((7,), (90, 3)), ((0,), (5, 3))])
def test_few_elements_beside_many(sizes):
    """What is summed in the function's frame is, whatever it is added with."""
    check(sums_kernel(ALL[:5]), (45,), sums_buffers(45, sizes), (16,))
    check(sums_kernel(ALL[:5], True), (300,), sums_buffers(300, sizes), (8,), [(0, 1, 0, 64), (0, 1, 64, 300)])


def test_infinities_and_zeros_of_lanes_that_are_off():
    """They are not added: not a NaN, and no 0 that would iteration -0 into 0."""
    kernel = sums_kernel((None, 0, 1), True)
    flags, x, y, z, count = sums_buffers(40, ((70,), (70, 3)))
    x[~flags] = np.inf
    check(kernel, (40,), [flags, x, y, z, count], (4, 8))
    m = Make()
    flag, x, y = m.array(None, dtype=bool_), m.array(None), m.array(None)
    value = m.load(x, [m.tid(0)])

    def update():
        for k in range(3):
            m.atomic("add", y, [m.i(k)], value)
        return []

    m.if_(m.load(flag, [m.tid(0)]), update, list)
    on = np.arange(40) == 3
    (*_, got) = check(
        m.kernel(), (40,), [on, np.where(on, -0.0, 1.0).astype(np.float32), np.full(70, -0.0, np.float32)]
    )
    assert np.all(np.signbit(got))


def test_no_addition_passes_a_load():
    """The sum that was read in between is that of the first addition."""
    m = Make()
    x, y, seen = m.array(None), m.array(None), m.array(None)
    i = m.tid(0)
    m.atomic("add", y, [m.i(0)], m.load(x, [m.i(0)]))
    m.store(seen, [i], m.load(y, [m.i(0)]))
    m.atomic("add", y, [m.i(0)], m.load(x, [m.i(1)]))
    check(m.kernel(), (1,), [floats(2), np.ones(1, np.float32), np.zeros(1, np.float32)])


def atomic_additions(code):
    return code.text.count("atomicrmw fadd")


@pytest.mark.parametrize("has_copies", [False, True])
def test_without_atomics(has_copies, monkeypatch):
    """What is not atomic adds ten thousand here: all that a call does that is alone, or has copies."""
    from jaxwarp.codegen.cpu.accumulate import atomics

    in_place = atomics.in_place

    def marked(one, op, pointer, value):
        type_ = one.type(op.param.dtype)
        return in_place(one, op, pointer, one.inst(f"fadd {type_} {value}, {one.const(op.param.dtype, 1e4)}"))

    monkeypatch.setattr(atomics, "in_place", marked)
    kernel = prepare(sums_kernel((None, 0, 1, 2)))
    code = compile_cpu(kernel, 8)
    assert code.contended == code.summed
    assert len(code.summed) == 4
    assert code.cut.copied == (2, 3)
    for tiles in ([(0, 1, 0, 128)], [(0, 1, 0, 64), (0, 1, 64, 128)]):
        flags, x, y, z, count = sums_buffers(128, ((70,), (70, 3)))
        buffers = [flags, np.zeros_like(x), np.zeros_like(y), np.zeros_like(z), count]
        launch(code, kernel, (128,), buffers, tiles, has_copies)
        is_own = has_copies or len(tiles) == 1
        assert np.all((buffers[2] > 1e4) == is_own)
        assert np.all((buffers[3] > 1e4) == is_own)


@st.composite
def random_sums(draw):
    places = draw(st.lists(st.sampled_from([None, 0, 1, 2]), min_size=1, max_size=10))
    dtypes = tuple(draw(st.sampled_from([float32, float64])) for _ in range(2))
    rows = draw(st.sampled_from([1, 5, 22, 64, 70]))
    extents = draw(st.sampled_from([((None,), (None, 3)), ((None,), (None, None)), ((rows,), (rows, 3))]))
    kernel = sums_kernel(places, draw(st.booleans()), extents, dtypes)
    n = draw(st.sampled_from([0, 1, 7, 64, 100, 200]))
    cut = draw(st.sampled_from([None, 64, 128]))
    tiles = None if cut is None or cut > n else [(0, 1, 0, cut), (0, 1, cut, n)]
    return kernel, n, sums_buffers(n, ((rows,), (rows, 3)), dtypes), tiles


@hypothesis.settings(max_examples=8, deadline=None)
@hypothesis.given(random_sums(), st.sampled_from([2, 4, 8, 16, 32]))
def test_random_sums(case, width):
    kernel, n, buffers, tiles = case
    check(kernel, (n,), buffers, (width,), tiles)


def test_the_order_of_additions():
    """Of sums made at once: each quarter of 128 bits by halves, then the quarters by halves."""
    text = VectorBuilder(8)
    assert len(sums_of_lanes(text, float32, ["%a", "%b", "%c", "%d"], 256)) == 4
    lines = "\n".join(text.function.lines)
    assert lines.count("fadd <8 x float>") == 3
    assert lines.count("fadd <4 x float>") == 1
    assert "fadd float" not in lines


# Launches


@pytest.fixture(autouse=True)
def _pool_of_eight(monkeypatch):
    monkeypatch.setattr(lowering, "pool_size", lambda: 8)


@wp.kernel
def attraction(pos: wp.array[wp.vec3], mass: wp.array[float], acc: wp.array[wp.vec3]):
    i = wp.tid()
    p = pos[i]
    a = wp.vec3(0.0, 0.0, 0.0)
    for j in range(pos.shape[0]):
        d = pos[j] - p
        r2 = wp.dot(d, d) + 0.01
        a += d * (mass[j] / (r2 * wp.sqrt(r2)))
    acc[i] = a


def attraction_by_hand(pos, mass):
    d = pos[None] - pos[:, None]
    r2 = (d * d).sum(-1) + 0.01
    return (d * (mass / (r2 * jnp.sqrt(r2)))[..., None]).sum(1)


def test_gradients_of_attractions():
    """Of few bodies and of many, which have copies: as JAX has them, and the same each time."""
    for n, count in ((20, 0), (700, 7)):
        rng = np.random.default_rng(n)
        pos, ct = (jnp.asarray(rng.standard_normal((n, 3)), jnp.float32) for _ in range(2))
        mass = jnp.asarray(rng.uniform(0.5, 1.5, n), jnp.float32)

        def pulled(function, pos, mass, ct):
            return jax.vjp(function, pos, mass)[1](ct)

        ours = lambda pos, mass, ct: pulled(lambda *x: wp.jax_kernel(attraction)(*x)[0], pos, mass, ct)  # noqa: E731
        right = pulled(attraction_by_hand, pos, mass, ct)
        program = jax.jit(ours)
        found = program(pos, mass, ct)
        for got, expected in zip(found, right, strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3 * float(jnp.abs(expected).max()))
        for _ in range(5):
            assert all(np.array_equal(a, b) for a, b in zip(program(pos, mass, ct), found, strict=True))
        size = -(-n * 12 // 64) * 64 + -(-n * 4 // 64) * 64
        assert copies_of(ours, pos, mass, ct) == ([(count, count * size)] if count else [])


@wp.kernel
def layer(x: wp.array2d[float], w: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = 0.0
    for k in range(w.shape[0]):
        s += wp.sin(x[i, k] * w[k])
    y[i] = s


@pytest.mark.parametrize("inputs", [5, 64, 65, 300])
def test_weights_that_every_thread_reads(inputs):
    """Few are summed in the function's frame, which takes no copy."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((2000, inputs)), jnp.float32)
    w, ct = (jnp.asarray(rng.standard_normal(n), jnp.float32) for n in (inputs, 2000))

    def gradient(x, w, ct):
        return jax.vjp(lambda w: wp.jax_kernel(layer, launch_dims=2000)(x, w, output_dims=2000)[0], w)[1](ct)[0]

    right = jax.vjp(lambda w: jnp.sin(x * w).sum(1), w)[1](ct)[0]
    np.testing.assert_allclose(jax.jit(gradient)(x, w, ct), right, rtol=1e-3, atol=1e-3)
    assert bool(copies_of(gradient, x, w, ct)) == (inputs > 64)


def test_few_elements_do_not_keep_a_launch_whole():
    kernel = prepare(sums_kernel((None, 0, 1, 2)))
    code = compile_cpu(kernel, 8)
    y, z = kernel.params[2:4]
    assert code.cut.max_unsplit_threads == 1

    def alone(*sizes):
        return choose_cut(kernel, code.contended, code.summed, False, dict(zip((y, z), sizes, strict=True)))[0]

    assert alone((60,), (20, 3)) == 1
    assert alone((70,), (70, 3)) == 2
