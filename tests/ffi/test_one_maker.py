"""Every way to launch asks `code_of` for its code, and where nothing differs that decides, gets the same."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.ffi.lowering import call_attributes
from jaxwarp.ffi.primitive import launch_p
from jaxwarp.launches import code
from jaxwarp.launches.image import unpack_image
from jaxwarp.launches.on_memory import loaded_on
from jaxwarp.memory.host_scope import HOST
from jaxwarp.passes.launches.adding import adding

pytestmark = pytest.mark.release_mode("counts launches of release mode")
PACKAGE = Path(wp.__file__).parent
MAKERS = {"compile_cpu", "compile_cuda", "code_for"}
SHOWN = {"kernel.py", "commands/show.py"}  # by these, and never launched
SHAPE = (12, 3)


_factors = itertools.count(2)


def scaled():
    """A kernel that nobody has launched, and its factor."""
    factor = float(next(_factors))

    @wp.kernel
    def scaled(x: wp.array2d[float], y: wp.array2d[float]):
        i, j = wp.tid()
        y[i, j] = factor * x[i, j] + 1.0

    return scaled, factor


@pytest.fixture
def made(monkeypatch):
    """The keys that the maker is asked with, and what it has made for each."""
    found, real = {}, code._made

    def make(key):
        made = found[key] = real(key)
        return made

    make.__wrapped__ = real.__wrapped__
    monkeypatch.setattr(code, "_made", make)
    return found


def floats():
    return np.linspace(0, 1, 36, dtype=np.float32).reshape(SHAPE)


def jitted(kernel):
    return jax.jit(lambda x: wp.jax_kernel(kernel)(x)[0])(floats())


def exported(kernel):
    run = jax.jit(lambda x: wp.jax_kernel(kernel)(x)[0])
    return jax.export.export(run, disabled_checks=wp.export_checks())(floats()).call(floats())


def eager(kernel):
    y = wp.zeros(SHAPE, dtype=float)
    wp.launch(kernel, SHAPE, [wp.array(floats())], [y])
    return y.numpy()


def kept(kernel):
    y = wp.zeros(SHAPE, dtype=float)
    wp.launch(kernel, SHAPE, [wp.array(floats())], [y], record_cmd=True).launch()
    return y.numpy()


def captured(kernel):
    x, y = wp.array(floats()), wp.zeros(SHAPE, dtype=float)
    with wp.ScopedCapture() as capture:
        wp.launch(kernel, SHAPE, [x], [y])
    wp.capture_launch(capture.graph)
    return y.numpy()


def recorded(kernel):
    y = wp.zeros(SHAPE, dtype=float)
    with wp.Tape():
        wp.launch(kernel, SHAPE, [wp.array(floats())], [y])
    return y.numpy()


def in_a_program(kernel):
    def run(x: wp.array2d[float], y: wp.array2d[float]):
        wp.launch(kernel, SHAPE, [x], [y])

    return wp.jax_callable(run, output_dims=SHAPE)(floats())[0]


def in_a_callback(kernel):
    def run(x: wp.array2d[float], y: wp.array2d[float]):
        wp.launch(kernel, SHAPE, [x], [y])

    return wp.jax_callable(run, output_dims=SHAPE, graph_mode=wp.GraphMode.NONE)(floats())[0]


WAYS = (jitted, exported, eager, kept, captured, recorded, in_a_program, in_a_callback)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_each_way_asks_the_maker(way, made):
    kernel, factor = scaled()
    np.testing.assert_allclose(way(kernel), factor * floats() + 1, rtol=1e-6)
    ours = [key for key in made if key.kernel.name == "scaled"]
    assert ours
    assert {key.kernel for key in ours} == {ours[0].kernel}


def test_all_ways_run_the_same_code(made):
    kernel, _ = scaled()
    for way in WAYS:
        way(kernel)
    assert len({key._replace(outputs=()) for key in made}) == 1  # in programs of XLA's, outputs hold nothing
    assert len({found.bitcode for found in made.values()}) == 1
    assert len({(found.geometry, found.grid, found.grain, found.cut) for found in made.values()}) == 1
    assert {found.cleared for found in made.values()} == {()}


def test_the_machine_code_is_that_of_the_image():
    kernel, _ = scaled()
    (equation,) = [e for e in jax.make_jaxpr(wp.jax_kernel(kernel))(floats()).eqns if e.primitive is launch_p]
    launch = equation.params["launch"]
    _, payload = unpack_image(call_attributes(launch, [SHAPE], "cpu")["image"])
    key = code.key_of(launch, (SHAPE, SHAPE))
    assert code.code_of(key).bitcode == payload
    # Options of CUDA decide nothing on the CPU.
    held = loaded_on(HOST, key)
    assert loaded_on(HOST, key._replace(options=CudaOptions(64))) is held


def test_the_reverse_of_a_launch_is_made_as_in_jax(made):
    """The launch is that of JAX, but for cotangents of what is only read: it adds to what is there."""
    kernel, _ = scaled()
    x, y = wp.array(floats(), requires_grad=True), wp.zeros(SHAPE, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, SHAPE, [x], [y])
    tape.backward(grads={y: wp.ones(SHAPE, dtype=float)})
    on_tape = {key for key in made if key.kernel.name != "scaled"}
    made.clear()
    found = jax.jit(jax.grad(lambda x: wp.jax_kernel(kernel)(x)[0].sum()))(floats())
    np.testing.assert_array_equal(x.grad.numpy(), found)
    in_jax = {key.kernel.name: key for key in made}
    (key,) = on_tape
    like = in_jax[key.kernel.name]
    (place,) = like.outputs
    assert key == like._replace(outputs=(), kernel=key.kernel)
    assert str(key.kernel) == str(adding(like.kernel, (place,)))


def test_launches_are_cut_alike():
    """Outside of JAX, too, extents decide how a launch that adds to shared elements is cut."""

    @wp.kernel
    def counted(x: wp.array[int], bins: wp.array[float]):
        i = wp.tid()
        for k in range(3):
            wp.atomic_add(bins, x[k], float(x[i] * k))

    call = wp.jax_kernel(counted, launch_dims=4096, in_out_argnames=["bins"])
    for bins in (8, 1 << 20):
        given = jnp.zeros(4096, int), jnp.zeros(bins)
        (equation,) = [e for e in jax.make_jaxpr(call)(*given).eqns if e.primitive is launch_p]
        launch, shapes = equation.params["launch"], ((4096,), (bins,))
        attributes = call_attributes(launch, shapes, "cpu")
        words = loaded_on(HOST, code.key_of(launch, shapes))._words[4:8]
        assert words == [attributes[name] for name in ("grain", "alone", "pieces", "together")]


def test_nobody_else_makes_code():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        place, text = path.relative_to(PACKAGE), path.read_text()
        if place.parts[0] != "codegen" and re.search(rf"\b({'|'.join(MAKERS)})\(", text):
            found.add(str(place))
    assert found == {"launches/code.py", *SHOWN}
