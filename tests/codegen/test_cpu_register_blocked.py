"""CPU code: divergent loops, register-blocked, against the interpreter; and when they are."""

from __future__ import annotations

import re

import cpushapes
import numpy as np
import pytest
from cpukit import Make
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_strategy import DrawnPick, Pick, RandomPick, random_array, same_values

import jaxwarp as wp
from jaxwarp.analysis.own_bytes import own_bytes
from jaxwarp.codegen.cpu import compile_cpu, run_cpu
from jaxwarp.codegen.cpu.analysis.speculation import is_speculatable, shares_work
from jaxwarp.codegen.cpu.analysis.uniformity import find_strides
from jaxwarp.codegen.cpu.plan import width as rules
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.codegen.cpu.plan.width import choose_width
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Value, While, walk
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import Scalar, bool_, float32, float64, int32, int64, uint32

AVX2, SSE = Machine("", "", "+avx2"), Machine("", "", "+sse4.2")
# With registers of 256 bits, four of 32 lanes of float32 or of 16 of float64; with registers of 128 half as many.
SHAPES = ((64, AVX2), (32, AVX2), (16, AVX2), (16, SSE), (8, SSE), (8, AVX2), (1, AVX2))
TYPES = (float32, float64, int32, int64, uint32, bool_)
FLOAT_ROWS = ("add", "sub", "mul", "div", "min", "max")
INT_ROWS = ("add", "sub", "mul", "bit_and", "bit_xor", "shl", "shr", "max")
BOOL_ROWS = ("logical_and", "logical_or")
COMPARISONS = ("lt", "le", "eq", "ne", "gt")


def loops(kernel: Kernel) -> list[While]:
    return [op for op in walk(kernel.body) if isinstance(op, While)]


def divided(text: str) -> int:
    """How many register-blocked loops the code has: only these keep what lanes leave with in memory, or ask late."""
    return len(re.findall(r"^while\d+:\n(?:  .*\n|body\d+:\n)*  br i1 %\w+, label %while", text, re.MULTILINE))


def check(kernel: Kernel, grid, buffers, shapes=SHAPES) -> dict[tuple[int, Machine], str]:
    """All shapes of the code leave the buffers as the interpreter does. Returns the code."""
    prepared, texts = prepare(kernel), {}
    expected = [np.array(b) for b in buffers]
    interpret(prepared, grid, expected)
    for width, machine in shapes:
        got = [np.array(b) for b in buffers]
        texts[width, machine] = run_cpu(prepared, grid, got, width, machine=machine).text
        for param, right, ours in zip(kernel.params, expected, got, strict=True):
            assert same_values(right, ours), (
                f"width {width}, {machine.features}: {param.name}\n{right}\n{ours}\n{prepared}"
            )
    return texts


# Random loops


class Body:
    """Random operations on values at hand."""

    def __init__(self, m: Make, pick: Pick, values: list[Value]):
        self.m, self.pick, self.values = m, pick, list(values)

    def any_of(self, dtype: Scalar) -> Value:
        found = [v for v in self.values if v.type is dtype]
        if found and not self.pick.chance(10):
            return self.pick.of(found)
        if dtype is bool_:
            return self.m.const(self.pick.chance(50), bool_)
        return self.m.const(self.pick.of((1, 2, 3, -1)) if dtype is not uint32 else self.pick.of((1, 2, 7)), dtype)

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.values.append(self.made())

    def made(self) -> Value:
        m, pick, dtype = self.m, self.pick, self.pick.of(TYPES)
        kind = pick.integer(0, 9)
        if kind == 0:
            return m.op("select", self.any_of(bool_), self.any_of(dtype), self.any_of(dtype))
        if kind == 1:
            return self.branch(dtype)
        if kind == 2:
            return m.cast(self.any_of(pick.of(TYPES)), dtype)
        if dtype is bool_:
            other = pick.of(TYPES[:-1])
            name = pick.of(COMPARISONS if kind < 8 else BOOL_ROWS)
            return m.op(name, *(self.any_of(other if kind < 8 else bool_) for _ in range(2)))
        if dtype.is_float and kind == 3:
            return m.op("sqrt", m.op("abs", self.any_of(dtype)))
        return m.op(pick.of(FLOAT_ROWS if dtype.is_float else INT_ROWS), self.any_of(dtype), self.any_of(dtype))

    def branch(self, dtype: Scalar) -> Value:
        def arm():
            inner = Body(self.m, self.pick, self.values)
            inner.grow(self.pick.integer(0, 2))
            return (inner.any_of(dtype),)

        return self.m.if_(self.any_of(bool_), arm, arm)[0]


