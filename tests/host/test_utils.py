"""`jaxwarp.utils`, against NumPy."""

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.types import element_scalar, element_shape

KEYS = (wp.int32, wp.uint32, wp.float32, wp.int64, wp.uint64, wp.float64)


def numbers(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.floating):
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(-50 if np.issubdtype(dtype, np.signedinteger) else 0, 50, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [wp.int32, wp.int64, wp.float32, wp.float64, wp.vec3, wp.vec2d])
def test_scans(dtype):
    scalar = element_scalar(dtype).numpy
    shape = (1000, *getattr(dtype, "shape", ()))
    values = numbers(scalar, shape)
    given, found = wp.array(values, dtype=dtype), wp.zeros(1000, dtype=dtype)
    expected = np.cumsum(values.astype(np.float64), axis=0)
    tolerance = 1e-3 if scalar == np.float32 else 1e-12
    wp.utils.array_scan(given, found)
    np.testing.assert_allclose(found.numpy(), expected, atol=tolerance)
    wp.utils.array_scan(given, given, inclusive=False)
    np.testing.assert_allclose(given.numpy()[1:], expected[:-1], atol=tolerance)
    assert not given.numpy()[0].any()


@pytest.mark.parametrize("dtype", [wp.int32, wp.float64])
@pytest.mark.parametrize("inclusive", [True, False])
def test_long_scans(dtype, inclusive):
    size = 2**18 + 5
    values = np.random.default_rng(0).integers(-50, 50, size).astype(dtype.numpy)
    sums = np.cumsum(values, dtype=dtype.numpy)
    expected = sums if inclusive else np.r_[0, sums[:-1]]
    given, found = wp.array(values), wp.zeros(size, dtype=dtype)
    wp.utils.array_scan(given, found, inclusive)
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(given.numpy(), values)
    # What is read may be what is written, as a whole or in part.
    base = wp.array(np.r_[values, 0].astype(dtype.numpy))
    wp.utils.array_scan(base[:-1], base[1:], inclusive)
    np.testing.assert_array_equal(base.numpy(), [values[0], *expected])
    wp.utils.array_scan(given, given, inclusive)
    np.testing.assert_array_equal(given.numpy(), expected)


def test_scans_write_only_to_the_parts_that_they_are_given():
    base = wp.full(8, -1, dtype=int)
    wp.utils.array_scan(wp.array([1, 0, 2, 0, 3, 0], dtype=int)[::2], base[1:7:2])
    assert base.list() == [-1, 1, -1, 3, -1, 6, -1, -1]
    wp.utils.array_scan(wp.array((), dtype=int), wp.zeros(0, dtype=int))


@pytest.mark.parametrize("dtype", KEYS)
def test_sorts_are_those_of_numpy(dtype):
    keys = numbers(dtype.numpy, 500)
    if dtype.is_float:
        keys[:4] = np.inf, -np.inf, 0.0, 0.0
    order = np.argsort(keys[:400], kind="stable")
    given, values = wp.array(keys, dtype=dtype), wp.array(np.arange(500), dtype=wp.int64)
    wp.utils.radix_sort_pairs(given, values, 400)
    np.testing.assert_array_equal(given.numpy(), [*keys[:400][order], *keys[400:]])
    np.testing.assert_array_equal(values.numpy(), [*order, *range(400, 500)])


def test_sorts_by_some_bits():
    keys = wp.array([8, 1, 10, 3, 4, 5, 6, 7], dtype=int)
    values = wp.array([1, 2, 3, 4, 5, 6, 7, 8], dtype=float)
    wp.utils.radix_sort_pairs(keys, values, 8, end_bit=2)
    assert keys.list() == [8, 4, 1, 5, 10, 6, 3, 7]
    assert values.list() == [1.0, 5.0, 2.0, 6.0, 3.0, 7.0, 4.0, 8.0]
    wp.utils.radix_sort_pairs(keys, values, 8, begin_bit=3)
    assert keys.list() == [4, 1, 5, 6, 3, 7, 8, 10]


