"""Quaternions, transforms and spatial vectors as types: constructors, parts, operators, arrays, on the host too."""

from __future__ import annotations

import copy
import linecache
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp

RNG = np.random.default_rng(7)


def matrix(q):
    """The 3 x 3 matrix of a unit quaternion, from the products of its components."""
    x, y, z, w = np.asarray(q, np.float64)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def motion(t):
    """The 4 x 4 matrix of a transform."""
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = matrix(t[3:]), t[:3]
    return result


def units(count, width=4, dtype=np.float32):
    values = RNG.normal(size=(count, width))
    values[:, -4:] /= np.linalg.norm(values[:, -4:], axis=-1, keepdims=True)
    return values.astype(dtype)


@wp.kernel
def compose(a: wp.array[wp.quat], b: wp.array[wp.quat], t: wp.array[wp.transform], u: wp.array[wp.transform],
            q: wp.array[wp.quat], m: wp.array[wp.transform]):  # fmt: skip
    i = wp.tid()
    q[i] = a[i] * b[i]
    m[i] = t[i] * u[i]


def test_products_are_those_of_matrices():
    a, b, t, u = units(5), units(5), units(5, 7), units(5, 7)
    q, m = wp.jax_kernel(compose, num_outputs=2)(a, b, t, u)
    assert q.shape == (5, 4)
    assert m.shape == (5, 7)
    for k in range(5):
        np.testing.assert_allclose(matrix(q[k]), matrix(a[k]) @ matrix(b[k]), atol=2e-6)
        np.testing.assert_allclose(motion(np.asarray(m[k])), motion(t[k]) @ motion(u[k]), atol=2e-6)
        np.testing.assert_allclose(wp.quat(*a[k]) * wp.quat(*b[k]), q[k], atol=1e-6)
        np.testing.assert_allclose(wp.transform(*t[k]) * wp.transform(*u[k]), m[k], atol=1e-6)


CONSTANT = wp.quatd(1.0, 2.0, 3.0, 4.0)


@wp.kernel
def makers(x: wp.array[wp.float64], out: wp.array2d[wp.float64]):
    s = x[0]
    v = wp.vec3d(s, s + 1.0, s + 2.0)
    zero, all_alike = wp.quatd(), wp.quatd(s)
    parts, named = wp.quatd(v, s), wp.quatd(real=s, ijk=v)
    one_by_one = wp.quatd(s, y=s + 1.0, w=s, z=s + 2.0)
    narrow = wp.quatd(wp.quat(0.5, 1.5, -2.5, 3.5))
    for k in range(4):
        out[0, k] = zero[k]
        out[1, k] = all_alike[k]
        out[2, k] = parts[k]
        out[3, k] = named[k]
        out[4, k] = one_by_one[k]
        out[5, k] = narrow[k]
        out[6, k] = CONSTANT[k]
    rest, moved, both = wp.transformd(), wp.transformd(v), wp.transformd(q=parts, p=v)
    seven = wp.transformd(s, s, s, s, s, s, s + 1.0)
    six = wp.spatial_vectord(v, -v)
    eye = wp.spatial_matrixd(s)
    for k in range(7):
        out[7, k] = rest[k]
        out[8, k] = moved[k]
        out[9, k] = both[k]
        out[10, k] = seven[k]
    for k in range(6):
        out[11, k] = six[k]
        out[12, k] = eye[k, k]


def test_constructors():
    with jax.enable_x64(True):
        (out,) = wp.jax_kernel(makers, output_dims=(13, 7), launch_dims=1)(jnp.array([2.0]))
    v = [2.0, 3.0, 4.0]
    expected = [[0.0] * 4, [2.0] * 4, [*v, 2.0], [*v, 2.0], [*v, 2.0], [0.5, 1.5, -2.5, 3.5], [1.0, 2.0, 3.0, 4.0],
                [0.0] * 7, [*v, 0.0, 0.0, 0.0, 1.0], [*v, *v, 2.0], [2.0] * 6 + [3.0], [*v, -2.0, -3.0, -4.0],
                [2.0] * 6]  # fmt: skip
    for row, values in zip(np.asarray(out), expected, strict=True):
        np.testing.assert_array_equal(row, np.pad(values, (0, 7 - len(values))))


