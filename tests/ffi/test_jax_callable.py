"""`jax_callable`: a Python function of launches as a JAX function."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import PartitionSpec as P

import jaxwarp as wp
from jaxwarp import GraphMode, KernelError, jax_callable
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.programs import jax_callable as jax_callables

X = np.arange(6, dtype=np.float32)


@wp.kernel
def scale(a: wp.array[float], s: float, out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i] * s


@wp.kernel
def divided(a: wp.array[float], by: float, out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i] / by


@wp.kernel
def scale_vec(a: wp.array[wp.vec2], s: float, out: wp.array[wp.vec2]):
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


def averaged(a):
    return 0.5 * a + 0.25 * (jnp.roll(a, -1) + jnp.roll(a, 1))


def test_many_python_numbers_warn_at_the_call(monkeypatch: pytest.MonkeyPatch):
    """A time step or a clock as a Python number compiles in every step, which took 80 milliseconds."""
    monkeypatch.setattr(jax_callables, "_MAX_COMPILED", 2)

    @jax_callable(outputs="out")
    def scaled(a: wp.array[float], s: float, out: wp.array[float]):
        wp.launch(scale, dim=a.shape, inputs=[a, s], outputs=[out])

    for s in (1.0, 2.0, 1.0):
        scaled(X, s)
    with pytest.warns(wp.PerformanceWarning, match="scaled was compiled 2 times: .* numbers s compiles") as found:
        np.testing.assert_array_equal(scaled(X, 3.0), 3 * X)
    assert found[0].filename == __file__
    for s in (4.0, 5.0, 6.0):
        np.testing.assert_array_equal(scaled(X, jnp.float32(s)), s * X)


def test_many_shapes_beside_one_python_number_do_not_warn(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
):
    """The warning named the number, which was the same in all programs."""
    monkeypatch.setattr(jax_callables, "_MAX_COMPILED", 2)

    @jax_callable(outputs="out")
    def scaled(a: wp.array[float], s: float, out: wp.array[float]):
        wp.launch(scale, dim=a.shape, inputs=[a, s], outputs=[out])

    for n in (2, 3, 4, 5):
        np.testing.assert_array_equal(scaled(X[:n], 2.0), 2 * X[:n])
    assert not [w for w in recwarn if w.category is wp.PerformanceWarning]


def test_documented_program():
    def program(a: wp.array[float], b: wp.array[wp.vec2], s: float, c: wp.array[float], d: wp.array[wp.vec2]):
        wp.launch(scale, dim=a.shape, inputs=[a, s], outputs=[c])
        wp.launch(scale_vec, dim=b.shape, inputs=[b, s], outputs=[d])

    b = X.reshape(3, 2)
    call = jax_callable(program, num_outputs=2)
    for dims in ({"c": (6,), "d": (3, 2)}, {"c": 6, "d": 3}, {"c": [6], "d": b.shape}):
        c, d = call(X, b, 2.0, output_dims=dims)
        np.testing.assert_array_equal(c, 2 * X)
        np.testing.assert_array_equal(d, 2 * b)
    c, d = jax.jit(lambda s: call(X, b, s=s, output_dims={"c": 6, "d": 3}))(3.0)  # a traced scalar, by name
    np.testing.assert_array_equal(d, 3 * b)


def smoothing(a: wp.array[float], steps: int, out: wp.array[float]):
    """`steps` averages, from one array to the other and back."""
    here, there = wp.clone(a), wp.empty_like(a)
    for _ in range(steps):
        wp.launch(average, a.shape, [here], [there])
        here, there = there, here
    wp.copy(out, here)


smooth = jax_callable(smoothing)


def smooth_reference(a, steps):
    for _ in range(steps):
        a = averaged(a)
    return a


def test_loops_and_temporaries():
    np.testing.assert_allclose(smooth(X, 5)[0], smooth_reference(X, 5), rtol=1e-6)
    np.testing.assert_array_equal(smooth(X, 0)[0], X)


def test_a_long_ping_pong_copies_nothing():
    text = jax.jit(lambda a: smooth(a, 100)[0]).lower(X).compile().as_text()
    assert text.count('custom_call_target="jaxwarp_launch"') == 100
    assert "copy(" not in text


@pytest.mark.release_mode("in debug mode they are made, and checked")
def test_launches_that_nobody_needs_disappear():
    def program(a: wp.array[float], out: wp.array[float]):
        wp.launch(average, a.shape, [a], [wp.zeros_like(a)])
        wp.launch(scale, a.shape, [a, 1.0], [out])

    text = jax.jit(lambda a: jax_callable(program)(a)[0]).lower(X).compile().as_text()
    assert text.count('custom_call_target="jaxwarp_launch"') == 1


def test_in_out_arguments_and_accumulation():
    def program(a: wp.array[float], total: wp.array[float], out: wp.array[float]):
        wp.launch(accumulate, a.shape, [a], [total])
        wp.launch(accumulate, a.shape, [a], [total])
        wp.launch(scale, a.shape, [a, 2.0], [out])

    start = jnp.array([1.0], jnp.float32)
    total, out = jax_callable(program, num_outputs=2, in_out_argnames=["total"])(X, start)
    np.testing.assert_allclose(total, [1 + 2 * (X**2).sum()])
    np.testing.assert_array_equal(out, 2 * X)
    np.testing.assert_array_equal(start, [1.0])


def test_parts_of_arrays_fill_and_jnp():
    def program(a: wp.array2d[float], out: wp.array2d[float]):
        wp.launch(scale, a.shape[1], [a[1], 10.0], [out[0]])
        out[1, 1:].fill_(7.0)
        out[1][0:1].assign(jnp.sin(a[0].value)[:1])
        out[2] = jnp.cumsum(a[0].value)
        assert (len(a), a.ndim, a.size, a.dtype, a[0].shape) == (3, 2, 6, wp.float32, (2,))

    a = X.reshape(3, 2)
    (out,) = jax_callable(program)(a)
    np.testing.assert_allclose(out, [10 * a[1], [np.sin(a[0, 0]), 7.0], np.cumsum(a[0])])


def test_made_arrays():
    def program(v: wp.array[wp.vec3], out: wp.array[wp.vec3]):
        ones = wp.full_like(v, 1.0)
        row = wp.full(2, wp.vec3(1.0, 2.0, 3.0), dtype=wp.vec3)
        assert ones.shape == v.shape == row.shape == wp.zeros((2,), wp.vec3).shape
        out.assign(ones.value + row.value + wp.zeros_like(v).value + wp.empty(2, wp.vec3).value)

    (out,) = jax_callable(program)(np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(out, [[2, 3, 4]] * 2)


def test_copy_of_a_range():
    def program(a: wp.array[float], out: wp.array[float]):
        wp.copy(out, a, dest_offset=1, src_offset=3, count=2)

    np.testing.assert_array_equal(jax_callable(program)(X)[0], [0, 3, 4, 0, 0, 0])


def test_python_numbers_are_static_and_jax_scalars_are_not():
    traces = []

    def program(a: wp.array[float], n: int, s: float, out: wp.array[float]):
        traces.append(n)
        if n > 2:
            wp.launch(scale, a.shape, [a, s], [out])

    call = jax_callable(program)
    np.testing.assert_array_equal(call(X, 1, 2.0)[0], 0 * X)
    np.testing.assert_array_equal(call(X, 3, 2.0)[0], 2 * X)
    np.testing.assert_array_equal(call(X, 3, jnp.float32(4.0))[0], 4 * X)
    np.testing.assert_array_equal(call(X, 3, jnp.float32(5.0))[0], 5 * X)
    assert traces == [1, 3, 3]  # a call of a signature seen before does not run Python


TRANSFORMS = {
    "vmap": lambda f: jax.vmap(f, in_axes=1)(np.stack([X, 2 * X], 1)),
    "grad": lambda f: jax.grad(lambda a: jnp.sum(jnp.sin(f(a))))(X),
    "jvp": lambda f: jax.jvp(f, (X,), (np.cos(X),)),
    "hessian": lambda f: jax.jit(jax.hessian(lambda a: jnp.sum(jnp.sin(f(a)))))(X),
    "scan": lambda f: jax.lax.scan(lambda c, _: (f(c), c.sum()), X, None, length=3),
    "checkpoint": lambda f: jax.grad(lambda a: jnp.sum(jax.checkpoint(f)(a) ** 2))(X),
    "donate": lambda f: jax.jit(f, donate_argnums=0)(jnp.array(X)),
    "vmap-grad": lambda f: jax.vmap(jax.grad(lambda a: jnp.sum(jnp.sin(f(a)))))(np.stack([X, 2 * X])),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transformations(transform):
    run = TRANSFORMS[transform]
    got, expected = run(lambda a: smooth(a, 3)[0]), run(lambda a: smooth_reference(a, 3))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), got, expected)


def test_shard_map():
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    x = np.arange(32, dtype=np.float32)
    mapped = jax.shard_map(lambda a: smooth(a, 2)[0], mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    expected = np.concatenate([smooth_reference(part, 2) for part in x.reshape(8, 4)])
    np.testing.assert_allclose(jax.jit(mapped)(x), expected, rtol=1e-6)


def test_export_with_a_symbolic_extent():
    (n,) = export.symbolic_shape("n")
    program = export.export(jax.jit(lambda a: smooth(a, 2)[0]), disabled_checks=wp.export_checks())(
        jax.ShapeDtypeStruct((n,), jnp.float32)
    )
    again = export.deserialize(program.serialize())
    np.testing.assert_allclose(again.call(X), smooth_reference(X, 2), rtol=1e-6)


def test_retraces_leave_nothing_behind():
    call = jax_callable(smoothing)
    for n in range(400):
        call(X, n % 300 if n % 300 < 2 else n % 2)
        jax.jit(lambda a, n=n: call(a, n % 2)[0]).lower(X)
    assert len(call._compiled) <= 256


# Errors


def fails(program, *args, error=KernelTypeError, **options) -> str:
    with pytest.raises(error) as caught:
        jax_callable(program, **options)(*args)
    return str(caught.value)


def test_writing_to_an_input():
    def program(a: wp.array[float], out: wp.array[float]):
        wp.launch(scale, a.shape, [out, 2.0, a])

    text = fails(program, X)
    assert text.splitlines()[0] == "array 'a' is an input and cannot be written by kernel scale"
    assert "wp.launch(scale, a.shape, [out, 2.0, a])" in text
    assert text.endswith("hint: name it in in_out_argnames=['a'], or write to a clone")


def test_a_staged_input_is_written_for_the_call_alone():
    """As in Warp's staged modes, which copy it: programs clear flags there that they do not return."""

    def program(a: wp.array[float], steps: wp.array[int], out: wp.array[float]):
        a[:2].fill_(10.0)
        wp.launch(scale, a.shape, [a, 2.0, out])

        def once():
            wp.launch(scale, a.shape, [out, 3.0, a])
            wp.copy(out, a)
            steps.assign(steps.value - 1)

        wp.capture_while(steps, once, max_iterations=3)
        wp.launch(scale, a.shape, [a, 1.0, out])

    options = {"stage_in_argnames": ["a"], "in_out_argnames": ["steps"], "num_outputs": 2}
    call, n = jax_callable(program, **options), jnp.array([2], jnp.int32)
    x, expected = jnp.asarray(X), np.where(np.arange(6) < 2, 10.0, X) * 18.0
    np.testing.assert_array_equal(jax.jit(call)(x, n)[1], expected)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(jax.grad(lambda x: call(x, n)[1].sum())(x), [0, 0, 18, 18, 18, 18])
    text = fails(program, x, n, graph_mode=GraphMode.WARP, **options)
    assert "array 'a' is an input and cannot be written" in text

    def late(a: wp.array[float], steps: wp.array[int], out: wp.array[float]):
        def once():
            a.zero_()
            steps.assign(steps.value - 1)

        wp.capture_while(steps, once)

    assert "array 'a'" in fails(late, x, n, **options)


