"""Warp's own example programs, from its wheel where it is installed: they run with no change but the import, with its
results.

Those left out need what is not here: allocators, CUDA streams, sparse grids and vector elements of `fem`; or a GPU.
`core/example_work_queue` writes behind the end of its buffer, which ends Warp's process on the CPU.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from warp_program import EDGES, FEM_PROGRAMS, GRAPHS, PROGRAMS, RECORDED, for_package, source_of

PROGRAM = Path(__file__).with_name("warp_program.py")
ROOT = PROGRAM.parents[1]


def results(name: str, package: str, folder: Path, *options: str) -> dict[str, np.ndarray]:
    """What a program computes in a process of its own."""
    out = folder / f"{package}_{name.replace('/', '_')}.npz"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(PROGRAM), name, package, str(out), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(out) as found:
        return dict(found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_it_does_on_warp(name, tmp_path):
    if source_of(name) is None:
        pytest.skip("warp-lang, or this program of it, is not installed")
    if "torch" in name:
        pytest.importorskip("torch")
    found = results(name, "jaxwarp", tmp_path)
    expected = results(name, "warp", tmp_path)
    tolerance = PROGRAMS[name][1]
    assert found.keys() == expected.keys()
    for key, values in found.items():
        assert values.size
        assert values.shape == expected[key].shape
        if tolerance:
            scale = np.abs(expected[key]).max()
            is_far = ~np.isclose(values, expected[key], rtol=tolerance, atol=tolerance * scale)
            assert is_far.mean() <= EDGES.get(name, 0.0)
        else:
            np.testing.assert_array_equal(values, expected[key])


@pytest.mark.parametrize("name", GRAPHS)
def test_a_program_computes_the_same_in_captures(name, tmp_path):
    if source_of(name) is None:
        pytest.skip("warp-lang, or this program of it, is not installed")
    found = results(name, "jaxwarp", tmp_path, "--graphs")
    expected = results(name, "jaxwarp", tmp_path)
    assert found.keys() == expected.keys()
    for key, values in found.items():
        np.testing.assert_allclose(values, expected[key], rtol=1e-4, atol=1e-6 * np.abs(expected[key]).max())


@pytest.fixture(scope="module")
def elements(tmp_path_factory):
    """What programs with finite elements compute here."""
    if source_of("fem/utils") is None:
        pytest.skip("warp-lang is not installed")
    out = tmp_path_factory.mktemp("fem") / "found.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(PROGRAM), "jaxwarp", str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(out.read_text())


@pytest.mark.parametrize("name", FEM_PROGRAMS)
def test_programs_with_finite_elements_compute_what_they_do_on_warp(name, elements):
    found, expected = elements[name], json.loads(RECORDED.read_text())[name]
    assert isinstance(found, dict), found
    assert found.keys() == expected.keys()
    for key, values in found.items():
        np.testing.assert_allclose(values, expected[key], rtol=1e-3, atol=1e-5)


def test_only_imports_change():
    name = "core/example_wave"
    text = source_of(name)
    if text is None:
        pytest.skip("warp-lang is not installed")
    pairs = zip(text.splitlines(), for_package(text, "jaxwarp").splitlines(), strict=True)
    changed = [(before, after) for before, after in pairs if before != after]
    assert changed == [("import warp as wp", "import jaxwarp as wp"), ("import warp.render", "import jaxwarp.render")]
