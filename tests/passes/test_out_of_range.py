"""Launches that are certain to leave an array are refused, in every mode. The interpreter says which do."""

from __future__ import annotations

import collections
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from language import define
from stray_programs import stray_programs

import jaxwarp as wp
from jaxwarp.errors import KernelValueError, OutOfRangeError
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.checks import out_of_range
from jaxwarp.passes.checks.out_of_range import require_in_range

RANDOM = settings(max_examples=80, phases=[Phase.reuse, Phase.generate], suppress_health_check=list(HealthCheck))


@wp.kernel
def difference(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i + 1] - x[i]


DIFFERENCE = "difference: thread (3,): index 4 of axis 0 of array x is out of range; its extent is 4"


def told(kernel, grid, *shapes):
    """The refusal of a launch, without its line; None if it is not refused."""
    grid = (grid,) if isinstance(grid, int) else grid
    try:
        require_in_range(kernel.specialize(), grid, shapes, "dim=...")
    except OutOfRangeError as error:
        return error.message
    return None


def raised(kernel, grid, shapes, seed):
    """What the interpreter says of a launch on some data."""
    rng = np.random.default_rng(seed)
    buffers = [rng.integers(-3, 9, shape).astype(np.int32) for shape in shapes]
    try:
        interpret(kernel.specialize(), grid, buffers, max_steps=10_000)
    except OutOfRangeError as error:
        return error.message
    return None


def drawn(data, is_data):
    """A random program, lowered, and a launch of it."""
    rank = data.draw(st.integers(1, 2))
    source = data.draw(stray_programs(rank, is_data))
    grid = tuple(data.draw(st.integers(1, 6)) for _ in range(rank))
    p, *q = (data.draw(st.integers(1, 7)) for _ in range(3))
    kernel = define(source)["program"]
    try:
        kernel.specialize()
    except KernelValueError:  # a constant beyond an array of the thread's own: refused by itself
        assume(False)
    return source, kernel, grid, [(p,), tuple(q), (8,), (), (4, 6)]


@RANDOM
@given(st.data())
def test_every_stray_access_that_threads_and_extents_decide_is_refused(data):
    source, kernel, grid, shapes = drawn(data, False)
    expected, got = raised(kernel, grid, shapes, 0), told(kernel, grid, *shapes)
    assert (got is None) == (expected is None), f"{source}\n{grid} {shapes}: {got}; {expected}"
    if "for " not in source and "while " not in source:  # of a loop all iterations are looked at together
        assert got == expected, f"{source}\n{grid} {shapes}"


@RANDOM
@given(st.data())
def test_no_false_alarm_where_data_decide(data):
    """What is refused goes astray whatever the data are."""
    source, kernel, grid, shapes = drawn(data, True)
    got = told(kernel, grid, *shapes)
    for seed in range(4) if got is not None else ():
        assert raised(kernel, grid, shapes, seed) is not None, f"{source}\n{grid} {shapes}: {got}"


@wp.kernel
def fifth_last(x: wp.array[float], y: wp.array[float]):
    if y[0] == 0.0:
        y[wp.tid()] = x[-5]


def test_a_constant_index_from_the_end_is_named_as_it_is_written(monkeypatch):
    text = "index -5 of axis 0 of array x is out of range; its extent is 4"
    with pytest.raises(OutOfRangeError, match=text):
        interpret(fifth_last.specialize(), (2,), [np.zeros(4, np.float32), np.zeros(2, np.float32)])
    plain = define("@wp.kernel\ndef k(x: wp.array[float], y: wp.array[float]):\n    y[wp.tid()] = x[-5]\n")["k"]
    with pytest.raises(OutOfRangeError, match=text) as refused:
        wp.launch(plain, 2, [wp.zeros(4)], [wp.zeros(2)])
    assert "or from -4 to -1" in refused.value.hint
    monkeypatch.setattr(wp.config, "mode", "debug")
    with pytest.raises(wp.errors.CheckError, match=text):
        wp.launch(fifth_last, 2, [wp.zeros(4)], [wp.zeros(2)])


