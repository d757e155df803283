"""Names of Warp: those that do nothing, and those that are missing and say so."""

import ast
import contextlib
import importlib.util
import inspect
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from language import define

import jaxwarp as wp
from jaxwarp.frontend.text.refused import of_warp
from jaxwarp.host.idle import IDLE, ROWS
from jaxwarp.modules import MODULE_OPTIONS
from jaxwarp.types import SCALARS


def names_of_warp() -> set[str]:
    """The public names of the Warp that is installed: of its type stub, which lists all."""
    names = names_in("__init__.pyi")
    assert len(names) > 400
    return names


def names_in(*files: str) -> set[str]:
    """The public names of a file of the Warp that is installed: the first of these that there is."""
    found = importlib.util.find_spec("warp")
    if found is None or not found.submodule_search_locations:
        pytest.skip("warp-lang is not installed")
    there = [path for file in files if (path := Path(found.submodule_search_locations[0]) / file).exists()]
    if not there:
        pytest.skip("the package warp that is installed is not Warp")
    names: set[str] = set()
    for node in ast.parse(there[0].read_text()).body:
        match node:
            case ast.Import() | ast.ImportFrom():
                names |= {alias.asname for alias in node.names if alias.asname}
            case ast.FunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.AnnAssign(target=ast.Name() as target):
                names.add(target.id)
            case _:
                pass
    return {name for name in names if not name.startswith("_")}


def test_every_name_of_warp_is_there_or_says_what_to_do():
    silent = {name for name in names_of_warp() if not hasattr(wp, name) and of_warp(name) is None}
    assert silent == set()


@pytest.mark.parametrize(
    "name",
    ["GLTextureResource", "fabricarrayarray", "mesh_adjacency", "from_paddle", "timing_begin", "dense_gemm_batched"],
)
def test_a_missing_name_says_what_to_do(name):
    with pytest.raises(AttributeError, match=rf"^wp\.{name} is not there yet; .{{10}}") as caught:
        getattr(wp, name)
    assert caught.value.name is None, "Python would propose another name"


@pytest.mark.parametrize("module", ["utils", "optim"])
def test_names_of_modules_of_warp_are_there_or_say_what_to_do(module):
    ours = getattr(wp, module)
    for name in names_in(f"{module}.py", f"{module}/__init__.py"):
        if not hasattr(ours, name):
            with pytest.raises(AttributeError, match=rf"^wp\.{module}\.{name} is not there yet; .{{10}}"):
                getattr(ours, name)
    with pytest.raises(AttributeError, match=f"^module 'jaxwarp.{module}' has no attribute 'colours'"):
        ours.colours  # noqa: B018


def test_a_missing_name_in_a_kernel():
    @wp.kernel
    def k(x: wp.array[float]):
        x[wp.tid()] = wp.address_of(x)  # pyright: ignore[reportAttributeAccessIssue]

    with pytest.raises(wp.KernelError) as caught:
        k.ir()
    assert "address_of is not available" in caught.value.message
    assert caught.value.hint.startswith("kernels know no addresses")


def test_idle_names_take_what_warp_takes():
    assert wp.load_module(device="cpu", recursive=True) is None
    assert wp.is_peer_access_enabled("cpu", "cpu") is False
    with wp.ScopedMempool("cpu", enable=True), wp.ScopedLogLevel(wp.LOG_WARNING):
        wp.config.log_level = wp.LOG_INFO  # pyright: ignore[reportAttributeAccessIssue]
    assert wp.can_access("cpu", "cpu")
    with pytest.raises(wp.KernelError, match="cuda:99 cannot be used"):
        wp.can_access("cpu", "cuda:99")


def test_idle_names_are_warps():
    assert names_of_warp() >= set(ROWS)
    assert all(getattr(wp, name) is value and value.__doc__ for name, value in IDLE.items())


@pytest.fixture
def own_options():
    yield
    MODULE_OPTIONS.pop(__name__, None)


