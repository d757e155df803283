"""Control flow in CUDA text: ranges at the limits, loops that carry and swap, locals shared by branches."""

from __future__ import annotations

from itertools import product

import hostcuda
import numpy as np
import pytest
from test_cuda import Simple, array, body_of, check

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Value
from jaxwarp.types import Scalar, bool_, float32, int8, int16, int32, int64, uint8, uint32, uint64

INDEX_TYPES = (int8, int16, int32, int64, uint8, uint32, uint64)


def range_kernel(t: Scalar, step: int | None) -> Kernel:
    """count[i], last[i] of range(start[i], stop[i], step); step None: from an array."""
    make = Simple()
    start, stop, steps = array("start", t), array("stop", t), array("steps", t)
    count, last = array("count", int32), array("last", t)
    i = make.tid(0, "i")
    by = make.load(steps, [i]) if step is None else make.const(step, t)
    one = make.const(1, int32)

    def body(k: Value, n: Value, end: Value):
        make.store(last, [i], k)
        return [make["add"](n, one), k]

    bounds = make.load(start, [i]), make.load(stop, [i]), by
    n, _ = make.for_(*bounds, [make.const(0, int32), make.const(0, t)], body, ["k", "n", "end"])
    make.store(count, [i], n)
    return make.finish(f"range_{t.short}", 1, [start, stop, steps, count, last])


@pytest.fixture(scope="module")
def ranges() -> dict[tuple[Scalar, int | None], Kernel]:
    kernels = {
        (t, step): range_kernel(t, step)
        for t in INDEX_TYPES
        for step in (1, 2, 3, -1, -2, 0, None)
        if step is None or step >= 0 or t.is_signed
    }
    hostcuda.prepare_host(kernels.values())
    return kernels


@pytest.mark.parametrize("t", INDEX_TYPES, ids=lambda t: t.short)
def test_ranges_up_to_the_limits_of_the_type(t: Scalar, ranges):
    limits = np.iinfo(t.numpy)
    low, high = int(limits.min), int(limits.max)
    near_both = {(low, low + 5), (low + 5, low), (high - 5, high), (high, high - 5), (0, 7), (7, 0), (high, high)}
    pairs = sorted(near_both | {(0, high), (low, high)} if t.bits == 8 else near_both)
    for (kernel_type, step), kernel in ranges.items():
        if kernel_type is not t:
            continue
        by = [step] if step is not None else [s for s in (1, 2, 0, -1, -3, high) if low <= s]
        cases = np.array([(a, b, s) for (a, b), s in product(pairs, by)], dtype=object)
        start, stop, steps = (np.array(cases[:, c].tolist(), t.numpy) for c in range(3))
        n = len(cases)
        check(kernel, (n,), [start, stop, steps, np.zeros(n, np.int32), np.zeros(n, t.numpy)])


def test_the_usual_loop_reads_as_one():
    make, x, out = Simple(), array("x", float32, None, None), array("out")
    i, zero, one = make.tid(0, "i"), make.const(0, int32), make.const(1, int32)

    def body(k: Value, s: Value):
        return [make["add"](s, make.load(x, [i, k]), name="s")]

    (s,) = make.for_(zero, make.size(x, 1), one, [make.const(0.0, float32)], body, ["k", "s"])
    make.store(out, [i], s)
    kernel = make.finish("rowsum", 1, [x, out])
    assert body_of(kernel).splitlines() == [
        "float s = 0.0f;",
        "for (int k = 0; k < x_size1; ++k) {",
        "    s = s + x[i * x_size1 + k];",
        "}",
        "out[i] = s;",
    ]
    check(kernel, (3,), [np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros(3, np.float32)])


