"""Sections that go wrong, for the tests of benchmarks/gpu_report. They need no JAX."""

import os
import signal
import subprocess
import sys
import time


def broken(setup):
    yield {"row": 1, "small": setup.is_small}
    raise ValueError("the second row\nis not there")


def slow(setup):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield {"child": child.pid}
    time.sleep(600)


def dies(setup):
    yield {"row": 1}
    os.kill(os.getpid(), signal.SIGSEGV)


def good(setup):
    yield {"seconds": setup.seconds}
