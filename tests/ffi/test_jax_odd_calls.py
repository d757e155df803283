"""Calls that are rare: array-like operands, transposes asked for directly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError


@wp.kernel
def stencil(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    n = a.shape[0]
    out[i] = a[(i + n - 1) % n] + 2.0 * a[i] + a[(i + 1) % n]


X = np.arange(6, dtype=np.float32)
launch = wp.jax_kernel(stencil)


def reference(x):
    return jnp.roll(x, 1) + 2 * x + jnp.roll(x, -1)


def test_objects_that_say_which_array_they_are():
    class Parameter:
        def __jax_array__(self):
            return jnp.asarray(X)

    np.testing.assert_array_equal(launch(Parameter())[0], reference(X))
    np.testing.assert_array_equal(jax.jit(lambda: launch(Parameter())[0])(), reference(X))


def test_integers_of_64_bits_that_do_not_fit():
    @wp.kernel
    def doubled(a: wp.array[int], out: wp.array[int]):
        i = wp.tid()
        out[i] = 2 * a[i]

    call = wp.jax_kernel(doubled)
    assert call(np.array([1, -3]))[0].tolist() == [2, -6]
    large = np.array([2**32, 1])
    for run in (lambda: call(large), jax.jit(lambda: call(large))):
        with pytest.raises(KernelValueError, match="argument 'a': expected values of int32"):
            run()


def test_under_custom_vjp_called_eagerly():
    """JAX passes the operands of such a call as arrays of a type of its own."""

    @jax.custom_vjp
    def doubled(x):
        return launch(x)[0]

    doubled.defvjp(lambda x: (doubled(x), None), lambda _, ct: (2 * ct,))
    np.testing.assert_array_equal(jax.grad(lambda x: doubled(x).sum())(X), np.full(6, 2, np.float32))


@wp.kernel
def squares(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i] * a[i]


def test_the_transpose_of_a_linear_launch():
    matrix = jax.jacfwd(lambda x: launch(x)[0])(X)
    (got,) = jax.linear_transpose(lambda x: launch(x)[0], X)(X)
    np.testing.assert_allclose(got, matrix.T @ X, rtol=1e-6)


def test_the_transpose_of_another_is_refused():
    with pytest.raises(wp.errors.DifferentiationError) as error:
        jax.linear_transpose(lambda x: wp.jax_kernel(squares)(x)[0], X)(X)
    first, place, line, caret, hint = str(error.value).splitlines()
    assert first == "kernel squares is not linear in its argument a, and cannot be transposed"
    assert place.endswith(", in squares")
    assert line == "    out[i] = a[i] * a[i]"
    assert caret == "             ^^^^"
    assert hint == "  hint: derivatives at a point are those of jax.vjp and jax.grad"


@wp.kernel
def turned(x: wp.array[float], rows: wp.mat22, y: wp.array[float]):
    i = wp.tid()
    y[i] = rows[0, 1] * x[i]


def turn_all(x: wp.array[float], rows: wp.mat22, y: wp.array[float]):
    wp.launch(turned, dim=x.shape, inputs=[x, rows], outputs=[y])


ROWS = np.ones((2, 2), np.float32)


@pytest.mark.parametrize("call", [wp.jax_kernel(turned), wp.jax_callable(turn_all)])
def test_what_is_no_array_though_it_has_a_shape(call):
    held = jax.new_ref(X)
    for f in (call, jax.jit(call), lambda _, rows: jax.jit(lambda x: call(jax.new_ref(x), rows))(X)):
        with pytest.raises(KernelTypeError, match=r"argument 'x': expected float32 .*, got Ref") as caught:
            f(held, ROWS)
        assert caught.value.hint == "pass what it holds: x[...]"
    np.testing.assert_array_equal(jax.jit(lambda held: call(held[...], ROWS)[0])(held), X)
    with pytest.raises(KernelTypeError, match=r"argument 'x': expected float32 .*, got ShapeDtypeStruct"):
        call(jax.ShapeDtypeStruct((6,), np.float32), ROWS)


@pytest.mark.parametrize("rows", [[[1, 2], [3]], [["a", "b"], ["c", "d"]]])
@pytest.mark.parametrize("call", [wp.jax_kernel(turned), wp.jax_callable(turn_all)])
def test_rows_that_are_no_matrix(call, rows):
    with pytest.raises(KernelTypeError, match=r"argument 'rows': expected float32 .*, got list") as caught:
        call(X, rows)
    assert caught.value.hint == "make an array of it: jax.numpy.asarray(rows, 'float32')"


@pytest.mark.parametrize("call", [wp.jax_kernel(turned), wp.jax_callable(turn_all)])
def test_arrays_of_numpy_of_other_classes(call):
    """A mask was ignored."""
    with pytest.raises(KernelTypeError, match=r"a masked array of NumPy, of shape .*: kernels do not see the mask"):
        call(np.ma.array(X, mask=X < 2), ROWS)
    np.testing.assert_array_equal(call(X.view(np.recarray), ROWS.view(np.recarray))[0], X)


def test_masks_of_points_and_voxels_are_refused():
    points = np.ma.array(np.eye(3, dtype=np.float32), mask=np.eye(3))
    dense = np.ma.zeros((2, 2, 2), np.float32)
    for make in (
        lambda: wp.Mesh(points, np.array([[0, 1, 2]], np.int32)),
        lambda: wp.Bvh(points, points),
        lambda: wp.Volume.allocate_by_tiles(points, 0.5, 0.0),
        lambda: wp.Volume.load_from_numpy(dense, (0.0, 0.0, 0.0), 1.0, 0.0),
    ):
        with pytest.raises(KernelTypeError, match="kernels do not see the mask"):
            make()
