"""The command line: what it prints, its exit status, and that what is wrong is said on the standard error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import jaxwarp
from jaxwarp.codegen import cache
from jaxwarp.commands.main import main

KERNELS = """
from typing import Any

import jaxwarp as wp
from beside import FACTOR


@wp.kernel
def axpy(a: float, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = FACTOR * a * x[i] + y[i]


@wp.kernel
def twice(x: wp.array[Any], y: wp.array[Any]):
    i = wp.tid()
    y[i] = x[i] + x[i]


@wp.kernel
def norms(v: wp.array2d[wp.vec3], by: wp.mat33, index: wp.array[int], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = wp.length(by * v[i, j]) + float(index[i])


@wp.jax_kernel(outputs="y")
def halved(x: wp.array[float], y: wp.array[float]):
    y[wp.tid()] = 0.5 * x[wp.tid()]


@wp.kernel
def reads(x: wp.array[float]):
    x[0]


@wp.kernel
def wrong(x: wp.array[float]):
    x[0] = nothing
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beside.py").write_text("FACTOR = 2.0\n")
    path = tmp_path / "my_kernels.py"
    path.write_text(KERNELS)
    yield str(path)
    for name in ("beside", "my_kernels"):
        sys.modules.pop(name, None)


@pytest.fixture
def run(capsys):
    def run(*arguments):
        status = main(arguments)
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_info(run):
    status, out, err = run("info", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["jax"]
    assert found["native library"].endswith((".so", ".dylib"))
    status, out, _ = run("info")
    assert status == 0
    assert all(line.startswith(tuple(found)) for line in out.splitlines())


def test_the_cache_is_listed_and_cleared(run, tmp_path, monkeypatch):
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(tmp_path / "cache"))
    assert run("cache")[1].startswith("0 entries, 0.0 MiB in ")
    for name in ("first", "second"):
        cache.put(cache.key(name), name.encode() * 100)
    listed = json.loads(run("cache", "list", "--json")[1])
    assert {entry["key"] for entry in listed["list"]} == {cache.key("first"), cache.key("second")}
    assert listed["bytes"] == sum(entry["bytes"] for entry in listed["list"]) > 1100
    assert len(run("cache", "list")[1].splitlines()) == 4
    assert run("cache", "clear")[1].startswith("deleted 2 of 2 entries")
    assert cache.get(cache.key("first")) is None
    assert json.loads(run("cache", "size", "--json")[1])["entries"] == 0
    monkeypatch.setenv("JAXWARP_CACHE_DIR", "")
    assert run("cache", "clear")[:2] == (0, "the code cache is off: its folder is set to an empty name\n")


@pytest.mark.parametrize(
    ("target", "has"),
    [
        ("ir", "kernel axpy"),
        ("cpu", "define"),
        ("assembly", "jaxwarp_axpy"),
        ("cuda", "__global__"),
        ("ptx", ".target sm_90"),
    ],
)
def test_show(run, file, target, has):
    status, out, err = run("show", f"{file}:axpy", "--target", target)
    assert (status, err) == (0, "")
    assert has in out
    found = json.loads(run("show", f"{file}:axpy", "--target", target, "--json")[1])
    assert found["text"].rstrip() == out.rstrip()


def test_a_function_that_jax_kernel_decorates(run, file):
    assert "kernel halved" in run("show", f"{file}:halved")[1]


def test_the_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert (stop.value.code, capsys.readouterr().out) == (0, f"jaxwarp {jaxwarp.__version__}\n")


def test_the_installed_command():
    """`jaxwarp` is what pyproject.toml makes of this function."""
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert declared["project"]["scripts"] == {"jaxwarp": "jaxwarp.commands.main:main"}


def test_show_sass_says_what_it_needs(run, file, monkeypatch, tmp_path):
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\nhead -c 4 $2 | tail -c 3\n")
    tool.chmod(0o755)
    monkeypatch.setenv("NVDISASM", str(tool))
    assert run("show", f"{file}:axpy", "--target", "sass")[:2] == (0, "ELF\n")
    tool.write_text("#!/bin/sh\necho broken >&2; exit 3\n")
    status, _, err = run("show", f"{file}:axpy", "--target", "sass")
    assert (status, err) == (1, "python -m jaxwarp: nvdisasm: broken\n")


def test_types_of_generic_kernels(run, file):
    status, out, _ = run("show", f"{file}:twice", "--types", "array[wp.float64], wp.array(dtype=float64)")
    assert status == 0
    assert "f64" in out
    for types in ("array[float]", "array[float], 3", "array[float", "array[float], array[int]"):
        status, out, err = run("show", f"{file}:twice", "--types", types)
        assert (status, out) == (1, "")
        assert err.startswith("python -m jaxwarp: ")
    status, _, err = run("show", f"{file}:twice")
    assert status == 1
    assert "--types" in err


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere.py:axpy", "there is no such file"),
        ("no_such_module:axpy", "there is no such module"),
        ("{}:nothing", "it has axpy, twice, norms, reads, wrong"),
        ("{}", "expected a kernel"),
        ("{}:wrong", "nothing"),
    ],
)
def test_what_cannot_be_found_is_said(run, file, name, says):
    status, out, err = run("show", name.format(file))
    assert (status, out) == (1, "")
    assert says in err
    assert "Traceback" not in err


