"""Functions of quaternions. Components are x, y, z, w; those that turn vectors expect unit quaternions, as in Warp.

Where a result has no derivative (the axis of no rotation), the docs say what comes out; everything that is smooth in
the quaternion has its derivatives everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxwarp.builtins.language import algebra
from jaxwarp.builtins.language.function import Function, FunctionTable, require_float
from jaxwarp.builtins.language.ops import Ops
from jaxwarp.builtins.language.smooth import angle_ratio, norm, sinc_and_cos
from jaxwarp.builtins.language.values import Bundle, Operand, describe
from jaxwarp.errors import KernelTypeError
from jaxwarp.ir.nodes import Value
from jaxwarp.quaternions import IDENTITY_ROTATION, HostValue, quat_product, quat_rotated
from jaxwarp.types import SCALAR_BY_DTYPE, Aggregate, Mat, Quat, Scalar, Vec, as_dtype, float32

_quaternions = FunctionTable("Quaternions")

Ref = Callable[..., Any]


def require_one(name: str, what: str, a: Any, *kinds: Callable[[Any], Aggregate]) -> Bundle:
    """A value of a type that one of `kinds` makes of its scalar type, such as `Quat`.

    Raises:
        KernelTypeError: it is none.
    """
    if not (isinstance(a, Bundle) and any(a.type == kind(a.dtype) for kind in kinds)):
        raise KernelTypeError(f"{name}: expected {what}, got {describe(a)}")
    require_float(name, a.dtype)
    return a


def vec3(dtype: Any) -> Vec:
    return Vec(3, dtype)


def require_quat(name: str, a: Any) -> Bundle:
    return require_one(name, "a quaternion", a, Quat)


def require_vec3(name: str, a: Any) -> Bundle:
    return require_one(name, "a vector of 3 floats", a, vec3)


def require_like(name: str, first: Bundle, *others: Any) -> None:
    """Raises unless all have the first one's scalar type."""
    for other in others:
        if other.dtype != first.dtype:
            raise KernelTypeError(f"{name}: the arguments have types {first.type} and {other.type}")


def in_double(fn: Callable[..., Any], kind: Callable[[Any], Any] | None = None) -> Ref:
    """A reference that computes in float64 and gives the type of its first array; `kind` makes the result's type."""

    def rounded(value: Any, dtype: np.dtype) -> Any:
        if isinstance(value, tuple):
            return tuple(rounded(v, dtype) for v in value)
        made = np.asarray(value, np.float64).astype(dtype)
        return HostValue.of(kind(SCALAR_BY_DTYPE[dtype]), made) if kind is not None else made[()]

    def ref(*args: Any) -> Any:
        arrays = [np.asarray(a) for a in args]
        dtype = next(a.dtype for a in arrays if a.dtype.kind == "f")
        return rounded(fn(*(a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays)), dtype)

    return ref


def float_dtype(name: str, dtype: Any) -> Scalar:
    """The scalar type that `dtype=` names, float32 without it."""
    scalar = float32 if dtype is None else as_dtype(dtype)
    if not isinstance(scalar, Scalar) or not scalar.is_float:
        raise KernelTypeError(f"{name}: dtype must be a float type, got {scalar}")
    return scalar


def made_of(
    ops: Ops, name: str, kind: Callable[[Any], Aggregate], args: Sequence[Operand], dtype: Any, named: dict[str, Any]
) -> Bundle:
    """A value from the arguments of its constructor, of `dtype` or of their scalar type."""
    for a in (*args, *named.values()):
        if dtype is None and isinstance(a, (Value, Bundle)):
            dtype = a.type if isinstance(a, Value) else a.dtype
    t = kind(float_dtype(name, dtype))
    return ops.construct(t, t.arguments(tuple(args), named))


