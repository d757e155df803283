"""Launches on the very arrays of earlier ones: no slower for more arguments, and with what arguments hold now."""

import gc
import linecache
import weakref

import numpy as np
import pytest
from counting import profiled

import jaxwarp as wp
from jaxwarp.arrays import recent

pytestmark = pytest.mark.release_mode("in debug mode nothing is kept")


@wp.struct
class Pair:
    a: wp.array(dtype=float)
    b: wp.array(dtype=float)
    s: float
    v: wp.vec3


@wp.struct
class Body:
    x: wp.vec3
    m: float


@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = y[i] + a * x[i]


@wp.kernel
def of_pair(p: Pair, v: wp.vec3, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = p.a[i] + p.b[i] * p.s + p.v[0] + v[1]


@wp.kernel
def of_bodies(b: wp.array(dtype=Body), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = b[i].x[1] + b[i].m


def many(count):
    """A kernel of so many arrays, and as many numbers."""
    kinds = ("a", "wp.array(dtype=float)"), ("s", "float")
    arrays, numbers = (", ".join(f"{name}{k}: {kind}" for k in range(count)) for name, kind in kinds)
    total = " + ".join(f"a{k}[i] * s{k}" for k in range(1, count))
    text = f"@wp.kernel\ndef k({arrays}, {numbers}):\n    i = wp.tid()\n    a0[i] = {total}\n"
    file = f"<{count} arrays>"
    linecache.cache[file] = (1, None, text.splitlines(True), file)
    scope = {"wp": wp, "__name__": __name__}
    exec(compile(text, file, "exec"), scope)
    return scope["k"]


def calls(run):
    """How many functions of Python and C `run` calls."""
    found = []
    run()
    run()
    with profiled(lambda _frame, event, _: found.append(event) if event in ("call", "c_call") else None):
        run()
    return len(found)


def test_as_many_calls_for_any_number_of_arguments():
    counts = []
    for count in (2, 10, 30):
        kernel, arrays = many(count), [wp.ones(3, dtype=float) for _ in range(count)]
        numbers = [float(k) for k in range(count)]
        counts.append(calls(lambda: wp.launch(kernel, 3, [*arrays, *numbers])))  # noqa: B023
        assert arrays[0].list() == [sum(range(1, count))] * 3
    assert counts[0] == counts[1] == counts[2] <= 60
    pair = Pair()
    pair.a, pair.b, pair.s = wp.ones(3, dtype=float), wp.ones(3, dtype=float), 2.0
    y, bodies = wp.zeros(3, dtype=float), wp.zeros(3, dtype=Body)
    assert calls(lambda: wp.launch(of_bodies, 3, [bodies, y])) <= counts[0]
    assert calls(lambda: wp.launch(of_pair, 3, [pair, wp.vec3(1.0, 2.0, 3.0), y])) <= 120


def test_numbers_that_change():
    x, y = wp.ones(3, dtype=float), wp.zeros(3, dtype=float)
    for a in (1.0, 1.0, 2.0, 0.5, 3, True, np.float32(4), 2.0):
        before = y.numpy().copy()
        wp.launch(saxpy, 3, [x, y, a])
        np.testing.assert_array_equal(y.numpy(), before + float(a))
    with pytest.raises(wp.KernelError):
        wp.launch(saxpy, 3, [x, y, "2"])
    with pytest.raises(wp.KernelError):
        wp.launch(saxpy, True, [x, y, 2.0])


def test_values_that_change_in_place():
    pair, v, y = Pair(), wp.vec3(1.0, 2.0, 3.0), wp.zeros(3, dtype=float)
    pair.a, pair.b, pair.s, pair.v = wp.ones(3, dtype=float), wp.full(3, 2.0), 3.0, wp.vec3(4.0, 0.0, 0.0)
    expected = 1.0 + 6.0 + 4.0 + 2.0

    def check():
        for _ in range(2):
            y.zero_()
            wp.launch(of_pair, 3, [pair, v, y])
            assert y.list() == [expected] * 3

    check()
    v[1] = 20.0
    expected += 18.0
    check()
    pair.v[0] = 40.0
    expected += 36.0
    check()
    pair.s = 30.0
    expected += 54.0
    check()
    pair.a = wp.full(3, 100.0)
    expected += 99.0
    check()


def test_arrays_that_become_others():
    x, y = wp.ones(3, dtype=float), wp.zeros(3, dtype=float)
    for _ in range(3):
        wp.launch(saxpy, 3, [x, y, 1.0])
    y.is_writable = False
    with pytest.raises(wp.KernelError, match="read-only"):
        wp.launch(saxpy, 3, [x, y, 1.0])
    y.is_writable = True
    wp.launch(saxpy, 3, [x, y, 1.0])
    assert y.list() == [4.0] * 3
    for _ in range(2):
        with pytest.raises(wp.KernelError, match="shares memory"):
            wp.launch(saxpy, 2, [y[1:], y[:2], 1.0])
    for _ in range(20):  # in the place of one that has ended
        z = wp.full(3, 5.0)
        wp.launch(saxpy, 3, [z, y, 1.0])
        del z
    assert y.list() == [104.0] * 3


def test_what_is_kept_holds_no_memory(monkeypatch):
    monkeypatch.setattr(recent, "_MOST", 4)
    seen = []
    for _ in range(10):
        x, y = wp.ones(3, dtype=float), wp.zeros(3, dtype=float)
        wp.launch(saxpy, 3, [x, y, 1.0])
        wp.launch(saxpy, 3, [x, y, 1.0])
        seen.append(y.mark)
        assert len(saxpy.found.recent) <= 4
    assert len(set(seen)) == 10
    ended = weakref.ref(y)
    del x, y
    gc.collect()
    assert ended() is None


def test_tapes_and_captures_see_launches_again():
    x, y = wp.ones(3, dtype=float, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    for _ in range(3):
        wp.launch(saxpy, 3, [x, y, 2.0])
    with wp.Tape() as tape:
        wp.launch(saxpy, 3, [x, y, 2.0])
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    assert x.grad.list() == [2.0] * 3
    with wp.ScopedCapture() as capture:
        wp.launch(saxpy, 3, [x, y, 2.0])
    assert y.list() == [8.0] * 3
    wp.capture_launch(capture.graph)
    assert y.list() == [10.0] * 3


def test_fields_that_were_deleted_and_set_in_another_order():
    @wp.struct
    class Two:
        a: float
        b: float

    @wp.kernel
    def of_two(p: Two, y: wp.array(dtype=float)):
        y[wp.tid()] = p.a * 10.0 + p.b

    p, y = Two(), wp.zeros(1)
    p.a, p.b = 1.0, 2.0
    one, two = p.a, p.b
    wp.launch(of_two, 1, [p, y])
    assert y.list() == [12.0]
    del p.a, p.b
    p.b, p.a = one, two
    wp.launch(of_two, 1, [p, y])
    assert y.list() == [21.0]


def test_what_looks_like_an_array_is_taken_for_what_it_says():
    class Ten:
        """It has an array's attributes, and other numbers."""

        def __init__(self, array):
            self._array = array

        def __getattr__(self, name):
            return getattr(self._array, name)

        @property
        def __array_interface__(self):
            return self._ten.__array_interface__

    x, y = wp.array([1.0, 2.0], dtype=float), wp.zeros(2)
    other = Ten(x)
    other._ten = np.array([10.0, 20.0], np.float32)
    for _ in range(2):
        for given, expected in ((x, [1.0, 2.0]), (other, [10.0, 20.0])):
            y.zero_()
            wp.launch(saxpy, 2, [given, y, 1.0])
            assert y.list() == expected
