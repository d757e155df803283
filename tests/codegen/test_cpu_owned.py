"""Atomics that are not atomic where a rectangle of a launch has elements for itself: which these are, and results."""

import functools
import itertools
import threading

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cpukit import WIDTHS, Make, check, floats
from hypothesis import strategies as st

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile_cpu, launch
from jaxwarp.codegen.cpu.accumulate import atomics, neighbour_sums, scalar_atomics
from jaxwarp.codegen.cpu.accumulate.neighbour_sums import NeighbourSum
from jaxwarp.ir.interpret import interpret
from jaxwarp.launches.code import CodeKey
from jaxwarp.launches.on_memory import loaded_on
from jaxwarp.launches.spec import intern_kernel
from jaxwarp.memory.host_scope import HOST
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import float32, float64, int32, int64

MARK = 1 << 20


@pytest.fixture
def marked():
    """Updates that are not atomic add a large number besides: what a rectangle takes to be its own can be seen."""
    with pytest.MonkeyPatch.context() as patch:
        mark_updates(patch)
        yield


def mark_updates(patch):
    combine, is_own = scalar_atomics.combine, []

    def marking(ops, kind, dtype, old, value):
        found = combine(ops, kind, dtype, old, value)
        return ops.inst(f"add {ops.type(dtype)} {found}, {ops.const(dtype, MARK)}") if is_own else found

    def inside(emit):
        def call(*args):
            is_own.append(True)
            try:
                return emit(*args)
            finally:
                is_own.pop()

        return call

    for module in (scalar_atomics, atomics, neighbour_sums):
        patch.setattr(module, "combine", marking)
    in_place = inside(scalar_atomics.in_place)
    for module in (scalar_atomics, atomics):
        patch.setattr(module, "in_place", in_place)
    patch.setattr(atomics, "_at_once", inside(atomics._at_once))
    patch.setattr(NeighbourSum, "added", inside(NeighbourSum.added))


def own_and_touched(kernel, grid, buffers, target, tiles, width=8):
    """For each rectangle by itself: which elements of buffer `target` it updates without atomics, and which at all."""
    prepared = prepare(kernel)
    code, found = compile_cpu(prepared, width), []
    for tile in tiles:
        fresh = [np.array(b) for b in buffers]
        fresh[target][...] = 0
        launch(code, prepared, grid, fresh, [tile])
        found.append((fresh[target] >= MARK, fresh[target] != 0))
    return found


def require_apart(found):
    for (own, _), (_, touched) in itertools.permutations(found, 2):
        assert not np.any(own & touched), np.argwhere(own & touched)[:5].tolist()


def rows_cut(rows, columns, *at):
    ends = [0, *at, rows]
    return [(a, b, 0, columns) for a, b in itertools.pairwise(ends)]


def columns_cut(rows, columns, *at):
    ends = [0, *at, columns]
    return [(0, rows, a, b) for a, b in itertools.pairwise(ends)]


def stencil(m, rank, target, reach=1, clamp=True, dtype=int32):
    """Each thread adds 1, 2, 3, ... to its own element and to those next to it along each axis."""
    tids, number = [m.tid(axis) for axis in range(rank)], itertools.count(1)

    def near(axis, by):
        index = m.op("add", tids[axis], m.i(by))
        if clamp:
            index = m.op("min", index, m.op("sub", m.size(target, axis), m.i(1)))
            return m.op("max", index, m.i(0))
        return m.op("add", index, m.i(reach))

    for axis in range(rank):
        for by in range(-reach, reach + 1):
            index = [near(a, by if a == axis else 0) for a in range(rank)] if not clamp else list(tids)
            index[axis] = near(axis, by)
            m.atomic("add", target, index, m.const(next(number), dtype))
    return m.kernel(rank)


