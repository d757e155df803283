"""Each pass on small kernels: the text before and after, and what must stay as it is."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from counting import calls_of

from jaxwarp.analysis.effects import analyze
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.errors import InternalError, Loc
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, For, Load, Param, Store, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.ir.verify import verify
from jaxwarp.passes.contract_fma import contract_fma
from jaxwarp.passes.launches.batch import batch
from jaxwarp.passes.pipeline import prepare
from jaxwarp.passes.simplify import simplify
from jaxwarp.passes.widen_half import widen_half
from jaxwarp.types import (
    Scalar,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)  # fmt: skip


class Make:
    """A kernel on one thread axis with arrays x (read), y (written) and n (i32, read), and short names for building."""

    def __init__(self, dtype: Scalar = float32, grid_rank: int = 1):
        self.build = Builder()
        self.dtype = dtype
        self.x = Param("x", dtype, (None,))
        self.y = Param("y", dtype, (None,))
        self.n = Param("n", int32, ())
        self.rank = grid_rank
        self.i = self.build.tid(0, "i")

    def __getattr__(self, row: str) -> Callable[..., Value]:
        return lambda *args, **options: self.build.call(ROWS[row.rstrip("_")], *args, **options)

    def const(self, value: Any, dtype: Scalar | None = None) -> Value:
        return self.build.const(value, dtype or self.dtype)

    def load(self, name: str = "a") -> Value:
        return self.build.load(self.x, [self.i], name)

    def count(self) -> Value:
        return self.build.load(self.n, [], "n")

    def store(self, value: Value) -> None:
        self.build.store(self.y, [self.i], value)

    def kernel(self) -> Kernel:
        return verify(self.build.finish("k", self.rank, [self.x, self.y, self.n]))


def after(change: Callable[[Kernel], Kernel], kernel: Kernel) -> str:
    """The body's text after a pass, checked."""
    lines = str(verify(change(kernel))).splitlines()
    return textwrap.dedent("\n".join(lines[1:-1])) + "\n"


def text(expected: str) -> str:
    return textwrap.dedent(expected).lstrip("\n")


# The identities of simplify


def outcome(dtype: Scalar, expression: Callable[[Make, Value], Value], result: Scalar | None = None) -> str:
    """What the stored value is after simplification: a constant, "a" for the loaded value, or a row's name."""
    make = Make(dtype)
    value = expression(make, make.load())
    out = Param("out", value.type, (None,))
    make.build.store(out, [make.i], value)
    kernel = verify(simplify(verify(make.build.finish("k", 1, [make.x, make.y, make.n, out]))))
    definitions = {v: op for op in walk(kernel.body) for v in op.defined}
    (store,) = [op for op in walk(kernel.body) if isinstance(op, Store)]
    op = definitions[store.value]
    return "a" if isinstance(op, Load) else op.builtin.name if isinstance(op, Call) else repr(op.value)


