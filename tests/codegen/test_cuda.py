"""The CUDA printer on hand-built kernels: run on the host against the interpreter, and read as text."""

from __future__ import annotations

from pathlib import Path

import hostcuda
import numpy as np
import pytest
from devicecuda import run_device
from kernels_strategy import random_array, same_values, special_values

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cuda import print_cuda
from jaxwarp.codegen.cuda.expression import CPP_TYPES, Expr, apply_template, binary, literal, negate
from jaxwarp.errors import InternalError, KernelValueError, Loc
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import ATOMIC_KINDS, Param, Value
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import SCALARS, Scalar, bool_, float32, float64, int8, int32, int64, uint8, uint32, uint64


def check(kernel: Kernel, grid: tuple[int, ...], buffers: list[np.ndarray]) -> None:
    """Runs the text at both index widths and compares every buffer with the interpreter's, to the last bit."""
    verify(kernel)
    expected = [b.copy() for b in buffers]
    interpret(kernel, grid, expected)
    hostcuda.prepare_host([kernel])
    for bits in (32, 64):
        got = [b.copy() for b in buffers]
        hostcuda.run_host(kernel, grid, got, bits)
        for param, a, b in zip(kernel.params, got, expected, strict=True):
            assert same_values(a, b), f"{param.name}: got {a}, expected {b}\n{print_cuda(kernel, bits).source}"


def body_of(kernel: Kernel, **options) -> str:
    """The statements of the thread loop, without its indentation and without the line of the thread's index."""
    lines = print_cuda(kernel, **options).source.split("extern")[1].splitlines()
    start = next(i for i, line in enumerate(lines) if line.endswith("blockDim.x) {"))
    return "\n".join(line[8:] for line in lines[start + 2 : -2])


class Simple(Builder):
    """A builder with shorthands: `make["add"](a, b)`."""

    def __getitem__(self, row: str):
        return lambda *args, name="", dtype=None: self.call(ROWS[row], *args, name=name, dtype=dtype)


# Atomics

ATOMICS = [
    (kind, t)
    for kind in ATOMIC_KINDS
    for t in SCALARS
    if not (kind in ("and", "or", "xor") and t.is_float) and not (t is bool_ and kind in ("and", "or", "xor"))
]


def atomic_kernel(kind: str, t: Scalar, private: bool) -> Kernel:
    """old[i] = the old value of an atomic on x[k[i]], or on an array of the thread's own that starts as x[k[i]]."""
    make = Simple()
    x, k = Param("x", t, (None,)), Param("k", int32, (None,))
    value, new, old = Param("value", t, (None,)), Param("new", t, (None,)), Param("old", t, (None,))
    own = Param("own", t, (2,))
    i = make.tid(0, "i")
    at = [make.load(k, [i])]
    args = [make.load(value, [i])] + ([make.load(new, [i])] if kind == "cas" else [])
    if private:
        one = [make.const(1, int32)]
        make.store(own, one, make.load(x, at))
        make.store(old, [i], make.atomic(kind, own, one, *args))
        make.store(x, at, make.load(own, one))
    else:
        make.store(old, [i], make.atomic(kind, x, at, *args))
    kernel = make.finish(f"{kind}_{t.short}", 1, [x, k, value, new, old])
    return Kernel(kernel.name, 1, kernel.params, kernel.body, (own,)) if private else kernel


@pytest.fixture(scope="module")
def atomics() -> dict[tuple[str, Scalar, bool], Kernel]:
    kernels = {(kind, t, private): atomic_kernel(kind, t, private) for kind, t in ATOMICS for private in (False, True)}
    hostcuda.prepare_host(kernels.values())
    return kernels


