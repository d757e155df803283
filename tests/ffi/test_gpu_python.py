"""Python functions that XLA calls on a real GPU: callbacks and `GraphMode.NONE`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_graph_none
from test_graph_none import PROGRAMS, X, accumulate, average, none, scale

import jaxwarp as wp

pytestmark = pytest.mark.gpu

AGAIN = [
    getattr(test_graph_none, name)
    for name in (
        "test_runs_on_every_execution", "test_inputs_of_the_caller_are_left_alone", "test_derivatives_are_refused",
        "test_a_function_lives_as_long_as_its_programs", "test_calls_leave_nothing_behind", "test_threads",
    )
]  # fmt: skip


@pytest.mark.parametrize("test", AGAIN, ids=lambda t: t.__name__)
def test_again(test):
    test()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("jit", [False, True])
def test_the_same_in_every_mode(name, jit):
    test_graph_none.test_the_same_in_every_mode(name, jit)


@pytest.mark.parametrize("name", test_graph_none.CONTROL)
def test_inside_programs(name):
    test_graph_none.test_inside_programs(name)


@pytest.mark.parametrize("method", test_graph_none.METHODS)
def test_vmap(method):
    test_graph_none.test_vmap(method)


@pytest.mark.parametrize("dtype", test_graph_none.DTYPES)
def test_types(dtype):
    test_graph_none.test_types(dtype)


def test_the_host_takes_part():
    def settle(a: wp.array[float], steps: wp.array[int], out: wp.array[float]):
        here, there = wp.clone(a), wp.empty_like(a)
        while np.ptp(here.numpy()) > 0.5:
            wp.launch(average, a.shape, [here], [there])
            here, there = there, here
            steps[0] = int(steps[0]) + 1
        wp.copy(out, here)
        assert str(a.device) == "cuda:0"

    call = none(settle, num_outputs=2, output_dims={"steps": 1, "out": 6})
    expected, count = X.copy(), 0
    while np.ptp(expected) > 0.5:
        expected = 0.5 * expected + 0.25 * (np.roll(expected, -1) + np.roll(expected, 1))
        count += 1
    for _ in range(3):
        steps, out = jax.jit(call)(X)
        assert steps.tolist() == [count]
        np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize("is_compatible", [True, False])
def test_callbacks_in_and_out_of_cuda_graphs(is_compatible):
    def program(inputs, outputs, attrs, ctx):
        device = wp.device_from_jax(jax.local_devices()[0])
        work = outputs[1] if is_compatible else wp.zeros(6)  # a graph may not allocate
        with wp.ScopedStream(wp.Stream(device, cuda_stream=ctx.stream)):
            wp.launch(scale, 6, [inputs[0], attrs["s"]], [work])
            wp.launch(average, 6, [work], [outputs[0]])
        outputs[1].fill_(3.0)
        if is_compatible:
            outputs[1][:3] = outputs[0][3:]
        else:  # a graph could not be updated
            outputs[1][::2] = outputs[0][1::2]
        wp.launch(accumulate, 6, [inputs[0]], [outputs[1]])

    name = f"gpu_{is_compatible}"
    wp.register_ffi_callback(name, program, graph_compatible=is_compatible)
    like = jax.ShapeDtypeStruct((6,), jnp.float32)
    call = jax.ffi.ffi_call(name, [like, like])

    @jax.jit
    def run(x):
        for _ in range(10):
            x, y = call(x, s=0.5)
        return x, y

    def reference(x):
        for _ in range(10):
            total = (x**2).sum()
            x = 0.5 * (0.5 * x + 0.25 * (np.roll(x, -1) + np.roll(x, 1)))
        y = np.full(6, 3.0)
        if is_compatible:
            y[:3] = x[3:]
        else:
            y[::2] = x[1::2]
        y[0] += total
        return x, y

    for i in range(4):  # the second execution may be the first of a graph
        x, y = run(X + i)
        expected = reference(X + i)
        np.testing.assert_allclose(x, expected[0], rtol=1e-5)
        np.testing.assert_allclose(y, expected[1], rtol=1e-5)


def test_copies_that_a_graph_could_not_update_are_refused_in_one():
    def program(inputs, outputs, attrs, ctx):
        outputs[0][::2] = inputs[0][1::2]

    wp.register_ffi_callback("gpu_gaps", program)
    call = jax.ffi.ffi_call("gpu_gaps", jax.ShapeDtypeStruct((6,), jnp.float32))

    @jax.jit
    def once(x):
        for _ in range(10):
            x = call(x)
        return x

    def often():
        for i in range(4):
            jax.block_until_ready(once(X + i))

    with pytest.raises(jax.errors.JaxRuntimeError, match="gaps cannot be copied"):
        often()


def test_dlpack_and_numpy_of_bfloat16():
    def program(inputs, outputs, attrs, ctx):
        assert inputs[0].numpy().dtype == jnp.bfloat16
        assert outputs[0].__dlpack_device__() == (2, 0)
        assert not hasattr(inputs[0], "__cuda_array_interface__")
        outputs[0].assign(inputs[0].numpy())

    x = jnp.arange(6, dtype=jnp.bfloat16)
    wp.register_ffi_callback("gpu_bfloat16", program)
    out = jax.ffi.ffi_call("gpu_bfloat16", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    np.testing.assert_array_equal(np.asarray(out), np.asarray(x))


def test_with_cupy():
    cupy = pytest.importorskip("cupy")

    def program(inputs, outputs, attrs, ctx):
        stream = wp.Stream(wp.device_from_jax(jax.local_devices()[0]), cuda_stream=ctx.stream)
        with cupy.cuda.Stream.from_external(stream):
            cupy.copyto(cupy.asarray(outputs[0]), 2 * cupy.asarray(inputs[0]))
            work = cupy.zeros(6, cupy.float32)
            wp.launch(scale, 6, [outputs[0], 2.0], [work])
            cupy.asarray(outputs[1])[...] = work

    wp.register_ffi_callback("gpu_cupy", program, graph_compatible=False)
    like = jax.ShapeDtypeStruct((6,), jnp.float32)
    first, second = jax.ffi.ffi_call("gpu_cupy", [like, like])(X)
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 4 * X)


def test_errors_arrive():
    def fails(a: wp.array[float], out: wp.array[float]):
        wp.zeros(6)
        raise ValueError("no such table")

    with pytest.raises(jax.errors.JaxRuntimeError, match="callable fails: ValueError: no such table"):
        jax.block_until_ready(none(fails)(X))
    np.testing.assert_array_equal(none(test_graph_none.smoothing)(X, 0)[0], X)
