"""CPU code: arrays of vectors and matrices walked in order, transposed in registers, against the interpreter.

Also: that nothing before or behind an array is touched, and what the machine code has of shuffles.
"""

import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import cpushapes
import hypothesis
import numpy as np
import pytest
from cpukit import Make, floats
from cpushapes import MACHINES, main_body
from hypothesis import strategies as st
from kernels_strategy import same_values

import jaxwarp
from jaxwarp.codegen.cpu import compile_cpu, run_cpu
from jaxwarp.codegen.cpu.compile import compile_object
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.codegen.cpu.plan.width import choose_width
from jaxwarp.codegen.cpu.run import launch
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import bool_, float16, float32, float64, int32, int64, uint32

SHAPES = [(2,), (3,), (4,), (5,), (6,), (7,), (8,), (9,), (11,), (13,), (16,), (2, 2), (3, 3), (4, 4), (2, 3)]
# What code is shaped for; all of it runs here. Nothing is streamed, or all that may be.
KINDS = {
    "v2": Machine("", "", "+sse4.2", cache_bytes=1 << 40),
    "v3": Machine("", "", "+avx2", cache_bytes=1 << 40),
    "v3 streams": Machine("", "", "+avx2", cache_bytes=0),
    "v4": Machine("", "", "+avx2,+avx512f", cache_bytes=1 << 40),
    "v4 streams": Machine("", "", "+avx2,+avx512f", cache_bytes=0),
    "arm": Machine("aarch64-unknown-linux-gnu", "", "+neon", cache_bytes=1 << 40),
}


def data(param, shape, seed=0):
    if param.dtype is bool_:
        return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)
    return np.random.default_rng(seed).integers(0, 100, shape).astype(param.dtype.numpy)


def require_same(kernel, width, machine, launches):
    """Code leaves the buffers of each launch as the interpreter does."""
    code = compile_cpu(kernel, width, machine)
    for grid, buffers in launches:
        expected, got = ([np.array(b) for b in buffers] for _ in range(2))
        interpret(kernel, grid, expected)
        launch(code, kernel, grid, got)
        for param, right, ours in zip(kernel.params, expected, got, strict=True):
            assert same_values(right, ours), f"{grid}, {param.name}\n{right}\n{ours}\n{kernel}"


def combined(m, dtype, a, b):
    return m.op("logical_or" if dtype is bool_ else "add", a, b)


def lengths(width):
    return sorted({0, 1, 2, width - 1, width, width + 1, 2 * width + 3, 5 * width})


@st.composite
def walks(draw):
    """out[i, :] = some of a[i + shift, :], mixed; then, perhaps, a[i + shift, :] anew, read again into `again`."""
    inner = draw(st.sampled_from(SHAPES))
    dtype = draw(st.sampled_from([float32, float32, float64, float64, int32, uint32, int64, float16, bool_]))
    shift, step = draw(st.integers(0, 2)), draw(st.sampled_from([1, 1, 1, 2, -1]))
    rank = draw(st.sampled_from([1, 1, 2]))
    m = Make()
    a, out, again = (m.array(*[None] * rank, *inner, dtype=dtype) for _ in range(3))
    tids = [m.tid(axis) for axis in range(rank)]
    i = tids[-1]
    if step == -1:
        i = m.op("sub", m.op("sub", m.size(a, rank - 1), m.i(1 + 2 * shift)), i)
    elif step == 2:
        i = m.op("mul", i, m.i(2))
    at = [*tids[:-1], m.op("add", i, m.i(shift)) if shift else i]
    every = [tuple(map(m.i, c)) for c in np.ndindex(*inner)]
    chosen = draw(st.permutations(every))[: draw(st.integers(1, len(every)))]
    read = [m.load(a, [*at, *c]) for c in chosen]
    values = [combined(m, dtype, read[k % len(read)], read[(k + 1) % len(read)]) for k in range(len(every))]
    order = draw(st.sampled_from(["all", "shuffled", "some"]))
    pairs = list(zip(every, values, strict=True))
    pairs = draw(st.permutations(pairs)) if order == "shuffled" else pairs[: -1 if order == "some" else None]
    for c, value in pairs:
        m.store(out, [*tids, *c], value)
    if draw(st.booleans()):
        for c, value in pairs:
            m.store(a, [*at, *c], combined(m, dtype, value, value))
        for c in every:
            m.store(again, [*tids, *c], m.load(a, [*at, *c]))
    return m.kernel(rank), rank, inner, shift, abs(step)


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(walks(), st.sampled_from([2, 4, 8, 16, 32]), st.sampled_from(list(KINDS)))
def test_entries_walked_in_order(walk, width, kind):
    kernel, rank, inner, shift, step = walk
    launches = []
    for n in lengths(width)[1:]:
        outer = (3,) * (rank - 1)
        extent = n * step + 2 * shift
        shapes = [(*outer, extent, *inner), (*outer, n, *inner), (*outer, n, *inner)]
        buffers = [data(p, s, seed) for seed, (p, s) in enumerate(zip(kernel.params, shapes, strict=True))]
        launches.append(((*outer, n), buffers))
    require_same(prepare(kernel), width, KINDS[kind], launches)