def random_loop(pick: Pick) -> Kernel:
    """A loop of at most nine iterations, whose results, those that are read, go to arrays of their own."""
    m = Make()
    sources = [m.array(None, dtype=dtype) for dtype in TYPES]
    bounds, limit = m.array(None, dtype=int32), m.array(dtype=int32)
    i = m.tid(0)
    outside = [m.load(source, [i]) for source in sources]
    outside += [i, m.cast(i, int64), m.cast(i, float32), m.load(limit, [])]
    bound = m.op("bit_and", m.load(bounds, [i]), m.i(7))
    before = Body(m, pick, outside)
    before.grow(pick.integer(0, 3))
    types = [pick.of(TYPES) for _ in range(pick.integer(1, 4))]
    inits = [m.i(0), *(before.any_of(t) for t in types)]
    step = m.i(1)
    late, extra = pick.chance(40), pick.integer(0, 3)

    def shared_work(values):
        return m.op("mul", m.op("add", values[0], bound), m.i(3))

    def condition(*carried):
        body = Body(m, pick, [*before.values, *carried])
        body.grow(extra)
        ends = [m.op("lt", carried[0], bound)]
        ends += [m.op("lt", carried[0], m.op("bit_and", outside[-1], m.i(15)))] if pick.chance(50) else []
        ends += [m.op("lt", shared_work(carried), m.i(40))] if late else []
        ends += [m.op("logical_or", body.any_of(bool_), m.op("lt", carried[0], m.i(2)))] if pick.chance(50) else []
        for end in ends[1:]:
            ends[0] = m.op("logical_and", ends[0], end)
        return ends[0]

    def iteration(*carried):
        body = Body(m, pick, [*before.values, *carried, *([shared_work(carried)] if late else [])])
        body.grow(pick.integer(1, 8))
        return [m.op("add", carried[0], step), *(body.any_of(t) for t in types)]

    def run():
        return m.while_(inits, condition, iteration)

    results = run() if pick.chance(60) else m.if_(before.any_of(bool_), run, lambda: inits)
    outs = [m.array(None, dtype=v.type) for v in results]
    for out, value in zip(outs, results, strict=True):
        if pick.chance(70):
            m.store(out, [i], value)
    total = m.array(dtype=int32)
    if pick.chance(30):  # sums of a row: what is left of it runs under a mask, as wide as the rest
        m.atomic("add", total, [], results[0])
    return m.kernel()


@settings(max_examples=14, deadline=None)
@given(st.data())
def test_random_loops(data):
    pick = DrawnPick(data.draw)
    kernel = random_loop(pick)
    rng = np.random.default_rng(pick.integer(0, 99))
    n = pick.of((1, 31, 32, 65, 100, 129))
    buffers = [random_array(rng, p.dtype, (n,) * p.rank) for p in kernel.params]
    buffers[-1] = np.zeros((), np.int32)
    check(kernel, (n,), buffers, [data.draw(st.sampled_from(SHAPES[:3])), data.draw(st.sampled_from(SHAPES[3:5]))])


def test_random_loops_are_divided():
    """The test above is of what it says."""
    texts = [compile_cpu(prepare(random_loop(RandomPick(seed))), 64, AVX2).text for seed in range(20)]
    assert sum(divided(text) > 0 for text in texts) >= 10


# Particular loops


def escape(real):
    @wp.kernel
    def escape(x: wp.array[real], limit: int, out: wp.array[int]):
        """Tests what it computes again."""
        i = wp.tid()
        cr = x[i]
        zr = real(0.0)
        zi = real(0.25)
        n = 0
        while zr * zr + zi * zi <= real(4.0) and n < limit:
            t = zr * zr - zi * zi + cr
            zi = real(2.0) * zr * zi + real(0.5)
            zr = t
            n += 1
        out[i] = n

    return prepare(escape.specialize())


def root(real):
    @wp.kernel
    def root(x: wp.array[real], out: wp.array[real]):
        i = wp.tid()
        a = x[i]
        v = a
        last = real(0.0)
        while wp.abs(v - last) > real(1.0e-6) * v:
            last = v
            v = real(0.5) * (v + a / v)
        out[i] = v

    return prepare(root.specialize())


@wp.kernel
def march(x: wp.array[float], out: wp.array[float]):
    """To a sphere: a vector carried, and a `break`."""
    i = wp.tid()
    d = wp.normalize(wp.vec3(x[i], 0.1, 1.0))
    p = wp.vec3(0.0, 0.0, -3.0)
    t = 0.0
    for _ in range(60):
        h = wp.length(p) - 1.0
        if h < 1.0e-3 or t > 8.0:
            break
        p = p + h * d
        t += h
    out[i] = t


