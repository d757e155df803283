"""CPU code: elements that lie anywhere, read by lanes of which some are off."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import re
import sys

import numpy as np
import pytest
from cpukit import Make, floats
from cpushapes import MACHINES, initialize, main_body
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_strategy import same_values

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile_cpu, run_cpu
from jaxwarp.codegen.cpu.analysis.families import pieces
from jaxwarp.codegen.cpu.analysis.pressure import register_pressure
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.codegen.cpu.plan.width import choose_width
from jaxwarp.codegen.cpu.run import launch
from jaxwarp.errors import KernelError
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.launches import code
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import SCALARS, bool_, float32, float64, int32, int64

WIDTHS = (1, 4, 8, 16)
# Without mask registers, and with them; code for either runs anywhere.
SHAPE, MASKED = SHAPES = Machine("", "", "+avx2"), Machine("", "", "+avx2,+avx512f")
FAR = 1 << 30  # an index that would not go unnoticed


def check(kernel: Kernel, grid, *sets, widths: tuple[int, ...] = WIDTHS):
    """CPU code for machines without mask registers and with them leaves what the interpreter does, bit for bit, for
    each set of buffers."""
    prepared, results = prepare(kernel), []
    for buffers in sets:
        expected = [np.array(b) for b in buffers]
        interpret(prepared, grid, expected)
        results.append(expected[-1])
    for width, machine in itertools.product(widths, SHAPES):
        code = compile_cpu(prepared, width, machine)
        for buffers, right in zip(sets, results, strict=True):
            got = [*buffers[:-1], np.array(buffers[-1])]  # inputs stay where they are
            launch(code, prepared, grid, got)
            assert same_values(right, got[-1]), f"width {width}:\n{right}\n{got[-1]}\n{prepared}"
    return results[-1]


def fenced(data: np.ndarray, at_end: bool) -> np.ndarray:
    """A copy of an array in a page between two that may not be touched, at its start or at its end."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for fence in (address, address + 2 * page):
        assert protect(fence, page, mmap.PROT_READ * 0) == 0
    start = 2 * page - data.nbytes if at_end else page
    found = np.frombuffer(memory, data.dtype, data.size, start).reshape(data.shape)
    found[...] = data
    return found


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are fenced off as Linux does it")


def walk_of_a_table(dtype=float32, words=1, shifts=(0,), static=True):
    """out[i]: what a thread's walk x = next[x] from first[i] finds of records[x + shift], until x is negative."""
    m = Make()
    first, following = m.array(None, dtype=int32), m.array(None, dtype=int32)
    records = m.array(None, words if static else None, dtype=dtype)
    out = m.array(None, words * len(shifts), dtype=dtype)
    i = m.tid(0)
    start = m.load(first, [i])
    zero = m.const(False if dtype is bool_ else 0, dtype)
    add = "logical_or" if dtype is bool_ else "add"

    def body(x, *totals):
        found = [
            m.load(records, [m.op("add", x, m.i(shift)) if shift else x, m.i(word)])
            for shift in shifts
            for word in range(words)
        ]
        return (m.load(following, [x]), *(m.op(add, a, b) for a, b in zip(totals, found, strict=True)))

    _, *totals = m.while_([start, *[zero] * (words * len(shifts))], lambda x, *_: m.op("ge", x, m.i(0)), body)
    for word, total in enumerate(totals):
        m.store(out, [i, m.i(word)], total)
    return m.kernel()


def some(rng, dtype, *shape):
    if dtype is bool_:
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, 20, shape).astype(dtype.numpy)


def walks(rng, threads, places, low=0):
    """Where threads begin, many of them nowhere, and where they go on to; nowhere below `low` but the end."""
    first = np.where(rng.uniform(size=threads) < 0.4, -FAR, rng.integers(low, max(places, low + 1), threads))
    following = np.where(np.arange(places) + 1 < places, np.arange(places) + 1, -FAR)
    return first.astype(np.int32), following.astype(np.int32)