def chain(x: wp.array[float], y: wp.array[float]):
    wp.launch(difference, dim=x.shape[0], inputs=[x], outputs=[y])


def on_buffers(inputs, outputs, attrs, ctx):
    wp.launch(difference, dim=4, inputs=inputs, outputs=outputs)


def called_back(x):
    wp.register_ffi_callback("out_of_range_difference", on_buffers)
    return jax.ffi.ffi_call("out_of_range_difference", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def taped(x):
    with wp.Tape():
        chain(wp.array(np.asarray(x)), wp.zeros(4, dtype=float))


def adjoint(x):
    a = [wp.array(np.asarray(x)) for _ in range(4)]
    wp.launch(difference, 4, [a[0]], [a[1]], [a[2]], [a[3]], adjoint=True)


single = wp.jax_kernel(difference)
MODES = {
    "eager": single,
    "jit": jax.jit(single),
    "vmap": lambda x: jax.vmap(single)(jnp.stack([x, x])),
    "grad": jax.grad(lambda x: single(x)[0].sum()),
    "scan": lambda x: jax.lax.scan(lambda c, _: (single(c)[0], None), x, length=2),
    "NumPy": lambda x: single(np.asarray(x)),
    "callable": wp.jax_callable(chain, graph_mode=wp.GraphMode.JAX),
    "callable, one call": wp.jax_callable(chain, graph_mode=wp.GraphMode.WARP),
    "callable in Python": wp.jax_callable(chain, graph_mode=wp.GraphMode.NONE),
    "callback": called_back,
    "launch": lambda x: chain(np.array(x), np.zeros(4, np.float32)),
    "launch of arrays": lambda x: chain(wp.array(np.asarray(x)), wp.zeros(4, dtype=float)),
    "tape": taped,
    "adjoint": adjoint,
}


@pytest.mark.parametrize("mode", MODES)
def test_every_way_to_launch(mode):
    """Also when it is called again."""
    for _ in range(2):
        with pytest.raises(Exception, match="difference: thread") as caught:
            jax.block_until_ready(MODES[mode](jnp.arange(4.0)))
        assert DIFFERENCE in str(caught.value)
        if not isinstance(caught.value, jax.errors.JaxRuntimeError):
            assert isinstance(caught.value, wp.KernelError)
            assert isinstance(caught.value, IndexError)


def test_what_the_error_says():
    with pytest.raises(OutOfRangeError) as caught:
        single(jnp.arange(4.0))
    line = difference.func.__code__.co_firstlineno + 3
    assert str(caught.value) == (
        f"{DIFFERENCE}\n  {__file__}:{line}, in difference\n"
        "    y[i] = x[i + 1] - x[i]\n"
        "           ^^^^^^^^\n"
        "  hint: reach it under a condition, or clamp the index with min and max, or launch fewer threads:"
        " launch_dims=..."
    )
    y = wp.jax_kernel(difference, launch_dims=3)(jnp.arange(4.0))[0]
    assert y.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(OutOfRangeError, match=r"launch fewer threads: dim=\.\.\."):
        wp.launch(difference, 4, [np.zeros(4, np.float32)], [np.zeros(4, np.float32)])


@wp.kernel
def before(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = x[i, j - 4]


@wp.kernel
def wide(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]


@wp.kernel
def fifth(x: wp.array[float], y: wp.array[float]):
    y[wp.tid()] = x[4] + x[-3]


@wp.kernel
def own(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    kept = wp.zeros(4, dtype=float)
    for k in range(x.shape[0]):
        kept[k] = x[k]
    y[i] = kept[0]


@wp.func
def third(v: wp.array[wp.vec3], i: int, k: int):
    return v[i][k]


@wp.kernel
def component(v: wp.array[wp.vec3], y: wp.array[float]):
    i = wp.tid()
    y[i] = third(v, 0, i)


@wp.kernel
def last_iteration(x: wp.array2d[float], y: wp.array[float]):
    i = wp.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k + 1]
    y[i] = total


@pytest.mark.parametrize(
    ("kernel", "grid", "shapes", "expected"),
    [
        (before, (2, 3), [(2, 3), (2, 3)], ((0, 0), -4, 1, "x", 3)),
        (wide, 8, [(8,), (7,)], ((7,), 7, 0, "y", 7)),
        (wide, 8, [(5,), (8,)], ((5,), 5, 0, "x", 5)),
        (fifth, 2, [(4,), (2,)], ((0,), 4, 0, "x", 4)),
        (fifth, 2, [(5,), (1,)], ((1,), 1, 0, "y", 1)),
        (own, 2, [(5,), (2,)], ((0,), 4, 0, "kept", 4)),
        (component, 4, [(1, 3), (4,)], ((3,), 3, 1, "v", 3)),
        (last_iteration, 2, [(2, 9000), (2,)], ((0,), 9000, 1, "x", 9000)),
        # Large launches: the last thread of many, and one in the middle, where an array ends.
        (wide, 10**9, [(10**9,), (10**9 - 1,)], ((999999999,), 999999999, 0, "y", 999999999)),
        (wide, 10**9, [(10**9,), (10**6,)], ((1000000,), 1000000, 0, "y", 1000000)),
    ],
)
def test_what_is_found(kernel, grid, shapes, expected):
    assert told(kernel, grid, *shapes) == OutOfRangeError.at(kernel.name, *expected).message


def test_no_threads_reach_nothing():
    assert told(difference, 0, (4,), (4,)) is None
    assert wp.jax_kernel(difference)(jnp.zeros(0))[0].shape == (0,)
    wp.launch(difference, 0, [np.zeros(4, np.float32)], [np.zeros(4, np.float32)])


@wp.kernel
def guarded(x: wp.array[float], n: int, flags: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if n > 0:
        y[i] = x[i + 1]
    if flags[i] > 0 and i >= 0:
        y[i] = x[i + 2]
    if i + 1 < x.shape[0] or flags[i] == 0:
        y[i] = x[i + 1]
    if flags[i] == 3:
        return
    y[i] = x[i + flags[i]]
    k = i
    while x[k] > 0.0:
        k += 1
    y[i] = x[k]
    if i < x.shape[0] - 1:
        y[i] = x[i + 1]
    y[i] += x[i + 1] if i + 1 < len(x) else 0.0
    for j in range(i, n):
        y[i] = x[j + 100]
    if flags[i] < 5:
        return
    y[i] = x[i + 1]


def test_guards_silence_it():
    x, flags = jnp.zeros(4), jnp.zeros(4, jnp.int32)
    (y,) = wp.jax_kernel(guarded, launch_dims=4)(x, 0, flags)
    assert y.tolist() == [0.0] * 4
    assert told(guarded, 4, (4,), (), (3,), (4,)).startswith("guarded: thread (3,): index 3 of axis 0 of array flags")


@wp.kernel
def other_side(x: wp.array[float], flags: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if i + 1 < x.shape[0] and flags[i] > 0:
        y[i] = 1.0
    else:
        y[i] = x[i + 1]


def test_a_side_that_one_part_of_a_condition_decides():
    expected = "other_side: thread (3,): index 4 of axis 0 of array x is out of range; its extent is 4"
    assert told(other_side, 4, (4,), (4,), (4,)) == expected
    assert told(other_side, 3, (4,), (4,), (4,)) is None


@wp.jax_kernel(outputs="y")
def added(x: wp.array[float], z: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + z[i]


@wp.jax_kernel(outputs="y")
def ahead(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i + 2] - x[i]


@wp.jax_kernel(outputs="y")
def in_front(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i < y.shape[0]:
        y[i] = x[i]


@wp.jax_kernel(outputs="y")
def paired(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[2 * i] + x[2 * i + 1]


def pairs(x):
    half = (x.shape[0] + 1) // 2
    return paired(x, launch_dims=half, output_dims=half)


def first(count):
    """Adds the first elements of its arrays."""
    return lambda x, *others: added(x, (others or (x,))[-1], launch_dims=count, output_dims=count)


def exported_for(call, shapes, *constraints):
    """Export a program; each of the shapes is written as JAX takes it, such as "n, 3"."""
    scope = jax.export.SymbolicScope(constraints)
    arrays = [jax.ShapeDtypeStruct(jax.export.symbolic_shape(s, scope=scope), np.float32) for s in shapes]
    return jax.export.export(jax.jit(call), disabled_checks=wp.export_checks())(*arrays)


def ahead_by(fewer):
    return lambda x: ahead(x, launch_dims=x.shape[0] - fewer, output_dims=x.shape[0] - fewer)


SYMBOLIC = [
    # program, shapes, constraints, what the error says; None: it is right
    (lambda x: ahead(x, launch_dims=2 * x.shape[0], output_dims=2 * x.shape[0]), ["n"], [], "n=1"),
    (ahead_by(1), ["n"], [], "n=2: ahead: thread (0,): index 2 of axis 0 of array x"),
    (ahead_by(1), ["2*n+3"], [], "n=1: ahead: thread (3,): index 5"),
    (ahead_by(2), ["n"], [], None),
    (ahead_by(2), ["2*n"], ["n >= 4"], None),
    (added, ["n", "n"], [], None),
    (added, ["n", "m"], [], "m=48, n="),
    (added, ["n", "m"], ["m >= n"], None),
    (added, ["n", "m"], ["m >= n + 1"], None),
    (added, ["m", "n"], ["m >= n + 1"], "m=2, n=1: added: thread (1,): index 1 of axis 0 of array z"),
    (added, ["m", "n"], ["m == 2*n"], "m=2, n=1"),
    (added, ["n", "m"], ["m == 2*n"], None),
    (added, ["7*floordiv(n, 7)", "n"], ["mod(n, 7) == 0"], None),
    # Sizes for which it is wrong may never come.
    (lambda x: ahead(x, launch_dims=10, output_dims=10), ["n"], [], None),
    (lambda x: ahead(x[:3], launch_dims=x.shape[0], output_dims=x.shape[0]), ["n"], ["n >= 3"], "n=3"),
    (lambda x: added(x, np.ones(40, np.float32)), ["n"], [], None),
    (lambda x: added(x, np.ones(40, np.float32)), ["n"], ["n >= 41"], "n=48"),
    (lambda x, y: added(x, np.ones(40, np.float32)) + y[0], ["n", "m"], [], None),
    # Right for large sizes alone, or for few pairs.
    (first(7000), ["n"], [], None),
    (first(100), ["n", "m"], ["m >= n + 1"], None),
    (first(10), ["a", "b", "c", "d"], ["a >= b + 1"], None),
    (first(100), ["n", "m"], ["m == n + 1"], None),
    (first(100), ["a", "b", "c"], ["a == b + 1", "b == c + 1"], None),
    (lambda x, z, _: added(x, z), ["a", "b", "c"], ["a == b + 1", "b == c + 1"], "a=3, b=2, c=1: added: thread (2,)"),
    (lambda x, y: first(3)(x[y.shape[0] :], x), ["n", "m"], ["n >= m"], None),
    (added, ["n", "m"], ["n >= 20000"], "m=20160, n="),
    (lambda x, y: pairs(jnp.concatenate((x, y))), ["n", "m"], [], None),
    # More elements than an index counts, and numbers that are not there, for some sizes.
    (lambda x: in_front(x.reshape(-1), output_dims=x.size), ["n, m, k"], [], None),
    (lambda x, y: in_front(x, output_dims=x.shape[0] // (y.shape[0] - 1)), ["n", "m"], ["m >= 2"], None),
    (lambda x, y: in_front(x, output_dims=x.shape[0] // (y.shape[0] - 1)), ["n", "m"], [], None),
]


@pytest.mark.parametrize(("call", "shapes", "constraints", "said"), SYMBOLIC)
def test_symbolic_extents_are_looked_at_with_numbers(call, shapes, constraints, said):
    if said is None:
        exported_for(call, shapes, *constraints)
        return
    with pytest.raises(OutOfRangeError, match=re.escape(f"with the symbolic extents {said}")) as caught:
        exported_for(call, shapes, *constraints)
    assert "test_out_of_range.py" in str(caught.value)
    assert "constraints=" in caught.value.hint


def test_a_derivative_is_not_refused_for_its_own_arrays():
    """Its records and sweeps are no accesses of the user's."""

    @wp.kernel
    def powers(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        value = x[i]
        for _ in range(x.shape[0]):
            value = value * value * 0.5
        y[i] = value

    x = jnp.array([1.5, 1.25, 1.0])
    expected = [8 * v**7 * 0.5**7 for v in x.tolist()]
    np.testing.assert_allclose(jax.grad(lambda x: wp.jax_kernel(powers)(x)[0].sum())(x), expected, rtol=1e-6)


def test_it_is_looked_at_once(monkeypatch):
    """Per kernel, grid and extents: not by a call that is like one before."""
    seen = collections.Counter()
    search = out_of_range._Search

    def counting(kernel, grid, shapes):
        seen[kernel.name, grid] += 1
        return search(kernel, grid, shapes)

    monkeypatch.setattr(out_of_range, "_Search", counting)

    @wp.kernel
    def reversed_(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[x.shape[0] - 1 - i]

    for n in (3, 3, 5):
        for _ in range(3):
            wp.jax_kernel(reversed_)(jnp.zeros(n))
            jax.jit(wp.jax_kernel(reversed_))(jnp.zeros(n))
            wp.launch(reversed_, n, [np.zeros(n, np.float32)], [np.zeros(n, np.float32)])
    assert seen == {("reversed_", (3,)): 1, ("reversed_", (5,)): 1}


@wp.kernel
def laborious(x: wp.array3d[float], y: wp.array3d[float]):
    i, j, k = wp.tid()
    at = i
    for a in range(1000):
        for b in range(1000):
            at = (at * 5 + a * b) % x.shape[0]
            if a < i * b:
                y[at, j, k] = x[(at + i + j + k) % x.shape[0], j, (a * b) % x.shape[2]]


def test_work_is_bounded():
    shape = (500, 400, 300)
    search = out_of_range._Search(laborious.specialize(), shape, dict.fromkeys(laborious.specialize().params, shape))
    with pytest.raises(out_of_range._TooMuchError):
        search.run()
    assert search.steps > -2
    assert search.work > -2 * out_of_range._MOST_NUMBERS * 8
    assert told(laborious, shape, shape, shape) is None


GRIDS = [(3,), (16384,), (16385,), (10**9,), (3, 10**7), (200, 300, 400), (1, 1, 1, 1), (7, 2, 10**6)]


@pytest.mark.parametrize("grid", GRIDS)
def test_what_is_looked_at_of_large_launches(grid):
    """All threads if they are few, else some at both ends of each axis and at every landmark."""
    search = out_of_range._Search(wide.specialize(), grid, dict.fromkeys(wide.specialize().params, (grid[-1] // 2,)))
    points = [set(axis.tolist()) for axis in search.threads]
    assert np.prod([len(p) for p in points]) <= 1 << 14
    for extent, found in zip(grid, points, strict=True):
        assert found <= set(range(extent)) if extent < 10**4 else max(found) < extent
        assert {0, extent - 1} <= found
        if np.prod(grid) <= 1 << 14:
            assert found == set(range(extent))
    if grid[-1] > 1 << 14:
        assert {grid[-1] // 2 - 1, grid[-1] // 2} <= points[-1]
