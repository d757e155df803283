"""Settings: what has a row can be set to what the row accepts, nothing else; Warp's names are taken."""

from __future__ import annotations

import importlib
import runpy

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import config
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
