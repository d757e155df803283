"""Programs on XLA's H200 target, without a device: copies, graphs, launches. See `target.py` for what it needs."""

import json
import subprocess
import sys

import pytest
from xla import programs, target


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """The outcome of each program, in a process of their own, which has the plugin."""
    if target.plugin() is None:
        pytest.skip("needs JAX's plugin for CUDA, of jaxlib's version, from 0.10 on (make cuda-plugin)")
    folder = tmp_path_factory.mktemp("dump")
    command = [sys.executable, "-X", "faulthandler", target.HERE / "programs.py", folder]
    done = subprocess.run(
        command, env=target.environment(folder), capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("program", [function.__name__ for function in programs.PROGRAMS])
def test_on_an_h200(program, outcomes):
    assert not outcomes[program], outcomes[program]
