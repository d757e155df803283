"""Launches under JAX's transformations, one by one and in pairs."""

import concurrent.futures
import functools
import gzip
import itertools
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import jaxwarp as wp
from jaxwarp import jax_kernel

METHODS = [None, "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"]
rng = np.random.default_rng(1)


@wp.kernel
def pointwise(s: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = s * x[i] + y[i]


@wp.kernel
def stencil(x: wp.array2d[float], weights: wp.array[float], out: wp.array2d[float]):
    i, j = wp.tid()
    n = x.shape[0]
    m = x.shape[1]
    out[i, j] = weights[0] * x[i, j] + weights[1] * x[(i + 1) % n, j] + weights[2] * x[i, (j + m - 1) % m]


@wp.kernel
def lookup(table: wp.array[float], indices: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = table[indices[i]]


@wp.kernel
def rowsum(matrix: wp.array2d[float], sums: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(sums, i, matrix[i, j])


@wp.kernel
def rotate(m: wp.mat22, x: wp.array[wp.vec2], out: wp.array[wp.vec2], norms: wp.array[float]):
    i = wp.tid()
    v = m * x[i]
    out[i] = v
    norms[i] = wp.dot(v, v)


@wp.kernel
def increment(state: wp.array[float]):
    i = wp.tid()
    state[i] = state[i] + 1.0


@wp.kernel
def two_states(x: wp.array[float], a: wp.array[float], b: wp.array[float]):
    i = wp.tid()
    a[i] = a[i] + x[i]
    wp.atomic_add(b, 0, x[i])


call_pointwise = jax_kernel(pointwise)
call_stencil = jax_kernel(stencil)
call_lookup = jax_kernel(lookup)
call_rowsum = jax_kernel(rowsum, in_out_argnames=["sums"])
call_rotate = jax_kernel(rotate, num_outputs=2)
call_increment = jax_kernel(increment, in_out_argnames=["state"])
call_two_states = jax_kernel(two_states, num_outputs=2, in_out_argnames=["a", "b"])


def normal(*shape):
    return jnp.asarray(rng.standard_normal(shape), jnp.float32)


def item_loop(function, args, axes):
    """vmap by a Python loop: results stacked on axis 0."""
    size = next(a.shape[d] for a, d in zip(args, axes, strict=True) if d is not None)
    items = [
        function(*[a if d is None else jnp.take(a, i, d) for a, d in zip(args, axes, strict=True)]) for i in range(size)
    ]
    return [np.stack(column) for column in zip(*items, strict=True)]


# Function, and the shapes of an item's arguments.
CASES = {
    "pointwise": (call_pointwise, [(), (5,), (5,)]),
    "stencil": (call_stencil, [(4, 3), (3,)]),
    "rowsum": (call_rowsum, [(4, 3), (4,)]),
    "rotate": (call_rotate, [(2, 2), (5, 2)]),
    "two_states": (call_two_states, [(4,), (4,), (1,)]),
}


def batch_choices(case):
    """Every combination of batch axes, with at least one argument batched."""
    shapes = CASES[case][1]
    for axes in itertools.product(*[[None, *range(len(s) + 1)] for s in shapes]):
        if any(d is not None for d in axes):
            yield axes


@pytest.mark.quick
@pytest.mark.parametrize("case", CASES)
def test_vmap_over_any_axis_with_any_argument_unbatched(case):
    function, shapes = CASES[case]
    choices = list(batch_choices(case))
    for axes in choices if len(choices) < 10 else rng.permutation(np.array(choices, object))[:10]:
        args = [normal(*(s if d is None else (*s[:d], 3, *s[d:]))) for s, d in zip(shapes, axes, strict=True)]
        got = jax.jit(jax.vmap(function, in_axes=tuple(axes)))(*args)
        for a, b in zip(got, item_loop(function, args, axes), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=str(axes))


@pytest.mark.parametrize("method", METHODS)
def test_vmap_methods_agree(method):
    s, x, y = normal(3), normal(4), normal(3, 4)
    got = jax.vmap(functools.partial(call_pointwise, vmap_method=method), (0, None, 0))(s, x, y)[0]
    np.testing.assert_allclose(got, s[:, None] * x + y, rtol=1e-6, atol=1e-6)
    by_default = jax.vmap(jax_kernel(pointwise, vmap_method=method), (0, None, 1))(s, x, y.T)[0]
    np.testing.assert_allclose(by_default, s[:, None] * x + y, rtol=1e-6, atol=1e-6)
    m, sums = normal(2, 3, 4), jnp.ones(3)
    got = jax.vmap(functools.partial(call_rowsum, vmap_method=method), (0, None))(m, sums)[0]
    np.testing.assert_allclose(got, m.sum(2) + 1, rtol=1e-5, atol=1e-5)
    nested = jax.vmap(jax.vmap(functools.partial(call_pointwise, vmap_method=method), (None, 0, None)), (0, None, 0))
    np.testing.assert_allclose(
        nested(s, normal(2, 4) * 0 + x, y)[0], (s[:, None] * x + y)[:, None].repeat(2, 1), rtol=1e-6, atol=1e-6
    )


def test_vmap_methods_do_what_they_say():
    def operations(method):
        mapped = jax.vmap(functools.partial(call_pointwise, vmap_method=method), (0, None, 0))
        return str(jax.make_jaxpr(mapped)(normal(3), normal(4), normal(3, 4)))

    assert "broadcast" not in operations(None)
    assert "scan" not in operations(None)
    assert "broadcast_in_dim" in operations("broadcast_all")
    assert "scan" in operations("sequential")
    assert operations(None) == operations("expand_dims") == operations("legacy_vectorized")


def test_nested_vmap_of_a_lookup():
    table, indices = normal(7), jnp.asarray(rng.integers(0, 7, (2, 3, 5)), jnp.int32)
    function = functools.partial(call_lookup, launch_dims=5)
    twice = jax.vmap(jax.vmap(function, (None, 0)), (None, 0))
    np.testing.assert_array_equal(twice(table, indices)[0], table[indices])
    tables = normal(2, 7)
    got = jax.vmap(jax.vmap(function, (None, 0)), (0, None))(tables, indices[0])[0]
    np.testing.assert_array_equal(got, np.asarray(tables)[:, indices[0]])
    got = jax.vmap(jax.vmap(function, (0, None)), (None, 0))(tables, indices[0])[0]
    np.testing.assert_array_equal(got, np.asarray(tables)[:, indices[0]].swapaxes(0, 1))


def test_vmap_copies_nothing():
    x, y = normal(100, 30), normal(30)
    mapped = jax.jit(jax.vmap(call_pointwise, (None, 1, None)))
    text = mapped.lower(1.0, x.T.reshape(30, 100).T.reshape(30, 100), normal(30)).compile().as_text()
    assert text.count("custom-call(") == 1
    assert "transpose" not in text
    assert "broadcast" not in text
    del y


def test_out_axes():
    x, y = normal(3, 4), normal(3, 4)
    got = jax.vmap(call_pointwise, (None, 0, 0), out_axes=1)(2.0, x, y)[0]
    np.testing.assert_allclose(got, (2 * x + y).T, rtol=1e-6, atol=1e-6)


def test_vmap_with_axis_name_and_collectives():
    x = normal(3, 4)
    got = jax.vmap(lambda x: call_pointwise(1.0, x, jax.lax.psum(x, "i"))[0], axis_name="i")(x)
    np.testing.assert_allclose(got, x + x.sum(0), rtol=1e-5, atol=1e-5)


def test_scan_while_cond_checkpoint():
    x, y = normal(4), normal(4)

    def step(x):
        return call_pointwise(0.5, x, y)[0]

    expected = np.asarray(x)
    for _ in range(5):
        expected = np.float32(0.5) * expected + y
    scanned = jax.jit(lambda x: jax.lax.scan(lambda c, _: (step(c), c.sum()), x, length=5)[0])(x)
    np.testing.assert_allclose(scanned, expected, rtol=1e-5, atol=1e-5)
    looped = jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, step(c[1])), (0, x))[1]
    np.testing.assert_allclose(looped, expected, rtol=1e-5, atol=1e-5)
    for flag in (True, False):
        chosen = jax.jit(lambda flag, x: jax.lax.cond(flag, step, lambda x: x, x))(flag, x)
        np.testing.assert_allclose(chosen, step(x) if flag else x)
    gradient = jax.grad(jax.checkpoint(lambda x: (step(jax.lax.stop_gradient(x)) * x).sum()))(x)
    np.testing.assert_allclose(gradient, step(x), rtol=1e-6, atol=1e-6)
    traced = jax.jit(lambda s: jax.lax.scan(lambda c, s: (call_pointwise(s, c, y)[0], None), x, s)[0])(jnp.ones(3) / 2)
    np.testing.assert_allclose(traced, jax.lax.fori_loop(0, 3, lambda _, c: step(c), x), rtol=1e-6, atol=1e-6)


def test_vmapped_control_flow():
    x, y = normal(3, 4), normal(4)

    def step(x):
        return call_pointwise(0.5, x, y)[0]

    got = jax.vmap(lambda x: jax.lax.cond(x.sum() > 0, step, lambda x: x, x))(x)
    np.testing.assert_allclose(got, np.where(x.sum(1, keepdims=True) > 0, 0.5 * x + y, x), rtol=1e-6, atol=1e-6)
    counts = jnp.array([0, 2, 5])
    got = jax.vmap(lambda n, x: jax.lax.fori_loop(0, n, lambda _, c: step(c), x))(counts, x)
    for n, row, result in zip(counts, x, got, strict=True):
        np.testing.assert_allclose(result, jax.lax.fori_loop(0, n, lambda _, c: step(c), row), rtol=1e-5, atol=1e-5)


def test_eval_shape_runs_nothing():
    result = jax.eval_shape(call_stencil, jax.ShapeDtypeStruct((10**5, 10**5), "float32"), normal(3))
    assert result[0].shape == (10**5, 10**5)
    assert result[0].dtype == jnp.float32
    mapped = jax.eval_shape(jax.vmap(call_rotate, (None, 1)), normal(2, 2), jax.ShapeDtypeStruct((5, 9, 2), "float32"))
    assert [r.shape for r in mapped] == [(9, 5, 2), (9, 5)]


def test_kernel_names_are_readable_in_compiled_programs():
    args = 2.0, normal(4), normal(4)
    lowered = jax.jit(lambda *a: call_pointwise(*a)[0]).lower(*args)
    compiled = lowered.compile()
    np.testing.assert_allclose(compiled(*args), 2 * args[1] + args[2], rtol=1e-6, atol=1e-6)
    assert "jaxwarp_launch" in lowered.as_text()
    assert 'name = "pointwise"' in lowered.as_text()
    assert re.search(r'%pointwise[.\d]* = .*op_name="jit\(.*\)/pointwise"', compiled.as_text())
    assert __file__.rsplit("/", 1)[-1] in compiled.as_text()
    mapped = jax.jit(jax.vmap(call_pointwise, (None, 0, 0))).lower(2.0, normal(3, 4), normal(3, 4)).compile()
    assert re.search(r'op_name="jit\(.*\)/vmap\(\)/pointwise"', mapped.as_text())


def test_kernel_names_are_in_profiles(tmp_path):
    call = jax.jit(lambda *a: call_pointwise(*a)[0])
    args = 2.0, normal(4), normal(4)
    call(*args).block_until_ready()
    with jax.profiler.trace(tmp_path):
        call(*args).block_until_ready()
    (path,) = tmp_path.rglob("*.trace.json.gz")
    names = {event.get("name", "") for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]}
    assert any(re.fullmatch(r"pointwise[.\d]*", name) for name in names)