@pytest.mark.parametrize("private", [False, True], ids=["shared", "private"])
@pytest.mark.parametrize(("kind", "t"), ATOMICS, ids=[f"{k}-{t.short}" for k, t in ATOMICS])
def test_atomics_of_every_type(kind: str, t: Scalar, private: bool, atomics):
    rng = np.random.default_rng(1)
    n = 64
    # Threads of a host run follow each other as the interpreter's do, so old values agree also where threads meet.
    k = np.arange(n, dtype=np.int32) if private else rng.integers(0, 7, n).astype(np.int32)
    x = random_array(rng, t, (n,))
    value = random_array(rng, t, (n,))
    value[::3] = x[k[::3]]  # so that compare-and-swap succeeds at times
    check(atomics[kind, t, private], (n,), [x, k, value, random_array(rng, t, (n,)), np.zeros(n, t.numpy)])


@pytest.mark.gpu
@pytest.mark.parametrize(("kind", "t"), ATOMICS, ids=[f"{k}-{t.short}" for k, t in ATOMICS])
def test_atomics_on_the_device(kind: str, t: Scalar, atomics):
    """All threads of a word at once; operations whose result does not depend on their order."""
    kernel = atomics[kind, t, False]
    rng = np.random.default_rng(2)
    n = 64
    ordered = kind in ("exch", "cas") or (kind == "add" and t.is_float)
    k = np.arange(n, dtype=np.int32) if ordered else rng.integers(0, 7, n).astype(np.int32)
    x, value = (random_array(rng, t, (n,)) for _ in range(2))
    value[::3] = x[k[::3]]
    if t.is_float:  # the minimum of NaN and others, or of 0 and -0, depends on their order
        value, x = (np.where((a != a) | (a == 0), a.dtype.type(1), a) for a in (value, x))
    buffers = [x, k, value, random_array(rng, t, (n,)), np.zeros(n, t.numpy)]
    expected = [b.copy() for b in buffers]
    interpret(kernel, (n,), expected)
    run_device(kernel, (n,), buffers)
    assert same_values(buffers[0], expected[0])
    assert not ordered or same_values(buffers[4], expected[4])


def test_atomic_on_bytes_leaves_the_neighbours_alone():
    x = np.arange(9, dtype=np.uint8)
    k = np.array([1, 6], np.int32)
    two = np.full(2, 250, np.uint8)
    hostcuda.run_host(atomic_kernel("add", uint8, False), (2,), [x, k, two, two, two.copy()])
    np.testing.assert_array_equal(x, [0, 251, 2, 3, 4, 5, 0, 7, 8])


def test_unused_old_values_are_not_kept():
    make = Simple()
    x = Param("x", float32, (None,))
    i = make.tid(0, "i")
    make.atomic("add", x, [i], make.const(1.0, float32))
    make.atomic("min", x, [i], make.const(2.0, float32))
    assert body_of(make.finish("k", 1, [x])) == "atomicAdd(&x[i], 1.0f);\natomic_min_f32(&x[i], 2.0f);"


# Constants


@pytest.mark.parametrize("t", SCALARS, ids=lambda t: t.short)
def test_constants_are_exact(t: Scalar):
    make = Simple()
    values = special_values(t)
    if t.is_float and not t.is_half:
        smallest = float(np.finfo(t.numpy).smallest_subnormal)
        values = (*values, float("inf"), float("-inf"), float("nan"), -0.0, smallest, 0.1, 1 / 3, 1e22)
    out = Param("out", t, (None,))
    for at, value in enumerate(values):
        make.store(out, [make.const(at, int32)], make.const(value, t))
    check(make.finish("constants", 1, [out]), (1,), [np.zeros(len(values), t.numpy)])


@pytest.mark.parametrize(
    ("value", "t", "text"),
    [
        (1.0, float32, "1.0f"),
        (0.1, float32, "0.1f"),
        (1e22, float64, "1e+22"),
        (-0.0, float32, "-0.0f"),
        (float("-inf"), float32, "-__int_as_float(0x7f800000)"),
        (-(2**31), int32, "-2147483647 - 1"),
        (-(2**63), int64, "-9223372036854775807LL - 1"),
        (2**64 - 1, uint64, "18446744073709551615ull"),
        (7, uint32, "7u"),
        (-3, int8, "(signed char)-3"),
        (True, bool_, "true"),
    ],
)
def test_literals(value, t: Scalar, text: str):
    assert literal(value, t).text == text


