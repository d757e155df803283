"""The IR itself: builder, printer, verifier, digest, and the interpreter against answers written by hand."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernels_strategy import random_case

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.errors import InternalError, KernelTypeError, Loc
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import OutOfRangeError, StepLimitError, interpret, trip_counts
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Param, Size, Store, Tid, Value, While
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.ir.verify import verify
from jaxwarp.types import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint64,
)

ADD, MUL, LT = ROWS["add"], ROWS["mul"], ROWS["lt"]


def every_operation() -> Kernel:
    build = Builder()
    x, n, total = Param("x", float32, (None, 3)), Param("n", int32, ()), Param("total", int32, (4,))
    i = build.tid(0, "i")
    zero, one = build.const(0, int32), build.const(1, int32)
    width = build.size(x, 0, "width")
    value = build.load(x, [i, one], "v")
    stop = build.load(n, [])
    (double,) = build.for_(zero, stop, one, [value], lambda k, a: [build.call(ADD, a, a)], ["k", "v"])
    (count,) = build.while_([zero], lambda c: build.call(LT, c, width), lambda c: [build.call(ADD, c, one)], ["count"])
    build.if_(build.call(LT, i, one), list, lambda: (build.store(x, [i, zero], double), ())[1])
    build.atomic("add", total, [zero], count)
    return build.finish("everything", 1, [x, n, total])


def test_printed_text():
    assert str(every_operation()) == textwrap.dedent("""\
        kernel everything[1](@x: f32[?, 3], @n: i32[], @total: i32[4]) {
          %i: i32 = tid 0
          %1: i32 = 0
          %2: i32 = 1
          %width: i32 = size @x 0
          %v: f32 = load @x[%i, %2]
          %5: i32 = load @n[]
          for %k: i32 in range(%1, %5, %2) carry(%v.1: f32 = %v) {
            %9: f32 = add %v.1, %v.1
            yield %9
          } -> %v.2: f32
          while carry(%count: i32 = %1) {
            %12: bool = lt %count, %width
            yield %12
          } do (%count.1: i32) {
            %14: i32 = add %count.1, %2
            yield %14
          } -> %count.2: i32
          %15: bool = lt %i, %2
          if %15 {
          } else {
            store @x[%i, %1], %v.2
          }
          %16: i32 = atomic_add @total[%1], %count.2
        }
        """)


def test_size_of_a_static_extent_is_a_constant():
    build = Builder()
    param = Param("x", float32, (None, 3))
    build.size(param, 1)
    (op,) = build.finish("k", 1, [param]).body.ops
    assert isinstance(op, Const)
    assert op.value == 3


@pytest.mark.parametrize(
    ("given", "dtype", "kept"),
    [
        (300, uint8, 44),
        (-1, uint64, 2**64 - 1),
        (2**63, int64, -(2**63)),
        (0.1, float32, float(np.float32(0.1))),
        (0.1, float16, float(np.float16(0.1))),
        (3, float64, 3.0),
        (1e40, float32, math.inf),
    ],
)
def test_constants_are_brought_into_their_type(given, dtype, kept):
    build = Builder()
    build.const(given, dtype)
    (op,) = verify(build.finish("k", 1, [])).body.ops
    assert op.value == kept
    assert type(op.value) is type(kept)


def test_builder_wants_a_type_for_casts_only():
    build = Builder()
    one = build.const(1, int32)
    with pytest.raises(InternalError, match="builtin cast: result type None given, typed=True"):
        build.call(ROWS["cast"], one)
    with pytest.raises(InternalError, match="builtin add: result type int32 given, typed=False"):
        build.call(ADD, one, one, dtype=int32)


def test_operations_carry_the_location_at_their_start():
    build = Builder()
    build.loc = outer = Loc("f.py", 1, 0, 1, 1)
    inner = Loc("f.py", 2, 0, 2, 1)

    def branch() -> Sequence[Value]:
        build.loc = inner
        return [build.const(1, int32)]

    build.if_(build.const(True, bool_), branch, lambda: [build.const(2, int32)])
    _, branching = build.finish("k", 1, []).body.ops
    assert branching.loc is outer
    assert branching.then.ops[0].loc is inner
    assert build.loc is outer


# The digest


def renamed(kernel: Kernel) -> Kernel:
    """The same kernel with other value names, locations and identities."""

    class Rename(Rewriter):
        def define(self, values: Sequence[Value]) -> tuple[Value, ...]:
            new = tuple(Value(v.type, f"other_{v.name}") for v in values)
            self.values.update(zip(values, new, strict=True))
            return new

        def op(self, op: Op) -> None:
            self.copy(replace(op, loc=Loc("elsewhere.py", 7, 0, 7, 1)))

    return Rename().kernel(kernel)


def test_digest_ignores_names_and_places():
    kernel = every_operation()
    other = renamed(kernel)
    assert str(other) != str(kernel)
    assert other.digest == kernel.digest
    assert len(kernel.digest) == 64


@pytest.mark.parametrize("seed", range(20))
def test_digest_of_random_kernels_ignores_names(seed):
    kernel = random_case(seed).kernel
    assert renamed(kernel).digest == kernel.digest


def test_digest_tells_kernels_apart():
    def kernel(constant: Any, dtype: Any, name: str = "k", rank: int = 1, known: int | None = None) -> Kernel:
        build = Builder()
        out = Param("out", dtype, (known,))
        build.store(out, [build.tid(0)], build.const(constant, dtype))
        return build.finish(name, rank, [out])

    kernels = [
        kernel(1, int32), kernel(1, int64), kernel(2, int32), kernel(0.0, float32), kernel(-0.0, float32),
        kernel(math.nan, float32), kernel(1, int32, name="l"), kernel(1, int32, rank=2), kernel(1, int32, known=4),
    ]  # fmt: skip
    assert len({k.digest for k in kernels}) == len(kernels)
    assert kernel(1, int32).digest == kernels[0].digest


# The verifier: every rule, broken once


X = Param("x", float32, (None,))
N = Param("n", int32, (2,))
OTHER = Param("other", float32, ())


class Made:
    """Values of the types that the broken kernels need, with the operations that define them."""

    def __init__(self) -> None:
        self.i, self.f, self.b, self.big = Value(int32, "i"), Value(float32, "f"), Value(bool_, "b"), Value(int64, "l")
        self.ops: tuple[Op, ...] = (Const(self.i, 1), Const(self.f, 1.0), Const(self.b, True), Const(self.big, 1))


def fresh(dtype: Any) -> Value:
    return Value(dtype)


def block(*results: Value, params: tuple[Value, ...] = (), ops: tuple[Op, ...] = ()) -> Block:
    return Block(params, ops, results)


BROKEN: list[tuple[str, Callable[[Made], Op]]] = [
    ("1 is no f32", lambda m: Const(fresh(float32), 1)),
    ("1.0 is no i32", lambda m: Const(fresh(int32), 1.0)),
    ("1 is no bool", lambda m: Const(fresh(bool_), 1)),
    ("True is no i32", lambda m: Const(fresh(int32), True)),
    ("256 is no u8", lambda m: Const(fresh(uint8), 256)),
    ("0.1 is no f32", lambda m: Const(fresh(float32), 0.1)),
    ("0.1 is no bf16", lambda m: Const(fresh(bfloat16), 0.1)),
    ("grid axis 2", lambda m: Tid(fresh(int32), 2)),
    ("grid axis -1", lambda m: Tid(fresh(int32), -1)),
    ("a thread index is i32", lambda m: Tid(fresh(int64), 0)),
    ("other is not a parameter", lambda m: Size(fresh(int32), OTHER, 0)),
    ("axis 1 of x", lambda m: Size(fresh(int32), X, 1)),
    ("an extent is i32", lambda m: Size(fresh(int64), X, 0)),
    ("add gives i32", lambda m: Call(fresh(float32), ADD, (m.i, m.i))),
    ("lt gives bool", lambda m: Call(fresh(int32), LT, (m.i, m.i))),
    ("add: the operands have types int32 and float32", lambda m: Call(fresh(int32), ADD, (m.i, m.f))),
    ("add: expected 2 arguments, got 1", lambda m: Call(fresh(int32), ADD, (m.i,))),
    ("other is not a parameter of this kernel", lambda m: Load(fresh(float32), OTHER, ())),
    ("x has rank 1, got 2 indices", lambda m: Load(fresh(float32), X, (m.i, m.i))),
    ("indices must be i32 or i64", lambda m: Load(fresh(float32), X, (m.f,))),
    ("the result has the array's type", lambda m: Load(fresh(int32), X, (m.i,))),
    ("stores int32 in float32", lambda m: Store(X, (m.i,), m.i)),
    ("no atomic 'nand'", lambda m: Atomic(fresh(int32), "nand", N, (m.i,), (m.i,))),
    ("wrong number of arguments", lambda m: Atomic(fresh(int32), "add", N, (m.i,), (m.i, m.i))),
    ("wrong number of arguments", lambda m: Atomic(fresh(int32), "cas", N, (m.i,), (m.i,))),
    ("arguments and result have the array's type", lambda m: Atomic(fresh(float32), "add", N, (m.i,), (m.i,))),
    ("arguments and result have the array's type", lambda m: Atomic(fresh(int32), "add", N, (m.i,), (m.f,))),
    ("atomic 'xor' of a float", lambda m: Atomic(fresh(float32), "xor", X, (m.i,), (m.f,))),
    ("the condition is a bool", lambda m: If((), m.i, block(), block())),
    ("branches take no parameters", lambda m: If((), m.b, block(params=(fresh(int32),)), block())),
    ("a branch's results: types ['f32'], expected ['i32']",
     lambda m: If((fresh(int32),), m.b, block(m.i), block(m.f))),
    ("a branch's results: types [], expected ['i32']", lambda m: If((fresh(int32),), m.b, block(m.i), block())),
    ("the index is an integer", lambda m: For((), m.f, m.f, m.f, (), block(params=(fresh(float32),)))),
    ("bounds: types ['i32', 'i64', 'i32']", lambda m: For((), m.i, m.i, m.big, (), block(params=(fresh(int32),)))),
    ("carried values: types [], expected ['i32']",
     lambda m: For((fresh(int32),), m.i, m.i, m.i, (m.i,), block(m.i, params=(fresh(int32),)))),
    ("the body's results: types ['f32'], expected ['i32']",
     lambda m: For((fresh(int32),), m.i, m.i, m.i, (m.i,), block(m.f, params=(fresh(int32), fresh(int32))))),
    ("results: types [], expected ['i32']",
     lambda m: For((), m.i, m.i, m.i, (m.i,), block(m.i, params=(fresh(int32), fresh(int32))))),
    ("carried values: types ['f32'], expected ['i32']",
     lambda m: While((fresh(int32),), (m.i,), block(m.b, params=(fresh(float32),)),
                     block(m.i, params=(fresh(int32),)))),
    ("the condition yields one bool", lambda m: While((), (), block(m.i), block())),
    ("the condition yields one bool", lambda m: While((), (), block(), block())),
    ("is defined twice", lambda m: Const(m.i, 1)),
    ("which is not defined here", lambda m: Call(fresh(int32), ROWS["neg"], (fresh(int32),))),
    ("which is not defined in it", lambda m: If((fresh(int32),), m.b, block(fresh(int32)), block(m.i))),
    ("unknown operation", lambda m: Op()),
]  # fmt: skip


@pytest.mark.parametrize(("message", "broken"), BROKEN, ids=[f"{i}-{m}" for i, (m, _) in enumerate(BROKEN)])
def test_verifier_rejects(message, broken):
    made = Made()
    op = broken(made)
    with pytest.raises(InternalError) as raised:
        verify(Kernel("bad", 2, (X, N), block(ops=(*made.ops, op))))
    assert message in str(raised.value)
    assert "kernel bad" in str(raised.value)


def test_verifier_rejects_values_of_other_scopes():
    made, inner = Made(), fresh(int32)
    branch = If((), made.b, block(ops=(Const(inner, 1),)), block())
    use = Call(fresh(int32), ROWS["neg"], (inner,))
    with pytest.raises(InternalError, match="which is not defined here"):
        verify(Kernel("bad", 1, (), block(ops=(*made.ops, branch, use))))
    sibling = If((), made.b, block(ops=(Const(inner, 1),)), block(ops=(use,)))
    with pytest.raises(InternalError, match="which is not defined here"):
        verify(Kernel("bad", 1, (), block(ops=(*made.ops, sibling))))


def test_verifier_rejects_two_parameters_of_one_name():
    with pytest.raises(InternalError, match=r"parameters with one name: \['x', 'x'\]"):
        verify(Kernel("bad", 1, (X, Param("x", int32, ())), block()))


def test_verifier_names_the_line():
    where = Loc("user.py", 12, 0, 12, 3)
    with pytest.raises(InternalError, match=r"Const at user.py:12: 1 is no f32"):
        verify(Kernel("bad", 1, (), block(ops=(Const(fresh(float32), 1, loc=where),))))


# The interpreter


def launch(kernel: Kernel, grid: tuple[int, ...], *arrays: np.ndarray, **options: Any) -> list[np.ndarray]:
    buffers = [a.copy() for a in arrays]
    interpret(verify(kernel), grid, buffers, **options)
    return buffers


def test_every_operation_runs():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    x, _, total = launch(every_operation(), (2,), x, np.int32(3).reshape(()), np.zeros(4, np.int32))
    np.testing.assert_array_equal(x, [[0, 1, 2], [32, 4, 5]])
    np.testing.assert_array_equal(total, [4, 0, 0, 0])


def test_divergent_collatz():
    """Steps to 1, with a while, a branch and different trip counts per thread."""
    build = Builder()
    out = Param("out", int32, (None,))
    i = build.tid(0)
    one, two, three = (build.const(c, int32) for c in (1, 2, 3))

    def body(n: Value, steps: Value) -> list[Value]:
        odd = build.call(ROWS["eq"], build.call(ROWS["mod"], n, two), one)
        (after,) = build.if_(
            odd,
            lambda: [build.call(ADD, build.call(MUL, n, three), one)],
            lambda: [build.call(ROWS["div"], n, two)],
        )
        return [after, build.call(ADD, steps, one)]

    start = build.call(ADD, i, one)
    _, steps = build.while_([start, build.const(0, int32)], lambda n, s: build.call(ROWS["gt"], n, one), body)
    build.store(out, [i], steps)
    (got,) = launch(build.finish("collatz", 1, [out]), (40,), np.zeros(40, np.int32))

    def collatz(n: int) -> int:
        return 0 if n == 1 else 1 + collatz(3 * n + 1 if n % 2 else n // 2)

    assert got.tolist() == [collatz(n) for n in range(1, 41)]


@pytest.mark.parametrize("dtype", [int8, uint8, int32, int64, uint64])
def test_loops_are_pythons_range(dtype):
    limits = np.iinfo(dtype.numpy)
    values = sorted({int(limits.min), int(limits.min) + 1, 0, 1, 5, 6, int(limits.max) - 1, int(limits.max)})
    steps = [s for s in (1, 2, 3, 7, int(limits.max), int(limits.min), -1, -2, -5) if limits.min <= s and s]
    triples = [(a, b, s) for a in values for b in values for s in steps]
    counts = trip_counts(*(np.array(c, dtype.numpy) for c in zip(*triples, strict=True)))
    for triple, count in zip(triples, counts, strict=True):
        expected = range(*triple)
        # len() fails on ranges that do not fit a machine word.
        length = (expected[-1] - expected[0]) // expected.step + 1 if expected else 0
        assert count == length, triple
    zero = trip_counts(*(np.array([v], dtype.numpy) for v in (0, 5, 0)))
    assert zero.tolist() == [0]


def test_loop_indices_at_the_edge_of_the_type():
    build = Builder()
    out = Param("out", int64, ())
    bounds = (build.const(c, int8) for c in (125, 127, 1))

    def body(k: Value, total: Value) -> list[Value]:
        wide = build.call(ROWS["cast"], k, dtype=int64)
        return [build.call(ADD, build.call(MUL, total, build.const(1000, int64)), wide)]

    (total,) = build.for_(*bounds, [build.const(0, int64)], body)
    build.store(out, [], total)
    (got,) = launch(build.finish("k", 1, [out]), (1,), np.zeros((), np.int64))
    assert got == 125126


def atomic_kernel(kind: str, dtype: Any, count: int) -> Kernel:
    """Thread i applies (arguments i) to element index[i] of @x and keeps the old value."""
    build = Builder()
    index, x = Param("index", int32, (None,)), Param("x", dtype, (None,))
    args = [Param(f"a{n}", dtype, (None,)) for n in range(count)]
    old = Param("old", dtype, (None,))
    i = build.tid(0)
    values = [build.load(a, [i]) for a in args]
    build.store(old, [i], build.atomic(kind, x, [build.load(index, [i])], *values))
    return build.finish(f"atomic_{kind}", 1, [index, x, *args, old])


ATOMICS = [
    (kind, dtype)
    for kind in ("add", "min", "max", "exch", "cas", "and", "or", "xor")
    for dtype in (int32, uint8, float32, float16)
    if dtype.is_int or kind not in ("and", "or", "xor")
]


@pytest.mark.parametrize(("kind", "dtype"), ATOMICS, ids=[f"{k}-{t.short}" for k, t in ATOMICS])
def test_atomics_take_turns_in_thread_order(kind, dtype):
    rng = np.random.default_rng(0)
    count = 2 if kind == "cas" else 1
    index = rng.integers(0, 3, 20).astype(np.int32)
    x = rng.integers(0, 4, 3).astype(dtype.numpy)
    args = [rng.integers(0, 4, 20).astype(dtype.numpy) for _ in range(count)]
    _, got, *_, old = launch(atomic_kernel(kind, dtype, count), (20,), index, x, *args, np.zeros(20, dtype.numpy))
    expected, expected_old = x.copy(), []
    for at, *values in zip(index, *args, strict=True):
        before, value = expected[at], values[-1]
        expected_old.append(before)
        after = {
            "add": lambda a, v: a + v,
            "min": min,
            "max": max,
            "exch": lambda a, v: v,
            "cas": lambda a, v, first=values[0]: v if a == first else a,
            "and": lambda a, v: a & v,
            "or": lambda a, v: a | v,
            "xor": lambda a, v: a ^ v,
        }[kind](before, value)
        expected[at] = after
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(old, expected_old)


def test_cas_compares_representations():
    nan = np.float32(np.nan)
    for held, wanted, taken in ((nan, nan, True), (np.float32(0.0), np.float32(-0.0), False)):
        index, x = np.zeros(1, np.int32), np.array([held])
        kernel = atomic_kernel("cas", float32, 2)
        _, x, *_ = launch(kernel, (1,), index, x, np.array([wanted]), np.ones(1, np.float32), np.zeros(1, np.float32))
        assert (x[0] == 1) == taken


def test_the_last_of_several_stores_stays():
    build = Builder()
    out = Param("out", int32, (1,))
    build.store(out, [build.const(0, int32)], build.tid(0))
    assert launch(build.finish("k", 1, [out]), (100,), np.zeros(1, np.int32))[0].tolist() == [99]


def test_half_precision_rounds_after_each_operation():
    build = Builder()
    out = Param("out", float16, ())
    a = build.const(2048.0, float16)
    one = build.const(1.0, float16)
    build.store(out, [], build.call(ADD, build.call(ADD, a, one), one))
    assert launch(build.finish("k", 1, [out]), (1,), np.zeros((), np.float16))[0] == 2048


def test_an_index_out_of_range_names_thread_array_and_line():
    build = Builder()
    x = Param("x", float32, (None, 3))
    build.loc = Loc("user.py", 3, 0, 3, 9)
    i, j = build.tid(0), build.tid(1)
    build.store(x, [j, i], build.load(x, [j, i]))
    with pytest.raises(OutOfRangeError) as raised:
        launch(build.finish("shift", 2, [x]), (5, 2), np.zeros((2, 3), np.float32))
    assert isinstance(raised.value, IndexError)
    assert str(raised.value) == (
        "shift: thread (3, 0): index 3 of axis 1 of array x is out of range; its extent is 3\n  user.py:3"
    )


def test_negative_indices_are_out_of_range():
    build = Builder()
    x = Param("x", float32, (None,))
    build.load(x, [build.const(-1, int64)])
    with pytest.raises(OutOfRangeError, match="index -1 of axis 0 of array x"):
        launch(build.finish("k", 1, [x]), (1,), np.zeros(4, np.float32))


def test_step_limit():
    build = Builder()
    build.while_([], lambda: build.const(True, bool_), list)
    with pytest.raises(StepLimitError, match="the loop did not end within the steps allowed"):
        launch(build.finish("k", 1, []), (1,), max_steps=100)


@pytest.mark.parametrize(
    ("grid", "buffers", "message"),
    [
        ((1, 1), [np.zeros((2, 3), np.float32)], "expected a grid of 1 extents, got (1, 1)"),
        ((1,), [], "expected 1 buffers, got 0"),
        ((1,), [np.zeros((2, 3), np.float64)], "buffer x: expected float32 of shape (None, 3), got float64"),
        ((1,), [np.zeros((2, 4), np.float32)], "expected float32 of shape (None, 3), got float32 of shape (2, 4)"),
        ((1,), [np.zeros(3, np.float32)], "expected float32 of shape (None, 3), got float32 of shape (3,)"),
    ],
)
def test_arguments_that_do_not_fit(grid, buffers, message):
    kernel = Kernel("k", 1, (Param("x", float32, (None, 3)),), block())
    with pytest.raises(KernelTypeError) as raised:
        interpret(kernel, grid, buffers)
    assert message in str(raised.value)


def test_no_threads_touch_nothing():
    build = Builder()
    x = Param("x", float32, (1,))
    build.store(x, [build.const(7, int32)], build.const(1.0, float32))
    assert launch(build.finish("k", 2, [x]), (5, 0), np.zeros(1, np.float32))[0].tolist() == [0]
