"""Several rows of threads in one body: the meaning stays, the bits stay, and products of matrices share their loads."""

from __future__ import annotations

import functools
import itertools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cpukit import SHAPES, Make
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_strategy import Case, assert_same, kernels, random_case, same_values

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile_cpu, run_cpu
from jaxwarp.codegen.cpu.analysis.uniformity import find_strides
from jaxwarp.codegen.cpu.compile import compile_object
from jaxwarp.codegen.cpu.plan import plan as launch_plan
from jaxwarp.codegen.cpu.plan.coarsening import Coarse, choose_coarse
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.codegen.cpu.plan.width import choose_width
from jaxwarp.codegen.cpu.run import launch
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.nodes import Atomic, For, Load, walk
from jaxwarp.ir.rows import find_differing
from jaxwarp.ir.verify import verify
from jaxwarp.passes.coarsen import coarsen
from jaxwarp.passes.launches.batch import batch
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import float16, float32, float64, int32
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import adjoint

AVX2 = Machine("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2")
MAX_STEPS = 100_000


# The pass


def several_rows(case):
    """The case, its kernel batched if it has no rows; None if there are no rows."""
    if len(case.grid) > 1:
        return case if case.grid[-2] else None
    modified = {op.param for op in walk(case.kernel.body) if not isinstance(op, Load) and hasattr(op, "param")}
    axes = [0 if p in modified else None for p in case.kernel.params]
    shapes = [s if a is None else (3, *s) for s, a in zip(case.shapes, axes, strict=True)]
    return Case(verify(batch(case.kernel, axes)), (3, *case.grid), tuple(shapes), case.seed)


def require_same_meaning(case):
    rows = case.grid[-2]
    expected, got = case.buffers(), case.buffers()
    interpret(case.kernel, case.grid, expected, max_steps=MAX_STEPS)
    coarse = verify(coarsen(case.kernel, rows))
    interpret(coarse, (*case.grid[:-2], 1, case.grid[-1]), got, max_steps=MAX_STEPS * rows)
    assert_same(case, expected, got, f"{rows} rows at once")


@settings(max_examples=30, deadline=None)
@given(kernels(local_arrays=False))
def test_all_rows_at_once_mean_the_same(case):
    case = several_rows(case)
    if case is not None:
        require_same_meaning(case)


@pytest.mark.parametrize("seed", range(16))
def test_all_rows_of_larger_kernels_at_once_mean_the_same(seed):
    case = several_rows(random_case(seed, local_arrays=False))
    if case is not None:
        require_same_meaning(case)


def test_what_rows_share_is_there_once():
    kernel = product()
    once = coarsen(kernel, 5)
    loads = [op.param for op in walk(once.body) if isinstance(op, Load)]
    assert [loads.count(param) for param in kernel.params] == [5, 1, 0]
    assert sum(isinstance(op, For) for op in walk(once.body)) == 1


def test_loops_that_rows_run_differently_stay_apart():
    m = Make()
    a, out = m.array(None), m.array(None, None)
    i, j = m.tid(0), m.tid(1)
    (total,) = m.for_(m.i(0), i, m.i(1), [m.f(0)], lambda k, s: [m.op("add", s, m.load(a, [k]))])
    m.store(out, [i, j], total)
    kernel = m.kernel(2)
    assert sum(isinstance(op, For) for op in walk(coarsen(kernel, 4).body)) == 4
    require_same_meaning(Case(kernel, (4, 3), ((4,), (4, 3)), 0))


# CPU code: kernels made to be coarsened


REAL = {"float32": float32, "float64": float64, "int32": int32}
# What an element of a product is made of: indices of a and b, by names of the thread's indices and the loop's.
PRODUCTS = {
    "a b": ("ik", "kj"),
    "a bT": ("ik", "jk"),
    "aT b": ("ki", "kj"),
    "aT bT": ("ki", "jk"),
    "b backwards": ("ik", "kJ"),
    "a backwards": ("Ik", "kj"),
}


