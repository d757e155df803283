"""Rotations by angles about axes: roll, pitch and yaw, Euler's angles, twists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.builtins.language import algebra
from jaxwarp.builtins.language.function import Function, FunctionTable, require_float
from jaxwarp.builtins.language.ops import Ops
from jaxwarp.builtins.language.rotations import in_double, normalized, require_like, require_quat, require_vec3
from jaxwarp.builtins.language.smooth import norm
from jaxwarp.builtins.language.values import LITERALS, Bundle, Operand, describe
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ir.nodes import Value
from jaxwarp.quaternions import IDENTITY_ROTATION, quat_product, quat_rotated
from jaxwarp.types import Quat, Scalar, Vec

_angles = FunctionTable("Quaternions")


def _about(axis: int, angle: Any) -> np.ndarray:
    return np.append(np.eye(3)[axis] * np.sin(angle / 2), np.cos(angle / 2))


def _rpy_ref(roll: Any, pitch: Any, yaw: Any) -> np.ndarray:
    return quat_product(_about(2, yaw), quat_product(_about(1, pitch), _about(0, roll)))


@_angles.add("quat_rpy(roll: Float, pitch: Float, yaw: Float) -> Quat", in_double(_rpy_ref, Quat), ulp=4)
def _quat_rpy(ops: Ops, roll: Operand, pitch: Operand, yaw: Operand) -> Bundle:
    """Rotate by roll about x, then by pitch about y, then by yaw about z. The axes are fixed; angles are in radians."""
    angles = ops.scalars("quat_rpy", *(float(a) if isinstance(a, int) else a for a in (roll, pitch, yaw)))
    require_float("quat_rpy", angles[0].type)
    x, y, z = (_axis_rotation(ops, angle, axis) for axis, angle in enumerate(angles))
    return Bundle(Quat(angles[0].type), algebra.quat_product(ops, z, algebra.quat_product(ops, y, x)))


def _axis_rotation(ops: Ops, angle: Value, axis: Operand) -> tuple[Value, ...]:
    """The rotation about a coordinate axis."""
    half, zero = ops.mul(0.5, angle), ops.const(0.0, angle)
    sine = ops.sin(half)
    imaginary = [choose(ops, ops.compare("eq", axis, k), sine, zero) for k in range(3)]
    return (*imaginary, ops.cos(half))


def choose(ops: Ops, test: Value | bool, a: Value, b: Value) -> Value:
    """One of two by a test that may be known."""
    return (a if test else b) if isinstance(test, bool) else ops.call("select", test, a, b)


def _to_rpy_ref(q: np.ndarray) -> np.ndarray:
    m = np.stack([quat_rotated(q, e) for e in np.eye(3)], 1)
    return np.array([np.arctan2(m[2, 1], m[2, 2]), np.arcsin(np.clip(-m[2, 0], -1, 1)), np.arctan2(m[1, 0], m[0, 0])])


@_angles.add("quat_to_rpy(q: Quat) -> Vec3", in_double(_to_rpy_ref), ulp=32)
def _quat_to_rpy(ops: Ops, q: Operand) -> Bundle:
    """Roll, pitch and yaw of a unit quaternion: the inverse of quat_rpy. If pitch is half of pi, roll and yaw are not
    unique, and their derivatives are meaningless."""
    quat = require_quat("quat_to_rpy", q)
    x, y, z, w = quat.values

    def twice(a: Value, b: Value, c: Value, d: Value, sign: str = "add") -> Value:
        return ops.mul(2.0, ops.call(sign, ops.mul(a, b), ops.mul(c, d)))

    roll = ops.atan2(twice(w, x, y, z), ops.sub(1.0, twice(x, x, y, y)))
    pitch = ops.asin(twice(w, y, z, x, "sub"))
    yaw = ops.atan2(twice(w, z, x, y), ops.sub(1.0, twice(y, y, z, z)))
    return Bundle(Vec(3, quat.dtype), (roll, pitch, yaw))


def _twist_ref(axis: np.ndarray, q: np.ndarray) -> np.ndarray:
    twist = np.append(np.dot(q[:3], axis) * axis, q[3])
    length = np.linalg.norm(twist)
    return twist / length if length else np.array(IDENTITY_ROTATION)


@_angles.add("quat_twist(axis: Vec3, q: Quat) -> Quat", in_double(_twist_ref, Quat), ulp=16)
def _quat_twist(ops: Ops, axis: Operand, q: Operand) -> Bundle:
    """The part of a rotation that is about a unit axis. The rest is about an axis perpendicular to it. Half a turn
    about a perpendicular axis has no such part, and gives the identity."""
    direction, quat = require_vec3("quat_twist", axis), require_quat("quat_twist", q)
    require_like("quat_twist", quat, direction)
    along = algebra.dot(ops, quat.values[:3], direction.values, fixed_rounding=True)
    return normalized(ops, Quat(quat.dtype), [*(ops.mul(along, x) for x in direction.values), quat.values[3]])


def _twist_angle(ops: Ops, name: str, axis: Operand, q: Operand, *, signed: bool) -> Value:
    direction, quat = require_vec3(name, axis), require_quat(name, q)
    require_like(name, quat, direction)
    along = algebra.dot(ops, quat.values[:3], direction.values, fixed_rounding=True)
    return ops.mul(2.0, ops.atan2(along if signed else ops.call("abs", along), quat.values[3]))


@_angles.add(
    "quat_twist_angle(axis: Vec3, q: Quat) -> Float",
    in_double(lambda axis, q: 2 * np.arctan2(abs(np.dot(q[:3], axis)), q[3])),
    domain=(0.1, 2.0),
    ulp=16,
)
def _quat_twist_angle(ops: Ops, axis: Operand, q: Operand) -> Value:
    """The absolute angle of quat_twist, from 0 to pi if w >= 0. The derivative at 0 is that for positive angles."""
    return _twist_angle(ops, "quat_twist_angle", axis, q, signed=False)


@_angles.add(
    "quat_twist_angle_signed(axis: Vec3, q: Quat) -> Float",
    in_double(lambda axis, q: 2 * np.arctan2(np.dot(q[:3], axis), q[3])),
    domain=(0.1, 2.0),
    ulp=16,
)
def _quat_twist_angle_signed(ops: Ops, axis: Operand, q: Operand) -> Value:
    """The angle of quat_twist, from -pi to pi if w >= 0. It is positive counter-clockwise about the axis."""
    return _twist_angle(ops, "quat_twist_angle_signed", axis, q, signed=True)


def _require_axes(name: str, *axes: Operand) -> None:
    for axis in axes:
        if isinstance(axis, bool) or not (isinstance(axis, int) or (isinstance(axis, Value) and axis.type.is_int)):
            raise KernelTypeError(f"{name}: an axis must be an integer, got {describe(axis)}")
        if isinstance(axis, LITERALS) and axis not in (0, 1, 2):
            raise KernelValueError(f"{name}: an axis must be 0, 1 or 2, got {axis}")


def _from_euler_ref(e: np.ndarray, i: Any, j: Any, k: Any) -> np.ndarray:
    first, second, third = (_about(int(axis), e[int(axis)]) for axis in (i, j, k))
    return quat_product(third, quat_product(second, first))


@_angles.add("quat_from_euler(e: Vec3, i: int, j: int, k: int) -> Quat", in_double(_from_euler_ref, Quat), ulp=8)
def _quat_from_euler(ops: Ops, e: Operand, i: Operand, j: Operand, k: Operand) -> Bundle:
    """Rotate by e[i] about axis i, then by e[j] about j, then by e[k] about k. The axes are fixed, numbered 0, 1 and 2;
    angles are in radians."""
    angles = require_vec3("quat_from_euler", e)
    _require_axes("quat_from_euler", i, j, k)
    first, second, third = (_axis_rotation(ops, _pick(ops, axis, angles.values), axis) for axis in (i, j, k))
    return Bundle(Quat(angles.dtype), algebra.quat_product(ops, third, algebra.quat_product(ops, second, first)))


def _pick(ops: Ops, index: Operand, values: Sequence[Value]) -> Value:
    """One of three values by an index that may be known."""
    x, y, z = values
    return choose(ops, ops.compare("eq", index, 0), x, choose(ops, ops.compare("eq", index, 1), y, z))


def _to_euler_ref(q: np.ndarray, i: Any, j: Any, k: Any) -> np.ndarray:
    """Return the angles of `_quat_to_euler`, computed with the arc cosine of the source."""
    i, j, k = int(i), int(j), int(k)
    proper = i == k
    k = 3 - i - j if proper else k
    sign = (i - j) * (j - k) * (k - i) / 2
    a, b, c, d = q[3], q[i], q[j], q[k] * sign
    if not proper:
        a, b, c, d = a - q[j], b + q[k] * sign, c + q[3], d - q[i]
    second = np.arccos(np.clip(2 * (a * a + b * b) / (a * a + b * b + c * c + d * d) - 1, -1, 1))
    total, difference = np.arctan2(b, a), np.arctan2(d, c)
    first, third = total - difference, total + difference
    if second < 1e-6:
        first, third = 0.0, 2 * total
    elif abs(second - np.pi) < 1e-6:
        first, third = 0.0, 2 * difference
    result = np.zeros(3)
    result[i], result[j], result[k] = first, second - (0 if proper else np.pi / 2), third * (1 if proper else sign)
    return result


@_angles.add("quat_to_euler(q: Quat, i: int, j: int, k: int) -> Vec3", in_double(_to_euler_ref), ulp=64)
def _quat_to_euler(ops: Ops, q: Operand, i: Operand, j: Operand, k: Operand) -> Bundle:
    """The angles about fixed axes, ordered by axis. If i, j and k differ, it is the inverse of quat_from_euler. If i is
    k, the third angle takes the place of the axis that is not named. In gimbal lock the first angle is 0, and
    derivatives are meaningless. (Bernardes and Viollet, Quaternion to Euler angles conversion, 2022.)"""
    quat = require_quat("quat_to_euler", q)
    _require_axes("quat_to_euler", i, j, k)
    proper = ops.compare("eq", i, k)
    k = _third_axis(ops, i, j, k, proper)
    sign = _orientation(ops, i, j, k, quat.dtype)
    first, second, third = _euler_angles(ops, quat, (i, j, k), proper, sign)
    tests = [(ops.compare("eq", i, n), ops.compare("eq", j, n)) for n in range(3)]
    values = [choose(ops, is_i, first, choose(ops, is_j, second, third)) for is_i, is_j in tests]
    return Bundle(Vec(3, quat.dtype), tuple(values))


def _third_axis(ops: Ops, i: Operand, j: Operand, k: Operand, proper: Value | bool) -> Operand:
    """The axis that is neither i nor j."""
    left = ops.binary("sub", ops.binary("sub", 3, i), j)
    return (left if proper else k) if isinstance(proper, bool) else ops.select(proper, left, ops.scalar(k))


def _orientation(ops: Ops, i: Operand, j: Operand, k: Operand, dtype: Scalar) -> Value:
    """1 where i, j, k go around, -1 where they go the other way."""
    pairs = [ops.binary("sub", a, b) for a, b in ((i, j), (j, k), (k, i))]
    product = ops.binary("mul", ops.binary("mul", pairs[0], pairs[1]), pairs[2])
    return ops.mul(0.5, ops.cast_scalar(dtype, product))


def _euler_angles(
    ops: Ops, q: Bundle, axes: tuple[Operand, ...], proper: Value | bool, sign: Value
) -> tuple[Value, Value, Value]:
    one, zero = ops.const(1.0, q.dtype), ops.const(0.0, q.dtype)
    tilted = choose(ops, proper, zero, one)
    w = q.values[3]
    qi, qj, qk = (_pick(ops, axis, q.values[:3]) for axis in axes)
    qk = ops.mul(qk, sign)
    a, b = ops.sub(w, ops.mul(tilted, qj)), ops.add(qi, ops.mul(tilted, qk))
    c, d = ops.add(qj, ops.mul(tilted, w)), ops.sub(qk, ops.mul(tilted, qi))
    second = ops.mul(2.0, ops.atan2(norm(ops, c, d), norm(ops, a, b)))
    total, difference = ops.atan2(b, a), ops.atan2(d, c)
    low, high = ops.lt(second, 1e-6), ops.gt(second, np.pi - 1e-6)
    locked = ops.call("logical_or", low, high)
    first = ops.call("select", locked, 0.0, ops.sub(total, difference))
    third = ops.call("select", high, ops.mul(2.0, difference), ops.add(total, difference))
    third = ops.call("select", low, ops.mul(2.0, total), third)
    second = ops.sub(second, ops.mul(tilted, np.pi / 2))
    return first, second, ops.mul(third, choose(ops, proper, one, sign))


ANGLE_FUNCTIONS: tuple[Function, ...] = tuple(_angles.functions)