GRIDS = [((700,), columns_cut(1, 700, 64, 128, 320)), ((700,), columns_cut(1, 700, 640))]
GRIDS += [((40, 70), rows_cut(40, 70, *at)) for at in ((20,), (1, 2, 3, 13, 39), (10, 20, 30))]
GRIDS += [((40, 200), [(a, b, c, d) for a, b in ((0, 19), (19, 40)) for c, d in ((0, 128), (128, 200))])]
GRIDS += [((9, 8, 30), rows_cut(72, 30, *at)) for at in ((36,), (5, 33, 50), (24, 40))]
GRIDS += [((1, 1), [(0, 1, 0, 1)]), ((5, 3), rows_cut(5, 3, 2)), ((1, 300), columns_cut(1, 300, 64))]


@pytest.mark.parametrize("clamp", [True, False])
@pytest.mark.parametrize("reach", [0, 1, 3])
@pytest.mark.parametrize(("grid", "tiles"), GRIDS, ids=str)
def test_what_a_rectangle_owns_no_other_touches(marked, grid, tiles, reach, clamp):
    m = Make()
    target = m.array(*[None] * len(grid), dtype=int32)
    kernel = stencil(m, len(grid), target, reach, clamp)
    shape = grid if clamp else tuple(n + 2 * reach for n in grid)
    found = own_and_touched(kernel, grid, [np.zeros(shape, np.int32)], 0, tiles)
    require_apart(found)
    # In the middle of a large rectangle everything is its own. (At one place only there are no atomics at all.)
    (begin, end, first, last), (own, touched) = max(zip(tiles, found, strict=True), key=lambda f: f[1][1].sum())
    is_large = (end - begin) * (last - first) >= 0.45 * np.prod(grid) and touched.sum() > 500
    if is_large and (reach or clamp) and reach < len(touched) // 4:
        assert own.sum() > 0.3 * touched.sum()


def test_one_rectangle_owns_everything(marked):
    """Whatever the indices."""
    m = Make()
    where, target = m.array(None, dtype=int32), m.array(None, dtype=int32)
    i = m.tid(0)
    m.atomic("add", target, [m.load(where, [i])], m.i(1))
    m.atomic("add", target, [i], m.i(1))
    buffers = [np.random.default_rng(0).integers(0, 300, 300).astype(np.int32), np.zeros(300, np.int32)]
    ((own, touched),) = own_and_touched(m.kernel(), (300,), buffers, 1, [(0, 1, 0, 300)])
    assert np.array_equal(own, touched)
    for own, touched in own_and_touched(m.kernel(), (300,), buffers, 1, columns_cut(1, 300, 64, 128)):
        assert touched.any()
        assert not own.any()  # x at i and at idx[i]: any element may be another's


def test_a_launch_outside_of_programs_has_what_it_updates_to_itself(marked):
    """Others that update it, too, wait for it: native/updates.h."""
    m = Make()
    target, private, where = (m.array(None, dtype=int32) for _ in range(3))
    i = m.tid(0)
    m.atomic("add", target, [m.load(where, [i])], m.i(1))
    m.atomic("add", target, [i], m.i(1))
    m.atomic("add", private, [i], m.i(1))
    buffers = [np.zeros(9, np.int32), np.zeros(9, np.int32), np.arange(1, 10, dtype=np.int32)]
    code = loaded_on(HOST, CodeKey(intern_kernel(m.kernel()), True, (8,), ((9,), (9,), (9,))))
    assert code.is_whole
    code.run([buffer.ctypes.data for buffer in buffers])
    assert (buffers[0] >= MARK).all()  # no atomic has added to it


def _batched(m, target, is_shared):
    """Each item of a batch has its own array, or all have one."""
    b, i, j = m.tid(0), m.tid(1), m.tid(2)
    up = m.op("max", m.op("sub", i, m.i(1)), m.i(0))
    for at in ([up, j], [i, j]):
        m.atomic("add", target, at if is_shared else [b, *at], m.i(1))
    return m.kernel(3)