@functools.cache
def product(kind="a b", dtype=float32, rank=2, in_out=False, batched=(True, True)):
    """c[.., i, j] = (c[.., i, j] +) sum over k of a[..] * b[..], over a grid of 2 axes or more.

    J and I are thread indices backwards, `batched` says whether a and b have the leading axes of the grid.
    """
    m, lead = Make(), rank - 2
    a, b = (m.array(*(None,) * (2 + lead * has), dtype=dtype) for has in batched)
    c = m.array(*(None,) * rank, dtype=dtype)
    outer, i, j = [m.tid(n) for n in range(lead)], m.tid(lead), m.tid(lead + 1)
    last = [m.op("sub", m.size(c, axis), m.i(1)) for axis in (lead, lead + 1)]
    names = {"i": i, "j": j, "I": m.op("sub", last[0], i), "J": m.op("sub", last[1], j)}
    extent = m.size(a, (lead if batched[0] else 0) + PRODUCTS[kind][0].index("k"))

    def iteration(k, total):
        known = names | {"k": k}
        x, y = (
            m.load(p, [*outer, *(known[n] for n in which)] if has else [known[n] for n in which])
            for p, which, has in zip((a, b), PRODUCTS[kind], batched, strict=True)
        )
        return [m.op("add", total, m.op("mul", x, y))]

    first = m.load(c, [*outer, i, j]) if in_out else m.const(0, dtype)
    (total,) = m.for_(m.i(0), extent, m.i(1), [first], iteration)
    m.store(c, [*outer, i, j], total)
    return prepare(m.kernel(rank))


def arrays(kernel, kind, grid, depth, batched=(True, True)):
    rng = np.random.default_rng(0)
    extents = {"i": grid[-2], "I": grid[-2], "j": grid[-1], "J": grid[-1], "k": depth}
    shapes = [
        (*(grid[:-2] if has else ()), *(extents[n] for n in which))
        for which, has in zip(PRODUCTS[kind], batched, strict=True)
    ]
    return [rng.normal(0, 9, s).astype(p.dtype.numpy) for s, p in zip([*shapes, grid], kernel.params, strict=True)]


def choice(kernel, width=None, machine=AVX2):
    width = width or choose_width(kernel, machine)
    return choose_coarse(kernel, find_strides(kernel, width), width, machine)


def same_bits(kernel, grid, buffers, width=None, tiles=None, machine=None):
    """The code of this width leaves what that of one lane does."""
    expected, got = ([np.array(b) for b in buffers] for _ in range(2))
    launch(compiled(kernel, 1, None), kernel, grid, expected)
    launch(compiled(kernel, width, machine or SHAPES.get(width)), kernel, grid, got, tiles)
    for param, a, b in zip(kernel.params, expected, got, strict=True):
        assert same_values(a, b), f"{param.name} of {grid} at width {width}, tiles {tiles}\n{a}\n{b}"


compiled = functools.lru_cache(maxsize=256)(compile_cpu)


@pytest.mark.parametrize("kind", PRODUCTS)
@pytest.mark.parametrize("dtype", REAL)
def test_products_have_the_bits_of_one_lane(kind, dtype):
    kernel = product(kind, REAL[dtype])
    for width in (2, 8, 16, 32):
        rows = choice(kernel, width, SHAPES[width])
        # With two lanes there may be nothing to gain.
        assert width == 2 or rows is not None
    for rows in (0, 1, 5, 6, 7, 12, 17):
        same_bits(kernel, (rows, 37), arrays(kernel, kind, (rows, 37), 5))


@pytest.mark.parametrize("width", [2, 4, 8, 16, 32, 64])
def test_all_numbers_of_rows_at_all_widths(width):
    kernel = product(in_out=True)
    found = choice(kernel, width, SHAPES[width])
    rows = 3 if found is None else found.rows
    assert found is not None or width < 8
    for count in range(2 * rows + 2):
        for columns in (width - 1, width, 2 * width + 3):
            same_bits(kernel, (count, columns), arrays(kernel, "a b", (count, columns), 3), width)


