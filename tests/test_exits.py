"""Programs end cleanly, whatever they leave alive; and memory that was shared is free as soon as nobody uses it."""

from __future__ import annotations

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
