"""Python functions on the memory of a GPU, against a driver whose memory is that of the host: no GPU needed."""

import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from native import python_scenarios

from jaxwarp.memory import driver

NATIVE = Path(__file__).parents[1] / "native"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """The outcome of each scenario, in a process of their own: the driver is found when it starts."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    command = [compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", NATIVE / "fake_memory.c"]
    subprocess.run([*command, "-o", folder / "libcuda.so.1"], check=True)
    paths = os.pathsep.join([str(folder), os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(os.pathsep)
    environment = os.environ | {"LD_LIBRARY_PATH": paths, "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parents[1])])
    command = [sys.executable, NATIVE / "python_scenarios.py", folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("scenario", [function.__name__ for function in python_scenarios.SCENARIOS])
def test_driver_calls(scenario, outcomes):
    assert not outcomes[scenario], outcomes[scenario]


def test_without_a_driver(monkeypatch):
    def not_found(*_):
        raise RuntimeError("libcuda.so.1:\n cannot open shared object file")

    fake = types.SimpleNamespace(cuInit=not_found)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", fake)
    with pytest.raises(driver.CudaError, match=r"there is no CUDA driver here \(libcuda\.so\.1: cannot open"):
        driver.Driver()
    fake.cuInit = lambda flags: (0,)
    fake.cuLibraryLoadData = not_found
    with pytest.raises(driver.CudaError, match="the CUDA driver has no cuLibraryLoadData; CUDA 12"):
        driver.Driver().call("LibraryLoadData", b"")


def test_without_cuda_python(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(driver.CudaError, match=r"called through cuda-python, which is not there .* jaxwarp\[cuda13\]"):
        driver.Driver()
