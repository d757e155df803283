"""CPU code: branches and loops that lanes take differently, at several vector widths, against the interpreter."""

import numpy as np
import pytest
from cpukit import Make, check, floats

from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.codegen.cpu.control import divergent
from jaxwarp.types import bool_, float32, float64, int8, int32, int64, uint8, uint16, uint32

SIZES = (1, 8, 21, 64, 77)


def flags(n, share=0.5, seed=0):
    return np.random.default_rng(seed).random(n) < share


def numbers(n, low, high, seed=0, dtype=np.int32):
    return np.random.default_rng(seed).integers(low, high, n).astype(dtype)


def costly(m, value):
    """Enough operations that a branch around them pays."""
    for step in range(8):
        value = m.op("add", m.op("mul", value, m.f(0.5)), m.f(float(step)))
    return value


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("is_costly", [False, True])
def test_branch_with_results(share, is_costly):
    """if flag: y = f(x), n = x > 0  else: y = -x, n = flag"""
    m = Make()
    flag, x, y, n = m.array(None, dtype=bool_), m.array(None), m.array(None), m.array(None, dtype=bool_)
    i = m.tid(0)
    condition, value = m.load(flag, [i]), m.load(x, [i])
    shape = costly if is_costly else lambda m, v: m.op("add", v, m.f(1.0))
    out, sign = m.if_(
        condition,
        lambda: (shape(m, value), m.op("gt", value, m.f(0.0))),
        lambda: (m.op("neg", value), condition),
    )
    m.store(y, [i], out)
    m.store(n, [i], sign)
    for size in SIZES:
        check(m.kernel(), (size,), [flags(size, share), floats(size), floats(size), flags(size, 0.5, 1)])


def test_branches_with_loads_and_stores():
    """if flag: b[i] = a[order[i]] + 1  else: a[i] *= 2 and b[i] = 0"""
    m = Make()
    flag, order = m.array(None, dtype=bool_), m.array(None, dtype=int32)
    a, b = m.array(None), m.array(None)
    i = m.tid(0)

    def then():
        m.store(b, [i], m.op("add", m.load(a, [m.load(order, [i])]), m.f(1.0)))
        return ()

    def orelse():
        m.store(a, [i], m.op("mul", m.load(a, [i]), m.f(2.0)))
        m.store(b, [i], m.f(0.0))
        return ()

    m.if_(m.load(flag, [i]), then, orelse)
    for n in SIZES:
        # A thread of the first branch reads its own element, or one that nobody writes.
        chosen = flags(n)
        order_data = np.where(chosen, np.flatnonzero(chosen)[0] if chosen.any() else 0, 0).astype(np.int32)
        check(m.kernel(), (n,), [chosen, order_data, floats(n), floats(n)])


def test_lanes_that_are_off_touch_nothing():
    """Indices of threads that a test excludes are far outside; the page behind would fault."""
    m = Make()
    a, far, out = m.array(None), m.array(None, dtype=int64), m.array(None)
    i = m.tid(0)
    index = m.load(far, [i])

    def then():
        m.store(out, [i], m.load(a, [index]))
        m.store(a, [index], m.f(3.0))
        m.atomic("add", a, [index], m.f(1.0))
        return ()

    m.if_(m.op("lt", index, m.cast(m.size(a, 0), int64)), then)
    for n in (20, 64, 77):
        index_data = np.where(flags(n, 0.3), np.arange(n), (1 << 60) + np.arange(n))
        check(m.kernel(), (n,), [floats(n), index_data, np.zeros(n, np.float32)])


def test_early_return_past_the_end():
    """A launch larger than the array: `if i >= n: return`."""
    m = Make()
    a = m.array(None)
    i = m.tid(0)
    outside = m.op("ge", i, m.size(a, 0))

    def work():
        m.store(a, [i], costly(m, m.load(a, [i])))
        return ()

    m.if_(m.op("logical_not", outside), work)
    for n in SIZES:
        check(m.kernel(), (n + 40,), [floats(n)])


