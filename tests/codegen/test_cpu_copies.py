"""Launches cut into pieces that have copies of what they add to: when, how much memory, and results."""

import ctypes
import functools
import os
import subprocess
import sys
from pathlib import Path

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cpukit import Make, floats
from hypothesis import strategies as st
from kernels_strategy import same_values
from native.frames import EXECUTE, INSTANTIATE, Refused, Runtime
from test_cpu_owned import MARK, columns_cut, mark_updates, numbers

import jaxwarp as wp
from jaxwarp.analysis.effects import analyze
from jaxwarp.codegen.cpu import choose_copies, compile_cpu, launch, load_bitcode, prices_without_copies
from jaxwarp.codegen.cpu.plan import copies
from jaxwarp.ffi import lowering
from jaxwarp.ir.interpret import interpret
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT, LaunchSpec, intern_kernel
from jaxwarp.native import library
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import SCALARS, bool_, float32, float64, int32

LOADER = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64),
)
COPIED = [t for t in SCALARS if t is not bool_ and not t.is_half]


class Pool(Runtime):
    """The native library, compiled kernels, and a pool of as many threads as a test wants."""

    def __init__(self, copy):
        super().__init__(library.find_library(), copy)
        self.callback = LOADER(
            lambda payload, size, digest, symbol, error, capacity: load_bitcode(
                ctypes.string_at(payload, size), digest.decode(), symbol.decode()
            )
        )
        self.metadata("cpu_instantiate")
        self.library.jaxwarp_set_loader(self.callback)

    def run(self, kernel, grid, buffers, roles, threads, count, **changes):
        """Launches, cut as small as can be, with memory for `count` copies; returns what that memory holds then."""
        made, shapes = as_launch(kernel, grid, buffers, roles)
        attributes = lowering.call_attributes(made, shapes, "cpu") | {"grain": 1}
        places = [i for i, param in enumerate(kernel.params) if param in copied_arrays(kernel)]
        size = sum(-(-buffers[i].nbytes // 64) * 64 for i in places)
        scratch = np.full(count * size, 0xAB, np.uint8)
        if count:
            attributes |= {"copies": count, "scratch": len(shapes) + len(made.results), "copied": places}
            attributes |= {"costs": [1 << 40, 1 << 60, 0]} | changes
        self.threads = threads
        self.call("cpu_instantiate", INSTANTIATE, 1, {name: plain(value) for name, value in attributes.items()})
        operands = [b for b, role in zip(buffers, roles, strict=True) if role != OUTPUT]
        results = [b for b, role in zip(buffers, roles, strict=True) if role != INPUT]
        results += [scratch] if count else []
        described = [[(str(b.dtype), b.shape, b.ctypes.data) for b in group] for group in (operands, results)]
        try:
            self.call("cpu_execute", EXECUTE, 1, {}, *described)
        finally:
            self.destroy(1)
        return scratch.reshape(count, size)


def as_launch(kernel, grid, buffers, roles):
    results = tuple(b.shape for b, role in zip(buffers, roles, strict=True) if role != INPUT)
    shapes = [b.shape for b, role in zip(buffers, roles, strict=True) if role != OUTPUT]
    return LaunchSpec(intern_kernel(kernel), grid, tuple(roles), results), shapes


@functools.lru_cache(maxsize=8)
def copied_arrays(kernel):
    prepared = prepare(kernel)
    return {prepared.params[i] for i in compile_cpu(prepared).cut.copied}


def plain(value):
    if isinstance(value, str):
        return value.encode()
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return Pool(tmp_path_factory.mktemp("native") / "copy.so")


def roles_of(kernel, is_output):
    effects = analyze(kernel)
    modified = OUTPUT if is_output else IN_OUT
    return [modified if effects[p].modifies else INPUT for p in kernel.params]


def require_results(pool, kernel, grid, buffers, threads, count, is_output=False):
    """As the interpreter leaves them; returns the memory for copies."""
    roles = roles_of(kernel, is_output)
    right, got = ([np.array(b) for b in buffers] for _ in range(2))
    for b, role in zip(right, roles, strict=True):
        if role == OUTPUT:
            b[...] = 0
    interpret(prepare(kernel), grid, right)
    scratch = pool.run(kernel, grid, got, roles, threads, count)
    for param, expected, ours in zip(kernel.params, right, got, strict=True):
        assert same_values(expected, ours), (param.name, threads, count, np.argwhere(expected != ours)[:5].tolist())
    return scratch


def is_used(scratch):
    return [bool(np.any(copy != 0xAB)) for copy in scratch]


def scatter(dtype, kind="add", read="", index_dtype=int32):
    """y[index[i]] += x[i], and what makes copies impossible."""
    m = Make()
    where, x, y, z = m.array(None, dtype=index_dtype), m.array(None, dtype=dtype), m.array(None, dtype=dtype), m.array(
        None, dtype=dtype
    )  # fmt: skip
    i = m.tid(0)
    old = m.atomic(kind, y, [m.load(where, [i])], m.load(x, [i]))
    if read == "old":
        m.store(z, [i], old)
    elif read == "loaded":
        m.store(z, [i], m.load(y, [i]))
    elif read == "stored":
        m.store(y, [i], m.load(x, [i]))
    elif read == "two":
        m.atomic("add", z, [m.load(where, [i])], m.load(x, [i]))
    elif read == "maximum":
        m.atomic("max", z, [m.load(where, [i])], m.load(x, [i]))
    return m.kernel()


def scatter_buffers(n, size, dtype, seed=0):
    index = np.random.default_rng(seed).integers(0, size, n).astype(np.int32)
    return [index, numbers(dtype, n, seed=1), numbers(dtype, size, seed=2), numbers(dtype, size, seed=3)]


# Which arrays


def test_arrays_that_are_only_added_to():
    def copied(*args):
        return compile_cpu(prepare(scatter(*args))).cut.copied

    for dtype in SCALARS:
        assert copied(dtype) == ((2,) if dtype in COPIED else ())
    assert copied(float32, "add", "two") == (2, 3)
    for read in ("old", "loaded", "stored", "maximum"):
        assert copied(float32, "add", read) == ()
    for kind in ("min", "max", "and", "or", "xor", "exch"):
        assert copied(int32, kind) == ()


def test_single_lanes_have_none():
    code = compile_cpu(prepare(scatter(float32)), 1)
    assert code.cut.copied == ()
    assert all(source != -2 for source, _ in code.geometry)


@pytest.mark.parametrize("width", [4, 8, 32])
def test_no_atomic_on_a_copy(width):
    """What is not atomic adds a mark here."""
    with pytest.MonkeyPatch.context() as patch:
        mark_updates(patch)
        kernel = prepare(scatter(int32, "add", "two"))
        code = compile_cpu(kernel, width)
        for has_copies in (False, True):
            index = scatter_buffers(300, 40, int32)[0]
            got = [index, np.ones(300, np.int32), np.zeros(40, np.int32), np.zeros(40, np.int32)]
            launch(code, kernel, (300,), got, columns_cut(1, 300, 64, 128), has_copies)
            for array in got[2:]:
                assert np.array_equal(array, np.bincount(index, minlength=40) * (MARK * has_copies + 1))


# Results, by every number of threads


@pytest.mark.parametrize("dtype", COPIED, ids=str)
def test_every_type(pool, dtype):
    """Old values stay; integers wrap; indices meet, within a vector and between pieces."""
    for threads, count, is_output in ((2, 1, False), (3, 2, True), (5, 2, False), (16, 15, True)):
        kernel = scatter(dtype, "add", "two")
        buffers = scatter_buffers(3000, 37, dtype)
        if dtype.is_int:
            buffers[1] *= 29
        scratch = require_results(pool, kernel, (3000,), buffers, threads, count, is_output)
        assert is_used(scratch) == [True] * min(count, threads - 1)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7, 8, 13, 16])
