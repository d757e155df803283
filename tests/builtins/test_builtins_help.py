"""`help(wp.sin)` and `inspect.signature(wp.sin)`, for every function of the language."""

import inspect
import pydoc

import pytest

import jaxwarp as wp
from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS
from jaxwarp.library.names import LIBRARY, signatures


@pytest.mark.parametrize("name", [*FUNCTIONS, *INTRINSICS])
def test_builtins(name):
    function = getattr(wp, name)
    shown = pydoc.plain(pydoc.render_doc(function))
    assert function.signature in shown
    first, _, said = function.__doc__.partition("\n\n")
    assert first.startswith(f"{name}(")
    assert len(said.split()) >= 2
    assert "class" not in shown.split("\n\n")[1]
    assert function.__name__ == name


@pytest.mark.parametrize("name", [n for names in LIBRARY.values() for n in names])
def test_library(name):
    function = getattr(wp, name)
    assert len(function.__doc__.split()) > 3
    assert function.__doc__.split()[0] in pydoc.plain(pydoc.render_doc(function))
    assert inspect.signature(function).parameters
    shown = pydoc.plain(pydoc.render_doc(function)).splitlines()
    assert all(f"    {text}" in shown for text in signatures(name))


def test_signatures():
    assert str(inspect.signature(wp.sin)) == "(x: 'Float') -> 'Float'"
    assert list(inspect.signature(wp.clamp).parameters) == ["x", "low", "high"]
    assert inspect.signature(wp.tid).return_annotation == "int | tuple[int, ...]"
    assert next(iter(inspect.signature(wp.randf).parameters)) == "state"
    inspect.signature(wp.atomic_add)  # its text leaves out arguments: that of any call
    inspect.signature(type(wp.sin))
