"""Importing jaxwarp defines no kernel, compiles nothing, and takes a fraction of the time that JAX takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# Of the processor time of importing JAX, a fraction that the rest of a busy machine does not decide.
MOST = 0.6
ROUNDS = 5
COUNTED = """
import json, sys
import jax, jax.monitoring, jax.numpy

compiled, made = [], []
jax.monitoring.register_event_duration_secs_listener(lambda name, _, **__: compiled.append(name))

def note(frame, event, _):
    if event == "call" and frame.f_code.co_name == "read_source":
        made.append(frame.f_code.co_filename)

before = set(sys.modules)
sys.setprofile(note)
import jaxwarp as wp
at_import = len(made), [name for name in compiled if "compile" in name], sorted(set(sys.modules) - before)
wp.utils.array_sum, wp.randf
sys.setprofile(None)
print(json.dumps([*at_import, len(made)]))
"""
TIMED = """
import time
begin = time.process_time()
import jax, jax.numpy
between = time.process_time()
import jaxwarp
print((time.process_time() - between) / (between - begin))
"""


# Byte code is kept: the first process would compile the package, and so would each one without.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run(code):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout


@pytest.fixture(scope="module")
def counted():
    return json.loads(run(COUNTED))


def test_no_kernel_is_made_and_nothing_is_compiled(counted):
    at_import, compiled, _, later = counted
    assert (at_import, compiled) == (0, [])
    assert later > 0  # those of `array_sum` and of the library, when they are named


@pytest.mark.parametrize("module", ["llvmlite", "jaxwarp.codegen.cuda", "jax.extend", "torch", "warp"])
def test_what_is_only_sometimes_needed_is_not_imported(counted, module):
    assert module not in counted[2]


def test_import_takes_a_fraction_of_what_jax_takes():
    found = []
    for _ in range(ROUNDS):
        found.append(float(run(TIMED)))
        if found[-1] < MOST:
            return
    pytest.fail(f"{found} of the time of importing JAX, expected less than {MOST}")
