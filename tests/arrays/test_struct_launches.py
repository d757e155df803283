"""Launches with structs, arrays of structs and vectors find what was found before: they cost what their leaves cost."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.arrays import launching
from jaxwarp.errors import KernelTypeError
from jaxwarp.launches.arguments.leaves import spread


@wp.struct
class Inner:
    v: wp.vec3
    x: wp.array[float]


@wp.struct
class Outer:
    scale: float
    inner: Inner
    q: wp.quat


@wp.kernel
def scaled(s: Outer, out: wp.array[float]):
    i = wp.tid()
    out[i] = s.scale * s.inner.x[i] + s.inner.v[1] + s.q[3]


def made(n: int) -> Outer:
    s = Outer(scale=2.0, q=wp.quat(0.0, 0.0, 0.0, 1.0))
    s.inner = Inner(v=wp.vec3(1.0, 10.0, 3.0), x=wp.array(np.arange(n), dtype=float))
    return s


@pytest.fixture
def checks(monkeypatch):
    """How many launches were checked from the start."""
    counted = []
    check = launching.check
    monkeypatch.setattr(launching, "check", lambda *args: counted.append(args) or check(*args))
    return counted


def test_a_struct_is_checked_once(checks):
    s, out = made(3), wp.zeros(3)
    for k in range(4):
        s.scale = float(k)
        s.inner = Inner(v=wp.vec3(0.0, float(k), 0.0), x=wp.ones(3))
        wp.launch(scaled, 3, [s, out])
        np.testing.assert_array_equal(out.numpy(), np.full(3, 2 * k + 1))
    assert len(checks) == 1


@wp.struct
class Particle:
    x: wp.vec3
    mass: float


@wp.kernel
def moved(p: wp.array[Particle], by: wp.vec3):
    i = wp.tid()
    p[i].x = p[i].x + by / p[i].mass


def test_an_array_of_structs_is_checked_once(checks):
    p = wp.array([Particle(mass=float(m)) for m in (1, 2)], dtype=Particle)
    for k in range(3):
        wp.launch(moved, 2, [p, wp.vec3(float(k), 0.0, 0.0)])
    np.testing.assert_array_equal(p.field("x").numpy()[:, 0], [3.0, 1.5])
    assert len(checks) == 1


def test_an_array_of_structs_ends_with_its_last_name():
    p = wp.zeros(2, dtype=Particle)
    wp.launch(moved, 2, [p, wp.vec3()])
    seen = weakref.ref(p)
    gc.disable()
    try:
        del p
        assert seen() is None
    finally:
        gc.enable()


def test_fields_follow_their_array():
    p = wp.array([Particle(mass=1.0)], dtype=Particle)
    assert p.field("x").grad is None
    p.requires_grad = True
    assert p.field("x").grad is not None
    assert p.field("x").is_writable
    p.is_writable = False
    assert not p.field("x").is_writable
    with pytest.raises(KernelTypeError):
        wp.launch(moved, 1, [p, wp.vec3()])
    with pytest.raises(KernelTypeError, match="no field y"):
        p.field("y")


class Same:
    """Not a struct, with the fields of one."""

    def __init__(self, s: Outer):
        self.scale, self.q, self.inner = s.scale, s.q, {"v": s.inner.v, "x": s.inner.x}


def test_leaves_are_those_of_any_object_that_fits():
    s, out = made(2), wp.zeros(2)
    expected = [s.scale, s.inner.v, s.inner.x, s.q, out]
    for given in (s, Same(s), vars(s)):
        found = spread(scaled, [given, out])
        assert len(found) == 5
        assert all(a is b for a, b in zip(found, expected, strict=True))
    with pytest.raises(KernelTypeError, match="without inner"):
        spread(scaled, [{"scale": 1.0, "q": s.q}, out])


@wp.kernel
def last(v: wp.vec4, out: wp.array[float]):
    out[0] = v[3]


@wp.kernel
def real(q: wp.quat, out: wp.array[float]):
    out[0] = q[3]


@pytest.mark.parametrize("kernel", [last, real])
def test_values_are_checked_as_they_were_the_first_time(kernel):
    out = wp.zeros(1)
    values = (wp.vec4(1.0, 2.0, 3.0, 4.0), wp.quat(1.0, 2.0, 3.0, 4.0), wp.types.vector(4, wp.float64)(4.0))

    def outcome(value):
        try:
            wp.launch(kernel, 1, [value, out])
        except KernelTypeError as error:
            return str(error.message)
        return out.numpy().tolist()

    first = [outcome(v) for v in values]
    assert [outcome(v) for v in values] == first
    assert first[0 if kernel is last else 1] == [4.0]
