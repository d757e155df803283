"""Structs in kernels: made, read, changed, passed on; and that a kernel with them is the one without."""

# ruff: noqa: B007, RET504, RUF046, UP018  (the text of kernels)

from __future__ import annotations

import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from language import outputs, run

import jaxwarp as wp
from jaxwarp.errors import KernelError

F = np.float32


@wp.struct
class Spring:
    rest: wp.vec3
    stiffness: float = 2.0


@wp.struct
class Body:
    mass: float
    x: wp.array[wp.vec3]
    spring: Spring
    out: wp.array[float]


def shape_of_ir(kernel: wp.Kernel) -> str:
    """A kernel's IR, with names of values and parameters numbered as they come."""
    text = str(kernel.ir()).replace(f"kernel {kernel.name}", "kernel k")
    numbers: dict[str, str] = {}
    return re.sub(r"[%@][\w.]+", lambda m: numbers.setdefault(m.group(0), f"{m.group(0)[0]}{len(numbers)}"), text)


@wp.func
def force(b: Body, i: int):
    return (b.x[i] - b.spring.rest) * b.spring.stiffness / b.mass


@wp.func
def force_apart(mass: float, x: wp.array[wp.vec3], rest: wp.vec3, stiffness: float, i: int):
    return (x[i] - rest) * stiffness / mass


@wp.kernel
def together(b: Body, n: int):
    i = wp.tid()
    b.mass = b.mass + 1.0
    if b.x[i][0] > 0.5:
        b.spring.stiffness = b.spring.stiffness * 3.0
    for j in range(n):
        b.mass += 0.5
        b.out[i] = float(j)
        if b.mass > 4.0:
            break
    b.spring.rest[1] = b.mass
    b.spring.rest.z += 2.0
    b.out[i] += wp.length(force(b, i))


@wp.kernel
def apart(mass_: float, x: wp.array[wp.vec3], rest_: wp.vec3, stiffness_: float, out: wp.array[float], n: int):
    i = wp.tid()
    mass = mass_ + 1.0
    rest = rest_
    stiffness = stiffness_
    if x[i][0] > 0.5:
        stiffness = stiffness * 3.0
    for j in range(n):
        mass += 0.5
        out[i] = float(j)
        if mass > 4.0:
            break
    rest[1] = mass
    rest.z += 2.0
    out[i] += wp.length(force_apart(mass, x, rest, stiffness, i))


def test_a_kernel_with_structs_is_the_kernel_with_separate_arguments():
    assert shape_of_ir(together) == shape_of_ir(apart)
    names = [p.name for p in together.ir().params]
    assert names == ["b.mass", "b.x", "b.spring.rest", "b.spring.stiffness", "b.out", "n"]


def test_its_results():
    x = np.arange(9, dtype=F).reshape(3, 3) / 5
    arguments = (1.5, x, np.array([1, 2, 3], F), 2.0, np.zeros(3, F), 1)
    np.testing.assert_array_equal(run(together, 3, *arguments)[4], run(apart, 3, *arguments)[4])


@wp.kernel
def array_together(a: wp.array[Spring], b: wp.array2d[Spring]):
    i = wp.tid()
    s = a[i]
    s.stiffness += 1.0
    b[i, 0] = s
    b[i, 1].rest = a[-1].rest + s.rest
    b[i, 1].rest.y = float(a.shape[0])
    b[i, 1].rest[2] += 1.0
    b[0, 1].stiffness += a[i].stiffness
    wp.atomic_add(b.stiffness, 1, 1, 2.0)


@wp.kernel
def array_apart(
    rest: wp.array[wp.vec3], stiffness: wp.array[float], b_rest: wp.array2d[wp.vec3], b_stiffness: wp.array2d[float]
):
    i = wp.tid()
    r = rest[i]
    k = stiffness[i]
    k += 1.0
    b_rest[i, 0] = r
    b_stiffness[i, 0] = k
    b_rest[i, 1] = rest[-1] + r
    b_rest[i, 1].y = float(rest.shape[0])
    b_rest[i, 1][2] += 1.0
    b_stiffness[0, 1] += stiffness[i]
    wp.atomic_add(b_stiffness, 1, 1, 2.0)


