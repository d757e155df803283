"""Generic annotations by class (`Float`, `Int`, `Scalar`), `Function`, and kernels made by `Kernel(func=...)`."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import outputs

import jaxwarp as wp
from jaxwarp.errors import KernelSyntaxError, KernelTypeError

T = TypeVar("T")


@wp.func
def scaled(x: wp.Float, by: wp.Int):
    return x * type(x)(by)


@wp.func
def applied(f: wp.Function, x: wp.Float, by: wp.Scalar):
    return f(x, by)


@wp.func
def kind(x: wp.Float):
    return 1


@wp.func
def kind(x: wp.Int):  # noqa: F811
    return 2


@wp.kernel
def of_classes(x: wp.array[wp.Float], n: wp.Int, out: wp.array[wp.Float]):
    i = wp.tid()
    out[i] = applied(scaled, x[i], n)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("count", [wp.int32, wp.uint8, wp.int64])
def test_a_class_takes_each_of_its_types(dtype, count):
    scalar = wp.dtype_from_numpy(np.dtype(dtype))
    kinds = [wp.array(dtype=scalar), count, wp.array(dtype=scalar)]
    got = outputs(of_classes, 3, [1.0, 2.0, 0.5], 3, [0.0] * 3, kinds=kinds)
    assert got.tolist() == [3.0, 6.0, 1.5]


def test_a_class_is_differentiated():
    call = wp.jax_kernel(of_classes)
    assert jax.grad(lambda x: call(x, 3)[0].sum())(jnp.ones(2)).tolist() == [3.0, 3.0]


def test_what_is_in_another_class_is_refused():
    x, n = wp.array(dtype=wp.int32), wp.int32
    with pytest.raises(KernelTypeError, match=r"argument x: expected array\[Float, 1\], got array\[int32, 1\]"):
        of_classes.specialize([x, n, x])


def test_one_class_may_mean_several_types_a_type_variable_one():
    @wp.kernel
    def classes(x: wp.array[wp.Float], y: wp.array[wp.Float]):
        y[0] = type(y[0])(x[0])

    @wp.kernel
    def variables(x: wp.array[T], y: wp.array[T]):
        y[0] = x[0]

    kinds = [wp.array(dtype=wp.float32), wp.array(dtype=wp.float64)]
    assert outputs(classes, 1, [1.5], [0.0], kinds=kinds).tolist() == [1.5]
    with pytest.raises(KernelTypeError, match="argument y: expected"):
        variables.specialize(kinds)


def test_overloads_by_class():
    @wp.kernel
    def k(x: wp.array[float], n: wp.array[wp.int64], out: wp.array[int]):
        out[0] = kind(x[0])
        out[1] = kind(n[0])
        out[2] = kind(2.0)

    assert outputs(k, 1, [1.0], [1], [0, 0, 0]).tolist() == [1, 2, 1]


def test_components_of_a_class():
    @wp.kernel
    def k(v: wp.array[wp.types.vector(length=2, dtype=wp.Float)], out: wp.array[wp.Float]):
        i = wp.tid()
        out[i] = v[i][0] * v[i][1]

    (got,) = wp.jax_kernel(k, launch_dims=2)(jnp.array([[2.0, 3.0], [4.0, 5.0]]))
    assert got.tolist() == [6.0, 20.0]
    x = wp.zeros(2, dtype=wp.float32)
    with pytest.raises(KernelTypeError, match=r"expected array\[vec2\[Float\], 1\], got array\[vec2\[int32\], 1\]"):
        wp.launch(k, 2, [wp.zeros(2, dtype=wp.vec2i)], [x])


def test_an_output_has_the_type_of_the_input_of_its_variable():
    @wp.kernel
    def k(n: wp.array[wp.Int], v: wp.array[wp.types.vector(length=2, dtype=T)], out: wp.array[T]):
        out[n[0]] = v[0][1]

    (got,) = wp.jax_kernel(k, launch_dims=1, output_dims=1)(jnp.array([0]), jnp.array([[1.0, 2.0]]))
    assert got.dtype == "float32"
    assert got.tolist() == [2.0]


def test_kernels_made_by_a_program():
    def make(factor):
        def body(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = x[i] * factor

        return wp.Kernel(func=body, key=f"times_{factor}", options={"enable_backward": False})

    double, triple = make(2.0), make(3.0)
    assert repr(double) == "<jaxwarp kernel times_2.0>"
    assert double.key == "times_2.0"
    assert wp.jax_kernel(double)(jnp.ones(1))[0].tolist() == [2.0]
    assert wp.jax_kernel(triple)(jnp.ones(1))[0].tolist() == [3.0]
    with pytest.raises(KernelTypeError, match="has no option fast"):
        wp.Kernel(func=double.func, options={"fast": True})
    with pytest.raises(KernelSyntaxError, match="lambda"):
        wp.Kernel(lambda x: x)


def test_names():
    assert wp.float32.__name__ == "float32"
    assert wp.bool.__name__ == "bool"
    assert isinstance(scaled, wp.Function)
    assert wp.Scalar.__name__ == "Scalar"
