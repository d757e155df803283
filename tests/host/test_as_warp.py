"""Programs that import Warp get jaxwarp."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import jaxwarp
jaxwarp.install_as_warp()
jaxwarp.install_as_warp()
import warp as wp
import warp.sparse
import warp._src.types
from warp.context import Device
from warp.optim import Adam
assert wp is jaxwarp and wp.__name__ == "jaxwarp" and wp.__spec__.name == "jaxwarp"
assert warp.sparse is jaxwarp.sparse and warp.sparse.__spec__.name == "jaxwarp.sparse"
assert (Device, Adam) == (jaxwarp.Device, jaxwarp.optim.Adam)
from warp.render import UsdRenderer  # programs import it and run without drawing
try:
    UsdRenderer("stage.usd")
except ImportError as error:
    assert "jaxwarp has no renderers" in str(error), error
else:
    raise AssertionError
try:
    import warp.nothing
except ModuleNotFoundError as error:
    assert "warp.nothing" in str(error), error
else:
    raise AssertionError

@wp.kernel
def double(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] *= 2.0

x = wp.ones(2)
wp.launch(double, 2, [x])
print(x.list())
"""
TOO_LATE = """
import sys, types
sys.modules["warp"] = types.ModuleType("warp")
import jaxwarp
try:
    jaxwarp.install_as_warp()
except jaxwarp.errors.KernelValueError as error:
    print(error)
"""


@pytest.mark.parametrize(("program", "said"), [(PROGRAM, "[2.0, 2.0]"), (TOO_LATE, "warp has been imported already")])
def test_programs(program, said, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(program)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=200, check=False)
    assert said in done.stdout, done.stderr