def test_numbers_of_threads_and_copies(pool, threads):
    kernel, buffers = scatter(float64), scatter_buffers(2000, 300, float64)
    for count in (0, 1, 2, 6, 15):
        scratch = require_results(pool, kernel, (2000,), buffers, threads, count)
        assert is_used(scratch) == [i < threads - 1 for i in range(count)]


GRIDS = [(1,), (63,), (64,), (65,), (1000,), (3, 70), (2, 200), (40, 5), (2, 3, 100), (0,), (0, 5), (5, 0)]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_grids(pool, grid):
    """Cut by rows, by columns and by both; too small to be cut; empty."""
    m = Make()
    where, y = m.array(*[None] * len(grid), dtype=int32), m.array(None, dtype=float32)
    place = m.load(where, [m.tid(axis) for axis in range(len(grid))])
    m.atomic("add", y, [place], m.f(0.5))
    index = np.random.default_rng(7).integers(0, 50, grid).astype(np.int32)
    for threads in (2, 4, 16):
        for is_output in (False, True):
            require_results(pool, m.kernel(len(grid)), grid, [index, floats(50)], threads, 3, is_output)


def test_pools_that_do_not_help(pool):
    """The caller does all pieces, in their order: nothing queued is waited for."""
    kernel, buffers = scatter(float32), scatter_buffers(2000, 300, float32)
    try:
        for pool.pool in ("lazy", "refuse"):
            for threads in (2, 5):
                assert all(is_used(require_results(pool, kernel, (2000,), buffers, threads, 4)[: threads - 1]))
    finally:
        pool.pool = "threads"
    # Helpers that wake up when the call is long gone find nothing to do.
    while pool.waiting:
        task, data = pool.waiting.pop()
        task(data)


