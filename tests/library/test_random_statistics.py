"""Are the numbers of keys random? A chi-square, a correlation and a run test, on 10^7 numbers each.

A true generator fails one of them once in 10^5 times: each bound is at a deviation of 4.4.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxwarp as wp

STREAMS, DRAWS = 10_000, 1_000
BOUND = 4.4


@wp.kernel
def of_key(key: wp.PRNGKey, first: int, step: int, out: wp.array2d[wp.uint32]):
    i = wp.tid()
    state = wp.rand_init(key, first + step * i)
    for j in range(out.shape[1]):
        out[i, j] = wp.randu(state)


@wp.kernel
def of_keys(keys: wp.array[wp.PRNGKey], out: wp.array2d[wp.uint32]):
    i = wp.tid()
    state = wp.rand_init(keys[i])
    for j in range(out.shape[1]):
        out[i, j] = wp.randu(state)


@wp.kernel
def of_seed(seed: int, out: wp.array2d[wp.uint32]):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    for j in range(out.shape[1]):
        out[i, j] = wp.randu(state)


def drawn(kernel: wp.Kernel, *args: object) -> np.ndarray:
    call = wp.jax_kernel(kernel, launch_dims=STREAMS, output_dims=(STREAMS, DRAWS))
    return np.asarray(call(*args)[0])


@pytest.fixture(scope="module", params=["streams", "far apart", "keys"])
def numbers(request: pytest.FixtureRequest) -> np.ndarray:
    """One row for each stream."""
    key = jax.random.key(2024)
    if request.param == "keys":
        return drawn(of_keys, jax.random.split(key, STREAMS))
    return drawn(of_key, key, *((0, 1) if request.param == "streams" else (-(2**31), 2**18)))


# Each test looks along the numbers of a stream, and across streams: the n-th numbers of all of them.
ORDERS = pytest.mark.parametrize("order", ["along", "across"])


def ordered(numbers: np.ndarray, order: str) -> np.ndarray:
    return (numbers if order == "along" else numbers.T).reshape(-1)


def chi_square(values: np.ndarray, bins: int) -> float:
    """How many deviations the squared differences from equal counts are from what they should be."""
    counts = np.bincount(values, minlength=bins)
    expected = len(values) / bins
    found = ((counts - expected) ** 2 / expected).sum()
    return (found - (bins - 1)) / np.sqrt(2 * (bins - 1))


@pytest.mark.parametrize("shift", [0, 8, 16, 24])
def test_each_byte_is_uniform(numbers, shift):
    assert abs(chi_square((numbers.reshape(-1) >> shift) & 255, 256)) < BOUND


@ORDERS
def test_pairs_are_uniform(numbers, order):
    high = ordered(numbers, order) >> 26
    assert abs(chi_square(high[:-1] * 64 + high[1:], 4096)) < BOUND


@ORDERS
@pytest.mark.parametrize("distance", [1, 2, 17])
def test_neighbours_are_not_correlated(numbers, order, distance):
    x = ordered(numbers, order) / 2.0**32 - 0.5
    correlation = (x[:-distance] * x[distance:]).mean() * 12
    assert abs(correlation) * np.sqrt(len(x) - distance) < BOUND


@ORDERS
def test_runs_above_and_below_the_median(numbers, order):
    above = ordered(numbers, order) >= 2**31
    n, k = len(above), int(above.sum())
    runs = 1 + int((above[1:] != above[:-1]).sum())
    mean = 1 + 2 * k * (n - k) / n
    assert abs(runs - mean) / ((mean - 1) / np.sqrt(n)) < BOUND


def shared_places(numbers: np.ndarray) -> int:
    """Pairs of places after which two numbers are the same: of 10^7 random ones, one in a million such sets has any."""
    pairs = numbers[:, :-1].astype(np.uint64) << np.uint64(32) | numbers[:, 1:]
    pairs = np.sort(pairs, axis=None)
    return int((pairs[1:] == pairs[:-1]).sum())


def test_streams_do_not_overlap(numbers):
    assert shared_places(numbers) == 0


def test_those_of_seeds_do():
    """Why keys have a generator of their own: here 10^4 threads that draw 10^3 numbers meet thousands of times."""
    assert shared_places(drawn(of_seed, 5)) > 1000
