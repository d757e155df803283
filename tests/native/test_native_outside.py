"""Arrays outside of JAX on GPUs, against a driver whose memory is that of the host: no GPU needed."""

import json
import shutil
import subprocess
import sys

import pytest
from native import outside_scenarios, pretended

pytestmark = pytest.mark.slow  # the scenarios share a process, which the first test waits for


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, request):
    """The outcome of each scenario that is selected, in a process of their own: the driver is found when it starts."""
    if shutil.which("cc") is None or shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("driver")
    pretended.build(folder)
    tests = [item for item in request.session.items if getattr(item, "function", None) is test_gpus_outside_of_jax]
    names = [item.callspec.params["scenario"] for item in tests]
    command = [sys.executable, "-X", "faulthandler", pretended.HERE / "outside_scenarios.py", *names]
    done = subprocess.run(
        command, env=pretended.environment(folder), capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("scenario", [function.__name__ for function in outside_scenarios.SCENARIOS])
def test_gpus_outside_of_jax(scenario, outcomes):
    if outcomes[scenario].startswith(outside_scenarios.SKIPPED):
        pytest.skip(outcomes[scenario])
    assert not outcomes[scenario], outcomes[scenario]
