"""`assert`, `expect_eq`, `expect_neq`, `expect_near`: what fails is told, with the thread and the line, everywhere."""

import subprocess
import sys

import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.experimental.checkify import checkify
from language import define

import jaxwarp as wp
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ffi.programs.jax_callable import GraphMode
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.verify import verify
from jaxwarp.passes.checks.checked import Debug, checked
from jaxwarp.passes.checks.reports import first_row, number_of
from jaxwarp.passes.launches.tells import may_fail, silent
from jaxwarp.passes.pipeline import prepare


@wp.func
def positive(v: float):
    assert v > 0.0, "v must be {0}% positive"
    return v * 0.5


@wp.func
def small(v: float):
    assert v < 100.0
    return v


@wp.kernel
def halves(x: wp.array[float], y: wp.array[float]):
    """Asserts in a function, in a loop, in a branch and in the test of a `while`."""
    i = wp.tid()
    s = 0.0
    for _ in range(2 + x.shape[0]):
        s += positive(x[i])
    if x[i] > 50.0:
        assert s < 10000.0, "sum"
    while small(s) < 1.0:
        s += 1.0
    y[i] = s


@wp.kernel
def looked_up(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    j = index[i]
    assert 0 <= j < x.shape[0], "an index"
    y[i] = 2.0 * x[j]


GOOD = np.array([1.0, 2.0, 3.0], np.float32)
CASES = {
    "function": ([1.0, -1.0, -2.0], "thread (1,): assertion failed: v must be {0}% positive"),
    "test of a while": ([1.0, 2.0, 50.0], "thread (2,): assertion failed\n"),
    "branch": ([1.0, 9000.0, 2.0], "thread (1,): assertion failed: sum"),
}


def launched(kernel, x, *between):
    y = wp.zeros(len(x))
    wp.launch(kernel, len(x), inputs=[wp.array(x, dtype=float), *between], outputs=[y])
    return y.numpy()


def called(x):
    return wp.jax_kernel(halves)(jnp.asarray(x))[0]


def program(x: wp.array[float], y: wp.array[float]):
    wp.launch(halves, x.shape[0], inputs=[x], outputs=[y])


OUTSIDE = {
    "launch": lambda x: launched(halves, x),
    "jax_kernel": called,
    "jax_callable": lambda x: wp.jax_callable(program)(jnp.asarray(x))[0],
    "recorded": lambda x: wp.jax_callable(program, graph_mode=GraphMode.WARP)(jnp.asarray(x))[0],
    "interpret": lambda x: halves.interpret(np.array(x, np.float32), np.zeros(len(x), np.float32)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("how", OUTSIDE)
def test_outside_of_jit_it_is_an_exception(how, case):
    x, text = CASES[case]
    for _ in range(2):
        with pytest.raises(wp.CheckError) as caught:
            OUTSIDE[how](x)
        assert text in f"{caught.value}\n"
        assert "test_assertions.py:" in str(caught.value)
        OUTSIDE[how](GOOD)  # the process goes on


def total(x):
    return (called(x) ** 2).sum()


TRANSFORMED = {
    "jit": called,
    "unused": lambda x: (called(x), x)[1],
    "jvp": lambda x: jax.jvp(called, (x,), (x,))[1],
    "grad": jax.grad(total),
    "hessian": jax.hessian(total),
    "remat": jax.grad(jax.checkpoint(total)),
    "scan": lambda x: jax.lax.scan(lambda c, _: (called(c), None), x, None, length=1)[0],
    "cond": lambda x: jax.lax.cond(x[0] > 0, called, lambda x: x, x),
    "vmap": lambda x: jax.vmap(called)(x[None]),
    "vmap of grad": lambda x: jax.vmap(jax.grad(total))(x[None]),
}


@pytest.mark.parametrize("how", TRANSFORMED)
def test_under_jit_the_call_fails(how):
    call = jax.jit(TRANSFORMED[how])
    for x, text in CASES.values():
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            jax.block_until_ready(call(jnp.asarray(x)))
        assert text in f"{caught.value}\n"
        assert ("batch index (0,), " in str(caught.value)) is how.startswith("vmap")
    assert np.isfinite(jax.block_until_ready(call(jnp.asarray(GOOD)))).all()


@pytest.mark.parametrize("transform", [lambda f: f, lambda f: jax.grad(lambda x: (f(x) ** 2).sum())])
def test_checkify_has_it_as_a_value(transform):
    call = jax.jit(checkify(transform(called), errors=wp.kernel_checks))
    for x, text in CASES.values():
        error, _ = call(jnp.asarray(x))
        assert text in f"{error.get()}\n"
    error, values = call(jnp.asarray(GOOD))
    assert error.get() is None
    np.testing.assert_array_equal(values, transform(called)(jnp.asarray(GOOD)))


def test_derivatives_are_those_of_the_kernel_without():
    source = """
@wp.kernel
def k(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = float(0.0)
    for j in range(x.shape[0]):
        if x[j] < s:
            {}
        s += wp.sin(x[j]) * x[i]
    y[i] = s * s
"""
    with_it, without = (wp.jax_kernel(define(source.format(s))["k"]) for s in ("assert x[j] != 1e9", "pass"))
    x = jnp.linspace(0.3, 2.0, 5)
    for derivative in (lambda f: f, jax.jacfwd, jax.jacrev, lambda f: jax.jacrev(jax.jacfwd(f))):
        ours, theirs = (jax.jit(derivative(lambda x, f=f: f(x)[0]))(x) for f in (with_it, without))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_tape():
    x, y = wp.array(GOOD, dtype=float, requires_grad=True), wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(halves, 3, inputs=[x], outputs=[y])
    tape.backward(grads={y: wp.ones(3)})
    np.testing.assert_allclose(x.grad.numpy(), 2.5)
    with pytest.raises(wp.CheckError, match="assertion failed"), wp.Tape():
        wp.launch(halves, 3, inputs=[wp.array([1.0, -1.0, 1.0], dtype=float)], outputs=[y])


def test_a_thread_that_fails_does_nothing_more():
    """Its index would be far out of the array's memory, and so in the derivative."""
    x, bad = jnp.asarray(GOOD), jnp.array([0, 10**9, -(10**9)], jnp.int32)
    zero = np.zeros(3, jax.dtypes.float0)

    def f(x, index):
        return wp.jax_kernel(looked_up)(x, index)[0]

    for call in (f, jax.grad(lambda x, i: f(x, i).sum()), lambda x, i: jax.jvp(f, (x, i), (x, zero))):
        with pytest.raises(Exception, match=r"thread \(1,\): assertion failed: an index"):
            jax.block_until_ready(jax.jit(call)(x, bad))
    with pytest.raises(wp.CheckError, match=r"thread \(1,\): assertion failed: an index"):
        launched(looked_up, GOOD, wp.array(np.asarray(bad), dtype=int))


ENGINES = {
    "interpreter": interpret,
    "one lane": lambda kernel, grid, buffers: run_cpu(kernel, grid, buffers, width=1),
    "lanes": lambda kernel, grid, buffers: run_cpu(kernel, grid, buffers, width=8),
    "CUDA text": hostcuda.run_host,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("checks", [(), ("bounds", "integers", "nan", "steps")], ids=["release", "debug"])
@pytest.mark.parametrize("case", CASES)
def test_every_target_finds_the_same_failure(case, checks, engine):
    x, text = CASES[case]
    x = np.array(x, np.float32)
    found = checked(halves.specialize(), Debug(checks, 1000), (3,), [(3,), (3,)])
    record, y = np.zeros(found.layout.size, np.int64), np.zeros(3, np.float32)
    ENGINES[engine](prepare(verify(found.kernel)), (3,), [x, y, record])
    row = first_row(record.tolist(), found.layout.row)
    thread = text.split("(")[1].split(",")[0]
    assert (str(row[2]), found.reports[number_of(row)].text) == (thread, text.split(": ", 1)[1].strip())


def test_what_derivatives_are_made_of_says_nothing():
    kernel = verify(silent(halves.specialize()))
    assert not may_fail(kernel)
    y = np.zeros(3, np.float32)
    interpret(kernel, (3,), [np.array([1.0, -1.0, 2.0], np.float32), y])
    np.testing.assert_array_equal(y, [2.5, 0.0, 5.0])


def test_exported_programs_say_it_in_another_process(tmp_path):
    program = export.export(jax.jit(called), disabled_checks=wp.export_checks())(jnp.asarray(GOOD))
    (tmp_path / "program").write_bytes(program.serialize())
    code = f"""
import jax, jax.numpy as jnp, jaxwarp
call = jax.export.deserialize(open({str(tmp_path / "program")!r}, "rb").read()).call
print(call(jnp.array({GOOD.tolist()})))
print(jax.block_until_ready(call(jnp.array([1.0, -1.0, 2.0]))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "[2.5 5.  7.5]" in done.stdout
    assert "thread (1,): assertion failed: v must be {0}% positive" in done.stderr


# Expectations


@wp.struct
class State:
    mass: float
    force: wp.vec3
    count: int


def expectation(statement, *types):
    """A kernel with a statement on arguments a, b of a type."""
    a, b = types
    names = {"A": a, "B": b}
    source = f"@wp.kernel\ndef k(a: A, b: B, y: wp.array[int]):\n    {statement}\n    y[0] = 1\n"
    return define(source, **names)["k"]


def failure(statement, a, b, kind=None):
    """What fails, or None; the thread goes on after it."""
    types = [kind, kind] if kind is not None else [wp.types.vector(3, float)] * 2
    kernel, y = expectation(statement, *types), wp.zeros(1, dtype=int)
    try:
        wp.launch(kernel, 1, inputs=[a, b], outputs=[y])
        text = None
    except wp.CheckError as error:
        text = error.message
    assert y.numpy()[0] == 1
    return text and text.removeprefix("thread (0,): ")


NAN, INF = float("nan"), float("inf")
EXPECTED = [
    ("wp.expect_eq(a, b)", 1.0, 1.0, float, None),
    ("wp.expect_eq(a, b)", 1.0, 1.0000001, float, "expect_eq: got 1, expected 1.00000012"),
    ("wp.expect_eq(a, b)", NAN, NAN, float, "expect_eq: got nan, expected nan"),
    ("wp.expect_eq(a, b)", 0.1, 0.3, wp.float64, "expect_eq: got 0.10000000000000001, expected 0.29999999999999999"),
    ("wp.expect_eq(a, b)", 0.5, 0.25, wp.float16, "expect_eq: got 0.5, expected 0.25"),
    ("wp.expect_eq(a, b)", -128, 127, wp.int8, "expect_eq: got -128, expected 127"),
    ("wp.expect_eq(a, b)", 2**64 - 1, 0, wp.uint64, "expect_eq: got 18446744073709551615, expected 0"),
    ("wp.expect_eq(a, b)", -(2**63), 2**63 - 1, wp.int64, f"expect_eq: got {-(2**63)}, expected {2**63 - 1}"),
    ("wp.expect_eq(a, b)", True, False, wp.bool, "expect_eq: got True, expected False"),
    ("wp.expect_eq(a, 3)", 4, 4, int, "expect_eq: got 4, expected 3"),
    ("wp.expect_eq(b=a, a=b)", (1, 2, 3), (1, 5, 3), wp.vec3, "expect_eq, component [1]: got 5, expected 2"),
    ("wp.expect_eq(a, b)", (1, 2, 3, 4), (1, 2, 0, 4), wp.mat22, "expect_eq, component [1, 0]: got 3, expected 0"),
    ("wp.expect_eq(a, b)", (0, 0, 0, 1), (0, 0, 0, 1), wp.quat, None),
    ("wp.expect_eq(a, b)", (0,) * 7, (*(0,) * 6, 1), wp.transform, "expect_eq, component [6]: got 0, expected 1"),
    ("wp.expect_neq(a, b)", 1, 2, int, None),
    ("wp.expect_neq(a, b)", 2, 2, int, "expect_neq: both are 2"),
    ("wp.expect_neq(a, b)", NAN, NAN, float, None),
    ("wp.expect_neq(a, b)", (1, 2, 3), (1, 2, 4), wp.vec3, None),
    ("wp.expect_neq(a, b)", (1, 2, 3), (1, 2, 3), wp.vec3, "expect_neq: both are equal"),
    ("wp.expect_near(a, b)", 1.0, 1.0000001, float, None),
    ("wp.expect_near(a, b)", 1.0, 1.1, float, "expect_near: got 1, expected 1.10000002, within 9.99999997e-07"),
    ("wp.expect_near(a, b, 0.2)", 1.0, 1.1, float, None),
    ("wp.expect_near(a, b, tolerance=0.5)", (1, 2, 3), (1, 2, 4), wp.vec3,
     "expect_near, component [2]: got 3, expected 4, within 0.5"),
    ("wp.expect_near(a, b)", INF, INF, float, None),
    ("wp.expect_near(a, b, 1e30)", INF, -INF, float, "expect_near: got inf, expected -inf, within 1.00000002e+30"),
    ("wp.expect_near(a, b, 1e30)", NAN, NAN, float, "expect_near: got nan, expected nan, within 1.00000002e+30"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "a", "b", "kind", "expected"), EXPECTED)
def test_expectations(statement, a, b, kind, expected):
    given = [kind(*v) if isinstance(v, tuple) else v for v in (a, b)]
    assert failure(statement, *given, kind) == expected


def test_structs_are_compared_by_field():
    a, b = State(), State()
    assert failure("wp.expect_eq(a, b)", a, b, State) is None
    b.force = wp.vec3(0.0, 1.0, 0.0)
    assert failure("wp.expect_eq(a, b)", a, b, State) == "expect_eq, .force, component [1]: got 0, expected 1"
    assert failure("wp.expect_neq(a, b)", a, b, State) is None


@wp.kernel
def expects(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]
    for j in range(8):
        wp.expect_near(x[i] * float(j), 0.0, tolerance=10.0)
    wp.expect_neq(x[i], 3.0)
    wp.expect_eq(wp.vec2(x[i], 0.0), wp.vec2(x[i], 0.0))
    wp.expect_neq(i, -1)
    wp.expect_neq(i, -2)


def test_expectations_under_jit():
    call = jax.jit(jax.vmap(lambda x: wp.jax_kernel(expects)(x)[0]))
    np.testing.assert_array_equal(call(jnp.ones((2, 3))), 1.0)
    for value, text in ((3.0, "got 12, expected 0, within 10"), (-1.0, None), (2.0, "got 12, expected 0, within 10")):
        x = jnp.ones((2, 3)).at[1, 2].set(value)
        if text is None:
            jax.block_until_ready(call(x))
            continue
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            jax.block_until_ready(call(x))
        assert f"batch index (1,), thread (2,): expect_near: {text}" in str(caught.value)


REFUSED = [
    ("wp.expect_eq(a, 2.5)", int, "the constant 2.5"),
    ("wp.expect_eq(a, wp.float64(1.0))", float, "expect_eq: expected two values of one type, got float32 and float64"),
    ("wp.expect_eq(y, y)", float, "expect_eq: expected two values of one type, got array[int32, 1]"),
    ("wp.expect_eq(a)", float, "expect_eq: expected arguments a, b, got 1"),
    ("wp.expect_eq(a, b, 1.0)", float, "expect_eq: expected arguments a, b, got 3"),
    ("wp.expect_near(a, b)", int, "expect_near: expected floats, got int32"),
    ("wp.expect_near(a, b, 1)", wp.float16, None),
    ("wp.expect_near(a, b, c=1.0)", float, "expect_near: expected arguments a, b, tolerance, got 3, among them c"),
    ("wp.expect_near(a, b, wp.float64(1.0))", float, "expect_near: the tolerance is float64, and the values are"),
    ("assert y, 3", float, "the message of an assertion must be text that is known before the kernel runs"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "kind", "message"), REFUSED)
def test_what_is_refused(statement, kind, message):
    kernel = expectation(statement, kind, kind)
    if message is None:
        kernel.specialize()
        return
    with pytest.raises(wp.KernelError) as caught:
        kernel.specialize()
    assert message in caught.value.message
    assert caught.value.loc.line == 3


def test_assertions_in_functions_with_rules_and_gradients():
    @wp.func
    def cube(v: float):
        assert v > 0.0, "cube"
        return v * v * v

    @wp.func
    def ruled(v: float):
        assert v > 0.0, "ruled"
        return v * v

    @wp.func_grad(ruled)
    def adj_ruled(v: float, adj: float):
        wp.adjoint[v] += 5.0 * adj

    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = wp.grad(cube)(x[i]) + ruled(x[i])

    f = jax.jit(lambda x: wp.jax_kernel(k)(x)[0])
    np.testing.assert_allclose(f(jnp.array([2.0])), [16.0])
    np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(jnp.array([2.0])), [17.0])
    with pytest.raises(jax.errors.JaxRuntimeError, match="assertion failed: cube"):
        jax.block_until_ready(f(jnp.array([-2.0])))

    @wp.func
    def other(v: float):
        return v

    @wp.func_grad(other)
    def adj_other(v: float, adj: float):
        assert adj > 0.0
        wp.adjoint[v] += adj

    @wp.kernel
    def bad(x: wp.array[float], y: wp.array[float]):
        y[wp.tid()] = other(x[wp.tid()])

    with pytest.raises(wp.KernelError, match="a func_grad cannot print or assert"):
        wp.jax_kernel(bad)(jnp.ones(1))


def test_text_of_a_message_may_be_named():
    kernel = define('TEXT = "é\\x02 %s"\n@wp.kernel\ndef k(n: int):\n    assert n > 0, TEXT\n')["k"]
    with pytest.raises(wp.CheckError, match=r"assertion failed: é\\x02 %s"):
        wp.launch(kernel, 1, inputs=[0])


def test_what_follows_is_guarded_by_it():
    """The index is out of range for every thread that would come there."""
    kernel = define("@wp.kernel\ndef k(n: int, y: wp.array[int]):\n    assert n > 9\n    y[7] = n\n")["k"]
    with pytest.raises(wp.CheckError, match="assertion failed"):
        wp.launch(kernel, 1, inputs=[0], outputs=[wp.zeros(3, dtype=int)])
