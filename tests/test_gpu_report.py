"""benchmarks/gpu_report without a GPU: every section runs, and what goes wrong in one leaves the others."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from native import pretended

from jaxwarp.codegen.cuda import nvrtc

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from gpu_report import cases, child, kernels, sections  # noqa: E402
from gpu_report.__main__ import SECTIONS  # noqa: E402
from gpu_report.sections import Section, Setup  # noqa: E402

PATH = os.pathsep.join(map(str, (ROOT, ROOT / "benchmarks", ROOT / "tests")))
needs_tools = pytest.mark.skipif(
    not nvrtc.available() or shutil.which("g++") is None, reason="needs NVRTC and a C++ compiler"
)


@pytest.fixture
def setup(tmp_path):
    return Setup(str(tmp_path), is_dry=True, is_small=True)


def run(name, setup):
    """A section in this process."""
    (section,) = [s for s in SECTIONS if s.name == name]
    child.main(name, section.function, json.dumps(asdict(setup)))
    found = sections.read(setup, name)
    assert found["status"] == "done"
    assert not [row for row in found["rows"] if "failed" in row]
    return found["rows"]


@needs_tools
def test_kernels(setup):
    copies = run("copy", setup)
    assert [row["by"] for row in copies] == ["float4 by hand", "jax.numpy"]
    rows = run("kernels", setup)
    assert {row["kernel"] for row in rows} == set(cases.CASES)
    by = {name: {r["by"] for r in rows if r["kernel"] == name} for name in cases.CASES}
    assert {name for name, found in by.items() if "by hand" not in found} == {
        *("lbm3 gradient", "number gradient", "weights gradient")
    }
    assert all("jaxwarp" in found for found in by.values())
    assert all(row["error"] < 1e-6 and row["us"] > 0 and row["of_copy"] > 0 for row in rows)
    assert {r["kernel"] for r in rows if "of_forward" in r} == {n for n, s in cases.CASES.items() if s.of}
    assert all(r["registers"] > 0 and r["spilled"] == 0 for r in rows if r["by"] == "by hand")


@needs_tools
@pytest.mark.parametrize("name", [s.name for s in SECTIONS if s.name not in ("copy", "kernels")])
def test_sections(name, setup, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", PATH)
    assert run(name, setup)


@needs_tools
def test_a_wrong_kernel_is_said_and_not_timed(setup, monkeypatch):
    wrong = cases.Sized(lambda n: cases.replace(cases.saxpy(n), twin="saxpy_gradient", extents={"n": n}), (9,), (9,))
    right = cases.Sized(lambda n: cases.replace(cases.saxpy(n), function=lambda a, x, y: a * x - y), (9,), (9,))
    monkeypatch.setattr(kernels, "CASES", {"other arguments": wrong, "other numbers": right})
    rows = {(row["kernel"], row["by"]): row for row in kernels.kernels(setup)}
    assert rows["other arguments", "by hand"]["failed"] == "KeyError: 'ct'"
    assert rows["other arguments", "jaxwarp"]["us"] > 0
    assert rows["other numbers", "jaxwarp"]["failed"].startswith("wrong: relative error ")
    assert "us" not in rows["other numbers", "jaxwarp"]


@needs_tools
def test_what_is_written_by_hand_goes_through_the_driver(tmp_path):
    """That of a GPU which is not there."""
    pretended.build(tmp_path)
    environment = pretended.environment(tmp_path)
    environment["PYTHONPATH"] = PATH
    script = ROOT / "tests" / "native" / "by_hand_scenarios.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    log = [line.split(" stream ")[0] for line in json.loads(done.stdout.splitlines()[-1])]
    assert log[:2] == ["retain 100", "stream 5000 priority 0"]
    wait, launches = "synchronize 5000", {"copy": 1, "saxpy": 4, "total": 2, "nbody": 2}
    expected = []
    for number, (name, blocks) in enumerate(launches.items(), 1001):
        launch = [f"launch {number} grid {blocks} block 256", wait]
        # What adds is cleared first; all but the copy is compared before it is timed.
        once = ["clear", *launch] if name == "total" else launch
        again = [] if name == "copy" else once
        load = ["load ELF", f"kernel {name}"]
        at = once.index(launch[0])
        expected += [*once[:at], *load, *once[at:], *again]
    cleared = ["clear" if "set" in line else line for line in log[2:]]
    assert cleared == [*expected, "clear", wait]


def test_what_goes_wrong_in_one_section_leaves_the_others(setup, monkeypatch, capfd):
    monkeypatch.setenv("PYTHONPATH", PATH)
    names = {"broken": 30, "dies": 30, "slow": 2, "good": 30}
    listed = [Section(name, f"report_sections:{name}", seconds) for name, seconds in names.items()]
    found = {s["section"]: s for s in sections.run_all(listed, setup, 60)}
    assert {name: s["status"] for name, s in found.items()} == {
        "broken": "failed: ValueError: the second row",
        "dies": "died of SIGSEGV",
        "slow": "cut off after 2 s",
        "good": "done",
    }
    assert found["broken"]["rows"] == [{"row": 1, "small": True}]
    assert found["dies"]["rows"] == [{"row": 1}]
    assert found["good"]["rows"] == [{"seconds": 30}]
    assert json.loads((Path(setup.folder) / "report.json").read_text())["sections"] == list(found.values())
    assert "good: done" in capfd.readouterr().out
    (row,) = found["slow"]["rows"]
    assert is_gone(row["child"])  # what a section has started ends with it


def is_gone(process):
    """Also a zombie, that nobody has asked about."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_no_section_begins_when_the_time_is_over(setup):
    (found,) = sections.run_all([Section("good", "report_sections:good", 30)], setup, 0)
    assert (found["status"], found["rows"]) == ("not begun: no time was left", [])


