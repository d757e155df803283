"""The CUDA handler against a driver that writes down what it is asked: no GPU needed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from native import cuda_scenarios, graph_scenarios

from jaxwarp.native import library

NATIVE = Path(__file__).parents[1] / "native"


def run(which, driver_folder, folder):
    """The outcome of each scenario, in a process of their own: the driver is found when it starts."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(driver_folder)}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parents[1])])
    command = [sys.executable, NATIVE / "cuda_scenarios.py", which, library.find_library(), folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    command = [compiler, "-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1", NATIVE / "fake_cuda.c"]
    subprocess.run([*command, "-o", folder / "libcuda.so.1"], check=True)
    return run("driver", folder, folder)


@pytest.mark.parametrize("scenario", [f.__name__ for f in (*cuda_scenarios.SCENARIOS, *graph_scenarios.SCENARIOS)])
def test_driver_calls(scenario, outcomes):
    assert not outcomes[scenario], outcomes[scenario]


def test_without_a_driver(tmp_path):
    # A file that is no library stands in for a machine without a driver.
    (tmp_path / "libcuda.so.1").write_text("not a library")
    assert run("none", tmp_path, tmp_path) == {"no_driver": ""}