def host_made_of(kind: Callable[[Any], Aggregate]) -> Ref:
    """The same on the host."""

    def ref(*args: Any, dtype: Any = None, **named: Any) -> Any:
        values = (*args, *named.values())
        known = [a.dtype for a in values if isinstance(a, np.ndarray | np.generic) and a.dtype.kind == "f"]
        return kind(as_dtype(dtype) if dtype is not None else SCALAR_BY_DTYPE[known[0]] if known else float32)(
            *args, **named
        )

    return ref


@_quaternions.add("quaternion(x: Float, y: Float, z: Float, w: Float, dtype: type = ...) -> Quat", host_made_of(Quat))
def _quaternion(ops: Ops, *args: Operand, dtype: Any = None, **named: Operand) -> Bundle:
    """A quaternion of four components, or of a vector and w. Another quaternion is converted. No component means
    zeros."""
    return made_of(ops, "quaternion", Quat, args, dtype, named)


@_quaternions.add("quat_identity(dtype: type = float32) -> Quat",
                  lambda dtype=None: Quat(float_dtype("quat_identity", dtype))(*IDENTITY_ROTATION))  # fmt: skip
def _quat_identity(ops: Ops, dtype: Any = None) -> Bundle:
    """The rotation that turns nothing: (0, 0, 0, 1)."""
    return ops.construct(Quat(float_dtype("quat_identity", dtype)), IDENTITY_ROTATION)


def _axis_angle_ref(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return np.append(axis * np.sin(angle / 2), np.cos(angle / 2))


@_quaternions.add("quat_from_axis_angle(axis: Vec3, angle: Float) -> Quat", in_double(_axis_angle_ref, Quat), ulp=4)
def _quat_from_axis_angle(ops: Ops, axis: Operand, angle: Operand) -> Bundle:
    """The rotation by an angle in radians about a unit axis."""
    direction = require_vec3("quat_from_axis_angle", axis)
    half = ops.mul(0.5, ops.scalar(angle, direction.dtype))
    sine = ops.sin(half)
    return Bundle(Quat(direction.dtype), (*(ops.mul(x, sine) for x in direction.values), ops.cos(half)))


def _to_axis_angle_ref(q: np.ndarray) -> tuple[Any, Any]:
    v, w = (-q[:3], -q[3]) if q[3] < 0 else (q[:3], q[3])
    length = np.linalg.norm(v)
    return v / (length or 1.0), 2 * np.arctan2(length, w)


@_quaternions.add(
    "quat_to_axis_angle(quat: Quat) -> tuple[Vec3, Float]",
    in_double(_to_axis_angle_ref),
    ulp=8,
    writes=(1, 2),
    reads=1,
    targets=("axis", "angle"),
)
def _quat_to_axis_angle(ops: Ops, quat: Operand) -> tuple[Bundle, Value]:
    """The axis and the angle, from 0 to pi, of a rotation. Pass two more variables to assign the results to them. For
    the identity the axis is zero, and derivatives are 0. Half a turn has two axes; derivatives there are those for w >
    0."""
    q = require_quat("quat_to_axis_angle", quat)
    *v, w = q.values
    length = norm(ops, *v)
    proper = ops.gt(length, 0.0)
    divisor = ops.call("select", proper, length, 1.0)
    signed = ops.call("select", ops.lt(w, 0.0), ops.neg(divisor), divisor)
    axis = [ops.call("select", proper, ops.div(x, signed), 0.0) for x in v]
    angle = ops.mul(2.0, ops.atan2(length, ops.call("abs", w)))
    return Bundle(Vec(3, q.dtype), tuple(axis)), angle


def from_matrix_ref(m: np.ndarray) -> np.ndarray:
    """The eigenvector of the largest eigenvalue of Bar-Itzhack's matrix, with the sign of the largest component."""
    m = m[:3, :3]
    k = np.empty((4, 4))
    k[:3, :3] = m + m.T - np.trace(m) * np.eye(3)
    k[3, :3] = k[:3, 3] = (m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1])
    k[3, 3] = np.trace(m)
    q = np.linalg.eigh(k)[1][:, -1]
    leading = 3 if np.trace(m) >= 0 else int(np.argmax(np.diag(m)))
    return q * np.sign(q[leading])


