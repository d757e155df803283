"""The CUDA handler against a driver that writes down what it is asked: no GPU needed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from native import cuda_scenarios

from jaxwarp.ffi.native import library

NATIVE = Path(__file__).parent / "native"


@pytest.fixture(scope="module")
def fake_driver(tmp_path_factory):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    command = [compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", NATIVE / "fake_cuda.c"]
    subprocess.run([*command, "-o", folder / "libcuda.so.1"], check=True)
    return folder


def run(scenario, driver_folder, copy):
    environment = os.environ | {"LD_LIBRARY_PATH": str(driver_folder)}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parent)])
    command = [sys.executable, NATIVE / "cuda_scenarios.py", scenario, library.find_library(), copy]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("scenario", [function.__name__ for function in cuda_scenarios.SCENARIOS])
def test_driver_calls(scenario, fake_driver, tmp_path):
    run(scenario, fake_driver, tmp_path / "copy.so")


def test_without_a_driver(tmp_path):
    # A file that is no library stands in for a machine without a driver.
    (tmp_path / "libcuda.so.1").write_text("not a library")
    run("no_driver", tmp_path, tmp_path / "copy.so")