@pytest.mark.parametrize(
    ("dtype", "expression", "expected"),
    [
        (int32, lambda m, a: m.add(a, m.const(0)), "a"),
        (int32, lambda m, a: m.add(m.const(0), a), "a"),
        (int32, lambda m, a: m.sub(a, m.const(0)), "a"),
        (int32, lambda m, a: m.sub(m.const(0), a), "sub"),
        (int32, lambda m, a: m.sub(a, a), "0"),
        (int32, lambda m, a: m.mul(a, m.const(1)), "a"),
        (int32, lambda m, a: m.mul(m.const(0), a), "0"),
        (int32, lambda m, a: m.div(a, m.const(1)), "a"),
        (int32, lambda m, a: m.div(a, a), "div"),
        (int32, lambda m, a: m.floordiv(a, m.const(1)), "a"),
        (int32, lambda m, a: m.mod(a, m.const(1)), "0"),
        (int32, lambda m, a: m.bit_and(a, m.const(-1)), "a"),
        (uint8, lambda m, a: m.bit_and(a, m.const(255)), "a"),
        (uint8, lambda m, a: m.bit_and(a, m.const(127)), "bit_and"),
        (int32, lambda m, a: m.bit_or(a, a), "a"),
        (int32, lambda m, a: m.bit_xor(a, a), "0"),
        (int32, lambda m, a: m.shl(a, m.const(0)), "a"),
        (int32, lambda m, a: m.shl(m.const(0), a), "shl"),
        (int32, lambda m, a: m.neg(m.neg(a)), "a"),
        (int32, lambda m, a: m.bit_not(m.bit_not(a)), "a"),
        (int32, lambda m, a: m.abs(m.abs(a)), "abs"),
        (int32, lambda m, a: m.eq(a, a), "True"),
        (int32, lambda m, a: m.ne(a, a), "False"),
        (float32, lambda m, a: m.eq(a, a), "eq"),
        (float32, lambda m, a: m.ne(a, a), "ne"),
        (float32, lambda m, a: m.lt(a, a), "False"),
        (float32, lambda m, a: m.le(a, a), "le"),
        (float32, lambda m, a: m.add(a, m.const(-0.0)), "a"),
        (float32, lambda m, a: m.add(a, m.const(0.0)), "add"),
        (float32, lambda m, a: m.sub(a, m.const(0.0)), "a"),
        (float32, lambda m, a: m.sub(a, m.const(-0.0)), "sub"),
        (float32, lambda m, a: m.sub(a, a), "sub"),
        (float32, lambda m, a: m.mul(a, m.const(1.0)), "a"),
        (float32, lambda m, a: m.mul(a, m.const(0.0)), "mul"),
        (float32, lambda m, a: m.div(a, m.const(1.0)), "a"),
        (float32, lambda m, a: m.div(a, m.const(8.0)), "mul"),
        (float32, lambda m, a: m.div(a, m.const(3.0)), "div"),
        (float32, lambda m, a: m.div(a, m.const(2.0**127)), "div"),
        (float32, lambda m, a: m.div(a, m.const(2.0**-149)), "div"),
        (float64, lambda m, a: m.div(a, m.const(2.0**127)), "mul"),
        (bfloat16, lambda m, a: m.div(a, m.const(2.0**100)), "div"),
        (bfloat16, lambda m, a: m.div(a, m.const(4.0)), "mul"),
        (float32, lambda m, a: m.div(a, m.const(math.inf)), "div"),
        (float32, lambda m, a: m.neg(m.neg(a)), "a"),
        (float32, lambda m, a: m.min(a, a), "a"),
        (bool_, lambda m, a: m.logical_not(m.logical_not(a)), "a"),
        (bool_, lambda m, a: m.logical_and(a, m.const(True)), "a"),
        (bool_, lambda m, a: m.logical_and(m.const(False), a), "False"),
        (bool_, lambda m, a: m.logical_or(a, m.const(True)), "True"),
        (bool_, lambda m, a: m.logical_or(a, a), "a"),
        (bool_, lambda m, a: m.select(a, m.const(True), m.const(False)), "a"),
        (bool_, lambda m, a: m.select(a, m.const(False), m.const(True)), "logical_not"),
        (bool_, lambda m, a: m.select(a, m.const(2, int32), m.const(2, int32)), "2"),
        (float32, lambda m, a: m.select(m.const(False, bool_), m.const(1.0), a), "a"),
        (int8, lambda m, a: m.cast(m.cast(a, dtype=int32), dtype=int8), "a"),
        (int8, lambda m, a: m.cast(m.cast(a, dtype=uint8), dtype=int8), "a"),
        (int32, lambda m, a: m.cast(m.cast(a, dtype=int8), dtype=int32), "cast"),
        (int32, lambda m, a: m.cast(m.cast(a, dtype=float32), dtype=int32), "cast"),
        (int32, lambda m, a: m.cast(m.cast(a, dtype=float64), dtype=int32), "a"),
        (int64, lambda m, a: m.cast(m.cast(a, dtype=float64), dtype=int64), "cast"),
        (int16, lambda m, a: m.cast(m.cast(a, dtype=bfloat16), dtype=int16), "cast"),
        (float16, lambda m, a: m.cast(m.cast(a, dtype=float32), dtype=float16), "a"),
        (float32, lambda m, a: m.cast(m.cast(a, dtype=float16), dtype=float32), "cast"),
        (float16, lambda m, a: m.cast(m.cast(a, dtype=bfloat16), dtype=float16), "cast"),
        (bool_, lambda m, a: m.cast(m.cast(a, dtype=float16), dtype=bool_), "a"),
        (uint32, lambda m, a: m.cast(m.cast(a, dtype=bool_), dtype=uint32), "cast"),
    ],
)  # fmt: skip
def test_identities(dtype, expression, expected):
    assert outcome(dtype, expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda m: m.add(m.const(2**31 - 1, int32), m.const(1, int32)), repr(-(2**31))),
        (lambda m: m.div(m.const(-7, int32), m.const(2, int32)), "-3"),
        (lambda m: m.div(m.const(7, int32), m.const(0, int32)), "0"),
        (lambda m: m.shl(m.const(1, int32), m.const(32, int32)), "0"),
        (lambda m: m.sub(m.const(0, uint64), m.const(1, uint64)), str(2**64 - 1)),
        (lambda m: m.add(m.const(2048.0, float16), m.const(1.0, float16)), "2048.0"),
        (lambda m: m.mul(m.const(-1.0, float32), m.const(0.0, float32)), "-0.0"),
        (lambda m: m.div(m.const(1.0, float32), m.const(0.0, float32)), "inf"),
        (lambda m: m.cast(m.const(300.0, float32), dtype=uint8), "255"),
        (lambda m: m.lt(m.const(1, int32), m.const(2, int32)), "True"),
        (lambda m: m.sqrt(m.const(4.0, float64)), "2.0"),
        (lambda m: m.div(m.const(0.0, float32), m.const(0.0, float32)), "div"),
        (lambda m: m.bitcast(m.const(0x7FC00001, int32), dtype=float32), "bitcast"),
    ],
)
def test_constants_are_folded_but_not_to_nan(expression, expected):
    assert outcome(float32, lambda make, _: expression(make)) == expected


def test_equal_computations_are_shared():
    make = Make()
    a, b = make.load("a"), make.load("b")
    make.store(make.add(make.mul(a, b), make.mul(b, a)))
    assert after(simplify, make.kernel()) == text("""
        %i: i32 = tid 0
        %a: f32 = load @x[%i]
        %2: f32 = mul %a, %a
        %3: f32 = add %2, %2
        store @y[%i], %3
        """)


def test_a_store_is_remembered_and_outdates_loads_of_its_array():
    make = Make()
    first = make.build.load(make.y, [make.i], "first")
    other = make.build.load(make.x, [make.i], "other")
    make.store(make.neg(other))
    second = make.build.load(make.y, [make.i], "second")
    make.store(make.add(make.add(first, second), make.build.load(make.x, [make.i])))
    assert after(simplify, make.kernel()) == text("""
        %i: i32 = tid 0
        %first: f32 = load @y[%i]
        %other: f32 = load @x[%i]
        %3: f32 = neg %other
        store @y[%i], %3
        %4: f32 = add %first, %3
        %5: f32 = add %4, %other
        store @y[%i], %5
        """)


