"""Wrong arguments of functions on tiles: errors that name the function, the argument and the user's line."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from tilekit import body_kernel

import jaxwarp as wp
from jaxwarp.errors import InternalError, KernelError
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS

PACKAGE = Path(wp.__file__).parent
FUNCTIONS = sorted(n for n in INTRINSICS if n.startswith("tile") or n == "untile")
BEFORE = """
@wp.func
def f(z: float):
    return z

@wp.func
def nothing(z: float):
    z += 1.0

@wp.struct
class Pair:
    x: float
"""
NAMES = """
t = wp.tile_load(a, shape=(3, 3))
q = wp.tile_ones(shape=3, dtype=float)
v = wp.tile_zeros(shape=(2, 4), dtype=wp.vec2)
numbers = wp.tile_zeros(shape=3, dtype=int)
s = wp.tile_stack(4, float)
x = a[0, 0]
"""
ODD = [
    "", "1", "t", "q, q", "t, t, t", "'x'", "t, 'x'", "t, t, 'x'", "a", "a, 3", "a, (2.5, 1)", "a, (0, 1)",
    "a, (1,) * 5", "a, (2, 2), storage='disk'", "a, (2, 2), bounds_check=x", "x", "None", "t, (0, 0)", "f, t",
    "t, f", "t, t, f", "t, x", "v, v", "t, 5", "t, 0, 0, v, True", "a, q, (2, 2)", "a, numbers, (3, 3), axis=7",
    "s, v, True", "(x, 2)", "-3", "t, axis=x", "f, t, axis=9", "t, int", "t, Pair", "print, t", "f, t, t",
    "t, bogus=1", "t, fill_mode='middle'", "3, 1.5, 2", "(1000, 1000), float", "10, wp.rand_init(1), min=3",
    "0, 10, 0", "9999999999", "3, dtype='double'",
]  # fmt: skip


def kernel(text: str) -> wp.Kernel:
    return body_kernel("a: wp.array2d[float]", f"{NAMES}{text}", BEFORE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_odd_arguments(name):
    """Each is accepted, or refused at the user's line; an error of our own is another class."""
    refusals = {}
    for arguments in ODD:
        call = f"wp.{name}({arguments})"
        try:
            kernel(call).specialize()
        except KernelError as error:
            refusals[call] = error
    for call, error in refusals.items():
        assert not isinstance(error, InternalError), call
        assert error.loc is not None, call
        assert call.replace(" ", "") in str(error).replace(" ", ""), call
        frames = [f.filename for f in traceback.extract_tb(error.__traceback__)]
        assert not [f for f in frames if Path(f).is_relative_to(PACKAGE)], call


