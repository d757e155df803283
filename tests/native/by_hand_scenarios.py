"""What benchmarks/gpu_report asks of the driver for code written by hand; that of fake_memory.c runs it on the host.

Run by tests/test_gpu_report.py; prints the calls as JSON.
"""

import ctypes
import json
import sys

import jax.numpy as jnp
import numpy as np
from gpu_report import by_hand, kernels
from gpu_report.sections import Setup


class Gpu(by_hand.OnGpu):
    """Launches come back from the driver, and run on the host with the parameters that it was given."""

    def __init__(self):
        super().__init__()
        driver = ctypes.CDLL("libcuda.so.1")
        self._hook = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.POINTER(ctypes.c_void_p)
        )(self._run)
        driver.fake_launched(self._hook)
        driver.fake_log.restype = ctypes.c_char_p
        self.log = lambda: driver.fake_log().decode().splitlines()

    def launch(self, name, place, arguments):
        self._now = name, place
        super().launch(name, place, arguments)

    def _run(self, kernel, blocks, threads, parameters):
        name, place = self._now
        assert (blocks, threads) == (place.blocks[0], place.block[0])
        extents = ((ctypes.c_uint * 3)(*e) for e in (place.blocks, place.block))
        getattr(by_hand._host_library(), f"launch_{name}")(parameters, *extents)


def main():
    gpu = Gpu()
    assert gpu.architecture == 90
    kernels.by_hand = lambda setup: gpu
    setup = Setup(sys.argv[1], is_dry=True, is_small=True, only=("saxpy", "nbody", "total"))
    rows = [*kernels.copies(setup), *kernels.kernels(setup)]
    assert not [row for row in rows if "failed" in row], rows
    x = jnp.asarray(np.ones(3, np.float32))
    gpu.clear(x)
    gpu.wait()
    np.testing.assert_array_equal(x, np.zeros(3))
    print(json.dumps(gpu.log()))


main()
