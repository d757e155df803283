"""Programs end cleanly, whatever they leave alive; and memory that was shared is free as soon as nobody uses it."""

from __future__ import annotations

import builtins
import ctypes
import gc
import threading
import time
import weakref

import exits
import numpy as np
import pytest
from native import frames

import jaxwarp as wp
from jaxwarp.native.library import counter
from jaxwarp.unlocked import address_of, cached_property

PROGRAMS = [
    ("jax_shared", "from_dlpack", "numpy", "tape"),
    ("late", "jax", "capsule", "cycle"),
    ("jax", "atexit", "callable"),
    ("taken_capsule", "open_tape", "finalizer"),
    ("torch", "from_torch", "late", "daemon"),
    ("callback", "none", "jax"),
    ("dropped_callback", "numpy"),
    ("sleeping_callback", "in_flight"),
    ("dropped_in_flight", "thread", "late"),
    ("large_daemon", "daemon"),
]  # `python tests/exits.py 300` has all


def test_programs_end_with_status_0():
    programs = [[name for name in program if name in exits.PIECES] for program in PROGRAMS]
    assert exits.failures(programs) == []


@wp.kernel
def doubled(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def everyday_work():
    x, y = wp.array(np.arange(4.0), dtype=float, requires_grad=True), wp.zeros(4, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(doubled, 4, [x], [y])
    y.grad.fill_(1.0)
    tape.backward()
    wp.copy(y, x)
    wp.clone(x).zero_()
    np.from_dlpack(wp.zeros(4))
    x.grad.numpy(), x[1:3].numpy(), y.list(), x.__array_interface__, x.__dlpack__()


def test_launches_and_shared_memory_import_nothing(monkeypatch):
    """A daemon thread that is stopped within an import keeps its lock, and the last finalizers of the process wait."""
    everyday_work()
    imports, real = [], builtins.__import__
    monkeypatch.setattr(builtins, "__import__", lambda name, *rest: imports.append(name) or real(name, *rest))
    everyday_work()
    monkeypatch.undo()
    assert imports == []


class Point:
    def __init__(self):
        self.computed = 0

    @cached_property
    def norm(self):
        """Its length."""
        self.computed += 1
        return 5.0


def test_cached_properties_are_computed_once_and_documented():
    point = Point()
    assert (point.norm, point.norm, point.computed) == (5.0, 5.0, 1)
    assert (vars(point)["norm"], Point.norm.name, Point.norm.__doc__) == (5.0, "norm", "Its length.")


def test_cached_properties_have_no_lock():
    """Two threads may be in one at once: that of Python 3.11 lets only one into all of them."""
    meeting = threading.Barrier(2, timeout=60)

    class Slow:
        @cached_property
        def value(self):
            return meeting.wait()

    threads = [threading.Thread(target=lambda: Slow().value) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not meeting.broken


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "?", "u1", "i8", "c8", "M8[s]", "i4,f8", wp.bfloat16.numpy])
def test_addresses_are_those_of_ctypes(dtype):
    whole = np.zeros((6, 4), dtype)
    read_only = whole.view()
    read_only.flags.writeable = False
    for array in (whole, whole[1:], whole[::-2], whole.T, whole[:0], whole[0, 0, ...], read_only, whole[1:, 2]):
        assert address_of(array) == array.ctypes.data


def shared():
    """An array, and something that lives as long as its memory."""
    array = wp.array(np.arange(4.0), dtype=float)
    return array, weakref.ref(array.owner.memory)


def wait_for(holds):
    for _ in range(3000):
        if holds():
            return True
        time.sleep(0.01)  # waiting is when Python does what others asked it to do
    return False


@pytest.mark.parametrize("is_versioned", [False, True])
def test_memory_is_free_when_nobody_uses_it(is_versioned):
    before = counter("shared_tensors")
    array, memory = shared()
    capsule = array.__dlpack__(max_version=(1, 0) if is_versioned else None)
    del array
    gc.collect()
    assert memory() is not None
    assert counter("shared_tensors") == before + 1
    del capsule
    assert memory() is None
    assert counter("shared_tensors") == before
    array, memory = shared()
    view = np.from_dlpack(array)
    del array
    assert memory() is not None
    view[:] = 3.0
    del view
    assert memory() is None


@pytest.mark.parametrize("in_thread", [False, True])
def test_memory_given_back_without_the_interpreter_lock(in_thread):
    """Python is not entered: its main thread frees the memory when it gets to it, though no array is made."""
    before = counter("shared_tensors")
    made = [shared() for _ in range(100)]
    memories = [memory for _, memory in made]
    capsules = [array.__dlpack__() for array, _ in made]
    tensors = [frames.take_dlpack(capsule) for capsule in capsules]
    del made, capsules

    def give_back():
        for tensor in tensors:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(tensor.deleter)(ctypes.addressof(tensor))  # gives the lock up

    assert all(memory() is not None for memory in memories)
    if in_thread:
        thread = threading.Thread(target=give_back)
        thread.start()
        thread.join()
    else:
        give_back()
    assert wait_for(lambda: all(memory() is None for memory in memories))
    assert counter("shared_tensors") == before


def test_tensors_of_other_libraries_are_given_back():
    values = np.arange(4.0)
    gone = weakref.ref(values)
    array = wp.from_dlpack(values)
    part = array[1:]
    del values, array
    gc.collect()
    assert gone() is not None
    assert part.list() == [1.0, 2.0, 3.0]
    del part
    gc.collect()
    assert gone() is None