def test_the_stop_of_a_loop_is_fixed_on_entry():
    """Also where the loop carries the variable that it was read from."""
    make, x = Simple(), array("x", int32)
    i, zero, one = make.tid(0, "i"), make.const(0, int32), make.const(1, int32)
    n = make.load(x, [i], name="n")

    def body(k: Value, n: Value):
        return [make["add"](n, one, name="n")]

    (after,) = make.for_(zero, n, one, [n], body, ["k", "n"])
    make.store(x, [i], after)
    check(make.finish("fixed", 1, [x]), (6,), [np.arange(6, dtype=np.int32)])


def test_the_stop_of_a_loop_is_fixed_where_it_is_loaded():
    make, x = Simple(), array("x", int32)
    i, zero, one = make.tid(0, "i"), make.const(0, int32), make.const(1, int32)

    def body(k: Value):
        make.store(x, [i], make.const(100, int32))
        make.atomic("add", x, [i], k)
        return []

    make.for_(zero, make.load(x, [i]), one, [], body, ["k"])
    check(make.finish("fixed", 1, [x]), (6,), [np.arange(6, dtype=np.int32)])


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_swaps_and_rotations_are_parallel(count: int):
    make, x = Simple(), array("x", float32, None, 4)
    i, zero, one = make.tid(0, "i"), make.const(0, int32), make.const(1, int32)
    columns = [make.const(c, int32) for c in range(4)]
    inits = [make.load(x, [i, c], name="abcd"[n]) for n, c in enumerate(columns)]

    def body(k: Value, a: Value, b: Value, c: Value, d: Value):
        return [b, a, make["add"](d, a), make["mul"](c, make.const(2.0, float32))]

    results = make.for_(zero, make.const(count, int32), one, inits, body, ["k", "a", "b", "c", "d"])
    for c, value in zip(columns, results, strict=True):
        make.store(x, [i, c], value)
    check(make.finish("rotate", 1, [x]), (3,), [np.arange(12, dtype=np.float32).reshape(3, 4)])


def test_one_initial_value_for_two_carried():
    make, x, out = Simple(), array("x"), array("out")
    i, zero, one = make.tid(0, "i"), make.const(0, int32), make.const(1, int32)
    v = make.load(x, [i], name="v")

    def body(k: Value, a: Value, b: Value):
        return [make["add"](a, b, name="v"), make["sub"](b, a, name="w")]

    a, b = make.for_(zero, make.const(3, int32), one, [v, v], body, ["k", "v", "w"])
    make.store(out, [i], make["add"](a, make["mul"](b, make.const(3.0, float32))))
    check(make.finish("twice", 1, [x, out]), (4,), [np.arange(4, dtype=np.float32), np.zeros(4, np.float32)])


def test_a_value_needed_after_the_loop_survives_it():
    make, x, out = Simple(), array("x"), array("out")
    i, zero, one = make.tid(0, "i"), make.const(0, int32), make.const(1, int32)
    v = make.load(x, [i], name="v")

    def body(k: Value, s: Value):
        return [make["add"](s, make["add"](v, s), name="v")]

    (after,) = make.for_(zero, make.const(3, int32), one, [v], body, ["k", "v"])
    make.store(out, [i], make["sub"](after, v))
    check(make.finish("survives", 1, [x, out]), (4,), [np.arange(4, dtype=np.float32), np.zeros(4, np.float32)])


def test_while_with_effects_in_its_condition():
    make, x, out = Simple(), array("x", int32), array("out", int32)
    i, one = make.tid(0, "i"), make.const(1, int32)

    def condition(n: Value, s: Value):
        make.store(out, [i], s)
        # Named as the carried value is, and no longer that: the body must still see the carried one.
        n = make["sub"](n, one, name="n")
        m = make["mul"](n, n, name="n")
        return make["gt"](make["add"](m, n), one)

    def body(n: Value, s: Value):
        return [make["sub"](n, one, name="n"), make["add"](s, n, name="s")]

    n, s = make.while_([make.load(x, [i]), make.const(0, int32)], condition, body, ["n", "s"])
    make.atomic("add", out, [i], make["add"](n, s))
    kernel = make.finish("effects", 1, [x, out])
    assert "while (true) {" in body_of(kernel)
    check(kernel, (9,), [np.arange(9, dtype=np.int32), np.zeros(9, np.int32)])