def test_one_array_as_two_arguments_of_which_one_is_written():
    def program(a: wp.array[float], out: wp.array[float]):
        wp.launch(average, 3, [out[0:3]], [out])

    assert "argument 'out' and argument 'a' are the same array, or parts of one that overlap" in fails(program, X)


def test_errors_in_a_kernel_name_both_lines():
    @wp.kernel
    def wrong(a: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = a[i] + wp.float64(1.0)

    def program(a: wp.array[float], out: wp.array[float]):
        wp.launch(wrong, a.shape, [a], [out])

    text = fails(program, X, error=KernelError)
    assert "out[i] = a[i] + wp.float64(1.0)" in text
    assert "  called from\n" in text
    assert "wp.launch(wrong, a.shape, [a], [out])" in text


def test_arguments_of_a_launch():
    def count(a: wp.array[float], out: wp.array[float]):
        wp.launch(scale, a.shape, [a], [out])

    def dtype(a: wp.array[float], out: wp.array[float]):
        wp.launch(scale, a.shape, [jnp.arange(6, dtype=jnp.int32), 1.0], [out])

    def plain(a: wp.array[float], out: wp.array[float]):
        wp.launch(scale, a.shape, [a, 1.0], [jnp.zeros(6, jnp.float32)])

    def no_kernel(a: wp.array[float], out: wp.array[float]):
        wp.launch(print, a.shape, [a], [out])

    assert "kernel scale: expected 3 arguments (a, s, out), got 2" in fails(count, X)
    assert "kernel scale: argument 'a': expected float32 of shape (?,), got int32 of shape (6,)" in fails(dtype, X)
    assert "kernel scale: argument 'out' is written by the kernel: expected an array of the program" in fails(plain, X)
    assert "launch: expected a kernel, got <built-in function print>" in fails(no_kernel, X)


def test_misuse_of_arrays():
    def numbers(a: wp.array[float], out: wp.array[float]):
        a.numpy()

    def shape(a: wp.array[float], out: wp.array[float]):
        wp.copy(out, a[1:])

    def index(a: wp.array[float], out: wp.array[float]):
        out[6].fill_(1.0)

    def returned(a: wp.array[float], out: wp.array[float]):
        return out

    assert "array 'a' has no numbers while its function is traced" in fails(numbers, X)
    assert "array 'out': expected float32 of shape (6,), got float32 of shape (5,)" in fails(shape, X)
    assert "array 'out': index 6 is out of range, the extent is 6" in fails(index, X, error=IndexError)
    assert "expected a function that returns nothing, it returned an array of a jax_callable" in fails(returned, X)


def test_outside_of_a_callable():
    out = wp.zeros(6)
    wp.launch(scale, 6, [X, 2.0], [out])
    np.testing.assert_array_equal(out.numpy(), 2 * X)


def test_calls_and_options():
    with pytest.raises(TypeError, match="callable smoothing: no input is named 'launch_dims'; the inputs are a, steps"):
        smooth(X, 2, launch_dims=3)
    with pytest.raises(KernelTypeError, match=r"callable smoothing: argument 'a': expected float32 of shape \(\?,\)"):
        smooth(X.astype(np.int32), 2)
    with pytest.raises(KernelValueError, match="output_dims: no output is named 'c'; the outputs are out"):
        smooth(X, 2, output_dims={"c": 3})
    with pytest.raises(KernelTypeError, match="use jax_kernel for a kernel"):
        jax_callable(scale)
    with pytest.raises(KernelTypeError, match="argument a has no annotation"):
        jax_callable(lambda a: None)
    with pytest.raises(KernelValueError, match="graph_mode: expected one of"):
        jax_callable(smoothing, graph_mode=9)


def test_the_signature_is_that_of_the_inputs():
    parameters = inspect.signature(jax_callable(smoothing)).parameters
    assert list(parameters)[-2:] == ["output_dims", "vmap_method"]
    assert list(parameters)[:-2] == list(inspect.signature(smoothing).parameters)[:-1]


def test_arguments_of_warps():
    """Those without effect here are checked: a name that is wrong is an error there, too."""
    names = list(inspect.signature(jax_callable).parameters)
    assert names == [
        "func", "num_outputs", "graph_mode", "vmap_method", "output_dims", "in_out_argnames", "stage_in_argnames",
        "stage_out_argnames", "graph_cache_max", "module_preload_mode", "has_side_effect", "named_outputs",
        "outputs",
    ]  # fmt: skip
    for options in (
        {"stage_in_argnames": ["a"], "stage_out_argnames": ["out"]}, {"stage_in_argnames": "a"},
        {"graph_cache_max": 1}, {"graph_cache_max": None}, {"module_preload_mode": wp.ModulePreloadMode.ALL_DEVICES},
        {"module_preload_mode": 0},
    ):  # fmt: skip
        for mode in (GraphMode.NONE, GraphMode.JAX, GraphMode.WARP, 1):
            out = jax_callable(smoothing, graph_mode=mode, **options)(X, 2)[0]
            np.testing.assert_array_equal(out, smooth(X, 2)[0])
    where = "callable smoothing"
    for options, text in {
        ("stage_in_argnames", "out"): f"{where}: stage_in_argnames: no array input is named 'out'; they are a",
        ("stage_in_argnames", "steps"): f"{where}: stage_in_argnames: no array input is named 'steps'; they are a",
        ("stage_out_argnames", "a"): f"{where}: stage_out_argnames: no array output is named 'a'; they are out",
        ("graph_cache_max", 0): f"{where}: graph_cache_max: expected an integer of at least 1, got 0",
        ("module_preload_mode", 7): f"{where}: module_preload_mode: expected one of ModulePreloadMode.NONE, "
        "ModulePreloadMode.CURRENT_DEVICE, ModulePreloadMode.ALL_DEVICES, got 7",
    }.items():
        with pytest.raises(KernelValueError) as caught:
            jax_callable(smoothing, **dict([options]))
        assert str(caught.value).startswith(text)
    with pytest.raises(KernelValueError, match="kernel scale: module_preload_mode: expected one of"):
        wp.jax_kernel(scale, module_preload_mode="all")


@pytest.mark.parametrize("mode", [wp.GraphMode.JAX, wp.GraphMode.WARP, wp.GraphMode.NONE])
def test_static_zeros_of_both_signs(mode):
    """They are equal, but not the same program."""

    def divide(a: wp.array[float], by: float, out: wp.array[float]):
        wp.launch(divided, dim=a.shape, inputs=[a, by], outputs=[out])

    call = jax_callable(divide, graph_mode=mode)
    a = jnp.ones(2)
    assert [call(a, by)[0][0] for by in (0.0, -0.0)] == [np.inf, -np.inf]
    assert [r[0] for r in jax.jit(lambda a: (call(a, 0.0)[0], call(a, -0.0)[0]))(a)] == [np.inf, -np.inf]


def test_functions_of_jnp_take_arrays():
    def f(a: wp.array2d[float], out: wp.array[float]):
        rows = [jnp.sort(row) for row in a]
        jitted = jax.jit(lambda x, y: x + y)(a[0], jnp.where(jnp.greater(a[1], 0), a[1], 0.0))
        out.assign(jnp.dot(a[0], a[1]) + jnp.sum(a) + jitted + jnp.concatenate(rows).sum())

    a = np.array([[3.0, 1.0], [-2.0, 4.0]], np.float32)
    want = a[0] @ a[1] + 2 * a.sum() + a[0] + np.maximum(a[1], 0)
    np.testing.assert_allclose(jax_callable(f)(a, output_dims=2)[0], want)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda a: a + 1.0, "unsupported operand"),
        (lambda a: a.sum(), "has no attribute 'sum'"),
        (jnp.zeros_like, "array.value"),
        (jax.lax.sin, "array.value"),
        (lambda a: a[0] == 1.0, "array 'a[...]' cannot be compared"),
        (lambda a: 1 if a[0] else 2, "array 'a[...]' cannot be compared"),
        (lambda a: a[a.value[0].astype(int)], "an index is a number when the function is traced"),
    ],
)
def test_what_needs_the_value(use, text):
    def f(a: wp.array[float], out: wp.array[float]):
        use(a)

    with pytest.raises(KernelTypeError) as caught:
        jax_callable(f)(np.ones(3, np.float32))
    assert text in str(caught.value)
    assert "array.value" in str(caught.value)