def test_negative_zero_comes_before_zero():
    keys, values = wp.array([0.0, -0.0, -1.0], dtype=float), wp.array([0, 1, 2], dtype=int)
    wp.utils.radix_sort_pairs(keys, values, 3)
    assert values.list() == [2, 1, 0]


def test_the_sign_of_a_nan_says_at_which_end_it_is():
    numbers = np.array([1.0, np.nan, -np.inf, -np.nan, np.inf, -1.0], np.float32)
    numbers = np.copysign(numbers, [1, 1, -1, -1, 1, -1]).astype(np.float32)
    keys, values = wp.array(numbers), wp.array(np.arange(6, dtype=np.int32))
    wp.utils.radix_sort_pairs(keys, values, 6)
    assert values.list() == [3, 2, 5, 0, 4, 1]
    wp.utils.segmented_sort_pairs(keys, values, 6, wp.array([0, 3], dtype=int), wp.array([3, 6], dtype=int))
    assert values.list() == [3, 2, 5, 0, 4, 1]


def test_scans_keep_what_came_before_a_nan():
    x, sums = wp.array([1.0, -0.0, np.inf, -np.inf, 2.0], dtype=float), wp.zeros(5, dtype=float)
    for inclusive, expected in ((True, [1, 1, np.inf, np.nan, np.nan]), (False, [0, 1, 1, np.inf, np.nan])):
        wp.utils.array_scan(x, sums, inclusive=inclusive)
        np.testing.assert_array_equal(sums.numpy(), expected)


def test_sums_of_infinities_are_silent():
    x = wp.array([1.0, np.inf, -np.inf, 3e38, 3e38], dtype=float)
    assert np.isnan(wp.utils.array_sum(x))
    assert wp.utils.array_inner(x, x) == np.inf


@pytest.mark.parametrize("dtype", [wp.int32, wp.float32])
def test_sorts_of_segments(dtype):
    keys, values = wp.array([7, 2, 8, 4, 1, 6, 5, 3], dtype=dtype), wp.array(np.arange(8), dtype=int)
    wp.utils.segmented_sort_pairs(keys, values, 8, wp.array([0, 5], dtype=int), wp.array([4, 8], dtype=int))
    assert keys.list() == [2, 4, 7, 8, 1, 3, 5, 6]
    assert values.list() == [1, 3, 0, 2, 4, 7, 6, 5]
    wp.utils.segmented_sort_pairs(keys, values, 8, wp.array([2, 5, 5, 8], dtype=int))
    assert keys.list() == [2, 4, 1, 7, 8, 3, 5, 6]
    wp.utils.segmented_sort_pairs(keys, values, 8, wp.array([3], dtype=int))
    assert keys.list() == [2, 4, 1, 7, 8, 3, 5, 6]


def test_runs():
    values = wp.array([1, 1, 2, 3, 3, 3, 1, 9], dtype=int)
    found, lengths, count = wp.zeros(8, dtype=int), wp.zeros(8, dtype=int), wp.zeros(1, dtype=int)
    assert wp.utils.runlength_encode(values, found, lengths, value_count=7) == 4
    assert (found.list()[:4], lengths.list()[:4]) == ([1, 2, 3, 1], [2, 1, 3, 1])
    assert wp.utils.runlength_encode(values, found, lengths, run_count=count) is count
    assert count.list() == [5]
    assert wp.utils.runlength_encode(values[:0], found, lengths) == 0
    assert wp.utils.runlength_encode(values[::2], found[::2], lengths, run_count=count).list() == [4]
    assert found.list()[::2] == [1, 2, 3, 1]


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64, wp.vec2])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_sums_and_inner_products(dtype, axis):
    scalar, components = element_scalar(dtype).numpy, element_shape(dtype)
    a, b = numbers(scalar, (4, 5, *components), 1), numbers(scalar, (4, 5, *components), 2)
    one, other = wp.array(a, dtype=dtype), wp.array(b, dtype=dtype)
    products = a * b if not components else (a * b).sum(-1)
    if axis is None:
        np.testing.assert_allclose(wp.utils.array_sum(one), a.sum((0, 1)), rtol=1e-5)
        np.testing.assert_allclose(
            wp.utils.array_sum(one, value_count=7), a.reshape(20, -1)[:7].sum(0).squeeze(), rtol=1e-5
        )
        assert wp.utils.array_inner(one, other) == pytest.approx(products.sum(), rel=1e-5)
        return
    place = axis % 2
    found = wp.utils.array_sum(one, axis=axis)
    np.testing.assert_allclose(found.numpy(), a.sum(place, keepdims=True), rtol=1e-5, atol=1e-6)
    out = wp.zeros(found.shape, dtype=element_scalar(dtype))
    assert wp.utils.array_inner(one, other, out, count=3, axis=axis) is out
    part = products[:3] if place == 0 else products[:, :3]
    np.testing.assert_allclose(out.numpy(), part.sum(place, keepdims=True), rtol=1e-5, atol=1e-6)