def test_sums_of_floats_depend_on_the_number_of_threads_only(pool):
    kernel, buffers = scatter(float32), scatter_buffers(5000, 20, float32)
    buffers[1] = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    roles = roles_of(kernel, False)
    for threads in (1, 2, 5):
        runs = []
        for _ in range(10):
            got = [np.array(b) for b in buffers]
            pool.run(kernel, (5000,), got, roles, threads, 4)
            runs.append(got[2])
        assert all(np.array_equal(run, runs[0]) for run in runs)
        exact = buffers[2].astype(np.float64)
        np.add.at(exact, buffers[0], buffers[1].astype(np.float64))
        np.testing.assert_allclose(runs[0], exact, rtol=1e-4, atol=1e-4)
        # In the order that benchmarks/cpu_code.md gives: each piece by itself, then the copies one after the other.
        pieces, total = np.array_split(np.arange(5000), 1), buffers[2].copy()
        if threads == 1:
            np.add.at(total, buffers[0][pieces[0]], buffers[1][pieces[0]])
            assert np.array_equal(runs[0], total)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_zeros_infinities_and_subnormal_numbers(pool, dtype):
    """-0 where nothing is added, or only -0 is; numbers that XLA's own code would flush to zero."""
    tiny, n, kernel = np.finfo(dtype.numpy).smallest_subnormal, 4096, scatter(dtype, "add", "two")
    rows = [  # what was there, what is added n / 8 times, what is there then
        (-0.0, 0.0, 0.0), (0.0, -0.0, 0.0), (-0.0, -0.0, -0.0), (tiny, tiny, tiny * (n // 8 + 1)),
        (np.inf, -np.inf, np.nan), (np.inf, 1.0, np.inf), (np.nan, 1.0, np.nan), (-0.0, tiny, tiny * (n // 8)),
    ]  # fmt: skip
    old, add, right = np.array(rows, dtype.numpy).T
    index = np.arange(n, dtype=np.int32) % 8
    for threads in (1, 2, 9):
        got = [index, np.tile(add, n // 8), old.copy(), old.copy()]
        pool.run(kernel, (n,), got, roles_of(kernel, False), threads, 8)
        for found in got[2:]:
            np.testing.assert_array_equal(found, right)
            assert np.array_equal(np.signbit(found)[:4], np.signbit(right)[:4])
        got = [np.full(n, 3, np.int32), np.zeros(n, dtype.numpy), *np.full((2, 8), -0.0, dtype.numpy)]
        pool.run(kernel, (n,), got, roles_of(kernel, False), threads, 8)
        assert np.signbit(got[2]).tolist() == [i != 3 for i in range(8)]


@st.composite
def random_cases(draw):
    """Updates of two arrays at indices in data and at others, in branches and loops, of one or several axes."""
    rank = draw(st.integers(1, 3))
    grid = (*[draw(st.integers(1, 3)) for _ in range(rank - 1)], draw(st.sampled_from([5, 64, 200])))
    dtypes = [draw(st.sampled_from(COPIED)) for _ in range(2)]
    m = Make()
    where = m.array(*[None] * rank, dtype=int32)
    targets = [m.array(None, dtype=dtypes[0]), m.array(None, None, dtype=dtypes[1])]
    out = m.array(*[None] * rank, dtype=int32)
    tids = [m.tid(axis) for axis in range(rank)]
    found, state = m.load(where, tids), {"k": m.i(1)}

    def below(value, limit):
        return m.op("mod", m.op("abs", value), m.i(limit))

    def index(limit):
        kinds = [found, tids[-1], tids[0], m.i(3), m.op("add", found, state["k"])]
        kinds += [m.op("sub", m.i(limit - 1), tids[-1])]
        return below(draw(st.sampled_from(kinds)), limit)

    def update(*_):
        at = draw(st.integers(0, 1))
        value = m.cast(m.op("sub", below(found, 7), state["k"]), dtypes[at])
        m.atomic("add", targets[at], [index(90)] if at == 0 else [index(6), index(70)], value)
        return ()

    for _ in range(draw(st.integers(1, 4))):
        match draw(st.sampled_from(["plain", "if", "loop"])):
            case "if":
                m.if_(m.op("gt", found, m.i(draw(st.integers(0, 60)))), update, lambda: ())
            case "loop":

                def body(k):
                    state["k"] = k
                    return update()

                m.for_(m.i(0), m.i(draw(st.integers(1, 3))), m.i(1), (), body)
                state["k"] = m.i(1)
            case _:
                update()
    m.store(out, tids, m.op("add", found, m.i(1)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    buffers = [rng.integers(0, 90, grid).astype(np.int32), numbers(dtypes[0], 90), numbers(dtypes[1], 6, 70)]
    return m.kernel(rank), grid, [*buffers, np.zeros(grid, np.int32)]


@hypothesis.settings(
    max_examples=12, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(random_cases(), st.integers(1, 16), st.integers(1, 15), st.booleans())
def test_random_kernels(pool, case, threads, count, is_output):
    kernel, grid, buffers = case
    if not copied_arrays(kernel):
        count = 0
    require_results(pool, kernel, grid, buffers, threads, count, is_output)


# What is malformed


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"copies": -1}, "attribute 'copies' is out of range: -1"),
        ({"copied": [4]}, "attribute 'copied' has an entry out of range: 4"),
        ({"costs": [1, 2]}, "attribute 'costs' has 2 entries where 3 are expected"),
        ({"copies": 3}, "the buffer for 3 copies of 192 bytes has 384"),
        ({"scratch": 7}, "buffer 7 does not exist: the call has 6 buffers"),
        ({"geometry": [-2, 1]}, "attribute 'geometry' names axis 1 of parameter -2, which does not exist"),
    ],
)
def test_malformed_attributes_are_refused(pool, changes, reason):
    kernel = scatter(float32)
    with pytest.raises(Refused) as refused:
        pool.run(kernel, (2000,), scatter_buffers(2000, 37, float32), roles_of(kernel, False), 4, 2, **changes)
    assert str(refused.value) == f"jaxwarp: kernel 'test': {reason}"


# Which launches, and how much memory


@wp.kernel
def squares(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = x[index[i]]
    y[i] = v * v


@wp.kernel
def histogram(x: wp.array[float], counts: wp.array[int], total: wp.array[float]):
    i = wp.tid()
    k = int(x[i] * 50.0)
    wp.atomic_add(counts, k, 1)
    wp.atomic_add(total, k, x[i])


@wp.kernel
def columns(x: wp.array2d[float], order: wp.array[int], y: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(y, order[j], x[i, j])


@wp.kernel
def spread(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(y, index[i], x[i])


@pytest.fixture
def threads(monkeypatch):
    """Programs are made for as many threads as a test wants; the pool of the tests has eight."""

    def choose(count):
        monkeypatch.setattr(lowering, "pool_size", lambda: count)

    choose(8)
    return choose


N = 1 << 17


def gathered(n=N, size=N, seed=0):
    rng = np.random.default_rng(seed)
    x, ct = (jnp.asarray(rng.integers(-8, 8, k) / 4, jnp.float32) for k in (size, n))
    return x, jnp.asarray(rng.integers(0, size, n), jnp.int32), ct


def gradient(x, index, ct):
    return jax.vjp(lambda x: wp.jax_kernel(squares, launch_dims=index.shape)(x, index, output_dims=index.shape)[0], x)[
        1
    ](ct)[0]


def gradient_by_hand(x, index, ct):
    right = np.zeros(x.shape, np.float32)
    np.add.at(right, np.asarray(index), 2 * np.asarray(x)[np.asarray(index)] * np.asarray(ct))
    return right


def copies_of(function, *args):
    """(copies, bytes of scratch memory) of each launch of a program that has some."""
    fresh = functools.partial(function)  # JAX remembers what it has lowered, for another number of threads perhaps
    text = jax.jit(fresh).lower(*args).as_text()
    found = []
    for line in text.splitlines():
        if "@jaxwarp_launch(" in line and " copies = " in line:
            count = int(line.split(" copies = ")[1].split(" ")[0])
            size = [t for t in line.rsplit("->", 1)[1].replace("tensor<", " ").split() if "xui8>" in t]
            found.append((count, int(size[-1].split("x")[0])))
    return found


def test_a_gather_s_gradient(threads):
    """Its buffers are four of a size: one copy is a quarter."""
    x, index, ct = gathered()
    assert copies_of(gradient, x, index, ct) == [(1, 4 * N)]
    threads(2)
    assert copies_of(gradient, x, index, ct) == [(1, 4 * N)]
    compiled = jax.jit(gradient).lower(x, index, ct).compile()
    assert compiled.memory_analysis().temp_size_in_bytes <= 4 * N + 4096
    for _ in range(3):
        assert np.array_equal(compiled(x, index, ct), gradient_by_hand(x, index, ct))


def test_small_arrays_have_a_copy_for_each_thread(threads):
    for count in (2, 8):
        threads(count)
        x, index, ct = gathered(size=1000)
        assert copies_of(gradient, x, index, ct) == [(count - 1, (count - 1) * 4032)]
        assert np.array_equal(jax.jit(gradient)(x, index, ct), gradient_by_hand(x, index, ct))


def test_launches_without_copies(threads):
    threads(1)
    assert copies_of(gradient, *gathered()) == []
    threads(8)
    assert copies_of(gradient, *gathered(n=1000, size=100)) == []  # too little work to be shared
    assert copies_of(gradient, *gathered(n=N, size=4 * N)) == []  # too much memory
    symbolic = jax.export.symbolic_shape("n")
    args = [jax.ShapeDtypeStruct(symbolic, dtype) for dtype in (jnp.float32, jnp.int32, jnp.float32)]
    function = lambda x, index, ct: jax.vjp(lambda x: wp.jax_kernel(squares)(x, index)[0], x)[1](ct)[0]  # noqa: E731
    assert copies_of(function, *args) == []
    assert copies_of(lambda x, index: wp.jax_kernel(squares)(x, index)[0], *gathered()[:2]) == []


@pytest.mark.parametrize("in_out", [False, True])
def test_several_arrays(threads, in_out):
    """Outputs, and arrays with something in them."""
    x = jnp.asarray(np.random.default_rng(0).integers(0, 16, N) / 16, jnp.float32)
    start = [jnp.full(50, 7, jnp.int32), jnp.full(50, 0.5, jnp.float32)]
    if in_out:
        call = wp.jax_kernel(histogram, num_outputs=2, in_out_argnames=["counts", "total"])
        function = lambda x: call(x, *start)  # noqa: E731
    else:
        call = wp.jax_kernel(histogram, num_outputs=2, launch_dims=N)
        function = lambda x: call(x, output_dims=50)  # noqa: E731
    assert copies_of(function, x) == [(7, 7 * 512)]
    k = (np.asarray(x) * 50).astype(int)
    counts, total = np.bincount(k, minlength=50), np.bincount(k, np.asarray(x, np.float64), 50)
    for got, right, old in zip(function(x), (counts, total), (7, 0.5), strict=True):
        assert np.array_equal(got, right + old * in_out)


def test_batches(threads):
    """A batch that shares the array; and one whose items have arrays of their own, which needs no copies."""
    x, index, ct = gathered(size=500)
    index, ct = index.reshape(4, -1), ct.reshape(4, -1)

    def shared(x, index, ct):
        one = lambda x, index: wp.jax_kernel(squares, launch_dims=index.shape)(x, index, output_dims=index.shape)[0]  # noqa: E731
        return jax.vjp(lambda x: jax.vmap(one, in_axes=(None, 0))(x, index), x)[1](ct)[0]

    assert copies_of(shared, x, index, ct) == [(7, 7 * 2048)]
    right = gradient_by_hand(x, index.reshape(-1), ct.reshape(-1))
    assert np.array_equal(jax.jit(shared)(x, index, ct), right)
    apart = jax.vmap(gradient, in_axes=(None, 0, 0))
    assert copies_of(apart, x, index, ct) == []
    assert np.array_equal(jax.jit(apart)(x, index, ct).sum(0), right)


def test_rows_that_meet(threads):
    x = jnp.asarray(np.random.default_rng(0).integers(-9, 9, (900, 300)) / 4, jnp.float32)
    order = jnp.asarray(np.random.default_rng(1).permutation(300) // 3, jnp.int32)
    function = lambda x: wp.jax_kernel(columns, launch_dims=x.shape)(x, order, output_dims=100)[0]  # noqa: E731
    assert copies_of(function, x) == [(7, 7 * 448)]
    right = np.zeros(100, np.float32)
    np.add.at(right, np.asarray(order), np.asarray(x).sum(0))
    assert np.array_equal(jax.jit(function)(x), right)


def test_launches_of_a_program_share_the_memory(threads):
    given = gathered()

    def memory(count, n, is_loop):
        threads(count)

        def step(x, index, ct):
            return (x + gradient(x, index, ct)) / 2

        def program(x, index, ct):
            if is_loop:
                return jax.lax.fori_loop(0, n, lambda _, x: step(x, index, ct), x)
            for _ in range(n):
                x = step(x, index, ct)
            return x

        return jax.jit(program).lower(*given).compile().memory_analysis().temp_size_in_bytes

    for is_loop in (False, True):
        one, *more = (memory(2, n, is_loop) - memory(1, n, is_loop) for n in (1, 2, 8))
        assert one <= 4 * N + 4096
        assert all(m <= one + 4096 for m in more)


def test_exported_programs(threads):
    """The number of copies travels; whoever runs them has as many threads as he has."""
    threads(3)
    x, index, ct = gathered(size=1000)
    exported = jax.export.export(jax.jit(gradient), disabled_checks=wp.export_checks())(x, index, ct)
    assert " copies = 2 " in exported.mlir_module()
    threads(1)
    again = jax.export.deserialize(exported.serialize())
    assert np.array_equal(again.call(x, index, ct), gradient_by_hand(x, index, ct))


@pytest.mark.parametrize("mode", ["JAX", "WARP", "NONE"])
def test_callables(threads, mode):
    """Programs of several launches: the launches that JAX sees have copies, those of one operation do not."""
    x = jnp.asarray(np.random.default_rng(0).integers(0, 16, N) / 16, jnp.float32)

    def count(x: wp.array(dtype=wp.float32), counts: wp.array(dtype=wp.int32), total: wp.array(dtype=wp.float32)):
        wp.launch(histogram, N, [x], [counts, total])

    call = wp.jax_callable(count, num_outputs=2, graph_mode=getattr(wp.GraphMode, mode), output_dims=50)
    k = (np.asarray(x) * 50).astype(int)
    for function in (call, jax.jit(call)):
        counts, total = function(x)
        assert np.array_equal(counts, np.bincount(k, minlength=50))
        assert np.array_equal(total, np.bincount(k, np.asarray(x, np.float64), 50))


def test_subnormal_numbers_under_xla(threads):
    """XLA flushes them in its threads; copies are added as kernels compute."""
    x, index = jnp.full(N, 1e-41, jnp.float32), jnp.arange(N, dtype=jnp.int32) % 2048
    call = wp.jax_kernel(spread, launch_dims=N)
    assert copies_of(lambda x: call(x, index, output_dims=2048), x) == [(7, 7 * 8192)]
    exact = np.float32(1e-41) * np.float32(N // 2048)
    assert np.array_equal(call(x, index, output_dims=2048)[0], np.full(2048, exact))


def test_the_price_decides():
    """Many threads with atomics are faster than two pieces; an array much larger than the launch is no gain."""
    kernel = prepare(scatter(float32))
    prices = prices_without_copies(kernel, compile_cpu(kernel).contended, (), {})

    def choose(size, memory, threads, pool):
        return choose_copies(prices, [size], memory, threads, pool)

    assert choose(4 * N, 16 * N, N, 2).count == 1
    assert choose(4 * N, 16 * N - 64, N, 2) is None
    found = choose(4 * N, 16 * N, N, 64)
    assert found.count == 1
    assert found.pays(2)
    assert not found.pays(64)
    assert choose(400 * N, 4000 * N, N, 2) is None
    assert choose(0, 1000, N, 8) is None
    assert choose(400, 1 << 40, N, 1000).count == copies._MOST_COPIES
    assert choose(400, 1 << 40, N, 1) is None


POOLS = """
import sys
sys.path[:0] = sys.argv[1:]
import threading
import jax, numpy as np
from test_cpu_copies import N, gathered, gradient, gradient_by_hand
for size in (N, 300):
    given = gathered(size=size)
    right, program, wrong = gradient_by_hand(*given), jax.jit(gradient), []
    def run():
        for _ in range(20):
            if not np.array_equal(program(*given), right):
                wrong.append(size)
    threads = [threading.Thread(target=run) for _ in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong, wrong
assert "copies" in program.lower(*given).as_text()
"""


@pytest.mark.parametrize("count", [2, 11])
def test_pools_of_xla(count):
    """Several programs at a time, on fewer or more threads than the machine has."""
    environment = os.environ | {"PJRT_NPROC": str(count), "JAX_PLATFORMS": "cpu"}
    paths = [str(folder) for folder in Path(__file__).parents[:3]]
    subprocess.run([sys.executable, "-c", POOLS, *paths], env=environment, check=True, timeout=300)