# Expressions


def test_parentheses_only_where_needed():
    a, b, c = (Expr(x) for x in "abc")
    total = binary("+", a, b)
    assert binary("*", total, c).text == "(a + b) * c"
    assert binary("+", total, c).text == "a + b + c"
    assert binary("-", c, total).text == "c - (a + b)"
    assert binary("-", c, Expr("-x", 12)).text == "c - -x"
    assert binary("&&", binary("<", a, b), binary("||", b, c)).text == "a < b && (b || c)"
    assert binary("||", binary("||", a, b), binary("&&", b, c)).text == "a || b || (b && c)"
    assert binary("&", binary("+", a, b), c).text == "(a + b) & c"
    assert negate(binary("<", a, b)).text == "!(a < b)"
    assert negate(negate(binary("<", a, b))).text == "a < b"


def test_templates_are_filled_with_parentheses_where_needed():
    sum_, product = binary("+", Expr("a"), Expr("b")), binary("*", Expr("a"), Expr("b"))
    assert apply_template("f({0}, {1})", [sum_, product]).text == "f(a + b, a * b)"
    assert apply_template("-{0}", [sum_]).text == "-(a + b)"
    assert apply_template("-{0}", [Expr("-x", 12)]).text == "-(-x)"
    assert apply_template("1.0f / sqrtf({0})", [sum_]).text == "1.0f / sqrtf(a + b)"
    assert binary("*", apply_template("1.0f / sqrtf({0})", [sum_]), Expr("c")).text == "1.0f / sqrtf(a + b) * c"
    assert binary("/", Expr("c"), apply_template("1.0f / sqrtf({0})", [sum_])).text == "c / (1.0f / sqrtf(a + b))"
    assert apply_template("(int){0}", [sum_]).text == "(int)(a + b)"
    assert apply_template("{0} != 0", [sum_]).text == "(a + b) != 0"
    assert apply_template("(int)({0} ^ {1})", [sum_, Expr("c")]).text == "(int)((a + b) ^ c)"


# Memory and order


def array(name: str, t: Scalar = float32, *shape: int | None) -> Param:
    return Param(name, t, shape or (None,))


def test_a_load_is_not_moved_past_a_store_to_its_array():
    make, x, y = Simple(), array("x"), array("y")
    i = make.tid(0, "i")
    before = make.load(x, [i])
    make.store(x, [i], make.const(5.0, float32))
    make.store(y, [i], make["add"](before, make.load(x, [i])))
    kernel = make.finish("order", 1, [x, y])
    check(kernel, (5,), [np.arange(5, dtype=np.float32), np.zeros(5, np.float32)])
    assert body_of(kernel) == "float x_1 = x[i];\nx[i] = 5.0f;\ny[i] = x_1 + x[i];"


def test_a_load_is_not_moved_past_an_atomic_or_into_a_loop():
    make, x, y = Simple(), array("x"), array("y")
    i = make.tid(0, "i")
    zero, three, one = (make.const(n, int32) for n in (0, 3, 1))
    before = make.load(x, [i])
    make.atomic("add", x, [i], make.const(5.0, float32))
    later = make["mul"](before, make.const(2.0, float32))

    def body(k: Value, s: Value):
        make.store(x, [i], s)
        return [make["add"](s, later)]

    (s,) = make.for_(zero, three, one, [make.load(x, [i])], body, ["k", "s"])
    make.store(y, [i], s)
    check(make.finish("order", 1, [x, y]), (5,), [np.arange(5, dtype=np.float32), np.zeros(5, np.float32)])


