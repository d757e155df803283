"""Derivatives of IR kernels, by the interpreter in float64: against finite differences, and against each other.

Each kernel is checked four ways: the tangent against central differences of the kernel; the adjoint against the
tangent, by <ct, J t> = <J^T ct, t>; the adjoint of the tangent against the adjoint (how JAX transposes); the tangent
of the adjoint against central differences of the adjoint (second order).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import derivativekit as kit
import hostcuda
import numpy as np
import pytest
from derivativekit import Case, feed, run

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param, Value
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import float32, float64, int32
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import adjoint

N = 5


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


class Code(Builder):
    """A builder with the rows as methods and numbers as float64 constants."""

    def __getattr__(self, name: str) -> Callable[..., Value]:
        def call(*args: Value | float) -> Value:
            return self.call(ROWS[name], *(a if isinstance(a, Value) else self.const(a, float64) for a in args))

        return call

    def integer(self, value: int) -> Value:
        return self.const(value, int32)


def build(name: str, params: Sequence[tuple[str, object, tuple]], body: Callable, rank: int = 1) -> Kernel:
    code = Code()
    made = [Param(n, t, s) for n, t, s in params]
    body(code, *made)
    return verify(code.finish(name, rank, made))


X = ("x", float64, (None,))
Y = ("y", float64, (None,))


def random(*shape: int, low: float = 0.2, high: float = 1.0) -> np.ndarray:
    return np.random.default_rng(3).uniform(low, high, shape)


@case
def straight_line_with_a_shared_scalar() -> Case:
    def body(b, x, s, y):
        i = b.tid(0)
        v, w = b.load(x, [i]), b.load(s, [])
        b.store(y, [i], b.mul(b.sin(v), b.div(w, b.add(v, 1.0))))

    kernel = build("k", [X, ("s", float64, ()), Y], body)
    return Case("", kernel, (N,), [random(N), np.array(1.3), np.zeros(N)], (0, 1), (2,))


@case
def chosen_sides() -> Case:
    def body(b, x, z, y):
        i = b.tid(0)
        v, w = b.load(x, [i]), b.load(z, [i])
        low, high = b.min(v, w), b.max(b.abs(b.neg(v)), w)
        b.store(y, [i], b.mul(b.select(b.lt(v, 0.5), b.exp(low), low), high))

    kernel = build("k", [X, ("z", float64, (None,)), Y], body)
    return Case("", kernel, (N,), [random(N), random(N)[::-1] + 0.01, np.zeros(N)], (0, 1), (2,))


@case
def sum_in_a_loop() -> Case:
    def body(b, x, y):
        i = b.tid(0)
        (total,) = b.for_(b.integer(0), b.size(x, 0), b.integer(1), [b.const(0.0, float64)],
                          lambda k, acc: [b.add(acc, b.mul(b.load(x, [k]), b.load(x, [i])))])  # fmt: skip
        b.store(y, [i], total)

    return Case("", build("k", [X, Y], body), (N,), [random(N), np.zeros(N)], (0,), (1,))


@case
def logistic_growth_in_a_loop() -> Case:
    def body(b, x, y):
        i = b.tid(0)
        (v,) = b.for_(b.integer(0), b.size(x, 0), b.integer(1), [b.load(x, [i])],
                      lambda k, c: [b.mul(b.mul(1.9, c), b.sub(1.0, c))])  # fmt: skip
        b.store(y, [i], v)

    return Case("", build("k", [X, Y], body), (N,), [random(N), np.zeros(N)], (0,), (1,))


@case
def loop_whose_trip_count_differs_from_thread_to_thread() -> Case:
    trips = np.array([0, 1, 2, 31, 32, 33, 64, 100, 700], np.int32)

    def body(b, x, n, y):
        i = b.tid(0)
        (v,) = b.for_(b.integer(0), b.load(n, [i]), b.integer(1), [b.load(x, [i])],
                      lambda k, c: [b.sin(b.mul(1.7, c))])  # fmt: skip
        b.store(y, [i], v)

    kernel = build("k", [X, ("n", int32, (None,)), Y], body)
    return Case("", kernel, (9,), [random(9), trips, np.zeros(9)], (0,), (2,))


@case
def loop_backwards_by_threes_using_its_index() -> Case:
    def body(b, x, y):
        i = b.tid(0)

        def step(k, c):
            return [b.sin(b.add(b.mul(c, b.load(x, [k])), b.call(ROWS["cast"], k, dtype=float64)))]

        (v,) = b.for_(b.integer(10), b.integer(-1), b.integer(-3), [b.load(x, [i])], step)
        b.store(y, [i], v)

    return Case("", build("k", [X, Y], body), (11,), [random(11), np.zeros(11)], (0,), (1,))


@case
def while_with_a_branch() -> Case:
    def body(b, x, y):
        i = b.tid(0)
        v = b.load(x, [i])

        def step(c, n):
            big = b.gt(c, 2.0)
            (q,) = b.if_(big, lambda: [b.mul(c, b.sqrt(c))], lambda: [b.add(b.mul(c, v), 0.3)])
            return [q, b.call(ROWS["add"], n, b.integer(1))]

        def test(c, n):
            return b.logical_and(b.lt(c, 5.0), b.call(ROWS["lt"], n, b.integer(50)))

        c, _ = b.while_([v, b.integer(0)], test, step)
        b.store(y, [i], b.mul(c, v))

    return Case("", build("k", [X, Y], body), (N,), [random(N, low=0.8, high=1.8), np.zeros(N)], (0,), (1,))


@case
def square_in_place_three_times() -> Case:
    def body(b, x, a):
        i = b.tid(0)
        for _ in range(3):
            v = b.load(a, [i])
            b.store(a, [i], b.mul(v, v))
        b.store(a, [i], b.mul(b.load(a, [i]), b.load(x, [i])))

    kernel = build("k", [X, ("a", float64, (None,))], body)
    return Case("", kernel, (N,), [random(N), random(N)], (0, 1), (1,))


@case
def update_in_place_in_a_loop_and_a_branch() -> Case:
    def body(b, x, a):
        i = b.tid(0)

        def step(k):
            v = b.load(a, [i])
            b.store(a, [i], b.sin(b.mul(v, b.load(x, [k]))))

            def square():
                again = b.load(a, [i])
                b.store(a, [i], b.mul(again, again))
                return ()

            b.if_(b.gt(v, 0.5), square)
            return ()

        b.for_(b.integer(0), b.size(x, 0), b.integer(1), [], step)

    kernel = build("k", [X, ("a", float64, (None,))], body)
    return Case("", kernel, (N,), [random(N), random(N)], (0, 1), (1,))


@case
def two_components_updated_from_each_other() -> Case:
    def body(b, a):
        i = b.tid(0)
        zero, one = b.integer(0), b.integer(1)
        b.store(a, [i, zero], b.mul(b.load(a, [i, zero]), b.load(a, [i, one])))
        b.store(a, [i, one], b.sin(b.add(b.load(a, [i, zero]), b.load(a, [i, one]))))

    return Case("", build("k", [("a", float64, (None, 2))], body), (N,), [random(N, 2)], (0,), (0,))


@case
def element_stored_twice() -> Case:
    def body(b, x, y):
        i = b.tid(0)
        v = b.load(x, [i])
        b.store(y, [i], b.exp(v))
        b.store(y, [i], b.mul(v, v))

    return Case("", build("k", [X, Y], body), (N,), [random(N), random(N)], (0, 1), (1,))


@case
def gather_scatter_and_nested_loops() -> Case:
    def body(b, x, idx, out):
        i = b.tid(0)
        j = b.load(idx, [i])

        def outer(k, acc, p):
            (q,) = b.for_(b.integer(0), b.call(ROWS["add"], k, b.integer(1)), b.integer(1), [b.load(x, [j])],
                          lambda m, q: [b.sin(b.mul(q, b.add(p, b.load(x, [m]))))])  # fmt: skip
            return [b.add(acc, q), b.mul(p, q)]

        acc, p = b.for_(b.integer(0), b.size(x, 0), b.integer(1), [b.const(0.0, float64), b.load(x, [i])], outer)
        b.atomic("add", out, [j], b.mul(acc, p))

    kernel = build("k", [X, ("idx", int32, (None,)), ("out", float64, (None,))], body)
    indices = np.array([0, 2, 2, 1, 4], np.int32)
    return Case("", kernel, (N,), [random(N), indices, random(N)], (0, 2), (2,))


@case
def result_of_a_loop_read_by_a_second_one() -> Case:
    def body(b, x, y):
        i = b.tid(0)
        v = b.load(x, [i])

        def step(k, c):
            return [b.mul(b.cos(c), v)]

        (c,) = b.for_(b.integer(0), b.integer(7), b.integer(1), [v], step)
        (d,) = b.for_(b.integer(0), b.integer(5), b.integer(1), [c], lambda k, d: [b.mul(d, b.exp(b.neg(c)))])
        b.store(y, [i], b.add(c, d))

    return Case("", build("k", [X, Y], body), (N,), [random(N), np.zeros(N)], (0,), (1,))


# Each of these was wrong once, or was found by looking for what could be.


@case
def one_element_stored_by_every_thread() -> Case:
    def body(b, s, y):
        b.tid(0)
        v = b.load(s, [])
        b.store(y, [b.integer(0)], b.mul(v, v))

    kernel = build("k", [("s", float64, ()), Y], body)
    return Case("", kernel, (N,), [np.array(1.3), np.zeros(1)], (0,), (1,))


@case
def elements_squared_one_by_one_in_a_dynamic_loop() -> Case:
    def body(b, x, a):
        i = b.tid(0)

        def step(k):
            v = b.load(a, [i, k])
            b.store(a, [i, k], b.mul(v, b.mul(v, b.load(x, [i]))))
            return ()

        b.for_(b.integer(0), b.size(a, 1), b.integer(1), [], step)

    kernel = build("k", [X, ("a", float64, (None, None))], body)
    return Case("", kernel, (N,), [random(N), random(N, 3)], (0, 1), (1,))


@case
def condition_of_a_while_reads_what_its_body_stores() -> Case:
    def body(b, x, a, y):
        i = b.tid(0)

        def step(c):
            d = b.mul(c, b.add(b.load(x, [i]), 1.0))
            b.store(a, [i], d)
            return [d]

        (c,) = b.while_([b.load(x, [i])], lambda c: b.lt(b.load(a, [i]), 5.0), step)
        b.store(y, [i], b.mul(c, b.load(a, [i])))

    kernel = build("k", [X, ("a", float64, (None,)), Y], body)
    return Case("", kernel, (N,), [random(N), random(N), np.zeros(N)], (0, 1), (1, 2))


@case
def element_used_in_a_branch_before_and_after_it() -> Case:
    def body(b, x, a, y):
        i = b.tid(0)
        v = b.load(x, [i])
        places = []

        def branch():
            # An index of the branch's own, equal to the one outside.
            places.append(b.call(ROWS["add"], i, b.integer(1)))
            b.store(a, [places[0]], b.mul(b.load(a, [places[0]]), v))
            b.atomic("add", y, [i], b.load(a, [places[0]]))
            return ()

        b.if_(b.gt(v, 0.5), branch)
        outer = b.call(ROWS["add"], i, b.integer(1))
        b.store(a, [outer], b.sin(v))

    kernel = build("k", [X, ("a", float64, (None,)), Y], body)
    return Case("", kernel, (N,), [random(N), random(N + 1), np.zeros(N)], (0, 1), (1, 2))


@case
def inner_loop_that_only_hands_on_what_the_outer_one_carries() -> Case:
    """Nothing but the `yield` of the inner loop reads p."""

    def body(b, x, y):
        i = b.tid(0)
        v = b.load(x, [i])

        def inner(k, p, q):
            b.atomic("add", y, [i], b.sin(b.mul(q, q)))
            return [p]

        def outer(k, p):
            b.for_(b.integer(0), b.integer(2), b.integer(1), [v], lambda k, q: inner(k, p, q))
            return [b.add(p, 0.7)]

        b.for_(b.integer(0), b.integer(3), b.integer(1), [v], outer)

    return Case("", build("k", [X, Y], body), (N,), [random(N), np.zeros(N)], (0,), (1,))


@case
def root_in_the_side_not_taken() -> Case:
    """At 0 the factor of the root is infinite; it is not to reach the gradient."""

    def body(b, x, y):
        i = b.tid(0)
        v = b.sub(b.load(x, [i]), b.load(x, [i]))
        b.store(y, [i], b.select(b.gt(v, 0.0), b.mul(b.sqrt(v), 3.0), b.load(x, [i])))

    return Case("", build("k", [X, Y], body), (N,), [random(N), np.zeros(N)], (0,), (1,))


@pytest.fixture(params=CASES, ids=str)
def example(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def test_tangent_is_the_directional_derivative(example):
    kit.check_tangent(example)


def test_adjoint_is_the_transpose_of_the_tangent(example):
    kit.check_adjoint(example)


def test_adjoint_of_the_tangent_is_the_adjoint(example):
    kit.check_adjoint_of_tangent(example)


def test_tangent_of_the_adjoint_is_the_second_derivative(example):
    kit.check_tangent_of_adjoint(example)


@pytest.mark.parametrize("make", [tangent, adjoint])
def test_derivative_kernels_run_alike_on_every_backend(make, example):
    """The arrays of a thread's own, in particular, which only derivative kernels have."""
    derived = make(example.kernel, example.wanted)
    kernel = prepare(derived.kernel, fma=False)
    moved_ = {i: np.cos(np.arange(b.size, dtype=float)).reshape(b.shape) for i, b in enumerate(example.buffers)}
    buffers = feed(derived, example.buffers, moved_)
    expected = run(kernel, example.grid, buffers)
    backends = [lambda b, w=w: run_cpu(kernel, example.grid, b, w) for w in (1, 8, 16, 32)]
    backends.append(lambda b: hostcuda.run_host(kernel, example.grid, b))
    for backend in backends:
        got = [np.array(b) for b in buffers]
        backend(got)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def refused(body: Callable, *params: tuple, wanted: tuple[int, ...] = (0,)) -> str:
    with pytest.raises(DifferentiationError) as error:
        adjoint(build("k", params, body), wanted)
    return error.value.message