def test_casts():
    found = wp.zeros((2, 2), dtype=wp.float64)
    wp.utils.array_cast(wp.array([[1, 2], [3, 4]], dtype=int), found)
    assert found.list() == [1.0, 2.0, 3.0, 4.0]
    wp.utils.array_cast(wp.array([5, 6, 7, 8], dtype=int), found)
    assert found.list() == [5.0, 6.0, 7.0, 8.0]
    whole = wp.zeros(6, dtype=int)
    wp.utils.array_cast(wp.array([1.9, -2.9, 1e20], dtype=float), whole[::2])
    assert whole.list() == [1, 0, -2, 0, 2**31 - 1, 0]
    row = wp.zeros(2)
    wp.utils.array_cast(wp.array([[1, 2], [3, 4]], dtype=wp.vec2d), row, count=1)
    assert row.list() == [1.0, 2.0]
    same = wp.zeros(3)
    wp.utils.array_cast(wp.ones(3), same, count=2)
    assert same.list() == [1.0, 1.0, 0.0]
    some = wp.zeros(4, dtype=float)
    places = wp.array([3, 0, 2], dtype=int)
    wp.utils.array_cast(wp.array([5, 6, 7], dtype=int), wp.indexedarray(some, [places]), count=2)
    assert some.list() == [6.0, 0.0, 0.0, 5.0]
    wp.utils.array_cast(wp.indexedarray(some, [wp.array([3, 0], dtype=int)]), found.flatten()[:2])
    assert found.list() == [5.0, 6.0, 7.0, 8.0]


