"""Functions of transforms, and of matrices of 4 rows as transforms; spatial vectors: twists (w, v), wrenches (t, f)."""

# ruff: noqa: ARG001  (the bodies of functions have one form)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.builtins.language import algebra
from jaxwarp.builtins.language.function import Function, FunctionTable
from jaxwarp.builtins.language.ops import Ops
from jaxwarp.builtins.language.rotations import (
    float_dtype,
    from_matrix_ref,
    host_made_of,
    in_double,
    made_of,
    quat_from_matrix,
    require_like,
    require_one,
    require_quat,
    require_vec3,
    rotation_matrix,
)
from jaxwarp.builtins.language.smooth import norm
from jaxwarp.builtins.language.values import Bundle, Operand
from jaxwarp.ir.nodes import Value
from jaxwarp.quaternions import IDENTITY_ROTATION, cross_product, quat_rotated, transform_product
from jaxwarp.types import Mat, Quat, Transform, Vec

_transforms = FunctionTable("Transforms")
_spatial = FunctionTable("Spatial vectors")

_CONJUGATE = np.array([-1.0, -1.0, -1.0, 1.0])


def require_transform(name: str, a: Any) -> Bundle:
    return require_one(name, "a transform", a, Transform)


def _mat44(dtype: Any) -> Mat:
    return Mat(4, 4, dtype)


def _mat33(dtype: Any) -> Mat:
    return Mat(3, 3, dtype)


def _vec6(dtype: Any) -> Vec:
    return Vec(6, dtype)


def _join(t: Bundle, p: Sequence[Value], q: Sequence[Value]) -> Bundle:
    return Bundle(Transform(t.dtype), (*p, *q))


@_transforms.add("transformation(p: Vec3, q: Quat, dtype: type = ...) -> Transform", host_made_of(Transform))
def _transformation(ops: Ops, *args: Operand, dtype: Any = None, **named: Operand) -> Bundle:
    """A transform of a translation and a rotation, or of 7 components. Without a rotation, it is the identity. Another
    transform is converted. No component means zeros."""
    return made_of(ops, "transformation", Transform, args, dtype, named)


@_transforms.add("transform_identity(dtype: type = float32) -> Transform",
                 lambda dtype=None: Transform(float_dtype("transform_identity", dtype))())  # fmt: skip
def _transform_identity(ops: Ops, dtype: Any = None) -> Bundle:
    """The transform that moves nothing: translation 0, rotation (0, 0, 0, 1)."""
    t = Transform(float_dtype("transform_identity", dtype))
    return ops.construct(t, (0.0, 0.0, 0.0, *IDENTITY_ROTATION))


@_transforms.add("transform_get_translation(xform: Transform) -> Vec3", in_double(lambda t: t[:3]))
def _transform_get_translation(ops: Ops, xform: Operand) -> Bundle:
    """The translation `xform.p`."""
    t = require_transform("transform_get_translation", xform)
    return Bundle(Vec(3, t.dtype), t.values[:3])


@_transforms.add("transform_get_rotation(xform: Transform) -> Quat", in_double(lambda t: t[3:], Quat))
def _transform_get_rotation(ops: Ops, xform: Operand) -> Bundle:
    """The rotation `xform.q`."""
    t = require_transform("transform_get_rotation", xform)
    return Bundle(Quat(t.dtype), t.values[3:])