def test_reading_what_other_threads_write_is_refused():
    def body(b, a):
        i = b.tid(0)
        b.store(a, [i], b.load(a, [b.call(ROWS["add"], i, b.integer(1))]))

    assert "a thread may read what another one writes" in refused(body, ("a", float64, (None,)))


def test_a_value_overwritten_at_a_moving_address_is_refused():
    def body(b, x, a):
        i = b.tid(0)

        def step(k):
            last = b.load(a, [i, b.call(ROWS["mod"], k, b.integer(2))])
            b.store(a, [i, b.integer(0)], b.mul(last, b.load(x, [i])))
            return ()

        b.for_(b.integer(0), b.size(x, 0), b.integer(1), [], step)

    message = refused(body, X, ("a", float64, (None, None)))
    assert "after it may have been overwritten" in message


def extremes(kind: str) -> Kernel:
    def body(b, x, index, y):
        i = b.tid(0)
        b.atomic(kind, y, [b.load(index, [i])], b.sin(b.load(x, [i])))

    return build("k", [X, ("index", int32, (None,)), Y], body)


@pytest.mark.parametrize("kind", ["min", "max"])
def test_an_extreme_moves_with_the_operand_that_it_is(kind):
    buffers = [
        random(9),
        np.array([0, 1, 2, 0, 1, 2, 0, 1, 2], np.int32),
        np.array([0.5, 0.6, 2.0 - 4 * (kind == "min")]),
    ]
    kit.check_tangent(Case("", extremes(kind), (9,), buffers, (0, 2), (2,)))


