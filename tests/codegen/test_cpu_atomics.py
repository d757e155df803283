"""CPU code: atomics of every kind and type, against the interpreter: what is left and what was there before."""

import threading

import numpy as np
import pytest
from cpukit import Make, check, floats

from jaxwarp.codegen.cpu import compile_cpu, launch
from jaxwarp.codegen.cpu.plan.privatization import row_sums
from jaxwarp.ir.nodes import ATOMIC_KINDS
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import SCALARS, bool_, float32, float64, int32, uint8

BITWISE = ("and", "or", "xor")
WIDTHS = (1, 8, 32)


def values(dtype, n, seed=0):
    rng = np.random.default_rng(seed)
    if dtype is bool_:
        return rng.integers(0, 2, n).astype(bool)
    if dtype.is_float:
        numbers = (rng.integers(-20, 20, n) / 4).astype(dtype.numpy)
        return np.where(rng.random(n) < 0.1, np.nan, numbers).astype(dtype.numpy)
    return rng.integers(0, 256, n * dtype.bytes).astype(np.uint8).view(dtype.numpy)


def _cases():
    for dtype in SCALARS:
        for kind in ATOMIC_KINDS:
            if not (dtype.is_float and kind in BITWISE):
                yield pytest.param(dtype, kind, id=f"{dtype}-{kind}")


@pytest.mark.parametrize(("dtype", "kind"), list(_cases()))
def test_atomics(dtype, kind):
    """Under a mask and without, at a few elements and at one; a thread's iteration comes in thread order."""
    m = Make()
    flag, where = m.array(None, dtype=bool_), m.array(None, dtype=int32)
    x, y = m.array(None, dtype=dtype), m.array(None, dtype=dtype)
    few, one, old = m.array(None, dtype=dtype), m.array(2, dtype=dtype), m.array(None, dtype=dtype)
    i = m.tid(0)
    args = [m.load(x, [i]), m.load(y, [i])][: 2 if kind == "cas" else 1]

    def update():
        return (m.atomic(kind, few, [m.load(where, [i])], *args),)

    (before,) = m.if_(m.load(flag, [i]), update, lambda: (args[0],))
    m.store(old, [i], before)
    m.atomic(kind, one, [m.i(0)], *args)
    for n in (1, 21, 40):
        rng = np.random.default_rng(n)
        flags, places = rng.random(n) < 0.6, rng.integers(0, 3, n).astype(np.int32)
        buffers = [flags, places, values(dtype, n), values(dtype, n, 1), values(dtype, 3, 2), values(dtype, 2, 3)]
        check(m.kernel(), (n,), [*buffers, values(dtype, n)], WIDTHS)


@pytest.mark.parametrize("kind", ["add", "min", "max", *BITWISE])
@pytest.mark.parametrize("dtype", [t for t in SCALARS if t.is_int], ids=str)
def test_integers_at_one_element_under_a_mask(kind, dtype):
    """Lanes are combined before memory is touched; those that are off do not count."""
    m = Make()
    flag, x, total = m.array(None, dtype=bool_), m.array(None, dtype=dtype), m.array(dtype=dtype)
    i = m.tid(0)
    m.if_(m.load(flag, [i]), lambda: (m.atomic(kind, total, [], m.load(x, [i])), ())[1])
    for n, share in ((19, 0.0), (40, 0.4), (64, 1.0)):
        flags = np.random.default_rng(n).random(n) < share
        check(m.kernel(), (n,), [flags, values(dtype, n), values(dtype, 1, 3).reshape(())], (8,))


def test_uniform_value_counts_once_per_thread():
    m = Make()
    total = m.array(dtype=int32)
    m.atomic("add", total, [], m.i(3))
    for n in (1, 8, 45):
        (got,) = check(m.kernel(), (n,), [np.zeros((), np.int32)], WIDTHS)
        assert got == 3 * n