def test_items_of_a_batch_are_nothing_to_each_other(marked):
    m = Make()
    target = m.array(None, None, None, dtype=int32)
    kernel, grid = _batched(m, target, False), (3, 12, 20)
    for cuts in ((12, 24), (5, 18, 30), (1, 35), (13, 14)):
        found = own_and_touched(kernel, grid, [np.zeros(grid, np.int32)], 0, rows_cut(36, 20, *cuts))
        require_apart(found)
        if cuts == (12, 24):
            assert all(np.array_equal(own, touched) for own, touched in found)
        if cuts == (13, 14):
            assert found[0][0][0].all()  # the first item as a whole
            assert found[2][0].any()


def test_an_array_that_a_batch_shares_stays_atomic(marked):
    m = Make()
    target = m.array(None, None, dtype=int32)
    kernel = _batched(m, target, True)
    for own, touched in own_and_touched(kernel, (3, 12, 20), [np.zeros((12, 20), np.int32)], 0, rows_cut(36, 20, 12)):
        assert touched.all()
        assert not own.any()


def _stays_atomic():
    """Kernels over 40 x 70 with what two rectangles may touch both."""

    def mirrored(m, target, i, j):
        m.atomic("add", target, [m.op("sub", m.op("sub", m.size(target, 0), m.i(1)), i), j], m.i(1))

    def transposed(m, target, i, j):
        m.atomic("add", target, [i, j], m.i(1))
        m.atomic("add", target, [m.op("min", j, m.i(39)), m.op("add", i, m.i(0))], m.i(1))

    def stored(m, target, i, j):
        m.store(target, [m.op("min", m.op("add", i, m.i(1)), m.i(39)), j], m.i(1))
        m.atomic("add", target, [i, j], m.i(1))

    def row_zero(m, target, i, j):
        m.atomic("add", target, [m.op("mul", m.op("div", i, m.i(20)), m.i(20)), j], m.i(1))
        m.atomic("add", target, [i, j], m.i(1))

    def wraps_in_32_bits(m, target, i, j):
        far = m.op("add", m.op("add", i, m.i(2**31 - 1)), m.i(1))  # i - 2**31
        m.atomic("add", target, [m.op("min", m.op("max", far, m.i(0)), m.i(39)), j], m.i(1))
        m.atomic("add", target, [i, j], m.i(1))

    return [mirrored, transposed, stored, row_zero, wraps_in_32_bits]


@pytest.mark.parametrize("body", _stays_atomic(), ids=lambda f: f.__name__)
def test_other_indices_stay_atomic_where_others_reach(marked, body):
    m = Make()
    target = m.array(None, None, dtype=int32)
    body(m, target, m.tid(0), m.tid(1))
    found = own_and_touched(m.kernel(2), (40, 70), [np.zeros((40, 70), np.int32)], 0, rows_cut(40, 70, 10, 20, 33))
    require_apart(found)
    assert not any(own.any() for own, _ in found)


@pytest.mark.parametrize("moved", [2, 0, -3, 2**30, -(2**31), 2**31 - 1])
def test_a_number_that_moves_all_threads(marked, moved):
    """It may be anything: indices it makes wrap are not the rectangle's."""
    m = Make()
    by, target = m.array(dtype=int32), m.array(None, None, dtype=int32)
    i, j, k = m.tid(0), m.tid(1), m.load(by, [])
    row = m.op("min", m.op("max", m.op("sub", m.op("add", i, k), m.i(1)), m.i(0)), m.i(39))
    m.atomic("add", target, [row, j], m.i(1))
    m.atomic("add", target, [m.op("min", m.op("add", i, m.i(1)), m.i(39)), j], m.i(1))
    buffers = [np.array(moved, np.int32), np.zeros((40, 70), np.int32)]
    found = own_and_touched(m.kernel(2), (40, 70), buffers, 1, rows_cut(40, 70, 10, 30))
    require_apart(found)
    assert found[1][0].any() == (abs(moved) < 10)


# Values


def _kinds():
    for dtype in (float32, float64, int32):
        for kind in ("add", "min", "max", "exch", "cas", *(() if dtype.is_float else ("and", "or", "xor"))):
            yield pytest.param(dtype, kind, id=f"{dtype}-{kind}")


