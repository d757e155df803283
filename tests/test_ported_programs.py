"""What large programs for Warp write that is not the kernel language: types as bases, notes on annotations, C++."""

import dataclasses
import typing

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.cuda.occupancy import fullest_block
from jaxwarp.errors import KernelTypeError


class Vec5(wp.types.vector(length=5, dtype=float)):
    """Five numbers."""


class Mat23(wp.types.matrix(shape=(2, 3), dtype=float)):
    pass


def test_classes_of_a_type_are_the_type():
    assert Vec5 is wp.types.vector(5, float)
    assert Mat23 is wp.types.matrix((2, 3), float)

    @wp.kernel
    def summed(x: wp.array[Vec5], m: Mat23, y: wp.array[float]):
        total = 0.0
        for k in range(5):
            total += x[wp.tid()][k]
        y[wp.tid()] = total + m[1, 2] + Vec5(1.0, 0.0, 0.0, 0.0, 0.0)[0]

    y = wp.zeros(2)
    m = Mat23(0.0, 0.0, 0.0, 0.0, 0.0, 10.0)
    wp.launch(summed, 2, [wp.array(np.ones((2, 5)), dtype=Vec5), m, y])
    assert y.list() == [16.0, 16.0]


def test_a_class_with_members_is_refused():
    with pytest.raises(KernelTypeError, match=r"class Named: expected .* as its only base, and no members, got n"):

        class Named(wp.vec3):
            def norm(self):
                return 0.0

    with pytest.raises(KernelTypeError, match="as its only base"):

        class Mixed(wp.vec3, dict):
            pass


def test_annotations_of_functions_of_python():
    def taken(a: wp.array | None, b: Vec5 | None = None, c: wp.float32 | None = None, d: wp.vec3 | None = None):
        return a, b, c, d

    hints = typing.get_type_hints(taken)
    assert set(typing.get_args(hints["b"])) == {Vec5, type(None)}
    assert set(typing.get_args(hints["d"])) == {wp.vec3, type(None)}


def test_notes_on_annotations():
    @dataclasses.dataclass
    class Model:
        mass: wp.array(ndim=2, dtype=float)

    (field,) = dataclasses.fields(Model)
    field.type.shape = ("nworld", "nbody")
    assert isinstance(field.type, wp.array)
    assert isinstance(field.type, wp.array2d)
    assert not isinstance(field.type, wp.array1d)
    assert field.type.shape == ("nworld", "nbody")
    assert field.type == wp.array(ndim=2, dtype=float)
    assert not hasattr(wp.array(ndim=2, dtype=float), "shape")
    with pytest.raises(AttributeError, match="ndim cannot be set"):
        field.type.ndim = 3


@wp.func_native(snippet="return of_another_library(x);")
def zeros_below(x: wp.uint64) -> int: ...


@wp.func_native("WP_TILE_SYNC();")
def wait():
    pass


def test_functions_in_cpp_are_refused_where_they_are_called():
    @wp.kernel
    def counted(y: wp.array[int]):
        y[wp.tid()] = zeros_below(wp.uint64(8))

    with pytest.raises(KernelTypeError, match=r"zeros_below is C\+\+ \(func_native\)") as caught:
        wp.launch(counted, 1, [wp.zeros(1, dtype=int)])
    assert "test_ported_programs.py" in str(caught.value)


def test_threads_of_a_block_need_not_wait():
    @wp.kernel
    def waiting(y: wp.array[int]):
        y[wp.tid()] = 1
        wait()
        y[wp.tid()] += 1

    y = wp.zeros(3, dtype=int)
    wp.launch(waiting, 3, [y])
    assert y.list() == [2, 2, 2]


def test_suggested_block_sizes():
    @wp.kernel
    def one(y: wp.array[float]):
        y[wp.tid()] = 1.0

    assert wp.get_suggested_block_size(one, "cpu") == (1, 1)
    with pytest.raises(KernelTypeError, match="expected a kernel"):
        wp.get_suggested_block_size(print)
    # 65,536 registers and 2,048 threads of a multiprocessor of an A100 or an H100 (CUDA's table).
    assert fullest_block(32, 80) == (1024, 2)
    assert fullest_block(64, 90) == (1024, 1)
    assert fullest_block(96, 90) == (128, 5)
    assert fullest_block(255, 90) == (256, 1)
    assert fullest_block(32, 99) == fullest_block(32, 90), "of one that is not in the table, the one before it"


def test_arrays_are_true_where_they_have_elements():
    other = wp.ones(2)
    assert wp.zeros(1) or other
    assert bool(wp.zeros(3))
    assert (wp.zeros(0) or other) is other
    assert (None or other) is other


@wp.kernel
def needs_both(x: wp.array[float], y: wp.array[float]):
    y[wp.tid()] = x[wp.tid()]


@pytest.mark.parametrize("dim", [0, (0,), (3, 0), [0, 2]])
def test_launches_without_threads_need_no_arrays(dim):
    wp.launch(needs_both, dim, [None, None])
    with pytest.raises(wp.KernelError, match="expected 2 arguments"):
        wp.launch(needs_both, dim, [None])


def test_launches_with_threads_do():
    with pytest.raises(wp.KernelError, match="x is None"):
        wp.launch(needs_both, 1, [None, wp.zeros(1)])


class Limits(wp.types.vector(length=7, dtype=wp.float32)):
    """Least, most, and others."""

    @wp.func
    def from_center(center: float, half: float):
        return Limits(center - half, center + half, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_functions_of_classes_of_vectors():
    @wp.kernel
    def kernel(a: wp.array[Limits]):
        a[0] = Limits.from_center(3.0, 1.0) + wp.max(Limits(0.0), a[0])

    a = wp.ones(1, dtype=Limits)
    wp.launch(kernel, 1, [a])
    assert a.numpy().tolist() == [[3.0, 5.0, 1.0, 1.0, 1.0, 1.0, 1.0]]
    with pytest.raises(KernelTypeError, match=r"class Others: .* has another from_center"):

        class Others(wp.types.vector(length=7, dtype=wp.float32)):
            @wp.func
            def from_center(center: float):
                return Limits(center)