def test_tickets_are_handed_out_once():
    """ticket = atomic_add(counter, 1): every thread gets its own, also with launches in several threads at once."""
    m = Make()
    counter, ticket = m.array(1, dtype=int32), m.array(None, dtype=int32)
    m.store(ticket, [m.tid(0)], m.atomic("add", counter, [m.i(0)], m.i(1)))
    kernel, n, workers = m.kernel(), 8192, 4
    code = compile_cpu(kernel)
    buffers = [np.zeros(1, np.int32), np.full(n, -1, np.int32)]
    part = n // workers
    threads = [
        threading.Thread(target=launch, args=(code, kernel, (n,), buffers, [(0, 1, at, at + part)]))
        for at in range(0, n, part)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert buffers[0][0] == n
    assert np.array_equal(np.sort(buffers[1]), np.arange(n))


def gather_kernel(rank, dtype=float32, kind="add"):
    """out[i] += a[i, j] in rows of threads, or total += a[i]."""
    m = Make()
    a, out = m.array(*[None] * rank, dtype=dtype), m.array(*[None] * (rank - 1), dtype=dtype)
    tids = [m.tid(axis) for axis in range(rank)]
    m.atomic(kind, out, tids[:-1], m.load(a, tids))
    return m.kernel(rank)


@pytest.mark.parametrize("shape", [(77,), (3, 45), (2, 3, 33), (5, 1), (0,), (4, 0)], ids=str)
@pytest.mark.parametrize("dtype", [float32, int32, uint8], ids=str)
def test_row_sums(shape, dtype):
    """Small whole numbers: their sums are exact in any order."""
    a = np.random.default_rng(1).integers(0, 9, shape).astype(dtype.numpy)
    out = np.ones(shape[:-1], dtype.numpy)
    (_, got) = check(gather_kernel(len(shape), dtype), shape, [a, out], WIDTHS)
    np.testing.assert_array_equal(got, 1 + a.sum(-1, dtype=dtype.numpy))


def test_row_sums_touch_memory_once_a_row():
    text = compile_cpu(prepare(gather_kernel(2)), 16).text
    assert text.count("atomicrmw fadd") == 1
    assert text.index("atomicrmw") > text.index("past:")


@pytest.mark.parametrize(("count", "is_gathered"), [(64, True), (65, False)])
def test_more_sums_than_a_few_are_not_gathered(count, is_gathered):
    """The work of the compiler grows with the cube of how many are."""
    m = Make()
    x, total = m.array(None, dtype=int32), m.array(2, dtype=int32)
    value = m.load(x, [m.tid(0)])
    for k in range(count):
        m.atomic("add", total, [m.i(k % 2)], m.op("mul", value, m.i(k)))
    kernel = m.kernel()
    assert bool(row_sums(kernel, set())) is is_gathered
    (_, got) = check(kernel, (37,), [np.arange(37, dtype=np.int32), np.ones(2, np.int32)], WIDTHS)
    assert got.tolist() == [1 + 666 * sum(range(first, count, 2)) for first in (0, 1)]


def test_a_row_sum_no_thread_reaches_leaves_memory_alone():
    m = Make()
    flag, x, total = m.array(None, dtype=bool_), m.array(None), m.array(None)
    i = m.tid(0)
    m.if_(m.load(flag, [i]), lambda: (m.atomic("add", total, [m.i(10**9)], m.load(x, [i])), ())[1])
    check(m.kernel(), (40,), [np.zeros(40, bool), np.ones(40, np.float32), np.ones(1, np.float32)], (8, 16))


def test_a_total_in_a_loop_under_a_mask():
    m = Make()
    n, x, total = m.array(None, dtype=int32), m.array(None), m.array()
    i = m.tid(0)

    def step(_k):
        m.atomic("add", total, [], m.load(x, [i]))
        return ()

    m.for_(m.i(0), m.load(n, [i]), m.i(1), (), step)
    counts, values_ = np.arange(37, dtype=np.int32) % 5, np.arange(37, dtype=np.float32)
    (*_, got) = check(m.kernel(), (37,), [counts, values_, np.zeros((), np.float32)], WIDTHS)
    assert got == (counts * values_).sum()


def weights_kernel(rank=1, dtype=float32, extents=(None,)):
    """Each thread adds to the weights that its own count reaches, in a loop, some threads to none."""
    m = Make()
    n, x, w = m.array(*[None] * rank, dtype=int32), m.array(*[None] * rank, dtype=dtype), m.array(*extents, dtype=dtype)
    tids = [m.tid(axis) for axis in range(rank)]
    value = m.load(x, tids)  # lanes that are off have one, too

    def step(k):
        place = [m.i(1)] * (len(extents) - 1)
        m.atomic("add", w, [*place, k], value)
        return ()

    m.for_(m.i(0), m.load(n, tids), m.i(1), (), step)
    return m.kernel(rank)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("size", [1, 3, 16, 64, 65, 200])
def test_sums_of_elements_that_all_lanes_address(size, dtype):
    """Small numbers, whose sums are exact; more elements than there is room for, too."""
    counts = np.random.default_rng(size).integers(0, size, 101).astype(np.int32)  # none reaches the last
    x = floats(101, seed=1).astype(dtype.numpy)
    before = np.where(np.arange(size) % 2, np.nan, -0.0).astype(dtype.numpy)
    before[: size // 2] = np.arange(size // 2) / 4
    (*_, got) = check(weights_kernel(dtype=dtype), (101,), [counts, x, before], (1, 4, 8, 32))
    sums = [x[counts > k].sum() for k in range(size // 2)]
    np.testing.assert_array_equal(got[: size // 2], before[: size // 2] + sums)
    assert np.signbit(got[-1]) or np.isnan(got[-1])


@pytest.mark.parametrize("extents", [(None,), (None, None), (2, 5), (2, 40), (2, 100)], ids=str)
def test_sums_of_elements_in_rows_and_tiles(extents):
    counts = np.random.default_rng(2).integers(0, 6, (6, 37)).astype(np.int32)
    w = np.zeros((*(2,) * (len(extents) - 1), extents[-1] or 5), np.float32)
    tiles = [(0, 1, 0, 20), (0, 1, 20, 37), (1, 4, 0, 37), (4, 4, 0, 37), (4, 6, 0, 37)]
    check(weights_kernel(2, extents=extents), (6, 37), [counts, floats(6, 37), w], WIDTHS, tiles)


def test_elements_that_no_lane_reaches_may_lie_outside():
    m = Make()
    flag, x, w = m.array(None, dtype=bool_), m.array(None), m.array(None)
    i, far = m.tid(0), m.load(m.array(dtype=int32), [])
    m.if_(m.load(flag, [i]), lambda: (m.atomic("add", w, [far], m.load(x, [i])), ())[1])
    for place in (10**9, -(10**9), 3, -1):
        buffers = [np.zeros(40, bool), np.ones(40, np.float32), np.ones(3, np.float32), np.array(place, np.int32)]
        check(m.kernel(), (40,), buffers, (8, 16))


def test_sums_of_elements_touch_memory_at_the_end():
    text = compile_cpu(prepare(weights_kernel()), 16).text
    assert text.count("atomicrmw fadd") == 3  # in both bodies, where there are more elements
    assert text.rindex("atomicrmw") > text.index("past:")
    assert "cttz" not in text  # no loop over lanes anywhere
    read = Make()
    x, w, y = read.array(None), read.array(None), read.array(None)
    i, k = read.tid(0), read.load(read.array(dtype=int32), [])
    read.atomic("add", w, [k], read.load(x, [i]))
    read.store(y, [i], read.load(w, [i]))
    assert compile_cpu(prepare(read.kernel()), 16).text.count("atomicrmw fadd") == 2  # it is read, in both bodies


PRIVATE = [(kind, float32) for kind in ("add", "min", "max")]
PRIVATE += [(kind, int32) for kind in ("add", "min", "max", *BITWISE)]


@pytest.mark.parametrize(("kind", "dtype"), PRIVATE, ids=str)
def test_private_elements_need_no_atomics(kind, dtype):
    m = Make()
    flag, x, y, old = m.array(None, dtype=bool_), *(m.array(None, None, dtype=dtype) for _ in range(3))
    i, j = m.tid(0), m.tid(1)
    m.store(old, [i, j], m.atomic(kind, y, [i, j], m.load(x, [i, j])))
    m.if_(m.load(flag, [i]), lambda: (m.atomic(kind, y, [i, j], m.load(x, [i, j])), ())[1])
    kernel = m.kernel(2)
    assert "atomicrmw" not in compile_cpu(prepare(kernel), 16).text
    flags = np.arange(3) % 2 == 0
    check(kernel, (3, 21), [flags, *(values(dtype, 63, s).reshape(3, 21) for s in range(3))], WIDTHS)


def test_elements_that_threads_share_stay_atomic():
    for other in (lambda m, i: m.op("add", i, m.i(1)), lambda m, i: m.op("div", i, m.i(2))):
        m = Make()
        x, y, i = m.array(None), m.array(None), m.tid(0)
        m.atomic("add", y, [i], m.load(x, [i]))
        m.atomic("add", y, [other(m, i)], m.load(x, [i]))
        kernel = m.kernel()
        assert "atomicrmw" in compile_cpu(prepare(kernel), 16).text
        check(kernel, (40,), [np.arange(40, dtype=np.float32), np.zeros(41, np.float32)], WIDTHS)
