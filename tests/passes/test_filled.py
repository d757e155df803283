"""Outputs that threads clear themselves: nothing is left of what was there, and nothing else changes."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jaxwarp as wp
from jaxwarp.analysis.effects import analyze
from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.verify import verify
from jaxwarp.passes.extents import with_extents
from jaxwarp.passes.filled import are_elements, filled
from jaxwarp.passes.pipeline import prepare

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
SHAPE = (5, 6)
POISON = 77


@wp.kernel
def guarded(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    if i > 0 and j > 0 and i < x.shape[0] - 1:
        out[i, j] = x[i - 1, j] + x[i + 1, j] - x[i, j - 1]


@wp.kernel
def returning(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    if x[i, j] < 0.0:
        return
    if i == 2:
        out[i, j] = 5.0
        return
    if j > 1:
        out[i, j] = x[i, j]


@wp.kernel
def stored_again(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    if x[i, j] > 1.0:
        if j % 2 == 0:
            out[i, j] = 1.0
    elif j == 3:
        out[i, j] = 2.0
    if i == j:
        out[i, j] = x[i, j]


@wp.kernel
def chosen(x: wp.array2d[float], out: wp.array2d[bool], where: wp.array2d[int]):
    i, j = wp.tid()
    y = 0.0
    if x[i, j] > 0.0:
        out[i, j] = j > 2
        y = 2.0
    else:
        where[i, j] = j
        y = 3.0
    if y > 2.5 and i > 1:
        where[i, j] = i


@wp.kernel
def parts(x: wp.array2d[float], out: wp.array2d[wp.vec3]):
    i, j = wp.tid()
    if x[i, j] > 0.0:
        out[i, j] = wp.vec3(x[i, j], 1.0, 2.0)
        if j == 4:
            out[i, j][1] = 9.0
    elif i == 0:
        out[i, j][2] = 4.0


GUARDED = (guarded, returning, stored_again, chosen, parts)


def taken(kernel, shapes):
    return with_extents(prepare(kernel.specialize()), shapes)


def shapes_of(kernel):
    return [SHAPE + tuple(p.shape[2:]) for p in kernel.specialize().params]


@pytest.mark.parametrize("kernel", GUARDED, ids=lambda k: k.name)
def test_what_was_there_is_gone(kernel):
    before = taken(kernel, shapes_of(kernel))
    outputs = list(range(1, len(before.params)))
    made = verify(filled(before, outputs))
    effects = analyze(made)
    assert all(effects.covers(made.params[n], SHAPE, made.params[n].shape) for n in outputs)
    assert not all(analyze(before).covers(before.params[n], SHAPE, before.params[n].shape) for n in outputs)
    x = np.random.default_rng(0).normal(0, 2, SHAPE).astype(np.float32)
    expected = [np.zeros(tuple(p.shape), p.dtype.numpy) for p in before.params[1:]]
    found = [np.full_like(array, POISON) for array in expected]
    interpret(before, SHAPE, [x, *expected])
    interpret(made, SHAPE, [x, *found])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@wp.kernel
def in_a_loop(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    for k in range(int(x[i, j])):
        out[i, j] = float(k)


@wp.kernel
def elsewhere(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    if x[i, j] > 0.0:
        out[i, x.shape[1] - 1 - j] = x[i, j]


@wp.kernel
def turned(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    if x[i, j] > 0.0:
        out[j, i] = x[i, j]


@wp.kernel
def read_too(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    if x[i, j] > 0.0:
        out[i, j] = out[i, j] + x[i, j]


@wp.kernel
def neighbours_too(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    if x[i, j] > 0.0:
        out[i, j] = 1.0
    elif j > 0:
        out[i, j - 1] = 2.0


@pytest.mark.parametrize("kernel", [in_a_loop, elsewhere, turned, read_too, neighbours_too], ids=lambda k: k.name)
def test_what_is_not_each_threads_own_is_left(kernel):
    before = taken(kernel, [(6, 6)] * 2)
    assert filled(before, [1]) is before


def test_launches_of_a_thread_for_each_element():
    assert are_elements((5, 6), (5, 6, 3))
    assert not are_elements((5, 6), (5, 7))
    assert not are_elements((5, 6), (5,))
    n, m = export.symbolic_shape("n, m")
    assert are_elements((n, 6), (n, 6))
    assert not are_elements((n, 6), (m, 6))


@wp.kernel
def beside(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    if x[i, j] > 0.0:
        out[i, j] = 1.0
    else:
        out[i, j + 1] = 2.0


@wp.kernel
def across(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    if x[i, j] > 0.0:
        out[i, j] = 1.0
    else:
        out[j, i] = 2.0


@pytest.mark.parametrize("kernel", [beside, across], ids=lambda k: k.name)
def test_branches_that_store_elsewhere_prove_nothing(kernel):
    made = taken(kernel, [(6, 6)] * 2)
    assert not analyze(made).covers(made.params[1], (6, 6), (6, 6))


@pytest.mark.parametrize("platform", ["cpu", pytest.param("cuda", marks=needs_nvrtc)])
@pytest.mark.parametrize(("dims", "cleared"), [(SHAPE, ""), ((5, 7), "1")])
def test_launches_clear_what_threads_do_not(platform, dims, cleared, monkeypatch):
    monkeypatch.setenv("JAXWARP_CUDA_ARCHS", "90")
    call = jax.jit(wp.jax_kernel(guarded, launch_dims=SHAPE, output_dims=dims))
    checks = [export.DisabledSafetyCheck.custom_call("jaxwarp_launch")]
    module = export.export(call, platforms=[platform], disabled_checks=checks)(jnp.zeros(SHAPE)).mlir_module()
    assert re.findall(r"zero = dense<(\d*)>", module) == [cleared]


@pytest.mark.parametrize("kernel", GUARDED, ids=lambda k: k.name)
def test_on_the_cpu(kernel):
    """Memory that XLA gives out again holds what was there."""
    x = np.random.default_rng(1).normal(0, 2, (64, 48)).astype(np.float32)
    call = jax.jit(wp.jax_kernel(kernel, num_outputs=len(kernel.arguments) - 1))
    expected = [np.zeros((64, 48, *p.shape[2:]), p.dtype.numpy) for p in kernel.specialize().params[1:]]
    interpret(kernel.specialize(), x.shape, [x, *expected])
    for _ in range(4):
        for a, b in zip(call(x), expected, strict=True):
            np.testing.assert_array_equal(a, b)