def test_of_equal_operands_one_is_selected():
    """And it is the thread's, not the former contents."""
    buffers = [np.full(4, 0.5), np.zeros(4, np.int32), np.sin(np.full(1, 0.5))]
    case = Case("", extremes("max"), (4,), buffers, (0, 2), (2,))
    pushed = kit.push(case, {0: np.arange(1.0, 5.0), 2: np.array([100.0])})
    assert pushed[2][0] / np.cos(0.5) in (1.0, 2.0, 3.0, 4.0)


def test_an_extreme_that_is_read_too_is_refused():
    def body(b, x, y):
        i = b.tid(0)
        b.atomic("max", y, [i], b.load(x, [i]))
        b.atomic("add", y, [i], b.load(x, [i]))

    with pytest.raises(DifferentiationError, match="does not tell which operand was selected"):
        tangent(build("k", [X, Y], body), (0,))


@pytest.mark.parametrize("kind", ["min", "max", "exch"])
def test_other_atomics_have_no_adjoint_of_their_own(kind):
    def body(b, x, y):
        i = b.tid(0)
        b.atomic(kind, y, [b.integer(0)], b.load(x, [i]))

    assert f"atomic_{kind} on y" in refused(body, X, Y)


def test_the_old_value_of_an_atomic_is_refused():
    def body(b, x, y):
        i = b.tid(0)
        old = b.atomic("add", y, [b.integer(0)], b.load(x, [i]))
        b.store(y, [i], old)

    assert "the old value that atomic_add on y returns is used" in refused(body, X, Y)