def _moved_ref(t: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.append(p, t[3:])


def _turned_ref(t: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.append(t[:3], q)


def _with_translation(ops: Ops, name: str, xform: Operand, p: Operand) -> Bundle:
    t, v = require_transform(name, xform), require_vec3(name, p)
    require_like(name, t, v)
    return _join(t, v.values, t.values[3:])


def _with_rotation(ops: Ops, name: str, xform: Operand, q: Operand) -> Bundle:
    t, r = require_transform(name, xform), require_quat(name, q)
    require_like(name, t, r)
    return _join(t, t.values[:3], r.values)


@_transforms.add(
    "transform_set_translation(xform: Transform, p: Vec3) -> None",
    in_double(_moved_ref, Transform),
    writes=(0,),
    reads=2,
)
def _transform_set_translation(ops: Ops, xform: Operand, p: Operand) -> Bundle:
    """Do `xform.p = p`."""
    return _with_translation(ops, "transform_set_translation", xform, p)


@_transforms.add(
    "transform_set_rotation(xform: Transform, q: Quat) -> None", in_double(_turned_ref, Transform), writes=(0,), reads=2
)
def _transform_set_rotation(ops: Ops, xform: Operand, q: Operand) -> Bundle:
    """Do `xform.q = q`."""
    return _with_rotation(ops, "transform_set_rotation", xform, q)


@_transforms.add("transform_set_translation_copy(xform: Transform, p: Vec3) -> Transform",
                 in_double(_moved_ref, Transform))  # fmt: skip
def _transform_set_translation_copy(ops: Ops, xform: Operand, p: Operand) -> Bundle:
    """A copy of the transform with another translation."""
    return _with_translation(ops, "transform_set_translation_copy", xform, p)


@_transforms.add("transform_set_rotation_copy(xform: Transform, q: Quat) -> Transform",
                 in_double(_turned_ref, Transform))  # fmt: skip
def _transform_set_rotation_copy(ops: Ops, xform: Operand, q: Operand) -> Bundle:
    """A copy of the transform with another rotation."""
    return _with_rotation(ops, "transform_set_rotation_copy", xform, q)


@_transforms.add("transform_multiply(a: Transform, b: Transform) -> Transform",
                 in_double(transform_product, Transform), ulp=16)  # fmt: skip
def _transform_multiply(ops: Ops, a: Operand, b: Operand) -> Bundle:
    """The product a * b, which moves by b and then by a."""
    x, y = require_transform("transform_multiply", a), require_transform("transform_multiply", b)
    require_like("transform_multiply", x, y)
    return algebra.transform_product(ops, x, y)


def _point_ref(t: np.ndarray, v: np.ndarray) -> np.ndarray:
    return t[:3] + quat_rotated(t[3:], v) if t.ndim == 1 else (t @ np.append(v, 1.0))[:3]


def _vector_ref(t: np.ndarray, v: np.ndarray) -> np.ndarray:
    return quat_rotated(t[3:], v) if t.ndim == 1 else t[:3, :3] @ v


def _applied(ops: Ops, name: str, xform: Operand, vector: Operand, *, moves: bool) -> Bundle:
    t = require_one(name, "a transform or a matrix of 4 rows", xform, Transform, _mat44)
    v = require_vec3(name, vector)
    require_like(name, t, v)
    if isinstance(t.type, Transform):
        shift, turned = t.values[:3], list(algebra.quat_rotated(ops, t.values[3:], v.values))
    else:
        shift, turned = t.columns[3][:3], [algebra.dot(ops, row[:3], v.values) for row in t.rows[:3]]
    return Bundle(v.type, tuple(ops.add(x, s) for x, s in zip(turned, shift, strict=True)) if moves else tuple(turned))


@_transforms.add("transform_point(xform: Transform | Mat44, point: Vec3) -> Vec3", in_double(_point_ref), ulp=16,
                 also={"mat": "xform"})  # fmt: skip
def _transform_point(ops: Ops, xform: Operand, point: Operand) -> Bundle:
    """Rotate a point, then translate it. A matrix of 4 rows is multiplied by (point, 1)."""
    return _applied(ops, "transform_point", xform, point, moves=True)


@_transforms.add("transform_vector(xform: Transform | Mat44, vec: Vec3) -> Vec3", in_double(_vector_ref), ulp=16,
                 also={"mat": "xform"})  # fmt: skip
def _transform_vector(ops: Ops, xform: Operand, vec: Operand) -> Bundle:
    """Rotate a vector, without the translation. A matrix of 4 rows is multiplied by (vec, 0)."""
    return _applied(ops, "transform_vector", xform, vec, moves=False)


def _inverse_ref(t: np.ndarray) -> np.ndarray:
    q = t[3:] * _CONJUGATE
    return np.append(-quat_rotated(q, t[:3]), q)


@_transforms.add("transform_inverse(xform: Transform) -> Transform", in_double(_inverse_ref, Transform), ulp=16)
def _transform_inverse(ops: Ops, xform: Operand) -> Bundle:
    """The inverse of a transform whose rotation is a unit quaternion."""
    t = require_transform("transform_inverse", xform)
    back = algebra.quat_rotated(ops, t.values[3:], t.values[:3], backwards=True)
    *u, w = t.values[3:]
    return _join(t, [ops.neg(x) for x in back], [*(ops.neg(x) for x in u), w])


@_transforms.add("transform_from_matrix(mat: Mat44) -> Transform",
                 in_double(lambda m: np.append(m[:3, 3], from_matrix_ref(m)), Transform), ulp=8)  # fmt: skip
def _transform_from_matrix(ops: Ops, mat: Operand) -> Bundle:
    """The transform of a matrix: its last column is the translation, its upper left part the rotation."""
    m = require_one("transform_from_matrix", "a matrix of 4 rows", mat, _mat44)
    return _join(m, m.columns[3][:3], quat_from_matrix(ops, m).values)


def _matrix_ref(p: np.ndarray, q: np.ndarray, s: Any) -> np.ndarray:
    result = np.eye(4)
    result[:3, :3] = np.stack([quat_rotated(q, e) for e in np.eye(3)], 1) * s
    result[:3, 3] = p
    return result


def _composed(ops: Ops, p: Sequence[Value], q: Sequence[Value], scale: Sequence[Value] | None) -> Bundle:
    rotation = rotation_matrix(ops, q)
    zero, one = ops.const(0.0, p[0]), ops.const(1.0, p[0])
    values: list[Value] = []
    for i in range(3):
        row = rotation[3 * i : 3 * i + 3]
        values += row if scale is None else [ops.mul(s, x) for s, x in zip(scale, row, strict=True)]
        values.append(p[i])
    return Bundle(Mat(4, 4, p[0].type), (*values, zero, zero, zero, one))


@_transforms.add("transform_to_matrix(xform: Transform) -> Mat44",
                 in_double(lambda t: _matrix_ref(t[:3], t[3:], 1.0)), ulp=8)  # fmt: skip
def _transform_to_matrix(ops: Ops, xform: Operand) -> Bundle:
    """The matrix that does the same to points. Its last column is the translation."""
    t = require_transform("transform_to_matrix", xform)
    return _composed(ops, t.values[:3], t.values[3:], None)


@_transforms.add("transform_compose(position: Vec3, rotation: Quat, scale: Vec3) -> Mat44",
                 in_double(_matrix_ref), ulp=8)  # fmt: skip
def _transform_compose(ops: Ops, position: Operand, rotation: Operand, scale: Operand) -> Bundle:
    """The matrix that scales points along the axes, rotates them, then translates them."""
    name = "transform_compose"
    p, q, s = require_vec3(name, position), require_quat(name, rotation), require_vec3(name, scale)
    require_like(name, p, q, s)
    return _composed(ops, p.values, q.values, s.values)


def _decompose_ref(m: np.ndarray) -> tuple[np.ndarray, ...]:
    scale = np.linalg.norm(m[:3, :3], axis=0)
    return m[:3, 3], from_matrix_ref(m[:3, :3] / np.where(scale > 0, scale, 1)), scale


@_transforms.add("transform_decompose(m: Mat44) -> tuple[Vec3, Quat, Vec3]", in_double(_decompose_ref), ulp=32)
def _transform_decompose(ops: Ops, m: Operand) -> tuple[Bundle, Bundle, Bundle]:
    """The position, rotation and scale of a matrix made by transform_compose. The scales are positive."""
    matrix = require_one("transform_decompose", "a matrix of 4 rows", m, _mat44)
    rows: list[list[Value]] = [[], [], []]
    scale = []
    for column in matrix.columns[:3]:
        length = norm(ops, *column[:3])
        divisor = ops.call("select", ops.gt(length, 0.0), length, 1.0)
        scale.append(length)
        for row, x in zip(rows, column[:3], strict=True):
            row.append(ops.div(x, divisor))
    unscaled = Bundle(Mat(3, 3, matrix.dtype), tuple(x for row in rows for x in row))
    vector = Vec(3, matrix.dtype)
    return Bundle(vector, matrix.columns[3][:3]), quat_from_matrix(ops, unscaled), Bundle(vector, tuple(scale))


# Spatial vectors: the angular part first


def require_spatial(name: str, a: Any) -> Bundle:
    return require_one(name, "a vector of 6 floats", a, _vec6)


def _spatial_pair(name: str, a: Operand, b: Operand) -> tuple[Bundle, Bundle]:
    x, y = require_spatial(name, a), require_spatial(name, b)
    require_like(name, x, y)
    return x, y


def _sum(ops: Ops, a: Sequence[Value], b: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(ops.add(x, y) for x, y in zip(a, b, strict=True))


@_spatial.add("spatial_dot(a: Vec6, b: Vec6) -> Float", in_double(np.dot), domain=(0.1, 2.0), ulp=8)
def _spatial_dot(ops: Ops, a: Operand, b: Operand) -> Value:
    """The sum of the products of corresponding components. For a wrench and a twist it is the power."""
    x, y = _spatial_pair("spatial_dot", a, b)
    return algebra.dot(ops, x.values, y.values)


def _cross_ref(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.append(cross_product(a[:3], b[:3]), cross_product(a[3:], b[:3]) + cross_product(a[:3], b[3:]))


@_spatial.add("spatial_cross(a: Vec6, b: Vec6) -> Vec6", in_double(_cross_ref), ulp=16)
def _spatial_cross(ops: Ops, a: Operand, b: Operand) -> Bundle:
    """The cross product of two twists (w, v) and (w', v'): (w x w', v x w' + w x v')."""
    x, y = _spatial_pair("spatial_cross", a, b)
    (w, v), (w2, v2) = (x.values[:3], x.values[3:]), (y.values[:3], y.values[3:])
    linear = _sum(ops, algebra.cross(ops, v, w2), algebra.cross(ops, w, v2))
    return Bundle(x.type, (*algebra.cross(ops, w, w2), *linear))


def _cross_dual_ref(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.append(cross_product(a[:3], b[:3]) + cross_product(a[3:], b[3:]), cross_product(a[:3], b[3:]))


@_spatial.add("spatial_cross_dual(a: Vec6, b: Vec6) -> Vec6", in_double(_cross_dual_ref), ulp=16)
def _spatial_cross_dual(ops: Ops, a: Operand, b: Operand) -> Bundle:
    """The cross product of a twist (w, v) and a wrench (t, f): (w x t + v x f, w x f)."""
    x, y = _spatial_pair("spatial_cross_dual", a, b)
    (w, v), (t, f) = (x.values[:3], x.values[3:]), (y.values[:3], y.values[3:])
    angular = _sum(ops, algebra.cross(ops, w, t), algebra.cross(ops, v, f))
    return Bundle(x.type, (*angular, *algebra.cross(ops, w, f)))


@_spatial.add("spatial_top(svec: Vec6) -> Vec3", in_double(lambda v: v[:3]))
def _spatial_top(ops: Ops, svec: Operand) -> Bundle:
    """The first three components: the angular part."""
    v = require_spatial("spatial_top", svec)
    return Bundle(Vec(3, v.dtype), v.values[:3])


@_spatial.add("spatial_bottom(svec: Vec6) -> Vec3", in_double(lambda v: v[3:]))
def _spatial_bottom(ops: Ops, svec: Operand) -> Bundle:
    """The last three components: the linear part."""
    v = require_spatial("spatial_bottom", svec)
    return Bundle(Vec(3, v.dtype), v.values[3:])


def _adjoint_ref(r: np.ndarray, s: np.ndarray) -> np.ndarray:
    return np.block([[r, np.zeros((3, 3))], [s, r]])


@_spatial.add("spatial_adjoint(r: Mat33, s: Mat33) -> Mat66", in_double(_adjoint_ref))
def _spatial_adjoint(ops: Ops, r: Operand, s: Operand) -> Bundle:
    """The matrix of blocks [[r, 0], [s, r]]. With s = skew(p) * r it maps twists by the transform (p, r)."""
    what = "a matrix of 3 rows"
    a, b = require_one("spatial_adjoint", what, r, _mat33), require_one("spatial_adjoint", what, s, _mat33)
    require_like("spatial_adjoint", a, b)
    zero = ops.const(0.0, a.dtype)
    upper = [(*row, zero, zero, zero) for row in a.rows]
    lower = [(*left, *right) for left, right in zip(b.rows, a.rows, strict=True)]
    return Bundle(Mat(6, 6, a.dtype), tuple(x for row in (*upper, *lower) for x in row))


@_spatial.add("velocity_at_point(qd: Vec6, r: Vec3) -> Vec3",
              in_double(lambda x, r: x[3:] + cross_product(x[:3], r)), ulp=16)  # fmt: skip
def _velocity_at_point(ops: Ops, qd: Operand, r: Operand) -> Bundle:
    """The linear velocity v + w x r of the point at r of a body whose twist is qd = (w, v)."""
    x, at = require_spatial("velocity_at_point", qd), require_vec3("velocity_at_point", r)
    require_like("velocity_at_point", x, at)
    return Bundle(at.type, _sum(ops, x.values[3:], algebra.cross(ops, x.values[:3], at.values)))


def _twist_ref(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    w = quat_rotated(t[3:], x[:3])
    return np.append(w, quat_rotated(t[3:], x[3:]) + cross_product(t[:3], w))


def _wrench_ref(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    f = quat_rotated(t[3:], x[3:])
    return np.append(quat_rotated(t[3:], x[:3]) + cross_product(t[:3], f), f)


def _turned_halves(ops: Ops, name: str, t: Operand, x: Operand) -> tuple[Bundle, Bundle, Any, Any]:
    motion, vector = require_transform(name, t), require_spatial(name, x)
    require_like(name, motion, vector)
    q = motion.values[3:]
    top, bottom = (algebra.quat_rotated(ops, q, half) for half in (vector.values[:3], vector.values[3:]))
    return motion, vector, top, bottom


@_spatial.add("transform_twist(t: Transform, x: Vec6) -> Vec6", in_double(_twist_ref), ulp=32)
def _transform_twist(ops: Ops, t: Operand, x: Operand) -> Bundle:
    """Express a twist x = (w, v) in the frame that t maps to: (R w, R v + p x R w)."""
    motion, vector, w, v = _turned_halves(ops, "transform_twist", t, x)
    return Bundle(vector.type, (*w, *_sum(ops, v, algebra.cross(ops, motion.values[:3], w))))


@_spatial.add("transform_wrench(t: Transform, x: Vec6) -> Vec6", in_double(_wrench_ref), ulp=32)
def _transform_wrench(ops: Ops, t: Operand, x: Operand) -> Bundle:
    """Express a wrench x = (t, f) in the frame that t maps to: (R t + p x R f, R f)."""
    motion, vector, torque, force = _turned_halves(ops, "transform_wrench", t, x)
    return Bundle(vector.type, (*_sum(ops, torque, algebra.cross(ops, motion.values[:3], force)), *force))


TRANSFORM_FUNCTIONS: tuple[Function, ...] = (*_transforms.functions, *_spatial.functions)