def test_module_options_reach_kernels(own_options):
    wp.set_module_options({"max_unroll": 3, "fast_math": True, "fuse_fp": False})

    @wp.kernel
    def k(x: wp.array[float]):
        s = 0.0
        for j in range(5):
            s += x[j]
        x[wp.tid()] = s

    @wp.kernel(module_options={"max_unroll": 8})
    def unrolled(x: wp.array[float]):
        s = 0.0
        for j in range(5):
            s += x[j]
        x[wp.tid()] = s

    assert "for" in str(k.ir())
    assert "for" not in str(unrolled.ir())
    assert k.options["fma"] is False
    found = wp.get_module_options()
    assert (found["max_unroll"], found["fast_math"], found["mode"]) == (3, True, wp.config.mode)


def test_module_options_of_debug_mode(own_options):
    @wp.kernel
    def k(x: wp.array[float], n: int):
        x[wp.tid() + n] = 1.0

    wp.set_module_options({"mode": "debug"}, module=__name__)
    with pytest.raises(wp.CheckError, match="k"):
        wp.launch(k, 4, [wp.zeros(4), 1])


def test_module_options_that_are_wrong():
    with pytest.raises(wp.KernelError, match="there is no option 'max_unrol'"):
        wp.set_module_options({"max_unrol": 3})
    with pytest.raises(wp.KernelError, match=r"config\.mode: expected 'release' or 'debug', got 'fast'"):
        wp.set_module_options({"mode": "fast"})
    with pytest.raises(wp.KernelError, match="expected a module"):
        wp.get_module_options("no.such.module")
    assert __name__ not in MODULE_OPTIONS


def test_events_measure_the_time_between():
    start, end = wp.Event(enable_timing=True), wp.Event("cpu", enable_timing=True)
    wp.record_event(start)
    np.linalg.inv(np.random.default_rng(0).random((100, 100)))
    assert wp.record_event(end) is end
    wp.wait_event(end)
    wp.synchronize_event(end)
    assert end.is_complete
    assert wp.get_event_elapsed_time(start, end) == (end.time - start.time) / 1e6 > 0.0
    assert wp.get_event_elapsed_time(end, start) < 0.0