def test_bits_of_a_float_are_refused():
    def body(b, x, y):
        i = b.tid(0)
        bits = b.call(ROWS["bitcast"], b.load(x, [i]), dtype=int32)
        b.store(y, [i], b.call(ROWS["bitcast"], bits, dtype=float32))

    assert "bitcast" in refused(body, ("x", float32, (None,)), ("y", float32, (None,)))


def test_a_recurrence_along_an_array_reads_its_results():
    """a[k + 1] = a[k]^2: the addresses differ at any one time, but not from one iteration to the next."""

    def body(b, a):
        i = b.tid(0)

        def step(k):
            v = b.load(a, [i, k])
            b.store(a, [i, b.call(ROWS["add"], k, b.integer(1))], b.mul(v, v))
            return ()

        b.for_(b.integer(0), b.integer(40), b.integer(1), [], step)

    case = Case("", build("k", [("a", float64, (None, None))], body), (2,), [random(2, 41)], (0,), (0,))
    slots = tangent(case.kernel, (0,), (2,)).slots
    assert [(s.kind, s.writes) for s in slots] == [("tangent", True), ("final", False)]
    kit.check_tangent(case)
    kit.check_adjoint(case)
    kit.check_adjoint_of_tangent(case)
    kit.check_tangent_of_adjoint(case)


