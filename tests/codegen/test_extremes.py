"""Atomics of floats whose order does not matter: minima, maxima, sums of few digits; of NaN, infinities, zeros.

Of minima and maxima NaN is left out, and -0.0 is less than 0.0: the reference sorts. Sums are IEEE's. Every way in
which an element is updated has a kernel, and runs in the interpreter, as CPU code of all widths and cuts, and as CUDA
text on the host, with operands in several orders.
"""

from dataclasses import replace

import hostcuda
import numpy as np
import pytest
from cpukit import SHAPES, Make
from kernels_strategy import same_values

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.codegen.cpu.run import launch
from jaxwarp.codegen.cuda import nvrtc, print_cuda
from jaxwarp.codegen.cuda.compile import ptx
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.nodes import Param
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import bfloat16, bool_, float16, float32, float64, int32

KINDS = ("min", "max")
ALL = (*KINDS, "add")
FLOATS = (float16, bfloat16, float32, float64)
NAN, INF = float("nan"), float("inf")
# Operands, and what an element holds before.
HARD = [
    ([1.0, NAN, 2.0], 5.0), ([NAN, 1.0], NAN), ([NAN, NAN], NAN), ([NAN, NAN], 3.0), ([0.0, -0.0], 0.0),
    ([0.0, 0.0], -0.0), ([-0.0, 0.0, NAN], NAN), ([-0.0, -0.0], 0.0), ([INF, NAN], NAN), ([-INF, NAN, INF], 0.0),
    ([INF, INF], -INF), ([-NAN, 1.0, -0.0], -NAN), ([-1.0, -0.0], 0.0), ([0.125, -0.0, 0.0], 1.0),
    ([1.0, -1.0], -0.0), ([0.0], -0.0),
]  # fmt: skip


def extreme(kind, numbers):
    """By sorting: numbers first, then signs of zeros."""
    found = sorted((float(x) for x in numbers if x == x), key=lambda x: (x, np.copysign(1.0, x)))
    return NAN if not found else found[0 if kind == "min" else -1]


def left(kind, numbers):
    """What an element holds in the end."""
    if kind != "add":
        return extreme(kind, numbers)
    with np.errstate(invalid="ignore"):
        total = float(np.sum(np.array(numbers, np.float64)))
    # In no order is a sum -0.0, but of nothing else.
    return -0.0 if all(x == 0 and np.signbit(x) for x in numbers) else total + 0.0


def arrays(m, dtype):
    """Flags, indices, operands, results."""
    return tuple(m.array(None, dtype=t) for t in (bool_, int32, dtype, dtype))


def at_one(m, kind, dtype):
    """All threads at one element; some of them twice, under a mask."""
    flag, _, x, out = arrays(m, dtype)
    i, zero = m.tid(0), m.i(0)
    m.atomic(kind, out, [zero], m.load(x, [i]))
    m.if_(m.load(flag, [i]), lambda: (m.atomic(kind, out, [zero], m.load(x, [i])), ())[1])


def at_places_in_data(m, kind, dtype):
    """Which happen to be one."""
    _, where, x, out = arrays(m, dtype)
    i = m.tid(0)
    m.atomic(kind, out, [m.load(where, [i])], m.load(x, [i]))


def in_loop(m, kind, dtype):
    """Each thread goes over all operands: no element is another thread's."""
    _, _, x, out = arrays(m, dtype)
    i = m.tid(0)

    def body(k):
        m.atomic(kind, out, [i], m.load(x, [k]))
        return []

    m.for_(m.i(0), m.size(x, 0), m.i(1), [], body)


def of_its_own(m, kind, dtype):
    """In an array of the thread's own, at an index that is not known."""
    _, _, x, out = arrays(m, dtype)
    i, own = m.tid(0), Param("own", dtype, (2,))
    at = m.op("mod", i, m.i(2))
    m.store(own, [at], m.load(out, [i]))

    def body(k):
        m.atomic(kind, own, [at], m.load(x, [k]))
        return []

    m.for_(m.i(0), m.size(x, 0), m.i(1), [], body)
    m.store(out, [i], m.load(own, [at]))
    return (own,)