def test_long_expressions_are_split_into_locals():
    make, x, y = Simple(), array("a_rather_long_name"), array("y")
    i = make.tid(0, "i")
    total = make.load(x, [i])
    for _ in range(12):
        total = make["add"](make["mul"](total, make.load(x, [i])), make.const(0.125, float32))
    make.store(y, [i], total)
    kernel = make.finish("long", 1, [x, y])
    assert max(len(line) for line in body_of(kernel).splitlines()) <= 110
    check(kernel, (5,), [np.linspace(0, 1, 5, dtype=np.float32), np.zeros(5, np.float32)])


def test_index_arithmetic_is_plain_where_it_cannot_wrap():
    make, x, y = Simple(), array("x", int32), array("y", int32)
    i, one, big = make.tid(0, "i"), make.const(1, int32), make.const(2**31 - 1, int32)
    make.store(y, [i], make.load(x, [make["add"](i, one)]))
    make.store(y, [i], make["add"](make.load(x, [i]), big))
    make.store(y, [i], make["mod"](make.load(x, [i]), make.const(3, int32)))
    make.store(y, [i], make["mod"](make.load(x, [i]), i))
    kernel = make.finish("plain", 1, [x, y])
    assert body_of(kernel).splitlines() == [
        "y[i] = x[i + 1];",
        "y[i] = wrap_add(x[i], 2147483647);",
        "y[i] = x[i] % 3;",
        "y[i] = int_mod(x[i], i);",
    ]


def test_quotients_that_round_down_are_plain_where_nothing_is_negative():
    make, y = Simple(), Param("y", int32, (None, None))
    i, four = make.tid(0, "i"), make.const(4, int32)
    shifted = make["sub"](i, make.const(9, int32))
    quotients = [make["floordiv"](n, by) for n in (i, shifted) for by in (four, make.const(-4, int32))]
    quotients.append(make["add"](quotients[2], make.const(3, int32)))  # at least -3 + 3: an index that is not negative
    for column, quotient in enumerate(quotients):
        make.store(y, [i, make.const(column, int32)], quotient)
    kernel = make.finish("down", 1, [y])
    text = body_of(kernel)
    assert " = i / 4;" in text
    assert text.count("int_floordiv(") == 3
    check(kernel, (20,), [np.zeros((20, 5), np.int32)])


def test_strides_sizes_and_components():
    make = Simple()
    m, out = array("m", float32, None, None, None, 3), array("out", float32, None, 4)
    i, j = make.tid(0, "i"), make.tid(1, "j")
    two, one = make.const(2, int32), make.const(1, int32)
    n = make.size(m, 2)
    value = make.load(m, [one, i, make["sub"](n, one), two])
    make.store(out, [make["add"](i, make.const(0, int32)), j], value)
    kernel = make.finish("strides", 2, [m, out])
    assert print_cuda(kernel).geometry == ((0, 1), (0, 2), (-1, 1))
    assert print_cuda(kernel).source.splitlines()[1:-2] == [
        "strides(",
        "    const float *__restrict__ m,",
        "    float *__restrict__ out,",
        "    int m_size1,",
        "    int m_size2,",
        "    int grid_size1,",
        "    int thread_count)",
        "{",
        "    const int m_stride1 = m_size2 * 3;",
        "    const int m_stride0 = m_size1 * m_stride1;",
        "    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;",
        "         thread += gridDim.x * blockDim.x) {",
        "        int i = thread / grid_size1;",
        "        int j = thread % grid_size1;",
        "        out[(i + 0) * 4 + j] = m[m_stride0 + i * m_stride1 + (m_size2 - 1) * 3 + 2];",
    ]
    check(kernel, (3, 4), [np.arange(72, dtype=np.float32).reshape(2, 3, 4, 3), np.zeros((3, 4), np.float32)])
    assert "long long m_stride0" in print_cuda(kernel, 64).source