@wp.kernel
def counted(x: wp.array[int], out: wp.array[float], place: wp.array[int], n: wp.array[int]):
    """Carries numbers that running lanes share, of integers and floats, one linear in the lane, and a bool."""
    i = wp.tid()
    left = x[i]
    t = 0.5
    s = 0.0
    j = i * 3
    c = 7
    up = left > 9
    while left > 0:
        left = left - 1
        t = t * 1.5 + 0.25
        if up:
            s += float(j & 15)
        up = left > 5 and not up
        j = j + 5
        c -= 2
    out[i] = t + s
    place[i] = j
    n[i] = c


@wp.kernel
def around(x: wp.array2d[float], out: wp.array2d[float], total: wp.array[int]):
    """Inside a loop of equal trips and a branch; the index clamped; a sum along the row."""
    y, i = wp.tid()
    s = 0.0
    n = 0
    for k in range(3):
        v = x[y, wp.min(i + 1, x.shape[1] - 1)] + float(k)
        if v > 0.5:
            while v < 20.0:
                v = wp.sqrt(v * v + 0.75) * 1.5
                n += 1
        s += v
    out[y, i] = s
    wp.atomic_add(total, y, n)


@pytest.mark.parametrize("limit", [0, 1, 17])
@pytest.mark.parametrize("real", [wp.float32, wp.float64], ids=["f32", "f64"])
def test_late_tests(real, limit):
    kernel = escape(real)
    (loop,) = loops(kernel)
    assert shares_work(loop, find_strides(kernel, 8))
    x = np.linspace(-2.5, 1.0, 133).astype(kernel.params[0].dtype.numpy)
    x[[3, 64, 70]] = np.nan, np.inf, -np.inf
    texts = check(kernel, (133,), [x, np.int32(limit), np.zeros(133, np.int32)])
    assert divided(texts[64, AVX2]) == 1
    assert divided(texts[16, AVX2]) == (real is wp.float64)


@pytest.mark.parametrize("real", [wp.float32, wp.float64], ids=["f32", "f64"])
def test_early_tests(real):
    kernel = root(real)
    (loop,) = loops(kernel)
    assert not shares_work(loop, find_strides(kernel, 8))
    x = np.linspace(0.0, 9.0, 133).astype(kernel.params[0].dtype.numpy)
    x[[1, 40]] = np.nan, np.inf
    texts = check(kernel, (133,), [x, np.zeros(133, x.dtype)])
    assert divided(texts[64, AVX2]) == 1


def test_no_lane_runs():
    check(root(wp.float32), (70,), [np.full(70, np.nan, np.float32), np.zeros(70, np.float32)])
    check(counted.specialize(), (70,), [np.zeros(70, np.int32), np.zeros(70, np.float32), *np.zeros((2, 70), np.int32)])


def test_vectors_and_breaks():
    check(march.specialize(), (133,), [np.linspace(-1, 1, 133, dtype=np.float32), np.zeros(133, np.float32)])


def test_shared_and_linear_numbers():
    left = np.random.default_rng(0).integers(-2, 40, 133).astype(np.int32)
    texts = check(counted.specialize(), (133,), [left, np.zeros(133, np.float32), *np.zeros((2, 133), np.int32)])
    assert divided(texts[64, AVX2]) == 1


def test_loops_around_and_masks():
    x = np.random.default_rng(0).uniform(-3, 3, (3, 101)).astype(np.float32)
    check(around.specialize(), x.shape, [x, np.zeros_like(x), np.zeros(3, np.int32)])


def test_what_is_not_divided():
    """Memory, calls, loops, branches of the launch or of many operations, small types: as a whole."""
    for name in ("load", "store", "exp", "for", "uniform if", "div", "int8"):
        m = Make()
        x, w, k = m.array(None), m.array(8), m.array(dtype=int32)
        i = m.tid(0)
        zero, is_one = m.i(0), m.op("eq", m.load(k, []), m.i(1))
        small = m.cast(m.load(x, [i]), wp.int8)

        def body(n, v, name=name, m=m, x=x, w=w, i=i, zero=zero, is_one=is_one, small=small):
            match name:
                case "load":
                    v = m.op("add", v, m.load(w, [zero]))
                case "store":
                    m.store(x, [i], v)
                case "exp":
                    v = m.op("exp", v)
                case "for":
                    (v,) = m.for_(zero, m.i(3), m.i(1), [v], lambda j, t: [m.op("mul", t, t)])
                case "uniform if":
                    (v,) = m.if_(is_one, lambda: (m.op("mul", v, v),), lambda: (v,))
                case "div":
                    v = m.cast(m.op("div", m.cast(v, int32), m.i(3)), float32)
                case "int8":
                    v = m.op("add", v, m.cast(m.op("add", small, m.cast(n, wp.int8)), float32))
            return [m.op("add", n, m.i(1)), m.op("mul", m.op("add", v, v), v)]

        v = m.load(x, [i])

        def goes_on(n, v, m=m):
            return m.op("logical_and", m.op("lt", v, m.f(9.0)), m.op("lt", n, m.i(4)))

        _, v = m.while_([zero, v], goes_on, body)
        m.store(x, [i], v)
        kernel = prepare(m.kernel())
        (loop,) = loops(kernel)
        assert not is_speculatable(loop, find_strides(kernel, 8)), name
        assert divided(compile_cpu(kernel, 32, AVX2).text) == 0, name


