"""Vectors and matrices outside of kernels, types as values, and what programs for Warp ask of types."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import types
from jaxwarp.errors import KernelTypeError


def test_vectors_have_parts_operators_and_a_type():
    v = wp.vec3(1.0, 2.0, 3.0)
    assert (v.x, v.z, len(v)) == (1.0, 3.0, 3)
    v.y = 5.0
    v[0] = 4.0
    assert v == wp.vec3(4.0, 5.0, 3.0)
    assert v != wp.vec3()
    assert isinstance(v, wp.vec3)
    assert not isinstance(v, wp.vec3d)
    assert isinstance(v[1:], wp.vec2)
    assert repr(v) == "vec3f([4.0, 5.0, 3.0])"
    assert v[1:1] == types.vector(0, float)()
    for copied in (copy.deepcopy(v), pickle.loads(pickle.dumps(v)), 2.0 * v / 2.0, -1.0 * -v, v + v - v):
        assert copied == v
        assert isinstance(copied, wp.vec3)
    np.testing.assert_array_equal(v + np.ones(3), [5.0, 6.0, 4.0])
    np.testing.assert_array_equal(jnp.asarray(v), [4.0, 5.0, 3.0])


def test_types_are_classes_to_issubclass():
    # A library checks the types that it is given, often against unions.
    floats, vectors = wp.float32 | wp.float64, wp.vec2 | wp.vec3
    assert issubclass(wp.float32, wp.float32)
    assert issubclass(wp.float64, floats | wp.int32)
    assert issubclass(wp.vec3f, wp.vec3)
    assert issubclass(wp.vec3, vectors)
    assert not any(issubclass(t, floats) for t in (wp.int32, float, wp.vec3))
    assert not issubclass(wp.vec4, vectors)


def test_products_of_matrices_are_those_of_kernels():
    m, v = wp.mat22(1.0, 2.0, 3.0, 4.0), wp.vec2(1.0, 10.0)
    assert m * v == m @ v == wp.vec2(21.0, 43.0)
    assert v * m == wp.vec2(31.0, 42.0)
    assert m[1] * 2.0 == wp.vec2(6.0, 8.0)
    assert [row.x for row in m] == [1.0, 3.0]
    n = copy.copy(m)
    n *= m
    assert n == m * m == wp.mat22(7.0, 10.0, 15.0, 22.0)
    m[0][1] = 9.0
    assert m[0, 1] == 9.0
    for wrong in (lambda: v * v, lambda: m * wp.vec3(), lambda: v / v, lambda: v + wp.vec2d(), lambda: 1.0 * v * m / m):
        with pytest.raises(wp.KernelError, match="is not defined"):
            wrong()


def test_functions_mean_the_same_outside_of_kernels():
    @wp.func
    def f(m: wp.mat22, v: wp.vec2):
        return m * (v + v[1] * m[0])

    @wp.kernel
    def k(m: wp.array[wp.mat22], v: wp.array[wp.vec2], out: wp.array[wp.vec2]):
        i = wp.tid()
        out[i] = f(m[i], v[i])

    m, v = wp.mat22(1.0, 2.0, 3.0, 4.0), wp.vec2(5.0, 6.0)
    np.testing.assert_array_equal(wp.jax_kernel(k)(m[None], v[None])[0][0], f(m, v))


def test_integers_wrap_as_in_kernels():
    assert (wp.int8(300), wp.uint64(-2), wp.int32(2**31)) == (44, 2**64 - 2, -(2**31))
    assert isinstance(wp.int8(1), wp.int8)
    assert not isinstance(1, wp.int8)


def test_numpy_takes_scalar_types():
    assert np.zeros(2, wp.float64).dtype == np.float64
    assert jnp.zeros(2, wp.float16).dtype == jnp.float16


def test_annotations_with_brackets():
    assert types.Vector[float, Literal[3]] == wp.vec3
    assert types.Matrix[wp.float64, 2, 2] == wp.mat22d
    assert types.Quaternion[float] == wp.quat
    assert types.Transformation[wp.float64] == wp.transformd
    assert wp.array[float, Literal[2]] == wp.array2d[float]
    assert wp.array[types.Vector[int, 2], 3].ndim == 3
    for wrong, text in (
        (lambda: types.Vector[float], "Vector requires 2 parameters"),
        (lambda: types.Vector[float, 0], "length must be a positive integer, got 0"),
        (lambda: types.Matrix[float, Literal[2, 3], 2], "a single Literal value"),
        (lambda: wp.array2d[float, 2], "array2d takes 1 parameters at most"),
    ):
        with pytest.raises(TypeError, match=text):
            wrong()


@wp.struct
class Body:
    mass: float
    at: wp.vec3


def test_what_a_type_is():
    assert types.type_is_int(int)
    assert types.type_is_float(wp.float16)
    assert not types.type_is_scalar(bool)
    assert types.type_is_vector(wp.vec2i)
    assert types.type_is_matrix(wp.mat33)
    assert types.type_is_struct(Body)
    assert types.type_is_value(bool)
    assert not types.type_is_value(Body)
    assert all(map(types.type_is_array, (wp.array[float], wp.array, wp.array2d, wp.indexedarray, wp.fabricarray)))
    assert not any(map(types.type_is_array, (wp.zeros(1), float, wp.tile, wp.vec3)))
    assert not types.is_array(wp.array)
    assert types.type_is_tile(wp.tile[float, 4])
    assert types.is_tile(wp.tile[float])
    assert not types.is_tile(wp.array[float])
    assert types.type_is_quaternion(wp.quat)
    assert types.type_is_transformation(wp.transform)
    body = Body(1.0, (1.0, 2.0, 3.0))
    assert types.is_struct(body)
    assert types.is_vector(body.at)
    assert body.at.x == 1.0
    assert types.is_int(3)
    assert types.is_float(np.float64(1.0))
    assert not types.is_scalar(True)
    assert types.is_array(wp.zeros(3))
    assert not types.is_array(np.zeros(3))
    assert types.types_equal(float, wp.float32)
    assert not types.types_equal(int, wp.float32)
    assert (wp.vec3._shape_, wp.mat22._length_, wp.vec3d._wp_scalar_type_) == ((3,), 4, wp.float64)


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (wp.vec3, "vec3f"),
        (wp.spatial_vectord, "vector(length=6, dtype=float64)"),
        (types.matrix((2, 3), wp.int16), "mat23s"),
        (wp.quatd, "quatd"),
        (wp.array2d[wp.vec2], "array(ndim=2, dtype=vec2f)"),
        (float, "float"),
        (wp.uint8, "uint8"),
        (Any, "Any"),
        (Body, f"{__name__}.Body"),
    ],
)
def test_type_repr(t, text):
    assert types.type_repr(t) == text


def test_vectors_of_no_components_are_only_compared():
    vec0 = types.vector(0, float)

    @wp.kernel
    def k(v: wp.array[wp.vec3], out: wp.array[int]):
        i = wp.tid()
        out[i] = int(v[i][:0] == vec0()) + 2 * int(v[i][2:1] != vec0())

    assert wp.jax_kernel(k)(np.ones((1, 3), np.float32))[0].tolist() == [1]
    with pytest.raises(wp.KernelError, match=r"argument v: array\[vec0.* has no components"):

        @wp.kernel
        def k0(v: wp.array[vec0]):
            pass

    @wp.kernel
    def longest(v: wp.array[wp.vec3]):
        v[0].x = wp.length(v[0][:0])

    with pytest.raises(wp.KernelError, match=r"length: vec0\[float32\] has no components"):
        longest.specialize()


def test_functions_need_no_module_in_front_of_them():
    @wp.kernel
    def k(out: wp.array[float]):
        i = tid()  # noqa: F821
        out[i] = length(vec3(2.0, 3.0, 6.0))  # noqa: F821

    assert wp.jax_kernel(k, launch_dims=2, output_dims=2)()[0].tolist() == [7.0, 7.0]


def test_values_equal_tuples_and_lists_as_a_whole():
    v, m = wp.vec3(1.0, 2.0, 3.0), wp.mat22(1.0, 2.0, 3.0, 4.0)
    assert (v == (1.0, 2.0, 3.0)) is True
    assert (v != [1.0, 2.0, 4.0]) is True
    assert (v == (1.0, 2.0)) is False
    assert (m == ((1.0, 2.0), (3.0, 4.0))) is True
    assert (v == np.array([1.0, 2.0, 4.0])).tolist() == [True, True, False]
    assert str(v) == "[1.0, 2.0, 3.0]"
    assert str(m) == "[[1.0, 2.0],\n [3.0, 4.0]]"


def test_components_wrap_as_in_kernels():
    v = types.vector(3, wp.uint8)(1, -2, 300)
    assert v == (1, 254, 44)
    v[0] = -1
    assert v.x == 255


@pytest.mark.parametrize("given", [(None,), ("a", 1.0, 2.0), ([1.0, None, 2.0],), ([1.0, [2.0], 3.0],)], ids=str)
def test_what_is_no_number_makes_no_value(given):
    with pytest.raises(KernelTypeError, match=r"^vec3\[float32\]: expected numbers, got "):
        wp.vec3(*given)
    for scalar in (wp.float32, wp.bool, wp.int8):
        with pytest.raises(KernelTypeError, match=r"expected a number, got None"):
            scalar(None)


def test_equal_types_are_one():
    assert wp.vec3 is types.vector(3, float)
    assert types.Matrix[wp.float64, Literal[2], 3] is types.matrix((2, 3), wp.float64)
    assert types.quaternion(wp.float32) is wp.quat
    assert pickle.loads(pickle.dumps(wp.vec3)) == wp.vec3
    assert [t.__name__ for t in (wp.vec3, wp.mat22d, wp.quat)] == ["vec3f", "mat22d", "quatf"]


def test_arguments_by_the_names_of_the_signature():
    @wp.kernel
    def k(out: wp.array[float]):
        out[0] = wp.pow(x=2.0, y=3.0)
        out[1] = wp.where(cond=out[0] > 1.0, value_if_true=5.0, value_if_false=2.0)
        out[2] = wp.length(a=wp.vec3(3.0, 4.0, 0.0))
        out[3] = wp.max(a=1.0, b=2.0)

    assert wp.jax_kernel(k, launch_dims=1, output_dims=4)()[0].tolist() == [8.0, 5.0, 5.0, 2.0]
    assert (wp.pow(x=2.0, y=3.0), wp.max(a=1, b=2), wp.cast(a=wp.float32(1.0), dtype=wp.int32)) == (8.0, 2, 0x3F800000)
    assert wp.transform_point(xform=wp.transform((1.0, 0.0, 0.0)), point=wp.vec3()) == (1.0, 0.0, 0.0)
    with pytest.raises(wp.KernelError, match="pow"):
        wp.pow(2.0, z=3.0)


def test_functions_that_assign_do_so_outside_of_kernels():
    t, axis = wp.transform(), wp.vec3()
    assert wp.transform_set_translation(t, wp.vec3(1.0, 2.0, 3.0)) is None
    assert t.p == (1.0, 2.0, 3.0)
    angle = np.zeros((), np.float32)
    wp.quat_to_axis_angle(wp.quat(0.0, 1.0, 0.0, 0.0), axis, angle)
    assert axis == (0.0, 1.0, 0.0)
    np.testing.assert_allclose(angle, np.pi, rtol=1e-6)
    with pytest.raises(wp.KernelError, match="expected a value to assign to, got float"):
        wp.quat_to_axis_angle(wp.quat_identity(), axis, 0.0)


def test_expectations_outside_of_kernels():
    v = wp.vec3(1.0, 2.0, 3.0)
    wp.expect_eq(v, wp.vec3(1.0, 2.0, 3.0))
    wp.expect_neq(v, wp.vec3())
    wp.expect_near(1.0, 1.5, 0.5)
    for wrong, text in (
        (lambda: wp.expect_eq(v, wp.vec3()), r"expect_eq: got \[1.0, 2.0, 3.0\], expected \[0.0, 0.0, 0.0\]"),
        (lambda: wp.expect_neq(2, 2), "expect_neq: both are 2"),
        (lambda: wp.expect_near(1.0, float("nan")), "expect_near: got 1.0, expected nan"),
    ):
        with pytest.raises(wp.CheckError, match=text):
            wrong()

    @wp.kernel
    def k(x: wp.array[float]):
        expect_eq(x[tid()], 1.0)  # noqa: F821

    with pytest.raises(wp.CheckError, match=r"expect_eq: got 2, expected 1"):
        wp.launch(k, dim=1, inputs=[wp.full(1, 2.0, dtype=float)])


def test_functions_give_values_outside_of_kernels():
    v = wp.vec3(3.0, 0.0, 4.0)
    assert wp.normalize(v).z == np.float32(0.8)
    assert isinstance(wp.cross(v, v), wp.vec3)
    assert isinstance(wp.outer(v, v), wp.mat33)
    assert type(wp.dot(v, v)) is float
    assert isinstance(wp.dot(wp.vec3d(v), wp.vec3d(v)), wp.float64)
    assert type(wp.sin(np.zeros(3))) is np.ndarray


@pytest.mark.parametrize("dtype", [wp.int8, wp.int32, wp.uint16, wp.int64])
def test_integers_divide_as_in_kernels(dtype):
    kind = wp.types.vector(3, dtype)
    signed = not dtype.name.startswith("u")
    v, w = kind(7, -7 if signed else 7, 3), kind(2, 2, 0)
    expected = (3, -3 if signed else 3, 1)
    assert v / dtype(2) == v / 2 == wp.div(v, dtype(2)) == expected
    assert dtype(12) / kind(5, 3, 0) == 12 / kind(5, 3, 0) == (2, 4, 0)
    assert v % w == wp.mod(v, w) == (1, -1 if signed else 1, 0)
    v /= dtype(2)
    assert v == expected
    assert type(v) is type(w)


def test_floats_divide_as_numpy():
    v = wp.vec3(1.0, 2.0, -3.5)
    assert v / 2 == (0.5, 1.0, -1.75)
    assert np.float32(2.0) / v == 2.0 / v == (2.0, 1.0, np.float32(2.0 / -3.5))
    assert v % wp.vec3(2.0) == (1.0, 0.0, -1.5)
    np.testing.assert_array_equal(wp.vec3i(1, 2, 3) / np.array([2, 2, 2]), [0.5, 1.0, 1.5])


def test_numpy_computes_with_components():
    v = wp.vec3(1.0, 4.0, 9.0)
    assert np.sqrt(v) == (1.0, 2.0, 3.0)
    assert np.sqrt(v).y == 2.0
    assert np.add.reduce(v) == np.sum(v) == 14.0
    same = v
    v += wp.vec3(1.0)
    assert v is same
    assert v == (2.0, 5.0, 10.0)
    np.multiply(v, 2.0, out=v)
    assert same == (4.0, 10.0, 20.0)
    assert (v > 5.0).tolist() == [False, True, True]


def test_slices_of_components_wrap_and_take_numbers_only():
    v = wp.types.vector(4, wp.uint8)(1, 2, 3, 4)
    v[1:3] = (-2, 258)
    assert v == (1, 254, 2, 4)
    m = wp.types.matrix((2, 2), wp.int8)()
    m[0] = [1, 300]
    assert m == wp.types.matrix((2, 2), wp.int8)(1, 44, 0, 0)
    with pytest.raises(KernelTypeError, match=r"expected numbers, got '1\.5'"):
        m[0, 0] = "1.5"


def test_rows_and_columns():
    m = wp.mat22(1.0, 2.0, 3.0, 4.0)
    m.set_row(1, (7.0, 8.0))
    m.set_col(0, 5.0)
    assert m == wp.mat22(5.0, 2.0, 5.0, 8.0)
    assert m.get_row(1) == wp.vec2(5.0, 8.0)
    assert m.get_col(1) == wp.vec2(2.0, 8.0)
    with pytest.raises(AttributeError, match="has no rows and columns"):
        wp.vec3().get_row(0)


def test_functions_give_quaternions_and_transforms_of_these():
    turn, way = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.5), wp.vec3(1.0, 2.0, 3.0)
    for found in (turn, wp.normalize(turn), wp.quat_inverse(turn), wp.quat_identity(), wp.quat_slerp(turn, turn, 0.5)):
        assert found.type == wp.quat().type
    assert wp.neg(turn).type == wp.add(turn, turn).type == wp.sub(turn, turn).type == turn.type
    pose = wp.transform(way, turn)
    assert wp.transform_inverse(pose).type == pose.type
    assert wp.transform_get_rotation(pose).type == turn.type
    np.testing.assert_allclose(wp.quat_inverse(turn) * turn, [0, 0, 0, 1], atol=1e-6)


def test_zero_vectors_are_normalized_to_zero():
    for zero in (wp.vec2(), wp.vec3(), wp.vec4(), wp.vec3d()):
        found = wp.normalize(zero)
        assert (found.type, found.tolist()) == (zero.type, [0.0] * len(zero))
    assert wp.normalize(wp.quat(0.0, 0.0, 0.0, 0.0)).tolist() == [0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("args", [(), (1.0, 2.0), ("a",), (None,)])
def test_calls_of_functions_of_one_number(args):
    with pytest.raises(KernelTypeError, match=r"sin: expected (1 argument|numbers), got"):
        wp.sin(*args)


def test_components_with_a_mask_are_refused():
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    for made in (lambda: wp.vec3(masked), lambda: wp.mat33(masked, masked, masked), lambda: wp.vec3i(1, masked[1], 2)):
        with pytest.raises(wp.KernelError, match="kernels do not see the mask"):
            made()
    assert wp.vec3(masked.filled(0.0)).tolist() == [1, 0, 3]