def test_nested_branches():
    m = Make()
    u, v, x, y = m.array(None, dtype=bool_), m.array(None, dtype=bool_), m.array(None), m.array(None)
    i = m.tid(0)
    p, q, value = m.load(u, [i]), m.load(v, [i]), m.load(x, [i])

    def store(constant):
        m.store(y, [i], costly(m, m.op("add", value, m.f(constant))))
        return (m.f(constant),)

    def both():
        inner = m.if_(q, lambda: store(1.0), lambda: (m.op("mul", value, m.f(4.0)),))
        m.store(x, [i], m.op("add", inner[0], m.load(y, [i])))
        return inner

    (result,) = m.if_(p, both, lambda: m.if_(m.op("logical_not", q), lambda: store(2.0), lambda: (value,)))
    m.store(y, [i], m.op("add", m.load(y, [i]), result))
    for n in SIZES:
        check(m.kernel(), (n,), [flags(n), flags(n, 0.5, 1), floats(n), floats(n)])


def test_branch_that_all_lanes_take_alike():
    """A condition of the launch, or of the row; inside it lanes still differ."""
    m = Make()
    mode, flag, x = m.array(dtype=int32), m.array(None, dtype=bool_), m.array(None, None)
    i, j = m.tid(0), m.tid(1)
    value = m.load(x, [i, j])
    odd = m.op("eq", m.op("bit_and", i, m.i(1)), m.load(mode, []))
    (result,) = m.if_(
        odd,
        lambda: m.if_(m.load(flag, [j]), lambda: (costly(m, value),), lambda: (m.f(7.0),)),
        lambda: (m.op("add", value, m.cast(i, float32)),),
    )
    m.store(x, [i, j], result)
    for which in (0, 1, 2):
        check(m.kernel(2), (3, 21), [np.full((), which, np.int32), flags(21), floats(3, 21)])


def test_uniform_and_linear_results_of_branches():
    """Results that agree across lanes on one side only, or step; used as indices afterwards."""
    m = Make()
    flag, scalar, table = m.array(None, dtype=bool_), m.array(dtype=bool_), m.array(None)
    out = m.array(3, None)
    i = m.tid(0)
    (a,) = m.if_(m.load(flag, [i]), lambda: (m.i(2),), lambda: (m.i(5),))
    (b,) = m.if_(m.load(scalar, []), lambda: (m.op("add", i, m.i(1)),), lambda: (m.op("add", i, m.i(3)),))
    (c,) = m.if_(m.load(scalar, []), lambda: (i,), lambda: (m.i(4),))
    for row, index in enumerate((a, b, c)):
        m.store(out, [m.i(row), i], m.load(table, [index]))
    for choice in (False, True):
        check(m.kernel(), (37,), [flags(37), np.array(choice), floats(48), np.zeros((3, 37), np.float32)])


RANGES = [(0, 5, 1), (3, 3, 1), (5, 0, 1), (0, 7, 3), (9, 1, -1), (9, 1, -4), (0, 5, 0), (0, 5, -1), (-4, 4, 2)]


@pytest.mark.parametrize(("start", "stop", "step"), RANGES)
@pytest.mark.parametrize("known", [True, False])
def test_loop_with_equal_trips(start, stop, step, known):
    """total += x * index, with bounds in the text or read at run time."""
    m = Make()
    bounds, x, out = m.array(3, dtype=int32), m.array(None), m.array(None)
    i = m.tid(0)
    ends = [m.i(v) if known else m.load(bounds, [m.i(at)]) for at, v in enumerate((start, stop, step))]
    value = m.load(x, [i])
    (total,) = m.for_(*ends, [m.f(1.0)], lambda k, t: (m.op("add", t, m.op("mul", value, m.cast(k, float32))),))
    m.store(out, [i], total)
    check(m.kernel(), (21,), [np.array([start, stop, step], np.int32), floats(21), floats(21)], (1, 8, 32))


@pytest.mark.parametrize("dtype", [int8, uint8, int32, uint32, int64], ids=str)
def test_ranges_at_the_ends_of_a_type(dtype):
    """The index never overflows on its way out, per lane or in all lanes alike."""
    info = np.iinfo(dtype.numpy)
    low, high = int(info.min), int(info.max)
    triples = [(high - 3, high, 1), (high - 5, high, 3), (high - 1, high, high), (0, 2, high), (low, low + 2, 1)]
    if dtype.is_signed:
        triples += [(low + 3, low, -1), (low + 5, low, -3), (low, high, high), (high, low, low), (low, low, low)]
    m = Make()
    bounds, counts, sums = m.array(None, 3, dtype=dtype), m.array(None, dtype=int32), m.array(None, dtype=dtype)
    i = m.tid(0)
    for row in (i, m.op("mul", i, m.i(0))):
        ends = [m.load(bounds, [row, m.i(at)]) for at in range(3)]

        def body(k, count, total):
            return m.op("add", count, m.i(1)), m.op("add", total, k)

        count, total = m.for_(*ends, [m.load(counts, [i]), m.load(sums, [i])], body)
        m.store(counts, [i], count)
        m.store(sums, [i], total)
    rows = np.array([triples[n % len(triples)] for n in range(19)], dtype.numpy)
    check(m.kernel(), (19,), [rows, np.zeros(19, np.int32), np.zeros(19, dtype.numpy)])


