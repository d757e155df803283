"""Arrays of a `jax_callable` that functions written for Warp use in several ways: aliases, other shapes, addresses."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import GraphMode, jax_callable
from jaxwarp.errors import KernelTypeError, KernelValueError

X = np.arange(6, dtype=np.float32)
MODES = [GraphMode.JAX, GraphMode.WARP]


@wp.kernel
def double(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i] * 2.0


@wp.kernel
def add_rows(v: wp.array2d[wp.vec3], out: wp.array[float]):
    i = wp.tid()
    out[i] += v[i, 0][0] + v[i, 2][2]


@wp.kernel
def raise_rows(v: wp.array2d[wp.vec3]):
    i, j = wp.tid()
    v[i, j] = v[i, j] + wp.vec3(1.0, 2.0, 3.0)


@pytest.mark.parametrize("mode", MODES)
def test_an_array_that_is_read_and_written(mode):
    def program(x: wp.array[float]):
        wp.launch(double, x.shape, [x], [x])
        wp.launch(double, 2, [x[1:3]], [x[1:3]])

    call = jax_callable(program, in_out_argnames=["x"], graph_mode=mode)
    factors = np.array([2, 4, 4, 2, 2, 2], np.float32)
    np.testing.assert_array_equal(jax.jit(call)(X)[0], X * factors)
    np.testing.assert_array_equal(jax.jit(jax.vmap(call))(np.stack([X, -X]))[0], np.stack([X, -X]) * factors)
    np.testing.assert_array_equal(jax.grad(lambda x: call(x)[0].sum())(X), factors)


def test_parts_that_overlap_are_refused():
    def program(x: wp.array[float]):
        wp.launch(double, 3, [x[0:3]], [x[2:5]])

    with pytest.raises(KernelTypeError, match="the same array, or parts of one that overlap"):
        jax_callable(program, in_out_argnames=["x"])(X)


@pytest.mark.parametrize("mode", MODES)
def test_the_same_memory_in_another_shape(mode):
    def program(m: wp.array[wp.mat33], out: wp.array[float]):
        rows = wp.array(ptr=m.ptr, dtype=wp.vec3, shape=(m.shape[0], 3), device=m.device, copy=False)
        wp.launch(raise_rows, rows.shape, [rows])
        wp.launch(add_rows, out.shape[0], [rows], [out])
        wp.launch(double, 1, [out.reshape((-1, 1)).flatten()[1:]], [out[0:1]])

    call = jax_callable(program, num_outputs=2, in_out_argnames=["m"], output_dims={"out": 2}, graph_mode=mode)
    given = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    raised = given + np.array([1, 2, 3], np.float32)
    sums = raised[:, 0, 0] + raised[:, 2, 2]
    m, out = jax.jit(call)(given)
    np.testing.assert_array_equal(m, raised)
    np.testing.assert_array_equal(out, [2 * sums[1], sums[1]])


def test_a_part_of_memory_as_another_array():
    def program(x: wp.array[float]):
        first = wp.array(ptr=x.ptr, dtype=wp.vec2, shape=2)
        first.assign(first.value + 1.0)

    (found,) = jax.jit(jax_callable(program, in_out_argnames=["x"]))(X)
    np.testing.assert_array_equal(found, [1, 2, 3, 4, 4, 5])


def test_memory_that_is_none_of_another_array():
    def more(x: wp.array[float], out: wp.array[float]):
        wp.array(ptr=x.ptr, dtype=wp.vec2, shape=4)

    def other(x: wp.array[float], out: wp.array[float]):
        wp.array(ptr=x.ptr, dtype=int, shape=2)

    def gaps(x: wp.array[float], out: wp.array[float]):
        x[::2].reshape((3, 1))

    def shape(x: wp.array[float], out: wp.array[float]):
        x.reshape((4, 2))

    def strides(x: wp.array[float], out: wp.array[float]):
        wp.array(ptr=x.ptr, dtype=float, shape=3, strides=(8,))

    for program, message in ((more, "cannot have 8"), (other, "numbers of float32"), (gaps, "has gaps"),
                             (shape, "cannot be reshaped"), (strides, "side by side")):  # fmt: skip
        with pytest.raises((KernelTypeError, KernelValueError), match=message):
            jax_callable(program)(X)


def test_an_array_is_true_if_it_has_elements():
    seen = []

    def program(x: wp.array[float], out: wp.array[float]):
        seen.append([bool(x), bool(wp.empty(0, dtype=bool)), (None or wp.empty(0, dtype=float)) or x])
        wp.launch(double, x.shape, [x], [out])

    jax.jit(jax_callable(program))(X)
    assert seen[0][:2] == [True, False]
    assert seen[0][2].name == "x"


def test_output_dims_may_name_in_outs():
    def program(x: wp.array[wp.vec2], out: wp.array[float]):
        out.fill_(1.0)

    call = jax_callable(program, num_outputs=2, in_out_argnames=["x"])
    _, out = call(X.reshape(3, 2), output_dims={"x": (3, 2), "out": 4})
    assert out.tolist() == [1, 1, 1, 1]
    call(X.reshape(3, 2), output_dims={"x": 3})
    with pytest.raises(KernelValueError, match=r"has the shape of its input, \(3, 2\), got 4"):
        call(X.reshape(3, 2), output_dims={"x": 4})


@pytest.mark.parametrize("mode", MODES)
def test_empty_launches_are_not_compiled(mode):
    @wp.kernel
    def untyped(x: wp.array[float], out: wp.array[float]):
        out[wp.tid()] = x[wp.tid()] + no_such_name  # noqa: F821

    def program(x: wp.array[float], out: wp.array[float]):
        wp.launch(untyped, (3, 0), [x], [out])
        wp.launch(double, x.shape, [x], [out])

    np.testing.assert_array_equal(jax.jit(jax_callable(program, graph_mode=mode))(X)[0], 2 * X)


def test_annotations_name_variables_of_the_enclosing_function():
    def made(dtype):
        def program(a: wp.array(dtype=dtype), b: wp.array(dtype=dtype)):
            assert a.dtype == dtype
            wp.launch(double, a.shape[0], [a], [b])

        return jax_callable(program)

    np.testing.assert_array_equal(made(wp.float32)(X)[0], 2 * X)


def test_types_in_annotations_are_no_dataclasses():
    for kind in (wp.array[int], wp.vec3, wp.mat33, wp.quat, wp.transform, wp.float32):
        assert not dataclasses.is_dataclass(kind)
    with pytest.raises(AttributeError, match="dtype cannot be set"):
        wp.array[int].dtype = float


def test_numpy_types_by_the_name_that_programs_use():
    found = wp._src.types.warp_type_to_np_dtype
    assert found[wp.float32] is np.float32
    assert found[wp.bool] is np.bool_
    assert int not in found
    assert wp.vec3 not in found


def test_the_device_is_that_of_new_arrays():
    seen = []

    def program(a: wp.array[float], out: wp.array[float]):
        seen.append(a.device)

    call = jax_callable(program)
    jax.jit(call)(X)
    with jax.default_device("cpu"):
        jax.jit(call)(X[:2])
    with jax.default_device(jax.devices("cpu")[1]):
        jax.jit(call)(X[:3])
    assert all(device.is_cpu for device in seen[1:])