@_quaternions.add("quat_from_matrix(mat: Mat33 | Mat44) -> Quat", in_double(from_matrix_ref, Quat), ulp=8)
def quat_from_matrix(ops: Ops, mat: Operand) -> Bundle:
    """The rotation of a rotation matrix, or of the upper left part of a matrix of 4 rows. If the trace is not negative,
    w >= 0. Otherwise the component of largest magnitude is positive."""
    matrix = require_one("quat_from_matrix", "a matrix of 3 or 4 rows", mat, *(_square(n) for n in (3, 4)))
    return normalized(ops, Quat(matrix.dtype), _largest_row(ops, matrix))


def _square(n: int) -> Callable[[Any], Mat]:
    return lambda dtype: Mat(n, n, dtype)


def _largest_row(ops: Ops, matrix: Bundle) -> list[Value]:
    """One of the rows of 4 q q^T (Shepperd, 1978), whose entries are sums of the matrix's: the row of a component that
    is not small. Each is the quaternion times a number, so no root of a number near 0 is taken, nor differentiated."""
    (m00, m01, m02), (m10, m11, m12), (m20, m21, m22) = (row[:3] for row in matrix.rows[:3])
    add, sub, one = ops.add, ops.sub, ops.const(1.0, matrix.dtype)
    x, y, z = sub(m21, m12), sub(m02, m20), sub(m10, m01)
    xy, xz, yz = add(m01, m10), add(m02, m20), add(m12, m21)
    trace = add(add(m00, m11), m22)
    rows = [
        [x, y, z, add(one, trace)],
        [add(one, sub(sub(m00, m11), m22)), xy, xz, x],
        [xy, add(one, sub(sub(m11, m00), m22)), yz, y],
        [xz, yz, add(one, sub(sub(m22, m00), m11)), z],
    ]
    second = ops.gt(m11, m00)
    third = ops.gt(m22, ops.call("select", second, m11, m00))
    tests = (ops.ge(trace, 0.0), third, second)
    chosen = rows[1]
    for test, row in zip(reversed(tests), (rows[2], rows[3], rows[0]), strict=True):
        chosen = [ops.call("select", test, a, b) for a, b in zip(row, chosen, strict=True)]
    return chosen


def normalized(ops: Ops, t: Quat, values: Sequence[Value]) -> Bundle:
    """A quaternion of length 1; the identity for zero."""
    length = norm(ops, *values)
    proper = ops.gt(length, 0.0)
    divisor = ops.call("select", proper, length, 1.0)
    pairs = zip(values, IDENTITY_ROTATION, strict=True)
    return Bundle(t, tuple(ops.call("select", proper, ops.div(x, divisor), e) for x, e in pairs))


@_quaternions.add("quat_inverse(quat: Quat) -> Quat", in_double(lambda q: q * [-1, -1, -1, 1], Quat))
def _quat_inverse(ops: Ops, quat: Operand) -> Bundle:
    """The conjugate. It is the inverse of a unit quaternion."""
    q = require_quat("quat_inverse", quat)
    return Bundle(q.type, (*(ops.neg(x) for x in q.values[:3]), q.values[3]))


@_quaternions.add("quat_rotate(quat: Quat, vec: Vec3) -> Vec3", in_double(quat_rotated), ulp=16)
def _quat_rotate(ops: Ops, quat: Operand, vec: Operand) -> Bundle:
    """Rotate a vector by a unit quaternion."""
    return _rotated(ops, "quat_rotate", quat, vec, backwards=False)


