"""Launches whose dimensions nobody gives: as many axes of the first array as `tid()` gives indices, or a refusal."""

from __future__ import annotations

from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxwarp as wp
from jaxwarp.errors import KernelValueError

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@wp.kernel
def row_energy(x: wp.array2d[float], total: wp.array[float]):
    i = wp.tid()
    for j in range(x.shape[1]):
        wp.atomic_add(total, 0, x[i, j] * x[i, j])


@wp.kernel
def first_column(x: wp.array2d[float], norm: wp.array2d[float]):
    i = wp.tid()
    norm[i, 0] += x[i, 0]


def energy(x: Any) -> Any:
    return wp.jax_kernel(row_energy, output_dims=1)(x)[0][0]


@pytest.mark.parametrize("mode", ["release", "debug"])
def test_an_index_of_fewer_names_than_axes(mode):
    """Each row ran once for every column: 48 for 12."""
    call = wp.jax_kernel(row_energy, output_dims=1, mode=mode)
    for f in (call, jax.jit(call)):
        np.testing.assert_allclose(f(X)[0], [np.sum(X * X)])
    call = wp.jax_kernel(first_column, mode=mode)
    for f in (call, jax.jit(call)):
        np.testing.assert_array_equal(f(X)[0], np.where(np.arange(4) == 0, X, 0))


def test_transformations():
    batch = np.stack([X, X + 1, X * 2])
    for wrap in (lambda f: f, jax.jit):
        np.testing.assert_allclose(wrap(jax.vmap(energy))(batch), np.sum(batch**2, axis=(1, 2)))
        last = batch.transpose(1, 2, 0)
        np.testing.assert_allclose(wrap(jax.vmap(energy, in_axes=2))(last), np.sum(batch**2, axis=(1, 2)))
        np.testing.assert_allclose(wrap(jax.grad(energy))(X), 2 * X)
        np.testing.assert_allclose(wrap(jax.vmap(jax.grad(energy)))(batch), 2 * batch)
        np.testing.assert_allclose(wrap(lambda x: jax.jvp(energy, (x,), (x,))[1])(X), 2 * np.sum(X * X))


def test_symbolic_shapes():
    n, m = jax.export.symbolic_shape("n, m")
    checks = wp.export_checks()
    program = jax.export.export(jax.jit(energy), disabled_checks=checks)(jax.ShapeDtypeStruct((n, m), jnp.float32))
    np.testing.assert_allclose(program.call(X), np.sum(X * X))


@pytest.mark.skipif(len(jax.devices()) < 2, reason="one device")
def test_a_sharding_rule():
    @wp.kernel
    def row_sum(x: wp.array2d[float], out: wp.array[float]):
        i = wp.tid()
        for j in range(x.shape[1]):
            out[i] += x[i, j]

    mesh = Mesh(np.array(jax.devices()[:2]), ("x",), axis_types=(AxisType.Auto,))
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    call = jax.jit(wp.jax_kernel(row_sum, sharding_rule="i j -> i"))
    (found,) = call(jax.device_put(x, NamedSharding(mesh, P("x", None))))
    np.testing.assert_allclose(found, x.sum(axis=1))
    assert found.sharding.spec == P("x")


def test_generic_kernels():
    @wp.kernel
    def total(x: wp.array2d[Any], out: wp.array[Any]):
        i = wp.tid()
        for j in range(x.shape[1]):
            wp.atomic_add(out, 0, x[i, j])

    call = wp.jax_kernel(total, output_dims=1)
    assert call(X)[0] == X.sum()
    assert call(X.astype(np.int32))[0].tolist() == [66]


@wp.struct
class Cloud:
    scale: float
    points: wp.array2d[wp.vec3]


def test_structs_and_vectors():
    @wp.kernel
    def total(cloud: Cloud, out: wp.array[float]):
        i = wp.tid()
        for j in range(cloud.points.shape[1]):
            wp.atomic_add(out, 0, cloud.scale * cloud.points[i, j].x)

    points = np.arange(36, dtype=np.float32).reshape(3, 4, 3)
    call = wp.jax_kernel(total, output_dims=1)
    assert jax.jit(call)(Cloud(2.0, points))[0] == 2 * points[..., 0].sum()


def test_interpreted():
    out = np.zeros(1, np.float32)
    row_energy.interpret(X, out)
    assert out[0] == np.sum(X * X)


def test_callables_take_the_shape_of_the_first_array_for_outputs():
    def f(x: wp.array2d[float], out: wp.array[float]):
        wp.launch(row_energy, dim=x.shape[0], inputs=[x], outputs=[out])

    with pytest.raises(KernelValueError, match="output_dims"):
        wp.jax_callable(f)(X)
    assert wp.jax_callable(f, output_dims=1)(X)[0] == np.sum(X * X)