def sums(inner, dtype, rank=1, shift=1):
    """out[i] = a[i + shift] + its components in reverse order"""
    m = Make()
    a, out = (m.array(*[None] * rank, *inner, dtype=dtype) for _ in range(2))
    tids = [m.tid(axis) for axis in range(rank)]
    every = [tuple(map(m.i, c)) for c in np.ndindex(*inner)]
    ahead = [*tids[:-1], m.op("add", tids[-1], m.i(shift)) if shift else tids[-1]]
    read = [m.load(a, [*ahead, *c]) for c in every]
    for c, x, y in zip(every, read, read[::-1], strict=True):
        m.store(out, [*tids, *c], m.op("add", x, y))
    return prepare(m.kernel(rank))


PROTECTED = """
import ctypes, itertools, mmap
import numpy as np
from test_cpu_interleaved import KINDS, sums
from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.codegen.cpu.compile import compile_object
from jaxwarp.codegen.cpu.run import launch
from jaxwarp.types import float32, float64

page, kept = mmap.PAGESIZE, []
libc = ctypes.CDLL(None, use_errno=True)

def placed(shape, dtype, at_end):
    "An array between pages that nobody may touch, next to the one behind it or the one before it."
    size = int(np.prod(shape)) * dtype.itemsize
    inside = max(1, -(-size // page)) * page
    memory = mmap.mmap(-1, inside + 2 * page)
    kept.append(memory)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for guard in (first, first + page + inside):
        assert libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
    offset = page + (inside - size if at_end else 0)
    return np.frombuffer(memory, np.uint8)[offset : offset + size].view(dtype).reshape(shape)

for shape, dtype in itertools.product(((2,), (3,), (4,), (6,), (7,), (3, 3), (4, 4)), (float32, float64)):
    kernel = sums(shape, dtype, shift=0)
    for width, kind in ((4, "v2"), (8, "v3")) if dtype is float32 else ((4, "v3"), (16, "v3 streams"), (8, "v4")):
        code = compile_cpu(kernel, width, KINDS[kind])
        for n, at_end in itertools.product((1, width, width + 1, 3 * width), (False, True)):
            print(shape, dtype, width, kind, n, at_end, flush=True)
            a, out = (placed((n, *shape), dtype.numpy, at_end) for _ in range(2))
            a[...] = np.arange(a.size).reshape(a.shape) % 97
            launch(code, kernel, (n,), [a, out])
            flat = a.reshape(n, -1)
            assert np.array_equal(out.reshape(n, -1), flat + flat[:, ::-1])
print("untouched")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protects pages as Linux does")
def test_nothing_outside_an_array_is_touched():
    """The arrays lie next to pages that can neither be read nor written; a process of its own, since it may die."""
    paths = [str(Path(jaxwarp.__file__).parent.parent), *map(str, Path(__file__).parents[:2]), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", PROTECTED], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    *_, last = done.stdout.splitlines()
    assert last == "untouched", (last, done.returncode, done.stderr[-2000:])


@pytest.mark.parametrize("kind", ["v3", "v4", "arm"])
@pytest.mark.parametrize("size", [3, 4, 6, 9])
def test_what_was_stored_is_read_again(size, kind):
    """Stored where only the data says that it is the same entry: in one block, in the iterations of a loop, in a
    branch."""
    m = Make()
    a, same, out, iterations = (
        m.array(None, size),
        m.array(None, dtype=int32),
        m.array(None, size),
        m.array(dtype=int32),
    )
    i = m.tid(0)
    entry, every = m.load(same, [i]), [m.i(c) for c in range(size)]

    def rotate(*_):
        read = [m.load(a, [i, c]) for c in every]
        for c, x, y in zip(every, read, [*read[1:], read[0]], strict=True):
            m.store(a, [entry, c], m.op("add", x, y))
        return ()

    rotate()
    rotate()
    first = m.load(a, [i, every[0]])
    m.for_(m.i(0), m.load(iterations, []), m.i(1), [], rotate)
    m.store(out, [i, every[1]], m.op("sub", first, m.load(a, [i, every[0]])))
    m.if_(m.op("lt", m.load(iterations, []), m.i(3)), rotate)
    for c in every[2:]:
        m.store(out, [i, c], m.load(a, [i, c]))
    numbers = np.arange(33, dtype=np.int32)
    launches = [
        ((n,), [floats(n, size), numbers[:n], np.zeros((n, size), "f"), np.full((), count, "i")])
        for n, count in ((1, 2), (19, 2), (33, 3))
    ]
    require_same(prepare(m.kernel()), 16, KINDS[kind], launches)


@pytest.mark.parametrize("inner", [(3,), (3, 3)], ids=str)
@pytest.mark.parametrize("columns", [1, 3, 8, 20])
def test_short_rows(inner, columns):
    """Two-dimensional launches whose rows are shorter than a vector, or little longer, cut anywhere."""
    kernel = sums(inner, float32, rank=2)
    a, out = floats(5, columns + 1, *inner), np.zeros((5, columns, *inner), np.float32)
    for width, kind in ((8, "v3"), (16, "v3 streams"), (16, "v4")):
        require_same(kernel, width, KINDS[kind], [((5, columns), [a, out])])
        expected, got = [a, out.copy()], [a, out.copy()]
        interpret(kernel, (5, columns), expected)
        tiles = [(0, 2, 0, columns), (2, 5, 0, columns // 2), (2, 5, columns // 2, columns)]
        run_cpu(kernel, (5, columns), got, width, tiles, KINDS[kind])
        assert np.array_equal(expected[1], got[1])


def test_what_is_left_of_a_row_is_scalar_where_entries_are_taken_apart():
    """No gathers under a mask, lane by lane; but loops, calls and sums still run in vectors there."""
    kernel = sums((3,), float32)
    rest = compile_cpu(kernel, 8, KINDS["v3"]).text.split("\npart")[1]
    assert "masked" not in rest
    assert "each." not in rest
    assert "<" not in rest
    m = Make()
    a, out, i = m.array(None, 3), m.array(None, 3), m.tid(0)
    (total,) = m.for_(m.i(0), m.i(9), m.i(1), [m.load(a, [i, m.i(0)])], lambda k, t: (m.op("exp", t),))
    m.store(out, [i, m.i(2)], total)
    assert "each.gather" in compile_cpu(prepare(m.kernel()), 8, KINDS["v3"]).text


# Machine code


@pytest.fixture(scope="module", autouse=True)
def _all_targets():
    cpushapes.initialize()


def product(shape, dtype):
    """out[i] = a[i] @ b[i], if sums were products and products sums: those would be fused where machines can."""
    m = Make()
    a, b, out = (m.array(None, *shape, dtype=dtype) for _ in range(3))
    i, numbers = m.tid(0), [m.i(k) for k in range(shape[0])]
    left, right = ([[m.load(x, [i, r, c]) for c in numbers] for r in numbers] for x in (a, b))
    for r, row in zip(numbers, left, strict=True):
        for c, column in zip(numbers, zip(*right, strict=True), strict=True):
            total = m.op("add", row[0], column[0])
            for x, y in zip(row[1:], column[1:], strict=True):
                total = m.op("mul", total, m.op("add", x, y))
            m.store(out, [i, r, c], total)
    return prepare(m.kernel())


def scaled(shape, dtype):
    """out[i] = (a[i] + 1.5) * b[i]"""
    m = Make()
    a, b, out = (m.array(None, *shape, dtype=dtype) for _ in range(3))
    i, numbers = m.tid(0), [m.i(k) for k in range(shape[0])]
    values = [m.op("mul", m.op("add", m.load(a, [i, c]), m.f(1.5, dtype)), m.load(b, [i, c])) for c in numbers]
    for c, value in zip(numbers, values, strict=True):
        m.store(out, [i, c], value)
    return prepare(m.kernel())


ENTRIES = {
    "vec2": (scaled, (2,), float32),
    "vec3": (scaled, (3,), float32),
    "vec4": (scaled, (4,), float32),
    "vec6": (scaled, (6,), float32),
    "mat33": (product, (3, 3), float32),
    "mat44": (product, (4, 4), float32),
    "vec3d": (scaled, (3,), float64),
    "mat22d": (product, (2, 2), float64),
    "mat33d": (product, (3, 3), float64),
}
ONE_LANE = r"v?(mov|mul|add|fmadd\d+)s[sd]|v?p?(insert|extract)(ps|[bdq])|v?pinsr\w|v?pextr\w"
SHUFFLE = r"vshufp[sd]|vunpck[lh]p[sd]|vmovlhps|vblendp[sd]|vpermilp[sd]|vpermp[sd]|vpermt2p[sd]|vpermpd"


@pytest.mark.parametrize("name", list(ENTRIES))
def test_shuffles_of_avx2(name):
    """Two shuffles a component of 32 bits, one of 64; nothing lane by lane."""
    make, shape, dtype = ENTRIES[name]
    size, each = math.prod(shape), 64 // dtype.bits
    code = main_body(make(shape, dtype), MACHINES["v3"])
    assert code.count(ONE_LANE) == 0
    assert code.count(r"v?p?(gather|scatter)\w+|call.*") == 0
    registers = code.width // (256 // dtype.bits)
    # The component that is left over of a matrix of 9 takes three. Where LLVM joins halves that are to be stored side
    # by side, half of that is a blend.
    most = registers * (3 * each * size + (2 if size == 9 else 0) + size // 2 + 1)
    assert registers * each * size <= code.count(SHUFFLE) <= most


def test_a_product_of_matrices_fits_its_registers():
    """Of 18 components that are wanted at once, a few wait in memory where there are 16 registers."""
    for machine, width, most, length in (("v3", 8, 36, 200), ("v4", 16, 16, 260)):
        code = main_body(product((3, 3), float32), MACHINES[machine])
        assert code.width == width
        spills = sum("(%rsp)" in operands for _, block in code.blocks for _, operands in block)
        assert spills <= most
        assert len(code.names("chunk")) <= length


@pytest.mark.parametrize("level", ["v2", "v4", "arm"])
@pytest.mark.parametrize("name", list(ENTRIES))
def test_other_machines_get_vector_code(level, name):
    """Elements are not moved one by one: components stay vectors."""
    make, shape, dtype = ENTRIES[name]
    kernel, machine = make(shape, dtype), MACHINES[level]
    code = compile_cpu(kernel, choose_width(kernel, machine), machine)
    text = compile_object(code.bitcode, machine, assembly=True).decode()
    main = re.split(r"(?:#|//) %chunk\n", text)[1].split("jle\t" if level != "arm" else "b.le\t")[0]
    assert re.search(r"mulp[sd]|fmul", main)
    assert not re.search(r"(add|mul)s[sd]\t|p?extr[qdp]|p?ins(ert|r)[qdp]|(ld1|st1)\t\{ v\d+\.[sd] \}", main)
    moved = len(re.findall(r"(?:mov|ins)\tv\d+\.[sd]\[", main))
    assert moved <= 2 * math.prod(shape) * (code.width * dtype.bits // 128)


def test_every_component_is_asked_for_alone():
    """One component of an entry costs what it takes, not what all take."""
    for size, component in itertools.product((3, 5, 9), (0, 2)):
        m = Make()
        a, out, i = m.array(None, size), m.array(None), m.tid(0)
        m.store(out, [i], m.load(a, [i, m.i(component)]))
        text = compile_cpu(prepare(m.kernel()), 8, KINDS["v3"]).text
        assert text.split("\nrest:")[0].count("load <4 x float>") <= 8


@pytest.mark.parametrize("size", [3, 4, 9])
def test_stores_in_any_order_are_joined(size):
    """As adjoints have them, the last component first; but not where one is stored twice and another one never."""
    for order in (range(size)[::-1], [*range(1, size), 0], [0, *range(size - 1)]):
        m = Make()
        a, out, i = m.array(None, size), m.array(None, size), m.tid(0)
        values = [m.load(a, [i, m.i(c)]) for c in range(size)]
        for number, c in enumerate(order):
            m.store(out, [i, m.i(c)], m.op("mul", values[c], values[number]))
        kernel = m.kernel()
        main = compile_cpu(kernel, 8, KINDS["v3"]).text.split("\nrest:")[0]
        assert ("scatter" in main) == (len(set(order)) < size)
        require_same(kernel, 8, KINDS["v3"], [((21,), [floats(21, size), np.zeros((21, size), np.float32)])])