@wp.kernel
def change(t: wp.array[wp.transform], turns: int, k: int, out: wp.array[wp.transform], total: wp.array[wp.transform],
           reads: wp.array[wp.vec4]):  # fmt: skip
    i = wp.tid()
    x = t[i]
    x.p.x = 7.0
    x.p += wp.vec3(0.0, 1.0, 0.0)
    x.q = x.q * wp.quat(0.0, 0.0, 1.0, 0.0)
    x.q.w *= 2.0
    x[k] = 5.0
    if x.p.y > 0.0:
        x = wp.transform(x.p, -x.q)
    for _ in range(turns):
        x.q = x.q * wp.quat(0.0, 1.0, 0.0, 0.0)
    out[i] = x
    out[i].p.z += 10.0
    out[i].q[3] += 20.0
    out[i].p = out[i].p * 2.0
    out[i].q[k - k] = 3.0
    total[0] += t[i]
    wp.atomic_add(total, 0, t[i])
    reads[i] = wp.vec4(t[i].q[k], t[i].q.w, t[i].p[k], float(len(x)))


def changed(t, turns, k):
    def product(a, b):
        return np.asarray(wp.quat(*a) * wp.quat(*b))

    x = t.copy()
    x[0] = 7.0
    x[1] += 1.0
    x[3:] = product(x[3:], [0, 0, 1, 0])
    x[6] *= 2.0
    x[k] = 5.0
    if x[1] > 0.0:
        x[3:] = -x[3:]
    for _ in range(turns):
        x[3:] = product(x[3:], [0, 1, 0, 0])
    x[2] += 10.0
    x[6] += 20.0
    x[:3] *= 2.0
    x[3] = 3.0
    return x