def test_events_that_are_wrong():
    with pytest.raises(wp.KernelError, match="keeps no time"):
        wp.get_event_elapsed_time(wp.record_event(), wp.record_event())
    with pytest.raises(wp.KernelError, match="has not been recorded"):
        wp.get_event_elapsed_time(wp.Event(enable_timing=True), wp.Event(enable_timing=True))
    with pytest.raises(wp.KernelError, match="expected an Event, got 3"):
        wp.wait_event(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(wp.KernelError, match="Event: cuda:99 cannot be used"):
        wp.Event("cuda:99")
    with wp.ScopedStream(None) as stream:
        assert stream is None


def test_timers_print_and_keep_times():
    times: dict[str, list[float]] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed, wp.ScopedTimer("outer", dict=times) as outer:
        with wp.ScopedTimer("inner", dict=times) as inner:
            inner.extra_msg = "of two"
        with wp.ScopedTimer("off", active=False, dict=times):
            pass
        with wp.ScopedTimer("silent", print=False, dict=times, use_nvtx=True):
            pass
    first, second = printed.getvalue().splitlines()
    assert first == f"    inner took {inner.elapsed:.2f} ms of two"
    assert second == f"outer took {outer.elapsed:.2f} ms"
    assert times == {"outer": [outer.elapsed], "inner": [inner.elapsed], "off": [], "silent": times["silent"]}
    assert len(times["silent"]) == 1
    assert outer.elapsed > inner.elapsed > 0.0
    with pytest.raises(wp.KernelError, match="has no option colour"):
        wp.ScopedTimer("x", colour="red")


def test_a_detailed_timer_prints_a_profile():
    with contextlib.redirect_stdout(io.StringIO()) as printed, wp.ScopedTimer("x", detailed=True):
        sorted([3, 1, 2])
    assert "function calls" in printed.getvalue()


def test_a_transform_of_seven_numbers():
    t = wp.transform_expand(np.arange(1.0, 8.0))
    assert t == wp.transform(wp.vec3(1.0, 2.0, 3.0), wp.quat(4.0, 5.0, 6.0, 7.0))
    assert wp.transform_expand((1, 2, 3, 4, 5, 6, 7)) == t
    for wrong in ((1.0, 2.0), None, "1234567", np.ones((7, 2))):
        with pytest.raises((wp.errors.KernelTypeError, wp.errors.KernelValueError), match="expected seven numbers"):
            wp.transform_expand(wrong)


def test_diagnostics_name_versions_and_devices(capsys):
    wp.print_diagnostics()
    printed = capsys.readouterr().out
    assert np.__version__ in printed
    assert "jax devices" in printed


# Arguments of Warp's that functions here have not, or under another name, and why.
OTHER_ARGUMENTS = {
    "Device": "devices are not made",
    "Function": "functions are made by @func",
    "Graph": "graphs are made by captures",
    "Launch": "launches are made by launch(..., record_cmd=True)",
    "Kernel": "no text of kernels is transformed",
    "from_dlpack": "no opaque pointers are shared",
    "grad": "a function of the language: its argument has no name",
    "static": "a part of the language: its argument has no name",
    "struct": "a decorator: its argument has no name",
    "tile": "the type is that of an argument, the function makes tiles",
}


def _keywords(function: Any) -> set[str] | None:
    """The names of arguments; None: they are not known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL} - {"self"}


def test_functions_have_the_arguments_of_warps():
    warp: Any = pytest.importorskip("warp", reason="the comparison needs warp-lang")
    types = {"bool", "handle", *(t.name for t in SCALARS)}
    found = set()
    for name in dir(warp):
        theirs, ours = getattr(warp, name, None), getattr(wp, name, None)
        if name.startswith("_") or name in types or ours is None or not callable(theirs):
            continue
        expected, given = _keywords(theirs), _keywords(ours)
        if expected is not None and given is not None and not expected <= given:
            found.add(name)
    assert found == set(OTHER_ARGUMENTS)


def test_methods_have_the_arguments_of_warps():
    warp: Any = pytest.importorskip("warp", reason="the comparison needs warp-lang")
    for theirs, ours in (
        (warp.zeros(2, dtype=float, device="cpu"), wp.zeros(2, dtype=float)),
        (warp.Tape, wp.Tape),
        (warp.Stream, wp.Stream),
        (warp.Volume, wp.Volume),
        (warp.HashGrid, wp.HashGrid),
        (warp.Mesh, wp.Mesh),
        (warp.Bvh, wp.Bvh),
    ):
        for name in dir(theirs):
            is_internal = name.startswith("_") or name in ("dtype", "numpy", "record_launch")
            if is_internal or not hasattr(ours, name):
                continue
            expected, given = _keywords(getattr(theirs, name)), _keywords(getattr(ours, name))
            assert expected is None or given is None or expected <= given, (theirs, name)


@pytest.mark.parametrize(("where", "name", "near"), [
    ("", "lenght", "length"), ("", "flaot32", "float32"), ("utils", "array_scam", "array_scan"),
    ("sparse", "bsr_zeross", "bsr_zeros"), ("fem", "integrat", "integrate"), ("geometry", "cast_ray", "cast_rays"),
    ("optim", "Adan", "Adam"), ("optim.linear", "cgg", "cg"), ("autograd", "jacobia", "jacobian"),
    ("types", "vectr", "vector"), ("jax_experimental", "jax_kernl", "jax_kernel"),
    ("fem.linalg", "skew_prt", "skew_part"),
])  # fmt: skip
def test_a_misspelled_name_has_the_nearest_one(where, name, near):
    module = importlib.import_module(f"jaxwarp.{where}".rstrip("."))
    text = f"module '{module.__name__}' has no attribute '{name}'; did you mean {near}?"
    with pytest.raises(AttributeError, match=f"^{re.escape(text)}$"):
        getattr(module, name)
    assert not hasattr(module, "__nothing__")


@pytest.mark.parametrize(("text", "hint"), [
    ("wp.lenght(x[0])", "did you mean length?"),
    ("lenght(x[0])", "did you mean length?"),
    ("x[0].lenght", "did you mean length? functions are called: sin(x)"),
    ("float(x.shpe[0])", "did you mean shape?"),
])  # fmt: skip
def test_a_misspelled_name_in_a_kernel_has_the_nearest_one(text, hint):
    kernel = define(f"@wp.kernel\ndef k(x: wp.array[wp.vec3], y: wp.array[float]):\n    y[0] = {text}\n")["k"]
    with pytest.raises(wp.errors.KernelNameError) as caught:
        wp.launch(kernel, 1, inputs=[wp.zeros(1, dtype=wp.vec3), wp.zeros(1, dtype=float)])
    assert caught.value.hint.startswith(hint)