# Shape and choice


@pytest.fixture(scope="module")
def _all_targets():
    cpushapes.initialize()


@pytest.mark.usefixtures("_all_targets")
@pytest.mark.parametrize(("real", "lanes"), [(wp.float32, 32), (wp.float64, 16)], ids=["f32", "f64"])
def test_escape_time_of_four_registers_spills_next_to_nothing(real, lanes):
    """Four registers, for each mul, fma, fma, add, fma, add, cmp, and, count; and one question whether any goes on."""
    code = cpushapes.main_body(escape(real), cpushapes.MACHINES["v3"])
    assert code.width == lanes
    loop = [(label, block) for label, block in code.blocks if label.startswith(("while", "body"))]
    iteration = [entry for _, block in loop for entry in block]
    names = [name for name, _ in iteration]
    assert sum(n.startswith(("vfmadd", "vfmsub", "vfnmadd", "vfnmsub")) for n in names) == 12
    assert sum(n.startswith(("vtest", "vptest", "vmovmsk", "vpmovmsk")) for n in names) == 1
    assert not any("xmm" in operands for _, operands in iteration)
    on_stack = sum("(%rsp)" in operands or "(%rbp)" in operands for _, operands in iteration)
    assert on_stack <= 16  # as a whole it is 40; to count iterations 8, the point's own number 4
    assert len(names) <= 75


def test_four_registers_where_iterations_wait():
    assert choose_width(escape(wp.float32), AVX2) == 32
    assert choose_width(escape(wp.float64), AVX2) == 16
    assert choose_width(root(wp.float32), AVX2) == 32
    assert choose_width(prepare(around.specialize()), AVX2) == 32
    kernel = prepare(march.specialize())
    assert choose_width(kernel, AVX2) == 32
    assert choose_width(kernel, Machine("", "", "+avx2,+avx512f")) == 64


@wp.kernel
def softmax_of_rows(x: wp.array2d[float], out: wp.array2d[float]):
    i = wp.tid()
    powers = wp.tile_map(wp.exp, wp.tile_load(x, shape=(1, 256), offset=(i, 0)))
    total = wp.tile_sum(powers)
    wp.tile_store(out, powers * (1.0 / total[0]), offset=(i, 0))


def test_large_arrays_of_a_threads_own_take_fewer_lanes(monkeypatch):
    """Four registers of AVX-512 would be 64; one register is always taken."""
    machine, kernel = Machine("", "", "+avx2,+avx512f"), prepare(softmax_of_rows.specialize())
    assert 64 * own_bytes(kernel) > rules._NEAR_BYTES
    assert choose_width(kernel, machine) == 32
    monkeypatch.setattr(rules, "_NEAR_BYTES", 1 << 40)
    assert choose_width(kernel, machine) == 64
    monkeypatch.setattr(rules, "_NEAR_BYTES", 0)
    assert choose_width(kernel, machine) == 16


def test_two_registers_where_there_is_work_enough():
    """Iterations wait for a product and a test; two registers of a polynomial take longer."""

    @wp.kernel
    def polynomial(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        a = x[i]
        s = 0.0
        while a > 1.0:
            a = 0.5 * a
            p = 0.0
            for n in range(wp.static(12)):
                p = (p + float(n)) * a + wp.abs(a - float(n))
            s = s + p
        y[i] = s

    kernel = prepare(polynomial.specialize())
    assert is_speculatable(loops(kernel)[0], find_strides(kernel, 8))
    assert choose_width(kernel, AVX2) == 16


def test_a_loop_that_carries_on_what_is_from_outside():
    """The width was chosen by when each carried value comes, and one that no operation of the loop makes is there."""
    m = Make()
    x, y = m.array(None), m.array(None)
    i = m.tid(0)
    first, outside = m.load(x, [i]), m.load(y, [i])

    def body(value, factor, number):
        return [m.op("add", m.op("mul", value, factor), m.f(1.0)), outside, m.i(7)]

    results = m.while_([first, m.f(1.0), i], lambda value, *_: m.op("lt", value, m.f(100.0)), body)
    m.store(x, [i], m.op("add", m.op("mul", results[0], results[1]), m.cast(results[2], float32)))
    kernel, n = m.kernel(), 70
    buffers = [np.linspace(1, 120, n, dtype=np.float32), np.linspace(1, 3, n, dtype=np.float32)]
    assert choose_width(prepare(kernel), AVX2) == 32
    check(kernel, (n,), buffers)