@linux
@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_nothing_outside_of_an_array_is_read(dtype):
    """Records of 1 to 16 words, one or three of them, that begin or end where memory does."""
    rng = np.random.default_rng(0)
    for words in (1, 2, 3, 4, 5, 7, 9, 16):
        sets = []
        for count, at_end in itertools.product((1, 3), (False, True)):
            first, following = walks(rng, 21, count)
            data = fenced(some(rng, dtype, count, words), at_end)
            sets.append([first, fenced(following, at_end), data, np.zeros((21, words), dtype.numpy)])
        check(walk_of_a_table(dtype, words), (21,), *sets, widths=(8, 16) if words in (3, 9) else (8,))


@linux
@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("shifts", [(-1,), (1,), (-2, 0), (1, 2), (-1, 0, 1), (5, 3)], ids=str)
def test_off_lanes_read_what_shifted_lanes_may(shifts, static):
    """An index that is only read with something added: element 0 of the index need not be there."""
    rng = np.random.default_rng(1)
    low, most = -min(shifts), max(shifts)
    places = max(low, 0) + 2
    first, following = walks(rng, 37, places, max(low, 0))
    following = following if low >= 0 else np.full(places, -FAR, np.int32)
    first = first if low >= 0 else np.where(first >= 0, 0, first).astype(np.int32)
    # Exactly as many records as are read.
    count = (int(first.max()) if low < 0 else places - 1) + most + 1
    results = np.zeros((37, 3 * len(shifts)), np.float32)
    sets = [[first, following, fenced(floats(count, 3), at_end), results] for at_end in (False, True)]
    check(walk_of_a_table(float32, 3, shifts, static), (37,), *sets)


@linux
def test_indices_that_step_evenly_are_safe_under_a_mask():
    """a[i - 1, k[i]] where i > 0, and b[2 * i - 6] where it is there: the first lanes have no such rows."""
    m = Make()
    k, a, b, out = m.array(None, dtype=int32), m.array(None, None), m.array(None), m.array(None)
    i = m.tid(0)
    twice = m.op("sub", m.op("mul", i, m.i(2)), m.i(6))

    def inside():
        return [m.op("add", m.load(a, [m.op("sub", i, m.i(1)), m.load(k, [i])]), m.load(b, [twice]))]

    far = m.op("logical_and", m.op("gt", i, m.i(2)), m.op("lt", i, m.i(12)))
    (found,) = m.if_(far, inside, lambda: [m.f(-1.0)])
    m.store(out, [i], found)
    columns = np.where(np.arange(40) % 3 == 0, 1, 0).astype(np.int32)
    columns[12:] = FAR
    for at_end in (False, True):
        buffers = [columns, fenced(floats(11, 2), at_end), fenced(floats(17), at_end), np.zeros(40, np.float32)]
        check(m.kernel(), (40,), buffers)


def test_empty_arrays_are_legal():
    """No lane is ever on where there is nothing to read."""
    rng = np.random.default_rng(2)
    for words in (1, 3, 9):
        first = np.full(33, -1, np.int32)
        buffers = [first, np.zeros(0, np.int32), some(rng, float32, 0, words), np.zeros((33, words), np.float32)]
        check(walk_of_a_table(float32, words), (33,), buffers)


