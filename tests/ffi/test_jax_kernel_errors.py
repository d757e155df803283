"""Wrong calls of `jax_kernel`: the exact text, and that nothing is harmed."""

import subprocess
import sys
import textwrap
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import jax_kernel
from jaxwarp.errors import KernelTypeError, KernelValueError


@wp.kernel
def axpy(s: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = s * x[i] + y[i]


@wp.kernel
def rowsum(matrix: wp.array2d[float], sums: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(sums, i, matrix[i, j])


@wp.kernel
def vectors(n: int, v: wp.vec3, a: wp.array[wp.vec3], m: wp.array[wp.mat22], out: wp.array[wp.vec3]):
    i = wp.tid()
    out[i] = a[i] + v


@wp.kernel
def untold(out: wp.array[typing.Any]):
    i = wp.tid()
    out[i] = out[i]


@wp.kernel
def copy_any(x: wp.array[typing.Any], out: wp.array[typing.Any]):
    i = wp.tid()
    out[i] = x[i]


@wp.kernel
def by_value_output(x: wp.array[float], s: float):
    wp.tid()


def _nothing():
    wp.tid()


def _fill(out: wp.array[float]):
    i = wp.tid()
    out[i] = 1.0


X = np.arange(4, dtype=np.float32)
M = np.ones((4, 2, 2), np.float32)
V = np.ones((4, 3), np.float32)
call = jax_kernel(axpy)
TYPE, VALUE = KernelTypeError, KernelValueError
METHODS = "None, 'sequential', 'sequential_unrolled', 'expand_dims', 'broadcast_all', 'legacy_vectorized'"


def require_text(error, text):
    """The message, to the letter, and a hint: the one given, if one is. What hints say is followed in test_hints.py."""
    message, _, hint = text.partition("\n  hint: ")
    assert error.message == message
    assert error.hint
    assert not hint or error.hint == hint


CALLS = {
    "count": (lambda: call(1.0, X), TYPE, "kernel axpy: expected 3 inputs (s, x, y), got 2"),
    "count, too many": (lambda: call(1.0, X, X, X), TYPE, "kernel axpy: expected 3 inputs (s, x, y), got 4"),
    "count, by name": (lambda: call(1.0, y=X), TYPE, "kernel axpy: expected 3 inputs (s, x, y), got 2"),
    "count, one": (jax_kernel(rowsum), TYPE, "kernel rowsum: expected 1 input (matrix), got 0"),
    "keyword": (
        lambda: call(1.0, X, X, scale=2),
        TYPE,
        "kernel axpy: no input is named 'scale'; the inputs are s, x, y",
    ),
    "keyword of an output": (
        lambda: call(1.0, X, X, out=X),
        TYPE,
        "kernel axpy: 'out' is an output, not an input; the inputs are s, x, y",
    ),
    "keyword twice": (
        lambda: call(1.0, X, x=X),
        TYPE,
        "kernel axpy: input 'x' is given twice, by position and by name",
    ),
    "dtype": (
        lambda: call(1.0, X, jnp.arange(4)),
        TYPE,
        "kernel axpy: argument 'y': expected float32 of shape (?,), got int32 of shape (4,)\n"
        "  hint: convert it: jax.numpy.asarray(y, 'float32')",
    ),
    "rank": (
        lambda: call(1.0, X[None], X),
        TYPE,
        "kernel axpy: argument 'x': expected float32 of shape (?,), got float32 of shape (1, 4)",
    ),
    "array for a scalar": (
        lambda: call(X, X, X),
        TYPE,
        "kernel axpy: argument 's': expected float32 of shape (), got float32 of shape (4,)",
    ),
    "scalar for an array": (
        lambda: call(1.0, 2.0, X),
        TYPE,
        "kernel axpy: argument 'x': expected float32 of shape (?,), got float",
    ),
    "list for an array": (
        lambda: call(1.0, [1.0, 2.0], X),
        TYPE,
        "kernel axpy: argument 'x': expected float32 of shape (?,), got list",
    ),
    "None": (
        lambda: call(None, X, X),
        TYPE,
        "kernel axpy: argument 's': expected float32 of shape (), got NoneType",
    ),
    "string": (lambda: call("1", X, X), TYPE, "kernel axpy: argument 's': expected float32 of shape (), got str"),
    "complex scalar": (
        lambda: call(1j, X, X),
        TYPE,
        "kernel axpy: argument 's': expected float32 of shape (), got complex",
    ),
    "complex array": (
        lambda: call(1.0, jnp.ones(4, complex), X),
        TYPE,
        "kernel axpy: argument 'x': expected float32 of shape (?,), got complex64 of shape (4,)",
    ),
    "keys": (
        lambda: call(1.0, jax.random.split(jax.random.key(0), 4), X),
        TYPE,
        "kernel axpy: argument 'x': expected float32 of shape (?,), got key<fry> of shape (4,)",
    ),
    "traced scalar of another type": (
        lambda: jax.jit(call)(jnp.int32(1), X, X),
        TYPE,
        "kernel axpy: argument 's': expected float32 of shape (), got int32 of shape ()\n"
        "  hint: convert it: jax.numpy.asarray(s, 'float32')",
    ),
    "traced float for an integer": (
        lambda: jax.jit(jax_kernel(vectors))(1.0, V[0], V, M),
        TYPE,
        "kernel vectors: argument 'n': expected int32 of shape (), got float32 of shape ()\n"
        "  hint: convert it: jax.numpy.asarray(n, 'int32')",
    ),
    "fraction for an integer": (
        lambda: jax_kernel(vectors)(1.5, V[0], V, M),
        VALUE,
        "kernel vectors: argument 'n': expected a value of int32, got 1.5",
    ),
    "too large an integer": (
        lambda: jax_kernel(vectors)(2**31, V[0], V, M),
        VALUE,
        "kernel vectors: argument 'n': expected a value of int32, got 2147483648",
    ),
    "not a number for an integer": (
        lambda: jax_kernel(vectors)(float("nan"), V[0], V, M),
        VALUE,
        "kernel vectors: argument 'n': expected a value of int32, got nan",
    ),
    "too large a float": (
        lambda: call(1e60, X, X),
        VALUE,
        "kernel axpy: argument 's': expected a value of float32, got 1e+60",
    ),
    "vector by value, length": (
        lambda: jax_kernel(vectors)(1, (1.0, 2.0), V, M),
        TYPE,
        "kernel vectors: argument 'v': expected float32 of shape (3,), got tuple of shape (2,)",
    ),
    "vector by value, array": (
        lambda: jax_kernel(vectors)(1, X, V, M),
        TYPE,
        "kernel vectors: argument 'v': expected float32 of shape (3,), got float32 of shape (4,)",
    ),
    "components of a vector": (
        lambda: jax_kernel(vectors)(1, V[0], V[:, :2], M),
        TYPE,
        "kernel vectors: argument 'a': expected float32 of shape (?, 3), got float32 of shape (4, 2)",
    ),
    "components of a matrix": (
        lambda: jax_kernel(vectors)(1, V[0], V, M[:, :1]),
        TYPE,
        "kernel vectors: argument 'm': expected float32 of shape (?, 2, 2), got float32 of shape (4, 1, 2)",
    ),
    "no launch dimensions": (
        jax_kernel(wp.kernel(_fill)),
        TYPE,
        "kernel _fill has no array input to take the launch dimensions from\n  hint: pass launch_dims=...",
    ),
    "launch_dims, type": (
        lambda: call(1.0, X, X, launch_dims=2.0),
        TYPE,
        "kernel axpy: launch_dims: expected an integer, or a tuple or list of integers, got 2.0",
    ),
    "launch_dims, negative": (
        lambda: call(1.0, X, X, launch_dims=(2, -1)),
        VALUE,
        "kernel axpy: launch_dims: Extents must be non-negative, got (2, -1)",
    ),
    "output_dims, rank": (
        lambda: call(1.0, X, X, output_dims=(2, 2)),
        VALUE,
        "kernel axpy: output 'out': output_dims: expected dimensions (?,), got (2, 2)",
    ),
    "output_dims, components": (
        lambda: jax_kernel(vectors)(1, V[0], V, M, output_dims=(4, 2)),
        VALUE,
        "kernel vectors: output 'out': output_dims: expected dimensions (?,), or (?, 3), got (4, 2)",
    ),
    "output_dims, missing": (
        lambda: call(1.0, X, X, output_dims={}),
        VALUE,
        "kernel axpy: output_dims: no dimensions for output 'out'",
    ),
    "output_dims, unknown": (
        lambda: call(1.0, X, X, output_dims={"b": 2}),
        VALUE,
        "kernel axpy: output_dims: no output is named 'b'; the outputs are out",
    ),
    "output_dims, in-out": (
        lambda: jax_kernel(rowsum, in_out_argnames=["sums"])(V, X, output_dims={"sums": 4}),
        VALUE,
        "kernel rowsum: output_dims: 'sums' is an in-out argument; it keeps the shape it comes with",
    ),
    "output shape from the launch": (
        lambda: jax_kernel(rowsum)(V),
        VALUE,
        "kernel rowsum: output 'sums' has 1 axis, but its shape is by default that of the launch, (4, 3)\n"
        "  hint: pass output_dims=..., or launch_dims=...",
    ),
    "vmap_method": (
        lambda: call(1.0, X, X, vmap_method="parallel"),
        VALUE,
        f"kernel axpy: vmap_method: expected one of {METHODS}; got 'parallel'",
    ),
    "launch_dims, by name": (
        lambda: call(1.0, X, X, launch_dims={"out": (4,)}),
        TYPE,
        "kernel axpy: launch_dims: expected an integer, or a tuple or list of integers, got {'out': (4,)}",
    ),
    "integer beyond every float": (
        lambda: call(10**309, X, X),
        VALUE,
        f"kernel axpy: argument 's': expected a value of float32, got {10**309}",
    ),
    "generic output": (
        lambda: jax_kernel(untold)(launch_dims=2),
        TYPE,
        "kernel untold: argument 'out' is generic, and no input tells its type",
    ),
    "generic, complex": (
        lambda: jax_kernel(copy_any)(jnp.ones(2, complex)),
        TYPE,
        "kernel copy_any: argument 'x': expected an array or a scalar of a type of the kernel language, "
        "got complex64 of shape (2,)",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_wrong_call(case):
    wrong, kind, text = CALLS[case]
    with pytest.raises(kind) as caught:
        wrong()
    require_text(caught.value, text)
    # The same function still works.
    np.testing.assert_array_equal(call(2.0, X, X)[0], 3 * X)


CONSTRUCTIONS = {
    "no arguments": (
        lambda: jax_kernel(wp.kernel(_nothing)),
        TYPE,
        "kernel _nothing has no arguments\n  hint: a launch needs an output: an array argument",
    ),
    "no kernel": (
        lambda: jax_kernel(_fill),
        TYPE,
        "jax_kernel: expected a kernel, got the Python function _fill\n  hint: decorate it with @jaxwarp.kernel, or"
        " name its outputs: @jaxwarp.jax_kernel(outputs='out')",
    ),
    "no outputs": (lambda: jax_kernel(axpy, num_outputs=0), VALUE, "kernel axpy: num_outputs: expected 1 to 4, got 0"),
    "too many outputs": (lambda: jax_kernel(axpy, 5), VALUE, "kernel axpy: num_outputs: expected 1 to 4, got 5"),
    "outputs, type": (
        lambda: jax_kernel(axpy, "out"),
        TYPE,
        "kernel axpy: num_outputs: expected an integer, got 'out'",
    ),
    "fewer outputs than in-outs": (
        lambda: jax_kernel(axpy, 1, in_out_argnames=["x", "y"]),
        VALUE,
        "kernel axpy: num_outputs: expected 2 to 4 (in-out arguments count among the outputs), got 1",
    ),
    "unknown in-out": (
        lambda: jax_kernel(axpy, in_out_argnames=["z"]),
        VALUE,
        "kernel axpy: in_out_argnames: no argument is named 'z'; the arguments are s, x, y, out",
    ),
    "in-out twice": (
        lambda: jax_kernel(axpy, 2, in_out_argnames=["x", "x"]),
        VALUE,
        "kernel axpy: in_out_argnames must not contain duplicate names, got x, x",
    ),
    "in-out among the outputs": (
        lambda: jax_kernel(axpy, 3, in_out_argnames=["y"]),
        VALUE,
        "kernel axpy: in-out argument 'y' is among the last 2 arguments, which are the outputs\n"
        "  hint: in-out arguments count among the outputs, and come before the last arguments",
    ),
    "scalar output": (
        lambda: jax_kernel(by_value_output),
        TYPE,
        "kernel by_value_output: argument 's' is an output argument: expected an array, got float32",
    ),
    "scalar in-out": (
        lambda: jax_kernel(axpy, 2, in_out_argnames=["s"]),
        TYPE,
        "kernel axpy: argument 's' is an in-out argument: expected an array, got float32",
    ),
    "block_dim": (
        lambda: jax_kernel(axpy, block_dim=2000),
        VALUE,
        "kernel axpy: block_dim: expected an integer from 1 to 1024, got 2000",
    ),
    "vmap_method": (
        lambda: jax_kernel(axpy, vmap_method="vectorized"),
        VALUE,
        f"kernel axpy: vmap_method: expected one of {METHODS}; got 'vectorized'",
    ),
    "launch_dims": (
        lambda: jax_kernel(axpy, launch_dims="all"),
        TYPE,
        "kernel axpy: launch_dims: expected an integer, or a tuple or list of integers, got 'all'",
    ),
}


@pytest.mark.parametrize("case", CONSTRUCTIONS)
def test_wrong_options(case):
    wrong, kind, text = CONSTRUCTIONS[case]
    with pytest.raises(kind) as caught:
        wrong()
    require_text(caught.value, text)


def test_traced_dimensions():
    with pytest.raises(KernelTypeError) as caught:
        jax.jit(call)(1.0, X, X, launch_dims=4)
    first, last = str(caught.value).splitlines()
    assert first.startswith("kernel axpy: launch_dims: expected an integer, or a tuple or list of integers, got ")
    assert last == "  hint: dimensions are part of the program: make them static_argnames of jax.jit"
    np.testing.assert_array_equal(jax.jit(call, static_argnames="launch_dims")(1.0, X, X, launch_dims=4)[0], 2 * X)


@wp.kernel
def writes_to_input(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = x[i]
    x[i] = 0.0


@wp.kernel
def accumulates_into_input(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.atomic_add(x, i, 1.0)


@pytest.mark.parametrize(
    ("kernel", "source"),
    [(writes_to_input, "    x[i] = 0.0"), (accumulates_into_input, "    out[i] = wp.atomic_add(x, i, 1.0)")],
)
def test_write_to_an_input(kernel, source):
    x = jnp.arange(3.0)
    for attempt in (jax_kernel(kernel), jax.jit(jax_kernel(kernel))):
        with pytest.raises(KernelTypeError) as caught:
            attempt(x)
        lines = str(caught.value).splitlines()
        assert lines[0] == f"kernel {kernel.name}: argument 'x' is an input, but the kernel writes to it"
        assert lines[1].startswith(f"  {__file__}:")
        assert lines[2] == source
        assert set(lines[3].strip()) == {"^"}
        assert lines[4].startswith("  hint: ")
        assert lines[4].endswith("num_outputs=2, in_out_argnames=['x']")
    np.testing.assert_array_equal(x, [0, 1, 2])


def test_what_has_no_derivative_is_no_obstacle():
    x = jnp.asarray(X)
    np.testing.assert_array_equal(jax.grad(lambda x: (x * call(1.0, jax.lax.stop_gradient(x), X)[0]).sum())(x), 2 * X)
    np.testing.assert_array_equal(jax.grad(lambda x: (x * call(1.0, X, X)[0]).sum())(x), 2 * X)

    @jax.custom_vjp
    def double(x):
        return call(1.0, x, x)[0]

    double.defvjp(lambda x: (double(x), None), lambda _, g: (2 * g,))
    np.testing.assert_array_equal(jax.grad(lambda x: double(x).sum())(x), 2)


def test_integer_inputs_under_grad():
    @wp.kernel
    def as_float(n: wp.array[int], out: wp.array[float]):
        i = wp.tid()
        out[i] = float(n[i])

    n = jnp.arange(4)
    gradient = jax.grad(lambda x, n: (x * jax_kernel(as_float)(n)[0]).sum(), allow_int=True)(jnp.asarray(X), n)
    np.testing.assert_array_equal(gradient, n)


X64_OFF = """
    import jax, numpy as np
    import jaxwarp as wp

    @wp.kernel
    def wide_array(s: float, x: wp.array[wp.float64], out: wp.array[wp.float64]):
        i = wp.tid()
        out[i] = x[i] * wp.float64(s)

    @wp.kernel
    def wide_scalar(s: wp.int64, x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = x[i] * float(s)

    @wp.kernel
    def wide_output(s: int, x: wp.array[int], out: wp.array[wp.uint64]):
        i = wp.tid()
        out[i] = wp.uint64(x[i] * s)

    def refused(kernel, dtype, text):
        try:
            wp.jax_kernel(kernel)(2, np.ones(3, dtype))
        except wp.errors.KernelTypeError as error:
            assert str(error) == (
                f"kernel {kernel.name}: argument {text}, but 64-bit types are not enabled in JAX\\n"
                '  hint: enable them with jax.config.update("jax_enable_x64", True), before the first array is made'
            ), str(error)
        else:
            raise SystemExit("no error")

    for kernel, dtype, text, outcome in (
        (wide_array, "float64", "'x' has type float64", "float64"),
        (wide_scalar, "float32", "'s' has type int64", "float32"),
        (wide_output, "int32", "'out' has type uint64", "uint64"),
    ):
        refused(kernel, dtype, text)
        with jax.enable_x64(True):
            (out,) = wp.jax_kernel(kernel)(2, np.ones(3, dtype))
            assert out.dtype == outcome, out.dtype
            np.testing.assert_array_equal(out, 2)
        refused(kernel, dtype, text)
    print("refused and accepted")
"""


def test_64_bit_types_need_to_be_enabled(tmp_path):
    program = tmp_path / "tracing.py"
    program.write_text(textwrap.dedent(X64_OFF))
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, check=False)
    assert (run.stdout, run.returncode) == ("refused and accepted\n", 0), run.stderr


@wp.func
def count(a: wp.array2d[wp.int8]):
    return a[1:].size + a.size


@wp.kernel
def sizes(x: wp.array2d[wp.int8], row: wp.array[wp.int8], y: wp.array[int]):
    y[0] = row.size + len(x) + x.shape[1] + x[0].size
    y[0] += count(x)


def test_sizes_that_do_not_fit_are_refused():
    """The product of extents that fit by themselves; the largest that fits is one less than 2**31."""

    def call(*shape: int) -> typing.Any:
        arrays = [jax.ShapeDtypeStruct(s, np.int8) for s in (shape, (2**31 - 1,))]
        return jax.eval_shape(wp.jax_kernel(sizes, launch_dims=1, output_dims=1), *arrays)

    assert call(1, 2**31 - 1)[0].shape == (1,)
    assert call(3, 715827882)[0].shape == (1,)
    assert call(2**31 - 1, 0)[0].shape == (1,)
    with pytest.raises(KernelValueError) as caught:
        call(65536, 40000)
    lines = [line.strip() for line in str(caught.value).splitlines()]
    assert lines[0] == (
        "sizes: size is int32, and an array of 2621440000 elements does not fit: x has the extents 65536 x 40000"
    )
    assert "return a[1:].size + a.size" in lines
    assert "y[0] += count(x)" in lines
    assert lines[-1] == "hint: multiply the extents in 64 bits: int64(x.shape[0]) * int64(x.shape[1])"
    with pytest.raises(KernelValueError, match=r"expected extents from 0 to 2147483647, got \(2147483648, 1\)"):
        call(2**31, 1)
    large = np.broadcast_to(np.int8(0), (2, 2**30))
    with pytest.raises(KernelValueError, match="an array of 2147483648 elements does not fit"):
        wp.launch(sizes, dim=1, inputs=[large, np.zeros(1, np.int8)], outputs=[np.zeros(1, np.int32)])


@wp.kernel(block_dim=2000)
def in_large_blocks(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]


@pytest.mark.parametrize("way", ["jax_kernel", "launch", "launch in a jax_callable"])
def test_block_dim_is_checked_on_every_way_in(way):
    def copied(x: wp.array[float], y: wp.array[float]):
        wp.launch(in_large_blocks, x.shape, [x], [y])

    ways = {
        "jax_kernel": lambda: jax_kernel(in_large_blocks),  # already when it is made
        "launch": lambda: wp.launch(in_large_blocks, 3, [wp.zeros(3)], [wp.zeros(3)]),
        "launch in a jax_callable": lambda: wp.jax_callable(copied)(jnp.zeros(3)),
    }
    with pytest.raises(KernelValueError, match=r"kernel in_large_blocks: block_dim: expected an integer .* got 2000"):
        ways[way]()
