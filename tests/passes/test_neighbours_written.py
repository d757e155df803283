"""Gradients of what reads neighbours, however these are written: no atomics, and the sums are right."""

from __future__ import annotations

from typing import Any

import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_gathered import arrays_for, atomics, launches_of, needs_nvrtc

import jaxwarp as wp
from jaxwarp.codegen.abi import NO_CUDA_OPTIONS
from jaxwarp.codegen.cuda import code_for
from jaxwarp.errors import OutOfRangeError
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes import pipeline
from jaxwarp.passes.gathered import ON_CPUS, Price, gathered


@wp.func
def by_remainder(i: int, n: int):
    return (i + n - 1) % n, (i + 1) % n


@wp.func
def by_remainder_of_negative(i: int, n: int):
    return (i - 1) % n, (i + 1) % n


@wp.func
def by_where(i: int, n: int):
    return wp.where(i == 0, n - 1, i - 1), wp.where(i == n - 1, 0, i + 1)


@wp.func
def by_choice(i: int, n: int):
    return i - 1 if i > 0 else n - 1, i + 1 if i < n - 1 else 0


@wp.func
def by_if_that_sets(i: int, n: int):
    west, east = i - 1, i + 1
    if west < 0:
        west = n - 1
    if east >= n:
        east = 0
    return west, east


@wp.func
def by_if_that_adds(i: int, n: int):
    west, east = i - 1, i + 1
    if i == 0:
        west += n
    if east == n:
        east -= n
    return west, east


@wp.func
def by_early_return(i: int, n: int):
    if i == 0:
        return n - 1, (i + 1) % n
    if i == n - 1:
        return i - 1, 0
    return i - 1, i + 1


@wp.func
def by_extremes(i: int, n: int):
    return wp.max(i - 1, 0), wp.min(i + 1, n - 1)


@wp.func
def by_clamp(i: int, n: int):
    return wp.clamp(i - 1, 0, n - 1), wp.clamp(i + 1, 0, n - 1)


@wp.func
def from_the_end(i: int, n: int):
    return i - 1, i + 1 - n


