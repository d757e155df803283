"""`GraphMode.WARP`: a callable as one operation. Here its launches run in order; graphs are in test_native_cuda.py."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import PartitionSpec as P
from test_jax_callable import TRANSFORMS, X, accumulate, average, averaged, scale, smoothing

import jaxwarp as wp
from jaxwarp import GraphMode, jax_callable
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.native import library

smooth = jax_callable(smoothing)
smooth_warp = jax_callable(smoothing, graph_mode=GraphMode.WARP)


def both(program, *args, **options):
    """The results under GraphMode.WARP, which must be exactly those under GraphMode.JAX."""
    made = jax_callable(program, graph_mode=GraphMode.WARP, **options)(*args)
    expected = jax_callable(program, **options)(*args)
    for got, want in zip(made, expected, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    return made


def recording(program, *args, **options):
    """What was recorded, from the printed program."""
    call = jax_callable(program, graph_mode=GraphMode.WARP, **options)
    (equation,) = [e for e in jax.make_jaxpr(call)(*args).eqns if e.primitive.name == "jaxwarp_program"]
    return equation.params["recording"]


@pytest.mark.release_mode("GraphMode.WARP is launches then")
@pytest.mark.parametrize("mode", list(GraphMode))
def test_a_callable_knows_its_graph_mode(mode):
    def nothing(x: wp.array[float], y: wp.array[float]):
        pass

    assert wp.jax_callable(nothing, graph_mode=mode).graph_mode is mode
    assert wp.jax_callable(nothing, graph_mode=int(mode)).graph_mode is mode


@pytest.mark.release_mode("GraphMode.WARP is launches then")
@pytest.mark.parametrize("mode", [GraphMode.WARP_STAGED, GraphMode.WARP_STAGED_EX])
def test_staged_modes_are_one_operation_too(mode):
    call = jax_callable(smoothing, graph_mode=mode, stage_out_argnames=["out"])
    assert [e.primitive.name for e in jax.make_jaxpr(lambda a: call(a, 5))(X).eqns] == ["jaxwarp_program"]
    np.testing.assert_array_equal(call(X, 5)[0], smooth(X, 5)[0])


def test_a_callable_is_one_operation_with_scratch_memory_of_xlas():
    text = jax.jit(lambda a: smooth_warp(a, 50)[0]).lower(X).compile().as_text()
    assert text.count("custom-call(") == 1
    assert 'custom_call_target="jaxwarp_program"' in text
    assert "(f32[6]{0}, f32[6]{0}, f32[6]{0}) custom-call" in text
    before = library.counter("executions")
    np.testing.assert_array_equal(smooth_warp(X, 5)[0], smooth(X, 5)[0])
    assert library.counter("executions") == before + 1 + 5


@pytest.mark.release_mode("GraphMode.WARP is launches then")
def test_code_is_carried_once_for_many_launches():
    text = jax.jit(lambda a: smooth_warp(a, 200)[0]).lower(X).as_text()
    assert text.count("JAXWARP") == 1
    assert text.count("kernel0_symbol") == 1
    assert "kernel1_symbol" not in text


def test_in_out_arguments_and_accumulation():
    def program(a: wp.array[float], total: wp.array[float], out: wp.array[float]):
        wp.launch(accumulate, a.shape, [a], [total])
        wp.launch(accumulate, a.shape, [a], [total])
        wp.launch(scale, a.shape, [a, 2.0], [out])

    start = jnp.array([1.0], jnp.float32)
    total, out = both(program, X, start, num_outputs=2, in_out_argnames=["total"])
    np.testing.assert_allclose(total, [1 + 2 * (X**2).sum()])
    np.testing.assert_array_equal(out, 2 * X)
    np.testing.assert_array_equal(start, [1.0])
    call = jax_callable(program, num_outputs=2, in_out_argnames=["total"], graph_mode=GraphMode.WARP)
    donated = jax.jit(call, donate_argnums=1)(X, jnp.array([1.0], jnp.float32))
    np.testing.assert_array_equal(donated[0], total)


def test_parts_of_arrays_copies_and_fills():
    def program(a: wp.array3d[float], out: wp.array3d[float]):
        wp.launch(scale, a.shape[2], [a[1, 2], 10.0], [out[0, 1]])
        out[1, 1:3].fill_(7.0)
        out[1, 0, 1:].assign(a[0, 0, :-1])
        out[0, 2][1:4] = a[0, 1, 1:4]
        out[0, 2][2:4].assign(out[0, 2][1:3])  # overlaps
        out[0, 0].zero_()
        assert (a[1].ndim, a[0, 1:2].shape, a[-1][0].shape, len(a[0][3:3])) == (2, (1, 4), (4,), 0)

    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    (out,) = both(program, a)
    expected = np.zeros_like(a)
    expected[0, 1], expected[1, 1:3], expected[1, 0, 1:] = 10 * a[1, 2], 7, a[0, 0, :-1]
    expected[0, 2] = [0, 5, 5, 6]
    np.testing.assert_array_equal(out, expected)


def test_copy_of_a_range():
    def program(a: wp.array[float], out: wp.array[float]):
        wp.copy(out, a, dest_offset=1, src_offset=3, count=2)

    np.testing.assert_array_equal(both(program, X)[0], [0, 3, 4, 0, 0, 0])


FLOATS = [wp.float16, wp.bfloat16, wp.float32, wp.float64]
INTEGERS = [wp.int8, wp.int16, wp.int32, wp.int64, wp.uint8, wp.uint32]


@pytest.mark.parametrize("dtype", [wp.bool, *INTEGERS, *FLOATS], ids=str)
def test_fills_of_every_type(dtype):
    values = [0, 1, True] if dtype is wp.bool else [0, 1, 3, 100, np.int32(7), jnp.int32(5)]
    if dtype in FLOATS:
        values += [0.1, -0.0, -1, float("inf"), np.float32(0.3), jnp.float32(0.5)]

    def program(like, out):
        for i, value in enumerate(values):
            out[i].fill_(value)

    program.__annotations__ = {"like": wp.array[float], "out": wp.array2d[dtype]}
    with jax.enable_x64(dtype in (wp.int64, wp.float64)):
        (out,) = both(program, np.zeros(5, np.float32), output_dims=(len(values), 5))
        for row, value in zip(np.asarray(out), values, strict=True):
            np.testing.assert_array_equal(row, np.asarray(value).astype(dtype.numpy))


def test_made_arrays_of_vectors():
    def program(v: wp.array[wp.vec3], out: wp.array2d[wp.vec3]):
        out[0].assign(wp.full_like(v, 1.5))
        out[1].assign(wp.full(2, wp.vec3(1.0, 2.0, 3.0), dtype=wp.vec3))
        out[2].assign(wp.empty(2, wp.vec3))
        out[3].assign(wp.clone(v))
        wp.copy(out[3], out[1], dest_offset=1, src_offset=0, count=1)

    v = np.arange(6, dtype=np.float32).reshape(2, 3)
    (out,) = both(program, v, output_dims=(4, 2))
    np.testing.assert_array_equal(out, [[[1.5] * 3] * 2, [[1, 2, 3]] * 2, np.zeros((2, 3)), [v[0], [1, 2, 3]]])


def test_values_from_outside():
    table = jnp.arange(6, dtype=jnp.float32)

    @jax.jit
    def run(a, s):
        changing = np.ones(6, np.float32)

        def program(a: wp.array[float], s: float, out: wp.array2d[float]):
            wp.launch(scale, 6, [table, s], [out[0]])
            out[1] = jnp.cumsum(a_outside)
            out[2] = changing
            changing[:] = 2.0
            out[3] = changing
            wp.launch(scale, 6, [a, a_outside[1]], [out[4]])

        a_outside = a + 1
        return jax_callable(program, graph_mode=GraphMode.WARP, output_dims=(5, 6))(a, s)[0]

    expected = [3 * X, np.cumsum(X + 1), np.ones(6), 2 * np.ones(6), 2 * X]
    np.testing.assert_array_equal(run(X, 3.0), expected)


def test_static_numbers_choose_the_program():
    traces = []

    def program(a: wp.array[float], n: int, s: float, out: wp.array[float]):
        traces.append(n)
        if n > 2:
            wp.launch(scale, a.shape, [a, s], [out])

    call = jax_callable(program, graph_mode=GraphMode.WARP)
    np.testing.assert_array_equal(call(X, 1, 2.0)[0], 0 * X)
    np.testing.assert_array_equal(call(X, 3, 2.0)[0], 2 * X)
    np.testing.assert_array_equal(call(X, 3, jnp.float32(4.0))[0], 4 * X)
    np.testing.assert_array_equal(call(X, 3, jnp.float32(5.0))[0], 5 * X)
    assert traces == [1, 3, 3]


@pytest.mark.release_mode("GraphMode.WARP is launches then")
def test_only_what_is_read_is_cleared_and_copied():
    def program(a: wp.array[float], out: wp.array[float], spare: wp.array[float]):
        wp.launch(average, a.shape, [a], [out])  # writes all of `out`
        here = wp.clone(a)  # nobody reads it
        here.assign(a)
        wp.launch(average, a.shape, [wp.zeros_like(a)], [here])
        spare[:3].fill_(1.0)  # the rest keeps its zeros

    ops = [type(op).__name__ for op in recording(program, X, num_outputs=2).ops]
    assert ops == ["FillOp", "LaunchOp", "FillOp", "LaunchOp", "FillOp"]
    _, spare = both(program, X, num_outputs=2)
    np.testing.assert_array_equal(spare, [1, 1, 1, 0, 0, 0])


@pytest.mark.release_mode("GraphMode.WARP is launches then")
def test_side_effects_are_kept():
    def program(a: wp.array[float], out: wp.array[float]):
        wp.launch(average, a.shape, [a], [out])

    for kept in (False, True):
        call = jax_callable(program, graph_mode=GraphMode.WARP, has_side_effect=kept)
        text = jax.jit(lambda a, call=call: (call(a), a)[1]).lower(X).compile().as_text()
        assert text.count('custom_call_target="jaxwarp_program"') == kept


# Random programs, against NumPy

N = 6


def numpy_step(kind, arrays, to, source):
    match kind:
        case "average":
            arrays[to][:] = np.asarray(averaged(arrays[source]))
        case "accumulate":
            arrays[to][0] += (arrays[source] ** 2).sum()
        case "copy":
            arrays[to][:] = arrays[source]
        case "part":
            arrays[to][1:4] = arrays[source][3:].copy()
        case "fill":
            arrays[to][:] = 0.5
        case "fill part":
            arrays[to][2:5] = 2.0


def warp_step(kind, arrays, to, source):
    match kind:
        case "average":
            wp.launch(average, N, [arrays[source]], [arrays[to]])
        case "accumulate":
            wp.launch(accumulate, N, [arrays[source]], [arrays[to]])
        case "copy":
            wp.copy(arrays[to], arrays[source])
        case "part":
            arrays[to][1:4].assign(arrays[source][3:])
        case "fill":
            arrays[to].fill_(0.5)
        case "fill part":
            arrays[to][2:5].fill_(2.0)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed):
    random = np.random.default_rng(seed)
    kinds = ["average", "accumulate", "copy", "part", "fill", "fill part"]
    steps = []
    for _ in range(12):
        kind, to, source = str(random.choice(kinds)), int(random.integers(1, 4)), int(random.integers(0, 4))
        if kind in ("average", "accumulate") and to == source:
            source = 0
        steps.append((kind, to, source))

    def program(a: wp.array[float], b: wp.array[float], out: wp.array[float]):
        arrays = [a, b, wp.clone(a), out]
        for kind, to, source in steps:
            warp_step(kind, arrays, to, source)

    start = X[::-1] / 8
    b, out = both(program, X / 4, start.copy(), num_outputs=2, in_out_argnames=["b"])
    arrays = [X / 4, start.copy(), X / 4, np.zeros(N, np.float32)]
    for kind, to, source in steps:
        numpy_step(kind, arrays, to, source)
    np.testing.assert_allclose(b, arrays[1], rtol=1e-5)
    np.testing.assert_allclose(out, arrays[3], rtol=1e-5)


# Transformations


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transformations(transform):
    run = TRANSFORMS[transform]
    got, expected = run(lambda a: smooth_warp(a, 3)[0]), run(lambda a: smooth(a, 3)[0])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), got, expected)


def test_derivatives_and_batches_of_parts_and_of_in_out_arguments():
    def program(a: wp.array2d[float], k: wp.array[int], total: wp.array[float], out: wp.array2d[float]):
        assert len(k) == 2
        wp.launch(average, N, [a[0]], [out[1]])
        out[0].fill_(2.0)
        wp.copy(out[0], out[1], dest_offset=1, src_offset=2, count=3)
        wp.launch(accumulate, N, [out[0]], [total])

    def loss(mode, a, total):
        call = jax_callable(program, 2, mode, in_out_argnames=["total"], output_dims=(2, N))
        total, out = call(a, np.arange(2, dtype=np.int32), total)
        return jnp.sum(jnp.sin(out)) + jnp.sum(total**2)

    a, total = jnp.stack([X, X / 2]), jnp.array([0.5])
    for transform in (
        lambda f: jax.grad(f, argnums=(0, 1))(a, total),
        lambda f: jax.vmap(f, in_axes=(0, None))(jnp.stack([a, 2 * a]), total),
        lambda f: jax.vmap(jax.grad(f), in_axes=(1, 0))(jnp.stack([a, 2 * a], 1), jnp.stack([total, total])),
        lambda f: jax.jvp(lambda t: f(a, t), (total,), (jnp.ones(1),)),
    ):
        got, expected = (
            transform(jax.jit(lambda a, t, mode=mode: loss(mode, a, t))) for mode in (GraphMode.WARP, GraphMode.JAX)
        )
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), got, expected)


@pytest.mark.release_mode("GraphMode.WARP is launches then")
@pytest.mark.parametrize("check", [True, False])
def test_shard_map(check):
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    x = np.arange(32, dtype=np.float32)
    mapped = jax.jit(
        jax.shard_map(lambda a: smooth_warp(a, 2)[0], mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=check)
    )
    assert "jaxwarp_program" in mapped.lower(x).compile().as_text()
    expected = np.concatenate([smooth(part, 2)[0] for part in x.reshape(8, 4)])
    np.testing.assert_array_equal(mapped(x), expected)


def test_export_with_a_symbolic_extent():
    (n,) = export.symbolic_shape("n")
    program = export.export(
        jax.jit(lambda a: smooth_warp(a, 2)[0]), disabled_checks=wp.export_checks(), platforms=("cpu", "cuda")
    )(jax.ShapeDtypeStruct((n,), jnp.float32))
    again = export.deserialize(program.serialize())
    for size in (6, 3):
        np.testing.assert_array_equal(again.call(X[:size]), smooth(X[:size], 2)[0])


def test_calls_from_many_threads():
    compiled = jax.jit(lambda a: smooth_warp(a, 9)[0])
    inputs = [np.full(1000, k, np.float32) for k in range(4)]
    failures = []

    def work(x):
        for _ in range(20):
            if not np.array_equal(compiled(x), x):
                failures.append(x[0])

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_disable_jit():
    with jax.disable_jit():
        np.testing.assert_array_equal(smooth_warp(X, 2)[0], smooth(X, 2)[0])


# Errors


def fails(program, *args, error=KernelTypeError, **options) -> str:
    with pytest.raises(error) as caught:
        jax_callable(program, graph_mode=GraphMode.WARP, **options)(*args)
    return str(caught.value)


def test_functions_of_jax_on_arrays():
    def applied(a: wp.array[float], out: wp.array[float]):
        out.assign(jnp.sin(a))

    def valued(a: wp.array[float], out: wp.array[float]):
        out.assign(a.value)

    def nested(a: wp.array[float], out: wp.array[float]):
        out.assign(smooth(a, 2)[0])

    for program in (applied, valued, nested):
        text = fails(program, X)
        assert "has no value under GraphMode.WARP: functions of JAX cannot be part" in text
        assert f"{__file__}:{program.__code__.co_firstlineno + 1}" in text
        assert "use GraphMode.JAX" in text


def test_parts_that_are_not_contiguous():
    a = np.zeros((3, 4), np.float32)
    for index in ((slice(None), 1), slice(None, None, 2), (slice(None), slice(1, 3)), slice(None, None, -1)):

        def program(a: wp.array2d[float], out: wp.array2d[float]):
            out.assign(a[index])  # noqa: B023 - called at once

        assert "array 'a': this part is not contiguous, which GraphMode.WARP needs" in fails(program, a)


def test_parts_of_symbolic_extents():
    def program(a: wp.array2d[float], out: wp.array2d[float]):
        out[0].assign(a[1])

    (n,) = export.symbolic_shape("n")
    call = jax.jit(jax_callable(program, graph_mode=GraphMode.WARP))
    with pytest.raises(KernelTypeError, match="parts of an array of symbolic extents need"):
        export.export(call)(jax.ShapeDtypeStruct((2, n), jnp.float32))


def test_inputs_are_not_written():
    def program(a: wp.array[float], out: wp.array[float]):
        a[1:3].fill_(1.0)
        out.assign(a)

    text = fails(program, X)
    assert "array 'a' is an input and cannot be written" in text
    assert "in_out_argnames=['a']" in text


@pytest.mark.release_mode("GraphMode.WARP is launches then")
@pytest.mark.parametrize("given", [0, -1, 2.5, True, "many"])
def test_graph_cache_max(given):
    with pytest.raises(KernelValueError, match="graph_cache_max: expected an integer of at least 1, got"):
        jax_callable(smoothing, graph_mode=GraphMode.WARP, graph_cache_max=given)
    kept = jax_callable(smoothing, graph_mode=GraphMode.WARP, graph_cache_max=5)
    assert "graph_cache_max = 5" in jax.jit(lambda a: kept(a, 1)).lower(X).as_text()


def test_arrays_of_other_calls_are_refused():
    kept = []

    def keep(a: wp.array[float], out: wp.array[float]):
        kept.append(out)

    def use(a: wp.array[float], out: wp.array[float]):
        out.assign(kept[0])

    jax_callable(keep, graph_mode=wp.GraphMode.WARP)(np.ones(3, np.float32))
    with pytest.raises(KernelTypeError, match="array 'out' belongs to another call"):
        jax_callable(use, graph_mode=wp.GraphMode.WARP)(np.ones(3, np.float32))