def test_steps_of_two_do_not_meet():
    """a[k + 1] = a[k]^2 for even k: an even element never is an odd one."""

    def body(b, a):
        i = b.tid(0)

        def step(k):
            v = b.load(a, [i, k])
            b.store(a, [i, b.call(ROWS["add"], k, b.integer(1))], b.mul(v, v))
            return ()

        b.for_(b.integer(0), b.integer(40), b.integer(2), [], step)

    kernel = build("k", [("a", float64, (None, None))], body)
    case = Case("", kernel, (2,), [random(2, 40)], (0,), (0,))
    kit.check_adjoint(case)
    kit.check_tangent_of_adjoint(case)


def test_a_condition_with_effects_is_refused():
    def body(b, x, y):
        i = b.tid(0)

        def test(c):
            b.atomic("add", y, [i], c)
            return b.lt(c, 3.0)

        b.while_([b.load(x, [i])], test, lambda c: [b.mul(c, 2.0)])

    assert "the condition of a while loop writes to y" in refused(body, X, Y)


def test_reading_what_other_threads_write_is_refused_forward_where_it_shows():
    def body(b, a):
        i = b.tid(0)
        b.store(a, [i], b.load(a, [b.call(ROWS["add"], i, b.integer(1))]))

    kernel = build("k", [("a", float64, (None,))], body)
    with pytest.raises(DifferentiationError, match="a thread may read what another one writes"):
        tangent(kernel, (0,))
    # One thread has nobody to race with.
    kit.check_tangent(Case("", kernel, (1,), [random(2)], (0,), (0,)))
    kit.check_adjoint(Case("", kernel, (1,), [random(2)], (0,), (0,)))