def test_what_off_lanes_read_has_no_effect():
    """Element 0, which they read, is no number; nor are sums over lanes disturbed."""
    m = Make()
    index, values, out = m.array(None, dtype=int32), m.array(None, 3), m.array(1)
    i = m.tid(0)
    at = m.load(index, [i])

    def inside():
        x, y, z = (m.load(values, [at, m.i(c)]) for c in range(3))
        m.atomic("add", out, [m.i(0)], m.op("add", m.op("mul", x, y), m.op("sqrt", z)))
        return ()

    m.if_(m.op("gt", at, m.i(0)), inside)
    values_ = np.abs(np.round(floats(9, 3))) ** 2
    values_[0] = np.nan
    index_ = np.where(np.arange(50) % 3 == 0, -FAR, np.arange(50) % 8 + 1).astype(np.int32)
    for width, machine in itertools.product(WIDTHS, SHAPES):
        got = np.zeros(1, np.float32)
        run_cpu(prepare(m.kernel()), (50,), [index_, values_, got], width, machine=machine)
        on = values_[index_[index_ > 0]]
        assert np.isfinite(got[0])
        np.testing.assert_allclose(got[0], (on[:, 0] * on[:, 1] + np.sqrt(on[:, 2])).sum(), rtol=1e-5)


def test_stores_end_a_family():
    """What was stored between two loads of a record is seen by the second, also through an array that is the same."""
    m = Make()
    index, a, b, out = m.array(None, dtype=int32), m.array(None, 4), m.array(None, 4), m.array(None, 3)
    i = m.tid(0)
    at = m.load(index, [i])
    before = m.load(a, [at, m.i(0)])
    m.store(b, [at, m.i(1)], m.f(7.0))
    after = [m.load(a, [at, m.i(c)]) for c in (1, 2)]
    for c, value in enumerate([before, *after]):
        m.store(out, [i, m.i(c)], value)
    n = 20
    index_ = np.random.default_rng(3).permutation(n).astype(np.int32)
    data = floats(n, 4)
    for width, machine in itertools.product(WIDTHS, SHAPES):
        shared, got = data.copy(), np.zeros((n, 3), np.float32)
        run_cpu(prepare(m.kernel()), (n,), [index_, shared, shared, got], width, machine=machine)
        assert (got[:, 1] == 7).all()
        assert (got[:, 0] == data[index_, 0]).all()
        assert (got[:, 2] == data[index_, 2]).all()


@pytest.fixture(scope="module", autouse=True)
def _all_targets():
    initialize()


@pytest.mark.parametrize("level", ["v2", "v3"])
def test_no_branch_per_lane(level, monkeypatch):
    """As many jumps for 16 lanes as for 4, in the loop of a walk over records that lanes leave one by one."""
    machine = MACHINES[level]
    jumps = {}
    for width in (4, 16):
        monkeypatch.setenv("JAXWARP_CPU_WIDTH", str(width))
        body = main_body(prepare(walk_of_a_table(float32, 3)), machine)
        assert body.width == width
        jumps[width] = body.count(r"j(?!mp)\w+", "while", "body")
    assert jumps[4] == jumps[16]
    assert 1 <= jumps[16] <= 2


def test_records_are_rows():
    """Nine words of eight lanes: two loads of four words and one of one word a lane, not nine."""
    text = compile_cpu(prepare(walk_of_a_table(float32, 9)), 8, SHAPE).text
    body = text[text.index("\nchunk:") : text.index("\nrest:")]
    assert body.count("load <4 x float>") == 16
    assert len(re.findall(r"load float,", body)) == 8
    assert "masked.gather" not in body


def test_words_side_by_side_are_gathered_in_pairs():
    """Nine words where there are instructions for gathers: four pairs and one, and the link."""
    text = compile_cpu(prepare(walk_of_a_table(float32, 9)), 16, MASKED).text
    body = text[text.index("\nchunk:") : text.index("\nrest:")]
    assert re.findall(r"call <16 x (\w+)> @llvm.masked.gather", body).count("i64") == 4
    assert len(re.findall(r"@llvm.masked.gather", body)) == 4 + 1 + 1