def test_in_out_arguments_are_updated_in_place():
    x = jnp.arange(1024.0)
    donated = jax.jit(lambda x: call_increment(x)[0], donate_argnums=0)
    text = donated.lower(x).compile().as_text()
    assert "output_to_operand_aliasing" in text
    assert "copy(" not in text
    pointer = x.unsafe_buffer_pointer()
    result = donated(x)
    assert x.is_deleted()
    assert result.unsafe_buffer_pointer() == pointer
    np.testing.assert_array_equal(result, np.arange(1024) + 1)


def test_loops_update_in_place():
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda _, c: call_increment(c)[0], x), donate_argnums=0)
    x = jnp.arange(1024.0)
    assert not re.search(r"f32\[1024\]\S* copy\(", loop.lower(x).compile().as_text())
    np.testing.assert_array_equal(loop(x), np.arange(1024) + 10)


def test_a_value_that_is_used_again_is_not_overwritten():
    x = jnp.arange(8.0)
    new, old = jax.jit(lambda x: (call_increment(x)[0], x * 1))(x)
    np.testing.assert_array_equal(new, np.arange(8) + 1)
    np.testing.assert_array_equal(old, np.arange(8))
    np.testing.assert_array_equal(x, np.arange(8))
    constant = jax.jit(lambda: call_increment(jnp.zeros(8))[0] + call_increment(jnp.zeros(8))[0])
    for _ in range(3):
        np.testing.assert_array_equal(constant(), 2)