def command(*options):
    environment = {**os.environ, "PYTHONPATH": PATH}
    return subprocess.Popen(
        [sys.executable, "-m", "gpu_report", *options], env=environment, stdout=-1, stderr=-1, text=True
    )


@needs_tools
def test_a_report_that_is_ended_keeps_what_it_has(tmp_path):
    kept, end = tmp_path / "environment.json", time.monotonic() + 120
    with command("--dry-run", "--out", tmp_path, "--sections", "environment,copy") as process:
        while not (kept.exists() and json.loads(kept.read_text())["rows"]) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate()
    assert (process.returncode, errors.splitlines()[-1]) == (1, "gpu_report: ended before its time")
    assert "what " in output[output.index("\nenvironment: ") :]
    found = {s["section"]: s for s in json.loads((tmp_path / "report.json").read_text())["sections"]}
    assert found["environment"]["rows"]
    assert all(s["status"] != "done" for s in list(found.values())[1:])


def test_sections_that_are_not_there():
    with command("--sections", "kernels,colonels") as process:
        _, errors = process.communicate()
    assert (process.returncode, errors.splitlines()[-1].split("error: ")[1]) == (2, "--sections: there is no colonels")


def test_tests_for_gpus_need_little(tmp_path):
    """They are found where only what the package needs is there, and pytest, hypothesis."""
    (tmp_path / "bare.py").write_text(
        "import sys\n"
        "sys.modules |= dict.fromkeys(('PIL', 'matplotlib', 'blosc', 'flatbuffers', 'equinox', 'optax', 'tqdm'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "bare", "-m", "gpu", "--collect-only", "-qq", "tests"],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    listed = (line.split(": ") for line in done.stdout.splitlines() if line.startswith("tests/"))
    found = {name: int(count) for name, count in listed}
    files = [p for p in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.gpu" in p.read_text()]
    # Examples draw pictures with Pillow.
    assert found.keys() == {str(p.relative_to(ROOT)) for p in files} - {"tests/test_examples.py"}
    assert found["tests/ffi/test_gpu_jax.py"] >= 50


@pytest.mark.gpu
def test_kernels_by_hand_and_ours_on_a_gpu(tmp_path):
    run("kernels", Setup(str(tmp_path), is_small=True))