@pytest.mark.parametrize("turns", [0, 3])
def test_parts_are_read_and_written(turns):
    t = units(6, 7)
    dims = {"out": 6, "total": 1, "reads": 6}
    call = wp.jax_kernel(change, num_outputs=3, output_dims=dims, launch_dims=6)
    out, total, reads = call(jnp.asarray(t), turns, 1)
    np.testing.assert_allclose(out, [changed(row, turns, 1) for row in t], rtol=1e-6)
    np.testing.assert_allclose(total[0], 2 * t.sum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(reads, np.stack([t[:, 4], t[:, 6], t[:, 1], np.full(6, 7.0)], 1))
    arrays = [wp.zeros(n, dtype) for n, dtype in ((6, wp.transform), (1, wp.transform), (6, wp.vec4))]
    wp.launch(change, 6, [wp.array(t, wp.transform), turns, 1], arrays)
    for found, expected in zip(arrays, (out, total, reads), strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("turns", [0, 3])
def test_derivatives_go_through_parts(turns):
    call = wp.jax_kernel(change, num_outputs=3, output_dims={"out": 4, "total": 1, "reads": 4}, launch_dims=4)
    t, weights = units(4, 7), RNG.normal(size=(4, 7)).astype(np.float32)

    def loss(t):
        return jnp.sum(call(t, turns, 1)[0] * weights)

    gradient, eps = jax.grad(loss)(jnp.asarray(t)), 1e-2
    for place in ((0, 0), (1, 1), (2, 2), (3, 3), (0, 4), (1, 5), (2, 6)):
        step = np.zeros_like(t)
        step[place] = eps
        difference = (loss(t + step) - loss(t - step)) / (2 * eps)
        np.testing.assert_allclose(gradient[place], difference, rtol=1e-2, atol=1e-3)
    tangent = jax.jvp(loss, (jnp.asarray(t),), (jnp.asarray(weights),))[1]
    np.testing.assert_allclose(tangent, np.sum(np.asarray(gradient) * weights), rtol=1e-4)


@wp.func
def power(q: wp.types.quaternion(dtype=Any), n: int):
    result = type(q)(0.0, 0.0, 0.0, 1.0)
    for _ in range(n):
        result = result * q
    return result


@wp.kernel
def powers(q: wp.array[wp.types.quaternion(dtype=wp.Float)], n: int, out: wp.array[wp.types.quaternion(dtype=Any)],
           same: wp.array[int]):  # fmt: skip
    i = wp.tid()
    out[i] = power(q[i], n) / q.dtype.dtype(2.0) + q[i] - q[i] * q.dtype.dtype(1.0)
    if q[i] == q[0]:
        same[i] = 1
    if q[i] != q[0]:
        same[i] = 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_generic_functions(dtype):
    with jax.enable_x64(True):
        q = units(3, dtype=dtype)
        out, same = wp.jax_kernel(powers, num_outputs=2)(jnp.asarray(q), 2)
        assert out.dtype == dtype
        expected = [np.asarray(wp.quatd(*row) * wp.quatd(*row)) / 2.0 for row in q.astype(np.float64)]
        np.testing.assert_allclose(out, expected, atol={2: 4e-3, 4: 1e-6, 8: 1e-14}[np.dtype(dtype).itemsize])
        assert same.tolist() == [1, 2, 2]


def test_a_quaternion_by_value_and_in_batches():
    @wp.kernel
    def turn(q: wp.quat, t: wp.transform, out: wp.array[wp.quat]):
        out[wp.tid()] = q * t.q

    call = wp.jax_kernel(turn, launch_dims=1, output_dims=1)
    q, t = units(3), units(3, 7)
    one_by_one = np.stack([call(wp.quat(*a), wp.transform(*b))[0] for a, b in zip(q, t, strict=True)])
    np.testing.assert_array_equal(jax.vmap(lambda a, b: call(a, b)[0])(q, t), one_by_one)


def test_values_on_the_host():
    q = wp.quat(1.0, 2.0, 3.0, 4.0)
    assert (q.x, q.y, q.z, q.w) == (1.0, 2.0, 3.0, 4.0)
    q.w = 5.0
    assert q.tolist() == [1.0, 2.0, 3.0, 5.0]
    np.testing.assert_array_equal(2.0 * q + q / 0.5 - -q, 5 * np.asarray(q))
    assert wp.quat((1.0, 2.0, 3.0), 4.0).tolist() == wp.quat(ijk=(1.0, 2.0, 3.0), real=4.0).tolist()
    t = wp.transform(p=(1.0, 2.0, 3.0))
    assert t.tolist() == [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]
    assert wp.transform().tolist() == [0.0] * 6 + [1.0]
    assert (t * t).p.tolist() == [2.0, 4.0, 6.0]
    t.q = q
    assert t.q.w == 5.0
    for copied in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert (copied * copied).tolist() == (t * t).tolist()
    assert isinstance(q[1:3], wp.vec2)


def test_refused_on_the_host():
    q = wp.quat(1.0, 2.0, 3.0, 4.0)
    with pytest.raises(wp.KernelError, match=r"quat\[float32\] \* vec3\[float32\] is not defined"):
        q * wp.vec3(1.0)
    with pytest.raises(wp.KernelError, match=r"\+"):
        q + 1.0
    with pytest.raises(wp.KernelError, match="expected 0, 1 or 4 components, got 3"):
        wp.quat(1.0, 2.0, 3.0)
    with pytest.raises(wp.KernelError, match="cannot be made of 1 values and q, r"):
        wp.transform((1.0, 2.0, 3.0), q=q, r=1.0)
    with pytest.raises(wp.KernelError, match="must be floats, got int32"):
        wp.types.quaternion(dtype=int)


def refused(text):
    scope: dict[str, Any] = {"wp": wp}
    source = f"def k(q: wp.array[wp.quat], t: wp.array[wp.transform], v: wp.array[wp.vec4]):\n    {text}\n"
    file = f"<refused {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), scope)
    with pytest.raises(wp.KernelError) as caught:
        wp.kernel(scope["k"]).ir()
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q[0] = v[0]", "q holds quat[float32], got vec4[float32]"),
        ("v[0] = wp.vec4(q[0])", "vec4[float32]: expected a value of its shape, got quat[float32]"),
        ("v[0] = q[0] * v[0]", "use quat_rotate(q, v)"),
        ("q[0] = t[0] * q[0]", "is not defined"),
        ("q[0] = q[0] @ q[0]", "matmul"),
        ("q[0] = q[0] % q[0]", "mod"),
        ("q[0] = wp.min(q[0], q[0])", "expected numbers, vectors or matrices, got quat[float32]"),
        ("q[0] = wp.cw_mul(q[0], q[0])", "cw_mul: expected vectors or matrices of one type"),
        ("q[0] = wp.quat(1.0, 2.0, 3.0)", "expected 0, 1 or 4 components, got 3"),
        ("q[0] = wp.quat(wp.vec2(1.0), 1.0)", "cannot be made of vec2[float32] and the constant 1.0"),
        ("q[0] = wp.quat(x=1.0, q=2.0)", "cannot be made of 0 values and x, q"),
        ("t[0].p = q[0]", "expects value of type vec3[float32], got quat[float32]"),
        ("x = t[0]\n    x.q = x.p", "a part of transform[float32] is quat[float32], got vec3[float32]"),
        ("x = t[0].z", "transform[float32] has no attribute z"),
        ("x = q[0][4]", "index 4 is out of range for quat[float32]"),
        ("q[0] = q[0] < q[0]", "have no order"),
    ],
)
def test_refused(text, message):
    assert message in refused(text)