def numbers(dtype, *shape, seed=0):
    return (floats(*shape, seed=seed) * (1 if dtype.is_float else 8)).astype(dtype.numpy)


TILES = [None, rows_cut(12, 70, 5), [(0, 7, 0, 64), (7, 12, 0, 64), (0, 7, 64, 70), (7, 12, 64, 70)]]


@pytest.mark.parametrize("tiles", TILES, ids=str)
@pytest.mark.parametrize(("dtype", "kind"), list(_kinds()))
def test_old_and_new_values(dtype, kind, tiles):
    """At the row below, and the last row twice, in every column forwards or backwards, under a mask and without."""
    m = Make()
    x, y, down, back, old, other = (m.array(None, None, dtype=dtype) for _ in range(6))
    i, j = m.tid(0), m.tid(1)
    below = m.op("min", m.op("add", i, m.i(1)), m.i(11))
    args = [m.load(x, [i, j]), m.load(y, [i, j])][: 2 if kind == "cas" else 1]
    m.store(old, [i, j], m.atomic(kind, down, [below, j], *args))

    def update():
        return (m.atomic(kind, back, [below, m.op("sub", m.i(69), j)], *args),)

    (before,) = m.if_(m.op("lt", m.load(y, [i, j]), m.const(0, dtype)), update, lambda: (args[0],))
    m.store(other, [i, j], before)
    check(m.kernel(2), (12, 70), [numbers(dtype, 12, 70, seed=n) for n in range(6)], (8, 32), tiles)


@pytest.mark.parametrize(("dtype", "kind"), list(_kinds()))
def test_places_found_in_data(dtype, kind):
    """In the order of threads, where several lanes have one element, also at a constant distance."""
    m = Make()
    where = m.array(None, dtype=int32)
    x, y, first, second, old, other = (m.array(None, dtype=dtype) for _ in range(6))
    i = m.tid(0)
    args = [m.load(x, [i]), m.load(y, [i])][: 2 if kind == "cas" else 1]
    at = m.load(where, [i])
    m.store(old, [i], m.atomic(kind, first, [at], *args))
    m.store(other, [i], m.atomic(kind, second, [m.op("add", at, m.i(2))], *args))
    places = np.random.default_rng(5).integers(0, 10, 100).astype(np.int32)
    values = [numbers(dtype, n, seed=n) for n in (100, 100, 10, 12, 100, 100)]
    check(m.kernel(), (100,), [places, *values], (4, 8, 32), None)


@pytest.mark.parametrize("dtype", [float64, int32], ids=str)
@pytest.mark.parametrize(("grid", "tiles"), GRIDS, ids=str)
def test_stencils(grid, tiles, dtype):
    for reach, clamp in ((1, True), (2, False)):
        m = Make()
        target = m.array(*[None] * len(grid), dtype=dtype)
        kernel = stencil(m, len(grid), target, reach, clamp, dtype)
        shape = grid if clamp else tuple(n + 2 * reach for n in grid)
        for cut in (tiles, None):
            check(kernel, grid, [np.ones(shape, dtype.numpy)], (8, 16), cut)


