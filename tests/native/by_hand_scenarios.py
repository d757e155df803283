"""What benchmarks/gpu_report asks of the driver for code written by hand; that of fake_memory.c runs it on the host.

Run by tests/test_gpu_report.py; prints the calls as JSON.
"""

import ctypes
import json
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from gpu_report import by_hand, kernels, warp_code
from gpu_report.sections import Setup


class Gpu(by_hand.OnGpu):
    """Launches come back from the driver, and run on the host with the parameters that it was given."""

    def __init__(self):
        super().__init__()
        driver = ctypes.CDLL("libcuda.so.1")
        self._name = ""  # of a text by hand
        self._hook = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.POINTER(ctypes.c_void_p)
        )(self._run)
        driver.fake_launched(self._hook)
        driver.fake_log.restype = ctypes.c_char_p
        self.log = lambda: driver.fake_log().decode().splitlines()

    def launch(self, name, place, arguments):
        self._name = name
        super().launch(name, place, arguments)
        self._name = ""

    def launch_loaded(self, kernel, place, parameters):
        self._place = place
        super().launch_loaded(kernel, place, parameters)

    def _run(self, kernel, blocks, threads, parameters):
        name, place = self._name, self._place
        assert (blocks, threads) == (place.blocks[0], place.block[0])
        if not name:
            warps_saxpy(parameters)
            return
        extents = ((ctypes.c_uint * 3)(*e) for e in (place.blocks, place.block))
        getattr(by_hand._host_library(), f"launch_{name}")(parameters, *extents)


def warps_saxpy(parameters):
    """From what Warp's kernel is given."""
    x, y, out = (warp_code.WarpArray.from_address(parameters[k]) for k in (2, 3, 4))
    n, *_ = (ctypes.c_uint32 * 1).from_address(parameters[0])
    assert [(a.shape[0], a.strides[0], a.ndim) for a in (x, y, out)] == [(n, 4, 1)] * 3
    x, y, out = (np.ctypeslib.as_array((ctypes.c_float * n).from_address(a.data)) for a in (x, y, out))
    out[:] = np.float32(ctypes.c_float.from_address(parameters[1]).value) * x + y


def with_warps_code(gpu):
    folder = warp_code.FOLDER
    folder.mkdir()
    (folder / "kernels.json").write_text(json.dumps({"saxpy": {"symbol": "saxpy_warp", "architecture": 90}}))
    (folder / "saxpy.cubin").write_bytes(by_hand.compiled("saxpy", 90).code)
    before = len(gpu.log())
    rows = {r["by"]: r for r in kernels.kernels(Setup(str(folder), is_dry=True, is_small=True, only=("saxpy",)))}
    assert not [row for row in rows.values() if "failed" in row], rows
    assert list(rows) == ["jaxwarp", "by hand", "Warp", "jax.numpy"]
    assert rows["Warp"]["error"] < 1e-6
    assert rows["Warp"]["registers"] > 0
    assert "kernel saxpy_warp" in gpu.log()[before:]


def main():
    warp_code.FOLDER = Path(sys.argv[1]) / "warp"  # which is not there yet
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
    log = gpu.log()
    with_warps_code(gpu)
    print(json.dumps(log))


main()
