"""Debug mode: what fails is not done, the first thread that fails is named, and every way to launch tells it."""

import importlib
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.checkify import checkify
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jaxwarp as wp


@pytest.fixture(autouse=True)
def _debug():
    before = {name: getattr(wp.config, name) for name in wp.config.SETTINGS}
    wp.config.mode = "debug"
    wp.config.checks = wp.config.CHECKS
    yield
    for name, value in before.items():
        setattr(wp.config, name, value)


@wp.kernel
def advance(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[index[i]]


@wp.func
def picked(x: wp.array2d[float], i: int, j: int):
    return x[i, j]


@wp.kernel
def through_function(x: wp.array2d[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = picked(x, i, index[i])


@wp.kernel
def spread(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[index[i]] = x[i]


@wp.kernel
def count(index: wp.array[int], total: wp.array[int]):
    wp.atomic_add(total, index[wp.tid()], 1)


@wp.kernel
def own(index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = wp.zeros(shape=3, dtype=float)
    for k in range(3):
        v[k] = float(k + 1)
    y[i] = v[index[i]]


call = wp.jax_kernel(advance, launch_dims=4, output_dims=4)
X = jnp.arange(4.0)
GOOD = jnp.arange(4)
BAD = jnp.array([0, 3, 4, -7])
WHERE = "index 4 of axis 0 of array x is out of range; its extent is 4"


def line_of(function, text):
    """`file:line` of a line of this file."""
    source = function.func if hasattr(function, "func") else function
    lines = Path(__file__).read_text().split("\n")
    start = source.__code__.co_firstlineno
    return f"{__file__}:{next(n for n in range(start, start + 20) if text in lines[n - 1])}"


LINE = line_of(advance, "y[i] = 2.0")


def failure(function, *args):
    """The text of the CheckError of a call."""
    with pytest.raises(wp.errors.CheckError) as caught:
        function(*args)
    return str(caught.value)


def test_the_first_thread_that_fails_is_told_with_its_line():
    np.testing.assert_array_equal(call(X, GOOD)[0], 2 * X)
    assert failure(call, X, BAD) == textwrap.dedent(f"""\
        {LINE}, in advance: thread (2,): {WHERE}
            y[i] = 2.0 * x[index[i]]
                         ^^^^^^^^^^^""")
    with pytest.raises(wp.errors.CheckError) as caught:
        call(X, BAD)
    assert (caught.value.loc.function, caught.value.message) == ("advance", f"thread (2,): {WHERE}")


def test_release_mode_checks_nothing():
    wp.config.mode = "release"
    assert "failures" not in jax.jit(call).lower(X, GOOD).as_text()
    wp.jax_kernel(advance, launch_dims=4, output_dims=4)(X, GOOD)


def test_an_inlined_function_names_its_caller():
    text = failure(wp.jax_kernel(through_function, launch_dims=2, output_dims=2), jnp.ones((2, 3)), jnp.array([2, 3]))
    assert "in picked: thread (1,): index 3 of axis 1 of array x is out of range; its extent is 3" in text
    assert "called from" in text
    assert line_of(through_function, "picked(x") in text


def test_what_fails_is_not_done():
    launched = wp.zeros(4, dtype=float)
    x = np.array([1, 2, 3, 4], np.float32)
    index = np.array([2, -5, 1, 4], np.int32)
    text = failure(wp.launch, spread, 4, [x, index], [launched])
    assert "thread (1,): index -5 of axis 0 of array y is out of range; its extent is 4" in text
    np.testing.assert_array_equal(launched.numpy(), [0, 3, 1, 0])
    total = wp.zeros(2, dtype=int)
    assert "index 2 of axis 0 of array total" in failure(wp.launch, count, 4, [index], [total])
    np.testing.assert_array_equal(total.numpy(), [0, 1])
    y = wp.zeros(4, dtype=float)
    failure(wp.launch, advance, 4, [x, index], [y])
    np.testing.assert_array_equal(y.numpy(), [6, 0, 4, 0])


def test_arrays_of_a_thread_are_tested():
    y = wp.zeros(3, dtype=float)
    text = failure(wp.launch, own, 3, [np.array([2, 0, 3], np.int32)], [y])
    assert "thread (2,): index 3 of axis 0 of array v is" in text
    assert "its extent is 3" in text
    np.testing.assert_array_equal(y.numpy(), [3, 1, 0])


@pytest.mark.parametrize("wide", [False, True])
def test_the_first_thread_on_many_cores_and_lanes(wide):
    """Of 10^6 threads of which a third fail, whoever runs first."""
    rng = np.random.default_rng(0)
    index = rng.integers(0, 10**6 if wide else 3, 10**6).astype(np.int32)
    large = jnp.ones(2 * 10**6 // 3 if wide else 2)
    first = int(np.flatnonzero(index >= large.size)[0])
    some = wp.jax_kernel(advance, launch_dims=index.size, output_dims=index.size)
    for _ in range(3):
        assert f"thread ({first},): index {index[first]} of axis 0" in failure(some, large, jnp.array(index))


def test_two_axes_and_large_indices():
    @wp.kernel
    def wide(x: wp.array2d[float], index: wp.array2d[wp.int64], y: wp.array2d[float]):
        i, j = wp.tid()
        y[i, j] = x[index[i, j], index[j, i]]

    index = np.zeros((3, 3), np.int64)
    index[2, 1] = 2**40
    y = wp.zeros((3, 3), dtype=float)
    text = failure(wp.launch, wide, (3, 3), [np.ones((3, 3), np.float32), index], [y])
    assert "thread (1, 2): index 1099511627776 of axis 1 of array x is out of range; its extent is 3" in text


def test_kernels_that_are_alike_name_their_own_lines():
    def make():
        @wp.kernel
        def alike(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
            i = wp.tid()
            y[i] = x[index[i]]

        return alike

    @wp.kernel
    def alike(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[index[i]]

    for kernel in (make(), alike):
        run = wp.jax_kernel(kernel, launch_dims=4, output_dims=4)
        assert failure(run, X, BAD).startswith(line_of(kernel, "x[index[i]]"))


# Right programs


@wp.kernel
def right(x: wp.array2d[float], n: int, y: wp.array2d[float]):
    i, j = wp.tid()
    if i > 0 and j + 1 < x.shape[1] and i < n:
        y[i, j] = x[i - 1, j + 1]
    else:
        y[i, j] = x[(i + 1) % x.shape[0], wp.max(j - 1, 0)]
    k = wp.int32(0)
    while k < x.shape[1]:
        y[i, j] += x[i, k]
        k += 1
    for m in range(x.shape[0]):
        y[i, j] += x[m, j]


def test_indices_that_are_in_range_for_certain_are_not_tested():
    x = jnp.ones((5, 7))
    run = jax.jit(lambda x, n: wp.jax_kernel(right)(x, n)[0])
    assert "record" not in run.lower(x, 5).as_text()
    wp.config.mode = "release"
    expected = run(x, 5)
    wp.config.mode = "debug"
    np.testing.assert_array_equal(run(x, 5), expected)


def test_results_are_those_of_release_mode():
    x, index = jnp.linspace(0.1, 3.0, 1000), jnp.array(np.random.default_rng(1).integers(0, 1000, 1000))

    @wp.kernel
    def mixed(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        a = x[index[i]]
        y[i] = a * wp.sin(a) + x[i] * a - wp.exp(-a)

    def run(x):
        return wp.jax_kernel(mixed)(x, index)[0]

    debug = jax.jit(jax.value_and_grad(lambda x: run(x).sum()))(x)
    wp.config.mode = "release"
    release = jax.jit(jax.value_and_grad(lambda x: run(x).sum()))(x)
    for a, b in zip(debug, release, strict=True):  # XLA contracts what it adds to the one and not to the other
        np.testing.assert_array_max_ulp(a, b, 1)


# Ways to launch


def test_under_jit_the_call_fails_with_the_text():
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(jax.jit(call)(X, BAD))
    assert f"{LINE}, in advance: thread (2,): {WHERE}\n    y[i] = 2.0 * x[index[i]]" in str(caught.value)
    np.testing.assert_array_equal(jax.jit(call)(X, GOOD)[0], 2 * X)


def test_vmap_names_the_batch_index():
    mapped = jax.jit(jax.vmap(jax.vmap(call, (None, 0)), (0, None)))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"batch index \(0, 1\), thread \(2,\): index 4 of axis 0"):
        jax.block_until_ready(mapped(jnp.ones((2, 4)), jnp.stack([GOOD, BAD])))
    mapped(jnp.ones((2, 4)), jnp.stack([GOOD, GOOD]))


def test_a_derivative_is_checked_at_the_kernels_line():
    def loss(x, index):
        return call(x, index)[0].sum()

    pulled = jax.jit(lambda x, index: jax.vjp(lambda x: call(x, GOOD)[0], x)[1](X))
    np.testing.assert_array_equal(pulled(X, GOOD)[0], 2 * X)
    # Of the launch itself nothing is asked: the transposed one fails.
    tangent = jax.jit(lambda x, index: jax.linear_transpose(lambda x: call(x, index)[0], x)(X))
    with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(LINE) + r".*thread \(2,\): index 4"):
        jax.block_until_ready(tangent(X, BAD))
    with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(LINE)):
        jax.block_until_ready(jax.jit(jax.grad(loss))(X, BAD))


@pytest.mark.parametrize("mode", [wp.GraphMode.JAX, wp.GraphMode.WARP, wp.GraphMode.NONE])
def test_callables(mode):
    def program(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
        wp.launch(advance, dim=4, inputs=[x, index], outputs=[y])

    run = wp.jax_callable(program, graph_mode=mode)
    np.testing.assert_array_equal(run(X, GOOD)[0], 2 * X)
    assert f"{LINE}, in advance: thread (2,): {WHERE}" in failure(run, X, BAD)
    with pytest.raises(Exception, match=re.escape(f"thread (2,): {WHERE}")):
        jax.block_until_ready(jax.jit(run)(X, BAD))


def test_tapes():
    x = wp.array(np.asarray(X), requires_grad=True)
    index, y = np.array([0, 1, 2, 3], np.int32), wp.zeros(4, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(advance, 4, [x, index], [y])
    index[1] = 4
    y.grad.fill_(1.0)
    told = WHERE.replace("array x", "the cotangent of array x")
    assert f"{LINE}, in advance: thread (1,): {told}" in failure(tape.backward)


def test_callbacks():
    def host(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
        wp.launch(advance, dim=4, inputs=[x, index], outputs=[y])

    run = wp.jax_callable(host, graph_mode=wp.GraphMode.NONE)
    with pytest.raises(Exception, match=re.escape(WHERE)):
        jax.block_until_ready(jax.jit(lambda: run(X, BAD))())


def test_a_mode_for_one_function_and_one_kernel():
    @wp.kernel(module_options={"mode": "debug"})
    def careful(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[index[i]]

    wp.config.mode = "release"
    options = {"launch_dims": 4, "output_dims": 4}
    assert WHERE in failure(wp.jax_kernel(advance, mode="debug", **options), X, BAD)
    assert WHERE in failure(wp.jax_kernel(careful, **options), X, BAD)
    assert WHERE in failure(wp.launch, careful, 4, [np.asarray(X), np.asarray(BAD)], [wp.zeros(4, dtype=float)])
    wp.config.mode = "debug"
    assert "record" not in jax.jit(wp.jax_kernel(advance, mode="release", **options)).lower(X, BAD).as_text()
    with pytest.raises(wp.errors.KernelValueError, match="mode: expected 'release' or 'debug', got 'fast'"):
        wp.jax_kernel(advance, mode="fast")


def test_a_compiled_function_is_traced_anew_in_another_mode():
    wp.config.mode = "release"
    compiled = jax.jit(call)
    compiled(X, GOOD)
    wp.config.mode = "debug"
    with pytest.raises(jax.errors.JaxRuntimeError, match="thread"):
        jax.block_until_ready(compiled(X, BAD))
    wp.config.checks = ()
    assert "record" not in compiled.lower(X, GOOD).as_text()
    wp.config.mode = "release"
    compiled(X, GOOD)
    assert compiled._cache_size() == 2, "that of release mode is still there"


def test_the_environment_variable_and_an_exported_program(tmp_path):
    """A program that was exported in debug mode is checked in another process, which knows nothing of it."""
    from jax import export

    program = export.export(jax.jit(call), disabled_checks=wp.export_checks())(X, GOOD)
    path = tmp_path / "program"
    path.write_bytes(program.serialize())
    code = f"""
        import jax, numpy as np, jaxwarp as wp
        print(wp.config.mode)
        program = jax.export.deserialize(open({str(path)!r}, "rb").read())
        x, index = np.arange(4, dtype=np.float32), np.array([0, 3, 4, -7], np.int32)
        print(program.call(x, np.arange(4, dtype=np.int32)))
        try:
            jax.block_until_ready(program.call(x, index))
        except Exception as error:
            print(error)
        """
    environment = {**os.environ, "JAXWARP_MODE": "release", "JAX_PLATFORMS": "cpu"}
    for mode in ("release", "debug"):
        environment["JAXWARP_MODE"] = mode
        command = [sys.executable, "-c", "import jax.export\n" + textwrap.dedent(code)]
        found = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
        assert found.startswith(mode)
        assert f"{LINE}, in advance: thread (2,): {WHERE}" in found


def test_an_unknown_mode_in_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("JAXWARP_MODE", "fast")
    with pytest.raises(wp.errors.KernelValueError, match="expected 'release' or 'debug', got 'fast'"):
        importlib.reload(wp.config)
    monkeypatch.undo()
    importlib.reload(wp.config)


# checkify


def checked(function):
    return checkify(function, errors=wp.kernel_checks)


BATCH = jnp.stack([GOOD, BAD])
TRANSFORMED = {
    "outside": (lambda: checked(call), BAD),
    "jit of it": (lambda: jax.jit(checked(call)), BAD),
    "of a jit": (lambda: checked(jax.jit(call)), BAD),
    "scan": (lambda: checked(lambda x, b: jax.lax.scan(lambda c, i: (c, call(c, i)[0]), x, b)), BATCH),
    "while": (
        lambda: checked(
            lambda x, i: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, call(c[1], i)[0]), (0, x))
        ),
        BAD,
    ),
    "cond": (lambda: checked(lambda x, i: jax.lax.cond(x[1] > 0, lambda: call(x, i)[0], lambda: x)), BAD),
    "grad": (lambda: checked(jax.grad(lambda x, i: call(x, i)[0].sum())), BAD),
    "remat": (lambda: checked(jax.grad(jax.checkpoint(lambda x, i: call(x, i)[0].sum()))), BAD),
    "jvp": (lambda: checked(lambda x, i: jax.jvp(lambda x: call(x, i)[0], (x,), (x,))), BAD),
    "sequential": (
        lambda: checked(jax.vmap(wp.jax_kernel(advance, vmap_method="sequential", launch_dims=4, output_dims=4),
                                 (None, 0))),
        BATCH,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TRANSFORMED)
def test_checkify_returns_failures_as_values(case):
    make, index = TRANSFORMED[case]
    error, _ = make()(X, index)
    assert error.get() is not None
    assert error.get().startswith(f"{LINE}, in advance: thread (2,): {WHERE}\n")
    error, _ = make()(X, jnp.zeros_like(index))
    assert error.get() is None


def test_checkify_and_vmap():
    error, _ = checked(jax.vmap(call, (None, 0)))(X, BATCH)
    assert f"batch index (1,), thread (2,): {WHERE}" in error.get()
    error, out = jax.vmap(checked(call), (None, 0))(X, BATCH)
    assert error.get().startswith(f"at mapped index 1: {LINE}, in advance: thread (2,): {WHERE}")
    np.testing.assert_array_equal(out[0][0], 2 * X)
    both = jax.jit(jax.vmap(checked(jax.vmap(call, (None, 0))), (None, 0)))
    error, _ = both(X, jnp.stack([BATCH, BATCH[::-1]]))
    assert f"at mapped index 0: {LINE}, in advance: batch index (1,), thread (2,): {WHERE}" in error.get()
    assert f"at mapped index 1: {LINE}, in advance: batch index (0,), thread (2,): {WHERE}" in error.get()


def test_grad_of_checkify_leaves_failures_as_values():
    def loss(x, index):
        error, (y,) = checked(call)(x, index)
        return y.sum(), error

    (_, error), gradient = jax.value_and_grad(loss, has_aux=True)(X, BAD)
    assert WHERE in error.get()
    np.testing.assert_array_equal(gradient, [2, 0, 0, 2], "what fails has no derivative")
    (_, error), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(X, GOOD)
    assert error.get() is None
    np.testing.assert_array_equal(gradient, [2, 2, 2, 2])


def test_checkify_and_shard_map():
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices()[:2], axis_types=(jax.sharding.AxisType.Auto,))
    half = wp.jax_kernel(advance, launch_dims=2, output_dims=2)
    mapped = jax.shard_map(lambda x, i: half(x, i)[0], mesh=mesh, in_specs=(P(), P("d")), out_specs=P("d"))
    error, _ = jax.jit(checked(mapped))(X, BAD)
    assert f"thread (0,): {WHERE}" in error.get(), "the second shard's first thread"
    error, out = jax.jit(checked(mapped))(X, GOOD)
    assert error.get() is None
    np.testing.assert_array_equal(out, 2 * X)


def test_sharding_rules():
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices()[:2], axis_types=(jax.sharding.AxisType.Auto,))
    ruled = wp.jax_kernel(advance, sharding_rule="n, i -> i", launch_dims=4, output_dims=4)
    place = NamedSharding(mesh, P("d"))
    x = jax.device_put(X, NamedSharding(mesh, P()))
    np.testing.assert_array_equal(jax.jit(ruled)(x, jax.device_put(GOOD, place))[0], 2 * X)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"thread .*: index 4 of axis 0"):
        jax.block_until_ready(jax.jit(ruled)(x, jax.device_put(BAD, place)))
    error, _ = jax.jit(checked(ruled))(x, jax.device_put(BAD, place))
    assert f"thread (2,): {WHERE}" in error.get()


def test_symbolic_shapes():
    from jax import export

    n, m = export.symbolic_shape("n, m")
    arguments = jax.ShapeDtypeStruct((n,), np.float32), jax.ShapeDtypeStruct((m,), np.int32)

    def run(x, index):
        return wp.jax_kernel(advance, launch_dims=index.shape, output_dims=index.shape)(x, index)[0]

    program = export.export(jax.jit(run), disabled_checks=wp.export_checks())(*arguments)
    np.testing.assert_array_equal(program.call(X, GOOD), 2 * X)
    with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(f"thread (2,): {WHERE}")):
        jax.block_until_ready(jax.jit(program.call)(X, BAD))
