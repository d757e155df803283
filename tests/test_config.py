"""Settings: what has a row can be set to what the row accepts, nothing else; Warp's names are taken."""

from __future__ import annotations

import importlib
import os
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import config
from jaxwarp.codegen import cache
from jaxwarp.document.pages import settings

ROWS = config.SETTINGS | config.OF_WARP


@pytest.fixture(autouse=True)
def _defaults():
    before = {name: getattr(config, name) for name in ROWS}
    yield
    for name, value in before.items():
        setattr(config, name, value)


@pytest.mark.parametrize("name", ROWS)
def test_default_is_accepted_and_set(name):
    assert getattr(wp.config, name) == ROWS[name].default
    setattr(wp.config, name, ROWS[name].default)


@pytest.mark.parametrize("name", config.SETTINGS)
def test_what_has_an_effect_is_documented_and_known_to_type_checkers(name):
    assert config.SETTINGS[name].doc
    assert name in config.__annotations__
    assert f"| `{name}` | {config.SETTINGS[name].expected} |" in settings()


WRONG = {
    "a name": ("mod", "debug", wp.errors.KernelNameError, "config has no setting 'mod'", "did you mean mode?"),
    "part of a name": ("unroll", 4, wp.errors.KernelNameError, "config has no setting 'unroll'",
                       "did you mean max_unroll?"),
    "nothing like it": ("xyz", 4, wp.errors.KernelNameError, "config has no setting 'xyz'", "and Warp's"),
    "a choice": ("mode", "fast", wp.errors.KernelValueError, "config.mode: expected 'release' or 'debug', got 'fast'",
                 "the default is jaxwarp.config.mode = 'release'"),
    "a choice misspelt": ("mode", "realease", wp.errors.KernelValueError, "expected 'release' or 'debug'",
                          "did you mean 'release'?"),
    "a type": ("max_unroll", "4", wp.errors.KernelTypeError, "config.max_unroll: expected an integer from 0, got '4'",
               "max_unroll = 16"),
    "a bool for a number": ("max_unroll", True, wp.errors.KernelTypeError, "got True", "max_unroll = 16"),
    "a number for a bool": ("verify_fp", 1, wp.errors.KernelTypeError, "expected True or False, got 1", "= False"),
    "out of range": ("optimization_level", 4, wp.errors.KernelValueError,
                     "expected an integer from 0 to 3 or None, got 4", "= None"),
    "an array": ("max_unroll", np.zeros(3), wp.errors.KernelTypeError, "expected an integer", "= 16"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(case):
    name, value, kind, message, hint = WRONG[case]
    before = getattr(wp.config, name, None)
    with pytest.raises(kind) as caught:
        setattr(wp.config, name, value)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert getattr(wp.config, name, None) == before, "it stays as it was"


def test_reading_an_unknown_name():
    with pytest.raises(AttributeError, match=r"config has no setting 'max_unrol'; did you mean max_unroll\?"):
        wp.config.max_unrol  # noqa: B018
    assert not hasattr(wp.config, "__path__")


def test_settings_cannot_be_deleted_and_the_module_can_be_reloaded():
    with pytest.raises(wp.errors.KernelNameError, match="cannot be deleted"):
        del wp.config.max_unroll
    wp.config.max_unroll = 3
    assert importlib.reload(wp.config).max_unroll == 16


def test_a_setting_has_its_effect():
    @wp.kernel
    def sums(y: wp.array[float]):
        total = 0.0
        for k in range(8):
            total += float(k)
        y[wp.tid()] = total

    wp.config.max_unroll = 4
    assert "for" in str(sums.ir())


def test_warps_settings_are_all_there():
    path = pytest.importorskip("warp.config").__file__
    theirs = runpy.run_path(path)  # as Warp starts: programs that other tests run set some
    names = {n for n in theirs if not n.startswith("_") and n in theirs["__annotations__"]}
    assert names - {"version"} <= set(ROWS)
    # The folder of the cache is found when Warp starts.
    for name in names - {"version", "cpu_compiler_flags", "kernel_cache_dir"}:
        assert theirs[name] == ROWS[name].default, name


def test_asking_for_what_does_not_happen_warns():
    with pytest.warns(UserWarning, match=r"config.verify_fp = True has no effect. Debug mode finds NaN") as caught:
        wp.config.verify_fp = True
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wp.config.verify_fp = False
        wp.config.quiet = True  # nothing is printed anyway


@pytest.mark.parametrize("name", config.OF_WARP)
def test_settings_without_an_effect_say_why(name):
    row = config.OF_WARP[name]
    assert row.doc.endswith(".")
    assert f"| `{name}` |" in settings()
    assert row.apply is None


def test_the_folder_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(tmp_path / "variable"))
    wp.config.kernel_cache_dir = str(tmp_path / "setting")
    key = cache.key("test_the_folder_of_the_cache")
    cache.put(key, b"code")
    assert [path.name for path in (tmp_path / "setting").iterdir()] == [f"{key}.bin"]
    assert cache.get(key) == b"code"
    wp.config.cache_kernels = False
    assert cache.get(key) is None
    wp.config.cache_kernels = True
    wp.config.kernel_cache_dir = None
    assert cache.folder() == tmp_path / "variable"
    wp.config.kernel_cache_dir = ""
    assert cache.folder() is None


def test_every_environment_variable_is_documented():
    package = Path(config.__file__).parent
    read = re.compile(r"""(?:environ\.get|environ|getenv)[\[(]"(\w+)"|^\w*VARIABLE = "(\w+)\"""", re.MULTILINE)
    files = [path for end in ("*.py", "*.cc", "*.h") for path in package.rglob(end)]
    found = {name for path in files for match in read.finditer(path.read_text()) for name in match.groups() if name}
    assert found == set(config.ENVIRONMENT)
    assert all(f"| `{name}` |" in settings() for name in found)


LOGS = """
import jax.numpy as jnp
import jaxwarp as wp
@wp.jax_kernel(outputs="y")
def logged_here(x: wp.array[float], y: wp.array[float]):
    y[wp.tid()] = 2.5 * x[wp.tid()]
logged_here(jnp.ones(3)).block_until_ready()
"""


def test_the_log_names_what_is_compiled_and_what_came_from_the_cache(tmp_path):
    (tmp_path / "program.py").write_text(LOGS)
    environment = {**os.environ, "JAXWARP_LOG": "compile", "JAXWARP_CACHE_DIR": str(tmp_path / "cache")}
    environment |= {"PYTHONPATH": str(Path(config.__file__).parents[1]), "JAX_PLATFORMS": "cpu"}

    def log():
        command = [sys.executable, "program.py"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return re.sub(r"in \d+\.\d+ s", "in T", done.stderr).splitlines()

    made = "jaxwarp: compiled logged_here to LLVM bitcode in T"
    assert log() == [made, "jaxwarp: compiled jaxwarp_logged_here for the CPU in T"]
    loaded = "jaxwarp: loaded the code of logged_here from the cache in T"
    assert log() == [loaded, "jaxwarp: loaded jaxwarp_logged_here for the CPU from the cache in T"]