def test_loop_with_differing_trips():
    """Rows of a sparse matrix: for k in range(first[i], first[i + 1])."""
    m = Make()
    first, column = m.array(None, dtype=int32), m.array(None, dtype=int32)
    weight, x, out = m.array(None), m.array(None), m.array(None)
    i = m.tid(0)
    ends = m.load(first, [i]), m.load(first, [m.op("add", i, m.i(1))])

    def body(k, total):
        return (m.op("add", total, m.op("mul", m.load(weight, [k]), m.load(x, [m.load(column, [k])]))),)

    (total,) = m.for_(*ends, m.i(1), [m.f(0.0)], body)
    m.store(out, [i], total)
    for n in SIZES:
        offsets = np.concatenate([[0], np.cumsum(numbers(n, 0, 6, n))]).astype(np.int32)
        entries = int(offsets[-1])
        operands = [offsets, numbers(entries, 0, n, 2), floats(entries), floats(n), np.zeros(n, np.float32)]
        check(m.kernel(), (n,), operands)


@pytest.mark.parametrize("step", [1, 2, -1, -3, 0])
def test_loop_with_differing_bounds_and_stores(step):
    """Lanes leave one by one; the index and two carried values stay what they were then."""
    m = Make()
    lo, hi, log = m.array(None, dtype=int32), m.array(None, dtype=int32), m.array(None, 12, dtype=int32)
    out = m.array(None, 3, dtype=int32)
    i = m.tid(0)

    def body(k, count, last, alike):
        m.store(log, [i, count], k)
        return m.op("add", count, m.i(1)), k, m.op("mul", alike, m.i(3))

    bounds = (m.load(lo, [i]), m.load(hi, [i]), m.i(step))
    results = m.for_(*bounds, [m.i(0), m.i(-9), m.i(1)], body)
    for component, value in enumerate(results):
        m.store(out, [i, m.i(component)], value)
    for n in SIZES:
        operands = [numbers(n, -5, 6, 1), numbers(n, -5, 6, 2), np.zeros((n, 12), "i"), np.zeros((n, 3), "i")]
        check(m.kernel(), (n,), operands)


def test_while_with_divergent_exit():
    """Collatz steps: the condition reads memory, the body branches, one carried value counts alike in all lanes."""
    m = Make()
    start, limit, out = m.array(None, dtype=int32), m.array(None, dtype=int32), m.array(None, 3, dtype=int32)
    i = m.tid(0)

    def condition(n, steps, peak):
        return m.op("logical_and", m.op("gt", n, m.i(1)), m.op("lt", steps, m.load(limit, [i])))

    def body(n, steps, peak):
        odd = m.op("eq", m.op("bit_and", n, m.i(1)), m.i(1))
        (after,) = m.if_(
            odd,
            lambda: (m.op("add", m.op("mul", n, m.i(3)), m.i(1)),),
            lambda: (m.op("shr", n, m.i(1)),),
        )
        return after, m.op("add", steps, m.i(1)), m.op("max", peak, after)

    results = m.while_([m.load(start, [i]), m.i(0), m.i(0)], condition, body)
    for component, value in enumerate(results):
        m.store(out, [i, m.i(component)], value)
    for n in SIZES:
        check(m.kernel(), (n,), [numbers(n, 0, 60, n), numbers(n, 0, 90, 1), np.zeros((n, 3), np.int32)])


