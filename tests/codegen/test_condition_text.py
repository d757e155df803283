"""The PTX text that sets the conditions of graphs: what it does, and that it can be assembled."""

import ctypes
import itertools
import shutil
import subprocess

import pytest
from native import ptx

from jaxwarp.memory.gpu import conditions

TEXT = conditions.TEXT.rstrip(b"\0").decode()


def outcome(flag, wanted, step, most=None, counted=0):
    """The condition that is set, and the number of rounds afterwards."""
    number, rounds, found = ctypes.c_int32(flag), ctypes.c_uint64(counted), []
    arguments = {
        "condition": 2**40 + 7,
        "flag": ctypes.addressof(number),
        "rounds": 0 if most is None else ctypes.addressof(rounds),
        "most": most or 0,
        "wanted": wanted,
        "step": step,
    }
    ptx.run(TEXT, arguments, {"cudaGraphSetConditional": lambda *given: found.append(given)})
    ((condition, value),) = found
    assert condition == 2**40 + 7
    return value, rounds.value


def test_conditions_without_a_bound():
    for flag, wanted, step in itertools.product((0, 1, -1, 2**31 - 1, 6), (0, 1), (0, 1)):
        assert outcome(flag, wanted, step) == (int((flag != 0) == bool(wanted)), 0)


def test_rounds_of_a_loop():
    for flag, most in itertools.product((0, 5), (0, 1, 3, 2**40)):
        assert outcome(flag, 1, 0, most, counted=99) == (int(flag != 0 and most > 0), 0)
        for counted in (0, 1, 2, 2**40 - 1):
            expected = int(flag != 0 and counted + 1 < most)
            assert outcome(flag, 1, 1, most, counted) == (expected, counted + 1)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_100"])
def test_it_can_be_assembled(architecture, tmp_path):
    assembler = shutil.which("ptxas")
    if assembler is None:
        pytest.skip("no ptxas")
    (tmp_path / "text.ptx").write_text(TEXT)
    command = [assembler, "-arch", architecture, "-o", tmp_path / "out", tmp_path / "text.ptx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