def in_threads(code, kernel, grid, buffers, tiles, workers=4):
    """The tiles at the same time."""
    gate = threading.Barrier(workers)

    def work(part):
        gate.wait()
        launch(code, kernel, grid, buffers, part)

    threads = [threading.Thread(target=work, args=(tiles[n::workers],)) for n in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("grid", [(1 << 15,), (64, 512), (16, 16, 128)], ids=str)
@pytest.mark.parametrize("dtype", [float32, int32], ids=str)
def test_rectangles_at_the_same_time(grid, dtype):
    """Borders of many small rectangles, again and again; sums are exact in any order."""
    m = Make()
    target = m.array(*[None] * len(grid), dtype=dtype)
    kernel = prepare(stencil(m, len(grid), target, 1, True, dtype))
    once = [np.zeros(grid, dtype.numpy)]
    interpret(kernel, grid, once)
    rows, columns = int(np.prod(grid[:-1], dtype=int)), grid[-1]
    tiles = columns_cut(1, columns, *range(128, columns, 128)) if rows == 1 else None
    tiles = tiles or rows_cut(rows, columns, *range(3, rows, 3))
    code, got = compile_cpu(kernel), [np.zeros(grid, dtype.numpy)]
    for _ in range(100):
        in_threads(code, kernel, grid, got, tiles)
    assert np.array_equal(got[0], 100 * once[0])


def test_an_index_of_64_bits(marked):
    m = Make()
    target = m.array(None, None, dtype=int32)
    i, j = m.tid(0), m.tid(1)
    m.atomic("add", target, [m.cast(m.op("add", i, m.i(1)), int64), j], m.i(1))
    m.atomic("add", target, [m.cast(i, int64), j], m.i(2))
    buffers = [np.zeros((41, 70), np.int32)]
    require_apart(own_and_touched(m.kernel(2), (40, 70), buffers, 0, rows_cut(40, 70, 20)))


def test_empty_grids():
    m = Make()
    target = m.array(None, None, None, dtype=int32)
    kernel = _batched(m, target, False)
    for grid in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        check(kernel, grid, [np.zeros((2, 3, 4), np.int32)], WIDTHS)


def test_indices_that_lanes_choose(marked):
    m = Make()
    flag, target = m.array(None, dtype=int32), m.array(None, dtype=int32)
    i = m.tid(0)
    follows = m.op("select", m.op("gt", m.load(flag, [i]), m.i(0)), m.op("add", i, m.i(1)), i)
    m.if_(
        m.op("gt", m.load(flag, [i]), m.i(1)),
        lambda: (m.atomic("add", target, [m.op("add", i, m.i(3))], m.i(1)), ())[1],
        lambda: (m.atomic("add", target, [follows], m.i(1)), ())[1],
    )
    flags = np.random.default_rng(3).integers(0, 3, 300).astype(np.int32)
    for cuts in ((64, 128), (192,), (64, 256)):
        found = own_and_touched(m.kernel(), (300,), [flags, np.zeros(303, np.int32)], 1, columns_cut(1, 300, *cuts))
        require_apart(found)
        assert sum(own.sum() for own, _ in found) > 100


def test_how_launches_are_cut():
    """Whole for two threads where both would need an atomic for each element; large pieces where borders need them."""

    def cut(*updates, work=0):
        m = Make()
        where, x, target = m.array(None, None, dtype=int32), m.array(None, None), m.array(None, None)
        i, j = m.tid(0), m.tid(1)
        value = m.load(x, [i, j])
        for _ in range(work):
            value = m.op("sin", value)
        rows = {"gathered": m.load(where, [i, j]), "below": m.op("add", i, m.i(1)), "own": i}
        for row in updates:
            m.atomic("add", target, [rows[row], j], value)
        code = compile_cpu(prepare(m.kernel(2)))
        return code.cut.max_unsplit_threads, code.cut.max_pieces_per_thread

    assert cut("own") == cut() == (1, 16)
    assert cut("own", "below") == (1, 2)
    assert cut("gathered") == (2, 16)
    assert cut("gathered", work=60) == (1, 16)


@wp.kernel
def spread(x: wp.array2d[float], index: wp.array[int], y: wp.array2d[float]):
    i, j = wp.tid()
    down = wp.min(i + 1, x.shape[0] - 1)
    y[i, j] = x[i, j] * x[down, j] + x[i, wp.max(j - 2, 0)] + wp.sin(x[i, index[j]])


@pytest.mark.parametrize("shape", [(600, 700), (1, 90_000), (5000, 3)], ids=str)
def test_gradients_in_jax(shape):
    """Launches that the pool cuts and that it does not; a batch, also one that shares what it reads."""
    rng = np.random.default_rng(5)
    x, ct = (jnp.asarray(rng.standard_normal((2, *shape)), jnp.float32) for _ in range(2))
    index = jnp.asarray(rng.integers(0, shape[1], (2, shape[1])), jnp.int32)

    def by_hand(x, index):
        down, left = jnp.concatenate([x[1:], x[-1:]]), x[:, np.maximum(np.arange(shape[1]) - 2, 0)]
        return x * down + left + jnp.sin(x[:, index])

    def pulled(function, x, index, ct):
        return jax.vjp(lambda x: function(x, index), x)[1](ct)[0]

    results = []
    for function in (lambda x, index: wp.jax_kernel(spread)(x, index)[0], by_hand):
        pull, shared = functools.partial(pulled, function), jax.vmap(function, in_axes=(None, 0))
        results.append(
            [
                jax.jit(pull)(x[0], index[0], ct[0]),
                jax.jit(jax.vmap(pull))(x, index, ct),
                jax.jit(functools.partial(pulled, shared))(x[0], index, ct),
            ]
        )
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)