def test_an_array_of_structs_is_an_array_for_each_field():
    rest, stiffness = np.arange(9, dtype=F).reshape(3, 3), np.array([1, 2, 3], F)
    arguments = (rest, stiffness, np.zeros((3, 2, 3), F), np.zeros((3, 2), F))
    for got, expected in zip(run(array_together, 3, *arguments), run(array_apart, 3, *arguments), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_assignment_copies():
    @wp.kernel
    def k(out: wp.array[float]):
        s = Spring()
        t = s
        t.stiffness = 5.0
        t.rest.x = 1.0
        u = t
        u.rest = wp.vec3(7.0)
        out[0] = s.stiffness + s.rest.x
        out[1] = t.stiffness + t.rest.x
        out[2] = u.rest.x

    np.testing.assert_array_equal(outputs(k, 1, np.zeros(3)), [2.0, 6.0, 7.0])


def test_functions_get_copies_and_return_structs():
    @wp.func
    def stiffer(s: Spring, by: float = 1.0) -> Spring:
        s.stiffness += by
        return s

    @wp.func
    def both(a: Any, b: Any):
        return Spring(a.rest + b.rest, stiffness=a.stiffness * b.stiffness)

    @wp.func
    def larger(a: Spring, b: Spring):
        if a.stiffness > b.stiffness:
            return a
        return b

    @wp.kernel
    def k(out: wp.array[float]):
        i = wp.tid()
        s = Spring(wp.vec3(1.0, 2.0, 3.0))
        t = stiffer(stiffer(s), by=float(i))
        u = both(s, t)
        out[0] = s.stiffness
        out[1] = t.stiffness
        out[2] = u.stiffness + u.rest.z
        out[3] = larger(s, u).rest.y

    np.testing.assert_array_equal(outputs(k, 1, np.zeros(4)), [2.0, 3.0, 12.0, 4.0])


def test_slices_of_fields_and_quaternions():
    @wp.struct
    class Pose:
        q: wp.quat
        m: wp.mat33

    @wp.kernel
    def k(p: Pose, out: wp.array[float]):
        p.m[1, 0:2] = wp.vec2(1.0, 2.0)
        p.q.w = p.m[1, 1]
        p.q[0] = 5.0
        out[0] = p.m[1, 0] + p.q.w + p.q.x + p.q[1]

    np.testing.assert_array_equal(outputs(k, 1, np.full(4, 0.5), np.zeros((3, 3)), np.zeros(1)), [8.5])


def test_changed_in_branches_and_loops():
    @wp.func
    def until(s: Spring, n: int):
        for i in range(n):
            s.stiffness += 1.0
            if s.stiffness > 4.0:
                return s
            s.rest[1] += 2.0
        return s

    @wp.kernel
    def k(a: wp.array[float], out: wp.array2d[float]):
        i = wp.tid()
        s = Spring()
        if a[i] > 0.0:
            s = Spring(wp.vec3(a[i]), 1.0)
        elif a[i] < -1.0:
            s.rest.x = -1.0
        n = int(0)
        while n < 3:
            s.rest.z += 1.0
            n += 1
        t = until(s, 20)
        u = s if a[i] > 0.5 else t
        out[i, 0] = t.stiffness
        out[i, 1] = t.rest.y
        out[i, 2] = u.rest.z + u.rest.x
        out[i, 3] = u.stiffness

    found = outputs(k, 3, np.array([2.0, -0.5, -2.0]), np.zeros((3, 4)))
    np.testing.assert_array_equal(found, [[5.0, 8.0, 7.0, 1.0], [5.0, 4.0, 3.0, 5.0], [5.0, 4.0, 2.0, 5.0]])


def test_a_loop_carries_only_what_it_changes():
    @wp.kernel
    def k(b: Body, n: int):
        i = wp.tid()
        for j in range(n):
            b.out[i] = b.out[i] + b.mass * b.spring.stiffness
            b.spring.rest.x += 1.0
        b.out[i] += b.spring.rest.x

    (loop,) = [line for line in str(k.ir()).splitlines() if "for " in line]
    assert loop.count("=") == 3  # the components of b.spring.rest


def test_arrays_in_structs_may_be_assigned_and_chosen_by_what_is_known():
    @wp.kernel
    def k(b: Body, other: wp.array[wp.vec3], out: wp.array[float]):
        i = wp.tid()
        c = Body(mass=1.0)
        c.x = other
        d = b
        if wp.static(True):
            d.x = other
        out[i] = c.x[i][0] + d.x[i][1] + b.x[i][2]

    x, other = np.arange(6, dtype=F).reshape(2, 3), 10 * np.ones((2, 3), F)
    arguments = (1.0, x, np.zeros(3), 1.0, np.zeros(2), other, np.zeros(2))
    np.testing.assert_array_equal(outputs(k, 2, *arguments), [22.0, 25.0])


def test_structs_of_the_host_are_constants():
    spring = Spring((1.0, 2.0, 3.0), 4.0)

    @wp.func
    def total(s: Spring, factor: float = 1.0):
        return (s.rest[0] + s.rest[1] + s.rest[2]) * s.stiffness * factor

    @wp.kernel
    def k(out: wp.array[float]):
        out[0] = total(spring)
        out[1] = spring.rest.y + wp.static(spring.stiffness)

    spring.stiffness = 100.0
    np.testing.assert_array_equal(outputs(k, 1, np.zeros(2)), [24.0, 6.0])


def test_quaternions_of_structs_of_the_host_are_constants():
    @wp.struct
    class Frame:
        at: wp.transform
        turn: wp.quat

    for frame in (Frame((1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 0.0)),
                  Frame(jnp.array([1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]), jnp.array([0.0, 0.0, 1.0, 0.0]))):  # fmt: skip

        @wp.kernel
        def k(out: wp.array[wp.vec3]):
            x = wp.vec3(1.0, 0.0, 0.0)
            out[0] = wp.transform_point(frame.at, x)  # noqa: B023
            turned = frame  # noqa: B023
            out[1] = wp.quat_rotate(turned.turn, x)

        np.testing.assert_array_equal(outputs(k, 1, np.zeros((2, 3))), [[2.0, 2.0, 3.0], [-1.0, 0.0, 0.0]])


def test_nested_arrays_of_structs():
    @wp.struct
    class Chain:
        links: wp.array[Spring]
        n: int

    @wp.kernel
    def k(chain: Chain, chains: wp.array[Chain], out: wp.array[float]):
        i = wp.tid()
        total = float(0.0)
        for j in range(chain.n):
            total += chain.links[j].stiffness
        chain.links[0].stiffness = total
        out[i] = chains[i].links[1].rest.y + float(len(chain.links) + len(chains))

    links = (np.zeros((3, 3)), np.array([1.0, 2.0, 3.0]))
    batch = (np.arange(18.0).reshape(2, 3, 3), np.zeros((2, 3)), np.zeros(2))
    results = run(k, 1, *links, 3, *batch, np.zeros(1))
    np.testing.assert_array_equal(results[1], [6.0, 2.0, 3.0])
    np.testing.assert_array_equal(results[-1], [9.0])


def test_the_type_of_a_struct():
    @wp.func
    def twice(s: Any):
        other = type(s)(s.rest, s.stiffness * 2.0)
        return other

    @wp.kernel
    def k(a: wp.array[Spring], out: wp.array[float]):
        s = a.dtype()
        s.stiffness = twice(a[0]).stiffness + s.stiffness
        out[0] = s.stiffness

    np.testing.assert_array_equal(outputs(k, 1, np.zeros((1, 3)), [3.0], np.zeros(1)), [8.0])


def test_derivative_rules_take_structs():
    @wp.func
    def energy(s: Spring, x: float):
        return s.stiffness * x * x

    @wp.func_grad(energy)
    def adj_energy(s: Spring, x: float, adj_ret: float):
        wp.adjoint[s.stiffness] += 10.0 * x * x * adj_ret
        wp.adjoint[s].rest.x += 3.0 * adj_ret
        wp.adjoint[x] += 2.0 * s.stiffness * x * adj_ret

    @wp.kernel
    def k(s: Spring, x: float, out: wp.array[float]):
        out[0] = energy(s, x)

    import jax

    call = wp.jax_kernel(k)
    found = jax.grad(lambda s: call(s, 2.0, launch_dims=1, output_dims=1)[0][0])(Spring((0.0, 0.0, 0.0), 3.0))
    assert float(found.stiffness) == 40.0
    np.testing.assert_array_equal(found.rest, [3.0, 0.0, 0.0])


def test_a_fault_names_the_field():
    @wp.kernel
    def k(n: int):
        s = Spring()
        s.stiffness = n

    with pytest.raises(KernelError, match=r"the field stiffness of Spring is float32, got int32"):
        k.ir()