def test_loops_of_gathers_have_half_a_register():
    """Lanes wait for the longest row. A gather takes as long a lane as in a whole one, work does not."""

    @wp.kernel
    def rows(
        start: wp.array[int],
        columns: wp.array[int],
        values: wp.array[float],
        x: wp.array[float],
        out: wp.array[float],
    ):
        i = wp.tid()
        total = 0.0
        for k in range(start[i], start[i + 1]):
            total += values[k] * x[columns[k]]
        out[i] = total

    @wp.kernel
    def worked(start: wp.array[int], columns: wp.array[int], x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        total = 0.0
        for k in range(start[i], start[i + 1]):
            total += wp.exp(x[columns[k]])
        out[i] = total

    assert choose_width(prepare(rows.specialize()), MASKED) == 8
    assert choose_width(prepare(worked.specialize()), MASKED) > 8
    assert choose_width(prepare(walk_of_a_table(float32, 9)), MASKED) > 8  # pairs of words are gathered at once


def test_loops_that_follow_links_have_four_vectors_in_flight():
    """A gather takes long to come, and here the next one waits for it. What is around the loop does not count."""
    m = Make()
    first, following, x, out = (m.array(None, dtype=int32) for _ in range(4))
    i = m.tid(0)
    values = [m.op("mul", m.load(x, [i]), m.i(c)) for c in range(30)]
    (end,) = m.while_([m.load(first, [i])], lambda k: m.op("ge", k, m.i(0)), lambda k: [m.load(following, [k])])
    for value in values:
        end = m.op("bit_xor", end, m.op("mul", value, end))
    m.store(out, [i], end)
    assert register_pressure(prepare(m.kernel())) <= 2
    assert choose_width(prepare(m.kernel()), SHAPE) == 32


@given(st.sets(st.integers(-20, 40), min_size=1, max_size=24), st.sampled_from([2, 4]))
def test_pieces_are_between_the_first_and_the_last_word(words, most):
    wanted = sorted(words)
    found = pieces(wanted, most)
    for word, (first, length) in found.items():
        assert word in words
        assert length in (2, most)
        assert first <= word < first + length
        assert wanted[0] <= first
        assert first + length - 1 <= wanted[-1]
    # Nothing is loaded alone that has a neighbour to be loaded with.
    alone = [w for w in wanted if w not in found]
    assert not any(b - a == 1 for a, b in itertools.pairwise(alone))


@st.composite
def gathering(draw):
    """A kernel that under a mask reads one array at shifts of indices from memory, and its launch."""
    m = Make()
    dtype = draw(st.sampled_from([float32, float64, int32, int64]))
    rank = draw(st.integers(1, 3))
    extents = [draw(st.integers(1, 4)) for _ in range(rank)]
    static = draw(st.integers(0, rank - 1))
    n, reads = draw(st.integers(1, 40)), draw(st.integers(1, 6))
    index, source = m.array(None, rank, dtype=int32), m.array(*[None] * (rank - static), *extents[rank - static :],
                                                            dtype=dtype)  # fmt: skip
    out = m.array(None, dtype=dtype)
    kinds = [draw(st.sampled_from(["memory", "thread", "constant"])) for _ in range(rank)]
    i = m.tid(0)
    roots = [m.load(index, [i, m.i(axis)]) for axis in range(rank)]
    # By axis: the shifts, of which the least and the most leave room for a root.
    spans = [draw(st.integers(0, extent - 1)) for extent in extents]
    bases = [draw(st.integers(-3, 3)) for _ in extents]
    shifts = [[base + draw(st.integers(0, span)) for base, span in zip(bases, spans, strict=True)]
              for _ in range(reads)]  # fmt: skip

    def inside():
        total = m.const(0, dtype)
        for shift in shifts:
            at = []
            for axis, kind in enumerate(kinds):
                if kind == "constant":
                    at.append(m.i(shift[axis] - bases[axis]))
                else:
                    root = roots[axis] if kind == "memory" else i
                    at.append(m.op("add", root, m.i(shift[axis])))
            total = m.op("add", total, m.load(source, at))
        return [total]

    rng = np.random.default_rng(draw(st.integers(0, 99)))
    valid = np.stack([rng.integers(0, e - s, n) - b for e, s, b in zip(extents, spans, bases, strict=True)], 1)
    on = rng.uniform(size=n) < 0.6
    for axis, kind in enumerate(kinds):
        if kind == "thread":
            least, most = -bases[axis], extents[axis] - 1 - spans[axis] - bases[axis]
            on &= (np.arange(n) >= least) & (np.arange(n) <= most)
    flag = m.array(None, dtype=int32)
    (found,) = m.if_(m.op("ne", m.load(flag, [i]), m.i(0)), inside, lambda: [m.const(1, dtype)])
    m.store(out, [i], found)
    m.params.remove(out)
    m.params.append(out)
    indices = np.where(on[:, None], valid, FAR).astype(np.int32)
    data = rng.integers(-9, 9, extents).astype(dtype.numpy)
    return m.kernel(), n, [indices, data, on.astype(np.int32), np.zeros(n, dtype.numpy)]


@linux
@settings(max_examples=60, deadline=None)
@given(gathering(), st.booleans())
def test_reads_around_an_element(case, at_end):
    """Any shifts of any indices: as the interpreter, and nothing outside of the array."""
    kernel, n, (indices, data, on, out) = case
    check(kernel, (n,), [indices, fenced(data, at_end), on, out])


@wp.kernel
def weighted(at: wp.array[int], x: wp.array[wp.vec3], w: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    total = float(0.0)  # noqa: UP018
    k = at[i]
    while k >= 0:
        total += wp.dot(x[k], x[k]) * w[k]
        k -= 3
    out[i] = total


def test_gradients_of_gathers(monkeypatch):
    """By the records and by the weights, at every width, against jax.numpy's."""
    import jax
    import jax.numpy as jnp

    at = np.random.default_rng(4).integers(-4, 12, 45).astype(np.int32)
    x, w = jnp.asarray(floats(12, 3)), jnp.asarray(floats(12, seed=1))
    counts = np.zeros(12, np.float32)
    for k in at:
        counts[list(range(k, -1, -3))] += 1

    def plain(x, w):
        return ((x * x).sum(1) * w * counts).sum()

    def ours(x, w):
        return wp.jax_kernel(weighted, launch_dims=45, output_dims=45)(jnp.asarray(at), x, w)[0].sum()

    right, expected = jax.jit(jax.value_and_grad(plain, (0, 1)))(x, w)
    for width in WIDTHS:
        monkeypatch.setenv("JAXWARP_CPU_WIDTH", str(width))
        code.forget()  # kernels of equal content share their code
        jax.clear_caches()
        value, found = jax.value_and_grad(ours, (0, 1))(x, w)
        np.testing.assert_allclose(value, right, rtol=1e-5)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_debug_mode_tests_each_read():
    """A read out of range under a mask is told, not done; off lanes are not tested."""

    @wp.kernel
    def picked(at: wp.array[int], x: wp.array[wp.vec3], out: wp.array[float]):
        i = wp.tid()
        if at[i] > -5:
            out[i] = x[at[i]][0] + x[at[i]][2]

    def run(at):
        out = wp.zeros(at.size, dtype=float)
        wp.launch(picked, dim=at.size, inputs=[wp.array(at, dtype=int), wp.array(floats(4, 3), dtype=wp.vec3)],
                  outputs=[out])  # fmt: skip
        return out.numpy()

    at = np.array([0, 3, -FAR, 1] * 5, np.int32)
    with_mode = wp.config.mode
    wp.config.mode = "debug"
    try:
        right = floats(4, 3)[np.maximum(at, 0)]
        np.testing.assert_array_equal(run(at), np.where(at >= 0, right[:, 0] + right[:, 2], 0))
        at[7] = 4
        with pytest.raises(KernelError, match="4"):
            run(at)
    finally:
        wp.config.mode = with_mode
