"""Derivatives of builtins and functions of the library where code takes another way: at 0, at equal operands, at ties.

Where a function is differentiable along a direction, as differences from both sides show, both modes give that slope.
Where it has a kink, they give a slope between those of its two sides, or what the page of builtins says.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from language import define

import jaxwarp as wp
from jaxwarp.types import float64 as F
from tests.slopekit import check_slopes

PARTS = """
    s, t, w = x[i, 0], x[i, 1], x[i, 2]
    v, u = wp.vec3d(s, t, w), wp.vec3d(x[i, 3], x[i, 4], x[i, 5])
    n, p = wp.vec3d(x[i, 6], x[i, 7], x[i, 8]), wp.vec3d(x[i, 9], x[i, 10], x[i, 11])
    q, r = wp.quatd(s, t, w, x[i, 3]), wp.quatd(x[i, 4], x[i, 5], x[i, 6], x[i, 7])
    m, d = wp.matrix_from_rows(v, u, n), wp.mat22d(s, t, w, x[i, 3])
    weights, turn = wp.vec3d(F(1.0), F(-0.6), F(0.4)), wp.quatd(F(0.3), F(-0.5), F(0.9), F(0.7))
"""
EXPRESSIONS = {
    "scalars": [
        *("s * t", "wp.abs(s)", "wp.sign(s) * t", "wp.min(s, t)", "wp.max(s, t)", "wp.min(s, wp.min(t, w))"),
        *("wp.clamp(s, t, w)", "wp.clamp(s, F(0.0), F(1.0))", "wp.where(s < t, s, t)", "wp.lerp(s, t, w)"),
        *("wp.smoothstep(F(0.0), F(1.0), s)", "wp.frac(s) * t", "wp.copysign(s, F(-1.5))", "wp.step(s) * s"),
        *("s / (t + F(2.0))", "wp.mod(s, F(0.7))", "wp.floor(s + F(0.3)) * t", "wp.fma(s, t, w)"),
    ],
    "elementary": [
        *("wp.sqrt(s * s + F(1.0))", "wp.cbrt(s + F(2.0))", "wp.exp(s)"),
        *("wp.expm1(s)", "wp.log1p(s * s)", "wp.log(s + F(2.0))"),
        *("wp.sin(s)", "wp.tan(s)", "wp.asin(F(0.25) * s)"),
        *("wp.acos(F(0.25) * s)", "wp.atan(s)", "wp.sinh(s)", "wp.tanh(s)"),
        *("wp.asinh(s)", "wp.atanh(F(0.25) * s)", "wp.erf(s)"),
        *("wp.erfc(s)", "wp.erfinv(F(0.25) * s)", "wp.erfcinv(F(1.0) + F(0.25) * s)"),
        *("wp.pow(s, F(2.0))", "wp.pow(s, F(1.0))", "wp.pow(s, F(3.0))"),
        *("wp.pow(s, F(0.0))", "wp.pow(F(2.0), s)", "wp.pow(s + F(2.0), t)"),
        *("wp.atan2(s, F(1.0))", "wp.atan2(s, t + F(0.25))", "wp.cosh(s)", "wp.log2(s + F(2.0))", "wp.exp2(s)"),
    ],
    "vectors": [
        *("wp.dot(v, u)", "wp.length(v)", "wp.length(v - u)", "wp.length_sq(v)", "wp.norm_l1(v)", "wp.norm_huber(v)"),
        *("wp.norm_pseudo_huber(v)", "wp.dot(weights, wp.smooth_normalize(v))", "wp.dot(weights, wp.cross(v, u))"),
        *("wp.min(v)", "wp.max(v)", "wp.min(v, u)[1]", "wp.max(v, u)[1]"),
        *("wp.dot(weights, wp.normalize(v + weights))", "wp.clamp(v, u, n)[1]", "wp.length(wp.cw_mul(v, u))"),
        *("wp.dot(v, wp.normalize(v))", "wp.closest_point_edge_edge(v, u, n, p, F(1.0e-6))[2]"),
    ],
    "matrices": [
        *("wp.determinant(m)", "wp.determinant(d)"),
        *("wp.trace(m)", "wp.dot(weights, wp.inverse(m + wp.diag(weights)) * v)"),
        *("wp.ddot(m, m)", "wp.dot(weights, wp.outer(v, u) * n)", "wp.dot(weights, wp.skew(v) * u)"),
    ],
    "decompositions": [
        "wp.svd3(m)[1][0] + wp.svd3(m)[1][1] + wp.svd3(m)[1][2]",
        "wp.svd2(d)[1][0]",
        "wp.eig3(m + wp.transpose(m))[1][0]",
        "wp.qr3(m)[1][0, 0]",
    ],
    "quaternions": [
        *("wp.dot(weights, wp.quat_rotate(q, u))", "wp.dot(turn, wp.quat_inverse(q))", "wp.dot(turn, q * r)"),
        *("wp.dot(turn, wp.normalize(q + turn))", "wp.dot(turn, wp.quat_from_axis_angle(v, w))"),
        *("wp.dot(weights, wp.quat_to_matrix(q) * u)", "wp.dot(turn, wp.quat_rpy(s, t, w))"),
        *("wp.dot(weights, wp.quat_to_axis_angle(turn * q)[0])", "wp.quat_to_axis_angle(turn * q)[1]"),
        "wp.dot(turn, wp.quat_slerp(wp.normalize(q), wp.normalize(turn + r), w))",
        "wp.dot(turn, wp.quat_slerp(turn, turn * wp.normalize(q), F(0.3)))",
        "wp.dot(weights, wp.quat_to_rpy(wp.normalize(q)))",
        *("wp.dot(turn, wp.quat_between_vectors(weights, u))", "wp.quat_twist_angle_signed(weights, turn * q)"),
    ],
    "noise in single precision": [
        "F(wp.noise(wp.uint32(7), wp.vec2(float(s), float(t))))",
        "F(wp.pnoise(wp.uint32(7), wp.vec2(float(s), float(t)), 3, 2))",
        "F(wp.curlnoise(wp.uint32(7), wp.vec2(float(s), float(t)))[0])",
    ],
}
"""Of numbers `x[i, 0]`, ..., `x[i, 11]`, also as three vectors, quaternions and matrices of them."""

HALF = np.array([0.3, -0.4, 0.2, 0.6, 0.1, -0.3])
POINTS = np.array(
    [
        np.zeros(12),
        np.ones(12),
        np.full(12, 0.5),
        np.full(12, -0.5),
        np.tile(HALF, 2),
        np.tile(HALF[:3], 4),
        np.eye(12)[0],
        np.eye(12)[1],
        np.tile([0.0, 0.0, 0.0, 1.0], 3),
        np.tile([0.0, 0.0, 0.0, -1.0], 3),
        [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
        [2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
        [0.0, 0.7, 0.0, -0.2, 0.0, 0.0, 0.4, 0.0, 0.0, 0.3, 0.0, -0.9],
        [0.3, 0.0, -0.4, 0.2, 0.0, 0.6, 0.0, 0.5, 0.0, 0.0, -0.3, 0.0],
    ]
)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def function(expressions: list[str]) -> Any:
    stores = "".join(f"    y[i, {k}] = {text}\n" for k, text in enumerate(expressions))
    head = "@wp.kernel\ndef k(x: wp.array2d[F], y: wp.array2d[F]):\n    i = wp.tid()\n"
    scope = define(head + PARTS.strip("\n") + "\n" + stores, F=F)
    call = wp.jax_kernel(scope["k"], launch_dims=len(POINTS), output_dims=(len(POINTS), len(expressions)))
    return lambda x: call(x)[0]


def directions() -> np.ndarray:
    return np.concatenate([np.eye(12), np.random.default_rng(3).standard_normal((3, 12))])


@pytest.mark.parametrize("group", EXPRESSIONS)
def test_slopes(group):
    expressions = EXPRESSIONS[group]
    eps, accuracy = (2e-4, 3e-2) if "single" in group else (2e-7, 2e-5)
    check_slopes(function(expressions), POINTS, directions(), eps=eps, accuracy=accuracy, names=expressions)