def test_a_tape_records_casts_and_refuses_what_has_no_derivative():
    x, y = wp.ones(2, requires_grad=True), wp.zeros(2, dtype=wp.float64, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.utils.array_cast(x, y)
        for wrong in (lambda: wp.utils.array_scan(x, x), lambda: wp.utils.array_sum(x)):
            with pytest.raises(wp.KernelError, match="a tape is recording, and it has no derivative"):
                wrong()
        wp.utils.array_scan(wp.ones(2, dtype=int), wp.zeros(2, dtype=int))
    tape.backward(grads={y: wp.full(2, 3.0, dtype=wp.float64)})
    assert x.grad.list() == [3.0, 3.0]


def test_captured():
    keys, values, sums = wp.array([3, 1, 2], dtype=int), wp.array([0, 1, 2], dtype=int), wp.zeros(3, dtype=int)
    with wp.ScopedCapture() as capture:
        wp.utils.radix_sort_pairs(keys, values, 3)
        wp.utils.array_scan(keys, sums)
        with pytest.raises(wp.KernelError, match="cannot be read while a capture is made"):
            wp.utils.runlength_encode(keys, values, sums)
    assert keys.list() == [3, 1, 2]
    for given in ([9, 8, 7], [5, 6, 4]):
        keys.assign(given)
        wp.capture_launch(capture.graph)
        assert sums.list() == np.cumsum(sorted(given)).tolist()


ints, floats = wp.zeros(8, dtype=int), wp.zeros(8)
WRONG = {
    "In and out array storage sizes do not match (8 vs 3)": lambda: wp.utils.array_scan(ints, wp.zeros(3, dtype=int)),
    "data types do not match (int32 vs float32)": lambda: wp.utils.array_scan(ints, floats),
    "Unsupported data type: vec3h": lambda: wp.utils.array_scan(wp.zeros(2, wp.vec3h), wp.zeros(2, wp.vec3h)),
    "expected an array outside of JAX, got list": lambda: wp.utils.array_scan([1, 2], ints),
    "9 pairs, but keys have 8 elements and values 8": lambda: wp.utils.radix_sort_pairs(ints, floats, 9),
    "keys and values share memory": lambda: wp.utils.radix_sort_pairs(ints[:5], ints[3:], 5),
    "bit range [4, 2) for 32-bit keys": lambda: wp.utils.radix_sort_pairs(ints, floats, 3, 4, 2),
    "requires a contiguous keys array": lambda: wp.utils.radix_sort_pairs(ints[::2], floats, 3),
    "count must be an integer, got True": lambda: wp.utils.radix_sort_pairs(ints, floats, True),
    "count must be non-negative, got -1": lambda: wp.utils.radix_sort_pairs(ints, floats, -1),
    "Invalid segment range at index 1: from 2 to 9, of 8 elements": lambda: wp.utils.segmented_sort_pairs(
        floats, ints, 8, wp.array([0, 2, 9], dtype=int)
    ),
    "segments overlap: one ends at 4, another starts at 3": lambda: wp.utils.segmented_sort_pairs(
        floats, ints, 8, wp.array([0, 3], dtype=int), wp.array([4, 8], dtype=int)
    ),
    "segment_start_indices must be one-dimensional": lambda: wp.utils.segmented_sort_pairs(
        floats, ints, 8, wp.zeros((2, 2), dtype=int)
    ),
    "value_count is 9, but there are 8 values": lambda: wp.utils.runlength_encode(ints, ints, ints, value_count=9),
    "out array should have type float32": lambda: wp.utils.array_sum(floats, ints[:1]),
    "out array should have shape (1,)": lambda: wp.utils.array_sum(floats, wp.zeros(2)),
    "Unsupported data type: int32": lambda: wp.utils.array_inner(ints, ints),
    "must have the same shape, got (8,) and (2,)": lambda: wp.utils.array_inner(floats, wp.zeros(2)),
    "array_sum() axis 1 is out of bounds: the array has 1 axes": lambda: wp.utils.array_sum(floats, axis=1),
    "Array shapes do not match ((2, 4) vs (4, 2))": lambda: wp.utils.array_cast(
        floats.reshape(2, 4), ints.reshape(4, 2)
    ),
    "Cast count (8) exceeds the input size (8) or output size (3)": lambda: wp.utils.array_cast(floats, ints[:3]),
    "Partial cast is not supported": lambda: wp.utils.array_cast(floats.reshape(2, 4), ints.reshape(2, 4), 3),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_fit(text):
    with pytest.raises(wp.KernelError) as caught:
        WRONG[text]()
    assert text in caught.value.message
    assert ints.list() == [0] * 8


def test_read_only_arrays_are_not_written():
    import jax.numpy as jnp

    with pytest.raises(wp.KernelError, match="which never changes"):
        wp.utils.array_scan(floats, wp.from_jax(jnp.zeros(8)))


def test_functions_of_python_become_functions_of_kernels():
    scale = 3.0

    def plus(a, b):
        return a + b

    scaled, module = wp.utils.create_warp_function(lambda a, b: a * b + scale)
    added, _ = wp.utils.create_warp_function(plus)

    @wp.kernel
    def both(x: wp.array[float], y: wp.array[wp.vec2]):
        i = wp.tid()
        x[i] = scaled(x[i], 2.0)
        y[i] = added(y[i], wp.vec2(1.0))

    x, y = wp.array([1.0, 2.0], dtype=float), wp.zeros(2, dtype=wp.vec2)
    wp.launch(both, 2, [x, y])
    assert x.list() == [5.0, 7.0]
    assert y.numpy().tolist() == [[1, 1], [1, 1]]
    assert scaled(2.0, 2.0) == 7.0
    assert (added.name, module.name) == ("plus", __name__)
    with pytest.raises(wp.KernelError, match="create_warp_function: expected a function of Python, got 3"):
        wp.utils.create_warp_function(3)