@pytest.mark.parametrize(
    ("dtype", "counted"),
    [(int8, 31), (uint8, 31), (uint16, 31), (int32, 31), (uint32, 31), (int64, 31), (int64, 2), (int64, 0)],
)
def test_counters_that_are_read_after_a_loop_that_lanes_leave(dtype, counted, monkeypatch):
    """Values that wrap, steps of either sign and from outside, starts that differ from lane to lane; beside them what
    is no counter: a step that changes, a difference the other way round, a counter that stops for some lanes.

    The floats of the loop say how wide its mask is: 32 bits here, 64 in the second run. Counts of 32 bits are added to
    those of 64 every 2^31 iterations, or, so that it is seen, every 4 iterations or in each.
    """
    monkeypatch.setattr(divergent, "COUNTED_BITS", counted)
    for real in (float32, float64):
        m = Make()
        x, given, out = m.array(None, dtype=real), m.array(None, dtype=dtype), m.array(None, 7, dtype=dtype)
        i = m.tid(0)
        first, step = (m.load(given, [m.i(at)]) for at in (0, 1))
        one, odd, linear = m.i(1, dtype), m.i(37, dtype), m.cast(i, dtype)

        def condition(v, w, *counters, m=m, real=real):
            return m.op("gt", m.op("add", v, w), m.f(0.0, real))

        def body(v, w, up, down, far, along, grows, turned, some, m=m, real=real, one=one, odd=odd, step=step):
            (some,) = m.if_(m.op("lt", v, m.f(3.0, real)), lambda: (m.op("add", some, one),), lambda: (some,))
            counted = m.op("add", one, up), m.op("sub", down, odd), m.op("add", far, step), m.op("sub", along, step)
            others = m.op("add", grows, up), m.op("sub", one, turned), some
            return m.op("sub", v, m.f(0.5, real)), m.op("mul", w, m.f(0.5, real)), *counted, *others

        value = m.load(x, [i])
        results = m.while_([value, value, one, first, odd, linear, one, one, one], condition, body)
        for component, result in enumerate(results[2:]):
            m.store(out, [i, m.i(component, int32)], result)
        for n in (1, 21, 77):
            start = np.random.default_rng(n).integers(-2, 9, n).astype(real.numpy)
            bounds = np.array([np.iinfo(dtype.numpy).max, 113], dtype.numpy)
            check(m.kernel(), (n,), [start, bounds, np.zeros((n, 7), dtype.numpy)])


def test_counts_are_added_before_they_wrap():
    """A lane that takes part in every iteration has counted 2**COUNTED_BITS by then; 2**32 was added as 0."""
    assert divergent.COUNTED_BITS < 32


def test_long_counts_of_nested_loops_begin_at_zero(monkeypatch):
    """They are in memory, which the loop before, the same one in the iteration before, has used."""
    monkeypatch.setattr(divergent, "COUNTED_BITS", 1)
    m = Make()
    x, out = m.array(None), m.array(None, dtype=int64)
    i = m.tid(0)

    def outer(j, total):
        start = m.op("add", m.load(x, [i]), m.cast(j, float32))
        _, iterations = m.while_(
            [start, m.i(0, int64)],
            lambda v, n: m.op("gt", v, m.f(0.0)),
            lambda v, n: [m.op("sub", v, m.f(1.0)), m.op("add", n, m.i(1, int64))],
        )
        return [m.op("add", m.op("mul", total, m.i(100, int64)), iterations)]

    (total,) = m.for_(m.i(0), m.i(4), m.i(1), [m.i(0, int64)], outer)
    m.store(out, [i], total)
    for n in (1, 45):
        starts = np.random.default_rng(n).integers(-4, 20, n).astype(np.float32)
        check(m.kernel(), (n,), [starts, np.zeros(n, np.int64)])


def test_endless_for_lanes_that_are_off():
    """The loop would never end for the threads that a branch keeps out of it, nor past the end of the columns."""
    m = Make()
    step, out = m.array(None, dtype=int32), m.array(None, dtype=int32)
    i = m.tid(0)
    stride = m.load(step, [i])

    def count():
        def body(k, n):
            return m.op("add", k, stride), m.op("add", n, m.i(1))

        return m.while_([m.i(0), m.i(0)], lambda k, n: m.op("lt", k, m.i(20)), body)[1:]

    (trips,) = m.if_(m.op("gt", stride, m.i(0)), count, lambda: (m.i(-1),))
    m.store(out, [i], trips)
    for n in SIZES:
        check(m.kernel(), (n,), [numbers(n, 0, 4, n), np.zeros(n, np.int32)])