# Random kernels


@st.composite
def random_cases(draw):
    """A kernel of a few updates at indices that follow its thread indices, or do not; a grid and a cut of it."""
    rank = draw(st.integers(1, 3))
    outer = [draw(st.integers(1, 12)) for _ in range(rank - 1)]
    grid = (*outer, draw(st.sampled_from([3, 20, 70, 200])))
    m = Make()
    number, target = m.array(dtype=int32), m.array(*[64] * (rank - 1), 512, dtype=int32)
    tids = [m.tid(axis) for axis in range(rank)]
    loaded = m.load(number, [])
    in_loop: list = []

    def index(axis, depth):
        kinds = ["tid"] * 6 + ["const", "number", "loop", "other"]
        deep = ["add", "add", "sub", "min", "max", "min", "max", "mul", "select"]
        match draw(st.sampled_from(kinds + (deep * 2 if depth else []))):
            case "tid":
                return tids[axis]
            case "other":
                return tids[draw(st.integers(0, rank - 1))]
            case "const":
                return m.i(draw(st.integers(-3, 9)))
            case "number":
                return loaded
            case "loop":
                return in_loop[0] if in_loop else tids[axis]
            case "mul":
                return m.op("mul", index(axis, depth - 1), m.i(draw(st.integers(-1, 2))))
            case "select":
                is_low = m.op("lt", tids[draw(st.integers(0, rank - 1))], m.i(draw(st.integers(0, 9))))
                return m.op("select", is_low, index(axis, depth - 1), index(axis, depth - 1))
            case name:
                return m.op(name, index(axis, depth - 1), index(axis, depth - 1))

    def update():
        position = [m.op("max", index(a, 3), m.i(0)) for a in range(rank)]
        limits = [*[64] * (rank - 1), 512]
        place = [m.op("min", p, m.i(n - 1)) for p, n in zip(position, limits, strict=True)]
        m.atomic("add", target, place, m.i(draw(st.integers(1, 5))))

    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):

            def body(k):
                in_loop.append(k)
                update()
                in_loop.pop()
                return ()

            m.for_(m.i(draw(st.integers(-2, 2))), m.i(draw(st.integers(1, 4))), m.i(1), (), body)
        else:
            update()
    rows = int(np.prod(grid[:-1], dtype=int))
    cuts = sorted(set(draw(st.lists(st.integers(1, max(rows - 1, 1)), max_size=3))) - {rows})
    tiles = rows_cut(rows, grid[-1], *(c for c in cuts if c < rows))
    if draw(st.booleans()) and grid[-1] > 64:
        at = 64 * draw(st.integers(1, (grid[-1] - 1) // 64))
        tiles = [(a, b, *part) for a, b, _, _ in tiles for part in ((0, at), (at, grid[-1]))]
    shape = (*[64] * (rank - 1), 512)
    buffers = [np.array(draw(st.integers(-4, 9)), np.int32), np.zeros(shape, np.int32)]
    return m.kernel(rank), grid, buffers, tiles


@hypothesis.settings(
    max_examples=12, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(random_cases())
def test_random_kernels_own_what_no_other_rectangle_touches(marked, case):
    kernel, grid, buffers, tiles = case
    require_apart(own_and_touched(kernel, grid, buffers, 1, tiles))