MESSAGES = {
    "wp.tile_zeros(3, dtype='double')": "tile_zeros: dtype must be type, got the text 'double'",
    "wp.tile_empty((0, 2))": "tile_empty: an extent must be positive, got 0",
    "wp.tile_empty(x)": "tile_empty: an extent must be an integer",
    "wp.tile_view(t, 'x')": r"tile_view: offset must be int \| tuple\[int, ...\], got the text 'x'",
    "wp.tile_astype(t, Pair)": r"tile_astype: tile\[float32, 3, 3\] cannot be converted to Pair",
    "wp.tile_stack((2, 2), float)": "tile_stack: capacity must be an integer that is known before the kernel runs",
    "wp.tile(1.0, preserve_type=x)": "tile: preserve_type must be True or False that is known",
    "wp.tile_axpy(t, t, t)": "tile_axpy: alpha must be a number, got tile",
    "wp.tile_map(t, t)": "tile_map: op must be a function of the kernel language, got tile",
    "wp.tile_map(nothing, t)": "tile_map: the function nothing returns nothing",
    "wp.tile_reduce(a, t)": "tile_reduce: op must be a function of the kernel language, got array",
    "wp.tile_reduce(wp.add, t, axis=2)": "tile_reduce: axis 2 is out of range",
    "wp.tile_sum(t, axis=-3)": "tile_sum: axis -3 is out of range",
    "wp.tile_load(t, shape=(2, 2))": "tile_load: a must be an array, got tile",
    "wp.tile_load(a, shape=3)": "tile_load: the tile has 1 axis, the array a has 2 axes",
    "wp.tile_load(a, shape=(2, 2), offset=3)": "tile_load: expected 2 offsets, got 1",
    "wp.tile_load(a, shape=(int(x), 2))": "tile_load: the shape of an array made in a kernel must be known",
    "wp.tile_load(a, shape=(2, 2), storage='disk')": 'tile_load: storage must be "register" or "shared", got \'disk\'',
    "wp.tile_store(a, numbers, offset=(0, 0))": "tile_store: the tile has 1 axis, the array a has 2 axes",
    "wp.tile_store(a[0], numbers)": "tile_store: a holds float32, the tile int32",
    "wp.tile_load_indexed(a, numbers, shape=(2, 3))": "tile_load_indexed: 3 indices for an axis of extent 2",
    "wp.tile_load_indexed(a, q, shape=(3, 3))": "tile_load_indexed: indices must be a tile of integers",
    "wp.tile_matmul(t, v)": "tile_matmul: some tiles are complex, others are not",
    "wp.tile_matmul(t, q)": "tile_matmul: b must have 2 axes",
    "wp.tile_matmul(t, wp.tile_ones(shape=(2, 3), dtype=float))": "tile_matmul: shapes do not fit",
    "wp.tile_cholesky_inplace(v)": "tile_cholesky_inplace: A must be a tile of floats",
    "wp.tile_cholesky(t, fill_mode='x')": 'tile_cholesky: fill_mode must be "lower" or "upper", got \'x\'',
    "wp.tile_cholesky_solve_inplace(t, x)": "tile_cholesky_solve_inplace: y must be a tile, got float32",
    "wp.tile_lower_solve_inplace(q, q)": "tile_lower_solve_inplace: L must have 2 axes",
    "wp.tile_upper_solve_inplace(t, v)": "tile_upper_solve_inplace: z must be a tile of 3",
    "wp.tile_diag_add(t, numbers)": "tile_diag_add: .* is no diagonal of",
    "wp.tile_fft(t)": "tile_fft: inout must be a tile of vec2f or vec2d",
    "wp.tile_sort(v, v)": "tile_sort: keys must be numbers",
    "wp.tile_sort(q, t)": "tile_sort: 3 keys and 9 values",
    "wp.tile_min(v)": "tile_min: expected a tile of numbers",
    "wp.tile_scan_inclusive(v)": "tile_scan_inclusive: expected a tile of numbers",
    "wp.tile_broadcast(t, shape=(2, 3))": "tile_broadcast: .* cannot be broadcast to",
    "wp.tile_reshape(t, shape=(2, -1))": "tile_reshape: .* has 9 elements",
    "wp.tile_squeeze(t, axis=0)": "tile_squeeze: axis 0 of .* has the extent 3",
    "wp.tile_view(t, offset=(0, 0))": "tile_view: 2 offsets leave no axis",
    "wp.tile_assign(t, numbers)": "tile_assign: dst holds float32, src int32",
    "wp.tile_assign(t, t, offset=(1, 0))": "tile_assign: 3 elements from 1 on are not in an axis of extent 3",
    "wp.tile_extract(t, 1)": "tile_extract: expected 2 indices",
    "wp.tile_scatter_add(t, 1, 2.0, True)": "tile_scatter_add: expected 2 indices, a value",
    "wp.tile_arange(0, 10, 0)": "tile_arange: step cannot be zero",
    "wp.tile_arange(x)": "tile_arange: bounds must be numbers that are known",
    "wp.tile_randi(3, wp.rand_init(1), min=2)": "tile_randi: expected min and max, or none",
    "wp.untile(t)": "untile: .* is no tile of one value for each thread",
    "wp.tile_stack_pop(t)": "tile_stack_pop: s must be a stack, got tile",
    "wp.tile_zeros((1000, 1000))": "take 4000144 bytes with this one; at most 262144",
}


@pytest.mark.parametrize("call", MESSAGES)
def test_messages(call):
    with pytest.raises(KernelError, match=MESSAGES[call]) as caught:
        kernel(call).specialize()
    assert caught.value.hint
    assert call in str(caught.value)