@wp.kernel
def count_calls(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = x[i] + 1.0


def executions():
    from jaxwarp.native.library import counter

    return counter("executions")


CONTROL = {
    "jit": (lambda f: jax.jit(lambda x: (f(x), x)[1]), 1),
    "scan": (lambda f: jax.jit(lambda x: jax.lax.scan(lambda c, _: ((f(c), c)[1], None), x, length=3)[0]), 3),
    "cond": (lambda f: jax.jit(lambda x: jax.lax.cond(x.sum() > -1, lambda x: (f(x), x)[1], lambda x: x, x)), 1),
    "while": (lambda f: jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, c: (f(c), c)[1], x)), 3),
    "vmap": (lambda f: jax.jit(lambda x: jax.vmap(lambda s: (f(x * s), s)[1])(jnp.ones(4)) * x[0]), 1),
    "eager": (lambda f: lambda x: (jax.block_until_ready(f(x)), x)[1], 1),
}


@pytest.mark.parametrize("where", CONTROL)
@pytest.mark.release_mode("in debug mode all launches are kept, and checked")
def test_side_effects_are_kept(where):
    wrap, times = CONTROL[where]
    x = jnp.ones(4)
    for keep in (True, False):
        function = wrap(jax_kernel(count_calls, has_side_effect=keep))
        jax.block_until_ready(function(x))
        jax.effects_barrier()
        before = executions()
        jax.block_until_ready(function(x))
        jax.effects_barrier()
        assert executions() - before == (times if keep or where == "eager" else 0)


