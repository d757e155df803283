"""Arguments by the names that Warp's overloads have, in kernels and outside of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError

EYE = np.eye(4, dtype=np.float32)
Q = wp.quat(0.6, 0.0, 0.0, 0.8)


@wp.kernel
def by_name(a: wp.array[float], b: wp.array[int], q: wp.quat, m: wp.mat44, out: wp.array[float]):
    p = wp.vec3(1.0, 2.0, 3.0)
    out[0] = wp.transform_point(point=p, mat=m)[0]
    out[1] = wp.transform_vector(mat=m, vec=p)[1]
    axis = wp.vec3()
    angle = 0.0
    wp.quat_to_axis_angle(q, angle=angle, axis=axis)
    out[2] = axis[0]
    out[3] = angle
    t = wp.transform()
    wp.transform_set_translation(xform=t, p=p)
    wp.transform_set_rotation(q=q, xform=t)
    out[4] = t[2]
    out[5] = t[3]
    out[6] = wp.quaternion(quat=q, dtype=float)[3]
    out[7] = wp.where(arr=a, value_if_true=1.0, value_if_false=2.0)
    out[8] = wp.where(value_if_false=2.0, cond=b[0] > 1, value_if_true=1.0)
    out[9] = float(wp.quatd(quat=q)[0])


def test_in_kernels():
    out = wp.zeros(10, dtype=float)
    given = [wp.zeros(1, dtype=float), wp.zeros(1, dtype=int), Q, wp.mat44(2.0 * EYE)]
    wp.launch(by_name, 1, given, [out])
    expected = [2.0, 4.0, 1.0, 2.0 * np.arctan2(0.6, 0.8), 3.0, 0.6, 0.8, 1.0, 2.0, 0.6]
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)
    given[0] = None
    wp.launch(by_name, 1, given, [out])
    assert out.list()[7] == 2.0


def test_on_the_host():
    p = wp.vec3(1.0, 2.0, 3.0)
    assert wp.transform_point(point=p, mat=wp.mat44(EYE)) == p
    assert wp.transform_vector(mat=wp.mat44(2.0 * EYE), vec=p) == 2.0 * p
    assert wp.transform_point(xform=wp.transform(p, wp.quat_identity()), point=p) == 2.0 * p
    axis, angle = wp.vec3(), np.zeros(1)
    assert wp.quat_to_axis_angle(quat=Q, angle=angle, axis=axis) is None
    np.testing.assert_allclose([*axis, *angle], [1.0, 0.0, 0.0, 2.0 * np.arctan2(0.6, 0.8)], rtol=1e-6)
    assert wp.quat(quat=Q) == Q
    assert wp.quatd(quat=Q).dtype == np.float64


def test_meshes():
    @wp.kernel
    def corners(mesh: wp.uint64, out: wp.array[float]):
        k = wp.tid()
        p = wp.mesh_get_point(mesh, index=k) + wp.mesh_get_velocity(id=mesh, index=k)
        out[k] = p[0] + 10.0 * float(wp.mesh_get_index(mesh, index=k))

    points = wp.array(np.arange(9, dtype=np.float32).reshape(3, 3), dtype=wp.vec3)
    mesh, out = wp.Mesh(points, wp.array([2, 0, 1], dtype=int), velocities=points), wp.zeros(3, dtype=float)
    wp.launch(corners, 3, [mesh.id], [out])
    assert out.list() == [32.0, 0.0, 16.0]


def test_refusals():
    point: Any = wp.transform_point
    with pytest.raises(KernelTypeError, match="transform_point: got an unexpected keyword argument 'mat'"):
        point(xform=wp.transform(), mat=wp.mat44(), point=wp.vec3())

    @wp.kernel
    def twice(out: wp.array[wp.vec3]):
        out[0] = wp.transform_point(xform=wp.transform(), mat=wp.mat44(), point=wp.vec3())  # pyright: ignore

    @wp.kernel
    def half(q: wp.quat):
        axis = wp.vec3()
        wp.quat_to_axis_angle(quat=q, axis=axis)  # pyright: ignore

    for kernel, text in ((twice, "transform_point: .*'mat'"), (half, "quat_to_axis_angle: .*")):
        with pytest.raises(KernelTypeError, match=text):
            kernel.ir()


def test_comparisons_of_values_are_one_bool():
    v, m = wp.vec3(1.0, 2.0, 3.0), wp.mat33(1.0)
    for other in (None, "x", wp.vec2(1.0, 2.0), wp.vec3(1.0, 2.0, 4.0), m, wp.quat(), wp.transform(), (1, 2), [v, v]):
        assert (v == other) is False, other
        assert (v != other) is True, other
    assert (m == wp.mat22(1.0)) is False
    for other in (wp.vec3d(1.0, 2.0, 3.0), wp.vec3(v), (1.0, 2.0, 3.0), [1, 2, 3]):
        assert (v == other) is True, other
        assert (v != other) is False, other
    assert (wp.quat(1.0, 2.0, 3.0, 4.0) == wp.vec4(1.0, 2.0, 3.0, 4.0)) is True
    np.testing.assert_array_equal(v == 2.0, [False, True, False])
    np.testing.assert_array_equal(v == np.array([1.0, 0.0, 3.0]), [True, False, True])
