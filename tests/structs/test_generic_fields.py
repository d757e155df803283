"""Fields that are arrays of any type: a kernel for each that is given."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError

Three: Any = wp.types.vector(length=3, dtype=Any)


@wp.struct
class Samples:
    values: wp.array[Any]
    vectors: wp.array[Three]
    first: int

    SCALE = 2


@wp.kernel
def scaled(s: Samples, out: wp.array[float]):
    i = wp.tid()
    out[i] = float(s.values[s.first + i]) * float(Samples.SCALE)


@wp.kernel
def lengths(s: Samples, x: wp.array[Any], out: wp.array[Any]):
    i = wp.tid()
    out[i] = x[i] + type(x[i])(wp.length(s.vectors[i]))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_each_type_has_its_kernel(dtype):
    values = np.arange(5).astype(dtype)
    out = wp.zeros(3, dtype=float)
    wp.launch(scaled, 3, inputs=[Samples(values, None, 2), out])
    assert out.numpy().tolist() == [4.0, 6.0, 8.0]
    (found,) = jax.jit(lambda v: wp.jax_kernel(scaled, launch_dims=3, output_dims=3)(Samples(v, None, 2)))(values)
    np.testing.assert_array_equal(found, out.numpy())


def test_outputs_follow_arguments_not_fields():
    s = Samples(jnp.arange(3), jnp.full((3, 3), 2.0), 0)
    (found,) = wp.jax_kernel(lengths)(s, jnp.ones(3, jnp.float16))
    assert found.dtype == jnp.float16
    np.testing.assert_allclose(found, 1 + np.sqrt(12), rtol=1e-3)
    gradient = jax.grad(lambda v: wp.jax_kernel(lengths)(Samples(jnp.arange(3), v, 0), jnp.ones(3))[0].sum())(s.vectors)
    np.testing.assert_allclose(gradient, 3**-0.5, rtol=1e-6)


def test_types_that_do_not_fit():
    with pytest.raises(KernelTypeError, match=r"argument 's.values': expected float32 of shape \(\?,\), got"):
        wp.jax_kernel(scaled, launch_dims=1, output_dims=1)(Samples(jnp.zeros((3, 3)), None, 0))
    with pytest.raises(KernelTypeError, match="a field has one type"):

        @wp.struct
        class Open:
            x: Any


T = TypeVar("T")


@wp.kernel
def doubled(x: Any, y: Any):
    i = wp.tid()
    y[i] = x[i] * 2.0


@wp.kernel
def copied_alike(x: T, y: T):
    i = wp.tid()
    y[i] = x[i]


@pytest.mark.parametrize("dtype", [float, wp.vec3])
def test_arrays_for_any_are_arrays_and_no_vectors(dtype):
    x, y = wp.full(3, 1.5, dtype=dtype), wp.zeros(3, dtype=dtype)
    wp.launch(doubled, 3, [x, y])
    np.testing.assert_array_equal(y.numpy(), 2.0 * x.numpy())
    chosen = wp.indexedarray(x, [wp.array([2, 0], dtype=int)])
    x.fill_(4.0)
    wp.launch(doubled, 2, [chosen, y])
    assert [np.all(row == 8.0) for row in y.numpy()] == [True, True, False]


def test_a_type_variable_is_one_type_of_arrays():
    x = wp.ones(2, dtype=float)
    wp.launch(copied_alike, 2, [x, y := wp.zeros(2, dtype=float)])
    assert y.list() == [1.0, 1.0]
    with pytest.raises(KernelTypeError, match=r"T is array\[float32, 1\] for 'x', got array\[float64, 1\]"):
        wp.launch(copied_alike, 2, [x, wp.zeros(2, dtype=wp.float64)])


def test_arrays_of_other_libraries_are_refused_for_any():
    y = wp.zeros(3, dtype=float)
    for x in (np.ones(3, np.float32), jnp.ones(3)):
        with pytest.raises(KernelTypeError, match="argument 'x' has no type of its own, and "):
            wp.launch(doubled, 3, [x, y])
    wp.launch(doubled, 3, [wp.vec3(1.0, 2.0, 3.0), y])
    assert y.list() == [2.0, 4.0, 6.0]