@pytest.mark.parametrize("where", ["then", "orelse", "loop", "atomic", "elsewhere"])
def test_loads_are_not_shared_across_a_possible_write(where):
    make = Make()
    zero = make.const(0, int32)
    element = make.build.load(make.y, [zero])

    def write() -> tuple[()]:
        make.build.store(make.y, [make.i], make.load())
        return ()

    match where:
        case "then":
            make.build.if_(make.lt(make.i, zero), write)
        case "orelse":
            make.build.if_(make.lt(make.i, zero), lambda: (), write)
        case "loop":
            make.build.for_(zero, make.count(), make.const(1, int32), [], lambda k: write())
        case "atomic":
            make.build.atomic("add", make.y, [make.i], element)
        case "elsewhere":
            make.build.store(make.y, [make.i], element)
    make.store(make.add(element, make.build.load(make.y, [zero])))
    loads = [op for op in walk(simplify(make.kernel()).body) if isinstance(op, Load) and op.param is make.y]
    assert len(loads) == 2


def test_a_loop_that_writes_loads_again_in_each_iteration():
    make = Make()
    zero, one = make.const(0, int32), make.const(1, int32)
    before = make.build.load(make.y, [zero])
    make.store(before)

    def body(k: Value) -> tuple[()]:
        make.store(make.add(make.build.load(make.y, [zero]), before))
        return ()

    make.build.for_(zero, make.count(), one, [], body)
    simplified = simplify(make.kernel())
    (loop,) = [op for op in simplified.body.ops if isinstance(op, For)]
    assert [type(op) for op in loop.body.ops] == [Load, Call, Store]


def test_branches_know_their_condition():
    make = Make(bool_)
    a, b = make.load("a"), make.build.load(make.y, [make.i], "b")
    both = make.logical_and(a, make.logical_not(b))
    (result,) = make.build.if_(
        both,
        lambda: [make.logical_or(make.logical_and(b, both), make.logical_not(a))],
        lambda: make.build.if_(both, lambda: [a], lambda: [make.logical_and(b, a)]),
    )
    make.store(result)
    assert after(simplify, make.kernel()) == text("""
        %i: i32 = tid 0
        %a: bool = load @x[%i]
        %b: bool = load @y[%i]
        %3: bool = logical_not %b
        %4: bool = logical_and %a, %3
        %5: bool = False
        %6: bool = if %4 {
          yield %5
        } else {
          %7: bool = logical_and %b, %a
          yield %7
        }
        store @y[%i], %6
        """)


def test_what_a_branch_knows_ends_with_it():
    make = Make(bool_)
    a = make.load("a")
    make.build.if_(a, lambda: (make.store(make.logical_not(a)), ())[1])
    make.store(a)
    assert after(simplify, make.kernel()).splitlines()[-1] == "store @y[%i], %a"


def test_a_branch_on_a_constant_is_taken():
    make = Make()
    a = make.load()
    (result,) = make.build.if_(
        make.lt(make.const(1), make.const(2)), lambda: [make.neg(a)], lambda: (make.store(a), [a])[1]
    )
    make.store(result)
    assert after(simplify, make.kernel()) == text("""
        %i: i32 = tid 0
        %a: f32 = load @x[%i]
        %2: f32 = neg %a
        store @y[%i], %2
        """)


def test_loops_lose_what_does_not_change():
    make = Make()
    a = make.load()
    zero, one = make.const(0, int32), make.const(1, int32)

    def body(k: Value, total: Value, same: Value, unused: Value) -> list[Value]:
        return [make.add(total, make.mul(same, a)), same, make.mul(unused, a)]

    total, same, _ = make.build.for_(zero, make.count(), one, [a, a, a], body, ["k", "total", "same", "unused"])
    make.store(make.add(total, same))
    assert after(simplify, make.kernel()) == text("""
        %i: i32 = tid 0
        %a: f32 = load @x[%i]
        %2: i32 = 0
        %3: i32 = 1
        %n: i32 = load @n[]
        %5: f32 = mul %a, %a
        for %k: i32 in range(%2, %n, %3) carry(%total: f32 = %a) {
          %9: f32 = add %total, %5
          yield %9
        } -> %total.1: f32
        %10: f32 = add %total.1, %a
        store @y[%i], %10
        """)


def test_loops_move_out_what_is_pure_but_no_loads_and_not_out_of_branches():
    make = Make()
    a, n = make.load(), make.count()
    zero, one = make.const(0, int32), make.const(1, int32)

    def inner(k: Value, j: Value) -> tuple[()]:
        make.store(make.mul(a, a))
        make.build.store(make.y, [j], make.build.load(make.x, [one]))
        make.build.if_(make.lt(j, n), lambda: (make.store(make.add(a, a)), ())[1])
        return ()

    make.build.for_(zero, n, one, [], lambda k: (make.build.for_(zero, k, one, [], lambda j: inner(k, j)), ())[1])
    kernel = simplify(make.kernel())
    (outer,) = [op for op in kernel.body.ops if isinstance(op, For)]
    names = [op.builtin.name for op in kernel.body.ops if isinstance(op, Call)]
    assert names == ["mul"]
    (inside,) = outer.body.ops
    assert isinstance(inside, For)
    assert [op.builtin.name for op in inside.body.ops if isinstance(op, Call)] == ["lt"]
    assert sum(isinstance(op, Load) for op in inside.body.ops) == 1


def test_loops_that_do_not_run_go():
    make = Make()
    a, zero, one = make.load(), make.const(0, int32), make.const(1, int32)
    (b,) = make.build.for_(zero, zero, one, [a], lambda k, c: [make.neg(c)])
    (c,) = make.build.while_([b], lambda c: make.const(False, bool_), lambda c: [make.neg(c)])
    make.store(c)
    assert after(simplify, make.kernel()) == text("""
        %i: i32 = tid 0
        %a: f32 = load @x[%i]
        store @y[%i], %a
        """)


def test_a_condition_with_an_effect_stays():
    make = Make()
    a = make.load()

    def condition() -> Value:
        make.build.atomic("add", make.y, [make.i], a)
        return make.const(False, bool_)

    make.build.while_([], condition, list)
    assert any(isinstance(op, Atomic) for op in walk(simplify(make.kernel()).body))