def test_named_outputs():
    def both(x: wp.array[float], up: wp.array[float], down: wp.array[float]):
        wp.copy(up, x)
        down.fill_(-1.0)

    found = jax.jit(wp.jax_callable(both, num_outputs=2, named_outputs=True))(jnp.ones(3))
    assert found._fields == ("up", "down")
    assert found.down.tolist() == [-1.0, -1.0, -1.0]
    assert found.up.tolist() == [1.0, 1.0, 1.0]


@wp.kernel
def weighted(a: wp.array[float], weights: wp.array[float] | None, out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i]
    if weights:
        out[i] = weights[i] * a[i]


@pytest.mark.parametrize("mode", [GraphMode.JAX, GraphMode.WARP, GraphMode.NONE])
def test_arrays_that_are_not_there(mode):
    def program(a: wp.array[float], weights: wp.array[float] | None, out: wp.array[float]):
        wp.launch(weighted, dim=a.shape, inputs=[a, weights], outputs=[out])

    call = jax_callable(program, graph_mode=mode)
    for f in (call, jax.jit(call)):
        np.testing.assert_array_equal(f(X, None)[0], X)
        np.testing.assert_array_equal(f(X, X)[0], X * X)
    both = jax.vmap(call, in_axes=(0, None))(np.stack([X, -X]), None)
    np.testing.assert_array_equal(both[0], [X, -X])

    def sums(a: wp.array[float], total: wp.array[float], sum_of_squares: wp.array[float], out: wp.array[float]):
        for t in (total, sum_of_squares):
            if t is not None:
                wp.launch(accumulate, dim=a.shape, inputs=[a, t])
        wp.copy(out, a)

    call = jax_callable(sums, num_outputs=3, in_out_argnames=["total", "sum_of_squares"], graph_mode=mode)
    for f in (call, jax.jit(call)):
        none, found, out = f(X, None, np.ones(1, np.float32))
        assert none is None
        np.testing.assert_array_equal(found, [56.0])
        np.testing.assert_array_equal(out, X)