@_quaternions.add(
    "quat_rotate_inv(quat: Quat, vec: Vec3) -> Vec3",
    in_double(lambda q, v: quat_rotated(q * [-1, -1, -1, 1], v)),
    ulp=16,
)
def _quat_rotate_inv(ops: Ops, quat: Operand, vec: Operand) -> Bundle:
    """Rotate a vector by the inverse of a unit quaternion."""
    return _rotated(ops, "quat_rotate_inv", quat, vec, backwards=True)


def _rotated(ops: Ops, name: str, quat: Operand, vec: Operand, *, backwards: bool) -> Bundle:
    q, v = require_quat(name, quat), require_vec3(name, vec)
    require_like(name, q, v)
    return Bundle(v.type, algebra.quat_rotated(ops, q.values, v.values, backwards=backwards))


def _slerp_ref(a: np.ndarray, b: np.ndarray, t: Any) -> np.ndarray:
    axis, angle = _to_axis_angle_ref(quat_product(a * [-1, -1, -1, 1], b))
    return quat_product(a, _axis_angle_ref(axis, t * angle))


@_quaternions.add("quat_slerp(a: Quat, b: Quat, t: Float) -> Quat", in_double(_slerp_ref, Quat), ulp=32)
def _quat_slerp(ops: Ops, a: Operand, b: Operand, t: Operand) -> Bundle:
    """The rotation at the fraction t of the shorter way from a to b, at constant speed (spherical linear
    interpolation). It has derivatives where a and b are equal, too. Half a turn apart there are two ways, and it takes
    one of them."""
    start, end = require_quat("quat_slerp", a), require_quat("quat_slerp", b)
    require_like("quat_slerp", start, end)
    fraction = ops.scalar(float(t) if isinstance(t, int) else t, start.dtype)
    *u, w = start.values
    *v, c = algebra.quat_product(ops, (*(ops.neg(x) for x in u), w), end.values)
    # (v, c) with c >= 0 is (axis sin h, cos h), and its power t (axis sin(t h), cos(t h)): with r = h / |v|,
    # axis sin(t h) = v t r sin(x) / x where x = t h, and x x = t t |v|^2 r r.
    backwards = ops.lt(c, 0.0)
    v = [ops.call("select", backwards, ops.neg(x), x) for x in v]
    square = algebra.dot(ops, v, v)
    scaled = ops.mul(fraction, angle_ratio(ops, square, ops.call("select", backwards, ops.neg(c), c)))
    sinc, cosine = sinc_and_cos(ops, ops.mul(square, ops.mul(scaled, scaled)))
    factor = ops.mul(scaled, sinc)
    return Bundle(start.type, algebra.quat_product(ops, start.values, (*(ops.mul(x, factor) for x in v), cosine)))


@_quaternions.add("quat_to_matrix(quat: Quat) -> Mat33",
                  in_double(lambda q: np.stack([quat_rotated(q, e) for e in np.eye(3)], 1)), ulp=8)  # fmt: skip
def _quat_to_matrix(ops: Ops, quat: Operand) -> Bundle:
    """The rotation matrix of a unit quaternion."""
    q = require_quat("quat_to_matrix", quat)
    return Bundle(Mat(3, 3, q.dtype), rotation_matrix(ops, q.values))


def rotation_matrix(ops: Ops, q: Sequence[Value]) -> tuple[Value, ...]:
    """The matrix of `quat_rotated`, row by row: (2 w w - 1) I + 2 u u^T + 2 w [u]."""
    *u, w = q
    kept = ops.sub(ops.mul(2.0, ops.mul(w, w)), 1.0)
    turns = [ops.mul(ops.mul(2.0, w), x) for x in u]
    rows = []
    for i in range(3):
        for j in range(3):
            entry = ops.mul(2.0, ops.mul(u[i], u[j]))
            if i == j:
                rows.append(ops.add(entry, kept))
            else:
                rows.append(ops.call("sub" if (j - i) % 3 == 1 else "add", entry, turns[3 - i - j]))
    return tuple(rows)


QUATERNION_FUNCTIONS: tuple[Function, ...] = tuple(_quaternions.functions)