def test_what_is_unused_goes():
    make = Make()
    a, zero, one = make.load(), make.const(0, int32), make.const(1, int32)
    make.build.while_([a], lambda c: make.const(True, bool_), lambda c: [make.neg(c)])
    make.build.for_(zero, make.count(), one, [a], lambda k, c: [make.neg(c)])
    make.build.if_(make.lt(a, make.const(1)), lambda: [make.load()], lambda: [a])
    assert after(simplify, make.kernel()) == "\n"


def test_local_arrays_that_nobody_reads_go():
    make = Make()
    zero = make.const(0, int32)
    unread, read = Param("unread", float32, (2,)), Param("read", float32, (2,))
    for local in (unread, read):
        make.build.store(local, [zero], make.neg(make.load()))
    make.store(make.build.load(read, [make.bit_and(make.i, make.const(1, int32))]))
    built = make.build.finish("k", 1, [make.x, make.y, make.n])
    kernel = Kernel(built.name, built.grid_rank, built.params, built.body, (unread, read))
    simplified = verify(simplify(verify(kernel)))
    assert simplified.locals == (read,)
    assert {op.param for op in walk(simplified.body) if isinstance(op, Store)} == {read, make.y}


# contract_fma


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda m, a, b, c: m.add(m.mul(a, b), c), "%3: f32 = fma %a, %b, %c"),
        (lambda m, a, b, c: m.add(c, m.mul(a, b)), "%3: f32 = fma %a, %b, %c"),
        (lambda m, a, b, c: m.sub(m.mul(a, b), c), "%3: f32 = neg %c\n%4: f32 = fma %a, %b, %3"),
        (lambda m, a, b, c: m.sub(c, m.mul(a, b)), "%3: f32 = neg %a\n%4: f32 = fma %3, %b, %c"),
        (lambda m, a, b, c: m.add(m.neg(m.mul(a, b)), c), "%3: f32 = neg %a\n%4: f32 = fma %3, %b, %c"),
        (lambda m, a, b, c: m.sub(c, m.neg(m.mul(a, b))), "%3: f32 = fma %a, %b, %c"),
        (lambda m, a, b, c: m.sub(m.mul(a, b), m.neg(c)), "%3: f32 = fma %a, %b, %c"),
        (lambda m, a, b, c: m.add(m.mul(a, b), m.mul(b, c)), "%3: f32 = mul %b, %c\n%4: f32 = fma %a, %b, %3"),
        (lambda m, a, b, c: m.add(a, b), "%2: f32 = add %a, %b"),
        (lambda m, a, b, c: m.add((p := m.mul(a, b)), p),
         "%2: f32 = mul %a, %b\n%3: f32 = add %2, %2"),
    ],
)  # fmt: skip
def test_products_are_contracted(expression, expected):
    build, make = Builder(), Make()
    make.build = build
    arrays = [Param(n, float32, ()) for n in "abc"]
    values = [build.load(p, [], p.name) for p in arrays]
    out = Param("out", float32, ())
    build.store(out, [], expression(make, *values))
    kernel = verify(build.finish("k", 1, [*arrays, out]))
    lines = after(contract_fma, kernel).splitlines()
    kept = [line for line in lines if "load" not in line and "store" not in line]
    assert "\n".join(kept) == expected


@pytest.mark.parametrize(("dtype", "contracted"), [(float64, True), (int32, False), (float16, False)])
def test_only_float32_and_float64_are_contracted(dtype, contracted):
    make = Make(dtype)
    a = make.load()
    make.store(make.add(make.mul(a, a), a))
    names = [op.builtin.name for op in walk(prepare(make.kernel()).body) if isinstance(op, Call)]
    assert ("fma" in names) == contracted
    assert "fma" not in [op.builtin.name for op in walk(prepare(make.kernel(), fma=False).body) if isinstance(op, Call)]


def test_fma_rounds_once():
    make = Make(float64)
    a = make.load()
    make.store(make.sub(make.mul(a, a), make.const(1.0)))
    results = []
    for fma in (True, False):
        x, y = np.full(1, 1 + 2.0**-30), np.zeros(1)
        interpret(prepare(make.kernel(), fma=fma), (1,), [x, y, np.zeros((), np.int32)])
        results.append(y[0])
    assert results == [2.0**-29 + 2.0**-60, 2.0**-29]


# widen_half


def test_half_arithmetic_is_widened():
    make = Make(bfloat16)
    a = make.load()
    total = make.add(a, make.const(1.5))
    (result,) = make.build.if_(make.lt(total, a), lambda: [total], lambda: [a])
    make.store(result)
    assert after(widen_half, make.kernel()) == text("""
        %i: i32 = tid 0
        %a: bf16 = load @x[%i]
        %2: bf16 = 0x1.8000000000000p+0
        %3: f32 = cast %a
        %4: f32 = cast %2
        %5: f32 = add %3, %4
        %6: bf16 = cast %5
        %7: f32 = cast %6
        %8: f32 = cast %a
        %9: bool = lt %7, %8
        %10: bf16 = if %9 {
          yield %6
        } else {
          yield %a
        }
        store @y[%i], %10
        """)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda t: t.short)
def test_prepared_kernels_have_half_values_only_where_they_are_stored_or_converted(dtype):
    make = Make(dtype)
    a = make.load()
    b = make.select(make.lt(a, make.const(2)), make.min(a, make.const(1)), make.sqrt(make.neg(a)))
    make.store(make.build.atomic("max", make.y, [make.i], b))
    kernel = verify(prepare(make.kernel()))
    for op in walk(kernel.body):
        if isinstance(op, Call) and op.builtin.name != "cast":
            assert not any(v.type.is_half for v in (op.result, *op.args))
    (atomic,) = [op for op in walk(kernel.body) if isinstance(op, Atomic)]
    assert atomic.result.type is dtype


