"""`sharding_rule`: launches under `jit` over sharded arrays run per shard, and are right; or the rule is refused."""

from __future__ import annotations

import re
from collections import Counter

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from kernels_strategy import same_values

import jaxwarp as wp
from jaxwarp import jax_kernel
from jaxwarp.errors import KernelTypeError, KernelValueError


@wp.kernel
def matmul(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    rows = a.shape[0]
    columns = b.shape[1]
    if i < rows and j < columns:
        s = wp.float32(0.0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


@wp.kernel
def axpy(s: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.sin(s * x[i]) + y[i]


@wp.kernel
def scale_vectors(x: wp.array[wp.vec3], m: wp.mat33, s: wp.array[float], out: wp.array[wp.vec3]):
    i = wp.tid()
    out[i] = m @ x[i] * s[i]


@wp.kernel
def relax(u: wp.array2d[float], f: wp.array2d[float]):
    i, j = wp.tid()
    u[i, j] = 0.5 * (u[i, j] + f[i, j])


@wp.kernel
def row_sums(x: wp.array2d[float], sums: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(sums, i, x[i, j])


@wp.kernel
def highest(x: wp.array[float], best: wp.array[float]):
    i = wp.tid()
    wp.atomic_max(best, 0, x[i])


@wp.kernel
def first_half(x: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(total, 0, x[i])


@wp.kernel
def lookup(table: wp.array[float], index: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = table[index[i]]


@wp.kernel
def blur_rows(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = x[i, j] + x[i, wp.max(j - 1, 0)]


@wp.kernel
def count_up(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + float(i)


@wp.kernel
def average(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] / float(x.shape[0])


@wp.kernel
def clear_first(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i == 0:
        y[i] = 0.0
    else:
        y[i] = x[i]


@wp.kernel
def last_wins(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]
    z[0] = x[i]


@wp.kernel
def reverse(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[x.shape[0] - 1 - i]


@pytest.fixture
def mesh():
    return Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("a", "b"))


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def put(mesh, x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def operations(function, *args) -> Counter:
    """Collectives and launches in the compiled program."""
    text = jax.jit(function).lower(*args).compile().as_text()
    found = Counter(re.findall(r" ((?:all|collective|reduce)-[a-z-]+)\(", text))
    found["launch"] = text.count('custom_call_target="jaxwarp_launch"')
    assert "CustomSPMDPartitioning" not in text
    return found


def test_matmul(mesh):
    call = jax_kernel(matmul, sharding_rule="i k, k j -> i j", launch_dims=(16, 8))
    x, y = random(16, 6), random(6, 8)
    for left, right in ((("a", None), (None, "b")), (("a",), ()), ((("a", "b"), None), ()), ((), (None, "a"))):
        a, b = put(mesh, x, *left), put(mesh, y, *right)
        assert operations(lambda a, b: call(a, b)[0], a, b) == {"launch": 1}
        got = jax.jit(lambda a, b: call(a, b)[0])(a, b)
        spec = P(left[0] if left else None, right[1] if right else None)
        assert got.sharding.is_equivalent_to(NamedSharding(mesh, spec), 2)
        np.testing.assert_allclose(got, x @ y, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(call(a, b)[0], x @ y, rtol=1e-5, atol=1e-5)


def test_without_a_rule_operands_are_gathered(mesh):
    x = put(mesh, random(16), "a")
    assert operations(lambda x: jax_kernel(axpy)(2.0, x, x)[0], x)["all-gather"] > 0


def test_sharded_contraction_is_gathered_and_right(mesh):
    call = jax_kernel(matmul, sharding_rule="i k, k j -> i j", launch_dims=(16, 8))
    x, y = random(16, 4), random(4, 8)
    got = jax.jit(call)(put(mesh, x, None, "a"), put(mesh, y, "a", "b"))[0]
    np.testing.assert_allclose(got, x @ y, rtol=1e-5, atol=1e-5)


def test_gradients_of_a_product(mesh):
    """Along j every device has a part of the sum that is the cotangent of a; along i, of b."""
    call = jax_kernel(matmul, sharding_rule="i k, k j -> i j", launch_dims=(16, 8))
    x, y = random(16, 6), random(6, 8, seed=1)
    a, b = put(mesh, x, "a", None), put(mesh, y, None, "b")
    gradients = jax.grad(lambda a, b: (call(a, b)[0] ** 2).sum(), (0, 1))
    found = operations(gradients, a, b)
    assert found == {"launch": 2, "all-reduce": 2}
    expected = jax.jit(jax.grad(lambda a, b: ((a @ b) ** 2).sum(), (0, 1)))(x, y)
    for g, e in zip(jax.jit(gradients)(a, b), expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rule", [", i, i -> i", "i, i -> i"])
def test_scalars_and_their_gradients(mesh, rule):
    call = jax_kernel(axpy, sharding_rule=rule)
    x, y = random(16), random(16, seed=1)
    a, b = put(mesh, x, "a"), put(mesh, y, "a")

    def loss(s, x, y):
        return (call(s, x, y)[0] ** 2).sum()

    def expected(s, x, y):
        return ((jnp.sin(s * x) + y) ** 2).sum()

    gradients = jax.value_and_grad(loss, (0, 1, 2))
    found = operations(gradients, 0.7, a, b)
    assert set(found) == {"launch", "all-reduce"}
    jax.tree.map(
        lambda g, e: np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-5),
        jax.jit(gradients)(0.7, a, b),
        jax.jit(jax.value_and_grad(expected, (0, 1, 2)))(0.7, x, y),
    )
    tangent = jax.jit(lambda x, y: jax.jvp(lambda x: call(0.7, x, y)[0], (x,), (x,))[1])
    np.testing.assert_allclose(tangent(a, b), 0.7 * x * np.cos(0.7 * x), rtol=1e-5, atol=1e-6)
    assert set(operations(tangent, a, b)) == {"launch"}


def test_vmap(mesh):
    call = jax_kernel(axpy, sharding_rule="i, i -> i")
    x, y, s = random(4, 16), random(16, seed=1), random(4, seed=2)
    batched = jax.vmap(lambda s, x, y: call(s, x, y)[0], (0, 0, None))
    expected = np.sin(s[:, None] * x) + y
    for spec in (("a",), (None, "a"), ("b", "a")):
        args = (put(mesh, s), put(mesh, x, *spec), put(mesh, y))
        assert operations(batched, *args) == {"launch": 1}
        np.testing.assert_allclose(jax.jit(batched)(*args), expected, rtol=1e-5, atol=1e-6)
    moved = jax.jit(jax.vmap(lambda s, x, y: call(s, x, y)[0], (0, 1, None)))
    np.testing.assert_allclose(moved(s, put(mesh, x.T, "a", "b"), put(mesh, y, "a")), expected, rtol=1e-5, atol=1e-6)
    gradient = jax.grad(lambda s, x, y: (batched(s, x, y) ** 2).sum(), (0, 1, 2))
    got = jax.jit(gradient)(*args)
    want = jax.jit(jax.grad(lambda s, x, y: ((jnp.sin(s[:, None] * x) + y) ** 2).sum(), (0, 1, 2)))(s, x, y)
    jax.tree.map(lambda g, e: np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-4), got, want)
    assert "all-gather" not in operations(gradient, *args)


@pytest.mark.parametrize("rule", ["i, , i -> i", "i c, , i -> i c", "i, i -> i"])
def test_vectors(mesh, rule):
    call = jax_kernel(scale_vectors, sharding_rule=rule)
    x, m, s = random(16, 3), random(3, 3), random(16)
    args = put(mesh, x, "a"), m, put(mesh, s, "a")
    assert operations(call, *args) == {"launch": 1}
    np.testing.assert_allclose(jax.jit(call)(*args)[0], x @ m.T * s[:, None], rtol=1e-4, atol=1e-5)


def test_in_out(mesh):
    call = jax_kernel(relax, in_out_argnames=["u"], sharding_rule="i j, i j -> i j")
    u, f = random(8, 6), random(8, 6, seed=1)
    args = put(mesh, u, "a", "b"), put(mesh, f, "a", "b")
    assert operations(call, *args) == {"launch": 1}
    np.testing.assert_allclose(jax.jit(call)(*args)[0], 0.5 * (u + f), rtol=1e-6)
    looped = jax.jit(lambda u, f: jax.lax.fori_loop(0, 3, lambda _, u: call(u, f)[0], u))
    np.testing.assert_allclose(looped(*args), u / 8 + f * 7 / 8, rtol=1e-5, atol=1e-6)


@wp.kernel
def square_twice(u: wp.array2d[float]):
    i = wp.tid()
    for _ in range(2):
        for k in range(u.shape[1]):
            u[i, k] = u[i, k] * u[i, k]


def test_records_of_overwritten_elements(mesh):
    """What is recorded for the reverse sweep is cut like the array that it is read from."""
    call = jax_kernel(square_twice, in_out_argnames=["u"], sharding_rule="i k -> i k", launch_dims=8)
    u = random(8, 3)
    gradient = jax.grad(lambda u: call(u)[0].sum())
    assert operations(gradient, put(mesh, u, "a")) == {"launch": 2}
    np.testing.assert_allclose(jax.jit(gradient)(put(mesh, u, "a")), 4 * u**3, rtol=1e-4, atol=1e-5)


def test_partial_sums_of_in_outs(mesh):
    """What the array held before counts once, however many devices have a part of the sum."""
    call = jax_kernel(row_sums, in_out_argnames=["sums"], sharding_rule="i j, i -> i")
    x, start = random(8, 6), random(8, seed=1)
    args = put(mesh, x, "a", "b"), put(mesh, start, "a")
    assert operations(call, *args) == {"launch": 1, "all-reduce": 1}
    np.testing.assert_allclose(jax.jit(call)(*args)[0], start + x.sum(1), rtol=1e-5, atol=1e-6)
    best = jax_kernel(highest, in_out_argnames=["best"], sharding_rule="i, n -> n")
    for low in (-5.0, 5.0):
        got = jax.jit(best)(put(mesh, x[:, 0], "a"), jnp.full(1, low))[0]
        np.testing.assert_allclose(got, max(low, x[:, 0].max()))


def test_fewer_threads_than_elements(mesh):
    """A factor that no result has is cut only where each element has its thread."""
    call = jax_kernel(first_half, sharding_rule="i -> n", output_dims=1)
    x = put(mesh, random(16), "a")
    np.testing.assert_allclose(jax.jit(lambda x: call(x, launch_dims=8)[0])(x), x[:8].sum(keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda x: call(x)[0])(x), x.sum(keepdims=True), rtol=1e-5)
    assert operations(lambda x: call(x)[0], x) == {"launch": 1, "all-reduce": 1}


def test_tables(mesh):
    call = jax_kernel(lookup, sharding_rule="k, i -> i", launch_dims=16)
    table, index = random(10), np.random.default_rng(0).integers(0, 10, 16).astype(np.int32)
    args = put(mesh, table), put(mesh, index, "a")
    assert operations(call, *args) == {"launch": 1}
    np.testing.assert_allclose(jax.jit(call)(*args)[0], table[index])
    gradient = jax.jit(jax.grad(lambda t, i: (call(t, i)[0] ** 2).sum()))
    want = np.zeros(10, np.float32)
    np.add.at(want, index, 2 * table[index])
    np.testing.assert_allclose(gradient(*args), want, rtol=1e-5)


def test_axes_with_names_of_their_own_stay_whole(mesh):
    call = jax_kernel(blur_rows, sharding_rule="i p -> i q")
    x = random(8, 6)
    want = x + x[:, [0, 0, 1, 2, 3, 4]]
    a = put(mesh, x, "a")
    assert operations(call, a) == {"launch": 1}
    np.testing.assert_allclose(jax.jit(call)(a)[0], want, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(call)(put(mesh, x, "a", "b"))[0], want, rtol=1e-6)


def test_extents_that_the_devices_do_not_divide(mesh):
    call = jax_kernel(axpy, sharding_rule="i, i -> i")
    x = random(6)

    def program(x):
        y = jnp.tile(x, 3)[: x.shape[0]]
        y = jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P("a")))
        return call(1.0, y, y)[0]

    # JAX 0.9.2 returns no array whose extents the devices do not divide.
    compiled = jax.jit(program, out_shardings=NamedSharding(mesh, P()))
    np.testing.assert_allclose(compiled(x), np.sin(x) + x, rtol=1e-5)


@pytest.mark.release_mode("a call outside of jit does not use its sharding rule then")
def test_explicit_mesh():
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)
    call = jax_kernel(matmul, sharding_rule="i k, k j -> i j", launch_dims=(16, 8))
    with jax.set_mesh(mesh):
        a, b = put(mesh, random(16, 6), "a", None), put(mesh, random(6, 8), None, "b")
        program = jax.jit(lambda a, b: call(a, b)[0])
        got = program(a, b)
        assert got.sharding.spec == P("a", "b")
        assert operations(program, a, b) == {"launch": 1}
        np.testing.assert_allclose(got, np.asarray(a) @ np.asarray(b), rtol=1e-5, atol=1e-5)
        x, y = put(mesh, random(16), "a"), put(mesh, random(16), "b")
        with pytest.raises(KernelValueError, match=r"factor 'i' of sharding_rule is sharded over \('a',\) in one"):
            jax_kernel(axpy, sharding_rule="i, i -> i")(1.0, x, y)


def test_explicit_mesh_reductions_and_cotangents():
    """Partial sums are added, and the cotangent of what is sharded is sharded, with and without a rule."""
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)
    x = random(16)
    for call in (jax_kernel(first_half, sharding_rule="i -> n", output_dims=1), jax_kernel(first_half, output_dims=1)):
        with jax.set_mesh(mesh):
            loss = jax.jit(jax.value_and_grad(lambda x, call=call: jnp.sin(call(x)[0]).sum()))
            value, gradient = loss(put(mesh, x, "a"))
            assert gradient.sharding.spec == P("a")
            np.testing.assert_allclose(value, np.sin(x.sum()), rtol=1e-5)
            np.testing.assert_allclose(gradient, np.full(16, np.cos(x.sum())), rtol=1e-5)
            twice = jax.grad(lambda x, call=call: jax.grad(lambda x: jnp.sin(call(x)[0]).sum())(x).sum())
            np.testing.assert_allclose(jax.jit(twice)(put(mesh, x, "a")), np.full(16, -16 * np.sin(x.sum())), rtol=1e-4)


def test_a_factor_named_like_a_batch(mesh):
    call = jax_kernel(axpy, sharding_rule="batch1, batch1 -> batch1")
    x, y = random(4, 16), random(16, seed=1)
    batched = jax.vmap(lambda x, y: call(1.0, x, y)[0], (0, None))
    args = put(mesh, x, None, "a"), put(mesh, y, "a")
    assert operations(batched, *args) == {"launch": 1}
    np.testing.assert_allclose(jax.jit(batched)(*args), np.sin(x) + y, rtol=1e-5, atol=1e-6)


def test_shard_map_and_export_take_the_launch_as_it_is(mesh):
    call = jax_kernel(axpy, sharding_rule="i, i -> i")
    x = random(16)
    mapped = jax.shard_map(lambda x: call(1.0, x, x)[0], mesh=mesh, in_specs=P("a"), out_specs=P("a"))
    np.testing.assert_allclose(jax.jit(mapped)(x), np.sin(x) + x, rtol=1e-5)
    partly = jax.shard_map(lambda x: call(1.0, x, x)[0], mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
    np.testing.assert_allclose(jax.jit(partly)(put(mesh, x, ("a", "b"))), np.sin(x) + x, rtol=1e-5)
    exported = jax.export.export(jax.jit(lambda x: call(1.0, x, x)[0]), disabled_checks=wp.export_checks())(x)
    np.testing.assert_allclose(jax.export.deserialize(exported.serialize()).call(x), np.sin(x) + x, rtol=1e-5)


REFUSED = {
    "neighbours": (blur_rows, "i j -> i j", (8, 6), "cut along 'j': a thread uses elements of x other than its own"),
    "index as a number": (count_up, "i -> i", (8,), "cut along 'i': the thread index or an extent along it is used"),
    "extent as a number": (average, "i -> i", (8,), "cut along 'i': the thread index or an extent along it is used"),
    "one thread is special": (clear_first, "i -> i", (8,), "cut along 'i': the thread index or an extent along it"),
    "other elements": (reverse, "i -> i", (8,), "cut along 'i': a thread uses elements of x other than its own"),
    "rank": (axpy, ", i j, i -> i", (8,), "argument 'x' has 1 axis, but sharding_rule ', i j, i -> i' gives it 'i j'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rules_that_the_kernel_does_not_keep(case):
    kernel, rule, shape, message = REFUSED[case]
    args = (1.0, np.zeros(shape, np.float32)) if kernel is axpy else ()
    with pytest.raises(KernelValueError) as caught:
        jax_kernel(kernel, sharding_rule=rule)(*args, np.zeros(shape, np.float32))
    assert message in caught.value.message
    if case != "rank":
        assert caught.value.loc is not None
        assert caught.value.loc.file == __file__


@wp.kernel
def fill(out: wp.array[float]):
    out[wp.tid()] = 3.0


def test_a_launch_without_operands():
    call = jax_kernel(fill, sharding_rule="-> i", launch_dims=16, output_dims=16)
    np.testing.assert_array_equal(jax.jit(lambda: call()[0])(), np.full(16, 3.0, np.float32))


def test_without_operands_beside_what_is_sharded(mesh):
    call = jax_kernel(fill, sharding_rule="-> i", launch_dims=16, output_dims=16)
    x = random(16)
    np.testing.assert_array_equal(jax.jit(lambda x: call()[0] + x)(put(mesh, x, "a")), x + 3)


def test_threads_that_write_the_same_element():
    call = jax_kernel(last_wins, num_outputs=2, sharding_rule="i -> i, n", output_dims={"y": 8, "z": 1})
    with pytest.raises(KernelValueError, match="threads along it write the same elements of z"):
        call(np.zeros(8, np.float32))


@wp.kernel
def slots(x: wp.array[float], count: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    slot = -1
    if x[i] > 0.0:
        slot = wp.atomic_add(count, 0, 1)
    out[i] = slot


@wp.kernel
def last_slots(x: wp.array[float], count: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    slot = -1
    for _ in range(int(x[i])):
        slot = wp.atomic_add(count, 0, 1)
    out[i] = slot


@pytest.mark.parametrize("kernel", [slots, last_slots])
def test_old_values_of_atomics_that_leave_a_branch_or_a_loop(kernel):
    """Every shard would count from zero."""
    call = jax_kernel(kernel, num_outputs=2, sharding_rule="i -> n, i", output_dims={"count": 1, "out": 16})
    with pytest.raises(KernelValueError, match="threads along it write the same elements of count"):
        call(np.ones(16, np.float32))


@pytest.mark.parametrize("dtype", [wp.float16, wp.bfloat16, wp.float32], ids=str)
def test_extremes_of_shards(mesh, dtype):
    """XLA's reduction of NaN alone is -inf, and it takes either zero."""

    @wp.kernel
    def both(x: wp.array[dtype], low: wp.array[dtype], high: wp.array[dtype]):
        wp.atomic_min(low, 0, x[wp.tid()])
        wp.atomic_max(high, 0, x[wp.tid()])

    call = jax_kernel(both, 2, in_out_argnames=["low", "high"], sharding_rule="i, m, n -> m, n")
    nan, rng = np.nan, np.random.default_rng(0)
    for choice in ([nan], [nan, 0.0, -0.0], [0.0, -0.0], [nan, 2.0, -3.0, np.inf, -np.inf], [nan] * 15 + [1.0]):
        for start in (nan, 1.0, -0.0):
            x, before = rng.choice(choice, 16).astype(dtype.numpy), np.full(1, start, dtype.numpy)
            alone = call(x, before, before)
            for ours, right in zip(jax.jit(call)(put(mesh, x, "a"), before, before), alone, strict=True):
                assert same_values(np.asarray(ours), np.asarray(right)), (x, start)


def test_the_last_of_equal_operands_on_several_devices(mesh):
    call = jax_kernel(highest, in_out_argnames=["best"], sharding_rule="i, n -> n")
    x = np.zeros(16, np.float32)
    x[[3, 9, 13]] = 2.0
    value = lambda x: call(x, jnp.zeros(1))[0][0]  # noqa: E731
    for given in (x, put(mesh, x, "a")):
        assert np.flatnonzero(jax.jit(jax.grad(value))(given)).tolist() == [13]
        assert jax.jit(lambda x: jax.jvp(value, (x,), (jnp.arange(16, dtype=float),))[1])(given) == 13


def test_launch_dims_that_do_not_follow_the_factor():
    call = jax_kernel(axpy, sharding_rule="i, i -> i", launch_dims=4, output_dims=8)
    with pytest.raises(KernelValueError, match="it has 8 elements, and the launch 4 threads"):
        call(1.0, np.zeros(8, np.float32), np.zeros(8, np.float32))
    call = jax_kernel(axpy, sharding_rule="i, i -> i")
    with pytest.raises(KernelValueError, match="'y': factor 'i' of sharding_rule 'i, i -> i' has 9 elements here"):
        call(1.0, np.zeros(8, np.float32), np.zeros(9, np.float32))


BAD = {
    "i, i": 'expected one "->" between inputs and outputs',
    "i -> i": r"expected an entry for each of 3 inputs \(s, x, y\), got 1",
    "i, i -> i, i": r"expected an entry for each of 1 outputs \(out\), got 2",
    "..., ... -> ...": "are not supported; name one factor",
    "(i j), i -> i": "are not supported; name one factor",
    "i, 2 -> i": "expected a name of letters and digits for each axis, got '2'",
    "i i, i -> i": "factor 'i' stands twice in 'i i'",
}


@pytest.mark.parametrize("rule", BAD)
def test_rules_that_are_none(rule):
    with pytest.raises(KernelValueError, match=BAD[rule]):
        jax_kernel(axpy, sharding_rule=rule)


def test_other_refusals():
    with pytest.raises(KernelTypeError, match='expected a string like "i j, i j -> i j", got 3'):
        jax_kernel(axpy, sharding_rule=3)
    with pytest.raises(KernelValueError, match="has 'i' as an input and 'j' as an output"):
        jax_kernel(first_half, in_out_argnames=["total"], sharding_rule="n, i -> j")
    with pytest.raises(KernelValueError, match="sharding_rule and has_side_effect do not go together"):
        jax_kernel(axpy, has_side_effect=True, sharding_rule="i, i -> i")