def test_an_array_of_the_threads_own():
    make, x = Simple(), array("x")
    own = Param("own", float32, (4, 2))
    i, zero, four, one = make.tid(0, "i"), *(make.const(n, int32) for n in (0, 4, 1))

    def fill(k: Value):
        make.store(own, [k, one], make["cast"](make["add"](k, i), dtype=float32))
        return []

    make.for_(zero, four, one, [], fill, ["k"])
    make.store(x, [i], make.load(own, [make["mod"](i, four), one]))
    made = make.finish("scratch", 1, [x])
    kernel = Kernel("scratch", 1, made.params, made.body, (own,))
    assert "float own[8];" in body_of(kernel)
    check(kernel, (9,), [np.zeros(9, np.float32)])


# Names


@pytest.mark.parametrize(
    "name",
    [
        "template",
        "float",
        "n",
        "__x",
        "α",
        "thread",
        "blockIdx",
        "sinf",
        "wrap_add",
        "i",
        "x_size1",
        "1st",
        "range_count",
    ],
)
def test_any_name_of_the_users_works(name: str):
    make = Simple()
    x, out = Param(name, int32, (None, None)), Param("out", int32, (None,))
    i = make.tid(0, name)
    # sinf and wrap_add are called while locals of these names are in scope.
    v = make["add"](make.load(x, [i, i], name=name), make.size(x, 1), name=name)
    f = make["sin"](make["cast"](v, dtype=float32))
    make.store(out, [i], make["add"](v, make["cast"](make["mul"](f, make.const(0.0, float32)), dtype=int32)))
    check(make.finish("k", 1, [x, out]), (3,), [np.arange(9, dtype=np.int32).reshape(3, 3), np.zeros(3, np.int32)])


@pytest.mark.parametrize(
    ("name", "symbol"),
    [("norm", "norm_kernel"), ("main", "main_kernel"), ("double", "double_kernel"), ("saxpy", "saxpy"),
     ("atomicAdd", "atomicAdd_kernel"), ("_private", "private_kernel"), ("<lambda>", "lambda_")],
)  # fmt: skip
def test_symbols(name: str, symbol: str):
    make, x = Simple(), array("x")
    make.store(x, [make.tid(0)], make.const(1.0, float32))
    kernel = make.finish(name, 1, [x])
    assert print_cuda(kernel).symbol == symbol
    check(kernel, (3,), [np.zeros(3, np.float32)])


# The text as a whole


def test_source_lines_are_known_and_can_be_comments():
    make, x, y = Simple(), array("x"), array("y")
    here = Loc(__file__, 1, 0, 1, 3)
    make.loc = here
    i = make.tid(0, "i")
    make.store(y, [i], make["add"](make.load(x, [i]), make.const(1.0, float32)))
    kernel = make.finish("located", 1, [x, y])
    code = print_cuda(kernel)
    lines = code.source.splitlines()
    assert len(lines) == len(code.lines)
    assert [line.strip() for line, loc in zip(lines, code.lines, strict=True) if loc is here] == ["y[i] = x[i] + 1.0f;"]
    first = Path(__file__).read_text().splitlines()[0]
    assert f"        // {first}\n        y[i] = x[i] + 1.0f;\n" in print_cuda(kernel, comments=True).source


def test_options_are_checked():
    make, x = Simple(), array("x")
    make.store(x, [make.tid(0)], make.const(1.0, float32))
    kernel = make.finish("k", 1, [x])
    assert "__launch_bounds__(64)" in print_cuda(kernel, options=CudaOptions(64)).source
    with pytest.raises(KernelValueError, match=r"^index_bits must be 32 or 64, got 16$"):
        print_cuda(kernel, index_bits=16)


def test_half_types_must_have_been_widened():
    half = next(t for t in SCALARS if t.short == "f16")
    make, x = Simple(), array("x", half)
    i = make.tid(0, "i")
    v = make.load(x, [i])
    make.store(x, [i], make["add"](v, v))
    kernel = make.finish("k", 1, [x])
    with pytest.raises(InternalError, match="half types are widened before printing"):
        print_cuda(kernel)
    assert "float16_to_float(x" in print_cuda(prepare(kernel)).source


def test_the_types_cover_the_language():
    assert set(CPP_TYPES) == {t.short for t in SCALARS}
