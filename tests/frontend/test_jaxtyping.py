"""Annotations of jaxtyping on arguments of kernels and functions, where it is installed."""

# ruff: noqa: F722, F821, UP037 - annotations of jaxtyping are text that is no Python

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp

jaxtyping = pytest.importorskip("jaxtyping")
Array = jax.Array
Bool, Float, Float32, Int, Int32, Key, Num, Shaped = (
    getattr(jaxtyping, name) for name in "Bool Float Float32 Int Int32 Key Num Shaped".split()
)


@wp.func
def half(x: Float[Array, ""]):
    return x / type(x)(2.0)


@wp.kernel
def scale_rows(x: Float32[Array, "n 3"], a: Float32[Array, "n"], k: Float32[Array, ""], out: Float32[Array, "n 3"]):
    i, j = wp.tid()
    out[i, j] = half(k * a[i]) * x[i, j]


@wp.kernel
def copy(x: Float[Array, "n m"], out: Float[Array, "n m"]):
    i, j = wp.tid()
    out[i, j] = x[i, j]


@wp.kernel
def pair(x: Float[Array, "n"], y: Int[Array, "n"], out: Shaped[Array, "n"]):
    i = wp.tid()
    out[i] = x[i] + type(x[i])(y[i])


@wp.kernel
def count(mask: Bool[Array, "n _"], out: Int32[Array, "n"]):
    i = wp.tid()
    for j in range(mask.shape[1]):
        if mask[i, j]:
            out[i] += 1


def test_one_type_and_a_rank():
    assert [str(a.annotation) for a in scale_rows.arguments] == [
        "array[float32, 2]", "array[float32, 1]", "float32", "array[float32, 2]",
    ]  # fmt: skip
    x, a = jnp.ones((4, 3)), jnp.arange(4.0)
    (out,) = jax.jit(wp.jax_kernel(scale_rows))(x, a, 3.0)
    np.testing.assert_array_equal(out, 1.5 * np.arange(4.0)[:, None] * np.ones(3))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_groups_of_types(dtype):
    with jax.enable_x64(True):
        x = jnp.ones((2, 3), dtype)
        (out,) = wp.jax_kernel(copy)(x)
        assert out.dtype == x.dtype
        (out,) = wp.jax_kernel(pair)(x[0], jnp.arange(3, dtype="int64"))
        assert out.dtype == x.dtype
        np.testing.assert_array_equal(out, [1, 2, 3])


def test_two_of_a_group_may_differ():
    @wp.kernel
    def add(x: Float[Array, "n"], y: Float[Array, "n"], out: Float32[Array, "n"]):
        i = wp.tid()
        out[i] = wp.float32(x[i]) + wp.float32(y[i])

    (out,) = wp.jax_kernel(add)(jnp.ones(3, "float16"), jnp.ones(3, "float32"))
    assert out.tolist() == [2, 2, 2]


def test_types_that_are_not_in_the_group():
    with pytest.raises(wp.KernelError, match="argument x: expected array"):
        wp.jax_kernel(copy)(jnp.ones((2, 3), "int32"))
    with pytest.raises(wp.KernelError, match="argument y"):
        wp.jax_kernel(pair)(jnp.ones(3), jnp.ones(3, "uint32"))


def test_extents_with_one_name_or_a_number():
    call = wp.jax_kernel(scale_rows)
    with pytest.raises(wp.KernelError, match=r"'x': expected 3 elements along axis 1; got 4"):
        call(jnp.ones((2, 4)), jnp.ones(2), 1.0)
    with pytest.raises(wp.KernelError, match=r"'a': expected 2 elements along axis 0, as 'n' of argument 'x'; got 5"):
        call(jnp.ones((2, 3)), jnp.ones(5), 1.0)
    with pytest.raises(wp.KernelError, match=r"'out': expected 2 elements along axis 0, as 'n' of") as error:
        call(jnp.ones((2, 3)), jnp.ones(2), 1.0, output_dims=(4, 3))
    assert "output_dims" in error.value.hint
    out = wp.zeros((2, 3), dtype=float)
    with pytest.raises(wp.KernelError, match=r"'a': expected 2 elements"):
        wp.launch(scale_rows, dim=(2, 3), inputs=[wp.ones((2, 3), dtype=float), wp.ones(3, dtype=float), 1.0, out])


@wp.kernel
def row_sums(offsets: Int32[Array, "n+1"], x: Float32[Array, "_"], out: Float32[Array, "n"]):
    i = wp.tid()
    for k in range(offsets[i], offsets[i + 1]):
        out[i] += x[k]