def test_break_and_continue_as_bools():
    """for k in range(n): if a[k] > x: break; if k % 3 == 0: continue; total += a[k]"""
    m = Make()
    a, x, out = m.array(None), m.array(None), m.array(None)
    i = m.tid(0)
    bound = m.load(x, [i])

    def condition(k, broken, total):
        return m.op("logical_and", m.op("lt", k, m.size(a, 0)), m.op("logical_not", broken))

    def body(k, broken, total):
        value = m.load(a, [k])
        stop = m.op("gt", value, bound)
        skip = m.op("eq", m.op("mod", k, m.i(3)), m.i(0))
        quiet = m.op("logical_or", stop, skip)
        (after,) = m.if_(quiet, lambda: (total,), lambda: (m.op("add", total, value),))
        return m.op("add", k, m.i(1)), stop, after

    results = m.while_([m.i(0), m.const(False, bool_), m.f(0.0)], condition, body)
    m.store(out, [i], results[2])
    for n in SIZES:
        check(m.kernel(), (n,), [floats(23), floats(n, seed=3), np.zeros(n, np.float32)])


def test_nested_loops():
    """A divergent while in a loop of equal trips in a divergent for, with stores on the way."""
    m = Make()
    trips, x, out = m.array(None, dtype=int32), m.array(None), m.array(None, None)
    i = m.tid(0)
    count = m.load(trips, [i])

    def outer(k, total):
        def middle(j, t):
            def condition(n, s):
                return m.op("lt", n, m.op("add", m.op("mod", count, m.i(3)), j))

            def body(n, s):
                return m.op("add", n, m.i(1)), m.op("add", s, m.load(x, [m.op("add", n, k)]))

            return m.while_([m.i(0), t], condition, body)[1:]

        (inner,) = m.for_(m.i(0), m.i(3), m.i(1), [total], middle)
        m.store(out, [i, k], inner)
        return (m.op("mul", inner, m.f(0.5)),)

    (total,) = m.for_(m.i(0), count, m.i(1), [m.f(1.0)], outer)
    m.store(out, [i, m.i(0)], total)
    for n in SIZES:
        check(m.kernel(), (n,), [numbers(n, 0, 5, n), floats(16), np.zeros((n, 5), np.float32)])


def test_pointer_that_steps_in_a_loop():
    """A carried index that is linear in every iteration, and swapped carried values."""
    m = Make()
    a, out = m.array(None), m.array(None, 2)
    i = m.tid(0)

    def body(k, at, u, v):
        return m.op("add", at, m.size(out, 0)), v, m.op("add", u, m.load(a, [at]))

    results = m.for_(m.i(0), m.i(5), m.i(1), [i, m.f(0.0), m.f(1.0)], body)
    m.store(out, [i, m.i(0)], results[1])
    m.store(out, [i, m.i(1)], results[2])
    for n in SIZES:
        check(m.kernel(), (n,), [floats(5 * n), np.zeros((n, 2), np.float32)])


def test_no_operation_traps_on_a_lane_that_is_off():
    """Division, remainder and casts with the operands that trap, in lanes where they are guarded and where they are."""
    m = Make()
    a, b, out = m.array(None, dtype=int32), m.array(None, dtype=int32), m.array(None, 3, dtype=int32)
    i = m.tid(0)
    p, q = m.load(a, [i]), m.load(b, [i])

    def divide():
        return m.op("div", p, q), m.op("mod", p, q), m.cast(m.op("div", m.cast(p, float32), m.cast(q, float32)), int32)

    results = m.if_(m.op("ne", q, m.i(0)), divide, lambda: (p, q, p))
    results = [m.op("add", r, m.op("div", p, q)) for r in results]
    for component, value in enumerate(results):
        m.store(out, [i, m.i(component)], value)
    specials = np.array([0, 1, -1, 7, -(2**31), 2**31 - 1], np.int32)
    for n in (37, 64):
        rng = np.random.default_rng(n)
        check(m.kernel(), (n,), [rng.choice(specials, n), rng.choice(specials, n), np.zeros((n, 3), np.int32)])


def test_a_program_without_effects():
    m = Make()
    m.array(None)
    m.while_([m.i(0)], lambda k: m.op("lt", k, m.i(4)), lambda k: (m.op("add", k, m.i(1)),))
    run_cpu(m.kernel(), (3,), [floats(3)])
