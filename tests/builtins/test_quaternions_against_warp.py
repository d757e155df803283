"""Functions of quaternions, transforms and spatial vectors beside NVIDIA Warp's, where it is installed."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import jaxwarp

warp = pytest.importorskip("warp")

COUNT = 64
SOURCE = """\
def kernel(q: wp.array(dtype=wp.quat), r: wp.array(dtype=wp.quat), t: wp.array(dtype=wp.transform),
           s: wp.array(dtype=wp.transform), v: wp.array(dtype=wp.vec3), x: wp.array(dtype=wp.spatial_vector),
           y: wp.array(dtype=wp.spatial_vector), f: wp.array(dtype=float), o: wp.array2d(dtype=float)):
    i = wp.tid()
    axis, angle = wp.quat_to_axis_angle(q[i])
    direction = wp.normalize(v[i])
    m = wp.quat_to_matrix(q[i])
    placed = wp.transform_compose(v[i], q[i], wp.vec3(1.0, 2.0, 3.0))
    position, rotation, scale = wp.transform_decompose(placed)
    changed = t[i]
    wp.transform_set_translation(changed, v[i])
    wp.transform_set_rotation(changed, r[i])
    written_axis = wp.vec3()
    written_angle = float(0.0)
    wp.quat_to_axis_angle(r[i], written_axis, written_angle)
"""
# Expressions, by the number of their components.
EXPRESSIONS = {
    0: ["angle", "written_angle", "wp.quat_twist_angle(direction, q[i])", "wp.quat_twist_angle_signed(direction, q[i])",
        "wp.spatial_dot(x[i], y[i])", "wp.dot(q[i], r[i])", "wp.length(q[i] * f[i])"],
    3: ["axis", "written_axis", "m[0]", "m[1]", "m[2]", "position", "scale", "wp.quat_rotate(q[i], v[i])",
        "wp.quat_rotate_inv(q[i], v[i])", "wp.quat_to_rpy(q[i])", "wp.quat_to_euler(q[i], 0, 1, 2)",
        "wp.quat_to_euler(q[i], 1, 0, 2)", "wp.quat_to_euler(q[i], 2, 0, 2)", "wp.transform_point(t[i], v[i])",
        "wp.transform_point(placed, v[i])", "wp.transform_vector(placed, v[i])", "wp.transform_vector(t[i], v[i])",
        "wp.spatial_top(x[i])", "wp.spatial_bottom(x[i])", "wp.velocity_at_point(x[i], v[i])",
        "wp.transform_get_translation(t[i])"],
    4: ["rotation", "wp.quat_from_axis_angle(direction, f[i])", "wp.quat_from_matrix(m)", "wp.quat_inverse(q[i])",
        "wp.quat_rpy(f[i], v[i][0], v[i][1])", "wp.quat_slerp(q[i], r[i], f[i])", "wp.quat_slerp(q[i], q[i], f[i])",
        "wp.quat_twist(direction, q[i])", "wp.quat_from_euler(v[i], 0, 1, 2)", "wp.quat_from_euler(v[i], 2, 1, 2)",
        "q[i] * r[i]", "f[i] * q[i]", "q[i] / f[i]", "f[i] / q[i]", "-q[i]", "q[i] - r[i]", "wp.quat_identity()",
        "wp.normalize(q[i] * f[i])", "wp.lerp(q[i], r[i], f[i])", "wp.normalize(wp.quat())", "wp.quat(v[i], f[i])",
        "wp.transform_get_rotation(t[i])"],
    6: ["wp.spatial_cross(x[i], y[i])", "wp.spatial_cross_dual(x[i], y[i])", "wp.spatial_adjoint(m, m)[4]",
        "wp.transform_twist(t[i], x[i])", "wp.transform_wrench(t[i], x[i])", "wp.spatial_vector(v[i], -v[i])"],
    7: ["changed", "t[i] * s[i]", "wp.transform_inverse(t[i])", "t[i] * f[i]", "t[i] + s[i]",
        "wp.transform_from_matrix(wp.transform_to_matrix(t[i]))", "wp.lerp(t[i], s[i], f[i])", "wp.transform()",
        "wp.transform_identity()", "wp.transform(v[i])"],
}  # fmt: skip


def program() -> tuple[str, list[str]]:
    """The kernel's text, and the expression that each column of its result is a component of."""
    lines, columns = [], []
    for size, expressions in EXPRESSIONS.items():
        for expression in expressions:
            name = f"e{len(lines)}"
            lines.append(f"    {name} = {expression}")
            for k in range(size or 1):
                lines.append(f"    o[i, {len(columns)}] = {name}" + (f"[{k}]" if size else ""))
                columns.append(expression)
    return SOURCE + "\n".join(lines) + "\n", columns


def results(package, text, columns, inputs):
    file = f"<quaternions of {package.__name__}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {"wp": package, "__name__": __name__}
    exec(compile(text, file, "exec"), scope)
    types = [package.quat, package.quat, package.transform, package.transform, package.vec3, package.spatial_vector,
             package.spatial_vector, float]  # fmt: skip
    arrays = [package.array(a, dtype=t, device="cpu") for a, t in zip(inputs, types, strict=True)]
    out = package.zeros((COUNT, len(columns)), dtype=float, device="cpu")
    package.launch(package.kernel(scope["kernel"]), dim=COUNT, inputs=[*arrays, out], device="cpu")
    return out.numpy()


def test_values_are_those_of_warp():
    rng = np.random.default_rng(3)

    def units(width):
        values = rng.normal(size=(COUNT, width))
        values[:, -4:] /= np.linalg.norm(values[:, -4:], axis=-1, keepdims=True)
        return values.astype(np.float32)

    inputs = [units(4), units(4), units(7), units(7)]
    inputs += [rng.normal(size=(COUNT, n)).astype(np.float32) for n in (3, 6, 6)]
    inputs.append(rng.uniform(0.1, 1.0, COUNT).astype(np.float32))
    text, columns = program()
    ours, theirs = (results(package, text, columns, inputs) for package in (jaxwarp, warp))
    for k, expression in enumerate(columns):
        np.testing.assert_allclose(ours[:, k], theirs[:, k], rtol=2e-5, atol=2e-5, err_msg=expression)
