"""Launches outside of XLA's programs: cut as those of programs are, on the library's own threads."""

import ctypes
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from jaxwarp.native import library

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("kernels") / "kernels.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-pthread", HERE / "kernels.c", "-o", path], check=True)
    return ctypes.CDLL(str(path))


class Launch:
    """A launch of a function of kernels.c: `Outside` in native/outside.cc."""

    def __init__(self, kernels, name, rows, columns, threads, grain=1, alone=1, pieces=16, together=1, updated=()):
        self.native, address = library.load_library(), ctypes.cast(getattr(kernels, name), ctypes.c_void_p).value
        words = address, rows, columns, threads, grain, alone, pieces, together, len(updated) // 2, *updated, columns
        self.words = (ctypes.c_int64 * len(words))(*words)
        self.place = ctypes.addressof(self.words)
        self.under_way = ctypes.c_void_p()

    def pieces(self):
        return self.native.jaxwarp_outside_pieces(self.place)

    def run(self, *buffers):
        return self.native.jaxwarp_outside_alone(self.place, (ctypes.c_void_p * max(1, len(buffers)))(*buffers))

    def share(self, milliseconds, pointers=None):
        return self.native.jaxwarp_outside_share(self.place, pointers, ctypes.addressof(self.under_way), milliseconds)

    def stop(self):
        self.native.jaxwarp_outside_stop(ctypes.addressof(self.under_way))


def number(kernels, name):
    return ctypes.c_int64.in_dll(kernels, name)


def at_once(count, function):
    threads = [threading.Thread(target=function) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("shape", [(1, 1), (1, 64), (1, 5000), (3, 4000), (300, 17), (4096, 1), (7, 130)])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_thread_runs_once(kernels, shape, threads):
    for grain, alone, together in (1, 1, 1), (500, 1, 4), (64, 8, 1):
        out = np.zeros(shape, np.int32)
        pointers = (ctypes.c_void_p * 1)(out.ctypes.data)
        launch = Launch(kernels, "count", *shape, threads, grain, alone, together=together)
        number(kernels, "rectangle_count").value = 0
        while not launch.share(100, ctypes.addressof(pointers)):
            pass
        assert (out == 1).all()
        assert number(kernels, "rectangle_count").value == launch.pieces()
        assert launch.under_way.value is None
        if threads <= alone or out.size < 2 * grain:
            assert launch.pieces() == 1
        launch.run(out.ctypes.data)
        assert (out == 2).all()
        assert number(kernels, "rectangle_count").value == launch.pieces() + 1


def test_several_threads_take_part(kernels):
    """The others leave signals to Python's threads: they would take one from the main thread, which would sleep on."""
    launch = Launch(kernels, "slow", 64, 1, 3)
    assert launch.pieces() == 48
    for name in ("begun", "ended", "worker_count", "deaf_count"):
        number(kernels, name).value = 0
    while not launch.share(100):
        pass
    assert number(kernels, "ended").value == 48
    assert 1 < number(kernels, "worker_count").value <= 3
    assert number(kernels, "deaf_count").value == number(kernels, "worker_count").value - 1


def test_a_launch_that_is_stopped_begins_no_other_piece(kernels):
    launch = Launch(kernels, "slow", 4000, 1, 3, pieces=1000)
    number(kernels, "begun").value = number(kernels, "ended").value = 0
    assert not launch.share(0)  # the others go on
    while number(kernels, "begun").value < 5:
        time.sleep(0.001)
    assert not launch.share(20)
    launch.stop()
    begun = number(kernels, "begun").value
    assert 5 <= begun < 3000
    assert number(kernels, "ended").value == begun
    time.sleep(0.05)
    assert number(kernels, "begun").value == begun
    launch.stop()  # there is nothing to stop
    assert launch.under_way.value is None


def test_launches_of_many_threads_at_once(kernels):
    def run():
        out = np.zeros((200, 70), np.int32)
        pointers = (ctypes.c_void_p * 1)(out.ctypes.data)
        launch = Launch(kernels, "count", *out.shape, 4)
        for _ in range(50):
            while not launch.share(100, ctypes.addressof(pointers)):
                pass
        results.append((out == 50).all())

    results = []
    at_once(8, run)
    assert results == [True] * 8


def test_launches_that_update_one_array_run_one_after_the_other(kernels):
    """Their code does without atomics."""
    total = np.zeros(1, np.int32)
    launch = Launch(kernels, "add_slowly", 1, 1, 1, updated=(0, 4))
    at_once(8, lambda: [launch.run(total.ctypes.data) for _ in range(5)])
    assert total[0] == 40


def test_launches_that_update_other_arrays_run_at_the_same_time(kernels):
    sums = np.zeros(3, np.int32)
    pointers = (ctypes.c_void_p * 1)(sums.ctypes.data + 4)
    held = Launch(kernels, "slow", 4000, 1, 2, pieces=1000, updated=(0, 4))
    assert not held.share(0, ctypes.addressof(pointers))
    launch = Launch(kernels, "add_slowly", 1, 1, 1, updated=(0, 4))
    at_once(1, lambda: [launch.run(sums.ctypes.data + at) for at in (0, 8)])
    assert sums.tolist() == [1, 0, 1]
    held.stop()
    assert launch.run(sums.ctypes.data + 4) == 1


def test_a_launch_that_would_wait_for_its_own_thread_is_refused(kernels):
    """The handler of a signal, say, launches in the middle of a launch."""
    total = np.zeros(1, np.int32)
    pointers = (ctypes.c_void_p * 1)(total.ctypes.data)
    held = Launch(kernels, "slow", 4000, 1, 2, pieces=1000, updated=(0, 4))
    assert held.share(0, ctypes.addressof(pointers)) == 0
    launch = Launch(kernels, "add_slowly", 1, 1, 1, updated=(0, 4))
    assert launch.run(total.ctypes.data) == 0
    assert launch.share(100, ctypes.addressof(pointers)) == -1
    held.stop()
    assert launch.run(total.ctypes.data) == 1
    assert total[0] == 1


@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_forked_process_has_threads_of_its_own(kernels):
    launch = Launch(kernels, "slow", 64, 1, 3)
    while not launch.share(100):
        pass
    child = os.fork()
    if child == 0:
        number(kernels, "worker_count").value = number(kernels, "ended").value = 0
        while not launch.share(100):
            pass
        is_right = number(kernels, "ended").value == 48 and number(kernels, "worker_count").value > 1
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0