def test_side_effects_under_checkpoint():
    effect = jax_kernel(count_calls, has_side_effect=True)
    body = jax.checkpoint(lambda x: (effect(jax.lax.stop_gradient(x)), jnp.sin(x))[1])
    x = jnp.ones(4)
    before = executions()
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: body(x).sum()))(x), jnp.cos(x), rtol=1e-6, atol=1e-6)
    jax.effects_barrier()
    assert executions() > before


def test_calls_from_many_threads():
    def work(seed):
        local = np.random.default_rng(seed)
        for n in local.integers(1, 50, 5):
            x, y = local.random(n, np.float32), local.random(n, np.float32)
            np.testing.assert_allclose(call_pointwise(2.0, x, y)[0], 2 * x + y, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(
                jax.jit(lambda x, y: call_pointwise(2.0, x, y)[0])(x, y), 2 * x + y, rtol=1e-6, atol=1e-6
            )
        return True

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


# Transformations of a function of one (4, 4) array, each with the same transformation of a reference.
def _scan(f):
    return lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, length=2)[0]


def _while(f):
    return lambda x: jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, x))[1]


def _cond(f):
    return lambda x: jax.lax.cond(x[0, 0] > 0, f, lambda x: -x, x)


def _vmap(axis, out_axis):
    def transform(f):
        return lambda x: jax.vmap(f, axis, out_axis)(jnp.stack([x, 2 * x, x - 1], axis)).sum(out_axis)

    return transform


def _vmap_of_parts(f):
    """Maps over something that the function's array does not depend on, too."""
    return lambda x: jax.vmap(lambda s: f(x * s), 0)(jnp.array([0.5, 1.0])).mean(0)


def _shard_map(f):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), "d")
    spec = jax.sharding.PartitionSpec("d")

    def sharded(x):
        return jax.shard_map(lambda x: f(x[0])[None], mesh=mesh, in_specs=spec, out_specs=spec)(
            jnp.stack([x, x + 1])
        ).sum(0)

    return sharded


def _custom(f):
    function = jax.custom_vjp(f)
    function.defvjp(lambda x: (f(x), None), lambda _, g: (g,))
    return function


TRANSFORMATIONS = {
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "vmap 0": _vmap(0, 0),
    "vmap 1": _vmap(1, 2),
    "vmap 2": _vmap(2, 0),
    "vmap of parts": _vmap_of_parts,
    "shard_map": _shard_map,
    "custom_vjp": _custom,
}


WEIGHTS = np.array([0.5, 0.25, -0.25], np.float32)
INNER = {
    "stencil": (
        lambda x: call_stencil(x, WEIGHTS)[0],
        lambda x: WEIGHTS[0] * x + WEIGHTS[1] * jnp.roll(x, -1, 0) + WEIGHTS[2] * jnp.roll(x, 1, 1),
    ),
    "accumulate": (lambda x: x + call_rowsum(x, x[0])[0], lambda x: x + x[0] + x.sum(1)),
    "sequential": (
        lambda x: call_stencil(x, x[0, :3], vmap_method="sequential")[0],
        lambda x: x[0, 0] * x + x[0, 1] * jnp.roll(x, -1, 0) + x[0, 2] * jnp.roll(x, 1, 1),
    ),
    "scalar": (
        lambda x: call_pointwise(x[0, 0], x.ravel(), x.T.ravel())[0].reshape(x.shape),
        lambda x: x[0, 0] * x + x.T,
    ),
}  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(
    inner=st.sampled_from(sorted(INNER)),
    names=st.lists(st.sampled_from(sorted(TRANSFORMATIONS)), min_size=2, max_size=2),
    scale=st.floats(-1, 1, width=32),
)
def test_pairs_of_transformations(inner, names, scale):
    assume(names != ["shard_map", "shard_map"])  # JAX has no shard_map in itself over one mesh
    launched, reference = INNER[inner]
    for name in names:
        launched, reference = TRANSFORMATIONS[name](launched), TRANSFORMATIONS[name](reference)
    x = jnp.asarray(np.cos(np.arange(16, dtype=np.float32)).reshape(4, 4) * 0.5 + np.float32(scale))
    np.testing.assert_allclose(launched(x), reference(x), rtol=1e-3, atol=1e-4)