@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_rows_of_different_items_are_not_mixed(batched):
    kernel = product(rank=4, batched=batched)
    assert choice(kernel).rows == 6
    for grid in ((2, 3, 13, 40), (1, 4, 6, 33), (5, 2, 3, 35), (2, 0, 7, 35), (3, 1, 1, 64)):
        buffers = arrays(kernel, "a b", grid, 4, batched)
        same_bits(kernel, grid, buffers)
        total = math.prod(grid[:-1])
        cuts = sorted({0, total // 3, total // 3 + 5, total - 1, total})
        tiles = [(a, b, *c) for a, b in itertools.pairwise(cuts) for c in ((0, 32), (32, grid[-1]))]
        if total > 5:
            same_bits(kernel, grid, buffers, tiles=tiles)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_rectangles_of_products(data):
    kind = data.draw(st.sampled_from(sorted(PRODUCTS)))
    rank, in_out = data.draw(st.integers(2, 3)), data.draw(st.booleans())
    kernel = product(kind, rank=rank, in_out=in_out)
    grid = (*(data.draw(st.integers(1, 3)) for _ in range(rank - 2)), data.draw(st.integers(0, 20)))
    grid = (*grid, data.draw(st.integers(0, 70)))
    rows = math.prod(grid[:-1])
    cuts = sorted({0, rows, *data.draw(st.lists(st.integers(0, rows), max_size=3))})
    inner = data.draw(st.lists(st.sampled_from([16, 32, 64]), max_size=2))
    columns = sorted({0, grid[-1], *(c for c in inner if c < grid[-1])})
    tiles = [(*r, *c) for r in itertools.pairwise(cuts) for c in itertools.pairwise(columns)]
    width = data.draw(st.sampled_from([4, 8, 16, 32]))
    same_bits(kernel, grid, arrays(kernel, kind, grid, data.draw(st.integers(0, 4))), width, tiles)


# CPU code: whatever the kernel


def any_kernel(monkeypatch, rows):
    """Makes the code generator coarsen all kernels but those with arrays of a thread's own and sums along rows."""

    def choose(kernel, strides, width, machine, *_):
        if width == 1 or kernel.grid_rank < 2 or kernel.locals:
            return None
        coarse = verify(coarsen(kernel, rows, find_differing(kernel)))
        return Coarse(rows, max(2, width // 2), coarse, find_strides(coarse, width))

    monkeypatch.setattr(launch_plan, "choose_coarse", choose)


@pytest.mark.parametrize("seed", range(24))
def test_any_kernel(monkeypatch, seed):
    """One half with atomics, one without; each number of rows with each width, with and without."""
    any_kernel(monkeypatch, rows=2 + seed % 3)
    case, at = None, 0
    while case is None:
        case, at = several_rows(random_case(1000 * seed + at, budget=20, local_arrays=False)), at + 1
        if case is not None:
            prepared = prepare(case.kernel)
            fits = any(isinstance(op, Atomic) for op in walk(prepared.body)) == bool(seed % 2)
            case = case.with_kernel(prepared) if fits and math.prod(case.grid) > 3 and case.grid[-1] > 2 else None
    expected, buffers, width = case.buffers(), case.buffers(), (2, 8, 32, 8)[seed // 6]
    interpret(case.kernel, case.grid, expected, max_steps=MAX_STEPS)
    run_cpu(case.kernel, case.grid, buffers, width, machine=SHAPES[width])
    assert_same(case, expected, buffers, f"width {width}")


# The shape of the code


def inner_loop(kernel, machine, width=None):
    """The names of the instructions of the block with most fused products."""
    code = compile_object(compile_cpu(kernel, width, machine).bitcode, machine, assembly=True).decode()
    blocks = re.split(r"^\.L\w+:.*$", code, flags=re.MULTILINE)
    loops = [re.findall(r"^\t([a-z]\w+)(.*)$", block, flags=re.MULTILINE) for block in blocks]
    return max(loops, key=lambda block: sum(name.startswith("vfmadd") for name, _ in block))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_of_matrices_loads_twice_for_three_products(dtype):
    """Six rows of two registers: one of b serves six products, one element of a two."""
    loop = inner_loop(product(dtype=REAL[dtype]), AVX2)
    products = [name for name, _ in loop if name.startswith("vfmadd")]
    loads = [text for name, text in loop if name.startswith("v") and "(%" in text]
    assert (len(products), len(loads)) == (12, 8)
    assert not any("rsp" in text or "rbp" in text for text in loads)
    assert len(loop) <= 40


def test_more_registers_hold_more_rows():
    machine = Machine("x86_64-unknown-linux-gnu", "x86-64-v4", "+avx512f,+avx2")
    found = choice(product(), machine=machine)
    assert (found.rows, found.width) == (8, 32)
    found = choice(product(), machine=AVX2)
    assert (found.rows, found.width) == (6, 16)


def test_what_every_row_loads_for_itself_is_left_alone():
    """A convolution shares nothing but its weights. Sums along a row share nothing at all."""
    m = Make()
    image, weights, out = m.array(None, None), m.array(None), m.array(None, None)
    i, j = m.tid(0), m.tid(1)

    def iteration(k, total):
        x = m.load(image, [m.op("add", i, k), j])
        return [m.op("add", total, m.op("mul", m.load(weights, [k]), x))]

    (total,) = m.for_(m.i(0), m.size(weights, 0), m.i(1), [m.f(0)], iteration)
    m.store(out, [i, j], total)
    assert choice(prepare(m.kernel(2))) is None


def refused(name):
    """A product that has something in it that rows cannot do together, or that lanes do not."""
    m = Make()
    a, b, c, total = m.array(None, None), m.array(None, None), m.array(None, None), m.array(dtype=int32)
    i, j, zero, one = m.tid(0), m.tid(1), m.i(0), m.i(1)

    def iteration(k, s):
        if name == "a branch that rows take differently":
            added = m.if_(m.op("lt", k, i), lambda: [m.load(b, [k, j])], lambda: [m.f(0)])[0]
            return [m.op("add", s, added)]
        return [m.op("add", s, m.op("mul", m.load(a, [i, k]), m.load(b, [k, j])))]

    stop = {"rows of different lengths": i, "lanes of different lengths": j}.get(name, m.size(a, 1))
    (s,) = m.for_(zero, stop, one, [m.f(0)], iteration)
    if name == "an atomic":
        m.atomic("add", total, [], one)
    m.store(c, [zero if name == "one element for all rows" else i, j], s)
    return prepare(m.kernel(2))


@pytest.mark.parametrize(
    "name",
    ["an atomic", "rows of different lengths", "lanes of different lengths", "one element for all rows",
     "a branch that rows take differently"],
)  # fmt: skip
def test_what_is_not_coarsened(name):
    assert choice(refused("nothing")) is not None
    assert choice(refused(name)) is None
    assert compile_cpu(refused(name), machine=AVX2).cut.rows_per_piece == 1
    assert compile_cpu(refused("nothing"), machine=AVX2).cut.rows_per_piece == 6


# In JAX


@wp.kernel
def naive(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    s = 0.0
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@wp.kernel
def matvec(a: wp.array2d[float], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = 0.0
    for k in range(a.shape[1]):
        s += a[i, k] * x[k]
    y[i] = s


def whole(*shape, seed=0):
    """Numbers whose products and sums are exact."""
    return jnp.asarray(np.random.default_rng(seed).integers(-8, 9, shape), jnp.float32)


@pytest.mark.parametrize("rows", [1, 6, 23, 300])
def test_a_launch_on_all_threads(rows):
    a, b = whole(rows, 40), whole(40, 130, seed=1)
    (c,) = jax.jit(wp.jax_kernel(naive, launch_dims=(rows, 130), output_dims=(rows, 130)))(a, b)
    np.testing.assert_array_equal(c, np.asarray(a) @ np.asarray(b))


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
def test_batches_of_products(axes):
    a, b = (whole(*([7] if axis == 0 else []), *shape, seed=n)
            for n, (axis, shape) in enumerate(zip(axes, ((13, 9), (9, 37)), strict=True)))  # fmt: skip
    call = wp.jax_kernel(naive, launch_dims=(13, 37), output_dims=(13, 37))
    (c,) = jax.jit(jax.vmap(call, in_axes=axes))(a, b)
    np.testing.assert_array_equal(c, np.asarray(a) @ np.asarray(b))


def test_a_batch_of_vectors_is_a_product_of_matrices():
    a, x = whole(40, 9), whole(15, 9, seed=1)
    call = wp.jax_kernel(matvec, launch_dims=40, output_dims=40)
    (y,) = jax.jit(jax.vmap(call, in_axes=(None, 0)))(a, x)
    np.testing.assert_array_equal(y, np.asarray(x) @ np.asarray(a).T)
    rows = batch(matvec.ir(), (None, 0, 0))
    assert choice(prepare(rows)) is not None


def test_tangents_of_products():
    a, b, da, db = whole(14, 9), whole(9, 50, seed=1), whole(14, 9, seed=2), whole(9, 50, seed=3)
    call = wp.jax_kernel(naive, launch_dims=(14, 50), output_dims=(14, 50))
    value, slope = jax.jvp(jax.jit(lambda a, b: call(a, b)[0]), (a, b), (da, db))
    np.testing.assert_array_equal(value, np.asarray(a) @ np.asarray(b))
    np.testing.assert_array_equal(slope, np.asarray(a) @ np.asarray(db) + np.asarray(da) @ np.asarray(b))
    derived = tangent(naive.ir(), (0, 1))
    assert choice(prepare(derived.kernel)) is not None


# Gradients of products


@functools.cache
def gradient(kind="a b", dtype=float32, rank=2, wanted=(0, 1), batched=(True, True)):
    """The kernel that adds to the cotangents of the factors of a product."""
    moved = tangent(product(kind, dtype, rank, batched=batched), wanted)
    places = [n for n, slot in enumerate(moved.slots) if slot.kind == "tangent" and slot.index in wanted]
    made = adjoint(moved.kernel, places)
    return prepare(made.kernel)


def gradient_arrays(kernel, kind, grid, depth, batched=(True, True)):
    """Numbers of which all sums are exact; what is there before stays."""
    given = arrays(product(kind, rank=len(grid), batched=batched), kind, grid, depth, batched)
    by_name = dict(zip(("p0", "p1", "p2"), given, strict=True))
    shaped = [by_name[param.name[:2]] for param in kernel.params]
    return [whole_numbers(b.shape, p.dtype, n) for n, (b, p) in enumerate(zip(shaped, kernel.params, strict=True))]


def whole_numbers(shape, dtype, seed):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("wanted", [(0, 1), (0,), (1,)], ids=str)
def test_gradients_of_products(wanted, dtype):
    """Rows and columns with and without a rest; arrays that are summed in the frame, and larger ones."""
    kernel = gradient(dtype=dtype, wanted=wanted)
    assert compile_cpu(kernel, machine=AVX2).cut.rows_per_piece >= 4
    for grid, depth in (((9, 37), 5), ((4, 64), 70), ((3, 40), 3), ((1, 5), 3), ((0, 8), 3), ((8, 0), 3), ((5, 33), 0)):
        for width in (None, 4, 16, 32):
            same_bits(kernel, grid, gradient_arrays(kernel, "a b", grid, depth), width)


@pytest.mark.parametrize("kind", ["aT b", "b backwards", "a backwards", "a bT", "aT bT"])
def test_gradients_of_other_products(kind):
    """Of `bT`, lanes add a row apart from each other: rows of threads there, too, add their sum."""
    kernel = gradient(kind)
    assert compile_cpu(kernel, machine=AVX2).cut.rows_per_piece == 4
    for grid, depth in (((9, 37), 5), ((6, 70), 20)):
        same_bits(
            kernel,
            grid,
            gradient_arrays(kernel, kind, grid, depth),
            tiles=[(0, 6, 0, 37), (6, grid[0], 0, 37), (0, grid[0], 37, grid[1])],
        )


def test_gradients_of_batches_of_products():
    """Rows of several items; items that share a factor."""
    for batched in ((True, True), (True, False), (False, True)):
        kernel = gradient(rank=3, batched=batched)
        assert compile_cpu(kernel, machine=AVX2).cut.rows_per_piece == 4
        for grid in ((2, 7, 40), (3, 2, 33), (1, 4, 64), (2, 0, 8)):
            buffers = gradient_arrays(kernel, "a b", grid, 9, batched)
            same_bits(kernel, grid, buffers)
            rows = grid[0] * grid[1]
            if rows > 3:
                same_bits(kernel, grid, buffers, tiles=[(0, 3, 0, grid[2]), (3, rows, 0, 32), (3, rows, 32, grid[2])])


def test_what_rows_add_to_one_element_is_added_once():
    kernel = gradient()
    once = coarsen(kernel, 4)
    added = [op.param.name for op in walk(once.body) if isinstance(op, Atomic)]
    assert sorted(added) == ["p0_t_ct"] * 4 + ["p1_t_ct"]
    m = Make()
    y, old = m.array(None), m.array(None, None)
    m.store(old, [m.tid(0), m.tid(1)], m.atomic("add", y, [m.tid(1)], m.f(1.0)))
    assert sum(isinstance(op, Atomic) for op in walk(coarsen(m.kernel(2), 3).body)) == 3  # its old value is wanted
    for kind, dtype in (("max", float32), ("add", float16)):
        m = Make()
        m.atomic(kind, m.array(None, dtype=dtype), [m.tid(1)], m.const(1.0, dtype))
        assert sum(isinstance(op, Atomic) for op in walk(coarsen(m.kernel(2), 3).body)) == 3


@pytest.mark.parametrize("shape", [(70, 90, 40), (9, 300, 33), (2, 3, 5)], ids=str)
def test_gradients_of_a_batch_of_vectors(shape):
    """A layer of a network, by its weights, which the batch shares."""
    batch, n, k = shape
    a, x, ct = whole(n, k), whole(batch, k, seed=1), whole(batch, n, seed=2)
    call = wp.jax_kernel(matvec, launch_dims=n)
    layer = jax.vmap(lambda a, x: call(a, x, output_dims=n)[0], in_axes=(None, 0))
    by_weights, by_inputs = jax.jit(lambda a, x, ct: jax.vjp(layer, a, x)[1](ct))(a, x, ct)
    np.testing.assert_array_equal(by_weights, ct.T @ x)
    np.testing.assert_array_equal(by_inputs, ct @ a)


@pytest.mark.parametrize("shape", [(300, 40, 130), (64, 70, 256), (5, 3, 7)], ids=str)
def test_gradients_of_products_in_jax(shape):
    """On all threads, as JAX has them; a batch; and one that shares a factor."""
    n, k, columns = shape
    a, b, ct = whole(n, k), whole(k, columns, seed=1), whole(n, columns, seed=2)
    call = lambda a, b: wp.jax_kernel(naive, launch_dims=(n, columns))(a, b, output_dims=(n, columns))[0]  # noqa: E731
    found = jax.jit(lambda a, b, ct: jax.vjp(call, a, b)[1](ct))(a, b, ct)
    for got, right in zip(found, (ct @ b.T, a.T @ ct), strict=True):
        np.testing.assert_array_equal(got, right)
    for axes in ((0, 0), (None, 0), (0, None)):
        many = [jnp.stack([x, 2 * x, -x]) if axis == 0 else x for x, axis in zip((a, b), axes, strict=True)]
        ours, theirs = (
            jax.vjp(jax.vmap(f, in_axes=axes), *many)[1](jnp.stack([ct] * 3)) for f in (call, lambda a, b: a @ b)
        )
        for got, right in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(got, right)
