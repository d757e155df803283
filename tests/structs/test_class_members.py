"""Constants and functions of a struct's class, through the class, an instance, an element and a nested struct."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelNameError, KernelTypeError


@wp.func
def area_of(w: float, h: float):
    return w * h


@wp.struct
class Box:
    w: float
    h: float
    area = area_of
    SIDES = 4
    UP = wp.vec3(0.0, 0.0, 9.0)

    @wp.func
    def doubled(x: float):
        return 2.0 * x


@wp.struct
class Cube(Box):
    d: float
    SIDES = 6


@wp.struct
class Shelf:
    box: Box
    boxes: wp.array[Box]


@wp.kernel
def of_an_instance(b: Box, o: wp.array[float]):
    o[0] = b.area(b.w, b.h)
    o[1] = float(b.SIDES) + b.UP.z + b.doubled(b.w)


@wp.kernel
def of_elements(boxes: wp.array[Box], shelf: Shelf, cube: Cube, o: wp.array[float]):
    i = wp.tid()
    box = shelf.boxes[i]
    total = 0.0
    for _k in range(boxes[i].SIDES):
        total += boxes[i].area(boxes[i].w, boxes[i].h)
    total += box.doubled(box.w) + shelf.box.doubled(1000.0) + shelf.boxes[i].UP[2]
    o[i] = total + float(cube.SIDES) + wp.tile_sum(wp.tile_ones(shape=(box.SIDES,), dtype=float))[0]


def test_through_an_instance():
    o = wp.zeros(2, dtype=float)
    wp.launch(of_an_instance, 1, inputs=[Box(3.0, 5.0), o])
    assert o.numpy().tolist() == [15, 19]
    found = np.zeros(2, np.float32)
    of_an_instance.interpret(Box(3.0, 5.0), found, dim=1)
    assert found.tolist() == [15, 19]


def test_through_elements_and_nested_structs():
    held = [Box(1.0, 2.0), Box(3.0, 4.0)]
    wanted = [4 * b.w * b.h + 2 * b.w + 2000 + 9 + 6 + 4 for b in held]
    boxes, o = wp.array(held, dtype=Box), wp.zeros(2, dtype=float)
    wp.launch(of_elements, 2, inputs=[boxes, Shelf(held[0], boxes), Cube(), o])
    assert o.numpy().tolist() == wanted


def test_in_jax():
    def f(w, h):
        return wp.jax_kernel(of_an_instance, launch_dims=1, output_dims=2)(Box(w, h))[0].sum()

    assert jax.jit(f)(3.0, 5.0) == 34
    assert jax.grad(f)(3.0, 5.0) == 7
    np.testing.assert_array_equal(jax.vmap(f)(jnp.ones(2), jnp.arange(2.0)), [15, 16])


def test_what_an_instance_has_not():
    def refused(kernel, error, text):
        with pytest.raises(error, match=text):
            wp.launch(kernel, 1, inputs=[Box(), wp.zeros(1, dtype=float)])

    @wp.kernel
    def misspelled(b: Box, o: wp.array[float]):
        o[0] = float(b.SIDE)

    @wp.kernel
    def assigned(b: Box, o: wp.array[float]):
        b.SIDES = 3

    @wp.kernel
    def method(b: Box, o: wp.array[float]):
        b.assign(b)

    refused(misspelled, KernelNameError, r"Box has no field SIDE(.|\n)*did you mean SIDES\?")
    refused(assigned, KernelNameError, r"Box has no field SIDES(.|\n)*SIDES belongs to the class, and is a constant")
    refused(method, KernelNameError, r"Box has no field assign(.|\n)*its fields are w, h")


def test_a_method_that_is_no_function_of_the_language():
    @wp.struct
    class Plain:
        w: float

        def area(self):
            return self.w

    @wp.kernel
    def k(p: Plain, o: wp.array[float]):
        o[0] = p.area()

    with pytest.raises(KernelTypeError, match=r"decorate area with @func"):
        wp.launch(k, 1, inputs=[Plain(), wp.zeros(1, dtype=float)])
    assert Plain(2.0).area() == 2.0