@wp.kernel
def halves(x: Float32[Array, "2*n k//2"], y: Float32[Array, "n k"]):
    i, j = wp.tid()
    y[i, j] = x[2 * i, j // 2]


def test_extents_made_of_names():
    offsets, x = np.array([0, 2, 3], np.int32), np.array([1, 2, 4], np.float32)
    for out in (wp.zeros(2, dtype=float), wp.zeros(3, dtype=float)):
        given = [wp.array(offsets, dtype=int), wp.array(x, dtype=float), out]
        if out.size == 2:
            wp.launch(row_sums, dim=2, inputs=given)
            assert out.list() == [3, 4]
            continue
        with pytest.raises(wp.KernelError, match=r"'offsets': expected 4 elements along axis 0, as 'n\+1'; got 3"):
            wp.launch(row_sums, dim=2, inputs=given)
    call = wp.jax_kernel(halves, launch_dims=(2, 4), output_dims=(2, 4))
    np.testing.assert_array_equal(call(jnp.eye(4)[:, :2])[0], [[1, 1, 0, 0], [0, 0, 0, 0]])
    with pytest.raises(wp.KernelError, match=r"'x': expected 2 elements along axis 1, as 'k//2'; got 3"):
        call(jnp.ones((4, 3)))


@wp.kernel
def shares(x: Float32[Array, "n//k"], y: Float32[Array, "n k"]):
    i = wp.tid()
    x[i] += y[i, 0]


def test_a_quotient_by_an_extent_of_0():
    with pytest.raises(wp.KernelError, match='"n//k" is a quotient by 0'):
        wp.launch(shares, dim=1, inputs=[wp.ones(2, dtype=float), wp.ones((4, 0), dtype=float)])


@wp.kernel
def doubled(y: Float32[Array, "n"], x: Float32[Array, "2*n"], out: Float32[Array, "n"]):
    i = wp.tid()
    out[i] = x[2 * i] + y[i]


def exported_for(kernel, *shapes):
    symbols = jax.export.SymbolicScope()
    arrays = [jax.ShapeDtypeStruct(jax.export.symbolic_shape(s, scope=symbols), dtype) for s, dtype in shapes]
    return jax.export.export(jax.jit(wp.jax_kernel(kernel)), disabled_checks=wp.export_checks())(*arrays)


def test_symbolic_extents():
    """One name is one extent, for every size."""
    program = exported_for(pair, ("n", jnp.float32), ("n", jnp.int32))
    np.testing.assert_array_equal(program.call(jnp.ones(3), jnp.arange(3))[0], [1, 2, 3])
    with pytest.raises(wp.KernelError, match="'y': expected n elements along axis 0, as 'n' of argument 'x'; got m"):
        exported_for(pair, ("n", jnp.float32), ("m", jnp.int32))
    with pytest.raises(wp.KernelError, match="'x': expected 3 elements along axis 1; got m"):
        exported_for(scale_rows, ("n, m", jnp.float32), ("n", jnp.float32), ("", jnp.float32))
    exported_for(scale_rows, ("n, 3", jnp.float32), ("n", jnp.float32), ("", jnp.float32))
    with pytest.raises(wp.KernelError, match=r"'x': expected 2\*n elements along axis 0, as '2\*n'; got n"):
        exported_for(doubled, ("n", jnp.float32), ("n", jnp.float32))
    exported_for(doubled, ("n", jnp.float32), ("2*n", jnp.float32))


def test_under_transformations():
    call = wp.jax_kernel(scale_rows)
    x, a = jnp.ones((5, 4, 3)), jnp.ones((5, 4))
    assert jax.vmap(lambda x, a: call(x, a, 1.0)[0])(x, a).shape == (5, 4, 3)
    assert jax.grad(lambda x: call(x, a[0], 1.0)[0].sum())(x[0]).tolist() == [[0.5] * 3] * 4
    (out,) = wp.jax_kernel(count, launch_dims=2, output_dims=2)(jnp.asarray([[True, False], [True, True]]))
    assert out.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Float[Array, "..."], "any number of axes"),
        (Float[Array, "*batch n"], "any number of axes"),
        (Float[Array, "n**2"], r'"n\*\*2" is no sum'),
        (Float[Array, "{n}+1"], r'"\{n\}\+1" is no sum'),
        (Float, "Float needs an array and its axes"),
        (jaxtyping.Complex64[Array, "n"], "no type of Complex64"),
        (Key[Array, ""], "no type of Key"),
    ],
)
def test_what_is_refused(annotation, message):
    with pytest.raises(wp.KernelError, match=message) as error:

        @wp.kernel
        def broken(x: annotation, out: wp.array[float]):
            out[0] = 1.0

    assert error.value.hint
    assert error.value.loc.file == __file__


def test_nothing_is_imported_for_it():
    program = "import sys, jaxwarp; sys.exit('jaxtyping' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