def test_a_file_that_fails_is_named(run, tmp_path):
    path = tmp_path / "fails.py"
    path.write_text("1 / 0\n")
    status, _, err = run("show", f"{path}:k")
    assert status == 1
    assert err == f"python -m jaxwarp: {path} cannot be run: ZeroDivisionError: division by zero\n"


def test_compile(run, file):
    found = json.loads(run("compile", f"{file}:norms", "--json")[1])
    assert found["code"][0]["bytes"] > 100
    found = json.loads(run("compile", f"{file}:norms", "--arch", "80,90", "--json")[1])
    assert [code["target"] for code in found["code"]] == ["sm_80", "sm_90"]
    assert all(code["registers"] > 0 for code in found["code"])
    status, _, err = run("compile", f"{file}:norms", "--arch", "7")
    assert status == 1
    assert "architecture '7'" in err


def test_bench(run, file):
    found = json.loads(run("bench", f"{file}:axpy", "--size", "1000", "--rounds", "2", "--value", "a=0.5", "--json")[1])
    assert found["threads"] == 1000
    assert found["bytes"] == 1000 * 4 * 3
    assert 0 < found["fastest"] <= found["seconds"]
    status, out, _ = run("bench", f"{file}:norms", "--shape", "v=3,4", "--shape", "index=3", "--shape", "out=3,4")
    assert status == 0
    assert out.startswith("norms, 12 threads on ")
    for wrong, says in {
        ("--shape", "z=3"): "no such argument",
        ("--value", "a"): "no such argument",
        ("--shape", "x=1,2,3"): "argument 'x'",
        ("--shape", "x=many"): "--shape x=many: expected positive integers",
        ("--shape", "x=-3"): "expected positive integers",
        ("--value", "a=much"): "--value a=much: expected a number",
    }.items():
        status, _, err = run("bench", f"{file}:axpy", *wrong)
        assert status == 1
        assert says in err
    status, _, err = run("bench", f"{file}:reads")
    assert status == 1
    assert "writes no array" in err


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["cache", "burn"], ["show"], ["bench", "f:k", "--size", "0"]])
def test_wrong_calls_have_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert "usage: python -m jaxwarp" in capsys.readouterr().err


def test_it_is_a_command(file):
    """In a process, its output read by a program that stops early."""
    command = f'"{sys.executable}" -m jaxwarp show "{file}:axpy" --target ptx | head -n 1'
    folder = os.path.dirname(os.path.dirname(jaxwarp.__file__))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment, check=True)
    assert (done.stdout, done.stderr) == ("//\n", "")
