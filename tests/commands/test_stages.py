"""The list of stages is what runs: in its order, and nothing else that makes a kernel of a kernel."""

import importlib
import inspect
import pkgutil
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import profiled

import jaxwarp as wp
from jaxwarp import passes
from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.commands.main import main
from jaxwarp.commands.stages import stages

# What other functions call, too, wherever they are (`coarsen` runs while code is emitted); what is part of a stage.
HELPERS = {"without_failures", "silent", "coarsen", "in_order"}
INSIDE = {"eliminate", "failures_as"}


def entered(run):
    """The functions of the list that `run` enters, in the order in which it does last: tracing a call in JAX prepares
    the kernel once to look at it, before a batch or a derivative is made."""
    listed = Counter(f for stage in stages() for f in stage.functions)
    codes = {inspect.unwrap(f).__code__: f for f, n in listed.items() if n == 1 and f.__name__ not in HELPERS}
    seen = []

    def note(frame, event, _):
        found = codes.get(frame.f_code) if event == "call" else None
        if found in seen:
            seen.remove(found)
        if found is not None:
            seen.append(found)

    with profiled(note):
        run()
    return [f.__name__ for f in seen]


def in_order(names):
    """The names as the list has them."""
    return [f.__name__ for stage in stages() for f in stage.functions if f.__name__ in names]


def made():
    """A kernel that nobody has made before."""
    factor = float(np.random.default_rng().uniform())

    @wp.kernel
    def scaled(x: wp.array2d[float], y: wp.array2d[float]):
        i, j = wp.tid()
        y[i, j] = wp.sin(x[i, j]) * wp.static(factor)

    return scaled


def outside():
    wp.launch(made(), (4, 3), [wp.ones((4, 3), dtype=float), wp.zeros((4, 3), dtype=float)])


def function_of(kernel):
    return lambda x: wp.jax_kernel(kernel)(x)[0]


def in_jax(change, platform="cpu"):
    x = jnp.ones((2, 4, 3), jnp.float32)
    jax.jit(change(function_of(made()))).trace(x).lower(lowering_platforms=(platform,))


def gradient(function):
    return jax.vmap(jax.grad(lambda x: function(x).sum()))


@pytest.mark.release_mode("a stage more comes in debug mode, which another test has")
@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (outside, {"read_source", "lower", "require_in_range", "erase_rules", "emit_function", "compile_object"}),
        (lambda: in_jax(jax.vmap), {"lower", "batch", "erase_rules", "flatten", "emit_function"}),
        (lambda: in_jax(gradient), {"lower", "adjoint", "batch", "erase_rules", "emit_function"}),
    ],
)
def test_stages_run_in_order(run, expected):
    found = entered(run)
    assert expected <= set(found)
    assert found == in_order(found)


def test_stages_of_debug_mode(monkeypatch):
    monkeypatch.setattr(wp.config, "mode", "debug")
    found = entered(lambda: in_jax(jax.vmap))
    assert {"lower", "batch", "checked", "erase_rules", "emit_function"} <= set(found)
    assert found == in_order(found)


@pytest.mark.release_mode("stages of release mode")
def test_stages_on_gpus():
    if not nvrtc.available():
        pytest.skip("no NVRTC")
    found = entered(lambda: in_jax(jax.vmap, "cuda"))
    assert {"lower", "batch", "erase_rules", "with_extents", "print_cuda", "compile_cuda"} <= set(found)
    assert found == in_order(found)


def test_every_pass_is_listed():
    """Those of `passes/checks` are parts of `checked`."""
    listed = {f.__name__ for stage in stages() for f in stage.functions}
    names = ("prepared", "prepare", "fix_rounding", "coarse", "held_wide", "simplified", "run")
    for module in pkgutil.walk_packages(passes.__path__, f"{passes.__name__}."):
        if ".checks" in module.name:
            continue
        for name, function in vars(importlib.import_module(module.name)).items():
            is_here = getattr(function, "__module__", None) == module.name and not name.startswith("_")
            if is_here and inspect.isfunction(function) and name not in names:
                returns = inspect.signature(inspect.unwrap(function)).return_annotation
                assert returns != "Kernel" or name in listed | INSIDE, f"{module.name}.{name}"


def test_they_are_printed(capsys):
    assert main(["stages"]) == 0
    text = capsys.readouterr().out
    assert text.index("frontend.lower.lower") < text.index("passes.widen_half") < text.index("compile_object")
