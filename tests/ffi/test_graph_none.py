"""`GraphMode.NONE`: the function of a `jax_callable` runs on real memory, whenever the program does."""

from __future__ import annotations

import dataclasses
import gc
import subprocess
import sys
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.interpreters import ad
from jax.sharding import PartitionSpec as P
from waiting import wait_until

import jaxwarp as wp
from jaxwarp import GraphMode, jax_callable
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.programs import python_call
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.memory.scope import Scope

X = np.arange(6, dtype=np.float32)


def none(function, **options):
    return jax_callable(function, graph_mode=GraphMode.NONE, **options)


@wp.kernel
def scale(a: wp.array[float], s: float, out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i] * s


@wp.kernel
def average(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    n = a.shape[0]
    out[i] = 0.5 * a[i] + 0.25 * (a[(i + 1) % n] + a[(i + n - 1) % n])


@wp.kernel
def accumulate(a: wp.array[float], total: wp.array[float]):
    wp.atomic_add(total, 0, a[wp.tid()] ** 2.0)


@wp.kernel
def iteration(v: wp.array[wp.vec2], by: wp.mat22, out: wp.array[wp.vec2]):
    i = wp.tid()
    out[i] = by * v[i]


@wp.kernel
def add_rows(a: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = out[i, j] + a[i, j]


# Programs that mean the same in every mode: function, arguments, options.


def smoothing(a: wp.array[float], steps: int, out: wp.array[float]):
    here, there = wp.clone(a), wp.empty_like(a)
    for _ in range(steps):
        wp.launch(average, a.shape, [here], [there])
        here, there = there, here
    wp.copy(out, here)


def ping_pong(u: wp.array[float], steps: int, total: wp.array[float], out: wp.array[float]):
    other = wp.zeros_like(u)
    for _ in range(steps):
        wp.launch(average, u.shape, [u], [other])
        wp.launch(scale, u.shape, [other, 1.5], [u])
    wp.launch(accumulate, u.shape, [u], [total])
    wp.launch(accumulate, u.shape, [u], [total])
    wp.launch(scale, u.shape, [u, 2.0], [out])


def parts(a: wp.array2d[float], out: wp.array2d[float]):
    wp.launch(scale, a.shape[1], [a[1], 10.0], [out[0]])
    out[1, 1:].fill_(7.0)
    out[1][0:1].assign(a[0, 1:2])
    wp.launch(scale, 3, [a[:, 0], 2.0], [out[:, 1]])
    wp.launch(scale, 2, [a[::-2, 1], 3.0], [out[0::2, 0]])
    wp.launch(add_rows, (2, 2), [a[::2]], [out[2:0:-1]])
    out[2, 1] = a[-1, -1]
    assert (len(a), a.ndim, a.size, a.dtype, a[0].shape, a[1:, 1].shape) == (3, 2, 6, wp.float32, (2,), (2,))


def made(v: wp.array[wp.vec2], out: wp.array[wp.vec2]):
    ones = wp.full_like(v, 1.0)
    rows = wp.full(v.shape, wp.vec2(1.0, 2.0), dtype=wp.vec2)
    assert ones.shape == v.shape == rows.shape == wp.zeros((3,), wp.vec2).shape
    out.assign(ones)
    out[1:].assign(rows[1:])
    out[2].fill_(wp.vec2(8.0, 9.0))
    rows.zero_()
    out[0:1] = rows[2:]


def ranges(a: wp.array[float], out: wp.array[float]):
    wp.copy(out, a, dest_offset=1, src_offset=3, count=2)
    wp.copy(out[4:], np.array([8.0, 9.0], np.float32))


def overlapping(a: wp.array[float], out: wp.array[float]):
    out.assign(a)
    out[1:].assign(out[:-1])
    out[:3] = out[2::-1]


def scalars(a: wp.array[float], n: int, s: float, m: wp.mat22, out: wp.array[wp.vec2]):
    wide = wp.zeros(3, wp.vec2)
    if n == 2:
        wide.fill_(3)
    wp.launch(iteration, 3, [wide, m], [out])
    row = wp.empty(6)
    wp.launch(scale, 6, [a, s], [row])
    wp.launch(scale, 6, [row, row[1]], [wp.zeros(6)])


def unwritten(a: wp.array[float], out: wp.array[float], other: wp.array2d[float]):
    wp.launch(scale, 3, [a, 2.0], [out])


M = np.array([[1, 2], [3, 4]], np.float32)
PROGRAMS = {
    "smoothing": (smoothing, (X, 5), {}),
    "no steps": (smoothing, (X, 0), {}),
    "ping-pong": (ping_pong, (X, 3, np.ones(1, np.float32)), {"num_outputs": 3, "in_out_argnames": ["u", "total"]}),
    "parts": (parts, (X.reshape(3, 2),), {}),
    "made": (made, (X.reshape(3, 2),), {}),
    "ranges": (ranges, (X,), {}),
    "overlapping": (overlapping, (X,), {}),
    "scalars": (scalars, (X, 2, 3.0, M), {"output_dims": 3}),
    "traced scalars": (scalars, (X, 2, jnp.float32(3.0), jnp.asarray(M)), {"output_dims": (3, 2)}),
    "unwritten": (unwritten, (X,), {"num_outputs": 2, "output_dims": {"out": 5, "other": (2, 3)}}),
    "empty": (smoothing, (X[:0], 2), {}),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("jit", [False, True])
def test_the_same_in_every_mode(name, jit):
    function, args, options = PROGRAMS[name]
    results = {}
    has_gaps = name in ("parts", "overlapping")  # which GraphMode.WARP refuses
    for mode in (GraphMode.JAX, GraphMode.NONE, *([] if has_gaps else [GraphMode.WARP])):
        call = jax_callable(function, graph_mode=mode, **options)
        arrays = [a for a in args if not isinstance(a, (int, float))]

        def run(*arrays, call=call):
            given = iter(arrays)
            return call(*(a if isinstance(a, (int, float)) else next(given) for a in args))

        results[mode] = [np.asarray(r) for r in (jax.jit(run) if jit else run)(*arrays)]
    for expected, *others in zip(*results.values(), strict=True):
        for got in others:
            assert got.shape == expected.shape
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)


def test_reference_values():
    """The comparison above is between modes; this one is with NumPy."""
    out = none(parts)(X.reshape(3, 2))[0]
    np.testing.assert_array_equal(out, [[15, 0], [5, 9], [3, 5]])
    (got,) = none(smoothing)(X, 2)
    expected = X
    for _ in range(2):
        expected = 0.5 * expected + 0.25 * (np.roll(expected, -1) + np.roll(expected, 1))
    np.testing.assert_array_equal(got, expected)


def test_the_host_takes_part(capsys):
    def sort_if(a: wp.array[float], limit: float, out: wp.array[float]):
        host = a.numpy()
        print("largest", host.max())
        if float(a[0]) > limit:
            out.assign(np.sort(host))
        elif a[1] and int(a[1]) == a[1].item() == a.list()[1]:
            np.copyto(out.numpy(), host[::-1])
        out[0:1] = np.array([len(host)], np.float32)
        assert [float(part) for part in a] == host.tolist()

    call = jax.jit(lambda a, limit: none(sort_if)(a, limit)[0])
    a = np.array([3, 1, 2], np.float32)
    assert call(a, 1.0).tolist() == [3, 2, 3]
    assert call(a, 5.0).tolist() == [3, 1, 3]
    assert capsys.readouterr().out == "largest 3.0\n" * 2


def test_runs_on_every_execution():
    seen = []

    def record(a: wp.array[float], n: int, s: float, out: wp.array[float]):
        seen.append((a.numpy()[0].item(), n, s, type(s)))
        out.assign(a)

    call = none(record)
    for i in range(3):
        call(X + i, 7, jnp.float32(i + 0.5))
    assert seen == [(float(i), 7, i + 0.5, np.float32) for i in range(3)]


CONTROL = {
    "scan": lambda f: jax.lax.scan(lambda c, _: (f(c), c.sum()), X, None, length=4),
    "fori": lambda f: jax.lax.fori_loop(0, 5, lambda _, x: f(x), X),
    "while": lambda f: jax.lax.while_loop(lambda x: x[0] < 2.0, f, X),
    "cond": lambda f: jax.lax.cond(X[1] > 0, f, lambda x: x, X),
    "twice": lambda f: f(f(X)) + f(X),
    "checkpoint": lambda f: jax.checkpoint(f)(X),
    "eager": lambda f: f(X),
    "donate": lambda f: jax.jit(f, donate_argnums=0)(jnp.array(X)),
}


@pytest.mark.parametrize("name", CONTROL)
def test_inside_programs(name):
    run = CONTROL[name]
    got, expected = (
        jax.jit(lambda f=f: run(f))() if name not in ("eager", "donate") else run(f)
        for f in (lambda a: none(smoothing)(a, 2)[0], lambda a: jax_callable(smoothing)(a, 2)[0])
    )
    jax.tree.map(np.testing.assert_array_equal, got, expected)


@pytest.mark.parametrize("check_vma", [True, False])
def test_shard_map(check_vma):
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    x, threads = np.arange(32, dtype=np.float32), set()

    def doubled(a: wp.array[float], out: wp.array[float]):
        threads.add(threading.get_ident())
        assert a.shape == (4,)
        wp.launch(scale, a.shape, [a, 2.0], [out])

    f = jax.shard_map(lambda a: none(doubled)(a)[0], mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=check_vma)
    np.testing.assert_array_equal(jax.jit(f)(x), 2 * x)


METHODS = (None, "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


@pytest.mark.parametrize("method", METHODS)
def test_vmap(method):
    def weighted(a: wp.array[float], w: wp.array[float], s: float, total: wp.array[float], out: wp.array[float]):
        assert a.shape == w.shape == out.shape == (6,)
        out.assign(a.numpy() * w.numpy() * s)
        wp.launch(accumulate, a.shape, [a], [total])

    call = none(weighted, num_outputs=2, in_out_argnames=["total"], vmap_method=method)
    a, s = np.stack([X, 2 * X, 3 * X], 1), np.array([1, 2, 3], np.float32)
    start = np.array([0.5], np.float32)
    mapped = jax.vmap(call, in_axes=(1, None, 0, None))
    total, out = jax.jit(mapped)(a, X + 1, s, start)
    np.testing.assert_array_equal(out, [a[:, i] * (X + 1) * s[i] for i in range(3)])
    np.testing.assert_array_equal(total, [[0.5 + (a[:, i] ** 2).sum()] for i in range(3)])
    # Within another one, over the weights.
    w = np.stack([X, X + 1])
    nested = jax.vmap(mapped, in_axes=(None, 0, None, None))
    total, out = nested(a, w, s, start)
    np.testing.assert_array_equal(out, [[a[:, i] * w[j] * s[i] for i in range(3)] for j in range(2)])
    np.testing.assert_array_equal(total, [[[0.5 + (a[:, i] ** 2).sum()] for i in range(3)]] * 2)
    assert jax.vmap(call, in_axes=(1, None, 0, None))(a[:, :0], X, s[:0], start)[1].shape == (0, 6)


def test_one_call_of_xla_for_a_batch():
    calls = []

    def count(a: wp.array[float], b: wp.array[float], out: wp.array[float]):
        calls.append(b.ptr)
        out.assign(a)

    f = jax.jit(jax.vmap(lambda a, b: none(count)(a, b)[0], in_axes=(0, None)))
    text = f.lower(np.ones((4, 3), np.float32), X).compile().as_text()
    assert text.count('custom_call_target="jaxwarp_python"') == 1
    f(np.ones((4, 3), np.float32), X)
    assert len(calls) == 4
    assert len(set(calls)) == 1  # what is not batched is not copied


def test_inputs_of_the_caller_are_left_alone():
    start = jnp.asarray(X)
    (u, *_) = none(ping_pong, num_outputs=3, in_out_argnames=["u", "total"])(start, 3, np.ones(1, np.float32))
    assert np.any(u != X)
    np.testing.assert_array_equal(start, X)


@pytest.mark.parametrize("side_effect", [False, True])
def test_side_effects(side_effect):
    calls = []

    def noted(a: wp.array[float], out: wp.array[float]):
        calls.append(a.numpy().sum())

    call = none(noted, has_side_effect=side_effect)
    jax.block_until_ready(jax.jit(lambda a: (call(a), a + 1)[1])(X))
    jax.effects_barrier()
    assert len(calls) == side_effect


DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
          "float32", "float64"]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_types(dtype):
    scalar = wp.bool if dtype == "bool" else getattr(wp, dtype)

    def program(a, s, out):
        assert a.numpy().dtype == np.asarray(out).dtype == scalar.numpy
        assert type(s) is scalar.numpy.type
        temporary = wp.full_like(a, s)
        temporary[1:].assign(a[1:])
        out.assign(temporary)
        out[3] = a.numpy()[0]

    program.__annotations__ = {"a": wp.array(dtype=scalar), "s": scalar, "out": wp.array(dtype=scalar)}
    with jax.enable_x64(True):
        a = jnp.asarray([0, 1, 1, 0], dtype)
        (out,) = none(program)(a, jnp.asarray(1, dtype))
        assert out.dtype == a.dtype
        np.testing.assert_array_equal(np.asarray(out), np.asarray([1, 1, 1, 0], a.dtype))


def test_subnormal_numbers_are_not_flushed():
    def halve(a: wp.array[float], out: wp.array[float]):
        wp.launch(scale, 1, [a, 0.5], [out])
        out[1:] = np.asarray(a)[1:] * np.float32(0.5)

    small = np.full(2, 1.5e-38, np.float32)
    (got,) = none(halve)(small)
    assert got.view(jnp.int32).tolist() == (small * np.float32(0.5)).view(np.int32).tolist()
    assert 0 not in got.view(jnp.int32).tolist()


def test_threads():
    def slow(a: wp.array[float], out: wp.array[float]):
        if a.numpy()[0] == 3:
            raise ValueError("thread three")
        for _ in range(10):
            wp.launch(scale, a.shape, [a, 2.0], [out])

    run = jax.jit(lambda a: none(slow)(a)[0])
    outcomes = {}

    def work(n):
        try:
            for _ in range(20):
                outcomes[n] = np.asarray(run(X + n))
        except Exception as error:
            outcomes[n] = error

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert "callable slow: ValueError: thread three" in str(outcomes.pop(3))
    for n, y in outcomes.items():
        np.testing.assert_array_equal(y, 2 * (X + n))
    assert len(outcomes) == 5


def test_a_function_lives_as_long_as_its_programs():
    def make():
        def once(a: wp.array[float], out: wp.array[float]):
            out.assign(a)

        return once, weakref.ref(once)

    function, alive = make()
    compiled = jax.jit(lambda a, f=function: none(f)(a)[0]).lower(X).compile()
    before = len(python_call._calls)
    del function
    jax.clear_caches()
    gc.collect()
    np.testing.assert_array_equal(compiled(X), X)
    assert alive() is not None
    del compiled
    jax.clear_caches()
    wait_until(lambda: alive() is None)
    wait_until(lambda: len(python_call._calls) < before)


def test_a_program_survives_the_callable_and_jaxs_caches():
    def program():
        def local(a: wp.array[float], out: wp.array[float]):
            out.fill_(5.0)

        return jax.jit(lambda a: none(local)(a)[0])

    run = program()
    for _ in range(3):
        assert run(X).tolist() == [5.0] * 6
        gc.collect()


def test_calls_leave_nothing_behind():
    call = none(smoothing)

    def objects():
        for _ in range(100):
            jax.block_until_ready(call(X, 3))
        gc.collect()
        return len(gc.get_objects())

    objects()
    before = objects()
    assert objects() - before < 100


# Errors


def fails(program, *args, **options):
    """The text of the error that JAX raises while the program runs."""
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(none(program, **options)(*(args or (X,))))
    return str(caught.value)


def test_errors_while_it_runs():
    def raises(a: wp.array[float], out: wp.array[float]):
        raise KeyError("no such thing")

    def writes_input(a: wp.array[float], out: wp.array[float]):
        wp.launch(scale, a.shape, [out, 2.0, a])

    def assigns_input(a: wp.array[float], out: wp.array[float]):
        a[0] = 3.0

    def wrong_shape(a: wp.array[float], out: wp.array[float]):
        wp.copy(out, a[1:])

    def wrong_type(a: wp.array[float], out: wp.array[float]):
        out.assign(np.arange(6, dtype=np.int32))

    def index(a: wp.array[float], out: wp.array[float]):
        out[6].fill_(1.0)

    def returns(a: wp.array[float], out: wp.array[float]):
        return out

    def asks_jax(a: wp.array[float], out: wp.array[float]):
        out.assign(jnp.sin(a.value))

    def same(a: wp.array[float], out: wp.array[float]):
        wp.launch(average, 3, [out[0:3]], [out])

    def truth(a: wp.array[float], out: wp.array[float]):
        if a:
            pass

    def fill(a: wp.array[float], out: wp.array[float]):
        wp.zeros(3, int).fill_(3e9)

    expected = {
        raises: "callable raises: KeyError: 'no such thing'",
        writes_input: "array 'a' is an input and cannot be written by kernel scale",
        assigns_input: "array 'a' is an input and cannot be written\n  hint: name it in in_out_argnames=['a']",
        wrong_shape: "array 'out': expected float32 of shape (6,), got float32 of shape (5,)",
        wrong_type: "array 'out': expected float32 of shape (6,), got int32 of shape (6,)",
        index: "array 'out': index 6 is out of range, the extent is 6",
        returns: "callable returns: expected a function that returns nothing, it returned LiveArray",
        asks_jax: "array 'a' has no JAX value while its function runs on real memory",
        same: "argument 'out' is written by the kernel, and shares memory with argument 'a'",
        truth: "array 'a' has 6 elements, and is no single value",
        fill: "array 'zeros': expected values of int32, from -2147483648 to 2147483647",
    }
    for program, text in expected.items():
        got = fails(program)
        assert f"callable {program.__name__}: " in got
        assert text in got, got
        if program is not returns:
            assert f"test_graph_none.py:{program.__code__.co_firstlineno + 1}" in got, got
    np.testing.assert_array_equal(none(smoothing)(X, 0)[0], X)  # the next program runs


def test_use_after_the_call():
    kept = []

    def keep(a: wp.array[float], out: wp.array[float]):
        kept[:] = [a, out[1:], wp.zeros(3)]

    jax.block_until_ready(none(keep)(X))
    for array in kept:
        for use in (np.asarray, len, lambda b: b.shape, lambda b: b.ptr, lambda b: b[0], lambda b: b.fill_(1),
                    lambda b: b.__dlpack__(), lambda b: b.__dlpack_device__(), float):  # fmt: skip
            with pytest.raises(KernelValueError) as caught:
                use(array)
            assert str(caught.value).startswith(f"array '{array.name}' is used after its callable has returned\n")


def test_a_view_that_outlives_the_call():
    kept = []

    def keep(a: wp.array[float], how: int, out: wp.array[float]):
        match how:
            case 0:
                kept.append(a.numpy()[1:])
            case 1:
                kept.append(np.from_dlpack(out))
            case 2:
                kept.append(np.array(a))
            case 3:
                kept.append(wp.zeros(3).numpy())
            case 4:
                cycle = [a.numpy()]
                cycle.append(cycle)
            case 5:
                kept.append(np.asarray(a)[2:])
            case 6:
                kept.append(np.ctypeslib.as_array(out))
            case 7:
                kept.append(out)

    assert "callable keep: KernelValueError: a view of array 'a' outlives the callable" in fails(keep, X, 0)
    kept.clear()
    assert "a view of array 'out' outlives the callable" in fails(keep, X, 1)
    kept.clear()
    for how, name in ((5, "a"), (6, "out")):
        assert f"a view of array '{name}' outlives the callable" in fails(keep, X, how)
        kept.clear()
    for how in (2, 3, 4, 7):
        jax.block_until_ready(none(keep)(X, how))
    np.testing.assert_array_equal(kept[0], X)
    np.testing.assert_array_equal(kept[1], [0, 0, 0])


def test_arrays_of_another_call():
    other = Scope("callable", 0)
    theirs = LiveArray(other, "theirs", wp.array(dtype=float), other.make(np.dtype(np.float32), (6,)), True)

    def launches(a: wp.array[float], out: wp.array[float]):
        wp.launch(scale, 6, [theirs, 2.0], [out])

    def copies(a: wp.array[float], out: wp.array[float]):
        out.assign(theirs)

    for program in (launches, copies):
        assert "array 'theirs' belongs to another call\n" in fails(program)


def test_methods_of_objects_without_a_hash():
    @dataclasses.dataclass
    class Solver:
        factor: float

        def step(self, a: wp.array[float], out: wp.array[float]):
            wp.launch(scale, a.shape, [a, self.factor], [out])

    call = none(Solver(3.0).step)
    np.testing.assert_array_equal(jax.jit(lambda a: call(a)[0])(X), 3 * X)
    np.testing.assert_array_equal(jax.vmap(lambda a: call(a)[0])(np.stack([X, X])), [3 * X] * 2)


def test_derivatives_are_refused():
    f = lambda a: none(smoothing)(a, 1)[0].sum()  # noqa: E731
    for run in (jax.grad(f), jax.hessian(f), lambda x: jax.jvp(f, (x,), (x,)), lambda x: jax.linearize(f, x)):
        with pytest.raises(KernelTypeError) as caught:
            run(X)
        assert str(caught.value).startswith("callable smoothing has GraphMode.NONE and no derivative: ")
        assert "use GraphMode.JAX" in str(caught.value)
    with pytest.raises(KernelTypeError, match="no derivative"):
        jax.linear_transpose(f, X)(jnp.float32(1))
    # Through what does not depend on it, derivatives are as ever.
    g = jax.grad(lambda a: (a * none(smoothing)(jax.lax.stop_gradient(a), 0)[0]).sum())(X)
    np.testing.assert_array_equal(g, X)


def test_the_rule_for_tangents_that_are_zero():
    """JAX does not ask for it today, but may: symbolic zeros, and those of integers."""
    (equation,) = jax.make_jaxpr(lambda a: none(smoothing)(a, 1)[0])(X).eqns
    rule = ad.primitive_jvps[equation.primitive]
    for zero in (ad.Zero(jax.typeof(X).to_tangent_aval()), np.zeros(X.shape, jax.dtypes.float0)):
        results, tangents = rule([X], [zero], **equation.params)
        np.testing.assert_array_equal(results[0], none(smoothing)(X, 1)[0])
        assert [(type(t), t.aval.shape, t.aval.dtype) for t in tangents] == [(ad.Zero, X.shape, X.dtype)]


def test_a_rule_by_hand():
    @jax.custom_vjp
    def twice(a):
        return none(lambda_twice)(a)[0]

    def lambda_twice(a: wp.array[float], out: wp.array[float]):
        out.assign(2 * a.numpy())

    twice.defvjp(lambda a: (twice(a), None), lambda _, g: (2 * g,))
    np.testing.assert_array_equal(jax.grad(lambda a: twice(a).sum())(X), np.full(6, 2))


def test_the_same_memory_in_other_shapes():
    """Parts, other shapes, orders of axes and types of an array are launched on, and written, in place."""

    @wp.kernel
    def scaled(a: wp.array2d[float], by: float, out: wp.array2d[float]):
        i, j = wp.tid()
        out[i, j] = a[i, j] * by

    @wp.kernel
    def turned(a: wp.array[wp.vec2], out: wp.array[wp.vec2]):
        i = wp.tid()
        out[i] = wp.vec2(-a[i][1], a[i][0])

    @none
    def shapes(a: wp.array[float], out: wp.array[float]):
        b = wp.empty_like(out)
        wp.launch(scaled, (3, 2), [a.reshape((2, 3)).transpose(), 2.0, b.reshape(2, -1).transpose()])
        wp.launch(scaled, (3, 2), [b.reshape(shape=(3, 2)), 3.0, out.reshape((3, 2))])
        vectors = out.reshape((3, 2)).view(wp.vec2)
        assert vectors.shape == (3,)
        assert vectors.view(float).flatten().shape == (6,)
        wp.launch(turned, 2, [vectors[1:], vectors[1:]])

    x = X + 1.0
    expected = (6.0 * x).reshape(3, 2)
    expected[1:] = np.stack([-expected[1:, 1], expected[1:, 0]], 1)
    for _ in range(2):
        np.testing.assert_array_equal(shapes(x)[0], expected.ravel())

    @none
    def gaps(a: wp.array[float], out: wp.array[float]):
        a.reshape((2, 3)).transpose().flatten()

    with pytest.raises(jax.errors.JaxRuntimeError, match=r"(?s)gaps between its elements.*take a clone\(\.\.\.\)"):
        gaps(x)


def test_export_is_refused():
    for checks in ([], [export.DisabledSafetyCheck.custom_call("jaxwarp_python")], wp.export_checks()):
        with pytest.raises(KernelValueError, match=r"callable smoothing has GraphMode\.NONE and cannot be exported"):
            export.export(jax.jit(lambda a: none(smoothing)(a, 1)[0]), disabled_checks=checks)(X)


def test_a_program_from_elsewhere():
    """What has no function here says so: the attribute is that of another process."""
    jax.block_until_ready(none(smoothing)(X, 1))
    call = jax.ffi.ffi_call("jaxwarp_python", jax.ShapeDtypeStruct(X.shape, X.dtype))
    with pytest.raises(jax.errors.JaxRuntimeError, match="calls a Python function of another process"):
        jax.block_until_ready(call(X, key="0123456789abcdef-1"))


def test_a_process_that_ends_early():
    code = (
        "import jax, numpy as np, jaxwarp as wp, time\n"
        "def slow(a: wp.array[float], out: wp.array[float]): time.sleep(0.3); out.fill_(1)\n"
        "f = wp.jax_callable(slow, graph_mode=wp.GraphMode.NONE)\n"
        "y = jax.jit(lambda x: f(x)[0])(np.ones(4, np.float32))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
