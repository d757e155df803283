"""Errors that programs for Warp may catch: kinds, and texts that are Warp's where they say the same."""

import numpy as np
import pytest

import jaxwarp as wp


@wp.kernel
def first(x: wp.array[float], y: wp.array[float]):
    y[wp.tid()] = x[0]


@wp.kernel
def too_many(x: wp.array[float]):
    x[0, 1] = 1.0


@wp.kernel
def no_step(x: wp.array[float]):
    y = x[0:2:0]
    x[0] = y[0]


@wp.kernel
def no_number(x: wp.array[wp.vec3]):
    x[0].y = x[1]


class FromAnotherDevice:
    def __dlpack_device__(self):
        return 123, 7

    def __dlpack__(self, **_options):
        raise AssertionError("it is not asked for what cannot be used")


class NoCapsule:
    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_options):
        return object()


def union():
    @wp.func
    def either(a: wp.array[float] | float) -> float:
        return 0.0


FLOATS = np.zeros(3, np.float32)
CASES = {
    "launch of integers": (lambda: wp.launch(first, 1, [wp.zeros(3, dtype=int), wp.zeros(3)]), RuntimeError, "int32"),
    "launch of two axes": (lambda: wp.launch(first, 1, [wp.zeros((3, 3)), wp.zeros(3)]), RuntimeError, "shape"),
    "indices": (lambda: wp.launch(too_many, 1, [wp.zeros(3)]), RuntimeError,
                "Incorrect number of indices specified for array indexing"),
    "step": (lambda: wp.launch(no_step, 1, [wp.zeros(3)]), ValueError, "Slice step cannot be zero"),
    "dim": (lambda: wp.launch(first, -1, [wp.zeros(3), wp.zeros(3)]), ValueError, "non-negative"),
    "shape": (lambda: wp.zeros(-1), ValueError, "Array shapes must be non-negative"),
    "large shape": (lambda: wp.zeros(2**31), ValueError,
                    "Array shapes must not exceed the maximum representable value of a signed 32-bit integer"),
    "reshape": (lambda: wp.array(FLOATS).reshape((4, 2)), RuntimeError,
                r"cannot reshape array of shape \(3,\) \(size 3\) into shape \(4, 2\) \(size 8\)"),
    "axis": (lambda: wp.utils.array_sum(wp.array(FLOATS), axis=2), IndexError,
             r"array_sum\(\) axis 2 is out of bounds"),
    "attribute": (lambda: wp.vec3().foo, AttributeError, "'vec3f' object has no attribute 'foo'$"),
    "matrix": (lambda: wp.types.matrix((2,), wp.float32), ValueError,
               r"Matrix shape must have exactly two dimensions, got 1 dimension in shape \(2,\)"),
    "union": (union, RuntimeError, "Union type annotations are only supported at Python scope"),
    "device": (lambda: wp.from_dlpack(FromAnotherDevice()), TypeError,
               "Unsupported source device for DLPack: device_type=123, device_id=7"),
    "capsule": (lambda: wp.from_dlpack(NoCapsule()), TypeError, "Expected a valid DLPack capsule, got object"),
    "slot": (lambda: wp.launch(no_number, 1, [wp.zeros(2, dtype=wp.vec3)]), TypeError,
             "Composite slot assignment expects value of type float32"),
    "types": (lambda: wp.utils.array_inner(wp.zeros(2), wp.zeros(2, dtype=wp.float64)), RuntimeError,
              r"A and b array data types do not match \(float32 vs float64\)$"),
    "names": (lambda: wp.jax_kernel(first, in_out_argnames=["y", "y"]), ValueError, "must not contain duplicate names"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_errors_have_the_kinds_and_texts_of_warp(name):
    wrong, kind, text = CASES[name]
    with pytest.raises(kind, match=text):
        wrong()


def test_every_error_of_a_kernel_is_a_runtime_error():
    kinds = [kind for kind in vars(wp).values() if isinstance(kind, type) and issubclass(kind, wp.KernelError)]
    assert len(kinds) > 8
    assert all(issubclass(kind, RuntimeError) for kind in kinds)