FORMS = [at_one, at_places_in_data, in_loop, of_its_own]


def made(form, kind, dtype):
    m = Make()
    own = form(m, kind, dtype) or ()
    kernel = m.finish(f"{form.__name__}_{kind}_{dtype.short}", 1, m.params)
    return prepare(verify(replace(kernel, locals=own)))


@pytest.fixture(scope="module")
def kernels():
    found = {(f, k, t): made(f, k, t) for f in FORMS for k in ALL for t in FLOATS}
    hostcuda.prepare_host(found.values(), (32,))
    return found


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_no_order_matters(form, kind, dtype, kernels):
    ways, rng = Ways(kernels[form, kind, dtype]), np.random.default_rng(5)
    sets = [*HARD, *((rng.choice([NAN, -NAN, 0.0, -0.0, 1.0, -2.0, INF, -INF], 37, p=p), start)
                     for p in ([0.9, 0.05, 0, 0, 0, 0.05, 0, 0], [0.2, 0.1, 0.3, 0.4, 0, 0, 0, 0], [1 / 8] * 8)
                     for start in (NAN, -0.0, INF))]  # fmt: skip
    for operands, start in sets:
        x = np.array(operands, dtype.numpy)
        for order in (np.arange(len(x)), np.arange(len(x))[::-1])[: 2 if len(x) < 5 else 1]:
            count = 1 if form in (at_one, at_places_in_data) else len(x)
            flags, places = rng.random(len(x)) < 0.5, np.zeros(len(x), np.int32)
            buffers = [flags, places, x[order], np.full(count, start, dtype.numpy)]
            twice = x[order][flags] if form is at_one else x[:0]
            numbers = np.concatenate([x, twice, [np.array(start, dtype.numpy)]]).astype(np.float64)
            expected = np.array(left(kind, numbers)).astype(dtype.numpy)
            for got in ways.results((len(x),), buffers):
                assert same_values(got, np.broadcast_to(expected, got.shape)), (operands, start, order, got)


class Ways:
    """Every way to run a kernel, whose code is made once."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.by_width = {width: compile_cpu(kernel, width, SHAPES[width]) for width in (1, 8, 16)}
        self.cuda = print_cuda(kernel)

    def results(self, grid, buffers):
        """What each leaves in the last buffer."""
        copies = lambda: [b.copy() for b in buffers]  # noqa: E731
        ours = copies()
        interpret(self.kernel, grid, ours)
        yield ours[-1]
        half = grid[0] // 2
        for width, tiles in ((1, None), (8, None), (16, None), (8, [(0, 1, half, grid[0]), (0, 1, 0, half)])):
            ours = copies()
            launch(self.by_width[width], self.kernel, grid, ours, tiles)
            yield ours[-1]
        for block, threads in ((32, None), (7, 14), (1, None)):
            ours = copies()
            hostcuda.run_code(self.kernel, self.cuda, grid, ours, threads, block)
            yield ours[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_threads_touches_memory_once(kind):
    """One exchange a row, where one a thread was; and on the CPU none where the element is the thread's."""
    one = compile_cpu(made(at_one, kind, float32), 8).text
    assert one.count("cmpxchg") == 2  # one for each of the two atomics
    assert "cmpxchg" not in compile_cpu(made(in_loop, kind, float32), 8).text


def test_rows_of_the_table_know_the_rule():
    for kind in KINDS:
        for a, b in ((1.0, NAN), (NAN, 1.0), (NAN, NAN), (0.0, -0.0), (-0.0, 0.0), (2.0, 1.0), (-0.0, NAN)):
            for dtype in (float32, float64):
                got = ROWS[f"{kind}_number"].ref(*(np.array(x, dtype.numpy) for x in (a, b)))
                assert same_values(np.asarray(got), np.array(extreme(kind, [a, b]), dtype.numpy))


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
@pytest.mark.parametrize("kind", KINDS)
def test_gpus_have_an_instruction(kind):
    text = ptx(made(in_loop, kind, float32), 90)
    assert f"{kind}.f32" in text
    assert "setp.lt.f32" not in text and "setp.gt.f32" not in text  # noqa: PT018
