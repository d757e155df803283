"""Texts and flags that choose how a function works: literal, named outside of the kernel, or of `static`."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelError

A = np.array([[4, 1, 1], [1, 3, 0], [1, 0, 2]], np.float32)
UPPER = np.linalg.cholesky(A).T


class Mode(enum.StrEnum):
    LOWER = "lower"
    UPPER = "upper"


class Plain(enum.Enum):
    UPPER = "upper"


class Options:
    mode = "upper"


MODE, CONSTANT, MODES, BY_NAME = "upper", wp.constant("upper"), ("lower", "upper"), {"mode": "upper"}
SHAPE, STORAGE, OFF, OFF_OF_NUMPY, AXIS, AXIS_OF_NUMPY = (3, 3), "shared", False, np.bool_(False), 1, np.int64(1)
LINE, SEPARATOR, END = "%d of %s\n", " - ", "!\n"


def factor(kernel):
    a = wp.array(A, dtype=float)
    wp.launch(kernel, dim=1, inputs=[a])
    return a.numpy()


def cases():
    inner = "upper"

    @wp.kernel
    def literal(a: wp.array2d[float]):
        t = wp.tile_load(a, shape=(3, 3))
        wp.tile_cholesky_inplace(t, "upper")
        wp.tile_store(a, t)

    @wp.kernel
    def of_the_module(a: wp.array2d[float]):
        t = wp.tile_load(a, shape=SHAPE, storage=STORAGE, bounds_check=OFF, aligned=OFF_OF_NUMPY)
        wp.tile_cholesky_inplace(t, MODE)
        wp.tile_store(a, t, bounds_check=OFF_OF_NUMPY)

    @wp.kernel
    def of_a_closure(a: wp.array2d[float]):
        wp.tile_store(a, wp.tile_cholesky(wp.tile_load(a, shape=(3, 3)), fill_mode=inner))

    @wp.kernel
    def constant(a: wp.array2d[float]):
        wp.tile_store(a, wp.tile_cholesky(wp.tile_load(a, shape=wp.static(SHAPE)), CONSTANT))

    @wp.kernel
    def static(a: wp.array2d[float]):
        t = wp.tile_cholesky(wp.tile_load(a, shape=(3, 3), storage=wp.static(STORAGE)), wp.static(BY_NAME["mode"]))
        wp.tile_store(a, t, bounds_check=wp.static(not OFF))

    @wp.kernel
    def element(a: wp.array2d[float]):
        wp.tile_store(a, wp.tile_cholesky(wp.tile_load(a, shape=(3, 3)), MODES[1]))

    @wp.kernel
    def attribute(a: wp.array2d[float]):
        wp.tile_store(a, wp.tile_cholesky(wp.tile_load(a, shape=(3, 3)), fill_mode=Options.mode))

    @wp.kernel
    def of_an_enumeration(a: wp.array2d[float]):
        wp.tile_store(a, wp.tile_cholesky(wp.tile_load(a, shape=(3, 3)), fill_mode=Mode.UPPER))

    @wp.kernel
    def of_a_plain_enumeration(a: wp.array2d[float]):
        wp.tile_store(a, wp.tile_cholesky(wp.tile_load(a, shape=(3, 3)), fill_mode=Plain.UPPER))

    return [literal, of_the_module, of_a_closure, constant, static, element, attribute, of_an_enumeration,
            of_a_plain_enumeration]  # fmt: skip


@pytest.mark.parametrize("kernel", cases(), ids=lambda k: k.name)
def test_texts_that_choose_a_mode(kernel):
    np.testing.assert_allclose(factor(kernel), UPPER, rtol=1e-5)


def test_systems_take_captured_modes():
    @wp.kernel
    def solve(a: wp.array2d[float], b: wp.array[float], x: wp.array[float]):
        factors = wp.tile_cholesky(wp.tile_load(a, shape=(3, 3)), MODE)
        wp.tile_store(x, wp.tile_cholesky_solve(factors, wp.tile_load(b, shape=3), fill_mode=Mode.UPPER))

    b, x = np.arange(1, 4, dtype=np.float32), wp.zeros(3, dtype=float)
    wp.launch(solve, 1, inputs=[wp.array(A), wp.array(b), x])
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(A, b), rtol=1e-5)


def test_axes_are_integers_of_any_kind():
    @wp.kernel
    def sums(a: wp.array2d[float], out: wp.array2d[float]):
        t = wp.tile_load(a, shape=(3, 3))
        wp.tile_store(out[0], wp.tile_sum(t, axis=AXIS))
        wp.tile_store(out[1], wp.tile_sum(t, axis=AXIS_OF_NUMPY))
        wp.tile_store(out[2], wp.tile_sum(t, axis=wp.static(AXIS)))

    out = wp.zeros((3, 3), dtype=float)
    wp.launch(sums, 1, inputs=[wp.array(A), out])
    np.testing.assert_array_equal(out.numpy(), [A.sum(axis=1)] * 3)


def test_texts_of_prints(capfd):
    @wp.kernel
    def say(x: wp.array[float]):
        print(1, 2, sep=SEPARATOR, end=END)
        print(1, 2, sep=wp.static("+"), end=wp.static("\n"))
        wp.printf(LINE, 3, SEPARATOR)
        wp.printf(wp.static("%d\n"), 4)
        print(wp.static("text"), Mode.UPPER)

    wp.launch(say, 1, inputs=[wp.zeros(1, dtype=float)])
    assert capfd.readouterr().out == "1 - 2!\n1+2\n3 of  - \n4\ntext upper\n"


def test_what_is_no_mode_is_refused():
    wrong = "uper"

    @wp.kernel
    def mode(a: wp.array2d[float]):
        wp.tile_store(a, wp.tile_cholesky(wp.tile_load(a, shape=(3, 3)), wrong))

    @wp.kernel
    def place(a: wp.array2d[float]):
        wp.tile_store(a, wp.tile_cholesky(wrong, MODE))

    with pytest.raises(KernelError, match=r'fill_mode must be "lower" or "upper", got \'uper\''):
        factor(mode)
    with pytest.raises(KernelError, match=r"A must be Tile, got the text 'uper'"):
        factor(place)
