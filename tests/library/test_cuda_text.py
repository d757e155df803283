"""Structs, quaternions and every function of the library in CUDA: the text runs on the host, NVRTC takes it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hostcuda
import numpy as np
import pytest
from derivativekit import feed

import jaxwarp as wp
from jaxwarp.codegen.cuda import compile_cuda, nvrtc, print_cuda
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.library.names import LIBRARY
from jaxwarp.passes.pipeline import prepare
from jaxwarp.vjp.reverse.adjoint import adjoint

N = 9
WRITTEN = ("out", "turned", "lower", "solved", "meets")
KERNELS: dict[str, wp.Kernel] = {}


def case(kernel: wp.Kernel) -> wp.Kernel:
    KERNELS[kernel.name] = kernel
    return kernel


@wp.struct
class Body:
    pose: wp.transform
    mass: float
    forces: wp.array[wp.vec3]


@wp.struct
class Pair:
    first: Body
    count: int


@wp.func
def pushed(body: Body, i: int, dt: float):
    body.pose = wp.transform_multiply(body.pose, wp.transform(dt / body.mass * body.forces[i], wp.quat_identity()))
    return body


@case
@wp.kernel
def structs(pair: Pair, dt: float, out: wp.array[wp.vec3]):
    i = wp.tid()
    body = pushed(pair.first, i, dt)
    if i < pair.count:
        body.mass *= 2.0
    out[i] = wp.transform_point(body.pose, wp.vec3(body.mass, 0.0, 1.0))


@case
@wp.kernel
def quaternions(q: wp.array[wp.quat], v: wp.array[wp.vec3], out: wp.array[wp.vec3], turned: wp.array[wp.quat]):
    i = wp.tid()
    unit = wp.normalize(q[i])
    axis, angle = wp.quat_to_axis_angle(unit)
    half = wp.quat_slerp(wp.quat_from_axis_angle(axis, angle), wp.quat_from_matrix(wp.quat_to_matrix(unit)), 0.5)
    out[i] = wp.quat_rotate(half, v[i]) + wp.quat_rotate_inv(unit, v[i])
    turned[i] = wp.quat_inverse(unit) * wp.quat_rpy(0.1, 0.2, v[i][0]) * half


@case
@wp.kernel
def spatial(v: wp.array[wp.spatial_vector], w: wp.array[wp.spatial_vector], out: wp.array[wp.spatial_vector]):
    i = wp.tid()
    inertia = wp.spatial_matrix()
    for k in range(6):
        inertia[k, k] = float(k) + v[i][k]
    out[i] = inertia * wp.spatial_cross(v[i], w[i]) + wp.spatial_cross_dual(v[i], w[i])


@case
@wp.kernel
def decompositions(m: wp.array[wp.mat33], n: wp.array[wp.mat22], out: wp.array[wp.vec3], lower: wp.array[wp.mat33]):
    i = wp.tid()
    u, s, v = wp.svd3(m[i])
    _, t, _ = wp.svd2(n[i])
    q, r = wp.qr3(m[i])
    _, values = wp.eig3(m[i] + wp.transpose(m[i]))
    out[i] = s + values + wp.vec3(t[0], t[1], 0.0)
    lower[i] = q * r + u * wp.diag(s) * wp.transpose(v)


@case
@wp.kernel
def dense(a: wp.array2d[float], b: wp.array2d[float], solved: wp.array2d[float], lower: wp.array2d[float]):
    i = wp.tid()
    product = wp.zeros(9, dtype=float)
    wp.dense_gemm(3, 3, 3, 0, 1, a[i], a[i], product)
    wp.dense_chol(3, product, 1.0, lower[i])
    wp.dense_subs(3, lower[i], b[i], solved[i])
    found = wp.zeros(3, dtype=float)
    wp.dense_solve(3, product, lower[i], b[i], found)
    solved[i, 0] += found[2]


@case
@wp.kernel
def random(seed: int, cdf: wp.array[float], out: wp.array2d[float], counts: wp.array[wp.uint32]):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    counts[i] = wp.poisson(state, 3.0) + wp.uint32(wp.randi(state, 0, 10)) + wp.randu(state) % wp.uint32(7)
    out[i, 0] = wp.randf(state) + wp.randn(state) + float(wp.sample_cdf(state, cdf))
    plane = wp.sample_triangle(state) + wp.sample_unit_ring(state) + wp.sample_unit_disk(state)
    plane += wp.sample_unit_square(state)
    space = wp.sample_unit_sphere_surface(state) + wp.sample_unit_sphere(state) + wp.sample_unit_cube(state)
    space += wp.sample_unit_hemisphere_surface(state) + wp.sample_unit_hemisphere(state)
    out[i, 1] = plane[0] - plane[1]
    out[i, 2] = space[0] - space[1] + space[2]


@case
@wp.kernel
def noises(seed: int, at: wp.array[wp.vec3], out: wp.array[wp.vec3]):
    i = wp.tid()
    state = wp.rand_init(seed)
    p = at[i]
    moved = wp.curlnoise(state, p, wp.uint32(2), 2.0, 0.5)
    out[i] = moved + wp.vec3(wp.noise(state, p), wp.pnoise(state, wp.vec2(p[0], p[1]), 3, 4), wp.noise(state, p[2]))


@case
@wp.kernel
def special(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.erfinv(0.9 * x[i] - 0.45) + wp.erfcinv(0.1 + x[i])


@case
@wp.kernel
def rotations(a: wp.array[wp.vec3], b: wp.array[wp.vec3], out: wp.array[wp.vec3]):
    i = wp.tid()
    far = wp.quat_between_vectors(a[i], 0.3 * b[i] - a[i])
    out[i] = wp.quat_rotate(wp.quat_between_vectors(a[i], b[i]) * far, b[i])


@case
@wp.kernel
def searches(x: wp.array[float], ordered: wp.array[float], out: wp.array[int]):
    i = wp.tid()
    out[i] = wp.lower_bound(ordered, x[i]) + 100 * wp.bit_count(i * 77)


@case
@wp.kernel
def proximity(a: wp.array[wp.vec3], b: wp.array[wp.vec3], out: wp.array[wp.vec3], meets: wp.array[int]):
    i = wp.tid()
    n = a.shape[0]
    p, q, r = a[i], a[(i + 1) % n], a[(i + 2) % n]
    out[i] = wp.closest_point_edge_edge(p, q, b[i], b[(i + 1) % n], 1.0e-6)
    meets[i] = wp.intersect_tri_tri(p, q, r, b[i], b[(i + 1) % n], b[(i + 2) % n])


def test_every_function_of_the_library_is_here():
    text = ast.parse(Path(__file__).read_text())
    called = {node.attr for node in ast.walk(text) if isinstance(node, ast.Attribute)}
    assert {name for names in LIBRARY.values() for name in names} <= called


def operands(kernel: Kernel) -> list[np.ndarray]:
    """Numbers in [0, 1), in order where the name says so; integers are 5. Each extent that is free is N."""
    rng = np.random.default_rng(0)
    made = []
    for param in kernel.params:
        dtype, shape = param.dtype.numpy, [N if extent is None else extent for extent in param.shape]
        values = rng.random(shape) if dtype.kind == "f" else np.full(shape, 5)
        made.append((np.sort(values) if param.name in ("cdf", "ordered") else values).astype(dtype))
    return made


def run(execute: Callable[..., Any], kernel: Kernel, buffers: list[np.ndarray]) -> list[np.ndarray]:
    buffers = [b.copy() for b in buffers]
    execute(kernel, (N,), buffers)
    return buffers


def agree(kernel: Kernel, buffers: list[np.ndarray], tolerance: float) -> None:
    expected = run(interpret, kernel, buffers)
    assert any(not np.array_equal(a, b) for a, b in zip(buffers, expected, strict=True))
    for name, a, b in zip(kernel.params, run(hostcuda.run_host, kernel, buffers), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.abs(b).max()), err_msg=str(name))


@pytest.mark.parametrize("name", KERNELS)
def test_on_the_host(name: str):
    kernel = prepare(KERNELS[name].specialize())
    agree(kernel, operands(kernel), 2e-5)


@pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("name", KERNELS)
def test_nvrtc(name: str):
    (entry,) = compile_cuda(print_cuda(prepare(KERNELS[name].specialize())), (90,))
    assert entry.code.startswith(b"\x7fELF")


SMOOTH = ("structs", "quaternions", "spatial", "decompositions", "dense", "noises", "special", "rotations", "proximity")


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_on_the_host(name: str):
    kernel = KERNELS[name].specialize()
    wanted = [i for i, p in enumerate(kernel.params) if p.dtype.is_float and p.name not in WRITTEN]
    derived = adjoint(kernel, wanted)
    given = operands(kernel)
    cotangents = {i: np.cos(np.arange(b.size, dtype=b.dtype)).reshape(b.shape) for i, b in enumerate(given)}
    agree(prepare(derived.kernel), feed(derived, given, cotangents), 2e-4)
