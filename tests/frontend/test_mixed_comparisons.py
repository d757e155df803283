"""Comparisons of numbers of different types: exact, or refused."""

import itertools
import operator

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from language import define, outputs

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError
from jaxwarp.types import SCALARS, bool_, exact_type, float32, float64, int16, int32, int64, uint8, uint32, uint64

SYMBOLS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
NUMBERS = [t for t in SCALARS if t is not bool_]
PAIRS = [(a, b) for a, b in itertools.permutations(NUMBERS, 2) if exact_type(a, b) is not None]


def values(t):
    """Ends, neighbours of powers of two, and values that others round to."""
    if t.is_float:
        found = [0.0, -0.0, 0.5, 1.0, -1.0, 255.0, 256.0, 2.0**24, 2.0**24 + 2, np.inf, -np.inf, np.nan]
        with np.errstate(over="ignore"):
            return np.array(found).astype(t.numpy)
    info = np.iinfo(t.numpy)
    found = [0, 1, -1, 127, 128, 255, 256, 257, 2**24 - 1, 2**24, 2**24 + 1, 2**31 - 1, 2**32 - 1, info.min, info.max]
    return np.array([v for v in found if info.min <= v <= info.max], t.numpy)


def exactly(symbol, a, b):
    """Python compares integers and floats by their values."""
    convert = lambda v: float(v) if v.dtype.kind == "f" or v.dtype == ml_dtypes.bfloat16 else int(v)  # noqa: E731
    return [[SYMBOLS[symbol](convert(x), convert(y)) for y in b] for x in a]


@pytest.mark.parametrize(("left", "right"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_every_pair(left, right):
    stores = "".join(f"    out[i, j, {n}] = a[i] {symbol} b[j]\n" for n, symbol in enumerate(SYMBOLS))
    arguments = f"a: wp.array[wp.{left}], b: wp.array[wp.{right}], out: wp.array3d[bool]"
    kernel = define(f"@wp.kernel\ndef k({arguments}):\n    i, j = wp.tid()\n{stores}")["k"]
    a, b = values(left), values(right)
    expected = np.stack([exactly(symbol, a, b) for symbol in SYMBOLS], axis=-1)
    found = outputs(kernel, (len(a), len(b)), a, b, np.zeros(expected.shape, bool))
    np.testing.assert_array_equal(found, expected)
    few = outputs(kernel, (4, 4), a[-5:-1], b[-5:-1], np.zeros((4, 4, len(SYMBOLS)), bool))  # stepped, too
    np.testing.assert_array_equal(few, expected[-5:-1, -5:-1])


def test_which_type_has_all_values():
    assert exact_type(float32, int32) is float64
    assert exact_type(float32, int16) is float32
    assert exact_type(uint32, int32) is int64
    assert exact_type(uint8, int16) is int16
    assert exact_type(int64, uint64) is None
    assert exact_type(float64, int64) is None
    for a, b in itertools.combinations(NUMBERS, 2):
        assert exact_type(a, b) is exact_type(b, a)


@wp.kernel
def inside(x: wp.array[float], radius: int, y: wp.array[float]):
    i = wp.tid()
    if x[i] < radius and i > 0.5 and i + 1 > 1.5:
        y[i] = x[i] * x[i]


def test_floats_beside_integers_in_a_program():
    x = jnp.array([1.0, 2.0, 3.5, 2.5])
    run = wp.jax_kernel(inside)
    np.testing.assert_array_equal(run(x, 3)[0], [0, 4, 0, 6.25])
    np.testing.assert_array_equal(jax.grad(lambda x: run(x, 3)[0].sum())(x), [0, 4, 0, 5])
    np.testing.assert_array_equal(jax.jvp(lambda x: run(x, 3)[0], (x,), (jnp.ones(4),))[1], [0, 4, 0, 5])


def test_what_no_type_holds_is_refused():
    @wp.kernel
    def mixed(x: wp.array[wp.int64], y: wp.array[bool]):
        y[0] = x[0] < 0.5

    with pytest.raises(KernelTypeError, match=r"lt: the constant 0\.5 cannot be used as int64"):
        mixed.ir()