# batch


def test_batching_adds_a_grid_axis_and_array_axes():
    make = Make(grid_rank=1)
    rows = make.build.size(make.x, 0, "rows")
    k = make.add(rows, make.build.size(make.y, 0, "out_rows"))
    (b,) = make.build.if_(make.lt(k, make.count()), lambda: [make.load()], lambda: [make.const(0.0)])
    make.build.atomic("add", make.y, [make.i], b)
    assert str(verify(batch(make.kernel(), (1, 0, None)))) == text("""
        kernel k[2](@x: f32[?, ?], @y: f32[?, ?], @n: i32[]) {
          %item: i32 = tid 0
          %i: i32 = tid 1
          %rows: i32 = size @x 0
          %out_rows: i32 = size @y 1
          %4: i32 = add %rows, %out_rows
          %n: i32 = load @n[]
          %6: bool = lt %4, %n
          %7: f32 = if %6 {
            %a: f32 = load @x[%i, %item]
            yield %a
          } else {
            %9: f32 = 0x0.0p+0
            yield %9
          }
          %10: f32 = atomic_add @y[%item, %i], %7
        }
        """)


def test_batch_of_a_known_size_and_what_it_refuses():
    make = Make()
    make.store(make.load())
    kernel = make.kernel()
    assert batch(kernel, (0, None, None), size=5).params[0].shape == (5, None)
    assert batch(kernel, (0, 0, None)).digest != batch(kernel, (0, 1, None)).digest != kernel.digest
    with pytest.raises(InternalError, match="2 axes for 3 parameters"):
        batch(kernel, (0, 0))
    with pytest.raises(InternalError, match="axis 2 of x, which has rank 1"):
        batch(kernel, (2, None, None))


# rewrite


def test_a_fresh_copy_shares_no_value():
    make = Make()
    a, zero, one = make.load(), make.const(0, int32), make.const(1, int32)
    (b,) = make.build.for_(zero, make.count(), one, [a], lambda k, c: [make.add(c, a)])
    make.build.if_(make.lt(a, b), lambda: (make.store(b), ())[1])
    kernel = make.kernel()
    copy = verify(Rewriter(fresh=True).kernel(kernel))
    assert copy.digest == kernel.digest
    old = {v for op in walk(kernel.body) for v in op.defined}
    assert old.isdisjoint(v for op in walk(copy.body) for v in op.defined)
    assert Rewriter().kernel(kernel).body is kernel.body