def test_branches_share_locals_and_only_assign_what_changes():
    make, x, out = Simple(), array("x"), array("out")
    i = make.tid(0, "i")
    v = make.load(x, [i], name="v")
    w = make["mul"](v, v, name="w")
    limit = make.const(2.0, float32)

    def then():
        make.store(out, [i], limit)
        return [make["add"](v, w, name="v"), w]

    def orelse():
        return [v, make["sub"](w, v, name="w")]

    v, w = make.if_(make["gt"](v, limit), then, orelse, ["v", "w"])
    make.store(out, [i], make["add"](v, w))
    kernel = make.finish("branches", 1, [x, out])
    assert body_of(kernel).splitlines() == [
        "float v = x[i];",
        "float w = v * v;",
        "if (v > 2.0f) {",
        "    out[i] = 2.0f;",
        "    v = v + w;",
        "} else {",
        "    w = w - v;",
        "}",
        "out[i] = v + w;",
    ]
    check(kernel, (6,), [np.arange(6, dtype=np.float32), np.zeros(6, np.float32)])


def test_a_branch_that_swaps():
    make, x, out = Simple(), array("x"), array("out", float32, None, 2)
    i, zero, one = make.tid(0, "i"), make.const(0, int32), make.const(1, int32)
    a = make.load(x, [i], name="a")
    b = make["mul"](a, a, name="b")
    a, b = make.if_(make["gt"](b, a), lambda: [b, a], lambda: [a, b], ["a", "b"])
    make.store(out, [i, zero], a)
    make.store(out, [i, one], b)
    check(
        make.finish("swap", 1, [x, out]), (6,), [np.linspace(-1, 3, 6, dtype=np.float32), np.zeros((6, 2), np.float32)]
    )


def test_chains_of_conditions_read_as_python_has_them():
    make, x, out = Simple(), array("x"), array("out")
    i = make.tid(0, "i")
    v = make.load(x, [i], name="v")
    one, two, three = (make.const(n, float32) for n in (1.0, 2.0, 3.0))

    def store(value: Value):
        def branch():
            make.store(out, [i], value)
            return []

        return branch

    def elif_():
        make.if_(make["gt"](v, one), store(two), store(three))
        return []

    make.if_(make["gt"](v, two), store(one), elif_)
    (both,) = make.if_(make["gt"](v, one), lambda: [make["lt"](v, three)], lambda: [make.const(False, bool_)])
    make.if_(both, store(v))
    kernel = make.finish("chain", 1, [x, out])
    assert body_of(kernel).splitlines() == [
        "float v = x[i];",
        "if (v > 2.0f) {",
        "    out[i] = 1.0f;",
        "} else if (v > 1.0f) {",
        "    out[i] = 2.0f;",
        "} else {",
        "    out[i] = 3.0f;",
        "}",
        "if (v > 1.0f && v < 3.0f) {",
        "    out[i] = v;",
        "}",
    ]
    check(kernel, (6,), [np.linspace(0, 5, 6, dtype=np.float32), np.zeros(6, np.float32)])


def test_a_guarded_load_stays_guarded():
    """An index that is out of range where the guard fails: the interpreter would raise."""
    make, x, out = Simple(), array("x"), array("out")
    i, zero, one = make.tid(0, "i"), make.const(0, int32), make.const(1, int32)
    inside = make["gt"](i, zero)
    (v,) = make.if_(inside, lambda: [make.load(x, [make["sub"](i, one)])], lambda: [make.const(9.0, float32)])
    make.store(out, [i], v)
    kernel = make.finish("guarded", 1, [x, out])
    assert body_of(kernel) == "out[i] = i > 0 ? x[i - 1] : 9.0f;"
    check(kernel, (5,), [np.arange(4, dtype=np.float32), np.zeros(5, np.float32)])