@wp.func
def by_quotient(i: int, n: int):
    return i - 1 - ((i - 1) // n) * n, i + 1 - ((i + 1) // n) * n


@wp.func
def by_truth(i: int, n: int):
    return i - 1 + n * int(i == 0), (i + 1) * int(i != n - 1)


@wp.func
def mirrored(i: int, n: int):
    return wp.abs(i - 1), n - 1 - wp.abs(n - 2 - i)


PERIODIC = [by_remainder, by_remainder_of_negative, by_where, by_choice, by_if_that_sets, by_if_that_adds,
            by_early_return, from_the_end, by_quotient, by_truth]  # fmt: skip
STOPPING = [by_extremes, by_clamp]
FORMS = [*PERIODIC, *STOPPING, mirrored]


def places(form: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    i = np.arange(n)
    if form in PERIODIC:
        return (i - 1) % n, (i + 1) % n
    if form is mirrored:
        return np.abs(i - 1), n - 1 - np.abs(n - 2 - i)
    return np.maximum(i - 1, 0), np.minimum(i + 1, n - 1)


def kernels_of(form: Any) -> tuple[Any, Any]:
    """Kernels that get the extent from an array, and by value."""

    @wp.kernel
    def of_shape(u: wp.array[float], v: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        west, east = form(i, u.shape[0])
        out[i] = u[west] * v[i] + 3.0 * v[east]

    @wp.kernel
    def of_number(u: wp.array[float], v: wp.array[float], n: int, out: wp.array[float]):
        i = wp.tid()
        west, east = form(i, n)
        out[i] = u[west] * v[i] + 3.0 * v[east]

    return of_shape, of_number


def pullback(form: Any, n: int, is_number: int) -> tuple[Any, list[Any], list[np.ndarray]]:
    """A function of u, v and a cotangent that returns their cotangents; arguments; and what NumPy makes of them."""
    call = wp.jax_kernel(kernels_of(form)[is_number])
    more = (n,) if is_number else ()

    def pulled(u: Any, v: Any, c: Any) -> Any:
        return jax.vjp(lambda u, v: call(u, v, *more)[0], u, v)[1](c)

    rng = np.random.default_rng(n)
    u, v, c = rng.integers(-4, 5, (3, n)).astype(np.float32)
    west, east = places(form, n)
    of_u, of_v = np.zeros_like(u), c * u[west]
    np.add.at(of_u, west, c * v)
    np.add.at(of_v, east, 3 * c)
    return pulled, [*map(jnp.asarray, (u, v, c))], [of_u, of_v]


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_gradients_have_no_atomics_and_are_right_on_the_cpu(form: Any):
    cases = [
        pullback(form, n, is_number) for n in (1, 2, 3, 5) if n > 1 or form is not mirrored for is_number in (0, 1)
    ]
    with pipeline.watching() as ran:
        found = jax.jit(lambda given: [pulled(*g) for (pulled, _, _), g in zip(cases, given, strict=True)])(
            [given for _, given, _ in cases]
        )
    for sums, (_, _, expected) in zip(found, cases, strict=True):
        for a, b in zip(sums, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    made = [each.after for each in ran if each.function is gathered]
    assert len(made) >= len(cases)
    # Of one element it is the thread's own: no atomic, though the IR still has one.
    assert sum(atomics(each) > 0 for each in made) <= (2 if form in STOPPING else 0)


@pytest.mark.parametrize("is_number", [False, True])
def test_a_neighbour_that_is_no_element_is_refused(is_number: bool):
    u = jnp.ones(1, jnp.float32)
    with pytest.raises(OutOfRangeError):
        wp.jax_kernel(kernels_of(mirrored)[is_number])(u, u, *(1,) * is_number)


@needs_nvrtc
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_gradients_have_no_atomics_and_are_right_on_gpus(form: Any):
    for n in (2, 5):
        for is_number in (False, True):
            pulled, given, _ = pullback(form, n, is_number)
            kernel, grid, zeros = launches_of(pulled, *given)[-1]
            known = {i: n for i, p in enumerate(kernel.params) if p.dtype.is_int}
            assert len(known) == is_number
            expected = arrays_for(kernel)
            for i in (*zeros, *known):
                expected[i][...] = known.get(i, 0)
            found = [a.copy() for a in expected]
            interpret(kernel, grid, expected)
            code = code_for(kernel, grid, [a.shape for a in found], 32, NO_CUDA_OPTIONS, zeros=zeros, numbers=known)
            assert "atomic" not in code.source
            if n == 5:
                hostcuda.run_code(kernel, code, grid, found)
                for a, b in zip(expected, found, strict=True):
                    np.testing.assert_array_equal(b, a)


@needs_nvrtc
def test_a_program_for_gpus_knows_its_numbers():
    def text(more: Any) -> str:
        call = wp.jax_kernel(kernels_of(by_where)[True])

        def pulled(u: Any, v: Any, c: Any, n: Any) -> Any:
            return jax.vjp(lambda u, v: call(u, v, more or n)[0], u, v)[1](c)

        array, number = jax.ShapeDtypeStruct((7,), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
        with pipeline.watching() as ran:
            jax.jit(pulled).trace(array, array, array, number).lower(lowering_platforms=("cuda",))
        return [atomics(each.after) for each in ran if each.function is gathered][-1]

    assert text(7) == 0
    assert text(None) > 0  # a number that is known when the program runs
    assert text(5) == 0  # fewer threads wrap


def test_a_number_that_is_not_the_extent():
    """Threads wrap elsewhere, and some elements get nothing."""
    call = wp.jax_kernel(kernels_of(by_choice)[True])
    u, v, c = (jnp.asarray(a, jnp.float32) for a in np.random.default_rng(3).integers(-4, 5, (3, 6)))
    expected = []
    for n in (1, 4):
        i = np.arange(6)
        west, east = np.where(i > 0, i - 1, n - 1), np.where(i < n - 1, i + 1, 0)
        of_u, of_v = np.zeros(6), np.asarray(c * u[west])
        np.add.at(of_u, west, c * v)
        np.add.at(of_v, east, 3 * c)
        expected.append([of_u, of_v])
    pulled = jax.jit(lambda *a: [jax.vjp(lambda u, v, n=n: call(u, v, n)[0], *a[:2])[1](a[2]) for n in (1, 4)])
    np.testing.assert_array_equal(pulled(u, v, c), expected)


@wp.kernel
def stepped(u: wp.array[float], step: int, out: wp.array[float]):
    i = wp.tid()
    out[i] = u[i] * float(step)


def test_numbers_that_place_nothing_make_no_code_of_their_own():
    call = wp.jax_kernel(stepped)
    texts = set()
    for step in (1, 2):
        traced = jax.jit(jax.grad(lambda u, s=step: jnp.sum(call(u, s)[0]))).lower(jnp.ones(4, jnp.float32))
        texts.add(traced.as_text().split("image = ")[1].split(",")[0])
    assert len(texts) == 1


@wp.kernel
def after(u: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = 5.0 * u[(i + 1) % u.shape[0]]


def test_many_shapes_share_code():
    call = wp.jax_kernel(after)

    @jax.jit
    def pulled(u: Any) -> Any:
        return jax.vjp(lambda u: call(u)[0], u)[1](u)[0]

    def seen(n: int) -> int:
        with pipeline.watching() as ran:
            pulled.lower(jnp.ones(n, jnp.float32))
        return sum(each.function is gathered for each in ran)

    gathers = [seen(n) for n in range(3, 14)]
    assert gathers[0] >= 1
    assert gathers[-1] == 0
    np.testing.assert_array_equal(pulled(jnp.ones(13, jnp.float32)), np.full(13, 5.0))


@wp.kernel
def dear(u: wp.array[float], out: wp.array[float]):
    i, n = wp.tid(), u.shape[0]
    value = wp.sin(u[i]) * wp.exp(u[i]) + wp.tanh(u[i])
    for k in range(-2, 3):
        wp.atomic_add(out, wp.clamp(i + k, 0, n - 1), value)


def test_dear_values_are_computed_once():
    kernel = pipeline.prepare(dear.specialize())
    shapes = [(100,), (100,)]
    assert atomics(gathered(kernel, (100,), (), shapes, {}, Price(1e6, 0))[0]) == 0
    assert gathered(kernel, (100,), (), shapes, {}, ON_CPUS) == (kernel, (100,))