def test_prepare_takes_linear_time():
    def long(count: int) -> Kernel:
        make = Make()
        values = [make.load()]
        for k in range(count // 4):
            values.append(make.add(values[-1], make.mul(values[k // 2], make.const(float(k)))))
            make.build.if_(make.lt(values[-1], values[0]), lambda: (make.store(values[-1]), ())[1])
        make.store(values[-1])
        return make.kernel()

    kernels = [long(count) for count in (1000, 4000)]
    calls = [calls_of(partial(prepare, kernel)) for kernel in kernels]
    assert calls[1] < 5 * calls[0], calls


# effects


WHERE = [Loc("user.py", line, 0, line, 1) for line in range(1, 9)]


def test_reads_writes_and_atomics_are_told_apart():
    make = Make()
    a = make.load()
    make.build.loc = WHERE[4]
    make.store(a)
    make.build.loc = WHERE[5]
    make.build.atomic("add", make.y, [make.i], a)
    make.build.loc = WHERE[6]
    make.build.if_(make.lt(a, a), lambda: (make.build.atomic("add", make.n, [], make.i), ())[1])
    effects = analyze(make.kernel())
    x, y, n = (effects[p] for p in (make.x, make.y, make.n))
    assert (x.reads, x.writes, x.accumulates, x.modifies, x.first_write) == (True, False, False, False, None)
    assert (y.reads, y.writes, y.accumulates, y.modifies, y.first_write) == (False, True, True, True, WHERE[4])
    assert (n.reads, n.writes, n.accumulates, n.modifies, n.first_write) == (False, False, True, True, WHERE[6])


class Symbol:
    """Stands for a dimension known by name only."""


ROW, COLUMN = Symbol(), Symbol()
Body = Callable[[Builder, Param, list[Value]], Any]


def c(build: Builder, value: int) -> Value:
    return build.const(value, int32)


def op(build: Builder, row: str, *args: Value, **options: Any) -> Value:
    return build.call(ROWS[row], *args, **options)


def store(build: Builder, out: Param, *indices: Value) -> Store:
    build.store(out, indices, build.const(1.0, float32))
    return build._open[-1][-1]  # type: ignore[return-value]


def in_loop(build: Builder, start: int, stop: int, step: int, body: Callable[[Value], Any]) -> None:
    build.for_(c(build, start), c(build, stop), c(build, step), [], lambda k: (body(k), ())[1])


def below(build: Builder, index: Value, out: Param, axis: int) -> Value:
    return op(build, "lt", index, build.size(out, axis))


def guard(build: Builder, condition: Value, then: Callable[[], Any] | None, orelse: Callable[[], Any] | None = None):
    def run(body: Callable[[], Any] | None) -> Callable[[], Sequence[Value]]:
        return lambda: (body() if body else None, ())[1]

    build.if_(condition, run(then), run(orelse))


def cast(build: Builder, value: Value, dtype: Scalar) -> Value:
    return op(build, "cast", value, dtype=dtype)


def strided(b: Builder, index: Value, factor: int, shift: int, more: Value | None = None) -> Value:
    total = op(b, "add", op(b, "mul", index, c(b, factor)), c(b, shift))
    return total if more is None else op(b, "add", total, more)


COVERED: list[tuple[Sequence[Any], Sequence[Any], Body]] = [
    ((4,), (4,), lambda b, o, t: store(b, o, t[0])),
    ((4, 5), (5, 4), lambda b, o, t: store(b, o, t[1], t[0])),
    ((4,), (4,), lambda b, o, t: store(b, o, cast(b, t[0], int64))),
    ((4,), (4,), lambda b, o, t: store(b, o, op(b, "sub", c(b, 3), t[0]))),
    ((4,), (4,), lambda b, o, t: store(b, o, op(b, "sub", op(b, "sub", b.size(o, 0), c(b, 1)), t[0]))),
    ((4, 1), (4, 1), lambda b, o, t: store(b, o, t[0], c(b, 0))),
    ((4, 1), (4, 1), lambda b, o, t: store(b, o, t[0], t[1])),
    ((4,), (4, 2), lambda b, o, t: [store(b, o, t[0], c(b, k)) for k in (1, 0)]),
    ((4,), (4, 2, 2), lambda b, o, t: [store(b, o, t[0], c(b, j), c(b, k)) for k in (1, 0) for j in (1, 0)]),
    ((4,), (9, 4), lambda b, o, t: in_loop(b, 0, 9, 1, lambda k: store(b, o, k, t[0]))),
    ((4,), (9, 4), lambda b, o, t: in_loop(b, 8, -1, -1, lambda k: store(b, o, k, t[0]))),
    ((4,), (5, 4), lambda b, o, t: in_loop(
        b, 0, 10, 2, lambda k: store(b, o, op(b, "sub", k, op(b, "mul", c(b, 1), k)), t[0])) or
        in_loop(b, 0, 5, 1, lambda k: store(b, o, k, t[0]))),
    ((3, 4), (12,), lambda b, o, t: store(b, o, op(b, "add", op(b, "mul", t[0], c(b, 4)), t[1]))),
    ((3, 4), (12,), lambda b, o, t: store(b, o, op(b, "add", op(b, "mul", c(b, 3), t[1]), t[0]))),
    ((4,), (8,), lambda b, o, t: in_loop(
        b, 0, 8, 4, lambda k: store(b, o, op(b, "add", k, t[0])))),
    # Components
    ((4,), (8,), lambda b, o, t: [store(b, o, strided(b, t[0], 2, k)) for k in (1, 0)]),
    ((4,), (8,), lambda b, o, t: [store(b, o, strided(b, t[0], -2, k)) for k in (6, 7)]),
    ((2, 3), (18, 2), lambda b, o, t: [store(b, o, strided(b, strided(b, t[0], 3, 0, t[1]), 3, k), c(b, j))
                                       for k in range(3) for j in range(2)]),
    ((8,), (8,), lambda b, o, t: [guard(b, op(b, "lt", t[0], c(b, 4)), lambda k=k: store(b, o, strided(b, t[0], 2, k)))
                                  for k in range(2)]),
    ((ROW,), (ROW,), lambda b, o, t: store(b, o, t[0])),
    ((ROW,), (ROW,), lambda b, o, t: store(b, o, op(b, "sub", op(b, "add", t[0], c(b, 1)), c(b, 1)))),
    ((ROW, 3), (3, ROW), lambda b, o, t: store(b, o, t[1], t[0])),
    ((ROW,), (ROW, 2), lambda b, o, t: [store(b, o, t[0], c(b, k)) for k in (0, 1)]),
    ((0,), (0,), lambda b, o, t: store(b, o, t[0])),
    ((4,), (0,), lambda b, o, t: None),
    # Guards
    ((4,), (4,), lambda b, o, t: guard(b, below(b, t[0], o, 0), lambda: store(b, o, t[0]))),
    ((4,), (4,), lambda b, o, t: guard(b, op(b, "lt", t[0], c(b, 9)), lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, below(b, t[0], o, 0), lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, op(b, "gt", b.size(o, 0), t[0]), lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, op(b, "le", t[0], c(b, 4)), lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, op(b, "ge", c(b, 4), t[0]), lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, op(b, "ge", t[0], b.size(o, 0)), None, lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(
        b, op(b, "logical_not", op(b, "lt", t[0], c(b, 5))), None, lambda: store(b, o, t[0]))),
    ((8, 8), (5, 7), lambda b, o, t: guard(
        b, op(b, "logical_and", below(b, t[0], o, 0), below(b, t[1], o, 1)), lambda: store(b, o, t[0], t[1]))),
    ((8, 8), (7, 5), lambda b, o, t: guard(b, op(b, "logical_or", op(b, "ge", t[1], b.size(o, 0)),
        op(b, "ge", t[0], b.size(o, 1))), None, lambda: store(b, o, t[1], t[0]))),
    ((8, 8), (5, 7), lambda b, o, t: guard(b, below(b, t[0], o, 0), lambda: guard(
        b, below(b, t[1], o, 1), lambda: store(b, o, t[0], t[1])))),
    ((8,), (3,), lambda b, o, t: guard(b, op(b, "lt", t[0], c(b, 5)), lambda: guard(
        b, below(b, t[0], o, 0), lambda: store(b, o, t[0])))),
    ((8,), (6,), lambda b, o, t: guard(b, op(b, "lt", op(b, "mul", t[0], c(b, 2)), c(b, 11)), lambda:
        store(b, o, t[0]))),
    ((8,), (2, 3), lambda b, o, t: guard(b, op(b, "lt", t[0], c(b, 2)), lambda: in_loop(b, 0, 9, 1, lambda k:
        guard(b, op(b, "lt", k, c(b, 3)), lambda: store(b, o, t[0], k))))),
    ((8, 4), (12,), lambda b, o, t: guard(b, op(b, "lt", t[0], c(b, 3)), lambda: store(
        b, o, op(b, "add", op(b, "mul", t[0], c(b, 4)), t[1])))),
    ((8,), (5,), lambda b, o, t: guard(b, below(b, t[0], o, 0), lambda: guard(
        b, op(b, "eq", t[0], c(b, 2)), lambda: store(b, o, t[0]), lambda: store(b, o, t[0])))),
    ((5,), (5,), lambda b, o, t: guard(
        b, op(b, "lt", t[0], c(b, 2)), lambda: store(b, o, t[0]), lambda: store(b, o, t[0]))),
    ((ROW,), (ROW,), lambda b, o, t: guard(b, below(b, t[0], o, 0), lambda: store(b, o, t[0]))),
    ((ROW,), (ROW,), lambda b, o, t: guard(
        b, op(b, "ge", t[0], b.size(o, 0)), None, lambda: store(b, o, t[0]))),
]  # fmt: skip

NOT_COVERED: list[tuple[Sequence[Any], Sequence[Any], Body]] = [
    ((4,), (5,), lambda b, o, t: store(b, o, t[0])),
    ((5,), (4,), lambda b, o, t: store(b, o, t[0])),
    ((0,), (4,), lambda b, o, t: store(b, o, t[0])),
    ((4,), (4,), lambda b, o, t: store(b, o, op(b, "add", t[0], c(b, 1)))),
    ((4,), (4,), lambda b, o, t: store(b, o, op(b, "mul", t[0], c(b, 2)))),
    ((4, 4), (4, 4), lambda b, o, t: store(b, o, t[0], t[0])),
    ((4,), (4,), lambda b, o, t: b.while_([], lambda: b.const(True, bool_), lambda: (store(b, o, t[0]), ())[1])),
    ((4,), (4, 2), lambda b, o, t: store(b, o, t[0], c(b, 0))),
    ((4,), (4, 2), lambda b, o, t: [store(b, o, t[0], c(b, 0)), store(b, o, t[0], c(b, 0))]),
    ((4,), (9, 4), lambda b, o, t: in_loop(b, 0, 8, 1, lambda k: store(b, o, k, t[0]))),
    ((4,), (9, 4), lambda b, o, t: in_loop(b, 0, 9, 2, lambda k: store(b, o, k, t[0]))),
    ((4,), (4,), lambda b, o, t: in_loop(b, 0, 0, 1, lambda k: store(b, o, t[0]))),
    ((3, 4), (12,), lambda b, o, t: store(b, o, op(b, "add", op(b, "mul", t[0], c(b, 3)), t[1]))),
    ((4,), (8,), lambda b, o, t: [store(b, o, strided(b, t[0], 2, k)) for k in (0, 2)]),
    ((4,), (8,), lambda b, o, t: store(b, o, strided(b, t[0], 2, 1))),
    ((4,), (9,), lambda b, o, t: [store(b, o, strided(b, t[0], 2, k)) for k in (0, 1)]),
    ((4,), (12,), lambda b, o, t: [store(b, o, strided(b, t[0], 3, k)) for k in (0, 1)]),
    ((4,), (8,), lambda b, o, t: [store(b, o, strided(b, t[0], 2, k)) for k in (-1, 0)]),
    ((2, 3), (12,), lambda b, o, t: [store(b, o, strided(b, strided(b, t[0], 2, 0, t[1]), 2, k)) for k in (0, 1)]),
    ((4,), (4,), lambda b, o, t: (store(b, o, t[0]), b.load(o, [t[0]]))),
    ((4,), (4,), lambda b, o, t: (store(b, o, t[0]), b.atomic("add", o, [t[0]], b.const(1.0, float32)))),
    ((300,), (300,), lambda b, o, t: store(b, o, cast(b, cast(b, t[0], int8), int32))),
    ((ROW,), (COLUMN,), lambda b, o, t: store(b, o, t[0])),
    ((ROW,), (4,), lambda b, o, t: store(b, o, t[0])),
    ((None,), (None,), lambda b, o, t: store(b, o, t[0])),
    ((ROW, COLUMN), (ROW,), lambda b, o, t: store(b, o, t[0])),
    ((ROW,), (2,), lambda b, o, t: [store(b, o, c(b, k)) for k in (0, 1)]),
    ((ROW,), (ROW,), lambda b, o, t: store(b, o, op(b, "sub", op(b, "add", t[0], c(b, 2)), c(b, 2)))),
    # Guards
    ((4,), (5,), lambda b, o, t: guard(b, below(b, t[0], o, 0), lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, op(b, "lt", t[0], c(b, 4)), lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, op(b, "lt", t[0], c(b, 6)), lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, op(b, "gt", t[0], c(b, 4)), lambda: store(b, o, t[0]))),
    ((5,), (5,), lambda b, o, t: guard(b, op(b, "gt", t[0], c(b, 0)), lambda: store(b, o, t[0]))),
    ((5,), (5,), lambda b, o, t: guard(b, op(b, "eq", t[0], c(b, 2)), lambda: store(b, o, t[0]))),
    ((5,), (5,), lambda b, o, t: guard(b, op(b, "lt", t[0], c(b, 0)), lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, below(b, t[0], o, 0), None, lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, op(b, "logical_or", below(b, t[0], o, 0), op(b, "eq", t[0], c(b, 7))),
        lambda: store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, op(b, "logical_and", op(b, "lt", t[0], c(b, 5)),
        op(b, "ne", t[0], c(b, 2))), lambda: store(b, o, t[0]))),
    ((8, 8), (5, 5), lambda b, o, t: guard(b, below(b, t[0], o, 0), lambda: store(b, o, t[0], t[1]))),
    ((8, 8), (5, 5), lambda b, o, t: guard(b, op(b, "lt", op(b, "add", t[0], t[1]), c(b, 10)), lambda:
        store(b, o, t[0], t[1]))),
    ((8,), (5,), lambda b, o, t: guard(b, op(b, "lt", op(b, "mul", t[0], c(b, 2)), c(b, 7)), lambda:
        store(b, o, t[0]))),
    ((8,), (5,), lambda b, o, t: guard(b, op(b, "lt", op(b, "sub", c(b, 7), t[0]), c(b, 5)), lambda:
        store(b, o, t[0]))),
    ((5,), (5,), lambda b, o, t: guard(b, op(b, "lt", t[0], c(b, 2)), lambda: store(b, o, t[0]), lambda:
        store(b, o, op(b, "sub", c(b, 4), t[0])))),
    ((5,), (5,), lambda b, o, t: guard(b, op(b, "eq", t[0], c(b, 2)), lambda: store(b, o, t[0]), lambda:
        guard(b, op(b, "eq", t[0], c(b, 3)), lambda: store(b, o, t[0])))),
    ((300,), (200,), lambda b, o, t: guard(b, op(b, "lt", cast(b, cast(b, t[0], int8), int32), b.size(o, 0)), lambda:
        store(b, o, t[0]))),
    ((ROW,), (5,), lambda b, o, t: guard(b, below(b, t[0], o, 0), lambda: store(b, o, t[0]))),
    ((ROW,), (COLUMN,), lambda b, o, t: guard(b, below(b, t[0], o, 0), lambda: store(b, o, t[0]))),
    ((ROW,), (ROW,), lambda b, o, t: guard(b, op(b, "lt", op(b, "add", t[0], c(b, 1)), b.size(o, 0)), lambda:
        store(b, o, t[0]))),
]  # fmt: skip


def covers(grid: Sequence[Any], shape: Sequence[Any], body: Body) -> bool:
    build = Builder()
    out = Param("out", float32, (None,) * len(shape))
    body(build, out, [build.tid(axis) for axis in range(len(grid))])
    kernel = verify(build.finish("k", len(grid), [out]))
    proved = analyze(kernel).covers(out, grid, shape)
    concrete = {ROW: 3, COLUMN: 2, None: 3}
    sizes = [tuple(concrete.get(n, n) for n in extents) for extents in (grid, shape)]  # type: ignore[call-overload]
    if proved and math.prod(sizes[0]):
        buffer = np.zeros(sizes[1], np.float32)
        interpret(kernel, sizes[0], [buffer])
        assert buffer.all()
    return proved


@pytest.mark.parametrize(("grid", "shape", "body"), COVERED)
def test_covered(grid, shape, body):
    assert covers(grid, shape, body)


@pytest.mark.parametrize(("grid", "shape", "body"), NOT_COVERED)
def test_not_covered(grid, shape, body):
    assert not covers(grid, shape, body)


Index = Callable[[Builder, list[Value]], Sequence[Value]]
INJECTIVE: list[tuple[Sequence[Any], Index, bool]] = [
    ((8,), lambda b, t: [t[0]], True),
    ((8,), lambda b, t: [op(b, "add", op(b, "mul", t[0], c(b, 3)), c(b, 5))], True),
    ((8,), lambda b, t: [op(b, "sub", c(b, 100), t[0])], True),
    ((8,), lambda b, t: [c(b, 0)], False),
    ((1,), lambda b, t: [c(b, 0)], True),
    ((8, 4), lambda b, t: [t[0]], False),
    ((8, 1), lambda b, t: [t[0]], True),
    ((8, 4), lambda b, t: [op(b, "add", op(b, "mul", t[0], c(b, 4)), t[1])], True),
    ((8, 4), lambda b, t: [op(b, "add", op(b, "mul", t[0], c(b, 3)), t[1])], False),
    ((8, 4), lambda b, t: [t[1], op(b, "add", t[0], t[1])], True),
    ((8, 4), lambda b, t: [op(b, "add", t[0], t[1]), op(b, "sub", t[0], t[1])], False),
    ((8,), lambda b, t: [op(b, "div", t[0], c(b, 2))], False),
    ((8,), lambda b, t: [op(b, "mul", t[0], t[0])], False),
    ((300,), lambda b, t: [cast(b, cast(b, t[0], uint8), int32)], False),
    ((200,), lambda b, t: [cast(b, cast(b, t[0], uint8), int32)], True),
    ((8,), lambda b, t: [op(b, "mul", t[0], c(b, 2**30))], False),
    ((ROW,), lambda b, t: [t[0]], True),
    ((ROW, 3), lambda b, t: [t[0], t[1]], True),
    ((None,), lambda b, t: [op(b, "mul", t[0], c(b, 2))], False),
    ((8,), lambda b, t: [b.load(Param("n", int32, ()), [])], False),
]  # fmt: skip


@pytest.mark.parametrize(("grid", "index", "expected"), INJECTIVE)
def test_injective(grid, index, expected):
    build = Builder()
    indices = index(build, [build.tid(axis) for axis in range(len(grid))])
    loads = [item.param for item in build._open[-1] if isinstance(item, Load)]
    out = Param("out", float32, (None,) * len(indices))
    stored = store(build, out, *indices)
    kernel = verify(build.finish("k", len(grid), [out, *loads]))
    assert analyze(kernel).injective(stored, grid) == expected


def test_injective_whatever_the_iteration():
    """Thread and iteration add up: different threads can meet; with the thread as an index of its own they cannot."""
    build = Builder()
    out = Param("out", float32, (None, None))
    i, stores = build.tid(0), []

    def body(k: Value) -> None:
        total = op(build, "add", i, k)
        stores.extend([store(build, out, total, k), store(build, out, k, i)])

    in_loop(build, 0, 3, 1, body)
    effects = analyze(verify(build.finish("k", 1, [out])))
    assert [effects.injective(s, (4,)) for s in stores] == [False, True]