def test_dimensions_that_are_given_keep_their_meaning():
    """Each thread of the leading axes runs once for each point of the others, as in Warp."""
    assert wp.jax_kernel(row_energy, launch_dims=(3, 4), output_dims=1)(X)[0] == 4 * np.sum(X * X)
    out = wp.zeros(1, dtype=float)
    wp.launch(row_energy, dim=(3, 4), inputs=[wp.array(X)], outputs=[out])
    assert out.numpy()[0] == 4 * np.sum(X * X)


def test_more_names_than_the_first_array_has_axes():
    @wp.kernel
    def outer(x: wp.array[float], y: wp.array[float], out: wp.array2d[float]):
        i, j = wp.tid()
        out[i, j] = x[i] * y[j]

    x, y = np.ones(3, np.float32), np.ones(2, np.float32)
    wanted = r"tid\(\) gives 2 indices, .* 'x', which are \(3,\)(.|\n)*i, j = wp.tid\(\)(.|\n)*launch_dims=\(..., ...\)"
    with pytest.raises(KernelValueError, match=wanted):
        wp.jax_kernel(outer)(x, y)
    assert wp.jax_kernel(outer, launch_dims=(3, 2))(x, y)[0].shape == (3, 2)


def test_no_index_at_all():
    @wp.kernel
    def count(x: wp.array[float], out: wp.array[float]):
        wp.atomic_add(out, 0, x[0])

    @wp.kernel
    def last(x: wp.array2d[float], out: wp.array[float]):
        out[0] = x[-1, -1]

    with pytest.raises(KernelValueError, match=r"asks for no thread index(.|\n)*launch_dims=1 for one thread"):
        wp.jax_kernel(count)(X[1])
    assert wp.jax_kernel(count, launch_dims=1)(X[1])[0][0] == X[1, 0]
    assert wp.jax_kernel(last)(X)[0][0] == X[-1, -1]  # however many threads there are


# Tiles


@wp.kernel
def doubled(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    wp.tile_store(out, 2.0 * wp.tile_load(a, shape=4, offset=4 * i), offset=4 * i)


@wp.kernel
def doubled_slices(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    wp.tile_store(out[4 * i : 4 * i + 4], 2.0 * wp.tile_load(a[4 * i : 4 * i + 4], shape=4))


@wp.kernel
def doubled_atomically(a: wp.array[float], out: wp.array[float]):
    place = 0
    for _k in range(wp.tid()):
        place += 4
    wp.tile_atomic_add(out, 2.0 * wp.tile_load(a, shape=4, offset=place), offset=place)


@pytest.mark.parametrize("kernel", [doubled, doubled_slices, doubled_atomically])
def test_blocks_need_dimensions(kernel):
    a = np.arange(8, dtype=np.float32)
    with pytest.raises(KernelValueError, match=r"threads are blocks of elements(.|\n)*tile_(.|\n)*launch_dims="):
        wp.jax_kernel(kernel)(a)
    with pytest.raises(KernelValueError, match=r"output 'out'(.|\n)*tile of 4 elements(.|\n)*output_dims="):
        wp.jax_kernel(kernel, launch_dims=2)(a)
    for f in (call := wp.jax_kernel(kernel, launch_dims=2, output_dims=8), jax.jit(call)):
        np.testing.assert_array_equal(f(a)[0], 2 * a)
    by_name = wp.jax_kernel(kernel)(a, launch_dims=2, output_dims={"out": 8})
    np.testing.assert_array_equal(by_name[0], 2 * a)


def test_a_tile_of_each_row_needs_none():
    @wp.kernel
    def sums(a: wp.array2d[float], out: wp.array[float]):
        i = wp.tid()
        total = 0.0
        for k in range(a.shape[1] // 2):
            total += wp.tile_sum(wp.tile_load(a[i], shape=2, offset=2 * k))[0]
            total += wp.tile_sum(wp.tile_load(a, shape=(1, 2), offset=(i, 2 * k)))[0]
        out[i] = total

    np.testing.assert_array_equal(wp.jax_kernel(sums)(X)[0], 2 * X.sum(axis=1))


def test_a_tile_in_an_array_of_structs():
    @wp.struct
    class Pair:
        a: float
        b: float

    @wp.kernel
    def copied(x: wp.array[Pair], out: wp.array[Pair]):
        i = wp.tid()
        wp.tile_store(out, wp.tile_load(x, shape=2, offset=2 * i), offset=2 * i)

    pairs = Pair(np.arange(4, dtype=np.float32), np.ones(4, np.float32))
    with pytest.raises(KernelValueError, match="launch_dims="):
        wp.jax_kernel(copied)(pairs)
    with pytest.raises(KernelValueError, match="output_dims="):
        wp.jax_kernel(copied, launch_dims=2)(pairs)
    (found,) = wp.jax_kernel(copied, launch_dims=2, output_dims=4)(pairs)
    np.testing.assert_array_equal(found.a, pairs.a)
